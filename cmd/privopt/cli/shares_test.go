// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/table"
)

// TestShares checks that a public table that the schema misreads is not fitted or scored without a
// word, and that a private one is.
func TestShares(t *testing.T) {
	at := folder(t)
	put := func(name, text string) string {
		require.NoError(t, os.WriteFile(at(name), []byte(text), 0o600))
		return at(name)
	}
	schema := put("s.json", strings.NewReplacer(`"max": 80`, `"max": 80, "other": true`, `"records": 400`,
		`"records": 100`, `["no"]`, `["no"], "unknown": "negative"`).Replace(people))
	var good, commas, months strings.Builder
	for i := range 100 {
		label := []string{"no", "yes"}[i%2]
		fmt.Fprintf(&good, "%d,nurse,%s\n", 20+i%60, label)
		fmt.Fprintf(&commas, "\"%d,5\",surgeon,%s\n", 20+i%60, label)
		fmt.Fprintf(&months, "%d,?,%s\n", 12*(20+i%60), label)
	}
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"good": {good.String(), []string{"Every field has a value that the schema declares."}},
		"commas": {commas.String(), []string{
			`warning: age: 100.0 % of the fields are no numbers and count as missing: check "decimal" and`,
			`the first is "20,5"`,
			`warning: job: 100.0 % of the fields are not declared as levels and count as "other"; the first is "surgeon"`}},
		"months": {months.String(), []string{"age 0 100 (100.0 %) 0", "job 100 (100.0 %) 0 0",
			"warning: age: 100.0 % of the fields are outside the range", "warning: job: 100.0 % of the fields are missing"}},
	} {
		csv := put("t.csv", "age,job,pays\n"+c.text)
		fit := []string{"fit", "--schema", schema, "--data", csv, "--epsilon", "1", "--out", at("m.json"), "--force"}
		code, _, errs := call(t, "", append(fit, "--public")...)
		require.Equal(t, 0, code, errs)
		_, out, _ := call(t, "", "score", "--model", at("m.json"), "--data", csv, "--public")
		_, _, predicted := call(t, "", "predict", "--model", at("m.json"), "--data", csv, "--public")
		for _, want := range c.want {
			require.Contains(t, flat(errs), want, name)
			require.Contains(t, flat(out), want, name)
			require.Contains(t, flat(predicted), want, name)
		}
		require.NoError(t, os.Remove(at("m.json")))
		code, _, errs = call(t, "", fit...)
		require.Equal(t, 0, code)
		require.Empty(t, unforeseen(errs), "a message would reveal private rows")
		_, _, errs = call(t, "", "predict", "--model", at("m.json"), "--data", csv)
		require.Empty(t, errs)
		_, out, _ = call(t, "", "score", "--model", at("m.json"), "--data", csv)
		require.NotContains(t, out, "surgeon")
		_, out, errs = call(t, "", "score", "--model", at("m.json"), "--data", csv, "--epsilon", "1", "--delta", "1e-6")
		require.NotContains(t, out+errs, "warning: age")
		_, out, _ = call(t, "", "score", "--model", at("m.json"), "--data", csv, "--public", "--json")
		var scores struct{ Fields []table.ColumnTally }
		require.NoError(t, json.Unmarshal([]byte(out), &scores))
		require.Equal(t, []string{"age", "job", "pays"},
			[]string{scores.Fields[0].Name, scores.Fields[1].Name, scores.Fields[2].Name})
	}
}

// TestSharesOfPersons: lines of a public table that count nowhere are counted, and numbers in the
// outer bins are no reason for a warning.
func TestSharesOfPersons(t *testing.T) {
	at := folder(t)
	schema := strings.NewReplacer(`"columns"`, `"person": "who", "rows": 3, "columns"`,
		`"max": 80`, `"max": 80, "bins": [40, 60]`).Replace(people)
	require.NoError(t, os.WriteFile(at("s.json"), []byte(schema), 0o600))
	text := "age,job,pays,who\n" + strings.Repeat("90,nurse,yes,a\n10,nurse,no,b\n", 5) + "30,nurse,no,\n"
	require.NoError(t, os.WriteFile(at("t.csv"), []byte(text), 0o600))
	code, _, errs := call(t, "", "pack", "--schema", at("s.json"), "--data", at("t.csv"), "--out", at("t.npy"), "--public")
	require.Equal(t, 0, code, errs)
	require.Contains(t, flat(errs), "Every field has a value that the schema declares. Of 11 lines, 1 line without an id "+
		"and 4 lines beyond the 3 of a person count nowhere.")
}

// flat joins lines that were wrapped.
func flat(s string) string { return strings.Join(strings.Fields(s), " ") }

// unforeseen returns messages without the forecast that nothing useful is to be expected, which
// follows from the schema and the budget alone.
func unforeseen(messages string) string { return foreseen.ReplaceAllString(messages, "") }

var foreseen = regexp.MustCompile(`(?s)^warning: [0-9,]+ (records|people) at ε = [^:]*: expect nothing useful.*?\.\n`)
