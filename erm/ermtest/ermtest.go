// Package ermtest checks implementations of erm.Source.
package ermtest

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/loss"
)

// CheckSource fails t unless src gives the same records for every way to read them: whole, in
// ranges of any length, from several goroutines at once, and after a context that ended; reports
// ranges outside of the records as errors; and, if it is an erm.Remote, has the sums of what Read gives.
// src has at least one record.
func CheckSource(t testing.TB, src erm.Source) {
	t.Helper()
	n, d := src.Dims()
	if n < 1 || d < 1 {
		t.Fatalf("Dims() = %d, %d, want at least 1 record and 1 feature to check", n, d)
	}
	ctx := context.Background()
	read := func(first, count int) []float64 {
		rows, labels := fill(count*d), fill(count)
		if err := src.Read(ctx, rows, labels, first); err != nil {
			t.Errorf("Read of records %d to %d of %d: %v", first, first+count-1, n, err)
		}
		return append(rows, labels...)
	}
	whole := read(0, n)
	if t.Failed() {
		return
	}
	same := func(first, count int) {
		got := read(first, count)
		for k, v := range got {
			want := whole[n*d+first+max(k-count*d, 0)]
			if k < count*d {
				want = whole[first*d+k]
			}
			if math.Float64bits(v) != math.Float64bits(want) && !(math.IsNaN(v) && math.IsNaN(want)) {
				t.Errorf("Read of %d records from %d: number %d differs from that of one Read of all records", count, first, k)
				return
			}
		}
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_ = src.Read(ended, make([]float64, d), make([]float64, 1), 0) // may fail, and later reads may not
	rnd := rand.New(rand.NewPCG(1, uint64(n)))
	var wg sync.WaitGroup
	for range 8 {
		var ranges [][2]int
		for range 20 {
			first := rnd.IntN(n)
			ranges = append(ranges, [2]int{first, 1 + rnd.IntN(min(n-first, 3*erm.Chunk))})
		}
		wg.Go(func() {
			for _, r := range append(ranges, [2]int{n - 1, 1}, [2]int{0, 1}) {
				same(r[0], r[1])
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
	checkSums(t, src)
}

// fill returns n numbers that a Read has to replace.
func fill(n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = 0x1.23456789abcdep-700
	}
	return v
}

// plain is a Source that is nothing else.
type plain struct{ erm.Source }

// checkSums compares the sums of a Remote with those of its records.
func checkSums(t testing.TB, src erm.Source) {
	t.Helper()
	if _, ok := src.(erm.Remote); !ok {
		return
	}
	_, d := src.Dims()
	x := make([]float64, d)
	for j := range x {
		x[j] = math.Sin(float64(j + 1))
	}
	sums := func(src erm.Source) []float64 {
		data, err := erm.Open(src, loss.Bounds{Row: 1, Label: 1})
		if err != nil {
			t.Fatal(err)
		}
		o := (&erm.Problem{Data: data, Loss: loss.Logistic{}}).Perturb(erm.Perturbation{})
		g := make([]float64, d)
		g = append(g, o.FuncGrad(g, x), o.Residual(x))
		if err := o.Err(); err != nil {
			t.Error(err)
		}
		return g
	}
	if got, want := sums(src), sums(plain{src}); !floats.Equal(got, want) {
		t.Errorf("the sums of the Remote are not those of its records")
	}
}
