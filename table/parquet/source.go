// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package parquet reads Parquet files: tables of mixed columns as CSV for package table, and
// records as an erm.Source, so that a problem can be solved over more records than memory holds.
//
//	o := parquet.Options{Label: "income"}
//	src, err := parquet.Open(o, "part-0.parquet", "part-1.parquet")
//	data, err := erm.Open(src, loss.Bounds{Row: 1, Label: 1})
//
// The files are read by column and page, never row by row. A pass over a Parquet file costs more
// processor time than one over a .npy file of the same records; privopt pack converts. With
// a page index, records may be read in any order. Without one, the default of several writers, a
// read in the middle of a row group decodes the group from its start; reads in order are as fast.
//
// Memory holds one page of every column for each goroutine that reads: (2·GOMAXPROCS+2)·(d+1)
// pages, of 1 MiB with most writers.
package parquet

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"runtime"
	"sort"
	"strings"
	"sync"
	"syscall"

	"github.com/parquet-go/parquet-go"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/prefix"
)

// Errors of this package. Test with errors.Is. No text of an error holds a value of a record.
var (
	// ErrOptions reports Options, or paths, that do not fit the files.
	ErrOptions = prefix.New("parquet: invalid options")
	// ErrFile reports a file that is not a Parquet file, or a damaged one.
	ErrFile = prefix.New("parquet: unreadable file")
)

// Options name the columns that make a record. A column inside a group is named by its path with
// dots.
type Options struct {
	// Label is the column of the labels. Required.
	Label string
	// Features are the columns of the features, in this order; nil means all columns of the first file
	// but Label, in the order of its schema.
	Features []string
}

// Source reads records from Parquet files, numbered through the files in the order they were given
// in. It is safe for concurrent use.
//
// Columns of the types DOUBLE, FLOAT, INT32 and INT64, signed or not, and BOOLEAN are read as
// float64; integers beyond 2⁵³ are rounded to the nearest, false is 0 and true is 1. A null becomes
// NaN, and package erm turns every NaN into 0. For another value, write that value to the file.
type Source struct {
	features []string
	groups   []group
	first    []int // number of the first record of each group, and of all records at the end
	files    []*os.File
	tails    hash.Hash // of all files: page indexes and footers

	mu   sync.Mutex // guards the fields below, and chunk.pages
	kept []*page    // decoded pages, at most most
	most int
	time uint64 // counts uses of pages
}

// group is a row group: one chunk for every feature, then the label.
type group []*chunk

var _ erm.Source = (*Source)(nil)

// Open opens Parquet files that all have the columns of o. Files without records are allowed, no
// records at all are not. Close the source after its last use.
//
// The error wraps ErrOptions for a column that is missing, named twice or not numeric, ErrFile for
// a file that is not a Parquet file, is truncated or has a damaged footer, or the error of os.Open.
func Open(o Options, paths ...string) (*Source, error) {
	if o.Label == "" {
		return nil, fmt.Errorf("%w: Options.Label is empty, want the name of the column of the labels", ErrOptions)
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%w: no paths, want at least one Parquet file", ErrOptions)
	}
	s := &Source{features: o.Features, first: []int{0}, tails: sha256.New()}
	for _, path := range paths {
		if err := s.open(path, o.Label); err != nil {
			s.Close()
			return nil, err
		}
	}
	if s.first[len(s.groups)] == 0 {
		s.Close()
		return nil, fmt.Errorf("%w: %d files with no record, want at least 1 record", ErrOptions, len(paths))
	}
	s.most = (2*runtime.GOMAXPROCS(0) + 2) * (len(s.features) + 1)
	return s, nil
}

// open adds the row groups of a file.
func (s *Source) open(path, label string) error {
	f, err := os.Open(path)
	if err != nil {
		return prefix.Errorf("parquet: %w", err)
	}
	s.files = append(s.files, f)
	p, err := parse(f)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrFile, path, err)
	}
	if err := s.addTail(f, p); err != nil {
		return prefix.Errorf("parquet: %w", err)
	}
	leaves := leaves(p.Root())
	if s.features == nil {
		for _, l := range leaves {
			if name := name(l); name != label {
				s.features = append(s.features, name)
			}
		}
	}
	columns, err := choose(leaves, append(s.features[:len(s.features):len(s.features)], label))
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrOptions, path, err)
	}
	for i, g := range p.RowGroups() {
		rows := int(g.NumRows())
		if rows == 0 {
			continue
		}
		var made group
		for _, c := range columns {
			if c.Index() >= len(g.ColumnChunks()) {
				return fmt.Errorf("%w: %s: row group %d has no column %q; the file is damaged", ErrFile, path, i, name(c))
			}
			k := newChunk(g.ColumnChunks()[c.Index()], c, rows)
			k.place = fmt.Sprintf("%s: row group %d, column %q", path, i, name(c))
			made = append(made, k)
		}
		s.groups = append(s.groups, made)
		s.first = append(s.first, s.first[len(s.first)-1]+rows)
	}
	return nil
}

// addTail adds the size of a file, and its bytes from the page index on, to the hash.
func (s *Source) addTail(f *os.File, p *parquet.File) error {
	var end [8]byte
	if _, err := f.ReadAt(end[:], p.Size()-8); err != nil {
		return err
	}
	from := p.Size() - 8 - int64(binary.LittleEndian.Uint32(end[:]))
	for _, g := range p.Metadata().RowGroups {
		for _, c := range g.Columns {
			if at := c.ColumnIndexOffset; at > 0 {
				from = min(from, at)
			}
		}
	}
	fmt.Fprintln(s.tails, p.Size(), from)
	_, err := io.Copy(s.tails, io.NewSectionReader(f, from, p.Size()-from))
	return err
}

