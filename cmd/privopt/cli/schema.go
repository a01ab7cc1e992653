// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/privopt/privopt/cmd/internal/adult"
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/table"
)

func (a *app) schema() *cobra.Command {
	var (
		o                        table.Schema
		public, example, private string
		t                        = fitting{out: "-"}
	)
	c := &cobra.Command{
		Use:   "schema --public FILE [flags]",
		Short: "Draft a schema from public rows, or find one privately",
		Long: `Draft a schema, the public description of a table, from rows that are public.

A schema lists the columns, with the range of each number and the levels of each category,
the label to predict, and the number of records. A number outside its range is moved to
the nearest end; an undeclared level becomes the level "other". The whole schema is
published with the model, so it must not be learned from the private table: use a
published sample, a code book, or made-up rows, and edit the draft. Check every range and
level against public knowledge. Check --records too, the public size of the private table:
the noise and the default of delta follow from it.

A draft says of each column what it saw and did. It guesses the delimiter, the encoding,
decimal commas and dates from the public rows; for a private table they are declared:

  schema   schema, records, neighbors, person, rows, weights, intercept, missing, file,
           label, columns, discovery
  file     fields, delimiter, comment, multiline, encoding, decimal, thousands
  label    column, positive, negative, levels, min, max, unknown
  columns  name, min, max, bins, date, levels, other, missing, reference, cross, weight,
           ignore

docs/schema.md explains each of these keys with an example.

Where nothing is known, --private finds a schema from the private table itself: noisy counts
of fields, spellings and numbers cost the budget --epsilon, and the schema follows from
them. It needs thousands of records. The names in the header line, the delimiter and the
spellings of a missing value ("", ?, NA, NaN) are public, and a level that few records have
becomes "other". privopt fit without --schema does both steps for one budget.`,
		Example: `  privopt schema --public sample.csv --label income --records 30000 > people.json
  privopt schema --public sample.csv --delimiter ";" --fields age,job,income > people.json
  privopt schema --private people.csv --label income --epsilon 0.1 > people.json
  privopt schema --example adult > adult.json`,
		Args: noArgs,
		RunE: a.do(func(ctx context.Context, _ []string) error {
			if n := len(slices.DeleteFunc([]string{public, private, example}, func(s string) bool { return s == "" })); n != 1 {
				return usagef("want --public FILE with public rows, or --private FILE, or --example adult")
			}
			if private != "" {
				return a.private(ctx, &t, private)
			}
			if example != "" {
				if example != "adult" {
					return usagef("--example %q: the one example is adult, for the Adult (Census Income) data", example)
				}
				return a.write(t.out, kindSchema, t.force, func(w io.Writer) error {
					_, err := io.WriteString(w, adult.Schema)
					return err
				})
			}
			if t.search.person != "" || t.search.rows != 0 {
				return usagef("--person and --rows are for --private: add \"person\" and \"rows\" to a draft by hand")
			}
			o.File, o.Label.Column = t.search.file(), t.search.label
			in, err := a.openTable(ctx, "--public", public, "reading", nil)
			if err != nil {
				return err
			}
			defer in.close()
			if in.plain {
				o.File = table.File{Delimiter: ",", Decimal: "."}
			}
			s, notes, err := table.Draft(in, o)
			if err != nil {
				return fmt.Errorf("%s: %w", in.name, err)
			}
			if in.plain {
				s.File = table.File{} // of the text that its rows were read as
			}
			s.Records, s.Neighbors = t.search.records, t.options.Relation
			if err := s.Check(); err != nil {
				return err
			}
			err = a.write(t.out, kindSchema, t.force, func(w io.Writer) error { _, err := s.WriteTo(w); return err })
			if err != nil {
				return err
			}
			for _, note := range notes {
				a.note("%s", printable(note))
			}
			a.note("This draft shows values of the rows, which must be public. Check the ranges and levels of each "+
				"column,%s and which label is positive.", undeclared(s.Records))
			return nil
		}),
	}
	f := c.Flags()
	f.StringVar(&public, "public", "", "table `FILE` of public rows, - for standard input")
	f.StringVar(&private, "private", "", "private table `FILE` to find a schema for, - for standard input")
	f.StringVar(&example, "example", "", "print the schema of an example, `NAME` adult")
	t.search.flags(c, "the last one; needed by --private")
	f.IntVar(&t.search.records, "records", 0, "public number `N` of records of the private table")
	neighborsFlag(c, &t.options.Relation, 0,
		"`KIND` replace (hides the values of a record) or add-remove (also hides whether it\nis there) (default replace)")
	f.Float64Var(&t.budget.Epsilon, "epsilon", 0, "privacy budget `E` of --private")
	f.Float64Var(&t.budget.Delta, "delta", -1, "privacy budget `D` of --private (default 1/n₀² for n₀ records)")
	f.StringVar(&t.ledger, "ledger", "", "charge the budget of --private to the ledger `FILE`")
	f.StringVar(&t.seed, "seed", "", "draw reproducible noise from the seed `N`; the schema is NOT PRIVATE")
	outFlags(c, &t.out, &t.force, "`FILE` to write, - for standard output")
	complete(c, "example", []string{"adult"})
	return c
}

// neighborsFlag adds --neighbors with the default unset.
func neighborsFlag(c *cobra.Command, r *dp.Relation, unset dp.Relation, usage string) {
	c.Flags().TextVar(r, "neighbors", unset, usage)
	complete(c, "neighbors", []string{dp.Replace.String(), dp.AddRemove.String()})
}

func undeclared(records int) string {
	if records > 0 {
		return ""
	}
	return ` "records", which is not declared yet,`
}

func outFlags(c *cobra.Command, out *string, force *bool, usage string) {
	c.Flags().StringVar(out, "out", *out, usage)
	c.Flags().BoolVar(force, "force", false, "replace the file of --out if it exists")
}

// complete offers words for a flag to the shell; nil offers nothing, not even names of files.
func complete(c *cobra.Command, flag string, words []string) {
	err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err)
	}
}

// required marks flags as required.
func required(c *cobra.Command, flags ...string) {
	for _, f := range flags {
		if err := c.MarkFlagRequired(f); err != nil {
			panic(err)
		}
	}
}

func (a *app) readSchema(ctx context.Context, path string) (*table.Schema, error) {
	text, name, err := a.readFile(ctx, "--schema", path, kindSchema, "a schema, see privopt schema -h")
	if err != nil {
		return nil, err
	}
	s, err := table.ReadSchema(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}
