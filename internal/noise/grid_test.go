// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package noise

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGridGolden: integers and numbers of words of an independent program for the
// same layers and order of words. A case holds 500 draws with the ChaCha8 key of one
// nonzero byte, and must come out on every machine.
func TestGridGolden(t *testing.T) {
	var cases []struct {
		Law   string
		Key   byte
		Scale float64
		Grid  int
		Words int
		Ints  []int64
	}
	b, err := os.ReadFile("testdata/exact.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &cases))
	require.Len(t, cases, 13)
	for _, c := range cases {
		src := &tape{then: rand.NewChaCha8([32]byte{c.Key})}
		got := make([]int64, len(c.Ints))
		if c.Law == "normal" {
			Grid(got, c.Scale, c.Grid, src)
		} else {
			for i := range got {
				got[i] = Gap(c.Scale, src)
			}
		}
		require.Equal(t, c.Ints, got, "%s at scale %v, grid %d", c.Law, c.Scale, c.Grid)
		require.Equal(t, c.Words, src.read)
	}
}

// TestStreams: the other samplers give these values, computed with 80 digits from
// the words of the source by another program, on every machine.
func TestStreams(t *testing.T) {
	src := rand.NewChaCha8([32]byte{44})
	radial, laplace, normal := make([]int64, 4), make([]int64, 4), make([]float64, 2)
	RadialGrid(radial, 3, -20, src)
	require.Equal(t, []int64{875726, -306108, -541671, -1179117}, radial)
	LaplaceGrid(laplace, 3, -20, src)
	require.Equal(t, []int64{221809, 3393283, 5142604, -1767273}, laplace)
	Normal(normal, 0.1, src)
	require.Equal(t, []float64{0.15166119430818778, -0.08255617324972642}, normal)
	require.Equal(t, 0.46354377611188596, Exponential(src))
	require.Equal(t, 3.651294869197709, ChiSquared(5, src))
}

// cells is the number of draws expected of each integer -k, …, k, tails in the last ones, where
// cdf is the law of the real variable in units of the grid.
func cells(n float64, k int, cdf func(float64) float64) []float64 {
	want := make([]float64, 2*k+1)
	for i := range want {
		lo, hi := 0., 1.
		if i > 0 {
			lo = cdf(float64(i-k) - 0.5)
		}
		if i < 2*k {
			hi = cdf(float64(i-k) + 0.5)
		}
		want[i] = n * (hi - lo)
	}
	return want
}

func laplaceCDF(x float64) float64 {
	if x < 0 {
		return math.Exp(x) / 2
	}
	return 1 - math.Exp(-x)/2
}

// TestGridLaw: the integers have the probabilities of their cells, on coarse
// grids in each integer and on fine ones in cells of many and in their residues.
func TestGridLaw(t *testing.T) {
	n := 2 * draws()
	dst := make([]int64, n)
	for _, law := range []struct {
		name string
		grid func(dst []int64, scale float64, exponent int, src rand.Source)
		cdf  func(float64) float64
	}{{"normal", Grid, phi}, {"laplace", LaplaceGrid, laplaceCDF}} {
		for _, rho := range []float64{0.3, 2.5, 0x1.8p20, 0x1p46} {
			name := fmt.Sprintf("%s, σ/g = %v", law.name, rho)
			law.grid(dst, rho*0x1p-5, -5, Reproducible(31, name))
			const k = 300
			bin := max(1, math.Floor(rho/40)) // integers to a cell
			count := make([]float64, 2*k+1)
			var residue [16]float64
			for _, v := range dst {
				i := math.Floor((float64(v) + bin/2) / bin)
				count[int(max(-k, min(k, i)))+k]++
				residue[v&15]++
			}
			edge := func(x float64) float64 { // cells of odd and even numbers of integers
				return law.cdf((math.Ceil(x*bin) - 0.5) / rho)
			}
			chiSquare(t, name, count, cells(float64(n), k, edge))
			if bin > 1 {
				want := make([]float64, 16)
				for i := range want {
					want[i] = float64(n) / 16
				}
				chiSquare(t, name+", residues", residue[:], want)
			}
		}
	}
}

// TestGapLaw: P(Gap ≥ k) = e^{-k/c}.
func TestGapLaw(t *testing.T) {
	n := draws()
	for _, c := range []float64{0.2, 1, 9.49122158102990454, 1e6} {
		width := max(1, math.Floor(c/10))
		const k = 150
		count, want := make([]float64, k+1), make([]float64, k+1)
		src := Reproducible(32)
		for range n {
			count[int(min(k, math.Floor(float64(Gap(c, src))/width)))]++
		}
		for i := range want {
			want[i] = float64(n) * math.Exp(-float64(i)*width/c)
			if i < k {
				want[i] *= -math.Expm1(-width / c)
			}
		}
		chiSquare(t, fmt.Sprintf("c = %v", c), count, want)
	}
}

// TestGridsAgree: one real variable is behind the integers of all grids: a draw on a fine grid, by
// rationals and with more words, rounds to the draw of the same stream on a coarse one.
func TestGridsAgree(t *testing.T) {
	n := draws() / 20
	coarse, fine := make([]int64, 1), make([]int64, 1)
	for k := range n {
		for _, law := range []func([]int64, float64, int, rand.Source){Grid, LaplaceGrid} {
			sigma := 1 + float64(k%7)/3
			law(coarse, sigma, -20, rand.NewPCG(uint64(k), 0))
			for _, e := range []int{-40, -50, -55} {
				law(fine, sigma, e, rand.NewPCG(uint64(k), 0))
				half := int64(1) << (-20 - e - 1)
				a := (fine[0]+half)>>(-20-e) - coarse[0]
				b := (fine[0]+half-1)>>(-20-e) - coarse[0] // the real number may lie up to a half below
				if a != 0 && b != 0 {
					t.Fatalf("draw %d: %d on 2⁻²⁰ and %d on 2^%d", k, coarse[0], fine[0], e)
				}
			}
		}
	}
}

// TestFast: where the fast path of integer decides, rationals agree, to the
// edges of the rounding cells.
func TestFast(t *testing.T) {
	src := Reproducible(33)
	decided := 0
	for k := range draws() / 5 {
		z := []*ziggurat{normals, exponentials}[k%2]
		u := src.Uint64()
		half := src.Uint64() % 2
		rho := newStep(1+uniform(src), -[]int{-3, 0, 20, 40, 50, 57, 60}[k%7])
		fast, ok := z.fast(u, rho, half)
		if !ok {
			continue
		}
		decided++
		s := &tape{then: src}
		exact := z.real(u).integer(word(rho.s), rho.e, half, s)
		if fast != exact || s.read > 0 {
			t.Fatalf("word %x, scale %v, half %d: %d and %d", u, rho, half, fast, exact)
		}
	}
	require.Greater(t, decided, draws()/20)

	// x = 2^{-5}(m/2⁵⁵) w: search for m at the edge of a cell of 1/2.
	for i := range uint64(layers) {
		w := normals.layer[i].width
		rho := newStep(1, 0)
		for cell := uint64(1); cell < 8; cell += 2 {
			edge := ratioEdge(cell<<60, w)
			for d := -3; d <= 3; d++ {
				u := (edge+uint64(d))<<(64-fraction) | i
				if edge == 0 || u>>(64-fraction) != edge+uint64(d) {
					continue
				}
				s := &tape{then: src}
				exact := normals.real(u).integer(word(rho.s), rho.e, 1, s)
				if fast, ok := normals.fast(u, rho, 1); ok {
					require.Equal(t, exact, fast, "word %x", u)
					require.Zero(t, s.read)
				}
			}
		}
	}
}

// ratioEdge returns ⌊2⁵⁵ a/w⌋, 0 if that has more than 55 bits.
func ratioEdge(a, w uint64) uint64 {
	if a >= w {
		return 0
	}
	return ratio(a, w)
}

func TestGridEnds(t *testing.T) {
	src := Reproducible(34)
	dst := []int64{1, 2, 3}
	Grid(dst, 0, 5, src)
	require.Equal(t, []int64{0, 0, 0}, dst)
	LaplaceGrid(dst, 0, 5, src)
	require.Zero(t, Gap(0, src))
	Grid(dst, 1, 1074, src)
	require.Equal(t, []int64{0, 0, 0}, dst)
	Grid(nil, 1, 0, src)
	for _, exponent := range []int{-1074, -200, -80} { // saturated
		Grid(dst, 1, exponent, src)
		for _, k := range dst {
			require.Contains(t, []int64{limit, -limit}, k)
		}
	}
	require.Equal(t, int64(1<<62+1<<52), int64(limit))
	require.Equal(t, int64(limit), Gap(0x1p1000, src))
	// Around 2⁶² and at the limit nothing wraps: w₀ 2^{e} is cut off exactly there.
	Grid(dst[:1], 1, -61, &tape{words: []uint64{normals.layer[0].sure<<(64-fraction) - 1<<(64-fraction)}, then: src})
	require.Equal(t, int64(limit), dst[0])
	Grid(dst[:1], 1, -60, &tape{words: []uint64{normals.layer[0].sure<<(64-fraction) - 1<<(64-fraction)}, then: src})
	require.InDelta(t, 3.6554690187244274*0x1p60, dst[0], 0x1p13)
}

func TestGridMisuse(t *testing.T) {
	src := Reproducible(1)
	dst := make([]int64, 2)
	for _, bad := range []float64{-1, -1e-320, math.NaN(), math.Inf(1), math.Inf(-1), 0x1p1001} {
		require.PanicsWithValue(t, errScale, func() { Grid(dst, bad, 0, src) })
		require.PanicsWithValue(t, errScale, func() { LaplaceGrid(dst, bad, 0, src) })
		require.PanicsWithValue(t, errScale, func() { Gap(bad, src) })
		require.PanicsWithValue(t, errScale, func() { Normal(make([]float64, 1), bad, src) })
	}
	for _, bad := range []int{-1075, 1075, math.MaxInt, math.MinInt} {
		require.PanicsWithValue(t, errExponent, func() { Grid(dst, 1, bad, src) })
		require.PanicsWithValue(t, errExponent, func() { LaplaceGrid(dst, 1, bad, src) })
		require.PanicsWithValue(t, errExponent, func() { RadialGrid(dst, 1, bad, src) })
	}
	for _, bad := range []float64{0, -1, math.NaN(), math.Inf(1), 1e-300, 1e300} {
		require.PanicsWithValue(t, errRate, func() { RadialGrid(dst, bad, 0, src) })
	}
	for _, bad := range []int{0, -1, 1<<16 + 1} {
		require.PanicsWithValue(t, errDegrees, func() { ChiSquared(bad, src) })
	}
}

// FuzzSamplers: every stream of words and every scale gives draws in range, and
// the same ones again.
func FuzzSamplers(f *testing.F) {
	f.Add([]byte{}, 1.0, -20)
	f.Add(make([]byte, 200), 1.0, 0)
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), 0x1p1000, 900)
	f.Add([]byte("\x00\xff\x00\xff\x00\xff\x00\xff\x01"), 1e-320, -1074)
	f.Fuzz(func(t *testing.T, b []byte, scale float64, exponent int) {
		if scale = math.Abs(scale); !(scale <= maxScale) {
			scale = 1
		}
		exponent %= 1075
		var w []uint64
		for ; len(b) >= 8; b = b[8:] {
			u := uint64(0)
			for _, c := range b[:8] {
				u = u<<8 | uint64(c)
			}
			w = append(w, u)
		}
		draw := func() string {
			src := Watch(&tape{words: w, then: rand.NewPCG(1, 1)})
			k, x := make([]int64, 6), make([]float64, 3)
			Grid(k[:2], scale, exponent, src)
			LaplaceGrid(k[2:4], scale, exponent, src)
			RadialGrid(k[4:], min(max(scale, 0x1p-900), 0x1p900), exponent, src)
			for _, v := range append(k, Gap(scale, src)) {
				require.LessOrEqual(t, max(v, -v), int64(limit))
			}
			Normal(x, scale, src)
			x = append(x, Exponential(src), ChiSquared(3, src))
			for _, v := range x {
				require.False(t, math.IsNaN(v) || math.IsInf(v, 0), "%v", v)
			}
			if src.err != nil { // the words of Secure are new each time
				return ""
			}
			return fmt.Sprint(k, x)
		}
		require.Equal(t, draw(), draw())
	})
}
