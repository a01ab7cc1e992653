// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/prox"
)

// newtonModel is a penalty ψ for ProxNewton.
type newtonModel interface {
	clip(x []float64)                                        // moves x into the domain
	distance(x, grad []float64) float64                      // dist(−grad, ∂ψ(x))
	value(x []float64) float64                               // ψ(x) for an x in the domain
	prox(dst, x []float64, gamma float64)                    // prox_{γψ}
	load(h *mat.SymDense)                                    // sets the Hessian
	solve(x, grad []float64, nu, accuracy float64) []float64 // the minimizer of the model, nil if none was found
}

// separableModel is the newtonModel of a coordinatewise ψ.
type separableModel struct {
	descent
	diag, w []float64
	pieces  []int8 // of x in distance, which is not the x of descent
}

func (c *separableModel) init(op coordinatewise, n int) error {
	c.diag, c.w, c.pieces = resize(c.diag, n), resize(c.w, n), resize(c.pieces, n)
	return c.descent.init(op, n)
}

func (c *separableModel) distance(x, grad []float64) float64 {
	d, _ := c.dist(x, grad, c.pieces)
	return d
}

func (c *separableModel) load(h *mat.SymDense) {
	c.descent.load(h)
	for i := range c.diag {
		c.diag[i] = c.q[i*c.n+i]
	}
}

// modelSweeps bounds the work on one local model.
const modelSweeps = 500

// solve minimizes by coordinate descent, to a thousandth of accuracy: the outer residual falls at
// most a hundredfold in a step, because of the error of the model.
func (c *separableModel) solve(x, grad []float64, nu, accuracy float64) []float64 {
	for i, v := range c.diag {
		c.q[i*c.n+i] = v + nu
	}
	// ½u'Qu − ⟨Qx − ∇f(x), u⟩ has the gradient ∇f(x) + Q(u − x).
	clear(c.w)
	gradient(c.lin, c.q, c.w, x)
	floats.Sub(c.lin, grad)
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

// ballModel is the newtonModel of the ball ‖x‖₂ ≤ r with (ridge/2)‖x‖₂². It solves the secular
// equation [MS83]: the u(λ) with
//
//	(∇²f(x) + (ν + ridge + λ)I) u = (∇²f(x) + νI)x − ∇f(x),
//
// for λ = 0 if u(0) lies in the ball, else for the λ > 0 with ‖u(λ)‖ = r, by Newton's method on
// 1/r − 1/‖u(λ)‖, which converges from below.
type ballModel struct {
	psi      prox.Operator
	sub      prox.Subdifferential
	r, ridge float64
	h        *mat.SymDense // of the caller
	chol     []float64
	b, u, w  []float64
}

// ball returns the model of G + H if it is a ball, alone or with a squared norm. The model is not
// yet allocated.
func (p Problem) ball() (*ballModel, bool) {
	m := &ballModel{r: math.Inf(1)}
	for _, op := range []prox.Operator{p.G, p.H} {
		switch op := op.(type) {
		case nil:
		case prox.L2Ball:
			m.r = math.Min(m.r, op.R)
		case prox.SquaredL2:
			m.ridge += op.Weight
		default:
			return nil, false
		}
	}
	var ok bool
	if m.psi, ok = p.sum(); !ok || math.IsInf(m.r, 1) {
		return nil, false
	}
	m.sub, ok = m.psi.(prox.Subdifferential)
	return m, ok
}

func (m *ballModel) init(n int) {
	m.chol = make([]float64, n*(n+1)/2)
	m.b, m.u = make([]float64, n), make([]float64, n)
	m.w = make([]float64, n)
}

func (m *ballModel) clip(x []float64) {
	if n := norm(x); n > m.r {
		prox.L2Ball{R: m.r}.Prox(x, x, 1)
	}
}

func (m *ballModel) distance(x, grad []float64) float64 {
	if !finite(grad) {
		return math.NaN()
	}
	return m.sub.Dist(x, grad)
}

func (m *ballModel) value(x []float64) float64            { return m.psi.Func(x) }
func (m *ballModel) prox(dst, x []float64, gamma float64) { m.psi.Prox(dst, x, gamma) }
func (m *ballModel) load(h *mat.SymDense)                 { m.h = h }

// secularSteps bounds the search for λ, which usually takes five.
const secularSteps = 60

func (m *ballModel) solve(x, grad []float64, nu, _ float64) []float64 {
	n := len(x)
	top := 0.0
	for i := range n {
		s := nu * x[i]
		for j := range n {
			s += m.h.At(i, j) * x[j]
		}
		m.b[i] = s - grad[i]
		top = math.Max(top, m.h.At(i, i))
	}
	lambda, least := 0.0, 0.0
	for range secularSteps {
		if !shifted(m.chol, m.h, 1, nu+m.ridge+lambda) {
			least = math.Max(10*least, 1e-14*top)
			if lambda = math.Max(lambda, least); !(lambda > 0) {
				return nil
			}
			continue
		}
		copy(m.u, m.b)
		cholSolve(m.chol, m.u)
		size := norm(m.u)
		if !(size > m.r*(1+1e-12)) { // inside, on the sphere, or NaN
			break
		}
		copy(m.w, m.u)
		cholHalf(m.chol, m.w)
		half := norm(m.w)
		next := lambda + (size/half)*(size/half)*(size-m.r)/m.r
		if !(next > lambda) {
			break
		}
		lambda = next
	}
	if lambda > least && norm(m.u) >= m.r*(1-1e-9) { // clip moves it onto the sphere, for the sake of Dist
		floats.Scale(1+1e-8, m.u)
	}
	m.clip(m.u)
	if !finite(m.u) {
		return nil
	}
	return m.u
}
