// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package score

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sort"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/model"
	"github.com/privopt/privopt/table"
)

// probabilities are the public edges of the cells of the stated probability. A probability at an
// edge belongs to the cell above it, as ½ does to the prediction.
var probabilities = []float64{
	0.001, 0.003, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99,
	0.997, 0.999,
}

// numCells is the number of cells of the probability, in each class; half is the first of those
// from ½ on.
const (
	numCells = 24
	halfCell = 12
)

// sizes are the public edges of the cells of errors as shares of the range, 2^{−k/2}; leastCap is
// the index of the least one that may be a cap.
var sizes = func() (e []float64) {
	for k := 23; k >= 0; k-- {
		e = append(e, math.Exp2(-float64(k)/2))
	}
	return e
}()

const leastCap = 2

// mostLoss is the value, in nats, at which log losses are clipped.
var mostLoss = math.Log(100)

// TestSet holds the sums over a test set by which models are scored. Not private: [Plan.Score]
// makes a private score of it.
type TestSet struct {
	subject subject
	clip    float64
	sigmoid [2]float64 // s₀ of each model without probabilities
	n       int        // records, or persons
	counts  []int64    // of cells, in units of 2^exponent: see subject.blocks
	sums    []int64    // of fractions, in units of 2^exponent
	bends   []int64    // of what tells their squares, see bend and dome
	inner   inner      // of persons
	faults  *fault.Set
}

// largestScore bounds the score of every row that the schema admits: each column has one entry.
func (m *scored) largestScore() float64 {
	if m.encoder == nil || m.classes() > 1 {
		return floats.Norm(m.theta, 2) * m.bounds.Row
	}
	ends := map[string][2]float64{}
	for _, c := range m.encoder.Schema().Columns {
		if c.Min != nil && c.Bins == nil {
			ends[c.Name] = [2]float64{*c.Min, *c.Max}
		}
	}
	sum, most := 0.0, 0.0
	column := ""
	for j, f := range m.encoder.Features() {
		if f.Column != column {
			sum, most = sum+most, 0
			column = f.Column
		}
		entry := f.Scale + f.Offset // of an indicator, or the intercept
		if e, ok := ends[f.Column]; ok && f.Name == f.Column {
			entry = max(math.Abs(f.Scale*e[0]+f.Offset), math.Abs(f.Scale*e[1]+f.Offset))
		}
		most = max(most, math.Abs(entry*m.theta[j]))
	}
	return sum + most
}

// Format prints nothing about the records, by any verb.
func (TestSet) Format(f fmt.State, _ rune) { io.WriteString(f, "score.TestSet") }

// Records returns the number of records, or of persons for a model whose schema has them. It is
// public under [dp.Replace]. Not private under [dp.AddRemove].
func (t *TestSet) Records() int { return t.n }

func newTestSet(ctx context.Context, m, against *model.Model) (*TestSet, error) {
	if err := release.CheckContext(ErrOptions, ctx); err != nil {
		return nil, err
	}
	s, err := newSubject(m, against)
	if err != nil {
		return nil, err
	}
	t := &TestSet{subject: s, clip: fault.At(fault.From(ctx), fault.LossClip, mostLoss), sums: make([]int64, 1)}
	t.faults = fault.From(ctx)
	for i, m := range []*scored{s.m, s.against} {
		if m != nil {
			t.sigmoid[i] = m.largestScore() / 16
		}
	}
	switch {
	case s.kind == table.Range && against != nil:
		t.counts, t.sums = make([]int64, len(sizes)+1), make([]int64, len(sizes))
	case s.kind == table.Range: // the two capped sums for every cap, and t, t²
		t.counts, t.sums = make([]int64, len(sizes)+1), make([]int64, 2*len(sizes)+2)
	case against != nil:
		t.counts = make([]int64, 4)
	case s.kind == table.Classes:
		t.counts = make([]int64, s.classes*s.classes)
	default:
		t.counts = make([]int64, 2*numCells)
	}
	if against != nil || s.rows > 0 && s.kind != table.Range {
		t.bends = make([]int64, len(t.sums))
	}
	return t, nil
}

// Read reads encoded records, by the schema of m, to score m, or to compare it with a second model
// of the same schema, nil for none. For a model of persons the data must be by person with the same
// Rows, as by [erm.OpenByPerson]. Not private.
func Read(ctx context.Context, m *model.Model, data *table.Data, against *model.Model) (*TestSet, error) {
	t, err := newTestSet(ctx, m, against)
	if err != nil {
		return nil, err
	}
	if data == nil || data.Records == nil {
		return nil, fmt.Errorf("%w: the data are nil, want a table", ErrOptions)
	}
	if err := t.subject.checkUnit(data.Records); err != nil {
		return nil, err
	}
	_, d := data.Records.Dims()
	for _, m := range []*scored{t.subject.m, t.subject.against} {
		if m != nil && d != len(m.theta) {
			return nil, fmt.Errorf("%w: the table has %d parameters, want %d, those of the model", ErrOptions, d,
				len(m.theta))
		}
	}
	features := d / t.subject.m.classes()
	if n, _ := data.Records.Dims(); n > release.MostRooted {
		return nil, fmt.Errorf("%w: %d records, want at most 2⁴⁰", ErrOptions, n)
	}
	judge := func(a []float64, b float64) judgment {
		second := model.Prediction{}
		if against != nil {
			second = against.Predict(a[:features])
		}
		return t.judge(m.Predict(a[:features]), second, b)
	}
	if t.subject.rows > 0 {
		return t, t.addPersons(ctx, data.Records, judge)
	}
	return t, data.Records.Each(func(a []float64, b float64) { t.addJudgment(judge(a, b)) })
}

