// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/dp"
)

// scalingSummary is the object "results" of summary.json.
type scalingSummary struct {
	Cells []scalingCell `json:"cells"`
	// Slopes are least-squares slopes of log risk against log κ over κ ≥ 10.
	Slopes map[string]float64 `json:"slopes,omitempty"`
	// RelativeGap is the largest of all cells.
	RelativeGap float64 `json:"relative_gap,omitempty"`
	// AnchorError is ‖anchor − θ_true‖₂, known for generated data.
	AnchorError float64 `json:"anchor_error,omitempty"`
	// AnchorClaimFalse says that the error exceeds the declared -eta.
	AnchorClaimFalse bool `json:"anchor_claim_false,omitempty"`
	// Composed is the cost of all releases of a sweep over -data together.
	Composed *dp.Budget `json:"composed,omitempty"`
	Releases int        `json:"releases"`
	Notes    []string   `json:"notes"`
}

type scalingCell struct {
	Value  float64 `json:"value"`
	Method string  `json:"method"`
	Risk   float64 `json:"risk"`
	scalingDetail
}

// slopeFrom is the κ from which the statistics of a curve are taken. Those of Table G.4 of [CC26]
// belong to ζ = 100 and κ ≤ 100, not to the sizes of its figure.
const slopeFrom = 10

// summarize words the end of the experiment.
func (c *scalingConfig) summarize(s *dataSource, results []sweep.Result) (any, []string) {
	sum := &scalingSummary{Slopes: map[string]float64{}, Notes: []string{}}
	var lines, slopes []string
	var certificates []dp.Certificate
	var private float64
	for _, m := range c.methods {
		first := len(sum.Cells)
		var x, y []float64
		for _, r := range results {
			if r.Method != m {
				continue
			}
			if d, ok := sweep.DetailOf[scalingDetail](r); ok {
				sum.Cells = append(sum.Cells, scalingCell{r.Value, m, r.Mean, d})
				sum.Releases += r.Runs
				private += r.Seconds
				sum.RelativeGap = max(sum.RelativeGap, d.RelativeGap)
				if d.Certificate != nil {
					certificates = append(certificates, sweep.Releases(d.Certificate, r.Runs)...)
				}
			}
			if c.sweep == "kappa" && r.Value >= slopeFrom && r.Mean > 0 {
				x, y = append(x, r.Value), append(y, r.Mean)
			}
		}
		if len(x) > 1 {
			var r2 float64
			sum.Slopes[m], r2 = sweep.LogSlope(x, y)
			slopes = append(slopes, fmt.Sprintf("%s %.3f %.3f %s %s", m, sum.Slopes[m], r2, sweep.Digits(y[len(y)-1]/y[0]),
				sweep.Digits(slices.Max(y)/slices.Min(y))))
		}
		if cells := sum.Cells[first:]; len(cells) > 0 {
			lines = append(lines, c.describe(m, cells)...)
		}
	}
	if len(slopes) > 0 {
		lines = append(lines, fmt.Sprintf("over kappa >= %d: log-log slope, its R², risk at the last kappa over that at the "+
			"first, largest over least: %s", slopeFrom, strings.Join(slopes, "; ")))
	}
	if len(certificates) > 0 {
		lines = append(lines, fmt.Sprintf("every solve certified to J - min J <= %.2g max(1, |J|)", sum.RelativeGap))
	}
	c.anchorNote(s, sum)
	if c.data != "" && len(certificates) > 0 {
		budget, note := sweep.Cost(certificates)
		sum.Composed = budget
		sum.Notes = append(sum.Notes, "the risks are computed from the records and no noise hides them: keep them where "+
			"the records are", note)
	}
	if private > 0 {
		lines = append(lines, fmt.Sprintf("private methods: %d solves in %.3g s of work, %.4g solves/s on one core",
			sum.Releases, private, float64(sum.Releases)/private))
	}
	return sum, append(lines, sum.Notes...)
}

// describe words the constants of one method at both ends of the sweep.
func (c *scalingConfig) describe(method string, cells []scalingCell) (lines []string) {
	if cert := cells[0].Certificate; cert != nil {
		at := ""
		if c.sweep == "eps" {
			at = " at eps = " + sweep.Digits(cells[0].Value)
		}
		lines = sweep.Promises(method, at, cert)
	}
	outside := 0
	for i, d := range cells {
		outside += d.Outside
		if i > 0 && i < len(cells)-1 {
			continue
		}
		var parts []string
		for _, k := range d.Constants {
			parts = append(parts, k.Name+" = "+sweep.Digits(k.Value))
		}
		line := fmt.Sprintf("%s at %s = %s: %s; risk %s", method, c.sweep, sweep.Digits(d.Value), strings.Join(parts, ", "),
			sweep.Digits(d.Risk))
		if d.PredictedExcess != nil && d.MeasuredExcess != nil {
			line += fmt.Sprintf("; excess per record over %s: predicted <= %s, measured %s", d.Comparator,
				sweep.Digits(*d.PredictedExcess), sweep.Digits(*d.MeasuredExcess))
		}
		lines = append(lines, line)
	}
	if outside > 0 {
		lines = append(lines, fmt.Sprintf("%s: %d runs report a point outside the box", method, outside))
	}
	return lines
}

// anchorNote reports whether the declared error of the anchor, on which qop rests, is true.
func (c *scalingConfig) anchorNote(s *dataSource, sum *scalingSummary) {
	if c.Mode == paper || c.data != "" || !slices.Contains(c.methods, "qop") {
		return
	}
	declared := 0.0
	for _, v := range c.values {
		at := c.at(v)
		rec, err := s.at(at)
		if err != nil {
			return
		}
		sum.AnchorError, declared = max(sum.AnchorError, rec.error), max(declared, at.Eta)
		sum.AnchorClaimFalse = sum.AnchorClaimFalse || rec.error > at.Eta
	}
	claim := "declares the anchor to be within " + sweep.Digits(declared)
	if declared == 0 {
		claim = "takes the anchor as exact"
	}
	note := ""
	switch worst := sweep.Digits(sum.AnchorError); {
	case !sum.AnchorClaimFalse && declared > 0:
		note = "which is true here: its error is up to " + worst + ". The published setting takes it as exact: -eta 0"
	case sum.AnchorClaimFalse && declared > 0:
		note = "an assumption known to be false here: the anchor's error is up to " + worst +
			" (without -eta a true bound is taken)"
	case sum.AnchorClaimFalse:
		note = "an assumption known to be false here: the anchor's error is up to " + worst +
			" (-anchor-noise 0 makes it exact, without -eta a true bound is declared)"
	default:
		return
	}
	sum.Notes = append(sum.Notes, "qop "+claim+", "+note)
}
