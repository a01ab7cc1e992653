// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"image/color"
	"io"
	"math"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/privopt/privopt/cmd/internal/screen"
	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/cmd/research/audit"
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/testkit"
)

// table writes one line a case.
func table(out io.Writer, results []audit.Result) error {
	rows := [][]string{{"case", "verdict", "layer", "power", "claim", "measured"}}
	for _, r := range results {
		row := []string{r.Full(), string(r.Verdict()), string(r.Layer), power(r.Power), claim(r.Claim), measured(&r)}
		if r.Err != nil {
			row = []string{r.Full(), "not measured", string(r.Layer), "", "", ""}
		}
		rows = append(rows, row)
	}
	text := screen.Table("l", rows, screen.Out())
	for _, r := range results {
		if r.Reason != "" {
			text += screen.Paragraph("", r.Full()+": "+r.Reason, screen.Out())
		}
	}
	_, err := io.WriteString(out, text)
	return err
}

// caughtTable writes one line a sabotage.
func caughtTable(out io.Writer, list []audit.Control, results []audit.Result) error {
	rows := [][]string{{"sabotage", "verdict", "what was broken, and which test saw it"}}
	for i, r := range results {
		verdict, by := "caught", list[i].What+"; "+list[i].Case+": "+seen(&r)
		if r.Verdict() != audit.Violated {
			verdict, by = "MISSED", list[i].What+"; "+list[i].Case
		}
		rows = append(rows, []string{list[i].Name, verdict, by})
	}
	_, err := io.WriteString(out, screen.Table("llt", rows, screen.Out()))
	return err
}

// seen says what showed that a claim is violated.
func seen(r *audit.Result) string {
	name, p := r.Worst()
	claim := r.Claim.Epsilon
	switch {
	case r.Reason != "":
		return r.Reason
	case p < testkit.FalseReject:
		return fmt.Sprintf("the test of %s has p %s", name, pValue(p))
	case r.Lower > claim:
		return fmt.Sprintf("the releases prove ε ≥ %.4g, above the claim %.4g", r.Lower, claim)
	case r.Exact > claim:
		return fmt.Sprintf("the exact ε is %.4g, above the claim %.4g", r.Exact, claim)
	case r.Lower > r.Exact:
		return fmt.Sprintf("the releases prove ε ≥ %.4g, and a correct mechanism has %.4g", r.Lower, r.Exact)
	}
	return "the measured privacy profile is above the claimed one"
}

// pValue formats a p-value after its sign of relation.
func pValue(p float64) string {
	if p < 1e-16 {
		return "< 1e-16"
	}
	return fmt.Sprintf("= %.2g", p)
}

// claim formats a budget.
func claim(b dp.Budget) string { return fmt.Sprintf("ε = %.4g, δ = %.3g", b.Epsilon, b.Delta) }

// measured formats the main number of a layer.
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
	return fmt.Sprintf("p %s (%s)", pValue(p), name)
}

// power formats a probability or a share.
func power(x float64) string {
	if math.IsNaN(x) {
		return "–"
	}
	return strconv.FormatFloat(x, 'f', 3, 64)
}

// listCases writes the pairs, the cases of the named mechanisms and the sabotages of these cases.
func listCases(out io.Writer, names []string) error {
	pairs := [][]string{{"pair", "neighboring data sets"}}
	for i := range len(audit.Pairs) {
		name := "A" + strconv.Itoa(i+1)
		pairs = append(pairs, []string{name, audit.Pairs[name]})
	}
	cases := [][]string{{"case", "layer", "tier"}}
	listed := map[string]bool{}
	for _, r := range audit.Select(names, audit.Long) {
		listed[r.Full()] = true
		cases = append(cases, []string{r.Full(), string(r.Layer), max(r.Case.Least, audit.Quick).String()})
	}
	sabotages := [][]string{{"sabotage", "what is broken; the case that sees it"}}
	for _, c := range audit.Controls() {
		if listed[c.Case] {
			sabotages = append(sabotages, []string{c.Name, c.What + "; " + c.Case})
		}
	}
	width := screen.Out()
	_, err := io.WriteString(out, screen.Table("lt", pairs, width)+"\n"+screen.Table("l", cases, width)+"\n"+
		screen.Table("lt", sabotages, width))
	return err
}

// schemaVersion changes when a field of the JSON file changes its meaning or is removed. New fields
// do not count.
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

