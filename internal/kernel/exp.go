// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package kernel

import "math"

// AddExp adds exp(e + b[k] − g·c[k]) to p[k] and returns the first and the last of these terms. The
// exponential has a relative error of at most 2⁻⁵⁰ and takes arguments to [−708, 709]; NaN stays
// NaN. Its bits are the same on all processors, and it takes a fraction of the time of math.Exp.
func AddExp(p, b, c *[16]float64, e, g float64) (first, last float64) {
	if haveRows {
		return addExp(&p[0], &b[0], &c[0], e, g)
	}
	for k := range p {
		last = exp(e + b[k] - float64(g*c[k]))
		if p[k] += last; k == 0 {
			first = last
		}
	}
	return first, last
}

// exp returns 2ᵏ times the first terms of the series of exp(r), with x = k·log 2 + r.
func exp(x float64) float64 {
	const shift = 3 << 51 // puts an integer into the last bits
	if x < -708 {
		x = -708
	}
	if x > 709 {
		x = 709
	}
	t := float64(x*math.Log2E) + shift
	k := t - shift
	// The product with the first part of log 2 is exact.
	r := x - float64(k*6.93147180369123816490e-01) - float64(k*1.90821492927058770002e-10)
	r2 := r * r
	r4 := r2 * r2
	s := (1 + r) + float64(r2*(1./2+float64(r*(1./6))))
	u := (1./24 + float64(r*(1./120))) + float64(r2*(1./720+float64(r*(1./5040))))
	v := (1./40320 + float64(r*(1./362880))) + float64(r2*(1./3628800+float64(r*(1./39916800))))
	s += float64(r4 * u)
	v += float64(r4 * (1. / 479001600))
	s += float64(float64(r4*r4) * v)
	return float64(s * math.Float64frombits(math.Float64bits(1)+math.Float64bits(t)<<52))
}
