// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
	"github.com/privopt/privopt/table"
)

// spent returns Σ(S/σ)² of one run, where S is the distance by which the sums of two neighbors
// differ given the same outputs before: the fit of the second data set gets the sums of the first
// one, which bend may change. Each S is at most the sensitivity of its release. All that a run
// returns is a function of outputs: it is the same for both.
func spent(t *testing.T, pl *Plan, data [2]*erm.Data, seed uint64, bend func(release int, terms []int64)) float64 {
	t.Helper()
	total := 0.0
	for _, u := range uses(t, pl, data, seed, bend) {
		total += u.square
	}
	return total
}

// A use is a release in the run of spent.
type use struct {
	terms  int
	square float64 // (S/σ)²
	part   float64 // of the sensitivity
}

// uses returns the releases of such a run.
func uses(t *testing.T, pl *Plan, data [2]*erm.Data, seed uint64, bend func(release int, terms []int64)) (all []use) {
	t.Helper()
	var sums, bent []fault.Sum
	var thetas [][]float64
	reg, err := pl.params.Penalty.operator(float64(pl.params.Records), columnGroups(pl.encoder))
	require.NoError(t, err)
	set, err := pl.params.Set.set()
	require.NoError(t, err)
	run := func(data *erm.Data, replace func(s fault.Sum) fault.Sum) {
		p := &erm.Problem{Data: data, Loss: pl.params.Loss.of(data.Bounds(), 2), Records: pl.params.Records, Reg: reg,
			Set: set}
		out, err := pl.run(fault.With(t.Context(), fault.Release, replace), p, noise.Reproducible(seed))
		require.NoError(t, err)
		for _, v := range out.theta {
			require.False(t, math.IsNaN(v) || math.IsInf(v, 0))
		}
		thetas = append(thetas, out.theta)
	}
	run(data[0], func(s fault.Sum) fault.Sum {
		c := s
		c.Terms = append([]int64{}, s.Terms...)
		sums = append(sums, c)
		if bend != nil {
			bend(len(bent), s.Terms)
		}
		c = s
		c.Terms = append([]int64{}, s.Terms...)
		bent = append(bent, c)
		return s
	})
	at := 0
	run(data[1], func(s fault.Sum) fault.Sum {
		first := sums[at]
		require.Equal(t, first.Exponent, s.Exponent)
		require.Equal(t, first.Sigma, s.Sigma, "the noise depends on the records")
		square := 0.0
		for j, v := range s.Terms {
			square += math.Pow(math.Ldexp(float64(v-first.Terms[j]), s.Exponent)/s.Sigma, 2)
		}
		require.LessOrEqual(t, math.Sqrt(square), s.Ratio, "release %d of %d, of %d numbers", at, len(sums), len(s.Terms))
		all = append(all, use{len(s.Terms), square, math.Sqrt(square) / s.Ratio})
		at++
		return bent[at-1]
	})
	require.Len(t, sums, at, "the number of releases depends on the records")
	shares := 0.0
	for _, s := range sums {
		shares += s.Ratio * s.Ratio
	}
	require.LessOrEqual(t, shares, math.Pow(pl.params.Sequence.Mu, 2)*(1+1e-12), "shares of all releases")
	require.LessOrEqual(t, len(sums), 145, "releases")
	require.Equal(t, thetas[0], thetas[1], "θ is no function of the outputs")
	return all
}

// neighborsOf returns records with and without, or with another, last record.
func neighborsOf(
	rnd *rand.Rand, n, d int, rel dp.Relation, class, far bool,
) (rows [2][][]float64, labels [2][]float64) {
	record := func(length float64) ([]float64, float64) {
		a := make([]float64, d)
		for j := range a {
			a[j] = rnd.NormFloat64()
		}
		floats.Scale(length/floats.Norm(a, 2), a)
		b := a[0] + 0.1*rnd.NormFloat64()
		if class {
			b = math.Copysign(1, b)
		}
		return a, max(-1, min(1, b))
	}
	for range n - 1 {
		a, b := record(0.5 * rnd.Float64())
		for i := range rows {
			rows[i], labels[i] = append(rows[i], a), append(labels[i], b)
		}
	}
	for i := range rows {
		if i == 1 && rel == dp.AddRemove {
			break
		}
		a, b := record(1)
		if far {
			a = make([]float64, d)
			a[0], b = 1, -1
			if i == 1 {
				a[0], b = -1, -1
			}
		}
		rows[i], labels[i] = append(rows[i], a), append(labels[i], b)
	}
	return rows, labels
}

