package dp

import (
	"math"

	"github.com/privopt/privopt/dp/internal/pld"
	"github.com/privopt/privopt/internal/num"
)

// noisySum is one noisy sum over a batch.
type noisySum struct {
	pair  pld.Pair
	rdp   RDP
	gauss float64 // s if the sum is exactly δ_G(ε, s) both ways, else 0
}

// one returns the sum with noise z. Its profiles are those of
// docs/theory/population.md#population.step with t = log1p((e^ε−1)/q), δ_G the Gaussian profile and
// ε ≥ 0:
//
//	Rate q, add-remove  removing: q δ_G(t, 1/z)                                          [ZDW22, Theorem 11]
//	                    adding:   (1−(1−q)e^ε) δ_G(−log((e^{−ε}−1+q)/q), 1/z)
//	Rate q, replace     q[(1−v) δ_G(t, 1/z) + v δ_G(t, 2/z)],  v = e^{ε−t}               [BBG18, Theorem 2]
//	m of n              q δ_G(t, 2/z),  q = m/n                                          [BBG18, Theorem 9]
//	m draws of n        Σ_{k≥1} Binom(m, 1/n)(k) δ_G(t, 2k/z),  q = 1−(1−1/n)^m          [BBG18, Theorem 10]
//	all records         δ_G(ε, 2/z) for replace, δ_G(ε, 1/z) for add-remove
func (s Sampler) one(z float64) noisySum {
	q, rel := s.Fraction(), s.Neighbors()
	switch {
	case s.Repeats: // without a Rényi bound
		return noisySum{pair: pld.Symmetric(drawn(s.Size, s.Records, z)), rdp: func(float64) float64 { return math.Inf(1) }}
	case q == 1:
		r := reach(rel) / z
		return noisySum{pld.Symmetric(func(eps float64) float64 { return gauss(eps, r) }), GaussianRDP(r), r}
	case s.Size > 0:
		return noisySum{pair: pld.Symmetric(subset(q, z)), rdp: rdpReplace(q, z)}
	case rel == Replace:
		return noisySum{pair: pld.Symmetric(poissonReplace(q, z)), rdp: rdpReplace(q, z)}
	}
	return noisySum{pair: pld.Pair{Up: poissonRemove(q, z), Down: poissonAdd(q, z)}, rdp: rdpPoisson(q, z)}
}

// reach returns the distance, in units of L, by which one record that is in the batch for certain
// can move the sum.
func reach(r Relation) float64 {
	if r == Replace {
		return 2
	}
	return 1
}

// gauss returns δ_G(ε, s) for ε ≥ 0 with relative error below 1e-11.
//
// With a = ε/s − s/2, b = a + s the difference Φ(−a) − e^ε Φ(−b) loses a factor of about (1+a)/s on
// the error a²·2⁻⁵³ of erfc, which is affordable for s ≥ ¼ and a ≤ 20 (6e-12 there, against 60
// digits); [GaussianDelta] loses nothing and takes ten times as long.
func gauss(eps, s float64) float64 {
	if s < 0.25 || eps/s-s/2 > 20 {
		return GaussianDelta(eps, s)
	}
	return gaussAt(eps, math.Exp(eps), s)
}

// gaussAt is the difference itself, α = e^ε.
func gaussAt(eps, alpha, s float64) float64 {
	a, b := eps/s-s/2, eps/s+s/2
	return max(0, (math.Erfc(a/math.Sqrt2)-alpha*math.Erfc(b/math.Sqrt2))/2)
}

// inner returns t = log1p((e^ε−1)/q), the ε that the part with the record has to meet for the
// mixture to meet ε.
func inner(eps, q float64) float64 { return math.Log1p(math.Expm1(eps) / q) }

// poissonRemove returns the profile of P = (1−q)N(0,z²)+qN(1,z²) against
// Q = N(0,z²): q δ_G(t, 1/z).
func poissonRemove(q, z float64) func(eps float64) float64 {
	return func(eps float64) float64 { return q * gauss(inner(eps, q), 1/z) }
}

// poissonAdd returns the profile of Q against P. With y = 1 − (1−e^{−ε})/q, 1−(1−q)e^ε = q e^ε y
// and
//
//	q e^ε y δ_G(−log y, 1/z) for y > 0, else 0.
//
// It increases with y, so y is raised by more than its rounding.
func poissonAdd(q, z float64) func(eps float64) float64 {
	end := -math.Log1p(-q) * (1 + 0x1p-50)
	return func(eps float64) float64 {
		if eps >= end {
			return 0
		}
		y := min(1, 1+math.Expm1(-eps)/q+0x1p-51)
		if y <= 0 {
			return 0
		}
		return q * math.Exp(eps) * y * gauss(-num.Log(y), 1/z)
	}
}

// poissonReplace returns q[(1−v) δ_G(t, 1/z) + v δ_G(t, 2/z)], v = e^{ε−t}: a record that is not in
// the batch changes the sum by L, one that is replaced by 2L.
func poissonReplace(q, z float64) func(eps float64) float64 {
	return func(eps float64) float64 {
		t := inner(eps, q)
		if math.IsInf(t, 1) {
			return 0
		}
		v := math.Exp(eps - t)
		one := -math.Expm1(eps - t) // 1 − v
		return q * (max(0, one)*gauss(t, 1/z) + v*gauss(t, 2/z))
	}
}

// subset returns q δ_G(t, 2/z): a batch without the record has another one in its place, so that
// all differences are up to 2L.
func subset(q, z float64) func(eps float64) float64 {
	return func(eps float64) float64 { return q * gauss(inner(eps, q), 2/z) }
}

// negligible is a mass so small that even MaxSteps of them are not felt.
const negligible = 1e-30

// drawn returns Σ_{k≥1} Binom(m, 1/n)(k) δ_G(t, 2k/z). The terms from where their weights fall
// below negligible on are replaced by those weights.
func drawn(m, n int, z float64) func(eps float64) float64 {
	p := 1 / float64(n)
	if n == 1 {
		s := 2 * float64(m) / z
		return func(eps float64) float64 { return gauss(eps, s) }
	}
	logit := num.Log(p) - math.Log1p(-p)
	lw := float64(m) * math.Log1p(-p) // log Binom(m, p)(0)
	q := -math.Expm1(lw)
	var weights []float64
	rest := 0.0
	for k := 1; k <= m; k++ {
		lw += num.Log(float64(m-k+1)) - num.Log(float64(k)) + logit
		// Beyond twice the mean the weights fall by half at least.
		w := math.Exp(lw)
		if w < negligible && float64(k) > 2*float64(m)*p {
			rest = 2 * negligible
			break
		}
		// The roundings of the summands of lw, which are below 150 as the mean
		// is at most mostCopies, add up to less than k·2⁻⁴⁴.
		weights = append(weights, w*(1+float64(k)*0x1p-44))
	}
	return func(eps float64) float64 {
		t := inner(eps, q)
		if math.IsInf(t, 1) {
			return min(rest, 1)
		}
		sum, x := rest, 1+math.Expm1(eps)/q // e^t
		for i, w := range weights {
			s := 2 * float64(i+1) / z
			switch a := t/s - s/2; {
			case a > 38: // δ_G ≤ Φ(−a) < 1e-300
				sum += w * 1e-300
			case s < 0.25 || a > 20:
				sum += w * GaussianDelta(t, s)
			default:
				sum += w * gaussAt(t, x, s)
			}
		}
		return min(1, sum)
	}
}
