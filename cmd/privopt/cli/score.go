// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/privopt/privopt/cmd/privopt/report"
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/model"
	"github.com/privopt/privopt/model/score"
	"github.com/privopt/privopt/table"
)

// scored is the output of score --json without a budget.
type scored struct {
	Private bool `json:"private"`
	Public  bool `json:"public"`
	model.Scores
	Fields []table.ColumnTally `json:"fields,omitempty"` // numbers of fields without a plain value
}

// score compares predictions with labels, and returns how the fields of a CSV table were read.
func (u *usage) score(ctx context.Context, a *app) (*model.Model, model.Scores, *table.Tally, error) {
	if isPacked(u.data) {
		m, err := u.load(ctx, a)
		if err != nil {
			return nil, model.Scores{}, nil, err
		}
		data, err := openPacked(ctx, u.data, m.Encoder(), false)
		if err != nil && ofPersons(m) { // of lines: a score that is not private needs no persons
			s := m.Encoder().Schema()
			s.Person, s.Rows = "", 0
			s.Weights = ""
			if e, failed := s.Encoder(); failed == nil {
				data, err = openPacked(ctx, u.data, e, false)
			}
		}
		if err != nil {
			return nil, model.Scores{}, nil, err
		}
		defer data.close()
		s, err := m.Score(data.Data)
		return m, s, &table.Tally{}, err
	}
	m, in, err := u.open(ctx, a)
	if err != nil {
		return nil, model.Scores{}, nil, err
	}
	defer in.close()
	t := &table.Tally{}
	s, err := m.ScoreCSV(in, table.Options{Public: u.public, Plain: in.plain, Tally: t})
	if err != nil {
		return nil, s, nil, fmt.Errorf("%s: %w", in.name, err)
	}
	return m, s, t, nil
}

const scoreHelp = `Compare predictions with the labels of a table.

With --epsilon the score is private and may be published: all counts get noise once, and
accuracy, balanced accuracy, AUC, log loss and calibration, or for a number RMSE, MAE and
R², follow from the same noisy counts. Each has a standard error of sampling and privacy
together. Every line is a record, also an empty one; a field without a meaning counts as
zero, and a label without one as a wrong prediction. --compare scores a second model on the
same records and releases the difference. A second score of the same table spends again:
--ledger adds up. If the model's schema names a person, all lines of a person together weigh
as one record, with and without --epsilon, and the standard errors are those of a sample of
persons.

Without --epsilon the result is NOT PRIVATE: it is computed from the rows without noise.
Publish it only if the table is public, which --public declares. If the label is a class,
score prints the accuracy, the accuracy of always predicting the most frequent class, the
mean log loss, and for two classes the area under the ROC curve, the most accurate
threshold and a table by tenths of the predictions. If the label is a number, it prints R²,
the share of the variance that the model explains, and the root of the mean squared error.
Below stand the shares of fields that are missing, clamped to their range, or other, which
are undeclared levels and fields of a number that hold none.

The table may be a .npy file that pack made with the schema.`

func (a *app) score() *cobra.Command {
	var (
		u usage
		t privateScore
	)
	c := &cobra.Command{
		Use:   "score --model FILE --data FILE",
		Short: "Compare predictions with known labels: private with --epsilon",
		Long:  scoreHelp,
		Example: `  privopt score --epsilon 0.3 --model model.json --data test.csv --ledger test.ledger
  privopt score --epsilon 0.3 --model a.json --compare b.json --data test.csv
  privopt score --epsilon 0.3 --model model.json --data test.csv --plot score.svg
  privopt score --model model.json --data adult.test --public
  privopt score --model model.json --data holdout.npy`,
		Args: noArgs,
		RunE: a.do(func(ctx context.Context, _ []string) error {
			if t.private || t.budget.Epsilon != 0 {
				return a.scorePrivately(ctx, &u, &t)
			}
			if err := t.unused(); err != nil {
				return err
			}
			m, s, tally, err := u.score(ctx, a)
			if err != nil {
				return err
			}
			if s.Records == 0 {
				return usagef("%s: the table has no records to compare with", u.data)
			}
			return a.show(scored{false, u.public, s, tally.Columns},
				publicScore(m, s, u.public)+sharesText(m.Encoder().Schema(), tally))
		}),
	}
	u.flags(c, "labelled table")
	t.flags(c)
	return c
}

