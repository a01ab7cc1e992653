// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package linear

import (
	"math"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/enclose"
	"github.com/privopt/privopt/internal/num"
)

// This file has the bounds for persons: a unit has up to m rows and the loss Σ wᵢφᵢ, Σ wᵢ ≤ 1. For
// losses of ⟨a,θ⟩ with s = L/σ and x(p) = h(p)/μ, L and h of one row,
//
//	removing a person   sup_p e^{x(p)/2+s²p²/8} δ_G(ε−x(p), √(s²p²+o²)),  or by scalar.renyi
//	adding a person     e^{s²/8} δ_G(ε, √(s²+o²)) + ½δ_G(ε, o)   the sign of φ′ is fixed for each row
//	                    2e^{s²/8} δ_G(ε, √(s²+o²))               any convex φ
//
// and replacing one in two steps, see type leg. The number of rows enters nowhere but in
// scalar.plus. Type scalar has the code, with x for κ. The proof puts each row by itself: the bound
// on the privacy loss of a row has increasing differences, and its expectation is that of a convex
// function that does not decrease: docs/theory/persons.md#lop.persons/1.

// mostRows is the largest number of rows that a person may have.
const mostRows = 1 << 30

// persons reports whether a unit may have several rows.
func (k *Calibrator) persons() bool { return k.p.Rows > 1 }

// several changes the curve of New for persons. A person's gradient lies in the span of the
// subspaces of all rows. For losses of ⟨a,θ⟩, where Curve uses Chi for Rényi divergences only, each
// row stands by itself: docs/theory/persons.md#persons.renyi.
func (k *Calibrator) several() {
	k.chi.Paired = false
	if k.fixed == 1 {
		k.chi.Q = 1
		return
	}
	k.chi.Q = k.most(k.fixed)
	if k.p.Relation == dp.Replace {
		k.chi.Q = min(2*k.chi.Q, k.p.Dim)
	}
}

// most returns min(m·n, d), the dimension of m subspaces of dimension n.
func (k *Calibrator) most(n int) int {
	if k.p.Rows > k.p.Dim/n {
		return k.p.Dim
	}
	return k.p.Rows * n
}

// trace returns a bound on the trace of the Hessian of one row in units of its Smoothness: its
// rank, or 2(1−1/K) for the multinomial logistic loss.
func (k *Calibrator) trace() float64 {
	if n := float64(k.p.Classes); n > 0 {
		return min(k.rank, 2*(1-1/n)*SafeC)
	}
	return k.rank
}

// personCurvature returns the most that the curvature of a person costs, rounded up: Λ = β/μ for
// losses of ⟨a,θ⟩, and for others ρ log1p(T/(ρμ)), T the trace of one row and ρ the rank of all.
func (k *Calibrator) personCurvature(mu float64) float64 {
	x := k.p.Constants.Smoothness / mu
	if k.fixed == 1 {
		return x * SafeC
	}
	rho := float64(k.most(int(k.rank)))
	return rho * math.Log1p(k.trace()*x/rho) * SafeC
}

// leastPersonModulus is the inverse of personCurvature.
func (k *Calibrator) leastPersonModulus(c float64) float64 {
	beta := k.p.Constants.Smoothness
	if k.fixed == 1 {
		return beta / c * SafeC
	}
	rho := float64(k.most(int(k.rank)))
	return k.trace() * beta / (rho * math.Expm1(c/rho)) * SafeC
}

// enclosedPersons encloses personCurvature without its rounding up.
func (k *Calibrator) enclosedPersons(c enclose.Arithmetic, mu enclose.Interval) enclose.Interval {
	x := c.Quo(c.Of(k.p.Constants.Smoothness), mu)
	if k.fixed == 1 {
		return x
	}
	rho := c.Of(float64(k.most(int(k.rank))))
	return c.Mul(rho, c.Log1p(c.Quo(c.Mul(c.Of(k.trace()), x), rho)))
}

// logAddPerson returns the logarithm of the bound on adding a person, at every real ε.
func (k *scalar) logAddPerson(eps, s, o float64) float64 {
	log := s*s/8 + dp.GaussianLogDelta(eps, math.Hypot(s, o))
	if k.monotone {
		return min(0, num.LogSumExp(log, dp.GaussianLogDelta(eps, o)-math.Ln2))
	}
	return min(0, log+math.Ln2)
}

