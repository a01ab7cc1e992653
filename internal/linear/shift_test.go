// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package linear

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
)

// The largest shift meets the budget and a larger one does not; the e₁ of first-order conditions is
// as good as that of the search.
func TestLargestShift(t *testing.T) {
	budgets := []dp.Budget{{Epsilon: 1, Delta: 1e-6}, {Epsilon: 0.05, Delta: 0.1}, {Epsilon: 20, Delta: 1e-9}}
	for i := range 24 {
		b := budgets[i/8]
		at := func(mu float64) Sequence {
			return Sequence{Relation: []dp.Relation{dp.AddRemove, dp.Replace}[i%2], Monotone: i/2%2 == 1, Persons: i/4%2 == 1,
				C: []float64{0.05 * b.Epsilon, 0.1 * b.Epsilon}, S: []float64{0.3 * mu, 0.9 * mu}, T: 0.3 * mu}
		}
		found, err := LargestShift(b, 0, at)
		require.NoError(t, err)
		within := func(mu float64) bool {
			remove, add := at(mu).Profile()
			return max(remove(b.Epsilon), add(b.Epsilon)) <= b.Delta
		}
		require.True(t, within(found))
		require.False(t, within(math.Nextafter(found, math.Inf(1))))
		near, err := LargestShift(b, 1e-3, at)
		require.NoError(t, err)
		require.LessOrEqual(t, near, found)
		require.Greater(t, near, found*(1-2e-3))

		q := at(found)
		remove, add := q.terms(0.5)
		logRemove, logAdd := q.logs(0.5)
		best := math.Inf(1)
		for i, g := range bothLegs {
			g.e1 = leastE1([][]term{add, remove}[i], [][]term{remove, add}[i], b.Epsilon, b.Epsilon/9)
			value := func(g leg) float64 {
				return g.log(b.Epsilon, logRemove, logAdd)
			}
			for _, e1 := range []float64{0, 0.3 * b.Epsilon, 0.9 * g.e1, min(1.1*g.e1, b.Epsilon), b.Epsilon} {
				require.LessOrEqual(t, value(g), value(leg{g.removeFirst, e1})+1e-12)
			}
			best = min(best, value(g))
		}
		_, searched := q.bestLeg(b.Epsilon)
		require.InDelta(t, searched, best, 1e-7) // the search is for e₁ to 1e-5 ε, where the bound is flat
	}
	// Without any release nothing is spent.
	mu, err := LargestShift(budgets[0], 0, func(float64) Sequence { return Sequence{Relation: dp.Replace} })
	require.NoError(t, err)
	require.Equal(t, 0x1p80, mu)
}
