// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package prox

import (
	"math"
	"slices"
	"sync/atomic"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/lapack/lapack64"
	"gonum.org/v1/gonum/mat"
)

// quadratic is ½x'Qx + ⟨c,x⟩.
type quadratic struct {
	q    *mat.SymDense
	c    []float64
	last atomic.Pointer[factored]
}

// factored is the Cholesky factor of I + γQ.
type factored struct {
	gamma float64
	u     blas64.Triangular // U'U = I + γQ
}

// NewQuadratic returns g(x) = ½x'Qx + ⟨c,x⟩ for a positive semidefinite Q, with
//
//	prox_{γg}(x) = (I + γQ)⁻¹(x − γc)   [PB14, §6.1.1]
//
// The Cholesky factor is computed once for each γ that follows another one: O(d³), then O(d²). It
// is safe for concurrent use, and copies q and c; a nil c means 0. The error wraps ErrParameter if
// an entry is not finite, the lengths differ, or Q is not positive semidefinite up to rounding.
func NewQuadratic(q mat.Symmetric, c []float64) (Operator, error) {
	if q == nil {
		return nil, invalid("NewQuadratic: the matrix is nil, want a symmetric one")
	}
	d := q.SymmetricDim()
	if c == nil {
		c = make([]float64, d)
	}
	g := &quadratic{q: mat.NewSymDense(d, nil), c: slices.Clone(c)}
	g.q.CopySym(q)
	if len(c) != d || !finite(c) || !finite(g.q.RawSymmetric().Data) {
		return nil, invalid("NewQuadratic: Q is %d×%d and c has %d entries, want one length and finite numbers", d, d, len(c))
	}
	// A semidefinite Q with λ ≥ −d·2⁻⁵⁰·‖Q‖ has a factor after this shift.
	if size := mat.Norm(g.q, math.Inf(1)); size > 0 {
		if f := g.factor(0x1p40 / (float64(max(d, 1)) * size)); f == nil {
			return nil, invalid("NewQuadratic: Q has a negative eigenvalue, want a positive semidefinite matrix")
		}
	}
	return g, nil
}

// factor returns the factor for γ, nil if I + γQ is not positive definite.
func (g *quadratic) factor(gamma float64) *factored {
	if f := g.last.Load(); f != nil && f.gamma == gamma {
		return f
	}
	d := g.q.SymmetricDim()
	shifted := mat.NewSymDense(d, nil)
	shifted.ScaleSym(gamma, g.q)
	for i := range d {
		shifted.SetSym(i, i, 1+shifted.At(i, i))
	}
	u, ok := lapack64.Potrf(shifted.RawSymmetric())
	if !ok {
		return nil
	}
	f := &factored{gamma, u}
	g.last.Store(f)
	return f
}

// Func returns ½x'Qx + ⟨c,x⟩.
func (g *quadratic) Func(x []float64) float64 {
	sameLen(x, g.c)
	if !finite(x) {
		return inf
	}
	v := mat.NewVecDense(len(x), x)
	return number(mat.Inner(v, g.q, v)/2 + floats.Dot(g.c, x))
}

// Prox stores (I + γQ)⁻¹(x − γc) in dst, and NaN where γ is too large for float64.
func (g *quadratic) Prox(dst, x []float64, gamma float64) {
	sameLen(dst, x)
	sameLen(x, g.c)
	floats.AddScaledTo(dst, x, -gamma, g.c)
	f := g.factor(gamma)
	if f == nil {
		fillNaN(dst)
		return
	}
	to := blas64.Vector{N: len(dst), Data: dst, Inc: 1}
	blas64.Trsv(blas.Trans, f.u, to)
	blas64.Trsv(blas.NoTrans, f.u, to)
}

// Dist returns ‖v + Qx + c‖₂.
func (g *quadratic) Dist(x, v []float64) float64 {
	sameLen(x, v)
	sameLen(x, g.c)
	if !finite(x) {
		return inf
	}
	var w mat.VecDense
	w.MulVec(g.q, mat.NewVecDense(len(x), x))
	return overCoordinates(g.c, v, func(i int, c, vi float64) float64 { return math.Abs(vi + c + w.AtVec(i)) })
}

// Check wants dim to be the order of Q.
func (g *quadratic) Check(dim int) error {
	if dim != len(g.c) {
		return invalid("NewQuadratic of %d coordinates in %d dimensions, want %d", len(g.c), dim, len(g.c))
	}
	return nil
}
