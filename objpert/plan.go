// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package objpert

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/release"
)

// ErrMechanism reports a field of a mechanism outside its range, or an empty plan. Test with
// errors.Is.
var ErrMechanism = errors.New("objpert: invalid mechanism")

// Identifiers of theorems: docs/theory/discrete.md.
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
	theoremExponential  = "objpert.exponential/1"
)

// Assumptions of certificates.
const (
	// CompleteSearch: no theorem covers a search that ends without a proof, unless Failure is set.
	CompleteSearch dp.Assumption = "the oracle proves a minimizer on every data set: a release withheld because it " +
		"did not is outside this statement"
	// TrustedOracle: the oracle is not a [Search].
	TrustedOracle dp.Assumption = "what the caller's oracle reports as proven is the minimizer, ties broken by a " +
		"fixed order of the points"
	// DeclaredLoss: the problem is [Custom].
	DeclaredLoss dp.Assumption = "the loss that the caller's oracle minimizes is a sum over records of functions " +
		"within the declared Range and Lipschitz constant"
	// AssertedFailure: Failure is set.
	AssertedFailure dp.Assumption = "on every data set the oracle fails to prove a minimizer with no more than the " +
		"declared probability Failure"
)

// Law is the law of the noise.
type Law int

// Laws. The zero value stands for the default of the mechanism: Radial, KNorm or Laplace.
const (
	_ Law = iota
	// Radial has density ∝ exp(−ε‖η‖₂/Δ): pure privacy, for [OPDisc].
	Radial
	// Gaussian is N(0, σ²) in every coordinate, σ by the proved calibration.
	Gaussian
	// PaperSigma is Gaussian with the σ of [NRVW20], whose proof has a gap. The certificate states the
	// ε that is proved for this σ, which may exceed the ε of the budget.
	PaperSigma
	// KNorm is the law ∝ e^{−gauge(η)/t} of the polytope that the shifts span, on integers: pure
	// privacy, for [Product].
	KNorm
	// OneSided is a geometric variable for each value of each coordinate: pure privacy, for [Product].
	OneSided
	// Laplace is a discrete Laplace variable for each separator: pure privacy, for [RSPM].
	Laplace
	// Gibbs is the law ∝ π(w)e^{−L(w)/c} of the released point itself: pure privacy, for
	// [Exponential].
	Gibbs
)

var lawNames = [...]string{
	"default", "radial", "Gaussian", "published sigma", "K-norm", "one-sided geometric", "discrete Laplace", "Gibbs",
}

// String returns the name of the law or a marker of an invalid value.
func (l Law) String() string {
	if l < 0 || int(l) >= len(lawNames) {
		return fmt.Sprintf("invalid law %d", int(l))
	}
	return lawNames[l]
}

// MarshalText encodes the name of the law.
func (l Law) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// Params lists the public quantities that the noise and the claim of a [Plan] depend on.
type Params struct {
	Space
	Dim int `json:"dim"` // d
	// OracleLoss reports a Custom problem. Otherwise the loss is the 0/1 loss of halfspaces.
	OracleLoss bool `json:"oracle_loss,omitempty"`
	// Range is R: the loss of one record lies in [0, R].
	Range float64 `json:"range"`
	// Lipschitz is G: the loss of one record changes by at most G‖w − v‖₂; 0 means unknown.
	Lipschitz float64   `json:"lipschitz,omitempty"`
	Budget    dp.Budget `json:"budget"` // of the request

	Relation dp.Relation `json:"relation"`
	Theorem  string      `json:"theorem"` // identifier, see docs/theory/discrete.md
	Law      Law         `json:"law"`
	// Proved is the budget that the certificate claims: the Budget, with δ = 0 under a pure law.
	// PaperSigma and a stated Sigma have another ε.
	Proved dp.Budget `json:"proved"`
	Noises int       `json:"noises"` // m, the number of noise variables
	// Shift is the size of the shift of the noise that makes up for one record, rounding included:
	// its Euclidean norm in units of η for OPDisc, one of its entries for Product and RSPM.
	Shift float64 `json:"shift"`
	// Scale of the noise: Shift/ε of the radial law, whose radius is Gamma(m) times it; σ of a
	// Gaussian; the mean of a geometric or the scale of a Laplace variable. The mean radius of KNorm
	// is m + 1 times it. It is c of Exponential, which has no noise.
	Scale float64 `json:"scale"`
	// Exponent of the grid: noise is a multiple of 2^Exponent.
	Exponent int `json:"exponent"`
	// FeatureBits is b: OPDisc rounds the feature √(Q − ‖w‖²) to a multiple of 2^-b.
	FeatureBits int `json:"feature_bits,omitempty"`
	// Time is t of P(k) ∝ e^{−|k|/t}, in steps; 0 for the laws of real variables.
	Time uint64 `json:"time,omitempty"`
	// Limit is the largest Σ_j max|T_j| + max|z|, in steps of 2^(Exponent−FeatureBits), that is used.
	// Beyond it, and with probability 2^-CoinBits (CoinBits = 0: never), the release is a random
	// point that does not depend on the records.
	Limit    uint64 `json:"limit"`
	CoinBits int    `json:"coin_bits"`
	// ExcessBound bounds the expected excess of the loss, a sum over the records, or over the votes
	// of SampleAndAggregate: docs/theory/discrete.md#discrete.excess
	ExcessBound float64 `json:"excess_bound"`
	Failure     float64 `json:"failure,omitempty"` // β, see OPDisc
	Blocks      int     `json:"blocks,omitempty"`  // K, see SampleAndAggregate
	Uniform     bool    `json:"uniform,omitempty"` // see Exponential
}