func publicScore(m *model.Model, s model.Scores, public bool) string {
	var b strings.Builder
	if !public {
		b.WriteString(paragraph("", "NOT PRIVATE: computed from the rows without noise. Publish it only for public rows "+
			"(--public)."))
	}
	line := func(name, value string) { fmt.Fprintf(&b, "%-9s %s\n", name, value) }
	line(units(s.Persons), humanize.Comma(int64(s.Records)))
	if classNames(m) == nil {
		r2 := number(s.R2) + " (1 is best; baseline 0, always the mean)"
		if s.R2 == 0 {
			r2 = "– (all labels are equal)"
		}
		line("R²", r2)
		line("RMSE", number(s.RMSE)+" in units of "+printable(m.Encoder().Schema().Label.Column))
		if s.R2 < 1 && s.R2 != 0 {
			line("baseline", number(s.RMSE/math.Sqrt(1-s.R2))+" (RMSE of always the mean)")
		}
		if s.Outside > 0 {
			b.WriteString(paragraph("", "warning: "+labels(s.Outside)+" beyond the range that the schema declares, and count "+
				"as its end, so their errors are not those of the table"))
		}
		if s.Persons {
			b.WriteString(paragraph("", personsCount(m)))
		}
		return b.String()
	}
	line("accuracy", percent(s.Accuracy))
	line("baseline", percent(s.Baseline)+" (always the most frequent class)")
	if hasProbabilities(m) {
		line("log loss", number(s.LogLoss)+" nats per "+unit(s.Persons))
	}
	if len(s.Tenths) > 0 {
		what := "score"
		if hasProbabilities(m) {
			what = "probability"
		}
		auc := number(s.AUC) + " (baseline 0.5)"
		if s.Baseline == 1 {
			auc = "– (all labels are equal)"
		}
		line("AUC", auc)
		line("best", fmt.Sprintf("%s accuracy, at the threshold %s of the %s", percent(s.Best), number(s.Threshold, 3), what))
		head := []string{"tenth by score", units(s.Persons), "positives"}
		if hasProbabilities(m) {
			head = append(head, "stated")
		}
		var rows [][]string
		for i, t := range s.Tenths {
			row := []string{fmt.Sprint(i + 1), humanize.Comma(int64(t.Records)), percent(t.Positives), percent(t.Probability)}
			rows = append(rows, row[:len(head)])
		}
		b.WriteString(grid(head, rows))
	}
	if s.Persons {
		b.WriteString(paragraph("", personsCount(m)))
	}
	return b.String()
}

// personsCount says how the lines of a person count in a score.
func personsCount(m *model.Model) string {
	return fmt.Sprintf("Every person counts 1: all its lines together, of which at most %d count.", m.Params().Rows)
}

// labels says how many labels are.
func labels(n int) string {
	if n == 1 {
		return "1 label is"
	}
	return humanize.Comma(int64(n)) + " labels are"
}

// privateScore holds the flags of a private score.
type privateScore struct {
	private                                        bool
	budget                                         dp.Budget
	records                                        int
	only, shares, seed, ledger, compare, plot, out string
	options                                        score.Options
}

func (t *privateScore) flags(c *cobra.Command) {
	f := c.Flags()
	f.Float64Var(&t.budget.Epsilon, "epsilon", 0, "privacy budget `E`: a private score")
	f.Float64Var(&t.budget.Delta, "delta", -1, "privacy budget `D`, a tiny probability (default 1/n² for n records)")
	f.BoolVar(&t.private, "private", false, "a private score; needs --epsilon, which implies it")
	t.budgetFlags(c)
	f.StringVar(&t.ledger, "ledger", "", "charge the budget to the ledger `FILE` of the test set before noise is drawn")
	f.StringVar(&t.plot, "plot", "", "write the ROC curve and the calibration to a new SVG `FILE`")
	f.StringVar(&t.out, "out", "", "also write the score as JSON to a new `FILE`, for report --score")
	f.StringVar(&t.options.Threshold, "threshold", "", "choose the threshold of the probability with the best `SCORE`, "+
		"accuracy or balanced, from the released cells")
	f.StringVar(&t.seed, "seed", "", "draw reproducible noise from the seed `N`; the score is NOT PRIVATE")
	complete(c, "threshold", []string{"accuracy", "balanced"})
}

