// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/privopt/privopt/cmd/privopt/report"
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/dp/ledger"
	"github.com/privopt/privopt/model"
	"github.com/privopt/privopt/model/score"
	"github.com/privopt/privopt/table"
)

func (a *app) htmlReport() *cobra.Command {
	var modelPath, scorePath, ledgerPath string
	out, force := "report.html", false
	c := &cobra.Command{
		Use:   "report --model FILE",
		Short: "Write a report with pictures, for readers new to privacy",
		Long: `Write a report on a model with pictures, for readers who are new to privacy.

The report is one HTML file that loads nothing from elsewhere: what is guaranteed and to
whom, the coefficients with their intervals, the effect of each column, what other budgets
would buy, the certificate and the commands. With --score it shows a private score, with
--ledger what all fits to the data have spent. It is made without any record, so that it
may be published with the model.`,
		Example: `  privopt report --model model.json
  privopt score --epsilon 0.3 --model model.json --data test.csv --out score.json
  privopt report --model model.json --score score.json --ledger people.ledger --out report.html`,
		Args: noArgs,
		RunE: a.do(func(ctx context.Context, _ []string) error {
			if a.json {
				return usagef("--json: a report is HTML; explain, summary and plan print JSON")
			}
			m, text, err := a.readModelFile(ctx, "--model", modelPath)
			if err != nil {
				return err
			}
			r := newReport(ctx, m)
			var score *score.Scores
			var scoreBytes []byte
			counted := "No ledger of this report counts the score. To check it against the ledger of its table: privopt " +
				"ledger verify LEDGER SCORE."
			if scorePath != "" {
				if score, scoreBytes, err = a.readScore(ctx, "--score", scorePath, m); err != nil {
					return err
				}
				r.Score = scoreReport(score, m)
			}
			if ledgerPath != "" {
				l, err := openLedger("--ledger", ledgerPath)
				if err != nil {
					return err
				}
				if head := m.LedgerHead(); head == "" {
					return fmt.Errorf("%w: %s was fitted without a ledger, so no ledger counts it: leave out --ledger",
						ledger.ErrBehind, modelPath)
				} else if err := l.VerifyFile(head, m.Certificate(), text); err != nil {
					return fmt.Errorf("%s: %w", modelPath, err)
				}
				ledgerReport(r, l)
				if score != nil && score.Ledger != "" && l.Verify(score.Ledger) == nil {
					if err := l.VerifyFile(score.Ledger, score.Certificate, scoreBytes); err != nil {
						return fmt.Errorf("%s: %w", scorePath, err)
					}
					counted = "The same ledger paid for this score."
				}
			}
			if score != nil {
				r.Score.Notes = append(r.Score.Notes, counted)
			}
			return a.write(out, kindReport, force, func(w io.Writer) error { return report.Write(w, r) })
		}),
	}
	c.Flags().StringVar(&modelPath, "model", "", "model `FILE` that fit wrote")
	c.Flags().StringVar(&scorePath, "score", "", "private score `FILE` that score --epsilon --out wrote")
	c.Flags().StringVar(&ledgerPath, "ledger", "", "ledger `FILE` that paid for the model")
	outFlags(c, &out, &force, "HTML `FILE` to write, - for standard output")
	required(c, "model")
	return c
}

// readScore reads a private score, and refuses one of another model.
func (a *app) readScore(ctx context.Context, flag, path string, m *model.Model) (*score.Scores, []byte, error) {
	text, name, err := a.readFile(ctx, flag, path, "", "")
	if err != nil {
		return nil, nil, err
	}
	s, err := score.Load(bytes.NewReader(text))
	if err != nil {
		return nil, nil, usagef("%s: %s is not a private score: make one by score --epsilon E --out FILE: %w", flag, name,
			err)
	}
	if m != nil && s.Model != m.SHA256() {
		return nil, nil, fmt.Errorf("%w: %s: %s is a score of the model with the SHA-256 %.12s…, and this one has %.12s…: "+
			"the file of either was exchanged or edited", ledger.ErrMismatch, flag, name, s.Model, m.SHA256())
	}
	return s, text, nil
}

