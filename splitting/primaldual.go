// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting

import (
	"math"
	"math/rand/v2"
)

// PrimalDual is the method of Condat and Vũ for f(x) + g(x) + h(Kx) [Con13, Algorithm 3.1; Vu13],
// and the method of Chambolle and Pock [CP11] if F is nil:
//
//	y⁺ = prox_{σh*}(y + σK(x + θ(x − x⁻)))
//	x⁺ = prox_{τg}(x − τ(∇f(x) + Kᵀy⁺))
//
// where y has the length of Kx. A step costs one product with K and one with Kᵀ.
//
//	rule                condition                      theorem
//	FixedStep           1/τ − σ‖K‖² > L_f/2, θ = 1;    x converges to a minimizer
//	                    τσ‖K‖² ≤ 1 if F is nil         [Con13, Thms. 3.1, 3.3]
//	StronglyConvexStep  1/τ₀ − σ₀‖K‖² ≥ L_f − μ,       ‖x_k − x*‖² = O(1/k²)
//	                    F strongly convex; θ_k =       [CP11, Algorithm 2; CP16, §5]
//	                    1/√(1+μτ), τ ← θτ, σ ← σ/θ
//
// StronglyConvexStep moves (μ/2)‖·‖² from f to g. The residual is finite if H is nil, if K is nil
// and prox.Sum knows G + H, or if F is strongly convex; the gap also if minimizers are known to be
// bounded. A constraint on Kx with K ≠ I is met in the limit only, and not certified. Which point X
// is shown, and why the bounds hold: docs/theory/splitting.md#splitting.primaldual
type PrimalDual struct {
	// Tau and Sigma are the first τ and σ. If both are 0, σ = max{L_f/2, 10μ}/‖K‖² and
	// τ = 0.99/(L_f/2 + σ‖K‖²), or τ = σ = 0.99/‖K‖ if L_f is 0; for StronglyConvexStep
	// σ = L_f/(2‖K‖²), and L_f − μ takes the place of L_f/2 in τ. If one is 0, it becomes 0.99 times
	// the largest number that satisfies the condition. A larger σ helps where f is easy and h∘K is
	// not, such as ½‖x−b‖² with total variation.
	Tau, Sigma float64
	// Rule is FixedStep or StronglyConvexStep.
	Rule StepRule

	k            Linear
	tau, sigma   float64
	theta        float64
	shift        float64 // the μ that is moved from f to g, 0 for FixedStep
	x, grad      []float64
	next         []float64
	y, ky, kx, p []float64 // ky = Kᵀy, kx = Kx
	kxBar        []float64
	saved
	certificate
}

// Init implements Method.
func (m *PrimalDual) Init(p Problem, x0 []float64, _ *rand.Rand) error {
	if err := rule("PrimalDual.Rule", m.Rule, FixedStep, StronglyConvexStep); err != nil {
		return err
	}
	m.shift = 0
	if m.Rule == StronglyConvexStep {
		if m.shift = convexity(p.F); m.shift == 0 {
			return unfit("PrimalDual: StronglyConvexStep needs F.Convexity() > 0; FixedStep does not")
		}
	}
	d := len(x0)
	m.k = p.linear(d)
	if err := m.steps(smooth(p.F).Smoothness(), convexity(p.F)); err != nil {
		return err
	}
	rows, _ := m.k.Dims()
	m.x, m.grad, m.next, m.ky = resize(m.x, d), resize(m.grad, d), resize(m.next, d), resize(m.ky, d)
	m.y, m.kx, m.kxBar, m.p = resize(m.y, rows), resize(m.kx, rows), resize(m.kxBar, rows), resize(m.p, rows)
	copy(m.x, x0)
	clear(m.y)
	if y, ok := m.take(rows); ok {
		copy(m.y, y)
	}
	m.k.MulVec(m.kx, m.x)
	copy(m.kxBar, m.kx)
	m.theta = 1
	m.certificate.init(p, d)
	return nil
}

// keep saves y.
func (m *PrimalDual) keep() { m.save(m.y) }

// steps sets τ and σ for L_f = lip.
func (m *PrimalDual) steps(lip, mu float64) error {
	if !(lip >= 0) || math.IsInf(lip, 1) {
		return unfit("PrimalDual: F.Smoothness() = %v, want a finite number ≥ 0; ForwardBackward and DavisYin can search "+
			"for a step", lip)
	}
	for _, s := range []struct {
		name string
		v    float64
	}{{"Tau", m.Tau}, {"Sigma", m.Sigma}} {
		if !(s.v >= 0) || math.IsInf(s.v, 1) {
			return invalid("PrimalDual.%s = %v, want a positive finite number, or 0 for a default", s.name, s.v)
		}
	}
	need, k2 := lip/2, m.k.Norm()*m.k.Norm() // of 1/τ − σ‖K‖²
	if m.Rule == StronglyConvexStep {
		need = math.Max(lip-m.shift, 0)
	}
	const inside = 0.99
	m.tau, m.sigma = m.Tau, m.Sigma
	if m.tau == 0 && m.sigma == 0 {
		switch {
		case k2 == 0:
			m.sigma = 1
		case lip > 0 && m.Rule == FixedStep:
			m.sigma = math.Max(lip/2, 10*math.Min(mu, lip)) / k2
		case lip > 0:
			m.sigma = lip / (2 * k2)
		default:
			m.sigma = inside / math.Sqrt(k2)
		}
	}
	switch {
	case m.tau == 0 && need+m.sigma*k2 == 0:
		m.tau = 1
	case m.tau == 0:
		m.tau = inside / (need + m.sigma*k2)
	case m.sigma == 0 && k2 == 0:
		m.sigma = 1
	case m.sigma == 0:
		m.sigma = inside * (1/m.tau - need) / k2
	}
	if slack := 1/m.tau - m.sigma*k2; !(m.sigma > 0) || slack < need || slack == need && m.Rule == FixedStep && lip > 0 {
		return invalid("PrimalDual: Tau = %v and Sigma = %v, want 1/Tau − Sigma·‖K‖² beyond %v with ‖K‖ = %v, or 0 for "+
			"either", m.Tau, m.Sigma, need, m.k.Norm())
	}
	return nil
}

