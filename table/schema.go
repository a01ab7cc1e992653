// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package table

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
)

// Schema declares the columns of a table and the label, all of it public. Its JSON form is that of
// the field tags:
//
//	{ "schema": 1, "records": 30000, "neighbors": "replace",
//	  "label": {"column": "income", "positive": [">50K"], "negative": ["<=50K"]},
//	  "person": "patient", "rows": 20,
//	  "intercept": true, "missing": ["?", ""],
//	  "columns": [
//	    {"name": "age", "min": 17, "max": 90, "bins": [25, 35, 45, 55]},
//	    {"name": "hours", "min": 1, "max": 99},
//	    {"name": "education", "levels": ["Bachelors", "HS-grad"], "other": true},
//	    {"name": "id", "ignore": true} ] }
type Schema struct {
	Version int `json:"schema"` // of the form, 1
	// Records is n₀, the declared public number of records; 0 means not declared.
	Records int `json:"records,omitzero"`
	// Neighbors is the relation that private mechanisms use; unset means dp.Replace.
	Neighbors dp.Relation `json:"neighbors,omitzero"`
	// Person is the column of ids of persons; "" means that every record is a person. With it, Records
	// counts persons, neighbors differ in all lines of one person, and lines without an id are left
	// out. See [erm.Persons].
	Person string `json:"person,omitzero"`
	// Rows is the most lines of a person that count, 1 to [erm.MaxRows].
	Rows int `json:"rows,omitzero"`
	// Weights is "persons", also if unset, for lines of weight 1/k of a person with k of them, or
	// "rows" for 1/Rows.
	Weights string `json:"weights,omitzero"`
	File    File   `json:"file,omitzero"` // unset means a header line and commas
	Label   Label  `json:"label"`
	// Intercept adds a coordinate that is the same for every record.
	Intercept bool     `json:"intercept,omitzero"`
	Missing   []string `json:"missing,omitzero"` // spellings of a missing value, "" for an empty field
	Columns   []Column `json:"columns"`          // every column of the table but the label
	// Discovery holds what a private search for this schema released, nil if there was none.
	Discovery *Discovered `json:"discovery,omitempty"`
}

// File describes the text of a table.
type File struct {
	// Fields names the columns in order, the label among them, of a file without a header line.
	Fields []string `json:"fields,omitzero"`
	// Delimiter is the one character between fields; "" means a comma.
	Delimiter string `json:"delimiter,omitzero"`
	// Comment is the one character that begins a comment line, which counts as a record; "" means
	// none.
	Comment string `json:"comment,omitzero"`
	// Multiline says that fields in quotes may hold line ends. A record then ends with the first line
	// end that is not in quotes, and comments hold quotes in pairs. Without it a quote that is not
	// closed in its line is an error.
	Multiline bool `json:"multiline,omitzero"`
	// Encoding is "latin-1" or "windows-1252"; "" means UTF-8.
	Encoding string `json:"encoding,omitzero"`
	// Decimal is the sign before the fraction of a number, "." or ","; "" means ".".
	Decimal string `json:"decimal,omitzero"`
	// Thousands is the sign between groups of three digits: ".", ",", "'" or " "; "" means none.
	Thousands string `json:"thousands,omitzero"`
}

// Label declares the label: two lists of spellings, or levels, or a range.
type Label struct {
	Column string `json:"column"` // its name
	// Positive and Negative list the spellings of the labels +1 and −1.
	Positive []string `json:"positive,omitzero"`
	Negative []string `json:"negative,omitzero"`
	Levels   []string `json:"levels,omitzero"` // spellings of the classes 0, 1, …, K−1
	// Min and Max are the range of a number, which is clamped to it and mapped to [−1, 1].
	Min *float64 `json:"min,omitzero"`
	Max *float64 `json:"max,omitzero"`
	// Unknown is the label of any other field, also a missing one: "positive" or "negative", one of
	// Levels, or "middle" of the range. Unset, such a field is an error. Records are never dropped,
	// because their number is public.
	Unknown string `json:"unknown,omitzero"`
}

