// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/privopt/privopt/cmd/internal/adult"
	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/objpert"
	"github.com/privopt/privopt/table"
)

// halfspaceErrors are the errors that a flag or a file can repair.
var halfspaceErrors = []error{
	table.ErrTable, erm.ErrData, erm.ErrProblem, lop.ErrMechanism, objpert.ErrMechanism, objpert.ErrProblem,
}

// Halfspace is the command halfspace: it returns its exit code. It compares private classifiers on
// 0/1 loss as the budget grows: objective perturbation over integer halfspaces, each minimized to
// proven optimality, beside private logistic regression. This is the experiment of [NRVW20, Figure
// 1] on the Adult data, with guarantees that are proved, or on generated records of the same shape.
//
//	opdisc      OPDisc with radial noise on the lattice ℤᵈ, ‖w‖² ≤ Q, for each Q of -q: pure
//	gaussian    the same with the proved Gaussian noise, at δ
//	paper       the same at Q = d with the published σ, whose claimed ε is not proved
//	product     K-norm noise on {−1,0,1}ᵈ: pure
//	cube        K-norm noise on {−1,1}ᵈ: pure
//	rspm        RSPM on {−1,0,1}ᵈ with Laplace noise: pure
//	rspm-paper  the same with the published σ of the Gaussian
//	logistic    logistic regression by linear objective perturbation, at δ
//	nonprivate  the exact minimizer of the 0/1 loss at the largest Q, without noise
func Halfspace(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, flags := newHalfspace()
	return flags.RunExperiment(ctx, args, stdout, stderr, &c.Options, halfspaceErrors,
		func() (*sweep.Experiment, error) {
			if err := c.check(); err != nil {
				return nil, err
			}
			return c.experiment()
		})
}

var halfspaceKinds = []string{"opdisc", "gaussian", "paper", "product", "cube", "rspm", "rspm-paper", "logistic",
	"nonprivate"}

// halfspaceParams are the flags that decide the results: they identify a run.
type halfspaceParams struct {
	N        int         `json:"n"`    // records to fit
	Heldout  int         `json:"held"` // records that no method sees
	Features int         `json:"features"`
	Q        []int       `json:"q"`
	Delta    float64     `json:"delta"`
	Runs     int         `json:"runs"`
	Radius   float64     `json:"radius"`
	Oracle   string      `json:"oracle"`
	Timeout  float64     `json:"timeout,omitempty"` // seconds a search
	Data     *sweep.File `json:"data,omitempty"`
	Test     *sweep.File `json:"test,omitempty"`
}

// halfspaceConfig is the command line.
type halfspaceConfig struct {
	sweep.Options
	halfspaceParams
	kinds      []string
	q, eps     string
	data, test string
	size       string
	values     []float64
	methods    []halfspaceMethod
}

// halfspaceMethod is one column of the table.
type halfspaceMethod struct {
	name, kind string
	q          int // Q of a lattice
}

// method returns the method of the given name.
func (c *halfspaceConfig) method(name string) (m halfspaceMethod) {
	if i := slices.IndexFunc(c.methods, func(m halfspaceMethod) bool { return m.name == name }); i >= 0 {
		m = c.methods[i]
	}
	return m
}

// searches reports whether the method minimizes by search.
func (m halfspaceMethod) searches() bool { return m.kind != "logistic" && m.kind != "nonprivate" }

