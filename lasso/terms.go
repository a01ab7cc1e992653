// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package lasso

import (
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/internal/kernel"
	"github.com/privopt/privopt/splitting"
)

// terms is the smooth part of the published problems,
//
//	Σᵢ ½(xᵢ'θ−yᵢ)² + (Δ/2)‖θ‖² + a'θ               LOP
//	Σᵢ ½(xᵢ'θ−yᵢ)² + ½(θ−θ_ref)'σ²W(θ−θ_ref)       QOP
//
// It is made for the inner loop of the stochastic solver and is not safe for concurrent use.
// Clipped gradients (zeta < ∞) are the gradients of no function.
type terms struct {
	n, d, stride int
	x, y         []float64
	norm         []float64 // ‖xᵢ‖₂ if gradients are clipped, else nil
	zeta         float64   // ζ: longer gradients of a record become unit vectors
	ridge        float64   // Δ
	linear       []float64 // a, nil for QOP
	quad         []float64 // σ²W as kernel.Symv wants it, nil for LOP
	center, y0   []float64 // θ_ref, and memory for θ − θ_ref
	smooth       float64   // 1/ω
}

var _ splitting.RowSum = (*terms)(nil)

// Len returns the number n of records.
func (f *terms) Len() int { return f.n }

// Smoothness returns 1/ω, the published bound nL + Δ or nL + σ²λ_max(W).
func (f *terms) Smoothness() float64 { return f.smooth }

// Func returns f(x) without clipping.
func (f *terms) Func(x []float64) float64 {
	sum := 0.0
	for i, y := range f.y {
		r := floats.Dot(f.Row(i), x) - y
		sum += r * r / 2
	}
	if f.quad == nil {
		return sum + f.ridge/2*floats.Dot(x, x) + floats.Dot(f.linear, x)
	}
	qy := make([]float64, f.d)
	f.perturb(qy, x, 1)
	return sum + floats.Dot(qy, f.y0)/2
}

// Grad stores the sum of the gradients of all terms in dst.
func (f *terms) Grad(dst, x []float64) {
	f.perturb(dst, x, 1)
	for i := range f.n {
		f.addRecord(dst, x, i)
	}
}

// GradTerms stores Σ_{i∈idx} gᵢ(x) in dst: the clipped gradients of the records and |idx|/n of the
// gradient of the perturbation.
func (f *terms) GradTerms(dst, x []float64, idx []int) {
	f.perturb(dst, x, float64(len(idx))/float64(f.n))
	for _, i := range idx {
		f.addRecord(dst, x, i)
	}
}

// addRecord adds the gradient of record i to dst.
func (f *terms) addRecord(dst, x []float64, i int) {
	row := f.Row(i)
	floats.AddScaled(dst, f.Slope(i, floats.Dot(row, x)), row)
}

// Row returns xᵢ.
func (f *terms) Row(i int) []float64 { return f.x[i*f.stride : i*f.stride+f.d] }

// Slope returns u − yᵢ, clipped for [LOPClip].
func (f *terms) Slope(i int, u float64) float64 {
	w := u - f.y[i]
	if f.norm != nil {
		if norm := math.Abs(w) * f.norm[i]; norm > f.zeta {
			w /= norm // the published clip: a unit vector
		}
	}
	return w
}

// Rest returns Δ and the gradient at x of the rest of the perturbation: a, or σ²W(x − θ_ref), which
// it stores in dst.
func (f *terms) Rest(dst, x []float64) (grad []float64, ridge float64) {
	if f.quad == nil {
		return f.linear, f.ridge
	}
	kernel.Symv(dst, f.quad, floats.SubTo(f.y0, x, f.center))
	return dst, 0
}

// perturb stores share times the gradient of the perturbation in dst.
func (f *terms) perturb(dst, x []float64, share float64) {
	rest, ridge := f.Rest(dst, x)
	for j, v := range rest {
		dst[j] = share * (ridge*x[j] + v)
	}
}
