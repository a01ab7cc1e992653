package objpert

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/fault"
	sample "github.com/privopt/privopt/noise"
)

// ErrMechanism reports a field of a mechanism, of Public or of Plan outside its
// range. Test with errors.Is.
var ErrMechanism = errors.New("objpert: invalid mechanism")

// Identifiers of the theorems, see the package comment.
const (
	TheoremRadial       = "objpert.radial/1"
	TheoremGaussian     = "objpert.gaussian/1"
	TheoremSigma        = "objpert.sigma/1"
	TheoremKNorm        = "objpert.knorm/1"
	TheoremOneSided     = "objpert.onesided/1"
	TheoremRSPMLaplace  = "objpert.rspm-laplace/1"
	TheoremRSPMGaussian = "objpert.rspm-gaussian/1"
	TheoremRSPMSigma    = "objpert.rspm-sigma/1"
	TheoremOPSamp       = "objpert.opsamp/1"
	TheoremAggregate    = "objpert.aggregate/1"
	theoremFailure      = "objpert.failure/1"
)

// Assumptions of this package.
const (
	// CompleteSearch: no theorem here covers a search that ends without a proof.
	CompleteSearch dp.Assumption = "the oracle proves a minimizer on every data set: a release withheld because it did not is outside this statement"
	// TrustedOracle: the oracle is not one of this package.
	TrustedOracle dp.Assumption = "what the caller's oracle reports as proven is the minimizer, ties broken by a fixed order of the points"
	// DeclaredLoss: the loss of one record is known to the oracle alone.
	DeclaredLoss dp.Assumption = "the loss that the caller's oracle minimizes is a sum over records of functions within the declared Range and Lipschitz constant"
	// AssertedFailure: Failure was given.
	AssertedFailure dp.Assumption = "on every data set the oracle fails to prove a minimizer with no more than the declared probability Failure"
)

// Law is the law of a perturbation.
type Law int

const (
	// DefaultLaw is Radial for OPDisc, KNorm for Product and Laplace for RSPM.
	DefaultLaw Law = iota
	// Radial has density ∝ exp(−ε‖η‖₂/Δ): pure privacy, for OPDisc.
	Radial
	// Gaussian is N(0, σ²) in every coordinate, σ by the proved calibration.
	Gaussian
	// PaperSigma is Gaussian with the σ of [NRVW20], whose proof has a gap. The
	// certificate states the ε that is proved for this σ, which may exceed the
	// ε of the budget.
	PaperSigma
	// KNorm is the law ∝ e^{−gauge(η)/t} of the polytope that the shifts span,
	// on integers: pure privacy, for Product.
	KNorm
	// OneSided is a geometric variable for each value of each coordinate: pure
	// privacy, for Product.
	OneSided
	// Laplace is a discrete Laplace variable for each separator: pure privacy,
	// for RSPM.
	Laplace
)

var lawNames = [...]string{"default", "radial", "Gaussian", "published sigma", "K-norm", "one-sided geometric", "discrete Laplace"}

// String returns the name of the law or a marker of an invalid value.
func (l Law) String() string {
	if l < 0 || int(l) >= len(lawNames) {
		return fmt.Sprintf("invalid law %d", int(l))
	}
	return lawNames[l]
}

// Public is all that a calibration knows: declared quantities, never a record.
// Plan fills it from a Problem.
type Public struct {
	Space
	Dim int // d
	// Range is R: the loss of one record lies in [0, R]. The 0/1 loss of
	// halfspaces has 1.
	Range float64
	// Lipschitz is G: the loss of one record changes by at most G‖w-v‖₂. 0 means
	// unknown; OPDisc takes the better of the two bounds.
	Lipschitz float64
	Budget    dp.Budget
}

func (q Public) check() error {
	if err := q.Budget.Check(); err != nil {
		return fmt.Errorf("objpert: %w", err)
	}
	switch {
	case q.Dim < 1 || q.Dim > maxDim:
		return fmt.Errorf("%w: Dim = %d, want a number of parameters in [1, %d]", ErrMechanism, q.Dim, maxDim)
	case !(q.Range >= 0x1p-100 && q.Range <= 0x1p100):
		return fmt.Errorf("%w: Range = %v, want a positive bound on the loss of one record (1 for halfspaces)", ErrMechanism, q.Range)
	case !(q.Lipschitz == 0 || q.Lipschitz >= 0x1p-100 && q.Lipschitz <= 0x1p100):
		return fmt.Errorf("%w: Lipschitz = %v, want a positive constant, or 0 for unknown", ErrMechanism, q.Lipschitz)
	}
	return q.Space.check(q.Dim)
}

