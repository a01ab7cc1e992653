// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package testkit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/num"
)

// record counts failures instead of failing.
type record struct{ failures []string }

func (r *record) Helper() {}
func (r *record) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

// bites requires that check fails.
func bites(t *testing.T, check func(*record)) {
	t.Helper()
	var r record
	check(&r)
	require.NotEmpty(t, r.failures)
}

func TestLaws(t *testing.T) {
	x := make([]float64, 20000)
	noise.Normal(x, 1, rand.NewPCG(3, 4))
	CheckLaw(t, x, num.NormalCDF)
	for _, cdf := range []func(float64) float64{
		func(v float64) float64 { return num.NormalCDF(v / 1.05) }, // 5 % too little noise
		func(v float64) float64 { return num.NormalCDF(v - 0.05) },
		func(float64) float64 { return math.NaN() },
	} {
		bites(t, func(r *record) { CheckLaw(r, x, cdf) })
	}
	bites(t, func(r *record) { CheckLaw(r, x[:10], num.NormalCDF) })

	d, p := KolmogorovSmirnov([]float64{0.9, 0.1}, func(v float64) float64 { return v })
	require.InDelta(t, 0.4, d, 1e-15)
	require.Equal(t, 1., p) // 2e^{-0.64} > 1
	d, p = KolmogorovSmirnov(nil, num.NormalCDF)
	require.Zero(t, d)
	require.Equal(t, 1., p)

	stat, p := ChiSquare([]int{30, 70}, []float64{0.5, 0.5})
	require.Equal(t, 16., stat)
	require.InEpsilon(t, 2*num.NormalCDF(-4), p, 1e-12)
	stat, p = ChiSquare([]int{1, 9, 0}, []float64{0, 1, 0})
	require.Equal(t, math.Inf(1), stat)
	require.Zero(t, p)
	require.Panics(t, func() { ChiSquare([]int{1}, []float64{0.5, 0.5}) })
	require.Panics(t, func() { ChiSquare([]int{1}, []float64{1}) })
}

func TestClopperPearson(t *testing.T) {
	// k = 0 and k = n have closed forms.
	lo, hi := ClopperPearson(0, 100, 0.01)
	require.Zero(t, lo)
	require.InEpsilon(t, 1-math.Pow(0.005, 0.01), hi, 1e-10)
	lo, hi = ClopperPearson(100, 100, 0.01)
	require.InEpsilon(t, math.Pow(0.005, 0.01), lo, 1e-10)
	require.Equal(t, 1., hi)
	// In between: the binomial tails at the limits, summed here.
	lo, hi = ClopperPearson(7, 40, 0.02)
	var above, below float64
	for k := 0; k <= 40; k++ {
		c, _ := math.Lgamma(41)
		a, _ := math.Lgamma(float64(k + 1))
		b, _ := math.Lgamma(float64(41 - k))
		if k >= 7 {
			above += math.Exp(c - a - b + float64(k)*math.Log(lo) + float64(40-k)*math.Log1p(-lo))
		}
		if k <= 7 {
			below += math.Exp(c - a - b + float64(k)*math.Log(hi) + float64(40-k)*math.Log1p(-hi))
		}
	}
	require.InEpsilon(t, 0.01, above, 1e-10)
	require.InEpsilon(t, 0.01, below, 1e-10)
	for _, f := range []func(){func() { ClopperPearson(-1, 3, 0.1) }, func() { ClopperPearson(4, 3, 0.1) },
		func() { ClopperPearson(0, 0, 0.1) }} {
		require.Panics(t, f)
	}
}
