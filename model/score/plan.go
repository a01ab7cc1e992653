// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package score

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/dp/ledger"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/prefix"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/model"
	"github.com/privopt/privopt/table"
)

// Errors of this package. Test with errors.Is.
var (
	// ErrOptions reports options that are not valid, by themselves or for the test set.
	ErrOptions = prefix.New("score: invalid options")
	// ErrFile reports a file that is not a score, or that this version cannot read.
	ErrFile = prefix.New("score: invalid file")
)

// theoremScore is the theorem of private scores, see docs/theory/evaluation.md#model.score/1.
const theoremScore = "model.score/1"

// Options are public choices of a private score. With nil or the zero value, everything is
// chosen automatically.
type Options struct {
	// Relation of neighboring test sets; 0 means that of the model's schema, else [dp.Replace].
	Relation dp.Relation
	// Records is the number of records of the test set under [dp.Replace], or of persons for a model
	// of persons. Under [dp.AddRemove] it is a declared public number, 0 for none.
	Records int
	// Against, if not nil, is a second model: the score is the difference of the two on the same
	// records.
	Against *model.Model
	// AccuracyOnly counts right predictions and nothing else.
	AccuracyOnly bool
	// Shares of μ² for the blocks of [Params], in the order of its blocks, which add up to 1; nil
	// means the defaults.
	Shares []float64
	// Threshold names the score, "accuracy" or "balanced", for which the score of two classes with
	// probabilities names the best threshold of the released curve; "" for none.
	Threshold string
	// Ledger, if not nil, is charged before noise is drawn; the caller does not call Spend.
	Ledger *ledger.Ledger
	// Source feeds the noise; nil means the secure source. Scores from another source carry the
	// assumption [dp.CallerSource], and no ledger admits them.
	Source rand.Source
}

// Block is a part of the sums of a score: a vector that gets noise of one scale.
type Block struct {
	Name string `json:"name"`
	// Share of μ², where μ is the sensitivity of all blocks together over their noise.
	Share float64 `json:"share"`
	// Sensitivity is the largest distance of the contributions of two records under [dp.Replace], or
	// of one and none under [dp.AddRemove].
	Sensitivity float64 `json:"sensitivity"`
	Sigma       float64 `json:"sigma"` // of the noise on every coordinate
	// Values are the sums with noise of a score, nil in a plan. All of the score follows from them.
	Values   []float64 `json:"values,omitempty"`
	exponent int       // the coordinates are multiples of 2^exponent
}

// Names of blocks.
const (
	blockRight     = "right predictions"
	blockConfusion = "confusion matrix"
	blockCells     = "cells of the probability"
	blockLoss      = "log loss"
	blockErrors    = "sizes of errors"
	blockCapped    = "capped errors"
	blockLabels    = "labels"
	blockPairs     = "right and wrong pairs"
	blockDiff      = "difference of losses"
)

// scale is the number of steps of 1 in blocks of fractions.
const scaleBits = 20

// Plan fixes the noise and the cost of a private score from public quantities alone. It may be
// published.
type Plan struct {
	subject subject
	options Options
	cert    dp.Certificate
	shift   float64 // μ, rounded up
	blocks  []Block
}

var _ dp.Plan = (*Plan)(nil)

