// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package linear

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/loss"
)

// flat is the curve of a loss without an envelope at β/μ = x, L = 1.
func flat(x float64) *scalar { return newScalar(1, 1, x, nil, false, 0) }

// Golden ψ₊ and ψ₋ to the last digits, divergences and noise scales on the safe side.
func TestRenyiGolden(t *testing.T) {
	var g struct {
		Psi []struct {
			Alpha, X    float64
			Plus, Minus decimal
		}
		Curve []struct {
			Eps, Delta, Lambda, Alpha, Sigma float64
			Relation                         string
			RDP                              decimal
			Least                            decimal `json:"sigma_over_L"`
		}
	}
	loadJSON(t, "renyi.json", &g)
	require.Len(t, g.Psi, 13)
	for _, v := range g.Psi {
		c := math.Log1p(v.X)
		relative(t, float64(v.Plus), psiPlus(c, v.Alpha-1), 1e-14, v)
		switch minus := float64(v.Minus); {
		case (v.Alpha-1)*v.X > 1-0x1p-20:
			require.Equal(t, math.Inf(1), psiMinus(c, v.Alpha-1))
		default:
			relative(t, minus, psiMinus(c, v.Alpha-1), 1e-12/(1-(v.Alpha-1)*v.X), v)
		}
	}
	kinds := map[string]int{}
	for _, v := range g.Curve {
		kinds[v.Relation]++
		k := flat(v.Lambda)
		remove, add, replace := k.rdpRenyi(v.Alpha, 1/v.Sigma)
		got := map[string]float64{"remove": remove, "addremove": add, "replace": replace}[v.Relation]
		if v.Relation == "remove" && v.Alpha*v.Lambda*v.Lambda > 1 { // one eigenvalue is less than many
			require.Less(t, got, float64(v.RDP))
		} else {
			relative(t, float64(v.RDP), got, 1e-12, v)
		}
		if v.Relation == "remove" {
			u := least(func(s float64) float64 { return k.renyi(v.Eps, s, 0) }, math.Log(v.Delta), 1, 1e-12)
			require.LessOrEqual(t, u, float64(v.Least)*(1+1e-9))
			require.Greater(t, u, float64(v.Least)*(1-1e-4))
			if v.Alpha*v.Lambda*v.Lambda <= 1 {
				relative(t, float64(v.Least), u, 1e-9, v)
			}
		}
	}
	require.Equal(t, map[string]int{"addremove": 4, "replace": 9, "remove": 2}, kinds)
}

// The noise of losses without an envelope where curvature is large, and unchanged where
// it is not.
func TestRenyiSavesNoise(t *testing.T) {
	for _, c := range []struct{ eps, delta, x, sigma float64 }{
		{1, 1e-5, 0.3, 4.8265}, {1, 1e-5, 0.5, 5.6939}, {1, 1e-5, 1, 9.6782},
		{0.3, 1e-6, 0.2, 27.9616}, {0.3, 1e-6, 0.3, 70.9859}, {2, 1e-6, 1, 3.2027}, {2, 1e-6, 5, 15.3807}, {4, 1e-5, 2, 1.42263}, {4, 1e-5, 5, 1.77468},
	} {
		p := problem("huber", dp.AddRemove, dp.Budget{Epsilon: c.eps, Delta: c.delta})
		b := at(t, p, 1/c.x)
		require.Equal(t, TheoremRenyi, b.Theorem)
		require.LessOrEqual(t, b.Sigma, c.sigma)
		require.Greater(t, b.Sigma, c.sigma*0.9999)
		remove, add := b.Curve.Profile(0, 0)
		require.LessOrEqual(t, max(remove(c.eps), add(c.eps)), c.delta)
		p.Relation = dp.Replace
		twice := at(t, p, 1/c.x)
		require.Equal(t, TheoremRenyi, twice.Theorem)
		k := calibrator(t, p).scalar(1 / c.x)
		most := k.searchNoise(c.eps, 0, math.Log(c.delta), 1e3, &guess{u: 1e3}, true, 1e-11)
		require.Less(t, twice.Sigma, 0.99*most)
		both, _ := twice.Curve.Profile(0, 0)
		require.LessOrEqual(t, both(c.eps), c.delta)
	}
	for _, c := range []struct{ x, sigma float64 }{
		{0.02, 3.8841408123727}, {0.05, 3.9045641592767}, {0.1, 4.0872035120711}, {0.2, 4.4823738478481},
	} {
		b := at(t, problem("huber", dp.AddRemove, dp.Budget{Epsilon: 1, Delta: 1e-5}), 1/c.x)
		require.Equal(t, TheoremEnvelope, b.Theorem)
		relative(t, c.sigma, b.Sigma, 1e-12)
	}
}

