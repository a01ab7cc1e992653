// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package pld

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/internal/num"
)

// gauss is δ_G(ε, s) = Φ(s/2 − ε/s) − e^ε Φ(−s/2 − ε/s), ε ≥ 0.
func gauss(eps, s float64) float64 {
	a, b := num.LogPhi(s/2-eps/s), eps+num.LogPhi(-s/2-eps/s)
	return math.Exp(a) * -math.Expm1(min(0, b-a))
}

// sampled is the profile of batches of a fixed size with rate q: q δ_G(t, 2/z),
// t = log1p((e^ε−1)/q).
func sampled(q, z float64) func(eps float64) float64 {
	return func(eps float64) float64 { return q * gauss(math.Log1p(math.Expm1(eps)/q), 2/z) }
}

// poisson is the pair of Poisson batches under add-remove.
func poisson(q, z float64) Pair {
	return Pair{
		Up: func(eps float64) float64 { return q * gauss(math.Log1p(math.Expm1(eps)/q), 1/z) },
		Down: func(eps float64) float64 {
			y := 1 + math.Expm1(-eps)/q
			if y <= 0 {
				return 0
			}
			return q * math.Exp(eps) * y * gauss(-math.Log(y), 1/z)
		},
	}
}

// at returns the profile of a grid law on the grid of step h.
func (g *gridLaw) at(eps, h float64) float64 {
	sum := g.inf
	for i, p := range g.p {
		if x := float64(g.lo+i) * h; x > eps {
			sum += p * -math.Expm1(eps-x)
		}
	}
	return sum
}

// TestConnectsTheDots: at every point of its grid the law has the profile that it
// was made from, between them no less and at most the chord.
func TestConnectsTheDots(t *testing.T) {
	for _, f := range []Pair{
		Symmetric(func(eps float64) float64 { return gauss(eps, 0.7) }),
		Symmetric(func(eps float64) float64 { return gauss(eps, 6) }), // δ(0) near 1
		Symmetric(sampled(0.2, 1.3)),
		poisson(0.2, 1.3),
		poisson(0.2, 1.3).Swapped(),
	} {
		const h, points = 0.05, 90
		g := connect(f, h, points)
		require.Equal(t, -points, g.lo)
		require.Len(t, g.p, 2*points+1)
		require.InDelta(t, f.Up(points*h), g.inf, 3e-11*f.Up(points*h))
		for j := -points; j <= points; j++ {
			eps := float64(j) * h
			want := f.At(eps)
			if j < 0 { // the law ends at −J: the mass below it is at −J
				want = -math.Expm1(eps) + math.Exp(eps)*f.Down(-eps)
			}
			got := g.at(eps, h)
			require.GreaterOrEqual(t, got, want*(1-1e-13), "ε = %v", eps)
			require.LessOrEqual(t, got, want*(1+1e-9)+1e-13+math.Exp(eps)*f.Down(points*h), "ε = %v", eps)
			mid := eps + h/2
			if j < points {
				chord := (math.Exp(mid)-math.Exp(eps))/(math.Exp(eps+h)-math.Exp(eps))*(g.at(eps+h, h)-got) + got
				require.InDelta(t, chord, g.at(mid, h), 1e-12)
			}
		}
	}
	// A function that is not convex is replaced by one above it: no mass is negative.
	bumpy := Symmetric(func(eps float64) float64 { return math.Max(0.3-0.1*eps, 0) + 0.02*math.Sin(9*eps) + 0.02 })
	g := connect(bumpy, 0.05, 40)
	for i, p := range g.p {
		require.GreaterOrEqual(t, p, 0.)
		if i >= 40 {
			require.GreaterOrEqual(t, g.at(float64(i-40)*0.05, 0.05), bumpy.Up(float64(i-40)*0.05))
		}
	}
	// P_0 is rounded up: mass that a profile of two atoms has nowhere else.
	require.Positive(t, connect(Symmetric(func(float64) float64 { return 1 }), 0.1, 3).p[3])
}

