// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/dp/ledger"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/table"
)

// shows returns the probability that a spelling of weight w is shown, all in parts.
func shows(w, threshold, sigma float64) float64 { return num.NormalCDF(-(threshold - w - 0.5) / sigma) }

// TestDiscoveryGoldenWeights compares the probabilities of spellings that a person has alone with
// those of mpmath.
func TestDiscoveryGoldenWeights(t *testing.T) {
	g := readGoldenDiscovery(t)
	require.Len(t, g.Weights, 5)
	for _, row := range g.Weights {
		const parts = table.PersonParts
		sigma, limit := float(t, row.Sigma)*parts, float(t, row.Threshold)*parts
		least := float(t, row.LeastWeight) * parts
		one, many := shows(parts, limit, sigma), shows(least, limit, sigma)*parts/least
		require.InEpsilon(t, float(t, row.One), one, 1e-9)
		require.InEpsilon(t, float(t, row.Many), many, 1e-9)
		worst := max(one, many)
		require.InEpsilon(t, float(t, row.Worst), worst, 1e-9)
		got := threshold(sigma, worst*(1+1e-9), parts, least)
		require.InDelta(t, limit, got, 1)
		require.LessOrEqual(t, got, int(limit))
	}
}

// TestOwnSpellingsOfPersons: however a person splits the weights among spellings of his own, one of
// them is shown with probability q at most; one part less, and equal weights or one spelling exceed
// q.
func TestOwnSpellingsOfPersons(t *testing.T) {
	const parts, q = table.PersonParts, 1e-9
	rnd := rand.New(rand.NewPCG(3, 3))
	for _, rows := range []int{1, 3, 10, 341, 1024} {
		least := parts / rows
		for _, sigma := range []float64{100, 3000, 1e5} {
			limit := float64(threshold(sigma, q, parts, float64(least)))
			worst := 0.0
			split := func(limit float64, next func(left int) int) float64 {
				sum := 0.0
				for left := parts; left >= least; {
					w := next(left)
					sum += shows(float64(w), limit, sigma)
					left -= w
				}
				return sum
			}
			for range 2000 {
				sum := split(limit, func(left int) int {
					return min(left, least+int(float64(left-least)*math.Pow(rnd.Float64(), 1+5*rnd.Float64())))
				})
				worst = max(worst, sum)
			}
			require.LessOrEqual(t, worst, q*(1+1e-9))
			if parts%least == 0 {
				below := max(split(limit-1, func(int) int { return least }), shows(parts, limit-1, sigma))
				require.Greater(t, below, q)
			}
		}
	}
}

// TestThresholdOfLargeNoise: a plan with hardly any budget is refused at once, although float64
// cannot count up its thresholds in steps of 1.
func TestThresholdOfLargeNoise(t *testing.T) {
	for _, eps := range []float64{1e-12, 1e-13, 1e-15} {
		for _, columns := range []int{3, mostColumns} {
			_, err := NewDiscoveryPlan(columns, 1000, dp.Budget{Epsilon: eps, Delta: eps / 1000},
				&Options{Discover: &Discovery{Rows: 5}})
			require.ErrorIs(t, err, dp.ErrCondition)
		}
	}
	const sigma, q = 1e17, 1e-9
	limit := float64(threshold(sigma, q, table.PersonParts, 1))
	require.LessOrEqual(t, shows(1, limit, sigma), q/table.PersonParts)
	require.Less(t, limit, 8*sigma)
	require.Equal(t, 1<<62, threshold(1e19, q, table.PersonParts, 1))
}

// visits is a table of n persons with up to 12 lines each.
func visits(n int) string {
	rnd := rand.New(rand.NewPCG(4, 4))
	var b strings.Builder
	b.WriteString("who,age,city,y\n")
	for i := range n {
		age := 20 + rnd.IntN(40)
		for range 1 + rnd.IntN(12) {
			y := "good"
			if rnd.IntN(60) < age-10 {
				y = "bad"
			}
			city := []string{"Rome", "Oslo", fmt.Sprint("u", rnd.IntN(n))}[rnd.IntN(3)]
			fmt.Fprintf(&b, "p%d,%d,%s,%s\n", i, age, city, y)
		}
	}
	return b.String()
}

func visitors(t *testing.T, text string, rows int) *table.Undeclared {
	d := table.Discovery{Label: table.Label{Column: "y"}, Person: "who", Rows: rows}
	u, err := d.Read(strings.NewReader(text))
	require.NoError(t, err)
	return u
}

