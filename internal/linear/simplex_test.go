// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package linear

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/loss"
)

// c(q) is the log determinant at the symmetric π, and no other π with the same q has
// a larger one.
func TestSimplexCurvature(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 3))
	logDet := func(pi []float64, d float64) float64 {
		n := len(pi)
		m := mat.NewDense(n, n, nil)
		for i := range n {
			for j := range n {
				v := -pi[i] * pi[j] / d
				if i == j {
					v += pi[i]/d + 1
				}
				m.Set(i, j, v)
			}
		}
		l, _ := mat.LogDet(m)
		return l
	}
	for _, k := range []int{2, 3, 10} {
		for _, d := range []float64{0.3, 1, 7} {
			m := newSimplex(k, d).tabulated()
			for range 40 {
				q := rnd.Float64()
				pi, sum := make([]float64, k), 0.0
				for i := 1; i < k; i++ {
					pi[i] = rnd.ExpFloat64()
					sum += pi[i]
				}
				pi[0] = 1 - q
				for i := 1; i < k; i++ {
					pi[i] *= q / sum
				}
				require.LessOrEqual(t, logDet(pi, d), m.curvature(q)*(1+1e-12)+1e-13)
				for i := 1; i < k; i++ {
					pi[i] = q / float64(k-1)
				}
				require.InDelta(t, logDet(pi, d), m.curvature(q), 1e-12)
				require.LessOrEqual(t, m.curvature(q), m.hull.c)
			}
		}
	}
}

// Where curvature costs nothing the two directions are alike, and chords are exact: removing is the
// closed form of adding, up to quadrature, for any number of classes.
func TestSimplexWithoutCurvature(t *testing.T) {
	for _, k := range []int{2, 3, 100, 10_000, 1_000_000} {
		m := newSimplex(k, math.Inf(1)).tabulated()
		for _, s := range []float64{0.02, 0.1, 0.3, 1} {
			for _, eps := range []float64{0.3, 1, 4} {
				if add := m.logAdd(eps, s); add > -60 {
					require.InDelta(t, add, m.logRemove(eps, s, false), 2e-10, "K = %d, s = %v, ε = %v", k, s, eps)
				}
			}
		}
	}
}

// The certified bound on removing is above log (K−1) E(1 − e^{ε−loss})₊ of mpmath 1.3, 60 digits
// (the loss by golden sections, the mean by tanh-sinh quadrature), by less than 1 %.
func TestSimplexInSixtyDigits(t *testing.T) {
	for _, c := range []struct {
		classes    int
		d, s, eps  float64
		logRemoval float64
	}{
		{3, 2, 0.125, 1, -14.32451017042958},
		{3, 1, 0.09375, 1, -13.88343320071344},
		{10, 4, 0.125, 1, -12.92591191469024},
		{10_000, 4, 0.125, 1, -5.103560695753233},
		{3, 2, 0.5, 4, -16.45297231033632},
	} {
		v := newSimplex(c.classes, c.d).tabulated().logRemove(c.eps, c.s, true)
		require.GreaterOrEqual(t, v, c.logRemoval-1e-10, "%+v", c)
		require.Less(t, v, c.logRemoval+0.01, "%+v", c)
	}
}

// The certificate is above the search, and a thousandth less noise is not enough.
func TestSimplexNoise(t *testing.T) {
	target := math.Log(1e-5)
	for _, k := range []int{3, 10} {
		for _, d := range []float64{2, 4, 10, 1e9} {
			m := newSimplex(k, d).tabulated()
			u := m.leastNoise(1, target, 100, false)
			require.LessOrEqual(t, m.logDelta(1, 1/u, false, true, leg{}), target)
			require.Greater(t, m.logDelta(1, 1.001/u, false, false, leg{}), target)
		}
	}
	m := newSimplex(3, 4).tabulated()
	u := m.leastNoise(1, target, 14, true)
	require.Greater(t, u, 2*5.49)
	require.Less(t, u, 2*7.5)
}

