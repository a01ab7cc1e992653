// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"bytes"
	"compress/gzip"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write demo.csv.gz anew")

// patients makes the table of the demonstration: stays of made-up patients in a hospital, several
// lines a patient, sorted by patient. Whether a patient comes back within 30 days depends on age,
// smoking, weight, the length of the stay, the region, and on the patient.
func patients() []byte {
	const people, most = 6000, 12
	rnd := rand.New(rand.NewPCG(2022, 30))
	var b bytes.Buffer
	b.WriteString("patient,admitted,age,weight,smoker,region,days,readmitted\n")
	first := time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC)
	for id := range people {
		born := 18 + 74*math.Sqrt(rnd.Float64()) // the age at the first day
		heavy := 78 * math.Exp(0.24*rnd.NormFloat64())
		smoker := []string{"no", "yes"}[btoi(rnd.Float64() < 0.3)]
		if rnd.Float64() < 0.08 {
			smoker = ""
		}
		region := []string{"north", "south", "east", "west"}[rnd.IntN(4)]
		if rnd.Float64() < 0.06 {
			region = "islands"
		}
		own := 0.6 * rnd.NormFloat64() // what else makes this patient come back
		stays := 1
		for stays < most && rnd.Float64() < 0.5 {
			stays++
		}
		day := rnd.IntN(365)
		for range stays {
			age := born + float64(day)/365.25
			days := 1 + int(3*math.Exp(0.6*rnd.NormFloat64()+(age-60)/70))
			weight := strconv.Itoa(int(heavy * math.Exp(0.03*rnd.NormFloat64())))
			u := -1.6 + (age-60)/13 + float64(days-5)/5 + (heavy-85)/30 + own
			switch {
			case smoker == "yes":
				u += 1.6
			case region == "islands":
				u -= 1
			}
			if rnd.Float64() < 0.05 {
				weight = "NA"
			}
			back := rnd.Float64() < 1/(1+math.Exp(-u))
			fmt.Fprintf(&b, "P%04d,%s,%d,%s,%s,%s,%d,%s\n", id+1, first.AddDate(0, 0, day).Format(time.DateOnly), int(age),
				weight, smoker, region, days, []string{"no", "yes"}[btoi(back)])
			day += days + 2 + int(120*rnd.ExpFloat64())
		}
	}
	return b.Bytes()
}

// TestDemoTable: the table in the program is the one that patients makes.
func TestDemoTable(t *testing.T) {
	want := patients()
	if *update {
		var b bytes.Buffer
		w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
		require.NoError(t, err)
		_, err = w.Write(want)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		require.NoError(t, os.WriteFile("demo.csv.gz", b.Bytes(), 0o644))
		demoTable = b.Bytes()
	}
	r, err := gzip.NewReader(bytes.NewReader(demoTable))
	require.NoError(t, err)
	got, err := io.ReadAll(r)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got), "go test ./cmd/privopt/cli -run TestDemoTable -update writes it anew")
	require.LessOrEqual(t, len(demoTable), 150_000)
	lines := map[string]int{}
	for line := range strings.Lines(string(got)) {
		id, _, _ := strings.Cut(line, ",")
		lines[id]++
	}
	require.Len(t, lines, 6001)
	require.Equal(t, 12, slices.Max(slices.Collect(maps.Values(lines))))
}

// typed returns the commands that a demonstration printed.
func typed(text string) (commands [][]string) {
	for _, line := range strings.Split(strings.ReplaceAll(text, " \\\n", ""), "\n") {
		if command, ok := strings.CutPrefix(line, "$ privopt "); ok {
			commands = append(commands, strings.Fields(command))
		}
	}
	return commands
}

// someNumbers matches what is drawn or a time, percent signs included: the words of two runs agree
// without them. A weak coefficient has dashes for its numbers.
var someNumbers = regexp.MustCompile(`\b[0-9a-f]{12}\b|[<>]?[-−+]?[0-9][0-9,.:]*(e[-+]?[0-9]+)?( %)?|∞|weak|–`)

