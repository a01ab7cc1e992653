// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/linear"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/prefix"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/table"
)

// theoremDiscover is the identifier of a private search for a schema, with or without a fit after
// it: docs/theory/discovery.md#model.discover/1.
const theoremDiscover = "model.discover/1"

// Discovery holds the public choices of a private search for a schema. The zero value means that
// everything is automatic.
type Discovery struct {
	// Share of μ² that a fit without a schema spends on the search; 0 means 0.1.
	Share float64
	// Bins and Levels are the most bins of a number and levels of a category; 0 means 8 and 50.
	Bins, Levels int
	// Task is what the label is for: TwoClasses, Numbers, or "" for what its counts show. A fit
	// needs it before the search.
	Task string
	// Positive is the spelling of the positive class of two; "" means the later one in the order of
	// numbers or text.
	Positive string
	// Rows is the most lines of a person that count, if persons and not lines are protected. 0 means
	// what the table declares, and without one that lines are.
	Rows int
	// Person is the name of the column of ids of persons; "" means that of the table.
	Person string
}

// Tasks of a search for a schema.
const (
	TwoClasses = "two-classes"
	Numbers    = "number"
)

var tasks = []string{TwoClasses, Numbers}

// Shares and limits of a search, fixed on public data.
const (
	kindShare    = 0.02 // of μ² of the search, for the kinds of the columns
	keyShare     = 0.1  // of δ, for spellings that one record has alone
	defaultFound = 0.1  // share of μ² in a fit
	mostClasses  = 20
	mostColumns  = 2000
)

// roundShares divide the μ² of a column of numbers among its rounds.
var roundShares = []float64{0.53, 0.20, 0.15, 0.10}

// distinctShare of it tells whether its numbers occur once each.
const distinctShare = 0.02

func (o Discovery) complete() (Discovery, error) {
	o.Share, o.Bins = cmp.Or(o.Share, defaultFound), cmp.Or(o.Bins, 8)
	o.Levels = cmp.Or(o.Levels, 50)
	switch {
	case !(o.Share > 0 && o.Share < 1):
		return o, fmt.Errorf("%w: Share = %v of the search for a schema, want a number in (0, 1)", ErrOptions, o.Share)
	case o.Bins < 1 || o.Bins > 1000 || o.Levels < 1 || o.Levels > 100000:
		return o, fmt.Errorf("%w: Bins = %d and Levels = %d, want 1 to 1000 bins and 1 to 100,000 levels", ErrOptions,
			o.Bins, o.Levels)
	case o.Rows < 0 || o.Rows > erm.MaxRows:
		return o, fmt.Errorf("%w: Rows = %d, want the most lines of a person that count, 1 to %d, or 0 if a line is a record",
			ErrOptions, o.Rows, erm.MaxRows)
	case o.Person != "" && o.Rows == 0:
		return o, fmt.Errorf("%w: Person = %.40q with Rows = 0, want the most lines of a person that count, or no Person",
			ErrOptions, o.Person)
	case o.Task != "" && !slices.Contains(tasks, o.Task):
		return o, fmt.Errorf("%w: Task %.40q, want one of %s", ErrOptions, o.Task, strings.Join(tasks, ", "))
	}
	return o, nil
}

// A DiscoveryPlan fixes the noise and the cost of a private search for a schema from public
// quantities alone, before the first draw.
type DiscoveryPlan struct {
	choices  Discovery
	relation dp.Relation
	budget   dp.Budget
	columns  int // to discover, the label among them
	records  int // n, or the declared number; 0 for none
	t, q     float64
	cert     dp.Certificate
	fit      *followUp // nil for the schema alone
}

var _ dp.Plan = (*DiscoveryPlan)(nil)

