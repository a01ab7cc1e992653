// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package beam

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/gob"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"

	sdk "github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/wholefile"
	"github.com/privopt/privopt/table"
	"github.com/privopt/privopt/table/npy"
)

func init() {
	register.DoFn3x1[context.Context, int, func(int, []byte), error](&encodeFile{})
	register.DoFn3x2[context.Context, int, func(*[]byte) bool, []byte, error](&orderBucket{})
	register.DoFn2x1[int, func(*[]byte) bool, error](&writeTallies{})
	register.Emitter2[int, []byte]()
	register.Iter1[[]byte]()
}

// Table is a table in CSV files that workers read and encode.
type Table struct {
	Paths   []string      // the driver and all workers see the files under these names
	Schema  *table.Schema // of the files
	Columns []string      // of the encoded rows; the label is the last one
	Hash    string        // of the encoding, for the sidecars
}

// bucketBytes is about the size of the CSV text whose records one worker puts in order at a time.
const (
	bucketBytes = 32 << 20
	maxBuckets  = 1024
	blockBytes  = 64 << 10
)

// Encode runs one job in which workers read the files of t, encode their lines, group the lines of
// persons and write the encoded rows, in the order of privopt pack --canonical, to files in a
// folder of o.Scratch. It returns a Source of these files, whose Close removes them. So the driver
// reads no line of the table, and sums have the bits of one machine.
//
//	files → encode → (bucket, sealed lines) → GroupByKey → order → files
//
// A bucket is a range of the ranks of records or of ids, see erm.Ranker, so that its lines of a
// person are all lines of that person. What travels is sealed with a key of the attempt; the engine
// sees the numbers of buckets and the sizes of blocks. A job that fails is repeated twice, in
// another folder with another key. Every file must be read once, and every block must arrive once.
//
// Certificates of fits over the Source list erm.TrustedEncoding. The error wraps ErrOptions, or
// erm.ErrSource for jobs that failed; nothing has been released then.
func Encode(ctx context.Context, t Table, o Options) (*Source, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	if t.Schema == nil || len(t.Paths) == 0 || len(t.Columns) < 2 {
		return nil, fmt.Errorf("%w: a Table with %d Paths and %d Columns, want both and a Schema", ErrOptions, len(t.Paths),
			len(t.Columns))
	}
	e := encoding{Columns: t.Columns, Hash: t.Hash}
	if err := distinct(t.Paths); err != nil {
		return nil, err
	}
	size := int64(0)
	for _, path := range t.Paths {
		if path, err = filepath.Abs(path); err != nil {
			return nil, fmt.Errorf("beam: %w", err)
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("beam: %w", err)
		}
		if !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%w: %s is no regular file, which workers could not read again", ErrOptions, path)
		}
		size += info.Size()
		e.Paths, e.Sizes = append(e.Paths, path), append(e.Sizes, info.Size())
	}
	e.Buckets = int(min(max(size/bucketBytes+1, 4), maxBuckets))
	if o.Timeout == 0 {
		o.Timeout = patience(int(size/8), 0)
	}
	var text bytes.Buffer
	if _, err := t.Schema.WriteTo(&text); err != nil {
		return nil, fmt.Errorf("beam: %w", err)
	}
	e.Schema = text.Bytes()
	claim(o.Runner)
	for range attempts {
		var s *Source
		if s, err = e.attempt(ctx, o); err == nil {
			return s, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%w: beam: %w", erm.ErrSource, ctx.Err())
		}
	}
	return nil, fmt.Errorf("%w: beam: encoding the table failed %d times, at last with: %w", erm.ErrSource, attempts, err)
}

// encoding is the task of an attempt. It is secret.
type encoding struct {
	Pass    string
	Key     []byte
	Paths   []string
	Sizes   []int64
	Schema  []byte
	Columns []string
	Hash    string
	Buckets int
}

