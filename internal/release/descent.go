// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package release

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/internal/num"
)

const badSteepness = "release: the loss has no finite Smoothness, or the target is not positive and finite"

const certifyEvery = 32 // steps in float64 between two certificates, which cost as much

// descend is proximal gradient descent, x ← prox_γg(x − γ∇f(x)), with the accurate gradient, from
// the best point or from prox_g(0), for as many steps as prove ‖x − θ*‖ ≤ R by contraction,
//
//	‖x_K − θ*‖ ≤ D₀/(1+γμ)^K + e(1+γμ)/(γμ),   K = ⌈ln(4D₀/R)/log1p(γμ)⌉,
//
// e the error of a computed step, γ = 1/max{ℓ, μ}. K is finite for every data set; nothing is
// claimed about time. Proof: docs/theory/release.md#release.descent.
func (s *solver) descend() error {
	ell := s.obj.Steepness()
	if !(ell < math.Inf(1) && s.Modulus > 0 && s.Cover > 0 && s.Reach < math.Inf(1)) {
		panic(badSteepness)
	}
	gamma := 1 / max(ell, s.Modulus) * (1 - 0x1p-50) // γμ ≤ 1
	x, low := s.best.x, s.best.low
	anchor := make([]float64, len(x))
	s.g.Prox(anchor, anchor, 1)
	if 2*s.Reach <= s.Cover {
		s.best = point{anchor, make([]float64, len(x)), math.Inf(1)}
		return nil
	}
	var distance float64
	if norm := floats.Norm(x, 2); norm <= 2*s.Reach && !math.IsInf(s.g.Func(x), 1) {
		distance = min(s.best.residual/s.Modulus, norm+s.Reach)
	} else {
		x, low = anchor, make([]float64, len(x))
		distance = floats.Norm(x, 2) + s.Reach
	}
	steps := math.Ceil(math.Log(4*distance/s.Cover)/math.Log1p(gamma*s.Modulus)*(1+0x1p-30)) + 1
	if s.pairs != nil {
		return s.descendPairs(x, low, gamma, steps)
	}
	x = slices.Clone(x)
	grad := make([]float64, len(x))
	for k := 0.0; k < steps; k++ {
		if err := s.ended(); err != nil {
			return err
		}
		s.obj.AccurateGrad(grad, x)
		floats.AddScaled(x, -gamma, grad)
		s.g.Prox(x, x, gamma)
		s.count()
		if int(k)%certifyEvery == 0 && s.improve(s.floatPoint(x)) {
			return nil
		}
	}
	s.best = s.floatPoint(x) // its distance is proved, whatever its residual
	return nil
}

// descendPairs is descend with points and proximal maps as pairs.
func (s *solver) descendPairs(x, low []float64, gamma, steps float64) error {
	at := newPair(s, x)
	if floats.Norm(low, 2) > 0 {
		copy(at.low, low)
		at.measure()
	}
	for k := 0.0; k < steps; k++ {
		if err := s.ended(); err != nil {
			return err
		}
		if s.improve(at.point) {
			return nil
		}
		next := s.zero()
		for j := range next.x {
			z, v := at.at(j)
			y := num.NewPiece(s.pairs.Coordinate(j)).Prox(z.Plus(v.Times(-gamma)), gamma)
			next.x[j], next.low[j] = y.Hi, y.Lo
		}
		next.measure()
		at = next
		s.count()
	}
	if !s.improve(at.point) {
		s.best = at.point // its distance is proved, whatever its residual
	}
	return nil
}

// floatPoint returns a copy of x with its residual.
func (s *solver) floatPoint(x []float64) point {
	return point{slices.Clone(x), make([]float64, len(x)), s.obj.Residual(x)}
}

// count counts a step.
func (s *solver) count() {
	s.iterations++
	s.terms += s.obj.Len()
}
