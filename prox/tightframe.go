// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package prox

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// TightFrame returns g(Ax) for an m×n matrix with AAᵀ = νI, ν > 0: rows that are orthogonal and of
// the same length, such as an orthonormal transform, a selection of coordinates or a mean. Then
//
//	prox(x) = x + ν⁻¹Aᵀ(prox_{γνg}(Ax) − Ax)   [BC17, Prop. 24.14]
//
// where a second round of the correction removes the rounding of the size of x. A is copied and ν
// is computed. The error wraps ErrParameter unless every entry of AAᵀ − νI is at most
// max(m,n)·2⁻⁴⁸ν in size. A nil g is 0.
//
// The result is a Set if g is a Set; a point whose image is off the domain of g by no more than the
// rounding of Ax counts as a member. It is not a Subdifferential, because faces of g do not survive
// the rounding of Ax. For ranges of coordinates use [Blocks], which keeps them.
func TightFrame(g Operator, a mat.Matrix) (Operator, error) {
	if a == nil {
		return nil, invalid("TightFrame matrix is nil")
	}
	m, n := a.Dims()
	if m == 0 || n == 0 {
		return nil, invalid("TightFrame matrix is %d×%d, want no empty dimension", m, n)
	}
	f := frame{g: orZero(g), rows: make([][]float64, m), dim: n}
	for k := range f.rows {
		f.rows[k] = mat.Row(nil, k, a)
		f.nu += floats.Dot(f.rows[k], f.rows[k]) / float64(m)
	}
	if !(f.nu >= 0x1p-800 && f.nu <= 0x1p800) {
		return nil, invalid("TightFrame rows have mean square length %v, want a number in [2⁻⁸⁰⁰, 2⁸⁰⁰]", f.nu)
	}
	tol := edge(m, n) * f.nu
	for j, r := range f.rows {
		for k, s := range f.rows[:j+1] {
			want := 0.0
			if j == k {
				want = f.nu
			}
			if got := floats.Dot(r, s); !(math.Abs(got-want) <= tol) {
				return nil, invalid("TightFrame rows %d and %d have the product %v, want %v; AAᵀ must be a multiple of I", k, j,
					got, want)
			}
		}
	}
	_, set, _ := abilities(f.g)
	return expose(f, false, set, false), nil
}

// frame is g(Ax), A given by its rows.
type frame struct {
	g    Operator
	rows [][]float64
	nu   float64
	dim  int
}

// image returns Ax in borrowed scratch of twice its length.
func (f frame) image(x []float64) *[]float64 {
	if len(x) != f.dim {
		panic(badLen)
	}
	buf := borrow(2 * len(f.rows))
	for k, r := range f.rows {
		(*buf)[k], _ = dot(r, x)
	}
	return buf
}

func (f frame) Func(x []float64) float64 {
	buf := f.image(x)
	defer giveBack(buf)
	if !finite(x) {
		return inf
	}
	return lenient(f.g, (*buf)[:len(f.rows)], math.Sqrt(f.nu)*norm2(x)*float64(f.dim))
}

func (f frame) Prox(dst, x []float64, gamma float64) {
	sameLen(dst, x)
	buf := f.image(x)
	defer giveBack(buf)
	m := len(f.rows)
	y, p := (*buf)[:m], (*buf)[m:]
	f.g.Prox(p, y, gamma*f.nu)
	copy(dst, x)
	for range 2 {
		for k, r := range f.rows { // orthogonal: one after the other is the same
			s, _ := dot(r, dst)
			floats.AddScaled(dst, (p[k]-s)/f.nu, r)
		}
	}
}

func (f frame) radius(int) float64 {
	if len(f.rows) < f.dim { // the kernel of A
		return inf
	}
	return f.g.(Set).Radius(f.dim) / math.Sqrt(f.nu) * (1 + 4*edge(f.dim, f.dim))
}

func (f frame) check(dim int) error {
	if dim != f.dim {
		return invalid("TightFrame matrix has %d columns, want %d", f.dim, dim)
	}
	return Check(f.g, len(f.rows))
}
