package objpert

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/draw"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/release"
)

// OPSamp averages minimizers of randomly tilted objectives and hides the
// average [NRVW20, Algorithm 3, with the constants corrected]:
//
//	w_k ≈ argmin over W of L(w) − ⟨σ_k, w⟩,   σ_k ~ Exp(rate η)ᵈ,   k = 1, …, m
//	release (1/m) Σ w_k + μ,                  μ ~ Laplace(λ/ε)ᵈ
//
// It needs an oracle with a certified gap, not an exact one, and neither
// convexity nor a discrete set. The price is high: its excess risk for each record
// is bounded by 8GD_∞d²/√(nε), better than releasing any point of W without
// looking only for d < √(nε)/8, and for convex losses only. SampPlan.Vacuous says
// so. It is here as a reference.
type OPSamp struct {
	// Relation of neighboring data sets; 0 means dp.Replace.
	Relation dp.Relation
	// Rate is η, in units of parameter over loss; 0 means the one with the least
	// ExcessBound, for which the number of records must be public.
	Rate float64
	// Slack is t > 0 in λ = (1+t)S; 0 means 1. A smaller one costs calls.
	Slack float64
	// Gap is α ≥ 0, the certified gap of the oracle that suffices.
	Gap float64
	// Records is the public number n₀ that Rate is tuned for under AddRemove,
	// where n is private; under Replace 0 means n.
	Records int
	// Oracle minimizes in Fit; nil means Auto.
	Oracle Oracle
}

// SampPublic is all that the calibration of OPSamp knows.
type SampPublic struct {
	Dim int `json:"dim"` // d
	// Diameter is D_∞: two points of W differ by at most this in any coordinate.
	Diameter float64 `json:"diameter"`
	// Lipschitz is G: the loss of one record changes by at most G‖w−v‖₁ over W. A
	// constant for ‖·‖₂ will do. The 0/1 loss on integer points has 1.
	Lipschitz float64 `json:"lipschitz"`
	// Gap is α, a bound on the gap of the oracle for the sum over the records.
	Gap float64 `json:"gap"`
	// Records is n, or a public guess at it; 0 means not stated.
	Records int `json:"records,omitempty"`
	// Convex says that W and the loss of every record are convex, so that the
	// average of minimizers is worth something. It affects ExcessBound only.
	Convex bool      `json:"convex"`
	Budget dp.Budget `json:"budget"` // asked for
}

func (q SampPublic) check() error {
	if err := q.Budget.Check(); err != nil {
		return fmt.Errorf("objpert: %w", err)
	}
	inRange := func(v float64) bool { return v >= 0x1p-100 && v <= 0x1p100 }
	switch {
	case q.Budget.Delta == 0:
		return fmt.Errorf("objpert: %w: Delta = 0, but OPSamp gives no pure guarantee, want a number in [%g, 1), or OPDisc",
			dp.ErrBudget, dp.MinDelta)
	case q.Dim < 1 || q.Dim > maxDim:
		return fmt.Errorf("%w: Dim = %d, want a number of parameters in [1, %d]", ErrMechanism, q.Dim, maxDim)
	case !inRange(q.Diameter):
		return fmt.Errorf("%w: Diameter = %v, want the positive width of W in a coordinate", ErrMechanism, q.Diameter)
	case !inRange(q.Lipschitz):
		return fmt.Errorf("%w: Lipschitz = %v, want a positive bound on the change of one record's loss per unit of ‖w‖₁",
			ErrMechanism, q.Lipschitz)
	case !(q.Gap >= 0 && q.Gap <= 0x1p100):
		return fmt.Errorf("%w: Gap = %v, want a number ≥ 0", ErrMechanism, q.Gap)
	case q.Records < 0:
		return fmt.Errorf("%w: Records = %d, want a number ≥ 0", ErrMechanism, q.Records)
	}
	return nil
}

