// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package enclose_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/internal/enclose"
	"github.com/privopt/privopt/internal/testkit"
)

// holds asserts that x lies in the interval, which is narrow: a width of a few units of the
// precision relative to scale.
func holds(t *testing.T, v enclose.Interval, x *big.Float, prec uint, scale float64, args ...any) {
	t.Helper()
	require.LessOrEqual(t, v.Lo.Cmp(x), 0, "%v: lower end %v above %v", args, v.Lo, x)
	require.GreaterOrEqual(t, v.Hi.Cmp(x), 0, "%v: upper end %v below %v", args, v.Hi, x)
	width, _ := new(big.Float).Sub(v.Hi, v.Lo).Float64()
	require.LessOrEqual(t, width, math.Ldexp(scale, 9-int(prec)), "%v: too wide", args)
}

var precisions = []uint{64, 128, 192}

// Every function holds the 320-bit value of package bigref, which shares no code with it.
func TestContainment(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 1))
	for i := range testkit.Of(400, 1500) {
		prec := precisions[i%len(precisions)]
		c := enclose.New(prec, nil)
		abs := func(x *big.Float) float64 { f, _ := new(big.Float).Abs(x).Float64(); return f }
		spread := func(lo, hi float64) float64 {
			return math.Exp(math.Log(lo) + rnd.Float64()*(math.Log(hi)-math.Log(lo)))
		}

		x := spread(1e-9, 700)
		for _, x := range []float64{x, -x} {
			want := testkit.Exp(testkit.New(x))
			holds(t, c.Exp(c.Of(x)), want, prec, abs(want), "exp", x)
		}
		x = spread(1e-300, 1e300)
		want := testkit.Log(testkit.New(x))
		holds(t, c.Log(c.Of(x)), want, prec, 1+abs(want), "log", x)
		x = spread(1e-12, 1e12)
		want = testkit.Log(testkit.Add(testkit.New(1), testkit.New(x)))
		holds(t, c.Log1p(c.Of(x)), want, prec, abs(want), "log1p", x)

		x = []float64{6*rnd.Float64() - 3, 3 + 40*rnd.Float64(), spread(3, 1e12)}[i%3]
		want = testkit.Mills(testkit.New(x))
		holds(t, c.Mills(c.Of(x)), want, prec, abs(want)+1, "Mills", x)

		eps, s := spread(1e-6, 700), spread(1e-8, 1e3)
		if i%2 == 0 { // where δ is between 1e-300 and 1
			s = spread(1e-4, 10)
			eps = s*(s/2+37*rnd.Float64()) - s*s*rnd.Float64()
		}
		if i%7 == 0 {
			eps = -eps
		}
		if math.Abs(eps/s) > 100 || s > 25 { // where the reference is slow, or 1 but for its own rounding
			continue
		}
		want = delta(eps, s)
		around := func(x float64) enclose.Interval {
			return c.Mul(c.Of(x), enclose.Interval{Lo: big.NewFloat(0.999), Hi: big.NewFloat(1.001)})
		}
		for _, v := range []enclose.Interval{c.GaussianDelta(c.Of(eps), c.Of(s)), c.GaussianDelta(around(eps), around(s))} {
			require.LessOrEqual(t, v.Lo.Cmp(want), 0, "δ_G(%v; %v)", eps, s)
			require.GreaterOrEqual(t, v.Hi.Cmp(want), 0, "δ_G(%v; %v)", eps, s)
		}
	}
}

// delta returns δ_G to more digits than bigref has where its terms cancel.
func delta(eps, s float64) *big.Float {
	if eps < 0 {
		e := testkit.Exp(testkit.New(eps))
		return testkit.Add(testkit.Sub(testkit.New(1), e), testkit.Mul(e, delta(-eps, s)))
	}
	return testkit.GaussianDelta(testkit.New(eps), testkit.New(s))
}

// δ_G is a number at all arguments of a budget, however extreme, and one that decreases with ε.
func TestExtremes(t *testing.T) {
	c := enclose.New(64, nil)
	for _, eps := range []float64{-1e5, -700, -1, -1e-300, 0, 1e-300, 1e-6, 1, 700, 1e5, 1e300} {
		for _, s := range []float64{0, 1e-300, 1e-8, 1e-3, 1, 30, 1e3, 1e100} {
			v := c.GaussianDelta(c.Of(eps), c.Of(s))
			require.LessOrEqual(t, v.Lo.Cmp(v.Hi), 0)
			require.GreaterOrEqual(t, v.Lo.Sign(), 0)
			require.LessOrEqual(t, v.Hi.Cmp(big.NewFloat(1)), 0)
		}
	}
}

