// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/privopt/privopt/table"
	"github.com/privopt/privopt/table/npy"
)

const packHelp = `Convert a private table to a file of numbers, for tables larger than memory.

fit reads a CSV file into memory once. A .npy file, the format of numpy.save, stays on
disk: fit reads it once per pass and needs little memory, or once if it has up to 256 MiB.

With --schema, pack writes the rows as the schema encodes them. Give the same schema to
fit, which refuses one that encodes the rows differently. Without --schema, all columns
must be numbers, and pack writes them unchanged, for programs in Go or NumPy.

pack also writes FILE.npy.json, with the names of the columns and checksums: keep the two
files together. Both are written whole or not at all, and both are as private as the
table. If pack is killed, it may leave hidden files whose names contain that of the
output; they hold records, so delete them.

With "person" in the schema, pack writes no ids, but the lines that count, those of a person
beside each other, and the number of lines of its person with each. That takes about 220
bytes of memory per record.

Otherwise pack needs 15 MB of memory for a table of any size. --canonical writes the records in the
order in which fit keeps a CSV file in memory. Sums, and with --seed the model, then have
the same bits as from the CSV file. The exception is a schema of many levels, for which
memory holds only the entries that are not 0: there the last digits may differ.
--canonical writes the file twice and needs about 70 bytes of memory per record.`

type packing struct {
	schema, data, out, label          string
	float32, canonical, force, public bool
}

func (a *app) pack() *cobra.Command {
	var p packing
	c := &cobra.Command{
		Use:   "pack --schema FILE --data FILE --out FILE.npy",
		Short: "Convert a private table larger than memory to a file of numbers",
		Long:  packHelp,
		Example: `  privopt pack --schema people.json --data people.csv.gz --out people.npy
  privopt fit --schema people.json --data people.npy --epsilon 1 --out model.json
  privopt pack --data numbers.csv --label income --float32 --out numbers.npy`,
		Args: noArgs,
		RunE: a.do(func(ctx context.Context, _ []string) error { return a.doPack(ctx, &p) }),
	}
	f := c.Flags()
	f.StringVar(&p.data, "data", "", "private table `FILE`: CSV, plain or gzip, - for standard input")
	f.StringVar(&p.schema, "schema", "", "schema `FILE` by which to encode the rows, see privopt schema -h")
	f.StringVar(&p.label, "label", "", "`COLUMN` to predict, if there is no --schema (default: the last one)")
	outFlags(c, &p.out, &p.force, "`FILE` to write, and FILE.json")
	f.BoolVar(&p.float32, "float32", false, "write numbers of 7 digits, in half the space")
	f.BoolVar(&p.canonical, "canonical", false, "write the records in the order of fit's memory; needs --schema")
	f.BoolVar(&p.public, "public", false, "the table is public: error messages may show its values")
	required(c, "data", "out")
	complete(c, "label", nil)
	return c
}

// packReport is the output of pack --json.
type packReport struct {
	File    string   `json:"file"`
	Columns []string `json:"columns"`
	Label   string   `json:"label"`
	Schema  string   `json:"schema,omitempty"`
	Private bool     `json:"private"` // false: the file is not private
}

func (a *app) doPack(ctx context.Context, p *packing) error {
	switch {
	case p.out != "-" && filepath.Ext(p.out) != ".npy":
		return usagef("--out %s: want a name that ends with .npy", p.out)
	case p.schema != "" && p.label != "":
		return usagef("--label with --schema: the schema names the label")
	case p.canonical && (p.schema == "" || p.float32):
		return usagef("--canonical: want --schema with it, and not --float32")
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
		place, err := a.reserve(name, kindPacked, p.force)
		if err != nil {
			return err
		}
		defer place.abandon()
	}
	missing := []string{"NaN"}
	if e != nil {
		missing = e.Schema().Missing
	}
	in, err := a.openTable(ctx, "--data", p.data, "packing", missing)
	if err != nil {
		return err
	}
	defer in.close()
	if e != nil {
		err = p.encode(ctx, a, in, e)
	} else {
		err = p.numbers(in)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", in.name, err)
	}
	return a.reportPack(p.out)
}

func (a *app) reportPack(path string) error {
	f, err := npy.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r := packReport{File: path, Columns: f.Columns(), Label: f.Label(), Schema: f.Schema()}
	if !a.json {
		a.note("The file and its .json are as private as the table.")
	}
	_, d := f.Dims() // the number of records is private under add-remove, which fit may ask for
	return a.show(r, fmt.Sprintf("%s: records of %s\n", path, amount(d, "feature")))
}

// encode writes the rows as a schema encodes them.
func (p *packing) encode(ctx context.Context, a *app, in *input, e *table.Encoder) error {
	w, err := createPacked(p.out, e, packOptions{float32: p.float32, canonical: p.canonical})
	if err != nil {
		return usageError{err}
	}
	defer w.Close()
	o := table.Options{Public: p.public, Plain: in.plain}
	if p.public {
		o.Tally = &table.Tally{}
	}
	if err := w.addTable(in, o); err != nil {
		return err
	}
	if p.public {
		io.WriteString(a.stderr, sharesText(e.Schema(), o.Tally))
	}
	return w.Commit(ctx)
}

// numbers writes a table of numbers unchanged.
func (p *packing) numbers(in io.Reader) error {
	var (
		w     *npy.Writer
		label int
	)
	err := table.Numeric{Public: p.public}.Scan(in, func(names []string) (err error) {
		if label = len(names) - 1; p.label != "" {
			label = slices.Index(names, p.label)
		}
		if label < 0 { // names are not shown: the line may be a record
			return usagef("--label: the file has no column %q", p.label)
		}
		if w, err = npy.Create(p.out, names, npy.Options{Float32: p.float32, Label: names[label]}); err != nil {
			return usageError{err}
		}
		return nil
	}, func(row []float64) error {
		y := row[label]
		copy(row[label:], row[label+1:])
		return w.Append(row[:len(row)-1], y)
	})
	if w == nil {
		return err
	}
	defer w.Close()
	if err != nil {
		return err
	}
	return w.Commit()
}
