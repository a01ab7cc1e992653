// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package sweep runs experiments that repeat a randomized computation over a grid: swept value ×
// method × run. Every experiment of this module shares it: parallel workers with reproducible
// streams, a checkpoint that survives kill −9, tables, CSV, JSON, plots and progress. The
// experiment says what one cell computes and nothing else.
//
//	var o sweep.Options
//	f := sweep.NewFlags("mean", "Mean of a noisy count.")
//	o.Register(f, "mean-out")
//	code := f.RunExperiment(ctx, args, stdout, stderr, &o, nil, func() (*sweep.Experiment, error) {
//		return &sweep.Experiment{Name: "mean", Sweep: "eps", Values: []float64{1, 2},
//			Methods: []string{"laplace"}, Prepare: prepare}, nil
//	})
//
// # Notation
//
//	cell        one (value, method) with all its runs: the unit of work and of the checkpoint
//	run         one repetition with fresh noise, its own stream
//	mean        Σ outcome / runs
//	std         sqrt(Σ (outcome − mean)² / (runs − 1)), 0 for one run
//	stderr      std / sqrt(runs)
//
// # Randomness
//
// With a seed, the stream of a run depends on the seed, the names of experiment and sweep, the
// value, the method and the number of the run. Values do not depend on the number of workers, on
// the other cells or on interruptions. Anyone can draw seeded noise again, and so it is labelled
// not private. Without a seed every run draws secure noise, and a resumed experiment draws new
// noise for its remaining cells.
//
// # Files
//
// Options.Out receives cells.jsonl: a header line, then one line a finished cell in order of
// completion, synced before its worker goes on, and at the end in order of cells. At the end it
// receives NAME.csv, NAME.png, NAME.svg and summary.json, each written aside and renamed.
package sweep

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"gonum.org/v1/gonum/stat"

	"github.com/privopt/privopt/cmd/internal/screen"
	"github.com/privopt/privopt/internal/noise"
)

// SchemaVersion is the version of the JSON objects and files written here. It
// changes when a field changes its meaning or goes; new fields do not count.
const SchemaVersion = 2

// Cell is one point of the grid. Index counts in output order: values outside, methods inside.
type Cell struct {
	Index  int
	Value  float64
	Method string
}

// Task is one prepared cell. Its runs follow one another on one goroutine.
type Task struct {
	// Runs is the number of runs, at least 1.
	Runs int
	// Run returns the outcome of one run, a finite number, drawing all its randomness from src.
	Run func(ctx context.Context, src rand.Source) (float64, error)
	// Detail, if not nil, is called after the last run. Its value is kept with the cell as JSON and
	// given back to Experiment.Summarize, also after a resume.
	Detail func() any
}

// Experiment describes a sweep. Name, Sweep, Values, Methods and Prepare are
// required; Values and Methods hold no value twice.
type Experiment struct {
	Name    string // of the program; enters the streams and messages
	Files   string // base name of the files; "" means Name
	Sweep   string // name of the swept quantity
	Values  []float64
	Methods []string

	// Params is everything else that decides the results, as JSON: with Name, Sweep, Values, Methods
	// and the seed it identifies the experiment that Options.Resume may continue.
	Params any

	// NotPrivate, if not empty, says why the results are not private. It is shown above the table, in
	// the plot's title, in the summary and in each cell of the checkpoint, and marks the sweep column
	// of the CSV. A seed adds its own reason.
	NotPrivate string

	// Prepare calibrates a cell: whatever its runs share is done here once.
	// It is called by several goroutines.
	Prepare func(ctx context.Context, c Cell) (Task, error)

	// Summarize, if not nil, returns the object stored under "results" in
	// summary.json and the lines printed on standard error at the end.
	Summarize func(results []Result) (any, []string)

	Plot Plot

	// Columns are added to the CSV file.
	Columns []Column
}

// Result is a finished cell. Its JSON form is the line of the checkpoint.
type Result struct {
	SchemaVersion int             `json:"schema_version"`
	Sweep         string          `json:"sweep"`
	Value         float64         `json:"value"`
	Method        string          `json:"method"`
	Runs          int             `json:"runs"`
	Mean          float64         `json:"mean"`
	Std           float64         `json:"std"`
	StdErr        float64         `json:"stderr"`
	Seconds       float64         `json:"seconds"`
	NotPrivate    string          `json:"not_private,omitempty"`
	Detail        json.RawMessage `json:"detail,omitempty"`
}

