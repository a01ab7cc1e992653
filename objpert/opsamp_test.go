// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package objpert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	sample "github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/testkit"
)

// sampPublic are the declared quantities of OPSamp, and a budget.
type sampPublic struct {
	Dim                      int
	Diameter, Lipschitz, Gap float64
	Records                  int
	Convex                   bool
	Budget                   dp.Budget
}

// in returns m with the declared quantities of q.
func (q sampPublic) in(m OPSamp) *OPSamp {
	m.Dim, m.Diameter, m.Lipschitz, m.Gap, m.Records, m.Convex = q.Dim, q.Diameter, q.Lipschitz, q.Gap, q.Records, q.Convex
	return &m
}

func sampled(m OPSamp, q sampPublic) (*SampPlan, error) { return q.in(m).Plan(q.Budget) }

func stability(q sampPublic, kappa int, eta float64) float64 {
	rel := map[int]dp.Relation{1: dp.AddRemove, 2: dp.Replace}[kappa]
	return q.in(OPSamp{Relation: rel}).stability(q.Gap, eta)
}

// over returns m for the halfspaces of p and a latticeMinimizer.
func over(p *Problem, m OPSamp) *OPSamp {
	m.Dim, m.Diameter, m.Lipschitz = p.dim, float64(2*p.space.bound()), 1/p.space.step()
	m.Gap += math.Ldexp(float64(p.dim+1), -maxShift) // for rounding the tilt
	m.Records = cmp.Or(m.Records, p.records())
	return &m
}

// latticeMinimizer is a Minimizer for the halfspaces of a Problem.
type latticeMinimizer struct {
	problem *Problem
	oracle  Oracle
	gap     float64 // accepted of an oracle that stopped at one of its own limits
}

// Minimize implements [Minimizer]. The rounding of the tilt is part of the gap.
func (m *latticeMinimizer) Minimize(ctx context.Context, w, sigma []float64) (gap float64, err error) {
	p, rounding, err := m.problem.tilted(sigma)
	if err != nil {
		return 0, err
	}
	defer p.noise.wipe()
	sol, err := m.oracle.Solve(ctx, p)
	if sol == nil || err != nil && !errors.Is(err, ErrLimit) || !p.Contains(sol.W) {
		return 0, cmp.Or(err, errors.New("objpert: the oracle returned no point of the space"))
	}
	for j, v := range sol.W {
		w[j] = float64(v)
	}
	if sol.Proven {
		return rounding, nil
	}
	if gap = sol.Objective - sol.Lower + rounding; gap <= m.gap {
		err = nil
	}
	return gap, err
}

// tilted returns p with the noise T_j[k] = sigma_j·Values[k], rounded to steps of 2⁻³⁰, or of 2^-s
// for the largest s with Σ_j max_k |T_j[k]| ≤ 2^(59−s) where that is coarser. The second result
// bounds the change of the difference of two objectives by rounding.
func (p *Problem) tilted(sigma []float64) (*Problem, float64, error) {
	values := p.space.Values
	most := float64(max(-values[0], values[len(values)-1]))
	bound := 0.0 // of the noise
	for _, s := range sigma {
		bound += math.Abs(s) * most
	}
	if !(bound <= 0x1p58) { // also NaN
		return nil, 0, fmt.Errorf("%w: the noise must be finite with Σ_j max|T_j| ≤ 2^58", ErrProblem)
	}
	_, e := math.Frexp(bound) // bound < 2^e
	n := newPerturbation(p.dim, len(values))
	n.shift = 59 - max(59-maxShift, e+1)
	for j, s := range sigma {
		for k, v := range values {
			n.table[j][k] = int64(math.RoundToEven(math.Ldexp(s*float64(v), n.shift)))
		}
	}
	noisy := *p
	noisy.noise = n
	return &noisy, math.Ldexp(float64(p.dim+1), -n.shift), nil
}

