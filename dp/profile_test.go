// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package dp

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// shape checks what every profile satisfies: values in [0, 1], at least
// 1 - e^ε, nonincreasing, convex in e^ε.
func shape(t *testing.T, p Curve) {
	t.Helper()
	type point struct{ x, y float64 }
	var last []point
	for eps := -6.0; eps <= 6; eps += 0.05 {
		y := p(eps)
		require.True(t, y >= 0 && y <= 1, "δ(%v) = %v", eps, y)
		require.GreaterOrEqual(t, y, -math.Expm1(eps)-1e-15)
		last = append(last, point{math.Exp(eps), y})
		if n := len(last); n >= 3 {
			a, b, c := last[n-3], last[n-2], last[n-1]
			require.LessOrEqual(t, c.y, b.y)
			chord := a.y + (c.y-a.y)*(b.x-a.x)/(c.x-a.x)
			require.LessOrEqual(t, b.y, chord+1e-14, "not convex at ε = %v", eps) // rounding of values near 1
		}
	}
}

func TestProfiles(t *testing.T) {
	for _, p := range []Curve{PureCurve(0), PureCurve(0.7), PureCurve(40), GaussianCurve(0.2), GaussianCurve(3),
		Budget{1, 1e-3}.Profile().Delta, Budget{0.5, 0}.Profile().Delta} {
		shape(t, p)
	}
	require.Zero(t, PureCurve(0.7)(0.7))
	require.Zero(t, PureCurve(0.7)(2))
	require.InEpsilon(t, (math.Exp(0.7)-1)/(math.Exp(0.7)+1), PureCurve(0.7)(0),
		1e-15) // total variation of randomized response
	require.Equal(t, -math.Expm1(-3), PureCurve(0.7)(-3))
	require.Equal(t, 1e-3, Budget{1, 1e-3}.Profile().Delta(1))
	for _, p := range []Curve{PureCurve(-1), PureCurve(math.NaN()), PureCurve(math.Inf(1)), Budget{}.Profile().Delta} {
		require.Equal(t, 1., p(1))
	}
	require.Equal(t, 1., PureCurve(1)(math.NaN()))
}

func TestProfileEpsilon(t *testing.T) {
	for _, s := range []float64{0.01, 0.3, 2, 30} {
		for _, delta := range []float64{1e-12, 1e-5, 0.2} {
			eps := GaussianCurve(s).Epsilon(delta)
			require.LessOrEqual(t, GaussianDelta(eps, s), delta)
			if eps > 0 {
				require.Greater(t, GaussianDelta(eps*(1-1e-9)-1e-12, s), delta)
			}
		}
	}
	require.Zero(t, GaussianCurve(0.01).Epsilon(0.2))
	require.Equal(t, math.Inf(1), GaussianCurve(1).Epsilon(-1))
	require.Equal(t, math.Inf(1), GaussianCurve(1e6).Epsilon(1e-5))
	require.Equal(t, math.Inf(1), GaussianCurve(1).Epsilon(math.NaN()))
	require.InEpsilon(t, 2.5, PureCurve(2.5).Epsilon(0), 1e-12)
}

func TestCalibrate(t *testing.T) {
	b := Budget{0.7, 1e-7}
	s, err := Calibrate(GaussianCurve, b)
	require.NoError(t, err)
	sigma, err := GaussianSigma(b, 1)
	require.NoError(t, err)
	require.InEpsilon(t, 1/sigma, s, 1e-11) // the margin of GaussianSigma is 1e-12
	require.LessOrEqual(t, GaussianDelta(0.7, s), 1e-7)

	_, err = Calibrate(GaussianCurve, Budget{})
	require.ErrorIs(t, err, ErrBudget)
	for _, bad := range []float64{1, math.NaN()} { // a family that promises nothing
		_, err = Calibrate(func(float64) Curve { return func(float64) float64 { return bad } }, b)
		require.ErrorIs(t, err, ErrCondition)
	}
	s, err = Calibrate(func(float64) Curve { return PureCurve(0.1) }, b) // private without noise
	require.NoError(t, err)
	require.Equal(t, 0x1p80, s)
}

// A program that fails with probability p on each of two data sets, and is ideal
// else, has at most δ(ε) + (1 + e^ε)p, and no less where the failures are told apart.
func TestProfileFailure(t *testing.T) {
	const p = 1e-6
	ideal := Symmetric(GaussianCurve(1), nil)
	failing := ideal
	failing.Failure = p
	for _, eps := range []float64{-1, 0, 1, 3} {
		require.InEpsilon(t, ideal.Delta(eps)+(1+math.Exp(eps))*p, failing.Delta(eps), 1e-12)
		worst := (1-p)*GaussianDelta(eps, 1) + p // D fails to a point of its own, D′ to another
		require.GreaterOrEqual(t, failing.Delta(eps), worst)
	}
	require.Less(t, failing.Delta(1e9), 2e-3, "δ(ε) ≤ δ(ε′) for ε ≥ ε′")
	require.Equal(t, 1.0, Unknown().Delta(3))
}
