package model

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/linear"
	"github.com/privopt/privopt/internal/prefix"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/table"
)

// Theorems of plans with several releases, see docs/theory/composition.md#model.auto/1; a plan of one release has that of package lop.
const (
	TheoremAuto      = "model.auto/1"      // minimizers and noisy histograms, composed as one sequence
	TheoremIntervals = "model.intervals/1" // the same with the sums for standard errors
)

// Shares divide μ², the square of the sensitivity over the noise of the whole plan,
// among the releases of a sequence.
type Shares struct {
	Labels    float64 `json:"labels,omitzero"`    // histogram of |b|‖a‖
	First     float64 `json:"first,omitzero"`     // first minimizer
	Residuals float64 `json:"residuals,omitzero"` // histogram of the residuals of the first minimizer
	Last      float64 `json:"last"`               // last minimizer
	Hessian   float64 `json:"hessian,omitzero"`   // Σ φ″aa′
	Scores    float64 `json:"scores,omitzero"`    // Σ φ′²aa′
	Output    float64 `json:"output"`             // output noise of every minimizer
}

// Params are the numbers of a Plan, a copy. All are public.
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
	Bounds     loss.Bounds `json:"bounds"`
	Decision   string      `json:"decision"` // what was chosen and why, in words
	// Release holds the numbers of a plan of one release, nil for a sequence.
	Release *lop.Params `json:"release,omitempty"`
	// Sequence holds those of a sequence, nil for one release.
	Sequence *Sequence `json:"sequence,omitempty"`
}

// Sequence are the numbers of releases that are accounted for together: with
// shares w, a minimizer has s = G/σ = √w·μ and a Gaussian release a noise of its
// sensitivity over √w·μ. They are fixed before a record is read; clip and ridge
// follow from earlier outputs.
type Sequence struct {
	Mu      float64 `json:"mu"`
	Shares  Shares  `json:"shares"`
	TwoStep bool    `json:"twoStep"`         // histograms and a first minimizer choose the clip of the last
	C       float64 `json:"c"`               // what the curvature of the last minimizer may cost
	FirstC  float64 `json:"firstC,omitzero"` // the same of the first one
	Clip    float64 `json:"clip,omitzero"`   // of the last minimizer, unless TwoStep
}

// Plan is what a fit will do and cost, fixed from public quantities alone. It has no
// exported field, may be published, and serves any number of fits.
type Plan struct {
	params   Params
	cert     dp.Certificate
	seq      linear.Sequence
	settings linear.Settings // of the minimizers of a sequence, without their clip
	single   *lop.Plan
	monotone bool
	failure  float64

	smoothness, modulus float64        // β and μ_r
	encoder             *table.Encoder // nil without a schema
}

var _ dp.Plan = (*Plan)(nil)

// NewPlan plans for tables of the schema, of which no record is needed. Under
// dp.Replace the number of records is that of the schema; Fit plans anew for the
// number that the table has. nil options mean automatic.
//
// The error wraps table.ErrSchema, ErrOptions, dp.ErrBudget, dp.ErrRelation,
// erm.ErrProblem or dp.ErrCondition.
func NewPlan(s *table.Schema, b dp.Budget, o *Options) (*Plan, error) {
	t, err := schemaTask(s, o)
	if err != nil {
		return nil, err
	}
	return t.plan(b)
}

// Check returns the errors of NewPlan that show without a calibration, which takes most of the time
// of a plan. A program can call it before it reads a large table.
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
	empty, err := erm.Empty(e.Dim(), e.Bounds())
	if err != nil {
		return nil, err
	}
	task, err := newTask(&table.Data{Records: empty, Encoder: e}, o)
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

// task is a problem with the options of a fit, complete.
type task struct {
	problem *erm.Problem // Records is n under Replace, n₀ under AddRemove, 0 for not declared
	encoder *table.Encoder
	options Options
}

