// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
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
	// τ = 0.99/(L_f/2 + σ‖K‖²), or τσ = (0.99/‖K‖)² if L_f is 0, with a first step about as long as
	// x0 and Kx0 are away from their proximal points; for StronglyConvexStep σ = L_f/(2‖K‖²), and
	// L_f − μ takes the place of L_f/2 in τ. If one is 0, it becomes 0.99 times the largest number
	// that satisfies the condition. A larger σ helps where f is easy and h∘K is not, such as
	// ½‖x−b‖² with total variation. With FixedStep, if both are 0, the steps change at most 20 times,
	// where one relative residual is far above the other.
	Tau, Sigma float64
	// Rule is FixedStep or StronglyConvexStep.
	Rule StepRule

	tau, sigma   float64
	theta        float64
	shift        float64 // the μ that is moved from f to g, 0 for FixedStep
	x, grad      []float64
	next         []float64
	y, ky, kx, p []float64 // ky = Kᵀy, kx = Kx
	kxBar        []float64
	used         float64   // the τ of the last step, which changes with StronglyConvexStep
	from         []float64 // the x that it started from
	steps        uint      // so far
	balanced     int       // changes of default steps
	warmed
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
	m.certificate.init(p, x0)
	m.steps, m.balanced = 0, 0
	if err := m.firstSteps(smooth(p.F).Smoothness(), convexity(p.F)); err != nil {
		return err
	}
	rows, _ := m.k.Dims()
	m.x, m.grad, m.next, m.ky = resize(m.x, d), resize(m.grad, d), resize(m.next, d), resize(m.ky, d)
	m.y, m.kx, m.kxBar, m.p = resize(m.y, rows), resize(m.kx, rows), resize(m.kxBar, rows), resize(m.p, rows)
	copy(m.x, x0)
	clear(m.y)
	if y, ok := m.take(); ok {
		copy(m.y, y)
	}
	m.k.MulVec(m.kx, m.x)
	copy(m.kxBar, m.kx)
	m.theta = 1
	m.from = resize(m.from, d)
	if smooth(p.F).Smoothness() == 0 && m.Tau == 0 && m.Sigma == 0 {
		m.units()
	}
	return nil
}

// units changes default steps of an affine f, which know no unit of x, until the first step is
// about as long as x and Kx are away from prox_g(x) and prox_h(Kx).
func (m *PrimalDual) units() {
	k := m.k.Norm()
	for range 50 {
		floats.AddScaledTo(m.p, m.kx, 1/m.sigma, m.y)
		m.h.Prox(m.p, m.p, 1/m.sigma)
		for i, v := range m.p {
			m.kxBar[i] = m.y[i] + m.sigma*(m.kx[i]-v) // y⁺
		}
		m.k.MulVecTrans(m.ky, m.kxBar)
		m.f.Grad(m.grad, m.x)
		for i, v := range m.x {
			m.next[i] = v - m.tau*(m.grad[i]+m.ky[i])
		}
		m.g.Prox(m.next, m.next, m.tau)
		m.g.Prox(m.from, m.x, m.tau)
		away := separation(m.p, m.kx) + k*separation(m.from, m.x)
		r := math.Sqrt(k * separation(m.next, m.x) / away)
		if !(r > 0) || math.IsInf(r, 1) || r > 0.25 && r < 4 {
			break
		}
		m.sigma *= r
		m.tau = inside * inside / (m.sigma * k * k)
	}
	copy(m.kxBar, m.kx)
}

// pair implements optimality: y⁺ ∈ ∂h(p), and from the step of x
//
//	u = (x − x⁺)/τ + s(x − x⁺) − ∇f(x) − Kᵀy⁺ ∈ ∂g(x⁺),   s the μ that was moved.
func (m *PrimalDual) pair() (x []float64, dual Multipliers, ok bool) {
	if m.single() {
		return nil, dual, false
	}
	if proof, ok := m.proof(); ok {
		return m.x, proof, true
	}
	if !m.noG {
		dual.G = make([]float64, len(m.x))
		for i, xi := range m.x {
			dual.G[i] = (m.from[i]-xi)*(1/m.used+m.shift) - m.grad[i] - m.ky[i]
		}
	}
	dual.H = slices.Clone(m.y)
	return m.x, dual, true
}

