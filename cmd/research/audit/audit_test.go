// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package audit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/qop"
	"github.com/privopt/privopt/randmat"
	"github.com/privopt/privopt/sco"
)

// TestQuick measures every mechanism: each claim holds, with the power that its layer promises. A
// correct module fails with probability 1e-6 a case. Without PRIVOPT_LONG it runs one case of each
// layer of every mechanism.
func TestQuick(t *testing.T) {
	list := Select(nil, Quick)
	switch {
	case testing.Short(): // the race detector looks for races, not for laws
		list = testkit.Every(9, list)
	case !testkit.Long():
		list = slices.DeleteFunc(representatives(list), func(r Result) bool {
			return r.Mechanism == "discover" // all of its cases are in TestDiscovery
		})
	}
	require.NoError(t, Run(t.Context(), list, Quick, 1, func() {}))
	for _, r := range list {
		if r.Err != nil {
			t.Error(r.Err)
			continue
		}
		name, p := r.Worst()
		if v := r.Verdict(); v != Holds {
			t.Errorf("%s: %s (%s p = %.2g, exact ε %.4g, ε_LB %.4g, claimed %v, power %.3g) %s",
				r.Full(), v, name, p, r.Exact, r.Lower, r.Claim, r.Power, r.Reason)
		}
		require.NoError(t, dp.Certificate{Budget: r.Claim, Relation: r.Relation, Theorem: r.Theorem}.Check(), r.Full())
	}
}

// TestControls shows that every sabotage is caught on the production path and reaches its step.
// Without PRIVOPT_LONG it runs every eighth.
func TestControls(t *testing.T) {
	start := time.Now()
	list := testkit.Every(8, Controls())
	results, err := Sabotage(t.Context(), list, 1, func() {})
	require.NoError(t, err)
	for i, r := range results {
		if r.Err != nil {
			t.Errorf("%s: %v", list[i].Name, r.Err)
		} else if r.Verdict() != Violated {
			t.Errorf("%s survives %s", list[i].Name, list[i].Case)
		}
	}
	t.Logf("%d controls in %v", len(list), time.Since(start))
}

// representatives returns the first case of every mechanism and layer.
func representatives(list []Result) (few []Result) {
	seen := map[string]bool{}
	for _, r := range list {
		if key := r.Mechanism + string(r.Layer); !seen[key] {
			seen[key] = true
			few = append(few, r)
		}
	}
	return few
}

// TestPower shows that an error of 5 % in the scale on the production path is seen in either
// direction for each of four seeds (one without PRIVOPT_LONG), and that correct noise passes.
// TestScorePower measures the probability 0.99 on scores.
func TestPower(t *testing.T) {
	if testing.Short() {
		t.Skip("36 audits")
	}
	run := func(name string, ctx context.Context, seed uint64) Verdict {
		for _, r := range Select(nil, Quick) {
			if r.Full() == name {
				r.measure(ctx, Quick, seed, 0)
				require.NoError(t, r.Err)
				return r.Verdict()
			}
		}
		t.Fatal(name)
		return ""
	}
	for seed := range testkit.Of[uint64](1, 4) {
		for _, s := range []float64{0.95, 1, 1.05} {
			want := Violated
			if s == 1 {
				want = Holds
			}
			ctx := louder(s)(flatter(s)(t.Context()))
			for _, name := range []string{"lop/A1/logistic, d = 5", "qop/A3/least squares", "qop/A2/least squares, d = 5"} {
				require.Equal(t, want, run(name, ctx, seed), "%s, scale %v, seed %d", name, s, seed)
			}
		}
	}
}