// SampParams spells out a SampPlan. It is public.
type SampParams struct {
	SampPublic
	Relation  dp.Relation `json:"relation"`
	Theorem   string      `json:"theorem"`
	Rate      float64     `json:"rate"`      // η
	Factor    float64     `json:"factor"`    // P of the stability bound
	Stability float64     `json:"stability"` // S ≥ E‖w_k(D) − w_k(D′)‖₁ for one σ_k, points rounded to the grid
	Lambda    float64     `json:"lambda"`    // λ = (1+t)S
	Calls     int         `json:"calls"`     // m, minimizations of one release
	Scale     float64     `json:"scale"`     // λ/ε of the output noise
	Exponent  int         `json:"exponent"`  // points are rounded to multiples of 2^Exponent

	// ExcessBound bounds the expected excess risk, a sum over the Records:
	//
	//	E L(w) − min L ≤ D_∞ d/η + α + nGd(λ/ε + g)
	//
	// for convex losses; 0 where nothing is known: for others, or if Records is not
	// stated. TrivialBound = nGdD_∞ holds for any point of W.
	ExcessBound  float64 `json:"excess_bound"`
	TrivialBound float64 `json:"trivial_bound"`
}

// SampPlan is a calibrated OPSamp. It is made of public quantities alone and may be
// published. Calibrate and Plan make plans; nothing changes them. The nil and the
// zero SampPlan certify nothing.
type SampPlan struct{ params SampParams }

var _ dp.Plan = (*SampPlan)(nil)

// stepSamp is where an audit changes a plan of OPSamp.
var stepSamp = fault.NewStep[SampParams](fault.SampParams)

// Params returns a copy of what the plan fixed.
func (pl *SampPlan) Params() SampParams {
	if pl == nil {
		return SampParams{}
	}
	return pl.params
}

func (pl *SampPlan) empty() bool { return pl == nil || pl.params.Theorem == "" }

// Certificate states what one release costs and on what that rests.
func (pl *SampPlan) Certificate() dp.Certificate {
	if pl.empty() {
		return dp.Certificate{}
	}
	q := &pl.params
	return dp.Certificate{
		Budget: q.Budget, Relation: q.Relation, Theorem: q.Theorem,
		Assumptions: []dp.Assumption{dp.CalibrationArithmetic, CompleteSearch, OracleDeterminism},
	}
}

// Profile returns the profile of the budget.
func (pl *SampPlan) Profile() dp.Profile {
	if pl.empty() {
		return dp.Unknown()
	}
	return pl.params.Budget.Profile()
}

// Vacuous reports that ExcessBound promises no more than a point of W that was
// chosen without looking at any record.
func (pl *SampPlan) Vacuous() bool {
	return pl.empty() || pl.params.ExcessBound == 0 || pl.params.ExcessBound >= pl.params.TrivialBound
}

// String describes the plan and warns if its bound is vacuous. It holds public
// quantities only.
func (pl *SampPlan) String() string {
	if pl.empty() {
		return "empty plan"
	}
	q := &pl.params
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %v, %v neighbors\n", q.Theorem, q.Budget, q.Relation)
	fmt.Fprintf(&b, "  %d minimizations with tilts of rate %.4g, S = %.4g, then Laplace noise of scale %.4g\n",
		q.Calls, q.Rate, q.Stability, q.Scale)
	if q.ExcessBound > 0 {
		fmt.Fprintf(&b, "  expected excess loss ≤ %.4g of a trivial %.4g", q.ExcessBound, q.TrivialBound)
	} else {
		b.WriteString("  no bound on the expected excess loss")
	}
	if pl.Vacuous() {
		b.WriteString("\n  warning: this bound is vacuous: any fixed point of W is as good; OPSamp needs d < √(nε)/8 and convex losses")
	}
	return b.String()
}

