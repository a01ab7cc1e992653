// Package packed ties .npy files to a schema: it writes the rows that the schema encodes, and
// refuses files that hold other rows. The commands privopt and privopt-beam share it.
package packed

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/table"
	"github.com/privopt/privopt/table/npy"
)

// Columns names the columns of encoded rows. The label is the last one.
func Columns(e *table.Encoder) []string {
	var out []string
	for _, f := range e.Features() {
		out = append(out, f.Name)
	}
	return append(out, e.Schema().Label.Column)
}

// encoding is a hash of the schema without the number of records, the neighbors and the form of the
// file, none of which changes an encoded row.
func encoding(e *table.Encoder) string {
	s := e.Schema()
	s.Records, s.Neighbors, s.File = 0, 0, table.File{}
	h := sha256.New()
	s.WriteTo(h) // a hash has no errors
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// Check returns an error unless the columns of a file are those of e.
func Check(f *npy.File, e *table.Encoder) error {
	_, d := f.Dims()
	switch want := encoding(e); {
	case f.Columns() != nil && f.Schema() == "":
		return errors.New("it was packed without a schema: pack it with this one")
	case f.Columns() != nil && f.Schema() != want:
		return errors.New("it was packed with a schema that encodes rows in another way: pack it with this one")
	case d != len(e.Features()):
		return fmt.Errorf("it has %d features, the rows of the schema have %d", d, len(e.Features()))
	}
	return nil
}

// Pad returns a source of dim features: those of src, then zeros. Package loss needs rows as long
// as θ, which has a block of features for each class of the label.
func Pad(src erm.Source, dim int) erm.Source {
	if _, d := src.Dims(); d >= dim {
		return src
	}
	return padding{src, dim}
}

type padding struct {
	src erm.Source
	dim int
}

func (p padding) Dims() (records, features int) { n, _ := p.src.Dims(); return n, p.dim }

func (p padding) Read(ctx context.Context, rows, labels []float64, first int) error {
	_, d := p.src.Dims()
	if err := p.src.Read(ctx, rows[:d*len(labels)], labels, first); err != nil {
		return err
	}
	for i := len(labels) - 1; i >= 0; i-- { // from the last row, so that none is overwritten before it moves
		row := rows[i*p.dim : (i+1)*p.dim]
		copy(row, rows[i*d:(i+1)*d])
		clear(row[d:])
	}
	return nil
}

// Options of a new file.
type Options struct {
	Float32   bool
	Canonical bool // in the order of erm.Data; takes about 70 bytes of memory for each record
}

// Writer writes the rows of tables to a .npy file, which appears whole with Commit or not at all.
type Writer struct {
	*npy.Writer
	e    *table.Encoder
	path string
	o    Options
}

// Create begins a file. A canonical one is first written to a hidden file beside it.
func Create(path string, e *table.Encoder, o Options) (w *Writer, err error) {
	w = &Writer{e: e, path: path, o: o}
	if o.Canonical {
		path = w.unsorted()
	}
	w.Writer, err = npy.Create(path, Columns(e), npy.Options{Float32: o.Float32, Schema: encoding(e)})
	return w, err
}

func (w *Writer) unsorted() string {
	return filepath.Join(filepath.Dir(w.path), "."+filepath.Base(w.path)+".unsorted")
}

// Add appends the rows of a table.
func (w *Writer) Add(in io.Reader, o table.Options) error { return w.add(w.e, in, o) }

// AddPlain appends the rows of a table that does not have the form which the schema gives for
// files, but commas, a header line, no comments, and fields in quotes that may hold line ends.
func (w *Writer) AddPlain(in io.Reader, o table.Options) error {
	s := w.e.Schema()
	s.File = table.File{Multiline: true}
	e, err := s.Encoder()
	if err != nil {
		return err
	}
	return w.add(e, in, o)
}

func (w *Writer) add(e *table.Encoder, in io.Reader, o table.Options) error {
	rows, err := e.Rows(in, o)
	if err != nil {
		return err
	}
	row := make([]float64, len(e.Features()))
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
	}
	return rows.Err()
}

// Commit gives the finished file its name.
func (w *Writer) Commit(ctx context.Context) (err error) {
	if !w.o.Canonical {
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
	order, err := erm.Canonical(ctx, f, w.e.Bounds())
	if err != nil {
		return err
	}
	sorted, err := npy.Create(w.path, Columns(w.e), npy.Options{Float32: w.o.Float32, Schema: encoding(w.e)})
	if err != nil {
		return err
	}
	defer sorted.Close()
	row, label := make([]float64, len(w.e.Features())), make([]float64, 1)
	for _, i := range order {
		if err := f.Read(ctx, row, label, i); err != nil {
			return err
		}
		if err := sorted.Append(row, label[0]); err != nil {
			return err
		}
	}
	return sorted.Commit()
}
