// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sdk "github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/cmd/privopt/cli"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/table/npy"
)

func TestMain(m *testing.M) {
	if slices.ContainsFunc(os.Args[1:], isWorker) { // of TestKill
		flag.Parse()
		sdk.Init() // does not return
	}
	temp, err := os.MkdirTemp("", "beam") // the runner prism leaves an empty file in it for every job
	if err != nil {
		panic(err)
	}
	os.Setenv("TMPDIR", temp)
	sdk.Init()
	slog.SetDefault(slog.New(slog.DiscardHandler))
	code := m.Run()
	os.RemoveAll(temp)
	os.Exit(code)
}

const schema = `{ "schema": 1, "records": 60000, "intercept": true, "missing": ["?", "none"],
  "file": {"multiline": true},
  "label": {"column": "pays", "positive": ["yes"], "negative": ["no"]},
  "columns": [
    {"name": "age", "min": 20, "max": 80},
    {"name": "job", "levels": ["nurse", "pilot \"1\""], "other": true} ] }`

// person is a record of the table in a Parquet file.
type person struct {
	Age  *float64 `parquet:"age,optional"`
	Job  string   `parquet:"job"`
	Pays string   `parquet:"pays"`
}

func people(n int) []person {
	rnd := rand.New(rand.NewPCG(1, 2))
	out := make([]person, n)
	for i := range out {
		age := 20 + 60*rnd.Float64()
		p := person{Age: &age, Job: []string{"nurse", `pilot "1"`, "baker, retired\n"}[rnd.IntN(3)], Pays: "no"}
		if rnd.Float64() < 1/(1+math.Exp((50-age)/15)) {
			p.Pays = "yes"
		}
		if rnd.IntN(100) == 0 {
			p.Age = nil
		}
		out[i] = p
	}
	return out
}

func csvOf(all []person) string {
	var b strings.Builder
	b.WriteString("age,job,pays\n")
	for _, p := range all {
		age := "?"
		if p.Age != nil {
			age = fmt.Sprint(*p.Age)
		}
		fmt.Fprintf(&b, "%s,\"%s\",%s\n", age, strings.ReplaceAll(p.Job, `"`, `""`), p.Pays)
	}
	return b.String()
}

func put[T any](t *testing.T, path string, rows []T) {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[T](&b, parquet.MaxRowsPerRowGroup(25_000))
	_, err := w.Write(rows)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
}

// encodedRow has the columns that result from encoding with the schema, in another order.
type encodedRow struct {
	Pays      float64 `parquet:"pays"`
	Intercept float64 `parquet:"(intercept)"`
	Age       float64 `parquet:"age"`
	Nurse     float64 `parquet:"job=nurse"`
	Pilot     float64 `parquet:"job=pilot \"1\""`
	Other     float64 `parquet:"job other"`
}

// program runs privopt-beam in this process, or privopt if the first argument is "fit" or "pack".
func program(ctx context.Context, args ...string) (code int, stderr string) {
	var out, errs bytes.Buffer
	f := run
	if args[0] == "fit" || args[0] == "pack" {
		f = cli.Run
	}
	code = f(ctx, args, strings.NewReader(""), &out, &errs)
	return code, errs.String()
}

func call(t *testing.T, args ...string) {
	t.Helper()
	code, errs := program(t.Context(), args...)
	require.Equal(t, 0, code, errs)
}

