// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package objpert

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/noise"
)

// halfspaces makes n records of d features in {-2,…,2}, labeled by a noisy halfspace.
func halfspaces(t testing.TB, n, d int, space Space) *Problem {
	t.Helper()
	rnd := rand.New(rand.NewPCG(uint64(n), uint64(d)))
	rows, labels := make([][]int64, n), make([]int, n)
	for i := range rows {
		rows[i] = make([]int64, d)
		var s int64
		for j := range rows[i] {
			rows[i][j] = rnd.Int64N(5) - 2
			s += rows[i][j] * int64(j%3-1)
		}
		labels[i] = -1
		if s > 0 != (rnd.IntN(10) == 0) {
			labels[i] = 1
		}
	}
	p, err := NewProblem(rows, labels, nil, space)
	require.NoError(t, err)
	return p
}

type mechanism interface {
	Fit(context.Context, *Problem, dp.Budget, rand.Source) (*dp.Release, error)
	Plan(*Problem, dp.Budget) (*Plan, error)
}

var budget = dp.Budget{Epsilon: 1, Delta: 1e-6}

// first is a heuristic that finds the least point.
func first(_ context.Context, p *Problem) ([]int, error) {
	sol, err := everywhere.Solve(bg, p)
	if err != nil {
		return nil, err
	}
	return sol.W, nil
}

// Every mechanism releases a point of its space, equal for equal sources, under
// a certificate that names what it rests on.
func TestFit(t *testing.T) {
	for _, c := range []struct {
		name    string
		m       mechanism
		space   Space
		theorem string
		pure    bool
		rest    []dp.Assumption
	}{
		{"radial", &OPDisc{}, Lattice(4), "objpert.radial/2", true, []dp.Assumption{CompleteSearch}},
		{"gaussian", &OPDisc{Law: Gaussian}, Lattice(4), "objpert.gaussian/2", false,
			[]dp.Assumption{dp.CalibrationArithmetic, CompleteSearch}},
		{"cube", &OPDisc{}, cube(), "objpert.radial/2", true, []dp.Assumption{CompleteSearch}},
		{"k-norm", &Product{}, ternary(), "objpert.knorm/2", true, []dp.Assumption{CompleteSearch}},
		{"k-norm in a ball", &Product{}, Lattice(2), "objpert.knorm/2", true, []dp.Assumption{CompleteSearch}},
		{"one-sided", &Product{Law: OneSided}, cube(), "objpert.onesided/2", true, []dp.Assumption{CompleteSearch}},
		{"rspm", &RSPM{}, ternary(), "objpert.rspm-laplace/2", true, []dp.Assumption{CompleteSearch}},
		{"rspm gaussian", &RSPM{Law: Gaussian}, ternary(), "objpert.rspm-gaussian/2", false,
			[]dp.Assumption{dp.CalibrationArithmetic, CompleteSearch}},
		{"exponential", &Exponential{}, Lattice(4), "objpert.exponential/1", false, nil},
		{"votes", &SampleAndAggregate{Blocks: 5, Heuristic: first}, ternary(), "objpert.aggregate/2", true,
			[]dp.Assumption{HeuristicByBlock}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := halfspaces(t, 40, 3, c.space)
			a, err := c.m.Fit(bg, p, budget, noise.Reproducible(1, c.name))
			require.NoError(t, err)
			b, err := c.m.Fit(bg, p, budget, noise.Reproducible(1, c.name))
			require.NoError(t, err)
			require.Equal(t, a, b)
			require.NoError(t, a.Certificate.Check())
			require.Equal(t, append(c.rest, dp.CallerSource), a.Certificate.Assumptions)
			require.Equal(t, c.theorem, a.Certificate.Theorem)
			require.Equal(t, dp.Replace, a.Certificate.Relation)
			want := budget
			if c.pure {
				want.Delta = 0
			}
			require.Equal(t, want, a.Certificate.Budget)
			w := make([]int, len(a.Theta))
			for j, v := range a.Theta {
				w[j] = int(v)
			}
			require.True(t, p.Contains(w))

			secure, err := c.m.Fit(bg, p, budget, nil)
			require.NoError(t, err)
			require.Equal(t, c.rest, secure.Certificate.Assumptions)

			plan, err := c.m.Plan(p, budget)
			require.NoError(t, err)
			again, err := plan.Fit(bg, p, noise.Reproducible(1, c.name))
			require.NoError(t, err)
			require.Equal(t, a, again, "plan once, fit often")
			require.Contains(t, plan.String(), c.theorem)
			require.Positive(t, plan.Params().ExcessBound)
		})
	}
}

