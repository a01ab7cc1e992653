// Package linear is the privacy of a linear perturbation: what the exact
// minimizer over C of
//
//	J(θ) = Σᵢ ℓ(θ;aᵢ,bᵢ) + r(θ) + (Δ/2)‖θ‖² + ⟨b,θ⟩
//
// tells about one record, and the least noise b that keeps it in a budget.
// Mechanisms differ in the bound on their risk that they minimize over Δ, and
// call New, then Best or At.
//
// # Theorems
//
// Package lop lists them. At takes the least noise of all that apply; New and At
// check what they need. The envelope theorems are about
//
//	lop.envelope/1          max(sup_p δ_G(ε−κ(p), pL/σ), δ_add(ε))
//	lop.envelope-replace/1  the least over e₁ of lop.envelope/1 taken twice,
//	                        through the data set with or without both records
//	lop.envelope-pure/1     aL = min_p (ε−κ(p))/p, Replace (ε−κ(p))/(1+p)
//	lop.renyi/1             the first two with a removal that counts curvature in second
//	                        order, for losses without an envelope where β/μ is large
//
// Adding costs no curvature: δ_add(ε) = δ_G(ε, L/σ) where the sign of φ′ is fixed
// and 2δ_G(ε, L/σ) else. Losses of ⟨a,θ⟩ have one scalar derivative; with an envelope
// (loss.Envelope) κ(p) is small where p is large, so that curvature costs nothing
// from Δ ≈ 1/ε on, 2/ε under Replace. Proofs: docs/theory/linear.md.
//
// # Notation
//
//	d        Problem.Dim
//	L, β, ρ  loss.Constants.Lipschitz, Smoothness, Rank
//	G        2L under Replace, L under AddRemove
//	Δ        the ridge, weight of (Δ/2)‖θ‖²
//	μ_r, μ   Problem.Modulus, modulus of strong convexity of r; Δ + μ_r
//	b        the perturbation, N(0, σ²I) or of density ∝ exp(−a‖b‖)
//	σ, a     Noise.Sigma, Noise.Rate
//	c        Noise.C = ρ log1p(β/μ), the most that curvature costs
//	s, u     G/σ, its inverse
//	χ_q, N   norm of a standard normal vector of ℝ^q; a standard normal
//	e₁, r₀   ε − c; (ε − c − s²/2)/s
//	p, h, κ  norm of a record's gradient in units of L; the largest curvature of a
//	         record at p; log1p(h/μ) ≤ c
//	o        2R/σ_out of a Gaussian output noise that hides 2R
//	δ_G(ε,s) the analytic Gaussian, dp.GaussianDelta
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
// Mechanisms wrap it in an error of their own. Test with errors.Is.
var ErrProblem = errors.New("invalid mechanism")

// Calibration chooses the constants of the noise.
type Calibration int

const (
	// Sharp takes the tightest bound that is proved.
	Sharp Calibration = iota
	// Kifer takes the published constants of [KST12], with G = 2L under
	// Replace where the paper prints L: no proof covers the printed ones.
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
	TheoremSimplex         = "lop.simplex/1"
	TheoremJoint           = "lop.joint/2"
	TheoremPure            = "lop.pure/2"
	TheoremEnvelopePure    = "lop.envelope-pure/1"
	TheoremKifer           = "lop.kifer/2"
	TheoremKiferPure       = "lop.kifer-pure/2"
	TheoremCMS11           = "lop.cms11/2"
)

// A Problem is all that the noise depends on: public quantities, never a record.
type Problem struct {
	// Dim is d ≥ 1, the number of parameters.
	Dim int
	// Constants of one record's loss. They must hold on ℝᵈ; for the structures
	// LSQ and GLM on the constraint set is enough, because φ can be continued
	// linearly beyond it without changing the constrained minimizer.
	Constants loss.Constants
	// Modulus is μ_r ≥ 0, the modulus of strong convexity of the regularizer.
	Modulus float64
	// Relation of neighboring data sets, a valid one.
	Relation dp.Relation
	// Budget of the exact minimizer, without the share of the output noise.
	Budget dp.Budget
	// Calibration is Sharp, Kifer or CMS11.
	Calibration Calibration
	// Envelope returns an upper bound on the curvature of a record whose gradient
	// has a norm between lo and hi, see loss.Envelope; nil means the Smoothness. Only
	// a loss of ⟨a,θ⟩ has one.
	Envelope func(lo, hi float64) float64
	// Classes, if positive, says that the loss is loss.Multinomial with as many
	// classes, whose gradients are differences from the simplex.
	Classes int
	// Monotone says that the loss declares that the sign of φ′ is fixed for each
	// record (loss.Constants.Monotone). Only a loss of ⟨a,θ⟩ may.
	Monotone bool
}

