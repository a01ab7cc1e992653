// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package sweep

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// toy is an experiment whose outcomes use their streams, and which counts the
// cells it prepares.
type toy struct {
	Experiment
	prepared atomic.Int64
	hook     func(n int64) // called after the n-th cell is prepared
}

func newToy() *toy {
	t := &toy{}
	t.Experiment = Experiment{
		Name:    "toy",
		Files:   "risk",
		Sweep:   "x",
		Values:  []float64{0.1, 1, 10, 100},
		Methods: []string{"a", "b", "zero"},
		Params:  map[string]any{"n": 3, "mode": "plain"},
		Plot:    Plot{Title: "Toy", X: "x", Y: "risk", Dashed: []string{"b"}, Legend: map[string]string{"a": "method A"}},
	}
	t.Prepare = func(ctx context.Context, c Cell) (Task, error) {
		n := t.prepared.Add(1)
		if t.hook != nil {
			t.hook(n)
		}
		sum := 0.0
		return Task{Runs: 5, Run: func(ctx context.Context, src rand.Source) (float64, error) {
			if c.Method == "zero" {
				return 0, nil
			}
			x := c.Value * rand.New(src).Float64()
			sum += x
			return x, nil
		}, Detail: func() any { return map[string]float64{"sum": sum} }}, nil
	}
	return t
}

func seeded(dir string) *Options {
	seed := uint64(7)
	return &Options{
		Seed:    &seed,
		Out:     dir,
		Formats: []string{"csv", "json", "svg"},
	} // png takes most of a second under -race
}

// runToy carries t out and returns what it wrote to the two streams.
func runToy(ctx context.Context, t *toy, o *Options) (stdout, stderr string, err error) {
	var out, errs bytes.Buffer
	_, err = t.Run(ctx, o, &out, &errs)
	return out.String(), errs.String(), err
}

// contents reads a folder, with every duration in it replaced by a fixed text.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	files := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		s := string(text)
		switch filepath.Ext(e.Name()) {
		case ".csv":
			s = regexp.MustCompile(`(?m),[^,\n]*$`).ReplaceAllString(s, ",T")
		case ".jsonl":
			s = regexp.MustCompile(`"seconds":[^,}]*`).ReplaceAllString(s, `"seconds":T`)
		case ".json":
			s = regexp.MustCompile(`(?s)"seconds": \{.*`).ReplaceAllString(s, "T")
		}
		files[e.Name()] = s
	}
	return files
}

func TestValuesDoNotDependOnWorkers(t *testing.T) {
	var want map[string]string
	for _, workers := range []int{1, 2, 5} {
		dir := t.TempDir()
		o := seeded(dir)
		o.Workers, o.Formats = workers, allFormats
		_, _, err := runToy(t.Context(), newToy(), o)
		require.NoError(t, err)
		got := contents(t, dir)
		require.Len(t, got, 5)
		if want == nil {
			want = got
		}
		require.Equal(t, want, got, "workers %d", workers)
	}
}

func TestCellDoesNotDependOnTheGrid(t *testing.T) {
	whole, one := newToy(), newToy()
	one.Values, one.Methods = []float64{10}, []string{"b"}
	a, err := whole.Run(t.Context(), seeded(t.TempDir()), io.Discard, io.Discard)
	require.NoError(t, err)
	b, err := one.Run(t.Context(), seeded(t.TempDir()), io.Discard, io.Discard)
	require.NoError(t, err)
	require.Equal(t, "b", a[7].Method)
	require.Equal(t, a[7].Mean, b[0].Mean)
	require.NotEqual(t, a[6].Mean, a[7].Mean, "methods share no stream")
}

func TestWithoutSeedNoiseIsNew(t *testing.T) {
	o := &Options{Out: t.TempDir(), Formats: []string{"csv"}}
	a, err := newToy().Run(t.Context(), o, io.Discard, io.Discard)
	require.NoError(t, err)
	o.Force = true
	b, err := newToy().Run(t.Context(), o, io.Discard, io.Discard)
	require.NoError(t, err)
	require.NotEqual(t, a[0].Mean, b[0].Mean)
	require.Empty(t, a[0].NotPrivate)
}

