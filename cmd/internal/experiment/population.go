// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package experiment

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/sco"
	"github.com/privopt/privopt/table"
)

// populationErrors are the errors that a flag or a file can repair.
var populationErrors = []error{table.ErrTable, erm.ErrData, erm.ErrProblem, sco.ErrMechanism, lop.ErrMechanism}

// Population is the command population: it returns its exit code. It measures the excess population
// loss of private stochastic convex optimization where it is known exactly, as the number of
// records, the dimension or the budget grows, beside the proved bounds, and counts the gradients of
// records that each method evaluates. With -data it measures test accuracy on Adult instead.
//
//	sgd, prox, dpsgd, objpert, svrg, output, psgd, phased   those of package sco
//	onepass  averaged SGD, one gradient a record, no privacy
//	zero     w = 0
func Population(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, flags := newPopulation()
	return flags.RunExperiment(ctx, args, stdout, stderr, &c.Options, populationErrors,
		func() (*sweep.Experiment, error) {
			if c.Data != "" {
				return c.adultExperiment(flags)
			}
			if err := c.check(flags); err != nil {
				return nil, err
			}
			return c.experiment(), nil
		})
}

// stochastic are the private methods.
var stochastic = []string{"sgd", "prox", "dpsgd", "objpert", "svrg", "output", "psgd", "phased"}

// boundSuffix marks the columns that hold bounds.
const boundSuffix = "-bound"

// populationParams are the flags that decide the results: they identify a run.
type populationParams struct {
	Family string `json:"family"`
	Regime string `json:"regime"`
	sizes
	Delta  float64 `json:"delta"`
	Signal float64 `json:"signal"`
	Runs   int     `json:"runs"`
}

type populationConfig struct {
	sweep.Options
	populationParams
	adultFlags
	methods     []string
	sweep, list string
	bounds      bool
	values      []float64
}

// newPopulation defines the flags. Those that are 0 or empty take the value of the regime.
func newPopulation() (*populationConfig, *sweep.Flags) {
	c := &populationConfig{}
	f := sweep.NewFlags("population",
		"Excess population loss of private stochastic convex optimization, where it is known exactly.")
	f.Example = "go run ./cmd/research population -values 100,200 -runs 2 -out small"
	f.ChoiceVar(&c.Family, "family", families[0], families, "law of the records and their loss")
	f.ChoiceVar(&c.Regime, "regime", "privacy", []string{"privacy", "statistical"}, "what limits the excess: privacy "+
		"(n below n*) or statistical (n above); sets the defaults of -n, -d, -eps")
	f.ChoiceVar(&c.sweep, "sweep", "n", []string{"n", "d", "eps"}, "what grows")
	f.StringVar(&c.list, "values", "", "swept values `LIST` instead of the default grid")
	f.IntVar(&c.N, "n", 0, sweep.Between(0, 1e7), "records `N`; 0: of the regime")
	f.IntVar(&c.D, "d", 0, sweep.Between(0, 5000), "parameters `D`; 0: of the regime")
	f.FloatVar(&c.Epsilon, "eps", 0, sweep.Between(0, 1e5), "privacy budget `E` of one release; 0: of the regime")
	f.FloatVar(&c.Delta, "delta", 1e-6, sweep.Range{Max: math.Nextafter(1, 0), Open: true, Example: 1e-6},
		"privacy budget `D` of one release")
	f.FloatVar(&c.Signal, "signal", 3, sweep.Positive(1e6), "‖μ‖ of the linear family over the rate, `C`")
	f.IntVar(&c.Runs, "runs", 30, sweep.Between(1, 1e6), "runs `N` a cell, each with fresh records and noise")
	f.ListVar(&c.methods, "methods", nil, append(slices.Clone(stochastic), "onepass", "zero", "lop"),
		"methods to compare, `LIST`; empty: those that fit the family; lop with -data only")
	f.BoolVar(&c.bounds, "bounds", true, "a column with the proved bound beside each method that has one")
	c.adultFlags.register(f)
	c.Register(f, "population-out")
	return c, f
}

