// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package erm

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/privopt/privopt/internal/kernel"
	"github.com/privopt/privopt/loss"
)

// The canonical order of records is that of a fixed hash of their bits and, where hashes are equal,
// that of the bits themselves. Equal records are indistinguishable, so the stored records are a
// function of the multiset of records, whatever the order of the input. No stored number is −0, see
// force and forceLabel.

// key is a record in the canonical order: its hash, and its index in the input.
type key struct {
	hash  uint64
	index int
}

// newDense returns n dense records in canonical order, made by at most the given number of threads,
// GOMAXPROCS for 0. read stores raw record i in row, of length d, and returns its label. It is
// called at least twice for every record, because that takes less time than moving the records.
func newDense(n, d, threads int, b loss.Bounds, read func(i int, row []float64) (label float64)) *records {
	r := &records{n: n, d: d, shift: slabShift(d), bounds: b}
	r.slabs = make([]slab, (n+1<<r.shift-1)>>r.shift)
	forced := func(i int, row, scratch []float64) (label, norm float64, inside bool) {
		label = forceLabel(read(i, row), b.Label)
		norm, inside = r.force(row, scratch)
		return label, norm, inside
	}
	inSlabs := func(f func(s *slab, lo, hi int)) {
		kernel.Each(len(r.slabs), threads, parts(func(k int) {
			f(&r.slabs[k], k<<r.shift, min((k+1)<<r.shift, n))
		}))
	}
	keys, mult := make([]key, n), multipliers(d)
	norms, insides := make([]float64, n), make([]bool, n)
	inSlabs(func(_ *slab, lo, hi int) {
		row, scratch := make([]float64, d), make([]float64, d)
		for i := lo; i < hi; i++ {
			var label float64
			label, norms[i], insides[i] = forced(i, row, scratch)
			keys[i] = key{hash(row, label, mult), i}
		}
	})
	radix(keys, threads)
	x, y := make([]float64, d), make([]float64, d)
	scratch := make([]float64, d)
	arrange(keys, func(i, j int) int {
		label, _, _ := forced(i, x, scratch)
		second, _, _ := forced(j, y, scratch)
		return compare(x, y, label, second)
	})
	inSlabs(func(s *slab, lo, hi int) {
		m, scratch := hi-lo, make([]float64, d)
		s.x, s.y = make([]float64, m*d), make([]float64, m)
		s.norm = make([]float64, m)
		const batch = 64 // rows to copy before any is checked, so that reads from memory do not wait for checks
		for first := 0; first < m; first += batch {
			last := min(first+batch, m)
			for k, key := range keys[lo+first : lo+last] {
				k += first
				s.y[k], s.norm[k] = forceLabel(read(key.index, s.x[k*d:(k+1)*d]), b.Label), norms[key.index]
			}
			squares(s.x[first*d : last*d]) // replaces −0
			for k, key := range keys[lo+first : lo+last] {
				if k += first; !insides[key.index] {
					r.force(s.x[k*d:(k+1)*d], scratch)
				}
			}
		}
	})
	return r
}

// newSparse returns n sparse records in canonical order. entries is about the number of their
// entries. read appends the columns and values of raw record i to col and x and returns its label.
// It is called at least twice for every record, because rows of different lengths cannot be sorted
// in place.
func newSparse(
	n, d, entries int, b loss.Bounds, read sparseReader,
) *records {
	return sparseInOrder(n, d, entries, b, read, func(forced sparseReader) (int, func(k int) int) {
		var c, other []int32
		var x, y []float64
		var label, second float64
		keys := make([]key, n)
		for i := range keys {
			c, x, label = forced(i, c, x)
			keys[i] = key{hashSparse(c, x, label), i}
		}
		radix(keys, 0)
		arrange(keys, func(i, j int) int {
			c, x, label = forced(i, c, x)
			other, y, second = forced(j, other, y)
			return compareSparse(c, other, x, y, label, second)
		})
		return n, func(k int) int { return keys[k].index }
	})
}

// sparseReader reads a sparse record into col and x and returns its label.
type sparseReader = func(i int, col []int32, x []float64) ([]int32, []float64, float64)

