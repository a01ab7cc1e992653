// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/stat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/table"
)

// hostileColumns make fields that tempt a search to show what no record holds.
var hostileColumns = []func(i int, rnd *rand.Rand) string{
	func(int, *rand.Rand) string { return "" },
	func(int, *rand.Rand) string { return "0" },
	func(int, *rand.Rand) string { return "1e400" },
	func(i int, _ *rand.Rand) string { return fmt.Sprint("u", i) },
	func(_ int, rnd *rand.Rand) string { return fmt.Sprint(18 + rnd.IntN(73)) },
	func(_ int, rnd *rand.Rand) string { return fmt.Sprint(-1 - rnd.IntN(9)) },
	func(_ int, rnd *rand.Rand) string { return fmt.Sprint(rnd.NormFloat64()) },
	func(_ int, rnd *rand.Rand) string { return fmt.Sprint(math.Exp(3 * rnd.NormFloat64())) },
	func(_ int, rnd *rand.Rand) string { return []string{"", "", "", "7", "x"}[rnd.IntN(5)] },
	func(i int, _ *rand.Rand) string { return fmt.Sprint(1e-9 * float64(i%3)) },
	func(i int, rnd *rand.Rand) string {
		if rnd.IntN(50) > 0 {
			return ""
		}
		return fmt.Sprint(i)
	},
}

// TestNoiseMakesNoRange: no range reaches further than ten times a number of the column of that
// sign, no level is missing or rare, whatever the columns hold and however small the budget is.
func TestNoiseMakesNoRange(t *testing.T) {
	rnd := rand.New(rand.NewPCG(11, 12))
	runs, ranges, levels := testkit.Of(200, 500, 10000), 0, 0
	for run := range runs {
		n := 100 << rnd.IntN(5)
		columns := make([][]string, 4)
		for j := range columns {
			of := hostileColumns[rnd.IntN(len(hostileColumns))]
			for i := range n {
				columns[j] = append(columns[j], of(i, rnd))
			}
		}
		var text strings.Builder
		text.WriteString("a,b,c,d,y\n")
		for i := range n {
			fmt.Fprintf(&text, "%s,%s,%s,%s,%d\n", columns[0][i], columns[1][i], columns[2][i], columns[3][i], i%2)
		}
		o := &Options{Relation: []dp.Relation{dp.Replace, dp.AddRemove}[run%2], Records: n}
		b := dp.Budget{Epsilon: math.Exp(5*rnd.Float64() - 2), Delta: DefaultDelta(n)}
		pl, err := newDiscovery(5, n, b, o)
		require.NoError(t, err)
		require.NoError(t, pl.alone()) // also where the plan would be refused
		s, err := pl.Release(t.Context(), undeclared(t, text.String()), dp.Seeded(uint64(run)))
		require.NoError(t, err)
		for j, c := range s.Columns {
			require.True(t, !c.Missing || slices.Contains(columns[j], ""), "a missing level of what is never missing")
			if c.Min != nil {
				ranges++
				checkRange(t, c, columns[j])
			}
			for _, level := range c.Levels {
				levels++
				require.False(t, strings.HasPrefix(level, "u"), "an identifier is a level")
			}
		}
	}
	require.Greater(t, ranges, runs/3)
	require.Greater(t, levels, runs/50)
}

// checkRange compares a range with the numbers of the column.
func checkRange(t *testing.T, c table.Column, fields []string) {
	least, most := 0.0, 0.0
	for _, field := range fields {
		var x float64
		if n, _ := fmt.Sscan(field, &x); n == 1 && math.Abs(x) <= 1e15 {
			least, most = min(least, x), max(most, x)
		}
	}
	tiny := 1e-3 * max(most, -least, 1e3) // of the cell around zero
	require.GreaterOrEqual(t, *c.Min, min(10*least, 0)*(1+1e-12)-tiny)
	require.LessOrEqual(t, *c.Max, max(10*most, 0)*(1+1e-12)+tiny)
}

