// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"bytes"
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
	"github.com/privopt/privopt/table"
)

// TestUnseenLevels: a level that no record has gets the prediction of an average row, for every
// column and for missing numbers, by least squares and by the logistic loss, with intervals and
// without. A number is missing where its mean is far from the middle of its range.
func TestUnseenLevels(t *testing.T) {
	const n = 8000
	rnd := rand.New(rand.NewPCG(5, 6))
	numbers, classes := strings.Builder{}, strings.Builder{}
	for _, b := range []*strings.Builder{&numbers, &classes} {
		b.WriteString("x,one,two,y\n")
	}
	for range n {
		x, one, two := 2+6*rnd.Float64(), rnd.IntN(3), rnd.IntN(2)
		y := 30 + 3*x + 10*float64(one) + 8*rnd.NormFloat64()
		row := fmt.Sprintf("%.2f,%c,%c", x, 'a'+one, 'a'+two)
		fmt.Fprintf(&numbers, "%s,%.2f\n", row, min(max(y, 0), 100))
		fmt.Fprintf(&classes, "%s,%v\n", row, y > 55)
	}
	// An average row has x = 5, and a share of 1/3 of each level: 30 + 15 + 10.
	for k, text := range []string{numbers.String(), classes.String()} {
		label := []string{`"min": 0, "max": 100`, `"positive": ["true"], "negative": ["false"]`}[k]
		for _, intervals := range []bool{false, true} {
			s, err := table.ReadSchema(strings.NewReader(fmt.Sprintf(`{"schema": 1, "records": %d, "intercept": true,
				"missing": ["?"], "label": {"column": "y", %s}, "columns": [
				{"name": "x", "min": 0, "max": 20, "missing": true}, {"name": "two", "levels": ["a", "b"], "missing": true},
				{"name": "one", "levels": ["a", "b", "c"], "other": true, "missing": true}]}`, n, label)))
			require.NoError(t, err)
			o := &Options{}
			if intervals {
				o.Intervals = &Intervals{}
				s.References()
			}
			data, err := table.ReadCSV(strings.NewReader(text), s)
			require.NoError(t, err)
			rows := []string{"5,b,b", "?,b,b", "5,?,b", "5,b,?", "5,b,zz", "?,?,?"}
			errs := make([][]float64, len(rows))
			for seed := range uint64(testkit.Of(9, 15)) {
				o.Source = dp.Seeded(seed)
				m, err := Fit(t.Context(), data, dp.Budget{Epsilon: 1, Delta: 1e-8}, o)
				require.NoError(t, err)
				for i, row := range rows {
					line := strings.NewReader("x,two,one\n" + row + "\n")
					require.NoError(t, m.PredictCSV(line, table.Options{}, func(p Prediction) error {
						errs[i] = append(errs[i], math.Abs(p.Score-[]float64{55, 0}[k]))
						return nil
					}))
				}
			}
			for i, e := range errs { // the noise of one draw in a hundred makes a level of nothing
				slices.Sort(e)
				t.Logf("classes %v, intervals %v, row %s: %.3f", k > 0, intervals, rows[i], e)
				require.Less(t, e[len(e)/2], []float64{3, 0.7}[k], "%s, intervals %v", rows[i], intervals)
			}
		}
	}
}

// TestAbsentLevel: the effect of a level that no record has, against an average row, is as large as
// the outlook of the plan says. Minimizers keep noise, which intervals take away for the most part;
// that of a number is a small part of its range.
func TestAbsentLevel(t *testing.T) {
	const n = 1500
	rnd := rand.New(rand.NewPCG(7, 8))
	texts := map[table.Kind]string{}
	for range n {
		x, c, d := rnd.Float64(), rnd.IntN(3), rnd.IntN(3)
		y := x + 0.3*float64(c) + 0.2*rnd.NormFloat64()
		row := fmt.Sprintf("%.3f,%c,%c,", x, 'a'+c, 'p'+d)
		texts[table.Range] += fmt.Sprintf("%s%.3f\n", row, min(max(y, 0), 2))
		texts[table.Binary] += fmt.Sprintf("%s%v\n", row, y > 0.8)
		texts[table.Classes] += fmt.Sprintf("%s%d\n", row, min(max(int(2*y), 0), 2))
	}
	labels := map[table.Kind]string{table.Range: `"min": 0, "max": 2`,
		table.Binary: `"positive": ["true"], "negative": ["false"]`, table.Classes: `"levels": ["0", "1", "2"]`}
	for _, c := range []struct {
		o    Options
		most float64 // of the effect
	}{
		{Options{Loss: Loss{Name: SVM}}, 4},
		{Options{Loss: Loss{Name: Quantile}}, 0.8},
		{Options{Loss: Loss{Name: PseudoHuber}}, 0.8},
		{Options{Loss: Loss{Name: Multinomial}}, 4},
		{Options{Loss: Loss{Name: Logistic}, Set: Set{Name: Ball, Size: 30}}, 5},
		{Options{Loss: Loss{Name: SVM}, Intervals: &Intervals{}}, 1},
	} {
		s, err := table.ReadSchema(strings.NewReader(fmt.Sprintf(`{"schema": 1, "records": %d, "intercept": true,
			"label": {"column": "y", %s}, "columns": [{"name": "x", "min": 0, "max": 1},
			{"name": "d", "levels": ["p", "q", "r"]}, {"name": "c", "levels": ["a", "b", "c", "none"]}]}`, n,
			labels[kinds[c.o.Loss.Name]])))
		require.NoError(t, err)
		budget := dp.Budget{Epsilon: 2, Delta: 1e-6}
		pl, err := NewPlan(s, budget, &c.o)
		require.NoError(t, err)
		look, err := pl.Outlook(t.Context(), 13, 0)
		require.NoError(t, err)
		data, err := table.ReadCSV(strings.NewReader("x,c,d,y\n"+texts[kinds[c.o.Loss.Name]]), s)
		require.NoError(t, err)
		square, count := 0.0, 0.0
		noise := 0.0
		for seed := range uint64(testkit.Of(12, 60)) {
			c.o.Source = dp.Seeded(seed)
			m, err := Fit(t.Context(), data, budget, &c.o)
			require.NoError(t, err)
			noise = m.Summary().Absent
			effects := map[string]float64{}
			for _, v := range m.Coefficients() {
				switch v.Name {
				case "c=none":
					effects[v.Class] += v.Value
				case "c=a", "c=b", "c=c":
					effects[v.Class] -= v.Value / 3
				}
			}
			for _, v := range effects {
				square += v * v
				count++
			}
		}
		found := math.Sqrt(square / count)
		t.Logf("%s: %.3g, forecast %.3g, of noise %.3g", c.o.Loss.Name, found, look.Absent, noise)
		require.Less(t, found, c.most, c.o.Loss.Name)
		require.InDelta(t, 1, look.Absent/found, 0.45, c.o.Loss.Name)
		if pl.Params().Release != nil {
			require.InDelta(t, 1, noise/found, 0.45, c.o.Loss.Name)
		} else {
			require.Zero(t, noise)
		}
	}
}

