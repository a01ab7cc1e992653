// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package table

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/privopt/privopt/dp"
)

// Discovery reads a table whose columns are not known, for a private search for a schema, as
// model.Discover does it. All its fields are public. Names in the header line are public too.
type Discovery struct {
	File File
	// Label names the column of the label, because the header line may be a record. It needs no search
	// with its spellings, levels or range, and Unknown.
	Label   Label
	Missing []string // spellings of a missing value; nil means "", "?", "NA" and "NaN"
	// Declared lists columns that need no search, with "other" unless they are ignored.
	Declared []Column
	// Person, Rows and Weights are those of a Schema: with them the unit of privacy is a person.
	Person  string
	Rows    int
	Weights string
}

// ReadDiscovery reads what is known of a table: a schema that may leave out columns and everything
// of the label but its name. Records, Neighbors and Intercept of it have no meaning here. The error
// wraps ErrSchema.
func ReadDiscovery(partial io.Reader) (*Discovery, error) {
	s, err := readSchema(partial)
	if err != nil {
		return nil, err
	}
	for i, c := range s.Columns {
		if c.Cross != nil {
			return nil, bad(fmt.Sprintf("columns[%d].cross", i), "a search has no interactions, want them in a whole schema")
		}
	}
	d := &Discovery{File: s.File, Label: s.Label, Missing: s.Missing, Declared: s.Columns, Person: s.Person, Rows: s.Rows,
		Weights: s.Weights}
	complete := *d
	complete.complete()
	if err := complete.check(); err != nil {
		return nil, err
	}
	return d, nil
}

// complete sets the defaults of Missing.
func (d *Discovery) complete() {
	if d.Missing == nil {
		d.Missing = []string{"", "?", "NA", "NaN"}
	}
	if !slices.Contains(d.Missing, "") { // a level "" would be no valid schema
		d.Missing = append([]string{""}, d.Missing...)
	}
}

// mostSpelling is the length of a field in bytes from which on it counts as missing.
const mostSpelling = 256

// Undeclared is a table in memory whose columns are not known. Its methods other than Columns and
// Schema are not private: they return functions of the records.
type Undeclared struct {
	d           Discovery
	text        []byte
	names       []string // of all columns
	person      int      // the column of ids, -1 for none
	identifiers []string
	columns     []undeclared
	units       int // records, or persons with an id
}

// Format prints no field, by any verb.
func (Undeclared) Format(f fmt.State, _ rune) { io.WriteString(f, "table.Undeclared") }

// undeclared holds the fields of a column to discover.
type undeclared struct {
	name    string
	at      int
	kinds   [4]int64
	numbers []float64
	weights []int64          // of the numbers, nil if all are 1
	spelled map[string]int64 // of text, and of the numbers of a label
}

// Read reads the table and checks its form, before anything is spent. Every line behind the header
// is one record; an empty line and a comment are records whose fields are all missing. The error
// wraps ErrTable or ErrSchema. It shows no field and no name that the caller did not give.
func (d Discovery) Read(r io.Reader) (*Undeclared, error) {
	d.complete()
	if err := d.check(); err != nil {
		return nil, err
	}
	if r == nil {
		return nil, wrong("the reader is nil")
	}
	content, err := io.ReadAll(r)
	if err != nil {
		return nil, wrong("%w", cutOff(err))
	}
	u := &Undeclared{d: d, text: content}
	t, err := d.File.text(bytes.NewReader(content), false)
	if err != nil {
		return nil, err
	}
	t.single = !d.File.Multiline
	if err := u.header(t); err != nil {
		return nil, err
	}
	missing := map[string]bool{}
	for _, m := range d.Missing {
		missing[m] = true
	}
	if u.person >= 0 {
		return u, u.readPersons(t, missing)
	}
	return u, u.lines(t, func(fields [][]byte) {
		u.units++
		u.add(fields, missing, 1)
	})
}

