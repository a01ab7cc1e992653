// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package erm

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/loss"
)

// Weighting says how the lines of a person are weighted.
type Weighting int

const (
	// PersonsEqual gives each of the k lines of a person the weight 1/k: every person counts the same,
	// and a minimizer describes the average person.
	PersonsEqual Weighting = iota
	// LinesEqual gives every line the weight 1/Rows: a minimizer describes the average line.
	LinesEqual
)

// String returns the name of the weighting in a schema.
func (w Weighting) String() string {
	switch w {
	case PersonsEqual:
		return "persons"
	case LinesEqual:
		return "rows"
	}
	return fmt.Sprintf("Weighting(%d)", int(w))
}

// MaxRows is the largest Persons.Rows.
const MaxRows = 1024

// Persons makes a person, and not a line, the unit of privacy. Neighboring data sets then differ in
// all lines of one person.
//
// Of a person with more than Rows lines, only the Rows lines with the least hashes count, whatever
// their order. The hash is public: the first 128 bits of the SHA-256 of the id and of the line as
// forced into the bounds. Lines with equal hashes are equal. Lines without an id have weight 0 and
// count nowhere. The weights of a person add up to at most 1, so a person moves no sum over the
// records more than a single record may.
//
// Ids are compared byte by byte, by the first 128 bits of their SHA-256, after blanks around them
// are cut off; an id of nothing but blanks is none. The guarantee is about one id: somebody with
// two of them has twice the ε.
type Persons struct {
	Rows    int // m, the most lines of a person that count, 1 to MaxRows; public
	Weights Weighting
	// Column is the name of the column of ids, "" for none. Certificates name it: releases about
	// persons of different columns, such as patients and visits, do not add up.
	Column string
}

// Check returns an error wrapping [ErrData] unless p is valid.
func (p Persons) Check() error {
	switch {
	case p.Rows < 1 || p.Rows > MaxRows:
		return fmt.Errorf("%w: Persons.Rows = %d, want the most lines of a person that count, 1 to %d", ErrData, p.Rows,
			MaxRows)
	case p.Weights != PersonsEqual && p.Weights != LinesEqual:
		return fmt.Errorf("%w: Persons.Weights = %d, want PersonsEqual or LinesEqual", ErrData, int(p.Weights))
	}
	return nil
}

// OneID is the assumption of certificates over data by person.
const OneID dp.Assumption = "a person is one id: neighboring tables differ in the lines of one id, and somebody " +
	"whose lines have several ids is protected for each of them"

// weights returns the weights of a line by the number k of lines of its person that count: 0 for
// k = 0, else a multiple of 2⁻⁵² that is at most 1/k. So the weights of a person add up to at most
// 1, and every sum of them is exact in float64.
func (p Persons) weights(f *fault.Set) []float64 {
	w := make([]float64, p.Rows+1)
	for k := 1; k <= p.Rows; k++ {
		lines := k
		if p.Weights == LinesEqual {
			lines = p.Rows
		}
		w[k] = fault.At(f, fault.LineWeight, math.Ldexp(float64((1<<52)/lines), -52))
	}
	return w
}

// people says whose the records are.
type people struct {
	Persons
	count  int       // persons with an id
	who    []uint32  // the person of a record, counted from 0; empty if its lines are neighbors
	lines  []uint16  // how many records of that person count, 0 if this one does not; empty if records state it
	weight []float64 // Persons.weights
}

// weigh returns the weights of the records from first on, in w.
func (p *people) weigh(w []float64, first int) {
	for i := range w {
		w[i] = p.weight[p.lines[first+i]]
	}
}

// linesAt returns how many records of the person of record i count, and 1 without persons.
func (p *people) linesAt(i int) int {
	if p == nil {
		return 1
	}
	return int(p.lines[i])
}

// units returns the number of units of privacy, which is at least the sum of all weights.
func (r *records) units() int {
	if r.people != nil {
		return r.people.count
	}
	return r.n
}

