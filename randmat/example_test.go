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
	// Only draws whose least eigenvalue is 2 or more: the law is W's under this condition.
	for src := dp.Seeded(3, "example"); randmat.MinEig(w) < 2; {
		if err := randmat.Wishart(w, 12, src); err != nil {
			fmt.Println(err)
			return
		}
	}
	least := randmat.MinEig(w)
	fmt.Println(least >= 2, least <= randmat.MaxEig(w))
	fmt.Println(randmat.Wishart(w, 2, dp.Seeded(2)))
	// Output:
	// true true
	// randmat: degrees of freedom out of range: m = 2 in dimension 3, want m > 2
}
