// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package dp

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/privopt/privopt/dp/internal/pld"
)

// fixed is a plan with a given certificate and profile.
type fixed struct {
	cert    Certificate
	profile Profile
}

func (p *fixed) Certificate() Certificate { return p.cert }
func (p *fixed) Profile() Profile         { return p.profile }
func (p *fixed) String() string           { return p.cert.String() }

func planOf(delta float64, p Profile) *fixed {
	b := Budget{max(p.Epsilon(delta), 0.1), delta}
	return &fixed{Certificate{Budget: b, Relation: AddRemove, Theorem: "test/1", Assumptions: []Assumption{"a"}}, p}
}

func gaussianPlan(s float64) *fixed { return planOf(1e-6, Symmetric(GaussianCurve(s), GaussianRDP(s))) }

func purePlan(eps float64) *fixed { return planOf(0, Symmetric(PureCurve(eps), PureRDP(eps))) }

func plansOf(p ...*fixed) (out []Plan) {
	for _, v := range p {
		out = append(out, v)
	}
	return out
}

// Two and ten Gaussian plans cost the Gaussian mechanism with the root of the sum of
// squares, above it by no more than the grid.
func TestComposeGaussian(t *testing.T) {
	for _, shifts := range [][]float64{{0.3, 0.2}, {0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1}, {0.5, 0.05, 0.1}} {
		var plans []*fixed
		s2 := 0.0
		for _, s := range shifts {
			plans = append(plans, gaussianPlan(s))
			s2 += s * s
		}
		for _, delta := range []float64{1e-3, 1e-6, 1e-11} {
			cert, err := Compose(delta, plansOf(plans...)...)
			require.NoError(t, err)
			exact := GaussianCurve(math.Sqrt(s2)).Epsilon(delta)
			require.Equal(t, delta, cert.Delta)
			require.GreaterOrEqual(t, cert.Epsilon, exact*(1-1e-12))
			require.LessOrEqual(t, cert.Epsilon, exact*(1+3e-4), "%v at δ = %v", shifts, delta)
		}
	}
}

// Gaussian profiles compose exactly, at every δ, and not through the Rényi curves below 1e-12,
// which cost 3 % more; with curves that are no longer those of the profile they are not taken for
// Gaussian.
func TestComposeGaussianExact(t *testing.T) {
	var plans []*fixed
	for _, s := range []float64{0.3, 0.5, 0.2} {
		plans = append(plans, planOf(1e-6, GaussianProfile(s)))
	}
	exact := GaussianCurve(math.Sqrt(0.38))
	for _, delta := range []float64{1e-3, 1e-12, 1e-13, 1e-40} {
		cert, err := Compose(delta, plansOf(plans...)...)
		require.NoError(t, err)
		require.InEpsilon(t, exact.Epsilon(delta), cert.Epsilon, 1e-13)
		require.GreaterOrEqual(t, cert.Epsilon, exact.Epsilon(delta))
	}
	plans[1].profile.Failure = 1e-20
	cert, err := Compose(1e-15, plansOf(plans...)...)
	require.NoError(t, err)
	require.Greater(t, cert.Epsilon, exact.Epsilon(1e-15))
	require.LessOrEqual(t, exact(cert.Epsilon)+(1+math.Exp(cert.Epsilon))*1e-20, 1e-15)
	plans[1].profile.Add, plans[1].profile.RDP = PureCurve(3), nil // its Rényi curve bounds both orders
	_, ok := plans[1].profile.gaussian()
	require.False(t, ok)
	changed, err := Compose(1e-6, plansOf(plans...)...)
	require.NoError(t, err)
	require.Greater(t, changed.Epsilon, exact.Epsilon(1e-6)+1)
	plans[1].profile = Profile{}
	_, ok = plans[1].profile.gaussian()
	require.False(t, ok)
	_, ok = GaussianProfile(math.NaN()).gaussian()
	require.False(t, ok)
}