// check refuses constants that no noise could be scaled by; erm.Public.Complete checked Dim and Relation.
func (p Problem) check() error {
	k := p.Constants
	switch {
	case !(p.Modulus >= 0) || math.IsInf(p.Modulus, 1):
		return fmt.Errorf("%w: Modulus = %v, want a finite number ≥ 0", ErrProblem, p.Modulus)
	case p.Calibration < Sharp || p.Calibration > CMS11:
		return fmt.Errorf("%w: Calibration = %d, want Sharp, Kifer or CMS11", ErrProblem, int(p.Calibration))
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
			return fmt.Errorf("%w: the loss declares Rank = %d (unknown), want at least 1; Dim = %d always holds", dp.ErrCondition, k.Rank, p.Dim)
		}
	default:
		return fmt.Errorf("%w: the loss declares %v, want LSQ, GLM, FixedRange or General", dp.ErrCondition, k.Structure)
	}
	return nil
}

// Safety margins, all far below the 1e-6 that constants may exceed their exact
// values by, and far above the rounding errors they cover.
const (
	// SafeScale multiplies noise scales: closed forms and quadratures of log δ
	// are correct to 1e-12, which moves s by less than that.
	SafeScale = 1 + 1e-9
	// SafeC multiplies c: a few units in the last place.
	SafeC = 1 + 0x1p-50
	// safeDelta multiplies δ and Rényi divergences: quadratures are correct to 1e-10.
	safeDelta = 1 + 1e-9
)

// A Calibrator knows all that is fixed before Δ is chosen.
type Calibrator struct {
	p     Problem
	g     float64 // G, the most that a neighbor changes the sum of gradients
	rank  float64 // ρ of the determinant, ≤ d
	fixed int     // dimension of the subspace that holds one record's gradient: ρ if it does not move with θ, d always
	chi   Chi     // all but c and s
}

// New checks everything that does not depend on Δ. The error wraps ErrProblem,
// dp.ErrBudget, or dp.ErrCondition for a loss that the
// calibration does not cover; it names no package.
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
	k.chi.Monotone = p.Monotone && p.Relation == dp.AddRemove && p.Calibration == Sharp

	pure := p.Budget.Delta == 0
	switch {
	case p.Calibration == CMS11 && !pure:
		return nil, fmt.Errorf("%w: Calibration CMS11 is pure, want Budget.Delta = 0, got %v", dp.ErrCondition, p.Budget.Delta)
	case p.Calibration == CMS11 && rho > 1:
		return nil, fmt.Errorf("%w: Calibration CMS11 holds for Rank 1, the loss declares %v; use Sharp", dp.ErrCondition, rho)
	case p.Calibration == Kifer && !pure && k.chi.Q > 2:
		return nil, fmt.Errorf("%w: Calibration Kifer holds where the gradient changes in at most 2 dimensions, here %d; "+
			"use Sharp", dp.ErrCondition, k.chi.Q)
	case p.Classes != 0 && (p.Classes < 2 || p.Constants.Structure != loss.FixedRange || p.Constants.Rank < p.Classes-1):
		return nil, fmt.Errorf("%w: Classes = %d needs the constants of loss.Multinomial with at least 2 classes, got "+
			"structure %v of rank %d", dp.ErrCondition, p.Classes, p.Constants.Structure, p.Constants.Rank)
	case (p.Monotone || p.Envelope != nil) && k.fixed != 1:
		return nil, fmt.Errorf("%w: Monotone and Envelope need a loss of ⟨a,θ⟩, got structure %v", dp.ErrCondition, p.Constants.Structure)
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
}

