// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/dp/ledger"
	"github.com/privopt/privopt/internal/linear"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/table"
)

type goldenDiscovery struct {
	Discover []struct {
		Relation                  dp.Relation
		Columns, Keyed            int
		Epsilon, Delta, Share     string
		Mu, MuDiscovery           string
		SigmaKind, SigmaKeys      string
		Threshold                 int
		Q, ProbabilityAtThreshold string
		ProbabilityBelow          string
	}
	Profile []struct {
		Relation      dp.Relation
		Keyed         int
		S, Q, Epsilon string
		Exact, Bound  string
	}
	Weights []struct {
		Sigma, Threshold, LeastWeight string
		One, Many, Worst              string
	}
	Sequence []struct {
		Relation              dp.Relation
		Monotone              bool
		Epsilon, Delta, Share string
		C, Mu, MuDiscovery, S string
	}
}

func readGoldenDiscovery(t *testing.T) (g goldenDiscovery) {
	raw, err := os.ReadFile("testdata/discover.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &g))
	return g
}

func float(t *testing.T, s string) float64 {
	v, err := strconv.ParseFloat(s, 64)
	require.NoError(t, err)
	return v
}

// TestDiscoveryGolden compares μ, the noise and the thresholds with those of mpmath.
func TestDiscoveryGolden(t *testing.T) {
	g := readGoldenDiscovery(t)
	require.Len(t, g.Discover, 8)
	for _, row := range g.Discover {
		b := dp.Budget{Epsilon: float(t, row.Epsilon), Delta: float(t, row.Delta)}
		pl, err := newDiscovery(row.Columns, 30000, b, &Options{Relation: row.Relation})
		require.NoError(t, err)
		require.NoError(t, pl.alone())
		mu := float(t, row.Mu)
		require.LessOrEqual(t, pl.t, mu*(1+1e-15))
		require.InEpsilon(t, mu, pl.t, 1e-9)
		pl.t *= math.Sqrt(float(t, row.Share)) // as if the rest were one Gaussian release
		atLeast := func(want string, got float64) {
			require.GreaterOrEqual(t, got, float(t, want))
			require.InEpsilon(t, float(t, want), got, 1e-6)
		}
		atLeast(row.SigmaKind, pl.kindSigma(nil))
		sigma := pl.sensitivity(nil) / pl.part(1, float64(row.Columns)) * release.SafeScale
		atLeast(row.SigmaKeys, sigma)
		q := pl.q / float64(row.Keyed)
		require.InEpsilon(t, float(t, row.Q), q, 1e-12)
		require.Equal(t, row.Threshold, threshold(sigma, q, 1, 1))
		passes := func(at int) float64 { return num.NormalCDF(-(float64(at) - 1.5) / sigma) }
		require.InEpsilon(t, float(t, row.ProbabilityAtThreshold), passes(row.Threshold), 1e-6)
		require.InEpsilon(t, float(t, row.ProbabilityBelow), passes(row.Threshold-1), 1e-6)
		require.Greater(t, passes(row.Threshold-1), q)
	}
	for _, row := range g.Profile {
		pl := &DiscoveryPlan{q: 1 - math.Pow(1-float(t, row.Q), float64(row.Keyed)), t: float(t, row.S)}
		if row.Keyed*len(row.Q) > 0 && pl.q < 1e-6 {
			pl.q = float64(row.Keyed) * float(t, row.Q)
		}
		pl.cert.Theorem = theoremDiscover
		got := pl.Profile().Remove(float(t, row.Epsilon))
		require.GreaterOrEqual(t, got, float(t, row.Exact))
		require.InEpsilon(t, float(t, row.Bound), got, 1e-6)
	}
}

// hidden and shown are the exact law of one spelling with a count: it is hidden, or shown with a
// noisy count.
func spellingLaw(count int, sigma float64, threshold int) []float64 {
	const span = 40
	law := make([]float64, 1+span)
	if count == 0 {
		law[0] = 1
		return law
	}
	at := func(v float64) float64 { return num.NormalCDF((v - float64(count)) / sigma) }
	law[0] = at(float64(threshold) - 0.5)
	for k := range span {
		v := float64(threshold + k)
		law[1+k] = at(v+0.5) - at(v-0.5)
	}
	return law
}

// TestUnknownSpellings compares the claim for unknown spellings with the exact hockey-stick
// divergence of small tables, in both orders, at 200 ε. A threshold one below fails where own
// spellings decide.
func TestUnknownSpellings(t *testing.T) {
	const sigma = 2
	exact := func(pairs [][2]int, least int, eps []float64) []float64 {
		p, q := []float64{1}, []float64{1}
		for _, c := range pairs {
			a, b := spellingLaw(c[0], sigma, least), spellingLaw(c[1], sigma, least)
			var np, nq []float64
			for i := range p {
				for j := range a {
					if x, y := p[i]*a[j], q[i]*b[j]; x > 1e-16 || y > 1e-16 {
						np, nq = append(np, x), append(nq, y)
					}
				}
			}
			p, q = np, nq
		}
		out := make([]float64, len(eps))
		for k, e := range eps {
			for i := range p {
				out[k] += max(0, p[i]-math.Exp(e)*q[i])
			}
		}
		return out
	}
	eps := make([]float64, 200)
	for i := range eps {
		eps[i] = float64(i) / 50
	}
	tightest, broken := 0.0, false
	for _, c := range []struct {
		columns int
		delta   float64
		pairs   [][2]int
	}{
		{2, math.Sqrt2, [][2]int{{6, 5}, {3, 4}, {1, 0}, {0, 1}}}, // one column common, one own
		{2, math.Sqrt2, [][2]int{{1, 0}, {0, 1}, {1, 0}, {0, 1}}},
		{2, math.Sqrt2, [][2]int{{8, 7}, {7, 8}, {5, 4}, {9, 10}}},
		{2, 1, [][2]int{{7, 6}, {1, 0}}},
		{2, 1, [][2]int{{6, 7}, {0, 1}}},
		{1, math.Sqrt2, [][2]int{{1, 0}, {6, 7}}},
	} {
		for _, swap := range []bool{false, true} {
			pairs := make([][2]int, len(c.pairs))
			for i, p := range c.pairs {
				if pairs[i] = p; swap {
					pairs[i] = [2]int{p[1], p[0]}
				}
			}
			one := num.NormalCDF(-(8 - 1.5) / sigma)
			pl := &DiscoveryPlan{t: c.delta * math.Sqrt(float64(c.columns)) / sigma,
				q: 1 - math.Pow(1-one, float64(c.columns)), cert: dp.Certificate{Theorem: theoremDiscover}}
			claim := pl.Profile().Remove
			got, lower := exact(pairs, 8, eps), exact(pairs, 3, eps)
			for i, e := range eps {
				require.LessOrEqual(t, got[i], claim(e)*(1+1e-9), "%v at ε = %v", pairs, e)
				tightest = max(tightest, got[i]/claim(e))
				broken = broken || lower[i] > claim(e)
			}
		}
	}
	require.Greater(t, tightest, 0.99)
	require.True(t, broken, "the threshold T − 5 would go unnoticed")
}

// TestCurveAfterSearch compares the composition by curves with the exact profile of a Gaussian
// release and a randomized response.
func TestCurveAfterSearch(t *testing.T) {
	const eps0, shift = 0.4, 0.12
	p := dp.Symmetric(dp.PureCurve(eps0), nil)
	for _, e := range []float64{0.3, 0.5, 0.7} {
		truth := math.Exp(eps0) / (1 + math.Exp(eps0))
		delta := truth*dp.GaussianDelta(e-eps0, shift) + (1-truth)*dp.GaussianDelta(e+eps0, shift)
		require.LessOrEqual(t, largestSearch(p, dp.AddRemove, dp.Budget{Epsilon: e, Delta: delta}, shift), shift)
		require.GreaterOrEqual(t, largestSearch(p, dp.AddRemove, dp.Budget{Epsilon: e, Delta: 1.05 * delta}, shift), shift,
			"the cells of the integral cost more than they should at the kinks of this curve")
	}
	require.Zero(t, largestSearch(p, dp.AddRemove, dp.Budget{Epsilon: 0.3, Delta: 1e-9}, shift))
}

// TestSequenceGolden compares μ of a search followed by one minimizer with mpmath.
func TestSequenceGolden(t *testing.T) {
	g := readGoldenDiscovery(t)
	require.Len(t, g.Sequence, 8)
	for _, row := range g.Sequence {
		share, delta := float(t, row.Share), float(t, row.Delta)
		b := dp.Budget{Epsilon: math.Round(float(t, row.Epsilon)*1e6) / 1e6, Delta: delta}
		pl := &DiscoveryPlan{q: keyShare * delta, budget: b}
		rest, err := pl.rest()
		require.NoError(t, err)
		at := func(mu float64) linear.Sequence {
			return linear.Sequence{Relation: row.Relation, Monotone: row.Monotone, C: []float64{float(t, row.C)},
				S: []float64{math.Sqrt(1-share) * mu}, T: math.Sqrt(share) * mu}
		}
		mu, err := linear.LargestShift(rest, 0, at)
		require.NoError(t, err)
		require.InEpsilon(t, float(t, row.Mu), mu, 1e-6)
		require.LessOrEqual(t, mu, float(t, row.Mu)*(1+1e-9))
	}
}

// madeUp returns a table of n lines of an age, a city, an identifier and a label.
func madeUp(n int, rnd *rand.Rand) string {
	var b strings.Builder
	b.WriteString("age,city,ref,y\n")
	for i := range n {
		age, y := 20+rnd.IntN(40), "no"
		if rnd.IntN(60) < age-10 {
			y = "yes"
		}
		fmt.Fprintf(&b, "%d,%s,u%d,%s\n", age, []string{"Rome", "Oslo", "Bern"}[rnd.IntN(3)], i, y)
	}
	return b.String()
}

func undeclared(t testing.TB, text string) *table.Undeclared {
	u, err := table.Discovery{Label: table.Label{Column: "y"}}.Read(strings.NewReader(text))
	require.NoError(t, err)
	return u
}

// TestDiscover finds ranges, levels and the label of a made-up table, and the schema can be read
// again.
func TestDiscover(t *testing.T) {
	u := undeclared(t, madeUp(20000, rand.New(rand.NewPCG(1, 1))))
	b := dp.Budget{Epsilon: 1, Delta: 1e-8}
	for _, r := range []dp.Relation{dp.Replace, dp.AddRemove} {
		s, err := Discover(t.Context(), u, b, &Options{Relation: r, Source: dp.Seeded(2)})
		require.NoError(t, err)
		require.Empty(t, s.Discovery.Problem)
		require.Contains(t, s.Discovery.Assumptions, dp.CallerSource)
		require.Len(t, s.Columns, 3)
		require.InDelta(t, 20, *s.Columns[0].Min, 3)
		require.InDelta(t, 60, *s.Columns[0].Max, 3)
		require.GreaterOrEqual(t, len(s.Columns[0].Bins), 5)
		require.ElementsMatch(t, []string{"Rome", "Oslo", "Bern"}, s.Columns[1].Levels)
		require.True(t, s.Columns[2].Ignore)
		require.Contains(t, s.Discovery.Columns[2].Note, "an identifier")
		require.Equal(t, []string{"yes"}, s.Label.Positive)
		require.Equal(t, map[dp.Relation]int{dp.Replace: 20000, dp.AddRemove: 0}[r], s.Records)
		var text bytes.Buffer
		_, err = s.WriteTo(&text)
		require.NoError(t, err)
		require.NotContains(t, text.String(), `"u1`)
		again, err := table.ReadSchema(&text)
		require.NoError(t, err)
		require.Equal(t, s, again)
	}
}

// TestDiscoverOrder: with one seed, the order of the records changes nothing, and spellings of
// equal counts come in the order of their bytes.
func TestDiscoverOrder(t *testing.T) {
	lines := strings.SplitAfter(strings.TrimSpace(madeUp(3000, rand.New(rand.NewPCG(1, 1))))+"\n", "\n")
	b, o := dp.Budget{Epsilon: 5, Delta: 1e-6}, &Options{Source: dp.Seeded(9)}
	first, err := Discover(t.Context(), undeclared(t, strings.Join(lines, "")), b, o)
	require.NoError(t, err)
	rest := lines[1 : len(lines)-1]
	rand.New(rand.NewPCG(2, 2)).Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
	o.Source = dp.Seeded(9)
	second, err := Discover(t.Context(), undeclared(t, strings.Join(lines, "")), b, o)
	require.NoError(t, err)
	require.Equal(t, first, second)

	s := &searcher{pl: &DiscoveryPlan{t: 1e6, q: 1e-9, relation: dp.Replace}, src: dp.Seeded(1)}
	s.u = undeclared(t, "c,y\nb,1\na,1\nB,0\na,1\nb,1\nB,0\n"+strings.Repeat("z,1\n", 3)) // almost no noise
	var c table.DiscoveredColumn
	s.spellings(&c, 0, 1e6, 1)
	require.Equal(t, []string{"z", "B", "a", "b"}, c.Spellings)
	require.Equal(t, []int{3, 2, 2, 2}, c.Counts)
}

// TestEmptyDiscoveryPlan: nil and zero plans certify nothing and release nothing.
func TestEmptyDiscoveryPlan(t *testing.T) {
	u := undeclared(t, "a,y\n1,0\n")
	for _, pl := range []*DiscoveryPlan{nil, {}} {
		require.Zero(t, pl.Certificate())
		require.Equal(t, 1.0, pl.Profile().Delta(0.5))
		require.NotEmpty(t, pl.String())
		_, err := pl.Release(t.Context(), u, nil)
		require.ErrorIs(t, err, ErrOptions)
	}
}

// TestDiscoverTotal: every search over tables of hostile fields gives a schema that Check accepts,
// or tells the problem.
func TestDiscoverTotal(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	fields := []string{"", "?", "7", "-1e15", "-2", "1e400", "-Inf", "NaN", "nan", "0.1", "-0", "1e-320", "text", "\xff",
		"x y", strings.Repeat("z", 300), "0x10", "1_0", "é", "e\u0301", "123456789012345678"}
	checked := 0
	runs := 150
	if os.Getenv("PRIVOPT_LONG") != "" {
		runs = 5000
	}
	for run := range runs {
		var b strings.Builder
		b.WriteString("a,b,c,y\n")
		some := make([][]string, 4)
		for j := range some {
			for range 1 + rnd.IntN(4) {
				some[j] = append(some[j], fields[rnd.IntN(len(fields))])
			}
		}
		for range 1 + rnd.IntN(300) {
			if rnd.IntN(30) == 0 {
				b.WriteString("\n")
				continue
			}
			for j, list := range some {
				b.WriteString(list[rnd.IntN(len(list))] + map[bool]string{true: "\n", false: ","}[j == 3])
			}
		}
		eps := math.Exp(6*rnd.Float64() - 3)
		s, err := Discover(t.Context(), undeclared(t, b.String()), dp.Budget{Epsilon: eps, Delta: 1e-5},
			&Options{Relation: dp.AddRemove, Source: dp.Seeded(uint64(run))})
		require.NoError(t, err)
		if s.Discovery.Problem == "" {
			checked++
			require.NoError(t, s.Check(), b.String())
			_, err := undeclared(t, b.String()).Data(s) // no field is an error
			require.NoError(t, err)
		}
	}
	require.Greater(t, checked, runs/10)
}

// TestDiscoverShares: the thresholds show that the noise of columns uses 0.98 of T², that a label
// of numbers pays for both of its searches, and that all keyed columns share Q.
func TestDiscoverShares(t *testing.T) {
	u := undeclared(t, "x,c,y\n"+strings.Repeat("1,a,0\n2,b,1\n", 3000))
	pl, err := NewDiscoveryPlan(3, 6000, dp.Budget{Epsilon: 2, Delta: 1e-6}, nil)
	require.NoError(t, err)
	s, err := pl.Release(t.Context(), u, nil)
	require.NoError(t, err)
	want := threshold(math.Sqrt2/(pl.t*math.Sqrt(0.98/4))*release.SafeScale, min(1e-7/2, 1e-6/6000), 1, 1)
	require.Equal(t, want, s.Discovery.Columns[1].Threshold)
	require.Equal(t, want, s.Discovery.Columns[2].Threshold)
	sum := distinctShare
	for _, v := range roundShares {
		sum += v
	}
	require.LessOrEqual(t, sum, 1+1e-15)
}

// TestSequencePaysForSearch: the search, the minimizers and all other Gaussian releases of a fit of
// least squares together are within the budget.
func TestSequencePaysForSearch(t *testing.T) {
	for _, clip := range []float64{0.3, 0} { // one step and two
		o := &Options{Clip: clip, Penalty: Penalty{Lasso: 1e-6}, Discover: &Discovery{Task: Numbers, Share: 0.5}}
		pl, err := newFitPlan(6, 300000, dp.Budget{Epsilon: 1, Delta: 1e-8}, o)
		require.NoError(t, err)
		s := pl.fit.plan.params.Sequence
		w, square := s.Shares, s.Mu*s.Mu
		require.InDelta(t, 0.5*square, pl.t*pl.t, 1e-12)
		q := linear.Sequence{Relation: dp.Replace, C: []float64{s.C}, S: []float64{math.Sqrt(w.Last * square)}}
		gauss := w.Output
		require.Equal(t, clip == 0, s.TwoStep)
		if s.TwoStep {
			q.C, q.S = append(q.C, s.FirstC), append(q.S, math.Sqrt(w.First*square))
			gauss += w.Output + w.Labels + w.Residuals
		}
		q.T = math.Sqrt(gauss*square + pl.t*pl.t)
		remove, _ := q.Profile()
		rest, err := pl.rest()
		require.NoError(t, err)
		require.LessOrEqual(t, remove(rest.Epsilon), rest.Delta*(1+1e-9))
		require.Greater(t, remove(rest.Epsilon), 0.99*rest.Delta)
	}
}

// TestDiscoverTask: a label of text is no number, although no spelling of it was counted.
func TestDiscoverTask(t *testing.T) {
	u := undeclared(t, "a,y\n"+strings.Repeat("1,high\n2,low\n", 2000))
	s, err := Discover(t.Context(), u, dp.Budget{Epsilon: 2, Delta: 1e-6}, &Options{Discover: &Discovery{Task: Numbers}})
	require.NoError(t, err)
	require.Contains(t, s.Discovery.Problem, `the label "y" holds text, and the task needs numbers`)
	require.Empty(t, s.Discovery.Columns[1].Spellings)
}

// TestDiscoverRefuses: errors come from public numbers, before the ledger is charged.
func TestDiscoverRefuses(t *testing.T) {
	few := undeclared(t, madeUp(300, rand.New(rand.NewPCG(1, 1))))
	dir := t.TempDir()
	l, err := ledger.Create(filepath.Join(dir, "l"), ledger.Terms{Total: dp.Budget{Epsilon: 9, Delta: 1e-3},
		Relation: dp.Replace})
	require.NoError(t, err)
	b := dp.Budget{Epsilon: 0.1, Delta: 1e-6}
	_, err = Discover(t.Context(), few, b, &Options{Ledger: l})
	require.ErrorIs(t, err, dp.ErrCondition)
	require.ErrorContains(t, err, "with 300 records, 4 columns and ε = 0.1 a level would have to be in")
	_, _, err = FitUndeclared(t.Context(), few, b, &Options{Ledger: l, Discover: &Discovery{Task: TwoClasses}})
	require.ErrorIs(t, err, dp.ErrCondition)
	o := &Options{Discover: &Discovery{Task: TwoClasses}}
	_, err = newFitPlan(15, 1000, dp.Budget{Epsilon: 0.3, Delta: 1e-6}, o)
	require.ErrorContains(t, err, "with 1000 records, 15 columns and ε = 0.3 a level would have to be in 1373 records to "+
		"be seen. Declare columns, ignore some, or use ε ≥ 0.89")
	_, _, err = FitUndeclared(t.Context(), few, b, &Options{Ledger: l})
	require.ErrorContains(t, err, "needs the Task")
	_, err = Discover(t.Context(), few, dp.Budget{Epsilon: 1}, &Options{Ledger: l})
	require.ErrorContains(t, err, "needs δ > 0")
	_, _, err = FitUndeclared(t.Context(), few, dp.Budget{Epsilon: 50, Delta: 1e-6}, &Options{Ledger: l,
		Discover: &Discovery{Task: TwoClasses}, Intervals: &Intervals{}})
	require.ErrorContains(t, err, "intervals need a schema")
	require.Empty(t, l.Entries())
	s, err := Discover(t.Context(), few, dp.Budget{Epsilon: 8, Delta: 1e-6}, &Options{Ledger: l})
	require.NoError(t, err)
	require.Len(t, l.Entries(), 1)
	require.Equal(t, theoremDiscover, l.Entries()[0].Theorem)
	require.NotNil(t, s)
}

// TestFitPlanIsFixed: the numbers on which the guarantee depends are the same whatever schema is
// found, here of 3 to 60 parameters.
func TestFitPlanIsFixed(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	wide, narrow, none := strings.Builder{}, strings.Builder{}, strings.Builder{}
	for _, b := range []*strings.Builder{&wide, &narrow, &none} {
		b.WriteString("a,b,y\n")
	}
	for i := range 6000 {
		y := i % 2
		fmt.Fprintf(&wide, "%d,%c,%d\n", rnd.IntN(1000), 'a'+rune(rnd.IntN(20)), y)
		fmt.Fprintf(&narrow, "%d,u%d,%d\n", 7+i%3%2, i, y)
		fmt.Fprintf(&none, "u%d,u%d,%d\n", i, i, y)
	}
	for _, task := range []string{TwoClasses, Numbers} {
		o := &Options{Discover: &Discovery{Task: task}, Source: dp.Seeded(3)}
		b := dp.Budget{Epsilon: 2, Delta: 1e-7}
		a, _, err := FitUndeclared(t.Context(), undeclared(t, wide.String()), b, o)
		require.NoError(t, err)
		c, _, err := FitUndeclared(t.Context(), undeclared(t, narrow.String()), b, o)
		require.NoError(t, err)
		require.Greater(t, a.Params().Dim, c.Params().Dim+8)
		require.Equal(t, a.Params().Sequence, c.Params().Sequence)
		require.Equal(t, a.Certificate(), c.Certificate())
		require.Equal(t, theoremDiscover, a.Certificate().Theorem)
		require.Equal(t, b, a.Certificate().Budget)
		var file bytes.Buffer
		require.NoError(t, a.Save(&file))
		_, err = Load(&file)
		require.NoError(t, err)
		if task == Numbers {
			continue
		}
		_, s, err := FitUndeclared(t.Context(), undeclared(t, none.String()), b, o)
		require.ErrorIs(t, err, dp.ErrCondition)
		require.Contains(t, s.Discovery.Problem, "no column showed anything")
	}
}

// TestDiscoverAdult fits Adult without a schema and prints the mean accuracy. It needs PRIVOPT_DATA
// and PRIVOPT_LONG.
func TestDiscoverAdult(t *testing.T) {
	dir := os.Getenv("PRIVOPT_DATA")
	if dir == "" || os.Getenv("PRIVOPT_LONG") == "" {
		t.Skip("PRIVOPT_DATA and PRIVOPT_LONG are not both set")
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, "adult", name))
		require.NoError(t, err)
		return strings.TrimSpace(strings.ReplaceAll(string(text), "K.", "K")) + "\n"
	}
	const fields = "age,workclass,fnlwgt,education,education-num,marital-status,occupation,relationship,race,sex," +
		"capital-gain,capital-loss,hours-per-week,native-country,income"
	d := table.Discovery{File: table.File{Fields: strings.Split(fields, ","), Comment: "|"},
		Label: table.Label{Column: "income"}}
	u, err := d.Read(strings.NewReader(read("adult.data")))
	require.NoError(t, err)
	// At ε = 1 version 0.2.0 had 0.851. At ε = 3 docs/choosing.md says 85.8 %, rounded: ten fits have
	// 0.8579, and ten others had 0.8577.
	for eps, least := range map[float64]float64{1: 0.848, 3: 0.8575} {
		b := dp.Budget{Epsilon: eps, Delta: DefaultDelta(u.Records())}
		sum := 0.0
		for seed := range uint64(10) {
			o := &Options{Discover: &Discovery{Task: TwoClasses}, Source: dp.Seeded(seed)}
			m, _, err := FitUndeclared(t.Context(), u, b, o)
			require.NoError(t, err)
			s, err := m.ScoreCSV(strings.NewReader(read("adult.test")), table.Options{})
			require.NoError(t, err)
			sum += s.Accuracy / 10
		}
		t.Logf("ε = %v: mean accuracy %.4f", eps, sum)
		require.GreaterOrEqual(t, sum, least)
	}
}

// TestLevelsThatASearchFinds checks the table of docs/choosing.md: the share of records that a
// level needs, with 15 columns in a fit under replace.
func TestLevelsThatASearchFinds(t *testing.T) {
	epsilons := []float64{0.1, 0.3, 1, 3}
	for n, percents := range map[float64][]float64{1e3: {384, 137, 44.8, 16.5}, 1e4: {51.9, 18.2, 5.77, 2.07},
		1e5: {6.75, 2.33, 0.732, 0.259}, 1e6: {0.832, 0.285, 0.0888, 0.031}} {
		for i, want := range percents { // above 100 % the search is refused
			pl, err := newDiscovery(15, int(n), dp.Budget{Epsilon: epsilons[i], Delta: 1 / n / n}, nil)
			require.NoError(t, err)
			require.NoError(t, pl.alone())
			pl.t *= math.Sqrt(defaultFound) // a fit spends this share of μ² on the search
			least, _ := pl.sight()
			require.InEpsilon(t, want, 100*float64(least)/n, 0.005, "n = %v, ε = %v", n, epsilons[i]) // three digits
		}
	}
}
