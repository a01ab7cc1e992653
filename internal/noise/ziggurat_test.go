// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package noise

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/internal/testkit"
)

// draws is the length of the streams on which two ways of deciding are compared:
// a million, 1e5 with -short, 1e7 if PRIVOPT_DEEP is set.
func draws() int {
	switch {
	case testing.Short():
		return 1e5
	case testkit.Deep():
		return 1e7
	}
	return 1e6
}

// tape is a source that plays words first and counts what is read.
type tape struct {
	words []uint64
	then  rand.Source
	read  int
}

func (s *tape) Uint64() uint64 {
	if s.read++; s.read <= len(s.words) {
		return s.words[s.read-1]
	}
	return s.then.Uint64()
}

// exactly are the ziggurats whose every decision is made by rationals.
var exactly = func() map[*ziggurat]*ziggurat {
	e := newExponentials(math.Inf(1))
	return map[*ziggurat]*ziggurat{exponentials: e, normals: newNormals(e)}
}()

// TestTables checks, with 96 digits, everything that the law of a draw rests on.
func TestTables(t *testing.T) {
	power := func(e int) *big.Float { return new(big.Float).SetPrec(testkit.Prec).SetMantExp(testkit.New(1), e) }
	integer := func(k uint64) *big.Float { return new(big.Float).SetPrec(testkit.Prec).SetUint64(k) }
	one := testkit.New(1)
	for _, z := range []*ziggurat{normals, exponentials} {
		width := func(k uint64) *big.Float { return testkit.Mul(integer(k), power(-int(z.unit))) }
		f := func(x *big.Float) *big.Float {
			if z.half {
				x = testkit.Quo(testkit.Mul(x, x), testkit.New(2))
			}
			return testkit.Exp(testkit.Sub(testkit.New(0), x))
		}
		area := testkit.Mul(integer(z.area), power(-70))
		w := &z.layer
		y := testkit.New(0)
		for i := range layers {
			l := w[i]
			if i > 0 {
				require.Less(t, l.width, w[i-1].width)
				require.GreaterOrEqual(t, y.Cmp(f(width(l.width))), 0, "f(wᵢ) ≤ yᵢ in layer %d", i)
			}
			height := testkit.Quo(area, width(l.width))
			near(t, y, l.y, 0x1p-52)
			near(t, testkit.Mul(height, power(-64)), l.add, 0x1p-52*0x1p-64)
			near(t, testkit.Mul(width(l.width), power(-fraction)), l.x, 0x1p-53*l.x)
			y = testkit.Add(y, height)
			if l.sure > 0 { // the corner of the last cell that is surely accepted
				x := testkit.Mul(testkit.Mul(integer(l.sure), power(-fraction)), width(l.width))
				require.Positive(t, f(x).Cmp(y), "sure points of layer %d lie under the curve", i)
			}
		}
		require.GreaterOrEqual(t, y.Cmp(one), 0, "the layers reach the top")

		// Layer 0: r = inner·w₀·2⁻⁵⁵ exactly, and the envelope of the tail lies above f.
		r, tau := w[1].width, w[0].width-w[1].width
		a := new(big.Int).Lsh(word(r), fraction)
		require.Zero(t, a.Cmp(new(big.Int).Mul(word(z.inner), word(w[0].width))))
		require.LessOrEqual(t, w[0].sure, z.inner)
		if slope := width(tau); z.half {
			require.GreaterOrEqual(t, testkit.Mul(slope, width(r)).Cmp(one), 0)
		} else {
			require.GreaterOrEqual(t, slope.Cmp(one), 0)
		}
		require.Less(t, w[0].width, uint64(1)<<63, "h of integer needs this")

		// ⌊256 A⌋ is not much more than ∫f: few draws are rejected.
		total, _ := testkit.Mul(area, testkit.New(layers)).Float64()
		if z.half {
			require.Greater(t, math.Sqrt(math.Pi/2)/total, 0.993)
		} else {
			require.Greater(t, 1/total, 0.989)
		}
	}
}

func near(t *testing.T, want *big.Float, got, tol float64) {
	t.Helper()
	d, _ := testkit.Sub(want, testkit.New(got)).Float64()
	require.LessOrEqual(t, math.Abs(d), tol)
}

