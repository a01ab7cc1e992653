// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/privopt/privopt/cmd/internal/screen"
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/model"
	"github.com/privopt/privopt/table"
)

// searching holds the flags of a private search for a schema.
type searching struct {
	choices               model.Discovery
	label, fields, ignore string
	delimiter, comment    string
	encoding, decimal     string
	thousands             string
	records               int
	partial               string // FILE
	person                string // COLUMN
	rows                  int
}

// flags adds the flags of a search. label is the default of --label.
func (t *searching) flags(c *cobra.Command, label string) {
	f := c.Flags()
	f.StringVar(&t.label, "label", "", "`COLUMN` to predict (default: "+label+")")
	f.StringVar(&t.delimiter, "delimiter", "", "one `CHAR` between fields, \\t for a tab (default a comma; guessed "+
		"from --public rows)")
	f.StringVar(&t.fields, "fields", "", "`NAMES` of the columns, if the file has no header line: a,b,c")
	f.StringVar(&t.comment, "comment", "", "one `CHAR` that begins a comment line (default none)")
	f.StringVar(&t.encoding, "encoding", "", "`NAME` latin-1 or windows-1252 (default UTF-8)")
	f.StringVar(&t.decimal, "decimal", "", "decimal `CHAR` of numbers, . or , (default .)")
	f.StringVar(&t.thousands, "thousands", "", "`CHAR` between groups of three digits (default none)")
	f.StringVar(&t.partial, "partial", "", "schema `FILE` of what is known, for a private search: some columns, "+
		"each with\n"+
		"\"other\": true, and the name of the label or all of it, with \"unknown\"")
	f.StringVar(&t.person, "person", "", "`COLUMN` of ids of persons, for a private search that\n"+
		"protects all lines of a person; needs --rows")
	f.IntVar(&t.rows, "rows", 0, "most lines `N` of a person that count, 1 to 1024")
	f.StringVar(&t.ignore, "ignore", "", "`NAMES` of columns that a private search leaves out: a,b,c")
	f.StringVar(&t.choices.Task, "task", "", "what the label is for, in a private search: `TASK` two-classes or number\n"+
		"(default: what its counts show)")
	f.StringVar(&t.choices.Positive, "positive", "", "`SPELLING` of the positive class of two, in a private search\n"+
		"(default: the later one)")
	complete(c, "label", nil)
	complete(c, "delimiter", []string{",", ";", "|", `\t`})
	complete(c, "encoding", []string{"latin-1", "windows-1252"})
	complete(c, "decimal", []string{".", ","})
	complete(c, "task", []string{model.TwoClasses, model.Numbers})
}

// file returns the form of the text.
func (t *searching) file() table.File {
	f := table.File{Delimiter: strings.ReplaceAll(t.delimiter, `\t`, "\t"), Comment: t.comment, Encoding: t.encoding,
		Decimal: t.decimal, Thousands: t.thousands}
	if t.fields != "" {
		f.Fields = strings.Split(t.fields, ",")
	}
	return f
}

// read reads the table whose columns are not known.
func (t *searching) read(ctx context.Context, a *app, flag, path string) (*table.Undeclared, error) {
	d := &table.Discovery{File: t.file(), Label: table.Label{Column: t.label}, Person: t.person, Rows: t.rows}
	if t.partial != "" {
		in, err := a.open(ctx, "--partial", t.partial, "")
		if err != nil {
			return nil, err
		}
		defer in.close()
		if d, err = table.ReadDiscovery(in); err != nil {
			return nil, fmt.Errorf("%s: %w", in.name, err)
		}
		if d.Label.Column != t.label || t.delimiter+t.comment+t.fields+t.encoding+t.decimal+t.thousands+t.person != "" ||
			t.rows != 0 {
			return nil, usagef("--partial names the label %s, the form of the file and persons: want --label to be the "+
				"same, and no flag about the form of the file, such as --fields or --delimiter, no --person and no --rows",
				printable(d.Label.Column))
		}
	}
	if t.ignore != "" {
		for _, name := range strings.Split(t.ignore, ",") {
			d.Declared = append(d.Declared, table.Column{Name: name, Ignore: true})
		}
	}
	in, err := a.openTable(ctx, flag, path, "reading", nil)
	if err != nil {
		return nil, err
	}
	defer in.close()
	if in.plain {
		d.File = table.File{Multiline: true}
	}
	u, err := d.Read(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in.name, err)
	}
	return u, nil
}

// prepare completes the budget of a search, opens the ledger and returns the table.
func (a *app) prepareSearch(ctx context.Context, t *fitting, flag, path string) (*table.Undeclared, error) {
	s, o := &t.search, &t.options
	if s.label == "" {
		return nil, usagef("%s without a schema needs --label COLUMN: the last column is no default, because a file "+
			"without a header line would publish its first record", flag)
	}
	o.Discover, o.Records = &s.choices, s.records
	if err := t.openLedger(); err != nil {
		return nil, err
	}
	u, err := s.read(ctx, a, flag, path)
	if err != nil {
		return nil, err
	}
	if screen.IsTerminal(a.stderr) {
		a.note("The names of these columns will be public: %s.", printable(strings.Join(u.Columns(), ", ")))
	}
	t.origin = stated
	if t.budget.Delta < 0 {
		n := s.records
		if o.Relation != dp.AddRemove { // the number of records is public
			n = u.Records()
		}
		if n == 0 && o.Relation != dp.AddRemove {
			return nil, usagef("%s has no records, want a line for each behind the header line", path)
		}
		if n == 0 {
			return nil, usagef("the default δ = 1/n₀² needs the number of records: state --records N, or --delta, such as 1e-9")
		}
		t.budget.Delta = model.DefaultDelta(n)
		t.origin = "1/n₀² for " + amount(n, unit(isByPerson(u)))
	}
	if err := t.budget.Check(); err != nil {
		return nil, err
	}
	n := s.records
	if o.Relation != dp.AddRemove {
		n = u.Records()
	}
	a.loose(t.budget, n, isByPerson(u))
	return u, nil
}