// TestSearchByPerson: a search by person has the μ of one by record and PersonParts times the
// noise, finds a schema of persons, and a ledger of persons takes it.
func TestSearchByPerson(t *testing.T) {
	b, text := dp.Budget{Epsilon: 2, Delta: 1e-7}, visits(3000)
	for _, relation := range []dp.Relation{dp.Replace, dp.AddRemove} {
		u := visitors(t, text, 10)
		path := filepath.Join(t.TempDir(), "l")
		_, err := ledger.Create(path, ledger.Terms{Total: dp.Budget{Epsilon: 4, Delta: 1e-6}, Relation: relation,
			Persons: true})
		require.NoError(t, err)
		l, err := ledger.Open(path)
		require.NoError(t, err)
		s, err := Discover(t.Context(), u, b, &Options{Relation: relation, Records: 3000, Ledger: l})
		require.NoError(t, err)
		require.Equal(t, "who", s.Person)
		require.Equal(t, 10, s.Rows)
		require.Equal(t, 3000, s.Records)
		require.Equal(t, table.PersonParts, s.Discovery.Parts)
		require.Contains(t, s.Discovery.Assumptions, erm.OneID)
		require.Empty(t, s.Discovery.Problem)
		require.NoError(t, s.Check())
		require.Len(t, s.Columns, 2)
		require.ElementsMatch(t, []string{"Rome", "Oslo"}, s.Columns[1].Levels)

		record, err := NewDiscoveryPlan(3, 3000, b, &Options{Relation: relation})
		require.NoError(t, err)
		person, err := NewDiscoveryPlan(3, 3000, b, &Options{Relation: relation,
			Discover: &Discovery{Rows: 10, Person: "who"}})
		require.NoError(t, err)
		require.Equal(t, record.t, person.t)
		require.InEpsilon(t, 1024*record.kindSigma(nil), person.kindSigma(nil), 1e-14)
		require.Equal(t, 10, person.Certificate().Rows)
		require.Contains(t, person.String(), "all lines of one person, of which at most 10 count")
		_, err = record.Release(t.Context(), u, nil)
		require.ErrorIs(t, err, ErrOptions)
		require.Equal(t, "who", person.Certificate().Person)
		require.Equal(t, "who", l.Entries()[0].Person)
		unnamed, err := NewDiscoveryPlan(3, 3000, b, &Options{Relation: relation, Discover: &Discovery{Rows: 10}})
		require.NoError(t, err)
		_, err = unnamed.Release(t.Context(), u, nil)
		require.ErrorIs(t, err, ErrOptions, "the certificate names another column than the table")
		_, err = person.Release(t.Context(), visitors(t, text, 9), nil)
		require.ErrorIs(t, err, ErrOptions)
		_, err = Discover(t.Context(), u, b, &Options{Relation: relation, Records: 3000, Discover: &Discovery{Rows: 9}})
		require.ErrorIs(t, err, ErrOptions)
	}
}

// TestFitByPersonPlan: the fit after a search by person has numbers that no schema changes, c is at
// least Λ, and what has no proof is refused.
func TestFitByPersonPlan(t *testing.T) {
	b, text := dp.Budget{Epsilon: 3, Delta: 1e-7}, visits(3000)
	o := &Options{Discover: &Discovery{Task: TwoClasses}, Source: dp.Seeded(3)}
	narrow := strings.NewReplacer("Rome", "", "Oslo", "").Replace(text)
	const rows = 10
	a, _, err := FitUndeclared(t.Context(), visitors(t, text, rows), b, o)
	require.NoError(t, err)
	c, _, err := FitUndeclared(t.Context(), visitors(t, narrow, rows), b, o)
	require.NoError(t, err)
	require.Greater(t, a.Params().Dim, c.Params().Dim)
	require.Equal(t, a.Params().Sequence, c.Params().Sequence)
	require.Equal(t, a.Certificate(), c.Certificate())
	require.Equal(t, theoremDiscover, a.Certificate().Theorem)
	require.Equal(t, rows, a.Certificate().Rows)
	require.Contains(t, a.Certificate().Assumptions, erm.OneID)
	relations := []dp.Relation{dp.Replace}
	if testkit.Long() {
		relations = append(relations, dp.AddRemove)
	}
	for _, relation := range relations {
		plan := func(rows int) *DiscoveryPlan {
			pl, err := newFitPlan(4, 3000, b, &Options{Relation: relation, Radius: 20,
				Discover: &Discovery{Task: TwoClasses, Rows: rows}})
			require.NoError(t, err)
			return pl
		}
		few, many, record := plan(2), plan(1024), plan(0)
		require.Equal(t, few.t, many.t)
		require.Equal(t, few.fit.plan.params.Sequence, many.fit.plan.params.Sequence)
		fit := func(pl *DiscoveryPlan) (float64, float64) {
			p := pl.fit.plan
			_, step := p.minimizer(true, 0, 0, 3000)
			return p.smoothness / (step.Ridge + p.modulus), step.S
		}
		curvature, s := fit(few)
		require.LessOrEqual(t, curvature, few.fit.plan.params.Sequence.C)
		single, most := fit(record)
		require.InEpsilon(t, single, curvature, 0.02, "the ridge of a person is about that of a record")
		require.InEpsilon(t, most, s, 0.02, "a person costs about what a record does")
	}
	_, err = newFitPlan(4, 3000, b, &Options{Clip: 0.3, Discover: &Discovery{Task: Numbers, Rows: 5}})
	require.ErrorIs(t, err, ErrOptions)
	require.ErrorContains(t, err, "proved for one release, not for least squares")
}