// slope is G, +Inf if unknown.
func (q Public) slope() float64 {
	if q.Lipschitz == 0 {
		return math.Inf(1)
	}
	return q.Lipschitz
}

// choices returns the number of admitted values of each coordinate.
func (q Public) choices() []int {
	n := make([]int, q.Dim)
	for j := range n {
		for k := range q.Values {
			if q.allowed(j, k) {
				n[j]++
			}
		}
	}
	return n
}

// Trace is what one search found. Not private: none of it may be published.
type Trace struct {
	Solution *Solution // nil if the oracle returned none
	Err      error     // of the oracle
	Released bool      // whether a release followed
}

// Plan is a calibrated OPDisc, RSPM or Product: how much noise, and what it
// costs. It is made of public quantities alone and may be published. Fit spends
// its budget once per call. Only Calibrate and Plan make valid ones; changing a
// field voids the certificate.
type Plan struct {
	Public
	Relation dp.Relation
	Theorem  string // identifier of the theorem, tabled in the package comment
	Law      Law
	// Proved is what a release is certified at. It is the Budget, with δ = 0
	// where the law is pure, but for PaperSigma and a stated Sigma.
	Proved dp.Budget
	Noises int // m, the number of noise variables
	// Shift is the shift s_w that makes up for one record: ‖s_w‖₂ = Δ for OPDisc,
	// the size of an entry for Product and RSPM.
	Shift float64
	// Scale of the noise: Δ/ε of the radial law, whose radius is Gamma(m) times
	// it; σ of a Gaussian; mean size of a geometric or Laplace variable; the mean
	// radius of KNorm is (m+1) times it.
	Scale float64
	// Grid is the step of integer noise, 0 for OPDisc. On a grid the search is
	// exact, ties included.
	Grid float64
	// ExcessBound bounds the expected excess of the loss, a sum over the records,
	//
	//	E L(w) − min L ≤ E max over v, w of ⟨η, φ(w) − φ(v)⟩
	ExcessBound float64
	// Failure is β, see OPDisc.Failure.
	Failure float64
	// Trace, if not nil, is called at the end of every search. Not private: what
	// it receives is a function of the records.
	Trace func(Trace)

	oracle    Oracle
	separator Separator
	cube      bool
	grid      grid
	vote      *SampleAndAggregate // of a plan that votes
}

// String describes the plan in a few lines. It holds public quantities only.
func (p *Plan) String() string {
	if p == nil || p.Theorem == "" {
		return "empty plan"
	}
	var b strings.Builder
	kind := "pure"
	if p.Proved.Delta > 0 {
		kind = "approximate"
	}
	fmt.Fprintf(&b, "%s: %s guarantee (ε = %.6g, δ = %.6g), %v neighbors\n", p.Theorem, kind, p.Proved.Epsilon, p.Proved.Delta, p.Relation)
	if p.Proved.Epsilon > p.Budget.Epsilon {
		fmt.Fprintf(&b, "  not proved at the budget %v\n", p.Budget)
	}
	fmt.Fprintf(&b, "  %d noise variables, %v law, scale %.6g, shift %.6g", p.Noises, p.Law, p.Scale, p.Shift)
	if p.NormSq > 0 {
		fmt.Fprintf(&b, ", Q = %d", p.NormSq)
	}
	fmt.Fprintf(&b, "\n  expected excess loss ≤ %.6g records", p.ExcessBound)
	return b.String()
}

// common are the fields that OPDisc, Product and RSPM share.
type common struct {
	relation dp.Relation
	law      Law
	oracle   Oracle
	beta     float64
	trace    func(Trace)
}

// start checks what the mechanisms have in common and returns the plan so far.
// The δ that Failure takes is subtracted from the budget that is calibrated.
func (c common) start(q Public) (*Plan, dp.Budget, error) {
	rel := c.relation
	if rel == 0 {
		rel = dp.Replace
	}
	if err := rel.Check(); err != nil {
		return nil, dp.Budget{}, fmt.Errorf("objpert: Relation: %w", err)
	}
	if err := q.check(); err != nil {
		return nil, dp.Budget{}, err
	}
	if !(c.beta >= 0 && c.beta < 1) {
		return nil, dp.Budget{}, fmt.Errorf("%w: Failure = %v, want a probability below 1, or 0", ErrMechanism, c.beta)
	}
	q.Space = q.Space.clone()
	p := &Plan{Public: q, Relation: rel, Law: c.law, Failure: c.beta, Trace: c.trace, oracle: c.oracle}
	b := q.Budget
	if c.beta > 0 {
		share := p.failureDelta()
		if b.Delta -= share * safeScale; !(b.Delta >= 0) {
			return nil, dp.Budget{}, fmt.Errorf("objpert: %w: Failure = %v alone costs δ = (1 + e^ε)β = %.3g, more than Delta = %v", dp.ErrCondition, c.beta, share, q.Budget.Delta)
		}
	}
	return p, b, nil
}

