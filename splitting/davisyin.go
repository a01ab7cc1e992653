// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
)

// DavisYin is three-operator splitting [DY17, Algorithm 1]:
//
//	y = prox_{γg}(z)
//	x = prox_{γh}(2y − z − γ∇f(y))
//	z ← z + λ(x − y)
//
// y and x meet at the minimizer, and u = (z−y)/γ ∈ ∂g(y) converges to a dual solution u*. If H is
// nil it is backward–forward splitting [APR18]. The rules for γ:
//
//	FixedStep   γ in (0, 2/L_f), λ in (0, 2 − γL_f/2). z converges, and ‖x−y‖² = o(1/k); linearly if
//	            F is strongly convex and G or H is smooth [DY17, §§3–4]
//	LineSearch  γ_k by backtracking [PG18, Algorithm 1], λ = 1
//
// Proofs: docs/theory/splitting.md#splitting.steps. The point X and its residual:
// docs/theory/splitting.md#splitting.residual
type DavisYin struct {
	// StepSize is γ, or the first γ. 0 means 1/L_f, and for LineSearch the inverse of the curvature
	// at x0.
	StepSize float64
	// Relaxation is λ; 0 means 1. LineSearch wants 1.
	Relaxation float64
	// Rule is FixedStep or LineSearch.
	Rule StepRule

	gamma, lambda float64
	search        bool
	line          lineSearch
	budget        float64 // the factor by which γ may still be lengthened
	next          float64 // γ of the next x
	x, y, z, p    []float64
	grad          []float64
	warmed
	certificate
}

const (
	lengthen      = 1.02
	lengthenTotal = 1e6
)

// Init implements Method.
func (m *DavisYin) Init(p Problem, x0 []float64, _ *rand.Rand) error {
	if err := p.plain("DavisYin"); err != nil {
		return err
	}
	if err := rule("DavisYin.Rule", m.Rule, FixedStep, LineSearch); err != nil {
		return err
	}
	n := len(x0)
	m.certificate.init(p, x0)
	m.line.init(m.f, n, terms(p.F))
	var lip float64
	var err error
	if m.gamma, lip, m.search, err = firstStep("DavisYin.StepSize", m.StepSize, m.Rule, m.f, &m.line, x0); err != nil {
		return err
	}
	limit := 2 - m.gamma*lip/2
	if m.search {
		if m.Relaxation != 0 && m.Relaxation != 1 {
			if m.Rule == FixedStep {
				return unfit("DavisYin: F.Smoothness() = +Inf, so the step is searched for, which takes no Relaxation; want it " +
					"0 or 1, or a known L_f")
			}
			return invalid("DavisYin.Relaxation = %v with variable steps, want 1, or 0 for it", m.Relaxation)
		}
		limit = 2
	}
	if m.lambda, err = relaxation("DavisYin.Relaxation", m.Relaxation, limit); err != nil {
		return err
	}
	m.budget, m.next = lengthenTotal, m.gamma
	m.x, m.y, m.z, m.p, m.grad = resize(m.x, n), resize(m.y, n), resize(m.z, n), resize(m.p, n), resize(m.grad, n)
	copy(m.z, x0)
	if v, ok := m.take(); ok { // z = x0 + γu, u = −∇f(x0) − v
		m.f.Grad(m.grad, x0)
		floats.AddScaled(m.z, -m.gamma, m.grad)
		floats.AddScaled(m.z, -m.gamma, v)
	}
	return nil
}

// single reports whether X is a proximal step, of g or of the sum.
func (m *DavisYin) single() bool { return m.noH || m.sum != nil }

// pair implements paired.
func (m *DavisYin) pair() (x []float64, dual Multipliers, ok bool) {
	if m.single() {
		return nil, dual, false
	}
	if proof, ok := m.proof(); ok {
		return m.x, proof, true
	}
	return m.x, m.pairAt(m.x, m.y, m.p, m.grad, m.gamma), true
}

// settle implements paired.
func (m *DavisYin) settle(loc *Location) {
	if m.single() || !m.bounded() {
		return
	}
	m.delta = math.Inf(1)
	m.dual(loc, m.x, m.y, m.p, separation(m.x, m.y)/m.gamma, m.hidden(m.x, m.y, m.gamma)+m.earlier, m.gamma)
}

// Step implements Method.
func (m *DavisYin) Step(loc *Location, stats *Stats) {
	x, y := m.x, m.y
	z, grad := m.z, m.grad
	m.g.Prox(y, z, m.gamma) // y = prox_{γg}(z)
	if m.search {
		m.line.grad(grad, y)
		m.change(m.next)
	} else {
		m.f.Grad(grad, y)
	}
	m.forward(stats)
	if m.search {
		for range searches {
			if m.line.accepts(x, y, grad, m.gamma, stats) {
				break
			}
			m.change(shrink * m.gamma)
			m.forward(stats)
		}
		m.next = m.longer()
	}
	stats.GradTerms += m.terms
	stats.Proxes++
	m.prove(loc, stats, x, y, m.p, grad, m.gamma)
	if m.line.nan {
		loc.Residual = math.NaN()
		return
	}
	for i := range z {
		z[i] += m.lambda * (x[i] - y[i]) // z ← z + λ(x − y)
	}
}

// forward computes x = prox_{γh}(2y − z − γ∇f(y)).
func (m *DavisYin) forward(stats *Stats) {
	x, y := m.x, m.y
	z, p := m.z, m.p
	for i := range p {
		p[i] = 2*y[i] - z[i] - m.gamma*m.grad[i]
	}
	m.h.Prox(x, p, m.gamma)
	stats.Proxes++
}

// change sets γ, and z so that u = (z−y)/γ stays the same.
func (m *DavisYin) change(gamma float64) {
	if gamma == m.gamma {
		return
	}
	r := gamma / m.gamma
	for i, yi := range m.y {
		m.z[i] = yi + r*(m.z[i]-yi)
	}
	m.gamma = gamma
}

// longer returns the γ of the next x. Without G every length is allowed.
func (m *DavisYin) longer() float64 {
	if !m.noG {
		if m.budget < lengthen {
			return m.gamma
		}
		m.budget /= lengthen
	}
	return m.line.longer(m.gamma, lengthen)
}
