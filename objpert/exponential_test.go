// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package objpert

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/testkit"
)

// exponentialGolden is testdata/exponential.json; see its field "about".
type exponentialGolden struct {
	Laws []struct {
		Rows           [][]int64
		Labels         []int
		Q              int
		C              float64
		Losses         map[string]int
		Uniform, Mixed map[string]json.Number
	}
	Curve []struct{ Eps0, Eps, Delta json.Number }
	Renyi []struct{ Eps0, Alpha, Value json.Number }
	Eta   []struct{ Eps, Delta, Eta json.Number }
	// Levels of Adult by Q.
	Levels struct {
		Q      map[string]struct{ Points, Least int }
		Counts []int `json:"Q4_counts_by_gap_0_to_40"`
	}
}

func readExponential(t testing.TB) (g exponentialGolden) {
	raw, err := os.ReadFile("testdata/exponential.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &g))
	return g
}

func value(t testing.TB, n json.Number) float64 {
	v, err := n.Float64()
	require.NoError(t, err)
	return v
}

// everyPoint lists W, by a way of its own.
func everyPoint(p *Problem) (points [][]int) {
	var walk func(w []int)
	walk = func(w []int) {
		if len(w) == p.dim {
			if p.Contains(w) {
				points = append(points, slices.Clone(w))
			}
			return
		}
		for _, v := range p.space.Values {
			walk(append(w, v))
		}
	}
	walk(nil)
	return points
}

// lawOf computes P(w) ∝ π(w)e^{−L(w)/c} from the definition of π: uniform, or half of it by norms.
func lawOf(p *Problem, c float64, uniform bool) map[string]float64 {
	points, count := everyPoint(p), map[int]float64{}
	square := func(w []int) (sq int) {
		for _, v := range w {
			sq += v * v
		}
		return sq
	}
	for _, w := range points {
		count[square(w)]++
	}
	law, total := map[string]float64{}, 0.0
	for _, w := range points {
		prior := 1 / float64(len(points))
		if !uniform {
			prior = prior/2 + 1/(2*float64(len(count))*count[square(w)])
		}
		law[fmt.Sprint(w)] = prior * math.Exp(-float64(p.Loss(w))/c)
		total += law[fmt.Sprint(w)]
	}
	for w := range law {
		law[w] /= total
	}
	return law
}

// exponentialPlan returns a plan with the given c.
func exponentialPlan(t testing.TB, m *Exponential, p *Problem, c float64) *Plan {
	plan, err := m.Plan(p, dp.Budget{Epsilon: 2 / c})
	require.NoError(t, err)
	require.InEpsilon(t, c, plan.params.Scale, 1e-15)
	return plan
}

// TestExponentialGolden: laws to 1e-12, from the weights and the visits of the plan.
func TestExponentialGolden(t *testing.T) {
	g := readExponential(t)
	for _, l := range g.Laws {
		p, err := NewProblem(l.Rows, l.Labels, nil, Lattice(l.Q))
		require.NoError(t, err)
		for uniform, want := range map[bool]map[string]json.Number{true: l.Uniform, false: l.Mixed} {
			plan := exponentialPlan(t, &Exponential{Uniform: uniform}, p, l.C)
			law, own := visitedLaw(t, plan, p), lawOf(p, l.C, uniform)
			require.Len(t, want, len(law))
			for w, v := range want {
				require.InEpsilon(t, value(t, v), law[w], 1e-12, "%v", w)
				require.InEpsilon(t, value(t, v), own[w], 1e-12, "%v", w)
			}
		}
		for _, w := range everyPoint(p) {
			require.Equal(t, l.Losses[fmt.Sprint(w)], p.Loss(w))
		}
	}
	for _, c := range g.Curve {
		got, want := dp.RangeCurve(value(t, c.Eps0))(value(t, c.Eps)), value(t, c.Delta)
		require.InDelta(t, want, got, 1e-14*want)
	}
	for _, c := range g.Renyi {
		got, want := dp.RangeRDP(value(t, c.Eps0))(value(t, c.Alpha)), value(t, c.Value)
		require.GreaterOrEqual(t, got, want*(1-1e-15))
		require.InDelta(t, want, got, 2e-14*(1+1/(value(t, c.Alpha)-1)), "%+v", c)
	}
	for _, c := range g.Eta {
		got := span(dp.Budget{Epsilon: value(t, c.Eps), Delta: value(t, c.Delta)})
		require.InEpsilon(t, value(t, c.Eta), got, 1e-13)
		require.Less(t, got, value(t, c.Eta))
	}
}

// visitedLaw computes the law from what a fit sees: the weights of the prior, and the losses.
func visitedLaw(t testing.TB, pl *Plan, p *Problem) map[string]float64 {
	losses, least, err := pl.losses(bg, p)
	require.NoError(t, err)
	law, total := map[string]float64{}, 0.0
	for i, row := range losses {
		require.Len(t, row, int(pl.law.counts[i]))
		for rank, loss := range row {
			w := pl.find(p, pl.law.sqs[i], uint64(rank))
			require.Equal(t, p.Loss(w), int(loss))
			v := float64(pl.law.weights[i]) * math.Exp(-float64(loss-least)/pl.params.Scale)
			law[fmt.Sprint(w)] = v
			total += v
		}
	}
	for w := range law {
		law[w] /= total
	}
	return law
}

// spaces are sets of three columns with every kind of bound.
func spaces() map[string]Space {
	return map[string]Space{
		"ball": Lattice(3), "cube": cube(), "ternary": ternary(),
		"no zero":  {Values: []int{-2, -1, 1, 3}, NormSq: 11},
		"one side": {Values: []int{1, 2, 3}, NormSq: -1},
		"allowed": {Values: []int{-1, 0, 2}, NormSq: 9, Allowed: [][]bool{
			{true, false, true}, {false, false, true}, {true, true, true}}},
	}
}

// TestScan: visits see each point once, with its loss, and find it again by its norm and rank.
func TestScan(t *testing.T) {
	for name, space := range spaces() {
		p := halfspaces(t, 60, 3, space)
		for _, uniform := range []bool{true, false} {
			law := visitedLaw(t, exponentialPlan(t, &Exponential{Uniform: uniform}, p, 3), p)
			want := lawOf(p, 3, uniform)
			require.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(law)), name)
			for w, v := range want {
				require.InEpsilon(t, v, law[w], 1e-12, "%s %s", name, w)
			}
		}
	}
}

