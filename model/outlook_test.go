// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/stat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/table"
)

// twoCategories returns a schema and the text of a table of two categories and n lines.
func twoCategories(n int, rnd *rand.Rand) (schema, text string) {
	levels := []int{2 + rnd.IntN(4), 2 + rnd.IntN(4)}
	effects := [2][]float64{}
	var list [2][]string
	for j, k := range levels {
		for i := range k {
			list[j] = append(list[j], fmt.Sprintf("%q", string(rune('a'+i))))
			effects[j] = append(effects[j], 8*rnd.NormFloat64())
		}
	}
	var b strings.Builder
	b.WriteString("who,one,two,y\n")
	for i := range n {
		one, two := rnd.IntN(levels[0]), rnd.IntN(levels[1])
		y := 50 + effects[0][one] + effects[1][two] + 12*rnd.NormFloat64()
		fmt.Fprintf(&b, "%d,%c,%c,%.3f\n", i/2, 'a'+one, 'a'+two, min(max(y, 0), 100))
	}
	return fmt.Sprintf(`{"schema": 1, "intercept": true, "label": {"column": "y", "min": 0, "max": 100}, "columns": [
		{"name": "one", "levels": [%s]}, {"name": "two", "levels": [%s]}, {"name": "who", "ignore": true}]`,
		strings.Join(list[0], ", "), strings.Join(list[1], ", ")), b.String()
}

// TestOutlook compares the forecast of deviations with those over 40 fits, for records and persons,
// with and without intervals, and bounds the deviations by the label's.
func TestOutlook(t *testing.T) {
	rnd := rand.New(rand.NewPCG(21, 22))
	for run := range testkit.Of(1, 4, 20) {
		const n = 8000
		head, text := twoCategories(n, rnd)
		persons, intervals := run/2%2 == 1, run%2 == 1
		records := n
		if persons {
			head += `, "person": "who", "rows": 2`
			records /= 2
		}
		s, err := table.ReadSchema(strings.NewReader(head + fmt.Sprintf(`, "records": %d}`, records)))
		require.NoError(t, err)
		o := &Options{}
		if intervals {
			o.Intervals = &Intervals{}
			s.References()
		}
		data, err := table.ReadCSV(strings.NewReader(text), s)
		require.NoError(t, err)
		var labels []float64
		require.NoError(t, data.Records.Each(func(_ []float64, b float64) { labels = append(labels, 50*b) }))
		deviation := stat.StdDev(labels, nil)
		b := dp.Budget{Epsilon: 1, Delta: DefaultDelta(records)}
		pl, err := NewPlan(s, b, o)
		require.NoError(t, err)
		look, err := pl.Outlook(t.Context(), 0, 0)
		require.NoError(t, err)
		require.LessOrEqual(t, compareForecast(t, look, data, b, o), 0.3*deviation)
		require.False(t, look.Useless())
	}
}

// TestUselessOutlook: a plan for few records says how many are enough, and a plan for as many as
// that, or with so large an ε, is not useless.
func TestUselessOutlook(t *testing.T) {
	head, _ := twoCategories(0, rand.New(rand.NewPCG(21, 22)))
	look := func(records int, eps float64) Outlook {
		s, err := table.ReadSchema(strings.NewReader(head + fmt.Sprintf(`, "records": %d}`, records)))
		require.NoError(t, err)
		pl, err := NewPlan(s, dp.Budget{Epsilon: eps, Delta: 1e-6}, nil)
		require.NoError(t, err)
		out, err := pl.Outlook(t.Context(), 4, 0)
		require.NoError(t, err)
		return out
	}
	bad := look(100, 0.5)
	require.True(t, bad.Useless())
	require.Greater(t, bad.EnoughRecords, 200.)
	require.Greater(t, bad.EnoughEpsilon, 1.)
	require.Greater(t, bad.Records, 200.)
	require.False(t, look(int(bad.EnoughRecords), 0.5).Useless())
	require.False(t, look(100, bad.EnoughEpsilon).Useless())
}

// TestOutlookOfLittleNoise: no forecast is 0, however little the noise of a few fits moves
// predictions.
func TestOutlookOfLittleNoise(t *testing.T) {
	s, err := table.ReadSchema(strings.NewReader(`{"schema": 1, "records": 20000,
		"label": {"column": "rent", "min": 0, "max": 2000}, "columns": [{"name": "size", "min": 20, "max": 120},
		{"name": "district", "levels": ["center", "river", "hills"]}]}`))
	require.NoError(t, err)
	for _, eps := range []float64{2, 3, 4, 5, 6} {
		pl, err := NewPlan(s, dp.Budget{Epsilon: eps, Delta: 2.5e-9}, &Options{Intervals: &Intervals{}})
		require.NoError(t, err)
		out, err := pl.Outlook(t.Context(), 2, 0)
		require.NoError(t, err)
		require.Greater(t, out.Prediction, out.Chance/100, "%v", eps)
		require.Positive(t, out.Lost)
		require.Positive(t, out.Records)
	}
}

