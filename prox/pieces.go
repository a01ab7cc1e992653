// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package prox

import "math"

// Piece is one term of a sum over coordinates,
//
//	Slope·t + (Square/2)t² + Price·max(t − Kink, 0)   for Lo ≤ t ≤ Hi,
//
// up to a constant. Price and Square are at least 0.
type Piece struct{ Slope, Square, Price, Kink, Lo, Hi float64 }

// Pieces returns the terms of g in dim dimensions, ok = false if g is not known to be of this form.
// Coordinatewise operators, Linear, Pinball and Hinge are, and what Translate, Scale and Blocks
// make of them. A nil g is 0.
func Pieces(g Operator, dim int) (terms []Piece, ok bool) {
	if dim < 0 {
		return nil, false
	}
	terms = make([]Piece, dim)
	for i := range terms {
		if terms[i], ok = piece(orZero(g), i); !ok {
			return nil, false
		}
	}
	return terms, true
}

// piece returns the term of coordinate i.
func piece(g Operator, i int) (p Piece, ok bool) {
	if c, ok := g.(Coordinatewise); ok {
		l1, l2, lo, hi := c.Coordinate(i)
		return Piece{-l1, l2, 2 * l1, 0, lo, hi}, true
	}
	p = Piece{Lo: -inf, Hi: inf}
	switch g := g.(type) {
	case certified:
		return piece(g.calculus, i)
	case certifiedSet:
		return piece(g.calculus, i)
	case Linear:
		p.Slope = entry(g.C, i)
	case Pinball:
		p.Slope, p.Price = g.Tau-1, 1
	case Hinge:
		p.Slope, p.Price = -g.Weight, g.Weight
		p.Kink = 1
	case tilted:
		p, ok = piece(g.g, i)
		p.Slope += entry(g.c.C, i)
		return p, ok
	case moved:
		return piece(g.translated, i)
	case translated:
		p, ok = piece(g.g, i)
		by := entry(g.by, i)
		return Piece{p.Slope - p.Square*by, p.Square, p.Price, p.Kink + by, p.Lo + by, p.Hi + by}, ok
	case scaled:
		p, ok = piece(g.g, i)
		return p.scaled(g.a, g.w), ok
	case blocks:
		for k, part := range g.parts {
			if i < g.end[k] {
				return piece(part.Op, i-g.end[k]+part.Len)
			}
		}
		panic(badLen)
	default:
		return p, false
	}
	return p, true
}

// scaled returns the term w·p(a·t), where max(−u, 0) = max(u, 0) − u for a < 0.
func (p Piece) scaled(a, w float64) Piece {
	if a < 0 {
		p.Slope += p.Price
		p.Lo, p.Hi = p.Hi, p.Lo
	}
	return Piece{w * a * p.Slope, w * a * a * p.Square, w * math.Abs(a) * p.Price, p.Kink / a, p.Lo / a, p.Hi / a}
}