// NewDiscoveryPlan plans the search in a table with a number of columns to discover, the label
// among them, and a public number of records: n under [dp.Replace], the declared one or 0 under
// [dp.AddRemove]. From o it uses Discover, Relation and Records.
//
// The error wraps [ErrOptions], [dp.ErrBudget], [dp.ErrRelation], or [dp.ErrCondition] where the
// records are too few to show anything; it depends on public numbers only.
func NewDiscoveryPlan(columns, records int, b dp.Budget, o *Options) (*DiscoveryPlan, error) {
	pl, err := newDiscovery(columns, records, b, o)
	if err == nil {
		err = pl.alone()
	}
	if err == nil {
		err = pl.refuse()
	}
	if err != nil {
		return nil, err
	}
	return pl, nil
}

// newDiscovery returns a plan without its noise.
func newDiscovery(columns, records int, b dp.Budget, o *Options) (*DiscoveryPlan, error) {
	if o == nil {
		o = &Options{}
	}
	choices, err := copied(cmp.Or(o.Discover, &Discovery{})).complete()
	if err != nil {
		return nil, err
	}
	pl := &DiscoveryPlan{choices: choices, relation: cmp.Or(o.Relation, dp.Replace), budget: b, columns: columns,
		records: records}
	if err := b.Check(); err != nil {
		return nil, prefix.Errorf("model: %w", err)
	}
	if err := pl.relation.Check(); err != nil {
		return nil, prefix.Errorf("model: %w", err)
	}
	switch {
	case b.Delta == 0:
		return nil, prefix.Errorf("model: %w: a search for a schema needs δ > 0, for spellings that one record has alone",
			dp.ErrCondition)
	case columns < 1 || columns > mostColumns:
		return nil, fmt.Errorf("%w: %d columns to discover, want 1 to %d: declare or ignore some", ErrOptions, columns,
			mostColumns)
	case records < 0 || records == 0 && pl.relation == dp.Replace:
		return nil, fmt.Errorf("%w: %d records, want the public number of records", ErrOptions, records)
	}
	pl.q = keyShare * b.Delta
	pl.cert = dp.Certificate{Budget: b, Relation: pl.relation, Theorem: theoremDiscover, Rows: choices.Rows,
		Person: choices.Person}
	if choices.Rows > 0 {
		pl.cert = pl.cert.With(erm.OneID)
	}
	return pl, nil
}

// rest returns the budget of everything but the thresholds, rounded down:
//
//	(ε + log(1 − Q), δ − Q)
func (pl *DiscoveryPlan) rest() (dp.Budget, error) {
	b := dp.Budget{Epsilon: pl.budget.Epsilon + math.Log1p(-pl.q)*(1+1e-12), Delta: pl.budget.Delta - pl.q}
	b.Epsilon, b.Delta = math.Nextafter(b.Epsilon, -1), math.Nextafter(b.Delta, 0)
	if !(b.Epsilon > 0) {
		return b, prefix.Errorf("model: %w: ε = %v is below a tenth of δ = %v: state a smaller δ", dp.ErrCondition,
			pl.budget.Epsilon, pl.budget.Delta)
	}
	return b, nil
}

// alone calibrates the search for a schema that no fit follows.
func (pl *DiscoveryPlan) alone() error {
	b, err := pl.rest()
	if err != nil {
		return err
	}
	at := func(mu float64) linear.Sequence { return linear.Sequence{Relation: dp.AddRemove, T: mu} }
	if pl.t, err = linear.LargestShift(b, 0, at); err != nil {
		return prefix.Errorf("model: %w", err)
	}
	for down := 1e-12; down < 1e-7; down *= 4 {
		if t := pl.t * (1 - down); at(t).Proves(b) {
			pl.t = t
			return nil
		}
	}
	pl.cert = pl.cert.With(dp.CalibrationArithmetic)
	return nil
}

// parts returns the weight of a unit, in which everything is counted.
func (pl *DiscoveryPlan) parts() float64 {
	if pl.choices.Rows > 0 {
		return table.PersonParts
	}
	return 1
}

