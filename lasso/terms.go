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
// written for the inner loop of the stochastic solver, one goroutine at a
// time. Clipped gradients (zeta < ∞) are those of no function.
type terms struct {
	n, d, stride int
	x, y         []float64
	norm         []float64 // ‖xᵢ‖₂, needed where zeta is finite
	zeta         float64   // gradients of one record longer than this become unit vectors
	ridge        float64   // Δ
	linear       []float64 // a, nil for QOP
	quad         []float64 // σ²W, d×d, nil for LOP
	center, y0   []float64 // θ_ref, and room for θ − θ_ref
	smooth       float64   // 1/ω
}

var _ splitting.RowSum = (*terms)(nil)

// Len returns n.
func (f *terms) Len() int { return f.n }

// Smoothness returns 1/ω, the published bound nL + Δ or nL + σ²λ_max(W).
func (f *terms) Smoothness() float64 { return f.smooth }

// Func returns f(x), with no record clipped.
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

// Grad stores the sum of all terms' gradients in dst.
func (f *terms) Grad(dst, x []float64) {
	f.perturb(dst, x, 1)
	for i := range f.n {
		f.addRecord(dst, x, i)
	}
}

// GradTerms stores Σ_{i∈idx} gᵢ(x) in dst: clipped gradients of the records
// and |idx|/n of the perturbation's.
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

// Slope returns u − yᵢ, clipped where that is asked for.
func (f *terms) Slope(i int, u float64) float64 {
	w := u - f.y[i]
	if f.norm != nil {
		if norm := math.Abs(w) * f.norm[i]; norm > f.zeta {
			w /= norm // the published clip: a unit vector
		}
	}
	return w
}

// Rest returns the gradient of the perturbation but for the ridge: a, or σ²W(θ − θ_ref) in dst.
func (f *terms) Rest(dst, x []float64) (grad []float64, ridge float64) {
	if f.quad == nil {
		return f.linear, f.ridge
	}
	f.curve(dst, x)
	return dst, 0
}

// perturb stores share times the perturbation's gradient in dst.
func (f *terms) perturb(dst, x []float64, share float64) {
	if f.quad == nil {
		ridge, linear := share*f.ridge, f.linear
		x, linear = x[:len(dst)], linear[:len(dst)]
		for j := range dst {
			dst[j] = ridge*x[j] + share*linear[j]
		}
		return
	}
	f.curve(dst, x)
	if share != 1 {
		floats.Scale(share, dst)
	}
}

// curve stores σ²W(θ − θ_ref) in dst.
func (f *terms) curve(dst, x []float64) {
	kernel.Symv(dst, f.quad, floats.SubTo(f.y0, x, f.center))
}
