// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package objpert

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/release"
)

// fit is the method Fit of the mechanism with the given method Plan.
func fit(
	ctx context.Context, plan func(*Problem, dp.Budget) (*Plan, error), p *Problem, b dp.Budget, src rand.Source,
) (*dp.Release, error) {
	pl, err := plan(p, b)
	if err != nil {
		return nil, err
	}
	return pl.Fit(ctx, p, src)
}

// Fit draws the noise of the plan, minimizes and releases the minimizer:
//
//	η ~ the law of the plan,  w = argmin over W of L(w) − ⟨η, φ(w)⟩
//
// p must be over the space of the plan and carry no noise. The release is withheld unless the
// oracle proved the minimizer: privacy compares the exact minimizers on neighbors for each value of
// the noise, and a point near the minimum has no guarantee. A plan of [Exponential] draws a point
// by its loss in place of that; its release is withheld only if ctx ends first.
//
// src feeds the noise. nil means a secure source; any other source adds the assumption
// [dp.CallerSource]. Fit may be called concurrently. Each call spends the budget once, whether it
// releases or not. The error wraps [ErrMechanism] or [ErrProblem] if p does not fit the plan,
// [dp.ErrWithheld] and the error of the oracle if the minimizer was not proved, or [dp.ErrSource]
// if src repeats itself.
func (pl *Plan) Fit(ctx context.Context, p *Problem, src rand.Source) (*dp.Release, error) {
	if pl.empty() {
		return nil, fmt.Errorf("%w: the Plan is empty, want one made by the method Plan of a mechanism", ErrMechanism)
	}
	if err := release.CheckContext(ErrMechanism, ctx); err != nil {
		return nil, err
	}
	f := fault.From(ctx)
	audited := *pl // with the changes of an audit, if there is one
	pl = &audited
	pl.params = fault.At(f, stepParams, pl.params)
	q := &pl.params
	if err := p.check(); err != nil {
		return nil, err
	}
	switch {
	case p.noise != nil:
		return nil, fmt.Errorf("%w: the problem carries noise already", ErrProblem)
	case p.dim != q.Dim || p.custom != q.OracleLoss || !sameSpace(&p.space, &q.Space, q.Dim):
		return nil, fmt.Errorf("%w: the problem is over another space than the plan, want the same Dim, Values, NormSq "+
			"and Allowed, and the same kind of loss", ErrMechanism)
	}
	source, cert := release.Open(src, pl.Certificate())
	// Before anything reads a record: the noise, or the release without it.
	var eta *perturbation
	if pl.law == nil {
		eta = pl.draw(f, source)
	}
	defer eta.wipe()
	var w []int
	var err error
	switch {
	case pl.law != nil:
		w, err = pl.gibbs(ctx, p, source)
	case eta == nil && pl.vote != nil:
		w = q.box().anyPoint(q.Dim, source)
	case eta == nil:
		w = q.anyPoint(q.Dim, source)
	case pl.vote != nil:
		w, err = pl.aggregate(ctx, p, eta, source)
	default:
		w, err = pl.minimize(ctx, p, eta)
	}
	if err := source.Err(); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, err
	}
	theta := make([]float64, len(w))
	for j, v := range w {
		theta[j] = float64(v)
	}
	return &dp.Release{Theta: theta, Certificate: cert}, nil
}

// minimize returns the proved minimizer of p with the noise eta.
func (pl *Plan) minimize(ctx context.Context, p *Problem, eta *perturbation) ([]int, error) {
	noisy := *p
	noisy.noise = eta
	sol, err := pl.oracle.Solve(ctx, &noisy)
	proven := err == nil && sol != nil && fault.At(fault.From(ctx), fault.Certified, sol.Proven) && noisy.Contains(sol.W)
	switch {
	case errors.Is(err, ErrProblem):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("objpert: %w: the oracle did not prove a minimizer: %w", dp.ErrWithheld, err)
	case !proven:
		return nil, fmt.Errorf("objpert: %w: the oracle did not prove a minimizer", dp.ErrWithheld)
	}
	return sol.W, nil
}
