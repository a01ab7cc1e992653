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

// randomRows returns n rows of d normal numbers, and n labels.
func randomRows(n, d int) (*mat.Dense, []float64) {
	r := rand.New(rand.NewPCG(uint64(n), uint64(d)))
	a, y := mat.NewDense(n, d, nil), make([]float64, n)
	for i := range n {
		for j := range d {
			a.Set(i, j, r.NormFloat64())
		}
		y[i] = 2 * r.NormFloat64()
	}
	return a, y
}

// abilities lists the optional interfaces that the linear models implement.
type abilities interface {
	splitting.FiniteSum
	splitting.TermSmoother
	splitting.FuncGrader
	splitting.Hessianer
}

// TestLinearModel compares values, gradients and Hessians with glm, which sums scalar losses term
// by term.
func TestLinearModel(t *testing.T) {
	// The last shape has more rows than a block.
	for _, shape := range [][2]int{{40, 7}, {5, 9}, {9000, 4}} {
		n, d := shape[0], shape[1]
		a, y := randomRows(n, d)
		logit, err := splitting.NewLogistic(a, y)
		require.NoError(t, err)
		robust, err := splitting.NewHuber(a, y, 0.7)
		require.NoError(t, err)
		for name, c := range map[string]struct {
			f   abilities
			ref *glm
		}{
			"logistic": {logit, &glm{a: a, b: y, phi: logistic, curve: 0.25}},
			"huber":    {robust, &glm{a: a, b: y, phi: huber(0.7), curve: 1}},
		} {
			x, g, want := make([]float64, d), make([]float64, d), make([]float64, d)
			for j := range x {
				x[j] = math.Cos(float64(j))
			}
			size := float64(n) * 10
			require.InDelta(t, c.ref.Func(x), c.f.Func(x), 1e-15*size, name)
			c.ref.Grad(want, x)
			c.f.Grad(g, x)
			require.InDeltaSlice(t, want, g, 1e-15*size, name)
			require.Equal(t, c.f.Func(x), c.f.FuncGrad(g, x), name)
			all := make([]int, c.f.Len())
			for i := range all {
				all[i] = i
			}
			c.f.GradTerms(g, x, all)
			require.InDeltaSlice(t, want, g, 1e-15*size, name)
			h, wantH := mat.NewSymDense(d, nil), mat.NewSymDense(d, nil)
			c.f.Hessian(h, x)
			c.ref.Hessian(wantH, x)
			require.True(t, mat.EqualApprox(wantH, h, 1e-15*size), name)
			var svd mat.SVD
			require.True(t, svd.Factorize(a, mat.SVDNone))
			top := svd.Values(nil)[0]
			require.InEpsilon(t, c.ref.curve*top*top, c.f.Smoothness(), 1e-6, name)
			require.GreaterOrEqual(t, c.f.Smoothness(), c.ref.curve*top*top*(1-1e-12), name)
			longest := 0.0
			for i := range n {
				longest = max(longest, floats.Dot(a.RawRowView(i), a.RawRowView(i)))
			}
			require.InEpsilon(t, c.ref.curve*longest, c.f.TermSmoothness(), 1e-12, name)
			require.Zero(t, testing.AllocsPerRun(20, func() {
				c.f.FuncGrad(g, x)
				c.f.Hessian(h, x)
				c.f.GradTerms(g, x,
					all[:2])
			}), name)
		}
	}
}

// TestLinearModelIsSolvedByNewton checks that Minimize uses the Hessian of a logistic regression
// and so needs few Newton steps.
func TestLinearModelIsSolvedByNewton(t *testing.T) {
	a, y := randomRows(300, 12)
	f, err := splitting.NewLogistic(a, y)
	require.NoError(t, err)
	p := splitting.Problem{F: f, G: prox.SquaredL2{Weight: 1}}
	require.IsType(t, &splitting.ProxNewton{}, splitting.Auto(p, 12))
	res, err := splitting.Minimize(background, p, make([]float64, 12), &splitting.Settings{Tolerance: 1e-9})
	require.NoError(t, err)
	require.Equal(t, splitting.Converged, res.Status)
	require.LessOrEqual(t, res.Iterations, 10)
	require.LessOrEqual(t, res.Distance, 1e-9, "the ridge must count in the modulus of J")
	svrg, err := splitting.Solve(background, p, make([]float64, 12), &splitting.Settings{Tolerance: 1e-7},
		&splitting.StochasticTOS{SVRG: true})
	require.NoError(t, err)
	require.LessOrEqual(t, floats.Distance(res.X, svrg.X, 2), svrg.Distance+res.Distance)
}

