// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package experiment

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/cmd/internal/screen"
	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

const convergenceHelp = `How the methods of package splitting converge, one picture a question.

The table goes to standard output: iterations and passes over the data to three accuracies. The
curves are convergence-NAME.csv, the pictures convergence-NAME.png:

  deterministic  gap against iterations: lasso in a box, ill-conditioned
  adaptive       gap against iterations: logistic regression with overlapping groups, whose sum
                 has no closed form; it shows the worth of a line search
  bias           distance to the minimizer against passes over the data: stochastic three-operator
                 splitting stays biased, variance reduction does not

All data are drawn from a fixed seed; nothing here is private.`

// Convergence is the command convergence: it returns its exit code.
func Convergence(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var names, chosen []string
	for _, f := range figures {
		names = append(names, f.name)
	}
	var out string
	var force bool
	f := sweep.NewFlags("convergence", convergenceHelp)
	f.StringVar(&out, "out", "convergence-out", "folder `DIR` of the curves and pictures")
	f.ListVar(&chosen, "figure", names, names, "figures `LIST` to draw")
	f.BoolVar(&force, "force", false, "overwrite the curves and pictures of another run in -out")
	f.Example = "go run ./cmd/research convergence -figure bias"
	return f.Run(args, stdout, stderr, &sweep.Options{Out: "."}, func() error {
		for _, name := range chosen { // before minutes of work
			for _, path := range curveFiles(out, name) {
				if err := sweep.Replace("out", path, force); err != nil {
					return err
				}
			}
		}
		for _, f := range figures {
			if slices.Contains(chosen, f.name) {
				if err := draw(ctx, f, out, stdout); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// curveFiles returns the names of the files of a figure.
func curveFiles(out, name string) [2]string {
	base := filepath.Join(out, "convergence-"+name)
	return [2]string{base + ".csv", base + ".png"}
}

// draw solves the problem of f by its methods, prints the table and writes the picture.
func draw(ctx context.Context, f figure, out string, stdout io.Writer) error {
	e := f.make()
	head := []string{"method"}
	for _, a := range e.accuracies {
		head = append(head, fmt.Sprintf("%.0e", a), "passes")
	}
	table := [][]string{head}
	var names []string
	var results []sweep.Result
	rows := [][]string{{"method", e.plot.X, e.plot.Y}}
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	for _, m := range e.methods {
		points, err := e.trace(ctx, m)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", f.name, m.name, err)
		}
		names = append(names, m.name)
		for _, p := range points {
			results = append(results, sweep.Result{Method: m.name, Value: e.abscissa(p), Mean: p.Value})
			rows = append(rows, []string{m.name, number(e.abscissa(p)), number(p.Value)})
		}
		row := []string{m.name}
		for _, a := range e.accuracies {
			if p, ok := first(points, a); ok {
				row = append(row, strconv.Itoa(p.Iterations), fmt.Sprintf("%.3g", e.passes(p)))
			} else {
				row = append(row, "—", "—")
			}
		}
		table = append(table, row)
	}
	if _, err := io.WriteString(stdout, screen.Paragraph("", f.name+": "+e.plot.Title, screen.Out())+
		screen.Table("lr", table, screen.Out())); err != nil {
		return err
	}
	e.plot.Legend = convergenceNames
	png, err := e.plot.PNG(names, results)
	if err != nil {
		return err
	}
	var curves bytes.Buffer
	files := curveFiles(out, f.name)
	if err := cmp.Or(os.MkdirAll(out, 0o777), csv.NewWriter(&curves).WriteAll(rows),
		sweep.WriteFile(files[0], curves.Bytes()), sweep.WriteFile(files[1], png)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s\n%s\n\n", files[0], files[1])
	return err
}

// regression is f(x) = Σᵢ (1/n)φ(⟨aᵢ,x⟩; bᵢ) + (ridge/2)‖x‖², φ(t;b) = ½(t−b)² or
// log(1+e^t) − bt, each term with its share of the square.
type regression struct {
	a        blas64.General
	b, t     []float64
	logistic bool
	ridge    float64
	lip, one float64
}

var (
	_ splitting.FiniteSum    = (*regression)(nil)
	_ splitting.TermSmoother = (*regression)(nil)
	_ splitting.Convex       = (*regression)(nil)
	_ splitting.FuncGrader   = (*regression)(nil)
)

// newRegression draws rows of standard normals, decay 1 and more of them shrunk
// so that column j has size 10^(−2·decay·j/d), and labels of a sparse truth.
func newRegression(n, d int, decay float64, logistic bool) *regression {
	src := noise.Reproducible(5, "convergence")
	normal := func() float64 {
		var x [1]float64
		noise.Normal(x[:], 1, src)
		return x[0]
	}
	a := blas64.General{Rows: n, Cols: d, Stride: d, Data: make([]float64, n*d)}
	f := &regression{a: a, b: make([]float64, n), t: make([]float64, n), logistic: logistic}
	truth := make([]float64, d)
	for j := range truth {
		if j/10%10 == 3 || !logistic && j%4 == 0 {
			truth[j] = normal()
		}
	}
	for i := range n {
		row := f.row(i)
		for j := range row {
			row[j] = normal()
			if !logistic {
				row[j] *= math.Pow(10, -2*decay*float64(j)/float64(d))
			} else if j > 0 { // neighbors are correlated
				row[j] = decay*row[j] + (1-decay)*row[j-1]
			}
		}
		f.b[i] = floats.Dot(row, truth) + normal()
		if logistic {
			f.b[i] = math.Max(math.Copysign(1, f.b[i]), 0)
		}
	}
	f.bound()
	return f
}

// bound computes the Lipschitz constants of ∇f and of its terms.
func (f *regression) bound() {
	n, curve := float64(f.a.Rows), 1.0
	if f.logistic {
		curve = 0.25
	}
	f.one = 0
	for i := range f.b {
		f.one = math.Max(f.one, (curve*floats.Dot(f.row(i), f.row(i))+f.ridge)/n)
	}
	var svd mat.SVD
	if !svd.Factorize(mat.NewDense(f.a.Rows, f.a.Cols, f.a.Data), mat.SVDNone) {
		panic("convergence: singular values not found")
	}
	top := svd.Values(nil)[0] * (1 + 1e-12)
	f.lip = curve*top*top/n + f.ridge
}

func (f *regression) row(i int) []float64 { return f.a.Data[i*f.a.Stride:][:f.a.Cols] }

func (f *regression) Len() int                { return f.a.Rows }
func (f *regression) Smoothness() float64     { return f.lip }
func (f *regression) TermSmoothness() float64 { return f.one }
func (f *regression) Convexity() float64      { return f.ridge }

// phi returns φ and φ′.
func (f *regression) phi(t, b float64) (v, d float64) {
	if !f.logistic {
		return (t - b) * (t - b) / 2, t - b
	}
	return math.Max(t, 0) + math.Log1p(math.Exp(-math.Abs(t))) - b*t, 1/(1+math.Exp(-t)) - b
}

func vector(x []float64) blas64.Vector { return blas64.Vector{N: len(x), Data: x, Inc: 1} }

// Func implements Smooth.
func (f *regression) Func(x []float64) (s float64) {
	blas64.Gemv(blas.NoTrans, 1, f.a, vector(x), 0, vector(f.t))
	for i, t := range f.t {
		v, _ := f.phi(t, f.b[i])
		s += v
	}
	return s/float64(f.a.Rows) + f.ridge/2*floats.Dot(x, x)
}

// Grad implements Smooth.
func (f *regression) Grad(dst, x []float64) { f.FuncGrad(dst, x) }

// FuncGrad implements FuncGrader.
func (f *regression) FuncGrad(dst, x []float64) (s float64) {
	blas64.Gemv(blas.NoTrans, 1, f.a, vector(x), 0, vector(f.t))
	for i, t := range f.t {
		var v float64
		v, f.t[i] = f.phi(t, f.b[i])
		s += v
	}
	copy(dst, x)
	blas64.Gemv(blas.Trans, 1/float64(f.a.Rows), f.a, vector(f.t), f.ridge, vector(dst))
	return s/float64(f.a.Rows) + f.ridge/2*floats.Dot(x, x)
}

// GradTerms implements FiniteSum.
func (f *regression) GradTerms(dst, x []float64, idx []int) {
	n := float64(f.a.Rows)
	floats.ScaleTo(dst, f.ridge*float64(len(idx))/n, x)
	for _, i := range idx {
		_, d := f.phi(floats.Dot(f.row(i), x), f.b[i])
		floats.AddScaled(dst, d/n, f.row(i))
	}
}

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
	long := &splitting.Settings{Iterations: steps, Tolerance: -1}
	res, err := splitting.Solve(context.Background(), p, make([]float64, dim), long, m)
	if err != nil {
		panic(err) // the data are ours
	}
	return res.X
}

// convergenceNames are the methods in words.
var convergenceNames = map[string]string{
	"ForwardBackward":         "forward-backward, accelerated",
	"ForwardBackward, search": "forward-backward, accelerated, line search",
	"ForwardBackward, plain":  "forward-backward", "BackwardForward, 1.9/L": "backward-forward, steps 1.9/L",
	"DavisYin": "Davis–Yin, steps 1/L", "DavisYin, 1.9/L": "Davis–Yin, steps 1.9/L",
	"DavisYin, search": "Davis–Yin with a line search", "PrimalDual": "primal-dual",
	"StochasticTOS, fixed step": "stochastic, fixed step", "StochasticTOS, root": "stochastic, steps like 1/√k",
	"StochasticTOS, strongly convex": "stochastic, steps like 1/k", "VarianceReducedTOS, SAGA": "variance-reduced, SAGA",
	"VarianceReducedTOS, SVRG": "variance-reduced, SVRG",
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
			Title: "Lasso in a box, 400 × 200, columns of sizes 1 to 0.01", X: "iterations", Y: "relative gap to the minimum",
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
			Title: "Logistic regression with 125 overlapping groups, 100 × 1002", X: "iterations",
			Y:      "relative gap to the minimum",
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
		plot: sweep.Plot{
			Title: "Ridge and ℓ₁ in a box, 2000 × 40: steps from samples of the records", X: "passes over the data",
			Y: "relative distance to the minimizer",
		},
	}
}
