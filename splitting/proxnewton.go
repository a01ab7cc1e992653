package splitting

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// ProxNewton minimizes a twice (or piecewise twice) differentiable f plus a
// coordinatewise penalty ψ = G + H [LSS14]. A step solves the local model
//
//	s ≈ argmin_s ⟨∇f(x),s⟩ + ½s'(∇²f(x) + νI)s + ψ(x+s)
//
// by coordinate descent and sets x ← x + τs. τ = 1 is taken at once if it
// halves the residual; else the largest τ ∈ {1, ½, ¼, …} with
//
//	J(x+τs) ≤ J(x) + τ/10·(⟨∇f(x),s⟩ + ψ(x+s) − ψ(x)),
//
// and if no τ ≥ 2⁻²⁰ has it, a proximal gradient step of length 1/L_f, where
// L_f is known. ν ≥ 0
// grows after short steps and shrinks after full ones; it starts at 0 if F is
// strongly convex. The Hessian is kept while the residual falls tenfold a
// step: a new one costs far more than a gradient.
//
// Near the minimizer of a strongly convex J the residual falls faster than
// linearly. F must be a Hessianer and prox.Sum(G, H) a prox.Coordinatewise.
// The residual is dist(0, ∂J(X)), and X is feasible exactly. Hessians are not
// counted in Stats.GradTerms.
type ProxNewton struct {
	f       Hessianer
	c       descent // the model, in x + s
	hess    *mat.SymDense
	lip     float64
	nu, nu0 float64
	terms   int

	x, g     []float64 // the iterate and ∇f there
	residual float64   // dist(−g, ∂ψ(x))
	value    float64   // J(x), NaN if not yet computed
	try, w   []float64
	pieces   []int8

	held, damped bool // hess is ∇²f of an earlier iterate; the last step was short
	stalled      bool
}

var (
	_ Method   = (*ProxNewton)(nil)
	_ Statuser = (*ProxNewton)(nil)
)

// modelSweeps bounds the work on one local model.
const modelSweeps = 500

// Init implements Method. The error wraps ErrProblem if F has no Hessian or
// G + H is not coordinatewise.
func (m *ProxNewton) Init(p Problem, x0 []float64, _ *rand.Rand) error {
	var ok bool
	if m.f, ok = hessian(p.F); !ok {
		return fmt.Errorf("%w: ProxNewton: F has no Hessian; ForwardBackward and DavisYin need no Hessian", ErrProblem)
	}
	psi, ok := p.coordinatewise()
	if !ok {
		return fmt.Errorf("%w: ProxNewton: G + H is not coordinatewise; ForwardBackward and DavisYin need no coordinates", ErrProblem)
	}
	n := len(x0)
	m.lip, m.terms = m.f.Smoothness(), terms(p.F)
	if !(m.lip >= 0) || math.IsInf(m.lip, 1) {
		m.lip = 0 // unknown: no gradient steps
	}
	m.nu0 = 0
	if !(convexity(p.F) > 0) {
		m.nu0 = 1e-10 * math.Max(m.lip, 1) // keeps the model solvable where f is flat
	}
	m.nu = m.nu0
	if err := m.c.init(psi, n); err != nil {
		return fmt.Errorf("ProxNewton: %w", err)
	}
	if m.hess == nil || m.hess.SymmetricDim() != n {
		m.hess = mat.NewSymDense(n, nil)
	}
	m.x, m.g, m.try, m.w, m.pieces = resize(m.x, n), resize(m.g, n), resize(m.try, n), resize(m.w, n), resize(m.pieces, n)
	copy(m.x, x0)
	m.c.clip(m.x)
	m.f.Grad(m.g, m.x)
	m.residual, _ = m.c.dist(m.x, m.g, m.pieces)
	m.value = math.NaN()
	m.held, m.damped, m.stalled = false, true, false
	return nil
}