// The inequality δ_G(ε; s) ≤ t is proved for the least float64 t where it is true, and for no t
// where it is false.
func TestProvesToTheLastBit(t *testing.T) {
	rnd := rand.New(rand.NewPCG(8, 8))
	proved := 0
	for range 300 {
		s := math.Exp(math.Log(1e-4) + rnd.Float64()*math.Log(1e5))
		eps := s*(s/2+37*rnd.Float64()) - min(s*s, 1)*rnd.Float64()
		want := delta(eps, s)
		target, acc := want.Float64()
		if acc == big.Below {
			target = math.Nextafter(target, 1)
		}
		if !(target > 1e-300 && target < 1) {
			continue
		}
		claim := func(target float64) enclose.Inequality {
			return func(c enclose.Arithmetic) (less, more enclose.Interval) {
				return c.GaussianDelta(c.Of(eps), c.Of(s)), c.Of(target)
			}
		}
		require.True(t, enclose.Proves(nil, claim(target)), "δ_G(%v; %v) ≤ %v", eps, s, target)
		require.False(t, enclose.Proves(nil, claim(math.Nextafter(target, 0))), "δ_G(%v; %v) ≤ %v", eps, s, target)
		require.False(t, enclose.Proves(nil, claim(target), claim(math.Nextafter(target, 0))))
		proved++
	}
	require.Greater(t, proved, 200)
}

// Arguments outside of a domain are no proof, and no panic.
func TestNothingIsProved(t *testing.T) {
	type pair = enclose.Interval
	nan, inf := math.NaN(), math.Inf(1)
	for name, claim := range map[string]enclose.Inequality{
		"NaN":           func(c enclose.Arithmetic) (pair, pair) { return c.Of(nan), c.Of(1) },
		"NaN above":     func(c enclose.Arithmetic) (pair, pair) { return c.Of(0), c.Of(nan) },
		"∞ − ∞":         func(c enclose.Arithmetic) (pair, pair) { return c.Sub(c.Of(inf), c.Of(inf)), c.Of(1) },
		"∞ ≤ ∞":         func(c enclose.Arithmetic) (pair, pair) { return c.Of(inf), c.Of(inf) },
		"1/0":           func(c enclose.Arithmetic) (pair, pair) { return c.Quo(c.Of(1), c.Of(0)), c.Of(1) },
		"√−1":           func(c enclose.Arithmetic) (pair, pair) { return c.Sqrt(c.Of(-1)), c.Of(1) },
		"log 0":         func(c enclose.Arithmetic) (pair, pair) { return c.Log(c.Of(0)), c.Of(1) },
		"log −1":        func(c enclose.Arithmetic) (pair, pair) { return c.Log(c.Of(-1)), c.Of(1) },
		"R(−4)":         func(c enclose.Arithmetic) (pair, pair) { return c.Mills(c.Of(-4)), c.Of(inf) },
		"s < 0":         func(c enclose.Arithmetic) (pair, pair) { return c.GaussianDelta(c.Of(1), c.Of(-1)), c.Of(1) },
		"e^1e9 ≤ 1e300": func(c enclose.Arithmetic) (pair, pair) { return c.Exp(c.Of(1e9)), c.Of(1e300) },
		"1/3 ≤ 1/3":     func(c enclose.Arithmetic) (pair, pair) { v := c.Quo(c.Of(1), c.Of(3)); return v, v },
	} {
		require.False(t, enclose.Proves(nil, claim), name)
	}
	require.True(t, enclose.Proves(nil))
}

// Operations on intervals hold all results for all signs.
func TestOperations(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 5))
	c := enclose.New(64, nil)
	exact := func() *big.Float { return new(big.Float).SetPrec(400) }
	for range 2000 {
		a, b := rnd.NormFloat64(), rnd.NormFloat64()
		u, v := rnd.NormFloat64(), rnd.NormFloat64()
		x := enclose.Interval{Lo: big.NewFloat(min(a, b)), Hi: big.NewFloat(max(a, b))}
		y := enclose.Interval{Lo: big.NewFloat(min(u, v)), Hi: big.NewFloat(max(u, v))}
		p, q := x.Lo, y.Hi
		if rnd.IntN(2) == 0 {
			p, q = big.NewFloat(a+(b-a)*0.25), y.Lo
		}
		in := func(z enclose.Interval, w *big.Float, name string) {
			require.True(t, z.Lo.Cmp(w) <= 0 && w.Cmp(z.Hi) <= 0, "%s of %v, %v: %v", name, x, y, z)
		}
		in(c.Add(x, y), exact().Add(p, q), "sum")
		in(c.Sub(x, y), exact().Sub(p, q), "difference")
		in(c.Mul(x, y), exact().Mul(p, q), "product")
		in(c.Square(x), exact().Mul(p, p), "square")
		if y.Lo.Sign() > 0 {
			in(c.Quo(x, y), exact().Quo(p, q), "quotient")
		}
		square := c.Square(y)
		in(c.Sqrt(square), exact().Abs(q), "root")
		in(c.Hypot(x, y), exact().Sqrt(exact().Add(exact().Mul(p, p), exact().Mul(q, q))), "hypot")
	}
}

func BenchmarkGaussianDelta(b *testing.B) {
	for _, prec := range []uint{64, 128, 256} {
		for _, at := range []struct {
			name   string
			eps, s float64
		}{{"a=3.6", 1, 0.27}, {"a=1", 0.1, 0.1}, {"a=37", 3.7, 0.1}} {
			b.Run(at.name+"/prec="+string(rune('0'+prec/64)), func(b *testing.B) {
				c := enclose.New(prec, nil)
				for b.Loop() {
					c.GaussianDelta(c.Of(at.eps), c.Of(at.s))
				}
			})
		}
	}
}
