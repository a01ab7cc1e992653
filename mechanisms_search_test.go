// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package privopt_test

import (
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
// in a schema or in a problem that it tells.
func TestSearchForSchema(t *testing.T) {
	for _, rel := range []dp.Relation{dp.Replace, dp.AddRemove} {
		o := &model.Options{Relation: rel}
		for _, line := range []string{"", ",,", "1e400,NaN,-0", "-1e15,\xff,\"\"", "x,x,x",
			strings.Repeat("9", 400) + ",0x1,1_0"} {
			text := "a,b,y\n" + strings.Repeat("1,u,yes\n2.5,v,no\n", 40) + strings.Repeat(line+"\n", 20)
			u, err := table.Discovery{Label: table.Label{Column: "y"}}.Read(strings.NewReader(text))
			require.NoError(t, err)
			pl, err := model.NewDiscoveryPlan(3, 100, dp.Budget{Epsilon: 9, Delta: 1e-4}, o)
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
