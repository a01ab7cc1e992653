// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package score

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/model"
	"github.com/privopt/privopt/table"
)

// hostileLine is a prediction of two models and a label, of values that are hard to count.
func hostileLine(rnd *rand.Rand, m *model.Model) (p, q model.Prediction, label float64) {
	of := scoredBy(m)
	draw := func() model.Prediction {
		v := []float64{0, 1, 0.5, rnd.Float64(), math.NaN(), 1e-300, 0.9995}[rnd.IntN(7)]
		p := model.Prediction{Score: 2*v - 1}
		if of.loss == model.Logistic || of.loss == model.Multinomial {
			p.Probabilities = []float64{1 - v, v}
			for len(p.Probabilities) < of.classes() {
				p.Probabilities = append(p.Probabilities, 0)
			}
		}
		if of.loss == model.Multinomial {
			p.Class = rnd.IntN(of.classes())
		}
		return p
	}
	return draw(), draw(), []float64{-1, 1, 0, 0.3, float64(of.classes() - 1), math.NaN(), math.Inf(1)}[rnd.IntN(7)]
}

// TestScoreOfPersonsSensitivity: no two persons with up to 1024 hostile lines, and no person and
// none, are further apart in any block than its sensitivity, and every person counts 1 in all.
func TestScoreOfPersonsSensitivity(t *testing.T) {
	rnd := rand.New(rand.NewPCG(14, 15))
	two, svm := ofPersons(t, model.Logistic, 2, 1024), ofPersons(t, model.SVM, 2, 1024)
	five, number := ofPersons(t, model.Multinomial, 5, 1024), ofPersons(t, model.Squares, 0, 1024)
	for _, c := range []struct {
		m, against *model.Model
		only       bool
	}{{two, nil, false}, {two, nil, true}, {two, two, false}, {svm, nil, false}, {five, nil, false}, {five, nil, true},
		{number, nil, false}, {number, number, false}} {
		for _, rel := range []dp.Relation{dp.Replace, dp.AddRemove} {
			p, err := NewPlan(c.m, dp.Budget{Epsilon: 50, Delta: 0.1},
				&Options{Relation: rel, Records: 1000, Against: c.against, AccuracyOnly: c.only})
			require.NoError(t, err)
			require.Equal(t, 1024, p.Params().Rows)
			require.NotEmpty(t, p.Forecast(0.3))
			all := map[string][][]int64{}
			for i := range testkit.Of(60, 150, 300) {
				set, err := newTestSet(t.Context(), c.m, c.against)
				require.NoError(t, err)
				lines := []int{1, 1, 2, 3, 7, 1023, 1024}[i%7]
				v := make([]float64, len(set.counts)+len(set.sums))
				first := rnd.IntN(2) == 0 // all lines are equal
				var o judgment
				for k := range lines {
					if k == 0 || !first {
						o = set.judge(hostileLine(rnd, c.m))
					}
					v[o.cell]++
					set.subject.fractions(o, func(i int, steps int64) { v[len(set.counts)+i] += float64(steps) })
				}
				set.addPerson(v[:len(set.counts)], v[len(set.counts):], int64(lines))
				total := int64(0)
				for _, u := range set.counts {
					require.GreaterOrEqual(t, u, int64(0))
					total += u
				}
				require.EqualValues(t, 1<<personBits, total)
				d := &drawn{p: p, t: set}
				if c.m == number {
					d.cap = rnd.IntN(len(sizes))
				}
				for _, k := range p.blocks {
					require.Len(t, d.sums(k.Name), p.lengths()[k.Name], k.Name)
					all[k.Name] = append(all[k.Name], d.sums(k.Name))
				}
			}
			for _, k := range p.blocks {
				step := math.Ldexp(1, k.exponent)
				none := make([]int64, len(all[k.Name][0]))
				for i, v := range all[k.Name] {
					others := [][]int64{none}
					if rel == dp.Replace {
						others = all[k.Name][:i]
					}
					for _, w := range others {
						sum := 0.0
						for j := range v {
							sum += float64(v[j]-w[j]) * float64(v[j]-w[j])
						}
						require.LessOrEqual(t, step*math.Sqrt(sum), k.Sensitivity*(1+1e-12), k.Name)
					}
				}
			}
		}
	}
}

