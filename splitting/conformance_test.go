// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

// iterationBudget bounds the steps of a deterministic method on a planted problem, whose condition
// number is at most 40: ten times the plain proximal gradient steps that reach 1e-10.
const iterationBudget = 10_000

// sampledBudget bounds the steps of a method that evaluates a few of the thirty terms a step.
const sampledBudget = iterationBudget * plantedTerms / 3

// stochasticSteps are enough for the default relaxation to remove nine tenths of the initial gap of
// a planted problem.
const stochasticSteps = 5_000

// conforms runs m on planted problems and requires:
//
//   - an error wrapping splitting.ErrProblem, and no panic, where m does not apply, and at least
//     one problem to which m applies;
//   - the planted minimizer within the budget, certified to 1e-8. If the residual stays +Inf
//     (plain stochastic sampling), a tenth of the initial gap is enough;
//   - a residual that bounds the distance to the minimizer and the gap, at every iterate, and a
//     feasible iterate wherever the residual is finite;
//   - equal results for equal seeds, also when m is used again;
//   - an unchanged x0, and no allocation in a step;
//   - splitting.ErrNaN for a NaN in the gradient, and no NaN in the result.
func conforms(t *testing.T, m splitting.Method) {
	t.Helper()
	conformity(t, m, planted.tolerance)
}

// conformsSublinear is like conforms, for methods without linear convergence on strongly convex
// problems: it requires a certified gap of 1e-8 instead of a distance.
func conformsSublinear(t *testing.T, m splitting.Method) {
	t.Helper()
	conformity(t, m, planted.gapTolerance)
}

func conformity(t *testing.T, m splitting.Method, tolerance func(planted) float64) {
	t.Helper()
	applied := 0
	for _, p := range plantedProblems() {
		t.Run(p.Name, func(t *testing.T) {
			if errs := check(m, p, tolerance(p)); errs != nil {
				if errors.Is(errs, errNotApplicable) {
					t.Skip("does not apply")
				}
				t.Error(errs)
			}
			applied++
		})
	}
	if applied == 0 {
		t.Errorf("%T applies to none of the planted problems", m)
	}
}

var errNotApplicable = errors.New("the method does not apply")

// check returns the first fault of m on p, or nil.
func check(m splitting.Method, p planted, tolerance float64) error {
	x0 := slices.Clone(p.Start)
	if err := m.Init(p.Problem, x0, rand.New(rand.NewPCG(1, 2))); errors.Is(err, splitting.ErrProblem) {
		return errNotApplicable
	} else if err != nil {
		return fmt.Errorf("Init: %w", err)
	}
	n, budget := allocs(m, p)
	if n != 0 {
		return fmt.Errorf("a step allocates %v times, want 0", n)
	}

	if budget == sampledBudget {
		// SVRG certifies each step with probability 1/plantedTerms. If m is SVRG, the probability that it
		// certifies none of these steps is e⁻²⁰.
		probe := &auditor{p: p}
		first := &splitting.Settings{Iterations: 20 * plantedTerms, Tolerance: -1, Src: rand.NewPCG(9, 10), Recorder: probe}
		if _, err := splitting.Solve(context.Background(), p.Problem, x0, first, m); err != nil {
			return err
		}
		if !probe.claims {
			budget = 20 * plantedTerms
		}
	}
	watch := &auditor{p: p}
	settings := &splitting.Settings{Iterations: budget, Tolerance: tolerance, Recorder: watch}
	res, err := splitting.Solve(context.Background(), p.Problem, x0, settings, m)
	if err != nil {
		return err
	}
	if watch.err != nil {
		return watch.err
	}
	if !slices.Equal(x0, p.Start) {
		return errors.New("x0 was changed")
	}
	if watch.claims || res.Status == splitting.Stalled {
		if err := arrived(p, res, tolerance, budget); err != nil {
			return err
		}
	} else if err := sampled(m, p); err != nil {
		return err
	}
	if err := repeatable(m, p); err != nil {
		return err
	}
	return nan(m, p)
}

