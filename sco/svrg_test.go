package sco

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/noise"
)

func TestSVRGGolden(t *testing.T) {
	var g struct {
		Values []struct {
			N             int
			Beta, Lambda  float64
			Unconstrained map[string]float64
			Proximal      map[string]float64
		}
	}
	readGolden(t, "svrg", &g)
	require.Len(t, g.Values, 2)
	for _, v := range g.Values {
		for _, c := range []struct {
			composite bool
			want      map[string]float64
		}{{false, v.Unconstrained}, {true, v.Proximal}} {
			s, err := NewSVRGSchedule(v.N, v.Beta, v.Lambda, c.want["gap0"], c.want["target"], c.composite)
			require.NoError(t, err)
			require.InEpsilon(t, c.want["eta"], s.StepSize, 1e-12)
			require.EqualValues(t, c.want["inner"], s.Inner)
			require.InEpsilon(t, c.want["rho"], s.Factor, 1e-12)
			require.EqualValues(t, c.want["epochs_for_gap_ratio"], s.Epochs)
			require.EqualValues(t, c.want["gradient_evaluations"], s.Evaluations)
		}
	}
	_, err := NewSVRGSchedule(10, 1, 0, 1, 1, false)
	require.ErrorIs(t, err, ErrMechanism)
}

// SVRG at n = 1e5 reaches its certificate with far fewer gradients than
// 30 n log₂ n.
func TestSVRGEvaluations(t *testing.T) {
	if testing.Short() {
		t.Skip("1e5 records take seconds")
	}
	n, d := 100000, 10
	p := problem(3, n, d)
	var tr erm.Trace
	m := &ObjPertSVRG{ObjPert{Trace: func(t erm.Trace) { tr = t }}}
	rel, err := m.Fit(context.Background(), p, dp.Budget{Epsilon: 1, Delta: 1e-10}, noise.Reproducible(1))
	require.NoError(t, err)
	require.True(t, tr.Certified)
	limit := 30 * float64(n) * math.Log2(float64(n))
	t.Logf("%d gradients, %.2g of 30 n log₂ n, distance %.2g", tr.GradTerms, float64(tr.GradTerms)/limit, tr.Distance)
	require.Less(t, float64(tr.GradTerms), limit/4)

	// Newton from the same source releases the same point, up to the output noise.
	other, err := (&ObjPert{}).Fit(context.Background(), p, dp.Budget{Epsilon: 1, Delta: 1e-10}, noise.Reproducible(1))
	require.NoError(t, err)
	plan, err := m.Plan(p, dp.Budget{Epsilon: 1, Delta: 1e-10})
	require.NoError(t, err)
	require.Less(t, floats.Distance(rel.Theta, other.Theta, 2), 2*plan.Params().Cover+1e-15)
}
