package linear

import (
	"math"
	"slices"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/enclose"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/release"
)

// A claim says that one noise b is enough: the exact minimizer, with Gaussian output noise
// of shift o at most, is within δ at ε. Searches find the noise in float64; the claim is
// proved by intervals (package enclose), once for each plan, about the numbers that are used:
//
//	σ, a, Δ, S′, σ_out, ε, δ   float64 numbers, exactly those of the draws and the certificate
//	L, β, h(p)                 rounded up by package loss, from + − × ÷ √
//	μ, L/σ, c = ρ log1p(β/μ)   intervals
//	κ(p) on a cell of p        rounded up by enclose.Log1pAbove
//	ε − E(p)                   at ends of chords δ_G(E(p); √(s²p²+o²)) ≤ δ is proved; rounded
//	                           down between them
//
// so that nothing rests on the error of a logarithm, an exponential or a quadrature.
type claim struct {
	ridge       float64
	sigma, rate float64 // of b: Gaussian, or pure with δ = 0
	eps, delta  float64
	o           float64
}

// A bound is a theorem that proves claims. One is enough for a plan.
type bound func(q claim) bool

// enclosed is a real number that intervals hold.
type enclosed func(c enclose.Arithmetic) enclose.Interval

// bounds returns the theorems about k that intervals are known for.
func (k *Calibrator) bounds() (list []bound) {
	pure := k.p.Budget.Delta == 0
	if pure {
		list = append(list, k.provesPure)
	}
	if k.fixed == 1 {
		list = append(list, k.provesTied)
	}
	if !pure && k.fixed == 1 && k.p.Envelope == nil {
		list = append(list, k.provesRenyi)
	}
	if !pure {
		list = append(list, k.provesSpectrum, k.provesChi) // the fast one first
	}
	return list
}

// Prove returns b and whether it is certainly within the budget, with output noise of
// shift o. Where what a search found falls short by a hair, it is raised by a relative 1e-6 at
// most.
func (k *Calibrator) Prove(b Noise, budget dp.Budget, o float64) (Noise, bool) {
	const most = 1e-6
	bounds := k.bounds()
	q := claim{ridge: b.Ridge, eps: budget.Epsilon, delta: budget.Delta, o: o}
	for up := 0.0; up < most; up = max(1e-12, 4*up) {
		q.sigma, q.rate = b.Sigma*(1+up), b.Rate/(1+up)
		for _, proves := range bounds {
			if !proves(q) {
				continue
			}
			if b.Rate = q.rate; up > 0 && b.Sigma > 0 {
				b.Sigma, b.S = q.sigma, k.g/q.sigma
				b.Curve = k.curve(b.Ridge+k.p.Modulus, q.sigma)
			}
			return b, true
		}
		if up == 0 { // only bounds that do with the most
			q.sigma, q.rate = b.Sigma*(1+most), b.Rate/(1+most)
			bounds = slices.DeleteFunc(bounds, func(proves bound) bool { return !proves(q) })
		}
	}
	return b, false
}

// modulus returns μ = Δ + μ_r.
func (k *Calibrator) modulus(c enclose.Arithmetic, q claim) enclose.Interval {
	return c.Add(c.Of(q.ridge), c.Of(k.p.Modulus))
}

// cost returns what curvature costs at most, ρ log1p(β/μ), or where that is less
// (K−1) log1p(L²/(2Kμ)): log det(I + (diag π − ππ′)X²/μ) of type simplex at its peak, π = 1/K.
func (k *Calibrator) cost(c enclose.Arithmetic, q claim) enclose.Interval {
	mu := k.modulus(c, q)
	times := func(n int, x enclose.Interval) enclose.Interval { return c.Mul(c.Of(float64(n)), c.Log1p(x)) }
	v := times(int(k.rank), c.Quo(c.Of(k.p.Constants.Smoothness), mu))
	if classes := k.p.Classes; classes > 0 {
		v = c.Least(v, times(classes-1, c.Quo(c.Square(c.Of(k.p.Constants.Lipschitz)), c.Mul(c.Of(float64(2*classes)), mu))))
	}
	return v
}

// provesPure: c + aG ≤ ε.
func (k *Calibrator) provesPure(q claim) bool {
	return q.delta == 0 && q.rate > 0 && enclose.Proves(nil, func(c enclose.Arithmetic) (less, more enclose.Interval) {
		return c.Add(k.cost(c, q), c.Mul(c.Of(q.rate), c.Of(k.g))), c.Of(q.eps)
	})
}

// mostStick is the largest q of chiStick: products of as many float64 numbers are far from the least and the largest
// exponent of big.Float, ±2³¹, where rounding would not be outward.
const mostStick = 1 << 20