// newHalfspace defines the flags.
func newHalfspace() (*halfspaceConfig, *sweep.Flags) {
	c := &halfspaceConfig{}
	var sizes []string
	for _, s := range adult.Sizes() {
		sizes = append(sizes, strconv.Itoa(s))
	}
	f := sweep.NewFlags("halfspace",
		"Accuracy of private halfspaces and of private logistic regression as the budget grows.")
	f.Example = "go run ./cmd/research halfspace -n 50 -runs 1 -eps 1 -out small"
	f.StringVar(&c.data, "data", "", "adult.data, `FILE`, instead of generated records of the same shape")
	f.StringVar(&c.test, "test", "", "adult.test, `FILE`: measure held-out accuracy on it")
	f.IntVar(&c.N, "n", 15682, sweep.Between(2, 1e6), "generated records `N`, and half as many held out")
	f.ChoiceVar(&c.size, "features", "23", sizes,
		"number `D` of features: 23 is the experiment, more have more categories")
	f.StringVar(&c.q, "q", "2,4,23", "squared norms `LIST` of the lattices; noise grows with them")
	f.StringVar(&c.eps, "eps", "0.1,0.3,0.5,0.7,1", "privacy budgets `LIST` of one release")
	f.FloatVar(&c.Delta, "delta", 0, sweep.Range{Max: math.Nextafter(1, 0), Example: 1e-9},
		"δ `D` of the methods that are not pure; 0 means 1/n^2")
	f.IntVar(&c.Runs, "runs", 15, sweep.Between(1, 1e6), "runs `N` a cell, each with fresh noise")
	f.ListVar(&c.kinds, "methods", []string{"opdisc", "paper", "product", "rspm", "logistic", "nonprivate"},
		halfspaceKinds, "methods to compare, `LIST`")
	f.FloatVar(&c.Radius, "radius", 20, sweep.Positive(1e6),
		"public guess `B` at the norm of the solution that logistic is tuned for")
	f.StringVar(&c.Oracle, "oracle", "auto", "who minimizes, `NAME`: "+oracleNames+
		"; the answers of a command are incumbents, NOT PRIVATE")
	f.FloatVar(&c.Timeout, "timeout", 0, sweep.Between(0, 1e6), "end a search, that of nonprivate too, after `S` "+
		"seconds, and the run with it; 0: never, and 60 for a command")
	c.Register(f, "halfspace-out")
	return c, f
}

// check refuses flags that contradict one another, and makes the grid.
func (c *halfspaceConfig) check() error {
	var err, wrong error
	c.values, err = sweep.ParseValues("eps", c.eps, sweep.Positive(1e5), false)
	qs, wrong := sweep.ParseValues("q", c.q, sweep.Between(1, 4095), true) // 127 values of a weight
	if err := cmp.Or(err, wrong); err != nil {
		return err
	}
	slices.Sort(qs)
	for _, q := range qs {
		c.Q = append(c.Q, int(q))
	}
	c.Features, _ = strconv.Atoi(c.size)
	for _, k := range c.kinds {
		switch k {
		case "opdisc", "gaussian":
			for _, q := range c.Q {
				c.methods = append(c.methods, halfspaceMethod{fmt.Sprintf("%s-q%d", k, q), k, q})
			}
		case "paper":
			c.methods = append(c.methods, halfspaceMethod{k, k, c.Features})
		case "nonprivate":
			c.methods = append(c.methods, halfspaceMethod{k, k, c.Q[len(c.Q)-1]})
		default:
			c.methods = append(c.methods, halfspaceMethod{k, k, 0})
		}
	}
	return cmp.Or(
		sweep.Refuse(c.test != "" && c.data == "",
			"flag -test has no meaning without -data: generated records come with held-out ones"),
		c.checkOracle())
}

// experiment reads the records and returns the sweep over ε.
func (c *halfspaceConfig) experiment() (*sweep.Experiment, error) {
	d, err := c.load()
	if err != nil {
		return nil, err
	}
	c.N, c.Heldout = len(d.train.label), len(d.test.label)
	c.Delta = cmp.Or(c.Delta, 1/(float64(c.N)*float64(c.N)))
	if err := sweep.CheckBudgets("-eps, -delta", c.Delta, c.values...); err != nil {
		return nil, err
	}
	e := &sweep.Experiment{
		Name: "halfspace", Files: "accuracy", Sweep: "eps", Values: c.values, Params: c.halfspaceParams,
		Prepare: d.prepare, Summarize: c.summarize, Columns: halfspaceColumns, Figures: c.figures,
		Plot: c.plot("Training accuracy"),
	}
	switch {
	case c.external():
		e.NotPrivate = "the answers of " + c.Oracle + " are incumbents, not proven minimizers"
	case c.data != "":
		e.NotPrivate = "accuracies are computed from the records, without noise"
	}
	for _, m := range c.methods {
		e.Methods = append(e.Methods, m.name)
	}
	return e, nil
}

// words names the method in a picture.
func (m halfspaceMethod) words() string {
	return map[string]string{
		"opdisc":   fmt.Sprintf("OPDisc, integers with ‖w‖² ≤ %d", m.q),
		"gaussian": fmt.Sprintf("the same with Gaussian noise, ‖w‖² ≤ %d", m.q),
		"paper":    fmt.Sprintf("OPDisc, published noise, ‖w‖² ≤ %d", m.q),
		"product":  "K-norm noise on {−1, 0, 1}ᵈ", "cube": "K-norm noise on {−1, 1}ᵈ",
		"rspm": "RSPM, Laplace noise", "rspm-paper": "RSPM, published noise", "logistic": "logistic regression",
		"nonprivate": "no noise (not private)",
	}[m.kind]
}