// The bound in 60 digits at the κ that the search takes: never below, and no other κ is
// better.
func TestRenyiInSixtyDigits(t *testing.T) {
	n := testkit.New
	sum := func(terms ...*big.Float) *big.Float {
		s := n(0)
		for _, x := range terms {
			s = testkit.Add(s, x)
		}
		return s
	}
	exact := func(eps, square, x, kappa float64) float64 {
		k, a, one := n(kappa), testkit.Add(n(kappa), n(1)), n(1)
		moment := testkit.Mul(k, testkit.Sub(testkit.Quo(testkit.Mul(a, n(square)), n(2)), n(eps)))
		plus := testkit.Sub(testkit.Mul(a, testkit.Log(testkit.Add(one, n(x)))),
			testkit.Log(testkit.Add(one, testkit.Mul(a, n(x)))))
		odds := testkit.Mul(k, testkit.Log(testkit.Quo(k, a)))
		v, _ := testkit.Sub(sum(moment, plus, odds), testkit.Log(a)).Float64()
		return v
	}
	for _, x := range []float64{1e-6, 0.02, 0.3, 1, 20} {
		k := flat(x)
		for _, s := range []float64{1e-4, 0.03, 0.2, 1.5} {
			for _, o := range []float64{0, 0.1} {
				for _, eps := range []float64{-0.5, 0.01, 1, 5} {
					got, square := k.renyi(eps, s, o), s*s+o*o
					kappa := order(eps, square, k.c)
					want := exact(eps, square, x, kappa)
					if want < 0 {
						require.GreaterOrEqual(t, got, want, "x = %v, s = %v, o = %v, ε = %v", x, s, o, eps)
						require.LessOrEqual(t, got, want+1e-12*(1-want)+1e-13*kappa, "x = %v, s = %v, o = %v, ε = %v", x, s, o, eps)
					}
					for _, by := range []float64{0.01, 0.5, 0.9, 1.1, 2, 100} {
						require.LessOrEqual(t, got, max(0, exact(eps, square, x, by*kappa))+1e-9, "x = %v, s = %v, o = %v, ε = %v", x, s,
							o, eps)
					}
				}
			}
		}
	}
	for _, k := range []*scalar{flat(math.Inf(1)), flat(1e300), flat(0)} { // also what no data set has
		for _, v := range []float64{1e-300, 1, 1e300} {
			require.False(t, math.IsNaN(k.renyi(1, v, 0)) || k.renyi(1, v, 0) > 0)
			require.False(t, math.IsNaN(k.renyi(v, 0, v)) || k.renyi(-v, 1, 0) > 0)
		}
	}
}

