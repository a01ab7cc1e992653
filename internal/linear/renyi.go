// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package linear

import (
	"math"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/enclose"
	"github.com/privopt/privopt/internal/num"
)

// fromRenyi returns log of the bound on δ(ε) from a Rényi divergence αS²/2 + cost/κ of order α =
// κ+1,
//
//	κ(αS²/2 − ε) + cost + κ log(κ/α) − log α
//
// raised by more than the rounding of two dozen operations. factor raises the cost, a difference of
// terms of size κ·slack.
func fromRenyi(eps, square, kappa, cost, factor, slack float64) float64 {
	moment, odds := kappa*(kappa+1)*square/2, kappa*math.Log1p(1/kappa)
	last := math.Log1p(kappa)
	size := moment + kappa*(math.Abs(eps)+slack) + cost + odds + last
	return moment - kappa*eps + cost*factor - odds - last + 0x1p-48*size
}

// renyi returns log of a bound on δ(ε) of removing a record, at any real ε, for a loss without an
// envelope; 0 for the others. The Rényi divergence of order α = κ+1 is at most αS²/2 + ψ₊/κ with
// S² = s²+o² and c = log1p(β/μ), which counts curvature in second order:
// docs/theory/renyi.md#lop.renyi/1.
func (k *scalar) renyi(eps, s, o float64) float64 {
	if k.envelope != nil {
		return 0
	}
	square := s*s + o*o
	kappa := k.order(eps, square)
	log := fromRenyi(eps, square, kappa, k.plus(kappa), 1, k.c)
	if !(log < 0) { // also NaN: no order is of use
		return 0
	}
	return log
}

// order returns the κ at which the bound of renyi is least, to about 1e-6. Its derivative
//
//	(2κ+1)S²/2 − ε + c − t/(1+κt) + log(κ/α),   t = 1 − e^{−c}
//
// increases and is concave in κ, so that Newton's method increases to the root from any point
// below. Such a point follows from two bounds on the derivative: 1.5 S² − ε + c + log κ for κ ≤ 1,
// and (2κ+1)S²/2 − ε + c.
func order(eps, square, c float64) float64 {
	t := -math.Expm1(-c)
	kappa := max(math.Exp(min(0, eps-c-1.5*square))/2, min((eps-c)/square-0.5, 1e15))
	for range 100 {
		tilt := t / (1 + kappa*t)
		slope := (2*kappa+1)*square/2 - eps + c - tilt - math.Log1p(1/kappa)
		step := -slope / (square + tilt*tilt + 1/(kappa*(kappa+1)))
		if !(step > 1e-6*kappa) || kappa > 1e15 {
			break
		}
		kappa += step
	}
	return kappa
}

// psiPlus returns ψ₊ = α log(1+x) − log(1+αx) for c = log1p(x) and α = κ+1, as a sum of
// terms ≥ 0, which keeps the digits of a small one:
//
//	κ(c − t) + (κt − log1p(κt)),   t = x/(1+x) = 1 − e^{−c}
func psiPlus(c, kappa float64) float64 {
	t := -math.Expm1(-c)
	gap := c - t
	if t < 0.4 {
		gap = logGap(-t)
	}
	return kappa*gap + logGap(kappa*t)
}

// psiMinus returns ψ₋ = −κ log(1+x) − log(1−κx) in the same way; +Inf if κx is almost 1 or more.
func psiMinus(c, kappa float64) float64 {
	x := math.Expm1(c)
	if !(kappa*x <= 1-0x1p-20) {
		return math.Inf(1)
	}
	return kappa*logGap(x) + logGap(-kappa*x)
}

// logGap returns y − log(1+y) ≥ 0. Near 0 it is a series in r = y/(2+y), |r| ≤ 1/4,
// of which 16 terms are enough for float64:
//
//	r(y − 2r²(1/3 + r²/5 + r⁴/7 + …))
func logGap(y float64) float64 {
	if !(y >= -0.4 && y <= 0.5) {
		return y - math.Log1p(y)
	}
	r := y / (2 + y)
	sum := 0.0
	for j := 33.; j >= 3; j -= 2 {
		sum = sum*r*r + 1/j
	}
	return r * (y - 2*r*r*sum)
}

