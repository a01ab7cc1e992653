// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/privopt/privopt/cmd/internal/report"
	"github.com/privopt/privopt/model"
	"github.com/privopt/privopt/table"
)

// Limits of a report, so that it can be read and sent: of rows of its table, of bars in a picture,
// and of pictures.
const (
	reportRows    = 400
	reportBars    = 24
	reportFigures = 48
	reportLevels  = 30
	reportClasses = 6
)

// estimate returns the bar of a coefficient in a report, times k: its interval and the middle of
// it, or the estimate if no interval was released.
func estimate(r model.Row, k float64) report.Value {
	v := report.Value{Name: printable(r.Name), Lo: k * r.Estimate, Mid: k * r.Estimate, Hi: k * r.Estimate}
	if i := r.Interval; i != nil {
		v.Lo, v.Mid, v.Hi, v.Unidentified = k*i.Lower, k*i.Debiased, k*i.Upper, i.Unidentified
		if i.Unidentified {
			v.Lo, v.Hi = v.Mid, v.Mid
		}
	}
	if k < 0 {
		v.Lo, v.Hi = v.Hi, v.Lo
	}
	return v
}

func coefficientReport(r *report.Report, m *model.Model) {
	s := m.Summary()
	r.Coefficients = report.Table{Caption: "All coefficients (" + r.Unit + ")", Head: []string{"Coefficient", "Estimate"}}
	if s.Level > 0 {
		r.Coefficients.Head = []string{"Coefficient", "Estimate", "Debiased", "Std. err.", "Lower " + percent0(s.Level),
			"Upper", "z", "p", "Privacy", "Note"}
	}
	for _, row := range s.Rows[:min(len(s.Rows), reportRows)] {
		cells := []string{coefficientName(row.Class, row.Name), number(row.Estimate, 3)}
		if s.Level > 0 {
			cells = append(cells, intervalCells(row.Interval)...)
		}
		r.Coefficients.Rows = append(r.Coefficients.Rows, cells)
	}
	if len(s.Rows) > reportRows {
		r.Coefficients.Caption = fmt.Sprintf("The first %d of %d coefficients (%s)", reportRows, len(s.Rows), r.Unit)
	}
	r.CoefficientNotes = []string{meaning(m) + " The picture shows what a number adds over its whole declared range, " +
		"so that " +
		"columns can be compared; the table has the coefficient of one more unit."}
	if s.Level > 0 {
		r.CoefficientNotes = append(r.CoefficientNotes, fmt.Sprintf("Bars are intervals that would hold the true "+
			"coefficient "+
			"in about %s of all tables and draws of noise. A bar shorter than its dot is a small error. A bar that crosses "+
			"the line at 0 is compatible with no effect.", percent0(s.Level)), s.Note)
	} else {
		r.CoefficientNotes = append(r.CoefficientNotes, "No intervals were released with this model, so it does not say "+
			"how far "+
			"chance and noise may have moved each value. To release them, fit with --intervals.")
	}
	schema := schemaOf(m)
	groups := map[string][]report.Value{}
	var classes []string
	for _, row := range s.Rows {
		if row.Name == "(intercept)" && schema != nil {
			continue
		}
		if _, ok := groups[row.Class]; !ok {
			classes = append(classes, row.Class)
		}
		k, name := 1.0, row.Name
		if c := columnOf(schema, row.Name); c != nil && c.Min != nil && c.Max != nil && c.Bins == nil {
			k = *c.Max - *c.Min
			name = fmt.Sprintf("%s, %s to %s", row.Name, number(*c.Min), number(*c.Max))
		}
		v := estimate(row, k)
		v.Name = printable(name)
		groups[row.Class] = append(groups[row.Class], v)
	}
	axis := strings.TrimSuffix(r.Unit, " per unit")
	for _, class := range classes[:min(len(classes), reportClasses)] {
		values := groups[class]
		caption := "Coefficients"
		if class != "" {
			caption += " of " + printable(class)
		}
		if len(values) > reportBars {
			caption += fmt.Sprintf(" (the largest %d of %d)", reportBars, len(values))
			values = largest(values, reportBars)
		}
		r.Forests = append(r.Forests, report.Figure{Caption: caption, SVG: report.Forest(values, axis, caption)})
	}
	if len(classes) > reportClasses {
		r.CoefficientNotes = append(r.CoefficientNotes, fmt.Sprintf("Pictures are of the first %d of %d classes.",
			reportClasses,
			len(classes)))
	}
}

