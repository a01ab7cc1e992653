// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package main

import (
	"encoding/csv"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/privopt/privopt/cmd/privopt/cli"
	"github.com/privopt/privopt/parquetdata"
	"github.com/privopt/privopt/table"
)

// parquetFile is an open Parquet file of columns without structure.
type parquetFile struct {
	*parquet.File
	io.Closer
	names []string
	texts []func(parquet.Value) string
}

var errParquet = errors.New("the Parquet file is damaged")

func openParquet(path string) (*parquetFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, cli.Usagef("--data: %w", err)
	}
	opened, err := parquetdata.Parse(f)
	if err != nil {
		f.Close()
		return nil, cli.Usagef("--data: %s: %w", path, err)
	}
	p := &parquetFile{File: opened, Closer: f}
	for _, c := range opened.Root().Columns() {
		p.names, p.texts = append(p.names, c.Name()), append(p.texts, textOf(c))
	}
	return p, nil
}

// textOf returns how the values of a column are spelled in CSV, nil for types that are neither
// numbers nor text, such as lists, dates and decimals.
func textOf(c *parquet.Column) func(parquet.Value) string {
	if !c.Leaf() || c.Repeated() {
		return nil
	}
	var declared any // what a value means beyond its kind
	if l := c.Type().LogicalType(); l != nil && l.Value != nil {
		declared = l.Value
	}
	kind := c.Type().Kind()
	switch d := declared.(type) {
	case *format.IntType:
		return integerText(kind, d.IsSigned)
	case *format.StringType, *format.EnumType:
		return func(v parquet.Value) string { return string(v.ByteArray()) }
	case nil:
		switch kind {
		case parquet.Boolean:
			return func(v parquet.Value) string { return strconv.FormatBool(v.Boolean()) }
		case parquet.Float:
			return func(v parquet.Value) string { return strconv.FormatFloat(float64(v.Float()), 'g', -1, 64) }
		case parquet.Double:
			return func(v parquet.Value) string { return strconv.FormatFloat(v.Double(), 'g', -1, 64) }
		}
		return integerText(kind, true)
	}
	return nil
}

func integerText(kind parquet.Kind, signed bool) func(parquet.Value) string {
	switch {
	case kind == parquet.Int32 && signed:
		return func(v parquet.Value) string { return strconv.FormatInt(int64(v.Int32()), 10) }
	case kind == parquet.Int32:
		return func(v parquet.Value) string { return strconv.FormatUint(uint64(v.Uint32()), 10) }
	case kind == parquet.Int64 && signed:
		return func(v parquet.Value) string { return strconv.FormatInt(v.Int64(), 10) }
	case kind == parquet.Int64:
		return func(v parquet.Value) string { return strconv.FormatUint(v.Uint64(), 10) }
	}
	return nil
}

// holdsEncoded reports whether the columns of a Parquet file are the encoded ones of a schema, in
// any order. If the columns of the table have the same names, the kind of the file cannot be
// determined, which is an error.
func holdsEncoded(path string, t *cli.Table) (bool, error) {
	p, err := openParquet(path)
	if err != nil {
		return false, err
	}
	defer p.Close()
	s := t.Encoder.Schema()
	declared := []string{s.Label.Column}
	for _, c := range s.Columns {
		declared = append(declared, c.Name)
	}
	have, want := slices.Sorted(slices.Values(p.names)), slices.Sorted(slices.Values(t.Columns()))
	switch same := slices.Equal(have, want); {
	case !same:
		return false, nil
	case slices.Equal(have, slices.Sorted(slices.Values(declared))):
		return false, cli.Usagef("--data: %s: the columns of the table and the encoded ones have the same names, so that "+
			"it may hold either: want a .npy file, which privopt pack makes of the table as CSV", path)
	}
	return true, nil
}

// rawRows returns a function that reads a Parquet file with the columns of a table as CSV.
func rawRows(e *table.Encoder) func(path string) (io.ReadCloser, error) {
	missing := ""
	if m := e.Schema().Missing; len(m) > 0 && !slices.Contains(m, "") {
		missing = m[0]
	}
	return func(path string) (io.ReadCloser, error) {
		if strings.ToLower(filepath.Ext(path)) != ".parquet" {
			return nil, nil
		}
		p, err := openParquet(path)
		if err != nil {
			return nil, err
		}
		for i, text := range p.texts {
			if text == nil {
				p.Close()
				return nil, cli.Usagef("--data: %s: column %q has a type other than text, number or bool: write it as one of "+
					"these, or the table as CSV", path, p.names[i])
			}
		}
		r, w := io.Pipe()
		go func() { w.CloseWithError(p.writeCSV(w, missing)) }()
		return rowsReader{r, p}, nil
	}
}

// rowsReader is the CSV of a file.
type rowsReader struct {
	*io.PipeReader
	file io.Closer
}

func (r rowsReader) Close() error { return errors.Join(r.PipeReader.Close(), r.file.Close()) }

// writeCSV writes all records, a null as the given spelling.
func (p *parquetFile) writeCSV(w io.Writer, missing string) (err error) {
	defer func() {
		if recover() != nil {
			err = errParquet
		}
	}()
	out := csv.NewWriter(w)
	if err := out.Write(p.names); err != nil {
		return err
	}
	for _, g := range p.RowGroups() {
		if err := p.writeGroup(out, g, missing); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func (p *parquetFile) writeGroup(out *csv.Writer, g parquet.RowGroup, missing string) error {
	rows := g.Rows()
	defer rows.Close()
	batch, fields := make([]parquet.Row, 256), make([]string, len(p.names))
	for {
		n, err := rows.ReadRows(batch)
		for _, row := range batch[:n] {
			for _, v := range row {
				if v.IsNull() {
					fields[v.Column()] = missing
				} else {
					fields[v.Column()] = p.texts[v.Column()](v)
				}
			}
			if err := out.Write(fields); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return errParquet // its text may hold bytes of the file
		}
	}
}
