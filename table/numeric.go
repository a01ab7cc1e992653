// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package table

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
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
	Bounds loss.Bounds // declared, never measured
	// Fields names the columns in order of a file without a header line; nil means that the first line
	// holds them.
	Fields    []string
	Label     string // name of the label's column; "" means the last column
	Delimiter byte   // between fields; 0 means a comma
	Public    bool   // the table is public: errors may show values of fields
}

// ReadCSV reads all records of a table of comma-separated numbers (RFC 4180); one with a header
// line may be compressed by gzip. A header line alone gives data without records.
//
// The error wraps ErrTable for bounds that are not valid, no column named Label, and tables that
// Scan refuses. It shows names of columns, none of which is a number.
func (n Numeric) ReadCSV(r io.Reader) (*erm.Data, error) {
	if err := n.Bounds.Check(); err != nil {
		return nil, wrong("%w", err)
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

// Scan reads a table of numbers, one record at a time with the memory of a line; one with a header
// line may be compressed by gzip. Bounds and Label have no meaning here. It calls begin with the
// names of the columns, and record with the numbers of every record, which record may change.
//
// The error is that of begin or record, or wraps ErrTable for a file that is not a table of
// numbers: no header line and no Fields, an empty or repeated name, fewer than two columns, another
// number of fields than columns, broken quotes, a last line without a line end, or a field that is
// no number, such as the empty one ("NaN" is a missing value). It shows no name: the header line
// may be a record.
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
	t, err := newText(r, comma, 0, n.Public || n.Fields == nil)
	if err != nil {
		return err
	}
	t.single = true
	names, err := n.names(t)
	if err != nil {
		return err
	}
	if err := begin(names); err != nil {
		return err
	}
	t.every, t.ended = true, !n.Public
	row := make([]float64, len(names))
	for {
		fields, err := t.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
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
}

// names returns the names of the columns, Fields or those of the header line.
func (n Numeric) names(t *text) ([]string, error) {
	place := "Fields"
	var fields [][]byte
	for _, s := range n.Fields {
		fields = append(fields, []byte(s))
	}
	if n.Fields == nil {
		var err error
		if fields, err = t.names("a header line"); err != nil {
			return nil, err
		}
		place = fmt.Sprintf("line %d", t.line)
	}
	if len(fields) < 2 {
		hint := ""
		if c := t.instead(fields, nil); c != "" {
			hint = fmt.Sprintf("; %q may be what separates them", c)
		}
		return nil, wrong("%s: 1 column, want at least one feature and the label separated by %q%s", place, t.comma, hint)
	}
	names := make([]string, len(fields))
	if err := headerNames(names, fields, place); err != nil {
		return nil, err
	}
	if rowNumbers(0, names[0]) {
		return nil, wrong("%s: column 1 has no name: if it numbers the rows, leave it out", place)
	}
	return names, nil
}

func (n Numeric) notANumber(line, j int, name string, field []byte) error {
	if name != "" {
		name = " (" + quote(name) + ")"
	}
	return wrong("line %d, column %d%s: %s, want a number, NaN for a missing one", line, j+1, name,
		shown(field, n.Public, nil))
}

// headerNames stores the names of the columns, of which only that of row numbers may be empty.
// Errors do not show them: the line may be a record.
func headerNames(names []string, fields [][]byte, place string) error {
	seen := make(map[string]int, len(fields))
	for j, f := range fields {
		s := string(f)
		first, twice := seen[s]
		_, isNumber := number(f)
		switch {
		case s == "" && !rowNumbers(j, s):
			return wrong("%s: column %d has no name, want one", place, j+1)
		case !utf8.ValidString(s):
			return wrong("%s: the name of column %d is not UTF-8, want text that is", place, j+1)
		case twice:
			return wrong("%s: columns %d and %d have the same name, want different ones", place, first+1, j+1)
		case isNumber:
			return wrong("%s: the name of column %d is a number: if the file has no header line, do not declare one", place,
				j+1)
		}
		names[j], seen[s] = s, j
	}
	return nil
}
