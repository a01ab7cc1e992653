// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package erm

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

// Problem is the regularized risk Σᵢ ℓ(θ;aᵢ,bᵢ) + r(θ) over θ ∈ C. It prints as its dimensions and
// the types of its parts.
type Problem struct {
	Data *Data
	Loss loss.Loss
	Reg  prox.Operator // nil means none; must not depend on the records
	Set  prox.Set      // nil means ℝᵈ
	// Records is the declared, public number n₀ of records for [dp.AddRemove], under which n is
	// private; 0 means not declared. Noise that is tuned for a number of records is tuned for n₀, and
	// rounding is accounted for up to 4n₀ records. Under [dp.Replace] it is ignored.
	Records int
	// Threads is the largest number of goroutines that one sum over the records uses; 0 means
	// GOMAXPROCS. Small sums use one. No bit of any value depends on it.
	Threads int
}

// Format writes the dimensions and the types of the parts, whatever the verb.
func (p Problem) Format(f fmt.State, _ rune) {
	n, d := p.Data.Dims()
	fmt.Fprintf(f, "erm.Problem(%d×%d, Loss %T, Reg %T, Set %T)", n, d, p.Loss, p.Reg, p.Set)
}

// Perturbation is ⟨Linear,θ⟩ + ½(θ−Center)'Quad(θ−Center), which does not depend on the data. A nil
// field means 0.
//
// It is secret: whoever knows it can subtract it from a release. It is neither printed nor encoded,
// except as an unexported field of another struct, where fmt calls no methods.
type Perturbation struct {
	secret
	Linear, Center []float64
	// Quad is positive semidefinite. A [mat.DiagDense] costs O(d).
	Quad mat.Symmetric
	// MinEig and MaxEig are bounds on the spectrum of Quad that the caller knows:
	// MinEig ≤ λ_min and λ_max ≤ MaxEig. 0 means unknown. They are trusted.
	MinEig, MaxEig float64
	// LinearError and QuadError bound ‖b − Linear‖₂ and ‖Q − Quad‖₂, where b and Q are the real
	// quantities of a privacy theorem and Linear and Quad their rounded values. Residual includes
	// them; Convexity and Modulus subtract QuadError. Labels that were computed with errors of at
	// most ηᵢ move the gradient by at most Σᵢβᵢηᵢ/‖aᵢ‖, which belongs in LinearError.
	LinearError, QuadError float64
}

// Trace describes the result of one solve, before output noise. Not private: none of it may be
// published. It is neither printed nor encoded.
type Trace struct {
	secret
	Theta      []float64 // θ̂, before output noise and projection
	Objective  float64   // J(θ̂); NaN if not computed
	Residual   float64   // upper bound on dist(0, ∂J) at a point within Distance − Residual/μ of θ̂
	Distance   float64   // ≥ ‖θ̂ − argmin J‖₂
	Gap        float64   // Residual²/(2μ) ≥ J − min J at that point
	Iterations int       // of all methods that ran
	GradTerms  int       // gradients of single records that they evaluated
	// Certified reports that Residual/μ proves Distance. If it is false, the contraction of the
	// descent of internal/release proves Distance.
	Certified bool
}

// NewTrace returns the trace of a point within shift of a point with the given residual, for a
// μ-strongly convex J. It copies theta.
func NewTrace(theta []float64, residual, shift, mu float64) Trace {
	return Trace{
		Theta: slices.Clone(theta), Objective: math.NaN(),
		Residual: residual, Distance: residual/mu + shift, Gap: residual * residual / mu / 2,
	}
}

// Check returns an error wrapping [ErrProblem] if p has no data, or no loss that is defined on the
// data, or a part with invalid parameters or another dimension. Data of no records are valid.
func (p *Problem) Check() error {
	if p == nil {
		return fmt.Errorf("%w: the problem is nil", ErrProblem)
	}
	_, d := p.Data.Dims()
	if d == 0 {
		return fmt.Errorf("%w: there is no Data, want data made by NewData, NewDataDense, package table or, of no "+
			"records, by Empty", ErrProblem)
	}
	if p.Loss == nil {
		return fmt.Errorf("%w: Loss is nil, want for example loss.Squared{}", ErrProblem)
	}
	if err := loss.Check(p.Loss); err != nil {
		return fmt.Errorf("%w: Loss: %w", ErrProblem, err)
	}
	if err := loss.CheckData(p.Loss, d, p.Data.Bounds()); err != nil {
		return fmt.Errorf("%w: Loss: %w", ErrProblem, err)
	}
	if err := prox.Check(p.Reg, d); err != nil {
		return fmt.Errorf("%w: Reg: %w", ErrProblem, err)
	}
	if p.Set != nil {
		if err := prox.Check(p.Set, d); err != nil {
			return fmt.Errorf("%w: Set: %w", ErrProblem, err)
		}
		if r := p.Set.Radius(d); !(r >= 0) {
			return fmt.Errorf("%w: Set has radius %v in %d dimensions, want a nonempty set", ErrProblem, r, d)
		}
	}
	return nil
}

