// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package model goes from a table of private records to a private model:
//
//	schema, err := table.ReadSchema(schemaFile)
//	if err != nil {
//		return err
//	}
//	data, err := table.ReadCSV(csvFile, schema)
//	if err != nil {
//		return err
//	}
//	m, err := model.Fit(ctx, data, dp.Budget{Epsilon: 1, Delta: 1e-9}, nil)
//	if err != nil {
//		return err
//	}
//	fmt.Println(m.Summary(), m.Certificate())
//	return m.Save(modelFile) // Load reads it, PredictCSV predicts
//
// A ledger in [Options] is charged before noise is drawn. A [Plan] chooses everything that
// [Options] leave open. It is fixed before a record is read, and chooses from public quantities, or
// from noisy outputs that the budget pays for. A [Model] may be published: it holds the release and
// public quantities only.
//
// # Theorems
//
// A plan of one release has a theorem of package lop. The theorems of several releases are proved
// in docs/theory/composition.md#model.auto/1:
//
//	identifier         statement
//	model.auto/1       minimizers sᵢ = √wᵢ·μ, cᵢ, and Gaussian releases t² = Σwⱼ·μ², Σw = 1, in any
//	                   order; each may depend on earlier outputs, but s, c and t are fixed before
//	model.intervals/1  the same with Σφ″aa′ and Σφ′²aa′ among the Gaussian releases
//	model.auto/2       Gaussian releases alone, whose shares of μ² may depend on outputs
//	model.discover/1   a search for a schema, alone or before a fit: docs/theory/discovery.md
//
// Package score scores a model on a private test set.
//
// The clip and the ridge of a minimizer follow from earlier outputs and public quantities. Then its
// noise is σ = G(Clip)/s and its ridge is at least β/expm1(c) − μ_r, for persons with several lines
// β/c − μ_r. Sums are sums of integers: the term of each record, or of each person, is rounded by
// itself to a public grid, and the sum gets integer noise of an exact law.
//
// # Notation
//
//	θ, d      the parameters in the units of encoded rows, and their number
//	n₀        the declared number of records, n under dp.Replace
//	X, Y      loss.Bounds.Row, loss.Bounds.Label
//	μ, w      Sequence.Mu, Sequence.Shares
//	G, M      L or 2L; 1 or √2 under dp.Replace
//	Ĥ, Ĵ      the noisy sums of φ″aa′ and φ′²aa′; their noise has deviation τ
//	Δ, σ      ridge and noise of the last minimizer
//
// # References
//
//	[WKL19]  Wang, Kifer, Lee. Differentially Private Confidence Intervals for Empirical
//	         Risk Minimization. Journal of Privacy and Confidentiality, 2019.
package model

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/dp/ledger"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/prefix"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/table"
)

// Model is a private model. It is immutable and may be published.
type Model struct {
	theta   []float64
	cert    dp.Certificate
	params  Params
	choice  *Choice
	moments *moments
	prose   string
	head    string // of the ledger, "" without one
	encoder *table.Encoder
	build   build
	digest  string // SHA-256 of the file that Load read, "" for a model that Fit made
}

// Fit plans, charges the ledger if there is one, and fits. nil options mean that everything is
// automatic. Data without an Encoder, such as rows in memory, need the name of a Loss.
//
// The error is that of [NewPlan], wraps [dp.ErrCondition] for a table of more records than the plan
// accounts for, is that of [ledger.Ledger.Spend] or Commit, or is ctx.Err(). Errors that public
// quantities cause come before the ledger is charged. An error after that does not give the budget
// back.
//
// The ledger commits to the file that [Model.Save] writes before Fit returns the model. If that
// fails, Fit returns the model, which was paid for, with the error: no ledger will verify it.
func Fit(ctx context.Context, data *table.Data, b dp.Budget, o *Options) (*Model, error) {
	if err := release.CheckContext(ErrOptions, ctx); err != nil {
		return nil, err
	}
	t, err := newTask(data, o)
	if err != nil {
		return nil, err
	}
	if n, _ := data.Records.Dims(); n == 0 && t.options.Relation == dp.Replace {
		if _, persons := data.Records.Persons(); persons {
			return nil, fmt.Errorf("%w: no line of the table has the id of a person", ErrOptions)
		}
		return nil, fmt.Errorf("%w: the table has no records", ErrOptions)
	}
	pl, err := t.plan(b)
	if err != nil {
		return nil, err
	}
	if err := pl.check(t.problem); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	head, err := charge(ctx, t.options.Ledger, pl, t.options.Source)
	if err != nil {
		return nil, err
	}
	out, err := pl.run(ctx, t.problem, t.options.Source)
	if err != nil {
		return nil, err
	}
	m := &Model{
		theta: out.theta, cert: out.cert, params: pl.Params(), choice: out.choice, moments: out.moments,
		prose: pl.String(), head: head, encoder: t.encoder, build: readBuild(),
	}
	m.threshold()
	return m, m.commit(ctx, t.options.Ledger)
}

