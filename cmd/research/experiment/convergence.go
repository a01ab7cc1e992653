// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package experiment

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

// Curves are the errors of the methods of package splitting against their work, on a problem for
// each question:
//
//	deterministic  methods that read all records: a lasso in a box
//	adaptive       a line search where the smoothness differs between regions
//	bias           stochastic splitting with a fixed step stays biased in a box, not in an affine
//	               set, and not with variance reduction
//
// Rows hold a method, its work and its error. All data are drawn from a fixed seed; nothing here is
// private.
func Curves(ctx context.Context, question string) ([][]string, error) {
	e := questions[question]()
	rows := [][]string{{"method", e.x, e.y}}
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	for _, m := range e.methods {
		points, err := e.trace(ctx, m)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", question, m.name, err)
		}
		for _, p := range points {
			rows = append(rows, []string{m.name, number(e.abscissa(p)), number(p.Value)})
		}
	}
	return rows, nil
}

var questions = map[string]func() experiment{"deterministic": deterministic, "adaptive": adaptive, "bias": bias}

// terms is a sum of which methods know nothing but this: not that of a LinearModel, whose duality
// gap would choose the points that are drawn.
type terms struct {
	splitting.FiniteSum
	splitting.TermSmoother
	splitting.Convex
	splitting.FuncGrader
}

// regression is the mean loss of least squares or logistic regression on n made-up records. Rows
// are standard normal. Of least squares column j is shrunk to the size 10^(−2·decay·j/d), and of
// logistic regression neighboring columns are correlated. Labels come from a sparse truth.
func regression(n, d int, decay float64, logistic bool) terms {
	src := noise.Reproducible(5, "convergence")
	normal := func() float64 {
		var x [1]float64
		noise.Normal(x[:], 1, src)
		return x[0]
	}
	truth := make([]float64, d)
	for j := range truth {
		if j/10%10 == 3 || !logistic && j%4 == 0 {
			truth[j] = normal()
		}
	}
	a, b := mat.NewDense(n, d, nil), make([]float64, n)
	for i := range n {
		row := a.RawRowView(i)
		for j := range row {
			row[j] = normal()
			if !logistic {
				row[j] *= math.Pow(10, -2*decay*float64(j)/float64(d))
			} else if j > 0 {
				row[j] = decay*row[j] + (1-decay)*row[j-1]
			}
		}
		b[i] = floats.Dot(row, truth) + normal()
	}
	fit := splitting.NewLeastSquares
	if logistic {
		fit = splitting.NewLogistic
	}
	f, err := fit(a, b)
	if err == nil {
		f, err = f.With(slices.Repeat([]float64{1 / float64(n)}, n), nil)
	}
	if err != nil {
		panic(err) // the data are ours
	}
	return terms{f, f, f, f}
}

// method is a named method that makes steps steps.
type method struct {
	name  string
	m     splitting.Method
	steps int
	other *experiment // if not nil, the method solves the problem of this one
}

type experiment struct {
	problem splitting.Problem
	dim     int
	err     func(x []float64) float64 // what is drawn
	methods []method
	byPass  bool // the abscissa counts passes, not iterations
	x, y    string
}

// floor is where the curves are cut: below it they are rounding.
const floor = 1e-12

// firstPass is where the curves against passes begin: before it nothing happens.
const firstPass = 0.1

// trace solves by m and returns error against work, log-spaced.
func (e experiment) trace(ctx context.Context, m method) ([]splitting.TracePoint, error) {
	if m.other != nil {
		e = *m.other
	}
	t := &splitting.Trace{Func: e.err, PerDecade: 25}
	s := &splitting.Settings{Iterations: m.steps, Tolerance: -1, Src: noise.Reproducible(20, "convergence"),
		Recorder: t}
	if _, err := splitting.Solve(ctx, e.problem, make([]float64, e.dim), s, m.m); err != nil {
		return nil, err
	}
	var points []splitting.TracePoint
	for _, p := range t.Points {
		if !(p.Value > floor) {
			break
		}
		if !e.byPass || e.passes(p) >= firstPass {
			points = append(points, p)
		}
	}
	return points, nil
}

// passes returns the gradients of terms in units of one pass over the data.
func (e experiment) passes(p splitting.TracePoint) float64 {
	return float64(p.GradTerms) / float64(e.problem.F.(splitting.FiniteSum).Len())
}

func (e experiment) abscissa(p splitting.TracePoint) float64 {
	if e.byPass {
		return e.passes(p)
	}
	return float64(p.Iterations)
}

// minimizer returns what a long solve finds.
func minimizer(p splitting.Problem, dim int, m splitting.Method, steps int) []float64 {
	long := &splitting.Settings{Iterations: steps, Tolerance: -1}
	res, err := splitting.Solve(context.Background(), p, make([]float64, dim), long, m)
	if err != nil {
		panic(err) // the data are ours
	}
	return res.X
}

