package dp

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
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
	plans[1].profile.Add = PureCurve(3)
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
	for _, plans := range [][]*fixed{{known, known}, {known, blind}, {blind, blind}, {known}, {blind}, {purePlan(0.2), known, purePlan(1)}} {
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
		{0, []Plan{a, a}, ErrCondition}, {-1, []Plan{a, a}, ErrBudget}, {1, []Plan{a}, ErrBudget}, {math.NaN(), []Plan{a}, ErrBudget},
		{1e-6, []Plan{over}, ErrBudget},
		{1e-7, []Plan{&fixed{a.cert, Unknown()}, a}, ErrCondition},
	} {
		_, err := Compose(c.delta, c.plans...)
		require.ErrorIs(t, err, c.want)
	}
	require.True(t, slices.Contains(cert.Assumptions, LossArithmetic))
}
