// Package lop is linear objective perturbation: it releases the minimizer of a
// regularized empirical risk to which a random linear function was added,
//
//	J(θ) = Σᵢ ℓ(θ;aᵢ,bᵢ) + r(θ) + (Δ/2)‖θ‖² + ⟨b,θ⟩   over θ ∈ C,
//
// with Gaussian b, or b of density ∝ exp(−a‖b‖) for a pure guarantee. Two
// variants share its type Plan: LOP-Clip (Mechanism.Clip), for losses with
// unbounded gradients, and output perturbation (Output), the baseline.
//
// # When to use it
//
// Losses φ(⟨a,θ⟩;b) with bounded φ′ and φ″, in moderate dimension: Mechanism
// with everything automatic. Unbounded φ′, as in least squares: a bounded Set,
// or better Clip, because the noise is proportional to the bound on the
// gradient. Losses that are not of that form: a pure budget, where the
// structure of the gradient does not matter; or Output, which needs neither a
// smooth loss nor any structure. Choose δ well below 1/n.
//
// # What a release is
//
// Computers return points near a minimizer. The released point is θ̂ + ν,
// projected on C: θ̂ is certified to lie within R (Cover) of the minimizer by
// code that shares nothing with the solver, and ν hides differences of 2R. R is
// fixed before any record is read, and ν takes 1 % of the budget (Share). A
// solve that cannot be certified is withheld. That event depends on the
// records and no theorem here covers it: treat it as one more output.
//
// # Theorems
//
//	identifier          statement for θ̂ (add ν)                      needs
//	lop.curve/1         loss ≤ c + s²/2 + sχ_q, sharp curve           smooth loss, δ > 0
//	lop.monotone/1      loss ≤ c + max(0, s²/2 + sN)                  the same, AddRemove, sign of φ′ fixed per record
//	lop.kifer/1         σ = G√(8 ln(2/δ)+4ε)/ε, Δ ≥ 2ρβ/ε [KST12]     the same, q ≤ 2; G = 2L under Replace
//	lop.joint/1         θ̂ and ν in one curve                          as lop.curve/1
//	lop.pure/1          a = (ε−c)/G, c = ρ log1p(β/Δ)                 smooth loss, δ = 0
//	lop.cms11/1         a = (ε−c)/G, c = 2 log1p(β/Δ) [CMS11]         smooth loss, ρ = 1, δ = 0
//	lop.kifer-pure/1    a = ε/(2G), Δ ≥ 2ρβ/ε [KST12]                 smooth loss, δ = 0
//	lop.output/1        Gaussian ν hides G/μ + 2R                     bounded gradients, δ > 0
//	lop.output-pure/1   the same, ν of density ∝ exp(−a‖ν‖)           bounded gradients, δ = 0
//
// All hold for every convex C and r that do not depend on the records, by
// approximation with smooth functions on ℝᵈ. "Smooth" means a Lipschitz
// gradient; a Hessian need only exist almost everywhere, so Huber's loss is
// admitted. L, β and ρ must hold on ℝᵈ, or on C for losses φ(⟨a,θ⟩;b).
//
// The Gaussian theorems need the gradient of one record to stay in a subspace
// that does not move with θ, of dimension ρ: the released θ is a function of
// b, so that ⟨b, change of the gradient⟩ is not Gaussian otherwise. A loss that
// promises only a Hessian of low rank is calibrated with q = d.
//
// # Notation
//
//	n, d         records; parameters (Public.Dim)
//	L, β, ρ      loss.Constants.Lipschitz, Smoothness, Rank
//	G            2L under Replace, L under AddRemove
//	b, σ, a      the linear perturbation; Plan.Sigma or Plan.Rate
//	Δ, μ_r, μ    Plan.Delta; Public.Ridge; their sum
//	c            Plan.C = ρ log1p(β/μ), what the curvature costs
//	s, r₀        Plan.S = G/σ; (ε−c−s²/2)/s
//	q            dimension of the change of the gradient: ρ or, under Replace, 2ρ, at most d
//	χ_q, N       norm of a standard normal vector of ℝ^q; a standard normal
//	B            Mechanism.Radius
//	R, ν         Plan.Cover; the output noise
//	o            2R/σ_out
//
// # References
//
//	[BW18]    Balle, Wang. Improving the Gaussian Mechanism for Differential
//	          Privacy. ICML 2018.
//	[CMS11]   Chaudhuri, Monteleoni, Sarwate. Differentially Private Empirical
//	          Risk Minimization. JMLR 2011.
//	[INS+19]  Iyengar, Near, Song, Thakkar, Thakurta, Wang. Towards Practical
//	          Differentially Private Convex Optimization. S&P 2019.
//	[KST12]   Kifer, Smith, Thakurta. Private Convex Empirical Risk
//	          Minimization and High-dimensional Regression. COLT 2012.
//	[RKW23]   Redberg, Koskela, Wang. Improving the Privacy and Practicality of
//	          Objective Perturbation for Differentially Private Linear
//	          Learners. NeurIPS 2023.
package lop

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/loss"
)

