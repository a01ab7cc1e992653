package loss

import "math"

// Squared is the least-squares loss ℓ(θ;a,b) = ½(⟨a,θ⟩−b)².
//
//	φ(u;b) = ½(u−b)²,   φ′ = u−b,   φ″ = 1
//	L = Row·(Row·radius + Label)   since ‖∇ℓ‖ = |u−b|‖a‖ and |u| ≤ ‖a‖‖θ‖
//	β = Row²                       since ∇²ℓ = a aᵀ
//
// The structure is LSQ and the rank 1. On an unbounded domain L = +Inf; clip
// the loss or bound the domain.
type Squared struct{}

var (
	_ Interpolator = Squared{}
	_ Clippable    = Squared{}
)

// Func returns ½(⟨a,θ⟩−b)².
func (Squared) Func(theta, a []float64, b float64) float64 {
	r := prediction(theta, a) - b
	return r * r / 2
}

// Grad stores (⟨a,θ⟩−b)·a in dst.
func (Squared) Grad(dst, theta, a []float64, b float64) {
	along(dst, prediction(theta, a)-b, a)
}

// Scalar returns ½(u−b)², u−b and 1.
func (Squared) Scalar(u, b, _ float64) (phi, dphi, d2phi float64) {
	r := u - b
	return r * r / 2, r, 1
}

// Exact returns true.
func (Squared) Exact() bool { return true }

// Slope2 returns u + ul − b, within 4·2⁻¹⁰⁶ of itself.
func (Squared) Slope2(u, ul, b, _ float64) (hi, lo, err float64) {
	hi, lo = difference(u, ul, b)
	return hi, lo, 4 * unit * unit * math.Abs(hi)
}

// Constants returns L and β as above, rank 1, LSQ.
func (l Squared) Constants(bounds Bounds, radius float64) Constants {
	c := glm(l, bounds, radius, bounds.Row*reach(bounds, radius), bounds.Row*bounds.Row)
	if c.Structure == GLM {
		c.Structure = LSQ
	}
	return c
}

// Interpolate returns u, the only label with φ′(u;b′) = 0, and whether it is finite.
func (Squared) Interpolate(u, _ float64) (label float64, ok bool) { return u, finite(u) }

// ClipPoints returns b ∓ k.
func (Squared) ClipPoints(b, k float64) (lo, hi float64) { return b - k, b + k }
