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

// TestChiSquaredSum: the sum lies within 2⁻⁵¹ of the sum of the real numbers behind it.
func TestChiSquaredSum(t *testing.T) {
	for k := range draws() / 1000 {
		n := []int{1, 2, 5, 14, 15}[k%5]
		src := rand.NewPCG(uint64(k), 3)
		sum := new(big.Float).SetPrec(300)
		term := func(z *ziggurat) *big.Float {
			u, x := z.draw(src)
			if x == nil {
				x = z.real(u)
				x.more(src)
			} else {
				x.float(src) // takes words if it needs them
			}
			return new(big.Float).SetPrec(300).SetMantExp(new(big.Float).SetPrec(300).SetInt(x.at(0)), -int(x.scale()))
		}
		if n%2 == 1 {
			x := term(normals)
			sum.Mul(x, x)
		}
		for range n / 2 {
			x := term(exponentials)
			sum.Add(sum, x).Add(sum, x)
		}
		got := new(big.Float).SetPrec(300).SetFloat64(ChiSquared(n, rand.NewPCG(uint64(k), 3)))
		d, _ := got.Quo(got, sum).Sub(got, big.NewFloat(1)).Float64()
		require.LessOrEqual(t, math.Abs(d), 0x1p-51, "n = %d", n)
	}
}

// TestCubeConstants: for every n, c is a multiple of 2⁻⁶⁴ and 1 ≤ 9dc² ≤ 1 + 2⁻⁴⁸, in integers.
func TestCubeConstants(t *testing.T) {
	for n := leastCube; n <= maxDegrees; n++ {
		q := newCube(n)
		require.Equal(t, float64(3*n-2), q.k)
		c := q.c * 0x1p64
		if c != math.Floor(c) || c >= 0x1p62 {
			t.Fatalf("n = %d: c = %v", n, q.c)
		}
		twice := word(uint64(c)) // 9dc²·2·2¹²⁸ = 3k(c2⁶⁴)²
		twice.Mul(twice, twice).Mul(twice, big.NewInt(int64(3*(3*n-2))))
		excess := twice.Sub(twice, lsh(one, 129))
		if excess.Sign() < 0 || excess.Cmp(lsh(one, 129-48)) > 0 {
			t.Fatalf("n = %d: 9dc² − 1 = %v·2⁻¹²⁹", n, excess)
		}
	}
}

// hard is 6t at a real x, ±c|x| = y, in 96 digits, from the definition of t by the density that a
// cube must have: 6d(w³ − 1 − 3 log w) − 3x².
func (q cube) hard(x *big.Float) (t, w *big.Float) {
	y := testkit.Mul(testkit.New(q.c), x)
	w = testkit.Add(testkit.New(1), y)
	if w.Sign() <= 0 {
		return nil, w
	}
	t = testkit.Sub(testkit.Mul(w, testkit.Mul(w, w)), testkit.New(1))
	t = testkit.Mul(testkit.New(q.k), testkit.Sub(t, testkit.Mul(testkit.New(3), testkit.Log(w))))
	return testkit.Sub(t, testkit.Mul(testkit.New(3), testkit.Mul(x, x))), w
}