var errFooter = errors.New("it is no Parquet file, or is truncated or encrypted, or its footer is damaged")

// parse reads the footer of a file. Its errors hold no bytes of the file, unlike those of the
// library, which a damaged file may also make panic.
func parse(f *os.File) (p *parquet.File, err error) {
	defer func() {
		if recover() != nil {
			err = errFooter
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	p, err = parquet.OpenFile(f, info.Size(), parquet.SkipBloomFilters(true))
	if path := (*fs.PathError)(nil); errors.As(err, &path) && errors.As(path.Err, new(syscall.Errno)) {
		return nil, path
	} else if err != nil { // its text may hold bytes of the file, and a wrong length of the footer is a bad offset
		return nil, errFooter
	}
	return p, nil
}

// leaves returns the columns that hold values, in the order of the schema.
func leaves(c *parquet.Column) []*parquet.Column {
	if c.Leaf() {
		return []*parquet.Column{c}
	}
	var all []*parquet.Column
	for _, child := range c.Columns() {
		all = append(all, leaves(child)...)
	}
	return all
}

func name(c *parquet.Column) string { return strings.Join(c.Path(), ".") }

// choose returns the columns of the given names.
func choose(leaves []*parquet.Column, names []string) ([]*parquet.Column, error) {
	byName := map[string]*parquet.Column{}
	known := make([]string, len(leaves))
	for i, l := range leaves {
		known[i] = name(l)
		byName[known[i]] = l
	}
	if len(names) < 2 {
		return nil, fmt.Errorf("no column is left for a feature; the columns are %q", known)
	}
	used := map[string]bool{}
	columns := make([]*parquet.Column, len(names))
	for i, n := range names {
		c := byName[n]
		switch {
		case c == nil:
			return nil, fmt.Errorf("there is no column %q; the columns are %q", n, known)
		case used[n]:
			return nil, fmt.Errorf("column %q is named twice; want a column once, as a feature or as the label", n)
		}
		if err := numeric(c); err != nil {
			return nil, err
		}
		used[n], columns[i] = true, c
	}
	return columns, nil
}

// Dims implements erm.Source.
func (s *Source) Dims() (records, features int) { return s.first[len(s.groups)], len(s.features) }

// Checksum returns a hash of the sizes, page indexes and footers of all files, which hold the
// positions of pages and the least and largest values of most. It does not read the records: files
// that differ inside a page only may have the same checksum. Not private: it depends on the
// records.
func (s *Source) Checksum() string { return "sha256:" + hex.EncodeToString(s.tails.Sum(nil)) }

// Features returns the names of the features.
func (s *Source) Features() []string { return append([]string(nil), s.features...) }

// Close closes the files. Reads after it fail.
func (s *Source) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.kept {
		p.close()
	}
	s.kept, s.most = nil, 0
	var errs []error
	for _, f := range s.files {
		errs = append(errs, f.Close())
	}
	s.files = nil
	return errors.Join(errs...)
}

// Read implements erm.Source.
func (s *Source) Read(ctx context.Context, rows, labels []float64, first int) error {
	n, d := s.Dims()
	count := len(labels)
	if len(rows) != count*d {
		return prefix.Errorf("parquet: len(rows) = %d for %d labels and %d features, want %d", len(rows), count, d, count*d)
	}
	if first < 0 || first > n || count > n-first {
		return prefix.Errorf("parquet: Read of %d records from number %d on, want records of the source", count, first)
	}
	columns := make([]column, d+1)
	for i := range columns {
		// Concurrent reads begin at different columns, so that they do not wait for each other at every
		// one.
		j := (i + first/erm.Chunk) % (d + 1)
		if err := s.gather(ctx, &columns[j], j, first, first+count); err != nil {
			return err
		}
	}
	const tile = 256 // records whose rows stay in the first cache
	for at := 0; at < count; at += tile {
		end := min(at+tile, count)
		for j := range d {
			columns[j].copy(rows[at*d+j:], d, end-at)
		}
		columns[d].copy(labels[at:], 1, end-at)
	}
	for j := range columns {
		s.served(columns[j].pages)
	}
	return nil
}

// column holds the parts of pages that a Read takes from one column.
type column struct {
	parts [][]float64
	pages []*page
}

// gather finds the values of records [first, end) of column j.
func (s *Source) gather(ctx context.Context, c *column, j, first, end int) error {
	for at := first; at < end; {
		if err := ctx.Err(); err != nil {
			return err
		}
		g := sort.SearchInts(s.first, at+1) - 1
		p, values, err := s.page(s.groups[g][j], at-s.first[g])
		if err != nil {
			return err
		}
		values = values[:min(len(values), end-at)]
		c.parts, c.pages = append(c.parts, values), append(c.pages, p)
		p.left.Add(-int64(len(values)))
		at += len(values)
	}
	return nil
}

// copy stores the next n values in dst, stride apart.
func (c *column) copy(dst []float64, stride, n int) {
	for k := 0; k < n; {
		m := min(n-k, len(c.parts[0]))
		for _, v := range c.parts[0][:m] {
			dst[k*stride] = v
			k++
		}
		if c.parts[0] = c.parts[0][m:]; len(c.parts[0]) == 0 {
			c.parts = c.parts[1:]
		}
	}
}
