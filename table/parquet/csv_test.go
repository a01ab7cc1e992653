// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package parquet

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/table"
)

// mixed is a row of every type that has a text.
type mixed struct {
	Text  *string          `parquet:"text,optional"`
	Float float32          `parquet:"float"`
	Small int32            `parquet:"small"`
	Big   uint64           `parquet:"big"`
	Bool  bool             `parquet:"bool"`
	Day   int32            `parquet:"day,date"`
	Time  int64            `parquet:"time,timestamp(microsecond)"`
	Money int64            `parquet:"money,decimal(3:18)"`
	Wide  [9]byte          `parquet:"wide,decimal(2:20)"`
	Spark deprecated.Int96 `parquet:"spark"`
}

// TestCSV checks the text of every type, and that a column without one is refused.
func TestCSV(t *testing.T) {
	text := " a,\"b\"\n\ufeff"
	day := time.Date(1969, 12, 30, 0, 0, 0, 0, time.UTC)
	path := write(t, []mixed{
		{Text: &text, Float: 0.5, Small: -3, Big: math.MaxUint64, Bool: true, Day: -2, Time: -1, Money: -7,
			Wide: [9]byte{255, 255, 255, 255, 255, 255, 255, 255, 133}, Spark: deprecated.Int96{1, 0, 2440588}},
		{Money: 12345, Wide: [9]byte{8: 5}},
	}, 1)
	r, err := CSV(path, "none")
	require.NoError(t, err)
	all, err := csv.NewReader(r).ReadAll()
	require.NoError(t, err)
	require.NoError(t, r.Close())
	names := []string{"text", "float", "small", "big", "bool", "day", "time", "money", "wide", "spark"}
	zero := "1970-01-01T00:00:00"
	require.Equal(t, [][]string{names,
		{text, "0.5", "-3", "18446744073709551615", "true", day.Format(time.DateOnly), "1969-12-31T23:59:59.999999", "-0.007",
			"-1.23", zero + ".000000001"},
		{"none", "0", "0", "0", "false", "1970-01-01", zero, "12.345", "0.05", "-4713-11-24T00:00:00"}}, all)
	columns, err := Columns(path)
	require.NoError(t, err)
	require.Equal(t, names, columns)

	_, err = CSV(write(t, []struct {
		List []string `parquet:"list,list"`
	}{{}}, 1), "")
	require.ErrorIs(t, err, ErrOptions)
	require.ErrorContains(t, err, `column "list" has a type other than text`)
	_, err = CSV(filepath.Join(t.TempDir(), "none"), "")
	require.ErrorIs(t, err, os.ErrNotExist)
	damaged := must(os.ReadFile(path))
	copy(damaged[4:200], make([]byte, 196))
	require.NoError(t, os.WriteFile(path, damaged, 0o600))
	if r, err = CSV(path, ""); err == nil {
		_, err = io.Copy(io.Discard, r)
		r.Close()
	}
	require.ErrorIs(t, err, ErrFile)
	r, err = CSV(write(t, make([]mixed, 10_000), 100), "")
	require.NoError(t, err)
	require.NoError(t, r.Close(), "before its end")
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// hostile is a row of a random table.
type hostile struct {
	Who  *string  `parquet:"who,optional"`
	X    *float64 `parquet:"x,optional,dict"`
	Kind string   `parquet:"kind,dict"`
	Y    float64  `parquet:"y"`
}

// TestRowsByThemselves writes random tables of hostile rows in random groups and pages. As CSV and
// as a source, each row has to be what it is alone, also where lines of persons are taken together.
func TestRowsByThemselves(t *testing.T) {
	s := must(table.ReadSchema(strings.NewReader(`{"schema": 1, "missing": ["?"],
		"label": {"column": "y", "min": 0, "max": 1, "unknown": "middle"}, "columns": [{"name": "who", "ignore": true},
		{"name": "x", "min": -1, "max": 1, "other": true, "missing": true},
		{"name": "kind", "levels": ["a", "b"], "other": true}]}`)))
	bounds := loss.Bounds{Row: 1, Label: 1}
	for seed := range testkit.Of(25, 200, 3000) {
		rnd := rand.New(rand.NewPCG(uint64(seed), 9))
		if s.Person, s.Rows = "", 0; seed%2 == 0 {
			s.Person, s.Rows = "who", 1+rnd.IntN(3)
		}
		numbers := []float64{0, 0.5, -1, math.NaN(), math.Inf(1), 1e308, 5e-324, math.Copysign(0, -1)}
		var all []hostile
		var lines []string
		for i := range 1 + rnd.IntN(12) {
			text := func() string {
				line := testkit.Line(rnd, ",", [][]string{{"a", "b"}}, true)
				return strings.TrimSuffix(line, "\n")
			}
			r := hostile{Kind: text(), Y: numbers[rnd.IntN(len(numbers))]}
			if rnd.IntN(3) > 0 {
				r.X = &numbers[rnd.IntN(len(numbers))]
			}
			if who := text(); rnd.IntN(4) > 0 {
				r.Who = new([]string{"1", "2", "3", who}[rnd.IntN(4)])
			}
			all, lines = append(all, r), append(lines, fmt.Sprintf("%03d", i))
		}
		group, pages := 1+rnd.IntN(4), parquet.PageBufferSize(1+rnd.IntN(200))
		part := func(text string) (some []hostile) { // the rows that a text of their numbers names
			for ; len(text) > 0; text = text[3:] {
				k := 0
				fmt.Sscan(text[:3], &k)
				some = append(some, all[k])
			}
			return some
		}
		options := table.Options{Plain: true}
		whose := func(line string) (id string) {
			rows, err := must(s.Encoder()).Rows(must(CSV(write(t, part(line), 1), "?")), options)
			require.NoError(t, err)
			require.True(t, rows.Next(), rows.Err())
			id = rows.ID()
			require.False(t, rows.Next())
			require.NoError(t, rows.Err())
			return id
		}
		require.True(t, testkit.Additive(t, func(text string) (testkit.Counts, error) {
			data, err := options.ReadCSV(must(CSV(write(t, part(text), group, pages), "?")), s)
			if err != nil {
				return nil, err
			}
			return recordsIn(t, data.Records), nil
		}, "", lines, whose))
		require.True(t, testkit.Additive(t, func(text string) (testkit.Counts, error) {
			src, err := Open(Options{Label: "y", Features: []string{"x"}}, write(t, part(text), group, pages))
			if err != nil {
				return nil, err
			}
			defer src.Close()
			return recordsIn(t, must(erm.Open(src, bounds))), nil
		}, "", lines, testkit.Nobody))
	}
}

// recordsIn counts the records of data, or its persons.
func recordsIn(t *testing.T, data *erm.Data) testkit.Counts {
	counts := testkit.Counts{}
	_, d := data.Dims()
	add := func(dst []float64, w float64, a []float64, b float64) {
		for j, v := range append(slices.Clone(a), b) {
			dst[j] += w * v * float64(j+2)
		}
	}
	require.NoError(t, data.EachPerson(t.Context(), d+1, math.Inf(1), add, func(v []float64) { counts[fmt.Sprint(v)]++ }))
	return counts
}

// TestImports: only commands link the library of the format.
func TestImports(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "../../lop", "../../table", "../../model").Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "privopt/table\n")
	require.NotContains(t, string(out), "parquet")
}
