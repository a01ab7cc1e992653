// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package prox

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
)

// NuclearNorm is g(X) = Weight·Σσ_k(X), the sum of the singular values of the
// Rows×Cols matrix X that the vector x holds row by row. With X = UΣVᵀ,
//
//	prox_{γg}(X) = U(Σ − γ·Weight)₊Vᵀ   [CCS10, Thm. 2.1]
//
// X stands for a matrix X′ of low rank, see [Rounding]: of the computed singular values above
// 2⁻⁴⁸·max(Rows,Cols) of the largest, and of the orthonormal vectors nearest to
// the computed singular vectors. Shift bounds X′−X with all roundings.
//
// Prox is a singular value decomposition by gonum in pooled scratch. It does not allocate once the
// scratch has grown, except that gonum's matrix products start goroutines at several hundred rows.
// If the decomposition does not converge, results are NaN and distances +Inf.
type NuclearNorm struct {
	Rows, Cols int
	Weight     float64
}

// NuclearBall is the set of Rows×Cols matrices X, held row by row, whose
// singular values add up to at most R. With X = UΣVᵀ the projection is
// U(Σ−τ)₊Vᵀ with the root τ of Σ_k(σ_k−τ)₊ = R [CCS10; DSSC08].
//
// X stands for a matrix X′ as for [NuclearNorm]. If the sum of its singular values is within
// R(1 ± 2⁻⁴⁸·max(Rows,Cols)), X′ is scaled to the sphere.
type NuclearBall struct {
	Rows, Cols int
	R          float64
}

// SpectralBall is the set of Rows×Cols matrices X, held row by row, whose singular values are at
// most R. With X = UΣVᵀ the projection is U·min(Σ,R)·Vᵀ.
//
// Singular values within R(1 ± 2⁻⁴⁸·max(Rows,Cols)) stand for R, so that membership and faces allow
// for the rounding of the decomposition, see [Rounding] and [NuclearNorm]. Prox stays below R by a
// quarter of this allowance.
type SpectralBall struct {
	Rows, Cols int
	R          float64
}

// Func returns Weight·Σσ_k(X).
func (g NuclearNorm) Func(x []float64) float64 {
	d, ok := decompose(x, g.Rows, g.Cols)
	defer spectra.Put(d)
	if !ok {
		return inf
	}
	return number(g.Weight * floats.Sum(d.s))
}

// Prox stores U(Σ − γ·Weight)₊Vᵀ in dst.
func (g NuclearNorm) Prox(dst, x []float64, gamma float64) {
	sameLen(dst, x)
	t := gamma * g.Weight
	onSpectrum(dst, x, g.Rows, g.Cols, func(s []float64) (same bool) {
		for k := range s {
			s[k] = max(s[k]-t, 0)
		}
		return t == 0
	})
}

// onSpectrum stores U·diag(f(Σ))·Vᵀ in dst, or x if f reports that it has changed nothing, and NaN
// where there is no decomposition.
func onSpectrum(dst, x []float64, rows, cols int, f func(s []float64) (same bool)) {
	d, ok := decompose(x, rows, cols)
	defer spectra.Put(d)
	switch {
	case !ok:
		fillNaN(dst)
	case f(d.s):
		copy(dst, x)
	default:
		d.compose(dst)
	}
}

// Dist: with X′ = UΣVᵀ of rank r and the projections P on the span of U and Q
// on that of V, ∂g(X′)/Weight = {UVᵀ + W : PW = 0, WQ = 0, σ(W) ≤ 1}. With
// Y = −v and Z = (I−P)Y(I−Q) the distance squared is
//
//	‖Y − Z − Weight·UVᵀ‖² + Σ(σ_k(Z) − Weight)₊²
func (g NuclearNorm) Dist(x, v []float64) float64 {
	sameLen(x, v)
	d, ok := decompose(x, g.Rows, g.Cols)
	defer spectra.Put(d)
	if !ok || !finite(v) {
		return inf
	}
	return d.subgradient(v, g.Weight, false)
}

func (g NuclearNorm) shift(x []float64) float64 {
	d, ok := decompose(x, g.Rows, g.Cols)
	defer spectra.Put(d)
	if !ok {
		return inf
	}
	return d.shift(x, d.rank())
}

func (g NuclearNorm) check(dim int) error {
	if err := shape("NuclearNorm", g.Rows, g.Cols, dim); err != nil {
		return err
	}
	return weight("NuclearNorm.Weight", g.Weight)
}