// NewPlan plans a private score of m on test sets of Records records. It reads no record. nil
// options mean the defaults.
//
// The error wraps [ErrOptions], [dp.ErrBudget], [dp.ErrRelation], or [dp.ErrCondition] where noise
// alone would make the score useless.
func NewPlan(m *model.Model, b dp.Budget, o *Options) (*Plan, error) {
	p := &Plan{}
	if o != nil {
		p.options = *o
	}
	o = &p.options
	var err error
	if p.subject, err = newSubject(m, o.Against); err != nil {
		return nil, err
	}
	schema := &table.Schema{}
	if e := m.Encoder(); e != nil {
		schema = e.Schema()
	}
	o.Relation = cmp.Or(o.Relation, schema.Neighbors, dp.Replace)
	if err := o.Relation.Check(); err != nil {
		return nil, prefix.Errorf("score: Relation: %w", err)
	}
	switch {
	case o.Records < 0 || o.Records > p.subject.most():
		return nil, fmt.Errorf("%w: Records = %d, want a number of %s in [0, %d]", ErrOptions, o.Records,
			p.subject.units(), p.subject.most())
	case o.Relation == dp.Replace && o.Records == 0:
		return nil, fmt.Errorf("%w: the test set has no %s, want at least one: their number is public under replace "+
			"neighbors", ErrOptions, p.subject.units())
	case o.Threshold != "" && thresholds[o.Threshold] == nil:
		return nil, fmt.Errorf("%w: Threshold = %.40q, want accuracy or balanced, or none", ErrOptions, o.Threshold)
	case o.AccuracyOnly && p.subject.kind == table.Range:
		return nil, fmt.Errorf("%w: AccuracyOnly is for labels with classes, the label of the model is a number", ErrOptions)
	case o.AccuracyOnly && o.Against != nil:
		return nil, fmt.Errorf("%w: AccuracyOnly with Against: want one of them", ErrOptions)
	}
	p.blocks = p.subject.blocks(o.Relation, o.AccuracyOnly)
	if err := p.share(o.Shares); err != nil {
		return nil, err
	}
	unit, err := dp.GaussianSigma(b, 1)
	if err != nil {
		return nil, prefix.Errorf("score: %w", err)
	}
	p.shift = math.Nextafter(1/unit, math.Inf(1))
	for i := range p.blocks {
		k := &p.blocks[i]
		k.Sigma = k.Sensitivity * unit / math.Sqrt(k.Share) * release.SafeScale
		if k.Sigma > p.subject.mostSigma() {
			return nil, fmt.Errorf("%w: noise of deviation %.3g on a count is more than this program adds, want a larger ε "+
				"or δ", dp.ErrCondition, k.Sigma)
		}
	}
	p.cert = dp.Certificate{Budget: b, Relation: o.Relation, Theorem: theoremScore, Rows: p.subject.rows,
		Person: p.subject.person}
	if p.subject.rows > 0 {
		p.cert.Assumptions = []dp.Assumption{erm.OneID}
	}
	return p, p.useful(b)
}

// share sets the shares of the blocks.
func (p *Plan) share(shares []float64) error {
	if shares == nil {
		return nil
	}
	var names []string
	for _, k := range p.blocks {
		names = append(names, k.Name)
	}
	if len(shares) != len(p.blocks) {
		return fmt.Errorf("%w: %d Shares, want %d: of %v", ErrOptions, len(shares), len(p.blocks), names)
	}
	sum := 0.0
	for i, s := range shares {
		if !(s >= 1e-6 && s <= 1) {
			return fmt.Errorf("%w: Shares[%d] = %v, want a number in [1e-6, 1]", ErrOptions, i, s)
		}
		sum += s
		p.blocks[i].Share = s
	}
	if math.Abs(sum-1) > 1e-9 {
		return fmt.Errorf("%w: Shares add up to %v, want 1", ErrOptions, sum)
	}
	for i := range p.blocks {
		p.blocks[i].Share /= sum
	}
	return nil
}

// mostNoisy is the largest half-width of an interval, by noise alone, with which a plan is useful.
const mostNoisy = 0.25

// useful refuses a plan whose noise alone makes the accuracy, or for a number the mean error as a
// share of the range, uncertain by more than mostNoisy.
func (p *Plan) useful(b dp.Budget) error {
	n := float64(p.options.Records)
	if n == 0 {
		return nil
	}
	half := quantile95 * p.accuracyNoise() / n
	if half <= mostNoisy {
		return nil
	}
	what, unit := "accuracy", "points"
	if p.subject.kind == table.Range {
		what, unit = "the mean error", "% of the range of the label"
	}
	width := func(eps, records float64) float64 {
		delta := b.Delta
		if delta == model.DefaultDelta(p.options.Records) {
			delta = 1 / (records * records)
		}
		sigma, err := dp.GaussianSigma(dp.Budget{Epsilon: eps, Delta: delta}, 1)
		if err != nil {
			return math.Inf(1)
		}
		return half * sigma * p.shift * n / records
	}
	eps, _ := num.BisectTo(func(e float64) bool { return width(e, n) <= mostNoisy }, dp.MaxEpsilon, b.Epsilon, 1e-3)
	want, _ := num.BisectTo(func(r float64) bool { return width(b.Epsilon, r) <= mostNoisy }, release.MostRooted, n,
		1e-3)
	return fmt.Errorf("%w: with %d %s and ε = %.4g noise alone makes %s uncertain by ± %.0f %s; want at least %.0f "+
		"%[3]s, or ε ≥ %.2[9]g", dp.ErrCondition, p.options.Records, p.subject.units(), b.Epsilon, what, 100*half, unit,
		math.Ceil(want), math.Ceil(eps*100)/100)
}

