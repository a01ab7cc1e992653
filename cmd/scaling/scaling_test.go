// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
)

// scaling runs the program.
func callScaling(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// solved runs the program with a seed into a fresh folder and returns its rows
// by method.
func solvedScaling(t *testing.T, args ...string) (dir string, rows map[string][]csvRow) {
	t.Helper()
	dir = t.TempDir()
	code, _, stderr := callScaling(t, append([]string{"-seed", "1", "-quiet", "-formats", "csv,json", "-out", dir},
		args...)...)
	require.Zero(t, code, stderr)
	return dir, readRows(t, filepath.Join(dir, "risk.csv"))
}

type csvRow struct {
	sweep, method           string
	runs                    int
	value, mean, std, error float64
}

func readRows(t *testing.T, path string) map[string][]csvRow {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	require.Equal(t, "sweep,value,method,runs,mean,std,stderr,seconds", strings.Join(lines[0], ","))
	rows := map[string][]csvRow{}
	for _, l := range lines[1:] {
		x := make([]float64, len(l))
		for i, s := range l {
			if i != 0 && i != 2 {
				x[i], err = strconv.ParseFloat(s, 64)
				require.NoError(t, err)
			}
		}
		rows[l[2]] = append(rows[l[2]], csvRow{l[0], l[2], int(x[3]), x[1], x[4], x[5], x[6]})
	}
	return rows
}

func scalingResults(t *testing.T, dir string) scalingSummary {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "summary.json"))
	require.NoError(t, err)
	var s struct {
		Results scalingSummary `json:"results"`
	}
	require.NoError(t, json.Unmarshal(text, &s))
	return s.Results
}

// constant returns a constant of a cell.
func (d scalingDetail) constant(name string) float64 {
	for _, k := range d.Constants {
		if k.Name == name {
			return k.Value
		}
	}
	return math.NaN()
}

// The claim of the experiment: the risk of lop grows with the square of the
// box, that of qop does not.
func TestCertifiedShape(t *testing.T) {
	dir, rows := solvedScaling(t, "-eta", "0", "-values", "4,10,31.6,100,316,1000")
	s := scalingResults(t, dir)
	require.InDelta(t, 2, s.Slopes["lop"], 0.1)
	lo, hi := math.Inf(1), 0.0
	for _, r := range rows["qop"] {
		lo, hi = min(lo, r.mean), max(hi, r.mean)
	}
	require.LessOrEqual(t, hi, 1.05*lo)
	require.LessOrEqual(t, s.RelativeGap, 1e-10, "every solve is certified")
	require.True(t, s.AnchorClaimFalse, "the anchor is not exact, and the summary says so")
	require.InDelta(t, 1, s.AnchorError, 0.3) // 0.1·χ₁₀₀ = 1 ± 0.07
	for _, c := range s.Cells {
		require.Equal(t, dp.Budget{Epsilon: 0.5, Delta: 0.01}, c.Certificate.Budget)
		require.NotEmpty(t, c.Certificate.Theorem)
		require.LessOrEqual(t, *c.MeasuredExcess, *c.PredictedExcess, "%s at %v", c.Method, c.Value)
	}
	require.InEpsilon(t, 64.7*25, s.Cells[len(s.Cells)-1].constant("σ²m"), 0.03, "σ²m of the sharp constants, L = 25")
	for i, r := range rows["nonprivate"] {
		require.Equal(t, 1, r.runs)
		require.LessOrEqual(t, r.mean, rows["anchor"][i].mean)
		require.Equal(t, 10, rows["lop"][i].runs)
	}
}

// Without -eta the certificate of qop rests on a bound that is true, and pays for it: the risk is
// far above the anchor's, and still does not grow with a large box.
func TestDefaultClaimIsTrue(t *testing.T) {
	dir, rows := solvedScaling(t, "-values", "100,1000", "-runs", "5", "-methods", "qop,anchor")
	s := scalingResults(t, dir)
	require.False(t, s.AnchorClaimFalse)
	require.LessOrEqual(t, s.AnchorError, 0.1*13) // S(√d+3)
	require.Contains(t, strings.Join(s.Notes, "\n"), "which is true here")
	require.Contains(t, fmt.Sprint(s.Cells[0].Certificate.Assumptions), "within Eta")
	require.Greater(t, rows["qop"][1].mean, 1000*rows["anchor"][1].mean)
	// Both means are within 6 standard errors of one another, and of a factor 100 for a slope of 2.
	require.InDelta(t, rows["qop"][0].mean, rows["qop"][1].mean, 6*math.Hypot(rows["qop"][0].error, rows["qop"][1].error))

	dir, _ = solvedScaling(t, "-anchor-noise", "0", "-values", "10", "-runs", "1", "-methods", "qop")
	s = scalingResults(t, dir)
	require.False(t, s.AnchorClaimFalse, "an exact anchor needs no bound")
	require.Contains(t, fmt.Sprint(s.Cells[0].Certificate.Assumptions), "vanishes at the anchor")
}