// reach returns E for which κ(p) ≤ ε − E keeps the bound on removal at p below e^{log}. For persons
// ε − E is X*(p), the root X of
//
//	X/2 + s²p²/8 + log δ_G(ε−X, √(s²p²+o²)) = log
//
// which is concave in p and does not increase: docs/theory/persons.md#lop.persons/1.
func (k *scalar) reach(eps, s, o, p, log, guess, near float64) float64 {
	shift := math.Hypot(s*p, o)
	if k.persons == 0 {
		return epsilonAt(shift, log, guess, near)
	}
	return tiltedAt(shift, log-s*s*p*p/8-eps/2, guess, near, 0.5)
}

// exchanged returns the bounds of a pair of directions at every real ε: no bound for persons tends
// to 1 − e^ε as ε falls, but below 0 the other direction at −ε bounds each.
func exchanged(remove, add func(eps float64) float64) (r, a func(eps float64) float64) {
	of := func(f, other func(eps float64) float64) func(eps float64) float64 {
		return func(eps float64) float64 {
			if eps < 0 {
				return min(0, f(eps), reflected(eps, min(0, other(-eps))))
			}
			return min(0, f(eps))
		}
	}
	return of(remove, add), of(add, remove)
}

// enough returns a u = σ/L that is certainly enough for (ε, δ), ε > Λ, by the bounds at p = 1 with
// the largest curvature.
func (k *scalar) enough(eps, delta float64, replace bool) float64 {
	g := leg{}
	if replace {
		g.e1 = (eps - k.c) / 2
	}
	u := enough(eps-k.c-g.e1, delta, 1)
	for range 2000 {
		remove := func(eps float64) float64 { return k.at(eps, 1/u, 0, 1, k.c) }
		add := func(eps float64) float64 { return k.logAdd(eps, 1/u, 0) }
		log := max(remove(eps), add(eps))
		if replace {
			log = g.log(eps, remove, add)
		}
		if log <= num.Log(delta)-1e-9 {
			return u
		}
		u *= 2
	}
	return math.Inf(1)
}

// plus returns a bound on Σψ₊(xᵢ) over the eigenvalues xᵢ of a unit: ψ₊(Λ) for one record, and for
// persons, whose xᵢ have the sum Λ at most, Λ·max ψ₊(x)/x over x ≤ Λ.
func (k *scalar) plus(kappa float64) float64 {
	if k.persons < 2 {
		c := k.c
		if k.persons == 1 {
			c = math.Log1p(c)
		}
		return psiPlus(c, kappa)
	}
	x, less := psiPeak(k.c, kappa)
	if !less {
		return psiPlus(math.Log1p(k.c), kappa)
	}
	return psiPlus(math.Log1p(x), kappa) * (k.c / x) * (1 + 1e-9) // the error of x lowers it
}

// psiPeak returns the x ≤ most at which ψ₊(x)/x is largest, to about 1e-9, and whether it is less
// than most. The quotient rises up to x* > α^{−1/2}, the root of xψ₊′ = ψ₊, and falls from there
// on.
func psiPeak(most, kappa float64) (x float64, less bool) {
	alpha := kappa + 1
	excess := func(x float64) float64 { // xψ₊′ − ψ₊, which falls from α^{−1/2} on
		return alpha*kappa*x*x/((1+x)*(1+alpha*x)) - psiPlus(math.Log1p(x), kappa)
	}
	lo := 1 / math.Sqrt(alpha)
	if most <= lo || !(excess(most) < 0) {
		return most, false
	}
	x = min(2.3*lo, most) // near x* for usual α
	for range 30 {
		at := (1 + x) * (1 + alpha*x)
		step := excess(x) / (alpha * kappa * x * (1 - alpha*x*x) / (at * at)) // xψ₊″
		next := min(max(x-step, 1.001*lo), most)
		if math.Abs(next-x) <= 1e-6*x { // Newton's method squares the error
			return next, true
		}
		x = next
	}
	_, x = num.BisectTo(func(x float64) bool { return excess(x) >= 0 }, lo, most, 1e-9)
	return x, true
}

