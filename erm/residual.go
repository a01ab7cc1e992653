// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package erm

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/prox"
)

// Allowances for rounding.
const (
	// allowSlope is relative to |φ′| + sup φ″·|u|, the size of the numbers that Scalar computes from a
	// prediction u with an error of one unit in the last place. A loss that has loss.Exact slopes is
	// proved to stay within half of it; other losses may lose 16 units, see ScalarAccuracy.
	allowSlope = 32 * unit
	// allowGrad is relative to ‖∇ℓ‖ of a loss that is not a loss.Linear.
	allowGrad = 1e-12
	// allowDist is relative to the vectors that the method Dist of an operator adds up.
	allowDist = 1e-12
	// boundRoom is the factor for the roundings of an allowance itself, its terms of higher order,
	// and γₖ − ku.
	boundRoom = 1.01
	// tiny bounds the underflow of one product.
	tiny = math.SmallestNonzeroFloat64
)

// Residual returns an upper bound on dist(0, ∂J(x)), for every b and Q within LinearError and
// QuadError of those of the Perturbation. If J is μ-strongly convex, its minimizer θ* satisfies
//
//	‖x − θ*‖₂ ≤ Residual(x)/μ   and   J(x) − J(θ*) ≤ Residual(x)²/(2μ).
//
// Releases rest on this bound. It shares no code with the solvers or with Grad: it computes the
// gradient in double-double, measures its distance to −∂(r+ι_C)(x), and adds an allowance for
// rounding, which docs/theory/release.md#release.residual proves. [Problem.Public] reports in
// advance whether a minimizer can be certified.
//
// It is +Inf if x is outside C or not finite, and where no certificate is known: if r + ι_C has no
// closed form, on a curved face of C. It is never NaN. Not private.
func (o *Objective) Residual(x []float64) float64 {
	s := o.s()
	return o.residual(x, nil, func(x []float64) (hi, lo []float64, allowance float64) { return s.pairGrad(x, nil) })
}

// ResidualWithin returns an upper bound on dist(0, ∂J(x)) as Residual does, but stops at the first
// bound that is at most target. Sums in plain float64 with the a-priori bound on their rounding
// [Hig02, §3.1] show that x is good enough at a tenth of the cost, unless target is within about
// (N+d)u times the size of the sums. If they do not, the bound is Residual(x). Not private.
//
// [Hig02] Higham. Accuracy and Stability of Numerical Algorithms. 2002.
func (o *Objective) ResidualWithin(x []float64, target float64) float64 {
	s := o.s()
	if s.glm != nil && !math.IsInf(s.curve, 1) {
		if r := o.residual(x, nil, s.plainGrad); r <= target {
			return r
		}
	}
	return o.Residual(x)
}

// residual returns the bound at x + low that follows from the gradient hi + lo there and the
// allowance for its error, derived in docs/theory/release.md#release.residual. A nil low is 0.
// Unless r + ι_C is [prox.Separable], low must be nil.
func (o *Objective) residual(
	x, low []float64, gradient func(x []float64) (hi, lo []float64, allowance float64),
) float64 {
	s := o.s()
	s.check(x)
	for _, v := range x {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return math.Inf(1)
		}
	}
	g, ok := certificate(s.reg, s.set, x)
	if !ok {
		return math.Inf(1)
	}
	hi, lo, allowance := gradient(x)
	if low == nil {
		low = make([]float64, len(x))
	}
	r := s.distance(g, x, low, hi, lo) + boundRoom*allowance + s.linearError
	if s.quadError > 0 {
		y := make([]float64, len(x))
		s.shift(y, x)
		r += s.quadError * (floats.Norm(y, 2) + floats.Norm(low, 2))
	}
	if shift := prox.RoundingOf(g).Shift(x); shift > 0 {
		r += (o.Smoothness() + s.quadError + o.Modulus()) * shift
	}
	r *= 1 + float64(len(x)+20)*0x1p-52 // the rounding of norms, of this sum and of Modulus
	if !(r >= 0) {
		return math.Inf(1)
	}
	return r
}

// certificate returns the operator whose subdifferential measures r + ι_C at x. If r + ι_C has no
// closed form, it is r for x ∈ C: as 0 ∈ N_C(x), dist(−v, ∂r(x)) is an upper bound, exact in the
// interior of C. Both parts must be about x itself: r may have a kink at x that it does not have at
// a nearby x′ ∈ C, and then no multiple of ‖x′−x‖ bounds the difference.
func certificate(reg prox.Operator, set prox.Set, x []float64) (prox.Subdifferential, bool) {
	g, _ := prox.Sum(reg, set)
	s, ok := g.(prox.Subdifferential)
	if !ok {
		if set == nil || set.Func(x) != 0 || prox.RoundingOf(set).Shift(x) != 0 || prox.RoundingOf(reg).Shift(x) != 0 {
			return nil, false
		}
		s, ok = reg.(prox.Subdifferential)
	}
	return s, ok
}

