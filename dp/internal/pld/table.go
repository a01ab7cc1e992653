// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package pld

import (
	"math"
	"sort"
)

// Tabulate returns a pair with convex profiles, made from bounds that need not be convex and may be
// slow: Up(ε) and Down(ε) are no less than the true profile at each ε ≥ 0 by itself. A value
// outside [0, 1] counts as 1.
//
// The true profile is convex in α = e^ε, so it lies below the lower convex hull of the values at
// nodes, both orders together (docs/theory/composition.md#composition.hull). Nodes are added until
// the chords are above the bounds by about a part in 2000, or by tol; beyond the last node its
// value holds. An error of tol adds at most as much to δ of a composition.
func Tabulate(p Pair, tol float64) Pair {
	up := sample(p.Up, tol)
	down := up
	if !p.Symmetric {
		down = sample(p.Down, tol)
	}
	top := middle(up, down)
	up = up.hull(top)
	if p.Symmetric {
		return Symmetric(up.at)
	}
	return Pair{Up: up.at, Down: down.hull(top).at}
}

// A table has the values f of a bound at nodes eps, from 0 on.
type table struct{ eps, f []float64 }

const (
	chordError = 2e-3 // relative error of a chord, tested at the node in its middle
	farthest   = 700  // e^ε overflows soon after
)

// sample evaluates a bound at nodes that are dense where it bends.
func sample(bound func(eps float64) float64, tol float64) table {
	f := func(eps float64) float64 {
		if d := bound(eps); d >= 0 && d <= 1 {
			return d
		}
		return 1
	}
	floor := max(tol, f(farthest)*(1+1e-9))
	end := 1.0
	for end < farthest && f(end) > floor {
		end *= 2
	}
	for end > 1e-9 && f(end/2) <= floor {
		end /= 2
	}
	end = min(end, farthest)
	t := table{[]float64{0}, []float64{f(0)}}
	var split func(a, fa, b, fb float64, depth int)
	split = func(a, fa, b, fb float64, depth int) {
		mid := a + (b-a)/2
		fm := f(mid)
		if chord := between(a, fa, b, fb, mid); depth > 0 && math.Abs(chord-fm) > chordError*fm+tol {
			split(a, fa, mid, fm, depth-1)
			split(mid, fm, b, fb, depth-1)
			return
		}
		t.eps, t.f = append(t.eps, mid, b), append(t.f, fm, fb)
	}
	const first, deepest = 8, 30
	a, fa := 0.0, t.f[0]
	for i := 1; i <= first; i++ {
		b := end * float64(i) / first
		fb := f(b)
		split(a, fa, b, fb, deepest)
		a, fa = b, fb
	}
	return t
}

// between returns the value at ε of the chord in e^ε from (a, fa) to (b, fb), a ≤ ε ≤ b.
func between(a, fa, b, fb, eps float64) float64 {
	w := math.Expm1(eps-a) / math.Expm1(b-a)
	return fa*(1-w) + fb*w
}

// at returns the value at ε ≥ 0 of the chords.
func (t table) at(eps float64) float64 {
	switch i := sort.SearchFloat64s(t.eps, eps); {
	case i == len(t.eps):
		return t.f[i-1]
	case t.eps[i] == eps:
		return t.f[i]
	default:
		return between(t.eps[i-1], t.f[i-1], t.eps[i], t.f[i], eps)
	}
}

// hull returns the vertices of the lower convex hull in e^ε, with the value top at ε = 0, and no
// value above an earlier one.
func (t table) hull(top float64) table {
	var h table
	for i, eps := range t.eps {
		f := min(t.f[i], top)
		if n := len(h.f); n > 0 {
			f = min(f, h.f[n-1])
		}
		for n := len(h.eps); n >= 2 && !(h.f[n-1] < between(h.eps[n-2], h.f[n-2], eps, f, h.eps[n-1])); n-- {
			h.eps, h.f = h.eps[:n-1], h.f[:n-1]
		}
		h.eps, h.f = append(h.eps, eps), append(h.f, f)
	}
	return h
}

// middle returns the value at α = 1 of the hull of both orders: the least of the values there and
// of the chords from a node a of one order to a node b of the other,
//
//	[(x_a−1)(x_b−1) + (x_a−1) f_b + (x_b−1) f_a] / (x_a x_b − 1),   x = e^ε
//
// The best b at a value t of the middle has the least slope (f_b − t)/(x_b − 1), and so has the
// best a. Their chord is no more than t, so t falls until it stays.
func middle(up, down table) float64 {
	t := min(up.f[0], down.f[0])
	steepest := func(side table) (x1, f float64) { // x − 1 and f of the node
		least := math.Inf(1)
		for i := 1; i < len(side.eps); i++ {
			if d := math.Expm1(side.eps[i]); (side.f[i]-t)/d < least {
				least, x1 = (side.f[i]-t)/d, d
				f = side.f[i]
			}
		}
		return x1, f
	}
	for {
		xa, fa := steepest(down)
		xb, fb := steepest(up)
		next := (xa*xb + xa*fb + xb*fa) / (xa*xb + xa + xb)
		if !(next < t) {
			return t
		}
		t = next
	}
}