// failureDelta is what withheld releases cost: (1 + e^ε)β.
func (p *Plan) failureDelta() float64 { return (1 + math.Exp(p.Budget.Epsilon)) * p.Failure }

// pure records a law that needs no δ.
func (p *Plan) pure() {
	p.Proved = dp.Budget{Epsilon: p.Budget.Epsilon}
	if p.Failure > 0 {
		p.Proved.Delta = max(dp.MinDelta, p.failureDelta()*safeScale)
	}
}

// holds is the most noise, Σ_j max|T_j| + max|z|, for which oracles and float64
// are exact on the grid of the plan; without a grid, the most they take.
func (p *Plan) holds() float64 {
	if p.grid.t > 0 {
		return math.Ldexp(1, 52-p.grid.bits)
	}
	return maxNoise
}

// held reports whether noise that was drawn is within holds. It fails with
// probability below 2⁻²⁰⁰, whatever the records.
func (p *Plan) held(table [][]float64, norm []float64) bool {
	q := Problem{Table: table, Norm: norm}
	return q.noiseBound() <= p.holds()
}

// errRange withholds a release whose noise is beyond holds.
var errRange = fmt.Errorf("objpert: %w: the noise left the range of exact arithmetic", dp.ErrWithheld)

// finish names the theorem and refuses noise beyond what an oracle can hold:
// reach bounds the noise but with probability 2⁻²⁰⁰.
func (p *Plan) finish(theorem string, reach float64) (*Plan, error) {
	if !(reach <= p.holds()) { // also NaN
		return nil, fmt.Errorf("objpert: %w: %v needs noise of size %.3g, beyond what an exact search can hold: raise Epsilon or shrink the space", dp.ErrCondition, p.Budget, reach)
	}
	p.Theorem = theorem
	if p.Failure > 0 {
		p.Theorem = theoremFailure + "(" + theorem + ")"
	}
	return p, nil
}