// Step implements Method.
func (m *PrimalDual) Step(loc *Location, stats *Stats) {
	x, y, p := m.x, m.y, m.p
	for i := range p {
		p[i] = m.kxBar[i] + y[i]/m.sigma
	}
	m.h.Prox(p, p, 1/m.sigma) // p = prox_{h/σ}(y/σ + Kx̄)
	var dy float64
	for i := range y {
		d := m.sigma * (m.kxBar[i] - p[i]) // y⁺ = y + σ(Kx̄ − p)
		dy += d * d
		y[i] += d
	}
	m.k.MulVecTrans(m.ky, y)

	m.f.Grad(m.grad, x)
	next := m.next
	s := 1 / (1 + m.tau*m.shift)
	for i := range next { // x⁺ = prox_{τg}(x − τ(∇f(x) + Kᵀy⁺)), with μ moved
		next[i] = s * (x[i] - m.tau*(m.grad[i]-m.shift*x[i]+m.ky[i]))
	}
	m.g.Prox(next, next, s*m.tau)
	stats.GradTerms += m.terms
	stats.Proxes += 2

	tau := m.tau
	if m.shift > 0 {
		m.theta = 1 / math.Sqrt(1+m.shift*m.tau)
		m.tau, m.sigma = m.theta*m.tau, m.sigma/m.theta
	}
	copy(m.kxBar, m.kx)
	m.k.MulVec(m.kx, next)
	m.show(loc, stats, next, tau, math.Sqrt(dy))
	for i, v := range m.kx {
		m.kxBar[i] = v + m.theta*(v-m.kxBar[i]) // Kx̄ = Kx⁺ + θ(Kx⁺ − Kx)
	}
	copy(x, next)
}

// show sets the location to the next point and a bound on its residual.
func (m *PrimalDual) show(loc *Location, stats *Stats, next []float64, tau, dy float64) {
	e := separation(m.x, next)/tau + m.hidden(m.x, next, tau)
	m.norm(m.grad)
	switch {
	case m.overflowed(loc):
		copy(loc.X, next)
		return
	case m.noH:
		copy(loc.X, next)
		loc.Residual = e
	case m.sum != nil:
		m.mapping(loc, stats, m.x, m.grad, tau)
	default:
		rest := m.sigma * separation(m.kx, m.p) // dy is the same for Kx̄ instead of Kx⁺
		size := m.stagnation.grad + norm(m.ky) + norm(next)/tau + norm(m.y) + m.sigma*norm(m.p)
		m.atRounding(e+dy+rest <= 1e-14*size)
		m.duality(loc, next, e, dy)
		return
	}
	m.watch(loc)
}

// duality sets the location to the point of the least gap, or to x⁺ before the first finite gap.
func (m *PrimalDual) duality(loc *Location, next []float64, e, dy float64) {
	if m.due(e + dy) {
		var cross float64
		for i, pi := range m.p {
			cross += m.y[i] * (m.kx[i] - pi) // ⟨y⁺, Kx⁺ − p⟩
		}
		hp := m.h.Func(m.p)
		// The least of ⟨e,w−x⁺⟩ + (A/2)‖w−x⁺‖², over all w or at a minimizer of J.
		strong := math.Inf(1)
		if m.atY > 0 {
			strong = e * e / (2 * m.atY)
		}
		tail := func(gap, value float64) float64 {
			return gap + math.Min(strong, e*(m.reach.of(value)+norm(next)))
		}
		slack := 0x1p-46 * (math.Abs(hp) + math.Abs(cross))
		fx, gx, hx := m.f.Func(next), m.g.Func(next), m.h.Func(m.kx)
		if m.better(tail(hx-hp-cross, fx+gx+hx) + slack) {
			copy(m.shown, next)
		}
		if _, same := m.k.(identity); same {
			slack += 0x1p-46 * (math.Abs(fx) + math.Abs(gx))
			fp, gp := m.f.Func(m.p), m.g.Func(m.p)
			if m.better(tail(fp-fx+gp-gx-cross, fp+gp+hp) + slack) {
				copy(m.shown, m.p)
			}
		}
	}
	m.leastGap(loc, next)
}