// TestOutlookOfEverything: an outlook exists for every form of column, label and loss.
func TestOutlookOfEverything(t *testing.T) {
	columns := `"intercept": true, "missing": ["?"], "columns": [
		{"name": "n", "min": -3, "max": 5, "missing": true, "other": true}, {"name": "b", "min": 0, "max": 9, "bins": [2, 5]},
		{"name": "d", "date": "2006-01-02", "min": 0, "max": 9000}, {"name": "l", "levels": ["a", "b,c", "\""], "other": true,
		"missing": true}, {"name": "x", "cross": ["b", "l"]}, {"name": "i", "ignore": true}]`
	for _, label := range []string{`"min": 1, "max": 2`, `"positive": ["p"], "negative": ["q"]`,
		`"levels": ["u", "v", "w"]`} {
		for _, person := range []string{"", `"person": "i", "rows": 9, `} {
			text := fmt.Sprintf(`{"schema": 1, "records": 400, %s"label": {"column": "y", %s}, %s}`, person, label, columns)
			s, err := table.ReadSchema(strings.NewReader(text))
			require.NoError(t, err)
			for _, o := range []*Options{nil, {Penalty: Penalty{Lasso: 0.001}},
				{Relation: dp.AddRemove, Loss: Loss{Name: SVM}}} {
				if o != nil && o.Loss.Name == SVM && s.Label.Positive == nil || strings.Contains(label, "levels") && person != "" {
					continue
				}
				pl, err := NewPlan(s, dp.Budget{Epsilon: 2, Delta: 1e-6}, o)
				require.NoError(t, err)
				out, err := pl.Outlook(t.Context(), 2, 0)
				require.NoError(t, err, text)
				require.Greater(t, out.Prediction, 0.)
				require.False(t, math.IsNaN(out.Lost+out.Records+out.Chance))
			}
		}
	}
}

// TestOutlookOfClasses: what is common to the scores of all classes is noise alone, whatever the
// budget, and changes no prediction. Less noise has to take less.
func TestOutlookOfClasses(t *testing.T) {
	s, err := table.ReadSchema(strings.NewReader(`{"schema": 1, "records": 3000, "intercept": true,
		"label": {"column": "job", "levels": ["nurse", "pilot", "baker"]},
		"columns": [{"name": "age", "min": 20, "max": 80}, {"name": "pays", "levels": ["yes", "no"]}]}`))
	require.NoError(t, err)
	last := math.Inf(1)
	for _, epsilon := range []float64{0.1, 1, 10} {
		pl, err := NewPlan(s, dp.Budget{Epsilon: epsilon, Delta: 1e-7}, &Options{})
		require.NoError(t, err)
		look, err := pl.Outlook(t.Context(), 2, 0)
		require.NoError(t, err)
		require.Less(t, look.Lost, last/10, "ε = %v", epsilon)
		last = look.Lost
	}
	require.Less(t, last, 0.01)
}

// TestRoughOutlook: with many parameters and intervals, minimizers of a simulation are not solved.
// The noise that predictions get is about the same.
func TestRoughOutlook(t *testing.T) {
	for _, label := range []string{`"min": 0, "max": 100`, `"positive": ["1"], "negative": ["0"]`} {
		columns := ""
		for j := range roughDim + 10 {
			columns += fmt.Sprintf(`, {"name": "x%d", "min": -4, "max": 4}`, j)
		}
		s, err := table.ReadSchema(strings.NewReader(fmt.Sprintf(`{"schema": 1, "records": 20000, "intercept": true,
			"label": {"column": "y", %s}, "columns": [%s]}`, label, columns[2:])))
		require.NoError(t, err)
		for _, eps := range []float64{2, 8} {
			pl, err := NewPlan(s, dp.Budget{Epsilon: eps, Delta: 1e-8}, &Options{Intervals: &Intervals{}})
			require.NoError(t, err)
			var moved []float64
			for _, solved := range []bool{false, true} {
				sim, err := pl.simulation(3, 0.5, nil)
				require.NoError(t, err)
				require.NotNil(t, sim.rough)
				if solved {
					sim.rough = nil
				}
				look, err := sim.run(t.Context(), 1, 3)
				require.NoError(t, err)
				moved = append(moved, look.Prediction)
			}
			t.Logf("%s ε = %v: %.3g", label, eps, moved)
			require.InDelta(t, 0, math.Log(moved[0]/moved[1]), math.Log(1.6), "%s ε = %v: %v", label, eps, moved)
		}
	}
}

// TestIntervalsOfLittleNoise: with intervals, too, a larger ε means less noise, however large it
// is.
func TestIntervalsOfLittleNoise(t *testing.T) {
	f := foreseen{"n3", 1000, 0.5, dp.Replace, false, true, 0}
	head, text := f.made(rand.New(rand.NewPCG(5, 6)))
	s, err := table.ReadSchema(strings.NewReader(head))
	require.NoError(t, err)
	data, err := table.ReadCSV(strings.NewReader(text), s)
	require.NoError(t, err)
	last := 0.2
	for _, eps := range []float64{50, 200, 1000} {
		var values []float64
		for seed := range uint64(6) {
			m, err := Fit(t.Context(), data, dp.Budget{Epsilon: eps, Delta: 1e-6},
				&Options{Intervals: &Intervals{}, Source: dp.Seeded(seed)})
			require.NoError(t, err)
			values = append(values, m.Coefficients()[0].Value)
		}
		now := stat.StdDev(values, nil)
		t.Logf("ε = %v: %.3g", eps, now)
		require.Less(t, now, last)
		last = now
	}
}
