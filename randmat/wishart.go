// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package randmat

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/internal/noise"
)

// block is the number of rows that stay in cache while the others pass by.
const block = 16

// Wishart overwrites dst, d×d, with a draw from W_d(m) for an integer m with
// d ≤ m ≤ 2¹⁶, by Bartlett's decomposition [Bar33]: W = T T' with T lower triangular,
//
//	T_ii² ~ χ²_{m-i+1} (i = 1…d),  T_ij ~ N(0,1) for i > j,  all independent.
//
// E W = m I. Every entry of the computed T is within a relative 3u of a real number; the product of
// the real matrix with its transpose has exactly the law W_d(m), and [WishartError] bounds its
// distance from dst. The time grows like d m + d³. If Wishart returns an error, which wraps
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
	buf := take(d * d)
	defer give(buf)
	t := *buf
	for i := range d {
		row := t[i*d : i*d+i+1]
		noise.Normal(row[:i], 1, src)
		row[i] = math.Sqrt(noise.ChiSquared(int(m)-i, src))
	}
	w := dst.RawSymmetric()
	for i0 := 0; i0 < d; i0 += block {
		for j := i0; j < d; j++ {
			tj := t[j*d : j*d+d]
			for i := i0; i <= min(j, i0+block-1); i++ {
				w.Data[i*w.Stride+j] = floats.Dot(t[i*d:i*d+i+1], tj[:i+1]) // W_ij = Σ_{l≤i} T_il T_jl
			}
		}
	}
	return nil
}

// WishartError returns a bound on ‖W - W̃‖₂, where W̃ is a matrix of dimension dim computed by
// [Wishart], trace its computed trace, and W the matrix with exactly the law W_d(m) next to it:
//
//	‖W - W̃‖₂ ≤ (d+12) u (1+2⁻¹⁶) tr W̃,  d ≤ 2³²
//
// For σ² > 0, σ² times the bound holds for ‖σ²W - fl(σ²W̃)‖₂ too. The bound is +Inf for dim < 1 and
// for a trace that is negative or NaN. Proof: docs/theory/numerics.md#numerics.wishart
func WishartError(dim int, trace float64) float64 {
	if !(dim >= 1 && trace >= 0) {
		return math.Inf(1)
	}
	return float64(dim+12) * 0x1p-53 * (1 + 0x1p-16) * trace
}

// maxDegrees is the largest m of a draw, whose time grows like d·m.
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