// same draws from z and from its exact counterpart on the same words and
// compares the draws and the words that were used.
func same(t *testing.T, z *ziggurat, words []uint64, seed uint64) (used int) {
	t.Helper()
	var u [2]uint64
	var far [2]*real
	var s [2]*tape
	for k, z := range []*ziggurat{z, exactly[z]} {
		s[k] = &tape{words: words, then: rand.NewPCG(seed, 1)}
		u[k], far[k] = z.draw(s[k])
		if far[k] == nil {
			far[k] = z.real(u[k])
		} else if far[k].n == fraction && far[k].offset.Sign() == 0 { // what rationals decide without more words
			require.Zero(t, far[k].bits.Cmp(z.real(u[k]).bits))
		}
	}
	if u[0] != u[1] || s[0].read != s[1].read || far[0].n != far[1].n || far[0].at(0).Cmp(far[1].at(0)) != 0 {
		t.Fatalf("word %x: floating point and rationals differ", words)
	}
	return s[0].read
}

// TestDecisions: floating point and rationals accept the same points of one
// stream, and take the same words.
func TestDecisions(t *testing.T) {
	for _, z := range []*ziggurat{normals, exponentials} {
		fast, slow := &tape{then: Reproducible(21)}, &tape{then: Reproducible(21)}
		n := min(draws(), testkit.Of(200_000, math.MaxInt))
		for k := range n {
			u, far := z.draw(fast)
			v, exact := exactly[z].draw(slow)
			if u != v || fast.read != slow.read || far != nil && far.at(1).Cmp(exact.at(1)) != 0 {
				t.Fatalf("draw %d: %x and %x", k, u, v)
			}
		}
		// 1.5 % (normal) and 2.2 % need a word V, 0.7 % and 1.1 % are rejected.
		require.InDelta(t, 1.022, float64(fast.read)/float64(n), 0.015)
	}
}

// TestAdversarialWords: words at the edges of every layer, of what is surely
// accepted and of the tail, with ordinates on and beside the curve.
func TestAdversarialWords(t *testing.T) {
	const full = 1<<fraction - 1
	appended := 0
	for _, z := range []*ziggurat{normals, exponentials} {
		for i := range uint64(layers) {
			l := z.layer[i]
			edges := []uint64{0, l.sure - 1, l.sure, l.sure + 1, l.sure + full/3 - l.sure/3, full}
			if i == 0 {
				edges = append(edges, z.inner-1, z.inner, z.inner+1)
			}
			if !testkit.Long() && i%8 != 0 {
				continue
			}
			for _, m := range edges {
				m &= full
				x := math.Ldexp(float64(m), -fraction) * float64(l.width) * pow2(-int(z.unit))
				v := (expNeg(z.exponent(x)) - l.y) / l.add // the ordinate on the curve
				ordinates := []uint64{0, math.MaxUint64}
				if v >= 0 && v < 0x1p63 {
					ordinates = append(ordinates, uint64(v), uint64(v)-512, uint64(v)+1<<20)
				}
				for _, v := range ordinates {
					if same(t, z, []uint64{m<<(64-fraction) | i, v}, i) > 2 {
						appended++
					}
				}
			}
		}
	}
	require.Positive(t, appended)
	for _, z := range []*ziggurat{normals, exponentials} { // tails within tails
		deep := uint64(math.MaxUint64) &^ 0xff
		for k := range 6 {
			words := make([]uint64, k)
			for j := range words {
				words[j] = deep
			}
			same(t, z, words, 7)
		}
	}
}

// TestCornersDecide: a point whose ordinate agrees with the curve in the first 64 bits takes more
// words.
func TestCornersDecide(t *testing.T) {
	z := normals
	const i, m = 100, 1<<fraction - 1<<40
	x := z.real(m<<(64-fraction) | i)
	lo, _ := z.ordinate(i, new(big.Int), 64, 128)
	e, scale := z.exponentAt(x, nil, 0)
	height, _ := z.ordinate(i, lsh(one, 64), 64, 128)
	v := expInt(e, scale, 128)
	v.Sub(v, lo).Lsh(v, 64).Quo(v, height.Sub(height, lo)) // of f(x), in units of 2⁻⁶⁴
	s := &tape{then: Reproducible(5)}
	z.under(i, x, nil, v.Uint64(), s)
	require.GreaterOrEqual(t, s.read, 2)
	// At x = 0 the ordinate is compared with 1 as a rational number.
	top := z.real(255)
	require.False(t, z.below(255, top, nil, &expansion{lsh(one, 64), 64}, 0), "y₂₅₆ ≥ 1")
	require.True(t, z.below(255, top, nil, &expansion{new(big.Int), 64}, 0))
}