// Average sets mean, deviation and standard error to those of the outcomes.
func (r *Result) Average(outcomes []float64) {
	r.Mean, r.Std = stat.MeanStdDev(outcomes, nil)
	if len(outcomes) == 1 {
		r.Std = 0
	}
	r.StdErr = r.Std / math.Sqrt(float64(len(outcomes)))
}

// DetailOf reads the detail of a cell; false if there is none.
func DetailOf[D any](r Result) (d D, ok bool) {
	if r.Detail == nil || json.Unmarshal(r.Detail, &d) != nil {
		return *new(D), false
	}
	return d, true
}

// key identifies a cell across processes.
func key(value float64, method string) string { return format(value) + " " + method }

// format writes x in the shortest form that reads back as x.
func format(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// check reports mistakes in the description of an experiment.
func (e *Experiment) check() error {
	err := Refuse(len(e.Values) == 0 || len(e.Methods) == 0, "an experiment needs at least one value and one method")
	seen := map[string]bool{}
	for _, c := range e.cells() {
		k := key(c.Value, c.Method)
		err = First(err,
			Refuse(seen[k], "%s = %s with method %s is listed twice: list each value and each method once", e.Sweep,
				format(c.Value), c.Method),
			Refuse(!finite(c.Value), "%s = %v, want finite values", e.Sweep, c.Value))
		seen[k] = true
	}
	return err
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// cells lists the grid in output order.
func (e *Experiment) cells() []Cell {
	cells := make([]Cell, 0, len(e.Values)*len(e.Methods))
	for _, v := range e.Values {
		for _, m := range e.Methods {
			cells = append(cells, Cell{len(cells), v, m})
		}
	}
	return cells
}

// notPrivate joins the reasons for which results are not private.
func (e *Experiment) notPrivate(o *Options) string {
	const seeded = "noise from a fixed seed"
	switch {
	case o.Seed == nil:
		return e.NotPrivate
	case e.NotPrivate == "":
		return seeded
	}
	return e.NotPrivate + "; " + seeded
}

// source returns the stream of one run.
func (e *Experiment) source(o *Options, c Cell, run int) rand.Source {
	if o.Seed == nil {
		return noise.Secure()
	}
	return noise.Reproducible(*o.Seed, e.Name, e.Sweep, format(c.Value), c.Method, strconv.Itoa(run))
}

// solve prepares a cell and carries out its runs.
func (e *Experiment) solve(ctx context.Context, o *Options, c Cell) (r Result, err error) {
	start := time.Now()
	r = Result{SchemaVersion: SchemaVersion, Sweep: e.Sweep, Value: c.Value, Method: c.Method,
		NotPrivate: e.notPrivate(o)}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s = %s, method %s: %w", e.Sweep, format(c.Value), c.Method, err)
		}
	}()
	const exceed = ": the parameters exceed what float64 can hold"
	task, err := e.Prepare(ctx, c)
	if err != nil {
		return r, err
	}
	outcomes := make([]float64, task.Runs)
	for i := range outcomes {
		if err := ctx.Err(); err != nil {
			return r, err
		}
		if outcomes[i], err = task.Run(ctx, e.source(o, c, i)); err != nil {
			return r, err
		}
		if !finite(outcomes[i]) {
			return r, errors.New("the outcome is not a finite number" + exceed)
		}
	}
	r.Runs = task.Runs
	if r.Average(outcomes); !finite(r.Mean) || !finite(r.Std) {
		return r, errors.New("mean or standard deviation overflow" + exceed)
	}
	if task.Detail != nil {
		if r.Detail, err = json.Marshal(task.Detail()); err != nil {
			return r, err
		}
	}
	r.Seconds = time.Since(start).Seconds()
	return r, nil
}

