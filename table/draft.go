// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package table

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	maxLevels  = 50   // of a column, the rest is other
	maxSpell   = 1e5  // different spellings that are counted
	maxClasses = 20   // of a label
	idShare    = 0.95 // of different values in a column of text: an identifier
	mostly     = 0.9  // of fields that are numbers in a column of numbers
	fewWords   = 10   // most spellings in a column of numbers that are none
)

// identifier matches names such as id, patient_id and patientID, but not paid.
var identifier = regexp.MustCompile(`^(?i:id)$|[^a-zA-Z](?i:id)$|[a-z]I[Dd]$`)

// Draft reads a table of public rows, such as a published or made-up sample, and returns a schema
// that a person should check: numbers and dates with ranges rounded outward, categories with their
// levels by frequency and "other", identifiers ignored. It must not see private rows. From like it
// takes Label.Column ("" means the last column), Missing (nil means "", "?", "NA" and "NaN"), and
// File, whose delimiter, encoding and figures it guesses if they are not declared. If the label has
// two spellings, the later one in numerical or alphabetical order is positive.
//
// The notes say what Draft saw in the file and in each column, and what it made of it. They and the
// error, which wraps [ErrTable] or [ErrSchema], may show values, because the rows are public.
func Draft(public io.Reader, like Schema) (s *Schema, notes []string, err error) {
	if err := like.File.check(); err != nil {
		return nil, nil, err
	}
	d := drafting{missing: slices.Clone(like.Missing)}
	if like.Missing == nil {
		d.missing = []string{"", "?", "NA", "NaN"}
	}
	t, file, notes, err := sniff(public, like.File)
	if err != nil {
		return nil, nil, err
	}
	if err := d.read(t, file); err != nil {
		return nil, nil, err
	}
	file.Multiline = file.Multiline || t.spanned
	d.chooseFigures(&file)
	label := cmp.Or(like.Label.Column, d.names[len(d.names)-1])
	if d.label = slices.Index(d.names, label); d.label < 0 {
		return nil, nil, wrong("no column is named %s; the columns are %s", quote(label), list(d.names))
	}
	for j := range d.seen {
		d.seen[j].choose(d.names[j])
	}
	s = &Schema{Version: 1, File: file, Intercept: true}
	var about []string
	for j := range d.seen {
		if rowNumbers(j, d.names[j]) {
			about = append(about, "the first column: without a name → row numbers, left out")
		} else if j != d.label {
			c, note := d.column(j)
			s.Columns, about = append(s.Columns, c), append(about, d.names[j]+": "+note)
		}
	}
	var note string
	if s.Label, note, err = d.labelOf(); err != nil {
		return nil, nil, err
	}
	s.Missing = d.missing
	notes = append(append(notes, about...), label+", the label: "+note)
	return s, notes, s.Check()
}

// drafting is a table of public rows that has been read.
type drafting struct {
	names   []string
	seen    []summary
	missing []string
	label   int
}

func (d *drafting) read(t *text, file File) error {
	d.names = file.Fields
	if d.names == nil {
		fields, err := t.names("a header line and public rows")
		if err != nil {
			return err
		}
		for _, f := range fields {
			d.names = append(d.names, string(f))
		}
	}
	if len(d.names) < 2 {
		return wrong("line %d: 1 column, want at least one and the label separated by %q", t.line, t.comma)
	}
	d.seen = make([]summary, len(d.names))
	for rows := 0; ; rows++ {
		fields, err := t.next()
		switch {
		case errors.Is(err, io.EOF) && rows == 0:
			return wrong("no rows, want some to draft a schema from")
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case len(fields) != len(d.names):
			return wrong("line %d: %s, want %d; quote fields that contain %q", t.line, count(len(fields), "field"),
				len(d.names), t.comma)
		}
		for j, f := range fields {
			if !utf8.Valid(f) {
				return wrong("line %d, column %d: %s is not UTF-8: declare \"file\": {\"encoding\": \"latin-1\"}, or "+
					"\"windows-1252\"", t.line, j+1, quote(string(f)))
			}
			d.seen[j].add(string(f), d.missing)
		}
	}
}

// chooseFigures sets how the file writes numbers, unless it is declared.
func (d *drafting) chooseFigures(file *File) {
	order := writtenBy(cmp.Or(file.Delimiter, ",")[0])
	if file.Decimal != "" || file.Thousands != "" {
		order = []int{slices.Index(written, file.figures())}
	}
	best, most := order[0], -1
	for _, k := range order {
		n := 0
		for _, s := range d.seen {
			n += s.numbers[k].n
		}
		if n > most {
			best, most = k, n
		}
	}
	for j := range d.seen {
		d.seen[j].figures = best
	}
	if f := written[best]; f.decimal == ',' {
		file.Decimal = ","
	}
	if f := written[best]; f.thousands != 0 {
		file.Thousands = string(rune(f.thousands))
	}
}