// public returns what may be known of a problem.
func public(p *Problem, b dp.Budget, rng, lip float64) (Public, error) {
	if p == nil {
		return Public{}, fmt.Errorf("%w: the problem is nil", ErrProblem)
	}
	if p.Table != nil || p.Norm != nil {
		return Public{}, fmt.Errorf("%w: the problem carries noise already, want Table and Norm nil", ErrProblem)
	}
	q := Public{Space: p.Space, Dim: p.Dim, Range: rng, Lipschitz: lip, Budget: b}
	switch halfspaces := len(p.X) > 0; {
	case halfspaces && rng == 0:
		q.Range = 1
	case halfspaces && rng < 1:
		return Public{}, fmt.Errorf("%w: Range = %v, but the 0/1 loss of halfspaces has range 1; a problem for another loss has no rows", ErrMechanism, rng)
	case !halfspaces && rng == 0:
		return Public{}, fmt.Errorf("%w: Range = 0, but a problem without rows is for a loss that only the oracle knows: declare the range of one record's loss", ErrMechanism)
	case halfspaces && lip > 0 && lip < 1/p.step():
		return Public{}, fmt.Errorf("%w: Lipschitz = %v, but the 0/1 loss of halfspaces changes by 1 between points at distance %v, want 0 or at least %v; a problem for another loss has no rows", ErrMechanism, lip, p.step(), 1/p.step())
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
// src feeds the noise; nil means noise.Secure(), anything else adds the
// assumption dp.CallerSource. Fit may be called concurrently. Each call spends
// the budget once, whether it releases or not.
//
// The error wraps ErrMechanism or ErrProblem if p does not fit, and
// dp.ErrWithheld together with the oracle's error if the minimizer was not
// proved. Fit panics if ctx is nil.
func (pl *Plan) Fit(ctx context.Context, p *Problem, src rand.Source) (*dp.Release, error) {
	if pl == nil || pl.Theorem == "" {
		return nil, fmt.Errorf("%w: the Plan is empty, want one made by Plan or Calibrate", ErrMechanism)
	}
	q, err := public(p, pl.Budget, pl.Range, pl.Lipschitz)
	if err != nil {
		return nil, err
	}
	if q.Dim != pl.Dim || !sameSpace(&q.Space, &pl.Space, pl.Dim) {
		return nil, fmt.Errorf("%w: the problem is over another space than the plan, want the same Dim, Values, NormSq and Allowed", ErrMechanism)
	}
	if pl.vote != nil {
		if err := p.Check(); err != nil {
			return nil, err
		}
		return pl.aggregate(ctx, p, src)
	}
	f := fault.From(ctx)
	oracle := pl.oracle
	if oracle == nil {
		oracle = Auto{}
	}
	cert := dp.Certificate{Budget: pl.Proved, Relation: pl.Relation, Theorem: pl.Theorem}
	if pl.grid.t == 0 { // noise from floating-point samplers
		cert.Assumptions = append(cert.Assumptions, dp.RealArithmetic)
	}
	if pl.Failure > 0 {
		cert.Assumptions = append(cert.Assumptions, AssertedFailure)
	} else {
		cert.Assumptions = append(cert.Assumptions, CompleteSearch)
	}
	if !own(oracle) {
		cert.Assumptions = append(cert.Assumptions, TrustedOracle)
		if len(p.X) == 0 {
			cert.Assumptions = append(cert.Assumptions, DeclaredLoss)
		}
	}
	if src == nil {
		src = sample.Secure()
	} else {
		cert.Assumptions = append(cert.Assumptions, dp.CallerSource)
	}

	table, norm := pl.draw(f, src) // before anything reads a record
	defer wipe(table, norm)
	if !pl.held(table, norm) {
		return nil, errRange
	}
	noisy, err := p.Perturb(table, norm)
	if err != nil {
		return nil, err
	}
	defer wipe(noisy.Table, noisy.Norm)
	sol, err := oracle.Solve(ctx, noisy)
	proven := err == nil && sol != nil && fault.At(f, fault.Certified, sol.Proven) && noisy.Contains(sol.W)
	if pl.Trace != nil {
		pl.Trace(Trace{Solution: sol, Err: err, Released: proven})
	}
	switch {
	case errors.Is(err, ErrProblem):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("objpert: %w: the oracle did not prove a minimizer: %w", dp.ErrWithheld, err)
	case !proven:
		return nil, fmt.Errorf("objpert: %w: the oracle did not prove a minimizer", dp.ErrWithheld)
	}
	theta := make([]float64, len(sol.W))
	for j, v := range sol.W {
		theta[j] = float64(v)
	}
	return &dp.Release{Theta: theta, Certificate: cert}, nil
}

// wipe overwrites noise that is no longer needed.
func wipe(table [][]float64, norm []float64) {
	for _, row := range table {
		clear(row)
	}
	clear(norm)
}

// sameSpace compares what two spaces admit.
func sameSpace(a, b *Space, d int) bool {
	if a.NormSq != b.NormSq || len(a.Values) != len(b.Values) ||
		a.Allowed != nil && len(a.Allowed) != d || b.Allowed != nil && len(b.Allowed) != d {
		return false
	}
	for k, v := range a.Values {
		if v != b.Values[k] {
			return false
		}
	}
	for j := range d {
		if a.Allowed != nil && len(a.Allowed[j]) != len(a.Values) || b.Allowed != nil && len(b.Allowed[j]) != len(a.Values) {
			return false
		}
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

// draw draws the noise table and norm of the plan.
func (pl *Plan) draw(f *fault.Set, src rand.Source) (table [][]float64, norm []float64) {
	switch pl.Law {
	case KNorm, OneSided:
		return pl.drawProduct(f, src), nil
	case Laplace:
		return pl.drawSeparators(f, src), nil
	}
	if pl.separator != 0 {
		return pl.drawSeparators(f, src), nil
	}
	return pl.drawRadial(f, src)
}

// newTable returns a table of zeros for the space of the plan.
func (pl *Plan) newTable() [][]float64 {
	table := make([][]float64, pl.Dim)
	flat := make([]float64, pl.Dim*len(pl.Values))
	for j := range table {
		table[j] = flat[j*len(pl.Values) : (j+1)*len(pl.Values) : (j+1)*len(pl.Values)]
	}
	return table
}
