// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

func logisticSlope(u, b float64) (v, d, d2 float64) {
	b = math.Copysign(1, b)
	p := 1 / (1 + math.Exp(b*u))
	return math.Log1p(math.Exp(-math.Abs(u))) + math.Max(-b*u, 0), -b * p, p * (1 - p)
}

// gradientAt returns ‖∇f(x) + wx‖.
func gradientAt(f splitting.Smooth, w float64, x []float64) float64 {
	g := make([]float64, len(x))
	f.Grad(g, x)
	floats.AddScaled(g, w, x)
	return floats.Norm(g, 2)
}

// TestLBFGS checks that the residual is the norm of the gradient at X, that X agrees with
// ProxNewton, and that badly conditioned problems need fewer than 600 gradients.
func TestLBFGS(t *testing.T) {
	for _, s := range [][2]int{{200, 3}, {400, 60}, {300, 300}} {
		n, d := s[0], s[1]
		f := newGLM(n, d, 1e-3, 0.25, logisticSlope)
		for j := range d { // the scales of the columns vary over three decades
			for i := range n {
				f.a.Set(i, j, f.a.At(i, j)*math.Pow(10, -3*float64(j)/float64(d)))
			}
		}
		p := splitting.Problem{F: f, G: prox.SquaredL2{Weight: 1e-3}}
		x0 := make([]float64, d)
		x0[0] = 1
		kept := slices.Clone(x0)
		tol := 1e-9 * gradientAt(f, 1e-3, x0)
		res, err := splitting.Solve(background, p, x0, &splitting.Settings{Tolerance: tol}, &splitting.LBFGS{})
		require.NoError(t, err)
		require.NoError(t, res.Status.Err())
		require.Equal(t, kept, x0)
		require.InDelta(t, gradientAt(f, 1e-3, res.X), res.Residual, 1e-3*tol)
		require.LessOrEqual(t, res.Residual, tol)
		newton, err := splitting.Solve(background, p, x0, &splitting.Settings{Tolerance: tol}, &splitting.ProxNewton{})
		require.NoError(t, err)
		require.InDeltaSlice(t, newton.X, res.X, 2*tol/2e-3)
		require.Less(t, res.GradTerms, 600*n)
		again, err := splitting.Solve(background, p, x0, &splitting.Settings{Tolerance: tol}, &splitting.LBFGS{})
		require.NoError(t, err)
		require.Equal(t, res.X, again.X)
	}
}

// TestLBFGSStalls checks that a quadratic is solved to rounding, and that the method then reports
// Stalled.
func TestLBFGSStalls(t *testing.T) {
	const d = 50
	diag := make([]float64, d)
	lin := make([]float64, d)
	for i := range diag {
		diag[i], lin[i] = math.Pow(10, 4*float64(i)/d), 1
	}
	q := mat.NewSymDense(d, nil)
	for i, v := range diag {
		q.SetSym(i, i, v)
	}
	f, err := splitting.NewQuadratic(q, lin, 3)
	require.NoError(t, err)
	res, err := splitting.Solve(background, splitting.Problem{F: f}, make([]float64, d),
		&splitting.Settings{Tolerance: -1, Iterations: 100000}, &splitting.LBFGS{})
	require.NoError(t, err)
	require.Equal(t, splitting.Stalled, res.Status)
	for i, v := range res.X {
		require.InDelta(t, 1/diag[i], v, 1e-10)
	}
	res, err = splitting.Solve(background, splitting.Problem{F: f}, res.X, &splitting.Settings{Iterations: 3},
		&splitting.LBFGS{})
	require.NoError(t, err)
	require.Less(t, res.Residual, 1e-8)
}

func TestLBFGSRefuses(t *testing.T) {
	f := newGLM(3, 1, 1, 1, square)
	for _, p := range []splitting.Problem{
		{F: f, G: prox.L1{Weight: 1}}, {F: f, H: prox.Box{Lo: -1, Hi: 1}}, {F: f, G: prox.SquaredL2{Weight: 1},
			H: prox.L2Ball{R: 1}},
	} {
		_, err := splitting.Solve(background, p, []float64{0}, nil, &splitting.LBFGS{})
		require.ErrorIs(t, err, splitting.ErrProblem)
	}
	_, err := splitting.Solve(background, splitting.Problem{F: f}, []float64{0}, nil, &splitting.LBFGS{Memory: -1})
	require.ErrorIs(t, err, splitting.ErrSettings)
	require.ErrorContains(t, err, "Memory = -1")
}

func BenchmarkLBFGS(b *testing.B) {
	f := newGLM(500, 2100, 1e-3, 0.25, logisticSlope)
	p := splitting.Problem{F: f, G: prox.SquaredL2{Weight: 100}}
	x0 := make([]float64, 2100)
	tol := 1e-8 * gradientAt(f, 100, x0)
	for _, m := range []splitting.Method{&splitting.LBFGS{}, &splitting.ForwardBackward{}} {
		b.Run(fmt.Sprintf("method=%T/n=500/d=2100", m)[len("method=*"):], func(b *testing.B) {
			b.ReportAllocs()
			terms := 0
			for b.Loop() {
				res, err := splitting.Solve(background, p, x0, &splitting.Settings{Tolerance: tol}, m)
				require.NoError(b, err)
				terms += res.GradTerms
			}
			b.ReportMetric(float64(terms)/float64(b.N), "gradients/op")
		})
	}
}

// TestLBFGSUnbounded checks objectives without a minimum, in several units, with and without a
// known L_f, and one whose infimum is not attained, which is no such objective.
func TestLBFGSUnbounded(t *testing.T) {
	for _, unit := range []float64{1e-12, 1, 1e12} {
		for _, lip := range []float64{0, 2 * unit} {
			f := splitting.Funcs{
				F: func(x []float64) float64 { return unit * (x[1]*x[1] - x[0]) },
				G: func(dst, x []float64) { dst[0], dst[1] = -unit, 2*unit*x[1] },
				L: lip,
			}
			res, err := splitting.Solve(background, splitting.Problem{F: f}, []float64{1, 3}, nil, &splitting.LBFGS{})
			require.ErrorIs(t, err, splitting.ErrUnbounded, "unit %v, L %v", unit, lip)
			require.Equal(t, splitting.Unbounded, res.Status)
			require.Less(t, res.Value, -1e50*unit)
		}
	}
	soft := splitting.Funcs{
		F: func(x []float64) float64 { return math.Log1p(math.Exp(-x[0])) },
		G: func(dst, x []float64) { dst[0] = -1 / (1 + math.Exp(x[0])) },
		L: 0.25,
	}
	res, err := splitting.Solve(background, splitting.Problem{F: soft}, []float64{1}, nil, &splitting.LBFGS{})
	require.NoError(t, err)
	require.NotEqual(t, splitting.Unbounded, res.Status)
}
