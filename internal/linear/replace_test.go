// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package linear

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/num"
)

// Every leg is a bound, the search finds the least of them, and the certificate holds
// at what it finds and at nothing below.
func TestReplaceIsTheLeastLeg(t *testing.T) {
	for name := range shapes {
		for _, c := range []struct{ mu, s, eps, o float64 }{{1, 0.1, 1, 0}, {3, 0.13, 1, 0.02}, {0.6, 0.4, 2, 0},
			{6, 0.02, 0.2, 0},
			{4, 1.5, 0.5, 0.1}} {
			k := tiedOf(t, name, c.mu)
			found, g := k.logReplace(c.eps, c.s, c.o, nil)
			least := math.Inf(1)
			for i := range 101 {
				for _, removeFirst := range []bool{false, true} {
					l := leg{removeFirst, c.eps * float64(i) / 100}
					er, ea, lr, la := l.parts(c.eps)
					remove, _ := k.logRemove(er, c.s, c.o/2)
					least = min(least, math.Log(math.Exp(lr+remove)+math.Exp(la+k.logAdd(ea, c.s, c.o/2))))
				}
			}
			require.LessOrEqual(t, found, min(0, least+1e-6), "%s %+v", name, c)
			if found < -0.1 {
				require.False(t, k.replaces(g, c.eps, c.s, c.o, found-1e-6, patient), "%s %+v", name, c)
				require.True(t, k.replaces(g, c.eps, c.s, c.o, found+1e-5, patient), "%s %+v", name, c)
			}
			near, _ := k.logReplace(c.eps, c.s, c.o, &g)
			require.InDelta(t, found, near, 1e-6, "%s %+v", name, c)
		}
	}
}

// bestE1 finds the best e₁ for one p, or says that it does not know.
func TestBestE1(t *testing.T) {
	known := 0
	for name := range shapes {
		for _, persons := range []int{0, 5} {
			for _, c := range []struct{ mu, s, eps, o float64 }{
				{1, 0.1, 1, 0}, {3, 0.13, 1, 0.02}, {9, 0.4, 2, 0}, {6, 0.02, 0.2, 0}, {4, 1.5, 0.5, 0.1},
			} {
				k := tiedOf(t, name, c.mu)
				if k.persons = persons; persons > 0 {
					k = newScalar(k.l, k.mu, k.beta, k.envelope, k.monotone, persons)
				}
				for _, g := range []leg{{false, c.eps / 2}, {true, c.eps / 3}} {
					for _, p := range []float64{0, 0.6, 1} {
						log := func(e1 float64) float64 {
							remove := func(eps float64) float64 { return k.at(eps, c.s, c.o, p, k.kappa(p, p)) }
							return leg{g.removeFirst, e1}.log(c.eps, remove, func(eps float64) float64 { return k.logAdd(eps, c.s, c.o) })
						}
						e1 := k.bestE1(g, c.eps, c.s, c.o, p)
						if math.IsNaN(e1) || e1 <= 0 || e1 >= c.eps {
							continue
						}
						_, least := num.Minimize(log, 0, c.eps, 200, 1e-9)
						if least > -0.1 { // no bound on adding is above 1
							continue
						}
						require.InDelta(t, least, log(e1), 1e-8, "%s, %d, %+v, %+v, p = %v", name, persons, c, g, p)
						known++
					}
				}
			}
		}
	}
	require.Greater(t, known, 60)
}

// For monotone losses the value is that of parallel gradients,
// sup_p δ_G(ε−κ(p), s(1+p)), where the worst p is unique.
func TestReplaceSaddle(t *testing.T) {
	for _, name := range []string{"logistic", "pshinge"} {
		for _, c := range []struct{ mu, s, eps float64 }{{1, 0.1, 1}, {0.5, 0.09, 1}, {0.7, 0.4, 2}} {
			k := tiedOf(t, name, c.mu)
			saddle := math.Inf(-1)
			for i := range 20001 {
				p := float64(i) / 20000
				saddle = max(saddle, dp.GaussianLogDelta(c.eps-k.kappa(p, p), c.s*(1+p)))
			}
			found, _ := k.logReplace(c.eps, c.s, 0, nil)
			require.InDelta(t, saddle, found, 1e-5, "%s %+v", name, c)
			require.GreaterOrEqual(t, found, saddle-1e-8)
		}
	}
	// Where curvature is free it is the Gaussian mechanism with 2L.
	b := at(t, problem("logistic", dp.Replace, dp.Budget{Epsilon: 1, Delta: 1e-5}), 2.1)
	plain, err := dp.GaussianSigma(dp.Budget{Epsilon: 1, Delta: 1e-5}, 2)
	require.NoError(t, err)
	require.InEpsilon(t, plain, b.Sigma, 1e-6)
	// At large δ, s² > ε, the search over e₁ ≥ 0 decides: it is not .1 for (.01, .1).
	k := tiedOf(t, "logistic", 1e9)
	s, err := dp.GaussianSigma(dp.Budget{Epsilon: 0.01, Delta: 0.1}, 2)
	require.NoError(t, err)
	found, g := k.logReplace(0.01, 1/s, 0, nil)
	require.InDelta(t, 0.10004, math.Exp(found), 2e-5)
	require.GreaterOrEqual(t, g.e1, 0.0)
}

