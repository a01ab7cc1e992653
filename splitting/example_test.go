// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

// Minimize ½x'Qx − ⟨lin,x⟩ + ‖x‖₁ over the box [−1, 1]².
func ExampleMinimize() {
	f, err := splitting.NewQuadratic(mat.NewSymDense(2, []float64{2, 1, 1, 2}), []float64{5, 0.5}, 0)
	if err != nil {
		panic(err)
	}
	p := splitting.Problem{F: f, G: prox.L1{Weight: 1}, H: prox.Box{Lo: -1, Hi: 1}}
	res, err := splitting.Minimize(context.Background(), p, []float64{0, 0}, nil)
	if err != nil {
		panic(err)
	}
	fmt.Println(res.Status, res.X, "within", res.Distance)
	// Output: Converged [1 0] within 0
}

// A simplex and a norm have no closed-form sum, but three-operator splitting needs only the
// proximal map of each.
func ExampleSolve() {
	f, err := splitting.NewQuadratic(mat.NewSymDense(3, []float64{1, 0, 0, 0, 1, 0, 0, 0, 1}), []float64{1, 2, 0}, 0)
	if err != nil {
		panic(err)
	}
	p := splitting.Problem{F: f, G: prox.L2Norm{Weight: 1}, H: prox.Simplex{Total: 1}}
	res, err := splitting.Solve(context.Background(), p, []float64{1, 0, 0}, &splitting.Settings{Tolerance: 1e-5},
		&splitting.DavisYin{})
	if err != nil {
		panic(err)
	}
	fmt.Printf("%v %.3f\n", res.Status, res.X)
	// Output: Converged [0.282 0.718 0.000]
}

// trace is a Recorder that prints the residuals of a solve.
type trace struct{}

func (trace) Init() error { return nil }

func (trace) Record(loc *splitting.Location, stats *splitting.Stats) error {
	fmt.Printf("%d %.1e\n", stats.Iterations, loc.Residual)
	return nil
}

func ExampleRecorder() {
	f, err := splitting.NewQuadratic(mat.NewSymDense(2, []float64{1, 0, 0, 4}), []float64{1, 1}, 0)
	if err != nil {
		panic(err)
	}
	m := &splitting.ForwardBackward{Plain: true}
	_, err = splitting.Solve(context.Background(), splitting.Problem{F: f}, []float64{0, 0},
		&splitting.Settings{Iterations: 3, Recorder: trace{}}, m)
	fmt.Println(err)
	// Output:
	// 1 1.4e+00
	// 2 7.5e-01
	// 3 5.6e-01
	// <nil>
}

// The stochastic method of the published experiment ends at its iteration limit and proves nothing
// about its result.
func ExampleStochasticTOS() {
	f := points{1, 2, 6} // the function Σᵢ ½(x − bᵢ)²
	m := &splitting.StochasticTOS{StepSize: 0.1}
	res, err := splitting.Solve(context.Background(), splitting.Problem{F: f, H: prox.Box{Lo: 0, Hi: 10}}, []float64{0},
		&splitting.Settings{Iterations: 20000, Src: rand.NewPCG(1, 2)}, m)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%v, near 3: %v, residual %v\n", res.Status, res.X[0] > 2.8 && res.X[0] < 3.2, res.Residual)
	// Output: IterationLimit, near 3: true, residual +Inf
}

// points is Σᵢ ½(x − bᵢ)² in one dimension.
type points []float64

func (f points) Len() int            { return len(f) }
func (f points) Smoothness() float64 { return float64(len(f)) }

func (f points) Func(x []float64) (s float64) {
	for _, b := range f {
		s += (x[0] - b) * (x[0] - b) / 2
	}
	return s
}

func (f points) Grad(dst, x []float64) {
	dst[0] = 0
	for _, b := range f {
		dst[0] += x[0] - b
	}
}

func (f points) GradTerms(dst, x []float64, idx []int) {
	dst[0] = 0
	for _, i := range idx {
		dst[0] += x[0] - f[i]
	}
}