// Step implements Method: one Newton step.
func (m *ProxNewton) Step(loc *Location, stats *Stats) {
	before := m.residual
	if !m.held || m.damped {
		m.f.Hessian(m.hess, m.x)
		m.c.load(m.hess)
		m.held = false
	}
	m.model()
	progress := m.full(stats)
	if !progress && m.held { // the old Hessian no longer serves
		m.f.Hessian(m.hess, m.x)
		m.c.load(m.hess)
		m.held = false
		m.model()
		progress = m.full(stats)
	}
	m.damped = !progress
	if !progress {
		progress = m.search(stats)
	}
	if !progress {
		progress = m.gradient(stats)
	}
	m.held = m.residual <= 0.1*before
	m.stalled = !progress || m.residual == 0
	copy(loc.X, m.x)
	loc.Residual = m.residual
}

// Status implements Statuser.
func (m *ProxNewton) Status() (Status, error) {
	if m.stalled {
		return Stalled, nil
	}
	return NotTerminated, nil
}

// hessian returns f as a Hessianer, if it is one.
func hessian(f Smooth) (Hessianer, bool) {
	h, ok := f.(Hessianer)
	if c, partial := f.(interface{ HasHessian() bool }); partial {
		ok = ok && c.HasHessian()
	}
	return h, ok
}

// model leaves the minimizer x + s of the local model in c.x.
func (m *ProxNewton) model() {
	c := &m.c
	for i := range c.n {
		c.q[i*c.n+i] = m.hess.At(i, i) + m.nu
	}
	// ½u'Qu − ⟨Qx − ∇f(x), u⟩ has the gradient ∇f(x) + Q(u − x).
	clear(m.w)
	gradient(c.lin, c.q, m.w, m.x)
	floats.Sub(c.lin, m.g)
	copy(c.x, m.x)
	c.start()
	// A model solved to a thousandth of its residual serves a residual that
	// falls a hundredfold; more would be lost to the error of the model.
	for k := 0; k < modelSweeps && !(c.residual <= 1e-3*m.residual) && !c.stalled && !c.unbounded; k++ {
		c.advance()
	}
}

// full takes τ = 1 if it halves the residual.
func (m *ProxNewton) full(stats *Stats) bool {
	if m.c.unbounded || !finite(m.c.x) {
		return false
	}
	m.f.Grad(m.w, m.c.x)
	stats.GradTerms += m.terms
	stats.Proxes++
	r, _ := m.c.dist(m.c.x, m.w, m.pieces)
	if !(r <= 0.5*m.residual) {
		return false
	}
	m.trust()
	m.accept(m.c.x, m.w, r)
	return true
}

// search looks for a τ with enough descent.
func (m *ProxNewton) search(stats *Stats) bool {
	if m.c.unbounded || !finite(m.c.x) {
		m.doubt()
		return false
	}
	value := m.objective(m.x)
	var slope float64
	for i, u := range m.c.x {
		slope += m.g[i] * (u - m.x[i])
	}
	slope += m.c.value(m.c.x) - m.c.value(m.x)
	if !(slope < 0) {
		m.doubt()
		return false
	}
	for tau := 1.0; tau >= 0x1p-20; tau /= 2 {
		for i, u := range m.c.x {
			m.try[i] = m.x[i] + tau*(u-m.x[i])
		}
		m.c.clip(m.try)
		if v := m.objective(m.try); v < value && v <= value+0.1*tau*slope {
			if tau == 1 {
				m.trust()
			} else if tau < 0.25 {
				m.doubt()
			}
			m.move(stats)
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

// gradient takes the proximal gradient step of length 1/L_f, which never
// raises J.
func (m *ProxNewton) gradient(stats *Stats) bool {
	if m.lip == 0 {
		return false
	}
	for i := range m.try {
		m.try[i] = m.x[i] - m.g[i]/m.lip
	}
	m.c.prox(m.try, m.try, 1/m.lip)
	if value := m.objective(m.x); !(m.objective(m.try) < value) {
		return false // rounding hides the descent
	}
	m.move(stats)
	return true
}

func (m *ProxNewton) objective(x []float64) float64 { return m.f.Func(x) + m.c.value(x) }

// move goes to try.
func (m *ProxNewton) move(stats *Stats) {
	m.f.Grad(m.w, m.try)
	stats.GradTerms += m.terms
	stats.Proxes++
	r, _ := m.c.dist(m.try, m.w, m.pieces)
	m.accept(m.try, m.w, r)
}

func (m *ProxNewton) accept(x, g []float64, residual float64) {
	copy(m.x, x)
	copy(m.g, g)
	m.residual = residual
}
