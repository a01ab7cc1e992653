// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package num

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGaussLegendre(t *testing.T) {
	for _, n := range []int{1, 2, 3, 16, 100, 400} {
		x, w := GaussLegendre(n)
		require.Len(t, x, n)
		require.IsNonDecreasing(t, append([]float64{-1}, x...))
		var sum, second, high float64
		for i := range x {
			sum += w[i]
			second += w[i] * x[i] * x[i]
			high += w[i] * math.Pow(x[i], float64(2*n-2))
		}
		relative(t, 2, sum, 1e-14)
		relative(t, 2/float64(2*n-1), high, 1e-12)
		if n > 1 {
			relative(t, 2./3, second, 1e-14)
		}
	}
	x, _ := GaussLegendre(16)
	y, _ := GaussLegendre(16)
	require.Same(t, &x[0], &y[0])
	require.Panics(t, func() { GaussLegendre(0) })
}

// TestPanels: ∫₀^∞ s^{k−1} e^{−s²/2} ds = 2^{k/2−1}Γ(k/2), cut at any point.
func TestPanels(t *testing.T) {
	for _, k := range []float64{1, 2.5, 7, 60} {
		f := func(s float64) float64 { return math.Exp((k-1)*math.Log(s) - s*s/2) }
		width := func(s float64) float64 { return math.Min(s/2, math.Min(1, 8/math.Max(math.Abs(k/s-s), 8))) }
		mode := math.Sqrt(k)
		lg, _ := math.Lgamma(k / 2)
		want := math.Exp((k/2-1)*math.Ln2 + lg)
		for _, cut := range []float64{0.3, 1, 3, 9} {
			got := PanelsDown(cut, math.Min(mode, cut), width, f) + PanelsUp(cut, math.Max(mode, cut), width, f)
			require.InEpsilon(t, want, got, 1e-12, "k = %v, cut at %v", k, cut)
		}
	}
	require.InEpsilon(t, 1-math.Exp(-1), Panel(0, 1, func(s float64) float64 { return math.Exp(-s) }), 1e-15)
}
