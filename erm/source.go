// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package erm

import (
	"context"
	cryptorand "crypto/rand"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/loss"
)

// Chunk is the largest number of records that are read at a time. Parts of a [Source] begin at
// multiples of it.
const Chunk = 8192

// Source holds records outside of memory, such as in a file. Its methods are safe for concurrent
// use.
//
// A source is not trusted to respect the bounds: every record is forced into them, as [Data]
// describes, at every read.
type Source interface {
	// Dims returns the number of records and of features, always the same.
	Dims() (records, features int)
	// Read stores the rows of records first, …, first+len(labels)−1 in rows, row-major, and their
	// labels in labels. rows has len(labels) times the number of features. A later Read of a record
	// gives the same values or an error. The text of an error contains no value of a record.
	Read(ctx context.Context, rows, labels []float64, first int) error
}

// Remote is a [Source] whose records are added up elsewhere: on other machines or by other
// processes. Sums are exact, so on machines of one type they have the same bits wherever they are
// computed.
type Remote interface {
	Source
	// Sum returns the sums for q over all records, each counted once, as [Query.Sum] computes and
	// [Sums.Merge] joins them.
	Sum(ctx context.Context, q *Query) (*Sums, error)
}

// Open returns data whose records stay in src: every pass over the records reads them again. It is
// for records that do not fit into memory. lop, qop, sco.ObjPert and package model make few passes.
// Methods that take single records, such as sco.NoisySGD, read up to [Chunk] records for each, and
// the fingerprint does not cover those reads.
//
// The records keep the order of src. If that order is canonical, see [Canonical], sums have the
// bits of records in memory. Records are forced into the bounds at every read. Every pass compares
// the number of records and a fingerprint with a random key to those of the pass before: if records
// were lost, counted twice or changed, the error is [ErrSource].
//
// Open returns an error wrapping [ErrData] for an invalid shape or invalid bounds.
func Open(src Source, b loss.Bounds) (*Data, error) {
	if src == nil {
		return nil, fmt.Errorf("%w: the source is nil", ErrData)
	}
	if err := checkShape(0, 0, b); err != nil {
		return nil, err
	}
	n, d := src.Dims()
	if n < 0 || n > largestRecords || d < 1 || d > math.MaxInt32 || n > math.MaxInt/8/d {
		return nil, fmt.Errorf("%w: the source has %d features, want 1 to 2³¹−1 of 0 to 2⁴⁰ records, and fewer than 2⁶⁰ "+
			"numbers", ErrData, d)
	}
	var key [16]byte
	cryptorand.Read(key[:])
	_, foreign := elsewhere(src)
	return newSource(n, d, b, &source{
		Source: src, key: [2]uint64{binary.LittleEndian.Uint64(key[:]), binary.LittleEndian.Uint64(key[8:])},
		foreign: foreign,
	}), nil
}

// elsewhere returns what a source says about who encoded its records, and the number of persons.
func elsewhere(src Source) (persons int, ok bool) {
	if s, is := src.(interface{ EncodedElsewhere() (int, bool) }); is {
		return s.EncodedElsewhere()
	}
	return 0, false
}

// newSource returns the data of n records with d features in src.
func newSource(n, d int, b loss.Bounds, src *source) *Data {
	return newData(&records{n: n, d: d, shift: slabShift(d), bounds: b, src: src, floatsOnce: n * d})
}

// Err returns the first failure of the source outside of an [Objective], an error wrapping
// [ErrSource]; nil for records in memory. A record that could not be read is replaced by the zero
// record: values computed from it must not be used.
func (d *Data) Err() error { return d.records().err() }

func (r *records) err() error {
	if r.src != nil {
		if err := r.src.failure.Load(); err != nil {
			return *err
		}
	}
	return nil
}

// Assumptions returns the assumptions of certificates over these data: [TrustedCluster] for a
// [Remote], [TrustedEncoding] for a source that says that it was encoded elsewhere, see
// [OpenCanonical], [OneID] for data of [Persons].
func (d *Data) Assumptions() []dp.Assumption {
	r := d.records()
	var out []dp.Assumption
	if r.people != nil {
		out = append(out, OneID)
	}
	if r.src != nil {
		if _, ok := r.src.Source.(Remote); ok {
			out = append(out, TrustedCluster)
		}
		if r.src.foreign {
			out = append(out, TrustedEncoding)
		}
	}
	return out
}

// Each calls f with every record in turn: its row, which f must neither change nor keep, and its
// label. Lines of persons come without their weights, see [Data.EachPerson]. The error is nil for
// records in memory; otherwise it wraps [ErrSource].
func (d *Data) Each(f func(a []float64, b float64)) error {
	return d.each(context.Background(), func(a []float64, b, w float64, _ int) {
		if w > 0 {
			f(a, b)
		}
	})
}

