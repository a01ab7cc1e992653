package linear

import (
	"math"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/num"
)

// A Curve bounds what the exact minimizer at one Δ and one σ tells about a
// record. Its methods take o = 2R/σ_out of a Gaussian output noise that hides
// all points within R of the minimizer, 0 for none. The zero value is no curve.
type Curve struct {
	chi      Chi
	tied     *tied     // nil where a record has more than one scalar derivative
	simplex  *simplex  // nil but for the multinomial logistic loss
	spectrum *spectrum // nil where a record has one scalar derivative
	s        float64   // L/σ
	replace  bool
}

// Profile returns bounds δ(ε) for removing and for adding a record, output noise
// included: the least at each ε of those in one step and, for out > 0, in two,
//
//	E δ_G(ε − loss; o),   δ_curve(ε − out) + δ_G(out; o)
//
// Under Replace the two are the same function.
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
	return least(remove, curveRemove), least(add, curveAdd)
}

// everywhere extends a bound δ(ε) for finite ε to every float64, raised by the error of its computation.
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
	case k.tied == nil:
		return chi, chi
	case k.replace:
		remove = func(eps float64) float64 { return k.tied.boundReplace(eps, k.s, o) }
		add = remove
	default:
		remove = func(eps float64) float64 { return k.tied.boundRemove(eps, k.s, o) }
		add = func(eps float64) float64 { return k.tied.logAdd(eps, k.s, o) }
	}
	least := func(f func(eps float64) float64) func(eps float64) float64 {
		return func(eps float64) float64 { return min(chi(eps), f(eps)) }
	}
	return least(remove), least(add)
}

// boundRemove returns the smaller of renyi and of an upper bound on the supremum of
// logRemove, certified: above it by 1e-6 where that takes few cells, and at worst that of
// curvature and gradient apart.
func (k *tied) boundRemove(eps, s, o float64) float64 {
	apart := min(k.at(eps, s, o, 1, k.c), k.renyi(eps, s, o))
	found, _ := k.logRemove(eps, s, o)
	for slack := 1e-6; k.envelope != nil && found > nothing && found+slack < apart; slack *= 10 {
		if k.removes(eps, s, o, found+slack, patient) {
			return found + slack
		}
	}
	return apart
}

// boundReplace returns an upper bound on the least of logReplace, certified. Below
// ε = 0 it is 1 − e^ε + e^ε δ(−ε), because the bound holds for both orders of the
// pair.
func (k *tied) boundReplace(eps, s, o float64) float64 {
	if eps < 0 {
		return num.LogSumExp(num.Log1mExp(eps), eps+k.boundReplace(-eps, s, o))
	}
	_, g := k.logReplace(eps, s, o, nil)
	er, ea, lr, la := g.parts(eps)
	log := num.LogSumExp(lr+k.boundRemove(er, s, o/2), la+k.logAdd(ea, s, o/2))
	if k.mayGain(g, eps, s, o) {
		renyi, _ := k.renyiReplace(eps, s, o, nil)
		log = min(log, renyi)
	}
	return log
}

// RDP returns the Rényi divergence bound of order α ≥ 1, output noise included, for
// both directions, the smaller of
//
//	c + s²/2 + log E e^{(α−1)sχ_q}/(α−1) + α o²/2
//
// with q = 1 for losses of ⟨a,θ⟩ under both relations, and for these of
//
//	removing   sup_p [κ(p) + α s²p²/2],  s = L/σ
//	adding     log( Φ(−s/2) + e^{α(α−1)s²/2} Φ((α−½)s) )/(α−1)     the sign of φ′ is fixed
//	           the first formula with c = 0                       any convex φ
//	replacing  min( k·add(2α−1) + remove(2α), k·remove(2α−1) + add(2α) ),  k = 2α/(2α−1)
//
// plus α o²/2, the last by Hölder's inequality through the data set in the middle; each
// line is the least of this and of rdpRenyi. It is +Inf for other α.
func (k Curve) RDP(alpha, o float64) float64 {
	if !(alpha >= 1) || math.IsInf(alpha, 1) {
		return math.Inf(1)
	}
	bound := k.chi.RDP(alpha)
	if k.spectrum != nil {
		bound = min(bound, k.spectrum.rdp(alpha, k.chi.S))
	}
	if t := k.tied; t != nil {
		if k.replace {
			twice := 2 * alpha / (2*alpha - 1)
			_, _, renyi := t.rdpRenyi(alpha, k.s)
			bound = min(bound, renyi, twice*t.rdpAdd(2*alpha-1, k.s)+t.rdpRemove(2*alpha, k.s),
				twice*t.rdpRemove(2*alpha-1, k.s)+t.rdpAdd(2*alpha, k.s))
		} else {
			bound = min(bound, max(t.rdpRemove(alpha, k.s), t.rdpAdd(alpha, k.s)))
		}
	}
	return (bound + alpha*o*o/2) * safeDelta
}

// rdpRemove returns the smaller of sup_p [κ(p) + α s²p²/2], certified, and of rdpRenyi.
func (k *tied) rdpRemove(alpha, s float64) float64 {
	renyi, _, _ := k.rdpRenyi(alpha, s)
	return min(renyi, k.rdpTied(alpha, s))
}

// rdpTied returns sup_p [κ(p) + α s²p²/2], certified.
func (k *tied) rdpTied(alpha, s float64) float64 {
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

// rdpAdd returns the smaller of the bound for adding a record and of rdpRenyi.
func (k *tied) rdpAdd(alpha, s float64) float64 {
	_, renyi, _ := k.rdpRenyi(alpha, s)
	return min(renyi, k.rdpFree(alpha, s))
}

// rdpFree returns the bound for adding a record in which curvature is free. Next to order 1,
// where the logarithm of a number near 1 has no digits, that of a larger order is taken if
// it is less.
func (k *tied) rdpFree(alpha, s float64) float64 {
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
