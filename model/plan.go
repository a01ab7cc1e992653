// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/linear"
	engine "github.com/privopt/privopt/internal/lop"
	"github.com/privopt/privopt/internal/prefix"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/table"
)

// Theorems of plans with several releases, see docs/theory/composition.md#model.auto/1. A plan of
// one release has a theorem of package lop.
const (
	theoremAuto      = "model.auto/1"      // minimizers and noisy histograms, composed as one sequence
	theoremIntervals = "model.intervals/1" // the same with the sums for standard errors
	theoremGradients = "model.auto/2"      // Gaussian releases alone, with shares that depend on outputs
)

// Params are the numbers of a [Plan]. All are public.
type Params struct {
	Loss       Loss        `json:"loss"`
	Penalty    Penalty     `json:"penalty,omitzero"`
	Set        Set         `json:"set,omitzero"`
	Intervals  *Intervals  `json:"intervals,omitempty"`
	Relation   dp.Relation `json:"relation"`
	Budget     dp.Budget   `json:"budget"`
	Dim        int         `json:"dim"`
	Records    int         `json:"records,omitzero"` // n under Replace, else the declared number
	MaxRecords int64       `json:"maxRecords"`
	// Rows is the most lines of a person that count, and Records counts persons; 0 if a unit of
	// privacy is a record.
	Rows     int         `json:"rows,omitzero"`
	Bounds   loss.Bounds `json:"bounds"`
	Decision string      `json:"decision"` // the mechanism and the reason for it, in words
	// Release holds the numbers of a plan of one release, nil for a sequence.
	Release *lop.Params `json:"release,omitempty"`
	// Sequence holds those of a sequence, nil for one release.
	Sequence *Sequence `json:"sequence,omitempty"`
}

// theorem returns the identifier of the theorem that the certificate rests on.
func (p Params) theorem() string {
	switch s := p.Sequence; {
	case s == nil:
		return p.Release.Theorem
	case s.Shares.Search > 0:
		return theoremDiscover
	case s.Shares.Gradients > 0:
		return theoremGradients
	case p.Intervals != nil:
		return theoremIntervals
	}
	return theoremAuto
}

// Plan fixes the mechanism, the noise and the cost of a fit from public quantities alone. It may be
// published, and serves any number of fits.
type Plan struct {
	params   Params
	cert     dp.Certificate
	seq      linear.Sequence
	settings engine.Settings // of the minimizers of a sequence, without their clip
	single   *lop.Plan
	monotone bool
	failure  float64
	search   float64 // share of μ² of a search for a schema before the fit

	smoothness, modulus float64        // β and μ_r
	encoder             *table.Encoder // nil without a schema
	options             Options        // without ledger and source, for simulations
	rough               *rough         // nil but for simulations: minimizers are not solved
}

var _ dp.Plan = (*Plan)(nil)

// NewPlan plans for tables of the schema. It needs no record: under [dp.Replace] it uses the number
// of records that the schema declares, while [Fit] uses the number in the table. nil options mean
// that everything is automatic.
//
// The error wraps [table.ErrSchema], [ErrOptions], [dp.ErrBudget], [dp.ErrRelation],
// [erm.ErrProblem] or [dp.ErrCondition].
func NewPlan(s *table.Schema, b dp.Budget, o *Options) (*Plan, error) {
	t, err := schemaTask(s, o)
	if err != nil {
		return nil, err
	}
	return t.plan(b)
}

// Check returns those errors of [NewPlan] that need no calibration. It is quick, so a program can
// call it before it reads a large table.
func Check(s *table.Schema, b dp.Budget, o *Options) error {
	t, err := schemaTask(s, o)
	if err != nil {
		return err
	}
	if _, err := t.check(b); err != nil {
		return prefix.Errorf("model: %w", err)
	}
	return nil
}

