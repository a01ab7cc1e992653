package erm

import "math"

// The explicit float64 conversions below forbid the compiler to fuse a product
// with the sum that follows, as it may on some processors: error-free
// transformations need the rounded product.

// unit is the unit roundoff u of float64.
const unit = 0x1p-53

// twoSum returns s = fl(a+b) and the error e = a+b−s, exactly.
func twoSum(a, b float64) (s, e float64) {
	s = a + b
	t := s - a
	return s, (a - (s - t)) + (b - t)
}

// dot2 returns Σ aⱼxⱼ as hi + lo, as if computed in twice the precision and
// rounded: the error is at most d²u²·Σ|aⱼxⱼ|. Two interleaved sums hide the
// latency of the additions.
func dot2(a, x []float64) (hi, lo float64) {
	x = x[:len(a)]
	var h0, h1, l0, l1 float64
	j := 0
	for ; j+1 < len(a); j += 2 {
		p0, p1 := float64(a[j]*x[j]), float64(a[j+1]*x[j+1])
		e0, e1 := math.FMA(a[j], x[j], -p0), math.FMA(a[j+1], x[j+1], -p1)
		s0, s1 := h0+p0, h1+p1
		t0, t1 := s0-h0, s1-h1
		l0 += (h0 - (s0 - t0)) + (p0 - t0) + e0
		l1 += (h1 - (s1 - t1)) + (p1 - t1) + e1
		h0, h1 = s0, s1
	}
	if j < len(a) {
		p := float64(a[j] * x[j])
		e := math.FMA(a[j], x[j], -p)
		s, t := twoSum(h0, p)
		h0, l0 = s, l0+t+e
	}
	hi, lo = twoSum(h0, h1)
	return hi, lo + l0 + l1
}

// dotSparse2 is dot2 for a sparse row with the columns col.
func dotSparse2(col []int32, a, x []float64) (hi, lo float64) {
	a = a[:len(col)]
	for k, j := range col {
		p := float64(a[k] * x[j])
		e := math.FMA(a[k], x[j], -p)
		s, t := twoSum(hi, p)
		hi, lo = s, lo+t+e
	}
	return hi, lo
}

// axpySparse2 is axpy2 for a sparse row with the columns col.
func axpySparse2(hi, lo []float64, w float64, col []int32, a []float64) {
	a = a[:len(col)]
	for k, j := range col {
		p := float64(w * a[k])
		e := math.FMA(w, a[k], -p)
		s, t := twoSum(hi[j], p)
		hi[j], lo[j] = s, lo[j]+t+e
	}
}

// axpy2 adds w·aⱼ to every hiⱼ + loⱼ, in twice the precision.
func axpy2(hi, lo []float64, w float64, a []float64) {
	hi, lo = hi[:len(a)], lo[:len(a)]
	for j, v := range a {
		p := float64(w * v)
		e := math.FMA(w, v, -p)
		h := hi[j]
		s := h + p
		t := s - h
		lo[j] += (h - (s - t)) + (p - t) + e
		hi[j] = s
	}
}

// add2 adds v to hi + lo, in twice the precision.
func add2(hi, lo, v float64) (float64, float64) {
	s, e := twoSum(hi, v)
	return s, lo + e
}
