// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

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
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/table"
)

// wideSchema returns a schema with columns x0, x1, … of the given ranges.
func wideSchema(records int, rel dp.Relation, label, more string, ranges [][2]float64) string {
	columns := ""
	for j, r := range ranges {
		columns += fmt.Sprintf(`, {"name": "x%d", "min": %v, "max": %v}`, j, r[0], r[1])
	}
	return fmt.Sprintf(`{"schema": 1, "intercept": true, "records": %d, "neighbors": "%v"%s,
	  "label": {"column": "y", %s}, "columns": [%s]}`, records, rel, more, label, columns[2:])
}

// TestSomeColumnsWide: a fit loses hardly any of the signal of columns whose range is far too wide
// on one or both sides beside others, at a small budget, and a column of zeros and rare large
// numbers keeps its units. Without factors more than a quarter is lost.
func TestSomeColumnsWide(t *testing.T) {
	rnd := rand.New(rand.NewPCG(11, 2))
	const n, d = 16000, 9
	ranges := [][2]float64{{-500, 500}, {-4, 500}, {-500, 4}, {-4, 4}, {-50, 50}, {-4, 4}, {-4, 4}, {-4, 4}, {0, 12}}
	effects := []float64{1, -0.8, 0.9, 0.7, -0.9, 0.5, -0.4, 0.6, 0.2}
	var number, class strings.Builder
	head := "x0,x1,x2,x3,x4,x5,x6,x7,x8,"
	number.WriteString(head + "y\n")
	class.WriteString(head + "y\n")
	var signal, zero, truth, rate float64
	for range n {
		score, line := 0.0, ""
		for j := range d {
			x := rnd.NormFloat64()
			if j == d-1 { // a rare large number
				x = math.Max(0, math.Round(20*(x-1.3))/4)
			}
			score += effects[j] * x
			line += fmt.Sprintf("%.4g,", x)
		}
		y, p, label := score+rnd.NormFloat64(), 1/(1+math.Exp(-score)), 0.0
		if rnd.Float64() < p {
			label = 1
		}
		fmt.Fprintf(&number, "%s%.4g\n", line, y)
		fmt.Fprintf(&class, "%s%v\n", line, label)
		signal += (y - score) * (y - score) / n
		zero += y * y / n
		truth -= math.Log(math.Abs(1-label-p)) / n
		rate += label / n
	}
	base := -rate*math.Log(rate) - (1-rate)*math.Log1p(-rate)
	for _, c := range []struct{ label, text string }{{`"min": -12, "max": 12`, number.String()},
		{`"positive": ["1"], "negative": ["0"]`, class.String()}} {
		data := readTable(t, wideSchema(n, dp.AddRemove, c.label, "", ranges), c.text)
		seeds, lost := testkit.Of(2, 6), 0.0
		for seed := range uint64(seeds) {
			m, err := Fit(t.Context(), data, dp.Budget{Epsilon: 0.3, Delta: 1e-8},
				&Options{Source: noise.Reproducible(seed, "wide")})
			require.NoError(t, err)
			s, err := m.Score(data)
			require.NoError(t, err)
			if m.params.Loss.Name == Squares {
				lost += (s.RMSE*s.RMSE - signal) / (zero - signal) / float64(seeds)
			} else {
				lost += (s.LogLoss - truth) / (base - truth) / float64(seeds)
			}
		}
		t.Logf("%s: %.4f of the signal lost", c.label, lost)
		require.Less(t, lost, 0.05, c.label)
	}
}

