package lop_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/noise"
	"github.com/privopt/privopt/prox"
)

// FuzzFit: whatever the records, the fields and the budget, a fit of either
// mechanism refuses or withholds with an error of a documented kind, or releases
// a finite point of the set with a valid certificate; and the kind of error of a
// calibration does not depend on the records.
func FuzzFit(f *testing.F) {
	bad := []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1), 5e-324, 1e308, 1e150, 1e-150, 1e6}
	for i, v := range bad {
		f.Add(v, 1.0, 1.0, 1.0, 1e-6, 1.0, uint16(i*7))
		f.Add(0.5, v, 1.0, 1.0, 0.01, 1.0, uint16(i*13))
		f.Add(0.5, 1.0, v, 1.0, 1e-6, 1.0, uint16(i*31))
		f.Add(0.5, 1.0, 1.0, v, 1e-6, 1.0, uint16(i*97))
		f.Add(0.5, 1.0, 1.0, 1.0, v, 1.0, uint16(i*193))
		f.Add(0.5, -1.0, 1.0, 1.0, 0.0, v, uint16(i*389))
	}
	losses := []loss.Loss{loss.Logistic{}, loss.Squared{}, loss.Huber{Delta: 0.5}, loss.SmoothedHinge{Gamma: 0.5}}
	f.Fuzz(func(t *testing.T, x, label, bound, eps, delta, field float64, bits uint16) {
		if loss.CheckData(losses[bits&3], 2, loss.Bounds{Row: 1, Label: bound}) != nil { // a loss of classes
			bound = 1
		}
		rows := [][]float64{{x, 1}, {0.3, -x}, {1, label}}
		data, err := erm.NewData(rows, []float64{label, 1, -1}, loss.Bounds{Row: 1, Label: bound})
		if err != nil {
			require.ErrorIs(t, err, erm.ErrData)
			return
		}
		calm, err := erm.NewData([][]float64{{0.1, 0.2}, {0.3, 0.4}, {0.5, 0.6}}, []float64{1, 1, -1}, loss.Bounds{Row: 1, Label: bound})
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
		case 2:
			p.Set = prox.L2Ball{R: math.Abs(field)}
		}
		other := *p
		other.Data = calm
		b := dp.Budget{Epsilon: eps, Delta: delta}
		m := &lop.Mechanism{
			Relation: dp.Relation(bits >> 5 & 3), Calibration: lop.Calibration(bits >> 7 & 3),
			Monotone: bits>>9&1 == 1, Joint: bits>>10&1 == 1,
		}
		*[]*float64{&m.Delta, &m.Radius, &m.Clip, &m.Cover}[bits>>11&3] = field
		o := &lop.Output{Relation: m.Relation, Delta: m.Delta, Radius: m.Radius, Clip: m.Clip, Cover: m.Cover}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if bits>>13&1 == 1 {
			cancel()
		}
		for name, fit := range map[string]func(p *erm.Problem, src rand.Source) (*dp.Release, error){
			"lop":    func(p *erm.Problem, src rand.Source) (*dp.Release, error) { return m.Fit(ctx, p, b, src) },
			"output": func(p *erm.Problem, src rand.Source) (*dp.Release, error) { return o.Fit(ctx, p, b, src) },
		} {
			r, err := fit(p, noise.Reproducible(uint64(bits)))
			public := err != nil && !errors.Is(err, dp.ErrWithheld) && ctx.Err() == nil
			if public {
				_, err2 := fit(&other, noise.Reproducible(uint64(bits)))
				require.EqualError(t, err2, err.Error(), "%s: an error that depends on records", name)
			}
			if err != nil {
				require.Nil(t, r, name)
				require.True(t, known(err) || errors.Is(err, dp.ErrWithheld) || errors.Is(err, erm.ErrProblem) || errors.Is(err, context.Canceled), "%s: %v", name, err)
				continue
			}
			require.NoError(t, ctx.Err(), name)
			require.NoError(t, r.Certificate.Check(), name)
			require.LessOrEqual(t, r.Certificate.Epsilon, eps)
			require.LessOrEqual(t, r.Certificate.Delta, delta)
			require.Contains(t, r.Certificate.Assumptions, dp.CallerSource)
			for _, v := range r.Theta {
				require.False(t, math.IsNaN(v) || math.IsInf(v, 0), "%s: %v", name, r.Theta)
			}
			if p.Set != nil {
				projected := make([]float64, len(r.Theta))
				p.Set.Prox(projected, r.Theta, 1)
				require.InDeltaSlice(t, projected, r.Theta, 1e-12*(1+math.Abs(field)), name)
			}
		}
	})
}
