// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package linear

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/enclose"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/loss"
)

// ofPersons is problem for persons of many rows.
func ofPersons(name string, rel dp.Relation, b dp.Budget) Problem {
	p := problem(name, rel, b)
	p.Dim, p.Rows = 50, 1000
	return p
}

// byCurvature returns the Δ at which β/μ = x.
func byCurvature(p Problem, x float64) float64 { return p.Constants.Smoothness / x }

// Golden bounds and noise scales of persons: never below, 1e-6 above at most.
func TestPersonsGolden(t *testing.T) {
	var g struct {
		Sup []struct {
			Alpha, Lambda float64
			Peak, Sup     decimal
		} `json:"psi_sup"`
		Curve []struct {
			Eps, Delta, Lambda, Alpha, Sigma float64
			Relation                         string
			RDP                              decimal
			Least                            decimal `json:"sigma_over_L"`
		}
		Units []struct {
			Loss                      string
			Eps, Delta, Lambda, Sigma float64
			Remove, Add               decimal
			Least                     decimal `json:"sigma_over_L"`
		}
	}
	loadJSON(t, "renyi.json", &g)
	within := func(want, got float64, row any) {
		t.Helper()
		require.GreaterOrEqual(t, got, want, "%+v", row)
		require.LessOrEqual(t, got, want*(1+1e-6), "%+v", row)
	}
	many := func(x float64) *scalar { return newScalar(1, 1, x, nil, false, 50) }
	for _, v := range g.Sup {
		peak, _ := psiPeak(1e3, v.Alpha-1)
		relative(t, float64(v.Peak), peak, 1e-8, v)
		within(float64(v.Sup), many(v.Lambda).plus(v.Alpha-1), v)
		proves := func(sup float64) bool {
			return enclose.Proves(nil, func(c enclose.Arithmetic) (less, more enclose.Interval) {
				return many(v.Lambda).enclosedPlus(c, c.Of(v.Lambda), v.Alpha-1), c.Of(sup)
			})
		}
		require.True(t, proves(float64(v.Sup)*(1+1e-7)), "%+v", v)
		require.False(t, proves(float64(v.Sup)*(1-1e-12)), "%+v", v)
	}
	require.Len(t, g.Sup, 5)
	for _, v := range g.Curve {
		k := many(v.Lambda)
		remove, add, replace := k.rdpRenyi(v.Alpha, 1/v.Sigma)
		got := map[string]float64{"remove": remove, "addremove": max(remove, add), "replace": replace}[v.Relation]
		relative(t, float64(v.RDP), got, 1e-8, v)
		if v.Relation == "remove" {
			u := least(func(s float64) float64 { return k.renyi(v.Eps, s, 0) }, math.Log(v.Delta), 1, 1e-12) * SafeScale
			within(float64(v.Least), u, v)
		}
	}
	for _, v := range g.Units {
		name := map[string]string{"constant": "huber", "logistic": "logistic"}[v.Loss]
		p := ofPersons(name, dp.AddRemove, dp.Budget{Epsilon: v.Eps, Delta: v.Delta})
		k, ridge := calibrator(t, p), byCurvature(p, v.Lambda)
		remove, add := k.with(Noise{Sigma: v.Sigma}, ridge).Curve.Profile(0, 0)
		within(float64(v.Remove), remove(v.Eps), v)
		within(float64(v.Add), add(v.Eps), v)
		b := at(t, p, ridge)
		within(float64(v.Least), b.Sigma, v)
		require.Equal(t, TheoremPersons, b.Theorem)
		_, proved := k.Prove(b, p.Budget, 0)
		require.True(t, proved, "%+v", v)
	}
	require.Len(t, g.Units, 6)
}

