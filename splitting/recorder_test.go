// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

func iterations(t *splitting.Trace) (k []int) {
	for _, p := range t.Points {
		k = append(k, p.Iterations)
	}
	return k
}

func TestRecorders(t *testing.T) {
	down := residual(func(k int) float64 { return 1 / float64(k) })
	solve := func(n int, r splitting.Recorder) {
		_, err := splitting.Solve(background, splitting.Problem{}, []float64{0},
			&splitting.Settings{Iterations: n, Tolerance: -1, Recorder: r},
			&scripted{step: down})
		require.NoError(t, err)
	}
	trace := &splitting.Trace{Func: func(x []float64) float64 { return -x[0] }}
	solve(3, trace)
	require.Equal(t, []int{1, 2, 3}, iterations(trace))
	require.Equal(t, -3.0, trace.Points[2].Value)
	require.Equal(t, 0.5, trace.Points[1].Residual)

	trace.Func = nil
	trace.PerDecade = 3
	for range 2 { // the second run starts again
		solve(2000, trace)
		require.Equal(t, []int{1, 2, 5, 10, 22, 46, 100, 215, 464, 1000}, iterations(trace))
	}
	trace.PerDecade = 1
	solve(100, trace)
	require.Equal(t, []int{1, 10, 100}, iterations(trace))
	trace.PerDecade = math.MaxInt
	solve(12, trace)
	require.Len(t, trace.Points, 12)
	require.Zero(t, trace.Points[1].Value)
}

// TestPath checks that Path finds the same minimizers as separate solves from zero, in fewer
// iterations in total.
func TestPath(t *testing.T) {
	const d = 40
	lasso := perturbedLasso(120, d, 0, 1).F
	k, err := splitting.NewMatrix(mat.NewDense(1, d, floats.Span(make([]float64, d), -1, 1)))
	require.NoError(t, err)
	// norm hides the type of the ℓ1 norm, so that no closed form of the sum is known and DavisYin must
	// use the dual variable.
	norm := struct{ prox.Operator }{prox.L1{Weight: 1}}
	var weights, boxes, duals []splitting.Problem
	for i := range 8 {
		weights = append(weights, splitting.Problem{F: lasso, G: prox.L1{Weight: 50 * math.Pow(0.8, float64(i))}})
		boxes = append(boxes, splitting.Problem{F: lasso, G: norm, H: prox.Box{Lo: -0.1 * float64(i+1),
			Hi: 0.1 * float64(i+1)}})
		duals = append(duals, splitting.Problem{F: lasso, H: prox.L1{Weight: 100 - 10*float64(i)}, K: k})
	}
	for name, c := range map[string]struct {
		problems []splitting.Problem
		m        splitting.Method
		tol      float64
	}{
		"Auto":            {weights, nil, 1e-6},
		"ForwardBackward": {weights, &splitting.ForwardBackward{}, 1e-6},
		"DavisYin":        {boxes, &splitting.DavisYin{}, 1e-2},
		"PrimalDual":      {duals, &splitting.PrimalDual{}, 1e-2},
	} {
		t.Run(name, func(t *testing.T) {
			s := &splitting.Settings{Tolerance: c.tol}
			results, err := splitting.Path(background, c.problems, make([]float64, d), s, c.m)
			require.NoError(t, err)
			require.Len(t, results, len(c.problems))
			warm, cold := 0, 0
			for i, res := range results {
				m := c.m
				if m == nil {
					m = splitting.Auto(c.problems[i], d)
				}
				alone, err := splitting.Solve(background, c.problems[i], make([]float64, d), s, m)
				require.NoError(t, err)
				require.Equal(t, splitting.Converged, res.Status)
				require.LessOrEqual(t, floats.Distance(alone.X, res.X, 2), alone.Distance+res.Distance)
				warm, cold = warm+res.Iterations, cold+alone.Iterations
			}
			require.LessOrEqual(t, warm, cold)
			if c.m != nil { // coordinate descent needs few sweeps from any start
				require.Less(t, warm, cold)
			}
			t.Logf("%d iterations, %d cold", warm, cold)
		})
	}

	// Path passes on the dual variable: solving the same problem again takes at most 2 iterations.
	for name, c := range map[string]struct {
		p splitting.Problem
		m splitting.Method
	}{"DavisYin": {boxes[4], &splitting.DavisYin{}}, "PrimalDual": {duals[4], &splitting.PrimalDual{}}} {
		results, err := splitting.Path(background, []splitting.Problem{c.p, c.p}, make([]float64, d),
			&splitting.Settings{Tolerance: 1e-2}, c.m)
		require.NoError(t, err)
		require.Greater(t, results[0].Iterations, 10, name)
		require.LessOrEqual(t, results[1].Iterations, 2, name)
	}

	// An error ends the path. Path returns the results so far, and the method forgets the dual
	// variable.
	m := &splitting.DavisYin{}
	first, err := splitting.Solve(background, boxes[0], make([]float64, d), nil, m)
	require.NoError(t, err)
	bad := []splitting.Problem{boxes[0], boxes[1], {F: lasso, K: k}}
	results, err := splitting.Path(background, bad, make([]float64, d), nil, m)
	require.ErrorIs(t, err, splitting.ErrProblem)
	require.ErrorContains(t, err, "problem 2 of the path")
	require.Len(t, results, 2)
	again, err := splitting.Solve(background, boxes[0], make([]float64, d), nil, m)
	require.NoError(t, err)
	require.Equal(t, first.X, again.X)
	ctx, cancel := context.WithCancel(background)
	cancel()
	results, err = splitting.Path(ctx, boxes, make([]float64, d), nil, m)
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, results, 1)
	empty, err := splitting.Path(background, nil, nil, nil, nil)
	require.NoError(t, err)
	require.Empty(t, fmt.Sprint(empty)[1:len(fmt.Sprint(empty))-1])
}
