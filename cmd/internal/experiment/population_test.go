// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package experiment

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/cmd/internal/adult"
	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/loss"
)

// call runs the program and returns its exit code and output.
func callPopulation(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Population(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// results reads summary.json.
func populationResults(t *testing.T, dir string) (s struct {
	NotPrivate string            `json:"not_private"`
	Results    populationSummary `json:"results"`
}) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "summary.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &s))
	return s
}

// Every family and method, in small.
func TestFamilies(t *testing.T) {
	for _, family := range families {
		dir := t.TempDir()
		code, out, errs := callPopulation(
			t,
			"-family",
			family,
			"-d",
			"4",
			"-values",
			"200,400",
			"-eps",
			"1",
			"-runs",
			"3",
			"-seed",
			"1",
			"-out",
			dir,
		)
		require.Zero(t, code, errs)
		require.Contains(t, out, "onepass-bound")
		require.Contains(t, errs, "slope")
		require.Contains(t, errs, "no mean is above its proved bound")
		text, err := os.ReadFile(filepath.Join(dir, "excess.csv"))
		require.NoError(t, err)
		require.Contains(t, strings.SplitN(string(text), "\n", 2)[0], "evaluations")
		require.FileExists(t, filepath.Join(dir, "excess.png"))
	}
	code, _, errs := callPopulation(
		t,
		"-family",
		"logistic",
		"-d",
		"4",
		"-values",
		"300",
		"-eps",
		"2",
		"-runs",
		"2",
		"-seed",
		"1",
		"-methods",
		"svrg,prox,zero",
		"-out",
		t.TempDir(),
	)
	require.Zero(t, code, errs)
}

// The promised rates, in both regimes, and no mean above its bound.
func TestSlopes(t *testing.T) {
	if testing.Short() {
		t.Skip("drawing the records of 30 runs takes seconds")
	}
	for i, c := range []struct {
		args  []string
		slope float64
		slack float64
	}{
		{[]string{"-regime", "privacy", "-values", "500,1000,2000,4000"}, -1, 0.15},
		{[]string{"-regime", "statistical", "-values", "1000,2000,4000,8000"}, -0.5, 0.1},
		{[]string{"-regime", "privacy"}, -1, 0.15},
		{[]string{"-regime", "privacy", "-sweep", "d", "-values", "16,32,64,128"}, 0.5, 0.15},
	} {
		if i > 0 && !testkit.Long() || i > 1 && !testkit.Deep() {
			break // more records
		}
		dir := t.TempDir()
		code, _, errs := callPopulation(t, append(c.args, "-methods", "sgd", "-seed", "1", "-out", dir)...)
		require.Zero(t, code, errs)
		s := populationResults(t, dir).Results
		require.Empty(t, s.Violations)
		got := s.Slopes["sgd"]
		t.Logf("%v: %.3f (%.3f to %.3f)", c.args, got.Slope, got.Low, got.High)
		require.InDelta(t, c.slope, got.Slope, c.slack, "%v", c.args)
		require.LessOrEqual(t, got.Low, got.Slope)
		require.GreaterOrEqual(t, got.High, got.Slope)
	}
}

// A bound that is too small is reported.
func TestViolation(t *testing.T) {
	c := &populationConfig{methods: []string{"sgd"}, bounds: true, sweep: "n"}
	outcome := func(x float64) json.RawMessage {
		text, err := json.Marshal(populationDetail{Outcomes: []float64{x, x}})
		require.NoError(t, err)
		return text
	}
	_, lines := c.summarize([]sweep.Result{
		{Value: 1, Method: "sgd", Mean: 2, Detail: outcome(2)}, {Value: 1, Method: "sgd-bound", Mean: 1},
		{Value: 4, Method: "sgd", Mean: 1, Detail: outcome(1)}, {Value: 4, Method: "sgd-bound", Mean: 1.5},
	})
	text := strings.Join(lines, "\n")
	require.Equal(t, 1, strings.Count(text, "VIOLATION"))
	require.Contains(t, text, "sgd at n = 1")
	require.Contains(t, text, "slope -0.500")
}

func TestFit(t *testing.T) {
	s := fitSlope([]float64{1, 2, 4}, [][]float64{{8, 8}, {4, 4}, {2, 2}})
	require.InDeltaSlice(t, []float64{-1, -1, -1}, []float64{s.Slope, s.Low, s.High}, 1e-12)
	s = fitSlope([]float64{1, 2}, [][]float64{{1, 4}, {1, 4}})
	require.InDelta(t, 0, s.Slope, 1e-12)
	// Each geometric mean is 1, 2 or 4: slopes −2 and 2 have probability 1/16.
	require.Equal(t, []float64{-2, 2}, []float64{math.Round(s.Low), math.Round(s.High)})
}

// The excess of each family against a mean over fresh records, and its least
// value.
func TestPopulations(t *testing.T) {
	src := rand.New(noise.Reproducible(1))
	const d, n = 4, 200000
	for _, family := range families {
		p := populationParams{Family: family, sizes: sizes{N: 1000, D: d, Epsilon: 1}, Delta: 1e-6, Signal: 1}
		pop := p.population()
		w, best := make([]float64, d), make([]float64, d)
		noise.Normal(w, 0.3, src)
		switch family { // the minimizer
		case "linear":
			for j := range best {
				best[j] = 0.5
			}
		case "absolute":
			for j := range best {
				best[j] = 0.25
			}
		case "logistic":
			for j := range best {
				best[j] = []float64{2, -2}[j%2]
			}
		}
		require.InDelta(t, 0, pop.excess(best), 1e-15, family)
		a := make([]float64, d)
		sum, squares := 0.0, 0.0
		for range n {
			b := pop.draw(a, src)
			require.LessOrEqual(t, floats.Norm(a, 2), pop.bounds.Row*(1+1e-12))
			require.LessOrEqual(t, math.Abs(b), pop.bounds.Label)
			v := pop.loss.Func(w, a, b) - pop.loss.Func(best, a, b)
			sum += v
			squares += v * v
		}
		mean := sum / n
		se := math.Sqrt((squares/n - mean*mean) / n)
		require.InDelta(t, mean, pop.excess(w), 5*se, family) // 5 standard errors: 6e-7
		require.Positive(t, pop.excess(w))
	}
}

// The values of another implementation, 16 digits.
func TestGoldenRisk(t *testing.T) {
	pop := onehot(4) // w* = ¼ in each coordinate
	w := []float64{0, 0.3, -0.7, 1.5}
	floats.AddConst(0.25, w)
	require.InEpsilon(t, 0.37722404701574264, pop.excess(w), 1e-13)
}

func TestLinearLoss(t *testing.T) {
	a, theta, g := []float64{1, -2}, []float64{3, 4}, make([]float64, 2)
	linearLoss{}.Grad(g, theta, a, 0.5)
	require.Equal(t, []float64{-0.5, 1}, g)
	require.Equal(t, floats.Dot(g, theta), linearLoss{}.Func(theta, a, 0.5))
	phi, slope, curvature := linearLoss{}.Scalar(floats.Dot(a, theta), 0.5, 1)
	require.Equal(t, []float64{floats.Dot(g, theta), -0.5, 0}, []float64{phi, slope, curvature})
	require.Equal(t, 6.0, linearLoss{}.Constants(loss.Bounds{Row: 2, Label: 3}, 1).Lipschitz)
	require.Zero(t, linearLoss{}.Constants(loss.Bounds{}, 1))
}

func TestPopulationBadUse(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-eps", "-1"}, "-eps"},
		{[]string{"-delta", "0"}, "-delta"},
		{[]string{"-n", "1", "-sweep", "d"}, "-n"},
		{[]string{"-n", "100"}, "-n"},
		{[]string{"-eps", "1", "-sweep", "eps"}, "-eps"},
		{[]string{"-d", "-1"}, "-d"},
		{[]string{"-values", "1,x"}, "-values"},
		{[]string{"-sweep", "eps", "-values", "0"}, "-values"},
		{[]string{"-family", "cubic"}, "-family"},
		{[]string{"-family", "logistic", "-d", "17"}, "want at most 16"},
		{[]string{"-family", "absolute", "-signal", "2"}, "-signal"},
		{[]string{"-regime", "x"}, "-regime"},
		{[]string{"-methods", "adam"}, "-methods"},
		{[]string{"-methods", "lop"}, "objpert"},
		{[]string{"-runs", "0"}, "-runs"},
		{[]string{"-n", "10000000", "-d", "5000", "-sweep", "eps"}, "2e8"},
		{[]string{"-test", "x"}, "-test"},
		{[]string{"-radius", "3"}, "-radius"},
		{[]string{"-data", "nowhere"}, "-test"},
		{[]string{"-data", "nowhere", "-test", "nowhere"}, "-data"},
		{[]string{"-data", "nowhere", "-test", "x", "-family", "linear"}, "-family"},
		{[]string{"-data", "nowhere", "-test", "x", "-methods", "svrg"}, "svrg"},
		{[]string{"-data", "nowhere", "-test", "x", "-values", "-1"}, "-values"},
	} {
		code, out, errs := callPopulation(t, append(c.args, "-out", filepath.Join(t.TempDir(), "x"))...)
		exit := sweep.ExitUsage
		if strings.Contains(errs, "no such file") {
			exit = 1
		}
		require.Equal(t, exit, code, "%v: %s", c.args, errs)
		require.Contains(t, errs, c.want, "%v", c.args)
		require.Equal(t, 1, strings.Count(errs, "\n"), "%v: one line: %s", c.args, errs)
		require.Empty(t, out)
	}
	// A condition of a theorem: no smooth method takes a loss with kinks.
	code, _, errs := callPopulation(t, "-family", "absolute", "-methods", "objpert", "-out", t.TempDir())
	require.Equal(t, sweep.ExitCondition, code, errs)
}

