// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/prox"
)

// LBFGS minimizes a smooth J = f + (w/2)‖x‖², where G is nil or a [prox.SquaredL2] and H is nil, by
// the limited-memory method of Broyden, Fletcher, Goldfarb and Shanno [NW06, Alg. 7.4, 7.5]: x⁺ = x
// + αp,
//
//	p = −B∇J(x),  B from the last Memory pairs s = x⁺ − x, y = ∇J(x⁺) − ∇J(x).
//
// The search for α starts at 1 and ends where J and its slope φ′(α) = ⟨∇J(x+αp), p⟩ decrease
// enough, or where rounding hides the descent and the slope decides [HZ05, (T2)]:
//
//	J(x+αp) ≤ J(x) + α/10⁴·φ′(0)      and  φ′(α) ≥ 0.9·φ′(0),  or
//	|J(x+αp) − J(x)| ≤ 2⁻⁴⁰|J(x)|     and  |φ′(α)| ≤ 0.9·|φ′(0)|.
//
// A step usually costs one value with its gradient, and the method keeps 2·Memory vectors: it is
// for dimensions in which a Hessian is too large. For a strongly convex J it converges linearly
// [LN89, Thm. 6.1]. The residual is ‖∇J(X)‖.
type LBFGS struct {
	// Memory is the number of pairs; 0 means 10.
	Memory int

	f       Smooth
	weight  float64
	terms   int
	x, g    []float64
	value   float64
	p       []float64
	next, h []float64 // x + αp and ∇J there
	s, y    [][]float64
	rho     []float64 // 1/⟨s,y⟩
	alpha   []float64
	pairs   int     // number of pairs so far
	best    float64 // residual
	idle    int     // steps since it was found
	curve   float64 // L_f, or the largest curvature of a pair
	unknown bool    // L_f is not known
	steps   int
	size    float64 // the larger norm of x0 and the first X
	floor   float64 // a J below which there is no minimum: 2²⁰⁰ times the sizes at x0
	residuals
	stalling
}

// bends returns the w of G + H = (w/2)‖x‖², if G + H has that form.
func (p Problem) bends() (w float64, ok bool) {
	if p.H != nil {
		return 0, false
	}
	switch g := p.G.(type) {
	case nil:
		return 0, true
	case prox.SquaredL2:
		return g.Weight, g.Weight >= 0
	}
	return 0, false
}

// Init implements Method. The error wraps ErrProblem if J is not smooth, and ErrSettings for a
// negative Memory.
func (m *LBFGS) Init(p Problem, x0 []float64, _ *rand.Rand) error {
	if err := p.plain("LBFGS"); err != nil {
		return err
	}
	var ok bool
	if m.weight, ok = p.bends(); !ok {
		return unfit("LBFGS: G + H is not smooth, want nil or one prox.SquaredL2; ForwardBackward needs a proximal map only")
	}
	if m.Memory < 0 {
		return invalid("LBFGS.Memory = %d, want a number of pairs, or 0 for 10", m.Memory)
	}
	k := cmp.Or(m.Memory, 10)
	n := len(x0)
	m.f = smooth(p.F)
	m.terms, m.pairs, m.stalled = terms(p.F), 0, false
	m.first, m.curve = 0, 0
	m.steps, m.size = 0, norm(x0)
	lip := m.f.Smoothness()
	if m.unknown = math.IsInf(lip, 1); !m.unknown {
		m.curve = lip
	}
	m.best, m.idle = math.Inf(1), 0
	for _, v := range []*[]float64{&m.x, &m.g, &m.p, &m.next, &m.h} {
		*v = resize(*v, n)
	}
	m.rho, m.alpha = make([]float64, k), make([]float64, k)
	m.s, m.y = make([][]float64, k), make([][]float64, k)
	for i := range k {
		m.s[i], m.y[i] = make([]float64, n), make([]float64, n)
	}
	copy(m.x, x0)
	m.value = m.funcGrad(m.g, m.x)
	size := norm(m.g) * (norm(x0) + 1)
	if l := m.curve + m.weight; l > 0 {
		size = l*floats.Dot(x0, x0) + floats.Dot(m.g, m.g)/l
	}
	m.floor = -0x1p200 * (math.Abs(m.value) + size)
	return nil
}

// Status implements Statuser.
func (m *LBFGS) Status() (Status, error) {
	if m.value < m.floor {
		return Unbounded, fmt.Errorf("%w: it is %.3g at X", ErrUnbounded, m.value)
	}
	return m.stalling.Status()
}

// funcGrad stores ∇J(x) in dst and returns J(x).
func (m *LBFGS) funcGrad(dst, x []float64) (value float64) {
	value = funcGrad(m.f, dst, x)
	if m.weight > 0 {
		floats.AddScaled(dst, m.weight, x)
		value += m.weight / 2 * floats.Dot(x, x)
	}
	return value
}

