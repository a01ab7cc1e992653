// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package dp

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRangeIsAttained: each bound is attained by two laws on two points, whose losses are a and
// a − η, and no such pair exceeds it.
func TestRangeIsAttained(t *testing.T) {
	for _, eta := range []float64{0.01, 0.1, 1, 5, 15} {
		curve, rdp := RangeCurve(eta), RangeRDP(eta)
		for _, eps := range []float64{-0.9 * eta, -eta / 2, 0, eta / 3, 0.9 * eta} {
			most := 0.0
			for i := range 4001 {
				a := eta * float64(i) / 4000
				// q has mass w at the loss a, where p has e^a w
				w := math.Expm1(eta-a) / math.Expm1(eta)
				stick := w*max(0, math.Exp(a)-math.Exp(eps)) + (1-w)*max(0, math.Exp(a-eta)-math.Exp(eps))
				require.LessOrEqual(t, stick, curve(eps)+1e-14, "η = %v, ε = %v", eta, eps)
				most = max(most, stick)
			}
			require.InEpsilon(t, curve(eps), most, 1e-4)
			require.LessOrEqual(t, curve(eps), PureCurve(eta)(eps)*(1+1e-14))
		}
		for _, alpha := range []float64{1.001, 1.5, 2, 7, 40} {
			most := 0.0
			for i := range 4001 {
				a := eta * float64(i) / 4000
				w := math.Expm1(eta-a) / math.Expm1(eta)
				moment := w*math.Exp(alpha*a) + (1-w)*math.Exp(alpha*(a-eta))
				most = max(most, math.Log(moment)/(alpha-1))
			}
			require.LessOrEqual(t, most, rdp(alpha)+1e-12, "η = %v, α = %v", eta, alpha)
			require.InDelta(t, rdp(alpha), most, 1e-4*rdp(alpha)+1e-11)
			require.LessOrEqual(t, rdp(alpha), min(eta, alpha*eta*eta/8*(1+1e-15)))
			require.LessOrEqual(t, rdp(alpha), PureRDP(eta)(alpha)*(1+1e-12))
		}
	}
	for _, bad := range []float64{-1, math.NaN(), math.Inf(1)} {
		require.Equal(t, 1., RangeCurve(bad)(0.1))
		require.Equal(t, math.Inf(1), RangeRDP(bad)(2))
	}
	require.Equal(t, math.Inf(1), RangeRDP(1)(1))
	require.Equal(t, 1., RangeCurve(1)(math.NaN()))
	require.Equal(t, 1., RangeRDP(1)(math.Inf(1)))
	require.Zero(t, RangeRDP(0)(2))
	require.Equal(t, -math.Expm1(-2), RangeCurve(0)(-2))
	require.Zero(t, RangeCurve(0)(0))
}

// TestComposeRange: releases of bounded range compose to the figures of docs/theory, by Rényi
// curves, which beat the profiles: the pair of laws that attains a profile differs from one ε to
// the next.
func TestComposeRange(t *testing.T) {
	for _, c := range []struct {
		eta, want float64
		times     int
	}{{0.1, 0.652, 10}, {0.1, 2.40, 100}, {0.3, 2.09, 10}, {0.3, 8.22, 100}} {
		plan := planOf(0, Symmetric(RangeCurve(c.eta), RangeRDP(c.eta)))
		var plans []*fixed
		for range c.times {
			plans = append(plans, plan)
		}
		cert, err := Compose(1e-6, plansOf(plans...)...)
		require.NoError(t, err)
		require.InEpsilon(t, c.want, cert.Epsilon, 3e-3)
		for i := range plans {
			plans[i] = planOf(0, Symmetric(RangeCurve(c.eta), nil))
		}
		loose, err := Compose(1e-6, plansOf(plans...)...)
		require.NoError(t, err)
		require.Greater(t, loose.Epsilon, 1.04*cert.Epsilon)
	}
}
