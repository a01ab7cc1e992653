// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package table

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const bom = "\ufeff"

// maxLine bytes are the most that one record may take, so that a quote that is never closed does
// not read a whole file into memory.
const maxLine = 64 << 20

// text reads fields by RFC 4180, with CRLF, empty lines and blanks around fields. What a record
// means depends on its own bytes alone: a byte order mark, for example, is cut off the beginning of
// each of them. text allocates nothing per record.
//
// A quote that is not closed takes in no other record of a table that is read, also where quotes
// may hold line ends. For every quote enters or leaves a quoted field (a quote inside of quotes is
// written as two, one inside of other fields is an error), so that each record has an even number
// of them, and a line end is inside of quotes if and only if an odd number stand before it. If a
// text takes the place of a record and the table is still read, then all records, those of the text
// included, have an even number of quotes, hence the text has one. So its last line end is outside
// of quotes, and the records after it are what they were.
type text struct {
	in             *bufio.Reader
	mark           []byte // the byte order mark
	comma, comment byte
	every          bool // empty lines and comments are records, without fields
	ended          bool // the last line needs a line end
	single         bool // quotes end in their line
	spanned        bool // some quoted field was longer than its line
	line           int  // of the record read last
	ahead          int  // lines read
	long           []byte
	field          [][]byte
	plain          []byte // fields of a record with quotes, without them
	end            []int  // of each field in plain
}

// newText returns a text that reads r. If begins says that the first bytes are public, those of a
// header line or of a public table, it looks at them for gzip and other kinds of file. The first
// bytes of a record are read as those of any other record.
func newText(r io.Reader, comma, comment byte, begins bool) (*text, error) {
	if r == nil {
		return nil, wrong("the reader is nil")
	}
	t := &text{in: bufio.NewReaderSize(r, 1<<16), mark: []byte(bom), comma: comma, comment: comment}
	if !begins {
		return t, nil
	}
	if magic, _ := t.in.Peek(2); string(magic) == "\x1f\x8b" {
		z, err := gzip.NewReader(t.in)
		if err != nil {
			return nil, wrong("gzip: %w", err)
		}
		t.in = bufio.NewReaderSize(z, 1<<16)
	}
	start, _ := t.in.Peek(8)
	for _, k := range otherKinds {
		if bytes.HasPrefix(start, []byte(k.start)) {
			return nil, wrong("the file is %s", k.what)
		}
	}
	return t, nil
}

// otherKinds are files that are no CSV, by their first bytes.
var otherKinds = []struct{ start, what string }{
	{"\xff\xfe", "UTF-16, want UTF-8"},
	{"\xfe\xff", "UTF-16, want UTF-8"},
	{"PK\x03\x04", "an Excel workbook or another zip archive: save the sheet as CSV, or unpack the archive"},
	{"\xd0\xcf\x11\xe0", "an Excel workbook of an old version: save the sheet as CSV"},
	{"PAR1\x15", "a Parquet file: want CSV, or a name that ends with .parquet"},
	{"[{\"", "JSON: want CSV"},
	{"{\"", "JSON: want CSV"},
	{"<!DOCTYP", "a web page, such as that of a login: want CSV"},
	{"<html", "a web page, such as that of a login: want CSV"},
	{"\x28\xb5\x2f\xfd", "compressed by zstd: unpack it, or compress it by gzip"},
	{"\x93NUMPY", "a .npy file: want CSV, or a file of privopt pack under a name that ends with .npy"},
}

