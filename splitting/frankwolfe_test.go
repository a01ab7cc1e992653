// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

// TestFrankWolfe checks, for every rule and set, that X is feasible, that the gap bounds J(X) − J*,
// and that it falls at the rate of [Jag13, Thm. 2].
func TestFrankWolfe(t *testing.T) {
	const d = 6
	a, y := randomRows(20, d)
	ls, err := splitting.NewLeastSquares(a, y)
	require.NoError(t, err)
	wide, short := randomRows(4, d)
	flat, err := splitting.NewLeastSquares(wide, short)
	require.NoError(t, err)
	logit, err := splitting.NewLogistic(a, y)
	require.NoError(t, err)
	for fname, f := range map[string]splitting.Smooth{"squares": ls, "flat": flat, "logistic": logit} {
		for sname, set := range map[string]prox.LinearMinimizer{
			"simplex": prox.Simplex{Total: 0.7}, "l1 ball": prox.L1Ball{R: 0.7}, "l1 ball around": prox.L1Ball{R: 50},
			"nuclear ball": prox.NuclearBall{Rows: 2, Cols: 3, R: 0.7}, "l2 ball": prox.L2Ball{R: 0.4},
			"box": prox.Box{Lo: -0.2, Hi: 0.1},
		} {
			p := splitting.Problem{F: f, H: set}
			ref, err := splitting.Solve(background, p, make([]float64, d), &splitting.Settings{Tolerance: 1e-11},
				&splitting.ForwardBackward{})
			require.NoError(t, err)
			best := p.Func(ref.X)
			diameter := 2 * set.Radius(d)
			for _, m := range []*splitting.FrankWolfe{
				{}, {Rule: splitting.LineSearch}, {Plain: true}, {Rule: splitting.LineSearch,
					Plain: true},
			} {
				name := fmt.Sprintf("%s, %s, %v, plain %v", fname, sname, m.Rule, m.Plain)
				for _, steps := range []int{1, 5, 300} {
					res, err := splitting.Solve(background, p, make([]float64, d),
						&splitting.Settings{Iterations: steps, Tolerance: -1}, m)
					require.NoError(t, err, name)
					require.Zero(t, set.Func(res.X), name)
					excess := p.Func(res.X) - best
					require.LessOrEqual(t, excess, res.Gap+1e-12, name)
					// The rate is that of [Jag13, Thm. 2] with C_f = L_f·D², times two for a line search whose
					// estimate is within 1/shrink of L_f.
					require.LessOrEqual(t, res.Gap, 2*7*f.Smoothness()*diameter*diameter/float64(steps+2), "%s: %d steps", name, steps)
				}
			}
		}
	}
}

// TestFrankWolfePairwise checks that pairwise steps converge on a strongly convex function, where
// plain steps need at least twice as many iterations.
func TestFrankWolfePairwise(t *testing.T) {
	a, y := randomRows(60, 20)
	f, err := splitting.NewLeastSquares(a, y)
	require.NoError(t, err)
	for _, set := range []prox.Set{prox.Simplex{Total: 1}, prox.L1Ball{R: 1}} {
		p := splitting.Problem{F: f, G: set}
		for _, r := range []splitting.StepRule{splitting.FixedStep, splitting.LineSearch} {
			s := &splitting.Settings{Gap: 1e-9, Tolerance: -1, Iterations: 5000}
			res, err := splitting.Solve(background, p, make([]float64, 20), s, &splitting.FrankWolfe{Rule: r})
			require.NoError(t, err)
			require.Equal(t, splitting.Converged, res.Status, "%v, %T: gap %g", r, set, res.Gap)
			plain, err := splitting.Solve(background, p, make([]float64, 20), s, &splitting.FrankWolfe{Rule: r, Plain: true})
			require.NoError(t, err)
			require.Greater(t, plain.Iterations, 2*res.Iterations)
			ref, err := splitting.Solve(background, p, make([]float64, 20), nil, &splitting.ForwardBackward{})
			require.NoError(t, err)
			require.LessOrEqual(t, floats.Distance(ref.X, res.X, 2), ref.Distance+res.Distance)
		}
		// The default tolerance applies to the residual, which is small because X is on a face of the
		// set.
		res, err := splitting.Solve(background, p, make([]float64, 20), &splitting.Settings{Tolerance: 1e-8},
			&splitting.FrankWolfe{})
		require.NoError(t, err)
		require.Equal(t, splitting.Converged, res.Status, "%T: residual %g", set, res.Residual)
	}
}

func TestFrankWolfeRefuses(t *testing.T) {
	q, err := splitting.NewQuadratic(mat.NewSymDense(2, []float64{2, 0, 0, 1}), []float64{1, 1}, 0)
	require.NoError(t, err)
	for _, p := range []splitting.Problem{
		{F: q}, {F: q, G: prox.L1{Weight: 1}}, {F: q, G: prox.L1Ball{R: 1}, H: prox.Box{Lo: -1, Hi: 1}},
		{F: q, G: prox.Box{Lo: 0, Hi: math.Inf(1)}}, {F: q, G: prox.NonNegative{}},
	} {
		_, err := splitting.Solve(background, p, []float64{1, 2}, nil, &splitting.FrankWolfe{})
		require.ErrorIs(t, err, splitting.ErrProblem)
	}
	_, err = splitting.Solve(background, splitting.Problem{F: q, G: prox.L1Ball{R: 1}}, []float64{1, 2}, nil,
		&splitting.FrankWolfe{Rule: splitting.RootStep})
	require.ErrorIs(t, err, splitting.ErrSettings)
}
