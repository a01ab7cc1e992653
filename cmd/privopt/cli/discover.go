// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/privopt/privopt/model"
	"github.com/privopt/privopt/table"
)

// searching holds the flags of a private search for a schema.
type searching struct {
	choices                 model.Discovery
	label, fields, ignore   string
	delimiter, comment      string
	records                 int
	missing                 []string
	found                   *table.Undeclared
}

func (t *searching) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&t.choices.Task, "task", "", "what the label is for: `TASK` two-classes or number (default: what its "+
		"counts show)")
	f.StringVar(&t.choices.Positive, "positive", "", "`SPELLING` of the positive class of two (default: the later one)")
	f.StringVar(&t.ignore, "ignore", "", "`NAMES` of columns to leave out: a,b,c")
	f.StringVar(&t.comment, "comment", "", "one `CHAR` that begins a comment line (default none)")
	complete(c, "task", model.Tasks())
}

// read reads the table whose columns are not known.
func (t *searching) read(ctx context.Context, a *app, flag, path string) (*table.Undeclared, error) {
	d := table.Discovery{Missing: t.missing}
	d.Label.Column = t.label
	d.File.Delimiter = strings.ReplaceAll(t.delimiter, `\t`, "\t")
	d.File.Comment = t.comment
	if t.fields != "" {
		d.File.Fields = strings.Split(t.fields, ",")
	}
	if t.ignore != "" {
		for _, name := range strings.Split(t.ignore, ",") {
			d.Declared = append(d.Declared, table.Column{Name: name, Ignore: true})
		}
	}
	in, err := a.open(ctx, flag, path, "reading")
	if err != nil {
		return nil, err
	}
	defer in.close()
	u, err := d.Read(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in.name, err)
	}
	return u, nil
}

// private finds a schema for a private table, within the budget of t.
func (a *app) private(ctx context.Context, t *fitting, s *searching, path, out string) error {
	if s.label == "" {
		return usagef("--private needs --label COLUMN: the last column is no default, because a file without a header " +
			"line would publish its first record")
	}
	o := &t.options
	o.Discover = &s.choices
	o.Records = s.records
	if err := t.source(); err != nil {
		return err
	}
	if t.ledger != "" {
		l, err := openLedger("--ledger", t.ledger)
		if err != nil {
			return err
		}
		o.Ledger, t.entries = l, len(l.Entries())
	}
	u, err := s.read(ctx, a, "--private", path)
	if err != nil {
		return err
	}
	if err := t.discoveryDelta(u, s.records); err != nil {
		return err
	}
	file, err := a.create(out, t.force, 0)
	if err != nil {
		return err
	}
	defer file.abandon()
	found, err := model.Discover(ctx, u, t.budget, o)
	if err != nil {
		return t.spent(err)
	}
	if _, err := found.WriteTo(file); err != nil {
		return t.spent(err)
	}
	if err := file.commit(); err != nil {
		return t.spent(err)
	}
	a.searched(found, t)
	return nil
}

var _ io.Writer
