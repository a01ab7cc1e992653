// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/privopt/privopt/cmd/internal/screen"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/model"
)

func (a *app) summary() *cobra.Command {
	all := false
	c := &cobra.Command{
		Use:   "summary MODEL",
		Short: "Print the coefficients, with intervals if fit released them",
		Long: `Print the coefficients of a model in the units of the table.

The coefficient of a number is the change of the score for one more unit. The coefficient
of a level is added to the score of every row with this level. If the model was fitted
with --intervals, summary also prints

  debiased   the estimate corrected for the ridge, which shrinks coefficients
  std. err.  its standard error, from sampling and privacy noise together
  lower, upper, z, p  confidence interval, z statistic and p-value of one coefficient;
             below 100 columns z, debiased divided by std. err., is left out
  privacy    the share of the variance that comes from privacy noise

A coefficient marked "weak" is not identified at this budget. Everything printed here may
be published with the model.`,
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
		head = []string{"coefficient", "estimate", "debiased", "std. err.", "lower", "upper", "z", "p", "privacy", ""}
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
		b.WriteString(paragraph("", fmt.Sprintf("In %s, with %s intervals; privacy is the share of the variance that "+
			"comes from privacy noise.", scoreUnit(m), percent0(s.Level))) + "\n")
	}
	note := s.Note
	if s.Level == 0 {
		note = "No standard errors: to release them, fit with --intervals, which takes a quarter of the budget."
	}
	if m.Params().Rows > 0 {
		about := "person: all lines of a person together count as one"
		if e := m.Encoder(); e != nil {
			if p, _ := e.Persons(); p.Weights == erm.LinesEqual {
				about = "line: every line that counts has the same weight"
			}
		}
		note += " The coefficients describe the average " + about + "."
	}
	if s.Level > 0 {
		head, rows = narrow(head, rows)
	}
	b.WriteString(grid(head, rows) + more + "\n" + paragraph("", note))
	return b.String()
}

// narrow drops empty marks, and on a terminal of less than 100 columns z, which is debiased over
// its standard error.
func narrow(head []string, rows [][]string) ([]string, [][]string) {
	drop := func(j int) {
		head = slices.Delete(slices.Clone(head), j, j+1)
		for i, r := range rows {
			rows[i] = slices.Delete(slices.Clone(r), j, j+1)
		}
	}
	if mark := len(head) - 1; !slices.ContainsFunc(rows, func(r []string) bool { return r[mark] != "" }) {
		drop(mark)
	}
	if screen.Out() < 100 {
		drop(slices.Index(head, "z"))
	}
	return head, rows
}

func intervalCells(i *model.Interval) []string {
	if i == nil {
		return make([]string, 8)
	}
	lower, upper, mark := number(i.Lower, 3), number(i.Upper, 3), ""
	if i.Unidentified {
		lower, upper = "−∞", "∞"
	}
	z, p := number(i.Z, 3), pValue(i.P)
	if i.Weak { // no test of a weak coefficient is valid
		z, p, mark = "–", "–", "weak"
	}
	// All of the privacy noise, that on the curvature included; PrivacyShare counts the gradients
	// only.
	share := "–"
	if i.StdErr > 0 {
		share = percent0(i.PrivacyErr * i.PrivacyErr / (i.StdErr * i.StdErr))
	}
	return []string{number(i.Debiased, 3), number(i.StdErr, 2), lower, upper, z, p, share, mark}
}

func percent0(v float64) string { return fmt.Sprintf("%.0f %%", 100*v) }

// scoreUnit returns the unit of the coefficients of m.
func scoreUnit(m *model.Model) string {
	label := ""
	if e := m.Encoder(); e != nil {
		label = e.Schema().Label.Column
	}
	return unitOf(m.Params().Loss.Name, label)
}
