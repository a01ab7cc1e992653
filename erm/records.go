// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package erm

import (
	"math/bits"
	"sync"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/internal/kernel"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/loss"
)

// records are the records that Data hides.
type records struct {
	n, d   int
	sparse bool
	shift  int // log₂ of the records in a slab
	slabs  []slab
	bounds loss.Bounds
	src    *source // of records that are not in slabs, else nil
	people *people // whose the records are; nil if every record is a unit of its own

	floatsOnce int // floats()

	gramLock sync.Mutex
	gram     *mat.SymDense // Σ aᵢaᵢ', nil if not computed
	xty      []float64     // Σ bᵢaᵢ
	yty      float64       // Σ bᵢ²

	topLock  sync.Mutex
	topKnown bool
	top      float64 // upper bound on λ_max(Σ aᵢaᵢ')
}

// slab holds consecutive records, 2^records.shift of them except in the last slab. Memory that
// grows slab by slab is never copied to grow.
type slab struct {
	// Dense: the rows, row-major. Sparse: the nonzero entries, row by row; those of row k are
	// x[ptr[k]:ptr[k+1]], in the columns col[ptr[k]:ptr[k+1]].
	x   []float64
	col []int32
	ptr []int

	y    []float64
	norm []float64 // ‖aᵢ‖₂, rounded up
	w    []float64 // weights; nil means 1
}

// slabFloats is the number of entries in a slab: 1 MiB.
const slabFloats = 1 << 17

// slabShift returns log₂ of the number of rows of about width entries that make a slab.
func slabShift(width int) int { return bits.Len(uint(max(slabFloats/max(width, 1), 1))) - 1 }

// width returns the number of stored entries of a row, for sparse rows the mean.
func (r *records) width() int {
	if r.sparse {
		return r.floatsOnce / max(r.n, 1)
	}
	return r.d
}

// floats returns the number of stored entries of all rows.
func (r *records) floats() int {
	if !r.sparse {
		return r.n * r.d
	}
	sum := 0
	for i := range r.slabs {
		sum += len(r.slabs[i].x)
	}
	return sum
}

// open returns the slab for the next record. room is the number of records still to come, 0 if that
// is not known.
func (r *records) open(room int) *slab {
	if last := len(r.slabs) - 1; last >= 0 && len(r.slabs[last].y) < 1<<r.shift {
		return &r.slabs[last]
	} else if last >= 0 {
		r.slabs[last].trim()
	}
	rows := min(room, 1<<r.shift)
	if room == 0 && r.n > 0 {
		rows = 1 << r.shift
	}
	s := slab{y: make([]float64, 0, rows)}
	if r.sparse {
		s.ptr = append(make([]int, 0, rows+1), 0)
	} else {
		s.x = make([]float64, 0, rows*r.d)
	}
	r.slabs = append(r.slabs, s)
	return &r.slabs[len(r.slabs)-1]
}

// trim frees the memory that slab s does not use.
func (s *slab) trim() {
	s.x, s.col, s.ptr, s.y = fit(s.x), fit(s.col), fit(s.ptr), fit(s.y)
}

// measure sets the norms of the rows of s, which are inside the bounds, unless they are known.
func (r *records) measure(s *slab) {
	if len(s.norm) == len(s.y) {
		return
	}
	s.norm = make([]float64, len(s.y))
	for k := range s.norm {
		_, x := r.in(s, k)
		s.norm[k] = normAbove(x, r.bounds.Row)
	}
}

func fit[T any](s []T) []T {
	if cap(s)-len(s) > len(s)/16 {
		return append(make([]T, 0, len(s)), s...)
	}
	return s
}

// at returns the slab of record i and its index in the slab.
func (r *records) at(i int) (*slab, int) {
	if r.src != nil {
		return r.src.at(r, i)
	}
	return &r.slabs[i>>r.shift], i & (1<<r.shift - 1)
}

func (r *records) label(i int) float64 { s, k := r.at(i); return s.y[k] }

func (r *records) norm(i int) float64 { s, k := r.at(i); return s.norm[k] }

func (r *records) weight(i int) float64 { s, k := r.at(i); return s.weight(k) }

func (s *slab) weight(k int) float64 {
	if s.w == nil {
		return 1
	}
	return s.w[k]
}

// entries returns the stored entries of row i and, if the rows are sparse, their columns. They must
// not be changed.
func (r *records) entries(i int) (col []int32, x []float64) {
	s, k := r.at(i)
	return r.in(s, k)
}