// Without noise to speak of, every mechanism finds the minimizer.
func TestFitIsAccurateAtLargeEpsilon(t *testing.T) {
	b := dp.Budget{Epsilon: 900, Delta: 1e-6}
	for name, c := range map[string]struct {
		m     mechanism
		space Space
	}{
		"radial":        {&OPDisc{}, Lattice(4)},
		"gaussian":      {&OPDisc{Law: Gaussian}, Lattice(4)},
		"k-norm":        {&Product{}, ternary()},
		"one-sided":     {&Product{Law: OneSided}, ternary()},
		"rspm":          {&RSPM{}, ternary()},
		"rspm gaussian": {&RSPM{Law: Gaussian}, ternary()},
		"votes":         {&SampleAndAggregate{Blocks: 1, Heuristic: first}, ternary()},
	} {
		p := halfspaces(t, 400, 3, c.space)
		best, err := everywhere.Solve(bg, p)
		require.NoError(t, err)
		rel, err := c.m.Fit(bg, p, b, noise.Reproducible(2, name))
		require.NoError(t, err)
		w := make([]int, 3)
		for j, v := range rel.Theta {
			w[j] = int(v)
		}
		require.LessOrEqual(t, p.Loss(w), best.Loss+2, name)
	}
}

// ExcessBound holds on average, over the noise, with a margin that a mean of 400
// runs cannot cross by chance: the standard error is a twentieth of the bound.
func TestExcessBound(t *testing.T) {
	for name, c := range map[string]struct {
		m     mechanism
		space Space
	}{
		"radial": {&OPDisc{}, Lattice(2)},
		"k-norm": {&Product{}, ternary()},
		"rspm":   {&RSPM{}, ternary()},
	} {
		p := halfspaces(t, 200, 2, c.space)
		best, err := everywhere.Solve(bg, p)
		require.NoError(t, err)
		plan, err := c.m.Plan(p, dp.Budget{Epsilon: 0.1})
		require.NoError(t, err)
		src, sum := noise.Reproducible(3, name), 0.0
		for range 400 {
			rel, err := plan.Fit(bg, p, src)
			require.NoError(t, err)
			sum += float64(p.Loss([]int{int(rel.Theta[0]), int(rel.Theta[1])}) - best.Loss)
		}
		require.Less(t, sum/400, plan.Params().ExcessBound, name)
		require.Positive(t, sum, name)
	}
}

// oracle answers what a test wants.
type oracle struct {
	solve func(p *Problem) (*Solution, error)
}

func (o oracle) Solve(_ context.Context, p *Problem) (*Solution, error) {
	return o.solve(p)
}

// Whatever is not proven is withheld: gaps, no solution, points outside W, errors.
func TestWithheld(t *testing.T) {
	p := halfspaces(t, 30, 3, Lattice(4))
	for name, c := range map[string]struct {
		sol *Solution
		err error
	}{
		"gap":         {&Solution{W: []int{0, 0, 0}, Lower: -1}, nil},
		"interrupted": {&Solution{W: []int{0, 0, 0}}, ErrInterrupted},
		"proven late": {&Solution{W: []int{0, 0, 0}, Proven: true}, ErrLimit},
		"nothing":     {nil, nil},
		"outside":     {&Solution{W: []int{2, 2, 2}, Proven: true}, nil},
		"too short":   {&Solution{W: []int{1}, Proven: true}, nil},
		"failed":      {nil, errors.New("broken")},
	} {
		for _, m := range []mechanism{
			&OPDisc{Oracle: oracle{func(*Problem) (*Solution, error) { return c.sol, c.err }}},
			&Product{Oracle: oracle{func(*Problem) (*Solution, error) { return c.sol, c.err }}},
		} {
			rel, err := m.Fit(bg, p, budget, nil)
			require.Nil(t, rel, name)
			require.ErrorIs(t, err, dp.ErrWithheld, name)
			if c.err != nil {
				require.ErrorIs(t, err, c.err)
			}
		}
	}
	// A cancelled context: nothing but the reason.
	ctx, cancel := context.WithCancel(bg)
	cancel()
	big := halfspaces(t, 300, 6, Lattice(9))
	rel, err := (&OPDisc{}).Fit(ctx, big, budget, nil)
	require.Nil(t, rel)
	require.ErrorIs(t, err, dp.ErrWithheld)
	require.ErrorIs(t, err, context.Canceled)
}