// The planted parameter is a common minimizer of all records, those included whose labels would be
// clamped.
func TestPlantedParameterInterpolates(t *testing.T) {
	seed := uint64(3)
	size := sweep.Sizes{N: 3000, D: 4}
	rec, err := generated(scalingParams{Sizes: size, Xi: 5, AnchorNoise: 0.1, Mode: certified}, &seed)
	require.NoError(t, err)
	n, _ := rec.data.Dims()
	for i := range n {
		require.InDelta(t, floats.Dot(rec.data.Row(i), rec.in.Truth), rec.data.Label(i), 1e-12)
	}
	row, truth := []float64{3, 4}, []float64{-6, -8}
	label := shorten(row, floats.Dot(row, truth), 25)
	require.Equal(t, -25.0, label)
	require.InDelta(t, label, floats.Dot(row, truth), 1e-14)
	require.Equal(t, 7.0, shorten(row, 7, 25))
}

func TestSameValuesForAnyWorkers(t *testing.T) {
	args := []string{"-n", "40", "-d", "5", "-kappas", "4", "-runs", "3", "-methods", strings.Join(anchorMethods, ",")}
	_, want := solvedScaling(t, append(args, "-workers", "1")...)
	for _, w := range []string{"2", "5"} {
		_, got := solvedScaling(t, append(args, "-workers", w)...)
		require.Equal(t, want, got)
	}
}

// A cell does not depend on which cells there are, or which comes first.
func TestCellDoesNotDependOnTheGrid(t *testing.T) {
	args := []string{"-n", "40", "-d", "5", "-runs", "2", "-workers", "1", "-methods",
		strings.Join(anchorMethods, ","), "-values"}
	_, up := solvedScaling(t, append(args, "0.5,1000")...)
	_, down := solvedScaling(t, append(args, "1000,0.5")...)
	_, one := solvedScaling(t, append(args, "1000")...)
	for _, m := range anchorMethods {
		require.Equal(t, up[m], []csvRow{down[m][1], down[m][0]})
		require.Equal(t, up[m][1:], one[m])
	}
}

// Without a seed the data stay and the noise is new.
func TestUnseeded(t *testing.T) {
	args := []string{"-n", "40", "-d", "5", "-kappas", "2", "-formats", "csv", "-quiet", "-force",
		"-methods", "lop,nonprivate"}
	var seen []map[string][]csvRow
	for range 2 {
		dir := t.TempDir()
		code, stdout, stderr := callScaling(t, append(args, "-out", dir)...)
		require.Zero(t, code, stderr)
		require.NotContains(t, stdout, "NOT PRIVATE")
		seen = append(seen, readRows(t, filepath.Join(dir, "risk.csv")))
	}
	require.Equal(t, seen[0]["nonprivate"], seen[1]["nonprivate"])
	require.NotEqual(t, seen[0]["lop"], seen[1]["lop"])
	require.Equal(t, "kappa", seen[0]["lop"][0].sweep)
}

// A larger data set continues a smaller one.
func TestGeneratedRowsAreNested(t *testing.T) {
	p := scalingParams{Sizes: sweep.Sizes{N: 3, D: 4}, Xi: 5, AnchorNoise: 0.1}
	small, err := generated(p, nil)
	require.NoError(t, err)
	p.N = 7
	large, err := generated(p, nil)
	require.NoError(t, err)
	require.Equal(t, small.anchor, large.anchor)
	all := func(data *erm.Data) (records [][]float64) {
		n, _ := data.Dims()
		for i := range n {
			records = append(records, append(data.Row(i), data.Label(i)))
		}
		return records
	}
	require.Len(t, all(large.data), 7)
	require.Subset(t, all(large.data), all(small.data), "in the order that Data gives them")
	seed := uint64(9)
	other, err := generated(p, &seed)
	require.NoError(t, err)
	require.NotEqual(t, large.anchor, other.anchor)
}