// Column declares a column: a number with Min and Max, a category with Levels, an interaction of
// other columns with Cross, or one to Ignore.
type Column struct {
	Name string `json:"name"` // in the header line or in File.Fields
	// Min and Max are the public range of a number, which is clamped to it.
	Min *float64 `json:"min,omitzero"`
	Max *float64 `json:"max,omitzero"`
	// Date is the layout of a date, as in package time: "2006-01-02". The number of the column, in
	// Min, Max and Bins too, is that of the days since 2000-01-01, with a time as a fraction of a day.
	Date string `json:"date,omitzero"`
	// Bins are increasing edges inside the range. A number becomes an indicator of its bin: below the
	// first edge, [e₁, e₂), …, at least the last edge.
	Bins   []float64 `json:"bins,omitzero"`
	Levels []string  `json:"levels,omitzero"` // spellings of a category
	// Other gives a category one more level, of all undeclared spellings, and counts a field that is
	// no number as missing. Without it, both are errors.
	Other bool `json:"other,omitzero"`
	// Missing gives missing values a level of their own. Else a missing number is the middle of its
	// range, and a missing category counts as an equal share of each declared level.
	Missing bool `json:"missing,omitzero"`
	// Reference is the level, "other", "missing" or bin such as "<25" or "[25,35)" that has no
	// coordinate: the coefficients of the column are differences from it, and the intercept and the
	// other columns determine them. Intervals need one in each column of levels or bins.
	Reference string `json:"reference,omitzero"`
	// Cross names two or more columns with levels or bins, whose interaction this is: a row becomes
	// the indicator of its combination of levels. The file has no such column.
	Cross  []string `json:"cross,omitzero"`
	Weight float64  `json:"weight,omitzero"` // norm of the column relative to the others; 0 means 1
	Ignore bool     `json:"ignore,omitzero"` // leaves the column out; the file need not have it
}

// Limits of a schema, so that a file cannot ask for the whole memory.
const (
	maxSchemaBytes = 64 << 20
	maxFeatures    = 1 << 24
	maxWeight      = 1e6
)

// ReadSchema reads and checks a schema. The error wraps ErrSchema and names the place, such as
// columns[3].min, the value and the fix; unknown and repeated keys are errors.
func ReadSchema(r io.Reader) (*Schema, error) {
	s, err := readSchema(r)
	if err != nil {
		return nil, err
	}
	if err := s.Check(); err != nil {
		return nil, err
	}
	return s, nil
}

// readSchema reads a schema without checking what it declares.
func readSchema(r io.Reader) (*Schema, error) {
	if r == nil {
		return nil, fmt.Errorf("%w: the reader is nil", ErrSchema)
	}
	text, err := io.ReadAll(io.LimitReader(r, maxSchemaBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrSchema, err)
	case len(text) > maxSchemaBytes:
		return nil, fmt.Errorf("%w: longer than %d MB: list fewer levels and add \"other\": true", ErrSchema,
			maxSchemaBytes>>20)
	}
	s := &Schema{}
	if err := decode(bytes.TrimPrefix(text, []byte(bom)), s); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSchema, err)
	}
	return s, nil
}

// WriteTo writes the schema as indented JSON, in the form that ReadSchema reads.
func (s *Schema) WriteTo(w io.Writer) (int64, error) {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrSchema, err)
	}
	n, err := w.Write(append(text, '\n'))
	return int64(n), err
}

// Check returns an error that wraps ErrSchema unless the schema is valid. The error names the first
// field that is wrong, its value and the fix.
func (s *Schema) Check() error {
	_, err := s.Encoder()
	return err
}

// bad returns an error about the value at path.
func bad(path string, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", ErrSchema, path, fmt.Sprintf(format, args...))
}

