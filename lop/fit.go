package lop

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/prefix"
	"github.com/privopt/privopt/internal/release"
)

// Fit calibrates for p and releases its minimizer.
func (s Settings) Fit(ctx context.Context, p *erm.Problem, b dp.Budget, src rand.Source) (*dp.Release, error) {
	if err := release.CheckContext(ErrMechanism, ctx); err != nil {
		return nil, s.mark(err)
	}
	p, q, err := s.prepare(p)
	if err != nil {
		return nil, err
	}
	plan, err := s.Calibrate(q, b)
	if err != nil {
		return nil, err
	}
	return plan.run(ctx, p, plan.public.Reach(plan.per), src)
}

// Fit draws the noise of the plan, solves p and releases its minimizer:
//
//	b ~ the plan's law
//	θ̂ ≈ argmin F(θ) + (Δ/2)‖θ‖² + ⟨b,θ⟩ + r(θ) over C,   ‖θ̂ − argmin‖ ≤ R
//	θ = P_C(g·(round(θ̂/g) + round(ν/g)))
//
// p must have the dimension of the plan, a loss, bounds, regularizer and set whose
// constants are no worse, and no more than MaxRecords records. A plan that clips
// clips the loss of p.
//
// src feeds the noise; nil means a secure one, anything else adds the assumption
// dp.CallerSource. Equal sources give equal results. Each call spends the budget
// once. The error is about public facts, or is ctx.Err(): nothing is withheld
// for a reason that reads records.
func (pl *Plan) Fit(ctx context.Context, p *erm.Problem, src rand.Source) (*dp.Release, error) {
	if !pl.made() {
		return nil, prefix.Errorf("lop: %w: the plan is empty, want one made by Plan or Calibrate", ErrMechanism)
	}
	if err := release.CheckContext(ErrMechanism, ctx); err != nil {
		return nil, pl.settings.mark(err)
	}
	p, q, err := pl.settings.prepare(p)
	if err == nil {
		err = pl.admit(q)
	}
	if err != nil {
		return nil, err
	}
	return pl.run(ctx, p, q.Reach(pl.per), src)
}

// run is Fit for a problem that prepare returned and that was admitted, with its minimizer within
// reach of the origin.
func (pl *Plan) run(ctx context.Context, p *erm.Problem, reach float64, src rand.Source) (*dp.Release, error) {
	if err := pl.public.Admit(p); err != nil {
		return nil, pl.settings.mark(err)
	}
	used := *pl
	used.params = fault.At(fault.From(ctx), calibrated, pl.params)
	used.output.Sigma, used.output.Rate = used.params.OutputSigma, used.params.OutputRate
	job := release.Job{Certificate: pl.cert, Output: used.output, Reach: reach, Draw: used.draw, Trace: pl.settings.Trace}
	if pl.settings.Method != nil {
		if first := pl.settings.Method(pl.params); first != nil {
			job.Methods = []release.Method{first}
		}
	}
	rel, err := job.Run(ctx, p, src)
	if err != nil && ctx.Err() == nil {
		err = pl.settings.mark(err)
	}
	return rel, err
}

// draw draws b on a grid of 2⁻⁴⁵ of its scale, and reports whether ‖b‖ ≤ B_max.
func (pl *Plan) draw(src rand.Source) (erm.Perturbation, bool) {
	p, d := pl.params, pl.params.Dim
	diag := make([]float64, d)
	floats.AddConst(p.Ridge, diag)
	q := erm.Perturbation{Quad: mat.NewDiagDense(d, diag), MinEig: p.Ridge, MaxEig: p.Ridge, LinearError: pl.per.LinearError}
	if p.Sigma == 0 && p.Rate == 0 {
		return q, true
	}
	k := make([]int64, d)
	defer clear(k)
	if p.Rate > 0 {
		noise.RadialGrid(k, p.Rate, pl.step, src)
	} else {
		noise.Grid(k, p.Sigma, pl.step, src)
	}
	q.Linear = make([]float64, d)
	for i, v := range k {
		q.Linear[i] = math.Ldexp(float64(v), pl.step)
	}
	return q, floats.Norm(q.Linear, 2) <= pl.per.Linear
}

// admit refuses a problem that the plan was not made for.
func (pl *Plan) admit(q erm.Public) error {
	s, want := pl.settings, pl.public
	has, most := q.Constants, want.Constants
	if s.Output {
		has, most = q.OnSet, want.OnSet
	}
	refuse := func(format string, args ...any) error {
		return s.mark(fmt.Errorf("%w: %s", ErrMechanism, fmt.Sprintf(format, args...)))
	}
	switch {
	case q.Dim != want.Dim:
		return refuse("the problem has %d parameters, the plan is for %d", q.Dim, want.Dim)
	case q.MaxRecords > want.MaxRecords:
		return refuse("the problem is for at most %d records, the plan for %d", q.MaxRecords, want.MaxRecords)
	case !(has.Lipschitz > 0 && has.Lipschitz <= most.Lipschitz): // 0 means unknown
		return refuse("the problem has Lipschitz = %v, the plan is for a known one of at most %v", has.Lipschitz, most.Lipschitz)
	case !(has.Smoothness > 0 && has.Smoothness <= most.Smoothness):
		return refuse("the problem has Smoothness = %v, the plan is for a known one of at most %v", has.Smoothness, most.Smoothness)
	case !(q.Modulus >= want.Modulus):
		return refuse("the regularizer has Modulus = %v, the plan needs at least %v", q.Modulus, want.Modulus)
	case !s.Output && (has.Structure != most.Structure || has.Rank != most.Rank):
		return refuse("the loss is %v of rank %d, the plan is for %v of rank %d", has.Structure, has.Rank, most.Structure, most.Rank)
	case !s.Output && !q.Covered(want):
		return refuse("the loss declares another curvature at a gradient, other classes or no fixed sign of φ′, than the plan needs")
	}
	if floor := q.Floor(pl.per); !(floor <= pl.output.Cover) {
		return refuse("float64 is sure to reach the minimizer of the problem within %v only, the plan needs Cover = %v", floor, pl.output.Cover)
	}
	for _, a := range q.Assumptions {
		if !slices.Contains(pl.cert.Assumptions, a) {
			return refuse("the problem rests on an assumption that the certificate of the plan does not list: %s", a)
		}
	}
	return nil
}
