// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/table"
)

// foreseen is a table for which a forecast is compared with fits. Its columns are letters: n for a
// normal number, t for one of a triangular law, u for a uniform one, s for a skewed one, and a
// digit for the number of levels of a category.
type foreseen struct {
	columns   string
	n         int     // records or persons of two lines
	rate      float64 // of the positive label, 0 for a number
	relation  dp.Relation
	persons   bool
	intervals bool
	epsilon   float64
}

var foreseenTables = []foreseen{
	{"n32", 10000, 0.02, dp.AddRemove, false, false, 1},
	{"n3", 4000, 0.05, dp.AddRemove, true, true, 3},
	{"tn35", 20000, 0, dp.AddRemove, false, false, 0.3},
	{"35", 8000, 0.16, dp.Replace, false, false, 1},
	{"35", 8000, 0, dp.Replace, false, false, 1},
	{"35", 20000, 0.05, dp.AddRemove, false, false, 1},
	{"nu", 8000, 0.16, dp.AddRemove, false, false, 0.3},
	{"nu35", 20000, 0.02, dp.Replace, false, false, 3},
	{"nt3", 8000, 0.16, dp.Replace, false, true, 3},
	{"nt3", 20000, 0.05, dp.AddRemove, false, true, 3},
	{"35", 4000, 0.16, dp.Replace, true, false, 1},
	{"nu", 10000, 0.05, dp.AddRemove, true, false, 3},
	{"nt3", 8000, 0, dp.AddRemove, true, true, 1},
	{"nnuu32", 20000, 0.5, dp.Replace, false, false, 0.3},
	{"35", 8000, 0.3, dp.Replace, false, true, 1},
	{"st", 8000, 0, dp.Replace, false, false, 3},
	{"st3", 20000, 0.16, dp.Replace, false, false, 3},
	{"55", 8000, 0, dp.Replace, false, true, 3},
	{"nnnntttt", 20000, 0.16, dp.AddRemove, false, false, 1},
	{"n35", 4000, 0, dp.Replace, true, true, 3},
}

// field returns a field of a column of the table and its effect, of variance about 1.
func (f foreseen) field(kind rune, rnd *rand.Rand) (string, float64) {
	x := 0.0
	switch kind {
	case 'n':
		x = 5 + 2*rnd.NormFloat64()
	case 't':
		x = 5 * (rnd.Float64() + rnd.Float64())
	case 'u':
		x = 10 * rnd.Float64()
	case 's':
		x = 2.2 * rnd.ExpFloat64()
	default:
		k := rnd.IntN(int(kind - '0'))
		return string(rune('a' + k)), math.Sqrt2 * math.Cos(2*math.Pi*float64(k)/float64(kind-'0'))
	}
	x = min(max(x, 0), 10)
	return fmt.Sprintf("%.4g", x), (x - 5) / 2.2
}

// made returns the schema and the text of the table.
func (f foreseen) made(rnd *rand.Rand) (schema, text string) {
	label, person, columns, head, lines := `"min": 0, "max": 100`, `"columns"`, "", "", 1
	if f.rate > 0 {
		label = `"positive": ["1"], "negative": ["0"]`
	}
	if f.persons {
		person, lines = `"person": "who", "rows": 2, "columns"`, 2
	}
	slopes := make([]float64, len(f.columns))
	for j, kind := range f.columns {
		slopes[j] = rnd.NormFloat64()
		head += fmt.Sprintf("%c%d,", kind, j)
		columns += fmt.Sprintf(`{"name": "%c%d", "min": 0, "max": 10}, `, kind, j)
		if kind <= '9' {
			levels := strings.Split("abcdefghi"[:kind-'0'], "")
			columns = columns[:strings.LastIndex(columns[:len(columns)-2], `, "min"`)]
			columns += fmt.Sprintf(`, "levels": ["%s"], "reference": "a"}, `, strings.Join(levels, `", "`))
		}
	}
	floats.Scale(0.8/floats.Norm(slopes, 2), slopes)
	var rows []string
	var scores []float64
	for range f.n * lines {
		row, score := "", 0.0
		for j, kind := range f.columns {
			field, effect := f.field(kind, rnd)
			row += field + ","
			score += slopes[j] * effect
		}
		rows, scores = append(rows, row), append(scores, score)
	}
	shift := 0.0 // of log odds, to the rate
	for range 50 {
		mean := 0.0
		for _, s := range scores {
			mean += 1 / (1 + math.Exp(-s-shift)) / float64(len(scores))
		}
		shift += (math.Log(f.rate/(1-f.rate)) - math.Log(mean/(1-mean)))
	}
	var b strings.Builder
	b.WriteString(head + "who,y\n")
	for i, row := range rows {
		y := min(max(50+12*scores[i]+12*rnd.NormFloat64(), 0), 100)
		if f.rate > 0 {
			y = 0
			if rnd.Float64() < 1/(1+math.Exp(-scores[i]-shift)) {
				y = 1
			}
		}
		fmt.Fprintf(&b, "%s%d,%.5g\n", row, i/lines, y)
	}
	return fmt.Sprintf(`{"schema": 1, "records": %d, "neighbors": %q, "intercept": true, "label": {"column": "y",
		%s}, %s: [%s{"name": "who", "ignore": true}]}`, f.n, f.relation, label, person, columns), b.String()
}

