package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/npy"
	"github.com/privopt/privopt/table"
)

const packHelp = `Write a private table as numbers, for records that memory does not hold.

fit reads a CSV into memory once. A .npy file, as numpy.save writes, stays on disk: fit
reads it in every pass, with little memory. With --schema the numbers are the encoded
rows of the schema, which fit then has to be given too; a schema that encodes otherwise
is refused. Without it all columns must be numbers, and stay as they are: for programs
in Go or NumPy, and for schemas of which the columns are the encoded ones.

Beside out.npy stands out.npy.json with the names of the columns and checksums: keep
them together. Both appear whole or not at all, and are as private as the table. A pack
that is killed may leave hidden files with out.npy in their names: they hold records,
delete them.

--canonical writes the records in the order in which fit keeps them in memory, so that
sums, and with --seed the model, have the same bits as from the CSV. It writes the file twice and
takes about 70 bytes of memory for each record. Else memory is 15 MB, whatever the size.`

type packing struct {
	schema, data, out, label          string
	float32, canonical, force, public bool
}

func (a *app) pack() *cobra.Command {
	var p packing
	c := &cobra.Command{
		Use:   "pack --schema FILE --data FILE --out FILE.npy",
		Short: "Write a private table as a file for records larger than memory",
		Long:  packHelp,
		Example: `  privopt pack --schema people.json --data people.csv.gz --out people.npy
  privopt fit --schema people.json --data people.npy --epsilon 1 --out model.json
  privopt pack --data numbers.csv --label income --float32 --out numbers.npy`,
		Args: noArgs,
		RunE: a.do(func(ctx context.Context, _ []string) error { return a.doPack(ctx, &p) }),
	}
	f := c.Flags()
	f.StringVar(&p.data, "data", "", "private table `FILE`, CSV or gzip of it, - for standard input")
	f.StringVar(&p.schema, "schema", "", "schema `FILE` that encodes the rows, see privopt schema -h")
	f.StringVar(&p.label, "label", "", "`COLUMN` to predict, without --schema (default: the last one)")
	outFlags(c, &p.out, &p.force, "`FILE` to write, and FILE.json")
	f.BoolVar(&p.float32, "float32", false, "half the bytes: numbers of 7 digits")
	f.BoolVar(&p.canonical, "canonical", false, "the order that records have in memory; wants --schema")
	f.BoolVar(&p.public, "public", false, "the table is public: error messages may show its values")
	required(c, "data", "out")
	complete(c, "label", nil)
	return c
}

// packed is what pack --json prints.
type packed struct {
	File    string   `json:"file"`
	Columns []string `json:"columns"`
	Label   string   `json:"label"`
	Schema  string   `json:"schema,omitempty"`
	Private bool     `json:"private"` // false: the file is not private
}

func (a *app) doPack(ctx context.Context, p *packing) error {
	switch {
	case p.schema == "-" && p.data == "-":
		return usagef("--schema and --data are both standard input: want a file for one of them")
	case p.out != "-" && filepath.Ext(p.out) != ".npy":
		return usagef("--out %s: want a name that ends with .npy; its description gets the same name and .json", p.out)
	case p.schema != "" && p.label != "":
		return usagef("--label with --schema: the schema names the label")
	case p.canonical && (p.schema == "" || p.float32):
		return usagef("--canonical is for the numbers that a schema makes, in full: want --schema, and not --float32")
	}
	var e *table.Encoder
	if p.schema != "" {
		s, err := a.readSchema(ctx, p.schema)
		if err != nil {
			return err
		}
		if e, err = s.Encoder(); err != nil {
			return err
		}
	}
	for _, name := range []string{p.out, p.out + ".json"} {
		place, err := a.claim(name, p.force)
		if err != nil {
			return err
		}
		defer place.abandon()
	}
	in, err := a.open(ctx, "--data", p.data, "packing")
	if err != nil {
		return err
	}
	defer in.close()
	var w *npy.Writer
	if e != nil {
		w, err = p.encode(in, e)
	} else {
		w, err = p.numbers(in)
	}
	if w != nil {
		defer w.Close()
	}
	if err == nil && p.canonical {
		err = p.sort(ctx, w, e)
	} else if err == nil {
		err = w.Commit()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", in.name, err)
	}
	return a.packed(p.out)
}

