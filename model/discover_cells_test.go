// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCells compares cells with those of the definition, computed in Python.
func TestCells(t *testing.T) {
	raw, err := os.ReadFile("testdata/cells.json")
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
		require.Equal(t, row.Cell, cellIndex(x), row.Number)
	}
	require.Equal(t, 435, numCells)
}

// TestPartition: the cells are intervals in increasing order without gaps, and cellIndex agrees
// with their ends, which belong to the cell above.
func TestPartition(t *testing.T) {
	ends := []float64{math.Inf(-1)}
	for i := 1; i < numCells-1; i++ {
		c, ok := firstIn(i)
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
		require.Equal(t, i, cellIndex(lo), "%v", lo)
		require.Equal(t, i, cellIndex(math.Nextafter(hi, lo)), "%v", hi)
		require.Equal(t, i+1, cellIndex(hi), "%v", hi)
		ends = append(ends, hi)
	}
	require.Equal(t, 1e15, ends[len(ends)-1])
	for _, out := range []int{0, numCells - 1} {
		_, ok := firstIn(out)
		require.False(t, ok)
	}
}

// TestSplitter: tenths are a partition of their cell, in increasing order, at every level.
func TestSplitter(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		i := 1 + rnd.IntN(numCells-2)
		c, _ := firstIn(i)
		if c.Digits == 0 {
			require.Equal(t, -1, splitter([]decimalCell{c})(0))
			continue
		}
		for c.Level < 4 {
			lo, hi := c.ends()
			at, last := splitter([]decimalCell{c}), lo
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
		prefix, sum := make([]float64, numCells), 0.0
		for i := range prefix {
			if rnd.IntN(40) == 0 {
				sum += scale * rnd.Float64() * 10
			}
			prefix[i] = sum + scale*rnd.NormFloat64()/3
		}
		k := newSketch(prefix, scale, rnd.IntN(2) == 0)
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

// noisySums returns the prefix sums of counts with the noise of a search, of deviation 1: noise on
// Rc, R the root of the matrix of prefix sums, and R solved.
func noisySums(counts []float64, rnd *rand.Rand) []float64 {
	rho, norm := make([]float64, numCells), 0.0
	for k := range rho {
		rho[k] = math.Exp(lgamma(float64(k)+0.5)-lgamma(float64(k)+1)) / math.Sqrt(math.Pi)
		norm += rho[k] * rho[k]
	}
	prefix, noise, sum := make([]float64, numCells), make([]float64, numCells), 0.0
	for i := range noise {
		noise[i] = rnd.NormFloat64() / math.Sqrt(norm)
		for k := range i {
			noise[i] -= rho[i-k] * noise[k]
		}
		sum += noise[i] + counts[i]
		prefix[i] = sum
	}
	return prefix
}

func lgamma(x float64) float64 {
	v, _ := math.Lgamma(x)
	return v
}

// TestApart: the deviations that thresholds rest on are those of the noise.
func TestApart(t *testing.T) {
	const runs = 400
	rnd := rand.New(rand.NewPCG(5, 6))
	cells := []int{1, 2, 40, zeroCell + 1, 300, numCells - 2}
	var squares [2][numCells]float64
	for range runs {
		f := noisySums(make([]float64, numCells), rnd)
		for _, i := range cells {
			squares[0][i] += math.Pow(f[i]-f[0], 2) / runs
			squares[1][i] += math.Pow(f[numCells-2]-f[i-1], 2) / runs
		}
	}
	for _, i := range cells {
		for side := range squares {
			require.InEpsilon(t, farApart()[side][i], math.Sqrt(squares[side][i]), 0.2, "cell %d", i) // six deviations
		}
	}
}

// TestEnds: noise moves an end beyond ten times a number with at most the stated probability, and
// the bound is not far from it.
func TestEnds(t *testing.T) {
	const runs, chance = 400, 0.2
	rnd := rand.New(rand.NewPCG(7, 8))
	far := 0
	for range runs {
		counts := make([]float64, numCells)
		at := cellIndex(50)
		counts[at] = 1000
		f := noisySums(counts, rnd)
		lo, hi := endsOf(f, 1, chance)
		require.Less(t, lo, hi)
		if lo < zeroCell+1 || hi > at+8 {
			far++
		}
	}
	require.LessOrEqual(t, far, int(runs*chance))
	require.Greater(t, far, runs/100)
}
