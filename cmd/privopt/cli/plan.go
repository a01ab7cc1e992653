// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/model"
)

// planned is the output of plan --json.
type planned struct {
	Certificate  dp.Certificate `json:"certificate"`
	Delta        string         `json:"deltaIs"`
	Plan         string         `json:"plan"`
	Params       model.Params   `json:"params"`
	Budgets      []forecast     `json:"budgets"`
	Coefficients []deviation    `json:"coefficients"`
	Common       float64        `json:"common"` // deviation of all effects together, relative to each
	Warning      string         `json:"warning,omitempty"`
	Absent       float64        `json:"absentLevel,omitzero"` // root mean square of the effect of a level without records
}

// forecast is the expected accuracy at a budget. All but Noise and Excess come from simulations,
// and
// are left out where the number of records is not declared.
type forecast struct {
	Epsilon    float64  `json:"epsilon"`
	Noise      float64  `json:"noise"`                  // standard deviation on a coordinate of the sum of gradients
	Prediction *float64 `json:"prediction,omitempty"`   // how far noise moves a prediction, root mean square
	Chance     *float64 `json:"chance,omitempty"`       // the same for chance
	Lost       *float64 `json:"lost,omitempty"`         // share of what the columns explain
	Records    *float64 `json:"recordsToPay,omitempty"` // from which on chance moves predictions more than noise
	Excess     *float64 `json:"excess,omitempty"`       // bound on the mean loss above its minimum
}

// deviation is the standard deviation that noise gives a coefficient, in the units of the file.
type deviation struct {
	Class     string  `json:"class,omitempty"`
	Name      string  `json:"name"`
	Deviation float64 `json:"deviation"`                 // if half of the labels are positive, or --rate
	Rare      float64 `json:"deviationIfRare,omitempty"` // if the share rareRate is, without --rate
	Weak      bool    `json:"weak,omitempty"`
}

func (a *app) plan() *cobra.Command {
	var (
		t         task
		s         privateScore
		all       bool
		ofScore   bool
		modelPath string
		rate      float64
	)
	c := &cobra.Command{
		Use:   "plan --schema FILE --epsilon E",
		Short: "Show what a fit would do and cost, before any data is read",
		Long: `Show what a fit would do and cost, before any data is read.

plan prints the guarantee, the mechanism and the reason for choosing it, the noise at
this budget and at a third and three times epsilon, and for each coefficient the standard
deviation that the noise is expected to add, in the units of the coefficient. A
coefficient smaller than its deviation is lost in the noise: raise epsilon, find more
records, or declare fewer columns and levels.

plan reads no records: everything follows from the schema and the flags. The guarantee and
the bound on the excess loss are proved. All other numbers are forecasts: plan runs the fit
on rows that the schema and a public seed make up, in which the columns explain half of a
number. It warns if noise would take more than half of that, and so does fit. Noise moves
the log odds of a rare class more: the forecasts of coefficients are for two shares of
positive labels, or for the one that --rate states.

With --score, plan shows the noise of a private score of --model instead, on --records
records.`,
		Example: `  privopt plan --schema adult.json --epsilon 1
  privopt plan --schema people.json --epsilon 0.3 --neighbors add-remove --intervals
  privopt plan --schema people.json --epsilon 3 --rate 0.02
  privopt plan --score --model model.json --epsilon 0.1 --records 16000`,
		Args: noArgs,
		RunE: a.do(func(ctx context.Context, _ []string) error {
			if ofScore {
				s.budget, s.options.Relation = t.budget, t.options.Relation
				return a.planScore(ctx, modelPath, &s)
			}
			if t.schemaPath == "" {
				return usagef("required flag(s) \"schema\" not set; plan -h shows flags and examples")
			}
			if modelPath != "" || s.records != 0 || s.compare != "" || s.only != "" || s.shares != "" {
				return usagef("--model, --records, --compare, --only and --shares are flags of plan --score")
			}
			if err := t.complete(ctx, a, true); err != nil {
				return err
			}
			pl, err := model.NewPlan(t.schema, t.budget, &t.options)
			if err != nil {
				return err
			}
			if loss := pl.Params().Loss.Name; rate != 0 && loss != model.Logistic {
				return usagef("--rate is for logistic regression of two classes, not for %s: leave it out", loss)
			}
			a.loose(t.budget, t.schema.Records, t.schema.Person != "")
			r := planned{Certificate: pl.Certificate(), Delta: t.origin, Plan: pl.String(), Params: pl.Params()}
			for _, factor := range []float64{1.0 / 3, 1, 3} {
				b := t.budget
				b.Epsilon *= factor
				other, err := model.NewPlan(t.schema, b, &t.options)
				if err != nil {
					continue
				}
				// Rows of the same seeds compare budgets, and not draws.
				fits := someFits(other)
				f, look, err := newForecast(ctx, b, other, fits, rate)
				if err != nil {
					return err
				}
				r.Budgets = append(r.Budgets, f)
				if factor != 1 || look == nil {
					continue
				}
				if pl.Params().Dim <= manyParameters {
					fits = 0
					if _, look, err = newForecast(ctx, b, other, fits, rate); err != nil {
						return err
					}
				}
				for i, c := range look.Coefficients {
					r.Coefficients = append(r.Coefficients, deviation{c.Class, c.Name, c.Value, 0, look.Weak[i]})
				}
				r.Common, r.Warning = look.Common, t.useless(look, "")
				r.Absent = look.Absent
				if rate > 0 || r.Params.Loss.Name != model.Logistic {
					continue
				}
				rare, err := other.Outlook(ctx, fits, rareRate)
				if err != nil {
					return err
				}
				for i, c := range rare.Coefficients {
					r.Coefficients[i].Rare = c.Value
				}
				r.Common = max(r.Common, rare.Common)
				if r.Warning == "" {
					r.Warning = t.useless(&rare, ", if only 10 % of the labels are positive")
				}
			}
			return a.show(r, r.text(&t, rate, all))
		}),
	}
	t.flags(c)
	c.Flags().BoolVar(&ofScore, "score", false, "plan a private score in place of a fit")
	c.Flags().StringVar(&modelPath, "model", "", "model `FILE` to score")
	s.budgetFlags(c)
	c.Flags().Float64Var(&rate, "rate", 0, "share `R` of positive labels to suppose in forecasts, from public knowledge")
	c.Flags().BoolVar(&all, "all", false, fmt.Sprintf("print all coefficients, not the first %d", someRows))
	return c
}

