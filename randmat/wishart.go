// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package randmat

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/internal/kernel"
	"github.com/privopt/privopt/internal/noise"
)

// block is the number of columns of T whose products are added at once.
const block = 64

// Wishart overwrites dst, d×d, with a draw from W_d(m) for an integer m with
// d ≤ m ≤ 2¹⁶, by Bartlett's decomposition [Bar33]: W = T T' with T lower triangular,
//
//	T_ii² ~ χ²_{m-i+1} (i = 1…d),  T_ij ~ N(0,1) for i > j,  all independent.
//
// E W = m I. Every entry of the computed T is close to a real number; the product of the real
// matrix with its transpose has exactly the law W_d(m), and [WishartError] bounds its distance from
// dst. The time grows like d³. If Wishart returns an error, which wraps
// ErrDegrees or ErrDimension, it fills dst with NaN, so that a caller who ignores the error does
// not release without noise.
func Wishart(dst *mat.SymDense, m float64, src rand.Source) error {
	if dst == nil || src == nil {
		return fmt.Errorf("%w: the matrix or the source is nil, want both", ErrDimension)
	}
	d := dst.SymmetricDim()
	if err := checkDraw(d, m); err != nil {
		for i := range d {
			for j := range i + 1 {
				dst.SetSym(i, j, math.NaN())
			}
		}
		return err
	}
	w := dst.RawSymmetric()
	for i := range d {
		clear(w.Data[i*w.Stride+i : i*w.Stride+d])
	}
	for first := 0; first < d; first += block {
		addColumns(w, first, int(m), src)
	}
	return nil
}

// addColumns draws the columns of T from column first on, at most block of them, and adds their
// products to w.
func addColumns(w blas64.Symmetric, first, m int, src rand.Source) {
	n := w.N - first // rows of T that are not 0
	stride, count := kernel.GramStride(n), min(block, n)
	buf := take(count*stride + count + n*stride)
	defer give(buf)
	columns, ones := (*buf)[:count*stride], (*buf)[count*stride:count*stride+count]
	products := (*buf)[count*stride+count:]
	for l := range count {
		column := columns[l*stride : l*stride+n]
		column[l] = math.Sqrt(noise.ChiSquared(m-first-l, src))
		noise.Normals(column[l+1:], src)
		ones[l] = 1
	}
	kernel.AddGram(products, ones, columns, n)
	for i := range n {
		row := w.Data[(first+i)*w.Stride+first+i:]
		floats.Add(row[:n-i], products[i*stride+i:i*stride+n])
	}
}

// WishartError returns a bound on ‖W - W̃‖₂, where W̃ is a matrix of dimension dim computed by
// [Wishart], trace its computed trace, and W the matrix with exactly the law W_d(m) next to it:
//
//	‖W - W̃‖₂ ≤ (1+2⁻¹⁶) [(d+12) u tr W̃ + d u √tr W̃ + (d u)²],  d ≤ 2³²
//
// For σ² > 0, σ² times the bound holds for ‖σ²W - fl(σ²W̃)‖₂ too. The bound is +Inf for dim < 1 and
// for a trace that is negative or NaN. Proof: docs/theory/numerics.md#numerics.wishart
func WishartError(dim int, trace float64) float64 {
	if !(dim >= 1 && trace >= 0) {
		return math.Inf(1)
	}
	du := float64(dim) * 0x1p-53
	return (1 + 0x1p-16) * ((du+12*0x1p-53)*trace + du*math.Sqrt(trace) + du*du)
}

// maxDegrees is the largest m of a draw.
const maxDegrees = 1 << 16

// checkDraw reports whether W_d(m) exists and can be drawn.
func checkDraw(d int, m float64) error {
	if err := checkDegrees(d, m); err != nil {
		return err
	}
	if m != math.Floor(m) || m > maxDegrees {
		return fmt.Errorf("%w: m = %v, want an integer up to 2^16 to draw", ErrDegrees, m)
	}
	return nil
}

// checkDegrees reports whether W_d(m) exists.
func checkDegrees(d int, m float64) error {
	switch {
	case d == 0:
		return fmt.Errorf("%w: want at least one row", ErrDimension)
	case !(m > float64(d-1)):
		return fmt.Errorf("%w: m = %v in dimension %d, want m > %d", ErrDegrees, m, d, d-1)
	case m > 0x1p50:
		return fmt.Errorf("%w: m = %v, want m ≤ 2^50", ErrDegrees, m)
	}
	return nil
}
