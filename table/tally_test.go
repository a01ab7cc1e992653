// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package table

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTally counts the fields of a table with every kind of misfit, also over two files.
func TestTally(t *testing.T) {
	s := must(ReadSchema(strings.NewReader(`{"schema": 1, "missing": ["?", ""], "file": {"decimal": ","},
		"label": {"column": "y", "min": 0, "max": 10, "unknown": "middle"}, "columns": [
		{"name": "n", "min": 0, "max": 10, "other": true}, {"name": "b", "min": 0, "max": 10, "bins": [5], "other": true},
		{"name": "c", "levels": ["a", "b"], "other": true}, {"name": "n × c", "cross": ["b", "c"]},
		{"name": "d", "date": "2006-01-02", "min": 0, "max": 366, "other": true}, {"name": "i", "ignore": true}]}`)))
	text := "i,n,b,c,d,y\n" +
		"x,1,1,a,2000-02-03,1\n" + // all is well
		"x,-1,11,z,2001-02-03,11\n" + // outside; the outer bins have no ends
		"x,?,?,?,?,?\n" + // missing
		"x,1.5,q,?,soon,p\n" + // meaningless
		"x,\"1,5\",NaN,b,2000-12-31,\"9,5\"\n" +
		"\n" // all missing
	want := []ColumnTally{
		{Name: "n", Missing: 2, Clamped: 1, Other: 1, Example: "1.5"},
		{Name: "b", Missing: 3, Other: 1, Example: "q"},
		{Name: "c", Missing: 3, Other: 1, Example: "z"},
		{Name: "d", Missing: 2, Clamped: 1, Other: 1, Example: "soon"},
		{Name: "y", Missing: 2, Clamped: 1, Other: 1, Example: "p"},
	}
	tally := &Tally{}
	for k := 1; k <= 2; k++ {
		_, err := Options{Public: true, Tally: tally}.ReadCSV(strings.NewReader(text), s)
		require.NoError(t, err)
		require.Equal(t, 6*k, tally.Records)
	}
	for i, c := range tally.Columns {
		want[i].Missing, want[i].Clamped, want[i].Other = 2*want[i].Missing, 2*want[i].Clamped, 2*want[i].Other
		require.Equal(t, want[i], c)
	}
	_, err := Options{Tally: tally, Public: true}.ReadCSV(strings.NewReader("n,c,y\n1,a,yes\n1,b,?\n"),
		must(ReadSchema(strings.NewReader(`{"schema": 1, "label": {"column": "y", "levels": ["yes", "no"], "unknown": "no"},
		"columns": [{"name": "n", "min": 0, "max": 2}, {"name": "c", "levels": ["a", "b"]}]}`))))
	require.NoError(t, err)
	again := []ColumnTally{{Name: "n"}, {Name: "c"}, {Name: "y", Other: 1, Example: "?"}}
	require.Equal(t, Tally{Records: 2, Columns: again}, *tally, "a table with other columns begins anew")
	s.Person, s.Rows = "i", 2
	s.Columns = s.Columns[:len(s.Columns)-1]
	people := "i,n,b,c,d,y\n" + strings.Repeat("7,1,1,a,2000-02-03,1\n", 5) +
		"?,1,1,a,2000-02-03,1\n8,1,1,a,2000-02-03,1\n\n"
	_, err = Options{Tally: tally, Public: true}.ReadCSV(strings.NewReader(people), s)
	require.NoError(t, err)
	require.Equal(t, []int{8, 2, 3}, []int{tally.Records, tally.Nobody, tally.Beyond})
	r := &Rows{} // a row has no fields before it is read
	require.Empty(t, r.Field(0)+r.Field(-1))
}
