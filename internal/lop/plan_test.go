// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package lop

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/linear"
	"github.com/privopt/privopt/loss"
)

// The parts of a plan are proved to add up: each of its numbers a little on the wrong side is
// refused.
func TestProveRest(t *testing.T) {
	public := erm.Public{Dim: 3000, Records: 100, Constants: loss.Constants{Lipschitz: 1, Smoothness: 0.3, Rank: 1,
		Structure: loss.GLM}}
	for _, b := range []dp.Budget{{Epsilon: 1, Delta: 1e-6}, {Epsilon: 1}} {
		pl, err := Settings{Ridge: 2, LeastSigma: 1e-9 * b.Delta}.Calibrate(public, b)
		require.NoError(t, err)
		require.True(t, pl.proved)
		require.Empty(t, pl.cert.Assumptions)
		whole := b
		whole.Delta *= spare
		objective, output := whole.Split(defaultShare)
		require.True(t, pl.provesRest(b, objective, output, 0))
		for name, change := range map[string]func(pl *Plan, objective, output *dp.Budget){
			"output noise": func(pl *Plan, _, _ *dp.Budget) { pl.output.Sigma *= 0.999; pl.output.Rate *= 1.001 },
			"reach of b":   func(pl *Plan, _, _ *dp.Budget) { pl.per.Linear *= 0.9 },
			"half of it":   func(pl *Plan, _, _ *dp.Budget) { pl.per.Linear /= 2 },
			"no reach":     func(pl *Plan, _, _ *dp.Budget) { pl.per.Linear *= 1e-300 },
			"grid of b":    func(pl *Plan, _, _ *dp.Budget) { pl.per.LinearError = pl.per.Linear / 4 },
			"ε":            func(_ *Plan, objective, _ *dp.Budget) { objective.Epsilon *= 1.001 },
			"δ":            func(_ *Plan, objective, _ *dp.Budget) { objective.Delta *= 1.001 },
		} {
			if name == "δ" && b.Delta == 0 {
				continue
			}
			broken, first := *pl, objective
			change(&broken, &first, &output)
			require.False(t, broken.provesRest(b, first, output, 0), "%s, %v", name, b)
		}
		if b.Delta > 0 {
			require.True(t, pl.provesRest(b, dp.Budget{Epsilon: 1, Delta: whole.Delta}, output, pl.output.Shift()*(1+1e-12)))
			require.False(t, pl.provesRest(b, dp.Budget{Epsilon: 1, Delta: whole.Delta}, output, pl.output.Shift()*0.999))
		}
	}
}

// A step of a sequence is refused if its numbers do not fit the problem, or are not numbers.
func TestPlanStep(t *testing.T) {
	data, err := erm.NewData([][]float64{{0.5, 0}}, []float64{1}, loss.Bounds{Row: 1, Label: 1})
	require.NoError(t, err)
	p := &erm.Problem{Data: data, Loss: loss.Logistic{}}
	cert := dp.Certificate{Budget: dp.Budget{Epsilon: 1, Delta: 1e-6}, Relation: dp.Replace, Theorem: "model.auto/1"}
	good := linear.Step{C: 0.1, S: 0.1, Output: 0.1, Ridge: 10}
	pl, err := Settings{Package: "model"}.PlanStep(p, cert, good)
	require.NoError(t, err)
	require.Equal(t, cert, pl.Certificate())
	require.InEpsilon(t, 20, pl.Params().Sigma, 1e-6) // G/S
	for _, bad := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		for name, change := range map[string]func(s *linear.Step){
			"C": func(s *linear.Step) { s.C = bad }, "S": func(s *linear.Step) { s.S = bad },
			"Output": func(s *linear.Step) { s.Output = bad }, "Ridge": func(s *linear.Step) { s.Ridge = bad },
		} {
			step := good
			change(&step)
			_, err := Settings{Package: "model"}.PlanStep(p, cert, step)
			require.Error(t, err, "%s = %v", name, bad)
			require.ErrorContains(t, err, "model: ", name)
		}
	}
	people := cert
	people.Rows = 3
	_, err = Settings{Package: "model"}.PlanStep(p, people, good)
	require.ErrorIs(t, err, dp.ErrRelation)
	_, err = Settings{Package: "model"}.PlanStep(nil, cert, good)
	require.ErrorIs(t, err, erm.ErrProblem)
	_, err = Settings{Package: "model", Ridge: -1}.PlanStep(p, cert, good)
	require.ErrorIs(t, err, ErrMechanism)
}
