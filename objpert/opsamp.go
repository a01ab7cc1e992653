package objpert

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/specfun"
	sample "github.com/privopt/privopt/noise"
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
	Dim int // d
	// Diameter is D_∞: two points of W differ by at most this in any coordinate.
	Diameter float64
	// Lipschitz is G: the loss of one record changes by at most G‖w−v‖₁ over W. A
	// constant for ‖·‖₂ will do. The 0/1 loss on integer points has 1.
	Lipschitz float64
	// Gap is α, a bound on the gap of the oracle for the sum over the records.
	Gap float64
	// Records is n, or a public guess at it; 0 means not stated.
	Records int
	// Convex tells that W and the loss of every record are convex, so that the
	// average of minimizers is worth something. It affects ExcessBound only.
	Convex bool
	Budget dp.Budget
}

func (q SampPublic) check() error {
	if err := q.Budget.Check(); err != nil {
		return fmt.Errorf("objpert: %w", err)
	}
	inRange := func(v float64) bool { return v >= 0x1p-100 && v <= 0x1p100 }
	switch {
	case q.Budget.Delta == 0:
		return fmt.Errorf("objpert: %w: Delta = 0, but OPSamp gives no pure guarantee, want a number in [%g, 1), or OPDisc", dp.ErrBudget, dp.MinDelta)
	case q.Dim < 1 || q.Dim > maxDim:
		return fmt.Errorf("%w: Dim = %d, want a number of parameters in [1, %d]", ErrMechanism, q.Dim, maxDim)
	case !inRange(q.Diameter):
		return fmt.Errorf("%w: Diameter = %v, want the positive width of W in a coordinate", ErrMechanism, q.Diameter)
	case !inRange(q.Lipschitz):
		return fmt.Errorf("%w: Lipschitz = %v, want a positive bound on the change of one record's loss per unit of ‖w‖₁", ErrMechanism, q.Lipschitz)
	case !(q.Gap >= 0 && q.Gap <= 0x1p100):
		return fmt.Errorf("%w: Gap = %v, want a number ≥ 0", ErrMechanism, q.Gap)
	case q.Records < 0:
		return fmt.Errorf("%w: Records = %d, want a number ≥ 0", ErrMechanism, q.Records)
	}
	return nil
}

// SampPlan is a calibrated OPSamp. It is made of public quantities alone and may
// be published. Only Calibrate and Plan make valid ones; changing a field voids
// the certificate.
type SampPlan struct {
	SampPublic
	Relation  dp.Relation
	Theorem   string
	Rate      float64 // η
	Factor    float64 // P of the stability bound
	Stability float64 // S ≥ E‖w_k(D) − w_k(D′)‖₁ for one σ_k
	Lambda    float64 // λ = (1+t)S
	Calls     int     // m, minimizations of one release
	Scale     float64 // λ/ε of the output noise

	// ExcessBound bounds the expected excess risk, a sum over the Records:
	//
	//	E L(w) − min L ≤ D_∞ d/η + α + nGdλ/ε
	//
	// for convex losses; +Inf otherwise, or if Records is not stated. TrivialBound
	// = nGdD_∞ holds for any point of W.
	ExcessBound, TrivialBound float64
}

// Vacuous reports that ExcessBound promises no more than a point of W that was
// chosen without looking at any record.
func (p *SampPlan) Vacuous() bool { return !(p.ExcessBound < p.TrivialBound) }

