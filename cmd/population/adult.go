package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/adult"
	"github.com/privopt/privopt/internal/sweep"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/sco"
)

// files are the flags of the experiment on records.
type files struct {
	Data, Test string
	radius     float64
	relations  []string
}

var relations = []string{"replace", "addremove"}

// adultMethods are the methods on records, logistic regression all of them.
var adultMethods = []string{"lop", "objpert", "output", "sgd", "dpsgd"}

func (a *files) register(f *sweep.Flags) {
	f.StringVar(&a.Data, "data", "", "adult.data, `FILE`: measure test accuracy of private logistic regression against eps instead")
	f.StringVar(&a.Test, "test", "", "adult.test, `FILE`, with -data")
	f.FloatVar(&a.radius, "radius", 20, sweep.Positive(1e6), "with -data: public guess `B` at the norm of the solution")
	f.ListVar(&a.relations, "relation", relations, relations, "with -data: neighboring relations, `LIST`")
}

// refuse reports flags of this experiment without -data.
func (a *files) refuse(f *sweep.Flags) error {
	for _, name := range []string{"test", "radius", "relation"} {
		if f.Given(name) {
			return sweep.Usagef("flag -%s has no meaning without -data: leave it out", name)
		}
	}
	return nil
}

// checkAdult completes the flags of the experiment on records.
func (c *config) checkAdult(f *sweep.Flags) error {
	for _, name := range []string{"family", "regime", "sweep", "n", "d", "eps", "signal", "bounds"} {
		if f.Given(name) {
			return sweep.Usagef("flag -%s has no meaning with -data: leave it out (-values lists the ε)", name)
		}
	}
	if c.Test == "" {
		return sweep.Usagef("flag -data needs -test, the file with the records that accuracy is measured on")
	}
	c.sweep, c.list = "eps", cmp.Or(c.list, "0.1,0.3,1,3")
	var err error
	if c.values, err = sweep.ParseValues("values", c.list, sweep.Positive(1e5), false); err != nil {
		return err
	}
	if len(c.methods) == 0 {
		c.methods = adultMethods
	}
	for _, m := range c.methods {
		if !slices.Contains(adultMethods, m) {
			return sweep.Usagef("flag -methods: %s is not for -data, want among %s", m, strings.Join(adultMethods, ", "))
		}
	}
	if !f.Given("delta") {
		c.Delta = 0 // 1/n²
	}
	return nil
}

// fileInfo identifies a file without a function of what is in it.
type fileInfo struct {
	Path     string `json:"path"`
	Modified string `json:"modified"`
}

// adultParams identify a run.
type adultParams struct {
	Data    fileInfo `json:"data"`
	Test    fileInfo `json:"test"`
	Delta   float64  `json:"delta"`
	Radius  float64  `json:"radius"`
	Runs    int      `json:"runs"`
	Records int      `json:"records"`
}

// read reads the records of a file that have no missing value.
func (a *files) read(name, path string) (rows [][]float64, labels []float64, info fileInfo, err error) {
	file, err := sweep.OpenFile(name, path)
	if err != nil {
		return nil, nil, info, err
	}
	defer file.Close()
	records, err := adult.Read(file)
	if err != nil {
		return nil, nil, info, fmt.Errorf("flag -%s: %w", name, err)
	}
	features, err := adult.Experiment(104)
	if err != nil {
		return nil, nil, info, err
	}
	records = adult.Complete(records)
	if len(records) == 0 {
		return nil, nil, info, sweep.Usagef("flag -%s: %s has no record without missing values", name, path)
	}
	rows, labels = features.Floats(records)
	info.Path = path
	if stat, err := os.Stat(path); err == nil {
		info.Modified = stat.ModTime().UTC().Format(time.RFC3339)
	}
	return rows, labels, info, nil
}

