// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package sco

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

var ctx = context.Background()

// readGolden reads a section of testdata/golden.json, which says in
// how_computed where its values come from.
func readGolden(t *testing.T, section string, v any) {
	t.Helper()
	raw, err := os.ReadFile("testdata/golden.json")
	require.NoError(t, err)
	var all map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(raw, &all))
	require.NoError(t, json.Unmarshal(all[section], v))
}

// problem returns logistic records with a planted direction.
func problem(seed uint64, n, d int) *erm.Problem {
	rnd := rand.New(rand.NewPCG(seed, 1))
	rows, labels := make([][]float64, n), make([]float64, n)
	for i := range rows {
		rows[i] = make([]float64, d)
		for j := range rows[i] {
			rows[i][j] = rnd.NormFloat64() / math.Sqrt(float64(d))
		}
		labels[i] = 1
		if rows[i][0]+0.3*rnd.NormFloat64() < 0 {
			labels[i] = -1
		}
	}
	data, err := erm.NewData(rows, labels, loss.Bounds{Row: 1, Label: 1})
	if err != nil {
		panic(err)
	}
	return &erm.Problem{Data: data, Loss: loss.Logistic{}, Set: prox.L2Ball{R: 2}}
}

// tilted is the loss −⟨a,w⟩ b, the worst case of noisy SGD.
type tilted struct{}

func (tilted) Func(w, a []float64, b float64) float64 { return -b * floats.Dot(w, a) }

func (tilted) Grad(dst, w, a []float64, b float64) { floats.ScaleTo(dst, -b, a) }

func (tilted) Scalar(u, b, _ float64) (phi, dphi, d2phi float64) {
	return -b * u, -b, 0
}

func (tilted) Constants(b loss.Bounds, _ float64) loss.Constants {
	return loss.Constants{Lipschitz: b.Row * b.Label, Smoothness: 1e-9, Rank: 1, Structure: loss.GLM}
}

func axis(n int, sign float64) *erm.Problem {
	rows, labels := make([][]float64, n), make([]float64, n)
	for i := range rows {
		rows[i] = []float64{1}
		labels[i] = -1
	}
	labels[0] = sign
	data, err := erm.NewData(rows, labels, loss.Bounds{Row: 1, Label: 1})
	if err != nil {
		panic(err)
	}
	return &erm.Problem{Data: data, Loss: tilted{}}
}

// mechanism is what all of this package have in common.
type mechanism interface {
	Fit(ctx context.Context, p *erm.Problem, b dp.Budget, src rand.Source) (*dp.Release, error)
}

// planned is a plan of any mechanism.
type planned interface {
	Fit(ctx context.Context, p *erm.Problem, src rand.Source) (*dp.Release, error)
}

// plan returns the plan of m for p and its bound.
func plan(t *testing.T, m mechanism, p *erm.Problem, b dp.Budget) (planned, float64) {
	t.Helper()
	switch m := m.(type) {
	case interface {
		Plan(p *erm.Problem, b dp.Budget) (*Plan, error)
	}:
		pl, err := m.Plan(p, b)
		require.NoError(t, err)
		return pl, pl.Params().ExcessBound
	case interface {
		Plan(p *erm.Problem, b dp.Budget) (*lop.Plan, error)
	}:
		pl, err := m.Plan(p, b)
		require.NoError(t, err)
		return pl, pl.Params().ExcessBound
	}
	t.Fatalf("%T has no plan", m)
	return nil, 0
}

