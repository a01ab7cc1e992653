// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package score

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/model"
)

// world is a law of records for scores: two classes of which a share is positive, a score of two
// normal laws separated by sep, and probabilities that are Bayes' times a factor of overconfidence.
type world struct{ positives, sep, confidence float64 }

func (w world) draw(rnd *rand.Rand) (p model.Prediction, label float64) {
	label = -1
	if rnd.Float64() < w.positives {
		label = 1
	}
	s := w.sep*label/2 + rnd.NormFloat64()
	v := 1 / (1 + math.Exp(-w.confidence*(w.sep*s+logOdds(w.positives))))
	return model.Prediction{Score: s, Probabilities: []float64{1 - v, v}}, label
}

// exactScores are the metrics without noise, from all pairs of records by sorting.
type exactScores map[string]float64

func exact(p []float64, y []bool) exactScores {
	n := float64(len(p))
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmpFloat(p[i], p[j]) })
	var n0, n1, wins, right0, right1, loss float64
	for i := 0; i < len(order); {
		var here0, here1 float64
		j := i
		for ; j < len(order) && p[order[j]] == p[order[i]]; j++ {
			if y[order[j]] {
				here1++
			} else {
				here0++
			}
		}
		wins += here1*n0 + here1*here0/2
		n0, n1, i = n0+here0, n1+here1, j
	}
	for i, v := range p {
		switch {
		case y[i] && v >= 0.5:
			right1++
		case !y[i] && v < 0.5:
			right0++
		}
		class := 0
		if y[i] {
			class = 1
		}
		loss += min(logLoss(v, class), mostLoss)
	}
	return exactScores{"accuracy": (right0 + right1) / n, "balanced": (right0/n0 + right1/n1) / 2, "AUC": wins / (n0 * n1),
		"log loss": loss / n}
}