// arrived returns an error unless res is the planted minimizer.
func arrived(p planted, res *splitting.Result, tolerance float64, budget int) error {
	if res.Iterations >= budget {
		return fmt.Errorf("%v after %d iterations at residual %g, want %g within the budget",
			res.Status, res.Iterations, res.Residual, tolerance)
	}
	if res.Status != splitting.Converged && p.Certifiable {
		return fmt.Errorf("%v at residual %g, want Converged at %g", res.Status, res.Residual, tolerance)
	}
	if !(res.Residual <= math.Max(tolerance, p.gapTolerance())) {
		return fmt.Errorf("%v at residual %g, which does not certify a gap of 1e-8: want %g",
			res.Status, res.Residual, p.gapTolerance())
	}
	// Where only a gap is certified, the distance is accurate to the square root of the rounding.
	limit := math.Max(tolerance/p.Mu, 1e-6*(1+floats.Norm(p.Solution, 2)))
	if d := floats.Distance(res.X, p.Solution, 2); !(d <= limit) {
		return fmt.Errorf("‖X − x*‖ = %g after %v", d, res.Status)
	}
	return nil
}

// sampled returns an error unless a stochastic method removes nine tenths of the gap.
func sampled(m splitting.Method, p planted) error {
	res, err := splitting.Solve(context.Background(), p.Problem, p.Start,
		&splitting.Settings{Iterations: stochasticSteps, Src: rand.NewPCG(3, 4)}, m)
	if err != nil {
		return err
	}
	// Compare distances instead of values, because a stochastic iterate need not be feasible.
	before, after := floats.Distance(p.Start, p.Solution, 2), floats.Distance(res.X, p.Solution, 2)
	if !(after*after <= 0.1*before*before) {
		return fmt.Errorf("‖X − x*‖ = %g from %g in %d steps, want at most a tenth in the squared distance", after, before,
			stochasticSteps)
	}
	return nil
}

// auditor is a Recorder that compares every location with the planted minimizer.
type auditor struct {
	p      planted
	claims bool // whether some residual was finite
	err    error
}

func (a *auditor) Init() error { return nil }

func (a *auditor) Record(loc *splitting.Location, _ *splitting.Stats) error {
	if a.err != nil || math.IsInf(loc.Residual, 1) {
		return nil
	}
	a.claims = true
	p := a.p
	dist := floats.Distance(loc.X, p.Solution, 2)
	// Rounding: a residual of 0 can be the rounded value of a residual of 1e-13 of the terms.
	slack := 1e-12 * p.Scale
	if bound := (loc.Residual + slack) / p.Mu; !(dist <= bound) {
		a.err = fmt.Errorf("the residual %g claims ‖X − x*‖ ≤ %g, but it is %g", loc.Residual, bound, dist)
	}
	value := p.Func(loc.X)
	if math.IsInf(value, 1) {
		a.err = fmt.Errorf("the residual %g is claimed at a point outside the domain", loc.Residual)
		return nil
	}
	gap := value - p.Func(p.Solution)
	if bound := (loc.Residual+slack)*(loc.Residual+slack)/(2*p.Mu) + 1e-13*p.Scale; !(gap <= bound) {
		a.err = fmt.Errorf("the residual %g claims a gap of at most %g, but it is %g", loc.Residual, bound, gap)
	}
	return nil
}

// allocs returns the number of allocations in a step, and the budget of steps for m.
func allocs(m splitting.Method, p planted) (n float64, budget int) {
	loc := &splitting.Location{X: slices.Clone(p.Start), Residual: math.Inf(1)}
	stats := &splitting.Stats{}
	n = testing.AllocsPerRun(50, func() { m.Step(loc, stats) })
	if stats.GradTerms < 51*plantedTerms/3 {
		return n, sampledBudget
	}
	return n, iterationBudget
}

