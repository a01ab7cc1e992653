// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package lop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

// records has rows of norm 1 whose labels follow the first coordinate.
func records(t testing.TB, n, d int) *erm.Data {
	t.Helper()
	rnd := rand.New(rand.NewPCG(uint64(n), uint64(d)))
	rows, labels := make([][]float64, n), make([]float64, n)
	for i := range rows {
		rows[i] = make([]float64, d)
		for j := range rows[i] {
			rows[i][j] = rnd.NormFloat64()
		}
		floats.Scale(1/floats.Norm(rows[i], 2), rows[i])
		labels[i] = math.Copysign(1, rows[i][0]+0.3*rnd.NormFloat64())
	}
	data, err := erm.NewData(rows, labels, loss.Bounds{Row: 1, Label: 1})
	require.NoError(t, err)
	return data
}

// A mechanism is what Mechanism and Output have in common.
type mechanism interface {
	Plan(*erm.Problem, dp.Budget) (*Plan, error)
	Calibrate(erm.Public, dp.Budget) (*Plan, error)
	Fit(context.Context, *erm.Problem, dp.Budget, rand.Source) (*dp.Release, error)
}

var budget = dp.Budget{Epsilon: 1, Delta: 1e-5}

// Every kind of problem is released on the grid, inside its set, at the claimed
// budget, and from a point within R of an independent solution.
func TestFit(t *testing.T) {
	data := records(t, 60, 4)
	for name, p := range map[string]*erm.Problem{
		"logistic":          {Data: data, Loss: loss.Logistic{}},
		"logistic ℓ1":       {Data: data, Loss: loss.Logistic{}, Reg: prox.L1{Weight: 0.5}},
		"logistic ball":     {Data: data, Loss: loss.Logistic{}, Set: prox.L2Ball{R: 0.3}},
		"logistic ℓ1 ball":  {Data: data, Loss: loss.Logistic{}, Reg: prox.L1{Weight: 0.5}, Set: prox.L2Ball{R: 0.3}},
		"logistic ridge":    {Data: data, Loss: loss.Logistic{}, Reg: prox.SquaredL2{Weight: 3}},
		"huber":             {Data: data, Loss: loss.Huber{Delta: 0.5}},
		"pseudo-huber":      {Data: data, Loss: loss.PseudoHuber{Delta: 0.5}},
		"smoothed hinge":    {Data: data, Loss: loss.SmoothedHinge{Gamma: 0.5}},
		"squared box":       {Data: data, Loss: loss.Squared{}, Set: prox.Box{Lo: -0.5, Hi: 0.5}},
		"squared ℓ1 box":    {Data: data, Loss: loss.Squared{}, Reg: prox.L1{Weight: 1}, Set: prox.Box{Lo: -0.5, Hi: 0.5}},
		"squared ball":      {Data: data, Loss: loss.Squared{}, Set: prox.L2Ball{R: 1}},
		"squared simplex":   {Data: data, Loss: loss.Squared{}, Set: prox.Simplex{Total: 1}},
		"huber nonnegative": {Data: data, Loss: loss.Huber{Delta: 0.5}, Set: prox.NonNegative{}},
	} {
		p.Records = 60
		t.Run(name, func(t *testing.T) {
			for _, b := range []dp.Budget{budget, {Epsilon: 2}} {
				for _, rel := range []dp.Relation{0, dp.AddRemove} {
					var traces []erm.Trace
					trace := func(tr erm.Trace) { traces = append(traces, tr) }
					for _, m := range []mechanism{&Mechanism{Relation: rel, Radius: 1, Trace: trace},
						&Output{Relation: rel, Radius: 1, Trace: trace}} {
						fit(t, m, p, b, name, &traces)
					}
				}
			}
		})
	}
}