// attempt runs the job once, in a folder of its own.
func (e encoding) attempt(ctx context.Context, o Options) (_ *Source, err error) {
	random := make([]byte, 48)
	rand.Read(random) // never fails
	e.Pass, e.Key = hex.EncodeToString(random[:16]), random[16:]
	dir := filepath.Join(o.Scratch, "privopt-"+e.Pass)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("Options.Scratch: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, wholefile.Discard(dir))
		}
	}()
	t := ticket{File: filepath.Join(dir, taskFile), Pass: e.Pass}
	if err := e.save(t); err != nil {
		return nil, err
	}
	if err := wait(ctx, o, encodePipeline(t, len(e.Paths))); err != nil {
		return nil, err
	}
	tallies, err := e.tallies(dir)
	if err != nil {
		return nil, err
	}
	paths, err := e.check(tallies, dir)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(t.File); err != nil { // without the key, what the engine stored cannot be read
		return nil, err
	}
	o.Label, o.Features = "", nil
	s, err := NewSource(ctx, paths, o)
	if err != nil {
		return nil, err
	}
	s.folder = dir
	return s, nil
}

// encodePipeline is the job of an attempt, a function of the ticket and the number of files.
func encodePipeline(t ticket, files int) *sdk.Pipeline {
	p, s := sdk.NewPipelineWithRoot()
	numbers := make([]int, files)
	for i := range numbers {
		numbers[i] = i
	}
	blocks := sdk.ParDo(s, &encodeFile{Ticket: t}, sdk.Reshuffle(s, sdk.CreateList(s, numbers)))
	tallies := sdk.ParDo(s, &orderBucket{Ticket: t}, sdk.GroupByKey(s, blocks))
	sdk.ParDo0(s, &writeTallies{Ticket: t}, sdk.GroupByKey(s, sdk.AddFixedKey(s, tallies)))
	return p
}

// block holds lines of one file that belong to one bucket. Number counts the blocks of that file
// for that bucket.
type block struct {
	File, Bucket, Number int
	IDs                  []string  // nil without persons
	Numbers              []float64 // rows with their labels
}

// tally says what became of a file or of a bucket.
type tally struct {
	File, Bucket int   // −1 for none
	Blocks       []int // of a file: for each bucket; of a bucket: of each file
	Path         string
	Checksum     string
	Records      int
}

// encodeFile encodes files. Only its exported field is part of the pipeline.
type encodeFile struct{ Ticket ticket }

// ProcessElement emits the sealed blocks of a file with the numbers of their buckets, and its tally
// in a bucket after the last.
func (f *encodeFile) ProcessElement(ctx context.Context, file int, emit func(int, []byte)) error {
	return protect(fmt.Sprintf("file %d", file+1), func() error {
		e, encoder, err := f.Ticket.loadEncoding()
		if err != nil {
			return err
		}
		if file < 0 || file >= len(e.Paths) {
			return fmt.Errorf("there are %d files", len(e.Paths))
		}
		in, err := os.Open(e.Paths[file])
		if err != nil {
			return err
		}
		defer in.Close()
		if info, err := in.Stat(); err != nil || info.Size() != e.Sizes[file] {
			return errors.New("its size is not that of the driver's file: want the same file")
		}
		text := io.Reader(in)
		if filepath.Ext(e.Paths[file]) == ".gz" { // by its name: the first bytes of a table may be those of a record
			if text, err = gzip.NewReader(in); err != nil {
				return err
			}
		}
		rows, err := encoder.Rows(text, table.Options{})
		if err != nil {
			return err
		}
		d := len(encoder.Features())
		ranker, err := erm.NewRanker(d, encoder.Bounds())
		if err != nil {
			return err
		}
		_, persons := encoder.Persons()
		open, sent := make([]block, e.Buckets), make([]int, e.Buckets)
		send := func(k int) error {
			b := &open[k]
			b.File, b.Bucket = file, k
			b.Number = sent[k]
			sent[k]++
			sealed, err := e.seal(b)
			if err == nil {
				emit(k, sealed)
			}
			b.IDs, b.Numbers = b.IDs[:0], b.Numbers[:0]
			return err
		}
		row := make([]float64, d)
		for rows.Next() {
			if err := ctx.Err(); err != nil {
				return err
			}
			clear(row)
			col, val := rows.Row()
			for i, j := range col {
				row[j] = val[i]
			}
			k, counts := e.bucket(ranker, persons, rows.ID(), row, rows.Label())
			if !counts {
				continue
			}
			b := &open[k]
			b.Numbers = append(append(b.Numbers, row...), rows.Label())
			if persons {
				b.IDs = append(b.IDs, rows.ID())
			}
			if 8*len(b.Numbers) >= blockBytes {
				if err := send(k); err != nil {
					return err
				}
			}
		}
		if err := rows.Err(); err != nil {
			return err
		}
		for k := range open {
			if len(open[k].Numbers) > 0 {
				if err := send(k); err != nil {
					return err
				}
			}
		}
		sealed, err := e.seal(&tally{File: file, Bucket: -1, Blocks: sent})
		if err == nil {
			emit(e.Buckets, sealed)
		}
		return err
	})
}

