// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/table"
	"github.com/privopt/privopt/table/npy"
)

// isPacked reports whether --data names a .npy file. It does not look at the first bytes of the
// file, which may be those of a record.
func isPacked(path string) bool { return filepath.Ext(path) == ".npy" }

// records are a table, in memory or in a file that is to be closed.
type records struct {
	*table.Data
	close func() error
}

// openPacked opens a .npy file of the rows that e makes. With verify the whole file is compared
// with its checksums first.
func openPacked(ctx context.Context, path string, e *table.Encoder, verify bool) (*records, error) {
	f, err := npy.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("--data %s: %w", path, cause(err))
	}
	if err != nil {
		return nil, usagef("--data: %w", err)
	}
	if err = fits(f, e); err != nil {
		err = usagef("--data: %s: %w", path, err)
	} else if verify {
		err = f.Verify(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	src := erm.Pad(f, dimOf(e))
	if n, d := src.Dims(); d > 0 && n > 0 && n <= mostInMemory/d {
		if _, persons := e.Persons(); !persons {
			data, err := inMemory(ctx, src, e.Bounds())
			if err != nil {
				return nil, errors.Join(err, f.Close())
			}
			return &records{&table.Data{Records: data, Encoder: e}, f.Close}, nil
		}
	}
	return openRecords(ctx, src, f.Close, e)
}

// openRecords opens records of dimOf(e) features.
func openRecords(ctx context.Context, src erm.Source, end func() error, e *table.Encoder) (*records, error) {
	var data *erm.Data
	var err error
	if p, ok := e.Persons(); ok {
		data, err = erm.OpenCanonical(ctx, src, e.Bounds(), p)
	} else {
		data, err = erm.Open(src, e.Bounds())
	}
	if err != nil {
		return nil, errors.Join(err, end())
	}
	return &records{&table.Data{Records: data, Encoder: e}, end}, nil
}

// mostInMemory is the number of numbers up to which the rows of a file are read once, 256 MiB.
// Tests change it.
var mostInMemory = 1 << 25

// inMemory reads all records of src, which saves a third of the processor time of a fit and
// changes no bit of it.
func inMemory(ctx context.Context, src erm.Source, b loss.Bounds) (*erm.Data, error) {
	n, d := src.Dims()
	rows, labels := mat.NewDense(n, d, nil), make([]float64, n)
	const lines = 512
	for i := 0; i < n; i += lines {
		end := min(i+lines, n)
		if err := src.Read(ctx, rows.RawMatrix().Data[i*d:end*d], labels[i:end], i); err != nil {
			return nil, fmt.Errorf("%w: %w", erm.ErrSource, err)
		}
	}
	return erm.Borrow(rows, labels, b)
}

// dimOf returns the number of features of records with the encoded rows of e. With persons the
// first one is the number of lines of a record's person, see erm.OpenCanonical.
func dimOf(e *table.Encoder) int {
	if _, ok := e.Persons(); ok {
		return e.Dim() + 1
	}
	return e.Dim()
}

// columnsOf names the columns of encoded rows. The label is the last one.
func columnsOf(e *table.Encoder) []string {
	var out []string
	if _, ok := e.Persons(); ok {
		out = append(out, "(lines)")
	}
	for _, f := range e.Features() {
		out = append(out, f.Name)
	}
	return append(out, e.Schema().Label.Column)
}

// encoding is a hash of the schema without the number of records, the neighbors, the weights of
// lines and the form of the file, none of which changes an encoded row.
func encoding(e *table.Encoder) string {
	s := e.Schema()
	s.Records, s.Neighbors = 0, 0
	s.File = table.File{}
	s.Weights = ""
	h := sha256.New()
	s.WriteTo(h) // a hash has no errors
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// fits returns an error unless the columns of a file are those of e.
func fits(f *npy.File, e *table.Encoder) error {
	_, d := f.Dims()
	_, persons := e.Persons()
	switch want := encoding(e); {
	case persons && f.Columns() == nil: // a column of ones would make each line a person
		return errors.New("it has no description beside it, the .npy.json of pack: a schema with a person needs it, " +
			"because the file holds no ids; pack it with this schema")
	case f.Columns() != nil && f.Schema() == "":
		return errors.New("it was packed without a schema: pack it with this one")
	case f.Columns() != nil && f.Schema() != want:
		return errors.New("it was packed with a schema that encodes rows in another way: pack it with this one")
	case d != len(columnsOf(e))-1:
		return fmt.Errorf("it has %d features, the rows of the schema have %d", d, len(columnsOf(e))-1)
	}
	return nil
}

// packOptions of a new file.
type packOptions struct {
	float32   bool
	canonical bool // in the order of erm.Data, as always for persons; takes about 70 bytes of memory for each record
}

// packWriter writes the rows of tables to a .npy file, which appears whole with Commit or not at
// all.
type packWriter struct {
	*npy.Writer
	e       *table.Encoder
	path    string
	o       packOptions
	persons *erm.Persons // nil if every record is a unit of its own
	ids     []string     // of the records so far, for persons
}

// createPacked begins a file. A canonical one is first written to a hidden file beside it.
func createPacked(path string, e *table.Encoder, o packOptions) (w *packWriter, err error) {
	w = &packWriter{e: e, path: path, o: o}
	columns := columnsOf(e)
	if p, ok := e.Persons(); ok {
		w.persons, w.o.canonical = &p, true
		columns = columns[1:]
	}
	if w.o.canonical {
		path = w.unsorted()
		o.float32 = false
	}
	w.Writer, err = npy.Create(path, columns, npy.Options{Float32: o.float32, Schema: encoding(e)})
	return w, err
}

func (w *packWriter) unsorted() string {
	return filepath.Join(filepath.Dir(w.path), "."+filepath.Base(w.path)+".unsorted")
}

// addTable appends the rows of a table.
func (w *packWriter) addTable(in io.Reader, o table.Options) error {
	rows, err := w.e.Rows(in, o)
	if err != nil {
		return err
	}
	row := make([]float64, len(w.e.Features()))
	for rows.Next() {
		col, val := rows.Row()
		for k, j := range col {
			row[j] = val[k]
		}
		if err := w.Append(row, rows.Label()); err != nil {
			return err
		}
		for _, j := range col {
			row[j] = 0
		}
		if w.persons != nil {
			w.ids = append(w.ids, rows.ID())
		}
	}
	return rows.Err()
}

// Commit gives the finished file its name.
func (w *packWriter) Commit(ctx context.Context) (err error) {
	if !w.o.canonical {
		return w.Writer.Commit()
	}
	path := w.unsorted()
	defer func() {
		for _, name := range []string{path, path + ".json"} {
			if failed := os.Remove(name); failed != nil && !errors.Is(failed, os.ErrNotExist) {
				err = errors.Join(err, failed)
			}
		}
	}()
	if err := w.Writer.Commit(); err != nil {
		return err
	}
	f, err := npy.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	order, lines, err := w.order(ctx, f)
	if err != nil {
		return err
	}
	sorted, err := npy.Create(w.path, columnsOf(w.e), npy.Options{Float32: w.o.float32, Schema: encoding(w.e)})
	if err != nil {
		return err
	}
	defer sorted.Close()
	row, label := make([]float64, len(columnsOf(w.e))-1), make([]float64, 1)
	features := row[len(row)-len(w.e.Features()):]
	for k, i := range order {
		if err := f.Read(ctx, features, label, i); err != nil {
			return err
		}
		if lines != nil {
			row[0] = float64(lines[k])
		}
		if err := sorted.Append(row, label[0]); err != nil {
			return err
		}
	}
	return sorted.Commit()
}

// order returns the canonical order of the records of f, and for persons the numbers of their
// lines.
func (w *packWriter) order(ctx context.Context, f *npy.File) (order, lines []int, err error) {
	if w.persons != nil {
		return erm.CanonicalByPerson(ctx, identified{f, w.ids}, w.e.Bounds(), *w.persons)
	}
	order, err = erm.Canonical(ctx, f, w.e.Bounds())
	return order, nil, err
}

// identified is a file whose records have ids.
type identified struct {
	*npy.File
	ids []string
}

// ReadIDs implements erm.Identified.
func (f identified) ReadIDs(_ context.Context, ids []string, first int) error {
	copy(ids, f.ids[first:])
	return nil
}