// More noise, a larger ε or less curvature never costs; output noise does.
func TestRenyiIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string, lo, hi float64) float64 {
			return math.Exp(rapid.Float64Range(math.Log(lo), math.Log(hi)).Draw(t, name))
		}
		eps, x, u, o := draw("eps", 0.05, 8), draw("x", 1e-3, 10), draw("u", 0.1, 100), draw("o", 1e-3, 1)
		v, more := flat(x).renyi(eps, 1/u, o), 1+1e-6
		require.LessOrEqual(t, flat(x).renyi(eps*more, 1/u, o), v)
		require.LessOrEqual(t, flat(x).renyi(eps, 1/u/more, o), v)
		require.LessOrEqual(t, flat(x/more).renyi(eps, 1/u, o), v)
		require.LessOrEqual(t, flat(x).renyi(eps, 1/u, o/more), v)
		require.LessOrEqual(t, flat(x).renyi(eps, 1/u, 0), v)
		if near, g := flat(x).renyiReplace(eps, 1/u, o, nil); near < -1 && near > -100 {
			again, _ := flat(x).renyiReplace(eps, 1/u, o, &g)
			require.InDelta(t, near, again, 1e-4*(1-near))
			sum := func(first float64) float64 { // the step that adds, then the one that removes
				return num.LogSumExp(flat(x).logAdd(first, 1/u, o/2), first+flat(x).renyi(eps-first, 1/u, o/2))
			}
			require.LessOrEqual(t, near, sum(eps*rapid.Float64Range(0, 1).Draw(t, "e1"))+1e-4*(1-near))
			if !g.removeFirst {
				require.InDelta(t, sum(g.e1), near, 1e-9*(1-near))
			}
		}
		two, _ := flat(x).renyiReplace(eps, 1/u, 0, nil)
		require.GreaterOrEqual(t, two, flat(x).renyi(eps, 1/u, 0)-1e-9) // two steps are no better than one
	})
	for _, rel := range []dp.Relation{dp.AddRemove, dp.Replace} { // across the change of theorem
		last := math.Inf(1)
		for eps := 0.5; eps < 4; eps += 0.05 {
			sigma := at(t, problem("huber", rel, dp.Budget{Epsilon: eps, Delta: 1e-5}), 2).Sigma
			require.LessOrEqual(t, sigma, last*(1+1e-9), "%v, ε = %v", rel, eps)
			last = sigma
		}
		last = math.Inf(1)
		for ridge := 0.8; ridge < 40; ridge *= 1.05 {
			sigma := at(t, problem("huber", rel, dp.Budget{Epsilon: 1, Delta: 1e-5}), ridge).Sigma
			require.LessOrEqual(t, sigma, last*(1+1e-9), "%v, Δ = %v", rel, ridge)
			last = sigma
		}
	}
}

// Exact densities in one dimension of Huber records with a large curvature: never above the
// claim, and above that of a twin that leaves the curvature out.
func TestExactDensitiesOfSteepRecords(t *testing.T) {
	rnd := rand.New(rand.NewPCG(8, 9))
	best := map[string]float64{}
	for _, c := range []struct{ eps, x, sigma float64 }{
		{1, 0.5, 5.694}, {1, 1, 9.679}, {1, 1, 2}, {2, 5, 15.381}, {0.5, 0.5, 10}, {4, 5, 1.775},
	} {
		k := flat(c.x)
		s := 1 / c.sigma
		claims := map[string]float64{
			"removing": math.Exp(k.renyi(c.eps, s, 0)), "without curvature": math.Exp(flat(1e-9).renyi(c.eps, s, 0)),
			"replacing": math.Exp(k.boundReplace(c.eps, s, 0)),
		}
		ridge := 1 / c.x
		for range 40 {
			w := adversary(rnd, ridge, 2)
			label := (2*rnd.Float64() - 1) * 2
			z, z2 := of(loss.Huber{Delta: 1}, label), of(loss.Huber{Delta: 1}, -label)
			removed := w.delta(c.eps, c.sigma, []record{z}, nil)
			best["without curvature"] = max(best["without curvature"], removed/claims["without curvature"])
			best["removing"] = max(best["removing"], removed/claims["removing"])
			best["replacing"] = max(best["replacing"], w.delta(c.eps, c.sigma, []record{z}, []record{z2})/claims["replacing"])
		}
	}
	require.LessOrEqual(t, best["removing"], 1+1e-6)
	require.LessOrEqual(t, best["replacing"], 1+1e-6)
	require.Greater(t, best["removing"], 0.05, "the worlds are no adversaries")
	require.Greater(t, best["without curvature"], 2.0, "curvature left out is not seen")
}

// Automatic Δ finds the dip of theorem R beside that of the other bounds.
func TestBestOfTwoDips(t *testing.T) {
	won := 0
	for _, rel := range []dp.Relation{dp.AddRemove, dp.Replace} {
		for _, radius := range []float64{0.3, 3, 30, 300} {
			p := problem("huber", rel, dp.Budget{Epsilon: 1, Delta: 1e-5})
			k, b := calibrator(t, p), Bound{Radius: radius}
			ridge, err := k.Best(b)
			require.NoError(t, err)
			noise := at(t, p, ridge)
			if noise.Theorem == TheoremRenyi {
				won++
			}
			best := b.At(ridge, 0, noise.Square())
			for x := -2.0; x <= 2; x += 0.02 {
				if other, err := k.At(ridge * math.Exp(x)); err == nil && other.C <= cCeiling {
					require.LessOrEqual(t, best, b.At(other.Ridge, 0, other.Square())*(1+1e-5), "%v, B = %v: Δ = %v", rel, radius,
						other.Ridge)
				}
			}
		}
	}
	require.Greater(t, won, 2)
}