func text(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

// requireSame requires that a model of privopt-beam equals one of privopt, except that it assumes a
// trusted cluster, and trusts its encoding unless the file of the table held encoded rows.
func requireSame(t *testing.T, want, got, file string) {
	t.Helper()
	trusted := []string{string(erm.TrustedCluster)}
	if filepath.Ext(file) != ".npy" && !strings.HasPrefix(file, "encoded") {
		trusted = append(trusted, string(erm.TrustedEncoding))
	}
	for _, assumption := range trusted {
		line := fmt.Sprintf("      %q,\n", assumption)
		require.NotContains(t, want, line)
		require.Contains(t, got, line)
		got = strings.Replace(got, line, "", 1)
	}
	require.Equal(t, want, got)
}

// TestSameModel checks that privopt-beam gives the same model file as privopt fit on one machine,
// except for the assumption that the cluster can be trusted.
func TestSameModel(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	scratch := at("scratch")
	require.NoError(t, os.Mkdir(scratch, 0o700))
	all := people(60_000)
	require.NoError(t, os.WriteFile(at("s.json"), []byte(schema), 0o600))
	require.NoError(t, os.WriteFile(at("all.csv"), []byte(csvOf(all)), 0o600))
	require.NoError(t, os.WriteFile(at("0.csv"), []byte(csvOf(all[:777])), 0o600))
	require.NoError(t, os.WriteFile(at("1.csv"), []byte(csvOf(all[777:])), 0o600))
	put(t, at("0.parquet"), all[:30_001])
	put(t, at("1.parquet"), all[30_001:])
	call(t, "pack", "--schema", at("s.json"), "--data", at("all.csv"), "--out", at("all.npy"), "--canonical")
	encoded(t, at("all.npy"), at("encoded.parquet"))
	flags := []string{"--schema", at("s.json"), "--epsilon", "1", "--seed", "7"}
	call(t, append([]string{"fit", "--data", at("all.csv"), "--out", at("want.json")}, flags...)...)
	want := text(t, at("want.json"))
	for runner, shards := range map[string]string{"direct": "1", "prism": "7"} {
		for _, data := range [][]string{
			{"all.npy"}, {"all.csv"}, {"1.csv", "0.csv"}, {"encoded.parquet"}, {"1.parquet", "0.parquet"}, {"0.csv", "1.csv"},
		} {
			t.Run(runner+"/"+strings.Join(data, "+"), func(t *testing.T) {
				args := append(flags[:len(flags):len(flags)], "--out", at("got.json"), "--force", "--scratch", scratch,
					"--runner", runner, "--shards", shards)
				for _, name := range data {
					args = append(args, "--data", at(name))
				}
				call(t, args...)
				requireSame(t, want, text(t, at("got.json")), data[0])
				left, err := os.ReadDir(scratch)
				require.NoError(t, err)
				require.Empty(t, left)
			})
		}
	}
}

// visit is a line of a table with several lines for a person, or none.
type visit struct {
	ID   *int64   `parquet:"id,optional"`
	Age  *float64 `parquet:"age,optional"`
	Job  string   `parquet:"job"`
	Pays string   `parquet:"pays"`
}

// TestPersons checks that privopt-beam gives the model of privopt fit for a table in which a person
// has up to eight lines, of which three count, whatever the order of lines and files.
func TestPersons(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	scratch := at("scratch")
	require.NoError(t, os.Mkdir(scratch, 0o700))
	rnd := rand.New(rand.NewPCG(3, 4))
	all := make([]visit, 20_000)
	lines := make([]string, len(all))
	for i, p := range people(len(all)) {
		all[i] = visit{nil, p.Age, p.Job, p.Pays}
		id, age := "?", "?"
		if i%9 > 0 {
			all[i].ID = new(int64(rnd.IntN(1500) * (1 + rnd.IntN(4)))) // some have few lines
			id = fmt.Sprint(*all[i].ID)
		}
		if p.Age != nil {
			age = fmt.Sprint(*p.Age)
		}
		lines[i] = fmt.Sprintf("%s,%s,\"%s\",%s\n", id, age, strings.ReplaceAll(p.Job, `"`, `""`), p.Pays)
	}
	write := func(name string, lines []string) {
		text := "id,age,job,pays\n" + strings.Join(lines, "")
		require.NoError(t, os.WriteFile(at(name), []byte(text), 0o600))
	}
	write("all.csv", lines)
	rnd.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	write("0.csv", lines[:777])
	write("1.csv", lines[777:])
	put(t, at("0.parquet"), all[:12_001])
	put(t, at("1.parquet"), all[12_001:])
	for _, weights := range []string{"persons", "rows"} {
		form := strings.Replace(schema, `"records"`, `"person": "id", "rows": 3, "weights": "`+weights+`", "records"`, 1)
		require.NoError(t, os.WriteFile(at("s.json"), []byte(form), 0o600))
		call(t, "pack", "--schema", at("s.json"), "--data", at("all.csv"), "--out", at("all.npy"), "--force")
		encodedLines(t, at("all.npy"), at("encoded.parquet"))
		flags := []string{"--schema", at("s.json"), "--epsilon", "1", "--seed", "7", "--force"}
		call(t, append([]string{"fit", "--data", at("all.csv"), "--out", at("want.json")}, flags...)...)
		want := text(t, at("want.json"))
		for runner, data := range map[string][][]string{
			"direct": {{"all.npy"}, {"encoded.parquet"}},
			"prism":  {{"all.npy"}, {"all.csv"}, {"1.csv", "0.csv"}, {"1.parquet", "0.parquet"}, {"encoded.parquet"}},
		} {
			for _, files := range data {
				args := append(flags[:len(flags):len(flags)], "--out", at("got.json"), "--scratch", scratch, "--runner", runner,
					"--shards", "3")
				for _, name := range files {
					args = append(args, "--data", at(name))
				}
				call(t, args...)
				requireSame(t, want, text(t, at("got.json")), files[0])
			}
		}
	}
	code, errs := program(t.Context(), "--schema", at("s.json"), "--epsilon", "1", "--data", at("all.csv"), "--out",
		at("x"), "--scratch", at("none"))
	require.Equal(t, 2, code, errs)
	other := strings.Replace(text(t, at("s.json")), `"person": "id"`, `"person": "who"`, 1)
	require.NoError(t, os.WriteFile(at("who.json"), []byte(other), 0o600))
	for data, message := range map[string]string{
		"all.csv": `no column "who"`, "all.npy": "encodes rows in another way", "0.parquet": `no column "who"`,
	} {
		code, errs := program(t.Context(), "--schema", at("who.json"), "--epsilon", "1", "--data", at(data), "--out", at("x"),
			"--scratch", scratch)
		require.Equal(t, 2, code, errs)
		require.Contains(t, errs, message)
	}
	// Encoded files have their own persons each: the model would weigh somebody once a file.
	for _, k := range []string{"0", "1"} {
		call(t, "pack", "--schema", at("s.json"), "--data", at(k+".csv"), "--out", at(k+".npy"))
		encodedLines(t, at(k+".npy"), at("encoded"+k+".parquet"))
	}
	for _, form := range []string{"%d.npy", "encoded%d.parquet"} {
		code, errs = program(t.Context(), "--schema", at("s.json"), "--epsilon", "1", "--data",
			at(fmt.Sprintf(form, 0)), "--data", at(fmt.Sprintf(form, 1)), "--out", at("x"), "--scratch", scratch)
		require.Equal(t, 2, code, errs)
		require.Contains(t, errs, "2 files of encoded rows of persons")
	}
	require.NoFileExists(t, at("x"))
	left, err := os.ReadDir(scratch)
	require.NoError(t, err)
	require.Empty(t, left)
}

// encodedLine is encodedRow for persons.
type encodedLine struct {
	Lines int32 `parquet:"(lines)"`
	encodedRow
}

// TestClasses checks a label with several classes. The model then has a block of features for each
// class, while the files have only one block.
func TestClasses(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	classes := strings.NewReplacer(`"positive": ["yes"], "negative": ["no"]`, `"levels": ["no", "yes", "maybe"]`,
		"60000", "400").Replace(schema)
	require.NoError(t, os.WriteFile(at("s.json"), []byte(classes), 0o600))
	put(t, at("all.parquet"), people(400))
	require.NoError(t, os.WriteFile(at("all.csv"), []byte(csvOf(people(400))), 0o600))
	flags := []string{"--schema", at("s.json"), "--epsilon", "1", "--seed", "7"}
	call(t, append([]string{"fit", "--data", at("all.csv"), "--out", at("want.json")}, flags...)...)
	call(t, append(flags, "--data", at("all.parquet"), "--out", at("got.json"), "--scratch", dir, "--shards", "2")...)
	requireSame(t, text(t, at("want.json")), text(t, at("got.json")), "table")
}

// TestManyLevels checks a schema with many levels. In memory such rows are sparse, and sums over
// sparse rows round differently, so that the reference is a fit of a packed file.
func TestManyLevels(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	levels := `"nurse"`
	for i := range 60 {
		levels += fmt.Sprintf(`, "job %d"`, i)
	}
	require.NoError(t, os.WriteFile(at("s.json"), []byte(strings.Replace(schema, `"nurse"`, levels, 1)), 0o600))
	require.NoError(t, os.WriteFile(at("all.csv"), []byte(csvOf(people(20_000))), 0o600))
	call(t, "pack", "--schema", at("s.json"), "--data", at("all.csv"), "--out", at("all.npy"), "--canonical")
	flags := []string{"--schema", at("s.json"), "--epsilon", "1", "--seed", "7"}
	call(t, append([]string{"fit", "--data", at("all.npy"), "--out", at("want.json")}, flags...)...)
	call(t, append(flags, "--data", at("all.csv"), "--out", at("got.json"), "--scratch", dir, "--shards", "2")...)
	requireSame(t, text(t, at("want.json")), text(t, at("got.json")), "table")
}

// encoded writes the records of a packed file to a Parquet file.
func encoded(t *testing.T, from, to string) {
	put(t, to, packedRows(t, from, func(r []float64, label float64) encodedRow {
		return encodedRow{label, r[0], r[1], r[2], r[3], r[4]}
	}))
}

func encodedLines(t *testing.T, from, to string) {
	put(t, to, packedRows(t, from, func(r []float64, label float64) encodedLine {
		return encodedLine{int32(r[0]), encodedRow{label, r[1], r[2], r[3], r[4], r[5]}}
	}))
}

func packedRows[T any](t *testing.T, path string, convert func(row []float64, label float64) T) []T {
	t.Helper()
	f, err := npy.Open(path)
	require.NoError(t, err)
	defer f.Close()
	n, d := f.Dims()
	rows, labels := make([]float64, n*d), make([]float64, n)
	require.NoError(t, f.Read(t.Context(), rows, labels, 0))
	out := make([]T, n)
	for i := range out {
		out[i] = convert(rows[i*d:(i+1)*d], labels[i])
	}
	return out
}

// spy is called by a runner of the same name, whose jobs always fail. It looks at the scratch
// folder.
var spy func()

func init() {
	sdk.RegisterRunner("spy", func(context.Context, *sdk.Pipeline) (sdk.PipelineResult, error) {
		spy()
		return nil, errors.New("the job failed")
	})
}

// TestScratch checks that the task of the workers can be read only by its owner, and is removed
// even after a failure.
func TestScratch(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.Mkdir(at("scratch"), 0o700))
	require.NoError(t, os.WriteFile(at("s.json"), []byte(schema), 0o600))
	require.NoError(t, os.WriteFile(at("all.csv"), []byte(csvOf(people(300))), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := 0
	spy = func() {
		files, err := filepath.Glob(at("scratch/privopt-*/*"))
		require.NoError(t, err)
		require.Len(t, files, 1, "the task")
		for _, path := range append(files, filepath.Dir(files[0])) {
			info, err := os.Stat(path)
			require.NoError(t, err)
			require.Zero(t, info.Mode().Perm()&0o077, path)
		}
		if seen++; seen > 3 { // this is a job of the second fit
			cancel()
		}
	}
	args := []string{"--schema", at("s.json"), "--epsilon", "1", "--data", at("all.csv"), "--out", at("m.json"),
		"--scratch", at("scratch"),
		"--runner", "spy"}
	code, errs := program(ctx, args...)
	require.Equal(t, 1, code, errs)
	require.Contains(t, errs, "the job failed")
	require.Equal(t, 3, seen)
	code, errs = program(ctx, args...)
	require.Equal(t, 130, code, errs)
	left, err := os.ReadDir(at("scratch"))
	require.NoError(t, err)
	require.Empty(t, left)
	require.NoFileExists(t, at("m.json"))
}

func TestErrors(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) string {
		require.NoError(t, os.WriteFile(at(name), []byte(text), 0o600))
		return at(name)
	}
	require.NoError(t, os.Mkdir(at("scratch"), 0o700))
	all := people(300)
	s, csv := write("s.json", schema), write("all.csv", csvOf(all))
	numbers := write("numbers.json", `{ "schema": 1, "records": 300, "label": {"column": "pays", "min": 0, "max": 9},
		"columns": [{"name": "age", "min": 20, "max": 80}] }`)
	put(t, at("all.parquet"), all)
	put(t, at("secret.parquet"), []person{{Job: "nurse", Pays: "SECRET"}})
	type jobs struct {
		Age  float64  `parquet:"age"`
		Job  []string `parquet:"job,list"`
		Pays string   `parquet:"pays"`
	}
	put(t, at("list.parquet"), []jobs{{30, nil, "yes"}})
	type pair struct {
		Age  float64 `parquet:"age"`
		Pays float64 `parquet:"pays"`
	}
	put(t, at("numbers.parquet"), []pair{{30, 1}})
	write("damaged.parquet", "SECRET, and no Parquet")
	call(t, "pack", "--schema", s, "--data", csv, "--out", at("all.npy"))
	fit := func(schema, data string, more ...string) []string {
		return append([]string{"--schema", schema, "--data", data, "--epsilon", "1", "--scratch", at("scratch"),
			"--out", at("m.json")}, more...)
	}
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{2, `required flag(s)`, []string{"--epsilon", "1"}},
		{2, "--scratch is missing", fit(s, csv, "--scratch", "")},
		{2, "Options.Scratch: ", fit(s, csv, "--scratch", at("none"))},
		{2, `unexpected argument "x"`, fit(s, csv, "x")},
		{2, "after --, the flags of Beam: flag provided but not defined: -bogus", fit(s, csv, "--", "--bogus")},
		{2, `after --: unexpected argument "x"`, fit(s, csv, "--", "x")},
		{2, `Options.Runner = "bogus" is not linked in`, fit(s, at("all.npy"), "--runner", "bogus")},
		{2, "Options.Shards = -1", fit(s, at("all.npy"), "--shards", "-1")},
		{2, "files of one kind", fit(s, at("all.npy"), "--data", csv)},
		{2, "encodes rows in another way", fit(numbers, at("all.npy"))},
		{1, "no such file", fit(s, at("none.npy"))},
		{1, "no such file", fit(s, at("none.parquet"))},
		{1, "no such file", fit(s, at("none.csv"))},
		{2, "line 3: 2 fields, want 3", fit(s, write("ragged.csv", "age,job,pays\n30,nurse,yes\nSECRET,nurse\n"))},
		{2, "have the same names", fit(numbers, at("numbers.parquet"))},
		{2, `column "job" has a type other than text, number, bool`, fit(s, at("list.parquet"))},
		{2, `no column "job"`, fit(s, at("numbers.parquet"))},
		{2, `line 2, column 3 ("pays", the label): text`, fit(s, at("secret.parquet"))},
		{2, "it is no Parquet file", fit(s, at("damaged.parquet"))},
		{3, "--seed with --ledger", fit(s, csv, "--seed", "1", "--ledger", at("l"))},
	} {
		code, errs := program(t.Context(), c.args...)
		require.Equal(t, c.code, code, "%v\n%s", c.args, errs)
		require.Contains(t, errs, c.want)
		require.Equal(t, 1, strings.Count(errs, "\n"), errs)
		require.True(t, strings.HasPrefix(errs, "privopt-beam: "), errs)
		require.NotContains(t, errs, "SECRET")
		left, err := os.ReadDir(at("scratch"))
		require.NoError(t, err)
		require.Empty(t, left)
		require.NoFileExists(t, at("m.json"))
	}
}