// ReadCSV is [Read] for a table that is read one row at a time. Both models read every
// line by their own schemas. A field without a meaning counts as zero, and a label without one as a
// wrong prediction, so that no error depends on a record but on the form of the file: each line
// behind the header is a record, also an empty one. For a model of persons the lines of a person
// are taken together, in memory; lines without an id are left out. The error wraps
// [table.ErrTable] or [ErrOptions]. Not private.
func ReadCSV(
	ctx context.Context, m *model.Model, r io.Reader, o table.Options, against *model.Model,
) (*TestSet, error) {
	t, err := newTestSet(ctx, m, against)
	if err != nil {
		return nil, err
	}
	if r == nil {
		return nil, fmt.Errorf("%w: the reader is nil, want a table", ErrOptions)
	}
	o.Unlabeled, o.Skip = false, false
	o.Total = true
	first, second := fork(r)
	rows, err := t.subject.m.rows(first, o)
	if err != nil {
		return nil, err
	}
	var others *table.Rows
	if against != nil {
		if others, err = t.subject.against.rows(second, o); err != nil {
			return nil, fmt.Errorf("for the second model: %w", err)
		}
	}
	var lines *judgments
	if t.subject.rows > 0 {
		if lines, err = newJudgments(); err != nil {
			return nil, err
		}
	}
	for rows.Next() {
		var p model.Prediction
		if others != nil {
			if !others.Next() {
				return nil, errors.Join(others.Err(), errRowsDiffer)
			}
			p = against.PredictEntries(others.Row())
		} else {
			second.drop()
		}
		o := t.judge(m.PredictEntries(rows.Row()), p, rows.Label())
		if lines != nil {
			lines.add(o, rows.ID())
			continue
		}
		t.addJudgment(o)
		if t.n > release.MostRooted {
			return nil, fmt.Errorf("%w: more than 2⁴⁰ records", ErrOptions)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if others != nil && (others.Next() || others.Err() != nil) {
		return nil, errors.Join(others.Err(), errRowsDiffer)
	}
	if lines != nil {
		return t, lines.addTo(ctx, t)
	}
	return t, ctx.Err()
}

var errRowsDiffer = fmt.Errorf("%w: the schemas of the two models split the file into different records: want the "+
	"same \"file\" in both", ErrOptions)

// branch is one of two readers of the same bytes.
type branch struct {
	r     io.Reader
	queue []byte
	other *branch
	err   error
}

// fork returns two readers of r, each of which holds what the other has read before it.
func fork(r io.Reader) (a, b *branch) {
	a, b = &branch{r: r}, &branch{r: r}
	a.other, b.other = b, a
	return a, b
}

func (b *branch) drop() { b.queue = nil }

// Read implements io.Reader.
func (b *branch) Read(p []byte) (int, error) {
	if len(b.queue) > 0 {
		n := copy(p, b.queue)
		b.queue = b.queue[n:]
		return n, nil
	}
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.r.Read(p)
	b.other.queue = append(b.other.queue, p[:n]...)
	b.err, b.other.err = err, err
	return n, err
}

// judgment is all that a score takes from a record. It is a function of the record and the models
// alone.
type judgment struct {
	cell  int     // of TestSet.counts
	steps int64   // the log loss or the difference of two, in units of 2⁻²⁰
	e, f  float64 // errors of the models as shares of the range of a number, in [0, 1]
	label float64 // a number, in [−1, 1]
}

// judge returns the judgment of a record, bounded as subject.blocks says whatever the record.
func (t *TestSet) judge(p, q model.Prediction, label float64) judgment {
	s := &t.subject
	if s.kind == table.Range {
		return t.judgeNumber(p, q, label)
	}
	if s.against != nil {
		rightP, lossP := t.judgeClass(0, p, label)
		rightQ, lossQ := t.judgeClass(1, q, label)
		at := 3
		switch {
		case rightP && rightQ:
			at = 0
		case rightP:
			at = 1
		case rightQ:
			at = 2
		}
		return judgment{cell: at, steps: toSteps(min(max(lossP-lossQ, -1), 1))}
	}
	cell, loss := 0, 0.0
	if s.kind == table.Classes {
		y, l := classOf(p, label, s.classes)
		cell, loss = y*s.classes+p.Class, l
	} else {
		v := t.probability(0, p)
		y := binary(v, label)
		cell, loss = y*numCells+cellOf(v), logLoss(v, y)
	}
	return judgment{cell: cell, steps: toSteps(min(loss, t.clip) / mostLoss)}
}

// addJudgment adds that of a record of its own.
func (t *TestSet) addJudgment(o judgment) {
	t.n++
	t.counts[o.cell]++
	t.subject.fractions(o, func(i int, steps int64) {
		t.sums[i] += steps
		if t.bends != nil {
			t.bends[i] += dome(steps, scaleBits)
		}
	})
}

// judgeClass returns whether a prediction is right and its log loss.
func (t *TestSet) judgeClass(which int, p model.Prediction, label float64) (right bool, loss float64) {
	if t.subject.kind == table.Classes {
		y, loss := classOf(p, label, t.subject.classes)
		return y == p.Class, min(loss, t.clip)
	}
	v := t.probability(which, p)
	y := binary(v, label)
	return (v >= 0.5) == (y == 1), min(logLoss(v, y), t.clip)
}

// binary returns the class of a label of two classes; without a meaning it is the one that is not
// predicted.
func binary(p, label float64) int {
	if label != label {
		label = -1
		if p < 0.5 {
			label = 1
		}
	}
	if label > 0 {
		return 1
	}
	return 0
}

// classOf returns the class of a label of several classes and the log loss, which is infinite for a
// label without a meaning: it counts as the first class that is not predicted.
func classOf(p model.Prediction, label float64, classes int) (int, float64) {
	if label != label {
		if p.Class == 0 {
			return 1, math.Inf(1)
		}
		return 0, math.Inf(1)
	}
	y := int(min(max(math.RoundToEven(label), 0), float64(classes-1))) // as LabelText does
	if v := p.Probabilities[y]; v > 0 {
		return y, -math.Log(v)
	}
	return y, math.Inf(1) // also NaN
}

// logLoss returns −log of the probability p of class 1, or of 1 − p.
func logLoss(p float64, y int) float64 {
	if y == 0 {
		return -math.Log1p(-p)
	}
	return -math.Log(p)
}

// cellOf returns the cell of a probability.
func cellOf(p float64) int {
	return sort.Search(len(probabilities), func(k int) bool { return probabilities[k] > p })
}

// probability returns the stated probability of the second class, ½ for NaN. Without probabilities
// it is that of the score in units of a sixteenth of its largest value.
func (t *TestSet) probability(which int, p model.Prediction) float64 {
	v := math.NaN()
	if p.Probabilities != nil {
		v = p.Probabilities[1]
	} else if t.sigmoid[which] > 0 {
		v = 1 / (1 + math.Exp(-p.Score/t.sigmoid[which]))
	}
	if v != v {
		return 0.5
	}
	return v
}

// toSteps rounds v in [−1, 1] to units of 2⁻²⁰.
func toSteps(v float64) int64 { return int64(math.RoundToEven(math.Ldexp(v, scaleBits))) }

// judgeNumber returns the judgment of a record with a number as label.
func (t *TestSet) judgeNumber(p, q model.Prediction, label float64) judgment {
	o := judgment{e: t.subject.m.relativeError(p, label)}
	if t.subject.against != nil {
		o.f = t.subject.against.relativeError(q, label)
	}
	o.cell = sizeOf(max(o.e, o.f))
	if label == label {
		o.label = min(max(label/t.subject.m.bounds.Label, -1), 1)
	}
	return o
}

// fractions calls add with what an judgment adds to the sums of a test set, in units of 2⁻²⁰.
func (s *subject) fractions(o judgment, add func(i int, steps int64)) {
	switch {
	case s.kind != table.Range:
		add(0, o.steps)
	case s.against != nil:
		for k, c := range sizes {
			x, y := min(o.e/c, 1), min(o.f/c, 1)
			add(k, toSteps(x*x-y*y))
		}
	default:
		for k, c := range sizes {
			x := min(o.e/c, 1)
			add(2*k, toSteps(x*x))
			add(2*k+1, toSteps(x))
		}
		add(2*len(sizes), toSteps(o.label))
		add(2*len(sizes)+1, toSteps(o.label*o.label))
	}
}

// sizeOf returns the cell of an error in [0, 1]; the last one holds 1.
func sizeOf(e float64) int { return sort.Search(len(sizes), func(k int) bool { return sizes[k] > e }) }

// relativeError returns |b−b̂| over the range of the label, with b̂ brought into the range; 1 where
// either has no meaning.
func (m *scored) relativeError(p model.Prediction, label float64) float64 {
	lo, hi := m.labelRange()
	b := label
	if m.encoder != nil {
		b = m.encoder.LabelValue(label)
	}
	e := math.Abs(min(max(b, lo), hi)-min(max(p.Score, lo), hi)) / (hi - lo)
	if e != e {
		return 1
	}
	return min(e, 1)
}

// labelRange returns the declared range of a number.
func (m *scored) labelRange() (lo, hi float64) {
	if m.encoder == nil {
		return -m.bounds.Label, m.bounds.Label
	}
	return m.encoder.LabelValue(-1), m.encoder.LabelValue(1)
}
