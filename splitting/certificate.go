// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting

import (
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/prox"
)

// certificate bounds the distance of a point from the minimizer of f + g + h by quantities that a
// step of three-operator splitting computes:
//
//	y = prox_{γg}(z),   x = prox_{γh}(p),   p = 2y − z − γ∇f(y).
//
// Proofs: docs/theory/splitting.md#splitting.residual
type certificate struct {
	f       Smooth
	g, h    prox.Operator
	sum     prox.Operator // g + h, nil if unknown
	noG     bool
	noH     bool
	mu, lip float64
	atY     float64 // modulus of strong convexity of f + g, for the distance from y
	atX     float64 // modulus of h, for the distance from x, where K is nil
	reach   reach
	terms   int

	w     []float64
	shown []float64 // the point of the least gap
	gap   float64   // its Γ, +Inf before the first
	delta float64   // the least ‖δ‖ at which the gap was computed
	// rounded counts the steps whose ‖x−y‖ was at rounding.
	rounded int
	// earlier bounds the rounding of a u ∈ ∂g(y) that an earlier step has computed.
	earlier float64
	stagnation
}

func (c *certificate) init(p Problem, n int) {
	c.f, c.g, c.h = smooth(p.F), operator(p.G), operator(p.H)
	c.noG, c.noH = p.G == nil, p.H == nil
	c.sum = nil
	if sum, ok := p.sum(); ok {
		c.sum = sum
	}
	c.mu, c.lip, c.terms = convexity(p.F), c.f.Smoothness(), terms(p.F)
	c.atY, c.atX = c.mu+modulus(p.G, n), 0
	if p.K == nil {
		c.atX = modulus(p.H, n)
	}
	if c.reach = (reach{radius: math.Inf(1)}); c.sum == nil {
		c.reach = newReach(p, n)
	}
	c.w, c.shown = resize(c.w, n), resize(c.shown, n)
	c.gap, c.delta, c.earlier, c.rounded = math.Inf(1), math.Inf(1), 0, 0
	c.stagnation.init(n, c.lip)
}

// prove sets the location; grad is ∇f(y).
func (c *certificate) prove(loc *Location, stats *Stats, x, y, p, grad []float64, gamma float64) {
	delta := separation(x, y) / gamma // ‖δ‖
	c.norm(grad)
	hidden := c.hidden(x, y, gamma)
	switch {
	case c.overflowed(loc):
		copy(loc.X, x)
		return
	case c.noH:
		copy(loc.X, y)
		loc.Residual = delta + hidden + c.earlier
	case c.sum != nil && c.noG && (gamma*c.lip <= 2 || math.IsInf(c.lip, 1)):
		copy(loc.X, x) // prox_{γh}(y − γ∇f(y)) already
		c.mapped(loc, stats, y, grad, gamma)
	case c.sum != nil:
		c.mapping(loc, stats, y, grad, gamma)
	default:
		c.atRounding(delta <= 1e-14*(c.grad+separation(p, y)/gamma+norm(x)/gamma))
		c.dual(loc, x, y, p, delta, hidden+c.earlier, gamma)
		return
	}
	c.watch(loc)
}

// mapping sets the location to X = prox_{cψ}(y − c∇f(y)), c = min{γ, 1/L_f}.
func (c *certificate) mapping(loc *Location, stats *Stats, y, grad []float64, gamma float64) {
	if gamma*c.lip > 1 && !math.IsInf(c.lip, 1) {
		gamma = 1 / c.lip
	}
	floats.AddScaledTo(c.w, y, -gamma, grad)
	c.sum.Prox(loc.X, c.w, gamma)
	stats.Proxes++
	c.mapped(loc, stats, y, grad, gamma)
}

// mapped sets the residual of X = prox_{γψ}(y − γ∇f(y)) to ‖e‖, or its bound.
func (c *certificate) mapped(loc *Location, stats *Stats, y, grad []float64, gamma float64) {
	if gamma*c.lip <= 2 {
		loc.Residual = separation(y, loc.X) / gamma
	} else {
		c.f.Grad(c.w, loc.X)
		stats.GradTerms += c.terms
		for i := range c.w {
			c.w[i] += (y[i]-loc.X[i])/gamma - grad[i]
		}
		loc.Residual = norm(c.w)
	}
	loc.Residual += c.hidden(loc.X, y, gamma)
}

// dual sets the location to the point of the least gap, or to x before the first finite gap.
func (c *certificate) dual(loc *Location, x, y, p []float64, delta, hidden, gamma float64) {
	if c.due(delta) {
		var cross float64
		for i := range x {
			cross += (p[i] - x[i]) / gamma * (y[i] - x[i]) // ⟨v, y − x⟩
		}
		fy, gy, hx := c.f.Func(y), c.g.Func(y), c.h.Func(x)
		strong := c.tail(delta+hidden, gamma)
		// Γ is a difference of these numbers: 64 units in the last place of
		// each are added for their rounding.
		slack := 0x1p-46*(math.Abs(fy)+math.Abs(gy)+math.Abs(hx)+math.Abs(cross)) + hidden*delta*gamma
		try := func(at []float64, value float64) {
			tail := math.Min(strong, (delta+hidden)*(c.reach.of(value)+norm(y)))
			if low := fy + gy + hx + cross - tail; c.better(value - low + slack) {
				copy(c.shown, at)
			}
		}
		try(x, c.f.Func(x)+c.g.Func(x)+hx)
		try(y, fy+gy+c.h.Func(y))
	}
	c.leastGap(loc, x)
}

