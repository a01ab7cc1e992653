// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package prox

import (
	"cmp"
	"math"

	"gonum.org/v1/gonum/floats"
)

// Entropy is the negative entropy on the simplex, with 0·log 0 = 0,
//
//	g(x) = Weight·Σx_i log x_i + ι{x_i ≥ 0, Σx_i = Total},   Weight ≥ 0,
//
// up to constants the Kullback–Leibler divergence from the uniform distribution. For the divergence
// from a distribution q, add the linear function −Weight·Σx_i log q_i to F. With t = γ·Weight and
// the Wright omega function ω, the solution of ω(z) + log ω(z) = z,
//
//	prox_{γg}(x)_i = t·ω(x_i/t − c),   c the root of t·Σω(x_i/t − c) = Total,
//
// because log u_i + 1 + (u_i − x_i)/t is the same number for all i. The sum is decreasing and
// convex in c, so Newton's method rises to the root from the c at which the largest term alone is
// Total. For t = 0 the proximal map is the projection onto the [Simplex].
//
// The error of Prox is some 16 roundings of ‖x‖ + Total. Entropy is not a Subdifferential:
// coordinates that underflow are 0, where g has no subgradient.
type Entropy struct{ Weight, Total float64 }

// Func returns Weight·Σx_i log x_i on the simplex, as Simplex decides it, and +Inf elsewhere.
func (g Entropy) Func(x []float64) float64 {
	if _, ok := (Simplex{g.Total}).member(x); !ok {
		return inf
	}
	sum := 0.0
	for _, xi := range x {
		if xi > 0 {
			sum += xi * math.Log(xi)
		}
	}
	return number(g.Weight * sum)
}

// Prox stores t·ω(x_i/t − c) in dst.
func (g Entropy) Prox(dst, x []float64, gamma float64) {
	sameLen(dst, x)
	t := gamma * g.Weight
	if len(x) == 0 {
		return
	}
	top := floats.Max(x)
	// Where t is small beside the rounding of x, the map is the projection up to this rounding: t·ω(z)
	// is within t(1 + |log ω|) of t·z₊.
	if t*800 <= ulp*(math.Abs(top)+g.Total) || g.Total == 0 || !finite(x) {
		Simplex{g.Total}.Prox(dst, x, gamma)
		return
	}
	// y_i = x_i − max x keeps digits where all x_i are large.
	at := func(i int, c float64) float64 { return omega((x[i]-top)/t - c) }
	r := g.Total / t
	c := -r - math.Log(r) // ω(0 − c) = r
	for {
		sum, slope := -r, 0.0
		for i := range x {
			w := at(i, c)
			sum += w
			slope += w / (1 + w) // −dω/dc
		}
		next := c + sum/slope
		if !(next > c) || sum <= 4*ulp*r {
			break
		}
		c = next
	}
	for i := range x {
		dst[i] = t * at(i, c)
	}
	floats.Scale(g.Total/sumAbs(dst), dst) // by 1 up to rounding
}

// omega returns the ω > 0 with ω + log ω = z, the Wright omega function on the real line, within a
// few units in the last place, by rounds of [LCJ12], of order four, from a start within a factor 2.
func omega(z float64) float64 {
	if z < -40 {
		return math.Exp(z) // (1 − e^z)e^z, and e^z is below 2⁻⁵⁷
	}
	w := math.Exp(z) / (1 + math.Exp(z)/2)
	if z > 1 {
		w = z - math.Log(z)
	}
	for range 6 {
		r := z - w - math.Log(w)
		q := 2 * (1 + w) * (1 + w + 2*r/3)
		next := w * (1 + r/(1+w)*(q-r)/(q-2*r))
		if math.Abs(next-w) <= ulp*w {
			return next
		}
		w = next
	}
	return w
}

func (g Entropy) check(dim int) error {
	return cmp.Or(weight("Entropy.Weight", g.Weight), simplexTotal("Entropy", g.Total, dim))
}
