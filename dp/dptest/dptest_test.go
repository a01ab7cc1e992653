package dptest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/num"
)

// record counts failures instead of failing.
type record struct{ failures []string }

func (r *record) Helper() {}
func (r *record) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

// bites requires that check fails.
func bites(t *testing.T, check func(T)) {
	t.Helper()
	var r record
	check(&r)
	require.NotEmpty(t, r.failures)
}

func TestCheckCertificate(t *testing.T) {
	good := dp.Certificate{Budget: dp.Budget{Epsilon: 1, Delta: 1e-6}, Relation: dp.Replace, Theorem: "qop.lsq/2",
		Assumptions: []dp.Assumption{dp.CalibrationArithmetic}}
	CheckCertificate(t, good)
	both, err := dp.Basic(good, good)
	require.NoError(t, err)
	CheckCertificate(t, both)
	bare := good
	bare.Assumptions = nil
	CheckCertificate(t, bare)

	for _, spoil := range []func(c *dp.Certificate){
		func(c *dp.Certificate) { c.Epsilon = 0 },
		func(c *dp.Certificate) { c.Relation = 0 },
		func(c *dp.Certificate) { c.Theorem = "" },
		func(c *dp.Certificate) { c.Theorem = "Theorem 1" },
		func(c *dp.Certificate) { c.Assumptions = []dp.Assumption{" "} },
		func(c *dp.Certificate) { c.Assumptions = []dp.Assumption{"x", "x"} },
		func(c *dp.Certificate) { c.Assumptions = []dp.Assumption{"\xff"} }, // JSON cannot keep it
	} {
		bad := good
		spoil(&bad)
		bites(t, func(r T) { CheckCertificate(r, bad) })
	}
}

func TestCheckProfile(t *testing.T) {
	for _, p := range []dp.Curve{dp.GaussianCurve(0.3), dp.GaussianCurve(4), dp.PureCurve(1),
		dp.Budget{Epsilon: 1, Delta: 0.01}.Profile().Delta} {
		CheckProfile(t, p, 1e-13)
	}
	for _, p := range []dp.Curve{
		func(float64) float64 { return 2 },
		func(float64) float64 { return math.NaN() },
		func(float64) float64 { return 0.5 },                                        // below 1 - e^ε far left
		func(e float64) float64 { return 0.9 + 0.01*e },                             // increases
		func(e float64) float64 { return 1 / (1 + math.Exp(3*(e-1))) },              // not convex
		func(e float64) float64 { return dp.GaussianDelta(e, 1) * (1 - 0.1*sq(e)) }, // a wrong formula
	} {
		bites(t, func(r T) { CheckProfile(r, p, 1e-13) })
	}
}

func sq(x float64) float64 { return x * x }

// TestHockeyStick compares quadrature with closed forms.
func TestHockeyStick(t *testing.T) {
	normal := func(mean float64) func(float64) float64 {
		return func(x float64) float64 { return -sq(x-mean)/2 - 0.5*math.Log(2*math.Pi) }
	}
	laplace := func(mean float64) func(float64) float64 {
		return func(x float64) float64 { return -math.Abs(x-mean) - math.Ln2 }
	}
	for _, eps := range []float64{0, 0.3, 1, 2.5} {
		for _, s := range []float64{0.2, 1, 3} {
			require.InEpsilon(t, dp.GaussianDelta(eps, s), NewDivergence(normal(s), normal(0), -40, 40).At(eps), 1e-10)
			want := math.Max(0, -math.Expm1((eps-s)/2)) // Laplace of scale 1
			got := NewDivergence(laplace(s), laplace(0), -50, 50, 0, s).At(eps)
			require.InDelta(t, want, got, 1e-12)
			require.LessOrEqual(t, got, dp.PureCurve(s)(eps)+1e-12)
		}
	}
	// Disjoint supports, and a half-line where the density jumps.
	exponential := func(from float64) func(float64) float64 {
		return func(x float64) float64 {
			if x < from {
				return math.Inf(-1)
			}
			return from - x
		}
	}
	require.InDelta(t, -math.Expm1(-1), NewDivergence(exponential(0), exponential(1), 0, 60, 1).At(1), 1e-12)
	// Noise for half the sensitivity is caught.
	sigma, err := dp.GaussianSigma(dp.Budget{Epsilon: 1, Delta: 1e-5}, 1)
	require.NoError(t, err)
	require.Greater(t, NewDivergence(normal(2/sigma), normal(0), -40, 40).At(1), 1e-4)
}

func TestClopperPearson(t *testing.T) {
	// k = 0 and k = n have closed forms.
	lo, hi := ClopperPearson(0, 100, 0.01)
	require.Zero(t, lo)
	require.InEpsilon(t, 1-math.Pow(0.005, 0.01), hi, 1e-10)
	lo, hi = ClopperPearson(100, 100, 0.01)
	require.InEpsilon(t, math.Pow(0.005, 0.01), lo, 1e-10)
	require.Equal(t, 1., hi)
	// In between: the binomial tails at the limits, summed here.
	lo, hi = ClopperPearson(7, 40, 0.02)
	var above, below float64
	for k := 0; k <= 40; k++ {
		c, _ := math.Lgamma(41)
		a, _ := math.Lgamma(float64(k + 1))
		b, _ := math.Lgamma(float64(41 - k))
		if k >= 7 {
			above += math.Exp(c - a - b + float64(k)*math.Log(lo) + float64(40-k)*math.Log1p(-lo))
		}
		if k <= 7 {
			below += math.Exp(c - a - b + float64(k)*math.Log(hi) + float64(40-k)*math.Log1p(-hi))
		}
	}
	require.InEpsilon(t, 0.01, above, 1e-10)
	require.InEpsilon(t, 0.01, below, 1e-10)
	for _, f := range []func(){func() { ClopperPearson(-1, 3, 0.1) }, func() { ClopperPearson(4, 3, 0.1) },
		func() { ClopperPearson(0, 0, 0.1) }} {
		require.Panics(t, f)
	}
}

