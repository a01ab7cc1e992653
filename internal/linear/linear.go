// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package linear has the mathematics of linear perturbation: a bound on the privacy loss of the
// exact minimizer over C of
//
//	J(θ) = Σᵢ ℓ(θ;aᵢ,bᵢ) + r(θ) + (Δ/2)‖θ‖² + ⟨b,θ⟩
//
// and the least noise b for a budget. Call New, then Best for the automatic Δ, At for the noise,
// Joint to include output noise, and Prove to prove the result by intervals. A Sequence composes
// several minimizers.
//
// Package lop lists the theorems, which docs/theory/linear.md and docs/theory/renyi.md prove; At
// takes the least noise of all that apply, of the list of bounds in bound.go:
//
//	curve.go     lop.curve, lop.monotone, lop.joint: gradient and curvature apart, any rank
//	envelope.go  lop.envelope, lop.envelope-replace: both of a record together, losses of ⟨a,θ⟩
//	renyi.go     lop.renyi: curvature in second order, any rank
//	simplex.go   lop.simplex: the multinomial loss
//	persons.go   lop.persons: several rows of a person
//
// Letters are those of docs/theory/README.md, and
//
//	c      Noise.C = ρ log1p(β/μ), the most that curvature costs
//	s, u   G/σ or L/σ, its inverse
//	q      dimension of the change of the gradient
//	e₁     ε − c, or the ε of the first step of a leg
//	r₀     (e₁ − s²/2)/s
//	p      norm of a record's gradient in units of L
//	h      the largest curvature of a record at p; κ = log1p(h/μ)
//	o      2R/σ_out of a Gaussian output noise that hides 2R
//
// # References
//
//	[CMS11]   Chaudhuri, Monteleoni, Sarwate. Differentially Private Empirical
//	          Risk Minimization. JMLR 2011.
//	[KST12]   Kifer, Smith, Thakurta. Private Convex Empirical Risk
//	          Minimization and High-dimensional Regression. COLT 2012.
//	[RKW23]   Redberg, Koskela, Wang. Improving the Privacy and Practicality of
//	          Objective Perturbation for Differentially Private Linear
//	          Learners. NeurIPS 2023.
package linear

import (
	"errors"
	"fmt"
	"math"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/loss"
)

// ErrProblem reports a field of Problem or Bound, or a ridge, outside its range.
var ErrProblem = errors.New("invalid mechanism")

// Calibration chooses the constants of the noise.
type Calibration int

const (
	// Sharp takes the tightest bound that is proved.
	Sharp Calibration = iota
	// Kifer takes the published constants of [KST12], with G = 2L under Replace instead of the L in
	// the paper, for which there is no proof.
	Kifer
	// CMS11 takes the published constants of [CMS11], for a pure budget.
	CMS11
)

// Identifiers of the theorems, see package lop.
const (
	TheoremCurve           = "lop.curve/2"
	TheoremMonotone        = "lop.monotone/2"
	TheoremEnvelope        = "lop.envelope/1"
	TheoremEnvelopeReplace = "lop.envelope-replace/1"
	TheoremRenyi           = "lop.renyi/1"
	TheoremSimplex         = "lop.simplex/2"
	TheoremJoint           = "lop.joint/2"
	TheoremPure            = "lop.pure/2"
	TheoremEnvelopePure    = "lop.envelope-pure/1"
	TheoremKifer           = "lop.kifer/2"
	TheoremKiferPure       = "lop.kifer-pure/2"
	TheoremCMS11           = "lop.cms11/2"
	TheoremPersons         = "lop.persons/1"
	TheoremPersonsPure     = "lop.persons-pure/1"
)