// TestExponentialLaw: releases have the law, by χ² with a false alarm of 1e-7 a case.
func TestExponentialLaw(t *testing.T) {
	runs := testkit.Of(4000, 40_000)
	for name, space := range spaces() {
		for _, uniform := range []bool{true, false} {
			p := halfspaces(t, 12, 3, space)
			plan := exponentialPlan(t, &Exponential{Uniform: uniform}, p, 2.5)
			src, count := noise.Reproducible(1, name), map[string]float64{}
			for range runs {
				rel, err := plan.Fit(bg, p, src)
				require.NoError(t, err)
				count[fmt.Sprint(rel.Theta)]++
			}
			sampledLaw(t, name, count, float64(runs), lawOf(p, 2.5, uniform))
		}
	}
}

func sampledLaw(t testing.TB, name string, count map[string]float64, runs float64, law map[string]float64) {
	chi, seen := 0.0, 0.0
	for w, v := range law {
		chi += (count[w] - runs*v) * (count[w] - runs*v) / (runs * v)
		seen += count[w]
	}
	require.Equal(t, runs, seen, name)
	require.Greater(t, distuv.ChiSquared{K: float64(len(law) - 1)}.Survival(chi), 1e-7, name)
}

// TestExponentialRange: on neighbors the privacy loss has a range of at most ε, which is attained,
// and the curves of the plan hold in both orders. Half the scale is noticed.
func TestExponentialRange(t *testing.T) {
	src, widest := rand.New(noise.Reproducible(5)), 0.0
	for try := range testkit.Of(60, 400) {
		rel := []dp.Relation{dp.Replace, dp.AddRemove}[try%2]
		n, eps := 1+src.IntN(6), []float64{0.1, 1, 3}[src.IntN(3)]
		rows, labels := make([][]int64, n), make([]int, n)
		for i := range rows {
			rows[i], labels[i] = []int64{src.Int64N(5) - 2, src.Int64N(3) - 1}, 2*src.IntN(2)-1
		}
		a, err := NewProblem(rows, labels, nil, Lattice(2))
		require.NoError(t, err)
		weights := slices.Repeat([]int{1}, n)
		if rel == dp.Replace {
			labels[0] = -labels[0]
		} else {
			weights[0] = 0
		}
		b, err := NewProblem(rows, labels, weights, Lattice(2))
		require.NoError(t, err)
		plan, err := (&Exponential{Relation: rel, Uniform: try%3 == 0}).Plan(a, dp.Budget{Epsilon: eps})
		require.NoError(t, err)
		p, q := visitedLaw(t, plan, a), visitedLaw(t, plan, b)
		lo, hi := math.Inf(1), math.Inf(-1)
		for w := range p {
			l := math.Log(p[w] / q[w])
			lo, hi = min(lo, l), max(hi, l)
		}
		require.LessOrEqual(t, hi-lo, eps*(1+1e-12))
		require.LessOrEqual(t, lo, 1e-12)
		require.GreaterOrEqual(t, hi, -1e-12)
		widest = max(widest, (hi-lo)/eps)
		profile := plan.Profile()
		for _, e := range []float64{-2, -eps / 2, 0, eps / 3, 0.9 * eps, eps} {
			require.LessOrEqual(t, hockeyStick(p, q, e), profile.Remove(e)+1e-14)
			require.LessOrEqual(t, hockeyStick(q, p, e), profile.Add(e)+1e-14)
		}
		for _, alpha := range []float64{1.01, 2, 17} {
			moment := 0.0
			for w := range p {
				moment += p[w] * math.Exp((alpha-1)*math.Log(p[w]/q[w]))
			}
			require.LessOrEqual(t, math.Log(moment)/(alpha-1), profile.RDP(alpha)+1e-13)
		}
	}
	require.InDelta(t, 1, widest, 1e-12)
}

