// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package loss_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/loss"
)

// FuzzLoss checks, for every loss, any record inside its bounds and any θ, that no value is NaN,
// that the gradient is φ′ of Scalar times the row, and that the declared constants hold for that
// record: |φ′|‖a‖ ≤ L and 0 ≤ φ″‖a‖² ≤ β.
func FuzzLoss(f *testing.F) {
	for i, v := range []float64{0, 1, -1, 1e-320, 1e150, 1e308, math.NaN(), math.Inf(1), math.Inf(-1), 0.5, 1e-9, -3} {
		f.Add(byte(i), v, 0.5, 1.0, 1.0)
		f.Add(byte(i), 1.0, v, 1.0, 0.25)
		f.Add(byte(i), 1.0, -0.5, v, 1.0)
		f.Add(byte(i), 1.0, 0.5, 1.0, v)
	}
	f.Fuzz(func(t *testing.T, kind byte, theta, a, b, parameter float64) {
		base := []loss.Linear{loss.Squared{}, loss.Logistic{}, loss.Huber{Delta: parameter},
			loss.SmoothedHinge{Gamma: parameter}}[kind%4]
		l := loss.Loss(base)
		if kind&4 != 0 {
			c, err := loss.NewClipped(base, parameter)
			if err != nil {
				return
			}
			l = c
		}
		bounds := loss.Bounds{Row: math.Abs(a), Label: math.Abs(b)}
		if loss.Check(l) != nil || bounds.Check() != nil {
			require.Zero(t, l.Constants(bounds, 1), "an invalid loss must have no constants")
			return
		}
		k := l.Constants(bounds, math.Abs(theta))
		require.False(t, math.IsNaN(k.Lipschitz) || math.IsNaN(k.Smoothness) || k.Lipschitz < 0 || k.Smoothness < 0, "%+v", k)
		if math.Abs(theta) > 1e100 || math.IsNaN(theta) || math.Abs(a) > 1e100 || math.Abs(b) > 1e100 ||
			k.Smoothness > 1e100 ||
			math.Abs(a) < 1e-100 {
			l.Func([]float64{theta}, []float64{a}, b) // must not panic, but values may overflow
			l.Grad([]float64{0}, []float64{theta}, []float64{a}, b)
			return
		}
		u, norm := theta*a, math.Abs(a)
		phi, dphi, d2phi := l.(loss.Linear).Scalar(u, b, norm)
		require.False(t, math.IsNaN(phi) || math.IsNaN(dphi) || math.IsNaN(d2phi), "%v %v %v", phi, dphi, d2phi)
		require.GreaterOrEqual(t, phi, 0.)
		g := []float64{0}
		l.Grad(g, []float64{theta}, []float64{a}, b)
		require.InDelta(t, dphi*a, g[0], 1e-12*math.Abs(dphi*a)+1e-300)
		// The constants are rounded up by less than the products here lose to rounding, which is a few
		// units in the last place of their terms.
		slack := 1e-14 * (math.Abs(u) + math.Abs(b) + parameterSize(parameter)) * norm
		require.LessOrEqual(t, math.Abs(dphi)*norm, k.Lipschitz*(1+1e-14)+slack, "%T %+v", l, k)
		require.True(t, d2phi >= 0 && d2phi*norm*norm <= k.Smoothness*(1+1e-14), "%T φ″ = %v, %+v", l, d2phi, k)
		if i, ok := l.(loss.Interpolator); ok {
			if label, ok := i.Interpolate(u, b); ok {
				require.False(t, math.IsNaN(label))
			}
		}
		if c, ok := l.(loss.Clippable); ok && parameter > 0 {
			lo, hi := c.ClipPoints(b, parameter)
			require.False(t, math.IsNaN(lo) || math.IsNaN(hi) || lo > hi, "%v %v", lo, hi)
		}
	})
}

func parameterSize(p float64) float64 {
	if p = math.Abs(p); p < 1e100 {
		return p
	}
	return 0
}