// check checks all but the columns.
func (s *Schema) check() error {
	switch {
	case s.Version != 1:
		return bad("schema", "version %d, want \"schema\": 1 in the file", s.Version)
	case s.Records < 0:
		return bad("records", "%d, want the public number of records, or leave it out", s.Records)
	case s.Neighbors != 0 && s.Neighbors.Check() != nil:
		return bad("neighbors", "%d, want \"replace\" or \"add-remove\"", int(s.Neighbors))
	}
	if err := spellings("missing", s.Missing, map[string]string{}, true); err != nil {
		return err
	}
	if err := s.File.check(); err != nil {
		return err
	}
	if err := s.Label.check(s.Missing); err != nil {
		return err
	}
	if len(s.Columns) == 0 {
		return bad("columns", "empty, want at least one column")
	}
	if err := s.checkPerson(); err != nil {
		return err
	}
	seen := map[string]string{s.Label.Column: "label.column"}
	for i, c := range s.Columns {
		path := fmt.Sprintf("columns[%d].name", i)
		if err := name(path, c.Name); err != nil {
			return err
		}
		if first, ok := seen[c.Name]; ok {
			return bad(path, "%s is also %s: want each column once", quote(c.Name), first)
		}
		seen[c.Name] = path
	}
	for i, f := range s.File.Fields {
		if !s.declares(f) {
			return bad(fmt.Sprintf("file.fields[%d]", i), "%s is not declared: add {\"name\": %s, \"ignore\": true} to "+
				"columns, or its range or levels", quote(f), quote(f))
		}
	}
	return nil
}

// declares reports whether the schema has a column of the file by that name.
func (s *Schema) declares(field string) bool {
	return field == s.Label.Column || field != "" && field == s.Person ||
		slices.ContainsFunc(s.Columns, func(c Column) bool { return c.Name == field && c.Cross == nil })
}

// checkPerson checks what the schema says about persons.
func (s *Schema) checkPerson() error {
	if s.Person == "" {
		switch {
		case s.Rows != 0:
			return bad("rows", "%d without \"person\": name the column of ids, or leave it out", s.Rows)
		case s.Weights != "":
			return bad("weights", "%s without \"person\": name the column of ids, or leave it out", quote(s.Weights))
		}
		return nil
	}
	if err := name("person", s.Person); err != nil {
		return err
	}
	if s.Person == s.Label.Column {
		return bad("person", "%s is also label.column: want a column of ids", quote(s.Person))
	}
	for i, c := range s.Columns {
		if c.Name == s.Person && !c.Ignore {
			return bad("person", "%s is also a feature, columns[%d]: want a column of ids, ignored "+
				"there or not listed",
				quote(s.Person), i)
		}
	}
	switch {
	case s.Rows == 0:
		return bad("rows", "not declared, want the most lines of a person that count, 1 to %d", erm.MaxRows)
	case s.Rows < 1 || s.Rows > erm.MaxRows:
		return bad("rows", "%d, want the most lines of a person that count, 1 to %d", s.Rows, erm.MaxRows)
	}
	return among("weights", s.Weights, erm.PersonsEqual.String(), erm.LinesEqual.String())
}

// among checks a word; "" means the first.
func among(path, word string, words ...string) error {
	if word == "" || slices.Contains(words, word) {
		return nil
	}
	return bad(path, "%s, want one of %s", quote(word), list(words))
}

func (f File) check() error {
	if d := f.Delimiter; d != "" && (len(d) > 1 || !validComma(d[0])) {
		return bad("file.delimiter", "%s, want one of \",\", \";\", \"\\t\", \"|\" or another ASCII sign", quote(d))
	}
	if len(f.Comment) > 1 || f.Comment != "" && (f.Comment[0] <= ' ' || f.Comment[0] == '"' ||
		f.Comment[0] >= utf8.RuneSelf) {
		return bad("file.comment", "%s, want one character such as \"#\"", quote(f.Comment))
	}
	seen := map[string]bool{}
	for i, s := range f.Fields {
		path := fmt.Sprintf("file.fields[%d]", i)
		if err := name(path, s); err != nil {
			return err
		}
		if seen[s] {
			return bad(path, "%s stands twice: want each field once", quote(s))
		}
		seen[s] = true
	}
	if err := f.checkEncoding(); err != nil {
		return err
	}
	return f.checkFigures()
}

