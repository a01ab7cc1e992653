package erm

import (
	"context"
	"fmt"

	"github.com/privopt/privopt/loss"
)

// Canonical returns the order in which Data would keep the records of src: element k is the index
// in src of record k. A file that is written in this order gives sums of the same bits as its
// records in memory. It reads every record once, and takes about 70 bytes of memory a record. Not
// private: the order is a function of the records.
//
// The error wraps ErrData for a shape or bounds that make no sense, and ErrSource for a failure of src.
func Canonical(ctx context.Context, src Source, b loss.Bounds) ([]int, error) {
	if src == nil {
		return nil, fmt.Errorf("%w: the source is nil", ErrData)
	}
	n, d := src.Dims()
	if err := b.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrData, err)
	}
	if n < 0 || d < 1 {
		return nil, fmt.Errorf("%w: the source has %d features, want at least 1", ErrData, d)
	}
	r, scratch := newRecords(d, d, false, b), make([]float64, d)
	rows, labels := make([]float64, d*min(n, Chunk)), make([]float64, min(n, Chunk))
	read := func(rows, labels []float64, first int) error {
		if err := src.Read(ctx, rows, labels, first); err != nil {
			return fmt.Errorf("%w: %w", ErrSource, err)
		}
		for i := range labels {
			r.force(rows[i*d:(i+1)*d], scratch)
			labels[i] = forceLabel(labels[i], b.Label)
		}
		return nil
	}
	mult := multipliers(d)
	keys := make([]key, n)
	for at := 0; at < n; at += Chunk {
		m := min(Chunk, n-at)
		if err := read(rows[:m*d], labels[:m], at); err != nil {
			return nil, err
		}
		for i := range m {
			keys[at+i] = key{hash(rows[i*d:(i+1)*d], labels[i], mult), at + i}
		}
	}
	radix(keys, 0)
	var failed error
	x, y := make([]float64, 2*d), make([]float64, 2)
	arrange(keys, func(i, j int) int { // records of equal hashes, nearly always none
		for k, at := range []int{i, j} {
			if err := read(x[k*d:(k+1)*d], y[k:k+1], at); err != nil {
				failed = err
			}
		}
		return compare(x[:d], x[d:], y[0], y[1])
	})
	if failed != nil {
		return nil, failed
	}
	order := make([]int, n)
	for k := range keys {
		order[k] = keys[k].index
	}
	return order, nil
}
