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