func TestLinearModelRefuses(t *testing.T) {
	a, y := randomRows(3, 2)
	bad := mat.NewDense(3, 2, []float64{1, 2, math.NaN(), 4, 5, 6})
	for _, call := range []func() (*splitting.LinearModel, error){
		func() (*splitting.LinearModel, error) { return splitting.NewLogistic(nil, y) },
		func() (*splitting.LinearModel, error) { return splitting.NewLogistic(a, y[:2]) },
		func() (*splitting.LinearModel, error) { return splitting.NewLogistic(bad, y) },
		func() (*splitting.LinearModel, error) { return splitting.NewLogistic(&mat.Dense{}, nil) },
		func() (*splitting.LinearModel, error) { return splitting.NewHuber(a, []float64{1, 2, math.Inf(1)}, 1) },
		func() (*splitting.LinearModel, error) { return splitting.NewHuber(a, y, 0) },
		func() (*splitting.LinearModel, error) { return splitting.NewHuber(a, y, math.Inf(1)) },
	} {
		f, err := call()
		require.Nil(t, f)
		require.ErrorIs(t, err, splitting.ErrProblem)
	}
}

// TestLeastSquaresConvexity checks that the modulus of least squares is a lower bound on σ_min²,
// and a close one where rounding does not hide the eigenvalue.
func TestLeastSquaresConvexity(t *testing.T) {
	for _, least := range []float64{0.25, 1e-3, 1e-6, 1e-9} {
		const n, d = 30, 5
		a, y := randomRows(n, d)
		var svd mat.SVD
		require.True(t, svd.Factorize(a, mat.SVDThin))
		var u, v, scaled, b mat.Dense
		svd.UTo(&u)
		svd.VTo(&v)
		scaled.Mul(&u, mat.NewDiagDense(d, []float64{1, 0.9, 0.8, 0.7, least}))
		b.Mul(&scaled, v.T())
		f, err := splitting.NewLeastSquares(&b, y)
		require.NoError(t, err)
		require.LessOrEqual(t, f.Convexity(), least*least*(1+1e-6))
		if least >= 1e-3 {
			require.GreaterOrEqual(t, f.Convexity(), least*least*(1-1e-2), "σ_min = %v", least)
		}
	}
	wide, y := randomRows(3, 5)
	f, err := splitting.NewLeastSquares(wide, y)
	require.NoError(t, err)
	require.Zero(t, f.Convexity(), "fewer equations than unknowns")
	f, err = splitting.NewLeastSquares(mat.NewDense(3, 2, []float64{1, 1, 2, 2, 3, 3}), y)
	require.NoError(t, err)
	require.Zero(t, f.Convexity(), "equal columns")
}

// TestWeightsAndOffsets compares a model with weights and offsets with the one whose rows are
// repeated and whose labels are shifted.
func TestWeightsAndOffsets(t *testing.T) {
	const n, d = 12, 3
	a, y := randomRows(n, d)
	w, o := make([]float64, n), make([]float64, n)
	var rows, labels []float64
	for i := range n {
		w[i], o[i] = float64(i%3), math.Sin(float64(i))
		for range i % 3 {
			rows = append(rows, a.RawRowView(i)...)
			labels = append(labels, y[i]-o[i])
		}
	}
	b := mat.NewDense(len(labels), d, rows)
	f, err := splitting.NewLeastSquares(a, y)
	require.NoError(t, err)
	f, err = f.With(w, o)
	require.NoError(t, err)
	g, err := splitting.NewLeastSquares(b, labels)
	require.NoError(t, err)
	x := []float64{0.3, -1, 2}
	require.InEpsilon(t, g.Func(x), f.Func(x), 1e-13)
	u, v := make([]float64, d), make([]float64, d)
	f.Grad(u, x)
	g.Grad(v, x)
	require.InDeltaSlice(t, v, u, 1e-12)
	require.InEpsilon(t, g.Smoothness(), f.Smoothness(), 1e-12)
	require.InEpsilon(t, g.Convexity(), f.Convexity(), 1e-12)
	p := splitting.Problem{F: f, G: prox.L1{Weight: 2}}
	res, err := splitting.Minimize(background, p, make([]float64, d), nil)
	require.NoError(t, err)
	p.F = g
	twice, err := splitting.Minimize(background, p, make([]float64, d), nil)
	require.NoError(t, err)
	require.InDeltaSlice(t, twice.X, res.X, 1e-9)
	require.InEpsilon(t, twice.Value, res.Value, 1e-12)
	require.Less(t, res.Gap, 1e-6)
	for _, bad := range [][]float64{{1}, append([]float64{-1}, w[1:]...), append([]float64{math.NaN()}, w[1:]...)} {
		_, err = f.With(bad, nil)
		require.ErrorIs(t, err, splitting.ErrProblem)
	}
}
