package erm

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/loss"
)

var unitBounds = loss.Bounds{Row: 1, Label: 1}

// A Builder makes the data of NewData or NewDataCSR, bit by bit, also over many
// slabs and parts.
func TestBuilder(t *testing.T) {
	bounds := loss.Bounds{Row: 3, Label: 2}
	for _, size := range [][2]int{{1, 1}, {40, 3}, {700, 6}, {90000, 2}} {
		rows, labels := awkward(1, size[0], size[1])
		want, err := NewData(rows, labels, bounds)
		require.NoError(t, err)
		ptr, col, val := []int{0}, []int{}, []float64{}
		dense, err := NewBuilder(size[1], false, bounds)
		require.NoError(t, err)
		fromSparse, err := NewBuilder(size[1], false, bounds)
		require.NoError(t, err)
		sparse, err := NewBuilder(size[1], true, bounds)
		require.NoError(t, err)
		for i, row := range rows {
			dense.Add(row, labels[i])
			at := []int32{}
			from := len(val)
			for j, v := range row {
				if v != 0 {
					at, col, val = append(at, int32(j)), append(col, j), append(val, v)
				}
			}
			ptr = append(ptr, len(val))
			fromSparse.AddSparse(at, val[from:], labels[i])
			if i%2 == 0 {
				sparse.AddSparse(at, val[from:], labels[i])
			} else {
				sparse.Add(row, labels[i])
			}
		}
		csr, err := NewDataCSR(size[1], ptr, col, val, labels, bounds)
		require.NoError(t, err)
		require.Equal(t, every(want), every(dense.Data()))
		require.Equal(t, every(want), every(fromSparse.Data()))
		got := sparse.Data()
		require.True(t, got.r().sparse)
		require.Equal(t, every(csr), every(got))
	}
}

func TestBuilderShape(t *testing.T) {
	for _, sparse := range []bool{false, true} {
		for _, d := range []int{0, -1, 1 << 31} {
			_, err := NewBuilder(d, sparse, unitBounds)
			require.ErrorIs(t, err, ErrData)
		}
		_, err := NewBuilder(1, sparse, loss.Bounds{Row: math.NaN(), Label: 1})
		require.ErrorIs(t, err, loss.ErrBounds)
		b, err := NewBuilder(3, sparse, unitBounds)
		require.NoError(t, err)
		require.PanicsWithValue(t, badLen, func() { b.Add([]float64{1}, 1) })
		require.PanicsWithValue(t, badLen, func() { b.AddSparse([]int32{0}, []float64{1, 2}, 1) })
		for _, col := range [][]int32{{-1}, {3}} {
			require.PanicsWithValue(t, badIndex, func() { b.AddSparse(col, []float64{1}, 1) })
		}
		require.PanicsWithValue(t, badIndex, func() { b.AddSparse([]int32{1, 1}, []float64{1, 2}, 1) })
		n, d := b.Data().Dims()
		require.Equal(t, []int{0, 3}, []int{n, d})
	}
}

// No verb prints a record that a Builder holds.
func TestBuilderPrints(t *testing.T) {
	for _, sparse := range []bool{false, true} {
		b, err := NewBuilder(1, sparse, loss.Bounds{Row: 5000, Label: 5000})
		require.NoError(t, err)
		b.Add([]float64{4711}, 4711)
		for _, verb := range []string{"%v", "%+v", "%#v"} {
			require.NotContains(t, fmt.Sprintf(verb, b), "4711")
			require.NotContains(t, fmt.Sprintf(verb, struct{ b Builder }{*b}), "4711")
		}
	}
}