// order returns a κ at which the bound of renyi is nearly least. For persons the derivative is that
// of the function order with Λ/x times the terms of Ψ₊ at the x of psiPeak.
func (k *scalar) order(eps, square float64) float64 {
	if k.persons == 0 {
		return order(eps, square, k.c)
	}
	kappa := order(eps, square, math.Log1p(k.c))
	for range 20 {
		if k.persons < 2 || kappa > 1e15 {
			break
		}
		x, less := psiPeak(k.c, kappa)
		if !less {
			break
		}
		tilt := x / (1 + (kappa+1)*x)
		slope := (2*kappa+1)*square/2 - eps + k.c/x*(math.Log1p(x)-tilt) - math.Log1p(1/kappa)
		next := kappa - slope/(square+k.c/x*tilt*tilt+1/(kappa*(kappa+1)))
		next = min(max(next, kappa/2), 2*kappa)
		done := math.Abs(next-kappa) <= 1e-4*kappa
		if kappa = next; done {
			break
		}
	}
	return kappa
}

// enclosedPlus encloses a bound on Σψ₊ as plus does, for Λ = x. Where ψ₊(Λ) may be too little, the
// tangent at a point y ≥ α^{−1/2}, from which on ψ₊ is concave, gives
//
//	ψ₊(x)/x ≤ ψ₊′(y) + max(0, ψ₊(y) − yψ₊′(y))·√α
//
// for x ≥ α^{−1/2}, and below the quotient rises.
func (k *scalar) enclosedPlus(c enclose.Arithmetic, x enclose.Interval, order float64) enclose.Interval {
	at := enclosedPsiPlus(c, x, order)
	if k.persons < 2 {
		return at
	}
	alpha := c.Add(c.Of(1), c.Of(order))
	slope := func(x enclose.Interval) enclose.Interval {
		return c.Quo(c.Mul(c.Mul(alpha, c.Of(order)), x), c.Mul(c.Add(c.Of(1), x), c.Add(c.Of(1), c.Mul(alpha, x))))
	}
	if c.Sub(c.Mul(x, slope(x)), at).Lo.Sign() >= 0 || c.Mul(alpha, c.Square(x)).Hi.Cmp(c.Of(1).Lo) <= 0 {
		return at
	}
	peak, _ := psiPeak(1e3, order) // x* is below 3
	y := c.Of(max(peak, (1+0x1p-50)/math.Sqrt(order+1)))
	gap := c.Most(c.Of(0), c.Sub(enclosedPsiPlus(c, y, order), c.Mul(y, slope(y))))
	return c.Mul(x, c.Add(slope(y), c.Mul(gap, c.Sqrt(alpha))))
}

// A span bounds the privacy loss for persons whose rows have gradients in subspaces of q dimensions
// that do not move with θ, and may differ from row to row. With F(z) = (e^{z/2} − e^{ε−z/2})₊, s =
// L/σ and c of personCurvature,
//
//	removing  E F(c+sχ_q)
//	adding    E F(sχ_q)
//
// and replacing in two steps: docs/theory/persons.md#persons.ranks.
type span struct {
	profileOnly
	q       int
	c       float64
	replace bool
	l       float64 // L
}

// span returns the bounds of a span at a modulus; nil where those of Chi are as good, for records,
// and for losses of ⟨a,θ⟩, for which there are better bounds.
func (k *Calibrator) span(mu float64) *span {
	if !k.persons() || k.fixed == 1 || k.fixed == k.p.Dim || k.p.Budget.Delta == 0 {
		return nil
	}
	return &span{q: k.fixed, c: k.personCurvature(mu), replace: k.p.Relation == dp.Replace,
		l: k.p.Constants.Lipschitz}
}

