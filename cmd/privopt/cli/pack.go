package cli

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/privopt/privopt/internal/packed"
	"github.com/privopt/privopt/table"
	"github.com/privopt/privopt/table/npy"
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
sums, and with --seed the model, have the same bits as from the CSV (not where memory keeps
only the entries that are not 0, as it does for schemas of many levels: then the last digits
may differ). It writes the file twice and takes about 70 bytes of memory for each record. Else
memory is 15 MB, whatever the size.`

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

// packReport is what pack --json prints.
type packReport struct {
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
	if e != nil {
		err = p.encode(ctx, in, e)
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

// encode writes the rows that a schema makes of the table.
func (p *packing) encode(ctx context.Context, in io.Reader, e *table.Encoder) error {
	w, err := packed.Create(p.out, e, packed.Options{Float32: p.float32, Canonical: p.canonical})
	if err != nil {
		return usageError{err}
	}
	defer w.Close()
	if err := w.Add(in, table.Options{Public: p.public}); err != nil {
		return err
	}
	return w.Commit(ctx)
}

// numbers writes a table of numbers as it is.
func (p *packing) numbers(in io.Reader) error {
	var (
		w     *npy.Writer
		label int
	)
	err := table.Numeric{Header: true, Public: p.public}.Scan(in, func(names []string) (err error) {
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
