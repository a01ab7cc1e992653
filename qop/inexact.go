// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package qop

import (
	"cmp"
	"fmt"
	"math"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/num"
)

// split divides the budget of Theorem B, η > 0, among its parts. Every split is valid. The search
// minimizes the bound on the excess risk, a function of public quantities only.
type split struct {
	m                 float64
	objective, output dp.Budget // (ε₁, δ₁), (ε₂, δ₂)
	low, high         float64   // shares of δ for λ_min and for ẽ'Wẽ
	proved
	alpha, b          float64
	cover, reach      float64
	sigma, excessRisk float64
}

// inexact calibrates for η > 0 by docs/theory/quadratic.md#qop.inexact: it searches over logits of
// the shares of ε and of δ and over log m with approximate laws from two starts, then computes the
// constants of the best split with the exact laws.
func (c *calibrator) inexact() error {
	p := c.plan
	best := split{excessRisk: math.Inf(1)}
	start := c.candidates(dp.Budget{Epsilon: p.Budget.Epsilon * 0.7, Delta: p.Budget.Delta * 0.7})[0]
	for _, first := range [][]float64{{0.5, 1.5, 1, 1, 0}, {-1, 0, 0, 0, 1}} {
		x, _ := simplex(func(x []float64) float64 {
			return num.Log(c.evaluate(c.shares(x, start), true).excessRisk)
		}, first, 140)
		if s := c.evaluate(c.shares(x, start), true); s.excessRisk < best.excessRisk {
			best = s
		}
	}
	if math.IsInf(best.excessRisk, 1) {
		best = c.shares([]float64{0, 0, 0, 0, 0}, start)
	}
	best = c.evaluate(best, false)
	if math.IsInf(best.excessRisk, 1) {
		return fmt.Errorf("qop: %w: no split of %v was found for Eta = %v and Degrees = %v; a larger Delta or Degrees, "+
			"or a smaller Eta, needs less", dp.ErrCondition, p.Budget, p.Eta, best.m)
	}
	p.Degrees, p.Ratio = best.m, best.t
	p.Threshold, p.Theorem = best.threshold, best.theorem
	p.Objective, p.Output = best.objective, best.output
	p.Alpha, p.MaxEig = best.alpha, best.b
	p.MinEigDelta, p.MaxEigDelta = best.low, best.high
	p.Cover, p.Reach = best.cover, best.reach
	return nil
}

// shares returns the split at a point x of the search: x[0] is the logit of ε₁/ε, x[1:4] are the
// logarithms of δ₁, δ₂ and low in units of high, and x[4] shifts log m from start. The parts add up
// to at most the budget.
func (c *calibrator) shares(x []float64, start float64) (s split) {
	eps, delta := c.plan.Budget.Epsilon, c.plan.Budget.Delta
	logistic := func(v float64) float64 { return 1 / (1 + math.Exp(-math.Max(-12, math.Min(12, v)))) }
	w := [3]float64{}
	sum := 1.0
	for i := range w {
		w[i] = math.Exp(math.Max(-12, math.Min(12, x[1+i])))
		sum += w[i]
	}
	e2, d2 := 1-logistic(x[0]), w[1]/sum
	if share := c.asked.Share; share != 0 {
		e2, d2 = share, share
	}
	rest := (1 - d2) / (sum - w[1])
	s.output = dp.Budget{Epsilon: e2 * eps, Delta: d2 * delta}
	s.low, s.high = rest*w[2]*delta, rest*delta
	s.objective = dp.Budget{Epsilon: math.Min(math.Nextafter(eps-s.output.Epsilon, 0), mostEpsilon),
		Delta: (delta - s.output.Delta - s.low - s.high) * (1 - 1e-12)}
	d := float64(c.s.dim)
	if s.m = c.asked.Degrees; s.m == 0 {
		m := math.Round((start-d+1)*math.Exp(math.Max(-3, math.Min(3, x[4])))) + d - 1
		s.m = math.Min(math.Max(m, leastDegrees(c.s.dim)), c.s.most())
	}
	return s
}

// evaluate computes t, α, b, R, σ̃ and the bound on the excess risk for the shares of s. The bound
// is +Inf if the shares allow no noise. rough uses approximate laws, which suffice to compare
// splits.
func (c *calibrator) evaluate(s split, rough bool) split {
	p := c.plan
	s.excessRisk = math.Inf(1)
	if !(s.objective.Delta > 0 && s.output.Delta >= dp.MinDelta && s.low > 0) {
		return s
	}
	d := float64(c.s.dim)
	if rough {
		s.t = c.roughLargest(s.objective, s.m)
	} else {
		s.proved = c.largest(s.objective, s.m)
	}
	if !(s.t > 0) {
		return s
	}
	// low = min(F(α+t), (1+e^{ε₁})F(α)), high = min(P(χ²_m > b−t), (1+e^{ε₁})P(χ²_m > b)).
	// The approximate law chooses the term with the larger α.
	twice := num.LogSumExp(0, s.objective.Epsilon)
	once := num.Log(s.low)
	shifted, unshifted := roughQuantile(d, s.m, once)-s.t, roughQuantile(d, s.m, once-twice)
	switch s.alpha = math.Max(shifted, unshifted); {
	case rough:
	case shifted > unshifted:
		s.alpha = (minQuantile(c.s.dim, s.m, once) - s.t) / safeScale
	default:
		s.alpha = minQuantile(c.s.dim, s.m, once-twice) / safeScale
	}
	if !(s.alpha > 0) {
		return s
	}
	var err error
	if s.cover, err = c.coverOf(s.t, s.m, rough); err != nil {
		return s
	}
	s.b = safeScale * math.Min(
		num.Chi2UpperQuantile(num.Log(s.high), s.m)+s.t,
		num.Chi2UpperQuantile(num.Log(s.high)-twice, s.m))
	s.reach = s.cover + p.Eta*math.Sqrt(s.b/s.alpha)*safeScale
	sigma, err := dp.GaussianSigma(s.output, 2*s.reach*safeScale)
	if err != nil {
		return s
	}
	s.sigma = sigma
	s.excessRisk = p.Constants.Smoothness*s.m/s.t/2*square(cmp.Or(p.Radius, 1)+p.Eta) +
		math.Max(float64(p.Records), 1)*p.Constants.Smoothness*d/2*square(sigma)
	return s
}

// roughLargest approximates the t of largest.
func (c *calibrator) roughLargest(b dp.Budget, m float64) float64 {
	s := c.s
	s.eps = b.Epsilon
	guess := s.eps * math.Sqrt(m-float64(s.dim)+1) / 3
	if c.last > 0 { // t/ε√k varies little along the search
		guess *= c.last
	}
	t := s.roughLargest(m, num.Log(b.Delta), guess, 10*coarseT)
	c.last = t / (s.eps * math.Sqrt(m-float64(s.dim)+1) / 3)
	return t
}