// schemaTask returns the task of a schema, without records.
func schemaTask(s *table.Schema, o *Options) (*task, error) {
	e, err := s.Encoder()
	if err != nil {
		return nil, err
	}
	b, err := erm.NewBuilder(e.Dim(), true, e.Bounds())
	if err != nil {
		return nil, err
	}
	empty := b.Data
	if p, ok := e.Persons(); ok {
		empty = func() *erm.Data { d, _ := b.ByPerson(context.Background(), p); return d } // the schema checked p
	}
	task, err := newTask(&table.Data{Records: empty(), Encoder: e}, o)
	if err != nil {
		return nil, err
	}
	if task.options.Relation == dp.Replace && s.Records == 0 {
		return nil, fmt.Errorf("%w: a plan needs the public number of records: declare \"records\" in the schema", ErrOptions)
	}
	return task, nil
}

// DefaultDelta returns δ = 1/n₀² for a declared number of records, 1e-10 for none.
func DefaultDelta(records int) float64 {
	if records < 1 {
		return 1e-10
	}
	return 1 / (float64(records) * float64(records))
}

// task is a problem with complete options.
type task struct {
	problem *erm.Problem // Records is n under Replace, n₀ under AddRemove, 0 for not declared
	encoder *table.Encoder
	options Options
	search  float64 // share of μ² of a search for a schema before the fit
}

// newTask completes the options for the data. It reads no record.
func newTask(data *table.Data, opt *Options) (*task, error) {
	if data == nil || data.Records == nil {
		return nil, fmt.Errorf("%w: the data are nil, want a table", ErrOptions)
	}
	t := &task{encoder: data.Encoder}
	if opt != nil {
		t.options = *opt
	}
	o := &t.options
	if err := samePersons(data); err != nil {
		return nil, err
	}
	kind, classes := table.Kind(0), 0
	schema := &table.Schema{}
	if e := data.Encoder; e != nil {
		kind, classes = e.Kind(), e.NumClasses()
		schema = e.Schema()
	}
	if o.Relation != 0 { // an Encoder has checked the relation of its schema
		if err := o.Relation.Check(); err != nil {
			return nil, prefix.Errorf("model: Relation: %w", err)
		}
	}
	o.Relation = cmp.Or(o.Relation, schema.Neighbors, dp.Replace)
	var err error
	if o.Loss, err = o.Loss.complete(kind); err != nil {
		return nil, err
	}
	bounds := data.Records.Bounds()
	if o.Loss.Name == Multinomial && classes == 0 {
		classes = int(bounds.Label) + 1
	}
	if o.Intervals != nil {
		o.Intervals = copied(o.Intervals)
		if err := o.Intervals.complete(); err != nil {
			return nil, err
		}
	}
	if o.Records < 0 || !(o.Radius >= 0) || math.IsInf(o.Radius, 1) || !(o.Clip >= 0) || math.IsInf(o.Clip, 1) {
		return nil, fmt.Errorf("%w: Records = %d, Radius = %v, Clip = %v, want finite numbers ≥ 0", ErrOptions, o.Records,
			o.Radius, o.Clip)
	}
	if o.Clip > 0 && o.Loss.Name != Squares {
		return nil, fmt.Errorf("%w: Clip = %v is for the loss %q, the slopes of %q are bounded", ErrOptions, o.Clip, Squares,
			o.Loss.Name)
	}
	records := cmp.Or(o.Records, schema.Records)
	if o.Relation == dp.Replace {
		n, _ := data.Records.Dims()
		records = cmp.Or(n, schema.Records)
	}
	p := &erm.Problem{Data: data.Records, Loss: o.Loss.of(bounds, classes), Records: records}
	if p.Reg, err = o.Penalty.operator(float64(records), columnGroups(data.Encoder)); err != nil {
		return nil, err
	}
	if p.Set, err = o.Set.set(); err != nil {
		return nil, err
	}
	t.problem = p
	return t, nil
}

