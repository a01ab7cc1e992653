// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package enclose

import "math"

// ExceedsExpm1 reports whether e^y − 1 ≥ x is certain, for 0 ≤ y ≤ 700; for other y it returns
// false. With z = y/2ᵏ ≤ ¼ it computes
//
//	e^z − 1 ≥ z(1 + z/2(1 + z/3(⋯ (1 + z/14)))),   e^{2z} − 1 = m(m+2) at m = e^z − 1
//
// with a relative error of less than 5·2ᵏ·2⁻⁵³: docs/theory/enclosures.md#enclosures.float.
func ExceedsExpm1(y, x float64) bool {
	if !(y >= 0 && y <= 700) {
		return false
	}
	z, k := y, 0
	for z > 0.25 {
		z /= 2
		k++
	}
	m := 1.0
	for n := 14.0; n >= 2; n-- {
		m = 1 + z/n*m
	}
	m *= z
	for range k {
		m *= m + 2
	}
	return m*(1-math.Ldexp(5, k-53)) >= x
}

// Below returns a float64 that is certainly at most the number, and close to it if the least
// precision is enough, or −Inf.
func Below(number func(c Arithmetic) Interval) (v float64) {
	v = math.Inf(-1)
	Proves(nil, func(c Arithmetic) (less, more Interval) {
		if x := number(New(leastPrec, nil)); !x.Lo.IsInf() {
			v, _ = x.Lo.Float64()
			v = math.Nextafter(v, math.Inf(-1))
		}
		return c.Of(0), c.Of(0)
	})
	return v
}
