// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package pld

import (
	"math"
	"math/cmplx"
	"testing"

	"github.com/stretchr/testify/require"
)

// small returns a law of a few atoms in two parts, repeated a few times, and its
// masses by plain convolution: at losses lo·h, (lo+1)h, ….
func small() (l *law, masses []float64, lo int, inf float64) {
	l = &law{h: 0.1, times: []float64{3, 2}, parts: []gridLaw{
		{lo: -2, p: []float64{0.05, 0.2, 0.3, 0.25, 0.1997}, inf: 3e-4},
		{lo: -1, p: []float64{0.3, 0.1, 0.4, 0.1999}, inf: 1e-4},
	}}
	masses = []float64{1}
	keep := 1.0
	for i, g := range l.parts {
		for range int(l.times[i]) {
			next := make([]float64, len(masses)+len(g.p)-1)
			for a, x := range masses {
				for b, y := range g.p {
					next[a+b] += x * y
				}
			}
			masses = next
			lo += g.lo
			keep *= 1 - g.inf
		}
	}
	return l, masses, lo, 1 - keep
}

// TestTailByConvolution: δ by FFT under tilting is that of the plain
// convolution, never less and above it by no more than the slack.
func TestTailByConvolution(t *testing.T) {
	l, masses, lo, inf := small()
	require.InEpsilon(t, inf, l.inf(), 1e-12)
	require.InEpsilon(t, 0.2, l.largest(), 1e-12)
	exact := func(eps float64) float64 {
		sum := inf
		for i, p := range masses {
			if x := float64(lo+i) * l.h; x > eps {
				sum += p * -math.Expm1(eps-x)
			}
		}
		return sum
	}
	log := func(lambda float64) float64 { // log Σ p e^{λx}
		sum := 0.0
		for i, p := range masses {
			sum += p * math.Exp(lambda*float64(lo+i)*l.h)
		}
		return math.Log(sum)
	}
	for _, lambda := range []float64{0.01, 1, 7} {
		k, mean, variance := l.cumulant(lambda)
		require.InDelta(t, log(lambda), k, 1e-12)
		d := 1e-4
		require.InDelta(t, (log(lambda+d)-log(lambda-d))/(2*d), mean, 1e-7)
		require.InDelta(t, (log(lambda+d)-2*log(lambda)+log(lambda-d))/(d*d), variance, 1e-5)
		// Chernoff's bound is above δ, and its constant is the least one.
		c := math.Exp(chernoff(k, lambda, 0.3))
		require.GreaterOrEqual(t, c, exact(0.3)-inf)
		most := 0.0
		for i := range 20_000 {
			x := float64(i) / 1000 / lambda
			most = math.Max(most, -math.Expm1(-x)*math.Exp(-lambda*x))
		}
		require.InEpsilon(t, most*math.Exp(k-0.3*lambda), c, 1e-5)
	}
	for _, eps := range []float64{0, 0.05, 0.31, 0.6, 0.85} {
		lambda := l.tilt(eps)
		// The derivative of the exponent of Chernoff's bound changes its sign there.
		slope := func(lambda float64) float64 {
			_, mean, _ := l.cumulant(lambda)
			return mean - eps + math.Log(lambda/(1+lambda))
		}
		require.LessOrEqual(t, slope(lambda), 0.)
		if lambda < 600/l.largest()/1.05 {
			require.Greater(t, slope(lambda*1.041), 0.)
		}
		k, mean, variance := l.cumulant(lambda)
		a, b := l.window(lambda, k, mean, variance)
		var left, right float64
		for i, p := range masses {
			x := float64(lo+i) * l.h
			w := p * math.Exp(lambda*x-k)
			if x < a {
				left += w
			} else if x >= b {
				right += w
			}
		}
		require.LessOrEqual(t, left, wrap)
		require.LessOrEqual(t, right, wrap)
		tl, ok := l.tail(eps)
		require.True(t, ok)
		for _, at := range []float64{eps, eps + 0.03, eps + 0.2, eps - 0.04} {
			got, want := tl.delta(at), exact(at)
			require.GreaterOrEqual(t, got, want*(1-1e-12), "ε₀ = %v, ε = %v", eps, at)
			// twice the mass outside the window under the Chernoff factor
			require.LessOrEqual(t, got, want*(1+2e-10)+3*wrap*math.Exp(chernoff(k, lambda, at)), "ε₀ = %v, ε = %v", eps, at)
		}
		require.Equal(t, 1., tl.delta(eps-(span-1.9)/lambda))
	}
}