// samePersons refuses records of persons other than the schema declares. Without it a table with a
// column of ids that was read without them would protect single lines.
func samePersons(data *table.Data) error {
	if data.Encoder == nil {
		return nil
	}
	want, persons := data.Encoder.Persons()
	if has, ok := data.Records.Persons(); ok != persons || has != want && ok {
		return fmt.Errorf("%w: the schema and the records disagree about persons: read a table with \"person\" in its "+
			"schema by table.ReadCSV, or its records by erm.OpenByPerson; packed files and other sources have no ids",
			ErrOptions)
	}
	return nil
}

// plan calibrates, from the public quantities of the problem alone.
func (t *task) plan(b dp.Budget) (*Plan, error) {
	q, err := t.check(b)
	if err != nil {
		return nil, prefix.Errorf("model: %w", err)
	}
	o := t.options
	pl := &Plan{encoder: t.encoder, params: t.params(b, q), search: t.search, options: o}
	pl.options.Ledger, pl.options.Source = nil, nil
	switch {
	case o.byGradients(q, b, t.search > 0):
		err = pl.automatic(q)
	case t.composed():
		err = pl.sequence(q, o)
	default:
		err = pl.release(q, o)
	}
	if err != nil {
		return nil, prefix.Errorf("model: %w", err)
	}
	return pl, nil
}

// params returns the numbers that need no calibration.
func (t *task) params(b dp.Budget, q erm.Public) Params {
	o := t.options
	return Params{
		Loss: o.Loss, Penalty: o.Penalty, Set: o.Set, Intervals: o.Intervals, Relation: o.Relation, Budget: b, Dim: q.Dim,
		Records: q.Records, MaxRecords: q.MaxRecords, Rows: q.Rows, Bounds: t.problem.Data.Bounds(),
	}
}

// composed reports whether the plan is a sequence of releases.
func (t *task) composed() bool { return t.options.Loss.Name == Squares || t.options.Intervals != nil }

// check returns the public quantities of the problem, and errors that need no calibration.
func (t *task) check(b dp.Budget) (erm.Public, error) {
	if err := b.Check(); err != nil {
		return erm.Public{}, err
	}
	q, err := t.public()
	if err != nil {
		return q, err
	}
	if t.composed() {
		if err := t.options.checkSequence(q, b); err != nil {
			return q, err
		}
	}
	return q, q.Smooth()
}

// public returns the public quantities of the problem. Without data, the declared number of records
// takes the place of the number in the table.
func (t *task) public() (erm.Public, error) {
	relation := t.options.Relation
	if n, _ := t.problem.Data.Dims(); n > 0 || relation == dp.AddRemove {
		return t.problem.Public(relation)
	}
	q, err := t.problem.Public(dp.AddRemove)
	if err != nil {
		return q, err
	}
	q.MaxRecords = int64(q.Records)
	return q.Complete(relation)
}

// release plans one release of package lop, with Gaussian or pure noise: the one of smaller E‖b‖.
func (pl *Plan) release(q erm.Public, o Options) error {
	b, d := pl.params.Budget, float64(q.Dim)
	m := lop.Mechanism{Relation: pl.params.Relation, Radius: o.radius(q, entries(pl.encoder, q.Dim))}
	pure, err := m.Calibrate(q, dp.Budget{Epsilon: b.Epsilon})
	if err != nil && b.Delta == 0 {
		return err
	}
	pl.single = pure
	words := "pure noise, because δ = 0"
	if b.Delta > 0 {
		gauss, failed := m.Calibrate(q, b)
		if failed != nil {
			return failed
		}
		words = fmt.Sprintf("pure noise, whose expected norm in %d dimensions is at most that of Gaussian noise", q.Dim)
		if err != nil || gauss.Params().Sigma*math.Sqrt(d) < d/pure.Params().Rate {
			pl.single, words = gauss, fmt.Sprintf("Gaussian noise, whose expected norm in %d dimensions is less than that "+
				"of pure noise", q.Dim)
		}
	}
	p := pl.single.Params()
	pl.cert, pl.params.Release = pl.single.Certificate(), &p
	pl.params.Decision = fmt.Sprintf("Linear objective perturbation with %s. The ridge minimizes the bound on the "+
		"excess risk for solutions of norm at most %.4g.", words, m.Radius)
	return nil
}