// each calls f with every record, its weight, and the number of lines of its person that count.
func (d *Data) each(ctx context.Context, f func(a []float64, b, w float64, lines int)) error {
	r := d.records()
	if r.src == nil {
		scratch := make([]float64, r.d)
		for i := range r.n {
			f(r.row(i, scratch), r.label(i), r.weight(i), r.people.linesAt(i))
		}
		return nil
	}
	return r.src.all(ctx, r, func(w *window) error {
		for i := range w.rec.n {
			lines := 0
			if r.src.lines {
				lines = int(w.lines[i])
			} else {
				lines = r.people.linesAt(w.first + i)
			}
			f(w.rec.row(i, nil), w.rec.label(i), w.rec.weight(i), lines)
		}
		return nil
	})
}

// all calls f with all records of r in turn, some at a time, and compares them with those of
// earlier passes. Where they state the numbers of lines of persons, the lines of each must be
// neighbors.
func (s *source) all(ctx context.Context, r *records, f func(w *window) error) error {
	w := windows.Get().(*window)
	defer windows.Put(w)
	var fingerprint [2]uint64
	var runs runs
	mult := multipliersOf(s.key, r.d)
	for at := 0; at < r.n; at += w.rec.n {
		if err := s.read(ctx, w, r, at, min(readRows(r.d), r.n-at)); err != nil {
			return err
		}
		if s.lines && !runs.follow(w.lines) {
			return errLines
		}
		sum := w.fingerprint(mult)
		fingerprint[0], fingerprint[1] = fingerprint[0]+sum[0], fingerprint[1]+sum[1]
		if err := f(w); err != nil {
			return err
		}
	}
	if runs.left > 0 || s.lines && r.people.count > 0 && runs.persons != r.people.count {
		return errLines
	}
	return s.same(fingerprint)
}

// runs counts persons whose lines are neighbors.
type runs struct{ persons, lines, left int }

// follow takes the stated numbers of the next records. It returns false if they are not those of
// neighbors.
func (s *runs) follow(lines []uint16) bool {
	for _, k := range lines {
		if s.left == 0 {
			s.persons, s.lines, s.left = s.persons+1, int(k), int(k)
		}
		if int(k) != s.lines {
			return false
		}
		s.left--
	}
	return true
}

// source is the state of records that are read on demand.
type source struct {
	Source
	each  []mapping // the functions passed to Data.Map, in order
	key   [2]uint64 // of the fingerprint
	lines bool      // the first feature of Source is the number of lines of a person
	view  *borrowed // Source if its records are in memory, else nil

	foreign bool // other machines encoded the records

	failure atomic.Pointer[error]
	near    atomic.Pointer[window] // the records that at read last

	mu          sync.Mutex
	known       bool // the fingerprint is that of an earlier pass
	fingerprint [2]uint64
}

// readRows returns the number of records of d features that are read at a time, a power of two.
func readRows(d int) int { return min(max(1<<slabShift(d), grain), Chunk) }

// oneSlab is the shift of records that are in one slab, whatever their number.
const oneSlab = 62

// window holds records that were read and forced into the bounds.
type window struct {
	rec     records
	first   int
	scratch []float64
	weights []float64
	lines   []uint16 // of the person of a record, if the source states them
}

var windows = sync.Pool{New: func() any { return new(window) }}

// read reads records first, …, first+count−1 of r into w.
func (s *source) read(ctx context.Context, w *window, r *records, first, count int) error {
	if len(w.rec.slabs) == 0 {
		w.rec.slabs = make([]slab, 1)
	}
	x := &w.rec.slabs[0]
	w.first, w.scratch = first, resize(w.scratch, r.d)
	width := r.d
	if s.lines {
		width++
	}
	x.x, x.y, x.norm = resize(x.x, count*width), resize(x.y, count), resize(x.norm, count)
	w.rec = records{n: count, d: r.d, shift: oneSlab, slabs: w.rec.slabs, bounds: r.bounds, floatsOnce: count * r.d}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.Read(ctx, x.x, x.y, first); err != nil {
		return sourceError(err)
	}
	if x.w = nil; r.people != nil {
		w.weights = resize(w.weights, count)
		x.w = w.weights
	}
	if s.lines {
		w.lines = resize(w.lines, count)
		if err := r.people.split(x.x, x.w, w.lines, r.d, first); err != nil {
			return err
		}
		x.x = x.x[:count*r.d]
	}
	for k := range count {
		row := x.x[k*r.d : (k+1)*r.d]
		x.norm[k], _ = r.force(row, w.scratch)
		x.y[k] = forceLabel(x.y[k], r.bounds.Label)
		for _, m := range s.each {
			copy(w.scratch, row)
			label, keep := m(w.scratch, x.y[k])
			if !keep {
				clear(row)
				label, x.norm[k] = 0, 0
			}
			x.y[k] = forceLabel(label, r.bounds.Label)
		}
	}
	if r.people != nil && !s.lines {
		r.people.weigh(x.w, first)
		for k, v := range x.w {
			if v == 0 {
				clear(x.x[k*r.d : (k+1)*r.d])
				x.y[k], x.norm[k] = 0, 0
			}
		}
	}
	return nil
}

