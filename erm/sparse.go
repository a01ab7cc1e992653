package erm

import (
	"fmt"
	"math"

	"github.com/privopt/privopt/loss"
)

// NewDataCSR is NewData for rows of d features of which most are 0, in
// compressed sparse rows: the entries of row i are val[ptr[i]:ptr[i+1]], in the
// increasing columns col[ptr[i]:ptr[i+1]] of 0, …, d−1. It keeps them so, at 12
// bytes for an entry that is not 0 and 24 for a record. Every value computed
// from Data agrees with that of the same dense rows to rounding, and its records
// have the same order. Data without rows, ptr = {0}, are Empty.
//
// It returns an error wrapping ErrData if the public shape is wrong or if ptr
// and col are not of that form. The latter is a function of the private rows:
// where their form is itself secret, check it before and report nothing.
func NewDataCSR(d int, ptr, col []int, val, labels []float64, b loss.Bounds) (*Data, error) {
	n := len(ptr) - 1
	if n < 0 {
		return nil, fmt.Errorf("%w: ptr is empty, want one entry more than rows", ErrData)
	}
	if err := checkShape(n, len(labels), b); err != nil {
		return nil, err
	}
	if d < 1 || d > math.MaxInt32 {
		return nil, fmt.Errorf("%w: %d features, want 1 to 2³¹−1", ErrData, d)
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

// newSparse returns n sparse records in their canonical order, of about entries
// entries. read appends the columns and values of raw record i to col and x and
// returns its label; it is called at least twice for every record, because rows
// of different lengths cannot be sorted in their place.
func newSparse(n, d, entries int, b loss.Bounds, read func(i int, col []int32, x []float64) ([]int32, []float64, float64)) *records {
	r := newRecords(d, max(entries/max(n, 1), 1), true, b)
	var scratch []float64
	forced := func(i int, col []int32, x []float64) ([]int32, []float64, float64) {
		col, x, label := read(i, col[:0], x[:0])
		scratch = resize(scratch, len(x))
		r.force(x, scratch)
		m := 0
		for k, v := range x {
			if v != 0 {
				col[m], x[m] = col[k], v
				m++
			}
		}
		return col[:m], x[:m], forceLabel(label, b.Label)
	}
	var c, other []int32
	var x, y []float64
	var label, second float64
	keys := make([]key, n)
	for i := range keys {
		c, x, label = forced(i, c, x)
		keys[i] = key{hashSparse(c, x, label), i}
	}
	radix(keys, 0)
	arrange(keys, func(i, j int) int {
		c, x, label = forced(i, c, x)
		other, y, second = forced(j, other, y)
		return compareSparse(c, other, x, y, label, second)
	})
	for k, key := range keys {
		c, x, label = forced(key.index, c, x)
		s := r.open(n - k)
		s.col, s.x = append(s.col, c...), append(s.x, x...)
		s.ptr = append(s.ptr, len(s.x))
		s.y = append(s.y, label)
		s.norm = append(s.norm, normAbove(x, b.Row))
		r.n++
	}
	return r
}
