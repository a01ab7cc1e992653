// Package sweep runs experiments that repeat a randomized computation over a grid: swept value ×
// method × run. It is what every experiment binary of this module shares: parallel workers with
// reproducible streams, a checkpoint that survives kill −9, tables, CSV, JSON, plots and progress.
// The binary itself says what one cell computes and nothing else.
//
//	func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
//		var o sweep.Options
//		f := sweep.NewFlags("mean", "Mean of a noisy count.")
//		o.Register(f, "mean-out")
//		return f.Run(args, stdout, stderr, &o, func() error {
//			e := &sweep.Experiment{Name: "mean", Sweep: "eps", Values: []float64{1, 2}, Methods: []string{"laplace"}, Prepare: prepare}
//			_, err := e.Run(ctx, &o, stdout, stderr)
//			return err
//		})
//	}
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
// With a seed, the stream of a run is noise.Reproducible(seed, experiment, sweep, value, method,
// run): it depends on nothing else, so values do not depend on the number of workers, on the other
// cells or on interruptions. Seeded noise can be drawn again by anyone and is therefore labelled
// not private. Without a seed every run draws from noise.Secure, and a resumed experiment draws new
// noise for its remaining cells.
//
// # Files
//
// Options.Out receives cells.jsonl, a header line followed by one line a finished cell in order of
// completion, synced before its worker goes on, and at the end in order of cells; and, at the end,
// NAME.csv, NAME.png, NAME.svg, NAME.pdf and summary.json, each written aside and renamed.
//
// # References
//
// None: this package is bookkeeping.
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
	"slices"
	"strconv"
	"sync"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/noise"
)

// SchemaVersion is the version of the JSON objects and files written here. It
// changes when a field changes its meaning or goes; new fields do not count.
const SchemaVersion = 1

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
	// the plot's title, in the summary and in each JSON object, and marks the sweep column of the CSV.
	// A seed adds its own reason.
	NotPrivate string

	// Prepare calibrates a cell: whatever its runs share is done here once.
	// It is called by several goroutines.
	Prepare func(ctx context.Context, c Cell) (Task, error)

	// Summarize, if not nil, returns the object stored under "results" in
	// summary.json and the lines printed on standard error at the end.
	Summarize func(results []Result) (any, []string)

	Plot Plot

	// Columns are added to the CSV file, Figures are drawn besides the plot.
	Columns []Column
	Figures func(results []Result) []Figure
}

// Result is a finished cell. Its JSON form is the line of the checkpoint and of Options.JSON.
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

// Median returns the median of x.
func Median(x []float64) float64 {
	return stat.Quantile(0.5, stat.Empirical, slices.Sorted(slices.Values(x)), nil)
}

// Cost returns what all releases cost together, nil if that promises nothing, and a
// line that says it.
func Cost(certificates []dp.Certificate) (*dp.Budget, string) {
	n := len(certificates)
	all, err := dp.Basic(certificates...)
	if err != nil {
		return nil, fmt.Sprintf("publishing all %d releases would promise nothing: their ε and δ add up beyond every meaningful budget", n)
	}
	return &all.Budget, fmt.Sprintf("publishing all %d releases, or the best of them, would cost (ε = %.4g, δ = %.4g) together", n,
		all.Epsilon, all.Delta)
}

// key identifies a cell across processes.
func key(value float64, method string) string { return format(value) + " " + method }

// format writes x in the shortest form that reads back as x.
func format(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// check reports mistakes in the description of an experiment.
func (e *Experiment) check() error {
	if len(e.Values) == 0 || len(e.Methods) == 0 {
		return Usagef("an experiment needs at least one value and one method")
	}
	seen := map[string]bool{}
	for _, c := range e.cells() {
		if k := key(c.Value, c.Method); seen[k] {
			return Usagef("%s = %s with method %s is listed twice: list each value and each method once", e.Sweep, format(c.Value), c.Method)
		} else {
			seen[k] = true
		}
		if math.IsNaN(c.Value) || math.IsInf(c.Value, 0) {
			return Usagef("%s = %v, want finite values", e.Sweep, c.Value)
		}
	}
	return nil
}

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
	const seeded = "seeded noise can be drawn again"
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

func (e *Experiment) solve(ctx context.Context, o *Options, c Cell) (Result, error) {
	start := time.Now()
	r := Result{SchemaVersion: SchemaVersion, Sweep: e.Sweep, Value: c.Value, Method: c.Method, NotPrivate: e.notPrivate(o)}
	fail := func(err error) (Result, error) {
		return r, fmt.Errorf("%s = %s, method %s: %w", e.Sweep, format(c.Value), c.Method, err)
	}
	task, err := e.Prepare(ctx, c)
	if err != nil {
		return fail(err)
	}
	outcomes := make([]float64, task.Runs)
	for i := range outcomes {
		if err := ctx.Err(); err != nil {
			return fail(err)
		}
		x, err := task.Run(ctx, e.source(o, c, i))
		if err != nil {
			return fail(err)
		}
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fail(errors.New("the outcome is not a finite number: the parameters exceed what float64 can hold"))
		}
		outcomes[i] = x
	}
	r.Runs = task.Runs
	r.Average(outcomes)
	for _, x := range []float64{r.Mean, r.Std} {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fail(errors.New("mean or standard deviation overflow: the parameters exceed what float64 can hold"))
		}
	}
	if task.Detail != nil {
		if r.Detail, err = json.Marshal(task.Detail()); err != nil {
			return fail(err)
		}
	}
	r.Seconds = time.Since(start).Seconds()
	return r, nil
}