// newTask puts data and options together. It reads no record.
func newTask(data *table.Data, opt *Options) (*task, error) {
	if data == nil || data.Records == nil {
		return nil, fmt.Errorf("%w: the data are nil, want a table", ErrOptions)
	}
	t := &task{encoder: data.Encoder}
	if opt != nil {
		t.options = *opt
	}
	o := &t.options
	kind, classes, schema := table.Kind(0), 0, &table.Schema{}
	if e := data.Encoder; e != nil {
		kind, classes, schema = e.Kind(), e.NumClasses(), e.Schema()
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
		return nil, fmt.Errorf("%w: Records = %d, Radius = %v, Clip = %v, want finite numbers ≥ 0", ErrOptions, o.Records, o.Radius, o.Clip)
	}
	if o.Clip > 0 && o.Loss.Name != Squares {
		return nil, fmt.Errorf("%w: Clip = %v is for the loss %q, the slopes of %q are bounded", ErrOptions, o.Clip, Squares, o.Loss.Name)
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

// plan calibrates. Of the problem it sees what is public.
func (t *task) plan(b dp.Budget) (*Plan, error) {
	q, err := t.check(b)
	if err != nil {
		return nil, prefix.Errorf("model: %w", err)
	}
	o := t.options
	pl := &Plan{encoder: t.encoder, params: Params{
		Loss: o.Loss, Penalty: o.Penalty, Set: o.Set, Intervals: o.Intervals, Relation: o.Relation, Budget: b, Dim: q.Dim,
		Records: q.Records, MaxRecords: q.MaxRecords, Bounds: t.problem.Data.Bounds(),
	}}
	if t.composed() {
		err = pl.sequence(q, o)
	} else {
		err = pl.release(q, o)
	}
	if err != nil {
		return nil, prefix.Errorf("model: %w", prefix.Of("lop", err))
	}
	return pl, nil
}

// composed reports whether the plan is a sequence of releases.
func (t *task) composed() bool { return t.options.Loss.Name == Squares || t.options.Intervals != nil }

// check returns the public quantities of the problem, and the errors of a plan that show without
// a calibration.
func (t *task) check(b dp.Budget) (erm.Public, error) {
	if err := b.Check(); err != nil {
		return erm.Public{}, err
	}
	q, err := t.public()
	if err == nil && t.composed() {
		err = t.options.checkSequence(q, b)
	}
	return q, cmp.Or(err, q.Smooth())
}

// checkSequence returns an error unless a sequence of releases can serve the options.
func (o Options) checkSequence(q erm.Public, b dp.Budget) error {
	switch {
	case b.Delta == 0:
		return fmt.Errorf("%w: least squares and intervals need Gaussian noise: state δ > 0, or choose the loss %q or %q "+
			"without intervals", dp.ErrCondition, PseudoHuber, Quantile)
	case !q.Linear:
		return fmt.Errorf("%w: intervals are for losses of one prediction, not for %q", ErrOptions, o.Loss.Name)
	case o.Intervals != nil && (o.Penalty.Lasso > 0 || o.Penalty.Group > 0 || o.Set != Set{}):
		return fmt.Errorf("%w: intervals with a lasso, a group penalty or a set: want none of them, because intervals are "+
			"proved for smooth problems on the whole space", ErrOptions)
	case q.Records == 0:
		return fmt.Errorf("%w: least squares and intervals need the public number of records: declare \"records\" in the "+
			"schema, or Records of the options", ErrOptions)
	case q.MaxRecords > mostSummed:
		return fmt.Errorf("%w: least squares and intervals are for at most %d records; under add-remove, declare at most a "+
			"quarter of that number", ErrOptions, int64(mostSummed))
	case o.Intervals != nil && q.Dim > mostDim:
		return fmt.Errorf("%w: intervals are for at most %d parameters, got %d", ErrOptions, mostDim, q.Dim)
	}
	return nil
}

// public returns what is public of the problem. Before there are data, the declared
// number of records stands for theirs.
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

// release plans one release of package lop, with Gaussian or with pure noise,
// whichever has the smaller E‖b‖.
func (pl *Plan) release(q erm.Public, o Options) error {
	b, d := pl.params.Budget, float64(q.Dim)
	m := lop.Mechanism{Relation: pl.params.Relation, Radius: cmp.Or(o.Radius, radius(q))}
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
			pl.single, words = gauss, fmt.Sprintf("Gaussian noise, whose expected norm in %d dimensions is less than that of pure noise", q.Dim)
		}
	}
	p := pl.single.Params()
	pl.cert, pl.params.Release = pl.single.Certificate(), &p
	pl.params.Decision = fmt.Sprintf("Linear objective perturbation with %s. The ridge minimizes the bound on the excess risk for solutions of "+
		"norm at most %.4g.", words, m.Radius)
	return nil
}

