// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting_test

import (
	"context"
	"fmt"
	"math/rand/v2"

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