// must returns v and panics on an error.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A portfolio of least risk minus return, with a budget of 1 and at most .4 of it in one asset. A
// multiplier is a price: the objective changes by −.0348 for each unit that is added to the budget,
// and by −.0157 for each that is added to the bound of the first asset.
func Example_portfolio() {
	risk := mat.NewSymDense(3, []float64{0.10, 0.02, 0.01, 0.02, 0.20, 0.03, 0.01, 0.03, 0.40})
	budget, sum := []float64{1}, mat.NewDense(1, 3, []float64{1, 1, 1})
	p := must(splitting.NewQP(risk, []float64{-0.10, -0.12, -0.15}, sum, budget, budget, []float64{0, 0, 0},
		[]float64{0.4, 0.4, 0.4}))
	res := must(splitting.Minimize(context.Background(), p, make([]float64, 3), nil))
	fmt.Printf("%v %.4f\nprice of the budget %.4f, of the first bound %.4f\n", res.Status, res.X, res.Dual.H,
		res.Dual.G[0])
	// Output:
	// Converged [0.4000 0.3481 0.2519]
	// price of the budget [0.0348], of the first bound 0.0157
}

// The line below which nine tenths of the points lie: a regression for the quantile .9. The
// loss is .1 for each unit by which the line is above a point, and .9 below. The multipliers add up
// to 0, and only points on the line have others than .1 and −.9.
func Example_quantileRegression() {
	x := []float64{0, 1, 2, 3, 4, 5, 6, 7}
	y := []float64{0, 2, 1, 5, 3, 9, 5, 6.5}
	a := mat.NewDense(len(x), 2, nil)
	for i, v := range x {
		a.SetRow(i, []float64{1, v})
	}
	p := splitting.Problem{H: prox.Translate(prox.Pinball{Tau: 0.1}, y), K: must(splitting.NewMatrix(a))}
	res := must(splitting.Minimize(context.Background(), p, []float64{0, 0}, nil))
	fmt.Printf("%v %.4f loss %.4f\nmultipliers %.3f\n", res.Status, res.X, res.Value, res.Dual.H)
	// Output:
	// Converged [0.2500 1.7500] loss 1.9500
	// multipliers [0.100 -0.200 0.100 0.100 0.100 -0.400 0.100 0.100]
}

// The nondecreasing sequence nearest to y.
func Example_isotonicRegression() {
	y := []float64{1, 3, 2, 4, 3.5, 6}
	f := must(splitting.NewQuadratic(mat.NewDiagDense(6, []float64{1, 1, 1, 1, 1, 1}), y, 0))
	p := splitting.Problem{F: f, G: prox.Isotonic{}}
	res := must(splitting.Minimize(context.Background(), p, make([]float64, 6), nil))
	fmt.Printf("%v %.3f\n", res.Status, res.X)
	// Output:
	// Converged [1.000 2.500 2.500 3.750 3.750 6.000]
}

// The dual of a support vector machine. The multiplier of ⟨y,α⟩ = 0 is the offset of the
// classifier, whose weights w = Σ αᵢyᵢaᵢ are unique where α is not.
func Example_supportVectorMachine() {
	rows := mat.NewDense(6, 2, []float64{2, 2, 1, 3, 3, 1, -1, 0, 0, -2, -2, -1})
	y := []float64{1, 1, 1, -1, -1, -1}
	signed := mat.NewDense(6, 2, nil)
	signed.Apply(func(i, _ int, v float64) float64 { return y[i] * v }, rows)
	q := mat.NewSymDense(6, nil)
	q.SymOuterK(1, signed)
	zero, hi := make([]float64, 6), []float64{10, 10, 10, 10, 10, 10}
	p := must(splitting.NewQP(q, []float64{-1, -1, -1, -1, -1, -1}, mat.NewDense(1, 6, y), zero[:1], zero[:1], zero, hi))
	res := must(splitting.Minimize(context.Background(), p, make([]float64, 6), nil))
	w := mat.NewVecDense(2, nil)
	w.MulVec(signed.T(), mat.NewVecDense(6, res.X))
	fmt.Printf("%v w %.4f, offset %.4f\n", res.Status, w.RawVector().Data, res.Dual.H)
	// Output:
	// Converged w [0.4000 0.4000], offset [-0.6000]
}

