// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/privopt/privopt/cmd/privopt/report"
	"github.com/privopt/privopt/model"
	"github.com/privopt/privopt/table"
)

// Limits of a report, so that it can be read and sent: of rows of its table, of bars in a picture,
// and of pictures.
const (
	reportRows    = 400
	reportBars    = 16
	reportFigures = 48
	reportLevels  = 30
	reportClasses = 6 // colors
	reportForests = 12
)

// estimate returns the bar of a coefficient in a report, times k: its interval and the middle of
// it, or the estimate if no interval was released.
func estimate(r model.Row, k float64) report.Value {
	v := report.Value{Name: printable(r.Name), Lo: k * r.Estimate, Mid: k * r.Estimate, Hi: k * r.Estimate}
	if i := r.Interval; i != nil {
		v.Lo, v.Mid = k*i.Lower, k*i.Debiased
		v.Hi, v.Unidentified = k*i.Upper, i.Unidentified
		if i.Unidentified {
			v.Lo, v.Hi = v.Mid, v.Mid
		}
	}
	if k < 0 {
		v.Lo, v.Hi = v.Hi, v.Lo
	}
	return v
}

func coefficientReport(ctx context.Context, r *report.Report, m *model.Model) {
	s, unit := m.Summary(), scoreUnit(m)
	axis := axisOf(m)
	r.Coefficients = coefficientTable(s, unit, newDigits(ctx, m))
	r.CoefficientNotes = []string{meaning(m) + " The pictures show what a number changes from one end of its declared " +
		"range to the other, so that columns can be compared; the table has the coefficient of one more unit."}
	if s.Level > 0 {
		r.CoefficientNotes = append(r.CoefficientNotes, fmt.Sprintf("Chance and noise move each value. The bars are "+
			"intervals: about %s of such intervals hold the true value. A bar that crosses the line of no change leaves open "+
			"whether there is any.", levelText(s.Level)))
		r.CoefficientDetail = s.Note
	} else {
		r.CoefficientNotes = append(r.CoefficientNotes, "This model does not say how far chance and noise may have moved "+
			"each value. No intervals were released; fit --intervals releases them."+absent(s))
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
	for _, class := range classes[:min(len(classes), reportForests)] {
		values := groups[class]
		caption := "Coefficients"
		if class != "" {
			caption += " of " + printable(class)
		}
		if len(values) > reportBars {
			caption += fmt.Sprintf(" (the largest %d of %d)", reportBars, len(values))
			values = largest(values, reportBars)
		}
		r.Forests = append(r.Forests, report.Forests(values, axis, caption)...)
	}
	if n := len(classes); n > reportForests {
		r.CoefficientNotes = append(r.CoefficientNotes, fmt.Sprintf("Pictures are of the first %d of %d classes.",
			reportForests, n))
	}
}

// coefficientTable lists coefficients. Those of several classes stand beside each other.
func coefficientTable(s model.Summary, unit string, n *digits) report.Table {
	shown := s.Rows[:min(len(s.Rows), reportRows)]
	t := report.Table{Caption: "All coefficients (" + unit + ")", Head: []string{"Coefficient", "Estimate"}}
	if len(s.Rows) > reportRows {
		t.Caption = fmt.Sprintf("The first %d of %d coefficients (%s)", reportRows, len(s.Rows), unit)
	}
	if s.Level > 0 {
		t.Head = []string{"Coefficient", "Estimate", "Debiased", "Std. err.", "Lower " + levelText(s.Level),
			"Upper", "z", "p", "From noise", "Note"}
	} else if shown[0].Class != "" {
		t.Head = t.Head[:1]
	}
	at := map[string]int{}
	for _, row := range shown {
		if s.Level == 0 && row.Class != "" {
			if class := printable(row.Class); t.Head[len(t.Head)-1] != class || len(t.Head) == 1 {
				t.Head = append(t.Head, class)
			}
			k, ok := at[row.Name]
			if !ok {
				k = len(t.Rows)
				at[row.Name], t.Rows = k, append(t.Rows, []string{printable(row.Name)})
			}
			t.Rows[k] = append(t.Rows[k], n.estimate(row))
			continue
		}
		t.Rows = append(t.Rows, append([]string{coefficientName(row.Class, row.Name)}, estimateCells(row, n)...))
	}
	for i := range t.Rows { // of the last class shown, some may be left out
		for len(t.Rows[i]) < len(t.Head) {
			t.Rows[i] = append(t.Rows[i], "–")
		}
	}
	return t
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

// axisOf names what effects are measured in.
func axisOf(m *model.Model) report.Axis {
	switch l := schemaOf(m).Label; {
	case m.Params().Loss.Name == model.Multinomial:
		return report.Axis{Name: "odds of the class", Odds: true}
	case len(l.Positive) > 0 && m.Params().Loss.Name == model.Logistic:
		return report.Axis{Name: "odds of " + printable(l.Positive[0]), Odds: true}
	}
	return report.Axis{Name: strings.TrimSuffix(scoreUnit(m), " per unit")}
}

// odds explains the word.
const odds = "Odds are the chance of yes divided by the chance of no: odds of 3 mean a chance of 75 %, odds of 1 one " +
	"of 50 %. “× 2” doubles the odds and “÷ 2” halves them."

// meaning says in words how to read a coefficient.
func meaning(m *model.Model) string {
	l := schemaOf(m).Label
	switch {
	case m.Params().Loss.Name == model.Multinomial:
		return "A positive coefficient makes its class more likely, a negative one less likely. The coefficients are " +
			"natural logarithms of odds (log-odds): 0.7 more doubles the odds against another class."
	case len(l.Positive) > 0 && m.Params().Loss.Name == model.Logistic:
		return fmt.Sprintf("A positive coefficient makes %s more likely, a negative one less likely. The coefficients are "+
			"natural logarithms of odds (log-odds): 0.7 more doubles the odds.", either(l.Positive))
	case len(l.Positive) > 0:
		return fmt.Sprintf("A positive coefficient speaks for %s, a negative one against it.", either(l.Positive))
	}
	return "A positive coefficient raises the prediction, a negative one lowers it."
}

// inWords names a bin such as [30,50) for readers who do not know the sign.
func inWords(bin string) string {
	if from, to, ok := strings.Cut(strings.Trim(bin, "[)"), ","); ok && bin[0] == '[' {
		return from + " up to " + to
	}
	if edge, ok := strings.CutPrefix(bin, ">="); ok {
		return edge + " or more"
	}
	if edge, ok := strings.CutPrefix(bin, "<"); ok {
		return "below " + edge
	}
	return bin
}

// levelInWords returns the level or bin of a coefficient of column c.
func levelInWords(coefficient string, c table.Column) string {
	name := strings.TrimPrefix(printable(coefficient), printable(c.Name))
	if c.Bins != nil {
		name = inWords(name)
	}
	return strings.TrimLeft(name, "= ")
}

func effectReport(r *report.Report, m *model.Model) {
	e := m.Encoder()
	if e == nil {
		return
	}
	s := e.Schema()
	columns := map[string]string{}    // of coefficients
	references := map[string]string{} // of columns: the only coefficient that Summary leaves out
	summary, listed := m.Summary(), map[string]bool{}
	for _, row := range summary.Rows {
		listed[row.Name] = true
	}
	for _, c := range m.Coefficients() {
		columns[c.Name] = c.Column
		if !listed[c.Name] {
			references[c.Column] = c.Name
		}
	}
	byColumn := map[string][]model.Row{}
	for _, row := range summary.Rows {
		if c := columns[row.Name]; c != "" && row.Name != "(intercept)" {
			byColumn[c] = append(byColumn[c], row)
		}
	}
	axis, classes := axisOf(m), 0
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
				if classes = max(classes, n+1); n == reportClasses {
					break
				}
				series = append(series, report.Series{Name: printable(row.Class)})
				if name := references[c.Name]; name != "" {
					series[n].Values = []report.Value{{Name: levelInWords(name, c)}}
				}
			}
			last := &series[len(series)-1]
			if line && row.Name == c.Name {
				half := (*c.Max - *c.Min) / 2
				last.Values = append(last.Values, estimate(row, -half), estimate(row, half))
			} else if line { // relative to the middle too, as which a missing number counts
				last.Values = append(last.Values, estimate(row, 1))
			} else if len(last.Values) < reportLevels {
				v := estimate(row, 1)
				v.Name = levelInWords(row.Name, c)
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
	r.EffectNotes = []string{"Each picture compares two that differ in one column only. A number is compared with the " +
		"middle of its range. A level is compared with the line of no change, or with the reference level, which " +
		"stands on that line."}
	if axis.Odds {
		r.EffectNotes[0] += " " + odds
	}
	if classes > reportClasses {
		r.EffectNotes = append(r.EffectNotes, fmt.Sprintf("The pictures show the first %d of %d classes; the pictures "+
			"and the table below have the others.", reportClasses, len(s.Label.Levels)))
	}
	if len(cut) > 0 {
		r.EffectNotes = append(r.EffectNotes, "Left out for space: "+list(cut)+".")
	}
}
