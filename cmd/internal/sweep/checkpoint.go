package sweep

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
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

// header is the first line of the checkpoint: what the cells belong to.
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
	for _, n := range slices.Concat([]string{"experiment", "version", "seed", "sweep", "methods"}, params, []string{"values"}) {
		if was, is := string(then[n]), string(now[n]); was != is {
			return fmt.Sprintf("%s was %s and is %s", n, shorten(was), shorten(is))
		}
	}
	return "the parameters differ"
}

// shorten keeps a message on one line of bearable length.
func shorten(s string) string {
	if s == "" {
		return "absent"
	}
	if r := []rune(s); len(r) > 60 {
		return string(r[:57]) + "..."
	}
	return s
}

// journal appends finished cells to the checkpoint.
type journal struct {
	f      *files
	header header

	mu      sync.Mutex // guards file and written
	file    *os.File
	written int // lines handed to the operating system

	syncing sync.Mutex // held during a sync
	synced  int        // lines known to be on disk
}

// append writes r and returns when it is on disk. Workers that arrive during
// a sync share the next one.
func (j *journal) append(r Result) error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("sweep: checkpoint: %w", err)
	}
	j.mu.Lock()
	_, err = j.file.Write(append(line, '\n'))
	j.written++
	mine := j.written
	j.mu.Unlock()
	if err != nil {
		return fmt.Errorf("sweep: checkpoint: %w", err)
	}

	j.syncing.Lock()
	defer j.syncing.Unlock()
	if j.synced >= mine {
		return nil
	}
	j.mu.Lock()
	upTo := j.written
	j.mu.Unlock()
	if err := j.file.Sync(); err != nil {
		return fmt.Errorf("sweep: checkpoint: %w", err)
	}
	j.synced = upTo
	return nil
}

// finish rewrites the checkpoint in order of cells, so that its bytes do not
// tell in which order workers or sittings finished them.
func (j *journal) finish(results []Result) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	if err := enc.Encode(j.header); err != nil {
		return fmt.Errorf("sweep: checkpoint: %w", err)
	}
	for _, r := range results {
		if err := enc.Encode(r); err != nil {
			return fmt.Errorf("sweep: checkpoint: %w", err)
		}
	}
	if err := j.Close(); err != nil {
		return fmt.Errorf("sweep: checkpoint: %w", err)
	}
	return WriteFile(j.f.path(checkpointName), b.Bytes())
}

// Close closes the file; closing twice is fine.
func (j *journal) Close() error {
	if err := j.file.Close(); err != nil && !errors.Is(err, fs.ErrClosed) {
		return err
	}
	return nil
}

// files is the output directory of an experiment.
type files struct {
	e *Experiment
	o *Options
}

func (f *files) path(name string) string { return filepath.Join(f.o.Out, name) }

// base is the name of the result files without extension.
func (f *files) base() string { return cmp.Or(f.e.Files, f.e.Name) }

// outputs lists every file that a run may write beside the checkpoint.
func (f *files) outputs() []string {
	names := []string{"summary.json"}
	for _, ext := range []string{"csv", "png", "svg", "pdf"} {
		names = append(names, f.base()+"."+ext)
	}
	return names
}

// open makes the directory ready: it refuses results of another run unless Force is set, reads the
// finished cells if Resume is set, and leaves a checkpoint that begins with the header of this run.
func (f *files) open() (*journal, map[string]Result, error) {
	h, err := newHeader(f.e, f.o)
	if err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(f.o.Out, 0o755); err != nil {
		return nil, nil, Usagef("cannot make the folder of -out: %w", err)
	}
	for _, name := range append(f.outputs(), checkpointName) { // what kill −9 left of a write
		left, _ := filepath.Glob(f.path("." + name + ".[0-9]*"))
		for _, tmp := range left {
			os.Remove(tmp)
		}
	}
	path := f.path(checkpointName)
	done := map[string]Result{}
	text, err := os.ReadFile(path)
	switch {
	case err == nil && f.o.Resume:
		var size int64
		if done, size, err = f.load(text, h); err != nil {
			return nil, nil, err
		}
		if err := os.Truncate(path, size); err != nil { // a line cut short by kill −9
			return nil, nil, fmt.Errorf("cannot repair the checkpoint: %w", err)
		}
	case err == nil || errors.Is(err, fs.ErrNotExist):
		if err := f.claim(err == nil); err != nil {
			return nil, nil, err
		}
		line, err := json.Marshal(h)
		if err != nil {
			return nil, nil, fmt.Errorf("sweep: checkpoint: %w", err)
		}
		if err := WriteFile(path, append(line, '\n')); err != nil {
			return nil, nil, err
		}
		// Figures of an older run must not stand beside the cells of this one.
		for _, name := range f.outputs() {
			if err := os.Remove(f.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, nil, fmt.Errorf("cannot remove the older file: %w", err)
			}
		}
	default:
		return nil, nil, fmt.Errorf("cannot read the checkpoint: %w", err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot open the checkpoint: %w", err)
	}
	return &journal{f: f, header: h, file: file}, done, nil
}

// claim refuses a directory that holds results unless Force is set.
func (f *files) claim(checkpoint bool) error {
	if f.o.Force {
		return nil
	}
	if checkpoint {
		return Usagef("-out %s holds results of another run: -resume continues that run, -force overwrites it, or name another folder", f.o.Out)
	}
	for _, name := range f.outputs() {
		if _, err := os.Lstat(f.path(name)); err == nil {
			return Usagef("-out %s holds %s: -force overwrites it, or name another folder", f.o.Out, name)
		}
	}
	return nil
}

// load reads the cells of a checkpoint with header h and the length of its intact part. A last line
// cut short is left out; a damaged line before it is an error.
func (f *files) load(text []byte, h header) (map[string]Result, int64, error) {
	line, rest, whole := bytes.Cut(text, []byte("\n"))
	var old header
	if err := json.Unmarshal(line, &old); err != nil || !whole || old.ID == "" {
		return nil, 0, Usagef("-resume: %s does not begin with the header of a sweep: -force starts again", f.path(checkpointName))
	}
	if old.ID != h.ID {
		return nil, 0, Usagef("-resume: %s belongs to another experiment (%s): use the flags of that run, -force, or another -out",
			f.path(checkpointName), h.differs(old))
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
		if err != nil || r.SchemaVersion != SchemaVersion || r.Runs < 1 || !known[key(r.Value, r.Method)] {
			return nil, 0, Usagef("-resume: line %d of %s is damaged: delete that line or start again with -force", n, f.path(checkpointName))
		}
		if _, twice := done[key(r.Value, r.Method)]; !twice {
			done[key(r.Value, r.Method)] = r
		}
		size += int64(len(line) + 1)
	}
	return done, size, nil
}

// WriteFile puts data at path by way of a synced temporary file, so that path
// never holds a part of it.
func WriteFile(path string, data []byte) error {
	if err := wholefile.Write(path, data, 0o644); err != nil {
		return fmt.Errorf("cannot write the file: %w", err)
	}
	return nil
}
