package prox

import (
	"math"

	"github.com/privopt/privopt/internal/num"
)

// rise returns the root of an increasing, concave and piecewise linear ψ with ψ(t) ≤ 0, or t if
// ψ(t) > 0, and at most top. psi returns ψ and its slope at t. Newton's method rises to the root
// and ends after finitely many steps, because every step but the last leaves a piece.
func rise(t, top float64, psi func(t float64) (value, slope float64)) float64 {
	for {
		value, slope := psi(t)
		next := min(t-value/slope, top)
		if !(next > t) {
			return t
		}
		t = next
	}
}

// waterline returns the root τ ≥ start of Σ(y_i−τ)₊ = total, with |y_i| for y_i if abs, where the
// sum at start is at least total. The root is kept below the largest y_i, because total may be
// smaller than the last digit of that y_i.
func waterline(y []float64, start, total float64, abs bool) float64 {
	top := math.Inf(-1)
	for _, yi := range y {
		if abs {
			yi = math.Abs(yi)
		}
		top = max(top, yi)
	}
	top = math.Nextafter(top, math.Inf(-1))
	return rise(min(start, top), top, func(tau float64) (value, slope float64) {
		h, low, n := -total, 0.0, 0.0 // h + low in twice the precision, see Accuracy
		for _, yi := range y {
			if abs {
				yi = math.Abs(yi)
			}
			if yi > tau {
				var e float64
				h, e = num.TwoSum(h, yi-tau)
				low += e
				n++
			}
		}
		return -(h + low), n
	})
}
