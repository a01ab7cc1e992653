// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package erm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"

	"github.com/privopt/privopt/loss"
)

// awkward returns n records of d features that are hard to sort: many duplicates, zeros of both
// signs, records outside the bounds, and sums whose rounding depends on the order.
func awkward(seed uint64, n, d int) (rows [][]float64, labels []float64) {
	rnd := rand.New(rand.NewPCG(seed, 7))
	for i := range n {
		row := make([]float64, d)
		for j := range row {
			row[j] = rnd.NormFloat64() * math.Pow(10, 4*rnd.Float64()-2)
		}
		label := rnd.NormFloat64()
		switch i % 5 {
		case 0: // equal records
			row = slices.Repeat([]float64{0.3}, d)
			label = 1
		case 1: // records that differ only in their labels
			row = slices.Repeat([]float64{-0.7}, d)
		case 2:
			row[rnd.IntN(d)] = math.Copysign(0, -1)
			row[0] = math.NaN()
			label = math.Copysign(0, -1)
		}
		rows, labels = append(rows, row), append(labels, label)
	}
	return rows, labels
}

// outcome returns all numbers that the package computes from data, to be compared bit by bit.
func outcome(t *testing.T, data *Data, q Perturbation, x []float64) []float64 {
	var bits []float64
	r := data.r()
	for i := range r.n {
		bits = append(append(bits, data.Row(i)...), data.Label(i), r.norm(i))
	}
	for _, l := range []loss.Loss{loss.Squared{}, loss.Logistic{}, general{smoothAbs{}}} {
		o := (&Problem{Data: data, Loss: l}).Perturb(q)
		g := make([]float64, len(x))
		o.Grad(g, x)
		bits = append(append(bits, g...), o.Func(x), o.Residual(x), o.Smoothness())
		o.GradTerms(g, x, []int{0, r.n / 2, r.n - 1})
		bits = append(bits, g...)
		if o.s().glm != nil {
			var h mat.SymDense
			o.Hessian(&h, x)
			bits = append(bits, h.RawSymmetric().Data...)
		}
		if quad, lin, c, ok := o.Quadratic(); ok {
			bits = append(append(append(bits, quad.RawSymmetric().Data...), lin...), c)
		}
	}
	for i, v := range bits {
		require.False(t, math.IsNaN(v), "value %d", i)
	}
	return bits
}

// TestOrderLeavesNoTrace checks that the order in which records are given has no effect: data and
// all results have the same bits for 1000 orders, at any GOMAXPROCS.
func TestOrderLeavesNoTrace(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	bounds := loss.Bounds{Row: 3, Label: 1}
	for _, size := range []struct{ n, d, orders int }{{40, 3, 900}, {700, 6, 99}, {3000, 100, 1}} {
		rows, labels := awkward(1, size.n, size.d)
		_, x, qs := random(2, 1, size.d)
		data, err := NewData(rows, labels, bounds)
		require.NoError(t, err)
		want := outcome(t, data, qs[4], x)
		rnd := rand.New(rand.NewPCG(3, 3))
		for k := range size.orders {
			runtime.GOMAXPROCS(1 + k%16)
			rnd.Shuffle(len(rows), func(i, j int) {
				rows[i], rows[j] = rows[j], rows[i]
				labels[i], labels[j] = labels[j], labels[i]
			})
			data, err := NewData(rows, labels, bounds)
			require.NoError(t, err)
			require.True(t, slices.Equal(want, outcome(t, data, qs[4], x)), "order %d of %d records", k, size.n)
		}
	}
}

// TestArrivalLeavesNoTrace checks that data have the same bits whether records come through
// NewData, NewDataDense, a Builder or Map.
func TestArrivalLeavesNoTrace(t *testing.T) {
	const n, d = 200, 4
	bounds := loss.Bounds{Row: 3, Label: 1}
	rows, labels := awkward(4, n, d)
	_, x, qs := random(2, 1, d)
	data, err := NewData(rows, labels, bounds)
	require.NoError(t, err)
	want := outcome(t, data, qs[4], x)
	dense := mat.NewDense(n, d, nil)
	builder, err := NewBuilder(d, false, bounds)
	require.NoError(t, err)
	for i := range n {
		k := (i*77 + 5) % n // another order
		dense.SetRow(i, rows[k])
		builder.Add(rows[k], labels[k])
	}
	ys := make([]float64, n)
	for i := range ys {
		ys[i] = labels[(i*77+5)%n]
	}
	other, err := NewDataDense(dense, ys, bounds)
	require.NoError(t, err)
	require.Equal(t, want, outcome(t, other, qs[4], x))
	other, err = NewDataDense(mat.DenseCopyOf(dense.T()).T(), ys, bounds)
	require.NoError(t, err)
	require.Equal(t, want, outcome(t, other, qs[4], x))
	require.Equal(t, want, outcome(t, data.Map(func(_ []float64, b float64) (float64, bool) { return b, true }), qs[4], x))
	require.Equal(t, want, outcome(t, builder.Data(), qs[4], x))
}