// stability returns the P with the least
//
//	S = [ (1 − e^{−ηc}) d D_∞ + 3αd e^{−ηc}/c ] / (1 − e^{−ηc}/P),   c = κGdP,
//
// a bound on E‖w(D) − w(D′)‖₁ for one tilt, and that S; κ is 2 under Replace and 1 under AddRemove.
// For small η and α = 0 the best P is 2 and S = 4κηGd²D_∞. The idea is that of [SN20], with other
// constants; proof: docs/theory/discrete.md#discrete.stability
func stability(q SampPublic, kappa, eta float64) (factor, s float64) {
	d := float64(q.Dim)
	at := func(p float64) float64 {
		c := kappa * q.Lipschitz * d * p
		e := math.Exp(-eta * c)
		return (-math.Expm1(-eta*c)*d*q.Diameter + 3*q.Gap*d*e/c) / (1 - e/p)
	}
	// Any P > 1 gives a valid bound; in P − 1 = e^z the best one is near 0 for α =
	// 0 and larger with α.
	z, _ := num.Minimize(func(z float64) float64 { return at(1 + math.Exp(z)) }, -20, 60, 160, 1e-6)
	factor = 1 + math.Exp(z)
	return factor, math.Min(d*q.Diameter, at(factor)*safeScale)
}

// Calibrate returns the noise for the public quantities q: with S of one tilt, points rounded to
// multiples of g = 2^Exponent included, and D_∞ + g for D_∞,
//
//	λ = (1+t)S,   m = ⌈dD_∞ ln(1/δ)/(S h(t))⌉,   h(t) = (1+t)ln(1+t) − t
//
// Proof: docs/theory/discrete.md#objpert.opsamp/2
//
// Errors wrap dp.ErrBudget, dp.ErrRelation, dp.ErrCondition or ErrMechanism.
func (m *OPSamp) Calibrate(q SampPublic) (*SampPlan, error) {
	m = cmp.Or(m, new(OPSamp))
	rel, t := cmp.Or(m.Relation, dp.Replace), cmp.Or(m.Slack, 1)
	if err := rel.Check(); err != nil {
		return nil, fmt.Errorf("objpert: Relation: %w", err)
	}
	if err := q.check(); err != nil {
		return nil, err
	}
	if !(t >= 1e-6 && t <= 1e6) {
		return nil, fmt.Errorf("%w: Slack = %v, want a number in [1e-6, 1e6], or 0 for 1", ErrMechanism, m.Slack)
	}
	if !(m.Rate == 0 || m.Rate >= 0x1p-300 && m.Rate <= 0x1p300) {
		return nil, fmt.Errorf("%w: Rate = %v, want a positive number, or 0 for the best one", ErrMechanism, m.Rate)
	}
	kappa := swing(rel)
	d, n := float64(q.Dim), float64(q.Records)
	// steady is stability for the tilts as they are drawn.
	steady := func(eta float64) (factor, s float64) {
		tilted := q
		// P(σ > x/η) = e^{−x} for each of at most 2⁴⁰ calls and 2¹⁵ coordinates; (1 + e^ε) of
		// that must not exceed 2⁻⁵⁰δ
		most := ((40+15+51)*math.Ln2 + q.Budget.Epsilon - num.Log(q.Budget.Delta)) / eta
		tilted.Gap += 0x1p-51 * most * d * q.Diameter * safeScale
		return stability(tilted, kappa, eta)
	}
	excess := func(eta float64) float64 {
		_, s := steady(eta)
		return q.Diameter*d/eta + q.Gap + n*q.Lipschitz*d*(1+t)*s/q.Budget.Epsilon
	}
	plan := &SampPlan{SampParams{SampPublic: q, Relation: rel, Rate: m.Rate}}
	p := &plan.params
	if p.Rate == 0 {
		if q.Records == 0 {
			return nil, fmt.Errorf("%w: Rate = 0 and Records = 0: state the public number of records that the rate is tuned for, or the "+
				"rate", ErrMechanism)
		}
		// The optimum for α = 0 and small η, and four orders of magnitude around it.
		center := num.Log(math.Sqrt(q.Budget.Epsilon/(4*kappa*(1+t)*n)) / (q.Lipschitz * d))
		z, _ := num.Minimize(func(z float64) float64 { return excess(math.Exp(z)) }, center-9, center+9, 160, 1e-6)
		p.Rate = math.Exp(z)
	}
	p.Factor, p.Stability = steady(p.Rate)
	if !(p.Stability > 0x1p-900) {
		return nil, fmt.Errorf("objpert: %w: %v with Rate = %.4g moves points by %.3g, too little to count: lower Rate",
			dp.ErrCondition, q.Budget, p.Rate, p.Stability)
	}
	p.Exponent = math.Ilogb(p.Stability/d) - 20
	g := math.Ldexp(1, p.Exponent)
	p.Stability = min(d*(q.Diameter+g), (p.Stability+g*d)*safeScale)
	p.Lambda = (1 + t) * p.Stability * safeScale
	p.Scale = p.Lambda / q.Budget.Epsilon
	h := (1+t)*math.Log1p(t) - t
	calls := math.Ceil(d * (q.Diameter + g) / p.Stability * -num.Log(q.Budget.Delta*(1-rareShare)) / h * safeScale)
	if !(calls < 1<<40) || !(p.Scale < 0x1p300) {
		return nil, fmt.Errorf("objpert: %w: %v with Rate = %.4g needs %.3g minimizations and noise of scale %.3g: raise Epsilon or Rate",
			dp.ErrCondition, q.Budget, p.Rate, calls, p.Scale)
	}
	p.Calls = int(calls)
	p.Theorem = theoremOPSamp
	p.TrivialBound = n * q.Lipschitz * d * q.Diameter
	if q.Convex && q.Records > 0 {
		p.ExcessBound = excess(p.Rate) + n*q.Lipschitz*d*g*2
	}
	return plan, nil
}