// Persons returns how the lines of a person are taken together; ok is false if every record is a
// unit of its own.
func (d *Data) Persons() (p Persons, ok bool) {
	if r := d.records(); r.people != nil {
		return r.people.Persons, true
	}
	return Persons{}, false
}

// digest is the beginning of a SHA-256.
type digest [16]byte

// compare compares digests byte by byte, eight at a time.
func (d digest) compare(e digest) int {
	if c := cmp.Compare(binary.BigEndian.Uint64(d[:8]), binary.BigEndian.Uint64(e[:8])); c != 0 {
		return c
	}
	return cmp.Compare(binary.BigEndian.Uint64(d[8:]), binary.BigEndian.Uint64(e[8:]))
}

// digestOf returns the digest of an id, the zero digest for a missing one.
func digestOf(id string) digest {
	if id = strings.TrimSpace(id); id == "" {
		return digest{}
	}
	h := sha256.New()
	h.Write([]byte("privopt person\n"))
	h.Write([]byte(id))
	return digest(h.Sum(nil))
}

// lineDigest returns the digest of a record of the person id. buf is memory to use. Sparse and
// dense rows have the same digest, because entries that are 0 are left out.
func lineDigest(id digest, col []int32, x []float64, label float64, buf []byte) (digest, []byte) {
	buf = append(append(buf[:0], "privopt line\n"...), id[:]...)
	buf = binary.LittleEndian.AppendUint64(buf, math.Float64bits(label))
	for k, v := range x {
		if v == 0 {
			continue
		}
		j := uint32(k)
		if col != nil {
			j = uint32(col[k])
		}
		buf = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(buf, j), math.Float64bits(v))
	}
	sum := sha256.Sum256(buf)
	return digest(sum[:16]), buf
}

// owned is a record and the digest of the id of its person.
type owned struct {
	id    digest
	index int
}

// byPerson calls f with the records of every person in turn, in the order of ids, and returns the
// records that f returned, some of those that it was called with. id returns the id of record i,
// each time the same. Beside the ids byPerson needs 4 bytes of memory for each record: it sorts the
// records of some leading bits of the ids at a time.
func byPerson(n int, id func(i int) digest, f func(lines []owned) (kept []int)) []uint32 {
	const together = 4096
	shift := 64 - bits.Len(uint(n/together))
	leading := func(d digest) uint64 { return binary.BigEndian.Uint64(d[:8]) >> shift }
	end := make([]int, 1<<(64-shift)+1) // where the records of the next leading bits go
	for i := range n {
		if d := id(i); d != (digest{}) {
			end[leading(d)+1]++
		}
	}
	for k := range len(end) - 1 {
		end[k+1] += end[k]
	}
	list := make([]uint32, end[len(end)-1], n)
	for i := range n {
		if d := id(i); d != (digest{}) {
			k := leading(d)
			list[end[k]] = uint32(i)
			end[k]++
		}
	}
	var some []owned
	from, kept := 0, list[:0]
	for _, to := range end[:len(end)-1] {
		some = some[:0]
		for _, i := range list[from:to] {
			some = append(some, owned{id(int(i)), int(i)})
		}
		from = to
		slices.SortFunc(some, func(a, b owned) int { return cmp.Or(a.id.compare(b.id), cmp.Compare(a.index, b.index)) })
		for lo := 0; lo < len(some); {
			hi := lo + 1
			for hi < len(some) && some[hi].id == some[lo].id {
				hi++
			}
			for _, i := range f(some[lo:hi]) {
				kept = append(kept, uint32(i))
			}
			lo = hi
		}
	}
	return kept
}

// errMany refuses data whose records have no 32-bit numbers.
var errMany = fmt.Errorf("%w: more than 2³² records by person", ErrData)

