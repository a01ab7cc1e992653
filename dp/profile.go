// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package dp

import (
	"fmt"
	"math"

	"github.com/privopt/privopt/dp/internal/pld"
	"github.com/privopt/privopt/internal/num"
)

// Curve is δ(ε) for an ordered pair of output laws P, Q on neighboring data: a bound on the
// hockey-stick divergence sup_S P(S) - e^ε Q(S). It is defined for every real ε, takes values in
// [0, 1] and does not increase. The least of several curves is a curve.
type Curve func(eps float64) float64

// Profile is the privacy profile of a release. Under AddRemove it keeps the two orders of a pair of
// neighbors apart, because releases compose in each order; under Replace both fields hold one
// curve.
type Profile struct {
	Remove Curve // P is the law on the data set with the record, Q without it
	Add    Curve // the other way round
	// RDP bounds the Rényi divergences of both orders; nil where no bound is known.
	RDP RDP
	// Failure bounds, for every data set, the probability of the rare event of its own noise in which
	// the release differs from one with these curves. It adds (1 + e^ε)·Failure to δ.
	Failure float64

	shift float64 // s of GaussianProfile, else 0
}

// GaussianProfile returns the profile of Gaussian noise with s = sensitivity/σ. [Compose] adds up
// the squares of the s of such profiles.
func GaussianProfile(s float64) Profile {
	p := Symmetric(GaussianCurve(s), GaussianRDP(s))
	p.shift = s
	return p
}

// gaussian returns s if the curves are those of GaussianProfile. Curves that a caller put in their
// place differ at one of the points.
func (p Profile) gaussian() (s float64, ok bool) {
	s = p.shift
	if !(s > 0) || math.IsInf(s, 1) {
		return 0, false
	}
	for _, eps := range []float64{-s, 0, s * s / 2, s, s * (s + 2), s * (s + 6)} {
		if d := GaussianDelta(eps, s); p.Remove(eps) != d || p.Add(eps) != d {
			return 0, false
		}
	}
	return s, true
}

// Symmetric returns the profile of a release whose two orders have the curve c.
func Symmetric(c Curve, r RDP) Profile { return Profile{Remove: c, Add: c, RDP: r} }

// Unknown is the profile about which nothing is known, δ = 1 at every ε.
func Unknown() Profile { return Symmetric(func(float64) float64 { return 1 }, nil) }

// Delta returns the larger δ(ε) of the two orders, failures included:
//
//	max{δ_remove(ε′), δ_add(ε′)} + (1 + e^ε′)·Failure,   ε′ = min(ε, −½ ln Failure)
func (p Profile) Delta(eps float64) float64 {
	if math.IsNaN(eps) {
		return 1
	}
	if p.Failure > 0 {
		eps = min(eps, -num.Log(p.Failure)/2)
	}
	delta := max(p.Remove(eps), p.Add(eps))
	if p.Failure > 0 {
		delta += (1 + math.Exp(eps)) * p.Failure * (1 + 0x1p-50)
	}
	return min(1, delta)
}

// Epsilon returns the least ε in [0, MaxEpsilon] with Delta(ε) ≤ delta, rounded up to the next
// float64, with failures by a part in a million; +Inf where there is none.
func (p Profile) Epsilon(delta float64) float64 {
	both := Curve(func(eps float64) float64 { return max(p.Remove(eps), p.Add(eps)) })
	return pld.WithFailure(delta, p.Failure, both.Epsilon)
}

// Epsilon returns the least ε in [0, MaxEpsilon] with p(ε) ≤ delta, rounded up to the next float64,
// or +Inf where there is none.
func (p Curve) Epsilon(delta float64) float64 {
	switch {
	case !(p(MaxEpsilon) <= delta):
		return math.Inf(1)
	case p(0) <= delta:
		return 0
	}
	eps, _ := num.Bisect(func(e float64) bool { return p(e) <= delta }, MaxEpsilon, 0)
	return eps
}

// PureCurve returns the curve that ε₀-differential privacy implies, that of randomized response
// [KOV15]:
//
//	δ(ε) = max{ 0, 1 - e^ε, (e^ε₀ - e^ε)/(1 + e^ε₀) }
//
// eps0 < 0 or NaN gives δ = 1.
func PureCurve(eps0 float64) Curve {
	return func(eps float64) float64 {
		if !(eps0 >= 0) || math.IsInf(eps0, 1) || math.IsNaN(eps) {
			return 1
		}
		return max(0, -math.Expm1(eps), -math.Expm1(eps-eps0)/(1+math.Exp(-eps0)))
	}
}

// Profile returns the profile that (ε₀, δ₀)-differential privacy implies, in both orders: δ(ε) = δ₀
// + (1 - δ₀)·δ_pure(ε; ε₀), see docs/theory/composition.md#composition.pure. A budget that fails
// Check gives δ = 1.
func (b Budget) Profile() Profile {
	if b.Check() != nil {
		return Unknown()
	}
	pure := PureCurve(b.Epsilon)
	if b.Delta == 0 {
		return Symmetric(pure, PureRDP(b.Epsilon))
	}
	return Symmetric(func(eps float64) float64 {
		d := pure(eps)
		return b.Delta*(1-d) + d
	}, nil)
}

// GaussianCurve returns the curve of Gaussian noise with s = sensitivity/σ, see [GaussianLogDelta].
func GaussianCurve(s float64) Curve {
	return func(eps float64) float64 { return GaussianDelta(eps, s) }
}

// Calibrate returns the largest s in [2⁻⁸⁰, 2⁸⁰] for which family(s), whose δ does not decrease
// with s, meets the budget, rounded down to a float64 for which it was checked. s is a ratio of
// signal to noise such as sensitivity/σ. The error wraps ErrBudget for a bad budget and
// ErrCondition if not even the least s serves. The caller allows for errors of family.
func Calibrate(family func(s float64) Curve, b Budget) (float64, error) {
	if err := b.Check(); err != nil {
		return 0, err
	}
	const lo, hi = 0x1p-80, 0x1p80
	ok := func(s float64) bool { return family(s)(b.Epsilon) <= b.Delta }
	switch {
	case !ok(lo):
		return 0, fmt.Errorf("%w: no noise level gives %v", ErrCondition, b)
	case ok(hi):
		return hi, nil
	}
	s, _ := num.Bisect(ok, lo, hi)
	return s, nil
}
