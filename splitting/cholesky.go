// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// raise is the τ by which diagonals of singular matrices are raised: far above the rounding error
// of Cholesky's method, n·2⁻⁵², and of the gradient, which moves the solution by some 2⁻⁵³/τ of
// itself along the kernel, and far below the accuracy of any residual.
const raise = 0x1p-40

// raised computes the Cholesky factor of the n×n matrix whose packed lower rows fill stores, with
// the diagonal times 1 + τ if the matrix is numerically singular, or if singular is already set. It
// reports success.
func raised(a []float64, n int, singular *bool, fill func(r int, row []float64)) bool {
	try := func(tau float64) bool {
		for r := range n {
			row := a[r*(r+1)/2:][:r+1]
			fill(r, row)
			row[r] *= 1 + tau
		}
		return cholesky(a, n)
	}
	if !*singular && try(0) {
		return true
	}
	*singular = true
	tau := math.Max(raise, 8*float64(n)*0x1p-52)
	return try(tau) || try(1e3*tau)
}

// cholesky replaces the packed lower rows of a symmetric n×n matrix by its Cholesky factor. It
// reports false where a pivot falls below its rounding error.
func cholesky(a []float64, n int) bool {
	for i := range n {
		ri := a[i*(i+1)/2:][:i+1]
		diag := ri[i]
		for j := range i {
			rj := a[j*(j+1)/2:][:j+1]
			ri[j] = (ri[j] - floats.Dot(ri[:j], rj[:j])) / rj[j]
		}
		pivot := diag - floats.Dot(ri[:i], ri[:i])
		if !(pivot > float64(n)*0x1p-52*diag) {
			return false
		}
		ri[i] = math.Sqrt(pivot)
	}
	return true
}

// cholSolve replaces b by (LL')⁻¹b.
func cholSolve(l, b []float64) {
	for i := range b {
		row := l[i*(i+1)/2:][:i+1]
		b[i] = (b[i] - floats.Dot(row[:i], b[:i])) / row[i]
	}
	for i := len(b) - 1; i >= 0; i-- {
		row := l[i*(i+1)/2:][:i+1]
		b[i] /= row[i]
		floats.AddScaled(b[:i], -b[i], row[:i])
	}
}