// TestAutomaticSpends: given the same outputs, the sums of neighbors differ by no more than the
// noise allows, all releases of a run together, whatever the record; far records use up most of
// it. θ, also with a penalty and a set, is the same.
func TestAutomaticSpends(t *testing.T) {
	rnd := rand.New(rand.NewPCG(8, 1))
	for _, name := range []string{Squares, Logistic} {
		for _, rel := range []dp.Relation{dp.Replace, dp.AddRemove} {
			for _, eps := range []float64{0.05, 1, 8} {
				for _, far := range []bool{false, true} {
					const n, d = 300, 4
					rows, labels := neighborsOf(rnd, n, d, rel, name == Logistic, far)
					var data [2]*erm.Data
					for i := range data {
						var err error
						data[i], err = erm.NewData(rows[i], labels[i], loss.Bounds{Row: 1, Label: 1})
						require.NoError(t, err)
					}
					o := Options{Loss: Loss{Name: name}, Relation: rel, Records: n}
					if name == Squares && rel == dp.Replace {
						o.Penalty, o.Set = Penalty{Lasso: 0.01}, Set{Name: Ball, Size: 2}
					}
					pl := planFor(t, n, d, dp.Budget{Epsilon: eps, Delta: 1e-6}, o)
					require.Equal(t, theoremGradients, pl.Certificate().Theorem)
					most := math.Pow(pl.params.Sequence.Mu, 2)
					part := spent(t, pl, data, rnd.Uint64(), nil) / most
					require.LessOrEqual(t, part, 1., "%s %v ε = %v", name, rel, eps)
					if far && rel == dp.AddRemove && name == Squares {
						require.Greater(t, part, 0.8, "%s %v ε = %v", name, rel, eps)
					}
					require.LessOrEqual(t, dp.GaussianLogDelta(eps, pl.params.Sequence.Mu), math.Log(1e-6))
				}
			}
		}
	}
}

func readTable(t *testing.T, schema, text string) *table.Data {
	t.Helper()
	s, err := table.ReadSchema(strings.NewReader(schema))
	require.NoError(t, err)
	data, err := table.ReadCSV(strings.NewReader(text), s)
	require.NoError(t, err)
	return data
}

// TestAutomaticSpendsOfPersons is the same for neighbors that differ in all lines of one person,
// with a schema, for both weightings of lines.
func TestAutomaticSpendsOfPersons(t *testing.T) {
	for _, weights := range []string{"", `, "weights": "rows"`} {
		for _, label := range []string{`"min": -1, "max": 1`, `"positive": ["1"], "negative": ["-1"]`} {
			for _, rel := range []dp.Relation{dp.Replace, dp.AddRemove} {
				s := fmt.Sprintf(`{ "schema": 1, "intercept": true, "person": "who", "rows": 3%s, "records": 150,
				  "neighbors": "%v", "label": {"column": "y", %s}, "columns": [{"name": "x", "min": -1, "max": 1},
				  {"name": "z", "min": -1, "max": 1}] }`, weights, rel, label)
				var data [2]*table.Data
				rnd := rand.New(rand.NewPCG(4, 4))
				common, other := "who,x,z,y\n", ""
				line := func(who int, x, y float64) string {
					return fmt.Sprintf("%d,%.3f,%.3f,%v\n", who, x, x*x, math.Copysign(1, y))
				}
				for who := range 149 {
					for range 1 + who%4 {
						x := 2*rnd.Float64() - 1
						common += line(who, x, x+0.3*rnd.NormFloat64())
					}
				}
				last := line(1000, 1, -1) + line(1000, 0.9, -1) + line(1000, -1, 1)
				if rel == dp.Replace {
					other = line(1000, -1, 1) + line(1000, -1, 1)
				}
				for i, text := range []string{common + last, common + other} {
					data[i] = readTable(t, s, text)
				}
				o := &Options{Relation: rel}
				task, err := newTask(data[0], o)
				require.NoError(t, err)
				pl, err := task.plan(dp.Budget{Epsilon: 1, Delta: 1e-6})
				require.NoError(t, err)
				require.Equal(t, theoremGradients, pl.Certificate().Theorem)
				require.Equal(t, 3, pl.Certificate().Rows)
				part := spent(t, pl, [2]*erm.Data{data[0].Records, data[1].Records}, 5, nil) / math.Pow(pl.params.Sequence.Mu, 2)
				require.LessOrEqual(t, part, 1.)
				require.Greater(t, part, 0.01)
			}
		}
	}
}

