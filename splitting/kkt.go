// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/lapack/lapack64"
)

// kkt solves, with g a side and e an equation of a program,
//
//	Px + Σ z_k g_k + Σ y_i e_i = r₁,   ⟨g_k,x⟩ − h_k z_k = r₂,   ⟨e_i,x⟩ = r₃
//
// by M = P + Σ g_k g_k'/h_k + Σ e_i e_i' + εI and S = EM⁻¹E' + εI, and removes ε by refinement. A
// side with h = +Inf has z = 0.
type kkt struct {
	*program
	eqs  []side
	h    []float64
	soft []float64 // h, raised to a floor where M has no factor else
	// accuracy is the relative residual at which refinement ends.
	accuracy float64
	m, s     blas64.Triangular // Cholesky factors
	et       blas64.General    // L⁻¹E'

	rows, w, px, rhs []float64
	rest, step       newton
}

// newton is a right-hand side r₁, r₂, r₃ or a solution x, z, y.
type newton struct{ x, z, y []float64 }

func newNewton(n, sides, eqs int) newton {
	return newton{make([]float64, n), make([]float64, sides), make([]float64, eqs)}
}

func (v newton) parts() [3][]float64 { return [3][]float64{v.x, v.z, v.y} }

func newKKT(g *program, eqs []side) *kkt {
	rows, sides := g.a.Rows+g.n, len(g.sides)
	return &kkt{program: g, eqs: eqs, h: make([]float64, sides), soft: make([]float64, sides),
		rows: make([]float64, rows), w: make([]float64, rows), px: make([]float64, g.n), rhs: make([]float64, g.n),
		m: lower(g.n), s: lower(len(eqs)),
		et:   blas64.General{Rows: g.n, Cols: len(eqs), Stride: max(1, len(eqs)), Data: make([]float64, g.n*len(eqs))},
		rest: newNewton(g.n, sides, len(eqs)), step: newNewton(g.n, sides, len(eqs))}
}

// lower returns a lower triangular matrix of zeros.
func lower(n int) blas64.Triangular {
	return blas64.Triangular{Uplo: blas.Lower, Diag: blas.NonUnit, N: n, Stride: max(1, n), Data: make([]float64, n*n)}
}

// regular is the ε of a kkt in units of the scaled program, at first.
const regular = 1e-12

// factor computes the factors for k.h. It reports success.
func (k *kkt) factor() bool {
	for floor := 0.0; floor <= 1e-4; floor = max(100*floor, regular) {
		if k.first(floor) {
			return k.second()
		}
	}
	return false
}

// first computes the factor of M with h raised to the floor, because a few sides with tiny h hide
// the rest of M in their rounding.
func (k *kkt) first(floor float64) bool {
	clear(k.w)
	for i, s := range k.sides {
		k.soft[i] = max(k.h[i], floor)
		k.w[s.row] += 1 / k.soft[i]
	}
	for _, e := range k.eqs {
		k.w[e.row]++
	}
	for eps := regular; eps <= 1e-3; eps *= 100 {
		k.fill(eps)
		if cholesky64(k.m) {
			return true
		}
	}
	return false
}

// second computes the factor of S.
func (k *kkt) second() bool {
	if len(k.eqs) == 0 {
		return true
	}
	clear(k.et.Data)
	for i, e := range k.eqs {
		if j := e.row - k.a.Rows; j >= 0 {
			k.et.Data[j*k.et.Stride+i] = 1
			continue
		}
		for j := range k.n {
			k.et.Data[j*k.et.Stride+i] = k.a.Data[e.row*k.n+j]
		}
	}
	blas64.Trsm(blas.Left, blas.NoTrans, 1, k.m, k.et)
	for eps := regular; eps <= 1e-3; eps *= 100 {
		s := blas64.Symmetric{Uplo: blas.Lower, N: k.s.N, Stride: k.s.Stride, Data: k.s.Data}
		blas64.Syrk(blas.Trans, 1, k.et, 0, s)
		for i := range k.eqs {
			k.s.Data[i*k.s.Stride+i] += eps
		}
		if cholesky64(k.s) {
			return true
		}
	}
	return false
}

