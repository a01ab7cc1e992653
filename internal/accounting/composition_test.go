package accounting

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/pld"
)

// above requires that a bound is at least the exact value and at most slightly
// above it; 1e-10 allows for rounding of the exact value, which tests compute in
// float64.
func above(t *testing.T, exact, bound, rel float64, msg ...any) {
	t.Helper()
	require.GreaterOrEqual(t, bound, exact*(1-1e-10), msg...)
	require.LessOrEqual(t, bound, exact*(1+rel)+3e-15, msg...)
}

// general is a step with the curves of p, of which it takes the lower convex hull.
func general(rel dp.Relation, p dp.Profile) Step {
	pair := pld.Tabulate(pld.Pair{Up: p.Remove, Down: p.Add}, 1e-22)
	if rel == dp.Replace {
		pair = pld.Tabulate(pld.Symmetric(p.Remove), 1e-22)
	}
	return Step{rel: rel, pair: pair, rdp: p.RDP, count: 1}
}

// profile is that of the step alone, once.
func (s Step) profile() dp.Profile {
	return dp.Profile{Remove: s.pair.At, Add: s.pair.Swapped().At, RDP: s.rdp}
}

// Compositions of Gaussian mechanisms by discretization and FFT against their
// closed form, up to a million steps. The helper general hides that they are Gaussian.
func TestGaussianExact(t *testing.T) {
	for _, c := range []struct {
		s     float64
		steps int
	}{{0.5, 1}, {0.5, 2}, {0.3, 10}, {0.05, 400}, {2, 3}, {0.001, 1e6}} {
		total := c.s * math.Sqrt(float64(c.steps))
		step := general(dp.Replace, dp.Symmetric(dp.GaussianCurve(c.s), dp.GaussianRDP(c.s)))
		comp, err := Compose(step.Times(c.steps))
		require.NoError(t, err)
		for _, eps := range []float64{-1, 0, 0.3, 1, 3 * total, 6 * total} {
			// The grid is a 30th of the standard deviation of a step, so that the
			// variance is too large by 1e-4, and far in the tail δ by more.
			exact := dp.GaussianDelta(eps, total)
			above(t, exact, comp.Delta(eps), 2e-2, "s = %v, %d steps, ε = %v", c.s, c.steps, eps)
		}
		for _, delta := range []float64{1e-3, 1e-6, 1e-11} {
			exact := dp.GaussianCurve(total).Epsilon(delta)
			eps := comp.Epsilon(delta)
			require.GreaterOrEqual(t, eps, exact*(1-1e-12))
			require.LessOrEqual(t, eps, exact*1.002+1e-9, "s = %v, %d steps, δ = %v", c.s, c.steps, delta)
		}
	}
}

// Randomized response: k compositions have the profile of [KOV15],
//
//	δ(ε) = Σᵢ C(k,i) (e^{(k−i)ε₀} − e^{ε+iε₀})₊/(1+e^{ε₀})^k
func TestRandomizedResponseExact(t *testing.T) {
	exact := func(k int, eps0, eps float64) float64 {
		var sum float64
		for i := range k + 1 {
			c := logBinomial(float64(k), float64(i)) - float64(k)*math.Log1p(math.Exp(eps0))
			if a, b := float64(k-i)*eps0, eps+float64(i)*eps0; a > b {
				sum += math.Exp(c+a) * -math.Expm1(b-a)
			}
		}
		return sum
	}
	rapid.Check(t, func(rt *rapid.T) {
		k := rapid.IntRange(2, 40).Draw(rt, "k")
		eps0 := rapid.Float64Range(0.05, 1.5).Draw(rt, "eps0")
		eps := rapid.Float64Range(0, 0.9*float64(k)*eps0).Draw(rt, "eps")
		step := general(dp.AddRemove, dp.Symmetric(dp.PureCurve(eps0), dp.PureRDP(eps0)))
		c, err := Compose(step.Times(k))
		require.NoError(t, err)
		// The atoms at ±ε₀ fall between grid points, which moves ε by about a
		// step of the grid each way.
		got := c.Delta(eps)
		require.GreaterOrEqual(rt, got, exact(k, eps0, eps)*(1-1e-9)-1e-15)
		h := min(2e-3, 2.5*dp.PureCurve(eps0)(0)/30)
		require.LessOrEqual(rt, got, exact(k, eps0, eps-3*h*float64(k))*(1+1e-6)+2e-15)
	})
}

