// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package sco_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/sco"
)

var hostile = []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1), 5e-324, 1e308, 1e150, 1e-150, 1e6, 0x1p-51}

// fitter is what all mechanisms of the package are to a caller.
type fitter interface {
	Fit(ctx context.Context, p *erm.Problem, b dp.Budget, src rand.Source) (*dp.Release, error)
}

// mechanisms returns one of each with field in one of its fields.
func mechanisms(bits uint16, field float64) map[string]fitter {
	rel := dp.Relation(bits & 3)
	sgd := sco.NoisySGD{Relation: rel, Scheme: sco.Scheme(bits >> 3 & 3), Steps: 3, Batch: 1}
	obj := sco.ObjPert{Relation: rel}
	prac := sco.DPSGD{Relation: rel, Epochs: 2, Batch: 1, Average: bits>>7&1 == 1}
	switch bits >> 10 & 7 {
	case 0:
		sgd.Radius, obj.Radius, prac.Radius = field, field, field
	case 1:
		sgd.Clip, obj.Ridge, prac.Clip = field, field, field
	case 2:
		sgd.StepSize, obj.Cover, prac.StepSize = field, field, field
	case 3:
		sgd.Batch, obj.Share, prac.Momentum = field, field, field
	case 4:
		sgd.Evaluations, sgd.Steps, sgd.Batch, prac.Epochs = field, 0, 0, field
	case 5:
		prac.Batch = field
	}
	svrg := obj
	svrg.SVRG = true
	return map[string]fitter{
		"sgd": &sgd, "prox": &sco.ProxGD{NoisySGD: sgd, Smoothing: math.Max(0, field) * float64(bits>>13&1)},
		"dpsgd": &prac, "objpert": &obj, "svrg": &svrg,
		"output": &sco.Output{Relation: rel, Radius: obj.Radius, Ridge: obj.Ridge, Cover: obj.Cover},
	}
}

func documented(err error) bool {
	for _, want := range []error{sco.ErrMechanism, dp.ErrSampler, dp.ErrBudget, dp.ErrCondition, dp.ErrRelation,
		dp.ErrWithheld,
		erm.ErrProblem, context.Canceled} {
		if errors.Is(err, want) {
			return true
		}
	}
	return false
}

// FuzzParams: whatever is declared, every calibration refuses with an error of a
// documented kind or returns numbers, with noise that is finite and positive.
func FuzzParams(f *testing.F) {
	for i, v := range hostile {
		f.Add(v, 1e-6, 1.0, 0.25, 1.0, 0.0, 3, 10, uint16(i*7))
		f.Add(1.0, v, 1.0, 0.25, 1.0, 0.0, 3, 10, uint16(i*13))
		f.Add(1.0, 1e-6, v, 0.25, 1.0, 0.0, 3, 10, uint16(i*31))
		f.Add(1.0, 1e-6, 1.0, v, 1.0, 0.0, 3, 10, uint16(i*97))
		f.Add(1.0, 1e-6, 1.0, 0.25, v, 0.0, 3, 10, uint16(i*193))
		f.Add(1.0, 1e-6, 1.0, 0.25, 1.0, v, 3, i-1, uint16(i*389))
	}
	f.Fuzz(func(t *testing.T, eps, delta, lipschitz, smoothness, radius, field float64, dim, records int, bits uint16) {
		if records > 1000 || delta > 0.5 && delta < 1 { // slow on purpose
			return
		}
		q, b := erm.Public{
			Dim: dim, Records: records, Radius: radius,
			Constants: loss.Constants{Lipschitz: lipschitz, Smoothness: smoothness, Rank: 1,
				Structure: loss.Structure(1 + bits>>3&3)},
		}, dp.Budget{Epsilon: eps, Delta: delta}
		for name, m := range mechanisms(bits, field) {
			if slices.Contains([]string{"objpert", "svrg", "output"}, name) {
				continue // their calibration is that of package lop, which is tested there
			}
			if s, ok := m.(*sco.NoisySGD); ok && (s.Evaluations > 1e4 || s.Batch > 30*float64(records)) {
				continue
			}
			out := reflect.ValueOf(m).MethodByName("Calibrate").Call([]reflect.Value{reflect.ValueOf(q), reflect.ValueOf(b)})
			if err, _ := out[1].Interface().(error); err != nil {
				require.True(t, out[0].IsNil(), name)
				require.True(t, documented(err), "%s: %v", name, err)
				continue
			}
			numbers := out[0].MethodByName("Params").Call(nil)[0]
			for i := range numbers.NumField() {
				if x, field := numbers.Field(i), numbers.Type().Field(i); x.Kind() == reflect.Float64 && field.IsExported() {
					require.False(t, math.IsNaN(x.Float()), "%s: %s is NaN", name, field.Name)
					if slices.Contains([]string{"Sigma", "Noise", "StepSize", "OutputSigma", "Cover", "Lambda", "Clip", "Batch",
						"Grid", "Threshold",
						"Ridge"}, field.Name) {
						require.True(t, x.Float() >= 0 && !math.IsInf(x.Float(), 1), "%s: %s = %v", name, field.Name, x.Float())
					}
				}
			}
			if p, ok := out[0].Interface().(*sco.Plan); ok {
				par := p.Params()
				require.True(t, par.Sigma > 0 && par.Steps > 0, "%s: %+v", name, par)
				require.NoError(t, p.Certificate().Check())
			}
		}
	})
}