// provesChi: Chi.LogDelta ≤ log δ, or with output noise Chi.LogJoint.
func (k *Calibrator) provesChi(q claim) bool {
	return enclose.Proves(nil, func(c enclose.Arithmetic) (less, more enclose.Interval) {
		e1, s, o := c.Sub(c.Of(q.eps), k.cost(c, q)), c.Quo(c.Of(k.g), c.Of(q.sigma)), c.Of(q.o)
		r0 := c.Sub(c.Quo(e1, s), c.Quo(s, c.Of(2)))
		v, one := c.Of(1), c.Of(1)
		if k.chi.Monotone && q.o == 0 && e1.Lo.Sign() >= 0 {
			v = c.Least(v, c.GaussianDelta(e1, s))
		}
		if q.o == 0 && (k.chi.Q == 1 || k.chi.Paired && r0.Lo.Cmp(c.Of(PairedR0).Hi) >= 0) {
			v = c.Least(v, folded(c, e1, s))
		}
		switch {
		case r0.Lo.Sign() >= 0 && k.chi.Q <= mostStick:
			v = c.Least(v, chiStick(c, e1, s, o, k.chi.Q))
		case r0.Hi.Sign() <= 0 && k.chi.Q == 2 && q.o == 0: // 1 − e^{s r₀}(1 − sR(s))
			v = c.Least(v, c.Sub(one, c.Mul(c.Exp(c.Mul(s, r0)), c.Sub(one, c.Mul(s, c.Mills(s))))))
		}
		return v, c.Of(q.delta)
	})
}

// folded returns a bound on E(1 − e^{ε − s²/2 − s|N|})₊: 2δ_G(ε, s), or where the loss is
// never below ε
//
//	1 − e^ε E e^{−s²/2−s|N|} = 1 − 2e^ε Φ(−s)
func folded(c enclose.Arithmetic, eps, s enclose.Interval) enclose.Interval {
	v := c.Mul(c.Of(2), c.GaussianDelta(eps, s))
	if eps.Hi.Cmp(c.Quo(c.Square(s), c.Of(2)).Lo) <= 0 {
		v = c.Least(v, c.Sub(c.Of(1), c.Mul(c.Mul(c.Of(2), c.Exp(eps)), c.NormalTail(s))))
	}
	return v
}

// provesTied proves a claim by gradient and curvature together.
func (k *Calibrator) provesTied(q claim) bool {
	t := k.tied(math.Nextafter(q.ridge+k.p.Modulus, 0)).rigorous()
	replace := k.p.Relation == dp.Replace
	switch {
	case q.delta == 0:
		return t.provesRate(q, replace)
	case !replace:
		eps := func(c enclose.Arithmetic) enclose.Interval { return c.Of(q.eps) }
		return enclose.Proves(nil, func(c enclose.Arithmetic) (less, more enclose.Interval) {
			return t.adding(c, eps, q.o, q), c.Of(q.delta)
		}) && t.provesRemoval(eps, q.eps, q.o, q.delta, q)
	}
	_, g := t.logReplace(q.eps, t.l/q.sigma, q.o, nil)
	return t.provesLeg(g, q)
}

// provesLeg proves that the two steps of a leg are enough.
func (k *tied) provesLeg(g leg, q claim) bool {
	if !(g.e1 >= 0 && g.e1 <= q.eps) {
		return false
	}
	e1 := func(c enclose.Arithmetic) enclose.Interval { return c.Of(g.e1) }
	rest := func(c enclose.Arithmetic) enclose.Interval { return c.Sub(c.Of(q.eps), c.Of(g.e1)) }
	half := q.o / 2
	// What adding leaves of δ for removing.
	if g.removeFirst {
		left := enclose.Below(func(c enclose.Arithmetic) enclose.Interval {
			return c.Sub(c.Of(q.delta), c.Mul(c.Exp(e1(c)), k.adding(c, rest, half, q)))
		})
		return k.provesRemoval(e1, g.e1, half, left, q)
	}
	left := enclose.Below(func(c enclose.Arithmetic) enclose.Interval {
		return c.Quo(c.Sub(c.Of(q.delta), k.adding(c, e1, half, q)), c.Exp(e1(c)))
	})
	return k.provesRemoval(rest, q.eps-g.e1, half, left, q)
}

// rigorous returns k with a κ that is certainly no less than the real one; mu is.
func (k *tied) rigorous() *tied {
	r := *k
	r.exact = true
	r.c = enclose.Log1pAbove(math.Nextafter(k.beta/k.mu, math.Inf(1)))
	return &r
}

// adding encloses the bound of logAdd at ε ≥ 0.
func (k *tied) adding(c enclose.Arithmetic, eps enclosed, o float64, q claim) enclose.Interval {
	e, s := eps(c), c.Quo(c.Of(k.l), c.Of(q.sigma))
	switch whole := c.Hypot(s, c.Of(o)); {
	case k.monotone:
		return c.Add(c.GaussianDelta(e, whole), c.Mul(c.NormalTail(c.Quo(s, c.Of(2))), c.GaussianDelta(e, c.Of(o))))
	case o == 0:
		return folded(c, e, s)
	default:
		return c.Mul(c.Of(2), c.GaussianDelta(e, whole))
	}
}