// A Problem has everything that the noise depends on: public quantities, never a record.
type Problem struct {
	// Dim is d ≥ 1, the number of parameters.
	Dim int
	// Constants of one record's loss on ℝᵈ, or for the structures LSQ and GLM on C:
	// docs/theory/linear.md#linear.extend.
	Constants loss.Constants
	// Modulus is μ_r ≥ 0, the modulus of strong convexity of the regularizer.
	Modulus float64
	// Relation of neighboring data sets, a valid one.
	Relation dp.Relation
	// Budget of the exact minimizer, without the share of the output noise.
	Budget dp.Budget
	// Calibration is Sharp, Kifer or CMS11.
	Calibration Calibration
	// Envelope returns an upper bound on the curvature of a record whose gradient has a norm
	// between lo and hi, see loss.Envelope; nil means the Smoothness. Only for losses of ⟨a,θ⟩.
	Envelope func(lo, hi float64) float64
	// Classes is the number of classes of loss.Multinomial, 0 for other losses.
	Classes int
	// Monotone says that the sign of φ′ is fixed for each record (loss.Constants.Monotone). Only for
	// losses of ⟨a,θ⟩.
	Monotone bool
	// Rows is the most rows of a person, whose loss is Σ wᵢφᵢ with Σ wᵢ ≤ 1; Constants, Envelope and
	// Monotone are those of one row without its weight. 0 means that a unit is one record, and 1 that
	// it is a person with one row of weight 1, for whom the same noise is enough.
	Rows int
}

// check refuses constants for which no noise is enough. erm.Public.Complete has checked Dim and
// Relation.
func (p Problem) check() error {
	k := p.Constants
	switch {
	case !(p.Modulus >= 0) || math.IsInf(p.Modulus, 1):
		return fmt.Errorf("%w: Modulus = %v, want a finite number ≥ 0", ErrProblem, p.Modulus)
	case p.Calibration < Sharp || p.Calibration > CMS11:
		return fmt.Errorf("%w: Calibration = %d, want Sharp, Kifer or CMS11", ErrProblem, int(p.Calibration))
	case p.Rows < 0 || p.Rows > mostRows:
		return fmt.Errorf("%w: Rows = %d, want at most 2³⁰ rows of a person, or 0 if a unit is one record", ErrProblem,
			p.Rows)
	case p.Rows > 1 && p.Calibration != Sharp:
		return fmt.Errorf("%w: Rows = %d: the published constants are about records; use Sharp for persons with several rows",
			dp.ErrCondition, p.Rows)
	}
	if err := p.Budget.Check(); err != nil {
		return err
	}
	for _, c := range []struct {
		name  string
		value float64
	}{{"Lipschitz", k.Lipschitz}, {"Smoothness", k.Smoothness}} {
		if !(c.value > 0) || math.IsInf(c.value, 1) {
			return fmt.Errorf("%w: the loss has %s = %v, want a positive finite number", dp.ErrCondition, c.name, c.value)
		}
	}
	switch k.Structure {
	case loss.LSQ, loss.GLM:
	case loss.FixedRange, loss.General:
		if k.Rank < 1 {
			return fmt.Errorf("%w: the loss declares Rank = %d (unknown), want at least 1; Dim = %d always holds",
				dp.ErrCondition, k.Rank, p.Dim)
		}
	default:
		return fmt.Errorf("%w: the loss declares %v, want LSQ, GLM, FixedRange or General", dp.ErrCondition, k.Structure)
	}
	return nil
}

// Safety margins, far above the rounding errors that they cover and far below 1e-6, the most by
// which constants may exceed their exact values.
const (
	// SafeScale multiplies noise scales: closed forms and quadratures of log δ are correct to 1e-10,
	// which changes s by less than 1e-11.
	SafeScale = 1 + 1e-9
	// SafeC multiplies c: a few units in the last place.
	SafeC = 1 + 0x1p-50
	// safeDelta multiplies δ and Rényi divergences: quadratures are correct to 1e-10.
	safeDelta = 1 + 1e-9
)

// A Calibrator has everything that does not depend on Δ.
type Calibrator struct {
	p     Problem
	g     float64 // G
	rank  float64 // ρ of the determinant, ≤ d
	fixed int     // dimension of the subspace that holds one record's gradient: ρ if it does not move with θ, else d
	chi   Chi     // without c and s
}

