// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package prox

import (
	"math"

	"github.com/privopt/privopt/internal/num"
)

// Huber is g(x) = Weight·Σh(x_i), h(t) = t²/2 where |t| ≤ Delta and
// Delta·(|t| − Delta/2) elsewhere, the Moreau envelope of Delta·|·|. With
// w = γ·Weight and δ = Delta, p + w·h′(p) = x, h′ = P_[−δ,δ], has the solution
//
//	prox_{γg}(x) = x − P_[−wδ,wδ]( w/(1+w)·x )
type Huber struct{ Weight, Delta float64 }

// Hinge is g(x) = Weight·Σmax(0, 1−x_i), the hinge loss of margins x. With
// t = γ·Weight, prox_{γg}(x) = max(x, min(x+t, 1)): up by t, but not beyond
// the kink at 1, which is decided exactly.
type Hinge struct{ Weight float64 }

// LogBarrier is g(x) = −Weight·Σlog x_i on x > 0, Weight > 0. With t = γ·Weight,
//
//	prox_{γg}(x) = (x + √(x²+4t))/2   [PB14, §6.1.3],
//
// the positive root of p² − xp = t, and the least float64 above 0 where it
// underflows; for x < 0 as 2t/(√(x²+4t) − x), which does not cancel.
type LogBarrier struct{ Weight float64 }

// Func returns Weight·Σh(x_i).
func (g Huber) Func(x []float64) float64 {
	if !finite(x) {
		return inf
	}
	sum := 0.0
	for _, xi := range x {
		a := math.Abs(xi)
		b := min(a, g.Delta)
		sum += b * (a - b/2) // a²/2, or Delta(a − Delta/2)
	}
	return number(g.Weight * sum)
}

// Prox stores x − P_[−wδ,wδ](w/(1+w)·x) in dst.
func (g Huber) Prox(dst, x []float64, gamma float64) {
	sameLen(dst, x)
	w := gamma * g.Weight
	s, t := w/(1+w), w*g.Delta
	for i, xi := range x {
		dst[i] = xi - min(max(s*xi, -t), t)
	}
}

// Dist returns ‖v + Weight·P_[−δ,δ](x)‖₂: g is differentiable.
func (g Huber) Dist(x, v []float64) float64 {
	if !finite(x) {
		return inf
	}
	return overCoordinates(x, v, func(_ int, xi, vi float64) float64 {
		return math.Abs(vi + g.Weight*min(max(xi, -g.Delta), g.Delta))
	})
}

func (g Huber) check(int) error {
	if err := weight("Huber.Weight", g.Weight); err != nil {
		return err
	}
	return positive("Huber.Delta", g.Delta)
}

// kinked is g(x) = Σ max(lo·(x_i−kink), hi·(x_i−kink)), lo ≤ hi: slope lo below the kink and hi
// above. prox_{γg}(x) = max(x − γ·hi, min(x − γ·lo, kink)) decides the kink exactly.
type kinked struct{ lo, hi, kink float64 }

func (k kinked) Func(x []float64) float64 {
	if !finite(x) {
		return inf
	}
	sum := 0.0
	for _, xi := range x {
		sum += max(k.lo*(xi-k.kink), k.hi*(xi-k.kink))
	}
	return number(sum)
}

func (k kinked) Prox(dst, x []float64, gamma float64) {
	sameLen(dst, x)
	for i, xi := range x {
		dst[i] = max(xi-gamma*k.hi, min(xi-gamma*k.lo, k.kink))
	}
}

func (k kinked) Dist(x, v []float64) float64 {
	if !finite(x) {
		return inf
	}
	return overCoordinates(x, v, func(_ int, xi, vi float64) float64 {
		a, b := k.lo, k.hi // ∂g = [a,b]
		if xi > k.kink {
			a = b
		} else if xi < k.kink {
			b = a
		}
		return max(vi+a, -vi-b, 0)
	})
}

func (g Hinge) kinked() kinked { return kinked{-g.Weight, 0, 1} }

// Func returns Weight·Σmax(0, 1−x_i).
func (g Hinge) Func(x []float64) float64 { return g.kinked().Func(x) }

// Prox stores max(x_i, min(x_i+t, 1)), t = γ·Weight, in dst.
func (g Hinge) Prox(dst, x []float64, gamma float64) { g.kinked().Prox(dst, x, gamma) }

// Dist: ∂max(0, 1−x) is {−1} where x < 1, [−1,0] at 1 and {0} where x > 1.
func (g Hinge) Dist(x, v []float64) float64 { return g.kinked().Dist(x, v) }

func (g Hinge) check(int) error { return weight("Hinge.Weight", g.Weight) }

// Func returns −Weight·Σlog x_i where every x_i > 0 and +Inf elsewhere.
func (g LogBarrier) Func(x []float64) float64 {
	sum := 0.0
	for _, xi := range x {
		if !(xi > 0) || xi > math.MaxFloat64 {
			return inf
		}
		sum -= num.Log(xi)
	}
	return number(g.Weight * sum)
}

// Prox stores (x_i + √(x_i²+4t))/2, t = γ·Weight, in dst.
func (g LogBarrier) Prox(dst, x []float64, gamma float64) {
	sameLen(dst, x)
	t := gamma * g.Weight
	s := 2 * math.Sqrt(t)
	for i, xi := range x {
		h := math.Hypot(xi, s)/2 + math.Abs(xi)/2 // the larger root in size
		if xi < 0 {
			h = t / h // the roots multiply to −t
		}
		dst[i] = max(h, 0x1p-1074)
	}
}

// Dist returns ‖v − Weight/x‖₂ where every x_i > 0.
func (g LogBarrier) Dist(x, v []float64) float64 {
	return overCoordinates(x, v, func(_ int, xi, vi float64) float64 {
		if !(xi > 0) || xi > math.MaxFloat64 {
			return inf
		}
		return math.Abs(vi - g.Weight/xi)
	})
}

func (g LogBarrier) check(int) error { return positive("LogBarrier.Weight", g.Weight) }

// positive returns an error unless w is a finite number above 0.
func positive(field string, w float64) error {
	if !(w > 0) || math.IsInf(w, 1) {
		return invalid("%s = %v, want a finite number above 0", field, w)
	}
	return nil
}
