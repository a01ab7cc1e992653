package sco

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/specfun"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/noise"
)

// Public is all that a calibration of ObjPert or Output knows of a problem: declared quantities,
// never a record. Plan fills it from an erm.Problem.
type Public struct {
	// Dim is d, the number of parameters.
	Dim int
	// Records is n under dp.Replace, and under dp.AddRemove a public number in
	// its place, which a mechanism takes from its field Records.
	Records int
	// Constants of one record's loss, on W.
	Constants loss.Constants
	// Radius is M, a bound on the distance from the start to the comparator. A
	// wrong one costs utility and never privacy.
	Radius float64
	// Budget of the whole release.
	Budget dp.Budget

	faults *fault.Set // of an audit; nil else
}

// check refuses what no mechanism can work with.
func (q Public) check(rel dp.Relation) error {
	switch {
	case q.Dim < 1:
		return fmt.Errorf("%w: Dim = %d, want at least 1", ErrMechanism, q.Dim)
	case q.Records < 1 && rel == dp.AddRemove:
		return fmt.Errorf("sco: %w: under %v the number of records is private: set Records to a public number in its place", dp.ErrCondition, rel)
	case q.Records < 1:
		return fmt.Errorf("%w: Records = %d, want the public number of records, at least 1", ErrMechanism, q.Records)
	case !(q.Radius > 0) || math.IsInf(q.Radius, 1):
		return fmt.Errorf("%w: Radius = %v, want a public finite bound M > 0 on the distance from the start to the solution, or a bounded Set", ErrMechanism, q.Radius)
	}
	if err := q.Budget.Check(); err != nil {
		return fmt.Errorf("sco: %w", err)
	}
	if q.Budget.Delta == 0 {
		return fmt.Errorf("sco: %w: Delta = 0, but Gaussian noise gives no pure guarantee, want a number in [%g, 1), for example 1/n²", dp.ErrBudget, dp.MinDelta)
	}
	return nil
}

// n and eps are shorthands for formulas.
func (q Public) n() float64        { return float64(q.Records) }
func (q Public) d() float64        { return float64(q.Dim) }
func (q Public) logDelta() float64 { return -specfun.Log(q.Budget.Delta) } // ln(1/δ)

// public returns what may be known of p, which must pass Check. start is where
// a method begins, nil for the projection of 0.
func public(p *erm.Problem, rel dp.Relation, records int, radius float64, b dp.Budget) (Public, error) {
	if err := p.Check(); err != nil {
		return Public{}, fmt.Errorf("sco: %w", err)
	}
	n, d := p.Data.Dims()
	q := Public{Dim: d, Records: records, Radius: radius, Budget: b}
	if rel == dp.Replace {
		if records != 0 && records != n {
			return Public{}, fmt.Errorf("%w: Records = %d, but the problem has %d under %v, want 0", ErrMechanism, records, n, rel)
		}
		q.Records = n
	}
	r := math.Inf(1)
	if p.Set != nil {
		r = p.Set.Radius(d)
	}
	if q.Radius == 0 && !math.IsInf(r, 1) {
		q.Radius = r
		if p.Set.Func(make([]float64, d)) != 0 { // 0 is not in W: ‖P(0) − w‖ ≤ 2r
			q.Radius = 2 * r
		}
	}
	q.Constants = p.Loss.Constants(p.Data.Bounds(), r)
	return q, nil
}

// source returns the source of a release and what is assumed of it.
func source(src rand.Source) (rand.Source, []dp.Assumption) {
	if src == nil {
		return noise.Secure(), []dp.Assumption{dp.RealArithmetic}
	}
	return src, []dp.Assumption{dp.RealArithmetic, dp.CallerSource}
}