// Equal sources give equal releases; certificates say what they rest on; a
// cancelled context ends the fit.
func TestReleases(t *testing.T) {
	p := problem(2, 300, 3)
	b := dp.Budget{Epsilon: 2, Delta: 1e-5}
	p.Records = 280
	for want, ms := range map[string][]mechanism{
		theoremSGD: {&NoisySGD{}, &DPSGD{Momentum: 0.5}, &NoisySGD{Relation: dp.AddRemove},
			&DPSGD{Relation: dp.AddRemove, Average: true}},
		theoremProx:    {&ProxGD{NoisySGD: NoisySGD{Scheme: FixedSize}}},
		"lop.":         {&ObjPert{}, &ObjPert{SVRG: true}, &ObjPert{Relation: dp.AddRemove}},
		"lop.output/2": {&Output{}, &Output{Relation: dp.AddRemove}},
	} {
		for _, m := range ms {
			one, err := m.Fit(ctx, p, b, noise.Reproducible(5))
			require.NoError(t, err, "%T", m)
			two, err := m.Fit(ctx, p, b, noise.Reproducible(5))
			require.NoError(t, err)
			require.Equal(t, one, two)
			require.Contains(t, one.Certificate.Theorem, want)
			require.Equal(t, b, one.Certificate.Budget)
			require.Contains(t, one.Certificate.Assumptions, dp.CallerSource)
			require.LessOrEqual(t, floats.Norm(one.Theta, 2), 2*(1+1e-12))
			secret, err := m.Fit(ctx, p, b, nil)
			require.NoError(t, err)
			require.NotContains(t, secret.Certificate.Assumptions, dp.CallerSource)
			require.NotEqual(t, one.Theta, secret.Theta)

			stopped, cancel := context.WithCancel(ctx)
			cancel()
			_, err = m.Fit(stopped, p, b, nil)
			require.ErrorIs(t, err, context.Canceled, "%T", m)
			_, err = m.Fit(ctx, &erm.Problem{}, b, nil)
			require.ErrorIs(t, err, erm.ErrProblem)
			_, err = m.Fit(ctx, p, dp.Budget{}, nil)
			require.Error(t, err)
		}
	}
}

// Plans refuse other problems.
func TestPlansAdmit(t *testing.T) {
	p, b := problem(2, 300, 3), dp.Budget{Epsilon: 2, Delta: 1e-5}
	sgd, err := (&NoisySGD{}).Plan(p, b)
	require.NoError(t, err)
	steep := *p
	steep.Loss = loss.Huber{Delta: 50}
	for _, c := range []struct {
		p    *erm.Problem
		text string
	}{
		{problem(2, 300, 4), "parameters"},
		{problem(2, 301, 3), "records"},
		{&steep, ""}, // gradients are clipped, whatever the loss
	} {
		_, err := sgd.Fit(ctx, c.p, nil)
		if c.text == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, ErrMechanism)
		require.ErrorContains(t, err, c.text)
	}
	for _, empty := range []interface {
		dp.Plan
		planned
	}{&Plan{}, (*Plan)(nil)} {
		_, err := empty.Fit(ctx, p, nil)
		require.ErrorIs(t, err, ErrMechanism)
		require.Equal(t, dp.Certificate{}, empty.Certificate())
		require.Equal(t, 1., empty.Profile().Delta(3))
		require.Contains(t, empty.String(), "empty")
	}
}

// declared returns public quantities of a smooth loss, and a budget.
func declared(n, d int, eps, delta, l, beta, m float64) (erm.Public, dp.Budget) {
	k := loss.Constants{Lipschitz: l, Smoothness: beta, Rank: 1, Structure: loss.GLM}
	return erm.Public{Dim: d, Records: n, Radius: m, Constants: k, OnSet: k}, dp.Budget{Epsilon: eps, Delta: delta}
}

// declaration is what a calibration reads.
type declaration struct {
	q erm.Public
	b dp.Budget
}

// calibrating returns the error of m's calibration.
func calibrating[P any](m interface {
	Calibrate(q erm.Public, b dp.Budget) (P, error)
}) func(c declaration) error {
	return func(c declaration) error { _, err := m.Calibrate(c.q, c.b); return err }
}