// single reports whether a step is one proximal step, of g or of the sum.
func (m *PrimalDual) single() bool { return m.noH || m.sum != nil }

// settle implements optimality.
func (m *PrimalDual) settle(loc *Location) {
	if m.single() || !m.bounded() {
		return
	}
	m.delta = math.Inf(1)
	e := separation(m.from, m.x)/m.used + m.hidden(m.from, m.x, m.used)
	m.duality(loc, m.x, e, 0)
}

// measure sets the relative residuals of x⁺ = next and y⁺: Kx⁺ − p, and with e = ∇f(x⁺) − ∇f(x) +
// (x − x⁺)/τ the bound ‖e‖ ≤ ‖x − x⁺‖/τ, which holds for τ ≤ 2/L_f.
func (m *PrimalDual) measure(next []float64, tau float64) {
	apart := separation(m.x, next)
	copy(m.from, m.x)
	m.used = tau
	y, ky := norm(m.y), norm(m.ky)
	k := m.k.Norm()
	m.rp = ratio(separation(m.kx, m.p), k*norm(next)+norm(m.p))
	m.rd = ratio(apart/tau, 2*norm(m.grad)+m.lip*norm(next)+k*y+ky)
}

// inside is the share of the largest steps that default steps take.
const inside = 0.99

// firstSteps sets τ and σ for L_f = lip.
func (m *PrimalDual) firstSteps(lip, mu float64) error {
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
	x, y := m.x, m.y
	p := m.p
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

// balance changes default steps when the number of steps doubles, so that the relative residuals of
// Kx and of ∇f + u + Kᵀy fall alike: σ by the root of their ratio, at most eightfold, and τ to the
// condition. It does so at most balances times, so that the theorem holds after the last.
func (m *PrimalDual) balance() {
	m.steps++
	if m.Rule != FixedStep || m.Tau > 0 || m.Sigma > 0 || m.balanced == balances || bits.OnesCount(m.steps) != 1 ||
		m.steps < 64 {
		return
	}
	r := math.Sqrt(m.rp / m.rd)
	if !(r > 0) || math.IsInf(r, 1) || r > 0.2 && r < 5 {
		return
	}
	m.balanced++
	k2 := m.k.Norm() * m.k.Norm()
	m.sigma *= clamp(r, 0.125, 8)
	m.tau = inside / (m.lip/2 + m.sigma*k2)
}

// balances bounds the changes of default steps.
const balances = 20

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
		m.measure(next, tau)
		m.balance()
		rest := m.sigma * separation(m.kx, m.p) // dy is the same for Kx̄ instead of Kx⁺
		size := m.stagnation.grad + norm(m.ky) + norm(next)/tau + norm(m.y) + m.sigma*norm(m.p)
		m.atRounding(e+dy+rest <= 1e-14*size)
		m.look(next, m.p, m.kx, m.p)
		m.duality(loc, next, e, dy)
		return
	}
	m.watch(loc)
}

// duality sets the location to the point of the least J, or to x⁺ before the first finite gap.
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
		here := terms3{m.f.Func(next), m.g.Func(next), m.h.Func(m.kx)}
		slack := 0x1p-46 * (math.Abs(hp) + math.Abs(cross))
		tail := func(value float64) float64 { return math.Min(strong, e*(m.reach.of(value)+norm(next))) }
		gap := here.h - hp - cross + tail(here.sum()) + slack
		if !(gap >= 0) {
			gap = math.Inf(1)
		}
		m.offer(next, here, gap)
		if _, same := m.k.(identity); same {
			m.offer(m.p, terms3{m.f.Func(m.p), m.g.Func(m.p), hp}, math.Inf(1))
		}
		here.h = hp
		m.raise(here.sum() + cross - tail(m.value) - slack - here.slack())
	}
	m.leastGap(loc, next)
}
