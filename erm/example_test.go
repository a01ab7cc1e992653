// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package erm_test

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

// Each record is forced into the declared bounds on its own. Data prints as its dimensions only.
func ExampleBuilder() {
	b, err := erm.NewBuilder(2, false, loss.Bounds{Row: 1, Label: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	b.Add([]float64{0.6, 0.7}, 1)                       // a dense row
	b.AddSparse([]int32{1}, []float64{4}, math.Inf(-1)) // only the entries that are not 0 are given
	fmt.Println(b.Data())
	// Output:
	// erm.Data(2×2)
}

// Two records of four features, of which three entries are not 0.
func ExampleNewDataCSR() {
	ptr, col, val := []int{0, 2, 3}, []int{0, 3, 1}, []float64{0.6, 0.8, 1}
	data, err := erm.NewDataCSR(4, ptr, col, val, []float64{1, -1}, loss.Bounds{Row: 1, Label: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	g := make([]float64, 4)
	(&erm.Problem{Data: data, Loss: loss.Squared{}}).Perturb(erm.Perturbation{}).Grad(g, make([]float64, 4))
	fmt.Printf("%v %.2f\n", data, g) // −Σᵢ bᵢaᵢ
	// Output:
	// erm.Data(2×4) [-0.60 1.00 0.00 -0.80]
}

// One record, one parameter: ½(θ−1)² + |θ|/4 + θ/2 + ½(θ−2)² over [0, 1] has
// its minimum where θ − 1 + ¼ + ½ + θ − 2 = 0, at 9/8, cut to 1.
func ExampleProblem_Perturb() {
	data, err := erm.NewData([][]float64{{1}}, []float64{1}, loss.Bounds{Row: 1, Label: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	p := &erm.Problem{Data: data, Loss: loss.Squared{}, Reg: prox.L1{Weight: 0.25}, Set: prox.Box{Lo: 0, Hi: 1}}
	o := p.Perturb(erm.Perturbation{
		Linear: []float64{0.5},
		Center: []float64{2},
		Quad:   mat.NewDiagDense(1, []float64{1}),
	})
	fmt.Printf("modulus %v\n", o.Modulus())
	for _, theta := range []float64{0.5, 1, 1.1} {
		fmt.Printf("θ = %v: residual %.6f\n", theta, o.Residual([]float64{theta}))
	}
	// Output:
	// modulus 1
	// θ = 0.5: residual 1.250000
	// θ = 1: residual 0.000000
	// θ = 1.1: residual +Inf
}

// Relabel each record by a function of that record alone: for a loss φ(⟨a,θ⟩;b) with an
// Interpolator, the new label makes a public anchor a minimizer of the record's loss.
func ExampleData_Map() {
	data, err := erm.NewData([][]float64{{1, 0}, {0, 1}}, []float64{1, -1}, loss.Bounds{Row: 1, Label: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	anchor := []float64{0.25, 0.5}
	relabelled := data.Map(func(a []float64, b float64) (float64, bool) {
		return loss.Squared{}.Interpolate(a[0]*anchor[0]+a[1]*anchor[1], b)
	})
	p := &erm.Problem{Data: relabelled, Loss: loss.Squared{}}
	grad := make([]float64, 2)
	p.Perturb(erm.Perturbation{}).Grad(grad, anchor)
	fmt.Println(grad)
	// Output:
	// [0 0]
}
