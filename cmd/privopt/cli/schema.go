// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/privopt/privopt/cmd/internal/adult"
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/prefix"
	"github.com/privopt/privopt/table"
)

func (a *app) schema() *cobra.Command {
	var (
		o                       table.Schema
		public, example, fields string
		out                     = "-"
		records                 int
		neighbors               dp.Relation
		force                   bool
	)
	c := &cobra.Command{
		Use:   "schema --public FILE [flags]",
		Short: "Draft a schema from public rows, or print an example",
		Long: `Draft a schema, the public description of a table, from rows that are public.

A schema lists the columns, with the range of each number and the levels of each category,
the label to predict, and the number of records. A number outside its range is moved to
the nearest end; an undeclared level becomes the level "other". The whole schema is
published with the model, so it must not be learned from the private table: use a
published sample, a code book, or made-up rows, and edit the draft. Check every range and
level against public knowledge. Check --records too, the public size of the private table:
the noise and the default of delta follow from it.`,
		Example: `  privopt schema --public sample.csv --label income --records 30000 > people.json
  privopt schema --public sample.csv --delimiter ";" --fields age,job,income > people.json
  privopt schema --example adult > adult.json`,
		Args: noArgs,
		RunE: a.do(func(ctx context.Context, _ []string) error {
			if (public == "") == (example == "") {
				return usagef("want --public FILE with public rows, or --example adult")
			}
			if example != "" {
				if example != "adult" {
					return usagef("--example %q: the one example is adult, for the Adult (Census Income) data", example)
				}
				return a.write(out, force, func(w io.Writer) error { _, err := io.WriteString(w, adult.Schema); return err })
			}
			o.File.Delimiter = strings.ReplaceAll(o.File.Delimiter, `\t`, "\t")
			if fields != "" {
				o.File.Fields = strings.Split(fields, ",")
			}
			in, err := a.open(ctx, "--public", public, "reading")
			if err != nil {
				return err
			}
			defer in.close()
			s, err := table.Draft(in, o)
			if err != nil {
				return fmt.Errorf("%s: %w", in.name, err)
			}
			s.Records, s.Neighbors = records, neighbors
			if err := s.Check(); err != nil {
				return err
			}
			if err := a.write(out, force, func(w io.Writer) error { _, err := s.WriteTo(w); return err }); err != nil {
				return err
			}
			a.note("This draft shows values of the rows, which must be public. Check the ranges and levels of each "+
				"column,%s and which label is positive.", undeclared(records))
			return nil
		}),
	}
	f := c.Flags()
	f.StringVar(&public, "public", "", "table `FILE` of public rows, - for standard input")
	f.StringVar(&example, "example", "", "print the schema of an example, `NAME` adult")
	f.StringVar(&o.Label.Column, "label", "", "`COLUMN` to predict (default: the last one)")
	f.IntVar(&records, "records", 0, "public number `N` of records of the private table")
	neighborsFlag(c, &neighbors, 0,
		"`KIND` replace (hides the values of a record) or add-remove (also hides whether it\nis there) (default replace)")
	f.StringVar(&o.File.Delimiter, "delimiter", "", "one `CHAR` between fields, \\t for a tab (default a comma)")
	f.StringVar(&fields, "fields", "", "`NAMES` of the columns, if the file has no header line: a,b,c")
	outFlags(c, &out, &force, "`FILE` to write, - for standard output")
	complete(c, "label", nil)
	complete(c, "example", []string{"adult"})
	complete(c, "delimiter", []string{",", ";", "|", `\t`})
	return c
}

// neighborsFlag adds --neighbors with the default unset.
func neighborsFlag(c *cobra.Command, r *dp.Relation, unset dp.Relation, usage string) {
	*r = unset
	c.Flags().Var(relation{r}, "neighbors", usage)
	complete(c, "neighbors", []string{dp.Replace.String(), dp.AddRemove.String()})
}

// relation is the value of --neighbors.
type relation struct{ *dp.Relation }

func (r relation) Type() string { return "kind" }

func (r relation) String() string {
	if r.Relation == nil || *r.Relation == 0 {
		return ""
	}
	return r.Relation.String()
}

func (r relation) Set(text string) error {
	if err := r.UnmarshalText([]byte(text)); err != nil {
		return errors.New(prefix.Strip(err))
	}
	return nil
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
	in, err := a.open(ctx, "--schema", path, "")
	if err != nil {
		return nil, err
	}
	defer in.close()
	s, err := table.ReadSchema(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in.name, err)
	}
	return s, nil
}
