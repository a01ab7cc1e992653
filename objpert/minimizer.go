package objpert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

// LatticeMinimizer is a Minimizer over the finite set of a Problem.
type LatticeMinimizer struct {
	Problem *Problem
	Oracle  Oracle  // nil means Auto
	Gap     float64 // an oracle stopped at one of its own limits will do within this gap
}

var _ Minimizer = (*LatticeMinimizer)(nil)

// Minimize implements Minimizer: T_j[k] = sigma_j Values[k], rounded to the steps in
// which oracles count, which is part of the gap. Errors wrap those
// of the oracle, ErrMechanism, or ErrProblem for a sigma that is not finite.
func (m *LatticeMinimizer) Minimize(ctx context.Context, w, sigma []float64) (gap float64, err error) {
	if m == nil || m.Problem == nil {
		return 0, fmt.Errorf("%w: Problem is nil, want one over a finite set", ErrMechanism)
	}
	if err := cmp.Or(release.CheckContext(ErrMechanism, ctx), checkTilt(m.Problem.Dim, w, sigma)); err != nil {
		return 0, err
	}
	oracle := m.Oracle
	if oracle == nil {
		oracle = Auto{}
	}
	table := grid[float64](len(sigma), len(m.Problem.Values))
	for j, s := range sigma {
		for k, v := range m.Problem.Values {
			table[j][k] = s * float64(v)
		}
	}
	p, rounding, err := m.Problem.tilted(table, nil)
	for _, row := range table {
		clear(row)
	}
	if err != nil {
		return 0, err
	}
	defer p.noise.wipe()
	sol, err := oracle.Solve(ctx, p)
	if sol == nil || err != nil && !errors.Is(err, ErrLimit) || !p.Contains(sol.W) {
		if err == nil {
			err = errors.New("objpert: the oracle returned no point of the space")
		}
		return 0, err
	}
	for j, v := range sol.W {
		w[j] = float64(v)
	}
	if sol.Proven {
		return rounding, nil
	}
	if gap = sol.Objective - sol.Lower + rounding; gap <= m.Gap {
		err = nil
	}
	return gap, err
}

// BoxMinimizer is a Minimizer of a convex empirical risk over a box, Problem.Set
// a prox.Box. Its gap is certified by linearization: for convex F,
//
//	F(w) − min F ≤ max over v in the box of ⟨∇F(w), w − v⟩ = Σ_j max( g_j(w_j − lo), g_j(w_j − hi) )
type BoxMinimizer struct {
	Problem *erm.Problem
	Gap     float64 // stop when the gap is below it; > 0
	// Iterations of the accelerated gradient method at most; 0 means 1e5.
	Iterations int
}

var _ Minimizer = (*BoxMinimizer)(nil)

// Check returns an error wrapping ErrMechanism unless Problem has a bounded box,
// no regularizer and a smooth convex loss.
func (m *BoxMinimizer) Check() error {
	if m == nil || m.Problem == nil {
		return fmt.Errorf("%w: Problem is nil, want one with a bounded box", ErrMechanism)
	}
	if err := m.Problem.Check(); err != nil {
		return err
	}
	box, ok := m.Problem.Set.(prox.Box)
	switch {
	case !ok || math.IsInf(box.Lo, 0) || math.IsInf(box.Hi, 0):
		return fmt.Errorf("%w: Set is %T, want a bounded prox.Box", ErrMechanism, m.Problem.Set)
	case m.Problem.Reg != nil:
		return fmt.Errorf("%w: Reg = %T, want none", ErrMechanism, m.Problem.Reg)
	case len(m.Problem.Data.Assumptions()) > 0:
		return fmt.Errorf("%w: Data rest on what the certificate of OPSamp cannot list, want records in memory or in a file", ErrMechanism)
	case !(m.Gap > 0):
		return fmt.Errorf("%w: Gap = %v, want a positive number", ErrMechanism, m.Gap)
	}
	return nil
}

// errStalled reports that the gap could not be reached. It holds no value.
var errStalled = errors.New("objpert: the gradient method did not reach the gap")

// Minimize implements Minimizer. Errors wrap those of Check, or of ctx.
func (m *BoxMinimizer) Minimize(ctx context.Context, w, sigma []float64) (gap float64, err error) {
	if err := m.Check(); err != nil {
		return 0, err
	}
	_, d := m.Problem.Data.Dims()
	if err := cmp.Or(release.CheckContext(ErrMechanism, ctx), checkTilt(d, w, sigma)); err != nil {
		return 0, err
	}
	box := m.Problem.Set.(prox.Box)
	tilt := floats.ScaleTo(make([]float64, d), -1, sigma)
	defer clear(tilt)
	f := m.Problem.PerturbContext(ctx, erm.Perturbation{Linear: tilt})
	g, x := make([]float64, d), slices.Repeat([]float64{box.Lo + (box.Hi-box.Lo)/2}, d)
	limit := cmp.Or(m.Iterations, 1e5)
	// Rounds of twice as many steps each: the stop depends on the records and
	// sigma alone.
	for steps := 32; ; steps *= 2 {
		res, err := splitting.Solve(ctx, splitting.Problem{F: f, G: box}, x,
			&splitting.Settings{Iterations: min(steps, limit), Tolerance: -1}, &splitting.ForwardBackward{})
		if res == nil || ctx.Err() != nil {
			return 0, errors.Join(err, ctx.Err())
		}
		box.Prox(x, res.X, 1)
		f.Grad(g, x)
		if err := f.Err(); err != nil {
			return 0, err
		}
		gap = 0
		for j, v := range g {
			gap += math.Max(v*(x[j]-box.Lo), v*(x[j]-box.Hi))
		}
		copy(w, x)
		switch {
		case gap <= m.Gap:
			return gap, nil
		case steps >= limit || math.IsNaN(gap):
			return gap, errStalled
		}
	}
}

// checkTilt returns an error unless w and sigma have d entries and those of sigma are finite.
func checkTilt(d int, w, sigma []float64) error {
	if len(w) != d || len(sigma) != d {
		return fmt.Errorf("%w: w and sigma have %d and %d entries, want %d, the number of parameters", ErrMechanism, len(w), len(sigma), d)
	}
	if n := floats.Norm(sigma, 1); math.IsNaN(n) || math.IsInf(n, 1) {
		return fmt.Errorf("%w: an entry of sigma is not finite, want a tilt by finite numbers", ErrProblem)
	}
	return nil
}
