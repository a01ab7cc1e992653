// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package table

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFigures reads numbers in every way of writing. A sign in a place where the way has none makes
// a field no number; 1.5 is never 15.
func TestFigures(t *testing.T) {
	none := math.NaN() // not a number in this way
	for _, c := range []struct {
		field string
		want  [8]float64 // by written
	}{
		{"12", [8]float64{12, 12, 12, 12, 12, 12, 12, 12}},
		{"-1e3", [8]float64{-1e3, -1e3, -1e3, -1e3, -1e3, -1e3, -1e3, -1e3}},
		{"1.5", [8]float64{1.5, 1.5, none, none, 1.5, 1.5, none, none}},
		{"1,5", [8]float64{none, none, 1.5, 1.5, none, none, 1.5, 1.5}},
		{"1.234", [8]float64{1.234, 1.234, none, 1234, 1.234, 1.234, none, none}},
		{"-1.234.567,25", [8]float64{none, none, none, -1234567.25, none, none, none, none}},
		{"+1,234.5e1", [8]float64{none, 12345, none, none, none, none, none, none}},
		{"1 234,5", [8]float64{none, none, none, none, none, none, 1234.5, none}},
		{"1\u202f234\u00a0567", [8]float64{none, none, none, none, none, 1234567, 1234567, none}},
		{"1'234.5", [8]float64{none, none, none, none, 1234.5, none, none, none}},
		{"1'234,5", [8]float64{none, none, none, none, none, none, none, 1234.5}},
		{"0,123", [8]float64{none, none, 0.123, 0.123, none, none, 0.123, 0.123}},
		{"1234,567.8", [8]float64{none, none, none, none, none, none, none, none}},
		{"1,23,456", [8]float64{none, none, none, none, none, none, none, none}},
		{",5", [8]float64{none, none, .5, .5, none, none, .5, .5}},
		{"", [8]float64{none, none, none, none, none, none, none, none}},
		{",", [8]float64{none, none, none, none, none, none, none, none}},
		{"1,-234", [8]float64{none, none, none, none, none, none, none, none}},
		{"1,2,3", [8]float64{none, none, none, none, none, none, none, none}},
	} {
		for k, f := range written {
			v, ok := f.number([]byte(c.field))
			if math.IsNaN(c.want[k]) {
				require.False(t, ok, "%q with %v: %v", c.field, f, v)
				continue
			}
			require.True(t, ok, "%q with %v", c.field, f)
			require.Equal(t, c.want[k], v, "%q with %v", c.field, f)
		}
	}
	for _, f := range written {
		v, ok := f.number([]byte("-Inf"))
		require.True(t, ok && math.IsInf(v, -1))
		v, ok = f.number([]byte("NaN"))
		require.True(t, ok && math.IsNaN(v))
	}
}

// TestFiguresRandom writes random numbers in every way and reads them back.
func TestFiguresRandom(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		v := math.Round(1e9*rnd.NormFloat64()) / 1000
		for _, f := range written {
			text := strconv.FormatFloat(v, 'f', -1, 64)
			whole, fraction, _ := strings.Cut(strings.TrimPrefix(text, "-"), ".")
			if f.thousands != 0 {
				for k := len(whole) - 3; k > 0; k -= 3 {
					whole = whole[:k] + string(rune(f.thousands)) + whole[k:]
				}
			}
			if fraction != "" {
				whole += map[byte]string{0: ".", ',': ","}[f.decimal] + fraction
			}
			if v < 0 {
				whole = "-" + whole
			}
			got, ok := f.number([]byte(whole))
			require.True(t, ok, whole)
			require.Equal(t, v, got, whole)
		}
	}
}

const dated = `{"schema": 1, "label": {"column": "y", "min": 0, "max": 1}, "file": {"delimiter": ";", "decimal": ",",
  "thousands": "."}, "columns": [{"name": "day", "date": "2.1.2006 15:04", "min": 0, "max": 4000, "other": true},
  {"name": "pay", "min": 0, "max": 20000}]}`