func TestOtherSweeps(t *testing.T) {
	for _, s := range []struct {
		args []string
		want []float64
	}{
		{[]string{"-sweep", "n", "-d", "3", "-values", "20,10"}, []float64{20, 10}},
		{[]string{"-sweep", "d", "-values", "1,2,6"}, []float64{1, 2, 6}},
		{[]string{"-sweep", "eps", "-n", "30", "-d", "1"}, []float64{0.1, 0.2, 0.5, 1, 2, 5}},
	} {
		_, rows := solvedScaling(t, append(s.args, "-runs", "2", "-methods", strings.Join(anchorMethods, ","))...)
		for _, m := range anchorMethods {
			var got []float64
			for _, r := range rows[m] {
				require.Equal(t, s.args[1]+" (not private)", r.sweep)
				got = append(got, r.value)
			}
			require.Equal(t, s.want, got)
		}
	}
	c := &scalingConfig{scalingParams: scalingParams{Sizes: sweep.Sizes{D: 100}}, sweep: "d"}
	require.NoError(t, c.grid())
	require.Equal(t, []float64{10, 20, 50, 100, 200}, c.values)
	c = &scalingConfig{scalingParams: scalingParams{Sizes: sweep.Sizes{D: 3}}, sweep: "n"}
	require.NoError(t, c.grid())
	require.Equal(t, []float64{9, 15, 25, 42, 70, 116, 194, 323, 540, 900}, c.values)
}

// An inexact anchor that is declared costs output noise and is certified.
func TestDeclaredAnchorError(t *testing.T) {
	dir, _ := solvedScaling(t, "-n", "30", "-d", "2", "-eta", "2", "-values", "1,10", "-runs", "2", "-methods",
		"qop,anchor")
	s := scalingResults(t, dir)
	require.False(t, s.AnchorClaimFalse)
	for _, c := range s.Cells {
		require.Greater(t, c.OutputSigma, 2*2.0, "it hides 2R ≥ 2η")
		require.Contains(t, fmt.Sprint(c.Certificate.Assumptions), "within Eta")
	}
}

// TestPaperReference reruns the published procedure on the data of its figure:
// the mean of 100 runs lies within 6 standard errors of the published mean of
// 10, an event of probability below 1e-6 for 30 comparisons and close to normal means.
func TestPaperReference(t *testing.T) {
	folder := os.Getenv("PRIVOPT_DATA")
	if folder == "" {
		t.Skip("PRIVOPT_DATA does not name the folder of the published data")
	}
	fig := filepath.Join(folder, "fig2")
	f, err := os.Open(filepath.Join(fig, "reference.csv"))
	require.NoError(t, err)
	defer f.Close()
	reference, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	indices := []int{0, 11, 22, 33, 44, 50, 55, 66, 77, 99}
	var values []string
	for _, i := range indices {
		values = append(values, reference[1+i][0])
	}
	_, rows := solvedScaling(t, "-mode", "paper", "-runs", "100", "-values", strings.Join(values, ","), "-methods",
		"lop,lop-clip,qop",
		"-data", filepath.Join(fig, "problem.csv"), "-label", "y", "-anchor", filepath.Join(fig, "anchor.csv"))
	for column, m := range []string{"lop", "lop-clip", "qop"} {
		for k, i := range indices {
			want, err := strconv.ParseFloat(reference[1+i][1+column], 64)
			require.NoError(t, err)
			sd, err := strconv.ParseFloat(reference[1+i][4+column], 64)
			require.NoError(t, err)
			got := rows[m][k]
			require.Equal(t, 100, got.runs)
			require.InDelta(t, want, got.mean, 6*math.Sqrt(sd*sd/10+got.std*got.std/100), "%s at κ index %d", m, i)
		}
	}
}

