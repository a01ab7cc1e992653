package lop

import (
	"fmt"
	"math"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/specfun"
)

// AMP has the inputs of approximate minima perturbation [INS+19] in the mean
// form of the paper, (1/n)Σℓ + (Λ/2n)‖θ‖² + ⟨b₁,θ⟩, minimized until the norm of
// the gradient is at most Gamma. For comparison with Mechanism; nothing is
// released from it.
type AMP struct {
	Lipschitz, Smoothness float64 // L, β
	Rank                  int     // r; the authors' programs take 2 for losses of ⟨a,θ⟩
	Records               int     // n
	Epsilon1, Epsilon2    float64 // of the objective and of the output
	Epsilon3              float64 // part of Epsilon1, 0 < ε₁−ε₃ < 1
	Delta1, Delta2        float64
	Gamma                 float64 // γ
}

// AMPNoise has what AMP.Noise computes.
type AMPNoise struct {
	Lambda float64 // Λ = rβ/(ε₁−ε₃)
	Sigma1 float64 // (2L/n)(1+√(2 ln(1/δ₁)))/ε₃, of b₁
	Sigma2 float64 // as published: R(1+√(2 ln(1/δ₂)))/ε₂, not enough
	Radius float64 // R = nγ/Λ
	// Corrected is the σ₂ that hides 2R, by the analytic calibration: two runs
	// that end within R of the same point differ by up to 2R, which the
	// published σ₂ takes for R.
	Corrected float64
}

// Noise returns the published parameters and the corrected output noise. The
// error wraps dp.ErrCondition or dp.ErrBudget for inputs outside the theorem.
func (a AMP) Noise() (AMPNoise, error) {
	gap := a.Epsilon1 - a.Epsilon3
	if !(gap > 0 && gap < 1) {
		return AMPNoise{}, fmt.Errorf("lop: %w: Epsilon1 − Epsilon3 = %v, AMP needs a number in (0, 1)", dp.ErrCondition, gap)
	}
	for _, f := range []struct {
		name string
		v    float64
	}{
		{"Lipschitz", a.Lipschitz}, {"Smoothness", a.Smoothness}, {"Rank", float64(a.Rank)},
		{"Records", float64(a.Records)}, {"Gamma", a.Gamma}, {"Epsilon3", a.Epsilon3},
	} {
		if !(f.v > 0) || math.IsInf(f.v, 1) {
			return AMPNoise{}, fmt.Errorf("lop: %w: %s = %v, AMP needs a positive finite number", dp.ErrCondition, f.name, f.v)
		}
	}
	if !(a.Delta1 > 0 && a.Delta1 < 1) {
		return AMPNoise{}, fmt.Errorf("lop: %w: Delta1 = %v, AMP needs a number in (0, 1)", dp.ErrBudget, a.Delta1)
	}
	n := float64(a.Records)
	tail := func(delta float64) float64 { return 1 + math.Sqrt(-2*specfun.Log(delta)) }
	out := AMPNoise{
		Lambda: float64(a.Rank) * a.Smoothness / gap,
		Sigma1: 2 * a.Lipschitz / n * tail(a.Delta1) / a.Epsilon3,
	}
	out.Radius = n * a.Gamma / out.Lambda
	var err error
	out.Corrected, err = gaussianSigma(dp.Budget{Epsilon: a.Epsilon2, Delta: a.Delta2}, 2*out.Radius)
	if err != nil {
		return AMPNoise{}, err
	}
	out.Sigma2 = out.Radius * tail(a.Delta2) / a.Epsilon2
	return out, nil
}

// CMS has the inputs of Algorithm 2 of [CMS11] in the mean form of the paper,
// (1/n)Σℓ + (Λ/2)‖θ‖² + ⟨b,θ⟩/n + (Δ′/2)‖θ‖², for L = 1 and replacement. For
// comparison with Mechanism, whose Calibration CMS11 never raises Δ by itself.
type CMS struct {
	Epsilon   float64
	Records   int     // n
	Lambda    float64 // Λ
	Curvature float64 // sup φ″
}

// CMSNoise has what CMS.Noise computes.
type CMSNoise struct {
	EpsilonPrime float64 // ε′ = ε − 2 log1p(κ/(nΛ)), or ε/2 with an extra Δ′
	Extra        float64 // Δ′ = κ/(n(e^{ε/4}−1)) − Λ, 0 if ε′ > 0 without it
	Rate         float64 // a = ε′/2 in the density ∝ exp(−a‖b‖)
	// OneSided is ε − log1p(κ/(nΛ)), what the one-sided bound on the
	// determinant leaves for b without any Δ′; not positive where Λ is too small.
	OneSided float64
}

// Noise returns the published parameters. The error wraps dp.ErrBudget for an
// invalid ε and dp.ErrCondition for other inputs that are not positive.
func (c CMS) Noise() (CMSNoise, error) {
	if err := (dp.Budget{Epsilon: c.Epsilon}).Check(); err != nil {
		return CMSNoise{}, fmt.Errorf("lop: %w", err)
	}
	n := float64(c.Records)
	for _, f := range []struct {
		name string
		v    float64
	}{{"Records", n}, {"Lambda", c.Lambda}, {"Curvature", c.Curvature}} {
		if !(f.v > 0) || math.IsInf(f.v, 1) {
			return CMSNoise{}, fmt.Errorf("lop: %w: %s = %v, want a positive finite number", dp.ErrCondition, f.name, f.v)
		}
	}
	l := math.Log1p(c.Curvature / (n * c.Lambda))
	out := CMSNoise{EpsilonPrime: c.Epsilon - 2*l, OneSided: c.Epsilon - l}
	if out.EpsilonPrime <= 0 {
		out.Extra = c.Curvature/(n*math.Expm1(c.Epsilon/4)) - c.Lambda
		out.EpsilonPrime = c.Epsilon / 2
	}
	out.Rate = out.EpsilonPrime / 2
	return out, nil
}