// TestOrderOfEqualHashes checks that records with the same hash are ordered by their content.
func TestOrderOfEqualHashes(t *testing.T) {
	rows := [][]float64{{3, 1}, {1, 2}, {3, 1}, {1, 1}, {1, 2}}
	labels := []float64{1, 1, 0, 1, 1}
	keys := make([]key, 5)
	for i := range keys {
		keys[i] = key{7, i}
	}
	arrange(keys, func(i, j int) int { return compare(rows[i], rows[j], labels[i], labels[j]) })
	var sorted [][]float64
	for _, k := range keys {
		sorted = append(sorted, append(rows[k.index], labels[k.index]))
	}
	require.Equal(t, [][]float64{{3, 1, 0}, {1, 1, 1}, {1, 2, 1}, {1, 2, 1}, {3, 1, 1}}, sorted)
}

// TestCompareSparse checks that compareSparse orders sparse records as compare orders the same
// records stored densely, so that dense and sparse data have one order even where hashes are equal.
func TestCompareSparse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.SampledFrom([]float64{-1, 0, 0, 0, 2})
		label := rapid.SampledFrom([]float64{0, 1})
		x, y := rapid.SliceOfN(number, 4, 4).Draw(t, "x"), rapid.SliceOfN(number, 4, 4).Draw(t, "y")
		a, b := label.Draw(t, "a"), label.Draw(t, "b")
		none := func() bool { return false }
		_, col, u := csr([][]float64{x}, none)
		_, other, v := csr([][]float64{y}, none)
		short := func(in []int) (out []int32) {
			for _, j := range in {
				out = append(out, int32(j))
			}
			return out
		}
		require.Equal(t, compare(x, y, a, b), compareSparse(short(col), short(other), u, v, a, b))
	})
}

// TestSparseClipsAsDense checks that clipping a long sparse row gives the same bits as clipping the
// same row stored densely.
func TestSparseClipsAsDense(t *testing.T) {
	const n, d = 200, 300
	rnd := rand.New(rand.NewPCG(6, 6))
	rows, labels := make([][]float64, n), make([]float64, n)
	for i := range rows {
		rows[i] = make([]float64, d)
		for range 1 + rnd.IntN(40) {
			rows[i][rnd.IntN(d)] = rnd.NormFloat64() * math.Pow(10, 300*(2*rnd.Float64()-1))
		}
	}
	dense, sparse := twins(t, rows, labels, loss.Bounds{Row: 0.3, Label: 1})
	require.Equal(t, every(dense), every(sparse))
}

// TestHashAndRadix checks that the radix sort agrees with the sort of the standard library, and
// that different records have different hashes.
func TestHashAndRadix(t *testing.T) {
	rnd := rand.New(rand.NewPCG(8, 8))
	for _, n := range []int{0, 1, 100, 2048, 5000} {
		keys := make([]key, n)
		for i := range keys {
			keys[i] = key{rnd.Uint64() >> rnd.IntN(64), i}
		}
		want := slices.Clone(keys)
		slices.SortStableFunc(want, func(a, b key) int {
			switch {
			case a.hash < b.hash:
				return -1
			case a.hash > b.hash:
				return 1
			}
			return 0
		})
		radix(keys, 0)
		for i := range keys {
			require.Equal(t, want[i].hash, keys[i].hash)
		}
	}
	const d = 8
	mult := make([]uint64, d)
	for j := range mult {
		mult[j] = multiplier(j)
	}
	seen := map[uint64]string{}
	put := func(a []float64, b float64) {
		h := hash(a, b, mult)
		at := fmt.Sprint(a, b)
		if old, ok := seen[h]; ok {
			require.Equal(t, old, at, "two records with one hash") // a collision has probability 4e-12
		}
		seen[h] = at
	}
	// These are all rows of zeros and ones, which include the one-hot rows.
	for pattern := range 1 << d {
		a := make([]float64, d)
		for j := range a {
			a[j] = float64(pattern >> j & 1)
		}
		for _, b := range []float64{-1, 0, 1} {
			put(a, b)
		}
	}
	for range 10000 {
		a := make([]float64, d)
		a[rnd.IntN(d)] = rnd.NormFloat64()
		put(a, 1)
	}
}