// The bound in its closed form, and against the published constants of the
// table: less noise at the same number of calls.
func TestStability(t *testing.T) {
	q := sampPublic{Dim: 3, Diameter: 2, Lipschitz: 0.5}
	s := stability(q, 2, 1e-9)
	require.InEpsilon(t, 8e-9*0.5*9*2, s, 1e-6) // 8ηGd²D_∞
	half := stability(q, 1, 1e-9)
	require.InEpsilon(t, s/2, half, 1e-6)
	top := stability(q, 2, 1e9)
	require.Equal(t, 6., top, "never more than dD_∞")
	q.Gap = 0.1
	require.Greater(t, stability(q, 2, 1e-9), s)
	// The formula at a P of one's own is no better, with a gap small enough that it decides beside
	// dD_∞
	q.Gap = 1e-9
	with := stability(q, 2, 1e-9)
	formula := func(p float64) float64 {
		c := 2 * 0.5 * 3 * p
		e := math.Exp(-1e-9 * c)
		return (-math.Expm1(-1e-9*c)*6 + 3*1e-9*3*e/c) / (1 - e/p)
	}
	require.InEpsilon(t, leastOf(formula), with, 1e-6)
	for _, p := range []float64{1.5, 2, 10, 100, 1e4} {
		require.LessOrEqual(t, with, formula(p)*(1+1e-6))
	}

	for _, g := range readConstants(t).OPSamp {
		require.InEpsilon(t, g.S, 54*g.Rate*g.G*float64(g.D*g.D)*g.DInf, 1e-9)
		pub := sampPublic{Dim: g.D, Diameter: g.DInf, Lipschitz: g.G, Records: g.N, Convex: true,
			Budget: dp.Budget{Epsilon: g.Eps, Delta: g.Delta}}
		at, err := sampled(OPSamp{Rate: g.Rate}, pub)
		require.NoError(t, err)
		require.InEpsilon(t, 8./54, at.params.Stability/g.S, 0.02) // small η: 8 in the place of 54
		best, err := sampled(OPSamp{}, pub)
		require.NoError(t, err)
		require.InEpsilon(t, g.Excess/math.Sqrt(54./8), best.params.ExcessBound/float64(g.N), 0.02)
		require.InEpsilon(t, g.Trivial, best.params.TrivialBound/float64(g.N), 1e-12)
		require.Equal(t, best.params.ExcessBound >= best.params.TrivialBound, best.Vacuous())
		// m grows as 1/S and gains 1/3 over h(1) = 2 ln 2 − 1.
		require.InEpsilon(t, float64(g.M)*math.Sqrt(54./8)/3/(2*math.Ln2-1), float64(best.params.Calls), 0.02)
	}
}

// leastOf returns the least value of f(P), P > 1, by a dense scan.
func leastOf(f func(p float64) float64) float64 {
	least := math.Inf(1)
	for z := -20.; z < 60; z += 1e-3 {
		least = math.Min(least, f(1+math.Exp(z)))
	}
	return least
}

// Vacuous says where the guarantee is empty, in the words of a printed plan.
func TestVacuous(t *testing.T) {
	at := func(n, d int, convex bool) *SampPlan {
		p, err := sampled(OPSamp{}, sampPublic{Dim: d, Diameter: 1, Lipschitz: 1, Records: n, Convex: convex,
			Budget: dp.Budget{Epsilon: 1, Delta: 4e-9}})
		require.NoError(t, err)
		return p
	}
	require.True(t, at(15682, 23, true).Vacuous())
	require.Contains(t, at(15682, 23, true).String(), "vacuous")
	require.False(t, at(15682, 2, true).Vacuous())
	require.NotContains(t, at(15682, 2, true).String(), "vacuous")
	require.True(t, at(15682, 2, false).Vacuous(), "nothing is known without convexity")
	require.Zero(t, at(15682, 2, false).params.ExcessBound)
	var empty *SampPlan
	require.Equal(t, "empty plan", empty.String())
}

