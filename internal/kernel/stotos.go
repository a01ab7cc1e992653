// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package kernel

import (
	"math"

	"gonum.org/v1/gonum/blas"
)

// ShrinkDot stores θ = soft(x, τ), which is sgn(xⱼ)·max(|xⱼ|−τ, 0) in coordinate j, in theta and
// returns ⟨a,θ⟩. theta and a have the length of x, and τ ≥ 0. A NaN stays NaN. θ is rounded once
// per coordinate; the sum has the bits of gonum's Ddot.
func ShrinkDot(theta, x, a []float64, tau float64) float64 {
	theta, a = theta[:len(x)], a[:len(x)]
	limit := math.Float64bits(tau)
	i := 0
	for ; i < len(x)-1; i += 2 {
		theta[i], theta[i+1] = soften(x[i], limit), soften(x[i+1], limit)
	}
	if i < len(x) {
		theta[i] = soften(x[i], limit)
	}
	return sse.Ddot(len(x), a, 1, theta, 1)
}

// Relax is the second half of a step of three-operator splitting with a box:
//
//	z = clip(αθ − x − ca − ωq, lo, hi),   x ← x + λ(z − θ)
//
// All slices have the length of x, and lo ≤ hi. A NaN stays NaN.
func Relax(x, theta, a, q []float64, alpha, c, omega, lo, hi, lambda float64) {
	theta, a, q = theta[:len(x)], a[:len(x)], q[:len(x)]
	if lo == -hi {
		limit := math.Float64bits(hi)
		i := 0
		for ; i < len(x)-1; i += 2 { // two at a time: they do not wait for each other
			v, w := x[i], x[i+1]
			t, u := theta[i], theta[i+1]
			y := alpha*t - v - c*a[i] - omega*q[i]
			z := alpha*u - w - c*a[i+1] - omega*q[i+1]
			x[i] = v + lambda*(limited(y, hi, limit)-t)
			x[i+1] = w + lambda*(limited(z, hi, limit)-u)
		}
		if i < len(x) {
			x[i] += lambda * (limited(alpha*theta[i]-x[i]-c*a[i]-omega*q[i], hi, limit) - theta[i])
		}
		return
	}
	l, h := math.Float64bits(lo), math.Float64bits(hi)
	for i, v := range x {
		t := theta[i]
		z := alpha*t - v - c*a[i] - omega*q[i]
		b := math.Float64bits(z)
		if z < lo {
			b = l
		}
		if z > hi {
			b = h
		}
		x[i] = v + lambda*(math.Float64frombits(b)-t)
	}
}

// Symv stores Qx in dst. Both triangles of the symmetric Q are stored, row-major without gaps. dst
// must not overlap x. The product is gonum's Dgemv, three to four times as fast as its Dsymv.
func Symv(dst, q, x []float64) {
	n := len(x)
	sse.Dgemv(blas.NoTrans, n, n, 1, q[:n*n], max(n, 1), x, 1, 0, dst[:n], 1)
}

const signBit = 1 << 63

// soften returns soft(v, τ) = v − clip(v, −τ, τ), where limit is the bits of τ.
//
// soften and limited compile to code without branches, which would be unpredictable on noisy data
// and take five times as long: the compiler turns an assignment of an integer under an if into a
// conditional move, and magnitudes of floats have the order of their bits as integers.
func soften(v float64, limit uint64) float64 {
	b := math.Float64bits(v)
	m := b &^ signBit
	if m > limit {
		m = limit
	}
	return v - math.Float64frombits(m|b&signBit)
}

// limited returns clip(z, −hi, hi), where limit is the bits of hi. A NaN stays NaN.
func limited(z, hi float64, limit uint64) float64 {
	b := math.Float64bits(z)
	m := b &^ signBit
	if math.Abs(z) > hi {
		m = limit
	}
	return math.Float64frombits(m | b&signBit)
}