func fit(t *testing.T, m mechanism, p *erm.Problem, b dp.Budget, name string, traces *[]erm.Trace) {
	ctx := t.Context()
	plan, err := m.Plan(p, b)
	require.NoError(t, err)
	par := plan.Params()
	var drawn erm.Perturbation
	var k []int64
	watched := fault.With(ctx, release.Drawn, func(q erm.Perturbation) erm.Perturbation {
		drawn = q
		drawn.Linear = slices.Clone(q.Linear) // the original is erased
		return q
	})
	watched = fault.With(watched, release.Rounded, func(v []int64) []int64 { k = slices.Clone(v); return v })
	var nu []int64
	watched = fault.With(watched, release.OutputNoise, func(v []int64) []int64 { nu = slices.Clone(v); return v })
	one, err := plan.Fit(watched, p, noise.Reproducible(7, name))
	require.NoError(t, err)
	two, err := m.Fit(ctx, p, b, noise.Reproducible(7, name))
	require.NoError(t, err)
	require.Equal(t, one, two, "equal seeds, equal results")
	secure, err := m.Fit(ctx, p, b, nil)
	require.NoError(t, err)
	require.NotEqual(t, one.Theta, secure.Theta)
	require.Equal(t, plan.Certificate(), secure.Certificate)
	require.Equal(t, append(plan.Certificate().Assumptions, dp.CallerSource), one.Certificate.Assumptions)
	require.NoError(t, one.Certificate.Check())
	require.Equal(t, b, one.Certificate.Budget)

	// The release is P_C(g(k + ν)), k = round(θ̂/g), to the bit.
	want := make([]float64, par.Dim)
	for i := range want {
		want[i] = par.Grid * float64(k[i]+nu[i])
	}
	if p.Set != nil {
		p.Set.Prox(want, want, 1)
	}
	require.Equal(t, want, one.Theta)

	// θ̂ is within R of an independent solution.
	tr := (*traces)[len(*traces)-3]
	require.LessOrEqual(t, tr.Distance, par.Cover)
	for i, v := range tr.Theta {
		require.InDelta(t, v/par.Grid, float64(k[i]), 1)
	}
	drawn.Quad = mat.NewDiagDense(par.Dim, slices.Repeat([]float64{par.Ridge}, par.Dim))
	q := splitting.Problem{F: p.Perturb(drawn), G: p.Reg}
	if p.Set != nil {
		q.H = p.Set
	}
	tol := 1e-7 * (par.Ridge + par.Modulus)
	res, err := splitting.Solve(ctx, q, make([]float64, par.Dim), &splitting.Settings{Tolerance: tol},
		&splitting.DavisYin{})
	require.NoError(t, err)
	require.LessOrEqual(t, floats.Distance(res.X, tr.Theta, 2), 1.1e-7+par.Cover)
}

// The output noise stays a small part of the objective noise σ/(0.012·n), what b
// moves a coordinate by for well-spread rows, from 10⁴ to 10⁸ records, under both
// relations: R does not grow with n.
func TestOutputNoiseIsSmall(t *testing.T) {
	data, err := erm.Empty(12, loss.Bounds{Row: 1, Label: 1})
	require.NoError(t, err)
	for _, rel := range []dp.Relation{dp.Replace, dp.AddRemove} {
		q, err := (&erm.Problem{Data: data, Loss: loss.Logistic{}}).Public(rel)
		require.NoError(t, err)
		for _, n := range []int{1e4, 1e5, 1e6, 1e7, 1e8} {
			q.Records, q.MaxRecords = n, 0
			plan, err := (&Mechanism{Relation: rel, Radius: 10}).Calibrate(q, dp.Budget{Epsilon: 1, Delta: 1e-9})
			require.NoError(t, err)
			p := plan.Params()
			require.Less(t, p.OutputSigma, 0.12*p.Sigma/(0.012*float64(n)), "%v, n = %d", rel, n)
		}
	}
}

