// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/gofrs/flock"
	"github.com/schollz/progressbar/v3"

	"github.com/privopt/privopt/cmd/internal/screen"
	"github.com/privopt/privopt/internal/wholefile"
	"github.com/privopt/privopt/table/parquet"
)

// input is an open file or standard input. Its reads fail once its context is done.
type input struct {
	io.Reader
	name  string
	plain bool // the text of a Parquet file, see table.Options
	close func()
}

// openTable opens a table as CSV. A name that ends with .parquet says that it is a Parquet file,
// whose nulls become the first spelling of a missing value, or empty fields.
func (a *app) openTable(ctx context.Context, flag, path, what string, missing []string) (*input, error) {
	if filepath.Ext(path) != ".parquet" {
		return a.open(ctx, flag, path, what)
	}
	null := ""
	if len(missing) > 0 && !slices.Contains(missing, "") {
		null = missing[0]
	}
	text, err := parquet.CSV(path, null)
	switch {
	case errors.Is(err, parquet.ErrOptions), errors.Is(err, parquet.ErrFile):
		return nil, usagef("%s: %w", flag, err)
	case err != nil:
		return nil, fmt.Errorf("%s %s: %w", flag, path, cause(err))
	}
	r := untilDone(ctx, text)
	return &input{Reader: r, name: path, plain: true, close: func() { r.Close(); text.Close() }}, nil
}

// open opens the file that a flag or argument names; "-" is standard input. On a terminal, reading
// shows a progress bar with the label what; an empty label means no bar. A name that ends with .gz
// says that the file is compressed.
func (a *app) open(ctx context.Context, flag, path, what string) (*input, error) {
	in := &input{name: path, close: func() {}}
	size := int64(-1)
	switch {
	case path == "":
		return nil, usagef("%s is empty, want the name of a file, or - for standard input", flag)
	case path == "-":
		in.Reader, in.name = untilDone(ctx, a.stdin), "standard input"
	default:
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", flag, path, cause(err))
		}
		info, err := f.Stat()
		if err == nil && info.IsDir() {
			f.Close()
			return nil, usagef("%s: %s is a folder, want a file", flag, path)
		}
		if err == nil && info.Mode().IsRegular() {
			size = info.Size()
		}
		r := untilDone(ctx, f)
		in.Reader, in.close = r, func() { r.Close(); f.Close() }
	}
	if bar := a.bar(what, size); bar != nil {
		in.Reader = io.TeeReader(in.Reader, bar)
		shut := in.close
		in.close = func() { bar.Finish(); shut() }
	}
	if filepath.Ext(path) == ".gz" { // by its name: the first bytes of a table may be those of a record
		z, err := gzip.NewReader(in.Reader)
		if err != nil {
			in.close()
			return nil, usagef("%s: %s is not compressed by gzip, as its name says: %w", flag, path, err)
		}
		in.Reader = z
	}
	return in, nil
}

// readFile returns the text of a file of privopt and its name in messages. It refuses a file of
// another kind than the one that is wanted, "" for any.
func (a *app) readFile(ctx context.Context, flag, path, kind, want string) (text []byte, name string, err error) {
	in, err := a.open(ctx, flag, path, "")
	if err != nil {
		return nil, "", err
	}
	defer in.close()
	if text, err = io.ReadAll(in); err != nil {
		return nil, "", fmt.Errorf("%s: %w", in.name, err)
	}
	if is := kindOf(text); kind != "" && is != "" && is != kind {
		return nil, "", usagef("%s: %s is a %s: want %s", flag, in.name, is, want)
	}
	return text, in.name, nil
}

// kindOf says what a file of privopt is, "model", "schema", "score" or "ledger", or returns "". The
// text may be cut off.
func kindOf(text []byte) string {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return ""
	}
	for i := 0; d.More(); i++ {
		key, _ := d.Token()
		name, _ := key.(string)
		if name == "model" || name == "schema" || i == 0 && (name == "ledger" || name == "score") { // others may have these
			return name
		}
		var skip json.RawMessage
		if d.Decode(&skip) != nil {
			return ""
		}
	}
	return ""
}

// cause returns the error of the system in the error of a file, whose name the caller gives.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// untilDone reads from r until ctx is done, even if a read of r blocks, as on a terminal.
func untilDone(ctx context.Context, r io.Reader) io.ReadCloser {
	pr, pw := io.Pipe()
	go func() {
		_, err := io.CopyBuffer(struct{ io.Writer }{pw}, struct{ io.Reader }{r}, make([]byte, 1<<16))
		pw.CloseWithError(err)
	}()
	context.AfterFunc(ctx, func() { pw.CloseWithError(ctx.Err()) })
	return pr
}

// bar returns a progress bar of bytes read, nil without a terminal or without a name.
func (a *app) bar(what string, size int64) *progressbar.ProgressBar {
	if what == "" || !screen.Live(a.stderr) {
		return nil
	}
	return progressbar.NewOptions64(size,
		progressbar.OptionSetWriter(a.stderr), progressbar.OptionSetDescription(what), progressbar.OptionShowBytes(true),
		progressbar.OptionSetWidth(30), progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(size > 0))
}

