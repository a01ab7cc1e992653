// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package sweep

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/privopt/privopt/internal/wholefile"
)

// checkpointName is the file of Options.Out that holds the finished cells.
const checkpointName = "cells.jsonl"

// header is the first line of the checkpoint. It identifies the experiment of the cells.
type header struct {
	SchemaVersion int             `json:"schema_version"`
	Experiment    string          `json:"experiment"`
	ID            string          `json:"id"` // SHA-256 of the other fields
	NotPrivate    string          `json:"not_private,omitempty"`
	Version       string          `json:"version"`
	Sweep         string          `json:"sweep"`
	Values        []float64       `json:"values"`
	Methods       []string        `json:"methods"`
	Seed          *uint64         `json:"seed"` // null: secure noise
	Params        json.RawMessage `json:"params"`
}

// newHeader describes the experiment e under o.
func newHeader(e *Experiment, o *Options) (header, error) {
	params, err := json.Marshal(e.Params)
	if err != nil {
		return header{}, fmt.Errorf("sweep: parameters: %w", err)
	}
	h := header{SchemaVersion: SchemaVersion, Experiment: e.Name, NotPrivate: e.notPrivate(o), Version: Version(),
		Sweep: e.Sweep, Values: e.Values, Methods: e.Methods, Seed: o.Seed, Params: params}
	text, err := json.Marshal(h)
	if err != nil {
		return header{}, fmt.Errorf("sweep: parameters: %w", err)
	}
	sum := sha256.Sum256(text)
	h.ID = hex.EncodeToString(sum[:16])
	return h, nil
}

// differs names the first field in which two headers differ.
func (h header) differs(old header) string {
	fields := func(h header) (params []string, all map[string]json.RawMessage) {
		text, _ := json.Marshal(h)
		var values map[string]json.RawMessage
		json.Unmarshal(text, &all)
		json.Unmarshal(h.Params, &values)
		maps.Copy(all, values)
		return slices.Sorted(maps.Keys(values)), all
	}
	params, now := fields(h)
	_, then := fields(old)
	names := slices.Concat([]string{"experiment", "version", "seed", "sweep", "methods"}, params, []string{"values"})
	for _, n := range names {
		if was, is := string(then[n]), string(now[n]); was != is {
			return fmt.Sprintf("%s was %s and is %s", n, shorten(was), shorten(is))
		}
	}
	return "the parameters differ"
}

// shorten keeps a message on one line of bearable length.
func shorten(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:57]) + "..."
	}
	return cmp.Or(s, "absent")
}

// files is the folder of an experiment, with its checkpoint.
type files struct {
	e *Experiment
	o *Options

	header header
	mu     sync.Mutex // guards checkpoint
	// checkpoint is open while cells are computed.
	checkpoint *os.File
}

func broken(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("sweep: checkpoint: %w", err)
}