// keep returns which of the records of a person count, those with the least digests first.
func (p Persons) keep(f *fault.Set, lines []owned, digests []digest) []int {
	order := make([]int, len(lines))
	for k := range order {
		order[k] = k
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(digests[a].compare(digests[b]), cmp.Compare(lines[a].index, lines[b].index))
	})
	for k, v := range order {
		order[k] = lines[v].index
	}
	order = fault.At(f, fault.LineOrder, order)
	return order[:min(len(order), p.Rows)]
}

// ID says whose the record is that was added last. A record without an id, or with one of nothing
// but blanks, is nobody's: data by person leave it out, other data take no notice of ids.
func (b *Builder) ID(id string) {
	in := b.in
	if in.n == 0 {
		panic(badIndex)
	}
	k := (in.n - 1) / idsTogether
	for len(in.ids) <= k {
		in.ids = append(in.ids, make([]digest, idsTogether))
	}
	in.ids[k][(in.n-1)%idsTogether] = digestOf(id)
}

// idsTogether is the number of ids in a piece of building.ids.
const idsTogether = 1 << 12

// ByPerson returns the records added as data of persons, see [Persons]. The records of a person are
// neighbors in its canonical order, which is that of hashes of ids and lines. The Builder must not
// be used after that. Beside the records it needs up to 24 bytes of memory for each, and keeps 10.
//
// It returns an error wrapping [ErrData] if p is not valid. No error depends on a record or an id.
func (b *Builder) ByPerson(ctx context.Context, p Persons) (*Data, error) {
	if err := p.checkContext(ctx); err != nil {
		return nil, err
	}
	r, ids := &b.in.records, b.in.ids
	b.in.ids, b.in = nil, nil // r is a part of b.in
	if int64(r.n) > math.MaxUint32 {
		return nil, errMany
	}
	id := func(i int) digest {
		if k := i / idsTogether; k < len(ids) {
			return ids[k][i%idsTogether]
		}
		return digest{}
	}
	who := &people{Persons: p}
	f := fault.From(ctx)
	who.weight = p.weights(f)
	if r.sparse {
		stored := func(i int, c []int32, x []float64) ([]int32, []float64, float64) {
			col, a := r.entries(i)
			return append(c, col...), append(x, a...), r.label(i)
		}
		r = sparseInOrder(r.n, r.d, r.floats(), r.bounds, stored, func(forced sparseReader) (int, func(k int) int) {
			var col []int32
			var x []float64
			kept := who.arrange(f, r.n, id, func(i int, id digest, buf []byte) (digest, []byte) {
				var label float64
				col, x, label = forced(i, col, x)
				return lineDigest(id, col, x, label, buf)
			})
			return len(kept), func(k int) int { return int(kept[k]) }
		})
	} else {
		order := who.arrange(f, r.n, id, func(i int, id digest, buf []byte) (digest, []byte) {
			_, x := r.entries(i)
			return lineDigest(id, nil, x, r.label(i), buf)
		})
		ids = nil // memory for weights and norms
		r.take(order)
	}
	r.people = who
	for at, i := 0, 0; i < len(r.slabs); i++ {
		s := &r.slabs[i]
		s.w = make([]float64, len(s.y))
		who.weigh(s.w, at)
		at += len(s.w)
	}
	return canonical(r), nil
}

func (p Persons) checkContext(ctx context.Context) error {
	if ctx == nil {
		return fmt.Errorf("%w: ctx is nil, want one such as context.Background()", ErrSource)
	}
	return p.Check()
}

// arrange sets whose the records are that count and returns these in canonical order.
func (p *people) arrange(
	f *fault.Set, n int, id func(i int) digest, line func(i int, id digest, buf []byte) (digest, []byte),
) (order []uint32) {
	var digests []digest
	var buf []byte
	p.lines = make([]uint16, 0, n)
	order = byPerson(n, id, func(lines []owned) []int {
		digests = digests[:0]
		for _, l := range lines {
			var d digest
			if len(lines) > 1 {
				d, buf = line(l.index, l.id, buf)
			}
			digests = append(digests, d)
		}
		kept := p.keep(f, lines, digests)
		for range kept {
			p.lines = append(p.lines, uint16(len(kept)))
		}
		p.count++
		return kept
	})
	p.lines = fit(p.lines)
	return order
}