// bucket returns the bucket of a line; counts is false for a line of nobody.
func (e *encoding) bucket(r *erm.Ranker, persons bool, id string, row []float64, label float64) (k int, counts bool) {
	rank, counts := uint64(0), true
	if persons {
		rank, counts = r.Person(id)
	} else {
		rank = r.Record(row, label)
	}
	return int(rank >> 32 * uint64(e.Buckets) >> 32), counts
}

// orderBucket puts the lines of buckets in order.
type orderBucket struct{ Ticket ticket }

// ProcessElement writes the file of a bucket and returns its sealed tally, or passes on those of
// all files as one.
func (o *orderBucket) ProcessElement(
	ctx context.Context, bucket int, next func(*[]byte) bool,
) (sealed []byte, err error) {
	err = protect(fmt.Sprintf("bucket %d", bucket), func() error {
		e, encoder, err := o.Ticket.loadEncoding()
		if err != nil {
			return err
		}
		var message []byte
		var made []tally
		if bucket == e.Buckets {
			for next(&message) {
				var t tally
				if err := e.unseal(message, &t); err != nil {
					return err
				}
				made = append(made, t)
			}
		} else {
			l := &lines{encoder: encoder, d: len(encoder.Features())}
			got := map[[2]int]bool{}
			t := tally{File: -1, Bucket: bucket, Blocks: make([]int, len(e.Paths))}
			for next(&message) {
				var b block
				if err := e.unseal(message, &b); err != nil {
					return err
				}
				if at := [2]int{b.File, b.Number}; b.Bucket != bucket || b.File < 0 || b.File >= len(e.Paths) || got[at] {
					return errors.New("a block came twice, or is of another bucket")
				} else {
					got[at] = true
				}
				t.Blocks[b.File]++
				l.add(&b)
			}
			if err := l.write(ctx, e, &t, filepath.Dir(o.Ticket.File)); err != nil {
				return err
			}
			made = []tally{t}
		}
		sealed, err = e.seal(made)
		return err
	})
	return sealed, err
}

// lines are the lines of a bucket, an erm.Identified.
type lines struct {
	encoder *table.Encoder
	d       int
	ids     []string
	numbers []float64
}

func (l *lines) add(b *block) {
	l.ids, l.numbers = append(l.ids, b.IDs...), append(l.numbers, b.Numbers...)
}

// Dims implements erm.Source.
func (l *lines) Dims() (records, features int) { return len(l.numbers) / (l.d + 1), l.d }

// Read implements erm.Source.
func (l *lines) Read(_ context.Context, rows, labels []float64, first int) error {
	for i := range labels {
		line := l.numbers[(first+i)*(l.d+1):][:l.d+1]
		copy(rows[i*l.d:], line[:l.d])
		labels[i] = line[l.d]
	}
	return nil
}

// ReadIDs implements erm.Identified.
func (l *lines) ReadIDs(_ context.Context, ids []string, first int) error {
	copy(ids, l.ids[first:])
	return nil
}