// Every rejection: the field, the value and what would do.
func TestRefuse(t *testing.T) {
	q, b := declared(1000, 5, 1, 1e-7, 1, 0.25, 1)
	good := declaration{q, b}
	with := func(f func(c *declaration)) declaration { c := good; f(&c); return c }
	nan, inf := math.NaN(), math.Inf(1)
	all := []func(c declaration) error{calibrating(&NoisySGD{}), calibrating(&ProxGD{}),
		calibrating(&DPSGD{})}
	for _, c := range []struct {
		want error
		text string
		d    declaration
	}{
		{dp.ErrBudget, "Epsilon", with(func(c *declaration) { c.b.Epsilon = 0 })},
		{dp.ErrBudget, "Epsilon", with(func(c *declaration) { c.b.Epsilon = nan })},
		{dp.ErrBudget, "Delta", with(func(c *declaration) { c.b.Delta = 1 })},
		{dp.ErrBudget, "Delta = 0", with(func(c *declaration) { c.b.Delta = 0 })},
		{erm.ErrProblem, "Dim = 0", with(func(c *declaration) { c.q.Dim = 0 })},
		{ErrMechanism, "Records = 0", with(func(c *declaration) { c.q.Records = 0 })},
		{ErrMechanism, "Radius = +Inf", with(func(c *declaration) { c.q.Radius = 0 })},
		{ErrMechanism, "Radius = +Inf", with(func(c *declaration) { c.q.Radius = inf })},
		{dp.ErrCondition, "Lipschitz", with(func(c *declaration) { c.q.OnSet.Lipschitz = 0 })},
		{dp.ErrCondition, "Lipschitz = +Inf", with(func(c *declaration) { c.q.OnSet.Lipschitz = inf })},
		{dp.ErrCondition, "Lipschitz", with(func(c *declaration) { c.q.OnSet.Lipschitz = nan })},
	} {
		for i, f := range all {
			err := f(c.d)
			require.ErrorIs(t, err, c.want, "mechanism %d: %s", i, c.text)
			require.ErrorContains(t, err, c.text)
			require.True(t, strings.HasPrefix(err.Error(), "sco: "), err)
		}
	}
	for _, c := range []struct {
		want error
		text string
		f    func(c declaration) error
		d    declaration
	}{
		{dp.ErrCondition, "Problem.Records", calibrating(&NoisySGD{Relation: dp.AddRemove}),
			with(func(c *declaration) { c.q.Records = 0 })},
		{dp.ErrCondition, "add-remove", calibrating(&NoisySGD{Relation: dp.AddRemove, Scheme: FixedSize}), good},
		{dp.ErrRelation, "Relation", calibrating(&NoisySGD{Relation: 7}), good},
		{ErrMechanism, "Scheme = 9", calibrating(&NoisySGD{Scheme: 9}), good},
		{ErrMechanism, "Steps = -1", calibrating(&NoisySGD{Steps: -1}), good},
		{erm.ErrProblem, "Records = -1", calibrating(&NoisySGD{}), with(func(c *declaration) { c.q.Records = -1 })},
		{ErrMechanism, "Batch = NaN", calibrating(&NoisySGD{Batch: nan}), good},
		{ErrMechanism, "StepSize = -1", calibrating(&NoisySGD{StepSize: -1}), good},
		{ErrMechanism, "Clip = +Inf", calibrating(&NoisySGD{Clip: inf}), good},
		{ErrMechanism, "Smoothing = -1", calibrating(&ProxGD{Smoothing: -1}), good},
		{ErrMechanism, "Momentum = 1", calibrating(&DPSGD{Momentum: 1}), good},
		{ErrMechanism, "Epochs", calibrating(&DPSGD{Epochs: nan}), good},
		{ErrMechanism, "steps", calibrating(&DPSGD{Epochs: 1e30}), good},
		{dp.ErrRelation, "Relation", calibrating(&DPSGD{Relation: -1}), good},
	} {
		err := c.f(c.d)
		require.ErrorIs(t, err, c.want, c.text)
		require.ErrorContains(t, err, c.text)
	}

	p := problem(1, 100, 2)
	p.Set, p.Reg = prox.Simplex{Total: 1}, prox.TotalVariation{Weight: 1}
	_, err := (&ProxGD{}).Fit(ctx, p, b, nil)
	require.ErrorIs(t, err, ErrMechanism)
	require.False(t, errors.Is(err, dp.ErrCondition))
}