// radius is the default of Options.Radius.
func radius(q erm.Public) float64 {
	if q.Radius < 20 {
		return q.Radius
	}
	return 20 / q.Bounds.Row
}

// Numbers of the automatic rule, which were fixed on data that is public.
const (
	outputShare = 0.001 // of every output noise
	labelShare  = 0.015
	firstShare  = 0.07
	residShare  = 0.025
	firstC      = 0.05 // of ε
	intervalC   = 0.1  // of ε
	mostC       = 20   // e⁻²⁰β is as good a ridge as any smaller one
	mostNoise   = 0.12 // deviation of a bin over n up to which two steps pay
	defaultClip = 0.3
)

// curvatureShares are the shares of ε that curvature may cost.
var curvatureShares = []float64{0.02, 0.03, 0.04, 0.06, 0.08, 0.1, 0.13, 0.16, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5}

// spare is the part of δ that remains once rare events of the noise are paid for.
const spare = 1 - 0x1p-50

// sequence plans several releases, or one minimizer with a clip that is chosen.
func (pl *Plan) sequence(q erm.Public, o Options) error {
	b, p := pl.params.Budget, &pl.params
	pl.smoothness, pl.modulus = q.Constants.Smoothness, q.Modulus
	pl.settings, pl.monotone = linear.Settings{Package: "model", Relation: p.Relation}, q.Monotone
	n, d, eps := float64(q.Records), float64(q.Dim), b.Epsilon
	s := &Sequence{Shares: Shares{Output: outputShare}, C: min(intervalC*eps, mostC)}
	p.Sequence = s
	if o.Intervals != nil {
		s.Shares.Hessian, s.Shares.Scores = o.Intervals.HessianShare, o.Intervals.ScoreShare
	}
	p.Decision = "One release: the minimizer of a loss with bounded slopes."
	s.Shares.Last = 1 - s.Shares.Hessian - s.Shares.Scores - s.Shares.Output
	if o.Loss.Name == Squares {
		two := *s
		two.TwoStep, two.FirstC = true, min(firstC*eps, mostC)
		two.Shares.Labels, two.Shares.First, two.Shares.Residuals = labelShare, firstShare, residShare
		two.Shares.Last = s.Shares.Last - labelShare - firstShare - residShare - outputShare
		if o.Intervals == nil {
			for _, at := range []*Sequence{s, &two} {
				if err := pl.curvatureCost(at, n, d); err != nil {
					return err
				}
			}
		}
		mu, err := pl.mu(two, 0)
		if err != nil {
			return err
		}
		t2 := pl.pair() / (math.Sqrt(residShare) * mu)
		switch {
		case o.Clip > 0:
			s.Clip = o.Clip
			p.Decision = "Least squares in one step, with the stated clip."
		case t2 > mostNoise*n || two.Shares.Last <= 0:
			s.Clip = defaultClip
			p.Decision = fmt.Sprintf("Least squares in one step, with slopes clipped at %.4g of their range. For %d records, a noisy "+
				"histogram (standard deviation %.3g per bin) is too noisy to choose the clip.", s.Clip, q.Records, t2)
		default:
			*s = two
			p.Decision = fmt.Sprintf("Least squares in two steps: noisy histograms of %d records (standard deviation %.3g per bin) and a first "+
				"fit choose the clip and the ridge of the final fit.", q.Records, t2)
		}
	}
	var err error
	if s.Mu, err = pl.mu(*s, 0); err != nil {
		return err
	}
	proved := pl.prove(s)
	pl.seq = pl.composed(*s, s.Mu)
	pl.failure = float64(len(pl.seq.S)) * linear.StepFailure(q.Dim, b)
	theorem := TheoremAuto
	if o.Intervals != nil {
		theorem = TheoremIntervals
	}
	pl.cert = dp.Certificate{Budget: b, Relation: p.Relation, Theorem: theorem}
	if !proved {
		pl.cert = pl.cert.With(dp.CalibrationArithmetic)
	}
	pl.cert = pl.cert.With(q.Assumptions...)
	return nil
}

