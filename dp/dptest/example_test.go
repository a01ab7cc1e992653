package dptest_test

import (
	"fmt"
	"math/rand/v2"

	"github.com/privopt/privopt/dp/dptest"
	"github.com/privopt/privopt/internal/noise"
)

// A lower bound on ε from releases alone: a count with Laplace noise of scale 1, the difference of two
// exponential draws, costs ε = 1, and no more than that is ever proved.
func ExampleLowerBound() {
	count := func(records []float64, src rand.Source) []float64 {
		laplace := noise.Exponential(src) - noise.Exponential(src)
		return []float64{float64(len(records)) + laplace}
	}
	lower := dptest.LowerBound(count, []float64{1, 1}, []float64{1}, 0, 20_000, 1)
	fmt.Println(lower > 0.7, lower <= 1)
	// Output: true true
}
