package dp

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/privopt/privopt/internal/testkit"
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
				require.InDelta(t, stick(mixture(q, out, normal(2, z)), out, eps, lo, hi), subset(q, z)(eps), 2e-6)
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
					want += w * GaussianDelta(x, 2*float64(k)/z)
				}
				require.InEpsilon(t, want, drawn(c.m, c.n, z)(eps), 1e-9, "%+v z=%v ε=%v", c, z, eps)
			}
		}
	}
	// Where e^t leaves float64 nothing is left, but for the terms that were cut.
	require.Zero(t, poissonReplace(1e-300, 1)(100))
	require.LessOrEqual(t, drawn(3, 1<<30, 1)(705), 1e-30)
	// Many draws of few records: the weights that were cut are added.
	require.InEpsilon(t, 2e-30, drawn(1000, 500, 100)(700), 1e-6)
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
			require.InEpsilon(t, GaussianDelta(eps, s), gauss(eps, s), 1e-11, "s=%v a=%v", s, a)
			if s < 0.25 || a > 20 {
				require.Equal(t, GaussianDelta(eps, s), gauss(eps, s))
			}
			if s >= 0.25 && a < 20 {
				require.InEpsilon(t, GaussianDelta(eps, s), gaussAt(eps, math.Exp(eps), s), 1e-11)
			}
		}
	}
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
		exact := testkit.Mul(testkit.Exp(testkit.New(eps)),
			testkit.Add(testkit.Sub(testkit.New(q), testkit.New(1)), testkit.Exp(testkit.Mul(testkit.New(-1), testkit.New(eps)))))
		require.GreaterOrEqual(t, testkit.New(f(eps)*(1+1e-14)).Cmp(exact), 0, "ε = end·(1 − 2^−%v)", float64(i)/1.5)
		want, _ := exact.Float64()
		require.InDelta(t, want, f(eps), 1e-15+1e-13*want)
	}
}

// The bound for Poisson batches under replacement is convex as a function of
// e^ε, so that none of its masses is dropped beyond rounding.
func TestReplaceConvex(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		q := math.Exp(rapid.Float64Range(-9, -0.01).Draw(rt, "log q"))
		z := math.Exp(rapid.Float64Range(-1, 3).Draw(rt, "log z"))
		f := poissonReplace(q, z)
		h := 2.5 * f(0) / 20
		slope := func(j float64) float64 { return (f(j*h) - f((j-1)*h)) / (math.Exp((j-1)*h) * math.Expm1(h)) }
		for j := 1.0; j < 200; j++ {
			require.LessOrEqual(rt, slope(j), slope(j+1)+1e-9*math.Abs(slope(j)), "q = %v, z = %v, j = %v", q, z, j)
		}
		require.GreaterOrEqual(rt, 2*slope(1)+1-f(0), 0.) // the mass at 0
	})
}

// The weights of copies are no less than those of the binomial law, up to the
// largest mean that is accepted.
func TestCopies(t *testing.T) {
	require.NoError(t, Sampler{Size: 200, Records: 2, Repeats: true}.Check())
	require.ErrorContains(t, Sampler{Size: 201, Records: 2, Repeats: true}.Check(), "[1, 200]")
	require.ErrorContains(t, Sampler{Size: 1 << 31, Records: 1 << 40, Repeats: true}.Check(), "2147483647")
	// Where a copy tells everything the profile at 0 is the probability of one.
	for _, c := range []Sampler{{Size: 200, Records: 2}, {Size: 100_000, Records: 1000}, {Size: 1_000_000, Records: 10_000}} {
		q := -math.Expm1(float64(c.Size) * math.Log1p(-1/float64(c.Records)))
		got := drawn(c.Size, c.Records, minNoise)(0)
		require.GreaterOrEqual(t, got, min(1, q*(1-1e-15)))
		require.InDelta(t, q, got, 1e-10)
	}
}