// budgetFlags are those that plan --score has too.
func (t *privateScore) budgetFlags(c *cobra.Command) {
	f := c.Flags()
	if f.Lookup("neighbors") == nil {
		neighborsFlag(c, &t.options.Relation, 0, "`KIND` of a private score: replace or add-remove (default: the schema's, "+
			"else replace)")
	}
	f.IntVar(&t.records, "records", 0, "public number `N` of records or people in the test set, under add-remove "+
		"neighbors")
	f.StringVar(&t.compare, "compare", "", "second model `FILE` that fit wrote, for the same label")
	f.StringVar(&t.only, "only", "", "release nothing but `SCORE`, which must be accuracy")
	f.StringVar(&t.shares, "shares", "", "shares `W,W,…` of the squared budget for the parts of the score, in their order")
	complete(c, "only", []string{"accuracy"})
}

// unused refuses flags of a private score without a budget.
func (t *privateScore) unused() error {
	for flag, v := range map[string]string{"--only": t.only, "--shares": t.shares, "--seed": t.seed, "--ledger": t.ledger,
		"--compare": t.compare, "--plot": t.plot, "--out": t.out, "--threshold": t.options.Threshold} {
		if v != "" {
			return usagef("%s is a flag of private scores: state a budget with --epsilon", flag)
		}
	}
	return nil
}

// complete turns the flags into options.
func (t *privateScore) complete(ctx context.Context, a *app) (err error) {
	o := &t.options
	switch t.only {
	case "", "accuracy":
		o.AccuracyOnly = t.only != ""
	default:
		return usagef("--only %q: want accuracy, or leave it out", t.only)
	}
	if t.shares != "" {
		for _, s := range strings.Split(t.shares, ",") {
			v, err := decimal(strings.TrimSpace(s))
			if err != nil {
				return usagef("--shares %q: want numbers that add up to 1, separated by commas, such as 0.45,0.35,0.2", t.shares)
			}
			o.Shares = append(o.Shares, v)
		}
	}
	if t.records < 0 {
		return usagef("--records %d: want a positive number", t.records)
	}
	o.Records = t.records
	if t.compare != "" {
		o.Against, err = a.readModel(ctx, "--compare", t.compare)
		if err == nil && o.Against.Encoder() == nil {
			err = usagef("--compare: %s was fitted without a schema, so it cannot read a table", t.compare)
		}
	}
	return err
}

// delta sets the default δ, 1/n² for the public number of records, and returns its origin.
func (t *privateScore) delta(person bool) (origin string, err error) {
	if t.budget.Delta >= 0 {
		return stated, nil
	}
	if t.options.Records == 0 {
		return "", usagef("the default δ = 1/n² needs a public number of %s: state --records, or --delta, such as 1e-9",
			units(person))
	}
	t.budget.Delta = model.DefaultDelta(t.options.Records)
	return "1/n² for " + amount(t.options.Records, unit(person)), nil
}

// ofPersons reports whether the unit of privacy of a score of m is a person.
func ofPersons(m *model.Model) bool {
	_, ok := m.Encoder().Persons()
	return ok
}

// relation returns the neighbors of a private score of m.
func (t *privateScore) relation(m *model.Model) dp.Relation {
	return cmp.Or(t.options.Relation, m.Encoder().Schema().Neighbors, dp.Replace)
}

