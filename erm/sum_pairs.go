package erm

import "github.com/privopt/privopt/internal/num"

// unit is the unit roundoff u of float64.
const unit = num.Unit

// dot2 returns Σ aₖx_cₖ, cₖ = col[k], as a normalized hi + lo with an error of at most
// (k+4)²u²·Σ|aₖx_cₖ| for k entries, up to underflow.
func dot2(col []int32, a, x []float64) (hi, lo float64) {
	for k, j := range col {
		p, e := num.TwoProd(a[k], x[j])
		s, t := num.TwoSum(hi, p)
		hi, lo = s, lo+t+e
	}
	return num.TwoSum(hi, lo)
}

// axpy2 adds (w+wl)·aₖ to the normalized pairs hi_cₖ + lo_cₖ, cₖ = col[k].
func axpy2(hi, lo []float64, w, wl float64, col []int32, a []float64) {
	for k, j := range col {
		p, e := num.TwoProd(w, a[k])
		hi[j], lo[j] = num.Add2(hi[j], lo[j], p, e+wl*a[k])
	}
}

// add2 adds v to hi + lo, in twice the precision.
func add2(hi, lo, v float64) (float64, float64) {
	s, e := num.TwoSum(hi, v)
	return s, lo + e
}
