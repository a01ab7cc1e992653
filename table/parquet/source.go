// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package parquet reads Parquet files: tables of mixed columns as CSV for package table, and
// records as an erm.Source, so that a problem can be solved over more records than memory holds.
//
//	o := parquet.Options{Label: "income"}
//	src, err := parquet.Open(o, "part-0.parquet", "part-1.parquet")
//	data, err := erm.Open(src, loss.Bounds{Row: 1, Label: 1})
//
// The files are read by column and page, never row by row. A pass over a Parquet file costs more
// processor time than one over a .npy file of the same records; privopt pack converts. Records that
// are read in order cost least. With a page index, a read elsewhere decodes the page it begins in;
// without one, the default of several writers, the row group from its start.
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
	"math"
	"os"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync"
	"syscall"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

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

	mu   sync.Mutex
	idle []*cursor // at most most, those used last at the end; nil after Close
	most int
}

// group is a row group: one chunk for every feature, then the label.
type group struct {
	chunks   []parquet.ColumnChunk
	unsigned []bool
	place    string // for errors
}

// cursor reads a row group from a row on.
type cursor struct {
	group   *group
	row     int
	columns []*column
}

// column reads the values of a column chunk in order.
type column struct {
	pages    parquet.Pages
	page     parquet.Page
	values   parquet.ValueReader // of page, nil between pages
	unsigned bool
}

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
	s.idle, s.most = []*cursor{}, 2*runtime.GOMAXPROCS(0)+2
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
		made := group{place: fmt.Sprintf("%s: row group %d", path, i)}
		for _, c := range columns {
			if c.Index() >= len(g.ColumnChunks()) {
				return fmt.Errorf("%w: %s has no column %q; the file is damaged", ErrFile, made.place, name(c))
			}
			unsigned, _ := integer(c.Type())
			made.chunks = append(made.chunks, g.ColumnChunks()[c.Index()])
			made.unsigned = append(made.unsigned, unsigned)
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
	for _, c := range s.idle {
		c.close()
	}
	s.idle = nil
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
	for len(labels) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		g := sort.SearchInts(s.first, first+1) - 1
		m := min(len(labels), s.first[g+1]-first)
		c := s.take(&s.groups[g], first-s.first[g])
		if err := c.read(rows[:m*d], labels[:m], first-s.first[g]); err != nil {
			c.close()
			return fmt.Errorf("%w: %s: %w", ErrFile, c.group.place, err)
		}
		s.keep(c)
		rows, labels = rows[m*d:], labels[m:]
		first += m
	}
	return nil
}

// take returns a cursor of g at or before row, the nearest of those that are idle.
func (s *Source) take(g *group, row int) *cursor {
	s.mu.Lock()
	defer s.mu.Unlock()
	best := -1
	for i, c := range s.idle {
		if c.group == g && c.row <= row && (best < 0 || c.row > s.idle[best].row) {
			best = i
		}
	}
	if best >= 0 {
		c := s.idle[best]
		s.idle = slices.Delete(s.idle, best, best+1)
		return c
	}
	c := &cursor{group: g}
	for j, k := range g.chunks {
		c.columns = append(c.columns, &column{pages: k.Pages(), unsigned: g.unsigned[j]})
	}
	return c
}

// keep makes c idle, and closes the cursor that was used first if there are too many.
func (s *Source) keep(c *cursor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idle == nil {
		c.close()
		return
	}
	if s.idle = append(s.idle, c); len(s.idle) > s.most {
		s.idle[0].close()
		s.idle = slices.Delete(s.idle, 0, 1)
	}
}

func (c *cursor) close() {
	for _, k := range c.columns {
		k.pages.Close() // a buffer in memory: there is nothing to fail
	}
}

// read reads records from the given row on, and moves the cursor behind them.
func (c *cursor) read(rows, labels []float64, row int) (err error) {
	defer func() {
		if recover() != nil {
			err = errDamaged
		}
	}()
	d, buffer := len(c.columns)-1, make([]float64, 512)
	for j, k := range c.columns {
		skip := row - c.row
		if skip > erm.Chunk { // a seek decodes the page of the row again
			if err := k.seek(row); err != nil {
				return err
			}
			skip = 0
		}
		for at := -skip; at < len(labels); {
			n, err := k.read(buffer[:min(len(buffer), len(labels)-at)])
			if err != nil {
				return err
			}
			for i, v := range buffer[:n] {
				switch {
				case at+i < 0:
				case j == d:
					labels[at+i] = v
				default:
					rows[(at+i)*d+j] = v
				}
			}
			at += n
		}
	}
	c.row = row + len(labels)
	return nil
}

// seek moves to a row.
func (k *column) seek(row int) error {
	k.values = nil
	if err := k.pages.SeekToRow(int64(row)); err != nil {
		return public(err)
	}
	return nil
}

// read reads at least one value.
func (k *column) read(dst []float64) (int, error) {
	for {
		if k.values == nil {
			page, err := k.pages.ReadPage()
			if err == io.EOF {
				return 0, errors.New("the pages hold fewer rows than the footer says")
			} else if err != nil {
				return 0, public(err)
			}
			k.page, k.values = page, page.Values()
		}
		n, err := k.some(dst)
		if n > 0 {
			return n, nil
		}
		if err != io.EOF {
			return 0, public(err)
		}
		parquet.Release(k.page)
		k.values = nil
	}
}

// some reads values of the page.
func (k *column) some(dst []float64) (int, error) {
	if r, ok := k.values.(parquet.DoubleReader); ok { // without nulls and dictionary, the fastest
		return r.ReadDoubles(dst)
	}
	var buffer [512]parquet.Value
	n, err := k.values.ReadValues(buffer[:min(len(dst), len(buffer))])
	for i, v := range buffer[:n] {
		dst[i] = number(v, k.unsigned)
	}
	return n, err
}

// number returns a value as float64, NaN for a null.
func number(v parquet.Value, unsigned bool) float64 {
	switch {
	case v.IsNull():
		return math.NaN()
	case v.Kind() == parquet.Double:
		return v.Double()
	case v.Kind() == parquet.Float:
		return float64(v.Float())
	case v.Kind() == parquet.Boolean:
		if v.Boolean() {
			return 1
		}
		return 0
	case v.Kind() == parquet.Int32 && unsigned:
		return float64(v.Uint32())
	case v.Kind() == parquet.Int32:
		return float64(v.Int32())
	case unsigned:
		return float64(v.Uint64())
	}
	return float64(v.Int64())
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

var errDamaged = errors.New("a page is damaged")

// public returns errors of the operating system unchanged. Other errors of the library may hold a
// value of a record, and become errDamaged.
func public(err error) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return path
	}
	return errDamaged
}