// log returns log E F(c+sχ_q) at every real ε, with F = 0 below r₀ = max(0, (ε−c)/s). With J of
// function moments, γ = min(0, ε−c) and n = q−1 it is
//
//	2^{1−q/2}/Γ(q/2) e^{(c+sr₀−r₀²)/2} (Jₙ(s/2) − Jₙ(−s/2) + (1−e^γ)Jₙ(−s/2))
func (m *span) log(eps, s, c float64) float64 {
	r0 := max(0, (eps-c)/s)
	switch {
	case r0 > 1e3 && m.q <= 1e5: // e^{ε/2} P(χ_q > r₀) is far below: plans have s < 1e3
		return nothing
	case m.q > 4000 || s > 10 || r0 > 1e3:
		return m.logIntegral(eps, s, c)
	}
	apart, sum, scale := moments(r0, 0, s, m.q-1)
	if gap := eps - c; gap < 0 {
		apart -= math.Expm1(gap) * (sum - apart) / 2
	}
	return (1-float64(m.q)/2)*math.Ln2 - num.LogGamma(float64(m.q)/2) + (c+s*r0-r0*r0)/2 + scale + num.Log(apart)
}

// logIntegral is log as one integral.
func (m *span) logIntegral(eps, s, c float64) float64 {
	r0, n := max(0, (eps-c)/s), float64(m.q-1)
	gap := min(0, eps-c) // ε − c − s r₀
	logf := func(y float64) float64 {
		x := r0 + y
		return n*num.Log(x) - x*x/2 + (c+s*x)/2 + num.Log(-math.Expm1(gap-s*y))
	}
	// At the peak n/(r₀+y) − r₀ − y + s/2 + h = 0, where the slope h of the last term is at most 1/y.
	width := min(0.5, 1/(r0+1), 2/s)
	top, sum, ok := integral(logf, peakOf(logf, math.Sqrt(n+1)+s, 60), func(float64) float64 { return width })
	if !ok {
		return 0
	}
	return (1-float64(m.q)/2)*math.Ln2 - num.LogGamma(float64(m.q)/2) + top + num.Log(sum)
}

func (m *span) least(w *want) (sigma float64, theorem string) {
	from, tol := new(guess), 1e-9
	switch {
	case w.o > 0:
		return math.Inf(1), ""
	case w.from != nil:
		from, tol = w.from, 1e-5
	}
	return m.l * m.leastNoise(w.eps, w.log, w.below/m.l, tol, from), TheoremPersons
}

func (m *span) logs(sigma, o float64) (remove, add func(eps float64) float64) {
	if o > 0 {
		return nil, nil
	}
	return m.logCurves(m.l / sigma)
}

// logCurves returns the logarithms of the bounds on removing and adding, or twice that on
// replacing.
func (m *span) logCurves(s float64) (remove, add func(eps float64) float64) {
	leaves := func(eps float64) float64 { return min(0, m.log(eps, s, m.c)) }
	comes := func(eps float64) float64 { return min(0, m.log(eps, s, 0)) }
	if !m.replace {
		return leaves, comes
	}
	var both func(eps float64) float64
	both = func(eps float64) float64 {
		if eps < 0 {
			return reflected(eps, both(-eps))
		}
		_, log := bestLeg(bothLegs, eps, 0, eps, 12, 1e-4*eps, leaves, comes)
		return min(0, log)
	}
	return both, both
}

// leastNoise returns u = σ/L for (ε, e^{target}) if it is below most, else +Inf, up to a relative
// tol. Every leg is valid; the search near that of from costs a little utility only.
func (m *span) leastNoise(eps, target, most, tol float64, from *guess) float64 {
	log := func(s float64) float64 {
		leaves := func(eps float64) float64 { return m.log(eps, s, m.c) }
		comes := func(eps float64) float64 { return m.log(eps, s, 0) }
		if !m.replace {
			return max(leaves(eps), comes(eps))
		}
		legs, lo := bothLegs, 0.0
		hi, steps := eps, 12
		if g := from.leg; g != nil {
			legs, lo = []leg{*g}, max(0, g.e1-eps/16)
			hi, steps = min(eps, g.e1+eps/16), 0
		}
		best, v := bestLeg(legs, eps, lo, hi, steps, 1e-3*eps, leaves, comes)
		from.leg = &best
		return v
	}
	if !(most > 0 && most < math.MaxFloat64) || !(log(1/most) <= target) {
		return math.Inf(1)
	}
	return least(log, target-1e-9, most, tol) * SafeScale
}
