// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package score scores a model on a private test set, or compares two models on one:
//
//	plan, err := score.NewPlan(m, dp.Budget{Epsilon: 1, Delta: 1e-9}, &score.Options{Records: n})
//	if err != nil {
//		return err
//	}
//	set, err := score.ReadCSV(ctx, m, csvFile, table.Options{}, nil)
//	if err != nil {
//		return err
//	}
//	scores, err := plan.Score(ctx, set) // may be published
//
// A [Plan] is fixed before a record is read. A [TestSet] holds sums over the records and is
// secret. [Plan.Score] adds noise to the sums once, and everything in [Scores] follows from the
// noisy sums. The theorem is model.score/1 of docs/theory/evaluation.md.
package score

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/prefix"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/table"
)

// Metric is an unbiased private estimate with its uncertainty. StdErr² is Sampling² + Privacy²; the
// sampling part supposes that the records are an independent sample that the model was not fitted
// to.
type Metric struct {
	Name     string  `json:"name"`
	Value    float64 `json:"value"`
	StdErr   float64 `json:"se"`
	Sampling float64 `json:"samplingSE"`
	Privacy  float64 `json:"privacySE"`
	// Interval has its ends in order and holds the true value in about 95 % of repetitions.
	Interval [2]float64 `json:"interval"`
	// Bound is an estimate of how far the cells of the probability may move the value, or of how far
	// errors above the cap lower R² at most, if that is more than StdErr.
	Bound float64 `json:"bound,omitzero"`
	// Withheld says why there is no value, "" if there is one.
	Withheld string `json:"withheld,omitempty"`
}

// Calibration is the share of positives among the records of some cells of the probability.
type Calibration struct {
	From  float64 `json:"from"`
	To    float64 `json:"to"`
	Share Metric  `json:"share"`
}

// Operating is a point of the ROC curve: what predictions of the second class from a probability on
// would have scored.
type Operating struct {
	Threshold float64 `json:"threshold"`
	FPR       float64 `json:"falsePositives"` // share of the negatives
	TPR       float64 `json:"truePositives"`  // share of the positives
	FPRError  float64 `json:"falsePositivesSE"`
	TPRError  float64 `json:"truePositivesSE"`
	Accuracy  float64 `json:"accuracy"`
}

// Scores is a private score. It may be published.
type Scores struct {
	Version int `json:"score"` // of the form of the file that Save writes
	// Private is false if the noise came from a source of the caller, who can draw it again.
	Private bool `json:"private"`
	// Model is [Model.SHA256] of the model, and Against that of the second one, "" for none.
	Model       string         `json:"model"`
	Against     string         `json:"against,omitempty"`
	Certificate dp.Certificate `json:"certificate"`
	Ledger      string         `json:"ledger,omitempty"` // hash of the entry that paid
	Blocks      []Block        `json:"blocks"`           // with the released sums
	// Records is the number of records, or of persons; under [dp.AddRemove] an estimate.
	Records Metric   `json:"records"`
	Metrics []Metric `json:"metrics"`
	// Confusion holds the counts of the test set, by the true and then by the predicted class. A
	// person counts 1 in all.
	Confusion   [][]Metric    `json:"confusion,omitempty"`
	Calibration []Calibration `json:"calibration,omitempty"`
	ROC         []Operating   `json:"roc,omitempty"`
	Threshold   *Threshold    `json:"threshold,omitempty"`
	// Cap is the error, in the units of the label, at which errors are capped.
	Cap float64 `json:"cap,omitzero"`
}

// Threshold is the public threshold of the probability with the best value of a score, chosen from
// the released cells.
type Threshold struct {
	For   string  `json:"for"` // Options.Threshold
	Value float64 `json:"value"`
}

// thresholds are the scores that a threshold can be chosen for.
var thresholds = map[string]func(o Operating) float64{
	"accuracy": func(o Operating) float64 { return o.Accuracy },
	"balanced": func(o Operating) float64 { return o.TPR - o.FPR },
}

// choose returns the threshold with the best score, nil if none was asked for or there is no curve.
func choose(points []Operating, by string) *Threshold {
	value := thresholds[by]
	if value == nil || len(points) == 0 {
		return nil
	}
	best := slices.MaxFunc(points, func(x, y Operating) int { return cmp.Compare(value(x), value(y)) })
	return &Threshold{by, best.Threshold}
}

