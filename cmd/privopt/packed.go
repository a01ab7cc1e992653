package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/npy"
	"github.com/privopt/privopt/table"
)

// isPacked reports whether --data names a .npy file, by its name or its first bytes.
func isPacked(path string) bool {
	if filepath.Ext(path) == ".npy" {
		return true
	}
	info, err := os.Stat(path)
	if path == "-" || err != nil || !info.Mode().IsRegular() { // a pipe would lose what is read
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var start [6]byte
	_, err = io.ReadFull(f, start[:])
	return err == nil && string(start[:]) == "\x93NUMPY"
}

// opener returns what the records of a file are read from, and what closes it.
type opener func(f *npy.File, src erm.Source) (erm.Source, func() error, error)

// openPacked opens a .npy file of the rows that e makes.
func openPacked(path string, e *table.Encoder, source opener) (*records, error) {
	f, err := npy.Open(path)
	if err != nil {
		return nil, usagef("--data: %w", err)
	}
	if err := matches(f, e); err != nil {
		f.Close()
		return nil, usagef("--data: %s: %w", path, err)
	}
	src, end, err := source(f, padded(f, e.Dim()))
	if err != nil {
		f.Close()
		return nil, err
	}
	data, err := erm.Open(src, e.Bounds())
	if err != nil {
		return nil, errors.Join(err, end())
	}
	return &records{&table.Data{Records: data, Encoder: e}, end}, nil
}

// alone is the source of those who read the file themselves.
func alone(f *npy.File, src erm.Source) (erm.Source, func() error, error) { return src, f.Close, nil }

// matches refuses files of other columns than those of e.
func matches(f *npy.File, e *table.Encoder) error {
	_, d := f.Dims()
	switch want := encoding(e); {
	case f.Columns() != nil && f.Schema() == "":
		return fmt.Errorf("it was packed without a schema: pack it with this one")
	case f.Columns() != nil && f.Schema() != want:
		return fmt.Errorf("it was packed with a schema that encodes rows in another way: pack it with this one")
	case d != len(e.Features()):
		return fmt.Errorf("it has %d features, the rows of the schema have %d", d, len(e.Features()))
	}
	return nil
}

// padded returns a source of dim features, those of f and zeros: package loss wants rows of a
// label with classes as long as θ.
func padded(f *npy.File, dim int) erm.Source {
	if _, d := f.Dims(); d == dim {
		return f
	}
	return padding{f, dim}
}

type padding struct {
	f   *npy.File
	dim int
}

func (p padding) Dims() (records, features int) { n, _ := p.f.Dims(); return n, p.dim }

func (p padding) Read(ctx context.Context, rows, labels []float64, first int) error {
	_, d := p.f.Dims()
	if err := p.f.Read(ctx, rows[:d*len(labels)], labels, first); err != nil {
		return err
	}
	for i := len(labels) - 1; i >= 0; i-- { // from the last: a row moves to where no row is left
		row := rows[i*p.dim : (i+1)*p.dim]
		copy(row, rows[i*d:(i+1)*d])
		clear(row[d:])
	}
	return nil
}
