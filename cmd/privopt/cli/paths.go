// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privopt/privopt/dp/ledger"
)

// place is the name of a file, and the flag or argument that gave it.
type place struct{ flag, path string }

// outputFlags are the flags that name files to write. All other flags whose value is a FILE, and
// all arguments, name files to read.
var outputFlags = []string{"out", "plot"}

// apart refuses a command that would write to a file that it reads, by whatever name or link, and
// whatever --force says: a ledger, a private table, a schema, a model, a score.
func (a *app) apart(c *cobra.Command, args []string) error {
	var in, out []place
	c.Flags().VisitAll(func(f *pflag.Flag) {
		kind, _ := pflag.UnquoteUsage(f)
		if kind != "FILE" {
			return
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, path := range values {
			switch {
			case path == "":
			case slices.Contains(outputFlags, f.Name):
				out = append(out, written(c, place{"--" + f.Name, path})...)
			case f.Name == "data" && path != "-":
				in = append(in, place{"--data", path}, place{"--data", path + ".json"}) // of a packed file
			default:
				in = append(in, place{"--" + f.Name, path})
			}
		}
	})
	for _, path := range args {
		in = append(in, place{"argument", path})
	}
	std := slices.Clone(in)
	if std = slices.DeleteFunc(std, func(p place) bool { return p.path != "-" }); len(std) > 1 {
		return usagef("%s and %s are both standard input: want a file for one of them", std[0].flag, std[1].flag)
	}
	for i, w := range out {
		for _, r := range slices.Concat(in, out[:i]) {
			if a.one(w, r) {
				return usagef("%s: %s is the file of %s (%s), which the command must not replace: choose another name", w.flag,
					w.path, r.flag, r.path)
			}
		}
	}
	for _, r := range in {
		info := a.stat(r.path)
		const refused = "%s goes to the file of %s (%s), which the command must not change"
		switch {
		case info == nil:
		case os.SameFile(statOf(a.stderr), info):
			a.stderr = io.Discard // the message would change it, too
			return usagef(refused, "standard error", r.flag, r.path)
		case os.SameFile(statOf(a.stdout), info):
			return usagef(refused, "standard output", r.flag, r.path)
		}
	}
	return nil
}

// written returns all files that a command writes for the value of a flag.
func written(c *cobra.Command, p place) []place {
	if p.path == "-" {
		return nil
	}
	names := []string{p.path}
	schema := c.Flags().Lookup("schema")
	switch {
	case schema == nil:
	case c.Name() == "fit" && schema.Value.String() == "":
		names = append(names, besides(p.path))
	case c.Name() == "pack":
		hidden := (&packWriter{path: p.path}).unsorted()
		names = append(names, p.path+".json", hidden, hidden+".json")
	}
	var out []place
	for _, name := range names {
		out = append(out, place{p.flag, name}, place{p.flag, lockOf(name)})
	}
	return out
}

// one reports whether two names lead to one file. Names of files that are not there yet are the
// same if their folders are; letter case does not count, as some file systems have it.
func (a *app) one(w, r place) bool {
	x, y := a.stat(w.path), a.stat(r.path)
	if x != nil && y != nil {
		return os.SameFile(x, y)
	}
	if x != nil || y != nil || r.path == "-" {
		return false
	}
	dx, dy := a.stat(filepath.Dir(w.path)), a.stat(filepath.Dir(r.path))
	return dx != nil && dy != nil && os.SameFile(dx, dy) &&
		strings.EqualFold(filepath.Base(w.path), filepath.Base(r.path))
}

// stat returns the regular file or folder of a name, nil for none. "-" is standard input.
func (a *app) stat(path string) os.FileInfo {
	if path == "-" {
		return statOf(a.stdin)
	}
	if info, err := os.Stat(path); err == nil && (info.Mode().IsRegular() || info.IsDir()) {
		return info
	}
	return nil
}

// statOf returns the regular file that is open as f, nil for none.
func statOf(f any) os.FileInfo {
	file, ok := f.(*os.File)
	if !ok || file == nil {
		return nil
	}
	if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
		return info
	}
	return nil
}

