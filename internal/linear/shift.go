// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package linear

import (
	"math"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/num"
)

// A term is one term e^{log} δ_G(ε−c, s) of a bound.
type term struct{ log, c, s float64 }

type terms []term

// log returns the logarithm of the sum at ε.
func (list terms) log(eps float64) float64 {
	sum := math.Inf(-1)
	for _, t := range list {
		sum = num.LogSumExp(sum, t.log+dp.GaussianLogDelta(eps-t.c, t.s))
	}
	return sum
}

// terms returns the terms of the bounds on removing and on adding.
func (q Sequence) terms(scale float64) (remove, add terms) {
	all := q.all()
	remove = terms{{c: q.c(), s: q.shift(all, scale)}}
	if q.Persons {
		remove[0].log = q.c()/2 + q.tilt(all, scale)
	}
	if !q.Monotone {
		return remove, terms{{log: float64(len(q.S))*math.Ln2 + q.tilt(all, scale), s: q.shift(all, scale)}}
	}
	for set := range all + 1 {
		add = append(add, term{log: num.Log(q.share(set)) + q.tilt(set, scale), s: q.shift(set, scale)})
	}
	return remove, add
}

// leastE1 returns the e₁ ∈ [0, ε] at which δ₁(e₁) + e^{e₁} δ₂(ε−e₁) is least. As δ_G(ε, s) =
// Φ(s/2−ε/s) − e^ε Φ(−s/2−ε/s), the derivative is 0 where
//
//	Σ e^{log−c} Φ(−s/2−(e₁−c)/s) = Σ e^{log} Φ(s/2−(ε−e₁−c)/s)
//
// with the terms of δ₁ on the left, which decreases with e₁, and those of δ₂ on the right, which
// increases. The search starts at near.
func leastE1(first, second terms, eps, near float64) float64 {
	slope := func(e1 float64) float64 {
		left, right := math.Inf(-1), math.Inf(-1)
		for _, t := range first {
			left = num.LogSumExp(left, t.log-t.c+num.LogPhi(-t.s/2-(e1-t.c)/t.s))
		}
		for _, t := range second {
			right = num.LogSumExp(right, t.log+num.LogPhi(t.s/2-(eps-e1-t.c)/t.s))
		}
		return right - left
	}
	if !(near > 0 && near <= eps) {
		near = eps / 2
	}
	if !(slope(eps) >= 0) {
		return eps
	}
	return min(eps, num.LeastRoot(slope, near, 1e-6))
}
