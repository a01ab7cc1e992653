// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package erm

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/loss"
)

// Files of the lines of persons. They hold the lines that count and no ids: the lines of a person
// are neighbors, and each says how many they are, which decides its weight.

// CanonicalByPerson returns the order in which [Builder.ByPerson] would keep the records of src,
// and the number of lines of the person of each. Records that do not count are left out. A file
// written in this order, with lines as the first feature, is a source for [OpenCanonical].
// CanonicalByPerson reads ids and records once and needs about 80 bytes of memory for each. Not
// private: the order is a function of the records.
//
// The error wraps [ErrData] for an invalid shape, invalid bounds or an invalid p, and [ErrSource]
// if src fails.
func CanonicalByPerson(ctx context.Context, src Identified, b loss.Bounds, p Persons) (order, lines []int, err error) {
	if err := p.checkContext(ctx); err != nil {
		return nil, nil, err
	}
	if src == nil {
		return nil, nil, fmt.Errorf("%w: the source is nil", ErrData)
	}
	data, err := Open(src, b)
	if err != nil {
		return nil, nil, err
	}
	r := data.r()
	if int64(r.n) > math.MaxUint32 {
		return nil, nil, errMany
	}
	ids, err := readIDs(ctx, src, r.n)
	if err != nil {
		return nil, nil, err
	}
	every := make([]owned, 0, r.n) // in the order of src, then with the digests of lines
	for i, id := range ids {
		if id != (digest{}) {
			every = append(every, owned{id, i})
		}
	}
	if err := digestLines(ctx, r, every); err != nil {
		return nil, nil, err
	}
	digests := make([]digest, r.n)
	for _, o := range every {
		digests[o.index] = o.id
	}
	who := &people{Persons: p}
	list := who.arrange(fault.From(ctx), r.n, func(i int) digest { return ids[i] },
		func(i int, _ digest, buf []byte) (digest, []byte) { return digests[i], buf })
	order, lines = make([]int, len(list)), make([]int, len(list))
	for k, i := range list {
		order[k], lines[k] = int(i), int(who.lines[k])
	}
	return order, lines, nil
}

func byIndex(a, b owned) int { return cmp.Compare(a.index, b.index) }

// OpenCanonical is [OpenByPerson] for records in the order of [CanonicalByPerson]. The first
// feature of src is the number of lines of a record's person that count, and is no feature of the
// data. src may be a [Remote]. It must be in one such order: two files in a row would count
// somebody with lines in both as two persons. OpenCanonical reads src once and keeps 2 bytes of
// memory for each record. Every later pass must find the same records with the same weights: its
// fingerprint is compared with that of this reading.
//
// A src with a method EncodedElsewhere() (persons int, ok bool) that returns true was encoded by
// machines that counted its persons and put their lines beside each other. It is not read, and
// nothing is kept; its certificates list [TrustedEncoding]. It has to return the same records with
// the same numbers of lines from then on, or an error.
//
// The error wraps [ErrSource] if the first feature of a record is not the number of its neighbors
// with the same number, or is larger than p.Rows.
func OpenCanonical(ctx context.Context, src Source, b loss.Bounds, p Persons) (*Data, error) {
	if err := p.checkContext(ctx); err != nil {
		return nil, err
	}
	data, err := openLines(src, b, p)
	if err != nil {
		return nil, err
	}
	r := data.r()
	who := r.people
	who.weight = p.weights(fault.From(ctx))
	if n, ok := elsewhere(src); ok {
		if n < 0 || n > r.n || (r.n-1)/p.Rows >= n && r.n > 0 {
			return nil, errLines
		}
		who.count = n
		return data, nil
	}
	lines := make([]uint16, 0, r.n)
	err = r.src.all(ctx, r, func(w *window) error {
		lines = append(lines, w.lines...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(lines); i += int(lines[i]) {
		who.count++
	}
	who.lines = lines
	return data, nil
}

// openLines opens a source whose first feature is the number of lines of a person.
func openLines(src Source, b loss.Bounds, p Persons) (*Data, error) {
	data, err := Open(src, b)
	if err != nil {
		return nil, err
	}
	r := data.r()
	if r.d < 2 {
		return nil, fmt.Errorf("%w: the source has 1 feature, want the number of lines of a person, then features", ErrData)
	}
	r.src.lines = true
	out := newSource(r.n, r.d-1, b, r.src)
	out.r().people = &people{Persons: p, weight: p.weights(nil)}
	return out, nil
}

var errLines = fmt.Errorf("%w: the first feature is not the number of lines of a person: want the lines of every "+
	"person beside each other, with their number, as privopt pack writes them by the same schema, "+
	"and no change since", ErrSource)

// linesOf returns the number of lines that the first feature of a record states.
func (p *people) linesOf(v float64) (int, error) {
	k := int(max(0, min(v, MaxRows+1))) // 0 for NaN or so
	if k < 1 || k > p.Rows || float64(k) != v {
		return 0, errLines
	}
	return k, nil
}

// split moves the first features of the records, which say how many lines a person has, out of the
// rows into lines, and sets the weights. The numbers must be those of the opening, where p has
// these: the weights of a person add up to at most 1 only then.
func (p *people) split(x, w []float64, lines []uint16, d, first int) error {
	for i := range w {
		k, err := p.linesOf(x[i*(d+1)])
		if err != nil {
			return err
		}
		if len(p.lines) > 0 && k != int(p.lines[first+i]) {
			return errLines
		}
		w[i], lines[i] = p.weight[k], uint16(k)
		copy(x[i*d:(i+1)*d], x[i*(d+1)+1:(i+1)*(d+1)])
	}
	return nil
}
