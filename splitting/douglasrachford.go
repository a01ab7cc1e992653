// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/prox"
)

// DouglasRachford minimizes a + b by their proximal maps alone [LM79]:
//
//	y = prox_{γa}(z)
//	x = prox_{γb}(2y − z)
//	z ← z + λ(x − y)
//
//	F            a     b
//	nil          G     H      two functions, or a point of two sets
//	quadratic    F     G + H  in the closed form of prox.Sum; as in ADMM
//
// prox_{γf}(z) = (I + γQ)⁻¹(z + γ·lin) for a quadratic f is a solve with a Cholesky factor that is
// computed once: O(d³), then O(d²) a step.
//
// It converges for every γ > 0 and λ in (0, 2) [BC17, Cor. 28.3]. If F is quadratic with
// 0 < μ ≤ L_f and γ = 1/√(μL_f), ‖z − z*‖ shrinks in every step by the factor
// |1 − λ/2| + (λ/2)·(√(L_f/μ) − 1)/(√(L_f/μ) + 1) [GB17, Thm. 2].
//
// With F, X = x and the residual is the norm of the element ∇f(x) − ∇f(y) + (y−x)/γ of ∂J(x).
// Without F it is the residual of [DavisYin] for f = 0.
type DouglasRachford struct {
	// StepSize is γ > 0; 0 means 1/√(μL_f), 1/L_f if μ is 0, and 1 without F. If F.Smoothness() is
	// +Inf, L_f is maxᵢ Σⱼ|Qᵢⱼ|.
	StepSize float64
	// Relaxation is λ in (0, 2); 0 means 1.
	Relaxation float64

	gamma, lambda float64
	quad          *quadraticProx // nil without F
	psi           prox.Operator  // b if F is quadratic
	x, y, z, p    []float64
	grad          []float64
	certificate
}

// Init implements Method. The error wraps ErrProblem if F is neither nil nor quadratic.
func (m *DouglasRachford) Init(p Problem, x0 []float64, _ *rand.Rand) error {
	if err := p.plain("DouglasRachford"); err != nil {
		return err
	}
	if !(m.StepSize >= 0) || math.IsInf(m.StepSize, 1) {
		return invalid("DouglasRachford.StepSize = %v, want a positive finite number, or 0 for a default", m.StepSize)
	}
	var err error
	if m.lambda, err = relaxation("DouglasRachford.Relaxation", m.Relaxation, 2); err != nil {
		return err
	}
	n := len(x0)
	m.certificate.init(p, n)
	lip := m.lip
	if math.IsInf(lip, 1) {
		lip = rowSums(p.F, n)
	}
	if !(lip >= 0) || math.IsInf(lip, 1) {
		return unfit("DouglasRachford: F.Smoothness() = %v, want a number ≥ 0, or +Inf with finite coefficients", m.lip)
	}
	m.known = lip
	m.gamma, m.quad = m.StepSize, nil
	if m.gamma == 0 {
		m.gamma = 1
		if root := math.Sqrt(m.mu * lip); root > 0 {
			m.gamma = 1 / root
		} else if lip > 0 {
			m.gamma = 1 / lip
		}
	}
	if p.F != nil {
		if m.psi = m.sum; m.psi == nil {
			return unfit("DouglasRachford: F is not nil and no closed form of prox of G + H is known; DavisYin needs none")
		}
		if m.quad, err = newQuadraticProx(p.F, m.gamma, n); err != nil {
			return err
		}
	}
	m.x, m.y, m.z, m.p, m.grad = resize(m.x, n), resize(m.y, n), resize(m.z, n), resize(m.p, n), resize(m.grad, n)
	clear(m.grad)
	copy(m.z, x0)
	return nil
}

// Step implements Method.
func (m *DouglasRachford) Step(loc *Location, stats *Stats) {
	x, y, z, p := m.x, m.y, m.z, m.p
	a, b := m.g, m.h
	if m.quad != nil {
		a, b = m.quad, m.psi
	}
	a.Prox(y, z, m.gamma) // y = prox_{γa}(z)
	for i := range p {
		p[i] = 2*y[i] - z[i]
	}
	b.Prox(x, p, m.gamma) // x = prox_{γb}(2y − z)
	stats.Proxes += 2
	if m.quad == nil {
		m.prove(loc, stats, x, y, p, m.grad, m.gamma)
	} else {
		m.f.Grad(m.grad, x)
		stats.GradTerms += m.terms
		m.norm(m.grad)
		for i := range m.w { // ∇f(x) + v, v = (p−x)/γ ∈ ∂ψ(x)
			m.w[i] = m.grad[i] + (p[i]-x[i])/m.gamma
		}
		copy(loc.X, x)
		loc.Residual = norm(m.w) + m.hidden(x, p, m.gamma)
		m.watch(loc)
	}
	for i := range z {
		z[i] += m.lambda * (x[i] - y[i]) // z ← z + λ(x − y)
	}
}

// rowSums returns maxᵢ Σⱼ|Qᵢⱼ| ≥ L_f of a quadratic f, 0 for other functions.
func rowSums(f Smooth, n int) float64 {
	q, _, ok := quadratic(f, n)
	if !ok {
		return 0
	}
	return mat.Norm(q, math.Inf(1))
}

// quadraticProx is the proximal map of a quadratic for one γ.
type quadraticProx struct {
	Smooth
	lin  []float64
	chol []float64 // of I + γQ, packed lower rows
}

func newQuadraticProx(f Smooth, gamma float64, n int) (*quadraticProx, error) {
	q, lin, ok := quadratic(f, n)
	if !ok {
		return nil, unfit("DouglasRachford: F is not quadratic, want nil, or a Quadratizer with ok = true: Quadratic() " +
			"(q *mat.SymDense, lin []float64, c float64, ok bool); DavisYin takes any smooth F")
	}
	c := &quadraticProx{f, lin, make([]float64, n*(n+1)/2)}
	if !shifted(c.chol, q, gamma, 1) {
		return nil, unfit("DouglasRachford: I + γQ is not positive definite, want a convex F")
	}
	return c, nil
}

// Prox stores (I + γQ)⁻¹(x + γ·lin) in dst; γ must be the one of newQuadraticProx.
func (c *quadraticProx) Prox(dst, x []float64, gamma float64) {
	for i, v := range c.lin {
		dst[i] = x[i] + gamma*v
	}
	cholSolve(c.chol, dst)
}
