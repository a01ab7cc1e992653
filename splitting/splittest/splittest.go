// Package splittest checks implementations of splitting.Method on problems with a planted
// minimizer: choose x*, choose u ∈ ∂(g+h)(x*), and tilt a strongly convex f so that ∇f(x*) = −u.
// Then x* is the minimizer, known without any solver.
package splittest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/splitting"
)

// iterationBudget bounds the steps of a deterministic method on a planted problem, whose condition
// number is at most 40: ten times the plain proximal gradient steps that reach 1e-10.
const iterationBudget = 10_000

// sampledBudget bounds the steps of a method that evaluates a few of the thirty terms a step.
const sampledBudget = iterationBudget * records / 3

// stochasticSteps are enough for the default relaxation to remove nine tenths of the initial gap of
// a planted problem.
const stochasticSteps = 5_000

// Check runs planted problems and requires of m
//
//   - an error wrapping splitting.ErrProblem, and no panic, where m does not apply, and at least
//     one problem to which it applies;
//   - the planted minimizer within the budget, certified to 1e-8, or, if the residual stays +Inf
//     (plain stochastic sampling), a tenth of the initial gap;
//   - a residual that bounds the distance to the minimizer and the gap, at every iterate, and a
//     feasible iterate wherever the residual is finite;
//   - equal results for equal seeds, also when m is used again;
//   - an unchanged x0, and no allocation in a step;
//   - splitting.ErrNaN for a NaN in the gradient, which must not be returned.
func Check(t *testing.T, m splitting.Method) {
	t.Helper()
	run(t, m, Problem.Tolerance)
}

// CheckSublinear is Check for a method without linear convergence on strongly convex problems: it
// requires a certified gap of 1e-8 instead of a distance.
func CheckSublinear(t *testing.T, m splitting.Method) {
	t.Helper()
	run(t, m, Problem.GapTolerance)
}

func run(t *testing.T, m splitting.Method, tolerance func(Problem) float64) {
	t.Helper()
	applied := 0
	for _, p := range Planted() {
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

var errNotApplicable = errors.New("splittest: the method does not apply")

// check returns the first fault of m on p.
func check(m splitting.Method, p Problem, tolerance float64) error {
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
		// SVRG certifies each step with probability 1/records, so that no certificate in these steps
		// has probability e⁻²⁰.
		probe := &auditor{p: p}
		first := &splitting.Settings{Iterations: 20 * records, Tolerance: -1, Src: rand.NewPCG(9, 10), Recorder: probe}
		if _, err := splitting.Solve(context.Background(), p.Problem, x0, first, m); err != nil {
			return err
		}
		if !probe.claims {
			budget = 20 * records
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

// arrived requires the planted minimizer.
func arrived(p Problem, res *splitting.Result, tolerance float64, budget int) error {
	if res.Iterations >= budget {
		return fmt.Errorf("%v after %d iterations at residual %g, want %g within the budget",
			res.Status, res.Iterations, res.Residual, tolerance)
	}
	if res.Status != splitting.Converged && p.Certifiable {
		return fmt.Errorf("%v at residual %g, want Converged at %g", res.Status, res.Residual, tolerance)
	}
	if !(res.Residual <= math.Max(tolerance, p.GapTolerance())) {
		return fmt.Errorf("%v at residual %g, which does not certify a gap of 1e-8: want %g",
			res.Status, res.Residual, p.GapTolerance())
	}
	// Where the certificate is a gap, the distance is accurate to the square root of rounding.
	limit := math.Max(tolerance/p.Mu, 1e-6*(1+floats.Norm(p.Solution, 2)))
	if d := floats.Distance(res.X, p.Solution, 2); !(d <= limit) {
		return fmt.Errorf("‖X − x*‖ = %g after %v", d, res.Status)
	}
	return nil
}

// sampled requires a stochastic method to remove nine tenths of the gap.
func sampled(m splitting.Method, p Problem) error {
	res, err := splitting.Solve(context.Background(), p.Problem, p.Start,
		&splitting.Settings{Iterations: stochasticSteps, Src: rand.NewPCG(3, 4)}, m)
	if err != nil {
		return err
	}
	// Distances instead of values, because a stochastic iterate need not be feasible.
	before, after := floats.Distance(p.Start, p.Solution, 2), floats.Distance(res.X, p.Solution, 2)
	if !(after*after <= 0.1*before*before) {
		return fmt.Errorf("‖X − x*‖ = %g from %g in %d steps, want a tenth of its square", after, before, stochasticSteps)
	}
	return nil
}

// auditor compares every location with the planted minimizer.
type auditor struct {
	p      Problem
	claims bool // a finite residual was claimed
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
	// Rounding: a residual of 0 may stand for one of some 1e-13 of the terms.
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

// allocs returns the number of allocations per step, and the budget of steps.
func allocs(m splitting.Method, p Problem) (n float64, budget int) {
	loc := &splitting.Location{X: slices.Clone(p.Start), Residual: math.Inf(1)}
	stats := &splitting.Stats{}
	n = testing.AllocsPerRun(50, func() { m.Step(loc, stats) })
	if stats.GradTerms < 51*records/3 {
		return n, sampledBudget
	}
	return n, iterationBudget
}

// repeatable requires equal bits for equal seeds.
func repeatable(m splitting.Method, p Problem) error {
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

// nan requires ErrNaN where gradients become NaN.
func nan(m splitting.Method, p Problem) error {
	p.terms.nan = true
	defer func() { p.terms.nan = false }()
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