// text opens a table of this form, public or not.
func (f File) text(r io.Reader, public bool) (*text, error) {
	t, err := newText(r, cmp.Or(f.Delimiter, ",")[0], cmp.Or(f.Comment, "\x00")[0], public || f.Fields == nil)
	if err == nil && f.Encoding != "" {
		t.recode(f.Encoding == windows1252)
	}
	return t, err
}

func validComma(c byte) bool {
	letter := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
	return c == '\t' || c > ' ' && c < 0x7f && !letter && !strings.ContainsRune("\"+-._", rune(c))
}

func (l Label) check(missing []string) error {
	if err := name("label.column", l.Column); err != nil {
		return err
	}
	lists := len(l.Positive)+len(l.Negative) > 0
	kinds := 0
	for _, has := range []bool{lists, l.Levels != nil, l.Min != nil || l.Max != nil} {
		if has {
			kinds++
		}
	}
	if kinds != 1 {
		return bad("label", "%d kinds of label, want one: \"positive\" and \"negative\" spellings, or \"levels\", or "+
			"\"min\" and \"max\"", kinds)
	}
	seen := map[string]string{}
	for _, m := range missing {
		seen[m] = "missing"
	}
	switch {
	case lists:
		for i, list := range [][]string{l.Positive, l.Negative} {
			path := []string{"label.positive", "label.negative"}[i]
			if len(list) == 0 {
				return bad(path, "empty, want the spellings of this class")
			}
			if err := spellings(path, list, seen, false); err != nil {
				return err
			}
		}
		return choice(l.Unknown, "positive", "negative")
	case l.Levels != nil:
		if len(l.Levels) < 2 {
			return bad("label.levels", "%d levels, want at least 2", len(l.Levels))
		}
		if err := spellings("label.levels", l.Levels, seen, false); err != nil {
			return err
		}
		return choice(l.Unknown, l.Levels...)
	}
	if err := interval("label", l.Min, l.Max); err != nil {
		return err
	}
	return choice(l.Unknown, "middle")
}

// choice checks label.unknown.
func choice(unknown string, among ...string) error {
	if unknown == "" || slices.Contains(among, unknown) {
		return nil
	}
	if unknown == "drop" {
		return bad("label.unknown", "\"drop\": dropping records would change their number by their content; want one of %s",
			list(among))
	}
	return bad("label.unknown", "%s, want one of %s, or leave it out to make such a label an error", quote(unknown),
		list(among))
}

