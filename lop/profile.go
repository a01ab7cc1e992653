package lop

import (
	"math"

	"github.com/privopt/privopt/dp"
)

// safeDelta multiplies δ: quadratures are correct to 1e-10.
const safeDelta = 1 + 1e-9

// DeltaAt returns the least δ that is proved for one release of the plan at
// the given ε, which need not be that of the budget: the smaller of
//
//	δ_curve(ε − ε_out) + δ_G(ε_out; o),   E δ_G(ε − c − s²/2 − sχ_q; o)
//
// Under Replace the curve takes q = 1 where r₀ ≥ 1.65 and q = 2 elsewhere,
// separately at every ε: the values together are no privacy profile, so
// compose Profile or RDP instead. A plan that was not calibrated gives 1.
func (p *Plan) DeltaAt(eps float64) float64 {
	delta := p.Profile()(eps)
	if p.Sigma > 0 && !math.IsNaN(eps) && p.valid() == nil {
		split := math.Exp(p.curve.LogDelta(eps-p.Output.Epsilon))*safeDelta + dp.GaussianDelta(p.Output.Epsilon, p.outputShift())
		delta = min(delta, split)
	}
	return delta
}

// Profile returns the privacy profile of one release of the plan, output noise
// included, which may be composed with others. It rests on bounds that hold at
// all ε at once, q = 2ρ under Replace, and is therefore a little above DeltaAt.
// A plan that was not calibrated gives δ = 1.
func (p *Plan) Profile() dp.Curve {
	switch {
	case p.valid() != nil:
		return func(float64) float64 { return 1 }
	case p.Budget.Delta == 0:
		return dp.PureCurve(p.Budget.Epsilon)
	case p.Sigma == 0:
		return dp.GaussianCurve(p.S)
	}
	curve, o := p.curve, p.outputShift()
	return func(eps float64) float64 {
		switch {
		case math.IsNaN(eps), math.IsInf(eps, -1):
			return 1
		case math.IsInf(eps, 1):
			return 0
		}
		return min(1, math.Exp(curve.LogJoint(eps, o))*safeDelta)
	}
}

// RDP returns the Rényi curve of one release of the plan, output noise
// included, for composition:
//
//	c + s²/2 + log E e^{(α−1)sχ_q}/(α−1) + α o²/2
//
// with q = 1 for losses of ⟨a,θ⟩ under both relations. It is α o²/2 alone with
// o = (G/μ+2R)/σ_out for Output, that of ε for a pure plan, and +Inf for a plan
// that was not calibrated.
func (p *Plan) RDP() dp.RDP {
	switch {
	case p.valid() != nil:
		return func(float64) float64 { return math.Inf(1) }
	case p.Budget.Delta == 0:
		return dp.PureRDP(p.Budget.Epsilon)
	case p.Sigma == 0:
		return dp.GaussianRDP(p.S)
	}
	curve, o := p.curve, p.outputShift()
	return func(alpha float64) float64 {
		if !(alpha >= 1) || math.IsInf(alpha, 1) {
			return math.Inf(1)
		}
		return (curve.RDP(alpha) + alpha*o*o/2) * safeDelta
	}
}

// outputShift returns o = 2R/σ_out.
func (p *Plan) outputShift() float64 { return 2 * p.Cover / p.OutputSigma }
