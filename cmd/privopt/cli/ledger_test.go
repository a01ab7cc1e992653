// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp/ledger"
	"github.com/privopt/privopt/model"
)

// TestVerify checks that the command "ledger verify" accepts the models that the ledger paid for,
// and no other or edited file.
func TestVerify(t *testing.T) {
	at := folder(t)
	code, _, errs := call(t, "", "ledger", "create", at("l"), "--epsilon", "10", "--delta", "1e-4")
	require.Equal(t, 0, code, errs)
	fit := func(out string, more ...string) string {
		code, _, errs := call(t, "", append([]string{"fit", "--schema", at("people.json"), "--data", at("people.csv"),
			"--epsilon", "2", "--loss", "svm", // one release, and pure noise
			"--out", at(out)}, more...)...)
		require.Equal(t, 0, code, errs)
		return must(os.ReadFile(at(out)))
	}
	a, b, free := fit("a.json", "--ledger", at("l")), fit("b.json", "--ledger", at("l")), fit("free.json")
	code, out, errs := call(t, "", "ledger", "verify", at("l"), at("a.json"), at("b.json"))
	require.Equal(t, 0, code, errs)
	require.Contains(t, out, "2 entries")
	require.Contains(t, out, "it paid for all 2 files")
	l, err := ledger.Open(at("l"))
	require.NoError(t, err)
	_, out, _ = call(t, "", "ledger", "show", "-v", at("l"))
	for _, e := range l.Entries() {
		require.Contains(t, out, e.File[:12])
	}

	headOf := func(text string) string {
		m, err := model.Load(strings.NewReader(text))
		require.NoError(t, err)
		return m.LedgerHead()
	}
	change := func(edit func(v map[string]any)) string {
		var v map[string]any
		require.NoError(t, json.Unmarshal([]byte(a), &v))
		edit(v)
		text, err := json.Marshal(v)
		require.NoError(t, err)
		return string(text)
	}
	for want, edited := range map[string]string{
		"paid for (ε = 2, δ = 0), the file claims (ε = 0.01, δ = 0)": strings.ReplaceAll(a,
			`"epsilon": 2`, `"epsilon": 0.01`),
		"the file claims add-remove": strings.ReplaceAll(a,
			`"relation": "replace"`, `"relation": "add-remove"`),
		`the file claims "lop.other/1"`: change(func(v map[string]any) {
			v["certificate"].(map[string]any)["theorem"] = "lop.other/1"
			v["plan"].(map[string]any)["release"].(map[string]any)["theorem"] = "lop.other/1"
		}),
		"edited, or is a second release": strings.Replace(a, `"description": "`, `"description": "A `, 1),
		"committed to another file":      strings.Replace(a, "{", "{ ", 1),
		"was edited, or is a second":     strings.Replace(b, headOf(b), headOf(a), 1),
		"this one was edited, or":        strings.Replace(free, `"build"`, `"ledger": "`+headOf(a)+`", "build"`, 1),
		"has no entry 000000000000":      strings.Replace(a, headOf(a), strings.Repeat("0", 64), 1),
	} {
		require.NoError(t, os.WriteFile(at("e.json"), []byte(edited), 0o600))
		code, out, errs := call(t, "", "ledger", "verify", at("l"), at("a.json"), at("e.json"))
		require.Equal(t, exitRefused, code, "%s\n%s", want, errs)
		require.Contains(t, errs, want)
		require.Empty(t, out)
	}
	// A file whose parts contradict each other is not accepted as a model at all.
	for want, edited := range map[string]string{
		"certificate: (ε = 0.01": strings.Replace(a, `"epsilon": 2`, `"epsilon": 0.01`, 1),
		"coefficients[0]": change(func(v map[string]any) {
			v["coefficients"].([]any)[0].(map[string]any)["value"] = 7.5
		}),
		"want 64 hexadecimal digits":  strings.Replace(a, headOf(a), "x", 1),
		"the hash of a ledger's entr": strings.Replace(a, headOf(a), strings.ToUpper(headOf(a)), 1),
	} {
		require.NoError(t, os.WriteFile(at("e.json"), []byte(edited), 0o600))
		for _, args := range [][]string{{"ledger", "verify", at("l"), at("e.json")}, {"explain", at("e.json")},
			{"summary", at("e.json")}} {
			code, out, errs := call(t, "", args...)
			require.Equal(t, exitUsage, code, "%s\n%s", want, errs)
			require.Contains(t, errs, want)
			require.Empty(t, out)
		}
	}
	_, out, _ = call(t, "", "explain", at("a.json"))
	require.Contains(t, out, "proves nothing by itself")
	require.Contains(t, strings.Join(strings.Fields(out), " "), "An empty line and a comment count as records")
	// Very large numbers do not give NaN.
	require.NoError(t, os.WriteFile(at("e.json"), []byte(strings.ReplaceAll(a, `"epsilon": 2`, `"epsilon": 99999`)),
		0o600))
	code, out, errs = call(t, "", "explain", at("e.json"))
	require.Equal(t, 0, code, errs)
	require.NotContains(t, out, "NaN")
}

