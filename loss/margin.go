// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package loss

import (
	"fmt"
	"math"

	"github.com/privopt/privopt/internal/num"
)

// class returns the class +1 of a positive label and −1 of every other, so that the codings
// −1, 1 and 0, 1 mean the same.
func class(b float64) float64 {
	if b > 0 {
		return 1
	}
	return -1
}

// checkClasses refuses bounds under which two labels of one sign may stand for different classes.
func checkClasses(name string, bounds Bounds) error {
	if bounds.Label != 1 {
		return fmt.Errorf("%w: loss.%s tells two classes by the sign of the label, and Bounds.Label = %v; want labels "+
			"coded −1 and 1, or 0 and 1, and Label: 1", ErrParameter, name, bounds.Label)
	}
	return nil
}

// SmoothedHinge is the hinge loss of a class label with its kink rounded over an interval of
// length Gamma: with the margin m = y⟨a,θ⟩,
//
//	ℓ = 0 where m ≥ 1,   (1−m)²/(2·Gamma) where 1−Gamma ≤ m ≤ 1,   1 − m − Gamma/2 elsewhere
//	φ′ = −y·P_[0,1]((1−m)/Gamma),   φ″ = 1/Gamma between, 0 elsewhere
//	L = Row·min(1, (1+Row·radius)/Gamma)   since 1−m ≤ 1 + ‖a‖‖θ‖
//	β = Row²/Gamma
//
// It is the Moreau envelope of [Hinge] with parameter Gamma. [BC17, Def. 12.20]
type SmoothedHinge struct{ Gamma float64 }

// Func returns the smoothed hinge of the margin.
func (l SmoothedHinge) Func(theta, a []float64, b float64) float64 {
	return value(l.Scalar(dot(theta, a), b, 0))
}

