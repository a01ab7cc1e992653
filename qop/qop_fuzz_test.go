// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package qop

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

// FuzzParams: whatever is declared, Calibrate returns an error of a documented kind or finite
// numbers that keep the budget. Sizes are kept small, or too large to be computed with.
func FuzzParams(f *testing.F) {
	bad := []float64{0, -1, math.NaN(), math.Inf(1), 1e-320, 0x1p-51, 1e6, 1e-9, 1e-300, 1e308}
	for i, v := range bad {
		f.Add(1.0, 1e-6, v, 1.0, 0.0, 0.0, 2, uint16(i))
		f.Add(v, 1e-6, 1.0, 1.0, 0.0, 0.0, 3, uint16(i*37+1))
		f.Add(1.0, v, 1.0, 1.0, 0.0, 0.0, 3, uint16(i*91+2))
		f.Add(0.5, 0.01, 1.0, v, 0.0, 0.0, 2, uint16(i*113+1))
		f.Add(0.5, 0.01, 1.0, 1.0, v, 0.0, 2, uint16(i*211+4))
		f.Add(0.5, 0.01, 1.0, 1.0, 0.0, v, 2, uint16(i*301+2))
	}
	documented := func(err error) bool {
		return errors.Is(err, ErrMechanism) || errors.Is(err, dp.ErrBudget) || errors.Is(err, dp.ErrCondition) ||
			errors.Is(err, dp.ErrRelation) || errors.Is(err, erm.ErrProblem)
	}
	f.Fuzz(func(t *testing.T, eps, delta, smoothness, radius, eta, degrees float64, dim int, bits uint16) {
		structure := loss.Structure(bits % 6)
		if dim > 20 && dim < 1e8 || structure >= loss.FixedRange && dim > 3 || degrees > 100 && degrees < 1e9 {
			return
		}
		q := erm.Public{
			Dim: dim, Records: int(bits>>9) * 10, Radius: radius,
			Constants: loss.Constants{Smoothness: smoothness, Rank: int(bits>>6) % 5, Structure: structure},
		}
		if eta > 0 && bits&1 == 0 { // the search for a split takes a hundred times as long
			eta = 0
		}
		m := &Mechanism{
			Relation: dp.Relation(bits >> 3 % 4), Calibration: Calibration(bits >> 5 % 4), Eta: eta, Degrees: degrees,
			Share: float64(bits>>10%4) / 4,
		}
		plan, err := m.Calibrate(q, dp.Budget{Epsilon: eps, Delta: delta})
		if p := plan.Params(); err != nil {
			require.Nil(t, plan)
			require.True(t, documented(err), "%v", err)
		} else {
			for name, v := range map[string]float64{"Degrees": p.Degrees, "Ratio": p.Ratio, "Sigma2": p.Sigma2,
				"Curvature": p.Curvature, "Cover": p.Cover, "Reach": p.Reach, "OutputSigma": p.OutputSigma} {
				require.True(t, v > 0 && !math.IsInf(v, 1), "%s = %v in %+v", name, v, p)
			}
			require.GreaterOrEqual(t, p.Degrees, float64(dim)+3)
			require.False(t, math.IsNaN(p.ExcessBound) || p.ExcessBound < 0, "%v", p.ExcessBound)
			require.LessOrEqual(t, p.Objective.Epsilon+p.Output.Epsilon, eps)
			require.LessOrEqual(t, p.Objective.Delta+p.Output.Delta+p.MinEigDelta+p.MaxEigDelta, delta*(1-0x1p-8))
		}
	})
}

// FuzzFit: whatever the records, the fields, the anchor and the budget, a fit
// refuses with an error of a documented kind, or releases a finite
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
		m := &Mechanism{
			Center: []float64{center, 0.25}, Relation: dp.Relation(bits >> 5 & 3), Calibration: Calibration(bits >> 7 & 3),
			Interpolation: []Interpolation{Relabel{}, Drop{Tolerance: field}, Trust{}, nil}[bits>>9&3],
			Degrees:       5,
		}
		switch bits >> 11 & 3 { // Eta has a search that a fuzzer has no time for
		case 0:
			m.Degrees = field
		case 1:
			m.Radius = field
		case 2:
			m.Cover = field
		case 3:
			m.Share = field
		}
		if m.Degrees > 100 && m.Degrees < 1e9 {
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
			for _, want := range []error{ErrMechanism, dp.ErrBudget, dp.ErrCondition, dp.ErrRelation, erm.ErrProblem,
				context.Canceled} {
				documented = documented || errors.Is(err, want)
			}
			require.True(t, documented, "%v", err)
			if ctx.Err() == nil {
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