func (a *app) scorePrivately(ctx context.Context, u *usage, t *privateScore) error {
	m, err := t.check(ctx, a, u)
	if err != nil {
		return err
	}
	plot, out, err := t.create(a)
	if err != nil {
		return err
	}
	defer plot.abandon()
	defer out.abandon()
	o, entries := &t.options, 0
	if t.ledger != "" {
		if o.Ledger, err = openLedger("--ledger", t.ledger); err != nil {
			return err
		}
		entries = len(o.Ledger.Entries())
	}
	p, set, err := t.plan(ctx, a, u, m)
	if err != nil {
		return err
	}
	s, err := p.Score(ctx, set)
	if s == nil {
		return charged(err, o.Ledger, entries, "score")
	}
	return a.writeScore(t, m, s, plot, out, err)
}

// check checks everything that needs no records, and returns the model.
func (t *privateScore) check(ctx context.Context, a *app, u *usage) (*model.Model, error) {
	switch {
	case t.budget.Epsilon == 0:
		return nil, usagef("--private needs a budget: state --epsilon, such as 0.3")
	case u.public:
		return nil, usagef("--public with a private score: leave out --epsilon for a table that is public")
	case t.options.Threshold != "" && t.options.Threshold != "accuracy" && t.options.Threshold != "balanced":
		return nil, usagef("--threshold %q: want accuracy or balanced", t.options.Threshold)
	}
	m, err := u.load(ctx, a)
	if err != nil {
		return nil, err
	}
	if err := t.complete(ctx, a); err != nil {
		return nil, err
	}
	relation := t.relation(m)
	if relation == dp.Replace && t.records != 0 {
		return nil, usagef("--records is for add-remove neighbors: under replace they are counted, and the number is public")
	}
	if relation == dp.AddRemove {
		if _, err := t.delta(ofPersons(m)); err != nil {
			return nil, err
		}
		if _, err := score.NewPlan(m, t.budget, &t.options); err != nil {
			return nil, err
		}
	}
	b := t.budget
	if b.Delta < 0 {
		b.Delta = 1e-6
	}
	if err := b.Check(); err != nil {
		return nil, err
	}
	t.options.Source, err = source(t.seed, t.ledger)
	return m, err
}

// create begins the files of the picture and the score, which are new; no file stands for none.
func (t *privateScore) create(a *app) (plot, out *output, err error) {
	if t.out == "-" {
		return nil, nil, usagef("--out -: want the name of a file; --json prints the score to standard output")
	}
	files := []*output{{}, {}}
	for i, p := range []struct{ path, kind string }{{t.plot, kindPicture}, {t.out, kindScore}} {
		if p.path == "" {
			continue
		}
		o, err := a.create(p.path, p.kind, false, 1<<16)
		if err != nil {
			files[0].abandon()
			return nil, nil, err
		}
		files[i] = o
	}
	return files[0], files[1], nil
}

// plan reads the table and plans for the number of its records.
func (t *privateScore) plan(
	ctx context.Context, a *app, u *usage, m *model.Model,
) (*score.Plan, *score.TestSet, error) {
	o := &t.options
	set, err := u.testSet(ctx, a, m, o.Against)
	if err != nil {
		return nil, nil, err
	}
	if t.relation(m) == dp.Replace {
		if o.Records = set.Records(); o.Records == 0 {
			return nil, nil, usagef("%s: the table has no %s to compare with", u.data, units(ofPersons(m)))
		}
	}
	if _, err := t.delta(ofPersons(m)); err != nil {
		return nil, nil, err
	}
	a.loose(t.budget, o.Records, ofPersons(m))
	p, err := score.NewPlan(m, t.budget, o)
	return p, set, err
}