// The stability bound holds for lattice oracles, with exact and with adversarial
// points within the gap, by simulation over the tilts.
func TestStabilityBySimulation(t *testing.T) {
	p, err := NewProblem([][]int64{{1, 0}, {1, 1}, {-1, 2}}, []int{1, -1, 1}, nil, ternary())
	require.NoError(t, err)
	p1, err := NewProblem([][]int64{{1, 0}, {1, 1}, {-1, 2}}, []int{-1, -1, 1}, nil, ternary())
	require.NoError(t, err)
	for _, alpha := range []float64{0, 0.5} {
		for _, eta := range []float64{0.01, 0.1, 0.3} {
			s := stability(sampPublic{Dim: 2, Diameter: 2, Lipschitz: 1, Gap: alpha}, 2, eta)
			src := sample.Reproducible(21)
			sum := 0.0
			const runs = 3000
			for range runs {
				sigma := []float64{sample.Exponential(src) / eta, sample.Exponential(src) / eta}
				// The pair of points within the gap that is furthest apart.
				worst := 0.0
				for _, a := range within(p, sigma, alpha) {
					for _, b := range within(p1, sigma, alpha) {
						worst = math.Max(worst, math.Abs(float64(a[0]-b[0]))+math.Abs(float64(a[1]-b[1])))
					}
				}
				sum += worst
			}
			// ‖·‖₁ ≤ 4: the mean is within 5.2·2/√runs of its expectation but for 1e-6.
			require.Less(t, sum/runs-5.2*2/math.Sqrt(runs), s, "α=%v η=%v", alpha, eta)
		}
	}
}

// within returns the points whose tilted loss is within alpha of the least.
func within(p *Problem, sigma []float64, alpha float64) (out [][]int) {
	best := math.Inf(1)
	value := func(w []int) float64 {
		return float64(p.Loss(w)) - sigma[0]*float64(w[0]) - sigma[1]*float64(w[1])
	}
	walkSpace(p, func(w []int) { best = math.Min(best, value(w)) })
	walkSpace(p, func(w []int) {
		if value(w) <= best+alpha {
			out = append(out, append([]int(nil), w...))
		}
	})
	return out
}

func TestOPSampFitLattice(t *testing.T) {
	rows, labels := make([][]int64, 3000), make([]int, 3000)
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range rows {
		rows[i] = []int64{1, rnd.Int64N(3)}
		labels[i] = 1 - 2*(i%2)
	}
	p, err := NewProblem(rows, labels, nil, ternary())
	require.NoError(t, err)
	b := dp.Budget{Epsilon: 2, Delta: 1e-4}
	pl, err := over(p, OPSamp{}).Plan(b)
	require.NoError(t, err)
	require.Equal(t, 3000, pl.params.Records)
	require.Equal(t, 2., pl.params.Diameter)
	require.Equal(t, 1., pl.params.Lipschitz)
	c, err := pl.Fit(bg, &latticeMinimizer{problem: p, oracle: Search{}}, sample.Reproducible(1))
	require.NoError(t, err)
	require.Equal(
		t,
		[]dp.Assumption{dp.CalibrationArithmetic, CompleteSearch, OracleDeterminism, DeclaredMinimizer, dp.CallerSource},
		c.Certificate.Assumptions,
	)
	require.Equal(t, theoremOPSamp, c.Certificate.Theorem)
	require.Equal(t, b, c.Certificate.Budget)
	require.NoError(t, c.Certificate.Check())
	secure, err := pl.Fit(bg, &latticeMinimizer{problem: p, oracle: Search{}}, nil)
	require.NoError(t, err)
	require.NotContains(t, secure.Certificate.Assumptions, dp.CallerSource)
}