// Plan is a calibrated [Exponential], [OPDisc], [Product], [RSPM] or [SampleAndAggregate]: how much
// noise is added, and what a release costs. It is a function of public quantities and may be
// published. The methods named Plan make plans; nothing changes them. Fit spends the budget once
// per call. The nil and the zero Plan certify nothing.
type Plan struct {
	params Params

	logDelta  func(eps float64) float64 // log δ(ε) of the law; nil if it is pure
	oracle    Oracle
	separator separator           // of RSPM
	cube      bool                // of OPDisc: W lies in {−1,+1}ᵈ
	last      []int64             // of OPDisc: c(q)·2^b, q = 0, …, Q
	vote      *SampleAndAggregate // nil for the other mechanisms
	law       *prior              // of Exponential, nil for the others
}

// stepParams lets an audit change the parameters of a plan.
var stepParams = fault.NewStep[Params](fault.DiscreteParams)

// Params returns a copy of the parameters of the plan.
func (pl *Plan) Params() Params {
	q := cmp.Or(pl, new(Plan)).params
	q.Space = q.clone()
	return q
}

func (pl *Plan) empty() bool { return pl == nil || pl.params.Theorem == "" }

// Certificate states the privacy of one release and the assumptions it rests on.
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
	case pl.law != nil: // exact for every search, and no other loss than that of halfspaces
		return c
	case pl.vote != nil:
		c.Assumptions = append(c.Assumptions, HeuristicByBlock)
		return c
	case q.Failure > 0:
		c.Assumptions = append(c.Assumptions, AssertedFailure)
	default:
		c.Assumptions = append(c.Assumptions, CompleteSearch)
	}
	switch pl.oracle.(type) {
	case Search, *Search:
	default:
		c.Assumptions = append(c.Assumptions, TrustedOracle)
	}
	if q.OracleLoss {
		c.Assumptions = append(c.Assumptions, DeclaredLoss)
	}
	return c
}

