// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package dptest_test

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/privopt/privopt/additive"
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/dp/dptest"
)

// The test of a mechanism needs one call, with its *testing.T in the place of &reports.
func ExampleCheck() {
	m := &additive.Mechanism{Dim: 2, Radius: 10, L2: 0.5}
	plan, err := m.Plan(dp.Budget{Epsilon: 1, Delta: 1e-6})
	if err != nil {
		fmt.Println(err)
		return
	}
	points := [2][]float64{{0.1, 2.3}, {0.4, 2.7}} // of two neighboring data sets
	var reports recorder
	dptest.Check(&reports, points, func(i int, src rand.Source) (*dp.Release, error) {
		return plan.Release(context.Background(), points[i], src)
	})
	fmt.Println(len(reports.reports), "faults")
	// Output: 0 faults
}
