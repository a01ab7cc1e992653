// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package num

import "math"

// Pair is a number hi + lo, |lo| ≤ u|hi|(1+u): a coordinate in twice the precision of float64.
type Pair struct{ Hi, Lo float64 }

// Compare returns the sign of p − c.
func (p Pair) Compare(c float64) float64 {
	if p.Hi != c {
		return math.Copysign(1, p.Hi-c)
	}
	switch {
	case p.Lo > 0:
		return 1
	case p.Lo < 0:
		return -1
	}
	return 0
}

// Plus returns p + c with an error of at most 6u²(|p|+|c|).
func (p Pair) Plus(c Pair) Pair {
	hi, lo := Add2(p.Hi, p.Lo, c.Hi, c.Lo)
	return Pair{hi, lo}
}

// Times returns cp with an error of at most 16u²|cp|.
func (p Pair) Times(c float64) Pair {
	hi, lo := Mul2(p.Hi, p.Lo, c, 0)
	return Pair{hi, lo}
}

// Piece is the function g(x) = l1|x| + (l2/2)x² + ι_[lo,hi](x) of one coordinate.
type Piece struct{ l1, l2, lo, hi float64 }

// NewPiece returns g with the coefficients of a prox.Coordinatewise.
func NewPiece(l1, l2, lo, hi float64) Piece { return Piece{l1, l2, lo, hi} }

// Steepest returns the element of v + ∂g(x) of smallest size, rounded, and whether g is
// differentiable at x. It is +Inf outside the domain and where v or x is not finite.
// Faces are decided exactly, and the error is at most u|w| + 32u²|v|.
func (g Piece) Steepest(x, v Pair) (w float64, smooth bool) {
	fromLo, fromHi := x.Compare(g.lo), x.Compare(g.hi)
	if fromLo < 0 || fromHi > 0 || math.IsInf(x.Hi, 0) || math.IsNaN(x.Hi+x.Lo) ||
		math.IsNaN(v.Lo) || math.IsInf(v.Hi, 0) || math.IsNaN(v.Hi) {
		return math.Inf(1), false
	}
	a, b := -g.l1, g.l1 // l1·∂|x| at 0
	switch sign := x.Compare(0); {
	case sign > 0:
		a = g.l1
	case sign < 0:
		b = -g.l1
	}
	v = v.Plus(x.Times(g.l2))
	smooth = a == b && fromLo > 0 && fromHi < 0
	if up := v.Plus(Pair{Hi: a}).Hi; up > 0 && fromLo > 0 { // the normal cone at lo has every smaller slope
		return up, smooth
	}
	if down := v.Plus(Pair{Hi: b}).Hi; down < 0 && fromHi < 0 {
		return down, smooth
	}
	return 0, smooth
}

// Prox returns prox_{γg}(x),
//
//	P_[lo,hi]( S_{γ·l1}(x) / (1+γ·l2) ),
//
// with an error of at most 64u²|x|, up to underflow: products with γ are exact to 8u², and the
// threshold is subtracted only if it is below |x|.
func (g Piece) Prox(x Pair, gamma float64) Pair {
	if g.l1 > 0 {
		t := Pair{Hi: gamma}.Times(g.l1)
		switch {
		case x.Compare(0) == 0:
		case x.Hi > 0:
			if x = x.Plus(Pair{-t.Hi, -t.Lo}); x.Compare(0) < 0 {
				x = Pair{}
			}
		default:
			if x = x.Plus(t); x.Compare(0) > 0 {
				x = Pair{}
			}
		}
	}
	if g.l2 > 0 {
		s := Pair{Hi: gamma}.Times(g.l2).Plus(Pair{Hi: 1})
		x.Hi, x.Lo = Div2(x.Hi, x.Lo, s.Hi, s.Lo)
	}
	if x.Compare(g.lo) < 0 {
		return Pair{Hi: g.lo}
	}
	if x.Compare(g.hi) > 0 {
		return Pair{Hi: g.hi}
	}
	return x
}