// Profile returns δ(ε) of one release: that of a pure law, or the bound that calibrates Gaussian
// noise, plus (1 + e^ε)β for Failure; for [Exponential] that of a privacy loss of range ε, which is
// about half of that of a pure law.
func (pl *Plan) Profile() dp.Profile {
	if pl.empty() {
		return dp.Unknown()
	}
	q := &pl.params
	if pl.law != nil {
		return dp.Symmetric(dp.RangeCurve(pl.law.span), dp.RangeRDP(pl.law.span))
	}
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

// String describes the plan in a few lines, by public quantities only.
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
	if pl.law != nil {
		fmt.Fprintf(&b, "  a point w with probability ∝ π(w) exp(-L(w)/%.6g), |W| = %d", q.Scale, pl.law.points())
	} else {
		fmt.Fprintf(&b, "  %d noise variables on a grid of 2^%d, %v law, scale %.6g, shift %.6g",
			q.Noises, q.Exponent, q.Law, q.Scale, q.Shift)
	}
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

// start checks the settings that the mechanisms share, and the public facts of p. It returns the
// plan so far and the budget to calibrate for: the cost of Failure is subtracted from δ. laws are
// those of the mechanism, the default first, and names are their identifiers.
func start(p *Problem, b dp.Budget, m Product, lipschitz float64, names string, laws ...Law) (*Plan, dp.Budget, error) {
	if err := p.check(); err != nil {
		return nil, b, err
	}
	q := Params{
		Space: p.Space(), Dim: p.dim, OracleLoss: p.custom, Range: m.Range, Lipschitz: lipschitz, Budget: b,
		Relation: cmp.Or(m.Relation, dp.Replace), Law: cmp.Or(m.Law, laws[0]), Failure: m.Failure, Limit: maxSteps,
	}
	if q.Range == 0 && !p.custom {
		q.Range = 1
	}
	if err := q.Relation.Check(); err != nil {
		return nil, b, fmt.Errorf("objpert: Relation: %w", err)
	}
	if err := b.Check(); err != nil {
		return nil, b, fmt.Errorf("objpert: %w", err)
	}
	switch least := 1 / q.step(); {
	case p.noise != nil:
		return nil, b, fmt.Errorf("%w: the problem carries noise already", ErrProblem)
	case q.Range == 0:
		return nil, b, fmt.Errorf("%w: Range = 0, but only the oracle knows the loss: declare the range of one record's loss",
			ErrMechanism)
	case !(q.Range >= 0x1p-100 && q.Range <= 0x1p100):
		return nil, b, fmt.Errorf("%w: Range = %v, want a positive bound on the loss of one record (1 for halfspaces)",
			ErrMechanism, q.Range)
	case !(q.Lipschitz == 0 || q.Lipschitz >= 0x1p-100 && q.Lipschitz <= 0x1p100):
		return nil, b, fmt.Errorf("%w: Lipschitz = %v, want a positive constant, or 0 for unknown", ErrMechanism, q.Lipschitz)
	case !p.custom && q.Range < 1:
		return nil, b, fmt.Errorf("%w: Range = %v, but the 0/1 loss of halfspaces has range 1; take Custom for another loss",
			ErrMechanism, q.Range)
	case !p.custom && q.Lipschitz > 0 && q.Lipschitz < least:
		return nil, b, fmt.Errorf("%w: Lipschitz = %v, but the 0/1 loss of halfspaces changes by 1 between points at "+
			"distance %v, want 0 or at least %v; take Custom for another loss", ErrMechanism, q.Lipschitz, q.step(), least)
	case !slices.Contains(laws, q.Law):
		return nil, b, fmt.Errorf("%w: Law = %v, want %s", ErrMechanism, q.Law, names)
	case !(q.Failure >= 0 && q.Failure < 1):
		return nil, b, fmt.Errorf("%w: Failure = %v, want a probability below 1, or 0", ErrMechanism, q.Failure)
	}
	pl := &Plan{params: q, oracle: m.Oracle}
	if pl.oracle == nil {
		pl.oracle = Search{}
	}
	if share := pl.failureDelta(); share > 0 {
		if b.Delta -= share * safeScale; !(b.Delta >= 0) {
			return nil, b, fmt.Errorf("objpert: %w: Failure = %v alone costs δ = (1 + e^ε)β = %.3g, more than Delta = %v",
				dp.ErrCondition, q.Failure, share, q.Budget.Delta)
		}
	}
	if (q.Law == Gaussian || q.Law == PaperSigma) && b.Delta == 0 {
		return nil, b, fmt.Errorf("objpert: %w: Delta = 0, but Gaussian noise gives no pure guarantee, want a number in "+
			"[%g, 1), or the %v law", dp.ErrBudget, dp.MinDelta, laws[0])
	}
	return pl, b, nil
}

// failureDelta is the δ of withheld releases, (1 + e^ε)β.
func (pl *Plan) failureDelta() float64 {
	return (1 + math.Exp(pl.params.Budget.Epsilon)) * pl.params.Failure
}

// rareShare is the share of δ set aside for noise beyond Limit.
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

// mostBeyond bounds ε′ − ε, ε′ proved for a stated scale and ε given to tail: noise beyond Limit
// costs (1 + e^ε′) times its probability, which is less than rareShare of δ while e^(ε′−ε) < 2¹⁴⁹.
const mostBeyond = 100

// provedBudget returns the budget to give to tail for a stated scale of shift/a or more.
func provedBudget(logDelta func(eps, a float64) float64, a float64, b dp.Budget) dp.Budget {
	b.Epsilon = max(b.Epsilon, min(dp.MaxEpsilon, provedEpsilon(logDelta, a, b.Delta))-mostBeyond)
	return b
}

// logRare returns the logarithm of a bound on the probability of noise beyond Limit; −∞ under a
// pure law, where the coin pays for it.
func (pl *Plan) logRare() float64 {
	if pl.logDelta == nil {
		return math.Inf(-1)
	}
	q := &pl.params
	return -pl.tail(dp.Budget{Epsilon: max(q.Budget.Epsilon, q.Proved.Epsilon-mostBeyond), Delta: 1})
}

// pure records that the law needs no δ.
func (pl *Plan) pure() {
	q := &pl.params
	q.CoinBits = release.CoinBits
	q.Proved = dp.Budget{Epsilon: q.Budget.Epsilon}
	if q.Failure > 0 {
		q.Proved.Delta = max(dp.MinDelta, pl.failureDelta()*safeScale)
	}
}

// unit is the exponent of the steps of tables.
func (q *Params) unit() int { return q.Exponent - q.FeatureBits }

// finish sets the theorem. It refuses noise that an oracle cannot represent: reach bounds
// Σ_j max|T_j| + max|z|, except with the probability that tail allows.
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
	return fmt.Errorf("objpert: %w: %v needs noise of size %.3g, beyond what an exact search can hold: raise Epsilon "+
		"or shrink the space", dp.ErrCondition, b, reach)
}

// draw draws the noise of the plan in steps of 2^unit. It returns nil if the release has to be a
// random point that does not depend on the records: with the probability of the coin, and for noise
// beyond Limit.
func (pl *Plan) draw(f *fault.Set, src rand.Source) *perturbation {
	q := &pl.params
	if release.Coin(q.CoinBits, src) {
		return nil
	}
	integers, spread := pl.drawFeatures, pl.spreadFeatures // integers in steps of 2^Exponent; the tables that they make
	switch {
	case q.Law == KNorm || q.Law == OneSided:
		integers, spread = pl.drawProduct, pl.spreadProduct
	case pl.separator != none:
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