// lines calls f with the fields of every line behind the header, none for an empty one.
func (u *Undeclared) lines(t *text, f func(fields [][]byte)) error {
	t.every, t.ended = true, true
	for {
		fields, err := t.next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case len(fields) != 0 && len(fields) != len(u.names):
			return wrong("line %d: %s, want %d; quote fields that contain %q", t.line, count(len(fields), "field"),
				len(u.names), t.comma)
		}
		f(fields)
	}
}

// add counts the fields of a line with a weight.
func (u *Undeclared) add(fields [][]byte, missing map[string]bool, weight int64) {
	form := u.d.File.figures()
	for j := range u.columns {
		c := &u.columns[j]
		var field []byte
		if len(fields) > 0 {
			field = fields[c.at]
		}
		c.add(field, form, missing, c.name == u.d.Label.Column, weight)
	}
}

func (d Discovery) check() error {
	if err := d.File.check(); err != nil {
		return err
	}
	if err := spellings("missing", d.Missing, map[string]string{}, true); err != nil {
		return err
	}
	label := d.Label.Column
	switch {
	case label == "":
		return bad("label.column", "not named: a private search needs the name of the label, because the header line may "+
			"be a record")
	case d.declaresLabel() && d.Label.Unknown == "":
		return bad("label.unknown", "not declared, want it, so that no label is an error after the budget was spent")
	case d.declaresLabel():
		if err := d.Label.check(d.Missing); err != nil {
			return err
		}
	}
	if err := d.asSchema().checkPerson(); err != nil {
		return err
	}
	if f := d.File.Fields; f != nil && d.Person != "" && !slices.Contains(f, d.Person) {
		return bad("file.fields", "do not hold the ids of persons: want %s among the names", quote(d.Person))
	}
	seen := map[string]bool{label: true}
	for _, c := range d.Declared {
		if err := name("columns.name", c.Name); err != nil {
			return err
		}
		if seen[c.Name] {
			return bad("columns", "%s is declared twice, or is the label, want each column once", quote(c.Name))
		}
		seen[c.Name] = true
		if err := c.check("columns "+quote(c.Name), d.Missing); err != nil {
			return err
		}
		if !c.Ignore && !c.Other {
			return bad("columns", "%s needs \"other\": true, so that no field of it is an error after the budget was spent",
				quote(c.Name))
		}
	}
	if f := d.File.Fields; f != nil && !slices.Contains(f, label) {
		return bad("file.fields", "do not hold the label: want %s among the names", quote(label))
	}
	return nil
}

// declaresLabel reports whether more than the name of the label is declared.
func (d Discovery) declaresLabel() bool {
	l := d.Label
	return l.Positive != nil || l.Negative != nil || l.Levels != nil || l.Min != nil || l.Max != nil
}

// header finds the columns to discover. Its errors show no name of the file.
func (u *Undeclared) header(t *text) error {
	label := u.d.Label.Column
	u.names = u.d.File.Fields
	if u.names == nil {
		fields, err := t.names("a header line")
		if err != nil {
			return err
		}
		if t.ahead > t.line { // names are published, and records may stand where a quote is left open
			return wrong("line %d: a quote in the header line is not closed in its line, want names without line ends", t.line)
		}
		u.names = make([]string, len(fields))
		if !slices.ContainsFunc(fields, func(f []byte) bool { return string(f) == label }) {
			hint := ""
			if c := t.instead(fields, map[string]bool{label: true}); c != "" {
				hint = fmt.Sprintf(", but one would be with --delimiter %q", c)
			}
			return wrong("line %d: none of its %s is the label %s%s; want a header line with the names of the columns, or "+
				"the names as \"fields\" (--fields a,b,c) if the file has none", t.line, count(len(fields), "field"), quote(label),
				hint)
		}
		if err := headerNames(u.names, fields, fmt.Sprintf("line %d", t.line)); err != nil {
			return err
		}
	}
	for _, c := range u.d.Declared {
		if !c.Ignore && !slices.Contains(u.names, c.Name) {
			return wrong("the file has no column %s, which is declared", quote(c.Name))
		}
	}
	if u.person = -1; u.d.Person != "" {
		if u.person = slices.Index(u.names, u.d.Person); u.person < 0 {
			return wrong("the file has no column %s, which holds the ids of persons", quote(u.d.Person))
		}
	}
	for j, s := range u.names {
		if s == label && u.d.declaresLabel() || j == u.person || rowNumbers(j, s) {
			continue
		}
		if s != label && identifies(s) && !slices.ContainsFunc(u.d.Declared, func(c Column) bool { return c.Name == s }) {
			u.d.Declared = append(slices.Clip(u.d.Declared), Column{Name: s, Ignore: true})
			u.identifiers = append(u.identifiers, s)
			continue
		}
		if !slices.ContainsFunc(u.d.Declared, func(c Column) bool { return c.Name == s }) {
			u.columns = append(u.columns, undeclared{name: s, at: j, spelled: map[string]int64{}})
		}
	}
	feature := func(s string) bool {
		return s != "" && s != label && s != u.d.Person &&
			!slices.ContainsFunc(u.d.Declared, func(c Column) bool { return c.Name == s && c.Ignore })
	}
	if !slices.ContainsFunc(u.names, feature) {
		return wrong("the file has no column but the label %s and ignored ones, want at least one more", quote(label))
	}
	return nil
}

