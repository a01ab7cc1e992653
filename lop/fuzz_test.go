// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package lop

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

// documented reports whether err is of a kind that a calibration documents.
func documented(err error) bool {
	for _, want := range []error{ErrMechanism, dp.ErrBudget, dp.ErrCondition, dp.ErrRelation, erm.ErrProblem} {
		if errors.Is(err, want) {
			return true
		}
	}
	return false
}

// sound fails unless every number of a plan is in range and its own profile keeps the budget.
func sound(t *testing.T, plan *Plan, b dp.Budget) {
	t.Helper()
	p := plan.Params()
	for name, v := range map[string]float64{
		"Sigma": p.Sigma, "Rate": p.Rate, "Curvature": p.Curvature, "Shift": p.Shift,
		"OutputSigma": p.OutputSigma, "OutputRate": p.OutputRate,
		"Grid": p.Grid, "Sensitivity": p.Sensitivity,
	} {
		require.True(t, v >= 0 && !math.IsInf(v, 1), "%s = %v in %+v", name, v, p)
	}
	require.True(t, p.Ridge+p.Modulus > 0, "%+v", p)
	require.Positive(t, p.Cover)
	require.Positive(t, p.OutputSigma+p.OutputRate)
	require.False(t, math.IsNaN(p.ExcessBound) || p.ExcessBound < 0, "%v", p.ExcessBound)
	require.Equal(t, b, plan.Certificate().Budget)
	require.NoError(t, plan.Certificate().Check())
	profile := plan.Profile()
	// A calibration meets δ with margins of its own, to which a profile adds 1e-9; far
	// below that, the certified tails are 1e-12.
	require.LessOrEqual(t, max(profile.Remove(b.Epsilon), profile.Add(b.Epsilon)), b.Delta*(1+1e-6)+1e-300, "%+v", p)
	for _, e := range []float64{0, b.Epsilon / 2, 2 * b.Epsilon, math.NaN()} {
		d := profile.Delta(e)
		require.True(t, d >= 0 && d <= 1, "δ(%v) = %v", e, d)
	}
	if profile.RDP != nil {
		for _, a := range []float64{1, 2, 100} {
			require.False(t, math.IsNaN(profile.RDP(a)) || profile.RDP(a) < 0)
		}
	}
}

// FuzzParams: whatever is declared, Calibrate of both mechanisms returns an error of a
// documented kind, or a plan with finite noise that keeps its budget.
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
	f.Fuzz(func(t *testing.T, eps, delta, lipschitz, smoothness, modulus, radius, ratio float64, dim int, bits uint16) {
		if dim > 1e6 {
			return
		}
		constants := loss.Constants{Lipschitz: lipschitz, Smoothness: smoothness, Rank: int(bits>>6) % 5,
			Structure: loss.Structure(bits % 6)}
		q := erm.Public{
			Dim: dim, Records: int(bits>>9) * 10, Modulus: modulus, Radius: radius, Constants: constants, OnSet: constants,
			Linear: bits>>8&1 == 1, Monotone: bits>>9&1 == 1,
		}
		b := dp.Budget{Epsilon: eps, Delta: delta}
		m := &Mechanism{
			Relation: dp.Relation(bits >> 3 % 4), Calibration: Calibration(bits >> 5 % 4), Ridge: math.Abs(ratio) * smoothness,
			Share: float64(bits>>10%4) / 4,
		}
		o := &Output{Relation: m.Relation, Ridge: m.Ridge}
		for name, calibrate := range map[string]func(erm.Public, dp.Budget) (*Plan, error){"lop": m.Calibrate,
			"output": o.Calibrate} {
			plan, err := calibrate(q, b)
			if err != nil {
				require.Nil(t, plan, name)
				require.True(t, documented(err), "%s: %v", name, err)
				continue
			}
			sound(t, plan, b)
		}
	})
}

// FuzzFit: whatever the records, the fields and the budget, a fit of either mechanism
// refuses with an error of a documented kind, or releases a finite point of the set with
// a valid certificate; and an error does not depend on the records.
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
		bounds := loss.Bounds{Row: 1, Label: bound}
		data, err := erm.NewData([][]float64{{x, 1}, {0.3, -x}, {1, label}}, []float64{label, 1, -1}, bounds)
		if err != nil {
			require.ErrorIs(t, err, erm.ErrData)
			return
		}
		calm, err := erm.NewData([][]float64{{0.1, 0.2}, {0.3, 0.4}, {0.5, 0.6}}, []float64{1, 1, -1}, bounds)
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
		m := &Mechanism{Relation: dp.Relation(bits >> 5 & 3), Calibration: Calibration(bits >> 7 & 3)}
		*[]*float64{&m.Ridge, &m.Radius, &m.Clip, &m.Cover}[bits>>11&3] = field
		o := &Output{Relation: m.Relation, Ridge: m.Ridge, Radius: m.Radius, Cover: m.Cover}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if bits>>13&1 == 1 {
			cancel()
		}
		for name, fit := range map[string]func(context.Context, *erm.Problem, dp.Budget, rand.Source) (*dp.Release,
			error){"lop": m.Fit,
			"output": o.Fit} {
			r, err := fit(ctx, p, b, noise.Reproducible(uint64(bits)))
			if err != nil {
				require.Nil(t, r, name)
				require.True(t, documented(err) || errors.Is(err, context.Canceled), "%s: %v", name, err)
				if ctx.Err() == nil {
					_, err2 := fit(ctx, &other, b, noise.Reproducible(uint64(bits)))
					require.EqualError(t, err2, err.Error(), "%s: an error that depends on records", name)
				}
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