// TestReferences compares the scales of plans with the closed forms of their theorems.
func TestReferences(t *testing.T) {
	for _, c := range []struct {
		name        string
		calibration lop.Calibration
		data        [2][]record
		delta       float64
		scale       func(p lop.Params, eps, delta, g float64) (sigma, rate float64)
	}{
		{"kifer", lop.Kifer, opposite(), 0.01, func(_ lop.Params, eps, delta, g float64) (float64, float64) {
			return g * math.Sqrt(8*math.Log(2/delta)+4*eps) / eps, 0
		}},
		{"pure kifer", lop.Kifer, opposite(), 0, func(_ lop.Params, eps, _, g float64) (float64, float64) {
			return 0, eps / (2 * g)
		}},
		{"pure cms11", lop.CMS11, opposite(), 0, func(p lop.Params, eps, _, g float64) (float64, float64) {
			return 0, (eps - 2*math.Log1p(p.Smoothness/p.Ridge)) / g
		}},
	} {
		r := withBudget(logistic(lop.Mechanism{Calibration: c.calibration}, c.data), 1, c.delta)
		require.NoError(t, r.prepare(t.Context(), &env{tier: Quick, name: c.name}))
		sigma, rate := c.scale(r.Params, 0.99, 0.99*c.delta, r.shift())
		require.InDelta(t, sigma, r.Sigma, 1e-6*sigma, c.name)
		require.InDelta(t, rate, r.Rate, 1e-6*rate, c.name)
	}
	for _, data := range [][2][]record{opposite(), present()} {
		r := outputs(data)
		require.NoError(t, r.prepare(t.Context(), &env{tier: Quick, name: "output"}))
		want := gaussianScale(usual, r.shift()/ridge+2*cover)
		require.InEpsilon(t, want, r.OutputSigma, 1e-5)
		require.GreaterOrEqual(t, r.OutputSigma, want)
	}
}

// TestVerdict maps findings to verdicts.
func TestVerdict(t *testing.T) {
	claim := Claimed(dp.Certificate{Budget: dp.Budget{Epsilon: 1, Delta: 0.01}, Relation: dp.Replace, Theorem: "x.y/1"})
	require.Equal(t, Blind, claim.Verdict(), "nothing measured")
	claim.Runs = 100
	for _, c := range []struct {
		name string
		edit func(f *Finding)
		want Verdict
	}{
		{"nothing", func(*Finding) {}, Holds},
		{"weak", func(f *Finding) { f.Power, f.Least = 0.98, 0.99 }, Blind},
		{"unknown power", func(f *Finding) { f.Power, f.Least = math.NaN(), 0.5 }, Blind},
		{"unknown and unasked", func(f *Finding) { f.Power = math.NaN() }, Holds},
		{"reason", func(f *Finding) { f.Reason = "because" }, Violated},
		{"lower", func(f *Finding) { f.Lower = 1.1 }, Violated},
		{"lower below", func(f *Finding) { f.Lower = 0.9 }, Holds},
		{"lower above exact", func(f *Finding) { f.Lower, f.Exact = 0.5, 0.4 }, Violated},
		{"exact", func(f *Finding) { f.Exact = 1.001 }, Violated},
		{"exact within its accuracy", func(f *Finding) { f.Exact, f.Tolerance = 1.001, 2e-3 }, Holds},
		{"infinite", func(f *Finding) { f.Exact = math.Inf(1) }, Violated},
		{"profile", func(f *Finding) { f.Profile = []Point{{1, 0.01, 0.005}, {2, 1e-4, 2e-4}} }, Violated},
		{"profile that is no number", func(f *Finding) { f.Profile = []Point{{1, 0.01, math.NaN()}} }, Violated},
		{"profile without a claim", func(f *Finding) { f.Profile = []Point{{1, math.NaN(), 0.01}} }, Violated},
		{"tests", func(f *Finding) { f.Tests = []Test{{Name: "a", P: 0.5}, {Name: "b", P: 4e-7}} }, Violated},
		{"as many tests", func(f *Finding) { f.Tests = []Test{{Name: "a", P: 0.5}, {Name: "b", P: 6e-7}} }, Holds},
		{"NaN", func(f *Finding) { f.Tests = []Test{{Name: "a", P: math.NaN()}} }, Violated},
	} {
		f := claim
		c.edit(&f)
		require.Equal(t, c.want, f.Verdict(), c.name)
	}
}