// ErrMechanism reports a field of Mechanism, Output, Public or Plan outside
// its range. Test with errors.Is.
var ErrMechanism = errors.New("lop: invalid mechanism")

// Identifiers of the theorems, see the package comment.
const (
	TheoremCurve      = "lop.curve/1"
	TheoremMonotone   = "lop.monotone/1"
	TheoremKifer      = "lop.kifer/1"
	TheoremJoint      = "lop.joint/1"
	TheoremPure       = "lop.pure/1"
	TheoremCMS11      = "lop.cms11/1"
	TheoremKiferPure  = "lop.kifer-pure/1"
	TheoremOutput     = "lop.output/1"
	TheoremOutputPure = "lop.output-pure/1"
)

// Calibration chooses the constants of Mechanism.
type Calibration int

const (
	// Sharp takes the tightest curve that is proved.
	Sharp Calibration = iota
	// Kifer takes the published constants of [KST12], with G = 2L under
	// Replace where the paper prints L: no proof covers the printed ones.
	Kifer
	// CMS11 takes the published constants of [CMS11], for a pure budget.
	CMS11
)

// String returns "sharp", "kifer", "cms11" or a marker of an invalid value.
func (c Calibration) String() string {
	switch c {
	case Sharp:
		return "sharp"
	case Kifer:
		return "kifer"
	case CMS11:
		return "cms11"
	}
	return fmt.Sprintf("invalid calibration %d", int(c))
}

// Mechanism is linear objective perturbation. Its fields are public; the zero
// value means the documented defaults and asks for nothing but a bounded Set
// or a Radius.
type Mechanism struct {
	// Relation of neighboring data sets; 0 means dp.Replace.
	Relation dp.Relation
	// Calibration of the noise; the zero value is Sharp.
	Calibration Calibration
	// Delta is Δ ≥ 0, the weight of (Δ/2)‖θ‖². 0 means automatic: the Δ with
	// the least Plan.ExcessBound; Kifer without a Radius takes 2ρβ/ε − μ_r.
	Delta float64
	// Radius is B ≥ ‖θ₀‖₂, a public guess at the size of the solution that
	// automatic Δ is tuned for. It costs no privacy. 0 means the radius of the
	// problem's Set where that is finite.
	Radius float64
	// Clip, if positive, clips the gradient of every record at this norm, by
	// continuing the loss linearly: loss.Clipped. L is then at most Clip, on ℝᵈ
	// too. Refused for losses that are not loss.Linear.
	Clip float64
	// Monotone uses that the sign of φ′ is fixed for each record, which the loss
	// must declare (loss.Monotone); under AddRemove only. It lowers σ by 3 to 6 %.
	Monotone bool
	// Joint accounts for θ̂ and its output noise in one curve where that lowers
	// σ, which it seldom does by more than 1 %.
	Joint bool
	// Cover is R > 0; 0 means 1e-8·B, or E‖b‖/μ in place of B where that is
	// unknown, and under Replace no less than what rounding in a sum over n
	// records needs.
	Cover float64
	// Share of ε and of δ spent on the output noise, in (0, 1); 0 means 0.01.
	Share float64
	// Trace, if not nil, is called at the end of every solve. Not private: what
	// it receives is a function of the records.
	Trace func(Trace)
}

// Trace is what one solve found, before output noise. Not private: none of it
// may be published.
type Trace struct {
	Theta      []float64 // θ̂, before output noise and projection
	Objective  float64   // J(θ̂)
	Residual   float64   // upper bound on dist(0, ∂J(θ̂))
	Distance   float64   // Residual/μ ≥ ‖θ̂ − argmin J‖₂
	Gap        float64   // Residual²/(2μ) ≥ J(θ̂) − min J
	Iterations int       // of all methods that ran
	Released   bool      // whether Distance ≤ Cover, so that a release followed
}

// check refuses fields that make no sense by themselves.
func (m *Mechanism) check() error {
	switch {
	case m.Calibration < Sharp || m.Calibration > CMS11:
		return fmt.Errorf("%w: Calibration = %d, want Sharp, Kifer or CMS11", ErrMechanism, int(m.Calibration))
	case !(m.Share >= 0 && m.Share < 1):
		return fmt.Errorf("%w: Share = %v, want a number in (0, 1), or 0 for %v", ErrMechanism, m.Share, defaultShare)
	}
	return checkFields(m.Relation, m.Delta, m.Radius, m.Clip, m.Cover)
}