// A plan has no exported field, and what it hands out are copies.
func TestPlanCannotBeEdited(t *testing.T) {
	p := &erm.Problem{Data: records(t, 60, 4), Loss: struct{ loss.Logistic }{}}
	plan, err := (&Mechanism{Radius: 1}).Plan(p, budget)
	require.NoError(t, err)
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Plan]()) {
		require.False(t, f.IsExported(), f.Name)
	}
	before, cert := plan.Params(), plan.Certificate()
	par := plan.Params()
	par.Sigma, par.Budget = 1e-9, dp.Budget{Epsilon: 0.01}
	other := plan.Certificate()
	other.Epsilon, other.Assumptions[0] = 0.01, "nothing"
	//lint:ignore SA9005 that nothing is decoded is what is tested
	require.NoError(t, json.Unmarshal([]byte(`{"params":{"sigma":1e-9},"sigma":1e-9}`), plan))
	require.Equal(t, before, plan.Params())
	require.Equal(t, cert, plan.Certificate())
	rel, err := plan.Fit(t.Context(), p, nil)
	require.NoError(t, err)
	require.Equal(t, cert, rel.Certificate)

	for _, empty := range []*Plan{nil, {}} {
		_, err := empty.Fit(t.Context(), p, nil)
		require.ErrorIs(t, err, ErrMechanism)
		require.Error(t, empty.Certificate().Check())
		require.Equal(t, 1.0, empty.Profile().Delta(1))
		require.Equal(t, Params{}, empty.Params())
		require.NotEmpty(t, empty.String())
	}
}

// A plan serves problems with the same or better constants and refuses others, by
// public facts alone.
func TestPlanIsBoundToItsProblem(t *testing.T) {
	data := records(t, 60, 4)
	plan := func(m mechanism, p *erm.Problem) *Plan {
		pl, err := m.Plan(p, budget)
		require.NoError(t, err)
		return pl
	}
	huber := &erm.Problem{Data: data, Loss: loss.Huber{Delta: 1}}
	logistic := &erm.Problem{Data: data, Loss: loss.Logistic{}}
	m, o := &Mechanism{Radius: 1}, &Output{Radius: 1}
	require.NoError(t, second(plan(m, huber).Fit(t.Context(), &erm.Problem{Data: data, Loss: loss.Huber{Delta: 0.5}},
		nil)))
	require.NoError(t, second(plan(m, huber).Fit(t.Context(),
		&erm.Problem{Data: data, Loss: loss.Huber{Delta: 1}, Reg: prox.SquaredL2{Weight: 1}}, nil)))
	require.NoError(t, second(plan(o, huber).Fit(t.Context(), logistic, nil)),
		"output perturbation looks at gradients only")
	for name, c := range map[string]struct {
		plan *Plan
		p    *erm.Problem
	}{
		"dimension":  {plan(m, logistic), &erm.Problem{Data: records(t, 60, 5), Loss: loss.Logistic{}}},
		"records":    {plan(m, logistic), &erm.Problem{Data: records(t, 61, 4), Loss: loss.Logistic{}}},
		"Lipschitz":  {plan(m, huber), &erm.Problem{Data: data, Loss: loss.Huber{Delta: 2}}},
		"smoothness": {plan(m, logistic), huber},
		"modulus":    {plan(m, &erm.Problem{Data: data, Loss: loss.Huber{Delta: 1}, Reg: prox.SquaredL2{Weight: 1}}), huber},
		"envelope": {plan(m, logistic), &erm.Problem{Data: data, Loss: loss.Clipped{Loss: loss.Logistic{},
			Threshold: 0.5}}},
		"foreign": {plan(m, logistic), &erm.Problem{Data: data, Loss: mine{loss.Logistic{}}}},
		"no data": {plan(m, logistic), &erm.Problem{Loss: loss.Logistic{}}},
		"nil":     {plan(m, logistic), nil},
	} {
		_, err := c.plan.Fit(t.Context(), c.p, nil)
		require.True(t, errors.Is(err, erm.ErrProblem) || errors.Is(err, ErrMechanism), "%s: %v", name, err)
	}
}

func second[T any](_ T, err error) error { return err }

// mine is a loss of another package.
type mine struct{ loss.Linear }

