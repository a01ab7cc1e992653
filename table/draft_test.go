// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package table

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDraft(t *testing.T) {
	text := "id,age,share,city,only,zip,income\n"
	for k := range 100 {
		text += fmt.Sprintf("p%d,%d,%v,%s,same,%s,%s\n", k, 18+k%50, 0.013*float64(k%50),
			[]string{"Oslo", "Rome", "Oslo"}[k%3],
			[]string{"", "x"}[k%2], []string{"high", "low"}[k%2])
	}
	s, _, err := Draft(strings.NewReader(text), Schema{})
	require.NoError(t, err)
	require.Equal(t, []Column{
		{Name: "id", Ignore: true},
		{Name: "age", Min: new(18.0), Max: new(67.0), Other: true},
		{Name: "share", Min: new(0.0), Max: new(0.64), Other: true},
		{Name: "city", Levels: []string{"Oslo", "Rome"}, Other: true},
		{Name: "only", Levels: []string{"same"}, Other: true},
		{Name: "zip", Levels: []string{"x"}, Other: true, Missing: true},
	}, s.Columns)
	require.Equal(t, Label{Column: "income", Positive: []string{"low"}, Negative: []string{"high"}}, s.Label)
	require.Zero(t, s.Records)
	// The schema must read the table from which it was drafted.
	data, err := ReadCSV(strings.NewReader(text), s)
	require.NoError(t, err)
	n, _ := data.Records.Dims()
	require.Equal(t, 100, n)

	s, _, err = Draft(strings.NewReader("-12345.5;a\n99999;b\n7;b\n"), Schema{
		Label: Label{Column: "age"}, Missing: []string{}, File: File{Delimiter: ";", Fields: []string{"age", "kind"}},
	})
	require.NoError(t, err)
	require.Equal(t, []float64{-20000, 100000}, []float64{*s.Label.Min, *s.Label.Max})
	require.Equal(t, []string{"b", "a"}, s.Columns[0].Levels) // the more frequent level comes first
	s, _, err = Draft(strings.NewReader("x,y\n1,1\n2,0\n"), Schema{})
	require.NoError(t, err)
	require.Equal(t, []string{"1"}, s.Label.Positive) // of the spellings 0 and 1, the 1 is positive
	s, _, err = Draft(strings.NewReader("x,y\n1,a\n2,b\n3,c\n"), Schema{})
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "c"}, s.Label.Levels)
}

func TestDraftErrors(t *testing.T) {
	for _, c := range []struct {
		o    Schema
		text string
		want string
	}{
		{Schema{}, "", "the file is empty"},
		{Schema{}, "x,y\n", "no rows"},
		{Schema{}, "x\n1\n", "1 column"},
		{Schema{}, "x,y\n1\n", "line 2: 1 field, want 2"},
		{Schema{}, "x,y\n1,a\n", "has 1 spelling, want 2 to 20, or numbers"},
		{Schema{Label: Label{Column: "z"}}, "x,y\n1,a\n", `no column is named "z"; the columns are "x", "y"`},
		{Schema{}, "x,x\n1,2\n3,4\n", "label.column"},
		{Schema{File: File{Delimiter: "\""}}, "x,y\n", "file.delimiter"},
		{Schema{}, "x,\n1,2\n3,4\n", "label.column: empty"},
	} {
		_, _, err := Draft(strings.NewReader(c.text), c.o)
		require.ErrorContains(t, err, c.want)
	}
	_, _, err := Draft(nil, Schema{})
	require.ErrorIs(t, err, ErrTable)
}

// FuzzDraft checks that a schema drafted from rows reads those rows.
func FuzzDraft(f *testing.F) {
	f.Add("a,b,y\n1,x,0\n2,z,1\n")
	f.Add("a,b,y\n1e300,?,-1e300\n-1e-300,NaN,1e300\n0,0,5e-324\n")
	f.Add("a,y\n\"\n\",0.1\n\" \",0.30000000000000004\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, _, err := Draft(strings.NewReader(text), Schema{})
		if err != nil {
			return
		}
		_, err = Options{Public: true}.ReadCSV(strings.NewReader(text), s)
		if err != nil { // the label of some row is missing
			require.ErrorContains(t, err, "the label")
		}
	})
}
