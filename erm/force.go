package erm

import (
	"math"
	"math/big"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/internal/num"
)

// forceRow replaces row in place by the nearest multiple inside ‖row‖₂ ≤ bound,
// looking at nothing but row and bound. It is the identity on rows inside.
//
//	NaN entries   become 0
//	±Inf entries  the row becomes bound·s/‖s‖₂, s the signs of the infinite
//	              entries: the limit of scaling in ever longer rows
//	‖row‖₂ > bound  the row becomes row·bound/‖row‖₂
//
// The exact norm of the float64 values left in row is at most bound: rounding
// does not lift a row above the declared bound. scratch has the length of row.
//
// It returns whether row was inside.
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
	s1, s2 := math.Ldexp(1, min(1-e, 1000)), math.Ldexp(1, max(1-e-1000, 0)) // their product may overflow
	for j, v := range row {
		scratch[j] = v * s1 * s2 // max |scratch| in [1, 2): no overflow below
	}
	norm := floats.Norm(scratch, 2)
	// Rounding may leave the scaled row an ulp too long: shrink it until the
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

// side returns −1 where ‖row‖₂ < bound and 1 where ‖row‖₂ > bound by a margin that proves it, and 0 for
// rows next to the bound, for NaN and where squares leave the range of float64; sum is squares(row).
//
// Products and sums of d terms round by at most γ_d = du/(1−du) of them, and by the smallest number
// where they underflow, which is nothing beside a square of 2⁻⁹⁰⁰; that of bound is rounded once.
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

// squarable reports that squares of numbers around bound neither overflow nor lose digits.
func squarable(bound float64) bool { return bound > 0x1p-450 && bound < 0x1p450 }

// squares replaces −0 by 0 and returns Σ vⱼ²: +Inf or NaN where entries are infinite, not numbers, or
// their squares overflow.
func squares(row []float64) float64 {
	var s0, s1, s2, s3 float64 // sums that do not wait for each other
	for ; len(row) >= 4; row = row[4:] {
		v0, v1, v2, v3 := row[0]+0, row[1]+0, row[2]+0, row[3]+0
		row[0], row[1], row[2], row[3] = v0, v1, v2, v3
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

// exceeds reports whether ‖row‖₂ > bound in exact arithmetic, for a row
// without NaN and 0 < bound < +Inf.
func exceeds(row []float64, bound float64) bool {
	if s := side(squares(row), len(row), bound); s != 0 {
		return s > 0
	}
	if !squarable(bound) && maxAbs(row) > bound {
		return true
	}
	// Scale by 2⁻ᵉ in two factors, so that bound is in [½, 1) and neither
	// factor overflows: entries that underflow add less than 2⁻¹⁰⁰⁰.
	f, e := math.Frexp(bound)
	s1, s2 := math.Ldexp(1, -e/2), math.Ldexp(1, -e+e/2)
	var hi, lo float64 // Σ t² = hi + lo up to 4d²u² relative
	for _, v := range row {
		t := v * s1 * s2
		p := float64(t * t)
		q := math.FMA(t, t, -p)
		var r float64
		hi, r = num.TwoSum(hi, p)
		lo += r + q
	}
	ph := float64(f * f)
	pl := math.FMA(f, f, -ph)
	excess := (hi - ph) + (lo - pl)
	d := float64(len(row) + 1)
	switch margin := 8 * d * d * 0x1p-106; {
	case excess > margin:
		return true
	case excess < -margin:
		return false
	}
	return exceedsExactly(row, bound)
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
	// Squares are multiples of 2^(2(low−1−53)) and their sum is below
	// len(row)·2^(2 top): so many bits hold every partial sum exactly.
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

// normAbove returns an upper bound on ‖row‖₂ that is at most bound and tight
// to 2⁻⁴⁹ relative plus rounding in d, or two subnormal steps, for a row with
// ‖row‖₂ ≤ bound. It is 0 for a zero row.
func normAbove(row []float64, bound float64) float64 { return normOf(squares(row), row, bound) }

func normOf(sum float64, row []float64, bound float64) float64 {
	norm := math.Sqrt(sum)
	if !(sum > 0x1p-900 && sum < 0x1p900) {
		norm = floats.Norm(row, 2)
		if norm < 0x1p-960 && maxAbs(row) > 0 { // subnormal norms lose digits, not only the last
			norm += 2 * math.SmallestNonzeroFloat64
		}
	}
	return min(norm*(1+float64(len(row)+8)*0x1p-52), bound)
}
