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

// The most records of a neighboring data set: under AddRemove n is private, but rounding has to be
// bounded for every data set that the relation admits.
const (
	recordsFactor  = 4       // times the declared number of records
	defaultRecords = 1 << 30 // where none is declared
	largestRecords = 1 << 40
)

// Public is what may be known of a problem: declared quantities, never a record.
//
// With g = r + ι_C and p = prox_g(0), the projection of 0 on C where r is a norm,
// the last fields are about p. A Public that a caller writes stands for the best problem with what
// is stated in it: rows within 1, no set, no regularizer, exact slopes. Fits refuse a problem that is worse.
type Public struct {
	Dim int // d
	// Records is n under dp.Replace, and under dp.AddRemove the declared n₀, 0 if not declared.
	Records int
	// MaxRecords is N, the most records of any data set of the relation: n under dp.Replace, and
	// under dp.AddRemove 4·Records, 2³⁰ where not declared, at most 2⁴⁰. A Fit on more records is
	// refused, which says that there are more.
	MaxRecords int64
	Bounds     loss.Bounds
	Constants  loss.Constants // on Set for LSQ and GLM, on ℝᵈ for others
	OnSet      loss.Constants // on Set whatever the structure
	Modulus    float64        // μ_r, the strong convexity of r
	Radius     float64        // sup ‖θ‖₂ over Set; +Inf, or 0 in a literal, without one

	Linear    bool    // the loss depends on θ through ⟨a,θ⟩ only
	Monotone  bool    // it declares that the sign of φ′ is fixed for each record: loss.Constants.Monotone
	Classes   int     // K where the loss is loss.Multinomial, else 0
	Exact     bool    // its slopes are known to more than twice the precision: loss.Exact
	Split     bool    // g is a sum over coordinates, so that points may have twice the precision
	Anchor    float64 // ‖p‖₂
	Slope     float64 // G_r ≥ dist(0, ∂g(p))
	Gradient  float64 // G ≥ ‖∇ℓ(p;a,b)‖₂ for one record
	LossRange float64 // H ≥ ℓ(p;a,b) − inf ℓ for one record

	// The rounding of Prox and Shift of g is at most ProxFactor·u·(‖x‖₂+ProxScale), see prox.Accuracy;
	// a ProxFactor of 0 means unknown unless Split and Linear hold.
	ProxFactor, ProxScale float64

	// Assumptions that a certificate over this problem rests on.
	Assumptions []dp.Assumption

	operator prox.Subdifferential // g
	envelope loss.Envelope        // the loss, if it is one
}

// Public checks p and returns what may be known of it. Nothing after it needs to check again.
//
// The error wraps ErrProblem for a problem whose parts do not fit together or that Residual could
// not certify, and dp.ErrRelation for an invalid relation. Neither depends on a record.
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
		Radius:  math.Inf(1),
		Modulus: ridge(p.Reg, d),
		Exact:   exact(p.Loss),

		Assumptions: append(LossAssumptions(p.Loss), p.Data.Assumptions()...),

		operator: g,
	}
	if rel == dp.Replace {
		q.Records, q.MaxRecords = n, max(int64(n), 1)
	}
	if p.Set != nil {
		q.Radius = p.Set.Radius(d)
	}
	_, q.Linear = p.Loss.(loss.Linear)
	q.envelope, _ = p.Loss.(loss.Envelope)
	if l, ok := p.Loss.(loss.Multinomial); ok {
		q.Classes = l.Classes
	}
	q.OnSet = p.Loss.Constants(q.Bounds, q.Radius)
	q.Monotone = q.Linear && q.OnSet.Monotone
	q.Constants = q.OnSet
	if s := q.OnSet.Structure; s != loss.LSQ && s != loss.GLM {
		q.Constants = p.Loss.Constants(q.Bounds, math.Inf(1))
	}
	q.anchor(p.Loss, g)
	return q.Complete(rel)
}

// anchor fills in what is about p = prox_g(0) and about the rounding of g.
func (q *Public) anchor(l loss.Loss, g prox.Subdifferential) {
	at := make([]float64, q.Dim)
	g.Prox(at, at, 1)
	q.Anchor = raised(floats.Norm(at, 2), q.Dim) + prox.Shift(g, at)
	q.Slope = q.SlopeAt(at)
	k := l.Constants(q.Bounds, q.Anchor)
	q.LossRange, q.Gradient = known(k.Range), known(k.Lipschitz)
	_, q.Split = prox.Separable(g)
	var proved bool
	if q.ProxFactor, q.ProxScale, proved = prox.Accuracy(g, q.Dim); !proved {
		q.Assumptions = append(q.Assumptions, DeclaredOperator)
	}
}