// An interrupted run, continued, ends with the bytes of an uninterrupted one
// and solves no finished cell again.
func TestResumeEqualsUninterrupted(t *testing.T) {
	wantDir := t.TempDir()
	_, _, err := runToy(t.Context(), newToy(), seeded(wantDir))
	require.NoError(t, err)
	want := contents(t, wantDir)
	for _, workers := range []int{1, 3} {
		for _, after := range []int64{1, 4, 11} {
			dir := t.TempDir()
			o := seeded(dir)
			o.Workers = workers
			ctx, cancel := context.WithCancel(t.Context())
			first := newToy()
			first.hook = func(n int64) {
				if n == after {
					cancel()
				}
			}
			_, notes, err := runToy(ctx, first, o)
			require.ErrorIs(t, err, context.Canceled)
			require.Equal(t, ExitInterrupted, ExitCode(err))
			require.Contains(t, notes, "-resume continues")
			kept := strings.Count(contents(t, dir)["cells.jsonl"], "\n") - 1
			require.NotContains(t, contents(t, dir), "risk.csv")

			// Without -resume or -force nothing there is touched.
			before := contents(t, dir)
			_, _, err = runToy(t.Context(), newToy(), o)
			require.ErrorIs(t, err, ErrUsage)
			require.Contains(t, err.Error(), "-resume")
			require.Equal(t, before, contents(t, dir))

			second := newToy()
			o.Resume = true
			_, _, err = runToy(t.Context(), second, o)
			require.NoError(t, err)
			require.EqualValues(t, 12-kept, second.prepared.Load(), "cells solved after the resume")
			require.Equal(t, want, contents(t, dir))

			// Resuming a finished run solves nothing and changes nothing.
			third := newToy()
			_, _, err = runToy(t.Context(), third, o)
			require.NoError(t, err)
			require.Zero(t, third.prepared.Load())
			require.Equal(t, want, contents(t, dir))
		}
	}
}

func TestResumeRepairsATruncatedLine(t *testing.T) {
	dir := t.TempDir()
	o := seeded(dir)
	_, _, err := runToy(t.Context(), newToy(), o)
	require.NoError(t, err)
	want := contents(t, dir)
	path := filepath.Join(dir, "cells.jsonl")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := bytes.SplitAfter(text, []byte("\n"))
	head := bytes.Join(lines[:4], nil)
	o.Resume = true
	for name, tail := range map[string][]byte{
		"half a line":           lines[4][:len(lines[4])/2],
		"line without its end":  lines[4][:len(lines[4])-1],
		"one byte":              lines[4][:1],
		"zeros after a crash":   make([]byte, 40),
		"zeros and an end":      append(make([]byte, 40), '\n'),
		"nothing but its end":   []byte("\n"),
		"an earlier line twice": lines[2],
	} {
		require.NoError(t, os.WriteFile(path, append(bytes.Clone(head), tail...), 0o644))
		again := newToy()
		_, _, err = runToy(t.Context(), again, o)
		require.NoError(t, err, name)
		require.EqualValues(t, 12-3, again.prepared.Load(), name)
		require.Equal(t, want, contents(t, dir), name)
	}

	require.NoError(
		t,
		os.WriteFile(path, bytes.Join([][]byte{lines[0], lines[1], []byte("{\"sweep\n"), lines[2]}, nil), 0o644),
	)
	_, _, err = runToy(t.Context(), newToy(), o)
	require.ErrorIs(t, err, ErrUsage)
	require.Contains(t, err.Error(), "line 3")
	require.NoError(t, os.WriteFile(path, []byte("something else\n"), 0o644))
	_, _, err = runToy(t.Context(), newToy(), o)
	require.ErrorIs(t, err, ErrUsage)
}

