// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package linear

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/enclose"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/loss"
)

var provable = map[string]loss.Loss{
	"logistic": loss.Logistic{}, "huber": loss.Huber{Delta: 1}, "pseudo-Huber": loss.PseudoHuber{Delta: 1},
	"log-cosh": loss.LogCosh{Delta: 0.4}, "root hinge": loss.RootHinge{Width: 1}, "soft": loss.SoftClipped{Threshold: 0.5},
}

// provableBy returns the calibrator of a loss in d dimensions on rows within 1.7.
func provableBy(t *testing.T, l loss.Loss, rel dp.Relation, b dp.Budget, d int) *Calibrator {
	bounds := loss.Bounds{Row: 1.7, Label: 1}
	p := Problem{Dim: d, Constants: l.Constants(bounds, math.Inf(1)), Relation: rel, Budget: b}
	if e, ok := l.(loss.Envelope); ok {
		p.Envelope = func(lo, hi float64) float64 { return e.Envelope(bounds, lo, hi) }
	}
	p.Monotone = l.Constants(loss.Bounds{Row: 1, Label: 1}, 1).Monotone
	k, err := New(p)
	require.NoError(t, err)
	return k
}

// The noise of every search is proved as it is; a thousandth less is not, whatever theorem it comes
// from; nor is it at a smaller budget. With the noise a hair too small, Prove raises it by no more.
func TestProve(t *testing.T) {
	count, short := 0, 0
	for name, l := range provable {
		for _, rel := range []dp.Relation{dp.Replace, dp.AddRemove} {
			for _, b := range []dp.Budget{
				{Epsilon: 1, Delta: 1e-6}, {Epsilon: 1, Delta: 0}, {Epsilon: 0.1, Delta: 1e-9}, {Epsilon: 6, Delta: 1e-300},
				{Epsilon: 1e-6, Delta: 1e-12}, {Epsilon: 0.01, Delta: 0.1}, {Epsilon: 700, Delta: 1e-8},
			} {
				for d := 1; d <= 4; d += 3 {
					if d == 1 && b.Epsilon != 1 {
						continue
					}
					k := provableBy(t, l, rel, b, d)
					for _, factor := range []float64{1.2, 30} {
						noise, err := k.At(k.LeastRidge(1) * factor)
						require.NoError(t, err)
						got, ok := k.Prove(noise, b, 0)
						require.True(t, ok, "%s, %v, %v, %v", name, rel, b, factor)
						require.Equal(t, noise.Sigma, got.Sigma, "%s, %v, %v, %v", name, rel, b, factor)
						require.Equal(t, noise.Rate, got.Rate)
						if count++; count%3 > 0 {
							continue
						}
						less := noise
						less.Sigma, less.Rate = noise.Sigma*0.999, noise.Rate*1.001
						_, ok = k.Prove(less, b, 0)
						require.False(t, ok, "%s, %v, %v, %v: %v", name, rel, b, factor, noise.Theorem)

						hair := noise
						hair.Sigma, hair.Rate = noise.Sigma*(1-1e-7), noise.Rate*(1+1e-7)
						raised, ok := k.Prove(hair, b, 0)
						require.True(t, ok)
						require.LessOrEqual(t, raised.Sigma, noise.Sigma*(1+1e-6))
						require.GreaterOrEqual(t, raised.Rate, noise.Rate*(1-1e-6))
						if raised.Sigma > hair.Sigma {
							require.Equal(t, k.g/raised.Sigma, raised.S)
							short++
						}
					}
				}
			}
		}
	}
	require.Equal(t, 216, count)
	require.Greater(t, short, 10)
}

// No noise is no proof, although it would satisfy c + aG ≤ ε; nor is a rate that is no number.
func TestProveRefusesNoNoise(t *testing.T) {
	for name, l := range provable {
		for _, rel := range []dp.Relation{dp.Replace, dp.AddRemove} {
			for _, b := range []dp.Budget{{Epsilon: 1}, {Epsilon: 1, Delta: 1e-6}} {
				k := provableBy(t, l, rel, b, 3)
				for _, none := range []float64{0, -1, math.NaN()} {
					_, ok := k.Prove(Noise{Ridge: 4 * k.LeastRidge(1), Rate: none, Sigma: none}, b, 0)
					require.False(t, ok, "%s, %v, %v: %v", name, rel, b, none)
				}
			}
		}
	}
}

// No number below the real κ = log1p(h/μ), to 90 digits with h from its formula, is above κ by
// proof.
func TestRigorousKappa(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 4))
	one := testkit.New(1)
	for name, h := range map[string]func(p float64) float64{
		"logistic":     func(p float64) float64 { return p * (1 - p) },
		"pseudo-Huber": func(p float64) float64 { return (1 - p*p) * math.Sqrt(1-p*p) },
		"log-cosh":     func(p float64) float64 { return 1 - p*p },
		"root hinge":   func(p float64) float64 { return 4 * math.Pow(p*(1-p), 1.5) },
	} {
		l := provable[name]
		if name == "log-cosh" {
			l = loss.LogCosh{Delta: 1}
		}
		k := provableBy(t, l, dp.AddRemove, dp.Budget{Epsilon: 1, Delta: 1e-6}, 3)
		for range 300 {
			mu := math.Exp(12*rnd.Float64() - 6)
			r, p := exact(k.scalar(mu)), (1+math.Floor(1022*rnd.Float64()))/1024 // exact products
			real := testkit.Log(testkit.Add(one, testkit.Quo(testkit.New(1.7*1.7*h(p)*(1-1e-14)), testkit.New(mu))))
			less, _ := real.Float64()
			less = math.Nextafter(less, 0)
			require.False(t, r.under(p, p, less), "%s at %v", name, p)
			require.False(t, r.under(max(p-0.1, 0), min(p+0.1, 1), less), "%s at %v", name, p)
			require.True(t, r.under(p, p, k.scalar(mu).kappa(p, p)*(1+1e-13)), "%s at %v", name, p)
		}
	}
}