func normal(mean, z float64) func(x float64) float64 {
	return func(x float64) float64 {
		return math.Exp(-(x-mean)*(x-mean)/(2*z*z)) / (z * math.Sqrt(2*math.Pi))
	}
}

// TestWindowOfNormal: for a normal law the window is that of Chernoff's bound,
// √(−2 log wrap) standard deviations to either side of the mean.
func TestWindowOfNormal(t *testing.T) {
	g := gridLaw{lo: -3000}
	const sd, mean = 0.5, 0.125
	for i := range 6001 {
		x := float64(i-3000) * 1e-3
		g.p = append(g.p, 1e-3*normal(mean, sd)(x))
	}
	l := &law{h: 1e-3, parts: []gridLaw{g}, times: []float64{100}}
	for _, lambda := range []float64{0.5, 2} {
		k, m, v := l.cumulant(lambda)
		require.InEpsilon(t, 100*(mean+lambda*sd*sd), m, 1e-3) // the law is cut at ±3
		require.InEpsilon(t, 100*sd*sd, v, 1e-2)
		lo, hi := l.window(lambda, k, m, v)
		half := math.Sqrt(-2*math.Log(wrap)) * math.Sqrt(v)
		require.InDelta(t, m-half, lo, 2e-4*half)
		require.InDelta(t, m+half, hi, 2e-4*half)
		n, start, ok := l.bins(lambda, k, m, v)
		require.True(t, ok)
		require.Equal(t, int(math.Floor(lo/1e-3)), start)
		width := math.Ceil(hi/1e-3) - math.Floor(lo/1e-3)
		require.True(t, float64(n) > width && float64(n) <= 2*width && n&(n-1) == 0, n)
	}
	wide := &law{h: 1e-6, parts: []gridLaw{{lo: -1, p: []float64{0.5, 0, 0.5}}}, times: []float64{1e14}}
	k, m, v := wide.cumulant(1e-3)
	_, _, ok := wide.bins(1e-3, k, m, v)
	require.False(t, ok) // 12 standard deviations of 1e7 steps
	_, ok = wide.tail(3)
	require.False(t, ok)
}

// TestRoundingBounds: what is added for rounding in 10⁸ steps: that of the
// FFT, from coefficients that are known in closed form, and that of the sums.
func TestRoundingBounds(t *testing.T) {
	const h, steps = 1e-6, 1e8
	l := &law{h: h, parts: []gridLaw{{lo: -1, p: []float64{0.25, 0.5, 0.25}}}, times: []float64{steps}}
	eps := 0.006 // near the mean of a tilt of 100
	tl, ok := l.tail(eps)
	require.True(t, ok)
	k, mean, variance := l.cumulant(tl.lambda)
	n, _, _ := l.bins(tl.lambda, k, mean, variance)
	up, down := 0.25*math.Exp(tl.lambda*h-k/steps), 0.25*math.Exp(-tl.lambda*h-k/steps)
	stay := 0.5 * math.Exp(-k/steps)
	unit := 0x1p-53 * (8*math.Log2(float64(n)) + 4 + tl.lambda*h)
	var e2, f2 float64
	for j := range n {
		w := 2 * math.Pi * float64(j) / float64(n)
		r := math.Hypot(stay+(up+down)*math.Cos(w), (up-down)*math.Sin(w))
		if r <= unit {
			continue
		}
		at, above := steps*math.Log(r), steps*(math.Log(r)+unit/r)
		e2 += square(math.Exp(above) * -math.Expm1(at-above))
		f2 += square(math.Exp(above))
	}
	eta := math.Sqrt(e2) + unit*math.Sqrt(f2) + 2*wrap
	require.Greater(t, eta, 20*wrap) // so that rounding decides
	require.InEpsilon(t, eta, tl.slack/math.Exp(chernoff(k, tl.lambda, eps)), 1e-4)

	k, _, _ = l.cumulant(l.tilt(eps))
	exponent := chernoff(k, l.tilt(eps), eps)
	rounding := steps * 0x1p-52 * (3 + 200 + 4*l.tilt(eps)*h)
	require.InDelta(t, exponent+rounding, math.Log(l.chernoff(eps)), 1e-8)
	require.Greater(t, rounding, 1e-6)
	with := &law{h: 0.1, parts: []gridLaw{{lo: -2, p: []float64{0.3, 0.1, 0.2, 0.2, 0.19}, inf: 0.01}},
		times: []float64{1}}
	k, _, _ = with.cumulant(with.tilt(0.1))
	require.InEpsilon(t, 0.01+math.Exp(chernoff(k, with.tilt(0.1), 0.1)), with.chernoff(0.1), 1e-10)
	all := &law{h: 0.1, parts: []gridLaw{{lo: -2, p: []float64{0.3, 0.1, 0.2, 0.2, 0.19}, inf: 0.999}},
		times: []float64{1}}
	require.Equal(t, 1., all.chernoff(0.001))
}

