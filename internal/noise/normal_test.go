// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package noise

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"
)

// TestFloats: every float is within the stated distance of the real number whose
// first 119 bits or more are the words of the draw.
func TestFloats(t *testing.T) {
	src := Reproducible(51)
	worst := 0.
	for k := range draws() / 20 {
		z := []*ziggurat{normals, exponentials}[k%2]
		m := src.Uint64()
		if k%4 > 1 { // also with few leading bits
			m = m>>(k%64)&^0x1ff | m&0x1ff
		}
		w := []uint64{m, src.Uint64(), src.Uint64(), src.Uint64()}
		if k%8 == 7 {
			w[1] >>= 10
		}
		s := &tape{words: w, then: rand.NewPCG(1, uint64(k))}
		u, x := z.float(s)
		s2 := &tape{words: w, then: rand.NewPCG(1, uint64(k))}
		v, exact := z.draw(s2)
		require.Equal(t, u, v)
		if exact == nil {
			exact = z.real(u)
			exact.more(s2)
		}
		for s2.read < s.read {
			exact.more(s2)
		}
		require.Equal(t, s.read, s2.read)
		sigma := 0.5 + uniform(src)
		for _, end := range []int64{0, 1} { // the two ends of where the real number lies
			real := new(big.Float).SetPrec(400).SetMantExp(new(big.Float).SetInt(exact.at(end)), -int(exact.scale()))
			rel := func(got, c float64) float64 {
				y := new(big.Float).SetPrec(400).Quo(new(big.Float).SetFloat64(got),
					new(big.Float).SetPrec(400).Mul(real, big.NewFloat(c)))
				d, _ := y.Sub(y, big.NewFloat(1)).Float64()
				return math.Abs(d)
			}
			require.LessOrEqual(t, rel(x, 1), 0x1p-53*(1+0x1p-5))
			d := rel(sigma*x, sigma)
			require.LessOrEqual(t, d, 0x1p-52*(1+0x1p-5))
			worst = max(worst, d)
		}
	}
	require.Greater(t, worst, 0x1p-53, "the bound is of the right size")
}

// TestNormals: every float is within 2⁻⁵⁴(1+2⁻⁵) + 2⁻⁵³|x| of every real number x whose first bits
// are the words of the draw.
func TestNormals(t *testing.T) {
	src := Reproducible(54)
	worst := 0.0
	for k := range draws() / 20 {
		u := src.Uint64()
		switch k % 4 {
		case 1: // few leading bits
			u = u>>(k%50)&^0x1ff | u&0x1ff
		case 2: // layer 0, with the tail
			u = u&^0xff | 0xff<<56
		}
		one := make([]float64, 1)
		s := &tape{words: []uint64{u}, then: rand.NewPCG(5, uint64(k))}
		Normals(one, s)
		s2 := &tape{words: []uint64{u}, then: rand.NewPCG(5, uint64(k))}
		v, exact := normals.draw(s2)
		if exact == nil {
			exact = normals.real(v)
		}
		for s2.read < s.read {
			exact.more(s2)
		}
		require.Equal(t, v&layers != 0, math.Signbit(one[0]))
		for _, end := range []int64{0, 1} {
			real := new(big.Float).SetPrec(400).SetMantExp(new(big.Float).SetInt(exact.at(end)), -int(exact.scale()))
			x, _ := real.Float64()
			off, _ := real.Sub(real, big.NewFloat(math.Abs(one[0]))).Float64()
			require.LessOrEqual(t, math.Abs(off), 0x1p-54*(1+0x1p-5)+0x1p-53*x)
			worst = max(worst, math.Abs(off)/(0x1p-54+0x1p-53*x))
		}
	}
	require.Greater(t, worst, 0.5, "the bound is of the right size")
}

// TestLaws compares the samplers of floats with their distribution functions.
func TestLaws(t *testing.T) {
	one := make([]float64, 1)
	type law struct {
		name string
		draw func(rand.Source) float64
		cdf  func(float64) float64
	}
	laws := []law{
		{"exponential", Exponential, func(x float64) float64 { return -math.Expm1(-x) }},
		{"normal", func(s rand.Source) float64 { Normal(one, 3, s); return one[0] },
			func(x float64) float64 { return phi(x / 3) }},
		{"normals", func(s rand.Source) float64 { Normals(one, s); return one[0] }, phi},
	}
	for _, k := range []int{1, 2, 3, 10, 15, 16, 17, 101, 2288, maxDegrees} {
		laws = append(laws, law{fmt.Sprintf("chi%d", k), func(s rand.Source) float64 { return ChiSquared(k, s) },
			func(x float64) float64 { return mathext.GammaIncReg(float64(k)/2, x/2) }})
	}
	for _, l := range laws {
		src := Reproducible(7, "laws", l.name)
		x := make([]float64, draws()/10)
		for i := range x {
			x[i] = l.draw(src)
		}
		// Independence of consecutive draws: U = cdf(X) in an 8×8 table.
		counts, expected := make([]float64, 64), make([]float64, 64)
		cell := func(v float64) int { return min(7, int(8*l.cdf(v))) }
		for i := 0; i+1 < len(x); i += 2 {
			counts[8*cell(x[i])+cell(x[i+1])]++
		}
		for i := range expected {
			expected[i] = float64(len(x)/2) / 64
		}
		chiSquare(t, l.name+", pairs", counts, expected)
		ks(t, l.name, x, l.cdf)
	}
	x := make([]float64, draws()/5)
	Normal(x, 1.1, Reproducible(52))
	require.Greater(t, distance(x, phi), math.Sqrt(math.Log(2/falseReject)/(2*float64(len(x)))),
		"10 % more spread is rejected")
}

// TestNormalBins tests the normal law on 200 equiprobable bins, which cross the
// layers, and its signs and tails to 4.3 σ, on both sides of r = 3.655.
func TestNormalBins(t *testing.T) {
	n := 3 * draws()
	const bins = 200
	edges := make([]float64, bins-1)
	for i := range edges {
		edges[i] = distuv.UnitNormal.Quantile(float64(i+1) / bins)
	}
	for _, a := range []float64{2.5, 3, 3.5, 3.6, 3.65, 3.7, 3.8, 4, 4.3} {
		edges = append(edges, a, -a)
	}
	slices.Sort(edges)
	counts, expected := make([]float64, len(edges)+1), make([]float64, len(edges)+1)
	src := Reproducible(8, "bins")
	buf := make([]float64, 1000)
	for range n / len(buf) {
		Normal(buf, 1, src)
		for _, x := range buf {
			i, _ := slices.BinarySearch(edges, x)
			counts[i]++
		}
	}
	last := 0.
	for i := range expected {
		next := 1.
		if i < len(edges) {
			next = phi(edges[i])
		}
		expected[i] = float64(n) * (next - last)
		last = next
	}
	chiSquare(t, "bins", counts, expected)
}

func TestFloatEnds(t *testing.T) {
	src := Reproducible(3)
	x := []float64{1, 2, math.NaN()}
	Normal(x, 0, src)
	for _, v := range x {
		require.Zero(t, v)
	}
	Normal(nil, 1, src)
	x = make([]float64, 1000)
	for _, sigma := range []float64{5e-324, 1e-310, 1e-100, 1e300, 0x1p1000} {
		Normal(x, sigma, src)
		for _, v := range x {
			require.False(t, math.IsNaN(v) || math.IsInf(v, 0), "%v", v)
		}
	}
	require.InEpsilon(t, 1<<16, ChiSquared(1<<16, src), 0.05)
}
