// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting_test

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

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
