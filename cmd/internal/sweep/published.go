// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package sweep

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/optimize"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/num"
)

// Published holds the inputs of the constants of [CC26] as they were published, in the notation of
// package qop.
type Published struct {
	Dim, Rank           int
	Degrees, Smoothness float64 // m ≥ d+1, real

	Epsilon1, Epsilon2             float64 // of the curvature and of the output noise; Epsilon2 may be 0 if Tau is
	Delta1, Delta2, Delta3, Delta4 float64 // Delta2 and Delta4 may be 0 if Tau is
	Tau, Eta                       float64 // objective gap of the solver and error of the anchor
}

// PublishedConstants are the constants of [CC26]. The printed ones are not proved, and Sigma2 is 6
// to 148 times the σ² that package qop needs.
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
// is then smaller by up to 10¹³, or +Inf, which loses the second term of σ².
func (p Published) Constants(asPrinted bool) (c PublishedConstants, err error) {
	d := float64(p.Dim)
	share := func(delta float64) bool { return delta > dp.MinDelta && delta < 1 }
	if !(d >= 1 && p.Degrees >= d+1 && p.Degrees <= 1<<16 && share(p.Delta1) && share(p.Delta3)) ||
		p.Tau > 0 && !(p.Epsilon2 > 0 && share(p.Delta2)) || p.Delta4 != 0 && !share(p.Delta4) {
		return c, fmt.Errorf("the published constants do not exist for %+v", p)
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
		c.Beta = square(math.Sqrt(2*num.Log(2/(p.Delta4*(1-p.Delta3)))) + math.Sqrt(p.Degrees) + math.Sqrt(d))
	}
	if p.Tau > 0 {
		c.OutputSigma = (math.Sqrt(2*p.Tau/(c.Alpha*c.Sigma2)) + c.Beta*p.Eta/c.Alpha) *
			(2 / p.Epsilon2) * math.Sqrt(2*num.Log(1.25/p.Delta2))
	}
	if all := c.Sigma2 + c.Beta + c.OutputSigma; !(c.Sigma2 > 0 && all >= c.Sigma2) || math.IsInf(all, 1) { // also NaN
		return PublishedConstants{}, fmt.Errorf("the published constants do not exist for %+v", p)
	}
	return c, nil
}

func square(x float64) float64 { return x * x }

// PublishedBound returns the bound of Figure 1 of [CC26] with the repaired constants,
//
//	nLdσ̃²/2 + G√d·σ̃ + τ + (σ²m/2)(D²+η²),
//
// for n = 10, d = 12, D = ρ = G = L = 1 and τ = η, minimized over log(m−d), the share of ε₁ and
// those of δ₁…δ₄.
func PublishedBound(b dp.Budget, eta float64) (float64, error) {
	const n, d = 10.0, 12.0
	logBound := func(x []float64) float64 {
		w := [4]float64{1, math.Exp(x[1]), 0, 0}
		e1 := 1.0
		if eta > 0 {
			w[2], w[3] = math.Exp(x[3]), math.Exp(x[4])
			e1 = 1 / (1 + math.Exp(-x[2]))
		}
		sum := w[0] + w[1] + w[2] + w[3]
		in := Published{
			Dim: d, Degrees: d + 1 + math.Exp(x[0]), Rank: 1, Smoothness: 1,
			Epsilon1: e1 * b.Epsilon, Epsilon2: (1 - e1) * b.Epsilon,
			Delta1: b.Delta * w[0] / sum, Delta3: b.Delta * w[1] / sum,
			Delta2: b.Delta * w[2] / sum, Delta4: b.Delta * w[3] / sum,
			Tau: eta, Eta: eta,
		}
		c, err := in.Constants(false)
		if err != nil || math.IsInf(c.Alpha1, 1) {
			return 1e300 // the search averages values
		}
		s := c.OutputSigma
		return num.Log(n*d/2*s*s + math.Sqrt(d)*s + eta + c.Sigma2*in.Degrees/2*(1+square(eta)))
	}
	best := math.Inf(1)
	starts := [][]float64{
		{num.Log(d + 1), 0, 0, 0, 0}, {num.Log(3*d + 3), -2, 1, -1, -1}, {num.Log(6*d + 6), -4, -1, 1, 0},
	}
	for _, x := range starts {
		if eta == 0 {
			x = x[:2]
		}
		settings := &optimize.Settings{FuncEvaluations: 600, Converger: optimize.NeverTerminate{}}
		found, err := optimize.Minimize(optimize.Problem{Func: logBound}, x, settings, &optimize.NelderMead{SimplexSize: 0.5})
		if found == nil {
			return 0, err
		}
		best = math.Min(best, math.Exp(found.F))
	}
	if math.IsInf(best, 1) {
		return 0, fmt.Errorf("the published constants do not exist for %v", b)
	}
	return best, nil
}
