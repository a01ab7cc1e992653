// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package table

import "slices"

// Coefficient is a coefficient in the units of the file: the change of the prediction per unit of a
// number, or between a row with a level and one with the reference level of its column.
type Coefficient struct {
	Class  string  `json:"class,omitempty"` // of a label with levels
	Name   string  `json:"name"`            // of the feature, or "(intercept)"
	Column string  `json:"column,omitempty"`
	Value  float64 `json:"value"`
}

// Form is a coefficient as a function of θ: Constant + Σ_k Weights[k]·θ[At[k]].
type Form struct {
	Coefficient // Value is 0
	Constant    float64
	At          []int
	Weights     []float64
}

// Apply returns the coefficient for θ. It panics if θ is shorter than Encoder.Dim.
func (f *Form) Apply(theta []float64) Coefficient {
	c := f.Coefficient
	c.Value = f.Constant
	for k, j := range f.At {
		if j >= len(theta) {
			panic(badLen)
		}
		c.Value += f.Weights[k] * theta[j]
	}
	return c
}

func (f *Form) add(w float64, j int) {
	f.At, f.Weights = append(f.At, j), append(f.Weights, w)
}

// Forms returns the coefficients of an encoded θ. The intercept, which includes the middles of the
// ranges, comes first in every class, and each column follows with its slope, or with all of its
// levels or bins in order.
//
// Records determine each of them, though the columns of encoded rows are redundant: one level of
// each column is its reference and has the coefficient 0. That is the declared reference or else
// the first level. Without an intercept, the first column of levels that declares no reference has
// none, and takes the part of the intercept. The coefficient of an interaction of two columns is
// the difference of differences from the reference of either.
func (e *Encoder) Forms() []Form {
	one := e.forms()
	if e.Kind() != Classes {
		return one
	}
	var all []Form
	for k, class := range e.schema.Label.Levels {
		for _, f := range one {
			f.Class = class
			f.At = slices.Clone(f.At)
			for i := range f.At {
				f.At[i] += k * len(e.features)
			}
			all = append(all, f)
		}
	}
	return all
}

// Coefficients converts θ, of length Dim, to the units of the file: the values of Forms. It panics
// if θ has another length.
func (e *Encoder) Coefficients(theta []float64) []Coefficient {
	if len(theta) != e.Dim() {
		panic(badLen)
	}
	forms := e.Forms()
	out := make([]Coefficient, len(forms))
	for i := range forms {
		out[i] = forms[i].Apply(theta)
	}
	return out
}

const badLen = "table: length mismatch"

// forms returns the forms of one block of θ.
func (e *Encoder) forms() []Form {
	out := []Form{{Coefficient: Coefficient{Name: "(intercept)"}, Constant: e.LabelValue(0)}}
	for j, f := range e.features {
		if f.Offset != 0 {
			out[0].add(f.Offset, j)
		}
	}
	base := e.base()
	first := map[int]int{} // form of the first level of a column
	for i := range e.columns {
		c := &e.columns[i]
		first[i] = len(out)
		switch {
		case c.level == nil && c.bins == nil: // a number, with or without a level for missing, or an interaction
			for j := c.at; j < c.at+c.size; j++ {
				f := e.features[j]
				out = append(out, Form{Coefficient: Coefficient{Name: f.Name, Column: f.Column}})
				out[len(out)-1].add(f.Scale, j)
			}
			if c.cross != nil {
				e.contrast(out, first, i, base)
			}
		default:
			for k, name := range c.shown {
				out = append(out, Form{Coefficient: Coefficient{Name: name, Column: c.name}})
				if j := c.shownAt[k]; j >= 0 {
					out[len(out)-1].add(e.features[j].Scale, j)
				}
			}
			if c.whole() && i != base {
				e.refer(out, first, base, c.shownAt[0])
				for k := range c.shown {
					e.less(&out[first[i]+k], c.shownAt[0])
				}
			}
		}
	}
	for i := range out {
		out[i].tidy()
	}
	return out
}

// whole reports whether every level of the column has a coordinate.
func (c *column) whole() bool { return len(c.shown) > 0 && c.size == len(c.shown) }

// base returns the column of levels that takes the part of the intercept, -1 for the intercept.
func (e *Encoder) base() int {
	if e.intercept > 0 {
		return -1
	}
	for i := range e.columns {
		if e.columns[i].whole() {
			return i
		}
	}
	return -1
}

