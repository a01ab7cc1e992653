package objpert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/draw"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/release"
)

// ErrMechanism reports a field of a mechanism, of Public or of Plan outside its
// range. Test with errors.Is.
var ErrMechanism = errors.New("objpert: invalid mechanism")

// Identifiers of the theorems, see the package comment.
const (
	theoremRadial       = "objpert.radial/2"
	theoremGaussian     = "objpert.gaussian/2"
	theoremSigma        = "objpert.sigma/2"
	theoremKNorm        = "objpert.knorm/2"
	theoremOneSided     = "objpert.onesided/2"
	theoremRSPMLaplace  = "objpert.rspm-laplace/2"
	theoremRSPMGaussian = "objpert.rspm-gaussian/2"
	theoremRSPMSigma    = "objpert.rspm-sigma/2"
	theoremOPSamp       = "objpert.opsamp/2"
	theoremAggregate    = "objpert.aggregate/2"
	theoremFailure      = "objpert.failure/2"
)

// Assumptions of this package.
const (
	// CompleteSearch: no theorem here covers a search that ends without a proof.
	CompleteSearch dp.Assumption = "the oracle proves a minimizer on every data set: a release withheld " +
		"because it did not is outside this statement"
	// TrustedOracle: the oracle is not one of this package.
	TrustedOracle dp.Assumption = "what the caller's oracle reports as proven is the minimizer, ties broken by a fixed order of the points"
	// DeclaredLoss: the loss of one record is known to the oracle alone.
	DeclaredLoss dp.Assumption = "the loss that the caller's oracle minimizes is a sum over records of " +
		"functions within the declared Range and Lipschitz constant"
	// AssertedFailure: Failure was given.
	AssertedFailure dp.Assumption = "on every data set the oracle fails to prove a minimizer with no more than " +
		"the declared probability Failure"
)

// Trace is what one fit found. Not private: none of it may be published.
type Trace struct {
	Solution *Solution // nil if the oracle returned none
	Err      error     // of the oracle
	Released bool      // whether a release followed
	Votes    [][]int   // of SampleAndAggregate: rows of len(Values)
}

// Plan is a calibrated OPDisc, RSPM, Product or SampleAndAggregate: how much noise,
// and what it costs. It is made of public quantities alone and may be published.
// Calibrate and Plan make plans; nothing changes them. Fit spends the budget once
// per call. The nil and the zero Plan certify nothing.
type Plan struct {
	params Params

	logDelta  func(eps float64) float64 // log δ(ε) of the law; nil if it is pure
	oracle    Oracle
	separator Separator
	cube      bool
	last      []int64 // c(q)·2^b, q = 0, …, Q
	vote      *SampleAndAggregate
	trace     func(Trace)
}

var _ dp.Plan = (*Plan)(nil)

// stepParams is where an audit changes a plan.
var stepParams = fault.NewStep[Params](fault.DiscreteParams)

// Params returns a copy of what the plan fixed.
func (pl *Plan) Params() Params {
	if pl == nil {
		return Params{}
	}
	q := pl.params
	q.Space = q.Space.clone()
	return q
}

func (pl *Plan) empty() bool { return pl == nil || pl.params.Theorem == "" }

// Certificate states what one release costs and on what that rests.
func (pl *Plan) Certificate() dp.Certificate {
	if pl.empty() {
		return dp.Certificate{}
	}
	q := &pl.params
	c := dp.Certificate{Budget: q.Proved, Relation: q.Relation, Theorem: q.Theorem}
	if pl.logDelta != nil {
		c.Assumptions = append(c.Assumptions, dp.CalibrationArithmetic)
	}
	switch {
	case pl.vote != nil:
		c.Assumptions = append(c.Assumptions, HeuristicByBlock)
		return c
	case q.Failure > 0:
		c.Assumptions = append(c.Assumptions, AssertedFailure)
	default:
		c.Assumptions = append(c.Assumptions, CompleteSearch)
	}
	if !own(pl.oracle) {
		c.Assumptions = append(c.Assumptions, TrustedOracle)
	}
	if q.OracleLoss {
		c.Assumptions = append(c.Assumptions, DeclaredLoss)
	}
	return c
}

