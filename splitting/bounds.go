// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting

import (
	"math"

	"github.com/privopt/privopt/prox"
)

// gapper is a Method that bounds J(X) − J* by duality.
type gapper interface {
	dualityGap() float64 // a bound at the X of the last Step, +Inf if none is known
}

// bounds computes bounds on the gap and the distance of a location.
type bounds struct {
	problem  Problem
	method   Method
	settings *Settings
	ready    bool
	mu       float64 // a modulus of J
	reach    *reach
	size     float64 // the larger norm of x0 and the first X
}

// modulus returns the μ of J. Under coordinate descent and an InteriorPoint it leaves out the μ of
// quadratics of more than 300 coordinates: the eigenvalues would cost more than the solve.
func (b *bounds) modulus(dim int) float64 {
	if b.ready {
		return b.mu
	}
	b.ready, b.mu = true, modulus(b.problem.G, dim)
	if b.problem.K == nil {
		b.mu += modulus(b.problem.H, dim)
	}
	_, descent := b.method.(*CoordinateDescent)
	_, interior := b.method.(*InteriorPoint)
	if !(descent || interior) || !costlyModulus(b.problem.F) {
		b.mu += convexity(b.problem.F)
	}
	return b.mu
}

// costlyModulus reports whether the eigenvalues of f would cost more than a solve.
func costlyModulus(f Smooth) bool {
	switch f := f.(type) {
	case *parabola:
		return len(f.lin) > 300
	case *LinearModel:
		return f.squares() && f.Dim() > 300
	}
	return false
}

// distance returns Residual/μ, a bound on ‖X − x*‖, and +Inf where no μ > 0 is known.
func (b *bounds) distance(loc *Location) float64 {
	if mu := b.modulus(len(loc.X)); mu > 0 {
		return loc.Residual / mu
	}
	return math.Inf(1)
}

// gap returns the least known bound on J(X) − J*: the bound of the method, Residual²/(2μ), or
// without strong convexity Residual·(‖X‖ + ‖x*‖).
func (b *bounds) gap(loc *Location) float64 {
	least := math.Inf(1)
	if g, ok := b.method.(gapper); ok {
		if gap := g.dualityGap(); gap >= 0 {
			least = gap
		}
	}
	mu := b.modulus(len(loc.X))
	switch {
	case math.IsInf(loc.Residual, 1):
	case mu > 0:
		// The order of the operations avoids overflow where the result is finite.
		least = math.Min(least, loc.Residual/mu*loc.Residual/2)
	case math.IsInf(least, 1):
		if b.reach == nil {
			r := newReach(b.problem, len(loc.X))
			b.reach = &r
		}
		if b.reach.none() {
			break
		}
		far := b.reach.radius
		if b.reach.slope > 0 {
			far = b.reach.of(b.problem.Func(loc.X))
		}
		if gap := loc.Residual * (norm(loc.X) + far); gap >= 0 {
			least = gap
		}
	}
	return least
}

// isNonnegative reports whether f ≥ 0 is known.
func isNonnegative(f Smooth) bool {
	n, ok := f.(interface{ nonnegative() bool })
	return ok && n.nonnegative()
}

// modulus returns a lower bound on the modulus of strong convexity of g in dim dimensions: the
// least l2 of its coordinates, and 0 for a g that is not coordinatewise.
func modulus(g prox.Operator, dim int) float64 {
	c, ok := g.(coordinatewise)
	if !ok {
		return 0
	}
	least := math.Inf(1)
	for i := range dim {
		if _, l2, _, _ := c.Coordinate(i); !(l2 >= least) {
			least = l2
		}
	}
	if least > 0 && !math.IsInf(least, 1) {
		return least
	}
	return 0
}

// reach bounds the norm of a minimizer x* of f + g + h that is not strongly convex, by the radius
// of a set or by the growth of norms. If f ≥ 0 and g + h ≥ slope·‖x_U‖, U the coordinates without
// bounds, J(x*) ≤ J(X) implies
//
//	‖x*‖² ≤ Σ_{i∉U} max(lo_i², hi_i²) + (J(X)/slope)².
type reach struct {
	radius float64 // of a set, +Inf if there is none
	box    float64 // Σ_{i∉U} max(lo_i², hi_i²)
	slope  float64 // 0 if the growth is not known
}

// newReach computes the reach of p in dim dimensions.
func newReach(p Problem, dim int) reach {
	r := reach{radius: math.Inf(1)}
	// square holds the squared slope of each coordinate: Σ_k ‖B_k x‖ ≥ ‖(B_1; B_2; …)x‖.
	square := make([]float64, dim)
	edge := make([]float64, dim)
	for i := range edge {
		edge[i] = math.Inf(1)
	}
	low := p.F == nil || isNonnegative(p.F)
	for k, g := range []prox.Operator{p.G, p.H} {
		if g == nil {
			continue
		}
		low = low && atLeastZero(g)
		if k == 1 && p.K != nil { // h(Kx) bounds Kx, not x
			continue
		}
		if set, ok := g.(prox.Set); ok {
			if radius := set.Radius(dim); radius >= 0 {
				r.radius = math.Min(r.radius, radius)
			}
		}
		grow(g, square, edge)
	}
	least := math.Inf(1)
	for i, s := range square {
		if !math.IsInf(edge[i], 1) {
			r.box += edge[i] * edge[i]
		} else {
			least = math.Min(least, s)
		}
	}
	switch {
	case math.IsInf(least, 1): // every coordinate is bounded
		r.radius = math.Min(r.radius, math.Sqrt(r.box))
	case low:
		r.slope = math.Sqrt(least)
	}
	return r
}

// atLeastZero reports whether g ≥ 0 is known.
func atLeastZero(g prox.Operator) bool {
	switch g.(type) {
	case prox.Set, coordinatewise, prox.Huber, prox.Hinge, prox.TotalVariation,
		prox.L2Norm, prox.LInfNorm, prox.GroupL2, prox.SortedL1, prox.NuclearNorm:
		return true
	}
	return false
}

// grow adds the growth of g to square, or a bound |x_i| ≤ edge_i to edge.
func grow(g prox.Operator, square, edge []float64) {
	dim := float64(len(square))
	all := func(slope float64) {
		for i := range square {
			square[i] += slope * slope
		}
	}
	switch g := g.(type) {
	case prox.L2Norm:
		all(g.Weight)
	case prox.NuclearNorm:
		all(g.Weight)
	case prox.LInfNorm: // ‖x‖∞ ≥ ‖x‖/√d
		all(g.Weight / math.Sqrt(dim))
	case prox.SortedL1: // Σ λ_k|x|_(k) ≥ λ_1‖x‖∞
		if len(g.Weights) > 0 {
			all(g.Weights[0] / math.Sqrt(dim))
		}
	case prox.GroupL2:
		for k, group := range g.Groups {
			w := g.Weight
			if g.Weights != nil {
				w *= g.Weights[k]
			}
			for _, i := range group {
				square[i] += w * w
			}
		}
	case coordinatewise:
		for i := range square {
			l1, _, lo, hi := g.Coordinate(i)
			square[i] += l1 * l1
			edge[i] = math.Min(edge[i], math.Max(math.Abs(lo), math.Abs(hi)))
		}
	}
}

// of returns the bound on ‖x*‖ from J(X) = value.
func (r reach) of(value float64) float64 {
	if r.slope > 0 && value >= 0 {
		return math.Min(r.radius, math.Hypot(math.Sqrt(r.box), value/r.slope))
	}
	return r.radius
}

// none reports whether no bound is known for any value.
func (r reach) none() bool { return math.IsInf(r.radius, 1) && !(r.slope > 0) }