// identifies reports whether a name says that the column numbers the rows or identifies them.
func identifies(name string) bool {
	return slices.Contains([]string{"id", "_id", "rowid", "row_id", "row_number", "rownames", "row_names", "uuid", "guid",
		"unnamed: 0"}, strings.ToLower(name))
}

// Identifiers returns the columns that the search leaves out for their names, such as "id": declare
// them to keep them. They are public.
func (u *Undeclared) Identifiers() []string { return slices.Clone(u.identifiers) }

// add counts a field with the weight of its line, a function of the field alone.
func (c *undeclared) add(field []byte, f figures, missing map[string]bool, label bool, weight int64) {
	x, isNumber := f.number(field)
	switch {
	case len(field) > mostSpelling || missing[string(field)] || !utf8.Valid(field) || isNumber && math.IsNaN(x):
		c.kinds[0] += weight
		return
	case !isNumber:
		c.kinds[3] += weight
	case x == math.Floor(x):
		c.kinds[1] += weight
	default:
		c.kinds[2] += weight
	}
	if isNumber {
		c.numbers = append(c.numbers, x)
		if c.weights != nil {
			c.weights = append(c.weights, weight)
		}
	}
	if !isNumber || label {
		c.spelled[string(field)] += weight
	}
}

// Columns returns the names of the columns to discover, the label among them. They are public.
func (u *Undeclared) Columns() []string {
	out := make([]string, len(u.columns))
	for j, c := range u.columns {
		out[j] = c.name
	}
	return out
}

// Label returns the index of the label among Columns, −1 if it is declared, and what is declared of
// it.
func (u *Undeclared) Label() (index int, declared Label) {
	return slices.IndexFunc(u.columns, func(c undeclared) bool { return c.name == u.d.Label.Column }), u.d.Label
}

// Records returns the number of records, or of persons with an id. Not private under dp.AddRemove.
func (u *Undeclared) Records() int { return u.units }

// column returns a column to discover.
func (u *Undeclared) column(j int) *undeclared {
	if j < 0 || j >= len(u.columns) {
		panic(badColumn)
	}
	return &u.columns[j]
}

const badColumn = "table: no such column"

// Kinds returns how many fields of a column are missing, whole numbers, other numbers and text. A
// field is missing if it has one of the spellings, is NaN, no UTF-8, or longer than 256 bytes. It
// panics if there is no such column. By person the unit is 1/PersonParts. Not private.
func (u *Undeclared) Kinds(column int) [4]int64 { return u.column(column).kinds }

// Spellings yields the spellings of the text of a column, also of the numbers of the label, and how
// often they occur, by person in units of 1/PersonParts. It panics if there is no such column. Not
// private.
func (u *Undeclared) Spellings(column int, yield func(spelling string, count int64)) {
	spelled := u.column(column).spelled
	for _, s := range slices.Sorted(maps.Keys(spelled)) { // in order, so that a seed gives the same noise
		yield(s, spelled[s])
	}
}

