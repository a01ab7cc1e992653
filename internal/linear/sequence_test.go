// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package linear

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/testkit"
)

// The formulas in 60 digits for two minimizers and a Gaussian release.
func TestSequenceInSixtyDigits(t *testing.T) {
	q := Sequence{Relation: dp.AddRemove, C: []float64{0.1, 0.05}, S: []float64{0.2, 0.15}, T: 0.12}
	mu := math.Sqrt(0.04 + 0.0225 + 0.0144)
	n := testkit.New
	sum := func(eps float64, shifts ...float64) float64 {
		total := n(0)
		for _, s := range shifts {
			total = testkit.Add(total, testkit.GaussianDelta(n(eps), n(s)))
		}
		v, _ := total.Float64()
		return v
	}
	for _, eps := range testkit.Every(2, []float64{1, 0.3, 1.6})[:testkit.Of(1, 3)] {
		remove, add := q.Profile()
		require.InEpsilon(t, sum(eps-0.15, mu), remove(eps), 1e-8)
		require.InEpsilon(t, sum(eps, mu, mu, mu, mu), add(eps), 1e-8)
		q.Monotone = true
		remove, add = q.Profile()
		require.InEpsilon(t, sum(eps-0.15, mu), remove(eps), 1e-8)
		require.InEpsilon(t, sum(eps, mu, math.Sqrt(0.04+0.0144), math.Sqrt(0.0225+0.0144), 0.12), add(eps), 1e-8)
		q.Monotone = false

		// Replacement is the least over e₁ of both orders, with half of every shift.
		r := q
		r.Relation = dp.Replace
		both, _ := r.Profile()
		least := sum(eps-0.15, mu) * 16
		for i := range 401 {
			e1 := eps * float64(i) / 400
			a := 4*bigDelta(e1, mu/2) + math.Exp(e1)*bigDelta(eps-e1-0.15, mu/2)
			b := bigDelta(e1-0.15, mu/2) + math.Exp(e1)*4*bigDelta(eps-e1, mu/2)
			least = min(least, a, b)
		}
		require.LessOrEqual(t, both(eps), least*(1+1e-7))
		require.GreaterOrEqual(t, both(eps), least*(1-2e-3))
	}
}

// The bounds dominate Monte-Carlo-free quadrature of what they bound: one minimizer
// with a Gaussian release, E over N of δ_G(ε − loss, t).
func TestSequenceIsAboveTheIntegral(t *testing.T) {
	rnd := rand.New(rand.NewPCG(8, 9))
	x, w := num.GaussLegendre(16)
	for range 40 {
		c, s, tt, eps := 0.3*rnd.Float64(), math.Exp(2*rnd.Float64()-3), math.Exp(2*rnd.Float64()-3), 2*rnd.Float64()
		for _, monotone := range []bool{false, true} {
			q := Sequence{Relation: dp.AddRemove, C: []float64{c}, S: []float64{s}, T: tt, Monotone: monotone}
			integral := 0.0
			const panels = 200
			for i := range panels {
				for j := range x {
					z := -10 + 20*(float64(i)+(x[j]+1)/2)/panels
					l := s*math.Abs(z) + s*s/2
					if monotone {
						l = max(0, s*z+s*s/2)
					}
					integral += w[j] / 2 * 20 / panels * math.Exp(-z*z/2) / math.Sqrt(2*math.Pi) * dp.GaussianDelta(eps-l, tt)
				}
			}
			remove, add := q.Profile()
			require.GreaterOrEqual(t, add(eps), integral*(1-1e-4))
			if integral > 1e-20 { // else the tail of the integral is cut
				require.LessOrEqual(t, add(eps), 4*integral)
			}
			// Removal is the Gaussian with c: one step, whatever the curvature does.
			require.InEpsilon(t, dp.GaussianDelta(eps-c, math.Hypot(s, tt)), remove(eps), 1e-8)
			q.Relation = dp.Replace
			both, _ := q.Profile()
			require.GreaterOrEqual(t, both(eps), dp.GaussianDelta(eps, math.Hypot(s, tt))*(1-1e-9)) // parallel gradients
			require.LessOrEqual(t, both(eps), 4*dp.GaussianDelta(eps-c, math.Hypot(s, tt))*(1+1e-8))
		}
	}
}

func TestSequenceEnds(t *testing.T) {
	gauss := Sequence{Relation: dp.Replace, T: 0.4} // Gaussian releases alone: the legs meet again
	both, _ := gauss.Profile()
	for _, eps := range []float64{-1, 0, 0.3, 2} {
		require.InEpsilon(t, dp.GaussianDelta(eps, 0.4), both(eps), 1e-4)
	}
	for _, q := range []Sequence{
		{}, {Relation: dp.Replace, C: []float64{1}}, {Relation: dp.Replace, T: -1}, {Relation: dp.AddRemove, T: math.NaN()},
		{Relation: dp.AddRemove, C: []float64{math.Inf(1)}, S: []float64{1}},
		{Relation: dp.Replace, C: make([]float64, 17), S: make([]float64, 17)},
	} {
		require.Error(t, q.Check())
		remove, add := q.Profile()
		require.Equal(t, 1., remove(3)+add(3)-1)
	}
	remove, add := Sequence{Relation: dp.AddRemove, C: []float64{0.1}, S: []float64{0.3}}.Profile()
	for _, f := range []func(float64) float64{remove, add} {
		require.Equal(t, 1., f(math.NaN()))
		require.Equal(t, 1., f(math.Inf(-1)))
		require.Zero(t, f(math.Inf(1)))
	}
}