// Two Poisson steps under add-remove against quadrature over the loss of the
// first, δ₂(ε) = E_P δ₁(ε − ℓ(x)), with the exact δ₁ of the second.
func TestPoissonPairExact(t *testing.T) {
	nodes, weights := num.GaussLegendre(16)
	for _, c := range []struct{ q, z float64 }{{0.1, 1}, {0.3, 2}, {0.02, 0.8}} {
		step, err := Gaussian(Poisson{Rate: c.q, Relation: dp.AddRemove}, c.z)
		require.NoError(t, err)
		comp, err := Compose(step.Times(2))
		require.NoError(t, err)
		loss := func(x float64) float64 { // log (1−q+q e^{(2x−1)/(2z²)})
			return math.Log1p(c.q * math.Expm1((2*x-1)/(2*c.z*c.z)))
		}
		p := func(x float64) float64 {
			n := func(m float64) float64 {
				return math.Exp(-(x-m)*(x-m)/(2*c.z*c.z)) / (c.z * math.Sqrt(2*math.Pi))
			}
			return (1-c.q)*n(0) + c.q*n(1)
		}
		integrate := func(f func(x float64) float64) (sum float64) {
			for lo := -12 * c.z; lo < 1+12*c.z; lo += c.z / 16 {
				for i, u := range nodes {
					x := lo + c.z/32*(u+1)
					sum += weights[i] * c.z / 32 * f(x)
				}
			}
			return sum
		}
		one := step.pair
		raw := func(p pld.Pair, eps float64) float64 {
			if eps < 0 {
				return -math.Expm1(eps) + math.Exp(eps)*p.Down(-eps)
			}
			return p.Up(eps)
		}
		for _, eps := range []float64{0, 0.1, 0.5, 1.5} {
			remove := integrate(func(x float64) float64 { return p(x) * raw(one, eps-loss(x)) })
			add := integrate(func(x float64) float64 { // the loss of the exchanged pair is −ℓ, under Q
				q := p(x) * math.Exp(-loss(x))
				return q * raw(one.Swapped(), eps+loss(x))
			})
			// Kinks of δ₁ at 0 leave 1e-7 to the quadrature; the grid adds 1e-3.
			both := comp.Profile()
			for name, c := range map[string]struct{ exact, got float64 }{
				"removing": {remove, both.Remove(eps)}, "adding": {add, both.Add(eps)}, "either": {max(remove, add), comp.Delta(eps)},
				"removing, at −ε": {-math.Expm1(-eps) + math.Exp(-eps)*add, both.Remove(-eps)},
				"adding, at −ε":   {-math.Expm1(-eps) + math.Exp(-eps)*remove, both.Add(-eps)},
			} {
				require.GreaterOrEqual(t, c.got, c.exact*(1-1e-6), "%s, ε = %v", name, eps)
				require.LessOrEqual(t, c.got, c.exact*1.005+1e-13, "%s, ε = %v", name, eps)
			}
		}
	}
}

// Steps of several kinds: Gaussian ones against the closed form, in any order.
func TestHeterogeneous(t *testing.T) {
	a := general(dp.Replace, dp.Symmetric(dp.GaussianCurve(0.2), nil))
	b := general(dp.Replace, dp.Symmetric(dp.GaussianCurve(0.05), nil))
	full, err := Gaussian(Full{}, 4) // s = ½
	require.NoError(t, err)
	total := math.Sqrt(3*0.04 + 100*0.0025 + 0.25)
	for _, steps := range [][]Step{{a.Times(3), b.Times(100), full}, {full, b.Times(60), a, b.Times(40), a.Times(2)}} {
		c, err := Compose(steps...)
		require.NoError(t, err)
		require.Equal(t, 104, c.total)
		for _, eps := range []float64{0, 1, 3} {
			above(t, dp.GaussianDelta(eps, total), c.Delta(eps), 1e-2)
		}
	}
	// A subsampled step on top costs something, and less than twice everything.
	sub, err := Gaussian(FixedSize{Size: 10, Records: 100}, 4)
	require.NoError(t, err)
	with, err := Compose(full.Times(2), sub.Times(50))
	require.NoError(t, err)
	without, err := Compose(full.Times(2))
	require.NoError(t, err)
	require.Greater(t, with.Epsilon(1e-6), without.Epsilon(1e-6))
	sum := without.Epsilon(5e-7) + composed(t, FixedSize{Size: 10, Records: 100}, 4, 50).Epsilon(5e-7)
	require.Less(t, with.Epsilon(1e-6), sum)
}

// Steps that fail with probability δ₀ keep it at every ε: 1 − (1−δ₀)^T.
func TestInfiniteMass(t *testing.T) {
	b := dp.Budget{Epsilon: 0.1, Delta: 1e-3}
	step := general(dp.Replace, b.Profile())
	c, err := Compose(step.Times(10))
	require.NoError(t, err)
	above(t, -math.Expm1(10*math.Log1p(-1e-3)), c.Delta(1.5), 1e-6)
	require.Equal(t, math.Inf(1), c.Epsilon(1e-3))
	require.Less(t, c.Epsilon(2e-2), 1.1)
}

