package erm

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/privopt/privopt/loss"
)

// CSV reads records from comma-separated values (RFC 4180) with a header line:
// one column is the label, all others are features. A byte order mark, CRLF
// line ends, quoted fields, blanks around numbers and empty lines are accepted.
type CSV struct {
	// Label is the header name of the label's column; "" means the last column.
	Label string
	// Comma separates fields; 0 means ','.
	Comma rune
}

// ReadCSV reads records whose label is the last column, as CSV.Read does.
func ReadCSV(r io.Reader, b loss.Bounds) (*Data, error) { return CSV{}.Read(r, b) }

// Read reads all records and forces each into the bounds, as Data describes.
//
// Numbers are "NaN", or a decimal, "Inf" or "Infinity" with an optional sign;
// one that is too large for float64, such as 1e400, is infinite. What a record
// becomes depends on that record alone, see Data.
//
// Read returns an error wrapping ErrData if the text is not a table of numbers:
// no header, an empty or repeated column name, no column named Label, no
// records, another number of fields than columns, broken quotes, or a field
// that is no number (also the empty one: "NaN" is the way to write a missing
// value). It names the line and the column, never the field itself. Such an
// error is a function of the private file: fix the file, and report no error
// where the file's form is itself secret.
//
// Read streams: it holds the n×d numbers (twice while their slice grows) and a
// line.
func (c CSV) Read(r io.Reader, b loss.Bounds) (*Data, error) {
	if err := b.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrData, err)
	}
	if r == nil {
		return nil, fmt.Errorf("%w: CSV: the reader is nil", ErrData)
	}
	text := bufio.NewReader(r)
	if bom, _ := text.Peek(3); string(bom) == "\ufeff" {
		text.Discard(3)
	}
	in := csv.NewReader(text)
	in.ReuseRecord = true
	if c.Comma != 0 {
		in.Comma = c.Comma
	}
	header, err := in.Read()
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%w: CSV: the file is empty, want a header line and records", ErrData)
	case err != nil:
		return nil, syntax(err)
	}
	names := make([]string, len(header))
	copy(names, header)
	at, public, err := c.columns(names)
	if err != nil {
		return nil, err
	}
	d := len(names) - 1
	rec := newRecords(d, d, false, b)
	scratch := make([]float64, d)
	for {
		fields, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, syntax(err)
		}
		into, label := rec.open(0), 0.0
		start := len(into.x)
		for j, field := range fields {
			v, ok := number(field)
			if !ok {
				line, col := in.FieldPos(j)
				field := ""
				if public {
					field = " " + name(names, j)
				}
				return nil, fmt.Errorf("%w: CSV: line %d, column %d: field%s is not a number", ErrData, line, col, field)
			}
			if j == at {
				label = v
			} else {
				into.x = append(into.x, v)
			}
		}
		rec.seal(into, into.x[start:], label, scratch)
	}
	if rec.n == 0 {
		return nil, fmt.Errorf("%w: CSV: no records after the header line", ErrData)
	}
	return canonical(rec), nil
}

// columns checks the header, trims its names and returns the position of the
// label. The names are public unless one of them is a number: then the line
// may be a record, whose values must not be echoed.
func (c CSV) columns(names []string) (at int, public bool, err error) {
	if len(names) < 2 {
		return 0, false, fmt.Errorf("%w: CSV: line 1: 1 column, want at least one feature and the label separated by %q", ErrData, c.comma())
	}
	numbers := 0
	seen := make(map[string]int, len(names))
	at = -1
	for j, s := range names {
		s = strings.TrimSpace(s)
		if !utf8.ValidString(s) {
			return 0, false, fmt.Errorf("%w: CSV: line 1: the name of column %d is not UTF-8", ErrData, j+1)
		}
		if s == "" {
			return 0, false, fmt.Errorf("%w: CSV: line 1: column %d has no name", ErrData, j+1)
		}
		if k, ok := seen[s]; ok {
			return 0, false, fmt.Errorf("%w: CSV: line 1: columns %d and %d have the same name", ErrData, k+1, j+1)
		}
		if _, ok := number(s); ok {
			numbers++
		}
		if s == c.Label {
			at = j
		}
		names[j], seen[s] = s, j
	}
	if numbers == len(names) {
		return 0, false, fmt.Errorf("%w: CSV: line 1: all names are numbers, want a header line", ErrData)
	}
	switch {
	case at >= 0:
		return at, numbers == 0, nil
	case c.Label == "":
		return len(names) - 1, numbers == 0, nil
	case numbers > 0:
		return 0, false, fmt.Errorf("%w: CSV: line 1: no column is named %q; some names are numbers: is the header line missing?", ErrData, c.Label)
	}
	return 0, false, fmt.Errorf("%w: CSV: line 1: no column is named %q; the columns are %s", ErrData, c.Label, list(names))
}

func (c CSV) comma() rune {
	if c.Comma == 0 {
		return ','
	}
	return c.Comma
}

// number parses a field. Out of range means ±Inf or 0. Hexadecimal floats and
// digit separators, which strconv knows, are no numbers in a table.
func number(field string) (v float64, ok bool) {
	field = strings.TrimSpace(field)
	if strings.ContainsAny(field, "xX_") {
		return 0, false
	}
	v, err := strconv.ParseFloat(field, 64)
	return v, err == nil || errors.Is(err, strconv.ErrRange)
}

// syntax wraps an error of encoding/csv or of the reader. Those of csv name
// positions and a reason, never a field.
func syntax(err error) error {
	var p *csv.ParseError
	if !errors.As(err, &p) {
		return fmt.Errorf("%w: CSV: %w", ErrData, err)
	}
	return fmt.Errorf("%w: CSV: line %d, column %d: %w", ErrData, p.Line, p.Column, p.Err)
}

// name returns the quoted name of column j, shortened.
func name(names []string, j int) string {
	s := names[j]
	if r := []rune(s); len(r) > 40 {
		s = string(r[:40]) + "…"
	}
	return strconv.Quote(s)
}

// list returns the first twenty names.
func list(names []string) string {
	var b strings.Builder
	for j := range min(len(names), 20) {
		if j > 0 {
			b.WriteString(", ")
		}
		b.WriteString(name(names, j))
	}
	if more := len(names) - 20; more > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	return b.String()
}