// TestForecasts compares forecasts of the deviations of coefficients and of predictions with those
// over 40 fits.
func TestForecasts(t *testing.T) {
	for i, f := range foreseenTables[:testkit.Of(1, 4, len(foreseenTables))] {
		head, text := f.made(rand.New(rand.NewPCG(31, uint64(i))))
		s, err := table.ReadSchema(strings.NewReader(head))
		require.NoError(t, err)
		data, err := table.ReadCSV(strings.NewReader(text), s)
		require.NoError(t, err)
		o := &Options{}
		if f.intervals {
			o.Intervals = &Intervals{}
		}
		b := dp.Budget{Epsilon: f.epsilon, Delta: DefaultDelta(f.n)}
		pl, err := NewPlan(s, b, o)
		require.NoError(t, err)
		look, err := pl.Outlook(t.Context(), 0, f.rate)
		require.NoError(t, err)
		t.Logf("%+v", f)
		compareForecast(t, look, data, b, o)
	}
}

// fortyFits returns the coefficients and the parameters of 40 fits, and in how many of them each
// coefficient is weak.
func fortyFits(t *testing.T, data *table.Data, b dp.Budget, o *Options) (values, thetas [][]float64, weaks []int) {
	for seed := range uint64(40) {
		o.Source = dp.Seeded(seed)
		m, err := Fit(t.Context(), data, b, o)
		require.NoError(t, err)
		list := m.Coefficients()
		if seed == 0 {
			values, weaks = make([][]float64, len(list)), make([]int, len(list))
		}
		thetas = append(thetas, m.Theta())
		weak := map[string]bool{}
		for _, r := range m.Summary().Rows {
			weak[r.Name] = r.Interval != nil && r.Interval.Weak
		}
		for i, c := range list {
			values[i] = append(values[i], c.Value)
			if weak[c.Name] {
				weaks[i]++
			}
		}
	}
	return values, thetas, weaks
}

// compareForecast compares a forecast with 40 fits: each coefficient and the root mean square of a
// prediction are within a factor of 1.5, and of two errors of a deviation over 40 fits.
func compareForecast(t *testing.T, look Outlook, data *table.Data, b dp.Budget, o *Options) (most float64) {
	within := 1.5 * math.Exp(2/math.Sqrt(2*39))
	values, thetas, weaks := fortyFits(t, data, b, o)
	var out []string
	compare := func(name string, forecast, real float64) {
		out = append(out, fmt.Sprintf("%s %.2f (%.3g)", name, forecast/real, real))
		assert.InDelta(t, 0, math.Log(forecast/real), math.Log(within), "%s: forecast %.3g, fits %.3g", name, forecast, real)
	}
	for i, c := range look.Coefficients {
		v := stat.StdDev(values[i], nil)
		most = max(most, v)
		forecast := c.Value
		if c.Column != "" {
			forecast = math.Hypot(c.Value, look.Common*stat.Mean(values[i], nil))
		}
		if v > 0 {
			compare(c.Name, forecast, v)
		}
		assert.False(t, look.Weak[i] && weaks[i] < 8 || !look.Weak[i] && weaks[i] > 32, "%s: weak %v, in %d of 40 fits",
			c.Name, look.Weak[i], weaks[i])
	}
	o.Source = dp.Seeded(99)
	best, err := Fit(t.Context(), data, dp.Budget{Epsilon: 100, Delta: b.Delta}, o)
	require.NoError(t, err)
	unit := 1.0
	if e := data.Encoder; e.Kind() == table.Range {
		unit = e.LabelValue(1) - e.LabelValue(0)
	}
	square, count := 0.0, 0.0
	require.NoError(t, data.Records.Each(func(a []float64, _ float64) {
		for _, theta := range thetas {
			square += math.Pow(unit*(floats.Dot(a, theta)-floats.Dot(a, best.theta)), 2)
			count++
		}
	}))
	compare("prediction", look.Prediction, math.Sqrt(square/count))
	t.Logf("common %.3f; forecast over fits (fits): %s", look.Common, strings.Join(out, ", "))
	return most
}
