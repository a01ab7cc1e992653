// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package dp

import (
	"math"
	"slices"

	"github.com/privopt/privopt/internal/num"
)

// RDP is a Rényi curve: at every order α > 1 it bounds the Rényi divergence of the outputs on
// neighboring data, RDP(α) ≥ 1/(α-1) log E_Q[(P/Q)^α] in both orders [Mir17].
type RDP func(alpha float64) float64

// GaussianRDP returns α s²/2, the curve of Gaussian noise with s = sensitivity/σ [Mir17,
// Proposition 7]; +Inf for s < 0 or NaN and for orders that are not greater than 1.
func GaussianRDP(s float64) RDP {
	return func(alpha float64) float64 {
		if !(s >= 0 && alpha > 1) {
			return math.Inf(1)
		}
		if s == 0 {
			return 0
		}
		return alpha * s * s / 2
	}
}

// PureRDP returns the curve that ε₀-differential privacy implies, that of randomized response
// [Mir17, Proposition 5]:
//
//	1/(α-1) log( cosh((α-½)ε₀)/cosh(ε₀/2) ) ≤ min(ε₀, α ε₀²/2)
//
// It is +Inf for ε₀ < 0 or NaN and for orders that are not greater than 1.
func PureRDP(eps0 float64) RDP {
	return func(alpha float64) float64 {
		if !(eps0 >= 0 && alpha > 1) {
			return math.Inf(1)
		}
		if math.IsInf(alpha, 1) || math.IsInf(eps0, 1) {
			return eps0
		}
		a, b := (alpha-0.5)*eps0, eps0/2
		if a > 300 { // cosh a = e^a/2 up to e^{-2a}
			return math.Min(eps0, (a-b-math.Log1p(math.Exp(-2*b)))/(alpha-1))
		}
		// cosh a - cosh b = 2 sinh((a+b)/2) sinh((a-b)/2)
		r := 2 * math.Sinh(alpha*eps0/2) * math.Sinh((alpha-1)*eps0/2) / math.Cosh(b)
		return math.Min(eps0, math.Log1p(r)/(alpha-1))
	}
}

// rounding allows for the float64 error of a few sums, relative to their terms.
const rounding = 0x1p-50

// Epsilon returns the least ε ≥ 0, over the orders given, for which the curve
// implies (ε, delta)-differential privacy, and the order that gives it:
//
//	ε = RDP(α) + log(1 - 1/α) - (log δ + log α)/(α-1)     [CKS20, Proposition 12]
//
// (docs/theory/composition.md#composition.renyi). Without orders it searches real α with α-1 in
// [1e-3, 1e9]; every order gives a valid ε. Orders that are not greater than 1 are skipped; ε is
// +Inf if none serves or delta is not in (0, 1), and is rounded up by less than 1e-11 relative
// where the terms do not cancel.
func (r RDP) Epsilon(delta float64, orders ...float64) (eps, order float64) {
	eps, order = math.Inf(1), math.NaN()
	if !(delta > 0 && delta < 1) {
		return eps, order
	}
	r.search(orders, func(alpha float64) float64 {
		v, cost := r(alpha), -num.Log(delta)/(alpha-1)
		e := v + log1mInverse(alpha) + cost - num.Log(alpha)/(alpha-1)
		e += rounding * (v + cost)
		if e < eps {
			eps, order = e, alpha
		}
		return e
	})
	return math.Max(0, eps*(1+1e-12)), order
}

// Curve returns the δ(ε) that the Rényi curve implies,
//
//	δ(ε) = min_α e^{(α-1)(RDP(α) - ε)} (1 - 1/α)^{α-1}/α  [CKS20, Proposition 12]
//
// over the same orders as Epsilon, rounded up, at most 1.
func (r RDP) Curve(orders ...float64) Curve {
	orders = slices.Clone(orders)
	return func(eps float64) float64 {
		eps = math.Min(eps, math.MaxFloat64) // ∞ - ∞ is NaN
		best := 0.0                          // log 1
		r.search(orders, func(alpha float64) float64 {
			v := r(alpha)
			// Up by more than the rounding of the large terms; 1+1e-12 is for the rest.
			margin := rounding * (v + math.Abs(eps) + 1)
			e := v - eps + log1mInverse(alpha) + margin
			l := (alpha-1)*e - num.Log(alpha)
			if l < best {
				best = l
			}
			return l
		})
		return math.Min(1, math.Exp(best)*(1+1e-12))
	}
}