func (c *halfspaceConfig) plot(accuracy string) sweep.Plot {
	p := sweep.Plot{
		Title: fmt.Sprintf("%s of private halfspaces (n = %d, d = %d, %d runs)", accuracy, c.N, c.Features, c.Runs),
		X:     "ε of one release", Y: "accuracy, mean ± one standard deviation", Linear: true,
		Dashed: []string{"paper", "nonprivate", "logistic"}, Legend: map[string]string{},
	}
	for _, m := range c.methods {
		p.Legend[m.name] = m.words()
	}
	return p
}

// oracles are the searches of package objpert by name. "cells" prefers the search for 0/1 columns.
// Cells of an experiment run in parallel, so each search takes one worker.
var oracles = map[string]objpert.Search{
	"auto":      {Workers: 1},
	"cells":     {Workers: 1, Points: -1, Combos: 1e6},
	"generic":   {Workers: 1, Points: -1, Combos: -1},
	"enumerate": {Workers: 1, Points: 1e7},
}

const oracleNames = "auto, cells, generic, enumerate, or cmd:NAME for a solver of mixed-integer programs"

func (c *halfspaceConfig) checkOracle() error {
	if _, ok := oracles[c.Oracle]; ok {
		return nil
	}
	name, ok := strings.CutPrefix(c.Oracle, "cmd:")
	known := func(solver string) bool { return strings.HasPrefix(filepath.Base(name), solver) }
	_, err := exec.LookPath(name)
	return cmp.Or(
		sweep.Refuse(!ok, "flag -oracle = %q: want %s", c.Oracle, oracleNames),
		sweep.Refuse(!slices.ContainsFunc(solverNames(), known), "flag -oracle = %q: want cmd: and one of %s", c.Oracle,
			strings.Join(solverNames(), ", ")),
		sweep.Refuse(err != nil, "flag -oracle = %q: %w; install it, or take the search of this program, -oracle auto",
			c.Oracle, err))
}

// external reports whether a command answers.
func (c *halfspaceConfig) external() bool { return strings.HasPrefix(c.Oracle, "cmd:") }

// oracle returns the search that minimizes, beside a command as well.
func (c *halfspaceConfig) oracle() objpert.Search {
	if c.external() {
		return oracles["auto"]
	}
	return oracles[c.Oracle]
}

// timeout is -timeout, 0 for never.
func (c *halfspaceConfig) timeout() time.Duration {
	if c.Timeout == 0 {
		return 0
	}
	return max(1, time.Duration(c.Timeout*float64(time.Second)))
}

// bounded returns ctx with the time that a search gets.
func (c *halfspaceConfig) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.Timeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.timeout())
}

// halfspaceData are the records, and what methods share.
type halfspaceData struct {
	c           *halfspaceConfig
	train, test integers
	smooth      *erm.Data

	problems memo[string, *objpert.Problem]
	once     sync.Once
	exact    *objpert.Solution // without noise
	exactErr error
}

// halfspaceDetail is kept beside the mean of a cell. Not private, but for the plan and the
// certificate.
type halfspaceDetail struct {
	fitted
	Claimed  dp.Budget `json:"claimed,omitzero"`
	Test     []float64 `json:"test,omitempty"` // held-out accuracy of each run
	Unproven int       `json:"unproven,omitempty"`
	Laps     []Lap     `json:"laps,omitempty"` // of -oracle cmd:NAME
}