// TestCubeDensity: φ(x)e^{-t} is the density of x at which k(1+cx)³/3 has the χ² law, up to one
// factor: its logarithm differs from that of w^{3d}e^{-dw³} by a constant. t ≥ 0 grows with |x|.
func TestCubeDensity(t *testing.T) {
	for _, n := range []int{16, 17, 100, 2288, maxDegrees} {
		q := newCube(n)
		var last *big.Float
		for _, x := range []float64{0, 0.1, 0.5, 1, 2, 4, 8, 0, -0.1, -0.5, -1, -2, -4, -8} {
			hard, w := q.hard(testkit.New(x))
			if x == 0 {
				last = testkit.New(-1e-80)
			}
			require.True(t, hard.Cmp(last) >= 0, "n = %d, x = %v", n, x)
			last = hard
			// 6 log φ(x) − 6t + constant and 6(3d log w − dw³), both 0 at x = 0
			left := testkit.Sub(testkit.Mul(testkit.New(-3), testkit.Mul(testkit.New(x), testkit.New(x))), hard)
			right := testkit.Mul(testkit.New(3), testkit.Log(w))
			right = testkit.Sub(testkit.Add(right, testkit.New(1)), testkit.Mul(w, testkit.Mul(w, w)))
			right = testkit.Mul(testkit.New(q.k), right)
			diff, _ := testkit.Sub(left, right).Float64()
			require.InDelta(t, 0, diff, 1e-80)
			// and t is the integral of the comment, from its derivative 3d y³/(1+y)·c + (9dc²−1)x
			const h = 0x1p-100
			near, _ := q.hard(testkit.Add(testkit.New(x), testkit.New(h)))
			slope, _ := testkit.Quo(testkit.Sub(near, hard), testkit.New(6*h)).Float64()
			y := q.c * x
			require.InDelta(t, q.k/2*q.c*y*y*y/(1+y), slope, 1e-9*(1+math.Abs(slope)), "n = %d, x = %v", n, x)
		}
	}
}

// referee draws as a cube does from the words of src, with every decision by logarithms in 96
// digits, and returns the ends of the real number.
func referee(n int, src rand.Source) (lo, hi *big.Float) {
	q := newCube(n)
	for {
		u, x := normals.draw(src)
		if x == nil {
			x = normals.real(u)
		}
		v := &expansion{word(src.Uint64()), 64}
		for {
			corner := func(end int64) (below bool, value *big.Float) {
				at := testkit.New(0).SetMantExp(testkit.New(0).SetInt(x.at(end)), -int(x.scale()))
				if u&layers != 0 {
					at.Neg(at)
				}
				height := testkit.New(0).SetMantExp(testkit.New(0).SetInt(new(big.Int).Add(v.bits, big.NewInt(end))), -int(v.n))
				hard, w := q.hard(at)
				if hard == nil {
					return false, w
				}
				value = testkit.Quo(testkit.Mul(testkit.New(q.k), testkit.Mul(w, testkit.Mul(w, w))), testkit.New(3))
				if height.Sign() == 0 {
					return true, value
				}
				return testkit.Add(testkit.Mul(testkit.New(6), testkit.Log(height)), hard).Sign() < 0, value
			}
			first, a := corner(0)
			last, b := corner(1)
			if last {
				return a, b
			}
			if !first {
				break
			}
			x.more(src)
			v.more(src)
		}
	}
}

// TestCube: the float is within 2⁻⁵¹ of the real number that a referee draws from the same words,
// with as many words, but for its digits, and the float of the first word where that is enough,
// whoever decided: from usual words, from ordinates that agree with the
// curve in 20 to 63 bits, on both sides, from words that agree in 64 and 128 bits, in the tails.
func TestCube(t *testing.T) {
	worst := 0.0
	check := func(n int, words []uint64, seed uint64) {
		t.Helper()
		s := &tape{words: words, then: rand.NewPCG(seed, 7)}
		got := ChiSquared(n, s)
		r := &tape{words: words, then: rand.NewPCG(seed, 7)}
		lo, hi := referee(n, r)
		require.LessOrEqual(t, r.read, s.read)
		require.LessOrEqual(t, s.read, r.read+2, "n = %d", n) // for the digits of what intervals decided
		if r.read == 2 {                                      // the float does not tell whether intervals decided
			low := &tape{words: []uint64{words[0], 0}, then: rand.NewPCG(seed, 7)}
			require.Equal(t, ChiSquared(n, low), got, "n = %d, words %x", n, words)
			require.Equal(t, 2, s.read)
		}
		for _, end := range []*big.Float{lo, hi} {
			d, _ := testkit.Sub(testkit.Quo(testkit.New(got), end), testkit.New(1)).Float64()
			require.LessOrEqual(t, math.Abs(d), 0x1p-51, "n = %d, words %x", n, words)
			worst = max(worst, math.Abs(d))
		}
	}
	seed := uint64(0)
	src := Reproducible(53)
	sizes := []int{16, 17, 31, 101, 1000, 2288, maxDegrees}
	for range draws() / 20000 {
		n := sizes[seed%uint64(len(sizes))]
		u := src.Uint64()
		switch seed % 3 {
		case 0: // far out, in layer 0 to 2
			u = u&^0xff | seed%2 | 0xfff<<52
		case 1: // near 0, where the curve is next to 1
			u = u>>(seed%24)&^0x1ff | u&0x1ff
		}
		x := normals.real(u)
		y := testkit.New(0).SetMantExp(testkit.New(0).SetInt(x.at(0)), -int(x.scale()))
		if u&layers != 0 {
			y.Neg(y)
		}
		hard, _ := newCube(n).hard(y)
		curve := testkit.Exp(testkit.Quo(hard, testkit.New(-6)))
		height, _ := curve.SetMantExp(curve, 64).Int(nil)
		seed++
		check(n, []uint64{u}, seed)
		if height.BitLen() > 64 { // at x = 0
			continue
		}
		v := height.Uint64()
		for _, bit := range []int{0, 1, 10, 20, 28, 34, 40, 44} {
			check(n, []uint64{u, v + 1<<bit}, seed)
			check(n, []uint64{u, v - 1<<bit}, seed)
		}
		for _, next := range [][2]uint64{{0, 0}, {0, 1 << 63}, {1 << 63, 0}, {1<<64 - 1, 1<<64 - 1}} {
			check(n, []uint64{u, v, next[0], next[1]}, seed)
		}
	}
	require.Greater(t, worst, 0x1p-53, "the bound is of the right size")
}