// A certificate that states less than the requested budget is a violation for any noise, because a
// case measures the noise for the requested budget.
func TestFalseClaim(t *testing.T) {
	asked := dp.Budget{Epsilon: 1, Delta: 0.01}
	honest := dp.Certificate{Budget: asked, Relation: dp.Replace, Theorem: "x.y/1"}
	require.NoError(t, asFor(honest, asked, dp.Replace))
	for _, edit := range []func(c *dp.Certificate){
		func(c *dp.Certificate) { c.Epsilon = 0.5 },
		func(c *dp.Certificate) { c.Delta = 0 },
		func(c *dp.Certificate) { c.Epsilon = math.NaN() },
		func(c *dp.Certificate) { c.Relation = dp.AddRemove },
	} {
		c := honest
		edit(&c)
		r := Result{Case: Case{Name: "claim", run: func(context.Context, *env) (Finding, error) {
			return Finding{}, fmt.Errorf("wrapped: %w", asFor(c, asked, dp.Replace))
		}}}
		r.measure(t.Context(), Quick, 1, 0)
		require.NoError(t, r.Err)
		require.Equal(t, Violated, r.Verdict(), c)
		require.Contains(t, r.Reason, "asked for")
	}
	more := honest
	more.Epsilon = 2
	require.NoError(t, asFor(more, asked, dp.Replace), "claims more than it needs")
}

func TestEpsilonAt(t *testing.T) {
	for _, s := range []float64{0.1, 1, 5} {
		eps := epsilonAt(func(eps float64) float64 { return dp.GaussianDelta(eps, s) }, 1e-3)
		require.InEpsilon(t, 1e-3, dp.GaussianDelta(eps, s), 1e-6)
		require.InEpsilon(t, gaussianScale(dp.Budget{Epsilon: eps, Delta: 1e-3}, 1), 1/s, 1e-6)
	}
	require.Zero(t, epsilonAt(func(float64) float64 { return 0.1 }, 0.2))
	require.Equal(t, math.Inf(1), epsilonAt(func(float64) float64 { return 0.1 }, 0.01))
}

// The scores of Wishart matrices are standard normal, and a matrix that is not positive is
// impossible.
func TestBartlettScores(t *testing.T) {
	const d, m, n = 4, 9, 4000
	src := noise.Reproducible(2)
	z := make([][]float64, n)
	frame := around([]float64{1, -2, 0.5, 3})
	for i := range z {
		w := mat.NewSymDense(d, nil)
		require.NoError(t, randmat.Wishart(w, m, src))
		var err error
		z[i], err = bartlett(w, frame, m)
		require.NoError(t, err)
	}
	for _, test := range scoreTests(z) {
		require.Greater(t, test.P, testkit.FalseReject/6, test)
	}
	_, err := bartlett(mat.NewSymDense(2, []float64{1, 2, 2, 1}), around([]float64{1, 0}), 5)
	require.ErrorIs(t, err, errImpossible)
}

// TestTruncated draws from intervals in the middle and in the tails.
func TestTruncated(t *testing.T) {
	src := noise.Reproducible(3)
	for _, c := range [][2]float64{{-1, 2}, {8, 9}, {-12, -10}, {math.Inf(-1), -6}, {3, math.Inf(1)}, {0, 0.001}} {
		var z [][]float64
		p := math.Log(mass(c[0], c[1]))
		for range 2000 {
			x := truncated(c[0], c[1], 1, src)
			require.True(t, x >= c[0] && x <= c[1], c)
			u := math.Exp(math.Log(mass(c[0], x)) - p) // conditional distribution function
			z = append(z, []float64{normalScore(u, 1-u)})
		}
		for _, test := range scoreTests(z) {
			require.Greater(t, test.P, testkit.FalseReject/6, "%v: %v", c, test)
		}
	}
}

// mass returns P(a ≤ N ≤ b), from the side where it is small.
func mass(a, b float64) float64 {
	if a > 0 {
		return mass(-b, -a)
	}
	half := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
	return half(b) - half(a)
}

// Cases and controls have unique names, known pairs and layers; a control that tests nothing is an
// error.
func TestRegistry(t *testing.T) {
	seen := map[string]bool{}
	pairs := map[string]bool{}
	for _, r := range Select(nil, Long) {
		require.False(t, seen[r.Full()], "%s is there twice", r.Full())
		seen[r.Full()] = true
		require.True(t, r.Pair == "" || Pairs[r.Pair] != "", r.Full())
		require.True(t, r.run != nil && r.Layer != "", r.Full())
		pairs[r.Pair] = true
	}
	for pair := range Pairs {
		require.True(t, pairs[pair], pair)
	}
	names := map[string]bool{}
	for _, c := range Controls() {
		require.False(t, names[c.Name], "control %s is there twice", c.Name)
		names[c.Name] = true
		require.True(t, seen[c.Case], "%s: %s", c.Name, c.Case)
	}
	require.Equal(t, Tiers, []string{Quick.String(), CI.String(), Long.String()})

	c := Control{Name: "lost", Case: "lop/nowhere", sabotage: louder(1)}
	require.ErrorContains(t, c.run(t.Context(), 1).Err, "does not exist")
	c = Control{Name: "idle", Case: "lop/A1/logistic cover", sabotage: fewer, runs: 100}
	require.ErrorContains(t, c.run(t.Context(), 1).Err, "never reaches")
	c = Control{Name: "withheld", Case: "opdisc/A1/radial", sabotage: one(fault.Certified, always(false)), runs: 100}
	require.ErrorIs(t, c.run(t.Context(), 1).Err, dp.ErrWithheld)
}