// leastWeight returns the least weight of a line that counts.
func (pl *DiscoveryPlan) leastWeight() float64 {
	if pl.choices.Rows > 0 {
		return float64(table.PersonParts / pl.choices.Rows)
	}
	return 1
}

// unit names what neighbors differ in.
func (pl *DiscoveryPlan) unit() string { return release.Units(pl.choices.Rows) }

// sensitivity returns Δ, how far apart in ℓ₂ the counts of a column are on neighbors.
func (pl *DiscoveryPlan) sensitivity(f *fault.Set) float64 {
	return fault.At(f, fault.ColumnSensitivity, pair(pl.relation)) * pl.parts()
}

// kindSigma returns the noise of the counts of kinds of all columns.
func (pl *DiscoveryPlan) kindSigma(f *fault.Set) float64 {
	return pl.sensitivity(f) * math.Sqrt(float64(pl.columns)/kindShare) / pl.t * release.SafeScale
}

// part returns s of a column with weight w among columns with weights that add up to total.
func (pl *DiscoveryPlan) part(w, total float64) float64 {
	return math.Sqrt((1-kindShare)*w/total) * pl.t
}

// threshold returns the least T at which a unit of weight parts shows with probability at most q
// one of the spellings that it has alone, each with a weight of least or more:
//
//	P(w + round(σX) ≥ T) ≤ q·w/parts   at w = parts and at w = least
func threshold(sigma, q, parts, least float64) int {
	enough := func(t float64) bool {
		for _, w := range []float64{parts, least} {
			if !(num.LogQ((t-0.5-w)/sigma)*(1-1e-13) <= num.Log(q*(w/parts))) {
				return false
			}
		}
		return true
	}
	t := math.Ceil(max(0.5+parts-sigma*num.NormalQuantile(q), 0.5+least-sigma*num.NormalQuantile(q*(least/parts))))
	for !enough(t) {
		t = max(t+1, math.Nextafter(t, math.Inf(1))) // the latter from 2⁵³ on
	}
	for less := t; ; t = less {
		if less = min(t-1, math.Nextafter(t, 0)); !enough(less) {
			return int(min(t, 1<<62)) // no count is above release.Most
		}
	}
}

// chance returns the most probability with which a unit may show one of its own spellings in one of
// several columns: what δ pays for, and little enough that none of all units shows one.
func (pl *DiscoveryPlan) chance(columns int) float64 {
	return min(pl.q/float64(columns), noiseChance/float64(cmp.Or(pl.records, 1e6)))
}

// sight returns the threshold of a level if every column were text, and the deviation of a prefix
// sum of numbers.
func (pl *DiscoveryPlan) sight() (least int, deviation float64) {
	m := float64(pl.columns)
	p := pl.part(1, m)
	_, deviation = prefixNoise(release.NewRoot(numCells), pl.relation, p*math.Sqrt(roundShares[0]))
	t := threshold(pl.sensitivity(nil)/p*release.SafeScale, pl.chance(pl.columns), pl.parts(), pl.leastWeight())
	return int(math.Ceil(float64(t) / pl.parts())), deviation
}

// prefixNoise returns the noise of the weighted sums at s, and the deviation of a prefix sum.
func prefixNoise(m *release.Root, r dp.Relation, s float64) (sigma, deviation float64) {
	sigma = m.Sensitivity(r) / s * release.SafeScale
	return sigma, sigma * math.Sqrt(float64(m.Norm2())) / release.RootOne / release.RootOne
}

