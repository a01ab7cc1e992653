// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package prox

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// HalfSpace is the set {x : ⟨A,x⟩ ≤ B}, A ≠ 0. The caller must not change A.
//
// Perhaps no float64 vector lies on the plane ⟨A,x⟩ = B. A point with |⟨A,x⟩−B| ≤ 2⁻⁴⁸(Σ|A_i x_i| +
// |B|) stands for its projection x′ on the plane, see [Rounding].
type HalfSpace struct {
	A []float64
	B float64
}

// over returns ⟨A,x⟩−B and the size below which it counts as 0.
func (g HalfSpace) over(x []float64) (s, tol float64) {
	sameLen(x, g.A)
	s, abs := dot(g.A, x)
	return s - g.B, nearSphere * (abs + math.Abs(g.B))
}

// Func returns 0 where ⟨A,x⟩ ≤ B + 2⁻⁴⁸(Σ|A_i x_i| + |B|), +Inf elsewhere.
func (g HalfSpace) Func(x []float64) float64 {
	s, tol := g.over(x)
	return indicator(s <= tol && finite(x))
}

// Prox projects: x − (⟨A,x⟩−B)₊/‖A‖²·A. A second projection, of the result on
// the plane, removes the rounding of the size of x.
func (g HalfSpace) Prox(dst, x []float64, _ float64) {
	sameLen(dst, x)
	s, _ := g.over(x)
	copy(dst, x)
	if s <= 0 {
		return
	}
	nn := floats.Dot(g.A, g.A)
	floats.AddScaled(dst, -s/nn, g.A)
	s, _ = g.over(dst)
	floats.AddScaled(dst, -s/nn, g.A)
}

// Dist returns ‖v‖₂ inside and ‖v + q·A‖₂ with q = max(0, −⟨v,A⟩/‖A‖²) on the plane.
func (g HalfSpace) Dist(x, v []float64) float64 {
	sameLen(x, v)
	s, tol := g.over(x)
	if !(s <= tol) || !finite(x) {
		return inf
	}
	q := 0.0
	if s >= -tol {
		va, _ := dot(g.A, v)
		q = max(0, -va/floats.Dot(g.A, g.A))
	}
	return overCoordinates(g.A, v, func(_ int, ai, vi float64) float64 { return math.Abs(vi + q*ai) })
}

// shift returns |⟨A,x⟩−B|/‖A‖₂ plus the rounding of the product for a point near the plane, and 0
// inside.
func (g HalfSpace) shift(x []float64) float64 {
	s, tol := g.over(x)
	switch {
	case !(s <= tol) || !finite(x):
		return inf
	case s >= -tol:
		return (math.Abs(s) + tol/4) / norm2(g.A)
	}
	return 0
}

// Radius returns +Inf.
func (g HalfSpace) Radius(int) float64 { return inf }

func (g HalfSpace) check(dim int) error {
	if len(g.A) != dim {
		return invalid("HalfSpace.A has %d coordinates, want %d", len(g.A), dim)
	}
	if n := norm2(g.A); !(n >= 0x1p-400 && n <= 0x1p400) {
		return invalid("HalfSpace.A has norm %v, want a number in [2⁻⁴⁰⁰, 2⁴⁰⁰]", n)
	}
	if math.IsNaN(g.B) || math.IsInf(g.B, 0) {
		return invalid("HalfSpace.B = %v, want a finite number", g.B)
	}
	return nil
}

// finite reports whether every coordinate is a finite number.
func finite(x []float64) bool {
	for _, xi := range x {
		if math.IsNaN(xi) || math.IsInf(xi, 0) {
			return false
		}
	}
	return true
}

// affine is the set {x : Vx = c} with orthonormal rows v_k of V.
type affine struct {
	v   [][]float64
	c   []float64
	off float64 // ‖c‖₂, the distance of the set from 0
	dim int
}