// renyiReplace returns log δ(ε) of replacing a record in two steps, of which renyi is the one that
// removes, and the best leg found; ε ≥ 0. Every leg is valid. If near is not nil, the search is for
// e₁ near that leg only.
func (k *scalar) renyiReplace(eps, s, o float64, near *leg) (log float64, best leg) {
	legs, lo := bothLegs, 0.0
	hi, steps := eps, 8
	if near != nil {
		legs, lo = []leg{*near}, max(0, near.e1-eps/16)
		hi, steps = min(eps, near.e1+eps/16), 0
	}
	// No term changes by more than a factor of e over 1/κ.
	tol := min(1e-6*eps, 1e-5/k.order(eps, s*s+o*o/4))
	best, log = bestLeg(legs, eps, lo, hi, steps, tol, func(eps float64) float64 { return k.renyi(eps, s, o/2) },
		func(eps float64) float64 { return k.logAdd(eps, s, o/2) })
	if !(log < 0) {
		return 0, leg{}
	}
	return log, best
}

// renyiNoise returns u = σ/L at which a record costs at most (ε, e^{target}) with output noise of
// shift o, by renyi for removing it. It is +Inf unless u is below most by more than a millionth: a
// smaller gain is not worth another theorem.
func (k *scalar) renyiNoise(eps, o, target, most float64, replace bool) float64 {
	if k.envelope != nil || !(most > 0 && most < math.MaxFloat64) {
		return math.Inf(1)
	}
	var near *leg
	log := func(s float64) float64 {
		if !replace {
			return max(k.renyi(eps, s, o), k.logAdd(eps, s, o))
		}
		v, g := k.renyiReplace(eps, s, o, near)
		near = &g
		return v
	}
	if most *= 1 - 1e-6; !replace && k.renyi(eps, 1/most, o) > target || !(log(1/most) <= target) {
		return math.Inf(1)
	}
	return least(log, target-1e-9, most, 1e-10) * SafeScale
}

// rdpRenyi returns the Rényi divergence of order α ≥ 1 of removing, adding and replacing a record,
//
//	sup_p [αs²p²/2 + ψ₊/κ],   sup_p [αs²p²/2 + ψ₋/κ],   2αs² + (ψ₊+ψ₋)/κ
//
// with ψ at the largest curvature for p, and in the last at the largest for any p. Near α = 1 the
// values of a larger order are taken.
func (k *scalar) rdpRenyi(alpha, s float64) (remove, add, replace float64) {
	kappa := max(alpha-1, 1e-9)
	plus := func(c float64) float64 { return psiPlus(c, kappa) / kappa }
	minus := func(c float64) float64 { return psiMinus(c, kappa) / kappa }
	if k.persons > 0 { // sums of eigenvalues, at the largest curvature for any p
		add, square := minus(math.Log1p(k.c)), (kappa+1)*s*s
		remove := k.plus(kappa) / kappa
		return square/2 + remove, square/2 + add, 2*square + remove + add
	}
	remove, add = k.second(plus).rdpRemoving(kappa+1, s), math.Inf(1)
	if !math.IsInf(minus(k.c), 1) {
		add = k.second(minus).rdpRemoving(kappa+1, s)
	}
	return remove, add, 2*(kappa+1)*s*s + plus(k.c) + minus(k.c)
}

// second returns k with psi(κ) in place of κ, for an increasing psi.
func (k *scalar) second(psi func(c float64) float64) *scalar {
	h := *k
	h.c, h.exact = psi(k.c)*SafeC, false
	h.kappas = make([]float64, len(k.grid))
	if k.envelope != nil {
		h.l, h.mu = 1, 1
		h.envelope = func(p, q float64) float64 { return math.Expm1(psi(k.kappa(p, q))) * SafeC }
	}
	for i, p := range h.grid {
		h.kappas[i] = h.kappa(p, p)
	}
	return &h
}

// A spectrum bounds the eigenvalues of the Hessian of one record, of any rank: each is at most λμ,
// and their sum at most kλμ. The Rényi divergence of the minimizer of order α = κ+1 < 1 + 1/λ is at
// most
//
//	αs²/2 + Ψ₋/κ                     s = L/σ, adding and removing
//	αs²/2 + (Ψ₊+Ψ₋)/κ                s = 2L/σ, replacing
//	Ψ = ⌊k⌋ψ(λ) + ψ((k−⌊k⌋)λ)        Ψ₋ in the place of Ψ₊ where αλ² > 1
//
// whatever the dimension of the gradients: docs/theory/renyi.md#lop.renyi/1.
type spectrum struct {
	lambda  float64 // β/μ, rounded up
	k       float64 // k ≥ 1, rounded up
	replace bool
	of      *Calibrator
}