// charge spends the cost of a plan on the ledger, if there is one, and returns the hash of the
// entry.
func charge(ctx context.Context, l *ledger.Ledger, pl dp.Plan, src rand.Source) (head string, err error) {
	if l == nil {
		return "", nil
	}
	entry, err := l.Spend(ctx, pl, src)
	if err != nil {
		return "", prefix.Errorf("model: %w", err)
	}
	return entry.Hash, nil
}

// commit commits the ledger, if there is one, to the file that Save writes.
func (m *Model) commit(ctx context.Context, l *ledger.Ledger) error {
	if l == nil {
		return nil
	}
	var file bytes.Buffer
	err := m.Save(&file)
	if err == nil {
		err = l.Commit(ctx, m.head, file.Bytes())
	}
	if err != nil {
		return prefix.Errorf("model: %w", err)
	}
	return nil
}

// threshold sets a coefficient of a lasso to 0 if the output noise alone may have moved it away
// from 0.
func (m *Model) threshold() {
	if m.params.Penalty.Lasso == 0 && m.params.Penalty.Group == 0 {
		return
	}
	d := float64(len(m.theta))
	gauss, size := math.Sqrt(2*math.Log(1000*d)), 0.0
	switch r := m.params.Release; {
	case r == nil:
		size = m.choice.OutputSigma * gauss
	case r.OutputSigma > 0:
		size = r.OutputSigma * gauss
	default:
		size = (d + 10*math.Sqrt(d)) / r.OutputRate
	}
	for j, v := range m.theta {
		if math.Abs(v) <= size {
			m.theta[j] = 0
		}
	}
}

// Theta returns a copy of θ, in the units of encoded rows.
func (m *Model) Theta() []float64 { return slices.Clone(m.theta) }

// Coefficients returns the coefficients in the units of the file; nil without a schema.
func (m *Model) Coefficients() []table.Coefficient {
	if m.encoder == nil {
		return nil
	}
	return m.encoder.Coefficients(m.theta)
}

// Certificate states the guarantee of the model.
func (m *Model) Certificate() dp.Certificate { return m.cert.With() }

// Params returns the numbers of the plan.
func (m *Model) Params() Params { return m.params.clone() }

// Choice returns the numbers chosen from noisy outputs, nil if there was no choice.
func (m *Model) Choice() *Choice {
	c := copied(m.choice)
	if c != nil {
		c.Average = slices.Clone(c.Average)
	}
	return c
}

// Describe returns the plan in prose.
func (m *Model) Describe() string { return m.prose }

// LedgerHead returns the hash of the ledger's entry for this model, "" without a ledger.
func (m *Model) LedgerHead() string { return m.head }

// SHA256 returns the SHA-256, as 64 hexadecimal digits, of the file that [Load] read the model
// from, or else of the one that Save writes.
func (m *Model) SHA256() string {
	if m == nil || m.digest != "" || len(m.theta) == 0 {
		return cmp.Or(m, &Model{}).digest
	}
	h := sha256.New()
	m.Save(h) // a hash has no errors
	return hex.EncodeToString(h.Sum(nil))
}

// Encoder returns the encoder of the schema, nil without one.
func (m *Model) Encoder() *table.Encoder { return m.encoder }

// Prediction is the prediction of a model for one row.
type Prediction struct {
	// Score is ⟨a,θ⟩; for Multinomial the largest over the classes; for a label with a range, in
	// the units of the label.
	Score float64
	// Label is the predicted label as the file spells it, or a number.
	Label string
	// Class is the predicted class: 0 or 1, or 0, …, K−1; 0 for a number.
	Class int
	// Probabilities of the classes 0, 1, … of Logistic and Multinomial, nil for other losses.
	Probabilities []float64
}

// Predict predicts for an encoded row. It panics unless the row has one coordinate for each feature
// of the encoder.
func (m *Model) Predict(row []float64) Prediction {
	if len(row) != m.features() {
		panic(badRow)
	}
	return m.predict(func(block []float64) float64 { return floats.Dot(row, block) })
}

