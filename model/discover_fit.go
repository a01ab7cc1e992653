// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strconv"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/linear"
	engine "github.com/privopt/privopt/internal/lop"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/prefix"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/table"
)

// followUp is the fit after a search. Everything that its privacy depends on is fixed before the
// first draw; the dimension, the grids and larger ridges follow from the schema, which is released.
type followUp struct {
	options Options
	plan    *Plan // for the public guess of the number of parameters
	words   string
}

// guessed returns the public guess of the number of parameters: an intercept, and bins and a level
// of missing values for every column.
func (pl *DiscoveryPlan) guessed() int { return 1 + (pl.choices.Bins+1)*(pl.columns-1) }

// newFitPlan plans a search for a schema and a fit by the schema that it finds, for one budget:
// before anything is drawn it fixes all that the guarantee depends on. The arguments are those of
// [NewDiscoveryPlan]; Task of the choices has to be stated.
func newFitPlan(columns, records int, b dp.Budget, o *Options) (*DiscoveryPlan, error) {
	pl, err := newDiscovery(columns, records, b, o)
	if err != nil {
		return nil, err
	}
	if o == nil || pl.choices.Task == "" {
		return nil, fmt.Errorf("%w: a fit without a schema needs the Task of the label, %q or %q: the noise of the fit is "+
			"fixed before the label is known", ErrOptions, TwoClasses, Numbers)
	}
	t, err := pl.followUp(*o)
	if err != nil {
		return nil, err
	}
	q, err := t.public()
	if err != nil {
		return nil, prefix.Errorf("model: %w", err)
	}
	gradients := t.options.byGradients(q, b, true)
	if t.composed() && pl.choices.Rows > 0 && !gradients {
		return nil, fmt.Errorf("%w: a fit by person without a schema is proved for one release, not for least squares: want "+
			"the task %q, the loss %q or %q, or a schema first, by privopt schema --private", ErrOptions, TwoClasses,
			PseudoHuber, Quantile)
	}
	rest, err := pl.rest()
	if err != nil {
		return nil, err
	}
	quick := *pl // with its share of μ², as if the fit were a Gaussian release
	quick.fit = &followUp{}
	if err := quick.alone(); err != nil {
		return nil, err
	}
	quick.t *= math.Sqrt(pl.choices.Share)
	if err := quick.refuse(); err != nil {
		return nil, err
	}
	if t.composed() || gradients {
		err = pl.bySequence(t, rest)
	} else {
		err = pl.byCurve(t, rest)
	}
	if err != nil {
		return nil, err
	}
	fit := pl.fit.plan
	pl.cert = pl.cert.With(fit.cert.Assumptions...)
	pl.fit.words = fmt.Sprintf("%.0f %% of μ² pay for the search, the rest for the fit. %s", 100*pl.choices.Share,
		fit.params.Decision)
	return pl, nil
}

// followUp returns the task of the fit for a stand-in of the schema, of the guessed dimension.
func (pl *DiscoveryPlan) followUp(o Options) (*task, error) {
	switch {
	case o.Intervals != nil:
		return nil, fmt.Errorf("%w: intervals need a schema before the fit: find it first, by privopt schema --private",
			ErrOptions)
	case o.Penalty.Group > 0 || o.Set != Set{}:
		return nil, fmt.Errorf("%w: a group penalty or a set needs a schema before the fit: find it first, by privopt "+
			"schema --private", ErrOptions)
	}
	s := &table.Schema{Version: 1, Records: pl.records, Neighbors: pl.relation, Intercept: true,
		Label: table.Label{Column: "label", Positive: []string{"1"}, Negative: []string{"0"}}}
	if pl.choices.Task == Numbers {
		lo, hi := -1.0, 1.0
		s.Label = table.Label{Column: "label", Min: &lo, Max: &hi}
	}
	c := table.Column{Name: "columns"}
	for j := range max(pl.guessed()-1, 1) {
		c.Levels = append(c.Levels, strconv.Itoa(j))
	}
	s.Columns = []table.Column{c}
	if m := pl.choices.Rows; m > 0 {
		s.Person, s.Rows = cmp.Or(pl.choices.Person, "person"), m
	}
	o.Relation, o.Records = pl.relation, pl.records
	o.Source, o.Ledger = nil, nil
	return schemaTask(s, &o)
}

