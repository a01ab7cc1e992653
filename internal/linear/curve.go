package linear

import (
	"math"

	"github.com/privopt/privopt/dp"
)

// A Curve bounds what the exact minimizer at one Δ and one σ tells about a
// record. Its methods take o = 2R/σ_out of a Gaussian output noise that hides
// all points within R of the minimizer, 0 for none.
type Curve struct{ chi Chi }

// Profile returns bounds δ(ε) for removing and for adding a record, output noise
// included, in one step:
//
//	E δ_G(ε − loss; o)
//
// Each holds at every real ε at once, so that it may be composed. Under Replace
// the two are the same function.
func (k Curve) Profile(o float64) (remove, add func(eps float64) float64) {
	both := func(eps float64) float64 {
		switch {
		case math.IsNaN(eps), math.IsInf(eps, -1):
			return 1
		case math.IsInf(eps, 1):
			return 0
		case o == 0:
			return min(1, math.Exp(k.chi.LogProfile(eps))*safeDelta)
		}
		return min(1, math.Exp(k.chi.LogJoint(eps, o))*safeDelta)
	}
	return both, both
}

// DeltaAt returns the least δ that is proved for one release at ε: the smaller of
//
//	δ_curve(ε − ε_out) + δ_G(ε_out; o)      and the larger of both profiles at ε
//
// Under Replace the curve takes q = 1 where r₀ ≥ PairedR0 and q = 2 elsewhere,
// separately at every ε: the values together are no privacy profile, so compose
// Profile or RDP instead.
func (k Curve) DeltaAt(eps, epsOut, o float64) float64 {
	remove, add := k.Profile(o)
	delta := max(remove(eps), add(eps))
	if math.IsNaN(eps) {
		return delta
	}
	return min(delta, math.Exp(k.chi.LogDelta(eps-epsOut))*safeDelta+dp.GaussianDelta(epsOut, o))
}

// RDP returns the Rényi divergence of order α ≥ 1, output noise included, for
// both directions:
//
//	c + s²/2 + log E e^{(α−1)sχ_q}/(α−1) + α o²/2
//
// with q = 1 for losses of ⟨a,θ⟩ under both relations. It is +Inf for other α.
func (k Curve) RDP(alpha, o float64) float64 {
	if !(alpha >= 1) || math.IsInf(alpha, 1) {
		return math.Inf(1)
	}
	return (k.chi.RDP(alpha) + alpha*o*o/2) * safeDelta
}
