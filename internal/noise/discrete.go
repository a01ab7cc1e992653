// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package noise

import (
	"math/bits"
	"math/rand/v2"
)

const (
	errInterval = "noise: the interval must have at least one point"
	errTime     = "noise: the scale of a geometric draw must lie between 1 and 2^40"

	maxTime = 1 << 40
)

// Below draws a uniform integer of 0, …, n-1. It panics if n = 0.
func Below(n uint64, src rand.Source) uint64 {
	if n == 0 {
		panic(errInterval)
	}
	drop := bits.LeadingZeros64((n - 1) | 1)
	for try := 1; ; try++ { // a try fails with probability at most 1/2
		if u := src.Uint64() >> drop; u < n {
			return u
		}
		giveUp(try, maxTries, src)
	}
}

// Geometric draws from the law on 0, 1, 2, … with
//
//	P(k) = (1 - e^{-1/t}) e^{-k/t},
//
// exactly: it uses integers and comparisons alone, no rounding [CKS20, Algorithm 2]. It panics
// unless 1 ≤ t ≤ 2⁴⁰. A draw is 2⁵⁰ or more with probability below e⁻¹⁰⁰⁰.
func Geometric(t uint64, src rand.Source) uint64 {
	checkTime(t)
	u := Below(t, src)
	for try := 1; !bernoulliExp(u, t, src); try++ { // a try fails with probability below 1 - 1/e
		giveUp(try, maxTries, src)
		u = Below(t, src)
	}
	// u has P ∝ e^{-u/t} on 0, …, t-1; v counts whole multiples of t.
	v := uint64(0)
	for bernoulliExp(1, 1, src) {
		v++
		giveUp(v, maxTries, src)
	}
	return u + t*v
}

// DiscreteLaplace draws from the law on the integers with P(k) ∝ e^{-|k|/t}, exactly. It panics
// unless 1 ≤ t ≤ 2⁴⁰.
func DiscreteLaplace(t uint64, src rand.Source) int64 {
	checkTime(t)
	for try := 1; ; try++ { // a try fails with probability at most (1 - 1/e)/2
		k := int64(Geometric(t, src))
		switch negative := src.Uint64()>>63 == 1; {
		case !negative:
			return k
		case k > 0: // the other half of the draws of 0 is thrown away
			return -k
		}
		giveUp(try, maxTries, src)
	}
}

// bernoulliExp draws true with probability e^{-a/b}, 0 ≤ a ≤ b, b > 0 [CKS20, Algorithm 1]:
// docs/theory/numerics.md#numerics.discrete
func bernoulliExp(a, b uint64, src rand.Source) bool {
	for k := uint64(1); ; k++ {
		if !(Below(b, src) < a && Below(k, src) == 0) {
			return k%2 == 1
		}
		giveUp(k, maxTries, src)
	}
}

func checkTime(t uint64) {
	if t < 1 || t > maxTime {
		panic(errTime)
	}
}
