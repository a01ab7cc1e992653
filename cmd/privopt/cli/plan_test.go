// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPlanOfRareClass: a plan forecasts the coefficients for two shares of positive labels, and
// --rate takes another one. Noise moves those of a rare class more.
func TestPlanOfRareClass(t *testing.T) {
	at := folder(t)
	read := func(more ...string) (p planned) {
		code, out, errs := call(t, "", append([]string{"plan", "--schema", at("people.json"), "--epsilon", "20", "--json"},
			more...)...)
		require.Equal(t, 0, code, errs)
		require.NoError(t, json.Unmarshal([]byte(out), &p))
		return p
	}
	usual, rare := read(), read("--rate", "0.1")
	for i, c := range usual.Coefficients {
		require.Equal(t, c.Rare, rare.Coefficients[i].Deviation, c.Name)
		require.Zero(t, rare.Coefficients[i].Rare)
		if c.Deviation > 0 && c.Name != "(intercept)" {
			require.Greater(t, c.Rare, 1.2*c.Deviation, c.Name)
		}
	}
	_, out, _ := call(t, "", "plan", "--schema", at("people.json"), "--epsilon", "20")
	require.Contains(t, flat(out), "if half of the labels are yes (--rate states another share)")
	require.Contains(t, flat(out), "if 10 % are yes")
	_, out, _ = call(t, "", "plan", "--schema", at("people.json"), "--epsilon", "20", "--rate", "0.02")
	require.Contains(t, flat(out), "if 2 % of the labels are yes")
	squares := strings.Replace(people, `"positive": ["yes"], "negative": ["no"]`, `"min": 0, "max": 1`, 1)
	require.NoError(t, os.WriteFile(at("number.json"), []byte(squares), 0o600))
	code, _, errs := call(t, "", "plan", "--schema", at("number.json"), "--epsilon", "20", "--rate", "0.02")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs, "--rate is for logistic regression of two classes, not for squares")
	for _, rate := range []string{"2", "-0.1", "1e-9"} {
		code, _, errs := call(t, "", "plan", "--schema", at("people.json"), "--epsilon", "20", "--rate", rate)
		require.Equal(t, exitUsage, code)
		require.Contains(t, errs, "want 0, or the share of positive labels in [0.001, 0.999]")
	}
}

// TestPlanOfBudgets: the table of other budgets has less noise at a larger ε, in every column.
func TestPlanOfBudgets(t *testing.T) {
	at := folder(t)
	text := `{"schema": 1, "records": 6000, "intercept": true, "label": {"column": "cost", "min": 0, "max": 50000},
		"columns": [{"name": "age", "min": 18, "max": 90}, {"name": "smoker", "levels": ["no", "yes"]}]}`
	require.NoError(t, os.WriteFile(at("cost.json"), []byte(text), 0o600))
	code, out, errs := call(t, "", "plan", "--schema", at("cost.json"), "--epsilon", "1", "--json")
	require.Equal(t, 0, code, errs)
	var p planned
	require.NoError(t, json.Unmarshal([]byte(out), &p))
	require.Len(t, p.Budgets, 3)
	for i, f := range p.Budgets[1:] {
		require.Less(t, *f.Prediction, *p.Budgets[i].Prediction)
		require.Less(t, *f.Lost, *p.Budgets[i].Lost)
		require.Less(t, *f.Records, *p.Budgets[i].Records)
	}
}