// The published constants, to the digits of the paper's own formulas.
func TestPaperConstantsAreShown(t *testing.T) {
	dir, rows := solvedScaling(t, "-mode", "paper", "-values", "1", "-runs", "2", "-iters", "10")
	require.Equal(t, "kappa (not private)", rows["lop"][0].sweep)
	s := scalingResults(t, dir)
	require.Len(t, s.Cells, 3)
	lop, clip, qop := s.Cells[0].constant, s.Cells[1].constant, s.Cells[2].constant
	require.Equal(t, 2500.0, lop("L"))                                               // dξ²
	require.Equal(t, 10000.0, lop("Δ"))                                              // 2L/ε
	require.InEpsilon(t, 1/(300*2500+10000.0), lop("ω"), 1e-12)                      // 1/(nL+Δ)
	require.Equal(t, 10000.0, clip("ζ"))                                             // as published
	require.InEpsilon(t, 1e4*math.Sqrt(8*math.Log(200)+2)/0.5, clip("s"), 1e-12)     // ζ√(8 ln(2/δ)+4ε)/ε
	require.InEpsilon(t, lop("ζ")*math.Sqrt(8*math.Log(200)+2)/0.5, lop("s"), 1e-12) //
	require.InDelta(t, 9.956, qop("α"), 5e-4)
	require.InDelta(t, 11.14, qop("f₂"), 5e-3)
	require.InEpsilon(t, 1.9799e-14, qop("α₁"), 1e-4)
	require.InEpsilon(t, 2.525e17, qop("σ²"), 1e-3)
	require.Equal(t, 200.0, qop("m"))
}

// The table of the sharp and the published bound, to the digits it was printed with.
func TestFigureBound(t *testing.T) {
	dir := t.TempDir()
	code, stdout, stderr := callScaling(t, "-figure", "bound", "-values", "4", "-out", dir, "-quiet")
	require.Zero(t, code, stderr)
	require.NotContains(t, stdout, "NOT PRIVATE")
	rows := readRows(t, filepath.Join(dir, "bound.csv"))
	for kind, want := range map[string][4]float64{ // δ = 1e-5 … 1e-2
		"published": {122.5, 112.3, 101.8, 91.0},
		"general":   {15.38, 13.34, 11.21, 8.953},
		"glm":       {7.557, 6.261, 5.002, 3.679},
		"lsq":       {7.1, 5.8, 4.6, 3.3},
	} {
		for i, delta := range deltas {
			got := rows[fmt.Sprintf("%s/%g", kind, delta)][0].mean
			require.LessOrEqual(t, got, want[i]*1.02+0.05, "%s at δ = %g", kind, delta)
			require.GreaterOrEqual(t, got, want[i]*0.95-0.05, "%s at δ = %g", kind, delta)
		}
	}
	require.FileExists(t, filepath.Join(dir, "bound.png"))
}

// The checkpoint holds a line a cell, without what was drawn.
func TestCheckpointHoldsNoNoise(t *testing.T) {
	dir := t.TempDir()
	code, _, stderr := callScaling(t, "-n", "20", "-d", "3", "-kappas", "3", "-runs", "2", "-out", dir, "-formats", "csv")
	require.Zero(t, code, stderr)
	text, err := os.ReadFile(filepath.Join(dir, "cells.jsonl"))
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")[1:]
	require.Len(t, lines, 3*len(defaultMethods))
	for _, l := range lines {
		var r sweep.Result
		require.NoError(t, json.Unmarshal([]byte(l), &r))
		require.Equal(t, sweep.SchemaVersion, r.SchemaVersion)
		for _, secret := range []string{"theta", "noise", "Linear"} {
			require.NotContains(t, l, `"`+secret)
		}
	}
}

func TestInterruption(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	args := []string{"-n", "20", "-d", "3", "-kappas", "3", "-seed", "4", "-formats", "csv", "-out", dir}
	require.Equal(t, sweep.ExitInterrupted, run(ctx, args, &out, &errs))
	require.Empty(t, out.String())
	require.Contains(t, errs.String(), "-resume")
	code, _, stderr := callScaling(t, append(args, "-resume")...)
	require.Zero(t, code, stderr)
	code, _, stderr = callScaling(t, append(args, "-resume", "-lambda", "2")...)
	require.Equal(t, sweep.ExitUsage, code)
	require.Contains(t, stderr, "lambda was 1 and is 2")
}