// Profile returns δ(ε) of one release: that of a pure law, or the bound that
// calibrates the Gaussian, at every ε, and (1 + e^ε)β for Failure on top.
func (pl *Plan) Profile() dp.Profile {
	if pl.empty() {
		return dp.Unknown()
	}
	q := &pl.params
	if pl.logDelta == nil && q.Failure == 0 {
		return q.Proved.Profile()
	}
	core := dp.PureCurve(q.Proved.Epsilon)
	if pl.logDelta != nil {
		core = func(eps float64) float64 { return math.Exp(pl.logDelta(eps)) * (1 + 0x1p-33) } // correct to 1e-11
	}
	return dp.Symmetric(func(eps float64) float64 {
		total := core(eps) + math.Exp(num.LogSumExp(0, eps)+pl.logRare())
		if q.Failure > 0 { // else 0·∞ for large ε
			total += (1 + math.Exp(eps)) * q.Failure
		}
		return min(1, total)
	}, nil)
}

// String describes the plan in a few lines. It holds public quantities only.
func (pl *Plan) String() string {
	if pl.empty() {
		return "empty plan"
	}
	q := &pl.params
	var b strings.Builder
	kind := "pure"
	if q.Proved.Delta > 0 {
		kind = "approximate"
	}
	fmt.Fprintf(&b, "%s: %s guarantee (ε = %.6g, δ = %.6g), %v neighbors\n",
		q.Theorem, kind, q.Proved.Epsilon, q.Proved.Delta, q.Relation)
	if q.Proved.Epsilon > q.Budget.Epsilon {
		fmt.Fprintf(&b, "  not proved at the budget %v\n", q.Budget)
	}
	fmt.Fprintf(&b, "  %d noise variables on a grid of 2^%d, %v law, scale %.6g, shift %.6g", q.Noises, q.Exponent, q.Law, q.Scale, q.Shift)
	if q.NormSq > 0 {
		fmt.Fprintf(&b, ", Q = %d", q.NormSq)
	}
	unit := "records"
	if pl.vote != nil {
		unit = fmt.Sprintf("votes of %d blocks", q.Blocks)
	}
	fmt.Fprintf(&b, "\n  expected excess loss ≤ %.6g %s", q.ExcessBound, unit)
	return b.String()
}

// common are the fields that the mechanisms share.
type common struct {
	relation dp.Relation
	law      Law
	laws     []Law  // those of the mechanism, the default first
	names    string // of laws
	oracle   Oracle
	beta     float64
	trace    func(Trace)
}

// start checks what the mechanisms have in common and returns the plan so far, and the
// budget to calibrate for: what Failure takes is subtracted from δ.
func (c common) start(q Public) (p *Plan, b dp.Budget, err error) {
	law, rel := cmp.Or(c.law, c.laws[0]), cmp.Or(c.relation, dp.Replace)
	if err := rel.Check(); err != nil {
		return nil, b, fmt.Errorf("objpert: Relation: %w", err)
	}
	if err := q.check(); err != nil {
		return nil, b, err
	}
	switch {
	case !slices.Contains(c.laws, law):
		return nil, b, fmt.Errorf("%w: Law = %v, want %s", ErrMechanism, law, c.names)
	case !(c.beta >= 0 && c.beta < 1):
		return nil, b, fmt.Errorf("%w: Failure = %v, want a probability below 1, or 0", ErrMechanism, c.beta)
	}
	q.Space = q.Space.clone()
	p = &Plan{
		params: Params{Public: q, Relation: rel, Law: law, Failure: c.beta, Limit: maxSteps},
		oracle: c.oracle, trace: c.trace,
	}
	if p.oracle == nil {
		p.oracle = Auto{}
	}
	b = q.Budget
	if share := p.failureDelta(); share > 0 {
		if b.Delta -= share * safeScale; !(b.Delta >= 0) {
			return nil, b, fmt.Errorf("objpert: %w: Failure = %v alone costs δ = (1 + e^ε)β = %.3g, more than Delta = %v",
				dp.ErrCondition, c.beta, share, q.Budget.Delta)
		}
	}
	if (law == Gaussian || law == PaperSigma) && b.Delta == 0 {
		return nil, b, fmt.Errorf("objpert: %w: Delta = 0, but Gaussian noise gives no pure guarantee, want a number in [%g, 1), or the %v law",
			dp.ErrBudget, dp.MinDelta, c.laws[0])
	}
	return p, b, nil
}