func cmpFloat(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// silent is a context in which a score gets no noise.
func silent(ctx context.Context) context.Context {
	return fault.With(ctx, fault.ScoreNoise, func(nu []int64) []int64 { return make([]int64, len(nu)) })
}

// add counts a record.
func (t *TestSet) add(p, q model.Prediction, label float64) { t.addJudgment(t.judge(p, q, label)) }

// TestScoreWithoutNoise: with its noise set to 0 a score is that of the records, under both
// relations and for 200 random models, AUC within its stated bound, and cut only by the cells.
func TestScoreWithoutNoise(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	m := unfitted(t, model.Logistic, 2)
	for i := range 200 {
		w := world{0.05 + 0.9*rnd.Float64(), 4 * rnd.Float64(), 3 * rnd.Float64()}
		set, err := newTestSet(t.Context(), m, nil)
		require.NoError(t, err)
		var p []float64
		var y []bool
		n := 500 + rnd.IntN(500)
		for range n {
			at, label := w.draw(rnd)
			if i%4 == 0 { // negatives above positives in one cell
				v := 0.5 + 0.1*rnd.Float64()
				label = 1
				if v > 0.55 {
					label = -1
				}
				at.Probabilities = []float64{1 - v, v}
			}
			set.add(at, model.Prediction{}, label)
			p, y = append(p, at.Probabilities[1]), append(y, label > 0)
		}
		want := exact(p, y)
		for _, rel := range []dp.Relation{dp.Replace, dp.AddRemove} {
			// So large an ε that the terms of the covariance, which a release without noise has too, are
			// small.
			plan, err := NewPlan(m, dp.Budget{Epsilon: 1e4, Delta: 0.1}, &Options{Relation: rel, Records: n})
			require.NoError(t, err)
			s, err := plan.Score(silent(t.Context()), set)
			require.NoError(t, err)
			for _, name := range []string{"accuracy", "balanced", "log loss"} {
				got, ok := s.Metric(name)
				require.True(t, ok)
				require.InDelta(t, want[name], got.Value, 1e-5, name) // losses are rounded to 2⁻²⁰·4.6
			}
			got, ok := s.Metric("AUC")
			require.True(t, ok)
			require.InDelta(t, want["AUC"], got.Value, got.Bound+1e-3, "the bound is an estimate")
			require.InDelta(t, float64(n), s.Records.Value, 1e-6)
			sum := 0.0
			for _, row := range s.Confusion {
				for _, c := range row {
					sum += c.Value
				}
			}
			require.InDelta(t, float64(n), sum, 1e-6)
		}
	}
}

// coverage counts how often the intervals of a plan cover the truth, and how often a metric is
// withheld.
func coverage(
	t *testing.T, runs int, m *model.Model, b dp.Budget, o Options, truth exactScores, n int, src *rand.Rand,
	fill func(set *TestSet),
) {
	t.Helper()
	o.Records = n
	covered, shown := map[string]int{}, map[string]int{}
	for range runs {
		set, err := newTestSet(t.Context(), m, o.Against)
		require.NoError(t, err)
		for range n {
			fill(set)
		}
		o.Source = noise.Reproducible(src.Uint64())
		plan, err := NewPlan(m, b, &o)
		require.NoError(t, err)
		s, err := plan.Score(t.Context(), set)
		require.NoError(t, err)
		for name, want := range truth {
			got, ok := s.Metric(name)
			if !ok {
				continue
			}
			shown[name]++
			if got.Interval[0] <= want && want <= got.Interval[1] {
				covered[name]++
			}
		}
	}
	for name := range truth {
		require.Greater(t, shown[name], runs*9/10, name)
		share := float64(covered[name]) / float64(shown[name])
		t.Logf("%v, n = %d, %v: %s %.3f", o.Relation, n, b, name, share)
		// Less than .93 by chance: for true coverage .95, √(.95·.05/runs) is .0097 at 500 runs; the bound
		// is 4 such deviations below .95 there, and wider for fewer runs.
		require.GreaterOrEqual(t, share, min(0.93, 0.95-5*math.Sqrt(0.95*0.05/float64(runs))), name)
	}
}

// TestScoreCoverage: intervals of 95 % cover the values of the law that the records come from,
// which two million records give, within the error of the simulation.
func TestScoreCoverage(t *testing.T) {
	m := unfitted(t, model.Logistic, 2)
	settings := []struct {
		world
		rel dp.Relation
		n   int
		eps float64
	}{
		{world{0.25, 1.6, 1}, dp.Replace, 3000, 1},
		{world{0.25, 1.6, 1}, dp.AddRemove, 16000, 0.1},
		{world{0.25, 1.6, 1}, dp.Replace, 16000, 0.1},
		{world{0.25, 1.6, 1}, dp.Replace, 16000, 0.3},
		{world{0.05, 2.5, 1}, dp.Replace, 16000, 0.3},
		{world{0.5, 1, 1.7}, dp.Replace, 16000, 0.3},
	}
	runs := testkit.Of(100, 200, 500)
	for _, c := range testkit.Every(4, settings) {
		rnd := rand.New(rand.NewPCG(5, uint64(c.n)))
		var p []float64
		var y []bool
		for range testkit.Of(400_000, 2_000_000) {
			at, label := c.draw(rnd)
			p, y = append(p, at.Probabilities[1]), append(y, label > 0)
		}
		b := dp.Budget{Epsilon: c.eps, Delta: model.DefaultDelta(c.n)}
		coverage(t, runs, m, b, Options{Relation: c.rel}, exact(p, y), c.n, rnd, func(set *TestSet) {
			at, label := c.draw(rnd)
			set.add(at, model.Prediction{}, label)
		})
	}
}

// TestScoreCoverageOfNumbers: the same for RMSE, MAE and R² at the cap, and for pairs of models.
// The cap is the same in nearly all runs, so that the truth is that of the most frequent one.
func TestScoreCoverageOfNumbers(t *testing.T) {
	m := unfitted(t, model.Squares, 0)
	draw := func(rnd *rand.Rand) (model.Prediction, float64) {
		f := 2*rnd.Float64() - 1
		return model.Prediction{Score: f / 2}, min(max(f/2+0.2*rnd.NormFloat64(), -1), 1)
	}
	for _, rel := range []dp.Relation{dp.Replace, dp.AddRemove} {
		rnd := rand.New(rand.NewPCG(6, 7))
		n, runs := 16000, testkit.Of(60, 200, 500)
		b := dp.Budget{Epsilon: 0.3, Delta: model.DefaultDelta(n)}
		covered := map[string]int{}
		shown := 0
		var large TestSet // sums of very many records
		{
			set, err := newTestSet(t.Context(), m, nil)
			require.NoError(t, err)
			for range 1_000_000 {
				p, label := draw(rnd)
				set.add(p, model.Prediction{}, label)
			}
			large = *set
		}
		for range runs {
			set, err := newTestSet(t.Context(), m, nil)
			require.NoError(t, err)
			for range n {
				p, label := draw(rnd)
				set.add(p, model.Prediction{}, label)
			}
			plan, err := NewPlan(m, b, &Options{Relation: rel, Records: n, Source: noise.Reproducible(rnd.Uint64())})
			require.NoError(t, err)
			s, err := plan.Score(t.Context(), set)
			require.NoError(t, err)
			k := slices.IndexFunc(sizes, func(c float64) bool { return math.Abs(2*c-s.Cap) < 1e-9 })
			require.GreaterOrEqual(t, k, leastCap)
			c, all := 2*sizes[k], float64(large.n)*(1<<scaleBits)
			square, mean := float64(large.sums[2*k])/all*c*c, float64(large.sums[2*k+1])/all*c
			t1, t2 := float64(large.sums[len(large.sums)-2])/all, float64(large.sums[len(large.sums)-1])/all
			truth := exactScores{"RMSE": math.Sqrt(square), "MAE": mean, "R²": 1 - square/(t2-t1*t1)}
			shown++
			for name, want := range truth {
				got, ok := s.Metric(name)
				require.True(t, ok, "%s: %+v", name, got)
				if got.Interval[0] <= want && want <= got.Interval[1] {
					covered[name]++
				}
			}
		}
		for _, name := range []string{"RMSE", "MAE", "R²"} {
			share := float64(covered[name]) / float64(shown)
			t.Logf("%v: %s %.3f", rel, name, share)
			require.GreaterOrEqual(t, share, min(0.93, 0.95-5*math.Sqrt(0.95*0.05/float64(runs))), name)
		}
	}
}

// TestRareLargeErrors: where a few records in a thousand have errors far above the cap, R² says how
// far these may lower it, and its interval reaches the true value with that. Without them it says
// nothing.
func TestRareLargeErrors(t *testing.T) {
	m := unfitted(t, model.Squares, 0)
	for _, rare := range []float64{0, 0.001} {
		rnd := rand.New(rand.NewPCG(8, 9))
		set, err := newTestSet(t.Context(), m, nil)
		require.NoError(t, err)
		const n = 20000
		square, sum, sum2 := 0.0, 0.0, 0.0
		for i := range n {
			label := -0.9 + 0.08*rnd.NormFloat64()
			if float64(i) < rare*n {
				label = 0.9
			}
			label = max(label, -1)
			set.add(model.Prediction{Score: -0.9}, model.Prediction{}, label)
			square += (label + 0.9) * (label + 0.9)
			sum, sum2 = sum+label, sum2+label*label
		}
		b := dp.Budget{Epsilon: 10, Delta: 1e-9}
		plan, err := NewPlan(m, b, &Options{Records: n, Source: noise.Reproducible(3)})
		require.NoError(t, err)
		s, err := plan.Score(t.Context(), set)
		require.NoError(t, err)
		got, ok := s.Metric("R²")
		require.True(t, ok)
		truth := 1 - square/(sum2-sum*sum/n)
		require.Less(t, s.Cap, 1.)
		require.Equal(t, rare > 0, got.Bound > 0, "%+v", got)
		require.LessOrEqual(t, got.Interval[0]-got.Bound, truth)
		require.GreaterOrEqual(t, got.Interval[1], truth)
		if rare > 0 {
			require.Greater(t, got.Value, truth+0.1, "it is too high by the cap")
		}
	}
}

// TestScoreCoverageOfPairs: the same for the difference of two models, of which one sees the score
// of the other with an error.
func TestScoreCoverageOfPairs(t *testing.T) {
	m := unfitted(t, model.Logistic, 2)
	for _, rel := range []dp.Relation{dp.Replace, dp.AddRemove} {
		rnd := rand.New(rand.NewPCG(12, 13))
		pair := func() (p, q model.Prediction, label float64) {
			p, label = world{0.25, 1.6, 1}.draw(rnd)
			v := 1 / (1 + math.Exp(-(1.6/1.25*(p.Score+0.5*rnd.NormFloat64()) - math.Log(3))))
			return p, model.Prediction{Probabilities: []float64{1 - v, v}}, label
		}
		large, err := newTestSet(t.Context(), m, m)
		require.NoError(t, err)
		for range testkit.Of(500_000, 4_000_000) {
			large.add(pair())
		}
		n := float64(large.n)
		truth := exactScores{"accuracy difference": float64(large.counts[1]-large.counts[2]) / n,
			"log loss difference": float64(large.sums[0]) / n / (1 << scaleBits)}
		require.Greater(t, truth["accuracy difference"], 0.01)
		b := dp.Budget{Epsilon: 0.3, Delta: model.DefaultDelta(16000)}
		coverage(t, testkit.Of(60, 200, 500), m, b, Options{Relation: rel, Against: m}, truth, 16000, rnd,
			func(set *TestSet) { set.add(pair()) })
	}
}

// TestScoreEstimateIsUnbiased: over many draws, (ĥ − h)′V⁺(ĥ − h) has mean 48, or 47 under replace,
// where the sum is known, and no coordinate has a mean off by more than chance.
func TestScoreEstimateIsUnbiased(t *testing.T) {
	const draws = 2000
	m := unfitted(t, model.Logistic, 2)
	set, err := newTestSet(t.Context(), m, nil)
	require.NoError(t, err)
	rnd := rand.New(rand.NewPCG(8, 9))
	for range 4000 {
		p, label := world{0.25, 1.6, 1}.draw(rnd)
		set.add(p, model.Prediction{}, label)
	}
	for _, rel := range []dp.Relation{dp.Replace, dp.AddRemove} {
		plan, err := NewPlan(m, dp.Budget{Epsilon: 0.5, Delta: 1e-6}, &Options{Relation: rel, Records: 4000})
		require.NoError(t, err)
		mean, chi := make([]float64, 2*numCells), 0.0
		var e *estimate
		for i := range draws {
			d := &drawn{p: plan, t: set, src: noise.Reproducible(uint64(i), "unbiased"), values: map[string][]float64{}}
			d.sigma = plan.sigmas()
			for k, block := range plan.blocks {
				d.add(k, d.sums(block.Name))
			}
			e = plan.cells(d.values)
			sum := 0.0
			for k, c := range set.counts {
				dev := e.h[k] - float64(c)
				mean[k] += dev / draws
				sum += e.h[k]
				chi += dev * dev / draws
			}
			if rel == dp.Replace {
				require.InDelta(t, 4000, sum, 1e-6)
			}
		}
		trace := 0.0
		for k := range mean {
			v := e.v.At(k, k)
			trace += v
			require.InDelta(t, 0, mean[k], 6*math.Sqrt(v/draws), "cell %d: six deviations of a mean", k)
		}
		// The mean of the squares has a relative deviation of at most √(2/draws) = .032, for one
		// coordinate.
		require.InEpsilon(t, trace, chi, 0.15)
	}
}

// TestScoreTotal: no record makes an error, a panic or a value that is not finite, whatever its
// probability or label; the order of records does not matter.
func TestScoreTotal(t *testing.T) {
	odd := []float64{0, 1, 0.5, math.NaN(), math.Inf(1), math.Inf(-1), -3, 1e-320, 7}
	for _, name := range model.Losses() {
		m := unfitted(t, name, 4)
		of := scoredBy(m)
		for _, against := range []*model.Model{nil, m} {
			for _, rel := range []dp.Relation{dp.Replace, dp.AddRemove} {
				for _, n := range []int{1, 5, 3000} { // all of one kind where n is small
					sets := [2]*TestSet{}
					for k := range sets {
						set, err := newTestSet(t.Context(), m, against)
						require.NoError(t, err)
						for i := range n {
							if k == 1 {
								i = n - 1 - i
							}
							v, label := odd[i%len(odd)], odd[i/len(odd)%len(odd)]
							p := model.Prediction{Score: v}
							if of.loss == model.Logistic || of.loss == model.Multinomial {
								p.Probabilities = []float64{1 - v, v, v, v}[:max(2, of.classes())]
							}
							set.add(p, p, label)
						}
						sets[k] = set
					}
					require.Equal(t, sets[0].counts, sets[1].counts)
					require.Equal(t, sets[0].sums, sets[1].sums)
					o := &Options{Relation: rel, Against: against, Source: noise.Reproducible(uint64(n))}
					if rel == dp.Replace {
						o.Records = n
					}
					plan, err := NewPlan(m, dp.Budget{Epsilon: 3, Delta: 1e-3}, o)
					if rel == dp.Replace && n < 100 {
						require.ErrorIs(t, err, dp.ErrCondition, "noise alone hides so few records")
						continue
					}
					require.NoError(t, err, name)
					s, err := plan.Score(t.Context(), sets[0])
					require.NoError(t, err)
					for _, v := range s.Metrics {
						for _, x := range []float64{v.Value, v.StdErr, v.Sampling, v.Privacy, v.Interval[0], v.Interval[1], v.Bound} {
							require.False(t, math.IsNaN(x) || math.IsInf(x, 0), "%s: %+v", name, v)
						}
						require.NotEmpty(t, v.Name)
					}
				}
			}
		}
	}
	require.NotContains(t, fmt.Sprintf("%v %+v %#v", &TestSet{}, &TestSet{n: 77}, &TestSet{n: 77}), "77")
}

// TestScoreOfClassesWithoutNoise: with its noise set to 0 a score of several classes, and of two
// models, is that of the records, also of those whose label has no meaning.
func TestScoreOfClassesWithoutNoise(t *testing.T) {
	rnd := rand.New(rand.NewPCG(10, 11))
	m := unfitted(t, model.Multinomial, 4)
	const n = 3000
	for _, rel := range []dp.Relation{dp.Replace, dp.AddRemove} {
		one, err := newTestSet(t.Context(), m, nil)
		require.NoError(t, err)
		two, err := newTestSet(t.Context(), m, m)
		require.NoError(t, err)
		right, better, loss := 0.0, 0.0, 0.0
		recall, of := make([]float64, 4), make([]float64, 4)
		for i := range n {
			y := rnd.IntN(4)
			draw := func() model.Prediction {
				p := model.Prediction{Class: rnd.IntN(4), Probabilities: []float64{0.1, 0.1, 0.1, 0.1}}
				if rnd.IntN(2) == 0 {
					p.Class = y
				}
				p.Probabilities[p.Class] = 0.7
				return p
			}
			p, q := draw(), draw()
			label := float64(y)
			if i%100 == 0 {
				label, y = math.NaN(), 0
				if p.Class == 0 {
					y = 1
				}
				loss += mostLoss
			} else {
				loss += -math.Log(p.Probabilities[y])
				two.add(p, q, label)
				better -= float64(btoi(q.Class == y))
				better += float64(btoi(p.Class == y))
			}
			one.add(p, model.Prediction{}, label)
			of[y]++
			if p.Class == y {
				right++
				recall[y]++
			}
		}
		balanced := 0.0
		for y := range of {
			balanced += recall[y] / of[y] / 4
		}
		score := func(set *TestSet, against *model.Model) *Scores {
			plan, err := NewPlan(m, dp.Budget{Epsilon: 3, Delta: 1e-6},
				&Options{Relation: rel, Records: set.n, Against: against})
			require.NoError(t, err)
			s, err := plan.Score(silent(t.Context()), set)
			require.NoError(t, err)
			return s
		}
		s := score(one, nil)
		truth := exactScores{"accuracy": right / n, "balanced": balanced, "log loss": loss / n}
		for name, want := range truth {
			got, ok := s.Metric(name)
			require.True(t, ok, name)
			require.InDelta(t, want, got.Value, 1e-5, name)
		}
		got, ok := score(two, m).Metric("accuracy difference")
		require.True(t, ok)
		require.InDelta(t, better/float64(two.n), got.Value, 1e-9)
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
