// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package experiment

import (
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/internal/testkit"
)

// measured runs an experiment with seed 1.
func measured(t *testing.T, e *sweep.Experiment) []sweep.Result {
	t.Helper()
	seed := uint64(1)
	o := &sweep.Options{Seed: &seed, Out: t.TempDir(), Formats: []string{"csv"}, Quiet: true}
	results, err := e.Run(t.Context(), o, io.Discard, io.Discard)
	require.NoError(t, err)
	require.Len(t, results, len(e.Values)*len(e.Methods))
	return results
}

// mean returns the mean of a cell.
func mean(t *testing.T, results []sweep.Result, value float64, method string) float64 {
	t.Helper()
	for _, r := range results {
		if r.Value == value && r.Method == method {
			return r.Mean
		}
	}
	t.Fatalf("no cell %v %s", value, method)
	return 0
}

// before is the mean excess risk and its standard error at commit d0757b1, the last one
// with release noise in float64 and theorems lop.*/1.
var before = map[string][2]float64{
	"replace 0.1":    {0.11175, 0.00210},
	"replace 0.3":    {0.07047, 0.00119},
	"replace 1":      {0.04263, 0.00061},
	"add-remove 0.1": {0.08416, 0.00142},
	"add-remove 0.3": {0.05325, 0.00082},
	"add-remove 1":   {0.03253, 0.00038},
}

// TestAdult: the excess risk of default logistic regression is no larger than before,
// beyond two standard errors of the difference.
func TestAdult(t *testing.T) {
	if os.Getenv("PRIVOPT_DATA") == "" || testing.Short() {
		t.Skip("set PRIVOPT_DATA to the folder that holds adult/adult.data and adult/adult.test; 120 fits to 30162 records")
	}
	e, err := Adult(20, 0.1, 0.3, 1)
	require.NoError(t, err)
	for _, r := range measured(t, e) {
		key := fmt.Sprintf("%s %v", r.Method, r.Value)
		accuracy, ok := detail(r, "accuracy")
		require.True(t, ok)
		t.Logf("%-14s excess risk %.5f (%.5f), accuracy %.4f", key, r.Mean, r.StdErr, accuracy)
		require.LessOrEqual(t, r.Mean, before[key][0]+2*math.Hypot(r.StdErr, before[key][1]), key)
	}
}

// TestRace: automatic least squares loses no more of R² than its reference, on all sets of
// the race. PRIVOPT_RACE names the folder of these, as bench/race.py writes them;
// PRIVOPT_SEEDS is their number of seeds instead of 10.
func TestRace(t *testing.T) {
	dir := os.Getenv("PRIVOPT_RACE")
	if dir == "" {
		t.Skip("PRIVOPT_RACE is not set: it names the folder that bench/race.py fills with the sets of the race")
	}
	seeds := 10
	if v, err := strconv.Atoi(os.Getenv("PRIVOPT_SEEDS")); err == nil {
		seeds = v
	}
	goals := map[float64]float64{0.1: 0.095, 0.3: 0.045, 1: 0.025, 3: 0.006}
	e, err := Race(dir, 0, seeds, RaceSets, 0.1, 0.3, 1, 3)
	require.NoError(t, err)
	for eps, cost := range lost(measured(t, e)) {
		t.Logf("ε = %-4g mean R² lost %.4f, goal %.3f", eps, cost, goals[eps])
		if cost > goals[eps] {
			t.Errorf("ε = %v: mean R² lost %v, want at most %v", eps, cost, goals[eps])
		}
	}
}

// Sets of the race that are not there, or are cut short, are errors.
func TestRaceFiles(t *testing.T) {
	dir := t.TempDir()
	_, err := Race(dir, 0, 1, RaceSets, 1)
	require.ErrorIs(t, err, sweep.ErrUsage)
	require.ErrorContains(t, err, "syn-1e3-5")
	for name, text := range map[string]string{"diabetes.shape": "3 2", "diabetes.X": "12345678"} {
		require.NoError(t, os.WriteFile(dir+"/"+name, []byte(text), 0o644))
	}
	e, err := Race(dir, 0, 1, []string{"diabetes"}, 1)
	require.NoError(t, err)
	_, err = e.Run(t.Context(), &sweep.Options{Out: t.TempDir(), Quiet: true}, io.Discard, io.Discard)
	require.ErrorContains(t, err, "8 bytes, want 48")
}

// lost is what privacy costs: min(1, R² of least squares − mean R²), averaged over
// the sets, for each ε.
func lost(results []sweep.Result) map[float64]float64 {
	sum, sets := map[float64]float64{}, map[float64]float64{}
	for _, r := range results {
		ols, _ := detail(r, "ols")
		sum[r.Value] += min(1, ols-r.Mean)
		sets[r.Value]++
	}
	for eps := range sum {
		sum[eps] /= sets[eps]
	}
	return sum
}

func TestLost(t *testing.T) {
	cell := func(eps, r2, ols float64) sweep.Result {
		return sweep.Result{Value: eps, Mean: r2, Detail: []byte(fmt.Sprintf(`{"ols": %v}`, ols))}
	}
	got := lost([]sweep.Result{cell(1, 0.5, 0.75), cell(1, -7, 0.75), cell(3, 0.75, 0.5)})
	require.Equal(t, map[float64]float64{1: (0.25 + 1) / 2, 3: -0.25}, got)
}

