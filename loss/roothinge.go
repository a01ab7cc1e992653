package loss

import "math"

// RootHinge is the hinge loss of a class label with its kink rounded by a square
// root: with y = +1 for b ≥ 0, y = −1 otherwise, x = 1 − y⟨a,θ⟩ and
// R = √(x²+Width²),
//
//	ℓ = (x + R)/2
//	φ′ = −y·q, q = (1 + x/R)/2,   φ″ = Width²/(2R³) = (4/Width)(q(1−q))^{3/2}
//	L = Row·q(1 + Row·radius)   since q increases with x ≤ 1 + ‖a‖‖θ‖
//	β = Row²/(2·Width)          since R ≥ Width
//
// The structure is GLM and the rank 1. Where the gradient is large the curvature
// is small, which SmoothedHinge does not offer: linear perturbation needs less
// noise. No label makes a finite prediction optimal, so the loss is not an
// Interpolator.
type RootHinge struct{ Width float64 }

var (
	_ Linear    = RootHinge{}
	_ Clippable = RootHinge{}
	_ Checker   = RootHinge{}
	_ Monotone  = RootHinge{}
	_ Envelope  = RootHinge{}
)

// Func returns (x + R)/2.
func (l RootHinge) Func(theta, a []float64, b float64) float64 {
	phi, _, _ := l.Scalar(prediction(theta, a), b, 0)
	return phi
}

// Grad stores −y·q·a in dst.
func (l RootHinge) Grad(dst, theta, a []float64, b float64) {
	_, dphi, _ := l.Scalar(prediction(theta, a), b, 0)
	along(dst, dphi, a)
}

// Scalar returns φ, φ′, φ″. With h = Width²/(R+|x|) = R − |x|, which does not cancel,
// φ = h/2 and q = h/(2R) for x ≤ 0, and φ = x + h/2 and q = 1 − h/(2R) for x > 0.
func (l RootHinge) Scalar(u, b, _ float64) (phi, dphi, d2phi float64) {
	y := class(b)
	x := 1 - y*u
	root := math.Hypot(x, l.Width)
	c := l.Width / root
	h := l.Width * (l.Width / (root + math.Abs(x)))
	phi, dphi = h/2, -y*h/root/2
	if x > 0 {
		phi, dphi = x+h/2, -y*(1-h/root/2)
	}
	return phi, dphi, c * c * c / (2 * l.Width)
}

// Constants returns L = Row·q(1+Row·radius), β = Row²/(2·Width), rank 1, GLM,
// rounded up; zero Constants where a parameter or bound is invalid or radius is
// negative or NaN.
func (l RootHinge) Constants(bounds Bounds, radius float64) Constants {
	if !valid(l, bounds, radius) {
		return Constants{}
	}
	q := 1.0
	if x := 1 + bounds.Row*radius; !math.IsInf(x, 1) {
		q = (1 + x/math.Hypot(x, l.Width)) / 2
	}
	return Constants{
		Lipschitz:  outward(bounds.Row * q),
		Smoothness: outward(bounds.Row * bounds.Row / (2 * l.Width)),
		Rank:       1,
		Structure:  GLM,
	}
}

// Envelope: with p = ‖∇ℓ‖/Row and t = ‖a‖/Row ≤ 1, q = p/t and
//
//	t²φ″ = (4/Width) t²(q(1−q))^{3/2} = (4/Width) p^{3/2}(t−p)^{3/2}/t ≤ (4/Width)(p(1−p))^{3/2}
//
// because it increases with t.
func (l RootHinge) Envelope(bounds Bounds, lo, hi float64) float64 {
	p, q := share(lo, hi, bounds.Row)
	x := between(0.5, p, q)
	v := x * (1 - x)
	return outward(bounds.Row * bounds.Row * 4 * v * math.Sqrt(v) / l.Width)
}

// ClipPoints: q = k at x/R = 2k − 1, x = Width(2k−1)/(2√(k(1−k))), for k < 1, and
// nowhere for k ≥ 1.
func (l RootHinge) ClipPoints(b, k float64) (lo, hi float64) {
	if k >= 1 {
		return oneSided(class(b), false, 0)
	}
	return oneSided(class(b), true, 1-l.Width*(2*k-1)/(2*math.Sqrt(k*(1-k))))
}

// Monotone returns true: the sign of φ′ is −y.
func (RootHinge) Monotone() bool { return true }

// Check wants a positive finite Width.
func (l RootHinge) Check() error { return positive("RootHinge.Width", l.Width) }
