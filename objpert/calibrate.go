// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package objpert

import (
	"fmt"
	"math"
	"math/big"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/num"
)

// safeScale is the margin of noise scales and of ε: closed forms and quadratures of log δ are
// correct to 1e-11, which moves a scale by less.
const safeScale = 1 + 1e-9

// swing returns the bound on the change of L(w) − L(v) between neighbors, in units of the range of
// one record's loss: 2 under Replace and 1 under AddRemove. The same factors apply to G‖w − v‖.
func swing(rel dp.Relation) float64 {
	if rel == dp.AddRemove {
		return 1
	}
	return 2
}

// radialShift returns the least Δ, rounded up, for which s_w = Δ π(w) makes up for one record,
// where L(w) − L(v) changes by bound and by slope·‖w − v‖ at most:
//
//	ℤᵈ within ‖w‖² ≤ Q     min( bound·(Q + √(Q(Q−1))), 2·slope·Q )
//	{−1,+1}ᵈ               min( bound·d/2, slope·d )
//
// Proof: docs/theory/discrete.md#discrete.radius
func radialShift(cube bool, d, q int, bound, slope float64) float64 {
	var delta float64
	if cube {
		delta = min(bound*float64(d)/2, slope*float64(d))
	} else {
		q := float64(q)
		delta = min(bound*(q+math.Sqrt(q*(q-1))), 2*slope*q)
	}
	return delta * (1 + 0x1p-50)
}

// l1LogDelta returns an upper bound on log δ(ε) of m independent Gaussian variables, each of which
// may be shifted either way, a = shift/σ:
//
//	inf over t ≥ 0 of (2Φ(t)e^{t²/2})ᵐ e^{−t x₀} a/(a+t),   x₀ = ε/a − ma/2 ≥ 0
//
// Proof: docs/theory/discrete.md#objpert.rspm-gaussian/2
func l1LogDelta(eps, a float64, m int) float64 {
	n := float64(m)
	x0 := eps/a - n*a/2
	if !(x0 > 0) {
		return 0
	}
	if x0 > 1e100 {
		return math.Inf(-1)
	}
	slope := func(t float64) float64 { // derivative of the logarithm, which increases with t
		ratio := math.Exp(-t*t/2-num.LogPhi(t)) / math.Sqrt(2*math.Pi) // φ(t)/Φ(t)
		return n*(t+ratio) - x0 - 1/(a+t)
	}
	t := 0.0 // every t gives a valid bound
	if slope(0) < 0 {
		t, _ = num.Bisect(func(t float64) bool { return slope(t) < 0 }, 0, (x0+1/a)/n+1)
	}
	return math.Min(0, n*(math.Ln2+num.LogPhi(t)+t*t/2)-t*x0+num.Log(a/(a+t)))
}

// sigmaFor returns the least σ, rounded up by a relative 1e-8 at most, with
// logDelta(ε, shift/σ) ≤ log δ; +Inf if there is none. logDelta does not decrease with its second
// argument.
func sigmaFor(logDelta func(eps, a float64) float64, b dp.Budget, shift float64) float64 {
	target := num.Log(b.Delta) * (1 + 1e-12) // the margin covers the error of logDelta
	ok := func(sigma float64) bool { return logDelta(b.Epsilon, shift/sigma) <= target }
	const most = 0x1p900
	if !ok(most) {
		return math.Inf(1)
	}
	sigma, _ := num.Bisect(ok, most, 1/most)
	return sigma * safeScale
}

// provedEpsilon returns the least ε, rounded up, at which noise of scale σ = shift/a is (ε,
// δ)-private by logDelta; +Inf if there is none up to dp.MaxEpsilon.
func provedEpsilon(logDelta func(eps, a float64) float64, a, delta float64) float64 {
	target := num.Log(delta) * (1 + 1e-12)
	ok := func(eps float64) bool { return logDelta(eps, a) <= target }
	switch {
	case !ok(dp.MaxEpsilon):
		return math.Inf(1)
	case ok(dp.MinEpsilon):
		return dp.MinEpsilon
	}
	eps, _ := num.Bisect(ok, dp.MaxEpsilon, dp.MinEpsilon)
	return math.Min(dp.MaxEpsilon, eps*safeScale)
}

// paperSigma returns the published scale, which no proof covers, 7·factor·√ln(1/δ)/ε:
//
//	OPDisc  7GD²√ln(1/δ)/(τε) [NRVW20, Algorithm 1], the factor is R·Q on ℤᵈ and R·d/4 on {−1,+1}ᵈ
//	RSPM    7√(m ln(1/δ))/ε   [NRVW20, Algorithm 3], the factor is √m
func paperSigma(b dp.Budget, factor float64) float64 {
	return 7 * factor * math.Sqrt(-num.Log(b.Delta)) / b.Epsilon
}

// setGrid chooses the grid 2^Exponent and the scale t of integer noise for which a shift of size
// Shift costs ε/weight:
//
//	s = ⌈Shift/2^Exponent⌉,   t = ⌈weight·s/ε⌉,   so that  e^{−s/t} ≥ e^{−ε/weight}
//
// in exact arithmetic. The exponent is chosen for t ≥ 2²¹·weight, down to −30. The scale exceeds
// weight·Shift/ε by a relative 1e-6 at most, or by more where ε > 500·Shift.
func (pl *Plan) setGrid(weight int, eps float64) error {
	q := &pl.params
	bits := min(max(int(math.Ceil(21+math.Log2(eps/q.Shift))), 0), maxShift)
	s, _ := big.NewFloat(math.Ceil(math.Ldexp(q.Shift, bits))).Int(nil)
	quotient := new(big.Rat).SetInt(s.Mul(s, big.NewInt(int64(weight))))
	quotient.Quo(quotient, new(big.Rat).SetFloat64(eps))
	t := ceil(quotient)
	if !t.IsUint64() || t.Uint64() > maxTime {
		return fmt.Errorf("objpert: %w: Epsilon = %v asks for noise beyond the exact range, want at least %.3g",
			dp.ErrCondition, eps, float64(weight)*q.Shift/maxTime)
	}
	q.Exponent, q.Time = -bits, t.Uint64()
	q.Scale = float64(q.Time) * math.Ldexp(1, -bits)
	return nil
}

const maxTime = 1 << 40 // the largest scale of an exact draw

// ceil returns ⌈x⌉ = ⌊(a + b − 1)/b⌋ of x = a/b.
func ceil(x *big.Rat) *big.Int {
	sum := new(big.Int).Add(x.Num(), x.Denom())
	return sum.Div(sum.Sub(sum, big.NewInt(1)), x.Denom())
}

// gammaTail returns r = k + √(2kx) + x, for which P(Gamma(k) > r) ≤ e^{−x}.
// Proof: docs/theory/discrete.md#discrete.gammatail
func gammaTail(k int, x float64) float64 {
	return float64(k) + math.Sqrt(2*float64(k)*x) + x
}
