// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package noise

import (
	"fmt"
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mathext"
)

// TestRadialLaw: the radius has the law Gamma(d)/rate, and the direction is uniform.
func TestRadialLaw(t *testing.T) {
	n := draws() / 20
	const rate, exponent = 0.75, -20
	for _, d := range []int{1, 2, 3, 10, 15, 16, 40} { // from 15 on the length is that of a cube
		name := fmt.Sprintf("d = %d", d)
		src := Reproducible(41, name)
		k := make([]int64, d)
		radius, first := make([]float64, n/d), make([]float64, n/d)
		plus := 0
		for i := range radius {
			RadialGrid(k, rate, exponent, src)
			s := 0.
			for _, v := range k {
				s += float64(v) * float64(v)
			}
			radius[i] = rate * math.Sqrt(s) * 0x1p-20
			first[i] = float64(k[d-1]) / math.Sqrt(s)
			if k[0] > 0 {
				plus++
			}
		}
		// Rounding to 2⁻²⁰ moves these by 1e-6 in probability, less than the distance the test allows.
		ks(t, name+", radius", radius, func(x float64) float64 { return mathext.GammaIncReg(float64(d), x) })
		require.InDelta(t, float64(n/d)/2, plus, 4.9*math.Sqrt(float64(n/d)/4), name)
		if d > 1 { // (1+x₁)/2 ~ Beta((d-1)/2, (d-1)/2)
			b := float64(d-1) / 2
			ks(t, name+", direction", first,
				func(x float64) float64 { return mathext.RegIncBeta(b, b, min(1, max(0, (1+x)/2))) })
		}
	}
}

// TestRadialCells: for d = 1 the law is Laplace's, in every integer of a coarse grid.
func TestRadialCells(t *testing.T) {
	n := draws() / 20
	count := make([]float64, 81)
	src := Reproducible(42)
	k := make([]int64, 1)
	for range n {
		RadialGrid(k, 0.4, 0, src)
		count[max(-40, min(40, k[0]))+40]++
	}
	chiSquare(t, "laplace", count, cells(float64(n), 40, func(x float64) float64 { return laplaceCDF(0.4 * x) }))
}

// TestRadialFast: the fast path gives the integers of squares of rational numbers.
func TestRadialFast(t *testing.T) {
	undecided := 0
	for seed := range draws() / 500 {
		d := 1 + seed%5
		exponent := []int{-3, -20, -44, -50, -56}[seed/5%5]
		const rate = 1.7
		fast, slow := &tape{then: Reproducible(43, fmt.Sprint(seed))}, &tape{then: Reproducible(43, fmt.Sprint(seed))}
		k := make([]int64, d)
		RadialGrid(k, rate, exponent, fast)

		r := newRadius(d, rate, exponent, slow)
		rho := r.step(slow)
		for i := range k {
			u, far := normals.draw(slow)
			if far == nil {
				far = normals.real(u)
				if _, ok := normals.fast(u, rho, 1); !ok {
					undecided++
				}
			}
			require.Equal(t, k[i], signed(u, r.integer(far, slow)), "seed %d", seed)
		}
		require.Equal(t, slow.read, fast.read)
	}
	require.Positive(t, undecided)
}

// TestRadialStep: the fast path's bracket holds all of what is known of the radius, also where
// the first words give few bits of it.
func TestRadialStep(t *testing.T) {
	for seed := range 2000 {
		src := &tape{then: Reproducible(44, fmt.Sprint(seed))}
		if seed%2 == 1 { // d = 1: E has 55 leading zeros or more
			src.words = []uint64{100, src.then.Uint64() >> (seed % 32)}
		}
		rate, d, exponent := math.Exp(float64(seed%21)-10), 1+seed/2%3*((seed+1)%2), seed%50-25
		r := newRadius(d, rate, exponent, src)
		rho := r.step(src)
		lo, hi := r.bracket()
		root := func(c *big.Int) *big.Float {
			x := new(big.Float).SetPrec(400).SetInt(c)
			x.SetMantExp(x, -int(r.digits)).Sqrt(x)
			return x.Quo(x, big.NewFloat(math.Ldexp(rate, exponent)))
		}
		end := func(s uint64) *big.Float {
			x := new(big.Float).SetPrec(400).SetUint64(s)
			return x.SetMantExp(x, rho.e-64)
		}
		require.GreaterOrEqual(t, rho.s, uint64(1)<<63)
		require.LessOrEqual(t, end(rho.s).Cmp(root(lo)), 0)
		require.GreaterOrEqual(t, end(rho.s+rho.slack).Cmp(root(hi)), 0)
	}
}

// TestRadialZeros: leading words of zeros make both factors tiny; the bracket then needs more
// words.
func TestRadialZeros(t *testing.T) {
	for n := range 8 {
		k := []int64{7}
		src := &tape{words: make([]uint64, n), then: Reproducible(45)}
		RadialGrid(k, 1, 0, src)
		require.LessOrEqual(t, src.read, n+12)
		if n >= 3 {
			require.Zero(t, k[0])
		}
	}
	RadialGrid(nil, 1, 0, nil)
	k := make([]int64, 3)
	RadialGrid(k, 0x1p-900, -1074, Reproducible(46))
	for _, v := range k {
		require.Contains(t, []int64{limit, -limit}, v)
	}
	RadialGrid(k, 0x1p900, 1074, Reproducible(46))
	require.Equal(t, []int64{0, 0, 0}, k)
}