// TestSearchLeavesOut: columns that identify a record, or say the same of all, are left out, and
// the schema says why. Numbers with fractions may all differ.
func TestSearchLeavesOut(t *testing.T) {
	rnd, persons := rand.New(rand.NewPCG(13, 14)), false
	for _, header := range []string{"id,row,code,five,zero,pay,age,y", "Id,row,code,five,zero,pay,age,y"} {
		var text strings.Builder
		text.WriteString(header + "\n")
		for i := range 6000 {
			fmt.Fprintf(&text, "%d,%d,%d,5,0,%.2f,%d,%d\n", i, i+1, rnd.IntN(1e9), math.Exp(10+rnd.NormFloat64()),
				18+rnd.IntN(70), i%2)
		}
		d := table.Discovery{Label: table.Label{Column: "y"}}
		if persons {
			d.Person, d.Rows = "row", 3 // each with one line
		}
		persons = true
		u, err := d.Read(strings.NewReader(text.String()))
		require.NoError(t, err)
		require.Equal(t, []string{header[:2]}, u.Identifiers())
		s, err := Discover(t.Context(), u, dp.Budget{Epsilon: 3, Delta: 1e-8}, &Options{Source: dp.Seeded(3)})
		require.NoError(t, err)
		used := map[string]bool{}
		for _, c := range s.Columns {
			used[c.Name] = !c.Ignore
		}
		notes := map[string]string{}
		for _, c := range s.Discovery.Columns {
			notes[c.Name] = c.Note
		}
		for _, name := range []string{"row", "code"} {
			require.True(t, d.Person == name || strings.Contains(notes[name], "an identifier"), name)
			require.False(t, used[name])
		}
		for _, name := range []string{"five", "zero"} {
			require.Contains(t, notes[name], "the same number", name)
			require.False(t, used[name])
		}
		require.True(t, used["pay"] && used["age"] && !used[header[:2]])
	}
}

// TestSearchKeepsTwoNumbers: a column is constant only if nearly all of its numbers are one: −1
// and 0 are not, nor are most numbers small beside a few.
func TestSearchKeepsTwoNumbers(t *testing.T) {
	rnd := rand.New(rand.NewPCG(15, 16))
	var text strings.Builder
	text.WriteString("sign,far,y\n")
	for i := range 60000 {
		far := 1 + rnd.IntN(1000)
		if i%200 == 0 {
			far = 1e9 * (1 + rnd.IntN(9))
		}
		fmt.Fprintf(&text, "%d,%d,%d\n", -rnd.IntN(2), far, i%2)
	}
	u, err := table.Discovery{Label: table.Label{Column: "y"}}.Read(strings.NewReader(text.String()))
	require.NoError(t, err)
	s, err := Discover(t.Context(), u, dp.Budget{Epsilon: 3, Delta: 1e-8}, &Options{Source: dp.Seeded(3)})
	require.NoError(t, err)
	for _, c := range s.Discovery.Columns {
		require.NotContains(t, c.Note, "the same number", c.Name)
	}
}

// TestDistinctIsNoisy: the number of different numbers has at least the noise of its share of the
// whole budget, for records and, in units of 1/PersonParts, for persons.
func TestDistinctIsNoisy(t *testing.T) {
	var text strings.Builder
	text.WriteString("id,x,y\n")
	for i := range 2000 {
		fmt.Fprintf(&text, "p%d,%d,%d\n", i, 18+i%70, i%2)
	}
	b := dp.Budget{Epsilon: 1, Delta: 1e-6}
	mu, err := dp.Calibrate(dp.GaussianCurve, b)
	require.NoError(t, err)
	for unit, person := range map[float64]string{1: "", table.PersonParts: "id"} {
		d := table.Discovery{Label: table.Label{Column: "y"}, Person: person}
		if person != "" {
			d.Rows = 3
		}
		u, err := d.Read(strings.NewReader(text.String()))
		require.NoError(t, err)
		var counts []float64
		for seed := range uint64(40) {
			s, err := Discover(t.Context(), u, b, &Options{Source: dp.Seeded(seed)})
			require.NoError(t, err)
			for _, c := range s.Discovery.Columns {
				if c.Name == "x" {
					counts = append(counts, float64(c.Distinct))
				}
			}
		}
		require.Len(t, counts, 40)
		least := unit / (mu * math.Sqrt(distinctShare))
		require.Greater(t, stat.StdDev(counts, nil), 0.7*least, "unit %v", unit)
	}
}