// Full steps are a Gaussian mechanism, exactly.
func TestFull(t *testing.T) {
	c := composed(t, Full{Relation: dp.AddRemove}, 10, 400)
	require.InEpsilon(t, dp.GaussianDelta(1, 2), c.Delta(1), 1e-9)
	require.GreaterOrEqual(t, c.Delta(1), dp.GaussianDelta(1, 2))
	z, err := Noise(Full{}, 100, dp.Budget{Epsilon: 1, Delta: 1e-6})
	require.NoError(t, err)
	sigma, err := dp.GaussianSigma(dp.Budget{Epsilon: 1, Delta: 1e-6}, 20)
	require.NoError(t, err)
	require.InEpsilon(t, sigma, z, 2e-6)
	for _, s := range []Sampler{Poisson{Rate: 1}, FixedSize{Size: 7, Records: 7}} { // the same by another name
		require.Equal(t, composed(t, Full{}, 3, 5).Delta(0.7), composed(t, s, 3, 5).Delta(0.7))
	}
	require.Equal(t, composed(t, Full{}, 3, 5).Delta(0.7), composed(t, Full{}, 3, 5).Profile().Delta(0.7))
}

// A single step is its own profile.
func TestSingleStep(t *testing.T) {
	for _, s := range []Sampler{
		Poisson{Rate: 0.05}, Poisson{Rate: 0.05, Relation: dp.AddRemove}, FixedSize{Size: 5, Records: 100},
		WithReplacement{Size: 5, Records: 100},
	} {
		step, err := Gaussian(s, 1.5)
		require.NoError(t, err)
		c, err := Compose(step)
		require.NoError(t, err)
		for _, eps := range []float64{-2, -0.5, -0.01, 0, 0.01, 0.2, 1} {
			require.Equal(t, step.profile().Delta(eps), c.Delta(eps))
		}
	}
}

// The profile of a composition is one: in [max(0, 1−e^ε), 1], nonincreasing,
// and more steps, more sampling and less noise cost more.
func TestMonotone(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 8 {
		rt := t
		q, z, steps := math.Exp(-5*rnd.Float64()), 0.7+7*rnd.Float64(), 2+rnd.IntN(200)
		rel, eps := dp.Replace+dp.Relation(rnd.IntN(2)), 3*rnd.Float64()-1
		c := composed(t, Poisson{Rate: q, Relation: rel}, z, steps)
		d := c.Delta(eps)
		require.True(rt, d >= max(0, -math.Expm1(eps)-1e-12) && d <= 1)
		require.LessOrEqual(rt, c.Delta(eps+0.1), d*(1+1e-4)+1e-14)
		require.GreaterOrEqual(rt, composed(t, Poisson{Rate: q, Relation: rel}, z, 2*steps).Delta(eps), d*(1-1e-3)-1e-14)
		require.GreaterOrEqual(rt, composed(t, Poisson{Rate: q, Relation: rel}, z/1.2, steps).Delta(eps), d*(1-1e-3)-1e-14)
		require.GreaterOrEqual(rt, composed(t, Poisson{Rate: min(1, 1.3*q), Relation: rel}, z, steps).Delta(eps), d*(1-1e-3)-1e-14)
	}
}

// Below pld.MinDelta the Rényi curve decides; it never promises more than the
// exact profile where one is known.
func TestBelowMinDelta(t *testing.T) {
	b := dp.Budget{Epsilon: 2, Delta: 1e-20}
	for _, s := range []Sampler{Poisson{Rate: 0.01}, Poisson{Rate: 0.01, Relation: dp.AddRemove}, FixedSize{Size: 10, Records: 1000}} {
		z, err := Noise(s, 100, b)
		require.NoError(t, err)
		c := composed(t, s, z, 100)
		require.LessOrEqual(t, c.Delta(2), 1e-20)
		eps := c.Epsilon(1e-20)
		require.LessOrEqual(t, eps, 2.)
		require.Greater(t, eps, 1.99)
		more, err := Noise(s, 100, dp.Budget{Epsilon: 2, Delta: 1e-12})
		require.NoError(t, err)
		require.Greater(t, z, more)
	}
	_, err := Noise(WithReplacement{Size: 10, Records: 1000}, 100, b)
	require.ErrorIs(t, err, dp.ErrCondition)
	require.ErrorContains(t, err, "Rényi")
	z, err := Noise(WithReplacement{Size: 10, Records: 1000}, 1, b) // one step has a closed form
	require.NoError(t, err)
	require.LessOrEqual(t, composed(t, WithReplacement{Size: 10, Records: 1000}, z, 1).Delta(2), 1e-20)
}