// PredictEntries predicts for an encoded row given by its nonzero entries, as by [table.Rows]. It
// panics if a column is out of range or the lengths differ.
func (m *Model) PredictEntries(col []int32, val []float64) Prediction {
	if len(col) != len(val) {
		panic(badRow)
	}
	return m.predict(func(block []float64) float64 {
		u := 0.0
		for k, j := range col {
			if int(j) < 0 || int(j) >= len(block) {
				panic(badRow)
			}
			u += val[k] * block[j]
		}
		return u
	})
}

const badRow = "model: Predict of a row with another number of features than the model"

// features returns p.
func (m *Model) features() int { return len(m.theta) / m.classes() }

// classes returns K of Multinomial, else 1.
func (m *Model) classes() int {
	if m.params.Loss.Name != Multinomial {
		return 1
	}
	return int(m.params.Bounds.Label) + 1
}

func (m *Model) predict(dot func(block []float64) float64) Prediction {
	var p Prediction
	encoded := 0.0 // the label
	kind := kinds[m.params.Loss.Name]
	switch kind {
	case table.Binary:
		p.Score = dot(m.theta)
		encoded = p.Score
		if p.Score >= 0 {
			p.Class = 1
		}
		if m.params.Loss.Name == Logistic {
			e := math.Exp(-math.Abs(p.Score))
			p.Probabilities = []float64{e / (1 + e), 1 / (1 + e)}
			if p.Score < 0 {
				slices.Reverse(p.Probabilities)
			}
		}
	case table.Classes:
		d, scores := m.features(), make([]float64, m.classes())
		sum := 0.0
		for c := range scores {
			scores[c] = dot(m.theta[c*d : (c+1)*d])
		}
		p.Class = floats.MaxIdx(scores)
		p.Score, encoded = scores[p.Class], float64(p.Class)
		for c, s := range scores {
			scores[c] = math.Exp(s - p.Score)
			sum += scores[c]
		}
		floats.Scale(1/sum, scores)
		p.Probabilities = scores
	default:
		encoded = dot(m.theta)
		p.Score = encoded
		if m.encoder != nil {
			encoded = min(max(encoded, -1), 1) // as labels are
			p.Score = m.encoder.LabelValue(encoded)
		}
	}
	switch {
	case m.encoder != nil:
		p.Label = m.encoder.LabelText(encoded)
	case kind == table.Range:
		p.Label = fmt.Sprint(p.Score)
	default:
		p.Label = fmt.Sprint(p.Class)
	}
	return p
}

// rows opens a table in the form of the schema.
func (m *Model) rows(r io.Reader, o table.Options) (*table.Rows, error) {
	if m == nil || m.encoder == nil {
		return nil, fmt.Errorf("%w: the model has no schema to read a table by, want one made by Fit or Load", ErrOptions)
	}
	return m.encoder.Rows(r, o)
}