// A pure and a Gaussian plan: the loss of randomized response is ±ε₀, so that
// δ(ε) = p δ_G(ε−ε₀) + (1−p) δ_G(ε+ε₀), p = e^ε₀/(1+e^ε₀). Two pure ones likewise.
func TestComposePure(t *testing.T) {
	const eps0, s = 0.7, 0.4
	p := 1 / (1 + math.Exp(-eps0))
	for _, c := range []struct {
		plans []*fixed
		exact Curve
	}{
		{[]*fixed{purePlan(eps0), gaussianPlan(s)}, func(eps float64) float64 {
			return p*GaussianDelta(eps-eps0, s) + (1-p)*GaussianDelta(eps+eps0, s)
		}},
		{[]*fixed{purePlan(eps0), purePlan(eps0)}, func(eps float64) float64 {
			return p*PureCurve(eps0)(eps-eps0) + (1-p)*PureCurve(eps0)(eps+eps0)
		}},
	} {
		for _, delta := range []float64{1e-2, 1e-5} {
			cert, err := Compose(delta, plansOf(c.plans...)...)
			require.NoError(t, err)
			exact := c.exact.Epsilon(delta)
			require.GreaterOrEqual(t, cert.Epsilon, exact*(1-1e-9))
			require.LessOrEqual(t, cert.Epsilon, exact*(1+3e-3)) // atoms lie between points of the grid
		}
	}
	cert, err := Compose(0, plansOf(purePlan(eps0), purePlan(0.2))...)
	require.NoError(t, err)
	require.InEpsilon(t, 0.9, cert.Epsilon, 1e-12)
}

// Removing and adding are composed apart: where one plan is costly to remove from and
// the other to add to, the composition is below that of the larger curves. The laws are
// P = (0.3, 0.7) and Q = (0.1, 0.9), which the second plan has exchanged.
func TestComposeOrdersApart(t *testing.T) {
	stick := func(p, q []float64) Curve {
		return func(eps float64) (sum float64) {
			for i := range p {
				sum += max(0, p[i]-math.Exp(eps)*q[i])
			}
			return sum
		}
	}
	product := func(a, b []float64) (out []float64) {
		for _, x := range a {
			for _, y := range b {
				out = append(out, x*y)
			}
		}
		return out
	}
	big, small := []float64{0.3, 0.7}, []float64{0.1, 0.9} // e^loss: 3 and 7/9, exchanged 1/3 and 9/7
	for _, c := range []struct {
		first, second [2][]float64
	}{
		{[2][]float64{big, small}, [2][]float64{small, big}}, {[2][]float64{big, small}, [2][]float64{big, small}},
	} {
		plan := func(l [2][]float64) *fixed {
			return planOf(0.05, Profile{Remove: stick(l[0], l[1]), Add: stick(l[1], l[0])})
		}
		with, without := product(c.first[0], c.second[0]), product(c.first[1], c.second[1])
		exact := Profile{Remove: stick(with, without), Add: stick(without, with)}
		for _, delta := range []float64{0.15, 0.05, 0.02} {
			cert, err := Compose(delta, plan(c.first), plan(c.second))
			require.NoError(t, err)
			require.GreaterOrEqual(t, cert.Epsilon, exact.Epsilon(delta)*(1-1e-9))
			require.LessOrEqual(t, cert.Epsilon, exact.Epsilon(delta)+0.01) // steps of the grid, 2e-3
		}
	}
	// With the larger curve in both orders the exchanged plan would cost much more.
	larger := func(l [2][]float64) *fixed {
		f := Profile{Remove: stick(l[0], l[1]), Add: stick(l[1], l[0])}.Delta
		return planOf(0.05, Symmetric(f, nil))
	}
	apart, err := Compose(0.05, planOf(0.05, Profile{Remove: stick(big, small), Add: stick(small, big)}),
		planOf(0.05, Profile{Remove: stick(small, big), Add: stick(big, small)}))
	require.NoError(t, err)
	both, err := Compose(0.05, larger([2][]float64{big, small}), larger([2][]float64{big, small}))
	require.NoError(t, err)
	require.Less(t, apart.Epsilon, 0.85*both.Epsilon)
}