// μ has the law Laplace(λ/ε), and tilts are exponential of rate η: seen by a
// minimizer that returns what it is told.
func TestOPSampNoise(t *testing.T) {
	pl, err := sampled(OPSamp{Rate: 0.25, Slack: 5},
		sampPublic{Dim: 2, Diameter: 1, Lipschitz: 0.01, Budget: dp.Budget{Epsilon: 1, Delta: 0.1}})
	require.NoError(t, err)
	var tilts, out []float64
	spy := minimizerFunc(func(w, sigma []float64) (float64, error) {
		tilts = append(tilts, sigma...)
		clear(w)
		return 0, nil
	})
	src := sample.Reproducible(22)
	for range 3000 {
		rel, err := pl.Fit(bg, spy, src)
		require.NoError(t, err)
		out = append(out, rel.Theta...)
	}
	require.Len(t, tilts, 6000*pl.params.Calls)
	testkit.CheckLaw(
		t,
		tilts[:min(len(tilts), 20_000)],
		func(x float64) float64 { return -math.Expm1(-0.25 * math.Max(0, x)) },
	)
	scale := 6 * pl.params.Stability // λ/ε = (1+t)S
	testkit.CheckLaw(t, out, func(x float64) float64 {
		if x < 0 {
			return math.Exp(x/scale) / 2
		}
		return 1 - math.Exp(-x/scale)/2
	})
}

// Noise beyond the range of 64-bit integers hides the points all the same: minimizers at opposite
// ends of the set release the same numbers wherever it is that large.
func TestOPSampSaturates(t *testing.T) {
	pl, err := sampled(OPSamp{Rate: 0.001},
		sampPublic{Dim: 3, Diameter: 1, Lipschitz: 1, Budget: dp.Budget{Epsilon: 1e-12, Delta: 1e-6}})
	require.NoError(t, err)
	q := pl.params
	require.Greater(
		t,
		q.Scale*float64(q.Calls),
		math.Ldexp(1, 62+q.Exponent),
		"the noise leaves int64 more often than not",
	)
	at := func(v float64, seed uint64) []float64 {
		rel, err := pl.Fit(bg, minimizerFunc(func(w, _ []float64) (float64, error) {
			for j := range w {
				w[j] = v
			}
			return 0, nil
		}), sample.Reproducible(seed))
		require.NoError(t, err)
		return rel.Theta
	}
	most := math.Ldexp(1, 61+q.Exponent) / float64(q.Calls)
	for seed := range uint64(10) {
		require.Equal(t, at(-0.5, seed), at(0.5, seed))
		for _, v := range at(0.5, seed) {
			require.LessOrEqual(t, math.Abs(v), most*(1+1e-12))
		}
	}
}

type minimizerFunc func(w, sigma []float64) (float64, error)

func (f minimizerFunc) Minimize(_ context.Context, w, sigma []float64) (float64, error) {
	return f(w, sigma)
}