// Square returns E‖b‖²: dσ² or d(d+1)/a².
func (b Noise) Square() float64 {
	d := float64(b.dim)
	if b.Rate > 0 {
		return d * (d + 1) / (b.Rate * b.Rate)
	}
	return d * b.Sigma * b.Sigma
}

// At returns the noise at the ridge Δ. The error wraps ErrProblem for a Δ that
// is no finite number ≥ 0, and dp.ErrCondition, with the least Δ that would do,
// where no noise is enough.
func (k *Calibrator) At(ridge float64) (Noise, error) {
	if !(ridge >= 0) || math.IsInf(ridge, 1) {
		return Noise{}, fmt.Errorf("%w: Ridge = %v, want a finite number ≥ 0", ErrProblem, ridge)
	}
	mu, eps := ridge+k.p.Modulus, k.p.Budget.Epsilon
	if k.p.Calibration == Kifer && !(mu*(1+1e-14) >= k.leastModulus(1)) {
		return Noise{}, fmt.Errorf("%w: Ridge = %v, Calibration Kifer at ε = %v needs Ridge ≥ 2ρβ/ε − μ_r = %v", dp.ErrCondition,
			ridge, eps, k.LeastRidge(1))
	}
	if c := k.curvature(mu); !(c < eps) {
		return Noise{}, fmt.Errorf("%w: Ridge = %v gives c = %v ≥ ε = %v of the objective, so no noise is enough; want "+
			"Ridge > %v, or 0 for automatic",
			dp.ErrCondition, ridge, c, eps, k.LeastRidge(1))
	}
	b := k.noise(mu, nil)
	b.Ridge = ridge
	return b, nil
}

// curvature returns c for modulus μ = Δ + μ_r, the bound on the logarithm of
// the ratio of determinants:
//
//	ρ log1p(β/μ)       one-sided: det(H₀+A) ≤ det(H₀)(1+β/μ)^ρ, det ≥ det(H₀)
//	2 log1p(β/μ)       [CMS11]
func (k *Calibrator) curvature(mu float64) float64 {
	rho := k.rank
	if k.p.Calibration == CMS11 {
		rho = 2
	}
	c := rho * math.Log1p(k.p.Constants.Smoothness/mu) * SafeC
	if m := k.simplex(mu); m != nil {
		c = min(c, m.hull.c)
	}
	return c
}

// leastModulus returns the least Δ + μ_r for which c ≤ share·ε; the inverse of
// curvature. Kifer's theorem fixes it at 2ρβ/ε, which gives c ≤ ε/2.
func (k *Calibrator) leastModulus(share float64) float64 {
	eps, beta := k.p.Budget.Epsilon, k.p.Constants.Smoothness
	switch k.p.Calibration {
	case Kifer:
		return 2 * k.rank * beta / eps
	case CMS11:
		return beta / math.Expm1(share*eps/2) * SafeC
	}
	least := beta / math.Expm1(share*eps/k.rank) * SafeC
	if k.simplex(least) != nil {
		least, _ = num.Bisect(func(mu float64) bool { return k.curvature(mu) <= share*eps }, least*(1+1e-9), 0)
	}
	return least
}

// LeastRidge returns the least Δ ≥ 0 at which c ≤ share·ε, or that the published
// constants of Kifer need.
func (k *Calibrator) LeastRidge(share float64) float64 {
	return max(0, k.leastModulus(share)-k.p.Modulus)
}

