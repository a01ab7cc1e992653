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

// The Rényi curve is the moment of the dominating losses by quadrature, and is at least that of
// parallel gradients.
func TestSequenceRDP(t *testing.T) {
	x, w := num.GaussLegendre(16)
	moment := func(alpha float64, loss func(z float64) float64) float64 { // log E e^{(α−1)loss}/(α−1)
		sum := 0.0
		const panels = 200
		for i := range panels {
			for j := range x {
				z := -16 + 32*(float64(i)+(x[j]+1)/2)/panels
				sum += w[j] / 2 * 32 / panels * math.Exp((alpha-1)*loss(z)-z*z/2) / math.Sqrt(2*math.Pi)
			}
		}
		return math.Log(sum) / (alpha - 1)
	}
	for _, alpha := range []float64{1.01, 2, 7.5, 20} {
		for _, monotone := range []bool{false, true} {
			q := Sequence{Relation: dp.AddRemove, C: []float64{0.02, 0.05}, S: []float64{0.2, 0.1}, T: 0.15, Monotone: monotone}
			add := func(alpha, scale float64) float64 {
				sum := alpha * q.T * q.T * scale * scale / 2
				for _, s := range q.S {
					s *= scale
					sum += moment(alpha, func(z float64) float64 {
						if monotone {
							return max(0, s*z+s*s/2)
						}
						return s*math.Abs(z) + s*s/2
					})
				}
				return sum
			}
			square := 0.0725 // Σs² + t²
			remove := func(alpha, scale float64) float64 { return 0.07 + alpha*square*scale*scale/2 }
			require.InEpsilon(t, max(remove(alpha, 1), add(alpha, 1)), q.RDP(alpha), 1e-4) // a kink inside a panel
			q.Relation = dp.Replace
			twice := 2 * alpha / (2*alpha - 1)
			legs := min(twice*remove(2*alpha-1, 0.5)+add(2*alpha, 0.5), twice*add(2*alpha-1, 0.5)+remove(2*alpha, 0.5))
			require.LessOrEqual(t, q.RDP(alpha), legs*(1+1e-4))
			require.GreaterOrEqual(t, q.RDP(alpha), alpha*square/2) // parallel gradients
		}
	}
	gauss := Sequence{Relation: dp.Replace, T: 0.4}
	require.InEpsilon(t, 10*0.16/2, gauss.RDP(10), 1e-8)
	// One minimizer has the curve of its plan, where that has no envelope.
	one := Sequence{Relation: dp.AddRemove, C: []float64{0.3}, S: []float64{0.2}, T: 0.1}
	require.InEpsilon(t, 0.3+5*0.05/2, one.RDP(5), 1e-8)
	require.InEpsilon(t, Chi{S: 0.2, Q: 1}.RDP(5)+5*0.01/2, one.rdpAdd(5, 1), 1e-8)
	for _, alpha := range []float64{1, 0.5, -1, math.NaN(), math.Inf(1)} {
		require.Equal(t, math.Inf(1), one.RDP(alpha))
	}
	require.Equal(t, math.Inf(1), Sequence{}.RDP(2))
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