func newReport(ctx context.Context, m *model.Model) *report.Report {
	e, c := newExplained(m), m.Certificate()
	p := m.Params()
	label := "a label"
	enc := m.Encoder()
	if enc != nil {
		label = printable(enc.Schema().Label.Column)
	}
	who := unit(c.Rows > 0)
	title := "A private model of "
	if !e.Private {
		title = "A model (not private) of "
	}
	r := &report.Report{
		Title: title + label,
		Lead: fmt.Sprintf("This model predicts “%s”. It learned from sensitive data, and every single %s in them is "+
			"protected: chance was added on purpose, so that the model says much about all of them together and little about "+
			"any one of them.", label, who),
		Plain: plainGuarantee(c, who),
		Detection: report.Detection(func(v float64) float64 { return power(c.Budget, v) }, corners(c.Budget), 0.05,
			units(c.Rows > 0)),
		Assumptions: words(c.Assumptions),
		Ledger:      []string{noLedger(m)},
		Commands:    commands(m), Program: version().String(),
	}
	r.Measure = "privopt score --epsilon 0.3 --model model.json --data test.csv --out score.json " +
		fmt.Sprintf("--neighbors %v", c.Relation)
	if c.Relation == dp.AddRemove {
		r.Measure += " --records 1000"
		r.MeasureNote = "In place of 1000, state about how many " + units(c.Rows > 0) + " test.csv is of: the " +
			"exact number is protected."
	}
	if !e.Private {
		r.Warning = "NOT PRIVATE: the noise came from a source that the caller chose, such as --seed. Whoever can guess " +
			"that source learns the data. The guarantee below holds only if nobody can guess it."
	}
	r.Asked = asked(m, label, who)
	section := func() *report.Section { return &r.Guarantee[len(r.Guarantee)-1] }
	r.Guarantee = []report.Section{{}} // for what comes before the first title, which the page says in other words
	e.tell(m, prose{
		section: func(title string) { r.Guarantee = append(r.Guarantee, report.Section{Title: title}) },
		line:    func(s string) { section().Parts = append(section().Parts, report.Part{Text: s}) },
		item: func(s string) {
			parts := &section().Parts
			if n := len(*parts); n == 0 || (*parts)[n-1].Items == nil {
				*parts = append(*parts, report.Part{Items: []string{}})
			}
			last := &(*parts)[len(*parts)-1]
			last.Items = append(last.Items, s)
		},
		formula: func(s string) {
			if s = strings.TrimSpace(s); s != "" {
				var lines []string
				for _, l := range strings.Split(s, "\n") {
					lines = append(lines, strings.TrimSpace(l))
				}
				section().Parts = append(section().Parts, report.Part{Formula: strings.Join(lines, "\n")})
			}
		},
	})
	r.Guarantee = r.Guarantee[1:]
	coefficientReport(ctx, r, m)
	effectReport(r, m)
	budgetReport(ctx, r, m)
	r.Certificate = []report.Fact{
		{Name: "Theorem", Text: c.Theorem}, {Name: "ε (epsilon)", Text: claim(c.Epsilon, 3)},
		{Name: "δ (delta)", Text: claim(c.Delta, 3)}, {Name: "Neighbors", Text: c.Relation.String()},
		{Name: "Unit of privacy", Text: "one " + who}, {Name: "Loss", Text: p.Loss.Name},
		{Name: "Mechanism", Text: p.Decision},
	}
	return r
}

// corners returns the false alarms at which the lines of [power] meet.
func corners(b dp.Budget) []float64 {
	return []float64{0, (1 - b.Delta) / (1 + math.Exp(b.Epsilon)), 1 - b.Delta, 1}
}

// plainGuarantee introduces ε in a sentence with an example, for somebody without statistics.
func plainGuarantee(c dp.Certificate, who string) []string {
	one, many := "one particular record was used", "records that were"
	if c.Rows > 0 {
		one, many = "the data of one particular person were used", "people whose data were"
	}
	if c.Relation == dp.Replace {
		one += ", or others instead"
	}
	return []string{
		fmt.Sprintf("The number ε (epsilon) says how much the model can reveal about one %s at most: the smaller, the "+
			"less. Here ε = %s.", who, claim(c.Epsilon, 3)),
		fmt.Sprintf("An example: somebody studies the model to find out whether %s. Whoever gives a false alarm for 5 of "+
			"100 %s not used notices at most %s of 100 %[2]s used. Guessing blindly, without the model, notices 5 of 100.",
			one, many, claim(100*power(c.Budget, 0.05), 3)),
		"With ε = 0 the model would reveal nothing and could learn nothing. ε = 1 is common. Much above 10, little is " +
			"protected.",
	}
}

