// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package linear

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/loss"
)

// curves are those of all structures at some noise.
func curves(t testing.TB) map[string]Curve {
	out := map[string]Curve{}
	for name, p := range map[string]Problem{
		"GLM":        {Constants: glm(1, 1)},
		"monotone":   {Constants: glm(1, 1), Monotone: true},
		"FixedRange": {Constants: ranked(3)},
		"General":    {Constants: loss.Constants{Lipschitz: 1, Smoothness: 1, Rank: 1, Structure: loss.General}},
	} {
		for _, rel := range []dp.Relation{dp.AddRemove, dp.Replace} {
			p.Dim, p.Relation, p.Budget = 6, rel, dp.Budget{Epsilon: 1, Delta: 1e-5}
			out[name+" "+rel.String()] = at(t, p, 9).Curve
		}
	}
	return out
}

// A curve meets the budget that it was calibrated for, as a single release; its
// profiles fall from 1 to 0 and grow with the output noise.
func TestCurveMeetsItsBudget(t *testing.T) {
	for name, k := range curves(t) {
		remove, add := k.Profile(0, 0)
		require.LessOrEqual(t, max(remove(1), add(1)), 1e-5*(1+1e-6), name) // what boundRemove may be above
		require.Greater(t, max(remove(1), add(1)), 0.999e-5, name)
		for _, o := range []float64{0, 1e-3, 0.1} {
			remove, add := k.Profile(o, 0)
			for _, f := range []func(float64) float64{remove, add} {
				require.Equal(t, 1., f(math.NaN()), name)
				require.Equal(t, 1., f(math.Inf(-1)), name)
				require.Zero(t, f(math.Inf(1)), name)
				last := 1.0
				for eps := -4.0; eps < 8; eps += 0.25 {
					require.LessOrEqual(t, f(eps), last*(1+1e-9), "%s at %v", name, eps)
					last = f(eps)
				}
			}
			wide, _ := k.Profile(2*o+1e-3, 0)
			require.GreaterOrEqual(t, wide(1.5)*(1+1e-9), remove(1.5), name)
		}
	}
}

// With a share of ε for the output noise the profile is the smaller of one step and
// two, in each order.
func TestProfileInTwoSteps(t *testing.T) {
	for name, k := range curves(t) {
		r, a := k.Profile(0, 0)
		for _, o := range []float64{1e-4, 0.02, 0.3} {
			r1, a1 := k.Profile(o, 0)
			for _, out := range []float64{0.01, 0.3} {
				remove, add := k.Profile(o, out)
				for _, eps := range []float64{0.2, 1, 2.5} {
					two := dp.GaussianDelta(out, o)
					require.InEpsilon(t, min(r1(eps), r(eps-out)+two), remove(eps), 1e-8, name)
					require.InEpsilon(t, min(a1(eps), a(eps-out)+two), add(eps), 1e-8, name)
				}
			}
		}
	}
}

// The Rényi curve implies δ above the profile, and is infinite where no order is.
func TestRDP(t *testing.T) {
	for name, k := range curves(t) {
		for _, o := range []float64{0, 0.05} {
			remove, add := k.Profile(o, 0)
			implied := dp.RDP(func(alpha float64) float64 { return k.RDP(alpha, o) }).Curve()
			for _, eps := range []float64{0.5, 1, 3} {
				if !strings.HasSuffix(name, dp.Replace.String()) { // there RDP takes q = 1 and the profile q = 2
					// Up to 1e-8, where both are the same Rényi bound, minimized by two searches.
					require.LessOrEqual(t, max(remove(eps), add(eps)), implied(eps)*(1+1e-8), "%s at %v", name, eps)
				}
			}
			for _, alpha := range []float64{0.5, math.NaN(), math.Inf(1)} {
				require.Equal(t, math.Inf(1), k.RDP(alpha, o))
			}
		}
	}
}