// TestChiSizes: a cube is used for the degrees for which its constants are proved, and sums for
// others, of which pure noise in many dimensions needs more.
func TestChiSizes(t *testing.T) {
	for n, cubed := range map[int]bool{
		1: false, 15: false, 16: true, maxDegrees: true, maxDegrees + 1: false, 1 << 17: false,
	} {
		c := newChi(n, Reproducible(56))
		require.Equal(t, cubed, c.cube.k > 0, n)
		lo, _ := c.bracket()
		x, _ := new(big.Float).SetMantExp(new(big.Float).SetInt(lo), -int(c.digits)).Float64()
		require.Less(t, math.Abs(x-float64(n)), 6*math.Sqrt(2*float64(n))+8, "n = %d", n)
	}
}

// TestChiBracket: the brackets of newChi, on which the length of pure noise rests, hold the ends of
// the number that a referee draws from the same words, and every bracket holds the next one: with
// either sign, usual words, ordinates near the curve and tails.
func TestChiBracket(t *testing.T) {
	src := Reproducible(55)
	far, minus := 0, 0
	for seed := range uint64(draws() / 5000) {
		n := []int{16, 17, 41, 2288, maxDegrees}[seed%5]
		words := []uint64{src.Uint64(), src.Uint64()}
		switch seed % 3 {
		case 0: // layer 0, with the tail
			words[0] = words[0]&^0xff | 0xff<<56
		case 1: // a high ordinate: the curve at y ~ 0
			words[1] |= 0xffffff << 40
		}
		c := newChi(n, &tape{words: words, then: rand.NewPCG(seed, 8)})
		more := rand.NewPCG(seed, 9)
		lo, hi := referee(n, &tape{words: words, then: rand.NewPCG(seed, 8)})
		if lo.Cmp(hi) > 0 {
			lo, hi = hi, lo
			minus++
		}
		if c.normal.offset.Sign() > 0 { // r of the tail
			far++
		}
		least, most := lo, hi
		for range 3 {
			a, b := c.bracket()
			below := testkit.New(0).SetMantExp(testkit.New(0).SetInt(a), -int(c.digits))
			above := testkit.New(0).SetMantExp(testkit.New(0).SetInt(b), -int(c.digits))
			require.Positive(t, above.Cmp(below))
			// as narrow as the known bits allow, and not narrower, up to the digits of the referee
			rounding := testkit.Mul(most, testkit.New(1e-90))
			slack := testkit.Add(testkit.New(0).SetMantExp(testkit.New(2), -int(c.digits)), rounding)
			require.True(t, testkit.Add(below, slack).Cmp(least) >= 0, "n = %d, seed %d", n, seed)
			require.True(t, testkit.Sub(above, slack).Cmp(most) <= 0, "n = %d, seed %d", n, seed)
			for _, end := range []*big.Float{c.at(0), c.at(1)} {
				require.True(t, testkit.Sub(below, rounding).Cmp(end) <= 0, "n = %d, seed %d: low end", n, seed)
				require.True(t, testkit.Add(above, rounding).Cmp(end) >= 0, "n = %d, seed %d: high end", n, seed)
			}
			least, most = below, above
			c.more(more)
		}
	}
	require.Positive(t, far)
	require.Positive(t, minus)
}

