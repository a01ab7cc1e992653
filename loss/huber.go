package loss

import "math"

// Huber is the Huber loss with threshold Delta: with r = ⟨a,θ⟩−b,
//
//	ℓ = ½r² where |r| ≤ Delta,   Delta·|r| − ½Delta² elsewhere
//	φ′ = P_[−Delta,Delta](u−b),  φ″ = 1 where |u−b| ≤ Delta, 0 elsewhere
//	L = Row·min(Delta, Row·radius + Label)   since |φ′| ≤ min(Delta, |u−b|)
//	β = Row²                                 since φ″ ≤ 1
//
// The structure is GLM and the rank 1.
type Huber struct{ Delta float64 }

var (
	_ Interpolator = Huber{}
	_ Clippable    = Huber{}
	_ Checker      = Huber{}
)

// Func returns the Huber function of ⟨a,θ⟩−b.
func (l Huber) Func(theta, a []float64, b float64) float64 {
	return value(l.Scalar(prediction(theta, a), b, 0))
}

// Grad stores P_[−Delta,Delta](⟨a,θ⟩−b)·a in dst.
func (l Huber) Grad(dst, theta, a []float64, b float64) {
	along(dst, slope(l.Scalar(prediction(theta, a), b, 0)), a)
}

// Scalar returns φ, φ′, φ″ of r = u−b.
func (l Huber) Scalar(u, b, _ float64) (phi, dphi, d2phi float64) {
	r := u - b
	if math.Abs(r) <= l.Delta {
		return r * r / 2, r, 1
	}
	return l.Delta * (math.Abs(r) - l.Delta/2), math.Copysign(l.Delta, r), 0
}

// Exact returns true.
func (Huber) Exact() bool { return true }

// Slope2 returns P_[−Delta,Delta](u+ul−b), within 4·2⁻¹⁰⁶ of u+ul−b: a projection increases
// no distance.
func (l Huber) Slope2(u, ul, b, _ float64) (hi, lo, err float64) {
	hi, lo, err = Squared{}.Slope2(u, ul, b, 0)
	return clamp2(hi, lo, err, l.Delta)
}

// Constants returns L and β as above, rank 1, GLM.
func (l Huber) Constants(bounds Bounds, radius float64) Constants {
	return glm(l, bounds, radius, bounds.Row*min(l.Delta, reach(bounds, radius)), bounds.Row*bounds.Row)
}

// Interpolate returns u, the only label with φ′(u;b′) = 0, and whether it is finite.
func (Huber) Interpolate(u, _ float64) (label float64, ok bool) { return u, finite(u) }

// ClipPoints returns b ∓ k for k < Delta, and ∓∞ otherwise.
func (l Huber) ClipPoints(b, k float64) (lo, hi float64) {
	return twoSided(b, k < l.Delta, k)
}

// Check wants a positive finite Delta.
func (l Huber) Check() error { return positive("Huber.Delta", l.Delta) }