// TestRefusedBeforeCharged checks that a table with more records than the plan allows is refused
// before the ledger is charged, and that the message does not show the number of records.
func TestRefusedBeforeCharged(t *testing.T) {
	at := folder(t)
	code, _, errs := call(t, "", "ledger", "create", at("l"), "--epsilon", "10", "--delta", "1e-4", "--neighbors",
		"add-remove")
	require.Equal(t, 0, code, errs)
	numbers := strings.NewReplacer(`"records": 400`, `"records": 99`, `"positive": ["yes"], "negative": ["no"]`,
		`"min": 0, "max": 1`)
	require.NoError(t, os.WriteFile(at("few.json"), []byte(strings.Replace(people, `"records": 400`, `"records": 99`, 1)),
		0o600))
	require.NoError(t, os.WriteFile(at("numbers.json"), []byte(numbers.Replace(people)), 0o600))
	require.NoError(t, os.WriteFile(at("people.csv"), []byte(rows(437, true)), 0o600)) // no number of a forecast
	text := strings.NewReplacer("yes", "1", "no,", "no,", ",no\n", ",0\n").Replace(rows(437, true))
	require.NoError(t, os.WriteFile(at("numbers.csv"), []byte(text), 0o600))
	code, _, errs = call(t, "", "pack", "--schema", at("few.json"), "--data", at("people.csv"), "--out", at("people.npy"))
	require.Equal(t, 0, code, errs)
	for schema, data := range map[string]string{"few.json": "people.csv", "numbers.json": "numbers.csv",
		"./few.json": "people.npy"} {
		code, out, errs := call(t, "", "fit", "--schema", filepath.Join(filepath.Dir(at("x")), schema), "--data", at(data),
			"--epsilon", "1",
			"--neighbors", "add-remove", "--ledger", at("l"), "--out", at("m.json"))
		require.Equal(t, exitRefused, code, errs)
		require.Contains(t, errs, `the table has more than 396 records`)
		require.Contains(t, errs, `declare a larger "records" in the schema`)
		require.NotContains(t, errs, "437")
		require.NotContains(t, errs, "counts as spent")
		require.Empty(t, out)
		l, err := ledger.Open(at("l"))
		require.NoError(t, err)
		require.Empty(t, l.Entries())
	}
}

// TestLedgerLeft: a filter has left the least share of its totals, and a ledger what its best
// filter has.
func TestLedgerLeft(t *testing.T) {
	sums := []ledger.Use{{Filter: "basic", Sum: "ε", Used: 1, Total: 4}, {Filter: "basic", Sum: "δ", Used: 6, Total: 10}}
	more := func(filter string, used ...float64) []ledger.Use {
		list := slices.Clone(sums)
		for _, v := range used {
			list = append(list, ledger.Use{Filter: filter, Used: v, Total: 10})
		}
		return list
	}
	for want, used := range map[string][]ledger.Use{
		"40, as sums":                      sums,
		"75, as sums":                      {sums[0], {Filter: "basic", Sum: "δ"}},
		"0, as sums":                       {sums[0], {Filter: "basic", Used: 11, Total: 10}},
		"90, as a Rényi filter counts; 40": more("order 8", 1),
		"40, as sums of ε":                 more("order 8", 1, 7),
	} {
		left, how := (&shown{Used: used}).left()
		require.True(t, strings.HasPrefix(strconv.Itoa(left)+how, want), how)
	}
}