// TestCoverage: intervals of 95 % cover, and do not without the variance of the noise or
// without debiasing.
func TestCoverage(t *testing.T) {
	results := measured(t, Coverage(testkit.Of(75, 400), 2000, 0.5))
	for _, r := range results {
		weak, _ := detail(r, "weak")
		t.Logf("%s: covered %.3f, weak %.3f", r.Method, r.Mean, weak)
	}
	require.InDelta(t, 0.95, mean(t, results, 0.5, wholeInterval), 0.03)
	require.Less(t, mean(t, results, 0.5, noNoise), 0.92)
	require.Less(t, mean(t, results, 0.5, noDebiased), 0.92)
}

// TestScores: intervals of private scores cover, of records and of people, also for pairs of
// models.
func TestScores(t *testing.T) {
	for _, persons := range []bool{false, true} {
		e := Scores(persons, testkit.Of(25, 300), 0, testkit.Of(100_000, 1_000_000))
		e.Values, e.Methods = e.Values[:1], testkit.Every(3, e.Methods)
		for _, r := range measured(t, e) {
			t.Logf("%s: %.3f", r.Method, r.Mean)
			// The four metrics of a run depend on one another, so their share varies like that of half as
			// many; 5 of its deviations.
			require.InDelta(t, 0.95, r.Mean, 5*math.Sqrt(0.95*0.05/float64(r.Runs)))
			se, _ := detail(r, "accuracy se")
			sd, _ := detail(r, "accuracy sd")
			require.InEpsilon(t, sd, se, testkit.Of(0.6, 0.2), "stated and actual errors of accuracy")
		}
	}
}

// TestCovers: an interval that is the whole line holds every number.
func TestCovers(t *testing.T) {
	require.True(t, covers(true, 0, 0, 0.4), "unidentified")
	require.True(t, covers(false, 0.3, 0.1, 0.4-1e-9))
	require.False(t, covers(false, 0.3, 0.1, 0.41))
}

// TestLowBits: sums of floats name the data set, and never the wrong one; what is released
// names the wrong one as often as ε = 1 asks, but for 6 standard errors.
func TestLowBits(t *testing.T) {
	const runs = 1000
	for _, r := range measured(t, LowBits(runs, 1, 20)) {
		right, _ := detail(r, "right")
		wrong, _ := detail(r, "wrong")
		require.InDelta(t, right-wrong, r.Mean, 1e-12)
		if r.Method == floatNoise {
			require.Zero(t, wrong)
			require.Greater(t, right, map[float64]float64{1: 0.05, 20: 0.5}[r.Value])
			continue
		}
		require.LessOrEqual(t, runs*right, math.E*runs*wrong+6*math.Sqrt(1+runs*right), "d = %v", r.Value)
	}
}

// TestCalibrations: no noise of ours is above the repaired one; where published noise is
// below ours, no more than a larger ε is proved for it.
func TestCalibrations(t *testing.T) {
	const eps = 0.5
	results := measured(t, Calibrations(5, eps))
	at := func(m string) float64 { return mean(t, results, eps, m) }
	require.GreaterOrEqual(t, at("qop/published"), at("qop/repaired"))
	for _, m := range []string{"qop/ours, any loss", "qop/ours, generalized linear", "qop/ours"} {
		require.Less(t, at(m), at("qop/repaired"), m)
	}
	require.Less(t, at("lop/ours"), at("lop/repaired"))
	for _, r := range results {
		proved, ok := detail(r, "proved")
		switch r.Method {
		case "qop/published", "lop/published":
			require.False(t, ok)
		case "opdisc/published", "sgd, n = 100/published":
			require.Greater(t, proved, eps, r.Method)
		case "sgd/published":
			require.Positive(t, proved)
		default:
			require.InEpsilon(t, eps, proved, 1e-6, r.Method)
		}
	}
}

// TestPasses: cells of two sizes and the slope through exact points.
func TestPasses(t *testing.T) {
	for _, r := range append(measured(t, Passes(2, 3, false, 100, 1000)), measured(t, Passes(2, 3, true, 100, 9000))...) {
		s, ok := detail(r, "least")
		require.True(t, ok)
		require.Positive(t, s)
		require.LessOrEqual(t, s, r.Mean)
		s, ok = detail(r, "cpu")
		require.True(t, ok)
		require.GreaterOrEqual(t, s, 0.0)
	}
	var exact []sweep.Result
	x, y := []float64{1, 2, 4}, []float64{3, 12, 48}
	for i := range x {
		exact = append(exact, sweep.Result{Value: x[i], Method: "m", Detail: []byte(fmt.Sprintf(`{"cpu": %v}`, y[i]))})
	}
	require.InDelta(t, 2, secondsSlope(exact, "m"), 1e-12)
}

// Without data an experiment says which variable is missing.
func TestNoData(t *testing.T) {
	t.Setenv("PRIVOPT_DATA", "")
	_, err := Adult(1, 1)
	require.ErrorIs(t, err, sweep.ErrUsage)
	require.ErrorContains(t, err, "PRIVOPT_DATA")
	t.Setenv("PRIVOPT_DATA", t.TempDir())
	_, err = Adult(1, 1)
	require.ErrorIs(t, err, os.ErrNotExist)
}
