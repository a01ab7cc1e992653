// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package dp_test

import (
	"fmt"

	"github.com/privopt/privopt/dp"
)

// The noise that makes a sum of vectors of norm at most 1 private: replacing
// one of them moves the sum by at most 2.
func ExampleGaussianSigma() {
	sigma, err := dp.GaussianSigma(dp.Budget{Epsilon: 1, Delta: 1e-6}, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("σ = %.4f\n", sigma)
	_, err = dp.GaussianSigma(dp.Budget{Epsilon: 1}, 2)
	fmt.Println(err)
	// Output:
	// σ = 8.4494
	// dp: invalid budget: Delta = 0, but Gaussian noise gives no pure guarantee, want a number in [1e-300, 1), for example 1e-6
}

// Two releases about the same records cost the sum of their budgets.
func ExampleBasic() {
	model := dp.Certificate{
		Budget:      dp.Budget{Epsilon: 1, Delta: 1e-6},
		Relation:    dp.Replace,
		Theorem:     "qop.lsq/2",
		Assumptions: []dp.Assumption{dp.CalibrationArithmetic},
	}
	count := dp.Certificate{Budget: dp.Budget{Epsilon: 0.5}, Relation: dp.Replace, Theorem: "lop.pure/2"}
	total, err := dp.Basic(model, count)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(total)
	count.Relation = dp.AddRemove
	_, err = dp.Basic(model, count)
	fmt.Println(err)
	// Output:
	// (ε = 1.5, δ = 1e-06)-differentially private, replace neighbors
	//   theorem: dp.basic/1(qop.lsq/2, lop.pure/2)
	//   assumes: the constants of the plan, computed in float64 arithmetic and tested against 60 digits, are no smaller than the theorem asks for
	//   about the program: uniform secret bits, IEEE-754 arithmetic, the release alone is seen
	// dp: invalid relation: part 1 is about add-remove neighbors and part 0 about replace, want one relation
}

// The exact cost of ten Gaussian releases, against their Rényi accounting.
func ExampleRDP_Epsilon() {
	one := dp.GaussianRDP(0.1) // sensitivity/σ = 0.1
	ten := dp.RDP(func(alpha float64) float64 { return 10 * one(alpha) })
	eps, _ := ten.Epsilon(1e-6)
	fmt.Printf("RDP %.4f, exact %.4f\n", eps, dp.GaussianCurve(0.31622776601683794).Epsilon(1e-6))
	// Output:
	// RDP 1.4716, exact 1.3676
}

// The noise for 1000 steps of stochastic gradient descent in which every record takes part with
// probability 1 %, and the cost of the steps at another δ.
func ExampleSampler() {
	sampler := dp.Sampler{Rate: 0.01}
	z, err := sampler.Noise(1000, dp.Budget{Epsilon: 1, Delta: 1e-5})
	if err != nil {
		fmt.Println(err)
		return
	}
	eps, err := sampler.Epsilon(z, 1000, 1e-8)
	fmt.Printf("noise %.2f times the clipping norm\nε = %.2f at δ = 1e-8, %v\n", z, eps, err)
	// Output:
	// noise 2.66 times the clipping norm
	// ε = 1.40 at δ = 1e-8, <nil>
}