func TestOPSampRefusals(t *testing.T) {
	good := sampPublic{Dim: 2, Diameter: 1, Lipschitz: 1, Records: 100, Budget: dp.Budget{Epsilon: 1, Delta: 1e-5}}
	for name, c := range map[string]struct {
		edit func(m *OPSamp, q *sampPublic)
		want error
	}{
		"δ = 0":       {func(_ *OPSamp, q *sampPublic) { q.Budget.Delta = 0 }, dp.ErrBudget},
		"ε = 0":       {func(_ *OPSamp, q *sampPublic) { q.Budget.Epsilon = 0 }, dp.ErrBudget},
		"d = 0":       {func(_ *OPSamp, q *sampPublic) { q.Dim = 0 }, ErrMechanism},
		"D = 0":       {func(_ *OPSamp, q *sampPublic) { q.Diameter = 0 }, ErrMechanism},
		"D = +Inf":    {func(_ *OPSamp, q *sampPublic) { q.Diameter = math.Inf(1) }, ErrMechanism},
		"G = 0":       {func(_ *OPSamp, q *sampPublic) { q.Lipschitz = 0 }, ErrMechanism},
		"G NaN":       {func(_ *OPSamp, q *sampPublic) { q.Lipschitz = math.NaN() }, ErrMechanism},
		"α < 0":       {func(_ *OPSamp, q *sampPublic) { q.Gap = -1 }, ErrMechanism},
		"n < 0":       {func(_ *OPSamp, q *sampPublic) { q.Records = -1 }, ErrMechanism},
		"t < 0":       {func(m *OPSamp, _ *sampPublic) { m.Slack = -1 }, ErrMechanism},
		"η < 0":       {func(m *OPSamp, _ *sampPublic) { m.Rate = -1 }, ErrMechanism},
		"n unknown":   {func(_ *OPSamp, q *sampPublic) { q.Records = 0 }, ErrMechanism},
		"relation":    {func(m *OPSamp, _ *sampPublic) { m.Relation = 9 }, dp.ErrRelation},
		"no relation": {func(m *OPSamp, _ *sampPublic) { m.Relation = -1 }, dp.ErrRelation},
	} {
		m, q := OPSamp{}, good
		c.edit(&m, &q)
		_, err := sampled(m, q)
		require.ErrorIs(t, err, c.want, name)
	}
	_, err := (&SampPlan{}).Fit(bg, minimizerFunc(nil), nil)
	require.ErrorIs(t, err, ErrMechanism)
	pl, err := sampled(OPSamp{}, good)
	require.NoError(t, err)
	broken := errors.New("broken")
	rel, err := pl.Fit(bg, minimizerFunc(func(w, _ []float64) (float64, error) { return 0, broken }), nil)
	require.Nil(t, rel)
	require.ErrorIs(t, err, dp.ErrWithheld)
	require.ErrorIs(t, err, broken)
	_, err = pl.Fit(bg, nil, nil)
	require.ErrorIs(t, err, ErrMechanism)
	for _, v := range []float64{math.NaN(), math.Inf(-1)} {
		rel, err = pl.Fit(bg, minimizerFunc(func(w, _ []float64) (float64, error) { w[1] = v; return 0, nil }), nil)
		require.Nil(t, rel)
		require.ErrorIs(t, err, dp.ErrWithheld)
		require.NotContains(t, err.Error(), fmt.Sprint(v))
	}
	for _, gap := range []float64{1e-9, math.NaN()} { // α = 0
		rel, err = pl.Fit(bg, minimizerFunc(func(w, _ []float64) (float64, error) { return gap, nil }), nil)
		require.Nil(t, rel)
		require.ErrorIs(t, err, dp.ErrWithheld)
	}
}

// bracket is an oracle that stops at a gap.
type bracket struct {
	sol Solution
	err error
}

func (b bracket) Solve(context.Context, *Problem) (*Solution, error) { s := b.sol; return &s, b.err }

func TestLatticeMinimizer(t *testing.T) {
	p, err := NewProblem([][]int64{{1, 1}}, []int{1}, nil, ternary())
	require.NoError(t, err)
	w := make([]float64, 2)
	gap, err := (&latticeMinimizer{problem: p, oracle: Search{}}).Minimize(bg, w, []float64{-3, 0.25})
	require.NoError(t, err)
	require.Equal(t, 0x3p-30, gap, "the steps of the tilt: three terms, 2⁻³⁰ each")
	require.Equal(t, []float64{-1, 1}, w)
	stopped := bracket{Solution{W: []int{1, 0}, Objective: 2, Lower: 1.5}, ErrLimit}
	gap, err = (&latticeMinimizer{problem: p, oracle: stopped, gap: 0.5 + 0x3p-30}).Minimize(bg, w, []float64{0, 0})
	require.NoError(t, err)
	require.Equal(t, 0.5+0x3p-30, gap)
	require.Equal(t, []float64{1, 0}, w)
	_, err = (&latticeMinimizer{problem: p, oracle: stopped, gap: 0.4}).Minimize(bg, w, []float64{0, 0})
	require.ErrorIs(t, err, ErrLimit)
	stopped.err = nil
	gap, err = (&latticeMinimizer{problem: p, oracle: stopped}).Minimize(bg, w, []float64{0, 0})
	require.NoError(t, err)
	require.Equal(t, 0.5+0x3p-30, gap, "the caller compares")
	stopped.err = ErrInterrupted // time: not a function of the records
	_, err = (&latticeMinimizer{problem: p, oracle: stopped, gap: 9}).Minimize(bg, w, []float64{0, 0})
	require.ErrorIs(t, err, ErrInterrupted)
	stopped = bracket{Solution{W: []int{7, 0}, Proven: true}, nil}
	_, err = (&latticeMinimizer{problem: p, oracle: stopped}).Minimize(bg, w, []float64{0, 0})
	require.Error(t, err)
	_, err = (&latticeMinimizer{problem: p, oracle: Search{}}).Minimize(bg, w, []float64{math.Inf(1), 0})
	require.ErrorIs(t, err, ErrProblem)
}

