// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/table"
)

// crowd returns data of n persons with k lines each, all with equal lines if equal is set, and the
// data of one line of each.
func crowd(t *testing.T, n, k int, equal bool, w erm.Weighting) (people, single *erm.Data) {
	rnd := rand.New(rand.NewPCG(uint64(n), uint64(k)))
	bounds := loss.Bounds{Row: 1, Label: 1}
	b, err := erm.NewBuilder(2, false, bounds)
	require.NoError(t, err)
	one, err := erm.NewBuilder(2, false, bounds)
	require.NoError(t, err)
	for i := range n {
		var a []float64
		var y float64
		for j := range k {
			if j == 0 || !equal {
				a, y = []float64{rnd.Float64() - 0.5, rnd.Float64() - 0.5}, 2*rnd.Float64()-1
			}
			b.Add(a, y)
			b.ID(string(rune('a' + i)))
		}
		one.Add(a, y)
	}
	people, err = b.ByPerson(t.Context(), erm.Persons{Rows: max(k, 2), Weights: w})
	require.NoError(t, err)
	return people, one.Data()
}

// A person whose lines are equal adds to the sums what the one line does, to a unit of the grid; a
// person that is added moves them by no more than a record, however long its lines.
func TestSumsOfPersons(t *testing.T) {
	theta := []float64{0.5, -1}
	most := [2]float64{0.25, 1}
	var exponent [2]int
	var sensitivity [2]float64
	for k, v := range most {
		sensitivity[k], exponent[k] = sumSensitivity(v, 1, 2)
	}
	for _, k := range []int{1, 3, 7} {
		people, single := crowd(t, 20, k, true, erm.PersonsEqual)
		got, err := sums(t.Context(), people, theta, loss.Logistic{}, most, exponent)
		require.NoError(t, err)
		want, err := sums(t.Context(), single, theta, loss.Logistic{}, most, exponent)
		require.NoError(t, err)
		for i := range want {
			for j := range want[i] {
				require.InDelta(t, want[i][j], got[i][j], 20)
			}
		}
	}
	for _, w := range []erm.Weighting{erm.PersonsEqual, erm.LinesEqual} {
		alone, _ := crowd(t, 1, 5, false, w)
		for _, clip := range []float64{1, 1e-3} { // lines beyond the bounds are clamped
			bounds := [2]float64{clip * most[0], clip * most[1]}
			sum, err := sums(t.Context(), alone, theta, loss.Logistic{}, bounds, exponent)
			require.NoError(t, err)
			for i, v := range sum {
				x := make([]float64, len(v))
				for j, c := range v {
					x[j] = math.Ldexp(float64(c), exponent[i])
				}
				require.LessOrEqual(t, floats.Norm(x, 2), clip*most[i]+sensitivity[i]-most[i])
				require.Positive(t, floats.Norm(x, 2))
			}
		}
	}
}

// The matrix of gradients has what lines of a person have in common, which that of single lines has
// not: two opposite gradients cancel.
func TestGradientsOfAPerson(t *testing.T) {
	b, err := erm.NewBuilder(1, false, loss.Bounds{Row: 1, Label: 1})
	require.NoError(t, err)
	for _, y := range []float64{1, -1} {
		b.Add([]float64{1}, y)
		b.ID("a")
	}
	data, err := b.ByPerson(t.Context(), erm.Persons{Rows: 2})
	require.NoError(t, err)
	sum, err := sums(t.Context(), data, []float64{0}, loss.Logistic{}, [2]float64{0.25, 1}, [2]int{-20, -20})
	require.NoError(t, err)
	require.Zero(t, sum[1][0])
	require.EqualValues(t, 1<<18, sum[0][0], "½·¼ + ½·¼")
}

// Counts of a person add up to at most 1 and miss it by less than a unit for each bin.
func TestCountsOfPersons(t *testing.T) {
	for _, k := range []int{1, 3, 10, 1000} {
		people, _ := crowd(t, 10, k, false, erm.PersonsEqual)
		for _, exponent := range []int{0, -5, -30} {
			counts := make([]int64, 3)
			i := 0
			require.NoError(t, personCounts(t.Context(), people, counts, exponent, func([]float64, float64) int {
				i++
				return i % 3
			}))
			total := math.Ldexp(float64(counts[0]+counts[1]+counts[2]), exponent)
			require.LessOrEqual(t, total, 10.0)
			require.GreaterOrEqual(t, total, 10-30*math.Ldexp(1, exponent))
		}
	}
}

