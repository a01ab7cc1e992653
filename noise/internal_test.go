package noise

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/stat/distuv"
)

// TestTable checks the layers: equal areas, each to a relative 2⁻⁴⁴ as the
// accuracy argument of Normal needs, and a closed top.
func TestTable(t *testing.T) {
	r := edgeX[1]
	v := r*math.Exp(-r*r/2) + math.Sqrt(math.Pi/2)*math.Erfc(r/math.Sqrt2)
	require.InEpsilon(t, v, edgeX[0]*edgeF[1], 0x1p-44)
	w := (expX[1] + 1) * math.Exp(-expX[1])
	require.InEpsilon(t, w, expX[0]*expF[1], 0x1p-44)
	for i := 1; i < layers; i++ {
		require.Greater(t, edgeX[i], edgeX[i+1])
		require.Greater(t, expX[i], expX[i+1])
		require.InEpsilon(t, v, edgeX[i]*(edgeF[i+1]-edgeF[i]), 0x1p-44, "normal layer %d", i)
		require.InEpsilon(t, w, expX[i]*(expF[i+1]-expF[i]), 0x1p-44, "exponential layer %d", i)
	}
}

// TestTail tests the tail sampler to 6 σ by chi-square.
func TestTail(t *testing.T) {
	n := 4_000_000
	if testing.Short() {
		n = 400_000
	}
	r := edgeX[1]
	q := func(x float64) float64 { return math.Erfc(x/math.Sqrt2) / math.Erfc(r/math.Sqrt2) }
	cuts := []float64{r, 3.66, 3.7, 3.75, 3.8, 3.9, 4, 4.2, 4.5, 5, 5.5, 6}
	if testing.Short() {
		cuts = cuts[:10]
	}
	counts := make([]float64, len(cuts))
	src := Reproducible(11)
	for range n {
		hi, lo := tail(r, src)
		if !(hi >= r && math.Abs(lo) <= 0x1p-52*hi) {
			t.Fatalf("%v + %v", hi, lo)
		}
		for k := len(cuts) - 1; k >= 0; k-- {
			if hi >= cuts[k] {
				counts[k]++
				break
			}
		}
	}
	var stat float64
	for k := range cuts {
		e := float64(n) * q(cuts[k])
		if k+1 < len(cuts) {
			e -= float64(n) * q(cuts[k+1])
		}
		require.Greater(t, e, 5.)
		stat += (counts[k] - e) * (counts[k] - e) / e
	}
	// The false-reject probability is 1e-6.
	require.Less(t, stat, distuv.ChiSquared{K: float64(len(cuts) - 1)}.Quantile(1-1e-6))
}

// TestFullRange tests the exponent's law P(k) = 2⁻ᵏ⁻¹, the significand's bits and
// the independence of the spare bits.
func TestFullRange(t *testing.T) {
	const n = 1_000_000
	src := Reproducible(12)
	var exponent [12]float64
	var bit [64]float64
	var spares [512]float64
	var same [55]float64
	var first [8][2]float64 // exponent against the top random bit of s
	for range n {
		s, k, spare := fullRange(src)
		if s>>63 != 1 {
			t.Fatalf("significand %x", s)
		}
		exponent[min(k, 11)]++
		spares[spare]++
		for shift := range same { // spare against every window of nine bits of s
			if s>>shift&0x1ff == spare {
				same[shift]++
			}
		}
		first[min(k, 7)][s>>62&1]++
		for b := range bit {
			bit[b] += float64(s >> b & 1)
		}
	}
	var stat float64
	for k, c := range exponent {
		e := n * math.Ldexp(1, -min(k+1, 11))
		stat += (c - e) * (c - e) / e
	}
	require.Less(t, stat, distuv.ChiSquared{K: 11}.Quantile(1-1e-6))
	stat = 0
	for _, c := range spares {
		stat += (c - n/512.) * (c - n/512.) / (n / 512.)
	}
	require.Less(t, stat, distuv.ChiSquared{K: 511}.Quantile(1-1e-6))
	for b := range 63 {
		require.InDelta(t, n/2, bit[b], 6*math.Sqrt(n/4), "bit %d", b) // 6 σ: 63 bits at 1e-8
	}
	for shift, c := range same[:54] { // the 55th holds the bit that is always set
		require.InDelta(t, n/512., c, 6*math.Sqrt(n/512.), "window %d", shift) // 6 σ: 54 windows at 2e-9
	}
	stat = 0
	for _, row := range first {
		m := (row[0] + row[1]) / 2
		stat += 2 * (row[0] - m) * (row[0] - m) / m
	}
	require.Less(t, stat, distuv.ChiSquared{K: 8}.Quantile(1-1e-6))
}

// script is a source that plays back words, then ones.
type script []uint64

func (s *script) Uint64() uint64 {
	if len(*s) == 0 {
		return ^uint64(0)
	}
	w := (*s)[0]
	*s = (*s)[1:]
	return w
}

func TestLongExponents(t *testing.T) {
	for _, c := range []struct {
		words script
		k     int
	}{
		{script{1 << 63, 0}, 0},
		{script{1 << 9, 0}, 54},
		{script{0x1ff, 0, 1 << 63}, 55},
		{script{0, 0, 1}, 118},
		{script{0, 0, 0, 1 << 62}, 120},
	} {
		words := c.words
		_, k, _ := fullRange(&words)
		require.Equal(t, c.k, k)
	}
	zeros := make(script, 100)
	_, k, _ := fullRange(&zeros)
	require.Equal(t, maxExponent, k)
	zeros = make(script, 100)
	require.Equal(t, 0x1p-901, Uniform(&zeros))
	ones := script{}
	require.Equal(t, 1-0x1p-53, Uniform(&ones))
}