func hockeyStick(p, q map[string]float64, eps float64) (sum float64) {
	for w := range p {
		sum += max(0, p[w]-math.Exp(eps)*q[w])
	}
	return sum
}

// TestExponentialScale: c·η is at least kR as rational numbers, and not at the float64 below; a δ
// is used up to 1e-4 of it.
func TestExponentialScale(t *testing.T) {
	src := rand.New(noise.Reproducible(6))
	p, err := Empty(3, Lattice(2))
	require.NoError(t, err)
	rational := func(v float64) *big.Rat { return new(big.Rat).SetFloat64(v) }
	for range 500 {
		m := &Exponential{Relation: dp.Relation(1 + src.IntN(2)), Range: 1 + src.Float64()}
		b := dp.Budget{Epsilon: math.Exp(20*src.Float64() - 12)}
		if src.IntN(2) == 0 {
			b.Delta = math.Exp(-25 * src.Float64())
		}
		plan, err := m.Plan(p, b)
		require.NoError(t, err)
		q, eta := plan.params, rational(plan.law.span)
		want := rational(q.Shift)
		require.GreaterOrEqual(t, new(big.Rat).Mul(rational(q.Scale), eta).Cmp(want), 0)
		require.Negative(t, new(big.Rat).Mul(rational(math.Nextafter(q.Scale, 0)), eta).Cmp(want))
		require.Equal(t, swing(m.Relation)*m.Range, q.Shift)
		require.LessOrEqual(t, plan.Profile().Delta(b.Epsilon), b.Delta)
		if b.Delta > 0 {
			require.InEpsilon(t, b.Delta, plan.Profile().Delta(b.Epsilon), 1e-4)
		}
		require.Equal(t, b, q.Proved)
	}
}

