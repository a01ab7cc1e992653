// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/diff/fd"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

// TestCalculusOfSmooth checks values, gradients, Hessians, terms and coefficients of combinations
// against differences, sums and each other.
func TestCalculusOfSmooth(t *testing.T) {
	const n, d = 12, 3
	r := rand.New(rand.NewPCG(3, 4))
	a, y := mat.NewDense(n, d, nil), make([]float64, n)
	a.Apply(func(_, _ int, _ float64) float64 { return r.NormFloat64() }, a)
	for i := range y {
		y[i] = r.NormFloat64()
	}
	logistic := must(splitting.NewLogistic(a, y))
	squares := must(splitting.NewLeastSquares(a, y))
	quadratic := must(splitting.NewQuadratic(mat.NewDiagDense(d, []float64{1, 2, 3}), []float64{1, 0, -1}, 2))
	c := []float64{0.5, -1, 2}
	for name, f := range map[string]splitting.Smooth{
		"mean":           must(splitting.Scaled(1./n, logistic)),
		"mean squares":   must(splitting.Scaled(1./n, squares)),
		"squares":        squares,
		"sum":            must(splitting.Plus(logistic, quadratic)),
		"tilted":         must(splitting.Tilted(logistic, c)),
		"two sums":       must(splitting.Plus(logistic, must(splitting.Scaled(3, squares)))),
		"tilted squares": must(splitting.Tilted(must(splitting.Plus(squares, quadratic)), c)),
	} {
		x, g, want := []float64{0.3, -0.2, 0.7}, make([]float64, d), make([]float64, d)
		f.Grad(g, x)
		require.InDeltaSlice(t, fd.Gradient(want, f.Func, x, &fd.Settings{Formula: fd.Central}), g, 1e-6, name)
		if both, ok := f.(splitting.FuncGrader); ok {
			require.InDelta(t, f.Func(x), both.FuncGrad(want, x), 1e-13, name)
			require.InDeltaSlice(t, g, want, 1e-13, name)
		}
		h := mat.NewSymDense(d, nil)
		f.(splitting.Hessianer).Hessian(h, x)
		for j := range x {
			at := func(step float64) []float64 {
				z, w := append([]float64(nil), x...), make([]float64, d)
				z[j] += step
				f.Grad(w, z)
				return w
			}
			up, down := at(1e-5), at(-1e-5)
			for i := range x {
				require.InDelta(t, (up[i]-down[i])/2e-5, h.At(i, j), 1e-6, name)
			}
		}
		require.GreaterOrEqual(t, f.Smoothness()*(1+1e-9), mat.Norm(h, 2)/math.Sqrt(d), name)
		if sum, ok := f.(splitting.FiniteSum); ok {
			all := make([]int, sum.Len())
			for i := range all {
				all[i] = i
			}
			sum.GradTerms(want, x, all)
			require.InDeltaSlice(t, g, want, 1e-12, name)
		} else {
			require.Contains(t, []string{"sum", "tilted squares"}, name)
		}
		quad, isQuad := f.(splitting.Quadratizer)
		if isQuad {
			var q *mat.SymDense
			var lin []float64
			var value float64
			if q, lin, value, isQuad = quad.Quadratic(); isQuad {
				v := mat.NewVecDense(d, x)
				require.InDelta(t, f.Func(x), mat.Inner(v, q, v)/2-floats.Dot(lin, x)+value, 1e-12, name)
			}
		}
		require.Equal(t, name == "mean squares" || name == "squares" || name == "tilted squares", isQuad, name)
		require.NotNil(t, must(splitting.Minimize(background, splitting.Problem{F: f, G: prox.L1{Weight: 0.1}}, x, nil)))
	}
	l1 := prox.L1{Weight: 0.1}
	require.IsType(t, &splitting.ProxNewton{}, splitting.Auto(splitting.Problem{F: must(splitting.Scaled(0.1, logistic)),
		G: l1}, d))
	require.IsType(t, &splitting.CoordinateDescent{}, splitting.Auto(splitting.Problem{F: must(splitting.Plus(quadratic,
		quadratic)), G: l1}, d))
	_, partial := must(splitting.Plus(logistic, splitting.Funcs{})).(interface{ HasHessian() bool })
	require.True(t, partial)
	require.IsType(t, &splitting.ForwardBackward{}, splitting.Auto(splitting.Problem{F: must(splitting.Plus(logistic,
		splitting.Funcs{})), G: l1}, d))
}

// TestFuncs minimizes a function of the caller's with and without L, and refuses bad parts.
func TestFuncs(t *testing.T) {
	f := splitting.Funcs{
		F: func(x []float64) float64 { return (x[0] - 3) * (x[0] - 3) },
		G: func(dst, x []float64) { dst[0] = 2 * (x[0] - 3) },
	}
	for _, l := range []float64{0, 2} {
		f.L = l
		res := must(splitting.Minimize(background, splitting.Problem{F: f, G: prox.Box{Lo: 0, Hi: 2}}, []float64{0}, nil))
		require.Equal(t, splitting.Converged, res.Status)
		require.InDelta(t, 2, res.X[0], 1e-8)
		require.InDelta(t, 2, res.Dual.G[0], 1e-8)
		require.InDelta(t, 1, res.Value, 1e-8)
	}
	for _, err := range []error{
		second(splitting.Scaled(0, f)), second(splitting.Scaled(math.NaN(), f)), second(splitting.Scaled(1, nil)),
		second(splitting.Plus()), second(splitting.Plus(f, nil)), second(splitting.Tilted(nil, nil)),
		second(splitting.Tilted(f, []float64{math.Inf(1)})),
	} {
		require.ErrorIs(t, err, splitting.ErrProblem)
	}
	_, err := splitting.Minimize(background, splitting.Problem{F: splitting.Funcs{}}, []float64{0}, nil)
	require.ErrorIs(t, err, splitting.ErrProblem)
}

func second[T any](_ T, err error) error { return err }
