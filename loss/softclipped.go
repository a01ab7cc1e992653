package loss

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// SoftClipped is the squared loss with its gradient clipped at norm Threshold by a
// smooth function: with k = Threshold/‖a‖₂ (a zero row has no gradient to clip),
// r = ⟨a,θ⟩−b and q = √(1+(r/k)²),
//
//	ℓ = k²(q − 1)
//	φ′ = r/q,   φ″ = q⁻³
//	L = Threshold·v/√(1+v²), v = Row(Row·radius + Label)/Threshold
//	                          since ‖a‖|r|/q increases with ‖a‖ and |r|
//	β = Row²                  since φ″ ≤ 1
//
// It is PseudoHuber with a threshold for the gradient in place of one for the
// residual, as Clipped of Squared is Huber's loss. Where the gradient is large the
// curvature is small, and linear perturbation needs less noise than for Clipped;
// in return a gradient below the threshold is lowered too, by the factor 1/q. The
// structure is GLM and the rank 1.
type SoftClipped struct{ Threshold float64 }

var (
	_ Interpolator = SoftClipped{}
	_ Checker      = SoftClipped{}
	_ Envelope     = SoftClipped{}
)

// Func returns k²(q−1) at ⟨a,θ⟩−b.
func (l SoftClipped) Func(theta, a []float64, b float64) float64 {
	return value(l.Scalar(prediction(theta, a), b, floats.Norm(a, 2)))
}

// Grad stores r/q·a in dst.
func (l SoftClipped) Grad(dst, theta, a []float64, b float64) {
	along(dst, slope(l.Scalar(prediction(theta, a), b, floats.Norm(a, 2))), a)
}

// Scalar returns φ, φ′, φ″ for a row of the given norm.
func (l SoftClipped) Scalar(u, b, norm float64) (phi, dphi, d2phi float64) {
	k := l.residual(norm)
	if math.IsInf(k, 1) {
		return Squared{}.Scalar(u, b, norm)
	}
	return pseudoHuber(u-b, k)
}

// residual returns k, rounded: +Inf for a zero row, or next to one.
func (l SoftClipped) residual(norm float64) float64 { return max(l.Threshold/norm, tiny) }

// Exact returns true, by the comment of pseudoHuber.
func (SoftClipped) Exact() bool { return true }

// Slope2 returns r/q within 2⁻¹⁰⁰ of itself and 2⁻¹⁰⁷¹, for k = Threshold/norm in float64.
func (l SoftClipped) Slope2(u, ul, b, norm float64) (hi, lo, err float64) {
	k := l.residual(norm)
	if math.IsInf(k, 1) {
		return Squared{}.Slope2(u, ul, b, norm)
	}
	r, rl := difference(u, ul, b)
	return pseudoHuber2(r, rl, k)
}

// Constants returns L and β as above, rank 1, GLM. L is at most Threshold on unbounded domains too.
func (l SoftClipped) Constants(bounds Bounds, radius float64) Constants {
	limit := l.Threshold
	if v := bounds.Row * reach(bounds, radius) / l.Threshold; !math.IsInf(v, 1) {
		limit *= v / math.Hypot(1, v)
	}
	return glm(l, bounds, radius, limit, bounds.Row*bounds.Row)
}

// Envelope: with p = ‖∇ℓ‖/Threshold, φ″ = (1−p²)^{3/2} whatever ‖a‖, and
//
//	‖a‖²φ″ ≤ Row²(1−p²)^{3/2}
func (l SoftClipped) Envelope(bounds Bounds, lo, hi float64) float64 {
	p, _ := share(lo, hi, l.Threshold)
	c := (1 - p) * (1 + p)
	return outward(bounds.Row * bounds.Row * c * math.Sqrt(c))
}

// Interpolate returns u, the only label with φ′(u;b′) = 0, and whether it is finite.
func (SoftClipped) Interpolate(u, _ float64) (label float64, ok bool) { return u, finite(u) }

// Check wants a positive finite Threshold.
func (l SoftClipped) Check() error { return positive("SoftClipped.Threshold", l.Threshold) }
