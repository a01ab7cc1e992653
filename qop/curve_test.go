// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package qop

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/loss"
)

// TestProfileOnTheLine: the exact densities of neighbors stay below the profile at every ε, in each
// order; least squares come near it.
func TestProfileOnTheLine(t *testing.T) {
	const m = 12
	for _, relation := range []dp.Relation{dp.Replace, dp.AddRemove} {
		for _, s := range []loss.Structure{loss.LSQ, loss.GLM} {
			q := erm.Public{Dim: 1, Records: 20, Constants: loss.Constants{Smoothness: 1, Rank: 1, Structure: s}}
			plan, err := (&Mechanism{Degrees: m, Relation: relation}).Calibrate(q, dp.Budget{Epsilon: 0.7, Delta: 1e-2})
			require.NoError(t, err)
			profile, sigma2 := plan.Profile(), plan.Params().Sigma2
			losses := map[string]scalarLoss{"none": none, "quadratic": quadratic}
			if s == loss.GLM {
				losses["late"], losses["wide huber"] = late(0.3), huber(0.2)
			}
			masses := map[string][]float64{}
			for i, l := range losses {
				masses[i] = masses1(l, m, sigma2)
			}
			worst := func(eps float64) (remove, add float64) {
				for i := range losses {
					if i != "none" {
						remove = math.Max(remove, hockeyStick(masses[i], masses["none"], eps))
						add = math.Max(add, hockeyStick(masses["none"], masses[i], eps))
					}
				}
				if both := math.Max(remove, add); relation == dp.Replace {
					return both, both
				}
				return remove, add
			}
			for _, eps := range testkit.Every(2, []float64{-2, 0, -0.4, 0.35, 1.1, 0.7}) {
				remove, add := worst(eps)
				require.LessOrEqual(t, remove, profile.Remove(eps)+1e-5, "%v %v ε = %v", s, relation, eps)
				require.LessOrEqual(t, add, profile.Add(eps)+1e-5, "%v %v ε = %v", s, relation, eps)
				if s == loss.LSQ { // within what the output noise costs, and 2⁻¹² of the δ of the budget, where the curve ends
					remove, add = worst(eps - 0.03)
					require.Greater(t, remove, 0.95*profile.Remove(eps)-3e-6, "%v ε = %v", relation, eps)
					require.Greater(t, add, 0.95*profile.Add(eps)-3e-6, "%v ε = %v", relation, eps)
				}
			}
		}
	}
}

// TestProfileOfTilt: the same for the pair of c̃ and the minimizer.
func TestProfileOfTilt(t *testing.T) {
	p, center := planted(t, 60, 1, loss.Squared{})
	p.Set = nil
	for _, relation := range []dp.Relation{dp.Replace, dp.AddRemove} {
		plan, err := (&Mechanism{Center: center, Degrees: 9, Relation: relation, Interpolation: Tilt{Clip: 0.5}}).Plan(p,
			dp.Budget{Epsilon: 0.8, Delta: 1e-2})
		require.NoError(t, err)
		profile, q := plan.Profile(), plan.Params()
		l := lineRelease{x0: 1, tau: q.SlopeSigma, sigma2: q.Sigma2, m: q.Degrees, pull: 3, weight: 2}
		with, without := l, l
		with.records = []lineRecord{squareRecord(q.Constants.Smoothness, q.Clip, q.Clip, 0)}
		if relation == dp.Replace {
			without.records = []lineRecord{squareRecord(0, -q.Clip, q.Clip, 0)}
		}
		for _, eps := range testkit.Every(2, []float64{0.3, 0, 1.3, 0.8}) {
			remove, add := with.stick(&without, eps, 4), without.stick(&with, eps, 4)
			if relation == dp.Replace {
				remove = math.Max(remove, add)
				add = remove
			}
			require.LessOrEqual(t, remove, profile.Remove(eps)*1.001, "%v ε = %v", relation, eps)
			require.LessOrEqual(t, add, profile.Add(eps)*1.001, "%v ε = %v", relation, eps)
			require.Greater(t, remove, 0.9*profile.Remove(eps)-3e-6, "%v ε = %v", relation, eps)
			require.Greater(t, add, 0.9*profile.Add(eps)-3e-6, "%v ε = %v", relation, eps)
		}
	}
}

// TestProfile: every plan keeps its budget by its profile, which does not increase; ten releases
// cost less than ten budgets, but for the theorems that have no curve, whose profile is that of the
// budget.
func TestProfile(t *testing.T) {
	const ten = 10
	for name, c := range map[string]struct {
		m         Mechanism
		structure loss.Structure
		dim       int
		most      float64 // of ε of ten releases at ten δ, over 10ε
	}{
		"lsq":       {Mechanism{}, loss.LSQ, 20, 0.45},
		"lsq/add":   {Mechanism{Relation: dp.AddRemove}, loss.LSQ, 20, 0.45},
		"glm":       {Mechanism{}, loss.GLM, 5, 0.75},
		"glm/add":   {Mechanism{Relation: dp.AddRemove}, loss.GLM, 5, 0.45},
		"general":   {Mechanism{Degrees: 40}, loss.General, 3, 0.75},
		"tilt":      {Mechanism{Degrees: 90}, loss.General, 20, 0.75},
		"fixed":     {Mechanism{Degrees: 40}, loss.FixedRange, 6, 1},
		"published": {Mechanism{Calibration: Paper}, loss.LSQ, 3, 1},
		"anchor":    {Mechanism{Eta: 1, Radius: 1, Degrees: 30}, loss.LSQ, 3, 1},
	} {
		q := erm.Public{Dim: c.dim, Records: 1000, Constants: loss.Constants{Smoothness: 1, Rank: 2, Structure: c.structure}}
		b := dp.Budget{Epsilon: 0.5, Delta: 1e-5}
		plan, err := c.m.Calibrate(q, b)
		require.NoError(t, err, name)
		profile := plan.Profile()
		require.LessOrEqual(t, profile.Delta(b.Epsilon), b.Delta, name)
		before := 1.0
		for eps := -3.0; eps < 5; eps += 0.05 {
			delta := profile.Remove(eps)
			require.LessOrEqual(t, delta, before*(1+1e-9), "%s ε = %v", name, eps)
			require.LessOrEqual(t, delta, b.Profile().Remove(eps), "%s ε = %v", name, eps)
			before = delta
		}
		var plans []dp.Plan
		for range ten {
			plans = append(plans, plan)
		}
		cert, err := dp.Compose(ten*b.Delta, plans...)
		require.NoError(t, err, name)
		t.Logf("%s: %s, ε of ten releases %.3f of ten ε", name, plan.Params().Theorem, cert.Epsilon/ten/b.Epsilon)
		require.LessOrEqual(t, cert.Epsilon, c.most*ten*b.Epsilon, name)
	}
	require.Equal(t, 1., (&Plan{}).Profile().Delta(1))
	require.Equal(t, 1., (&curve{[]float64{0}, []float64{0.1}}).at(math.NaN(), nil))
}
