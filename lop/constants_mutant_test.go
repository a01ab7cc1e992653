package lop_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/bigref"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
)

// The tests of this file pin down constants and branches that package
// internal/mutate changes and other tests do not notice.

var glm = loss.Constants{Lipschitz: 3, Smoothness: 0.5, Rank: 1, Structure: loss.GLM}

// squareNorm returns E‖b‖² of a plan.
func squareNorm(p *lop.Plan) float64 {
	d := float64(p.Dim)
	if p.Rate > 0 {
		return d * (d + 1) / (p.Rate * p.Rate)
	}
	return d * p.Sigma * p.Sigma
}

// TestPlanFormulas: the default of Cover and the excess bound are their formulas,
// for Gaussian and pure noise, with and without a ridge and a radius.
func TestPlanFormulas(t *testing.T) {
	for _, delta := range []float64{0, 1e-6} {
		for _, ridge := range []float64{0, 0.7} {
			for _, n := range []int{0, 1, 10, 1e9} {
				for _, radius := range []float64{0, 0.5, 2} {
					q := lop.Public{Dim: 3, Records: n, Constants: glm, Ridge: ridge, Radius: radius, Budget: dp.Budget{Epsilon: 0.5, Delta: delta}}
					p, err := (&lop.Mechanism{Delta: 4}).Calibrate(q)
					require.NoError(t, err)
					mu := 4 + ridge
					norm := math.Sqrt(squareNorm(p))
					length := radius
					if radius == 0 {
						length = norm / mu
					}
					floor := 8e-12 * (3*float64(n) + norm + 4*length) / mu
					require.InEpsilon(t, max(1e-8*length, floor), p.Cover, 1e-12)
					if radius == 0 {
						require.Equal(t, math.Inf(1), p.ExcessBound)
					} else {
						require.InEpsilon(t, squareNorm(p)/(2*mu)+4*radius*radius/2, p.ExcessBound, 1e-12)
					}
					require.Equal(t, n, p.Records)

					p, err = (&lop.Mechanism{Delta: 4, Relation: dp.AddRemove}).Calibrate(q)
					require.NoError(t, err)
					require.Zero(t, p.Records, "n is private")

					o, err := (&lop.Output{Delta: 4}).Calibrate(q)
					require.NoError(t, err)
					g := 6.
					length = radius
					if radius == 0 {
						length = g / mu
					}
					require.InEpsilon(t, max(1e-8*length, 8e-12*(3*float64(n)+4*length)/mu), o.Cover, 1e-12)
					sens := g/mu + 2*o.Cover
					unit := 3 / q.Budget.Epsilon
					if delta > 0 {
						s, err := dp.GaussianSigma(q.Budget, 1)
						require.NoError(t, err)
						unit = s * math.Sqrt(3)
						require.InEpsilon(t, sens/o.OutputSigma, o.S, 1e-12)
					}
					if radius > 0 && n > 0 {
						require.InEpsilon(t, 3*float64(n)*(unit*sens*(1+1e-9)+o.Cover)+4*radius*radius/2, o.ExcessBound, 1e-10)
					} else {
						require.Equal(t, math.Inf(1), o.ExcessBound)
					}
				}
			}
		}
	}
}

// TestAutomaticDeltaIsBest: no Δ of a fine grid has an excess bound that is lower
// by more than 1e-4, wherever the best one lies: inside, at the ceiling of c, or
// next to nothing because the regularizer is enough.
func TestAutomaticDeltaIsBest(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 4
	}
	for _, delta := range []float64{0, 1e-6} {
		for _, eps := range []float64{0.1, 1, 8} {
			for _, beta := range []float64{1e-3, 0.5, 500} {
				for _, ridge := range []float64{0, 1, 300} {
					for _, radius := range []float64{0.1, 10} {
						k := glm
						k.Smoothness = beta
						q := lop.Public{Dim: 2, Constants: k, Ridge: ridge, Radius: radius, Budget: dp.Budget{Epsilon: eps, Delta: delta}}
						p, err := (&lop.Mechanism{}).Calibrate(q)
						require.NoError(t, err)
						require.Less(t, p.C, p.Objective.Epsilon)
						for i := -60; i <= 60; i += step {
							other, err := (&lop.Mechanism{Delta: p.Delta * math.Exp(float64(i)/12)}).Calibrate(q)
							if err != nil { // no noise is enough there
								continue
							}
							if other.C <= 0.99*other.Objective.Epsilon {
								require.GreaterOrEqual(t, other.ExcessBound, p.ExcessBound*(1-1e-4), "%+v: Δ = %v", q, other.Delta)
							}
						}
					}
				}
			}
		}
	}
}

