package sco

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

// svrgSchedule is how many gradients SVRG needs for a mean of n β-smooth convex
// functions plus λ‖w‖², with μ = 2λ, b = β + 2λ, κ = b/μ.
type svrgSchedule struct {
	stepSize    float64 // η, for the mean
	inner       int     // m, steps of an epoch
	factor      float64 // ρ, by which an epoch shrinks the expected gap at least
	epochs      int     // ⌈log_ρ(target/gap)⌉, at ρ = ½
	evaluations int     // epochs·(n + 2m), gradients of single functions
}

// newSVRGSchedule returns the schedule that takes an expected gap to target [XZ14]:
//
//	η = 1/(20b), m = 100κ, ρ = 1/(μη(1−4bη)m) + 4bη(m+1)/((1−4bη)m) ≈ ½
//
// The error wraps ErrMechanism if an argument is not positive and finite, or if the schedule would
// take more than 2⁵³ gradients.
func newSVRGSchedule(n int, beta, lambda, gap, target float64) (svrgSchedule, error) {
	for _, f := range []struct {
		name string
		v    float64
	}{{"n", float64(n)}, {"beta", beta}, {"lambda", lambda}, {"gap", gap}, {"target", target}} {
		if !(f.v > 0) || math.IsInf(f.v, 1) {
			return svrgSchedule{}, fmt.Errorf("sco: %w: SVRG: %s = %v, want a positive finite number", ErrMechanism, f.name, f.v)
		}
	}
	mu, b := 2*lambda, beta+2*lambda
	kappa := b / mu
	epochs := math.Max(1, math.Ceil(math.Log2(gap/target)))
	if size := epochs * (float64(n) + 200*kappa); !(size <= 1<<53) || !(1/(20*b) > 0) { // true for NaN
		return svrgSchedule{}, fmt.Errorf("sco: %w: SVRG: beta = %v, lambda = %v, gap = %v and target = %v ask for about %.2g gradients, want "+
			"at most 2^53: take a larger lambda or target", ErrMechanism, beta, lambda, gap, target, size)
	}
	s := svrgSchedule{stepSize: 1 / (10 * b) / 2, inner: int(math.Ceil(100 * kappa * (1 - 1e-12))), epochs: int(epochs)}
	m, h := float64(s.inner), 4*b*s.stepSize
	s.factor = 1/(mu*s.stepSize*(1-h)*m) + h*(m+1)/((1-h)*m)
	s.evaluations = s.epochs * (n + 2*s.inner)
	return s, nil
}

// svrg is the proximal SVRG method [XZ14] with one epoch a Step. With x̃ the
// point of the epoch, g = ∇f(x̃)/n and x = x̃, for m steps
//
//	v = ∇fᵢ(x) − ∇fᵢ(x̃) + g,   x ← prox_{(η/n)ψ}(x − ηv),   i uniform
//
// and x̃ is replaced by the average of the x. Before it starts an epoch computes
//
//	x₊ = prox_{tψ}(x̃ − ng t),  t = 1/L_f:  dist(0, ∂J(x₊)) ≤ 2‖x̃ − x₊‖/t
//
// so that X = x₊ costs no gradient beyond those of the method.
type svrg struct {
	schedule svrgSchedule

	f    splitting.FiniteSum
	psi  prox.Operator // nil means 0
	rnd  *rand.Rand
	n    int
	last int // epochs left

	anchor, full, x, mean, v, w []float64
	idx                         []int
}

var (
	_ splitting.Method   = (*svrg)(nil)
	_ splitting.Statuser = (*svrg)(nil)
)

// Init implements splitting.Method.
func (m *svrg) Init(p splitting.Problem, x0 []float64, rnd *rand.Rand) error {
	var ok bool
	if m.f, ok = p.F.(splitting.FiniteSum); !ok {
		return fmt.Errorf("%w: SVRG: F is no FiniteSum", splitting.ErrProblem)
	}
	if p.G != nil || p.H != nil {
		if m.psi, ok = prox.Sum(p.G, p.H); !ok {
			return fmt.Errorf("%w: SVRG: G and H have no joint proximal map in closed form", splitting.ErrProblem)
		}
	}
	m.rnd, m.n = rnd, m.f.Len()
	m.last = 2*m.schedule.epochs + 10
	d := len(x0)
	for _, s := range []*[]float64{&m.anchor, &m.full, &m.x, &m.mean, &m.v, &m.w} {
		*s = make([]float64, d)
	}
	m.idx = make([]int, 1)
	copy(m.anchor, x0)
	return nil
}

// Step implements splitting.Method: one epoch.
func (m *svrg) Step(loc *splitting.Location, stats *splitting.Stats) {
	n := float64(m.n)
	m.f.Grad(m.full, m.anchor)
	stats.GradTerms += m.n
	t := 1 / m.f.Smoothness()
	floats.AddScaledTo(loc.X, m.anchor, -t, m.full)
	if m.psi != nil {
		m.psi.Prox(loc.X, loc.X, t)
	}
	loc.Residual = 2 * floats.Distance(m.anchor, loc.X, 2) / t

	eta := m.schedule.stepSize
	copy(m.x, m.anchor)
	clear(m.mean)
	for range m.schedule.inner {
		m.idx[0] = m.rnd.IntN(m.n)
		m.f.GradTerms(m.v, m.x, m.idx)
		m.f.GradTerms(m.w, m.anchor, m.idx)
		for j := range m.x {
			m.x[j] -= eta * (m.v[j] - m.w[j] + m.full[j]/n)
		}
		if m.psi != nil {
			m.psi.Prox(m.x, m.x, eta/n)
		}
		floats.Add(m.mean, m.x)
	}
	stats.GradTerms += 2 * m.schedule.inner
	stats.Proxes += m.schedule.inner + 1
	floats.ScaleTo(m.anchor, 1/float64(m.schedule.inner), m.mean)
	m.last--
}

// Status ends the method after twice the epochs that are expected: the bound is on an expectation.
func (m *svrg) Status() (splitting.Status, error) {
	if m.last <= 0 {
		return splitting.Stalled, nil
	}
	return splitting.NotTerminated, nil
}
