// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package objpert

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/release"
)

// OPSamp averages minimizers of randomly tilted objectives and hides the average [NRVW20, Algorithm
// 2, with corrected constants]:
//
//	w_k ≈ argmin over W of L(w) − ⟨σ_k, w⟩,   σ_k ~ Exp(rate η)ᵈ,   k = 1, …, m
//	release (1/m) Σ w_k + μ,                  μ ~ Laplace(λ/ε)ᵈ
//
// The [Minimizer] of [SampPlan.Fit] may leave a gap, and neither convexity nor a discrete set is
// needed. The accuracy is poor: the bound 8GD_∞d²/√(nε) on the excess risk of a record beats a
// point chosen without the records only for convex losses and d < √(nε)/8, see [SampPlan.Vacuous].
// OPSamp is here as a reference.
type OPSamp struct {
	// Relation of neighboring data sets; 0 means dp.Replace.
	Relation dp.Relation `json:"relation"`
	// Rate is η, in units of parameter over loss; 0 means the rate with the least ExcessBound.
	Rate float64 `json:"rate"`
	// Slack is t > 0 in λ = (1+t)S; 0 means 1. A smaller Slack needs more minimizations.
	Slack float64 `json:"slack"`
	// Dim is d, the number of parameters.
	Dim int `json:"dim"`
	// Diameter is D_∞, a bound on |w_j − v_j| for points w, v of W.
	Diameter float64 `json:"diameter"`
	// Lipschitz is G: the loss of one record changes by at most G‖w − v‖₁ over W, as with a Lipschitz
	// constant for ‖·‖₂. The 0/1 loss on integer points has 1.
	Lipschitz float64 `json:"lipschitz"`
	// Gap is α, the certified gap of the minimizer that is accepted, for the sum over the records.
	Gap float64 `json:"gap"`
	// Records is the number of records n, or a public guess of it, for which the default Rate is best;
	// 0 means that it is not stated, so that Rate has to be.
	Records int `json:"records,omitempty"`
	// Convex declares that W and the loss of every record are convex. It affects ExcessBound only.
	Convex bool `json:"convex"`
}

func (m *OPSamp) check(b dp.Budget) error {
	if err := m.Relation.Check(); err != nil {
		return fmt.Errorf("objpert: Relation: %w", err)
	}
	if err := b.Check(); err != nil {
		return fmt.Errorf("objpert: %w", err)
	}
	inRange := func(v float64) bool { return v >= 0x1p-100 && v <= 0x1p100 }
	switch {
	case b.Delta == 0:
		return fmt.Errorf("objpert: %w: Delta = 0, but OPSamp gives no pure guarantee, want a number in [%g, 1), or OPDisc",
			dp.ErrBudget, dp.MinDelta)
	case m.Dim < 1 || m.Dim > maxDim:
		return fmt.Errorf("%w: Dim = %d, want a number of parameters in [1, %d]", ErrMechanism, m.Dim, maxDim)
	case !inRange(m.Diameter):
		return fmt.Errorf("%w: Diameter = %v, want the positive width of W in a coordinate", ErrMechanism, m.Diameter)
	case !inRange(m.Lipschitz):
		return fmt.Errorf("%w: Lipschitz = %v, want a positive bound on the change of one record's loss per unit of ‖w‖₁",
			ErrMechanism, m.Lipschitz)
	case !(m.Gap >= 0 && m.Gap <= 0x1p100):
		return fmt.Errorf("%w: Gap = %v, want a number ≥ 0", ErrMechanism, m.Gap)
	case m.Records < 0:
		return fmt.Errorf("%w: Records = %d, want a number ≥ 0", ErrMechanism, m.Records)
	case !(m.Slack >= 1e-6 && m.Slack <= 1e6):
		return fmt.Errorf("%w: Slack = %v, want a number in [1e-6, 1e6], or 0 for 1", ErrMechanism, m.Slack)
	case !(m.Rate == 0 || m.Rate >= 0x1p-300 && m.Rate <= 0x1p300):
		return fmt.Errorf("%w: Rate = %v, want a positive number, or 0 for the best one", ErrMechanism, m.Rate)
	case m.Rate == 0 && m.Records == 0:
		return fmt.Errorf("%w: Rate = 0 and Records = 0: state the public number of records that the rate is tuned for, "+
			"or the rate", ErrMechanism)
	}
	return nil
}