// flats returns a table of n persons with up to 8 lines each: y = 1 + x + 2z + an effect of the
// person + an error, where z is the same in all lines of a person.
func flats(t *testing.T, rnd *rand.Rand, n int, persons string) *table.Data {
	s, err := table.ReadSchema(strings.NewReader(`{ "schema": 1, "intercept": true, "person": "who", ` + persons + `,
	  "label": {"column": "y", "min": -8, "max": 8},
	  "columns": [{"name": "x", "min": -1, "max": 1}, {"name": "z", "min": -1, "max": 1}] }`))
	require.NoError(t, err)
	var b strings.Builder
	b.WriteString("who,x,z,y\n")
	for i := range n {
		z, own := 2*rnd.Float64()-1, rnd.NormFloat64()
		for range 1 + rnd.IntN(8) {
			x := 2*rnd.Float64() - 1
			fmt.Fprintf(&b, "%d,%v,%v,%v\n", i, x, z, 1+x+2*z+own+0.5*rnd.NormFloat64())
		}
	}
	data, err := table.ReadCSV(strings.NewReader(b.String()), s)
	require.NoError(t, err)
	return data
}

// TestIntervalsOfPersons checks that intervals hold the truth although the lines of a person are
// alike, under both relations, and that the model says whom it is about.
func TestIntervalsOfPersons(t *testing.T) {
	rnd, hits := rand.New(rand.NewPCG(3, 4)), map[string]float64{}
	runs := testkit.Of(20, 100, 1000)
	const n = 3000
	for i := range runs {
		m, err := Fit(t.Context(), flats(t, rnd, n, `"rows": 6`), dp.Budget{Epsilon: 2, Delta: 1e-7}, &Options{
			Intervals: &Intervals{}, Clip: 1, Relation: []dp.Relation{dp.Replace, dp.AddRemove}[i%2], Records: n,
			Source: noise.Reproducible(uint64(i)),
		})
		require.NoError(t, err)
		require.Equal(t, 6, m.Certificate().Rows)
		require.Equal(t, n, m.Params().Records)
		require.Contains(t, m.Certificate().Assumptions, erm.OneID)
		for _, r := range m.Summary().Rows {
			if v := r.Interval; !v.Weak && v.Lower <= map[string]float64{"(intercept)": 1, "x": 1, "z": 2}[r.Name] &&
				v.Upper >= map[string]float64{"(intercept)": 1, "x": 1, "z": 2}[r.Name] {
				hits[r.Name]++
			}
		}
		if i < 2 {
			var file bytes.Buffer
			require.NoError(t, m.Save(&file))
			again, err := Load(bytes.NewReader(file.Bytes()))
			require.NoError(t, err)
			require.Equal(t, m.Summary(), again.Summary())
			const rows = `"rows": 6`
			require.Equal(t, 3, strings.Count(file.String(), rows)) // certificate, plan and schema
			for rest, k := file.String(), 0; k < 3; k++ {
				at := len(file.String()) - len(rest) + strings.Index(rest, rows)
				_, err = Load(strings.NewReader(file.String()[:at] + `"rows": 7` + file.String()[at+len(rows):]))
				require.ErrorIs(t, err, ErrFile)
				require.ErrorContains(t, err, "one number of lines of a person")
				rest = file.String()[at+len(rows):]
			}
		}
	}
	for name, k := range hits {
		share := k / float64(runs)
		t.Logf("%s: %.3f", name, share)
		require.Greater(t, share, 0.945-4.9*math.Sqrt(0.05*0.95/float64(runs)), name)
	}
	require.Len(t, hits, 3)
}

// TestNobody: a table without a single id has no persons, whose number is public under replace.
func TestNobody(t *testing.T) {
	data := flats(t, rand.New(rand.NewPCG(1, 2)), 0, `"rows": 6`)
	_, err := Fit(t.Context(), data, dp.Budget{Epsilon: 1, Delta: 1e-6}, nil)
	require.ErrorIs(t, err, ErrOptions)
	require.ErrorContains(t, err, "no line of the table has the id of a person")
}

