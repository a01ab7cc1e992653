// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package prox

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// LinearMinimizer is the ability of a bounded [Set] to minimize a linear function over it, for the
// Frank–Wolfe method.
//
//	set          argmin_{s∈C} ⟨v,s⟩
//	Simplex      Total·e_i, i the first with the least v_i
//	L1Ball       −R·sgn(v_i)e_i, i the first with the largest |v_i|
//	L2Ball       −R·v/‖v‖₂
//	Box          Lo where v_i > 0, Hi elsewhere
//	NuclearBall  −R·u₁v₁ᵀ of the largest singular value of v, in O(d·min(Rows,Cols))
//
// For v = 0 every point of the set is a minimizer.
type LinearMinimizer interface {
	Set
	// MinLinear stores a minimizer of ⟨v,s⟩ over s ∈ C in dst, which may be v. It
	// does not allocate. If an entry of v is not finite, so is one of dst.
	MinLinear(dst, v []float64)
}

// minLinear checks the arguments of MinLinear, and reports whether there is something to minimize.
func minLinear(dst, v []float64) bool {
	sameLen(dst, v)
	return !poison(dst, v) && len(v) > 0
}

// MinLinear stores Total·e_i in dst, i the first with the least v_i.
func (g Simplex) MinLinear(dst, v []float64) {
	if !minLinear(dst, v) {
		return
	}
	at := floats.MinIdx(v)
	clear(dst)
	dst[at] = g.Total
}

// MinLinear stores −R·sgn(v_i)e_i in dst, i the first with the largest |v_i|.
func (g L1Ball) MinLinear(dst, v []float64) {
	if !minLinear(dst, v) {
		return
	}
	at := 0
	for i, vi := range v {
		if math.Abs(vi) > math.Abs(v[at]) {
			at = i
		}
	}
	s := -math.Copysign(g.R, v[at])
	clear(dst)
	dst[at] = s
}

// MinLinear stores −R·v/‖v‖₂ in dst, and 0 for v = 0.
func (g L2Ball) MinLinear(dst, v []float64) {
	if !minLinear(dst, v) {
		return
	}
	n := norm2(v)
	for i, vi := range v {
		dst[i] = 0
		if n > 0 {
			dst[i] = -vi / n * (g.R * (1 - 8*ulp)) // within the ball after rounding
		}
	}
}

// MinLinear stores Lo where v_i > 0 and Hi elsewhere.
func (g Box) MinLinear(dst, v []float64) {
	if !minLinear(dst, v) {
		return
	}
	for i, vi := range v {
		if dst[i] = g.Hi; vi > 0 {
			dst[i] = g.Lo
		}
	}
}

// MinLinear stores −R·u₁v₁ᵀ in dst, of the largest singular value of v.
func (g NuclearBall) MinLinear(dst, v []float64) {
	if !minLinear(dst, v) {
		return
	}
	d, ok := decompose(v, g.Rows, g.Cols)
	defer spectra.Put(d)
	if !ok {
		fillNaN(dst)
		return
	}
	clear(d.s)
	d.s[0] = -g.R * (1 - edge(g.Rows, g.Cols)/4) // within the ball after rounding
	d.compose(dst)
}
