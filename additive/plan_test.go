// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package additive

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/testkit"
)

// plan of three coordinates.
func plan(t *testing.T, m Mechanism, b dp.Budget) *Plan {
	t.Helper()
	m.Dim = 3
	if m.Radius == 0 {
		m.Radius = 100
	}
	pl, err := m.Plan(b)
	require.NoError(t, err)
	return pl
}

// TestLaws: each law is that of its table, with a scale within a part in 10⁵ of that for real
// numbers, and the coordinates have it around the clamped point.
func TestLaws(t *testing.T) {
	b := dp.Budget{Epsilon: 0.5, Delta: 1e-6}
	sigma, err := dp.GaussianSigma(b, 2)
	require.NoError(t, err)
	normal := func(scale float64) func(float64) float64 {
		return func(x float64) float64 { return num.NormalCDF(x / scale) }
	}
	for name, c := range map[string]struct {
		m     Mechanism
		b     dp.Budget
		scale func(Params) float64
		want  float64
		law   func(scale float64) func(x float64) float64
	}{
		"Gaussian":         {Mechanism{L2: 2}, b, func(p Params) float64 { return p.OutputSigma }, sigma, normal},
		"Gaussian from L1": {Mechanism{L1: 2}, b, func(p Params) float64 { return p.OutputSigma }, sigma, normal},
		"Laplace": {Mechanism{L1: 2}, dp.Budget{Epsilon: 0.5}, func(p Params) float64 { return p.OutputLaplace }, 4,
			func(c float64) func(float64) float64 {
				return func(x float64) float64 {
					tail := math.Exp(-math.Abs(x)/c) / 2
					if x > 0 {
						return 1 - tail
					}
					return tail
				}
			}},
		"radial": {Mechanism{L2: 2}, dp.Budget{Epsilon: 0.5}, func(p Params) float64 { return 1 / p.OutputRate }, 4,
			func(c float64) func(float64) float64 { // the marginal of exp(−‖v‖/c) in three dimensions
				return func(x float64) float64 {
					u := math.Abs(x) / c
					tail := math.Exp(-u) * (2 + u) / 4
					if x > 0 {
						return 1 - tail
					}
					return tail
				}
			}},
	} {
		pl := plan(t, c.m, c.b)
		scale := c.scale(pl.Params())
		require.Greater(t, scale, c.want, name)
		require.InEpsilon(t, c.want, scale, 1e-5, name)
		src := noise.Reproducible(4, name)
		var sample []float64
		for range testkit.Of(2000, 20_000) {
			rel, err := pl.Release(t.Context(), []float64{3, -1000, 7}, src)
			require.NoError(t, err)
			sample = append(sample, rel.Theta[0]-3, rel.Theta[1]+100) // clamped to 100
		}
		_, p := testkit.KolmogorovSmirnov(sample, c.law(scale))
		require.Greater(t, p, 1e-6, name)
	}
}

// TestClamps: points that differ in what the clamp removes give equal releases, an error never
// depends on a value, and the point of the caller is not changed.
func TestClamps(t *testing.T) {
	pl := plan(t, Mechanism{L2: 1}, dp.Budget{Epsilon: 1, Delta: 1e-6})
	release := func(x ...float64) []float64 {
		rel, err := pl.Release(t.Context(), x, noise.Reproducible(1))
		require.NoError(t, err)
		require.Equal(t, []dp.Assumption{DeclaredSensitivity, dp.CallerSource}, rel.Certificate.Assumptions)
		return rel.Theta
	}
	nan, inf := math.NaN(), math.Inf(1)
	require.Equal(t, release(0, 100, -100), release(nan, inf, -inf))
	require.Equal(t, release(0, 100, -100), release(math.Copysign(0, -1), 1e308, -101))
	require.NotEqual(t, release(0, 100, -100), release(0, 99, -100))
	x := []float64{nan, 1e9, 1}
	release(x...)
	require.Equal(t, 1e9, x[1])
	for i, v := range release(1, 2, 3) { // on the grid
		k := v / pl.Params().Grid
		require.Equal(t, math.Round(k), k, i)
	}
	_, err := pl.Release(t.Context(), []float64{1}, nil)
	require.ErrorIs(t, err, ErrMechanism)
	cancelled, stop := context.WithCancel(t.Context())
	stop()
	_, err = pl.Release(cancelled, []float64{1, 2, 3}, nil)
	require.ErrorIs(t, err, context.Canceled)
	rel, err := pl.Release(t.Context(), []float64{1, 2, 3}, nil)
	require.NoError(t, err)
	require.Equal(t, []dp.Assumption{DeclaredSensitivity}, rel.Certificate.Assumptions)
}

// TestPlan: what a plan states, by itself and composed.
func TestPlan(t *testing.T) {
	b := dp.Budget{Epsilon: 0.5, Delta: 1e-6}
	pl := plan(t, Mechanism{Relation: dp.AddRemove, L2: 2}, b)
	require.Equal(t, dp.Certificate{
		Budget: b, Relation: dp.AddRemove, Theorem: "additive.point/1", Assumptions: []dp.Assumption{DeclaredSensitivity},
	}, pl.Certificate())
	p := pl.Profile()
	require.LessOrEqual(t, p.Delta(0.5), b.Delta)
	require.InEpsilon(t, b.Delta, p.Delta(0.5), 1e-4)
	require.Zero(t, p.Failure)
	s := pl.Params().Sensitivity / pl.Params().OutputSigma
	four, err := dp.Compose(1e-6, pl, pl, pl, pl) // Gaussians add up exactly
	require.NoError(t, err)
	require.InEpsilon(t, dp.GaussianCurve(2*s).Epsilon(1e-6), four.Epsilon, 1e-9)
	require.Contains(t, four.Assumptions, DeclaredSensitivity)

	pure := plan(t, Mechanism{L1: 2}, dp.Budget{Epsilon: 0.5})
	require.Equal(t, dp.Replace, pure.Certificate().Relation)
	require.Zero(t, pure.Profile().Delta(0.5))
	require.Contains(t, pure.String(), "L1")

	people := plan(t, Mechanism{Rows: 7, L2: 2}, b)
	require.Equal(t, 7, people.Certificate().Rows)
	require.Contains(t, people.Certificate().Assumptions, erm.OneID)

	wide := plan(t, Mechanism{L2: 1e-12, Radius: 0x1p60}, b) // the rounding is most of what is hidden
	require.Equal(t, 4.0, wide.Params().Grid)
	require.InEpsilon(t, 4*math.Sqrt(3), wide.Params().Sensitivity, 1e-6)
}

// TestMechanismRefuses: two norms or none are refused, as a budget does not say which was meant.
func TestMechanismRefuses(t *testing.T) {
	for _, m := range []Mechanism{
		{Dim: 3, Radius: 1}, {Dim: 3, Radius: 1, L1: 1, L2: 1}, {Dim: 3, Radius: 1, L1: -1, L2: 2}, {Dim: 3, L1: 1},
		{Radius: 1, L1: 1}, {Dim: 3, Radius: 1, L1: math.Inf(1)}, {Dim: 3, Radius: 1, L1: 1, Rows: -1},
	} {
		_, err := m.Plan(dp.Budget{Epsilon: 1})
		require.ErrorIs(t, err, ErrMechanism, "%+v", m)
	}
}
