// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package score

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/model"
	"github.com/privopt/privopt/table"
)

// TestLargestScore: no row has a larger score than largestScore, and some row has it.
func TestLargestScore(t *testing.T) {
	s, err := table.ReadSchema(strings.NewReader(`{ "schema": 1, "intercept": true,
	  "label": {"column": "income", "positive": ["high"], "negative": ["low"]}, "columns": [
	  {"name": "age", "min": 20, "max": 80}, {"name": "job", "levels": ["nurse", "pilot"], "other": true} ] }`))
	require.NoError(t, err)
	e, err := s.Encoder()
	require.NoError(t, err)
	most, largest := 0.0, 0.0
	sizes := []float64{0.3, 1.5, 0.7, 0.2, 0.9, 0.4}[:e.Dim()]
	for _, signs := range [][3]float64{{1, 1, 1}, {1, 1, -1}, {1, -1, 1}, {-1, 1, 1}} { // of intercept, age and job
		theta := slices.Clone(sizes)
		for k := range theta {
			theta[k] *= signs[min(k, 2)]
		}
		m := made(t, model.SVM, theta, e.Bounds(), s, 0)
		most = scoredBy(m).largestScore() // of all signs alike
		for _, row := range []string{"20,nurse", "80,nurse", "20,pilot", "80,pilot", "20,baker", "80,baker", "50,baker"} {
			require.NoError(t, m.PredictCSV(strings.NewReader("age,job\n"+row+"\n"), table.Options{},
				func(p model.Prediction) error {
					largest = max(largest, math.Abs(p.Score))
					return nil
				}))
		}
	}
	require.LessOrEqual(t, largest, most*(1+1e-12))
	require.InEpsilon(t, most, largest, 1e-9)
}

// TestForkedReaders: two readers of a table see the same bytes, whoever reads first.
func TestForkedReaders(t *testing.T) {
	text := strings.Repeat("0123456789", 1000)
	for _, size := range [][2]int{{7, 13}, {100, 3}, {20000, 1}} {
		a, b := fork(strings.NewReader(text))
		var got [2]strings.Builder
		for done := 0; done < 2; {
			done = 0
			for i, r := range []*branch{a, b} {
				p := make([]byte, size[i])
				n, err := r.Read(p)
				got[i].Write(p[:n])
				if err != nil {
					done++
				}
			}
		}
		require.Equal(t, text, got[0].String())
		require.Equal(t, text, got[1].String())
	}
}

// madeModel returns a model of any coefficients by a schema of random form, the head of its files
// and plausible fields.
func madeModel(t *testing.T, rnd *rand.Rand, kind int) (m *model.Model, head string, plain [][]string) {
	label := []table.Label{
		{Column: "y", Positive: []string{"1"}, Negative: []string{"0"}, Unknown: "negative"},
		{Column: "y", Levels: []string{"0", "1", "2"}, Unknown: "0"},
		{Column: "y", Min: new(0.0), Max: new(2.0), Unknown: "middle"},
	}
	s := &table.Schema{Version: 1, Label: label[kind%3], Missing: []string{"", "?"}, Intercept: true}
	s.Columns = []table.Column{
		{Name: "who", Ignore: true},
		{Name: "x", Min: new(-5.0), Max: new(10.0), Missing: true, Other: rnd.IntN(4) > 0},
		{Name: "k", Levels: []string{"a", "b"}, Other: true},
	}
	if kind%2 == 0 {
		s.Person, s.Rows = "who", 1+rnd.IntN(3)
	}
	s.File = table.File{Comment: "#", Multiline: rnd.IntN(3) == 0, Encoding: []string{"", "latin-1"}[rnd.IntN(2)]}
	if rnd.IntN(2) == 0 {
		s.File.Fields = []string{"who", "x", "k", "y"}
	} else {
		head = "who,x,k,y\n"
	}
	e, err := s.Encoder()
	require.NoError(t, err)
	theta := make([]float64, e.Dim())
	for j := range theta {
		theta[j] = 3 * rnd.NormFloat64()
	}
	m = made(t, []string{model.Logistic, model.Multinomial, model.Squares}[kind%3], theta, e.Bounds(), s, s.Rows)
	return m, head, [][]string{{"1", "2", "3", "", " 4"}, {"-3", "0.5", "7", "1000", "?"}, {"a", "b", "c"},
		{"0", "1", "2", "?"}}
}

// TestOneLineIsOneJudgment reads random tables of hostile lines to predict and to score. Each line
// has the prediction that it has alone, and a score takes from a table what it takes from the lines
// one by one, or from those of each person.
func TestOneLineIsOneJudgment(t *testing.T) {
	n := testkit.Of(400, 2000, 10_000)
	if testing.Short() {
		n = 100
	}
	read := [2]int{}
	for seed := range n {
		rnd := rand.New(rand.NewPCG(uint64(seed), 8))
		m, head, plain := madeModel(t, rnd, seed)
		var against *model.Model
		if rnd.IntN(2) == 0 {
			p := m.Params()
			against = made(t, p.Loss.Name, slices.Repeat([]float64{0.5}, p.Dim), p.Bounds, m.Encoder().Schema(), p.Rows)
		}
		predictions := func(text string) (all []string, err error) {
			err = m.PredictCSV(testkit.Chunked(rnd, text), table.Options{}, func(p model.Prediction) error {
				all = append(all, fmt.Sprint(p))
				return nil
			})
			return all, err
		}
		id := func(line string) (id string, records int, err error) {
			rows, err := scoredBy(m).rows(testkit.Chunked(rnd, head+line), table.Options{Total: true})
			require.NoError(t, err)
			for ; rows.Next(); records++ {
				id = rows.ID()
			}
			return id, records, rows.Err()
		}
		var lines, want []string
		var refused error
		multiline := m.Encoder().Schema().File.Multiline
		for range 1 + rnd.IntN(8) {
			line := testkit.Line(rnd, ",", plain, multiline)
			if _, records, err := id(line); multiline && (err != nil || records != 1) {
				continue
			}
			all, err := predictions(head + line)
			lines, want, refused = append(lines, line), append(want, all...), errors.Join(refused, err)
		}
		got, err := predictions(head + strings.Join(lines, ""))
		if require.Equal(t, refused != nil, err != nil, "%q", lines); err == nil {
			require.Equal(t, want, got, "%q", lines)
			read[0]++
		}
		owner := testkit.Nobody
		if seed%2 == 0 {
			owner = func(line string) string { who, _, _ := id(line); return who }
		}
		if testkit.Additive(t, func(text string) (testkit.Counts, error) {
			set, err := ReadCSV(t.Context(), m, testkit.Chunked(rnd, text), table.Options{}, against)
			if err != nil {
				return nil, err
			}
			counts := testkit.Counts{"units": int64(set.n), "right": set.inner.right}
			for name, sums := range map[string][]int64{"cell": set.counts, "sum": set.sums, "bend": set.bends,
				"pair": set.inner.pairs[:]} {
				for k, v := range sums {
					counts[fmt.Sprint(name, k)] = v
				}
			}
			return counts, nil
		}, head, lines, owner) {
			read[1]++
		}
	}
	require.Greater(t, min(read[0], read[1]), n/4)
}
