// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package linear

import (
	"math"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/num"
)

// A Curve bounds the privacy loss of the exact minimizer at one Δ and one σ. Its methods take the
// shift o = 2R/σ_out of a Gaussian output noise that hides all points within R of the minimizer, 0
// for none. The zero value is no curve.
type Curve struct {
	chi      Chi
	scalar   *scalar   // nil where a record has more than one scalar derivative
	simplex  *simplex  // nil unless the loss is the multinomial logistic
	spectrum *spectrum // nil where a record has one scalar derivative
	span     *span     // nil unless units are persons with gradients in moving subspaces
	s        float64   // L/σ
	replace  bool
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
	if k.scalar != nil && k.scalar.persons > 0 && !k.replace {
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
	chi := k.chi.LogDelta
	if o > 0 {
		chi = func(eps float64) float64 { return k.chi.LogJoint(eps, o) }
	}
	if m := k.spectrum; m != nil {
		curve := chi
		chi = func(eps float64) float64 { return min(curve(eps), m.logDelta(eps, k.chi.S, o)) }
	}
	switch {
	case k.simplex != nil:
		remove, add = k.simplex.logCurves(k.s/math.Sqrt2, o, k.replace) // X/σ = (L/√2)/σ
	case k.span != nil && o == 0:
		remove, add = k.span.logCurves(k.s)
	case k.scalar == nil:
		return chi, chi
	case k.replace:
		remove = func(eps float64) float64 { return k.scalar.boundReplace(eps, k.s, o) }
		add = remove
	default:
		remove = func(eps float64) float64 { return k.scalar.boundRemove(eps, k.s, o) }
		add = func(eps float64) float64 { return k.scalar.logAdd(eps, k.s, o) }
	}
	if k.scalar != nil && k.scalar.persons > 0 { // |N| in one step bounds Rényi divergence only
		return remove, add
	}
	least := func(f func(eps float64) float64) func(eps float64) float64 {
		return func(eps float64) float64 { return min(chi(eps), f(eps)) }
	}
	return least(remove), least(add)
}

// RDP returns a bound on the Rényi divergence of order α ≥ 1, output noise included, for both
// directions: the least of Chi.RDP, of rdpRenyi or spectrum.rdp and, for losses of ⟨a,θ⟩, of the
// bounds of docs/theory/linear.md#linear.renyi, plus α o²/2. For other α it is +Inf.
func (k Curve) RDP(alpha, o float64) float64 {
	if !(alpha >= 1) || math.IsInf(alpha, 1) {
		return math.Inf(1)
	}
	bound := k.chi.RDP(alpha)
	if k.spectrum != nil {
		bound = min(bound, k.spectrum.rdp(alpha, k.chi.S))
	}
	if t := k.scalar; t != nil {
		remove, add, replace := t.rdp(alpha, k.s)
		if k.replace {
			removeLess, addLess, _ := t.rdp(2*alpha-1, k.s)
			removeMore, addMore, _ := t.rdp(2*alpha, k.s)
			twice := 2 * alpha / (2*alpha - 1)
			bound = min(bound, replace, twice*addLess+removeMore, twice*removeLess+addMore)
		} else {
			bound = min(bound, max(remove, add))
		}
	}
	return (bound + alpha*o*o/2) * safeDelta
}

// rdp returns the least bounds for removing, adding and replacing a record in one step.
func (k *scalar) rdp(alpha, s float64) (remove, add, replace float64) {
	remove, add, replace = k.rdpRenyi(alpha, s)
	return min(remove, k.rdpRemoving(alpha, s)), min(add, k.rdpAdding(alpha, s)), replace
}

// rdpRemoving returns sup_p [κ(p) + α s²p²/2], certified.
func (k *scalar) rdpRemoving(alpha, s float64) float64 {
	f := func(p, kappa float64) float64 { return kappa + alpha*s*s*p*p/2 }
	if k.envelope == nil {
		return f(1, k.c)
	}
	best, _ := k.largest(f, 0, 1e-9)
	for slack := 1e-7; slack < 1; slack *= 10 {
		top := best * (1 + slack)
		if k.below(func(p float64) float64 { return top - alpha*s*s*p*p/2 }, patient) {
			return top
		}
	}
	return k.c + alpha*s*s/2
}

// rdpAdding returns the bound for adding a record of Curve.RDP. Near order 1 the logarithm is of a
// number near 1 and loses its digits: there the value at order 1.001 is taken if it is less.
func (k *scalar) rdpAdding(alpha, s float64) float64 {
	if !k.monotone {
		return Chi{S: s, Q: 1}.RDP(alpha)
	}
	at := func(alpha float64) float64 {
		if alpha == 1 {
			return math.Inf(1)
		}
		x := num.LogSumExp(num.LogPhi(-s/2), alpha*(alpha-1)*s*s/2+num.LogPhi((alpha-0.5)*s))
		return (x + 1e-15) / (alpha - 1)
	}
	return min(at(alpha), at(max(alpha, 1+1e-3)))
}
