// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package lop

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/linear"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
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

// TestCenter: a fit around x₀ is the fit around the origin of the problem moved by x₀, labels b −
// ⟨a,x₀⟩, with the same noise; the default Radius reaches from x₀ to the end of the Set; and a
// Center that is no point of the problem is refused.
func TestCenter(t *testing.T) {
	x0, b := []float64{0.3, -2}, dp.Budget{Epsilon: 1, Delta: 1e-6}
	rows := [][]float64{{0.6, 0.1}, {-0.3, 0.8}, {0.2, -0.4}, {0.9, 0.2}}
	var labels, moved []float64
	for i, a := range rows {
		labels = append(labels, float64(i))
		moved = append(moved, labels[i]-floats.Dot(a, x0))
	}
	at := func(labels []float64) *erm.Problem {
		data, err := erm.NewData(rows, labels, loss.Bounds{Row: 1, Label: 10})
		require.NoError(t, err)
		return &erm.Problem{Data: data, Loss: loss.Squared{}}
	}
	m := Mechanism{Ridge: 3, Clip: 0.5, Radius: 2, Cover: 1e-9}
	near := m
	near.Center = x0
	origin, err := m.Fit(t.Context(), at(moved), b, dp.Seeded(5))
	require.NoError(t, err)
	around, err := near.Fit(t.Context(), at(labels), b, dp.Seeded(5))
	require.NoError(t, err)
	for j, v := range x0 {
		require.InDelta(t, v+origin.Theta[j], around.Theta[j], 1e-6)
	}
	require.Equal(t, origin.Certificate, around.Certificate)

	plan, err := near.Plan(at(labels), b)
	require.NoError(t, err)
	plain, err := m.Plan(at(labels), b)
	require.NoError(t, err)
	require.Equal(t, plain.Params().ExcessBound, plan.Params().ExcessBound)
	require.Contains(t, plan.String(), "from the center at most 2")
	x0[0] = 100 // the plan has a copy
	again, err := plan.Fit(t.Context(), at(labels), dp.Seeded(5))
	require.NoError(t, err)
	require.Equal(t, around.Theta, again.Theta)

	boxed := at(labels)
	boxed.Set = prox.L2Ball{R: 2}
	plan, err = (&Mechanism{Center: []float64{3, 4}}).Plan(boxed, b)
	require.NoError(t, err)
	require.InEpsilon(t, 7, plan.Params().Radius, 1e-12)

	for _, bad := range [][]float64{{}, {1}, {1, 2, 3}, {math.NaN(), 0}, {0, math.Inf(-1)}, {1e200, 0}} {
		_, err := (&Mechanism{Center: bad, Radius: 1, Clip: 1}).Plan(at(labels), b)
		require.ErrorIs(t, err, ErrMechanism, "%v", bad)
		require.ErrorContains(t, err, "Center")
	}
}