// stability returns a bound S on E‖w(D) − w(D′)‖₁ for one tilt of rate η,
//
//	S = inf over P > 1 of [ (1 − e^{−ηc}) d D_∞ + 3αd e^{−ηc}/c ] / (1 − e^{−ηc}/P),   c = κGdP,
//
// κ = 2 under Replace and 1 under AddRemove. For small η and α = 0, P is 2 and S = 4κηGd²D_∞. The
// idea is that of [SN20], with other constants. Proof: docs/theory/discrete.md#discrete.stability
func (m *OPSamp) stability(gap, eta float64) float64 {
	d := float64(m.Dim)
	at := func(p float64) float64 {
		c := swing(m.Relation) * m.Lipschitz * d * p
		e := math.Exp(-eta * c)
		return (-math.Expm1(-eta*c)*d*m.Diameter + 3*gap*d*e/c) / (1 - e/p)
	}
	// Every P > 1 gives a valid bound. With P − 1 = e^z, the best z is near 0 for α = 0 and grows with
	// α.
	z, _ := num.Minimize(func(z float64) float64 { return at(1 + math.Exp(z)) }, -20, 60, 160, 1e-6)
	return math.Min(d*m.Diameter, at(1+math.Exp(z))*safeScale)
}

// Plan returns the noise under the budget b:
//
//	λ = (1+t)S,   m = ⌈d(D_∞ + g) ln(1/δ)/(S h(t))⌉,   h(t) = (1+t)ln(1+t) − t
//
// S bounds E‖w_k(D) − w_k(D′)‖₁ for one tilt, points rounded to multiples of g = 2^Exponent
// included. Proof: docs/theory/discrete.md#objpert.opsamp/2. Errors wrap [dp.ErrBudget],
// [dp.ErrRelation], [dp.ErrCondition] or [ErrMechanism].
func (m *OPSamp) Plan(b dp.Budget) (*SampPlan, error) {
	plan := &SampPlan{SampParams{OPSamp: *cmp.Or(m, new(OPSamp)), Budget: b}}
	p := &plan.params
	p.Relation, p.Slack = cmp.Or(p.Relation, dp.Replace), cmp.Or(p.Slack, 1)
	if err := p.check(b); err != nil {
		return nil, err
	}
	d, n := float64(p.Dim), float64(p.Records)
	t := p.Slack
	// steady is stability for tilts as they are drawn.
	steady := func(eta float64) float64 {
		// P(σ > x/η) = e^{−x} for each of at most 2⁴⁰ calls and 2¹⁵ coordinates; (1 + e^ε) times their
		// sum must not exceed 2⁻⁵⁰δ.
		most := ((40+15+51)*math.Ln2 + b.Epsilon - num.Log(b.Delta)) / eta
		return p.stability(p.Gap+0x1p-51*most*d*p.Diameter*safeScale, eta)
	}
	excess := func(eta float64) float64 {
		return p.Diameter*d/eta + p.Gap + n*p.Lipschitz*d*(1+t)*steady(eta)/b.Epsilon
	}
	if p.Rate == 0 {
		// Search from the optimum for α = 0 and small η, four orders of magnitude to either side.
		center := num.Log(math.Sqrt(b.Epsilon/(4*swing(p.Relation)*(1+t)*n)) / (p.Lipschitz * d))
		z, _ := num.Minimize(func(z float64) float64 { return excess(math.Exp(z)) }, center-9, center+9, 160, 1e-6)
		p.Rate = math.Exp(z)
	}
	p.Stability = steady(p.Rate)
	if !(p.Stability > 0x1p-900) {
		return nil, fmt.Errorf("objpert: %w: %v with Rate = %.4g moves points by %.3g, too little to count: lower Rate",
			dp.ErrCondition, b, p.Rate, p.Stability)
	}
	p.Exponent = math.Ilogb(p.Stability/d) - 20
	g := math.Ldexp(1, p.Exponent)
	p.Stability = min(d*(p.Diameter+g), (p.Stability+g*d)*safeScale)
	p.Scale = (1 + t) * p.Stability * safeScale / b.Epsilon // λ/ε
	h := (1+t)*math.Log1p(t) - t
	calls := math.Ceil(d * (p.Diameter + g) / p.Stability * -num.Log(b.Delta*(1-rareShare)) / h * safeScale)
	if !(calls < 1<<40) || !(p.Scale < 0x1p300) {
		return nil, fmt.Errorf("objpert: %w: %v with Rate = %.4g needs %.3g minimizations and noise of scale %.3g: raise "+
			"Epsilon or Rate", dp.ErrCondition, b, p.Rate, calls, p.Scale)
	}
	p.Calls = int(calls)
	p.Theorem = theoremOPSamp
	p.TrivialBound = n * p.Lipschitz * d * p.Diameter
	if p.Convex && p.Records > 0 {
		p.ExcessBound = excess(p.Rate) + n*p.Lipschitz*d*g*2
	}
	return plan, nil
}

