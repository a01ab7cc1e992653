// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package linear

import (
	"math"
	"slices"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/enclose"
	"github.com/privopt/privopt/internal/num"
)

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

// provers returns functions that try to prove a claim. One success is enough.
func (k *Calibrator) provers() (list []func(claim) bool) {
	pure := k.p.Budget.Delta == 0
	if pure {
		list = append(list, k.provesPure)
	}
	if k.fixed == 1 {
		list = append(list, k.provesScalar)
	}
	if !pure && k.fixed == 1 && k.p.Envelope == nil {
		list = append(list, k.provesRenyi)
	}
	if !pure {
		list = append(list, k.provesSpectrum) // the fast one first
	}
	if !pure && !(k.persons() && k.fixed == 1) {
		list = append(list, k.provesChi)
	}
	return list
}

// Prove returns b and whether it certainly meets the budget with output noise of shift o. If the
// noise that a search found falls just short, Prove raises it by a relative 1e-6 at most.
func (k *Calibrator) Prove(b Noise, budget dp.Budget, o float64) (Noise, bool) {
	const most = 1e-6
	provers := k.provers()
	q := claim{ridge: b.Ridge, eps: budget.Epsilon, delta: budget.Delta, o: o, leg: b.leg}
	for up := 0.0; up < most; up = max(1e-12, 4*up) {
		q.sigma, q.rate = b.Sigma*(1+up), b.Rate/(1+up)
		for _, proves := range provers {
			if !proves(q) {
				continue
			}
			if b.Rate = q.rate; up > 0 && b.Sigma > 0 {
				b.Sigma = q.sigma
				b = k.with(b, b.Ridge+k.p.Modulus)
			}
			return b, true
		}
		if up == 0 { // drop the provers that fail even with the most noise
			q.sigma, q.rate = b.Sigma*(1+most), b.Rate/(1+most)
			provers = slices.DeleteFunc(provers, func(proves func(claim) bool) bool { return !proves(q) })
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

// provesPure proves c + aG ≤ ε.
func (k *Calibrator) provesPure(q claim) bool {
	return q.delta == 0 && q.rate > 0 && enclose.Proves(nil, func(c enclose.Arithmetic) (less, more enclose.Interval) {
		return c.Add(k.cost(c, q), c.Mul(c.Of(q.rate), c.Of(k.g))), c.Of(q.eps)
	})
}

// mostStick is the largest q of chiStick. Its products of q float64 numbers stay within the
// exponents of big.Float, ±2³¹, beyond which rounding would not be outward.
const mostStick = 1 << 20

// provesChi proves Chi.LogDelta ≤ log δ, or with output noise Chi.LogJoint ≤ log δ.
func (k *Calibrator) provesChi(q claim) bool {
	return enclose.Proves(nil, func(c enclose.Arithmetic) (less, more enclose.Interval) {
		e1, s := c.Sub(c.Of(q.eps), k.cost(c, q)), c.Quo(c.Of(k.g), c.Of(q.sigma))
		o := c.Of(q.o)
		r0 := c.Sub(c.Quo(e1, s), c.Quo(s, c.Of(2)))
		v, one := c.Of(1), c.Of(1)
		if k.chi.Monotone && q.o == 0 && e1.Lo.Sign() >= 0 {
			v = c.Least(v, c.GaussianDelta(e1, s))
		}
		if q.o == 0 && (k.chi.Q == 1 || k.chi.Paired && r0.Lo.Cmp(c.Of(pairedR0).Hi) >= 0) {
			v = c.Least(v, folded(c, e1, s))
		}
		switch {
		case r0.Lo.Sign() >= 0 && k.chi.Q <= mostStick:
			v = c.Least(v, chiStick(c, e1, s, o, k.chi.Q))
		case r0.Hi.Sign() <= 0 && k.chi.Q == 2 && q.o == 0: // 1 − e^{s r₀}(1 − sR(s))
			v = c.Least(v, c.Sub(one, c.Mul(c.Exp(c.Mul(s, r0)), c.Sub(one, c.Mul(s, c.Mills(s))))))
		}
		return v, c.Of(q.delta)
	})
}

// folded encloses a bound on E(1 − e^{ε − s²/2 − s|N|})₊: 2δ_G(ε, s), or, if the loss is never
// below ε,
//
//	1 − e^ε E e^{−s²/2−s|N|} = 1 − 2e^ε Φ(−s)
func folded(c enclose.Arithmetic, eps, s enclose.Interval) enclose.Interval {
	v := c.Mul(c.Of(2), c.GaussianDelta(eps, s))
	if eps.Hi.Cmp(c.Quo(c.Square(s), c.Of(2)).Lo) <= 0 {
		v = c.Least(v, c.Sub(c.Of(1), c.Mul(c.Mul(c.Of(2), c.Exp(eps)), c.NormalTail(s))))
	}
	return v
}

// provesScalar proves a claim by the bounds of type scalar.
func (k *Calibrator) provesScalar(q claim) bool {
	t := k.scalar(math.Nextafter(q.ridge+k.p.Modulus, 0))
	t.exact = true
	replace := k.p.Relation == dp.Replace
	switch {
	case q.delta == 0:
		return t.provesRate(q, replace)
	case !replace:
		eps := func(c enclose.Arithmetic) enclose.Interval { return c.Of(q.eps) }
		return enclose.Proves(nil, func(c enclose.Arithmetic) (less, more enclose.Interval) {
			return t.adding(c, c.Of(q.eps), q.o, q), c.Of(q.delta)
		}) && t.provesRemoval(eps, q.eps, q.o, q.delta, q)
	}
	if q.leg != nil && t.provesLeg(*q.leg, q) {
		return true
	}
	_, g := t.logReplace(q.eps, t.l/q.sigma, q.o, nil)
	return t.provesLeg(g, q)
}

// provesLeg proves that the two steps of a leg cost at most δ.
func (k *scalar) provesLeg(g leg, q claim) bool {
	if !g.within(q.eps) {
		return false
	}
	near, _, _, _ := g.parts(q.eps)
	left := enclose.Below(func(c enclose.Arithmetic) enclose.Interval { // the share of δ for removing
		_, ea := g.epsilons(c, q.eps)
		remove, add := g.factors(c)
		return c.Quo(c.Sub(c.Of(q.delta), c.Mul(add, k.adding(c, ea, q.o/2, q))), remove)
	})
	return k.provesRemoval(func(c enclose.Arithmetic) enclose.Interval {
		er, _ := g.epsilons(c, q.eps)
		return er
	}, near, q.o/2, left, q)
}

// adding encloses the bound of logAdd at ε ≥ 0.
func (k *scalar) adding(c enclose.Arithmetic, e enclose.Interval, o float64, q claim) enclose.Interval {
	s := c.Quo(c.Of(k.l), c.Of(q.sigma))
	switch whole := c.Hypot(s, c.Of(o)); {
	case k.persons > 0:
		factor := c.Exp(c.Quo(c.Square(s), c.Of(8)))
		if k.monotone {
			return c.Add(c.Mul(factor, c.GaussianDelta(e, whole)), c.Quo(c.GaussianDelta(e, c.Of(o)), c.Of(2)))
		}
		return c.Mul(c.Mul(c.Of(2), factor), c.GaussianDelta(e, whole))
	case k.monotone:
		return c.Add(c.GaussianDelta(e, whole), c.Mul(c.NormalTail(c.Quo(s, c.Of(2))), c.GaussianDelta(e, c.Of(o))))
	case o == 0:
		return folded(c, e, s)
	default:
		return c.Mul(c.Of(2), c.GaussianDelta(e, whole))
	}
}

// provesRemoval is removes with a proof of every value f of ε − E: Newton's method finds f, and an
// interval shows that δ_G(ε − f; ·) is at most δ. near is a float64 near ε.
func (k *scalar) provesRemoval(eps enclosed, near, o, delta float64, q claim) bool {
	if !(delta > 0) {
		return false
	}
	target := num.Log(delta) - 1e-10 // a tenth of the margin of removes
	guess, failed := near, false
	return k.below(func(p float64) float64 {
		guess = k.reach(near, k.l/q.sigma, o, p, target, guess, 4e-12)
		f := near - guess - 0x1p-51*math.Abs(near) // rounded down, as guess may be tiny
		failed = failed || !enclose.Proves(nil, func(c enclose.Arithmetic) (less, more enclose.Interval) {
			s := c.Quo(c.Mul(c.Of(k.l), c.Of(p)), c.Of(q.sigma))
			v := c.GaussianDelta(c.Sub(eps(c), c.Of(f)), c.Hypot(s, c.Of(o)))
			if k.persons > 0 {
				v = c.Mul(v, c.Exp(c.Add(c.Quo(c.Of(f), c.Of(2)), c.Quo(c.Square(s), c.Of(8)))))
			}
			return v, c.Of(delta)
		})
		if failed {
			return math.Inf(-1)
		}
		return f
	}, patient)
}

// provesRate proves κ(p) ≤ ε − aL(base + p), base = 1 for replacing, with the right side rounded
// down.
func (k *scalar) provesRate(q claim, replace bool) bool {
	if !(q.rate > 0) { // no noise at all
		return false
	}
	base := 0.0
	if replace {
		base = 1
	}
	a := q.rate * k.l * (1 + 0x1p-51)
	return k.below(func(p float64) float64 { return q.eps - a*(base+p) - (q.eps+a)*0x1p-50 }, patient)
}