func TestExitCodesOfMechanisms(t *testing.T) {
	for err, code := range map[error]int{
		dp.ErrCondition:    sweep.ExitCondition,
		dp.ErrWithheld:     sweep.ExitWithheld,
		erm.ErrData:        sweep.ExitUsage,
		errors.New("disk"): sweep.ExitFailure,
	} {
		var o sweep.Options
		f := sweep.NewFlags("scaling", "")
		o.Register(f, "out")
		require.Equal(t, code, f.RunExperiment(t.Context(), nil, io.Discard, io.Discard, &o, scalingErrors,
			func() (*sweep.Experiment, error) {
				return nil, fmt.Errorf("cell: %w", err)
			}))
	}
}

// writeData makes a small CSV whose label is not the last column, and an anchor.
func writeData(t *testing.T) (data, anchor string) {
	t.Helper()
	dir := t.TempDir()
	var b strings.Builder
	b.WriteString("a,y,b\n")
	for i := range 30 {
		fmt.Fprintf(&b, "%v,%v,%v\n", float64(i%5)/5, float64(i%7)/7-0.3, float64(i%3)/3)
	}
	data, anchor = filepath.Join(dir, "data.csv"), filepath.Join(dir, "anchor.csv")
	require.NoError(t, os.WriteFile(data, []byte(b.String()), 0o600))
	require.NoError(t, os.WriteFile(anchor, []byte("theta\n0.5\n-0.25\n"), 0o600))
	return data, anchor
}

func TestUserData(t *testing.T) {
	data, anchor := writeData(t)
	common := []string{"-data", data, "-label", "y", "-kappas", "2", "-runs", "2", "-formats", "csv,json"}
	dir := t.TempDir()
	code, stdout, stderr := callScaling(t, append(common, "-bound-row", "1", "-bound-label", "1", "-anchor", anchor,
		"-out", dir)...)
	require.Zero(t, code, stderr)
	const label = "NOT PRIVATE: risks are measured on the records of -data"
	require.True(t, strings.HasPrefix(stdout, label))
	require.Contains(t, stderr, "publishing all 12 releases, or the best of them, would cost (ε = 6, δ = 0.12) together")
	require.NotContains(t, stderr, "caller's random source", "nobody has to vouch for secure noise")
	s := scalingResults(t, dir)
	require.InDelta(t, 6, s.Composed.Epsilon, 1e-9)
	require.Zero(t, s.AnchorError)
	require.Equal(t, 1.0, s.Cells[2].constant("clip"), "the largest gradient at zero")
	require.Equal(t, "kappa (not private)", readRows(t, filepath.Join(dir, "risk.csv"))["lop"][0].sweep)

	// No file that is read is replaced, whatever -force says.
	require.NoError(t, os.Rename(data, filepath.Join(dir, "risk.csv")))
	require.NoError(t, os.Symlink(filepath.Join(dir, "risk.csv"), data))
	for _, more := range []string{"-force", "-resume"} {
		code, _, stderr = callScaling(t, append(common, "-bound-row", "1", "-bound-label", "1", "-anchor", anchor, "-out",
			dir, more)...)
		require.Equal(t, sweep.ExitUsage, code, stderr)
		require.Contains(t, stderr, "which it reads: name another folder")
		require.FileExists(t, data)
	}
	code, _, stderr = callScaling(t, append(common, "-bound-row", "1", "-bound-label", "1", "-methods", "lop,nonprivate",
		"-sweep", "eps", "-values", "1,2", "-out", t.TempDir())...)
	require.Equal(t, sweep.ExitUsage, code, "-kappas has no meaning there")
	require.Contains(t, stderr, "-kappas")
	code, _, stderr = callScaling(t, "-data", data, "-label", "y", "-bound-row", "1", "-bound-label", "1", "-methods",
		"lop,nonprivate", "-sweep", "eps", "-values", "1,2", "-runs", "2", "-out", t.TempDir())
	require.Zero(t, code, stderr)
	code, _, stderr = callScaling(t, append(common, "-mode", "paper", "-methods", "lop,lop-clip,nonprivate", "-iters",
		"5", "-out", t.TempDir())...)
	require.Zero(t, code, stderr)
	code, _, stderr = callScaling(t, append(common, "-mode", "paper", "-bound-row", "1", "-bound-label", "1", "-anchor",
		anchor, "-iters", "5", "-out", t.TempDir())...)
	require.Zero(t, code, stderr)
}