// scoresOfVisits is a table of persons, the lines of one wherever they stand, with the values by
// hand: a model that is sure of x > 0 is right in lines whose y is 1.
func scoresOfVisits(t *testing.T, rows int) (m *model.Model, text string, accuracy float64, persons int) {
	lo, hi := -1.0, 1.0
	s := &table.Schema{Version: 1, Label: table.Label{Column: "y", Positive: []string{"1"}, Negative: []string{"0"}},
		Columns: []table.Column{{Name: "x", Min: &lo, Max: &hi}}, Person: "who", Rows: rows}
	e, err := s.Encoder()
	require.NoError(t, err)
	theta := make([]float64, e.Dim())
	for j, f := range e.Features() {
		if f.Name == "x" {
			theta[j] = 5
		}
	}
	m = made(t, model.Logistic, theta, e.Bounds(), s, rows)
	rnd := rand.New(rand.NewPCG(16, 17))
	lines := []string{"1,1,", "1,0,  ", "0,1,"} // of nobody
	for i := range 800 {
		k := 1 + i%rows
		for j := range k {
			y := rnd.IntN(2)
			accuracy += float64(y) / float64(k)
			lines = append(lines, fmt.Sprintf("%v,%d,p%d", 0.1+0.8*float64(j)/float64(k), y, i))
		}
		persons++
	}
	rnd.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	return m, "x,y,who\n" + strings.Join(lines, "\n") + "\n", accuracy / float64(persons), persons
}

// TestScoreOfPersons: the score of a table of persons is the mean over persons of the means of
// their lines, whatever the order of lines, also if it was read before; a person with more lines
// than Rows counts as much as others; lines of nobody count nowhere.
func TestScoreOfPersons(t *testing.T) {
	m, text, want, n := scoresOfVisits(t, 7)
	for _, rel := range []dp.Relation{dp.Replace, dp.AddRemove} {
		plan, err := NewPlan(m, dp.Budget{Epsilon: 1e4, Delta: 0.1}, &Options{Relation: rel, Records: n})
		require.NoError(t, err)
		require.Equal(t, 7, plan.Certificate().Rows)
		require.Contains(t, plan.Certificate().Assumptions, erm.OneID)
		require.Contains(t, plan.String(), "one person, of which at most 7 count")
		lines := strings.Split(strings.TrimSpace(text), "\n")
		slices.Reverse(lines[1:])
		var sums []*TestSet
		for _, csv := range []string{text, strings.Join(lines, "\n") + "\n"} {
			set, err := ReadCSV(t.Context(), m, strings.NewReader(csv), table.Options{}, nil)
			require.NoError(t, err)
			sums = append(sums, set)
		}
		data, err := table.ReadCSV(strings.NewReader(text), m.Encoder().Schema())
		require.NoError(t, err)
		set, err := Read(t.Context(), m, data, nil)
		require.NoError(t, err)
		sums = append(sums, set)
		for _, set := range sums {
			require.Equal(t, n, set.Records())
			require.Equal(t, sums[0].counts, set.counts)
			require.Equal(t, sums[0].sums, set.sums)
		}
		s, err := plan.Score(silent(t.Context()), set)
		require.NoError(t, err)
		got, ok := s.Metric("accuracy")
		require.True(t, ok)
		require.InDelta(t, want, got.Value, 0x1p-12, "each count of a person is rounded to 2⁻¹²")
		require.InDelta(t, float64(n), s.Records.Value, 1e-6)
		require.Equal(t, 7, s.Certificate.Rows)
	}
	// One person with a thousand more lines moves no count by more than 1.
	before, err := ReadCSV(t.Context(), m, strings.NewReader(text), table.Options{}, nil)
	require.NoError(t, err)
	more := text + strings.Repeat("-1,1,p3\n0.5,?,p3\n,,p3\n", 300)
	after, err := ReadCSV(t.Context(), m, strings.NewReader(more), table.Options{}, nil)
	require.NoError(t, err)
	require.Equal(t, n, after.n)
	for i, c := range after.counts {
		require.LessOrEqual(t, max(c-before.counts[i], before.counts[i]-c), int64(1<<personBits))
	}
	require.NotEqual(t, before.counts, after.counts)
}

// TestScoreOfPersonsUnits: a test set by person and a model of records are refused, and the
// reverse, and other Rows, and two models of different units.
func TestScoreOfPersonsUnits(t *testing.T) {
	b, err := erm.NewBuilder(2, false, loss.Bounds{Row: 1, Label: 1})
	require.NoError(t, err)
	b.Add([]float64{0.1, 0.2}, 1)
	b.ID("a")
	people, err := b.ByPerson(t.Context(), erm.Persons{Rows: 3})
	require.NoError(t, err)
	records, err := erm.NewData([][]float64{{0.1, 0.2}}, []float64{1}, loss.Bounds{Row: 1, Label: 1})
	require.NoError(t, err)
	one, three := unfitted(t, model.Logistic, 2), ofPersons(t, model.Logistic, 2, 3)
	four := ofPersons(t, model.Logistic, 2, 4)
	_, err = Read(t.Context(), three, &table.Data{Records: people}, nil)
	require.NoError(t, err)
	for _, c := range []struct {
		m    *model.Model
		data *erm.Data
	}{{one, people}, {four, people}, {three, records}} {
		_, err := Read(t.Context(), c.m, &table.Data{Records: c.data}, nil)
		require.ErrorIs(t, err, dp.ErrCondition)
	}
	_, err = NewPlan(three, dp.Budget{Epsilon: 1, Delta: 1e-6}, &Options{Records: 1000, Against: one})
	require.ErrorIs(t, err, ErrOptions)
	_, err = NewPlan(three, dp.Budget{Epsilon: 1, Delta: 1e-6}, &Options{Records: mostPersons + 1})
	require.ErrorIs(t, err, ErrOptions)
}