// laplace draws from the law with density ∝ exp(−|x|/scale), the difference of two exponential draws.
func laplace(scale float64, src rand.Source) float64 {
	return scale * (noise.Exponential(src) - noise.Exponential(src))
}

// laplaceSum releases a sum of numbers in [-1, 1] in two coordinates, with
// Laplace noise of the given scale on the first.
func laplaceSum(scale float64) func(data []float64, src rand.Source) []float64 {
	return func(data []float64, src rand.Source) []float64 {
		sum := 0.0
		for _, v := range data {
			sum += v
		}
		return []float64{sum + laplace(scale, src), 0}
	}
}

func TestAudit(t *testing.T) {
	d0, d1 := []float64{0.2, 1}, []float64{0.2, -1}
	claim := dp.Budget{Epsilon: 1}
	const runs = 40000
	got := Audit(t, laplaceSum(2), d0, d1, claim, runs, 1) // sensitivity 2, ε = 1
	require.Greater(t, got, 0.8, "the audit is blind")
	require.Equal(t, got, Audit(t, laplaceSum(2), d0, d1, claim, runs, 1))

	// Broken variants: noise for half the sensitivity; an atom that shows the
	// data; noise of a scale that depends on the data; a failure that does.
	first := true
	for name, mech := range map[string]func([]float64, rand.Source) []float64{
		"half": laplaceSum(1),
		"atom": func(data []float64, src rand.Source) []float64 {
			x := laplaceSum(2)(data, src)
			if rand.New(src).IntN(20) == 0 {
				x[1] = data[1]
			}
			return x
		},
		"scale": func(data []float64, src rand.Source) []float64 { return []float64{laplace(6+5*data[1], src)} },
		"length": func(data []float64, src rand.Source) []float64 {
			if data[1] < 0 {
				return nil
			}
			return laplaceSum(2)(data, src)
		},
		"withheld first": func(data []float64, src rand.Source) []float64 {
			if first {
				first = false
				return nil
			}
			return laplaceSum(0.5)(data, src)
		},
		"nan": func(data []float64, src rand.Source) []float64 {
			if data[1] < 0 {
				return []float64{math.NaN(), 0}
			}
			return laplaceSum(2)(data, src)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bites(t, func(r T) { Audit(r, mech, d0, d1, claim, runs, 1) })
		})
	}
	require.Panics(t, func() { LowerBound(laplaceSum(1), d0, d1, 0, 10, 1) })
	// δ = 1 - nothing can be proved.
	require.Zero(t, LowerBound(laplaceSum(0.1), d0, d1, 0.999, 1000, 1))
}

// TestAuditGaussian: at δ > 0 the bound stays below the exact ε and is not far
// from it.
func TestAuditGaussian(t *testing.T) {
	b := dp.Budget{Epsilon: 1, Delta: 1e-2}
	sigma, err := dp.GaussianSigma(b, 2)
	require.NoError(t, err)
	gaussian := func(sigma float64) func(x float64, src rand.Source) []float64 {
		return func(x float64, src rand.Source) []float64 {
			dst := make([]float64, 3)
			noise.Normal(dst, sigma, src)
			dst[1] += x
			return dst
		}
	}
	got := Audit(t, gaussian(sigma), 1, -1, b, 40000, 7)
	require.Greater(t, got, 0.5)
	bites(t, func(r T) { Audit(r, gaussian(sigma/2), 1, -1, b, 40000, 7) })
}

func TestLaws(t *testing.T) {
	x := make([]float64, 20000)
	noise.Normal(x, 1, rand.NewPCG(3, 4))
	CheckLaw(t, x, num.NormalCDF)
	for _, cdf := range []func(float64) float64{
		func(v float64) float64 { return num.NormalCDF(v / 1.05) }, // 5 % too little noise
		func(v float64) float64 { return num.NormalCDF(v - 0.05) },
		func(float64) float64 { return math.NaN() },
	} {
		bites(t, func(r T) { CheckLaw(r, x, cdf) })
	}
	bites(t, func(r T) { CheckLaw(r, x[:10], num.NormalCDF) })

	d, p := KolmogorovSmirnov([]float64{0.9, 0.1}, func(v float64) float64 { return v })
	require.InDelta(t, 0.4, d, 1e-15)
	require.Equal(t, 1., p) // 2e^{-0.64} > 1
	d, p = KolmogorovSmirnov(nil, num.NormalCDF)
	require.Zero(t, d)
	require.Equal(t, 1., p)

	stat, p := ChiSquare([]int{30, 70}, []float64{0.5, 0.5})
	require.Equal(t, 16., stat)
	require.InEpsilon(t, 2*num.NormalCDF(-4), p, 1e-12)
	stat, p = ChiSquare([]int{1, 9, 0}, []float64{0, 1, 0})
	require.Equal(t, math.Inf(1), stat)
	require.Zero(t, p)
	require.Panics(t, func() { ChiSquare([]int{1}, []float64{0.5, 0.5}) })
	require.Panics(t, func() { ChiSquare([]int{1}, []float64{1}) })
}
