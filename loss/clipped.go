package loss

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
)

// Clipped is the convex loss whose gradient is the gradient of Loss, clipped
// to norm Threshold. A record with row a has k = Threshold/‖a‖₂ (a zero row
// has no gradient to clip), predictions u₋ ≤ u₊ where φ′ reaches −k and k, and
//
//	φ_c(u) = φ(u₋) − k(u−u₋)  for u < u₋
//	         φ(u)             for u₋ ≤ u ≤ u₊
//	         φ(u₊) + k(u−u₊)  for u > u₊
//	φ_c′ = P_[−k,k](φ′),   φ_c″ = φ″ between, 0 elsewhere
//	L = min(Threshold, L of Loss)   since |φ_c′|‖a‖ ≤ k‖a‖
//	β = β of Loss                   since φ_c″ ≤ φ″
//
// Clipping the nondecreasing φ′ leaves it nondecreasing, so φ_c is convex and
// the clipped gradients are the gradients of an objective. This needs ℓ to
// depend on ⟨a,θ⟩ only: the clipped gradient field of another loss is not a
// gradient in general, and no objective, hence no proof, stands behind it.
// Squared becomes the Huber loss of threshold k. The structure is GLM and the
// rank 1.
type Clipped struct {
	Loss      Linear
	Threshold float64
}

var (
	_ Linear       = Clipped{}
	_ Interpolator = Clipped{}
	_ Checker      = Clipped{}
	_ Monotone     = Clipped{}
)

// NewClipped returns l clipped at threshold. It refuses, wrapping
// ErrParameter, a loss that is not Linear and a threshold that is not positive
// and finite.
func NewClipped(l Loss, threshold float64) (Clipped, error) {
	lin, ok := l.(Linear)
	if !ok {
		return Clipped{}, fmt.Errorf("%w: Clipped.Loss = %T, want a loss of ⟨a,θ⟩ (loss.Linear): clipped gradients of "+
			"others have no objective", ErrParameter, l)
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
	return value(l.Scalar(prediction(theta, a), b, floats.Norm(a, 2)))
}

// Grad stores P_[−k,k](φ′)·a in dst.
func (l Clipped) Grad(dst, theta, a []float64, b float64) {
	along(dst, slope(l.Scalar(prediction(theta, a), b, floats.Norm(a, 2))), a)
}

// Scalar returns φ_c, φ_c′, φ_c″ for a row of the given norm.
func (l Clipped) Scalar(u, b, norm float64) (phi, dphi, d2phi float64) {
	if l.Loss == nil {
		panic(noLoss)
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

// Exact returns what Loss does, false if it does not say.
func (l Clipped) Exact() bool {
	e, ok := l.Loss.(Exact)
	return ok && e.Exact()
}

// Slope2 returns P_[−k,k](φ′) for a Loss that is Exact; else it panics.
func (l Clipped) Slope2(u, ul, b, norm float64) (hi, lo, err float64) {
	hi, lo, err = l.Loss.(Exact).Slope2(u, ul, b, norm)
	return clamp2(hi, lo, err, l.slope(norm))
}

const noLoss = "loss: Clipped without a loss"

// clipPoint returns the end of the interval [u₋, u₊] from which the line of
// the given slope ±k continues to u, where φ′ is beyond it. The loss is asked,
// or the end is searched for. Where φ′ is beyond the slope everywhere, φ_c is
// a line, and fixed by φ_c(0) = φ(0).
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

// lastBelow returns the largest float64 u with f(u) ≤ k, for a nondecreasing f
// with f(above) > k, by doubling steps down and bisection; −∞ if there is none.
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
// domains too.
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

// Interpolate returns what Loss does: φ_c′ = 0 exactly where φ′ = 0.
func (l Clipped) Interpolate(u, b float64) (label float64, ok bool) {
	if i, is := l.Loss.(Interpolator); is {
		return i.Interpolate(u, b)
	}
	return b, false
}

// CheckData returns what Loss does.
func (l Clipped) CheckData(dim int, bounds Bounds) error { return CheckData(l.Loss, dim, bounds) }

// Monotone returns what Loss does, false if it does not say.
func (l Clipped) Monotone() bool { return monotone(l.Loss) }

// Check wants a Loss that passes its own Check and a positive finite Threshold.
func (l Clipped) Check() error {
	return checkMade("Clipped", l.Loss, Squared{}, "Threshold", l.Threshold)
}