func isByPerson(u *table.Undeclared) bool {
	_, ok := u.Persons()
	return ok
}

// private finds a schema for a private table.
func (a *app) private(ctx context.Context, t *fitting, path string) error {
	u, err := a.prepareSearch(ctx, t, "--private", path)
	if err != nil {
		return err
	}
	out, err := a.create(t.out, kindSchema, t.force, 1<<16)
	if err != nil {
		return err
	}
	defer out.abandon()
	found, err := model.Discover(ctx, u, t.budget, &t.options)
	if found == nil {
		return t.spent(err)
	}
	if failed := a.deliver(out, schemaText(found)); failed != nil {
		return failed
	}
	a.searched(t, u, found)
	return uncommitted(err, t.options.Ledger, out.path)
}

func schemaText(s *table.Schema) []byte {
	var text bytes.Buffer
	s.WriteTo(&text) // a buffer has no errors
	return text.Bytes()
}

// besides names the file for a schema that a fit to out has found and cannot use.
func besides(out string) string { return out + ".schema.json" }

// searched reports what a search released.
func (a *app) searched(t *fitting, u *table.Undeclared, s *table.Schema) {
	d := s.Discovery
	what := "The search"
	if t.search.choices.Task != "" && len(t.data) > 0 {
		what = "The search and the fit together"
	}
	publish := "The schema may be published: all"
	if t.options.Source != nil {
		publish = "All"
	}
	about := ""
	if s.Person != "" {
		about = fmt.Sprintf(", for all lines of one person, of which at most %d count", s.Rows)
	}
	a.note("%s cost ε = %s, δ = %s (%s), %v neighbors%s. %s that was released is in the \"discovery\" of the "+
		"schema.", what, claim(d.Epsilon), claim(d.Delta, 3), t.origin, d.Neighbors, about,
		publish)
	for _, name := range u.Identifiers() {
		a.note("%s is ignored: its name says that it identifies rows; --partial FILE can declare it.", printable(name))
	}
	for _, c := range d.Columns {
		if c.Note != "" {
			a.note("%s is ignored: %s.", printable(c.Name), c.Note)
		}
	}
	if len(t.data) > 0 {
		a.note("Columns used: %s.", usedColumns(s))
		if l := s.Label; l.Min != nil && l.Max != nil {
			a.note("The label %s counts from %s to %s: values beyond are moved to the nearest end, and so are predictions.",
				printable(l.Column), number(*l.Min), number(*l.Max))
		}
	}
	if d.Problem != "" {
		a.note("No model can be fitted yet: %s. The budget counts as spent.", d.Problem)
	}
	if t.options.Source != nil {
		a.note("NOT PRIVATE: anyone who guesses --seed can reproduce the noise. Use this schema for tests only.")
	}
}

// usedColumns lists the columns of a schema that are not ignored, with their ranges and levels.
func usedColumns(s *table.Schema) string {
	var list []string
	for _, c := range s.Columns {
		switch {
		case c.Ignore:
		case len(c.Levels) > 0:
			levels := strings.Join(c.Levels[:min(len(c.Levels), 4)], ", ")
			if more := len(c.Levels) - 4; more > 0 {
				levels += fmt.Sprintf(" and %d more", more)
			}
			list = append(list, printable(fmt.Sprintf("%s (%s)", c.Name, levels)))
		case c.Min != nil && c.Max != nil:
			list = append(list, printable(fmt.Sprintf("%s (%s to %s)", c.Name, number(*c.Min, 4), number(*c.Max, 4))))
		default:
			list = append(list, printable(c.Name))
		}
	}
	return cmp.Or(strings.Join(list, "; "), "none")
}

// fitUndeclared fits without a schema.
func (a *app) fitUndeclared(ctx context.Context, t *fitting) error {
	switch {
	case t.search.label == "" || t.search.choices.Task == "":
		return usagef("a fit needs --schema FILE, or --label COLUMN and --task to find a schema privately; see privopt " +
			"fit -h")
	case len(t.data) != 1 || isPacked(t.data[0]):
		return usagef("a fit without --schema needs one CSV table as --data")
	}
	if err := t.choices(); err != nil {
		return err
	}
	u, err := a.prepareSearch(ctx, t, "--data", t.data[0])
	if err != nil {
		return err
	}
	out, err := a.create(t.out, kindModel, t.force, 1<<20)
	if err != nil {
		return err
	}
	defer out.abandon()
	spare := &output{} // none for standard output
	if out.file != nil {
		if spare, err = a.create(besides(t.out), kindSchema, t.force, 1<<16); err != nil {
			return err
		}
		defer spare.abandon()
	}
	end := screen.Spin(a.stderr, "searching and fitting")
	m, found, err := model.FitUndeclared(ctx, u, t.budget, &t.options)
	end()
	if m == nil && found != nil { // no model, but a schema that was paid for
		if spare.file == nil {
			return a.rescue(err, schemaText(found))
		}
		if failed := a.deliver(spare, schemaText(found)); failed != nil {
			return failed
		}
		return noted{err, "the schema that was found is in " + spare.path + ", and its budget counts as spent"}
	}
	t.schema = found
	size, err := a.save(t, m, out, err)
	if err != nil {
		return err
	}
	a.searched(t, u, found)
	data, err := u.Data(found)
	if err != nil {
		return err
	}
	return a.report(t, m, data, size)
}