// spectrum returns the spectrum of a record at a modulus; nil for losses of ⟨a,θ⟩, for which there
// are better bounds. The trace is at most β times the rank, and for the multinomial logistic loss
// (1−1/K)X² = 2(1−1/K)β.
func (k *Calibrator) spectrum(mu float64) *spectrum {
	if k.fixed == 1 || k.p.Calibration != Sharp || k.p.Budget.Delta == 0 {
		return nil
	}
	return &spectrum{k.p.Constants.Smoothness / mu * SafeC, k.trace(), k.p.Relation == dp.Replace, k}
}

// cost returns the sum of Ψ, the cost of curvature; +Inf where α is too large.
func (m *spectrum) cost(kappa float64) float64 {
	whole := math.Floor(m.k)
	sum := func(psi func(c, kappa float64) float64) float64 {
		return whole*psi(math.Log1p(m.lambda), kappa) + psi(math.Log1p((m.k-whole)*m.lambda), kappa)
	}
	minus := sum(psiMinus)
	switch {
	case !m.replace:
		return minus
	case (kappa+1)*m.lambda*m.lambda > 1:
		return 2 * minus
	}
	return minus + sum(psiPlus)
}

// order returns the κ at which f is least among those that λ admits; 0 if there are none.
func (m *spectrum) order(f func(kappa float64) float64) float64 {
	hi := min(math.Log((1-0x1p-20)/m.lambda), math.Log(1e6))
	if !(hi > -3) {
		return 0
	}
	x, _ := num.Minimize(func(x float64) float64 { return f(math.Exp(x)) }, -3, hi-1e-9, 24, 1e-5)
	return math.Exp(x)
}

// at returns the bound on log δ(ε) at one κ, with ψ₋ correct to 3e-13.
func (m *spectrum) at(eps, s, o, kappa float64) float64 {
	return fromRenyi(eps, s*s+o*o, kappa, m.cost(kappa), 1+1e-9, 0)
}

// logDelta returns the logarithm of the least bound on δ(ε) that a search over κ finds, for real ε.
func (m *spectrum) logDelta(eps, s, o float64) float64 {
	kappa := m.order(func(kappa float64) float64 { return m.at(eps, s, o, kappa) })
	if v := m.at(eps, s, o, kappa); kappa > 0 && v < 0 {
		return v
	}
	return 0
}

func (m *spectrum) least(w *want) (sigma float64, theorem string) {
	if w.from != nil {
		return math.Inf(1), ""
	}
	sigma = m.of.g * m.leastNoise(w.eps, w.log, w.o)
	if !(sigma < w.below*(1-1e-6)) { // a smaller gain is not worth another theorem
		return math.Inf(1), ""
	}
	return sigma, TheoremRenyi
}

// leastNoise returns u = σ/G for (ε, e^{target}) with output noise of shift o, G = L or 2L: at each
// κ
//
//	s² = 2(κε + target + log α − κ log(κ/α) − Ψ)/(κα) − o²
//
// and +Inf where none is enough.
func (m *spectrum) leastNoise(eps, target, o float64) float64 {
	square := func(kappa float64) float64 {
		return -2*m.at(eps, 0, o, kappa)/(kappa*(kappa+1)) + 2*target/(kappa*(kappa+1))
	}
	kappa := m.order(func(kappa float64) float64 { return -square(kappa) })
	if v := square(kappa); kappa > 0 && v > 0 {
		return 1 / math.Sqrt(v) * SafeScale
	}
	return math.Inf(1)
}

func (m *spectrum) logs(sigma, o float64) (remove, add func(eps float64) float64) {
	both := func(eps float64) float64 { return m.logDelta(eps, m.of.g/sigma, o) }
	return both, both
}

func (m *spectrum) renyi(alpha, sigma float64) float64 {
	kappa, s := max(alpha-1, 1e-9), m.of.g/sigma
	return (kappa+1)*s*s/2 + m.cost(kappa)/kappa
}