// TestSampFormulas: calls, noise and bounds of OPSamp.
func TestSampFormulas(t *testing.T) {
	q := sampPublic{
		Dim:       3,
		Diameter:  2,
		Lipschitz: 0.5,
		Records:   5000,
		Convex:    true,
		Gap:       0.01,
		Budget:    dp.Budget{Epsilon: 0.8, Delta: 1e-6},
	}
	for rel, kappa := range map[dp.Relation]float64{dp.Replace: 2, dp.AddRemove: 1} {
		for _, slack := range []float64{0, 1e-3, 0.3, 5} {
			for _, rate := range []float64{0, 1e-3} {
				p, err := sampled(OPSamp{Relation: rel, Slack: slack, Rate: rate}, q)
				require.NoError(t, err)
				s := slack
				if s == 0 {
					s = 1
				}
				// S from the formula.
				stable := math.Min(6, leastOf(func(factor float64) float64 {
					c := kappa * 0.5 * 3 * factor
					e := math.Exp(-p.params.Rate * c)
					return (-math.Expm1(-p.params.Rate*c)*6 + 3*0.01*3*e/c) / (1 - e/factor)
				}))
				require.InEpsilon(t, stable, p.params.Stability, 3e-6)
				require.GreaterOrEqual(t, p.params.Stability, stable*(1-1e-9))
				require.InEpsilon(t, (1+s)*p.params.Stability/0.8, p.params.Scale, 2e-9) // λ/ε
				require.Greater(t, p.params.Scale, (1+s)*p.params.Stability/0.8)
				h := (1+s)*math.Log1p(s) - s
				calls := 3 * (2 + math.Ldexp(1, p.params.Exponent)) / p.params.Stability * 6 * math.Ln10 / h
				require.GreaterOrEqual(t, float64(p.params.Calls), calls*(1-1e-12))
				require.Less(t, float64(p.params.Calls), calls*(1+1e-5)+1)
				require.InEpsilon(t, 6/p.params.Rate+0.01+5000*0.5*3*(1+s)*p.params.Stability/0.8, p.params.ExcessBound, 1e-5)
				require.InEpsilon(t, 5000*0.5*3*2., p.params.TrivialBound, 1e-14)
				if rate > 0 {
					require.Equal(t, rate, p.params.Rate)
					continue
				}
				for _, f := range []float64{0.5, 0.9, 1.1, 2, 50, 1. / 50} { // no rate is better
					other, err := sampled(OPSamp{Relation: rel, Slack: slack, Rate: f * p.params.Rate}, q)
					require.NoError(t, err)
					require.GreaterOrEqual(t, other.params.ExcessBound, p.params.ExcessBound*(1-1e-6))
				}
			}
		}
	}
	for _, c := range []struct {
		m  OPSamp
		ok bool
	}{
		{OPSamp{Slack: 1e-6 * (1 - 1e-9)}, false}, {OPSamp{Slack: 1e6}, true}, {OPSamp{Slack: 1e6 * (1 + 1e-9)}, false},
		{OPSamp{Slack: 0.01}, true},
		{OPSamp{Rate: 0x1p-301}, false}, {OPSamp{Rate: 0x1p301}, false}, {OPSamp{Rate: 0x1p299}, true},
		{OPSamp{Rate: -1}, false},
	} {
		_, err := sampled(c.m, q)
		require.Equal(t, c.ok, err == nil, "%+v: %v", c.m, err)
	}
	for i, edit := range []func(q *sampPublic){
		func(q *sampPublic) { q.Dim = 0 }, func(q *sampPublic) { q.Dim = maxDim + 1 },
		func(q *sampPublic) { q.Diameter = 0x1p-101 },
		func(q *sampPublic) { q.Diameter = 0x1p101 },
		func(q *sampPublic) { q.Lipschitz = 0x1p-101 }, func(q *sampPublic) { q.Gap = -1e-9 },
		func(q *sampPublic) { q.Gap = 0x1p101 },
		func(q *sampPublic) { q.Records = -1 },
		func(q *sampPublic) { q.Records = 0 }, func(q *sampPublic) { q.Budget.Delta = 0 },
	} {
		r := q
		edit(&r)
		_, err := sampled(OPSamp{}, r)
		require.Error(t, err, i)
	}
	for i, edit := range []func(q *sampPublic){
		func(q *sampPublic) { q.Dim = 1 }, func(q *sampPublic) { q.Diameter = 0x1p-100 },
		func(q *sampPublic) { q.Lipschitz = 0x1p100 },
		func(q *sampPublic) { q.Gap = 0 }, func(q *sampPublic) { q.Gap = 0.5 }, func(q *sampPublic) { q.Records = 1 },
	} {
		r := q
		edit(&r)
		m := r.in(OPSamp{Relation: dp.Replace, Slack: 1, Rate: 1})
		require.NoError(t, m.check(r.Budget), i)
	}
	r := q
	r.Records = 0
	p, err := sampled(OPSamp{Rate: 1}, r)
	require.NoError(t, err)
	require.Zero(t, p.params.ExcessBound)
}

