// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package loss_test

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"pgregory.net/rapid"

	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/loss/losstest"
)

func TestHinge(t *testing.T)              { losstest.Check(t, loss.Hinge{}) }
func TestAbsolute(t *testing.T)           { losstest.Check(t, loss.Absolute{}) }
func TestPinball(t *testing.T)            { losstest.Check(t, loss.Pinball{Tau: 0.2}) }
func TestEpsilonInsensitive(t *testing.T) { losstest.Check(t, loss.EpsilonInsensitive{Epsilon: 0.3}) }

func TestMultinomial(t *testing.T) {
	// With 7 classes, the 5 coordinates of the tests leave no features.
	for _, k := range []int{2, 5, 7} {
		losstest.Check(t, loss.Multinomial{Classes: k})
	}
	// With two classes, the loss is that of logistic regression in θ₁ − θ₀.
	theta, x := []float64{0.3, -1, 0.8, 0.4}, []float64{0.5, 0.2, 0, 0}
	diff := []float64{0.5, 1.4}
	require.InDelta(t, loss.Logistic{}.Func(diff, x[:2], 1), loss.Multinomial{Classes: 2}.Func(theta, x, 1), 1e-15)
	require.InDelta(t, loss.Logistic{}.Func(diff, x[:2], -1), loss.Multinomial{Classes: 2}.Func(theta, x, -3), 1e-15)
	// Labels are rounded and clamped to a class, and scores of any size do not overflow.
	l := loss.Multinomial{Classes: 2}
	require.Equal(t, l.Func(theta, x, 1), l.Func(theta, x, 1e300))
	require.Equal(t, l.Func(theta, x, 0), l.Func(theta, x, math.NaN()))
	floats.Scale(1e6, theta)
	require.InEpsilon(t, 530000, l.Func(theta, x, 0), 1e-12)
	require.ErrorIs(t, loss.Multinomial{Classes: 1}.Check(), loss.ErrParameter)
	require.Zero(t, loss.Multinomial{}.Constants(loss.Bounds{Row: 1, Label: 1}, 1))
}

func TestKinkedRefuse(t *testing.T) {
	for _, l := range []loss.Loss{
		loss.Pinball{}, loss.Pinball{Tau: 1}, loss.Pinball{Tau: math.NaN()},
		loss.EpsilonInsensitive{Epsilon: -1}, loss.EpsilonInsensitive{Epsilon: math.Inf(1)},
		loss.EpsilonInsensitive{Epsilon: math.NaN()},
		loss.Moreau{}, loss.Moreau{Loss: loss.Hinge{}}, loss.Moreau{Loss: loss.Pinball{}, Beta: 1},
		loss.Moreau{Loss: loss.Hinge{}, Beta: math.Inf(1)},
	} {
		require.ErrorIs(t, loss.Check(l), loss.ErrParameter)
		require.Zero(t, l.Constants(loss.Bounds{Row: 1, Label: 1}, 1))
	}
	require.PanicsWithValue(t, "loss: Moreau without a loss", func() { loss.Moreau{}.Scalar(0, 0, 1) })
}

func linears() []loss.Linear {
	return []loss.Linear{loss.Hinge{}, loss.Absolute{}, loss.Pinball{Tau: 0.9}, loss.EpsilonInsensitive{Epsilon: 0.3}}
}

func TestMoreau(t *testing.T) {
	for _, l := range append(linears(), loss.Logistic{}, loss.Huber{Delta: 0.5}, opaque{loss.Hinge{}},
		opaque{loss.Absolute{}}) {
		for _, beta := range []float64{0.5, 4} {
			losstest.Check(t, loss.Moreau{Loss: l, Beta: beta})
		}
	}
}

// TestProxSlopeTwoWays compares the Moreau envelope from closed forms with the one from bisection.
// They agree to the rounding of u divided by κ = ‖a‖²/β.
func TestProxSlopeTwoWays(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := rapid.SampledFrom(linears()).Draw(rt, "loss")
		u := rapid.Float64Range(-4, 4).Draw(rt, "u")
		b := rapid.Float64Range(-1, 1).Draw(rt, "b")
		norm := rapid.Float64Range(0.01, 3).Draw(rt, "norm")
		beta := math.Exp(rapid.Float64Range(-3, 5).Draw(rt, "log beta"))
		p, g, _ := loss.Moreau{Loss: l, Beta: beta}.Scalar(u, b, norm)
		q, h, _ := loss.Moreau{Loss: opaque{l}, Beta: beta}.Scalar(u, b, norm)
		kappa := norm * norm / beta
		require.InDelta(rt, g, h, 1e-14*(1+1/kappa))
		require.InDelta(rt, p, q, 1e-14*(1+1/kappa))

		// The envelope satisfies ℓ_β ≤ ℓ ≤ ℓ_β + L²/(2β) and is at most ℓ(v) + (v−u)²/(2κ) for every v.
		phi, _, _ := l.Scalar(u, b, norm)
		require.LessOrEqual(rt, p, phi+1e-14)
		require.LessOrEqual(rt, phi, p+kappa/2+1e-14) // since |φ′| ≤ 1
		v := u + rapid.Float64Range(-3, 3).Draw(rt, "v")
		at, _, _ := l.Scalar(v, b, norm)
		require.LessOrEqual(rt, p, at+(v-u)*(v-u)/(2*kappa)+1e-12)
	})
}

func TestMoreauGolden(t *testing.T) {
	raw, err := os.ReadFile("testdata/moreau_prox.json")
	require.NoError(t, err)
	var g struct {
		Scalar []struct {
			Loss            string
			U0, Y, Kappa, G float64
			Param           float64
			Prox            float64 `json:"prox_u"`
			Envelope        float64
		}
		Vector struct {
			X, W, Prox  []float64
			Y, Beta, G  float64
			Grad        []float64 `json:"grad_envelope"`
			Kappa, U0   float64
			EnvelopeVal float64 `json:"envelope"`
		} `json:"vector_hinge"`
	}
	require.NoError(t, json.Unmarshal(raw, &g))
	require.Len(t, g.Scalar, 9)
	for _, v := range g.Scalar {
		l := map[string]loss.Linear{"hinge": loss.Hinge{}, "absolute": loss.Absolute{}, "pinball": loss.Pinball{Tau: v.Param},
			"epsins": loss.EpsilonInsensitive{Epsilon: v.Param}}[v.Loss]
		for _, l := range []loss.Linear{l, opaque{l}} {
			phi, slope, _ := loss.Moreau{Loss: l, Beta: 1 / v.Kappa}.Scalar(v.U0, v.Y, 1) // κ = ‖a‖²/β
			require.InDelta(t, v.G, slope, 1e-14)
			require.InDelta(t, v.Envelope, phi, 1e-14)
			require.InDelta(t, v.Prox, v.U0-v.Kappa*slope, 1e-14)
		}
	}
	m := loss.Moreau{Loss: loss.Hinge{}, Beta: g.Vector.Beta}
	grad := make([]float64, 3)
	m.Grad(grad, g.Vector.W, g.Vector.X, g.Vector.Y)
	require.InDeltaSlice(t, g.Vector.Grad, grad, 1e-14)
	require.InDelta(t, g.Vector.EnvelopeVal, m.Func(g.Vector.W, g.Vector.X, g.Vector.Y), 1e-14)
	floats.AddScaledTo(grad, g.Vector.W, -1/g.Vector.Beta, grad) // w − ∇/β
	require.InDeltaSlice(t, g.Vector.Prox, grad, 1e-14)
}