// Persons with up to a thousand rows at (1, 1e-5) have nearly the noise of one row.
func TestPersonsPromises(t *testing.T) {
	for _, c := range []struct {
		loss  string
		rel   dp.Relation
		x     float64
		sigma float64
	}{
		{"logistic", dp.AddRemove, 0.01, 3.7327}, {"logistic", dp.AddRemove, 0.1, 3.7327},
		{"logistic", dp.AddRemove, 0.2, 3.7327}, {"logistic", dp.AddRemove, 0.3, 3.7476},
		{"huber", dp.AddRemove, 0.01, 3.8860}, {"huber", dp.AddRemove, 0.05, 3.9171}, {"huber", dp.AddRemove, 0.1, 4.1211},
		{"huber", dp.AddRemove, 0.2, 4.4828}, {"huber", dp.AddRemove, 0.3, 4.8266},
		{"huber", dp.AddRemove, 0.5, 5.6941}, {"huber", dp.Replace, 0.5, 11.7645}, // beyond x*
		{"logistic", dp.Replace, 0.01, 7.4624}, {"logistic", dp.Replace, 0.1, 7.4624}, {"logistic", dp.Replace, 0.2, 7.6271},
		{"logistic", dp.Replace, 0.3, 8.2931},
		{"huber", dp.Replace, 0.01, 7.6845}, {"huber", dp.Replace, 0.03, 7.8360}, {"huber", dp.Replace, 0.05, 7.9913},
		{"huber", dp.Replace, 0.1, 8.3457}, {"huber", dp.Replace, 0.2, 9.0012}, {"huber", dp.Replace, 0.3, 9.7758},
	} {
		p := ofPersons(c.loss, c.rel, dp.Budget{Epsilon: 1, Delta: 1e-5})
		for _, rows := range []int{2, 20, 1000} {
			p.Rows = rows
			ridge, name := byCurvature(p, c.x), fmt.Sprintf("%+v, %d rows", c, rows)
			b := at(t, p, ridge)
			require.LessOrEqual(t, b.Sigma, c.sigma, name)
			require.Greater(t, b.Sigma, c.sigma*(1-1e-4), name)
			proved, ok := calibrator(t, p).Prove(b, p.Budget, 0)
			require.True(t, ok, name)
			require.LessOrEqual(t, proved.Sigma, b.Sigma*(1+1e-6))
			less := b
			less.Sigma *= 1 - 1e-4
			_, ok = calibrator(t, p).Prove(less, p.Budget, 0)
			require.False(t, ok, name)
			q := p // one row
			q.Rows = 1
			one := at(t, q, ridge)
			q.Rows = 0
			require.Equal(t, at(t, q, ridge).Sigma, one.Sigma)
			if c.x <= 0.2 {
				require.Greater(t, b.Sigma, one.Sigma*(1+1e-6), name)
			}
			remove, add := b.Curve.Profile(0, 0)
			require.LessOrEqual(t, max(remove(1), add(1)), 1e-5*(1+1e-6), name)
		}
	}
}

// Curves of persons, with and without output noise and at ε < 0 too: removal is the
// supremum over p, certified, and adding the formula.
func TestPersonsProfile(t *testing.T) {
	for name, h := range shapes {
		for _, x := range []float64{0.05, 0.6} {
			p := ofPersons(name, dp.AddRemove, dp.Budget{Epsilon: 1, Delta: 1e-5})
			ridge := byCurvature(p, x)
			for _, s := range testkit.Every(2, []float64{0.1, 0.5, 1.5}) {
				k := calibrator(t, p).with(Noise{Sigma: 1 / s}, ridge).Curve
				for _, o := range []float64{0, 0.2} {
					remove, add := k.Profile(o, 0)
					for _, eps := range []float64{-0.4, 0.7, 2} {
						removed, added := 0.0, 0.0
						for i := range 41 {
							q := float64(i) / 40
							v := math.Exp(h(q)/ridge/2+s*s*q*q/8) * dp.GaussianDelta(eps-h(q)/ridge, math.Hypot(s*q, o))
							removed = max(removed, v)
						}
						if added = 2 * math.Exp(s*s/8) * dp.GaussianDelta(eps, math.Hypot(s, o)); p.Monotone {
							added = added/2 + dp.GaussianDelta(eps, o)/2
						}
						row := fmt.Sprintf("%s, Λ = %v, s = %v, o = %v, ε = %v", name, x, s, o, eps)
						if eps < 0 { // the other direction may be less
							require.LessOrEqual(t, remove(eps), min(1, removed*1.01+1e-7), row)
							require.InEpsilon(t, remove(eps), min(1, k.scalarRemoval(eps, o), 1-math.Exp(eps)*(1-add(-eps))), 1e-6, row)
							continue
						}
						require.InEpsilon(t, min(1, added), add(eps), 1e-8, row)
						if name == "huber" { // by Rényi divergence it may be less
							require.LessOrEqual(t, remove(eps), removed*(1+1e-8), row)
							continue
						}
						require.GreaterOrEqual(t, remove(eps), min(1, removed)*(1-1e-9), row)
						if removed > 1e-20 { // else 41 values of p are too few
							require.LessOrEqual(t, remove(eps), min(1, removed)*1.05, row)
						}
					}
				}
			}
		}
	}
}

