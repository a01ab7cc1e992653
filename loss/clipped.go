// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package loss

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
)

// Clippable is the optional ability of a [Linear] loss to name the predictions where its derivative
// reaches ±k, so that [Clipped] need not search for them.
type Clippable interface {
	Linear
	// ClipPoints returns lo ≤ hi with φ′(lo;b) = −k and φ′(hi;b) = k for k > 0, −∞ or +∞ where the
	// derivative never exceeds k on that side.
	ClipPoints(b, k float64) (lo, hi float64)
}

// twoSided returns the clip points of an odd function of u−b that reaches slope k at u−b = r if
// active, and nowhere else.
func twoSided(b float64, active bool, r float64) (lo, hi float64) {
	if !active {
		return math.Inf(-1), math.Inf(1)
	}
	return b - r, b + r
}

// oneSided returns the clip points of a decreasing function of the margin yu that reaches slope −k
// at yu = m if active, and nowhere else.
func oneSided(y float64, active bool, m float64) (lo, hi float64) {
	lo, hi = math.Inf(-1), math.Inf(1)
	switch {
	case active && y > 0:
		lo = m // φ′(u) = −k for u below m
	case active:
		hi = -m // φ′(u) = k for u above −m
	}
	return lo, hi
}

// Clipped is the convex loss whose gradient is the gradient of Loss, clipped to norm Threshold.
// With k = Threshold/‖a‖₂, and predictions u₋ ≤ u₊ where φ′ reaches −k and k,
//
//	φ_c(u) = φ(u₋) − k(u−u₋) for u < u₋,   φ(u) between,   φ(u₊) + k(u−u₊) for u > u₊
//	φ_c′ = P_[−k,k](φ′),   φ_c″ = φ″ between, 0 elsewhere
//	L = min(Threshold, L of Loss),   β = β of Loss
//
// A zero row has no gradient to clip. φ_c is convex because clipping leaves φ′ nondecreasing. Only
// losses of ⟨a,θ⟩ can be clipped: the clipped gradients of another loss are in general not the
// gradients of any function, so no proof covers them. Squared becomes the Huber loss of threshold
// k.
type Clipped struct {
	Loss      Linear
	Threshold float64
}

// NewClipped returns l clipped at threshold. It refuses, wrapping ErrParameter, a loss that is not
// [Linear] and a threshold that is not positive and finite.
func NewClipped(l Loss, threshold float64) (Clipped, error) {
	lin, ok := l.(Linear)
	if !ok {
		return Clipped{}, fmt.Errorf("%w: Clipped.Loss = %T, want a loss of ⟨a,θ⟩, a loss.Linear with "+
			"Scalar(u, b, norm float64) (phi, dphi, d2phi float64): clipped gradients of others have no objective",
			ErrParameter, l)
	}
	c := Clipped{lin, threshold}
	return c, c.Check()
}

// slope returns k = Threshold/norm, +Inf for a zero row and never 0.
func (l Clipped) slope(norm float64) float64 {
	if norm == 0 {
		return math.Inf(1)
	}
	return max(l.Threshold/norm, math.SmallestNonzeroFloat64)
}

// Func returns φ_c(⟨a,θ⟩).
func (l Clipped) Func(theta, a []float64, b float64) float64 {
	return value(l.Scalar(dot(theta, a), b, floats.Norm(a, 2)))
}

// Grad stores P_[−k,k](φ′)·a in dst.
func (l Clipped) Grad(dst, theta, a []float64, b float64) {
	along(dst, slope(l.Scalar(dot(theta, a), b, floats.Norm(a, 2))), a)
}

// Scalar returns φ_c, φ_c′, φ_c″ for a row of the given norm.
func (l Clipped) Scalar(u, b, norm float64) (phi, dphi, d2phi float64) {
	if l.Loss == nil {
		panic("loss: Clipped without a loss")
	}
	k := l.slope(norm)
	phi, dphi, d2phi = l.Loss.Scalar(u, b, norm)
	if !(math.Abs(dphi) > k) {
		return phi, dphi, d2phi
	}
	slope := math.Copysign(k, dphi)
	end := l.clipPoint(b, slope, norm, u)
	phi, _, _ = l.Loss.Scalar(end, b, norm)
	return phi + slope*(u-end), slope, 0
}

// clipPoint returns the end of the interval [u₋, u₊] from which the line of the given slope ±k
// continues to u, where φ′ is beyond the slope. It searches for the end unless Loss is Clippable.
// Where φ′ is beyond the slope everywhere, φ_c is a line, fixed by φ_c(0) = φ(0).
func (l Clipped) clipPoint(b, slope, norm, u float64) float64 {
	var end float64
	if c, ok := l.Loss.(Clippable); ok {
		lo, hi := c.ClipPoints(b, math.Abs(slope))
		if end = hi; slope < 0 {
			end = lo
		}
	} else {
		sign := math.Copysign(1, slope)
		end = sign * lastBelow(func(u float64) float64 {
			_, dphi, _ := l.Loss.Scalar(sign*u, b, norm)
			return sign * dphi
		}, math.Abs(slope), sign*u)
	}
	if math.IsInf(end, 0) {
		end = 0
	}
	return end
}