// Model predictive control: five thrusts |u| ≤ ½ that bring a cart from position 1 towards rest at
// 0. The variables are the thrusts, then positions and velocities; the equations of motion are rows
// of K.
func Example_modelPredictiveControl() {
	const steps = 5
	pos := func(k int) int { return steps + 2*(k-1) } // after k steps, k = 1, 2, …
	n := 3 * steps
	k, b := mat.NewDense(2*steps, n, nil), make([]float64, 2*steps)
	for t := range steps { // p⁺ = p + v, v⁺ = v + u
		r := 2 * t
		k.Set(r, pos(t+1), 1)
		k.Set(r+1, pos(t+1)+1, 1)
		k.Set(r+1, t, -1)
		if t == 0 {
			b[r] = 1 // the first position; the first velocity is 0
			continue
		}
		k.Set(r, pos(t), -1)
		k.Set(r, pos(t)+1, -1)
		k.Set(r+1, pos(t)+1, -1)
	}
	cost, hi := make([]float64, n), make([]float64, n)
	for i := range cost {
		cost[i], hi[i] = 1, 100
		if i < steps {
			cost[i], hi[i] = 0.1, 0.5
		}
	}
	lo := make([]float64, n)
	for i, v := range hi {
		lo[i] = -v
	}
	p := must(splitting.NewQP(mat.NewDiagDense(n, cost), nil, k, b, b, lo, hi))
	res := must(splitting.Minimize(context.Background(), p, make([]float64, n), nil))
	fmt.Printf("%v thrusts %.4f, price of the first bound %.4f\n", res.Status, res.X[:steps], res.Dual.G[0])
	// Output:
	// Converged thrusts [-0.5000 0.1947 0.1852 0.0806 0.0359], price of the first bound -0.2349
}

// Basis pursuit: the solution of few equations with the least ℓ1 norm. The multipliers y of the
// equations prove it: −Aᵀy is the sign of x where x ≠ 0, and at most 1 in size elsewhere.
func Example_basisPursuit() {
	a := mat.NewDense(3, 6, []float64{
		1, 0, 2, -1, 0.5, 1,
		0, 1, 1, 1, -1, 2,
		1, -1, 0, 2, 1, 0.5,
	})
	b := []float64{1.5, -0.5, 4}
	p := splitting.Problem{G: prox.L1{Weight: 1}, H: prox.Bounds{Lo: b, Hi: b}, K: must(splitting.NewMatrix(a))}
	res := must(splitting.Minimize(context.Background(), p, make([]float64, 6), nil))
	v := mat.NewVecDense(6, nil)
	v.MulVec(a.T(), mat.NewVecDense(3, res.Dual.H))
	fmt.Printf("%v %.4f\nAᵀy %.4f\n", res.Status, res.X, v.RawVector().Data)
	// Output:
	// Converged [1.5714 0.0000 0.0000 0.6429 1.1429 0.0000]
	// Aᵀy [-1.0000 0.8571 -0.4286 -1.0000 -1.0000 -0.3571]
}

// distance is f(x) = ½‖x − b‖².
type distance []float64

func (b distance) Smoothness() float64 { return 1 }
func (b distance) Convexity() float64  { return 1 }

func (b distance) Func(x []float64) (s float64) {
	for i, v := range x {
		s += (v - b[i]) * (v - b[i]) / 2
	}
	return s
}

func (b distance) Grad(dst, x []float64) {
	for i, v := range x {
		dst[i] = v - b[i]
	}
}