// provesRemoval is removes with a proof of every value of ε − E: a float64 next to the one that
// Newton's method finds, at which an interval shows that δ_G is at most δ.
func (k *tied) provesRemoval(eps enclosed, near, o, delta float64, q claim) bool {
	if !(delta > 0) {
		return false
	}
	target := num.Log(delta) - 1e-10 // a tenth of the margin of removes
	guess, failed := near, false
	return k.below(func(p float64) float64 {
		guess = epsilonWithin(math.Hypot(k.l/q.sigma*p, o), target, guess, 4e-12)
		f := near - guess - 0x1p-51*math.Abs(near) // rounded down, as guess may be tiny
		failed = failed || !enclose.Proves(nil, func(c enclose.Arithmetic) (less, more enclose.Interval) {
			s := c.Quo(c.Mul(c.Of(k.l), c.Of(p)), c.Of(q.sigma))
			return c.GaussianDelta(c.Sub(eps(c), c.Of(f)), c.Hypot(s, c.Of(o))), c.Of(delta)
		})
		if failed {
			return math.Inf(-1)
		}
		return f
	}, patient)
}

// provesRate: κ(p) ≤ ε − aL(base + p), base = 1 for replacing, with a line that is rounded down.
func (k *tied) provesRate(q claim, replace bool) bool {
	if !(q.rate > 0) { // no noise at all
		return false
	}
	base := 0.0
	if replace {
		base = 1
	}
	a := q.rate * k.l * (1 + 0x1p-51)
	return k.below(func(p float64) float64 { return q.eps - a*(base+p) - (q.eps+a)*0x1p-50 }, patient)
}

// provesRest reports whether the parts of a plan certainly add up to its budget b. The
// objective has a proof for its part, with shift o of the output noise if that is in the same
// curve; the rest is
//
//	two steps  ε₁ + ε₂ ≤ ε, δ_G(ε₂; S′/σ_out) ≤ δ₂ or S′a_out ≤ ε₂
//	one step   S′ ≤ oσ_out
//	δ > 0      (1+e^ε)P(‖b‖ > B) + δ₁ + δ₂ ≤ δ, as P(‖b‖ > σ(√d+t)) ≤ e^{−t²/2}
//	δ = 0      x − d − d ln(x/d) ≥ ln(2⁶⁴N(e^ε+1)/(e^ε−1)), x = aB > d, N = (2K+1)^d
//	           points of the grid, see release.MostRadial
//
// B is B_max less what rounding can add to ‖b‖ before draw compares it: LinearError, and less
// than d + 8 roundings of a float64 norm.
func (pl *Plan) provesRest(b, objective, output dp.Budget, o float64) bool {
	p, out, d := pl.params, pl.output, float64(pl.params.Dim)
	type interval = enclose.Interval
	if o > 0 {
		output = dp.Budget{}
		if !enclose.Proves(nil, func(c enclose.Arithmetic) (less, more interval) {
			return c.Of(out.Sensitivity), c.Mul(c.Of(o), c.Of(out.Sigma))
		}) {
			return false
		}
	} else if !out.Proves(output) {
		return false
	}
	return enclose.Proves(nil, func(c enclose.Arithmetic) (less, more interval) {
		return c.Add(c.Of(objective.Epsilon), c.Of(output.Epsilon)), c.Of(b.Epsilon)
	}, func(c enclose.Arithmetic) (less, more interval) {
		one, e := c.Of(1), c.Exp(c.Of(b.Epsilon))
		most := c.Mul(c.Of(pl.per.Linear), c.Sub(one, c.Of((d+8)*0x1p-52)))
		most = c.Sub(most, c.Of(pl.per.LinearError))
		if b.Delta == 0 {
			// At x = d the left side is 0; below it Chernoff's bound says nothing.
			x, log2 := c.Most(c.Of(d), c.Mul(c.Of(p.Rate), most)), c.Log(c.Of(2))
			points := c.Mul(c.Of(d), c.Log(c.Of(release.Points)))
			odds := c.Log(c.Quo(c.Add(e, one), c.Sub(e, one)))
			need := c.Add(c.Add(points, c.Mul(c.Of(64), log2)), odds)
			return need, c.Sub(c.Sub(x, c.Of(d)), c.Mul(c.Of(d), c.Log(c.Quo(x, c.Of(d)))))
		}
		tail := failure(c, p.Dim, b.Epsilon, c.Quo(most, c.Of(p.Sigma)))
		return c.Add(tail, c.Add(c.Of(objective.Delta), c.Of(output.Delta))), c.Of(b.Delta)
	})
}