// Rényi curves: the least of all bounds, of adding too, where curvature in second order
// is less than |N|; composed many times they beat what they were.
func TestRenyiCurves(t *testing.T) {
	for _, x := range []float64{0.01, 0.1, 0.5} {
		for _, alpha := range []float64{1, 1.5, 2, 8, 30} {
			k := flat(x)
			remove, add, replace := k.rdpRenyi(alpha, 0.05)
			require.LessOrEqual(t, remove, add)
			require.GreaterOrEqual(t, replace, add)
			bestRemove, bestAdd, _ := k.rdp(alpha, 0.05)
			require.Equal(t, min(remove, k.rdpRemoving(alpha, 0.05)), bestRemove)
			require.Equal(t, min(add, k.rdpAdding(alpha, 0.05)), bestAdd)
		}
	}
	rnd := rand.New(rand.NewPCG(7, 7))
	for name, h := range shapes { // with an envelope the suprema over p, certified
		for range 20 {
			mu, s, alpha := math.Exp(4*rnd.Float64()), math.Exp(3*rnd.Float64()-4), 1+math.Exp(4*rnd.Float64()-2)
			k := tiedOf(t, name, mu)
			remove, add, _ := k.rdpRenyi(alpha, s)
			plus, minus := 0.0, 0.0
			for i := range 2001 {
				p := float64(i) / 2000
				c := math.Log1p(h(p) / mu)
				plus = max(plus, alpha*s*s*p*p/2+psiPlus(c, alpha-1)/(alpha-1))
				minus = max(minus, alpha*s*s*p*p/2+psiMinus(c, alpha-1)/(alpha-1))
			}
			require.GreaterOrEqual(t, remove, plus*(1-1e-12), name)
			require.LessOrEqual(t, remove, plus*(1+3e-6), name)
			require.GreaterOrEqual(t, add, minus*(1-1e-12), name)
			if !math.IsInf(add, 1) {
				require.LessOrEqual(t, add, minus*(1+3e-6), name)
			}
		}
	}
	k := calibrator(t, problem("huber", dp.AddRemove, dp.Budget{Epsilon: 1, Delta: 1e-5})).with(Noise{Sigma: 20}, 50).Curve
	require.Less(t, k.RDP(4, 0), 1.2*4*0.05*0.05/2)
	require.InEpsilon(t, k.RDP(4, 0)+4*0.01*0.01/2, k.RDP(4, 0.01), 1e-9)
}

// What the search finds is proved as it is; a little less noise is not, and neither is the noise
// of a curvature that is a little less.
func TestRenyiIsProved(t *testing.T) {
	whole := dp.Budget{Epsilon: 1.01, Delta: 1.01e-5}
	const o = 0.0085
	for _, rel := range []dp.Relation{dp.AddRemove, dp.Replace} {
		for _, x := range []float64{0.3, 0.5, 1.2} {
			p := problem("huber", rel, dp.Budget{Epsilon: 1, Delta: 1e-5})
			p.Modulus = 0.1
			k := calibrator(t, p)
			b := at(t, p, 1/x-0.1)
			joint, _ := k.Joint(b, whole, o)
			for _, c := range []struct {
				b Noise
				w dp.Budget
				o float64
			}{{b, p.Budget, 0}, {joint, whole, o}} {
				require.Equal(t, TheoremRenyi, c.b.Theorem)
				proved, ok := k.Prove(c.b, c.w, c.o)
				require.True(t, ok, "%v, β/μ = %v", rel, x)
				require.Equal(t, c.b.Sigma, proved.Sigma)
				less := c.b
				less.Sigma *= 1 - 1e-5
				_, ok = k.Prove(less, c.w, c.o)
				require.False(t, ok, "%v, β/μ = %v", rel, x)
				less = c.b
				less.Ridge *= 1 - 1e-4
				_, ok = k.Prove(less, c.w, c.o)
				require.False(t, ok, "%v, β/μ = %v", rel, x)
			}
		}
	}
}

// general are the constants of a loss of which only a Hessian of low rank is known.
func general(rank int) loss.Constants {
	return loss.Constants{Lipschitz: 1, Smoothness: 1, Rank: rank, Structure: loss.General}
}