func (a *app) packed(path string) error {
	f, err := npy.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r := packed{File: path, Columns: f.Columns(), Label: f.Label(), Schema: f.Schema()}
	if !a.json {
		a.note("The file and its .json are as private as the table.")
	}
	_, d := f.Dims() // the number of records is private under add-remove, which fit may ask for
	return a.show(r, fmt.Sprintf("%s: records of %s\n", path, amount(d, "feature")))
}

// create begins the file; for --canonical another one beside it, to be sorted.
func (p *packing) create(columns []string, label, schema string) (*npy.Writer, error) {
	path := p.out
	if p.canonical {
		path = unsorted(path)
	}
	w, err := npy.Create(path, columns, npy.Options{Float32: p.float32, Label: label, Schema: schema})
	if err != nil {
		return nil, usageError{err}
	}
	return w, nil
}

func unsorted(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".unsorted")
}

// encode writes the rows that a schema makes of the table.
func (p *packing) encode(in io.Reader, e *table.Encoder) (*npy.Writer, error) {
	rows, err := e.Rows(in, table.Options{Public: p.public})
	if err != nil {
		return nil, err
	}
	w, err := p.create(encodedColumns(e), "", encoding(e))
	if err != nil {
		return nil, err
	}
	row := make([]float64, len(e.Features()))
	for rows.Next() {
		col, val := rows.Row()
		for k, j := range col {
			row[j] = val[k]
		}
		if err := w.Append(row, rows.Label()); err != nil {
			return w, err
		}
		for _, j := range col {
			row[j] = 0
		}
	}
	return w, rows.Err()
}

// encodedColumns names the columns of encoded rows. The label is the last one.
func encodedColumns(e *table.Encoder) []string {
	var out []string
	for _, f := range e.Features() {
		out = append(out, f.Name)
	}
	return append(out, e.Schema().Label.Column)
}

// encoding is a hash of what a schema makes of a row: how many records it declares, what it hides
// and how its file looks does not matter.
func encoding(e *table.Encoder) string {
	s := e.Schema()
	s.Records, s.Neighbors, s.File = 0, 0, table.File{}
	h := sha256.New()
	s.WriteTo(h) // a hash has no errors
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// numbers writes a table of numbers as it is.
func (p *packing) numbers(in io.Reader) (w *npy.Writer, err error) {
	var label int
	err = table.Numeric{Header: true, Public: p.public}.Scan(in, func(names []string) (err error) {
		if label = len(names) - 1; p.label != "" {
			label = slices.Index(names, p.label)
		}
		if label < 0 { // names are not shown: the line may be a record
			return usagef("--label: the file has no column %q", p.label)
		}
		w, err = p.create(names, names[label], "")
		return err
	}, func(row []float64) error {
		y := row[label]
		copy(row[label:], row[label+1:])
		return w.Append(row[:len(row)-1], y)
	})
	return w, err
}

// sort writes the records of w again, in canonical order, and removes them.
func (p *packing) sort(ctx context.Context, w *npy.Writer, e *table.Encoder) (err error) {
	path := unsorted(p.out)
	defer func() {
		for _, name := range []string{path, path + ".json"} {
			if failed := os.Remove(name); failed != nil && !errors.Is(failed, os.ErrNotExist) {
				err = errors.Join(err, failed)
			}
		}
	}()
	if err := w.Commit(); err != nil {
		return err
	}
	f, err := npy.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	order, err := erm.Canonical(ctx, f, e.Bounds())
	if err != nil {
		return err
	}
	sorted, err := npy.Create(p.out, encodedColumns(e), npy.Options{Schema: encoding(e)})
	if err != nil {
		return err
	}
	defer sorted.Close()
	row, label := make([]float64, len(e.Features())), make([]float64, 1)
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
