package splitting

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/privopt/privopt/prox"
)

// ForwardBackward is the accelerated proximal gradient method for f + ψ,
// ψ = G + H with the proximal map of prox.Sum [BT09, Nes04 §2.2]:
//
//	x⁺ = prox_{γψ}(y − γ∇f(y))
//	y⁺ = x⁺ + β(x⁺ − x),   β = min{ (t−1)/t⁺, (1−√(μγ))/(1+√(μγ)) },
//	t⁺ = (1 + √(1+4t²))/2
//
// It restarts, t = 1, when the momentum points uphill, ⟨y − x⁺, x⁺ − x⟩ > 0
// [OC15, gradient scheme], which adapts to a strong convexity nobody declared.
//
// The residual is ‖y − x⁺‖/γ. It bounds the norm of the element
// e = ∇f(x⁺) − ∇f(y) + (y − x⁺)/γ of ∂J(x⁺), because I − γ∇f is nonexpansive
// for γ ≤ 2/L_f; no second gradient is needed.
type ForwardBackward struct {
	// StepSize γ in (0, 2/L_f); 0 means 1/L_f, the largest for which the
	// acceleration is proved.
	StepSize float64
	// Plain turns the momentum off: β = 0.
	Plain bool

	f       Smooth
	psi     prox.Operator
	gamma   float64
	limit   float64 // (1−√(μγ))/(1+√(μγ))
	t       float64
	terms   int
	x, y, w []float64
	stagnation
}

var (
	_ Method   = (*ForwardBackward)(nil)
	_ Statuser = (*ForwardBackward)(nil)
)

// Init implements Method. The error wraps ErrProblem if no closed form of
// prox_{G+H} is known.
func (m *ForwardBackward) Init(p Problem, x0 []float64, _ *rand.Rand) error {
	var ok bool
	if m.psi, ok = p.sum(); !ok {
		return fmt.Errorf("%w: ForwardBackward: no closed form of prox of G + H is known; DavisYin needs none", ErrProblem)
	}
	m.f = smooth(p.F)
	var lip float64
	var err error
	if m.gamma, lip, err = stepSize("ForwardBackward.StepSize", m.StepSize, 1, m.f); err != nil {
		return err
	}
	root := math.Sqrt(math.Min(convexity(p.F)*m.gamma, 1))
	m.limit = (1 - root) / (1 + root)
	m.t, m.terms = 1, terms(p.F)
	n := len(x0)
	m.x, m.y, m.w = resize(m.x, n), resize(m.y, n), resize(m.w, n)
	copy(m.x, x0)
	copy(m.y, x0)
	m.stagnation.init(n, lip)
	return nil
}

// Step implements Method.
func (m *ForwardBackward) Step(loc *Location, stats *Stats) {
	x, y, w := m.x, m.y, m.w
	m.f.Grad(w, y)
	m.norm(w)
	for i := range w {
		w[i] = y[i] - m.gamma*w[i] // w = y − γ∇f(y)
	}
	m.psi.Prox(w, w, m.gamma) // x⁺ = prox_{γψ}(w)
	copy(loc.X, w)
	loc.Residual = separation(y, w) / m.gamma
	m.watch(loc)
	stats.GradTerms += m.terms
	stats.Proxes++

	var uphill float64
	for i := range w {
		uphill += (y[i] - w[i]) * (w[i] - x[i])
	}
	next := 1.0
	var beta float64
	if uphill <= 0 && !m.Plain {
		next = (1 + math.Sqrt(1+4*m.t*m.t)) / 2
		beta = math.Min((m.t-1)/next, m.limit)
	}
	m.t = next
	for i := range w {
		y[i] = w[i] + beta*(w[i]-x[i]) // y = x⁺ + β(x⁺ − x)
		x[i] = w[i]
	}
}

// stagnation notices that rounding allows no further progress: the residual is
// a few thousand roundings of the terms it is a difference of, and a thousand
// steps have not found a smaller one. It then shows the best point.
type stagnation struct {
	best    []float64
	bestRes float64
	age     int
	lip     float64
	grad    float64 // ‖∇f‖ at the last gradient
	stalled bool
}

const stagnationAge = 1000

func (s *stagnation) init(n int, lip float64) {
	s.best = resize(s.best, n)
	s.bestRes, s.age, s.lip, s.stalled = math.Inf(1), 0, lip, false
}

// norm notes the size of the gradient.
func (s *stagnation) norm(grad []float64) { s.grad = norm(grad) }

// watch looks at the location of a step.
func (s *stagnation) watch(loc *Location) {
	s.age++
	if loc.Residual < s.bestRes {
		s.bestRes, s.age = loc.Residual, 0
		copy(s.best, loc.X)
		s.stalled = loc.Residual == 0
		return
	}
	if s.age >= stagnationAge && s.bestRes <= 1e-12*(s.grad+s.lip*norm(loc.X)) {
		s.stalled = true
		copy(loc.X, s.best)
		loc.Residual = s.bestRes
	}
}

// Status implements Statuser.
func (s *stagnation) Status() (Status, error) {
	if s.stalled {
		return Stalled, nil
	}
	return NotTerminated, nil
}
