// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package experiment

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/dp"
)

// summary is the object "results" of summary.json.
type halfspaceSummary struct {
	Heldout  []heldout  `json:"heldout,omitempty"`
	Composed *dp.Budget `json:"composed,omitempty"` // the cost of all releases together
	Releases int        `json:"releases"`
	Unproven int        `json:"unproven"`
}

type heldout struct {
	Epsilon float64 `json:"eps"`
	Method  string  `json:"method"`
	Mean    float64 `json:"mean"`
	Std     float64 `json:"std"`
	StdErr  float64 `json:"stderr"`
}

// held returns r with the held-out accuracy as its mean.
func held(r sweep.Result) (sweep.Result, bool) {
	d, ok := sweep.DetailOf[halfspaceDetail](r)
	if !ok || len(d.Test) == 0 {
		return r, false
	}
	r.Average(d.Test)
	return r, true
}

var halfspaceColumns = []sweep.Column{
	sweep.Number("heldout", func(r sweep.Result) (float64, bool) { h, ok := held(r); return h.Mean, ok }),
	sweep.Number("heldout_std", func(r sweep.Result) (float64, bool) { h, ok := held(r); return h.Std, ok }),
	secondsColumn,
	sweep.Number("unproven", func(r sweep.Result) (float64, bool) {
		d, ok := sweep.DetailOf[halfspaceDetail](r) // without it nothing is known
		return float64(d.Unproven), ok
	}),
}

// figures are the held-out accuracy.
func (c *halfspaceConfig) figures(results []sweep.Result) (figures []sweep.Figure) {
	var out []sweep.Result
	for _, r := range results {
		if h, ok := held(r); ok {
			out = append(out, h)
		}
	}
	if len(out) > 0 {
		figures = append(figures, sweep.Figure{Name: "heldout", Plot: c.plot("Held-out accuracy"), Results: out})
	}
	return figures
}

// seconds returns the times of all fits by search.
func (c *halfspaceConfig) seconds(results []sweep.Result) (seconds []float64) {
	for _, r := range results {
		if d, ok := sweep.DetailOf[halfspaceDetail](r); ok && c.method(r.Method).searches() {
			seconds = append(seconds, d.Seconds...)
		}
	}
	return seconds
}

// summarize words the end of the experiment.
func (c *halfspaceConfig) summarize(results []sweep.Result) (any, []string) {
	sum := &halfspaceSummary{}
	var lines []string
	var certificates []dp.Certificate
	var laps []Lap
	table := map[string]string{} // held-out accuracies by method
	seen := map[string]bool{}
	for _, r := range results {
		d, ok := sweep.DetailOf[halfspaceDetail](r)
		if !ok {
			continue
		}
		if h, ok := held(r); ok {
			sum.Heldout = append(sum.Heldout, heldout{r.Value, r.Method, h.Mean, h.Std, h.StdErr})
			table[r.Method] += fmt.Sprintf("  %.4f (%.4f)", h.Mean, h.Std)
		}
		sum.Unproven += d.Unproven
		laps = append(laps, d.Laps...)
		if d.Certificate == nil {
			continue
		}
		sum.Releases += r.Runs - d.Unproven
		certificates = append(certificates, releases(d.Certificate, r.Runs-d.Unproven)...)
		if seen[r.Method] {
			continue
		}
		seen[r.Method] = true
		words := promises(r.Method, fmt.Sprintf(" at eps = %v", r.Value), d.Certificate)
		if d.Certificate.Epsilon > d.Claimed.Epsilon {
			words[0] += fmt.Sprintf("; the published claim is ε = %v, which is not proved", d.Claimed.Epsilon)
		}
		lines = append(lines, words...)
	}
	for _, m := range c.methods {
		if line := table[m.name]; line != "" {
			lines = append(lines, fmt.Sprintf("held out, %d records, mean and std at each eps: %s%s", c.Heldout, m.name, line))
		}
	}
	seconds := c.seconds(results)
	switch {
	case len(laps) > 0:
		lines = append(lines, c.raced(laps))
	case len(seconds) > 0:
		lines = append(lines, fmt.Sprintf("%d searches: median %.3g s, longest %.3g s, every minimizer proven", len(seconds),
			sweep.Median(seconds), slices.Max(seconds)))
	}
	if c.data != "" && len(certificates) > 0 {
		var total string
		sum.Composed, total = cost(certificates)
		lines = append(lines, total)
	}
	return sum, lines
}

// raced words the answers of a command beside the search of this module.
func (c *halfspaceConfig) raced(laps []Lap) string {
	var claims, wrong, none, open int
	var command, search, excess []float64
	for _, l := range laps {
		command, search = append(command, l.Seconds), append(search, l.Search)
		if l.Open {
			open++
		}
		switch {
		case l.NoPoint:
			none++
		case l.ClaimsOptimum:
			claims++
			if l.Excess > 0 {
				wrong++
			}
		}
		if !l.NoPoint && !l.Open {
			excess = append(excess, l.Excess)
		}
	}
	worst, proves := "no point beside a proven minimum", "all"
	if len(excess) > 0 {
		worst = fmt.Sprintf("excess over the proven minimum: median %.4g, largest %.4g", sweep.Median(excess),
			slices.Max(excess))
	}
	if open > 0 {
		proves = strconv.Itoa(len(laps) - open)
	}
	return fmt.Sprintf("%d problems, %s: claims %d optima, of which %d are wrong, no point for %d, %s; median %.3g s. "+
		"This search proves %s: median %.3g s, longest %.3g s", len(laps), c.Oracle, claims, wrong, none, worst,
		sweep.Median(command), proves, sweep.Median(search), slices.Max(search))
}
