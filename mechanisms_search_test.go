// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package privopt_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/model"
	"github.com/privopt/privopt/table"
)

// TestSearchForSchema runs the attacks over a search for a schema, which takes a table in place of
// a problem: a source that repeats itself, and tables of hostile lines, on which every search ends
// in a schema or in a problem that it tells, by record and by person.
func TestSearchForSchema(t *testing.T) {
	for k := range 4 {
		rel, rows := []dp.Relation{dp.Replace, dp.AddRemove}[k%2], 3*(k/2)
		o := &model.Options{Relation: rel, Discover: &model.Discovery{Rows: rows}}
		for _, line := range []string{"", ",,", "1e400,NaN,-0", "-1e15,\xff,\"\"", "x,x,x",
			strings.Repeat("9", 400) + ",0x1,1_0"} {
			text := "a,b,y\n" + strings.Repeat("1,u,yes\n2.5,v,no\n", 40) + strings.Repeat(line+"\n", 20)
			d := table.Discovery{Label: table.Label{Column: "y"}}
			if rows > 0 { // of 81 persons the last has all of the hostile lines
				d.Person, d.Rows, o.Discover.Person = "who", rows, "who"
				text = byID(text)
			}
			u, err := d.Read(strings.NewReader(text))
			require.NoError(t, err)
			pl, err := model.NewDiscoveryPlan(3, u.Records(), dp.Budget{Epsilon: 9, Delta: 1e-4}, o)
			require.NoError(t, err)
			require.Empty(t, dp.Declared(pl))
			for _, word := range []stuck{0, math.MaxUint64, 1, 1 << 63, 0x5555555555555555} {
				_, err := pl.Release(t.Context(), u, word)
				require.ErrorIs(t, err, noise.ErrSource, "%x", word)
			}
			for seed := range uint64(10) {
				s, err := pl.Release(t.Context(), u, noise.Reproducible(seed))
				require.NoError(t, err)
				if s.Discovery.Problem == "" {
					require.NoError(t, s.Check())
				}
			}
		}
	}
}

// byID puts a column of ids before the columns of a table. Each of the first 80 lines is a person,
// and the rest is one. An empty line stays one, and is nobody's.
func byID(text string) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, l := range lines {
		switch {
		case i == 0:
			lines[i] = "who," + l
		case l != "":
			lines[i] = fmt.Sprintf("p%d,%s", min(i, 81), l)
		}
	}
	return strings.Join(lines, "\n") + "\n"
}
