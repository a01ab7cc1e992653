package enclose

import "math"

// Log1pAbove returns a float64 of at least log(1 + x) for x ≥ 0, above it by 2⁻⁴⁵ of itself or
// so; +Inf where it knows none, as for x > 10³⁰⁴ and NaN. It is fast: what float64 takes for
// the logarithm, raised, is held against x by ExceedsExpm1.
func Log1pAbove(x float64) float64 {
	y := math.Log1p(x) * (1 + 0x1p-45)
	if !(x >= 0 && ExceedsExpm1(y, x)) {
		return math.Inf(1)
	}
	return y
}

// ExceedsExpm1 reports whether e^y − 1 ≥ x is certain, for 0 ≤ y ≤ 700; beyond it says no. With
// z = y/2ᵏ ≤ ¼,
//
//	e^z − 1 ≥ z(1 + z/2(1 + z/3(⋯ (1 + z/14)))),   e^{2z} − 1 = m(m+2) at m = e^z − 1
//
// are sums and products of positive numbers, each rounded by u = 2⁻⁵³ of itself at most. A
// bracket 1 + w with w ≤ 0.15 passes on a seventh of the error of w, so that the first has an
// error of less than 3u; a step to 2z doubles what is there and adds 2u. After k ≤ 12 steps that
// is less than 5·2ᵏu.
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

// Below returns a float64 that is certainly at most the number, close to it, and −Inf where
// it knows none.
func Below(number func(c Arithmetic) Interval) (v float64) {
	v = math.Inf(-1)
	Proves(nil, func(c Arithmetic) (less, more Interval) {
		if x := number(New(128, nil)); !x.Lo.IsInf() {
			v, _ = x.Lo.Float64()
			v = math.Nextafter(v, math.Inf(-1))
		}
		return c.Of(0), c.Of(0)
	})
	return v
}
