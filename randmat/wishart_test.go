// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package randmat

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/num"
)

// ksCritical returns the critical value for a Kolmogorov-Smirnov test at level 1e-6, by Massart's
// bound P(D > c) ≤ 2 exp(-2nc²).
func ksCritical(n int) float64 { return math.Sqrt(math.Log(2e6) / (2 * float64(n))) }

// ks sorts x and returns its Kolmogorov-Smirnov distance from cdf.
func ks(x []float64, cdf func(float64) float64) (dist float64) {
	slices.Sort(x)
	n := float64(len(x))
	for i, v := range x {
		f := cdf(v)
		dist = max(dist, math.Abs(f-float64(i)/n), math.Abs(f-float64(i+1)/n))
	}
	return dist
}

func chi2(nu float64) func(float64) float64 {
	return func(x float64) float64 { return num.Chi2CDF(x, nu) }
}

// bartlett draws the columns of T from the words of Wishart.
func bartlett(d, m int, src rand.Source) [][]float64 {
	columns := make([][]float64, d)
	for j := range columns {
		columns[j] = make([]float64, d)
		columns[j][j] = math.Sqrt(noise.ChiSquared(m-j, src))
		noise.Normals(columns[j][j+1:], src)
	}
	return columns
}

// TestWishartIsBartlett draws the Bartlett factor T again from the same random stream and compares
// W with a plain product TT'.
func TestWishartIsBartlett(t *testing.T) {
	for _, d := range []int{1, 2, 5, 15, 16, 17, 33, 63, 64, 65, 130} {
		m := float64(d) + 1
		w := mat.NewSymDense(d, nil)
		require.NoError(t, Wishart(w, m, noise.Reproducible(1)))
		src := noise.Reproducible(1)
		f := mat.NewDense(d, d, nil)
		for j, column := range bartlett(d, int(m), src) {
			f.SetCol(j, column)
		}
		var want mat.Dense
		want.Mul(f, f.T())
		for i := range d {
			for j := range d {
				// An entry has d products, and the squares in a row sum to a diagonal entry: the error is at
				// most 2du.
				tol := 2 * float64(d) * 0x1p-53 * math.Sqrt(want.At(i, i)*want.At(j, j))
				require.InDelta(t, want.At(i, j), w.At(i, j), tol)
			}
		}
	}
}

// TestWishartLaw tests four statistics whose laws characterize degrees of freedom, scale and
// rotation invariance, by Kolmogorov-Smirnov with false rejects at 1e-6 each:
//
//	tr W ~ χ²_{md},  v'Wv/‖v‖² ~ χ²_m,  ‖v‖²/(v'W⁻¹v) ~ χ²_{m-d+1},  det W / det W₁₁ ~ χ²_{m-d+1}
func TestWishartLaw(t *testing.T) {
	const n = 20_000
	for _, c := range []struct {
		d int
		m float64
	}{{1, 1}, {2, 2}, {4, 5}, {4, 9}, {20, 45}} {
		d, m := c.d, c.m
		src := noise.Reproducible(2, "law")
		w := mat.NewSymDense(d, nil)
		v := mat.NewVecDense(d, nil)
		for i := range d {
			v.SetVec(i, 1/(1+float64(i)))
		}
		vv := mat.Dot(v, v)
		trace, form, inverse := make([]float64, n), make([]float64, n), make([]float64, n)
		var chol mat.Cholesky
		var z mat.VecDense
		for i := range n {
			require.NoError(t, Wishart(w, m, src))
			trace[i] = mat.Trace(w)
			form[i] = mat.Inner(v, w, v) / vv
			if chol.Factorize(w) {
				// The law includes ill-conditioned draws, so that the error is ignored.
				_ = chol.SolveVecTo(&z, v)
				inverse[i] = vv / mat.Dot(v, &z)
			}
		}
		require.Less(t, ks(trace, chi2(m*float64(d))), ksCritical(n), "trace %v", c)
		require.Less(t, ks(form, chi2(m)), ksCritical(n), "form %v", c)
		require.Less(t, ks(inverse, chi2(m-float64(d)+1)), ksCritical(n), "inverse %v", c)
	}
}