func TestResumeRefusesAnotherExperiment(t *testing.T) {
	dir := t.TempDir()
	o := seeded(dir)
	o.Formats = []string{"csv", "png"}
	_, _, err := runToy(t.Context(), newToy(), o)
	require.NoError(t, err)
	before := contents(t, dir)
	for want, change := range map[string]func(*toy, *Options){
		"n was 3 and is 4":       func(e *toy, o *Options) { e.Params = map[string]any{"n": 4, "mode": "plain"} },
		"seed was 7 and is null": func(e *toy, o *Options) { o.Seed = nil },
		"values was":             func(e *toy, o *Options) { e.Values = []float64{1} },
		"methods was":            func(e *toy, o *Options) { e.Methods = []string{"a"} },
		"extra was absent":       func(e *toy, o *Options) { e.Params = map[string]any{"n": 3, "mode": "plain", "extra": 1} },
	} {
		e, o := newToy(), seeded(dir)
		o.Resume = true
		change(e, o)
		_, _, err := runToy(t.Context(), e, o)
		require.ErrorIs(t, err, ErrUsage, want)
		require.Contains(t, err.Error(), want)
		require.Equal(t, ExitUsage, ExitCode(err))
		require.Zero(t, e.prepared.Load())
	}
	require.Equal(t, before, contents(t, dir))

	o.Force, o.Formats = true, []string{"csv"}
	_, _, err = runToy(t.Context(), newToy(), o)
	require.NoError(t, err)
	require.NotContains(t, contents(t, dir), "risk.png", "an overwritten run leaves no older figure behind")
}

func TestForeignFilesAreNotOverwritten(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "risk.csv"), []byte("mine"), 0o644))
	_, _, err := runToy(t.Context(), newToy(), seeded(dir))
	require.ErrorIs(t, err, ErrUsage)
	require.Contains(t, err.Error(), "risk.csv")
	require.Equal(t, map[string]string{"risk.csv": "mine"}, contents(t, dir))

	// An editor's file is not what an interrupted write left behind.
	dir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".summary.json.swp"), []byte("mine"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".risk.csv.123"), []byte("left"), 0o644))
	_, _, err = runToy(t.Context(), newToy(), seeded(dir))
	require.NoError(t, err)
	require.Equal(t, "mine", contents(t, dir)[".summary.json.swp"])
	require.NotContains(t, contents(t, dir), ".risk.csv.123")
}

func TestFailureOfACell(t *testing.T) {
	boom := errors.New("boom")
	for _, workers := range []int{1, 4} {
		e := newToy()
		prepare := e.Prepare
		e.Prepare = func(ctx context.Context, c Cell) (Task, error) {
			if c.Value == 10 && c.Method != "a" {
				return Task{}, boom
			}
			return prepare(ctx, c)
		}
		o := seeded(t.TempDir())
		o.Workers = workers
		_, _, err := runToy(t.Context(), e, o)
		require.ErrorIs(t, err, boom)
		require.Equal(t, "x = 10, method b: boom", err.Error(), "the first failure in order")
		require.Equal(t, ExitFailure, ExitCode(err))
	}
}

func TestNoNonFiniteNumberLeaves(t *testing.T) {
	for _, bad := range []func(i int) float64{
		func(int) float64 { return posInf() },
		func(i int) float64 { return 1.7e308 * float64(1-2*(i%2)) }, // finite outcomes, infinite deviation
	} {
		e := newToy()
		e.Prepare = func(context.Context, Cell) (Task, error) {
			i := 0
			return Task{Runs: 2, Run: func(context.Context, rand.Source) (float64, error) { i++; return bad(i), nil }}, nil
		}
		_, _, err := runToy(t.Context(), e, seeded(t.TempDir()))
		require.ErrorContains(t, err, "float64")
	}
}