// take keeps the dense records order, in this order.
func (r *records) take(order []uint32) {
	kept := len(order)
	if kept < r.n {
		rest := make([]bool, r.n)
		for _, i := range order {
			rest[i] = true
		}
		for i, in := range rest {
			if !in {
				order = append(order, uint32(i))
			}
		}
	}
	r.permute(r.n, func(k int) int { return int(order[k]) })
	r.n = kept
	r.slabs = r.slabs[:(kept+1<<r.shift-1)>>r.shift]
	if last := len(r.slabs) - 1; last >= 0 {
		s, m := &r.slabs[last], kept-last<<r.shift
		s.x, s.y = s.x[:m*r.d], s.y[:m]
	}
}

// Identified is a [Source] that knows whose its records are.
type Identified interface {
	Source
	// ReadIDs stores the ids of records first, …, first+len(ids)−1 in ids, "" for none. It gives the
	// same ids each time, or an error that contains none of them.
	ReadIDs(ctx context.Context, ids []string, first int) error
}

// OpenByPerson is [Open] for data of persons, see [Persons]. It reads the ids once and the lines of
// persons with more than Rows lines once, and keeps 6 bytes of memory for each record; meanwhile it
// needs 20 for each record, and 24 more for each line of such a person. The source must keep every
// record with its id: passes compare the records and not the ids. A [Remote] is refused, and so are
// more than 2³² records.
func OpenByPerson(ctx context.Context, src Identified, b loss.Bounds, p Persons) (*Data, error) {
	if err := p.checkContext(ctx); err != nil {
		return nil, err
	}
	if src == nil {
		return nil, fmt.Errorf("%w: the source is nil", ErrData)
	}
	if _, remote := src.(Remote); remote {
		return nil, fmt.Errorf("%w: records that other machines add up come without ids: want them in the order of "+
			"CanonicalByPerson, for OpenCanonical", ErrData)
	}
	data, err := Open(src, b)
	if err != nil {
		return nil, err
	}
	r := data.r()
	if int64(r.n) > math.MaxUint32 {
		return nil, errMany
	}
	who := &people{Persons: p, who: make([]uint32, r.n), lines: make([]uint16, r.n)}
	f := fault.From(ctx)
	who.weight = p.weights(f)
	if err := who.read(ctx, f, src, r); err != nil {
		return nil, err
	}
	r.people = who
	return data, nil
}

// readIDs returns the ids of the records of src.
func readIDs(ctx context.Context, src Identified, n int) ([]digest, error) {
	list := make([]digest, n)
	ids := make([]string, min(Chunk, n))
	for at := 0; at < n; at += len(ids) {
		ids = ids[:min(Chunk, n-at)]
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := src.ReadIDs(ctx, ids, at); err != nil {
			return nil, sourceError(err)
		}
		for k, id := range ids {
			list[at+k] = digestOf(id)
		}
	}
	return list, nil
}

// read sets whose the records of src are.
func (p *people) read(ctx context.Context, f *fault.Set, src Identified, r *records) error {
	ids, err := readIDs(ctx, src, r.n)
	if err != nil {
		return err
	}
	id := func(i int) digest { return ids[i] }
	var many []owned // records of persons with more than Rows
	byPerson(r.n, id, func(lines []owned) []int {
		if len(lines) > p.Rows {
			many = append(many, lines...)
		}
		return nil
	})
	slices.SortFunc(many, byIndex)
	if err := digestLines(ctx, r, many); err != nil {
		return err
	}
	var digests []digest
	byPerson(r.n, id, func(lines []owned) []int {
		digests = append(digests[:0], make([]digest, len(lines))...)
		if len(lines) > p.Rows {
			for k, l := range lines {
				at, _ := slices.BinarySearchFunc(many, l.index, func(o owned, i int) int { return cmp.Compare(o.index, i) })
				digests[k] = many[at].id
			}
		}
		kept := p.keep(f, lines, digests)
		for _, i := range kept {
			p.who[i], p.lines[i] = uint32(p.count), uint16(len(kept))
		}
		p.count++
		return nil
	})
	return nil
}

