// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package linear

import (
	"math"
	"slices"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/enclose"
	"github.com/privopt/privopt/internal/num"
)

// A bound is one theorem about the privacy loss of the exact minimizer at one modulus μ. A theorem
// stands in a file with its bound, what a search finds by it and what intervals prove.
type bound interface {
	// least returns the least σ that the theorem needs, certified unless there is a guess, and the
	// theorem's identifier; +Inf if it finds none of use.
	least(w *want) (sigma float64, theorem string)
	// logs returns log δ(ε) for removing and for adding a record with output noise of shift o; nil
	// where the theorem says nothing.
	logs(sigma, o float64) (remove, add func(eps float64) float64)
	// renyi returns the Rényi divergence of order α ≥ 1 without output noise; +Inf where the theorem
	// says nothing.
	renyi(alpha, sigma float64) float64
	// proves reports whether intervals prove a claim at the modulus of the bound.
	proves(q claim) bool
}

// profileOnly is a bound without Rényi divergences and without a proof by intervals.
type profileOnly struct{}

func (profileOnly) renyi(_, _ float64) float64 { return math.Inf(1) }

func (profileOnly) proves(claim) bool { return false }

// want is what a noise is searched for.
type want struct {
	eps, log float64 // ε and log δ
	o        float64 // shift of the output noise
	most     float64 // a σ that is enough, where the search starts
	below    float64 // the least σ of the bounds before
	from     *guess  // of a search for Δ, nil for the noise of a plan
	leg      *leg    // that of the σ found, set by least
}

// bounds returns the bounds that hold for the problem, those that are fast to prove first. Their
// methods change none of them: the curves of a plan are for concurrent use.
func (k *Calibrator) bounds(mu float64) (list []bound) {
	if m := k.scalar(mu); m != nil {
		list = append(list, alone{k, m})
	}
	if m := k.simplex(mu); m != nil {
		list = append(list, m.tabulated())
	}
	if m := k.span(mu); m != nil {
		list = append(list, m)
	}
	if m := k.spectrum(mu); m != nil {
		list = append(list, m)
	}
	return append(list, k.apart(mu))
}

// with returns b with the S and the Curve of its Sigma.
func (k *Calibrator) with(b Noise, mu float64) Noise {
	b.S = k.g / b.Sigma
	b.Curve = Curve{bounds: k.bounds(mu), sigma: b.Sigma,
		exchange: k.persons() && k.fixed == 1 && k.p.Relation != dp.Replace}
	return b
}

// better returns b with the least σ of all bounds, at a budget and for output noise of shift o. b
// is enough noise.
func (k *Calibrator) better(b Noise, mu float64, budget dp.Budget, o float64, from *guess) Noise {
	w := want{eps: budget.Epsilon, log: num.Log(budget.Delta), o: o, most: b.Sigma, below: b.Sigma, from: from}
	for _, m := range k.bounds(mu) {
		sigma, theorem := m.least(&w)
		if sigma < w.below {
			w.below, b.Theorem = sigma, theorem
		}
	}
	if b.Sigma, b.leg = w.below, w.leg; from != nil {
		return b
	}
	if k.persons() {
		b.Theorem = TheoremPersons
	}
	return k.with(b, mu)
}

// Joint returns a noise smaller than b with which the minimizer and its output noise of shift o > 0
// cost at most the whole budget in one step; or b and false if it finds none, which says nothing
// about the cost of b. b must be Gaussian and Sharp.
func (k *Calibrator) Joint(b Noise, whole dp.Budget, o float64) (Noise, bool) {
	less := k.better(b, b.Ridge+k.p.Modulus, whole, o, nil)
	return less, less.Sigma < b.Sigma
}

// A Curve bounds the privacy loss of the exact minimizer at one Δ and one σ. Its methods take the
// shift o = 2R/σ_out of a Gaussian output noise that hides all points within R of the minimizer, 0
// for none. The zero value is no curve.
type Curve struct {
	bounds   []bound
	sigma    float64
	exchange bool // each direction bounds the other at −ε
}

// Profile returns bounds δ(ε) for removing and for adding a record, output noise included: at each
// ε the least of the bounds in one step and, for out > 0, in two,
//
//	E δ_G(ε − loss; o),   δ_curve(ε − out) + δ_G(out; o)
//
// Under Replace the two functions are the same.
func (k Curve) Profile(o, out float64) (remove, add func(eps float64) float64) {
	least := func(one, curve func(eps float64) float64) func(eps float64) float64 {
		return everywhere(func(eps float64) float64 {
			delta := math.Exp(one(eps))
			if out > 0 {
				delta = min(delta, math.Exp(curve(eps-out))+dp.GaussianDelta(out, o))
			}
			return delta
		})
	}
	remove, add = k.logs(o)
	curveRemove, curveAdd := k.logs(0)
	if k.exchange {
		remove, add = exchanged(remove, add)
		curveRemove, curveAdd = exchanged(curveRemove, curveAdd)
	}
	return least(remove, curveRemove), least(add, curveAdd)
}

