// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package num

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// golden is testdata/specfun.json: mpmath values of 25 digits.
type golden struct {
	Normal []struct {
		X              float64
		Erfcx, Log_phi *number
	}
	Normal_quantile []struct {
		P float64
		X number
	}
	Gamma []struct {
		A, X         float64
		Log_p, Log_q number
	}
}

type number float64

func (n *number) UnmarshalText(b []byte) error {
	v, err := strconv.ParseFloat(string(b), 64)
	*n = number(v)
	return err
}

func load(t *testing.T) (g golden) {
	b, err := os.ReadFile("testdata/specfun.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &g))
	require.NotEmpty(t, g.Normal)
	require.NotEmpty(t, g.Gamma)
	return g
}

// relative fails unless |got - want| ≤ tol·|want|.
func relative(t *testing.T, want, got, tol float64, msg ...any) {
	t.Helper()
	if want == 0 || math.IsInf(want, 0) {
		require.Equal(t, want, got, msg...)
		return
	}
	require.InDelta(t, 0, (got-want)/want, tol, msg...)
}

func TestNormalGolden(t *testing.T) {
	for _, c := range load(t).Normal {
		if c.Erfcx != nil {
			// Rounding of erfc, exp and one product.
			relative(t, float64(*c.Erfcx), Erfcx(c.X), 2e-15, "erfcx(%v)", c.X)
			if x := c.X * math.Sqrt2; math.Abs(c.X) < 20 {
				// √2 rounds x by 2⁻⁵³, which R magnifies by up to x².
				relative(t, math.Sqrt(math.Pi/2)*float64(*c.Erfcx), Mills(x), 3e-16*(10+4*c.X*c.X), "Mills(%v)", x)
				// The difference on the left loses a factor x² that the fraction keeps.
				relative(t, 1-x*math.Sqrt(math.Pi/2)*float64(*c.Erfcx), MillsSlope(x), 1e-15*(10+4*c.X*c.X), "MillsSlope(%v)", x)
			}
		}
		if c.Log_phi != nil {
			want := float64(*c.Log_phi)
			relative(t, want, LogPhi(c.X), 4e-15, "log Φ(%v)", c.X)
			relative(t, want, LogQ(-c.X), 4e-15)
			if c.X > -38 {
				// The relative error of e^want is the absolute error of want, |want|·2⁻⁵³.
				relative(t, math.Exp(want), NormalCDF(c.X), 2e-15+2e-16*math.Abs(want), "Φ(%v)", c.X)
			}
		}
	}
}

func TestNormalQuantileGolden(t *testing.T) {
	for _, c := range load(t).Normal_quantile {
		// Above 1/2 the result inherits the relative error 2⁻⁵³ of p, magnified
		// by at most R(x)-like factors: 1/(x·(1-p)) at p = 1-1e-6.
		tol := 4e-15
		if c.P > 0.5 {
			tol += 2e-16 / (1 - c.P)
		}
		if c.P == 0.5 {
			require.InDelta(t, 0, NormalQuantile(c.P), 1e-16)
			continue
		}
		relative(t, float64(c.X), NormalQuantile(c.P), tol, "p = %v", c.P)
	}
}

func TestGammaGolden(t *testing.T) {
	for _, c := range load(t).Gamma {
		lp, lq := float64(c.Log_p), float64(c.Log_q)
		for _, v := range []struct {
			name      string
			want, got float64
		}{{"log P", lp, GammaLogP(c.A, c.X)}, {"log Q", lq, GammaLogQ(c.A, c.X)}} {
			// The tail e^v keeps 2e-13; where v itself is near 0 it keeps its
			// own relative accuracy. Below e^-500, past the range of float64,
			// the terms of size a in the logarithm round by a·2⁻⁵³.
			tol := 2e-13 * math.Min(1, math.Abs(v.want))
			if v.want < -500 {
				tol += 0x1p-52 * (c.A + c.X + math.Abs(v.want))
			}
			require.InDelta(t, v.want, v.got, tol, "%s(%v, %v)", v.name, c.A, c.X)
		}
		if lp < -1e-300 && lq < -1e-300 && c.A*math.Abs(math.Log(c.X)) > 1e-6 {
			// Below, the smaller tail determines x; its log error 2e-13 divided
			// by d log tail/d log x is the error of x.
			slope := math.Exp(logPoisson(c.A, c.X)-math.Min(lp, lq)) * c.A
			tol := 1e-14 + 4e-13*math.Max(1, math.Abs(math.Min(lp, lq))/500)/slope
			if lp < lq {
				relative(t, c.X, GammaInvLogP(c.A, lp), tol, "inverse of P(%v, %v)", c.A, c.X)
			} else {
				relative(t, c.X, GammaInvLogQ(c.A, lq), tol, "inverse of Q(%v, %v)", c.A, c.X)
			}
		}
	}
}

// TestGammaIdentities: the recurrences P(a,x) = P(a+1,x) + xᵃe⁻ˣ/Γ(a+1) and
// P + Q = 1, and the inverses, at random points of the range used.
func TestGammaIdentities(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := math.Exp(rapid.Float64Range(math.Log(0.1), math.Log(2500)).Draw(t, "a"))
		x := a * math.Exp(rapid.Float64Range(-3, 2).Draw(t, "r"))
		p, q := GammaLogP(a, x), GammaLogQ(a, x)
		require.InDelta(t, 1, math.Exp(p)+math.Exp(q), 1e-13)
		// A logarithm of -1e4 is itself rounded by 1e-12.
		require.InDelta(t, p, LogSumExp(GammaLogP(a+1, x), logPoisson(a, x)), 1e-12-p*0x1p-50)
		require.InDelta(t, GammaLogQ(a+1, x), LogSumExp(q, logPoisson(a, x)), 1e-12-q*0x1p-50)
		if p < q {
			require.InDelta(t, p, GammaLogP(a, GammaInvLogP(a, p)), 1e-12*math.Max(1, -p))
		} else {
			require.InDelta(t, q, GammaLogQ(a, GammaInvLogQ(a, q)), 1e-12*math.Max(1, -q))
		}
	})
}