// Solve a lasso whose coefficients are known to lie in [0, 1].
func Example_constrainedLasso() {
	a := mat.NewDense(4, 3, []float64{
		1, 0, 1,
		0, 2, 1,
		1, 1, 0,
		2, 0, 1,
	})
	f, err := splitting.NewLeastSquares(a, []float64{1.5, 0.1, 1.2, 2.9})
	if err != nil {
		panic(err)
	}
	p := splitting.Problem{F: f, G: prox.L1{Weight: 0.3}, H: prox.Box{Lo: 0, Hi: 1}}
	res, err := splitting.Minimize(context.Background(), p, make([]float64, 3), nil)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%v %.3f\n", res.Status, res.X)
	// Output: Converged [1.000 0.000 0.400]
}

// The fused lasso finds a signal that is zero except on a few plateaus. The sum of its two
// penalties has an exact proximal map that takes linear time.
func Example_fusedLasso() {
	signal := distance{0.1, -0.2, 0.1, 2.1, 1.9, 2.0, 0.2, -0.1, 0}
	p := splitting.Problem{F: signal, G: prox.L1{Weight: 0.1}, H: prox.TotalVariation{Weight: 0.3}}
	res, err := splitting.Minimize(context.Background(), p, make([]float64, len(signal)), nil)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%v %.2f\n", res.Status, res.X)
	// Output: Converged [0.00 0.00 0.00 1.70 1.70 1.70 0.10 0.00 0.00]
}

// Find the nearest correlation matrix, which is positive semidefinite with ones on the diagonal.
// Each of the two sets has a simple projection, but their intersection has none.
func Example_correlationMatrix() {
	b := distance{
		1, 0.9, -0.9,
		0.9, 1, 0.9,
		-0.9, 0.9, 1,
	}
	diagonal, err := prox.NewAffine(mat.NewDense(3, 9, []float64{
		1, 0, 0, 0, 0, 0, 0, 0, 0,
		0, 0, 0, 0, 1, 0, 0, 0, 0,
		0, 0, 0, 0, 0, 0, 0, 0, 1,
	}), []float64{1, 1, 1})
	if err != nil {
		panic(err)
	}
	p := splitting.Problem{F: b, G: prox.PSDCone{Order: 3}, H: diagonal}
	res, err := splitting.Solve(context.Background(), p, b, &splitting.Settings{Tolerance: 1e-6}, &splitting.DavisYin{})
	if err != nil {
		panic(err)
	}
	fmt.Printf("%.3f\n%.3f\n%.3f\n", res.X[:3], res.X[3:6], res.X[6:])
	// Output:
	// [1.000 0.500 -0.500]
	// [0.500 1.000 0.500]
	// [-0.500 0.500 1.000]
}

// SplitGroups divides groups that overlap their neighbors into two lists of disjoint groups. With a
// line search, the smoothness of f need not be known.
func Example_overlappingGroups() {
	groups := prox.SplitGroups(prox.GroupL2{Groups: [][]int{{0, 1, 2}, {2, 3, 4}, {4, 5, 6}}, Weight: 1})
	p := splitting.Problem{F: unknownSmoothness{distance{3, 2, 1, 0.1, -0.1, 0.2, 0}}, G: groups[0], H: groups[1]}
	res, err := splitting.Solve(context.Background(), p, make([]float64, 7), &splitting.Settings{Tolerance: 1e-6},
		&splitting.DavisYin{Rule: splitting.LineSearch})
	if err != nil {
		panic(err)
	}
	fmt.Printf("%d pieces, %.2f %.1f\n", len(groups), res.X[:2], floats.Norm(res.X[2:], 2))
	// Output: 2 pieces, [2.17 1.45] 0.0
}

type unknownSmoothness struct{ distance }

func (unknownSmoothness) Smoothness() float64 { return math.Inf(1) }

