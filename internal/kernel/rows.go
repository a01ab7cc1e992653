// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package kernel holds the inner loops that decide how fast solvers are. Every exported function
// states its formula and has a portable implementation, that of gonum for plain products. On amd64
// processors with AVX2 and FMA they run in assembly. The bits are those of the portable functions,
// but for products with blocks of rows, which agree to the rounding that their comments state. The
// build tags noasm, safe and purego leave the assembly out. A BLAS registered with gonum is not
// used.
//
// In products with a block of rows, A has m rows of d numbers, row-major without gaps; u and w hold
// one number per row, x and dst one per column. Arguments that are written must not overlap others.
//
// [Each] runs the parts of a pass on several goroutines.
package kernel

import (
	"math"

	"gonum.org/v1/gonum/blas"
	blasgonum "gonum.org/v1/gonum/blas/gonum"

	"github.com/privopt/privopt/internal/num"
)

// sse is gonum's BLAS, called on plain slices.
var sse blasgonum.Implementation

const badLen = "kernel: length mismatch"

// MulVec stores Ax in u. stream states that the rows come from memory rather than from a cache:
// then gonum's kernels are faster row by row than on four rows at a time. Implementations differ by
// at most 2d·2⁻⁵³·Σ|terms|.
func MulVec(u, a, x []float64, stream bool) {
	m, d := len(u), len(x)
	if len(a) != m*d {
		panic(badLen)
	}
	if m == 0 || d == 0 {
		clear(u)
		return
	}
	switch {
	case haveRows:
		mulVec(u, a, x)
	case stream || m == 1:
		for i := range u {
			u[i] = sse.Ddot(d, a[i*d:(i+1)*d], 1, x, 1)
		}
	default:
		sse.Dgemv(blas.NoTrans, m, d, 1, a, d, x, 1, 0, u, 1)
	}
}

// AddMulVec adds A'w to dst. Implementations differ by at most 2m·2⁻⁵³·Σ|terms|.
func AddMulVec(dst, a, w []float64) {
	m, d := len(w), len(dst)
	if len(a) != m*d {
		panic(badLen)
	}
	if m == 0 || d == 0 {
		return
	}
	switch {
	case haveRows && m > 1:
		addMulVec(dst, a, w)
	case m == 1:
		sse.Daxpy(d, w[0], a, 1, dst, 1)
	default:
		sse.Dgemv(blas.Trans, m, d, 1, a, d, w, 1, 1, dst, 1)
	}
}

// AddScaled adds w·a to dst.
func AddScaled(dst []float64, w float64, a []float64) {
	if len(a) != len(dst) {
		panic(badLen)
	}
	sse.Daxpy(len(dst), w, a, 1, dst, 1)
}

// Block returns the number of rows of d numbers to take at a time for a product with A followed by
// one with A'. A block of rows that stream from memory fits the first-level cache, so that the
// second product finds it there. With gonum's kernels a block is one row: their products with
// several rows read memory at half its speed.
func Block(d int, stream bool) int {
	const kib = 1 << 10 / 8
	switch {
	case !stream:
		return max(32*kib/d&^3, 4)
	case haveRows:
		return max(8*kib/d&^3, 4)
	}
	return 1
}

// Slope replaces u by c(u−y), the derivative of (c/2)(u−y)².
func Slope(u, y []float64, c float64) {
	if len(u) != len(y) {
		panic(badLen)
	}
	for len(u) >= 4 && len(y) >= 4 {
		u[0], u[1], u[2], u[3] = c*(u[0]-y[0]), c*(u[1]-y[1]), c*(u[2]-y[2]), c*(u[3]-y[3])
		u, y = u[4:], y[4:]
	}
	for i, v := range y {
		u[i] = c * (u[i] - v)
	}
}

// GramStride returns the distance of rows of d numbers in the arguments of [AddGram].
func GramStride(d int) int { return (d + 7) &^ 7 }

// AddGram adds Σ wᵢaᵢaᵢ', w ≥ 0, to the upper triangle of h. It may change a. Rows of A and of h
// are GramStride(d) apart. Between them A has zeros; h may have any numbers there and below its
// diagonal.
func AddGram(h, w, a []float64, d int) { AddGramFrom(h, w, a, d, 0) }