// BenchmarkOrder times the sorting of the records, which should be cheap compared with reading
// them.
func BenchmarkOrder(b *testing.B) {
	for _, s := range [][2]int{{15682, 23}, {1000000, 50}} {
		data, _ := uniform(s[0], s[1])
		r := data.r()
		rnd := rand.New(rand.NewPCG(1, 1))
		b.Run(fmt.Sprintf("n=%d/d=%d", s[0], s[1]), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				keys := make([]key, r.n)
				for k, i := range rnd.Perm(r.n) {
					keys[k].index = i
				}
				r.permute(r.n, func(k int) int { return keys[k].index })
				b.StartTimer()
				r.sort()
			}
		})
	}
}

// listed is a Source of records in memory that keeps their order.
type listed struct {
	rows   [][]float64
	labels []float64
	err    error
}

func (l listed) Dims() (records, features int) { return len(l.rows), len(l.rows[0]) }

func (l listed) Read(_ context.Context, rows, labels []float64, first int) error {
	for i := range labels {
		copy(rows[i*len(l.rows[0]):], l.rows[first+i])
	}
	copy(labels, l.labels[first:])
	return l.err
}

// TestCanonical checks that Canonical returns the order in which Data keeps the same records, even
// if some are equal or must be clipped to the bounds.
func TestCanonical(t *testing.T) {
	for _, n := range []int{1, 10, 3*Chunk + 5} {
		rows, labels := awkward(3, n, 4)
		b := loss.Bounds{Row: 2, Label: 0.5}
		order, err := Canonical(t.Context(), listed{rows: rows, labels: labels}, b)
		require.NoError(t, err)
		want, err := NewData(rows, labels, b)
		require.NoError(t, err)
		seen := make([]bool, n)
		for k, i := range order {
			require.False(t, seen[i])
			seen[i] = true
			one, err := NewData(rows[i:i+1], labels[i:i+1], b)
			require.NoError(t, err)
			require.Equal(t, want.Row(k), one.Row(0))
			require.Equal(t, want.Label(k), one.Label(0))
		}
	}
	rows, labels := awkward(3, 10, 4)
	broken := errors.New("broken")
	_, err := Canonical(t.Context(), listed{rows: rows, labels: labels, err: broken}, loss.Bounds{Row: 1, Label: 1})
	require.ErrorIs(t, err, broken)
	require.ErrorIs(t, err, ErrSource)
	_, err = Canonical(t.Context(), nil, loss.Bounds{Row: 1, Label: 1})
	require.ErrorIs(t, err, ErrData)
	_, err = Canonical(t.Context(), listed{rows: rows, labels: labels}, loss.Bounds{})
	require.ErrorIs(t, err, ErrData)
}

// Records move in a number of steps that is linear in n, for a cycle of all of them too, such as
// that of one record that comes before n−1 equal ones.
func TestPermuteIsLinear(t *testing.T) {
	const n = 1000
	b, err := NewBuilder(1, false, one)
	require.NoError(t, err)
	for i := range n {
		b.Add([]float64{float64(i) / n}, 0)
	}
	calls := 0
	r := &b.in.records
	r.permute(n, func(k int) int { calls++; return (k + n - 1) % n })
	require.LessOrEqual(t, calls, 2*n)
	for k := range n {
		_, x := r.entries(k)
		require.Equal(t, float64((k+n-1)%n)/n, x[0])
	}
}

// TestRanker checks that ranks increase in the order of Canonical and of CanonicalByPerson, also of
// records outside the bounds.
func TestRanker(t *testing.T) {
	rows, labels := awkward(3, 2000, 4)
	b := loss.Bounds{Row: 1, Label: 1}
	order, err := Canonical(t.Context(), listed{rows: rows, labels: labels}, b)
	require.NoError(t, err)
	r, err := NewRanker(4, b)
	require.NoError(t, err)
	ranks := make([]uint64, len(order))
	for k, i := range order {
		ranks[k] = r.Record(rows[i], labels[i])
	}
	require.True(t, slices.IsSorted(ranks))
	require.NotEqual(t, ranks[0], ranks[len(ranks)-1])
	in := crowd(500, 1)
	order, _, err = CanonicalByPerson(t.Context(), in, one, Persons{Rows: 3})
	require.NoError(t, err)
	ranks = ranks[:0]
	for _, i := range order {
		rank, ok := r.Person(in.w[i])
		require.True(t, ok)
		ranks = append(ranks, rank)
	}
	require.True(t, slices.IsSorted(ranks))
	_, ok := r.Person(" \t")
	require.False(t, ok)
	_, err = NewRanker(0, b)
	require.ErrorIs(t, err, ErrData)
	_, err = NewRanker(1, loss.Bounds{})
	require.ErrorIs(t, err, ErrData)
	require.Panics(t, func() { r.Record([]float64{1}, 1) })
}
