// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/floats"
)

// embedding is the homogeneous embedding of a program [GC24]: with e the excess over soft bounds
// and e, y, f the equations,
//
//	r_x = Px + Σ z g + Σ y e + qτ     r_z = s + ⟨g,x⟩ − e − bτ     r_y = ⟨e,x⟩ − fτ
//	r_e = cτ − z − w                  r_τ = κ + ⟨q,x⟩ + ⟨c,e⟩ + ⟨b,z⟩ + ⟨f,y⟩ + x'Px/τ
//
// are brought to 0, with s, z, e, w, κ, τ ≥ 0 and sz = ew = κτ → 0. x/τ is then a minimizer, or,
// where τ → 0, x is a direction without end or z, y are normals of bounds that exclude one another.
type embedding struct {
	*program
	point // x, z, y, …
	k     *kkt
	c     []float64 // prices, 0 for hard sides
	xi    []float64 // x/τ
	pxi   []float64 // Px/τ
	res   point     // r
	fixed newton    // the solution for −q, b − (e/w)c, f
	rhs   newton
	sol   newton
	step  point // Δ
	corr  point // complementarity
	rows  []float64
	last  float64 // the length of the last step
	steps int     // taken so far
}

// point is a point of the embedding, a step or a residual.
type point struct {
	newton
	s, e, w    []float64
	tau, kappa float64
}

func newPoint(n, sides, eqs int) point {
	v := func() []float64 { return make([]float64, sides) }
	return point{newton: newNewton(n, sides, eqs), s: v(), e: v(), w: v()}
}

// newEmbedding returns the embedding of g at its first point.
func newEmbedding(g *program) *embedding {
	n := g.n
	sides, eqs := len(g.sides), len(g.eqs)
	m := &embedding{program: g, point: newPoint(n, sides, eqs), k: newKKT(g, g.eqs), c: make([]float64, sides),
		xi: make([]float64, n), pxi: make([]float64, n), res: newPoint(n, sides, eqs), fixed: newNewton(n, sides, eqs),
		rhs: newNewton(n, sides, eqs), sol: newNewton(n, sides, eqs), step: newPoint(n, sides, eqs),
		corr: newPoint(n, sides, eqs), rows: make([]float64, g.a.Rows+n)}
	m.tau, m.kappa = 1, 1
	m.k.accuracy = 1e-13
	for k, s := range g.sides {
		m.s[k], m.w[k] = 1, 1
		if m.z[k] = 1; !s.hard() {
			m.c[k] = s.price
			m.z[k] = min(1, s.price/2)
			m.w[k] = s.price - m.z[k]
			m.e[k] = m.z[k] / m.w[k]
		}
	}
	return m
}

// residuals sets res at the point.
func (m *embedding) residuals() {
	r := &m.res
	floats.ScaleTo(m.xi, 1/m.tau, m.x)
	gemv(blas.NoTrans, m.p, m.xi, m.pxi)
	m.multiplier(m.rows, m.z, m.y)
	m.mulTrans(r.x, m.rows)
	floats.AddScaled(r.x, m.tau, m.pxi)
	floats.AddScaled(r.x, m.tau, m.q)
	r.tau = m.kappa + floats.Dot(m.q, m.x) + floats.Dot(m.pxi, m.x)
	m.mul(m.rows, m.x)
	for k, s := range m.sides {
		r.z[k] = m.s[k] + s.sign*m.rows[s.row] - m.e[k] - s.bound*m.tau
		if r.e[k] = 0; !s.hard() {
			r.e[k] = m.c[k]*m.tau - m.z[k] - m.w[k]
		}
		r.tau += m.c[k]*m.e[k] + s.bound*m.z[k]
	}
	for i, e := range m.eqs {
		r.y[i] = m.rows[e.row] - e.bound*m.tau
		r.tau += e.bound * m.y[i]
	}
}

// advance takes a step of Mehrotra's predictor and corrector. It reports whether the point moved.
func (m *embedding) advance() bool {
	for k := range m.sides {
		m.k.h[k] = m.s[k]/m.z[k] + m.e[k]/m.w[k]
	}
	if !m.k.factor() {
		return false
	}
	floats.ScaleTo(m.rhs.x, -1, m.q)
	for k, s := range m.sides {
		m.rhs.z[k] = s.bound - m.e[k]/m.w[k]*m.c[k]
	}
	for i, e := range m.eqs {
		m.rhs.y[i] = e.bound
	}
	m.k.solve(m.fixed, m.rhs)

	var mu float64
	count := 1.0
	for k, s := range m.sides {
		m.corr.s[k], m.corr.e[k] = m.s[k]*m.z[k], m.e[k]*m.w[k]
		mu += m.corr.s[k] + m.corr.e[k]
		if count++; !s.hard() {
			count++
		}
	}
	m.corr.kappa = m.kappa * m.tau
	mu = (mu + m.corr.kappa) / count
	m.direction(1)
	alpha := m.longest()
	sigma := (1 - alpha) * (1 - alpha) * (1 - alpha)
	second := 1.0 // the share of the second order
	if m.steps++; m.steps%32 > curved {
		sigma, second = max(sigma, 0.5), 0
	}
	for k, s := range m.sides {
		m.corr.s[k] += second*m.step.s[k]*m.step.z[k] - sigma*mu
		if !s.hard() {
			m.corr.e[k] += second*m.step.e[k]*m.step.w[k] - sigma*mu
		}
	}
	m.corr.kappa += second*m.step.kappa*m.step.tau - sigma*mu
	m.direction(1 - sigma)
	m.last = min(1, inward*m.longest())
	if !(m.last > 0) || !finite(m.step.x) {
		return false
	}
	for i, v := range m.lists() {
		floats.AddScaled(v, m.last, m.step.lists()[i])
	}
	m.tau += m.last * m.step.tau
	m.kappa += m.last * m.step.kappa
	m.normalize()
	return true
}