// Plan calibrates for the halfspaces of p: the 0/1 loss over integer points is
// 1/g-Lipschitz for ‖·‖₁, g the least distance of two Values. It is not convex, so
// that no ExcessBound is known. Under Replace the number of records is public
// and read.
func (m *OPSamp) Plan(p *Problem, b dp.Budget) (*SampPlan, error) {
	m = cmp.Or(m, new(OPSamp))
	q, err := public(p, b, 1, 0)
	if err != nil {
		return nil, err
	}
	if err := q.check(); err != nil {
		return nil, err
	}
	step := q.step()
	if math.IsInf(step, 1) {
		return nil, fmt.Errorf("%w: the space has one point, want a choice", ErrMechanism)
	}
	s := SampPublic{
		Dim: q.Dim, Diameter: float64(2 * q.bound()), Lipschitz: 1 / step,
		Gap:     m.Gap + math.Ldexp(float64(q.Dim+1), -maxShift), // the tilt in steps, see latticeMinimizer
		Records: m.Records, Budget: b,
	}
	if p.OracleLoss {
		return nil, fmt.Errorf("%w: OPSamp.Plan is for halfspaces; for another loss take Calibrate and SampPlan.Fit", ErrMechanism)
	}
	if m.Relation != dp.AddRemove && s.Records == 0 {
		if err := p.Check(); err != nil {
			return nil, err
		}
		s.Records = p.Records()
	}
	return m.Calibrate(s)
}

// Fit releases the average for the halfspaces of p under the budget b: it plans,
// and minimizes with Oracle. The error wraps what Plan's or SampPlan.Fit's does.
func (m *OPSamp) Fit(ctx context.Context, p *Problem, b dp.Budget, src rand.Source) (*dp.Release, error) {
	m = cmp.Or(m, new(OPSamp))
	plan, err := m.Plan(p, b)
	if err != nil {
		return nil, err
	}
	return plan.fit(ctx, &latticeMinimizer{Problem: p, Oracle: m.Oracle, Gap: plan.params.Gap}, src)
}

// Minimizer minimizes the risk of its records over its set, tilted:
//
//	min over w ∈ W of L(w) − ⟨sigma, w⟩
//
// It writes a point to w and returns a certified bound on its gap. The point
// must be a function of the records and sigma alone: no time limits, no
// randomness of its own. An error withholds the release.
type Minimizer interface {
	Minimize(ctx context.Context, w, sigma []float64) (gap float64, err error)
}

