// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package randmat_test

import (
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/randmat"
)

// Draw a Wishart matrix, and bound its least eigenvalue from below with a proof that includes
// rounding.
func ExampleWishart() {
	w := mat.NewSymDense(3, nil)
	if err := randmat.Wishart(w, 12, dp.Seeded(1, "example")); err != nil {
		fmt.Println(err)
		return
	}
	least := randmat.MinEig(w)
	fmt.Println(least > 0, least <= randmat.MaxEig(w))
	fmt.Println(randmat.Wishart(w, 2, dp.Seeded(2)))
	// Output:
	// true true
	// randmat: degrees of freedom out of range: m = 2 in dimension 3, want m > 2
}
