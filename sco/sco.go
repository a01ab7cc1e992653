// Package sco is private stochastic convex optimization: mechanisms whose
// releases have small loss on the population the records came from,
//
//	F(w) = E ℓ(w; z)  over w ∈ W,   from n records, in mean form
//
// Privacy holds for every data set. A bound on the excess F(w) − min F holds in
// expectation over independent records, under the conditions named with it.
//
// # Which one to use
//
//	NoisySGD      smooth losses: noisy mini-batch SGD, averaged [BFTT19]
//	ProxGD        nonsmooth losses of ⟨a,w⟩ (hinge, absolute, pinball, …): the same
//	              on the Moreau envelope
//	DPSGD         noisy SGD as it is practised: epochs, clipping below L, last iterate
//	ObjPert       smooth losses of ⟨a,w⟩, moderate dimension: objective
//	              perturbation with λ for the population; usually the best
//	ObjPertSVRG   the same for large n: O(n log n) gradients
//	Output        output perturbation with λ for the population: needs only a bound
//	              on gradients
//	PermutationSGD  output noise on k passes over a permutation [WLKCJN17]; baseline
//	Phased        one pass in phases of halving length and step [FKT20]
//
// # How a mechanism is used
//
// Plan reads public quantities only: declared bounds, dimensions, the number of
// records where it is public, and the budget. It returns the noise, every
// parameter, and a bound on the excess. A Plan serves any number of Fits; Fit of
// a mechanism does both. What leaves is a dp.Release.
//
// # Relations
//
// Under dp.Replace the number of records n is public. Under dp.AddRemove it is
// not, and every schedule and divisor needs a public number Records instead.
//
// # Theorems
//
//	identifier          statement                                          needs
//	sco.sgd/1           T sums of vectors clipped at L plus zL·N(0,I), over the
//	                    batches of an accounting.Sampler, cost what
//	                    accounting.Composition says; all else is
//	                    post-processing                                    δ > 0
//	sco.prox/1          the same for gradients of Moreau envelopes         δ > 0
//	sco.objpert/1       the minimizer of nF̂ + nλ‖·‖² + ⟨b,·⟩ and its cover  smooth loss, δ > 0
//	sco.output/1        Gaussian noise hides 2L/(2nλ) + 2R                 δ > 0
//	sco.psgd/1          Gaussian noise hides 2kLη/b after k passes in
//	                    batches of b [WLKCJN17]                            smooth loss, η ≤ 2/β, δ > 0
//	sco.psgd-strong/1   Gaussian noise hides L/(λb⌊n/b⌋) after passes with
//	                    λ‖w‖² and steps of min(1/(β+2λ), 1/(2λt))          smooth loss, δ > 0
//	sco.phased/1        every phase hides 2Lη_k/b of its own records by
//	                    Gaussian noise; phases are disjoint                smooth loss, η ≤ 2/β, δ > 0
//
// # Notation
//
//	n, d        records, parameters
//	L, β        loss.Constants.Lipschitz and Smoothness: of one record
//	W, M        Problem.Set; bound on ‖w₁ − w*‖, Radius
//	T, q, m     steps; sampling rate; batch size, qn in expectation
//	z           noise on the sum of a batch, over L
//	σ           zL/(qn), noise on the mean gradient, per coordinate
//	η           step size
//	λ           weight of ‖w‖² (no ½) in mean form: Δ = 2nλ in sum form
//	f_β         Moreau envelope min_v f(v) + (β/2)‖v−w‖²
//	R           bound on the distance to the minimizer, certified
//
// # References
//
//	[BFTT19]    Bassily, Feldman, Talwar, Thakurta. Private Stochastic Convex
//	            Optimization with Optimal Rates. NeurIPS 2019.
//	[FKT20]     Feldman, Koren, Talwar. Private Stochastic Convex Optimization:
//	            Optimal Rates in Linear Time. STOC 2020.
//	[HRS16]     Hardt, Recht, Singer. Train Faster, Generalize Better: Stability
//	            of Stochastic Gradient Descent. ICML 2016.
//	[JZ13]      Johnson, Zhang. Accelerating Stochastic Gradient Descent using
//	            Predictive Variance Reduction. NeurIPS 2013.
//	[WLKCJN17]  Wu, Li, Kumar, Chaudhuri, Jha, Naughton. Bolt-on Differential
//	            Privacy for Scalable Stochastic Gradient Descent-based Analytics.
//	            SIGMOD 2017.
//	[XZ14]      Xiao, Zhang. A Proximal Stochastic Gradient Method with
//	            Progressive Variance Reduction. SIAM J. Optim. 2014.
package sco

