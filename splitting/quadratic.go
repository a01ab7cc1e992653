// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting

import (
	"math"
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/lapack/lapack64"
	"gonum.org/v1/gonum/mat"
)

// parabola is f(x) = ½x'Qx − ⟨lin,x⟩ + c.
type parabola struct {
	q    *mat.SymDense // both triangles filled
	lin  []float64
	c    float64
	once sync.Once
	spectrum
}

// spectrum bounds the eigenvalues of Q from outside.
type spectrum struct{ lip, mu float64 }

// NewQuadratic returns f(x) = ½x'Qx − ⟨lin,x⟩ + c with a positive semidefinite Q, which is also
// [Convex] and a [Hessianer], and safe for concurrent use.
//
//	∇f(x) = Qx − lin,   L_f ≥ λ_max(Q),   0 ≤ μ ≤ λ_min(Q)
//
// It copies q and lin; a nil lin means 0. The eigenvalues of Q, with the rounding error of the
// eigensolver, are computed in O(d³) when a method first asks for L_f or μ. The error wraps
// ErrProblem if a coefficient is not finite, Q has a negative eigenvalue, or the size of q is not
// len(lin).
func NewQuadratic(q mat.Symmetric, lin []float64, c float64) (Quadratizer, error) {
	if q == nil {
		return nil, unfit("Quadratic: the matrix is nil, want a symmetric one")
	}
	d := q.SymmetricDim()
	if lin != nil && len(lin) != d {
		return nil, unfit("Quadratic: lin has %d entries, want %d, or nil", len(lin), d)
	}
	f := &parabola{q: mat.NewSymDense(d, nil), lin: make([]float64, d), c: c}
	copy(f.lin, lin)
	if math.IsNaN(c) || math.IsInf(c, 0) || !finite(f.lin) {
		return nil, unfit("Quadratic: a coefficient is not finite, want finite numbers")
	}
	f.q.CopySym(q)
	raw := f.q.RawSymmetric().Data
	mirror(raw, d)
	if !finite(raw) {
		return nil, unfit("Quadratic: an entry of Q is not finite, want finite numbers")
	}
	if f.definite() {
		return f, nil
	}
	least, ok := f.eigen()
	if !ok {
		return nil, unfit("Quadratic: the eigenvalues of Q were not found")
	}
	if !least {
		return nil, unfit("Quadratic: Q has a negative eigenvalue, want a positive semidefinite matrix")
	}
	f.once.Do(func() {})
	return f, nil
}

// definite reports whether Q has a Cholesky factor with room for rounding. Then no eigenvalue is
// negative; a sixth of the work of all eigenvalues shows it.
func (f *parabola) definite() bool {
	d := len(f.lin)
	top := mat.Norm(f.q, math.Inf(1))
	if !(top >= 0x1p-500 && top <= 0x1p500) { // entries may under- or overflow
		return false
	}
	shifted := mat.NewSymDense(d, nil)
	shifted.CopySym(f.q)
	margin := 4 * float64(d) * 0x1p-53 * top
	for i := range d {
		shifted.SetSym(i, i, f.q.At(i, i)+margin)
	}
	_, ok := lapack64.Potrf(shifted.RawSymmetric())
	return ok
}

// eigen computes the spectrum, and reports whether no eigenvalue is negative up to rounding.
func (f *parabola) eigen() (least, ok bool) {
	d := len(f.lin)
	v, ok := eigenvalues(f.q)
	if !ok {
		f.spectrum = spectrum{math.Inf(1), 0}
		return false, false
	}
	// The QR algorithm is backward stable: the error of an eigenvalue is at most a small multiple of
	// d·2⁻⁵³·‖Q‖, and 8 covers the multiple [LAPACK Users' Guide §4.7].
	size := math.Max(math.Abs(v[0]), math.Abs(v[d-1]))
	margin := 8 * float64(d) * 0x1p-53 * size
	f.spectrum = spectrum{math.Max(v[d-1], 0) + margin, math.Max(v[0]-margin, 0)}
	return v[0] >= -margin, true
}

// bounds returns the spectrum.
func (f *parabola) bounds() spectrum {
	f.once.Do(func() { f.eigen() })
	return f.spectrum
}

// eigenvalues returns the eigenvalues of q in increasing order. It scales q to about 1 by a power
// of two and drops entries below 2⁻³⁰⁰ of the largest, which changes eigenvalues by less than
// 2⁻²⁹⁰, because gonum's iteration panics for blocks near underflow.
func eigenvalues(q *mat.SymDense) (v []float64, ok bool) {
	d := q.SymmetricDim()
	scaled := mat.NewSymDense(d, nil)
	scaled.CopySym(q)
	raw := scaled.RawSymmetric()
	top := floats.Norm(raw.Data, math.Inf(1))
	if top == 0 {
		return make([]float64, d), true
	}
	_, e := math.Frexp(top)
	for i, x := range raw.Data {
		if x = math.Ldexp(x, -e); math.Abs(x) < 0x1p-300 {
			x = 0
		}
		raw.Data[i] = x
	}
	var eig mat.EigenSym
	if !eig.Factorize(scaled, false) {
		return nil, false
	}
	v = eig.Values(nil)
	for i := range v {
		v[i] = math.Ldexp(v[i], e)
	}
	return v, true
}

// quadratic returns the coefficients of f in n dimensions, if it is a quadratic.
func quadratic(f Smooth, n int) (q *mat.SymDense, lin []float64, ok bool) {
	quad, ok := f.(Quadratizer)
	if !ok {
		return nil, nil, false
	}
	if q, lin, _, ok = quad.Quadratic(); ok && (q.SymmetricDim() != n || len(lin) != n) {
		panic(badLen)
	}
	return q, lin, ok
}

func (f *parabola) Func(x []float64) float64 {
	if len(x) != len(f.lin) {
		panic(badLen)
	}
	raw := f.q.RawSymmetric()
	var s float64
	for i, v := range x {
		s += v * (0.5*floats.Dot(raw.Data[i*raw.Stride:i*raw.Stride+len(x)], x) - f.lin[i])
	}
	return s + f.c
}

func (f *parabola) Grad(dst, x []float64) {
	if len(x) != len(f.lin) || len(dst) != len(x) {
		panic(badLen)
	}
	raw := f.q.RawSymmetric()
	gradient(dst, raw.Data, f.lin, x)
}

// gradient stores Qx − lin in dst for a full row-major Q. Gemv reads Q once and is three to four
// times faster than Symv.
func gradient(dst, q, lin, x []float64) {
	n := len(x)
	copy(dst, lin)
	blas64.Gemv(blas.NoTrans, 1, blas64.General{Rows: n, Cols: n, Data: q, Stride: n},
		blas64.Vector{N: n, Data: x, Inc: 1}, -1, blas64.Vector{N: n, Data: dst, Inc: 1})
}

func (f *parabola) dim() (d int, ok bool) { return len(f.lin), true }
func (f *parabola) Smoothness() float64   { return f.bounds().lip }
func (f *parabola) Convexity() float64    { return f.bounds().mu }

func (f *parabola) Quadratic() (q *mat.SymDense, lin []float64, c float64, ok bool) {
	return f.q, f.lin, f.c, true
}

func (f *parabola) Hessian(dst *mat.SymDense, x []float64) {
	if len(x) != len(f.lin) || dst.SymmetricDim() != len(x) {
		panic(badLen)
	}
	dst.CopySym(f.q)
}