// TestAutomaticTakes: whatever is asked for, the releases of a fit get no more than its share of
// μ².
func TestAutomaticTakes(t *testing.T) {
	pl := planFor(t, 300, 2, some, Options{Loss: Loss{Name: Squares}})
	f := &gradientFit{pl: pl, left: 0.75}
	sum := 0.0
	for _, w := range []float64{0.1, 0.5, 0.3, 0.2, 1} {
		s := f.take(w) / pl.params.Sequence.Mu
		sum += s * s
	}
	require.InDelta(t, 0.75, sum, 1e-12)
	require.LessOrEqual(t, sum, 0.75*(1+1e-15))
}

// TestAutomaticRecovers: offset and factor are right, for wide ranges, far offsets, rare classes
// and numbers that are 0 or 1, and a fit that learns nothing predicts the mean.
func TestAutomaticRecovers(t *testing.T) {
	for what, c := range map[string]struct {
		label string
		make  func(r *rand.Rand, x []float64) float64
		eps   float64
		most  float64 // median of the loss, over that of the mean
	}{
		"wide ranges": {`"min": -1000, "max": 1000`, func(r *rand.Rand, x []float64) float64 {
			return 3*x[0] - 2*x[1] + 20 + r.NormFloat64()
		}, 1, 0.12},
		"flags of numbers": {`"min": 0, "max": 1`, func(r *rand.Rand, x []float64) float64 {
			if r.Float64() < 1/(1+math.Exp(2.2-x[0])) {
				return 1
			}
			return 0
		}, 1, 1},
		"rare": {`"positive": ["1"], "negative": ["0"]`, func(r *rand.Rand, x []float64) float64 {
			if r.Float64() < 1/(1+math.Exp(3.2-x[0])) {
				return 1
			}
			return 0
		}, 1, 1},
		"nothing": {`"min": -10, "max": 10`, func(r *rand.Rand, _ []float64) float64 {
			return 2 + r.NormFloat64()
		}, 0.2, 1.05},
	} {
		rnd := rand.New(rand.NewPCG(7, 7))
		text, n := "a,b,y\n", 8000
		mean := 0.0
		for range n {
			x := []float64{rnd.NormFloat64(), rnd.NormFloat64()}
			y := c.make(rnd, x)
			mean += y / float64(n)
			text += fmt.Sprintf("%.4f,%.4f,%.6g\n", x[0], x[1], y)
		}
		data := readTable(t, fmt.Sprintf(`{ "schema": 1, "intercept": true, "records": 8000, "neighbors": "add-remove",
		  "label": {"column": "y", %s}, "columns": [{"name": "a", "min": -100, "max": 100},
		  {"name": "b", "min": -100, "max": 100}] }`, c.label), text)
		const seeds = 5
		losses := make([]float64, seeds)
		means, base := make([]float64, seeds), 0.0
		for seed := range uint64(seeds) {
			m, err := Fit(t.Context(), data, dp.Budget{Epsilon: c.eps, Delta: 1e-8}, &Options{Source: noise.Reproducible(seed)})
			require.NoError(t, err)
			base = 0
			require.NoError(t, data.Records.Each(func(a []float64, b float64) {
				p := m.Predict(a)
				v, y := p.Score, data.Encoder.LabelValue(b)
				if p.Probabilities != nil {
					v, y = p.Probabilities[1], (1+math.Copysign(1, b))/2
				}
				means[seed] += v / float64(n)
				losses[seed] += (v - y) * (v - y)
				base += (mean - y) * (mean - y)
			}))
			roundTrip(t, m, data)
		}
		slices.Sort(means)
		slices.Sort(losses)
		require.InDelta(t, mean, means[seeds/2], 0.1*math.Sqrt(base/float64(n)), what)
		require.Less(t, losses[seeds/2]/base, c.most, what)
		require.Less(t, losses[seeds-1]/base, 1.05, what)
	}
}