// check completes the flags and makes the grid.
func (c *populationConfig) check(f *sweep.Flags) error {
	type grid struct {
		n, d   int
		eps    float64
		values map[string][]float64
	}
	g := map[string]grid{
		"privacy": {8000, 50, 0.1, map[string][]float64{"n": {1000, 2000, 4000, 8000, 16000, 32000},
			"d": {16, 32, 64, 128, 256, 512}, "eps": {0.01, 0.02, 0.04, 0.08, 0.12, 0.16}}},
		"statistical": {4000, 5, 8, map[string][]float64{"n": {1000, 2000, 4000, 8000, 16000, 32000},
			"d": {2, 4, 8, 16, 32}, "eps": {4, 8, 16, 32, 64}}},
	}[c.Regime]
	if c.Family == "logistic" { // enumerates 2ᵈ points
		g.d, g.values["d"] = 8, []float64{2, 4, 6, 8, 10, 12}
	}
	c.N, c.D, c.Epsilon = cmp.Or(c.N, g.n), cmp.Or(c.D, g.d), cmp.Or(c.Epsilon, g.eps)
	err := cmp.Or(
		f.Pointless("without -data", "test", "radius", "relation"),
		f.Pointless("with -sweep "+c.sweep+", of which -values lists the values", c.sweep),
		f.PointlessIf(c.Family != "linear", "with -family "+c.Family+", whose law is fixed", "signal"),
		sweep.Refuse(slices.Contains(c.methods, "lop"), "flag -methods: lop is weighed for the empirical risk and "+
			"belongs to -data; its twin for the population is objpert"))
	c.values = g.values[c.sweep]
	if err == nil && c.list != "" {
		c.values, err = parseSwept(c.sweep, c.list)
	}
	for _, v := range c.values {
		p := c.at(v)
		err = cmp.Or(err,
			sweep.Refuse(c.Family == "logistic" && p.D > 16, "d = %d (flags -d, -values) with -family logistic: want at "+
				"most 16, for its 2^d rows are enumerated", p.D),
			sweep.Refuse(float64(p.N)*float64(p.D) > 2e8,
				"%d records of %d parameters (flags -n, -d, -values): want at most 2e8 numbers in all", p.N, p.D),
			sweep.Refuse(p.N < 2, "flag -n = %d: want at least 2 records", p.N),
			sweep.CheckBudgets("-eps, -delta", p.Delta, p.Epsilon))
	}
	if len(c.methods) == 0 {
		c.methods = map[string][]string{
			"linear":   {"sgd", "objpert", "output", "phased", "psgd", "onepass"},
			"absolute": {"prox", "dpsgd", "onepass"},
			"logistic": {"sgd", "objpert", "svrg", "output", "phased", "psgd", "dpsgd", "onepass"},
		}[c.Family]
	}
	return err
}

// at returns the parameters of the cells at one swept value.
func (c *populationConfig) at(value float64) populationParams {
	p := c.populationParams
	p.set(c.sweep, value)
	return p
}

func (c *populationConfig) experiment() *sweep.Experiment {
	e := &sweep.Experiment{
		Name: "population", Files: "excess", Sweep: c.sweep, Values: c.values, Params: c.populationParams,
		Prepare:   c.prepare,
		Summarize: c.summarize,
		Columns: []sweep.Column{sweep.Number("evaluations", func(r sweep.Result) (float64, bool) {
			d, _ := sweep.DetailOf[populationDetail](r)
			return d.evaluations()
		})},
		Plot: sweep.Plot{
			Title: fmt.Sprintf("Excess population loss, %s, %d runs", c.title(), c.Runs),
			X: map[string]string{"n": "n, number of records", "d": "d, number of parameters",
				"eps": "ε of one release"}[c.sweep],
			Y:     "population loss above the minimum",
			Style: map[string]sweep.Style{},
		},
	}
	for i, m := range c.methods {
		e.Methods = append(e.Methods, m)
		e.Plot.Style[m] = sweep.Style{Color: i}
		e.Plot.Colors = append(e.Plot.Colors, cmp.Or(populationNames[m], m))
		if c.bounds && m != "dpsgd" && m != "zero" { // the others have a proved bound
			e.Methods = append(e.Methods, m+boundSuffix)
			e.Plot.Style[m+boundSuffix] = sweep.Style{Color: i, Dash: 1}
			e.Plot.Dashes = []string{"measured", "proved bound"}
		}
	}
	return e
}

