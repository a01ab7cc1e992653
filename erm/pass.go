package erm

import (
	"sync"

	"gonum.org/v1/gonum/blas"
)

const (
	// blockRows rows are read at a time: for d ≤ 2000 they stay in the
	// second-level cache between the two halves of a pass.
	blockRows = 64
	// streamBytes is the size of the rows above which a pass is bound by
	// memory: one row at a time then reads twice as fast as four rows at
	// once, because it is a single stream for the prefetcher.
	streamBytes = 24 << 20
)

// predicted holds the predictions of one block of rows.
var predicted = sync.Pool{New: func() any { return new([blockRows]float64) }}

// predictions calls w = f(i, ⟨aᵢ,x⟩) for every record in order and adds
// Σᵢ w·aᵢ to dst unless dst is nil. It reads the rows from memory once, on one
// thread, in an order that depends on n and d alone.
func (r *records) predictions(x []float64, f func(i int, u float64) float64, dst []float64) {
	d := r.d
	if 8*len(r.x) > streamBytes {
		for i := range r.n {
			a := r.row(i)
			w := f(i, kernel.Ddot(d, a, 1, x, 1))
			if dst != nil {
				kernel.Daxpy(d, w, a, 1, dst, 1)
			}
		}
		return
	}
	buf := predicted.Get().(*[blockRows]float64)
	defer predicted.Put(buf)
	for lo := 0; lo < r.n; lo += blockRows {
		m := min(blockRows, r.n-lo)
		a, u := r.x[lo*d:(lo+m)*d], buf[:m]
		kernel.Dgemv(blas.NoTrans, m, d, 1, a, d, x, 1, 0, u, 1) // u = Ax
		for i, v := range u {
			u[i] = f(lo+i, v)
		}
		if dst != nil {
			kernel.Dgemv(blas.Trans, m, d, 1, a, d, u, 1, 1, dst, 1) // dst += A'u
		}
	}
}