// newForecast simulates a plan, with a number of records, by some fits. The outlook is nil without.
func newForecast(
	ctx context.Context, b dp.Budget, pl *model.Plan, fits int, rate float64,
) (forecast, *model.Outlook, error) {
	f := pl.Forecast()
	out := forecast{Epsilon: b.Epsilon, Noise: f.Sigma}
	if !math.IsInf(f.Excess, 0) {
		out.Excess = &f.Excess
	}
	if pl.Params().Records == 0 {
		return out, nil, nil
	}
	look, err := pl.Outlook(ctx, fits, rate)
	if err != nil {
		return out, nil, err
	}
	out.Prediction, out.Chance = &look.Prediction, &look.Chance
	out.Lost, out.Records = &look.Lost, &look.Records
	return out, &look, nil
}

// useless warns of a fit of which, under a condition, nothing useful is to be expected, or no
// interval of most coefficients; "" if that is not so.
func (t *task) useless(look *model.Outlook, condition string) string {
	if !look.Useless() {
		weak, all := 0, 0
		for i, c := range look.Coefficients {
			if c.Value > 0 { // no reference
				all++
			}
			if look.Weak[i] {
				weak++
			}
		}
		if 2*weak <= all {
			return ""
		}
		return fmt.Sprintf("warning: at ε = %s expect %d of %d coefficients to be weak%s, with no number in the summary: "+
			"drop or merge rare levels and columns, raise ε, or leave out --intervals, without which there is less noise.",
			claim(t.budget.Epsilon), weak, all, condition)
	}
	enough := "no number of them was found to be enough"
	if !math.IsInf(look.EnoughRecords, 1) {
		enough = "about " + humanize.Comma(int64(min(look.EnoughRecords, 1e15))) + " would be enough"
		if !math.IsInf(look.EnoughEpsilon, 1) {
			enough += ", or ε ≥ " + number(look.EnoughEpsilon, 3)
		}
	}
	return fmt.Sprintf("warning: %s at ε = %s: expect nothing useful%s, because noise takes %.0f %% of what "+
		"typical columns explain; %s.", amount(t.schema.Records, unit(t.schema.Person != "")), claim(t.budget.Epsilon),
		condition, min(100*look.Lost, 100), enough)
}

// manyParameters is their number from which on a simulation would take long.
const manyParameters = 300

// someFits is the number of fits of a simulation that compares budgets, or chooses digits: more
// where they take little time.
func someFits(pl *model.Plan) int {
	if pl.Params().Dim <= 50 {
		return 6
	}
	return 2
}

