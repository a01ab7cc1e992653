// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package dp

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func read(t testing.TB, name string, v any) {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, v))
}

type golden struct {
	Analytic_gaussian struct {
		Calibration []struct{ Eps, Delta, Sigma_over_sensitivity, S float64 }
		Profile     []struct{ Eps, S, Delta, Log_delta float64 }
	}
	Rdp_poisson []struct {
		Q, Z, Rdp float64
		Alpha     int
	}
	Rdp_to_dp []struct {
		Q, T, Delta, Poisson_z, Poisson_eps_rdp, Poisson_alpha float64
	}
	Qop_sigma []struct {
		Eps, Delta, Sensitivity, Sigma float64 `json:",string"`
	}
	Qop_delta []struct {
		Eps, Sensitivity_over_sigma, Delta float64 `json:",string"`
	}
}

func TestGaussianGolden(t *testing.T) {
	var g golden
	read(t, "golden.json", &g)
	require.Len(t, g.Analytic_gaussian.Calibration, 20)
	for _, c := range g.Analytic_gaussian.Calibration {
		sigma, err := GaussianSigma(Budget{c.Eps, c.Delta}, 3)
		require.NoError(t, err)
		// The values carry 16 digits; the excess of σ is 1e-12 by design.
		require.InEpsilon(t, 3*c.Sigma_over_sensitivity, sigma, 1e-11)
	}
	require.Len(t, g.Analytic_gaussian.Profile, 8)
	for _, c := range g.Analytic_gaussian.Profile {
		require.InDelta(t, c.Log_delta, GaussianLogDelta(c.Eps, c.S), 1e-13*math.Max(1, -c.Log_delta))
		require.InEpsilon(t, c.Delta, GaussianDelta(c.Eps, c.S), 1e-12)
	}
	require.Len(t, g.Qop_sigma, 9)
	for _, c := range g.Qop_sigma {
		sigma, err := GaussianSigma(Budget{c.Eps, c.Delta}, c.Sensitivity)
		require.NoError(t, err)
		require.InEpsilon(t, c.Sigma, sigma, 1e-11)
	}
	require.Len(t, g.Qop_delta, 5)
	for _, c := range g.Qop_delta {
		require.InEpsilon(t, c.Delta, GaussianDelta(c.Eps, c.Sensitivity_over_sigma), 1e-13)
	}
}

func TestGaussianReference(t *testing.T) {
	var g struct {
		Log_delta []struct {
			Eps, S    float64
			Log_delta json.Number
		}
		Sigma []struct {
			Eps, Delta float64
			Sigma      json.Number
		}
	}
	read(t, "gaussian.json", &g)
	require.NotEmpty(t, g.Log_delta)
	for _, c := range g.Log_delta {
		want, err := c.Log_delta.Float64()
		require.NoError(t, err)
		// Where δ is near 1 its logarithm keeps the relative accuracy of 1-δ.
		// At ε = 1e5 the argument a = ε/s - s/2 carries 2⁻⁵³ of itself, which
		// a² magnifies: hence the factor |log δ|.
		tol := 1e-13 * math.Min(1, math.Abs(want)) * math.Max(1, math.Abs(want)/20)
		require.InDelta(t, want, GaussianLogDelta(c.Eps, c.S), tol, "ε = %v, s = %v", c.Eps, c.S)
	}
	require.NotEmpty(t, g.Sigma)
	for _, c := range g.Sigma {
		want, err := c.Sigma.Float64()
		require.NoError(t, err)
		sigma, err := GaussianSigma(Budget{c.Eps, c.Delta}, 1)
		require.NoError(t, err)
		require.GreaterOrEqual(t, sigma, want, "too little noise at ε = %v, δ = %v", c.Eps, c.Delta)
		require.LessOrEqual(t, sigma, want*(1+1e-8), "ε = %v, δ = %v", c.Eps, c.Delta)
	}
}

