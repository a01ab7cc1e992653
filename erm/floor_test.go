package erm_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/loss"
)

// The output noise of a release that hides 2R with 1 % of ε = 1, δ = 1e-9, about 1083R, is to be at most
// 12 % of what the linear perturbation moves a coordinate by, σ/(0.012n).
func TestFloorGoal(t *testing.T) {
	const sigma, delta, bmax = 12, 4.4, 176 // what lop calibrates at d = 12, B = 10
	per := erm.PublicPerturbation{Linear: bmax, MinEig: delta, MaxEig: delta}
	for _, rel := range []dp.Relation{dp.Replace, dp.AddRemove} {
		for _, n := range []int{1e4, 1e5, 1e6, 1e7, 1e8} {
			q, err := erm.Public{
				Dim: 12, Records: n, Bounds: loss.Bounds{Row: 1, Label: 1}, Constants: loss.Logistic{}.Constants(loss.Bounds{Row: 1, Label: 1}, math.Inf(1)),
				Linear: true, Exact: true, Split: true, LossRange: math.Ln2, Gradient: 1,
			}.Complete(rel)
			require.NoError(t, err)
			r, err := q.Cover(per, 0, 10)
			require.NoError(t, err)
			require.Less(t, 1083*r, 0.12*sigma/(0.012*float64(n)), "%v, n = %d", rel, n)
		}
	}
}

func TestCover(t *testing.T) {
	b := loss.Bounds{Row: 1, Label: 1}
	q, err := erm.Public{Dim: 2, Records: 1e6, Bounds: b, Constants: loss.Logistic{}.Constants(b, math.Inf(1)), Linear: true, Split: true, LossRange: 1, ProxFactor: 4}.Complete(dp.Replace)
	require.NoError(t, err)
	per := erm.PublicPerturbation{Linear: 10, MinEig: 1, MaxEig: 1}
	floor := q.Floor(per)
	require.Positive(t, floor)
	for _, c := range []struct{ stated, radius, want float64 }{
		{0, 1, floor}, {0, 1e12, 10}, {2 * floor, 1e12, 2 * floor}, {floor, 1, floor},
	} {
		r, err := q.Cover(per, c.stated, c.radius)
		require.NoError(t, err)
		require.Equal(t, c.want, r)
	}
	_, err = q.Cover(per, 0.99*floor, 1)
	require.ErrorIs(t, err, dp.ErrCondition)

	q.LossRange, q.Gradient, q.Constants.Lipschitz, q.OnSet.Lipschitz = math.Inf(1), math.Inf(1), 0, 0
	_, err = q.Cover(per, 1, 1)
	require.ErrorIs(t, err, dp.ErrCondition)
}
