// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package qop is quadratic objective perturbation: it releases the minimizer of a regularized
// empirical risk to which a random curvature around a public anchor θ̃ was added,
//
//	J(θ) = Σᵢ ℓ(θ;aᵢ,bᵢ) + r(θ) + (σ²/2)(θ−θ̃)'W(θ−θ̃)   over θ ∈ C,
//
// with a Wishart matrix W = GG', G d×m standard normal [CC26]. Call [Mechanism.Fit]:
//
//	box := prox.Box{Lo: -1, Hi: 1}
//	p := &erm.Problem{Data: data, Loss: loss.Squared{}, Reg: prox.L1{Weight: 30}, Set: box}
//	m := &qop.Mechanism{
//		Center:        []float64{1, -2},    // θ̃, public
//		Interpolation: qop.Tilt{Clip: 0.5}, // the rule for records that θ̃ does not fit
//	}
//	rel, err := m.Fit(ctx, p, dp.Budget{Epsilon: 1, Delta: 1e-6}, nil)
//
// # When it is meaningful, and when the anchor is the better answer
//
// The published privacy of QOP rests on interpolation: one public point θ* at which the gradient of
// every record that could occur vanishes. No table has one. [Tilt] makes θ̃ such a point, exactly
// and for every record, by releasing the sum of the slopes there with noise; it is for tables, and
// the rest of this section is about the other rules. The noise then does not grow with the diameter
// of C or with the size of gradients, unlike that of linear perturbation. But θ* is already a
// minimizer of Σᵢℓ. With r = 0 and θ* ∈ C it is the exact output: publish the anchor and read no
// record. QOP is useful only if a regularizer or a set moves the solution away from θ*, and the
// records decide how far.
// At small n the added curvature σ²m outweighs the curvature of the records, and the output is the
// anchor again, with noise: for least squares on random rows the two are equal near n = 65 d (ε =
// 0.5, δ = 0.01). Compare with the risk of P_C(θ̃) before spending a budget.
//
// # Security boundary
//
// One record whose gradient at θ* is not 0 voids every guarantee (δ = 1): it moves the output from
// θ* for almost every W. So the caller names a rule that makes every record interpolate
// (Mechanism.Interpolation): [Relabel], [Drop], or [Trust], which the certificate lists as an
// assumption. The anchor must be public: it must not depend on the records. The program cannot
// detect an anchor that was fitted to the same data, and no certificate covers one. Never publish
// W, its eigenvalues, residuals, iteration counts or the time of a fit.
//
// # Releases
//
// A solver returns a point θ̂ within R_s (Params.Cover) of the minimizer. The release is θ̂ rounded
// to a public grid, plus integer noise of exact law, projected on C. R_s is fixed before any record
// is read, at a distance that float64 arithmetic reaches on every data set. The noise, paid by 1 %
// of the budget (Mechanism.Share), hides differences of 2R and of the rounding. If W is so nearly
// singular, or so large, that R_s does not hold for it, the release is noise alone: 2⁻⁸ of δ pays
// for this event, which has the same probability on every data set. So every fit releases, and its
// errors are about public facts. Proofs: docs/theory/release.md
//
// # Theorems
//
// Let every ℓ be convex, L-smooth on ℝᵈ and minimized at θ*, m ≥ d+3 an integer, k = m−d+1, t =
// L/σ², and r, C convex and independent of the records. Theorem A: the exact minimizer is (ε, δ)-DP
// for
//
//	identifier       structure of ℓ(·;z)               δ
//	qop.lsq/2        (c/2)⟨a,θ−θ*⟩², c‖a‖² ≤ L         hockey-sticks of χ²_k and W₂(k+1)
//	qop.glm/2        φ(⟨a,θ⟩)                          removal and addition, best split of ε
//	qop.joint/1      the same, dp.Replace              sup over the angle of the two rows
//	qop.fixed/2      gradients in a subspace, dim ρ    2F(a), F of λ_min(W_ρ(m−d+ρ))
//	qop.general/2    Hessian of rank ρ, d ≥ 2          E(1−exp(ε−l_G(λ_min(W))))₊
//	qop.tilt/1       as fixed or general               an exponential moment of the loss
//	qop.tilted/1     any φ(⟨a,θ⟩), with [Tilt]         lsq or glm with a Gaussian release, one curve
//	qop.paper/2      as general                        constants of [CC26], α₁ repaired
//
// [Sharp] takes whichever of them needs the least noise, and the certificate names it. Proofs, the
// cases of d = 1 and of dp.AddRemove, and the noise for an anchor with an error (Mechanism.Eta) are
// in docs/theory/quadratic.md
//
// In the words of [CC26]: interpolation is the common minimizer, curvature-based privacy that of
// σ²W, the utility bound that of its Figure 1, LOP and LOP-Clip are package lop, the diameter
// experiment of §5.2 is cmd/scaling, and Appendix G.3 leaves out the final Gaussian noise σ̃.
// docs/papers.md has them one by one.
//
// # Notation
//
//	n, d         records; parameters, Params.Dim
//	L, ρ         loss.Constants.Smoothness (β in docs/theory), Rank
//	θ̃, θ*, η     Mechanism.Center; the common minimizer; Mechanism.Eta
//	W, m, k      the Wishart matrix; Params.Degrees; m−d+1
//	σ², t        Params.Sigma2; Params.Ratio = L/σ²
//	N            k/2 − 1, the exponent of det W in its density
//	F, a         distribution function of λ_min; Params.Threshold
//	ε₁, δ₁       Params.Objective
//	ε₂, δ₂, σ̃    Params.Output, Params.OutputSigma
//	R_s, R, g    Params.Cover, Params.Reach, Params.Grid
//	α, b, D      Params.Alpha, Params.MaxEig, Params.Radius
//
// # References
//
//	[CC26]  Cortild, Cartis. Quadratic Objective Perturbation: Curvature-Based Differential
//	        Privacy. 2026.
//	[Ede88] Edelman. Eigenvalues and Condition Numbers of Random Matrices. SIAM J. Matrix Anal.
//	        Appl. 9, 1988.
package qop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/loss"
)