// TestExtent: the least number of points beyond which little is left, in both
// orders, above what a profile keeps at every ε.
func TestExtent(t *testing.T) {
	tail := func(scale, floor float64) func(float64) float64 {
		return func(eps float64) float64 { return math.Max(math.Exp(-eps*scale), floor) }
	}
	for _, c := range []struct {
		f     Pair
		h     float64
		limit int
		want  int
	}{
		{Symmetric(tail(2, 0)), 0.1, 1000, 116},                                        // 23.026/0.2 = 115.1
		{Pair{Up: tail(2, 0), Down: tail(1, 0)}, 0.1, 1000, 231},                       // the other order decides
		{Pair{Up: tail(1, 0), Down: tail(2, 0)}, 0.1, 1000, 231},                       //
		{Symmetric(tail(2, 1e-3)), 0.1, 1000, 35},                                      // 6.908/0.2 = 34.5
		{Pair{Up: tail(2, 0), Down: tail(1, 1e-3)}, 0.1, 1000, 70},                     // 6.908/0.1 = 69.1
		{Symmetric(tail(2, 0)), 0.1, 50, 50},                                           // no more than the limit
		{Symmetric(tail(1000, 0)), 0.1, 1000, 1},                                       // at least one
		{Symmetric(tail(40, 0)), 0.1, 1000, 6}, {Symmetric(tail(60, 0)), 0.1, 1000, 4}, // around where the search starts
	} {
		require.Equal(t, c.want, extent(c.f, c.h, 1e-10, c.limit))
	}
}

// The mean of the tilted law and its logarithm of the moment from powers by
// multiplication are those from one exponential for each point.
func TestCumulant(t *testing.T) {
	g := connect(Symmetric(sampled(0.01, 2)), 1e-3, 9000)
	for _, lambda := range []float64{1e-3, 1, 20, 60} {
		k, mean, variance := g.cumulant(lambda, 1e-3)
		var s0, s1, s2 float64
		for i, p := range g.p {
			x := float64(g.lo+i) * 1e-3
			w := p * math.Exp(lambda*x)
			s0, s1, s2 = s0+w, s1+w*x, s2+w*x*x
		}
		require.InDelta(t, math.Log(s0), k, 1e-12*(1+math.Abs(k)))
		require.InEpsilon(t, s1/s0, mean, 1e-9)
		require.InEpsilon(t, s2/s0-s1/s0*s1/s0, variance, 1e-9)
	}
}

// Zeros at the ends do not hide the masses inside, however large the tilt.
func TestCumulantOfNarrowLaw(t *testing.T) {
	g := gridLaw{lo: -550, p: make([]float64, 1101)}
	g.p[425], g.p[550], g.p[1000] = 0.25, 0.5, 0.25 // at −0.25, 0 and 0.9
	for _, lambda := range []float64{-4000, -50, 2, 3000} {
		k, mean, _ := g.cumulant(lambda, 2e-3)
		least, most := -0.25, 0.9
		want := math.Log(0.25+0.5*math.Exp(lambda*0.25)+0.25*math.Exp(lambda*(most-least))) + lambda*least
		if lambda > 0 {
			want = math.Log(0.25+0.5*math.Exp(-lambda*most)+0.25*math.Exp(-lambda*(most-least))) + lambda*most
			least = most
		}
		require.InDelta(t, want, k, 1e-9)
		if math.Abs(lambda) > 1000 {
			require.InDelta(t, least, mean, 1e-9)
		}
	}
	// The product of it and its mirror image near its largest loss, where the tilted law
	// is narrow: δ(ε) by convolution.
	l := &law{h: 2e-3, times: []float64{1, 1}, parts: []gridLaw{g, {lo: -550, p: make([]float64, 1101)}}}
	for i, p := range g.p {
		l.parts[1].p[1100-i] = p
	}
	for _, eps := range []float64{0.5, 1, 1.1, 1.14} {
		exact := 0.0
		for i, a := range g.p {
			for j, b := range g.p {
				if x := 2e-3 * float64(i-j); a*b > 0 && x > eps {
					exact += a * b * -math.Expm1(eps-x)
				}
			}
		}
		require.GreaterOrEqual(t, l.delta(eps), exact*(1-1e-12))
		require.LessOrEqual(t, l.delta(eps), exact*(1+1e-6)+1e-12)
	}
}