// bySequence composes the search and the fit as one sequence.
func (pl *DiscoveryPlan) bySequence(t *task, rest dp.Budget) error {
	t.search = pl.choices.Share
	fit, err := t.plan(rest)
	if err != nil {
		return err
	}
	pl.t = fit.shift(fit.params.Sequence.Shares.Search)
	pl.fit = &followUp{options: t.options, plan: fit}
	return nil
}

// byCurve composes the search with a fit of one release whose δ is at most D(e) at every real e,
// whatever the schema:
//
//	δ ≤ E D(ε − T²/2 − TZ),   Z standard normal
//
// The fit is planned for its share of μ², then T is as large as the budget allows.
func (pl *DiscoveryPlan) byCurve(t *task, rest dp.Budget) error {
	q, err := t.check(rest)
	if err != nil {
		return prefix.Errorf("model: %w", err)
	}
	within := rest
	within.Delta *= spare
	mu, err := dp.Calibrate(dp.GaussianCurve, within)
	if err != nil {
		return prefix.Errorf("model: %w", err)
	}
	m := lop.Mechanism{Relation: pl.relation, Radius: t.options.radius(q, pl.columns)}
	for give := 0.0; give < 0.5; give = max(2*give, 0.005) {
		part := (1 - pl.choices.Share) * (1 - give)
		b := dp.Budget{Epsilon: dp.Curve(dp.GaussianCurve(math.Sqrt(part) * mu)).Epsilon(within.Delta), Delta: within.Delta}
		single, err := m.Calibrate(q, b)
		if err != nil {
			return prefix.Errorf("model: %w", err)
		}
		goal := math.Sqrt(pl.choices.Share) * mu
		if found := largestSearch(single.Profile(), pl.relation, within, goal); found >= 0.95*goal {
			pl.t = found
			pl.fit = &followUp{options: t.options, plan: pl.minimizerPlan(t, q, single.Params(), rest)}
			return nil
		}
	}
	return prefix.Errorf("model: %w: no share of the budget pays for a search and a fit", dp.ErrCondition)
}

// minimizerPlan returns the plan of a sequence of one minimizer with the numbers of p.
func (pl *DiscoveryPlan) minimizerPlan(t *task, q erm.Public, p lop.Params, rest dp.Budget) *Plan {
	o := p.Sensitivity / p.OutputSigma
	s := &Sequence{Mu: math.Sqrt(pl.t*pl.t + p.Shift*p.Shift + o*o)}
	share := func(v float64) float64 { return v * v / (s.Mu * s.Mu) }
	s.Shares = Shares{Last: share(p.Shift), Output: share(o), Search: share(pl.t)}
	s.C = p.Smoothness / (p.Ridge + p.Modulus) * linear.SafeC
	if pl.choices.Rows < 2 {
		s.C = math.Log1p(p.Smoothness/(p.Ridge+p.Modulus)) * linear.SafeC
	}
	fit := &Plan{smoothness: q.Constants.Smoothness, modulus: q.Modulus, monotone: q.Monotone,
		settings: engine.Settings{Package: "model", Relation: pl.relation}}
	fit.params = t.params(rest, q)
	fit.params.Sequence, fit.params.Decision = s, "One release: the minimizer of a loss with bounded slopes."
	fit.cert = dp.Certificate{Budget: rest, Relation: pl.relation, Theorem: theoremDiscover, Rows: pl.choices.Rows,
		Person: pl.choices.Person}.With(
		dp.CalibrationArithmetic).With(q.Assumptions...)
	return fit
}

// Cells of the integral of largestSearch, from −10 to 8 standard deviations around its middle.
const (
	curveCells = 900
	curveBlock = 10 // cells that get one value of D where they hardly count
	below      = 10
	above      = 8
)