// TestCharged checks that the error of a fit whose job never ended names the charge.
func TestCharged(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.Mkdir(at("scratch"), 0o700))
	require.NoError(t, os.WriteFile(at("s.json"), []byte(schema), 0o600))
	require.NoError(t, os.WriteFile(at("all.csv"), []byte(csvOf(people(300))), 0o600))
	require.Zero(t, cli.Run(t.Context(), []string{"ledger", "create", at("l"), "--epsilon", "3", "--delta", "1e-4"},
		strings.NewReader(""), io.Discard, io.Discard))
	jobs := 0
	sdk.RegisterRunner("late", func(ctx context.Context, p *sdk.Pipeline) (sdk.PipelineResult, error) {
		if jobs++; jobs <= 2 { // the encoding and the opening
			return sdk.Run(ctx, "direct", p)
		}
		return nil, context.DeadlineExceeded
	})
	code, errs := program(t.Context(), "--schema", at("s.json"), "--epsilon", "1", "--data", at("all.csv"), "--out",
		at("m.json"), "--scratch", at("scratch"), "--runner", "late", "--ledger", at("l"), "--loss", "svm")
	require.Equal(t, 1, code, errs)
	require.Contains(t, errs, "already has the entry of this fit: its budget counts as spent")
	require.Contains(t, errs, "the job failed 3 times")
}

