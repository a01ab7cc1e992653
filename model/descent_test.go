// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/table"
)

// gradientTerms returns the first sum of gradients that a fit by gradient steps adds noise to, on
// its grid, and the noise.
func gradientTerms(t *testing.T, rel dp.Relation, name string, rows [][]float64, labels []float64) ([]float64, *Plan,
	*outcome) {
	t.Helper()
	const records = 500
	data := records2(t, rows, labels)
	pl := planFor(t, records, len(rows[0]), dp.Budget{Epsilon: 0.05, Delta: 1e-6},
		Options{Loss: Loss{Name: name}, Relation: rel, Records: records})
	require.Equal(t, descentSteps, pl.Params().Sequence.Steps)
	p := &erm.Problem{Data: data, Loss: Loss{Name: name}.of(loss.Bounds{Row: 1, Label: 1}, 2), Records: records}
	var first []int64
	steps := 0
	ctx := fault.With(t.Context(), fault.Gradients, func(v []int64) []int64 {
		if first == nil {
			first = append(first, v...)
		}
		steps++
		return v
	})
	out, err := pl.run(ctx, p, noise.Reproducible(1))
	require.NoError(t, err)
	require.Equal(t, descentSteps, steps)
	_, exponent := gradientSensitivity(pl.params.Sequence.Clip, pl.gradients(), len(rows[0]))
	terms := make([]float64, len(first))
	for j, v := range first {
		terms[j] = math.Ldexp(float64(v), exponent)
	}
	return terms, pl, out
}

func records2(t *testing.T, rows [][]float64, labels []float64) *erm.Data {
	t.Helper()
	data, err := erm.NewData(rows, labels, loss.Bounds{Row: 1, Label: 1})
	require.NoError(t, err)
	return data
}

// TestGradientSteps checks that the sum of a record moves by no more than the sensitivity by which
// the noise was chosen, that opposite gradients attain it, and that the noise of all steps together
// is the μ of the plan.
func TestGradientSteps(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 1))
	for _, name := range []string{Squares, Logistic} {
		for _, rel := range []dp.Relation{dp.AddRemove, dp.Replace} {
			for trial := range 6 {
				a, z := []float64{1, 0, 0}, []float64{1, 0, 0}
				if trial > 0 {
					for j := range a {
						a[j], z[j] = rnd.NormFloat64(), rnd.NormFloat64()
					}
				}
				one, pl, out := gradientTerms(t, rel, name, [][]float64{a}, []float64{1})
				two, _, _ := gradientTerms(t, rel, name, [][]float64{z}, []float64{-1})
				clip := pl.params.Sequence.Clip
				s, _ := gradientSensitivity(clip, pl.gradients(), 3)
				moved := floats.Norm(one, 2)
				if rel == dp.Replace {
					moved = floats.Distance(one, two, 2)
				}
				require.LessOrEqual(t, moved, s)
				if trial == 0 {
					require.InEpsilon(t, s, moved, 1e-5)
				}
				mu := s * math.Sqrt(descentSteps) / out.choice.Sigma
				require.LessOrEqual(t, mu, pl.seq.T)
				require.InEpsilon(t, pl.seq.T, mu, 1e-6)
				require.Empty(t, pl.seq.S)
				require.Equal(t, theoremDescent, out.cert.Theorem)
				require.LessOrEqual(t, dp.GaussianLogDelta(0.05, mu), math.Log(1e-6))
			}
		}
	}
}

// TestDescentRespectsSets checks that penalties and sets hold for gradient steps in the units of
// the user.
func TestDescentRespectsSets(t *testing.T) {
	_, data := incomes(t, 500)
	for _, set := range []Set{{Name: Ball, Size: 0.1}, {Name: NonNegative}, {Name: Simplex}} {
		m, err := Fit(t.Context(), data, dp.Budget{Epsilon: 0.05, Delta: 1e-6},
			&Options{Relation: dp.AddRemove, Records: 500, Set: set, Source: noise.Reproducible(2)})
		require.NoError(t, err)
		require.Equal(t, theoremDescent, m.Certificate().Theorem)
		s, err := set.set()
		require.NoError(t, err)
		at := m.Theta()
		s.Prox(at, at, 1)
		require.InDeltaSlice(t, m.Theta(), at, 1e-12)
		roundTrip(t, m, data)
	}
}

// TestDescentChecksRange checks that gradient steps whose noise or points would leave the range of
// float64 are refused before noise is drawn, because the bounds are public.
func TestDescentChecksRange(t *testing.T) {
	rows, labels := make([][]float64, 300), make([]float64, 300)
	for i := range rows {
		rows[i] = make([]float64, 40)
	}
	for _, name := range []string{Squares, Logistic} {
		for _, row := range []float64{1e-160, 1e-100, 1, 1e100, 1e155} {
			b := loss.Bounds{Row: row, Label: max(row, 1)}
			data, err := erm.NewData(rows, labels, b)
			if err != nil {
				t.Fatal(err)
			}
			m, err := Fit(context.Background(), &table.Data{Records: data}, dp.Budget{Epsilon: 0.1, Delta: 1e-5},
				&Options{Loss: Loss{Name: name}})
			if row == 1 {
				if err != nil || m.Certificate().Theorem != theoremDescent {
					t.Errorf("%s, Row = %g: %v", name, row, err)
				}
			} else if !errors.Is(err, dp.ErrCondition) && !errors.Is(err, erm.ErrProblem) {
				t.Errorf("%s, Row = %g: error %v, want one of the range", name, row, err)
			}
		}
	}
}