// sparseInOrder is newSparse for the records that order returns, in that order. order gets a
// function that reads a record and forces it into the bounds.
func sparseInOrder(
	n, d, entries int, b loss.Bounds, read sparseReader, order func(forced sparseReader) (n int, index func(k int) int),
) *records {
	r := &records{d: d, sparse: true, shift: slabShift(max(entries/max(n, 1), 1)), bounds: b}
	var scratch []float64
	forced := func(i int, col []int32, x []float64) ([]int32, []float64, float64) {
		col, x, label := read(i, col[:0], x[:0])
		scratch = resize(scratch, len(x))
		r.force(x, scratch)
		m := 0
		for k, v := range x {
			if v != 0 {
				col[m], x[m] = col[k], v
				m++
			}
		}
		return col[:m], x[:m], forceLabel(label, b.Label)
	}
	var c []int32
	var x []float64
	var label float64
	n, index := order(forced)
	for k := range n {
		c, x, label = forced(index(k), c, x)
		s := r.open(n - k)
		s.col, s.x = append(s.col, c...), append(s.x, x...)
		s.ptr = append(s.ptr, len(s.x))
		s.y = append(s.y, label)
		r.n++
	}
	return r
}

// parts is a function as kernel.Parts.
type parts func(k int)

// Part implements kernel.Parts.
func (f parts) Part(k int) { f(k) }

// sort puts dense records into canonical order within their memory. It needs 33n bytes for a while.
func (r *records) sort() {
	keys, mult := make([]key, r.n), multipliers(r.d)
	for i := range keys {
		_, x := r.entries(i)
		keys[i] = key{hash(x, r.label(i), mult), i}
	}
	radix(keys, 0)
	arrange(keys, func(i, j int) int {
		_, x := r.entries(i)
		_, y := r.entries(j)
		return compare(x, y, r.label(i), r.label(j))
	})
	r.permute(r.n, func(k int) int { return keys[k].index })
}

// arrange sorts keys that are sorted by hash: keys of equal hashes are sorted by compare of their
// records.
func arrange(keys []key, compare func(i, j int) int) {
	for lo := 0; lo < len(keys); {
		hi, equal := lo+1, true
		for hi < len(keys) && keys[hi].hash == keys[lo].hash {
			equal = equal && compare(keys[lo].index, keys[hi].index) == 0
			hi++
		}
		if !equal {
			slices.SortFunc(keys[lo:hi], func(a, b key) int { return compare(a.index, b.index) })
		}
		lo = hi
	}
}

// multiplier returns the odd multiplier of column j, an output of SplitMix64 that is the same in
// every process.
func multiplier(j int) uint64 { return mix(uint64(j+1)*0x9e3779b97f4a7c15) | 1 }

// multipliers returns the multipliers of d columns.
func multipliers(d int) []uint64 {
	mult := make([]uint64, d)
	for j := range mult {
		mult[j] = multiplier(j)
	}
	return mult
}

// mix is the finalizer of SplitMix64, a bijection.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// hash returns the hash of a dense record: mix of the hash of the label plus Σⱼ fold(xⱼ, mⱼ). Zero
// entries add nothing, so that sparse rows have the hashes of the same dense rows.
func hash(x []float64, label float64, mult []uint64) uint64 {
	sum := hashLabel(label)
	mult = mult[:len(x)]
	for j, v := range x {
		sum += fold(v, mult[j])
	}
	return mix(sum)
}

// hashSparse is hash for a sparse record with the columns col.
func hashSparse(col []int32, x []float64, label float64) uint64 {
	sum := hashLabel(label)
	for k, j := range col {
		sum += fold(x[k], multiplier(int(j)))
	}
	return mix(sum)
}

func hashLabel(label float64) uint64 { return math.Float64bits(label) * 0x9fb21c651e98df25 }

// fold returns the exclusive or of the halves of the 128-bit product of the bits of v with mult.
func fold(v float64, mult uint64) uint64 {
	hi, lo := bits.Mul64(math.Float64bits(v), mult)
	return hi ^ lo
}

// compare orders two records by their labels and then by their rows. 0 means that they are equal.
func compare(x, y []float64, label, second float64) int {
	return cmp.Or(cmp.Compare(label, second), slices.Compare(x, y))
}

// compareSparse is compare for sparse records with the columns col and other. No entry is 0.
func compareSparse(col, other []int32, x, y []float64, label, second float64) int {
	k := 0
	for k < min(len(x), len(y)) && col[k] == other[k] && x[k] == y[k] {
		k++
	}
	var v, w float64 // the numbers in the first column where the rows may differ
	if k < len(x) && (k >= len(y) || col[k] <= other[k]) {
		v = x[k]
	}
	if k < len(y) && (k >= len(x) || other[k] <= col[k]) {
		w = y[k]
	}
	return cmp.Or(cmp.Compare(label, second), cmp.Compare(v, w))
}