// OracleDeterminism is what OPSamp needs of a Minimizer beyond its gap.
const OracleDeterminism dp.Assumption = "the minimizer returns a function of the records and the tilt alone, within " +
	"the gap it states, on every data set"

// DeclaredMinimizer is what the certificate of a SampPlan takes from its caller.
const DeclaredMinimizer dp.Assumption = "the minimizer is over a set and a sum of losses within the declared " +
	"Diameter and Lipschitz constant"

// Fit draws the noise of the plan, minimizes Calls times and releases the noisy
// average:
//
//	w = (1/m) Σ w_k + μ
//
// It may lie outside W. m must be over a set and losses whose constants are no
// worse than those of the plan, which the certificate assumes (DeclaredMinimizer).
// src is as in Plan.Fit. The error wraps ErrMechanism, or dp.ErrWithheld if a
// minimization failed, its gap exceeded the plan's Gap or its point was not
// finite.
func (pl *SampPlan) Fit(ctx context.Context, m Minimizer, src rand.Source) (*dp.Release, error) {
	return pl.fit(ctx, m, src, DeclaredMinimizer)
}

// fit is Fit for a minimizer on the given assumptions.
func (pl *SampPlan) fit(ctx context.Context, m Minimizer, src rand.Source, more ...dp.Assumption) (*dp.Release, error) {
	if pl.empty() {
		return nil, fmt.Errorf("%w: the SampPlan is empty, want one made by Plan or Calibrate", ErrMechanism)
	}
	if m == nil {
		return nil, fmt.Errorf("%w: the Minimizer is nil, want one over the set of the plan", ErrMechanism)
	}
	if err := release.CheckContext(ErrMechanism, ctx); err != nil {
		return nil, err
	}
	f := fault.From(ctx)
	q := fault.At(f, stepSamp, pl.params)
	source, cert := draw.Open(src, pl.Certificate().With(more...))
	calls := max(1, q.Calls)
	sum := make([]int64, q.Dim) // mμ in steps of g
	noise.LaplaceGrid(sum, q.Scale*float64(calls)*(1+0x1p-50), q.Exponent, source)
	sum = fault.At(f, fault.DiscreteNoise, sum)
	withhold := func(format string, args ...any) (*dp.Release, error) {
		clear(sum)
		return nil, fmt.Errorf("objpert: %w: "+format, append([]any{dp.ErrWithheld}, args...)...)
	}
	w, sigma := make([]float64, q.Dim), make([]float64, q.Dim)
	defer clear(sigma)
	// Cutting points off at a public size is a projection: points come no farther apart, their sum
	// stays within ±2⁶¹, and that with noise up to 2⁶² + 2⁵² steps in int64.
	most := math.Floor(0x1p61 / float64(calls))
	for range calls {
		for j := range sigma {
			sigma[j] = noise.Exponential(source) / q.Rate
		}
		gap, err := m.Minimize(ctx, w, sigma)
		if err != nil {
			return withhold("a minimization failed: %w", err)
		}
		if !fault.At(f, fault.Certified, gap <= q.Gap) { // also NaN
			return withhold("the gap of a minimization exceeds Gap")
		}
		for j, v := range w {
			k := math.RoundToEven(math.Ldexp(v, -q.Exponent))
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return withhold("the point of a minimization is not finite")
			}
			sum[j] += int64(min(max(k, -most), most))
		}
	}
	if err := source.Err(); err != nil {
		clear(sum)
		return nil, err
	}
	theta := make([]float64, q.Dim)
	for j, k := range sum {
		// Noise that saturated is cut off with the points it was added to: it would not hide them.
		k = min(max(k, -far), far)
		theta[j] = math.Ldexp(float64(k), q.Exponent) / float64(calls)
	}
	return &dp.Release{Theta: theta, Certificate: cert}, nil
}