// A sequence is proved at its μ and not above it, under both relations.
func TestProveSequence(t *testing.T) {
	for _, rel := range []dp.Relation{dp.Replace, dp.AddRemove} {
		for _, monotone := range []bool{true, false} {
			b := dp.Budget{Epsilon: 1.3, Delta: 1e-7}
			at := func(mu float64) Sequence {
				return Sequence{Relation: rel, Monotone: monotone, C: []float64{0.1, 0.03}, S: []float64{0.3 * mu, 0.9 * mu},
					T: 0.2 * mu}
			}
			mu, err := dp.Calibrate(func(mu float64) dp.Curve {
				remove, add := at(mu).Profile()
				return func(eps float64) float64 { return max(remove(eps), add(eps)) }
			}, b)
			require.NoError(t, err)
			require.True(t, at(mu).Proves(b))
			require.False(t, at(mu*1.0001).Proves(b))
			require.False(t, at(math.NaN()).Proves(b))
		}
	}
}

// Intervals decide, not the float64 values beside them: the same noise is proved at ε and not at
// an ε that only the intervals know to be smaller.
func TestIntervalsDecide(t *testing.T) {
	b := dp.Budget{Epsilon: 1, Delta: 1e-6}
	k := provableBy(t, loss.Logistic{}, dp.AddRemove, b, 3)
	noise, err := k.At(1.1 * k.LeastRidge(0.5))
	require.NoError(t, err)
	q := claim{ridge: noise.Ridge, sigma: noise.Sigma, eps: b.Epsilon, delta: b.Delta}
	r := exact(k.scalar(math.Nextafter(noise.Ridge, 0)))
	at := func(eps float64) enclosed {
		return func(c enclose.Arithmetic) enclose.Interval { return c.Of(eps) }
	}
	require.True(t, r.provesRemoval(at(1), 1, 0, b.Delta, q))
	require.False(t, r.provesRemoval(at(1-1e-9), 1, 0, b.Delta, q))
	require.False(t, r.provesRemoval(at(1), 1, 0, 0, q))
	require.False(t, r.provesRemoval(at(math.NaN()), 1, 0, b.Delta, q))
}

// The enclosure of what adding costs holds the bound in float64, also where output noise is no
// trifle.
func TestProveAdding(t *testing.T) {
	c := enclose.New(128, nil)
	for name, l := range provable {
		k := provableBy(t, l, dp.AddRemove, dp.Budget{Epsilon: 1, Delta: 1e-5}, 3).scalar(1)
		for _, s := range []float64{0.1, 0.7, 3} {
			for _, o := range []float64{0, 0.05, 1} {
				for _, eps := range []float64{0, 0.02, 0.5, 2} {
					v := k.adding(c, c.Of(eps), o, claim{sigma: k.l / s})
					got, _ := v.Hi.Float64()
					require.InEpsilon(t, math.Exp(k.logAdd(eps, s, o)), min(got, 1), 1e-9, "%s, s = %v, o = %v, ε = %v", name, s, o,
						eps)
				}
			}
		}
	}
}

// A leg in either order, with and without output noise, is proved just above the sum that
// float64 finds for it, and not below.
func TestProveLeg(t *testing.T) {
	for name, l := range provable {
		b := dp.Budget{Epsilon: 1.5, Delta: 1e-5}
		k := provableBy(t, l, dp.Replace, b, 3)
		noise, err := k.At(4 * k.LeastRidge(1))
		require.NoError(t, err)
		near := k.scalar(noise.Ridge)
		s := near.l / noise.Sigma
		for _, g := range []leg{{false, 0.4}, {true, 1.2}, {true, 0.7}, {false, 0.9}} {
			for _, o := range []float64{0, 0.05} {
				er, ea, lr, la := g.parts(b.Epsilon)
				remove, _ := near.logRemove(er, s, o/2)
				total := num.LogSumExp(lr+remove, la+near.logAdd(ea, s, o/2))
				at := func(log float64) bool {
					q := claim{ridge: noise.Ridge, sigma: noise.Sigma, eps: b.Epsilon, delta: math.Exp(log), o: o}
					return exact(near).provesLeg(g, q)
				}
				require.True(t, at(total+1e-4), "%s, %v, o = %v", name, g, o)
				require.False(t, at(total-1e-6), "%s, %v, o = %v", name, g, o)
			}
		}
	}
}

// exact returns k as proofs use it.
func exact(k *scalar) *scalar {
	r := *k
	r.exact = true
	return &r
}