// Kinds of files that a command may replace with --force.
const (
	kindModel       = "model"
	kindSchema      = "schema"
	kindScore       = "score"
	kindPacked      = "packed table"
	kindReport      = "report"
	kindPicture     = "picture"
	kindPredictions = "table of predictions"
)

// contentsOf says what a file is by its first bytes, "" for something else.
func contentsOf(path string) (string, error) {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() { // bytes read from a pipe are lost
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	head := make([]byte, 1<<16)
	n, err := io.ReadFull(f, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return "", err
	}
	head = head[:n]
	first, _, _ := bytes.Cut(head, []byte{'\n'})
	var row struct{ Prediction *string }
	switch {
	case bytes.HasPrefix(head, []byte("\x93NUMPY")), bytes.HasPrefix(head, []byte(`{"npy":`)):
		return kindPacked, nil
	case bytes.HasPrefix(head, []byte("<!DOCTYPE html>")):
		return kindReport, nil
	case slices.Contains(strings.Split(strings.TrimSpace(string(first)), ","), "prediction"), // a column of this name
		json.Unmarshal(first, &row) == nil && row.Prediction != nil:
		return kindPredictions, nil
	}
	return kindOf(head), nil
}

// replaceable returns an error unless --force may replace the file at path by one of a kind: it has
// to be of that kind, or empty. No command replaces a ledger.
func replaceable(path, kind string) error {
	if info, err := os.Stat(path); err == nil && info.Size() == 0 {
		return nil
	}
	is, err := contentsOf(path)
	switch {
	case err != nil:
		return usagef("--out: %w", err)
	case is == kind:
		return nil
	case is == "":
		is = "something else"
	}
	return usagef("--out: %s is no %s but %s: --force replaces files of the same kind only; choose another name, or "+
		"remove it yourself", path, kind, is)
}

// paidFor are the kinds of files that cost budget. --force keeps them under another name.
var paidFor = []string{kindModel, kindSchema, kindScore}

// unused returns path, or with a number before its extension the first name that no file has.
func unused(path string) string {
	ext := filepath.Ext(path)
	for k, name := 2, path; ; k++ {
		if _, err := os.Lstat(name); err != nil {
			return name
		}
		name = fmt.Sprintf("%s-%d%s", strings.TrimSuffix(path, ext), k, ext)
	}
}

// deliver writes what a budget was spent on, and commits the output. If that fails, it writes to
// another file, and the error says to which.
func (a *app) deliver(o *output, text []byte) error {
	_, err := o.Write(text)
	if err == nil {
		err = o.commit()
	}
	if err == nil {
		return nil
	}
	return a.rescue(fmt.Errorf("%s: %w", o.path, cause(err)), text)
}

// rescue writes what was paid for to a new file in the first folder that takes it. If none does, it
// writes to standard error.
func (a *app) rescue(err error, text []byte) error {
	home, _ := os.UserHomeDir()
	for _, dir := range []string{".", home, os.TempDir()} {
		if dir == "" {
			continue
		}
		f, failed := os.CreateTemp(dir, "privopt-rescued-*.json") // mode 0600
		if failed != nil {
			continue
		}
		_, failed = f.Write(text)
		if failed = firstOf(failed, f.Sync(), f.Close()); failed == nil {
			return noted{err, "what was paid for is in " + f.Name() + ": keep it"}
		}
		os.Remove(f.Name())
	}
	a.stderr.Write(text)
	return noted{err, "what was paid for could be written nowhere but to standard error, above: keep it"}
}

// firstOf returns the first error that is not nil.
func firstOf(list ...error) error {
	for _, err := range list {
		if err != nil {
			return err
		}
	}
	return nil
}

// uncommitted adds to the error of a ledger that the release is written all the same.
func uncommitted(err error, l *ledger.Ledger, path string) error {
	if err == nil {
		return nil
	}
	return noted{err, fmt.Sprintf("what was paid for is in %s, and %s holds no SHA-256 of it, so that it will not verify",
		path, l.Path())}
}
