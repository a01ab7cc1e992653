// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package table

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/privopt/privopt/erm"
)

// Options of reading a table.
type Options struct {
	Public bool // the table is public: errors may show values of fields
	// Unlabeled reads a table to predict for: the column of the label may be absent, and columns that
	// are not in the schema are left out.
	Unlabeled bool
	// Plain reads a table with a header line and commas, in UTF-8, without comments, whose fields in
	// quotes may hold line ends, whatever File of the schema says: that of [parquet.CSV].
	//
	// [parquet.CSV]: https://pkg.go.dev/github.com/privopt/privopt/table/parquet#CSV
	Plain bool
	// Skip leaves out empty lines and comments after the header, for predictions and scores.
	// Without it each of these lines is a record of zeros: see the package comment.
	Skip bool
	// Total gives every field a meaning: where the schema has none for a field, the level is missing,
	// and the label is NaN. Private scores read so: no error shows a record.
	Total bool
	// Tally counts how the fields of each column are read, unless it is nil. Not private: for a public
	// table, or a score that is not private.
	Tally *Tally
}

// Data is a table as private records.
type Data struct {
	Records *erm.Data // of Encoder.Dim features within Encoder.Bounds
	Encoder *Encoder
}

// String returns the dimensions.
func (d *Data) String() string {
	n, k := d.Records.Dims()
	return fmt.Sprintf("table.Data(%d×%d)", n, k)
}

// ReadCSV reads all records of a table of comma-separated values (RFC 4180); one with a header line
// may be compressed by gzip. A table without records gives data without records.
//
// The error wraps ErrSchema for a schema that is not valid and ErrTable for a file that is not the
// declared table.
func ReadCSV(r io.Reader, s *Schema) (*Data, error) { return Options{}.ReadCSV(r, s) }