// AddGramFrom is AddGram for the rows and columns from number first on, a multiple of 8. a may be
// rows of h before that.
func AddGramFrom(h, w, a []float64, d, first int) {
	stride, m := GramStride(d), len(w)
	if d < 1 || len(h) != d*stride || len(a) != m*stride {
		panic(badLen)
	}
	switch {
	case m == 0:
		return
	case haveRows:
		addGram(h, w, a, d, first)
		return
	}
	for i, v := range w {
		sse.Dscal(d, math.Sqrt(v), a[i*stride:], 1)
	}
	for i := first; i < d; i++ { // hᵢ += A'aᵢ right of the diagonal: Dsyrk takes one row of A at a time
		sse.Dgemv(blas.Trans, m, d-i, 1, a[i:], stride, a[i:], stride, 1, h[i*stride+i:], 1)
	}
}

// Dot2 returns ⟨a,x⟩ as a normalized hi + lo, with an error of at most (d+4)²u²·Σ|aⱼxⱼ| up to
// underflow. Its bits are the same on all processors. u is the unit roundoff.
// Proof: docs/theory/numerics.md#numerics.dot.
func Dot2(a, x []float64) (hi, lo float64) {
	var h0, h1, h2, h3, l0, l1, l2, l3 float64
	for ; len(a) >= 4 && len(x) >= 4; a, x = a[4:], x[4:] {
		h0, l0 = addProduct(h0, l0, a[0], x[0])
		h1, l1 = addProduct(h1, l1, a[1], x[1])
		h2, l2 = addProduct(h2, l2, a[2], x[2])
		h3, l3 = addProduct(h3, l3, a[3], x[3])
	}
	if len(a) > 0 {
		h0, l0 = addProduct(h0, l0, a[0], x[0])
	}
	if len(a) > 1 {
		h1, l1 = addProduct(h1, l1, a[1], x[1])
	}
	if len(a) > 2 {
		h2, l2 = addProduct(h2, l2, a[2], x[2])
	}
	h0, e0 := num.TwoSum(h0, h1)
	h2, e2 := num.TwoSum(h2, h3)
	h0, e := num.TwoSum(h0, h2)
	return num.TwoSum(h0, ((l0+l1)+(l2+l3))+((e0+e2)+e))
}

// addProduct returns h + l + ax.
func addProduct(h, l, a, x float64) (hi, lo float64) {
	p, e := num.TwoProd(a, x)
	s, t := num.TwoSum(h, p)
	return s, l + (t + e)
}

// MulVec2 stores Ax in u + ul, with the bits of [Dot2] for each row.
func MulVec2(u, ul, a, x []float64) {
	m, d := len(u), len(x)
	if len(ul) != m || len(a) != m*d {
		panic(badLen)
	}
	i := 0
	if haveRows && d > 0 && m >= 4 {
		i = m &^ 3
		mulRows2(&u[0], &ul[0], &a[0], &x[0], i/4, d)
	}
	for ; i < m; i++ {
		u[i], ul[i] = Dot2(a[i*d:(i+1)*d], x)
	}
}

// AddMulVec2 adds A'(w+wl) to the normalized hi + lo, where |wl| ≤ u|w|. Its bits are the same on
// all processors. With S = Σᵢ|wᵢaᵢⱼ| and up to underflow, it loses at most (m+2)²u²S in the sum
// over the block, and 3u²(2|hiⱼ| + (m+2)S) where num.Add2 adds that sum, whose low part has at most
// (m+1)uS. Proof: docs/theory/numerics.md#numerics.dot.
func AddMulVec2(hi, lo, a, w, wl []float64) {
	m, d := len(w), len(hi)
	if len(lo) != d || len(wl) != m || len(a) != m*d {
		panic(badLen)
	}
	if m == 0 || d == 0 {
		return
	}
	if haveRows {
		addRows2(&hi[0], &lo[0], &a[0], &w[0], &wl[0], m, d)
		return
	}
	for j := range hi {
		var h, l float64
		for i, v := range w {
			p, e := num.TwoProd(a[i*d+j], v)
			s, t := num.TwoSum(h, p)
			h, l = s, l+(t+math.FMA(a[i*d+j], wl[i], e))
		}
		hi[j], lo[j] = num.Add2(hi[j], lo[j], h, l)
	}
}