// visit draws a person of a law with effects of persons: all lines have one class, and a score of
// which a share is the same in all lines.
func visit(rnd *rand.Rand, lines int) (p []model.Prediction, label float64) {
	label = -1
	if rnd.Float64() < 0.25 {
		label = 1
	}
	own := rnd.NormFloat64() * math.Sqrt(0.5)
	for range lines {
		s := 0.8*label + own + rnd.NormFloat64()*math.Sqrt(0.5)
		v := 1 / (1 + math.Exp(-1.6*s+math.Log(3)))
		p = append(p, model.Prediction{Score: s, Probabilities: []float64{1 - v, v}})
	}
	return p, label
}

// TestScoreOfPersonsCoverage: intervals of 95 % cover the values of the law, with persons of one to
// ten lines that resemble one another.
func TestScoreOfPersonsCoverage(t *testing.T) {
	m := ofPersons(t, model.Logistic, 2, 10)
	rnd := rand.New(rand.NewPCG(18, 19))
	var p []float64
	var y []bool
	for range testkit.Of(400_000, 2_000_000) { // one line of a person has the law of the mean of them
		at, label := visit(rnd, 1)
		p, y = append(p, at[0].Probabilities[1]), append(y, label > 0)
	}
	n := 4000
	for _, rel := range []dp.Relation{dp.Replace, dp.AddRemove} {
		b := dp.Budget{Epsilon: 1, Delta: model.DefaultDelta(n)}
		coverage(t, testkit.Of(60, 150, 500), m, b, Options{Relation: rel}, exact(p, y), n, rnd, func(set *TestSet) {
			lines, label := visit(rnd, 1+rnd.IntN(10))
			v := make([]float64, len(set.counts)+1)
			for _, at := range lines {
				o := set.judge(at, model.Prediction{}, label)
				v[o.cell]++
				v[len(set.counts)] += float64(o.steps)
			}
			set.addPerson(v[:len(set.counts)], v[len(set.counts):], int64(len(lines)))
		})
	}
}

// TestScoreBends: with the bends and domes, points of a grid are as far apart as without them.
func TestScoreBends(t *testing.T) {
	const u = 1 << personBits
	type point [10]float64
	far := func(points []point, none, two float64) {
		var most [2]float64
		for i, p := range points {
			for j, q := range append(points[:i:i], point{}) {
				sum := 0.0
				for k := range p {
					sum += (p[k] - q[k]) * (p[k] - q[k])
				}
				k := btoi(j == i) // the point of nobody
				most[k] = max(most[k], math.Sqrt(sum)/u)
			}
		}
		require.InDelta(t, two, most[0], 1e-12)
		require.InDelta(t, none, most[1], 1e-12)
	}
	var simplex, shares, lines []point
	const parts = 12
	for a := range parts + 1 {
		for b := range parts + 1 - a {
			for c := range parts + 1 - a - b {
				x := [4]int64{int64(a * u / parts), int64(b * u / parts), int64(c * u / parts)}
				x[3] = u - x[0] - x[1] - x[2]
				p := point{}
				for i, v := range x {
					p[i] = float64(v)
				}
				for k, ij := range pairsOfFour {
					p[4+k] = float64(bend(x[ij[0]], x[ij[1]], personBits, 4*bendFactor))
				}
				simplex = append(simplex, p)
			}
		}
	}
	for l := int64(0); l <= u; l += 1 + 30*int64(btoi(l > 20 && l < u-40)) { // finest at the ends
		shares = append(shares, point{float64(l), float64(bend(l, u-l, personBits, 4*bendFactor))})
		for _, v := range []int64{l, -l} {
			lines = append(lines, point{float64(v), float64(dome(v, personBits))})
		}
	}
	far(simplex, 1, math.Sqrt2)
	far(shares, 1, 1)
	far(lines, 1, 2)
	require.EqualValues(t, 3*u/4*u/4*11/4/u, bend(3*u/4, u/4, personBits, 4*bendFactor))
	require.EqualValues(t, 1<<32, dome(0, 32))
	require.EqualValues(t, 0, dome(-1<<32, 32))
}
