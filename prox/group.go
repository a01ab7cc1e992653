// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package prox

import (
	"math"
	"slices"
)

// GroupL2 is g(x) = Weight·Σ_k w_k‖x_{G_k}‖₂ over disjoint groups of coordinates, the regularizer
// of the group lasso. Coordinates in no group are free. The caller must not change the slices.
// [PB14, §6.5.4]
type GroupL2 struct {
	Groups [][]int
	Weight float64
	// Weights are the w_k ≥ 0, such as the roots of the sizes of the groups; nil means 1 for all.
	Weights []float64
}

// weight returns Weight·w_k.
func (g GroupL2) weight(k int) float64 {
	if g.Weights == nil {
		return g.Weight
	}
	return g.Weight * g.Weights[k]
}

// grouped is s(x) + GroupL2(x), where s has the orthant form of radial. Its proximal map is
// prox_GroupL2∘prox_s [Yu13, Thm. 1], as in docs/theory/numerics.md#numerics.sphere: the group step
// scales each group by a factor in [0,1], so ∂s(y) ⊆ ∂s of the result.
type grouped struct {
	s separable // l1, lo, hi; its l2 is 0
	g GroupL2
}

const badGroup = "prox: group index out of range"

// norm returns ‖x_G‖₂ of the coordinates in group.
func (g GroupL2) norm(x []float64, group []int) float64 {
	big := 0.0
	for _, i := range group {
		if i < 0 || i >= len(x) {
			panic(badGroup)
		}
		big = max(big, math.Abs(x[i]))
	}
	if big == 0 || !(big <= math.MaxFloat64) {
		return big
	}
	sum := 0.0
	for _, i := range group {
		t := x[i] / big
		sum += t * t
	}
	return big * math.Sqrt(sum)
}

func (g grouped) Func(x []float64) float64 {
	sum := g.s.Func(x)
	for k, group := range g.g.Groups {
		sum += g.g.weight(k) * g.g.norm(x, group)
	}
	return number(sum)
}

func (g grouped) Prox(dst, x []float64, gamma float64) {
	g.s.Prox(dst, x, gamma)
	for k, group := range g.g.Groups {
		t, n := gamma*g.g.weight(k), g.g.norm(dst, group)
		c := max(0, 1-t/n) // (1 − γ·Weight/‖y_G‖)₊
		if n == 0 || n <= t {
			c = 0
		}
		for _, i := range group {
			dst[i] *= c
		}
	}
}

// Dist: a group with x_G ≠ 0 has the gradient Weight·x_G/‖x_G‖, one with x_G = 0 the ball {‖u‖₂ ≤
// Weight}, which shortens the distance of the rest by up to Weight.
func (g grouped) Dist(x, v []float64) float64 {
	sameLen(x, v)
	buf := borrow(len(x))
	defer giveBack(buf)
	e := *buf
	for i, xi := range x {
		e[i] = g.s.gap(xi, v[i])
	}
	for k, group := range g.g.Groups {
		w, n := g.g.weight(k), g.g.norm(x, group)
		c := 1.0
		if n == 0 {
			r := g.g.norm(e, group)
			if c = max(0, 1-w/r); r <= w {
				c = 0
			}
		}
		for _, i := range group {
			if n == 0 {
				e[i] *= c
			} else {
				e[i] = g.s.gap(x[i], v[i]+w*(x[i]/n))
			}
		}
	}
	return number(norm2(e))
}

func (g grouped) check(dim int) error {
	if err := g.s.check(dim); err != nil {
		return err
	}
	return g.g.check(dim)
}

func (g GroupL2) asGrouped() grouped { return grouped{whole(), g} }

// Func returns Weight·Σ_k w_k‖x_{G_k}‖₂. It panics on an index outside x.
func (g GroupL2) Func(x []float64) float64 { return g.asGrouped().Func(x) }

// Prox stores (1 − γ·Weight·w_k/‖x_{G_k}‖₂)₊ x_{G_k} in dst for each group and
// copies the other coordinates. It panics on an index outside x.
func (g GroupL2) Prox(dst, x []float64, gamma float64) { g.asGrouped().Prox(dst, x, gamma) }

// Dist returns dist(−v, ∂g(x)), group by group as for L2Norm.
func (g GroupL2) Dist(x, v []float64) float64 { return g.asGrouped().Dist(x, v) }

func (g GroupL2) check(dim int) error {
	if err := weight("GroupL2.Weight", g.Weight); err != nil {
		return err
	}
	if g.Weights != nil {
		if err := weights("GroupL2.Weights", g.Weights, len(g.Groups)); err != nil {
			return err
		}
	}
	seen := make(map[int]bool)
	for k, group := range g.Groups {
		for _, i := range group {
			if i < 0 || i >= dim {
				return invalid("GroupL2.Groups[%d] has index %d, want one in [0, %d)", k, i, dim)
			}
			if seen[i] {
				return invalid("GroupL2.Groups[%d] repeats index %d, want disjoint groups", k, i)
			}
			seen[i] = true
		}
	}
	return nil
}

// SplitGroups writes the regularizer of overlapping groups as a sum g = g_1 + g_2 + … of pieces
// with disjoint groups. Each piece has a proximal map in closed form, and a splitting method takes
// the pieces as its terms. Two pieces suffice for groups that overlap with their neighbors only,
// such as windows that slide by at least half their length; with more pieces, use copies of x and
// an Affine set [PB14, §5.2].
//
// Each group goes, in order, to the first piece without a common index. For intervals in order of
// their first index no split has fewer pieces. Groups and their order are kept; a group that
// repeats an index stays invalid.
func SplitGroups(g GroupL2) []GroupL2 {
	var pieces []GroupL2
	var taken []map[int]bool
	for j, group := range g.Groups {
		k := 0
		for k < len(pieces) && slices.ContainsFunc(group, func(i int) bool { return taken[k][i] }) {
			k++
		}
		if k == len(pieces) {
			pieces, taken = append(pieces, GroupL2{Weight: g.Weight}), append(taken, make(map[int]bool))
		}
		pieces[k].Groups = append(pieces[k].Groups, slices.Clone(group))
		if j < len(g.Weights) {
			pieces[k].Weights = append(pieces[k].Weights, g.Weights[j])
		}
		for _, i := range group {
			taken[k][i] = true
		}
	}
	return pieces
}