// TestKiferDelta: the published Δ, or the best one above it.
func TestKiferDelta(t *testing.T) {
	m := &lop.Mechanism{Calibration: lop.Kifer}
	for _, delta := range []float64{0, 1e-6} {
		for _, rank := range []int{1, 2} {
			k := loss.Constants{Lipschitz: 1, Smoothness: 2, Rank: rank, Structure: loss.FixedRange}
			q := lop.Public{Dim: 2, Constants: k, Budget: dp.Budget{Epsilon: 1, Delta: delta}}
			p, err := m.Calibrate(q)
			require.NoError(t, err)
			least := 2 * float64(rank) * 2 / p.Objective.Epsilon
			require.InEpsilon(t, least, p.Delta, 1e-12)
			q.Ridge = least / 4
			p, err = m.Calibrate(q)
			require.NoError(t, err)
			require.InEpsilon(t, 3*least/4, p.Delta, 1e-12)
			q.Ridge = 2 * least // the regularizer is enough, but Δ is to be positive
			p, err = m.Calibrate(q)
			require.NoError(t, err)
			require.InEpsilon(t, least, p.Delta, 1e-12)
			q.Ridge, q.Radius = least/4, 1e-3 // a tiny radius wants a large Δ
			p, err = m.Calibrate(q)
			require.NoError(t, err)
			require.InEpsilon(t, math.Sqrt(squareNorm(p))/1e-3-q.Ridge, p.Delta, 1e-9)
			q.Radius = 1e6 // a huge one the least
			p, err = m.Calibrate(q)
			require.NoError(t, err)
			require.InEpsilon(t, 3*least/4, p.Delta, 1e-12)

			m2 := *m
			m2.Delta = 3 * least / 4 * (1 - 1e-6)
			_, err = m2.Calibrate(q)
			require.ErrorIs(t, err, dp.ErrCondition)
			require.ErrorContains(t, err, "needs Delta")
		}
	}
	// Three dimensions of change are too many for the Gaussian theorem.
	k := loss.Constants{Lipschitz: 1, Smoothness: 2, Rank: 3, Structure: loss.FixedRange}
	_, err := m.Calibrate(lop.Public{Dim: 3, Constants: k, Budget: dp.Budget{Epsilon: 1, Delta: 1e-6}})
	require.ErrorIs(t, err, dp.ErrCondition)
}

// TestOutputDelta: automatic Δ of output perturbation and the records it is for.
func TestOutputDelta(t *testing.T) {
	b := dp.Budget{Epsilon: 1, Delta: 1e-6}
	s, err := dp.GaussianSigma(b, 1)
	require.NoError(t, err)
	for _, n := range []int{1, 1000} {
		for _, ridge := range []float64{0, 0.5, 1e6} {
			q := lop.Public{Dim: 4, Constants: glm, Ridge: ridge, Radius: 2, Budget: b}
			p, err := (&lop.Output{Records: n}).Calibrate(q)
			require.NoError(t, err)
			best := math.Sqrt(2*float64(n)*3*s*2*6) / 2 // √(2nL·σ√d·G)/B
			require.InEpsilon(t, max(best-ridge, 1e-6*best), p.Delta, 1e-9)
			require.Equal(t, n, p.Records)
		}
	}
}

// TestCoverLimit: 1e-14 of the radius is the least that is accepted.
func TestCoverLimit(t *testing.T) {
	q := lop.Public{Dim: 2, Constants: glm, Radius: 4, Budget: dp.Budget{Epsilon: 1, Delta: 1e-6}}
	_, err := (&lop.Mechanism{Cover: 4.01e-14}).Calibrate(q)
	require.NoError(t, err)
	_, err = (&lop.Mechanism{Cover: 3.99e-14}).Calibrate(q)
	require.ErrorIs(t, err, lop.ErrMechanism)
}

// TestPublishedEnds: the ranges of the published constants and Σ₁ by hand.
func TestPublishedEnds(t *testing.T) {
	a := lop.AMP{Lipschitz: 3, Smoothness: 2, Rank: 2, Records: 10, Epsilon1: 1.5, Epsilon2: 0.5, Epsilon3: 0.53, Delta1: 0.97, Delta2: 1e-3, Gamma: 0.1}
	n, err := a.Noise()
	require.NoError(t, err)
	tail := 1 + math.Sqrt(2*math.Log(1/0.97))
	require.InEpsilon(t, 2*3./10*tail/0.53, n.Sigma1, 1e-12)
	require.InEpsilon(t, 2*2/0.97, n.Lambda, 1e-12)
	for _, bad := range []func(*lop.AMP){func(a *lop.AMP) { a.Epsilon3 = 0.5 }, func(a *lop.AMP) { a.Epsilon3 = 1.5 }, func(a *lop.AMP) { a.Delta1 = 1 }, func(a *lop.AMP) { a.Delta1 = 0 }} {
		b := a
		bad(&b)
		_, err := b.Noise()
		require.Error(t, err)
	}
}

