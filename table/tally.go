// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package table

import (
	"math"
	"slices"
)

// Tally counts how the fields of a table were read, for Options.Tally: a table that a schema
// misreads has large counts. Files with the same columns add up. Not private.
type Tally struct {
	Records int
	Columns []ColumnTally // those of the file that are not ignored, and the label at the end
	// Nobody counts lines without the id of a person, and Beyond those that exceed the lines of their
	// person that count, of a schema with Person.
	Nobody int
	Beyond int
	lines  map[string]int // of persons
}

// ColumnTally counts the fields of a column. Not private.
type ColumnTally struct {
	Name    string `json:"name"`
	Missing int    `json:"missing,omitzero"` // a spelling of a missing value, or an empty line
	Clamped int    `json:"clamped,omitzero"` // numbers outside the range
	// Other counts undeclared levels, and fields of a number or date that are none. Other labels are
	// undeclared ones.
	Other int `json:"other,omitzero"`
	// Example is such a field, if the table is public.
	Example string `json:"example,omitzero"`
}

// begin starts the counts of rows.
func (t *Tally) begin(r *Rows) {
	var all []ColumnTally
	for _, c := range r.e.columns {
		if c.cross == nil {
			all = append(all, ColumnTally{Name: c.name})
		}
	}
	if r.label >= 0 {
		all = append(all, ColumnTally{Name: r.e.schema.Label.Column})
	}
	if !slices.EqualFunc(all, t.Columns, func(a, b ColumnTally) bool { return a.Name == b.Name }) {
		*t = Tally{Columns: all}
	}
}

// empty counts an empty line, all of whose fields are missing.
func (t *Tally) empty(r *Rows) {
	t.record(r)
	for k := range t.Columns {
		t.Columns[k].Missing++
	}
}

// record counts a record and the lines of its person.
func (t *Tally) record(r *Rows) {
	t.Records++
	if r.person < 0 {
		return
	}
	id := r.ID()
	if id == "" {
		t.Nobody++
		return
	}
	if t.lines == nil {
		t.lines = map[string]int{}
	}
	if t.lines[id]++; t.lines[id] > r.e.schema.Rows {
		t.Beyond++
	}
}

// add counts the fields of a record.
func (t *Tally) add(r *Rows) {
	t.record(r)
	k := 0
	count := func(at int, kind func(field []byte) *int) {
		c := &t.Columns[k]
		k++
		field := r.fields[at]
		if r.missing[string(field)] {
			c.Missing++
			return
		}
		if n := kind(field); n != nil {
			*n++
			if n == &c.Other && c.Example == "" && r.o.Public {
				c.Example = string(field)
			}
		}
	}
	for i := range r.e.columns {
		c := &r.e.columns[i]
		if c.cross != nil {
			continue
		}
		out := &t.Columns[k]
		count(r.at[i], func(field []byte) *int { return out.column(c, field) })
	}
	if r.label >= 0 {
		out := &t.Columns[k]
		count(r.label, func(field []byte) *int { return out.label(r.e, field) })
	}
}

// column returns the count of a field that is not missing, nil for one that needs none.
func (t *ColumnTally) column(c *column, field []byte) *int {
	if !c.number {
		if _, declared := c.level[string(field)]; declared {
			return nil
		}
		return &t.Other
	}
	x, ok := c.value(field)
	switch {
	case !ok:
		return &t.Other
	case math.IsNaN(x):
		return &t.Missing
	case c.bins == nil && (x < c.lo || x > c.hi): // the outer bins have no ends
		return &t.Clamped
	}
	return nil
}

// label returns the count of a label that is not missing.
func (t *ColumnTally) label(e *Encoder, field []byte) *int {
	if e.beyond(field, nil) {
		return &t.Clamped
	}
	if _, declared := e.label[string(field)]; declared {
		return nil
	}
	if e.Kind() == Range {
		if x, ok := e.schema.File.figures().number(field); ok && !math.IsNaN(x) {
			return nil
		}
	}
	return &t.Other
}
