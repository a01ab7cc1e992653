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

// TestBalls checks the optimality conditions, computed by the test, for balls of radius
// 1e-3 to 1e4, regular and singular quadratics, with and without a ridge.
func TestBalls(t *testing.T) {
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
				res, err := splitting.Minimize(background, p, make([]float64, d), &splitting.Settings{Tolerance: -1})
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