// TestLedgerFilters checks which filters a new ledger has, and that show prints what each has used
// and left, and no ε of the releases so far.
func TestLedgerFilters(t *testing.T) {
	at := folder(t)
	made := 0
	create := func(args ...string) string {
		made++
		name := at(strconv.Itoa(made))
		code, _, errs := call(t, "", append([]string{"ledger", "create", name, "--epsilon", "1"}, args...)...)
		require.Equal(t, 0, code, errs)
		return name
	}
	show := func(name string) []ledger.Use {
		code, out, errs := call(t, "", "ledger", "show", name, "--json")
		require.Equal(t, 0, code, errs)
		var s struct{ Used []ledger.Use }
		require.NoError(t, json.Unmarshal([]byte(out), &s))
		return s.Used
	}
	require.Len(t, show(create()), 2, "without δ: sums")
	require.Len(t, show(create("--delta", "1e-6", "--filter", "basic")), 2)
	require.Len(t, show(create("--delta", "1e-6", "--orders", "8")), 4)
	name := create("--delta", "1e-6")
	require.Len(t, show(name), 6)
	for range 2 {
		code, out, errs := call(t, "", "fit", "--schema", at("people.json"), "--data", at("people.csv"), "--epsilon", "0.3",
			"--delta", "1e-6", "--ledger", name, "--out", at("m.json"), "--force")
		require.Equal(t, 0, code, errs)
		require.NotContains(t, out, "spent")
	}
	l, err := ledger.Open(name)
	require.NoError(t, err)
	first := &fitting{task: task{options: model.Options{Ledger: l}}} // whose text is made when there are two entries
	require.Contains(t, first.text(&fitted{Entry: l.Entries()[0].Hash}, "", 0), "entry 1 of")
	used := show(name)
	require.Equal(t, ledger.Use{Filter: "basic", Sum: "ε", Used: 0.6, Last: 0.3, Total: 1}, used[0])
	_, out, _ := call(t, "", "ledger", "show", name)
	require.NotContains(t, out, "basic")
	require.Regexp(t, `spent  27 % in 2 entries, whose ε add up to 0\.6`, out)
	require.Regexp(t, `left   73 % for later releases`, out)
	require.NotContains(t, out, "Rényi")
	_, out, _ = call(t, "", "ledger", "show", name, "-v")
	require.Regexp(t, `left   73 %, as a Rényi filter counts; 0 % as sums of ε and δ`, out)
	require.Regexp(t, `basic: ε +0\.6 +0\.3 +0\.4 +1`, out)
	require.NotContains(t, out, "spent  ε", "the guarantee is the total")
	for want, args := range map[string][]string{
		`--filter "renyi": want auto or basic`: {"--filter", "renyi"},
		"leave out one of them":                {"--filter", "basic", "--orders", "8", "--delta", "1e-6"},
		"Total.Delta = 1e-300":                 {"--delta", "1e-300"},
	} {
		code, _, errs := call(t, "", append([]string{"ledger", "create", at("x"), "--epsilon", "1"}, args...)...)
		require.Equal(t, exitUsage, code, errs)
		require.Contains(t, errs, want)
	}
	require.NoFileExists(t, at("x"))
}

// TestPackTellsNoCount checks that pack does not print the number of records, which is private
// under the add-remove relation.
func TestPackTellsNoCount(t *testing.T) {
	at := folder(t)
	for _, more := range [][]string{nil, {"--json"}} {
		_, out, errs := call(t, "", append([]string{"pack", "--schema", at("people.json"), "--data", at("people.csv"),
			"--force", "--out", at("p.npy")}, more...)...)
		// The name of the temporary folder has digits of its own.
		require.NotContains(t, strings.ReplaceAll(out, at(""), ""), "400")
		require.NotContains(t, strings.ReplaceAll(errs, at(""), ""), "400")
		require.False(t, bytes.Contains([]byte(out), []byte("bytes")))
	}
}
