// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package prox

import (
	"fmt"
	"sort"
)

// Block is an operator on Len coordinates; a nil Op is 0.
type Block struct {
	Op  Operator
	Len int
}

// Blocks returns the separable sum g(x) = Σ_k g_k(x_k) over consecutive ranges
// x = (x_1, x_2, …), part k of parts[k].Len coordinates:
//
//	prox_{γg}(x) = (prox_{γg_1}(x_1), prox_{γg_2}(x_2), …)   [PB14, §2.1]
//
// The result is a Subdifferential, a Set or Coordinatewise if all parts are. parts is copied.
func Blocks(parts ...Block) Operator {
	b := blocks{parts: make([]Block, len(parts)), end: make([]int, len(parts))}
	dist, set := true, true
	coordinate := true
	for k, part := range parts {
		part.Op = orZero(part.Op)
		d, s, c := abilities(part.Op)
		dist, set = dist && d, set && s
		coordinate = coordinate && c
		b.dim += max(part.Len, 0)
		b.parts[k], b.end[k] = part, b.dim
	}
	return expose(b, dist, set, coordinate)
}

// blocks is a separable sum; end[k] is where part k ends.
type blocks struct {
	parts []Block
	end   []int
	dim   int
}

// of returns the coordinates of part k.
func (b blocks) of(x []float64, k int) []float64 {
	return x[b.end[k]-max(b.parts[k].Len, 0) : b.end[k]]
}

// want panics unless x has all coordinates.
func (b blocks) want(x []float64) {
	if len(x) != b.dim {
		panic(badLen)
	}
}

func (b blocks) Func(x []float64) float64 {
	b.want(x)
	sum := 0.0
	for k, part := range b.parts {
		sum += part.Op.Func(b.of(x, k))
	}
	return number(sum)
}

func (b blocks) Prox(dst, x []float64, gamma float64) {
	sameLen(dst, x)
	b.want(x)
	for k, part := range b.parts {
		part.Op.Prox(b.of(dst, k), b.of(x, k), gamma)
	}
}

func (b blocks) dist(x, v []float64) float64 {
	sameLen(x, v)
	b.want(x)
	var d ssq
	for k, part := range b.parts {
		d.add(part.Op.(Subdifferential).Dist(b.of(x, k), b.of(v, k)))
	}
	return d.norm()
}

func (b blocks) shift(x []float64) float64 {
	b.want(x)
	var d ssq
	for k, part := range b.parts {
		d.add(RoundingOf(part.Op).Shift(b.of(x, k)))
	}
	return d.norm() * (1 + float64(len(b.parts)+2)*2*ulp)
}

func (b blocks) radius(int) float64 {
	var d ssq
	for _, part := range b.parts {
		d.add(part.Op.(Set).Radius(part.Len))
	}
	return d.norm() * (1 + float64(len(b.parts)+2)*2*ulp)
}

func (b blocks) coordinate(i int) (l1, l2, lo, hi float64) {
	k := sort.SearchInts(b.end, i+1) // the first part that ends beyond i
	return b.parts[k].Op.(Coordinatewise).Coordinate(i - b.end[k] + b.parts[k].Len)
}

func (b blocks) check(dim int) error {
	if b.dim != dim {
		return invalid("Blocks of %d coordinates in %d dimensions", b.dim, dim)
	}
	for k, part := range b.parts {
		if part.Len < 0 {
			return invalid("Blocks part %d has Len = %d, want at least 0", k, part.Len)
		}
		if err := Check(part.Op, part.Len); err != nil {
			return fmt.Errorf("%w (part %d of Blocks)", err, k)
		}
	}
	return nil
}
