// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package qop

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/loss"
)

// TestParallelExact: E₀ against 40 digits, to 1e-9 from both sides; where the two branches meet,
// where they do not, and for k = 2.
func TestParallelExact(t *testing.T) {
	for _, c := range exact(t).Parallel {
		got := math.Exp(parallel{float64(c.Eps), float64(c.K)}.logDelta(float64(c.T)))
		require.InEpsilon(t, float64(c.Delta), got, 1e-9, "%+v", c)
	}
}

// TestAngleGolden: the bounds of E_φ are not below reference quadratures (of 1e-5 at φ = π/2, 2e-3
// elsewhere), nor far above, and tighten with the tolerance.
func TestAngleGolden(t *testing.T) {
	for _, c := range testkit.Every(2, jointCases(t)) {
		require.InEpsilon(t, c.Parallel, math.Exp(parallel{c.Eps, c.K}.logDelta(c.T)), 1e-8)
		if c.D == 1 {
			continue
		}
		j := newAngles(c.Eps, c.K, math.Log(c.Delta))
		j.boxes = mostBoxes
		j.at(c.T)
		coarse, fine := j.angle(0, 0.05), j.angle(0, 0.01)
		require.GreaterOrEqual(t, fine.upper, c.Orthogonal*(1-1e-5), "%+v", c)
		require.LessOrEqual(t, fine.upper, c.Orthogonal+0.012*c.Delta, "%+v", c)
		require.LessOrEqual(t, fine.upper, coarse.upper*(1+1e-3))
		for _, a := range c.Angles {
			got := j.angle(square(math.Cos(a.Phi)), 0.01)
			require.GreaterOrEqual(t, got.upper, a.E*(1-2e-3), "%+v φ=%v", c, a.Phi)
			require.LessOrEqual(t, got.upper, a.E*(1+2e-3)+0.012*c.Delta, "%+v φ=%v", c, a.Phi)
		}
		// Angles next to 0: above E₀ and converging to it.
		require.GreaterOrEqual(t, j.parallelBound(1e-6), c.Parallel)
		require.InEpsilon(t, c.Parallel, j.parallelBound(1e-6), 0.01)
		require.Greater(t, j.parallelBound(0.01), j.parallelBound(0.001))
		require.GreaterOrEqual(t, j.parallelBound(0.01), j.angle(1-1e-4, 0.01).upper-0.01*c.Delta)
	}
}

// TestAngleSimulation: bounds of E_φ against an average over 4e5 draws of α, b and z: not below by
// more than 5 standard errors (probability below 1e-6).
func TestAngleSimulation(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	for _, c := range []struct{ k, eps, t, phi float64 }{{3, 0.5, 0.3, 1.1}, {7, 0.7, 0.8, 0.5}, {30, 0.2, 1.5, 1.57},
		{30, 0.05, 3, 0.9}} {
		const draws = 400_000
		sum, squares := 0.0, 0.0
		chi2 := func(k int) float64 {
			v := 0.0
			if k%2 == 1 {
				v = square(rnd.NormFloat64())
			}
			for range k / 2 {
				v += 2 * rnd.ExpFloat64()
			}
			return v
		}
		sin, cos := math.Sincos(c.phi)
		for range draws {
			alpha, b, z := chi2(int(c.k)), chi2(int(c.k)+1), rnd.NormFloat64()
			e := cos - z*sin/math.Sqrt(b)
			p, q := 1/alpha, e*e/alpha+sin*sin/b
			d := 1 + c.t*p - c.t*q - square(c.t*sin)/(alpha*b)
			l := math.Max(math.Log1p(c.t*p), c.t/2-(c.k/2-1)*math.Log1p(c.t*p))
			if q*c.t >= 1 || d <= 0 {
				l = math.Inf(1)
			} else {
				l = math.Max(l, math.Max(math.Log1p(c.t*p)-c.k/2*math.Log1p(-c.t*q)-c.t/2, math.Log1p(c.t*p)-c.k/2*math.Log(d)))
			}
			v := math.Max(0, -math.Expm1(c.eps-l))
			sum, squares = sum+v, squares+v*v
		}
		mean := sum / draws
		se := math.Sqrt((squares/draws - mean*mean) / draws)
		j := newAngles(c.eps, c.k, math.Log(mean))
		j.boxes = mostBoxes
		j.at(c.t)
		got := j.angle(cos*cos, 0.01)
		require.GreaterOrEqual(t, got.upper, mean-5*se, "%+v", c)
		require.LessOrEqual(t, got.upper, 1.015*mean+5*se, "%+v", c)
	}
}