func TestHelpAndVersion(t *testing.T) {
	code, stdout, stderr := callScaling(t, "-h")
	require.Zero(t, code)
	require.Empty(t, stderr)
	for _, name := range strings.Fields("n d xi lambda eps delta rho runs iters kappa-min kappa-max kappas anchor-noise " +
		"clip eta kappa methods mode sweep values seed workers out force formats data label bound-row bound-label anchor " +
		"resume quiet version calibration figure") {
		require.Contains(t, stdout, "\n  -"+name, name)
	}
	code, stdout, _ = callScaling(t, "-version")
	require.Zero(t, code)
	require.Contains(t, stdout, "scaling")
}

// Every bad flag, file or budget: one line that names it, exit code 2, nothing
// on standard output and no folder made.
func TestBadFlags(t *testing.T) {
	data, anchor := writeData(t)
	bounds := "-label y -bound-row 1 -bound-label 1 "
	broken := filepath.Join(t.TempDir(), "broken.csv")
	require.NoError(t, os.WriteFile(broken, []byte("a,y,b\n1,2,3\n1,secret7,3\n"), 0o600))
	short := filepath.Join(t.TempDir(), "short.csv")
	require.NoError(t, os.WriteFile(short, []byte("theta\n0.5\n"), 0o600))
	cases := map[string][]string{
		"-kappa-min 10 -kappa-max 1":               {"-kappa-min", "10", "-kappa-max"},
		"-kappa-min 1 -kappa-max 1":                {"-kappas"},
		"-methods lop,magic":                       {"-methods", "lop,magic", "lop-clip"},
		"-methods lop,lop":                         {"-methods", "repetition"},
		"-mode private":                            {"-mode", "private", "certified"},
		"-calibration loose":                       {"-calibration", "loose", "sharp"},
		"-sweep lambda":                            {"-sweep", "lambda", "kappa, n, d, eps"},
		"-figure 3":                                {"-figure", "bound"},
		"-formats gif":                             {"-formats", "png"},
		"-values 1,two":                            {"-values", "two"},
		"-values 1,1":                              {"-values", "twice"},
		"-values 0":                                {"-values", "(0,"},
		"-values 1 -kappas 3":                      {"-kappas", "-values"},
		"-sweep n -values 2.5":                     {"-values", "2.5", "whole number"},
		"-sweep n -kappas 3":                       {"-kappas", "-sweep n"},
		"-sweep d -values 9999":                    {"-values", "9999", "5000"},
		"-n 10000000 -d 5000":                      {"-n", "-d", "2e+08"},
		"-label y":                                 {"-label", "-data"},
		"-anchor " + anchor:                        {"-anchor", "-data"},
		"-bound-row 1":                             {"-bound-row", "-data"},
		"-data " + data:                            {"-label"},
		"-data " + data + " -label y":              {"-bound-row"},
		"-data " + data + " -label y -bound-row 1": {"-bound-label"},
		"-data " + data + " " + bounds:             {"qop", "-anchor"},
		"-data " + data + " " + bounds + "-n 5":    {"-n", "-data"},
		"-data " + data + " " + bounds + "-xi 5":   {"-xi", "-bound-row"},
		"-data " + data + " " + bounds + "-sweep n -methods lop":               {"-sweep", "kappa or eps"},
		"-data /no/such/file " + bounds + "-methods lop":                       {"-data", "/no/such/file"},
		"-data /tmp " + bounds + "-methods lop":                                {"-data", "folder"},
		"-data " + broken + " " + bounds + "-methods lop":                      {"-data", "line 3"},
		"-data " + data + " -label z -bound-row 1 -bound-label 1 -methods lop": {"-data", "z"},
		"-data " + data + " " + bounds + "-anchor " + short:                    {"-anchor", "2"},
		"-data " + data + " " + bounds + "-anchor /no/such/file":               {"-anchor", "/no/such/file"},
		"-mode paper -eta 1":                                       {"-eta", "paper"},
		"-mode paper -calibration sharp":                           {"-calibration", "paper"},
		"-mode paper -delta 0":                                     {"-delta", "(0, 1)"},
		"-calibration paper -eta 1":                                {"-eta", "sharp"},
		"-figure bound -n 5":                                       {"-n", "bound"},
		"-figure bound -eps 3":                                     {"-eps", "bound"},
		"-mode paper -eps 1e-303 -n 3 -d 1 -kappas 1 -methods lop": {"Epsilon", "1e-303"},
		"-delta 0 -kappas 2 -methods qop":                          {"Delta"},
		"-eps 1e-300 -kappas 2":                                    {"Epsilon", "1e-300"},
		"-delta 1e-310 -kappas 2":                                  {"Delta"},
		"-resume -force":                                           {"-resume", "-force"},
		"-seed x":                                                  {"-seed"},
		"-label":                                                   {"-label"},
		"kappa":                                                    {`"kappa"`},
	}
	for name, upper := range map[string]string{"n": "x", "d": "5001", "xi": "1e7", "lambda": "1e10", "eps": "1e6",
		"delta": "1", "rho": "1e7",
		"runs": "1e9", "iters": "1e10",
		"kappa-min": "1e10", "kappa-max": "1e10", "kappas": "1e6", "anchor-noise": "1e7", "clip": "1e13", "eta": "1e7",
		"kappa":   "1e10",
		"workers": "1e6", "bound-row": "1e10", "bound-label": "1e10"} {
		for _, v := range []string{"NaN", "Inf", "-Inf", "-1", "1,5", "abc", upper} {
			cases["-"+name+" "+v] = []string{"-" + name, v, "want a ", "for example"}
		}
	}
	for _, name := range []string{"n", "d", "xi", "eps", "runs", "iters", "kappa-min", "kappa-max", "kappas", "kappa",
		"bound-row",
		"bound-label"} {
		cases["-"+name+" 0"] = []string{"-" + name, "0", "want a "}
	}
	for _, name := range []string{"n", "d", "runs", "iters", "kappas", "workers"} {
		cases["-"+name+" 2.5"] = []string{"-" + name, "2.5", "whole number"}
	}
	for args, want := range cases {
		out := filepath.Join(t.TempDir(), "out")
		code, stdout, stderr := callScaling(t, append([]string{"-out", out, "-quiet"}, strings.Fields(args)...)...)
		exit := sweep.ExitUsage
		if strings.Contains(stderr, "no such file") {
			exit = 1
		}
		require.Equal(t, exit, code, "%s: %s", args, stderr)
		require.Empty(t, stdout, args)
		require.Equal(t, 1, strings.Count(stderr, "\n"), "%s: %s", args, stderr)
		require.True(t, strings.HasPrefix(stderr, "scaling: "), stderr)
		require.NotContains(t, stderr, "secret7", "a field of the data is never shown")
		for _, w := range want {
			require.Contains(t, stderr, w, args)
		}
	}
}