// calibrated is Plan of the mechanism with the given Calibrate.
func calibrated(calibrate func(Public) (*Plan, error), p *Problem, b dp.Budget, rng, lip float64) (*Plan, error) {
	q, err := public(p, b, rng, lip)
	if err != nil {
		return nil, err
	}
	return calibrate(q)
}

// fit is Fit of the mechanism with the given Plan.
func fit(
	ctx context.Context, plan func(*Problem, dp.Budget) (*Plan, error), p *Problem, b dp.Budget, src rand.Source,
) (*dp.Release, error) {
	if err := release.CheckContext(ErrMechanism, ctx); err != nil {
		return nil, err
	}
	pl, err := plan(p, b)
	if err != nil {
		return nil, err
	}
	return pl.Fit(ctx, p, src)
}

// failureDelta is what withheld releases cost: (1 + e^ε)β.
func (pl *Plan) failureDelta() float64 {
	return (1 + math.Exp(pl.params.Budget.Epsilon)) * pl.params.Failure
}

// rareShare is the part of δ that noise beyond Limit may take.
const rareShare = 0x1p-50

// tail returns x such that noise may leave Limit with probability e^{−x}: e^{−x} ≤ 2⁻²⁰⁰/Π|V_j|,
// which the coin of a pure law pays for, and with a δ 2⁻²⁰⁰e^{−ε}δ/Π|V_j|, which costs 2⁻¹⁹⁹δ.
// Proof: docs/theory/discrete.md#discrete.coin
func (pl *Plan) tail(b dp.Budget) float64 {
	x := 200*math.Ln2*(1+0x1p-40) + pl.params.logChoices(pl.params.Dim)
	if b.Delta > 0 {
		x += b.Epsilon - num.Log(b.Delta)
	}
	return x
}

// mostBeyond is how far the ε′ of a stated scale may exceed the ε that tail is given: noise beyond Limit
// costs (1 + e^ε′) of its probability, less than rareShare of δ as long as e^(ε′−ε) < 2¹⁴⁹.
const mostBeyond = 100

// provedBudget is the budget to give to tail for noise of scale shift/a or more that was not calibrated for b.
func provedBudget(logDelta func(eps, a float64) float64, a float64, b dp.Budget) dp.Budget {
	b.Epsilon = max(b.Epsilon, min(dp.MaxEpsilon, provedEpsilon(logDelta, a, b.Delta))-mostBeyond)
	return b
}

// logRare is the logarithm of a bound on the probability of noise beyond Limit under a law that is not
// pure, −∞ under one that is: the coin pays for it there.
func (pl *Plan) logRare() float64 {
	if pl.logDelta == nil {
		return math.Inf(-1)
	}
	q := &pl.params
	return -pl.tail(dp.Budget{Epsilon: max(q.Budget.Epsilon, q.Proved.Epsilon-mostBeyond), Delta: 1})
}

