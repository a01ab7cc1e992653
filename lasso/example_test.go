// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package lasso_test

import (
	"context"
	"fmt"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/lasso"
)

func ExampleGenerate() {
	in, err := lasso.Generate(lasso.Spec{N: 300, D: 100, Xi: 5, AnchorNoise: 0.1}, dp.Seeded(1))
	if err != nil {
		fmt.Println(err)
		return
	}
	data, err := in.Data(5 * in.Xi)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(in, in.Risk(in.Truth) < 1e-20)
	fmt.Println(lasso.Problem(data, 1, 0.5))
	// Output:
	// lasso.Instance(300×100) true
	// erm.Problem(300×100, Loss loss.Squared, Reg prox.L1, Set prox.Box)
}

// Run the published procedure at one radius. The risk of QOP is close to the risk of its anchor
// there.
func ExamplePaper() {
	in, err := lasso.Generate(lasso.Spec{N: 300, D: 100, Xi: 5, AnchorNoise: 0.1}, dp.Seeded(1))
	if err != nil {
		fmt.Println(err)
		return
	}
	// 2.525390773225e17 is σ² of the published figure.
	e, err := lasso.Paper{Epsilon: 0.5, Delta: 0.01, Lambda: 1, Iterations: 1000}.Experiment(in, 2.525390773225e17)
	if err != nil {
		fmt.Println(err)
		return
	}
	theta, err := e.Solve(context.Background(), lasso.QOP, 1000, dp.Seeded(2))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%v: risk / anchor's risk = %.1f\n", lasso.QOP, in.Risk(theta)/in.Risk(in.Anchor))
	// Output:
	// qop: risk / anchor's risk = 1.0
}
