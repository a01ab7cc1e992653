// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package parquet

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// rows is an open Parquet file of columns without structure.
type rows struct {
	*parquet.File
	io.Closer
	names []string
	texts []func(parquet.Value) string // nil for types that have no text
}

// openRows opens a file. The error is that of the system, or wraps ErrFile.
func openRows(path string) (*rows, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	opened, err := parse(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%w: %s: %w", ErrFile, path, err)
	}
	r := &rows{File: opened, Closer: f}
	for _, c := range opened.Root().Columns() {
		r.names, r.texts = append(r.names, c.Name()), append(r.texts, textOf(c))
	}
	return r, nil
}

// Columns returns the names of the columns of a Parquet file. The error is that of the system, or
// wraps ErrFile.
func Columns(path string) ([]string, error) {
	r, err := openRows(path)
	if err != nil {
		return nil, err
	}
	return r.names, r.Close()
}

// CSV reads a Parquet file as comma-separated values with a header line, the form of
// table.Options.Plain. Each row is one record, a function of that row alone. A null has the given
// spelling, numbers and bools are as Go writes them, decimals are plain digits, dates have the
// layout 2006-01-02, and times 2006-01-02T15:04:05 in UTC with a fraction if there is one. Close
// the reader after its last use.
//
// The error is that of the system, wraps ErrOptions for a column of a type that has no text, such
// as a list, or ErrFile, also from reads; none holds a value of a record.
func CSV(path, null string) (io.ReadCloser, error) {
	r, err := openRows(path)
	if err != nil {
		return nil, err
	}
	for i, text := range r.texts {
		if text == nil {
			r.Close()
			return nil, fmt.Errorf("%w: %s: column %q has a type other than text, number, bool, date or time: write it as one "+
				"of these, or the table as CSV", ErrOptions, path, r.names[i])
		}
	}
	out, in := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		in.CloseWithError(r.write(in, null))
	}()
	return &reader{out, r, done}, nil
}

// reader is the text of a file.
type reader struct {
	*io.PipeReader
	file io.Closer
	done chan struct{} // closed when the file is used no more
}

// Close ends the reading.
func (r *reader) Close() error {
	r.PipeReader.Close()
	<-r.done
	return r.file.Close()
}

// textOf returns how the values of a column are spelled, nil for types that have no text.
func textOf(c *parquet.Column) func(parquet.Value) string {
	if !c.Leaf() || c.Repeated() {
		return nil
	}
	kind := c.Type().Kind()
	if l := c.Type().LogicalType(); l != nil && l.Value != nil { // what a value means beyond its kind
		return declaredText(kind, l.Value)
	}
	switch kind {
	case parquet.Boolean:
		return func(v parquet.Value) string { return strconv.FormatBool(v.Boolean()) }
	case parquet.Float:
		return func(v parquet.Value) string { return strconv.FormatFloat(float64(v.Float()), 'g', -1, 64) }
	case parquet.Double:
		return func(v parquet.Value) string { return strconv.FormatFloat(v.Double(), 'g', -1, 64) }
	case parquet.Int32, parquet.Int64:
		return integerText(kind, true)
	case parquet.Int96: // nanoseconds of a Julian day, as Spark writes times
		return func(v parquet.Value) string {
			words := v.Int96()
			nanos := int64(words[0]) | int64(words[1])<<32
			return timeText(time.Unix((int64(words[2])-2440588)*86400, nanos))
		}
	}
	return nil
}

func declaredText(kind parquet.Kind, meaning any) func(parquet.Value) string {
	switch d := meaning.(type) {
	case *format.IntType:
		return integerText(kind, d.IsSigned)
	case *format.StringType, *format.EnumType:
		return func(v parquet.Value) string { return string(v.ByteArray()) }
	case *format.DateType:
		return func(v parquet.Value) string { return time.Unix(int64(v.Int32())*86400, 0).UTC().Format(time.DateOnly) }
	case *format.TimestampType:
		if d.Unit.Value == nil {
			return nil
		}
		unit := int64(d.Unit.Value.Duration())
		return func(v parquet.Value) string {
			second := int64(time.Second) / unit
			return timeText(time.Unix(v.Int64()/second, v.Int64()%second*unit))
		}
	case *format.DecimalType:
		return decimalText(kind, int(d.Scale))
	}
	return nil
}

func timeText(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.999999999") }

func integerText(kind parquet.Kind, signed bool) func(parquet.Value) string {
	switch {
	case kind == parquet.Int32 && signed:
		return func(v parquet.Value) string { return strconv.FormatInt(int64(v.Int32()), 10) }
	case kind == parquet.Int32:
		return func(v parquet.Value) string { return strconv.FormatUint(uint64(v.Uint32()), 10) }
	case signed:
		return func(v parquet.Value) string { return strconv.FormatInt(v.Int64(), 10) }
	}
	return func(v parquet.Value) string { return strconv.FormatUint(v.Uint64(), 10) }
}

// decimalText spells integers divided by 10^scale. Those of bytes are big-endian in two's
// complement.
func decimalText(kind parquet.Kind, scale int) func(parquet.Value) string {
	if scale < 0 || scale > 100 {
		return nil
	}
	return func(v parquet.Value) string {
		n := new(big.Int)
		switch kind {
		case parquet.Int32:
			n.SetInt64(int64(v.Int32()))
		case parquet.Int64:
			n.SetInt64(v.Int64())
		default:
			b := v.ByteArray()
			if n.SetBytes(b); len(b) > 0 && b[0] >= 0x80 {
				n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
			}
		}
		if scale == 0 {
			return n.String()
		}
		sign := ""
		if n.Sign() < 0 {
			sign = "-"
		}
		digits := n.Abs(n).String()
		digits = strings.Repeat("0", max(0, scale+1-len(digits))) + digits
		return sign + digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
	}
}

// write writes all records, a null in the given spelling.
func (r *rows) write(w io.Writer, null string) (err error) {
	defer func() {
		if recover() != nil {
			err = fmt.Errorf("%w: %w", ErrFile, errDamaged)
		}
	}()
	out := csv.NewWriter(w)
	if err := out.Write(r.names); err != nil {
		return err
	}
	for _, g := range r.RowGroups() {
		if err := r.writeGroup(out, g, null); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func (r *rows) writeGroup(out *csv.Writer, g parquet.RowGroup, null string) error {
	in := g.Rows()
	defer in.Close()
	batch, fields := make([]parquet.Row, 256), make([]string, len(r.names))
	for {
		n, err := in.ReadRows(batch)
		for _, row := range batch[:n] {
			for _, v := range row {
				if v.IsNull() {
					fields[v.Column()] = null
				} else {
					fields[v.Column()] = r.texts[v.Column()](v)
				}
			}
			if err := out.Write(fields); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("%w: %w", ErrFile, errDamaged) // its text may hold bytes of the file
		}
	}
}