// refuse returns an error if the search can hardly show anything.
func (pl *DiscoveryPlan) refuse() error {
	if pl.blind() {
		least, _ := pl.sight()
		share := 1.0
		if pl.fit != nil {
			share = pl.choices.Share
		}
		enough, _ := num.BisectTo(func(eps float64) bool {
			other := *pl
			other.budget.Epsilon = eps
			err := other.alone()
			other.t *= math.Sqrt(share)
			return err == nil && !other.blind()
		}, 100*pl.budget.Epsilon, pl.budget.Epsilon, 1e-3)
		return prefix.Errorf("model: %w: discovery: with %d %s, %d columns and ε = %.4g a level would have to be in %d "+
			"%s to be seen. Declare columns, ignore some, or use ε ≥ %.3g", dp.ErrCondition, pl.records, pl.unit(),
			pl.columns, pl.budget.Epsilon, least, pl.unit(), math.Ceil(100*enough)/100)
	}
	if sigma, _ := prefixNoise(release.NewRoot(numCells), pl.relation,
		pl.part(1, 2*float64(pl.columns))*math.Sqrt(roundShares[3]/2)/pl.parts()); !(sigma < 1<<55) {
		return prefix.Errorf("model: %w: discovery: noise of deviation %.3g is beyond integers: use a larger ε",
			dp.ErrCondition, sigma)
	}
	return nil
}

func (pl *DiscoveryPlan) blind() bool {
	least, deviation := pl.sight()
	n := float64(pl.records)
	return n > 0 && float64(least) > n/2 && deviation > n/8
}

// Certificate states what the search costs, with the fit if there is one.
func (pl *DiscoveryPlan) Certificate() dp.Certificate {
	if pl == nil || pl.cert.Theorem == "" {
		return dp.Certificate{}
	}
	return pl.cert.With()
}

// Profile returns the privacy profile. For the search alone it is Q + δ_G(ε + log(1 − Q); T), for a
// search and a fit what the budget implies.
func (pl *DiscoveryPlan) Profile() dp.Profile {
	if pl == nil || pl.cert.Theorem == "" {
		return dp.Unknown()
	}
	if pl.fit != nil {
		return pl.budget.Profile()
	}
	return dp.Symmetric(func(eps float64) float64 {
		return min(1, (pl.q+dp.GaussianDelta(eps+math.Log1p(-pl.q), pl.t))*(1+1e-12))
	}, nil)
}

// String describes the plan in prose that may be published.
func (pl *DiscoveryPlan) String() string {
	if pl == nil || pl.cert.Theorem == "" {
		return "an empty plan"
	}
	least, deviation := pl.sight()
	var b strings.Builder
	fmt.Fprintf(&b, "%v-differential privacy for %s, by theorem %s. A search for the schema of %d columns, as "+
		"private as a Gaussian release with μ = %.4g", pl.budget, release.Neighbors(pl.cert),
		theoremDiscover, pl.columns, pl.t)
	fmt.Fprintf(&b, ", counts kinds of fields, spellings and numbers. If all columns are text, a spelling is shown from "+
		"about %d %s on; the count of numbers below an edge has a standard deviation near %.3g.", least, pl.unit(), deviation)
	if n := pl.records; n > 0 && least > n/10 {
		fmt.Fprintf(&b, " That is more than a tenth of the %d %s: rarer levels become \"other\".", n, pl.unit())
	}
	if pl.fit != nil {
		b.WriteString(" " + pl.fit.words)
	}
	return b.String()
}