// radix sorts keys by their hashes: into buckets by their first bits, then each bucket on its own.
// It uses at most the given number of threads, GOMAXPROCS for 0.
func radix(keys []key, threads int) {
	const digit = 11
	byHash := func(a, b key) int { return cmp.Compare(a.hash, b.hash) }
	if len(keys) < 1<<digit {
		slices.SortFunc(keys, byHash)
		return
	}
	var end [1<<digit + 1]int // end[c] is where bucket c begins
	for _, k := range keys {
		end[k.hash>>(64-digit)+1]++
	}
	for c := range 1 << digit {
		end[c+1] += end[c]
	}
	buckets := make([]key, len(keys))
	at := end
	for _, k := range keys {
		c := k.hash >> (64 - digit)
		buckets[at[c]] = k
		at[c]++
	}
	kernel.Each(1<<digit, threads, parts(func(c int) {
		lo, hi := end[c], end[c+1]
		slices.SortFunc(buckets[lo:hi], byHash)
		copy(keys[lo:hi], buckets[lo:hi])
	}))
}

// permute moves record index(k) to k for each of n records, cycle by cycle. index is a permutation.
func (r *records) permute(n int, index func(k int) int) {
	done := make([]bool, n)
	for first := range n {
		if done[first] {
			continue
		}
		k := first
		for from := index(k); from != first; from = index(k) {
			r.swap(k, from)
			done[from], k = true, from
		}
	}
}

// swap swaps two records.
func (r *records) swap(k, from int) {
	s, i := r.at(k)
	t, j := r.at(from)
	_, x := r.in(s, i)
	_, y := r.in(t, j)
	for c, v := range x {
		x[c], y[c] = y[c], v
	}
	s.y[i], t.y[j] = t.y[j], s.y[i]
}

// Ranker tells where [Data] keep records, so that other machines can put parts of a table into the
// order of the whole: first the records of the least ranks. It is not safe for concurrent use. Not
// private: a rank is a function of a record or of an id.
type Ranker struct {
	bounds       loss.Bounds
	mult         []uint64
	row, scratch []float64
}

// Format prints no record, by any verb.
func (Ranker) Format(f fmt.State, _ rune) { fmt.Fprint(f, "erm.Ranker") }

// NewRanker returns a Ranker of records with d features. The error wraps [ErrData] for d outside 1
// to 2³¹−1 and for invalid bounds.
func NewRanker(d int, b loss.Bounds) (*Ranker, error) {
	if err := checkShape(0, 0, b); err != nil {
		return nil, err
	}
	if err := checkFeatures(d); err != nil {
		return nil, err
	}
	return &Ranker{bounds: b, mult: multipliers(d), row: make([]float64, d), scratch: make([]float64, d)}, nil
}

// Record returns the rank of a record, forced into the bounds, in the order of [Canonical]. It
// panics if the row has not d features.
func (r *Ranker) Record(row []float64, label float64) uint64 {
	if len(row) != len(r.row) {
		panic(badLen)
	}
	copy(r.row, row)
	(&records{bounds: r.bounds}).force(r.row, r.scratch)
	return hash(r.row, forceLabel(label, r.bounds.Label), r.mult)
}

// Person returns the rank of an id in the order of [CanonicalByPerson]. ok is false for an id of
// nothing but blanks, whose lines count nowhere.
func (*Ranker) Person(id string) (rank uint64, ok bool) {
	d := digestOf(id)
	return binary.BigEndian.Uint64(d[:]), d != digest{}
}

// Canonical returns the order in which [Data] would keep the records of src: element k is the index
// in src of record k. Sums over a file written in this order have the same bits as sums over its
// records in memory. Canonical reads every record once and needs about 70 bytes of memory for each.
// Not private: the order is a function of the records.
//
// The error wraps [ErrData] for an invalid shape or invalid bounds, and [ErrSource] if src fails.
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
	arrange(keys, func(i, j int) int { // records of equal hashes, which are rare
		err := s.read(ctx, &w, r, i, 1)
		if err == nil {
			err = s.read(ctx, &other, r, j, 1)
		}
		if err != nil {
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
