// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFitText: a fit says on two lines what it released and what is next, and with -v why.
func TestFitText(t *testing.T) {
	at := folder(t)
	t.Chdir(at(""))
	fit := func(more ...string) string {
		code, out, errs := call(t, "", append([]string{"fit", "--schema", "people.json", "--data", "people.csv", "--epsilon",
			"2", "--delta", "0.00123456", "--force", "--out", "m.json"}, more...)...)
		require.Zero(t, code, errs)
		return out
	}
	require.Regexp(t, `^m\.json: logistic model with \d parameters; cost ε = 2, δ = (0|0\.00124)\n`+
		`next: privopt explain m\.json; privopt predict --model m\.json --data FILE\n$`, fit())
	require.Contains(t, fit("-v"), "  plan     ")
	require.Contains(t, fit("--verbose"), "  privacy  ")
	require.Equal(t, "<1e-16", pValue(0))
	require.Equal(t, "0.05", pValue(0.05))
}

// TestForesee: plan, and fit before it reads the table, warn of a fit of which nothing useful is to
// be expected, whatever plan it has, and do not warn of others.
func TestForesee(t *testing.T) {
	at := folder(t)
	persons := strings.Replace(people, `"intercept"`, `"person": "who", "rows": 2, "intercept"`, 1)
	persons = strings.Replace(persons, `"records": 400`, `"records": 1000`, 1)
	many := strings.Replace(people, `"records": 400`, `"records": 1000`, 1)
	for _, c := range []struct {
		schema, who string
		flags       []string
	}{
		{many, "1,000 records", nil},
		{many, "1,000 records", []string{"--intervals"}},
		{many, "1,000 records", []string{"--loss", "svm"}},
		{many, "1,000 records", []string{"--lasso", "0.001"}},
		{many, "1,000 records", []string{"--delta", "0"}},
		{persons, "1,000 people", nil},
	} {
		require.NoError(t, os.WriteFile(at("s.json"), []byte(c.schema), 0o600))
		for _, epsilon := range []string{"0.02", "3"} {
			warning := "warning: " + c.who + " at ε = " + epsilon + ": expect nothing useful, because"
			args := append([]string{"--schema", at("s.json"), "--epsilon", epsilon}, c.flags...)
			code, out, errs := call(t, "", append([]string{"plan"}, args...)...)
			require.Zero(t, code, errs)
			require.Equal(t, epsilon != "3", strings.Contains(flat(out), warning), "%v %s", c.flags, out)
			code, _, errs = call(t, "", append([]string{"fit", "--data", at("none.csv"), "--out", at("n.json")}, args...)...)
			require.Equal(t, 1, code, errs)
			require.Equal(t, epsilon != "3", strings.HasPrefix(flat(errs), warning), "%v %s", c.flags, errs)
			require.Equal(t, epsilon != "3", strings.Contains(flat(errs), "would be enough, or ε ≥ "), errs)
		}
	}
	// A fit that may be useful, but whose intervals are not.
	require.NoError(t, os.WriteFile(at("s.json"), []byte(many), 0o600))
	args := []string{"--schema", at("s.json"), "--epsilon", "1", "--intervals"}
	const weak = "warning: at ε = 1 expect 4 of 4 coefficients to be weak"
	_, out, _ := call(t, "", append([]string{"plan"}, args...)...)
	require.Contains(t, flat(out), weak)
	_, _, errs := call(t, "", append([]string{"fit", "--data", at("none.csv"), "--out", at("n.json")}, args...)...)
	require.True(t, strings.HasPrefix(flat(errs), weak), errs)
}