// in returns the entries of row k of slab s, as entries does.
func (r *records) in(s *slab, k int) (col []int32, x []float64) {
	if r.sparse {
		lo, hi := s.ptr[k], s.ptr[k+1]
		return s.col[lo:hi:hi], s.x[lo:hi:hi]
	}
	lo, hi := k*r.d, (k+1)*r.d
	return nil, s.x[lo:hi:hi]
}

// row returns row i, which must not be changed: the stored row if rows are dense, else a copy in
// scratch, which has length d.
func (r *records) row(i int, scratch []float64) []float64 {
	col, x := r.entries(i)
	if !r.sparse {
		return x
	}
	clear(scratch)
	for k, j := range col {
		scratch[j] = x[k]
	}
	return scratch
}

// dot returns ⟨a,x⟩ for the entries of a row.
func (r *records) dot(col []int32, a, x []float64) float64 {
	if r.sparse {
		return dotSparse(col, a, x)
	}
	return floats.Dot(a, x)
}

// addScaled adds w·a to dst for the entries of a row.
func (r *records) addScaled(dst []float64, w float64, col []int32, a []float64) {
	if r.sparse {
		addScaledSparse(dst, w, col, a)
		return
	}
	kernel.AddScaled(dst, w, a)
}

// mul stores ⟨aᵢ,x⟩ in u for the len(u) records from index k of slab s.
func (r *records) mul(u []float64, s *slab, k int, x []float64, stream bool) {
	if !r.sparse {
		kernel.MulVec(u, s.x[k*r.d:(k+len(u))*r.d], x, stream)
		return
	}
	for i := range u {
		lo, hi := s.ptr[k+i], s.ptr[k+i+1]
		u[i] = dotSparse(s.col[lo:hi], s.x[lo:hi], x)
	}
}

// addMul adds Σ wᵢaᵢ to dst for the len(w) records from index k of slab s.
func (r *records) addMul(dst []float64, s *slab, k int, w []float64) {
	if !r.sparse {
		kernel.AddMulVec(dst, s.x[k*r.d:(k+len(w))*r.d], w)
		return
	}
	for i, v := range w {
		lo, hi := s.ptr[k+i], s.ptr[k+i+1]
		addScaledSparse(dst, v, s.col[lo:hi], s.x[lo:hi])
	}
}

// mul2 is mul in double-double, u + ul.
func (r *records) mul2(u, ul []float64, s *slab, k int, x []float64) {
	if !r.sparse {
		kernel.MulVec2(u, ul, s.x[k*r.d:(k+len(u))*r.d], x)
		return
	}
	for i := range u {
		lo, hi := s.ptr[k+i], s.ptr[k+i+1]
		u[i], ul[i] = dot2(s.col[lo:hi], s.x[lo:hi], x)
	}
}

// addMul2 is addMul in double-double: it adds Σ (wᵢ+wlᵢ)aᵢ to hi + lo.
func (r *records) addMul2(hi, lo []float64, s *slab, k int, w, wl []float64) {
	if !r.sparse {
		kernel.AddMulVec2(hi, lo, s.x[k*r.d:(k+len(w))*r.d], w, wl)
		return
	}
	for i, v := range w {
		from, to := s.ptr[k+i], s.ptr[k+i+1]
		axpy2(hi, lo, v, wl[i], s.col[from:to], s.x[from:to])
	}
}

func dotSparse(col []int32, a, x []float64) float64 {
	a = a[:len(col)]
	sum := 0.0
	for k, j := range col {
		sum += a[k] * x[j]
	}
	return sum
}

func addScaledSparse(dst []float64, w float64, col []int32, a []float64) {
	a = a[:len(col)]
	for k, j := range col {
		dst[j] += w * a[k]
	}
}

// dot2 returns Σ aₖx_cₖ, cₖ = col[k], as a normalized hi + lo with an error of at most
// (k+4)²u²·Σ|aₖx_cₖ| for k entries, up to underflow.
func dot2(col []int32, a, x []float64) (hi, lo float64) {
	for k, j := range col {
		p, e := num.TwoProd(a[k], x[j])
		s, t := num.TwoSum(hi, p)
		hi, lo = s, lo+t+e
	}
	return num.TwoSum(hi, lo)
}

// axpy2 adds (w+wl)·aₖ to the normalized pairs hi_cₖ + lo_cₖ, cₖ = col[k].
func axpy2(hi, lo []float64, w, wl float64, col []int32, a []float64) {
	for k, j := range col {
		p, e := num.TwoProd(w, a[k])
		hi[j], lo[j] = num.Add2(hi[j], lo[j], p, e+wl*a[k])
	}
}