// multipliersOf returns the multipliers of the fingerprint: one for each column, one for the label,
// and one for the weight.
func multipliersOf(key [2]uint64, d int) []uint64 {
	mult := make([]uint64, d+2)
	for j := range mult {
		mult[j] = multiplier(j) ^ mix(key[0]+uint64(j))&^1
	}
	mult[d] ^= key[1]
	return mult
}

// fingerprint returns the fingerprint of the records: the sum of two keyed hashes of each record
// and its weight. Without the weight, lines whose stated numbers change would give a person the
// weight of several.
func (w *window) fingerprint(mult []uint64) (sum [2]uint64) {
	d, x := w.rec.d, w.rec.slabs[0].x
	for i, label := range w.rec.slabs[0].y {
		h := math.Float64bits(label)*(mult[d]|1) + fold(w.rec.weight(i), mult[d+1])
		h = mix(h + mult[d] + hashRow(x[i*d:(i+1)*d], mult))
		sum[0] += h
		sum[1] += mix(h ^ mult[0])
	}
	return sum
}

// hashRow returns a hash of a row: the sum over pairs of entries, each with its secret number
// added, of the exclusive or of the halves of their product. That takes half the products of hash.
// The last entry of an odd row goes through fold.
func hashRow(row []float64, mult []uint64) (sum uint64) {
	mult = mult[:len(row)]
	j := 0
	for ; j+1 < len(row); j += 2 {
		hi, lo := bits.Mul64(math.Float64bits(row[j])+mult[j], math.Float64bits(row[j+1])+mult[j+1])
		sum += hi ^ lo
	}
	if j < len(row) {
		sum += fold(row[j], mult[j])
	}
	return sum
}

// at returns the slab of record i and its index there, for methods that take single records.
func (s *source) at(r *records, i int) (*slab, int) {
	w := s.near.Load()
	if w == nil || i < w.first || i >= w.first+w.rec.n {
		w = new(window)
		count := readRows(r.d)
		if s.view != nil {
			count = 1
		}
		first := i - i%count
		if err := s.read(context.Background(), w, r, first, min(count, r.n-first)); err != nil {
			s.failure.CompareAndSwap(nil, &err)
			return &slab{x: make([]float64, r.d), y: make([]float64, 1), norm: make([]float64, 1)}, 0
		}
		s.near.Store(w)
	}
	return &w.rec.slabs[0], i - w.first
}

// sum computes the sums of p, here or in a Remote, and compares the records with those of earlier
// passes.
func (s *source) sum(p *pass, threads int) error {
	n := p.data.n
	var fingerprint [2]uint64
	if remote, ok := s.Source.(Remote); ok {
		q, err := p.query.sealed(p.data.people)
		if err != nil {
			return sourceError(err)
		}
		sums, err := remote.Sum(p.ctx, q)
		if err == nil {
			err = sums.answers(q.q())
		}
		if err != nil {
			return sourceError(err)
		}
		n, fingerprint = int(sums.in.n), sums.in.fingerprint
		p.round(&p.query, &sums.in.total)
	} else {
		if err := p.rounded(threads); err != nil {
			return err
		}
		fingerprint = p.fingerprint
	}
	if n != p.data.n {
		return errOther
	}
	if p.ask&askPrint == 0 {
		return nil
	}
	return s.same(fingerprint)
}

// errOther is the error for records that differ between passes.
var errOther = fmt.Errorf("%w: the records are not those of the pass before: some were lost, counted twice or changed",
	ErrSource)

// same compares the fingerprint of all records with that of earlier passes.
func (s *source) same(fingerprint [2]uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known && fingerprint != s.fingerprint {
		return errOther
	}
	s.known, s.fingerprint = true, fingerprint
	return nil
}

// local hides the Sum method of a Remote: remote workers cannot run the function passed to Map.
type local struct{ Source }

// mapping is a function passed to Data.Map.
type mapping func(a []float64, b float64) (label float64, keep bool)

// mapped returns data to whose records m is applied at every read.
func (r *records) mapped(m mapping) *Data {
	d := newSource(r.n, r.d, r.bounds, &source{
		Source: local{r.src.Source}, each: append(slices.Clip(r.src.each), m), key: r.src.key, lines: r.src.lines,
		foreign: r.src.foreign,
	})
	d.r().people = r.people
	return d
}

