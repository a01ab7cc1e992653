// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package prox

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/floats"
)

// SecondOrderCone is the set {(t, z) : ‖z‖₂ ≤ t} with t = x[0] and z = x[1:],
// the Lorentz cone. [PB14, §6.3]
//
// Projections satisfy ‖z‖₂ ≤ t in real arithmetic. A point with ‖z‖₂ within t(1 ± 2⁻⁴⁸) stands for
// x′ = (t, (t/‖z‖₂)z) on the surface, see [Rounding].
type SecondOrderCone struct{}

// PSDCone is the set of symmetric positive semidefinite matrices X of order
// Order, held row by row in a vector of Order² numbers. The projection is
// Σ max(λ_k,0)·q_k q_kᵀ over the eigenpairs of ½(X+Xᵀ). [PB14, §6.3]
//
// Members are symmetric exactly. Eigenvalues within 2⁻⁴⁸·Order of 0, relative to the largest in
// size, stand for 0, and X stands for the matrix X′ of the other computed eigenvalues and of the
// orthonormal vectors nearest to the computed eigenvectors, see [Rounding]. Scratch and failures
// are as for [NuclearNorm].
type PSDCone struct{ Order int }

// split returns t and ‖z‖₂, and whether x is a member.
func (SecondOrderCone) split(x []float64) (t, n float64, ok bool) {
	if len(x) == 0 {
		panic(badLen)
	}
	t, n = x[0], norm2(x[1:])
	return t, n, t <= math.MaxFloat64 && (n <= t || onSphere(n, t))
}

// Func returns 0 where ‖z‖₂ ≤ t(1+2⁻⁴⁸) and +Inf elsewhere.
func (g SecondOrderCone) Func(x []float64) float64 {
	_, _, ok := g.split(x)
	return indicator(ok)
}

// Prox projects: x in the cone, 0 if ‖z‖₂ ≤ −t, and else s·(1, z/‖z‖₂) with
// s = (t+‖z‖₂)/2, rounded into the cone.
func (g SecondOrderCone) Prox(dst, x []float64, _ float64) {
	sameLen(dst, x)
	t, n, _ := g.split(x)
	s := t/2 + n/2
	switch {
	case n <= t*(1-6*ulp):
		copy(dst, x)
		return
	case n <= -t:
		clear(dst)
		return
	}
	floats.ScaleTo(dst, s/n*(1-16*ulp), x)
	dst[0] = s
}

// Dist: N(x) is {0} inside, the ray of (−1, z/‖z‖₂) on the surface, and minus
// the cone at 0, where the distance is the distance of v from the cone.
func (g SecondOrderCone) Dist(x, v []float64) float64 {
	sameLen(x, v)
	t, n, ok := g.split(x)
	if !ok || !finite(v) {
		return inf
	}
	v0, vz := v[0], v[1:]
	switch {
	case t == 0:
		switch m := norm2(vz); {
		case m <= v0:
			return 0
		case m <= -v0:
			return norm2(v)
		default:
			return (m - v0) / math.Sqrt2
		}
	case !onSphere(n, t):
		return norm2(v)
	}
	q := v0 // ⟨−v, (−1, z/n)⟩
	for i, zi := range x[1:] {
		q -= vz[i] * (zi / n)
	}
	q = max(q/2, 0)
	var d ssq
	d.add(math.Abs(v0 - q))
	for i, zi := range x[1:] {
		d.add(math.Abs(vz[i] + q*(zi/n)))
	}
	return d.norm()
}

// shift returns |‖z‖₂−t| plus the rounding of the norm for a point near the surface, and 0 inside.
func (g SecondOrderCone) shift(x []float64) float64 {
	t, n, ok := g.split(x)
	switch {
	case !ok:
		return inf
	case t > 0 && onSphere(n, t):
		return math.Nextafter(math.Abs(n-t)+4*ulp*t, inf)
	}
	return 0
}

// Radius returns +Inf.
func (g SecondOrderCone) Radius(int) float64 { return inf }

func (g SecondOrderCone) check(dim int) error {
	if dim < 1 {
		return invalid("SecondOrderCone in %d dimensions, want at least 1", dim)
	}
	return nil
}

// member returns the decomposition of x in pooled scratch, the number of eigenvalues that do not
// count as 0, and whether x is a member.
func (g PSDCone) member(x []float64) (d *spectrum, r int, ok bool) {
	d, ok = diagonalize(x, g.Order)
	n := g.Order
	if !ok || n == 0 {
		return d, 0, ok
	}
	// A subnormal matrix is rounded by 2⁻¹⁰⁷⁴, whatever its size.
	tol := max(edge(n, n)*max(d.s[0], -d.s[n-1]), float64(n)*0x1p-1070)
	ok = d.s[n-1] >= -tol
	for i := range n {
		for j := range i {
			ok = ok && x[i*n+j] == x[j*n+i]
		}
	}
	return d, d.above(tol), ok
}

// Func returns 0 where X is symmetric and λ_k ≥ −Order·max(2⁻⁴⁸‖X‖₂, 2⁻¹⁰⁷⁰), +Inf elsewhere.
func (g PSDCone) Func(x []float64) float64 {
	d, _, ok := g.member(x)
	defer spectra.Put(d)
	return indicator(ok)
}

// Prox stores Σ max(λ_k,0)·q_k q_kᵀ in dst, symmetric exactly.
func (g PSDCone) Prox(dst, x []float64, _ float64) {
	sameLen(dst, x)
	d, ok := diagonalize(x, g.Order)
	defer spectra.Put(d)
	n := g.Order
	switch {
	case !ok:
		fillNaN(dst)
	case n > 0 && d.s[n-1] >= 0: // ½(X+Xᵀ) is a member
		symmetrize(dst, x, n)
	default:
		d.positivePart(dst)
	}
}

// Dist: with the eigenvectors U of the eigenvalues 0,
// N(X′) = {K − USUᵀ : K skew-symmetric, S ⪰ 0}. The skew-symmetric part of v has distance 0, so the
// distance is that of ½(v+vᵀ) from {USUᵀ : S ⪰ 0}.
func (g PSDCone) Dist(x, v []float64) float64 {
	sameLen(x, v)
	d, r, ok := g.member(x)
	defer spectra.Put(d)
	if !ok || !finite(v) {
		return inf
	}
	buf := borrow(len(v))
	defer giveBack(buf)
	symmetrize(*buf, v, g.Order)
	if r == g.Order {
		return number(norm2(*buf))
	}
	u := d.u
	u.Cols, u.Data = g.Order-r, u.Data[r:]
	return fromCone(*buf, u, u, blas.Trans)
}

// shift is 0 where X is definite and stands for itself.
func (g PSDCone) shift(x []float64) float64 {
	d, r, ok := g.member(x)
	defer spectra.Put(d)
	switch {
	case !ok:
		return inf
	case r == g.Order:
		return 0
	}
	return d.shift(x, r)
}

// Radius returns +Inf.
func (g PSDCone) Radius(int) float64 { return inf }

func (g PSDCone) check(dim int) error { return shape("PSDCone", g.Order, g.Order, dim) }
