package noise_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/privopt/privopt/noise"
)

func nan() float64 { return math.NaN() }
func inf() float64 { return math.Inf(1) }

// falseReject is the probability that a test of a true hypothesis fails, if the
// seed were random; seeds are fixed, so a passing test stays passing.
const falseReject = 1e-6

// ksCritical is Massart's: P(D > c) ≤ 2 exp(-2 n c²).
func ksCritical(n int) float64 { return math.Sqrt(math.Log(2/falseReject) / (2 * float64(n))) }

// ks returns the Kolmogorov-Smirnov distance of x, which it sorts, from cdf.
func ks(x []float64, cdf func(float64) float64) float64 {
	slices.Sort(x)
	n, d := float64(len(x)), 0.
	for i, v := range x {
		f := cdf(v)
		d = max(d, math.Abs(f-float64(i)/n), math.Abs(f-float64(i+1)/n))
	}
	return d
}

// chiSquare fails if counts do not fit the expected ones; the critical value is
// the upper falseReject quantile.
func chiSquare(t *testing.T, name string, counts, expected []float64) {
	t.Helper()
	var stat float64
	for i, c := range counts {
		require.Greater(t, expected[i], 5.)
		stat += (c - expected[i]) * (c - expected[i]) / expected[i]
	}
	critical := distuv.ChiSquared{K: float64(len(counts) - 1)}.Quantile(1 - falseReject)
	require.Less(t, stat, critical, name)
}

func phi(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }

func gammaCDF(a float64) func(float64) float64 {
	return func(x float64) float64 { return mathext.GammaIncReg(a, x) }
}

func normals(n int, sigma float64, label string) []float64 {
	x := make([]float64, n)
	noise.Normal(x, sigma, noise.Reproducible(20, label))
	return x
}

// TestLaws compares every scalar sampler with its distribution function.
func TestLaws(t *testing.T) {
	one := make([]float64, 1)
	type law struct {
		name string
		n    int
		draw func(rand.Source) float64
		cdf  func(float64) float64
	}
	laws := []law{
		{"uniform", 1e6, noise.Uniform, func(x float64) float64 { return x }},
		{"exponential", 1e6, noise.Exponential, func(x float64) float64 { return -math.Expm1(-x) }},
		{"normal", 1e6, func(s rand.Source) float64 { noise.Normal(one, 3, s); return one[0] },
			func(x float64) float64 { return phi(x / 3) }},
		{"laplace", 1e6, func(s rand.Source) float64 { return noise.Laplace(0.25, s) },
			func(x float64) float64 {
				if x < 0 {
					return math.Exp(x/0.25) / 2
				}
				return 1 - math.Exp(-x/0.25)/2
			}},
		{"gammanorm1", 1e5, func(s rand.Source) float64 { noise.GammaNorm(one, 4, s); return one[0] },
			func(x float64) float64 {
				if x < 0 {
					return math.Exp(x/0.25) / 2
				}
				return 1 - math.Exp(-x/0.25)/2
			}},
		{"chi1", 1e5, func(s rand.Source) float64 { return noise.ChiSquared(1, s) },
			func(x float64) float64 { return math.Erf(math.Sqrt(x / 2)) }},
	}
	for _, a := range []float64{0.02, 0.5, 1, 1.5, 7.25, 100, 1e4} {
		laws = append(laws, law{fmt.Sprintf("gamma%v", a), 2e5,
			func(s rand.Source) float64 { return noise.Gamma(a, s) }, gammaCDF(a)})
	}
	for _, d := range []int{2, 3, 10} { // the radius of GammaNorm, and one coordinate of the sphere
		v := make([]float64, d)
		laws = append(laws, law{fmt.Sprintf("radius%d", d), 1e5, func(s rand.Source) float64 {
			noise.GammaNorm(v, 2, s)
			var ss float64
			for _, x := range v {
				ss += x * x
			}
			return 2 * math.Sqrt(ss)
		}, gammaCDF(float64(d))})
		// x₁ of the sphere: (1+x₁)/2 ~ Beta((d-1)/2, (d-1)/2).
		b := float64(d-1) / 2
		laws = append(laws, law{fmt.Sprintf("sphere%d", d), 1e5, func(s rand.Source) float64 {
			noise.Sphere(v, s)
			return v[d-1]
		}, func(x float64) float64 { return mathext.RegIncBeta(b, b, (1+x)/2) }})
	}
	alpha := []float64{0.3, 2, 5}
	dir := make([]float64, 3)
	for i, a := range alpha { // marginals are Beta(αᵢ, Σα - αᵢ)
		laws = append(laws, law{fmt.Sprintf("dirichlet%d", i), 1e5, func(s rand.Source) float64 {
			noise.Dirichlet(dir, alpha, s)
			return dir[i]
		}, func(x float64) float64 { return mathext.RegIncBeta(a, 7.3-a, x) }})
	}
	for _, l := range laws {
		t.Run(l.name, func(t *testing.T) {
			n := l.n
			if testing.Short() {
				n = min(n, 1e5)
			}
			src := noise.Reproducible(7, "laws", l.name)
			x := make([]float64, n)
			for i := range x {
				x[i] = l.draw(src)
			}
			// Independence of consecutive draws: U = cdf(X) in an 8×8 table.
			counts, expected := make([]float64, 64), make([]float64, 64)
			cell := func(v float64) int { return min(7, int(8*l.cdf(v))) }
			for i := 0; i+1 < n; i += 2 {
				counts[8*cell(x[i])+cell(x[i+1])]++
			}
			for i := range expected {
				expected[i] = float64(n/2) / 64
			}
			chiSquare(t, "pairs", counts, expected)
			require.Less(t, ks(x, l.cdf), ksCritical(n))
		})
	}
}