func words(list []dp.Assumption) (out []string) {
	for _, a := range list {
		out = append(out, string(a))
	}
	return out
}

func asked(m *model.Model, label, who string) []report.Fact {
	p, c := m.Params(), m.Certificate()
	question := "a number, " + label
	var columns []string
	if enc := m.Encoder(); enc != nil {
		s := enc.Schema()
		switch l := s.Label; {
		case len(l.Levels) > 0:
			question = fmt.Sprintf("which of %d classes %s is: %s", len(l.Levels), label, list(l.Levels))
		case len(l.Positive) > 0:
			question = fmt.Sprintf("whether %s is %s rather than %s", label, either(l.Positive), either(l.Negative))
		case l.Min != nil && l.Max != nil:
			question = fmt.Sprintf("the number %s, between %s and %s", label, number(*l.Min), number(*l.Max))
		}
		for _, col := range s.Columns {
			if !col.Ignore {
				columns = append(columns, col.Name)
			}
		}
	}
	records := "not declared"
	if p.Records > 0 {
		records = amount(p.Records, who)
		if c.Relation == dp.AddRemove {
			records = "about " + records + ", as declared; the exact number is protected"
		}
	}
	whose := "each record: one line of the table"
	if c.Rows > 0 {
		whose = fmt.Sprintf("each person, with all lines of that person; at most %d of them count", c.Rows)
	}
	facts := []report.Fact{{Name: "Question", Text: question}}
	if len(columns) > 0 {
		facts = append(facts, report.Fact{Name: "Answered from", Text: list(columns)})
	}
	slack := fmt.Sprintf("up to an additional probability of δ = %s", claim(c.Delta, 3))
	if c.Delta == 0 {
		slack = "without exception (δ = 0)"
	}
	return append(facts, report.Fact{Name: "Data of", Text: records}, report.Fact{Name: "Protected", Text: whose},
		report.Fact{Name: "Privacy budget", Text: fmt.Sprintf("ε = %s: no outcome gets more than %s times as likely when "+
			"one %s changes, %s.", claim(c.Epsilon, 3), claim(math.Exp(c.Epsilon), 3), who, slack)})
}

// either joins spellings of one label.
func either(spellings []string) string {
	return "“" + strings.ReplaceAll(list(spellings), ", ", "” or “") + "”"
}

