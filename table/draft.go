// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package table

import (
	"cmp"
	"errors"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
)

const (
	maxLevels  = 50   // of a column, the rest is other
	maxSpell   = 1e5  // different spellings that are counted
	maxClasses = 20   // of a label
	idShare    = 0.95 // of different values in a column of text: an identifier
)

// Draft reads a table of public rows, such as a published or made-up sample, and returns a schema
// that a person should check: numbers with ranges rounded outward, categories with their levels by
// frequency and "other", identifiers ignored. It must not see private rows. From like it takes
// File, Label.Column ("" means the last column) and Missing (nil means "", "?", "NA" and "NaN"). If
// the label has two spellings, the later one in numerical or alphabetical order is positive. The
// error wraps [ErrTable] or [ErrSchema]; it may show values, because the rows are public.
func Draft(public io.Reader, like Schema) (*Schema, error) {
	if err := like.File.check(); err != nil {
		return nil, err
	}
	missing := like.Missing
	if missing == nil {
		missing = []string{"", "?", "NA", "NaN"}
	}
	t, err := like.File.text(public)
	if err != nil {
		return nil, err
	}
	names := like.File.Fields
	if names == nil {
		fields, err := t.header("a header line and public rows")
		if err != nil {
			return nil, err
		}
		for _, f := range fields {
			names = append(names, string(f))
		}
	}
	if len(names) < 2 {
		return nil, wrong("line %d: 1 column, want at least one and the label separated by %q", t.line, t.comma)
	}
	seen := make([]summary, len(names))
	rows := 0
	for ; ; rows++ {
		fields, err := t.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if len(fields) != len(names) {
			return nil, wrong("line %d: %s, want %d", t.line, count(len(fields), "field"), len(names))
		}
		for j, f := range fields {
			seen[j].add(string(f), missing)
		}
	}
	if rows == 0 {
		return nil, wrong("no rows, want some to draft a schema from")
	}
	s := &Schema{Version: 1, File: like.File, Intercept: true, Missing: missing}
	s.File.Multiline = s.File.Multiline || t.spanned
	label := cmp.Or(like.Label.Column, names[len(names)-1])
	at := slices.Index(names, label)
	if at < 0 {
		return nil, wrong("no column is named %s; the columns are %s", quote(label), list(names))
	}
	if s.Label, err = seen[at].label(label); err != nil {
		return nil, err
	}
	for j, name := range names {
		if j != at {
			s.Columns = append(s.Columns, seen[j].column(name))
		}
	}
	return s, s.Check()
}

// summary holds the statistics of a public column.
type summary struct {
	n, numbers, missing int
	lo, hi              float64
	fraction            bool
	spelled             map[string]int
}

func (s *summary) add(text string, missing []string) {
	if slices.Contains(missing, text) {
		s.missing++
		return
	}
	s.n++
	if s.spelled == nil {
		s.spelled, s.lo, s.hi = map[string]int{}, math.Inf(1), math.Inf(-1)
	}
	if _, known := s.spelled[text]; known || len(s.spelled) < maxSpell {
		s.spelled[text]++
	}
	if v, ok := number([]byte(text)); ok && math.Abs(v) <= 1e300 {
		s.numbers++
		s.lo, s.hi = min(s.lo, v), max(s.hi, v)
		s.fraction = s.fraction || v != math.Trunc(v)
	}
}

// levels returns the most frequent spellings.
func (s *summary) levels(most int) []string {
	all := slices.SortedFunc(maps.Keys(s.spelled), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.spelled[b], s.spelled[a]), cmp.Compare(a, b))
	})
	return all[:min(most, len(all))]
}

// number reports whether the column is one of numbers that differ.
func (s *summary) number() bool { return s.n > 0 && s.numbers == s.n && s.lo < s.hi }

// span returns the range, rounded outward to two digits of its width.
func (s *summary) span() (lo, hi *float64) {
	unit := math.Pow(10, math.Floor(math.Log10(s.hi-s.lo))-1)
	if !s.fraction {
		unit = max(unit, 1)
	}
	round := func(v float64, to func(float64) float64) float64 {
		if unit < 1 { // 0.1 is not a float64; dividing by 10 rounds correctly
			return to(v*math.Round(1/unit)) / math.Round(1/unit)
		}
		return to(v/unit) * unit
	}
	l, h := round(s.lo, math.Floor), round(s.hi, math.Ceil)
	if !(l < h) || math.IsNaN(l) || math.Abs(l) > 1e300 || math.Abs(h) > 1e300 {
		l, h = s.lo, s.hi
	}
	return &l, &h
}

func (s *summary) column(name string) Column {
	c := Column{Name: name}
	switch {
	case s.number():
		c.Min, c.Max = s.span()
		c.Other = true
	case len(s.spelled) == 0 || s.n > 20 && float64(len(s.spelled)) > idShare*float64(s.n):
		return Column{Name: name, Ignore: true}
	default:
		c.Levels, c.Other = s.levels(maxLevels), true
	}
	c.Missing = s.missing > 0
	return c
}

func (s *summary) label(name string) (Label, error) {
	l := Label{Column: name}
	levels := s.levels(len(s.spelled))
	slices.SortFunc(levels, func(a, b string) int {
		x, _ := number([]byte(a))
		y, _ := number([]byte(b))
		return cmp.Or(cmp.Compare(x, y), strings.Compare(a, b))
	})
	switch {
	case len(levels) == 2:
		l.Negative, l.Positive = levels[:1], levels[1:]
	case s.number():
		l.Min, l.Max = s.span()
	case len(levels) > 2 && len(levels) <= maxClasses:
		l.Levels = levels
	default:
		return l, wrong("the label %s has %s, want 2 to %d, or numbers; is it the right column?", quote(name),
			count(len(levels), "spelling"), maxClasses)
	}
	return l, nil
}