// TestKSBites: 2 % more spread, which no plot shows, is rejected at n = 1e6.
func TestKSBites(t *testing.T) {
	x := normals(1e6, 1.02, "bite")
	require.Greater(t, ks(x, phi), ksCritical(len(x)))
}

// TestNormalBins tests the normal law on 200 equiprobable bins, which cross the
// ziggurat's layers, and its sign and tails to 4.8 σ.
func TestNormalBins(t *testing.T) {
	n := 10_000_000
	if testing.Short() {
		n = 1_000_000
	}
	const bins = 200
	counts, expected := make([]float64, bins), make([]float64, bins)
	edges := make([]float64, bins-1)
	for i := range edges {
		edges[i] = distuv.UnitNormal.Quantile(float64(i+1) / bins)
	}
	tails := []float64{2.5, 3, 3.5, 3.6, 3.65, 3.7, 3.8, 4, 4.3} // straddles r = 3.654
	lo, hi := make([]float64, len(tails)), make([]float64, len(tails))
	var sum, sum2, sum4 float64
	src := noise.Reproducible(8, "bins")
	buf := make([]float64, 1000)
	for range n / len(buf) {
		noise.Normal(buf, 1, src)
		for _, x := range buf {
			sum, sum2, sum4 = sum+x, sum2+x*x, sum4+x*x*x*x
			i, _ := slices.BinarySearch(edges, x)
			counts[i]++
			for k := len(tails) - 1; k >= 0; k-- {
				if x > tails[k] {
					hi[k]++
					break
				}
				if x < -tails[k] {
					lo[k]++
					break
				}
			}
		}
	}
	N := float64(n)
	for i := range expected {
		expected[i] = N / bins
	}
	chiSquare(t, "bins", counts, expected)
	want := make([]float64, len(tails))
	for k, a := range tails {
		want[k] = N * phi(-a)
		if k+1 < len(tails) {
			want[k] -= N * phi(-tails[k+1])
		}
	}
	chiSquare(t, "upper tail", hi, want)
	chiSquare(t, "lower tail", lo, want)
	// Moments: E x, E x² - 1, E x⁴ - 3 have variances 1, 2, 96; 4.9 σ two-sided is 1e-6.
	require.InDelta(t, 0, sum/N, 4.9*math.Sqrt(1/N))
	require.InDelta(t, 1, sum2/N, 4.9*math.Sqrt(2/N))
	require.InDelta(t, 3, sum4/N, 4.9*math.Sqrt(96/N))
}