// adultExperiment is logistic regression on Adult: rows within norm 1 (each
// longer one scaled by itself), δ = 1/n², every parameter fixed by flags.
func (c *config) adultExperiment() (*sweep.Experiment, error) {
	rows, labels, dataInfo, err := c.read("data", c.Data)
	if err != nil {
		return nil, err
	}
	data, err := erm.NewData(rows, labels, loss.Bounds{Row: 1, Label: 1})
	if err != nil {
		return nil, err
	}
	testRows, testLabels, testInfo, err := c.read("test", c.Test)
	if err != nil {
		return nil, err
	}
	n, _ := data.Dims()
	if c.Delta == 0 {
		c.Delta = 1 / (float64(n) * float64(n))
	}
	for _, eps := range c.values {
		if err := (dp.Budget{Epsilon: eps, Delta: c.Delta}).Check(); err != nil {
			return nil, sweep.Usagef("flags -values, -delta: %w", err)
		}
	}
	accuracy := func(w []float64) float64 {
		right := 0
		for i, row := range testRows {
			if (floats.Dot(row, w) > 0) == (testLabels[i] > 0) {
				right++
			}
		}
		return float64(right) / float64(len(testRows))
	}
	e := &sweep.Experiment{
		Name:       "population",
		Files:      "accuracy",
		Sweep:      "eps",
		Values:     c.values,
		Params:     adultParams{dataInfo, testInfo, c.Delta, c.radius, c.Runs, n},
		NotPrivate: "accuracies are computed from the records, no noise hides them",
		Plot: sweep.Plot{
			Title:  fmt.Sprintf("Test accuracy of private logistic regression on Adult (n = %d, delta = %.3g, %d runs)", n, c.Delta, c.Runs),
			X:      "eps",
			Y:      "accuracy",
			Linear: true,
		},
		Columns: []sweep.Column{{Name: "fit_seconds_median", Text: func(r sweep.Result) string {
			d := detailOf(r)
			if len(d.Seconds) == 0 {
				return ""
			}
			return strconv.FormatFloat(median(d.Seconds), 'g', -1, 64)
		}}},
		Prepare: func(_ context.Context, cell sweep.Cell) (sweep.Task, error) {
			name, rel := cell.Method, dp.Replace
			if short, ok := strings.CutSuffix(name, "-addremove"); ok {
				name, rel = short, dp.AddRemove
			}
			fit, err := c.adultPlan(name, data, rel, dp.Budget{Epsilon: cell.Value, Delta: c.Delta})
			if err != nil {
				return sweep.Task{}, err
			}
			det := &detail{}
			return sweep.Task{
				Runs: c.Runs,
				Run: func(ctx context.Context, src rand.Source) (float64, error) {
					if c.Seed == nil {
						src = nil
					}
					start := time.Now()
					release, err := fit(ctx, src)
					if err != nil {
						return 0, err
					}
					det.Seconds = append(det.Seconds, time.Since(start).Seconds())
					det.Certificate = &release.Certificate
					return accuracy(release.Theta), nil
				},
				Detail: func() any { return det },
			}, nil
		},
		Summarize: c.summarizeAdult,
	}
	for _, m := range c.methods {
		for _, r := range c.relations {
			if r == "addremove" {
				m += "-addremove"
			}
			e.Methods = append(e.Methods, m)
		}
	}
	return e, nil
}

// adultPlan calibrates one method for all runs of a cell.
func (c *config) adultPlan(method string, data *erm.Data, rel dp.Relation, b dp.Budget) (func(context.Context, rand.Source) (*dp.Release, error), error) {
	free := &erm.Problem{Data: data, Loss: loss.Logistic{}, Records: 30000}
	ball := &erm.Problem{Data: data, Loss: loss.Logistic{}, Set: prox.L2Ball{R: c.radius}, Records: 30000}
	sgd := func(pl *sco.SGDPlan, err error) (func(context.Context, rand.Source) (*dp.Release, error), error) {
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, src rand.Source) (*dp.Release, error) { return pl.Fit(ctx, ball, src) }, nil
	}
	obj := func(p *erm.Problem, pl *sco.ObjPlan, err error) (func(context.Context, rand.Source) (*dp.Release, error), error) {
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, src rand.Source) (*dp.Release, error) { return pl.Fit(ctx, p, src) }, nil
	}
	switch method {
	case "objpert":
		pl, err := (&sco.ObjPert{Relation: rel, Radius: c.radius}).Plan(free, b)
		return obj(free, pl, err)
	case "output":
		pl, err := (&sco.Output{Relation: rel, Radius: c.radius}).Plan(free, b)
		return obj(free, pl, err)
	case "lop":
		pl, err := (&lop.Mechanism{Relation: rel, Radius: c.radius}).Plan(free, b)
		return obj(free, pl, err)
	case "sgd":
		return sgd((&sco.NoisySGD{Relation: rel}).Plan(ball, b))
	case "dpsgd":
		return sgd((&sco.DPSGD{Relation: rel}).Plan(ball, b))
	}
	return nil, fmt.Errorf("no method %q", method)
}

func median(x []float64) float64 {
	x = slices.Clone(x)
	slices.Sort(x)
	return stat.Quantile(0.5, stat.Empirical, x, nil)
}

// summarizeAdult words certificates and times.
func (c *config) summarizeAdult(results []sweep.Result) (any, []string) {
	var lines []string
	type line struct {
		Method  string  `json:"method"`
		Epsilon float64 `json:"eps"`
		Seconds float64 `json:"fit_seconds_median"`
		Theorem string  `json:"theorem"`
	}
	all := []line{}
	var certificates []dp.Certificate
	for _, r := range results {
		d := detailOf(r)
		if d.Certificate == nil || len(d.Seconds) == 0 {
			continue
		}
		l := line{r.Method, r.Value, median(d.Seconds), d.Certificate.Theorem}
		all = append(all, l)
		certificates = append(certificates, slices.Repeat([]dp.Certificate{*d.Certificate}, r.Runs)...)
		lines = append(lines, fmt.Sprintf("%s at eps = %v: accuracy %.4f (±%.2g), by %s, median %.3g s a fit", r.Method, r.Value, r.Mean, r.StdErr, l.Theorem, l.Seconds))
	}
	if all, err := dp.Basic(certificates...); err == nil {
		lines = append(lines, fmt.Sprintf("publishing all %d releases, or the best of them, would cost (ε = %.4g, δ = %.4g) together", len(certificates), all.Epsilon, all.Delta))
	}
	return map[string]any{"fits": all}, lines
}
