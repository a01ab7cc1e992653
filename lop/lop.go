// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package lop is linear objective perturbation: it releases the minimizer of a
// regularized empirical risk to which a random linear function was added,
//
//	J(θ) = Σᵢ ℓ(θ;aᵢ,bᵢ) + r(θ) + (Δ/2)‖θ‖² + ⟨b,θ⟩   over θ ∈ C,
//
// with Gaussian b, or b of density ∝ exp(−a‖b‖) for a pure guarantee. [Mechanism] plans and fits;
// its field Clip makes it LOP-Clip, for losses with unbounded gradients, and its field Center puts
// the ridge around a public point x₀: (Δ/2)‖θ−x₀‖². [Output] is output perturbation, the baseline.
//
//	data, err := erm.NewData(rows, labels, loss.Bounds{Row: 1, Label: 1}) // declared, not measured
//	p := &erm.Problem{Data: data, Loss: loss.Logistic{}, Reg: prox.L1{Weight: 1}}
//	m := &lop.Mechanism{Radius: 10}                                // a guess of ‖θ‖
//	plan, err := m.Plan(p, dp.Budget{Epsilon: 1, Delta: 1e-6})     // reads no record
//	rel, err := plan.Fit(ctx, p, nil)                              // rel.Theta, rel.Certificate
//
// A ledger that counts what was spent takes the plan before Fit: see package dp/ledger.
//
// # When to use it
//
// Losses φ(⟨a,θ⟩;b) with bounded φ′ and φ″, in moderate dimension: Mechanism with everything
// automatic. Unbounded φ′, as in least squares: a bounded Set, or better Clip, because the noise is
// proportional to the bound on the gradient. Losses that are not of that form: a pure budget, for
// which the structure of the gradient does not matter, or Output, which needs no structure. Losses
// with kinks: loss.Moreau of them. Choose δ well below 1/n.
//
// # What a release is
//
// Computers return points near a minimizer. The released point is such a point rounded to a public
// grid, plus integer noise of an exactly known law, projected on C. The point lies within R (Cover)
// of the exact minimizer, and the noise hides differences of 2R and of the rounding. R is fixed
// before any record is read, and no less than float64 arithmetic certainly reaches on every data
// set; so no release is withheld. The noise takes a small share of the budget (Share). Proof:
// docs/theory/release.md.
//
// # Theorems
//
//	identifier              statement for θ̂ (add ν)                      needs
//	lop.joint/2             θ̂ and ν in one of the next five curves        theirs
//	lop.curve/2             loss ≤ c + s²/2 + sχ_q, sharp curve           smooth loss, δ > 0
//	lop.monotone/2          loss ≤ c + max(0, s²/2 + sN)                  AddRemove, fixed sign
//	lop.envelope/1          gradient and curvature of a record together   ⟨a,θ⟩, AddRemove, δ > 0
//	lop.envelope-replace/1  removing and adding one after the other       the same, Replace
//	lop.simplex/2           gradients are differences in the simplex      loss.Multinomial, δ > 0
//	lop.renyi/1             curvature in second order; θ̂ alone or with ν  no envelope, δ > 0
//	lop.kifer/2             σ = G√(8 ln(2/δ)+4ε)/ε, Δ ≥ 2ρβ/ε [KST12]     as lop.curve/2, q ≤ 2
//	lop.pure/2              a = (ε−c)/G, c = ρ log1p(β/Δ)                 smooth loss, δ = 0
//	lop.envelope-pure/1     gradient and curvature together (pure)         ⟨a,θ⟩, δ = 0
//	lop.cms11/2             a = (ε−c)/G, c = 2 log1p(β/Δ) [CMS11]         smooth loss, ρ = 1, δ = 0
//	lop.kifer-pure/2        a = ε/(2G), Δ ≥ 2ρβ/ε [KST12]                 smooth loss, δ = 0
//	lop.output/2            Gaussian ν hides G/μ + 2R                     smooth loss, L < ∞, δ > 0
//	lop.output-pure/2       the same, ν of density ∝ exp(−a‖ν‖)           smooth loss, L < ∞, δ = 0
//
// In the table ⟨a,θ⟩ stands for a smooth loss φ(⟨a,θ⟩;b), and q for the dimension of the change of
// the gradient: ρ or, under Replace, 2ρ, at most d. Each theorem is a statement about the program,
// on data sets of at most Params.MaxRecords records. The certificate names the theorem with the
// least noise; for δ > 0 this is lop.joint/2 unless a share of ε and δ for ν needs less. The
// letters and the proofs are in docs/theory/linear.md and docs/theory/renyi.md.
//
// A logistic record with a gradient of norm p has curvature at most p(1−p): the two are never large
// together. The envelope theorems use this, so that such losses pay nothing for their curvature
// from Δ = 1/ε on (2/ε under Replace). Which losses have an envelope is documented at
// loss.Envelope; for the others, every record counts with its Smoothness.
//
// All theorems hold for every convex C and r that do not depend on the records. "Smooth" means a
// Lipschitz gradient: Huber's loss is smooth. L, β and ρ must hold on ℝᵈ, or on C for losses
// φ(⟨a,θ⟩;b). The Gaussian theorems need the gradient of one record to stay in a subspace of
// dimension ρ that does not move with θ. A loss that promises only a Hessian of low rank is
// calibrated with q = d.
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
	"cmp"
	"context"
	"math/rand/v2"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/linear"
	engine "github.com/privopt/privopt/internal/lop"
)

