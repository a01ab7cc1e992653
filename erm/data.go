// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package erm

import (
	"fmt"
	"math"
	"reflect"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/loss"
)

// Data holds n records (aᵢ, bᵢ) with d features each. Every record is forced into the declared
// bounds ‖aᵢ‖₂ ≤ Row and |bᵢ| ≤ Label:
//
//	a row longer than Row is scaled to norm Row, a label is clamped;
//	a NaN entry or label becomes 0, and so does −0;
//	a row with infinite entries becomes Row·s/‖s‖₂, s their signs;
//	an infinite label becomes ±Label.
//
// The result is a function of that record and the bounds alone, so that neighboring inputs stay
// neighboring, and no value of a record is ever an error. The exact norm of every stored row is at
// most Row. Records are kept in a canonical order, that of a fixed hash of their content:
// everything computed from Data has the same bits for any order of the input. Row and Label count
// in the canonical order. Records of [Open] stay in their source and in its order and are forced
// into the bounds at every read.
//
// Data is immutable, safe for concurrent use, and prints as its dimensions. The zero value has no
// records.
type Data struct {
	// r is a function because fmt prints functions as addresses. So no verb prints a record even if
	// Data is an unexported field of another struct, where fmt cannot call Format.
	r func() *records
}

// newData hides r.
func newData(r *records) *Data { return &Data{func() *records { return r }} }

// records returns what d hides, no records for nil and the zero value.
func (d *Data) records() *records {
	if d == nil || d.r == nil {
		return new(records)
	}
	return d.r()
}

// canonical hides complete records in canonical order.
func canonical(r *records) *Data {
	if n := len(r.slabs); n > 0 {
		r.slabs[n-1].trim()
	}
	r.floatsOnce = r.floats()
	for i := range r.slabs {
		r.measure(&r.slabs[i])
	}
	return newData(r)
}

// NewData copies rows and labels and forces each record into the bounds, as [Data] describes. It
// returns an error wrapping [ErrData] if the public shape is wrong: no rows, no features, rows of
// different lengths, another number of labels, or invalid bounds.
func NewData(rows [][]float64, labels []float64, b loss.Bounds) (*Data, error) {
	if err := checkShape(len(rows), len(labels), b); err != nil {
		return nil, err
	}
	for i, row := range rows {
		if len(row) != len(rows[0]) {
			return nil, fmt.Errorf("%w: rows[%d] has %d features, rows[0] has %d; want one length",
				ErrData, i, len(row), len(rows[0]))
		}
	}
	d := 0
	if len(rows) > 0 {
		d = len(rows[0])
	}
	return dense(len(rows), d, 0, b, func(i int, row []float64) float64 {
		copy(row, rows[i])
		return labels[i]
	})
}

// NewDataDense is [NewData] for the rows of the n×d matrix x.
func NewDataDense(x mat.Matrix, labels []float64, b loss.Bounds) (*Data, error) {
	if v := reflect.ValueOf(x); x == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, fmt.Errorf("%w: the matrix of rows is nil", ErrData)
	}
	n, d := x.Dims()
	if err := checkShape(n, len(labels), b); err != nil {
		return nil, err
	}
	threads := 1 // the method At of another matrix may not be safe for concurrent use
	if _, ok := x.(mat.RawMatrixer); ok {
		threads = 0
	}
	return dense(n, d, threads, b, func(i int, row []float64) float64 {
		mat.Row(row, i, x)
		return labels[i]
	})
}

// dense returns the data of newDense, or an error if there are no records or no features.
func dense(n, d, threads int, b loss.Bounds, read func(i int, row []float64) (label float64)) (*Data, error) {
	switch {
	case n == 0:
		return nil, fmt.Errorf("%w: no records, so no number of features; want at least 1, or Empty", ErrData)
	case d == 0:
		return nil, fmt.Errorf("%w: rows have no features, want at least 1", ErrData)
	}
	return canonical(newDense(n, d, threads, b, read)), nil
}

