// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package parquet

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// chunk is one column of one row group.
type chunk struct {
	column   parquet.ColumnChunk
	place    string // for errors
	rows     int
	unsigned bool
	defined  byte       // the definition level of a value that is not null
	mu       sync.Mutex // held to decode
	pages    []*page    // those of Source.kept
}

// page is a decoded page and the reader that decoded it, which stands at the next page.
type page struct {
	chunk  *chunk
	first  int // in the row group
	end    int
	values []float64 // nil when a pass has used all of them
	reader parquet.Pages
	left   atomic.Int64 // values that were not read yet
	used   uint64       // Source.time of the last use
}

func (p *page) close() {
	if p.reader != nil {
		p.reader.Close() // a buffer in memory: there is nothing to fail
		p.reader = nil
	}
}

// numeric returns an error unless the column holds at most one number for each record.
func numeric(c *parquet.Column) error {
	if c.MaxRepetitionLevel() > 0 {
		return fmt.Errorf("column %q is repeated; want one value for each record", name(c))
	}
	t := c.Type()
	_, plain := integer(t)
	switch t.Kind() {
	case parquet.Boolean, parquet.Int32, parquet.Int64, parquet.Float, parquet.Double:
		if plain {
			return nil
		}
	}
	return fmt.Errorf("column %q is of the type %s; want DOUBLE, FLOAT, INT32, INT64 or BOOLEAN, so convert it to "+
		"DOUBLE where the file is written, or leave it out of Options.Features", name(c), t)
}

// integer reports whether a column is declared to hold unsigned integers, and whether it holds
// plain numbers: without a declared meaning, or integers.
func integer(t parquet.Type) (unsigned, plain bool) {
	l := t.LogicalType()
	if l == nil || l.Value == nil {
		return false, true
	}
	i, plain := l.Value.(*format.IntType)
	return plain && !i.IsSigned, plain
}

func newChunk(k parquet.ColumnChunk, c *parquet.Column, rows int) *chunk {
	unsigned, _ := integer(c.Type())
	return &chunk{column: k, rows: rows, defined: byte(c.MaxDefinitionLevel()), unsigned: unsigned}
}

// page returns the page of k with the given row, and its values from that row on.
func (s *Source) page(k *chunk, row int) (*page, []float64, error) {
	if p, values := s.find(k, row); p != nil {
		return p, values, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if p, values := s.find(k, row); p != nil { // decoded in the meantime
		return p, values, nil
	}
	p, err := s.decode(k, row)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %s: %w", ErrFile, k.place, err)
	}
	s.keep(p)
	return p, p.values[row-p.first:], nil
}

// find returns the kept page of k with the given row, if there is one.
func (s *Source) find(k *chunk, row int) (*page, []float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range k.pages {
		if p.values != nil && p.first <= row && row < p.end {
			s.time++
			p.used = s.time
			return p, p.values[row-p.first:]
		}
	}
	return nil, nil
}

// reader returns a reader of k that stands at or before row, and the row it stands at: that of the
// nearest kept page, or a new one.
func (s *Source) reader(k *chunk, row int) (parquet.Pages, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var near *page
	for _, p := range k.pages {
		if p.reader != nil && p.end <= row && (near == nil || p.end > near.end) {
			near = p
		}
	}
	if near == nil {
		return k.column.Pages(), 0
	}
	r := near.reader
	if near.reader = nil; near.values == nil {
		s.drop(near)
	}
	return r, near.end
}

// keep keeps p. If there are then too many pages, keep drops the least recently used one.
func (s *Source) keep(p *page) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files == nil { // closed
		p.close()
		return
	}
	s.time++
	p.used = s.time
	s.kept = append(s.kept, p)
	p.chunk.pages = append(p.chunk.pages, p)
	if len(s.kept) > s.most {
		s.drop(slices.MinFunc(s.kept, func(a, b *page) int { return int(int64(a.used - b.used)) }))
	}
}

func (s *Source) drop(p *page) {
	p.close()
	is := func(q *page) bool { return q == p }
	s.kept = slices.DeleteFunc(s.kept, is)
	p.chunk.pages = slices.DeleteFunc(p.chunk.pages, is)
}

// served drops the values of pages that a pass has read completely; the next pass decodes them
// again. The reader of such a page stays, to decode the page after it.
func (s *Source) served(pages []*page) {
	for _, p := range pages {
		if p.left.Load() > 0 {
			continue
		}
		s.mu.Lock()
		if p.values = nil; p.reader == nil || p.end == p.chunk.rows {
			s.drop(p)
		}
		s.mu.Unlock()
	}
}