// output is a file that is written whole or not at all, locked against other processes.
type output struct {
	io.Writer
	path   string
	kept   string // name that an earlier file gets, "" for none
	note   func(kept string)
	file   *wholefile.File // nil for standard output and devices
	device *os.File
	lock   *flock.Flock
}

// errBusy reports that another process writes the file.
var errBusy = errors.New("another process is writing this file")

// create begins the file of a kind that --out names; "-" is standard output. It replaces a file
// only with force, and only one of the same kind. What may have cost budget it keeps under another
// name. It reserves bytes of the disk, so that a full disk is found before budget is spent.
func (a *app) create(path, kind string, force bool, reserve int) (*output, error) {
	if path == "-" {
		return &output{Writer: a.stdout, path: "standard output"}, nil
	}
	flag, fix := "--out", ", or --force to replace it"
	if kind == kindPicture {
		flag = "--plot"
	}
	if kind == kindPicture || kind == kindScore { // of commands without --force
		fix = ""
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return nil, usagef("%s: %s is a folder, want the name of a file", flag, path)
	case err == nil && !info.Mode().IsRegular():
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		return &output{Writer: f, path: path, device: f}, err
	case err == nil && !force:
		return nil, usagef("%s: %s exists: choose another name%s", flag, path, fix)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, usagef("--out: %w", err)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return nil, usagef("%s: there is no folder %s", flag, filepath.Dir(path))
	}
	o := &output{path: path}
	if info != nil {
		if err := replaceable(path, kind); err != nil {
			return nil, err
		}
		if slices.Contains(paidFor, kind) && info.Size() > 0 {
			o.kept = unused(path + ".old")
			o.note = func(kept string) { a.note("--force: the earlier %s is kept as %s.", kind, kept) }
		}
	}
	if o.lock, err = lock(lockOf(path)); err != nil {
		return nil, err
	}
	if o.file, err = wholefile.Create(path); err != nil {
		o.abandon()
		return nil, usagef("--out: %w", err)
	}
	o.Writer = o.file
	if reserve > 0 {
		_, err = o.file.Write(make([]byte, reserve))
		if err = errors.Join(err, o.file.Sync()); err == nil {
			_, err = o.file.Seek(0, io.SeekStart)
		}
		if err != nil {
			o.abandon()
			return nil, fmt.Errorf("--out: %w: nothing was read or spent", err)
		}
	}
	return o, nil
}

// lockOf names the file that processes lock before they write to path.
func lockOf(path string) string { return path + ".lock" }

// lock takes a lock file, which unlock removes. If another process removes the file between opening
// and locking, lock tries again.
func lock(path string) (*flock.Flock, error) {
	for {
		if info, err := os.Lstat(path); err == nil && (!info.Mode().IsRegular() || info.Size() > 0) {
			return nil, usagef("--out: %s exists and is no lock of privopt, which would be removed: choose another name", path)
		}
		l := flock.New(path, flock.SetPermissions(0o600))
		ok, err := l.TryLock()
		if err != nil {
			return nil, usagef("--out: %w", err)
		}
		if !ok {
			l.Close()
			return nil, fmt.Errorf("--out: %w (it holds %s): wait for it, or choose another name", errBusy, path)
		}
		mine, err := l.Stat()
		if there, failed := os.Stat(path); err == nil && failed == nil && os.SameFile(mine, there) {
			return l, nil
		}
		l.Close()
	}
}

func (o *output) commit() error {
	if o.device != nil {
		return o.device.Close()
	}
	if o.file == nil {
		return nil
	}
	end, err := o.file.Seek(0, io.SeekCurrent)
	if err == nil {
		err = o.file.Truncate(end)
	}
	if err != nil {
		return err
	}
	if o.kept == "" {
		return o.file.Commit()
	}
	if err := os.Rename(o.path, o.kept); err != nil {
		return err
	}
	if err := o.file.Commit(); err != nil {
		return errors.Join(err, os.Rename(o.kept, o.path))
	}
	o.note(o.kept)
	return nil
}

// abandon removes the unfinished file and the lock. After commit it removes the lock only.
func (o *output) abandon() {
	if o.device != nil {
		o.device.Close()
	}
	if o.file != nil {
		o.file.Abandon()
	}
	if o.lock != nil {
		os.Remove(o.lock.Path())
		o.lock.Close()
	}
}

// reserve checks and locks the name of a file that another writer creates.
func (a *app) reserve(path, kind string, force bool) (*output, error) {
	o, err := a.create(path, kind, force, 0)
	if err == nil && o.file == nil {
		o.abandon()
		return nil, usagef("--out: %s is not a file, want the name of a file", o.path)
	}
	return o, err
}

// write writes a whole file, or to standard output.
func (a *app) write(path, kind string, force bool, render func(w io.Writer) error) error {
	var b bytes.Buffer
	if err := render(&b); err != nil {
		return err
	}
	o, err := a.create(path, kind, force, 0)
	if err != nil {
		return err
	}
	defer o.abandon()
	if _, err := o.Write(b.Bytes()); err != nil {
		return err
	}
	return o.commit()
}