// Golden noise scales of theorem R for one eigenvalue, of adding and of replacing; none where
// no order is admitted.
func TestSpectrumGolden(t *testing.T) {
	var g struct {
		Curve []struct {
			Eps, Delta, Lambda, Alpha, Sigma float64
			Relation                         string
			RDP                              decimal
			Least                            string `json:"sigma_over_L"`
		}
	}
	loadJSON(t, "renyi.json", &g)
	for _, v := range g.Curve {
		m, times := &spectrum{v.Lambda, 1, v.Relation == "replace", nil}, 1.0
		if v.Relation == "remove" {
			continue
		}
		if m.replace {
			times = 2
		}
		m.of = &Calibrator{g: times}
		relative(t, float64(v.RDP), m.renyi(v.Alpha, v.Sigma), 1e-12, v)
		got := times * m.leastNoise(v.Eps, math.Log(v.Delta), 0)
		if v.Least == "+inf" {
			require.Equal(t, math.Inf(1), got)
			continue
		}
		var want decimal
		require.NoError(t, want.UnmarshalJSON([]byte(v.Least)))
		above(t, float64(want)*(1-1e-12), got, v.Relation)
		log := m.logDelta(v.Eps, times/got, 0)
		require.LessOrEqual(t, log, math.Log(v.Delta))
		require.Greater(t, log, math.Log(v.Delta)-1e-6)
	}
}

// Noise of losses without one scalar derivative, and of ten classes, against a grid of 200,000
// orders of another
// program; the dimension does not count.
func TestSpectrumSavesNoise(t *testing.T) {
	for _, c := range []struct {
		constants  loss.Constants
		classes    int
		ridge      float64
		add, twice float64
	}{
		{general(1), 0, 100, 4.04884482, 8.10359886},
		{general(1), 0, 100. / 3, 4.09111328, 8.22766166},
		{general(3), 0, 100, 4.05630436, 8.13047422},
		{loss.Multinomial{Classes: 10}.Constants(unit, 1), 10, 10, 6.19454815, 12.72196495},
		{loss.Multinomial{Classes: 10}.Constants(unit, 1), 10, 100, 5.72269734, 11.44902933},
	} {
		for _, rel := range []dp.Relation{dp.AddRemove, dp.Replace} {
			p := Problem{Dim: 100, Constants: c.constants, Classes: c.classes, Relation: rel, Budget: dp.Budget{Epsilon: 1,
				Delta: 1e-5}}
			want := c.add
			if rel == dp.Replace {
				want = c.twice
			}
			b := at(t, p, c.ridge)
			require.Equal(t, TheoremRenyi, b.Theorem)
			require.InEpsilon(t, want, b.Sigma, 2e-8)
			remove, add := b.Curve.Profile(0, 0)
			require.LessOrEqual(t, max(remove(1), add(1)), 1e-5*(1+1e-9))
			p.Dim *= 10
			require.Equal(t, b.Sigma, at(t, p, c.ridge).Sigma)

			k := calibrator(t, p)
			whole := dp.Budget{Epsilon: 1.01, Delta: 1.01e-5}
			joint, _ := k.Joint(b, whole, 0.0085)
			require.Equal(t, TheoremRenyi, joint.Theorem)
			for _, v := range []struct {
				b Noise
				w dp.Budget
				o float64
			}{{b, p.Budget, 0}, {joint, whole, 0.0085}} {
				proved, ok := k.Prove(v.b, v.w, v.o)
				require.True(t, ok)
				require.Equal(t, v.b.Sigma, proved.Sigma)
				v.b.Sigma *= 1 - 1e-5
				_, ok = k.Prove(v.b, v.w, v.o)
				require.False(t, ok)
			}
		}
	}
}

// At large ε the best order is where ψ₊ is not convex up to λ, and the enclosure knows it.
func TestSpectrumAtLargeEpsilon(t *testing.T) {
	p := Problem{Dim: 4, Constants: general(2), Relation: dp.Replace, Budget: dp.Budget{Epsilon: 30, Delta: 1e-5}}
	k := calibrator(t, p)
	const ridge = 1 / 0.9
	m := k.spectrum(ridge)
	q := claim{ridge: ridge, sigma: 2 * m.leastNoise(30, math.Log(1e-5), 0), eps: 30, delta: 1e-5}
	kappa := m.order(func(kappa float64) float64 { return m.at(30, 2/q.sigma, 0, kappa) })
	require.Greater(t, (1+kappa)*m.lambda*m.lambda, 1.0)
	require.True(t, m.proves(q))
	q.sigma *= 1 - 1e-5
	require.False(t, m.proves(q))
}