// largest returns the n values of largest size, in their order.
func largest(values []report.Value, n int) []report.Value {
	order := slices.Clone(values)
	slices.SortStableFunc(order, func(a, b report.Value) int { return cmp.Compare(math.Abs(b.Mid), math.Abs(a.Mid)) })
	least := math.Abs(order[n-1].Mid)
	var out []report.Value
	for _, v := range values {
		if math.Abs(v.Mid) >= least && len(out) < n {
			out = append(out, v)
		}
	}
	return out
}

func schemaOf(m *model.Model) *table.Schema {
	if e := m.Encoder(); e != nil {
		return e.Schema()
	}
	return &table.Schema{}
}

// meaning says in words what a positive coefficient does.
func meaning(m *model.Model) string {
	l := schemaOf(m).Label
	switch {
	case m.Params().Loss.Name == model.Multinomial:
		return "A positive coefficient makes its class more likely, a negative one less likely. Coefficients are " +
			"log-odds: 0.7 " +
			"more doubles the odds against another class."
	case len(l.Positive) > 0 && m.Params().Loss.Name == model.Logistic:
		return fmt.Sprintf("A positive coefficient makes %s more likely, a negative one less likely. Coefficients are "+
			"log-odds: "+
			"0.7 more doubles the odds.", either(l.Positive))
	case len(l.Positive) > 0:
		return fmt.Sprintf("A positive coefficient speaks for %s, a negative one against it.", either(l.Positive))
	}
	return "A positive coefficient raises the prediction, a negative one lowers it."
}

func effectReport(r *report.Report, m *model.Model) {
	e := m.Encoder()
	if e == nil {
		return
	}
	s := e.Schema()
	columns := map[string]string{} // of coefficients
	for _, c := range m.Coefficients() {
		columns[c.Name] = c.Column
	}
	byColumn := map[string][]model.Row{}
	for _, row := range m.Summary().Rows {
		if c := columns[row.Name]; c != "" && row.Name != "(intercept)" {
			byColumn[c] = append(byColumn[c], row)
		}
	}
	axis := strings.TrimSuffix(r.Unit, " per unit")
	cut := []string{}
	for _, c := range s.Columns {
		rows := byColumn[c.Name]
		if c.Ignore || len(rows) == 0 {
			continue
		}
		if len(r.Effects) == reportFigures {
			cut = append(cut, c.Name)
			continue
		}
		var series []report.Series
		line := c.Min != nil && c.Max != nil && c.Bins == nil
		for _, row := range rows {
			if n := len(series); n == 0 || series[n-1].Name != printable(row.Class) {
				if n == reportClasses {
					break
				}
				series = append(series, report.Series{Name: printable(row.Class)})
			}
			last := &series[len(series)-1]
			if line && row.Name == c.Name {
				half := (*c.Max - *c.Min) / 2
				last.Values = append(last.Values, estimate(row, -half), estimate(row, half))
			} else if !line && len(last.Values) < reportLevels {
				v := estimate(row, 1)
				v.Name = strings.TrimLeft(strings.TrimPrefix(v.Name, printable(c.Name)), "= ")
				last.Values = append(last.Values, v)
			}
		}
		figure := report.Figure{Caption: printable(c.Name)}
		if line {
			figure.SVG = report.Line(*c.Min, *c.Max, series, printable(c.Name), axis)
		} else {
			if len(rows)/len(series) > reportLevels {
				figure.Caption += fmt.Sprintf(" (the first %d levels)", reportLevels)
			}
			figure.SVG = report.Levels(series, printable(c.Name), axis)
		}
		r.Effects = append(r.Effects, figure)
	}
	r.EffectNote = "What each column adds to the prediction, all others being equal (" + axis + "): for a number " +
		"relative to the " +
		"middle of its range, for levels and bins as they stand, or relative to the reference level if the schema names one."
	if len(cut) > 0 {
		r.EffectNote += " Left out for space: " + list(cut) + "."
	}
}
