// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package beam

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/table/npy"
	"github.com/privopt/privopt/table/parquet"
)

// dataset names files of records and describes their contents as the driver found them, so that
// workers open only the files that they need and refuse other files.
type dataset struct {
	Paths    []string
	Sums     []string // checksums of the files
	Label    string   // of Parquet files
	Features []string
	Dim      int   // of the files
	Width    int   // of the records: the rest is 0
	First    []int // number of the first record of every file, and of all records at the end
}

// files are the records of a dataset, one file after the other. A file is opened when it is first
// read.
type files struct {
	dataset
	mu   sync.Mutex
	open []source
}

type source interface {
	erm.Source
	io.Closer
	Checksum() string
}

// count opens all files to learn their sizes.
func count(ctx context.Context, d dataset) (*files, error) {
	f := &files{dataset: d}
	f.First = []int{0}
	for i := range d.Paths {
		if err := ctx.Err(); err != nil {
			f.Close()
			return nil, fmt.Errorf("beam: %w", err)
		}
		src, err := f.file(i)
		if err != nil {
			f.Close()
			return nil, err
		}
		n, _ := src.Dims()
		f.First, f.Sums = append(f.First, f.First[i]+n), append(f.Sums, src.Checksum())
	}
	return f, nil
}

// file returns file i, and opens it if necessary.
func (f *files) file(i int) (source, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == nil {
		f.open = make([]source, len(f.Paths))
	}
	if f.open[i] == nil {
		src, names, err := open(f.Paths[i], f.Label, f.Features)
		if err != nil {
			return nil, fmt.Errorf("beam: %w", err)
		}
		if err := f.fits(i, src, names); err != nil {
			src.Close()
			return nil, err
		}
		f.open[i] = src
	}
	return f.open[i], nil
}

// openAll opens the files that hold the records first, …, first+count−1.
func (f *files) openAll(first, count int) error {
	for i := range f.Paths {
		if max(first, f.First[i]) < min(first+count, f.First[i+1]) {
			if _, err := f.file(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// open opens one file and returns the names of its features.
func open(path, label string, features []string) (source, []string, error) {
	if strings.EqualFold(filepath.Ext(path), ".npy") {
		src, err := npy.Open(path)
		if err != nil {
			return nil, nil, err
		}
		if src.Checksum() == "" {
			src.Close()
			return nil, nil, fmt.Errorf("%s has no sidecar %s.json with checksums, by which workers compare their file with "+
				"that of the driver; want a file that privopt pack or npy.Create wrote, with its sidecar", path, path)
		}
		names := src.Columns()
		return src, slices.DeleteFunc(names, func(n string) bool { return n == src.Label() }), nil
	}
	src, err := parquet.Open(parquet.Options{Label: label, Features: features}, path)
	if err != nil {
		return nil, nil, err
	}
	return src, src.Features(), nil
}

// fits compares file i with the first file, and with its checksum in the driver.
func (f *files) fits(i int, src source, names []string) error {
	if f.Dim == 0 { // the driver, the first file
		_, f.Dim = src.Dims()
		f.Width, f.Features = max(f.Width, f.Dim), names
	}
	switch {
	case !slices.Equal(names, f.Features):
		return fmt.Errorf("beam: %s has the features %q and %s has %q; want files of the same columns in the same order",
			f.Paths[i], names, f.Paths[0], f.Features)
	case i < len(f.Sums) && src.Checksum() != f.Sums[i]:
		return fmt.Errorf("beam: the checksum of %s differs from that of the driver: want the same file, or a copy of it",
			f.Paths[i])
	}
	return nil
}

// Dims implements erm.Source.
func (f *files) Dims() (records, features int) { return f.First[len(f.Paths)], f.Width }

// Read implements erm.Source.
func (f *files) Read(ctx context.Context, rows, labels []float64, first int) error {
	n, d := f.Dims()
	if first < 0 || first > n || len(labels) > n-first || len(rows) != len(labels)*d {
		return fmt.Errorf("beam: Read of %d labels and %d numbers of rows, want records of the source and %d numbers for "+
			"each", len(labels), len(rows), d)
	}
	for len(labels) > 0 {
		i := sort.SearchInts(f.First, first+1) - 1
		src, err := f.file(i)
		if err != nil {
			return err
		}
		m := min(len(labels), f.First[i+1]-first)
		if err := erm.Pad(src, d).Read(ctx, rows[:m*d], labels[:m], first-f.First[i]); err != nil {
			return err
		}
		rows, labels = rows[m*d:], labels[m:]
		first = first + m
	}
	return nil
}

// Close closes the files that are open.
func (f *files) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for i, src := range f.open {
		if src != nil {
			errs = append(errs, src.Close())
			f.open[i] = nil
		}
	}
	return errors.Join(errs...)
}

// PersonBegins returns the first record of the file of record i: the lines of a person are in one
// file. See erm.Fold.
func (f *files) PersonBegins(i int) int { return f.First[sort.SearchInts(f.First, i+1)-1] }