// New checks everything that does not depend on Δ. The error wraps ErrProblem, dp.ErrBudget, or
// dp.ErrCondition for a loss that the calibration does not cover. It names no package.
func New(p Problem) (*Calibrator, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	k := &Calibrator{p: p, g: p.Constants.Lipschitz}
	rho := p.Constants.Rank
	k.fixed = rho
	switch p.Constants.Structure {
	case loss.LSQ, loss.GLM:
		rho, k.fixed = 1, 1
	case loss.General:
		k.fixed = p.Dim
	}
	rho, k.fixed = min(rho, p.Dim), min(k.fixed, p.Dim)
	k.rank = float64(rho)
	k.chi.Q = k.fixed
	if p.Relation == dp.Replace {
		k.g *= 2
		k.chi.Q = min(2*k.fixed, p.Dim)
		k.chi.Paired = k.fixed == 1 && p.Dim > 1
	}
	if k.persons() {
		k.several()
	}
	k.chi.Monotone = p.Monotone && !k.persons() && p.Relation == dp.AddRemove && p.Calibration == Sharp

	pure := p.Budget.Delta == 0
	switch {
	case p.Calibration == CMS11 && !pure:
		return nil, fmt.Errorf("%w: Calibration CMS11 is pure, want Budget.Delta = 0, got %v", dp.ErrCondition,
			p.Budget.Delta)
	case p.Calibration == CMS11 && rho > 1:
		return nil, fmt.Errorf("%w: Calibration CMS11 holds for Rank 1, the loss declares %v; use Sharp", dp.ErrCondition,
			rho)
	case p.Calibration == Kifer && !pure && k.chi.Q > 2:
		return nil, fmt.Errorf("%w: Calibration Kifer holds where the gradient changes in at most 2 dimensions, here %d; "+
			"use Sharp", dp.ErrCondition, k.chi.Q)
	case p.Classes != 0 && (p.Classes < 2 || p.Constants.Structure != loss.FixedRange || p.Constants.Rank < p.Classes-1):
		return nil, fmt.Errorf("%w: Classes = %d needs the constants of loss.Multinomial with at least 2 classes, got "+
			"structure %v of rank %d", dp.ErrCondition, p.Classes, p.Constants.Structure, p.Constants.Rank)
	case (p.Monotone || p.Envelope != nil) && k.fixed != 1:
		return nil, fmt.Errorf("%w: Monotone and Envelope need a loss of ⟨a,θ⟩, got structure %v", dp.ErrCondition,
			p.Constants.Structure)
	}
	return k, nil
}

// Noise is the least noise that is proved at one Δ.
type Noise struct {
	Ridge   float64 // Δ
	Sigma   float64 // standard deviation σ of every coordinate of b; 0 unless Gaussian
	Rate    float64 // a in the density ∝ exp(−a‖b‖₂) of b; 0 unless pure
	C       float64 // c
	S       float64 // s = G/σ; 0 unless Gaussian
	Theorem string

	// Curve of the exact minimizer; meaningless unless Gaussian.
	Curve Curve

	dim int
	leg *leg // a good one for replacing a record; nil if none was searched for
}

// Square returns E‖b‖²: dσ² or d(d+1)/a².
func (b Noise) Square() float64 {
	d := float64(b.dim)
	if b.Rate > 0 {
		return d * (d + 1) / (b.Rate * b.Rate)
	}
	return d * b.Sigma * b.Sigma
}

// At returns the noise at the ridge Δ. The error wraps ErrProblem for a Δ that is no finite number
// ≥ 0, or, where no noise is enough, dp.ErrCondition with the least Δ that would do.
func (k *Calibrator) At(ridge float64) (Noise, error) {
	if !(ridge >= 0) || math.IsInf(ridge, 1) {
		return Noise{}, fmt.Errorf("%w: Ridge = %v, want a finite number ≥ 0", ErrProblem, ridge)
	}
	mu, eps := ridge+k.p.Modulus, k.p.Budget.Epsilon
	if k.p.Calibration == Kifer && !(mu*(1+1e-14) >= k.leastModulus(1)) {
		return Noise{}, fmt.Errorf("%w: Ridge = %v, Calibration Kifer at ε = %v needs Ridge ≥ 2ρβ/ε − μ_r = %v",
			dp.ErrCondition, ridge, eps, k.LeastRidge(1))
	}
	if c := k.curvature(mu); !(c < eps) {
		return Noise{}, fmt.Errorf("%w: Ridge = %v gives c = %v ≥ ε = %v of the objective, so no noise is enough; want "+
			"Ridge > %v, or 0 for automatic", dp.ErrCondition, ridge, c, eps, k.LeastRidge(1))
	}
	b := k.noise(mu, nil)
	b.Ridge = ridge
	return b, nil
}