// TestGammaInvExtreme: targets from deep in both tails, also where the
// starting point of the iteration is poor.
func TestGammaInvExtreme(t *testing.T) {
	for _, a := range []float64{0.01, 0.3, 0.5, 0.7, 1, 1.5, 8, 50, 500, 2000} {
		for _, l := range []float64{-690, -200, -40, -5, -1, -0.7, -0.69, -0.5, -1e-3, -1e-12} {
			if x := GammaInvLogP(a, l); x > 0 {
				require.InDelta(t, 0, (GammaLogP(a, x)-l)/math.Max(1, -l), 1e-12, "a=%v log p=%v x=%v", a, l, x)
			} else {
				require.Less(t, (l+lgamma1p(a))/a, -700.) // below the least float64
			}
			x := GammaInvLogQ(a, l)
			if x > 0 && l > -1e-6 { // Q near 1: compare the complement
				require.InDelta(t, 0, GammaLogP(a, x)-Log1mExp(l), 1e-9)
			} else if x > 0 {
				require.InDelta(t, 0, (GammaLogQ(a, x)-l)/math.Max(1, -l), 1e-12, "a=%v log q=%v x=%v", a, l, x)
			}
		}
	}
}

func TestGammaEdges(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	require.Equal(t, -inf, GammaLogP(3, 0))
	require.Equal(t, -inf, GammaLogP(3, -1))
	require.Zero(t, GammaLogP(3, inf))
	require.Zero(t, GammaLogQ(3, 0))
	require.Equal(t, -inf, GammaLogQ(3, inf))
	require.Zero(t, GammaInvLogP(3, -inf))
	require.Equal(t, inf, GammaInvLogP(3, 0))
	require.Zero(t, GammaInvLogQ(3, 0))
	require.Equal(t, inf, GammaInvLogQ(3, -inf))
	require.Zero(t, GammaInvLogP(1e-3, -690)) // underflow
	for _, v := range []float64{GammaLogP(0, 1), GammaLogP(-1, 1), GammaLogP(nan, 1), GammaLogP(1, nan), GammaLogP(inf, 1),
		GammaLogQ(0, 1), GammaLogQ(1, nan), GammaInvLogP(0, -1), GammaInvLogP(1, 1), GammaInvLogP(1, nan), GammaInvLogQ(1,
			0.5),
		// Sums over shapes beyond 2⁵³ would not end.
		GammaLogP(1e16, 1e16), GammaLogQ(1e300, 1e300), GammaInvLogQ(math.MaxFloat64, -1)} {
		require.True(t, math.IsNaN(v))
	}
}

