// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"
)

// ProxNewton minimizes a twice (or piecewise twice) differentiable f plus a penalty ψ = G + H
// [LSS14]. F must be a [Hessianer], and prox.Sum(G, H) a [prox.Coordinatewise]. A step solves the
// local model
//
//	s ≈ argmin_s ⟨∇f(x),s⟩ + ½s'(∇²f(x) + νI)s + ψ(x+s)
//
// by coordinate descent, and sets x ← x + τs: τ = 1 if that halves the residual, else the largest
// τ ∈ {1, ½, ¼, …} with
//
//	J(x+τs) ≤ J(x) + τ/10·(⟨∇f(x),s⟩ + ψ(x+s) − ψ(x)).
//
// If no τ ≥ 2⁻²⁰ satisfies it, the step is a proximal gradient step of length 1/L_f, if L_f is
// known. ν ≥ 0 grows after short steps and shrinks after full ones. The Hessian is kept while the
// residual falls tenfold a step, because a new one costs far more than a gradient. If F says that
// it costs little where it is asked for before the gradient, the next one is, until a step gains so
// much that the Hessian that is known is good for the rest. Stats.GradTerms does not count
// Hessians.
//
// Near the minimizer of a strongly convex J the residual, dist(0, ∂J(X)), falls faster than
// linearly. X is feasible exactly.
type ProxNewton struct {
	f       Hessianer
	c       descent // of the model
	pieces  []int8  // of x, not of the x of c
	hess    *mat.SymDense
	lip     float64
	nu, nu0 float64
	terms   int

	x, g     []float64 // the iterate and ∇f there
	residual float64   // dist(−g, ∂ψ(x))
	try, w   []float64
	u        []float64 // x + s, nil if the model has no minimizer

	held, damped bool    // hess is ∇²f of an earlier iterate; the last step was short
	fresh, ahead bool    // a Hessian before the gradient costs little; it is asked for in this step
	gain         float64 // the residual over that before the last step
	residuals
	stalling
}

// Init implements Method. The error wraps ErrProblem if F has no Hessian or G + H is not
// coordinatewise.
func (m *ProxNewton) Init(p Problem, x0 []float64, _ *rand.Rand) error {
	var ok bool
	if m.f, ok = hessian(p.F); !ok {
		return unfit("ProxNewton: F has no Hessian, want a Hessianer: Hessian(dst *mat.SymDense, x []float64); " +
			"ForwardBackward and DavisYin need none")
	}
	n := len(x0)
	psi, ok := p.coordinatewise()
	if !ok {
		return unfit("ProxNewton: G + H is not coordinatewise, want prox.Coordinatewise operators: " +
			"Coordinate(i int) (l1, l2, lo, hi float64); ForwardBackward and DavisYin need no coordinates")
	}
	if err := m.c.init(psi, n); err != nil {
		return err
	}
	m.pieces = resize(m.pieces, n)
	m.lip, m.terms = m.f.Smoothness(), terms(p.F)
	if !(m.lip >= 0) || math.IsInf(m.lip, 1) {
		m.lip = 0 // unknown: no gradient steps
	}
	m.nu0 = 0
	if !(convexity(p.F) > 0) {
		m.nu0 = 1e-10 * math.Max(m.lip, 1) // keeps the model solvable where f is flat
	}
	m.nu = m.nu0
	if m.hess == nil || m.hess.SymmetricDim() != n {
		m.hess = mat.NewSymDense(n, nil)
	}
	m.x, m.g, m.try, m.w = resize(m.x, n), resize(m.g, n), resize(m.try, n), resize(m.w, n)
	copy(m.x, x0)
	m.c.clip(m.x)
	free, ok := p.F.(interface{ HessianIsFree() bool })
	if m.fresh = ok && free.HessianIsFree(); m.fresh {
		m.f.Hessian(m.hess, m.x)
	}
	m.f.Grad(m.g, m.x)
	m.residual = m.distance(m.x, m.g)
	m.held, m.damped = false, true
	m.stalled = false
	m.first, m.gain = 0, 1
	return nil
}

// Step implements Method: one Newton step.
func (m *ProxNewton) Step(loc *Location, stats *Stats) {
	before := m.residual
	m.ahead = m.fresh && !(m.gain <= goodGain)
	held := m.held && !m.damped
	progress := held && m.full(stats)
	if !progress { // there is no old Hessian, or it is too far off
		m.f.Hessian(m.hess, m.x)
		m.c.load(m.hess, nil)
		progress = m.full(stats)
	}
	m.damped = !progress
	progress = progress || m.search(stats) || m.gradient(stats)
	m.gain = m.residual / before
	m.held = m.gain <= 0.1 && !m.ahead
	m.stalled = !progress || m.residual == 0
	copy(loc.X, m.x)
	loc.Residual = m.residual
	m.compare(m.residual, norm(m.g)+m.lip*norm(m.x))
}

// goodGain is the gain of a Newton step after which two more need no new Hessian: they gain about
// its square and twice that, 10⁻¹⁴, all that float64 has. With .003 some need a pass more.
const goodGain = 0.0003