// Params are the numbers of a [Plan]. All are public.
type Params struct {
	Relation dp.Relation `json:"relation"`
	Budget   dp.Budget   `json:"budget"`
	Records  int         `json:"records,omitzero"` // n under Replace, else the declared number
	// Rows is the most lines of a person that count, and Records counts persons; 0 if a unit of
	// privacy is one record.
	Rows   int     `json:"rows,omitzero"`
	Mu     float64 `json:"mu"` // sensitivity over noise, of all blocks together
	Blocks []Block `json:"blocks"`
}

// Params returns a copy of the numbers of the plan.
func (p *Plan) Params() Params {
	if !p.made() {
		return Params{}
	}
	return Params{p.cert.Relation, p.cert.Budget, p.options.Records, p.subject.rows, p.shift, slices.Clone(p.blocks)}
}

func (p *Plan) made() bool { return p != nil && p.cert.Theorem != "" }

// Certificate states what one score costs, from the secure source. It is about the test set: the
// model has a certificate of its own.
func (p *Plan) Certificate() dp.Certificate { return cmp.Or(p, new(Plan)).cert.With() }

// Profile returns the privacy profile of one score.
func (p *Plan) Profile() dp.Profile {
	if !p.made() {
		return dp.Unknown()
	}
	return dp.GaussianProfile(p.shift)
}

// String describes the plan in prose that may be published.
func (p *Plan) String() string {
	if !p.made() {
		return "an empty plan"
	}
	what := "a score"
	if p.options.Against != nil {
		what = "the difference of the scores of two models"
	}
	text := fmt.Sprintf("%v-differential privacy of the test set for %s, by theorem %s: %s.", p.cert.Budget,
		release.Neighbors(p.cert), theoremScore, what)
	text += " Shares of μ² and deviations of the noise:"
	for i, k := range p.blocks {
		text += fmt.Sprintf("%s %s %.3g %%, %.4g", []string{"", ";"}[min(i, 1)], k.Name, 100*k.Share, k.Sigma)
	}
	return text + "."
}

// scored is what a score takes from a model.
type scored struct {
	theta   []float64
	loss    string
	bounds  loss.Bounds
	cert    dp.Certificate
	encoder *table.Encoder
	of      *model.Model
}

// scoredBy returns the parts of a model, nil for none.
func scoredBy(m *model.Model) *scored {
	if m == nil {
		return nil
	}
	p := m.Params()
	return &scored{m.Theta(), p.Loss.Name, p.Bounds, m.Certificate(), m.Encoder(), m}
}

// classes returns K for a label of several classes, else 1.
func (m *scored) classes() int {
	if m.loss != model.Multinomial {
		return 1
	}
	return int(m.bounds.Label) + 1
}

// rows opens a table in the form of the schema.
func (m *scored) rows(r io.Reader, o table.Options) (*table.Rows, error) {
	if m.encoder == nil {
		return nil, fmt.Errorf("%w: the model has no schema to read a table by, want one made by Fit or Load",
			ErrOptions)
	}
	return m.encoder.Rows(r, o)
}

// subject is what a score measures: one model, or two on the same records.
type subject struct {
	m, against  *scored
	kind        table.Kind
	classes     int    // K, 0 for a number
	probability bool   // every model has probabilities
	rows        int    // the most lines of a person that count; 0 if every record is a unit of its own
	person      string // the column of ids
}

// models returns the two models, the second nil for none.
func (s *subject) models() (pair [2]*model.Model) {
	pair[0] = s.m.of
	if s.against != nil {
		pair[1] = s.against.of
	}
	return pair
}

// mostScored bounds K: the confusion matrix has K² cells.
const mostScored = 50

