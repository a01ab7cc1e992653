// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package table

import (
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/loss"
)

var unit = loss.Bounds{Row: 1, Label: 1}

// every returns the records, each as its row followed by its label.
func every(data *erm.Data) (all [][]float64) {
	n, _ := data.Dims()
	for i := range n {
		all = append(all, append(data.Row(i), data.Label(i)))
	}
	return all
}

func TestNumericReadCSV(t *testing.T) {
	n := Numeric{Bounds: loss.Bounds{Row: 2, Label: 1}}
	for name, text := range map[string]string{
		"plain":     "x1,x2,y\n0.6,0.8,1\n0,-1,-0.5\n",
		"CRLF":      "x1,x2,y\r\n0.6,0.8,1\r\n0,-1,-0.5\r\n",
		"BOM":       "\ufeffx1,x2,y\n0.6,0.8,1\n0,-1,-0.5\n",
		"quoted":    "\"x1\",\"x2\",\"y\"\n\"0.6\",0.8,1\n0,\"-1\",-0.5\n",
		"above":     "\n\nx1,x2,y\n0.6,0.8,1\n0,-1,-0.5\n",
		"blanks":    " x1 , x2, y \n 0.6,0.8 ,1\n0,\t-1,-0.5\n",
		"exponents": "x1,x2,y\n6e-1,.8,+1\n-0,-1.,-5E-1\n",
		"gzip":      string(zipped(t, "x1,x2,y\n0.6,0.8,1\n0,-1,-0.5\n")),
	} {
		data, err := n.ReadCSV(strings.NewReader(text))
		require.NoError(t, err, name)
		require.ElementsMatch(t, [][]float64{{0.6, 0.8, 1}, {0, -1, -0.5}}, every(data), name)
	}
	// Empty lines after the header count as records, so that n is the number of lines.
	data, err := n.ReadCSV(strings.NewReader("x1,x2,y\n\n0.6,0.8,1\n\r\n0,-1,-0.5\n\n"))
	require.NoError(t, err)
	require.ElementsMatch(t, [][]float64{{0.6, 0.8, 1}, {0, -1, -0.5}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}}, every(data))
	n.Fields = []string{"x1", "x2", "y"}
	data, err = n.ReadCSV(strings.NewReader("\n0.6,0.8,1\n"))
	require.NoError(t, err)
	require.ElementsMatch(t, [][]float64{{0, 0, 0}, {0.6, 0.8, 1}}, every(data))
	data, err = n.ReadCSV(strings.NewReader("0.6,0.8,1\n0,-1,-0.5\n"))
	require.NoError(t, err)
	// Without a header the first line is a record.
	require.ElementsMatch(t, [][]float64{{0.6, 0.8, 1}, {0, -1, -0.5}}, every(data))
	data, err = Numeric{Bounds: unit, Label: "x1",
		Delimiter: ';'}.ReadCSV(strings.NewReader("x1;\"x;2\";y\n1;0.6;0.8\n"))
	require.NoError(t, err)
	require.InDeltaSlice(t, []float64{0.6, 0.8, 1}, every(data)[0], 1e-15)
	data, err = Numeric{Bounds: unit}.ReadCSV(strings.NewReader("x,y\n"))
	require.NoError(t, err)
	rows, d := data.Dims()
	require.Equal(t, []int{0, 1}, []int{rows, d})
}

// TestNumericMapsValues checks that no number in a field gives an error, and that each record is
// brought into the bounds on its own.
func TestNumericMapsValues(t *testing.T) {
	text := "1e400,3,1e400\nNaN,0.5,nan\n-Inf,inf,-Infinity\n3,4,-7\n1e-400,0,0\n"
	data, err := Numeric{Bounds: unit, Fields: []string{"a", "b", "c"}}.ReadCSV(strings.NewReader(text))
	require.NoError(t, err)
	root := math.Sqrt(0.5)
	want := [][]float64{{1, 0, 1}, {0, 0.5, 0}, {-root, root, -1}, {0.6, 0.8, -1}, {0, 0, 0}}
	for _, record := range every(data) {
		at := slices.IndexFunc(want, func(w []float64) bool { return floats.EqualApprox(w, record, 1e-15) })
		require.GreaterOrEqual(t, at, 0, "%v", record)
		want = slices.Delete(want, at, at+1)
	}
	require.Empty(t, want)
}

func TestNumericReadCSVErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "the file is empty"},
		{"x\n1\n", "line 1: 1 column, want at least one feature"},
		{"x,,y\n1,2,3\n", "column 2 has no name"},
		{",x,y\n1,2,3\n", "column 1 has no name: if it numbers the rows, leave it out"},
		{"x,y,x\n1,2,3\n", "columns 1 and 3 have the same name"},
		{"secret,4711\n1,2\n", "the name of column 2 is a number: if the file has no header line, do not declare one"},
		{"1,4711\n1,2\n", "the name of column 1 is a number"},
		{"\xffx,y\n1,2\n", "line 1 is not UTF-8"},
		{"x,y\n1,2\n4711\n", "line 3: 1 field, want 2"},
		{"x,y\n1,2,4711\n", "line 2: 3 fields, want 2"},
		{"x,y\n1,2\n3,4711a\n", `line 3, column 2 ("y"): text, want a number`},
		{"x,y\n,4711\n", `line 2, column 1 ("x"): an empty field, want a number`},
		{"x,y\n1, 0x4711p1\n", `line 2, column 2 ("y"): text, want a number`},
		{"x,y\n1,4_711\n", `line 2, column 2 ("y")`},
		{"x,y\n\"4,711\",1\n", `line 2, column 1 ("x")`},
		{"x,y\n\"1\n\",2\n,4711\x00\n", "line 2, column 1: a quote that is not closed in its line"},
		{"x,y\n1,\"4711\n", "line 2, column 2: a quote that is not closed"},
		{"x,y\n1,4\"711\n", "line 2, column 2: a quote inside a field"},
	} {
		data, err := Numeric{Bounds: unit}.ReadCSV(strings.NewReader(c.text))
		require.ErrorIs(t, err, ErrTable, c.want)
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "711")
		require.NotContains(t, err.Error(), "secret")
		require.Nil(t, data)
	}
	two := []string{"x", "y"}
	for _, c := range []struct {
		n    Numeric
		text string
		want string
	}{
		{Numeric{Bounds: unit, Label: "z"}, "x,y\n", `no column is named "z"; the columns are "x", "y"`},
		{Numeric{Bounds: unit, Fields: two}, "1,2", "line 1: the last line does not end with a line feed"},
		{Numeric{Bounds: unit, Fields: two[:1]}, "1\n", "Fields: 1 column"},
		{Numeric{Bounds: unit, Fields: []string{"x", ""}}, "1,2\n", "Fields: column 2 has no name"},
		{Numeric{Bounds: unit}, "a;b\n1;2\n", `the label separated by ','; ";" may be what separates them`},
		{Numeric{Bounds: unit, Delimiter: '"'}, "1,2\n", "Delimiter"},
		{Numeric{Bounds: unit, Delimiter: '5'}, "1,2\n", "Delimiter"},
		{Numeric{Bounds: unit}, "", "the file is empty"},
		{Numeric{Bounds: unit, Fields: two}, "x,y\n1,2\n", "line 1, column 1 (\"x\"): text, want a number"},
		{Numeric{Bounds: unit, Fields: two, Public: true}, "1,word", `line 1, column 2 ("y"): "word", want a number`},
		{Numeric{}, "1,2\n", "Row = 0"},
	} {
		_, err := c.n.ReadCSV(strings.NewReader(c.text))
		require.ErrorIs(t, err, ErrTable, c.want)
		require.ErrorContains(t, err, c.want)
	}
	_, err := Numeric{Bounds: unit}.ReadCSV(nil)
	require.ErrorIs(t, err, ErrTable)
	broken := errors.New("disk on fire")
	failing := io.MultiReader(strings.NewReader("1,2\n"), iotest.ErrReader(broken))
	_, err = Numeric{Bounds: unit, Fields: two}.ReadCSV(failing)
	require.ErrorIs(t, err, broken)
}

// FuzzNumeric checks that any text is refused with ErrTable, or gives records that lie within the
// bounds.
func FuzzNumeric(f *testing.F) {
	for _, s := range []string{"", "x,y\n1,2\n", "1,2\n", "1 1:2 3:-1e400\n", "x,y\n1e308,NaN\n", "1 2:x\n", "\"1\",2\n"} {
		f.Add(s, true, 1.0)
		f.Add(s, false, 5.0)
	}
	f.Fuzz(func(t *testing.T, text string, header bool, bound float64) {
		n := Numeric{Bounds: loss.Bounds{Row: bound, Label: bound}}
		if !header {
			n.Fields = []string{"x", "y"}
		}
		data, err := n.ReadCSV(strings.NewReader(text))
		if err != nil {
			require.ErrorIs(t, err, ErrTable)
			require.Nil(t, data)
			return
		}
		for _, record := range every(data) {
			d := len(record) - 1
			require.LessOrEqual(t, floats.Norm(record[:d], 2), bound*(1+1e-12))
			require.LessOrEqual(t, math.Abs(record[d]), bound)
		}
	})
}
