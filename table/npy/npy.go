// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package npy reads and writes tables of records that are larger than memory, in the format of
// numpy.save [NPY]:
//
//	f, err := npy.Open("people.npy")
//	defer f.Close()
//	data, err := erm.Open(f, loss.Bounds{Row: 1, Label: 1})
//
// A file holds n records of d features and a label as an array of the shape (n, d+1), '<f8' or
// '<f4', in C order. The label is the last column, unless the sidecar names another one. Records
// are read into small buffers that are reused, so that a pass over any file takes a few hundred
// kilobytes of memory. The file is not mapped into memory: truncating a mapped file would end the
// process.
//
// # Sidecar
//
// A file x.npy may have a sidecar x.npy.json, which [Create] writes and [Open] reads:
//
//	{ "npy": 1, "records": 1000, "dtype": "<f8",
//	  "columns": ["age", "hours", "income"], "label": "income",
//	  "schema": "sha256:…", "block": 1048576, "crc32c": [ … ] }
//
// "schema" identifies the encoding of the columns, "" for none. There is one checksum for each
// block of 1 MiB of the data. [File.Read] verifies a whole block, once, before it returns any
// record of it. A file without a sidecar is read without checksums.
//
// Header, sidecar and size must agree, and package erm forces every record into its bounds. A file
// must not change while it is open: reads check its size and time of change. Both files are as
// private as the records. Messages show no value and no number of records.
//
// [NPY]: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
package npy

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/privopt/privopt/internal/prefix"
)

// ErrFile reports a file that is no table of records, is damaged, or changed while it was read.
var ErrFile = prefix.New("npy: invalid file")

