// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package qop

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

// TestPlanCannotBeEdited: a plan has no exported field, and what it hands out are copies.
func TestPlanCannotBeEdited(t *testing.T) {
	p, center := planted(t, 30, 3, loss.Squared{})
	plan, err := (&Mechanism{Center: center, Interpolation: Relabel{}}).Plan(p, budget)
	require.NoError(t, err)
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Plan]()) {
		require.False(t, f.IsExported(), f.Name)
	}
	before, cert := plan.Params(), plan.Certificate()
	par, other := plan.Params(), plan.Certificate()
	par.Sigma2, par.Budget = 1e-9, dp.Budget{Epsilon: 0.01}
	other.Epsilon, other.Assumptions[0] = 0.01, "nothing"
	//lint:ignore SA9005 that nothing is decoded is what is tested
	require.NoError(t, json.Unmarshal([]byte(`{"params":{"sigma2":1e-9},"sigma2":1e-9}`), plan))
	traces := 0
	require.NotSame(t, plan, plan.Traced(func(erm.Trace) { traces++ }))
	_, err = plan.Fit(t.Context(), p, nil)
	require.NoError(t, err)
	require.Zero(t, traces)
	require.Equal(t, before, plan.Params())
	require.Equal(t, cert, plan.Certificate())
	require.LessOrEqual(t, plan.Profile().Delta(budget.Epsilon), budget.Delta)
	require.Contains(t, plan.String(), "qop.lsq/2")
	_, err = plan.Traced(func(erm.Trace) { traces++ }).Fit(t.Context(), p, nil)
	require.NoError(t, err)
	require.Equal(t, 1, traces)

	for _, empty := range []*Plan{nil, {}} {
		_, err := empty.Fit(t.Context(), p, nil)
		require.ErrorIs(t, err, ErrMechanism)
		require.Error(t, empty.Certificate().Check())
		require.Equal(t, 1.0, empty.Profile().Delta(1))
		require.Equal(t, Params{}, empty.Params())
		require.NotEmpty(t, empty.String())
		require.False(t, empty.Traced(nil).made())
	}
	// Without an anchor there is a plan, and no fit.
	plan, err = (&Mechanism{}).Calibrate(public(3, loss.LSQ), budget)
	require.NoError(t, err)
	_, err = plan.Fit(t.Context(), p, nil)
	require.ErrorIs(t, err, ErrMechanism)
}

// TestPlanIsBoundToItsProblem: a plan serves problems with the same or better constants and
// refuses others, by public facts alone.
func TestPlanIsBoundToItsProblem(t *testing.T) {
	huber, center := planted(t, 20, 3, loss.Huber{Delta: 1})
	with := func(edit func(p *erm.Problem)) *erm.Problem {
		q := *huber
		edit(&q)
		return &q
	}
	squared := with(func(p *erm.Problem) { p.Loss = loss.Squared{} })
	wide, err := erm.NewData([][]float64{{1, 0, 0}}, []float64{1}, loss.Bounds{Row: 2, Label: 1})
	require.NoError(t, err)
	flat, err := erm.NewData([][]float64{{1, 0}}, []float64{1}, loss.Bounds{Row: 1, Label: 1})
	require.NoError(t, err)
	more, _ := planted(t, 21, 3, loss.Huber{Delta: 1})
	classes, _ := planted(t, 20, 3, loss.Logistic{})
	plan := func(p *erm.Problem, rule Interpolation) *Plan {
		pl, err := (&Mechanism{Center: center, Interpolation: rule, Structure: loss.FixedRange}).Plan(p, budget)
		require.NoError(t, err)
		return pl
	}
	lsq, err := (&Mechanism{Center: center, Interpolation: Relabel{}}).Plan(squared, budget)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		plan *Plan
		p    *erm.Problem
		is   error
	}{
		"itself":           {plan(huber, Relabel{}), huber, nil},
		"stronger":         {plan(huber, Relabel{}), squared, nil},
		"weaker":           {lsq, huber, ErrMechanism},
		"other set":        {plan(huber, Relabel{}), with(func(p *erm.Problem) { p.Set = prox.Box{Lo: -0.1, Hi: 0.1} }), nil},
		"smoothness":       {plan(huber, Relabel{}), &erm.Problem{Data: wide, Loss: huber.Loss}, ErrMechanism},
		"dimension":        {plan(huber, Relabel{}), &erm.Problem{Data: flat, Loss: huber.Loss}, ErrMechanism},
		"records":          {plan(huber, Relabel{}), more, ErrMechanism},
		"no minimizer":     {plan(huber, Trust{}), classes, dp.ErrCondition},
		"no interpolation": {plan(huber, Relabel{}), with(func(p *erm.Problem) { p.Loss = bowl{center} }), dp.ErrCondition},
		"foreign": {plan(huber, Trust{}), with(func(p *erm.Problem) { p.Loss = mine{huber.Loss.(loss.Linear)} }),
			ErrMechanism},
		"empty": {plan(huber, Relabel{}), &erm.Problem{}, erm.ErrProblem},
		"nil":   {plan(huber, Relabel{}), nil, erm.ErrProblem},
	} {
		rel, err := c.plan.Fit(t.Context(), c.p, nil)
		if c.is == nil {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorIs(t, err, c.is, name)
		require.Nil(t, rel, name)
	}
	// A larger set, where the plan's bound on the minimizer does not hold: the solver is told the new
	// one.
	small := with(func(p *erm.Problem) { p.Set = prox.Box{Lo: -1e-3, Hi: 1e-3} })
	pl, err := (&Mechanism{Center: center, Interpolation: Relabel{}, Cover: 1e-3, Structure: loss.FixedRange}).Plan(small,
		budget)
	require.NoError(t, err)
	var tr erm.Trace
	var drawn erm.Perturbation
	ctx := fault.With(draws(t.Context(), &drawn), fault.Stage, func(int) int { return 2 }) // descent alone
	_, err = pl.Traced(func(t erm.Trace) { tr = t }).Fit(ctx, huber, noise.Reproducible(1))
	require.NoError(t, err)
	require.LessOrEqual(t, tr.Distance, 1e-3)
	same := *huber // with labels that the anchor predicts already
	require.LessOrEqual(t, floats.Distance(minimizer(t, &same, drawn), tr.Theta, 2), 1.1e-3)
	require.Greater(t, floats.Norm(tr.Theta, 2), 0.1)
}

