// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package prox_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"

	"github.com/privopt/privopt/prox"
)

// spectral returns U·f(Σ)·Vᵀ of an m×n matrix from the eigenvectors of XᵀX. X must have full column
// rank. This computation shares nothing with a singular value decomposition.
func spectral(x []float64, m, n int, f func(float64) float64) []float64 {
	a := mat.NewDense(m, n, slices.Clone(x))
	var gram mat.SymDense
	gram.SymOuterK(1, a.T())
	var e mat.EigenSym
	e.Factorize(&gram, true)
	var v, p mat.Dense
	e.VectorsTo(&v)
	scale := make([]float64, n)
	for k, l := range e.Values(nil) {
		s := math.Sqrt(max(l, 0))
		scale[k] = f(s) / s
	}
	p.Product(a, &v, mat.NewDiagDense(n, scale), v.T())
	return p.RawMatrix().Data
}

// TestSpectralByGram compares maps based on the singular value decomposition with maps based on the
// eigenvalues of XᵀX, for wide and for tall matrices.
func TestSpectralByGram(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "n")
		m := n + rapid.IntRange(0, 3).Draw(t, "more")
		x := rapid.SliceOfN(rapid.Float64Range(-1, 1), m*n, m*n).Draw(t, "x")
		for i := range n {
			x[i*n+i] += 6 // columns are diagonally dominant, so that the rank is full and σ ≥ 1
		}
		w := rapid.Float64Range(0.01, 10).Draw(t, "w")
		var norm float64
		shrunk := spectral(x, m, n, func(s float64) float64 { norm += s; return max(s-w, 0) })
		clipped := spectral(x, m, n, func(s float64) float64 { return min(s, w) })
		nuclear, ball := prox.NuclearNorm{Rows: m, Cols: n, Weight: w}, prox.SpectralBall{Rows: m, Cols: n, R: w}
		require.InEpsilon(t, w*norm, nuclear.Func(x), 1e-12) // σ²/σ ≤ 12²/1
		require.InDeltaSlice(t, shrunk, apply(nuclear, x, 1), 1e-12)
		require.InDeltaSlice(t, clipped, apply(ball, x, 1), 1e-12)

		// The transpose gives the same results.
		xt := mat.DenseCopyOf(mat.NewDense(m, n, x).T()).RawMatrix().Data
		pt := mat.DenseCopyOf(mat.NewDense(m, n, shrunk).T()).RawMatrix().Data
		require.InDeltaSlice(t, pt, apply(prox.NuclearNorm{Rows: n, Cols: m, Weight: w}, xt, 1), 1e-12)
	})
}

// TestSpectralOfDiagonals checks that on diagonal matrices spectral functions equal functions of
// vectors.
func TestSpectralOfDiagonals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// No two values are so close that only rounding separates them.
		s := rapid.SliceOfN(rapid.SampledFrom([]float64{0, 1, -1, 2, 0.5, -0.3, 1.7, -2.5}), 4, 4).Draw(t, "s")
		v := ties(4).Draw(t, "v")
		diag := func(s []float64) []float64 {
			return mat.DenseCopyOf(mat.NewDiagDense(4, slices.Clone(s))).RawMatrix().Data
		}
		for _, pair := range [][2]prox.Subdifferential{
			{prox.L1{Weight: 0.7}, prox.NuclearNorm{Rows: 4, Cols: 4, Weight: 0.7}},
			{prox.Box{Lo: -1, Hi: 1}, prox.SpectralBall{Rows: 4, Cols: 4, R: 1}},
			{prox.NonNegative{}, prox.PSDCone{Order: 4}},
		} {
			vector, matrix := pair[0], pair[1]
			p := apply(vector, s, 1)
			require.InDeltaSlice(t, diag(p), apply(matrix, diag(s), 1), 1e-14)
			require.InDelta(t, vector.Func(p), matrix.Func(diag(p)), 1e-13)
			if in := vector.Func(s); math.IsInf(in, 1) {
				require.Equal(t, in, matrix.Func(diag(s)))
				require.Equal(t, in, matrix.Dist(diag(s), diag(v)))
				require.Equal(t, in, prox.RoundingOf(matrix).Shift(diag(s)))
			}
			// The subgradient nearest to a diagonal matrix is diagonal if the point is.
			require.InDelta(t, vector.Dist(p, v), matrix.Dist(diag(p), diag(v)), 1e-13)
		}
	})
}

