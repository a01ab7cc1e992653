package objpert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/internal/release"
)

// latticeMinimizer is a [Minimizer] over the finite set of a Problem.
type latticeMinimizer struct {
	Problem *Problem
	Oracle  Oracle  // nil means Auto
	Gap     float64 // an oracle stopped at one of its own limits will do within this gap
}

var _ Minimizer = (*latticeMinimizer)(nil)

// Minimize implements [Minimizer]: T_j[k] = sigma_j Values[k], rounded to the steps in
// which oracles count, which is part of the gap. Errors wrap those
// of the oracle, ErrMechanism, or ErrProblem for a sigma that is not finite.
func (m *latticeMinimizer) Minimize(ctx context.Context, w, sigma []float64) (gap float64, err error) {
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
