package experiment

import (
	"context"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

type figure struct {
	name string
	make func() experiment
}

var figures = []figure{
	{"deterministic", deterministic},
	{"adaptive", adaptive},
	{"bias", bias},
}

// method is a named method that makes steps steps.
type method struct {
	name  string
	m     splitting.Method
	steps int
}

type experiment struct {
	problem    splitting.Problem
	dim        int
	err        func(x []float64) float64 // what is drawn
	methods    []method
	accuracies []float64
	byPass     bool // the abscissa counts passes, not iterations
	plot       sweep.Plot
}

// floor is where the curves are cut: below it they are rounding.
const floor = 1e-12

// firstPass is where the curves against passes begin: before it nothing happens.
const firstPass = 0.1

// trace solves by m and returns error against work, log-spaced.
func (e experiment) trace(ctx context.Context, m method) ([]splitting.TracePoint, error) {
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

// first returns the first point from which on the error stays at most a.
func first(points []splitting.TracePoint, a float64) (p splitting.TracePoint, ok bool) {
	for i := len(points) - 1; i >= 0 && points[i].Value <= a; i-- {
		p, ok = points[i], true
	}
	return p, ok
}

// minimizer returns what a long solve finds.
func minimizer(p splitting.Problem, dim int, m splitting.Method, steps int) []float64 {
	res, err := splitting.Solve(context.Background(), p, make([]float64, dim), &splitting.Settings{Iterations: steps, Tolerance: -1}, m)
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
	f := newRegression(n, d, 1, false)
	p := splitting.Problem{F: f, G: prox.L1{Weight: 0.02}, H: prox.Box{Lo: -0.5, Hi: 0.5}}
	lip := f.Smoothness()
	return experiment{
		problem: p, dim: d, err: gap(p, d, &splitting.ForwardBackward{}, 20_000),
		accuracies: []float64{1e-3, 1e-6, 1e-9},
		methods: []method{
			{"ForwardBackward", &splitting.ForwardBackward{}, 5000},
			{"ForwardBackward, search", &splitting.ForwardBackward{Rule: splitting.LineSearch}, 5000},
			{"ForwardBackward, plain", &splitting.ForwardBackward{Plain: true}, 5000},
			{"BackwardForward, 1.9/L", &backwardForward{splitting.DavisYin{StepSize: 1.9 / lip}}, 5000},
			{"DavisYin", &splitting.DavisYin{}, 5000},
			{"DavisYin, 1.9/L", &splitting.DavisYin{StepSize: 1.9 / lip}, 5000},
			{"DavisYin, search", &splitting.DavisYin{Rule: splitting.LineSearch}, 5000},
			{"PrimalDual", &splitting.PrimalDual{}, 5000},
		},
		plot: sweep.Plot{
			Title: "Lasso in a box, 400 × 200, columns of sizes 1 to 0.01", X: "iterations", Y: "relative gap",
			Dashed: []string{"DavisYin", "PrimalDual", "DavisYin, 1.9/L"}, // they would hide methods that make the same steps
		},
	}
}

// backwardForward is DavisYin with G + H in the place of G.
type backwardForward struct{ splitting.DavisYin }

func (m *backwardForward) Init(p splitting.Problem, x0 []float64, rnd *rand.Rand) error {
	psi, ok := prox.Sum(p.G, p.H)
	if !ok {
		return splitting.ErrProblem
	}
	return m.DavisYin.Init(splitting.Problem{F: p.F, G: psi}, x0, rnd)
}

func adaptive() experiment {
	const n, d = 100, 1002
	f := newRegression(n, d, 0.95, true)
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
		accuracies: []float64{1e-3, 1e-6, 1e-9},
		methods: []method{
			{"DavisYin, search", &splitting.DavisYin{Rule: splitting.LineSearch}, 3000},
			{"DavisYin, 1.9/L", &splitting.DavisYin{StepSize: 1.9 / f.Smoothness()}, 3000},
			{"DavisYin", &splitting.DavisYin{}, 3000},
			{"PrimalDual", &splitting.PrimalDual{}, 3000},
		},
		plot: sweep.Plot{
			Title: "Logistic regression, 125 overlapping groups, 100 × 1002", X: "iterations", Y: "relative gap",
			Dashed: []string{"PrimalDual"}, // it makes nearly the steps of DavisYin
		},
	}
}

func bias() experiment {
	const n, d, passes = 2000, 40, 200
	f := newRegression(n, d, 0.5, false)
	f.ridge = 0.01
	f.bound()
	p := splitting.Problem{F: f, G: prox.L1{Weight: 0.02}, H: prox.Box{Lo: -0.3, Hi: 0.3}}
	best := minimizer(p, d, &splitting.ForwardBackward{}, 20_000)
	size := floats.Norm(best, 2)
	tos := func(r splitting.StepRule) *splitting.StochasticTOS { return &splitting.StochasticTOS{Rule: r} }
	return experiment{
		problem: p, dim: d, byPass: true,
		err:        func(x []float64) float64 { return floats.Distance(x, best, 2) / size },
		accuracies: []float64{1e-1, 1e-2, 1e-6},
		methods: []method{
			{"StochasticTOS, fixed step", tos(splitting.FixedStep), n * passes},
			{"StochasticTOS, root", tos(splitting.RootStep), n * passes},
			{"StochasticTOS, strongly convex", tos(splitting.StronglyConvexStep), n * passes},
			{"VarianceReducedTOS, SAGA", &splitting.StochasticTOS{Estimator: splitting.SAGA}, n * passes / 2},
			{"VarianceReducedTOS, SVRG", &splitting.StochasticTOS{Estimator: splitting.SVRG}, n * passes / 3},
			{"DavisYin", &splitting.DavisYin{}, passes},
		},
		plot: sweep.Plot{Title: "Ridge regression with ℓ1 in a box, 2000 × 40: sampling", X: "passes over the data",
			Y: "relative distance to the minimizer"},
	}
}