// ErrMechanism reports a field of [Mechanism] or [Output] outside its range, or an empty [Plan].
// Test with errors.Is.
var ErrMechanism = engine.ErrMechanism

// Calibration chooses the constants of [Mechanism].
type Calibration int

const (
	// Sharp takes the tightest bound that is proved.
	Sharp = Calibration(linear.Sharp)
	// Kifer takes the published constants of [KST12], with G = 2L under Replace instead of the L in
	// the paper, for which there is no proof.
	Kifer = Calibration(linear.Kifer)
	// CMS11 takes the published constants of [CMS11], for a pure budget.
	CMS11 = Calibration(linear.CMS11)
)

// Mechanism is linear objective perturbation. Its fields are public. The zero value means the
// documented defaults and needs only a bounded Set or a Radius.
type Mechanism struct {
	// Relation of neighboring data sets; 0 means dp.Replace.
	Relation dp.Relation
	// Calibration of the noise; the zero value is Sharp.
	Calibration Calibration
	// Ridge is Δ ≥ 0, the weight of (Δ/2)‖θ‖². 0 means automatic: the Δ with the
	// least Params.ExcessBound; Kifer without a Radius takes 2ρβ/ε − μ_r.
	Ridge float64
	// Center is x₀, d finite coordinates: the ridge is (Δ/2)‖θ−x₀‖². nil means the origin. It must be
	// public: a model of public data, or the release of an earlier private fit, whose cost adds up. A
	// fit to the same records without privacy voids every guarantee, and the program cannot detect it.
	// Labels need no center: the residual b − ⟨a,θ⟩ that Clip bounds is (b − ⟨a,x₀⟩) − ⟨a,θ−x₀⟩.
	// Proof: docs/theory/linear.md#linear.center
	Center []float64
	// Radius is B ≥ ‖θ₀ − x₀‖₂, a public guess at the distance of the solution from Center (or the
	// origin), for which the automatic Ridge is best. It costs no privacy. 0 means the radius of the
	// Set if that is finite, plus ‖x₀‖₂.
	Radius float64
	// Clip, if positive, clips the gradient of every record at this norm, by continuing the loss
	// linearly (loss.Clipped). L is then at most Clip, on ℝᵈ too. Only for losses that are
	// loss.Linear.
	Clip float64
	// Cover is R > 0. 0 means the largest of 1e-11·B, the distance that float64 arithmetic certainly
	// reaches ([erm.Public.Floor]; a smaller Cover is refused), and the R whose output noise is at
	// most 1/32 of the displacement that b causes.
	Cover float64
	// Share spent on the output noise, in (0, 1): of ε and of δ, 0.01 by default; or, if one curve
	// accounts for the minimizer and its output noise (lop.joint/2), of the square of the ratio of
	// sensitivity to noise, 0.001 by default.
	Share float64
	// Trace, if not nil, is called at the end of every solve. Not private: its argument
	// depends on the records.
	Trace func(erm.Trace)
}

