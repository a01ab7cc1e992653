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

// planned is what plan --json prints.
type planned struct {
	Certificate  dp.Certificate `json:"certificate"`
	Delta        string         `json:"deltaIs"`
	Plan         string         `json:"plan"`
	Params       model.Params   `json:"params"`
	Budgets      []forecast     `json:"budgets"`
	Coefficients []deviation    `json:"coefficients"`
}

// forecast is what a budget buys.
type forecast struct {
	Epsilon   float64  `json:"epsilon"`
	Noise     float64  `json:"noise"`     // of the sum of the gradients, per coordinate
	Deviation float64  `json:"deviation"` // of a coefficient of encoded rows
	Records   float64  `json:"recordsToPay"`
	Excess    *float64 `json:"excess,omitempty"` // of the mean loss, at most
}

// deviation is that of a coefficient in the units of the file, by noise.
type deviation struct {
	Class     string  `json:"class,omitempty"`
	Name      string  `json:"name"`
	Deviation float64 `json:"deviation"`
}

func (a *app) plan() *cobra.Command {
	var t task
	all := false
	c := &cobra.Command{
		Use:   "plan --schema FILE --epsilon E",
		Short: "Show what a fit would do and cost, before any data is touched",
		Long: `Show what a fit would do and cost, before any data is touched.

Printed are the mechanism and why it is chosen, the noise, what smaller and larger
budgets would buy, and the deviation that noise is expected to give each coefficient,
in its own units. A coefficient smaller than its deviation will be lost in noise: then
raise epsilon, find more records, or declare fewer columns and levels.

All of it follows from the schema and the flags. It is a forecast, no claim, but for
the guarantee and the bound on the excess loss.`,
		Example: `  privopt plan --schema adult.json --epsilon 1
  privopt plan --schema people.json --epsilon 0.3 --neighbors add-remove --intervals`,
		Args: noArgs,
		RunE: a.do(func(ctx context.Context, _ []string) error {
			if err := t.complete(ctx, a); err != nil {
				return err
			}
			pl, err := model.NewPlan(t.schema, t.budget, &t.options)
			if err != nil {
				return err
			}
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

// someRows of a long table are printed without --all.
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
			number(f.Epsilon, 3), number(f.Noise, 3), number(f.Deviation, 3), humanize.Comma(int64(min(f.Records, 1e15))),
			excess,
		})
	}
	b.WriteString("\nWhat other budgets would buy: noise on the sum of gradients and on encoded coefficients, the\n" +
		"records from which on sampling errs more than privacy, and a bound on the excess mean loss.\n\n")
	b.WriteString(grid([]string{"ε", "noise (sum)", "noise (coef.)", "pays from (records)", "excess loss ≤"}, rows))
	rows = rows[:0]
	unit := unitOf(r.Params.Loss.Name, t.schema.Label.Column)
	for _, c := range r.Coefficients {
		rows = append(rows, []string{coefficientName(c.Class, c.Name), number(c.Deviation, 3)})
	}
	rows, more := first(rows, all)
	b.WriteString("\nExpected deviation of each coefficient by noise, if records spread evenly over levels.\n\n")
	b.WriteString(grid([]string{"coefficient", "deviation (" + unit + ")"}, rows))
	b.WriteString(more)
	return b.String()
}

// first cuts a long table off, and says so.
func first(rows [][]string, all bool) ([][]string, string) {
	if all || len(rows) <= someRows {
		return rows, ""
	}
	return rows[:someRows], fmt.Sprintf("  … and %s more: --all prints them.\n", humanize.Comma(int64(len(rows)-someRows)))
}

// unitOf is the unit of a coefficient: of the score per unit of a number or for a level.
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
