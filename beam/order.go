// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package beam

import (
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/table"
	"github.com/privopt/privopt/table/npy"
	"github.com/privopt/privopt/table/parquet"
)

func init() {
	register.DoFn3x1[context.Context, int, func(int, []byte), error](&encodeSplit{})
	register.DoFn3x0[int, []byte, func(int, []byte)](&lane{})
	register.DoFn3x2[context.Context, int, func(*[]byte) bool, []byte, error](&orderBucket{})
	register.DoFn2x1[int, func(*[]byte) bool, error](&writeTallies{})
	register.Emitter2[int, []byte]()
	register.Iter1[[]byte]()
}

// lines are encoded lines, an erm.Identified, one behind the other in bytes:
//
//	length of the id, id, label, number of entries, their columns and values
//
// It stores no zeros. Without pointers, it costs the garbage collector nothing.
type lines struct {
	Dim  int
	Data []byte
	at   []int // where each line begins in Data

	col []int32 // of the line that was read last
	val []float64
}

// add appends a line.
func (l *lines) add(id string, col []int32, val []float64, label float64) {
	l.at = append(l.at, len(l.Data))
	n := 0
	for _, v := range val {
		if v != 0 {
			n++
		}
	}
	b := append(binary.AppendUvarint(l.Data, uint64(len(id))), id...)
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(label))
	b = binary.AppendUvarint(b, uint64(n))
	for i, v := range val {
		if v != 0 {
			b = binary.LittleEndian.AppendUint64(binary.AppendUvarint(b, uint64(col[i])), math.Float64bits(v))
		}
	}
	l.Data = b
}

// clear removes all lines.
func (l *lines) clear() { l.Data, l.at = l.Data[:0], l.at[:0] }

// id returns the id of line i, and the rest of the line.
func (l *lines) id(i int) (id, rest []byte) {
	n, k := binary.Uvarint(l.Data[l.at[i]:])
	from := l.at[i] + k
	return l.Data[from : from+int(n)], l.Data[from+int(n):]
}

// entries returns line i, until the next call, and how long the line is.
func (l *lines) entries(i int) (id []byte, col []int32, val []float64, label float64, length int) {
	id, b := l.id(i)
	label = math.Float64frombits(binary.LittleEndian.Uint64(b))
	n, k := binary.Uvarint(b[8:])
	b = b[8+k:]
	l.col, l.val = l.col[:0], l.val[:0]
	for range n {
		j, k := binary.Uvarint(b)
		l.col = append(l.col, int32(j))
		l.val = append(l.val, math.Float64frombits(binary.LittleEndian.Uint64(b[k:])))
		b = b[k+8:]
	}
	return id, l.col, l.val, label, len(l.Data) - len(b) - l.at[i]
}

// line returns the bytes of line i.
func (l *lines) line(i int) []byte {
	end := len(l.Data)
	if i+1 < len(l.at) {
		end = l.at[i+1]
	}
	return l.Data[l.at[i]:end]
}

// keep appends a line of other lines.
func (l *lines) keep(line []byte) {
	l.at, l.Data = append(l.at, len(l.Data)), append(l.Data, line...)
}

// Dims implements erm.Source.
func (l *lines) Dims() (records, features int) { return len(l.at), l.Dim }

// Read implements erm.Source.
func (l *lines) Read(_ context.Context, rows, labels []float64, first int) error {
	clear(rows)
	for i := range labels {
		_, col, val, label, _ := l.entries(first + i)
		for k, j := range col {
			rows[i*l.Dim+int(j)] = val[k]
		}
		labels[i] = label
	}
	return nil
}

// ReadIDs implements erm.Identified.
func (l *lines) ReadIDs(_ context.Context, ids []string, first int) error {
	for i := range ids {
		id, _ := l.id(first + i)
		ids[i] = string(id)
	}
	return nil
}

// order returns the canonical order of the lines that count, and for persons the numbers of lines.
func (l *lines) order(ctx context.Context, e *table.Encoder) (order, counts []int, err error) {
	if p, ok := e.Persons(); ok {
		return erm.CanonicalByPerson(ctx, l, e.Bounds(), p)
	}
	order, err = erm.Canonical(ctx, l, e.Bounds())
	return order, nil, err
}

