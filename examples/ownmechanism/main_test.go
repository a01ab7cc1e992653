// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package main

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/dp/dptest"
)

var mean = Mean{Low: -1, High: 1, People: 100}

// The last bits of a release do not tell two neighboring data sets apart.
func TestLowBits(t *testing.T) {
	plan, err := mean.Plan(dp.Budget{Epsilon: 1, Delta: 1e-6})
	if err != nil {
		t.Fatal(err)
	}
	points := [2][]float64{mean.Point([]float64{0.1, 0.7, -0.3}), mean.Point([]float64{0.1, 0.7})}
	dptest.Check(t, points, func(i int, src rand.Source) (*dp.Release, error) {
		return plan.Release(t.Context(), points[i], src)
	})
}

// The declared sensitivity is true: whatever a person adds, the point moves by at most √2.
func TestSensitivity(t *testing.T) {
	others := mean.Point([]float64{0.1, 0.7, -0.3})
	for _, v := range []float64{0, 1, -1, 0.3, 1e300, math.Inf(1), math.Inf(-1), math.NaN()} {
		x := mean.Point([]float64{0.1, v, 0.7, -0.3})
		if far := math.Hypot(x[0]-others[0], x[1]-others[1]); !(far <= math.Sqrt2+1e-15) {
			t.Errorf("a person with %v moves the point by %v", v, far)
		}
	}
}

// The mean is about right, also of no numbers.
func TestValue(t *testing.T) {
	plan, err := mean.Plan(dp.Budget{Epsilon: 1e4})
	if err != nil {
		t.Fatal(err)
	}
	for want, numbers := range map[float64][]float64{0.5: {0.25, 0.75}, 0: {}, 1: {9, 9, 9}} {
		rel, err := plan.Release(t.Context(), mean.Point(numbers), nil)
		if err != nil || math.Abs(mean.Value(rel)-want) > 0.05 {
			t.Errorf("%v: %v, %v, want %v", numbers, rel, err, want)
		}
	}
}
