// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package sco

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/noise"
)

func TestSVRGGolden(t *testing.T) {
	var g struct {
		Values []struct {
			N            int
			Beta, Lambda float64
			Proximal     map[string]float64
		}
	}
	readGolden(t, "svrg", &g)
	require.Len(t, g.Values, 2)
	for _, v := range g.Values {
		want := v.Proximal
		s, ok := newSVRGSchedule(v.N, v.Beta, v.Lambda, want["gap0"], want["target"])
		require.True(t, ok)
		require.InEpsilon(t, want["eta"], s.stepSize, 1e-12)
		require.EqualValues(t, want["inner"], s.inner)
		require.InEpsilon(t, want["rho"], factor(s, v.Beta, v.Lambda), 1e-12)
		require.EqualValues(t, want["epochs_for_gap_ratio"], s.epochs)
		require.EqualValues(t, want["gradient_evaluations"], s.evaluations)
	}
	_, ok := newSVRGSchedule(10, 1, 0, 1, 1)
	require.False(t, ok)
}

// factor returns ρ, by which an epoch shrinks the expected gap at least.
func factor(s svrgSchedule, beta, lambda float64) float64 {
	m, h := float64(s.inner), 4*(beta+2*lambda)*s.stepSize
	return 1/(2*lambda*s.stepSize*(1-h)*m) + h*(m+1)/((1-h)*m)
}

// SVRG at n = 1e5 reaches its certificate with far fewer gradients than 30 n log₂ n.
func TestSVRGEvaluations(t *testing.T) {
	if testing.Short() {
		t.Skip("1e5 records take seconds")
	}
	n, d := 100000, 10
	p := problem(3, n, d)
	var tr erm.Trace
	m := &ObjPert{SVRG: true, Trace: func(t erm.Trace) { tr = t }}
	rel, err := m.Fit(context.Background(), p, dp.Budget{Epsilon: 1, Delta: 1e-10}, noise.Reproducible(1))
	require.NoError(t, err)
	require.True(t, tr.Certified)
	limit := 30 * float64(n) * math.Log2(float64(n))
	t.Logf("%d gradients, %.2g of 30 n log₂ n, distance %.2g", tr.GradTerms, float64(tr.GradTerms)/limit, tr.Distance)
	require.Less(t, float64(tr.GradTerms), limit/4)

	// Newton from the same source releases the same point, up to the output noise.
	other, err := (&ObjPert{}).Fit(context.Background(), p, dp.Budget{Epsilon: 1, Delta: 1e-10}, noise.Reproducible(1))
	require.NoError(t, err)
	plan, err := m.Plan(p, dp.Budget{Epsilon: 1, Delta: 1e-10})
	require.NoError(t, err)
	require.Less(t, floats.Distance(rel.Theta, other.Theta, 2), 2*plan.Params().Cover+1e-15)
}

// FuzzSVRG: a schedule is one of positive finite numbers, or refused.
func FuzzSVRG(f *testing.F) {
	for i, v := range []float64{0, -1, math.NaN(), math.Inf(1), 5e-324, 1e-9, 1e6, 1e308} {
		f.Add(100, v, 1.0, 1.0, 0.1)
		f.Add(i-1, 1.0, v, 1.0, 0.1)
		f.Add(i, 1.0, 1.0, v, 0.1)
		f.Add(math.MaxInt, 1.0, 1.0, 1.0, v)
	}
	f.Fuzz(func(t *testing.T, n int, beta, lambda, gap, target float64) {
		s, ok := newSVRGSchedule(n, beta, lambda, gap, target)
		if !ok {
			return
		}
		require.True(t, s.stepSize > 0 && !math.IsInf(s.stepSize, 1), "%+v", s)
		require.True(t, s.inner > 0 && s.epochs > 0 && s.evaluations >= s.inner, "%+v", s)
		require.True(t, factor(s, beta, lambda) > 0 && factor(s, beta, lambda) < 1, "%+v", s)
	})
}
