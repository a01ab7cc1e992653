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

	w      []float64
	try    []float64
	kTry   []float64
	inside []float64 // a mean of points with a finite J, or x0
	shown  []float64 // the point of the least J
	value  float64   // J(shown), +Inf before the first finite one
	slack  float64   // the rounding of value
	low    float64   // the greatest lower bound on J*
	gap    float64   // a bound on J(shown) − J*
	delta  float64   // the least ‖δ‖ at which the gap was computed
	// rounded counts the steps whose ‖x−y‖ was at rounding.
	rounded int
	// earlier bounds the rounding of a u ∈ ∂g(y) that an earlier step has computed.
	earlier float64
	stagnation
	disjoint
}

func (c *certificate) init(p Problem, x0 []float64) {
	n := len(x0)
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
	c.k = p.linear(n)
	rows, _ := c.k.Dims()
	for _, v := range []*[]float64{&c.w, &c.shown, &c.try, &c.inside} {
		*v = resize(*v, n)
	}
	c.kTry = resize(c.kTry, rows)
	c.disjoint.init(p, c.k, x0)
	copy(c.inside, x0)
	c.value, c.low = math.Inf(1), math.Inf(-1)
	c.gap, c.delta = math.Inf(1), math.Inf(1)
	c.earlier, c.rounded = 0, 0
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
		c.rp = ratio(gamma*delta, norm(x)+norm(y))
		c.rd = ratio(delta, c.grad+c.stagnation.lip*norm(x)+(separation(p, y)+separation(p, x))/gamma)
		c.atRounding(delta <= 1e-14*(c.grad+separation(p, y)/gamma+norm(x)/gamma))
		c.look(y, x, y, x)
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

// dual sets the location to the point of the least J, or to x before the first finite J.
func (c *certificate) dual(loc *Location, x, y, p []float64, delta, hidden, gamma float64) {
	if c.due(delta) {
		var cross float64
		for i := range x {
			cross += (p[i] - x[i]) / gamma * (y[i] - x[i]) // ⟨v, y − x⟩
		}
		fy, gy := c.f.Func(y), c.g.Func(y)
		hx := c.h.Func(x)
		c.offer(x, terms3{c.f.Func(x), c.g.Func(x), hx}, math.Inf(1))
		c.offer(y, terms3{fy, gy, c.h.Func(y)}, math.Inf(1))
		tail := math.Min(c.tail(delta+hidden, gamma), (delta+hidden)*(c.reach.of(c.value)+norm(y)))
		// Γ is a difference of these numbers: 32 units in the last place of
		// each are added for their rounding.
		slack := 0x1p-47*(math.Abs(fy)+math.Abs(gy)+math.Abs(hx)+math.Abs(cross)) + hidden*delta*gamma
		c.raise(fy + gy + hx + cross - tail - slack)
	}
	c.leastGap(loc, x)
}

// terms3 are the values of f, g and h∘K at a point.
type terms3 struct{ f, g, h float64 }

func (t terms3) sum() float64   { return t.f + t.g + t.h }
func (t terms3) slack() float64 { return 0x1p-47 * (math.Abs(t.f) + math.Abs(t.g) + math.Abs(t.h)) }

// pairAt returns the multipliers of a step, u = (z − y)/γ ∈ ∂g(y) and v = (p − x)/γ ∈ ∂h(x).
func (c *certificate) pairAt(x, y, p, grad []float64, gamma float64) Multipliers {
	u, v := make([]float64, len(x)), make([]float64, len(x))
	for i, pi := range p {
		u[i] = (y[i]-pi)/gamma - grad[i]
		v[i] = (pi - x[i]) / gamma
	}
	return Multipliers{u, v}
}

// offer makes x the shown point if its J is the least so far, or agrees with the least within
// rounding: J is flat at a minimizer, and the later point is the better one. gap is a bound on
// J(x) − J* that is known besides.
//
// If J(x) is +Inf, it offers the first point of finite J on the way from x to a mean of points that
// had one, at most 2⁻²⁶ of it: that point lies in the domain of J in float64.
func (c *certificate) offer(x []float64, t terms3, gap float64) {
	if math.IsInf(t.sum(), 1) {
		if t = c.repair(x); math.IsInf(t.sum(), 1) {
			return
		}
		x, gap = c.try, math.Inf(1)
	} else { // a mean of points of the domain lies deeper in it
		if math.IsInf(c.value, 1) {
			copy(c.inside, x)
		}
		for i, v := range x {
			c.inside[i] = v + (c.inside[i]-v)/2
		}
	}
	value, slack := t.sum(), t.slack()
	c.broken = c.broken || math.IsNaN(t.f)
	if !(value <= c.value+0x1p-44*math.Abs(value)) {
		return
	}
	gap = math.Min(gap, c.above(value, slack))
	if !math.IsInf(c.gap, 1) {
		gap = math.Min(gap, c.gap+math.Max(value-c.value, 0)+slack+c.slack)
	}
	c.value, c.slack = value, slack
	c.gap = gap
	copy(c.shown, x)
}

// above returns the bound on J(X) − J* of a point with the computed value J(X), +Inf if there is
// none. A lower bound above the value proves nothing.
func (c *certificate) above(value, slack float64) float64 {
	if gap := value + slack - c.low; gap >= 0 {
		return gap
	}
	return math.Inf(1)
}

// raise takes low for a lower bound on J*.
func (c *certificate) raise(low float64) {
	if low > c.low && low <= c.value+c.slack {
		c.low = low
	}
	c.gap = math.Min(c.gap, c.above(c.value, c.slack))
	c.stalled = c.stalled || c.rounded > 0 && c.gap <= math.MaxFloat64
}

// repair stores in c.try the first x + t(x̄ − x), t = 2⁻⁵⁰, 2⁻⁴⁷, …, 2⁻²⁶, of finite J, x̄ the mean
// of points of finite J, and returns the values there.
func (c *certificate) repair(x []float64) (t terms3) {
	t = terms3{h: math.Inf(1)}
	for s := 0x1p-50; s <= 0x1p-24; s *= 8 {
		for i, v := range x {
			c.try[i] = v + s*(c.inside[i]-v)
		}
		g := c.g.Func(c.try)
		if math.IsInf(g, 1) {
			continue
		}
		c.k.MulVec(c.kTry, c.try)
		if h := c.h.Func(c.kTry); !math.IsInf(h, 1) {
			return terms3{c.f.Func(c.try), g, h}
		}
	}
	return t
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
// or at the first finite gap: see raise.
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

// leastGap sets the location to the shown point, or to x before the first finite gap.
func (c *certificate) leastGap(loc *Location, x []float64) {
	if loc.Residual = math.Inf(1); c.broken {
		loc.Residual = math.NaN()
	}
	if math.IsInf(c.gap, 1) {
		copy(loc.X, x)
		return
	}
	if mu := c.atY + c.atX; mu > 0 && !c.broken {
		loc.Residual = math.Sqrt(2 * mu * c.gap)
	}
	copy(loc.X, c.shown)
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
	unit    float64 // 1/γ for an affine f, whose curvature 0 gives residuals no scale
	residuals
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
	s.bestRes, s.age = math.Inf(1), 0
	s.lip, s.known = lip, lip
	s.stalled = false
	if math.IsInf(lip, 1) {
		s.lip = 0 // unknown: the scale is that of the gradient
	}
	s.first, s.unit = 0, 0
	s.forget()
}

// hidden bounds the rounding error of a residual (x − y)/γ by 2⁻⁵⁰(‖x‖+‖y‖)/γ, eight roundings of
// each point, because proximal maps have several. For γ ≈ 1/L_f this is no more than the rounding
// of ∇f, for which residuals have no allowance, so hidden returns 0; a step that is much shorter
// may move nothing. It also returns 0 for an affine f, where no conclusion is drawn from the
// residual.
func (s *stagnation) hidden(x, y []float64, gamma float64) float64 {
	if s.known == 0 {
		s.unit = 1 / gamma
	}
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
		s.forget()
		return
	}
	size := s.grad + s.lip*norm(loc.X)
	s.compare(loc.Residual, size+s.unit*norm(loc.X))
	if loc.Residual < s.bestRes {
		s.bestRes, s.age = loc.Residual, 0
		s.scale = size
		copy(s.best, loc.X)
		s.stalled = loc.Residual == 0
		return
	}
	if s.age >= stagnationAge && s.bestRes <= 1e-12*s.scale {
		s.stalled = true
		copy(loc.X, s.best)
		loc.Residual = s.bestRes
		s.compare(s.bestRes, s.scale+s.unit*norm(loc.X))
	}
}