// log1mInverse returns log(1 - 1/α), α > 1, also next to 1, where the rounding of 1/α would show.
func log1mInverse(alpha float64) float64 {
	if alpha < 2 {
		return num.Log((alpha - 1) / alpha)
	}
	return math.Log1p(-1 / alpha)
}

// search calls f at every order; without orders on a grid and around the best of it.
func (r RDP) search(orders []float64, f func(alpha float64) float64) {
	if len(orders) > 0 {
		for _, a := range orders {
			if a > 1 && !math.IsInf(a, 1) {
				f(a)
			}
		}
		return
	}
	const lo, step, n = -6.9, 0.125, 221 // log(α-1) from log 1e-3 to log 1e9
	num.Minimize(func(u float64) float64 { return f(1 + math.Exp(u)) }, lo, lo+n*step, n, 1e-9)
}

// largestOrder is the largest order at which sums over α terms are computed.
const largestOrder = 1024

// orders returns the Rényi orders that conversions search.
func orders() []float64 {
	var a []float64
	for i := 2; i <= 64; i++ {
		a = append(a, float64(i))
	}
	return append(a, 72, 80, 96, 128, 160, 192, 256, 320, 384, 512, 768, largestOrder)
}

// betweenIntegers returns the curve with (α−1)RDP(α) = logMoment(α) at integer α, 0 at α = 1, and
// chords between them, which bound it: (α−1)RDP(α) is convex
// (docs/theory/population.md#population.renyi).
func betweenIntegers(logMoment func(alpha int) float64) RDP {
	return func(alpha float64) float64 {
		if !(alpha > 1 && alpha <= largestOrder) {
			return math.Inf(1)
		}
		a := int(math.Ceil(alpha))
		m := logMoment(a)
		if t := float64(a) - alpha; t > 0 {
			low := 0.0
			if a > 2 {
				low = logMoment(a - 1)
			}
			m = (1-t)*m + t*low
		}
		return m / (alpha - 1) * (1 + 1e-11)
	}
}

// rdpPoisson is the curve of Poisson batches under AddRemove [MTZ19].
func rdpPoisson(q, z float64) RDP {
	return betweenIntegers(func(alpha int) float64 {
		// The weights of k = 0, …, α add up to 1, so that the sum is
		// 1 + Σ_{k≥2} C(α,k) (1−q)^{α−k} q^k (e^{k(k−1)/(2z²)} − 1),
		// which loses no digits where it is near 1.
		a, sum := float64(alpha), math.Inf(-1)
		for k := 2.0; k <= a; k++ {
			x := k * (k - 1) / (2 * z * z)
			sum = num.LogSumExp(sum, raised(logBinomial(a, k), (a-k)*math.Log1p(-q), k*num.Log(q), x, num.Log(-math.Expm1(-x))))
		}
		return num.LogSumExp(0, sum)
	})
}

// rdpReplace is a bound for Poisson batches and for subsets under Replace [WBK19, Theorem 9], with
// e(j) = 2j/z².
func rdpReplace(q, z float64) RDP {
	e := func(j float64) float64 { return 2 * j / (z * z) }
	return betweenIntegers(func(alpha int) float64 {
		a := float64(alpha)
		// min{4(e^{e(2)}−1), 2e^{e(2)}}, the first where e^{e(2)} < 2
		two := math.Ln2 + e(2)
		if e(2) < math.Ln2 {
			two = num.Log(4 * math.Expm1(e(2)))
		}
		sum := raised(2*num.Log(q), logBinomial(a, 2), two)
		for j := 3.0; j <= a; j++ {
			sum = num.LogSumExp(sum, raised(math.Ln2, j*num.Log(q), logBinomial(a, j), (j-1)*e(j)))
		}
		return num.LogSumExp(0, sum)
	})
}

// raised returns the sum of x plus a bound on its rounding, for summands correct
// to eight units in the last place.
func raised(x ...float64) float64 {
	var sum, size float64
	for _, v := range x {
		sum += v
		size += math.Abs(v)
	}
	return sum + 0x1p-49*size
}

// logBinomial returns log C(a, k), rounded up.
func logBinomial(a, k float64) float64 {
	return raised(num.LogGamma(a+1), -num.LogGamma(k+1), -num.LogGamma(a-k+1))
}