var errDamaged = errors.New("a page is damaged")

// public returns errors of the operating system unchanged. Other errors of the library may hold a
// value of a record, and become errDamaged.
func public(err error) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return path
	}
	return errDamaged
}

// decode reads the page with the given row.
func (s *Source) decode(k *chunk, row int) (p *page, err error) {
	r, at := s.reader(k, row)
	defer func() {
		if recover() != nil {
			p, err = nil, errDamaged
		}
		if err != nil {
			r.Close()
		}
	}()
	if index, err := k.column.OffsetIndex(); err == nil && index.NumPages() > 0 {
		i := sort.Search(index.NumPages(), func(i int) bool { return index.FirstRowIndex(i) > int64(row) }) - 1
		if next := int(index.FirstRowIndex(max(i, 0))); next != at {
			if err := r.SeekToRow(int64(next)); err != nil {
				return nil, public(err)
			}
			at = next
		}
	}
	for {
		raw, err := r.ReadPage()
		if err == io.EOF {
			return nil, errors.New("the pages hold fewer rows than the footer says")
		}
		if err != nil {
			return nil, public(err)
		}
		rows := int(raw.NumRows())
		if rows > k.rows-at {
			return nil, errors.New("the pages hold more rows than the footer says")
		}
		if row < at+rows {
			p := &page{chunk: k, first: at, end: at + rows, reader: r}
			if p.values, err = k.convert(raw); err != nil {
				return nil, err
			}
			p.left.Store(int64(rows))
			return p, nil
		}
		at += rows
		parquet.Release(raw)
	}
}

// convert returns the values of a page. For DOUBLE without nulls they share the memory of the page,
// which is therefore not released.
func (k *chunk) convert(raw parquet.Page) ([]float64, error) {
	rows := int(raw.NumRows())
	levels := raw.DefinitionLevels()
	if len(levels) > 0 && len(levels) != rows {
		return nil, errors.New("a page with another number of definition levels than rows")
	}
	var values []float64
	if kind := raw.Type().Kind(); kind == parquet.Boolean {
		return booleans(raw)
	} else if dict := raw.Dictionary(); dict != nil {
		table := k.numbers(dict.Page())
		data := raw.Data()
		index := data.Int32()
		values = make([]float64, len(index))
		for i, at := range index {
			if uint(at) >= uint(len(table)) {
				return nil, errors.New("a value outside of its dictionary")
			}
			values[i] = table[at]
		}
	} else {
		values = k.numbers(raw)
	}
	if len(levels) > 0 {
		return k.spread(values, levels)
	}
	if len(values) != rows {
		return nil, errors.New("a page with another number of values than rows")
	}
	return values, nil
}

// numbers returns the values of a page that are not null.
func (k *chunk) numbers(raw parquet.Page) []float64 {
	data := raw.Data()
	switch kind := raw.Type().Kind(); {
	case kind == parquet.Double:
		return data.Double()
	case kind == parquet.Float:
		return floats(data.Float())
	case kind == parquet.Int32 && k.unsigned:
		return floats(data.Uint32())
	case kind == parquet.Int32:
		return floats(data.Int32())
	case k.unsigned:
		return floats(data.Uint64())
	default:
		return floats(data.Int64())
	}
}

func floats[T float32 | int32 | int64 | uint32 | uint64](v []T) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = float64(x)
	}
	return out
}

// booleans returns the values of a page of bits.
func booleans(raw parquet.Page) ([]float64, error) {
	values := make([]parquet.Value, raw.NumRows())
	if n, _ := raw.Values().ReadValues(values); n != len(values) {
		return nil, errors.New("a page with another number of values than rows")
	}
	out := make([]float64, len(values))
	for i, v := range values {
		switch {
		case v.IsNull():
			out[i] = math.NaN()
		case v.Boolean():
			out[i] = 1
		}
	}
	return out, nil
}

// spread puts NaN between values where there is a null.
func (k *chunk) spread(values []float64, levels []byte) ([]float64, error) {
	out := make([]float64, len(levels))
	next := 0
	for i, l := range levels {
		if l != k.defined {
			out[i] = math.NaN()
			continue
		}
		if next == len(values) {
			return nil, errors.New("a page with fewer values than definition levels ask for")
		}
		out[i] = values[next]
		next++
	}
	if next != len(values) {
		return nil, errors.New("a page with more values than definition levels ask for")
	}
	return out, nil
}