// pure records a law that needs no δ.
func (pl *Plan) pure() {
	q := &pl.params
	q.CoinBits = draw.CoinBits
	q.Proved = dp.Budget{Epsilon: q.Budget.Epsilon}
	if q.Failure > 0 {
		q.Proved.Delta = max(dp.MinDelta, pl.failureDelta()*safeScale)
	}
}

// unit is the exponent of the steps of the noise of a problem.
func (q *Params) unit() int { return q.Exponent - q.FeatureBits }

// finish names the theorem and refuses noise beyond what an oracle can hold: reach
// bounds Σ_j max|T_j| + max|z| but with the probability that tail allows.
func (pl *Plan) finish(theorem string, reach float64) (*Plan, error) {
	q := &pl.params
	if !(reach*(1+0x1p-30) <= math.Ldexp(float64(q.Limit), q.unit())) { // also NaN
		return nil, errReach(q.Budget, reach)
	}
	q.Theorem = theorem
	if q.Failure > 0 {
		q.Theorem = theoremFailure + "(" + theorem + ")"
	}
	return pl, nil
}

func errReach(b dp.Budget, reach float64) error {
	return fmt.Errorf("objpert: %w: %v needs noise of size %.3g, beyond what an exact search can hold: raise Epsilon or shrink the space",
		dp.ErrCondition, b, reach)
}

// public returns what may be known of a problem.
func public(p *Problem, b dp.Budget, rng, lip float64) (Public, error) {
	if p == nil {
		return Public{}, fmt.Errorf("%w: the problem is nil", ErrProblem)
	}
	if p.noise != nil {
		return Public{}, fmt.Errorf("%w: the problem carries noise already", ErrProblem)
	}
	q := Public{Space: p.Space, Dim: p.Dim, OracleLoss: p.OracleLoss, Range: rng, Lipschitz: lip, Budget: b}
	if rng == 0 {
		if p.OracleLoss {
			return Public{}, fmt.Errorf("%w: Range = 0, but only the oracle knows the loss: declare the range of one record's loss",
				ErrMechanism)
		}
		q.Range = 1
	}
	return q, nil
}

// Fit draws the noise of the plan, minimizes and releases the minimizer:
//
//	η ~ the plan's law,  w = argmin over W of L(w) − ⟨η, φ(w)⟩
//
// p must be over the space of the plan and carry no noise. Nothing is released
// unless the oracle proved the minimizer: privacy compares, for each value of
// the noise, the exact minimizers on neighbors, and a point near the minimum
// has no guarantee at all.
//
// src feeds the noise; nil means a secure one, anything else adds the
// assumption dp.CallerSource. Fit may be called concurrently. Each call spends
// the budget once, whether it releases or not.
//
// The error wraps ErrMechanism or ErrProblem if p does not fit, and
// dp.ErrWithheld together with the oracle's error if the minimizer was not
// proved, or noise.ErrSource if src repeats itself.
func (pl *Plan) Fit(ctx context.Context, p *Problem, src rand.Source) (*dp.Release, error) {
	if pl.empty() {
		return nil, fmt.Errorf("%w: the Plan is empty, want one made by Plan or Calibrate", ErrMechanism)
	}
	if err := release.CheckContext(ErrMechanism, ctx); err != nil {
		return nil, err
	}
	f := fault.From(ctx)
	audited := *pl // with what an audit changes, if there is one
	pl = &audited
	pl.params = fault.At(f, stepParams, pl.params)
	q := &pl.params
	if err := p.Check(); err != nil {
		return nil, err
	}
	switch {
	case p.noise != nil:
		return nil, fmt.Errorf("%w: the problem carries noise already", ErrProblem)
	case p.Dim != q.Dim || p.OracleLoss != q.OracleLoss || !sameSpace(&p.Space, &q.Space, q.Dim):
		return nil, fmt.Errorf("%w: the problem is over another space than the plan, want the same Dim, Values, NormSq, Allowed and "+
			"OracleLoss", ErrMechanism)
	}
	source, cert := draw.Open(src, pl.Certificate())
	// Before anything reads a record: the noise, or what is released without it.
	eta := pl.draw(f, source)
	defer eta.wipe()
	var w []int
	var err error
	switch {
	case eta == nil && pl.vote != nil:
		w = q.box().anyPoint(q.Dim, source)
	case eta == nil:
		w = q.anyPoint(q.Dim, source)
	case pl.vote != nil:
		w, err = pl.aggregate(ctx, p, eta, source)
	default:
		w, err = pl.minimize(ctx, p, eta)
	}
	if err := cmp.Or(source.Err(), err); err != nil {
		return nil, err
	}
	theta := make([]float64, len(w))
	for j, v := range w {
		theta[j] = float64(v)
	}
	return &dp.Release{Theta: theta, Certificate: cert}, nil
}