const (
	blockSize = 1 << 20   // bytes that have a checksum
	pieceSize = 256 << 10 // bytes that are read at once: they stay in the cache of a processor
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// File is a table of records on disk. Its methods are safe for concurrent use. It prints as its
// path.
type File struct {
	path     string
	file     *os.File
	shape    shape
	data     int64   // offset of the first number
	label    int     // column
	side     sidecar // zero if there is none
	blocks   []block // nil without a sidecar
	size     int64
	modified time.Time
	reads    atomic.Uint32
}

// block is the state of a block of the file.
type block struct {
	verify sync.Mutex // one reader verifies, the others wait
	ok     atomic.Bool
}

// Open opens a file and its sidecar, if there is one. The error wraps [ErrFile] if they are not
// valid.
func Open(path string) (*File, error) {
	if info, err := os.Stat(path); err != nil {
		return nil, prefix.Errorf("npy: %w", err)
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is no regular file", ErrFile, path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, prefix.Errorf("npy: %w", err)
	}
	f := &File{path: path, file: file}
	if err := f.open(); err != nil {
		file.Close()
		return nil, fmt.Errorf("%w: %s: %w", ErrFile, path, err)
	}
	return f, nil
}

func (f *File) open() error {
	info, err := f.file.Stat()
	if err != nil {
		return err
	}
	f.size, f.modified = info.Size(), info.ModTime()
	if f.shape, f.data, err = readHeader(io.NewSectionReader(f.file, 0, f.size)); err != nil {
		return err
	}
	switch rest := f.size - f.data; {
	case rest < f.shape.bytes():
		return errors.New("it is shorter than its header says: it was cut off; write or copy it again")
	case rest > f.shape.bytes():
		return errors.New("it is longer than its header says; write or copy it again")
	}
	f.label = f.shape.columns - 1
	side, err := readSidecar(f.path+".json", f.shape)
	if err != nil || side == nil {
		return err
	}
	f.side, f.label = *side, slices.Index(side.Columns, side.Label)
	f.blocks = make([]block, len(side.CRC))
	return nil
}

// Format implements fmt.Formatter: a File prints as its path.
func (f *File) Format(s fmt.State, _ rune) { fmt.Fprintf(s, "npy.File(%s)", f.path) }

// Close closes the file. Reads that are under way return an error.
func (f *File) Close() error { return f.file.Close() }

// Dims returns the numbers of records, private under dp.AddRemove, and of features.
func (f *File) Dims() (records, features int) { return f.shape.records, f.shape.columns - 1 }

// Columns returns the names of the columns in the order of the file, nil without a sidecar.
func (f *File) Columns() []string { return slices.Clone(f.side.Columns) }

// Label returns the name of the column that is the label, "" without a sidecar.
func (f *File) Label() string { return f.side.Label }

// Schema returns Options.Schema of Create, "" without a sidecar.
func (f *File) Schema() string { return f.side.Schema }

// Checksum returns a hash of all records and their order, "" without a sidecar. Not private: it is
// a function of the records.
func (f *File) Checksum() string {
	if f.blocks == nil {
		return ""
	}
	h := sha256.New()
	fmt.Fprintln(h, f.shape, f.label)
	binary.Write(h, binary.LittleEndian, f.side.CRC)
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

var errNil = prefix.New("npy: the file or ctx is nil, want a file made by Open and a context such as " +
	"context.Background()")

// pieces are the buffers of Read.
var pieces = sync.Pool{New: func() any { return new([pieceSize]byte) }}

// Read stores the rows of records first, …, first+len(labels)−1 in rows, row-major, and their
// labels in labels; rows has len(labels) times as many numbers as there are features.
//
// The error wraps ErrFile for records that do not exist, for a block without its checksum, and for
// a file that changed since Open; rows and labels mean nothing then.
func (f *File) Read(ctx context.Context, rows, labels []float64, first int) error {
	if f == nil || ctx == nil {
		return errNil
	}
	n, d := f.Dims()
	if first < 0 || first > n || len(labels) > n-first {
		return fmt.Errorf("%w: %s does not have all of the records that were asked for", ErrFile, f.path)
	}
	if len(rows)/d != len(labels) || len(rows)%d != 0 {
		return prefix.Errorf("npy: Read into %d numbers of %d rows, want %d numbers a row", len(rows), len(labels), d)
	}
	if first == 0 || f.reads.Add(1)%16 == 0 {
		if err := f.unchanged(); err != nil {
			return err
		}
	}
	buffer := pieces.Get().(*[pieceSize]byte)
	defer pieces.Put(buffer)
	width := int64(f.shape.columns) * int64(f.shape.item)
	w := window{f: f, rows: rows, labels: labels, from: int64(first) * width, to: int64(first+len(labels)) * width}
	for at := w.from; at < w.to; {
		k := int(at / blockSize)
		end := min(w.to, int64(k+1)*blockSize)
		if err := f.readBlock(ctx, &w, buffer, k, at, end); err != nil {
			return err
		}
		at = end
	}
	return nil
}

// Verify reads the blocks that were not read yet, to find a damaged one before Read does. It does
// nothing without a sidecar.
func (f *File) Verify(ctx context.Context) error {
	if f == nil || ctx == nil {
		return errNil
	}
	buffer := pieces.Get().(*[pieceSize]byte)
	defer pieces.Put(buffer)
	for k := range f.blocks {
		if err := f.readBlock(ctx, &window{f: f}, buffer, k, 0, 0); err != nil {
			return err
		}
	}
	return nil
}

// unchanged compares size and time of change with those at Open.
func (f *File) unchanged() error {
	info, err := f.file.Stat()
	if err != nil {
		return prefix.Errorf("npy: %w", err)
	}
	if info.Size() != f.size || !info.ModTime().Equal(f.modified) {
		return fmt.Errorf("%w: %s changed since it was opened", ErrFile, f.path)
	}
	return nil
}

// readBlock reads the bytes from, …, to−1, which lie in block k, and the rest of the block if it
// has to be verified.
func (f *File) readBlock(ctx context.Context, w *window, buffer *[pieceSize]byte, k int, from, to int64) error {
	if f.blocks == nil || f.blocks[k].ok.Load() {
		return f.readBytes(ctx, w, buffer, from, to, nil)
	}
	b := &f.blocks[k]
	b.verify.Lock()
	defer b.verify.Unlock()
	if b.ok.Load() { // verified while this waited
		return f.readBytes(ctx, w, buffer, from, to, nil)
	}
	sum := uint32(0)
	start := int64(k) * blockSize
	if err := f.readBytes(ctx, w, buffer, start, min(start+blockSize, f.shape.bytes()), &sum); err != nil {
		return err
	}
	if sum != f.side.CRC[k] {
		return fmt.Errorf("%w: %s: block %d of 1 MiB does not have its checksum: the file was damaged or changed; write "+
			"or copy it again", ErrFile, f.path, k)
	}
	b.ok.Store(true)
	return nil
}

// readBytes reads bytes of the data, stores those of the window and updates the checksum unless sum
// is nil.
func (f *File) readBytes(ctx context.Context, w *window, buffer *[pieceSize]byte, from, to int64, sum *uint32) error {
	for at := from; at < to; {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := buffer[:min(pieceSize, to-at)]
		if _, err := f.file.ReadAt(b, f.data+at); errors.Is(err, io.EOF) {
			return fmt.Errorf("%w: %s was cut off since it was opened", ErrFile, f.path)
		} else if err != nil {
			return prefix.Errorf("npy: %w", err)
		}
		if sum != nil {
			*sum = crc32.Update(*sum, castagnoli, b)
		}
		w.store(at, b)
		at += int64(len(b))
	}
	return nil
}

// window is where a Read stores the bytes from, …, to−1 of the data.
type window struct {
	f            *File
	rows, labels []float64
	from, to     int64
}

// store stores the numbers of b, which begins at byte at of the data, that are in the window.
func (w *window) store(at int64, b []byte) {
	lo, hi := max(at, w.from), min(at+int64(len(b)), w.to)
	if lo >= hi {
		return
	}
	b = b[lo-at : hi-at]
	item, columns := w.f.shape.item, w.f.shape.columns
	label := w.f.label
	first := int((lo - w.from) / int64(item))
	for i, j := first/columns, first%columns; len(b) > 0; i, j = i+1, 0 {
		end := min(columns, j+len(b)/item)
		row := w.rows[i*(columns-1) : (i+1)*(columns-1)]
		if j < label {
			b = decode(row[j:min(end, label)], b, item)
		}
		if j <= label && label < end {
			b = decode(w.labels[i:i+1], b, item)
		}
		if label+1 < end {
			b = decode(row[max(j-1, label):end-1], b, item)
		}
	}
}

// decode stores the first numbers of b in dst and returns the rest of b.
func decode(dst []float64, b []byte, item int) []byte {
	rest := b[item*len(dst):]
	if item == 4 {
		for k := range dst {
			dst[k] = float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4*k:])))
		}
		return rest
	}
	// The lengths checked here make further bounds checks unnecessary, which saves much time.
	for len(dst) >= 4 && len(b) >= 32 {
		dst[0] = math.Float64frombits(binary.LittleEndian.Uint64(b))
		dst[1] = math.Float64frombits(binary.LittleEndian.Uint64(b[8:]))
		dst[2] = math.Float64frombits(binary.LittleEndian.Uint64(b[16:]))
		dst[3] = math.Float64frombits(binary.LittleEndian.Uint64(b[24:]))
		dst, b = dst[4:], b[32:]
	}
	for k := range dst {
		dst[k] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*k:]))
	}
	return rest
}