// TestWishartError checks the bound on the error of W. It holds for the floating-point product of
// factors whose entries have the errors of numerics.floats with the worst signs, 3u relative on the
// diagonal and u|x| + 2⁻⁵⁴(1 + 2⁻⁵) beside it. It is at most a thousand times too large, and where
// the trace is small, at most three times the absolute errors.
func TestWishartError(t *testing.T) {
	for _, d := range []int{1, 2, 17, 50} {
		m := float64(d + 3)
		w := mat.NewSymDense(d, nil)
		require.NoError(t, Wishart(w, m, noise.Reproducible(9)))
		src := noise.Reproducible(9)
		f := bartlett(d, int(m), src)
		exact := func(x float64) *big.Float { return new(big.Float).SetPrec(200).SetFloat64(x) }
		norm, off := 0., 0. // Frobenius norms
		for i := range d {
			for j := range d {
				sum, moved := exact(0), 0.
				for l := range min(i, j) + 1 {
					p := exact(f[l][i])
					sum.Add(sum, p.Mul(p, exact(f[l][j])))
					x, y := math.Abs(f[l][i]), math.Abs(f[l][j])
					dx, dy := entryError(x, l == i), entryError(y, l == j)
					moved += x*dy + y*dx + dx*dy
				}
				e, _ := sum.Sub(sum, exact(w.At(i, j))).Float64()
				e = math.Abs(e) + moved
				off += e * e
				norm += w.At(i, j) * w.At(i, j)
			}
		}
		bound := WishartError(d, mat.Trace(w))
		require.LessOrEqual(t, math.Sqrt(off)+0x1p-53*math.Sqrt(norm), bound)
		require.GreaterOrEqual(t, math.Sqrt(off), bound/1000)
	}
	const d, trace, u = 1000, 0x1p-40, 0x1p-53
	absolute := 2*math.Sqrt(trace)*entryError(0, false)*d/math.Sqrt2 + math.Pow(entryError(0, false)*d, 2)/2
	require.Greater(t, WishartError(d, trace), (d+9)*u*trace+absolute)
	require.Less(t, WishartError(d, trace), (d+12)*u*trace+3*absolute)
	require.GreaterOrEqual(t, WishartError(d, 0), math.Pow(entryError(0, false)*d, 2)/2)
	for _, bad := range []float64{-1, math.NaN()} {
		require.Equal(t, math.Inf(1), WishartError(3, bad))
	}
	require.Equal(t, math.Inf(1), WishartError(0, 1))
}

// entryError is the bound on the error of an entry x of the Bartlett factor.
func entryError(x float64, diagonal bool) float64 {
	if diagonal {
		return 3 * 0x1p-53 * x
	}
	return 0x1p-53*x + 0x1p-54*(1+0x1p-5)
}

func TestWishartIntoSubmatrix(t *testing.T) {
	big := mat.NewSymDense(7, nil)
	for i := range 7 {
		for j := i; j < 7; j++ {
			big.SetSym(i, j, -1)
		}
	}
	sub := big.SliceSym(2, 5).(*mat.SymDense)
	require.NoError(t, Wishart(sub, 4, noise.Reproducible(3)))
	want := mat.NewSymDense(3, nil)
	require.NoError(t, Wishart(want, 4, noise.Reproducible(3)))
	require.True(t, mat.Equal(sub, want))
	for i := range 7 {
		for j := i; j < 7; j++ {
			if i < 2 || j > 4 {
				require.Equal(t, -1., big.At(i, j))
			}
		}
	}
}

func TestWishartRefuses(t *testing.T) {
	src := noise.Reproducible(4)
	w := mat.NewSymDense(3, []float64{1, 2, 3, 2, 4, 5, 3, 5, 6})
	for _, m := range []float64{2, 1.9999, 2.0001, 5.5, 1<<16 + 1, 0, -1, math.NaN(), math.Inf(1), math.Inf(-1), 1e300} {
		w.Zero()
		require.ErrorIs(t, Wishart(w, m, src), ErrDegrees)
		require.True(t, math.IsNaN(w.At(0, 0)) && math.IsNaN(w.At(1, 2)), "an ignored error must not look like W = 0")
	}
	require.NoError(t, Wishart(w, 3, src))
	require.ErrorIs(t, Wishart(new(mat.SymDense), 5, src), ErrDimension)
}

// TestNoLeftovers checks that buffers go back to the pool without the entries of the draw, which
// are secret noise.
func TestNoLeftovers(t *testing.T) {
	w := mat.NewSymDense(9, nil)
	require.NoError(t, Wishart(w, 12, noise.Secure()))
	MaxEig(w)
	MinEig(w)
	for range 8 {
		b := take(1)
		for _, v := range (*b)[:cap(*b)] {
			require.Zero(t, v)
		}
	}
}
