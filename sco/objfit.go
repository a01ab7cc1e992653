package sco

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/noise"
	"github.com/privopt/privopt/splitting"
)

// Fit draws the noise of the plan, solves p, certifies the solution and
// releases it. p must have the dimension of the plan, under dp.Replace its
// number of records, and a loss whose constants are no worse.
//
// The error wraps ErrMechanism or erm.ErrProblem if p does not fit,
// dp.ErrWithheld if no method could be certified to R, or is ctx.Err() if ctx
// was cancelled. Fit panics if ctx is nil.
func (pl *ObjPlan) Fit(ctx context.Context, p *erm.Problem, src rand.Source) (*dp.Release, error) {
	if err := pl.admit(p); err != nil {
		return nil, err
	}
	src, assumptions := source(src)
	f := fault.From(ctx)
	b := make([]float64, pl.Dim)
	defer clear(b)
	fault.At(f, fault.Sampler, noise.Normal)(b, fault.At(f, fault.Scale, pl.Sigma), src)
	w, err := pl.minimize(ctx, p, b)
	if err != nil {
		return nil, err
	}
	nu := make([]float64, pl.Dim)
	defer clear(nu)
	fault.At(f, fault.Sampler, noise.Normal)(nu, fault.At(f, fault.OutputScale, pl.OutputSigma), src)
	for i, v := range nu {
		w[i] += v
	}
	if p.Set != nil {
		p.Set.Prox(w, w, 1) // post-processing
	}
	return &dp.Release{Theta: w, Certificate: dp.Certificate{
		Budget:      pl.Budget,
		Relation:    pl.Relation,
		Theorem:     pl.Theorem,
		Assumptions: assumptions,
	}}, nil
}

// admit refuses a problem that the plan was not made for.
func (pl *ObjPlan) admit(p *erm.Problem) error {
	if err := pl.valid(); err != nil {
		return err
	}
	if err := admit(p, pl.Dim, pl.Records, pl.Relation); err != nil {
		return err
	}
	output := pl.Theorem == TheoremOutput
	q, err := certifiable(p, pl.Relation, 0, pl.Radius, pl.Budget, output)
	if err != nil {
		return err
	}
	has, want := q.Constants, pl.Constants
	switch {
	case !(has.Lipschitz > 0 && has.Lipschitz <= want.Lipschitz):
		return fmt.Errorf("%w: the problem has Lipschitz = %v, the plan is for a known one of at most %v", ErrMechanism, has.Lipschitz, want.Lipschitz)
	case output:
	case !(has.Smoothness > 0 && has.Smoothness <= want.Smoothness):
		return fmt.Errorf("%w: the problem has Smoothness = %v, the plan is for a known one of at most %v", ErrMechanism, has.Smoothness, want.Smoothness)
	case has.Structure != want.Structure || has.Rank != want.Rank:
		return fmt.Errorf("%w: the loss is %v of rank %d, the plan is for %v of rank %d", ErrMechanism, has.Structure, has.Rank, want.Structure, want.Rank)
	}
	return nil
}

// minimize returns a point of W that is certified to lie within R of the
// minimizer of the objective perturbed by b.
func (pl *ObjPlan) minimize(ctx context.Context, p *erm.Problem, b []float64) ([]float64, error) {
	delta := fault.At(fault.From(ctx), fault.Ridge, pl.Delta)
	diag := make([]float64, pl.Dim)
	for i := range diag {
		diag[i] = delta
	}
	obj := p.Perturb(erm.Perturbation{Linear: b, Quad: mat.NewDiagDense(pl.Dim, diag), MinEig: delta, MaxEig: delta})
	methods := release.Methods
	if pl.SVRG != nil {
		first := func(splitting.Problem, int) splitting.Method { return &svrg{schedule: *pl.SVRG} }
		methods = append([]release.Method{first}, methods...)
	}
	res, err := release.Certify(ctx, p, obj, start(p.Set, pl.Dim), pl.Delta*pl.Cover, methods...)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("sco: %w", err)
	}
	if pl.Trace != nil {
		pl.Trace(Trace{
			Steps:       res.Iterations,
			Evaluations: res.GradTerms,
			Residual:    res.Residual,
			Distance:    res.Residual / pl.Delta,
			Released:    res.Proved,
		})
	}
	if !res.Proved {
		return nil, fmt.Errorf("sco: %w: no method was certified to Cover = %v; the budget is spent", dp.ErrWithheld, pl.Cover)
	}
	return res.X, nil
}
