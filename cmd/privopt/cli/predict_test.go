// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPredictCopies checks that predictions stand beside the fields of their rows, whatever these
// hold, and that the output can be read back.
func TestPredictCopies(t *testing.T) {
	at := folder(t)
	put := func(name, text string) string {
		require.NoError(t, os.WriteFile(at(name), []byte(text), 0o600))
		return at(name)
	}
	schema := put("s.json", strings.NewReplacer(`"intercept"`,
		`"file": {"delimiter": ";", "decimal": ",", "multiline": true, "comment": "#"}, "intercept"`,
		`"columns": [`, `"columns": [{"name": "note", "ignore": true},`).Replace(people))
	var b strings.Builder
	b.WriteString("note;age;job;pays\n")
	for range 50 {
		b.WriteString("x;30,5;nurse;no\ny;60,5;pilot;yes\n")
	}
	code, _, errs := call(t, "", "fit", "--schema", schema, "--data", put("t.csv", b.String()), "--epsilon", "5",
		"--out", at("m.json"))
	require.Equal(t, 0, code, errs)
	table := put("new.csv", "job;note;age\nnurse;\"two\nlines; \"\"quoted\"\"\";30,5\n\npilot;;60,5\n")
	predict := func(more ...string) []string {
		return append([]string{"predict", "--model", at("m.json"), "--data", table}, more...)
	}
	_, plain, _ := call(t, "", predict()...)
	want, err := csv.NewReader(strings.NewReader(plain)).ReadAll()
	require.NoError(t, err)
	require.Len(t, want, 3)

	code, out, errs := call(t, "", predict("--append")...)
	require.Equal(t, 0, code, errs)
	r := csv.NewReader(strings.NewReader(out))
	r.Comma = ';'
	got, err := r.ReadAll()
	require.NoError(t, err)
	require.Equal(t, append([]string{"job", "note", "age"}, want[0]...), got[0])
	require.Equal(t, []string{"nurse", "two\nlines; \"quoted\"", "30,5"}, got[1][:3])
	require.Equal(t, []string{"pilot", "", "60,5"}, got[2][:3])
	for i, row := range got[1:] {
		for j, field := range row[3:] {
			require.Equal(t, want[i+1][j], strings.Replace(field, ",", ".", 1))
		}
		require.Contains(t, row[4], ",")
	}
	table = put("hash.csv", "note;job;age\n\"#1 \"\"a\"\"\";nurse;30\n#2\n")
	_, out, _ = call(t, "", predict("--append")...)
	require.Contains(t, out, "\n\"#1 \"\"a\"\"\";nurse;30;", "a field is no comment")
	require.Equal(t, 2, strings.Count(out, "\n"))
	table = at("new.csv")
	_, out, _ = call(t, "", predict("--id", "note")...)
	got, err = csv.NewReader(strings.NewReader(out)).ReadAll()
	require.NoError(t, err)
	require.Equal(t, append([]string{"two\nlines; \"quoted\""}, want[1]...), got[1])
	_, out, _ = call(t, "", predict("--append", "--json")...)
	var line struct{ Row map[string]string }
	require.NoError(t, json.NewDecoder(strings.NewReader(out)).Decode(&line))
	require.Equal(t, map[string]string{"job": "nurse", "note": "two\nlines; \"quoted\"", "age": "30,5"}, line.Row)
	_, out, _ = call(t, "", predict("--id", "job", "--json")...)
	require.True(t, strings.HasPrefix(out, `{"id":"nurse","prediction"`), out)

	for _, c := range []struct {
		text, want string
		more       []string
	}{
		{"note;age;job\n", `--id "Note": the table has no such column`, []string{"--id", "Note"}},
		{"note;age;job\n", "want one of them", []string{"--id", "note", "--append"}},
		{"age;job;score\n", `a column "score", as the predictions have: rename it`, []string{"--append"}},
		{"note;age;job\nx;SECRET;nurse\n", `column 2 ("age"): text, want a number`, nil},
		{"note;age;job\nx;30.5;nurse\n", `column 2 ("age")`, []string{"--append"}},
	} {
		put("new.csv", c.text)
		code, out, errs := call(t, "", predict(c.more...)...)
		require.Equal(t, exitUsage, code)
		require.Contains(t, errs, c.want)
		require.Empty(t, out, "no header before the first row is read")
	}
	put("new.csv", ";age;more;job\n1;30,5;\"x;y\";nurse\n")
	_, out, _ = call(t, "", predict("--append")...)
	require.Contains(t, out, "\n1;30,5;\"x;y\";nurse;", "columns that are not in the schema are left out, and copied")
	put("new.csv", "note;age;job\n")
	_, out, _ = call(t, "", predict()...)
	require.Equal(t, 1, strings.Count(out, "\n"), "a table without rows has a header of predictions")
}

// TestPredictIgnoresColumns: columns that the schema does not name, and the order of all, do not
// change predictions.
func TestPredictIgnoresColumns(t *testing.T) {
	at := folder(t)
	code, _, errs := call(t, "", "fit", "--schema", at("people.json"), "--data", at("people.csv"), "--epsilon", "5",
		"--out", at("m.json"))
	require.Equal(t, 0, code, errs)
	var more strings.Builder
	for i, line := range strings.Split(strings.TrimSpace(rows(400, true)), "\n") {
		fields := strings.Split(line, ",")
		slices.Reverse(fields)
		more.WriteString(strings.Join(append(fields, []string{"zzz", "note"}[btoi(i == 0)]), ",") + "\n")
	}
	require.NoError(t, os.WriteFile(at("more.csv"), []byte(more.String()), 0o600))
	predict := func(table string) string {
		code, out, errs := call(t, "", "predict", "--model", at("m.json"), "--data", at(table))
		require.Equal(t, 0, code, errs)
		return out
	}
	require.Contains(t, predict("more.csv"), "p(yes)")
	require.Equal(t, predict("people.csv"), predict("more.csv"))
}