// Releases of OPSamp are integers over a public number, of every residue alike, on
// one data set and on its neighbor: no low bit tells them apart. The control is
// the sum of floats that it once was.
func TestOPSampGrid(t *testing.T) {
	pl, err := sampled(OPSamp{Rate: 0.25, Slack: 5},
		sampPublic{Dim: 1, Diameter: 1, Lipschitz: 0.01, Budget: dp.Budget{Epsilon: 1, Delta: 0.1}})
	require.NoError(t, err)
	q := pl.Params()
	const n = 20_000
	for i, at := range []float64{1. / 3, 0.7} {
		src := sample.Reproducible(30, fmt.Sprint(i))
		counts := [3][]int{make([]int, 2), make([]int, 4), make([]int, 8)}
		off := 0 // releases of the float sum that are no integer of the grid
		for range n {
			rel, err := pl.Fit(bg, minimizerFunc(func(w, _ []float64) (float64, error) { w[0] = at; return 0, nil }), src)
			require.NoError(t, err)
			k := math.Round(math.Ldexp(rel.Theta[0]*float64(q.Calls), -q.Exponent))
			require.Equal(t, rel.Theta[0], math.Ldexp(k, q.Exponent)/float64(q.Calls), "an integer over m/g")
			for b := range counts {
				counts[b][uint64(int64(k))%uint64(len(counts[b]))]++
			}
			laplace := q.Scale * (sample.Exponential(src) - sample.Exponential(src)) // a float64
			if old := math.Ldexp((at+laplace)*float64(q.Calls), -q.Exponent); old != math.Trunc(old) {
				off++
			}
		}
		require.Greater(t, off, n/2)
		for _, c := range counts {
			want := make([]float64, len(c))
			for r := range want {
				want[r] = 1 / float64(len(c))
			}
			_, p := testkit.ChiSquare(c, want)
			require.Greater(t, p, testkit.FalseReject)
		}
	}
}
