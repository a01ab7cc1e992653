package accounting

import (
	"math"
	"math/cmplx"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/bigref"
)

// The tests of this file compute the steps of an accounting a second time, by
// definition and without tricks, on laws small enough for that. Each takes
// milliseconds.

// stick returns sup_S P(S) − e^ε Q(S) of two densities by the midpoint rule.
func stick(p, q func(x float64) float64, eps, lo, hi float64) (sum float64) {
	const cells = 4000
	h := (hi - lo) / cells
	for i := range cells {
		x := lo + (float64(i)+0.5)*h
		sum += h * math.Max(0, p(x)-math.Exp(eps)*q(x))
	}
	return sum
}

func normal(mean, z float64) func(x float64) float64 {
	return func(x float64) float64 {
		return math.Exp(-(x-mean)*(x-mean)/(2*z*z)) / (z * math.Sqrt(2*math.Pi))
	}
}

func mixture(q float64, a, b func(x float64) float64) func(x float64) float64 {
	return func(x float64) float64 { return (1-q)*a(x) + q*b(x) }
}

// TestProfilesByQuadrature: every profile of one step against the densities that
// it is about. The midpoint rule is exact to 1e-6 here.
func TestProfilesByQuadrature(t *testing.T) {
	for _, z := range []float64{0.6, 4} {
		lo, hi := -10*z-2, 10*z+3
		for _, q := range []float64{0.02, 0.7} {
			for _, eps := range []float64{0, 0.7} {
				out, in := normal(0, z), normal(1, z)
				with := mixture(q, out, in)
				require.InDelta(t, stick(with, out, eps, lo, hi), poissonRemove(q, z)(eps), 2e-6, "q=%v z=%v ε=%v", q, z, eps)
				require.InDelta(t, stick(out, with, eps, lo, hi), poissonAdd(q, z)(eps), 2e-6, "q=%v z=%v ε=%v", q, z, eps)
				// A batch without the record has another one in its place: P = (1−q)N(0)+qN(2)
				// against N(0), all differences up to 2L.
				require.InDelta(t, stick(mixture(q, out, normal(2, z)), out, eps, lo, hi), fixedSize(q, z)(eps), 2e-6)
				// Replacement under Poisson is bounded by the mixture of both distances; it is
				// no less than the exact stick of records at ±1.
				exact := stick(mixture(q, out, normal(1, z)), mixture(q, out, normal(-1, z)), eps, lo, hi)
				bound := poissonReplace(q, z)(eps)
				require.GreaterOrEqual(t, bound, exact-2e-6)
				x := 1 + math.Expm1(eps)/q
				v := math.Exp(eps) / x
				at := func(shift float64) float64 { return stick(normal(shift, z), out, math.Log(x), lo, hi) }
				require.InDelta(t, q*((1-v)*at(1)+v*at(2)), bound, 2e-6)
			}
		}
		for _, c := range []struct{ m, n int }{{1, 1}, {3, 1}, {1, 5}, {4, 7}, {30, 1000}} {
			for _, eps := range []float64{0, 0.3, 1.5} {
				p := 1 / float64(c.n)
				rate := 1 - math.Pow(1-p, float64(c.m))
				x := math.Log1p(math.Expm1(eps) / rate)
				want := 0.0
				for k := 1; k <= c.m; k++ {
					w := math.Exp(logBinomial(float64(c.m), float64(k)) + float64(k)*math.Log(p))
					if k < c.m {
						w *= math.Pow(1-p, float64(c.m-k))
					}
					want += w * dp.GaussianDelta(x, 2*float64(k)/z)
				}
				require.InEpsilon(t, want, withReplacement(c.m, c.n, z)(eps), 1e-9, "%+v z=%v ε=%v", c, z, eps)
			}
		}
	}
	// Where e^t leaves float64 nothing is left, but for the terms that were cut.
	require.Zero(t, poissonReplace(1e-300, 1)(100))
	require.LessOrEqual(t, withReplacement(3, 1<<30, 1)(705), 1e-30)
	// Many draws of few records: the weights that were cut are added.
	require.InEpsilon(t, 2e-30, withReplacement(1000, 500, 100)(700), 1e-6)
	require.Zero(t, poissonAdd(0.4, 1)(-math.Log1p(-0.4)*(1+1e-12)))
}