// scalarRemoval is the bound on removal without that of the other direction.
func (k Curve) scalarRemoval(eps, o float64) float64 {
	m := k.alone()
	return math.Exp(m.boundRemove(eps, m.l/k.sigma, o))
}

// Rényi curves of persons are the least of the formulas of one row, with h/μ for its logarithm, and
// of theorem R for sums of eigenvalues.
func TestPersonsRenyi(t *testing.T) {
	for name, h := range shapes {
		for _, x := range []float64{0.01, 0.1, 0.5} {
			p := ofPersons(name, dp.AddRemove, dp.Budget{Epsilon: 1, Delta: 1e-5})
			ridge, s := byCurvature(p, x), 0.1
			for _, alpha := range []float64{1.5, 4, 16} {
				k := calibrator(t, p).with(Noise{Sigma: 1 / s}, ridge).Curve
				removing := func(alpha float64) float64 {
					v := 0.0
					for i := range 10001 {
						q := float64(i) / 10000
						v = max(v, h(q)/ridge+alpha*s*s*q*q/2)
					}
					return min(v, alpha*s*s/2+k.alone().plus(alpha-1)/(alpha-1))
				}
				row := fmt.Sprintf("%s, Λ = %v, α = %v", name, x, alpha)
				add := min((&scalar{monotone: p.Monotone}).rdpAdding(alpha, s), k.alone().secondOrder(alpha, s))
				require.InEpsilon(t, max(removing(alpha), add), k.RDP(alpha, 0), 1e-5, row)
				require.InEpsilon(t, k.RDP(alpha, 0)+alpha*0.02, k.RDP(alpha, 0.2), 1e-8, row)
				p.Relation = dp.Replace
				both := calibrator(t, p).with(Noise{Sigma: 1 / s}, ridge).Curve
				bothChi, _ := both.bounds[1].(apart).at(both.sigma)
				require.InEpsilon(t, 2*s, bothChi.S, 1e-9, row)
				require.Equal(t, Chi{C: both.alone().c, S: bothChi.S, Q: 1}, bothChi, row)
				require.GreaterOrEqual(t, both.RDP(alpha, 0), 2*alpha*s*s, row)
				require.LessOrEqual(t, both.RDP(alpha, 0), bothChi.RDP(alpha)*(1+1e-8), row)
				p.Relation = dp.AddRemove
			}
		}
	}
}

// secondOrder is the bound of theorem R on adding.
func (k *scalar) secondOrder(alpha, s float64) float64 {
	return alpha*s*s/2 + psiMinus(math.Log1p(k.c), alpha-1)/(alpha-1)
}

