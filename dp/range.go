// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package dp

import (
	"math"

	"github.com/privopt/privopt/internal/num"
)

// RangeCurve returns the curve of a release whose privacy loss lies, for each pair of neighbors, in
// an interval of length eta, such as the exponential mechanism [DDR20]:
//
//	δ(ε) = (1 - e^{(ε-η)/2})²/(1 - e^{-η})  for |ε| ≤ η,  else max{0, 1 - e^ε}
//
// It is at most PureCurve(η), and half of it at ε = 0 and small η. eta < 0 or NaN gives δ = 1.
// Proof: docs/theory/composition.md#composition.range
func RangeCurve(eta float64) Curve {
	return func(eps float64) float64 {
		switch {
		case !(eta >= 0) || math.IsInf(eta, 1) || math.IsNaN(eps):
			return 1
		case eps >= eta:
			return 0
		case eps <= -eta:
			return -math.Expm1(eps)
		}
		left := math.Expm1((eps - eta) / 2)
		return min(1, left*left/-math.Expm1(-eta)*(1+0x1p-49))
	}
}

// RangeRDP returns the Rényi curve of the releases of [RangeCurve]:
//
//	η + (α m(αη) - m(η))/(α-1) - m((α-1)η) ≤ min(η, αη²/8),  m(x) = log((1 - e^{-x})/x)
//
// It is +Inf for eta < 0 or NaN and for orders that are not greater than 1. αη²/8 alone is the
// bound of [CR21]. Proof: docs/theory/composition.md#composition.range
func RangeRDP(eta float64) RDP {
	return func(alpha float64) float64 {
		if !(eta >= 0 && alpha > 1) {
			return math.Inf(1)
		}
		most := min(eta, alpha*eta/8*eta*(1+0x1p-51)) // also for η = 0, ∞ and α = ∞
		a, b := alpha*eta, (alpha-1)*eta
		if !(b > 0 && a < math.MaxFloat64) {
			return most
		}
		x, y := meanExp(a)*(alpha/(alpha-1)), -meanExp(b)
		z := -meanExp(eta) / (alpha - 1)
		// Each m is correct to 2⁻⁵¹(1+|m|), and so is the sum of these terms to the following.
		size := eta + math.Abs(x) + y + z + (alpha+1)/(alpha-1) + 1
		return min(most, eta+x+y+z+rounding*size)
	}
}

// meanExp is m(x) = log((1 - e^{-x})/x), the logarithm of the mean of e^{-t} over [0, x].
func meanExp(x float64) float64 { return num.Log(-math.Expm1(-x) / x) }