// NewAffine returns the set {x : Ax = b} for an m×d matrix A, held as Vx = c by its singular value
// decomposition A = UΣVᵀ. A float64 vector hardly ever solves Ax = b, so membership allows for the
// rounding of x, ‖Vx−c‖₂ ≤ d·2⁻⁴⁸(‖x‖₂+‖c‖₂), and such a point stands for its projection x′, see
// [Rounding]. The set is unbounded unless A has full column rank.
//
// Rows may be linearly dependent if b agrees: singular values at most max(m,d)·2⁻⁵²·σ_max
// count as 0, and the error wraps ErrParameter if the point x of least norm has ‖Ax−b‖ >
// 10⁻¹⁰(σ_max‖x‖+‖b‖). The relative error of the set by rounding is of the order 2⁻⁵²·σ_max/σ_min,
// σ_min the least singular value that does not count as 0.
func NewAffine(a mat.Matrix, b []float64) (Set, error) {
	if a == nil {
		return nil, invalid("Affine matrix is nil")
	}
	m, d := a.Dims()
	if m == 0 || d == 0 || len(b) != m {
		return nil, invalid("Affine matrix is %d×%d with %d right-hand sides, want one a row and no empty dimension", m, d,
			len(b))
	}
	dense := mat.DenseCopyOf(a)
	if !finite(dense.RawMatrix().Data) || !finite(b) {
		return nil, invalid("Affine matrix and right-hand side want finite entries")
	}
	var svd mat.SVD
	if !svd.Factorize(dense, mat.SVDThin) {
		return nil, invalid("Affine matrix has no singular value decomposition in float64; rescale its rows")
	}
	var u, v mat.Dense
	svd.UTo(&u)
	svd.VTo(&v)
	sigma := svd.Values(nil)
	g := &affine{dim: d}
	rhs, x := mat.NewVecDense(m, append([]float64(nil), b...)), make([]float64, d)
	for k, s := range sigma {
		if s <= float64(max(m, d))*2*ulp*sigma[0] {
			break
		}
		vk := mat.Col(nil, k, &v)
		ck := mat.Dot(u.ColView(k), rhs) / s // c = Σ⁻¹Uᵀb
		g.v, g.c = append(g.v, vk), append(g.c, ck)
		floats.AddScaled(x, ck, vk)
	}
	g.off = floats.Norm(g.c, 2)
	var gap mat.VecDense
	gap.MulVec(dense, mat.NewVecDense(d, x))
	gap.SubVec(&gap, rhs)
	if limit := 1e-10 * (sigma[0]*g.off + mat.Norm(rhs, 2)); !(mat.Norm(&gap, 2) <= limit) {
		return nil, invalid("Affine system of rank %d in %d rows has no solution; drop or correct dependent rows", len(g.v),
			m)
	}
	return g, nil
}

// residual returns ‖Vx−c‖₂ with an allowance for its rounding.
func (g *affine) residual(x []float64) (r, tol float64) {
	if len(x) != g.dim {
		panic(badLen)
	}
	var d ssq
	for k, vk := range g.v {
		s, _ := dot(vk, x)
		d.add(math.Abs(s - g.c[k]))
	}
	return d.norm(), float64(g.dim) * nearSphere * (norm2(x) + g.off)
}

func (g *affine) Func(x []float64) float64 {
	r, tol := g.residual(x)
	return indicator(r <= tol && finite(x))
}

// Prox projects: x − Vᵀ(Vx−c), one row after the other, which gives the same for orthonormal rows.
// A second round removes the rounding of the size of x.
func (g *affine) Prox(dst, x []float64, _ float64) {
	sameLen(dst, x)
	if len(x) != g.dim {
		panic(badLen)
	}
	copy(dst, x)
	for range 2 {
		for k, vk := range g.v {
			s, _ := dot(vk, dst)
			floats.AddScaled(dst, g.c[k]-s, vk)
		}
	}
}

// Dist is ‖v − VᵀVv‖₂, the part of v along the set.
func (g *affine) Dist(x, v []float64) float64 {
	sameLen(x, v)
	if g.Func(x) != 0 {
		return inf
	}
	buf := borrow(len(v))
	defer giveBack(buf)
	w := *buf
	copy(w, v)
	for range 2 {
		for _, vk := range g.v {
			floats.AddScaled(w, -floats.Dot(vk, w), vk)
		}
	}
	return number(norm2(w))
}

func (g *affine) shift(x []float64) float64 {
	r, tol := g.residual(x)
	if !(r <= tol) || !finite(x) {
		return inf
	}
	return r + tol/4
}

// Radius is the norm of the only point, plus 10⁻¹² of it for rounding, if A has full column rank.
func (g *affine) Radius(int) float64 {
	if len(g.v) < g.dim {
		return inf
	}
	return g.off * (1 + 1e-12)
}

func (g *affine) check(dim int) error {
	if dim != g.dim {
		return invalid("Affine matrix has %d columns, want %d", g.dim, dim)
	}
	return nil
}
