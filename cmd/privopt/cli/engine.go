// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"flag"
	"io"

	"github.com/spf13/cobra"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/table"
	"github.com/privopt/privopt/table/npy"
)

// Engine is a program that fits as privopt fit does, but adds up the records in its own way.
type Engine struct {
	Name, Short, Long, Example string
	// Flags are added to the flags of privopt fit.
	Flags *flag.FlagSet
	// Data describes the flag --data.
	Data string
	// Start receives the arguments after "--" before any file is read.
	Start func(args []string) error
	// Open returns the records of a table, with Table.Dim features, and a function that closes them.
	Open func(ctx context.Context, t *Table) (src erm.Source, end func() error, err error)
}

// Table is the private table of a fit.
type Table struct {
	Files   []string // the values of --data
	Encoder *table.Encoder
}

// Columns names the columns of encoded rows. The label is the last one.
func (t *Table) Columns() []string { return columnsOf(t.Encoder) }

// Hash identifies the encoding of the rows, as in the sidecars of packed files.
func (t *Table) Hash() string { return encoding(t.Encoder) }

// Dim returns the number of features of a record, which for classes exceeds that of the columns.
func (t *Table) Dim() int { return dimOf(t.Encoder) }

// Check returns an error unless the columns of a .npy file are those of encoded rows.
func (t *Table) Check(f *npy.File) error { return fits(f, t.Encoder) }

// Run fits and returns the exit code.
func (e *Engine) Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr}
	t := fitting{engine: e}
	c := &cobra.Command{
		Use:     e.Name + " --schema FILE --data FILE --epsilon E --out FILE [-- FLAGS]",
		Short:   e.Short,
		Long:    e.Long,
		Example: e.Example,
		Args: func(c *cobra.Command, args []string) error {
			if end := c.ArgsLenAtDash(); end >= 0 {
				args = args[:end]
			}
			return noArgs(c, args)
		},
		RunE: a.do(func(ctx context.Context, args []string) error {
			if err := e.Start(args); err != nil {
				return err
			}
			return a.doFit(ctx, &t)
		}),
	}
	a.prepare(c)
	c.CompletionOptions.DisableDefaultCmd = true
	c.Flags().SortFlags = false
	t.flags(c, e.Data)
	c.Flags().AddGoFlagSet(e.Flags)
	return a.execute(ctx, c, args)
}
