package prox_test

import (
	"fmt"

	"github.com/privopt/privopt/prox"
)

// The proximal map of the lasso in a box thresholds and then clamps.
func ExampleL1Box() {
	g := prox.L1Box{Weight: 1, Lo: -1, Hi: 1}
	x := []float64{3, 1.5, 0.2, -4}
	g.Prox(x, x, 1)
	fmt.Println(x, g.Func(x))
	// Output: [1 0.5 0 -1] 2.5
}

// Sum finds the closed form of a sum, or says that none is known.
func ExampleSum() {
	g, ok := prox.Sum(prox.L1{Weight: 1}, prox.Box{Lo: -1, Hi: 1})
	x := []float64{3, 1.5, 0.2, -4}
	g.Prox(x, x, 1)
	fmt.Println(x, ok)

	_, ok = prox.Sum(prox.Simplex{Total: 1}, prox.L2Ball{R: 0.7})
	fmt.Println(ok)
	// Output:
	// [1 0.5 0 -1] true
	// false
}