// TestPriceOfPersons: a plan of one minimizer under add-remove keeps to both formulas for persons,
// and almost exhausts them; with one line for each person it is the plan for records.
func TestPriceOfPersons(t *testing.T) {
	b := dp.Budget{Epsilon: 1, Delta: 1e-6}
	plan := func(persons string) *Plan {
		s, err := table.ReadSchema(strings.NewReader(`{ "schema": 1, "intercept": true, ` + persons + `
		  "neighbors": "add-remove", "records": 1000, "label": {"column": "y", "positive": ["a"], "negative": ["b"]},
		  "columns": [{"name": "x", "min": -1, "max": 1}] }`))
		require.NoError(t, err)
		pl, err := NewPlan(s, b, &Options{Intervals: &Intervals{}})
		require.NoError(t, err)
		return pl
	}
	pl := plan(`"person": "who", "rows": 6,`)
	q := pl.Params().Sequence
	c, square := q.C, q.Shares.Last*q.Mu*q.Mu
	rest := math.Sqrt(q.Mu*q.Mu - square)
	remove := math.Exp(c/2+square/8) * dp.GaussianDelta(1-c, q.Mu)
	add := math.Exp(square/8)*dp.GaussianDelta(1, q.Mu) + dp.GaussianDelta(1, rest)/2
	require.LessOrEqual(t, max(remove, add), b.Delta)
	require.InEpsilon(t, b.Delta, max(remove, add), 1e-4)
	_, step := pl.minimizer(true, 0, 0, 1000)
	require.InEpsilon(t, pl.smoothness/c, step.Ridge, 1e-9)
	one, records := plan(`"person": "who", "rows": 1,`), plan("")
	require.Equal(t, records.Params().Sequence, one.Params().Sequence)
	require.Equal(t, 1, one.Certificate().Rows)
	require.Less(t, q.Mu, records.Params().Sequence.Mu)
}

// TestClassesOfPersons checks the price of curvature of a pure plan for three classes: a Hessian of
// at most min(m·rank, d) = 6 positive eigenvalues has the trace (1−1/K)X² at most.
func TestClassesOfPersons(t *testing.T) {
	s, err := table.ReadSchema(strings.NewReader(`{ "schema": 1, "intercept": true, "person": "who", "rows": 6,
	  "records": 1000, "label": {"column": "y", "levels": ["a", "b", "c"]},
	  "columns": [{"name": "x", "min": -1, "max": 1}] }`))
	require.NoError(t, err)
	pl, err := NewPlan(s, dp.Budget{Epsilon: 1}, nil)
	require.NoError(t, err)
	r := pl.Params().Release
	require.Equal(t, "lop.persons-pure/1", r.Theorem)
	require.Equal(t, 6, r.Dim)
	x := pl.Params().Bounds.Row
	require.InEpsilon(t, 6*math.Log1p((1-1./3)*x*x/(6*r.Ridge)), r.Curvature, 1e-9)
	require.InEpsilon(t, 0.99, r.Curvature+2*r.Rate*r.Lipschitz, 1e-9, "the share of ε of the objective")
	require.NotContains(t, pl.String(), "records")
}

// TestSquaresOfPersons checks that least squares with an automatic clip are planned for persons,
// and estimate the average person or the average line. With lines of weight 1/30 all weights add
// up to about 750, not to the 5000 persons; the share of clipped slopes follows from the sum.
func TestSquaresOfPersons(t *testing.T) {
	for persons, total := range map[string]float64{`"rows": 6`: 5000, `"rows": 30, "weights": "rows"`: 750} {
		data := flats(t, rand.New(rand.NewPCG(5, 6)), 5000, persons)
		m, err := Fit(t.Context(), data, dp.Budget{Epsilon: 2, Delta: 1e-7}, &Options{Source: noise.Reproducible(1)})
		require.NoError(t, err)
		require.Equal(t, theoremGradients, m.Certificate().Theorem)
		for k, want := range []float64{1, 1, 2} {
			require.InDelta(t, want, m.Coefficients()[k].Value, 0.3, persons)
		}
		m, err = Fit(t.Context(), data, dp.Budget{Epsilon: 2, Delta: 1e-7},
			&Options{Intervals: &Intervals{}, Source: noise.Reproducible(1)})
		require.NoError(t, err)
		s, c := m.Params().Sequence, m.Choice()
		require.True(t, s.TwoStep)
		require.Less(t, c.FirstClip, 0.8)
		for k, want := range []float64{1, 1, 2} {
			require.InDelta(t, want, m.Coefficients()[k].Value, 0.3)
		}
		unit := 2 / (math.Sqrt(s.Shares.Last) * s.Mu)
		clipped := max(20*unit*math.Sqrt(3)/total, 0.02)
		require.InEpsilon(t, clipped, c.Clipped, 0.2, persons)
	}
}