// TestWeightOfClasses: weighted slopes are at most classClip and right in the mean, with the
// largest curvature over their bound.
func TestWeightOfClasses(t *testing.T) {
	for p := 0.001; p < 1; p += 0.001 {
		w := classWeight(p)
		require.LessOrEqual(t, w*max(p, 1-p), classClip*(1+1e-15))
		require.InDelta(t, 0, p*w*(p-1)+(1-p)*w*p, 1e-16)
		require.InEpsilon(t, min(p, 1-p), w*p*(1-p)/classClip, 1e-12)
	}
}

// TestSpectrumCoversEigenvalues: where the noise of a matrix is far below its trace, eigenvalues
// that hardly stand out of it are no larger than the values that limit the steps. With limits of
// half of them, one fit in six of a table of four factors went astray.
func TestSpectrumCoversEigenvalues(t *testing.T) {
	const p, tau = 20, 0.003
	edge := tau * math.Sqrt(2*p)
	for _, over := range []float64{1.05, 1.2, 1.5, 2, 4} {
		gram, trace := mat.NewSymDense(p, nil), 0.0
		for j := range p {
			v := 0.0005
			if j < 5 {
				v = over * edge
			}
			gram.SetSym(j, j, v)
			trace += v
		}
		s, ok := newSpectrum(gram, tau, trace)
		require.True(t, ok)
		for j := p - 5; j < p; j++ {
			value := edge * (over + math.Sqrt(over*over-1)) / 2 // without the noise
			require.Greater(t, s.upper[j], 0.8*value, "%v times the noise", over)
		}
	}
}

// TestRareClassesHaveStableSteps: where the noise is low, steps for a rare class do not overshoot.
// High scores have several times the mean curvature; steps that knew the mean alone diverged.
func TestRareClassesHaveStableSteps(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 3))
	const n, d = 10000, 6
	var text strings.Builder
	text.WriteString("a,b,c,d,e,f,y\n")
	truth := 0.0
	for range n {
		score := -3.5
		for j := range d {
			x := rnd.NormFloat64()
			score += 1.8 * x * []float64{0.5, -0.3, 0.6, 0.1, -0.5, 0.2}[j]
			fmt.Fprintf(&text, "%.4f,", x)
		}
		p, y := 1/(1+math.Exp(-score)), 0
		if rnd.Float64() < p {
			y, p = 1, 1-p
		}
		truth -= math.Log1p(-p) / n
		fmt.Fprintln(&text, y)
	}
	columns := ""
	for _, c := range "abcdef" {
		columns += fmt.Sprintf(`, {"name": "%c", "min": -4, "max": 4}`, c)
	}
	data := readTable(t, fmt.Sprintf(`{ "schema": 1, "intercept": true, "records": %d, "neighbors": "add-remove",
	  "label": {"column": "y", "positive": ["1"], "negative": ["0"]}, "columns": [%s] }`, n, columns[2:]), text.String())
	for _, eps := range []float64{1, 3, 10} {
		for seed := range uint64(4) {
			m, err := Fit(t.Context(), data, dp.Budget{Epsilon: eps, Delta: 1e-8}, &Options{Source: noise.Reproducible(seed)})
			require.NoError(t, err)
			s, err := m.Score(data)
			require.NoError(t, err)
			require.Less(t, s.LogLoss, 1.05*truth, "ε = %v", eps)
		}
	}
}