// names returns the fields of a header line, behind the line sep=; if Excel wrote one. It refuses
// names that no schema can have, with a hint about the form of the file.
func (t *text) names(want string) ([][]byte, error) {
	start, _ := t.in.Peek(len(t.mark) + 6)
	if c, ok := separator(bytes.TrimPrefix(start, t.mark)); ok {
		switch {
		case c == t.comma:
			if _, err := t.read(); err != nil {
				return nil, err
			}
		case bytes.IndexByte([]byte(delimiters), c) >= 0:
			return nil, wrong("line 1 says that %q separates the fields, and the schema says %q: want \"file\": "+
				"{\"delimiter\": %q} in the schema, or --delimiter where there is none", c, t.comma, string(rune(c)))
		}
	}
	fields, err := t.next()
	switch {
	case errors.Is(err, io.EOF):
		return nil, wrong("the file is empty, want %s", want)
	case err != nil:
		return nil, err
	}
	for _, f := range fields {
		switch {
		case bytes.IndexByte(f, '\r') >= 0:
			return nil, wrong("line %d holds a carriage return (CR): if all lines of the file end so, as on old Macs, write "+
				"line feeds (LF) in their place", t.line)
		case !utf8.Valid(f):
			return nil, wrong("line %d is not UTF-8: want UTF-8, or \"file\": {\"encoding\": \"latin-1\"} or "+
				"\"windows-1252\" in the schema, or --encoding where there is none", t.line)
		}
	}
	return fields, nil
}

// instead returns another delimiter that would make fields of a header line declared names, or any
// two fields if declared is nil; "" if there is none.
func (t *text) instead(fields [][]byte, declared map[string]bool) string {
	line := string(bytes.Join(fields, []byte{t.comma}))
	for _, c := range strings.Split(delimiters, "") {
		parts := strings.Split(line, c)
		known := func(part string) bool { return declared == nil || declared[strings.Trim(part, "\" ")] }
		if c[0] != t.comma && len(parts) > 1 && slices.ContainsFunc(parts, known) {
			return c
		}
	}
	return ""
}

// separator returns the delimiter that Excel names in the first line of some files.
func separator(start []byte) (comma byte, ok bool) {
	if len(start) < 6 || string(start[:4]) != "sep=" || start[5] != '\n' && start[5] != '\r' {
		return 0, false
	}
	return start[4], true
}

// recode reads text with one byte per character, in Latin-1 or windows-1252.
func (t *text) recode(windows bool) {
	t.in = bufio.NewReaderSize(&recoder{in: t.in, windows: windows}, 1<<16)
	t.mark = []byte("ï»¿") // as the bytes of the mark read then
}

// delimiters are those that are guessed, in the order in which they are tried.
const delimiters = ";\t|,"

// read returns the next line without its end, valid until the next call.
func (t *text) read() ([]byte, error) {
	line, err := t.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		t.long = append(t.long[:0], line...)
		for errors.Is(err, bufio.ErrBufferFull) {
			if len(t.long) > maxLine {
				return nil, wrong("line %d: longer than %d MB, want lines that end", t.ahead+1, maxLine>>20)
			}
			line, err = t.in.ReadSlice('\n')
			t.long = append(t.long, line...)
		}
		line = t.long
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, wrong("line %d: %w", t.ahead+1, cutOff(err))
	}
	if len(line) == 0 {
		return nil, io.EOF
	}
	t.ahead++
	if t.ended && err != nil { // else it would be a record, and none if it were empty
		return nil, wrong("line %d: the last line does not end with a line feed: if nothing is cut off, add one at the "+
			"end of the file", t.ahead)
	}
	line = bytes.TrimSuffix(line, []byte{'\n'})
	return bytes.TrimSuffix(line, []byte{'\r'}), nil
}

// cutOff explains what gzip says of a file without its end.
func cutOff(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the compressed file is cut off, want all of it: %w", err)
	}
	return err
}

// next returns the fields of the next record without blanks around them, valid until the next call,
// or io.EOF. It skips empty lines and comments, or returns no field for them.
func (t *text) next() ([][]byte, error) {
	line, err := t.begin()
	for err == nil && !t.every && t.blank(line) {
		line, err = t.begin()
	}
	if err != nil {
		return nil, err
	}
	t.line = t.ahead
	t.field = t.field[:0]
	if t.blank(line) {
		if t.every && !t.single && bytes.Count(line, []byte{'"'})%2 != 0 {
			return nil, wrong("line %d: a comment with a quote that is not closed; where fields hold line ends, write quotes "+
				"in pairs", t.line)
		}
		return t.field, nil
	}
	if bytes.IndexByte(line, '"') >= 0 {
		return t.quoted(line)
	}
	for {
		end := bytes.IndexByte(line, t.comma)
		if end < 0 {
			t.field = append(t.field, trim(line))
			return t.field, nil
		}
		t.field = append(t.field, trim(line[:end]))
		line = line[end+1:]
	}
}