// Complete checks the fields of q and fills in those that a caller left at 0: Records under
// Replace is required, MaxRecords follows from it, and quantities that are not stated become +Inf.
// The result is a fixed point and shares nothing with q. The error wraps ErrProblem or dp.ErrRelation.
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
	case q.MaxRecords < 0 || q.MaxRecords > largestRecords:
		return Public{}, fmt.Errorf("%w: Public.MaxRecords = %d, want at most 2⁴⁰, or 0 for the default", ErrProblem, q.MaxRecords)
	}
	for _, f := range []struct {
		name string
		v    float64
	}{
		{"Modulus", q.Modulus}, {"Radius", q.Radius}, {"Anchor", q.Anchor}, {"Slope", q.Slope}, {"Gradient", q.Gradient},
		{"LossRange", q.LossRange}, {"ProxFactor", q.ProxFactor}, {"ProxScale", q.ProxScale},
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
	if q.operator == nil { // a literal
		for _, v := range []*float64{&q.Radius, &q.LossRange, &q.Gradient} {
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
		if q.ProxFactor == 0 { // no regularizer, and slopes that are exact
			q.Split, q.Exact = q.Linear, q.Linear
		}
	}
	return q, nil
}

// Envelope returns the bound on the curvature of a record whose gradient has a norm between lo and
// hi (loss.Envelope), nil where the loss declares none and in a Public that no Problem made.
func (q Public) Envelope() func(lo, hi float64) float64 {
	if q.envelope == nil {
		return nil
	}
	return func(lo, hi float64) float64 { return q.envelope.Envelope(q.Bounds, lo, hi) }
}

// Covered reports whether what q declares of the sign of φ′, of the classes and of the curvature at a
// gradient is no weaker than in plan: the same loss on the same bounds, or a plan that uses none of it.
func (q Public) Covered(plan Public) bool {
	return (q.Monotone || !plan.Monotone) && (plan.Classes == 0 || q.Classes == plan.Classes) &&
		(plan.envelope == nil || reflect.DeepEqual(q.envelope, plan.envelope) && q.Bounds == plan.Bounds)
}

// SlopeAt returns dist(0, ∂g(x)), what Slope is at p: +Inf outside the domain of g, and in a Public
// that no Problem made.
func (q Public) SlopeAt(x []float64) float64 {
	if q.operator == nil {
		return math.Inf(1)
	}
	return raised(q.operator.Dist(x, make([]float64, len(x))), len(x))
}

// Smooth returns an error wrapping dp.ErrCondition for a loss without a known, finite Smoothness:
// no point that float64 holds can be certified next to a kink, and none can be descended to.
func (q Public) Smooth() error {
	if b := q.OnSet.Smoothness; !(b > 0) || math.IsInf(b, 1) {
		return fmt.Errorf("%w: the loss has Smoothness = %v, so its minimizer cannot be certified; want a smooth loss: "+
			"loss.Moreau{Loss: …, Beta: …} is one for every kinked loss of ⟨a,θ⟩, loss.SmoothedHinge for the hinge", dp.ErrCondition, b)
	}
	return nil
}

// Admit returns an error wrapping ErrProblem if p has more records than MaxRecords: it is outside
// the domain of the guarantee. That there are more is then known.
func (q Public) Admit(p *Problem) error {
	if p == nil {
		return fmt.Errorf("%w: the problem is nil, want one with data and a loss", ErrProblem)
	}
	if n, _ := p.Data.Dims(); int64(n) > q.MaxRecords {
		return fmt.Errorf("%w: the data have more than MaxRecords = %d records, for which rounding is accounted; declare "+
			"Problem.Records", ErrProblem, q.MaxRecords)
	}
	return nil
}

// ridge returns the weight of ½‖θ‖² that r is known to contain.
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

// known returns v, and +Inf for a constant that is not known.
func known(v float64) float64 {
	if v > 0 {
		return v
	}
	return math.Inf(1)
}

// raised returns a bound above a sum of squares, or a norm, of d numbers that was computed as v.
func raised(v float64, d int) float64 { return v * (1 + float64(d+16)*0x1p-52) }