// A loss of another package is not proved: the certificate says what is assumed.
func TestForeignLossIsListed(t *testing.T) {
	p := &erm.Problem{Data: records(t, 60, 4), Loss: mine{loss.Logistic{}}}
	rel, err := (&Mechanism{Radius: 1}).Fit(t.Context(), p, budget, nil)
	require.NoError(t, err)
	require.Contains(t, rel.Certificate.Assumptions, erm.DeclaredLoss)
	require.Contains(t, rel.Certificate.Assumptions, erm.ScalarAccuracy)
}

// A plan admits what its own certificate lists, whatever is written to the Public that it was made
// from.
func TestAssumptionsAreThePlans(t *testing.T) {
	p := &erm.Problem{Data: records(t, 60, 4), Loss: loss.Huber{Delta: 1}}
	q, err := p.Public(dp.Replace)
	require.NoError(t, err)
	q.Assumptions = []dp.Assumption{"something", "else"}
	plan, err := (&Mechanism{Radius: 1}).Calibrate(q, budget)
	require.NoError(t, err)
	copy(q.Assumptions, []dp.Assumption{erm.DeclaredLoss, erm.ScalarAccuracy})
	_, err = plan.Fit(t.Context(), &erm.Problem{Data: p.Data, Loss: mine{loss.Huber{Delta: 1}}}, nil)
	require.ErrorIs(t, err, ErrMechanism)
	require.ErrorContains(t, err, "assumption")
}

// embedded has the methods of Multinomial, but is another loss.
type embedded struct{ loss.Multinomial }

// The multinomial logistic loss has a bound of its own, of which the plan is about as many classes,
// and
// which is not that of a caller's loss with the same methods.
func TestMultinomial(t *testing.T) {
	data, err := erm.NewData([][]float64{{1, 0, 0, 0, 0, 0}, {0, 1, 0, 0, 0, 0}, {0.6, 0.8, 0, 0, 0, 0}},
		[]float64{0, 1, 2},
		loss.Bounds{Row: 1, Label: 2})
	require.NoError(t, err)
	for _, rel := range []dp.Relation{dp.AddRemove, dp.Replace} {
		m := &Mechanism{Relation: rel, Radius: 1, Ridge: 6}
		p := &erm.Problem{Data: data, Loss: loss.Multinomial{Classes: 3}, Records: 3}
		other := &erm.Problem{Data: data, Loss: embedded{loss.Multinomial{Classes: 3}}, Records: 3}
		plan, err := m.Plan(p, budget)
		require.NoError(t, err)
		require.Equal(t, "lop.simplex/2", plan.Params().Theorem)
		require.NotContains(t, plan.Certificate().Assumptions, erm.DeclaredLoss)
		_, err = plan.Fit(t.Context(), p, nil)
		require.NoError(t, err)
		_, err = plan.Fit(t.Context(), other, nil)
		require.ErrorIs(t, err, ErrMechanism)
		require.ErrorContains(t, err, "classes")
		plain, err := m.Plan(other, budget)
		require.NoError(t, err)
		require.NotEqual(t, "lop.simplex/2", plain.Params().Theorem)
		require.Contains(t, plain.Certificate().Assumptions, erm.DeclaredLoss)
		require.Greater(t, plain.Params().Sigma, 1.15*plan.Params().Sigma)
	}
}

