// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

// TestProxNewtonOnABall checks that Newton's method on a ball finds the planted minimizer in fewer
// than 12 steps.
func TestProxNewtonOnABall(t *testing.T) {
	n := 0
	for _, p := range plantedProblems() {
		if _, ok := p.H.(prox.L2Ball); !ok || p.G != nil {
			continue
		}
		n++
		res, err := splitting.Solve(background, p.Problem, p.Start, &splitting.Settings{Tolerance: 1e-12 * p.Scale},
			&splitting.ProxNewton{})
		require.NoError(t, err)
		require.Equal(t, splitting.Converged, res.Status, p.Name)
		require.Less(t, res.Iterations, 12, p.Name)
		require.LessOrEqual(t, floats.Distance(res.X, p.Solution, 2), res.Residual/p.Mu+1e-14*p.Scale)
	}
	require.GreaterOrEqual(t, n, 2, "too few planted problems have a ball")
}

// TestProxNewtonOnBalls checks the optimality conditions, computed by the test, for balls of radius
// 1e-3 to 1e4, regular and singular quadratics, with and without a ridge.
func TestProxNewtonOnBalls(t *testing.T) {
	const d = 7
	r := rand.New(rand.NewPCG(77, 1))
	for _, rank := range []int{d, 3} { // with rank 3 the matrix is singular
		g := mat.NewDense(d, rank, nil)
		lin := make([]float64, d)
		for i := range d {
			lin[i] = r.NormFloat64()
			for j := range rank {
				g.Set(i, j, r.NormFloat64()*math.Pow(10, float64(-j)))
			}
		}
		q := mat.NewSymDense(d, nil)
		q.SymOuterK(1, g)
		f, err := splitting.NewQuadratic(q, lin, 0)
		require.NoError(t, err)
		for _, radius := range []float64{1e-3, 0.5, 30, 1e4} {
			for _, ridge := range []float64{0, 0.1} {
				p := splitting.Problem{F: f, H: prox.L2Ball{R: radius}}
				if ridge > 0 {
					p.G = prox.SquaredL2{Weight: ridge}
				}
				res, err := splitting.Solve(background, p, make([]float64, d), &splitting.Settings{Tolerance: -1, Iterations: 200},
					&splitting.ProxNewton{})
				require.NoError(t, err)
				x, v := res.X, make([]float64, d)
				f.Grad(v, x)
				floats.AddScaled(v, ridge, x)
				size := floats.Norm(lin, 2) + mat.Norm(q, 2)*floats.Norm(x, 2)
				require.LessOrEqual(t, floats.Norm(x, 2), radius*(1+1e-14))
				if floats.Norm(x, 2) > radius*(1-1e-13) { // on the sphere −v = cx with c ≥ 0
					c := -floats.Dot(v, x) / floats.Dot(x, x)
					require.GreaterOrEqual(t, c, -1e-12*size/radius)
					floats.AddScaled(v, c, x)
				}
				require.LessOrEqual(t, floats.Norm(v, 2), 1e-10*size, "rank %d, R = %v, ridge %v: %v after %d", rank, radius,
					ridge, res.Status,
					res.Iterations)
			}
		}
	}
}