// TestOrdinate: the bracket of an ordinate holds the rational number, and is tight.
func TestOrdinate(t *testing.T) {
	src := Reproducible(23)
	for _, z := range []*ziggurat{normals, exponentials} {
		y := new(big.Rat)
		for i := range 40 { // the denominators grow from layer to layer
			v := &expansion{word(src.Uint64()), 64}
			for range i % 3 {
				v.more(src)
			}
			exact := new(big.Rat).SetFrac(v.bits, lsh(one, v.n))
			exact.Mul(exact, z.height(i)).Add(exact, y)
			exact.Mul(exact, new(big.Rat).SetInt(lsh(one, 128)))
			lo, hi := z.ordinate(i, v.bits, v.n, 128)
			require.True(t, new(big.Rat).SetInt(lo).Cmp(exact) <= 0 && new(big.Rat).SetInt(hi).Cmp(exact) >= 0, "layer %d", i)
			require.LessOrEqual(t, hi.Sub(hi, lo).Int64(), int64(i)+1)
			y.Add(y, z.height(i))
		}
	}
}

// TestExpNeg compares the exponentials of both paths with 96 digits.
func TestExpNeg(t *testing.T) {
	src := Reproducible(22)
	for k := range 4000 {
		x := uniform(src) * []float64{1, 14, 80, 699}[k%4]
		want := testkit.Exp(testkit.New(-x))
		rel, _ := testkit.Sub(testkit.Quo(testkit.New(expNeg(x)), want), testkit.New(1)).Float64()
		require.Less(t, math.Abs(rel), 0x1p-48, "%v", x)

		const scale = 1100 // x is a multiple of 2⁻¹¹⁰⁰
		xi, _ := new(big.Float).SetMantExp(new(big.Float).SetFloat64(x), scale).Int(nil)
		precision := uint(128) << (k % 3)
		if xi.Sign() == 0 || precision > 256 {
			continue
		}
		f := new(big.Float).SetPrec(testkit.Prec).SetInt(expInt(xi, scale, precision))
		d, _ := testkit.Sub(new(big.Float).SetPrec(testkit.Prec).SetMantExp(want, int(precision)), f).Float64()
		require.True(t, d > -1 && d < 2, "%v at %v", d, x)
	}
	require.Equal(t, 1., expNeg(0))
	require.Zero(t, expNeg(1e300))
}

// TestCycles: words that fail every try end in the documented panic, and with Watch in an error.
func TestCycles(t *testing.T) {
	for name, c := range map[string]struct {
		words []uint64
		draw  func(s rand.Source)
	}{
		"rejections":           {[]uint64{math.MaxUint64}, func(s rand.Source) { normals.draw(s) }},
		"tails":                {[]uint64{^uint64(0xff)}, func(s rand.Source) { exponentials.draw(s) }},
		"radius":               {[]uint64{0}, func(s rand.Source) { RadialGrid(make([]int64, 1), 1, 0, s) }},
		"float":                {[]uint64{0}, func(s rand.Source) { Exponential(s) }},
		"below":                {[]uint64{math.MaxUint64}, func(s rand.Source) { Below(3, s) }},
		"geometric, multiples": {[]uint64{1 << 62}, func(s rand.Source) { Geometric(3, s) }},
		"geometric, remainder": {[]uint64{1 << 63, 0, 0, 1 << 63}, func(s rand.Source) { Geometric(3, s) }},
		"laplace":              {[]uint64{0, 0, 0, 0, 0, 1 << 63, 1 << 63}, func(s rand.Source) { DiscreteLaplace(1, s) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := &cycle{words: c.words}
			require.PanicsWithValue(t, errStuck, func() { c.draw(s) })
			require.LessOrEqual(t, s.at, 12*maxTries)

			w := Watch(&cycle{words: c.words})
			c.draw(w)
			require.ErrorIs(t, w.Err(), ErrSource)
		})
	}
}

// uniform draws from (0, 1].
func uniform(src rand.Source) float64 { return float64(src.Uint64()>>11+1) * 0x1p-53 }