// TestLegend: the picture says of every run which error of the anchor it declares, and whether that
// is true.
func TestLegend(t *testing.T) {
	data, anchor := writeData(t)
	files := "-data " + data + " -anchor " + anchor + " -label y -bound-row 1 -bound-label 1 "
	for args, want := range map[string]string{
		"":                                 "QOP, anchor within eta = 1.3",
		"-sweep n":                         "QOP, anchor within eta = 1.3",
		"-sweep eps -d 49 -anchor-noise 2": "QOP, anchor within eta = 20",
		"-sweep d":                         "QOP, anchor within eta = 0.1 (sqrt(d)+3)",
		"-eta 2":                           "QOP, anchor within eta = 2",
		"-eta 2 -sweep d":                  "QOP, anchor within eta = 2",
		"-eta 0":                           "QOP, anchor taken as exact, which is false here",
		"-eta 0 -sweep d":                  "QOP, anchor taken as exact, which is false here",
		"-calibration paper":               "QOP, anchor taken as exact, which is false here",
		"-anchor-noise 0":                  "QOP, anchor taken as exact",
		files:                              "QOP, anchor taken as exact",
		files + "-eta 0.5":                 "QOP, anchor within eta = 0.5",
		"-mode paper":                      "QOP as published",
	} {
		c, flags := newScaling()
		require.NoError(t, flags.Parse(strings.Fields(args)))
		require.NoError(t, c.check(flags), args)
		e, err := c.experiment()
		require.NoError(t, err, args)
		require.Equal(t, want, e.Plot.Legend["qop"], args)
		require.Equal(t, c.Mode == paper, e.Plot.Legend["lop"] == "LOP as published", args)
	}
}