// ErrMechanism reports a field of Mechanism outside its range, or an empty Plan. Test with
// errors.Is.
var ErrMechanism = errors.New("qop: invalid mechanism")

// Identifiers of the theorems, see the package comment.
const (
	theoremLSQ     = "qop.lsq/2"
	theoremGLM     = "qop.glm/2"
	theoremJoint   = "qop.joint/1"
	theoremFixed   = "qop.fixed/2"
	theoremGeneral = "qop.general/2"
	theoremTilt    = "qop.tilt/1"
	theoremTilted  = "qop.tilted/1"
	theoremPaper   = "qop.paper/2"
)

// Calibration chooses the constants of Mechanism.
type Calibration int

const (
	// Sharp takes the tightest form of Theorem A for the structure of the loss.
	Sharp Calibration = iota
	// Paper takes the published constants of [CC26] with α₁ repaired, at δ₁ = δ₃ and m = 2d, for
	// comparison. It covers η = 0 only.
	Paper
)

// String returns "sharp", "paper" or a marker of an invalid value.
func (c Calibration) String() string {
	if names := [...]string{"sharp", "paper"}; c >= 0 && int(c) < len(names) {
		return names[c]
	}
	return fmt.Sprintf("invalid calibration %d", int(c))
}

// Mechanism is quadratic objective perturbation. Its fields are public. The zero value is refused:
// Center and Interpolation have no default.
type Mechanism struct {
	// Center is the anchor θ̃, d finite coordinates. It must be public: chosen without looking at the
	// records. A fit to the same records voids every guarantee, and the program cannot detect it.
	Center []float64
	// Interpolation is the rule that makes every record's gradient vanish at one public point:
	// Tilt{} needs no such point; Relabel{}, Drop{} or Trust{}. nil is refused.
	Interpolation Interpolation
	// Eta is η ≥ 0, a declared bound on ‖θ̃ − θ*‖₂, which only Trust allows to be positive. 0 declares
	// an exact anchor.
	Eta float64
	// Relation of neighboring data sets; 0 means dp.Replace.
	Relation dp.Relation
	// Calibration of the curvature; the zero value is Sharp.
	Calibration Calibration
	// Structure, if not 0, asks for the theorem of a weaker structure than the loss declares. A
	// stronger one is refused.
	Structure loss.Structure
	// Degrees is m ≥ d+3, the degrees of freedom of W, an integer; 0 means an m with nearly the least
	// mean curvature σ²m.
	Degrees float64
	// Radius is D ≥ ‖θ₀ − θ*‖₂, a public guess, for ExcessBound and, with Eta > 0, for the split of
	// the budget. A wrong guess costs no privacy. 0 means the radius of the problem's Set, where it is
	// finite, plus ‖Center‖₂; with Tilt, for the split between c̃ and W, Clip·√d/(2L).
	Radius float64
	// Cover is R_s > 0, the distance from the minimizer within which a solution is sure to lie. 0
	// means the larger of the distance that float64 arithmetic is sure to reach, below which Cover is
	// refused, and 1e-11 of a length: the radius of the Set where it is finite, else max(1,
	// ‖Center‖₂). See [erm.Public.Cover].
	Cover float64
	// Share of ε and of δ for the output noise, in (0, 1); 0 means 0.01, or for Eta > 0 the shares of
	// the least ExcessBound.
	Share float64
	// Releases is the number K of releases that a [Plan.Path] makes of one draw; 0 means 1. Only Tilt
	// with least squares has paths. The output noise grows with √K, c̃ and W do not.
	Releases int
	// Trace, if not nil, is called at the end of every solve. Not private: its argument is a function
	// of the records.
	Trace func(erm.Trace)
}

