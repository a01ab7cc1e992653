package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/privopt/privopt/cmd/internal/audit"
	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/testkit"
)

// table writes one line a case.
func table(out io.Writer, results []audit.Result) error {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "case\tlayer\tclaim\tmeasured\tpower\treleases\tseconds\tverdict\n")
	for _, r := range results {
		if r.Err != nil {
			fmt.Fprintf(w, "%s\t%s\t\t\t\t\t%.2f\tnot measured\n", r.Full(), r.Layer, r.Seconds)
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%.2f\t%s\n", r.Full(), r.Layer, claim(r.Claim), measured(&r),
			power(r.Power), r.Runs, r.Seconds, r.Verdict())
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, r := range results {
		if r.Reason != "" {
			fmt.Fprintf(&b, "%s: %s\n", r.Full(), r.Reason)
		}
	}
	_, err := out.Write(b.Bytes())
	return err
}

// claim writes a budget shortly.
func claim(b dp.Budget) string { return fmt.Sprintf("ε = %.4g, δ = %.3g", b.Epsilon, b.Delta) }

// measured writes the one number that a layer is about.
func measured(r *audit.Result) string {
	switch {
	case r.Reason != "":
		return "see below"
	case r.Layer == audit.Exact:
		return fmt.Sprintf("ε = %.4g", r.Finding.Exact)
	case r.Layer == audit.BlackBox && !math.IsNaN(r.Finding.Exact):
		return fmt.Sprintf("ε ≥ %.4g of %.4g", r.Lower, r.Finding.Exact)
	case r.Layer == audit.BlackBox:
		return fmt.Sprintf("ε ≥ %.4g", r.Lower)
	case len(r.Tests) == 0:
		return "in place"
	}
	name, p := r.Worst()
	if p >= 1 {
		return "p = 1"
	}
	return fmt.Sprintf("p = %.2g (%s)", p, name)
}

// power writes a probability or a share.
func power(x float64) string {
	if math.IsNaN(x) {
		return "–"
	}
	return strconv.FormatFloat(x, 'f', 3, 64)
}

// listCases writes the pairs, the cases of the named mechanisms and the sabotages of these cases.
func listCases(out io.Writer, names []string) error {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "pairs\n")
	for i := range len(audit.Pairs) {
		name := "A" + strconv.Itoa(i+1)
		fmt.Fprintf(w, "  %s\t%s\n", name, audit.Pairs[name])
	}
	fmt.Fprint(w, "cases\n")
	listed := map[string]bool{}
	for _, r := range audit.Select(names, audit.Long) {
		listed[r.Full()] = true
		fmt.Fprintf(w, "  %s\t%s\t%s\n", r.Full(), r.Layer, max(r.Case.Least, audit.Quick))
	}
	fmt.Fprint(w, "sabotages\n")
	for _, c := range audit.Controls() {
		if listed[c.Case] {
			fmt.Fprintf(w, "  %s\t%s\t%s\n", c.Name, c.What, c.Case)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := out.Write(b.Bytes())
	return err
}

// schemaVersion changes when a field of the JSON file changes its meaning or
// goes; new fields do not count.
const schemaVersion = 1

// report is the JSON file.
type report struct {
	SchemaVersion int     `json:"schema_version"`
	Tier          string  `json:"tier"`
	Seed          uint64  `json:"seed"`
	Go            string  `json:"go"`
	Platform      string  `json:"platform"`
	FalseReject   float64 `json:"false_reject"` // of one case
	Seconds       float64 `json:"seconds"`
	Cases         []line  `json:"cases"`
}

// line is one case. null stands for what was not measured.
type line struct {
	Mechanism string        `json:"mechanism"`
	Case      string        `json:"case"`
	Sabotage  string        `json:"sabotage,omitempty"` // what was broken; Mechanism is its name
	Pair      string        `json:"pair,omitempty"`
	Layer     audit.Layer   `json:"layer"`
	Theorem   string        `json:"theorem"`
	Relation  dp.Relation   `json:"relation"`
	Claim     dp.Budget     `json:"claim"`
	Exact     *float64      `json:"exact_epsilon"`
	Lower     *float64      `json:"lower_epsilon"`
	Power     *float64      `json:"power"`
	Releases  int           `json:"releases"`
	Tests     []audit.Test  `json:"tests"`
	Profile   []audit.Point `json:"profile"`
	Verdict   audit.Verdict `json:"verdict"`
	Reason    string        `json:"reason,omitempty"`
	Seconds   float64       `json:"seconds"`
}

// number returns nil for what JSON has no number for.
func number(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// writeJSON writes the findings; a case that could not be measured is left out.
func (c *auditFlags) writeJSON(results []audit.Result, seconds float64) error {
	rep := report{
		SchemaVersion: schemaVersion, Tier: c.tier, Seed: c.seed, Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH, FalseReject: testkit.FalseReject, Seconds: seconds, Cases: []line{},
	}
	for _, r := range results {
		if r.Err != nil {
			continue
		}
		rep.Cases = append(rep.Cases, line{
			Mechanism: r.Mechanism, Case: r.Case.Name, Sabotage: c.what[r.Mechanism], Pair: r.Pair, Layer: r.Layer,
			Theorem: r.Theorem, Relation: r.Relation, Claim: r.Claim,
			Exact: number(r.Finding.Exact), Lower: number(r.Lower), Power: number(r.Power), Releases: r.Runs,
			Tests: slices.Clone(r.Tests), Profile: r.Profile, Verdict: r.Verdict(), Reason: r.Reason, Seconds: r.Seconds,
		})
	}
	text, err := json.MarshalIndent(rep, "", "  ")
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return sweep.WriteFile(c.json, append(text, '\n'))
}