// rareRate is a share of positive labels that are rare.
const rareRate = 0.1

// someRows is the number of rows of a long table that are printed without --all.
const someRows = 20

func (r *planned) text(t *task, rate float64, all bool) string {
	var b strings.Builder
	b.WriteString(paragraph("privacy  ", t.privacy(r.Certificate)))
	b.WriteString(paragraph("plan     ", r.Plan))
	if r.Warning != "" {
		b.WriteString(paragraph("", r.Warning))
	}
	rows := [][]string{}
	for _, f := range r.Budgets {
		excess := "no bound"
		if f.Excess != nil {
			excess = number(*f.Excess, 3)
		}
		row := []string{number(f.Epsilon, 3), "–", "–", "–", excess}
		if f.Lost != nil {
			row = []string{number(f.Epsilon, 3), number(*f.Prediction / *f.Chance, 2),
				number(min(100**f.Lost, 100), 2) + " %", pay(*f.Records), excess}
		}
		rows = append(rows, row)
	}
	many := units(r.Certificate.Rows > 0)
	b.WriteString("\n" + paragraph("", fmt.Sprintf("Accuracy at other budgets, by simulated fits to rows that the schema "+
		"makes up. Noise / chance: how far noise moves a prediction, over the error from having only these %[1]s. Lost: the "+
		"share that noise takes from what the columns explain. Enough %[1]s: the number from which chance matters more than "+
		"noise. Excess loss: proved bound on the mean loss above its minimum.", many)) + "\n")
	b.WriteString(grid([]string{"ε", "noise / chance", "lost", "enough " + many, "excess loss ≤"}, rows))
	if len(r.Coefficients) == 0 {
		b.WriteString("\n" + paragraph("", "Declare \"records\" for forecasts of the coefficients."))
		return b.String()
	}
	rows = rows[:0]
	head := []string{"coefficient", "deviation (" + unitOf(r.Params.Loss.Name, t.schema.Label.Column) + ")"}
	suppose, together := many, ""
	if two := t.schema.Label.Positive; r.Params.Loss.Name == model.Logistic && rate == 0 {
		head = append(head, "if 10 % are "+printable(two[0]))
		suppose = "half of the labels are " + printable(two[0]) + " (--rate states another share), " + many
	} else if rate > 0 {
		suppose = number(100*rate, 3) + " % of the labels are " + printable(two[0]) + ", " + many
	}
	if r.Common >= 0.005 {
		together = fmt.Sprintf(" Noise also moves all but the intercept together, by about %s of each.", percent0(r.Common))
	}
	for _, c := range r.Coefficients {
		row := []string{coefficientName(c.Class, c.Name), number(c.Deviation, 2)}
		if len(head) > 2 {
			row = append(row, number(c.Rare, 2))
		}
		if c.Weak {
			row[1] += " weak"
		}
		rows = append(rows, row)
	}
	rows, more := first(rows, all)
	rare := "Rarer levels and narrower numbers have larger ones"
	if r.Absent > 0 {
		rare += fmt.Sprintf(", about %s or more a level that no record has", number(r.Absent, 2))
	}
	b.WriteString("\n" + paragraph("", fmt.Sprintf("Standard deviation that privacy noise is expected to give each "+
		"coefficient, if %s are spread evenly over levels and numbers differ by a fifth of their range. %s.%s",
		suppose, rare, together)) + "\n")
	b.WriteString(grid(head, rows))
	b.WriteString(more)
	return b.String()
}

// pay shows a number of records that is known roughly.
func pay(records float64) string {
	unit := math.Pow(10, math.Floor(math.Log10(max(records, 1)))-1)
	return humanize.Comma(int64(math.Ceil(min(math.Ceil(records/unit)*unit, 1e15))))
}

// first returns the first rows of a table, and a line about the rows that it leaves out.
func first(rows [][]string, all bool) ([][]string, string) {
	if all || len(rows) <= someRows {
		return rows, ""
	}
	return rows[:someRows], fmt.Sprintf("  … and %s more: --all prints them.\n", humanize.Comma(int64(len(rows)-someRows)))
}

// unitOf returns the unit of coefficients: score per unit of a number, or per level.
func unitOf(loss, label string) string {
	switch loss {
	case model.Logistic, model.Multinomial:
		return "log-odds per unit"
	case model.SVM:
		return "score per unit"
	}
	return printable(label) + " per unit"
}

func coefficientName(class, name string) string {
	if class != "" {
		name = class + ": " + name
	}
	return printable(name)
}
