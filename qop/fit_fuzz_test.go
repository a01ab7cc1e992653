package qop_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/noise"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/qop"
)

// FuzzFit: whatever the records, the fields, the anchor and the budget, a fit
// refuses or withholds with an error of a documented kind, or releases a finite
// point of the set with a valid certificate; and the error of a calibration does
// not depend on the records.
func FuzzFit(f *testing.F) {
	bad := []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1), 5e-324, 1e308, 1e150, 1e-150, 1e6}
	for i, v := range bad {
		f.Add(v, 1.0, 0.5, 1.0, 1e-6, 1.0, uint16(i*7))
		f.Add(0.5, v, 0.5, 1.0, 0.01, 1.0, uint16(i*13))
		f.Add(0.5, 1.0, v, 1.0, 1e-6, 1.0, uint16(i*31))
		f.Add(0.5, 1.0, 0.5, v, 1e-6, 1.0, uint16(i*97))
		f.Add(0.5, 1.0, 0.5, 1.0, v, 1.0, uint16(i*193))
		f.Add(0.5, -1.0, 0.5, 1.0, 0.1, v, uint16(i*389))
	}
	losses := []loss.Loss{loss.Squared{}, loss.Huber{Delta: 0.5}, loss.SmoothedHinge{Gamma: 0.5}, loss.Logistic{}}
	f.Fuzz(func(t *testing.T, x, label, center, eps, delta, field float64, bits uint16) {
		bounds := loss.Bounds{Row: 1, Label: 2}
		if loss.CheckData(losses[bits&3], 2, bounds) != nil { // a loss of classes
			bounds.Label = 1
		}
		data, err := erm.NewData([][]float64{{x, 1}, {0.3, -x}, {1, label}}, []float64{label, 1, -1}, bounds)
		require.NoError(t, err)
		calm, err := erm.NewData([][]float64{{0.1, 0.2}, {0.3, 0.4}, {0.5, 0.6}}, []float64{0.1, 0.2, 0.3}, bounds)
		require.NoError(t, err)
		p := &erm.Problem{Data: data, Loss: losses[bits&3]}
		if bits&4 > 0 {
			p.Reg = prox.L1{Weight: 0.1}
		}
		switch bits >> 3 & 3 {
		case 0:
			p.Set = prox.L2Ball{R: 1}
		case 1:
			p.Set = prox.Box{Lo: -1, Hi: 0.5}
		}
		other := *p
		other.Data = calm
		b := dp.Budget{Epsilon: eps, Delta: delta}
		m := &qop.Mechanism{
			Center: []float64{center, 0.25}, Relation: dp.Relation(bits >> 5 & 3), Calibration: qop.Calibration(bits >> 7 & 3),
			Interpolation: []qop.Interpolation{qop.Relabel{}, qop.Drop{Tolerance: field}, qop.Trust{}, nil}[bits>>9&3],
			M:             4,
		}
		switch bits >> 11 & 3 { // Eta has a search that a fuzzer has no time for
		case 0:
			m.M = field
		case 1:
			m.Radius = field
		case 2:
			m.Cover = field
		case 3:
			m.Share = field
		}
		if m.M > 100 && m.M < 1e9 {
			return
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if bits>>13&1 == 1 {
			cancel()
		}
		r, err := m.Fit(ctx, p, b, noise.Reproducible(uint64(bits)))
		if err != nil {
			require.Nil(t, r)
			documented := false
			for _, want := range []error{qop.ErrMechanism, dp.ErrBudget, dp.ErrCondition, dp.ErrRelation, dp.ErrWithheld, erm.ErrProblem, context.Canceled} {
				documented = documented || errors.Is(err, want)
			}
			require.True(t, documented, "%v", err)
			if !errors.Is(err, dp.ErrWithheld) && ctx.Err() == nil {
				_, err2 := m.Fit(ctx, &other, b, noise.Reproducible(uint64(bits)))
				require.EqualError(t, err2, err.Error(), "an error that depends on records")
			}
			return
		}
		require.NoError(t, ctx.Err())
		require.NoError(t, r.Certificate.Check())
		require.LessOrEqual(t, r.Certificate.Epsilon, eps)
		require.LessOrEqual(t, r.Certificate.Delta, delta)
		require.Contains(t, r.Certificate.Assumptions, dp.CallerSource)
		for _, v := range r.Theta {
			require.False(t, math.IsNaN(v) || math.IsInf(v, 0), "%v", r.Theta)
		}
		if p.Set != nil {
			projected := make([]float64, len(r.Theta))
			p.Set.Prox(projected, r.Theta, 1)
			require.InDeltaSlice(t, projected, r.Theta, 1e-12)
		}
	})
}