// repeatable returns an error unless equal seeds give equal bits.
func repeatable(m splitting.Method, p planted) error {
	var results [2][]float64
	for i := range results {
		res, err := splitting.Solve(context.Background(), p.Problem, p.Start,
			&splitting.Settings{Iterations: 25, Tolerance: -1, Src: rand.NewPCG(5, 6)}, m)
		if err != nil {
			return err
		}
		results[i] = res.X
	}
	if !slices.Equal(results[0], results[1]) {
		return errors.New("equal seeds gave different results")
	}
	return nil
}

// nan returns an error unless m reports ErrNaN when gradients become NaN.
func nan(m splitting.Method, p planted) error {
	p.sum.nan = true
	defer func() { p.sum.nan = false }()
	res, err := splitting.Solve(context.Background(), p.Problem, p.Start,
		&splitting.Settings{Iterations: 100, Tolerance: -1, Src: rand.NewPCG(7, 8)}, m)
	switch {
	case err == nil:
		return fmt.Errorf("NaN gradients: %v, want an error", res.Status)
	case !errors.Is(err, splitting.ErrNaN):
		return fmt.Errorf("NaN gradients: %w, want it to wrap ErrNaN", err)
	case res == nil:
		return nil
	case res.Status != splitting.Failure:
		return fmt.Errorf("NaN gradients: %v, want Failure", res.Status)
	case math.IsNaN(floats.Sum(res.X)) || math.IsNaN(res.Residual):
		return errors.New("NaN gradients: a NaN was returned")
	}
	return nil
}

func TestMethods(t *testing.T) {
	for name, m := range map[string]splitting.Method{
		"StochasticTOS":           &splitting.StochasticTOS{},
		"DavisYin":                &splitting.DavisYin{},
		"DavisYin/relaxed":        &splitting.DavisYin{Relaxation: 1.4},
		"DavisYin/search":         &splitting.DavisYin{Rule: splitting.LineSearch},
		"ForwardBackward/search":  &splitting.ForwardBackward{Rule: splitting.LineSearch},
		"ForwardBackward/both":    &splitting.ForwardBackward{Rule: splitting.LineSearch, Plain: true},
		"StochasticTOS/SVRG":      &splitting.StochasticTOS{SVRG: true},
		"StochasticTOS/Refresh":   &splitting.StochasticTOS{SVRG: true, Refresh: 0.25},
		"ProxSVRG":                &inH{splitting.StochasticTOS{SVRG: true}},
		"BackwardForward/SVRG":    &inG{splitting.StochasticTOS{SVRG: true}},
		"BackwardForward/Sampled": &inG{},
		"PrimalDual":              &splitting.PrimalDual{},
		"BackwardForward":         &backwardForward{},
		"BackwardForward/relaxed": &backwardForward{splitting.DavisYin{Relaxation: 1.4}},
		"ForwardBackward":         &splitting.ForwardBackward{},
		"ForwardBackward/plain":   &splitting.ForwardBackward{Plain: true},
		"CoordinateDescent":       &splitting.CoordinateDescent{},
		"ProxNewton":              &splitting.ProxNewton{},
		"LBFGS":                   &splitting.LBFGS{Memory: 4},
	} {
		t.Run(name, func(t *testing.T) { conforms(t, m) })
	}
	for name, m := range map[string]splitting.Method{
		"PrimalDual/strong": &splitting.PrimalDual{Rule: splitting.StronglyConvexStep},
	} {
		t.Run(name, func(t *testing.T) { conformsSublinear(t, m) })
	}
}

// inG passes G + H as the term G to its method, inH passes G + H as the term H.
type (
	inG             struct{ splitting.StochasticTOS }
	inH             struct{ splitting.StochasticTOS }
	backwardForward struct{ splitting.DavisYin }
)

// inOne returns p with G replaced by G + H, and no H.
func inOne(p splitting.Problem) (splitting.Problem, error) {
	psi, ok := sumOf(p.G, p.H)
	if !ok {
		return p, splitting.ErrProblem
	}
	p.G, p.H = psi, nil
	return p, nil
}