// String describes the plan and warns if its bound is vacuous. It holds public
// quantities only.
func (p *SampPlan) String() string {
	if p == nil || p.Theorem == "" {
		return "empty plan"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %v, %v neighbors\n", p.Theorem, p.Budget, p.Relation)
	fmt.Fprintf(&b, "  %d minimizations with tilts of rate %.4g, S = %.4g, then Laplace noise of scale %.4g\n", p.Calls, p.Rate, p.Stability, p.Scale)
	fmt.Fprintf(&b, "  expected excess loss ≤ %.4g of a trivial %.4g", p.ExcessBound, p.TrivialBound)
	if p.Vacuous() {
		b.WriteString("\n  warning: this bound is vacuous: any fixed point of W is as good; OPSamp needs d < √(nε)/8 and convex losses")
	}
	return b.String()
}

// stability returns the P with the least
//
//	S = [ (1 − e^{−ηc}) d D_∞ + 3αd e^{−ηc}/c ] / (1 − e^{−ηc}/P),   c = κGdP,
//
// a bound on E‖w(D) − w(D′)‖₁ for one tilt σ, and that S; κ is 2 under Replace
// and 1 under AddRemove. Let x, y and x′, y′ be the points for D, D′ at σ and at
// σ′ = σ + c·e_i, and κ′ = κG‖x−y‖₁. Adding "x′ beats y on D at σ′ up to α", "y
// beats x on D at σ up to κ′ + α" and "x beats x′ on D at σ up to α" gives
//
//	c(y_i − x′_i) ≤ κ′ + 3α,   and likewise   c(x_i − x′_i) ≤ 2α,
//
// and the same with D and D′ exchanged, so
//
//	min(x′_i, y′_i) ≥ max(x_i, y_i) − (κ′ + 3α)/c.
//
// An exponential σ_i is below c with probability 1 − e^{−ηc}, when max − min is at
// most D_∞, and otherwise σ_i − c has the law of σ_i. Taking expectations,
//
//	E|x_i − y_i| ≤ (1 − e^{−ηc}) D_∞ + e^{−ηc}(κG S + 3α)/c,
//
// and summing over i solves for S. [SN20] has the same idea with other
// constants. For small η and α = 0 the best P is 2 and S = 8ηGd²D_∞.
func stability(q SampPublic, kappa, eta float64) (factor, s float64) {
	d := float64(q.Dim)
	at := func(p float64) float64 {
		c := kappa * q.Lipschitz * d * p
		e := math.Exp(-eta * c)
		return (-math.Expm1(-eta*c)*d*q.Diameter + 3*q.Gap*d*e/c) / (1 - e/p)
	}
	// Any P > 1 gives a valid bound; in P − 1 = e^z the best one is near 0 for α =
	// 0 and larger with α.
	z := leastPoint(func(z float64) float64 { return at(1 + math.Exp(z)) }, -20, 60)
	factor = 1 + math.Exp(z)
	return factor, math.Min(d*q.Diameter, at(factor)*safeScale)
}

// leastPoint returns a point of [lo, hi] where f is least, by a grid and golden
// section around its best point. What it misses costs utility only.
func leastPoint(f func(x float64) float64, lo, hi float64) float64 {
	const points = 160
	step := (hi - lo) / points
	best, at := math.Inf(1), lo
	for i := range points + 1 {
		if v := f(lo + float64(i)*step); v < best {
			best, at = v, lo+float64(i)*step
		}
	}
	l, h := math.Max(lo, at-step), math.Min(hi, at+step)
	const golden = 0.6180339887498949
	for h-l > 1e-6 {
		a, b := h-golden*(h-l), l+golden*(h-l)
		if f(a) <= f(b) {
			h = b
		} else {
			l = a
		}
	}
	if x := (l + h) / 2; f(x) <= best {
		return x
	}
	return at
}

// Calibrate returns the noise for the public quantities q. For one list of
// tilts, Y_k = ‖w_k(D) − w_k(D′)‖₁ are independent, at most dD_∞ and at most S in
// expectation, so by Chernoff's bound
//
//	P((1/m) Σ Y_k > (1+t)S) ≤ exp(−m S h(t)/(dD_∞)) ≤ δ,   h(t) = (1+t)ln(1+t) − t,
//	m = ⌈dD_∞ ln(1/δ)/(S h(t))⌉
//
// Outside that event the averages differ by at most λ in ‖·‖₁ and the Laplace
// noise is ε-private; the tilts have one law for both data sets.
//
// Errors wrap dp.ErrBudget, dp.ErrRelation, dp.ErrCondition or ErrMechanism.
func (m *OPSamp) Calibrate(q SampPublic) (*SampPlan, error) { return m.calibrate(nil, q) }

func (m *OPSamp) calibrate(f *fault.Set, q SampPublic) (*SampPlan, error) {
	rel := m.Relation
	if rel == 0 {
		rel = dp.Replace
	}
	if err := rel.Check(); err != nil {
		return nil, fmt.Errorf("objpert: Relation: %w", err)
	}
	if err := q.check(); err != nil {
		return nil, err
	}
	t := m.Slack
	if t == 0 {
		t = 1
	}
	if !(t >= 1e-6 && t <= 1e6) {
		return nil, fmt.Errorf("%w: Slack = %v, want a number in [1e-6, 1e6], or 0 for 1", ErrMechanism, m.Slack)
	}
	if !(m.Rate == 0 || m.Rate >= 0x1p-300 && m.Rate <= 0x1p300) {
		return nil, fmt.Errorf("%w: Rate = %v, want a positive number, or 0 for the best one", ErrMechanism, m.Rate)
	}
	kappa := swing(fault.At(f, fault.Relation, rel))
	d, n := float64(q.Dim), float64(q.Records)
	excess := func(eta float64) float64 {
		_, s := stability(q, kappa, eta)
		return q.Diameter*d/eta + q.Gap + n*q.Lipschitz*d*(1+t)*s/q.Budget.Epsilon
	}
	p := &SampPlan{SampPublic: q, Relation: rel, Rate: m.Rate}
	if p.Rate == 0 {
		if q.Records == 0 {
			return nil, fmt.Errorf("%w: Rate = 0 and Records = 0: state the public number of records that the rate is tuned for, or the rate", ErrMechanism)
		}
		// The optimum for α = 0 and small η, and four orders of magnitude around it.
		center := specfun.Log(math.Sqrt(q.Budget.Epsilon/(4*kappa*(1+t)*n)) / (q.Lipschitz * d))
		p.Rate = math.Exp(leastPoint(func(z float64) float64 { return excess(math.Exp(z)) }, center-9, center+9))
	}
	p.Factor, p.Stability = stability(q, kappa, p.Rate)
	p.Lambda = (1 + t) * p.Stability * safeScale
	p.Scale = p.Lambda / q.Budget.Epsilon
	h := (1+t)*math.Log1p(t) - t
	calls := math.Ceil(d * q.Diameter / p.Stability * -specfun.Log(q.Budget.Delta) / h * safeScale)
	if !(calls < 1<<53) || !(p.Stability > 0) || !(p.Scale < 0x1p300) {
		return nil, fmt.Errorf("objpert: %w: %v with Rate = %.4g needs %.3g minimizations and noise of scale %.3g: raise Epsilon or Rate", dp.ErrCondition, q.Budget, p.Rate, calls, p.Scale)
	}
	p.Calls = int(calls)
	p.Theorem = TheoremOPSamp
	p.ExcessBound, p.TrivialBound = math.Inf(1), n*q.Lipschitz*d*q.Diameter
	if q.Convex && q.Records > 0 {
		p.ExcessBound = excess(p.Rate)
	}
	return p, nil
}

// Plan calibrates for the halfspaces of p: the 0/1 loss over integer points is
// 1/g-Lipschitz for ‖·‖₁, g the least distance of two Values. It is not convex, so
// that no ExcessBound is known. Under Replace the number of records is public
// and read.
func (m *OPSamp) Plan(p *Problem, b dp.Budget) (*SampPlan, error) { return m.plan(nil, p, b) }

func (m *OPSamp) plan(f *fault.Set, p *Problem, b dp.Budget) (*SampPlan, error) {
	q, err := public(p, b, 0, 0)
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
		Gap: m.Gap, Records: m.Records, Budget: b,
	}
	if m.Relation != dp.AddRemove && s.Records == 0 {
		s.Records = p.Records()
	}
	return m.calibrate(f, s)
}