// prune removes lines that cannot count because l holds as many of that person that come before
// them, if they are half of all lines. So nobody with many lines fills a bucket.
func (l *lines) prune(ctx context.Context, e *table.Encoder) error {
	p, ok := e.Persons()
	if !ok {
		return nil
	}
	surplus, seen := 0, map[string]int{}
	for i := range l.at {
		id, _ := l.id(i)
		if seen[string(id)]++; seen[string(id)] > p.Rows {
			surplus++
		}
	}
	if 2*surplus < len(l.at) {
		return nil
	}
	order, _, err := l.order(ctx, e)
	if err != nil {
		return err
	}
	kept := lines{Dim: l.Dim}
	for _, i := range order {
		kept.keep(l.line(i))
	}
	*l = kept
	return nil
}

// block holds lines of one split that belong to one bucket. Number counts the blocks of
// that split for that bucket. Run is a random name of the reading of the split.
type block struct {
	Split, Bucket, Number int
	Run                   uint64
	Lines                 lines
}

// place is a message: where the sealed block of a split stands, in its file of that reading.
type place struct {
	split int
	run   uint64
	from  int64
	size  int
}

// bytes returns p in a fixed number of bytes, which say nothing about it once they are sealed.
func (p place) bytes() []byte {
	b := make([]byte, 0, 32)
	for _, v := range []uint64{uint64(p.split), p.run, uint64(p.from), uint64(p.size)} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

// blocksFile is the name of the file of the blocks of a split, in the folder of the attempt.
func blocksFile(split int, run uint64) string { return fmt.Sprintf("split-%05d-%016x", split, run) }

// reader reads blocks. It keeps the last file open.
type reader struct {
	dir, name string
	file      *os.File
}

// block returns the block at the place of a sealed message.
func (r *reader) block(e *encoding, message []byte) (b block, err error) {
	var at []byte
	if err := e.unseal(message, &at); err != nil {
		return b, err
	}
	if len(at) != 32 {
		return b, errVersion
	}
	word := func(k int) uint64 { return binary.LittleEndian.Uint64(at[8*k:]) }
	if name := blocksFile(int(word(0)), word(1)); name != r.name {
		r.close()
		if r.file, err = os.Open(filepath.Join(r.dir, name)); err != nil {
			return b, err
		}
		r.name = name
	}
	sealed := make([]byte, word(3))
	if _, err := r.file.ReadAt(sealed, int64(word(2))); err != nil {
		return b, err
	}
	return b, e.unseal(sealed, &b)
}

func (r *reader) close() {
	if r.file != nil {
		r.file.Close()
	}
	r.name, r.file = "", nil
}

// encodeSplit encodes splits. Only its exported field is part of the pipeline.
type encodeSplit struct{ Ticket ticket }

// refused begins the errors about lines and files that every other attempt would meet again.
const refused = "the table is refused: "

// ProcessElement writes the sealed blocks of a split to a file and emits their places with the
// numbers of their buckets, and its tally in a bucket after the last.
func (f *encodeSplit) ProcessElement(ctx context.Context, i int, emit func(int, []byte)) error {
	return protect("encoding", func() error {
		e, encoder, err := f.Ticket.loadEncoding()
		if err != nil {
			return err
		}
		if i < 0 || i >= len(e.Splits) {
			return fmt.Errorf("there are %d parts of files", len(e.Splits))
		}
		err = e.encode(ctx, encoder, i, filepath.Dir(f.Ticket.File), emit)
		for _, kind := range []error{table.ErrTable, parquet.ErrFile, parquet.ErrOptions, gzip.ErrHeader} {
			if errors.Is(err, kind) {
				return fmt.Errorf(refused+"%s: %w", e.place(i), err)
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", e.place(i), err)
		}
		return nil
	})
}

// encode writes the blocks of split i to a file in dir and emits their places.
func (e *encoding) encode(
	ctx context.Context, encoder *table.Encoder, i int, dir string, emit func(int, []byte),
) error {
	in, err := e.open(ctx, i, encoder.Schema())
	if err != nil {
		return err
	}
	defer in.close()
	rows, err := encoder.Rows(in, in.Options)
	if err != nil {
		return err
	}
	d := len(encoder.Features())
	to, err := e.router(encoder)
	if err != nil {
		return err
	}
	random := make([]byte, 8)
	rand.Read(random)
	run := binary.LittleEndian.Uint64(random)
	file, err := os.OpenFile(filepath.Join(dir, blocksFile(i, run)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	blocks, sent := make([]lines, e.Buckets), make([]int, e.Buckets)
	at := int64(0)
	send := func(k int) error {
		sealed, err := e.seal(&block{i, k, sent[k], run, blocks[k]})
		if err != nil {
			return err
		}
		message, err := e.seal(place{i, run, at, len(sealed)}.bytes())
		if err != nil {
			return err
		}
		if _, err := file.Write(sealed); err != nil {
			return err
		}
		emit(k, message)
		at += int64(len(sealed))
		sent[k]++
		blocks[k].clear()
		return nil
	}
	for rows.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		col, val := rows.Row()
		id, label := "", rows.Label()
		if to.persons {
			id = rows.ID()
		}
		k, counts := to.bucket(id, col, val, label)
		if !counts {
			continue
		}
		b := &blocks[k]
		b.Dim = d
		b.add(id, col, val, label)
		if len(b.Data) < blockBytes {
			continue
		}
		if err := b.prune(ctx, encoder); err != nil {
			return err
		}
		if 2*len(b.Data) > blockBytes {
			if err := send(k); err != nil {
				return err
			}
		}
	}
	if err := errors.Join(rows.Err(), in.unchanged(ctx)); err != nil {
		return err
	}
	for k := range blocks {
		if len(blocks[k].at) > 0 {
			if err := send(k); err != nil {
				return err
			}
		}
	}
	if err := file.Close(); err != nil {
		return err
	}
	sealed, err := e.seal([]tally{{Split: i, Bucket: -1, Blocks: sent, Runs: []uint64{run}, Start: in.start, End: in.end}})
	if err == nil {
		emit(e.Buckets, sealed)
	}
	return err
}

// router tells to which bucket a line belongs.
type router struct {
	ranker  *erm.Ranker
	persons bool
	buckets int
	row     []float64
}

func (e *encoding) router(encoder *table.Encoder) (*router, error) {
	d := len(encoder.Features())
	ranker, err := erm.NewRanker(d, encoder.Bounds())
	_, persons := encoder.Persons()
	return &router{ranker, persons, e.Buckets, make([]float64, d)}, err
}

// bucket returns the bucket of a line; counts is false for a line of nobody.
func (r *router) bucket(id string, col []int32, val []float64, label float64) (k int, counts bool) {
	rank, counts := uint64(0), true
	if r.persons {
		rank, counts = r.ranker.Person(id)
	} else {
		clear(r.row)
		for i, j := range col {
			r.row[j] = val[i]
		}
		rank = r.ranker.Record(r.row, label)
	}
	return int(rank >> 32 * uint64(r.buckets) >> 32), counts
}

// lane takes the places of the buckets whose number is Index modulo Lanes.
type lane struct{ Index, Lanes int }

// ProcessElement emits the place if its bucket is one of the lane's.
func (l *lane) ProcessElement(bucket int, place []byte, emit func(int, []byte)) {
	if bucket%l.Lanes == l.Index {
		emit(bucket, place)
	}
}

// orderBucket puts the lines of buckets in order.
type orderBucket struct{ Ticket ticket }

// busy bounds the buckets that a worker holds in memory.
var busy = make(chan struct{}, runtime.GOMAXPROCS(0))

// ProcessElement writes the file of a bucket and returns its sealed tally, or passes on those of
// all splits as one.
func (o *orderBucket) ProcessElement(
	ctx context.Context, bucket int, next func(*[]byte) bool,
) (sealed []byte, err error) {
	err = protect(fmt.Sprintf("bucket %d", bucket), func() error {
		e, encoder, err := o.Ticket.loadEncoding()
		if err != nil {
			return err
		}
		var made []tally
		if bucket == e.Buckets {
			var message []byte
			for next(&message) {
				var some []tally
				if err := e.unseal(message, &some); err != nil {
					return err
				}
				made = append(made, some...)
			}
		} else {
			busy <- struct{}{}
			defer func() { <-busy }()
			t, l, err := e.gather(ctx, encoder, bucket, filepath.Dir(o.Ticket.File), next)
			if err != nil {
				return err
			}
			if err := l.write(ctx, e, encoder, t, filepath.Dir(o.Ticket.File)); err != nil {
				return err
			}
			made = []tally{*t}
		}
		sealed, err = e.seal(made)
		return err
	})
	return sealed, err
}

// gather returns the lines of a bucket. It refuses a block that comes twice, also from another
// reading of its split, and a line of another bucket.
func (e *encoding) gather(
	ctx context.Context, encoder *table.Encoder, bucket int, dir string, next func(*[]byte) bool,
) (*tally, *lines, error) {
	to, err := e.router(encoder)
	if err != nil {
		return nil, nil, err
	}
	n := len(e.Splits)
	t := &tally{Split: -1, Bucket: bucket, Blocks: make([]int, n), Runs: make([]uint64, n)}
	l := &lines{Dim: len(to.row)}
	got := map[[2]int]bool{}
	from := &reader{dir: dir}
	defer from.close()
	var message []byte
	for most := 4 * bucketBytes; next(&message); {
		b, err := from.block(e, message)
		if err != nil {
			return nil, nil, err
		}
		i := b.Split
		switch {
		case b.Bucket != bucket || i < 0 || i >= n:
			return nil, nil, errors.New("a block of another bucket")
		case got[[2]int{i, b.Number}] || t.Blocks[i] > 0 && t.Runs[i] != b.Run:
			return nil, nil, errors.New("a block came twice")
		}
		got[[2]int{i, b.Number}] = true
		t.Blocks[i]++
		t.Runs[i] = b.Run
		for some := &b.Lines; len(some.Data) > 0; {
			some.at = append(some.at[:0], 0)
			id, col, val, label, length := some.entries(0)
			if k, counts := to.bucket(string(id), col, val, label); k != bucket || !counts {
				return nil, nil, errors.New("a line is of another bucket")
			}
			l.keep(some.Data[:length])
			some.Data = some.Data[length:]
		}
		if len(l.Data) > most {
			if err := l.prune(ctx, encoder); err != nil {
				return nil, nil, err
			}
			most = max(most, 2*len(l.Data))
		}
	}
	return t, l, nil
}

// write writes the lines that count, in canonical order, and completes the tally.
func (l *lines) write(ctx context.Context, e *encoding, encoder *table.Encoder, t *tally, dir string) error {
	order, counts, err := l.order(ctx, encoder)
	if err != nil {
		return err
	}
	random := make([]byte, 8)
	rand.Read(random) // a bundle that is repeated writes another file
	t.Path = fmt.Sprintf("part-%05d-%s.npy", t.Bucket, hex.EncodeToString(random))
	w, err := npy.Create(filepath.Join(dir, t.Path), e.Columns, npy.Options{Schema: e.Hash})
	if err != nil {
		return err
	}
	defer w.Close()
	row, left := make([]float64, len(e.Columns)-1), 0
	features := row[len(row)-l.Dim:]
	for k, i := range order {
		_, col, val, label, _ := l.entries(i)
		clear(row)
		for c, j := range col {
			features[j] = val[c]
		}
		if counts != nil {
			row[0] = float64(counts[k])
			if left == 0 {
				t.Persons, left = t.Persons+1, counts[k]
			}
			left--
		}
		if err := w.Append(row, label); err != nil {
			return err
		}
	}
	if err := w.Commit(); err != nil {
		return err
	}
	f, err := npy.Open(filepath.Join(dir, t.Path))
	if err != nil {
		return err
	}
	defer f.Close()
	t.Checksum, t.Records = f.Checksum(), len(order)
	return nil
}
