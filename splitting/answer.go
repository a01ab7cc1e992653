// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
)

// answer is a point x of a program with multipliers 0 ≤ z ≤ price and y, and its relative errors.
type answer struct {
	newton
	primal, dual, gap float64
	slack             float64   // J(x) less the value at x of the Lagrangian of z and y
	grad              []float64 // Px + q + Σ z g + Σ y e
}

func (a answer) error() float64 { return max(a.primal, a.dual, a.gap) }

// leastScale is the least scale of errors, in a scaled program whose numbers are about 1.
const leastScale = 1e-3

// judge sets the errors of a: the excess over hard bounds and equations, the norm of Px + q + Σ z g
// + Σ y e, and the complementarity, each against the terms it consists of.
func (g *program) judge(a *answer) {
	rows, v := make([]float64, g.a.Rows+g.n), make([]float64, g.a.Rows+g.n)
	px, d := make([]float64, g.n), make([]float64, g.n)
	g.mul(rows, a.x)
	var excess, gap, terms float64
	a.slack = 0
	size := leastScale
	for k, s := range g.sides {
		over := s.sign*rows[s.row] - s.bound
		size = max(size, math.Abs(rows[s.row]), math.Abs(s.bound))
		terms += math.Abs(s.bound * a.z[k])
		switch {
		case over <= 0:
			gap -= over * a.z[k]
		case s.hard():
			excess = max(excess, over)
			a.slack -= over * a.z[k]
		default:
			gap += over * (s.price - a.z[k])
			terms += over * s.price
		}
	}
	for i, e := range g.eqs {
		size = max(size, math.Abs(e.bound), math.Abs(rows[e.row]))
		excess = max(excess, math.Abs(rows[e.row]-e.bound))
		a.slack -= a.y[i] * (rows[e.row] - e.bound)
		terms += math.Abs(e.bound * a.y[i])
	}
	a.primal = excess / size
	a.slack += gap
	gemv(blas.NoTrans, g.p, a.x, px)
	g.multiplier(v, a.z, a.y)
	g.mulTrans(d, v)
	size = max(leastScale, floats.Norm(v, math.Inf(1)), g.pMax*floats.Norm(a.x, math.Inf(1)))
	var worst float64
	a.grad = d
	for j, dj := range d {
		size = max(size, math.Abs(g.q[j]), math.Abs(px[j]))
		dj += px[j] + g.q[j]
		d[j] = dj
		worst = max(worst, math.Abs(dj))
		terms += math.Abs(g.q[j]*a.x[j]) + math.Abs(px[j]*a.x[j])
		gap += math.Abs(dj * a.x[j])
	}
	a.dual = worst / size
	a.gap = gap / max(terms, leastScale)
}

// current returns the answer at the point.
func (m *embedding) current() answer {
	a := answer{newton: newNewton(m.n, len(m.sides), len(m.eqs))}
	for i, v := range a.parts() {
		floats.ScaleTo(v, 1/m.tau, m.parts()[i])
	}
	for k, s := range m.sides {
		a.z[k] = min(a.z[k], s.price)
	}
	m.judge(&a)
	return a
}

// polished takes the active sides of the point as equations, and returns the solution next to a.
func (m *embedding) polished(a answer) answer {
	b := answer{newton: newton{slices.Clone(a.x), make([]float64, len(a.z)), slices.Clone(a.y)}}
	eqs := slices.Clone(m.eqs)
	var active []int
	for k, s := range m.sides {
		switch {
		case m.z[k] <= m.s[k]:
		case !s.hard() && m.e[k] >= m.w[k]:
			b.z[k] = s.price
		default:
			b.z[k] = a.z[k]
			active = append(active, k)
			eqs = append(eqs, side{s.row, 1, s.sign * s.bound, 0})
		}
	}
	k := newKKT(m.program, eqs)
	for i := range k.h {
		k.h[i] = math.Inf(1)
	}
	if !k.factor() {
		return a
	}
	r, step := newNewton(m.n, len(b.z), len(eqs)), newNewton(m.n, len(b.z), len(eqs))
	m.multiplier(k.rows, b.z, b.y)
	m.mulTrans(r.x, k.rows)
	blas64.Gemv(blas.NoTrans, -1, m.p, blas64.Vector{N: m.n, Data: b.x, Inc: 1}, -1,
		blas64.Vector{N: m.n, Data: r.x, Inc: 1})
	floats.Sub(r.x, m.q)
	m.mul(k.rows, b.x)
	for i, e := range eqs {
		r.y[i] = e.bound - k.rows[e.row]
	}
	k.solve(step, r)
	floats.Add(b.x, step.x)
	floats.Add(b.y, step.y[:len(b.y)])
	for i, at := range active {
		b.z[at] = clamp(b.z[at]+m.sides[at].sign*step.y[len(b.y)+i], 0, m.sides[at].price)
	}
	m.judge(&b)
	if b.error() < a.error() && floats.Norm(b.x, math.Inf(1)) <= 1e3*max(1, floats.Norm(a.x, math.Inf(1))) {
		return b
	}
	return a
}

// remote is the least ratio of a distance to the unit of x from which on a point counts as
// infinite.
const remote = 1e8

// excluded reports whether the multipliers v of rows, whose hard bounds add up to value, prove that
// every feasible x has ‖x‖∞ ≥ −value/‖A'v‖₁ ≥ remote.
func (g *program) excluded(v []float64, value, terms float64) bool {
	d := make([]float64, g.n)
	g.mulTrans(d, v)
	rounding := 0x1p-48 * float64(g.n) * floats.Norm(v, 1)
	return value+0x1p-48*terms < 0 && -value >= remote*(floats.Norm(d, 1)+rounding)
}

// farkas returns the multipliers of hard sides and of equations if they prove that no point is
// feasible, scaled so that their bounds add up to −1.
func (g *program) farkas(z, y []float64) ([]float64, bool) {
	v := make([]float64, g.a.Rows+g.n)
	var value, terms float64
	add := func(s side, z float64) {
		v[s.row] += s.sign * z
		value += s.bound * z
		terms += math.Abs(s.bound * z)
	}
	for k, s := range g.sides {
		if s.hard() {
			add(s, z[k])
		}
	}
	for i, e := range g.eqs {
		add(e, y[i])
	}
	if !g.excluded(v, value, terms) {
		return nil, false
	}
	floats.Scale(-1/value, v)
	return v, true
}

// ray returns x scaled to slope −1 if it is a direction in which the objective falls without end:
// every pair of a point and multipliers that prove the contrary has a norm of at least remote.
func (g *program) ray(x []float64) ([]float64, bool) {
	rows, px := make([]float64, g.a.Rows+g.n), make([]float64, g.n)
	g.mul(rows, x)
	gemv(blas.NoTrans, g.p, x, px)
	slope, terms := floats.Dot(g.q, x), 0.0
	for j, v := range x {
		terms += math.Abs(g.q[j] * v)
	}
	blocked := floats.Norm(px, math.Inf(1))
	for _, s := range g.sides {
		if t := s.sign * rows[s.row]; t > 0 && s.hard() {
			blocked = max(blocked, t)
		} else if t > 0 {
			slope += s.price * t
			terms += s.price * t
		}
	}
	for _, e := range g.eqs {
		blocked = max(blocked, math.Abs(rows[e.row]))
	}
	blocked += 0x1p-52 * float64(g.n) * (1 + g.pMax) * floats.Norm(x, math.Inf(1)) // rounding
	if !(slope < -terms/remote) || -slope < remote*blocked {
		return nil, false
	}
	d := slices.Clone(x)
	floats.Scale(-1/slope, d)
	return d, true
}
