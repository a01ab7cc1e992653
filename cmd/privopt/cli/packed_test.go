// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/table/npy"
)

// kinds has a schema for each kind of label: classes, numbers, and two values.
var kinds = map[string]string{
	"classes": strings.Replace(people, `"positive": ["yes"], "negative": ["no"]`, `"levels": ["no", "yes", "maybe"]`, 1),
	"numbers": strings.NewReplacer(`"column": "pays", "positive": ["yes"], "negative": ["no"]`,
		`"column": "age", "min": 20, "max": 80`,
		`{"name": "age", "min": 20, "max": 80}`, `{"name": "pays", "levels": ["yes", "no"]}`).Replace(people),
	"two": people,
}

// TestFitPacked checks that a fit of a packed table in canonical order gives the same model file as
// a fit of the CSV, whether the file is read once or in every pass.
func TestFitPacked(t *testing.T) {
	for kind, schema := range kinds {
		t.Run(kind, func(t *testing.T) {
			at := folder(t)
			require.NoError(t, os.WriteFile(at("s.json"), []byte(schema), 0o600))
			n := 9000
			if kind == "classes" { // the loss for classes is slow
				n = 600
			}
			require.NoError(t, os.WriteFile(at("people.csv"), []byte(rows(n, true)), 0o600))
			code, _, errs := call(t, "", "pack", "--schema", at("s.json"), "--data", at("people.csv"), "--out", at("p.npy"),
				"--canonical")
			require.Equal(t, 0, code, errs)
			fit := func(data, out string) string {
				code, _, errs := call(t, "", "fit", "--schema", at("s.json"), "--data", at(data), "--epsilon", "1", "--seed", "7",
					"--out", at(out))
				require.Equal(t, 0, code, errs)
				require.NotContains(t, errs, "the table has 400")
				return must(os.ReadFile(at(out)))
			}
			read := fit("p.npy", "b.json")
			require.Equal(t, fit("people.csv", "a.json"), read)
			most := mostInMemory
			mostInMemory = 0 // every pass reads the file
			streamed := fit("p.npy", "d.json")
			mostInMemory = most
			require.Equal(t, read, streamed)
			score := func(data string) string {
				code, out, errs := call(t, "", "score", "--model", at("a.json"), "--data", at(data), "--public")
				require.Equal(t, 0, code, errs)
				return out
			}
			require.True(t, strings.HasPrefix(score("people.csv"), score("p.npy")), "a table as CSV adds how it was read")
			// The schema may change in parts that do not affect the encoding.
			other := strings.Replace(schema, `"records": 400`, `"records": 9000, "neighbors": "add-remove"`, 1)
			require.NoError(t, os.WriteFile(at("s.json"), []byte(other), 0o600))
			fit("p.npy", "c.json")
		})
	}
}

// TestPackedErrors checks that packed files that are damaged, or were packed with another encoding,
// are refused. A file without a sidecar is accepted if it has the number of features of the schema
// and each record is a unit of its own.
func TestPackedErrors(t *testing.T) {
	at := folder(t)
	pack := func(out, data string, more ...string) {
		code, _, errs := call(t, "", append([]string{"pack", "--data", data, "--out", at(out)}, more...)...)
		require.Equal(t, 0, code, errs)
	}
	require.NoError(t, os.WriteFile(at("numbers.csv"), []byte("a,b,c,d,e,y\n"+strings.Repeat("0.1,0.2,0.3,0.4,0.5,1\n",
		300)), 0o600))
	require.NoError(t, os.WriteFile(at("large.csv"), []byte(rows(20_000, true)), 0o600))
	pack("numbers.npy", at("numbers.csv"))
	pack("wide.npy", at("people.csv"), "--schema", at("wide.json"))
	pack("good.npy", at("large.csv"), "--schema", at("people.json"))
	code, _, errs := call(t, "", "ledger", "create", at("l"), "--epsilon", "9", "--delta", "1e-4")
	require.Equal(t, 0, code, errs)
	fit := func(data, want string, exit int) {
		code, _, errs := call(t, "", "fit", "--schema", at("people.json"), "--data", at(data), "--epsilon", "1", "--ledger",
			at("l"),
			"--out", at("m.json"), "--force")
		require.Equal(t, exit, code, errs)
		require.Contains(t, errs, want)
	}
	fit("numbers.npy", "packed without a schema", exitUsage)
	fit("wide.npy", "encodes rows in another way", exitUsage)
	require.NoError(t, os.Link(at("good.npy"), at("good.csv")))
	fit("good.csv", "the file is a .npy file: want CSV, or a file of privopt pack under a name", exitUsage)
	fit("none.npy", "no such file", exitFailure)
	fit("good.npy", "", 0)
	require.NoError(t, os.Remove(at("numbers.npy.json")))
	fit("numbers.npy", "", 0)
	require.NoError(t, os.Remove(at("wide.npy.json")))
	fit("wide.npy", "it has 65 features, the rows of the schema have 5", exitUsage)
	code, _, errs = call(t, "", "score", "--model", at("none.json"), "--data", at("wide.npy"))
	require.Equal(t, exitFailure, code, errs)

	text := []byte(must(os.ReadFile(at("good.npy"))))
	text[len(text)-100] ^= 1
	require.NoError(t, os.WriteFile(at("good.npy"), text, 0o600))
	spent := must(os.ReadFile(at("l")))
	fit("good.npy", "does not have its checksum", exitFailure)
	require.Equal(t, spent, must(os.ReadFile(at("l"))), "the ledger is not charged")
	require.NoError(t, os.Truncate(at("good.npy"), 1000))
	fit("good.npy", "shorter than its header says", exitUsage)

	// A label that is not a class is replaced by the nearest class.
	w, err := npy.Create(at("odd.npy"), []string{"a", "b", "c", "d", "e", "y"}, npy.Options{})
	require.NoError(t, err)
	for _, y := range []float64{-1, 0.4, 7, 1e300} {
		require.NoError(t, w.Append(make([]float64, 5), y))
	}
	require.NoError(t, w.Commit())
	require.NoError(t, os.Remove(at("odd.npy.json")))
	require.NoError(t, os.WriteFile(at("classes.json"), []byte(kinds["classes"]), 0o600))
	code, _, errs = call(t, "", "fit", "--schema", at("classes.json"), "--data", at("odd.npy"), "--epsilon", "1", "--out",
		at("odd.json"))
	require.Equal(t, 0, code, errs)
	code, out, errs := call(t, "", "score", "--model", at("odd.json"), "--data", at("odd.npy"))
	require.Equal(t, 0, code, errs)
	require.Contains(t, out, "records   4")
}