// lipschitz is the largest ‖X‖_F with σ(X) ≤ Weight.
func (g NuclearNorm) lipschitz(int) float64 {
	return math.Sqrt(float64(min(g.Rows, g.Cols))) * g.Weight * (1 + 4*ulp)
}

// shape returns an error unless rows×cols is dim and neither is negative.
func shape(name string, rows, cols, dim int) error {
	if !fits(rows, cols, dim) {
		return invalid("%s of %d rows and %d columns in %d dimensions, want Rows·Cols = dim", name, rows, cols, dim)
	}
	return nil
}

// fits reports whether rows×cols is dim, without overflow.
func fits(rows, cols, dim int) bool {
	if rows <= 0 || cols <= 0 {
		return rows >= 0 && cols >= 0 && dim == 0
	}
	return dim%rows == 0 && dim/rows == cols
}

// member returns the decomposition of x in pooled scratch, the sum of the singular values, and
// whether x is a member.
func (g NuclearBall) member(x []float64) (d *spectrum, sum float64, ok bool) {
	d, ok = decompose(x, g.Rows, g.Cols)
	sum = floats.Sum(d.s)
	return d, sum, ok && (sum <= g.R || d.near(sum, g.R))
}

// Func returns 0 where Σσ_k ≤ R(1 + 2⁻⁴⁸·max(Rows,Cols)), +Inf elsewhere.
func (g NuclearBall) Func(x []float64) float64 {
	d, _, ok := g.member(x)
	defer spectra.Put(d)
	return indicator(ok)
}

// Prox stores U(Σ−τ)₊Vᵀ in dst.
func (g NuclearBall) Prox(dst, x []float64, _ float64) {
	sameLen(dst, x)
	r := g.R * (1 - edge(g.Rows, g.Cols)/4)
	onSpectrum(dst, x, g.Rows, g.Cols, func(s []float64) (same bool) {
		if floats.Sum(s) <= r {
			return true
		}
		if r == 0 {
			clear(s)
			return false
		}
		tau := waterline(s, 0, r, false)
		for k := range s {
			s[k] = max(s[k]-tau, 0)
		}
		floats.Scale(r/floats.Sum(s), s) // by 1 up to rounding of the largest
		return false
	})
}

// Dist: on the sphere N(X′) is the cone of the subgradients of the nuclear norm at X′, and with the
// notation of NuclearNorm.Dist the nearest subgradient has the weight t ≥ 0 that minimizes ‖Y − Z −
// t·UVᵀ‖² + Σ(σ_k(Z) − t)₊². Half the derivative is r·t − ⟨Y,UVᵀ⟩ − Σ(σ_k(Z)−t)₊, see rise.
func (g NuclearBall) Dist(x, v []float64) float64 {
	sameLen(x, v)
	d, sum, ok := g.member(x)
	defer spectra.Put(d)
	switch {
	case !ok || !finite(v):
		return inf
	case g.R == 0: // C = {0}: the normal cone is everything
		return 0
	case !d.near(sum, g.R):
		return number(norm2(v))
	}
	return d.subgradient(v, 0, true)
}

func (g NuclearBall) shift(x []float64) float64 {
	d, sum, ok := g.member(x)
	defer spectra.Put(d)
	switch {
	case !ok:
		return inf
	case sum == 0 || !d.near(sum, g.R):
		return 0
	}
	r := d.rank()
	return number(d.shift(x, r) + math.Abs(floats.Sum(d.s[:r])-g.R) + 4*ulp*float64(len(d.s))*g.R)
}

// Radius returns R, the norm of a matrix of rank one, rounded up; +Inf for an invalid ball.
func (g NuclearBall) Radius(dim int) float64 {
	return matrixRadius(g, dim, g.R*(1+edge(g.Rows, g.Cols)))
}

// matrixRadius returns r, the radius of a ball g of matrices, and +Inf if g fails its check.
func matrixRadius(g checker, dim int, r float64) float64 {
	if dim == 0 && g.check(dim) == nil {
		return 0
	}
	return validRadius(g, dim, r)
}

func (g NuclearBall) check(dim int) error {
	if err := shape("NuclearBall", g.Rows, g.Cols, dim); err != nil {
		return err
	}
	return radius("NuclearBall.R", g.R)
}

