// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package beam

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/gob"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	sdk "github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/wholefile"
	"github.com/privopt/privopt/table"
	"github.com/privopt/privopt/table/npy"
)

// Table is a table in files that workers read and encode: Parquet if the name ends with .parquet,
// else CSV, compressed by gzip if the name ends with .gz. Names such as gs://bucket/name are those
// of objects, see InStore; a worker reads an object of CSV as a whole.
type Table struct {
	Paths   []string      // the driver and all workers see the files under these names
	Schema  *table.Schema // of the files
	Columns []string      // of the encoded rows; the label is the last one
	Hash    string        // of the encoding, for the sidecars
}

// bucketBytes is about the size of the text whose records one worker puts in order at a time.
const (
	bucketBytes = 16 << 20
	maxBuckets  = 4096
	blockBytes  = 64 << 10
)

// splitBytes is about the size of the text that one worker encodes at a time. It is a variable for
// tests, whose tables are small.
var splitBytes int64 = 64 << 20

// Encode runs one job in which workers read the files of t, encode their lines, group the lines of
// persons and write the encoded rows, in the order of privopt pack --canonical, to files in a
// folder of o.Scratch. It returns a Source of these files, whose Close removes them. So the driver
// reads no line of the table, and sums have the bits of one machine.
//
//	splits of files → encode → (bucket, place of sealed lines) → GroupByKey → order → files
//
// A split is a range of 64 MiB of a CSV file, or a whole file: Parquet, compressed, or with line
// ends in quotes. A bucket is a range of the ranks of records or of ids, see erm.Ranker, so that
// its lines of a person are all lines of that person. Lines travel in blocks of 64 KiB, sealed with
// a key of the attempt, in files of the folder, which end with the job. Through the engine go their
// places, sealed, so that it sees how many blocks a split has for a bucket. A job that fails is
// repeated twice, in another folder with another key, unless it refused a line of the table. The
// splits that were read must be the whole of every file, each once, and every block must arrive
// once.
//
// Certificates of fits over the Source list erm.TrustedEncoding. The error wraps ErrOptions, also
// for a table that was refused, or erm.ErrSource for jobs that failed; nothing has been released
// then.
func Encode(ctx context.Context, t Table, o Options) (*Source, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	if t.Schema == nil || len(t.Paths) == 0 || len(t.Columns) < 2 {
		return nil, fmt.Errorf("%w: a Table with %d Paths and %d Columns, want both and a Schema", ErrOptions, len(t.Paths),
			len(t.Columns))
	}
	if err := distinct(t.Paths); err != nil {
		return nil, err
	}
	e := encoding{Columns: t.Columns, Hash: t.Hash}
	size, err := e.cut(ctx, t)
	if err != nil {
		return nil, err
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
		if _, line, ok := strings.Cut(err.Error(), refused); ok {
			return nil, fmt.Errorf("%w: %s", ErrOptions, line)
		}
	}
	return nil, fmt.Errorf("%w: beam: encoding the table failed %d times, at last with: %w", erm.ErrSource, attempts, err)
}

// cut divides the files of a table into splits and returns their size.
func (e *encoding) cut(ctx context.Context, t Table) (size int64, err error) {
	for i, path := range t.Paths {
		if InStore(path) {
			n, err := whole(ctx, path)
			if err != nil {
				return 0, err
			}
			e.Splits = append(e.Splits, split{i, 0, n})
			e.Paths, e.Sizes = append(e.Paths, path), append(e.Sizes, n)
			size += n
			continue
		}
		if path, err = filepath.Abs(path); err != nil {
			return 0, fmt.Errorf("beam: %w", err)
		}
		info, err := os.Stat(path)
		if err != nil {
			return 0, fmt.Errorf("beam: %w", err)
		}
		if !info.Mode().IsRegular() {
			return 0, fmt.Errorf("%w: %s is no regular file, which workers could not read again", ErrOptions, path)
		}
		n := info.Size()
		step := splitBytes
		if whole, err := indivisible(path, t.Schema.File); err != nil {
			return 0, fmt.Errorf("beam: %w", err)
		} else if whole {
			step = max(n, 1)
		}
		for from := int64(0); from == 0 || from < n; from += step {
			e.Splits = append(e.Splits, split{i, from, min(from+step, n)})
		}
		e.Paths, e.Sizes = append(e.Paths, path), append(e.Sizes, n)
		size += n
	}
	return size, nil
}

// whole returns the size of an object in a store, which is one split: stores are read from the
// first byte on.
func whole(ctx context.Context, name string) (int64, error) {
	if strings.HasSuffix(name, ".parquet") {
		return 0, fmt.Errorf("%w: %s: Parquet in a store, want CSV, or a file", ErrOptions, name)
	}
	o, err := find(ctx, name)
	if err != nil {
		return 0, fmt.Errorf("beam: %w", err)
	}
	return o.size, o.store.Close()
}