func TestChi2(t *testing.T) {
	inf := math.Inf(1)
	for _, x := range []float64{1e-9, 0.3, 2, 50, 1300} {
		// ν = 2 is exponential, ν = 1 a squared normal.
		require.InDelta(t, -x/2-math.Ln2, Chi2LogPDF(x, 2), 1e-13*math.Max(1, x))
		require.InDelta(t, -x/2, Chi2LogSF(x, 2), 1e-13*math.Max(1, x))
		relative(t, -math.Expm1(-x/2), Chi2CDF(x, 2), 1e-13)
		require.InDelta(t, math.Ln2+LogQ(math.Sqrt(x)), Chi2LogSF(x, 1), 1e-13*math.Max(1, x))
		relative(t, 2*NormalCDF(-math.Sqrt(x)), Chi2SF(x, 1), 1e-12)
		relative(t, x, Chi2UpperQuantile(-x/2, 2), 1e-12)
		relative(t, x, Chi2Quantile(Log1mExp(-x/2), 2), 1e-12+1e-15*math.Exp(math.Min(x/2, 700)))
	}
	// The density is the derivative of the distribution function: integrate it.
	for _, nu := range []float64{0.8, 3, 40.5, 401} {
		xs, ws := GaussLegendre(60)
		lo, hi, sum := nu*0.7, nu*1.2, 0.0
		for i, u := range xs {
			sum += ws[i] * (hi - lo) / 2 * math.Exp(Chi2LogPDF((hi-lo)/2*u+(hi+lo)/2, nu))
		}
		relative(t, math.Exp(LogDiffExp(Chi2LogCDF(hi, nu), Chi2LogCDF(lo, nu))), sum, 1e-11)
	}
	require.Equal(t, -inf, Chi2LogPDF(0, 3))
	require.Equal(t, inf, Chi2LogPDF(0, 1))
	require.Equal(t, -math.Ln2, Chi2LogPDF(0, 2))
	require.Equal(t, -inf, Chi2LogPDF(-1, 2))
	require.Equal(t, -inf, Chi2LogPDF(inf, 2))
	require.True(t, math.IsNaN(Chi2LogPDF(1, 0)))
	require.True(t, math.IsNaN(Chi2LogPDF(math.NaN(), 1)))
}

func TestNormalEdges(t *testing.T) {
	inf := math.Inf(1)
	require.Equal(t, inf, Erfcx(-27))
	require.Equal(t, inf, Erfcx(-inf))
	require.Zero(t, Erfcx(inf))
	require.True(t, math.IsNaN(Erfcx(math.NaN())))
	require.Equal(t, -inf, LogPhi(-inf))
	require.Zero(t, LogPhi(inf))
	require.True(t, math.IsNaN(LogPhi(math.NaN())))
	require.Zero(t, NormalCDF(-inf))
	require.Equal(t, 1., NormalCDF(inf))
	require.Zero(t, MillsSlope(inf))
	require.Equal(t, inf, MillsSlope(-inf))
	for _, x := range []float64{50, 1e3, 1e9} {
		// 1/x² - 3/x⁴ + 15/x⁶ - 105/x⁸ + …; the next term is below 1e-13 relative.
		q := 1 / (x * x)
		relative(t, q*(1-q*(3-q*(15-q*(105-q*945)))), MillsSlope(x), 1e-12)
	}
	require.Equal(t, -inf, NormalQuantile(0))
	require.Equal(t, inf, NormalQuantile(1))
	for _, p := range []float64{-1e-9, 1.1, math.NaN()} {
		require.True(t, math.IsNaN(NormalQuantile(p)))
	}
}