// TestExponentialPrior: the integer weights are in the ratio of the prior, to 2⁻¹² at worst, and
// the excess is that of the least of them.
func TestExponentialPrior(t *testing.T) {
	for _, c := range []struct{ dim, q int }{{3, 3}, {23, 4}, {23, 7}, {23, 23}, {28, 23}, {1, 1 << 20}} {
		p, err := Empty(c.dim, Lattice(c.q))
		require.NoError(t, err)
		pr, err := newPrior(&p.space, c.dim, false)
		if c.dim == 28 {
			require.ErrorIs(t, err, ErrLimit)
			continue
		}
		require.NoError(t, err)
		n, sum, most := 0.0, 0.0, 0.0
		for _, k := range pr.counts {
			n += float64(k)
		}
		for i, k := range pr.counts {
			want := 1/(2*n) + 1/(2*float64(len(pr.sqs))*float64(k))
			got := float64(pr.weights[i]) / float64(pr.total)
			require.InEpsilon(t, want, got, 0x1p-12, "%+v, norm %d", c, pr.sqs[i])
			sum += got * float64(k)
			most = max(most, -math.Log(got))
		}
		require.InEpsilon(t, 1, sum, 1e-12)
		require.InEpsilon(t, most, pr.logLeast(), 1e-9)
	}
	require.Equal(t, 22097867887045, lattice(23, 23))
}

func lattice(d, q int) int {
	s := Lattice(q)
	return s.pointsUpTo(d, 1<<46)
}

// TestExponentialExcess: the expected loss keeps to ExcessBound, and to c·ln(2S·max N_q) above the
// best point of each smaller ball.
func TestExponentialExcess(t *testing.T) {
	p := halfspaces(t, 40, 3, Lattice(6))
	for _, eps := range []float64{0.02, 0.3, 5} {
		for _, uniform := range []bool{true, false} {
			plan, err := (&Exponential{Uniform: uniform}).Plan(p, dp.Budget{Epsilon: eps})
			require.NoError(t, err)
			mean, law := 0.0, visitedLaw(t, plan, p)
			best := map[int]float64{}
			for _, w := range everyPoint(p) {
				loss := float64(p.Loss(w))
				mean += law[fmt.Sprint(w)] * loss
				sq := w[0]*w[0] + w[1]*w[1] + w[2]*w[2]
				if v, ok := best[sq]; !ok || loss < v {
					best[sq] = loss
				}
			}
			least := slices.Min(slices.Collect(maps.Values(best)))
			require.LessOrEqual(t, mean-least, plan.params.ExcessBound)
			for i, q := range plan.law.sqs {
				many := float64(slices.Max(plan.law.counts[:i+1]))
				if !uniform {
					require.LessOrEqual(t, mean-best[q], plan.params.Scale*math.Log(2*float64(len(best))*many))
				}
			}
		}
	}
}

// constant is a source of one word.
type constant uint64

func (c constant) Uint64() uint64 { return uint64(c) }

func TestExponentialErrors(t *testing.T) {
	p := halfspaces(t, 30, 3, Lattice(4))
	b := dp.Budget{Epsilon: 1}
	custom, err := Custom(3, Lattice(4))
	require.NoError(t, err)
	wide, err := Empty(60, Lattice(23))
	require.NoError(t, err)
	for _, c := range []struct {
		m    *Exponential
		p    *Problem
		want error
	}{
		{&Exponential{}, nil, ErrProblem}, {&Exponential{}, custom, ErrMechanism}, {nil, wide, ErrLimit},
		{&Exponential{Points: -1}, p, ErrMechanism}, {&Exponential{Points: 1 << 28}, p, ErrMechanism},
		{&Exponential{Range: 0.5}, p, ErrMechanism}, {&Exponential{Range: math.NaN()}, p, ErrMechanism},
		{&Exponential{Relation: 7}, p, dp.ErrRelation},
	} {
		_, err := c.m.Fit(bg, c.p, b, nil)
		require.ErrorIs(t, err, c.want)
	}
	_, err = (&OPDisc{Law: Gibbs}).Plan(p, b)
	require.ErrorIs(t, err, ErrMechanism)
	ended, cancel := context.WithCancel(bg)
	cancel()
	_, err = (&Exponential{}).Fit(ended, p, b, nil)
	require.ErrorIs(t, err, ErrInterrupted)
	require.ErrorIs(t, err, dp.ErrWithheld)
	for _, word := range []uint64{0, 1, math.MaxUint64} { // a source that never accepts, or repeats itself
		_, err = (&Exponential{}).Fit(bg, p, dp.Budget{Epsilon: 100}, constant(word))
		require.ErrorIs(t, err, noise.ErrSource)
	}
	plan, err := (&Exponential{}).Plan(p, b)
	require.NoError(t, err)
	require.Contains(t, plan.String(), "exp(-L(w)/2), |W| = 33, Q = 4")
	require.Equal(t, dp.Certificate{Budget: b, Relation: dp.Replace, Theorem: "objpert.exponential/1"}, plan.Certificate())
}

