// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package additive_test

import (
	"context"
	"fmt"

	"github.com/privopt/privopt/additive"
	"github.com/privopt/privopt/dp"
)

// A private mean of ages between 0 and 100. One person more moves the sum by at most 100 and the
// count by 1; what follows from the two noisy numbers costs nothing.
func Example() {
	ages := []float64{23, 35, 41, 58, 62, 19, 77, 140} // the last one is clamped
	sum := 0.0
	for _, a := range ages {
		sum += min(max(a, 0), 100)
	}
	m := &additive.Mechanism{Relation: dp.AddRemove, Dim: 2, Radius: 1e9, L1: 101}
	plan, err := m.Plan(dp.Budget{Epsilon: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	rel, err := plan.Release(context.Background(), []float64{sum, float64(len(ages))}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	mean := rel.Theta[0] / rel.Theta[1]
	fmt.Println(mean != 415.0/8)
	fmt.Println(rel.Certificate)
	// Output:
	// true
	// (ε = 1, δ = 0)-differentially private, add-remove neighbors
	//   theorem: additive.point/1
	//   assumes: the sensitivity that the caller declared is true: as computed in float64, with NaN read as 0 and coordinates clamped to the declared radius, the points of neighboring data sets differ by no more
	//   about the program: uniform secret bits, IEEE-754 arithmetic, the release alone is seen
}