func TestZeroScaleAndEmpty(t *testing.T) {
	src := noise.Reproducible(3)
	x := []float64{1, 2, nan()}
	noise.Normal(x, 0, src)
	for _, v := range x {
		require.Zero(t, v)
	}
	require.Zero(t, noise.Laplace(0, src))
	noise.Normal(nil, 1, src)
	noise.Sphere(nil, src)
	noise.GammaNorm(nil, 1, src)
	noise.Dirichlet(nil, nil, src)

	one := make([]float64, 1)
	plus := 0
	for range 1000 {
		noise.Sphere(one, src)
		require.Equal(t, 1., math.Abs(one[0]))
		if one[0] > 0 {
			plus++
		}
	}
	require.InDelta(t, 500, plus, 4.9*math.Sqrt(250))
}

// TestExtremeParameters: no NaN, no zero, no infinity at the ends of the ranges.
func TestExtremeParameters(t *testing.T) {
	src := noise.Reproducible(4)
	x := make([]float64, 1000)
	finite := func(positive bool) {
		t.Helper()
		for _, v := range x {
			require.False(t, math.IsNaN(v) || math.IsInf(v, 0) || positive && !(v > 0), "%v", v)
		}
	}
	for _, sigma := range []float64{5e-324, 1e-310, 1e-100, 1e300, 0x1p1000} {
		noise.Normal(x, sigma, src)
		finite(false)
	}
	for _, shape := range []float64{0x1p-900, 1e-5, 0.01, 1, 1e15, 0x1p900} {
		for i := range x {
			x[i] = noise.Gamma(shape, src)
		}
		finite(true)
	}
	for _, rate := range []float64{0x1p-900, 1, 0x1p900} {
		noise.GammaNorm(x, rate, src)
		finite(false)
	}
	noise.Sphere(x, src)
	finite(false)
	for _, a := range []float64{0x1p-900, 1e-10, 1, 1e10, 0x1p900} {
		for i := range x {
			x[i] = a
		}
		noise.Dirichlet(x, x, src) // aliasing is allowed
		finite(false)
		var sum float64
		for _, v := range x {
			sum += v
		}
		require.InDelta(t, 1, sum, 1e-12) // 1000 roundings of 2⁻⁵³
	}
}

// TestLargeShapeGamma: for shape a the standardized draw (G-a)/√a is normal up
// to O(a^{-1/2}) = 3e-6; the acceptance test must not lose this to rounding.
func TestLargeShapeGamma(t *testing.T) {
	const a, n = 1e11, 200_000
	src := noise.Reproducible(5)
	x := make([]float64, n)
	for i := range x {
		x[i] = (noise.Gamma(a, src) - a) / math.Sqrt(a)
	}
	require.Less(t, ks(x, phi), ksCritical(n)+1e-5)
}

// FuzzSamplers: any source and parameter inside the documented range gives finite values.
func FuzzSamplers(f *testing.F) {
	f.Add(uint64(1), 1.0)
	f.Add(uint64(2), 0.001)
	f.Add(uint64(3), 1e17)
	f.Add(uint64(4), 1e-200)
	f.Fuzz(func(t *testing.T, seed uint64, p float64) {
		if !(p >= 0x1p-900 && p <= 0x1p900) {
			return
		}
		src := noise.Reproducible(seed)
		v := make([]float64, 3)
		check := func(xs ...float64) {
			for _, x := range xs {
				if math.IsNaN(x) || math.IsInf(x, 0) {
					t.Fatalf("%v at %v", x, p)
				}
			}
		}
		noise.Normal(v, p, src)
		check(v...)
		check(noise.Laplace(p, src), noise.Gamma(p, src), noise.Exponential(src), noise.Uniform(src))
		noise.GammaNorm(v, p, src)
		check(v...)
		noise.Dirichlet(v, []float64{p, 1, p}, src)
		check(v...)
	})
}