// The mean excess on populations whose loss is known exactly stays below every
// bound, and every mechanism does better than no data at all.
func TestBoundsHold(t *testing.T) {
	const n, d, seeds = 1000, 4, 12
	b := dp.Budget{Epsilon: 1, Delta: 1e-6}
	// Linear loss −⟨w,z⟩, z of independent signs with mean 0.4, over √d.
	signs := func(rnd *rand.Rand) (*erm.Problem, func(w []float64) float64) {
		rows, labels := make([][]float64, n), make([]float64, n)
		for i := range rows {
			rows[i] = make([]float64, d)
			for j := range rows[i] {
				rows[i][j] = 1 / math.Sqrt(d)
				if rnd.Float64() < 0.3 {
					rows[i][j] *= -1
				}
			}
			labels[i] = 1
		}
		data, err := erm.NewData(rows, labels, loss.Bounds{Row: 1, Label: 1})
		require.NoError(t, err)
		return &erm.Problem{Data: data, Loss: tilted{}, Set: prox.L2Ball{R: 1}, Records: n}, func(w []float64) float64 {
			return 0.4 - 0.4*floats.Sum(w)/math.Sqrt(d) // the best is M‖E z‖ = 0.4
		}
	}
	// The population risk of the absolute loss on rows ±e_j, j uniform, with y = ⟨x,w*⟩ + N(0, s²), is
	// (1/d) Σ_j (s√(2/π)e^{−t²/2s²} + t erf(t/(s√2))), t = w_j − w*_j. The excess is this less that of
	// w*.
	onehot := func(rnd *rand.Rand) (*erm.Problem, func(w []float64) float64) {
		const s, star = 0.5, 0.4
		rows, labels := make([][]float64, n), make([]float64, n)
		for i := range rows {
			rows[i] = make([]float64, d)
			x := 1 - 2*float64(rnd.IntN(2))
			rows[i][rnd.IntN(d)] = x
			labels[i] = x*star + s*rnd.NormFloat64()
		}
		data, err := erm.NewData(rows, labels, loss.Bounds{Row: 1, Label: 10})
		require.NoError(t, err)
		risk := func(v float64) float64 {
			return s*math.Sqrt(2/math.Pi)*math.Exp(-v*v/(2*s*s)) + v*math.Erf(v/(s*math.Sqrt2))
		}
		return &erm.Problem{Data: data, Loss: loss.Absolute{}, Set: prox.L2Ball{R: 1}}, func(w []float64) float64 {
			sum := 0.0
			for _, v := range w {
				sum += (risk(v-star) - risk(0)) / d
			}
			return sum
		}
	}
	for _, c := range []struct {
		family func(rnd *rand.Rand) (*erm.Problem, func(w []float64) float64)
		m      mechanism
	}{
		{signs, &NoisySGD{}},
		{signs, &NoisySGD{Scheme: FixedSize}},
		{signs, &NoisySGD{Relation: dp.AddRemove}},
		{signs, &ObjPert{}},
		{signs, &ObjPert{SVRG: true}},
		{signs, &ObjPert{SVRG: true, Center: slices.Repeat([]float64{0.1}, d)}},
		{signs, &Output{}},
		{onehot, &ProxGD{}},
		{onehot, &ProxGD{NoisySGD: NoisySGD{Scheme: FixedSize}}},
	} {
		var mean, zero, bound float64
		var pl planned
		for seed := range seeds {
			p, excess := c.family(rand.New(rand.NewPCG(uint64(seed), 7)))
			if seed == 0 {
				pl, bound = plan(t, c.m, p, b)
				zero = excess(make([]float64, d))
			}
			rel, err := pl.Fit(t.Context(), p, noise.Reproducible(uint64(seed)))
			require.NoError(t, err)
			mean += excess(rel.Theta) / seeds
		}
		t.Logf("%T: mean %.4f, bound %.4f, zero %.4f", c.m, mean, bound, zero)
		require.LessOrEqual(t, mean, bound, "%T", c.m)
		require.Less(t, mean, zero, "%T", c.m)
	}
}

// With a budget that needs hardly any noise, all methods come near the minimum.
func TestCloseToNonPrivate(t *testing.T) {
	p := problem(4, 3000, 3)
	b := dp.Budget{Epsilon: 20, Delta: 1e-3}
	obj := p.Perturb(erm.Perturbation{})
	best := math.Inf(1)
	for _, m := range []mechanism{&ObjPert{}, &ObjPert{SVRG: true}, &NoisySGD{}, &NoisySGD{Scheme: FixedSize}, &ProxGD{},
		&DPSGD{Epochs: 20}} {
		rel, err := m.Fit(t.Context(), p, b, noise.Reproducible(3))
		require.NoError(t, err)
		f := obj.Func(rel.Theta) / 3000
		if math.IsInf(best, 1) {
			best = f // objective perturbation without noise to speak of
		}
		require.Less(t, f, best+0.1, "%T", m) // of 0.25 that there is to gain
	}
}

// More budget, fewer noise; more records, smaller bounds.
func TestMonotone(t *testing.T) {
	at := func(n int, eps float64) []float64 {
		q, b := declared(n, 5, eps, 1e-8, 1, 0.25, 1)
		sgd, err := (&NoisySGD{}).Calibrate(q, b)
		require.NoError(t, err)
		prox, err := (&ProxGD{}).Calibrate(q, b)
		require.NoError(t, err)
		return []float64{sgd.Params().ExcessBound, prox.Params().ExcessBound}
	}
	base, more, private := at(2000, 1), at(4000, 1), at(2000, 0.3)
	for i := range base {
		require.Less(t, more[i], base[i], i)
		require.Greater(t, private[i], base[i], i)
	}
}