// Never more than Basic, also where the profile of a plan knows less than its
// certificate, and below δ = 1e-12 where the Rényi curves decide.
func TestComposeAtMostBasic(t *testing.T) {
	known := gaussianPlan(0.3)
	blind := &fixed{known.cert, Unknown()}
	for _, plans := range [][]*fixed{{known, known}, {known, blind}, {blind, blind}, {known}, {blind},
		{purePlan(0.2), known, purePlan(1)}} {
		var certs []Certificate
		for _, p := range plans {
			certs = append(certs, p.cert)
		}
		basic, err := Basic(certs...)
		require.NoError(t, err)
		cert, err := Compose(basic.Delta, plansOf(plans...)...)
		require.NoError(t, err)
		require.LessOrEqual(t, cert.Epsilon, basic.Epsilon)
	}
	cert, err := Compose(1e-30, plansOf(known, known)...)
	require.NoError(t, err)
	exact := GaussianCurve(0.3 * math.Sqrt2).Epsilon(1e-30)
	require.GreaterOrEqual(t, cert.Epsilon, exact)
	require.LessOrEqual(t, cert.Epsilon, 1.05*exact)
	failing := gaussianPlan(0.3)
	failing.profile.Failure = 1e-33
	more, err := Compose(1e-30, plansOf(failing, known)...)
	require.NoError(t, err)
	require.Greater(t, more.Epsilon, cert.Epsilon)
	require.LessOrEqual(t, more.Epsilon, 1.05*exact)
}

// Failures add up: ε is where δ(ε) + (1+e^ε)·ΣFailure falls to δ.
func TestComposeFailures(t *testing.T) {
	a, b := gaussianPlan(0.3), gaussianPlan(0.2)
	a.profile.Failure, b.profile.Failure = 1e-8, 5e-9
	cert, err := Compose(1e-6, plansOf(a, b)...)
	require.NoError(t, err)
	exact := Profile{Remove: GaussianCurve(math.Sqrt(0.13)), Add: GaussianCurve(0), Failure: 1.5e-8}
	require.LessOrEqual(t, exact.Delta(cert.Epsilon), 1e-6)
	require.Greater(t, exact.Delta(cert.Epsilon*(1-1e-3)), 1e-6)
}

func TestComposeNames(t *testing.T) {
	a, b := gaussianPlan(0.3), gaussianPlan(0.2)
	b.cert.Theorem, b.cert.Assumptions = "other/3", []Assumption{"b", "a"}
	cert, err := Compose(1e-6, a, b)
	require.NoError(t, err)
	require.Equal(t, "dp.compose/2(test/1, other/3)", cert.Theorem)
	require.Equal(t, []Assumption{"a", "b", LossArithmetic}, cert.Assumptions)
	require.Equal(t, AddRemove, cert.Relation)
	require.NoError(t, cert.Check())
	require.Equal(t, []Assumption{"a"}, a.cert.Assumptions)

	replace := gaussianPlan(0.3)
	replace.cert.Relation = Replace
	empty := &fixed{profile: Unknown()}
	over := gaussianPlan(0.3)
	over.cert.Epsilon = 0
	for _, c := range []struct {
		delta float64
		plans []Plan
		want  error
	}{
		{1e-6, nil, ErrCondition}, {1e-6, []Plan{a, nil}, ErrCondition}, {1e-6, []Plan{empty, a}, ErrCondition},
		{1e-6, []Plan{a, replace}, ErrRelation},
		{0, []Plan{a, a}, ErrCondition}, {-1, []Plan{a, a}, ErrBudget}, {1, []Plan{a}, ErrBudget}, {math.NaN(), []Plan{a},
			ErrBudget},
		{1e-6, []Plan{over}, ErrBudget},
		{1e-7, []Plan{&fixed{a.cert, Unknown()}, a}, ErrCondition},
	} {
		_, err := Compose(c.delta, c.plans...)
		require.ErrorIs(t, err, c.want)
	}
	require.True(t, slices.Contains(cert.Assumptions, LossArithmetic))
}

// above requires that a bound is at least the exact value and at most slightly
// above it; 1e-10 allows for rounding of the exact value, which tests compute in
// float64.
func above(t *testing.T, exact, bound, rel float64, msg ...any) {
	t.Helper()
	require.GreaterOrEqual(t, bound, exact*(1-1e-10), msg...)
	require.LessOrEqual(t, bound, exact*(1+rel)+3e-15, msg...)
}

// part is a repeated release with the curves of p, of which it takes the lower convex hull. It
// hides that p is Gaussian.
func part(p Profile, times int) pld.Part {
	return pld.Part{Pair: pld.Tabulate(pld.Symmetric(p.Remove), 1e-22), Times: times}
}

