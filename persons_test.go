// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package privopt_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/noise"
	internal "github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
)

// line is a record of a person.
type line struct {
	id string
	a  []float64
	b  float64
}

// byPerson makes lines the problem of persons.
func byPerson(t testing.TB, lines []line, p erm.Persons) *erm.Problem {
	b, err := erm.NewBuilder(len(lines[0].a), false, unit)
	require.NoError(t, err)
	for _, l := range lines {
		b.Add(l.a, l.b)
		b.ID(l.id)
	}
	data, err := b.ByPerson(t.Context(), p)
	require.NoError(t, err)
	return &erm.Problem{Data: data, Loss: loss.Logistic{}}
}

// crowd returns 3 lines for each of n persons.
func crowd(n int) (lines []line) {
	src := noise.Reproducible(3, "persons")
	a := make([]float64, 2)
	for i := range 3 * n {
		noise.Normal(a, 0.5, src)
		a[0], a[1] = max(-0.7, min(a[0], 0.7)), max(-0.7, min(a[1], 0.7))
		lines = append(lines, line{fmt.Sprint(i % n), []float64{a[0], a[1]}, float64(1 - i%2*2)})
	}
	return lines
}

// TestPersonsOfMechanisms: every mechanism states persons and the column of their ids in its
// certificate, or refuses them, both for a plan and for a plan that was made for records.
func TestPersonsOfMechanisms(t *testing.T) {
	proved := []string{"lop", "lop.Clip", "lop.Center", "lop.Output", "sco.ObjPert", "sco.Output",
		"sco.ObjPertSVRG", "model.score"}
	for _, m := range sequences(dp.Replace) {
		name, _, _ := strings.Cut(m.name, ",")
		proved = append(proved, name)
	}
	proved = append(proved, "additive", "additive of L1")
	people := byPerson(t, crowd(60), erm.Persons{Rows: 3, Column: "patient"})
	b := dp.Budget{Epsilon: 1, Delta: 1e-6}
	for _, m := range mechanisms(1e-8) {
		if strings.HasPrefix(m.name, "objpert.") || strings.Contains(m.name, " of persons") {
			continue // records of the first are integers without ids, the others make their own persons
		}
		t.Run(m.name, func(t *testing.T) {
			name, _, _ := strings.Cut(m.name, ",")
			people := *people
			people.Loss, people.Records = m.smooth(), 60
			_, fit, err := m.open(&people, b, nil)
			for _, p := range proved {
				if p != name {
					continue
				}
				require.NoError(t, err)
				rel, err := fit(t.Context(), nil)
				require.NoError(t, err)
				require.Equal(t, 3, rel.Certificate.Rows)
				require.Equal(t, "patient", rel.Certificate.Person)
				require.Contains(t, rel.Certificate.Assumptions, erm.OneID)
				return
			}
			require.ErrorIs(t, err, dp.ErrCondition)
			require.ErrorContains(t, err, "has no proof for persons of up to Rows = 3 lines; want lop.Mechanism")
			p := records(t, 60, 2, 1, m.smooth(), unit)
			_, fit, err = m.open(p, b, nil)
			require.NoError(t, err)
			p.Data = people.Data
			_, err = fit(t.Context(), nil)
			require.ErrorIs(t, err, dp.ErrCondition)
			require.ErrorContains(t, err, "has no proof for persons")
		})
	}
}

// TestFitOfPersons: lop on persons draws the noise of the golden values and minimizes the risk in
// which every line has its weight by hand.
func TestFitOfPersons(t *testing.T) {
	lines := crowd(200)
	lines = append(lines, lines[:100]...) // some persons have four lines, two of them equal
	number := map[string]int{}
	for _, l := range lines {
		number[l.id]++
	}
	for _, weights := range []erm.Weighting{erm.PersonsEqual, erm.LinesEqual} {
		p := byPerson(t, lines, erm.Persons{Rows: 5, Weights: weights})
		var b erm.Perturbation
		var theta []float64
		m := &lop.Mechanism{Relation: dp.AddRemove, Ridge: 2.5, Radius: 1, Trace: func(tr erm.Trace) { theta = tr.Theta }}
		plan, err := m.Plan(p, dp.Budget{Epsilon: 1, Delta: 1e-5})
		require.NoError(t, err)
		// The row of people.json for logistic losses and β/μ = .1. The output noise takes 0.1 % of the
		// square of the ratio.
		require.InEpsilon(t, 3.73264708800206850773519937846, plan.Params().Sigma, 1e-3)
		require.Greater(t, plan.Params().Sigma, 3.73264708800206850773519937846)
		ctx := fault.With(t.Context(), internal.Drawn, func(q erm.Perturbation) erm.Perturbation {
			b = q
			b.Linear = append([]float64(nil), q.Linear...)
			return q
		})
		_, err = plan.Fit(ctx, p, nil)
		require.NoError(t, err)
		grad := append([]float64(nil), b.Linear...)
		floats.AddScaled(grad, 2.5, theta)
		for _, l := range lines {
			w := 1 / float64(number[l.id])
			if weights == erm.LinesEqual {
				w = 0.2
			}
			s := -l.b / (1 + math.Exp(l.b*floats.Dot(l.a, theta)))
			floats.AddScaled(grad, w*s, l.a)
		}
		require.Less(t, floats.Norm(grad, 2), 1e-9)
	}
}