// The noise that an oracle saw is gone after the fit, and neither the release
// nor the plan nor an error prints any of it.
func TestNoiseIsWiped(t *testing.T) {
	p := halfspaces(t, 30, 3, Lattice(4))
	for _, m := range []func(o Oracle) mechanism{
		func(o Oracle) mechanism { return &OPDisc{Oracle: o} },
		func(o Oracle) mechanism { return &Product{Oracle: o} },
	} {
		var table [][]int64
		var digits []string
		spy := oracle{func(p *Problem) (*Solution, error) {
			table, _, _ = p.Noise()
			for _, row := range table {
				for _, v := range row {
					if v != 0 {
						digits = append(digits, fmt.Sprint(v)[:min(6, len(fmt.Sprint(v)))])
					}
				}
			}
			return everywhere.Solve(bg, p)
		}}
		mech := m(spy)
		rel, err := mech.Fit(bg, p, budget, nil)
		require.NoError(t, err)
		require.Contains(t, rel.Certificate.Assumptions, TrustedOracle)
		require.NotEmpty(t, digits)
		for _, row := range table {
			for _, v := range row {
				require.Zero(t, v)
			}
		}
		plan, err := mech.Plan(p, budget)
		require.NoError(t, err)
		var logged bytes.Buffer
		slog.New(slog.NewTextHandler(&logged, nil)).Info("run", "release", rel, "plan", plan)
		j, err := json.Marshal(rel)
		require.NoError(t, err)
		text := fmt.Sprintf("%v %+v %s %s %s", rel, rel, j, logged.String(), plan)
		for _, d := range digits {
			require.False(t, strings.Contains(text, d), d)
		}
	}
}

// Trace sees the search; the release does not carry it.
func TestTrace(t *testing.T) {
	p := halfspaces(t, 30, 3, Lattice(4))
	var got []*Solution
	m := &OPDisc{Oracle: Search{Trace: func(s *Solution, err error) { require.NoError(t, err); got = append(got, s) }}}
	rel, err := m.Fit(bg, p, budget, nil)
	require.NoError(t, err)
	require.NotContains(t, rel.Certificate.Assumptions, TrustedOracle)
	require.Len(t, got, 1)
	require.True(t, got[0].Proven)
	require.Equal(t, float64(got[0].W[0]), rel.Theta[0])
}

// Declared failures are paid for, and refused where δ does not suffice.
func TestFailure(t *testing.T) {
	p := halfspaces(t, 30, 3, Lattice(4))
	cost := (1 + math.E) * 1e-8
	rel, err := (&OPDisc{Failure: 1e-8}).Fit(bg, p, budget, nil)
	require.NoError(t, err)
	require.InEpsilon(t, cost, rel.Certificate.Delta, 1e-8)
	require.GreaterOrEqual(t, rel.Certificate.Delta, cost)
	require.Equal(t, "objpert.failure/2(objpert.radial/2)", rel.Certificate.Theorem)
	require.Contains(t, rel.Certificate.Assumptions, AssertedFailure)
	require.NotContains(t, rel.Certificate.Assumptions, CompleteSearch)
	require.NoError(t, rel.Certificate.Check())

	with, err := (&OPDisc{Law: Gaussian, Failure: 1e-8}).Plan(p, budget)
	require.NoError(t, err)
	same, err := (&OPDisc{Law: Gaussian}).Plan(p, dp.Budget{Epsilon: 1, Delta: 1e-6 - cost})
	require.NoError(t, err)
	require.InEpsilon(t, same.Params().Scale, with.Params().Scale, 1e-7)
	require.Equal(t, budget, with.Params().Proved)

	_, err = (&OPDisc{Failure: 1e-3}).Fit(bg, p, budget, nil)
	require.ErrorIs(t, err, dp.ErrCondition)
	_, err = (&OPDisc{Law: PaperSigma, Failure: 1e-9}).Fit(bg, p, budget, nil)
	require.ErrorIs(t, err, ErrMechanism)
}