// summary holds the statistics of a public column.
type summary struct {
	n, missing int
	numbers    [8]counts // of fields that are numbers, by written
	dates      []counts  // by layouts
	spelled    map[string]int

	figures int    // index of written
	layout  int    // index of layouts, −1 if the column has no dates
	kind    string // what choose found
}

// Kinds of columns.
const (
	kindEmpty  = "empty"
	kindID     = "id"
	kindDate   = "date"
	kindNumber = "number"
	kindLevels = "levels"
)

func (s *summary) add(text string, missing []string) {
	if slices.Contains(missing, text) {
		s.missing++
		return
	}
	s.n++
	if s.spelled == nil {
		s.spelled = map[string]int{}
	}
	if _, known := s.spelled[text]; known || len(s.spelled) < maxSpell {
		s.spelled[text]++
	}
	field := []byte(text)
	for k, f := range written {
		if v, ok := f.number(field); ok && math.Abs(v) <= 1e300 {
			s.numbers[k].add(v, slices.Contains(stopgaps, v))
		}
	}
	if len(text) < 6 || len(text) > longestDate || !strings.ContainsAny(text, "0123456789") {
		return
	}
	for k, layout := range layouts {
		if v, ok := date(field, layout); ok {
			if s.dates == nil {
				s.dates = make([]counts, len(layouts))
			}
			s.dates[k].add(v, slices.Contains(stopgapDates, v))
		}
	}
}

// levels returns the most frequent spellings.
func (s *summary) levels(most int) []string {
	all := slices.SortedFunc(maps.Keys(s.spelled), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.spelled[b], s.spelled[a]), cmp.Compare(a, b))
	})
	return all[:min(most, len(all))]
}

// choose finds the kind of the column.
func (s *summary) choose(name string) {
	s.layout = -1
	whole := &s.numbers[s.figures]
	best := 0
	for k, c := range s.dates {
		if c.n > best && c.lo < c.hi && float64(c.n) >= mostly*float64(s.n) {
			s.layout, best = k, c.n
		}
	}
	if s.layout >= 0 && layouts[s.layout] == compact {
		c := s.dates[s.layout]
		years := func(days float64) int { return day(days).Year() }
		if c.n < s.n || len(s.spelled) < 6 || years(c.lo) < 1900 || years(c.hi) > 2100 {
			s.layout = -1
		}
	}
	names := identifier.MatchString(name)
	switch {
	case s.n == 0:
		s.kind = kindEmpty
	case s.layout >= 0:
		s.kind = kindDate
	case s.isNumber():
		s.kind = kindNumber
		unique := s.n > 20 && len(s.spelled) == min(s.n, maxSpell) && whole.n == s.n && !whole.fraction
		if unique && whole.hi-whole.lo < 1.1*float64(s.n) || names && (unique || len(s.spelled) > maxClasses) {
			s.kind = kindID
		}
	case names && len(s.spelled) > maxClasses:
		s.kind = kindID
	case s.n > 20 && float64(len(s.spelled)) > idShare*float64(s.n):
		s.kind = kindID
	default:
		s.kind = kindLevels
	}
}

// isNumber reports whether the column is one of numbers that differ, but for a few words.
func (s *summary) isNumber() bool {
	c := &s.numbers[s.figures]
	if float64(c.n) < mostly*float64(s.n) || !(c.lo < c.hi) {
		return false
	}
	words := len(s.words())
	return c.n == s.n || words <= fewWords && len(s.spelled)-words > fewWords
}

// words returns the spellings that are no numbers, or no dates in a column of dates.
func (s *summary) words() []string {
	if c := s.numbers[s.figures]; s.layout < 0 && c.n == s.n {
		return nil
	}
	var out []string
	for text := range s.spelled {
		if _, ok := s.value(text); !ok {
			out = append(out, text)
		}
	}
	slices.Sort(out)
	return out
}

func (s *summary) value(text string) (float64, bool) {
	if s.layout >= 0 {
		return date([]byte(text), layouts[s.layout])
	}
	v, ok := written[s.figures].number([]byte(text))
	return v, ok && math.Abs(v) <= 1e300
}

