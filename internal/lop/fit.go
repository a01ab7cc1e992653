// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

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

// Calibrated is the step at which an audit may replace the numbers by which a fit draws noise.
var Calibrated = fault.NewStep[Params]("linear parameters")

// Fit calibrates for p and releases its minimizer.
func (s Settings) Fit(ctx context.Context, p *erm.Problem, b dp.Budget, src rand.Source) (*dp.Release, error) {
	pl, err := s.Plan(p, b)
	if err != nil {
		return nil, err
	}
	return pl.Fit(ctx, p, src)
}

// Fit releases the minimizer of p under the certificate of the plan, see lop.Plan.
func (pl *Plan) Fit(ctx context.Context, p *erm.Problem, src rand.Source) (*dp.Release, error) {
	if !pl.made() {
		return nil, prefix.Errorf("lop: %w: the plan is empty, want one made by Plan or Calibrate", ErrMechanism)
	}
	s := pl.settings
	if err := release.CheckContext(ErrMechanism, ctx); err != nil {
		return nil, s.mark(err)
	}
	p, q, err := s.prepare(p)
	if err == nil {
		err = pl.admit(q)
	}
	if err == nil {
		err = pl.public.Admit(p)
	}
	if err != nil {
		return nil, s.mark(err)
	}
	used := *pl
	used.params = fault.At(fault.From(ctx), Calibrated, pl.params)
	used.output.Sigma, used.output.Rate = used.params.OutputSigma, used.params.OutputRate
	job := release.Job{Certificate: pl.cert, Output: used.output, Reach: q.Reach(pl.per), Start: s.Center,
		Draw: used.draw, Trace: s.Trace}
	if s.Method != nil {
		if first := s.Method(pl.params); first != nil {
			job.Methods = []release.Method{first}
		}
	}
	rel, err := job.Run(ctx, p, src)
	if err != nil && ctx.Err() == nil {
		err = s.mark(err)
	}
	return rel, err
}

// draw draws b on a grid of 2⁻⁴⁵ of its scale, and reports whether ‖b‖ ≤ B_max.
func (pl *Plan) draw(src rand.Source) (erm.Perturbation, bool) {
	p, d := pl.params, pl.params.Dim
	diag := make([]float64, d)
	floats.AddConst(p.Ridge, diag)
	q := erm.Perturbation{Center: pl.settings.Center, Quad: mat.NewDiagDense(d, diag), MinEig: p.Ridge, MaxEig: p.Ridge,
		LinearError: pl.per.LinearError}
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
	output, want := pl.settings.Output, pl.public
	has, most := q.Constants, want.Constants
	if output {
		has, most = q.OnSet, want.OnSet
	}
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrMechanism, fmt.Sprintf(format, args...))
	}
	switch {
	case q.Dim != want.Dim:
		return refuse("the problem has %d parameters, the plan is for %d", q.Dim, want.Dim)
	case q.MaxRecords > want.MaxRecords:
		return refuse("the problem is for at most %d records, the plan for %d", q.MaxRecords, want.MaxRecords)
	case (q.Rows > 0) != (want.Rows > 0) || q.Rows > want.Rows:
		return refuse("a unit of the problem has %d lines at most (0: it is one record), the plan is for %d", q.Rows,
			want.Rows)
	case q.Person != want.Person:
		return refuse("the persons of the problem are ids of the column %.40q, the plan is for %.40q", q.Person, want.Person)
	case !(has.Lipschitz > 0 && has.Lipschitz <= most.Lipschitz): // 0 means unknown
		return refuse("the problem has Lipschitz = %v, the plan is for a known one of at most %v", has.Lipschitz,
			most.Lipschitz)
	case !(has.Smoothness > 0 && has.Smoothness <= most.Smoothness):
		return refuse("the problem has Smoothness = %v, the plan is for a known one of at most %v", has.Smoothness,
			most.Smoothness)
	case !(q.Modulus >= want.Modulus):
		return refuse("the regularizer has Modulus = %v, the plan needs at least %v", q.Modulus, want.Modulus)
	case !output && (has.Structure != most.Structure || has.Rank != most.Rank):
		return refuse("the loss is %v of rank %d, the plan is for %v of rank %d", has.Structure, has.Rank, most.Structure,
			most.Rank)
	case !output && !q.Covered(want):
		return refuse("the loss declares another curvature at a gradient, other classes or no fixed sign of φ′, than the " +
			"plan needs")
	}
	if floor := q.Floor(pl.per); !(floor <= pl.output.Cover) {
		return refuse("float64 is sure to reach the minimizer of the problem within %v only, the plan needs Cover = %v",
			floor, pl.output.Cover)
	}
	for _, a := range q.Assumptions {
		if !slices.Contains(pl.cert.Assumptions, a) {
			return refuse("the problem rests on an assumption that the certificate of the plan does not list: %s", a)
		}
	}
	return nil
}
