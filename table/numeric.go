// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package table

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/loss"
)

// Numeric reads tables of numbers that need no encoding. Rows beyond the declared bounds are scaled
// into them, as [erm.Data] describes.
//
// Numbers are "NaN", or a decimal, "Inf" or "Infinity" with an optional sign; a number too large
// for float64, such as 1e400, is infinite. An empty line behind the header is a record of zeros, so
// that no edit of one line changes the number of records.
type Numeric struct {
	Bounds    loss.Bounds // declared, never measured
	Header    bool        // the first line holds names
	Label     string      // name of the label's column, with Header; "" means the last column
	Delimiter byte        // between fields; 0 means a comma
	Public    bool        // the table is public: errors may show values of fields
}

// ReadCSV reads all records of a table of comma-separated numbers (RFC 4180), plain or compressed
// by gzip. A header line alone gives data without records.
//
// The error wraps ErrTable for bounds that are not valid, no column named Label, and tables that
// Scan refuses. It shows names of columns, none of which is a number.
func (n Numeric) ReadCSV(r io.Reader) (*erm.Data, error) {
	if err := n.Bounds.Check(); err != nil {
		return nil, wrong("%w", err)
	}
	if n.Label != "" && !n.Header {
		return nil, wrong("Label = %s needs names: set Header, or leave Label empty for the last column", quote(n.Label))
	}
	var b *erm.Builder
	var label int
	err := n.scan(r, true, func(names []string) (err error) {
		if label = len(names) - 1; n.Label != "" {
			label = slices.Index(names, n.Label)
		}
		if label < 0 {
			return wrong("no column is named %s; the columns are %s", quote(n.Label), list(names))
		}
		if b, err = erm.NewBuilder(len(names)-1, false, n.Bounds); err != nil {
			return wrong("%w", err)
		}
		return nil
	}, func(row []float64) error {
		y := row[label]
		copy(row[label:], row[label+1:])
		b.Add(row[:len(row)-1], y)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return b.Data(), nil
}

// Scan reads a table of numbers, plain or compressed by gzip, one record at a time with the memory
// of a line. Bounds and Label have no meaning here. It calls begin with the names of the columns,
// which are empty without Header, and record with the numbers of every record, which record may
// change.
//
// The error is that of begin or record, or wraps ErrTable for a file that is not a table of
// numbers: no header where one is declared, an empty or repeated name, fewer than two columns,
// another number of fields than columns, broken quotes, or a field that is no number, such as the
// empty one ("NaN" is a missing value). It shows no name: the header line may be a record.
func (n Numeric) Scan(r io.Reader, begin func(names []string) error, record func(row []float64) error) error {
	return n.scan(r, false, begin, record)
}

// scan is Scan whose errors may show the name of a column.
func (n Numeric) scan(r io.Reader, show bool, begin func(names []string) error,
	record func(row []float64) error) error {
	comma := cmp.Or(n.Delimiter, ',')
	if !validComma(comma) {
		return wrong("Delimiter = %q, want a sign such as ',', ';' or '\\t'", comma)
	}
	t, err := newText(r, comma, 0)
	if err != nil {
		return err
	}
	t.single = true
	want := "a header line"
	if !n.Header {
		want += " or a record: without one its columns are not known"
	}
	fields, err := t.header(want)
	switch {
	case err != nil:
		return err
	case len(fields) < 2:
		return wrong("line %d: 1 column, want at least one feature and the label separated by %q", t.line, comma)
	}
	t.every = true
	// empty counts the empty lines above the first one, which are records unless it is a header.
	names, empty := make([]string, len(fields)), t.line-1
	if n.Header {
		empty = 0
		if err := headerNames(names, fields, t.line); err != nil {
			return err
		}
		fields, err = t.next()
	}
	if err := begin(names); err != nil {
		return err
	}
	row := make([]float64, len(names))
	for range empty {
		clear(row)
		if err := record(row); err != nil {
			return err
		}
	}
	for ; err == nil; fields, err = t.next() {
		if len(fields) == 0 {
			clear(row)
		} else if len(fields) != len(names) {
			return wrong("line %d: %s, want %d", t.line, count(len(fields), "field"), len(names))
		}
		for j, f := range fields {
			v, ok := number(f)
			if !ok {
				name := ""
				if show {
					name = names[j]
				}
				return n.notANumber(t.line, j, name, f)
			}
			row[j] = v
		}
		if err := record(row); err != nil {
			return err
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (n Numeric) notANumber(line, j int, name string, field []byte) error {
	if name != "" {
		name = " (" + quote(name) + ")"
	}
	return wrong("line %d, column %d%s: %s, want a number, NaN for a missing one", line, j+1, name,
		shown(field, n.Public, nil))
}

// headerNames stores the names of the columns. Errors do not show them: the line may be a record.
func headerNames(names []string, fields [][]byte, line int) error {
	seen := make(map[string]int, len(fields))
	for j, f := range fields {
		s := string(f)
		first, twice := seen[s]
		_, isNumber := number(f)
		switch {
		case s == "":
			return wrong("line %d: column %d has no name, want one", line, j+1)
		case !utf8.ValidString(s):
			return wrong("line %d: the name of column %d is not UTF-8, want text that is", line, j+1)
		case twice:
			return wrong("line %d: columns %d and %d have the same name, want different ones", line, first+1, j+1)
		case isNumber:
			return wrong("line %d: the name of column %d is a number: if the file has no header line, do not declare one", line,
				j+1)
		}
		names[j], seen[s] = s, j
	}
	return nil
}

// ReadLIBSVM reads records of dim features in the format of LIBSVM, a line "label index:value …"
// each, with increasing indices from 1 to dim. Features that are not listed are 0, and text behind
// # is a comment. A line without anything else is a record of zeros. It keeps sparse rows. Header,
// Label and Delimiter have no meaning here; the error is that of ReadCSV.
func (n Numeric) ReadLIBSVM(r io.Reader, dim int) (*erm.Data, error) {
	b, err := erm.NewBuilder(dim, true, n.Bounds)
	if err != nil {
		return nil, wrong("%w", err)
	}
	t, err := newText(r, ',', 0)
	if err != nil {
		return nil, err
	}
	var col []int32
	var val []float64
	for {
		line, err := t.read()
		if errors.Is(err, io.EOF) {
			return b.Data(), nil
		}
		if err != nil {
			return nil, err
		}
		if k := bytes.IndexByte(line, '#'); k >= 0 {
			line = line[:k]
		}
		var y float64
		y, col, val, err = n.libsvm(t.ahead, line, dim, col[:0], val[:0])
		if err != nil {
			return nil, err
		}
		b.AddSparse(col, val, y)
	}
}

// libsvm parses a line and appends its entries.
func (n Numeric) libsvm(
	line int, text []byte, dim int, col []int32, val []float64,
) (y float64, _ []int32, _ []float64, err error) {
	last, j := 0, 0
	for part := range bytes.FieldsSeq(text) {
		if j++; j == 1 {
			var ok bool
			if y, ok = number(part); !ok {
				return 0, nil, nil, n.notANumber(line, 0, "the label", part)
			}
			continue
		}
		before, after, _ := bytes.Cut(part, []byte{':'})
		index, err := strconv.Atoi(string(before))
		v, ok := number(after)
		switch {
		case err != nil || !ok:
			return 0, nil, nil, wrong("line %d, entry %d: want index:value, two numbers", line, j-1)
		case index < 1 || index > dim:
			return 0, nil, nil, wrong("line %d, entry %d: the index is outside 1 to %d, the declared dimension", line, j-1, dim)
		case index <= last:
			return 0, nil, nil, wrong("line %d, entry %d: the index does not exceed that of the entry before, want "+
				"increasing indices", line, j-1)
		}
		last = index
		col, val = append(col, int32(index-1)), append(val, v)
	}
	return y, col, val, nil
}