// read returns the counts of the numbers or dates.
func (s *summary) read() *counts {
	if s.layout >= 0 {
		return &s.dates[s.layout]
	}
	return &s.numbers[s.figures]
}

// outer returns the range of the column without far stopgaps that occur more than once, and the
// spellings of these.
func (s *summary) outer() (lo, hi float64, far []string) {
	c := s.read()
	if s.kind != kindNumber && s.kind != kindDate || len(s.spelled) >= maxSpell || !c.some {
		return c.lo, c.hi, nil
	}
	known := stopgaps
	if s.layout >= 0 {
		known = stopgapDates
	}
	lo, hi = c.inner[0], c.inner[1]
	times := map[float64]int{}
	for text, n := range s.spelled {
		if v, ok := s.value(text); ok && slices.Contains(known, v) {
			times[v] += n
		}
	}
	for text := range s.spelled {
		v, ok := s.value(text)
		switch {
		case !ok || !slices.Contains(known, v):
		case c.far(v) && times[v] > 1 && 2*times[v] < c.n:
			far = append(far, text)
		default:
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	slices.Sort(far)
	return lo, hi, far
}

// span returns a range, rounded outward to two digits of its width.
func span(least, most float64, fraction bool) (lo, hi *float64) {
	unit := math.Pow(10, math.Floor(math.Log10(most-least))-1)
	if !fraction {
		unit = max(unit, 1)
	}
	round := func(v float64, to func(float64) float64) float64 {
		if unit < 1 { // 0.1 is not a float64; dividing by 10 rounds correctly
			return to(v*math.Round(1/unit)) / math.Round(1/unit)
		}
		return to(v/unit) * unit
	}
	l, h := round(least, math.Floor), round(most, math.Ceil)
	if !(l < h) || math.IsNaN(l) || math.Abs(l) > 1e300 || math.Abs(h) > 1e300 {
		l, h = least, most
	}
	return &l, &h
}

// day returns the date of a number of days since 2000-01-01.
func day(days float64) time.Time { return time.Unix(epoch+int64(math.Floor(days*86400)), 0).UTC() }

// column returns the declaration of a column that is not the label, and a note about it.
func (d *drafting) column(j int) (c Column, note string) {
	s := &d.seen[j]
	c = Column{Name: d.names[j], Other: true, Missing: s.missing > 0}
	switch s.kind {
	case kindEmpty:
		return Column{Name: c.Name, Ignore: true}, "empty in every row → ignored"
	case kindID:
		note = "unique in every row → ignored"
		if len(s.spelled) < min(s.n, maxSpell) {
			note = fmt.Sprintf("%d spellings in %d rows → ignored; if it names people, add \"person\": %s and \"rows\"",
				len(s.spelled), s.n, quote(c.Name))
		}
		return Column{Name: c.Name, Ignore: true}, note + s.almost()
	case kindLevels:
		c.Levels = s.levels(maxLevels)
		note = fmt.Sprintf("%s → levels", count(len(s.spelled), "spelling"))
		if more := len(s.spelled) - maxLevels; more > 0 {
			note = fmt.Sprintf("%d spellings → %d levels, the others are \"other\"", len(s.spelled), maxLevels)
		}
		return c, note + s.almost()
	}
	lo, hi, far := s.outer()
	c.Min, c.Max = span(lo, hi, s.read().fraction)
	if s.kind == kindDate {
		c.Date = layouts[s.layout]
		note = fmt.Sprintf("dates such as %s → days since 2000-01-01 by \"date\": %q, %s to %s", quote(s.example()), c.Date,
			day(*c.Min).Format(time.DateOnly), day(*c.Max).Format(time.DateOnly))
	} else {
		note = fmt.Sprintf("%s → range %s to %s", s.numbersNote(), plainNumber(*c.Min), plainNumber(*c.Max))
	}
	if words := s.words(); len(words) > 0 {
		c.Missing = true
		note += fmt.Sprintf("; %s (%s) are none and count as missing", list(words[:min(3, len(words))]),
			count(s.n-s.read().n, "field"))
	}
	return c, note + s.ambiguity() + d.farNote(j, &c, far)
}

// farNote describes spellings that stand for missing values, and adds them to those of the schema
// if they mean nothing else in another column.
func (d *drafting) farNote(j int, c *Column, far []string) (note string) {
	for _, text := range far {
		elsewhere := ""
		for i := range d.seen {
			s := &d.seen[i]
			if _, has := s.spelled[text]; i == j || !has || s.kind == kindID && i != d.label {
				continue
			}
			if _, _, also := s.outer(); i == d.label || !slices.Contains(also, text) {
				elsewhere = d.names[i]
			}
		}
		note += fmt.Sprintf("; %s in %s looks like a missing value", quote(text), count(d.seen[j].spelled[text], "row"))
		if elsewhere != "" {
			note += fmt.Sprintf(", but is a value of %s → it counts as the nearest end of the range", elsewhere)
			continue
		}
		note += " → listed in \"missing\""
		c.Missing = true
		if !slices.Contains(d.missing, text) {
			d.missing = append(d.missing, text)
		}
	}
	return note
}

// numbersNote says how the numbers of a column are written.
func (s *summary) numbersNote() string {
	c := s.read()
	if f := written[s.figures]; s.numbers[0].n < c.n {
		return f.String()
	}
	if c.fraction {
		return "numbers"
	}
	return "whole numbers"
}

// ambiguity names another way to read all fields of a column, as other values.
func (s *summary) ambiguity() string {
	c := s.read()
	if s.layout >= 0 {
		for k, o := range s.dates {
			if o.n == c.n && (o.lo != c.lo || o.hi != c.hi) {
				return fmt.Sprintf("; check that it is not %q", layouts[k])
			}
		}
		return ""
	}
	for k, o := range s.numbers {
		if o.n == c.n && (o.lo != c.lo || o.hi != c.hi) {
			return fmt.Sprintf("; check that %s is not written with %s", quote(s.example()), written[k])
		}
	}
	return s.unlike()
}

// unlike notes a column whose numbers are written in another way than those of the file.
func (s *summary) unlike() string {
	best := s.figures
	for k, o := range s.numbers {
		if o.n > s.numbers[best].n {
			best = k
		}
	}
	if best == s.figures || float64(s.numbers[best].n) < mostly*float64(s.n) {
		return ""
	}
	return fmt.Sprintf("; its numbers have %s, those of the file %s: write all of them alike", written[best],
		written[s.figures])
}

// almost notes a column of text that looks like numbers or dates.
func (s *summary) almost() string {
	digits := 0
	for text := range s.spelled {
		if text != "" && strings.ContainsAny(text[:1], "0123456789+-.,$") && strings.ContainsAny(text, "0123456789") {
			digits++
		}
	}
	if note := s.unlike(); note != "" {
		return note
	}
	if s.numbers[s.figures].n == s.n || len(s.spelled) < 3 || float64(digits) < mostly*float64(len(s.spelled)) {
		return ""
	}
	return fmt.Sprintf("; if fields such as %s are numbers or dates, write them plainly", quote(s.example()))
}

// example returns a frequent spelling.
func (s *summary) example() string { return s.levels(1)[0] }

func plainNumber(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// labelOf returns the declaration of the label and a note about it.
func (d *drafting) labelOf() (l Label, note string, err error) {
	s := &d.seen[d.label]
	l.Column = d.names[d.label]
	levels := s.levels(len(s.spelled))
	slices.SortFunc(levels, func(a, b string) int {
		x, _ := written[s.figures].number([]byte(a))
		y, _ := written[s.figures].number([]byte(b))
		return cmp.Or(cmp.Compare(x, y), strings.Compare(a, b))
	})
	c := s.numbers[s.figures]
	switch {
	case len(levels) == 2:
		l.Negative, l.Positive = levels[:1], levels[1:]
		note = fmt.Sprintf("2 spellings → positive %s, negative %s", quote(levels[1]), quote(levels[0]))
	case c.n == s.n && c.lo < c.hi:
		s.layout = -1
		l.Min, l.Max = span(c.lo, c.hi, c.fraction)
		note = fmt.Sprintf("%s → range %s to %s", s.numbersNote(), plainNumber(*l.Min), plainNumber(*l.Max)) + s.ambiguity()
		if s.kind == kindID {
			s.kind = kindNumber
		}
		if _, _, far := s.outer(); len(far) > 0 {
			note += fmt.Sprintf("; %s looks like a missing value, and widens the range", list(far))
		}
	case len(levels) > 2 && len(levels) <= maxClasses:
		l.Levels = levels
		note = fmt.Sprintf("%d spellings → classes", len(levels))
	default:
		return l, "", wrong("the label %s has %s, want 2 to %d, or numbers; is it the right column?", quote(l.Column),
			count(len(levels), "spelling"), maxClasses)
	}
	if s.missing > 0 {
		note += fmt.Sprintf("; missing in %s: add \"unknown\", which says how these count", count(s.missing, "row"))
	}
	return l, note, nil
}
