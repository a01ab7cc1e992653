// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package loss_test

import (
	"fmt"

	"github.com/privopt/privopt/loss"
)

// The constants follow from declared bounds, never from records.
func ExampleSquared() {
	c := loss.Squared{}.Constants(loss.Bounds{Row: 2, Label: 1}, 3)
	fmt.Printf("L = %.6g, β = %.6g, rank %d, %v\n", c.Lipschitz, c.Smoothness, c.Rank, c.Structure)
	// Output: L = 14, β = 4, rank 1, LSQ
}

// Clipping gives least squares a gradient bound on the whole space: it becomes
// the Huber loss with threshold 3/‖a‖.
func ExampleClipped() {
	l, err := loss.NewClipped(loss.Squared{}, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	theta, a := []float64{10, 0}, []float64{2, 0}
	grad := make([]float64, 2)
	l.Grad(grad, theta, a, 0)
	fmt.Println(grad, l.Func(theta, a, 0))
	// Output: [3 0] 28.875
}

// An Interpolator returns the label for which a given prediction is optimal.
func ExampleInterpolator() {
	label, ok := loss.SmoothedHinge{Gamma: 0.5}.Interpolate(-2, 1)
	fmt.Println(label, ok)
	// Output: -1 true
}