// member returns the decomposition of x in pooled scratch, the number of singular values that stand
// for R, and whether x is a member.
func (g SpectralBall) member(x []float64) (d *spectrum, on int, ok bool) {
	d, ok = decompose(x, g.Rows, g.Cols)
	for ok && on < len(d.s) && d.near(d.s[on], g.R) {
		on++
	}
	return d, on, ok && (on > 0 || len(d.s) == 0 || d.s[0] <= g.R)
}

// Func returns 0 where every σ_k ≤ R(1 + 2⁻⁴⁸·max(Rows,Cols)), +Inf elsewhere.
func (g SpectralBall) Func(x []float64) float64 {
	d, _, ok := g.member(x)
	defer spectra.Put(d)
	return indicator(ok)
}

// Prox stores U·min(Σ,R)·Vᵀ in dst.
func (g SpectralBall) Prox(dst, x []float64, _ float64) {
	sameLen(dst, x)
	r := g.R * (1 - edge(g.Rows, g.Cols)/4)
	onSpectrum(dst, x, g.Rows, g.Cols, func(s []float64) (same bool) {
		same = len(s) == 0 || s[0] <= r
		for k := range s {
			s[k] = min(s[k], r)
		}
		return same
	})
}

// Dist: let U and V be the singular vectors of the r singular values that stand for R. N(X′) =
// {USVᵀ : S symmetric, S ⪰ 0}, so with Y = −v the nearest element has S = (½(M + Mᵀ))₊, M = UᵀYV.
func (g SpectralBall) Dist(x, v []float64) float64 {
	sameLen(x, v)
	d, r, ok := g.member(x)
	defer spectra.Put(d)
	switch {
	case !ok || !finite(v):
		return inf
	case g.R == 0: // C = {0}: the normal cone is everything
		return 0
	case r == 0:
		return number(norm2(v))
	}
	buf := borrow(len(v))
	defer giveBack(buf)
	floats.ScaleTo(*buf, -1, v)
	u, vt := d.first(r)
	return fromCone(*buf, u, vt, blas.NoTrans)
}

// fromCone returns the distance of Y, which it destroys, from {USVᵀ : S symmetric, S ⪰ 0} for
// orthonormal columns of U and V. trans is NoTrans if v is Vᵀ, Trans if it is V.
func fromCone(y []float64, u, v blas64.General, trans blas.Transpose) float64 {
	m, r := u.Rows, u.Cols
	n := len(y) / u.Rows
	buf := borrow(r*n + r*r)
	defer giveBack(buf)
	given, uy := matrixOf(m, n, y), matrixOf(r, n, *buf)
	core := matrixOf(r, r, (*buf)[r*n:])
	other := blas.Transpose(blas.Trans)
	if trans == blas.Trans {
		other = blas.NoTrans
	}
	blas64.Gemm(blas.Trans, blas.NoTrans, 1, u, given, 0, uy)
	blas64.Gemm(blas.NoTrans, other, 1, uy, v, 0, core) // M = UᵀYV
	d, ok := diagonalize(core.Data, r)
	defer spectra.Put(d)
	if !ok {
		return inf
	}
	d.positivePart(core.Data)                                    // S
	blas64.Gemm(blas.NoTrans, trans, 1, core, v, 0, uy)          // SVᵀ
	blas64.Gemm(blas.NoTrans, blas.NoTrans, -1, u, uy, 1, given) // Y − USVᵀ
	return number(norm2(y))
}

// shift: X′ has R for the singular values that stand for it.
func (g SpectralBall) shift(x []float64) float64 {
	d, on, ok := g.member(x)
	defer spectra.Put(d)
	if !ok {
		return inf
	}
	if on == 0 {
		return 0
	}
	for k := range on {
		d.s[k] = g.R
	}
	return d.shift(x, len(d.s))
}

// Radius returns √min(Rows,Cols)·R, rounded up; +Inf for an invalid ball.
func (g SpectralBall) Radius(dim int) float64 {
	return matrixRadius(g, dim, math.Sqrt(float64(min(g.Rows, g.Cols)))*g.R*(1+edge(g.Rows, g.Cols)))
}

func (g SpectralBall) check(dim int) error {
	if err := shape("SpectralBall", g.Rows, g.Cols, dim); err != nil {
		return err
	}
	return radius("SpectralBall.R", g.R)
}
