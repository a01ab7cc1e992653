// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"encoding/csv"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPersons follows data of 400 people with three lines each through all commands: texts tell the
// number of people and never that of lines, and a ledger is about people or about records.
func TestPersons(t *testing.T) {
	at := folder(t)
	form := strings.Replace(people, `"intercept"`, `"person": "who", "rows": 2, "intercept"`, 1)
	require.NoError(t, os.WriteFile(at("who.json"), []byte(form), 0o600))
	for _, n := range []string{"500", "10"} {
		other := strings.Replace(form, `"records": 400`, `"records": `+n, 1)
		require.NoError(t, os.WriteFile(at(n+".json"), []byte(other), 0o600))
	}
	squares := strings.Replace(form, `{"column": "pays", "positive": ["yes"], "negative": ["no"]}`,
		`{"column": "age", "min": 20, "max": 80}`, 1)
	squares = strings.Replace(squares, `{"name": "age", "min": 20, "max": 80}`,
		`{"name": "pays", "levels": ["yes", "no"]}`, 1)
	require.NoError(t, os.WriteFile(at("age.json"), []byte(squares), 0o600))
	var table strings.Builder
	for i, line := range strings.Split(strings.TrimSpace(rows(1200, true)), "\n") {
		id := "who"
		if i > 0 {
			id = fmt.Sprint("p", i%400)
		}
		fmt.Fprintf(&table, "%s,%s\n", id, line)
	}
	require.NoError(t, os.WriteFile(at("who.csv"), []byte(table.String()), 0o600))
	texts := ""
	ok := func(args ...string) string {
		t.Helper()
		code, out, errs := call(t, "", args...)
		require.Equal(t, 0, code, errs)
		texts += out + errs
		return strings.Join(strings.Fields(out), " ")
	}
	bad := func(code int, want string, args ...string) {
		t.Helper()
		got, _, errs := call(t, "", args...)
		require.Equal(t, code, got, errs)
		require.Contains(t, errs, want)
	}

	require.Contains(t, ok("ledger", "create", at("l"), "--epsilon", "8", "--delta", "1e-4", "--persons"),
		"replace neighbors that differ in all lines of one person")
	ok("ledger", "create", at("records"), "--epsilon", "8", "--delta", "1e-4")
	fit := func(schema, out string, more ...string) []string {
		return append([]string{"fit", "--schema", at(schema), "--data", at("who.csv"), "--epsilon", "1", "--out", at(out),
			"-v"}, more...)
	}
	const about = "for all lines of one person, of which at most 2 count"
	out := ok(fit("who.json", "m.json", "--ledger", at("l"))...)
	require.Contains(t, out, "1/n₀² for the 400 people that the schema declares")
	require.Contains(t, out, about)
	require.Contains(t, ok(fit("age.json", "age.json.model", "--ledger", at("l"), "--intervals")...), about)
	require.Contains(t, ok("ledger", "verify", at("l"), at("m.json"), at("age.json.model")), "2 entries")
	out = ok("ledger", "show", at("l"), "-v")
	require.NotContains(t, out, "gaussian")
	require.Contains(t, out, "Rényi divergence")
	read := texts
	require.Contains(t, ok("plan", "--schema", at("age.json"), "--epsilon", "1"), "enough people")
	texts = read // a plan reads no table: its numbers of people are forecasts
	out = ok("explain", at("m.json"))
	require.Contains(t, out, "all lines of any one person; the number of persons is not protected")
	require.Contains(t, out, "differs from it in all lines of one person")
	require.Contains(t, out, "To each person, with all lines")
	require.NotContains(t, out, "each line is one record")
	out = ok("summary", at("age.json.model"))
	require.Contains(t, out, "describe the average person")
	code, _, note := call(t, "", "fit", "--schema", at("500.json"), "--data", at("who.csv"), "--epsilon", "1", "--out",
		at("500"))
	require.Equal(t, 0, code, note)
	require.Contains(t, strings.Join(strings.Fields(note), " "), "The schema declares 500 people; the table has 400, not "+
		"counting lines without an id. Under replace neighbors the number of people is public")
	texts += note
	code, _, errs := call(t, "", "fit", "--schema", at("10.json"), "--data", at("who.csv"), "--epsilon", "1",
		"--neighbors", "add-remove", "--out", at("x"))
	require.Equal(t, exitRefused, code, errs)
	require.Contains(t, errs, "more than 40 people")
	texts += errs
	require.NotContains(t, texts, "1,200")
	require.NotContains(t, texts, "1200")
	require.NotContains(t, texts, "400 records")

	require.Contains(t, ok("score", "--model", at("m.json"), "--data", at("people.csv")), "records 400 accuracy")

	// A table without ids is predicted and scored like any other.
	require.Contains(t, ok("predict", "--model", at("m.json"), "--data", at("new.csv")), "p(yes)")
	require.Contains(t, ok("score", "--model", at("m.json"), "--data", at("people.csv")), "accuracy")
	ok("pack", "--schema", at("people.json"), "--data", at("people.csv"), "--out", at("p.npy"))
	require.Contains(t, ok("score", "--model", at("m.json"), "--data", at("p.npy")), "accuracy")

	// A private score of people spends the ledger of people.
	out = ok("score", "--epsilon", "2", "--model", at("m.json"), "--data", at("who.csv"), "--ledger", at("l"))
	require.Contains(t, out, "people 400 value")
	everyone := "Every person counts 1: all its lines together, of which at most 2 count."
	require.Contains(t, out, everyone)
	lines := strings.SplitAfter(table.String(), "\n") // some people with two, the others with one
	require.NoError(t, os.WriteFile(at("two.csv"), []byte(strings.Join(lines[:501], "")), 0o600))
	out = ok("score", "--model", at("m.json"), "--data", at("two.csv")) // the same way
	require.Contains(t, out, everyone)
	require.Contains(t, out, "people 400 accuracy "+accuracyOfPeople(t, at))
	require.Contains(t, ok("ledger", "show", at("l"), "-v"), "model.score/1")
	require.Contains(t, ok("plan", "--score", "--model", at("m.json"), "--epsilon", "2", "--records", "400"),
		"to a score of 400 people")
	require.Contains(t, ok("score", "--epsilon", "2", "--model", at("m.json"), "--data", at("who.csv"), "--compare",
		at("m.json")), "accuracy difference")
	bad(exitRefused, "differ in one person, want one record", "score", "--epsilon", "2", "--model", at("m.json"), "--data",
		at("who.csv"), "--ledger", at("records"))
	bad(exitUsage, "no column", "score", "--epsilon", "2", "--model", at("m.json"), "--data", at("people.csv"))
	bad(exitUsage, "encodes rows in another way", "score", "--epsilon", "2", "--model", at("m.json"), "--data",
		at("p.npy"))

	bad(exitRefused, "is about neighbors that differ in one record, and a fit by this schema in one person",
		fit("who.json", "x", "--ledger", at("records"))...)
	bad(exitRefused, "is about neighbors that differ in one person, and a fit by this schema in one record",
		fit("people.json", "x", "--ledger", at("l"))...)
	bad(exitUsage, "encodes rows in another way",
		"fit", "--schema", at("who.json"), "--data", at("p.npy"), "--epsilon", "1", "--out", at("x"))
	require.NoFileExists(t, at("x"))

	// A ledger of persons knows of whom: the same lines under ids of visits are refused, for a fit, a
	// score and a search, and nothing is charged.
	require.Contains(t, ok("ledger", "show", at("l")), `by the ids of the column "who"`)
	require.Contains(t, ok("explain", at("m.json")), `A person is an id in the column "who".`)
	visits := strings.Replace(form, `"person": "who"`, `"person": "visit"`, 1)
	require.NoError(t, os.WriteFile(at("visit.json"), []byte(visits), 0o600))
	require.NoError(t, os.WriteFile(at("visit.csv"), []byte("visit"+strings.TrimPrefix(table.String(), "who")), 0o600))
	ok("fit", "--schema", at("visit.json"), "--data", at("visit.csv"), "--epsilon", "1", "--out", at("visit.model"))
	entries := strings.Count(string(must(os.ReadFile(at("l")))), `{"entry":`)
	for _, args := range [][]string{
		{"fit", "--schema", at("visit.json"), "--out", at("x")}, {"score", "--model", at("visit.model")},
		{"schema", "--label", "pays", "--person", "visit", "--rows", "2", "--out", at("x")},
	} {
		data := "--data"
		if args[0] == "schema" {
			data = "--private"
		}
		bad(exitRefused, `by the column "visit", and `+at("l")+` counts persons by the column "who"`,
			append(args, data, at("visit.csv"), "--epsilon", "2", "--delta", "1e-6", "--ledger", at("l"))...)
	}
	require.Equal(t, entries, strings.Count(string(must(os.ReadFile(at("l")))), `{"entry":`))
	require.NoFileExists(t, at("x"))

	// A packed file has the lines that count and no ids. Its models and scores are those of the table.
	form = strings.Replace(form, `"other": true`, `"other": true, "reference": "nurse"`, 1) // as for intervals
	require.NoError(t, os.WriteFile(at("packed.json"), []byte(form), 0o600))
	ok("pack", "--schema", at("packed.json"), "--data", at("who.csv"), "--out", at("w.npy"))
	of := func(data string, args []string) []string {
		args[slices.Index(args, "--data")+1] = at(data)
		return args
	}
	for _, more := range [][]string{nil, {"--intervals"}, {"--neighbors", "add-remove"}} {
		seeded := append([]string{"--seed", "3", "--force"}, more...)
		ok(fit("packed.json", "csv.model", seeded...)...)
		ok(of("w.npy", fit("packed.json", "npy.model", seeded...))...)
		require.Equal(t, string(must(os.ReadFile(at("csv.model")))), string(must(os.ReadFile(at("npy.model")))), "%v", more)
	}
	require.Contains(t, ok("score", "--model", at("npy.model"), "--data", at("w.npy")), "accuracy")
	require.Contains(t, ok("score", "--epsilon", "2", "--model", at("npy.model"), "--data", at("w.npy")),
		"people 400 value")
	bad(exitUsage, "encodes rows in another way", of("w.npy", fit("people.json", "x"))...)
	require.NoError(t, os.Remove(at("w.npy.json")))
	bad(exitUsage, "the file holds no ids", of("w.npy", fit("packed.json", "x"))...)
}

// accuracyOfPeople returns the accuracy of m.json on who.csv, computed from predictions: the mean
// over people of the share of their lines that is right.
func accuracyOfPeople(t *testing.T, at func(string) string) string {
	read := func(text string) [][]string {
		lines, err := csv.NewReader(strings.NewReader(text)).ReadAll()
		require.NoError(t, err)
		return lines[1:]
	}
	code, out, errs := call(t, "", "predict", "--model", at("m.json"), "--data", at("two.csv"))
	require.Equal(t, 0, code, errs)
	text, err := os.ReadFile(at("two.csv"))
	require.NoError(t, err)
	said, sums, lines := read(out), map[string]float64{}, map[string]float64{}
	for i, line := range read(string(text)) {
		lines[line[0]]++
		if line[len(line)-1] == said[i][0] {
			sums[line[0]]++
		}
	}
	total := 0.0
	for who, n := range lines {
		total += sums[who] / n
	}
	return percent(total / float64(len(lines)))
}
