package qop

import (
	"fmt"
	"math"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/loss"
)

// Utility is the setting of Figure 1 of [CC26]: the bound on the expected excess
// empirical risk, minimized over m and the split of the budget,
//
//	nLdσ̃²/2 + G√d·σ̃ + τ + (σ²m/2)(D+η)²     Sharp and Threshold
//	nLdσ̃²/2 + G√d·σ̃ + τ + (σ²m/2)(D²+η²)    Paper, as published
//
// with σ̃ = 0 for τ = η = 0, where it is σ²mD²/2 for the exact minimizer.
type Utility struct {
	Records      int     // n
	Dim          int     // d
	Radius       float64 // D
	RegLipschitz float64 // G
	Constants    loss.Constants
	Tau, Eta     float64 // τ, the solver's objective gap, and η
	Calibration  Calibration
}

// Bound returns the minimized bound for b. The figure has n = 10, d = 12 and
// D = ρ = G = L = 1. Paper takes the repaired constants at real m ≥ d+1.
//
// Errors wrap what those of Mechanism.Calibrate do.
func (u Utility) Bound(b dp.Budget) (float64, error) {
	for _, v := range []float64{u.Radius, u.RegLipschitz, u.Tau, u.Eta} {
		if !(v >= 0) || math.IsInf(v, 1) {
			return 0, fmt.Errorf("%w: Radius = %v, RegLipschitz = %v, Tau = %v and Eta = %v, want finite numbers ≥ 0", ErrMechanism, u.Radius,
				u.RegLipschitz, u.Tau, u.Eta)
		}
	}
	if u.Eta > 0 && u.Tau == 0 {
		return 0, fmt.Errorf("%w: Eta = %v with Tau = 0, want both positive or both 0", ErrMechanism, u.Eta)
	}
	q, err := erm.Public{Dim: u.Dim, Records: u.Records, Constants: u.Constants}.Complete(dp.Replace)
	if err != nil {
		return 0, fmt.Errorf("qop: %w", err)
	}
	m := Mechanism{Calibration: u.Calibration}
	if err := m.check(); err != nil {
		return 0, err
	}
	s, err := m.setting(q, b)
	if err != nil {
		return 0, err
	}
	if u.Calibration == Paper {
		return u.published(b, int(s.rank))
	}
	c := &calibrator{
		plan: &Params{Dim: u.Dim, Records: u.Records, Constants: u.Constants, Radius: u.Radius, Budget: b, Eta: u.Eta},
		s:    s, gap: u.Tau, lipschitz: u.RegLipschitz,
	}
	if u.Tau > 0 {
		if err := c.inexact(); err != nil {
			return 0, err
		}
		p := c.plan
		found := split{m: p.Degrees, objective: p.Objective, output: p.Output, low: p.MinEigDelta, high: p.MaxEigDelta}
		return c.evaluate(found, false).excessRisk, nil
	}
	b.Epsilon = math.Min(b.Epsilon, mostEpsilon)
	dof, best := c.sharpest(b)
	if !(best.t > 0) {
		return 0, fmt.Errorf("qop: %w: no σ² was found for %v", dp.ErrCondition, b)
	}
	return u.Constants.Smoothness * dof / best.t / 2 * square(u.Radius), nil
}

// published minimizes the published bound over log(m−d), the share of ε₁ and
// those of δ₁…δ₄.
func (u Utility) published(b dp.Budget, rank int) (float64, error) {
	d := float64(u.Dim)
	value := func(x []float64) float64 {
		w := [4]float64{1, math.Exp(x[1]), 0, 0}
		e1 := 1.0
		if u.Tau > 0 {
			w[2], w[3] = math.Exp(x[3]), math.Exp(x[4])
			e1 = 1 / (1 + math.Exp(-x[2]))
		}
		sum := w[0] + w[1] + w[2] + w[3]
		in := Published{
			Dim: u.Dim, Degrees: d + 1 + math.Exp(x[0]), Rank: rank, Smoothness: u.Constants.Smoothness,
			Epsilon1: e1 * b.Epsilon, Epsilon2: (1 - e1) * b.Epsilon,
			Delta1: b.Delta * w[0] / sum, Delta3: b.Delta * w[1] / sum, Delta2: b.Delta * w[2] / sum, Delta4: b.Delta * w[3] / sum,
			Tau: u.Tau, Eta: u.Eta,
		}
		c, err := in.Constants(false)
		if err != nil || math.IsInf(c.Alpha1, 1) {
			return math.Inf(1)
		}
		s := c.OutputSigma
		return float64(u.Records)*u.Constants.Smoothness*d/2*s*s + u.RegLipschitz*math.Sqrt(d)*s + u.Tau +
			c.Sigma2*in.Degrees/2*(square(u.Radius)+square(u.Eta))
	}
	best := math.Inf(1)
	for _, x := range [][]float64{{num.Log(d + 1), 0, 0, 0, 0}, {num.Log(3*d + 3), -2, 1, -1, -1},
		{num.Log(6*d + 6), -4, -1, 1, 0}} {
		if u.Tau == 0 {
			x = x[:2]
		}
		_, v := simplex(func(x []float64) float64 { return num.Log(value(x)) }, x, 600)
		best = math.Min(best, math.Exp(v))
	}
	if math.IsInf(best, 1) {
		return 0, fmt.Errorf("qop: %w: the published constants do not exist for %v", dp.ErrCondition, b)
	}
	return best, nil
}