func newSubject(from, against *model.Model) (subject, error) {
	m := scoredBy(from)
	if m == nil || len(m.theta) == 0 {
		return subject{}, fmt.Errorf("%w: the model is nil, want one made by Fit or Load", ErrOptions)
	}
	s := subject{m: m, kind: table.Range}
	switch m.loss {
	case model.Logistic, model.SVM:
		s.kind, s.classes = table.Binary, 2
	case model.Multinomial:
		s.kind, s.classes = table.Classes, m.classes()
	}
	s.probability = m.loss == model.Logistic || m.loss == model.Multinomial
	if s.classes > mostScored {
		return s, fmt.Errorf("%w: %d classes, want at most %d for a private score", ErrOptions, s.classes, mostScored)
	}
	s.rows, s.person = m.cert.Rows, m.cert.Person // without a schema, as the records it was fitted to
	if m.encoder != nil {
		p, _ := m.encoder.Persons()
		s.rows, s.person = p.Rows, p.Column
	}
	if against == nil {
		return s, nil
	}
	other, err := newSubject(against, nil)
	if err != nil {
		return s, err
	}
	s.against = other.m
	s.probability = s.probability && other.probability
	if other.kind != s.kind || other.classes != s.classes || !sameLabel(m, other.m) {
		return s, fmt.Errorf("%w: Against predicts another label: want models with the same column of the label, and the "+
			"same classes in the same order or the same range", ErrOptions)
	}
	if other.rows != s.rows || other.person != s.person {
		return s, fmt.Errorf("%w: Against has another unit of privacy: want models with the same \"person\" and \"rows\" in "+
			"their schemas", ErrOptions)
	}
	return s, nil
}

// sameLabel reports whether the labels of two models have the same meaning.
func sameLabel(a, b *scored) bool {
	if a.encoder == nil || b.encoder == nil {
		return a.encoder == b.encoder && a.bounds == b.bounds
	}
	x, y := a.encoder.Schema().Label, b.encoder.Schema().Label
	same := func(p, q *float64) bool { return p == nil && q == nil || p != nil && q != nil && *p == *q }
	return x.Column == y.Column && slices.Equal(x.Positive, y.Positive) && slices.Equal(x.Negative, y.Negative) &&
		slices.Equal(x.Levels, y.Levels) && same(x.Min, y.Min) && same(x.Max, y.Max)
}

// chains is the matrix of the prefix sums over the cells of the probability.
var chains = release.NewRoot(len(probabilities) + 1)

// blocks returns the blocks with their default shares and their sensitivities, which
// docs/theory/evaluation.md#model.score/1 proves.
func (s subject) blocks(r dp.Relation, only bool) []Block {
	one, step := 1.0, math.Ldexp(1, -scaleBits)
	two := 2.0
	chain := math.Nextafter(math.Sqrt(float64(chains.Norm2())), math.Inf(1)) * step
	label := math.Sqrt2 * (1 + step/2)
	if r == dp.Replace {
		one = math.Sqrt2
		chain = math.Nextafter(math.Sqrt(float64(max(2*chains.Norm2(), chains.Apart2()))), math.Inf(1)) * step
		label = 2 + math.Sqrt2*step
	} else {
		two = 1
	}
	if s.rows > 0 && r == dp.Replace {
		label += math.Sqrt2 * math.Ldexp(1, -scaleBits-personBits)
	}
	logLoss := 1 + step
	count, fraction := s.grids()
	switch {
	case only:
		return []Block{count(blockRight, 1, 1)}
	case s.against != nil && s.kind == table.Range:
		return []Block{count(blockErrors, 0.25, one), fraction(blockDiff, 0.75, two)}
	case s.against != nil && s.probability:
		return []Block{count(blockPairs, 0.6, one), fraction(blockDiff, 0.4, two)}
	case s.against != nil:
		return []Block{count(blockPairs, 1, one)}
	case s.kind == table.Range:
		return []Block{count(blockErrors, 0.25, one), fraction(blockCapped, 0.45, math.Sqrt2),
			fraction(blockLabels, 0.3, label)}
	case s.kind == table.Classes:
		return []Block{count(blockRight, 0.3, 1), count(blockConfusion, 0.4, one), fraction(blockLoss, 0.3, logLoss)}
	case s.probability:
		return []Block{count(blockConfusion, 0.45, one), fraction(blockCells, 0.35, chain),
			fraction(blockLoss, 0.2, logLoss)}
	}
	return []Block{count(blockConfusion, 0.5625, one), fraction(blockCells, 0.4375, chain)}
}
