package loss

import (
	"math"

	"github.com/privopt/privopt/internal/num"
)

// RootHinge is the hinge loss of a class label with its kink rounded by a square
// root: with y = +1 for b > 0, y = −1 otherwise, x = 1 − y⟨a,θ⟩ and
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
	_ Clippable = RootHinge{}
	_ Checker   = RootHinge{}
	_ Monotone  = RootHinge{}
	_ Envelope  = RootHinge{}
)

// Func returns (x + R)/2.
func (l RootHinge) Func(theta, a []float64, b float64) float64 {
	return value(l.Scalar(prediction(theta, a), b, 0))
}

// Grad stores −y·q·a in dst.
func (l RootHinge) Grad(dst, theta, a []float64, b float64) {
	along(dst, slope(l.Scalar(prediction(theta, a), b, 0)), a)
}

// Scalar returns φ, φ′, φ″. With t the smaller one of |x| and Width over the larger one and
// s = √(1+t²), where nothing cancels,
//
//	h = R − |x| = Width·{t/(s+1) or 1/(s+t)}
//	m = h/(2R) = {t²/(2s(s+1)) or 1/(2s(s+t))}   for |x| ≥ Width or |x| < Width
//
// φ = h/2 and q = m for x ≤ 0, and φ = x + h/2 and q = 1 − m for x > 0. In float64, t is off by 2u
// of it, t² by 5u, s by 2.75u, s(s+1) by 6.4u, s(s+t) by 7.5u, m ≤ ½ by 12.4u or 8.5u and q by
// as much, and 2⁻¹⁰⁷⁴.
func (l RootHinge) Scalar(u, b, _ float64) (phi, dphi, d2phi float64) {
	y := class(b)
	x := 1 - y*u
	var h, m, c float64 // c = Width/R
	if size := math.Abs(x); size >= l.Width {
		t := l.Width / size
		s := math.Sqrt(1 + t*t)
		h, m, c = l.Width*(t/(s+1)), t*t/(2*(s*(s+1))), t/s
	} else {
		t := size / l.Width
		s := math.Sqrt(1 + t*t)
		h, m, c = l.Width/(s+t), 1/(2*(s*(s+t))), 1/s
	}
	phi, dphi = h/2, -y*m
	if x > 0 {
		phi, dphi = x+h/2, -y*(1-m)
	}
	return phi, dphi, c * c * c / (2 * l.Width)
}

// Exact returns true.
func (RootHinge) Exact() bool { return true }

// Slope2 returns −y·q as Scalar does, within 128u² = 2⁻⁹⁹ of itself and 2⁻¹⁰⁷¹:
// docs/theory/numerics.md#numerics.slopes
func (l RootHinge) Slope2(u, ul, b, _ float64) (hi, lo, err float64) {
	y := class(b)
	x, xl := difference(-y*u, -y*ul, -1)
	size, sizeLow := x, xl
	if x < 0 {
		size, sizeLow = -x, -xl
	}
	var m, ml float64
	if size >= l.Width {
		t, tl := quotient2(l.Width, 0, size, sizeLow)
		s, sl := root2(t, tl)
		t, tl = num.Mul2(t, tl, t, tl)
		m, ml = num.Add2(s, sl, 1, 0)
		m, ml = num.Mul2(m, ml, s, sl)
		m, ml = num.Div2(t/2, tl/2, m, ml)
	} else {
		t, tl := quotient2(size, sizeLow, l.Width, 0)
		s, sl := root2(t, tl)
		m, ml = num.Add2(s, sl, t, tl)
		m, ml = num.Mul2(m, ml, s, sl)
		m, ml = num.Div2(0.5, 0, m, ml)
	}
	if x > 0 {
		m, ml = num.Add2(1, 0, -m, -ml)
	}
	return -y * m, -y * ml, 0x1p-99*m + 8*tiny
}

// Constants returns L and β as above, rank 1, GLM.
func (l RootHinge) Constants(bounds Bounds, radius float64) Constants {
	q := 1.0
	if x := 1 + bounds.Row*radius; !math.IsInf(x, 1) {
		q = (1 + x/math.Hypot(x, l.Width)) / 2
	}
	return glm(l, bounds, radius, bounds.Row*q, bounds.Row*bounds.Row/(2*l.Width))
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
	return oneSided(class(b), k < 1, 1-l.Width*(2*k-1)/(2*math.Sqrt(k*(1-k))))
}

// Monotone returns true: the sign of φ′ is −y.
func (RootHinge) Monotone() bool { return true }

// Check wants a positive finite Width.
func (l RootHinge) Check() error { return positive("RootHinge.Width", l.Width) }

// CheckData wants Label = 1, as that of Logistic.
func (RootHinge) CheckData(_ int, bounds Bounds) error { return checkClasses("RootHinge", bounds) }