// SampParams lists the public quantities of a [SampPlan]. The Rate and the Slack of OPSamp are
// those in use.
type SampParams struct {
	OPSamp
	Budget    dp.Budget `json:"budget"`
	Theorem   string    `json:"theorem"`
	Stability float64   `json:"stability"` // S
	Calls     int       `json:"calls"`     // m, minimizations of one release
	Scale     float64   `json:"scale"`     // λ/ε of the output noise
	Exponent  int       `json:"exponent"`  // points are rounded to multiples of g = 2^Exponent

	// ExcessBound bounds the expected excess risk, a sum over the Records, for convex losses:
	//
	//	E L(w) − min L ≤ D_∞ d/η + α + nGd(λ/ε + g)
	//
	// It is 0 for other losses and if Records is not stated. TrivialBound = nGdD_∞ holds for every
	// point of W.
	ExcessBound  float64 `json:"excess_bound"`
	TrivialBound float64 `json:"trivial_bound"`
}

// SampPlan is a calibrated [OPSamp]. It is a function of public quantities and may be published.
// [OPSamp.Plan] makes plans; nothing changes them. The nil and the zero SampPlan certify nothing.
type SampPlan struct{ params SampParams }

// stepSamp lets an audit change the parameters of a plan of OPSamp.
var stepSamp = fault.NewStep[SampParams](fault.SampParams)

// Params returns a copy of the parameters of the plan.
func (pl *SampPlan) Params() SampParams { return cmp.Or(pl, new(SampPlan)).params }

func (pl *SampPlan) empty() bool { return pl == nil || pl.params.Theorem == "" }

// Certificate states the privacy of one release and the assumptions it rests on.
func (pl *SampPlan) Certificate() dp.Certificate {
	if pl.empty() {
		return dp.Certificate{}
	}
	q := &pl.params
	return dp.Certificate{
		Budget: q.Budget, Relation: q.Relation, Theorem: q.Theorem,
		Assumptions: []dp.Assumption{dp.CalibrationArithmetic, CompleteSearch, OracleDeterminism, DeclaredMinimizer},
	}
}

// Profile returns the profile of the budget.
func (pl *SampPlan) Profile() dp.Profile {
	if pl.empty() {
		return dp.Unknown()
	}
	return pl.params.Budget.Profile()
}

// Vacuous reports whether ExcessBound is no better than the bound for a point of W chosen without
// the records.
func (pl *SampPlan) Vacuous() bool {
	return pl.empty() || pl.params.ExcessBound == 0 || pl.params.ExcessBound >= pl.params.TrivialBound
}

// String describes the plan by public quantities only, and warns if its bound is vacuous.
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
		b.WriteString("\n  warning: this bound is vacuous: any fixed point of W is as good; OPSamp needs d < √(nε)/8 and " +
			"convex losses")
	}
	return b.String()
}

// Minimizer minimizes the tilted risk of its records over its set,
//
//	min over w ∈ W of L(w) − ⟨sigma, w⟩
//
// It writes a point to w and returns a certified bound on its gap. The point must be a function of
// the records and sigma alone: no time limits, no random choices. An error withholds the release.
type Minimizer interface {
	Minimize(ctx context.Context, w, sigma []float64) (gap float64, err error)
}

// Assumptions of OPSamp.
const (
	// OracleDeterminism: the minimizer is the caller's.
	OracleDeterminism dp.Assumption = "the minimizer returns a function of the records and the tilt alone, within the " +
		"gap it states, on every data set"
	// DeclaredMinimizer: its set and its losses are the caller's.
	DeclaredMinimizer dp.Assumption = "the minimizer is over a set and a sum of losses within the declared Diameter " +
		"and Lipschitz constant"
)

// Fit draws the noise of the plan, minimizes Calls times and releases the noisy average (1/m) Σ w_k
// + μ, which may lie outside W. The set and the losses of m must have constants no worse than those
// of the plan. src is as in [Plan.Fit]. The error wraps [ErrMechanism], or [dp.ErrWithheld] if a
// minimization failed, its gap exceeded the Gap of the plan or its point was not finite.
func (pl *SampPlan) Fit(ctx context.Context, m Minimizer, src rand.Source) (*dp.Release, error) {
	if pl.empty() {
		return nil, fmt.Errorf("%w: the SampPlan is empty, want one made by OPSamp.Plan", ErrMechanism)
	}
	if m == nil {
		return nil, fmt.Errorf("%w: the Minimizer is nil, want one over the set of the plan", ErrMechanism)
	}
	if err := release.CheckContext(ErrMechanism, ctx); err != nil {
		return nil, err
	}
	f := fault.From(ctx)
	q := fault.At(f, stepSamp, pl.params)
	source, cert := release.Open(src, pl.Certificate())
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
	// Clamping points to a public size is a projection: it moves no two points apart. Their sum stays
	// within ±2⁶¹, and the sum plus noise of up to 2⁶² + 2⁵² steps stays in int64.
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