// mine is a loss of another package.
type mine struct{ loss.Linear }

// TestRefused: what makes no claim true is refused, by field, value and way out.
func TestRefused(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	classes, _ := planted(t, 10, 3, loss.Logistic{})
	for _, c := range []struct {
		edit  func(m *Mechanism, p *erm.Problem, b *dp.Budget)
		is    error
		words string
	}{
		{func(m *Mechanism, _ *erm.Problem, _ *dp.Budget) { m.Degrees = 5 }, dp.ErrCondition, "at least Dim+3 = 6"},
		{func(m *Mechanism, _ *erm.Problem, _ *dp.Budget) { m.Degrees = 6.5 }, ErrMechanism, "Degrees = 6.5"},
		{func(m *Mechanism, _ *erm.Problem, _ *dp.Budget) { m.Degrees = nan }, ErrMechanism, "Degrees = NaN"},
		{func(m *Mechanism, _ *erm.Problem, _ *dp.Budget) { m.Degrees = inf }, ErrMechanism, "Degrees = +Inf"},
		{func(m *Mechanism, _ *erm.Problem, _ *dp.Budget) { m.Interpolation, m.Eta = Trust{}, -1 }, ErrMechanism, "Eta = -1"},
		{func(m *Mechanism, _ *erm.Problem, _ *dp.Budget) { m.Eta, m.Calibration = 1, Paper }, dp.ErrCondition, "not proved"},
		{func(m *Mechanism, _ *erm.Problem, _ *dp.Budget) { m.Eta = 1 }, ErrMechanism, "want 0, or Trust{}"},
		{func(m *Mechanism, _ *erm.Problem, _ *dp.Budget) { m.Eta, m.Interpolation = 1, Drop{} }, ErrMechanism,
			"want 0, or Trust{}"},
		{func(m *Mechanism, _ *erm.Problem, _ *dp.Budget) { m.Share = 1 }, ErrMechanism, "(0, 1)"},
		{func(m *Mechanism, _ *erm.Problem, _ *dp.Budget) { m.Radius = inf }, ErrMechanism, "Radius = +Inf"},
		{func(m *Mechanism, _ *erm.Problem, _ *dp.Budget) { m.Cover = -1 }, ErrMechanism, "Cover = -1"},
		{func(m *Mechanism, _ *erm.Problem, _ *dp.Budget) { m.Cover = 1e-30 }, dp.ErrCondition, "Cover = 1e-30"},
		{func(m *Mechanism, _ *erm.Problem, _ *dp.Budget) { m.Relation = 7 }, dp.ErrRelation, "Relation"},
		{func(m *Mechanism, _ *erm.Problem, _ *dp.Budget) { m.Calibration = 9 }, ErrMechanism, "Sharp or Paper"},
		{func(m *Mechanism, _ *erm.Problem, _ *dp.Budget) { m.Structure = 9 }, ErrMechanism,
			"LSQ, GLM, FixedRange or General"},
		{func(m *Mechanism, p *erm.Problem, _ *dp.Budget) { m.Structure, p.Loss = loss.LSQ, loss.Huber{Delta: 1} },
			dp.ErrCondition,
			"declares GLM only"},
		{func(_ *Mechanism, _ *erm.Problem, b *dp.Budget) { b.Epsilon = 0 }, dp.ErrBudget, "Epsilon = 0"},
		{func(_ *Mechanism, _ *erm.Problem, b *dp.Budget) { b.Epsilon = nan }, dp.ErrBudget, "Epsilon = NaN"},
		{func(_ *Mechanism, _ *erm.Problem, b *dp.Budget) { b.Delta = 0 }, dp.ErrBudget, "the least Delta is 1e-90"},
		{func(_ *Mechanism, _ *erm.Problem, b *dp.Budget) { b.Delta = 0.97e-90 }, dp.ErrBudget, "at least 1e-90"},
		{func(_ *Mechanism, _ *erm.Problem, b *dp.Budget) { b.Delta = 1 }, dp.ErrBudget, "Delta = 1"},
		{func(_ *Mechanism, p *erm.Problem, _ *dp.Budget) { p.Loss = loss.Absolute{} }, dp.ErrCondition, "Smoothness = +Inf"},
		{func(m *Mechanism, _ *erm.Problem, _ *dp.Budget) { m.Center = nil }, ErrMechanism, "Center is nil"},
		{func(m *Mechanism, _ *erm.Problem, _ *dp.Budget) { m.Center = []float64{1} }, ErrMechanism,
			"1 coordinates, the problem 3"},
		{func(m *Mechanism, _ *erm.Problem, _ *dp.Budget) { m.Center[1] = nan }, ErrMechanism, "Center[1] = NaN"},
		{func(m *Mechanism, _ *erm.Problem, _ *dp.Budget) { m.Center[2] = 1e200 }, ErrMechanism, "at most 1e+150"},
		{func(m *Mechanism, _ *erm.Problem, _ *dp.Budget) { m.Interpolation = nil }, ErrMechanism, "Relabel{}"},
		{func(m *Mechanism, _ *erm.Problem, _ *dp.Budget) { m.Interpolation = Drop{Tolerance: -1} }, ErrMechanism,
			"Tolerance = -1"},
		{func(m *Mechanism, _ *erm.Problem, _ *dp.Budget) { m.Interpolation = Drop{Tolerance: nan} }, ErrMechanism,
			"Tolerance = NaN"},
		{func(_ *Mechanism, p *erm.Problem, _ *dp.Budget) { *p = *classes }, dp.ErrCondition, "loss.Logistic has none"},
		{func(m *Mechanism, p *erm.Problem, _ *dp.Budget) { m.Interpolation, *p = Drop{}, *classes }, dp.ErrCondition,
			"Drop needs"},
		{func(m *Mechanism, p *erm.Problem, _ *dp.Budget) { m.Interpolation, *p = Trust{}, *classes }, dp.ErrCondition,
			"nothing to trust"},
		{func(_ *Mechanism, p *erm.Problem, _ *dp.Budget) { p.Loss = nil }, erm.ErrProblem, "Loss is nil"},
		{func(_ *Mechanism, p *erm.Problem, _ *dp.Budget) {
			p.Reg, p.Set = prox.TotalVariation{Weight: 1}, prox.Simplex{Total: 1}
		}, erm.ErrProblem, "Reg"},
	} {
		p, center := planted(t, 10, 3, loss.Squared{})
		m, b := &Mechanism{Center: center, Interpolation: Relabel{}}, budget
		c.edit(m, p, &b)
		plan, err := m.Plan(p, b)
		require.Nil(t, plan, c.words)
		require.ErrorIs(t, err, c.is, c.words)
		require.ErrorContains(t, err, c.words)
		require.ErrorContains(t, err, "qop: ")
		rel, same := m.Fit(t.Context(), p, b, nil)
		require.Nil(t, rel, c.words)
		require.EqualError(t, same, err.Error())
	}
	for _, q := range []erm.Public{
		{Dim: 3, Radius: 1}, {Dim: 3, Radius: 1, Constants: loss.Constants{Smoothness: nan, Structure: loss.LSQ}},
		{Dim: 3, Radius: 1, Constants: loss.Constants{Smoothness: 1, Structure: loss.General}},
		{Dim: 3, Radius: 1, Constants: loss.Constants{Smoothness: 1}},
	} {
		_, err := (&Mechanism{}).Calibrate(q, budget)
		require.ErrorIs(t, err, dp.ErrCondition, "%+v", q)
	}
	_, err := (&Mechanism{}).Calibrate(erm.Public{Dim: 0}, budget)
	require.ErrorIs(t, err, erm.ErrProblem)
	_, err = (*Mechanism)(nil).Calibrate(public(3, loss.GLM), budget)
	require.ErrorIs(t, err, ErrMechanism)
	p, _ := planted(t, 10, 3, loss.Squared{})
	_, err = (&Mechanism{}).Fit(t.Context(), p, budget, nil)
	require.ErrorIs(t, err, ErrMechanism)
}