// distance returns an upper bound on dist(−(hi+lo), ∂g(x+low)), up to d+16 roundings of itself.
//
// For a sum over coordinates, ∂g is the box l2·x + [a,b], and its distance is computed in
// double-double, because Dist would round hi + lo. The numbers that num.Piece.Steepest adds are at
// most |v| + |l2·x| and, with l1 of the sign of x, |l2·x| + l1 ≤ |v| + distance, unless x = 0 or x
// is at a bound, where the distance is 0 or a rounding of |v|. The loss is at most 32u²|v|, and
// 2⁻⁹⁷|v| is added.
func (s *objective) distance(g prox.Subdifferential, x, low, hi, lo []float64) float64 {
	d := len(x)
	e, size := make([]float64, d), make([]float64, d)
	floats.AddTo(size, hi, lo)
	c, ok := prox.Separable(g)
	if !ok {
		dist := g.Dist(x, size) + allowDist*floats.Norm(size, 2)
		if c, ok := s.reg.(prox.Coordinatewise); ok {
			for j, v := range x {
				_, l2, _, _ := c.Coordinate(j)
				e[j] = l2 * v
			}
			dist += allowDist * floats.Norm(e, 2)
		}
		return dist
	}
	for j := range x {
		e[j], _ = num.NewPiece(c.Coordinate(j)).Steepest(num.Pair{Hi: x[j], Lo: low[j]}, num.Pair{Hi: hi[j], Lo: lo[j]})
	}
	return floats.Norm(e, 2) + 0x1p-97*floats.Norm(size, 2) + 2*float64(d)*tiny
}

// plainGrad returns ∇f(x) in float64, with lo = 0, and a bound on the norm of its error. The loss
// is a loss.Linear with a known sup φ″.
func (s *objective) plainGrad(x []float64) (grad, lo []float64, allowance float64) {
	d, dd := s.data.d, float64(s.data.d)
	want := askGrad | askBound
	if src := s.data.src; src != nil && src.view != nil {
		want |= askPrint // rows that were changed cannot certify a point
	}
	p := s.sum(want, x, nil)
	grad, allowance = slices.Clone(p.grad), p.allow
	s.done(p)
	terms := floats.Norm(grad, 2) + floats.Norm(s.linear, 2) // + ‖Q‖_F‖x−θ̃‖
	if s.diag != nil || s.quad != nil {
		y, qy := make([]float64, d), make([]float64, d)
		s.shift(y, x)
		s.addQuad(qy, y, 1)
		if s.quad != nil {
			terms += frobenius(s.quad) * floats.Norm(y, 2)
		} else { // Q is diagonal: every entry of Qy is one product
			terms += floats.Norm(qy, 2)
		}
		floats.Add(grad, qy)
	}
	if s.linear != nil {
		floats.Add(grad, s.linear)
	}
	return grad, make([]float64, d), allowance + (dd+4)*unit*terms + 4*dd*dd*tiny
}

// frobenius returns ‖q‖_F to a few roundings if the squares are normal numbers, and more if they
// are not.
func frobenius(q []float64) float64 {
	const least = 0x1p-1022
	return math.Sqrt(floats.Dot(q, q) + float64(len(q))*least)
}

// ResidualPair is Residual at the double-double point x + low, |lowⱼ| ≤ u|xⱼ|(1+u): where ∇²f is
// large, the float64 point nearest to a minimizer may be too far from it for a small residual. It
// stores ∇f(x+low) as grad + gradLow; neither may overlap x or low. It panics unless Public.Split
// and Public.Linear hold. Not private.
func (o *Objective) ResidualPair(grad, gradLow, x, low []float64) float64 {
	s := o.s()
	g, err := prox.Sum(s.reg, s.set)
	_, separable := prox.Separable(g)
	if err != nil || !separable || s.glm == nil {
		panic(badPair)
	}
	s.check(x, low, grad, gradLow)
	for j, v := range x {
		if math.IsNaN(v) || math.IsInf(v, 0) || v+low[j] != v {
			return math.Inf(1)
		}
	}
	return o.residual(x, low, func(x []float64) ([]float64, []float64, float64) {
		hi, lo, allowance := s.pairGrad(x, low)
		copy(grad, hi)
		copy(gradLow, lo)
		return hi, lo, allowance
	})
}