// Everything that makes no sense is refused before noise is drawn.
func TestRefusals(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	lattice := halfspaces(t, 20, 3, Lattice(4))
	tern := halfspaces(t, 20, 3, ternary())
	noisy, err := lattice.Perturb([][]int64{{0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 1}}, nil, -3)
	require.NoError(t, err)
	wide := halfspaces(t, 20, 3, Space{Values: []int{-2, -1, 0, 1, 2}, NormSq: -1})
	rowless := problemOver(t, 3, Lattice(4), true)
	good := dp.Budget{Epsilon: 1, Delta: 1e-6}
	heur := first
	for name, c := range map[string]struct {
		m    mechanism
		p    *Problem
		b    dp.Budget
		want error
	}{
		"ε = 0":                 {&OPDisc{}, lattice, dp.Budget{}, dp.ErrBudget},
		"ε < 0":                 {&OPDisc{}, lattice, dp.Budget{Epsilon: -1}, dp.ErrBudget},
		"ε NaN":                 {&Product{}, lattice, dp.Budget{Epsilon: nan}, dp.ErrBudget},
		"δ = 1":                 {&RSPM{Law: Gaussian}, tern, dp.Budget{Epsilon: 1, Delta: 1}, dp.ErrBudget},
		"δ = 0 Gaussian":        {&OPDisc{Law: Gaussian}, lattice, dp.Budget{Epsilon: 1}, dp.ErrBudget},
		"δ = 0 RSPM Gaussian":   {&RSPM{Law: Gaussian}, tern, dp.Budget{Epsilon: 1}, dp.ErrBudget},
		"δ = 0 PaperSigma":      {&OPDisc{Law: PaperSigma}, lattice, dp.Budget{Epsilon: 1}, dp.ErrBudget},
		"relation":              {&OPDisc{Relation: 7}, lattice, good, dp.ErrRelation},
		"law":                   {&OPDisc{Law: Laplace}, lattice, good, ErrMechanism},
		"law of Product":        {&Product{Law: Gaussian}, lattice, good, ErrMechanism},
		"law of RSPM":           {&RSPM{Law: Radial}, tern, good, ErrMechanism},
		"unknown law":           {&OPDisc{Law: 99}, lattice, good, ErrMechanism},
		"σ < 0":                 {&OPDisc{Law: Gaussian, Sigma: -1}, lattice, good, ErrMechanism},
		"σ NaN":                 {&OPDisc{Law: Gaussian, Sigma: nan}, lattice, good, ErrMechanism},
		"σ with Radial":         {&OPDisc{Sigma: 10}, lattice, good, ErrMechanism},
		"σ hopeless":            {&OPDisc{Law: Gaussian, Sigma: 1e-9}, lattice, good, dp.ErrCondition},
		"range of halfspaces":   {&OPDisc{Range: 0.5}, lattice, good, ErrMechanism},
		"range NaN":             {&OPDisc{Range: nan}, lattice, good, ErrMechanism},
		"range +Inf":            {&Product{Range: inf}, lattice, good, ErrMechanism},
		"range unknown":         {&OPDisc{}, rowless, good, ErrMechanism},
		"slope < 0":             {&OPDisc{Lipschitz: -1}, lattice, good, ErrMechanism},
		"no ball":               {&OPDisc{}, tern, good, dp.ErrCondition},
		"nil problem":           {&OPDisc{}, nil, good, ErrProblem},
		"noise already":         {&OPDisc{}, noisy, good, ErrProblem},
		"failure NaN":           {&OPDisc{Failure: nan}, lattice, good, ErrMechanism},
		"failure 1":             {&OPDisc{Failure: 1}, lattice, good, ErrMechanism},
		"scaled classifiers":    {&RSPM{}, wide, good, dp.ErrCondition},
		"ε beyond exactness":    {&Product{}, tern, dp.Budget{Epsilon: dp.MinEpsilon}, dp.ErrCondition},
		"RSPM beyond exactness": {&RSPM{}, tern, dp.Budget{Epsilon: 1e-11}, dp.ErrCondition},
		"radial beyond oracles": {&OPDisc{Range: 1e20}, lattice, dp.Budget{Epsilon: 1e-9}, dp.ErrCondition},
		"no heuristic, no loss": {&SampleAndAggregate{Blocks: 2}, rowless, good, ErrMechanism},
		"block limit":           {&SampleAndAggregate{Heuristic: heur, Blocks: 2, BlockLimit: -1}, tern, good, ErrMechanism},
		"block steps":           {&SampleAndAggregate{Blocks: 2, BlockSteps: -1}, tern, good, ErrMechanism},
		"no blocks":             {&SampleAndAggregate{Heuristic: heur}, tern, good, ErrMechanism},
		"law of votes": {&SampleAndAggregate{Heuristic: heur, Blocks: 2, Law: Radial}, tern, good,
			ErrMechanism},
		"votes, ε":        {&SampleAndAggregate{Heuristic: heur, Blocks: 2}, tern, dp.Budget{}, dp.ErrBudget},
		"votes, relation": {&SampleAndAggregate{Heuristic: heur, Blocks: 2, Relation: -1}, tern, good, dp.ErrRelation},
		"votes, nil":      {&SampleAndAggregate{Heuristic: heur, Blocks: 2}, nil, good, ErrProblem},
		"votes, exactness": {
			&SampleAndAggregate{Heuristic: heur, Blocks: 2}, tern, dp.Budget{Epsilon: dp.MinEpsilon}, dp.ErrCondition,
		},
	} {
		t.Run(name, func(t *testing.T) {
			rel, err := c.m.Fit(bg, c.p, c.b, nil)
			require.Nil(t, rel)
			require.ErrorIs(t, err, c.want)
			require.NotContains(t, err.Error(), "%!")
			_, err = c.m.Plan(c.p, c.b)
			require.ErrorIs(t, err, c.want)
		})
	}

	var empty *Plan
	require.Equal(t, "empty plan", empty.String())
	_, err = (&Plan{}).Fit(bg, lattice, nil)
	require.ErrorIs(t, err, ErrMechanism)
	plan, err := (&OPDisc{}).Plan(lattice, good)
	require.NoError(t, err)
	for _, p := range []*Problem{tern, halfspaces(t, 9, 2, Lattice(4)), halfspaces(t, 9, 3, Lattice(5))} {
		_, err = plan.Fit(bg, p, nil)
		require.ErrorIs(t, err, ErrMechanism)
	}
	_, err = plan.Fit(bg, nil, nil)
	require.ErrorIs(t, err, ErrProblem)
	_, err = plan.Fit(bg, &Problem{}, nil)
	require.ErrorIs(t, err, ErrProblem)
}

