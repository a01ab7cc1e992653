// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package experiment

import (
	"context"
	"fmt"
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
)

// Population measures the excess population loss of private stochastic convex optimization where it
// is known exactly, as the number of records, the dimension or the budget grows, beside the proved
// bounds, and counts the gradients of records that each method evaluates.
//
//	sgd, prox, dpsgd, objpert, svrg, output   those of package sco
//	onepass  averaged SGD, one gradient a record, no privacy
//	zero     w = 0
type Population struct {
	Swept string // n, d or eps
	sweep.Sizes
	Delta   float64
	Signal  float64 // ‖μ‖ of the linear family over the rate
	Runs    int     // of a cell, each with fresh records and noise
	Methods []string

	law func(d int) population // of the records and their loss; nil for the linear family
}

// PrivacyLimits are sizes where privacy limits the excess, StatisticsLimit those where the number
// of records does.
var (
	PrivacyLimits   = Population{"n", sweep.Sizes{N: 8000, D: 50, Epsilon: 0.1}, 1e-6, 3, 30, nil, nil}
	StatisticsLimit = Population{"n", sweep.Sizes{N: 4000, D: 5, Epsilon: 8}, 1e-6, 3, 30, nil, nil}
)

// stochastic are the private methods.
var stochastic = []string{"sgd", "prox", "dpsgd", "objpert", "svrg", "output"}

// boundSuffix marks the columns that hold bounds.
const boundSuffix = "-bound"

// at returns the parameters of the cells at one swept value.
func (c Population) at(value float64) Population {
	c.Set(c.Swept, value)
	return c
}

// Over is the experiment over the swept values.
func (c Population) Over(values ...float64) *sweep.Experiment {
	e := &sweep.Experiment{
		Name: "population", Files: "excess", Sweep: c.Swept, Values: values, Params: c,
		Prepare:   c.prepare,
		Summarize: c.summarize,
		Columns: []sweep.Column{sweep.Number("evaluations", func(r sweep.Result) (float64, bool) {
			d, _ := sweep.DetailOf[populationDetail](r)
			return d.evaluations()
		})},
	}
	for _, m := range c.Methods {
		e.Methods = append(e.Methods, m)
		if m != "dpsgd" && m != "zero" { // the others have a proved bound
			e.Methods = append(e.Methods, m+boundSuffix)
		}
		if m == "sgd" { // [BFTT19, Theorem 3.2]
			e.Methods = append(e.Methods, "sgd-published")
		}
	}
	return e
}

// populationDetail is kept beside the mean of a cell.
type populationDetail struct {
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
func (c Population) prepare(_ context.Context, cell sweep.Cell) (sweep.Task, error) {
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
	if method == "sgd-published" {
		q, err := sco.PublishedSGD(at.N, at.D, dp.Budget{Epsilon: at.Epsilon, Delta: at.Delta})
		if err != nil {
			return sweep.Task{}, err
		}
		bound, isBound = q.Excess*pop.radius*pop.loss.Constants(pop.bounds, pop.radius).Lipschitz, true
	}
	if isBound {
		return sweep.Once(func(context.Context) (float64, error) { return min(bound, math.MaxFloat64), nil }), nil
	}
	run := func(ctx context.Context, src rand.Source) ([]float64, error) {
		records := rand.New(src) // the law of the records is no secret
		src = noise.Reproducible(records.Uint64(), "population", "noise")
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
		release, err := fit(ctx, p, src)
		if err != nil {
			return nil, err
		}
		return release.Theta, nil
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
	w, g := make([]float64, d), make([]float64, d)
	mean := make([]float64, d)
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
	Slopes map[string]slope `json:"slopes,omitempty"`
}

// slope of log excess with a 95 % interval.
type slope struct {
	Slope float64 `json:"slope"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// summarize fits slopes.
func (c Population) summarize(results []sweep.Result) (any, []string) {
	sum := &populationSummary{Slopes: map[string]slope{}}
	for _, m := range c.Methods {
		var values []float64
		var outcomes [][]float64
		for _, r := range results {
			d, _ := sweep.DetailOf[populationDetail](r)
			if r.Method == m && len(d.Outcomes) > 0 && slices.Min(d.Outcomes) > 0 {
				values, outcomes = append(values, r.Value), append(outcomes, d.Outcomes)
			}
		}
		if len(values) > 1 {
			sum.Slopes[m] = fitSlope(values, outcomes)
		}
	}
	return sum, nil
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
