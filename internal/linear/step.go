package linear

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/enclose"
	"github.com/privopt/privopt/internal/release"
)

// A Step is one minimizer of a Sequence. C, S and Output are numbers of the sequence,
// fixed beforehand; Ridge and Settings.Clip may depend on what was released before.
type Step struct {
	C      float64 // cᵢ ≥ log1p(β/(Δ+μ_r))
	S      float64 // sᵢ = G/σ
	Output float64 // S′/σ_out of the output noise, one of the Gaussian releases
	Ridge  float64 // Δ
}

// LeastRidge returns the least Δ ≥ 0 with log1p(β/(Δ+μ_r)) ≤ c, rounded up.
func LeastRidge(beta, modulus, c float64) float64 {
	return max(0, beta/math.Expm1(c)*(1+1e-12)-modulus)
}

// Run releases the minimizer of p with the noise of the step, under the certificate
// of its sequence, and returns the numbers that were used. Params.Budget is that of
// the whole sequence. The error is that of CheckStep, or of Plan.Fit.
func (s Settings) Run(ctx context.Context, p *erm.Problem, cert dp.Certificate, step Step, src rand.Source) (*dp.Release, Params, error) {
	pl, p, err := s.step(p, cert, step)
	if err != nil {
		return nil, Params{}, fmt.Errorf("%s: %w", s.Package, err)
	}
	rel, err := pl.run(ctx, p, pl.public.Reach(pl.per), src)
	return rel, pl.params, err
}

// CheckStep returns the error that Run would return before it reads a record: it wraps
// dp.ErrCondition for numbers that the sequence does not allow or that float64
// cannot serve, and erm.ErrProblem.
func (s Settings) CheckStep(p *erm.Problem, cert dp.Certificate, step Step) error {
	_, _, err := s.step(p, cert, step)
	return err
}

// step returns the plan of a step, and p as it was prepared.
func (s Settings) step(p *erm.Problem, cert dp.Certificate, step Step) (*Plan, *erm.Problem, error) {
	p, q, err := s.Prepare(p)
	if err != nil {
		return nil, nil, err
	}
	if q, err = q.Complete(s.relation()); err == nil {
		err = q.Smooth()
	}
	if err != nil {
		return nil, nil, err
	}
	g, k := q.Constants.Lipschitz, q.Constants
	if s.relation() == dp.Replace {
		g *= 2
	}
	c := math.Log1p(k.Smoothness/(step.Ridge+q.Modulus)) * safeC
	enough := enclose.ExceedsExpm1(step.C, math.Nextafter(k.Smoothness/math.Nextafter(step.Ridge+q.Modulus, 0), math.Inf(1)))
	if !q.Linear || !(c <= step.C) || !enough || !(g > 0 && g < math.Inf(1)) || !(step.S > 0 && step.Output > 0) {
		return nil, nil, fmt.Errorf("%w: a step of a sequence needs a loss of ⟨a,θ⟩ with bounded slopes and a ridge with c "+
			"≤ %v, got c = %v, L = %v", dp.ErrCondition, step.C, c, k.Lipschitz)
	}
	pl := s.newPlan(q, cert.Budget)
	par := &pl.params
	pl.cert, par.Theorem, par.Lipschitz, par.Smoothness = cert, cert.Theorem, k.Lipschitz, k.Smoothness
	par.Ridge, par.Sigma, par.C, par.S = step.Ridge, g/step.S*safeScale, step.C, step.S
	b := Noise{Ridge: step.Ridge, Sigma: par.Sigma}
	if err := pl.cover(b, 0, pl.unnoticed(b, step.Output, cert.Budget), cert.Budget); err != nil {
		return nil, nil, err
	}
	pl.output.Sigma = pl.output.Sensitivity / step.Output * safeScale
	return pl, p, pl.finish()
}

// ProvesFailure reports whether δ pays for a part of it and for the failures of a number of steps,
// each with a relative 1e-9 of room for the rounding of their bounds:
//
//	part + 2·steps·(1+e^ε)·e^{−t²/2} ≤ δ,   B_max = σ(√d + t)
func ProvesFailure(dim, steps int, b dp.Budget, part float64) bool {
	most, _ := release.MostNormal(dim, b, 1)
	return enclose.Proves(nil, func(c enclose.Arithmetic) (less, more enclose.Interval) {
		return c.Add(c.Of(part), c.Mul(c.Of(2*float64(steps)), failure(c, dim, b.Epsilon, c.Of(most)))), c.Of(b.Delta)
	})
}

// failure returns (1+e^ε)e^{−t²/2} for ‖b‖ > σ(√d+t) = σ·most; t = 0 where that is negative.
func failure(c enclose.Arithmetic, dim int, eps float64, most enclose.Interval) enclose.Interval {
	t := c.Most(c.Of(0), c.Sub(most, c.Sqrt(c.Of(float64(dim)))))
	return c.Mul(c.Add(c.Of(1), c.Exp(c.Of(eps))), c.Exp(c.Sub(c.Of(0), c.Quo(c.Square(t), c.Of(2)))))
}

// StepFailure is the probability that the noise of one step of a sequence with budget b
// leaves its bounds, dp.Profile.Failure.
func StepFailure(dim int, b dp.Budget) float64 {
	_, p := release.MostNormal(dim, b, 1)
	return p
}