// TestInterval: the bound between angles holds for the mixtures that E is, (1−ζ)^κ Σ_i c_i ζ^i
// binom(−κ, i)(−1)^i with c_i in [0, 1], and is tight for neighbors.
func TestInterval(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9, 10))
	for range 300 {
		kappa := 1.5 + 40*rnd.Float64()
		c := make([]float64, 40)
		for i := range c {
			c[i] = square(square(rnd.Float64()))
			if rnd.IntN(2) == 0 {
				c[i] = 0
			}
		}
		e := func(zeta float64) float64 {
			term, sum := 1.0, 0.0
			for i, v := range c {
				sum += v * term
				term *= zeta * (kappa + float64(i)) / float64(i+1)
			}
			return math.Max(sum, 1e-12) * math.Pow(1-zeta, kappa)
		}
		lo, hi := 0.6*rnd.Float64(), 0.0
		if rnd.IntN(4) == 0 {
			lo = 0
		}
		hi = lo + (0.9-lo)*rnd.Float64()
		bound := interval(kappa, lo, hi, e(lo), e(hi))
		for i := range 21 {
			zeta := lo + (hi-lo)*float64(i)/20
			require.LessOrEqual(t, e(zeta), bound*(1+1e-9), "κ=%v [%v, %v]", kappa, lo, hi)
		}
		near := interval(kappa, hi, hi*(1+1e-6), e(hi), e(hi*(1+1e-6)))
		require.InEpsilon(t, e(hi), near, 1e-3)
	}
}

// TestCertify: what is certified is the supremum over all angles and not the larger of the two
// ends; a target between E_π/2 and E₀, of whichever order, or below both, is refused.
func TestCertify(t *testing.T) {
	for _, c := range jointCases(t) {
		if c.D != 30 && c.D != 2 || c.Eps == 4 || c.K == 3 || c.D == 30 && !testkit.Long() {
			continue
		}
		worst := math.Max(c.Parallel, c.Orthogonal)
		for _, f := range []float64{1.03, 0.98} {
			j := newAngles(c.Eps, c.K, math.Log(worst*f))
			j.boxes = mostBoxes
			require.Equal(t, f > 1, j.certify(c.T), "%+v %v", c, f)
		}
	}
	// Without boxes nothing is proved.
	j := newAngles(1, 20, math.Log(0.01))
	require.False(t, j.certify(0.5))
}

// TestJointTable: σ²m/L of replaced generalized linear losses with the whole budget, on proved
// bounds of every angle.
func TestJointTable(t *testing.T) {
	at := func(d int, eps, delta, m float64) proved {
		c := &calibrator{s: setting{dim: d, rank: 1, structure: loss.GLM, relation: dp.Replace}}
		return c.largest(dp.Budget{Epsilon: eps, Delta: delta}, m)
	}
	got := at(100, 0.5, 0.01, 250)
	require.Equal(t, theoremJoint, got.theorem)
	require.LessOrEqual(t, 250/got.t, 72.)
	require.GreaterOrEqual(t, 250/got.t, 70.)
	require.Equal(t, theoremJoint, at(1, 1, 0.01, 5).theorem)
	require.InEpsilon(t, 0.231146, at(1, 1, 0.01, 5).t, 2e-3) // 1e-3 below the root
	require.Equal(t, theoremGLM, at(3, 1, 0.01, 4).theorem)   // k = 2: 1/α has no mean
	// A candidate that is not certified is not used: these boxes are enough to find one.
	s := setting{dim: 10, rank: 1, eps: 0.5, relation: dp.Replace}
	require.Positive(t, s.joint(16, math.Log(0.01), 0.6, mostBoxes))
	require.Zero(t, s.joint(16, math.Log(0.01), 0.6, 100))
	if !testkit.Deep() {
		return
	}
	for _, c := range jointCases(t) {
		m := c.K + float64(c.D) - 1
		got := at(c.D, c.Eps, c.Delta, m)
		require.Equal(t, theoremJoint, got.theorem)
		require.InEpsilon(t, c.T, got.t, 0.025, "%+v", c)
		// The claim at a grid of angles, by finer boxes than it was certified with.
		for i := 0; c.D > 1 && i <= 12; i++ {
			j := newAngles(c.Eps, c.K, math.Log(c.Delta))
			j.boxes = mostBoxes
			j.at(got.t)
			require.LessOrEqual(t, j.angle(square(math.Cos(math.Pi/2*float64(i)/12.5)), 0.004).upper, c.Delta*1.004)
		}
	}
}