// encoding is the task of an attempt. It is secret.
type encoding struct {
	Pass    string
	Key     []byte
	Paths   []string
	Sizes   []int64
	Splits  []split // of the files in their order
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
	if err := wait(ctx, o, encodePipeline(t, len(e.Splits))); err != nil {
		return nil, err
	}
	tallies, err := e.tallies(dir)
	if err != nil {
		return nil, err
	}
	paths, persons, err := e.check(tallies, dir)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(t.File); err != nil { // without the key, what the engine stored cannot be read
		return nil, err
	}
	blocks, err := filepath.Glob(filepath.Join(dir, "split-*"))
	if err != nil {
		return nil, err
	}
	for _, name := range blocks {
		if err := os.Remove(name); err != nil {
			return nil, err
		}
	}
	o.Label, o.Features = "", nil
	s, err := NewSource(ctx, paths, o)
	if err != nil {
		return nil, err
	}
	s.folder, s.persons = dir, persons
	return s, nil
}

// lanes is the number of steps that do the same to different splits or buckets. prism hands all
// elements of a step to one worker, one after the other.
const lanes = 4

// encodePipeline is the job of an attempt, a function of the ticket and the number of splits.
func encodePipeline(t ticket, splits int) *sdk.Pipeline {
	p, s := sdk.NewPipelineWithRoot()
	lanes := make([][]int, min(lanes, splits))
	for i := range splits {
		lanes[i%len(lanes)] = append(lanes[i%len(lanes)], i)
	}
	var encoded []sdk.PCollection
	for _, numbers := range lanes {
		encoded = append(encoded, sdk.ParDo(s, &encodeSplit{Ticket: t}, sdk.Reshuffle(s, sdk.CreateList(s, numbers))))
	}
	blocks := sdk.Flatten(s, encoded...)
	var ordered []sdk.PCollection
	for k := range len(lanes) {
		own := sdk.ParDo(s, &lane{Index: k, Lanes: len(lanes)}, blocks)
		ordered = append(ordered, sdk.ParDo(s, &orderBucket{Ticket: t}, sdk.GroupByKey(s, own)))
	}
	tallies := sdk.Flatten(s, ordered...)
	sdk.ParDo0(s, &writeTallies{Ticket: t}, sdk.GroupByKey(s, sdk.AddFixedKey(s, tallies)))
	return p
}

// tally says what became of a split or of a bucket.
type tally struct {
	Split, Bucket int      // −1 for none
	Blocks        []int    // of a split: for each bucket; of a bucket: of each split
	Runs          []uint64 // the random names of those who encoded the split, or each split
	Start, End    int64    // of the lines of a split in its file
	Path          string
	Checksum      string
	Records       int
	Persons       int
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

// check returns the files of all buckets in order, and the number of persons. It requires that the
// splits are the whole of every file, that each was read once and each bucket put in order once,
// and that a bucket got all blocks that were sent, by one reading of a split.
func (e *encoding) check(all []tally, dir string) (paths []string, persons int, err error) {
	read, parts := make([]*tally, len(e.Splits)), make([]*tally, e.Buckets)
	for i := range all {
		t := &all[i]
		switch {
		case t.Bucket < 0 && t.Split >= 0 && t.Split < len(read) && read[t.Split] == nil &&
			len(t.Blocks) == e.Buckets && len(t.Runs) == 1:
			read[t.Split] = t
		case t.Split < 0 && t.Bucket >= 0 && t.Bucket < len(parts) && parts[t.Bucket] == nil &&
			len(t.Blocks) == len(read) && len(t.Runs) == len(read):
			parts[t.Bucket] = t
		default:
			return nil, 0, errors.New("a part of a file or a bucket was counted twice")
		}
	}
	if err := e.whole(read); err != nil {
		return nil, 0, err
	}
	for i, t := range read {
		for k, n := range t.Blocks {
			p := parts[k]
			if n == 0 && (p == nil || p.Blocks[i] == 0) {
				continue
			}
			if p == nil || p.Blocks[i] != n || p.Runs[i] != t.Runs[0] {
				return nil, 0, fmt.Errorf("bucket %d did not get all blocks of %s", k, e.place(i))
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
			return nil, 0, err
		}
		n, _ := f.Dims()
		same := n == t.Records && f.Checksum() == t.Checksum
		if err := f.Close(); err != nil || !same {
			return nil, 0, errors.New("a file of encoded rows is not the one that its worker wrote")
		}
		paths = append(paths, path)
		persons += t.Persons
	}
	if len(paths) > 0 {
		return slices.Clip(paths), persons, nil
	}
	empty := filepath.Join(dir, "part-empty.npy")
	w, err := npy.Create(empty, e.Columns, npy.Options{Schema: e.Hash})
	if err != nil {
		return nil, 0, err
	}
	return []string{empty}, 0, w.Commit()
}

// whole returns an error unless the lines that were read are all lines of all files, each once.
func (e *encoding) whole(read []*tally) error {
	at := int64(0)
	for i, t := range read {
		if t == nil {
			return fmt.Errorf("%s was not read", e.place(i))
		}
		s := e.Splits[i]
		if s.From == 0 {
			at = 0
		}
		if t.Start != at || t.End < at || s.To == e.Sizes[s.File] && t.End != s.To {
			return fmt.Errorf("%s has other lines than for another worker: the file was changed", e.place(i))
		}
		at = t.End
	}
	return nil
}

// place names a split for messages.
func (e *encoding) place(i int) string {
	s := e.Splits[i]
	if s.From == 0 {
		return fmt.Sprintf("file %d", s.File+1)
	}
	return fmt.Sprintf("file %d from its byte %d on, as if its header line stood there", s.File+1, s.From)
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
