package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/privopt/privopt/model"
)

func (a *app) summary() *cobra.Command {
	all := false
	c := &cobra.Command{
		Use:   "summary MODEL",
		Short: "Print the coefficients, with intervals if fit released them",
		Long: `Print the coefficients of a model in the units of the table.

A coefficient of a number is what one unit of it adds to the score, that of a level what
being of this level adds. With fit --intervals there are also the debiased estimate (the
ridge, which privacy needs, shrinks the coefficients of the model), its standard error
and a confidence interval, which account for sampling and for privacy noise, and the
share of the variance that privacy noise makes. A coefficient marked "weak" is not
identified at this budget. Everything here may be published with the model.`,
		Example: `  privopt summary model.json
  privopt summary model.json --all
  privopt summary model.json --json`,
		Args: cobra.ExactArgs(1),
		RunE: a.do(func(ctx context.Context, args []string) error {
			m, err := a.readModel(ctx, "MODEL", args[0])
			if err != nil {
				return err
			}
			s := m.Summary()
			return a.show(s, summaryText(m, s, all))
		}),
	}
	c.Flags().BoolVar(&all, "all", false, fmt.Sprintf("print all coefficients, not the first %d", someRows))
	return c
}

func summaryText(m *model.Model, s model.Summary, all bool) string {
	head := []string{"coefficient", "estimate (" + scoreUnit(m) + ")"}
	if s.Level > 0 {
		head = []string{"coefficient", "estimate", "debiased", "std. err.", "lower " + percent0(s.Level), "upper", "z",
			"p", "privacy", ""}
	}
	rows := make([][]string, len(s.Rows))
	for i, r := range s.Rows {
		rows[i] = []string{coefficientName(r.Class, r.Name), number(r.Estimate)}
		if s.Level > 0 {
			rows[i] = append(rows[i], intervalCells(r.Interval)...)
		}
	}
	rows, more := first(rows, all)
	var b strings.Builder
	if s.Level > 0 {
		fmt.Fprintf(&b, "Estimates, errors and bounds in %s; privacy: share of the variance that noise makes.\n\n",
			scoreUnit(m))
	}
	note := s.Note
	if s.Level == 0 {
		note = "No standard errors: fit with --intervals releases them, for a quarter of the budget."
	}
	b.WriteString(grid(head, rows) + more + "\n" + paragraph("", note))
	return b.String()
}

func intervalCells(i *model.Interval) []string {
	if i == nil {
		return make([]string, 8)
	}
	lower, upper, mark := number(i.Lower, 3), number(i.Upper, 3), ""
	if i.Unidentified {
		lower, upper = "−∞", "∞"
	}
	z, p := number(i.Z, 3), number(i.P, 2)
	if i.Weak { // no test of such a coefficient is valid
		z, p, mark = "–", "–", "weak"
	}
	return []string{number(i.Debiased, 3), number(i.StdErr, 2), lower, upper, z, p, percent0(i.PrivacyShare), mark}
}

func percent0(v float64) string { return fmt.Sprintf("%.0f %%", 100*v) }

// scoreUnit is the unit of coefficients.
func scoreUnit(m *model.Model) string {
	label := ""
	if e := m.Encoder(); e != nil {
		label = e.Schema().Label.Column
	}
	return unitOf(m.Params().Loss.Name, label)
}
