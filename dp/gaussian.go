// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package dp

import (
	"fmt"
	"math"

	"github.com/privopt/privopt/internal/enclose"
	"github.com/privopt/privopt/internal/num"
)

// GaussianLogDelta returns log δ(ε) of Gaussian noise with s = sensitivity/σ, for every real ε:
//
//	δ(ε) = Φ(s/2 - ε/s) - e^ε Φ(-s/2 - ε/s)             [BW18, Theorem 8]
//
// (docs/theory/composition.md#composition.gaussian). The error is near 1e-13 for every δ ≥
// MinDelta. A negative or NaN s and a NaN ε give 0, that is δ = 1: nothing is promised.
func GaussianLogDelta(eps, s float64) float64 {
	switch {
	case !(s >= 0) || math.IsInf(s, 1) || math.IsNaN(eps) || math.IsInf(eps, -1):
		return 0
	case eps < 0:
		l := GaussianLogDelta(-eps, s)
		if l > -math.Ln2 { // 1 - δ(ε) = e^ε (1 - δ(-ε)) keeps the digits of 1 - δ
			return num.Log1mExp(eps + num.Log1mExp(l))
		}
		return num.LogSumExp(num.Log1mExp(eps), eps+l)
	case s == 0 || math.IsInf(eps, 1):
		return math.Inf(-1)
	}
	// The terms are φ(a)R(a) and φ(a)R(b), with the Mills ratio R.
	a := math.FMA(-s/2, s, eps) / s // ε/s - s/2, rounded once
	b := eps/s + s/2
	switch {
	case a > 1e150: // a² overflows
		return math.Inf(-1)
	case s > 1 && a <= 0: // 1 - δ = Φ(a) + φ(a)R(b)
		return math.Log1p(-(num.NormalCDF(a) + math.Exp(logNormal(a))*num.Mills(b)))
	case s > 1:
		return logNormal(a) + num.Log(num.Mills(a)-num.Mills(b))
	}
	// R(a) - R(b) = ∫_a^b (1 - x R(x)) dx without cancellation: the integrand is smooth and positive,
	// and 12 nodes reach rounding on an interval of length 1.
	r := &rule12
	switch {
	case s <= 0.03:
		r = &rule4
	case s <= 0.3:
		r = &rule6
	}
	var slopes [12]float64
	for i, x := range r.x {
		slopes[i] = a + s*(1+x)/2
	}
	num.MillsSlopes(slopes[:len(r.x)])
	sum := 0.0
	for i, w := range r.w {
		sum += w * slopes[i]
	}
	return logNormal(a) + num.Log(s/2*sum)
}

// A rule has the nodes and weights of a Gauss–Legendre rule.
type rule struct{ x, w []float64 }

func newRule(n int) (r rule) {
	r.x, r.w = num.GaussLegendre(n)
	return r
}

// What GaussianLogDelta needs at every call.
var (
	rule4, rule6, rule12 = newRule(4), newRule(6), newRule(12)
	halfLog2Pi           = 0.5 * num.Log(2*math.Pi)
)

// logNormal returns log φ(x).
func logNormal(x float64) float64 { return -x*x/2 - halfLog2Pi }

// GaussianDelta returns δ(ε) = exp(GaussianLogDelta(eps, s)).
func GaussianDelta(eps, s float64) float64 { return math.Exp(GaussianLogDelta(eps, s)) }

// GaussianSigma returns the least standard deviation σ, rounded up by less than 1e-6 relative and
// proved by intervals, with which adding N(0, σ²I) to a vector of the given ℓ₂ sensitivity is (ε,
// δ)- differentially private [BW18]. It holds for every ε, unlike the classical σ = Δ√(2
// ln(1.25/δ))/ε.
//
// The error wraps ErrBudget if b fails Check or δ = 0, which no Gaussian gives, and ErrCondition
// unless the sensitivity is positive and finite: 0 is more often a forgotten bound than a constant.
func GaussianSigma(b Budget, sensitivity float64) (float64, error) {
	s, err := gaussianScale(b)
	if err != nil {
		return 0, err
	}
	if !(sensitivity > 0) || math.IsInf(sensitivity, 1) {
		return 0, fmt.Errorf("%w: Sensitivity = %v, want a positive finite bound on the change of the output", ErrCondition,
			sensitivity)
	}
	sigma := math.Nextafter(sensitivity/s*(1+1e-12), math.Inf(1))
	for up := 0.0; up < 1e-6; up = max(1e-13, 4*up) { // raise σ slightly until the proof succeeds
		least := sigma * (1 + up)
		if !math.IsInf(least, 1) && enclose.Proves(nil, func(c enclose.Arithmetic) (less, more enclose.Interval) {
			return c.GaussianDelta(c.Of(b.Epsilon), c.Quo(c.Of(sensitivity), c.Of(least))), c.Of(b.Delta)
		}) {
			return least, nil
		}
	}
	return 0, fmt.Errorf("%w: Sensitivity = %v needs noise beyond the range of float64, rescale the output", ErrCondition,
		sensitivity)
}

// checkGaussian is Check that also refuses δ = 0.
func (b Budget) checkGaussian() error {
	if err := b.Check(); err != nil || b.Delta > 0 {
		return err
	}
	return fmt.Errorf("%w: Delta = 0, but Gaussian noise gives no pure guarantee, want a number in [%g, 1), for "+
		"example 1e-6", ErrBudget, MinDelta)
}

// gaussianScale returns the largest s with δ(ε; s) ≤ δ, rounded down.
func gaussianScale(b Budget) (float64, error) {
	if err := b.checkGaussian(); err != nil {
		return 0, err
	}
	// The margin covers the error of the logarithm. It costs less than 1e-9 of s, because
	// d log δ/d log s ≥ 1.
	target := num.Log(b.Delta) * (1 + 1e-12)
	good, _ := num.Bisect(func(s float64) bool {
		return GaussianLogDelta(b.Epsilon, s) <= target
	}, 0x1p-80, 1e4) // δ(MinEpsilon; 2⁻⁸⁰) < MinDelta, δ(MaxEpsilon; 1e4) = 1
	return good, nil
}