// Compositions of Gaussian mechanisms by discretization and FFT against their
// closed form, up to a million steps. The helper general hides that they are Gaussian.
func TestGaussianExact(t *testing.T) {
	for _, c := range []struct {
		s     float64
		steps int
	}{{0.5, 1}, {0.5, 2}, {0.3, 10}, {0.05, 400}, {2, 3}, {0.001, 1e6}} {
		total := c.s * math.Sqrt(float64(c.steps))
		comp := pld.New([]pld.Part{part(GaussianProfile(c.s), c.steps)})
		for _, eps := range []float64{-1, 0, 0.3, 1, 3 * total, 6 * total} {
			// The grid is a 30th of the standard deviation of a step, so that the
			// variance is too large by 1e-4, and far in the tail δ by more.
			exact := GaussianDelta(eps, total)
			above(t, exact, comp.Delta(pld.Up, eps), 2e-2, "s = %v, %d steps, ε = %v", c.s, c.steps, eps)
		}
		for _, delta := range []float64{1e-3, 1e-6, 1e-11} {
			exact := GaussianCurve(total).Epsilon(delta)
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
		c := pld.New([]pld.Part{part(Budget{Epsilon: eps0}.Profile(), k)})
		// The atoms at ±ε₀ fall between grid points, which moves ε by about a
		// step of the grid each way.
		got := c.Delta(pld.Up, eps)
		require.GreaterOrEqual(rt, got, exact(k, eps0, eps)*(1-1e-9)-1e-15)
		h := min(2e-3, 2.5*PureCurve(eps0)(0)/30)
		require.LessOrEqual(rt, got, exact(k, eps0, eps-3*h*float64(k))*(1+1e-6)+2e-15)
	})
}

// Steps of several kinds: Gaussian ones against the closed form, in any order.
func TestHeterogeneous(t *testing.T) {
	kinds := func(times ...int) (parts []pld.Part) {
		for i, s := range []float64{0.2, 0.05, 0.5} {
			parts = append(parts, part(GaussianProfile(s), times[i]))
		}
		return parts
	}
	total := math.Sqrt(3*0.04 + 100*0.0025 + 0.25)
	for _, parts := range [][]pld.Part{kinds(3, 100, 1), append(kinds(1, 60, 1), kinds(2, 40, 0)[:2]...)} {
		c := pld.New(parts)
		for _, eps := range []float64{0, 1, 3} {
			above(t, GaussianDelta(eps, total), c.Delta(pld.Up, eps), 1e-2)
		}
	}
	// Subsampled sums on top cost something, and less than twice everything.
	full, sub := part(GaussianProfile(0.5), 2), pld.Part{Pair: Sampler{Size: 10, Records: 100}.one(4).pair, Times: 50}
	with, without := pld.New([]pld.Part{full, sub}), pld.New([]pld.Part{full})
	require.Greater(t, with.Epsilon(1e-6), without.Epsilon(1e-6))
	require.Less(t, with.Epsilon(1e-6), without.Epsilon(5e-7)+pld.New([]pld.Part{sub}).Epsilon(5e-7))
}

// Steps that fail with probability δ₀ keep it at every ε: 1 − (1−δ₀)^T.
func TestInfiniteMass(t *testing.T) {
	b := Budget{Epsilon: 0.1, Delta: 1e-3}
	c := pld.New([]pld.Part{part(b.Profile(), 10)})
	above(t, -math.Expm1(10*math.Log1p(-1e-3)), c.Delta(pld.Up, 1.5), 1e-6)
	require.Equal(t, math.Inf(1), c.Epsilon(1e-3))
	require.Less(t, c.Epsilon(2e-2), 1.1)
}

// TestEpsilonOfPureSteps: many steps of a small pure loss, whose grid has few
// points, have the ε at which their δ(ε) falls below δ.
func TestEpsilonOfPureSteps(t *testing.T) {
	for _, pure := range []float64{0.04, 1e-3} {
		c := pld.New([]pld.Part{part(Budget{Epsilon: pure}.Profile(), 1000)})
		eps := c.Epsilon(1e-6)
		require.LessOrEqual(t, c.Delta(pld.Up, eps), 1e-6*(1+1e-6))
		require.Greater(t, c.Delta(pld.Up, 0.999*eps), 1e-6)
		// about that of a Gaussian mechanism with s = ε₀√T
		require.InEpsilon(t, GaussianCurve(pure*math.Sqrt(1000)).Epsilon(1e-6), eps, 0.06)
	}
}
