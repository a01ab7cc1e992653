package lop

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/enclose"
	"github.com/privopt/privopt/internal/linear"
	"github.com/privopt/privopt/internal/release"
)

// Run releases the minimizer of p with the noise of the step, under the certificate
// of its sequence, and returns the numbers that were used. It is for packages of this module that
// compose several releases: the caller has proved that the sequence meets the certificate
// (docs/theory/composition.md#model.auto/1). Params.Budget is that of the whole sequence. The error
// is that of CheckStep, or of [Plan.Fit].
func (s Settings) Run(
	ctx context.Context, p *erm.Problem, cert dp.Certificate, step linear.Step, src rand.Source,
) (*dp.Release, Params, error) {
	if err := release.CheckContext(ErrMechanism, ctx); err != nil {
		return nil, Params{}, s.mark(err)
	}
	pl, p, err := s.step(p, cert, step)
	if err != nil {
		return nil, Params{}, err
	}
	rel, err := pl.run(ctx, p, pl.public.Reach(pl.per), src)
	return rel, pl.params, err
}

// CheckStep returns the error that Run would return before it reads a record: it wraps
// dp.ErrCondition for numbers that the sequence does not allow or that float64
// cannot serve, and erm.ErrProblem.
func (s Settings) CheckStep(p *erm.Problem, cert dp.Certificate, step linear.Step) error {
	_, _, err := s.step(p, cert, step)
	return err
}

// step returns the plan of a step, and p as it was prepared.
func (s Settings) step(p *erm.Problem, cert dp.Certificate, step linear.Step) (*Plan, *erm.Problem, error) {
	if err := s.check(); err != nil {
		return nil, nil, s.mark(err)
	}
	p, q, err := s.prepare(p)
	if err != nil {
		return nil, nil, err
	}
	if q, err = q.Complete(s.relation()); err == nil {
		err = q.Smooth()
	}
	if err != nil {
		return nil, nil, s.mark(err)
	}
	g, k := q.Constants.Lipschitz, q.Constants
	if s.relation() == dp.Replace {
		g *= 2
	}
	c := math.Log1p(k.Smoothness/(step.Ridge+q.Modulus)) * linear.SafeC
	enough := enclose.ExceedsExpm1(step.C, math.Nextafter(k.Smoothness/math.Nextafter(step.Ridge+q.Modulus, 0), math.Inf(1)))
	if !q.Linear || !(c <= step.C) || !enough || !(g > 0 && g < math.Inf(1)) || !(step.S > 0 && step.Output > 0) {
		return nil, nil, s.mark(fmt.Errorf("%w: a step of a sequence needs a loss of ⟨a,θ⟩ with bounded slopes and a ridge with c "+
			"≤ %v, got c = %v, L = %v", dp.ErrCondition, step.C, c, k.Lipschitz))
	}
	pl := s.newPlan(q, cert.Budget)
	par := &pl.params
	pl.cert, par.Theorem, par.Lipschitz, par.Smoothness = cert, cert.Theorem, k.Lipschitz, k.Smoothness
	par.Ridge, par.Sigma, par.C, par.S = step.Ridge, g/step.S*linear.SafeScale, step.C, step.S
	b := linear.Noise{Ridge: step.Ridge, Sigma: par.Sigma}
	if err := pl.cover(b, 0, pl.unnoticed(b, step.Output, cert.Budget), cert.Budget); err != nil {
		return nil, nil, s.mark(err)
	}
	pl.output.Sigma = pl.output.Sensitivity / step.Output * linear.SafeScale
	if err := pl.finish(); err != nil {
		return nil, nil, s.mark(err)
	}
	return pl, p, nil
}