// check refuses a field outside its range, whatever the problem.
func (m *Mechanism) check() error {
	if m == nil {
		return fmt.Errorf("%w: the mechanism is nil, want one with a Center and an Interpolation", ErrMechanism)
	}
	switch {
	case m.Calibration < Sharp || m.Calibration > Paper:
		return fmt.Errorf("%w: Calibration = %d, want Sharp or Paper", ErrMechanism, int(m.Calibration))
	case m.Structure < 0 || m.Structure > loss.General:
		return fmt.Errorf("%w: Structure = %d, want 0 for what the loss declares, or LSQ, GLM, FixedRange or General",
			ErrMechanism, int(m.Structure))
	case m.Releases < 0 || m.Releases > mostReleases:
		return fmt.Errorf("%w: Releases = %d, want 1 to %d, or 0 for 1", ErrMechanism, m.Releases, mostReleases)
	case m.Releases > 1 && m.clip() == 0:
		return fmt.Errorf("%w: Releases = %d without Tilt, which alone has a price for a path, want 1, or 0 for it",
			ErrMechanism, m.Releases)
	case m.clip() > 0 && m.Calibration != Sharp:
		return fmt.Errorf("%w: Calibration = %v with Tilt, want Sharp", ErrMechanism, m.Calibration)
	case !(m.Share >= 0 && m.Share < 1):
		return fmt.Errorf("%w: Share = %v, want a number in (0, 1), or 0 for %v", ErrMechanism, m.Share, defaultShare)
	}
	if err := release.CheckField(ErrMechanism, "Eta", "an exact anchor", m.Eta); err != nil {
		return err
	}
	if err := release.CheckField(ErrMechanism, "Degrees", "automatic", m.Degrees); err != nil {
		return err
	}
	if err := release.CheckField(ErrMechanism, "Radius", "the radius of Set", m.Radius); err != nil {
		return err
	}
	if err := release.CheckField(ErrMechanism, "Cover", "the default", m.Cover); err != nil {
		return err
	}
	if m.Eta > 0 && m.Calibration == Paper {
		return fmt.Errorf("qop: %w: Eta = %v with Calibration = paper: the published output noise is not proved; want "+
			"Sharp", dp.ErrCondition, m.Eta)
	}
	return nil
}