// What makes no claim true is refused, by field, value and way out.
func TestRefused(t *testing.T) {
	data := records(t, 60, 4)
	logistic := &erm.Problem{Data: data, Loss: loss.Logistic{}}
	for name, c := range map[string]struct {
		m    mechanism
		p    *erm.Problem
		b    dp.Budget
		is   error
		says string
	}{
		"no length":      {&Mechanism{}, logistic, budget, ErrMechanism, "Radius"},
		"no length, out": {&Output{}, logistic, budget, ErrMechanism, "Radius"},
		"n unknown":      {&Output{Relation: dp.AddRemove, Radius: 1}, logistic, budget, ErrMechanism, "Records"},
		"kinked": {&Mechanism{Radius: 1}, &erm.Problem{Data: data, Loss: loss.Hinge{}}, budget, dp.ErrCondition,
			"loss.Moreau"},
		"kinked, out": {&Output{Radius: 1}, &erm.Problem{Data: data, Loss: loss.Hinge{}}, budget, dp.ErrCondition,
			"loss.Moreau"},
		"unbounded": {&Mechanism{Radius: 1}, &erm.Problem{Data: data, Loss: loss.Squared{}}, budget, dp.ErrCondition,
			"Set"},
		"small ridge":     {&Mechanism{Radius: 1, Ridge: 0.1}, logistic, budget, dp.ErrCondition, "Ridge"},
		"below the floor": {&Mechanism{Radius: 1, Cover: 1e-30}, logistic, budget, dp.ErrCondition, "Cover"},
		"budget":          {&Mechanism{Radius: 1}, logistic, dp.Budget{Epsilon: -1}, dp.ErrBudget, "Epsilon = -1"},
		"relation":        {&Mechanism{Radius: 1, Relation: 7}, logistic, budget, dp.ErrRelation, "Relation"},
		"NaN":             {&Mechanism{Radius: math.NaN()}, logistic, budget, ErrMechanism, "Radius = NaN"},
		"share":           {&Mechanism{Radius: 1, Share: 1}, logistic, budget, ErrMechanism, "Share = 1"},
		"calibration":     {&Mechanism{Radius: 1, Calibration: 9}, logistic, budget, ErrMechanism, "Calibration = 9"},
		"cms11":           {&Mechanism{Radius: 1, Calibration: CMS11}, logistic, budget, dp.ErrCondition, "CMS11"},
		"clip": {&Mechanism{Radius: 1, Clip: 1}, &erm.Problem{Data: data, Loss: loss.Multinomial{Classes: 2}}, budget,
			dp.ErrCondition,
			"Clip"},
		"two forms": {&Mechanism{Radius: 1}, &erm.Problem{Data: data, Loss: loss.Logistic{},
			Reg: prox.TotalVariation{Weight: 1},
			Set: prox.Simplex{Total: 1}}, budget, erm.ErrProblem, "Reg"},
	} {
		plan, err := c.m.Plan(c.p, c.b)
		require.Nil(t, plan, name)
		require.ErrorIs(t, err, c.is, name)
		require.ErrorContains(t, err, c.says, name)
		require.ErrorContains(t, err, "lop: ", name)
		rel, same := c.m.Fit(t.Context(), c.p, c.b, nil)
		require.Nil(t, rel, name)
		require.EqualError(t, same, err.Error(), name)
	}
}