// Fit releases the average for the halfspaces of p under the budget b: it plans,
// and minimizes with Oracle. The error wraps what Plan's or SampPlan.Fit's does.
// Fit panics if ctx is nil.
func (m *OPSamp) Fit(ctx context.Context, p *Problem, b dp.Budget, src rand.Source) (*dp.Release, error) {
	plan, err := m.plan(fault.From(ctx), p, b)
	if err != nil {
		return nil, err
	}
	return plan.fit(ctx, &LatticeMinimizer{Problem: p, Oracle: m.Oracle, Gap: plan.Gap}, src)
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
const OracleDeterminism dp.Assumption = "the minimizer returns a function of the records and the tilt alone, within the gap it states, on every data set"

// DeclaredMinimizer is what the certificate of a SampPlan takes from its caller.
const DeclaredMinimizer dp.Assumption = "the minimizer is over a set and a sum of losses within the declared Diameter and Lipschitz constant"

// Fit draws the noise of the plan, minimizes Calls times and releases the noisy
// average:
//
//	w = (1/m) Σ w_k + μ
//
// It may lie outside W. m must be over a set and losses whose constants are no
// worse than those of the plan, which the certificate assumes (DeclaredMinimizer).
// src is as in Plan.Fit. The error wraps ErrMechanism, or dp.ErrWithheld if a
// minimization failed, its gap exceeded the plan's Gap or its point was not
// finite. Fit panics if ctx or m is nil.
func (pl *SampPlan) Fit(ctx context.Context, m Minimizer, src rand.Source) (*dp.Release, error) {
	return pl.fit(ctx, m, src, DeclaredMinimizer)
}

// fit is Fit for a minimizer on the given assumptions.
func (pl *SampPlan) fit(ctx context.Context, m Minimizer, src rand.Source, more ...dp.Assumption) (*dp.Release, error) {
	if pl == nil || pl.Theorem == "" {
		return nil, fmt.Errorf("%w: the SampPlan is empty, want one made by Plan or Calibrate", ErrMechanism)
	}
	if m == nil {
		panic("objpert: nil Minimizer")
	}
	assumptions := append([]dp.Assumption{dp.RealArithmetic, CompleteSearch, OracleDeterminism}, more...)
	if src == nil {
		src = sample.Secure()
	} else {
		assumptions = append(assumptions, dp.CallerSource)
	}
	f := fault.From(ctx)
	theta := make([]float64, pl.Dim)
	scale := fault.At(f, fault.OutputScale, pl.Scale)
	for j := range theta { // μ
		theta[j] = sample.Laplace(scale, src)
	}
	theta = fault.At(f, fault.Noise, theta)
	sum, w, sigma := make([]float64, pl.Dim), make([]float64, pl.Dim), make([]float64, pl.Dim)
	defer clear(sigma)
	rate := fault.At(f, fault.Rate, pl.Rate)
	calls := max(1, fault.At(f, fault.Iterations, pl.Calls))
	for range calls {
		for j := range sigma {
			sigma[j] = sample.Exponential(src) / rate
		}
		gap, err := m.Minimize(ctx, w, sigma)
		if err != nil {
			clear(theta)
			return nil, fmt.Errorf("objpert: %w: a minimization failed: %w", dp.ErrWithheld, err)
		}
		if !fault.At(f, fault.Certified, gap <= pl.Gap) { // also NaN
			clear(theta)
			return nil, fmt.Errorf("objpert: %w: the gap of a minimization exceeds Gap", dp.ErrWithheld)
		}
		for j, v := range w {
			sum[j] += v
		}
	}
	for j, v := range sum {
		theta[j] += v / float64(calls)
		if math.IsNaN(theta[j]) || math.IsInf(theta[j], 0) {
			clear(theta)
			return nil, fmt.Errorf("objpert: %w: the point of a minimization is not finite", dp.ErrWithheld)
		}
	}
	return &dp.Release{
		Theta: theta,
		Certificate: dp.Certificate{
			Budget: pl.Budget, Relation: pl.Relation, Theorem: pl.Theorem, Assumptions: assumptions,
		},
	}, nil
}