// writeScore writes the score, which was paid for, to its file or else to standard output, then the
// picture. failed is an error of the ledger.
func (a *app) writeScore(
	t *privateScore, m *model.Model, s *score.Scores, plot, out *output, failed error,
) error {
	var text bytes.Buffer
	if err := s.Save(&text); err != nil {
		return err
	}
	where := "the output"
	if out.Writer != nil {
		if err := a.deliver(out, text.Bytes()); err != nil {
			return err
		}
		where = out.path
	}
	shown := scoreText(s, m)
	if a.json {
		shown = text.String()
	}
	if _, err := io.WriteString(a.stdout, shown); err != nil && out.Writer == nil {
		return a.rescue(err, text.Bytes())
	} else if err != nil {
		return err
	}
	if plot.Writer != nil {
		_, err := io.WriteString(plot, report.Sheet(scoreReport(s, m).Figures))
		if err == nil {
			err = plot.commit()
		}
		if err != nil {
			return noted{fmt.Errorf("--plot: %s: %w", plot.path, cause(err)), "the score itself is in " + where}
		}
	}
	return uncommitted(failed, t.options.Ledger, where)
}

// testSet reads the sums of the table.
func (u *usage) testSet(ctx context.Context, a *app, m, against *model.Model) (*score.TestSet, error) {
	if isPacked(u.data) {
		data, err := openPacked(ctx, u.data, m.Encoder(), true)
		if err != nil {
			return nil, err
		}
		defer data.close()
		if against != nil && encoding(against.Encoder()) != encoding(m.Encoder()) {
			return nil, usagef("--compare: the models encode rows in different ways: want the table as CSV")
		}
		return score.Read(ctx, m, data.Data, against)
	}
	in, err := a.openTable(ctx, "--data", u.data, "reading", m.Encoder().Schema().Missing)
	if err != nil {
		return nil, err
	}
	defer in.close()
	t, err := score.ReadCSV(ctx, m, in, table.Options{Plain: in.plain}, against)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in.name, err)
	}
	return t, nil
}

// scoreForecast is the output of plan --score.
type scoreForecast struct {
	Certificate dp.Certificate            `json:"certificate"`
	Delta       string                    `json:"deltaIs"`
	Blocks      []score.Block             `json:"blocks"`
	Privacy     map[string][]score.Metric `json:"privacy,omitempty"` // by the share of positives
}

// planScore shows what the noise of a private score adds, before any record is read.
func (a *app) planScore(ctx context.Context, path string, t *privateScore) error {
	m, err := (&usage{model: path}).load(ctx, a)
	if err != nil {
		return err
	}
	if err := t.complete(ctx, a); err != nil {
		return err
	}
	if t.relation(m) == dp.Replace && t.records == 0 {
		return usagef("--score under replace neighbors needs --records: the number of %s in the test set is public",
			units(ofPersons(m)))
	}
	origin, err := t.delta(ofPersons(m))
	if err != nil {
		return err
	}
	p, err := score.NewPlan(m, t.budget, &t.options)
	if err != nil {
		return err
	}
	out := scoreForecast{Certificate: p.Certificate(), Delta: origin, Blocks: p.Params().Blocks}
	var b strings.Builder
	b.WriteString(paragraph("privacy  ", fmt.Sprintf("ε = %s, δ = %s (%s), %v neighbors", claim(t.budget.Epsilon),
		claim(t.budget.Delta, 3), origin, out.Certificate.Relation)))
	b.WriteString(paragraph("plan     ", p.String()))
	var head []string
	var rows [][]string
	for _, share := range []float64{0.5, 0.25, 0.05} {
		metrics := p.Forecast(share)
		if metrics == nil {
			continue
		}
		if out.Privacy == nil {
			out.Privacy = map[string][]score.Metric{}
		}
		label := percent0(share)
		out.Privacy[strconv.FormatFloat(share, 'g', -1, 64)] = metrics
		row := []string{label}
		head = []string{"positives"}
		for _, v := range metrics {
			head = append(head, v.Name)
			cell := number(v.Privacy, 2)
			if v.Withheld != "" {
				cell = "withheld"
			}
			row = append(row, cell)
		}
		rows = append(rows, row)
		if len(metrics) == 1 { // it does not depend on the share
			rows[0][0] = "any"
			break
		}
	}
	if rows != nil {
		b.WriteString("\n" + paragraph("", "Standard deviation that privacy noise is expected to add to a score of "+
			amount(t.records, unit(ofPersons(m)))+", by the share of positives.") + "\n")
		b.WriteString(grid(head, rows))
	}
	return a.show(out, b.String())
}
