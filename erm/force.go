// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package erm

import (
	"math"
	"math/big"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/internal/kernel"
	"github.com/privopt/privopt/internal/num"
)

// forceRow replaces row in place by the nearest multiple with ‖row‖₂ ≤ bound, a function of row and
// bound alone. It does not change rows inside the bound.
//
//	NaN entries   become 0
//	±Inf entries  the row becomes bound·s/‖s‖₂, s the signs of the infinite entries: the limit of
//	              scaling longer and longer rows
//	‖row‖₂ > bound  the row becomes row·bound/‖row‖₂
//
// The exact norm of the resulting float64 values is at most bound: rounding does not lift a row
// above the declared bound. scratch has the length of row. The result reports whether row was
// inside.
func forceRow(row, scratch []float64, bound float64) (inside bool) {
	if side(squares(row), len(row), bound) < 0 {
		return true
	}
	inside, infinite := true, false
	for j, v := range row {
		switch {
		case math.IsNaN(v):
			row[j], inside = 0, false
		case math.IsInf(v, 0):
			infinite = true
		}
	}
	if infinite {
		for j, v := range row {
			switch {
			case math.IsInf(v, 1):
				row[j] = 1
			case math.IsInf(v, -1):
				row[j] = -1
			default:
				row[j] = 0
			}
		}
	} else if !exceeds(row, bound) {
		return inside
	}

	_, e := math.Frexp(maxAbs(row))
	s1, s2 := math.Ldexp(1, min(1-e, 1000)), math.Ldexp(1, max(1-e-1000, 0)) // two factors: their product may overflow
	for j, v := range row {
		scratch[j] = v * s1 * s2 // max |scratch| in [1, 2): no overflow below
	}
	norm := floats.Norm(scratch, 2)
	// Rounding may leave the scaled row one unit in the last place too long: it is shrunk until its
	// exact norm is inside. At shrink = 1 the row is 0, so the loop ends.
	for shrink := 0.0; ; shrink = min(2*shrink+0x1p-52, 1) {
		f := bound / norm * (1 - shrink)
		for j, v := range scratch {
			row[j] = v * f
		}
		if !exceeds(row, bound) {
			return false
		}
	}
}

// forceLabel clamps b into [−bound, bound]; NaN and −0 become 0.
func forceLabel(b, bound float64) float64 {
	switch {
	case math.IsNaN(b) || b == 0:
		return 0
	case b > bound:
		return bound
	case b < -bound:
		return -bound
	}
	return b
}

// side returns −1 if ‖row‖₂ < bound and 1 if ‖row‖₂ > bound is proved by sum = squares(row). It
// returns 0 for rows close to the bound, for NaN, and where squares leave the range of float64.
//
// Rounding changes a sum of d products by at most γ_d = du/(1−du) of it, and underflow by d times
// the smallest number, which is negligible next to a square of 2⁻⁹⁰⁰. The square of bound is
// rounded once.
func side(sum float64, d int, bound float64) int {
	square := bound * bound
	margin := square * (float64(d+8) * 0x1p-52)
	switch {
	case !squarable(bound):
		return 0
	case sum < square-margin:
		return -1
	case sum > square+margin:
		return 1
	}
	return 0
}

// squarable reports whether squares of numbers close to bound neither overflow nor lose digits.
func squarable(bound float64) bool { return bound > 0x1p-450 && bound < 0x1p450 }

// squares replaces −0 by 0 and returns Σ vⱼ². The sum is +Inf or NaN if entries are infinite or NaN
// or if their squares overflow.
func squares(row []float64) float64 {
	var s0, s1, s2, s3 float64 // independent sums, which the processor adds in parallel
	for ; len(row) >= 4; row = row[4:] {
		v0, v1 := row[0]+0, row[1]+0
		v2, v3 := row[2]+0, row[3]+0
		row[0], row[1] = v0, v1
		row[2], row[3] = v2, v3
		s0 += v0 * v0
		s1 += v1 * v1
		s2 += v2 * v2
		s3 += v3 * v3
	}
	for j, v := range row {
		v += 0
		row[j] = v
		s0 += v * v
	}
	return (s0 + s1) + (s2 + s3)
}

// exceeds reports whether ‖row‖₂ > bound in exact arithmetic, for a row without NaN and
// 0 < bound < +Inf.
func exceeds(row []float64, bound float64) bool {
	if s := side(squares(row), len(row), bound); s != 0 {
		return s > 0
	}
	if squarable(bound) {
		hi, lo := kernel.Dot2(row, row)
		ph, pl := num.TwoProd(bound, bound)
		excess, d := (hi-ph)+(lo-pl), float64(len(row)+4)
		if math.Abs(excess) > 4*d*d*unit*unit*ph { // the error of Dot2 and three roundings, three times over
			return excess > 0
		}
	}
	return maxAbs(row) > bound || exceedsExactly(row, bound)
}

// exceedsExactly decides ‖row‖₂ > bound without rounding.
func exceedsExactly(row []float64, bound float64) bool {
	_, top := math.Frexp(bound)
	low := top
	for _, v := range row {
		if v != 0 {
			_, e := math.Frexp(v)
			low = min(low, e)
		}
	}
	// Squares are multiples of 2^(2(low−1−53)), and their sum is below len(row)·2^(2 top). With this
	// precision every partial sum is exact.
	prec := uint(2*(top-low)+2*54+2) + uint(math.Log2(float64(len(row)+1))) + 2
	sum := new(big.Float).SetPrec(prec)
	sq := new(big.Float).SetPrec(prec)
	x := new(big.Float).SetPrec(53)
	for _, v := range row {
		if v != 0 {
			x.SetFloat64(v)
			sum.Add(sum, sq.Mul(x, x))
		}
	}
	x.SetFloat64(bound)
	return sum.Cmp(sq.Mul(x, x)) > 0
}

// maxAbs returns max |vⱼ|, 0 for an empty v.
func maxAbs(v []float64) float64 {
	m := 0.0
	for _, x := range v {
		if x = math.Abs(x); x > m {
			m = x
		}
	}
	return m
}

// normAbove returns an upper bound on ‖row‖₂ that is at most bound, for a row with ‖row‖₂ ≤ bound.
// Its relative error is at most 2⁻⁴⁹ plus rounding in d, or its error two subnormal steps. It is 0
// for a zero row.
func normAbove(row []float64, bound float64) float64 { return normOf(squares(row), row, bound) }

// normOf is normAbove for sum = squares(row).
func normOf(sum float64, row []float64, bound float64) float64 {
	norm := math.Sqrt(sum)
	if !(sum > 0x1p-900 && sum < 0x1p900) {
		norm = floats.Norm(row, 2)
		if norm < 0x1p-960 && maxAbs(row) > 0 { // subnormal norms lose more than the last digit
			norm += 2 * math.SmallestNonzeroFloat64
		}
	}
	return min(norm*(1+float64(len(row)+8)*0x1p-52), bound)
}

// force replaces row in place by the row inside the bounds, without −0. It returns normAbove of the
// result and whether row was inside.
func (r *records) force(row, scratch []float64) (norm float64, inside bool) {
	sum := squares(row)
	if side(sum, len(row), r.bounds.Row) < 0 {
		return normOf(sum, row, r.bounds.Row), true
	}
	inside = forceRow(row, scratch, r.bounds.Row)
	return normAbove(row, r.bounds.Row), inside
}
