// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package table

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	sniffed     = 1 << 20 // bytes of public rows by which their form is guessed
	sniffedRows = 500
)

// sniff opens public rows and returns their form: what file leaves open is guessed and noted.
func sniff(public io.Reader, file File) (t *text, _ File, notes []string, err error) {
	if t, err = newText(public, ',', cmp.Or(file.Comment, "\x00")[0], true); err != nil {
		return nil, file, nil, err
	}
	t.in = bufio.NewReaderSize(t.in, sniffed)
	sample, _ := t.in.Peek(sniffed) // an error comes again with the first line
	if len(sample) == sniffed {
		sample = sample[:bytes.LastIndexByte(sample, '\n')+1]
	}
	if file.Encoding == "" && !utf8.Valid(sample) {
		file.Encoding = latin1
		if slices.ContainsFunc(sample, func(c byte) bool { return c >= 0x80 && c < 0xa0 }) {
			file.Encoding = windows1252
		}
		notes = append(notes, fmt.Sprintf("the file: not UTF-8 → \"encoding\": %q", file.Encoding))
	}
	if file.Delimiter == "" {
		c := sniffDelimiter(sample, file)
		if c != ',' {
			file.Delimiter = string(rune(c))
			notes = append(notes, fmt.Sprintf("the file: %q between the fields → \"delimiter\": %[1]q", file.Delimiter))
		}
	}
	t.comma = cmp.Or(file.Delimiter, ",")[0]
	if file.Encoding != "" {
		t.recode(file.Encoding == windows1252)
	}
	return t, file, notes, nil
}

// sniffDelimiter returns the delimiter with which most records have as many fields as the first one
// or as the names, at least two; the earlier of delimiters if several do. A comma comes last: it
// may be a decimal comma.
func sniffDelimiter(sample []byte, file File) byte {
	sample = bytes.TrimPrefix(sample, []byte(bom))
	if c, ok := separator(sample); ok && file.Fields == nil && strings.IndexByte(delimiters, c) >= 0 {
		return c // as Excel says
	}
	best, most := byte(','), 0
	for _, c := range []byte(delimiters) {
		t := &text{in: bufio.NewReader(bytes.NewReader(sample)), comma: c, comment: cmp.Or(file.Comment, "\x00")[0]}
		want, fit := len(file.Fields), 0
		for range sniffedRows {
			fields, err := t.next()
			if err != nil {
				break
			}
			if want == 0 {
				want = len(fields)
			}
			if len(fields) == want && want > 1 {
				fit++
			}
		}
		if fit > most {
			best, most = c, fit
		}
	}
	return best
}

// written are the ways to write numbers that a draft tells apart. The first that reads most fields
// is the one of the file.
var written = []figures{
	{}, {0, ','}, {',', 0}, {',', '.'}, {0, '\''}, {0, ' '}, {',', ' '}, {',', '\''},
}

// writtenBy returns the indices of written in the order for a delimiter: where it is no comma, one
// comma is a decimal comma.
func writtenBy(delimiter byte) []int {
	if delimiter == ',' {
		return []int{0, 1, 2, 3, 4, 5, 6, 7}
	}
	return []int{0, 2, 3, 1, 4, 5, 6, 7}
}

func (f figures) String() string {
	s := "decimal points"
	if f.decimal == ',' {
		s = "decimal commas"
	}
	if f.thousands != 0 {
		s += fmt.Sprintf(" and %q between thousands", string(rune(f.thousands)))
	}
	return s
}

// layouts are those of dates that a draft knows.
var layouts = []string{
	"2006-01-02", "2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02T15:04:05Z07:00", "2006-01-02 15:04",
	"2006/1/2", "1/2/2006", "2/1/2006", "2.1.2006", "2-1-2006", "2.1.06", "1/2/06", "2/1/06", "2-Jan-2006", "2 Jan 2006",
	"Jan 2, 2006", "2 January 2006", "January 2, 2006", "1/2/2006 15:04", "2/1/2006 15:04", "2.1.2006 15:04", compact,
}

const compact = "20060102" // also a number

// stopgaps are numbers that stand for a missing value in many tables, and dates that do.
var (
	stopgaps     = []float64{-9, -99, -999, -9999, -99999, 99, 999, 9999, 99999, 999999}
	stopgapDates = func() (out []float64) {
		for _, d := range []string{"0001-01-01", "1900-01-01", "1970-01-01", "9999-12-31"} {
			days, _ := date([]byte(d), layouts[0])
			out = append(out, days)
		}
		return out
	}()
)

// counts are those of the fields of a public column that a way of writing reads.
type counts struct {
	n        int
	lo, hi   float64
	inner    [2]float64 // range of the values that are no stopgap
	some     bool       // such values exist
	fraction bool
}

func (c *counts) add(v float64, stopgap bool) {
	if c.n++; c.n == 1 {
		c.lo, c.hi = v, v
	}
	c.lo, c.hi = min(c.lo, v), max(c.hi, v)
	c.fraction = c.fraction || v != math.Trunc(v)
	if stopgap {
		return
	}
	if !c.some {
		c.some, c.inner = true, [2]float64{v, v}
	}
	c.inner = [2]float64{min(c.inner[0], v), max(c.inner[1], v)}
}

// far reports whether a stopgap is outside the other values by more than their width, or below 0
// where they are not.
func (c *counts) far(v float64) bool {
	lo, hi := c.inner[0], c.inner[1]
	return c.some && lo < hi && (v < lo-(hi-lo) || v > hi+(hi-lo) || v < 0 && lo >= 0)
}
