// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package table

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/loss"
)

// Encoder encodes fields as records, by its schema. It is immutable and safe for concurrent use.
type Encoder struct {
	schema    Schema
	columns   []column // those that are not ignored
	features  []Feature
	label     map[string]float64
	intercept float64 // its entry, 0 without one
	width     int     // most entries of a row that are not 0
}

// Feature is a coordinate of an encoded row. In the units of the file a prediction ⟨a,θ⟩ has the
// intercept Σ_j Offset_j·θ_j, plus the middle of the range of a label with a range, and the
// coefficient Scale_j·θ_j of the value or the indicator of feature j.
type Feature struct {
	Name   string `json:"name"`             // such as "age<25", "age[25,35)", "education=HS-grad", "hours"
	Column string `json:"column,omitempty"` // "" for the intercept
	Scale  float64
	Offset float64
}

// column is a group of coordinates.
type column struct {
	name           string
	at, size       int     // first coordinate, number of coordinates
	c              float64 // norm of the group
	lo, hi         float64 // range of a number
	mid, half      float64 // of a number without bins
	number         bool
	figures        figures // of the file
	date           string  // layout
	bins           []float64
	bin            []int          // coordinates of the bins
	level          map[string]int // coordinates of the levels
	other, missing int            // coordinates; unknown for none
	shown          []string       // names of the levels or bins in order, those of a reference included
	shownAt        []int          // their coordinates, -1 of a declared reference
	lenient        bool           // fields without a meaning count as missing
	cross          []int          // indices of the columns of an interaction
}