// populationNames are the methods in words.
var populationNames = map[string]string{
	"sgd": "noisy SGD", "dpsgd": "DP-SGD", "objpert": "objective perturbation", "output": "output perturbation",
	"phased": "phased SGD", "psgd": "permutation SGD", "prox": "proximal gradient steps",
	"svrg": "objective perturbation, SVRG", "onepass": "one pass (not private)", "zero": "no record used",
}

// title describes the quantities that do not grow.
func (c *populationConfig) title() string {
	text := c.Family + " losses"
	if c.Family == "linear" {
		text += fmt.Sprintf(" with slopes of %v times the minimax rate", c.Signal)
	}
	for i, x := range []any{c.N, c.D, c.Epsilon} {
		if name := []string{"n", "d", "eps"}[i]; name != c.sweep {
			text += fmt.Sprintf(", %s = %v", name, x)
		}
	}
	return text + fmt.Sprintf(", delta = %v", c.Delta)
}

// populationDetail is kept beside the mean of a cell.
type populationDetail struct {
	fitted
	Outcomes    []float64 `json:"outcomes,omitempty"`    // of the runs
	Evaluations []float64 `json:"evaluations,omitempty"` // gradients of single records
}

// evaluations is the mean number of evaluated gradients, false if no method counted them.
func (d populationDetail) evaluations() (float64, bool) {
	n := len(d.Evaluations)
	return floats.Sum(d.Evaluations) / float64(n), n > 0
}

// settings are shared by the methods; zero fields mean their defaults.
type settings struct {
	rel    dp.Relation
	radius float64         // of methods that know it from no set
	trace  func(erm.Trace) // called after every fit
}

// plannedFit fits records of the planned shape.
type plannedFit func(ctx context.Context, p *erm.Problem, src rand.Source) (*dp.Release, error)

// calibrate plans a private method by public quantities alone. It returns the bound on the expected
// excess, +Inf where there is none.
func calibrate(method string, p *erm.Problem, b dp.Budget, s settings) (plannedFit, float64, error) {
	stochastic := func(q *sco.Plan, err error) (plannedFit, float64, error) {
		if err != nil {
			return nil, 0, err
		}
		return q.Fit, q.Params().ExcessBound, nil
	}
	obj := func(q *lop.Plan, err error) (plannedFit, float64, error) {
		if err != nil {
			return nil, 0, err
		}
		return q.Fit, q.Params().ExcessBound, nil
	}
	objective := sco.ObjPert{Relation: s.rel, Radius: s.radius, Trace: s.trace}
	noisy := sco.NoisySGD{Relation: s.rel, Trace: s.trace}
	switch method {
	case "lop":
		return obj((&lop.Mechanism{Relation: s.rel, Radius: s.radius, Trace: s.trace}).Plan(p, b))
	case "objpert":
		return obj(objective.Plan(p, b))
	case "svrg":
		objective.SVRG = true
		return obj(objective.Plan(p, b))
	case "output":
		return obj((&sco.Output{Relation: s.rel, Radius: s.radius, Trace: s.trace}).Plan(p, b))
	case "psgd":
		return stochastic((&sco.PermutationSGD{Trace: s.trace}).Plan(p, b))
	case "phased":
		return stochastic((&sco.Phased{Trace: s.trace}).Plan(p, b))
	case "sgd":
		return stochastic(noisy.Plan(p, b))
	case "prox":
		return stochastic((&sco.ProxGD{NoisySGD: noisy}).Plan(p, b))
	case "dpsgd":
		return stochastic((&sco.DPSGD{Relation: s.rel, Trace: s.trace}).Plan(p, b))
	}
	return nil, 0, fmt.Errorf("no method %q", method)
}