// hessian returns f as a Hessianer, if it is one.
func hessian(f Smooth) (Hessianer, bool) {
	h, ok := f.(Hessianer)
	if c, partial := f.(interface{ HasHessian() bool }); partial {
		ok = ok && c.HasHessian()
	}
	return h, ok
}

// model finds the minimizer x + s of the local model, more accurately if every Hessian is new,
// because the error of the model is then smaller.
func (m *ProxNewton) model() {
	accuracy := m.residual
	if m.fresh {
		accuracy *= 1e-6
	}
	m.u = m.solve(m.x, m.g, m.nu, accuracy)
}

// full tries the step τ = 1 of a new model and takes it if that halves the residual.
func (m *ProxNewton) full(stats *Stats) bool {
	m.model()
	if m.u == nil {
		return false
	}
	r := m.look(m.u, stats)
	if !(r <= 0.5*m.residual) {
		return false
	}
	m.trust()
	m.accept(m.u, r)
	return true
}

// search looks for a τ with enough descent.
func (m *ProxNewton) search(stats *Stats) bool {
	if m.u == nil {
		m.doubt()
		return false
	}
	value := m.objective(m.x)
	if math.IsNaN(value) {
		m.residual = value
		return true
	}
	var slope float64
	for i, u := range m.u {
		slope += m.g[i] * (u - m.x[i])
	}
	slope += m.c.value(m.u) - m.c.value(m.x)
	if !(slope < 0) {
		m.doubt()
		return false
	}
	for tau := 1.0; tau >= 0x1p-20; tau /= 2 {
		for i, u := range m.u {
			m.try[i] = m.x[i] + tau*(u-m.x[i])
		}
		m.c.clip(m.try)
		if v := m.objective(m.try); v < value && v <= value+0.1*tau*slope {
			if tau == 1 {
				m.trust()
			} else if tau < 0.25 {
				m.doubt()
			}
			m.accept(m.try, m.look(m.try, stats))
			return true
		}
	}
	m.doubt()
	return false
}

// trust and doubt lower and raise ν. At ν = L_f the model lies above J and
// every full step descends.
func (m *ProxNewton) trust() {
	if m.nu *= 0.1; m.nu < 1e-10*m.lip {
		m.nu = m.nu0
	}
}

func (m *ProxNewton) doubt() {
	m.nu = math.Max(10*m.nu, 1e-6*m.lip)
	if m.lip == 0 {
		m.nu = math.Max(m.nu, 1e-6)
	} else {
		m.nu = math.Min(m.nu, m.lip)
	}
}

// gradient takes the proximal gradient step of length 1/L_f, which never raises J.
func (m *ProxNewton) gradient(stats *Stats) bool {
	if m.lip == 0 {
		return false
	}
	for i := range m.try {
		m.try[i] = m.x[i] - m.g[i]/m.lip
	}
	m.c.prox(m.try, m.try, 1/m.lip)
	if !(m.objective(m.try) < m.objective(m.x)) {
		return false // rounding hides the descent
	}
	m.accept(m.try, m.look(m.try, stats))
	return true
}

func (m *ProxNewton) distance(x, grad []float64) float64 {
	d, _ := m.c.dist(x, grad, m.pieces)
	return d
}

func (m *ProxNewton) objective(x []float64) float64 { return m.f.Func(x) + m.c.value(x) }

// look stores ∇f(x) in w and returns the residual there.
func (m *ProxNewton) look(x []float64, stats *Stats) float64 {
	if m.ahead {
		m.f.Hessian(m.hess, x) // whoever does not move to x computes another one
	}
	m.f.Grad(m.w, x)
	stats.GradTerms += m.terms
	stats.Proxes++
	return m.distance(x, m.w)
}

// accept moves to the x of the last look.
func (m *ProxNewton) accept(x []float64, residual float64) {
	copy(m.x, x)
	copy(m.g, m.w)
	m.residual = residual
}

// modelSweeps bounds the work on one local model.
const modelSweeps = 500

// solve minimizes by coordinate descent, to a thousandth of accuracy: the outer residual falls at
// most a hundredfold in a step, because of the error of the model.
func (m *ProxNewton) solve(x, grad []float64, nu, accuracy float64) []float64 {
	c := &m.c
	raw := m.hess.RawSymmetric()
	for i := range x {
		c.q[i*c.n+i] = raw.Data[i*raw.Stride+i] + nu
	}
	// ½u'Qu − ⟨Qx − ∇f(x), u⟩ has the gradient ∇f(x) + Q(u − x).
	copy(m.w, grad)
	gradient(c.lin, c.q, m.w, x)
	copy(c.x, x)
	c.start()
	for k := 0; k < modelSweeps && !(c.residual <= 1e-3*accuracy) && !c.stalled && !c.unbounded; k++ {
		c.advance()
	}
	if c.unbounded || !finite(c.x) {
		return nil
	}
	return c.x
}