// due reports whether a gap is worth computing: ‖δ‖ has halved since the last one, or rounding
// prevents it from halving.
func (c *certificate) due(delta float64) bool {
	if !c.bounded() || !(delta <= 0.5*c.delta) && c.rounded == 0 {
		return false
	}
	c.delta = math.Min(c.delta, delta)
	return true
}

// patience is the number of steps at rounding within which a pair of sets may find a common point
// in float64.
const patience = 100

// atRounding counts the steps at which ‖x−y‖ is at rounding. The solve ends after patience of them,
// or at the first finite gap: see better.
func (c *certificate) atRounding(now bool) {
	if !now {
		return
	}
	if c.rounded++; c.rounded > patience || !c.bounded() {
		c.stalled = true
	}
}

// bounded reports whether a gap can be finite: J is strongly convex, or its minimizers are bounded.
func (c *certificate) bounded() bool { return c.atY+c.atX > 0 || !c.reach.none() }

// tail returns sup_w ⟨δ,w−y⟩ − (A/2)‖w−y‖² − (B/2)‖w−x‖² for x = y + γδ, A = atY and B = atX.
func (c *certificate) tail(delta, gamma float64) float64 {
	if c.atY+c.atX == 0 {
		return math.Inf(1)
	}
	b := c.atX * gamma
	return delta*delta/(2*(c.atY+c.atX))*(1+b)*(1+b) - b*gamma*delta*delta/2
}

// leastGap sets the location to the point of the least gap, or to x before the first finite gap.
func (c *certificate) leastGap(loc *Location, x []float64) {
	if loc.Residual = math.Inf(1); math.IsInf(c.gap, 1) {
		copy(loc.X, x)
		return
	}
	if mu := c.atY + c.atX; mu > 0 {
		loc.Residual = math.Sqrt(2 * mu * c.gap)
	}
	copy(loc.X, c.shown)
}

// better keeps Γ if it is the least so far, and reports whether it is. A Γ that is negative beyond
// rounding proves nothing.
func (c *certificate) better(gap float64) bool {
	c.stalled = c.stalled || c.rounded > 0 && gap >= 0 && gap <= math.MaxFloat64
	if !(gap >= 0) || !(gap < c.gap) {
		return false
	}
	c.gap = gap
	return true
}

// dualityGap returns the bound for problems whose residual is not an element of ∂J(X), and +Inf for
// other problems.
func (c *certificate) dualityGap() float64 { return c.gap }

// stagnation detects that rounding allows no further progress: the residual is a few thousand
// roundings of the terms whose difference it is, and a thousand steps have not found a smaller
// residual. The location then becomes the best point.
type stagnation struct {
	best    []float64
	bestRes float64
	age     int
	scale   float64 // of the terms of the residual at the best point
	lip     float64
	known   float64 // L_f, +Inf if unknown
	grad    float64 // ‖∇f‖ at the last gradient
	stalling
}

// stalling is a Statuser that ends the solve once rounding allows no progress.
type stalling struct{ stalled bool }

// Status implements Statuser.
func (s *stalling) Status() (Status, error) {
	if s.stalled {
		return Stalled, nil
	}
	return NotTerminated, nil
}

const stagnationAge = 1000

func (s *stagnation) init(n int, lip float64) {
	s.best = resize(s.best, n)
	s.bestRes, s.age, s.lip, s.known, s.stalled = math.Inf(1), 0, lip, lip, false
	if math.IsInf(lip, 1) {
		s.lip = 0 // unknown: the scale is that of the gradient
	}
}

// hidden bounds the rounding error of a residual (x − y)/γ by 2⁻⁵⁰(‖x‖+‖y‖)/γ, eight roundings of
// each point, because proximal maps have several. For γ ≈ 1/L_f this is no more than the rounding
// of ∇f, for which residuals have no allowance, so hidden returns 0; a step that is much shorter
// may move nothing. It also returns 0 for an affine f, where no conclusion is drawn from the
// residual.
func (s *stagnation) hidden(x, y []float64, gamma float64) float64 {
	if s.known == 0 || gamma*s.known >= 0.5 && !math.IsInf(s.known, 1) {
		return 0
	}
	s.lip = math.Max(s.lip, 1/gamma)
	return 0x1p-50 * (norm(x) + norm(y)) / gamma
}

// norm stores ‖∇f‖ for watch.
func (s *stagnation) norm(grad []float64) { s.grad = norm(grad) }

// overflowed reports whether the gradient is not finite, and then sets the residual to +Inf, or to
// NaN if the gradient has a NaN: such a gradient proves nothing.
func (s *stagnation) overflowed(loc *Location) bool {
	if s.grad <= math.MaxFloat64 {
		return false
	}
	loc.Residual, s.stalled = s.grad, false
	return true
}

// watch keeps the location of the least residual, and returns to it once rounding allows no
// progress.
func (s *stagnation) watch(loc *Location) {
	s.age++
	if s.overflowed(loc) {
		return
	}
	if loc.Residual < s.bestRes {
		s.bestRes, s.age, s.scale = loc.Residual, 0, s.grad+s.lip*norm(loc.X)
		copy(s.best, loc.X)
		s.stalled = loc.Residual == 0
		return
	}
	if s.age >= stagnationAge && s.bestRes <= 1e-12*s.scale {
		s.stalled = true
		copy(loc.X, s.best)
		loc.Residual = s.bestRes
	}
}