// prepare calibrates one cell for the sizes of its value.
func (c *populationConfig) prepare(_ context.Context, cell sweep.Cell) (sweep.Task, error) {
	at := c.at(cell.Value)
	pop := at.population()
	method, isBound := strings.CutSuffix(cell.Method, boundSuffix)
	var det populationDetail
	var fit plannedFit
	var bound float64
	if slices.Contains(stochastic, method) {
		// A calibration reads no record: zeros stand for them.
		zeros := pop
		zeros.draw = func([]float64, *rand.Rand) float64 { return 0 }
		shape, err := zeros.problem(at.N, at.D, nil)
		if err == nil {
			count := func(t erm.Trace) { det.Evaluations = append(det.Evaluations, float64(t.GradTerms)) }
			budget := dp.Budget{Epsilon: at.Epsilon, Delta: at.Delta}
			fit, bound, err = calibrate(method, shape, budget, settings{trace: count})
		}
		if err != nil {
			return sweep.Task{}, err
		}
	}
	if method == "onepass" { // M²/(2ηn) + ηL²/2 at η = M/(L√n)
		lipschitz := pop.loss.Constants(pop.bounds, pop.radius).Lipschitz
		bound = pop.radius * lipschitz / math.Sqrt(float64(at.N))
	}
	if isBound {
		return once(func(context.Context) (float64, error) { return min(bound, math.MaxFloat64), nil }), nil
	}
	run := func(ctx context.Context, src rand.Source) ([]float64, error) {
		records := rand.New(src) // the law of the records is no secret
		if c.Seed != nil {
			src = noise.Reproducible(records.Uint64(), "population", "noise")
		}
		if method == "zero" {
			return make([]float64, at.D), nil
		}
		p, err := pop.problem(at.N, at.D, records)
		if err != nil {
			return nil, err
		}
		if method == "onepass" {
			det.Evaluations = append(det.Evaluations, float64(at.N))
			return onepass(p, pop.radius, records), nil
		}
		return det.fit(ctx, &c.Options, src, func(ctx context.Context, src rand.Source) (*dp.Release, error) {
			return fit(ctx, p, src)
		})
	}
	return sweep.Task{
		Runs: at.Runs,
		Run: func(ctx context.Context, src rand.Source) (float64, error) {
			w, err := run(ctx, src)
			if err != nil {
				return 0, err
			}
			excess := pop.excess(w)
			det.Outcomes = append(det.Outcomes, excess)
			return excess, nil
		},
		Detail: func() any { return det },
	}, nil
}

// onepass is averaged projected SGD with one gradient a record, in random order, η = M/(L√n): no
// privacy, excess at most ML/√n.
func onepass(p *erm.Problem, radius float64, src *rand.Rand) []float64 {
	n, d := p.Data.Dims()
	l := p.Loss.Constants(p.Data.Bounds(), radius).Lipschitz
	eta := radius / (l * math.Sqrt(float64(n)))
	w, g, mean := make([]float64, d), make([]float64, d), make([]float64, d)
	for _, i := range src.Perm(n) {
		floats.Add(mean, w)
		p.Loss.Grad(g, w, p.Data.Row(i), p.Data.Label(i))
		floats.AddScaled(w, -eta, g)
		p.Set.Prox(w, w, 1)
	}
	floats.Scale(1/float64(n), mean)
	return mean
}

// populationSummary is the object "results" of summary.json.
type populationSummary struct {
	Slopes     map[string]slope `json:"slopes,omitempty"`
	Violations []string         `json:"violations"` // means above their proved bound
	Notes      []string         `json:"notes"`
}