// TestAutomaticChecksRange checks that bounds for which coefficients may leave the range of float64
// are refused before noise is drawn, because they are public.
func TestAutomaticChecksRange(t *testing.T) {
	rows, labels := make([][]float64, 300), make([]float64, 300)
	for i := range rows {
		rows[i] = make([]float64, 4)
	}
	for _, name := range []string{Squares, Logistic} {
		for _, row := range []float64{1e-160, 1e-100, 1, 1e100, 1e155} {
			data, err := erm.NewData(rows, labels, loss.Bounds{Row: row, Label: max(row, 1)})
			require.NoError(t, err)
			m, err := Fit(context.Background(), &table.Data{Records: data}, dp.Budget{Epsilon: 0.1, Delta: 1e-5},
				&Options{Loss: Loss{Name: name}})
			if err == nil {
				require.Equal(t, theoremGradients, m.Certificate().Theorem)
			} else {
				require.NotEqual(t, 1., row)
				require.True(t, errors.Is(err, dp.ErrCondition) || errors.Is(err, erm.ErrProblem), "%v", err)
			}
		}
	}
}

// TestWrongCount: under add-remove a table may have four times the declared number of records, or
// far fewer, and the fit is about the same.
func TestWrongCount(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	const n = 8000
	var b strings.Builder
	b.WriteString("x,l,y,z\n")
	for range n {
		x, l := rnd.Float64(), rnd.IntN(2)
		y := 4*x + 2*float64(l) - 3
		fmt.Fprintf(&b, "%.3f,%c,%v,%.3f\n", x, 'a'+l, rnd.Float64() < 1/(1+math.Exp(-y)), y+rnd.NormFloat64())
	}
	for _, label := range []string{`"column": "y", "positive": ["true"], "negative": ["false"]`,
		`"column": "z", "min": -10, "max": 10`} {
		for _, declared := range []int{n/4 + 50, n / 2, n, 4 * n} {
			s, err := table.ReadSchema(strings.NewReader(fmt.Sprintf(`{"schema": 1, "records": %d, "neighbors": "add-remove",
				"intercept": true, "label": {%s}, "columns": [{"name": "x", "min": 0, "max": 1},
				{"name": "l", "levels": ["a", "b"]}, {"name": "%s", "ignore": true}]}`,
				declared, label, map[bool]string{true: "z", false: "y"}[strings.Contains(label, "true")])))
			require.NoError(t, err)
			data, err := table.ReadCSV(strings.NewReader(b.String()), s)
			require.NoError(t, err)
			for seed := range uint64(3) {
				m, err := Fit(t.Context(), data, dp.Budget{Epsilon: 2, Delta: 1e-8}, &Options{Source: dp.Seeded(seed)})
				require.NoError(t, err)
				for i, want := range []float64{-3, 4, 0, 2} {
					require.InDelta(t, want, m.Coefficients()[i].Value, 0.9, "%s, %d declared: %v", label, declared, m.Coefficients())
				}
			}
		}
	}
}

