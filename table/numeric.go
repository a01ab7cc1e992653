package table

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/loss"
)

// Numeric reads tables of numbers that need no encoding: rows go into the
// declared bounds as erm.Data describes, longer ones are scaled in.
//
// Numbers are "NaN", or a decimal, "Inf" or "Infinity" with an optional sign;
// one that is too large for float64, such as 1e400, is infinite. What a record
// becomes depends on that record and the bounds alone.
type Numeric struct {
	// Bounds are declared, never measured.
	Bounds loss.Bounds
	// Header says that the first line holds names.
	Header bool
	// Label is the name of the label's column, with Header; "" means the last column.
	Label string
	// Delimiter separates fields; 0 means a comma.
	Delimiter byte
	// Public says that the table is public: errors may show values of fields.
	Public bool
}

// ReadCSV reads all records of a table of comma-separated numbers [RFC4180], plain or
// compressed by gzip. A header line alone gives data without records.
//
// The error wraps ErrTable for bounds that are not valid and a file that is not
// a table of numbers: no header where one is declared, an empty or repeated
// name, no column named Label, another number of fields than columns, broken
// quotes, or a field that is no number (also the empty one: "NaN" is the way to
// write a missing value).
func (n Numeric) ReadCSV(r io.Reader) (*erm.Data, error) {
	if err := n.Bounds.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTable, err)
	}
	comma := cmp.Or(n.Delimiter, ',')
	switch {
	case !validComma(comma):
		return nil, fmt.Errorf("%w: Delimiter = %q, want a sign such as ',', ';' or '\\t'", ErrTable, comma)
	case n.Label != "" && !n.Header:
		return nil, fmt.Errorf("%w: Label = %s needs names: set Header, or leave Label empty for the last column", ErrTable, quote(n.Label))
	}
	t, err := newText(r, comma, 0)
	if err != nil {
		return nil, err
	}
	fields, err := t.next()
	switch {
	case errors.Is(err, io.EOF) && n.Header:
		return nil, fmt.Errorf("%w: the file is empty, want a header line", ErrTable)
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%w: the file is empty: without a header line or a record its columns are not known", ErrTable)
	case err != nil:
		return nil, err
	case len(fields) < 2:
		return nil, fmt.Errorf("%w: line %d: 1 column, want at least one feature and the label separated by %q", ErrTable, t.line, comma)
	}
	names, label := make([]string, len(fields)), len(fields)-1
	if n.Header {
		if label, err = n.header(t, names, fields); err != nil {
			return nil, err
		}
		fields, err = t.next()
	}
	b, bad := erm.NewBuilder(len(names)-1, false, n.Bounds)
	if bad != nil {
		return nil, fmt.Errorf("%w: %w", ErrTable, bad)
	}
	row := make([]float64, len(names)-1)
	for ; err == nil; fields, err = t.next() {
		y, err := n.record(t, row, fields, names, label)
		if err != nil {
			return nil, err
		}
		b.Add(row, y)
	}
	if !errors.Is(err, io.EOF) {
		return nil, err
	}
	return b.Data(), nil
}

// record parses the fields of a record.
func (n Numeric) record(t *text, row []float64, fields [][]byte, names []string, label int) (y float64, err error) {
	if len(fields) != len(names) {
		return 0, fmt.Errorf("%w: line %d: %s, want %d", ErrTable, t.line, count(len(fields), "field"), len(names))
	}
	k := 0
	for j, f := range fields {
		v, ok := number(f)
		switch {
		case !ok:
			return 0, n.notANumber(t.line, j, names[j], f)
		case j == label:
			y = v
		default:
			row[k] = v
			k++
		}
	}
	return y, nil
}

func (n Numeric) notANumber(line, j int, name string, field []byte) error {
	if name != "" {
		name = " (" + quote(name) + ")"
	}
	found := "text"
	switch {
	case len(field) == 0:
		found = "an empty field"
	case n.Public:
		found = quote(string(field))
	}
	return fmt.Errorf("%w: line %d, column %d%s: %s, want a number, NaN for a missing one", ErrTable, line, j+1, name, found)
}

// header stores the names and returns the position of the label. Names are
// shown only if none of them is a number: otherwise the line may be a record.
func (n Numeric) header(t *text, names []string, fields [][]byte) (label int, err error) {
	seen := make(map[string]int, len(fields))
	label = -1
	for j, f := range fields {
		s := string(f)
		first, twice := seen[s]
		_, isNumber := number(f)
		switch {
		case s == "":
			return 0, fmt.Errorf("%w: line %d: column %d has no name, want one", ErrTable, t.line, j+1)
		case !utf8.ValidString(s):
			return 0, fmt.Errorf("%w: line %d: the name of column %d is not UTF-8, want text that is", ErrTable, t.line, j+1)
		case twice:
			return 0, fmt.Errorf("%w: line %d: columns %d and %d have the same name, want different ones", ErrTable, t.line, first+1, j+1)
		case isNumber:
			return 0, fmt.Errorf("%w: line %d: the name of column %d is a number: if the file has no header line, do not declare one", ErrTable,
				t.line, j+1)
		}
		if names[j], seen[s] = s, j; s == n.Label {
			label = j
		}
	}
	switch {
	case n.Label == "":
		return len(names) - 1, nil
	case label < 0:
		return 0, fmt.Errorf("%w: line %d: no column is named %s; the columns are %s", ErrTable, t.line, quote(n.Label), list(names))
	}
	return label, nil
}

// ReadLIBSVM reads records of dim features in the format of [CL11], a line
//
//	label index:value index:value …
//
// each, with indices from 1 to dim that increase; features that are not listed
// are 0, and text behind # is a comment. Header, Label and Delimiter have no
// meaning here. It keeps sparse rows. The file may be empty, and may be
// compressed by gzip; the error is that of ReadCSV.
func (n Numeric) ReadLIBSVM(r io.Reader, dim int) (*erm.Data, error) {
	b, err := erm.NewBuilder(dim, true, n.Bounds)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTable, err)
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
		if len(col) == 0 && len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		b.AddSparse(col, val, y)
	}
}

// libsvm parses a line and appends its entries.
func (n Numeric) libsvm(line int, text []byte, dim int, col []int32, val []float64) (y float64, _ []int32, _ []float64, err error) {
	last := 0
	for j := 0; ; j++ {
		text = bytes.TrimLeft(text, " \t")
		if len(text) == 0 {
			return y, col, val, nil
		}
		end := bytes.IndexAny(text, " \t")
		if end < 0 {
			end = len(text)
		}
		part := text[:end]
		text = text[end:]
		if j == 0 {
			v, ok := number(part)
			if !ok {
				return 0, nil, nil, n.notANumber(line, 0, "the label", part)
			}
			y = v
			continue
		}
		colon := max(bytes.IndexByte(part, ':'), 0)
		index, err := strconv.Atoi(string(part[:colon]))
		v, ok := number(part[min(colon+1, len(part)):])
		switch {
		case err != nil || !ok:
			return 0, nil, nil, fmt.Errorf("%w: line %d, entry %d: want index:value, two numbers", ErrTable, line, j)
		case index < 1 || index > dim:
			return 0, nil, nil, fmt.Errorf("%w: line %d, entry %d: the index is outside 1 to %d, the declared dimension", ErrTable, line, j, dim)
		case index <= last:
			return 0, nil, nil, fmt.Errorf("%w: line %d, entry %d: the index does not exceed that of the entry before, want increasing indices",
				ErrTable, line, j)
		}
		last = index
		col, val = append(col, int32(index-1)), append(val, v)
	}
}
