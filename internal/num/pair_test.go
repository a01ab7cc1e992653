// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package num

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func exactly(p Pair) *big.Float {
	f := func(x float64) *big.Float { return new(big.Float).SetPrec(500).SetFloat64(x) }
	return f(p.Hi).Add(f(p.Hi), f(p.Lo))
}

func randomPair(rnd *rand.Rand) Pair {
	hi, lo := TwoSum(rnd.NormFloat64(), rnd.NormFloat64()*0x1p-54)
	return Pair{hi, lo}
}

// Prox and Steepest against big.Float, next to faces too.
func TestPairs(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 20000 {
		g := Piece{math.Abs(rnd.NormFloat64()), math.Abs(rnd.NormFloat64()), -1 - rnd.Float64(), rnd.Float64()}
		switch rnd.IntN(4) {
		case 0:
			g.l1 = 0
		case 1:
			g.l2, g.lo = 0, 0
		}
		x, gamma := randomPair(rnd), math.Abs(rnd.NormFloat64())
		if rnd.IntN(3) == 0 { // near the kink
			h, l := TwoProd(gamma, g.l1)
			x.Hi, x.Lo = TwoSum(h, l*(1+0x1p-40*rnd.NormFloat64()))
		}
		big0, big1 := new(big.Float).SetPrec(500), new(big.Float).SetPrec(500).SetInt64(1)
		gm := new(big.Float).SetPrec(500).SetFloat64(gamma)
		l1, l2 := new(big.Float).SetPrec(500).SetFloat64(g.l1), new(big.Float).SetPrec(500).SetFloat64(g.l2)
		th, want := new(big.Float).Mul(gm, l1), exactly(x)
		switch {
		case new(big.Float).Abs(want).Cmp(th) <= 0:
			want.Set(big0)
		case want.Sign() > 0:
			want.Sub(want, th)
		default:
			want.Add(want, th)
		}
		want.Quo(want, new(big.Float).Add(big1, new(big.Float).Mul(gm, l2)))
		if lo := big.NewFloat(g.lo); want.Cmp(lo) < 0 {
			want.Set(lo)
		}
		if hi := big.NewFloat(g.hi); want.Cmp(hi) > 0 {
			want.Set(hi)
		}
		got := g.Prox(x, gamma)
		e, _ := new(big.Float).Sub(exactly(got), want).Float64()
		require.LessOrEqual(t, math.Abs(e), 64*0x1p-106*math.Abs(x.Hi))

		v := randomPair(rnd)
		at := got
		w, smooth := g.Steepest(at, v)
		a, b := -g.l1, g.l1 // −v lies in l2·x + [a, b], or w leads there
		switch {
		case at.Hi > 0:
			a = g.l1
		case at.Hi < 0:
			b = -g.l1
		}
		if at.Hi == g.lo {
			a = math.Inf(-1)
		}
		if at.Hi == g.hi {
			b = math.Inf(1)
		}
		slope := v.Hi + g.l2*at.Hi
		require.InDelta(t, max(slope+a, -slope-b, 0), math.Abs(w), 1e-14)
		if smooth {
			s := exactly(v)
			s.Add(s, new(big.Float).Mul(l2, exactly(at)))
			s.Add(s, new(big.Float).SetFloat64(math.Copysign(g.l1, at.Hi)))
			e, _ = s.Sub(s, big.NewFloat(w)).Float64()
			require.LessOrEqual(t, math.Abs(e), 0x1p-53*math.Abs(w)+32*0x1p-106*(math.Abs(v.Hi)))
		}
	}
}

// A pair that is next to a face, but equal to it in float64.
func TestSteepestDecidesFaces(t *testing.T) {
	g, inf := Piece{1, 0, -1, 1}, math.Inf(1)
	for _, c := range []struct {
		x      Pair
		v, w   float64
		smooth bool
	}{
		{Pair{1, 0}, -3, 0, false}, {Pair{1, 0}, 3, 4, false}, {Pair{1, -0x1p-60}, -3, -2, true}, {Pair{1, 0x1p-60}, 0, inf,
			false},
		{Pair{0, 0}, 0.5, 0, false}, {Pair{0, 0}, 1.5, 0.5, false}, {Pair{0x1p-900, 0}, 0.5, 1.5, true},
		{Pair{-1, 0}, 3, 0, false}, {Pair{-1, 0x1p-60}, 3, 2, true}, {Pair{-1, -0x1p-60}, 3, inf,
			false}, {Pair{math.NaN(), 0}, 0, inf, false},
		{Pair{0.5, 0}, math.NaN(), inf, false}, {Pair{0.5, 0}, inf, inf, false}, {Pair{0.5, 0}, -inf, inf, false},
	} {
		w, smooth := g.Steepest(c.x, Pair{Hi: c.v})
		require.Equal(t, c.w, w, "%v", c)
		require.Equal(t, c.smooth, smooth, "%v", c)
	}
}