func (m *Mechanism) settings() engine.Settings {
	m = cmp.Or(m, new(Mechanism))
	return engine.Settings{
		Package: "lop", Relation: m.Relation, Calibration: linear.Calibration(m.Calibration), Ridge: m.Ridge,
		Center: m.Center,
		Radius: m.Radius, Clip: m.Clip, Cover: m.Cover, Share: m.Share, Trace: m.Trace,
	}
}

// Fit releases an approximate minimizer of p under the budget b: it plans, draws b, solves, adds
// the output noise and projects on the Set, see [Plan].
//
// src feeds the noise; nil means a secure source, anything else adds the assumption
// dp.CallerSource. Equal sources give equal results. The error wraps those of Plan and [Plan.Fit].
func (m *Mechanism) Fit(ctx context.Context, p *erm.Problem, b dp.Budget, src rand.Source) (*dp.Release, error) {
	return m.settings().Fit(ctx, p, b, src)
}

// Plan calibrates for p: it reads dimensions, declared bounds, loss, regularizer and set, and no
// record. Params.ExcessBound bounds the expected excess empirical risk, a sum over the records,
//
//	E F(θ_b) − F(θ₀) ≤ E‖b‖²/(2(Δ+μ_r)) + ΔB²/2,   F = Σℓ + r,  ‖θ₀ − x₀‖₂ ≤ B
//
// of the exact minimizer θ_b; the output noise adds at most its expected norm times the Lipschitz
// constant of F on C.
//
// Errors wrap erm.ErrProblem for an inconsistent problem or one that cannot be certified,
// dp.ErrBudget, dp.ErrRelation, ErrMechanism, or, where no noise makes the claim true,
// dp.ErrCondition with the least value that would do.
func (m *Mechanism) Plan(p *erm.Problem, b dp.Budget) (*Plan, error) {
	return planned(m.settings().Plan(p, b))
}

// Calibrate is Plan for a problem of which only public quantities are known. With
// Clip their constants are those of the clipped loss.
func (m *Mechanism) Calibrate(q erm.Public, b dp.Budget) (*Plan, error) {
	return planned(m.settings().Calibrate(q, b))
}

// Output is output perturbation, the baseline: it minimizes without noise and
// hides the minimizer,
//
//	θ̂ ≈ argmin F(θ) + (Δ/2)‖θ‖² + r(θ) over C,   release P_C(θ̂ + ν)
//	‖θ̂ − θ̂′‖ ≤ G/μ + 2R on neighbors,            μ = Δ + μ_r     [CMS11]
//
// with ν Gaussian by the analytic calibration [BW18], or, for δ = 0, of density ∝ exp(−a‖ν‖) with
// a = ε/(G/μ+2R). It needs a bound on the gradients and a loss without kinks, on C or on ℝᵈ, and no
// structure. The automatic Ridge weighs the noise against the number of records, which
// Problem.Records declares under AddRemove.
//
// The fields are those of [Mechanism]. To clip gradients, give the problem a loss.Clipped.
type Output struct {
	Relation dp.Relation
	Ridge    float64
	Radius   float64
	Cover    float64
	Trace    func(erm.Trace)
}

func (m *Output) settings() engine.Settings {
	m = cmp.Or(m, new(Output))
	return engine.Settings{
		Package: "lop", Output: true, Relation: m.Relation, Ridge: m.Ridge, Radius: m.Radius, Cover: m.Cover, Trace: m.Trace,
	}
}

// Fit releases an approximate minimizer of p under the budget b, as [Mechanism.Fit] does.
func (m *Output) Fit(ctx context.Context, p *erm.Problem, b dp.Budget, src rand.Source) (*dp.Release, error) {
	return m.settings().Fit(ctx, p, b, src)
}

// Plan calibrates for p as [Mechanism.Plan] does. Params.ExcessBound is
//
//	E Σℓ(θ) + r(θ*) − F(θ₀) ≤ nL·(E‖ν‖ + R) + ΔB²/2
//
// for the released θ and the exact minimizer θ* of J; r(θ) may differ from r(θ*) because of the
// noise. The bound is +Inf unless Radius and the number of records are known.
func (m *Output) Plan(p *erm.Problem, b dp.Budget) (*Plan, error) {
	return planned(m.settings().Plan(p, b))
}

// Calibrate is Plan for a problem of which only public quantities are known.
func (m *Output) Calibrate(q erm.Public, b dp.Budget) (*Plan, error) {
	return planned(m.settings().Calibrate(q, b))
}
