// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package kernel

import "math"

// The bits of the three functions of this file are the same on all processors: products are rounded
// before they are added, and sums have one order.

// ShrinkDot stores θ = soft(x, τ), which is sgn(xⱼ)·max(|xⱼ|−τ, 0) in coordinate j, in theta and
// returns ⟨a,θ⟩. theta and a have the length of x, and τ ≥ 0. A NaN stays NaN. θ is rounded once
// per coordinate.
func ShrinkDot(theta, x, a []float64, tau float64) float64 {
	n := len(x)
	theta, a = theta[:n], a[:n]
	if haveRows && n > 0 {
		return shrinkDot(&theta[0], &x[0], &a[0], n, tau)
	}
	var s [8]float64
	limit := math.Float64bits(tau)
	i := 0
	for ; i+8 <= n; i += 8 {
		t, v := (*[8]float64)(theta[i:]), (*[8]float64)(x[i:])
		b := (*[8]float64)(a[i:])
		for k := range s {
			t[k] = soften(v[k], limit)
			s[k] += float64(b[k] * t[k])
		}
	}
	for ; i < n; i++ {
		theta[i] = soften(x[i], limit)
		s[i%8] += float64(a[i] * theta[i])
	}
	return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
}

// Relax is the second half of a step of three-operator splitting with a box:
//
//	z = clip(αθ − x − ca − ωq, lo, hi),   x ← x + λ(z − θ)
//
// All slices have the length of x, and lo ≤ hi. A NaN stays NaN.
func Relax(x, theta, a, q []float64, alpha, c, omega, lo, hi, lambda float64) {
	theta, a = theta[:len(x)], a[:len(x)]
	q = q[:len(x)]
	if haveRows && len(x) > 0 {
		relax(&x[0], &theta[0], &a[0], &q[0], len(x), alpha, c, omega, lo, hi, lambda)
		return
	}
	l, h := math.Float64bits(lo), math.Float64bits(hi)
	for i, v := range x {
		t := theta[i]
		z := float64(alpha*t) - v - float64(c*a[i]) - float64(omega*q[i])
		b := math.Float64bits(z)
		if z < lo {
			b = l
		}
		if z > hi {
			b = h
		}
		x[i] = v + float64(lambda*(math.Float64frombits(b)-t))
	}
}

// Symv stores Qx in dst. Both triangles of the symmetric Q are stored, in rows that are
// GramStride(len(x)) apart, so that wide loads meet one cache line each. dst must not overlap x.
func Symv(dst, q, x []float64) {
	n, stride := len(x), GramStride(len(x))
	dst, q = dst[:n], q[:n*stride]
	if haveWide {
		for j := 0; j < n; j += 128 {
			sumRows8(&dst[j], &q[j], &x[0], n, min(128, n-j), stride)
		}
		return
	}
	clear(dst)
	i := 0
	if haveRows && n >= 4 {
		sumRows(&dst[0], &q[0], &x[0], n/4, n, stride)
		i = n &^ 3
	}
	for ; i+4 <= n; i += 4 {
		w, r0 := (*[4]float64)(x[i:]), q[i*stride:][:n]
		r1 := q[(i+1)*stride:][:n]
		r2, r3 := q[(i+2)*stride:][:n], q[(i+3)*stride:][:n]
		for j, v := range dst {
			dst[j] = v + float64(w[0]*r0[j]) + float64(w[1]*r1[j]) + float64(w[2]*r2[j]) + float64(w[3]*r3[j])
		}
	}
	for ; i < n; i++ {
		for j, v := range q[i*stride:][:n] {
			dst[j] += float64(x[i] * v)
		}
	}
}

const signBit = 1 << 63

// soften returns soft(v, τ) = v − clip(v, −τ, τ), where limit is the bits of τ.
//
// soften and the clipping of Relax compile to code without branches, which would be unpredictable
// on noisy data and take five times as long: the compiler turns an assignment of an integer under
// an if into a conditional move, and magnitudes of floats have the order of their bits as integers.
func soften(v float64, limit uint64) float64 {
	b := math.Float64bits(v)
	m := b &^ signBit
	if m > limit {
		m = limit
	}
	return v - math.Float64frombits(m|b&signBit)
}