// gap returns J(x) − J* over J* for the minimizer found by a long solve.
func gap(p splitting.Problem, dim int, m splitting.Method, steps int) func(x []float64) float64 {
	best := p.Func(minimizer(p, dim, m, steps))
	return func(x []float64) float64 { return (p.Func(x) - best) / math.Abs(best) }
}

func deterministic() experiment {
	const n, d = 400, 200
	f := regression(n, d, 1, false)
	p := splitting.Problem{F: f, G: prox.L1{Weight: 0.02}, H: prox.Box{Lo: -0.5, Hi: 0.5}}
	lip := f.Smoothness()
	return experiment{
		problem: p, dim: d, err: gap(p, d, &splitting.ForwardBackward{}, 20_000),
		methods: []method{
			{name: "ForwardBackward", m: &splitting.ForwardBackward{}, steps: 5000},
			{name: "ForwardBackward, search", m: &splitting.ForwardBackward{Rule: splitting.LineSearch}, steps: 5000},
			{name: "ForwardBackward, plain", m: &splitting.ForwardBackward{Plain: true}, steps: 5000},
			{name: "backward-forward, 1.9/L", m: &backwardForward{splitting.DavisYin{StepSize: 1.9 / lip}}, steps: 5000},
			{name: "DavisYin", m: &splitting.DavisYin{}, steps: 5000},
			{name: "DavisYin, 1.9/L", m: &splitting.DavisYin{StepSize: 1.9 / lip}, steps: 5000},
			{name: "DavisYin, search", m: &splitting.DavisYin{Rule: splitting.LineSearch}, steps: 5000},
			{name: "PrimalDual", m: &splitting.PrimalDual{}, steps: 5000},
		},
		x: "iterations", y: "relative gap to the minimum",
	}
}

// backwardForward is DavisYin with G + H in the place of G.
type backwardForward struct{ splitting.DavisYin }

func (m *backwardForward) Init(p splitting.Problem, x0 []float64, rnd *rand.Rand) error {
	psi, err := prox.Sum(p.G, p.H)
	if err != nil {
		return splitting.ErrProblem
	}
	return m.DavisYin.Init(splitting.Problem{F: p.F, G: psi}, x0, rnd)
}

func adaptive() experiment {
	const n, d = 100, 1002
	f := regression(n, d, 0.95, true)
	groups := make([][]int, 125) // of ten, each sharing two with the next
	for i := range groups {
		for j := range 10 {
			groups[i] = append(groups[i], 8*i+j)
		}
	}
	pieces := prox.SplitGroups(prox.GroupL2{Groups: groups, Weight: 1e-2})
	p := splitting.Problem{F: f, G: pieces[1], H: pieces[0]}
	return experiment{
		problem: p, dim: d, err: gap(p, d, &splitting.DavisYin{Rule: splitting.LineSearch}, 3000),
		methods: []method{
			{name: "DavisYin, search", m: &splitting.DavisYin{Rule: splitting.LineSearch}, steps: 3000},
			{name: "DavisYin, 1.9/L", m: &splitting.DavisYin{StepSize: 1.9 / f.Smoothness()}, steps: 3000},
			{name: "DavisYin", m: &splitting.DavisYin{}, steps: 3000},
			{name: "PrimalDual", m: &splitting.PrimalDual{}, steps: 3000},
		},
		x: "iterations", y: "relative gap to the minimum",
	}
}

func bias() experiment {
	const n, d, passes = 2000, 40, 200
	f := regression(n, d, 0.5, false)
	sums := mat.NewDense(4, d, nil) // the coordinates of each quarter have sum 0
	for j := range d {
		sums.Set(4*j/d, j, 1)
	}
	affine, err := prox.NewAffine(sums, make([]float64, 4))
	if err != nil {
		panic(err) // the matrix is ours
	}
	in := func(h prox.Operator, m splitting.Method) experiment {
		p := splitting.Problem{F: f, G: prox.ElasticNet{L1: 0.02, L2: 0.01}, H: h}
		best := minimizer(p, d, m, 20_000)
		size := floats.Norm(best, 2)
		return experiment{problem: p, dim: d, byPass: true,
			err: func(x []float64) float64 { return floats.Distance(x, best, 2) / size }}
	}
	e := in(prox.Box{Lo: -0.3, Hi: 0.3}, &splitting.ForwardBackward{})
	plane := in(affine, &splitting.DavisYin{})
	e.methods = []method{
		{name: "StochasticTOS, fixed step", m: &splitting.StochasticTOS{}, steps: n * passes},
		{name: "StochasticTOS, affine set", m: &splitting.StochasticTOS{}, steps: n * passes, other: &plane},
		{name: "StochasticTOS, SVRG", m: &splitting.StochasticTOS{SVRG: true}, steps: n * passes / 3},
		{name: "DavisYin", m: &splitting.DavisYin{}, steps: passes},
	}
	e.x, e.y = "passes over the data", "relative distance to the minimizer"
	return e
}