// encloseRenyi is fromRenyi in intervals, for a sensitivity l: S² = (l/σ)² + o².
func encloseRenyi(c enclose.Arithmetic, eps enclose.Interval, l, o, order float64, cost enclose.Interval,
	q claim) enclose.Interval {
	kappa, alpha := c.Of(order), c.Add(c.Of(1), c.Of(order))
	square := c.Add(c.Square(c.Quo(c.Of(l), c.Of(q.sigma))), c.Square(c.Of(o)))
	moment := c.Mul(kappa, c.Sub(c.Quo(c.Mul(alpha, square), c.Of(2)), eps))
	odds := c.Sub(c.Mul(kappa, c.Log(c.Quo(kappa, alpha))), c.Log(alpha))
	return c.Exp(c.Add(c.Add(moment, odds), cost))
}

// enclosedPsiPlus and enclosedPsiMinus are ψ₊ and ψ₋ in intervals, as functions of x.
func enclosedPsiPlus(c enclose.Arithmetic, x enclose.Interval, order float64) enclose.Interval {
	alpha := c.Add(c.Of(1), c.Of(order))
	return c.Sub(c.Mul(alpha, c.Log1p(x)), c.Log1p(c.Mul(alpha, x)))
}

func enclosedPsiMinus(c enclose.Arithmetic, x enclose.Interval, order float64) enclose.Interval {
	kappa := c.Of(order)
	return c.Sub(c.Of(0), c.Add(c.Mul(kappa, c.Log1p(x)), c.Log(c.Sub(c.Of(1), c.Mul(kappa, x)))))
}

// provesRenyi proves a claim by renyi, for removing a record or in a leg. Every κ > 0 is valid.
func (k alone) provesRenyi(q claim) bool {
	t := k.scalar
	s := t.l / q.sigma
	removing := func(c enclose.Arithmetic, eps enclose.Interval, order, o float64) enclose.Interval {
		x := c.Quo(c.Of(k.p.Constants.Smoothness), k.modulus(c, q))
		return encloseRenyi(c, eps, t.l, o, order, t.enclosedPlus(c, x, order), q)
	}
	if k.p.Relation != dp.Replace {
		kappa := t.order(q.eps, s*s+q.o*q.o)
		return enclose.Proves(nil, func(c enclose.Arithmetic) (less, more enclose.Interval) {
			return c.Most(removing(c, c.Of(q.eps), kappa, q.o), t.adding(c, c.Of(q.eps), q.o, q)), c.Of(q.delta)
		})
	}
	_, g := t.renyiReplace(q.eps, s, q.o, nil)
	if !g.within(q.eps) {
		return false
	}
	er, _, _, _ := g.parts(q.eps)
	kappa, half := t.order(er, s*s+q.o*q.o/4), q.o/2
	return enclose.Proves(nil, func(c enclose.Arithmetic) (less, more enclose.Interval) {
		er, ea := g.epsilons(c, q.eps)
		remove, add := g.factors(c)
		return c.Add(c.Mul(remove, removing(c, er, kappa, half)), c.Mul(add, t.adding(c, ea, half, q))), c.Of(q.delta)
	})
}

// proves proves a claim by one κ.
func (m *spectrum) proves(q claim) bool {
	k := m.of
	order := m.order(func(kappa float64) float64 { return m.at(q.eps, k.g/q.sigma, q.o, kappa) })
	return order > 0 && enclose.Proves(nil, func(c enclose.Arithmetic) (less, more enclose.Interval) {
		lambda, whole := c.Quo(c.Of(k.p.Constants.Smoothness), k.modulus(c, q)), math.Floor(m.k)
		cost := c.Of(0)
		convex := c.Mul(c.Add(c.Of(1), c.Of(order)), c.Square(lambda)).Hi.Cmp(c.Of(1).Lo) <= 0
		for _, part := range []struct{ times, share float64 }{{whole, 1}, {1, m.k - whole}} {
			x := c.Mul(lambda, c.Of(part.share))
			psi := enclosedPsiMinus(c, x, order)
			switch {
			case m.replace && convex:
				psi = c.Add(psi, enclosedPsiPlus(c, x, order))
			case m.replace:
				psi = c.Add(psi, psi)
			}
			cost = c.Add(cost, c.Mul(c.Of(part.times), psi))
		}
		return encloseRenyi(c, c.Of(q.eps), k.g, q.o, order, cost, q), c.Of(q.delta)
	})
}
