// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package discover

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGolden compares cells with those of the definition, computed in Python.
func TestGolden(t *testing.T) {
	raw, err := os.ReadFile("testdata/golden.json")
	require.NoError(t, err)
	var golden struct {
		Cells []struct {
			Number string
			Cell   int
		}
	}
	require.NoError(t, json.Unmarshal(raw, &golden))
	require.NotEmpty(t, golden.Cells)
	for _, row := range golden.Cells {
		x, _ := strconv.ParseFloat(row.Number, 64)
		require.Equal(t, row.Cell, Index(x), row.Number)
	}
	require.Equal(t, 435, NumCells)
}

// TestPartition: the cells are intervals in increasing order without gaps, and Index agrees with
// their ends, which belong to the cell above.
func TestPartition(t *testing.T) {
	ends := []float64{math.Inf(-1)}
	for i := 1; i < NumCells-1; i++ {
		c, ok := first(i)
		require.True(t, ok)
		lo, hi := -1e-9, 1e-9
		if c.Digits > 0 {
			lo, hi = c.ends()
		}
		require.Less(t, lo, hi)
		if i > 1 {
			require.Equal(t, ends[len(ends)-1], lo, i)
		} else {
			require.Equal(t, -1e15, lo)
		}
		require.Equal(t, i, Index(lo), "%v", lo)
		require.Equal(t, i, Index(math.Nextafter(hi, lo)), "%v", hi)
		require.Equal(t, i+1, Index(hi), "%v", hi)
		ends = append(ends, hi)
	}
	require.Equal(t, 1e15, ends[len(ends)-1])
	for _, out := range []int{0, NumCells - 1} {
		_, ok := first(out)
		require.False(t, ok)
	}
}

// TestSplitter: tenths are a partition of their cell, in increasing order, at every level.
func TestSplitter(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		i := 1 + rnd.IntN(NumCells-2)
		c, _ := first(i)
		if c.Digits == 0 {
			require.Equal(t, -1, Splitter([]Cell{c})(0))
			continue
		}
		for c.Level < 4 {
			lo, hi := c.ends()
			at, last := Splitter([]Cell{c}), lo
			require.Equal(t, -1, at(hi))
			require.Equal(t, -1, at(math.Nextafter(lo, math.Inf(-1))))
			for j := range 10 {
				tlo, thi := c.tenth(j).ends()
				require.Equal(t, last, tlo)
				require.Equal(t, j, at(tlo), "%+v %v", c, tlo)
				require.Equal(t, j, at(math.Nextafter(thi, lo)), "%+v %v", c, thi)
				last = thi
			}
			require.Equal(t, hi, last)
			c = c.tenth(rnd.IntN(10))
		}
	}
}

// TestColumnTotal: whatever the released sums are, the range is a proper interval of numbers up to
// 10¹⁵ with edges inside.
func TestColumnTotal(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	found := 0
	for range 3000 {
		scale := math.Exp(10 * rnd.Float64())
		prefix, sum := make([]float64, NumCells), 0.0
		for i := range prefix {
			if rnd.IntN(40) == 0 {
				sum += scale * rnd.Float64() * 10
			}
			prefix[i] = sum + scale*rnd.NormFloat64()/3
		}
		k := NewColumn(prefix, scale, rnd.IntN(2) == 0)
		if k == nil {
			continue
		}
		found++
		for range 3 {
			heavy := k.Heavy()
			require.LessOrEqual(t, len(heavy), mostSplit)
			if len(heavy) == 0 {
				break
			}
			next := make([]float64, 10*len(heavy))
			for i := range next {
				next[i] = scale * (float64(i)*rnd.Float64() + rnd.NormFloat64())
			}
			k.Split(next, scale/2)
		}
		lo, hi := k.Range()
		require.Less(t, lo, hi)
		require.LessOrEqual(t, max(-lo, hi), 1e15)
		last := lo
		for _, e := range k.Edges(1 + rnd.IntN(12)) {
			require.Greater(t, e, last)
			require.Less(t, e, hi)
			last = e
		}
	}
	require.Greater(t, found, 500)
}
