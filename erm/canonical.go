package erm

import (
	"cmp"
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
	if ctx == nil {
		return nil, fmt.Errorf("%w: ctx is nil, want one such as context.Background()", ErrSource)
	}
	data, err := Open(src, b)
	if err != nil {
		return nil, err
	}
	r := data.r()
	s, n := r.src, r.n
	mult, keys := multipliers(r.d), make([]key, n)
	var w, other window
	for at := 0; at < n; at += w.rec.n {
		if err := s.read(ctx, &w, r, at, min(Chunk, n-at)); err != nil {
			return nil, err
		}
		for i := range w.rec.n {
			keys[at+i] = key{hash(w.rec.row(i, nil), w.rec.label(i), mult), at + i}
		}
	}
	radix(keys, 0)
	var failed error
	arrange(keys, func(i, j int) int { // records of equal hashes, nearly always none
		if err := cmp.Or(s.read(ctx, &w, r, i, 1), s.read(ctx, &other, r, j, 1)); err != nil {
			failed = err
			return 0
		}
		return compare(w.rec.row(0, nil), other.rec.row(0, nil), w.rec.label(0), other.rec.label(0))
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
