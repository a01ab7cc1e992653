package dp

import (
	"fmt"
	"math"

	"github.com/privopt/privopt/internal/specfun"
)

// Profile is a privacy profile: δ(ε) bounds the hockey-stick divergence
//
//	sup_S P(S) - e^ε Q(S)
//
// of the outputs P, Q on neighboring data, both ways. It is defined for every
// real ε, takes values in [0, 1] and does not increase; a mechanism satisfies
// (ε, δ(ε)) for all ε at once.
type Profile func(eps float64) float64

// Epsilon returns the least ε in [0, MaxEpsilon] with p(ε) ≤ delta, rounded
// up to the next float64, or +Inf where there is none.
func (p Profile) Epsilon(delta float64) float64 {
	switch {
	case !(p(MaxEpsilon) <= delta):
		return math.Inf(1)
	case p(0) <= delta:
		return 0
	}
	eps, _ := specfun.Bisect(func(e float64) bool { return p(e) <= delta }, MaxEpsilon, 0)
	return eps
}

// PureProfile returns the profile that ε₀-differential privacy implies, the
// profile of randomized response:
//
//	δ(ε) = max{ 0, 1 - e^ε, (e^ε₀ - e^ε)/(1 + e^ε₀) }   [KOV15]
//
// eps0 < 0 or NaN gives δ = 1.
func PureProfile(eps0 float64) Profile {
	return func(eps float64) float64 {
		if !(eps0 >= 0) || math.IsNaN(eps) {
			return 1
		}
		if math.IsInf(eps0, 1) {
			return 1
		}
		return max(0, -math.Expm1(eps), -math.Expm1(eps-eps0)/(1+math.Exp(-eps0)))
	}
}

// Profile returns the profile that (ε₀, δ₀)-differential privacy implies:
//
//	δ(ε) = δ₀ + (1 - δ₀)·δ_pure(ε; ε₀)                  [KOV15]
//
// A budget that fails Check gives δ = 1.
func (b Budget) Profile() Profile {
	if b.Check() != nil {
		return func(float64) float64 { return 1 }
	}
	pure := PureProfile(b.Epsilon)
	return func(eps float64) float64 {
		d := pure(eps)
		return b.Delta*(1-d) + d
	}
}

// GaussianProfile returns the profile of Gaussian noise with
// s = sensitivity/σ; see GaussianLogDelta.
func GaussianProfile(s float64) Profile {
	return func(eps float64) float64 { return GaussianDelta(eps, s) }
}

// Calibrate returns the largest s > 0 for which family(s), whose δ does not
// decrease with s, meets the budget:
//
//	sup{ s : δ_s(ε) ≤ δ }
//
// rounded down to a float64 for which it was checked. s is a signal-to-noise
// ratio such as sensitivity/σ. It looks in [2⁻⁸⁰, 2⁸⁰]; the error wraps
// ErrBudget for a bad budget and ErrCondition if not even the least s serves.
// The error of family itself is the caller's to allow for.
func Calibrate(family func(s float64) Profile, b Budget) (float64, error) {
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
	s, _ := specfun.Bisect(ok, lo, hi)
	return s, nil
}
