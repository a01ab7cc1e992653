package erm

import (
	"fmt"
	"math"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

// Check returns an error wrapping ErrProblem unless p has data, of any number of records, a loss that
// they mean something to, and parts whose parameters and dimensions fit, as far as they can be checked.
func (p *Problem) Check() error {
	if p == nil {
		return fmt.Errorf("%w: the problem is nil", ErrProblem)
	}
	_, d := p.Data.Dims()
	if d == 0 {
		return fmt.Errorf("%w: there is no Data, want data made by NewData, NewDataDense, package table or, of no records, by Empty", ErrProblem)
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
	if err := checkOperator("Reg", p.Reg, d); err != nil {
		return err
	}
	if p.Set != nil {
		if err := checkOperator("Set", p.Set, d); err != nil {
			return err
		}
		if r := p.Set.Radius(d); !(r >= 0) {
			return fmt.Errorf("%w: Set has radius %v in %d dimensions, want a nonempty set", ErrProblem, r, d)
		}
	}
	return nil
}

func checkOperator(field string, g prox.Operator, d int) error {
	if err := prox.Check(g, d); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrProblem, field, err)
	}
	return nil
}

// Constants returns the worst-case constants of the loss on the declared
// bounds of the data and on the radius of Set, +Inf without one. They depend
// on declared quantities only, never on a record. The error is that of Check.
func (p *Problem) Constants() (loss.Constants, error) {
	if err := p.Check(); err != nil {
		return loss.Constants{}, err
	}
	return p.constants(), nil
}

func (p *Problem) constants() loss.Constants {
	radius := math.Inf(1)
	if p.Set != nil {
		_, d := p.Data.Dims()
		radius = p.Set.Radius(d)
	}
	return p.Loss.Constants(p.Data.Bounds(), radius)
}

// Certifiable returns an error wrapping ErrProblem, and dp.ErrCondition too where it is the loss that
// is at fault, unless Residual can certify the minimizer of p: r + ι_C must have a closed-form proximal map
// (see prox.Sum) that implements prox.Subdifferential, and the loss must have no
// kink, at which float64 predictions hardly ever lie. It looks at no record.
func (p *Problem) Certifiable() error {
	_, err := p.certificate()
	return err
}

// certificate checks p and returns r + ι_C.
func (p *Problem) certificate() (prox.Subdifferential, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if math.IsInf(p.Loss.Constants(p.Data.Bounds(), math.Inf(1)).Smoothness, 1) {
		return nil, fmt.Errorf("%w: %w: Loss %T has Smoothness = +Inf, so its minimizer cannot be certified in float64; "+
			"want a smooth loss such as loss.Huber, loss.SmoothedHinge or loss.Moreau{Loss: …}, or sco.ProxGD", ErrProblem, dp.ErrCondition, p.Loss)
	}
	g, ok := prox.Sum(p.Reg, p.Set)
	if !ok {
		return nil, fmt.Errorf("%w: Reg %T and Set %T have no joint proximal map in closed form, so a minimizer on the "+
			"boundary of Set could not be certified; want a pair that prox.Sum knows, such as prox.L1 and prox.Box", ErrProblem, p.Reg, p.Set)
	}
	s, ok := g.(prox.Subdifferential)
	if !ok {
		return nil, fmt.Errorf("%w: %T does not implement prox.Subdifferential, so no point can be certified; want an "+
			"operator with Dist", ErrProblem, g)
	}
	return s, nil
}

// What a certificate rests on where the loss is not of package loss (DeclaredLoss), loss.Exact has
// no slope of it (ScalarAccuracy), or prox.Accuracy proves nothing of r + ι_C (DeclaredOperator), as of every
// operator that is not of package prox.
const (
	DeclaredLoss dp.Assumption = "the loss is convex and depends on nothing but the parameters and the record, and what its " +
		"methods declare holds for every record inside the declared bounds, also where it has a method from a loss that it embeds"
	ScalarAccuracy   dp.Assumption = "the loss computes its derivatives to 32 units in the last place"
	DeclaredOperator dp.Assumption = "the regularizer and the set are convex and do not depend on the records, and what their " +
		"methods declare holds where package prox does not prove it, also where they have a method from an operator that they " +
		"embed: coefficients, radius, subgradients, and a proximal map that is accurate as declared, or to 1024·d units in the last place"
)

// LossAssumptions returns what a release that rests on Residual assumes of l and the program
// does not check: nothing of an exact loss of package loss.
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

// exact reports whether the certificate has slopes of l to twice the precision, with a proof.
func exact(l loss.Loss) bool {
	if loss.Exact(l) != nil {
		return true
	}
	_, linear := l.(loss.Linear)
	return linear && l.Constants(loss.Bounds{Row: 1, Label: 1}, 1).Structure == loss.LSQ
}