// slope of log excess with a 95 % interval.
type slope struct {
	Slope float64 `json:"slope"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// summarize fits slopes and compares means with bounds.
func (c *populationConfig) summarize(results []sweep.Result) (any, []string) {
	sum := &populationSummary{Slopes: map[string]slope{}, Violations: []string{}, Notes: []string{}}
	var lines []string
	bounds := map[string]map[float64]float64{}
	for _, r := range results {
		if m, ok := strings.CutSuffix(r.Method, boundSuffix); ok {
			if bounds[m] == nil {
				bounds[m] = map[float64]float64{}
			}
			bounds[m][r.Value] = r.Mean
		}
	}
	for _, m := range c.methods {
		var values []float64
		var outcomes [][]float64
		var evaluations []string
		for _, r := range results {
			if r.Method != m {
				continue
			}
			d, _ := sweep.DetailOf[populationDetail](r)
			if len(d.Outcomes) > 0 && slices.Min(d.Outcomes) > 0 {
				values, outcomes = append(values, r.Value), append(outcomes, d.Outcomes)
			}
			if k, ok := d.evaluations(); ok {
				evaluations = append(evaluations, fmt.Sprintf("%.3g", k))
			}
			// A mean of few runs may exceed the expectation that is bounded: by 5
			// standard errors in one of a million cells.
			if b, ok := bounds[m][r.Value]; ok && r.Mean-5*r.StdErr > b {
				sum.Violations = append(sum.Violations, fmt.Sprintf("%s at %s = %v: mean excess %.4g (±%.2g) is above the "+
					"proved bound %.4g", m, c.sweep, r.Value, r.Mean, r.StdErr, b))
			}
		}
		line := m
		if len(values) > 1 {
			s := fitSlope(values, outcomes)
			sum.Slopes[m] = s
			line += fmt.Sprintf(": slope %.3f (%.3f to %.3f) in %s", s.Slope, s.Low, s.High, c.sweep)
		}
		if len(evaluations) > 0 {
			line += "; gradient evaluations " + strings.Join(evaluations, ", ")
		}
		lines = append(lines, line)
	}
	for _, v := range sum.Violations {
		lines = append(lines, "VIOLATION: "+v)
	}
	if c.bounds && len(sum.Violations) == 0 {
		lines = append(lines, "no mean is above its proved bound")
	}
	if c.Family == "linear" {
		sum.Notes = append(sum.Notes, "the signal of the linear family shrinks with the rate: its slope is that of the "+
			"worst case, by construction for any method whose accuracy keeps up with it")
	}
	return sum, append(lines, sum.Notes...)
}

// fitSlope returns the least-squares slope of the geometric means of the runs, and the 2.5 % and
// 97.5 % quantiles of the same over resampled runs.
func fitSlope(values []float64, outcomes [][]float64) slope {
	const resamples = 2000
	x, y := make([]float64, len(values)), make([]float64, len(values))
	logs := make([][]float64, len(values))
	for i, v := range values {
		x[i] = math.Log(v)
		for _, o := range outcomes[i] {
			logs[i] = append(logs[i], math.Log(o))
		}
		y[i] = stat.Mean(logs[i], nil)
	}
	_, s := stat.LinearRegression(x, y, nil, false)
	src := rand.New(noise.Reproducible(0, "population", "bootstrap"))
	all := make([]float64, resamples)
	for k := range all {
		for i := range logs {
			y[i] = 0
			for range logs[i] {
				y[i] += logs[i][src.IntN(len(logs[i]))] / float64(len(logs[i]))
			}
		}
		_, all[k] = stat.LinearRegression(x, y, nil, false)
	}
	slices.Sort(all)
	return slope{s, stat.Quantile(0.025, stat.Empirical, all, nil), stat.Quantile(0.975, stat.Empirical, all, nil)}
}