// begin returns the first line of a record, without a byte order mark.
func (t *text) begin() ([]byte, error) {
	line, err := t.read()
	return bytes.TrimPrefix(line, t.mark), err
}

// blank reports whether a line is empty or a comment.
func (t *text) blank(line []byte) bool {
	return len(line) == 0 || t.comment != 0 && line[0] == t.comment
}

// trim cuts blanks, nearly always ASCII or none.
func trim(s []byte) []byte {
	if n := len(s); n > 0 && s[0] > ' ' && s[0] < 0x80 && s[n-1] > ' ' && s[n-1] < 0x80 {
		return s
	}
	return bytes.TrimSpace(s)
}

// blanks cuts blanks at the beginning of a line, other than the delimiter, which may be a tab.
func (t *text) blanks(line []byte) []byte {
	return bytes.TrimLeftFunc(line, func(r rune) bool { return unicode.IsSpace(r) && r != rune(t.comma) })
}

// quoted splits a line with quotes, which may go on in the lines after it.
func (t *text) quoted(line []byte) ([][]byte, error) {
	t.plain, t.end = t.plain[:0], t.end[:0]
	for done := false; !done; {
		line = t.blanks(line)
		start := len(t.plain)
		var err error
		if len(line) > 0 && line[0] == '"' {
			if line, err = t.inQuotes(line[1:]); err != nil {
				return nil, err
			}
			line = t.blanks(line)
		} else {
			end := bytes.IndexByte(line, t.comma)
			if end < 0 {
				end = len(line)
			}
			if bytes.IndexByte(line[:end], '"') >= 0 {
				return nil, t.broken("a quote inside a field that does not begin with one")
			}
			t.plain, line = append(t.plain, line[:end]...), line[end:]
		}
		if len(line) > 0 && line[0] != t.comma {
			return nil, t.broken("text between a closing quote and the delimiter")
		}
		cut := trim(t.plain[start:])
		t.plain = append(t.plain[:start], cut...)
		t.end = append(t.end, len(t.plain))
		if done = len(line) == 0; !done {
			line = line[1:]
		}
	}
	start := 0
	for _, end := range t.end {
		t.field = append(t.field, t.plain[start:end])
		start = end
	}
	return t.field, nil
}

// inQuotes adds a field to plain and returns the text behind its closing quote.
func (t *text) inQuotes(line []byte) ([]byte, error) {
	for {
		end := bytes.IndexByte(line, '"')
		if end < 0 && t.single {
			return nil, t.broken("a quote that is not closed in its line, want \"file\": {\"multiline\": true} in the " +
				"schema if fields hold line ends")
		}
		if end < 0 {
			t.spanned = true
			t.plain = append(append(t.plain, line...), '\n')
			if len(t.plain) > maxLine {
				return nil, t.broken(fmt.Sprintf("a quote that is not closed within %d MB", maxLine>>20))
			}
			next, err := t.read()
			if errors.Is(err, io.EOF) {
				return nil, t.broken("a quote that is not closed")
			}
			if err != nil {
				return nil, err
			}
			line = next
			continue
		}
		t.plain = append(t.plain, line[:end]...)
		line = line[end+1:]
		if len(line) == 0 || line[0] != '"' {
			return line, nil
		}
		t.plain = append(t.plain, '"')
		line = line[1:]
	}
}

// broken is the error of quotes that RFC 4180 does not allow.
func (t *text) broken(what string) error {
	return wrong("line %d, column %d: %s; write \"\" for a quote inside quotes", t.line, len(t.end)+1, what)
}