// checkFields refuses what Mechanism and Output have in common.
func checkFields(rel dp.Relation, delta, radius, clip, cover float64) error {
	if err := relation(rel).Check(); err != nil {
		return fmt.Errorf("lop: Relation: %w", err)
	}
	for _, f := range []struct {
		name, zero string
		v          float64
	}{
		{"Delta", "automatic", delta},
		{"Radius", "the radius of Set", radius},
		{"Clip", "no clipping", clip},
		{"Cover", "the default", cover},
	} {
		if !(f.v >= 0) || math.IsInf(f.v, 1) {
			return fmt.Errorf("%w: %s = %v, want a positive finite number, or 0 for %s", ErrMechanism, f.name, f.v, f.zero)
		}
	}
	return nil
}

// defaultShare of the budget goes to the output noise.
const defaultShare = 0.01

func share(s float64) float64 {
	if s == 0 {
		return defaultShare
	}
	return s
}

// relation reads an unset relation as Replace.
func relation(r dp.Relation) dp.Relation {
	if r == 0 {
		return dp.Replace
	}
	return r
}

// errRadius is what automatic Δ says without a length scale.
var errRadius = fmt.Errorf("%w: automatic Delta needs a length scale: set Radius to a public guess B ≥ ‖θ₀‖₂, or declare a bounded Set, or set Delta", ErrMechanism)

// Fit releases an approximate minimizer of p under the budget b: it plans,
// draws b, solves, certifies, adds the output noise and projects on the Set.
//
// src feeds the noise; nil means noise.Secure(), anything else adds the
// assumption dp.CallerSource. Equal sources give equal results. The error
// wraps what Plan's or Plan.Fit's does. Fit panics if ctx is nil.
func (m *Mechanism) Fit(ctx context.Context, p *erm.Problem, b dp.Budget, src rand.Source) (*dp.Release, error) {
	plan, err := m.plan(fault.From(ctx), p, b)
	if err != nil {
		return nil, err
	}
	return plan.Fit(ctx, p, src)
}

// Plan calibrates for p: it reads dimensions, declared bounds, loss,
// regularizer and set, and no record. A Plan serves any number of fits.
//
// Errors are those of Calibrate, or wrap erm.ErrProblem for a problem that
// does not fit together or that cannot be certified.
func (m *Mechanism) Plan(p *erm.Problem, b dp.Budget) (*Plan, error) { return m.plan(nil, p, b) }

func (m *Mechanism) plan(f *fault.Set, p *erm.Problem, b dp.Budget) (*Plan, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	p, err := clipped(p, m.Clip)
	if err != nil {
		return nil, err
	}
	if m.Monotone {
		if err := monotone(p.Loss); err != nil {
			return nil, err
		}
	}
	return m.calibrate(f, public(p, relation(m.Relation), m.Radius, b, false))
}

// monotone returns an error unless l declares that the sign of φ′ is fixed.
func monotone(l loss.Loss) error {
	if l, ok := l.(loss.Monotone); ok && l.Monotone() {
		return nil
	}
	return fmt.Errorf("lop: %w: Monotone, but %T does not declare that the sign of φ′ is fixed for each record", dp.ErrCondition, l)
}

// clipped returns p, checked, with its loss clipped at threshold if that is
// positive.
func clipped(p *erm.Problem, threshold float64) (*erm.Problem, error) {
	if err := p.Certifiable(); err != nil {
		return nil, fmt.Errorf("lop: %w", err)
	}
	if threshold == 0 {
		return p, nil
	}
	l, err := loss.NewClipped(p.Loss, threshold)
	if err != nil {
		return nil, fmt.Errorf("lop: %w: Clip: %w", dp.ErrCondition, err)
	}
	q := *p
	q.Loss = l
	return &q, nil
}

// public returns what may be known of a problem that passed its check. onSet
// tells that constants on the set are enough whatever the structure.
func public(p *erm.Problem, rel dp.Relation, radius float64, b dp.Budget, onSet bool) Public {
	n, d := p.Data.Dims()
	q := Public{Dim: d, Radius: radius, Budget: b, Ridge: erm.NewUnperturbed(p).Modulus()}
	if rel == dp.Replace {
		q.Records = n
	}
	r := math.Inf(1)
	if p.Set != nil {
		r = p.Set.Radius(d)
	}
	if q.Radius == 0 && !math.IsInf(r, 1) {
		q.Radius = r
	}
	q.Constants = p.Loss.Constants(p.Data.Bounds(), r)
	if s := q.Constants.Structure; s != loss.LSQ && s != loss.GLM && !onSet {
		q.Constants = p.Loss.Constants(p.Data.Bounds(), math.Inf(1))
	}
	return q
}