// refer adds the effect of coordinate j, which every row is taken to have, to the intercept or to
// the levels of the base.
func (e *Encoder) refer(out []Form, first map[int]int, base, j int) {
	if base < 0 {
		out[0].add(e.features[j].Scale, j)
		return
	}
	for k := range e.columns[base].shown {
		out[first[base]+k].add(e.features[j].Scale, j)
	}
}

// less takes the effect of coordinate j away.
func (e *Encoder) less(f *Form, j int) { f.add(-e.features[j].Scale, j) }

// contrast refers interaction i to the references of its columns, and moves the differences to
// these. Interactions of three columns and more are referred to their first combination alone.
func (e *Encoder) contrast(out []Form, first map[int]int, i, base int) {
	c := &e.columns[i]
	if len(c.cross) != 2 {
		e.refer(out, first, base, c.at)
		for k := range c.size {
			e.less(&out[first[i]+k], c.at)
		}
		return
	}
	one, two := &e.columns[c.cross[0]], &e.columns[c.cross[1]]
	at := func(a, b int) int { return c.at + a*two.size + b } // of the levels with coordinates a and b
	for a := range one.size {
		for b := range two.size {
			f := &out[first[i]+a*two.size+b]
			if one.whole() {
				e.less(f, at(0, b))
			}
			if two.whole() {
				e.less(f, at(a, 0))
			}
			if one.whole() && two.whole() {
				f.add(e.features[c.at].Scale, at(0, 0))
			}
		}
	}
	if two.whole() { // rows with the reference of the second column have these effects of the first
		e.move(out, first[c.cross[0]], one, two.whole() && one.whole(), func(a int) int { return at(a, 0) })
	}
	if one.whole() {
		e.move(out, first[c.cross[1]], two, two.whole() && one.whole(), func(b int) int { return at(0, b) })
	}
	if one.whole() && two.whole() {
		e.refer(out, first, base, at(0, 0))
	}
}

// move adds effects of the interaction to the levels of a column, less that of the first level
// where this has gone elsewhere.
func (e *Encoder) move(out []Form, first int, c *column, referred bool, at func(level int) int) {
	for k, j := range c.shownAt {
		if j < 0 {
			continue
		}
		out[first+k].add(e.features[at(j-c.at)].Scale, at(j-c.at))
		if referred {
			e.less(&out[first+k], at(0))
		}
	}
}

// tidy adds up the weights of each coordinate and leaves out those that are 0, in order.
func (f *Form) tidy() {
	sum := map[int]float64{}
	for k, j := range f.At {
		sum[j] += f.Weights[k]
	}
	at, weights := f.At, f.Weights
	f.At, f.Weights = nil, nil
	for k, j := range at {
		if w, ok := sum[j]; ok && weights[k] != 0 {
			if w != 0 {
				f.add(w, j)
			}
			delete(sum, j)
		}
	}
}

// unknown is the coordinate of a field without a level.
const unknown = -2

// places returns the coordinates of the declared levels, -1 of a reference.
func (c *column) places() []int {
	return slices.DeleteFunc(slices.Clone(c.shownAt), func(j int) bool { return j == c.other || j == c.missing })
}

// average appends the entries of a row that has an equal share of each declared level of the
// column, for a field without a level: its prediction is the mean of theirs.
func (c *column) average(col []int32, val []float64) ([]int32, []float64) {
	places := c.places()
	for _, j := range places {
		if j >= 0 {
			col, val = append(col, int32(j)), append(val, c.c/float64(len(places)))
		}
	}
	return col, val
}

// combine appends the entries of an interaction with a column that has no level.
func (e *Encoder) combine(
	col []int32, val []float64, c *column, fields [][]byte, at []int, missing map[string]bool,
) ([]int32, []float64) {
	cells, all := []int{0}, 1
	for _, i := range c.cross {
		f := &e.columns[i]
		j, _, _ := f.encode(fields[at[i]], missing)
		places := []int{j}
		if j == unknown {
			places = f.places()
		}
		all *= len(places)
		var next []int
		for _, cell := range cells {
			for _, j := range places {
				if j >= 0 {
					next = append(next, cell*f.size+j-f.at)
				}
			}
		}
		cells = next
	}
	for _, cell := range cells {
		col, val = append(col, int32(c.at+cell)), append(val, c.c/float64(all))
	}
	return col, val
}