// curvature returns c for modulus μ, a bound on the logarithm of the ratio of determinants:
//
//	ρ log1p(β/μ)       docs/theory/linear.md#linear.det
//	2 log1p(β/μ)       [CMS11]
func (k *Calibrator) curvature(mu float64) float64 {
	if k.persons() {
		return k.personCurvature(mu)
	}
	rho := k.rank
	if k.p.Calibration == CMS11 {
		rho = 2
	}
	c := rho * math.Log1p(k.p.Constants.Smoothness/mu) * SafeC
	if m := k.simplex(mu); m != nil {
		c = min(c, m.curvature(m.peak))
	}
	return c
}

// leastModulus returns the least μ for which c ≤ share·ε, the inverse of curvature. Kifer's theorem
// fixes it at 2ρβ/ε, which gives c ≤ ε/2.
func (k *Calibrator) leastModulus(share float64) float64 {
	eps, beta := k.p.Budget.Epsilon, k.p.Constants.Smoothness
	switch k.p.Calibration {
	case Kifer:
		return 2 * k.rank * beta / eps
	case CMS11:
		return beta / math.Expm1(share*eps/2) * SafeC
	}
	if k.persons() {
		return k.leastPersonModulus(share * eps)
	}
	least := beta / math.Expm1(share*eps/k.rank) * SafeC
	if k.simplex(least) != nil {
		least, _ = num.Bisect(func(mu float64) bool { return k.curvature(mu) <= share*eps }, least*(1+1e-9), 0)
	}
	return least
}

// LeastRidge returns the least Δ ≥ 0 at which c ≤ share·ε, or which the published constants of
// Kifer need.
func (k *Calibrator) LeastRidge(share float64) float64 {
	return max(0, k.leastModulus(share)-k.p.Modulus)
}

// noise returns the noise b for modulus μ:
//
//	pure   a = (ε − c)/G,  Kifer a = ε/(2G)
//	Kifer  σ = G √(8 ln(2/δ) + 4ε)/ε            [KST12], G = 2L under Replace
//	Sharp  σ = G/s, the largest s with curve(ε; s, c) ≤ δ
//
// or less by a better bound. With a guess the noise is not certified and has no Curve, for the
// search for Δ only.
func (k *Calibrator) noise(mu float64, from *guess) Noise {
	eps, delta := k.p.Budget.Epsilon, k.p.Budget.Delta
	l, replace := k.p.Constants.Lipschitz, k.p.Relation == dp.Replace
	b := Noise{C: k.curvature(mu), dim: k.p.Dim}
	switch {
	case delta == 0:
		b.Rate, b.Theorem = (eps-b.C)/k.g/SafeScale, TheoremPure
		switch {
		case k.p.Calibration == Kifer:
			b.Rate, b.Theorem = eps/(2*k.g)/SafeScale, TheoremKiferPure
		case k.p.Calibration == CMS11:
			b.Theorem = TheoremCMS11
		case k.fixed == 1:
			if rate := k.scalar(mu).rate(eps, replace, from == nil) / l / SafeScale; rate > b.Rate {
				b.Rate, b.Theorem = rate, TheoremEnvelopePure
			}
		}
		if k.persons() {
			b.Theorem = TheoremPersonsPure
		}
		return b
	case k.p.Calibration == Kifer:
		b.Sigma, b.Theorem = k.g*math.Sqrt(8*(math.Ln2-num.Log(delta))+4*eps)/eps*SafeScale, TheoremKifer
		return k.with(b, mu)
	}
	switch {
	case k.fixed == 1 && k.persons():
		b.Sigma, b.Theorem = l*k.scalar(mu).enough(eps, delta, replace), TheoremPersons
	case k.chi.Monotone:
		b.Sigma, b.Theorem = k.g*k.chi.leastNoise(eps-b.C, delta, from)*SafeScale, TheoremMonotone
	default:
		b.Sigma, b.Theorem = k.g*k.chi.leastNoise(eps-b.C, delta, from)*SafeScale, TheoremCurve
	}
	return k.better(b, mu, k.p.Budget, 0, from)
}