// compute solves the cells that are not in done and returns all results in order. Every finished
// cell is passed to record before its worker goes on. On a failure no further cell begins, those
// under way are finished, and the failure of the first cell is returned.
func (e *Experiment) compute(
	ctx context.Context, o *Options, done map[string]Result, record func(Result) error,
) (results []Result, err error) {
	cells := e.cells()
	solved, failed := make([]*Result, len(cells)), make([]error, len(cells))
	for i, c := range cells {
		if r, ok := done[key(c.Value, c.Method)]; ok {
			solved[i] = &r
		}
	}
	var mu sync.Mutex // guards all below, solved and failed
	var stop error    // why no more cells are handed out
	next := 0         // the first cell that is not handed out
	take := func() (c Cell, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		for ; next < len(cells) && stop == nil && ctx.Err() == nil; next++ {
			if solved[next] == nil {
				next++
				return cells[next-1], true
			}
		}
		return c, false
	}
	var wg sync.WaitGroup
	for range min(cmp.Or(o.Workers, runtime.GOMAXPROCS(0)), len(cells)) {
		wg.Go(func() {
			for c, ok := take(); ok; c, ok = take() {
				r, err := e.solve(ctx, o, c)
				if err == nil {
					err = record(r)
				}
				mu.Lock()
				if err == nil {
					solved[c.Index] = &r
				}
				failed[c.Index], stop = err, First(stop, err)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for _, r := range solved {
		if r != nil {
			results = append(results, *r)
		}
	}
	if len(results) < len(cells) && ctx.Err() != nil {
		return results, fmt.Errorf("interrupted: %w", ctx.Err())
	}
	return results, First(failed...)
}

// Run carries the experiment out as o says and returns its cells in order. A cancelled ctx ends it
// after the runs under way with an error wrapping context.Canceled; finished cells stay in the
// checkpoint. The table goes to stdout, everything else to stderr.
func (e *Experiment) Run(ctx context.Context, o *Options, stdout, stderr io.Writer) ([]Result, error) {
	if err := e.check(); err != nil {
		return nil, err
	}
	start := time.Now()
	files := &files{e: e, o: o}
	done, err := files.open()
	if err != nil {
		return nil, err
	}
	defer files.checkpoint.Close() // a second Close does nothing

	note := func(format string, args ...any) {
		if !o.Quiet {
			screen.Say(stderr, e.Name, fmt.Sprintf(format, args...))
		}
	}
	label := e.notPrivate(o)
	if label != "" {
		note("NOT PRIVATE: %s", label)
	}
	total := len(e.cells())
	if len(done) > 0 {
		note("resuming: %d of %d cells are in %s", len(done), total, files.path(checkpointName))
	}

	add, end := Progress(stderr, o.Quiet, e.Name, total, len(done))
	results, err := e.compute(ctx, o, done, func(r Result) error {
		add()
		return files.append(r)
	})
	end()
	if err != nil {
		if errors.Is(err, context.Canceled) {
			note("%d of %d cells are in %s; -resume continues", len(results), total, files.path(checkpointName))
		}
		return results, err
	}
	if err := files.finish(results); err != nil {
		return results, err
	}
	closing, err := files.write(results, start)
	if err != nil {
		return results, err
	}
	if err := writeTable(stdout, e, label, results); err != nil {
		return results, err
	}
	for _, l := range closing {
		note("%s", l)
	}
	return results, nil
}

// Progress draws a bar of total units of work on w, of which done are finished: add counts one
// more, end leaves the line of an unfinished bar. Nothing is drawn where w is no terminal, where
// quiet is set, and for users who ask for plain text, for the bar moves the cursor.
func Progress(w io.Writer, quiet bool, name string, total, done int) (add, end func()) {
	if quiet || !screen.Live(w) {
		return func() {}, func() {}
	}
	bar := progressbar.NewOptions(total,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(name),
		progressbar.OptionSetItsString("cells"),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionSetWidth(30),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetRenderBlankState(true),
		progressbar.OptionOnCompletion(func() { fmt.Fprintln(w) }),
	)
	if done > 0 {
		bar.Add(done)
	}
	return func() { bar.Add(1) }, func() {
		if !bar.IsFinished() {
			fmt.Fprintln(w)
		}
	}
}
