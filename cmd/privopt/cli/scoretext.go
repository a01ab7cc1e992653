// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/model"
	"github.com/privopt/privopt/model/score"
)

const scoreNote = "Standard errors suppose that the model was fitted to other records. About 95 % of the intervals " +
	"hold the true value (92 to 99 % in simulations). The best of many models that were scored on one " +
	"test set is less good than its score says."

func scoreText(r *score.Scores, m *model.Model) string {
	var b strings.Builder
	c := r.Certificate
	head := fmt.Sprintf("private: %v, %v neighbors, %s: may be published", budget(c.Budget), c.Relation, c.Theorem)
	if !r.Private {
		head = fmt.Sprintf("NOT PRIVATE: anyone who guesses --seed can reproduce the noise. Otherwise %v, %v neighbors, %s",
			budget(c.Budget), c.Relation, c.Theorem)
	}
	b.WriteString(paragraph("", head))
	records := rounded(r.Records.Value)
	if c.Relation == dp.AddRemove {
		records += " ± " + rounded(1.96*r.Records.StdErr)
	}
	fmt.Fprintf(&b, "%-9s %s\n", units(ofPersons(m)), records)
	var rows [][]string
	notes := ""
	baselines := baselinesOf(r)
	for _, v := range r.Metrics {
		cells, note := metricCells(v, r.Cap, baselines)
		rows = append(rows, cells)
		if note != "" {
			notes += paragraph(v.Name+": ", note)
		}
	}
	b.WriteString(grid([]string{"", "value", "± 95 %", "baseline", "sampling", "privacy"}, rows) + notes)
	if r.Cap > 0 {
		fmt.Fprintf(&b, "Cap: errors above %s count %[1]s; it was chosen from released counts.\n", number(r.Cap, 3))
	}
	if len(r.Confusion) > 0 {
		head, names := []string{"true class"}, []string{}
		for _, c := range classNames(m) {
			names = append(names, shorten(c))
			head = append(head, "predicted "+shorten(c))
		}
		b.WriteString(grid(head, confusion(r, names)))
	}
	if t := r.Threshold; t != nil {
		b.WriteString(paragraph("", fmt.Sprintf("threshold %s: the best for %s of the 23 public ones, chosen from the "+
			"released cells", number(t.Value),
			map[string]string{"accuracy": "accuracy", "balanced": "balanced accuracy"}[t.For])))
	}
	if c.Rows > 0 {
		b.WriteString(paragraph("", personsCount(m)+" Without --epsilon, too."))
	}
	b.WriteString(paragraph("", scoreNote))
	return b.String()
}

func budget(b dp.Budget) string {
	return fmt.Sprintf("(ε = %s, δ = %s)", claim(b.Epsilon), claim(b.Delta, 3))
}

// baselinesOf returns what a model that says the same of every record would score, as far as the
// released numbers show it, by the name of the metric.
func baselinesOf(r *score.Scores) map[string]float64 {
	out := map[string]float64{"AUC": 0.5, "R²": 0}
	if k := len(r.Confusion); k > 0 {
		out["balanced"] = 1 / float64(k)
		var sums []float64
		for _, line := range r.Confusion {
			sum := 0.0
			for _, v := range line {
				sum += v.Value
			}
			sums = append(sums, max(sum, 0))
		}
		if total := floats.Sum(sums); total > 0 {
			floats.Scale(1/total, sums)
			out["accuracy"], out["log loss"] = floats.Max(sums), stat.Entropy(sums)
		}
	}
	rmse, known := r.Metric("RMSE")
	if r2, ok := r.Metric("R²"); ok && known && r2.Value < 1 {
		out["RMSE"] = rmse.Value / math.Sqrt(1-r2.Value)
	}
	return out
}

// metricCells formats a metric and its baseline, if there is one, and a note about it.
func metricCells(v score.Metric, ceiling float64, baselines map[string]float64) (cells []string, note string) {
	if v.Withheld != "" {
		return []string{v.Name, "–", "–", "–", "–", "–"}, v.Withheld
	}
	if v.Name == "RMSE at most" {
		return []string{v.Name, number(v.Value, 3), "", "", "", ""}, "counts errors above the cap, too"
	}
	digits, unit := 3, ""
	scale := 1.0
	note = map[string]string{"RMSE": "errors above the cap count as the cap, so that this is too low if there are any",
		"log loss":            "nats; losses above 4.6 count 4.6",
		"log loss difference": "nats; first less second; cut to ± 1",
		"accuracy difference": "first model less second"}[v.Name]
	switch v.Name {
	case "accuracy", "balanced", "accuracy difference", "larger errors":
		digits, unit = 1, " %"
		scale = 100
	}
	if v.Bound > 0 {
		note = fmt.Sprintf("cells can add or hide about %.3f", v.Bound)
		if v.Name == "R²" {
			note = fmt.Sprintf("errors above the cap, which count as the cap, can lower it by about %.2f", v.Bound)
		}
	}
	full := func(x float64) string { return strconv.FormatFloat(scale*x, 'f', digits, 64) + unit }
	part := func(x float64) string {
		if scale == 100 {
			return strconv.FormatFloat(scale*x, 'f', 2, 64)
		}
		return strconv.FormatFloat(scale*x, 'f', digits, 64)
	}
	half := strconv.FormatFloat(scale*1.96*v.StdErr, 'f', digits, 64)
	if ceiling > 0 && (v.Name == "RMSE" || v.Name == "MAE" || v.Name == "squared error difference") {
		// in units of the label
		full, half = func(x float64) string { return number(x, 3) }, number(1.96*v.StdErr, 2)
		part = func(x float64) string { return number(x, 2) }
	}
	baseline := "–"
	if b, ok := baselines[v.Name]; ok {
		baseline = full(b)
	}
	return []string{v.Name, full(v.Value), half, baseline, part(v.Sampling), part(v.Privacy)}, note
}

// confusion formats the rows of the confusion matrix after the names of their classes.
func confusion(r *score.Scores, names []string) (rows [][]string) {
	for y, line := range r.Confusion {
		row := []string{names[y]}
		for _, v := range line {
			row = append(row, rounded(v.Value)+" ± "+rounded(1.96*v.StdErr))
		}
		rows = append(rows, row)
	}
	return rows
}

// shorten returns a printable name of at most twelve letters.
func shorten(s string) string {
	if r := []rune(printable(s)); len(r) > 12 {
		return string(r[:11]) + "…"
	}
	return printable(s)
}