func TestLogArithmetic(t *testing.T) {
	inf := math.Inf(1)
	relative(t, math.Log(5), LogSumExp(math.Log(2), math.Log(3)), 1e-15)
	relative(t, 1000+math.Ln2, LogSumExp(1000, 1000), 1e-15)
	require.Equal(t, -inf, LogSumExp(-inf, -inf))
	require.Equal(t, inf, LogSumExp(inf, inf))
	require.Equal(t, 3., LogSumExp(-inf, 3))
	relative(t, math.Log(2), LogDiffExp(math.Log(5), math.Log(3)), 1e-15)
	relative(t, math.Log(1e-10), LogDiffExp(0, math.Log1p(-1e-10)), 1e-15)
	require.Equal(t, -inf, LogDiffExp(2, 2))
	require.Equal(t, 2., LogDiffExp(2, -inf))
	require.Equal(t, -inf, LogDiffExp(-inf, -inf))
	require.True(t, math.IsNaN(LogDiffExp(1, 2)))
	require.Equal(t, -inf, Log1mExp(0))
	relative(t, math.Log(1e-20), Log1mExp(-1e-20), 1e-15)
	relative(t, -math.Exp(-50), Log1mExp(-50), 1e-15)
}

func BenchmarkGammaLogP(b *testing.B) {
	for _, a := range []float64{5, 50, 500} {
		b.Run("a="+strconv.Itoa(int(a)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				GammaLogP(a, 0.8*a)
			}
		})
	}
}

// Natural logarithms of numbers below 2⁻¹⁰²² from mpmath, 30 digits:
// mp.log(mpf(5e-324)), mp.log(mpf(1e-310)).
func TestLogOfSubnormals(t *testing.T) {
	require.InDelta(t, -744.44007192138126231410, Log(5e-324), 2e-13)
	require.InDelta(t, -713.80137882815407, Log(1e-310), 2e-13)
	require.Equal(t, math.Log(0x1p-1022), Log(0x1p-1022))
	for x := 0x1p-1022; x < 1e300; x *= 1.7e5 {
		require.Equal(t, math.Log(x), Log(x))
	}
	require.Equal(t, math.Inf(-1), Log(0))
	require.Equal(t, math.Inf(1), Log(math.Inf(1)))
	require.True(t, math.IsNaN(Log(-5e-324)) && math.IsNaN(Log(math.NaN())))
}

// Only a tail of 0.09 or more is computed as one minus the other.
func TestSmallTailsAreDirect(t *testing.T) {
	for la := -20.0; la <= 20; la += 0.05 {
		a := math.Exp(la)
		for z := -8.0; z <= 8; z += 0.05 {
			for _, x := range []float64{a + z*math.Sqrt(a), math.Exp(5 * z)} {
				direct, _ := gammaLog(a, x)
				require.GreaterOrEqual(t, -math.Expm1(direct), 0.09, "a = %v, x = %v", a, x)
			}
		}
	}
}

// Fractions side by side have the bits of each by itself, near the switch of methods too.
func TestMillsSlopes(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 4))
	for n := range 280 {
		x := make([]float64, n%14)
		for i := range x { // all on the fraction, or some below it or beyond
			x[i] = 2 + 40*rnd.Float64()
			if n >= 140 {
				x[i] = math.Exp(25*rnd.Float64() - 1)
			}
		}
		want := make([]float64, len(x))
		for i, v := range x {
			want[i] = MillsSlope(v)
		}
		MillsSlopes(x)
		require.Equal(t, want, x)
	}
}