// Pure rates: κ(p) + aLp ≤ ε at every p, tight at one, and free from Γ/ε on.
func TestRate(t *testing.T) {
	for name, h := range shapes {
		for _, mu := range []float64{0.7, 1.2, 5} {
			for _, replace := range []bool{false, true} {
				k := tiedOf(t, name, mu)
				base := 0.0
				if replace {
					base = 1
				}
				eps := 1 + k.c
				a := k.rate(eps, replace, true)
				tight := math.Inf(1)
				for i := range 20001 {
					p := float64(i) / 20000
					tight = min(tight, eps-math.Log1p(h(p)/mu)-a*(base+p))
				}
				require.GreaterOrEqual(t, tight, 0.0, "%s μ = %v", name, mu)
				require.LessOrEqual(t, tight, 2e-6*eps, "%s μ = %v", name, mu)
			}
		}
	}
	free := at(t, problem("logistic", dp.AddRemove, dp.Budget{Epsilon: 1}), 1.001)
	require.InEpsilon(t, 1, free.Rate, 1e-6)
	free = at(t, problem("logistic", dp.Replace, dp.Budget{Epsilon: 1}), 2.001)
	require.InEpsilon(t, 0.5, free.Rate, 1e-6)
}

// The Rényi bounds dominate those of every constant p, and of the Gaussian; Hölder's
// inequality between them costs nothing where curvature is free.
func TestTiedRDP(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 5))
	for name, h := range shapes {
		for range 30 {
			mu, s, alpha := math.Exp(4*rnd.Float64()-1), math.Exp(3*rnd.Float64()-3), 1+math.Exp(6*rnd.Float64()-3)
			k := tiedOf(t, name, mu)
			got, best := k.rdpRemoving(alpha, s), 0.0
			for i := range 2001 {
				p := float64(i) / 2000
				best = max(best, math.Log1p(h(p)/mu)+alpha*s*s*p*p/2)
			}
			require.GreaterOrEqual(t, got, best*(1-1e-12), "%s", name)
			require.LessOrEqual(t, got, best*(1+2e-6), "%s", name)
			// log E e^{(α−1) max(0, X)} by quadrature.
			if k.monotone {
				sum := 0.0
				const n, top = 40000, 30.0
				for i := range n {
					z := -top + 2*top*(float64(i)+0.5)/n + alpha*s
					sum += 2 * top / n * math.Exp((alpha-1)*max(0, s*z+s*s/2)-z*z/2-(alpha*alpha)*s*s/2) / math.Sqrt(2*math.Pi)
				}
				want := (math.Log(sum) + alpha*alpha*s*s/2) / (alpha - 1)
				require.InEpsilon(t, want, k.rdpAdding(alpha, s), 1e-5, "α = %v, s = %v", alpha, s)
			}
		}
	}
	// Near order 1 a bound of a larger order is taken: no digits are lost to the safe side.
	k := tiedOf(t, "logistic", 5)
	require.InEpsilon(t, k.rdpAdding(1.001, 0.1), k.rdpAdding(1+1e-12, 0.1), 1e-9)
	require.Less(t, k.rdpAdding(1.001, 0.1), k.rdpAdding(1.1, 0.1))
	free := at(t, problem("logistic", dp.Replace, dp.Budget{Epsilon: 1, Delta: 1e-5}), 1e7).Curve
	s := 2 * 1 / (free.sigma / free.alone().l)
	require.InEpsilon(t, 60*s*s/2, free.RDP(60, 0), 1e-2)
	require.GreaterOrEqual(t, free.RDP(60, 0), 60*s*s/2*(1-1e-9))
}

func BenchmarkCalibrate(b *testing.B) {
	for name := range shapes {
		for _, rel := range []dp.Relation{dp.AddRemove, dp.Replace} {
			k := calibrator(b, problem(name, rel, dp.Budget{Epsilon: 1, Delta: 1e-5}))
			b.Run(fmt.Sprintf("ridge=stated/loss=%s/%v", name, rel), func(b *testing.B) {
				for b.Loop() {
					_, err := k.At(2 * k.LeastRidge(1))
					require.NoError(b, err)
				}
			})
			b.Run(fmt.Sprintf("ridge=automatic/loss=%s/%v", name, rel), func(b *testing.B) {
				for b.Loop() {
					_, err := k.Best(Bound{Radius: 10})
					require.NoError(b, err)
				}
			})
		}
	}
}