// prepare calibrates a cell. Everything that scales noise is a flag or public; Fit alone reads the
// records.
func (d *halfspaceData) prepare(_ context.Context, cell sweep.Cell) (sweep.Task, error) {
	m := d.c.method(cell.Method)
	b := dp.Budget{Epsilon: cell.Value, Delta: d.c.Delta}
	det := &halfspaceDetail{}
	var last *objpert.Solution
	var against *race
	var fit fitter
	var err error
	switch m.kind {
	case "nonprivate":
		return d.nonprivate(m, det)
	case "logistic":
		fit, err = d.logistic(b, det)
	default:
		search := d.c.oracle()
		search.Trace = func(s *objpert.Solution, _ error) { last = s }
		oracle := objpert.Oracle(search)
		if d.c.external() {
			against = d.c.race()
			oracle = against
		}
		fit, err = d.discrete(m, b, oracle, det)
	}
	if err != nil {
		return sweep.Task{}, err
	}
	return sweep.Task{
		Runs: d.c.Runs,
		Run: func(ctx context.Context, src rand.Source) (float64, error) {
			if m.searches() && against == nil {
				bounded, cancel := d.c.bounded(ctx)
				defer cancel()
				ctx = bounded
			}
			last = nil
			w, err := det.fit(ctx, &d.c.Options, src, fit)
			if against != nil {
				last = against.found
			}
			if against != nil && errors.Is(err, dp.ErrWithheld) && (last != nil || against.lap.NoPoint) {
				// No release: the label of the experiment says so.
				w, err = make([]float64, len(d.train.row[0])), nil
				if last != nil {
					w = toFloats(last.W)
				}
				det.Unproven++
				det.Laps = append(det.Laps, against.lap)
			}
			if err != nil {
				return 0, err
			}
			return d.measure(det, w), nil
		},
		Detail: func() any { return det },
	}, nil
}

// measure returns the training accuracy and keeps the held-out one.
func (d *halfspaceData) measure(det *halfspaceDetail, w []float64) float64 {
	if len(d.test.row) > 0 {
		det.Test = append(det.Test, d.test.accuracy(w))
	}
	return d.train.accuracy(w)
}

// discrete calibrates a mechanism over integer weights.
func (d *halfspaceData) discrete(
	m halfspaceMethod, b dp.Budget, oracle objpert.Oracle, det *halfspaceDetail,
) (fitter, error) {
	space := objpert.Space{Values: []int{-1, 0, 1}, NormSq: -1}
	switch {
	case m.q > 0:
		space = objpert.Lattice(m.q)
	case m.kind == "cube":
		space.Values = []int{-1, 1}
	}
	p, err := d.problem(space)
	if err != nil {
		return nil, err
	}
	law := map[string]objpert.Law{"gaussian": objpert.Gaussian, "paper": objpert.PaperSigma,
		"rspm-paper": objpert.PaperSigma}[m.kind]
	var plan *objpert.Plan
	switch m.kind {
	case "opdisc", "gaussian", "paper":
		plan, err = (&objpert.OPDisc{Law: law, Oracle: oracle}).Plan(p, b)
	case "product", "cube":
		plan, err = (&objpert.Product{Oracle: oracle}).Plan(p, b)
	case "rspm", "rspm-paper":
		plan, err = (&objpert.RSPM{Law: law, Oracle: oracle}).Plan(p, b)
	default:
		return nil, fmt.Errorf("no method %q", m.kind)
	}
	if err != nil {
		return nil, err
	}
	det.Claimed = b
	return func(ctx context.Context, src rand.Source) (*dp.Release, error) { return plan.Fit(ctx, p, src) }, nil
}

// problem merges the records over a space, once.
func (d *halfspaceData) problem(space objpert.Space) (*objpert.Problem, error) {
	return d.problems.get(fmt.Sprint(space.Values, space.NormSq), func() (*objpert.Problem, error) {
		return objpert.NewProblem(d.train.row, d.train.label, nil, space)
	})
}

// logistic calibrates logistic regression by linear objective perturbation.
func (d *halfspaceData) logistic(b dp.Budget, det *halfspaceDetail) (fitter, error) {
	p := &erm.Problem{Data: d.smooth, Loss: loss.Logistic{}}
	plan, err := (&lop.Mechanism{Radius: d.c.Radius}).Plan(p, b)
	if err != nil {
		return nil, err
	}
	det.Claimed = plan.Certificate().Budget
	return func(ctx context.Context, src rand.Source) (*dp.Release, error) { return plan.Fit(ctx, p, src) }, nil
}

