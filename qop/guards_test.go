package qop

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/noise"
	"github.com/privopt/privopt/prox"
)

// liar claims that every label interpolates.
type liar struct{ loss.Squared }

func (liar) Interpolate(_, b float64) (float64, bool) { return b, true }

// TestRulesCheckLosses: a loss that names a label at which its gradient does not
// vanish gets its records replaced by zero records.
func TestRulesCheckLosses(t *testing.T) {
	data, err := erm.NewData([][]float64{{1, 0}, {0, 1}}, []float64{0.5, 0.25}, loss.Bounds{Row: 1, Label: 2})
	require.NoError(t, err)
	center := []float64{0.5, 1} // fits the first record only
	for _, rule := range []Interpolation{Relabel{}, Drop{Tolerance: 1}} {
		got := rule.apply(data, liar{}, center)
		require.ElementsMatch(t, [][]float64{{1, 0, 0.5}, {0, 0, 0}}, records(got), "%T", rule)
		require.ElementsMatch(t, [][]float64{{1, 0, 0.5}, {0, 1, 1}}, records(rule.apply(data, loss.Squared{}, center)))
	}
}

// records returns rows and labels, in the order of Data.
func records(data *erm.Data) (all [][]float64) {
	n, _ := data.Dims()
	for i := range n {
		all = append(all, append(data.Row(i), data.Label(i)))
	}
	return all
}

// TestTrustRefusesLogistic, also behind pointers and clipping.
func TestTrustRefusesLogistic(t *testing.T) {
	data, err := erm.NewData([][]float64{{1, 0}}, []float64{1}, loss.Bounds{Row: 1, Label: 1})
	require.NoError(t, err)
	for _, l := range []loss.Loss{loss.Logistic{}, &loss.Logistic{}, loss.Clipped{Loss: loss.Logistic{}, Threshold: 0.5}, &loss.Clipped{Loss: loss.Logistic{}, Threshold: 0.5}} {
		_, err := (&Mechanism{Center: []float64{0, 0}, Interpolation: Trust{}}).Fit(context.Background(),
			&erm.Problem{Data: data, Loss: l, Set: prox.Box{Lo: -1, Hi: 1}}, dp.Budget{Epsilon: 1, Delta: 1e-3}, noise.Reproducible(1))
		require.ErrorIs(t, err, dp.ErrCondition, "%T", l)
	}
}

// TestAddRemoveIgnoresRecords: n is private there.
func TestAddRemoveIgnoresRecords(t *testing.T) {
	q := Public{Dim: 5, Constants: loss.Constants{Lipschitz: 1, Smoothness: 1, Rank: 1, Structure: loss.LSQ}, Budget: dp.Budget{Epsilon: 1, Delta: 1e-3}}
	m := &Mechanism{Relation: dp.AddRemove, Eta: 0.01, Radius: 1, Cover: 1e-6}
	a, err := m.Calibrate(q)
	require.NoError(t, err)
	q.Records = 1_000_000
	b, err := m.Calibrate(q)
	require.NoError(t, err)
	require.Equal(t, *a, *b)
}

// TestHugeSizes are refused at once instead of computed for hours.
func TestHugeSizes(t *testing.T) {
	for _, c := range []struct {
		dim int
		m   float64
		s   loss.Structure
	}{{3, 1e12, loss.LSQ}, {3, 1e300, loss.GLM}, {1_000_000_000, 0, loss.LSQ}, {3, 1e5, loss.General}, {3000, 0, loss.General}} {
		start := time.Now()
		_, err := (&Mechanism{M: c.m, Cover: 1e-6}).Calibrate(Public{Dim: c.dim, Constants: loss.Constants{Lipschitz: 1, Smoothness: 1, Rank: 1, Structure: c.s}, Budget: dp.Budget{Epsilon: 1, Delta: 1e-3}})
		require.Error(t, err, c)
		require.Less(t, time.Since(start), time.Second)
	}
}
