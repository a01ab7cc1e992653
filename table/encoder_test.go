// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package table

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/loss"
)

const regression = `{ "schema": 1,
  "label": {"column": "price", "min": 100, "max": 500, "unknown": "middle"},
  "intercept": true, "missing": ["NA"],
  "columns": [
    {"name": "area", "min": 10, "max": 30, "weight": 2, "other": true},
    {"name": "rooms", "min": 0, "max": 8, "missing": true},
    {"name": "city", "levels": ["A", "B"]} ] }`

func encoder(t testing.TB, schema string) *Encoder {
	s, err := ReadSchema(strings.NewReader(schema))
	require.NoError(t, err)
	e, err := s.Encoder()
	require.NoError(t, err)
	return e
}

// exactNorm compares Σ c_g² with 1 in exact arithmetic and returns −1, 0 or +1. The sum is the
// largest squared norm of an encoded row.
func exactNorm(e *Encoder) int {
	sum := new(big.Rat)
	add := func(v float64) {
		r := new(big.Rat).SetFloat64(v)
		sum.Add(sum, r.Mul(r, r))
	}
	add(e.intercept)
	for _, c := range e.columns {
		add(c.c)
	}
	return sum.Cmp(big.NewRat(1, 1))
}

func names(e *Encoder) (out []string) {
	for _, f := range e.Features() {
		out = append(out, f.Name)
	}
	return out
}

// dense reads a table and returns its encoded rows and labels in the order of the file.
func dense(t testing.TB, e *Encoder, text string) (rows [][]float64, labels []float64) {
	r, err := e.Rows(strings.NewReader(text), Options{})
	require.NoError(t, err)
	for r.Next() {
		row := make([]float64, len(e.features))
		col, val := r.Row()
		last := int32(-1)
		for k, j := range col {
			require.Greater(t, j, last)
			last = j
			row[j] = val[k]
		}
		rows, labels = append(rows, row), append(labels, r.Label())
	}
	require.NoError(t, r.Err())
	return rows, labels
}

func TestEncode(t *testing.T) {
	e := encoder(t, people)
	require.Equal(t, []string{"(intercept)", "age<25", "age[25,30)", "age[30,35)", "age>=35", "hours",
		"education=Bachelors", "education=HS-grad", "education other", "education missing"}, names(e))
	require.Equal(t, Binary, e.Kind())
	require.Equal(t, loss.Bounds{Row: 1, Label: 1}, e.Bounds())
	require.Equal(t, 10, e.Dim())
	rows, labels := dense(t, e, "age,hours,education,id,income\n"+
		"24.9,99,Bachelors,1,>50K\n25,50,HS-grad,2,<=50K\n1e400,-5,PhD,3,>50K.\n"+
		"?,,?,4,<=50K\n 34 , NaN , \"HS-grad\" ,5, <=50K \n")
	require.Equal(t, []float64{1, -1, 1, -1, -1}, labels)
	for i, want := range [][]float64{
		{1, 1, 0, 0, 0, 1, 1, 0, 0, 0},
		{1, 0, 1, 0, 0, 0, 0, 1, 0, 0},
		{1, 0, 0, 0, 1, -1, 0, 0, 1, 0},
		{1, 0.25, 0.25, 0.25, 0.25, 0, 0, 0, 0, 1},
		{1, 0, 0, 1, 0, 0, 0, 1, 0, 0},
	} {
		floats.Scale(0.5, want) // there are four groups of coordinates
		require.Equal(t, want, rows[i])
	}
}

func TestEncodeRange(t *testing.T) {
	e := encoder(t, regression)
	require.Equal(t, Range, e.Kind())
	require.Zero(t, e.NumClasses())
	c := 1 / math.Sqrt(7) // the weights are 1, 2, 1, 1
	rows, labels := dense(t, e, "rooms,area,city,price\n8,15,A,300\n4,x,B,9999\nNA,NA,B,NA\n2,30,A,cheap\n")
	// Labels are clamped, and an unknown one becomes the middle.
	require.Equal(t, []float64{0, 1, 0, 0}, labels)
	for i, want := range [][]float64{{1, -1, 1, 0, 1, 0}, {1, 0, 0, 0, 0, 1}, {1, 0, 0, 1, 0, 1}, {1, 2, -0.5, 0, 1, 0}} {
		floats.Scale(c, want)
		require.InDeltaSlice(t, want, rows[i], 1e-15)
	}
	require.Equal(t, 500.0, e.LabelValue(1))
	require.Equal(t, "250", e.LabelText(-0.25))
}

