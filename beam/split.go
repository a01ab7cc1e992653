// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package beam

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/privopt/privopt/table"
	"github.com/privopt/privopt/table/parquet"
)

// split is a part of a file: the lines that begin in its bytes.
type split struct {
	File     int
	From, To int64
}

// indivisible reports whether only a reader from its beginning knows where the records of a file
// end.
func indivisible(path string, form table.File) (bool, error) {
	if ext := filepath.Ext(path); ext == ".gz" || ext == ".parquet" || form.Multiline {
		return true, nil
	}
	if form.Fields != nil { // its first bytes are those of a record
		return false, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	magic := make([]byte, 2)
	_, err = io.ReadFull(f, magic)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return string(magic) == "\x1f\x8b", err
}

// section is the text of a split, with the header line of its file.
type section struct {
	io.Reader
	table.Options
	start, end int64  // of its lines in the file
	close      func() // after the last use
	path       string
	file       os.FileInfo
	object     *object // in place of file, for one in a store
}

// openObject opens split i, which is a whole object.
func (e *encoding) openObject(ctx context.Context, p split) (*section, error) {
	o, err := find(ctx, e.Paths[p.File])
	if err != nil {
		return nil, err
	}
	x := &section{start: p.From, end: p.To, path: o.name, object: o, close: func() { o.store.Close() }}
	if o.size != e.Sizes[p.File] {
		x.close()
		return nil, errOther
	}
	text, end, err := o.open(ctx)
	if err != nil {
		x.close()
		return nil, err
	}
	x.Reader, x.close = text, func() { end.Close(); o.store.Close() }
	if strings.HasSuffix(o.name, ".gz") {
		if x.Reader, err = gzip.NewReader(text); err != nil {
			x.close()
			return nil, err
		}
	}
	return x, nil
}

var (
	errOther   = errors.New("its size is not that of the driver's file: want the same file")
	errChanged = errors.New("the file was changed while it was read")
)

// open opens split i.
func (e *encoding) open(ctx context.Context, i int, s *table.Schema) (_ *section, err error) {
	p := e.Splits[i]
	if InStore(e.Paths[p.File]) {
		return e.openObject(ctx, p)
	}
	f, err := os.Open(e.Paths[p.File])
	if err != nil {
		return nil, err
	}
	x := &section{Reader: f, start: p.From, end: p.To, path: e.Paths[p.File], close: func() { f.Close() }}
	defer func() {
		if err != nil {
			x.close()
		}
	}()
	if x.file, err = f.Stat(); err != nil {
		return nil, err
	}
	size := e.Sizes[p.File]
	if x.file.Size() != size {
		return nil, errOther
	}
	switch ext := filepath.Ext(x.path); {
	case ext == ".parquet":
		null := "" // as privopt fit reads it
		if len(s.Missing) > 0 && !slices.Contains(s.Missing, "") {
			null = s.Missing[0]
		}
		text, err := parquet.CSV(x.path, null)
		if err != nil {
			return nil, err
		}
		x.Reader, x.Plain = text, true
		x.close = func() { text.Close(); f.Close() }
	case ext == ".gz": // by its name: the first bytes of a table may be those of a record
		x.Reader, err = gzip.NewReader(f)
	case p.To-p.From < size:
		err = x.cut(f, p, size, s.File)
	}
	return x, err
}

// cut makes x the header line of a file of one record a line, and the lines that begin in p.
func (x *section) cut(f io.ReaderAt, p split, size int64, form table.File) error {
	head, err := header(f, size, form)
	if err != nil {
		return err
	}
	if x.end, err = lineFrom(f, max(p.To, head), size); err != nil {
		return err
	}
	if p.From == 0 {
		x.Reader = io.NewSectionReader(f, 0, x.end)
		return nil
	}
	x.start, err = lineFrom(f, max(p.From, head), size)
	x.Reader = io.MultiReader(io.NewSectionReader(f, 0, head), io.NewSectionReader(f, x.start, x.end-x.start))
	return err
}

// header returns where the first record begins, behind the header line, the lines before it that
// package table skips, and the line sep=; of Excel.
func header(f io.ReaderAt, size int64, form table.File) (end int64, err error) {
	if form.Fields != nil {
		return 0, nil
	}
	for first := true; end < size; first = false {
		next, err := lineFrom(f, end+1, size)
		if err != nil {
			return 0, err
		}
		start := make([]byte, min(next-end, 16))
		if _, err := f.ReadAt(start, end); err != nil {
			return 0, err
		}
		end = next
		start = bytes.TrimPrefix(start, []byte("\ufeff"))
		blank := len(bytes.TrimRight(start, "\r\n")) == 0 || form.Comment != "" && start[0] == form.Comment[0]
		separator := first && len(start) > 5 && string(start[:5]) == "sep="+cmp.Or(form.Delimiter, ",") &&
			(start[5] == '\r' || start[5] == '\n')
		if !blank && !separator {
			break
		}
	}
	return end, nil
}

// lineFrom returns where the first line begins that begins at byte from > 0 or later, or size.
func lineFrom(f io.ReaderAt, from, size int64) (int64, error) {
	if from >= size {
		return size, nil
	}
	r := bufio.NewReaderSize(io.NewSectionReader(f, from-1, size-from+1), 1<<16)
	for at := from - 1; ; {
		part, err := r.ReadSlice('\n')
		at += int64(len(part))
		if err == nil || errors.Is(err, io.EOF) {
			return at, nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return 0, err
		}
	}
}

// unchanged returns an error if the file was replaced or written while it was read.
func (x *section) unchanged(ctx context.Context) error {
	if x.object != nil {
		return x.object.unchanged(ctx)
	}
	now, err := os.Stat(x.path)
	if err == nil && !(os.SameFile(now, x.file) && now.Size() == x.file.Size() && now.ModTime().Equal(x.file.ModTime())) {
		err = errChanged
	}
	return err
}