// checkAnchor refuses a Center or an Interpolation with which no fit is private.
func (m *Mechanism) checkAnchor(dim int) error {
	switch {
	case m.Center == nil:
		return fmt.Errorf("%w: Center is nil, want a public anchor of %d coordinates that was chosen without looking at "+
			"the records", ErrMechanism, dim)
	case len(m.Center) != dim:
		return fmt.Errorf("%w: Center has %d coordinates, the problem %d: want one for each parameter",
			ErrMechanism, len(m.Center), dim)
	}
	for i, v := range m.Center {
		if math.IsNaN(v) || math.Abs(v) > maxCoordinate {
			return fmt.Errorf("%w: Center[%d] = %v, want a number of magnitude at most %g", ErrMechanism, i, v, maxCoordinate)
		}
	}
	if m.Interpolation == nil {
		return fmt.Errorf("%w: %w", ErrMechanism, errInterpolation)
	}
	return m.Interpolation.rule().check(m.Eta)
}

// maxCoordinate keeps squares of norms finite.
const maxCoordinate = 1e150

// defaultShare of the budget goes to the output noise; with Tilt, defaultJointShare of the square
// of the ratio of sensitivity to noise that the budget allows a Gaussian mechanism.
const (
	defaultShare      = 0.01
	defaultJointShare = 0.001
	mostReleases      = 1 << 20
)

// Fit releases an approximate minimizer of p under the budget b: it calls [Mechanism.Plan] and then
// [Plan.Fit], whose errors it returns.
//
// src feeds the noise. nil means the secure source; any other adds the assumption dp.CallerSource.
// Equal sources give equal results.
func (m *Mechanism) Fit(ctx context.Context, p *erm.Problem, b dp.Budget, src rand.Source) (*dp.Release, error) {
	if err := release.CheckContext(ErrMechanism, ctx); err != nil {
		return nil, err
	}
	plan, err := m.Plan(p, b)
	if err != nil {
		return nil, err
	}
	return plan.run(ctx, p, plan.public.Reach(plan.per), src)
}

// Plan calibrates for p: it reads dimensions, declared bounds, loss, regularizer and set, and no
// record. A Plan serves any number of fits.
//
// Errors wrap dp.ErrBudget, dp.ErrRelation, dp.ErrCondition where no noise level makes the claim
// true (with the least value that does), ErrMechanism, or erm.ErrProblem for a problem whose parts
// do not match or that cannot be certified.
func (m *Mechanism) Plan(p *erm.Problem, b dp.Budget) (*Plan, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	q, err := publicOf(p, cmp.Or(m.Relation, dp.Replace))
	if err != nil {
		return nil, err
	}
	if err := m.checkAnchor(q.Dim); err != nil {
		return nil, err
	}
	if err := m.Interpolation.rule().admits(p.Loss); err != nil {
		return nil, err
	}
	if m.clip() > 0 && p.Set != nil { // a nearer anchor than one outside of the Set
		near := *m
		near.Center = make([]float64, q.Dim)
		p.Set.Prox(near.Center, m.Center, 1)
		m = &near
	}
	return m.calibrate(q, b)
}

// clip returns the clip of Tilt, 0 for other rules.
func (m *Mechanism) clip() float64 {
	if m.Interpolation == nil {
		return 0
	}
	return m.Interpolation.rule().clip
}

// Calibrate is [Mechanism.Plan] for a problem of which only public quantities are known, with
// constants that hold on ℝᵈ. Without a Center the plan states the noise and its cost, and fits
// nothing.
func (m *Mechanism) Calibrate(q erm.Public, b dp.Budget) (*Plan, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	var err error
	switch {
	case m.Center != nil:
		err = m.checkAnchor(q.Dim)
	case m.Interpolation != nil:
		err = m.Interpolation.rule().check(m.Eta)
	}
	if err != nil {
		return nil, err
	}
	return m.calibrate(q, b)
}

// units refuses persons.
func units(q erm.Public) error { return release.CheckUnits("quadratic perturbation", q.Rows) }

// publicOf returns the public quantities of p, with constants that hold on all of ℝᵈ: cocoercivity
// needs them there.
func publicOf(p *erm.Problem, rel dp.Relation) (erm.Public, error) {
	q, err := p.Public(rel)
	if err != nil {
		return q, fmt.Errorf("qop: %w", err)
	}
	if err = units(q); err != nil {
		return q, fmt.Errorf("qop: %w", err)
	}
	q.Constants = p.Loss.Constants(q.Bounds, math.Inf(1))
	return q, nil
}