// TestGaussEverywhere: the quick form of δ_G is the careful one of package dp, on
// both sides of where it is left.
func TestGaussEverywhere(t *testing.T) {
	for _, s := range []float64{0.01, 0.24, 0.26, 1, 5, 40} {
		for _, a := range []float64{-3, 0, 1, 5, 15, 19.9, 20.1, 30} {
			eps := s * (a + s/2)
			if eps < 0 || eps > 700 {
				continue
			}
			require.InEpsilon(t, dp.GaussianDelta(eps, s), gauss(eps, s), 1e-11, "s=%v a=%v", s, a)
			if s < 0.25 || a > 20 {
				require.Equal(t, dp.GaussianDelta(eps, s), gauss(eps, s))
			}
			if s >= 0.25 && a < 20 {
				require.InEpsilon(t, dp.GaussianDelta(eps, s), gaussAt(eps, math.Exp(eps), s), 1e-11)
			}
		}
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
	for _, f := range []pair{
		symmetric(func(eps float64) float64 { return gauss(eps, 0.7) }),
		symmetric(func(eps float64) float64 { return gauss(eps, 6) }), // δ(0) near 1
		symmetric(fixedSize(0.2, 1.3)),
		{up: poissonRemove(0.2, 1.3), down: poissonAdd(0.2, 1.3)},
		{up: poissonAdd(0.2, 1.3), down: poissonRemove(0.2, 1.3)},
	} {
		const h, points = 0.05, 90
		g := connect(f, h, points)
		require.Equal(t, -points, g.lo)
		require.Len(t, g.p, 2*points+1)
		require.InDelta(t, f.up(points*h), g.inf, 3e-11*f.up(points*h))
		for j := -points; j <= points; j++ {
			eps := float64(j) * h
			want := f.at(eps)
			if j < 0 { // the law ends at −J: the mass below it is at −J
				want = -math.Expm1(eps) + math.Exp(eps)*f.down(-eps)
			}
			got := g.at(eps, h)
			require.GreaterOrEqual(t, got, want*(1-1e-13), "ε = %v", eps)
			require.LessOrEqual(t, got, want*(1+1e-9)+1e-13+math.Exp(eps)*f.down(points*h), "ε = %v", eps)
			mid := eps + h/2
			if j < points {
				chord := (math.Exp(mid)-math.Exp(eps))/(math.Exp(eps+h)-math.Exp(eps))*(g.at(eps+h, h)-got) + got
				require.InDelta(t, chord, g.at(mid, h), 1e-12)
			}
		}
	}
	// A function that is not convex is replaced by one above it: no mass is negative.
	bumpy := symmetric(func(eps float64) float64 { return math.Max(0.3-0.1*eps, 0) + 0.02*math.Sin(9*eps) + 0.02 })
	g := connect(bumpy, 0.05, 40)
	for i, p := range g.p {
		require.GreaterOrEqual(t, p, 0.)
		if i >= 40 {
			require.GreaterOrEqual(t, g.at(float64(i-40)*0.05, 0.05), bumpy.up(float64(i-40)*0.05))
		}
	}
	// P_0 is rounded up: mass that a profile of two atoms has nowhere else.
	require.Positive(t, connect(symmetric(func(float64) float64 { return 1 }), 0.1, 3).p[3])
}

// TestExtent: the least number of points beyond which little is left, in both
// orders, above what a profile keeps at every ε.
func TestExtent(t *testing.T) {
	tail := func(scale, floor float64) func(float64) float64 {
		return func(eps float64) float64 { return math.Max(math.Exp(-eps*scale), floor) }
	}
	for _, c := range []struct {
		f     pair
		h     float64
		limit int
		want  int
	}{
		{symmetric(tail(2, 0)), 0.1, 1000, 116},                                        // 23.026/0.2 = 115.1
		{pair{up: tail(2, 0), down: tail(1, 0)}, 0.1, 1000, 231},                       // the other order decides
		{pair{up: tail(1, 0), down: tail(2, 0)}, 0.1, 1000, 231},                       //
		{symmetric(tail(2, 1e-3)), 0.1, 1000, 35},                                      // 6.908/0.2 = 34.5
		{pair{up: tail(2, 0), down: tail(1, 1e-3)}, 0.1, 1000, 70},                     // 6.908/0.1 = 69.1
		{symmetric(tail(2, 0)), 0.1, 50, 50},                                           // no more than the limit
		{symmetric(tail(1000, 0)), 0.1, 1000, 1},                                       // at least one
		{symmetric(tail(40, 0)), 0.1, 1000, 6}, {symmetric(tail(60, 0)), 0.1, 1000, 4}, // around where the search starts
	} {
		require.Equal(t, c.want, extent(c.f, c.h, 1e-10, c.limit))
	}
}

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

// TestPoissonAddIsRoundedUp: next to the ε at which its profile ends, where y is
// the difference of two numbers near 1, it is not below the exact one.
func TestPoissonAddIsRoundedUp(t *testing.T) {
	const q, z = 0.3, 0.02 // δ_G is 1 to all digits
	f := poissonAdd(q, z)
	end := -math.Log1p(-q)
	for i := 1; i < 60; i++ {
		eps := end * (1 - math.Pow(2, -float64(i)/1.5))
		// q e^ε y = e^ε(q − 1 + e^{−ε}) in 60 digits
		exact := bigref.Mul(bigref.Exp(bigref.New(eps)), bigref.Add(bigref.Sub(bigref.New(q), bigref.New(1)), bigref.Exp(bigref.Mul(bigref.New(-1), bigref.New(eps)))))
		require.GreaterOrEqual(t, bigref.New(f(eps)*(1+1e-14)).Cmp(exact), 0, "ε = end·(1 − 2^−%v)", float64(i)/1.5)
		want, _ := exact.Float64()
		require.InDelta(t, want, f(eps), 1e-15+1e-13*want)
	}
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
	with := &law{h: 0.1, parts: []gridLaw{{lo: -2, p: []float64{0.3, 0.1, 0.2, 0.2, 0.19}, inf: 0.01}}, times: []float64{1}}
	k, _, _ = with.cumulant(with.tilt(0.1))
	require.InEpsilon(t, 0.01+math.Exp(chernoff(k, with.tilt(0.1), 0.1)), with.chernoff(0.1), 1e-10)
	all := &law{h: 0.1, parts: []gridLaw{{lo: -2, p: []float64{0.3, 0.1, 0.2, 0.2, 0.19}, inf: 0.999}}, times: []float64{1}}
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
	above, at := []float64{math.Log(0.5), math.Log(0.3), math.Log(0.2)}, []float64{math.Log(0.4), math.Log(0.1), math.Log(0.2)}
	want := math.Sqrt(0.1*0.1+2*0.2*0.2) + 0.01*math.Sqrt(0.5*0.5+2*0.3*0.3+0.2*0.2)
	require.InEpsilon(t, want, errorNorms(above, at, 0.01), 1e-12)
	require.InEpsilon(t, math.Log(10*9*8/6), logBinomial(10, 3), 1e-13)
	require.Equal(t, 0.25, expectedRoomShare())
}

func expectedRoomShare() float64 { return float64(expectedRoom(0, 100)) / 64 }

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

// TestEpsilonOfPureSteps: many steps of a small pure loss, whose grid has few
// points, have the ε at which their δ(ε) falls below δ.
func TestEpsilonOfPureSteps(t *testing.T) {
	for _, pure := range []float64{0.04, 1e-3} {
		step, err := General(dp.Replace, dp.Symmetric(dp.PureCurve(pure), dp.PureRDP(pure)))
		require.NoError(t, err)
		c, err := Compose(step.Times(1000))
		require.NoError(t, err)
		eps := c.Epsilon(1e-6)
		require.LessOrEqual(t, c.Delta(eps), 1e-6*(1+1e-6))
		require.Greater(t, c.Delta(0.999*eps), 1e-6)
		// about that of a Gaussian mechanism with s = ε₀√T
		require.InEpsilon(t, dp.GaussianCurve(pure*math.Sqrt(1000)).Epsilon(1e-6), eps, 0.06)
	}
}

// TestLeastNoise: the least z from above to the width asked for, from near and
// far, in few evaluations, and the ends.
func TestLeastNoise(t *testing.T) {
	for _, root := range []float64{0x1p-19, 0.3, 7, 0.98 * maxNoise} { // between the least and the largest noise
		for _, far := range []float64{0.01, 0.9, 1, 1.1, 50} {
			for _, tol := range []float64{1e-3, 5e-7} {
				evals := 0
				z, ok := leastNoise(func(z float64) float64 {
					evals++
					u := z / root
					return math.Sqrt(u) + 0.1*math.Log(u) - 1
				}, min(root*far, maxNoise/2), 1.2, tol)
				require.True(t, ok)
				require.GreaterOrEqual(t, z, root*(1-1e-12))
				require.LessOrEqual(t, z, root*(1+1.01*tol))
				require.LessOrEqual(t, evals, 24, "root %v, far %v, tol %v", root, far, tol)
			}
		}
	}
	z, ok := leastNoise(func(float64) float64 { return 0 }, 1, 1.2, 1e-3) // always private
	require.True(t, ok)
	require.Equal(t, minNoise, z)
	for _, never := range []float64{-1, math.NaN()} {
		_, ok = leastNoise(func(float64) float64 { return never }, 1, 1.2, 1e-3)
		require.False(t, ok)
	}
	// Without a slope to follow, by halves.
	z, ok = leastNoise(func(z float64) float64 {
		if z < 3 {
			return math.Inf(-1)
		}
		return math.Inf(1)
	}, 1, 1.2, 1e-6)
	require.True(t, ok)
	require.InEpsilon(t, 3, z, 1e-6)
	require.GreaterOrEqual(t, z, 3.)
}

// TestNoiseEnds: guesses, ranges and refusals.
func TestNoiseEnds(t *testing.T) {
	b := dp.Budget{Epsilon: 1, Delta: 1e-6}
	for rel, r := range map[dp.Relation]float64{dp.Replace: 2, dp.AddRemove: 1} {
		sigma, err := dp.GaussianSigma(b, r)
		require.NoError(t, err)
		require.InEpsilon(t, sigma*0.25*8, startNoise(Poisson{Rate: 0.25, Relation: rel}, 64, b), 1e-12)
	}
	require.Equal(t, 0.3, startNoise(Poisson{Rate: 1e-6}, 1, b))
	require.Equal(t, maxNoise/2, startNoise(Full{}, 1<<40, dp.Budget{Epsilon: 1e-7, Delta: 1e-9}))
	require.Equal(t, 1., startNoise(Full{}, 1, dp.Budget{Epsilon: 1, Delta: 2}))
	for _, steps := range []int{1, MaxSteps} {
		z, err := Noise(Full{}, steps, b)
		require.NoError(t, err)
		sigma, err := dp.GaussianSigma(b, 2*math.Sqrt(float64(steps)))
		require.NoError(t, err)
		require.InEpsilon(t, sigma, z, 2e-6)
	}
	for _, steps := range []int{0, MaxSteps + 1} {
		_, err := Noise(Full{}, steps, b)
		require.ErrorIs(t, err, ErrSampler)
	}
	for z, ok := range map[float64]bool{minNoise: true, maxNoise: true, minNoise * (1 - 1e-15): false, maxNoise * (1 + 1e-15): false} {
		_, err := Gaussian(Full{}, z)
		require.Equal(t, ok, err == nil, z)
	}
	require.Equal(t, 1., deltaAt(Full{}, 2*maxNoise, 3, b, 1))
	require.Equal(t, 1., deltaAt(Full{}, 1, 0, b, 1))
	require.InEpsilon(t, dp.GaussianDelta(1, 2*math.Sqrt(3)/5), deltaAt(Full{}, 5, 3, b, 1), 1e-9)
	// Below MinDelta the closed form of one step and of full batches is used.
	low := dp.Budget{Epsilon: 1, Delta: 1e-15}
	require.InEpsilon(t, composed(t, Poisson{Rate: 0.1}, 5, 1).Delta(1), deltaAt(Poisson{Rate: 0.1}, 5, 1, low, 1), 1e-12)
	require.InEpsilon(t, dp.GaussianDelta(1, 0.4), deltaAt(Full{}, 5, 1, low, 1), 1e-9)
	for _, delta := range []float64{1e-15, 0.97 * MinDelta} {
		low.Delta = delta
		require.Equal(t, composed(t, Poisson{Rate: 0.1}, 5, 2).RDP().Curve(orders()...)(1), deltaAt(Poisson{Rate: 0.1}, 5, 2, low, 1))
	}
	// A δ near 1 is a budget like any other.
	high := dp.Budget{Epsilon: 0.1, Delta: 0.97}
	z, err := Noise(Full{}, 3, high)
	require.NoError(t, err)
	require.LessOrEqual(t, composed(t, Full{}, z, 3).Delta(0.1), 0.97)
	require.Greater(t, composed(t, Full{}, z*(1-2e-6), 3).Delta(0.1), 0.97)
}

// TestRepetitions: counts multiply, and overflows are refused.
func TestRepetitions(t *testing.T) {
	step, err := Gaussian(Full{}, 3)
	require.NoError(t, err)
	for _, c := range []struct {
		counts []int
		total  int
	}{{[]int{1}, 1}, {[]int{2, 3}, 6}, {[]int{1 << 20, 1 << 20}, 1 << 40}, {[]int{1 << 20, 1<<20 + 1}, 0}, {[]int{-1}, 0}, {[]int{0, 5}, 0}, {[]int{MaxSteps}, MaxSteps}, {[]int{MaxSteps + 1}, 0}} {
		s := step
		for _, n := range c.counts {
			s = s.Times(n)
		}
		comp, err := Compose(s)
		require.Equal(t, c.total > 0, err == nil, c)
		if err == nil {
			require.Equal(t, c.total, comp.Steps())
			require.InEpsilon(t, 2*math.Sqrt(float64(c.total))/3, comp.gauss, 1e-14)
			require.GreaterOrEqual(t, comp.gauss*comp.gauss*9, 4*float64(c.total))
		}
	}
	_, err = Compose(step.Times(MaxSteps-1), step)
	require.NoError(t, err)
	_, err = Compose(step.Times(MaxSteps), step)
	require.ErrorIs(t, err, ErrSampler)
	sub, err := Gaussian(Poisson{Rate: 0.1}, 3)
	require.NoError(t, err)
	comp, err := Compose(step, sub)
	require.NoError(t, err)
	require.Zero(t, comp.gauss)
}
