// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package loss_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/loss/losstest"
)

func TestPseudoHuber(t *testing.T) { losstest.Check(t, loss.PseudoHuber{Delta: 0.8}) }
func TestLogCosh(t *testing.T)     { losstest.Check(t, loss.LogCosh{Delta: 0.8}) }
func TestRootHinge(t *testing.T)   { losstest.Check(t, loss.RootHinge{Width: 0.7}) }
func TestSoftClipped(t *testing.T) {
	// At 3 the third derivative stays below 1, the bound that Check assumes.
	for _, threshold := range []float64{3, 30} {
		losstest.Check(t, loss.SoftClipped{Threshold: threshold})
	}
}

func TestClippedEnvelope(t *testing.T) {
	for _, l := range []loss.Linear{loss.PseudoHuber{Delta: 0.8}, loss.LogCosh{Delta: 2}, loss.RootHinge{Width: 1}} {
		losstest.Check(t, loss.Clipped{Loss: l, Threshold: 0.4})
	}
}

// TestEnvelopeIsAttained checks that the envelopes of package loss cannot be smaller: for a row
// whose norm equals its bound, at the prediction where the gradient has norm g, the curvature
// equals the envelope of [g, g].
func TestEnvelopeIsAttained(t *testing.T) {
	bounds := loss.Bounds{Row: 1.7, Label: 1}
	for _, l := range []loss.Envelope{
		loss.Logistic{}, loss.PseudoHuber{Delta: 0.8}, loss.LogCosh{Delta: 1.3}, loss.RootHinge{Width: 0.5},
		loss.SoftClipped{Threshold: 0.9},
		loss.Clipped{Loss: loss.Logistic{}, Threshold: 0.6}, loss.Moreau{Loss: loss.Logistic{}, Beta: 0.5},
	} {
		sup, least := l.Constants(bounds, math.Inf(1)).Lipschitz, -1.0
		if l.Constants(bounds, 1).Monotone {
			least = -60
		}
		for p := 0.02; p < 0.995; p += 0.0137 {
			g := p * sup
			u, _ := num.Bisect(func(u float64) bool {
				_, s, _ := l.Scalar(-u, 1, bounds.Row)
				return bounds.Row*math.Abs(s) <= g
			}, least, 60)
			_, _, h := l.Scalar(-u, 1, bounds.Row)
			require.InEpsilon(t, l.Envelope(bounds, g, g), bounds.Row*bounds.Row*h, 1e-8, "%#v at %v", l, p)
		}
	}
}

// TestEnvelopeFormulas compares the envelopes with closed forms, also over intervals, where the
// envelope is the largest value of the formula.
func TestEnvelopeFormulas(t *testing.T) {
	b := loss.Bounds{Row: 2, Label: 1}
	for _, p := range []float64{0, 0.1, 0.3, 0.5, 0.8, 1} {
		require.InDelta(t, 4*p*(1-p), loss.Logistic{}.Envelope(b, 2*p, 2*p), 2e-11)
		require.InDelta(t, 4*math.Pow(1-p*p, 1.5), loss.PseudoHuber{Delta: 3}.Envelope(b, 6*p, 6*p), 2e-11)
		require.InDelta(t, 4*(1-p*p), loss.LogCosh{Delta: 3}.Envelope(b, 6*p, 6*p), 4e-11)
		require.InDelta(t, 4*4/0.5*math.Pow(p*(1-p), 1.5), loss.RootHinge{Width: 0.5}.Envelope(b, 2*p, 2*p), 1e-10)
		require.InDelta(t, 4*math.Pow(1-p*p, 1.5), loss.SoftClipped{Threshold: 3}.Envelope(b, 3*p, 3*p), 2e-11)
	}
	require.InEpsilon(t, 1, loss.Logistic{}.Envelope(b, 0, 2), 1e-11)
	require.InEpsilon(t, 4*0.21, loss.Logistic{}.Envelope(b, 0, 0.6), 1e-11)
	require.InEpsilon(t, 4*0.21, loss.Logistic{}.Envelope(b, 1.4, 2), 1e-11)
	require.InEpsilon(t, 4*(1-0.09), loss.LogCosh{Delta: 3}.Envelope(b, 1.8, 6), 1e-11)
	require.Equal(t, loss.Huber{Delta: 1}.Constants(b, 1).Smoothness, loss.Clipped{Loss: loss.Huber{Delta: 1},
		Threshold: 1}.Envelope(b, 0.5,
		1))
	require.InEpsilon(t, 0.5/(1+0.5/0.3), loss.Moreau{Loss: loss.Logistic{},
		Beta: 0.3}.Envelope(loss.Bounds{Row: math.Sqrt2, Label: 1}, 0, 9),
		1e-11)
	require.InEpsilon(t, 0.3, loss.Moreau{Loss: loss.Hinge{}, Beta: 0.3}.Envelope(b, 0, 9), 1e-11)
}

// TestSoftClippedIsPseudoHuber checks that SoftClipped is PseudoHuber with a threshold on the norm
// of the gradient, and close to the squared loss where the gradient is small.
func TestSoftClippedIsPseudoHuber(t *testing.T) {
	for _, u := range []float64{-3, -0.2, 1e-3, 4} {
		phi, dphi, d2phi := loss.SoftClipped{Threshold: 0.6}.Scalar(u, 0.5, 2)
		phi2, dphi2, d2phi2 := loss.PseudoHuber{Delta: 0.3}.Scalar(u, 0.5, 0)
		require.Equal(t, [3]float64{phi2, dphi2, d2phi2}, [3]float64{phi, dphi, d2phi})
	}
	_, dphi, _ := loss.SoftClipped{Threshold: 1e6}.Scalar(1.5, 0.5, 1)
	require.InEpsilon(t, 1, dphi, 1e-11)
}
