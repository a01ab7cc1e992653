// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package lop

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/linear"
	"github.com/privopt/privopt/loss"
)

// people are the public quantities of a problem of which a person has at most so many rows.
func people(k loss.Constants, rows int) erm.Public {
	return erm.Public{Dim: 20, Records: 1000, Rows: rows, Constants: k}
}

var shapesOfLosses = map[string]loss.Constants{
	"⟨a,θ⟩":       {Lipschitz: 1, Smoothness: 1, Rank: 1, Structure: loss.GLM},
	"squares":     {Lipschitz: 1, Smoothness: 1, Rank: 1, Structure: loss.LSQ},
	"fixed range": {Lipschitz: 1, Smoothness: 1, Rank: 3, Structure: loss.FixedRange},
	"general":     {Lipschitz: 1, Smoothness: 1, Rank: 2, Structure: loss.General},
}

// Plans for persons: one row costs what a record does, more rows a little more for losses of ⟨a,θ⟩
// whatever their number; plan and certificate say how many rows.
func TestPlansForPersons(t *testing.T) {
	for name, k := range shapesOfLosses {
		for _, b := range []dp.Budget{{Epsilon: 1, Delta: 1e-5}, {Epsilon: 1}} {
			for _, rel := range []dp.Relation{dp.AddRemove, dp.Replace} {
				name := fmt.Sprintf("%s, %v, %v", name, b, rel)
				m := &Mechanism{Relation: rel, Ridge: 200, Radius: 1}
				plan := func(rows int) *Plan {
					pl, err := m.Calibrate(people(k, rows), b)
					require.NoError(t, err, name)
					require.Equal(t, rows, pl.Params().Rows)
					require.Equal(t, rows, pl.Certificate().Rows)
					require.NoError(t, pl.Certificate().Check())
					return pl
				}
				noise := func(pl *Plan) float64 {
					if p := pl.Params(); p.Rate > 0 {
						return 1 / p.Rate
					} else {
						return p.Sigma
					}
				}
				record, one, two, many := plan(0), plan(1), plan(2), plan(1000)
				require.Equal(t, noise(record), noise(one), name)
				require.Equal(t, record.Params().Theorem, one.Params().Theorem)
				require.GreaterOrEqual(t, noise(two), noise(one), name)
				require.GreaterOrEqual(t, noise(many), noise(two), name)
				if k.Rank == 1 {
					require.Less(t, noise(many), 1.001*noise(one), name)
					require.Empty(t, many.Certificate().Assumptions, name)
				}
				want := linear.TheoremPersons
				if b.Delta == 0 {
					want = linear.TheoremPersonsPure
				}
				require.Equal(t, want, many.Params().Theorem, name)
				require.Contains(t, many.String(), "one person, of whom at most 1000 lines count")
				require.NotContains(t, record.String(), "person")
				if b.Delta > 0 {
					p := many.Profile()
					require.LessOrEqual(t, max(p.Remove(1), p.Add(1)), 1e-5, name)
					sum, err := dp.Compose(2e-5, many, many)
					require.NoError(t, err)
					require.Equal(t, 1000, sum.Rows)
					require.Less(t, sum.Epsilon, 1.9, name)
					_, err = dp.Compose(2e-5, many, record)
					require.ErrorIs(t, err, dp.ErrRelation)
				}
			}
		}
	}
}

// The published constants are about records. A problem with more lines a person than the plan, or
// with another unit, is refused.
func TestPersonsRefused(t *testing.T) {
	b := dp.Budget{Epsilon: 1, Delta: 1e-5}
	for _, c := range []Calibration{Kifer, CMS11} {
		_, err := (&Mechanism{Calibration: c, Radius: 1}).Calibrate(people(shapesOfLosses["⟨a,θ⟩"], 2), b)
		require.ErrorIs(t, err, dp.ErrCondition)
		require.ErrorContains(t, err, "Rows = 2")
	}
	data, err := erm.NewData([][]float64{{0.5, 0}, {0, 0.5}}, []float64{1, -1}, loss.Bounds{Row: 1, Label: 1})
	require.NoError(t, err)
	p := &erm.Problem{Data: data, Loss: loss.Logistic{}}
	q, err := p.Public(dp.Replace)
	require.NoError(t, err)
	for _, mechanism := range []func() (*Plan, error){
		func() (*Plan, error) { return (&Mechanism{Ridge: 2, Radius: 1}).Calibrate(q, b) },
		func() (*Plan, error) { return (&Output{Ridge: 2, Radius: 1}).Calibrate(q, b) },
	} {
		q.Rows = 0
		_, err := mechanism()
		require.NoError(t, err)
		q.Rows = 3
		pl, err := mechanism()
		require.NoError(t, err)
		require.Equal(t, 3, pl.Certificate().Rows)
		_, err = pl.Fit(t.Context(), p, nil)
		require.ErrorIs(t, err, ErrMechanism)
		require.ErrorContains(t, err, "the plan is for 3")
	}
}

// The automatic Δ is the best one also where the bound that removes a person changes.
func TestAutomaticRidgeForPersons(t *testing.T) {
	for name, k := range shapesOfLosses {
		for _, radius := range []float64{0.1, 3, 300} {
			m := &Mechanism{Relation: dp.AddRemove, Radius: radius}
			q, b := people(k, 20), dp.Budget{Epsilon: 1, Delta: 1e-5}
			best, err := m.Calibrate(q, b)
			require.NoError(t, err)
			for _, factor := range []float64{0.3, 0.7, 0.9, 1.1, 1.4, 3} {
				other := *m
				other.Ridge = best.Params().Ridge * factor
				if pl, err := other.Calibrate(q, b); err == nil {
					require.LessOrEqual(t, best.Params().ExcessBound, pl.Params().ExcessBound*(1+3e-3), "%s, B = %v, %v", name, radius,
						factor)
				}
			}
		}
	}
}
