// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/privopt/privopt/cmd/internal/screen"
	"github.com/privopt/privopt/cmd/privopt/report"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/model"
	"github.com/privopt/privopt/table"
)

func (a *app) summary() *cobra.Command {
	all, plot := false, ""
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

A coefficient marked "weak" is not identified at this budget: its numbers would say nothing,
and only --json has them. --plot draws the coefficients. Everything printed here may
be published with the model.`,
		Example: `  privopt summary model.json
  privopt summary model.json --all
  privopt summary model.json --plot coefficients.svg
  privopt summary model.json --json`,
		Args: oneArg("MODEL"),
		RunE: a.do(func(ctx context.Context, args []string) error {
			m, err := a.readModel(ctx, "MODEL", args[0])
			if err != nil {
				return err
			}
			s := m.Summary()
			if plot != "" {
				r := &report.Report{}
				coefficientReport(ctx, r, m)
				picture := func(w io.Writer) error { _, err := io.WriteString(w, report.Sheet(r.Forests)); return err }
				if err := a.write(plot, kindPicture, false, picture); err != nil {
					return err
				}
			}
			return a.show(s, summaryText(ctx, m, s, all))
		}),
	}
	c.Flags().BoolVar(&all, "all", false, fmt.Sprintf("print all coefficients, not the first %d", someRows))
	c.Flags().StringVar(&plot, "plot", "", "draw the coefficients, with their intervals, to a new SVG `FILE`")
	return c
}

func summaryText(ctx context.Context, m *model.Model, s model.Summary, all bool) string {
	head := []string{"coefficient", "estimate (" + scoreUnit(m) + ")"}
	if s.Level > 0 {
		head = []string{"coefficient", "estimate", "debiased", "std. err.", "lower", "upper", "z", "p", "privacy", ""}
	}
	n := newDigits(ctx, m)
	rows := make([][]string, len(s.Rows))
	for i, r := range s.Rows {
		rows[i] = append([]string{coefficientName(r.Class, r.Name)}, estimateCells(r, n)...)
	}
	rows, more := first(rows, all)
	var b strings.Builder
	if s.Level > 0 {
		b.WriteString(paragraph("", fmt.Sprintf("In %s, with %s intervals; privacy is the share of the variance that "+
			"comes from privacy noise.", scoreUnit(m), levelText(s.Level))) + "\n")
	}
	note := s.Note
	if s.Level == 0 {
		note = "No standard errors: to release them, fit with --intervals, which takes a quarter of the budget."
		if n != nil {
			note += " Digits are those that noise is expected to leave, as privopt plan forecasts it."
		}
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
	note += absent(s)
	if e := m.Encoder(); e != nil {
		note += compared(e)
	}
	if s.Level > 0 {
		head, rows = narrow(head, rows)
	}
	b.WriteString(grid(head, rows) + more + "\n" + paragraph("", note))
	return b.String()
}

// absent warns of levels without records, of which a model keeps noise, and names those that an
// automatic fit took for such levels.
func absent(s model.Summary) string {
	switch {
	case s.Absent > 0:
		return fmt.Sprintf(" The coefficient of a level that hardly any record has is noise of about ±%s, and the model "+
			"does not show which levels these are.", number(s.Absent, 2))
	case len(s.Average) > 0:
		return " Noise hides whether any record has these levels, so that they get about the effect of an average " +
			"row: " + list(s.Average) + "."
	}
	return ""
}

// compared names what the coefficients of levels and of missing numbers are differences from.
func compared(e *table.Encoder) string {
	var from []string
	for _, f := range e.Forms() {
		if len(f.At) == 0 && f.Column != "" && !slices.Contains(from, f.Name) {
			from = append(from, f.Name)
		}
	}
	for _, c := range e.Schema().Columns {
		if c.Missing && c.Min != nil && c.Bins == nil && !c.Ignore {
			from = append(from, fmt.Sprintf("%s = %s for %[1]s missing", c.Name, number((*c.Min+*c.Max)/2)))
		}
	}
	if from == nil {
		return ""
	}
	return " Coefficients of levels are differences from " + printable(strings.Join(from, ", ")) + "."
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

// digits foretells the deviation of coefficients without standard errors, nil if nothing does.
type digits struct {
	deviations map[[2]string]float64 // by class and name
	common     float64
}

// newDigits simulates the plan of a model by some fits, as many as digits need.
func newDigits(ctx context.Context, m *model.Model) *digits {
	pl, err := planOf(m, 1)
	if m.Params().Intervals != nil || err != nil || m.Params().Dim > manyParameters {
		return nil
	}
	look, err := pl.Outlook(ctx, someFits(pl), 0)
	if err != nil {
		return nil
	}
	out := &digits{map[[2]string]float64{}, look.Common}
	for _, c := range look.Coefficients {
		out.deviations[[2]string{c.Class, c.Name}] = c.Value
	}
	return out
}

// estimate formats an estimate to the second digit of its deviation, or to two digits.
func (n *digits) estimate(r model.Row) string {
	if n == nil {
		return number(r.Estimate, 2)
	}
	return toError(r.Estimate, math.Hypot(n.deviations[[2]string{r.Class, r.Name}], n.common*r.Estimate))
}

// estimateCells formats the numbers of a coefficient to the digits that its standard error leaves.
// A weak one has none that mean anything: its numbers are in the JSON form only.
func estimateCells(r model.Row, n *digits) []string {
	i := r.Interval
	switch {
	case i == nil:
		return []string{n.estimate(r)}
	case i.Weak || i.Unidentified:
		return []string{"–", "–", "–", "–", "–", "–", "–", "–", "weak"}
	}
	// All of the privacy noise, that on the curvature included; PrivacyShare counts the gradients
	// only.
	share := "–"
	if i.StdErr > 0 {
		share = percent0(i.PrivacyErr * i.PrivacyErr / (i.StdErr * i.StdErr))
	}
	to := func(v float64) string { return toError(v, i.StdErr) }
	return []string{to(r.Estimate), to(i.Debiased), to(i.StdErr), to(i.Lower), to(i.Upper), number(i.Z, 3), pValue(i.P),
		share, ""}
}

// toError formats v to the second digit of its standard error.
func toError(v, stdErr float64) string {
	if !(stdErr > 1e-12 && stdErr < 1e12) {
		return number(v, 3)
	}
	decimals := 1 - int(math.Floor(math.Log10(stdErr)))
	unit := math.Pow10(-decimals)
	if v = math.Round(v / unit); v == 0 {
		v = 0 // not −0
	}
	return strconv.FormatFloat(v*unit, 'f', max(decimals, 0), 64)
}

// percent0 formats a share without decimals, but what is neither 0 nor 1 as neither of them.
func percent0(v float64) string {
	switch {
	case v > 0 && v < 0.005:
		return "<1 %"
	case v < 1 && v >= 0.995:
		return ">99 %"
	}
	return fmt.Sprintf("%.0f %%", 100*v)
}

// levelText formats a confidence level in full.
func levelText(v float64) string { return strconv.FormatFloat(100*v, 'g', 12, 64) + " %" }

// scoreUnit returns the unit of the coefficients of m.
func scoreUnit(m *model.Model) string {
	label := ""
	if e := m.Encoder(); e != nil {
		label = e.Schema().Label.Column
	}
	return unitOf(m.Params().Loss.Name, label)
}
