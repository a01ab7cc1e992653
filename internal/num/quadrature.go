// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package num

import (
	"slices"
	"sync"

	"gonum.org/v1/gonum/integrate/quad"
)

type rule struct{ x, w []float64 }

var rules sync.Map // int → rule

// GaussLegendre returns the nodes (increasing) and weights of the n-point Gauss–Legendre rule on
// [-1, 1]. The slices are shared by all callers: do not write to them. It panics if n < 1.
func GaussLegendre(n int) (x, w []float64) {
	if n < 1 {
		panic("num: rule without nodes")
	}
	if r, ok := rules.Load(n); ok {
		return r.(rule).x, r.(rule).w
	}
	x, w = make([]float64, n), make([]float64, n)
	quad.Legendre{}.FixedLocations(x, w, -1, 1)
	if x[0] > x[n-1] {
		slices.Reverse(x)
		slices.Reverse(w)
	}
	r, _ := rules.LoadOrStore(n, rule{x, w})
	return r.(rule).x, r.(rule).w
}

// Chebyshev returns Σ coefⱼ Tⱼ(x), |x| ≤ 1, Tⱼ Chebyshev's polynomials, by Clenshaw's recursion.
func Chebyshev(coef []float64, x float64) float64 {
	var c1, c2 float64
	for j := len(coef) - 1; j > 0; j-- {
		c1, c2 = coef[j]+2*x*c1-c2, c1
	}
	return coef[0] + x*c1 - c2
}

// panelNodes is the number of nodes of one panel of [Panel], [PanelsDown] and [PanelsUp].
const panelNodes = 12

// Negligible is the relative size of a panel at which [PanelsDown] and [PanelsUp] stop. The rest of
// a log-concave tail is of the same order.
const Negligible = 1e-14

// Panel returns ∫_a^b f by one Gauss–Legendre panel of 12 nodes.
func Panel(a, b float64, f func(s float64) float64) float64 {
	x, w := GaussLegendre(panelNodes)
	c, h := (a+b)/2, (b-a)/2
	sum := 0.0
	for i, xi := range x {
		sum += w[i] * f(c+h*xi)
	}
	return h * sum
}

// PanelsDown returns ∫_0^top f by panels from top to 0, for an f that is analytic except for a
// branch point at 0. width gives the widths of panels by their upper ends. The sum ends at the
// first negligible panel below mode; f must increase up to mode.
func PanelsDown(top, mode float64, width func(s float64) float64, f func(s float64) float64) float64 {
	sum := 0.0
	for b := top; b > 0; {
		a := b - width(b)
		part := Panel(a, b, f)
		sum += part
		if b < mode && part <= Negligible*sum || !(a < b) {
			break
		}
		b = a
	}
	return sum
}

// PanelsUp returns ∫_bottom^∞ f in the same way, for an f with the tail of a χ density that
// decreases above mode. width gives the widths of panels by their lower ends.
func PanelsUp(bottom, mode float64, width func(s float64) float64, f func(s float64) float64) float64 {
	sum := 0.0
	for a := bottom; ; {
		b := a + width(a)
		part := Panel(a, b, f)
		sum += part
		if !(b < mode) && part <= Negligible*sum || !(a < b) { // also a NaN, or no float64 between a and b
			return sum
		}
		a = b
	}
}
