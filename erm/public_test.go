package erm_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

func twoRecords(t *testing.T, label float64) *erm.Data {
	t.Helper()
	data, err := erm.NewData([][]float64{{1, 0, 0}, {0, 0.5, 0}}, []float64{1, -1}, loss.Bounds{Row: 1, Label: label})
	require.NoError(t, err)
	return data
}

// What is public about a problem, field by field.
func TestPublic(t *testing.T) {
	p := erm.Problem{Data: twoRecords(t, 2), Loss: loss.Huber{Delta: 1}, Reg: prox.ElasticNet{L1: 2, L2: 3}, Set: prox.Box{Lo: 1, Hi: 2}}
	q, err := p.Public(dp.Replace)
	require.NoError(t, err)
	require.Equal(t, 3, q.Dim)
	require.Equal(t, 2, q.Records)
	require.Equal(t, int64(2), q.MaxRecords)
	require.Equal(t, loss.Bounds{Row: 1, Label: 2}, q.Bounds)
	require.Equal(t, p.Loss.Constants(q.Bounds, q.Radius), q.Constants)
	require.Equal(t, 3.0, q.Modulus)
	require.InDelta(t, 2*math.Sqrt(3), q.Radius, 1e-14)
	require.True(t, q.Linear)
	require.True(t, q.Split)
	require.InDelta(t, math.Sqrt(3), q.Anchor, 1e-13)      // p = (1,1,1)
	require.Zero(t, q.Slope)                               // the normal cone of the corner takes all of it
	require.InDelta(t, 1, q.Gradient, 1e-11)               // Delta·Row
	require.InDelta(t, 2+math.Sqrt(3), q.LossRange, 1e-11) // Delta·(Row·‖p‖+Label)
	require.Empty(t, q.Assumptions)

	again, err := q.Complete(dp.Replace)
	require.NoError(t, err)
	require.Equal(t, q, again)
}

func TestPublicRecords(t *testing.T) {
	p := erm.Problem{Data: twoRecords(t, 1), Loss: loss.Logistic{}}
	for _, c := range []struct {
		declared int
		most     int64
	}{{0, 1 << 30}, {1, 4}, {1000, 4000}, {1 << 38, 1 << 40}, {math.MaxInt, 1 << 40}} {
		p.Records = c.declared
		q, err := p.Public(dp.AddRemove)
		require.NoError(t, err)
		require.Equal(t, c.declared, q.Records)
		require.Equal(t, c.most, q.MaxRecords)
	}
	p.Records = -1
	_, err := p.Public(dp.AddRemove)
	require.ErrorIs(t, err, erm.ErrProblem)
	_, err = p.Public(0)
	require.ErrorIs(t, err, dp.ErrRelation)

	q, err := p.Public(dp.Replace)
	require.NoError(t, err, "under Replace the declaration is not looked at")
	require.Equal(t, int64(2), q.MaxRecords)
	q.MaxRecords = 1
	require.ErrorIs(t, q.Admit(&p), erm.ErrProblem)
	q.MaxRecords = 2
	require.NoError(t, q.Admit(&p))
}

// Under AddRemove what is public does not depend on the number of records, not even on whether there
// are any.
func TestPublicOfNoRecords(t *testing.T) {
	empty, err := erm.Empty(3, loss.Bounds{Row: 1, Label: 1})
	require.NoError(t, err)
	for _, rel := range []dp.Relation{dp.AddRemove, dp.Replace} {
		want, err := (&erm.Problem{Data: twoRecords(t, 1), Loss: loss.Logistic{}}).Public(rel)
		require.NoError(t, err)
		got, err := (&erm.Problem{Data: empty, Loss: loss.Logistic{}}).Public(rel)
		require.NoError(t, err)
		if rel == dp.Replace {
			require.Equal(t, int64(1), got.MaxRecords)
			got.Records, got.MaxRecords = 2, 2
		}
		require.Equal(t, want, got)
	}
}

// A kinked loss is refused with the way out, whether a problem declares it or a Public.
func TestPublicSmooth(t *testing.T) {
	for _, c := range []struct {
		l  loss.Loss
		ok bool
	}{{loss.Logistic{}, true}, {loss.Hinge{}, false}, {loss.Moreau{Loss: loss.Hinge{}, Beta: 10}, true}} {
		q, err := (&erm.Problem{Data: twoRecords(t, 1), Loss: c.l}).Public(dp.Replace)
		if c.ok {
			require.NoError(t, err)
			require.NoError(t, q.Smooth())
			continue
		}
		require.ErrorIs(t, err, erm.ErrProblem)
		require.ErrorIs(t, err, dp.ErrCondition)
		require.ErrorContains(t, err, "loss.Moreau")
		q, err = erm.Public{Dim: 2, Records: 2, Constants: c.l.Constants(loss.Bounds{Row: 1, Label: 1}, math.Inf(1))}.Complete(dp.Replace)
		require.NoError(t, err)
		require.ErrorIs(t, q.Smooth(), dp.ErrCondition)
		_, err = q.Cover(erm.PublicPerturbation{MinEig: 1, MaxEig: 1}, 0, 1)
		require.ErrorContains(t, err, "loss.Moreau")
		require.ErrorContains(t, err, "loss.SmoothedHinge")
	}
}