// line is one case. null stands for a number that was not measured.
type line struct {
	Mechanism string        `json:"mechanism"`
	Case      string        `json:"case"`
	Sabotage  string        `json:"sabotage,omitempty"` // the broken step; Mechanism is its name
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

// number returns nil for NaN and infinities, which JSON cannot represent.
func number(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// writeJSON writes the findings; a case that could not be measured is left out.
func (c *auditFlags) writeJSON(stdout io.Writer, results []audit.Result, seconds float64) error {
	rep := report{
		SchemaVersion: schemaVersion, Tier: c.tier, Seed: c.seed,
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, FalseReject: testkit.FalseReject,
		Seconds: seconds, Cases: []line{},
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
	return sweep.WriteTo(stdout, c.json, append(text, '\n'))
}

var claimedInk, measuredInk = sweep.Palette[0], sweep.Palette[1]

const (
	tileW = 265 * vg.Length(1) // points
	tileH = 200 * vg.Length(1)
	head  = 40 * vg.Length(1) // above the tiles
	// floor is the least δ that is drawn.
	floor = 1e-8
)

// closest returns the cases to draw: of each mechanism the case whose measured ε is the largest
// share of its claim, and of these the six with the largest shares.
func closest(results []audit.Result) []audit.Result {
	best := map[string]int{}
	var list []audit.Result
	for _, r := range results {
		// A profile begins at ε = 0. Points that do not are of many profiles, and no curve.
		if r.Err != nil || len(r.Profile) < 2 || r.Profile[0].Epsilon != 0 {
			continue
		}
		i, ok := best[r.Mechanism]
		if !ok {
			best[r.Mechanism] = len(list)
			list = append(list, r)
		} else if old := list[i]; r.Exact/r.Claim.Epsilon > old.Exact/old.Claim.Epsilon {
			list[i] = r
		}
	}
	share := func(r audit.Result) float64 { return r.Exact / r.Claim.Epsilon }
	slices.SortStableFunc(list, func(a, b audit.Result) int { return cmp.Compare(share(b), share(a)) })
	return list[:min(6, len(list))]
}

// mechanismNames are the mechanisms in words.
var mechanismNames = map[string]string{
	"aggregate": "sample and aggregate", "lop": "linear perturbation", "lop-clip": "clipped linear perturbation",
	"lop-output": "output perturbation", "model-gradients": "noisy gradients",
	"exponential": "exponential mechanism", "opdisc": "OPDisc", "opsamp": "OPSamp", "product": "K-norm noise",
	"qop":  "quadratic perturbation",
	"rspm": "RSPM", "sco-objective": "linear perturbation, population", "sco-sgd": "noisy SGD",
	"score": "private score",
}

var caseNumber = regexp.MustCompile(`(^|/)[A-C][0-9]+/|,? exactly$`)

// tileTitle says in words what a tile shows: a mechanism or a sabotage, and the records.
func tileTitle(r *audit.Result, what map[string]string) string {
	name := strings.TrimSuffix(what[r.Mechanism], ", seen by the density")
	name = cmp.Or(name, mechanismNames[r.Mechanism], r.Mechanism)
	records := caseNumber.ReplaceAllString(r.Case.Name, "$1")
	if mechanism, rest, ok := strings.Cut(records, "/"); ok {
		records = cmp.Or(mechanismNames[mechanism], mechanism) + ", " + rest
	}
	return name + "\n" + records
}

// writePNG draws one tile for each mechanism with a privacy profile: log₁₀ δ against
// ε, claimed dashed and measured solid.
func writePNG(stdout io.Writer, path string, results []audit.Result, what map[string]string) error {
	var tiles []*plot.Plot
	for _, r := range closest(results) {
		p, err := tile(&r, what)
		if err != nil {
			return err
		}
		tiles = append(tiles, p)
	}
	columns := 3
	if len(tiles) < 5 { // no row with one tile
		columns = 2
	}
	rows := (len(tiles) + columns - 1) / columns
	width, height := vg.Length(columns)*tileW, vg.Length(rows)*tileH+head
	data, err := sweep.Picture("png", width, height, func(page draw.Canvas) {
		for i, p := range tiles {
			x, y := vg.Length(i%columns)*tileW, page.Max.Y-head-vg.Length(1+i/columns)*tileH
			p.Draw(draw.Canvas{Canvas: page, Rectangle: vg.Rectangle{
				Min: vg.Point{X: x + 6, Y: y + 6}, Max: vg.Point{X: x + tileW - 8, Y: y + tileH - 6},
			}})
		}
		title := plot.New().Title.TextStyle
		title.Font = sweep.Sans(14)
		page.FillText(title, vg.Point{X: page.Max.X / 2, Y: page.Max.Y - 22},
			"Privacy profiles δ(ε): claimed (dashed, vermilion) and measured (solid, blue)")
	})
	if err != nil {
		return err
	}
	return sweep.WriteTo(stdout, path, data)
}

// tile draws one case.
func tile(r *audit.Result, what map[string]string) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = tileTitle(r, what), "ε", "δ"
	p.Title.TextStyle.Font = sweep.Sans(10)
	p.X.Label.TextStyle.Font, p.Y.Label.TextStyle.Font = sweep.Sans(11), sweep.Sans(11)
	p.X.Tick.Label.Font, p.Y.Tick.Label.Font = sweep.Sans(9), sweep.Sans(9)
	p.X.Tick.Marker, p.Y.Tick.Marker = sweep.RoundTicks{}, sweep.Decades{}
	p.Y.Min, p.Y.Max = math.Log10(floor), 0
	add := func(delta func(audit.Point) float64, ink color.Color, dashes []vg.Length) error {
		var xy plotter.XYs
		for _, at := range r.Profile {
			d := delta(at)
			if d > 0 { // 0 has no logarithm
				xy = append(xy, plotter.XY{X: at.Epsilon, Y: math.Log10(math.Max(d, floor))})
			}
			if d < floor {
				break
			}
		}
		if len(xy) == 0 {
			return nil
		}
		line, err := plotter.NewLine(xy)
		if err != nil {
			return err
		}
		line.LineStyle = draw.LineStyle{Color: ink, Width: vg.Points(1.5), Dashes: dashes}
		p.Add(line)
		return nil
	}
	if err := add(func(at audit.Point) float64 { return at.Measured }, measuredInk, nil); err != nil {
		return nil, err
	}
	if err := add(func(at audit.Point) float64 { return at.Claimed }, claimedInk, []vg.Length{5, 3}); err != nil {
		return nil, err
	}
	if b := r.Claim; b.Delta > 0 { // the budget of the release
		dot, err := plotter.NewScatter(plotter.XYs{{X: b.Epsilon, Y: math.Log10(b.Delta)}})
		if err != nil {
			return nil, err
		}
		dot.GlyphStyle = draw.GlyphStyle{Color: claimedInk, Radius: vg.Points(2.5), Shape: draw.CircleGlyph{}}
		p.Add(dot)
	}
	return p, nil
}