// TestWideRange checks that one range declared 10 or 100 times too wide costs little, for the
// automatic fit.
func TestWideRange(t *testing.T) {
	if testing.Short() {
		t.Skip("four fits of 20,000 records")
	}
	rnd := rand.New(rand.NewPCG(4, 4))
	var b strings.Builder
	b.WriteString("size,district,rent\n")
	for range 20000 {
		size, k := math.Round(20+100*rnd.Float64()), rnd.IntN(3)
		rent := 200 + 10*size + []float64{0, 150, -100}[k] + 150*rnd.NormFloat64()
		fmt.Fprintf(&b, "%v,%s,%.0f\n", size, []string{"center", "river", "hills"}[k], rent)
	}
	for _, c := range []struct{ wide, want float64 }{{1, 0.8}, {10, 0.79}, {100, 0.79}} {
		s, err := table.ReadSchema(strings.NewReader(fmt.Sprintf(`{ "schema": 1, "records": 20000,
		  "label": {"column": "rent", "min": 0, "max": 2000}, "columns": [
		  {"name": "size", "min": %v, "max": %v}, {"name": "district", "levels": ["center", "river", "hills"]} ] }`,
			20-50*(c.wide-1), 120+50*(c.wide-1))))
		require.NoError(t, err)
		data, err := table.ReadCSV(strings.NewReader(b.String()), s)
		require.NoError(t, err)
		for _, rel := range []dp.Relation{dp.AddRemove, dp.Replace} {
			mean := 0.0
			seeds := testkit.Of(1, 4)
			for seed := range uint64(seeds) {
				m, err := Fit(t.Context(), data, dp.Budget{Epsilon: 1, Delta: DefaultDelta(20000)},
					&Options{Relation: rel, Source: noise.Reproducible(seed, "wide")})
				require.NoError(t, err)
				score, err := m.Score(data)
				require.NoError(t, err)
				mean += score.R2 / float64(seeds)
			}
			t.Logf("%v: %v times too wide: R² %.4f", rel, c.wide, mean)
			if rel == dp.AddRemove {
				require.GreaterOrEqual(t, mean, c.want)
			}
		}
	}
}

// TestAutomaticPenalties: with every penalty and set, the fit is in the set, and its objective is
// near the minimum for these records.
func TestAutomaticPenalties(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 1))
	const n = 8000
	var b strings.Builder
	b.WriteString("x,z,k,y\n")
	for range n {
		x, z, k := rnd.Float64(), rnd.Float64(), rnd.IntN(3)
		fmt.Fprintf(&b, "%.4f,%.4f,%c,%.4f\n", x, z, 'a'+k, 1+3*x-2*z+float64(k)+0.5*rnd.NormFloat64())
	}
	data := readTable(t, fmt.Sprintf(`{"schema": 1, "intercept": true, "records": %d, "neighbors": "add-remove",
	  "label": {"column": "y", "min": -4, "max": 8}, "columns": [{"name": "x", "min": 0, "max": 2},
	  {"name": "z", "min": -3, "max": 1}, {"name": "k", "levels": ["a", "b", "c"]}]}`, n), b.String())
	for _, o := range []Options{{Penalty: Penalty{Ridge: 0.01}}, {Penalty: Penalty{Lasso: 0.01}},
		{Penalty: Penalty{Group: 0.02}}, {Set: Set{Name: Box, Size: 0.2}}, {Set: Set{Name: Ball, Size: 0.4}},
		{Set: Set{Name: Simplex}}, {Set: Set{Name: NonNegative}},
		{Penalty: Penalty{Lasso: 0.01}, Set: Set{Name: NonNegative}}} {
		o.Source = noise.Reproducible(2)
		m, err := Fit(t.Context(), data, dp.Budget{Epsilon: 3, Delta: 1e-8}, &o)
		require.NoError(t, err)
		require.Equal(t, theoremGradients, m.Certificate().Theorem)
		task, err := newTask(data, &o)
		require.NoError(t, err)
		p := splitting.Problem{F: task.problem.Perturb(erm.Perturbation{}), G: task.problem.Reg}
		if task.problem.Set != nil {
			p.H = task.problem.Set
		}
		best, err := splitting.Minimize(t.Context(), p, make([]float64, len(m.theta)), nil)
		require.NoError(t, err)
		objective := func(theta []float64) float64 {
			v := p.F.Func(theta)
			for _, part := range []prox.Operator{p.G, p.H} {
				if part != nil {
					v += part.Func(theta)
				}
			}
			return v
		}
		least, most := objective(best.X), objective(make([]float64, len(m.theta)))
		if math.IsInf(most, 1) { // a simplex has no 0
			most = p.F.Func(make([]float64, len(m.theta)))
		}
		require.Less(t, (objective(m.theta)-least)/(most-least), 0.02, "%+v %+v", o.Penalty, o.Set)
	}
}
