// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package qop

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/randmat"
)

// TestTheoremB: the parts of a plan with η > 0 add up to the theorem, recomputed.
func TestTheoremB(t *testing.T) {
	b := dp.Budget{Epsilon: 1, Delta: 1e-5}
	for _, s := range []loss.Structure{loss.LSQ, loss.GLM, loss.FixedRange, loss.General} {
		for _, eta := range []float64{1e-6, 0.1} {
			if s != loss.LSQ && !testkit.Long() || (eta == 0.1 && s != loss.LSQ || s >= loss.FixedRange) && !testkit.Deep() {
				continue
			}
			q := public(4, s)
			q.Records = 1000
			plan, err := (&Mechanism{Eta: eta}).Calibrate(q, b)
			require.NoError(t, err, "%v %v", s, eta)
			p := plan.Params()
			consistent(t, p, fmt.Sprint(s, eta))
			law := randmat.MinEigenvalueLaw{Dim: 4, Dof: p.Degrees}
			both := 1 + math.Exp(p.Objective.Epsilon)
			require.LessOrEqual(t, math.Min(math.Exp(law.LogCDF(p.Alpha+p.Ratio)), both*math.Exp(law.LogCDF(p.Alpha))),
				p.MinEigDelta)
			require.LessOrEqual(t, math.Min(num.Chi2SF(p.MaxEig-p.Ratio, p.Degrees), both*num.Chi2SF(p.MaxEig, p.Degrees)),
				p.MaxEigDelta)
			require.GreaterOrEqual(t, p.Reach, p.Cover+eta*math.Sqrt(p.MaxEig/p.Alpha))
			c := &calibrator{s: setting{dim: 4, rank: 1, structure: s, relation: dp.Replace}}
			at := c.largest(p.Objective, p.Degrees).t
			require.LessOrEqual(t, p.Ratio, at)

			exact, err := (&Mechanism{}).Calibrate(q, b)
			require.NoError(t, err)
			require.Greater(t, p.ExcessBound, 0.98*exact.Params().ExcessBound) // whose share is fixed at 1 %
			if eta == 1e-6 {
				require.Less(t, p.ExcessBound, 1.3*exact.Params().ExcessBound, "%v", s)
			}
		}
	}
	// A given share is kept.
	plan, err := (&Mechanism{Eta: 0.01, Share: 0.25, Degrees: 20}).Calibrate(public(4, loss.LSQ), b)
	require.NoError(t, err)
	p := plan.Params()
	require.InEpsilon(t, 0.25, p.Output.Epsilon, 1e-9)
	require.InEpsilon(t, 0.25e-5*(1-0x1p-8), p.Output.Delta, 1e-9)
	require.Equal(t, 20.0, p.Degrees)
}

// TestGoldenOutputNoise recomputes the golden sharp_noise: its α and b come from
// the shifted tails F(α+t) = δ₃/2, P(χ²_m > b−t) = δ₄.
func TestGoldenOutputNoise(t *testing.T) {
	seen := 0
	for _, c := range golden(t).Calibration {
		if c.Noise.R == 0 {
			continue
		}
		seen++
		s := float64(c.Sharp.Threshold.T)
		law := randmat.MinEigenvalueLaw{Dim: c.D, Dof: float64(c.M)}
		require.InDelta(t, math.Log(float64(c.Delta3)/2), law.LogCDF(float64(c.Noise.Alpha)+s), 1e-8)
		r := math.Sqrt(2*float64(c.Tau)*s/(float64(c.L)*float64(c.Noise.Alpha))) +
			float64(c.Eta)*math.Sqrt(float64(c.Noise.B)/float64(c.Noise.Alpha))
		close(t, c.Noise.R, r, 1e-9)
		sigma, err := dp.GaussianSigma(dp.Budget{Epsilon: float64(c.Eps2), Delta: float64(c.Delta2)}, 2*r)
		require.NoError(t, err)
		close(t, c.Noise.Sigma, sigma, 1e-6)
	}
	require.Positive(t, seen)
}

// TestInexactIsRoundedUp: Theorem B in one dimension, where λ_min and ‖e‖²_W are
// χ²_m variables: α, b and R are on the safe side.
func TestInexactIsRoundedUp(t *testing.T) {
	rnd := rand.New(rand.NewPCG(13, 11))
	for range points(120) {
		q, budget := declared(rnd, loss.LSQ, 1)
		m := &Mechanism{Relation: dp.AddRemove, Eta: logUniform(rnd, 1e-3, 1) * q.Radius, Degrees: float64(4 + rnd.IntN(30))}
		plan, err := m.Calibrate(q, budget)
		require.NoError(t, err)
		p := plan.Params()
		at := fmt.Sprintf("%+v %+v", *m, q)
		dof := int(p.Degrees)
		f := func(x *big.Float) *big.Float { return testkit.Sub(rational(1), testkit.Chi2SF(x, dof)) }
		twice := testkit.Add(rational(1), testkit.Exp(rational(p.Objective.Epsilon)))
		least := func(a, b *big.Float) *big.Float {
			if a.Cmp(b) < 0 {
				return a
			}
			return b
		}
		alpha, b, x := rational(p.Alpha), rational(p.MaxEig), rational(p.Ratio)
		low := least(f(testkit.Add(alpha, x)), testkit.Mul(twice, f(alpha)))
		require.LessOrEqual(t, low.Cmp(rational(p.MinEigDelta)), 0, "α = %v is too large, %s", p.Alpha, at)
		high := least(testkit.Chi2SF(testkit.Sub(b, x), dof), testkit.Mul(twice, testkit.Chi2SF(b, dof)))
		require.LessOrEqual(t, high.Cmp(rational(p.MaxEigDelta)), 0, "b = %v is too small, %s", p.MaxEig, at)
		reach := testkit.Add(rational(p.Cover), testkit.Mul(rational(p.Eta), testkit.Sqrt(testkit.Quo(b, alpha))))
		require.GreaterOrEqual(t, rational(p.Reach).Cmp(reach), 0, "R = %v is too small, %s", p.Reach, at)
		require.LessOrEqual(t, rational(p.Reach).Cmp(testkit.Mul(reach, rational(1+1e-6))), 0, "R = %v is too large, %s",
			p.Reach, at)
		consistent(t, p, at)
	}
}