// With a seed nothing depends on workers.
func TestPopulationSameNumbers(t *testing.T) {
	table := func(workers string) string {
		dir := t.TempDir()
		code, out, errs := callPopulation(
			t,
			"-d",
			"3",
			"-values",
			"100,200,400",
			"-runs",
			"3",
			"-seed",
			"4",
			"-workers",
			workers,
			"-out",
			dir,
		)
		require.Zero(t, code, errs)
		return out
	}
	require.Equal(t, table("1"), table("5"))
}

func TestPopulationInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	require.Equal(t, sweep.ExitInterrupted, Population(ctx, []string{"-out", t.TempDir()}, &out, &errs), errs.String())
}

// Test accuracy on Adult with every parameter fixed: 30162 records to fit, 15060
// to measure, one-hot columns, rows within norm 1, δ = 1/n².
func TestPopulationAdult(t *testing.T) {
	dir := os.Getenv("PRIVOPT_DATA")
	if dir == "" {
		t.Skip("set PRIVOPT_DATA to the folder that holds adult/adult.data")
	}
	if testing.Short() {
		t.Skip("120 fits to 30162 records")
	}
	out := t.TempDir()
	code, _, errs := callPopulation(
		t,
		"-data",
		filepath.Join(dir, "adult", "adult.data"),
		"-test",
		filepath.Join(dir, "adult", "adult.test"),
		"-methods",
		"lop",
		"-values",
		"0.1,1",
		"-runs",
		"30",
		"-seed",
		"1",
		"-out",
		out,
	)
	require.Zero(t, code, errs)
	text, err := os.ReadFile(filepath.Join(out, "accuracy.csv"))
	require.NoError(t, err)
	want := map[string]float64{"lop 0.1": 0.79, "lop 1": 0.83, "lop-addremove 0.1": 0.81, "lop-addremove 1": 0.835}
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
		f := strings.Split(line, ",")
		mean, err := strconv.ParseFloat(f[len(f)-5], 64)
		require.NoError(t, err)
		t.Logf("%s at eps = %s: %.4f (±%s)", f[len(f)-7], f[len(f)-8], mean, f[len(f)-3])
		require.GreaterOrEqual(t, mean, want[f[len(f)-7]+" "+f[len(f)-8]], line)
		delete(want, f[len(f)-7]+" "+f[len(f)-8])
	}
	require.Empty(t, want)
}