func TestFilesAndStreams(t *testing.T) {
	dir := t.TempDir()
	e, o := newToy(), seeded(dir)
	o.Formats = allFormats
	e.NotPrivate = "published constants"
	e.Summarize = func(r []Result) (any, []string) { return len(r), []string{"closing line"} }
	stdout, stderr, err := runToy(t.Context(), e, o)
	require.NoError(t, err)
	const label = "published constants; noise from a fixed seed"
	require.True(t, strings.HasPrefix(stdout, "NOT PRIVATE: "+label+"\n"), stdout)
	require.Equal(t, 6, strings.Count(stdout, "\n"), "label, header, four values")
	require.Contains(t, stderr, "NOT PRIVATE: "+label)
	require.Contains(t, stderr, "toy: closing line")

	f, err := os.Open(filepath.Join(dir, "risk.csv"))
	require.NoError(t, err)
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	require.Equal(t, "sweep,value,method,runs,mean,std,stderr,seconds", strings.Join(rows[0], ","))
	require.Len(t, rows, 13)
	require.Equal(t, []string{"x (not private)", "0.1", "a", "5"}, rows[1][:4])

	var s summary
	text, err := os.ReadFile(filepath.Join(dir, "summary.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &s))
	require.Equal(t, label, s.NotPrivate)
	require.EqualValues(t, 7, *s.Environment.Seed)
	require.EqualValues(t, 12, s.Results)
	require.Equal(t, methodTotal{"a", 4, 20}, s.Methods[0])
	for _, name := range []string{"risk.svg", "cells.jsonl"} {
		require.NotEmpty(t, contents(t, dir)[name])
	}
	require.Contains(t, contents(t, dir)["risk.svg"], "NOT PRIVATE")

	o.Resume, o.Quiet = true, true
	_, stderr, err = runToy(t.Context(), e, o)
	require.NoError(t, err)
	require.Empty(t, stderr)
}

// TestJSONSchema fixes the names and the order of the fields of a cell: programs read them.
func TestJSONSchema(t *testing.T) {
	o := seeded(t.TempDir())
	_, _, err := runToy(t.Context(), newToy(), o)
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(o.Out, checkpointName))
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")[1:]
	require.Len(t, lines, 12)
	shape := regexp.MustCompile(`^\{"schema_version":2,"sweep":"x","value":[^,]+,"method":"[a-z]+",` +
		`"runs":5,"mean":[^,]+,"std":[^,]+,"stderr":[^,]+,"seconds":[^,]+,"not_private":"[^"]+","detail":\{[^}]*\}\}$`)
	for i, line := range lines {
		require.Regexp(t, shape, line)
		var r Result
		require.NoError(t, json.Unmarshal([]byte(line), &r))
		require.Equal(t, newToy().cells()[i].Method, r.Method, "cells come in order")
	}
}

// failing is a standard output that breaks after some bytes.
type failing struct {
	left int
	err  error
}

func (f *failing) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, f.err
	}
	return len(p), nil
}

func TestBrokenStandardOutput(t *testing.T) {
	dir := t.TempDir()
	_, err := newToy().Run(t.Context(), seeded(dir), &failing{150, io.ErrClosedPipe}, io.Discard)
	require.ErrorIs(t, err, io.ErrClosedPipe)
	require.Equal(t, ExitFailure, ExitCode(err))
	var stderr bytes.Buffer
	report(&stderr, "toy", err)
	require.Empty(t, stderr.String(), "a reader that left hears nothing")
	require.Contains(t, contents(t, dir), "risk.csv", "files come before the table")
}

func TestFolderThatCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	_, _, err := runToy(t.Context(), newToy(), seeded(filepath.Join(file, "out")))
	require.Equal(t, ExitUsage, ExitCode(err), "a flag that names no folder")
	require.Contains(t, err.Error(), "-out")
	if os.Geteuid() != 0 { // root may write anywhere
		dir := t.TempDir()
		require.NoError(t, os.Chmod(dir, 0o500))
		_, _, err = runToy(t.Context(), newToy(), seeded(dir))
		require.Equal(t, ExitFailure, ExitCode(err))
	}
	// A folder in the place of a result: no part of the file remains.
	dir := t.TempDir()
	o := seeded(dir)
	o.Force = true
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "risk.csv", "x"), 0o755))
	_, _, err = runToy(t.Context(), newToy(), o)
	require.Equal(t, ExitFailure, ExitCode(err))
}

func TestExperimentsThatAreRefused(t *testing.T) {
	for _, change := range []func(*toy){
		func(e *toy) { e.Values = nil },
		func(e *toy) { e.Methods = nil },
		func(e *toy) { e.Values = []float64{1, 1} },
		func(e *toy) { e.Methods = []string{"a", "a"} },
		func(e *toy) { e.Values = []float64{1, posInf()} },
	} {
		e := newToy()
		change(e)
		_, _, err := runToy(t.Context(), e, seeded(t.TempDir()))
		require.ErrorIs(t, err, ErrUsage)
	}
	e := newToy()
	e.Params = func() {}
	_, _, err := runToy(t.Context(), e, seeded(t.TempDir()))
	require.ErrorContains(t, err, "parameters")
}

func posInf() float64 { return math.Inf(1) }