// TestPSDConeByEigenvalues compares the projection onto the semidefinite cone with one by
// mat.EigenSym and Moreau's decomposition.
func TestPSDConeByEigenvalues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "n")
		x := rapid.SliceOfN(rapid.Float64Range(-3, 3), n*n, n*n).Draw(t, "x")
		sym := mat.NewSymDense(n, nil)
		for i := range n {
			for j := range i + 1 {
				sym.SetSym(i, j, (x[i*n+j]+x[j*n+i])/2)
			}
		}
		var e mat.EigenSym
		require.True(t, e.Factorize(sym, true))
		var q, want mat.Dense
		e.VectorsTo(&q)
		lambda := e.Values(nil)
		for k := range lambda {
			lambda[k] = max(lambda[k], 0)
		}
		want.Product(&q, mat.NewDiagDense(n, lambda), q.T())
		g := prox.PSDCone{Order: n}
		p := apply(g, x, 1)
		require.InDeltaSlice(t, want.RawMatrix().Data, p, 1e-13)
		require.Zero(t, g.Func(p))
		for i := range n {
			for j := range n {
				require.Equal(t, p[i*n+j], p[j*n+i], "symmetric exactly")
			}
		}
	})
}

// TestSecondOrderConeBySearch compares the projection onto the second-order cone with a search for
// the radius.
func TestSecondOrderConeBySearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := ties(rapid.IntRange(1, 6).Draw(t, "dim")).Draw(t, "x")
		n := floats.Norm(x[1:], 2)
		// The nearest point with ‖z‖ = s has z on the ray of x and t = max(x_0, s).
		phi := func(s float64) float64 { a, b := max(x[0], s)-x[0], s-n; return a*a + b*b }
		a, b := 0.0, n
		for range 200 {
			if m, k := a+(b-a)/3, b-(b-a)/3; phi(m) < phi(k) {
				b = k
			} else {
				a = m
			}
		}
		p := apply(prox.SecondOrderCone{}, x, 1)
		require.InDelta(t, max(x[0], a), p[0], 1e-6) // a search that compares values
		require.InDelta(t, a, floats.Norm(p[1:], 2), 1e-6)
		require.LessOrEqual(t, exactNorm(p[1:], false).Cmp(exactNorm(p[:1], false)), 0,
			"the projection must lie in the cone exactly")
	})
}

