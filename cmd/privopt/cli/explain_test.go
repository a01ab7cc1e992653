// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/model/score"
)

// TestStrength: the explanation calls the best test that a budget allows what it is.
func TestStrength(t *testing.T) {
	for eps, want := range map[float64]string{0.1: "is weak", 1: "is weak", 2: "is better than guessing",
		3: "may be strong",
		5: "may be almost certain", 10: "may be almost certain", 1000: "may be almost certain"} {
		require.Contains(t, strength(dp.Budget{Epsilon: eps}), want, eps)
	}
	require.Contains(t, strength(dp.Budget{Epsilon: 0.1, Delta: 0.9}), "may be")
	at := folder(t)
	for eps, want := range map[string]string{"1": "in the model is weak:",
		"10": "may be almost certain, as this ε protects"} {
		code, _, errs := call(t, "", "fit", "--schema", at("people.json"), "--data", at("people.csv"), "--epsilon", eps,
			"--out", at(eps))
		require.Equal(t, 0, code, errs)
		_, out, _ := call(t, "", "explain", at(eps))
		require.Contains(t, strings.Join(strings.Fields(out), " "), want)
	}
}

// TestLooseBudgets: every command that plans or spends a budget warns of one that protects little,
// and of no other.
func TestLooseBudgets(t *testing.T) {
	at := folder(t)
	code, _, errs := call(t, "", "fit", "--schema", at("people.json"), "--data", at("people.csv"), "--epsilon", "2",
		"--out", at("m.json"))
	require.Equal(t, 0, code, errs)
	for _, line := range []string{
		"fit --schema people.json --data people.csv --out o",
		"fit --data people.csv --label pays --task two-classes --out o",
		"schema --private people.csv --label pays --out o",
		"plan --schema people.json",
		"score --model m.json --data people.csv",
	} {
		for budget, want := range map[string]string{
			"--epsilon 1000 --delta 1e-6": "warning: ε = 1000 protects little: a test with 5 % false alarms may detect one " +
				"record in 100.0 % of the cases.",
			"--epsilon 3 --delta 1e-4": "warning: δ = 0.0001 is more than 0.01/n₀ for 400 records: with this probability",
			"--epsilon 3 --delta 1e-6": "",
		} {
			t.Chdir(at(""))
			os.Remove("o")
			code, _, errs := call(t, "", strings.Fields(line+" "+budget)...)
			require.Contains(t, []int{0, 3}, code, errs) // 3: by its noise, a search may find nothing
			text := strings.Join(strings.Fields(errs), " ")
			if want == "" {
				require.NotContains(t, text, "warning", line)
			} else {
				require.Contains(t, text, want, line)
			}
		}
	}
}

// TestBaselines: the baseline of a private score is that of a model which says the same of every
// record, and a report shows the numbers of the terminal.
func TestBaselines(t *testing.T) {
	s := &score.Scores{Confusion: [][]score.Metric{{{Value: 60}, {Value: 15}}, {{Value: 5}, {Value: 20}}}}
	got := baselinesOf(s)
	require.InDelta(t, 0.75, got["accuracy"], 1e-12)
	require.InDelta(t, 0.5, got["balanced"], 1e-12)
	require.InDelta(t, 0.5623351446188083, got["log loss"], 1e-12)
	s = &score.Scores{Metrics: []score.Metric{{Name: "RMSE", Value: 3}, {Name: "R²", Value: 0.64}}}
	require.InDelta(t, 5, baselinesOf(s)["RMSE"], 1e-12)
	at := folder(t)
	t.Chdir(at(""))
	for _, line := range []string{
		"fit --schema people.json --data people.csv --epsilon 2 --out m.json",
		"score --model m.json --data people.csv --epsilon 2 --out s.json",
		"report --model m.json --score s.json --out r.html",
	} {
		code, out, errs := call(t, "", strings.Fields(line)...)
		require.Equal(t, 0, code, errs)
		if !strings.HasPrefix(line, "score") {
			continue
		}
		require.Contains(t, out, "baseline")
		for _, row := range strings.Split(out, "\n") {
			if cells := strings.Fields(row); len(cells) > 3 && cells[0] == "accuracy" {
				defer func() { require.Contains(t, must(os.ReadFile("r.html")), cells[1]+"\u00a0%") }()
			}
		}
	}
}
