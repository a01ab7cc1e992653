// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package sco

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/loss"
)

// The envelope of a loss that hides its form, by the inner solver, agrees with
// that of the loss of ⟨a,w⟩, to the accuracy that is asked for.
func TestEnvelopeTwoWays(t *testing.T) {
	w, a := []float64{0.4, -0.2, 1}, []float64{0.6, 0.1, -0.5}
	got, want := make([]float64, 3), make([]float64, 3)
	for _, l := range []loss.Linear{loss.Logistic{}, loss.Huber{Delta: 0.3}, loss.SmoothedHinge{Gamma: 0.5}} {
		for _, beta := range []float64{0.1, 1, 20} {
			for _, b := range []float64{-1, 0.7} {
				e := envelope{general{l}, beta, l.Constants(loss.Bounds{Row: 1, Label: 1}, 10).Smoothness, 1e-9}
				e.Grad(got, w, a, b)
				loss.Moreau{Loss: l, Beta: beta}.Grad(want, w, a, b)
				require.InDeltaSlice(t, want, got, 1e-8)
			}
		}
	}
	// With a kink the subgradient method is within 4L/√(K+1) of it.
	e := envelope{general{loss.Absolute{}}, 2, math.Inf(1), 1e-9}
	e.Grad(got, w, a, 0.1)
	loss.Moreau{Loss: loss.Absolute{}, Beta: 2}.Grad(want, w, a, 0.1)
	require.Less(t, floats.Distance(got, want, 2), 4*floats.Norm(a, 2)/math.Sqrt(innerSteps+1))
}

// ProxGD serves losses of any form.
func TestProxGDGeneral(t *testing.T) {
	p := problem(6, 60, 2)
	p.Loss = loss.Multinomial{Classes: 2}
	m := &ProxGD{NoisySGD: NoisySGD{Steps: 20, Batch: 20}}
	rel, err := m.Fit(ctx, p, dp.Budget{Epsilon: 1, Delta: 1e-4}, noise.Reproducible(1))
	require.NoError(t, err)
	require.False(t, floats.HasNaN(rel.Theta))
}
