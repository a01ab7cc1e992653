// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package ermtest checks implementations of [erm.Source].
package ermtest

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/loss"
)

// CheckSource fails t unless src gives the same records for every way to read them: all at once, in
// ranges of any length, from several goroutines, and after a context that ended. It also checks
// that src reports ranges outside of the records as errors and that the sums of an [erm.Remote] are
// those of its records. src must have at least one record.
func CheckSource(t testing.TB, src erm.Source) {
	t.Helper()
	ctx := context.Background()
	n, d := src.Dims()
	if n < 1 || d < 1 {
		t.Fatalf("Dims() = %d, %d, want at least 1 record and 1 feature to check", n, d)
	}
	read := func(first, count int) (rows, labels []uint64) {
		x, y := fill(count*d), fill(count)
		if err := src.Read(ctx, x, y, first); err != nil {
			t.Errorf("Read of records %d to %d of %d: %v", first, first+count-1, n, err)
		}
		return bits(x), bits(y)
	}
	rows, labels := read(0, n)
	if t.Failed() {
		return
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_ = src.Read(ended, make([]float64, d), make([]float64, 1), 0) // may fail; later reads must not
	rnd := rand.New(rand.NewPCG(1, uint64(n)))
	var wg sync.WaitGroup
	for range 8 {
		ranges := [][2]int{{n - 1, 1}, {0, 1}}
		for range 20 {
			first := rnd.IntN(n)
			ranges = append(ranges, [2]int{first, 1 + rnd.IntN(min(n-first, 3*erm.Chunk))})
		}
		wg.Go(func() {
			for _, r := range ranges {
				end := r[0] + r[1]
				x, y := read(r[0], r[1])
				if !slices.Equal(x, rows[r[0]*d:end*d]) || !slices.Equal(y, labels[r[0]:end]) {
					t.Errorf("Read of %d records from %d differs from one Read of all records", r[1], r[0])
				}
			}
		})
	}
	wg.Wait()
	for _, first := range []int{-1, n, n + erm.Chunk, math.MaxInt} {
		if err := src.Read(ctx, make([]float64, d), make([]float64, 1), first); err == nil {
			t.Errorf("Read of record %d of %d gives no error", first, n)
		}
	}
	if err := src.Read(ctx, make([]float64, 2*d), make([]float64, 2), n-1); err == nil {
		t.Errorf("Read of two records from the last one gives no error")
	}
	if again, k := src.Dims(); again != n || k != d {
		t.Errorf("Dims() = %d, %d, and before %d, %d", again, k, n, d)
	}
	if _, ok := src.(erm.Remote); ok && !floats.Equal(sums(t, src), sums(t, plain{src})) {
		t.Errorf("the sums of the Remote are not those of its records")
	}
}

// fill returns n numbers that a Read has to replace.
func fill(n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = 0x1.23456789abcdep-700
	}
	return v
}

// bits returns the bits of v, the same for every NaN.
func bits(v []float64) []uint64 {
	b := make([]uint64, len(v))
	for i, x := range v {
		if b[i] = math.Float64bits(x); math.IsNaN(x) {
			b[i] = math.Float64bits(math.NaN())
		}
	}
	return b
}

// plain hides the other methods of a Source.
type plain struct{ erm.Source }

// sums returns sums over the records of src.
func sums(t testing.TB, src erm.Source) []float64 {
	t.Helper()
	data, err := erm.Open(src, loss.Bounds{Row: 1, Label: 1})
	if err != nil {
		t.Fatal(err)
	}
	_, d := src.Dims()
	x, g := make([]float64, d), make([]float64, d)
	for j := range x {
		x[j] = math.Sin(float64(j + 1))
	}
	o := (&erm.Problem{Data: data, Loss: loss.Logistic{}}).Perturb(erm.Perturbation{})
	f := o.FuncGrad(g, x)
	g = append(g, f, o.Residual(x))
	if err := o.Err(); err != nil {
		t.Error(err)
	}
	return g
}