// Pure noise for persons is that of a record with h/μ for log1p(h/μ); noise for losses of other
// structures counts the trace of a row and the rank of all.
func TestPersonsPure(t *testing.T) {
	for _, rel := range []dp.Relation{dp.AddRemove, dp.Replace} {
		base := 0.0
		if rel == dp.Replace {
			base = 1
		}
		for name, h := range shapes {
			p := ofPersons(name, rel, dp.Budget{Epsilon: 1})
			ridge, want := byCurvature(p, 0.4), math.Inf(1)
			for i := range 10001 {
				q := float64(i) / 10000
				want = min(want, (1-h(q)/ridge)/(base+q))
			}
			b := at(t, p, ridge)
			require.Equal(t, TheoremPersonsPure, b.Theorem)
			require.LessOrEqual(t, b.Rate, want*(1+1e-6), name)
			require.InEpsilon(t, want, b.Rate, 2e-6, name)
			_, proved := calibrator(t, p).Prove(b, p.Budget, 0)
			require.True(t, proved)
			b.Rate *= 1 + 1e-4
			_, proved = calibrator(t, p).Prove(b, p.Budget, 0)
			require.False(t, proved)
		}
		p := ofPersons("huber", rel, dp.Budget{Epsilon: 1})
		p.Constants = loss.Constants{Lipschitz: 1, Smoothness: 0.5, Rank: 9, Structure: loss.FixedRange}
		for _, c := range []struct {
			rows, classes int
			cost          float64 // c at μ = 10
		}{
			{2, 0, 18 * math.Log1p(0.45/18)}, {3, 0, 27 * math.Log1p(0.45/27)}, {1000, 0, 50 * math.Log1p(0.45/50)},
			{1000, 10, 50 * math.Log1p(0.9*0.1/50)},
		} {
			p.Rows, p.Classes = c.rows, c.classes
			b := at(t, p, 10)
			require.InEpsilon(t, c.cost, b.C, 1e-12)
			require.InEpsilon(t, (1-c.cost)/(1+base), b.Rate, 1e-8)
			require.InEpsilon(t, 10, calibrator(t, p).LeastRidge(c.cost), 1e-12)
			gaussian := p
			gaussian.Budget.Delta = 1e-5
			k := calibrator(t, gaussian)
			dims := min(9*c.rows, 50)
			if rel == dp.Replace {
				dims = min(2*dims, 50)
			}
			require.Equal(t, dims, k.chi.Q)
			require.Equal(t, TheoremPersons, at(t, gaussian, 10).Theorem)
		}
	}
}

// Persons of rows with gradients in subspaces: against the closed form for q = 2 at every ε above
// the cost of curvature, against Gaussians of one and of many dimensions, and better than χ_q of
// all dimensions.
func TestSpanOfPersons(t *testing.T) {
	m := &span{q: 2}
	for _, s := range []float64{0.05, 0.3, 2} {
		for _, c := range []float64{0, 0.2} {
			for _, eps := range []float64{0.2, 1, 4} {
				x0 := (eps - c) / s
				want := s * math.Sqrt(math.Pi/2) * math.Exp(c/2+s*s/8) *
					(math.Exp(num.LogPhi(s/2-x0)) + math.Exp(eps-c+num.LogPhi(-s/2-x0)))
				if want < 1e-250 {
					require.Less(t, m.log(eps, s, c), -570.)
					continue
				}
				require.InEpsilon(t, num.Log(want), m.log(eps, s, c), 1e-9, "s = %v, c = %v, ε = %v", s, c, eps)
			}
			require.InDelta(t, num.Log(-math.Expm1(-5)), min(0, m.log(-5, s, c)), 0.5*(s+c+s*s))
		}
	}
	for _, rel := range []dp.Relation{dp.AddRemove, dp.Replace} {
		p := ofPersons("huber", rel, dp.Budget{Epsilon: 1, Delta: 1e-5})
		p.Constants = loss.Constants{Lipschitz: 1, Smoothness: 0.5, Rank: 3, Structure: loss.FixedRange}
		p.Rows, p.Dim = 20, 100
		mu := 4.0 // Theorem R is refused
		k := calibrator(t, p)
		b := at(t, p, mu)
		require.Less(t, b.Sigma, 0.75*k.g*k.chi.LeastNoise(1-b.C, 1e-5), rel)
		remove, add := b.Curve.Profile(0, 0)
		require.InEpsilon(t, 1e-5, max(remove(1), add(1)), 1e-4)
		for _, out := range []float64{0.01, 0.3} { // with output noise both bounds hold in two steps
			r, a := b.Curve.Profile(1e-3, out)
			require.LessOrEqual(t, max(r(1+out), a(1+out)), 1.001e-5)
		}
		if p.Rows = 0; rel == dp.AddRemove {
			require.Greater(t, b.Sigma, at(t, p, mu).Sigma)
		}
	}
}