// TestJointMeetsTheBudget: the joint curve is met from below, to 1e-6 of δ, by a
// plan that rests on it.
func TestJointMeetsTheBudget(t *testing.T) {
	joint := 0
	for _, eps := range []float64{0.2, 1, 5} {
		for _, share := range []float64{0.05, 0.3} {
			q := lop.Public{Dim: 3, Constants: glm, Radius: 2, Budget: dp.Budget{Epsilon: eps, Delta: 1e-5}}
			m := &lop.Mechanism{Joint: true, Share: share, Relation: dp.AddRemove}
			p, err := m.Calibrate(q)
			require.NoError(t, err)
			if p.Theorem != lop.TheoremJoint {
				continue
			}
			joint++
			require.InEpsilon(t, 3/p.Sigma, p.S, 1e-12)
			require.LessOrEqual(t, p.Profile()(eps), 1e-5)
			require.GreaterOrEqual(t, p.Profile()(eps), 1e-5*(1-1e-6))
			require.LessOrEqual(t, p.DeltaAt(eps), 1e-5)
			apart, err := (&lop.Mechanism{Share: share, Relation: dp.AddRemove}).Calibrate(q)
			require.NoError(t, err)
			require.Less(t, p.Sigma, apart.Sigma)
			// The plan in two parts adds up what the joint one does at once.
			require.LessOrEqual(t, apart.Profile()(eps), 1e-5)
			require.GreaterOrEqual(t, apart.DeltaAt(eps), apart.Profile()(eps)*(1-1e-9))
		}
	}
	require.Positive(t, joint)
}

// TestDeltaAtIsTheSmaller: DeltaAt is the smaller of the profile and the sum of
// the two parts, which 60 digits give; profiles end at 1 and curves at order 1.
func TestDeltaAtIsTheSmaller(t *testing.T) {
	split := 0
	for _, rel := range []dp.Relation{dp.Replace, dp.AddRemove} {
		for i, share := range []float64{0.01, 0.2, 0.2} {
			monotone := i == 2
			if monotone && rel == dp.Replace {
				continue
			}
			q := lop.Public{Dim: 3, Constants: glm, Radius: 2, Budget: dp.Budget{Epsilon: 1, Delta: 1e-5}}
			p, err := (&lop.Mechanism{Relation: rel, Monotone: monotone, Share: share}).Calibrate(q)
			require.NoError(t, err)
			_, chi, paired := dims(q, rel)
			o := bigref.Quo(bigref.Mul(num(2), num(p.Cover)), num(p.OutputSigma))
			out, _ := bigref.GaussianDelta(num(p.Output.Epsilon), o).Float64()
			for _, eps := range []float64{0.6, 1, 2} {
				e1 := bigref.Sub(num(eps-p.Output.Epsilon), num(p.C))
				curve, _ := curveDelta(e1, bigref.Quo(sensitivity(q, rel), num(p.Sigma)), chi, paired, monotone).Float64()
				whole := p.Profile()(eps)
				require.InEpsilon(t, min(whole, curve+out), p.DeltaAt(eps), 1e-8, "%v at %v", rel, eps)
				require.GreaterOrEqual(t, p.DeltaAt(eps), min(whole, curve+out), "never below what is proved")
				if curve+out < whole {
					split++
				}
			}
			require.InDelta(t, 1, p.Profile()(-50), 1e-9)
			require.LessOrEqual(t, p.Profile()(-50), 1.)
			require.Equal(t, math.Inf(1), p.RDP()(0.97))
			require.False(t, math.IsInf(p.RDP()(1), 1))
		}
	}
	require.Positive(t, split)
	_, err := (&lop.Mechanism{Share: 0.97}).Calibrate(lop.Public{Dim: 3, Constants: glm, Radius: 2, Budget: dp.Budget{Epsilon: 1, Delta: 1e-5}})
	require.NoError(t, err)
}

// TestRangeOfPlans: values beyond 2^400 and below 2^-400 are refused, and only
// those.
func TestRangeOfPlans(t *testing.T) {
	const largest = 0x1p400
	q := lop.Public{Dim: 2, Constants: glm, Radius: 1, Budget: dp.Budget{Epsilon: 1, Delta: 1e-6}}
	unit, err := (&lop.Mechanism{Delta: 4, Cover: 1}).Calibrate(q)
	require.NoError(t, err)
	for _, f := range []float64{0.97, 1.03} {
		big := q
		big.Constants.Lipschitz *= f * largest / unit.Sigma
		_, sigma := (&lop.Mechanism{Delta: 4, Cover: 1}).Calibrate(big)
		_, delta := (&lop.Mechanism{Delta: f * largest}).Calibrate(q)
		small := q
		small.Radius = 1 / largest
		_, cover := (&lop.Mechanism{Delta: 4, Cover: 1 / largest / f}).Calibrate(small)
		for _, err := range []error{sigma, delta, cover} {
			if f < 1 {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, lop.ErrMechanism)
				require.ErrorContains(t, err, "rescale")
			}
		}
	}
}
