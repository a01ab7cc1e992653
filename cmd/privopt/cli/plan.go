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
}

// forecast is the expected accuracy at a budget.
type forecast struct {
	Epsilon   float64  `json:"epsilon"`
	Noise     float64  `json:"noise"`     // standard deviation on a coordinate of the sum of gradients
	Deviation float64  `json:"deviation"` // the same on a coefficient of encoded rows
	Records   float64  `json:"recordsToPay"`
	Excess    *float64 `json:"excess,omitempty"` // bound on the mean loss above its minimum
}

// deviation is the standard deviation that noise gives a coefficient, in the units of the file.
type deviation struct {
	Class     string  `json:"class,omitempty"`
	Name      string  `json:"name"`
	Deviation float64 `json:"deviation"`
}

func (a *app) plan() *cobra.Command {
	var (
		t         task
		s         privateScore
		all       bool
		ofScore   bool
		modelPath string
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
the bound on the excess loss are proved. All other numbers are forecasts.

With --score, plan shows the noise of a private score of --model instead, on --records
records.`,
		Example: `  privopt plan --schema adult.json --epsilon 1
  privopt plan --schema people.json --epsilon 0.3 --neighbors add-remove --intervals
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
			a.loose(t.budget, t.schema.Records, t.schema.Person != "")
			r := planned{Certificate: pl.Certificate(), Delta: t.origin, Plan: pl.String(), Params: pl.Params()}
			for _, factor := range []float64{1.0 / 3, 1, 3} {
				b := t.budget
				b.Epsilon *= factor
				if other, err := model.NewPlan(t.schema, b, &t.options); err == nil {
					r.Budgets = append(r.Budgets, newForecast(b, other.Forecast()))
				}
			}
			for _, c := range pl.Coefficients() {
				r.Coefficients = append(r.Coefficients, deviation{c.Class, c.Name, c.Value})
			}
			return a.show(r, r.text(&t, all))
		}),
	}
	t.flags(c)
	c.Flags().BoolVar(&ofScore, "score", false, "plan a private score in place of a fit")
	c.Flags().StringVar(&modelPath, "model", "", "model `FILE` to score")
	s.budgetFlags(c)
	c.Flags().BoolVar(&all, "all", false, fmt.Sprintf("print all coefficients, not the first %d", someRows))
	return c
}

func newForecast(b dp.Budget, f model.Forecast) forecast {
	out := forecast{Epsilon: b.Epsilon, Noise: f.Sigma, Deviation: f.Deviation, Records: f.Records}
	if !math.IsInf(f.Excess, 0) {
		out.Excess = &f.Excess
	}
	return out
}

// someRows is the number of rows of a long table that are printed without --all.
const someRows = 20

func (r *planned) text(t *task, all bool) string {
	var b strings.Builder
	b.WriteString(paragraph("privacy  ", t.privacy(r.Certificate)))
	b.WriteString(paragraph("plan     ", r.Plan))
	rows := [][]string{}
	for _, f := range r.Budgets {
		excess := "no bound"
		if f.Excess != nil {
			excess = number(*f.Excess, 3)
		}
		rows = append(rows, []string{
			number(f.Epsilon, 3), against(f.Records, r.Params.Records), number(f.Deviation, 3),
			humanize.Comma(int64(min(f.Records, 1e15))), excess,
		})
	}
	many := units(r.Certificate.Rows > 0)
	b.WriteString("\n" + paragraph("", fmt.Sprintf("Accuracy at other budgets. Noise / chance: error of a coefficient "+
		"from privacy noise, divided by its error from having only these %[1]s. Noise (coef.): standard deviation that "+
		"noise gives a coefficient of encoded rows. Enough %[1]s: the number from which chance matters more than noise. "+
		"Excess loss: proved bound on the mean loss above its minimum.", many)) + "\n")
	b.WriteString(grid([]string{"ε", "noise / chance", "noise (coef.)", "enough " + many, "excess loss ≤"}, rows))
	for i, f := range r.Budgets {
		if i > 0 && f.Deviation > r.Budgets[i-1].Deviation {
			b.WriteString(paragraph("", fmt.Sprintf("Noise (coef.) is smaller at ε = %s than at %s because a smaller budget "+
				"has another mechanism or a larger ridge, which shrinks the coefficients as well; noise / chance accounts for "+
				"that.", number(r.Budgets[i-1].Epsilon, 3), number(f.Epsilon, 3))))
		}
	}
	rows = rows[:0]
	unit := unitOf(r.Params.Loss.Name, t.schema.Label.Column)
	for _, c := range r.Coefficients {
		rows = append(rows, []string{coefficientName(c.Class, c.Name), number(c.Deviation, 3)})
	}
	rows, more := first(rows, all)
	b.WriteString("\n" + paragraph("", "Standard deviation that privacy noise is expected to add to each coefficient, if "+
		"the "+many+" are spread evenly over the levels of each column.") + "\n")
	b.WriteString(grid([]string{"coefficient", "deviation (" + unit + ")"}, rows))
	b.WriteString(more)
	return b.String()
}

// against returns the error from noise divided by the error from chance for n records. The errors
// fall as 1/n and 1/√n, and are equal for the given number.
func against(equal float64, n int) string {
	if n == 0 {
		return "–"
	}
	return number(math.Sqrt(equal/float64(n)), 2)
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
