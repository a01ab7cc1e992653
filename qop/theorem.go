// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package qop

import (
	"cmp"
	"fmt"
	"math"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/loss"
)

// profile is Theorem A for one ε, structure and number m of degrees of freedom: log δ as a
// nondecreasing function of t = L/σ².
type profile interface {
	logDelta(t float64) float64
}

// setting holds the parameters of Theorem A.
type setting struct {
	dim       int
	rank      float64 // ρ ≤ d
	structure loss.Structure
	relation  dp.Relation
	eps       float64
}

// lsq is Theorem A for least squares: max(A, R, B), and max(A, R) for add/remove neighbors or in
// one dimension, where a replaced record moves W by a number in [−t, t].
type lsq struct {
	eps, k float64
	b      *replaceStick // nil if not needed
}

func newLSQ(s setting, m float64, rough bool) *lsq {
	p := &lsq{eps: s.eps, k: m - float64(s.dim) + 1}
	if s.dim > 1 && s.relation == dp.Replace {
		p.b = newReplaceStick(s.eps, p.k, rough)
	}
	return p
}

func (p *lsq) logDelta(t float64) float64 {
	delta := math.Max(stickAdd(p.eps, t, p.k, p.k/2-1), stickRemove(p.eps, t, p.k))
	if p.b != nil {
		delta = math.Max(delta, p.b.at(t))
	}
	return num.Log(delta)
}

// glm is Theorem A for φ(⟨a,θ⟩;b). Replacement is removal and addition, in either order, ε = e_r +
// e_a:
//
//	δ = min_{e_r} min( D_r(e_r) + e^{e_r} D_a(e_a), D_a(e_a) + e^{e_a} D_r(e_r) )
//
// Any split is valid: a poor split costs utility, never privacy. rough tries fewer splits.
type glm struct {
	eps, k   float64
	relation dp.Relation
	rough    bool
	hint     float64 // e_r/ε of the last t, 0 before the first
}

func (p *glm) logDelta(t float64) float64 {
	if p.relation == dp.AddRemove {
		return num.Log(math.Max(stickAdd(p.eps, t, p.k, p.k/2), stickRemoveGLM(p.eps, t, p.k)))
	}
	points, fine := 25, 1e-4
	if p.rough {
		points, fine = 4, 0.1
	}
	shares := []float64{math.Min(t/2/p.eps, 1)} // D_r nearly vanishes there
	if p.hint > 0 {                             // the best share moves little with t
		shares, points = append(shares, p.hint), -points
	}
	best, share := bestSplit(p.eps, shares, points, fine, func(e float64) float64 { return stickRemoveGLM(e, t, p.k) },
		func(e float64) float64 { return stickAdd(e, t, p.k, p.k/2) })
	p.hint = share
	return num.Log(best)
}

// bestSplit returns the least δ of a removal followed by an addition, or the reverse, that it finds
// over ε = e_r + e_a, and the share e_r/ε. It tries the given shares and, for positive points, that
// many steps from 0 to 1, and then halves the distance from the best one.
func bestSplit(
	eps float64, shares []float64, points int, fine float64, remove, add func(e float64) float64,
) (best, share float64) {
	best, share = 1, 0.5
	try := func(s float64) {
		er := s * eps
		ea := eps - er
		r, a := remove(er), add(ea)
		if v := math.Min(r+math.Exp(er)*a, a+math.Exp(ea)*r); v < best {
			best, share = v, s
		}
	}
	for _, s := range shares {
		try(s)
	}
	width := 1 / math.Abs(float64(points))
	for i := range points + 1 {
		try(float64(i) * width)
	}
	for ; width > fine*math.Max(share, 1e-2); width *= 0.5 {
		try(math.Max(share-width/2, 0))
		try(math.Min(share+width/2, 1))
	}
	return best, share
}

// generalLoss returns l_G(x) = ρ·log(1 + t/x) − (k/2)·log(1 − t/x), x > t.
func generalLoss(rho, k, t, x float64) float64 {
	return rho*math.Log1p(t/x) - k/2*math.Log1p(-t/x)
}

// fixedLosses returns the losses of removing and of adding one record whose gradients stay in a
// subspace of dimension ρ:
//
//	(ρ−1)·log(1 + t/y) + max(t/2, log(1 + t/y))   and   (−(k/2)·log(1 − t/y) − t/2)₊
func fixedLosses(rho, k, t, y float64) (remove, add float64) {
	l := math.Log1p(t / y)
	return (rho-1)*l + math.Max(t/2, l), math.Max(-k/2*math.Log1p(-t/y)-t/2, 0)
}

// largestBelow returns the largest t < a with l(t) ≤ ε for an increasing l.
func largestBelow(a, eps float64, l func(t float64) float64) float64 {
	good, _ := num.Bisect(func(t float64) bool { return l(t) <= eps }, 0, a)
	return good
}

// general is the hockey-stick form of Theorem A for General(ρ), d ≥ 2:
//
//	δ = E[(1 − e^{ε−l_G(λ_min)})₊] = ∫_t^{a*} F(x) e^{ε−l_G(x)} (−l_G′(x)) dx,   l_G(a*) = ε
//
// with F from a table that does not understate it. Where F is small it behaves like a power of
// v = √(x−t) below k, so panels are short in log v: v^k varies by at most e⁶.
type general struct {
	eps, rho, k float64
	law         minLaw
}

