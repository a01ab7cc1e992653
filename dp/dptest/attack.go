// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package dptest

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/testkit"
)

// everywhere is the index of a coordinate that stands for all of them.
const everywhere = -1

// digits is the number of bits of a coordinate, and of its lowest digits, that are looked at.
const digits = 64

// An attack names the data set of a release, 0 or 1, or neither. That a release is named i is an
// event, whose probabilities (ε, δ) bounds whatever the attack is.
type attack struct {
	what string // the subject of a report, such as "the last digits"
	name func(r []float64) (dataset int, ok bool)
}

// tally counts releases that an attack names rightly and wrongly.
type tally struct{ right, wrong float64 }

// count attacks the releases of each data set.
func (a attack) count(releases [2][][]float64) (n tally) {
	for i, of := range releases {
		for _, r := range of {
			switch named, ok := a.name(r); {
			case ok && named == i:
				n.right++
			case ok:
				n.wrong++
			}
		}
	}
	return n
}

// exceeds reports whether the counts refute (ε, δ): right ≤ e^ε·wrong + 2δ·runs in expectation. The
// difference has a standard deviation of at most √(right + e^2ε·wrong), of which six are allowed.
func (n tally) exceeds(b dp.Budget) bool {
	e := math.Exp(b.Epsilon)
	return n.right > e*n.wrong+2*runs*b.Delta+6*math.Sqrt(1+n.right+e*e*n.wrong)
}

// attacks returns all attacks on releases of the points.
func attacks(points [2][]float64, releases [2][][]float64) []attack {
	all := []attack{plane(points, releases)}
	for j := everywhere; j < len(points[0]); j++ {
		for _, from := range []func(c, r float64) bool{testkit.Sums, testkit.HalfSums, testkit.Sums32} {
			all = append(all, sumOf(points, from, j))
		}
	}
	for j := range points[0] {
		low := lowest(releases, j)
		for k := range digits {
			for _, flip := range []int{0, 1} {
				all = append(all, digit(j, low+k, flip), bit(j, k, flip))
			}
		}
	}
	return all
}

// sumOf attacks coordinate j, or all: a release is from the only point that it can be the sum of.
func sumOf(points [2][]float64, from func(c, r float64) bool, j int) attack {
	of := func(x []float64) []float64 {
		if j == everywhere {
			return x
		}
		return x[j : j+1]
	}
	return attack{what: "the last bits", name: func(r []float64) (int, bool) {
		first, second := testkit.Reaches(of(points[0]), of(r), from), testkit.Reaches(of(points[1]), of(r), from)
		if second {
			return 1, !first
		}
		return 0, first
	}}
}

// lowest returns the exponent of the lowest binary digit that any release has at coordinate j.
func lowest(releases [2][][]float64, j int) int {
	low := math.MaxInt32
	for _, of := range releases {
		for _, r := range of {
			frac, exp := math.Frexp(r[j])
			if n := int64(math.Ldexp(frac, 53)); n != 0 {
				zeros := 0
				for ; n%2 == 0; n /= 2 {
					zeros++
				}
				low = min(low, exp-53+zeros)
			}
		}
	}
	if low == math.MaxInt32 { // all are 0
		return 0
	}
	return low
}

// digit attacks coordinate j by its binary digit of weight 2^exp.
func digit(j, exp, flip int) attack {
	return attack{what: fmt.Sprintf("the digits of 2^%d of coordinate %d", exp, j), name: func(r []float64) (int, bool) {
		n := math.Floor(math.Ldexp(r[j], -exp))
		return int(math.Abs(math.Mod(n, 2))) ^ flip, !math.IsInf(n, 0)
	}}
}

// bit attacks coordinate j by bit k of its float64.
func bit(j, k, flip int) attack {
	return attack{what: fmt.Sprintf("the digits of bit %d of coordinate %d", k, j), name: func(r []float64) (int, bool) {
		return int(math.Float64bits(r[j])>>k&1) ^ flip, true
	}}
}

// plane attacks the direction in which the noise of half of the releases hides the points least.
// The ridge of the covariance is that of rounding, so that noise in a subspace is noticed.
func plane(points [2][]float64, releases [2][][]float64) attack {
	d := len(points[0])
	var rows []float64
	for i, of := range releases {
		for _, r := range of[:runs/2] {
			for j := range d {
				rows = append(rows, r[j]-points[i][j])
			}
		}
	}
	var cov mat.SymDense
	stat.CovarianceMatrix(&cov, mat.NewDense(len(rows)/d, d, rows), nil)
	apart := floats.SubTo(make([]float64, d), points[0], points[1])
	for j := range d {
		cov.SetSym(j, j, cov.At(j, j)*(1+0x1p-30)+math.SmallestNonzeroFloat32)
	}
	var chol mat.Cholesky
	w := mat.NewVecDense(d, nil)
	copy(w.RawVector().Data, apart)
	var solved mat.VecDense
	if chol.Factorize(&cov) && chol.SolveVecTo(&solved, w) == nil {
		w.CopyVec(&solved)
	}
	middle := (floats.Dot(w.RawVector().Data, points[0]) + floats.Dot(w.RawVector().Data, points[1])) / 2
	return attack{what: "the sides of a plane", name: func(r []float64) (int, bool) {
		side := floats.Dot(w.RawVector().Data, r) - middle
		if side > 0 {
			return 0, true
		}
		return 1, side < 0
	}}
}
