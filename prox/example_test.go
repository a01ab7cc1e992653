// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

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

// Equal neighbors fuse; the jump between the two levels shrinks.
func ExampleTotalVariation() {
	g := prox.TotalVariation{Weight: 1}
	x := []float64{0, 0.5, 1, 6, 6.5, 7}
	g.Prox(x, x, 1.5)
	fmt.Println(x, g.Func(x))
	// Output: [1 1 1 6 6 6] 5
}

// Windows that overlap their neighbors split into two terms, each with a
// proximal map in closed form.
func ExampleSplitGroups() {
	for _, g := range prox.SplitGroups(prox.GroupL2{Groups: [][]int{{0, 1, 2, 3}, {2, 3, 4, 5}, {4, 5, 6, 7}},
		Weight: 1}) {
		fmt.Println(g.Groups)
	}
	// Output:
	// [[0 1 2 3] [4 5 6 7]]
	// [[2 3 4 5]]
}

// Blocks constrain the first two coordinates to the box around (1, 1) and leave
// the third free.
func ExampleBlocks() {
	g := prox.Blocks(
		prox.Block{Op: prox.Translate(prox.Box{Lo: -1, Hi: 1}, []float64{1, 1}), Len: 2},
		prox.Block{Op: nil, Len: 1},
	)
	x := []float64{5, -5, 5}
	g.Prox(x, x, 1)
	fmt.Println(x)
	// Output: [2 0 5]
}

// Sum returns the closed form of a sum, or reports that none is known.
func ExampleSum() {
	g, err := prox.Sum(prox.L1{Weight: 1}, prox.Box{Lo: -1, Hi: 1})
	if err != nil {
		panic(err)
	}
	x := []float64{3, 1.5, 0.2, -4}
	g.Prox(x, x, 1)
	fmt.Println(x)

	_, err = prox.Sum(prox.Simplex{Total: 1}, prox.L2Ball{R: 0.7})
	fmt.Println(err)
	// Output:
	// [1 0.5 0 -1]
	// prox: no closed form is known of the proximal map of the sum: prox.Simplex + prox.L2Ball
}
