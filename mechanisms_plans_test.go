// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package privopt_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/additive"
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/model"
	"github.com/privopt/privopt/model/score"
	"github.com/privopt/privopt/objpert"
)

// TestPlansAreImmutable: a plan has no exported field, its Params are a copy that JSON
// can hold, and what it states does not change.
func TestPlansAreImmutable(t *testing.T) {
	for _, m := range mechanisms(1e-8) {
		plan, _, err := m.open(records(t, 60, 2, 1, m.smooth(), unit), dp.Budget{Epsilon: 1, Delta: 1e-6}, nil)
		require.NoError(t, err, m.name)
		pl, ok := plan.(dp.Plan)
		require.True(t, ok, m.name)
		kind := reflect.TypeOf(plan).Elem()
		for i := range kind.NumField() {
			require.False(t, kind.Field(i).IsExported(), "%s: %v.%s", m.name, kind, kind.Field(i).Name)
		}
		params := func() reflect.Value { return reflect.ValueOf(plan).MethodByName("Params").Call(nil)[0] }
		before, err := json.Marshal(params().Interface())
		require.NoError(t, err, m.name)
		require.Contains(t, string(before), "epsilon", m.name)
		stated, text := pl.Certificate(), pl.String()
		require.NoError(t, stated.Check(), m.name)
		require.NotEmpty(t, text)
		scribble(params())
		for i := range stated.Assumptions {
			stated.Assumptions[i] = "none"
		}
		after, err := json.Marshal(params().Interface())
		require.NoError(t, err)
		require.JSONEq(t, string(before), string(after), m.name)
		require.NotContains(t, pl.Certificate().Assumptions, dp.Assumption("none"), m.name)
		require.Equal(t, text, pl.String())
		delta := pl.Profile().Delta(1)
		require.True(t, delta >= 0 && delta <= max(stated.Delta, 1e-6)*(1+1e-3) || stated.Epsilon > 1, "%s: δ(1) = %v",
			m.name, delta)
	}
}

// scribble overwrites what slices and pointers of v share with others.
func scribble(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				scribble(v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			v.Index(i).SetZero()
		}
	}
}

// TestEmptyPlans: nil and zero plans certify nothing and release nothing.
func TestEmptyPlans(t *testing.T) {
	for _, m := range mechanisms(1e-8) {
		p := records(t, 60, 2, 1, m.smooth(), unit)
		plan, _, err := m.open(p, dp.Budget{Epsilon: 1, Delta: 1e-6}, nil)
		require.NoError(t, err, m.name)
		kind := reflect.TypeOf(plan).Elem()
		for _, empty := range []any{reflect.Zero(reflect.PointerTo(kind)).Interface(), reflect.New(kind).Interface()} {
			require.NotPanics(t, func() {
				if pl, ok := empty.(dp.Plan); ok {
					require.Zero(t, pl.Certificate(), m.name)
					require.Equal(t, 1.0, pl.Profile().Delta(0.5), m.name)
					require.NotEmpty(t, pl.String())
				}
				var err error
				switch f := empty.(type) {
				case fitter[*erm.Problem]:
					_, err = f.Fit(t.Context(), p, nil)
				case *additive.Plan:
					_, err = f.Release(t.Context(), []float64{1}, nil)
				case *model.Plan:
					return // model.Fit makes its own
				case *score.Plan:
					_, err = f.Score(t.Context(), nil)
				case fitter[*objpert.Problem]:
					q, bad := halfspaces(p, ternary)
					require.NoError(t, bad)
					_, err = f.Fit(t.Context(), q, nil)
				}
				require.Error(t, err, m.name)
			}, m.name)
		}
	}
}
