// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package erm

import (
	"fmt"
	"math"
	"reflect"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

// Bounds on the number of records of any data set that the relation admits. Under dp.AddRemove n is
// private, but rounding must be bounded for every such data set.
const (
	recordsFactor  = 4       // times the declared number of records
	defaultRecords = 1 << 30 // if none is declared
	largestRecords = 1 << 40
)

const (
	// defaultCover is the default R in units of the radius B, unless rounding requires more.
	defaultCover = 1e-11
	// exactSlope bounds the error of [loss.Exact] slopes relative to |φ′| + sup φ″(|u|+|b|).
	exactSlope = 0x1p-90
)

// Public holds the declared quantities of a problem, which are public: no field depends on a record
// except Records and MaxRecords under [dp.Replace].
//
// With g = r + ι_C, p = prox_g(0) is the projection of 0 on C where r is a norm. A Public that a
// caller writes as a literal stands for the best problem with the stated fields: rows within 1, no
// set, no regularizer, exact slopes. A fit refuses a problem that is worse.
type Public struct {
	Dim int // d
	// Records is n under [dp.Replace], and the declared n₀ under [dp.AddRemove], 0 if not declared.
	Records int
	// MaxRecords is N, the largest number of records of any data set of the relation: n under
	// [dp.Replace], and under [dp.AddRemove] 4·Records, 2³⁰ if not declared, at most 2⁴⁰. A fit
	// refuses more records, which reveals that there are more.
	MaxRecords int64
	// Rows is m if a unit of privacy is a person with at most m lines, see [Persons]; 0 if it is a
	// record. Records and MaxRecords then count persons.
	Rows      int
	Person    string // Persons.Column
	Bounds    loss.Bounds
	Constants loss.Constants // on Set for LSQ and GLM, on ℝᵈ for other structures
	OnSet     loss.Constants // on Set whatever the structure
	Modulus   float64        // μ_r, the strong convexity of r
	Radius    float64        // sup ‖θ‖₂ over Set; +Inf, or 0 in a literal, without one

	Linear   bool    // the loss depends on θ through ⟨a,θ⟩ only
	Monotone bool    // the loss declares that the sign of φ′ is fixed for each record: loss.Constants.Monotone
	Classes  int     // K if the loss is loss.Multinomial, else 0
	Split    bool    // g is a sum over coordinates, so that points may be in double-double
	Anchor   float64 // ‖p‖₂
	Slope    float64 // G_r ≥ dist(0, ∂g(p))
	Gradient float64 // G ≥ ‖∇ℓ(p;a,b)‖₂ for one record

	// ProxFactor·u·(‖x‖₂+ProxScale) bounds the rounding of Prox and Shift of g, see [prox.Rounding].
	// A ProxFactor of 0 means unknown unless Split and Linear hold.
	ProxFactor, ProxScale float64

	// Assumptions are listed by every certificate over the problem.
	Assumptions []dp.Assumption

	exact     bool                 // the slopes of the loss are accurate in double-double
	operator  prox.Subdifferential // g; nil in a literal
	lossRange float64              // H ≥ ℓ(p;a,b) − inf ℓ for one record
	envelope  loss.Envelope        // the loss, if it is one
}

// Public checks p and returns its public quantities. Mechanisms need no further check of p.
//
// The error wraps [ErrProblem] if the parts of p do not fit together or [Objective.Residual] could
// not certify its minimizer, and [dp.ErrRelation] for an invalid relation. It does not depend on a
// record.
func (p *Problem) Public(rel dp.Relation) (Public, error) {
	g, err := p.certificate()
	if err != nil {
		return Public{}, err
	}
	n, d := p.Data.Dims()
	q := Public{
		Dim:     d,
		Records: p.Records,
		Bounds:  p.Data.Bounds(),
		Radius:  p.radius(),
		Modulus: ridge(p.Reg, d),

		Assumptions: append(LossAssumptions(p.Loss), p.Data.Assumptions()...),

		exact:    exact(p.Loss),
		operator: g,
	}
	if persons, ok := p.Data.Persons(); ok {
		q.Rows, q.Person = persons.Rows, persons.Column
	}
	if rel == dp.Replace {
		q.Records, q.MaxRecords = n, max(int64(n), 1)
	}
	_, q.Linear = p.Loss.(loss.Linear)
	q.envelope, _ = p.Loss.(loss.Envelope)
	if l, ok := p.Loss.(loss.Multinomial); ok {
		q.Classes = l.Classes
	}
	q.OnSet = p.Loss.Constants(q.Bounds, q.Radius)
	q.Constants = q.OnSet
	if s := q.OnSet.Structure; s != loss.LSQ && s != loss.GLM {
		q.Constants = p.Loss.Constants(q.Bounds, math.Inf(1))
	}
	q.Monotone = q.Linear && q.OnSet.Monotone
	q.anchor(p.Loss, g)
	return q.Complete(rel)
}

// anchor sets the fields about p = prox_g(0) and about the rounding of g.
func (q *Public) anchor(l loss.Loss, g prox.Subdifferential) {
	at := make([]float64, q.Dim)
	g.Prox(at, at, 1)
	q.Anchor = raised(floats.Norm(at, 2), q.Dim) + prox.RoundingOf(g).Shift(at)
	q.Slope = q.SlopeAt(at)
	k := l.Constants(q.Bounds, q.Anchor)
	q.lossRange, q.Gradient = known(k.Range), known(k.Lipschitz)
	_, q.Split = prox.Separable(g)
	var proved bool
	if q.ProxFactor, q.ProxScale, proved = prox.RoundingOf(g).Accuracy(q.Dim); !proved {
		q.Assumptions = append(q.Assumptions, DeclaredOperator)
	}
}

// Complete checks the fields of q and sets those that a caller left at 0: MaxRecords follows from
// Records, which is required under [dp.Replace], and quantities that are not stated become +Inf.
// Completing the result changes nothing. The result shares no memory with q. The error wraps
// [ErrProblem] or [dp.ErrRelation].
func (q Public) Complete(rel dp.Relation) (Public, error) {
	q.Assumptions = slices.Clone(q.Assumptions)
	if err := rel.Check(); err != nil {
		return Public{}, fmt.Errorf("erm: Relation: %w", err)
	}
	switch {
	case q.Dim < 1:
		return Public{}, fmt.Errorf("%w: Public.Dim = %d, want at least 1", ErrProblem, q.Dim)
	case q.Records < 0:
		return Public{}, fmt.Errorf("%w: Public.Records = %d, want a declared number of records, or 0", ErrProblem, q.Records)
	case q.Rows < 0 || q.Rows > MaxRows:
		return Public{}, fmt.Errorf("%w: Public.Rows = %d, want the most lines of a person, at most %d, or 0", ErrProblem,
			q.Rows, MaxRows)
	case q.Person != "" && q.Rows == 0:
		return Public{}, fmt.Errorf("%w: Public.Person = %.40q with Rows = 0, want the most lines of a person, or no Person",
			ErrProblem, q.Person)
	case q.MaxRecords < 0 || q.MaxRecords > largestRecords:
		return Public{}, fmt.Errorf("%w: Public.MaxRecords = %d, want at most 2⁴⁰, or 0 for the default", ErrProblem,
			q.MaxRecords)
	}
	for _, f := range []struct {
		name string
		v    float64
	}{
		{"Modulus", q.Modulus}, {"Radius", q.Radius}, {"Anchor", q.Anchor}, {"Slope", q.Slope},
		{"Gradient", q.Gradient}, {"ProxFactor", q.ProxFactor}, {"ProxScale", q.ProxScale},
	} {
		if !(f.v >= 0) {
			return Public{}, fmt.Errorf("%w: Public.%s = %v, want a number of at least 0", ErrProblem, f.name, f.v)
		}
	}
	switch {
	case q.MaxRecords > 0:
	case rel == dp.Replace && q.Records > 0:
		q.MaxRecords = int64(q.Records)
	case q.Records > 0:
		q.MaxRecords = min(recordsFactor*int64(min(q.Records, largestRecords)), largestRecords)
	default:
		q.MaxRecords = defaultRecords
	}
	if q.operator == nil {
		for _, v := range []*float64{&q.Radius, &q.lossRange, &q.Gradient} {
			if *v == 0 {
				*v = math.Inf(1)
			}
		}
		if q.Bounds.Row == 0 {
			q.Bounds.Row = 1
		}
		if q.OnSet == (loss.Constants{}) {
			q.OnSet = q.Constants
		}
		q.Gradient = min(q.Gradient, known(q.OnSet.Lipschitz))
		if s := q.OnSet.Structure; s == loss.LSQ || s == loss.GLM {
			q.Linear = true
		}
		if q.ProxFactor == 0 { // no regularizer, exact slopes
			q.Split, q.exact = q.Linear, q.Linear
		}
	}
	return q, nil
}

// Envelope returns the bound on the curvature of a record whose gradient has a norm between lo and
// hi ([loss.Envelope]). It returns nil if the loss declares none and for a literal.
func (q Public) Envelope() func(lo, hi float64) float64 {
	if q.envelope == nil {
		return nil
	}
	return func(lo, hi float64) float64 { return q.envelope.Envelope(q.Bounds, lo, hi) }
}

// Covered reports whether q declares at least as much as plan about the sign of φ′, the classes,
// and the curvature at a gradient of a given norm: the same loss on the same bounds, or a plan that
// uses neither.
func (q Public) Covered(plan Public) bool {
	return (q.Monotone || !plan.Monotone) && (plan.Classes == 0 || q.Classes == plan.Classes) &&
		(plan.envelope == nil || reflect.DeepEqual(q.envelope, plan.envelope) && q.Bounds == plan.Bounds)
}

// SlopeAt returns an upper bound on dist(0, ∂g(x)); Slope is its value at p. It is +Inf outside the
// domain of g and for a literal.
func (q Public) SlopeAt(x []float64) float64 {
	if q.operator == nil {
		return math.Inf(1)
	}
	return raised(q.operator.Dist(x, make([]float64, len(x))), len(x))
}

// Smooth returns an error wrapping [dp.ErrCondition] for a loss without a known, finite Smoothness:
// near a kink no float64 point can be certified, and gradient descent does not converge.
func (q Public) Smooth() error {
	if b := q.OnSet.Smoothness; !(b > 0) || math.IsInf(b, 1) {
		return fmt.Errorf("%w: the loss has Smoothness = %v, so its minimizer cannot be certified; want a smooth loss: "+
			"loss.Moreau{Loss: …, Beta: …} is one for every kinked loss of ⟨a,θ⟩, loss.SmoothedHinge for the hinge",
			dp.ErrCondition, b)
	}
	return nil
}

// Admit returns an error wrapping [ErrProblem] if p has more than MaxRecords records and so is
// outside the domain of the guarantee. The error reveals that there are more.
func (q Public) Admit(p *Problem) error {
	if p == nil {
		return fmt.Errorf("%w: the problem is nil, want one with data and a loss", ErrProblem)
	}
	if n, _ := p.Data.Dims(); int64(n) > q.MaxRecords {
		return fmt.Errorf("%w: the data have more than MaxRecords = %d records, and rounding is accounted for no more; "+
			"declare Problem.Records", ErrProblem, q.MaxRecords)
	}
	return nil
}

// PublicPerturbation holds bounds on a [Perturbation] that are known before it is drawn. They hold
// except for an event whose probability the plan accounts for.
type PublicPerturbation struct {
	Linear         float64 // B_max ≥ ‖b‖₂
	MinEig, MaxEig float64 // of Q: a₀ ≤ λ_min, λ_max ≤ q̄; linear perturbation has Q = ΔI
	Center         float64 // ‖θ̃‖₂
	// CenterSlope is a bound on dist(0, ∂(F+r+ι_C)(θ̃)); 0 means unknown. It is known, for example,
	// if every record interpolates θ̃.
	CenterSlope            float64
	LinearError, QuadError float64 // as in Perturbation

	taken float64 // ≥ ‖∇F(θ̃)‖ where Tilted takes ⟨∇F(θ̃),·⟩ from the risk, else 0
}

// Tilted returns per for a perturbation from whose linear part ∇F(θ̃) was subtracted, so that
// Linear bounds only the rest, c: J has the linear part ⟨c − ∇F(θ̃), θ⟩, and the risk minus its
// tangent at θ̃ has slope 0 there. LinearError grows by the error of ∇F(θ̃) as
// [Objective.AccurateGrad] computes it and by the rounding of the difference.
// CenterSlope is then a bound on dist(0, ∂(r+ι_C)(θ̃)).
func (q Public) Tilted(per PublicPerturbation) PublicPerturbation {
	beta := q.steepest()
	q.OnSet.Lipschitz, q.OnSet.Smoothness = math.Inf(1), beta // θ̃ may be outside of Set
	per.taken = float64(q.MaxRecords) * q.slope(per.Center) * (1 + 0x1p-40)
	bare := PublicPerturbation{Center: per.Center}
	per.LinearError += q.allowance(bare, per.Center) + 2*unit*(per.Linear+per.taken)
	return per
}

// steepest returns a Lipschitz constant of ∇ℓ on ℝᵈ and on Set.
func (q Public) steepest() float64 { return max(q.Constants.Smoothness, q.OnSet.Smoothness) }

// Reach returns a bound ρ on the norm of the minimizer θ* of J, the least of
//
//	sup ‖θ‖ over C
//	‖p‖ + (C₀ + √(C₀² + 2μNH))/μ,   C₀ = B_max + q̄‖p−θ̃‖ + G_r
//	‖p‖ + (C₀ + NG)/μ
//	‖θ̃‖ + (CenterSlope + B_max)/μ
//
// but at least ‖p‖. μ and q̄ hold for the real Q. Proof: docs/theory/release.md#release.reach.
func (q Public) Reach(per PublicPerturbation) float64 {
	mu, n := per.MinEig+q.Modulus-per.QuadError, float64(q.MaxRecords)
	c0 := per.Linear + per.LinearError + (per.MaxEig+per.QuadError)*(q.Anchor+per.Center) + q.Slope
	span, gradient := q.lossRange, q.Gradient
	if per.taken > 0 { // ℓ less its tangent at θ̃
		near := q.Anchor + per.Center
		span, gradient = q.steepest()*near*near, q.steepest()*near*(1+0x1p-40)
	}
	t := min((c0+math.Sqrt(c0*c0+2*mu*n*span))/mu, (c0+n*gradient)/mu)
	rho := min(q.Radius, q.Anchor+t)
	if per.CenterSlope > 0 {
		rho = max(min(rho, per.Center+(per.CenterSlope+per.Linear+per.LinearError)/mu), q.Anchor)
	}
	return rho * (1 + 0x1p-48)
}

// allowance returns A(ρ), an upper bound on the rounding that Residual adds at any point x of C
// with ‖x‖₂ ≤ ρ, whatever the records. At a pair x + low ResidualPair adds 4(d+4)²u‖Q‖‖low‖ more,
// but the error of the gradient is within A(ρ) there too.
func (q Public) allowance(per PublicPerturbation, rho float64) float64 {
	n, d := float64(q.MaxRecords), float64(q.Dim)
	slope, beta := q.slope(rho), q.OnSet.Smoothness // sup ‖∇ℓ‖, sup λ_max(∇²ℓ)
	far := rho + per.Center                         // ‖x−θ̃‖
	k := d + 4
	linear := per.Linear + per.taken
	a := 96*unit*unit*(linear+per.MaxEig*far) + 4*k*k*unit*unit*math.Sqrt(d)*per.MaxEig*far + 4*k*k*tiny
	switch sum := 6 * (maxGrain + 32) * unit * unit; { // the rounding of sums over a grain and of their total
	case q.exact:
		a += n*(exactSlope+sum)*slope + n*(exactSlope+k*k*unit*unit)*beta*(rho+q.Bounds.Label/q.Bounds.Row)
	case q.Linear:
		a += n*(allowSlope+sum)*slope + n*(allowSlope+k*k*unit*unit)*beta*rho
	default:
		a += n * (allowGrad + sum) * slope
	}
	// Underflow, and rows close to 0.
	rows := float64(max(q.Rows, 1)) // of one unit: what underflows does so in each
	a += n * rows * (5*k*tiny*(1+beta/q.Bounds.Row) + slope*min(1, 0x1p-500/q.Bounds.Row) + 0x1p-530*math.Sqrt(beta))
	dist := 0x1p-97
	if !q.Split {
		dist = 2 * allowDist
	}
	a = boundRoom*a + dist*(n*slope+linear+per.MaxEig*far+q.Modulus*rho)
	a += per.LinearError + per.QuadError*far
	if !q.Split {
		a += (n*beta + per.MaxEig + q.Modulus) * q.ProxFactor * unit * (rho + q.ProxScale)
	}
	return a * (1 + (d+64)*0x1p-52)
}

// slope returns a bound on ‖∇ℓ(x)‖₂ over x ∈ C with ‖x‖₂ ≤ rho.
func (q Public) slope(rho float64) float64 {
	return min(known(q.OnSet.Lipschitz), q.Gradient+q.OnSet.Smoothness*(rho+q.Anchor))
}

// Floor returns the least R for which a solver is sure to end within R of the minimizer of J, from
// public quantities:
//
//	4(E/μ + uρ),   E = A(4ρ) + S(4ρ).
//
// A is the allowance for rounding and γS the error of one step, of size γ, of the descent of
// internal/release, which needs this R: docs/theory/release.md#release.floor. Floor is +Inf if
// nothing bounds the minimizer or the rounding: for kinked losses, for operators of unknown
// accuracy, and for losses of unknown range and slope without a bounded Set.
func (q Public) Floor(per PublicPerturbation) float64 {
	mu := per.MinEig + q.Modulus - per.QuadError
	rho := q.Reach(per)
	e := q.allowance(per, 4*rho) + q.stepError(per, 4*rho)
	floor := 4 * (e/mu + unit*rho) * (1 + 0x1p-40)
	if !(mu > 0 && floor >= 0) {
		return math.Inf(1)
	}
	return floor
}

// stepError returns S: 1/γ times the error of x − γ∇f(x) and of the proximal map after it, for ‖x‖
// ≤ rho and a gradient whose error is within the allowance. 1/γ is the larger of ℓ and μ. If g is a
// sum over coordinates, points and proximal maps are in double-double.
func (q Public) stepError(per PublicPerturbation, rho float64) float64 {
	n := float64(q.MaxRecords)
	ell := max(n*q.OnSet.Smoothness, q.Modulus) + per.MaxEig
	size := 2*ell*rho + n*q.slope(rho) + per.Linear + per.taken + per.MaxEig*per.Center // ≥ ‖x‖/γ, ‖∇f‖, ‖x−γ∇f‖/γ
	if q.Split && q.Linear {
		return 0x1p-96 * size
	}
	return (q.ProxFactor + 3) * unit * (size + ell*q.ProxScale)
}

// Cover returns stated if it is not 0, and else the default R for a comparator of the given radius
// B: the larger of Floor and 1e-11·B. The error wraps [dp.ErrCondition] if Floor is +Inf or exceeds
// stated.
func (q Public) Cover(per PublicPerturbation, stated, radius float64) (float64, error) {
	floor := q.Floor(per)
	if math.IsInf(floor, 1) {
		if err := q.Smooth(); err != nil {
			return 0, err
		}
		return 0, fmt.Errorf("%w: nothing public bounds the minimizer or the rounding of its solver; want a bounded Set, "+
			"or a loss that declares a Range with operators that declare an Accuracy", dp.ErrCondition)
	}
	switch {
	case stated == 0:
		return max(floor, defaultCover*radius), nil
	case !(stated >= floor):
		return 0, fmt.Errorf("%w: Cover = %v, but in float64 a minimizer is sure to be reached only within %v: want at "+
			"least that, or 0 for the default", dp.ErrCondition, stated, floor)
	}
	return stated, nil
}

// ridge returns the weight of ½‖θ‖² that r is known to contain: a lower bound on its strong
// convexity.
func ridge(r prox.Operator, d int) float64 {
	g, ok := r.(prox.Coordinatewise)
	if !ok {
		return 0
	}
	least := math.Inf(1)
	for i := range d {
		_, l2, _, _ := g.Coordinate(i)
		least = min(least, l2)
	}
	return max(least, 0)
}

// known returns v, or +Inf if the constant v is not known.
func known(v float64) float64 {
	if v > 0 {
		return v
	}
	return math.Inf(1)
}

// raised returns an upper bound on a sum of d squares, or on its root, that was computed as v.
func raised(v float64, d int) float64 { return v * (1 + float64(d+16)*0x1p-52) }
