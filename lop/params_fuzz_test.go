package lop_test

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
)

// known reports whether err is one of the kinds that a calibration documents.
func known(err error) bool {
	return errors.Is(err, lop.ErrMechanism) || errors.Is(err, dp.ErrBudget) || errors.Is(err, dp.ErrCondition) || errors.Is(err, dp.ErrRelation)
}

// sound fails unless every number of a plan is in range and the plan's own
// curve keeps the budget.
func sound(t *testing.T, p *lop.Plan) {
	t.Helper()
	for name, v := range map[string]float64{"Delta": p.Delta, "Sigma": p.Sigma, "Rate": p.Rate, "C": p.C, "S": p.S, "Cover": p.Cover, "OutputSigma": p.OutputSigma, "OutputRate": p.OutputRate} {
		require.True(t, v >= 0 && !math.IsInf(v, 1), "%s = %v in %+v", name, v, p)
	}
	require.Positive(t, p.Delta)
	require.Positive(t, p.Cover)
	require.Positive(t, p.OutputSigma+p.OutputRate)
	require.False(t, math.IsNaN(p.ExcessBound) || p.ExcessBound < 0, "%v", p.ExcessBound)
	require.LessOrEqual(t, p.Objective.Epsilon+p.Output.Epsilon, p.Budget.Epsilon)
	require.LessOrEqual(t, p.Objective.Delta+p.Output.Delta, p.Budget.Delta)
	// DeltaAt adds its own margins of 1e-9 to a calibration that meets δ with
	// margins of its own; far below that, the certified tails are 1e-12.
	require.LessOrEqual(t, p.DeltaAt(p.Budget.Epsilon), p.Budget.Delta*(1+1e-6)+1e-300, "%+v", p)
	for _, e := range []float64{0, p.Budget.Epsilon / 2, 2 * p.Budget.Epsilon} {
		d := p.Profile()(e)
		require.True(t, d >= 0 && d <= 1, "δ(%v) = %v", e, d)
	}
	for _, a := range []float64{1, 2, 100} {
		require.False(t, math.IsNaN(p.RDP()(a)) || p.RDP()(a) < 0)
	}
}

// FuzzParams: whatever is declared, Calibrate of every mechanism returns an
// error of a documented kind or a plan with finite noise that keeps its budget.
func FuzzParams(f *testing.F) {
	bad := []float64{0, -1, math.NaN(), math.Inf(1), 1e-320, 0x1p-51, 1e6, 1e-9, 1e-300, 1e308}
	for i, v := range bad {
		f.Add(1.0, 1e-6, 1.0, 0.25, 0.0, v, 0.0, 3, uint16(i))
		f.Add(v, 1e-6, 1.0, 0.25, 0.1, 1.0, 0.0, 5, uint16(i*37))
		f.Add(1.0, v, 1.0, 0.25, 0.0, 1.0, 1.0, 5, uint16(i*91))
		f.Add(1.0, 1e-6, v, 0.25, 0.0, 1.0, 0.0, 2, uint16(i*113))
		f.Add(0.5, 0.01, 1.0, v, 0.0, 1.0, 0.0, 1, uint16(i*211))
		f.Add(0.5, 0.0, 1.0, 1.0, v, 1.0, 0.0, 9, uint16(i*301))
		f.Add(10.0, 1e-9, 1.0, 1.0, 1.0, 1.0, v, 9, uint16(i*401))
	}
	f.Fuzz(func(t *testing.T, eps, delta, lipschitz, smoothness, ridge, radius, ratio float64, dim int, bits uint16) {
		if dim > 1e6 {
			return
		}
		q := lop.Public{
			Dim: dim, Records: int(bits>>9) * 10, Ridge: ridge, Radius: radius, Budget: dp.Budget{Epsilon: eps, Delta: delta},
			Constants: loss.Constants{Lipschitz: lipschitz, Smoothness: smoothness, Rank: int(bits>>6) % 5, Structure: loss.Structure(bits % 6)},
		}
		m := &lop.Mechanism{
			Relation: dp.Relation(bits >> 3 % 4), Calibration: lop.Calibration(bits >> 5 % 4), Delta: math.Abs(ratio) * smoothness,
			Monotone: bits>>8&1 == 1, Joint: bits>>9&1 == 1, Share: float64(bits>>10%4) / 4,
		}
		if p, err := m.Calibrate(q); err != nil {
			require.Nil(t, p)
			require.True(t, known(err), "%v", err)
		} else {
			sound(t, p)
		}
		o := &lop.Output{Relation: m.Relation, Delta: m.Delta, Records: int(bits>>7) % 3}
		if p, err := o.Calibrate(q); err != nil {
			require.Nil(t, p)
			require.True(t, known(err), "%v", err)
		} else {
			sound(t, p)
		}
		if n, err := (lop.AMP{Lipschitz: lipschitz, Smoothness: smoothness, Rank: int(bits % 4), Records: dim, Epsilon1: eps, Epsilon2: eps, Epsilon3: eps * ridge, Delta1: delta, Delta2: delta, Gamma: radius}).Noise(); err != nil {
			require.True(t, known(err), "%v", err)
		} else {
			require.False(t, math.IsNaN(n.Lambda+n.Sigma1+n.Corrected), "%+v", n)
		}
		if n, err := (lop.CMS{Epsilon: eps, Records: dim, Lambda: lipschitz, Curvature: smoothness}).Noise(); err != nil {
			require.True(t, known(err), "%v", err)
		} else {
			require.False(t, math.IsNaN(n.EpsilonPrime+n.Rate), "%+v", n)
		}
	})
}