// mappedInPlace is Map for records of persons in memory, which keep their order.
func (r *records) mappedInPlace(m mapping) *Data {
	out := &records{n: r.n, d: r.d, sparse: r.sparse, shift: r.shift, bounds: r.bounds, people: r.people}
	row, scratch := make([]float64, r.d), make([]float64, r.d)
	for i := range r.n {
		from, k := r.at(i)
		s := out.open(r.n - i)
		col, a := r.in(from, k)
		copy(row, r.row(i, scratch))
		label := from.y[k]
		if y, keep := m(row, label); keep {
			label = y
			s.col, s.x = append(s.col, col...), append(s.x, a...)
		} else {
			label = 0
			if !r.sparse {
				s.x = append(s.x, make([]float64, r.d)...)
			}
		}
		if out.sparse {
			s.ptr = append(s.ptr, len(s.x))
		}
		s.y = append(s.y, forceLabel(label, r.bounds.Label))
		s.w = append(s.w, from.w[k])
	}
	return canonical(out)
}

// sampleRows is the number of consecutive records in a sample.
const (
	sampleShift = 10
	sampleRows  = 1 << sampleShift
)

// Sample returns the objective over evenly spread records, weighted to approximate the whole. A
// solver may start from its minimizer; its certificates do not hold for the whole. ok is false if a
// sample saves nothing, because a pass is cheap or one pass is enough.
func (o *Objective) Sample() (sample *Objective, ok bool) {
	s := o.s()
	r := s.data
	if r.n < manyRecords || r.sparse || s.lsq != 0 {
		return nil, false
	}
	m := min(r.n/8, manyRecords/2) / sampleRows
	w := windows.Get().(*window)
	defer windows.Put(w)
	n := m * sampleRows
	slabs := make([]slab, m)
	for k := range m {
		first := k * (r.n / m)
		part := &slabs[k]
		from, at := r, first
		if r.src != nil {
			if v := r.src.view; v != nil && v.asTheyAre(first, first+sampleRows) {
				*part = v.slab(first, first+sampleRows)
				continue
			}
			if err := r.src.read(s.ctx, w, r, first, sampleRows); err != nil {
				s.fail(err)
				return nil, false
			}
			from, at = &w.rec, 0
		}
		part.x, part.y = make([]float64, 0, sampleRows*r.d), make([]float64, 0, sampleRows)
		part.norm = make([]float64, 0, sampleRows)
		for i := at; i < at+sampleRows; i++ {
			_, row := from.entries(i)
			part.x, part.y, part.norm = append(part.x, row...), append(part.y, from.label(i)), append(part.norm, from.norm(i))
			if r.people != nil {
				part.w = append(part.w, from.weight(i))
			}
		}
	}
	data := &records{n: n, d: r.d, shift: sampleShift, slabs: slabs, bounds: r.bounds, floatsOnce: n * r.d}
	c := &objective{
		costs: s.costs, ctx: s.ctx, data: data, consts: s.consts, reg: s.reg, set: s.set,
		weight: float64(r.n) / float64(n), threads: s.threads,
		linear: s.linear, center: s.center, diag: s.diag, quad: s.quad, minEig: s.least(), maxEig: s.most(),
		linearError: s.linearError, quadError: s.quadError,
	}
	c.scratch.New = buffers(r.d)
	return &Objective{func() *objective { return c }}, true
}

// Pad returns a source of dim features: those of src, then zeros. Losses of several classes need
// it: they take rows as long as θ, which has a block of features for each class of the label.
func Pad(src Source, dim int) Source {
	if src == nil {
		return nil // as Open reports
	}
	if _, d := src.Dims(); d >= dim {
		return src
	}
	if s, ok := src.(Identified); ok {
		return identified{padding{src, dim}, s}
	}
	return padding{src, dim}
}

// identified is padding of an Identified.
type identified struct {
	padding
	ids Identified
}

func (p identified) ReadIDs(ctx context.Context, ids []string, first int) error {
	return p.ids.ReadIDs(ctx, ids, first)
}

type padding struct {
	src Source
	dim int
}

func (p padding) Dims() (records, features int) { n, _ := p.src.Dims(); return n, p.dim }

func (p padding) Read(ctx context.Context, rows, labels []float64, first int) error {
	_, d := p.src.Dims()
	if err := p.src.Read(ctx, rows[:d*len(labels)], labels, first); err != nil {
		return err
	}
	for i := len(labels) - 1; i >= 0; i-- { // from the last row, so that none is overwritten before it moves
		row := rows[i*p.dim : (i+1)*p.dim]
		copy(row, rows[i*d:(i+1)*d])
		clear(row[d:])
	}
	return nil
}