// digestLines replaces the ids of the records many, in the order of r, by the digests of the lines.
func digestLines(ctx context.Context, r *records, many []owned) error {
	w := windows.Get().(*window)
	defer windows.Put(w)
	var buf []byte
	for len(many) > 0 {
		rows := readRows(r.d)
		first := many[0].index - many[0].index%rows
		if err := r.src.read(ctx, w, r, first, min(rows, r.n-first)); err != nil {
			return err
		}
		for len(many) > 0 && many[0].index < first+w.rec.n {
			o, i := &many[0], many[0].index-first
			o.id, buf = lineDigest(o.id, nil, w.rec.row(i, nil), w.rec.label(i), buf)
			many = many[1:]
		}
	}
	return nil
}

// EachPerson calls f with v = Σᵢ wᵢvᵢ for every person in turn, its weights wᵢ and a vector vᵢ of
// dim numbers that add adds, times w, to dst for the record (a, b). If the norm of v exceeds most,
// v is scaled to it. f must not keep v. Without persons every record is a person of weight 1.
//
// Memory is that of one vector if the lines of a person are neighbors, as in memory; else that of a
// vector for every person of whom some lines are still to come. The error is that of [Data.Each].
func (d *Data) EachPerson(
	ctx context.Context, dim int, most float64, add func(dst []float64, w float64, a []float64, b float64),
	f func(v []float64),
) error {
	p := d.records().people
	faults := fault.From(ctx)
	open := map[uint32]*gathered{}
	var spare []*gathered
	i := -1
	return d.each(ctx, func(a []float64, b, w float64, left int) {
		i++
		who := uint32(0)
		if p != nil && len(p.who) > 0 {
			who = p.who[i]
		}
		if left == 0 {
			return
		}
		g := open[who]
		if g == nil {
			if n := len(spare); n > 0 {
				g, spare = spare[n-1], spare[:n-1]
			} else {
				g = &gathered{v: make([]float64, dim)}
			}
			clear(g.v)
			g.left, g.longest = left, 0
			if left > 1 {
				open[who] = g
			}
		}
		if faults != nil {
			g.watch(add, a, b)
		}
		add(g.v, w, a, b)
		if g.left--; g.left == 0 {
			g.clamp(faults, most)
			f(g.v)
			delete(open, who)
			spare = append(spare, g)
		}
	})
}

// gathered is a sum over the lines of a person.
type gathered struct {
	v       []float64
	left    int     // lines to come
	longest float64 // the norm of the longest vector of a line, for audits
}

func (g *gathered) watch(add func(dst []float64, w float64, a []float64, b float64), a []float64, b float64) {
	one := make([]float64, len(g.v))
	add(one, 1, a, b)
	g.longest = max(g.longest, norm(one))
}

// clamp scales v to a norm of at most most. A second factor makes up for the rounding of the first.
func (g *gathered) clamp(f *fault.Set, most float64) {
	size := norm(g.v)
	if f != nil {
		size = fault.At(f, fault.PersonNorm, [2]float64{size, g.longest})[0]
	}
	if size <= most {
		return
	}
	if math.IsInf(size, 1) || math.IsNaN(size) {
		clear(g.v)
		return
	}
	scale := most / size * (1 - 0x1p-50)
	for j := range g.v {
		g.v[j] *= scale
	}
}

// norm returns ‖v‖₂, rounded up.
func norm(v []float64) float64 { return raised(floats.Norm(v, 2), len(v)) }