// radius returns the radius of Set, +Inf without one.
func (p *Problem) radius() float64 {
	if p.Set == nil {
		return math.Inf(1)
	}
	_, d := p.Data.Dims()
	return p.Set.Radius(d)
}

// certificate checks p and returns r + ι_C. The error wraps [ErrProblem], and dp.ErrCondition too
// if the loss is the reason, unless Residual can certify the minimizer of p: r + ι_C needs a
// closed-form proximal map (see [prox.Sum]) that implements [prox.Subdifferential], and the loss
// must have no kinks, because predictions in float64 hardly ever lie exactly at one.
func (p *Problem) certificate() (prox.Subdifferential, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if math.IsInf(p.Loss.Constants(p.Data.Bounds(), math.Inf(1)).Smoothness, 1) {
		return nil, fmt.Errorf("%w: %w: Loss %T has Smoothness = +Inf, so its minimizer cannot be certified in float64; "+
			"want a smooth loss such as loss.Huber, loss.SmoothedHinge or loss.Moreau{Loss: …}, or sco.ProxGD",
			ErrProblem, dp.ErrCondition, p.Loss)
	}
	g, err := prox.Sum(p.Reg, p.Set)
	if err != nil {
		return nil, fmt.Errorf("%w: Reg %T and Set %T have no joint proximal map in closed form, so a minimizer on the "+
			"boundary of Set could not be certified; want a pair that prox.Sum knows, such as prox.L1 and prox.Box, or "+
			"operators that both are prox.Coordinatewise: Coordinate(i int) (l1, l2, lo, hi float64)",
			ErrProblem, p.Reg, p.Set)
	}
	s, ok := g.(prox.Subdifferential)
	if !ok {
		return nil, fmt.Errorf("%w: %T is no prox.Subdifferential, so no point can be certified; want an operator with the "+
			"method Dist(x, v []float64) float64, the distance of −v to the subdifferential at x", ErrProblem, g)
	}
	return s, nil
}

// Assumptions of certificates. DeclaredLoss is listed for a loss that is not of package loss,
// ScalarAccuracy for a loss without [loss.Exact] slopes, and DeclaredOperator if [prox.Rounding]
// proves nothing of r + ι_C, which includes every operator that is not of package prox.
// TrustedCluster is listed for records that other machines add up, TrustedEncoding for those that
// they made of the lines of a table.
const (
	DeclaredLoss dp.Assumption = "the loss is convex and depends on nothing but the parameters and the record, and " +
		"what its methods declare holds for every record inside the declared bounds, also where it has a method from a " +
		"loss that it embeds; losstest.Check looks for mistakes in it"
	ScalarAccuracy   dp.Assumption = "the loss computes its derivatives to 32 units in the last place"
	DeclaredOperator dp.Assumption = "the regularizer and the set are convex and do not depend on the records, and " +
		"what their methods declare holds where package prox does not prove it, also where they have a method from an " +
		"operator that they embed: coefficients, radius, subgradients, and a proximal map that is accurate as declared, " +
		"or to 1024·d units in the last place; proxtest.Check looks for mistakes in them"
	TrustedCluster dp.Assumption = "the machines and the storage of the cluster that added up the records compute " +
		"what the program says and keep it secret: points of the solver, sums of records and logs"
	TrustedEncoding dp.Assumption = "the machines of the cluster that encoded the table read every record and its id, " +
		"took all lines of a person together and kept at most the declared number, as the program says, and keep the " +
		"records secret, also in what the engine stores between its steps"
)

// LossAssumptions returns the assumptions about l of a release that rests on Residual: none for an
// exact loss of package loss.
func LossAssumptions(l loss.Loss) []dp.Assumption {
	var a []dp.Assumption
	if !loss.Proved(l) {
		a = append(a, DeclaredLoss)
	}
	if !exact(l) {
		a = append(a, ScalarAccuracy)
	}
	return a
}

// exact reports whether the slopes of l are proved to be accurate in double-double.
func exact(l loss.Loss) bool {
	_, linear := l.(loss.Linear)
	return loss.Exact(l) != nil || linear && l.Constants(loss.Bounds{Row: 1, Label: 1}, 1).Structure == loss.LSQ
}