// One release does not disturb another: concurrent fits of one plan.
func TestConcurrentFits(t *testing.T) {
	p := halfspaces(t, 60, 3, Lattice(4))
	plan, err := (&OPDisc{}).Plan(p, budget)
	require.NoError(t, err)
	want := make([][]float64, 16)
	for i := range want {
		rel, err := plan.Fit(bg, p, noise.Reproducible(uint64(i)))
		require.NoError(t, err)
		want[i] = rel.Theta
	}
	done := make(chan error, len(want))
	for i := range want {
		go func() {
			rel, err := plan.Fit(bg, p, noise.Reproducible(uint64(i)))
			if err == nil && fmt.Sprint(rel.Theta) != fmt.Sprint(want[i]) {
				err = errors.New("another release")
			}
			done <- err
		}()
	}
	for range want {
		require.NoError(t, <-done)
	}
}

// What a record holds is never an error: each mechanism releases on every data set
// that its neighbors have, with none, one or many records of any kind.
func TestHostileRecords(t *testing.T) {
	type data struct {
		rows            [][]int64
		labels, weights []int
	}
	hostile := map[string]data{
		"none":       {},
		"one":        {[][]int64{{1, 0}}, []int{1}, nil},
		"zero":       {[][]int64{{0, 0}}, []int{-1}, nil},
		"largest":    {[][]int64{{math.MaxInt64, math.MinInt64}, {1, 1}}, []int{1, -1}, nil},
		"bounds":     {[][]int64{{1 << 61, -1 << 61}, {1 << 60, 3}}, []int{1, 1}, nil},
		"labels":     {[][]int64{{1, 2}, {2, 1}, {3, 3}}, []int{0, 7, math.MinInt}, nil},
		"weights":    {[][]int64{{1, 2}, {2, 1}, {3, 3}}, []int{1, -1, 1}, []int{-5, 0, 3}},
		"nothing":    {[][]int64{{1, 2}}, []int{1}, []int{0}},
		"duplicates": {[][]int64{{2, 4}, {1, 2}, {3, 6}, {-1, -2}}, []int{1, -1, 1, 1}, nil},
	}
	samp := dp.Budget{Epsilon: 2, Delta: 0.1}
	for _, c := range []struct {
		name string
		m    interface {
			Fit(context.Context, *Problem, dp.Budget, rand.Source) (*dp.Release, error)
		}
		space Space
	}{
		{"OPDisc", &OPDisc{Relation: dp.AddRemove}, Lattice(4)},
		{"OPDisc Gaussian", &OPDisc{Law: Gaussian}, Lattice(2)},
		{"OPDisc cells", &OPDisc{Oracle: cellFirst(0)}, Lattice(2)},
		{"OPDisc generic", &OPDisc{Oracle: generic(0)}, Lattice(2)},
		{"Product", &Product{Relation: dp.AddRemove}, ternary()},
		{"RSPM", &RSPM{Relation: dp.AddRemove}, ternary()},
		{"RSPM Gaussian", &RSPM{Law: Gaussian}, cube()},
		{"Exponential", &Exponential{}, Lattice(2)},
		{"votes", &SampleAndAggregate{Blocks: 3}, cube()},
	} {
		for name, d := range hostile {
			p, err := Empty(2, c.space)
			require.NoError(t, err)
			if len(d.rows) > 0 {
				p, err = NewProblem(d.rows, d.labels, d.weights, c.space)
				require.NoError(t, err, name)
			}
			rel, err := c.m.Fit(bg, p, samp, noise.Reproducible(1, c.name))
			require.NoError(t, err, "%s on %s", c.name, name)
			require.Len(t, rel.Theta, 2)
			for _, v := range rel.Theta {
				require.False(t, math.IsNaN(v) || math.IsInf(v, 0))
			}
		}
	}
}

