// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package erm

import (
	"context"
	"fmt"

	"github.com/privopt/privopt/internal/num"
)

// Fold is a sum of vectors of integers over records, or over persons, that a [Remote] can compute
// in parts: the sum over all records is that of the sums over any parts that divide no person, as
// long as no partial sum leaves the range of int64. Its type must be registered with encoding/gob,
// here and where the records are, and its exported fields are all that Sum uses.
type Fold interface {
	// Size returns the length of the vectors.
	Size() int
	// Sum returns the sum over the records of d, which it reads by [Data.Each] or
	// [Data.EachPerson]. It is also called for parts without records. Its errors must not depend on
	// records, apart from those of these methods.
	Sum(ctx context.Context, d *Data) ([]int64, error)
}

// Fold returns the sum f over all records: f.Sum(ctx, d), or the same integers from the machines of
// a [Remote], which are compared with other passes over the records as all sums are. Not private:
// it is a function of the records. The error wraps [ErrSource] if a source fails, and
// [ErrData] for a nil f.
func (d *Data) Fold(ctx context.Context, f Fold) ([]int64, error) {
	switch {
	case ctx == nil:
		return nil, fmt.Errorf("%w: ctx is nil, want one such as context.Background()", ErrSource)
	case f == nil:
		return nil, fmt.Errorf("%w: the Fold is nil", ErrData)
	}
	r := d.records()
	if r.src == nil {
		return f.Sum(ctx, d)
	}
	remote, ok := r.src.Source.(Remote)
	if !ok {
		return f.Sum(ctx, d)
	}
	q, err := (&query{costs: costs{dim: r.d, bounds: r.bounds}, fold: f, grain: 1, key: r.src.key}).sealed(r.people)
	if err != nil {
		return nil, sourceError(err)
	}
	sums, err := remote.Sum(ctx, q)
	if err == nil {
		err = sums.answers(q.q())
	}
	if err != nil {
		return nil, sourceError(err)
	}
	if sums.in.n != int64(r.n) {
		return nil, errOther
	}
	return integers(&sums.in.total), r.src.same(sums.in.fingerprint)
}

// exactly returns integers as twice as many float64s, whose sums over 2²⁰ parts are exact.
func exactly(terms []int64) (v num.ExactVector) {
	halves := make([]float64, 0, 2*len(terms))
	for _, k := range terms {
		halves = append(halves, float64(k>>32), float64(uint32(k)))
	}
	v.Reset(len(halves))
	v.AddSlice(0, halves)
	return v
}

// integers undoes exactly.
func integers(v *num.ExactVector) []int64 {
	out := make([]int64, v.Len()/2)
	for j := range out {
		high, _ := v.Pair(2 * j)
		low, _ := v.Pair(2*j + 1)
		out[j] = int64(high)<<32 + int64(low)
	}
	return out
}

// foldOver computes the fold of q over the records of src from first on, count of them, or over the
// persons who begin there.
func (q *query) foldOver(ctx context.Context, src Source, first, count int) (*Sums, error) {
	end := first + count
	if q.persons != (Persons{}) {
		var err error
		if first, err = begin(ctx, src, first, q.persons); err != nil {
			return nil, err
		}
		if end, err = begin(ctx, src, end, q.persons); err != nil {
			return nil, err
		}
	}
	data, err := q.open(stretch{src, first, max(end-first, 0)})
	if err != nil {
		return nil, err
	}
	s := data.r().src
	s.key = q.key
	out := &sums{id: q.id(), n: int64(data.r().n)}
	// Also for a part without records: whether a Fold refuses must not depend on their number.
	terms, err := q.fold.Sum(ctx, data)
	if err != nil {
		return nil, err
	}
	if len(terms) != q.fold.Size() || out.n > 0 && !s.known {
		return nil, fmt.Errorf("%w: a Fold of %d numbers returned %d, or read no record", ErrSource, q.fold.Size(),
			len(terms))
	}
	out.fingerprint, out.total = s.fingerprint, exactly(terms)
	return &Sums{in: out}, nil
}

// stretch is a part of a source.
type stretch struct {
	src          Source
	first, count int
}

func (s stretch) Dims() (records, features int) { _, d := s.src.Dims(); return s.count, d }

func (s stretch) Read(ctx context.Context, rows, labels []float64, first int) error {
	return s.src.Read(ctx, rows, labels, s.first+first)
}

// begin returns the first record from i on with which a person begins. The lines of persons are
// neighbors, and the first feature is their number. Where it changes, and behind a 1, a person
// begins; so begin looks back for such a place, to the first record if it has to. A source with a
// method PersonBegins(i int) int tells of a closer one, at or before i.
func begin(ctx context.Context, src Source, i int, p Persons) (int, error) {
	n, d := src.Dims()
	least := 0
	if s, ok := src.(interface{ PersonBegins(i int) int }); ok && i < n {
		least = max(min(s.PersonBegins(i), i), 0)
	}
	if i <= least || i >= n {
		return i, nil
	}
	who := &people{Persons: p}
	next, at := 0, i // the number of record at, once it is read
	labels, rows := make([]float64, 64), make([]float64, 64*d)
	for end := i + 1; ; {
		from := max(end-len(labels), least)
		m := end - from
		if err := src.Read(ctx, rows[:m*d], labels[:m], from); err != nil {
			return 0, sourceError(err)
		}
		for k := m - 1; k >= 0; k-- {
			lines, err := who.linesOf(rows[k*d])
			if err != nil {
				return 0, err
			}
			if from+k < i && (lines == 1 || lines != next) {
				return following(at, i, next), nil
			}
			next, at = lines, from+k
		}
		if from == least {
			return following(at, i, next), nil
		}
		if end = from; len(labels) < Chunk {
			labels, rows = make([]float64, 2*len(labels)), make([]float64, 2*len(rows))
		}
	}
}

// following returns the first of at, at+lines, at+2·lines, … from i on.
func following(at, i, lines int) int { return at + (i-at+lines-1)/lines*lines }