// Encoder checks the schema and returns its Encoder, which later changes of the schema do not
// change. The error wraps ErrSchema.
func (s *Schema) Encoder() (*Encoder, error) {
	if s == nil {
		return nil, fmt.Errorf("%w: the schema is nil", ErrSchema)
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	e := &Encoder{schema: s.clone(), label: s.Label.values()}
	toLabel := 1.0
	if s.Label.kind() == Range {
		_, toLabel = middle(*s.Label.Min, *s.Label.Max)
	}
	var weights []float64
	if s.Intercept {
		weights = append(weights, 1)
	}
	var groups []Column
	var paths []string
	for i, c := range s.Columns {
		path := fmt.Sprintf("columns[%d]", i)
		if err := c.check(path, s.Missing); err != nil {
			return nil, err
		}
		if c.Ignore {
			continue
		}
		c.Weight = cmp.Or(c.Weight, 1)
		groups, paths = append(groups, c), append(paths, path)
		weights = append(weights, c.Weight)
	}
	if len(groups) == 0 {
		return nil, bad("columns", "all are ignored, want at least one that is not")
	}
	norms := groupNorms(weights)
	e.width = len(norms)
	if s.Intercept {
		e.intercept = norms[0]
		e.add(Feature{Name: "(intercept)", Offset: norms[0]}, toLabel)
		norms = norms[1:]
	}
	for i, c := range groups {
		if c.Cross != nil {
			if err := e.addCross(paths[i], c, norms[i], toLabel); err != nil {
				return nil, err
			}
			continue
		}
		if err := e.addColumn(paths[i], c, norms[i], toLabel); err != nil {
			return nil, err
		}
	}
	if len(e.features) > maxFeatures || e.Dim() > math.MaxInt32 {
		return nil, bad("columns", "%d coordinates, want at most %d: list fewer levels and add \"other\": true", e.Dim(),
			maxFeatures)
	}
	return e, nil
}

func (e *Encoder) add(f Feature, toLabel float64) {
	f.Scale *= toLabel
	f.Offset *= toLabel
	e.features = append(e.features, f)
}

func (e *Encoder) addColumn(path string, c Column, norm, toLabel float64) error {
	col := column{name: c.Name, at: len(e.features), c: norm, bins: c.Bins, lenient: c.Other, other: unknown,
		missing: unknown, figures: e.schema.File.figures(), date: c.Date}
	if c.Min != nil {
		col.lo, col.hi = *c.Min, *c.Max
	}
	var found bool
	var shown []string
	// indicator adds one and returns its coordinate, -1 for the reference.
	indicator := func(sign, level string) int {
		at := len(e.features)
		if shown = append(shown, level); c.Reference == level && !found {
			found, at = true, -1
		} else {
			e.add(Feature{Name: c.Name + sign + level, Column: c.Name, Scale: norm}, toLabel)
		}
		col.shown, col.shownAt = append(col.shown, c.Name+sign+level), append(col.shownAt, at)
		return at
	}
	switch {
	case c.Levels != nil:
		col.level = make(map[string]int, len(c.Levels))
		for _, l := range c.Levels {
			col.level[l] = indicator("=", l)
		}
		if c.Other {
			col.other = indicator(" ", "other")
		}
	case c.Bins != nil:
		col.number = true
		edges := make([]string, len(c.Bins))
		for k, edge := range c.Bins {
			edges[k] = strconv.FormatFloat(edge, 'g', -1, 64)
		}
		col.bin = append(col.bin, indicator("", "<"+edges[0]))
		for k := 1; k < len(edges); k++ {
			col.bin = append(col.bin, indicator("", "["+edges[k-1]+","+edges[k]+")"))
		}
		col.bin = append(col.bin, indicator("", ">="+edges[len(edges)-1]))
	default:
		col.number = true
		col.mid, col.half = middle(*c.Min, *c.Max)
		e.add(Feature{Name: c.Name, Column: c.Name, Scale: norm / col.half, Offset: -norm * (col.mid / col.half)}, toLabel)
	}
	if c.Missing {
		col.missing = indicator(" ", "missing")
	}
	col.size = len(e.features) - col.at
	if c.Reference != "" && shown == nil {
		return bad(path+".reference", "%s has neither levels nor bins: leave it out", quote(c.Name))
	}
	if c.Reference != "" && !found {
		return bad(path+".reference", "%s is no level or bin of %s, want one of %s", quote(c.Reference), quote(c.Name),
			list(shown))
	}
	if col.size == 0 {
		return bad(path+".reference", "%s is the only level of %s, want one of several", quote(c.Reference), quote(c.Name))
	}
	e.columns = append(e.columns, col)
	return nil
}

// addCross adds an indicator for each combination of the levels of columns that stand before c.
func (e *Encoder) addCross(path string, c Column, norm, toLabel float64) error {
	col := column{name: c.Name, at: len(e.features), c: norm, size: 1}
	names := []string{""}
	for k, name := range c.Cross {
		path := fmt.Sprintf("%s.cross[%d]", path, k)
		i := slices.IndexFunc(e.columns, func(f column) bool { return f.name == name })
		switch {
		case i < 0:
			return bad(path, "%s is no column that stands before this one and is not ignored", quote(name))
		case slices.Contains(col.cross, i):
			return bad(path, "%s stands twice, want different columns", quote(name))
		case e.columns[i].cross != nil:
			return bad(path, "%s is an interaction itself: list its columns", quote(name))
		case e.columns[i].level == nil && e.columns[i].bins == nil:
			return bad(path, "%s has neither levels nor bins: give it bins", quote(name))
		}
		f := &e.columns[i]
		col.cross, col.size = append(col.cross, i), col.size*f.size
		if col.size > maxFeatures {
			return bad(path, "more than %d combinations of levels, want fewer levels", maxFeatures)
		}
		var longer []string
		for _, first := range names {
			for _, more := range e.features[f.at : f.at+f.size] {
				longer = append(longer, strings.TrimPrefix(first+" × "+more.Name, " × "))
			}
		}
		names = longer
	}
	if len(col.cross) < 2 {
		return bad(path+".cross", "%s, want at least 2", count(len(col.cross), "column"))
	}
	for _, name := range names {
		e.add(Feature{Name: name, Column: c.Name, Scale: norm}, toLabel)
	}
	e.columns = append(e.columns, col)
	return nil
}

// References gives each column of levels or bins that has none its first level as Reference, if the
// schema has an intercept and the column another level.
func (s *Schema) References() {
	for i := range s.Columns {
		c := &s.Columns[i]
		if !s.Intercept || c.Reference != "" || len(c.Levels)+len(c.Bins) == 0 {
			continue
		}
		if len(c.Levels) > 0 {
			c.Reference = c.Levels[0]
		} else {
			c.Reference = "<" + strconv.FormatFloat(c.Bins[0], 'g', -1, 64)
		}
		if len(c.Levels) == 1 && !c.Other && !c.Missing {
			c.Reference = ""
		}
	}
}

// middle returns the middle and half the width of an interval.
func middle(lo, hi float64) (mid, half float64) { return lo/2 + hi/2, hi/2 - lo/2 }

// groupNorms returns c_g = w_g/√(Σ w²), rounded so that Σ c_g² ≤ 1 exactly.
func groupNorms(w []float64) []float64 {
	largest, sum := slices.Max(w), 0.0
	for _, v := range w {
		sum += (v / largest) * (v / largest)
	}
	c := make([]float64, len(w))
	for scale := 1 / math.Sqrt(sum); ; scale = math.Nextafter(scale, 0) {
		exact := new(big.Rat)
		for i, v := range w {
			c[i] = scale * (v / largest)
			r := new(big.Rat).SetFloat64(c[i])
			exact.Add(exact, r.Mul(r, r))
		}
		if exact.Cmp(big.NewRat(1, 1)) <= 0 {
			return c
		}
	}
}

// Kind is the kind of a label.
type Kind int

// The kinds of a label.
const (
	Binary  Kind = iota + 1 // −1 or +1
	Classes                 // 0, 1, …, K−1
	Range                   // a number in [−1, 1]
)

func (l Label) kind() Kind {
	switch {
	case l.Levels != nil:
		return Classes
	case l.Min != nil:
		return Range
	}
	return Binary
}

func (l Label) values() map[string]float64 {
	v := map[string]float64{}
	for _, s := range l.Positive {
		v[s] = 1
	}
	for _, s := range l.Negative {
		v[s] = -1
	}
	for k, s := range l.Levels {
		v[s] = float64(k)
	}
	return v
}

// unknown returns the label of a field without a meaning.
func (l Label) unknown() (float64, bool) {
	switch {
	case l.Unknown == "":
		return 0, false
	case l.kind() == Classes:
		return float64(slices.Index(l.Levels, l.Unknown)), true
	case l.Unknown == "positive":
		return 1, true
	case l.Unknown == "negative":
		return -1, true
	}
	return 0, true // the middle
}

// Schema returns a copy of the schema.
func (e *Encoder) Schema() *Schema { s := e.schema.clone(); return &s }

func (s *Schema) clone() Schema {
	c := *s
	c.Missing, c.File.Fields = slices.Clone(s.Missing), slices.Clone(s.File.Fields)
	c.Columns = slices.Clone(s.Columns)
	l := &c.Label
	l.Positive, l.Negative = slices.Clone(l.Positive), slices.Clone(l.Negative)
	l.Levels = slices.Clone(l.Levels)
	l.Min, l.Max = cloneFloat(l.Min), cloneFloat(l.Max)
	for i := range c.Columns {
		k := &c.Columns[i]
		k.Min, k.Max, k.Bins, k.Levels = cloneFloat(k.Min), cloneFloat(k.Max), slices.Clone(k.Bins), slices.Clone(k.Levels)
		k.Cross = slices.Clone(k.Cross)
	}
	return c
}

func cloneFloat(v *float64) *float64 {
	if v == nil {
		return nil
	}
	return new(*v)
}

// Persons returns what the schema says about persons, for [erm.OpenByPerson]; ok is false if every
// record is a unit of its own.
func (e *Encoder) Persons() (p erm.Persons, ok bool) { return e.schema.persons() }

func (s *Schema) persons() (p erm.Persons, ok bool) {
	p.Rows, p.Column = s.Rows, s.Person
	if s.Weights == erm.LinesEqual.String() {
		p.Weights = erm.LinesEqual
	}
	return p, s.Person != ""
}

// Features returns the coordinates of an encoded row in order.
func (e *Encoder) Features() []Feature { return slices.Clone(e.features) }

// Kind returns the kind of the label.
func (e *Encoder) Kind() Kind { return e.schema.Label.kind() }

// NumClasses returns K, 2 for a binary label and 0 for a range.
func (e *Encoder) NumClasses() int {
	if e.Kind() == Binary {
		return 2
	}
	return len(e.schema.Label.Levels)
}

// Dim returns the number of parameters: that of Features, times that of classes for a label with
// levels, whose θ has a block for each class, as in [loss.Multinomial].
func (e *Encoder) Dim() int {
	return max(1, len(e.schema.Label.Levels)) * len(e.features)
}

// Bounds returns the bounds of every encoded record: ‖a‖₂ ≤ 1 and |b| ≤ 1, or K−1 for a label with
// levels.
func (e *Encoder) Bounds() loss.Bounds {
	return loss.Bounds{Row: 1, Label: float64(max(1, len(e.schema.Label.Levels)-1))}
}

// sparse reports whether ReadCSV keeps sparse rows: if at most a third of the entries can be
// nonzero. A sparse entry takes 12 bytes, a dense one 8.
func (e *Encoder) sparse() bool { return 3*e.width <= e.Dim() }

// LabelText returns an encoded label as the file spells it: the first spelling of its class, or the
// number in the units of the file.
func (e *Encoder) LabelText(b float64) string {
	l := e.schema.Label
	switch e.Kind() {
	case Classes:
		return l.Levels[int(min(max(math.RoundToEven(b), 0), float64(len(l.Levels)-1)))]
	case Range:
		return strconv.FormatFloat(e.LabelValue(b), 'g', -1, 64)
	}
	if b >= 0 {
		return l.Positive[0]
	}
	return l.Negative[0]
}

// LabelValue maps a label or a prediction to the units of the file: mid + half·b for a range, b
// itself for other labels.
func (e *Encoder) LabelValue(b float64) float64 {
	if e.Kind() != Range {
		return b
	}
	mid, half := middle(*e.schema.Label.Min, *e.schema.Label.Max)
	return mid + half*b
}

// row appends the columns and entries of the encoded features to col and val; fields[at[k]] is the
// field of column k. It returns the index of a column whose field has no meaning, or -1. A field
// without a level counts as an equal share of each declared one; with total, a field without a
// meaning does, too.
func (e *Encoder) row(
	col []int32, val []float64, missing map[string]bool, fields [][]byte, at []int, total bool,
) ([]int32, []float64, int) {
	if e.schema.Intercept {
		col, val = append(col, 0), append(val, e.intercept)
	}
	for k := range e.columns {
		c := &e.columns[k]
		if c.cross != nil {
			j, gap := e.combination(c, fields, at, missing)
			if gap {
				col, val = e.combine(col, val, c, fields, at, missing)
			} else if j >= 0 {
				col, val = append(col, int32(j)), append(val, c.c)
			}
			continue
		}
		j, v, ok := c.encode(fields[at[k]], missing)
		if !ok && !total {
			return col, val, k
		}
		if j >= 0 && v != 0 {
			col, val = append(col, int32(j)), append(val, v)
		} else if j == unknown {
			col, val = c.average(col, val)
		}
	}
	return col, val, -1
}

// combination returns the coordinate of an interaction, -1 if a column of it has no coordinate, and
// whether one has no level.
func (e *Encoder) combination(c *column, fields [][]byte, at []int, missing map[string]bool) (j int, gap bool) {
	k, none := 0, false
	for _, i := range c.cross {
		f := &e.columns[i]
		j, _, _ := f.encode(fields[at[i]], missing)
		k = k*f.size + j - f.at
		none = none || j < 0
		gap = gap || j == unknown
	}
	if none {
		return -1, gap
	}
	return c.at + k, false
}

// encode returns the coordinate of a field, -1 of a reference and unknown for none, its entry, and
// whether the field has a meaning.
func (c *column) encode(text []byte, missing map[string]bool) (at int, v float64, ok bool) {
	if k, ok := c.level[string(text)]; ok {
		return k, c.c, true
	}
	if missing[string(text)] {
		return c.missing, c.c, true
	}
	if !c.number {
		return c.other, c.c, c.lenient
	}
	x, ok := c.value(text)
	switch {
	case !ok || math.IsNaN(x):
		return c.missing, c.c, ok || c.lenient
	case c.bins != nil:
		k, equal := slices.BinarySearch(c.bins, x)
		if equal {
			k++
		}
		return c.bin[k], c.c, true
	}
	return c.at, c.c * position(x, c.mid, c.half), true
}

// value returns the number that a field of a column of numbers holds.
func (c *column) value(text []byte) (float64, bool) {
	if c.date != "" {
		return date(text, c.date)
	}
	return c.figures.number(text)
}

// position maps x to [−1, 1], clamped.
func position(x, mid, half float64) float64 { return min(max((x-mid)/half, -1), 1) }

// labelOf returns the label of a field, and whether it has one.
func (e *Encoder) labelOf(text []byte, missing map[string]bool) (float64, bool) {
	if v, ok := e.label[string(text)]; ok {
		return v, true
	}
	l := &e.schema.Label
	if e.Kind() == Range && !missing[string(text)] {
		if x, ok := e.schema.File.figures().number(text); ok && !math.IsNaN(x) {
			mid, half := middle(*l.Min, *l.Max)
			return position(x, mid, half), true
		}
	}
	return l.unknown()
}

// beyond reports whether a label is a number beyond its declared range.
func (e *Encoder) beyond(text []byte, missing map[string]bool) bool {
	l := &e.schema.Label
	if e.Kind() != Range || missing[string(text)] {
		return false
	}
	x, ok := e.schema.File.figures().number(text)
	return ok && (x < *l.Min || x > *l.Max)
}

// noLabel returns the label of a record of zeros, for which no loss of ⟨a,θ⟩ has a gradient.
func (e *Encoder) noLabel() float64 {
	if y, ok := e.schema.Label.unknown(); ok {
		return y
	}
	if e.Kind() == Binary {
		return -1
	}
	return 0 // the first class, the middle of the range
}