// TestRoundedRank checks matrices that are singular up to rounding. Such a matrix is treated as the
// nearby singular matrix, and Shift bounds the distance; a matrix farther away is treated as
// regular.
func TestRoundedRank(t *testing.T) {
	nuclear, psd := prox.NuclearNorm{Rows: 2, Cols: 2, Weight: 1}, prox.PSDCone{Order: 2}
	v := []float64{-1, 0, 0, 0.5}
	for _, c := range []struct{ small, nuclear, psd float64 }{
		{0, 0, 1}, {1e-15, 0, 1}, {1e-12, 1.5, math.Sqrt(1.25)},
	} {
		x := []float64{1, 0, 0, c.small}
		require.InDelta(t, c.nuclear, nuclear.Dist(x, v), 1e-14)
		require.InDelta(t, c.psd, psd.Dist(x, v), 1e-14)
		for _, g := range []prox.Operator{nuclear, psd} {
			s := prox.RoundingOf(g).Shift(x)
			require.LessOrEqual(t, s, 1e-13)
			if c.small < 1e-13 {
				require.GreaterOrEqual(t, s, c.small)
			}
		}
	}
	require.True(t, math.IsInf(psd.Func([]float64{1, 0, 0, -1e-12}), 1))
	require.Zero(t, psd.Func([]float64{1, 0, 0, -1e-15}))
	require.True(t, math.IsInf(psd.Func([]float64{1, 1e-300, 0, 1}), 1), "not symmetric")

	ball := prox.SpectralBall{Rows: 2, Cols: 2, R: 1}
	require.Zero(t, prox.RoundingOf(ball).Shift([]float64{0.5, 0, 0, 0.5}))
	require.Zero(t, ball.Dist([]float64{1, 0, 0, 0.5}, []float64{-3, 0, 0, 0}))
	require.InDelta(t, 3.0, ball.Dist([]float64{1 - 1e-12, 0, 0, 0.5}, []float64{-3, 0, 0, 0}), 1e-14)
	require.GreaterOrEqual(t, prox.RoundingOf(ball).Shift([]float64{1 - 1e-15, 0, 0, 0.5}), 1e-15)
	require.True(t, math.IsInf(prox.RoundingOf(ball).Shift([]float64{1 + 1e-12, 0, 0, 0.5}), 1))
	column := prox.SpectralBall{Rows: 16, Cols: 1, R: 1}
	x := make([]float64, 16)
	x[3] = 1 - 5e-14 // this rounded value is treated as 1
	require.GreaterOrEqual(t, prox.RoundingOf(column).Shift(x), 5e-14*(1-1e-2))
	require.LessOrEqual(t, prox.RoundingOf(column).Shift(x), 1e-13)
	require.InEpsilon(t, math.Sqrt2, ball.Radius(4), 1e-12)
	require.Zero(t, prox.SpectralBall{Rows: 2, Cols: 2}.Radius(4))
}

// TestEmpty checks operators on vectors and matrices without elements.
func TestEmpty(t *testing.T) {
	for _, g := range []prox.Subdifferential{
		prox.NuclearNorm{Rows: 0, Cols: 3, Weight: 1}, prox.SpectralBall{Rows: 3, Cols: 0, R: 1}, prox.PSDCone{},
		prox.SortedL1{}, prox.TotalVariation{Weight: 1}, prox.LInfNorm{Weight: 1}, prox.Huber{Weight: 1, Delta: 1},
	} {
		require.NoError(t, prox.Check(g, 0))
		require.Zero(t, g.Func(nil), "%T", g)
		g.Prox(nil, nil, 1)
		require.Zero(t, g.Dist(nil, nil), "%T", g)
		require.Zero(t, prox.RoundingOf(g).Shift(nil), "%T", g)
	}
	require.Panics(t, func() { prox.SecondOrderCone{}.Func(nil) })
	require.Error(t, prox.Check(prox.SecondOrderCone{}, 0))
}

// TestLargeMatrices checks that for larger matrices Shift stays of the size of the rounding of the
// point.
func TestLargeMatrices(t *testing.T) {
	const m, n = 60, 40
	x := make([]float64, m*n)
	for i := range x {
		x[i] = math.Sin(float64(i * i))
	}
	for _, g := range []prox.Subdifferential{prox.NuclearNorm{Rows: m, Cols: n, Weight: 6},
		prox.SpectralBall{Rows: m, Cols: n, R: 6}} {
		p, v := apply(g, x, 1), make([]float64, m*n)
		floats.SubTo(v, p, x)
		require.Less(t, g.Dist(p, v), 1e-10)
		require.Less(t, prox.RoundingOf(g).Shift(p), 1e-10)
		require.Positive(t, prox.RoundingOf(g).Shift(p))
	}
	s := x[:n*n]
	p, v := apply(prox.PSDCone{Order: n}, s, 1), make([]float64, n*n)
	floats.SubTo(v, p, s)
	require.Less(t, prox.PSDCone{Order: n}.Dist(p, v), 1e-10)
	require.Less(t, prox.RoundingOf(prox.PSDCone{Order: n}).Shift(p), 1e-10)
}