// A plan says what it costs before any record is read, and nothing that a caller
// does to the numbers it spells out changes it.
func TestPlanCannotLie(t *testing.T) {
	var none *Plan
	var noSamp *SampPlan
	for _, p := range []dp.Plan{none, &Plan{}, noSamp, &SampPlan{}} {
		require.Error(t, p.Certificate().Check())
		require.Equal(t, 1., p.Profile().Delta(5))
		require.Equal(t, "empty plan", p.String())
	}
	_, err := none.Fit(bg, halfspaces(t, 5, 2, ternary()), nil)
	require.ErrorIs(t, err, ErrMechanism)
	_, err = noSamp.Fit(bg, nil, nil)
	require.ErrorIs(t, err, ErrMechanism)
	for _, m := range []mechanism{
		&OPDisc{}, &OPDisc{Law: Gaussian}, &OPDisc{Law: PaperSigma},
		&OPDisc{Law: Gaussian, Failure: 1e-9},
		&OPDisc{Failure: 1e-9}, &Product{Law: OneSided},
		&RSPM{Law: Gaussian}, &SampleAndAggregate{Blocks: 4},
	} {
		space := Space{Values: []int{-1, 1}, NormSq: 3, Allowed: [][]bool{{true, true}, {true, true}, {true, false}}}
		p := halfspaces(t, 30, 3, space)
		plan, err := m.Plan(p, budget)
		require.NoError(t, err)
		rel, err := plan.Fit(bg, p, nil)
		require.NoError(t, err)
		require.Equal(t, rel.Certificate, plan.Certificate())
		before := plan.String()
		q := plan.Params()
		text, err := json.Marshal(q)
		require.NoError(t, err)
		require.Contains(t, string(text), `"scale":`)
		require.Contains(t, string(text), `"law":"`)
		q.Scale, q.Proved, q.Values[0], q.Allowed[2][1] = 1e-9, dp.Budget{Epsilon: 1e-9}, 5, true
		require.Equal(t, before, plan.String())
		require.Equal(t, []int{-1, 1}, plan.Params().Values)
		require.False(t, plan.Params().Allowed[2][1])
		// The profile at the ε that is certified is no more than its δ.
		c := plan.Certificate()
		delta := plan.Profile().Delta(c.Epsilon)
		require.LessOrEqual(t, delta, c.Delta)
		if c.Delta > 1e-7 {
			require.Greater(t, delta, 0.9*c.Delta)
		}
		require.Greater(t, plan.Profile().Delta(0.5*c.Epsilon), delta)
	}
}