func (c Column) check(path string, missing []string) error {
	number := c.Min != nil || c.Max != nil
	coded := number || c.Date != "" || c.Bins != nil || c.Levels != nil || c.Other || c.Missing || c.Reference != ""
	if c.Ignore {
		if coded || c.Cross != nil || c.Weight != 0 {
			return bad(path, "%s is ignored and has other keys: leave out \"ignore\" or the others", quote(c.Name))
		}
		return nil
	}
	if math.IsNaN(c.Weight) || c.Weight < 0 || c.Weight > maxWeight || c.Weight > 0 && c.Weight < 1/maxWeight {
		return bad(path+".weight", "%v, want a number from %g to %g, or leave it out for 1", c.Weight, 1/maxWeight, maxWeight)
	}
	switch {
	case c.Cross != nil && coded:
		return bad(path, "%s has \"cross\" and a range, bins, levels, \"other\" or \"missing\": leave out one or "+
			"the others", quote(c.Name))
	case c.Cross != nil:
		return nil // Encoder.addCross checks the names
	case number && c.Levels != nil:
		return bad(path, "%s has a range and levels, want one of them", quote(c.Name))
	case c.Levels != nil:
		if c.Bins != nil {
			return bad(path+".bins", "%s has levels: bins need \"min\" and \"max\" instead", quote(c.Name))
		}
		if c.Date != "" {
			return bad(path+".date", "%s has levels: a date needs \"min\" and \"max\" instead", quote(c.Name))
		}
		if len(c.Levels) == 0 {
			return bad(path+".levels", "empty, want the levels of %s, or \"ignore\": true", quote(c.Name))
		}
		seen := map[string]string{}
		for _, m := range missing {
			seen[m] = "missing (there, \"missing\": true in the column gives missing values a level of their own)"
		}
		return spellings(path+".levels", c.Levels, seen, false)
	case !number:
		return bad(path, "%s has neither \"min\" and \"max\" nor \"levels\": declare one, or \"ignore\": true", quote(c.Name))
	}
	if err := interval(path, c.Min, c.Max); err != nil {
		return err
	}
	if err := checkDate(path+".date", c.Date); err != nil {
		return err
	}
	if c.Bins != nil && len(c.Bins) == 0 {
		return bad(path+".bins", "empty, want at least one edge, or leave it out")
	}
	for k, e := range c.Bins {
		at := fmt.Sprintf("%s.bins[%d]", path, k)
		if !(e > *c.Min && e < *c.Max) {
			return bad(at, "%v, want an edge between min = %v and max = %v", e, *c.Min, *c.Max)
		}
		if k > 0 && !(e > c.Bins[k-1]) {
			return bad(at, "%v after %v, want increasing edges", e, c.Bins[k-1])
		}
	}
	return nil
}

func interval(path string, lo, hi *float64) error {
	switch {
	case lo == nil:
		return bad(path+".min", "not declared, want the least value that is publicly possible")
	case hi == nil:
		return bad(path+".max", "not declared, want the greatest value that is publicly possible")
	case !(math.Abs(*lo) <= 1e300):
		return bad(path+".min", "%v, want a finite number", *lo)
	case !(math.Abs(*hi) <= 1e300):
		return bad(path+".max", "%v, want a finite number", *hi)
	case !(*lo < *hi):
		return bad(path+".min", "%v is not below max = %v: swap or widen them", *lo, *hi)
	case *hi/2-*lo/2 < 1e-300:
		return bad(path+".max", "%v is too near to min = %v: use another unit", *hi, *lo)
	}
	return nil
}

// spellings checks a list of field values and adds it to seen, which maps each to its path.
func spellings(path string, list []string, seen map[string]string, empty bool) error {
	for i, s := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		if s == "" && !empty {
			return bad(at, "empty, want a spelling; the empty field belongs into \"missing\"")
		}
		if err := plain(at, s, "field"); err != nil {
			return err
		}
		if first, ok := seen[s]; ok {
			return bad(at, "%s is also in %s: want each spelling once", quote(s), first)
		}
		seen[s] = at
	}
	return nil
}

func name(path, s string) error {
	if s == "" {
		return bad(path, "empty, want the name of a column")
	}
	return plain(path, s, "name")
}

// plain refuses text that is not UTF-8, or has blanks around it, which are cut off.
func plain(path, s, kind string) error {
	if !utf8.ValidString(s) {
		return bad(path, "%s is not UTF-8, want text that is", quote(s))
	}
	if cut := strings.TrimSpace(s); s != cut {
		return bad(path, "%s begins or ends with blanks, which are cut off every %s: want %s", quote(s), kind, quote(cut))
	}
	return nil
}

// quote returns s in quotes, shortened.
func quote(s string) string {
	if r := []rune(s); len(r) > 40 {
		s = string(r[:40]) + "…"
	}
	return strconv.Quote(s)
}

// list returns the first twenty of the quoted strings.
func list(s []string) string {
	parts := make([]string, 0, 20)
	for _, v := range s[:min(len(s), 20)] {
		parts = append(parts, quote(v))
	}
	out := strings.Join(parts, ", ")
	if more := len(s) - 20; more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	return out
}
