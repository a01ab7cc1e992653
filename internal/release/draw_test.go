// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package release

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/noise"
)

// constant is a source of one word.
type constant uint64

func (c constant) Uint64() uint64 { return uint64(c) }

// TestOpen: a source of the caller is watched and is an assumption, the secure one is neither; the
// certificate of the plan does not change.
func TestOpen(t *testing.T) {
	plan := dp.Certificate{Budget: dp.Budget{Epsilon: 1}, Assumptions: []dp.Assumption{dp.LossArithmetic}}
	secure, cert := Open(nil, plan)
	other, _ := Open(nil, plan)
	require.Equal(t, plan, cert)
	require.NotEqual(t, secure.Uint64(), other.Uint64())
	require.NoError(t, secure.Err())

	src, cert := Open(noise.Reproducible(1), plan)
	require.Equal(t, []dp.Assumption{dp.LossArithmetic, dp.CallerSource}, cert.Assumptions)
	require.Len(t, plan.Assumptions, 1)
	require.Equal(t, noise.Reproducible(1).Uint64(), src.Uint64())
	require.NoError(t, src.Err())

	src, _ = Open(constant(0), plan)
	Noise{Sigma: 1}.Fill(make([]int64, 1), src) // ends, although the source never does
	require.ErrorIs(t, src.Err(), noise.ErrSource)
}

// TestFill: the law is that of package noise, Gaussian or, with a rate, radial, or Laplace's.
func TestFill(t *testing.T) {
	got, want := make([]int64, 5), make([]int64, 5)
	Noise{Exponent: -20, Sigma: 3}.Fill(got, noise.Reproducible(2))
	noise.Grid(want, 3, -20, noise.Reproducible(2))
	require.Equal(t, want, got)
	Noise{Exponent: -20, Sigma: 3, Rate: 2}.Fill(got, noise.Reproducible(2))
	noise.RadialGrid(want, 2, -20, noise.Reproducible(2))
	require.Equal(t, want, got)
	Noise{Exponent: -20, Sigma: 3, Laplace: 2}.Fill(got, noise.Reproducible(2))
	noise.LaplaceGrid(want, 2, -20, noise.Reproducible(2))
	require.Equal(t, want, got)
}

// TestAdd: sums are exact in multiples of g, and noise that saturated releases the same sum as the
// noise that it stands for, whatever k.
func TestAdd(t *testing.T) {
	n, dst := Noise{Exponent: -3}, make([]float64, 2)
	n.Add(dst, []int64{5, -7}, []int64{3, 1 << 40})
	require.Equal(t, []float64{1, (1<<40 - 7) / 8.}, dst)
	n.AddWithin(10, dst, []int64{5, -7}, []int64{30, -30})
	require.Equal(t, []float64{10 / 8., -10 / 8.}, dst)
	for _, k := range []int64{-Most, -1, 0, Most} {
		const saturated = 1<<62 + 1<<52 // stands for itself and all larger integers
		n.Add(dst, []int64{k, k}, []int64{saturated, -saturated})
		require.Equal(t, []float64{Most / 8., -Most / 8.}, dst, k)
	}
}

// TestRound: an integer within ½ of x/g, clamped, and 0 for NaN.
func TestRound(t *testing.T) {
	n := Noise{Exponent: -2}
	require.Equal(t, []int64{5, -5, 0, 9, -9, 9, 0},
		n.Round([]float64{1.3, -1.3, 0.1, 1e300, -100, math.Inf(1), math.NaN()}, 9))
	require.Equal(t, []int64{Most, -Most}, n.Round([]float64{1e300, -1e300}, Most))
}

// TestCoinAndUniform: the coin shows with its probability and takes one word, none for no bits; a
// uniform point takes all values of its range equally often.
func TestCoinAndUniform(t *testing.T) {
	require.True(t, Coin(CoinBits, constant(0)))
	require.False(t, Coin(CoinBits, constant(1)))
	require.True(t, Coin(3, constant(1<<61-1)))
	require.False(t, Coin(3, constant(1<<61)))
	a, b := rand.NewPCG(1, 2), rand.NewPCG(1, 2)
	require.False(t, Coin(0, a))
	require.Equal(t, a.Uint64(), b.Uint64())
	Coin(1, a)
	b.Uint64()
	require.Equal(t, a.Uint64(), b.Uint64())

	counts, k := [5]float64{}, make([]int64, 100_000)
	Uniform(k, 2, noise.Reproducible(3))
	for _, v := range k {
		counts[v+2]++
	}
	for _, c := range counts { // five standard deviations of a count
		require.InDelta(t, 20_000, c, 5*math.Sqrt(20_000*0.8))
	}
}