// noise returns the noise b for modulus μ = Δ + μ_r; c < ε is the caller's.
//
//	pure   a = (ε − c)/G,  Kifer a = ε/(2G)
//	Kifer  σ = G √(8 ln(2/δ) + 4ε)/ε            [KST12], G = 2L under Replace
//	Sharp  σ = G/s, the largest s with curve(ε; s, c) ≤ δ
//
// Sharp takes the smallest of this noise, that of gradient and curvature counted
// together, and that of removal by Rényi divergence, where a record has one scalar derivative. From a guess it is not certified
// and good for a search only.
func (k *Calibrator) noise(mu float64, from *guess) Noise {
	eps, delta := k.p.Budget.Epsilon, k.p.Budget.Delta
	b := Noise{C: k.curvature(mu), dim: k.p.Dim}
	replace := k.p.Relation == dp.Replace
	tied := k.tied(mu)
	if k.p.Calibration != Sharp {
		tied = nil
	}
	if delta == 0 {
		b.Rate, b.Theorem = (eps-b.C)/k.g/SafeScale, TheoremPure
		switch {
		case k.p.Calibration == Kifer:
			b.Rate, b.Theorem = eps/(2*k.g)/SafeScale, TheoremKiferPure
		case k.p.Calibration == CMS11:
			b.Theorem = TheoremCMS11
		case tied != nil:
			if rate := tied.rate(eps, replace, from == nil) / k.p.Constants.Lipschitz / SafeScale; rate > b.Rate {
				b.Rate, b.Theorem = rate, TheoremEnvelopePure
			}
		}
		return b
	}
	if k.p.Calibration == Kifer {
		b.Sigma, b.Theorem = k.g*math.Sqrt(8*(math.Ln2-num.Log(delta))+4*eps)/eps*SafeScale, TheoremKifer
	} else {
		b.Sigma, b.Theorem = k.g*k.chi.LeastNoise(eps-b.C, delta)*SafeScale, TheoremCurve
		if k.chi.Monotone {
			b.Theorem = TheoremMonotone
		}
	}
	if tied != nil {
		l := k.p.Constants.Lipschitz
		var sigma float64
		theorem := TheoremEnvelope
		if replace {
			theorem = TheoremEnvelopeReplace
		}
		if from == nil {
			u, renyi := tied.leastNoise(eps, 0, num.Log(delta), b.Sigma/l, replace)
			if sigma = l * u; renyi {
				theorem = TheoremRenyi
			}
		} else {
			if from.u == 0 {
				from.u = b.Sigma / l
			}
			sigma = l * tied.searchNoise(eps, 0, num.Log(delta), b.Sigma/l, from, replace, 1e-8)
		}
		if sigma < b.Sigma {
			b.Sigma, b.Theorem = sigma, theorem
		}
	}
	if m := k.simplex(mu); m != nil && from == nil { // too slow for a search over Δ
		x := k.p.Constants.Lipschitz / math.Sqrt2
		if sigma := x * m.leastNoise(eps, num.Log(delta), b.Sigma/x, replace); sigma < b.Sigma {
			b.Sigma, b.Theorem = sigma, TheoremSimplex
		}
	}
	if m := k.spectrum(mu); m != nil && from == nil {
		if sigma := k.g * m.leastNoise(eps, num.Log(delta), 0); sigma < b.Sigma*(1-1e-6) {
			b.Sigma, b.Theorem = sigma, TheoremRenyi
		}
	}
	b.S = k.g / b.Sigma
	b.Curve = k.curve(mu, b.Sigma)
	return b
}

// tied returns the curve of gradient and curvature together, nil where a record has
// more than one scalar derivative.
func (k *Calibrator) tied(mu float64) *tied {
	if k.fixed != 1 {
		return nil
	}
	q := k.p.Constants
	return newTied(q.Lipschitz, mu, q.Smoothness, k.p.Envelope, k.p.Monotone)
}

// simplex returns the curve of the multinomial logistic loss, nil for others. Its L is √2 X.
func (k *Calibrator) simplex(mu float64) *simplex {
	if k.p.Classes == 0 || k.p.Calibration != Sharp {
		return nil
	}
	return newSimplex(k.p.Classes, 2*mu/(k.p.Constants.Lipschitz*k.p.Constants.Lipschitz))
}

// curve returns the curve of the minimizer at noise σ.
func (k *Calibrator) curve(mu, sigma float64) Curve {
	chi := k.chi
	chi.C, chi.S = k.curvature(mu), k.g/sigma
	return Curve{
		chi: chi, tied: k.tied(mu), simplex: k.simplex(mu), spectrum: k.spectrum(mu),
		s: k.p.Constants.Lipschitz / sigma, replace: k.p.Relation == dp.Replace,
	}
}
