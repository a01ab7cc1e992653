package loss

import "math"

// SmoothedHinge is the hinge loss of a class label with its kink rounded over
// an interval of length Gamma: with y = +1 for b > 0, y = −1 otherwise and
// margin m = y⟨a,θ⟩,
//
//	ℓ = 0 where m ≥ 1,   (1−m)²/(2·Gamma) where 1−Gamma ≤ m ≤ 1,
//	    1 − m − Gamma/2 elsewhere
//	φ′ = −y·P_[0,1]((1−m)/Gamma),   φ″ = 1/Gamma between, 0 elsewhere
//	L = Row·min(1, (1+Row·radius)/Gamma)   since 1−m ≤ 1 + ‖a‖‖θ‖
//	β = Row²/Gamma                         since φ″ ≤ 1/Gamma
//
// The structure is GLM and the rank 1. The function is the Moreau envelope of
// the hinge with parameter Gamma. [BC17, Def. 12.20]
type SmoothedHinge struct{ Gamma float64 }

var (
	_ Interpolator = SmoothedHinge{}
	_ Clippable    = SmoothedHinge{}
	_ Checker      = SmoothedHinge{}
	_ Monotone     = SmoothedHinge{}
)

// Func returns the smoothed hinge of the margin.
func (l SmoothedHinge) Func(theta, a []float64, b float64) float64 {
	return value(l.Scalar(prediction(theta, a), b, 0))
}

// Grad stores −y·P_[0,1]((1−m)/Gamma)·a in dst.
func (l SmoothedHinge) Grad(dst, theta, a []float64, b float64) {
	along(dst, slope(l.Scalar(prediction(theta, a), b, 0)), a)
}

// Scalar returns φ, φ′, φ″ at the margin m = yu.
func (l SmoothedHinge) Scalar(u, b, _ float64) (phi, dphi, d2phi float64) {
	y := class(b)
	gap := 1 - y*u // 1 − m
	switch {
	case gap <= 0:
		return 0, 0, 0
	case gap <= l.Gamma:
		return gap / l.Gamma * gap / 2, -y * gap / l.Gamma, 1 / l.Gamma
	}
	return gap - l.Gamma/2, -y, 0
}

// Exact returns true.
func (SmoothedHinge) Exact() bool { return true }

// Slope2 returns −y·P_[0,1]((1−m)/Gamma), within 24·2⁻¹⁰⁶ of itself.
func (l SmoothedHinge) Slope2(u, ul, b, _ float64) (hi, lo, err float64) {
	return Hinge{}.proxSlope2(u, ul, b, l.Gamma)
}

// Constants returns L and β as above, rank 1, GLM.
func (l SmoothedHinge) Constants(bounds Bounds, radius float64) Constants {
	return glm(l, bounds, radius, bounds.Row*min(1, (1+bounds.Row*radius)/l.Gamma), bounds.Row*bounds.Row/l.Gamma)
}

// Interpolate returns b where its margin is at least 1. Else it flips the
// class, to −b, if that gives one, and ok is false where |u| < 1. (Only the
// sign of a label counts, so labels are compared by class, and |b| is kept.)
func (l SmoothedHinge) Interpolate(u, b float64) (label float64, ok bool) {
	switch {
	case class(b)*u >= 1:
		return b, true
	case class(-b)*u >= 1:
		return -b, true
	case u >= 1: // b = 0 is in the negative class, and so is −0
		return math.SmallestNonzeroFloat64, true
	}
	return b, false
}

// ClipPoints: |φ′| = k at m = 1 − k·Gamma for k < 1 and nowhere for k ≥ 1.
func (l SmoothedHinge) ClipPoints(b, k float64) (lo, hi float64) {
	return oneSided(class(b), k < 1, 1-k*l.Gamma)
}

// Monotone returns true: the sign of φ′ is −y or 0.
func (SmoothedHinge) Monotone() bool { return true }

// Check wants a positive finite Gamma.
func (l SmoothedHinge) Check() error { return positive("SmoothedHinge.Gamma", l.Gamma) }

// CheckData wants Label = 1, as that of Logistic.
func (SmoothedHinge) CheckData(_ int, bounds Bounds) error {
	return checkClasses("SmoothedHinge", bounds)
}
