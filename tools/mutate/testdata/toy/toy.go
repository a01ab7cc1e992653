// Package toy has arithmetic for the tests of the mutator.
package toy

import "math"

const third = 1.0 / 3

// Mix has one site of every kind.
func Mix(x, y float64, n int) float64 {
	if x < y && n != 0 {
		x += 2 * y
	}
	best := math.Max(x, min(y, float64(n)))
	return -best*third - x/y
}

// Unseen is called by no test.
func Unseen(x float64) float64 { return x * x }

// Endless loops for ever when its comparison is turned around.
func Endless(x float64) float64 {
	for i := 0; i < 3; i++ {
		x += 1
	}
	for x > 100 {
		x /= 2
	}
	return x
}

// Turn is complex and has no sites.
func Turn(c complex128) complex128 { return complex(0, 1)*c + c }
