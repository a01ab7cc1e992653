// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package sco

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

// LossLocality is the assumption of noisy SGD about a loss that is not of package loss.
const LossLocality dp.Assumption = "the gradient of the caller's loss at one record is a function of the " +
	"parameters and of that record alone"

// locality returns the assumptions of noisy SGD about the parts of p.
func locality(p *erm.Problem) []dp.Assumption {
	list := p.Data.Assumptions()
	if !loss.Proved(p.Loss) {
		list = append(list, LossLocality)
	}
	if !prox.RoundingOf(p.Reg).Proved() || !prox.RoundingOf(p.Set).Proved() {
		list = append(list, erm.DeclaredOperator)
	}
	return list
}

// known returns the public quantities of p, with Anchor at the start w₀. Unlike p.Public it accepts
// a p whose minimizer cannot be certified.
func known(p *erm.Problem, rel dp.Relation) (q erm.Public, err error) {
	if err := p.Check(); err != nil {
		return q, fmt.Errorf("sco: %w", err)
	}
	n, d := p.Data.Dims()
	q = erm.Public{Dim: d, Records: p.Records, Bounds: p.Data.Bounds(), Radius: math.Inf(1)}
	if rel == dp.Replace {
		q.Records = n
	}
	if persons, ok := p.Data.Persons(); ok {
		q.Rows, q.Person = persons.Rows, persons.Column
	}
	if p.Set != nil {
		q.Radius = p.Set.Radius(d)
	}
	q.OnSet = p.Loss.Constants(q.Bounds, q.Radius)
	q.Constants = q.OnSet
	q.Anchor = floats.Norm(start(p.Set, d), 2) * (1 + float64(d+16)*0x1p-52)
	if _, err := joint(p); err != nil {
		return q, err
	}
	if q, err = q.Complete(rel); err != nil {
		return q, fmt.Errorf("sco: %w", err)
	}
	return q, nil
}

// joint returns r + ι_W, nil if there is neither.
func joint(p *erm.Problem) (prox.Operator, error) {
	if p.Set == nil && p.Reg == nil {
		return nil, nil
	}
	op, err := prox.Sum(p.Reg, p.Set)
	if err != nil {
		return nil, refuse(ErrMechanism, "Reg %T and Set %T have no joint proximal map in closed form, want a pair that "+
			"prox.Sum knows", p.Reg, p.Set)
	}
	return op, nil
}

// setting holds the arguments of all formulas: public quantities, a budget and M.
type setting struct {
	erm.Public
	rel    dp.Relation
	budget dp.Budget
	m      float64 // M
}

// newSetting checks the quantities that every method needs. radius is the field of a mechanism; 0
// means the largest distance that Set allows, since w₀ and w* lie in it.
func newSetting(q erm.Public, rel dp.Relation, b dp.Budget, radius float64) (setting, error) {
	rel = cmp.Or(rel, dp.Replace)
	q, err := q.Complete(rel)
	if err == nil {
		err = release.CheckUnits("a method of noisy gradients", q.Rows)
	}
	if err != nil {
		return setting{}, fmt.Errorf("sco: %w", err)
	}
	s := setting{Public: q, rel: rel, budget: b, m: cmp.Or(radius, q.Radius+q.Anchor)}
	switch {
	case q.Records < 1 && s.rel == dp.AddRemove:
		return s, refuse(dp.ErrCondition, "under %v the number of records is private: declare a public number in its "+
			"place, erm.Problem.Records", s.rel)
	case q.Records < 1:
		return s, refuse(ErrMechanism, "Records = %d, want the public number of records, at least 1", q.Records)
	case !(s.m > 0) || math.IsInf(s.m, 1):
		return s, refuse(ErrMechanism, "Radius = %v, want a public finite bound M > 0 on the distance from the start to "+
			"the solution, or a bounded Set", s.m)
	}
	if err := b.Check(); err != nil {
		return s, fmt.Errorf("sco: %w", err)
	}
	if b.Delta == 0 {
		return s, refuse(dp.ErrBudget, "Delta = 0, but Gaussian noise gives no pure guarantee, want a number in [%g, 1), "+
			"for example 1/n²", dp.MinDelta)
	}
	return s, nil
}

// Letters of formulas.
func (s setting) n() float64        { return float64(s.Records) }
func (s setting) d() float64        { return float64(s.Dim) }
func (s setting) logDelta() float64 { return -num.Log(s.budget.Delta) } // ln(1/δ)

// planFor calibrates for the public quantities of p.
func planFor(
	p *erm.Problem, rel dp.Relation, b dp.Budget, calibrate func(erm.Public, dp.Budget) (*Plan, error),
) (*Plan, error) {
	q, err := known(p, cmp.Or(rel, dp.Replace))
	if err != nil {
		return nil, err
	}
	q.Assumptions = locality(p)
	return calibrate(q, b)
}

// planAndFit plans and fits.
func planAndFit(
	ctx context.Context, plan func(*erm.Problem, dp.Budget) (*Plan, error), p *erm.Problem, b dp.Budget, src rand.Source,
) (*dp.Release, error) {
	if err := release.CheckContext(ErrMechanism, ctx); err != nil {
		return nil, fmt.Errorf("sco: %w", err)
	}
	pl, err := plan(p, b)
	if err != nil {
		return nil, err
	}
	return pl.Fit(ctx, p, src)
}
