// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package lasso

import (
	"fmt"
	"math"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/num"
)

// Published holds the inputs of the constants of quadratic perturbation as they were published
// [CC26], in the notation of package qop, whose constants are proved.
type Published struct {
	Dim, Rank           int
	Degrees, Smoothness float64 // m ≥ d+1, real

	Epsilon1, Epsilon2             float64 // of the curvature and of the output noise; Epsilon2 may be 0 if Tau is
	Delta1, Delta2, Delta3, Delta4 float64 // Delta2 and Delta4 may be 0 if Tau is
	Tau, Eta                       float64 // objective gap of the solver and error of the anchor
}

// PublishedConstants are the published constants. The printed ones are not proved: α₁ misses two
// factors ½, which makes σ² 10¹² times too large at d = 100, m = 200, so that the curve of the
// paper is that of its anchor. Repaired, Sigma2 is 6 to 148 times the σ² that package qop needs.
// The paper's experiment leaves out OutputSigma, "as it affects both mechanisms identically", but
// linear perturbation has no anchor whose error it had to hide.
type PublishedConstants struct {
	Alpha, F2, Beta float64 // Beta is 0 without Delta4
	Alpha1          float64 // +Inf where the equation has no solution
	Sigma2          float64
	OutputSigma     float64 // σ̃, 0 if Tau = 0
}

// Constants returns
//
//	α  solves P(k/2, α/2) = δ₃/C,   k = m−d+1,   F(x) ≤ C·P(k/2, x/2) the bound of [Ede88]
//	α₁ solves P(k/2, (α+α₁)/2) = P(k/2, α/2) + δ₁(1−δ₃)/C
//	f₂ = k/α + 1
//	σ² = max{ (2L/ε₁)(f₂ + 2(2ρ+2)/α), 2L/α₁ }
//	β  = (√(2 ln(2/(δ₄(1−δ₃)))) + √m + √d)²
//	σ̃  = (√(2τ/(ασ²)) + βη/α)·(2/ε₂)·√(2 ln(1.25/δ₂)), 0 if τ = 0
//
// With asPrinted, α₁ solves P(k/2, α+α₁) = P(k/2, α) + δ₁(1−δ₃)/C, which misses two factors ½: α₁
// is then smaller by up to 10¹³, or +Inf, which loses the second term of σ². The error wraps
// [ErrParameter].
func (p Published) Constants(asPrinted bool) (c PublishedConstants, err error) {
	d := float64(p.Dim)
	share := func(delta float64) bool { return delta > dp.MinDelta && delta < 1 }
	if !(d >= 1 && p.Degrees >= d+1 && p.Degrees <= 1<<16 && share(p.Delta1) && share(p.Delta3)) ||
		p.Tau > 0 && !(p.Epsilon2 > 0 && share(p.Delta2)) || p.Delta4 != 0 && !share(p.Delta4) {
		return c, fmt.Errorf("%w: %+v, want Dim ≥ 1, Degrees in [Dim+1, 65536], Delta1 and Delta3 in (0, 1), Delta4 in "+
			"(0, 1) or 0, and for Tau > 0 also Epsilon2 > 0 and Delta2 in (0, 1)", ErrParameter, p)
	}
	k := p.Degrees - d + 1
	logC := num.Log(d) + num.LogGamma(1.5) + num.LogGamma((p.Degrees+1)/2) - num.LogGamma(d/2+1) - num.LogGamma(k/2) -
		num.LogGamma((k+1)/2) + num.LogGamma(k/2)
	half := num.GammaInvLogP(k/2, math.Min(num.Log(p.Delta3)-logC, 0))
	c.Alpha = 2 * half
	logp1 := num.Log(p.Delta1) + math.Log1p(-p.Delta3) - logC
	if asPrinted {
		c.Alpha1 = num.GammaStep(k/2, c.Alpha, logp1)
	} else {
		c.Alpha1 = 2 * num.GammaStep(k/2, half, logp1)
	}
	c.F2 = k/c.Alpha + 1
	c.Sigma2 = math.Max(2*p.Smoothness/p.Epsilon1*(c.F2+2*(2*float64(p.Rank)+2)/c.Alpha), 2*p.Smoothness/c.Alpha1)
	if p.Delta4 > 0 {
		root := math.Sqrt(2*num.Log(2/(p.Delta4*(1-p.Delta3)))) + math.Sqrt(p.Degrees) + math.Sqrt(d)
		c.Beta = root * root
	}
	if p.Tau > 0 {
		c.OutputSigma = (math.Sqrt(2*p.Tau/(c.Alpha*c.Sigma2)) + c.Beta*p.Eta/c.Alpha) *
			(2 / p.Epsilon2) * math.Sqrt(2*num.Log(1.25/p.Delta2))
	}
	if all := c.Sigma2 + c.Beta + c.OutputSigma; !(c.Sigma2 > 0 && all >= c.Sigma2) || math.IsInf(all, 1) { // also NaN
		return PublishedConstants{},
			fmt.Errorf("%w: %+v has constants beyond float64, want numbers nearer to 1", ErrParameter, p)
	}
	return c, nil
}