// append writes r to the checkpoint. Whoever kills the process loses nothing that was written; if
// the machine fails, the next sitting computes what did not reach the disk.
func (f *files) append(r Result) error {
	line, err := json.Marshal(r)
	if err != nil {
		return broken(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err = f.checkpoint.Write(append(line, '\n'))
	return broken(err)
}

// finish rewrites the checkpoint in order of cells: its bytes do not depend on the order in which
// workers or sittings finished them.
func (f *files) finish(results []Result) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	err := enc.Encode(f.header)
	for _, r := range results {
		if err == nil {
			err = enc.Encode(r)
		}
	}
	if err != nil {
		return broken(err)
	}
	if err := f.checkpoint.Close(); err != nil {
		return broken(err)
	}
	return WriteFile(f.path(checkpointName), b.Bytes())
}

func (f *files) path(name string) string { return filepath.Join(f.o.Out, name) }

// base is the name of the result files without extension.
func (f *files) base() string { return cmp.Or(f.e.Files, f.e.Name) }

// outputs lists every file that a run may write beside the checkpoint.
func (f *files) outputs() []string {
	names := []string{"summary.json"}
	for _, ext := range []string{"csv", "png", "svg"} {
		names = append(names, f.base()+"."+ext)
	}
	return names
}

// open makes the folder ready: it refuses results of another run unless Force is set, reads the
// finished cells if Resume is set, and leaves a checkpoint that begins with the header of this run.
func (f *files) open() (done map[string]Result, err error) {
	if f.header, err = newHeader(f.e, f.o); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(f.o.Out, 0o755); err != nil {
		return nil, Usagef("cannot make the folder of -out: %w", err)
	}
	for _, name := range append(f.outputs(), checkpointName) {
		if read, _, one := wholefile.Twice(append(f.o.Reads, f.path(name))); one {
			return nil, Usagef("-out %s: the run would replace %s, which it reads: name another folder", f.o.Out, read)
		}
		// a write that kill −9 ended
		left, _ := filepath.Glob(f.path("." + name + ".[0-9]*"))
		for _, tmp := range left {
			os.Remove(tmp)
		}
	}
	path := f.path(checkpointName)
	text, err := os.ReadFile(path)
	switch {
	case err == nil && f.o.Resume:
		var size int64
		if done, size, err = f.load(text); err != nil {
			return nil, err
		}
		if err := os.Truncate(path, size); err != nil { // a line that kill −9 cut short
			return nil, fmt.Errorf("cannot repair the checkpoint: %w", err)
		}
	case err == nil || errors.Is(err, fs.ErrNotExist):
		if err := f.claim(err == nil); err != nil {
			return nil, err
		}
		line, err := json.Marshal(f.header)
		if err != nil {
			return nil, broken(err)
		}
		if err := WriteFile(path, append(line, '\n')); err != nil {
			return nil, err
		}
		// Figures of an older run must not stand beside the cells of this one.
		for _, name := range f.outputs() {
			if err := os.Remove(f.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("cannot remove the older file: %w", err)
			}
		}
	default:
		return nil, fmt.Errorf("cannot read the checkpoint: %w", err)
	}
	if f.checkpoint, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0); err != nil {
		return nil, fmt.Errorf("cannot open the checkpoint: %w", err)
	}
	return done, nil
}

// claim refuses a folder that holds results unless Force is set.
func (f *files) claim(checkpoint bool) error {
	if f.o.Force {
		return nil
	}
	err := Refuse(checkpoint, "-out %s holds results of another run: -resume continues that run, -force overwrites "+
		"it, or name another folder", f.o.Out)
	for _, name := range f.outputs() {
		_, missing := os.Lstat(f.path(name))
		err = First(err, Refuse(missing == nil, "-out %s holds %s: -force overwrites it, or name another folder",
			f.o.Out, name))
	}
	return err
}

// load reads the cells of a checkpoint and the length of its intact part. A last line that was cut
// short is left out; a damaged line before it is an error.
func (f *files) load(text []byte) (map[string]Result, int64, error) {
	path := f.path(checkpointName)
	line, rest, whole := bytes.Cut(text, []byte("\n"))
	var old header
	if err := json.Unmarshal(line, &old); err != nil || !whole || old.ID == "" {
		return nil, 0, Usagef("-resume: %s does not begin with the header of a sweep: -force starts again", path)
	}
	if old.ID != f.header.ID {
		return nil, 0, Usagef("-resume: %s belongs to another experiment (%s): use the flags of that run, -force, or "+
			"another -out", path, f.header.differs(old))
	}
	known := map[string]bool{}
	for _, c := range f.e.cells() {
		known[key(c.Value, c.Method)] = true
	}
	done := map[string]Result{}
	size := int64(len(line) + 1)
	for n := 2; len(rest) > 0; n++ {
		line, rest, whole = bytes.Cut(rest, []byte("\n"))
		var r Result
		err := json.Unmarshal(line, &r)
		if err != nil && len(rest) == 0 || !whole {
			break // cut short: its cell was not finished
		}
		k := key(r.Value, r.Method)
		if err != nil || r.SchemaVersion != SchemaVersion || r.Runs < 1 || !known[k] {
			return nil, 0, Usagef("-resume: line %d of %s is damaged: delete that line or start again with -force", n, path)
		}
		if _, twice := done[k]; !twice {
			done[k] = r
		}
		size += int64(len(line) + 1)
	}
	return done, size, nil
}

// WriteTo is WriteFile, or writes to stdout if path is "-".
func WriteTo(stdout io.Writer, path string, data []byte) error {
	if path == "-" {
		_, err := stdout.Write(data)
		return err
	}
	return WriteFile(path, data)
}

// WriteFile puts data at path by way of a synced temporary file, so that path
// never holds a part of it.
func WriteFile(path string, data []byte) error {
	if err := wholefile.Write(path, data, 0o644); err != nil {
		return fmt.Errorf("cannot write the file: %w", err)
	}
	return nil
}