// FuzzFit: whatever the records and the fields, a fit refuses or withholds with
// an error of a documented kind that, withholding aside, does not depend on the
// records, or it releases a finite point of the set with a valid certificate.
func FuzzFit(f *testing.F) {
	for i, v := range testkit.Every(4, hostile) {
		f.Add(v, 1.0, 1.0, 1e-6, 0.0, uint16(i*7))
		f.Add(0.5, v, 1.0, 1e-6, 0.0, uint16(i*13+1))
		f.Add(0.5, 1.0, v, 0.01, 0.0, uint16(i*31+2))
		f.Add(0.5, 1.0, 1.0, v, 0.0, uint16(i*97))
		f.Add(0.5, -1.0, 1.0, 0.01, v, uint16(i*389))
	}
	losses := []loss.Loss{loss.Logistic{}, loss.Squared{}, loss.Huber{Delta: 0.5}, loss.Hinge{}}
	f.Fuzz(func(t *testing.T, x, label, eps, delta, field float64, bits uint16) {
		if delta > 0.5 && delta < 1 { // slow on purpose
			return
		}
		data, err := erm.NewData([][]float64{{x, 1}, {0.3, -x}, {1, label}, {1, 1}}, []float64{label, 1, -1, x},
			loss.Bounds{Row: 1, Label: 1})
		require.NoError(t, err)
		calm, err := erm.NewData([][]float64{{0.1, 0.2}, {0.3, 0.4}, {0.5, 0.6}, {0.7, 0.8}}, []float64{1, 1, -1, 1},
			loss.Bounds{Row: 1, Label: 1})
		require.NoError(t, err)
		p := &erm.Problem{Data: data, Loss: losses[bits>>4&3], Set: prox.L2Ball{R: 1}, Records: int(bits>>2&1) * 3}
		if bits>>6&1 == 1 {
			p.Set = prox.Box{Lo: -0.5, Hi: 1}
		}
		if bits>>9&3 == 3 {
			p.Reg = prox.L1{Weight: 0.1}
		}
		other := *p
		other.Data = calm
		b := dp.Budget{Epsilon: eps, Delta: delta}
		for name, m := range mechanisms(bits, field) {
			if s, ok := m.(*sco.NoisySGD); ok && (s.Evaluations > 1e3 || s.Batch > 100) {
				continue
			}
			if pl := reflect.ValueOf(m).MethodByName("Plan").Call([]reflect.Value{reflect.ValueOf(p),
				reflect.ValueOf(b)}); !pl[0].IsNil() {
				if sgd, ok := pl[0].Interface().(*sco.Plan); ok && float64(sgd.Params().Steps)*sgd.Params().Batch > 1e4 {
					continue
				}
			}
			r, err := m.Fit(t.Context(), p, b, noise.Reproducible(uint64(bits)))
			if err != nil {
				require.Nil(t, r, name)
				require.True(t, documented(err), "%s: %v", name, err)
				if !errors.Is(err, dp.ErrWithheld) {
					_, err2 := m.Fit(t.Context(), &other, b, noise.Reproducible(uint64(bits)))
					require.EqualError(t, err2, err.Error(), "%s: an error that depends on records", name)
				}
				continue
			}
			require.NoError(t, r.Certificate.Check(), name)
			require.Contains(t, r.Certificate.Assumptions, dp.CallerSource, name)
			for _, v := range r.Theta {
				require.False(t, math.IsNaN(v) || math.IsInf(v, 0), "%s: %v", name, r.Theta)
			}
			projected := make([]float64, len(r.Theta))
			p.Set.Prox(projected, r.Theta, 1)
			require.InDeltaSlice(t, projected, r.Theta, 1e-12, name)
		}
	})
}
