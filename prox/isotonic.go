// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package prox

// Isotonic is the set {x : x_1 ≤ x_2 ≤ …}. Its projection pools adjacent violators: it merges
// neighboring runs of coordinates whose means decrease, and replaces each run by its mean, in O(d)
// [BC90]. Prox.Scale(Isotonic{}, -1, 1) is the set of decreasing x.
type Isotonic struct{}

// Func returns 0 where x is nondecreasing and +Inf elsewhere, decided exactly.
func (Isotonic) Func(x []float64) float64 {
	if !finite(x) {
		return inf
	}
	for i := 1; i < len(x); i++ {
		if x[i] < x[i-1] {
			return inf
		}
	}
	return 0
}

// Prox stores the nondecreasing vector nearest to x in dst.
func (Isotonic) Prox(dst, x []float64, _ float64) {
	sameLen(dst, x)
	monotone(dst, x)
}

// monotone stores the projection of x on the nondecreasing vectors in dst, which may be x.
func monotone(dst, x []float64) {
	buf := borrow(2 * len(x))
	defer giveBack(buf)
	mean, size := (*buf)[:len(x)], (*buf)[len(x):] // of the runs so far
	runs := 0
	for _, v := range x {
		m, n := v, 1.0
		for runs > 0 && !(mean[runs-1] < m) && m == m {
			runs--
			n += size[runs]
			m += (mean[runs] - m) * (size[runs] / n)
		}
		mean[runs], size[runs] = m, n
		runs++
	}
	i := 0
	for k := range runs {
		for range int(size[k]) {
			dst[i] = mean[k]
			i++
		}
	}
}

// Dist: the normal cone at x is the polar of the tangent cone, the vectors that are nondecreasing
// on every run of equal coordinates. So dist(−v, N(x)) is the norm of the projection of −v on that
// cone.
func (g Isotonic) Dist(x, v []float64) float64 {
	sameLen(x, v)
	if g.Func(x) != 0 {
		return inf
	}
	buf := borrow(len(x))
	defer giveBack(buf)
	w := *buf
	for i, vi := range v {
		w[i] = -vi
	}
	for a := 0; a < len(x); {
		b := a + 1
		for b < len(x) && x[b] == x[a] {
			b++
		}
		monotone(w[a:b], w[a:b])
		a = b
	}
	return number(norm2(w))
}

// Radius returns +Inf.
func (Isotonic) Radius(int) float64 { return inf }

func (Isotonic) check(int) error { return nil }