// pair returns M, the ℓ₂ sensitivity of a sum of nonnegative orthogonal terms of norm at
// most 1: 1, or √2 for a record that is replaced.
func (pl *Plan) pair() float64 {
	if pl.params.Relation == dp.Replace {
		return math.Sqrt2
	}
	return 1
}

// gradients returns G/L: 1, or 2 for a record that is replaced.
func (pl *Plan) gradients() float64 {
	if pl.params.Relation == dp.Replace {
		return 2
	}
	return 1
}

// composed returns the sequence of releases at μ.
func (pl *Plan) composed(s Sequence, mu float64) linear.Sequence {
	w := s.Shares
	q := linear.Sequence{Relation: pl.params.Relation, Monotone: pl.monotone}
	gauss := w.Labels + w.Residuals + w.Hessian + w.Scores
	if s.TwoStep {
		q.C, q.S = append(q.C, s.FirstC), append(q.S, math.Sqrt(w.First)*mu)
		gauss += w.Output
	}
	q.C, q.S = append(q.C, s.C), append(q.S, math.Sqrt(w.Last)*mu)
	q.T = math.Sqrt(gauss+w.Output) * mu
	return q
}

// mu returns the largest μ that the budget allows the sequence, up to the given relative error.
func (pl *Plan) mu(s Sequence, tolerance float64) (float64, error) {
	b := pl.params.Budget
	b.Delta *= spare
	return linear.LargestShift(b, tolerance, func(mu float64) linear.Sequence { return pl.composed(s, mu) })
}

// prove reports whether the sequence at μ is certainly within the budget, of which rare events of
// the noise take their part; if need be, it lowers μ by a relative 1e-6 at most. The shifts of the
// releases are below those of the sequence by safeScale, which is more than the rounding of
// their formulas.
func (pl *Plan) prove(s *Sequence) bool {
	b := pl.params.Budget
	b.Delta *= spare
	for down := 0.0; down < 1e-6; down = max(1e-12, 4*down) {
		mu := s.Mu * (1 - down)
		if seq := pl.composed(*s, mu); seq.Proves(b) && linear.ProvesFailure(pl.params.Dim, len(seq.S), pl.params.Budget, b.Delta) {
			s.Mu = mu
			return true
		}
	}
	return false
}

// curvatureCost sets c = fε with the least risk for guesses that are public.
func (pl *Plan) curvatureCost(s *Sequence, n, d float64) error {
	const rho2, slope = 0.06, 0.25
	best, least := 0.0, math.Inf(1)
	for _, f := range curvatureShares {
		s.C = min(f*pl.params.Budget.Epsilon, mostC)
		mu, err := pl.mu(*s, 1e-5) // enough to choose by
		if err != nil {
			return err
		}
		sigma := slope * pl.gradients() / mu
		ridge := max(1/math.Expm1(s.C), sigma*sigma*d/(n*rho2))
		if r := risk(n, d, ridge, sigma, rho2); r < least {
			best, least = s.C, r
		}
	}
	s.C = best
	return nil
}

// risk returns what least squares with ridge Δ and noise σ loses for rows with
// Σaa′ = (n/d)I and a signal of energy ρ²:
//
//	ρ²(Δ/(h+Δ))² + σ²dh/((h+Δ)²n),  h = n/d
func risk(n, d, ridge, sigma, rho2 float64) float64 {
	h := n / d
	return rho2*math.Pow(ridge/(h+ridge), 2) + sigma*sigma*d*h/(math.Pow(h+ridge, 2)*n)
}

// Params returns a copy of the numbers of the plan.
func (pl *Plan) Params() Params {
	if !pl.made() {
		return Params{}
	}
	return pl.params.clone()
}

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
func (pl *Plan) Certificate() dp.Certificate {
	if !pl.made() {
		return dp.Certificate{}
	}
	return pl.cert.With()
}

// Profile returns the privacy profile of one fit.
func (pl *Plan) Profile() dp.Profile {
	switch {
	case !pl.made():
		return dp.Unknown()
	case pl.single != nil:
		return pl.single.Profile()
	}
	remove, add := pl.seq.Profile()
	return dp.Profile{Remove: remove, Add: add, Failure: pl.failure}
}

