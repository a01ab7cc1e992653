// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package linear

import (
	"fmt"
	"math"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/num"
)

// A Bound is a bound on the expected excess risk of the exact minimizer, as a function of Δ and of
// the noise at Δ:
//
//	(E‖b‖² + V)/(2(Δ+μ_r)) + ΔB²/2
//
// V = 0 for the empirical risk, a sum over the records; V = 4nL² makes it n times
// the bound on the population risk in mean form, λ = Δ/(2n).
type Bound struct {
	Radius   float64 // B > 0, the norm of the best competitor; 0 means unknown
	Variance float64 // V ≥ 0
}

// At returns the bound at Δ for a given square = E‖b‖²; +Inf without a Radius.
func (b Bound) At(ridge, modulus, square float64) float64 {
	if b.Radius == 0 {
		return math.Inf(1)
	}
	return (square+b.Variance)/(2*(ridge+modulus)) + ridge*b.Radius*b.Radius/2
}

// cCeiling is the largest c/ε of an automatic Δ: as c tends to ε, the noise grows without limit.
const cCeiling = 0.99

// Best returns the Δ > 0 with the least bound among those with c ≤ 0.99 ε, to about 1e-3 in log Δ,
// because the bound is flat there. An inexact minimum costs utility only: every Δ gets its own
// noise. Kifer without a Radius gives the least Δ of its theorem. The error wraps ErrProblem for a
// bound without a Radius, or without a finite minimum.
func (k *Calibrator) Best(b Bound) (float64, error) {
	ridge, err := k.best(b)
	if err != nil || b.Radius == 0 || k.spectrum(1) == nil {
		return ridge, err
	}
	// The bound with the noise of a spectrum is another function of Δ. It is minimized separately.
	at := func(ridge, sigma float64) float64 {
		return b.At(ridge, k.p.Modulus, Noise{Sigma: sigma, dim: k.p.Dim}.Square())
	}
	value := at(ridge, k.noise(ridge+k.p.Modulus, new(guess)).Sigma)
	hi := 2 * value / (b.Radius * b.Radius)
	lo := max(k.LeastRidge(cCeiling), 1e-9*hi)
	if !(lo < hi && hi < math.MaxFloat64) {
		return ridge, nil
	}
	target := num.Log(k.p.Budget.Delta)
	x, v := num.Minimize(func(x float64) float64 {
		ridge := math.Exp(x)
		return at(ridge, k.g*k.spectrum(ridge+k.p.Modulus).leastNoise(k.p.Budget.Epsilon, target, 0))
	}, num.Log(lo), num.Log(hi), 16, 1e-3)
	if v < value*(1-1e-6) {
		ridge = min(max(math.Exp(x), lo), hi)
	}
	return ridge, nil
}

// best is Best without the noise of a spectrum.
func (k *Calibrator) best(b Bound) (float64, error) {
	if !(b.Radius >= 0 && b.Variance >= 0) || math.IsInf(b.Radius+b.Variance, 1) {
		return 0, fmt.Errorf("%w: Radius = %v and Variance = %v of the bound, want finite numbers ≥ 0", ErrProblem, b.Radius,
			b.Variance)
	}
	mur, from := k.p.Modulus, new(guess)
	free := k.noise(math.Inf(1), from).Square() // curvature costs nothing
	root := math.Sqrt(free+b.Variance)/b.Radius - mur
	if k.p.Calibration == Kifer { // the noise is the same at every Δ
		least := k.LeastRidge(1)
		if b.Radius > 0 {
			least = max(least, root)
		}
		if least == 0 {
			least = k.leastModulus(1)
		}
		return least, nil
	}
	if b.Radius == 0 {
		return 0, ErrRadius
	}
	square := func(ridge float64) float64 { return k.noise(ridge+mur, from).Square() }
	at := func(ridge float64) float64 { return b.At(ridge, mur, square(ridge)) }
	floor := func(ridge float64) float64 { return b.At(ridge, mur, free) }
	const same = 1 + 1e-6
	if root > k.LeastRidge(cCeiling) && root > 0 && root < math.MaxFloat64 && square(root) <= free*same {
		return root, nil // the minimum of floor
	}

	// Below root the bound decreases, because the noise does. A Δ with ΔB²/2 above the bound at
	// another Δ is worse than the other.
	start := max(root, k.LeastRidge(0.5))
	least, hi := math.Inf(1), 0.0
	if start > 0 {
		v := square(start)
		least = b.At(start, mur, v)
		if v <= free*same { // no less noise beyond
			hi = start
		}
	}
	if mur > 0 && k.leastModulus(cCeiling) <= mur { // the regularizer is enough by itself
		least = min(least, at(0))
	}
	if hi == 0 {
		hi = 2 * least / (b.Radius * b.Radius)
	}
	lo := max(k.LeastRidge(cCeiling), root, 1e-9*hi)
	if hi = max(hi, lo); !(lo > 0 && hi < math.MaxFloat64) { // also NaN
		return 0, fmt.Errorf("%w: no finite Δ found for %v with Radius = %v: state Δ or rescale the problem", ErrProblem,
			k.p.Budget, b.Radius)
	}
	x, _ := num.Valley(func(x float64) float64 {
		ridge := math.Exp(x)
		if v := floor(ridge); v > least { // worse for any noise; floor increases from lo on
			return v
		}
		v := at(ridge)
		least = min(least, v)
		return v
	}, num.Log(lo), num.Log(hi), 8, 1e-3)
	return k.renyiBest(b, min(max(math.Exp(x), lo), hi), least, lo, hi), nil
}

// renyiBest returns a Δ in [lo, hi] whose bound, with the noise of renyiNoise, is below value, the
// bound at ridge with the noise of the others; ridge if it finds none. The smaller of the two
// bounds may have two local minima: each bound is minimized by itself.
func (k *Calibrator) renyiBest(b Bound, ridge, value, lo, hi float64) float64 {
	if k.fixed != 1 || k.p.Envelope != nil || k.p.Calibration != Sharp || k.p.Budget.Delta == 0 {
		return ridge
	}
	l, target := k.p.Constants.Lipschitz, num.Log(k.p.Budget.Delta)
	at := func(x, level float64) float64 { // +Inf above the level
		ridge := math.Exp(x)
		mu := ridge + k.p.Modulus
		most := math.Sqrt((2*mu*(level-ridge*b.Radius*b.Radius/2)-b.Variance)/float64(k.p.Dim)) / l
		u := k.scalar(mu).renyiNoise(k.p.Budget.Epsilon, 0, target, most, k.p.Relation == dp.Replace)
		return b.At(ridge, k.p.Modulus, Noise{Sigma: l * u, dim: k.p.Dim}.Square())
	}
	from, to := num.Log(lo), num.Log(hi)
	x, v := num.Minimize(func(x float64) float64 { return at(x, value) }, from, to, 8, to-from)
	if y := num.Log(ridge); at(y, value) < v {
		x, v = y, 0
	}
	if !(v < value) {
		return ridge
	}
	x, _ = num.Minimize(func(x float64) float64 { return at(x, 2*value) }, max(from, x-(to-from)/8),
		min(to, x+(to-from)/8), 0, 1e-3)
	return min(max(math.Exp(x), lo), hi)
}

// ErrRadius reports that nothing states the size of the solution, which automatic Δ needs.
var ErrRadius = fmt.Errorf("%w: automatic Ridge needs a length scale: set Radius to a public guess B ≥ ‖θ₀‖₂, or "+
	"declare a bounded Set, or set Ridge", ErrProblem)