// largestSearch returns the largest T ≤ 1.1·goal at which a bound on E D(ε − T²/2 − TZ) is at most
// δ, 0 if half the goal is too much. On a cell the bound takes D at the lower end, because D does
// not increase; below all cells it takes 1.
func largestSearch(p dp.Profile, r dp.Relation, b dp.Budget, goal float64) float64 {
	most := 1.1 * goal
	lo := b.Epsilon - most*most/2 - below*most
	step := (below + above) * most / curveCells
	var e, d [curveCells + 1]float64
	matters := false // the block, at T = goal
	curve := func(e float64) float64 {
		if r == dp.AddRemove {
			return max(p.Remove(e), p.Add(e))
		}
		return p.Remove(e)
	}
	for i := range e {
		e[i] = lo + float64(i)*step
		switch {
		case i%curveBlock == 0:
			d[i] = curve(e[i])
			mid, end := b.Epsilon-goal*goal/2, e[i]+curveBlock*step
			matters = d[i]*(num.NormalCDF((end-mid)/goal)-num.NormalCDF((e[i]-mid)/goal)) > 1e-6*b.Delta
		case matters:
			d[i] = curve(e[i])
		default: // the value at the lower end of the block is a bound too
			d[i] = d[i-1]
		}
	}
	within := func(t float64) bool {
		mid := b.Epsilon - t*t/2
		last := num.NormalCDF((e[0] - mid) / t)
		sum := last
		for i := range curveCells {
			next := num.NormalCDF((e[i+1] - mid) / t)
			sum += d[i] * (next - last + 0x1p-52)
			last = next
		}
		sum += d[curveCells] * num.NormalCDF((mid-e[curveCells])/t)
		return sum*(1+1e-9) <= b.Delta
	}
	if !within(goal / 2) {
		return 0
	}
	if within(most) {
		return most
	}
	t, _ := num.BisectTo(within, goal/2, most, 1e-9)
	return t
}

// FitUndeclared finds a schema for a table and fits a model by it, within one budget that the
// ledger of the options is charged for once. The schema is a part of the model. If it allows no
// fit, the error wraps [dp.ErrCondition], the schema is returned without a model, and the budget is
// spent. The error is else that of [NewDiscoveryPlan] or [Fit], which also returns both where the
// ledger cannot commit to the model.
func FitUndeclared(ctx context.Context, u *table.Undeclared, b dp.Budget, o *Options) (*Model, *table.Schema, error) {
	if err := release.CheckContext(ErrOptions, ctx); err != nil {
		return nil, nil, err
	}
	if u == nil || o == nil {
		return nil, nil, fmt.Errorf("%w: the table or the options are nil, want both", ErrOptions)
	}
	o, err := withRows(u, o)
	if err != nil {
		return nil, nil, err
	}
	pl, err := newFitPlan(len(u.Columns()), publicRecords(u, o), b, o)
	if err != nil {
		return nil, nil, err
	}
	if n := int64(u.Records()); n > pl.fit.plan.params.MaxRecords {
		return nil, nil, prefix.Errorf("model: %w: the table has more than %d %s, the most that the plan allows: "+
			"declare a larger number of %s", dp.ErrCondition, pl.fit.plan.params.MaxRecords, pl.unit(), pl.unit())
	}
	if index, l := u.Label(); index < 0 && (l.Levels != nil || (l.Min != nil) != (pl.choices.Task == Numbers)) {
		return nil, nil, fmt.Errorf("%w: Task %q does not fit the label %q as it is declared: want %q for a range, %q for "+
			"two classes", ErrOptions, pl.choices.Task, l.Column, Numbers, TwoClasses)
	}
	head, err := charge(ctx, o.Ledger, pl, o.Source)
	if err != nil {
		return nil, nil, err
	}
	s, err := pl.search(ctx, u, o.Source)
	if err != nil {
		return nil, nil, prefix.Errorf("model: %w", err)
	}
	if problem := s.Discovery.Problem; problem != "" {
		return nil, s, prefix.Errorf("model: %w: the schema that was found allows no fit: %s", dp.ErrCondition, problem)
	}
	m, err := pl.model(ctx, u, s, o)
	if err != nil {
		return nil, s, err
	}
	m.head = head
	return m, s, m.commit(ctx, o.Ledger)
}

// model fits by the schema that was found.
func (pl *DiscoveryPlan) model(ctx context.Context, u *table.Undeclared, s *table.Schema, o *Options) (*Model, error) {
	data, err := u.Data(s)
	if err != nil {
		return nil, err
	}
	options := pl.fit.options
	options.Records = pl.records
	t, err := newTask(data, &options)
	if err != nil {
		return nil, err
	}
	fit := *pl.fit.plan
	fit.encoder = data.Encoder
	_, fit.params.Dim = data.Records.Dims()
	fit.params.Sequence = copied(fit.params.Sequence)
	out, err := fit.run(ctx, t.problem, o.Source)
	if err != nil {
		return nil, err
	}
	fit.params.Budget = pl.budget
	m := &Model{theta: out.theta, cert: pl.cert.With(out.cert.Assumptions...), params: fit.params.clone(),
		choice: out.choice, prose: pl.String(), encoder: data.Encoder, build: readBuild()}
	m.threshold()
	return m, nil
}