func square(x float64) float64 { return x * x }

// TestSmallParts: remainders, powers and norms.
func TestSmallParts(t *testing.T) {
	require.Equal(t, []int{0, 3, 4, 1}, []int{mod(0, 5), mod(-2, 5), mod(9, 5), mod(-9, 5)})
	for _, c := range []complex128{1, 0.3 - 0.4i, -0.9i} {
		for _, n := range []float64{0, 1, 2, 5, 1023} {
			require.Less(t, cmplx.Abs(power(c, n)-cmplx.Pow(c, complex(n, 0))), 1e-12)
		}
	}
	// Three coefficients, of which the middle one counts twice.
	above, at := []float64{math.Log(0.5), math.Log(0.3), math.Log(0.2)}, []float64{math.Log(0.4), math.Log(0.1),
		math.Log(0.2)}
	want := math.Sqrt(0.1*0.1+2*0.2*0.2) + 0.01*math.Sqrt(0.5*0.5+2*0.3*0.3+0.2*0.2)
	require.InEpsilon(t, want, errorNorms(above, at, 0.01), 1e-12)
}

// TestEpsilonOfSmallLaw: ε at a δ is where δ(ε) falls below it.
func TestEpsilonOfSmallLaw(t *testing.T) {
	l, masses, lo, inf := small()
	exact := func(eps float64) float64 {
		sum := inf
		for i, p := range masses {
			if x := float64(lo+i) * l.h; x > eps {
				sum += p * -math.Expm1(eps-x)
			}
		}
		return sum
	}
	for _, delta := range []float64{0.19, 0.1, 0.02, inf * 1.1} {
		eps := l.epsilon(delta)
		require.LessOrEqual(t, exact(eps), delta)
		require.Greater(t, exact(eps*(1-1e-4)), delta)
	}
	require.True(t, math.IsInf(l.epsilon(inf), 1))
	require.Zero(t, l.epsilon(0.999))
}

// Where no FFT is long enough the Chernoff bound holds; it is above what the FFT
// finds where one is.
func TestChernoffBound(t *testing.T) {
	c := New([]Part{{Symmetric(sampled(0.01, 2)), 500}})
	l := &c.build()[0]
	for _, eps := range []float64{0.3, 1, 3} {
		tl, ok := l.tail(eps)
		require.True(t, ok)
		d := tl.delta(eps)
		require.Greater(t, l.chernoff(eps), d)
		require.Less(t, l.chernoff(eps), 30*d)
	}
	fine := New([]Part{{Symmetric(sampled(1e-9, 0.6)), 1e6}})
	l = &fine.build()[0]
	_, ok := l.tail(1)
	require.False(t, ok)
	require.GreaterOrEqual(t, l.chernoff(1), l.inf())
	require.Less(t, l.chernoff(1), 2*l.inf())
}