func (p *general) logDelta(t float64) float64 {
	// a* by bisection on t/x in (0, 1).
	ratio := largestBelow(1, p.eps, func(v float64) float64 { return p.rho*math.Log1p(v) - p.k/2*math.Log1p(-v) })
	top := t / ratio
	lo, hi := p.law.ends()
	bottom := math.Max(t, lo)
	sum := 0.0
	if bottom > t { // F is at most F(lo) below
		sum = math.Exp(p.law.logCDF(bottom) + p.eps - generalLoss(p.rho, p.k, t, bottom))
	}
	if top > hi { // F is at most 1 above
		if hi <= bottom {
			return 0
		}
		sum += -math.Expm1(p.eps - generalLoss(p.rho, p.k, t, hi))
		top = hi
	}
	// x = t + v², panels narrow in log v.
	x, w := num.GaussLegendre(panel)
	b := math.Sqrt(top - t)
	end := math.Sqrt(bottom - t)
	for b > end {
		a := math.Max(end, b*math.Exp(-math.Min(1, 6/(p.k+4))))
		if b < 1e-9*math.Sqrt(t) {
			a = end
		}
		part := 0.0
		for i := range x {
			v := (a+b)/2 + (b-a)/2*x[i]
			y := t + v*v
			slope := p.rho*t/(y*(y+t)) + p.k/2*t/(y*v*v)
			part += w[i] * (b - a) * v * slope * math.Exp(p.law.logCDF(y)+p.eps-p.rho*math.Log1p(t/y)-p.k/2*math.Log1p(t/(v*v)))
		}
		sum += part
		if part < num.Negligible*sum {
			break
		}
		b = a
	}
	return num.Log(math.Min(sum, 1))
}

// logTail returns the logarithm of F(a) in the closed form of FixedRange: δ, or δ/2 for two losses
// under a union bound.
func (s setting) logTail(logDelta float64) float64 {
	if s.relation == dp.Replace {
		return logDelta - math.Ln2
	}
	return logDelta
}

// closed returns the largest t of the threshold form at a:
//
//	General      ε = ρ·log(1+t/a) − (k/2)·log(1−t/a), the start of a search
//	FixedRange   ε = sum of the two losses at a, their maximum for add/remove
func (s setting) closed(k, a float64) float64 {
	return largestBelow(a, s.eps, func(t float64) float64 {
		if s.structure != loss.FixedRange {
			return generalLoss(s.rank, k, t, a)
		}
		remove, add := fixedLosses(s.rank, k, t, a)
		if s.relation == dp.AddRemove {
			return math.Max(remove, add)
		}
		return remove + add
	})
}

// closedForm is the closed form of Theorem A for FixedRange.
func (s setting) closedForm(m, logDelta float64) proved {
	a := minQuantile(int(s.rank), m-float64(s.dim)+s.rank, s.logTail(logDelta))
	return proved{s.closed(m-float64(s.dim)+1, a) * (1 - 1e-12), a, theoremFixed}
}

// paper calibrates with the repaired constants of [CC26]: δ₁ and δ₃ are half of the objective's δ
// each, and m = max(2d, d+3) unless the caller chooses it. With F(x) ≤ D·γ(k/2, x/2) of [Ede88]
//
//	α  solves P(k/2, α/2) = δ₃/(DΓ(k/2))
//	α₁ solves P(k/2, (α+α₁)/2) = P(k/2, α/2) + δ₁(1−δ₃)/(DΓ(k/2))
//	σ² = max{ (2L/ε₁)(k/α + 1 + 2(2ρ+2)/α), 2L/α₁ }
func (c *calibrator) paper() error {
	p, d := c.plan, float64(c.s.dim)
	p.Degrees = cmp.Or(c.asked.Degrees, math.Min(math.Max(2*d, leastDegrees(c.s.dim)), mostDegrees))
	b, smoothness := p.Objective, p.Constants.Smoothness
	k := p.Degrees - d + 1
	logD := logEdelman(d, p.Degrees) + num.LogGamma(k/2)
	half := num.GammaInvLogP(k/2, math.Min(num.Log(b.Delta/2)-logD, 0))
	alpha := 2 * half
	alpha1 := 2 * num.GammaStep(k/2, half, num.Log(b.Delta/2)+math.Log1p(-b.Delta/2)-logD)
	sigma2 := math.Max(2*smoothness/b.Epsilon*(k/alpha+1+2*(2*c.s.rank+2)/alpha), 2*smoothness/alpha1)
	switch {
	case math.IsInf(alpha1, 1) || !(alpha > 0):
		return fmt.Errorf("qop: %w: the published constants do not exist for %v with Degrees = %v; want a smaller Delta",
			dp.ErrCondition, b, p.Degrees)
	case math.IsInf(sigma2, 1) || math.IsNaN(sigma2):
		return fmt.Errorf("%w: the published constants leave the range of float64 for %v and Smoothness = %v: rescale "+
			"the problem", ErrMechanism, b, smoothness)
	}
	p.Theorem, p.Threshold = theoremPaper, alpha+alpha1
	p.Ratio = smoothness / sigma2 / safeScale
	return nil
}