// Sets without 0 start at the projection of 0, at most ‖w₀‖ and the radius away.
func TestStart(t *testing.T) {
	p := problem(1, 50, 2)
	p.Set = prox.Box{Lo: 1, Hi: 2}
	pl, err := (&NoisySGD{Steps: 1}).Plan(p, dp.Budget{Epsilon: 1, Delta: 1e-4})
	require.NoError(t, err)
	require.InEpsilon(t, math.Sqrt(8)+math.Sqrt(2), pl.Params().Radius, 1e-12)
	require.Equal(t, []float64{1, 1}, start(p.Set, 2))
	p.Set = nil // a Radius is needed, and enough
	_, err = (&NoisySGD{Steps: 1}).Plan(p, dp.Budget{Epsilon: 1, Delta: 1e-4})
	require.ErrorIs(t, err, ErrMechanism)
	rel, err := (&NoisySGD{Steps: 1, Radius: 2}).Fit(ctx, p, dp.Budget{Epsilon: 1, Delta: 1e-4}, nil)
	require.NoError(t, err)
	require.Len(t, rel.Theta, 2)
	_, err = (&DPSGD{StepSize: 0.1}).Fit(ctx, p, dp.Budget{Epsilon: 1, Delta: 1e-4}, nil)
	require.NoError(t, err)
}

// A regularizer enters as its proximal map; its weight does not enter privacy.
func TestRegularizer(t *testing.T) {
	p := problem(1, 2000, 3)
	b := dp.Budget{Epsilon: 5, Delta: 1e-5}
	m := &NoisySGD{Steps: 100, Batch: 200}
	plain, err := m.Fit(ctx, p, b, noise.Reproducible(1))
	require.NoError(t, err)
	p.Reg = prox.SquaredL2{Weight: 1000}
	shrunk, err := m.Fit(ctx, p, b, noise.Reproducible(1))
	require.NoError(t, err)
	require.Less(t, floats.Norm(shrunk.Theta, 2), 0.7*floats.Norm(plain.Theta, 2))
	for _, other := range []mechanism{&ObjPert{}, &Output{}} {
		_, err := other.Fit(ctx, p, b, noise.Reproducible(1))
		require.NoError(t, err)
	}
}

// TestNothingPrintsNoise: releases, withheld and cancelled ones, plans, problems and sources are
// printed in every way there is, and no value of any noise is found in what they show.
func TestNothingPrintsNoise(t *testing.T) {
	var log strings.Builder
	show := func(v any) { log.WriteString(testkit.Everything(v)) }
	trace := func(erm.Trace) {}
	p := problem(8, 40, 5)
	b := dp.Budget{Epsilon: 1, Delta: 1e-4}
	type planned func(ctx context.Context, src rand.Source) (*dp.Release, error)
	var s testkit.Spy
	for name, plan := range map[string]func() (any, planned, error){
		"sgd": func() (any, planned, error) {
			pl, err := (&NoisySGD{Steps: 4, Batch: 5, Trace: trace}).Plan(p, b)
			return pl, func(ctx context.Context, src rand.Source) (*dp.Release, error) { return pl.Fit(ctx, p, src) }, err
		},
		"prox": func() (any, planned, error) {
			pl, err := (&ProxGD{NoisySGD: NoisySGD{Steps: 4, Batch: 5, Trace: trace}}).Plan(p, b)
			return pl, func(ctx context.Context, src rand.Source) (*dp.Release, error) { return pl.Fit(ctx, p, src) }, err
		},
		"dpsgd": func() (any, planned, error) {
			pl, err := (&DPSGD{Epochs: 2, Trace: trace, Momentum: 0.9}).Plan(p, b)
			return pl, func(ctx context.Context, src rand.Source) (*dp.Release, error) { return pl.Fit(ctx, p, src) }, err
		},
	} {
		pl, fit, err := plan()
		require.NoError(t, err, name)
		show(fmt.Sprintf("%v %+v %#v", pl, pl, pl))
		src := noise.Reproducible(63, name)
		ctx := fault.With(t.Context(), fault.GridNoise, s.Integers)
		before := s.Len()
		for range 2 {
			rel, err := fit(ctx, src)
			require.NoError(t, err, name)
			show(rel)
			show(*rel)
			show(src)
		}
		require.GreaterOrEqual(t, s.Len()-before, 10, name) // two fits of at least one draw in five dimensions
		stopped, cancel := context.WithCancel(ctx)
		cancel()
		rel, err := fit(stopped, src)
		require.ErrorIs(t, err, context.Canceled, name)
		require.Nil(t, rel, name)
		show(err)
	}
	show(p)
	value, form, found := s.Find(log.String())
	require.False(t, found, "noise value %v is printed as %q", value, form)
}