// wordsAlone returns the words of a text without its numbers.
func wordsAlone(text string) []string {
	return strings.Fields(someNumbers.ReplaceAllString(text, " "))
}

// TestDemo: the demonstration succeeds, its commands can be typed, and then print the same but for
// numbers; nothing is overwritten without --force.
func TestDemo(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	code, out, errs := call(t, "", "demo", "--out", "first")
	require.Equal(t, exitOK, code, errs)
	commands := typed(out)
	require.Len(t, commands, strings.Count(out, "$ privopt "))
	require.Greater(t, len(commands), 6)
	for _, name := range []string{"model.json", "factors-model.json", "patients.ledger"} {
		require.FileExists(t, filepath.Join("first", name))
	}

	require.NoError(t, os.Mkdir("second", 0o700))
	writeDemo(t, "second")
	t.Chdir("second")
	var typedErrs bytes.Buffer
	for _, args := range commands {
		var typedOut bytes.Buffer
		require.Equal(t, exitOK, Run(t.Context(), args, strings.NewReader(""), &typedOut, &typedErrs), typedErrs.String())
		text, _, _ := strings.Cut(typedOut.String(), "The intervals account for") // a note that may mention weak ones
		// Noise decides whether a prediction near one half is yes or no.
		require.Subset(t, append(wordsAlone(out), "yes", "no", "yes,", "no,"), wordsAlone(text), args)
	}
	require.Equal(t, wordsAlone(errs), wordsAlone(typedErrs.String()))
	t.Chdir(dir)

	before, err := os.ReadFile(filepath.Join("first", "model.json"))
	require.NoError(t, err)
	code, _, errs = call(t, "", "demo", "--out", "first")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs, "first/visits.csv exists: choose another folder, or --force")
	after, err := os.ReadFile(filepath.Join("first", "model.json"))
	require.NoError(t, err)
	require.Equal(t, before, after)
	require.NoError(t, os.WriteFile(filepath.Join("first", "mine"), nil, 0o600))
	code, again, errs := call(t, "", "demo", "--out", "first", "--force")
	require.Equal(t, exitOK, code, errs)
	require.Equal(t, commands, typed(again))
	require.FileExists(t, filepath.Join("first", "mine"))

	ledger, model := filepath.Join("first", "patients.ledger"), filepath.Join("first", "model.json")
	spent, err := os.ReadFile(ledger)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(model, []byte("a model of mine"), 0o600))
	code, _, errs = call(t, "", "demo", "--out", "first", "--force")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs, "first/model.json was not made by a demonstration, or has changed since")
	kept, err := os.ReadFile(ledger)
	require.NoError(t, err)
	require.Equal(t, spent, kept, "nothing is removed")
	require.NoError(t, os.Remove(filepath.Join("first", ".privopt-demo")))
	require.NoError(t, os.Remove(model))
	code, _, errs = call(t, "", "demo", "--out", "first", "--force")
	require.Equal(t, exitUsage, code, errs)
	require.FileExists(t, ledger)

	for _, c := range []struct{ args, want string }{
		{"demo --out first/mine", "first/mine"},
		{"demo --out= ", `--out "": want the name of a folder`},
		{"demo --out -", `--out "-": want the name of a folder`},
		{"demo --json", "demo prints text only"},
		{"demo here", "takes flags only"},
	} {
		code, _, errs := call(t, "", strings.Fields(c.args)...)
		require.Equal(t, exitUsage, code, errs)
		require.Contains(t, errs, c.want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, exitCancelled, Run(ctx, []string{"demo", "--out", "third"}, nil, io.Discard, io.Discard))
	now, err := os.Getwd()
	require.NoError(t, err)
	require.Equal(t, filepath.Base(dir), filepath.Base(now))
}

// writeDemo writes the tables of the demonstration to a folder.
func writeDemo(t *testing.T, dir string) {
	tables, err := demoTables()
	require.NoError(t, err)
	for name, text := range tables {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
}
