// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package randmat_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/randmat"
)

// FuzzMinEigenvalueLaw checks that log F is at most 0, increasing and never NaN, that quantiles are
// rounded to the safe side, and that parameters without a law give the trivial bound log F = 0.
func FuzzMinEigenvalueLaw(f *testing.F) {
	for i, v := range []float64{0, 1, 5, -1, 1e-320, 1e300, math.NaN(), math.Inf(1), math.Inf(-1), 1.5, 12, 3.0000001} {
		f.Add(i-2, v, 1.0, -5.0)
		f.Add(2, 4.5, v, -1.0)
		f.Add(3, 9.0, 0.5, -v)
	}
	f.Fuzz(func(t *testing.T, d int, m, x, logp float64) {
		if d > 8 || m > 200 { // the time of the chain grows with both
			return
		}
		law := randmat.MinEigenvalueLaw{Dim: d, Dof: m}
		if law.Check() != nil {
			require.Zero(t, law.LogCDF(x))
			require.Zero(t, law.LogQuantile(logp))
			return
		}
		at := law.LogCDF(x)
		require.True(t, at <= 0, "log F(%v) = %v", x, at)
		if !math.IsNaN(x) {
			require.LessOrEqual(t, at, law.LogCDF(x*1.5+1e-9)+1e-8)
		}
		require.False(t, math.IsNaN(randmat.EdelmanLogCDF(d, m, x)))
		q := law.LogQuantile(logp)
		require.True(t, q >= 0, "quantile of %v: %v", logp, q)
		if q > 0 && !math.IsInf(q, 1) {
			require.LessOrEqual(t, law.LogCDF(q), logp+1e-8)
		}
	})
}

// FuzzEigen checks that the bounds on the eigenvalues bracket the Rayleigh quotients of any
// symmetric matrix. For a matrix with a NaN the bounds are infinite.
func FuzzEigen(f *testing.F) {
	for _, v := range []float64{0, 1, -1, 1e-320, 1e-160, 1e150, 1e308, math.NaN(), math.Inf(1), math.MaxFloat64} {
		f.Add(v, 1.0, 0.5, 2.0, -1.0, 3.0)
		f.Add(1.0, v, 1.0, v, 1.0, v)
	}
	f.Fuzz(func(t *testing.T, a, b, c, d, e, g float64) {
		m := mat.NewSymDense(3, []float64{a, b, c, b, d, e, c, e, g})
		lo, hi := randmat.MinEig(m), randmat.MaxEig(m)
		require.False(t, math.IsNaN(lo) || math.IsNaN(hi) || lo > hi, "%v %v", lo, hi)
		for i, q := range []float64{a, d, g} { // the Rayleigh quotients eᵢ'Meᵢ
			if finite(a, b, c, d, e, g) {
				require.True(t, lo <= q && q <= hi, "M[%d,%d] = %v outside [%v, %v]", i, i, q, lo, hi)
			} else {
				require.True(t, math.IsInf(lo, -1) && math.IsInf(hi, 1))
			}
		}
		randmat.RitzMax(m)
	})
}

func finite(x ...float64) bool {
	for _, v := range x {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
	}
	return true
}

// FuzzWishart checks that a draw is finite and positive semidefinite up to rounding. If there is an
// error, the matrix is NaN.
func FuzzWishart(f *testing.F) {
	for _, m := range []float64{0, 1, 2, 3, 3.5, 4, 1e3, 1e300, -1, math.NaN(), math.Inf(1)} {
		f.Add(m, uint64(1))
	}
	f.Fuzz(func(t *testing.T, m float64, seed uint64) {
		w := mat.NewSymDense(3, nil)
		err := randmat.Wishart(w, m, noise.Reproducible(seed))
		require.Equal(t, err != nil, math.IsNaN(w.At(0, 0)))
		if err == nil {
			require.True(t, finite(w.RawSymmetric().Data...), "%v", mat.Formatted(w))
			require.GreaterOrEqual(t, randmat.MinEig(w), -1e-12*randmat.MaxEig(w))
		}
	})
}