func TestEncodeClasses(t *testing.T) {
	e := encoder(t, `{"schema": 1, "label": {"column": "kind", "levels": ["cat", "dog", "eel"], "unknown": "eel"},
		"columns": [{"name": "x", "min": -1, "max": 1}, {"name": "y", "min": 0, "max": 1}]}`)
	require.Equal(t, Classes, e.Kind())
	require.Equal(t, 6, e.Dim())
	require.Equal(t, loss.Bounds{Row: 1, Label: 2}, e.Bounds())
	_, labels := dense(t, e, "x,y,kind\n0,0,dog\n0,0,cat\n0,0,cow\n")
	require.Equal(t, []float64{1, 0, 2}, labels)
	require.Equal(t, []string{"cat", "dog", "eel", "eel"}, []string{e.LabelText(-1), e.LabelText(1), e.LabelText(2),
		e.LabelText(9)})

	data, err := ReadCSV(strings.NewReader("x,y,kind\n1,0,dog\n"), e.Schema())
	require.NoError(t, err)
	n, d := data.Records.Dims()
	require.Equal(t, []int{1, 6}, []int{n, d})
	row := data.Records.Row(0)
	// Multinomial expects the features in the first block
	require.Equal(t, []float64{row[0], -row[0], 0, 0, 0, 0}, row)

	coef := e.Coefficients([]float64{1, 2, 3, 4, 5, 6})
	require.Len(t, coef, 9)
	require.Equal(t, "dog", coef[3].Class)
	c := e.columns[0].c
	require.InDelta(t, -4*c, coef[3].Value, 1e-15) // because y = ½ + ½v
	require.InDelta(t, 3*c, coef[4].Value, 1e-15)
	require.InDelta(t, 8*c, coef[5].Value, 1e-15)
}

// TestCoefficients checks that coefficients in the units of the file predict the same as θ does
// from encoded rows.
func TestCoefficients(t *testing.T) {
	e := encoder(t, regression)
	rnd := rand.New(rand.NewPCG(1, 2))
	theta := make([]float64, e.Dim())
	for j := range theta {
		theta[j] = rnd.NormFloat64()
	}
	coef := map[string]float64{}
	for _, c := range e.Coefficients(theta) {
		coef[c.Name] = c.Value
	}
	for range 100 {
		area, rooms, city := 10+20*rnd.Float64(), 8*rnd.Float64(), []string{"A", "B"}[rnd.IntN(2)]
		rows, _ := dense(t, e, fmt.Sprintf("area,rooms,city,price\n%v,%v,%s,1\n", area, rooms, city))
		want := e.LabelValue(floats.Dot(rows[0], theta))
		got := coef["(intercept)"] + coef["area"]*area + coef["rooms"]*rooms + coef["city="+city]
		require.InDelta(t, want, got, 1e-10)
	}
	require.PanicsWithValue(t, badLen, func() { e.Coefficients(theta[1:]) })
}

// TestRowBoundIsExact checks that the exact norm of an encoded row is at most 1 for any weights, so
// that erm.Data keeps every row unchanged.
func TestRowBoundIsExact(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		s := Schema{Version: 1, Label: Label{Column: "y", Min: new(0.0), Max: new(1.0)}, Intercept: rnd.IntN(2) == 0}
		header, line := "", ""
		for k := range 1 + rnd.IntN(12) {
			lo, hi := rnd.NormFloat64(), 10*rnd.Float64()+3
			s.Columns = append(s.Columns, Column{Name: fmt.Sprint("x", k), Min: &lo, Max: &hi,
				Weight: math.Exp(rnd.NormFloat64())})
			header += fmt.Sprintf("x%d,", k)
			line += fmt.Sprint([]float64{lo, hi, 2 * hi}[rnd.IntN(3)], ",")
		}
		e, err := s.Encoder()
		require.NoError(t, err)
		require.LessOrEqual(t, exactNorm(e), 0)
		text := header + "y\n" + line + "0\n"
		rows, _ := dense(t, e, text)
		data, err := ReadCSV(strings.NewReader(text), &s)
		require.NoError(t, err)
		require.Equal(t, rows[0], data.Records.Row(0))
		require.Greater(t, floats.Norm(rows[0], 2), 1-1e-12) // the bound of 1 is nearly attained
	}
}

// TestEncoderIsImmutable checks that an encoder does not share memory with its schema.
func TestEncoderIsImmutable(t *testing.T) {
	s, err := ReadSchema(strings.NewReader(people))
	require.NoError(t, err)
	e, err := s.Encoder()
	require.NoError(t, err)
	*s.Columns[1].Max = 5
	s.Columns[2].Levels[0] = "x"
	s.Label.Positive[0] = "x"
	e.Schema().Label.Positive[0] = "y"
	*e.Schema().Columns[1].Max = 7
	e.Features()[0].Name = "z"
	require.Equal(t, encoder(t, people), e)
}