// nonprivate minimizes the 0/1 loss without noise, once for all ε.
func (d *halfspaceData) nonprivate(m halfspaceMethod, det *halfspaceDetail) (sweep.Task, error) {
	p, err := d.problem(objpert.Lattice(m.q))
	if err != nil {
		return sweep.Task{}, err
	}
	task := once(func(ctx context.Context) (float64, error) {
		d.once.Do(func() {
			ctx, cancel := d.c.bounded(ctx)
			defer cancel()
			d.exact, d.exactErr = d.c.oracle().Solve(ctx, p)
		})
		if d.exactErr != nil {
			return 0, fmt.Errorf("nonprivate: %w: the minimizer was not proven: %w", dp.ErrWithheld, d.exactErr)
		}
		return d.measure(det, toFloats(d.exact.W)), nil
	})
	task.Detail = func() any { return det }
	return task, nil
}

func toFloats(w []int) []float64 {
	x := make([]float64, len(w))
	for j, v := range w {
		x[j] = float64(v)
	}
	return x
}

// integers is a set of records as integers.
type integers struct {
	row   [][]int64
	label []int
}

// accuracy is the share of the records whose label is the sign of ⟨x, w⟩, with sgn(0) = −1. Scores
// of integer weights are exact: |x_j| < 2³¹ and |w_j| < 2¹⁵.
func (p integers) accuracy(w []float64) float64 {
	right := 0
	for i, x := range p.row {
		score := 0.0
		for j, v := range x {
			score += float64(v) * w[j]
		}
		if (score > 0) == (p.label[i] > 0) {
			right++
		}
	}
	return float64(right) / float64(len(p.row))
}

// load reads or generates the records.
func (c *halfspaceConfig) load() (*halfspaceData, error) {
	features, err := adult.Experiment(c.Features)
	if err != nil {
		return nil, sweep.Usagef("flag -features: %w", err)
	}
	var train, test []adult.Record
	if c.data == "" {
		src := rand.New(noise.Reproducible(0, "halfspace", "records"))
		train, test = people(c.N, src), people(max(1, c.N/2), src)
	} else {
		if train, c.Data, err = sweep.ReadFile("data", c.data, adult.Read); err != nil {
			return nil, err
		}
		train = adult.Balanced(train)
		if len(train) < 2 {
			return nil, sweep.Usagef("flag -data: %s has not both classes of income, so there is nothing to tell apart",
				c.data)
		}
		if c.test != "" {
			if test, c.Test, err = sweep.ReadFile("test", c.test, adult.Read); err != nil {
				return nil, err
			}
			test = adult.Balanced(test)
		}
	}
	d := &halfspaceData{c: c}
	d.train.row, d.train.label = features.Integers(train)
	d.test.row, d.test.label = features.Integers(test)
	rows, labels := features.Floats(train)
	// Features are in [0, 1]; one of each category is 1, the others are 0.
	attributes := map[int]bool{}
	for _, f := range features {
		attributes[f.Attribute] = true
	}
	d.smooth, err = erm.NewData(rows, labels, loss.Bounds{Row: math.Sqrt(float64(len(attributes))), Label: 1})
	return d, err
}

// people draws records like those of Adult: levels by a decaying law, capital gain and loss mostly
// 0, working hours mostly 40, and a label that a score of a few attributes decides with some doubt.
// Both labels are equally frequent.
func people(n int, src *rand.Rand) []adult.Record {
	records := make([]adult.Record, 0, n)
	left := map[bool]int{false: n / 2, true: n - n/2}
	for len(records) < n {
		var r adult.Record
		score := -1.0
		for i, a := range adult.Attributes {
			switch {
			case a.Levels != nil:
				level := 0
				for level < len(a.Levels)-1 && src.Float64() < 0.55 {
					level++
				}
				r.Value[i] = int64(level)
				if a.Name == "marital-status" || a.Name == "relationship" {
					score += []float64{1.2, -0.4, -1.1}[min(level, 2)]
				}
			case a.Name == "capital-gain" || a.Name == "capital-loss":
				if src.Float64() < 0.07 {
					share := float64(1+src.IntN(20)) / 40 // of the maximum
					r.Value[i] = int64(share * *a.Max)
					score += 6 * share
				}
			case a.Name == "hours-per-week":
				r.Value[i] = 40
				if src.Float64() < 0.5 {
					r.Value[i] = min(int64(*a.Max), 5*src.Int64N(20))
				}
				score += float64(r.Value[i]-40) / 40
			default:
				r.Value[i] = src.Int64N(int64(*a.Max) + 1)
			}
		}
		r.Positive = src.Float64() < 1/(1+math.Exp(-2*score))
		if left[r.Positive] > 0 {
			left[r.Positive]--
			records = append(records, r)
		}
	}
	return records
}
