// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp/ledger"
)

// unknownTable has a number, a category, an identifier and a label of two classes.
func unknownTable(n int) string {
	rnd := rand.New(rand.NewPCG(1, 1))
	var b strings.Builder
	b.WriteString("age,city,name,income\n")
	for i := range n {
		age, y := 20+rnd.IntN(40), "low"
		if rnd.IntN(60) < age-10 {
			y = "high"
		}
		fmt.Fprintf(&b, "%d,%s,s3cret%d,%s\n", age, []string{"Rome", "Oslo"}[rnd.IntN(2)], i, y)
	}
	return b.String()
}

// TestPrivateSchemaRefuses: nothing is spent, written or shown.
func TestPrivateSchemaRefuses(t *testing.T) {
	at := folder(t)
	text := unknownTable(400)
	require.NoError(t, os.WriteFile(at("t.csv"), []byte(text), 0o600))
	header, rest, _ := strings.Cut(text, "\n")
	require.NoError(t, os.WriteFile(at("bare.csv"), []byte(rest), 0o600))
	require.NoError(t, os.WriteFile(at("header.csv"), []byte(header+"\n"), 0o600))
	for _, c := range []struct {
		want string
		code int
		args []string
	}{
		{"needs --label", exitUsage, []string{"schema", "--private", at("t.csv"), "--epsilon", "1"}},
		{"with 400 records, 4 columns", exitRefused, []string{"schema", "--private", at("t.csv"), "--label",
			"income", "--epsilon", "0.1"}},
		{"none of its 4 fields is the label", exitUsage, []string{"schema", "--private", at("bare.csv"), "--label", "income",
			"--epsilon", "9"}},
		{"header.csv has no records", exitUsage, []string{"schema", "--private", at("header.csv"), "--label", "income",
			"--epsilon", "9", "--records", "400"}},
		{"state --records N", exitUsage, []string{"schema", "--private", at("t.csv"), "--label", "income", "--epsilon", "9",
			"--neighbors", "add-remove"}},
		{"want --public FILE", exitUsage, []string{"schema", "--private", at("t.csv"), "--public", at("t.csv")}},
		{"needs --schema FILE, or --label", exitUsage, []string{"fit", "--data", at("t.csv"), "--epsilon", "1",
			"--out", at("m")}},
		{"for a fit without --schema", exitUsage, []string{"fit", "--schema", at("people.json"), "--data", at("people.csv"),
			"--epsilon", "1", "--out", at("m"), "--label", "income"}},
	} {
		code, out, errs := call(t, "", c.args...)
		require.Equal(t, c.code, code, errs)
		require.Contains(t, errs, c.want)
		require.Empty(t, out)
		require.NotContains(t, errs, "s3cret")
		require.NoFileExists(t, at("m"))
	}
}

// TestSearchPeople: --person and --rows, or a partial schema, protect persons in a search and
// in a fit without a schema, and a ledger of records refuses both before anything is spent.
func TestSearchPeople(t *testing.T) {
	at := folder(t)
	lines := strings.Split(strings.TrimSpace(unknownTable(9000)), "\n")
	for i, l := range lines[1:] {
		lines[1+i] = fmt.Sprintf("p%d,%s", i%3000, l)
	}
	lines[0] = "who," + lines[0]
	require.NoError(t, os.WriteFile(at("t.csv"), []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	require.NoError(t, os.WriteFile(at("part.json"), []byte(`{"schema": 1, "person": "who", "rows": 2, `+
		`"label": {"column": "income"}}`), 0o600))
	for name, more := range map[string][]string{"r": nil, "p": {"--persons"}} {
		args := append([]string{"ledger", "create", at(name), "--epsilon", "9", "--delta", "1e-5"}, more...)
		code, _, errs := call(t, "", args...)
		require.Equal(t, 0, code, errs)
	}
	search := []string{"schema", "--private", at("t.csv"), "--label", "income", "--epsilon", "2", "--ignore", "name"}
	fit := []string{"fit", "--data", at("t.csv"), "--label", "income", "--task", "two-classes", "--epsilon", "3",
		"--ignore", "name"}
	flags, partial := []string{"--person", "who", "--rows", "2"}, []string{"--partial", at("part.json")}
	for i, args := range [][]string{slices.Concat(search, flags), slices.Concat(search, partial),
		slices.Concat(fit, flags)} {
		args = append(args, "--out", at(fmt.Sprint("out", i)))
		code, _, errs := call(t, "", append(args, "--ledger", at("r"))...)
		require.NotEqual(t, 0, code, errs)
		require.Contains(t, errs, "person")
		require.NoFileExists(t, at(fmt.Sprint("out", i)))
		code, out, errs := call(t, "", append(args, "--ledger", at("p"))...)
		require.Equal(t, 0, code, errs)
		require.Contains(t, strings.Join(strings.Fields(out+errs), " "),
			"for all lines of one person, of which at most 2 count")
		require.Contains(t, flat(errs), "1/n₀² for 3,000 people")
		require.Contains(t, must(os.ReadFile(at(fmt.Sprint("out", i)))), `"person": "who"`)
	}
	l, err := ledger.Open(at("r"))
	require.NoError(t, err)
	require.Empty(t, l.Entries())
	code, out, errs := call(t, "", "explain", at("out2"))
	require.Equal(t, 0, code, errs)
	require.Contains(t, flat(out), "all lines of one person")
	code, _, errs = call(t, "", append(search, "--person", "who")...)
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs, "rows: not declared")
}
