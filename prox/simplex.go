// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package prox

import (
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/internal/num"
)

// Simplex is the set {x : x_i ≥ 0, Σx_i = Total}. Perhaps no float64 vector has exactly that sum,
// so membership allows a relative error of 2⁻⁴⁸ in the sum; coordinates are nonnegative exactly.
type Simplex struct{ Total float64 }

// member returns Σx_i and whether x stands for the point x′ = (Total/Σx_i)x.
func (g Simplex) member(x []float64) (sum float64, ok bool) {
	for _, xi := range x {
		if !(xi >= 0) {
			return 0, false
		}
	}
	sum = sumAbs(x)
	return sum, onSphere(sum, g.Total)
}

// Func returns 0 where x_i ≥ 0 and Σx_i is within Total(1±2⁻⁴⁸), +Inf elsewhere.
func (g Simplex) Func(x []float64) float64 {
	_, ok := g.member(x)
	return indicator(ok)
}

// Prox projects: p = (x−τ)₊ with the root τ of Σ(x_i−τ)₊ = Total. [HWC74]
func (g Simplex) Prox(dst, x []float64, _ float64) {
	sameLen(dst, x)
	if len(x) == 0 {
		return
	}
	n := float64(len(x))
	mean, low := 0.0, 0.0 // in twice the precision, see Accuracy
	for _, xi := range x {
		var e float64
		mean, e = num.TwoSum(mean, xi/n)
		low += e
	}
	tau := waterline(x, mean+low-g.Total/n, g.Total, false) // h ≥ 0 where all terms are taken
	for i, xi := range x {
		dst[i] = max(xi-tau, 0)
	}
	floats.Scale(g.Total/sumAbs(dst), dst) // by 1 up to rounding
}

// Dist: N(x′) = {q·1 + w : q ∈ ℝ, w_i ≤ 0 where x_i = 0, else w_i = 0}. With y = −v the distance is
// the least over q of Σ_{x_i>0} (q−y_i)² + Σ_{x_i=0} (y_i−q)₊². The root of the derivative is
// sought by rise from the mean of y_i over x_i > 0. Every q gives an element of N(x′), so an early
// stop could only over-report.
func (g Simplex) Dist(x, v []float64) float64 {
	sameLen(x, v)
	if _, ok := g.member(x); !ok {
		return inf
	}
	if g.Total == 0 {
		return 0
	}
	q, k := 0.0, 0.0
	for i, xi := range x {
		if xi > 0 {
			q -= v[i]
			k++
		}
	}
	q = rise(q/k, inf, func(q float64) (psi, k float64) {
		for i, xi := range x {
			switch {
			case xi > 0:
				psi += q + v[i] // q − y_i
				k++
			case -v[i] > q:
				psi -= -v[i] - q
				k++
			}
		}
		return psi, k
	})
	return overCoordinates(x, v, func(_ int, xi, vi float64) float64 {
		e := q + vi
		if xi == 0 {
			e = max(-e, 0)
		}
		return math.Abs(e)
	})
}

// shift returns |Σx_i − Total| ≥ ‖x′−x‖₂ plus the rounding of the sum.
func (g Simplex) shift(x []float64) float64 {
	sum, ok := g.member(x)
	if !ok {
		return inf
	}
	return math.Abs(sum-g.Total) + 4*ulp*g.Total
}

// Radius returns Total, the norm of a vertex, and +Inf for an invalid one.
func (g Simplex) Radius(dim int) float64 { return validRadius(g, dim, g.Total) }

func (g Simplex) check(dim int) error { return simplexTotal("Simplex", g.Total, dim) }

// simplexTotal returns an error unless total is finite, and 0 or at least 2⁻⁹⁰⁰, and dim is at
// least 1.
func simplexTotal(name string, total float64, dim int) error {
	if dim < 1 {
		return invalid("%s in %d dimensions is empty, want at least 1", name, dim)
	}
	if math.IsInf(total, 1) {
		return invalid("%s.Total = %v, want a finite number", name, total)
	}
	return radius(name+".Total", total)
}

// weighted is g(x) = l1·‖x‖₁ + ι_simplex(x) = l1·Total + ι_simplex(x). The ℓ1 norm is constant on
// the simplex, so proximal map and distance are those of the simplex.
type weighted struct {
	set Simplex
	l1  float64
}

func (g weighted) Func(x []float64) float64             { return g.set.Func(x) + g.l1*g.set.Total }
func (g weighted) Prox(dst, x []float64, gamma float64) { g.set.Prox(dst, x, gamma) }
func (g weighted) Dist(x, v []float64) float64          { return g.set.Dist(x, v) }
func (g weighted) shift(x []float64) float64            { return g.set.shift(x) }

func (g weighted) check(dim int) error {
	if err := weight("ℓ1 weight", g.l1); err != nil {
		return err
	}
	return g.set.check(dim)
}