// NewDataCSR is [NewData] for rows of d features, most of which are 0, in compressed sparse rows:
// the entries of row i are val[ptr[i]:ptr[i+1]], in the increasing columns col[ptr[i]:ptr[i+1]] of
// 0, …, d−1. Data keeps them in this form, at 12 bytes for each nonzero entry and 24 for each
// record. Every value computed from Data agrees with that of the same dense rows to rounding, and
// the records have the same order. Data without rows, ptr = {0}, are [Empty].
//
// It returns an error wrapping [ErrData] if the public shape is wrong or if ptr and col are not of
// that form. The form of ptr and col is a function of the private rows: if the form itself is
// secret, check it before and report nothing.
func NewDataCSR(d int, ptr, col []int, val, labels []float64, b loss.Bounds) (*Data, error) {
	n := len(ptr) - 1
	if n < 0 {
		return nil, fmt.Errorf("%w: ptr is empty, want one entry more than rows", ErrData)
	}
	if err := checkShape(n, len(labels), b); err != nil {
		return nil, err
	}
	if err := checkFeatures(d); err != nil {
		return nil, err
	}
	if len(col) != len(val) {
		return nil, fmt.Errorf("%w: %d columns and %d values, want equally many", ErrData, len(col), len(val))
	}
	if ptr[0] != 0 || ptr[n] != len(val) {
		return nil, fmt.Errorf("%w: ptr runs from %d to %d, want 0 to the %d values", ErrData, ptr[0], ptr[n], len(val))
	}
	for i := range n {
		if ptr[i] > ptr[i+1] || ptr[i+1] > len(val) {
			return nil, fmt.Errorf("%w: ptr decreases after row %d", ErrData, i)
		}
		last := -1
		for _, j := range col[ptr[i]:ptr[i+1]] {
			if j <= last || j >= d {
				return nil, fmt.Errorf("%w: the columns of row %d do not increase from 0 to at most %d", ErrData, i, d-1)
			}
			last = j
		}
	}
	return canonical(newSparse(n, d, len(val), b, func(i int, c []int32, x []float64) ([]int32, []float64, float64) {
		for k := ptr[i]; k < ptr[i+1]; k++ {
			c, x = append(c, int32(col[k])), append(x, val[k])
		}
		return c, x, labels[i]
	})), nil
}

// Empty returns data of no records with dim features. Under [dp.AddRemove] it is a neighbor of the
// data of one record. Everything is defined on it, and F = 0. It returns an error wrapping
// [ErrData] for an invalid dim or invalid bounds.
func Empty(dim int, b loss.Bounds) (*Data, error) { return NewDataCSR(dim, []int{0}, nil, nil, nil, b) }

func checkShape(rows, labels int, b loss.Bounds) error {
	if err := b.Check(); err != nil {
		return fmt.Errorf("%w: %w", ErrData, err)
	}
	if rows != labels {
		return fmt.Errorf("%w: %d rows and %d labels, want equally many", ErrData, rows, labels)
	}
	return nil
}

func checkFeatures(d int) error {
	if d < 1 || d > math.MaxInt32 {
		return fmt.Errorf("%w: %d features, want 1 to 2³¹−1", ErrData, d)
	}
	return nil
}

// Builder collects records one at a time, for readers that should hold a file only once. Every
// record is forced into the bounds, as [Data] describes, and no value is an error. It is not safe
// for concurrent use.
type Builder struct{ in *building } // a pointer, which fmt prints as an address inside a struct

type building struct {
	records // sparse ones as they came, dense ones forced into the bounds
	scratch []float64
	ids     [][]digest // of idsTogether records each, as far as they are known
}

// partWidth is the number of entries of a row for which the slabs of a Builder of sparse rows are
// made.
const partWidth = 64

// NewBuilder returns a Builder of records with d features, stored as sparse rows if sparse is true.
// The error wraps [ErrData] for d outside 1 to 2³¹−1 and for invalid bounds.
func NewBuilder(d int, sparse bool, b loss.Bounds) (*Builder, error) {
	if err := checkShape(0, 0, b); err != nil {
		return nil, err
	}
	if err := checkFeatures(d); err != nil {
		return nil, err
	}
	width := d
	if sparse {
		width = partWidth
	}
	return &Builder{&building{records: records{d: d, sparse: sparse, shift: slabShift(width), bounds: b}}}, nil
}

// Add adds a record with a copy of its row. It panics if the row has not d features.
func (b *Builder) Add(row []float64, label float64) {
	in := b.in
	if len(row) != in.d {
		panic(badLen)
	}
	s := in.open(0)
	if in.sparse {
		for j, v := range row {
			if v != 0 {
				s.col, s.x = append(s.col, int32(j)), append(s.x, v)
			}
		}
	} else {
		s.x = append(s.x, row...)
	}
	in.close(s, label)
}

