// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/prox"
)

// ForwardBackward is the accelerated proximal gradient method for f + ψ, ψ = G + H with the
// proximal map of [prox.Sum] [BT09; CP16a, Algorithm 5]:
//
//	x⁺ = prox_{γψ}(y − γ∇f(y))
//	y⁺ = x⁺ + β(x⁺ − x),   β = (t−1)/t⁺ · (1−qt⁺)/(1−q),   q = μγ,
//	t⁺ = (1 − qt² + √((1−qt²)² + 4t²))/2
//
// which is FISTA for μ = 0. It restarts with t = 1 when the momentum points uphill,
// ⟨y − x⁺, x⁺ − x⟩ > 0 [OC15], which adapts to a strong convexity that F does not declare.
//
//	rule        γ                              J(x_k) − J* since a restart
//	FixedStep   (0, 1/L_f]: longer steps with  ≤ min{4/(k+1)², (1+√q)(1−√q)^k}·‖x_0−x*‖²/(2γ)
//	            momentum diverge               [BT09, Thm. 4.4; CP16a, Thm. 4.10]
//	            with Plain (0, 2/L_f)          ≤ ‖x_0−x*‖²/(2γk) for γ ≤ 1/L_f [BT09, Thm. 3.1]
//	LineSearch  by backtracking, without L_f   the bounds in k², or k, with the last γ, for μ = 0
//
// With a strongly convex J it converges linearly. LineSearch shortens γ between restarts and
// doubles it at a restart; with Plain it may lengthen γ at every step. The residual is ‖y − x⁺‖/γ;
// where L_f is unknown it costs a second gradient, see docs/theory/splitting.md#splitting.residual
type ForwardBackward struct {
	// StepSize is γ in (0, 1/L_f], with Plain in (0, 2/L_f), or the first γ of LineSearch; 0 means
	// 1/L_f, and for LineSearch the inverse of the curvature at x0.
	StepSize float64
	// Plain turns the momentum off: β = 0.
	Plain bool
	// Rule is FixedStep or LineSearch.
	Rule StepRule

	psi     prox.Operator
	gamma   float64
	search  bool
	line    lineSearch
	t       float64
	x, y, p []float64
	grad    []float64
	certificate
}

// Init implements Method. The error wraps ErrProblem if no closed form of prox_{G+H} is known.
func (m *ForwardBackward) Init(p Problem, x0 []float64, _ *rand.Rand) error {
	if err := p.plain("ForwardBackward"); err != nil {
		return err
	}
	var ok bool
	if m.psi, ok = p.sum(); !ok {
		return unfit("ForwardBackward: no closed form of prox of G + H is known; DavisYin and StochasticTOS need none")
	}
	if err := rule("ForwardBackward.Rule", m.Rule, FixedStep, LineSearch); err != nil {
		return err
	}
	n := len(x0)
	m.certificate.init(Problem{F: p.F, H: m.psi}, x0)
	m.line.init(m.f, n, terms(p.F))
	var err error
	m.gamma, _, m.search, err = firstStep("ForwardBackward.StepSize", m.StepSize, m.Rule, m.f, &m.line, x0)
	if err != nil {
		return err
	}
	if !m.search && !m.Plain && m.StepSize > 1/m.lip {
		return invalid("ForwardBackward.StepSize = %v, want a number in (0, 1/L_f], 1/L_f = %v, or 0 for 1/L_f; Plain "+
			"takes up to 2/L_f", m.StepSize, 1/m.lip)
	}
	m.t = 1
	m.x, m.y, m.p, m.grad = resize(m.x, n), resize(m.y, n), resize(m.p, n), resize(m.grad, n)
	copy(m.x, x0)
	copy(m.y, x0)
	return nil
}

// Step implements Method.
func (m *ForwardBackward) Step(loc *Location, stats *Stats) {
	x, y := m.x, m.y
	p := m.p
	if m.search {
		m.line.grad(m.grad, y)
	} else {
		m.f.Grad(m.grad, y)
	}
	stats.GradTerms += m.terms
	m.norm(m.grad)
	m.backward(stats)
	if m.search {
		for range searches {
			if m.line.accepts(p, y, m.grad, m.gamma, stats) {
				break
			}
			m.gamma *= shrink
			m.backward(stats)
		}
	}
	copy(loc.X, p)
	m.mapped(loc, stats, y, m.grad, m.gamma)
	m.watch(loc)
	if m.line.nan {
		loc.Residual = math.NaN()
		return
	}

	var uphill float64
	for i := range p {
		uphill += (y[i] - p[i]) * (p[i] - x[i])
	}
	next, beta := 1.0, 0.0
	switch {
	case m.Plain:
		if m.search {
			m.gamma = m.line.longer(m.gamma, lengthen)
		}
	case uphill <= 0:
		next, beta = momentum(m.t, m.mu*m.gamma)
	case m.search:
		m.gamma = m.line.longer(m.gamma, 2) // a new run
	}
	m.t = next
	for i := range p {
		y[i] = p[i] + beta*(p[i]-x[i]) // y = x⁺ + β(x⁺ − x)
		x[i] = p[i]
	}
}

// momentum returns t⁺ and β. A t above the fixed point 1/√q, which an earlier, shorter γ may have
// left, is reduced to it.
func momentum(t, q float64) (next, beta float64) {
	if q >= 1 {
		return 1, 0
	}
	if q*t*t > 1 {
		t = 1 / math.Sqrt(q)
	}
	r := 1 - q*t*t
	next = (r + math.Sqrt(r*r+4*t*t)) / 2
	return next, math.Max((t-1)/next*(1-q*next)/(1-q), 0)
}

// backward computes x⁺ = prox_{γψ}(y − γ∇f(y)) in p.
func (m *ForwardBackward) backward(stats *Stats) {
	floats.AddScaledTo(m.p, m.y, -m.gamma, m.grad)
	m.psi.Prox(m.p, m.p, m.gamma)
	stats.Proxes++
}