// Cancellation ends a fit with the error of the context; a source that repeats
// itself ends it with one about the source.
func TestFitEndsEarly(t *testing.T) {
	p := &erm.Problem{Data: records(t, 60, 4), Loss: loss.Logistic{}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := (&Mechanism{Radius: 1}).Fit(ctx, p, budget, nil)
	require.ErrorIs(t, err, context.Canceled)
	for _, word := range []uint64{0, math.MaxUint64, 1} {
		for _, b := range []dp.Budget{budget, {Epsilon: 1}} {
			_, err = (&Mechanism{Radius: 1}).Fit(t.Context(), p, b, stuck(word))
			require.ErrorIs(t, err, noise.ErrSource, "%x", word)
		}
	}
}

type stuck uint64

func (s stuck) Uint64() uint64 { return uint64(s) }

// Whatever the solver does, a release follows: here the methods are skipped and
// refinement or descent ends within R.
func TestNothingIsWithheld(t *testing.T) {
	p := &erm.Problem{Data: records(t, 60, 4), Loss: loss.Logistic{}, Reg: prox.L1{Weight: 0.5}}
	for stage := range 3 {
		ctx := fault.With(t.Context(), fault.Stage, func(int) int { return stage })
		var tr erm.Trace
		plan, err := (&Mechanism{Radius: 1, Trace: func(t erm.Trace) { tr = t }}).Plan(p, budget)
		require.NoError(t, err)
		_, err = plan.Fit(ctx, p, nil)
		require.NoError(t, err)
		require.LessOrEqual(t, tr.Distance, plan.Params().Cover)
	}
}

// The plan's own curve keeps the budget and spends nearly all of it.
func TestPlanMeetsItsBudget(t *testing.T) {
	p := &erm.Problem{Data: records(t, 60, 4), Loss: loss.Logistic{}}
	for _, rel := range []dp.Relation{dp.Replace, dp.AddRemove} {
		for _, b := range []dp.Budget{budget, {Epsilon: 0.1, Delta: 1e-8}, {Epsilon: 5, Delta: 1e-3}} {
			plan, err := (&Mechanism{Radius: 1, Relation: rel}).Plan(p, b)
			require.NoError(t, err)
			delta := plan.Profile().Delta(b.Epsilon)
			require.LessOrEqual(t, delta, b.Delta, "%v %v", rel, b)
			require.Greater(t, delta, 0.9*b.Delta, "%v %v", rel, b)
		}
	}
}

// Two plans fixed beforehand cost far less than the sum: ε = 1.403 at δ = 2e-6 for two
// at ε = 1, δ = 1e-6.
func TestComposeTwoPlans(t *testing.T) {
	p := &erm.Problem{Data: records(t, 60, 4), Loss: loss.Logistic{}}
	for _, rel := range []dp.Relation{dp.Replace, dp.AddRemove} {
		plan, err := (&Mechanism{Radius: 1, Relation: rel}).Plan(p, dp.Budget{Epsilon: 1, Delta: 1e-6})
		require.NoError(t, err)
		both, err := dp.Compose(2e-6, plan, plan)
		require.NoError(t, err)
		require.Equal(t, "dp.compose/2(lop.joint/2, lop.joint/2)", both.Theorem)
		// no less than two Gaussian mechanisms with the noise of the plan
		require.Greater(t, both.Epsilon, dp.GaussianCurve(math.Sqrt2*plan.Params().Shift).Epsilon(2e-6))
		require.Less(t, both.Epsilon, 1.41)
		single, err := dp.Compose(1e-6, plan)
		require.NoError(t, err)
		require.LessOrEqual(t, single.Epsilon, 1.0)
	}
}

// A fit of logistic regression of the size of the Adult data, and one of least squares with ℓ1 and
// a box.
func BenchmarkFit(b *testing.B) {
	for _, c := range []struct {
		name string
		p    *erm.Problem
	}{
		{"n=30000/d=43", &erm.Problem{Data: records(b, 30_000, 43), Loss: loss.Logistic{}}},
		{"n=1000/d=100", &erm.Problem{Data: records(b, 1000, 100), Loss: loss.Squared{}, Reg: prox.L1{Weight: 0.1},
			Set: prox.Box{Lo: -1, Hi: 1}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			plan, err := (&Mechanism{Radius: 20}).Plan(c.p, dp.Budget{Epsilon: 1, Delta: 1e-9})
			require.NoError(b, err)
			b.ReportAllocs()
			for b.Loop() {
				_, err := plan.Fit(b.Context(), c.p, nil)
				require.NoError(b, err)
			}
		})
	}
}

// A δ that budgets may have, but none of their shares: the error names the δ that was stated, and
// the least one.
func TestTinyDelta(t *testing.T) {
	data, err := erm.Empty(3, loss.Bounds{Row: 1, Label: 1})
	require.NoError(t, err)
	p := &erm.Problem{Data: data, Loss: loss.Logistic{}, Records: 100}
	for _, m := range []Mechanism{{Radius: 1}, {Radius: 1, Calibration: Kifer}} {
		m.Relation = dp.AddRemove
		refused := 0
		for _, delta := range []float64{1e-300, 2e-300, 1e-299, 1e-298, 1.1e-298, 1e-290} {
			b := dp.Budget{Epsilon: 1, Delta: delta}
			require.NoError(t, b.Check())
			if _, err := m.Plan(p, b); err != nil {
				refused++
				require.ErrorIs(t, err, dp.ErrBudget)
				require.ErrorContains(t, err, fmt.Sprintf("Delta = %v is too small to be divided", delta))
				require.Less(t, delta, 1.1e-298)
			}
		}
		require.Positive(t, refused)
	}
}

// inOrder is a Source of records in memory, in their canonical order.
type inOrder struct {
	n, d int
	x, y []float64
}

func (s *inOrder) Dims() (records, features int) { return s.n, s.d }

func (s *inOrder) Read(_ context.Context, rows, labels []float64, first int) error {
	copy(rows, s.x[first*s.d:])
	copy(labels, s.y[first:])
	return nil
}

// inShards is a Remote of so many shards that are summed in any order.
type inShards struct {
	*inOrder
	shards int
}

func (s inShards) Sum(ctx context.Context, q *erm.Query) (*erm.Sums, error) {
	chunks, whole := (s.n+erm.Chunk-1)/erm.Chunk, new(erm.Sums)
	for _, k := range rand.Perm(s.shards) {
		lo, hi := k*chunks/s.shards*erm.Chunk, min((k+1)*chunks/s.shards*erm.Chunk, s.n)
		part, err := q.Sum(ctx, s, lo, hi-lo, 1+k%3)
		if err != nil {
			return nil, err
		}
		if err := whole.Merge(part); err != nil {
			return nil, err
		}
	}
	return whole, nil
}

// TestReleaseOfSourceHasTheBitsOfMemory: so many records that the solver starts from a sample and a
// pass computes gradient
// and Hessian, and fewer, in memory on one thread or three, in a source and on shards: one release.
func TestReleaseOfSourceHasTheBitsOfMemory(t *testing.T) {
	for _, n := range []int{3000, 530_000} {
		const d = 3
		rnd := rand.New(rand.NewPCG(1, 9))
		b, err := erm.NewBuilder(d, false, loss.Bounds{Row: 1, Label: 1})
		require.NoError(t, err)
		row := make([]float64, d)
		for range n {
			for j := range row {
				row[j] = rnd.Float64() - 0.4
			}
			b.Add(row, float64(2*rnd.IntN(2)-1))
		}
		data := b.Data()
		file := &inOrder{n: n, d: d}
		require.NoError(t, data.Each(func(a []float64, b float64) {
			file.x, file.y = append(file.x, a...),
				append(file.y, b)
		}))
		for _, p := range []erm.Problem{
			{Loss: loss.Logistic{}}, {Loss: loss.SmoothedHinge{Gamma: 0.5}, Reg: prox.L1{Weight: 10},
				Set: prox.Box{Lo: -1, Hi: 1}},
			{Loss: loss.Squared{}, Set: prox.L2Ball{R: 0.5}},
		}[:map[bool]int{true: 3, false: 1}[n < 10_000 || testkit.Long()]] {
			var want []float64
			var certified erm.Trace
			fit := func(records *erm.Data, threads int, name string) {
				p := p
				p.Data, p.Threads = records, threads
				m := Mechanism{Radius: 2, Relation: dp.Replace, Trace: func(tr erm.Trace) { certified = tr }}
				rel, err := m.Fit(t.Context(), &p, dp.Budget{Epsilon: 1, Delta: 1e-8}, noise.Reproducible(4))
				require.NoError(t, err, name)
				require.True(t, certified.Certified)
				if want == nil {
					want = rel.Theta
				}
				require.Equal(t, want, rel.Theta, "%v: %s, %d threads", &p, name, threads)
			}
			fit(data, 1, "memory")
			fit(data, 3, "memory")
			for _, src := range []erm.Source{file, inShards{file, 1}, inShards{file, 13}, inShards{file, 1000}} {
				records, err := erm.Open(src, data.Bounds())
				require.NoError(t, err)
				fit(records, 2, fmt.Sprintf("%T", src))
			}
		}
	}
}
