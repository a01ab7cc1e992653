// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"

	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

// dense returns the matrix of K, column by column.
func dense(k splitting.Linear) *mat.Dense {
	m, d := k.Dims()
	a := mat.NewDense(m, d, nil)
	e, col := make([]float64, d), make([]float64, m)
	for j := range d {
		clear(e)
		e[j] = 1
		k.MulVec(col, e)
		a.SetCol(j, col)
	}
	return a
}

// TestLinear checks for every map that it is linear, that MulTrans is its transpose, and that Norm
// is an upper bound, sharp where its documentation says so.
func TestLinear(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dim := rapid.IntRange(2, 6).Draw(t, "dim")
		index := rapid.IntRange(0, dim-1)
		var all []splitting.Linear
		m := rapid.IntRange(1, 6).Draw(t, "rows")
		a, err := splitting.NewMatrix(mat.NewDense(m, dim, rapid.SliceOfN(rapid.Float64Range(-2, 2), m*dim, m*dim).Draw(t,
			"a")))
		require.NoError(t, err)
		s, err := splitting.NewSelection(rapid.SliceOfN(index, 1, 8).Draw(t, "index"), dim)
		require.NoError(t, err)
		var edges [][2]int
		for range rapid.IntRange(1, 8).Draw(t, "edges") {
			a := index.Draw(t, "from")
			edges = append(edges, [2]int{a, (a + rapid.IntRange(1, dim-1).Draw(t, "to")) % dim})
		}
		g, err := splitting.NewDifferences(edges, dim)
		require.NoError(t, err)
		for i, k := range append(all, a, s, g) {
			full := dense(k)
			rows, cols := k.Dims()
			var svd mat.SVD
			require.True(t, svd.Factorize(full, mat.SVDNone))
			norm := svd.Values(nil)[0]
			require.GreaterOrEqual(t, k.Norm()*(1+1e-14), norm, "%T", k)
			if i < 2 {
				require.LessOrEqual(t, k.Norm(), norm*(1+1e-12)+1e-12, "%T is tight", k)
			}
			x := rapid.SliceOfN(rapid.Float64Range(-3, 3), cols, cols).Draw(t, "x")
			y := rapid.SliceOfN(rapid.Float64Range(-3, 3), rows, rows).Draw(t, "y")
			kx, ky := make([]float64, rows), make([]float64, cols)
			k.MulVec(kx, x)
			k.MulVecTrans(ky, y)
			want := mat.NewVecDense(rows, nil)
			want.MulVec(full, mat.NewVecDense(cols, x))
			require.InDeltaSlice(t, want.RawVector().Data, kx, 1e-12)
			require.InDelta(t, floats.Dot(kx, y), floats.Dot(x, ky), 1e-11, "%T: ⟨Kx,y⟩ = ⟨x,Kᵀy⟩", k)
			require.Panics(t, func() { k.MulVec(kx, make([]float64, cols+1)) })
			require.Panics(t, func() { k.MulVecTrans(ky, make([]float64, rows+1)) })
		}
	})
}

func TestLinearRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		f    func() error
		text string
	}{
		"nil":   {func() error { _, err := splitting.NewMatrix(nil); return err }, "identity"},
		"empty": {func() error { _, err := splitting.NewMatrix(&mat.Dense{}); return err }, "0×0"},
		"NaN": {func() error { _, err := splitting.NewMatrix(mat.NewDense(1, 1, []float64{math.NaN()})); return err },
			"finite"},
		"overflow": {func() error { _, err := splitting.NewMatrix(mat.NewDense(1, 1, []float64{1e200})); return err },
			"finite"},
		"none":    {func() error { _, err := splitting.NewSelection(nil, 3); return err }, "no index"},
		"outside": {func() error { _, err := splitting.NewSelection([]int{0, 3}, 3); return err }, "Index[1] = 3"},
		"no edge": {func() error { _, err := splitting.NewDifferences(nil, 3); return err }, "no edge"},
		"loop":    {func() error { _, err := splitting.NewDifferences([][2]int{{1, 1}}, 3); return err }, "loop"},
		"far":     {func() error { _, err := splitting.NewDifferences([][2]int{{1, -1}}, 3); return err }, "index -1"},
	} {
		err := c.f()
		require.ErrorIs(t, err, splitting.ErrProblem, name)
		require.ErrorContains(t, err, c.text, name)
	}
	q, err := splitting.NewQuadratic(mat.NewSymDense(1, []float64{1}), nil, 0)
	require.NoError(t, err)
	k, err := splitting.NewSelection([]int{0, 0}, 1)
	require.NoError(t, err)
	_, err = splitting.Solve(background, splitting.Problem{F: q, K: k}, []float64{1, 2}, nil, &splitting.PrimalDual{})
	require.ErrorIs(t, err, splitting.ErrProblem)
	_, err = splitting.Solve(background, splitting.Problem{F: q, K: endless{k}}, []float64{1}, nil,
		&splitting.PrimalDual{})
	require.ErrorContains(t, err, "K.Norm() = +Inf")
	group := prox.GroupL2{Groups: [][]int{{0, 2}}, Weight: 1}
	_, err = splitting.Solve(background, splitting.Problem{F: q, H: group, K: k}, []float64{1}, nil,
		&splitting.PrimalDual{})
	require.ErrorIs(t, err, prox.ErrParameter, "H is checked in the dimension of Kx")
}

type endless struct{ splitting.Linear }

func (endless) Norm() float64 { return math.Inf(1) }