// fill stores M in k.m.
func (k *kkt) fill(eps float64) {
	m := blas64.General{Rows: k.n, Cols: k.n, Stride: k.m.Stride, Data: k.m.Data}
	copy(m.Data, k.p.Data)
	k.gram(m, k.w)
	for j := range k.n {
		m.Data[j*k.n+j] += eps
	}
}

// cholesky64 replaces the lower triangle of a symmetric matrix by its Cholesky factor.
func cholesky64(t blas64.Triangular) bool {
	_, ok := lapack64.Potrf(blas64.Symmetric{Uplo: t.Uplo, N: t.N, Stride: t.Stride, Data: t.Data})
	return ok
}

// solve stores the solution for r in dst.
func (k *kkt) solve(dst, r newton) {
	for _, v := range dst.parts() {
		clear(v)
	}
	for i, v := range r.parts() {
		copy(k.rest.parts()[i], v)
	}
	before := math.Inf(1)
	for range refinements {
		k.once(k.step, k.rest)
		for i, v := range k.step.parts() {
			floats.Add(dst.parts()[i], v)
		}
		now := k.residual(k.rest, dst, r)
		if now <= k.accuracy || now > before/2 {
			if now > before {
				for i, v := range k.step.parts() {
					floats.Sub(dst.parts()[i], v)
				}
			}
			return
		}
		before = now
	}
}

// refinements is the most corrections of a solution.
const refinements = 10

// once stores the solution for r in dst, with ε.
func (k *kkt) once(dst, r newton) {
	clear(k.rows)
	for i, s := range k.sides {
		k.rows[s.row] += s.sign * r.z[i] / k.soft[i]
	}
	for i, e := range k.eqs {
		k.rows[e.row] += r.y[i]
	}
	k.mulTrans(k.rhs, k.rows)
	floats.Add(k.rhs, r.x) // r₁ + Σ g r₂/h + Σ e r₃
	t := blas64.Vector{N: k.n, Data: k.rhs, Inc: 1}
	blas64.Trsv(blas.NoTrans, k.m, t)
	if len(k.eqs) > 0 {
		y := blas64.Vector{N: len(dst.y), Data: dst.y, Inc: 1}
		copy(dst.y, r.y)
		blas64.Gemv(blas.Trans, 1, k.et, t, -1, y)
		blas64.Trsv(blas.NoTrans, k.s, y)
		blas64.Trsv(blas.Trans, k.s, y)
		blas64.Gemv(blas.NoTrans, -1, k.et, y, 1, t)
	}
	blas64.Trsv(blas.Trans, k.m, t)
	copy(dst.x, k.rhs)
	k.mul(k.rows, dst.x)
	for i, s := range k.sides {
		dst.z[i] = (s.sign*k.rows[s.row] - r.z[i]) / k.soft[i]
	}
}

// residual stores r less the left-hand side at v in rest, and returns its largest relative part.
func (k *kkt) residual(rest, v, r newton) float64 {
	gemv(blas.NoTrans, k.p, v.x, k.px)
	clear(k.rows)
	for i, s := range k.sides {
		k.rows[s.row] += s.sign * v.z[i]
	}
	for i, e := range k.eqs {
		k.rows[e.row] += v.y[i]
	}
	var worst [3]float64
	var size [3]float64
	at := func(part int, rest float64, terms ...float64) float64 {
		worst[part] = max(worst[part], math.Abs(rest))
		for _, t := range terms {
			size[part] = max(size[part], math.Abs(t))
		}
		return rest
	}
	k.mulTrans(k.rhs, k.rows)
	for j := range v.x {
		rest.x[j] = at(0, r.x[j]-k.px[j]-k.rhs[j], r.x[j], k.px[j], k.rhs[j], k.pMax*v.x[j])
	}
	for _, u := range k.rows {
		size[0] = max(size[0], math.Abs(u))
	}
	k.mul(k.rows, v.x)
	for i, s := range k.sides {
		if rest.z[i] = 0; !math.IsInf(k.h[i], 1) {
			ax, hz := s.sign*k.rows[s.row], k.h[i]*v.z[i]
			rest.z[i] = at(1, r.z[i]-ax+hz, r.z[i], ax, hz)
		}
	}
	for i, e := range k.eqs {
		rest.y[i] = at(2, r.y[i]-k.rows[e.row], r.y[i], k.rows[e.row])
	}
	var all float64
	for part := range worst {
		all = max(all, ratio(worst[part], size[part]))
	}
	return all
}