// Step implements Method.
func (m *LBFGS) Step(loc *Location, stats *Stats) {
	m.direction()
	found := m.search(stats)
	if !found && m.pairs > 0 && !math.IsNaN(m.value) { // the pairs are a poor model of J here
		m.pairs = 0
		m.direction()
		found = m.search(stats)
	}
	copy(loc.X, m.x)
	if loc.Residual = norm(m.g); math.IsNaN(m.value) {
		loc.Residual = m.value
		return
	}
	if m.idle++; loc.Residual < m.best {
		m.best, m.idle = loc.Residual, 0
	}
	if m.steps++; m.steps == 1 {
		m.size = math.Max(m.size, norm(m.x))
	}
	m.compare(loc.Residual, loc.Residual+(m.curve+m.weight)*math.Min(norm(m.x), remote*m.size))
	m.stalled = !found || loc.Residual == 0 || m.idle >= idleSteps
}

// direction stores p = −B∇J(x) in m.p by the two loops of [NW06, Alg. 7.4].
func (m *LBFGS) direction() {
	p, k := m.p, len(m.s)
	floats.ScaleTo(p, -1, m.g)
	held := min(m.pairs, k)
	for i := 1; i <= held; i++ {
		j := (m.pairs - i) % k
		m.alpha[j] = m.rho[j] * floats.Dot(m.s[j], p)
		floats.AddScaled(p, -m.alpha[j], m.y[j])
	}
	if held > 0 {
		j := (m.pairs - 1) % k
		floats.Scale(1/(m.rho[j]*floats.Dot(m.y[j], m.y[j])), p) // ⟨s,y⟩/⟨y,y⟩
	}
	for i := held; i >= 1; i-- {
		j := (m.pairs - i) % k
		floats.AddScaled(p, m.alpha[j]-m.rho[j]*floats.Dot(m.y[j], p), m.s[j])
	}
}

// Constants of the search.
const (
	enoughDescent = 1e-4
	enoughSlope   = 0.9
	hiddenDescent = 0x1p-40 // the share of |J| that rounding may hide
	idleSteps     = 200     // steps without a smaller residual, after which rounding allows no progress
)

// search looks for α and moves to x + αp. It reports whether it found an α.
func (m *LBFGS) search(stats *Stats) bool {
	slope := floats.Dot(m.g, m.p)
	if !(slope < 0) {
		return false
	}
	alpha := 1.0
	if m.pairs == 0 { // without pairs, at most a bound on the curvature is known
		if l := m.curve + m.weight; l > 0 && !m.unknown {
			alpha = 1 / l
		} else {
			alpha = 1 / math.Max(norm(m.p), 1)
		}
	}
	lo, hi := 0.0, math.Inf(1)
	value := m.value
	for range 60 {
		floats.AddScaledTo(m.next, m.x, alpha, m.p)
		value = m.funcGrad(m.h, m.next)
		stats.GradTerms += m.terms
		at := floats.Dot(m.h, m.p)
		if math.IsNaN(value) && at-at == 0 { // with a gradient that has not overflowed
			m.value = value
		}
		if math.IsNaN(m.value) {
			return false
		}
		down := value <= m.value+enoughDescent*alpha*slope
		near := math.Abs(value-m.value) <= hiddenDescent*math.Abs(m.value)
		switch {
		case down && at >= enoughSlope*slope, near && math.Abs(at) <= -enoughSlope*slope:
			m.move(value)
			return true
		case down && at < 0, near && at < 0:
			lo = alpha
		default: // too far, or NaN
			hi = alpha
		}
		if alpha = (lo + hi) / 2; math.IsInf(hi, 1) {
			alpha = 2 * math.Max(lo, math.SmallestNonzeroFloat64)
		}
	}
	if !(lo > 0 && math.IsInf(hi, 1) && value < m.value) {
		return false
	}
	m.move(value) // as far as the search looked
	return true
}

// move makes next the iterate and keeps the pair of the step, if J is convex along the step.
func (m *LBFGS) move(value float64) {
	j := m.pairs % len(m.s)
	floats.SubTo(m.s[j], m.next, m.x)
	floats.SubTo(m.y[j], m.h, m.g)
	if sy := floats.Dot(m.s[j], m.y[j]); sy > 0 {
		m.rho[j] = 1 / sy
		if m.unknown {
			m.curve = math.Max(m.curve, floats.Dot(m.y[j], m.y[j])/sy)
		}
		m.pairs++
	}
	copy(m.x, m.next)
	copy(m.g, m.h)
	m.value = value
}