// list joins names, and counts those beyond the first few.
func list(names []string) string {
	const most = 24
	out := make([]string, 0, most)
	for _, n := range names[:min(len(names), most)] {
		out = append(out, printable(n))
	}
	text := strings.Join(out, ", ")
	if len(names) > most {
		text += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return text
}

func noLedger(m *model.Model) string {
	if head := m.LedgerHead(); head != "" {
		return fmt.Sprintf("A ledger counts this model, in entry %s. This report was made without the ledger. To check it: "+
			"privopt ledger verify LEDGER MODEL.", head[:12])
	}
	return "No ledger counts this model. Its ε and δ add up with those of every other release from the same data."
}

func ledgerReport(r *report.Report, l *ledger.Ledger) {
	t := l.Terms()
	left, _ := (&shown{Used: l.Used()}).left()
	r.Ledger = []string{
		fmt.Sprintf("A ledger adds up what all releases from the same data may reveal together. This one allows ε = %s and "+
			"δ = %s in all. It has %s, is intact, and paid for this model.", claim(t.Total.Epsilon, 3),
			claim(t.Total.Delta, 3), amount(len(l.Entries()), "entry")),
		fmt.Sprintf("Of this total, %d %% are left for later releases.", left),
	}
	spent := report.Table{Caption: "Releases", Head: []string{"Theorem", "Entry", "Time (UTC)", "ε", "δ"}}
	for _, e := range l.Entries() {
		spent.Rows = append(spent.Rows, []string{printable(e.Theorem), humanize.Comma(int64(e.Number)),
			e.Time.Format("2006-01-02 15:04"), claim(e.Epsilon, 3), claim(e.Delta, 3)})
	}
	if n := len(spent.Rows); n > 200 {
		spent.Caption, spent.Rows = fmt.Sprintf("The last 200 of %s releases", humanize.Comma(int64(n))), spent.Rows[n-200:]
	}
	r.LedgerTables = []report.Table{spent}
}

// planOf returns the plan of a model with a schema, with another ε.
func planOf(m *model.Model, factor float64) (*model.Plan, error) {
	enc, p := m.Encoder(), m.Params()
	if enc == nil {
		return nil, errors.New("no schema")
	}
	s, b := enc.Schema(), m.Certificate().Budget
	s.Records = cmp.Or(p.Records, s.Records)
	b.Epsilon *= factor
	o := &model.Options{Loss: p.Loss, Penalty: p.Penalty, Set: p.Set, Intervals: p.Intervals, Relation: p.Relation,
		Records: p.Records}
	if p.Relation == dp.Replace {
		o.Records = 0
	}
	return model.NewPlan(s, b, o)
}

func budgetReport(ctx context.Context, r *report.Report, m *model.Model) {
	enc, c := m.Encoder(), m.Certificate()
	if enc == nil {
		r.BudgetNote = "The model was fitted without a schema, so no plan of other budgets can be made from it."
		return
	}
	s := enc.Schema()
	many := units(c.Rows > 0)
	bounded := false
	r.Budgets = report.Table{Caption: "Forecasts for other values of ε", Head: []string{"ε", "Noise : chance",
		"Equal with", "Loss above the best"}}
	for _, factor := range []float64{0.1, 1.0 / 3, 1, 3, 10} {
		pl, err := planOf(m, factor)
		if err != nil {
			continue
		}
		b := pl.Params().Budget
		f, look, err := newForecast(ctx, b, pl, someFits(pl), 0)
		if err != nil {
			continue
		}
		ratio, equal, excess := "–", "–", "no bound"
		name := number(b.Epsilon, 3)
		if look != nil {
			ratio = number(look.Prediction/look.Chance, 2) + " : 1"
			equal = pay(look.Records) + " " + many
		}
		if f.Excess != nil {
			excess, bounded = "at most "+number(*f.Excess, 3), true
		}
		if factor == 1 {
			name += " (this model)"
		}
		r.Budgets.Rows = append(r.Budgets.Rows, []string{name, ratio, equal, excess})
	}
	r.BudgetNote = "A smaller ε protects better and needs more noise, so the model gets less right. Every model also " +
		"errs by chance, because it saw these " + many + " and not everybody. “Noise\u00a0:\u00a0chance” compares the two " +
		"errors: at 0.5\u00a0:\u00a01 the noise adds half as much as chance. “Equal with” is the number of " + many + " " +
		"with which both would be as large; with more of them, noise matters less. These are forecasts from the declared " +
		"columns, not from the data."
	if bounded {
		r.BudgetNote += " “Loss above the best” is a proved bound: the loss, of which a model makes the mean small, lies " +
			"on average at most this far above the smallest possible."
	} else {
		r.Budgets.Head = r.Budgets.Head[:3]
		for i := range r.Budgets.Rows {
			r.Budgets.Rows[i] = r.Budgets.Rows[i][:3]
		}
	}
	if s.Discovery != nil {
		r.BudgetNote += " They leave out the part of the budget that the search for the columns took."
	}
	if len(r.Budgets.Rows) == 0 {
		r.BudgetNote = "No plan can be made for other budgets, because the number of records is not declared."
	}
}

func commands(m *model.Model) string {
	p, c := m.Params(), m.Certificate()
	fit := fmt.Sprintf("privopt fit --schema schema.json --data data.csv --epsilon %v --delta %v --neighbors %v --loss %s",
		c.Epsilon, c.Delta, c.Relation, p.Loss.Name)
	add := func(flag string, v float64) {
		if v != 0 {
			fit += fmt.Sprintf(" --%s %v", flag, v)
		}
	}
	add("order", p.Loss.Order)
	add("ridge", p.Penalty.Ridge)
	add("lasso", p.Penalty.Lasso)
	add("group", p.Penalty.Group)
	if p.Set.Name != "" {
		fit += fmt.Sprintf(" --set %s:%v", p.Set.Name, p.Set.Size)
	}
	if p.Intervals != nil {
		fit += " --intervals"
		add("level", p.Intervals.Level)
		add("bound", p.Intervals.Radius)
	}
	return strings.Join([]string{
		"# schema.json is the key \"schema\" of model.json", fit + " --out again.json",
		"privopt explain again.json", "privopt summary again.json --all",
		"privopt report --model again.json --out again.html",
	}, "\n")
}

func scoreReport(s *score.Scores, m *model.Model) *report.Score {
	c := s.Certificate
	records := amount(int64(math.Round(s.Records.Value)), unit(c.Rows > 0))
	if c.Relation == dp.AddRemove {
		records = "about " + records
	}
	out := &report.Score{Notes: []string{fmt.Sprintf("The model was tried on %s that it should not have learned from. "+
		"This measurement is protected too: it has noise of its own and its own budget %s. About 95 %% of the "+
		"intervals of a value ± its margin hold the true value: the margin counts chance in the data and noise together. "+
		"The baseline is what a model reaches that says the same of everybody.", records, budget(c.Budget))}}
	if !s.Private {
		out.Notes = append(out.Notes, "NOT PRIVATE: whoever guesses the seed of the score can take its noise away.")
	}
	t := report.Table{Caption: "Quality", Head: []string{"Measure", "Value", "± 95 %", "Baseline",
		"Error from chance", "Error from noise", "Note"}}
	baselines := baselinesOf(s)
	for _, v := range s.Metrics {
		cells, note := metricCells(v, s.Cap, baselines)
		t.Rows = append(t.Rows, append(append([]string{measure(v.Name)}, cells[1:]...), note))
	}
	out.Tables = append(out.Tables, t)
	if names := classNames(m); len(s.Confusion) > 0 && len(names) == len(s.Confusion) {
		out.Tables = append(out.Tables, report.Table{
			Caption: "True classes (rows) and predicted classes (columns), as noisy counts",
			Head:    append([]string{"True class"}, names...), Rows: confusion(s, names)})
	}
	if len(s.ROC) > 0 {
		var points []report.Point
		for _, o := range s.ROC {
			points = append(points, report.Point{X: o.FPR, Y: o.TPR, XErr: o.FPRError, YErr: o.TPRError})
		}
		out.Figures = append(out.Figures, report.Figure{Caption: "Right alarms against false ones (ROC curve)",
			SVG: report.ROC(points)})
	}
	var cells []report.Cell
	for _, v := range s.Calibration {
		if v.Share.Withheld == "" {
			cells = append(cells, report.Cell{From: v.From, To: v.To, Lo: v.Share.Interval[0], Mid: v.Share.Value,
				Hi: v.Share.Interval[1]})
		}
	}
	if len(cells) > 0 {
		out.Figures = append(out.Figures, report.Figure{Caption: "Do stated chances come true? (calibration)",
			SVG: report.Calibration(cells)})
	}
	return out
}

// measure explains the name of a metric.
func measure(name string) string {
	about := map[string]string{
		"accuracy": "share of right predictions", "balanced": "accuracy if all classes were as frequent",
		"AUC":      "chance that of two, one of each class, the right one gets the higher score",
		"log loss": "how wrong the stated chances are, 0 is best",
		"RMSE":     "root of the mean squared error, with a cap on errors",
		"MAE":      "mean size of an error, with that cap", "R²": "share of the variance explained",
		"larger errors": "share of errors beyond the cap",
	}[name]
	if about == "" {
		return name
	}
	return name + ": " + about
}

// columnOf returns the declaration of a column by its name.
func columnOf(s *table.Schema, name string) *table.Column {
	if i := slices.IndexFunc(s.Columns, func(c table.Column) bool { return c.Name == name }); i >= 0 {
		return &s.Columns[i]
	}
	return nil
}
