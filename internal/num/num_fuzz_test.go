// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package num_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/internal/num"
)

// FuzzSpecfun: no argument makes a function loop or panic, NaN comes out only
// where it is documented, probabilities stay in [0, 1], and quantiles invert.
func FuzzSpecfun(f *testing.F) {
	values := []float64{0, 1, -1, 0.5, 1e-320, 1e-300, 26.6, -38, 1e10, 1e150, 1e308, math.NaN(), math.Inf(1),
		math.Inf(-1)}
	for i, v := range values {
		f.Add(v, values[(i+3)%len(values)])
		f.Add(1.0, v)
		f.Add(v, 3.0)
		f.Add(v, 1e6)
	}
	f.Fuzz(func(t *testing.T, x, a float64) {
		nan := math.IsNaN
		for name, v := range map[string]float64{
			"NormalCDF": num.NormalCDF(x), "exp LogPhi": math.Exp(num.LogPhi(x)), "exp LogQ": math.Exp(num.LogQ(x)),
		} {
			require.Equal(t, nan(x), nan(v), "%s(%v) = %v", name, x, v)
			require.False(t, v < 0 || v > 1+1e-15, "%s(%v) = %v", name, x, v)
		}
		require.False(t, !nan(x) && (nan(num.Mills(x)) || num.Mills(x) < 0), "Mills(%v)", x)
		require.False(t, !nan(x) && (nan(num.Erfcx(x)) || num.Erfcx(x) < 0), "Erfcx(%v)", x)
		if x >= -1e150 {
			require.GreaterOrEqual(t, num.MillsSlope(x), 0., "MillsSlope(%v)", x)
		}
		require.Equal(t, nan(x) || x < 0 || x > 1, nan(num.NormalQuantile(x)), "NormalQuantile(%v)", x)
		num.Log1mExp(x)
		num.LogDiffExp(x, a)
		if !nan(x) && !nan(a) {
			s := num.LogSumExp(x, a)
			require.False(t, nan(s) || s < max(x, a), "LogSumExp(%v, %v) = %v", x, a, s)
		}

		if !(a > 1e-300 && a < 1e7) || nan(x) { // the cost of larger shapes grows as their root
			if !(a > 0 && a <= 0x1p50) {
				require.True(t, nan(num.GammaLogP(a, x)) && nan(num.GammaLogQ(a, x)))
			}
			return
		}
		for name, v := range map[string]float64{"GammaLogP": num.GammaLogP(a, x), "GammaLogQ": num.GammaLogQ(a, x),
			"Chi2LogCDF": num.Chi2LogCDF(x, 2*a), "Chi2LogSF": num.Chi2LogSF(x, 2*a)} {
			require.True(t, v <= 0, "%s(%v, %v) = %v", name, a, x, v)
		}
		if x <= 0 {
			q := num.GammaInvLogP(a, x)
			require.True(t, q >= 0, "GammaInvLogP(%v, %v) = %v", a, x, q)
			r := num.GammaInvLogQ(a, x)
			require.True(t, r >= 0, "GammaInvLogQ(%v, %v) = %v", a, x, r)
			if x > -600 && x < -1e-9 && a > 1e-2 && a < 1e5 && q > 1e-290 {
				// A quantile is known to one unit in the last place, log P to its
				// slope times that.
				slope := math.Exp(num.Chi2LogPDF(2*q, 2*a)-x) * 2 * q
				require.InDelta(t, x, num.GammaLogP(a, q), 1e-10*(1+math.Abs(x))+1e-12*slope, "a = %v, q = %v", a, q)
			}
		}
	})
}
