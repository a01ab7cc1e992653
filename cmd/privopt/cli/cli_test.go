// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/cmd/internal/screen"
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/dp/ledger"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/model"
	"github.com/privopt/privopt/table"
)

// TestMain makes the test binary the program itself, if a test starts it as a process.
func TestMain(m *testing.M) {
	if os.Getenv("PRIVOPT_TEST_MAIN") != "" {
		Main(Run)
	}
	os.Exit(m.Run())
}

func program(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PRIVOPT_TEST_MAIN=1")
	return cmd
}

// call runs the program in this process, and checks the width of its output.
func call(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Run(t.Context(), args, strings.NewReader(stdin), &out, &errs)
	unlimited := strings.Contains(strings.Join(args, " "), "json") || args[0] == "schema" || args[0] == "__complete"
	for _, line := range strings.Split(out.String(), "\n") {
		require.LessOrEqual(t, len([]rune(line)), screen.Unknown+1000*len(args)*btoi(unlimited), line)
	}
	return code, out.String(), errs.String()
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

const people = `{ "schema": 1, "records": 400, "intercept": true, "missing": ["?"],
  "label": {"column": "pays", "positive": ["yes"], "negative": ["no"]},
  "columns": [
    {"name": "age", "min": 20, "max": 80},
    {"name": "job", "levels": ["nurse", "pilot"], "other": true} ] }`

// rows returns n made-up records of people. Pilots and older people pay more often.
func rows(n int, labels bool) string {
	rnd := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	b.WriteString("age,job")
	if labels {
		b.WriteString(",pays")
	}
	b.WriteByte('\n')
	for range n {
		age, job := 20+rnd.IntN(61), []string{"nurse", "pilot", "baker"}[rnd.IntN(3)]
		fmt.Fprintf(&b, "%d,%s", age, job)
		if labels {
			u := float64(age-50)/15 + 2*float64(btoi(job == "pilot"))
			fmt.Fprintf(&b, ",%s", []string{"no", "yes"}[btoi(rnd.Float64() < 1/(1+math.Exp(-u)))])
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// wide returns a schema with so many levels that Gaussian noise is smaller than pure noise.
func wide() string {
	levels := `"nurse"`
	for i := range 60 {
		levels += fmt.Sprintf(`, "job %d"`, i)
	}
	return strings.Replace(people, `"nurse"`, levels, 1)
}

// folder returns a function that gives paths in a new folder with schemas and tables.
func folder(t *testing.T) (path func(name string) string) {
	dir := t.TempDir()
	path = func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{
		"people.json": people, "wide.json": wide(), "people.csv": rows(400, true), "new.csv": rows(7, false),
	} {
		require.NoError(t, os.WriteFile(path(name), []byte(text), 0o600))
	}
	return path
}

func names(t *testing.T, dir string) []string {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// TestScripts runs the scripts of testdata/script, each in a folder with the schemas and tables of
// function folder, and unknown.csv, a table that has no schema. Beside the commands of testscript,
// whose conditions and files they share, lines are
//
//	privopt ARGS…   runs the program, which must succeed; the last may be < FILE
//	fails N ARGS…   runs it, which must end with exit code N and no standard output
//	says TEXT       the words of the standard output have these, whatever the lines; ! says: have not
//	warns TEXT      the same of standard error
//	printed         runs every command that report.html shows, with the schema of model.json
func TestScripts(t *testing.T) {
	var chdir sync.Mutex // scripts run in parallel in one process
	run := func(ts *testscript.TestScript, want int, args []string) (stdout string) {
		chdir.Lock()
		defer chdir.Unlock()
		old, err := os.Getwd()
		ts.Check(err)
		ts.Check(os.Chdir(ts.MkAbs(".")))
		stdin := ""
		if n := len(args) - 2; n > 0 && args[n] == "<" {
			stdin, args = ts.ReadFile(args[n+1]), args[:n]
		}
		code, out, errs := call(t, stdin, args...)
		ts.Check(os.Chdir(old))
		_, err = io.WriteString(ts.Stdout(), out)
		ts.Check(err)
		_, err = io.WriteString(ts.Stderr(), errs)
		ts.Check(err)
		if code != want {
			ts.Fatalf("exit code %d, want %d", code, want)
		}
		return out
	}
	has := func(stream string) func(ts *testscript.TestScript, neg bool, args []string) {
		return func(ts *testscript.TestScript, neg bool, args []string) {
			text := flat(ts.ReadFile(stream))
			if want := strings.Join(args, " "); strings.Contains(text, want) == neg {
				ts.Fatalf("%s has, or has not: %s\n%s", stream, want, text)
			}
		}
	}
	dir, err := filepath.Abs("testdata/script")
	require.NoError(t, err)
	testscript.Run(t, testscript.Params{
		Dir: dir,
		Setup: func(e *testscript.Env) error {
			at := folder(t)
			require.NoError(t, os.WriteFile(at("unknown.csv"), []byte(unknownTable(20000)), 0o600))
			return os.CopyFS(e.WorkDir, os.DirFS(at("")))
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"privopt": func(ts *testscript.TestScript, _ bool, args []string) { run(ts, exitOK, args) },
			"fails": func(ts *testscript.TestScript, _ bool, args []string) {
				code, err := strconv.Atoi(args[0])
				ts.Check(err)
				if out := run(ts, code, args[1:]); out != "" {
					ts.Fatalf("standard output of a command that failed: %s", out)
				}
			},
			"says": has("stdout"), "warns": has("stderr"),
			"printed": func(ts *testscript.TestScript, _ bool, _ []string) {
				var m struct{ Schema json.RawMessage }
				ts.Check(json.Unmarshal([]byte(ts.ReadFile("model.json")), &m))
				ts.Check(os.WriteFile(ts.MkAbs("schema.json"), m.Schema, 0o600))
				page := html.UnescapeString(ts.ReadFile("report.html"))
				commands := regexp.MustCompile(`(?m)(?:^|<code>|<pre>)privopt ([^<\n]*)`).FindAllStringSubmatch(page, -1)
				if len(commands) < 5 {
					ts.Fatalf("%d commands", len(commands))
				}
				for _, c := range commands {
					ts.Logf("> %s", c[1])
					run(ts, exitOK, strings.Fields(c[1]))
				}
			},
		},
	})
}

// TestPredictions: a fit leaves a model that nobody else may read, and predictions are the same as
// CSV and as JSON.
func TestPredictions(t *testing.T) {
	at := folder(t)
	code, _, errs := call(t, "", "fit", "--schema", at("people.json"), "--data", at("people.csv"), "--epsilon", "2",
		"--out", at("model.json"))
	require.Equal(t, 0, code, errs)
	info, err := os.Stat(at("model.json"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.Equal(t, []string{"model.json", "new.csv", "people.csv", "people.json", "wide.json"}, names(t, at("")))
	code, out, errs := call(t, rows(7, false), "predict", "--model", at("model.json"), "--data", "-")
	require.Equal(t, 0, code, errs)
	lines, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	require.NoError(t, err)
	require.Len(t, lines, 8)
	code, out, _ = call(t, "", "predict", "--model", at("model.json"), "--data", at("new.csv"), "--json")
	require.Equal(t, 0, code)
	dec := json.NewDecoder(strings.NewReader(out))
	for _, want := range lines[1:] {
		var got struct {
			Prediction    string
			Score         float64
			Probabilities map[string]float64
		}
		require.NoError(t, dec.Decode(&got))
		require.Equal(t, want[0], got.Prediction)
		require.InDelta(t, 1, got.Probabilities["no"]+got.Probabilities["yes"], 1e-12)
		require.Equal(t, want[0] == "yes", got.Score >= 0)
	}
}

// TestJSON checks that every command prints JSON with the flag -json.
func TestJSON(t *testing.T) {
	at := folder(t)
	task := []string{"--schema", at("people.json"), "--epsilon", "2", "-json"}
	for _, args := range [][]string{
		{"version", "-json"},
		append([]string{"plan"}, task...),
		{"ledger", "create", at("l"), "--epsilon", "3", "--delta", "1e-4", "-json"},
		append([]string{"fit", "--data", at("people.csv"), "--out", at("m.json"), "--ledger", at("l")}, task...),
		{"explain", at("m.json"), "-json"}, {"summary", at("m.json"), "-json"}, {"ledger", "show", at("l"), "-json"},
		{"ledger", "verify", at("l"), at("m.json"), "-json"},
		{"score", "--model", at("m.json"), "--data", at("people.csv"), "-json"},
		{"schema", "--public", at("people.csv"), "-json"},
	} {
		code, out, errs := call(t, "", args...)
		require.Equal(t, 0, code, errs)
		var v map[string]any
		require.NoError(t, json.Unmarshal([]byte(out), &v), args)
		require.NotEmpty(t, v)
	}
	code, out, _ := call(t, "", "fit", "--schema", at("people.json"), "--data", at("people.csv"), "--epsilon", "1",
		"--out", "-")
	require.Equal(t, 0, code)
	_, err := model.Load(strings.NewReader(out))
	require.NoError(t, err, "standard output must contain only the model")
}

// TestHelp checks that every command prints help with examples on standard output, within the width
// of a terminal.
func TestHelp(t *testing.T) {
	for _, c := range []string{
		"", "schema", "plan", "pack", "fit", "predict", "score", "summary", "explain",
		"ledger", "ledger create", "ledger show", "ledger verify", "version",
	} {
		code, out, errs := call(t, "", append(strings.Fields(c), "-h")...)
		require.Equal(t, 0, code, errs)
		require.Empty(t, errs)
		require.Contains(t, out, "Examples:\n  privopt", c)
		for _, line := range strings.Split(out, "\n") {
			require.LessOrEqual(t, len([]rune(line)), 100, line)
		}
	}
	code, out, _ := call(t, "", "__complete", "fit", "--loss", "")
	require.Equal(t, 0, code)
	require.Contains(t, out, "multinomial\n")
}

// TestErrors checks exit codes and messages. A message says what is wrong, where, and how to fix
// it. It does not show the values of fields unless the table is public.
func TestErrors(t *testing.T) {
	at := folder(t)
	put := func(name, text string) string {
		require.NoError(t, os.WriteFile(at(name), []byte(text), 0o600))
		return at(name)
	}
	fit := func(schema, data string, more ...string) []string {
		return append([]string{"fit", "--schema", schema, "--data", data, "--epsilon", "1", "--out", at("out.json")}, more...)
	}
	ok, csv := at("people.json"), at("people.csv")
	code, _, errs := call(t, "", fit(ok, csv, "--out", at("model.json"))...)
	require.Equal(t, 0, code, errs)
	code, _, errs = call(t, "", "ledger", "create", at("small.ledger"), "--epsilon", "0.5")
	require.Equal(t, 0, code, errs)
	broken := strings.Replace(must(os.ReadFile(at("small.ledger"))), "0.5", "5.5", 1)
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{2, `unknown command "bogus"`, []string{"bogus"}},
		{2, "unknown flag: --foo; privopt fit -h", []string{"fit", "--foo"}},
		{2, `required flag(s) "data", "epsilon", "out" not set`, []string{"fit"}},
		{2, `invalid argument "x" for "--epsilon" flag: want a number in decimal`, []string{"fit", "--epsilon", "x"}},
		{2, `unexpected argument "model.json"`, []string{"predict", "model.json"}},
		{2, "Epsilon = -1", fit(ok, csv, "--epsilon", "-1")},
		{1, "no such file", fit(at("none.json"), csv)},
		{1, "no such file", fit(ok, at("none.csv"))},
		{2, "is a folder", fit(ok, filepath.Dir(csv))},
		{2, "both standard input", fit("-", "-")},
		{2, "there is no folder", fit(ok, csv, "--out", at("none/m.json"))},
		{2, "exists: choose another name, or --force", fit(ok, csv, "--out", at("model.json"))},
		{2, "--clip 3: want a share in (0, 1]", fit(ok, csv, "--clip", "3")},
		{2, "--clip -1: want a share in (0, 1]", fit(ok, csv, "--clip", "-1")},
		{2, `columns[0].min: 90 is not below max = 80`, fit(put("s1", strings.Replace(people, `"min": 20`, `"min": 90`, 1)),
			csv)},
		{2, `unknown key "mim"`, fit(put("s2", strings.Replace(people, `"min"`, `"mim"`, 1)), csv)},
		{2, `declare "records": N in `, fit(put("s3", strings.Replace(people, `"records": 400,`, ``, 1)), csv)},
		{2, "line 3: 2 fields, want 3", fit(ok, put("t1", "age,job,pays\n30,nurse,yes\n40,SECRET\n"))},
		{2, `line 2, column 3 ("pays", the label): text, want one of the 2 declared spellings`,
			fit(ok, put("t2", "age,job,pays\n30,nurse,SECRET\n"))},
		{2, `line 2, column 1 ("age"): text, want a number`, fit(ok, put("t3", "age,job,pays\nSECRET,nurse,yes\n"))},
		{2, `the file has no column "job"`, fit(ok, put("t4", "age,pays\n30,yes\n"))},
		{2, `"SECRET", want a number`, fit(ok, at("t3"), "--public")},
		{2, "no records", fit(ok, put("t5", "age,job,pays\n"))},
		{2, "--loss", fit(ok, csv, "--loss")},
		{2, `the label of the schema is two classes`, fit(ok, csv, "--loss", "squares")},
		{2, `--set "ball:x"`, fit(ok, csv, "--set", "ball:x")},
		{2, `"x" for "--neighbors" flag: invalid relation: "x", want "replace" or "add-remove"`,
			fit(ok, csv, "--neighbors", "x")},
		{2, "--seed \"x\": want a whole number", fit(ok, csv, "--seed", "x")},
		{2, "add --intervals, or leave them out", fit(ok, csv, "--bound", "3")},
		{1, "privopt ledger create", fit(ok, csv, "--ledger", at("none.ledger"))},
		{3, "want at most ε = 0.5", fit(ok, csv, "--delta", "0", "--ledger", at("small.ledger"))},
		{3, "state a smaller one with --delta", fit(at("wide.json"), csv, "--epsilon", "0.1", "--ledger",
			at("small.ledger"))},
		{3, "--seed with --ledger", fit(ok, csv, "--seed", "1", "--ledger", at("small.ledger"))},
		{3, "its hash is not that of its text", fit(ok, csv, "--ledger", put("broken.ledger", broken))},
		{3, "add-remove neighbors, want replace",
			fit(ok, csv, "--delta", "0", "--epsilon", "0.1", "--neighbors", "add-remove", "--ledger", at("small.ledger"))},
		{3, "made without a ledger", []string{"ledger", "verify", at("small.ledger"), at("model.json")}},
		{2, "exists: use it", []string{"ledger", "create", at("small.ledger"), "--epsilon", "1"}},
		{2, "no JSON of a model", []string{"explain", csv}},
		{2, "version 9 of the form", []string{"explain", put("m9", `{"model": 9}`)}},
		{1, "no such file", []string{"summary", at("none.json")}},
		{2, `column 1 ("age")`,
			[]string{"predict", "--model", at("model.json"), "--data", put("t6", "age,job\nSECRET,nurse\n"), "--out",
				at("out.csv")}},
		{2, "no records to compare with", []string{"score", "--model", at("model.json"), "--data", at("t5")}},
		{2, `no column "pays"`, []string{"score", "--model", at("model.json"), "--data", at("new.csv")}},
		{2, "want --public FILE", []string{"schema"}},
		{2, "the one example is adult", []string{"schema", "--example", "x"}},
	} {
		code, out, errs := call(t, "", c.args...)
		require.Equal(t, c.code, code, "%v\n%s", c.args, errs)
		errs = unforeseen(errs)
		require.Contains(t, errs, c.want)
		require.Empty(t, out)
		require.Equal(t, 1, strings.Count(errs, "\n"), "%q is one line", errs)
		require.True(t, strings.HasPrefix(errs, "privopt"), errs)
		require.NotRegexp(t, `: (model|table|ledger|dp|lop|erm|linear|loss|noise|npy|release): `, errs)
		if !strings.Contains(strings.Join(c.args, " "), "--public") {
			require.NotContains(t, errs, "SECRET")
		}
	}
	for _, name := range names(t, filepath.Dir(csv)) {
		require.False(t, strings.HasPrefix(name, "out."), name)
		require.False(t, strings.HasPrefix(name, "."), "%s is left", name)
	}
	l, err := ledger.Open(at("small.ledger"))
	require.NoError(t, err)
	require.Empty(t, l.Entries(), "a refused fit must cost nothing")
	for err, want := range map[error]int{
		dp.ErrWithheld: exitWithheld, dp.ErrCondition: exitRefused, ledger.ErrBusy: exitFailure, syscall.ENOSPC: exitFailure,
		fmt.Errorf("%w: %w", table.ErrTable, context.Canceled): exitCancelled, context.DeadlineExceeded: exitFailure,
	} {
		require.Equal(t, want, exitCode(err), err)
	}
}

func must(text []byte, err error) string {
	if err != nil {
		panic(err)
	}
	return string(text)
}

// endless is an input that closes the channel read when it is read for the first time, and never
// returns data.
type endless struct {
	read chan struct{}
	once sync.Once
}

func (e *endless) Read(p []byte) (int, error) {
	e.once.Do(func() { close(e.read) })
	// This blocks like a terminal at which nobody types.
	select {}
}

// TestCancel checks that Ctrl-C ends a fit that waits for input, with an exit code of its own, and
// that no file is left.
func TestCancel(t *testing.T) {
	at := folder(t)
	before := names(t, at(""))
	ctx, cancel := context.WithCancel(t.Context())
	in := &endless{read: make(chan struct{})}
	go func() { <-in.read; cancel() }()
	var out, errs bytes.Buffer
	code := Run(ctx, []string{"fit", "--schema", at("people.json"), "--data", "-", "--epsilon", "3", "--out",
		at("m.json")}, in, &out, &errs)
	require.Equal(t, exitCancelled, code)
	require.Equal(t, "privopt fit: cancelled\n", errs.String())
	require.Empty(t, out.String())
	require.Equal(t, before, names(t, at("")))
}

// TestClosedPipe checks that the program prints no error message if the reader of its output closes
// the pipe.
func TestClosedPipe(t *testing.T) {
	at := folder(t)
	code, _, errs := call(t, "", "fit", "--schema", at("people.json"), "--data", at("people.csv"), "--epsilon", "1",
		"--out", at("m.json"))
	require.Equal(t, 0, code, errs)
	pr, pw := io.Pipe()
	require.NoError(t, pr.Close())
	var stderr bytes.Buffer
	code = Run(t.Context(), []string{"predict", "--model", at("m.json"), "--data", at("new.csv")}, nil, pw, &stderr)
	require.Equal(t, exitFailure, code)
	require.Empty(t, stderr.String())
}

// TestLock checks that of two programs with the same --out one writes the file and the other
// refuses.
func TestLock(t *testing.T) {
	at := folder(t)
	o, err := (&app{}).create(at("m.json"), kindModel, false, 0)
	require.NoError(t, err)
	args := []string{"fit", "--schema", at("people.json"), "--data", at("people.csv"), "--epsilon", "1", "--out",
		at("m.json")}
	out, err := program("", args...).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "another process is writing this file")
	o.abandon()
	out, err = program("", args...).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, []string{"m.json", "new.csv", "people.csv", "people.json", "wide.json"}, names(t, at("")))
}

// TestKill kills fits with a ledger at arbitrary moments. Every model must have its entry in the
// ledger, no entry may be lost, and no model may be half written.
func TestKill(t *testing.T) {
	at := folder(t)
	kills := testkit.Of(15, 100)
	code, _, errs := call(t, "", "ledger", "create", at("l"), "--epsilon", "200", "--delta", "1e-2")
	require.Equal(t, 0, code, errs)
	fit := func(out string) *exec.Cmd {
		return program("", "fit", "--schema", at("people.json"), "--data", at("people.csv"), "--epsilon", "1", "--ledger",
			at("l"), "--out", out)
	}
	start := time.Now()
	require.NoError(t, fit(at("whole.json")).Run())
	whole := time.Since(start)
	rnd := rand.New(rand.NewPCG(3, 4))
	released, killed, paid, length := 1, 0, 1, size(t, at("l"))
	for i := range kills {
		path := at(fmt.Sprintf("m%d.json", i))
		cmd := fit(path)
		require.NoError(t, cmd.Start())
		if i%2 == 0 {
			time.Sleep(time.Duration(float64(i) / float64(kills) * rnd.Float64() * 3 * float64(whole))) // the first at once
		} else { // kill between the entry and the model
			for size(t, at("l")) == length {
				time.Sleep(100 * time.Microsecond)
			}
			time.Sleep(time.Duration(rnd.Float64() * float64(20*time.Millisecond)))
		}
		require.NoError(t, cmd.Process.Kill())
		if cmd.Wait() != nil {
			killed++
		}
		l, err := ledger.Open(at("l"))
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(l.Entries()), paid, "an entry is lost")
		require.LessOrEqual(t, len(l.Entries()), paid+1)
		entered := len(l.Entries()) > paid
		paid, length = len(l.Entries()), size(t, at("l"))
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		released++
		m, err := model.Load(bytes.NewReader(text))
		require.NoError(t, err, "half a model")
		require.True(t, entered, "a model without its entry")
		require.NoError(t, l.VerifyFile(m.LedgerHead(), m.Certificate(), text))
	}
	t.Logf("%d of %d killed, %d entries, %d models", killed, kills, paid, released)
	require.Positive(t, killed)
	require.GreaterOrEqual(t, paid, released)
}

func size(t *testing.T, path string) int64 {
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Size()
}

// TestIntervalsByDefault checks that fit --intervals gives every column of levels a reference, so
// that a table with an intercept and levels has intervals without any bound.
func TestIntervalsByDefault(t *testing.T) {
	at := folder(t)
	require.NoError(t, os.WriteFile(at("many.csv"), []byte(rows(20000, true)), 0o600))
	code, _, errs := call(t, "", "fit", "--schema", at("people.json"), "--data", at("many.csv"), "--epsilon", "3",
		"--delta", "1e-8", "--intervals", "--seed", "5", "--out", at("m.json"))
	require.Equal(t, 0, code, errs)
	code, out, errs := call(t, "", "summary", "--json", at("m.json"))
	require.Equal(t, 0, code, errs)
	var s model.Summary
	require.NoError(t, json.Unmarshal([]byte(out), &s))
	require.Len(t, s.Rows, 4)
	for k, truth := range []float64{-50. / 15, 1. / 15, 2, 0} { // nurses are the reference
		i := s.Rows[k].Interval
		require.False(t, i.Weak, s.Rows[k].Name)
		require.InDelta(t, truth, i.Debiased, 4.9*i.StdErr, s.Rows[k].Name)
		require.Less(t, i.StdErr, 0.3)
	}
	require.Equal(t, "job=pilot", s.Rows[2].Name)
}