// k counts the trace: 1 − 1/K for the multinomial logistic loss, attained at equal chances,
// where β = 1/2 alone would be too small. No spectrum of that trace costs more.
func TestSpectrumCountsTheTrace(t *testing.T) {
	for _, classes := range []int{2, 3, 10, 100} {
		p := Problem{Dim: 400, Constants: loss.Multinomial{Classes: classes}.Constants(unit, 1), Classes: classes,
			Relation: dp.AddRemove,
			Budget:   dp.Budget{Epsilon: 1, Delta: 1e-5}}
		m := calibrator(t, p).spectrum(10)
		trace := 1 - 1/float64(classes)
		require.GreaterOrEqual(t, m.k*m.lambda*10, trace)
		require.LessOrEqual(t, m.k*m.lambda*10, trace*(1+1e-11)) // β is rounded outward by 1e-12
		if classes > 2 {
			require.Greater(t, m.cost(8), (&spectrum{m.lambda, 1, false, nil}).cost(8), "β in the place of the trace")
		}
		for _, kappa := range []float64{0.1, 1, 8, 18} { // the spectrum of equal chances: K−1 of 1/K
			even := float64(classes-1) * psiMinus(math.Log1p(0.1/float64(classes)), kappa)
			require.GreaterOrEqual(t, m.cost(kappa)*(1+1e-12), even)
		}
	}
	p := Problem{Dim: 4, Constants: general(7), Relation: dp.AddRemove, Budget: dp.Budget{Epsilon: 1, Delta: 1e-5}}
	require.Equal(t, 4.0, calibrator(t, p).spectrum(10).k) // rank and dimension
	p.Constants = glm(1, 1)
	require.Nil(t, calibrator(t, p).spectrum(10))
}

// The costs in 60 digits, of two and a half eigenvalues.
func TestSpectrumInSixtyDigits(t *testing.T) {
	n, one := testkit.New, testkit.New(1)
	for _, lambda := range []float64{1e-4, 0.02, 0.3, 0.9} {
		for _, kappa := range []float64{0.1, 0.5, 0.9, 2.5, 30} {
			if kappa*lambda >= 0.99 {
				continue
			}
			plus, minus := n(0), n(0)
			for _, share := range []float64{1, 1, 0.5} {
				x, a, k := n(lambda*share), n(1+kappa), n(kappa)
				log := testkit.Log(testkit.Add(one, x))
				plus = testkit.Add(plus, testkit.Sub(testkit.Mul(a, log), testkit.Log(testkit.Add(one, testkit.Mul(a, x)))))
				minus = testkit.Sub(minus, testkit.Add(testkit.Mul(k, log), testkit.Log(testkit.Sub(one, testkit.Mul(k, x)))))
			}
			p, _ := plus.Float64()
			q, _ := minus.Float64()
			relative(t, q, (&spectrum{lambda, 2.5, false, nil}).cost(kappa), 1e-11)
			if (1+kappa)*lambda*lambda > 1 { // ψ₊ is not convex up to λ
				p = q
			}
			relative(t, p+q, (&spectrum{lambda, 2.5, true, nil}).cost(kappa), 1e-11)
		}
	}
}

// Automatic Δ takes the noise of a spectrum into account.
func TestBestOfSpectrum(t *testing.T) {
	for _, rel := range []dp.Relation{dp.AddRemove, dp.Replace} {
		for _, radius := range []float64{0.1, 1, 30} {
			p := Problem{Dim: 50, Constants: general(2), Relation: rel, Budget: dp.Budget{Epsilon: 1, Delta: 1e-5}}
			k, b := calibrator(t, p), Bound{Radius: radius}
			ridge, err := k.Best(b)
			require.NoError(t, err)
			best := b.At(ridge, 0, at(t, p, ridge).Square())
			for x := -2.0; x <= 3; x += 0.05 {
				if other, err := k.At(ridge * math.Exp(x)); err == nil && other.C <= cCeiling {
					require.LessOrEqual(t, best, b.At(other.Ridge, 0, other.Square())*(1+1e-5), "%v, B = %v: Δ = %v", rel, radius,
						other.Ridge)
				}
			}
		}
	}
}