// TestWideColumnsSpend: given the same outputs, the sums of tables with columns too wide differ by
// no more than the noise allows, and by nearly as much in the releases that find the factors: half
// of their noise would be too little. Every round is made. Records and persons are added, removed
// and replaced.
func TestWideColumnsSpend(t *testing.T) {
	const d = 6
	ranges := [d][2]float64{{-1, 1}, {-1, 1}, {-200, 200}, {-1, 300}, {-300, 1}, {-1000, 1000}}
	for _, rel := range []dp.Relation{dp.AddRemove, dp.Replace} {
		for _, person := range []string{"", `, "person": "who", "rows": 2`} {
			rnd := rand.New(rand.NewPCG(4, 5))
			const n = 1500
			line := func(who int, x func(j int) float64, y float64) string {
				out := fmt.Sprint(who)
				for j := range ranges {
					out += fmt.Sprintf(",%.4f", x(j))
				}
				return fmt.Sprintf("%s,%v\n", out, y)
			}
			common := "who,x0,x1,x2,x3,x4,x5,y\n"
			for who := range n - 1 {
				for range 1 + who%2 {
					common += line(who, func(int) float64 { return rnd.NormFloat64() / 3 }, rnd.Float64())
				}
			}
			far := func(end int) string {
				return line(n, func(j int) float64 { return ranges[j][end] }, 1)
			}
			texts := [2]string{common + far(1), common}
			if rel == dp.Replace {
				texts[1] += line(n, func(int) float64 { return 0 }, 0)
			}
			if person != "" {
				texts[0] += far(0)
			}
			schema := wideSchema(n, rel, `"min": -1, "max": 1`, person, ranges[:])
			if person == "" {
				schema = strings.Replace(schema, `"columns": [`, `"columns": [{"name": "who", "ignore": true}, `, 1)
			}
			var data [2]*table.Data
			for i, text := range texts {
				data[i] = readTable(t, schema, text)
			}
			task, err := newTask(data[0], &Options{Relation: rel})
			require.NoError(t, err)
			pl, err := task.plan(dp.Budget{Epsilon: 2, Delta: 1e-6})
			require.NoError(t, err)
			all := uses(t, pl, [2]*erm.Data{data[0].Records, data[1].Records}, 3, nil)
			total, matrix := 0.0, slices.IndexFunc(all, func(u use) bool { return u.terms == d*(d+1)/2 })
			for _, u := range all {
				total += u.square
			}
			require.LessOrEqual(t, total, math.Pow(pl.params.Sequence.Mu, 2))
			// Logarithms, ends, two times new centers and a closer look, and a histogram of norms.
			looks := all[matrix-7 : matrix-1]
			require.Equal(t, d, looks[0].terms)
			require.Equal(t, []int{2 * looks[2].terms, 2 * looks[4].terms}, []int{looks[3].terms, looks[5].terms})
			if person == "" {
				for _, u := range looks {
					require.Greater(t, u.part, map[dp.Relation]float64{dp.AddRemove: 0.9, dp.Replace: 0.45}[rel])
				}
				require.Greater(t, min(looks[0].part, looks[1].part, looks[3].part, looks[5].part), 0.51, "half the noise would do")
			}
		}
	}
}

// TestCountsKeepUnits: columns that are mostly 0, the end of their range, look too wide and are
// not: what is not 0 may use all of the range. With factors the fit is worse than a constant.
func TestCountsKeepUnits(t *testing.T) {
	rnd := rand.New(rand.NewPCG(6, 3))
	const n, d = 10000, 6
	var ranges [d][2]float64
	var text strings.Builder
	var signal, mean, square float64
	for j := range d {
		ranges[j][1] = 25
	}
	text.WriteString("x0,x1,x2,x3,x4,x5,y\n")
	for range n {
		y := 0.5 * rnd.NormFloat64()
		signal += y * y / n
		for j := range d {
			rate, x := 0.02*math.Pow(1.6, float64(j)), 0.0
			for rnd.Float64() < rate/(1+0.5*x) {
				x++
			}
			y += x / math.Sqrt(rate)
			fmt.Fprintf(&text, "%v,", x)
		}
		fmt.Fprintf(&text, "%.4g\n", y)
		mean += y / n
		square += y * y / n
	}
	data := readTable(t, wideSchema(n, dp.AddRemove, `"min": -5, "max": 30`, "", ranges[:]), text.String())
	for seed := range uint64(2) {
		m, err := Fit(t.Context(), data, dp.Budget{Epsilon: 3, Delta: 1e-8},
			&Options{Source: noise.Reproducible(seed, "counts")})
		require.NoError(t, err)
		s, err := m.Score(data)
		require.NoError(t, err)
		require.Less(t, (s.RMSE*s.RMSE-signal)/(square-mean*mean-signal), 0.05)
	}
}
