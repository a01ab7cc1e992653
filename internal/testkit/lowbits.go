// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package testkit

import "math"

// Sums reports whether fl(c + ν) = r for some float64 ν: whether r can be the sum of
// c and noise in float64. That is the attack on the last bits of a release [Mir12].
//
//	[Mir12]  Mironov. On Significance of the Least Significant Bits for
//	         Differential Privacy. CCS 2012.
func Sums(c, r float64) bool {
	nu := r - c
	for _, v := range []float64{nu, math.Nextafter(nu, math.Inf(1)), math.Nextafter(nu, math.Inf(-1))} {
		if c+v == r {
			return true
		}
	}
	return false
}

// Reaches is an attack on all coordinates of a release: could it come from c?
func Reaches(c, r []float64, from func(c, r float64) bool) bool {
	for j := range c {
		if !from(c[j], r[j]) {
			return false
		}
	}
	return true
}