// TestExponentialSteps: the steps that an audit changes decide the release: an excess of 0 releases
// minimizers alone.
func TestExponentialSteps(t *testing.T) {
	p := halfspaces(t, 30, 3, Lattice(4))
	least := slices.MinFunc(everyPoint(p), func(a, b []int) int { return p.Loss(a) - p.Loss(b) })
	ctx := fault.With(bg, fault.LossGap, func(int64) int64 { return 0 })
	for range 20 {
		rel, err := (&Exponential{}).Fit(ctx, p, dp.Budget{Epsilon: 0.01}, nil)
		require.NoError(t, err)
		w := make([]int, 3)
		for j, v := range rel.Theta {
			w[j] = int(v)
		}
		require.Equal(t, p.Loss(least), p.Loss(w))
	}
	require.Empty(t, fault.From(ctx).Missed())
}

// TestExponentialAdult: the levels of Adult, by complete visits, and the accuracy that is
// expected of a release at Q = 4, from the exact law.
func TestExponentialAdult(t *testing.T) {
	g := readExponential(t)
	for _, q := range []int{1, 2, 4, 5}[:testkit.Of(3, 4)] {
		p := adultProblem(t, 23, q)
		plan, err := (&Exponential{Points: 1 << 21}).Plan(p, dp.Budget{Epsilon: 1})
		require.NoError(t, err)
		losses, least, err := plan.losses(bg, p)
		require.NoError(t, err)
		want := g.Levels.Q[fmt.Sprint(q)]
		require.Equal(t, want.Points, len(slices.Concat(losses...)))
		require.Equal(t, want.Least, int(least))
		if q != 4 {
			continue
		}
		counts := make([]int, len(g.Levels.Counts))
		for _, loss := range slices.Concat(losses...) {
			if gap := int(loss - least); gap < len(counts) {
				counts[gap]++
			}
		}
		require.Equal(t, g.Levels.Counts, counts)
		for eps, accuracy := range map[float64]float64{0.1: 0.7715, 0.3: 0.7730, 1: 0.7738} {
			mean, total := 0.0, 0.0
			for i, row := range losses {
				for _, loss := range row {
					v := float64(plan.law.weights[i]) * math.Exp(-float64(loss-least)*eps/2)
					mean += v * float64(loss)
					total += v
				}
			}
			t.Logf("ε = %g: expected accuracy %.4f", eps, 1-mean/total/15682)
			require.Greater(t, 1-mean/total/15682, accuracy)
		}
	}
}

// TestOrderOfRecords: the release depends on the set of records, not on their order.
func TestOrderOfRecords(t *testing.T) {
	rows, labels := [][]int64{{1, 2}, {0, 1}, {-1, 1}, {2, 4}}, []int{1, -1, 1, -1}
	var first *dp.Release
	for range 3 {
		p, err := NewProblem(rows, labels, nil, Lattice(4))
		require.NoError(t, err)
		rel, err := (&Exponential{}).Fit(bg, p, dp.Budget{Epsilon: 1}, noise.Reproducible(1))
		require.NoError(t, err)
		if first == nil {
			first = rel
		}
		require.Equal(t, first, rel)
		slices.Reverse(rows[1:])
		slices.Reverse(labels[1:])
	}
	require.False(t, strings.Contains(fmt.Sprint(first), "loss"))
}