// Total variation on a graph: K takes the differences along its edges.
func ExamplePrimalDual() {
	// The graph is a square with one diagonal; one of its values is an outlier.
	edges := [][2]int{{0, 1}, {1, 2}, {2, 3}, {3, 0}, {0, 2}}
	k, err := splitting.NewDifferences(edges, 4)
	if err != nil {
		panic(err)
	}
	p := splitting.Problem{F: distance{1, 1.2, 0.9, 4}, H: prox.L1{Weight: 0.5}, K: k}
	res, err := splitting.Solve(context.Background(), p, make([]float64, 4), &splitting.Settings{Tolerance: 1e-6},
		&splitting.PrimalDual{})
	if err != nil {
		panic(err)
	}
	fmt.Printf("%v %.3f\n", res.Status, res.X)
	// Output: Converged [1.367 1.367 1.367 3.000]
}

// Find a point in a simplex and a hyperplane, using only the two projections.
func ExampleDavisYin() {
	plane, err := prox.NewAffine(mat.NewDense(1, 3, []float64{1, 2, 3}), []float64{2.5})
	if err != nil {
		panic(err)
	}
	p := splitting.Problem{G: prox.Simplex{Total: 1}, H: plane}
	res, err := splitting.Solve(context.Background(), p, []float64{1, 0, 0}, nil, &splitting.DavisYin{})
	if err != nil {
		panic(err)
	}
	x := res.X
	fmt.Printf("sum %.6f, product %.6f\n", x[0]+x[1]+x[2], x[0]+2*x[1]+3*x[2])
	// Output: sum 1.000000, product 2.500000
}

// Solve for several weights, each time starting from the previous minimizer.
func ExamplePath() {
	f, err := splitting.NewQuadratic(mat.NewSymDense(2, []float64{2, 1, 1, 2}), []float64{5, 3}, 0)
	if err != nil {
		panic(err)
	}
	var problems []splitting.Problem
	weights := []float64{6, 4, 2, 0}
	for _, w := range weights {
		problems = append(problems, splitting.Problem{F: f, G: prox.L1{Weight: w}})
	}
	results, err := splitting.Path(context.Background(), problems, []float64{0, 0}, nil, nil)
	if err != nil {
		panic(err)
	}
	for k, res := range results {
		fmt.Printf("%g: %.3f\n", weights[k], res.X)
	}
	// Output:
	// 6: [0.000 0.000]
	// 4: [0.500 0.000]
	// 2: [1.500 0.000]
	// 0: [2.333 0.333]
}

// Record the progress at 1, 2, 5, 10, … iterations.
func ExampleTrace() {
	f, err := splitting.NewQuadratic(mat.NewSymDense(2, []float64{1, 0, 0, 25}), []float64{1, 1}, 0)
	if err != nil {
		panic(err)
	}
	p := splitting.Problem{F: f, H: prox.NonNegative{}}
	trace := &splitting.Trace{Func: p.Func, PerDecade: 3}
	s := &splitting.Settings{Iterations: 60, Tolerance: -1, Recorder: trace}
	if _, err := splitting.Solve(context.Background(), p, []float64{0, 0}, s,
		&splitting.ForwardBackward{Plain: true}); err != nil {
		panic(err)
	}
	for _, pt := range trace.Points {
		fmt.Printf("%2d  residual %.3f  value %.4f\n", pt.Iterations, pt.Residual, pt.Value)
	}
	// Output:
	//  1  residual 1.414  value -0.0592
	//  2  residual 0.960  value -0.0953
	//  5  residual 0.849  value -0.1876
	// 10  residual 0.693  value -0.2990
	// 22  residual 0.424  value -0.4370
	// 46  residual 0.159  value -0.5083
}

// In robust regression, a label that is far off hardly changes the slope.
func ExampleNewHuber() {
	a := mat.NewDense(4, 1, []float64{1, 2, 3, 4})
	f, err := splitting.NewHuber(a, []float64{1, 2, 3, 100}, 0.1)
	if err != nil {
		fmt.Println(err)
	}
	res, err := splitting.Minimize(context.Background(), splitting.Problem{F: f}, []float64{0}, nil)
	if err != nil {
		fmt.Println(err)
	}
	fmt.Printf("%v %.3f\n", res.Status, res.X)
	// Output: Converged [1.029]
}