// A million subsampled steps.
func TestMillionSteps(t *testing.T) {
	z, err := Noise(Poisson{Rate: 1e-3}, 1e6, dp.Budget{Epsilon: 1, Delta: 1e-8})
	require.NoError(t, err)
	// By the central limit theorem the loss is that of a Gaussian mechanism with
	// s = q√(T(e^{1/z²}−1)) for removing a record, and no more than twice that
	// here; with s from the budget, z is near 2q√T/s.
	s, err := dp.Calibrate(dp.GaussianCurve, dp.Budget{Epsilon: 1, Delta: 1e-8})
	require.NoError(t, err)
	require.InEpsilon(t, 2/s, z, 0.05)
	require.LessOrEqual(t, composed(t, Poisson{Rate: 1e-3}, z, 1e6).Epsilon(1e-8), 1+1e-6)
}

// A rare record over a wide loss.
func TestRareRecord(t *testing.T) {
	c := composed(t, Poisson{Rate: 1e-9}, 0.4407, 1e6)
	require.LessOrEqual(t, c.Delta(1), 1e-12)
	require.GreaterOrEqual(t, c.Delta(1), composed(t, Poisson{Rate: 1e-9}, 0.4407, 1).Delta(1))
}

// A record that is in one batch of a thousand millions shows when it is there: its
// losses are on two scales, and no grid of affordable length holds both. The bound
// is that of a grid for the large ones.
func TestTwoScales(t *testing.T) {
	s := FixedSize{Size: 1, Records: 1e9}
	b := dp.Budget{Epsilon: 1, Delta: 1e-8}
	z, err := Noise(s, 1e6, b)
	require.NoError(t, err)
	c := composed(t, s, z, 1e6)
	require.LessOrEqual(t, c.Delta(1), 1e-8)
	require.LessOrEqual(t, c.Epsilon(1e-8), 1+1e-3)
	// In the first batch with it alone the record already costs this much; 0.58 is a
	// percent more than with all steps on a grid of 2.6e-3.
	one := composed(t, s, z, 1).Delta(1)
	require.Greater(t, 1e-8, 1e5*one)
	require.Less(t, z, 0.58)
	require.Greater(t, composed(t, s, 0.9*z, 1e6).Delta(1), 1e-8)
}

// A thousand different Gaussian steps: their scales add up in squares, and not to
// less for rounding.
func TestManyGaussians(t *testing.T) {
	var steps []Step
	exact := 0.0
	for i := range 1000 {
		z := 100 + float64(i)/7
		s, err := Gaussian(Full{}, z)
		require.NoError(t, err)
		steps = append(steps, s)
		exact += 4 / z / z
	}
	c, err := Compose(steps...)
	require.NoError(t, err)
	require.GreaterOrEqual(t, c.gauss, math.Sqrt(exact)*(1+500*0x1p-53))
	require.InEpsilon(t, math.Sqrt(exact), c.gauss, 1e-12)
}

// TestEpsilonOfPureSteps: many steps of a small pure loss, whose grid has few
// points, have the ε at which their δ(ε) falls below δ.
func TestEpsilonOfPureSteps(t *testing.T) {
	for _, pure := range []float64{0.04, 1e-3} {
		step := general(dp.Replace, dp.Symmetric(dp.PureCurve(pure), dp.PureRDP(pure)))
		c, err := Compose(step.Times(1000))
		require.NoError(t, err)
		eps := c.Epsilon(1e-6)
		require.LessOrEqual(t, c.Delta(eps), 1e-6*(1+1e-6))
		require.Greater(t, c.Delta(0.999*eps), 1e-6)
		// about that of a Gaussian mechanism with s = ε₀√T
		require.InEpsilon(t, dp.GaussianCurve(pure*math.Sqrt(1000)).Epsilon(1e-6), eps, 0.06)
	}
}

// TestRepetitions: counts multiply, and overflows are refused.
func TestRepetitions(t *testing.T) {
	step, err := Gaussian(Full{}, 3)
	require.NoError(t, err)
	for _, c := range []struct {
		counts []int
		total  int
	}{{[]int{1}, 1}, {[]int{2, 3}, 6}, {[]int{1 << 20, 1 << 20}, 1 << 40}, {[]int{1 << 20, 1<<20 + 1}, 0}, {[]int{-1}, 0}, {[]int{0, 5}, 0},
		{[]int{MaxSteps}, MaxSteps}, {[]int{MaxSteps + 1}, 0}} {
		s := step
		for _, n := range c.counts {
			s = s.Times(n)
		}
		comp, err := Compose(s)
		require.Equal(t, c.total > 0, err == nil, c)
		if err == nil {
			require.Equal(t, c.total, comp.total)
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
