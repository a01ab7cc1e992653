// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package prox

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// SortedL1 is g(x) = Σ_k Weights[k]·|x|_(k), where |x|_(1) ≥ |x|_(2) ≥ … are the sorted magnitudes
// and the weights do not increase: SLOPE, also called OWL. Equal weights give the ℓ1 norm, weights
// (w, 0, …, 0) the ℓ∞ norm. The caller must not change Weights. [BBSSC15]
//
// prox_{γg} sorts |x|, subtracts γ·Weights, pools adjacent violators of the order and clips at 0,
// in O(d log d) [BBSSC15, Alg. 4]. Pooled coordinates are equal to the last bit, so faces are
// decided exactly.
type SortedL1 struct{ Weights []float64 }

// ranked is a coordinate in order of its key.
type ranked struct {
	key float64
	i   int
}

var rankings lender[ranked]

// descend sorts by falling key.
func descend(z []ranked) {
	slices.SortFunc(z, func(a, b ranked) int { return cmp.Compare(b.key, a.key) })
}

// magnitudes returns the |x_i| in falling order, in borrowed scratch.
func magnitudes(x []float64) *[]ranked {
	buf := rankings.borrow(len(x))
	for i, xi := range x {
		(*buf)[i] = ranked{key: math.Abs(xi), i: i}
	}
	descend(*buf)
	return buf
}

// pool replaces the keys by the nonincreasing sequence nearest to them.
func pool(z []ranked) {
	buf := borrow(len(z))
	defer giveBack(buf)
	w := *buf
	for k := range z {
		w[k] = -z[k].key
	}
	monotone(w, w)
	for k := range z {
		z[k].key = -w[k]
	}
}

// Func returns Σ_k Weights[k]·|x|_(k).
func (g SortedL1) Func(x []float64) float64 {
	sameLen(x, g.Weights)
	if !finite(x) {
		return inf
	}
	buf := magnitudes(x)
	defer rankings.giveBack(buf)
	z := *buf
	sum := 0.0
	for k, w := range g.Weights {
		sum += w * z[k].key
	}
	return number(sum)
}

// Prox stores sgn(x_i)·(z_i)₊ in dst, z the nonincreasing sequence nearest to
// |x|_(k) − γ·Weights[k].
func (g SortedL1) Prox(dst, x []float64, gamma float64) {
	sameLen(dst, x)
	sameLen(x, g.Weights)
	if poison(dst, x) {
		return
	}
	buf := magnitudes(x)
	defer rankings.giveBack(buf)
	z := *buf
	for k, w := range g.Weights {
		z[k].key -= gamma * w
	}
	pool(z)
	for _, zk := range z {
		dst[zk.i] = math.Copysign(max(zk.key, 0), x[zk.i])
	}
}

// Dist: ∂g(x) is a product over the sets of coordinates with equal |x_i|. For |x_i| > 0, up to the
// signs of x, it is the convex hull P of the permutations of the weights of those ranks. Its
// support function is the sum of sorted coordinates times weights, so by Moreau's identity pool
// maps the sorted y minus the weights to y − P_P(y). At 0 the same holds with |y| and clipping: y −
// P(y) is the proximal map of a smaller SortedL1.
func (g SortedL1) Dist(x, v []float64) float64 {
	sameLen(x, v)
	sameLen(x, g.Weights)
	if !finite(x) {
		return inf
	}
	buf := magnitudes(x)
	defer rankings.giveBack(buf)
	z := *buf
	var d ssq
	for a := 0; a < len(z); {
		b, level := a, z[a].key
		for ; b < len(z) && z[b].key == level; b++ {
			if i := z[b].i; level == 0 {
				z[b].key = math.Abs(v[i])
			} else {
				z[b].key = math.Copysign(1, -x[i]) * v[i] // −v_i·sgn x_i
			}
		}
		tie := z[a:b]
		descend(tie)
		for k := range tie {
			tie[k].key -= g.Weights[a+k]
		}
		pool(tie)
		for _, t := range tie {
			if level == 0 {
				t.key = max(t.key, 0)
			}
			d.add(math.Abs(t.key))
		}
		a = b
	}
	return d.norm()
}

func (g SortedL1) check(dim int) error {
	if len(g.Weights) != dim {
		return invalid("SortedL1 has %d weights, want %d", len(g.Weights), dim)
	}
	for k, w := range g.Weights {
		if err := weight(fmt.Sprintf("SortedL1.Weights[%d]", k), w); err != nil {
			return err
		}
		if k > 0 && w > g.Weights[k-1] {
			return invalid("SortedL1.Weights[%d] = %v exceeds the weight %v before it, want them sorted", k, w, g.Weights[k-1])
		}
	}
	return nil
}

// lipschitz: the extreme points of ∂g(0) are the signed permutations of Weights.
func (g SortedL1) lipschitz(int) float64 { return norm2(g.Weights) }