// The formulas of a sequence in 60 digits for two minimizers and a Gaussian release.
func TestSequenceOfPersons(t *testing.T) {
	c, s, tt := []float64{0.1, 0.05}, []float64{0.5, 0.4}, 0.3
	root := func(of ...float64) float64 {
		sum := 0.0
		for _, v := range of {
			sum += v * v
		}
		return math.Sqrt(sum)
	}
	mu, all := root(0.5, 0.4, tt), 0.25+0.16
	for _, eps := range []float64{0.1, 1, 1.6} {
		remove := func(eps, h float64) float64 {
			return math.Exp(0.075+h*h*all/8) * bigDelta(eps-0.15, h*mu)
		}
		add := func(eps, h float64) float64 { return 4 * math.Exp(h*h*all/8) * bigDelta(eps, h*mu) }
		subsets := func(eps, h float64) float64 {
			return math.Exp(h*h*all/8)*bigDelta(eps, h*mu) + math.Exp(h*h*0.25/8)/2*bigDelta(eps, h*root(0.5, tt)) +
				math.Exp(h*h*0.16/8)/2*bigDelta(eps, h*root(0.4, tt)) + bigDelta(eps, h*tt)/4
		}
		for _, monotone := range []bool{false, true} {
			if monotone {
				add = subsets
			}
			q := Sequence{Relation: dp.AddRemove, C: c, S: s, T: tt, Monotone: monotone, Persons: true}
			r, a := q.Profile()
			require.InEpsilon(t, min(1, remove(eps, 1)), r(eps), 1e-8)
			require.InEpsilon(t, min(1, add(eps, 1)), a(eps), 1e-8)
			require.InEpsilon(t, min(1, remove(-eps, 1), 1-math.Exp(-eps)*(1-min(1, add(eps, 1)))), r(-eps), 1e-8)
			q.Relation = dp.Replace
			both, _ := q.Profile()
			least := min(1, 2.25*remove(eps, 1))
			steps := testkit.Of(100, 400)
			for i := range steps + 1 {
				e1 := eps * float64(i) / float64(steps)
				least = min(least, add(e1, 0.5)+math.Exp(e1)*remove(eps-e1, 0.5), remove(e1, 0.5)+math.Exp(e1)*add(eps-e1, 0.5))
			}
			require.LessOrEqual(t, both(eps), least*(1+1e-7))
			require.GreaterOrEqual(t, both(eps), least*(1-2e-3))
			if delta := both(eps); delta < 1 {
				require.True(t, q.Proves(dp.Budget{Epsilon: eps, Delta: delta * (1 + 1e-6)}))
				require.False(t, q.Proves(dp.Budget{Epsilon: eps, Delta: delta * (1 - 1e-6)}))
			}
			q.Relation = dp.AddRemove
			if delta := max(r(eps), a(eps)); delta < 1 {
				require.True(t, q.Proves(dp.Budget{Epsilon: eps, Delta: delta * (1 + 1e-6)}))
				require.False(t, q.Proves(dp.Budget{Epsilon: eps, Delta: delta * (1 - 1e-6)}))
			}
		}
	}
	q := Sequence{Persons: true}
	ridge := q.LeastRidge(0.25, 0.1, 0.02)
	require.LessOrEqual(t, 0.25/(ridge+0.1), 0.02)
	require.InEpsilon(t, 12.4, ridge, 1e-10)
	require.Zero(t, q.LeastRidge(0.25, 100, 0.02))
}
