// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package randmat draws Wishart matrices ([Wishart]), proves bounds on the extreme eigenvalues of a
// symmetric matrix ([MinEig], [MaxEig]) and computes the law of the least eigenvalue of a Wishart
// matrix ([MinEigenvalueLaw]). Proofs are in docs/theory/numerics.md#numerics.wishart and the
// sections after it. A draw whose eigenvalues certainly lie in [lo, hi], for lo > 0:
//
//	w := mat.NewSymDense(d, nil)
//	for err == nil && (randmat.MinEig(w) < lo || randmat.MaxEig(w) > hi) {
//		err = randmat.Wishart(w, m, src)
//	}
//
// # Notation
//
//	d            dimension of a matrix
//	m            degrees of freedom, m > d-1: real for a law, an integer for a draw
//	W ~ W_d(m)   Wishart: for an integer m, W = G G' with G a d×m matrix of standard normals
//	T            Bartlett's lower triangular factor, W = T T'
//	k            m-d+1
//	F(x)         P(λ_min(W) < x)
//	u            2⁻⁵³, the unit roundoff
//
// # References
//
//	[Bar33]  Bartlett. On the Theory of Statistical Regression. Proc. R. Soc. Edinburgh 53, 1933.
//	[DE02]   Dumitriu, Edelman. Matrix Models for Beta Ensembles. J. Math. Phys. 43, 2002.
//	[DS01]   Davidson, Szarek. Local Operator Theory, Random Matrices and Banach Spaces. Handbook of
//	         the Geometry of Banach Spaces 1, 2001.
//	[Ede88]  Edelman. Eigenvalues and Condition Numbers of Random Matrices. SIAM J. Matrix Anal.
//	         Appl. 9, 1988.
//	[Lan50]  Lanczos. An Iteration Method for the Solution of the Eigenvalue Problem. J. Res. NBS 45,
//	         1950.
//	[Rum06]  Rump. Verification of Positive Definiteness. BIT 46, 2006.
package randmat

import (
	"errors"
	"sync"
)

// Errors that this package wraps. Test with errors.Is.
var (
	// ErrDegrees reports degrees of freedom that are not above d-1 or not finite, or for a draw not
	// an integer up to 2¹⁶.
	ErrDegrees = errors.New("randmat: degrees of freedom out of range")
	// ErrDimension reports a matrix without rows.
	ErrDimension = errors.New("randmat: empty matrix")
)

// buffers recycles work space, cleared when it is put back, because it may have held noise.
var buffers sync.Pool

// take returns a slice of n zeros from the pool.
func take(n int) *[]float64 {
	if b, ok := buffers.Get().(*[]float64); ok && cap(*b) >= n {
		*b = (*b)[:n]
		return b
	}
	b := make([]float64, n)
	return &b
}

// give clears b and returns it to the pool.
func give(b *[]float64) {
	clear(*b)
	buffers.Put(b)
}
