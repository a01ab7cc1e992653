// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting

import (
	"fmt"
	"math"
	"math/bits"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/prox"
)

// disjoint looks for a proof that the sets G and H∘K have no common point. Then the steps of y tend
// to a vector n with
//
//	n₂ = n normal to H at e,   n₁ = −Kᵀn normal to G at c,   ⟨n₁,c⟩ + ⟨n₂,e⟩ < 0.
//
// The projections of x + tn₁ and p + tn₂ give exact normals n₁′ and n₂′. Every w ∈ G with Kw ∈ H
// has ⟨n₁′ + Kᵀn₂′, w⟩ ≤ ⟨n₁′,c⟩ + ⟨n₂′,e⟩ = −m, and if m > 0
//
//	‖w‖ ≥ m/‖n₁′ + Kᵀn₂′‖ = R.
//
// Proof: docs/theory/splitting.md#splitting.infeasible
type disjoint struct {
	k          Linear
	g, h       prox.Set  // nil for functions that are not sets
	start      float64   // ‖x0‖
	n1, n2, kn []float64 // normals; Kᵀn₂
	at, image  []float64 // c and e
	count      uint      // steps
	radius     float64   // R once it is large, else 0
	broken     bool      // a function was NaN at a finite point
}

// farRadius is the ratio of R to the size of the iterates from which on a problem counts as
// infeasible.
const farRadius = 1e8

// far is the ratio of t‖n‖ to the size of the point that is projected.
const far = 1 << 10

func (s *disjoint) init(p Problem, k Linear, x0 []float64) {
	s.g, _ = p.G.(prox.Set)
	s.h, _ = p.H.(prox.Set)
	s.k, s.start = k, norm(x0)
	s.count, s.radius = 0, 0
	s.broken = false
	rows, n := k.Dims()
	s.n1, s.kn, s.at = resize(s.n1, n), resize(s.kn, n), resize(s.at, n)
	s.n2, s.image = resize(s.n2, rows), resize(s.image, rows)
}

// look tests n₂ = a − b, the direction of a step of y, at the points x of G and p of H, when the
// number of calls doubles.
func (s *disjoint) look(x, p, a, b []float64) {
	if s.count++; s.h == nil || s.count < 4 || bits.OnesCount(s.count) != 1 {
		return
	}
	floats.SubTo(s.n2, a, b)
	s.k.MulVecTrans(s.n1, s.n2)
	for i := range s.n1 {
		s.n1[i] = -s.n1[i]
	}
	size := math.Max(norm(x), s.start)
	if k := s.k.Norm(); k > 0 {
		size = math.Max(size, norm(p)/k)
	}
	m := normalAt(s.h, s.image, s.n2, p, size*s.k.Norm())
	if s.g == nil {
		clear(s.n1)
	} else {
		m += normalAt(s.g, s.at, s.n1, x, size)
	}
	s.k.MulVecTrans(s.kn, s.n2)
	var sum float64
	for i, v := range s.n1 {
		v += s.kn[i]
		sum += v * v
	}
	// The products and the differences are rounded.
	rest := math.Sqrt(sum) + 0x1p-48*(norm(s.n1)+s.k.Norm()*norm(s.n2))
	if r := m / rest; r >= farRadius*size && r <= math.MaxFloat64 {
		s.radius = r
	}
}

// normalAt replaces n by the normal (w − c)/t of the set at c = P(w), w = at + tn, stores c and
// returns −⟨n,c⟩ less its rounding.
func normalAt(set prox.Set, c, n, at []float64, size float64) float64 {
	t := far * size / norm(n)
	if !(t > 0) || math.IsInf(t, 1) {
		clear(n)
		return 0
	}
	for i, v := range n {
		n[i] = at[i] + t*v
	}
	set.Prox(c, n, 1)
	var m float64
	for i, ci := range c {
		n[i] = (n[i] - ci) / t
		m -= n[i] * ci
	}
	return m - 0x1p-48*norm(n)*norm(c)
}

// Status implements Statuser.
func (c *certificate) Status() (Status, error) {
	if c.radius > 0 {
		return Infeasible, fmt.Errorf("%w: no point of norm below %.3g satisfies them", ErrInfeasible, c.radius)
	}
	return c.stagnation.Status()
}

// proof returns the normals of an infeasible problem, the multipliers of its Result.
func (s *disjoint) proof() (dual Multipliers, ok bool) {
	return Multipliers{s.n1, s.n2}, s.radius > 0
}