import (
	"errors"
	"fmt"
	"math"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/specfun"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

// ErrMechanism reports a field of a mechanism, of Public or of a plan outside
// its range. Test with errors.Is.
var ErrMechanism = errors.New("sco: invalid mechanism")

// Identifiers of the theorems, see the package comment.
const (
	TheoremSGD     = "sco.sgd/1"
	TheoremProx    = "sco.prox/1"
	TheoremObjPert = "sco.objpert/1"
	TheoremOutput  = "sco.output/1"
	TheoremPSGD    = "sco.psgd/1"
	// TheoremPSGDStrong is that of PermutationSGD with a Lambda.
	TheoremPSGDStrong = "sco.psgd-strong/1"
	TheoremPhased     = "sco.phased/1"
)

// Public is all that a calibration knows of a problem: declared quantities,
// never a record. Plan fills it from an erm.Problem.
type Public struct {
	// Dim is d, the number of parameters.
	Dim int
	// Records is n under dp.Replace, and under dp.AddRemove a public number in
	// its place, which a mechanism takes from its field Records.
	Records int
	// Constants of one record's loss, on W.
	Constants loss.Constants
	// Radius is M, a bound on the distance from the start to the comparator. A
	// wrong one costs utility and never privacy.
	Radius float64
	// Budget of the whole release.
	Budget dp.Budget

	faults *fault.Set // of an audit; nil else
}

// check refuses what no mechanism can work with.
func (q Public) check(rel dp.Relation) error {
	switch {
	case q.Dim < 1:
		return fmt.Errorf("%w: Dim = %d, want at least 1", ErrMechanism, q.Dim)
	case q.Records < 1 && rel == dp.AddRemove:
		return fmt.Errorf("sco: %w: under %v the number of records is private: set Records to a public number in its place", dp.ErrCondition, rel)
	case q.Records < 1:
		return fmt.Errorf("%w: Records = %d, want the public number of records, at least 1", ErrMechanism, q.Records)
	case !(q.Radius > 0) || math.IsInf(q.Radius, 1):
		return fmt.Errorf("%w: Radius = %v, want a public finite bound M > 0 on the distance from the start to the solution, or a bounded Set", ErrMechanism, q.Radius)
	}
	if err := q.Budget.Check(); err != nil {
		return fmt.Errorf("sco: %w", err)
	}
	if q.Budget.Delta == 0 {
		return fmt.Errorf("sco: %w: Delta = 0, but Gaussian noise gives no pure guarantee, want a number in [%g, 1), for example 1/n²", dp.ErrBudget, dp.MinDelta)
	}
	return nil
}

// n and eps are shorthands for formulas.
func (q Public) n() float64        { return float64(q.Records) }
func (q Public) d() float64        { return float64(q.Dim) }
func (q Public) logDelta() float64 { return -specfun.Log(q.Budget.Delta) } // ln(1/δ)

// orReplace reads an unset relation as Replace.
func orReplace(r dp.Relation) dp.Relation {
	if r == 0 {
		return dp.Replace
	}
	return r
}

// field is a number of a mechanism that must be positive and finite, or 0 for
// what zero says.
type field struct {
	name, zero string
	v          float64
}

func checkFields(fields ...field) error {
	for _, f := range fields {
		if !(f.v >= 0) || math.IsInf(f.v, 1) {
			return fmt.Errorf("%w: %s = %v, want a positive finite number, or 0 for %s", ErrMechanism, f.name, f.v, f.zero)
		}
	}
	return nil
}

// checkRelation refuses an unknown relation.
func checkRelation(r dp.Relation) error {
	if err := orReplace(r).Check(); err != nil {
		return fmt.Errorf("sco: Relation: %w", err)
	}
	return nil
}

// known returns an error wrapping dp.ErrCondition unless 0 < v < ∞.
func known(name string, v float64, fix string) error {
	switch {
	case math.IsInf(v, 1):
		return fmt.Errorf("sco: %w: %s = +Inf on the declared bounds: %s", dp.ErrCondition, name, fix)
	case !(v > 0):
		return fmt.Errorf("sco: %w: %s = %v (0 means unknown), want the constants of a loss: %s", dp.ErrCondition, name, v, fix)
	}
	return nil
}

// public returns what may be known of p, which must pass Check. start is where
// a method begins, nil for the projection of 0.
func public(p *erm.Problem, rel dp.Relation, records int, radius float64, b dp.Budget) (Public, error) {
	if err := p.Check(); err != nil {
		return Public{}, fmt.Errorf("sco: %w", err)
	}
	n, d := p.Data.Dims()
	q := Public{Dim: d, Records: records, Radius: radius, Budget: b}
	if rel == dp.Replace {
		if records != 0 && records != n {
			return Public{}, fmt.Errorf("%w: Records = %d, but the problem has %d under %v, want 0", ErrMechanism, records, n, rel)
		}
		q.Records = n
	}
	r := math.Inf(1)
	if p.Set != nil {
		r = p.Set.Radius(d)
	}
	if q.Radius == 0 && !math.IsInf(r, 1) {
		q.Radius = r
		if p.Set.Func(make([]float64, d)) != 0 { // 0 is not in W: ‖P(0) − w‖ ≤ 2r
			q.Radius = 2 * r
		}
	}
	q.Constants = p.Loss.Constants(p.Data.Bounds(), r)
	return q, nil
}

// start returns the projection of 0 onto W.
func start(set prox.Set, d int) []float64 {
	w := make([]float64, d)
	if set != nil {
		set.Prox(w, w, 1)
	}
	return w
}
