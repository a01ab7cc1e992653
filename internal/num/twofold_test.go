// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package num_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/testkit"
)

func pair(hi, lo float64) *big.Float {
	h, l := new(big.Float).SetPrec(400).SetFloat64(hi), new(big.Float).SetPrec(400).SetFloat64(lo)
	return h.Add(h, l)
}

// Every operation keeps its bound on random normalized pairs, many of which cancel.
func TestBounds(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 9))
	draw := func() (hi, lo float64) {
		hi = rnd.NormFloat64() * math.Pow(2, float64(rnd.IntN(120)-60))
		return num.TwoSum(hi, hi*num.Unit*(2*rnd.Float64()-1))
	}
	var worst [4]float64
	for range testkit.Of(50_000, 200_000) {
		ah, al := draw()
		bh, bl := draw()
		if rnd.IntN(3) == 0 {
			bh, bl = num.TwoSum(-ah*(1+float64(rnd.IntN(9)-4)*num.Unit), bl)
		}
		a, b := pair(ah, al), pair(bh, bl)
		s, e := num.TwoSum(ah, bl)
		if fast, low := num.FastTwoSum(ah, bl); math.Abs(ah) >= math.Abs(bl) {
			require.Equal(t, [2]float64{s, e}, [2]float64{fast, low})
		}
		check := func(at int, hi, lo float64, exact *big.Float, scale, bound float64) {
			require.Equal(t, hi, hi+lo, "normalized")
			e, _ := exact.Sub(exact, pair(hi, lo)).Float64()
			units := math.Abs(e) / scale / num.Unit / num.Unit
			require.LessOrEqual(t, units, bound)
			worst[at] = max(worst[at], units)
		}
		hi, lo := num.Add2(ah, al, bh, bl)
		check(0, hi, lo, pair(0, 0).Add(a, b), math.Abs(ah)+math.Abs(bh), 6)
		hi, lo = num.Mul2(ah, al, bh, bl)
		check(1, hi, lo, pair(0, 0).Mul(a, b), math.Abs(ah*bh), 8)
		hi, lo = num.Div2(ah, al, bh, bl)
		check(2, hi, lo, pair(0, 0).Quo(a, b), math.Abs(ah/bh), 16)
		if ah > 0 {
			hi, lo = num.Sqrt2(ah, al)
			check(3, hi, lo, pair(0, 0).Sqrt(a), math.Sqrt(ah), 6)
		}
	}
	for _, w := range worst {
		require.Greater(t, w, 0.5, "a bound that no case comes near tests nothing")
	}
	p, e := num.TwoProd(1+num.Unit*2, 1+num.Unit*2)
	require.Equal(t, [2]float64{1 + 4*num.Unit, 4 * num.Unit * num.Unit}, [2]float64{p, e})
	hi, lo := num.Sqrt2(0, 0)
	require.Equal(t, [2]float64{}, [2]float64{hi, lo})
}
