// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package audit

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/testkit"
)

// matrix returns n rows of k independent standard normals.
func matrix(n, k int, rnd *rand.Rand) [][]float64 {
	z := make([][]float64, n)
	for i := range z {
		z[i] = make([]float64, k)
		for j := range z[i] {
			z[i][j] = rnd.NormFloat64()
		}
	}
	return z
}

// least returns the name and the p-value of the test with the least p-value.
func least(tests []Test) (name string, p float64) {
	p = math.Inf(1)
	for _, t := range tests {
		if t.P < p {
			name, p = t.Name, t.P
		}
	}
	return name, p
}

// The p-values of correct scores are at most u with probability at most u, up to the asymptotics of
// the χ² cells: counts of 4000 matrices at u = 0.05 and 0.001, with confidence 1 − 1e-6.
func TestScoresFalseAlarms(t *testing.T) {
	rnd := rand.New(rand.NewPCG(11, 1))
	const reps = 4000
	low := map[string][2]int{}
	for range reps {
		for _, test := range scoreTests(matrix(250, 4, rnd)) {
			c := low[test.Name]
			for i, u := range []float64{0.05, 0.001} {
				if test.P < u {
					c[i]++
				}
			}
			low[test.Name] = c
		}
	}
	require.Len(t, low, 6)
	for name, c := range low {
		for i, u := range []float64{0.05, 0.001} {
			lo, _ := testkit.ClopperPearson(c[i], reps, 2*testkit.FalseReject)
			require.LessOrEqual(t, lo, u, "%s: %d of %d below %v", name, c[i], reps, u)
		}
	}
	for _, name := range []string{"size", "mean", "pairs"} { // these p-values are exact
		_, hi := testkit.ClopperPearson(low[name][0], reps, 2*testkit.FalseReject)
		require.GreaterOrEqual(t, hi, 0.045, name)
	}
}

// TestScoresBite spoils scores in several ways. Each is seen at a p-value far below 1e-7.
func TestScoresBite(t *testing.T) {
	rnd := rand.New(rand.NewPCG(12, 1))
	scale := func(s float64) func(z [][]float64) {
		return func(z [][]float64) {
			for _, row := range z {
				for j := range row {
					row[j] *= s
				}
			}
		}
	}
	for name, c := range map[string]struct {
		spoil func(z [][]float64)
		by    string
	}{
		"too little": {scale(0.95), "size"},
		"too much":   {scale(1.05), "size"},
		"shifted": {func(z [][]float64) {
			for _, row := range z {
				row[2] += 0.1
			}
		}, "mean"},
		"repeated": {func(z [][]float64) {
			for t := 1; t < len(z); t += 2 {
				copy(z[t], z[t-1])
			}
		}, "order"},
		"one draw for two coordinates": {func(z [][]float64) {
			for _, row := range z {
				row[3] = row[1]
			}
		}, "pairs"},
		"Laplace of variance 1": {func(z [][]float64) {
			for _, row := range z {
				for j, v := range row {
					u := num.NormalCDF(-math.Abs(v)) * 2
					row[j] = math.Copysign(-math.Log(u)/math.Sqrt2, v)
				}
			}
		}, "cells"},
		"not finite": {func(z [][]float64) { z[7][1] = math.NaN() }, "finite"},
		"infinite":   {func(z [][]float64) { z[7][1] = math.Inf(-1) }, "finite"},
	} {
		z := matrix(5000, 4, rnd)
		c.spoil(z)
		by, p := least(scoreTests(z))
		require.Less(t, p, 1e-8, name)
		require.Equal(t, c.by, by, name)
	}
	cached := matrix(5000, 1, rnd)
	for i := range cached {
		cached[i][0] = cached[0][0]
	}
	_, p := least(scoreTests(cached))
	require.Zero(t, p)
}

// TestScorePower measures the power of the white box: at a false alarm of 1e-6 over its five tests,
// 20 000 scores see a scale that is wrong by 5 % in either direction with probability 0.99.
func TestScorePower(t *testing.T) {
	if testing.Short() {
		t.Skip("2000 samples of 20 000 scores")
	}
	rnd := rand.New(rand.NewPCG(13, 1))
	const n, reps = 20_000, 1000
	require.Greater(t, scalePower(n, 0.05, testkit.FalseReject/5), 0.9999)
	z := make([]float64, n)
	for _, s := range []float64{0.95, 1.05} {
		seen := 0
		for range reps {
			for i := range z {
				z[i] = s * rnd.NormFloat64()
			}
			if sizeTest(z) < testkit.FalseReject/5 {
				seen++
			}
		}
		lo, _ := testkit.ClopperPearson(seen, reps, 0.01)
		t.Logf("scale %v: %d of %d seen", s, seen, reps)
		require.Greater(t, lo, 0.99)
	}
}

func TestScalePower(t *testing.T) {
	require.Greater(t, scalePower(12_000, 0.05, testkit.FalseReject/6), 0.99)
	require.Less(t, scalePower(9_000, 0.05, testkit.FalseReject/6), 0.99)
	require.Greater(t, scalePower(100, 0.5, testkit.FalseReject), scalePower(100, 0.4, testkit.FalseReject))
	// A simulation for a middling power, the smaller of both directions: ±5σ of a count of 4000.
	rnd := rand.New(rand.NewPCG(14, 1))
	const n, reps = 2000, 4000
	want := scalePower(n, 0.07, 1e-3)
	power, z := 1.0, make([]float64, n)
	for _, s := range []float64{0.93, 1.07} {
		seen := 0
		for range reps {
			for i := range z {
				z[i] = s * rnd.NormFloat64()
			}
			if sizeTest(z) < 1e-3 {
				seen++
			}
		}
		power = math.Min(power, float64(seen)/reps)
	}
	require.InDelta(t, want, power, 5*math.Sqrt(want*(1-want)/reps))
	require.InDelta(t, 0.8, want, 0.18, "middling")
	for _, f := range []func(){
		func() { scalePower(0, 0.1, 0.1) },
		func() { scalePower(9, 1, 0.1) },
		func() { scalePower(9, math.NaN(), 0.1) },
		func() { scalePower(9, 0.1, 0) },
		func() { scoreTests(make([][]float64, 99)) },
		func() { scoreTests(make([][]float64, 100)) },
		func() { z := matrix(100, 2, rnd); z[4] = z[4][:1]; scoreTests(z) },
		func() { testkit.SampleBound(make([][]float64, 200), make([][]float64, 99), 0) },
	} {
		require.Panics(t, f)
	}
}

// A score improves the bound: two laws on the line differ in their spread around two points, which
// no threshold on the coordinate shows well.
func TestBoundWithScore(t *testing.T) {
	rnd := rand.New(rand.NewPCG(15, 1))
	draw := func(s float64) (x [][]float64) {
		for range 20_000 {
			x = append(x, []float64{math.Copysign(3, rnd.Float64()-0.5) + s*rnd.NormFloat64()})
		}
		return x
	}
	x, y := draw(0.3), draw(0.9)
	score := func(v []float64) float64 { return math.Abs(math.Abs(v[0]) - 3) }
	blind, informed := testkit.SampleBound(x, y, 0.01), testkit.SampleBound(x, y, 0.01, score)
	require.Greater(t, informed, blind+0.3)
}