// Metric returns a metric by its name, and whether it is there and not withheld.
func (s *Scores) Metric(name string) (Metric, bool) {
	for _, m := range s.Metrics {
		if m.Name == name {
			return m, m.Withheld == ""
		}
	}
	return Metric{}, false
}

// Score charges the ledger, if the plan has one, adds noise to the sums of the test set once, and
// returns what follows from them. The error wraps [ErrOptions] for a test set of other models or,
// under [dp.Replace], of another number of records than the plan, or is that of the ledger or the
// source. An error after the charge does not give the budget back.
//
// The ledger commits to the file that [Scores.Save] writes before Score returns. If that
// fails, Score returns the score, which was paid for, with the error: no ledger will verify it.
func (p *Plan) Score(ctx context.Context, t *TestSet) (*Scores, error) {
	if err := release.CheckContext(ErrOptions, ctx); err != nil {
		return nil, err
	}
	switch {
	case !p.made():
		return nil, fmt.Errorf("%w: the plan is empty, want one made by NewPlan", ErrOptions)
	case t == nil || t.counts == nil:
		return nil, fmt.Errorf("%w: the test set is empty, want one made by Read or ReadCSV", ErrOptions)
	case t.subject.models() != p.subject.models():
		return nil, fmt.Errorf("%w: the test set was read for other models than those of the plan", ErrOptions)
	case p.cert.Relation == dp.Replace && t.n != p.options.Records:
		return nil, fmt.Errorf("%w: the test set has %d %s, the plan is for %d", ErrOptions, t.n, p.subject.units(),
			p.options.Records)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	head := ""
	if p.options.Ledger != nil {
		entry, err := p.options.Ledger.Spend(ctx, p, p.options.Source)
		if err != nil {
			return nil, prefix.Errorf("score: %w", err)
		}
		head = entry.Hash
	}
	f := fault.From(ctx)
	src, cert := release.Open(p.options.Source, p.cert.With())
	d := &drawn{p: p, t: t, f: f, src: src, values: map[string][]float64{}}
	for i, s := range fault.At(f, fault.ScoreSigmas, p.sigmas()) {
		d.sigma = append(d.sigma, s)
		if k := p.blocks[i]; k.Name != blockCapped && (k.Name != blockDiff || p.subject.kind != table.Range) {
			d.add(i, d.sums(k.Name))
		}
	}
	out := &Scores{Version: scoreVersion, Private: p.options.Source == nil, Model: p.subject.models()[0].SHA256(),
		Against: p.options.Against.SHA256(), Certificate: cert, Ledger: head, Blocks: p.Params().Blocks}
	d.report(out)
	for i := range out.Blocks {
		out.Blocks[i].Values = d.values[out.Blocks[i].Name]
	}
	out.Threshold = choose(out.ROC, p.options.Threshold)
	if err := src.Err(); err != nil { // nothing that its noise is in may leave
		return nil, err
	}
	if p.options.Ledger == nil {
		return out, nil
	}
	var file bytes.Buffer
	if err := out.Save(&file); err != nil {
		return out, err
	}
	if err := p.options.Ledger.Commit(ctx, head, file.Bytes()); err != nil {
		return out, prefix.Errorf("score: %w", err)
	}
	return out, nil
}

func (p *Plan) sigmas() []float64 {
	out := make([]float64, len(p.blocks))
	for i, k := range p.blocks {
		out[i] = k.Sigma
	}
	return out
}

// drawn holds the released values of a score.
type drawn struct {
	p      *Plan
	t      *TestSet
	f      *fault.Set
	src    rand.Source
	sigma  []float64
	values map[string][]float64
	cap    int // index of the cap of errors
}

// add releases the sums of block i.
func (d *drawn) add(i int, sums []int64) {
	k := d.p.blocks[i]
	law := release.Noise{Exponent: k.exponent, Sigma: d.sigma[i]}
	nu, out := make([]int64, len(sums)), make([]float64, len(sums))
	defer clear(nu)
	law.Fill(nu, d.src)
	law.Add(out, sums, fault.At(d.f, fault.ScoreNoise, nu))
	d.values[k.Name] = out
}

// sums returns the sums of a block in its steps.
func (d *drawn) sums(name string) []int64 {
	t, s := d.t, d.p.subject
	switch name {
	case blockRight:
		right := int64(0)
		for i, c := range t.counts {
			if truth, said := s.classesOf(i); truth == said {
				right += c
			}
		}
		out := []int64{right}
		if d.p.cert.Relation != dp.Replace {
			out = append(out, int64(t.n)*s.unit()-right)
		}
		if s.rows > 0 {
			out = append(out, t.inner.right)
		}
		return out
	case blockConfusion:
		if s.kind == table.Classes {
			return t.counts
		}
		c := make([]int64, 4)
		for i, v := range t.counts {
			truth, said := s.classesOf(i)
			c[2*truth+said] += v
		}
		return d.withPairs(c)
	case blockCells:
		return append(chains.Times(t.counts[:numCells]), chains.Times(t.counts[numCells:])...)
	case blockLabels:
		return t.sums[len(t.sums)-2:]
	case blockCapped:
		return t.sums[2*d.cap : 2*d.cap+2]
	case blockDiff:
		return []int64{t.sums[d.cap], t.bends[d.cap]}
	case blockLoss:
		if s.rows > 0 {
			return []int64{t.sums[0], t.bends[0]}
		}
		return t.sums[:1]
	case blockPairs:
		return d.withPairs(slices.Clone(t.counts))
	}
	return t.counts // sizes of errors
}

// withPairs appends the bends of persons to the counts of four cells.
func (d *drawn) withPairs(four []int64) []int64 {
	if d.p.subject.rows > 0 {
		return append(four, d.t.inner.pairs[:]...)
	}
	return four
}

// inside returns how much of the variance of a gradient over single lines, by the four counts of a
// block, is inside persons, less a deviation of its noise: Σ (g_a − g_b)²x_ax_b. It is 0 for
// records.
func (d *drawn) inside(block string, g [4]float64, n float64) float64 {
	if d.p.subject.rows == 0 {
		return 0
	}
	sum, squares := 0.0, 0.0
	for k, p := range pairsOfFour {
		w := (g[p[0]] - g[p[1]]) * (g[p[0]] - g[p[1]]) / bendFactor
		sum += w * d.values[block][4+k]
		squares += w * w
	}
	return max(sum-math.Sqrt(squares*d.p.block(block).variance()), 0) / n
}

// insideRight is inside for right and wrong predictions by the block that counts them.
func (d *drawn) insideRight(n float64) float64 {
	if d.p.subject.rows == 0 {
		return 0
	}
	v, dev := d.values[blockRight], math.Sqrt(d.p.block(blockRight).variance())
	return max(v[len(v)-1]-dev, 0) / bendFactor / n
}

const noInformation = "the noise leaves no information"

// metric returns a metric from its variances. Its interval is cut to the range [lo, hi], and a
// value whose interval is no narrower than the range is withheld.
func metric(name string, value, sampling, privacy, lo, hi float64) Metric {
	m := Metric{Name: name, Value: value, Sampling: math.Sqrt(max(sampling, 0)), Privacy: math.Sqrt(max(privacy, 0))}
	m.StdErr = math.Hypot(m.Sampling, m.Privacy)
	m.Interval[0], m.Interval[1] = max(value-quantile95*m.StdErr, lo), min(value+quantile95*m.StdErr, hi)
	m.Value = min(max(m.Value, lo), hi)
	m.Interval[0], m.Interval[1] = min(m.Interval[0], hi), max(m.Interval[1], lo)
	if !(2*quantile95*m.StdErr < hi-lo) || math.IsNaN(m.Value) {
		return withheld(name, noInformation)
	}
	return m
}

func withheld(name, why string) Metric { return Metric{Name: name, Withheld: why} }

// leastDeviations is how many deviations of its noise a released count must have to be divided by.
const leastDeviations = 5

const (
	fewRecords = "too few records to tell from noise"
	fewOfClass = "too few records of a class to tell from noise"
)

// report derives everything from the released values. No record enters.
func (d *drawn) report(out *Scores) {
	p := d.p
	switch {
	case p.subject.kind == table.Range:
		d.numbers(out)
	case p.subject.against != nil:
		d.paired(out)
	case p.options.AccuracyOnly:
		d.only(out)
	default:
		d.classes(out)
	}
}

// total sets the number of records: n under replace, the estimate with the given variance else. It
// returns false if that cannot be divided by.
func (d *drawn) total(out *Scores, estimate, variance float64) (n, noise float64, ok bool) {
	if d.p.cert.Relation == dp.Replace {
		n = float64(d.p.options.Records)
		out.Records = Metric{Name: "records", Value: n, Interval: [2]float64{n, n}}
		return n, 0, true
	}
	out.Records = metric("records", estimate, 0, variance, math.Inf(-1), math.Inf(1))
	return estimate, variance, estimate > leastDeviations*math.Sqrt(variance)
}

// only reports the accuracy alone.
func (d *drawn) only(out *Scores) {
	v, noise := d.values[blockRight], d.p.blocks[0].variance()
	sum, replace := 0.0, d.p.cert.Relation == dp.Replace
	if !replace {
		sum = v[0] + v[1]
	}
	n, _, ok := d.total(out, sum, 2*noise)
	if !ok {
		out.withhold("accuracy")
		return
	}
	a, privacy := v[0]/n, noise/(n*n)
	if !replace {
		privacy *= (1-a)*(1-a) + a*a
	}
	out.Metrics = []Metric{metric("accuracy", a, lessInside(shareVariance(a, n), d.insideRight(n), n), privacy, 0, 1)}
}

// shareVariance returns the sampling variance of a share of n records.
func shareVariance(a, n float64) float64 {
	a = min(max(a, 0), 1)
	return max(a*(1-a), 0.25/n) / n
}

// lessInside returns a sampling variance of n records without the part inside of persons.
func lessInside(variance, inside, n float64) float64 { return max(variance-inside/n, 0.25/(n*n)) }

// classes reports the metrics of one model for a label with classes.
func (d *drawn) classes(out *Scores) {
	p, e := d.p, d.p.cells(d.values)
	names := []string{"accuracy", "balanced"}
	if p.subject.kind == table.Binary {
		names = append(names, "AUC")
	}
	if p.subject.probability {
		names = append(names, "log loss")
	}
	sum, deviation := e.sum(ones(len(e.h)))
	n, noise, ok := d.total(out, sum, deviation*deviation)
	d.confusion(out, e)
	if !ok {
		out.withhold(names...)
		return
	}
	a, variance := p.accuracy(e, n, noise)
	inside := 0.0
	if p.subject.kind == table.Binary {
		inside = d.inside(blockConfusion, [4]float64{1, 0, 0, 1}, n)
	} else {
		inside = d.insideRight(n)
	}
	sampling := lessInside(shareVariance(a, n), inside, n)
	out.Metrics = append(out.Metrics, metric("accuracy", a, sampling, variance, 0, 1), d.balanced(e))
	if p.subject.kind == table.Binary {
		out.Metrics = append(out.Metrics, d.curve(out, e))
	}
	if p.subject.probability {
		out.Metrics = append(out.Metrics, d.logLoss(e, n, noise))
	}
}

// accuracy returns the share of right predictions and the variance that the noise gives it. noise
// is that of n, 0 if n is public.
func (p *Plan) accuracy(e *estimate, n, noise float64) (share, variance float64) {
	g := p.subject.right()
	right, _ := e.sum(g)
	if noise > 0 {
		floats.AddConst(-right/n, g)
	}
	return right / n, e.variance(g) / (n * n)
}

// withhold withholds metrics for the lack of records.
func (s *Scores) withhold(names ...string) {
	for _, name := range names {
		s.Metrics = append(s.Metrics, withheld(name, fewRecords))
	}
}

// confusion sets the confusion matrix.
func (d *drawn) confusion(out *Scores, e *estimate) {
	k := d.p.subject.classes
	for y := range k {
		var row []Metric
		for c := range k {
			v, deviation := e.sum(d.p.subject.cellsOf(func(truth, said int) bool { return truth == y && said == c }))
			row = append(row, metric("", v, 0, deviation*deviation, math.Inf(-1), math.Inf(1)))
		}
		out.Confusion = append(out.Confusion, row)
	}
}

// balanced returns the mean over the classes of the share that is predicted rightly.
func (d *drawn) balanced(e *estimate) Metric {
	const name = "balanced"
	s, right := d.p.subject, d.p.subject.right()
	value, sampling := 0.0, 0.0
	gradient := make([]float64, len(e.h))
	k := float64(s.classes)
	for y := range s.classes {
		class := s.trueClass(y)
		n, deviation := e.sum(class)
		if !(n > leastDeviations*deviation) || n < 1 {
			return withheld(name, fewOfClass)
		}
		recall := 0.0
		for i, c := range class {
			recall += c * right[i] * e.h[i] / n
		}
		for i, c := range class {
			gradient[i] += c * (right[i] - recall) / n / k
		}
		r := min(max(recall, 0), 1)
		value += recall / k
		sampling += r * (1 - r) / n / (k * k)
	}
	if s.kind == table.Binary && s.rows > 0 {
		n, _ := e.sum(ones(len(e.h)))
		four := [4]float64{}
		for i := range four {
			four[i] = n * gradient[i/2*numCells+i%2*halfCell]
		}
		sampling = lessInside(sampling, d.inside(blockConfusion, four, n), n)
	}
	return metric(name, value, sampling, e.variance(gradient), 0, 1)
}

// curve returns the area under the ROC curve, and sets the curve and the calibration.
func (d *drawn) curve(out *Scores, e *estimate) Metric {
	const name = "AUC"
	s := d.p.subject
	n0, dev0 := e.sum(s.trueClass(0))
	n1, dev1 := e.sum(s.trueClass(1))
	if !(n0 > leastDeviations*dev0 && n1 > leastDeviations*dev1) || min(n0, n1) < 1 {
		return withheld(name, fewOfClass)
	}
	value, sampling, privacy, bound := s.auc(e, n0, n1)
	m := metric(name, value, sampling, privacy, 0, 1)
	if m.Withheld == "" {
		m.Bound = bound
	}
	rate := func(class, from int, n float64) (value, deviation float64) {
		g := make([]float64, len(e.h))
		for i := from; i < numCells; i++ {
			g[class*numCells+i] = 1
		}
		sum, _ := e.sum(g)
		value = sum / n
		floats.AddScaled(g, -value, s.trueClass(class))
		floats.Scale(1/n, g)
		return value, math.Sqrt(e.variance(g) + shareVariance(value, n))
	}
	for k, edge := range probabilities {
		o := Operating{Threshold: edge}
		o.FPR, o.FPRError = rate(0, k+1, n0)
		o.TPR, o.TPRError = rate(1, k+1, n1)
		o.Accuracy = (n0*(1-o.FPR) + n1*o.TPR) / (n0 + n1)
		if k > 0 { // monotone, as the true curve is
			last := out.ROC[k-1]
			o.FPR, o.TPR = min(o.FPR, last.FPR), min(o.TPR, last.TPR)
		}
		o.FPR, o.TPR = min(max(o.FPR, 0), 1), min(max(o.TPR, 0), 1)
		o.Accuracy = min(max(o.Accuracy, 0), 1)
		out.ROC = append(out.ROC, o)
	}
	if s.probability {
		d.calibration(out, e)
	}
	return m
}

// calibration joins cells until their count exceeds four of its deviations.
func (d *drawn) calibration(out *Scores, e *estimate) {
	edges := append(append([]float64{0}, probabilities...), 1)
	g, from := make([]float64, len(e.h)), 0
	for k := range numCells {
		g[k], g[numCells+k] = 1, 1
		n, deviation := e.sum(g)
		if !(n > 4*deviation) || n < 1 {
			continue
		}
		q := 0.0
		for i := from; i <= k; i++ {
			q += e.h[numCells+i] / n
		}
		for i := from; i <= k; i++ {
			g[i], g[numCells+i] = -q/n, (1-q)/n
		}
		share := metric("positives", q, shareVariance(q, n), e.variance(g), 0, 1)
		out.Calibration = append(out.Calibration, Calibration{edges[from], edges[k+1], share})
		clear(g)
		from = k + 1
	}
}

// logLoss returns the mean log loss.
func (d *drawn) logLoss(e *estimate, n, noise float64) Metric {
	value := d.values[blockLoss][0] * mostLoss / n
	// A loss in [0, L] of mean m has a variance of at most m(L − m). For two classes the cells say
	// more.
	spread := min(max(value, 0), mostLoss) * (mostLoss - min(max(value, 0), mostLoss))
	if d.p.subject.kind == table.Binary {
		square, mean := 0.0, 0.0
		for i, l := range cellLosses() {
			square += e.h[i] * l * l / n
			mean += e.h[i] * l / n
		}
		spread = square - mean*mean
	}
	spread = min(max(spread, 0.05), mostLoss*mostLoss/4)
	if d.p.subject.rows > 0 { // E l² is E l less the bend, of losses that count 1 at most
		l, noise := d.values[blockLoss], math.Sqrt(d.p.block(blockLoss).variance())
		square := l[0] - max(l[1]-noise, 0)/bendFactor
		spread = max(square/n-l[0]*l[0]/(n*n), 0.25/n) * mostLoss * mostLoss
	}
	privacy := d.p.block(blockLoss).variance()*mostLoss*mostLoss + value*value*noise
	return metric("log loss", value, spread/n, privacy/(n*n), 0, mostLoss)
}
