// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

// TestCoordinateDescentSingular checks that coordinate descent converges, on residuals and on Q,
// for least squares with fewer equations than unknowns, equal or zero columns and tiny penalties.
// Sweeps alone would need up to 1e5 rounds here, or alternate for ever between pieces (the regions
// on which J is quadratic).
func TestCoordinateDescentSingular(t *testing.T) {
	columns := map[string]func(r *rand.Rand, a *mat.Dense, i, j int) float64{
		"normal": func(r *rand.Rand, _ *mat.Dense, _, _ int) float64 { return r.NormFloat64() },
		"0/1":    func(r *rand.Rand, _ *mat.Dense, _, _ int) float64 { return float64(r.IntN(2)) },
		"equal": func(r *rand.Rand, a *mat.Dense, i, j int) float64 {
			if j < 2 {
				return r.NormFloat64()
			}
			return a.At(i, j/2)
		},
		"zero": func(r *rand.Rand, _ *mat.Dense, _, j int) float64 {
			if j%3 == 0 {
				return 0
			}
			return r.NormFloat64()
		},
	}
	penalties := map[string]splitting.Problem{
		"none":        {},
		"l1":          {G: prox.L1{Weight: 0.3}},
		"tiny l1":     {G: prox.L1{Weight: 1e-6}},
		"elastic net": {G: prox.ElasticNet{L1: 0.3, L2: 1e-4}},
		"l1+box":      {G: prox.L1{Weight: 1e-3}, H: prox.Box{Lo: -1, Hi: 1}},
		"away":        {G: prox.L1{Weight: 0.3}, H: prox.Box{Lo: 0.25, Hi: 1}}, // 0 is outside the box
		"nonnegative": {H: prox.NonNegative{}},
	}
	for shape, column := range columns {
		for penalty, p := range penalties {
			t.Run(fmt.Sprintf("%s/%s", shape, penalty), func(t *testing.T) {
				for seed := range uint64(8) {
					r := rand.New(rand.NewPCG(seed, 5))
					n, d := 2+r.IntN(25), 2+r.IntN(38)
					a, y, x0 := mat.NewDense(n, d, nil), make([]float64, n), make([]float64, d)
					for j := range d {
						for i := range n {
							a.Set(i, j, 4*column(r, a, i, j))
						}
						x0[j] = r.NormFloat64()
					}
					for i := range y {
						y[i] = 3 * r.NormFloat64()
					}
					f, err := splitting.NewLeastSquares(a, y)
					require.NoError(t, err)
					for _, p.F = range []splitting.Smooth{f, gram{f, a, y}} {
						// The tolerance is ten decades below the gradient at 0.
						s := &splitting.Settings{Iterations: 1000, Tolerance: 1e-10 * mat.Norm(a, 2) * floats.Norm(y, 2)}
						res, err := splitting.Solve(background, p, x0, s, &splitting.CoordinateDescent{})
						require.NoError(t, err)
						require.Equal(t, splitting.Converged, res.Status, "seed %d, %T: residual %g, want %g", seed, p.F, res.Residual,
							s.Tolerance)
						psi, _ := sumOf(p.G, p.H)
						g := make([]float64, d)
						f.Grad(g, res.X)
						require.LessOrEqual(t, psi.(prox.Subdifferential).Dist(res.X, g), 1.1*s.Tolerance)
					}
				}
			})
		}
	}
}

// TestCoordinateDescentUnseen checks that a coordinate on which f does not depend becomes the
// number of least absolute value in its box.
func TestCoordinateDescentUnseen(t *testing.T) {
	q, err := splitting.NewQuadratic(mat.NewSymDense(3, []float64{0, 0, 0, 0, 1, 0, 0, 0, 0}), []float64{0.5, 1, 0}, 0)
	require.NoError(t, err)
	for _, c := range []struct {
		h    prox.Operator
		want []float64
	}{
		{nil, []float64{0, 0, 0}},
		{prox.Box{Lo: -2, Hi: 3}, []float64{0, 0, 0}},
		{prox.Box{Lo: 2, Hi: 3}, []float64{2, 2, 2}},
	} {
		res, err := splitting.Minimize(background, splitting.Problem{F: q, G: prox.L1{Weight: 1}, H: c.h},
			[]float64{5, -4, 7}, nil)
		require.NoError(t, err)
		require.Equal(t, splitting.Converged, res.Status)
		require.Equal(t, c.want, res.X)
	}
}

// TestLeastSquaresGapRounding checks that the gap is an upper bound even where rounding would make
// the computed difference negative, and +Inf where numbers overflow, because +Inf − +Inf proves
// nothing.
func TestLeastSquaresGapRounding(t *testing.T) {
	inf := math.Inf(1)
	huge, err := splitting.NewLeastSquares(mat.NewDense(2, 1, []float64{1e200, 1e200}), []float64{1, 1})
	require.NoError(t, err)
	for _, g := range []prox.Operator{nil, prox.L1{Weight: 1}, prox.SquaredL2{Weight: 1}} {
		for _, h := range []prox.Operator{nil, prox.NonNegative{}, prox.Box{Lo: -2, Hi: inf}, prox.Box{Lo: -inf, Hi: 1e300}} {
			for _, x := range []float64{1, 1e200, math.NaN()} {
				require.Equal(t, inf, huge.Gap([]float64{x}, g, h), "%v + %v at %v", g, h, x)
			}
		}
	}

	// The minimizer of ½(ax − y)² + |x| is x* = (ay − 1)/a². At a relative distance e from x* the gap
	// is (ax*)²e²/2, which float64 cannot resolve for e = 1e-9.
	for _, a := range []float64{3, 5, 7, 11} {
		f, err := splitting.NewLeastSquares(mat.NewDense(1, 1, []float64{a}), []float64{1})
		require.NoError(t, err)
		star := (a - 1) / (a * a)
		for _, e := range []float64{1e-9, -1e-9, 1e-12, -1e-12, 1e-15, -1e-15} {
			gap := f.Gap([]float64{star * (1 + e)}, prox.L1{Weight: 1}, nil)
			require.GreaterOrEqual(t, gap, 0.9*a*a*star*star*e*e/2, "a = %v, e = %v", a, e)
			require.LessOrEqual(t, gap, 1e-8, "the gap must be at most |e|·|x*| plus rounding")
		}
	}
}

// TestCoordinateDescentGapNaN checks that the gap is +Inf, not NaN, where numbers overflow.
func TestCoordinateDescentGapNaN(t *testing.T) {
	a, y := mat.NewDense(2, 1, []float64{1e200, 1e200}), []float64{1e200, 1}
	f, err := splitting.NewLeastSquares(a, y)
	require.NoError(t, err)
	for _, smooth := range []splitting.Smooth{f, gram{f, a, y}} {
		for _, h := range []prox.Operator{nil, prox.Box{Lo: 1, Hi: 2}} {
			p := splitting.Problem{F: smooth, G: prox.L1{Weight: 1}, H: h}
			for k := 1; k <= 3; k++ {
				res, _ := splitting.Solve(background, p, []float64{1}, &splitting.Settings{Iterations: k, Tolerance: -1},
					&splitting.CoordinateDescent{})
				require.True(t, math.IsInf(res.Gap, 1), "%v", res.Gap)
			}
		}
	}
}