func (m *inG) Init(p splitting.Problem, x0 []float64, rnd *rand.Rand) error {
	p, err := inOne(p)
	return errors.Join(err, m.StochasticTOS.Init(p, x0, rnd))
}

func (m *inH) Init(p splitting.Problem, x0 []float64, rnd *rand.Rand) error {
	p, err := inOne(p)
	p.G, p.H = p.H, p.G
	return errors.Join(err, m.StochasticTOS.Init(p, x0, rnd))
}

func (m *backwardForward) Init(p splitting.Problem, x0 []float64, rnd *rand.Rand) error {
	p, err := inOne(p)
	return errors.Join(err, m.DavisYin.Init(p, x0, rnd))
}

// TestPlanted checks that the planted minimizers are minimizers: −∇f(x*) is in the subdifferential
// of G + H, where the operators can compute it.
func TestPlanted(t *testing.T) {
	seen := 0
	for _, p := range plantedProblems() {
		sum, ok := sumOf(p.G, p.H)
		if !ok {
			continue
		}
		s, ok := sum.(prox.Subdifferential)
		if !ok {
			continue
		}
		g := make([]float64, plantedDim)
		p.F.Grad(g, p.Solution)
		require.LessOrEqual(t, s.Dist(p.Solution, g), 1e-13*p.Scale, p.Name)
		seen++
	}
	require.GreaterOrEqual(t, seen, 20)
}

// broken is the proximal gradient method with one fault, which conforms must find.
type broken struct {
	fault string
	f     splitting.Smooth
	psi   prox.Operator
	x, w  []float64
	rnd   *rand.Rand
	keep  []float64
}

func (m *broken) Init(p splitting.Problem, x0 []float64, rnd *rand.Rand) error {
	psi, ok := sumOf(p.G, p.H)
	if !ok || math.IsInf(p.F.Smoothness(), 1) {
		return splitting.ErrProblem
	}
	m.f, m.psi, m.rnd = p.F, psi, rnd
	m.x, m.w = append([]float64(nil), x0...), make([]float64, len(x0))
	if m.fault == "keeps x0" {
		m.x = x0
	}
	return nil
}

func (m *broken) Step(loc *splitting.Location, stats *splitting.Stats) {
	gamma := 1 / m.f.Smoothness()
	m.f.Grad(m.w, m.x)
	stats.GradTerms += plantedTerms
	if m.fault == "wrong sign" {
		floats.Scale(-1, m.w)
	}
	if m.fault == "random" {
		gamma *= 1 - 0.1*m.rnd.Float64()
	}
	if m.fault == "unseeded" {
		gamma *= 1 - 0.1*rand.Float64()
	}
	if m.fault == "hides NaN" && m.w[0] != m.w[0] {
		clear(m.w)
	}
	if m.fault == "slow" {
		gamma *= 1e-3
	}
	for i := range m.w {
		m.w[i] = m.x[i] - gamma*m.w[i]
	}
	if m.fault != "no prox" {
		m.psi.Prox(m.w, m.w, gamma)
	}
	loc.Residual = floats.Distance(m.x, m.w, 2) / gamma
	copy(m.x, m.w)
	copy(loc.X, m.w)
	if m.fault == "optimistic" {
		loc.Residual *= 0.05
	}
	if m.fault == "allocates" {
		m.keep = make([]float64, len(m.x))
	}
	if m.fault == "infeasible" {
		loc.X[0] += 1e-7
	}
}

func TestCheckBites(t *testing.T) {
	bad := func(fault string) (n int) {
		for _, p := range plantedProblems() {
			if err := check(&broken{fault: fault}, p, p.tolerance()); err != nil && err != errNotApplicable {
				n++
			}
		}
		return n
	}
	require.Zero(t, bad(""), "a correct method must pass")
	require.Zero(t, bad("random"), "a correct method that uses the seed must pass")
	for _, fault := range []string{"wrong sign", "unseeded", "hides NaN", "slow", "no prox", "optimistic", "allocates",
		"keeps x0",
		"infeasible"} {
		require.Positive(t, bad(fault), fault)
	}
}
