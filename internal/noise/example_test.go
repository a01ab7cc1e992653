// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package noise_test

import (
	"fmt"
	"math"

	"github.com/privopt/privopt/internal/noise"
)

// A number that was computed from records is rounded to a public grid and gets integer
// noise: the sum is exact, so that its last digits say nothing more about the records.
func ExampleGrid() {
	const sigma, exponent = 2.5, -20 // g = 2⁻²⁰
	private := 17.25

	src := noise.Reproducible(1, "example") // of a mechanism: noise.Secure()
	nu := make([]int64, 1)
	noise.Grid(nu, sigma, exponent, src)
	sum := int64(math.RoundToEven(math.Ldexp(private, -exponent))) + nu[0]
	fmt.Printf("%.4f\n", math.Ldexp(float64(sum), exponent))
	// Output: 15.0391
}