// TestAxis: masses and means of the cells add up to those of the laws.
func TestAxis(t *testing.T) {
	j := newAngles(1, 9, math.Log(1e-4))
	require.InDelta(t, 1, j.x.p[1]+num.Chi2CDF(1/j.x.edge[0], 9), 1e-12)
	require.InDelta(t, 1./7, j.x.mean[1], 1e-6) // E 1/χ²_9, but for a tail
	require.InDelta(t, math.Exp(num.LogGamma(4.5)-num.LogGamma(5))/math.Sqrt2, j.w.mean[1], 1e-6)
	require.InDelta(t, 0, j.z.mean[1], 1e-12)
	require.Less(t, j.outside, 1.1e-8)
	for _, a := range []axis{j.x, j.w, j.z} {
		for i := 1; i < cells; i++ {
			require.InDelta(t, a.p[i], a.p[2*i]+a.p[2*i+1], 1e-15)
		}
		for i := range cells {
			lo, hi := a.edge[i], a.edge[i+1]
			require.LessOrEqual(t, math.Min(lo, hi), a.mean[cells+i])
			require.LessOrEqual(t, a.mean[cells+i], math.Max(lo, hi))
		}
	}
}

// TestTangent: the bound of a box is no less than the sum over its cells, each with its mass at its
// means: a law on fewer points with the same means, for which the bound holds as well. A tangent
// that does not lie above log(1+tx), such as one of slope 0, fails on some boxes.
func TestTangent(t *testing.T) {
	rnd := rand.New(rand.NewPCG(21, 22))
	finite := 0
	for _, c := range []struct{ eps, k, target, t float64 }{{0.1, 18, 0.02, 0.386}, {1, 10, 1e-3, 0.368}, {0.5, 101, 0.01,
		2.83}} {
		j := newAngles(c.eps, c.k, math.Log(c.target))
		j.at(c.t)
		axes := [3]*axis{&j.x, &j.w, &j.z}
		for range 3000 {
			zeta := square(rnd.Float64())
			v := view{angles: j, cos: math.Sqrt(zeta), sin: math.Sqrt(1 - zeta)}
			var at [3]span
			for i, size := range [3]int{16 << rnd.IntN(5), 1 << rnd.IntN(2), 1 << rnd.IntN(2)} {
				lo := rnd.IntN(cells/size) * size
				at[i] = span{lo, lo + size}
			}
			var r [8]float64
			for i := range r {
				end := func(axis int) float64 {
					if i>>axis&1 == 1 {
						return axes[axis].edge[at[axis].hi]
					}
					return axes[axis].edge[at[axis].lo]
				}
				r[i] = v.bendAt(&[3]float64{end(0), end(1), end(2)})
			}
			j.boxes = 0 // the box is not halved
			bound := v.box(at, &r)
			sum := 0.0
			for x := at[0].lo; x < at[0].hi; x++ {
				for w := at[1].lo; w < at[1].hi; w++ {
					for z := at[2].lo; z < at[2].hi; z++ {
						node := [3]int{cells + x, cells + w, cells + z}
						q, p := [3]float64{}, 1.0
						for i, a := range axes {
							q[i] = a.mean[node[i]]
							p *= a.p[node[i]]
						}
						l1 := math.Log1p(c.t * q[0])
						l := math.Max(0, math.Max(c.t/2-(c.k/2-1)*l1, l1+v.bendAt(&q))-c.eps)
						sum += p * -math.Expm1(-l)
					}
				}
			}
			if sum > 0 && !math.IsInf(r[0]+r[1]+r[2]+r[3]+r[4]+r[5]+r[6]+r[7], 1) {
				finite++
			}
			require.GreaterOrEqual(t, bound, sum*(1-1e-5), "%+v ζ=%v box %v", c, zeta,
				at) // means are rounded in cells of tiny mass
		}
	}
	require.Greater(t, finite, 1000) // boxes with a bound below their mass
}