// TestHasWorkers checks that runners that start workers want a program for them.
func TestHasWorkers(t *testing.T) {
	flags := []*string{jobopts.EnvironmentType, jobopts.WorkerBinary, jobopts.Endpoint}
	for _, p := range flags {
		defer func(old string) { *p = old }(*p)
	}
	for _, c := range []struct {
		runner, environment, binary, endpoint string
		ok                                    bool
	}{
		{"prism", "", "", "", true}, {"prism", "", "", "localhost:1", false}, {"prism", "DOCKER", "", "", false},
		{"prism", "LOOPBACK", "", "localhost:1", true}, {"direct", "", "", "", true}, {"flink", "", "", "", false},
		{"flink", "", "worker", "", true}, {"flink", "LOOPBACK", "", "", true}, {"spark", "PROCESS", "", "", false},
	} {
		*jobopts.EnvironmentType, *jobopts.WorkerBinary, *jobopts.Endpoint = c.environment, c.binary, c.endpoint
		if err := hasWorkers(c.runner); c.ok {
			require.NoError(t, err, c)
		} else {
			require.ErrorContains(t, err, "--worker_binary is missing", c)
		}
	}
}

// TestIsWorker checks the flag with which a Beam engine starts the program as a worker.
func TestIsWorker(t *testing.T) {
	for arg, want := range map[string]bool{
		"--worker": true, "-worker=true": true, "--worker=true": true, "--worker=false": false, "worker": false,
		"--workers": false,
	} {
		require.Equal(t, want, isWorker(arg), arg)
	}
}