// curved is the number of steps with a corrector before 7 without, which center the products: with
// a corrector alone steps may go round in a circle.
const curved = 24

// inward is the share of the longest step that is taken.
const inward = 0.99

func (p *point) lists() [6][]float64 { return [6][]float64{p.x, p.z, p.y, p.s, p.e, p.w} }

// normalize scales the point, whose scale means nothing, so that the larger of τ and κ is about 1.
func (m *embedding) normalize() {
	scale := power(1 / max(m.tau, m.kappa))
	for i, v := range m.lists() {
		if i < 5 {
			floats.Scale(scale, v)
		}
	}
	for k, s := range m.sides {
		if !s.hard() {
			m.w[k] *= scale
		}
	}
	m.tau *= scale
	m.kappa *= scale
}

// direction sets step to the Newton direction that removes the share eta of the residuals, and
// corr.
func (m *embedding) direction(eta float64) {
	r, d := &m.res, &m.step
	c := &m.corr
	for j, v := range r.x {
		m.rhs.x[j] = -eta * v
	}
	num := eta*r.tau - c.kappa/m.tau
	for k := range m.sides {
		e := (c.e[k] + m.e[k]*eta*r.e[k]) / m.w[k]
		m.rhs.z[k] = c.s[k]/m.z[k] - eta*r.z[k] - e
		num -= m.c[k] * e
	}
	for i, v := range r.y {
		m.rhs.y[i] = -eta * v
	}
	m.k.solve(m.sol, m.rhs)
	num += m.slope(m.sol)
	d.tau = num / m.denominator()
	for i, v := range d.newton.parts() {
		floats.AddScaledTo(v, m.sol.parts()[i], d.tau, m.fixed.parts()[i])
	}
	d.kappa = -(c.kappa + m.kappa*d.tau) / m.tau
	for k, s := range m.sides {
		d.s[k] = -(c.s[k] + m.s[k]*d.z[k]) / m.z[k]
		if d.w[k], d.e[k] = 0, 0; !s.hard() {
			d.w[k] = m.c[k]*d.tau - d.z[k] + eta*r.e[k]
			d.e[k] = -(c.e[k] + m.e[k]*d.w[k]) / m.w[k]
		}
	}
}

// slope returns the derivative of r_τ along v: ⟨q + 2Pξ,x⟩ + ⟨b + (e/w)c,z⟩ + ⟨f,y⟩.
func (m *embedding) slope(v newton) float64 {
	sum := floats.Dot(m.q, v.x) + 2*floats.Dot(m.pxi, v.x)
	for k, s := range m.sides {
		sum += (s.bound + m.e[k]/m.w[k]*m.c[k]) * v.z[k]
	}
	for i, e := range m.eqs {
		sum += e.bound * v.y[i]
	}
	return sum
}

// denominator returns minus the derivative of r_τ along fixed and τ, a sum of squares
//
//	κ/τ + ‖x − ξ‖²_P + Σ (s/z)z² + (e/w)(c − z)².
//
// Where the matrix of the kkt is singular, fixed is not exact: then it is the derivative itself.
func (m *embedding) denominator() float64 {
	x := m.k.rhs
	floats.SubTo(x, m.fixed.x, m.xi)
	gemv(blas.NoTrans, m.p, x, m.k.px)
	curve := floats.Dot(m.pxi, m.xi)
	squares := m.kappa/m.tau + floats.Dot(x, m.k.px)
	direct := m.kappa/m.tau + curve - m.slope(m.fixed)
	size := math.Abs(squares) + curve
	for k := range m.sides {
		z, ew := m.fixed.z[k], m.e[k]/m.w[k]
		squares += m.s[k]/m.z[k]*z*z + ew*(m.c[k]-z)*(m.c[k]-z)
		direct += ew * m.c[k] * m.c[k]
		size += math.Abs(m.sides[k].bound*z) + ew*m.c[k]*m.c[k]
	}
	if direct > 0 && math.Abs(direct-squares) > 1e-12*(size+squares) {
		return direct
	}
	return squares
}

// longest returns the largest α ≤ 1 for which the point and α times the step is not negative.
func (m *embedding) longest() float64 {
	alpha := 1.0
	shrink := func(v, d float64) {
		if d < 0 {
			alpha = min(alpha, -v/d)
		}
	}
	for k, s := range m.sides {
		shrink(m.s[k], m.step.s[k])
		shrink(m.z[k], m.step.z[k])
		if !s.hard() {
			shrink(m.e[k], m.step.e[k])
			shrink(m.w[k], m.step.w[k])
		}
	}
	shrink(m.tau, m.step.tau)
	shrink(m.kappa, m.step.kappa)
	return alpha
}