// TestOverlapBySelection solves a problem with groups of which three overlap, so that two functions
// with disjoint groups cannot represent them. A Selection K copies the coordinates of each group to
// places of their own. The reference splits the groups into three pieces and applies Dykstra's
// method.
func TestOverlapBySelection(t *testing.T) {
	groups := [][]int{{0, 1, 2, 3}, {2, 3, 4}, {3, 4, 5, 0}}
	pieces := prox.SplitGroups(prox.GroupL2{Groups: groups, Weight: 0.7})
	require.Len(t, pieces, 3)
	b := []float64{1, -2, 0.5, 3, -0.1, 0.2}
	var index []int
	var apart [][]int
	for _, g := range groups {
		var at []int
		for _, i := range g {
			at = append(at, len(index))
			index = append(index, i)
		}
		apart = append(apart, at)
	}
	k, err := splitting.NewSelection(index, 6)
	require.NoError(t, err)
	q := mat.NewSymDense(6, nil)
	for i := range 6 {
		q.SetSym(i, i, 1)
	}
	f, err := splitting.NewQuadratic(q, b, 0)
	require.NoError(t, err)
	p := splitting.Problem{F: f, H: prox.GroupL2{Groups: apart, Weight: 0.7}, K: k}
	// The gap is a difference of numbers of size 10.
	res, err := splitting.Minimize(background, p, make([]float64, 6), &splitting.Settings{Tolerance: 1e-6})
	require.NoError(t, err)
	require.Equal(t, splitting.Converged, res.Status)

	// The proximal map of a sum of three functions at b, by [BC17, Thm. 30.7, cyclic].
	x, corr := append([]float64(nil), b...), make([][]float64, 3)
	for k := range corr {
		corr[k] = make([]float64, 6)
	}
	for range 20000 {
		for k, g := range pieces {
			y := make([]float64, 6)
			floats.AddTo(y, x, corr[k])
			g.Prox(x, y, 1)
			floats.SubTo(corr[k], y, x)
		}
	}
	require.LessOrEqual(t, floats.Distance(res.X, x, 2), res.Distance+1e-9)
	require.InDelta(t, p.Func(x), p.Func(res.X), 1e-12)
}

// TestSearchAffine checks line searches on an affine F. F has no curvature, but steps must not grow
// to infinity.
func TestSearchAffine(t *testing.T) {
	f, err := splitting.NewQuadratic(mat.NewSymDense(2, nil), []float64{1, -2}, 0)
	require.NoError(t, err)
	p := splitting.Problem{F: f, H: prox.Box{Lo: -1, Hi: 3}}
	for _, m := range []splitting.Method{
		&splitting.DavisYin{Rule: splitting.LineSearch}, &splitting.ForwardBackward{Rule: splitting.LineSearch},
		&splitting.ForwardBackward{Rule: splitting.LineSearch, Plain: true},
	} {
		res, err := splitting.Solve(background, p, []float64{0, 0}, &splitting.Settings{Tolerance: -1, Iterations: 50_000}, m)
		require.NoError(t, err)
		require.Equal(t, []float64{3, -1}, res.X)
		require.Less(t, res.Residual, 1e-9)
		// Without the box the problem is unbounded below, so that the solve ends at a limit.
		p := splitting.Problem{F: f}
		res, err = splitting.Solve(background, p, []float64{0, 0}, &splitting.Settings{Tolerance: -1, Iterations: 50_000}, m)
		require.NoError(t, err)
		require.Equal(t, splitting.IterationLimit, res.Status)
	}
}

// TestWithoutF checks that PrimalDual and DavisYin agree on two functions without
// a closed-form sum and without F.
func TestWithoutF(t *testing.T) {
	g := prox.Translate(prox.SquaredL2{Weight: 1}, []float64{0.9, 0.4, -0.3})
	h := prox.Simplex{Total: 1}
	p := splitting.Problem{G: prox.L2Norm{Weight: 0.3}, H: h}
	q := splitting.Problem{G: g, H: h}
	for name, m := range map[string]splitting.Method{
		"DY": &splitting.DavisYin{StepSize: 1}, "CP": &splitting.PrimalDual{}, "CP steps": &splitting.PrimalDual{Tau: 2},
	} {
		res, err := splitting.Solve(background, p, []float64{1, 0, 0}, nil, m)
		require.NoError(t, err, name)
		require.InDeltaSlice(t, []float64{1. / 3, 1. / 3, 1. / 3}, res.X, 1e-7, name)
		res, err = splitting.Solve(background, q, []float64{1, 0, 0}, nil, m)
		require.NoError(t, err, name)
		require.InDeltaSlice(t, []float64{0.75, 0.25, 0}, res.X, 1e-7, name)
	}
}

// TestPrimalDualEasyF checks the default steps of PrimalDual on total variation over a grid. With σ
// = L_f/(2‖K‖²) the residual after 1000 steps would be 0.3.
func TestPrimalDualEasyF(t *testing.T) {
	const side = 12
	var edges [][2]int
	image := make(distance, side*side)
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range side {
		for j := range side {
			at := side*i + j
			if i+1 < side {
				edges = append(edges, [2]int{at, at + side})
			}
			if j+1 < side {
				edges = append(edges, [2]int{at, at + 1})
			}
			image[at] = 0.2 * rnd.NormFloat64()
			if i > 4 && j > 6 {
				image[at] += 2
			}
		}
	}
	k, err := splitting.NewDifferences(edges, len(image))
	require.NoError(t, err)
	p := splitting.Problem{F: image, G: prox.NonNegative{}, H: prox.L1{Weight: 0.3}, K: k}
	res, err := splitting.Solve(background, p, make([]float64, len(image)),
		&splitting.Settings{Tolerance: 1e-5, Iterations: 1000},
		&splitting.PrimalDual{})
	require.NoError(t, err)
	require.Equal(t, splitting.Converged, res.Status, "residual %g", res.Residual)
}