// TestAverageLevelsAreNamed: an automatic fit names the levels that no record has, and so do its
// file and its summary. A file with another name is refused.
func TestAverageLevelsAreNamed(t *testing.T) {
	const n = 4000
	rnd := rand.New(rand.NewPCG(9, 10))
	text := "c,y\n"
	for range n {
		c := rnd.IntN(3)
		text += fmt.Sprintf("%c,%.3f\n", 'a'+c, float64(c)+rnd.Float64())
	}
	s, err := table.ReadSchema(strings.NewReader(fmt.Sprintf(`{"schema": 1, "records": %d, "intercept": true,
		"missing": ["?"], "label": {"column": "y", "min": 0, "max": 3}, "columns": [
		{"name": "c", "levels": ["a", "b", "c", "none"], "missing": true}]}`, n)))
	require.NoError(t, err)
	data, err := table.ReadCSV(strings.NewReader(text), s)
	require.NoError(t, err)
	m, err := Fit(t.Context(), data, dp.Budget{Epsilon: 3, Delta: 1e-8}, &Options{Source: dp.Seeded(1)})
	require.NoError(t, err)
	want := []string{"c=none", "c missing"}
	m.Choice().Average[0] = "a copy"
	require.Equal(t, want, m.Choice().Average)
	require.Equal(t, want, m.Summary().Average)
	var file bytes.Buffer
	require.NoError(t, m.Save(&file))
	again, err := Load(bytes.NewReader(file.Bytes()))
	require.NoError(t, err)
	require.Equal(t, want, again.Summary().Average)
	at := bytes.Index(file.Bytes(), []byte(`"average"`))
	require.Positive(t, at)
	wrong := strings.Replace(file.String()[at:], "c=none", "c=d", 1)
	_, err = Load(strings.NewReader(file.String()[:at] + wrong))
	require.ErrorContains(t, err, "choice.average")
}

// TestLevelsAndLabelsSpend: given the same outputs, the counts of levels that the matrix may hide
// differ by no more than their noise allows, and by so much that half of the noise would be too
// little. So do the sums of labels in each of the smaller ranges that labels turn out to need.
func TestLevelsAndLabelsSpend(t *testing.T) {
	levels := `"0"`
	for k := range 11 {
		levels += fmt.Sprintf(`, "%d"`, k+1)
	}
	for _, rel := range []dp.Relation{dp.AddRemove, dp.Replace} {
		rnd := rand.New(rand.NewPCG(4, 6))
		const n = 1500
		common := "k,y\n"
		for range n - 1 {
			common += fmt.Sprintf("%d,%.3f\n", rnd.IntN(3), 7+rnd.NormFloat64())
		}
		texts := [2]string{common + "10,1000\n", common}
		if rel == dp.Replace {
			texts[1] += "11,-1000\n"
		}
		var data [2]*erm.Data
		var pl *Plan
		for i, text := range texts {
			read := readTable(t, fmt.Sprintf(`{"schema": 1, "intercept": true, "records": %d, "neighbors": "%v", "label":
			  {"column": "y", "min": -1000, "max": 1000}, "columns": [{"name": "k", "levels": [%s]}]}`, n, rel, levels), text)
			data[i] = read.Records
			task, err := newTask(read, &Options{Relation: rel})
			require.NoError(t, err)
			pl, err = task.plan(dp.Budget{Epsilon: 2, Delta: 1e-6})
			require.NoError(t, err)
		}
		d := pl.params.Dim - 1
		all := uses(t, pl, data, 3, nil)
		ranges := 0
		for i, u := range all[:len(all)-1] {
			if u.terms == len(residualEdges) && all[i+1].terms == 1 { // residuals, and the mean of labels
				ranges++
				require.Greater(t, u.part, 0.99)
				require.Greater(t, all[i+1].part, 0.99)
			}
		}
		require.GreaterOrEqual(t, ranges, 3)
		counts := all[2+slices.IndexFunc(all, func(u use) bool { return u.terms == d*(d+1)/2 })]
		require.Greater(t, counts.terms, 8)
		require.Less(t, counts.terms, d)
		require.Greater(t, counts.part, map[dp.Relation]float64{dp.AddRemove: 0.99, dp.Replace: 0.7}[rel])
	}
}
