// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package linear

import (
	"math"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/enclose"
	"github.com/privopt/privopt/internal/num"
)

// proves proves a claim by scalar or, for a loss without an envelope, by its renyi.
func (k alone) proves(q claim) bool {
	return k.provesScalar(q) || q.delta > 0 && k.envelope == nil && k.provesRenyi(q)
}

func (k alone) provesScalar(q claim) bool {
	t := k.Calibrator.scalar(math.Nextafter(q.ridge+k.p.Modulus, 0))
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