// Equal seeds give equal numbers, and a cancelled run returns an error.
func TestRun(t *testing.T) {
	var all [2][]Result
	for i := range all {
		all[i] = testkit.Every(4, Select([]string{"lop-output"}, Quick))
		require.Greater(t, len(all[i]), 1)
		done := 0
		require.NoError(t, Run(t.Context(), all[i], Quick, 7, func() { done++ }))
		require.Equal(t, len(all[i]), done)
	}
	for i, r := range all[0] {
		require.Equal(t, r.Tests, all[1][i].Tests)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	list := Select(nil, Quick)
	require.ErrorIs(t, Run(ctx, list, Quick, 1, func() {}), context.Canceled)
	require.Empty(t, list[0].Tests)

	e := &env{tier: CI, name: "x"}
	require.Equal(t, []int{100_000, 200_000, 50_000, 20_000},
		[]int{e.runs(WhiteBox), e.runs(BlackBox), e.rows(2), e.rows(50)})
	boom := errors.New("boom")
	score := func(context.Context, rand.Source) ([]float64, error) { return nil, boom }
	_, err := recovered(t.Context(), e, dp.Certificate{}, 200, score)
	require.ErrorIs(t, err, boom)
	_, err = recovered(t.Context(), e, dp.Certificate{}, 0, score)
	require.ErrorContains(t, err, "no scores")
	_, err = distinguish(t.Context(), e, dp.Certificate{}, 200, 1,
		func(_ context.Context, _ int, src rand.Source) ([]float64, error) { return score(t.Context(), src) })
	require.ErrorIs(t, err, boom)
	_, err = recovered(ctx, e, dp.Certificate{}, 200, score)
	require.ErrorIs(t, err, context.Canceled)
	_, err = distinguish(ctx, e, dp.Certificate{}, 200, 1, nil)
	require.ErrorIs(t, err, context.Canceled)
}

// has recognizes the values of the ziggurat generator, and not those of package noise.
func TestZiggurat(t *testing.T) {
	src := noise.Reproducible(5)
	rnd, x := rand.New(src), make([]float64, 20_000)
	for range x {
		if v := rnd.NormFloat64(); math.Abs(v) < lattice.edge[1] { // not of the tail
			require.True(t, lattice.has(v, 0))
		}
	}
	noise.Normal(x, 1, src)
	hits := 0
	for _, v := range x {
		if lattice.has(v, 0) {
			hits++
		}
	}
	require.LessOrEqual(t, hits, 16) // P(Poisson(2.4) > 16) < 1e-6
}

// A setting that the library refuses makes its case return an error; an unknown kind panics.
func TestRefused(t *testing.T) {
	e := &env{tier: Quick, name: "x"}
	bad := logistic(lop.Mechanism{}, opposite())
	bad.budget.Epsilon = -1
	require.ErrorIs(t, bad.prepare(t.Context(), e), dp.ErrBudget)
	quad := squares(qop.Mechanism{})
	quad.budget.Delta = 2
	require.ErrorIs(t, quad.prepare(t.Context(), e), dp.ErrBudget)
	sgd := gradients(sco.Poisson, dp.Replace, 2, 3)
	sgd.budget.Epsilon = -1
	require.ErrorIs(t, sgd.prepare(t.Context(), e), dp.ErrBudget)
	_, err := cases(linearKinds, []setting[linear]{{"bad", "A1", "white", bad}})[0].run(t.Context(), e)
	require.ErrorIs(t, err, dp.ErrBudget)
	misspelt := []setting[linear]{{"bad", "A1", "whit", nil}}
	require.Panics(t, func() { cases(linearKinds, misspelt) })
}
