// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package table

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/erm"
)

const visits = `{ "schema": 1, "label": {"column": "y", "min": -1, "max": 1}, "missing": ["?"],
  "person": "who", "rows": 2,
  "columns": [{"name": "x", "min": 0, "max": 10}] }`

func read(t *testing.T, schema, text string) *Data {
	s, err := ReadSchema(strings.NewReader(schema))
	require.NoError(t, err)
	d, err := ReadCSV(strings.NewReader(text), s)
	require.NoError(t, err)
	return d
}

func content(t *testing.T, d *Data) (lines []string) {
	require.NoError(t, d.Records.EachPerson(t.Context(), 2, 10, func(dst []float64, w float64, a []float64, b float64) {
		dst[0], dst[1] = dst[0]+w*a[0], dst[1]+w*b
	}, func(v []float64) { lines = append(lines, fmt.Sprintf("%.9f", v)) }))
	return lines
}

func TestPersons(t *testing.T) {
	text := "who,x,y\nann,1,1\nbob,2,-1\n ann ,3,1\n?,9,1\n,8,1\n\nann,5,-1\nbob,2,-1\n"
	d := read(t, visits, text)
	require.Equal(t, "table.Data(2×1)", d.String(), "persons, not lines")
	p, ok := d.Records.Persons()
	require.True(t, ok)
	require.Equal(t, erm.Persons{Rows: 2}, p)
	p, ok = d.Encoder.Persons()
	require.True(t, ok)
	require.Equal(t, erm.Persons{Rows: 2}, p)
	got := content(t, d)
	require.Contains(t, got, fmt.Sprintf("%.9f", []float64{-0.6, -1}), "two equal lines of bob, x = 2")
	mixed := read(t, visits, "who,x,y\nbob,2,-1\nann,5,-1\n,8,1\nann,3,1\nann,1,1\nbob,2,-1\n")
	require.Equal(t, got, content(t, mixed), "the order of lines and lines without an id change nothing")
	more := read(t, visits, text+strings.Repeat("bob,7,1\n", 100))
	require.Equal(t, "table.Data(2×1)", more.String())
	var kept int
	for _, line := range content(t, more) {
		for _, old := range got {
			if line == old {
				kept++
			}
		}
	}
	require.GreaterOrEqual(t, kept, 1, "nothing changes for ann")

	rows := read(t, strings.Replace(visits, `"rows": 2`, `"rows": 4, "weights": "rows"`, 1), text)
	require.Contains(t, content(t, rows), fmt.Sprintf("%.9f", []float64{-0.3, -0.5}), "bob has two lines of weight 1/4")
	ignored := strings.Replace(visits, `"columns": [`, `"columns": [{"name": "who", "ignore": true}, `, 1)
	require.Equal(t, got, content(t, read(t, ignored, text)))
	fields := strings.Replace(visits, `"columns"`, `"file": {"fields": ["who", "x", "y"]}, "columns"`, 1)
	require.Equal(t, got, content(t, read(t, fields, strings.TrimPrefix(text, "who,x,y\n"))))

	s, err := ReadSchema(strings.NewReader(visits))
	require.NoError(t, err)
	_, err = ReadCSV(strings.NewReader("x,y\n1,1\n"), s)
	require.ErrorContains(t, err, `the file has no column "who"`)
	rowsOf, err := d.Encoder.Rows(strings.NewReader("x\n1\n"), Options{Unlabeled: true})
	require.NoError(t, err, "a prediction needs no id")
	require.True(t, rowsOf.Next())
}