// AddSparse adds a record with a copy of the entries val of its row, in the columns col; all others
// are 0. It panics if col and val have different lengths or if the columns do not increase from 0
// to at most d−1.
func (b *Builder) AddSparse(col []int32, val []float64, label float64) {
	in := b.in
	if len(col) != len(val) {
		panic(badLen)
	}
	last := int32(-1)
	for _, j := range col {
		if j <= last || int(j) >= in.d {
			panic(badIndex)
		}
		last = j
	}
	s := in.open(0)
	if in.sparse {
		s.col, s.x = append(s.col, col...), append(s.x, val...)
	} else {
		at := len(s.x)
		s.x = slices.Grow(s.x, in.d)[:at+in.d]
		clear(s.x[at:]) // Grow promises no zeros
		for k, j := range col {
			s.x[at+int(j)] = val[k]
		}
	}
	in.close(s, label)
}

// close completes the record whose entries were just appended to s.
func (in *building) close(s *slab, label float64) {
	in.n++
	if in.sparse {
		s.ptr, s.y = append(s.ptr, len(s.x)), append(s.y, label)
		return
	}
	in.scratch = resize(in.scratch, in.d)
	in.force(s.x[len(s.x)-in.d:], in.scratch)
	s.y = append(s.y, forceLabel(label, in.bounds.Label))
}

// Data returns the records added, 0×d if there are none. The Builder must not be used after that.
func (b *Builder) Data() *Data {
	r := &b.in.records
	b.in.ids, b.in = nil, nil // r is a part of b.in
	if !r.sparse {
		r.sort()
		return canonical(r)
	}
	stored := func(i int, c []int32, x []float64) ([]int32, []float64, float64) {
		col, a := r.entries(i)
		return append(c, col...), append(x, a...), r.label(i)
	}
	return canonical(newSparse(r.n, r.d, r.floats(), r.bounds, stored))
}

// Format writes the dimensions for every verb: "erm.Data(300×100)".
func (d Data) Format(f fmt.State, _ rune) {
	n, k := d.Dims()
	fmt.Fprintf(f, "erm.Data(%d×%d)", n, k)
}

// Dims returns the number n of records and d of features; 0 and 0 for nil and the zero value. Under
// [dp.AddRemove] n is private. For data of [Persons], n is the number of persons: that of their
// lines is private under every relation.
func (d *Data) Dims() (records, features int) {
	r := d.records()
	return r.units(), r.d
}

// Bounds returns the declared bounds, zero for nil and the zero value.
func (d *Data) Bounds() loss.Bounds { return d.records().bounds }

// Row returns a copy of row i of the canonical order, inside its bounds. Not private: it is a
// record. It panics if i is out of range.
func (d *Data) Row(i int) []float64 {
	r := d.at(i)
	return slices.Clone(r.row(i, make([]float64, r.d)))
}

// Label returns label i of the canonical order, inside its bounds. Not private: it is part of a
// record. It panics if i is out of range.
func (d *Data) Label(i int) float64 {
	return d.at(i).label(i)
}

// at returns the records. It panics unless i is the index of one.
func (d *Data) at(i int) *records {
	r := d.records()
	if i < 0 || i >= r.n {
		panic(badIndex)
	}
	return r
}

// Map returns data with the labels that f returns. f gets one record, a copy of its row and its
// label, and returns the new label, which is clamped as in [NewData]. If keep is false, the zero
// record (row 0, label 0) replaces the record; its gradient of a loss φ(⟨a,θ⟩;b) is 0. n does not
// change, because under [dp.Replace] n is public. f must not look at other records. Over a
// [Source], f is called at every read, from several goroutines at once, and must return the same
// for a record each time. Map of nil or the zero value is empty.
func (d *Data) Map(f func(a []float64, b float64) (label float64, keep bool)) *Data {
	from := d.records()
	if from.src != nil {
		return from.mapped(mapping(f))
	}
	if from.people != nil {
		return from.mappedInPlace(mapping(f))
	}
	labels := make([]float64, from.n)
	keep := make([]bool, from.n)
	row, scratch := make([]float64, from.d), make([]float64, from.d)
	for i := range from.n {
		copy(row, from.row(i, scratch))
		labels[i], keep[i] = f(row, from.label(i))
		if !keep[i] {
			labels[i] = 0
		}
	}
	if from.sparse {
		kept := func(i int, col []int32, x []float64) ([]int32, []float64, float64) {
			if keep[i] {
				c, a := from.entries(i)
				col, x = append(col, c...), append(x, a...)
			}
			return col, x, labels[i]
		}
		return canonical(newSparse(from.n, from.d, from.floatsOnce, from.bounds, kept))
	}
	return canonical(newDense(from.n, from.d, 0, from.bounds, func(i int, row []float64) float64 {
		if clear(row); keep[i] {
			copy(row, from.row(i, nil))
		}
		return labels[i]
	}))
}