// usualRadius is the default of Options.Radius for rows and labels up to 1. For labels with a range
// it is rangeRadius times the root of the number of entries of a row: where these are equal, a
// single coefficient of 2/3 of it moves a prediction from the middle of the range to its end.
const (
	usualRadius = 20
	rangeRadius = 1.5
)

// radius returns Radius or its default, for rows with so many entries that are not 0.
func (o Options) radius(q erm.Public, entries int) float64 {
	switch {
	case o.Radius > 0:
		return o.Radius
	case kinds[o.Loss.Name] == table.Range:
		most := min(usualRadius, rangeRadius*math.Sqrt(float64(entries)))
		return min(q.Radius, most*q.Bounds.Label/q.Bounds.Row)
	case q.Radius < usualRadius:
		return q.Radius
	}
	return usualRadius / q.Bounds.Row
}

// entries returns how many entries of an encoded row are not 0: one for each column and the
// intercept. Without a schema it is the number of parameters.
func entries(e *table.Encoder, dim int) int {
	if e == nil {
		return dim
	}
	columns := map[string]bool{}
	for _, f := range e.Features() {
		columns[f.Column] = true
	}
	return len(columns)
}

// Params returns a copy of the numbers of the plan.
func (pl *Plan) Params() Params { return cmp.Or(pl, new(Plan)).params.clone() }

// unit names what Records counts.
func (p Params) unit() string {
	if p.Rows > 0 {
		return "people"
	}
	return "records"
}

// amount is Records and what it counts.
func (p Params) amount() string { return fmt.Sprint(p.Records, " ", p.unit()) }

func (p Params) clone() Params {
	p.Intervals, p.Release, p.Sequence = copied(p.Intervals), copied(p.Release), copied(p.Sequence)
	return p
}

// copied returns a pointer to a copy, nil for nil.
func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return new(*p)
}

func (pl *Plan) made() bool { return pl != nil && pl.cert.Theorem != "" }

// Certificate states what one fit costs, from the secure source.
func (pl *Plan) Certificate() dp.Certificate { return cmp.Or(pl, new(Plan)).cert.With() }

// Profile returns the privacy profile of one fit.
func (pl *Plan) Profile() dp.Profile {
	switch {
	case !pl.made():
		return dp.Unknown()
	case pl.single != nil:
		return pl.single.Profile()
	}
	remove, add := pl.seq.Profile()
	return dp.Profile{Remove: remove, Add: add, RDP: pl.seq.RDP, Failure: pl.failure}
}

// String describes the plan in prose that may be published.
func (pl *Plan) String() string {
	if !pl.made() {
		return "an empty plan"
	}
	p := pl.params
	var b strings.Builder
	fmt.Fprintf(&b, "%v-differential privacy for %s, by theorem %s. %s", pl.cert.Budget, release.Neighbors(pl.cert),
		pl.cert.Theorem, p.Decision)
	f := pl.Forecast()
	if s := p.Sequence; s != nil {
		fmt.Fprintf(&b, " Together, the releases are as private as one Gaussian release with μ = %.4g (sensitivity "+
			"divided by standard deviation)", s.Mu)
		if c := s.C + s.FirstC; c > 0 {
			fmt.Fprintf(&b, ", plus at most %.3g of ε for curvature", c)
		}
		b.WriteString(".")
		if p.Intervals != nil {
			fmt.Fprintf(&b, " Standard errors take %.0f %% of μ².", 100*(s.Shares.Hessian+s.Shares.Scores))
		}
	}
	if !math.IsInf(f.Excess, 1) {
		fmt.Fprintf(&b, " On average, the mean loss exceeds its minimum by at most %.3g.", f.Excess)
	}
	return b.String()
}
