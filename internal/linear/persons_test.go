// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package linear

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
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
	many := func(x float64) *scalar { return newPersons(1, 1, x, nil, false, 50) }
	for _, v := range g.Sup {
		peak, _ := psiPeak(1e3, v.Alpha-1)
		relative(t, float64(v.Peak), peak, 1e-8, v)
		within(float64(v.Sup), many(v.Lambda).plus(v.Alpha-1), v)
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
		{"logistic", dp.AddRemove, 0.01, 3.7327}, {"logistic", dp.AddRemove, 0.1, 3.7327}, {"logistic", dp.AddRemove, 0.2, 3.7327},
		{"logistic", dp.AddRemove, 0.3, 3.7476},
		{"huber", dp.AddRemove, 0.01, 3.8860}, {"huber", dp.AddRemove, 0.05, 3.9171}, {"huber", dp.AddRemove, 0.1, 4.1211},
		{"huber", dp.AddRemove, 0.2, 4.4828}, {"huber", dp.AddRemove, 0.3, 4.8266},
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
			for i := range 401 {
				e1 := eps * float64(i) / 400
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
