package erm

import (
	"bufio"
	"bytes"
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
// Read streams: it holds the numbers, in pieces that are not copied to grow, and
// a line. Lines without quotes cost no other memory, not even for a while.
func (c CSV) Read(r io.Reader, b loss.Bounds) (*Data, error) { return c.read(r, b, true) }

// read reads lines without quotes by itself if plain is true.
func (c CSV) read(r io.Reader, b loss.Bounds, plain bool) (*Data, error) {
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
		return nil, syntax(err, 0)
	}
	names := make([]string, len(header))
	copy(names, header)
	at, public, err := c.columns(names)
	if err != nil {
		return nil, err
	}
	t := &table{names: names, label: at, public: public, rec: newRecords(len(names)-1, len(names)-1, false, b)}
	t.scratch = make([]float64, t.rec.d)
	t.line, _ = in.FieldPos(0)
	for _, name := range names {
		plain = plain && !strings.Contains(name, "\n")
	}
	if !plain || c.comma() >= utf8.RuneSelf {
		t.line = 0 // in counts from the start
		err = t.quoted(in)
	} else {
		err = t.plain(text, byte(c.comma()))
	}
	if err != nil {
		return nil, err
	}
	if t.rec.n == 0 {
		return nil, fmt.Errorf("%w: CSV: no records after the header line", ErrData)
	}
	return canonical(t.rec), nil
}

// table collects the records of a file.
type table struct {
	names   []string
	label   int
	public  bool // the names may be told
	rec     *records
	scratch []float64
	line    int // lines read so far
}

// plain reads lines up to the first with a quote, and leaves that and what
// follows to quoted. It reads what encoding/csv reads, without a string per
// line.
func (t *table) plain(text *bufio.Reader, comma byte) error {
	var long []byte // a line that the reader's buffer cannot hold
	for {
		line, err := text.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			long = append(long[:0], line...)
			for errors.Is(err, bufio.ErrBufferFull) {
				line, err = text.ReadSlice('\n')
				long = append(long, line...)
			}
			line = long
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return syntax(err, 0)
		}
		if bytes.IndexByte(line, '"') >= 0 {
			rest := csv.NewReader(io.MultiReader(bytes.NewReader(bytes.Clone(line)), text))
			rest.ReuseRecord, rest.Comma, rest.FieldsPerRecord = true, rune(comma), len(t.names)
			return t.quoted(rest)
		}
		t.line++
		ended := err != nil
		line = bytes.TrimSuffix(line, []byte{'\n'})
		line = bytes.TrimSuffix(line, []byte{'\r'})
		if len(line) > 0 {
			if err := t.fields(line, comma); err != nil {
				return err
			}
		}
		if ended {
			return nil
		}
	}
}

// fields adds the record of a line without quotes.
func (t *table) fields(line []byte, comma byte) error {
	if bytes.Count(line, []byte{comma}) != len(t.names)-1 {
		return fmt.Errorf("%w: CSV: line %d, column %d: %w", ErrData, t.line, 1, csv.ErrFieldCount)
	}
	s, label, at := t.rec.open(0), 0.0, 0
	start := len(s.x)
	for j := range t.names {
		end := bytes.IndexByte(line[at:], comma)
		if end < 0 {
			end = len(line) - at
		}
		v, ok := number(line[at : at+end])
		if !ok {
			return t.notANumber(t.line, at+1, j)
		}
		if at += end + 1; j == t.label {
			label = v
		} else {
			s.x = append(s.x, v)
		}
	}
	t.rec.seal(s, s.x[start:], label, t.scratch)
	return nil
}

// quoted reads all that is left. Its reader counts lines from t.line.
func (t *table) quoted(in *csv.Reader) error {
	for {
		fields, err := in.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return syntax(err, t.line)
		}
		s, label := t.rec.open(0), 0.0
		start := len(s.x)
		for j, field := range fields {
			v, ok := number([]byte(field))
			if !ok {
				line, col := in.FieldPos(j)
				return t.notANumber(t.line+line, col, j)
			}
			if j == t.label {
				label = v
			} else {
				s.x = append(s.x, v)
			}
		}
		t.rec.seal(s, s.x[start:], label, t.scratch)
	}
}

// notANumber names a place, and the column if names may be told.
func (t *table) notANumber(line, col, j int) error {
	field := ""
	if t.public {
		field = " " + name(t.names, j)
	}
	return fmt.Errorf("%w: CSV: line %d, column %d: field%s is not a number", ErrData, line, col, field)
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
		if _, ok := number([]byte(s)); ok {
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
func number(field []byte) (v float64, ok bool) {
	field = bytes.TrimSpace(field)
	if bytes.ContainsAny(field, "xX_") {
		return 0, false
	}
	v, err := strconv.ParseFloat(string(field), 64)
	return v, err == nil || errors.Is(err, strconv.ErrRange)
}

// syntax wraps an error of encoding/csv or of the reader. Those of csv name
// positions and a reason, never a field; their lines count from first.
func syntax(err error, first int) error {
	var p *csv.ParseError
	if !errors.As(err, &p) {
		return fmt.Errorf("%w: CSV: %w", ErrData, err)
	}
	return fmt.Errorf("%w: CSV: line %d, column %d: %w", ErrData, first+p.Line, p.Column, p.Err)
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