// The bound on removing dominates the loss at random points of the simplex: the loss
// as a function of M is reached only from reach on.
func TestSimplexReach(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, 3))
	for range 200 {
		m := newSimplex(2+rnd.IntN(9), math.Exp(3*rnd.Float64())).tabulated()
		s, l := math.Exp(2*rnd.Float64()-3), 0.3+rnd.Float64()
		x := m.reach(l, s, true)
		require.LessOrEqual(t, x, m.reach(l, s, false))
		for range 200 {
			q := rnd.Float64()
			require.LessOrEqual(t, m.curvature(q)+s*q*max(x, -1e9)+s*s*q*q, l+1e-9)
		}
	}
}

// The calibration takes the smaller noise, counts Δ and μ_r once, scales with the
// features, and its profile meets the budget.
func TestMultinomialCalibration(t *testing.T) {
	for _, rel := range []dp.Relation{dp.AddRemove, dp.Replace} {
		p := Problem{Dim: 12, Constants: loss.Multinomial{Classes: 3}.Constants(loss.Bounds{Row: 2, Label: 2}, 1),
			Modulus: 0.5, Relation: rel,
			Budget: dp.Budget{Epsilon: 1, Delta: 1e-5}}
		old := at(t, p, 15.5)
		p.Classes = 3
		b := at(t, p, 15.5)
		require.Equal(t, TheoremSimplex, b.Theorem)
		require.Less(t, b.Sigma, 0.95*old.Sigma)
		if rel == dp.AddRemove {
			require.InEpsilon(t, 2*6.159, b.Sigma, 1e-3)
		}
		remove, add := b.Curve.Profile(0, 0)
		require.LessOrEqual(t, max(remove(1), add(1)), 1e-5*(1+1e-6))
		joint, _ := b.Curve.Profile(1e-3, 0)
		require.Greater(t, joint(1), remove(1))
		require.Less(t, joint(1), 1.5*remove(1))
		remove, add = b.Curve.Profile(1e-3, 0.01)
		require.LessOrEqual(t, max(remove(1.01), add(1.01)), 1e-5*(1+1e-6))
		// Less curvature is admitted than by ranks: c is that of the simplex.
		require.Less(t, b.C, old.C)
		k := calibrator(t, p)
		require.Less(t, k.LeastRidge(0.5), calibratorOf(t, p, 0).LeastRidge(0.5))
		require.InEpsilon(t, 0.5, k.curvature(k.LeastRidge(0.5)+p.Modulus), 0.2)
	}
	_, err := New(Problem{Dim: 12, Constants: glm(1, 1), Classes: 3, Relation: dp.Replace, Budget: dp.Budget{Epsilon: 1}})
	require.ErrorIs(t, err, dp.ErrCondition)
	require.ErrorContains(t, err, "Classes = 3")
}

func calibratorOf(t testing.TB, p Problem, classes int) *Calibrator {
	p.Classes = classes
	return calibrator(t, p)
}

// A plan is for concurrent use: to ask the curve of its noise changes no bound.
func TestCurveIsReadOnly(t *testing.T) {
	p := Problem{Dim: 12, Constants: loss.Multinomial{Classes: 3}.Constants(loss.Bounds{Row: 2, Label: 2}, 1), Classes: 3,
		Relation: dp.AddRemove, Budget: dp.Budget{Epsilon: 1, Delta: 1e-5}}
	b := at(t, p, 15.5)
	var all []simplex
	for _, m := range b.Curve.bounds {
		if m, ok := m.(*simplex); ok {
			all = append(all, *m)
		}
	}
	require.Len(t, all, 1)
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			remove, _ := b.Curve.Profile(0, 0)
			remove(1)
		})
	}
	group.Wait()
	for _, m := range b.Curve.bounds {
		if m, ok := m.(*simplex); ok {
			require.Same(t, all[0].hull, m.hull)
			require.Equal(t, all[0].costs, m.costs)
		}
	}
}

// Near ε = 0 the loss may be above ε at every M, where reach certifies nothing.
func TestSimplexNearZero(t *testing.T) {
	m := newSimplex(3, 5).tabulated()
	for _, o := range []float64{0, 0.01} {
		remove, add := m.logCurves(0.2, o, false)
		last := 0.0
		for _, eps := range []float64{-1, -0.1, 0, 1e-3, 0.05, 0.2, 1} {
			r, a := remove(eps), add(eps)
			if !(r <= last && r >= a) { // also NaN
				t.Errorf("o = %v, ε = %v: log δ of removing is %v, want at most %v and at least %v of adding", o, eps, r, last, a)
			}
			last = r
		}
	}
}