// write writes the lines that count, in canonical order, and completes the tally.
func (l *lines) write(ctx context.Context, e *encoding, t *tally, dir string) error {
	ranker, err := erm.NewRanker(l.d, l.encoder.Bounds())
	if err != nil {
		return err
	}
	p, persons := l.encoder.Persons()
	n, _ := l.Dims()
	if persons && len(l.ids) != n {
		return errors.New("lines without ids")
	}
	for i := range n {
		id, line := "", l.numbers[i*(l.d+1):][:l.d+1]
		if persons {
			id = l.ids[i]
		}
		if k, counts := e.bucket(ranker, persons, id, line[:l.d], line[l.d]); k != t.Bucket || !counts {
			return errors.New("a line is of another bucket")
		}
	}
	var order, counts []int
	if persons {
		order, counts, err = erm.CanonicalByPerson(ctx, l, l.encoder.Bounds(), p)
	} else {
		order, err = erm.Canonical(ctx, l, l.encoder.Bounds())
	}
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
	row := make([]float64, len(e.Columns)-1)
	for k, i := range order {
		line := l.numbers[i*(l.d+1):][:l.d+1]
		copy(row[len(row)-l.d:], line[:l.d])
		if persons {
			row[0] = float64(counts[k])
		}
		if err := w.Append(row, line[l.d]); err != nil {
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

// writeTallies writes the sealed tallies to the result file.
type writeTallies struct{ Ticket ticket }

// ProcessElement writes the file.
func (w *writeTallies) ProcessElement(_ int, next func(*[]byte) bool) error {
	return protect("the result", func() error {
		var message, out []byte
		for next(&message) {
			out = binary.LittleEndian.AppendUint32(out, uint32(len(message)))
			out = append(out, message...)
		}
		return wholefile.Write(filepath.Join(filepath.Dir(w.Ticket.File), resultFile), out, 0o600)
	})
}

// tallies reads the result file.
func (e *encoding) tallies(dir string) (all []tally, err error) {
	b, err := os.ReadFile(filepath.Join(dir, resultFile))
	if err != nil {
		return nil, fmt.Errorf("the job ended without a result: %w", err)
	}
	for len(b) > 0 {
		n := math.MaxInt
		if len(b) >= 4 {
			n = int(binary.LittleEndian.Uint32(b))
		}
		if n > len(b)-4 {
			return nil, errors.New("the result was cut off")
		}
		var some []tally
		if err := e.unseal(b[4:4+n], &some); err != nil {
			return nil, err
		}
		all, b = append(all, some...), b[4+n:]
	}
	return all, nil
}

// check returns the files of all buckets in order. It requires that every file was read once, that
// every bucket was put in order once, and that it got all blocks that were sent.
func (e *encoding) check(all []tally, dir string) (paths []string, err error) {
	sent, parts := make([][]int, len(e.Paths)), make([]*tally, e.Buckets)
	for i := range all {
		t := &all[i]
		switch {
		case t.Bucket < 0 && t.File >= 0 && t.File < len(sent) && sent[t.File] == nil && len(t.Blocks) == e.Buckets:
			sent[t.File] = t.Blocks
		case t.File < 0 && t.Bucket >= 0 && t.Bucket < len(parts) && parts[t.Bucket] == nil &&
			len(t.Blocks) == len(e.Paths):
			parts[t.Bucket] = t
		default:
			return nil, errors.New("a file or a bucket was counted twice")
		}
	}
	for i, blocks := range sent {
		if blocks == nil {
			return nil, fmt.Errorf("file %d was not read", i+1)
		}
		for k, n := range blocks {
			got := 0
			if parts[k] != nil {
				got = parts[k].Blocks[i]
			}
			if n != got {
				return nil, fmt.Errorf("bucket %d did not get all blocks of file %d", k, i+1)
			}
		}
	}
	for _, t := range parts {
		if t == nil || t.Records == 0 {
			continue
		}
		path := filepath.Join(dir, t.Path)
		f, err := npy.Open(path)
		if err != nil {
			return nil, err
		}
		n, _ := f.Dims()
		same := n == t.Records && f.Checksum() == t.Checksum
		if err := f.Close(); err != nil || !same {
			return nil, errors.New("a file of encoded rows is not the one that its worker wrote")
		}
		paths = append(paths, path)
	}
	if len(paths) > 0 {
		return slices.Clip(paths), nil
	}
	empty := filepath.Join(dir, "part-empty.npy")
	w, err := npy.Create(empty, e.Columns, npy.Options{Schema: e.Hash})
	if err != nil {
		return nil, err
	}
	return []string{empty}, w.Commit()
}

func (e *encoding) seal(m any) ([]byte, error)   { return secret{e.Pass, e.Key}.seal(m) }
func (e *encoding) unseal(b []byte, m any) error { return secret{e.Pass, e.Key}.unseal(b, m) }

// save writes the task of a ticket.
func (e *encoding) save(t ticket) error {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(e); err != nil {
		return err
	}
	return wholefile.Write(t.File, b.Bytes(), 0o600)
}

func (t ticket) loadEncoding() (*encoding, *table.Encoder, error) {
	e := new(encoding)
	if err := t.read(e, &e.Pass); err != nil {
		return nil, nil, err
	}
	s, err := table.ReadSchema(bytes.NewReader(e.Schema))
	if err != nil {
		return nil, nil, err
	}
	encoder, err := s.Encoder()
	return e, encoder, err
}