// Discover finds a schema for a table: it plans, charges the ledger of the options if there is one,
// and releases noisy counts, from which the schema follows. The schema may be published; its
// Discovery holds all that was released. A problem that the counts show, such as a label that is
// neither classes nor a number, is not an error: Discovery.Problem tells it, and the budget counts
// as spent.
//
// From o it uses Discover, Relation, Records, Ledger and Source. The error is that of
// [NewDiscoveryPlan], or of the ledger or the source. If the ledger cannot commit to the schema,
// Discover returns the schema, which was paid for, with the error.
func Discover(ctx context.Context, u *table.Undeclared, b dp.Budget, o *Options) (*table.Schema, error) {
	if err := release.CheckContext(ErrOptions, ctx); err != nil {
		return nil, err
	}
	if u == nil {
		return nil, fmt.Errorf("%w: the table is nil, want one that table.Discovery read", ErrOptions)
	}
	o, err := withRows(u, cmp.Or(o, &Options{}))
	if err != nil {
		return nil, err
	}
	pl, err := NewDiscoveryPlan(len(u.Columns()), publicRecords(u, o), b, o)
	if err != nil {
		return nil, err
	}
	head, err := charge(ctx, o.Ledger, pl, o.Source)
	if err != nil {
		return nil, err
	}
	s, err := pl.search(ctx, u, o.Source)
	if err == nil && o.Ledger != nil {
		var text strings.Builder
		s.WriteTo(&text) // a builder has no errors
		err = o.Ledger.Commit(ctx, head, []byte(text.String()))
	}
	if err != nil {
		return s, prefix.Errorf("model: %w", err)
	}
	return s, nil
}

// withRows returns the options with the number of lines of a person that the table declares.
func withRows(u *table.Undeclared, o *Options) (*Options, error) {
	p, _ := u.Persons()
	choices := copied(cmp.Or(o.Discover, &Discovery{}))
	if choices.Rows != 0 && choices.Rows != p.Rows {
		return nil, fmt.Errorf("%w: Rows = %d of the search, the table declares %d lines of a person: want one number, or 0",
			ErrOptions, choices.Rows, p.Rows)
	}
	if choices.Person != "" && choices.Person != p.Column {
		return nil, fmt.Errorf("%w: Person = %.40q of the search, the table declares %.40q: want one column, or \"\"",
			ErrOptions, choices.Person, p.Column)
	}
	choices.Rows, choices.Person = p.Rows, p.Column
	out := *o
	out.Discover = choices
	return &out, nil
}

// publicRecords returns n under dp.Replace, and the declared number under dp.AddRemove.
func publicRecords(u *table.Undeclared, o *Options) int {
	if cmp.Or(o.Relation, dp.Replace) == dp.Replace {
		return u.Records()
	}
	return o.Records
}

// Release draws the noise once and returns the schema that [Discover] returns. The caller accounts
// for its cost. The error wraps [ErrOptions] for a table that the plan was not made for, or is
// about the source.
func (pl *DiscoveryPlan) Release(ctx context.Context, u *table.Undeclared, src rand.Source) (*table.Schema, error) {
	if err := release.CheckContext(ErrOptions, ctx); err != nil {
		return nil, err
	}
	if pl == nil || pl.cert.Theorem == "" || u == nil || len(u.Columns()) != pl.columns || !pl.fits(u) ||
		pl.relation == dp.Replace && u.Records() != pl.records {
		return nil, fmt.Errorf("%w: the plan is empty, or the table is nil or has other columns or another number of "+
			"records than the plan: want a plan that was made for it", ErrOptions)
	}
	s, err := pl.search(ctx, u, src)
	if err != nil {
		return nil, prefix.Errorf("model: %w", err)
	}
	return s, nil
}

// fits reports whether the table has the persons of the plan, or none.
func (pl *DiscoveryPlan) fits(u *table.Undeclared) bool {
	p, _ := u.Persons()
	return p.Rows == pl.choices.Rows && p.Column == pl.choices.Person
}

// searched is the table of a search.
var searched = fault.NewStep[*table.Undeclared](fault.SearchTable)

// search draws the noise once and returns the schema.
func (pl *DiscoveryPlan) search(ctx context.Context, u *table.Undeclared, src rand.Source) (*table.Schema, error) {
	source, cert := release.Open(src, pl.cert)
	u = fault.At(fault.From(ctx), searched, u)
	s := &searcher{pl: pl, u: u, cert: cert, f: fault.From(ctx), src: source, matrix: map[int]*release.Root{}}
	out := s.run()
	if err := source.Err(); err != nil {
		return nil, err
	}
	return out, nil
}