// Count adds the numbers of a column to counts of cells; numbers with an index out of range are in
// no cell. By person it adds in units of 1/PersonParts. It panics if there is no such column. Not
// private.
func (u *Undeclared) Count(cells []int64, column int, index func(x float64) int) {
	u.each(column, func(x float64, weight int64) {
		if i := index(x); i >= 0 && i < len(cells) {
			cells[i] += weight
		}
	})
}

// Distinct returns how many different numbers a column has, by person in units of 1/PersonParts:
// the sum over the numbers of the weight of their lines, at most that of one person each. It
// panics if there is no such column. Not private.
func (u *Undeclared) Distinct(column int) (sum int64) {
	most := int64(1)
	if u.person >= 0 {
		most = PersonParts
	}
	weight := map[float64]int64{}
	u.each(column, func(x float64, w int64) {
		if had := weight[x]; had < most {
			weight[x] = min(had+w, most)
			sum += weight[x] - had
		}
	})
	return sum
}

// each calls f with the numbers of a column and their weights.
func (u *Undeclared) each(column int, f func(x float64, weight int64)) {
	c := u.column(column)
	for k, x := range c.numbers {
		weight := int64(1)
		if c.weights != nil {
			weight = c.weights[k]
		}
		f(x, weight)
	}
}

// Schema returns a schema of the declared columns, and of found in place of the others, in the
// order of the file.
func (u *Undeclared) Schema(label Label, found []Column) *Schema {
	s := u.d.asSchema()
	s.Version, s.File = 1, u.d.File
	s.Label, s.Intercept = label, true
	s.Missing = slices.Clone(u.d.Missing)
	s.Columns = nil
	for _, n := range u.names {
		for _, list := range [][]Column{u.d.Declared, found} {
			if i := slices.IndexFunc(list, func(c Column) bool { return c.Name == n }); i >= 0 && n != u.d.Label.Column {
				s.Columns = append(s.Columns, list[i])
			}
		}
	}
	return s
}

// Data encodes the records by a schema of this table.
func (u *Undeclared) Data(s *Schema) (*Data, error) { return ReadCSV(bytes.NewReader(u.text), s) }

// Discovered holds everything that a private search for a schema released. The schema is a function
// of it and of public quantities.
type Discovered struct {
	Theorem   string      `json:"theorem"`
	Epsilon   float64     `json:"epsilon"` // of the whole: of the schema alone, or of the schema and the model
	Delta     float64     `json:"delta"`
	Neighbors dp.Relation `json:"neighbors"`
	// Assumptions are those of the certificate. Noise from a seed adds dp.CallerSource.
	Assumptions []dp.Assumption `json:"assumptions,omitzero"`
	// Mu is the root of the sum of (sensitivity/noise)² of all released counts.
	Mu float64 `json:"mu"`
	// Parts is PersonParts if all counts are in units of 1/Parts of a person, 0 if in records.
	Parts int `json:"parts,omitzero"`
	// Problem says why no model can be fitted by the schema, "" if one can.
	Problem string             `json:"problem,omitzero"`
	Columns []DiscoveredColumn `json:"columns"`
}

// DiscoveredColumn holds what was released about a column.
type DiscoveredColumn struct {
	Name string `json:"name"`
	// Kinds are noisy counts of fields: missing, whole numbers, other numbers, text.
	Kinds []int  `json:"kinds"`
	Note  string `json:"note,omitzero"` // why the column is ignored, "" if it is not
	// Threshold is the least noisy count at which a spelling is shown.
	Threshold int      `json:"threshold,omitzero"`
	Spellings []string `json:"spellings,omitzero"` // by count, then in the order of their bytes
	Counts    []int    `json:"counts,omitzero"`    // noisy
	// Distinct is the noisy count of different numbers, of a column of whole numbers.
	Distinct int `json:"distinct,omitzero"`
	// Sums holds a line of integers for each round: noisy sums of cells of numbers, weighted by the
	// square root of the matrix of prefix sums.
	Sums []string `json:"sums,omitzero"`
}
