package audit

import (
	"math"
	"sync"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/specfun"
)

// The t = L/σ² that the theorems of quadratic perturbation ask for, each from its
// definition: the divergence of a privacy loss that is a function of
// y ~ χ²_k, k = m − d + 1, or of the least eigenvalue.

// lossStick returns E(1 − e^{ε−l(y)})₊ for y ~ χ²_k; l may be +∞. The integrand is
// smooth between the points of cuts.
func lossStick(eps, k float64, l func(y float64) float64, cuts ...float64) float64 {
	sum, from := 0.0, 0.0
	end := math.Pow(math.Sqrt(k)+9, 2)
	for _, to := range append(cuts, end) {
		if to = math.Min(to, end); !(to > from) {
			continue
		}
		sum += simpson(math.Sqrt(from), math.Sqrt(to), 160, func(s float64) float64 {
			y := math.Min(math.Max(s*s, from*(1+1e-12)), to*(1-1e-12)) // inside: l may jump at a cut
			if y == 0 {
				if k > 1 {
					return 0
				}
				y = 1e-300
			}
			excess := eps - l(y)
			if !(excess < 0) {
				return 0
			}
			return 2 * s * math.Exp(specfun.Chi2LogPDF(y, k)) * -math.Expm1(excess)
		})
		from = to
	}
	return sum
}

// crossing returns where the decreasing or increasing l passes ε on (lo, hi).
func crossing(l func(y float64) float64, eps, lo, hi float64) float64 {
	first := l(hi) > eps
	for range 100 {
		if mid := (lo + hi) / 2; (l(mid) > eps) == first {
			hi = mid
		} else {
			lo = mid
		}
	}
	return lo
}

// addStick is the loss −p·log(1−t/y) − t/2 of an added record, +∞ for y ≤ t.
func addStick(eps, t, k, p float64) float64 {
	l := func(y float64) float64 {
		if y <= t {
			return math.Inf(1)
		}
		return -p*math.Log1p(-t/y) - t/2
	}
	return lossStick(eps, k, l, t, crossing(l, eps, t, 1e4))
}

// removeStick is the loss t/2 − N·log(1+t/y) of a removed least-squares record,
// N = k/2 − 1, or, for glm, the larger of that and log(1+t/y).
func removeStick(eps, t, k float64, glm bool) float64 {
	lsq := func(y float64) float64 { return t/2 - (k/2-1)*math.Log1p(t/y) }
	if !glm {
		return lossStick(eps, k, lsq, crossing(lsq, eps, 1e-12, 1e6))
	}
	first := func(y float64) float64 { return math.Log1p(t / y) }
	l := func(y float64) float64 { return math.Max(first(y), lsq(y)) }
	return lossStick(eps, k, l, crossing(first, eps, 1e-12, 1e6), crossing(func(y float64) float64 { return lsq(y) - first(y) }, 0, 1e-12, 1e6), crossing(lsq, eps, 1e-12, 1e6))
}

// claimLSQ is least squares for d = 1, or for AddRemove in any dimension: the
// larger of adding and removing.
func claimLSQ(c *quadratic, b dp.Budget) float64 {
	k := c.k()
	return largestUnder(b.Delta, func(t float64) float64 {
		return math.Max(addStick(b.Epsilon, t, k, k/2-1), removeStick(b.Epsilon, t, k, false))
	})
}

// claimGLM is φ(⟨a,θ⟩): under Replace a removal and an addition at the best split
// of ε, in either order. Several cases ask for the same one.
func claimGLM(c *quadratic, b dp.Budget) float64 {
	type key struct {
		k   float64
		rel dp.Relation
		b   dp.Budget
	}
	once, _ := glmClaims.LoadOrStore(key{c.k(), c.relation(), b}, sync.OnceValue(func() float64 { return computeGLM(c, b) }))
	return once.(func() float64)()
}

var glmClaims sync.Map

func computeGLM(c *quadratic, b dp.Budget) float64 {
	k := c.k()
	return largestUnder(b.Delta, func(t float64) float64 {
		if c.relation() == dp.AddRemove {
			return math.Max(addStick(b.Epsilon, t, k, k/2), removeStick(b.Epsilon, t, k, true))
		}
		at := func(er float64) float64 {
			ea := b.Epsilon - er
			r, a := removeStick(er, t, k, true), addStick(ea, t, k, k/2)
			return math.Min(r+math.Exp(er)*a, a+math.Exp(ea)*r)
		}
		best, arg := math.Inf(1), 0.0
		for width, from := b.Epsilon/16, 0.0; width > 1e-4*b.Epsilon; width /= 8 {
			for i := range 17 {
				if er := from + width*float64(i); er <= b.Epsilon {
					if v := at(er); v < best {
						best, arg = v, er
					}
				}
			}
			from = math.Max(0, arg-width)
		}
		return math.Min(best, 1)
	})
}

// claimFixed is a gradient in a line that does not move, for d = 1: 2F(a) = δ with
// the sum of both losses at a under Replace, F(a) = δ with their larger one else.
func claimFixed(c *quadratic, b dp.Budget) float64 {
	k, tail := c.k(), math.Log(b.Delta)
	if c.relation() == dp.Replace {
		tail -= math.Ln2
	}
	a := specfun.Chi2Quantile(tail, k) // λ_min of W₁(k) is χ²_k
	return largestUnder(b.Epsilon, func(t float64) float64 {
		if t >= a {
			return math.Inf(1)
		}
		remove := math.Max(t/2, math.Log1p(t/a))
		add := math.Max(-k/2*math.Log1p(-t/a)-t/2, 0)
		if c.relation() == dp.AddRemove {
			return math.Max(remove, add)
		}
		return remove + add
	})
}

// claimThreshold is the general closed form for d = 1: F(a) = δ and
// ε = log(1+t/a) − (k/2)·log(1−t/a) + t/2.
func claimThreshold(c *quadratic, b dp.Budget) float64 {
	k := c.k()
	a := specfun.Chi2Quantile(math.Log(b.Delta), k)
	return largestUnder(b.Epsilon, func(t float64) float64 {
		if t >= a {
			return math.Inf(1)
		}
		return math.Log1p(t/a) - k/2*math.Log1p(-t/a) + t/2
	})
}

// claimPaper is the published choice with α₁ repaired, for d = 1, ρ = 1 and
// δ₁ = δ₃ = δ/2:
//
//	F(α) = δ₃, F(α+α₁) = δ₃ + δ₁(1−δ₃), F of χ²_m
//	1/t = max{ (2/ε)(m/α + 1 + 8/α), 2/α₁ }
func claimPaper(c *quadratic, b dp.Budget) float64 {
	m, half := c.mech.M, b.Delta/2
	alpha := specfun.Chi2Quantile(math.Log(half), m)
	step := specfun.Chi2Quantile(math.Log(half+half*(1-half)), m) - alpha
	return 1 / math.Max(2/b.Epsilon*(m/alpha+1+8/alpha), 2/step)
}
