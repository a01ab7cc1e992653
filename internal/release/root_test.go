// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package release

import (
	"encoding/json"
	"math"
	"math/big"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
)

// TestRootGolden compares ρ, ‖ρ‖² and the largest distance with integers computed in Python, and
// the
// sensitivities with 30 digits of mpmath (testdata/sqrtsum.json).
func TestRootGolden(t *testing.T) {
	raw, err := os.ReadFile("testdata/sqrtsum.json")
	require.NoError(t, err)
	var rows []struct {
		Cells              int
		Rho                []int64 // the first ones
		Norm2              string
		ReplaceDistance2   string
		AddRemove, Replace string
	}
	require.NoError(t, json.Unmarshal(raw, &rows))
	require.Len(t, rows, 8)
	for _, row := range rows {
		m := NewRoot(row.Cells)
		require.Equal(t, row.Cells, len(m.rho))
		require.Equal(t, row.Rho, m.rho[:len(row.Rho)])
		require.Equal(t, row.Norm2, strconv.FormatInt(m.Norm2(), 10))
		require.Equal(t, row.ReplaceDistance2, strconv.FormatInt(m.Apart2(), 10))
		for r, want := range map[dp.Relation]string{dp.AddRemove: row.AddRemove, dp.Replace: row.Replace} {
			exact, _, err := big.ParseFloat(want, 10, 100, big.ToNearestEven)
			require.NoError(t, err)
			exact.Mul(exact, big.NewFloat(RootOne))
			s := m.Sensitivity(r)
			require.LessOrEqual(t, exact.Cmp(big.NewFloat(s)), 0, "rounded up")
			near, _ := exact.Float64()
			require.InEpsilon(t, near, s, 4e-16)
		}
	}
}

// TestRootSensitivity: the distances are those of all pairs of columns, and of a column and
// nothing.
func TestRootSensitivity(t *testing.T) {
	for cells := 1; cells <= 60; cells++ {
		m := NewRoot(cells)
		column := make([][]int64, cells)
		norm2, apart2 := int64(0), int64(0)
		for i := range column {
			column[i] = make([]int64, cells)
			m.Add(column[i], i, 1)
			norm2 = max(norm2, distance2(column[i], make([]int64, cells)))
			for j := range i {
				apart2 = max(apart2, distance2(column[i], column[j]))
			}
		}
		require.Equal(t, norm2, m.Norm2(), cells)
		require.Equal(t, max(norm2, apart2), m.Apart2(), cells)
		require.LessOrEqual(t, m.Apart2(), 2*m.Norm2())
	}
}

func distance2(a, b []int64) int64 {
	sum := int64(0)
	for k := range a {
		sum += (a[k] - b[k]) * (a[k] - b[k])
	}
	return sum
}

// TestRootTimes: Rc is the exact sum at the largest number of records, and Solve inverts it.
func TestRootTimes(t *testing.T) {
	const cells = 435
	m := NewRoot(cells)
	c := make([]int64, cells)
	for k := range c {
		c[k] = int64(k*k*7919%1009) + 1
	}
	c[0] += MostRooted - sum(c)
	y := m.Times(c)
	for i := range y {
		want := new(big.Int)
		for k := range i + 1 {
			want.Add(want, new(big.Int).Mul(big.NewInt(m.rho[i-k]), big.NewInt(c[k])))
		}
		require.Equal(t, want.String(), strconv.FormatInt(y[i], 10))
		require.Less(t, y[i], int64(1)<<61)
	}
	f := make([]float64, cells)
	for i, v := range y {
		f[i] = float64(v)
	}
	for k, v := range m.Solve(f) {
		// y is rounded to 53 of its 60 bits, and R⁻¹ has columns of norm 1.13·2⁻²⁰.
		require.InDelta(t, float64(c[k]), v, 0x1p-8*math.Sqrt(cells))
	}
}

func sum(c []int64) int64 {
	total := int64(0)
	for _, v := range c {
		total += v
	}
	return total
}

// TestRootOfSums: R·R/2⁴⁰ is the matrix of ones up to the rounding of ρ, so that the noise of a
// prefix
// sum is that of a row of R.
func TestRootOfSums(t *testing.T) {
	rho := NewRoot(435).rho
	for k := range rho {
		square := 0.0
		for i := range k + 1 {
			square += float64(rho[i]) * float64(rho[k-i])
		}
		require.InDelta(t, 1, square/RootOne/RootOne, 2.5e-6)
	}
}

func TestRootRange(t *testing.T) {
	for _, cells := range []int{-1, 0, mostCells + 1} {
		require.Panics(t, func() { NewRoot(cells) })
	}
	m := NewRoot(mostCells)
	require.Less(t, m.Apart2(), int64(1)<<53)
	require.Less(t, 2*m.Norm2(), int64(1)<<53)
}