// TestDates reads dates, decimal commas and thousands by a schema, in columns and in the label.
func TestDates(t *testing.T) {
	data := readTable(t, dated, "day;pay;y\n1.1.2000 12:00;1.234,5;0,25\n31.12.1999 00:00;20000;1\nsoon;5,5;0\n")
	c := data.Encoder.columns[0].c
	require.InDelta(t, c*(0.5-2000)/2000, data.Records.Row(0)[0], 1e-15)
	require.InDelta(t, -c, data.Records.Row(1)[0], 1e-15, "a day before the range is clamped")
	require.Zero(t, data.Records.Row(2)[0], "a field that is no date counts as missing")
	require.InDelta(t, c*(1234.5-1e4)/1e4, data.Records.Row(0)[1], 1e-15)
	require.Equal(t, -0.5, data.Records.Label(0))

	_, err := ReadCSV(strings.NewReader("day;pay;y\nsoon;1;1\n"),
		must(ReadSchema(strings.NewReader(strings.Replace(dated, `, "other": true`, "", 1)))))
	require.ErrorContains(t, err, `line 2, column 1 ("day"): text, want a date in the form "2.1.2006 15:04"`)
	for field, layout := range map[string]string{"29.02.2001": "2.1.2006", "2001-1-1": "2006-01-02",
		strings.Repeat("1", 70): "2006-01-02", "": "2006"} {
		_, ok := date([]byte(field), layout)
		require.False(t, ok, field)
	}
	for field, want := range map[string]float64{"9999-12-31": 2921939, "0001-01-01": -730119, "2000-03-01": 60} {
		v, ok := date([]byte(field), "2006-01-02")
		require.True(t, ok)
		require.Equal(t, want, v)
	}
	v, _ := date([]byte("2000-01-01T01:00:00.5+01:00"), "2006-01-02T15:04:05Z07:00")
	require.InDelta(t, 0.5/86400, v, 1e-15)
}

func readTable(t *testing.T, schema, text string) *Data {
	data, err := ReadCSV(strings.NewReader(text), must(ReadSchema(strings.NewReader(schema))))
	require.NoError(t, err)
	return data
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestFormErrors checks that a schema with a form of figures, dates or text that cannot be read is
// refused with the place, the value and the fix.
func TestFormErrors(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{`"decimal": ","`, `"decimal": ";"`, `file.decimal: ";", want "." or ","`},
		{`"decimal": ",",`, ``, `file.thousands: "." is the decimal sign, too`},
		{`"thousands": "."`, `"thousands": ","`, `file.thousands: "," is the decimal sign, too`},
		{`"thousands": "."`, `"thousands": "_"`, `file.thousands: "_", want ".", ",", "'" or " "`},
		{`"thousands": "."`, `"encoding": "utf-16"`, `file.encoding: "utf-16", want "latin-1" or "windows-1252"`},
		{`"2.1.2006 15:04"`, `"dd.mm.yyyy"`, `columns[0].date: "dd.mm.yyyy" is no layout of a date, want the date 2 January`},
		{`"2.1.2006 15:04"`, `"2006-01"`, `columns[0].date: "2006-01" is no layout`},
		{`"2.1.2006 15:04"`, `"15:04"`, `columns[0].date: "15:04" is no layout`},
		{`"2.1.2006 15:04"`, `"2006-01-02 MST"`, `columns[0].date: "2006-01-02 MST" has a zone by name`},
		{`"2.1.2006 15:04"`, `" 2006-01-02"`, `columns[0].date: " 2006-01-02" begins or ends with blanks`},
		{`"2.1.2006 15:04"`, `"2006-01-02` + strings.Repeat("x", 60) + `"`, `columns[0].date: longer than 64 bytes`},
		{`"min": 0, "max": 4000`, `"levels": ["a"]`, `columns[0].date: "day" has levels`},
		{`"min": 0, "max": 4000, "other": true`, `"ignore": true`, `columns[0]: "day" is ignored and has other keys`},
	} {
		require.Contains(t, dated, c.old)
		_, err := ReadSchema(strings.NewReader(strings.Replace(dated, c.old, c.new, 1)))
		require.ErrorIs(t, err, ErrSchema, c.new)
		require.ErrorContains(t, err, c.want)
	}
}