// TestGaussianSigmaSafe: on 10 000 budgets the noise meets its δ and 1e-6 less
// noise does not.
func TestGaussianSigmaSafe(t *testing.T) {
	for i := range 100 {
		eps := MinEpsilon * math.Pow(MaxEpsilon/MinEpsilon, float64(i)/99)
		for j := range 100 {
			b := Budget{math.Min(eps, MaxEpsilon), MinDelta * math.Pow(0.999/MinDelta, float64(j)/99)}
			sigma, err := GaussianSigma(b, 2.5)
			require.NoError(t, err)
			l := math.Log(b.Delta)
			require.LessOrEqual(t, GaussianLogDelta(b.Epsilon, 2.5/sigma), l, "%v", b)
			require.Greater(t, GaussianLogDelta(b.Epsilon, 2.5/(sigma*(1-1e-6))), l, "%v", b)
		}
	}
}

// TestGaussianSigmaNearOne: 1 - δ keeps its digits, so σ is still sharp.
func TestGaussianSigmaNearOne(t *testing.T) {
	for _, eps := range []float64{MinEpsilon, 1, MaxEpsilon} {
		l := math.Log(math.Nextafter(1, 0))
		sigma, err := GaussianSigma(Budget{eps, math.Nextafter(1, 0)}, 1)
		require.NoError(t, err)
		require.LessOrEqual(t, GaussianLogDelta(eps, 1/sigma), l)
		require.Greater(t, GaussianLogDelta(eps, 1/(sigma*(1-1e-6))), l)
	}
}

// TestGaussianMonotone: less ε, less δ or more sensitivity, more noise.
func TestGaussianMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		eps := math.Exp(rapid.Float64Range(-10, 5).Draw(t, "log eps"))
		delta := math.Exp(rapid.Float64Range(-200, -0.1).Draw(t, "log delta"))
		k := rapid.Float64Range(1.01, 10).Draw(t, "k")
		sigma, err := GaussianSigma(Budget{eps, delta}, 1)
		require.NoError(t, err)
		for _, c := range []struct{ eps, delta, sens float64 }{{eps / k, delta, 1}, {eps, delta / k, 1}, {eps, delta, k}} {
			more, err := GaussianSigma(Budget{c.eps, c.delta}, c.sens)
			require.NoError(t, err)
			require.Greater(t, more, sigma)
		}
	})
}

func TestGaussianBadValues(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, b := range []Budget{{}, {1, 0}, {0, 1e-5}, {-1, 1e-5}, {nan, 1e-5}, {inf, 1e-5}, {1, 1}, {1, -1e-9}, {1, nan},
		{1, 1e-320},
		{0x1p-51, 1e-5}, {1e6, 1e-5}} {
		sigma, err := GaussianSigma(b, 1)
		require.ErrorIs(t, err, ErrBudget, "%v", b)
		require.Zero(t, sigma)
	}
	for _, s := range []float64{0, -1, nan, inf, -inf, 1e308} {
		_, err := GaussianSigma(Budget{0.1, 1e-9}, s)
		require.ErrorIs(t, err, ErrCondition, "%v", s)
		require.ErrorContains(t, err, "Sensitivity")
	}
	sigma, err := GaussianSigma(Budget{MaxEpsilon, 0.9}, 5e-324)
	require.NoError(t, err)
	require.Positive(t, sigma) // noise never rounds to none
	for _, c := range []struct{ eps, s, want float64 }{
		{nan, 1, 1}, {1, nan, 1}, {1, -1, 1}, {1, inf, 1}, {-inf, 1, 1}, {inf, 1, 0}, {1, 0, 0}, {0, 0, 0}, {-1, 0,
			-math.Expm1(-1)},
		{1, 5e-324, 0}, {1e5, 1e-300, 0}, {1, 1e308, 1}, {-700, 1e-300, 1}, {0, 1e308, 1},
	} {
		require.InDelta(t, c.want, GaussianDelta(c.eps, c.s), 1e-15, "ε = %v, s = %v", c.eps, c.s)
	}
}

func BenchmarkGaussianSigma(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := GaussianSigma(Budget{1, 1e-6}, 1); err != nil {
			b.Fatal(err)
		}
	}
}