// at returns the number of a cube at one end of its normal draw, in 96 digits.
func (c *chi) at(end int64) *big.Float {
	x := testkit.New(0).SetMantExp(testkit.New(0).SetInt(c.normal.at(end)), -int(c.normal.scale()))
	if c.minus {
		x.Neg(x)
	}
	_, w := c.cube.hard(x)
	return testkit.Quo(testkit.Mul(testkit.New(c.cube.k), testkit.Mul(w, testkit.Mul(w, w))), testkit.New(3))
}

// TestCubeAround: the floats that decide are within 2⁻³⁴ of the curve, up to both ends of where
// they are used, and a quick acceptance is below it.
func TestCubeAround(t *testing.T) {
	for _, n := range []int{16, 17, 100, 2288, maxDegrees} {
		q := newCube(n)
		for i := range 200 {
			y := -0.49999 + 1.49998*float64(i)/199
			if i%2 == 0 { // where the curve is not 0 to many digits
				y *= math.Min(1, 40/q.k)
			}
			x := y / q.c
			hard, _ := q.hard(testkit.New(x))
			curve, _ := testkit.Exp(testkit.Quo(hard, testkit.New(-6))).Float64()
			low, high := q.around(q.c*x, 1) // no quick decision
			require.InDelta(t, curve, (low+high)/2, 0x1p-34, "n = %d, y = %v", n, y)
			quick, _ := q.around(q.c*x, 0)
			require.LessOrEqual(t, quick, curve-certain/2, "n = %d, y = %v", n, y)
		}
		for _, y := range []float64{-1, -0.5, 1, math.Inf(1), math.Inf(-1)} { // floats do not decide
			low, high := q.around(y, 0.5)
			require.Equal(t, [2]float64{0, 1}, [2]float64{low, high})
		}
	}
}

// TestCubeBelow: intervals decide as logarithms in 96 digits do, also where floats are not used,
// and no x with y ≤ −1 is accepted.
func TestCubeBelow(t *testing.T) {
	q := newCube(16)
	v := &expansion{word(1), 64}
	for _, c := range []struct {
		minus bool
		x     float64
		want  bool
	}{
		{true, 8.4, false}, {true, 9, false}, {true, 1e6, false}, {true, 8.25, false}, {true, 4.5, true}, {true, 0, true},
		{false, 0, true}, {false, 8.4, true}, {false, 1e6, false},
	} {
		x := &real{word(uint64(c.x * 0x1p20)), new(big.Int), 20, &expansion{new(big.Int), 0}}
		require.Equal(t, c.want, q.below(c.minus, x, v, 0), "%+v", c)
		if hard, _ := q.hard(testkit.New(map[bool]float64{true: -c.x, false: c.x}[c.minus])); hard != nil {
			sum, _ := testkit.Add(hard, testkit.New(-6*64*math.Ln2)).Float64()
			require.Equal(t, c.want, sum < 0, "%+v", c)
		} else {
			require.False(t, c.want)
		}
	}
	zero := &real{word(1 << 20), new(big.Int), 20, &expansion{new(big.Int), 0}}
	require.True(t, q.below(true, zero, &expansion{new(big.Int), 64}, 0), "V = 0")
	require.False(t, q.below(true, zero, &expansion{new(big.Int).SetUint64(math.MaxUint64), 64}, 1), "V = 1")
}