// Forecast is what a plan expects, from guesses that are public and no claim.
type Forecast struct {
	// Sigma is the noise that a coordinate of the sum of gradients gets and Ridge the
	// weight of (Δ/2)‖θ‖², for rows and labels in [−1, 1].
	Sigma, Ridge float64
	// Deviation is the standard deviation that noise gives a coefficient of encoded
	// rows, if the records spread evenly over the coordinates.
	Deviation float64
	// Records is the number of records from which on sampling adds more to the error
	// of a coefficient than privacy.
	Records float64
	// Excess bounds the expected excess of the mean loss against solutions of norm at
	// most Options.Radius, +Inf where no bound is known.
	Excess float64
}

// Forecast returns what the plan expects.
func (pl *Plan) Forecast() Forecast {
	f := Forecast{Excess: math.Inf(1)}
	if !pl.made() {
		return f
	}
	p := pl.params
	n, d, bend, slope := float64(p.Records), float64(p.Dim), 1.0, 1.0
	if kinds[p.Loss.Name] != table.Range {
		bend = 0.15
	}
	if r := p.Release; r != nil {
		f.Sigma, f.Ridge, slope = r.Sigma, r.Ridge/(p.Bounds.Row*p.Bounds.Row), r.Lipschitz/p.Bounds.Row
		if r.Rate > 0 {
			f.Sigma = math.Sqrt(d+1) / r.Rate
		}
		f.Sigma /= p.Bounds.Row
		if n > 0 {
			f.Excess = r.ExcessBound / n
		}
	} else {
		slope = cmp.Or(p.Sequence.Clip, 0.25)
		if p.Loss.Name != Squares {
			slope = 1
		}
		f.Sigma = slope * pl.gradients() / (math.Sqrt(p.Sequence.Shares.Last) * p.Sequence.Mu)
		f.Ridge = 1 / math.Expm1(p.Sequence.C)
	}
	f.Deviation = f.Sigma / (bend*n/d + f.Ridge)
	f.Records = math.Ceil(f.Sigma * f.Sigma * d * 4 / (slope * slope))
	return f
}

// Coefficients returns the deviation that noise is expected to give each coefficient, in
// the units of the file; nil without a schema.
func (pl *Plan) Coefficients() []table.Coefficient {
	if !pl.made() || pl.encoder == nil {
		return nil
	}
	out := pl.encoder.Coefficients(make([]float64, pl.params.Dim))
	features := pl.encoder.Features()
	dev := pl.Forecast().Deviation
	if kinds[pl.params.Loss.Name] == table.Range {
		dev *= pl.params.Bounds.Label
	}
	sum, scale := 0.0, map[string]float64{}
	for _, f := range features {
		sum += f.Offset * f.Offset
		scale[f.Name] = math.Abs(f.Scale)
	}
	for i := range out {
		if out[i].Column == "" {
			scale[out[i].Name] = math.Sqrt(sum)
		}
		out[i].Value = dev * scale[out[i].Name]
	}
	return out
}

// String describes the plan in prose that may be published.
func (pl *Plan) String() string {
	if !pl.made() {
		return "an empty plan"
	}
	p := pl.params
	var b strings.Builder
	fmt.Fprintf(&b, "%v-differential privacy for %v neighbors, by theorem %s. %s", pl.cert.Budget, p.Relation, pl.cert.Theorem, p.Decision)
	f := pl.Forecast()
	if s := p.Sequence; s != nil {
		fmt.Fprintf(&b, " Together, the releases are as private as one Gaussian release with μ = %.4g (sensitivity divided by standard "+
			"deviation), plus at most %.3g of ε for curvature.", s.Mu, s.C+s.FirstC)
		if p.Intervals != nil {
			fmt.Fprintf(&b, " Standard errors take %.0f %% of μ².", 100*(s.Shares.Hessian+s.Shares.Scores))
		}
	}
	if p.Records > 0 {
		fmt.Fprintf(&b, " The noise is expected to give a coefficient of encoded rows a standard deviation near %.2g. With more than "+
			"about %.0f records, the sampling error exceeds the privacy error.", f.Deviation, f.Records)
	}
	if !math.IsInf(f.Excess, 1) {
		fmt.Fprintf(&b, " On average, the mean loss exceeds its minimum by at most %.3g.", f.Excess)
	}
	return b.String()
}
