package erm

import (
	"math"

	"github.com/privopt/privopt/internal/twofold"
)

// The explicit float64 conversions below forbid the compiler to fuse a product
// with the sum that follows, as it may on some processors: error-free
// transformations need the rounded product.

// unit is the unit roundoff u of float64.
const unit = twofold.Unit

// dot2 returns Σ aₖx_cₖ, cₖ = col[k] or k if col is nil, as a normalized hi + lo with an error of
// at most (k+4)²u²·Σ|aⱼxⱼ| for k entries, up to underflow. Two interleaved sums hide the
// latency of the additions.
func dot2(col []int32, a, x []float64) (hi, lo float64) {
	if col != nil {
		for k, j := range col {
			p, e := twofold.Prod(a[k], x[j])
			s, t := twofold.Sum(hi, p)
			hi, lo = s, lo+t+e
		}
		return twofold.Sum(hi, lo)
	}
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
		p, e := twofold.Prod(a[j], x[j])
		s, t := twofold.Sum(h0, p)
		h0, l0 = s, l0+t+e
	}
	hi, lo = twofold.Sum(h0, h1)
	return twofold.Sum(hi, lo+l0+l1)
}

// axpy2 adds (w+wl)·aₖ to the normalized pairs hi_cₖ + lo_cₖ, cₖ = col[k] or k if col is nil.
func axpy2(hi, lo []float64, w, wl float64, col []int32, a []float64) {
	if col != nil {
		for k, j := range col {
			p, e := twofold.Prod(w, a[k])
			hi[j], lo[j] = twofold.Add(hi[j], lo[j], p, e+wl*a[k])
		}
		return
	}
	hi, lo = hi[:len(a)], lo[:len(a)]
	for j, v := range a {
		p, e := twofold.Prod(w, v)
		hi[j], lo[j] = twofold.Add(hi[j], lo[j], p, e+wl*v)
	}
}

// add2 adds v to hi + lo, in twice the precision.
func add2(hi, lo, v float64) (float64, float64) {
	s, e := twofold.Sum(hi, v)
	return s, lo + e
}