// minimize returns the proved minimizer of p with the noise eta.
func (pl *Plan) minimize(ctx context.Context, p *Problem, eta *perturbation) ([]int, error) {
	noisy := *p
	noisy.noise = eta
	sol, err := pl.oracle.Solve(ctx, &noisy)
	proven := err == nil && sol != nil && fault.At(fault.From(ctx), fault.Certified, sol.Proven) && noisy.Contains(sol.W)
	if pl.trace != nil {
		pl.trace(Trace{Solution: sol, Err: err, Released: proven})
	}
	switch {
	case errors.Is(err, ErrProblem):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("objpert: %w: the oracle did not prove a minimizer: %w", dp.ErrWithheld, err)
	case !proven:
		return nil, fmt.Errorf("objpert: %w: the oracle did not prove a minimizer", dp.ErrWithheld)
	}
	return sol.W, nil
}

// sameSpace compares what two spaces admit, both of d coordinates.
func sameSpace(a, b *Space, d int) bool {
	if a.NormSq != b.NormSq || !slices.Equal(a.Values, b.Values) {
		return false
	}
	for j := range d {
		for k := range a.Values {
			if a.allowed(j, k) != b.allowed(j, k) {
				return false
			}
		}
	}
	return true
}

// own reports whether an oracle is one of this package.
func own(o Oracle) bool {
	t := reflect.TypeOf(o)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.PkgPath() == reflect.TypeFor[Problem]().PkgPath()
}

// draw draws the noise of the plan in steps of 2^unit. It returns nil where the
// release is to be a point drawn without looking: on the coin, and for noise
// beyond Limit.
func (pl *Plan) draw(f *fault.Set, src rand.Source) *perturbation {
	q := &pl.params
	if draw.Coin(q.CoinBits, src) {
		return nil
	}
	integers, spread := pl.drawFeatures, pl.spreadFeatures // integers in steps of 2^Exponent; the tables that they make
	switch {
	case q.Law == KNorm || q.Law == OneSided:
		integers, spread = pl.drawProduct, pl.spreadProduct
	case pl.separator != 0:
		integers, spread = pl.drawSeparators, pl.spreadSeparators
	}
	eta := integers(src)
	defer clear(eta)
	eta = fault.At(f, fault.DiscreteNoise, eta)
	n := newPerturbation(q.Dim, len(q.Values))
	n.shift = -q.unit()
	spread(n, eta)
	if !n.within(q.Limit) {
		n.wipe()
		return nil
	}
	return n
}

// far is where noise saturates: beyond every Limit, and sums of two stay in int64.
const far = 1 << 61

// times returns k·c, saturated at ±far.
func times(k, c int64) int64 {
	hi, lo := bits.Mul64(magnitude(k), magnitude(c))
	v := int64(min(lo, far))
	if hi > 0 {
		v = far
	}
	if (k < 0) != (c < 0) {
		v = -v
	}
	return v
}

// plus returns a + b, both within ±far, saturated there.
func plus(a, b int64) int64 { return min(max(a+b, -far), far) }