// everywhere extends a bound δ(ε) for finite ε to every float64 and raises it by its rounding
// error.
func everywhere(delta func(eps float64) float64) func(eps float64) float64 {
	return func(eps float64) float64 {
		switch {
		case math.IsNaN(eps), math.IsInf(eps, -1):
			return 1
		case math.IsInf(eps, 1):
			return 0
		}
		return min(1, delta(eps)*safeDelta)
	}
}

// logs returns the logarithms of both bounds in one step.
func (k Curve) logs(o float64) (remove, add func(eps float64) float64) {
	var removes, adds []func(eps float64) float64
	for _, m := range k.bounds {
		if remove, add := m.logs(k.sigma, o); remove != nil {
			removes, adds = append(removes, remove), append(adds, add)
		}
	}
	least := func(list []func(eps float64) float64) func(eps float64) float64 {
		return func(eps float64) float64 {
			v := math.Inf(1)
			for _, f := range list {
				v = min(v, f(eps))
			}
			return v
		}
	}
	return least(removes), least(adds)
}

// RDP returns a bound on the Rényi divergence of order α ≥ 1, output noise included, for both
// directions: the least of all bounds, plus α o²/2. For other α it is +Inf.
func (k Curve) RDP(alpha, o float64) float64 {
	least := math.Inf(1)
	if !(alpha >= 1) || math.IsInf(alpha, 1) {
		return least
	}
	for _, m := range k.bounds {
		least = min(least, m.renyi(alpha, k.sigma))
	}
	return (least + alpha*o*o/2) * safeDelta
}

// A claim states that one noise b is enough: the release of the exact minimizer, with Gaussian
// output noise of shift at most o, is (ε, δ)-private. Searches find the noise in float64. Interval
// arithmetic (package enclose) then proves the claim, once for each plan, so that no guarantee
// rests on the error of a float64 function or quadrature:
// docs/theory/enclosures.md#enclosures.plan.
type claim struct {
	ridge       float64
	sigma, rate float64 // of b: Gaussian, or pure with δ = 0
	eps, delta  float64
	o           float64
	leg         *leg // to try first, if not nil
}

// enclosed is a real number, as a function that encloses it at any precision.
type enclosed func(c enclose.Arithmetic) enclose.Interval

// Prove returns b and whether it certainly meets the budget with output noise of shift o. If the
// noise that a search found falls just short, Prove raises it by a relative 1e-6 at most.
func (k *Calibrator) Prove(b Noise, budget dp.Budget, o float64) (Noise, bool) {
	const most = 1e-6
	mu := b.Ridge + k.p.Modulus
	list := k.bounds(mu)
	q := claim{ridge: b.Ridge, eps: budget.Epsilon, delta: budget.Delta, o: o, leg: b.leg}
	for up := 0.0; up < most; up = max(1e-12, 4*up) {
		q.sigma, q.rate = b.Sigma*(1+up), b.Rate/(1+up)
		for _, m := range list {
			if !m.proves(q) {
				continue
			}
			if b.Rate = q.rate; up > 0 && b.Sigma > 0 {
				b.Sigma = q.sigma
				b = k.with(b, mu)
			}
			return b, true
		}
		if up == 0 { // drop the bounds that fail even with the most noise
			q.sigma, q.rate = b.Sigma*(1+most), b.Rate/(1+most)
			list = slices.DeleteFunc(list, func(m bound) bool { return !m.proves(q) })
		}
	}
	return b, false
}

// modulus returns μ = Δ + μ_r.
func (k *Calibrator) modulus(c enclose.Arithmetic, q claim) enclose.Interval {
	return c.Add(c.Of(q.ridge), c.Of(k.p.Modulus))
}

// cost returns c = ρ log1p(β/μ), or if that is less (K−1) log1p(L²/(2Kμ)), the largest c(q) of type
// simplex, at π = 1/K.
func (k *Calibrator) cost(c enclose.Arithmetic, q claim) enclose.Interval {
	mu := k.modulus(c, q)
	times := func(n int, x enclose.Interval) enclose.Interval { return c.Mul(c.Of(float64(n)), c.Log1p(x)) }
	if k.persons() {
		return k.enclosedPersons(c, mu)
	}
	v := times(int(k.rank), c.Quo(c.Of(k.p.Constants.Smoothness), mu))
	if classes := k.p.Classes; classes > 0 {
		v = c.Least(v, times(classes-1, c.Quo(c.Square(c.Of(k.p.Constants.Lipschitz)), c.Mul(c.Of(float64(2*classes)), mu))))
	}
	return v
}
