// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package noise

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// The exact samplers against their probabilities, in cells of more than five expected draws.
func TestDiscreteLaws(t *testing.T) {
	const n = 200_000
	src := Reproducible(11, "discrete")
	for _, scale := range []uint64{1, 2, 7, 1000} {
		width := int64(max(1, scale/4))
		cells := 14 // beyond them the last cell
		geometric, laplace := make([]float64, cells+1), make([]float64, 2*cells+1)
		for range n {
			geometric[min(int64(cells), int64(Geometric(scale, src))/width)]++
			k := DiscreteLaplace(scale, src)
			laplace[int64(cells)+max(-int64(cells), min(int64(cells), floorDiv(k, width)))]++
		}
		tail := func(k int64) float64 { return math.Exp(-float64(k) / float64(scale)) } // P(K ≥ k)
		want := make([]float64, cells+1)
		for i := range want {
			want[i] = n * tail(int64(i)*width)
			if i < cells {
				want[i] -= n * tail(int64(i+1)*width)
			}
		}
		chiSquare(t, fmt.Sprintf("geometric%d", scale), geometric, want)

		q := math.Exp(-1 / float64(scale))
		cdf := func(k int64) float64 { // P(K < k) of the two-sided law
			if k > 0 {
				return 1 - math.Pow(q, float64(k))/(1+q)
			}
			return math.Pow(q, float64(1-k)) / (1 + q)
		}
		want = make([]float64, 2*cells+1)
		for i := range want {
			lo, hi := 0., 1.
			if i > 0 {
				lo = cdf(int64(i-cells) * width)
			}
			if i < 2*cells {
				hi = cdf(int64(i-cells+1) * width)
			}
			want[i] = n * (hi - lo)
		}
		chiSquare(t, fmt.Sprintf("laplace%d", scale), laplace, want)
	}
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func TestBelow(t *testing.T) {
	src := Reproducible(12)
	for _, n := range []uint64{1, 2, 3, 10, 16} {
		counts, want := make([]float64, n), make([]float64, n)
		for range 20_000 {
			counts[Below(n, src)]++
		}
		for i := range want {
			want[i] = 20_000 / float64(n)
		}
		if n > 1 {
			chiSquare(t, fmt.Sprintf("below%d", n), counts, want)
		}
	}
	require.Less(t, Below(math.MaxUint64, src), uint64(math.MaxUint64))
}

func TestDiscreteMisuse(t *testing.T) {
	src := Reproducible(1)
	for _, bad := range []uint64{0, 1<<40 + 1, math.MaxUint64} {
		require.PanicsWithValue(t, errTime, func() { Geometric(bad, src) })
		require.PanicsWithValue(t, errTime, func() { DiscreteLaplace(bad, src) })
	}
	require.PanicsWithValue(t, errInterval, func() { Below(0, src) })
}