// grid is the state that the workers share.
type grid struct {
	mu     sync.Mutex
	cells  []Cell
	next   int       // first cell not handed out
	done   []*Result // by index
	shown  int       // cells before it have been emitted
	failed map[int]error
	stop   error // why no more cells are handed out
}

// take hands out the next cell that is not done.
func (g *grid) take(ctx context.Context) (Cell, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for ; g.next < len(g.cells) && g.stop == nil && ctx.Err() == nil; g.next++ {
		if g.done[g.next] == nil {
			g.next++
			return g.cells[g.next-1], true
		}
	}
	return Cell{}, false
}

// flush emits the finished cells whose turn has come.
func (g *grid) flush(emit func(Result) error) {
	for ; g.shown < len(g.done) && g.done[g.shown] != nil; g.shown++ {
		if err := emit(*g.done[g.shown]); err != nil && g.stop == nil {
			g.stop = err
		}
	}
}

// compute solves the cells that are not in done and returns all results in order. Every finished
// cell is passed to record before its worker goes on, and to emit in order. On a failure no further
// cell begins, those under way are finished, and the failure of the first cell is returned.
func (e *Experiment) compute(
	ctx context.Context, o *Options, done map[string]Result, record func(Result) error, emit func(Result) error,
) ([]Result, error) {
	g := &grid{cells: e.cells(), failed: map[int]error{}}
	g.done = make([]*Result, len(g.cells))
	for i, c := range g.cells {
		if r, ok := done[key(c.Value, c.Method)]; ok {
			g.done[i] = &r
		}
	}
	g.flush(emit)

	var wg sync.WaitGroup
	for range min(cmp.Or(o.Workers, runtime.GOMAXPROCS(0)), len(g.cells)) {
		wg.Go(func() {
			for {
				c, ok := g.take(ctx)
				if !ok {
					return
				}
				r, err := e.solve(ctx, o, c)
				if err == nil {
					err = record(r)
				}
				g.mu.Lock()
				if err != nil {
					g.failed[c.Index] = err
					if g.stop == nil {
						g.stop = err
					}
				} else {
					g.done[c.Index] = &r
					g.flush(emit)
				}
				g.mu.Unlock()
			}
		})
	}
	wg.Wait()

	var results []Result
	var first error // the first failure in order, whichever worker was faster
	for i := range g.cells {
		if g.done[i] != nil {
			results = append(results, *g.done[i])
		} else if first == nil {
			first = g.failed[i]
		}
	}
	switch missing := len(results) < len(g.cells); {
	case missing && ctx.Err() != nil:
		return results, fmt.Errorf("interrupted: %w", ctx.Err())
	case first != nil:
		return results, first
	}
	return results, g.stop // emit failed, or nil
}

// Run carries the experiment out as o says and returns its cells in order. A cancelled ctx ends it
// after the runs under way with an error wrapping context.Canceled; finished cells stay in the
// checkpoint. The table or JSON lines go to stdout, everything else to stderr.
func (e *Experiment) Run(ctx context.Context, o *Options, stdout, stderr io.Writer) ([]Result, error) {
	if err := e.check(); err != nil {
		return nil, err
	}
	start := time.Now()
	files := &files{e, o}
	journal, done, err := files.open()
	if err != nil {
		return nil, err
	}
	defer journal.Close()

	note := func(format string, args ...any) {
		if !o.Quiet {
			fmt.Fprintf(stderr, e.Name+": "+format+"\n", args...)
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

	bar := newProgress(stderr, o, e.Name, total, len(done))
	lines := json.NewEncoder(stdout)
	results, err := e.compute(ctx, o, done, func(r Result) error {
		bar.add()
		return journal.append(r)
	}, func(r Result) error {
		if !o.JSON {
			return nil
		}
		return lines.Encode(r)
	})
	bar.close()
	if err != nil {
		if errors.Is(err, context.Canceled) {
			note("%d of %d cells are in %s; -resume continues", len(results), total, files.path(checkpointName))
		}
		return results, err
	}
	if err := journal.finish(results); err != nil {
		return results, err
	}
	closing, err := files.write(journal.header, results, start)
	if err != nil {
		return results, err
	}
	if !o.JSON {
		if err := writeTable(stdout, e, label, results); err != nil {
			return results, err
		}
	}
	for _, l := range closing {
		note("%s", l)
	}
	return results, nil
}