// ReadCSV is the function ReadCSV with options.
func (o Options) ReadCSV(r io.Reader, s *Schema) (*Data, error) {
	e, err := s.Encoder()
	if err != nil {
		return nil, err
	}
	if o.Unlabeled || o.Skip || o.Total {
		return nil, wrong("Unlabeled, Skip and Total are for rows to predict or score: every line to fit is a record with " +
			"a label")
	}
	rows, err := e.Rows(r, o)
	if err != nil {
		return nil, err
	}
	b, err := erm.NewBuilder(e.Dim(), e.sparse(), e.Bounds())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSchema, err)
	}
	for rows.Next() {
		col, val := rows.Row()
		b.AddSparse(col, val, rows.Label())
		if id := rows.ID(); id != "" {
			b.ID(id)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	p, byPerson := e.Persons()
	if !byPerson {
		return &Data{Records: b.Data(), Encoder: e}, nil
	}
	data, err := b.ByPerson(context.Background(), p)
	return &Data{Records: data, Encoder: e}, err
}

// Rows reads records one at a time, with the memory of a line:
//
//	for rows.Next() {
//		col, val := rows.Row()
//		…
//	}
//	return rows.Err()
type Rows struct {
	e       *Encoder
	o       Options
	text    *text
	names   []string
	at      []int // field of each column of e
	label   int   // field of the label, -1 for none
	person  int   // field of the id, -1 for none
	missing map[string]bool

	fields [][]byte
	col    []int32
	val    []float64
	y      float64
	err    error

	outside int
}

// Format prints no field, by any verb.
func (Rows) Format(f fmt.State, _ rune) { io.WriteString(f, "table.Rows") }

// Rows reads the header line, unless the schema has File.Fields, and returns the records that
// follow. The error wraps ErrTable.
func (e *Encoder) Rows(r io.Reader, o Options) (*Rows, error) {
	if o.Plain {
		s := e.Schema()
		s.File = File{Multiline: true}
		var err error
		if e, err = s.Encoder(); err != nil {
			return nil, err
		}
	}
	t, err := e.schema.File.text(r, o.Public)
	if err != nil {
		return nil, err
	}
	t.single = !e.schema.File.Multiline
	rows := &Rows{e: e, o: o, text: t, names: e.schema.File.Fields, missing: map[string]bool{}}
	for _, m := range e.schema.Missing {
		rows.missing[m] = true
	}
	if rows.names == nil {
		err = rows.header()
	} else {
		has := map[string]int{}
		for j, s := range rows.names {
			has[s] = j
		}
		err = rows.find(has)
	}
	if err != nil {
		return nil, err
	}
	t.every = !o.Skip
	t.ended = t.every && !o.Public
	if o.Tally != nil {
		o.Tally.begin(rows)
	}
	rows.col, rows.val = make([]int32, 0, e.width), make([]float64, 0, e.width)
	return rows, nil
}

// header reads and checks the header line. It shows names only if the schema has them or the table
// is public: the line may be a record.
func (r *Rows) header() error {
	fields, err := r.text.names("a header line")
	if err != nil {
		return err
	}
	declared := map[string]bool{r.e.schema.Label.Column: true, r.e.schema.Person: r.e.schema.Person != ""}
	for _, c := range r.e.schema.Columns {
		declared[c.Name] = c.Cross == nil
	}
	seen := map[string]int{}
	known, strange := 0, -1
	for j, f := range fields {
		name := string(f)
		first, twice := seen[name]
		switch {
		case declared[name] && twice:
			return wrong("line %d: columns %d and %d are both named %s, want different names", r.text.line, first+1, j+1,
				quote(name))
		case declared[name]:
			known++
		case strange < 0 && !rowNumbers(j, name) && !r.o.Unlabeled:
			strange = j
		}
		r.names, seen[name] = append(r.names, name), j
	}
	if known == 0 {
		hint := ""
		if c := r.text.instead(fields, declared); c != "" {
			hint = fmt.Sprintf(", but they would be with \"file\": {\"delimiter\": %q} in the schema", c)
		}
		return wrong("line %d: none of its %s is a column of the schema%s; want a header line with the names of "+
			"the columns, separated by %q, or \"file\": {\"fields\": […]} in the schema if the file has none", r.text.line,
			count(len(fields), "field"), hint, r.text.comma)
	}
	if err := r.find(seen); err != nil {
		return err
	}
	if strange >= 0 {
		show := ""
		if r.o.Public {
			show = " " + quote(r.names[strange])
		}
		return wrong("line %d: column %d%s is not in the schema: declare it, with \"ignore\": true to leave it out",
			r.text.line, strange+1, show)
	}
	return nil
}

// rowNumbers reports whether a column of a header line has no name because it numbers the rows, as
// pandas and R write it.
func rowNumbers(j int, name string) bool { return j == 0 && name == "" }

// find locates the columns of the schema, given the position of every name.
func (r *Rows) find(has map[string]int) error {
	var lacks []string
	at := func(name string) int {
		j, ok := has[name]
		if !ok {
			lacks = append(lacks, name)
			return -1
		}
		return j
	}
	for _, c := range r.e.columns {
		j := -1 // the file has no column of an interaction
		if c.cross == nil {
			j = at(c.name)
		}
		r.at = append(r.at, j)
	}
	missing := len(lacks)
	if r.person = -1; r.e.schema.Person != "" {
		if r.person = at(r.e.schema.Person); r.o.Unlabeled || r.o.Skip {
			lacks = lacks[:missing]
		}
	}
	missing = len(lacks)
	if r.label = at(r.e.schema.Label.Column); r.o.Unlabeled {
		lacks = lacks[:missing]
	}
	if len(lacks) == 0 {
		return nil
	}
	return wrong("the file has no column %s, which the schema declares; names are case-sensitive", list(lacks))
}

// Next reads the next record and reports whether there is one.
func (r *Rows) Next() bool {
	if r.err != nil {
		return false
	}
	if r.fields, r.err = r.text.next(); r.err != nil {
		return false
	}
	if len(r.fields) == 0 {
		r.col, r.val, r.y = r.col[:0], r.val[:0], r.e.noLabel()
		if r.o.Tally != nil {
			r.o.Tally.empty(r)
		}
		return true
	}
	if len(r.fields) != len(r.names) {
		r.err = wrong("line %d: %s, want %d; quote fields that contain %q", r.text.line, count(len(r.fields), "field"),
			len(r.names), r.text.comma)
		return false
	}
	var wrong int
	r.col, r.val, wrong = r.e.row(r.col[:0], r.val[:0], r.missing, r.fields, r.at, r.o.Total)
	if wrong >= 0 {
		r.err = r.noMeaning(wrong)
		return false
	}
	if r.o.Tally != nil {
		r.o.Tally.add(r)
	}
	if r.label >= 0 {
		if r.o.Skip && r.e.beyond(r.fields[r.label], r.missing) {
			r.outside++
		}
		var ok bool
		if r.y, ok = r.e.labelOf(r.fields[r.label], r.missing); !ok && r.o.Total {
			r.y = math.NaN()
		} else if !ok && !r.o.Unlabeled {
			r.err = r.noLabel()
			return false
		}
	}
	return true
}

// Err returns the error that ended Next, which wraps ErrTable; nil at the end of the file.
func (r *Rows) Err() error {
	if errors.Is(r.err, io.EOF) {
		return nil
	}
	return r.err
}

// Row returns the entries of the encoded row that are not 0 and their increasing columns, valid
// until the next call of Next. Not private: it is a record.
func (r *Rows) Row() (col []int32, val []float64) { return r.col, r.val }

// Names returns the names of the columns of the file in order.
func (r *Rows) Names() []string { return slices.Clone(r.names) }

// Field returns the content of a field of the line read last, without quotes and blanks around it,
// by its index among Names; "" if there is no such field, as on an empty line. Not private: it is a
// part of a record.
func (r *Rows) Field(index int) string {
	if index < 0 || index >= len(r.fields) {
		return ""
	}
	return string(r.fields[index])
}

// ID returns the id of the person whose record it is, "" for none. Not private.
func (r *Rows) ID() string {
	if r.person < 0 || len(r.fields) == 0 || r.missing[string(r.fields[r.person])] {
		return ""
	}
	return string(r.fields[r.person])
}

// Label returns the label, 0 if the table has none. Not private: it is part of a record.
func (r *Rows) Label() float64 { return r.y }

// Outside returns the number of labels so far that are numbers beyond their declared range, which
// count as its end. It counts with Options.Skip alone. Not private.
func (r *Rows) Outside() int { return r.outside }

// noMeaning describes field k, which the schema gives no meaning.
func (r *Rows) noMeaning(k int) error {
	c := &r.e.columns[k]
	found, want := shown(r.fields[r.at[k]], r.o.Public, r.missing), "a number"
	if c.date != "" {
		want = "a date in the form " + quote(c.date)
	}
	want += ", or a spelling listed in \"missing\""
	if c.level != nil {
		want = fmt.Sprintf("one of the %s, or \"other\": true in the schema", count(len(c.level), "declared level"))
	}
	return wrong("line %d, column %d (%s): %s, want %s", r.text.line, r.at[k]+1, quote(c.name), found, want)
}

func (r *Rows) noLabel() error {
	l, want := &r.e.schema.Label, "a number"
	if r.e.Kind() != Range {
		want = fmt.Sprintf("one of the %s", count(len(r.e.label), "declared spelling"))
	}
	return wrong("line %d, column %d (%s, the label): %s, want %s, or \"unknown\" in the label of the schema", r.text.line,
		r.label+1, quote(l.Column), shown(r.fields[r.label], r.o.Public, r.missing), want)
}

// shown describes the content of a field, without showing it unless it is public.
func shown(f []byte, public bool, missing map[string]bool) string {
	v, isNumber := number(f)
	switch {
	case len(f) == 0:
		return "an empty field"
	case public:
		return quote(string(f))
	case missing[string(f)]:
		return "a missing value"
	case isNumber && math.IsNaN(v):
		return "NaN"
	case isNumber:
		return "a number"
	case !utf8.Valid(f):
		return "text that is not UTF-8"
	}
	return "text"
}

func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
