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

// HalfSums is [Sums] for noise ν of float32.
func HalfSums(c, r float64) bool {
	for _, v := range around(float32(r - c)) {
		if c+float64(v) == r {
			return true
		}
	}
	return false
}

// Sums32 is [Sums] in float32: of the rounded point and noise of float32.
func Sums32(c, r float64) bool {
	if float64(float32(r)) != r {
		return false
	}
	for _, v := range around(float32(r) - float32(c)) {
		if float32(c)+v == float32(r) {
			return true
		}
	}
	return false
}

// around returns nu and the numbers beside it.
func around(nu float32) [3]float32 {
	far := float32(math.Inf(1))
	return [3]float32{nu, math.Nextafter32(nu, far), math.Nextafter32(nu, -far)}
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