// TestCross checks the indicators of an interaction: one for each combination of the levels of its
// columns, and equal shares of the combinations for a row in which one of them has no level.
func TestCross(t *testing.T) {
	e := encoder(t, `{ "schema": 1, "label": {"column": "y", "min": 0, "max": 1}, "missing": ["?"],
	  "columns": [
	    {"name": "age", "min": 0, "max": 90, "bins": [30, 60]},
	    {"name": "job", "levels": ["a", "b"], "missing": true},
	    {"name": "age and job", "cross": ["age", "job"], "weight": 0.5} ] }`)
	require.Equal(t, []string{
		"age<30", "age[30,60)", "age>=60", "job=a", "job=b", "job missing",
		"age<30 × job=a", "age<30 × job=b", "age<30 × job missing",
		"age[30,60) × job=a", "age[30,60) × job=b", "age[30,60) × job missing",
		"age>=60 × job=a", "age>=60 × job=b", "age>=60 × job missing",
	}, names(e))
	require.LessOrEqual(t, exactNorm(e), 0)
	rows, _ := dense(t, e, "y,job,age\n0,b,30\n1,?,99\n1,a,?\n\n")
	for i, want := range [][]int{{1, 4, 10}, {2, 5, 14}, {3, 0, 1, 2, 6, 9, 12}, {}} {
		for j, v := range rows[i] {
			c := e.columns[min(j/3, 2)].c
			if i == 2 && j != 3 { // no age
				c /= 3
			}
			if slices.Contains(want, j) {
				require.Equal(t, c, v, "row %d, feature %d", i, j)
			} else {
				require.Zero(t, v, "row %d, feature %d", i, j)
			}
		}
	}
	require.InEpsilon(t, 0.5, e.columns[2].c/e.columns[0].c, 1e-12)
	_, err := e.Rows(strings.NewReader("y,job,age,age and job\n"), Options{})
	require.ErrorContains(t, err, "column 4 is not in the schema")

	// The same coefficients, in units of the file: those of indicators.
	theta := make([]float64, e.Dim())
	theta[10] = 1
	for _, c := range e.Coefficients(theta)[1:] {
		if c.Name == "age[30,60) × job=b" {
			require.Equal(t, "age and job", c.Column)
			require.InEpsilon(t, 0.5*e.columns[2].c, c.Value, 1e-12) // half the range of y
		} else {
			require.Zero(t, c.Value)
		}
	}
}

// TestReference checks that a reference level has no coordinate, alone and in an interaction.
func TestReference(t *testing.T) {
	text := `{ "schema": 1, "label": {"column": "y", "min": 0, "max": 1}, "missing": ["?"], "intercept": true,
	  "columns": [
	    {"name": "age", "min": 0, "max": 90, "bins": [30, 60]%s},
	    {"name": "job", "levels": ["a", "b"], "other": true%s},
	    {"name": "size", "min": 0, "max": 1},
	    {"name": "both", "cross": ["age", "job"]} ] }`
	e := encoder(t, fmt.Sprintf(text, `, "reference": "[30,60)"`, `, "reference": "other"`))
	require.Equal(t, []string{"(intercept)", "age<30", "age>=60", "job=a", "job=b", "size",
		"age<30 × job=a", "age<30 × job=b", "age>=60 × job=a", "age>=60 × job=b"}, names(e))
	require.LessOrEqual(t, exactNorm(e), 0)
	rows, _ := dense(t, e, "y,age,job,size\n1,40,a,.5\n1,70,z,.5\n1,70,b,.5\n")
	for i, want := range [][]int{{0, 3}, {0, 2}, {0, 2, 4, 9}} {
		for j, v := range rows[i] {
			require.Equal(t, slices.Contains(want, j), v != 0, "row %d, feature %d", i, j)
		}
	}

	s, err := ReadSchema(strings.NewReader(fmt.Sprintf(text, "", "")))
	require.NoError(t, err)
	s.References()
	require.Equal(t, []string{"<30", "a", "", ""},
		[]string{s.Columns[0].Reference, s.Columns[1].Reference, s.Columns[2].Reference, s.Columns[3].Reference})
	e, err = s.Encoder()
	require.NoError(t, err)
	require.Equal(t, []string{"(intercept)", "age[30,60)", "age>=60", "job=b", "job other", "size",
		"age[30,60) × job=b", "age[30,60) × job other", "age>=60 × job=b", "age>=60 × job other"}, names(e))
}