// Grad stores −y·P_[0,1]((1−m)/Gamma)·a in dst.
func (l SmoothedHinge) Grad(dst, theta, a []float64, b float64) {
	along(dst, slope(l.Scalar(dot(theta, a), b, 0)), a)
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

func (l SmoothedHinge) slope2(u, ul, b, _ float64) (hi, lo, err float64) {
	return Hinge{}.proxSlope2(u, ul, b, l.Gamma)
}

// Constants returns L and β as above, rank 1, GLM, Monotone. Range is 1 + Row·radius ≥ (1−m)₊.
func (l SmoothedHinge) Constants(bounds Bounds, radius float64) Constants {
	gap := 1 + bounds.Row*radius
	return rounded(l, bounds, radius, Constants{
		Lipschitz: bounds.Row * min(1, gap/l.Gamma), Smoothness: bounds.Row * bounds.Row / l.Gamma, Range: gap,
		Monotone: true,
	})
}

// Interpolate returns b where its margin is at least 1. Else it flips the class, to −b, if that
// gives such a margin; ok is false where |u| < 1. (Only the sign of a label counts, so the nearest
// label is one of the nearest class, and |b| is kept.)
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

// Check wants a positive finite Gamma.
func (l SmoothedHinge) Check() error { return positive("SmoothedHinge.Gamma", l.Gamma) }

// CheckData wants Label = 1, like Logistic.
func (SmoothedHinge) CheckData(_ int, bounds Bounds) error {
	return checkClasses("SmoothedHinge", bounds)
}

// RootHinge is the hinge loss of a class label with its kink rounded by a square root: with
// x = 1 − y⟨a,θ⟩, R = √(x²+Width²) and q = (1 + x/R)/2,
//
//	ℓ = (x + R)/2,   φ′ = −y·q,   φ″ = Width²/(2R³) = (4/Width)(q(1−q))^{3/2}
//	L = Row·q(1 + Row·radius)   since q increases with x ≤ 1 + ‖a‖‖θ‖
//	β = Row²/(2·Width)          since R ≥ Width
//
// Its curvature is small where its gradient is large, unlike that of [SmoothedHinge], so linear
// perturbation needs less noise. No label makes a finite prediction optimal, so the loss is not an
// [Interpolator].
type RootHinge struct{ Width float64 }

// Func returns (x + R)/2.
func (l RootHinge) Func(theta, a []float64, b float64) float64 {
	return value(l.Scalar(dot(theta, a), b, 0))
}

// Grad stores −y·q·a in dst.
func (l RootHinge) Grad(dst, theta, a []float64, b float64) {
	along(dst, slope(l.Scalar(dot(theta, a), b, 0)), a)
}

// Scalar returns φ, φ′, φ″. With t the smaller one of |x| and Width over the larger one and
// s = √(1+t²), where nothing cancels,
//
//	h = R − |x| = Width·{t/(s+1) or 1/(s+t)}
//	m = h/(2R) = {t²/(2s(s+1)) or 1/(2s(s+t))}   for |x| ≥ Width or |x| < Width
//
// φ = h/2 and q = m for x ≤ 0, and φ = x + h/2 and q = 1 − m for x > 0. In float64, t is off by 2u
// of it, t² by 5u, s by 2.75u, s(s+1) by 6.4u, s(s+t) by 7.5u, m ≤ ½ by 12.4u or 8.5u and q by
// the same, and 2⁻¹⁰⁷⁴.
func (l RootHinge) Scalar(u, b, _ float64) (phi, dphi, d2phi float64) {
	y := class(b)
	x := 1 - y*u
	var h, m, c float64 // c = Width/R
	if size := math.Abs(x); size >= l.Width {
		t := l.Width / size
		s := math.Sqrt(1 + t*t)
		h, m = l.Width*(t/(s+1)), t*t/(2*(s*(s+1)))
		c = t / s
	} else {
		t := size / l.Width
		s := math.Sqrt(1 + t*t)
		h, m = l.Width/(s+t), 1/(2*(s*(s+t)))
		c = 1 / s
	}
	phi, dphi = h/2, -y*m
	if x > 0 {
		phi, dphi = x+h/2, -y*(1-m)
	}
	return phi, dphi, c * c * c / (2 * l.Width)
}

// slope2 returns φ′ within 2⁻⁹⁹|φ′| + 2⁻¹⁰⁷¹: docs/theory/numerics.md#numerics.slopes
func (l RootHinge) slope2(u, ul, b, _ float64) (hi, lo, err float64) {
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

// Constants returns L and β as above, rank 1, GLM, Monotone, NoMinimizer.
func (l RootHinge) Constants(bounds Bounds, radius float64) Constants {
	q := 1.0
	if x := 1 + bounds.Row*radius; !math.IsInf(x, 1) {
		q = (1 + x/math.Hypot(x, l.Width)) / 2
	}
	return rounded(l, bounds, radius, Constants{
		Lipschitz: bounds.Row * q, Smoothness: bounds.Row * bounds.Row / (2 * l.Width), Monotone: true, NoMinimizer: true,
	})
}

// Envelope: with p = ‖∇ℓ‖/Row and t = ‖a‖/Row ≤ 1, q = p/t and
//
//	t²φ″ = (4/Width) t²(q(1−q))^{3/2} = (4/Width) p^{3/2}(t−p)^{3/2}/t ≤ (4/Width)(p(1−p))^{3/2}
//
// because it increases with t.
func (l RootHinge) Envelope(bounds Bounds, lo, hi float64) float64 {
	p, q := share(lo, hi, bounds.Row)
	x := min(max(0.5, p), q) // where p(1−p) is largest
	v := x * (1 - x)
	return outward(bounds.Row * bounds.Row * 4 * v * math.Sqrt(v) / l.Width)
}

// ClipPoints: q = k at x/R = 2k − 1, x = Width(2k−1)/(2√(k(1−k))), for k < 1, and nowhere for
// k ≥ 1.
func (l RootHinge) ClipPoints(b, k float64) (lo, hi float64) {
	return oneSided(class(b), k < 1, 1-l.Width*(2*k-1)/(2*math.Sqrt(k*(1-k))))
}

// Check wants a positive finite Width.
func (l RootHinge) Check() error { return positive("RootHinge.Width", l.Width) }

// CheckData wants Label = 1, like Logistic.
func (RootHinge) CheckData(_ int, bounds Bounds) error { return checkClasses("RootHinge", bounds) }

// Logistic is the logistic loss of a class label:
//
//	ℓ(θ;a,b) = log(1 + exp(−y⟨a,θ⟩))
//	φ(u;b) = log(1+e^{−yu}),   φ′ = −y/(1+e^{yu}),   φ″ = e^{−|u|}/(1+e^{−|u|})²
//	L = Row      since |φ′| < 1
//	β = Row²/4   since φ″ ≤ ¼
//
// No label makes a finite prediction optimal, so the loss is not an [Interpolator]. Labels are
// coded −1, 1 or 0, 1 and declared by Label: 1, see CheckData.
type Logistic struct{}

// Func returns log(1 + exp(−y⟨a,θ⟩)) without overflow.
func (l Logistic) Func(theta, a []float64, b float64) float64 {
	return value(l.Scalar(dot(theta, a), b, 0))
}

// Grad stores −y/(1+exp(y⟨a,θ⟩))·a in dst without overflow.
func (l Logistic) Grad(dst, theta, a []float64, b float64) {
	along(dst, slope(l.Scalar(dot(theta, a), b, 0)), a)
}

// Scalar returns φ, φ′, φ″ from the exponential of −|u|, which is within 4u of itself; φ′ is within
// 7u.
func (Logistic) Scalar(u, b, _ float64) (phi, dphi, d2phi float64) {
	y := class(b)
	m := y * u
	e := expNeg(math.Abs(m))
	phi = max(-m, 0) + math.Log1p(e) // log(1+e^{−m}) = (−m)₊ + log(1+e^{−|m|})
	if m >= 0 {
		dphi = -y * e / (1 + e)
	} else {
		dphi = -y / (1 + e)
	}
	return phi, dphi, e / ((1 + e) * (1 + e))
}

// slope2 returns −y/(1+e^m), m = y(u+ul), within 2⁻¹⁰⁰ = 64u² of itself and 2⁻¹⁰⁷¹: 24u² come from
// the exponential, 4.5u² from 1 + e^−|m| and 16u² from the quotient.
func (Logistic) slope2(u, ul, b, _ float64) (hi, lo, err float64) {
	y := class(b)
	sign := math.Float64bits(u) & (1 << 63)
	e, el := expNeg2(math.Abs(u), math.Float64frombits(math.Float64bits(ul)^sign)) // e^−|u+ul|
	d, dl := num.Add2(1, 0, e, el)
	// e where m ≥ 0, else 1, by a conditional move, as in Slopes.
	top, low := math.Float64bits(e), math.Float64bits(el)
	if y*u < 0 {
		top, low = math.Float64bits(1), 0
	}
	hi, lo = num.Div2(math.Float64frombits(top), math.Float64frombits(low), d, dl) // e^−|m|/(1+e^−|m|) or 1/(1+e^−|m|)
	return -y * hi, -y * lo, 0x1p-100*hi + 8*tiny
}

// Slopes replaces u by φ′ and stores φ″ in curve.
func (Logistic) Slopes(u, b, curve []float64) {
	b = b[:len(u)]
	for i, v := range u {
		y := class(b[i])
		m := y * v
		e := expNeg(math.Abs(m))
		// e where m ≥ 0, else 1, by a conditional move: the sign of a margin cannot be predicted.
		top := math.Float64bits(1)
		if m >= 0 {
			top = math.Float64bits(e)
		}
		u[i] = -y * math.Float64frombits(top) / (1 + e)
		if curve != nil {
			curve[i] = e / ((1 + e) * (1 + e))
		}
	}
}

// Constants returns L and β as above, rank 1, GLM, Monotone, NoMinimizer. Range is
// ln 2 + Row·radius ≥ log(1+e^{|u|}).
func (l Logistic) Constants(bounds Bounds, radius float64) Constants {
	return rounded(l, bounds, radius, Constants{
		Lipschitz: bounds.Row, Smoothness: bounds.Row * bounds.Row / 4, Range: math.Ln2 + bounds.Row*radius,
		Monotone: true, NoMinimizer: true,
	})
}

// Envelope: with p = ‖∇ℓ‖/Row and t = ‖a‖/Row ≤ 1, |φ′| = p/t and φ″ = |φ′|(1−|φ′|),
//
//	t²φ″ = p(t−p) ≤ p(1−p)
func (Logistic) Envelope(bounds Bounds, lo, hi float64) float64 {
	p, q := share(lo, hi, bounds.Row)
	x := min(max(0.5, p), q) // where p(1−p) is largest
	return outward(bounds.Row * bounds.Row * x * (1 - x))
}

// ClipPoints: |φ′| = k at yu = log((1−k)/k) for k < 1 and nowhere for k ≥ 1.
func (Logistic) ClipPoints(b, k float64) (lo, hi float64) {
	return oneSided(class(b), k < 1, math.Log1p(-min(k, 1))-num.Log(k))
}

// CheckData wants Label = 1, so that labels are coded −1, 1 or 0, 1: the signs of other codings,
// such as 1, 2, do not distinguish the classes.
func (Logistic) CheckData(_ int, bounds Bounds) error { return checkClasses("Logistic", bounds) }
