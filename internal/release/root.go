// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package release

import (
	"math"
	"math/big"
	"slices"

	"github.com/privopt/privopt/dp"
)

// RootOne is ρ₀: the value that stands for 1.
const RootOne = 1 << 20

// MostRooted bounds the number of records for which the sums of Times stay below 2⁶⁰.
const MostRooted = 1 << 40

// mostCells bounds the cells of a matrix: its squared norms stay far below 2⁵³.
const mostCells = 1 << 12

// Root is the square root of prefix sums, in integers: a histogram that is released by it has
// prefix sums of little noise.
//
// Let r_k be the coefficients of (1−x)^{−1/2}: r₀ = 1, r_k = r_{k−1}(2k−1)/(2k). R is the lower
// triangular t × t Toeplitz matrix of the integers ρ_k = round(2²⁰r_k). For a histogram c in which
// a record has at most one cell,
//
//	y = Rc + round(σX)
//
// is exact in int64 and has the privacy of a Gaussian release of sensitivity S_t. The solution of
// Rĉ = y has no bias, and the prefix sums of ĉ have noise of deviation at most about 2⁻⁴⁰‖ρ‖σ. It
// is immutable.
type Root struct {
	rho           []int64
	norm2, apart2 int64
}

// NewRoot returns the matrix for t cells. It panics unless 1 ≤ t ≤ mostCells.
func NewRoot(t int) *Root {
	if t < 1 || t > mostCells {
		panic("release: number of cells out of range")
	}
	m := &Root{rho: make([]int64, t)}
	r := big.NewInt(1) // binomial(2k, k) = 4ᵏr_k
	for k := range m.rho {
		if k > 0 {
			r.Mul(r, big.NewInt(int64(2*(2*k-1))))
			r.Quo(r, big.NewInt(int64(k)))
		}
		// ⌊2²⁰r_k + ½⌋ = ⌊(2²¹·binomial + 4ᵏ) / (2·4ᵏ)⌋
		up := new(big.Int).Lsh(r, 21)
		up.Add(up, new(big.Int).Lsh(big.NewInt(1), uint(2*k)))
		m.rho[k] = up.Rsh(up, uint(2*k+1)).Int64()
	}
	norm2 := make([]int64, t+1) // norm2[l] = Σ_{k<l} ρ_k², of the column that has l entries
	for k, v := range m.rho {
		norm2[k+1] = norm2[k] + v*v
	}
	m.norm2, m.apart2 = norm2[t], norm2[t]
	for lag := 1; lag < t; lag++ { // columns t−l−lag and t−l, which has l entries
		inner := int64(0)
		for l := 1; l+lag <= t; l++ {
			inner += m.rho[l-1] * m.rho[l-1+lag]
			m.apart2 = max(m.apart2, norm2[l+lag]+norm2[l]-2*inner)
		}
	}
	return m
}

// Norm2 returns ‖ρ‖², the largest squared norm of a column, in units of 2⁻⁴⁰: the squared distance
// of the contributions to neighbors of which one has a record more.
func (m *Root) Norm2() int64 { return m.norm2 }

// Apart2 returns max(‖ρ‖², max ‖Re_i − Re_j‖²), the largest squared distance between the
// contributions of two records, of which either may have no cell.
func (m *Root) Apart2() int64 { return m.apart2 }

// Sensitivity returns S_t, rounded up, in the units of ρ: the root of Norm2 under dp.AddRemove and
// of Apart2 under dp.Replace.
func (m *Root) Sensitivity(r dp.Relation) float64 {
	square := m.apart2
	if r == dp.AddRemove {
		square = m.norm2
	}
	return math.Nextafter(math.Sqrt(float64(square)), math.Inf(1)) // the square is exact: below 2⁵³
}

// Add adds the column of a cell, Re_cell, times a count to y, which has t elements.
func (m *Root) Add(y []int64, cell int, count int64) {
	for k, v := range m.rho[:len(m.rho)-cell] {
		y[cell+k] += count * v
	}
}

// Times returns Rc for a histogram of at most MostRooted records.
func (m *Root) Times(c []int64) []int64 {
	y := make([]int64, len(m.rho))
	for cell, count := range c {
		m.Add(y, cell, count)
	}
	return y
}

// Solve returns c with Rc = y, by substitution.
func (m *Root) Solve(y []float64) []float64 {
	c := slices.Clone(y)
	for i := range c {
		for k := range i {
			c[i] -= float64(m.rho[i-k]) * c[k]
		}
		c[i] /= RootOne
	}
	return c
}
