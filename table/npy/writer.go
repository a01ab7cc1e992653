// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package npy

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"github.com/privopt/privopt/internal/prefix"
	"github.com/privopt/privopt/internal/wholefile"
)

// Options of [Create].
type Options struct {
	Float32 bool   // numbers take 4 bytes; rounding each record on its own costs no privacy
	Label   string // column of the label, "" for the last one
	Schema  string // identifies the encoding of the columns, such as the hash of a description
}

// Writer writes records to a new file. The file and its sidecar appear whole with Commit, or not at
// all. It is not safe for concurrent use.
type Writer struct {
	path    string
	file    *wholefile.File
	shape   shape
	label   int
	side    sidecar
	buffer  []byte
	sum     uint32
	inBlock int // bytes of sum
	err     error
}

// Format prints no record, by any verb.
func (Writer) Format(f fmt.State, _ rune) { fmt.Fprint(f, "npy.Writer") }

// errDone is the error of a Writer after Commit or Close.
var errDone = prefix.New("npy: the Writer is closed already")

// Create begins a file with the named columns, one of which is the label, in a hidden temporary
// file of mode 0600 in the same folder. A program that is killed leaves it there, and nothing at
// path.
func Create(path string, columns []string, o Options) (*Writer, error) {
	if o.Label == "" && len(columns) > 0 {
		o.Label = columns[len(columns)-1]
	}
	if err := checkColumns(columns, o.Label); err != nil {
		return nil, prefix.Errorf("npy: the new file %w", err)
	}
	w := &Writer{
		path: path, shape: shape{columns: len(columns), item: 8}, label: slices.Index(columns, o.Label),
		buffer: make([]byte, 0, pieceSize),
	}
	if o.Float32 {
		w.shape.item = 4
	}
	w.side = sidecar{
		Version: 1, DType: w.shape.dtype(), Columns: slices.Clone(columns), Label: o.Label, Schema: o.Schema,
		Block: blockSize, CRC: []uint32{},
	}
	var err error
	if w.file, err = wholefile.Create(path); err != nil {
		return nil, prefix.Errorf("npy: %w", err)
	}
	if _, err := w.file.Write(w.shape.header()); err != nil {
		w.Close()
		return nil, prefix.Errorf("npy: %w", err)
	}
	return w, nil
}

// Append writes a record: the features in the order of their columns, and the label. After an
// error all calls return it.
func (w *Writer) Append(row []float64, label float64) error {
	if w.err != nil {
		return w.err
	}
	if len(row) != w.shape.columns-1 {
		return prefix.Errorf("npy: Append of %d features, want %d, those of the file", len(row), w.shape.columns-1)
	}
	for _, v := range row[:w.label] {
		w.number(v)
	}
	w.number(label)
	for _, v := range row[w.label:] {
		w.number(v)
	}
	w.shape.records++
	return w.err
}

// number appends a number to the buffer. A buffer holds a whole number of numbers, a block a whole
// number of buffers.
func (w *Writer) number(v float64) {
	if w.shape.item == 4 {
		w.buffer = binary.LittleEndian.AppendUint32(w.buffer, math.Float32bits(float32(v)))
	} else {
		w.buffer = binary.LittleEndian.AppendUint64(w.buffer, math.Float64bits(v))
	}
	if len(w.buffer) == pieceSize {
		w.flush()
	}
}

func (w *Writer) flush() {
	if w.err != nil {
		return
	}
	if _, err := w.file.Write(w.buffer); err != nil {
		w.err = prefix.Errorf("npy: %w", err)
		return
	}
	w.sum = crc32.Update(w.sum, castagnoli, w.buffer)
	w.inBlock += len(w.buffer)
	w.buffer = w.buffer[:0]
	if w.inBlock == blockSize {
		w.endBlock()
	}
}

func (w *Writer) endBlock() {
	w.side.CRC = append(w.side.CRC, w.sum)
	w.sum, w.inBlock = 0, 0
}

// Commit syncs the file and its sidecar to the disk and gives them their names, replacing files of
// these names. If it cannot replace both, it leaves the old file with a sidecar that refuses it,
// never a new file without its sidecar.
func (w *Writer) Commit() error {
	if w.err != nil {
		return w.err
	}
	if w.flush(); w.inBlock > 0 {
		w.endBlock()
	}
	w.side.Records = w.shape.records
	writeHeader := func() error { _, err := w.file.WriteAt(w.shape.header(), 0); return err }
	for _, step := range []func() error{w.shape.check, writeHeader, w.file.Sync, w.writeSidecar, w.file.Commit} {
		if w.err == nil {
			w.err = step()
		}
	}
	if w.err != nil {
		w.file.Abandon()
		return prefix.Errorf("npy: %w", w.err)
	}
	w.err = errDone
	return nil
}

func (w *Writer) writeSidecar() error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(&w.side); err != nil {
		return err
	}
	return wholefile.Write(w.path+".json", text.Bytes(), 0o600)
}

// Close removes what was written unless it was committed.
func (w *Writer) Close() error {
	if w == nil {
		return prefix.Errorf("npy: the writer is nil, want one made by Create")
	}
	w.err = errDone
	if err := w.file.Abandon(); err != nil {
		return prefix.Errorf("npy: %w", err)
	}
	return nil
}
