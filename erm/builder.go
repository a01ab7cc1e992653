package erm

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/privopt/privopt/loss"
)

// Builder collects records one at a time, for readers that must not hold a file
// twice. What NewData says of bounds holds here: every record is forced into
// them by itself, and no value is an error. It is not safe for concurrent use.
type Builder struct{ in *building } // a pointer inside a struct prints as an address

type building struct {
	rec     *records
	scratch []float64
	parts   []part // of sparse rows
	entries int
}

// part holds consecutive sparse records as they came.
type part struct {
	col    []int32
	val    []float64
	ptr    []int
	labels []float64
}

// partEntries entries make a part: 1.5 MiB.
const partEntries = 1 << 17

// NewBuilder returns a Builder of records with d features, kept as sparse rows
// if sparse is true. The error wraps ErrData for d outside 1 to 2³¹−1 and for
// invalid bounds.
func NewBuilder(d int, sparse bool, b loss.Bounds) (*Builder, error) {
	if err := b.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrData, err)
	}
	if d < 1 || d > math.MaxInt32 {
		return nil, fmt.Errorf("%w: %d features, want 1 to 2³¹−1", ErrData, d)
	}
	return &Builder{&building{rec: newRecords(d, d, sparse, b), scratch: make([]float64, d)}}, nil
}

// Add adds a record by a copy of its row. It panics if that has not d features.
func (b *Builder) Add(row []float64, label float64) {
	in := b.in
	if len(row) != in.rec.d {
		panic(badLen)
	}
	if !in.rec.sparse {
		s := in.rec.open(0)
		s.x = append(s.x, row...)
		in.seal(s, label)
		return
	}
	p := in.open(len(row))
	for j, v := range row {
		if v != 0 {
			p.col, p.val = append(p.col, int32(j)), append(p.val, v)
		}
	}
	in.close(p, label)
}

// AddSparse adds a record by a copy of the entries val of its row in the columns
// col; all others are 0. It panics if their numbers differ or the columns do not
// increase from 0 to at most d−1.
func (b *Builder) AddSparse(col []int32, val []float64, label float64) {
	in := b.in
	if len(col) != len(val) {
		panic(badLen)
	}
	last := int32(-1)
	for _, j := range col {
		if j <= last || int(j) >= in.rec.d {
			panic(badIndex)
		}
		last = j
	}
	if in.rec.sparse {
		p := in.open(len(val))
		p.col, p.val = append(p.col, col...), append(p.val, val...)
		in.close(p, label)
		return
	}
	s := in.rec.open(0)
	at := len(s.x)
	s.x = slices.Grow(s.x, in.rec.d)[:at+in.rec.d]
	clear(s.x[at:]) // Grow promises no zeros
	for k, j := range col {
		s.x[at+int(j)] = val[k]
	}
	in.seal(s, label)
}

// seal completes the dense record whose row was just appended to s.x.
func (in *building) seal(s *slab, label float64) {
	row := s.x[len(s.x)-in.rec.d:]
	norm, _ := in.rec.force(row, in.scratch)
	s.y = append(s.y, forceLabel(label, in.rec.bounds.Label))
	s.norm = append(s.norm, norm)
	in.rec.n++
}

// open returns a part with room for a record of the given number of entries.
func (in *building) open(entries int) *part {
	if n := len(in.parts); n == 0 || len(in.parts[n-1].val)+entries > cap(in.parts[n-1].val) {
		size := max(partEntries, entries)
		in.parts = append(in.parts, part{col: make([]int32, 0, size), val: make([]float64, 0, size), ptr: []int{0}})
	}
	return &in.parts[len(in.parts)-1]
}

// close ends a record of p.
func (in *building) close(p *part, label float64) {
	in.entries += len(p.val) - p.ptr[len(p.ptr)-1]
	p.ptr, p.labels = append(p.ptr, len(p.val)), append(p.labels, label)
	in.rec.n++
}

// Data returns the records added, 0×d if there are none. The Builder must not
// be used after that.
func (b *Builder) Data() *Data {
	in := b.in
	r := in.rec
	if r.sparse && r.n > 0 {
		first := make([]int, len(in.parts)) // record of each part
		for k := 1; k < len(in.parts); k++ {
			first[k] = first[k-1] + len(in.parts[k-1].labels)
		}
		r = newSparse(r.n, r.d, in.entries, r.bounds, func(i int, col []int32, x []float64) ([]int32, []float64, float64) {
			k := sort.SearchInts(first, i+1) - 1
			p := &in.parts[k]
			lo, hi := p.ptr[i-first[k]], p.ptr[i-first[k]+1]
			return append(col, p.col[lo:hi]...), append(x, p.val[lo:hi]...), p.labels[i-first[k]]
		})
	}
	b.in = nil
	if !r.sparse {
		r.sort()
	}
	return canonical(r)
}