// TestTailsAdd: a draw that meets the exponential's tail layer twice is shifted
// by 2r, one that does once by r.
func TestTailsAdd(t *testing.T) {
	tail := []uint64{^uint64(0xff), ^uint64(0)} // layer 0, U ≈ 1
	inner := []uint64{^uint64(0xff) | 100, 0}   // layer 100, U = 1/2
	var got [3]float64
	for i := range got {
		var words script
		for range i {
			words = append(words, tail...)
		}
		words = append(words, inner...)
		got[i] = Exponential(&words)
		require.Empty(t, words)
	}
	require.InDelta(t, expX[100]/2, got[0], 1e-15)
	require.InDelta(t, got[0]+expX[1], got[1], 4e-15)
	require.InDelta(t, got[0]+2*expX[1], got[2], 8e-15)
}

// TestRoundings compares the carried pairs with exact arithmetic: hi + lo equals
// the scripted real to 2⁻⁵⁸, and scaled is one correct rounding (1/2 + 2⁻⁴⁰ ulp).
func TestRoundings(t *testing.T) {
	src := Reproducible(13)
	for range 20_000 {
		h := src.Uint64() >> 1
		e := -61 - int(src.Uint64()%60)
		hi, lo := split(h, e)
		exact := new(big.Float).SetPrec(200).SetMantExp(new(big.Float).SetPrec(200).SetUint64(h), e)
		sum := new(big.Float).SetPrec(200).Add(big.NewFloat(hi), big.NewFloat(lo))
		require.Zero(t, exact.Cmp(sum))
		c := 1 + Uniform(src)*3
		exact.Mul(exact, big.NewFloat(c))
		want, _ := exact.Float64()
		got := scaled(c, hi, lo)
		if got != want {
			ulp := math.Nextafter(want, math.Inf(1)) - want
			d, _ := exact.Sub(exact, big.NewFloat(got)).Float64()
			require.LessOrEqual(t, math.Abs(d)/ulp, 0.5+0x1p-40)
		}
	}
}

// TestNormalRoundsOnce: each value of Normal is σ (hi + lo), rounded to nearest
// (1/2 + 2⁻⁴⁰ ulp), and the low parts fill the gap between neighboring hi.
func TestNormalRoundsOnce(t *testing.T) {
	const n = 20_000
	const sigma = 1.7
	dst := make([]float64, n)
	Normal(dst, sigma, Reproducible(14))
	src := Reproducible(14)
	var quarters [4]float64
	for _, got := range dst {
		hi, lo := normal(src)
		exact := new(big.Float).SetPrec(300).Add(big.NewFloat(hi).SetPrec(300), big.NewFloat(lo))
		exact.Mul(exact, big.NewFloat(sigma))
		ulp := math.Nextafter(math.Abs(got), math.Inf(1)) - math.Abs(got)
		d, _ := exact.Sub(exact, big.NewFloat(got)).Float64()
		require.LessOrEqual(t, math.Abs(d)/ulp, 0.5+0x1p-40)
		a := math.Abs(hi)
		u := lo/(math.Nextafter(a, math.Inf(1))-a) + 0.5
		quarters[min(3, max(0, int(4*u)))]++
	}
	for _, q := range quarters {
		require.InDelta(t, n/4, q, 6*math.Sqrt(n*3/16)) // 6 σ
	}
}

// cycle is a broken source that repeats its words forever.
type cycle struct {
	words []uint64
	at    int
}

func (c *cycle) Uint64() uint64 {
	w := c.words[c.at%len(c.words)]
	c.at++
	return w
}

// TestEveryLoopEnds: words that make every try of a rejection loop fail end each
// loop in the documented panic, after no more than maxTries tries.
func TestEveryLoopEnds(t *testing.T) {
	const half, third = 1 << 63, 1 << 62 // top bits 10 and 01
	for name, c := range map[string]struct {
		words []uint64
		draw  func(s *cycle)
	}{
		// Below(3) gives 1, then e^{-1/3} says yes and every e⁻¹ does too.
		"geometric, multiples": {[]uint64{third}, func(s *cycle) { Geometric(3, s) }},
		// Below(3) gives 2, then 0 < 2 goes on and 2 < 2 ends at an even trial.
		"geometric, remainder": {[]uint64{2 * third, 0, 0, 2 * third}, func(s *cycle) { Geometric(3, s) }},
		// e⁰ says yes, e⁻¹ no: the draw is 0 and its sign is negative.
		"laplace": {[]uint64{0, 0, 0, 0, 0, half, half}, func(s *cycle) { DiscreteLaplace(1, s) }},
		// Layer 1, negative, U = 0.82: x = -3 and 1 + x/(3√(2/3)) < 0.
		"gamma": {[]uint64{half | 0x101, 0xd1eb851eb851eb85}, func(s *cycle) { Gamma(1, s) }},
		// E₁ = 0.85·x₁ of layer 1, E₂ = x₁₀₀/2: a² = (E₁/r)² > 2E₂.
		"tail": {[]uint64{half | 1, 0xd99999999999999a, half | 100, half}, func(s *cycle) { tail(edgeX[1], s) }},
	} {
		s := &cycle{words: c.words}
		require.PanicsWithValue(t, errStuck, func() { c.draw(s) }, name)
		require.LessOrEqual(t, s.at, 8*maxTries, name)
		require.Greater(t, s.at, maxTries, name)
	}
}