// PredictCSV reads a table in the form of the schema, one row at a time, and yields a prediction
// for each row. The label may be absent. Empty lines and comments are skipped. It stops at the
// first error of yield. The error wraps [table.ErrTable], or [ErrOptions] for a model without a
// schema.
func (m *Model) PredictCSV(r io.Reader, o table.Options, yield func(Prediction) error) error {
	if yield == nil {
		return fmt.Errorf("%w: yield is nil, want a function that takes predictions", ErrOptions)
	}
	o.Unlabeled, o.Skip = true, true
	rows, err := m.rows(r, o)
	if err != nil {
		return err
	}
	for rows.Next() {
		if err := yield(m.PredictEntries(rows.Row())); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Scores measure how well a model predicts known labels.
type Scores struct {
	Records  int     `json:"records"`
	Persons  bool    `json:"persons,omitzero"`  // Records counts persons, whose lines share a weight
	Accuracy float64 `json:"accuracy,omitzero"` // share of records with the right class
	Baseline float64 `json:"baseline,omitzero"` // the same of the most frequent class
	LogLoss  float64 `json:"logLoss,omitzero"`  // mean of −log p of the true class, where there are probabilities
	R2       float64 `json:"r2,omitzero"`       // 1 − Σ(b−b̂)²/Σ(b−b̄)², of numbers; 0 if all are equal
	RMSE     float64 `json:"rmse,omitzero"`     // root of the mean squared error, in the units of the label
	Outside  int     `json:"outside,omitzero"`  // number of labels beyond their declared range
	// AUC is the area under the ROC curve of two classes, 0 if one of them does not occur. Best is the
	// accuracy at the best Threshold of the probability, or of the score for losses without
	// probabilities. Tenths go from the highest scores down. Scores that differ by less than 2⁻¹⁰ are
	// equal.
	AUC       float64 `json:"auc,omitzero"`
	Best      float64 `json:"best,omitzero"`
	Threshold float64 `json:"threshold,omitzero"`
	Tenths    []Tenth `json:"tenths,omitempty"`
}

// Score compares predictions with the labels of data encoded by the same schema. Not private: the
// scores are a function of the records, so publish them only if the records are public.
func (m *Model) Score(data *table.Data) (Scores, error) {
	if m == nil || data == nil {
		return Scores{}, fmt.Errorf("%w: the model or the data are nil, want both", ErrOptions)
	}
	_, d := data.Records.Dims()
	if d != len(m.theta) {
		return Scores{}, fmt.Errorf("%w: the table has %d parameters, want %d, those of the model", ErrOptions, d,
			len(m.theta))
	}
	s := tally{m: m, counts: map[int]float64{}}
	if _, ok := data.Records.Persons(); !ok {
		err := data.Records.Each(func(a []float64, b float64) { s.add(m.Predict(a[:m.features()]), b, 1) })
		return s.scores(), err
	}
	s.persons = new(int)
	err := data.Records.EachPerson(context.Background(), 1, 1, func(_ []float64, w float64, a []float64, b float64) {
		s.add(m.Predict(a[:m.features()]), b, w)
	}, func([]float64) { *s.persons++ })
	return s.scores(), err
}

// ScoreCSV is [Model.Score] for a table that is read one row at a time. A table with the ids of the
// schema's persons is read whole, and scored by person. Not private.
func (m *Model) ScoreCSV(r io.Reader, o table.Options) (Scores, error) {
	o.Unlabeled, o.Skip = false, true
	rows, err := m.rows(r, o)
	if err != nil {
		return Scores{}, err
	}
	s := tally{m: m, counts: map[int]float64{}}
	ids := false
	b, err := erm.NewBuilder(m.encoder.Dim(), true, m.encoder.Bounds()) // of the lines of persons
	if err != nil {
		return Scores{}, err
	}
	for rows.Next() {
		col, val := rows.Row()
		s.add(m.PredictEntries(col, val), rows.Label(), 1)
		if id := rows.ID(); id != "" {
			b.AddSparse(col, val, rows.Label())
			b.ID(id)
			ids = true
		}
	}
	if err := rows.Err(); err != nil {
		return Scores{}, err
	}
	out := s.scores()
	if ids {
		who, _ := m.encoder.Persons()
		who.Weights = erm.PersonsEqual
		data, err := b.ByPerson(context.Background(), who)
		if err != nil {
			return Scores{}, err
		}
		if out, err = m.Score(&table.Data{Records: data, Encoder: m.encoder}); err != nil {
			return Scores{}, err
		}
	}
	out.Outside = rows.Outside()
	return out, nil
}

type tally struct {
	m                    *Model
	persons              *int // their number, nil for records
	n, right             float64
	counts               map[int]float64
	log, sum, square, se float64
	ranking              ranking
}

func (s *tally) add(p Prediction, b, w float64) {
	s.n += w
	class := 0
	switch kinds[s.m.params.Loss.Name] {
	case table.Binary:
		if b > 0 {
			class = 1
		}
	case table.Classes:
		class = int(min(max(math.RoundToEven(b), 0), float64(s.m.classes()-1))) // as LabelText does
	default:
		if s.m.encoder != nil {
			b = s.m.encoder.LabelValue(b)
		}
		s.sum += w * b
		s.square += w * b * b
		s.se += w * (b - p.Score) * (b - p.Score)
		return
	}
	s.counts[class] += w
	if s.m.classes() == 1 {
		s.ranking.add(p, class, w)
	}
	if class == p.Class {
		s.right += w
	}
	if p.Probabilities != nil {
		s.log -= w * math.Log(max(p.Probabilities[class], math.SmallestNonzeroFloat64))
	}
}

func (s *tally) scores() Scores {
	out, n := Scores{Records: int(s.n)}, s.n
	if s.persons != nil {
		out.Records, out.Persons = *s.persons, true
	}
	if n == 0 {
		return out
	}
	if len(s.counts) == 0 {
		out.RMSE = math.Sqrt(s.se / n)
		if total := s.square - s.sum*s.sum/n; total > 1e-12*s.square { // else equal up to rounding
			out.R2 = 1 - s.se/total
		}
		return out
	}
	most := slices.Max(slices.Collect(maps.Values(s.counts)))
	out.Accuracy, out.Baseline = s.right/n, most/n
	out.LogLoss = s.log / n
	s.ranking.finish(&out)
	return out
}