// lastBelow returns the largest float64 u with f(u) ≤ k, for a nondecreasing f with f(above) > k,
// by doubling steps down and bisection; −∞ if there is none.
func lastBelow(f func(float64) float64, k, above float64) float64 {
	below := above
	for step := max(1, math.Abs(above)*0x1p-30); f(below) > k; step *= 2 {
		if above, below = below, below-step; math.IsInf(below, -1) {
			return below
		}
	}
	for {
		mid := below/2 + above/2
		if !(mid > below && mid < above) {
			return below
		}
		if f(mid) > k {
			above = mid
		} else {
			below = mid
		}
	}
}

// Constants returns those of Loss with L = min(Threshold, L), rank 1, GLM. L is finite on unbounded
// domains too. Range stays: φ_c ≤ φ, and where φ has an infimum φ_c has the same, because the lines
// rise away from the part that is kept.
func (l Clipped) Constants(bounds Bounds, radius float64) Constants {
	c, ok := inherited(l, l.Loss, bounds, radius)
	if !ok {
		return c
	}
	limit := outward(l.Threshold)
	if c.Lipschitz == 0 { // unknown; clipping makes it known
		c.Lipschitz = limit
	}
	c.Lipschitz = min(c.Lipschitz, limit)
	return c
}

// Envelope returns the envelope of Loss, or its Smoothness where it has none: a clipped record has
// the gradient and the curvature of the loss, or no curvature.
func (l Clipped) Envelope(bounds Bounds, lo, hi float64) float64 {
	return envelope(l.Loss, bounds, lo, hi)
}

// Interpolate returns the result of Loss: φ_c′ = 0 exactly where φ′ = 0.
func (l Clipped) Interpolate(u, b float64) (label float64, ok bool) {
	if i, is := l.Loss.(Interpolator); is {
		return i.Interpolate(u, b)
	}
	return b, false
}

// CheckData returns the error of Loss.
func (l Clipped) CheckData(dim int, bounds Bounds) error { return CheckData(l.Loss, dim, bounds) }

// Check wants a Loss that passes its own Check and a positive finite Threshold.
func (l Clipped) Check() error {
	return checkMade("Clipped", l.Loss, Squared{}, "Threshold", l.Threshold)
}

// SoftClipped is the squared loss with its gradient clipped at norm Threshold by a smooth function:
// with k = Threshold/‖a‖₂, r = ⟨a,θ⟩−b and q = √(1+(r/k)²),
//
//	ℓ = k²(q − 1),   φ′ = r/q,   φ″ = q⁻³
//	L = Threshold·v/√(1+v²),   v = Row(Row·radius + Label)/Threshold
//	β = Row²
//
// It is [PseudoHuber] with a threshold for the gradient in place of the residual. Its curvature is
// small where its gradient is large, so linear perturbation needs less noise than for [Clipped];
// but gradients below the threshold are lowered too, by the factor 1/q.
type SoftClipped struct{ Threshold float64 }

// Func returns k²(q−1) at ⟨a,θ⟩−b.
func (l SoftClipped) Func(theta, a []float64, b float64) float64 {
	return value(l.Scalar(dot(theta, a), b, floats.Norm(a, 2)))
}

// Grad stores r/q·a in dst.
func (l SoftClipped) Grad(dst, theta, a []float64, b float64) {
	along(dst, slope(l.Scalar(dot(theta, a), b, floats.Norm(a, 2))), a)
}

// Scalar returns φ, φ′, φ″ for a row of the given norm.
func (l SoftClipped) Scalar(u, b, norm float64) (phi, dphi, d2phi float64) {
	k := l.residual(norm)
	if math.IsInf(k, 1) {
		return Squared{}.Scalar(u, b, norm)
	}
	return pseudoHuber(u-b, k)
}

// residual returns k, rounded: +Inf for a zero row and for one that is nearly zero.
func (l SoftClipped) residual(norm float64) float64 { return max(l.Threshold/norm, tiny) }

func (l SoftClipped) slope2(u, ul, b, norm float64) (hi, lo, err float64) {
	k := l.residual(norm)
	if math.IsInf(k, 1) {
		return Squared{}.slope2(u, ul, b, norm)
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
	return rounded(l, bounds, radius, Constants{Lipschitz: limit, Smoothness: bounds.Row * bounds.Row})
}

// Envelope: with p = ‖∇ℓ‖/Threshold, φ″ = (1−p²)^{3/2} for every ‖a‖, and ‖a‖²φ″ ≤
// Row²(1−p²)^{3/2}.
func (l SoftClipped) Envelope(bounds Bounds, lo, hi float64) float64 {
	return pseudoHuberEnvelope(bounds, lo, hi, l.Threshold)
}

// Interpolate returns u, the only label with φ′(u;b′) = 0, and whether it is finite.
func (SoftClipped) Interpolate(u, _ float64) (label float64, ok bool) { return u, finite(u) }

// Check wants a positive finite Threshold.
func (l SoftClipped) Check() error { return positive("SoftClipped.Threshold", l.Threshold) }