// A small file in the format of Adult goes through every method.
func TestAdultMethods(t *testing.T) {
	src := rand.New(noise.Reproducible(2))
	write := func(n int) string {
		var b bytes.Buffer
		for range n {
			rich := src.IntN(2)
			for i, a := range adult.Attributes {
				if a.Levels != nil {
					b.WriteString(a.Levels[(rich+i+src.IntN(2))%(len(a.Levels))])
				} else {
					b.WriteString(strconv.FormatInt(src.Int64N(int64(*a.Max)), 10))
				}
				b.WriteString(", ")
			}
			b.WriteString([]string{"<=50K\n", ">50K\n"}[rich])
		}
		path := filepath.Join(t.TempDir(), "adult")
		require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
		return path
	}
	dir := t.TempDir()
	code, out, errs := callPopulation(
		t,
		"-data",
		write(500),
		"-test",
		write(200),
		"-values",
		"2",
		"-delta",
		"1e-5",
		"-runs",
		"2",
		"-seed",
		"1",
		"-out",
		dir,
	)
	require.Zero(t, code, errs)
	for _, m := range adultMethods {
		require.Contains(t, out, m+"-addremove")
		require.Contains(t, errs, m+" at eps = 2: accuracy")
	}
	require.Contains(t, populationResults(t, dir).NotPrivate, "computed from the records")
}
