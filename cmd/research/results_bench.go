package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/privopt/privopt/cmd/internal/sweep"
)

type bench struct {
	*resultsFlags
	selected map[string]bool
	root     string // of the module
	work     string // folder of what is kept between runs
	version  string
	self     string // SHA-256 of this program
}

// newBench makes the folders ready and learns the version.
func newBench(ctx context.Context, c *resultsFlags) (*bench, error) {
	b := &bench{resultsFlags: c, selected: map[string]bool{}}
	for _, name := range c.jobs {
		b.selected[name] = true
	}
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return nil, sweep.Usagef("cannot find the module: run this in a clone of the repository, with the go command in PATH: %w", err)
	}
	b.root = strings.TrimSpace(string(root))
	if b.out, err = filepath.Abs(b.out); err != nil {
		return nil, err
	}
	b.work = filepath.Join(b.out, ".work")
	if err := os.MkdirAll(b.work, 0o755); err != nil {
		return nil, sweep.Usagef("cannot make the folder of -out: %w", err)
	}
	b.version = sweep.Version()
	describe := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty")
	describe.Dir = b.root
	if text, err := describe.Output(); err == nil {
		b.version = strings.TrimSpace(string(text))
	}
	path, err := os.Executable()
	if err == nil {
		b.self, err = sum(path)
	}
	return b, err
}

// sum returns the SHA-256 of a file.
func sum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// key identifies the files that a job would make: this program, the flags of its parts and the seed.
func (b *bench) key(j job) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, b.self, b.seed, b.small, j.name)
	for _, p := range j.parts {
		switch {
		case p.outside:
			fmt.Fprintln(h, p.command[0], b.args(p))
			for _, a := range p.command {
				if script, ok := strings.CutPrefix(a, "ROOT"); ok {
					text, err := sum(b.root + script)
					if err != nil {
						return "", err
					}
					fmt.Fprintln(h, text)
				}
			}
		case len(p.command) > 0:
			fmt.Fprintln(h, p.command[0], b.args(p))
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// args are the arguments of a command, with the values of environment variables.
func (b *bench) args(p part) []string {
	args := slices.Clone(p.command[1:])
	if b.small {
		args = append(args, p.small...)
	}
	for i, a := range args {
		args[i] = os.ExpandEnv(a)
	}
	return args
}

// stamp is what is kept of a finished job.
type stamp struct {
	Key   string   `json:"key"`
	Files []string `json:"files"`
}

func (b *bench) stampPath(j job) string { return filepath.Join(b.work, j.name+".json") }

// finished reports whether the files of the job are there, made with the same key.
func (b *bench) finished(j job, key string) bool {
	text, err := os.ReadFile(b.stampPath(j))
	var s stamp
	if err != nil || json.Unmarshal(text, &s) != nil || s.Key != key {
		return false
	}
	return !slices.ContainsFunc(s.Files, func(name string) bool {
		_, err := os.Stat(filepath.Join(b.out, name))
		return err != nil
	})
}

// finish keeps the stamp and removes what the sweeps kept.
func (b *bench) finish(j job, key string, files []string) error {
	text, err := json.Marshal(stamp{key, files})
	return errors.Join(err, sweep.WriteFile(b.stampPath(j), text), os.RemoveAll(b.folder(j, key)))
}

func (b *bench) folder(j job, key string) string { return filepath.Join(b.work, j.name+"-"+key[:8]) }

// make runs the parts of a job and writes its files. The lines are shown.
func (b *bench) make(ctx context.Context, j job, key string) (lines, files []string, err error) {
	var folders []string
	var kept []part
	for i, p := range j.parts {
		dir := filepath.Join(b.folder(j, key), strconv.Itoa(i))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, nil, err
		}
		if err := b.part(ctx, p, dir); err != nil {
			return nil, nil, err
		}
		if !p.prepares {
			kept, folders = append(kept, p), append(folders, dir)
		}
	}
	j.parts = kept
	if j.collect == nil {
		j.collect = collectSweeps
	}
	out, err := j.collect(j, folders)
	if err != nil {
		return nil, nil, err
	}
	made := map[string][]byte{}
	maps.Copy(made, out.files)
	if out.table != nil {
		made[j.file()+".csv"] = text(out.table)
	}
	if out.slopes != nil {
		made[j.file()+"-slopes.csv"] = text(append([][]string{{"part", "method", "slope", "low", "high"}}, out.slopes...))
	}
	for _, r := range out.slopes {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("log-log slope of %s %s: %s", r[0], r[1], r[2])))
	}
	files = slices.Sorted(maps.Keys(made))
	for _, name := range files {
		if err := sweep.WriteFile(filepath.Join(b.out, name), made[name]); err != nil {
			return nil, nil, err
		}
	}
	return lines, files, nil
}

// part runs one command or experiment into the folder dir.
func (b *bench) part(ctx context.Context, p part, dir string) error {
	if p.experiment != nil {
		e, err := p.experiment(b)
		if err != nil {
			return err
		}
		seed := uint64(b.seed)
		o := &sweep.Options{Seed: &seed, Out: dir, Resume: true, Formats: []string{"csv", "json"}, Quiet: true, Workers: p.workers}
		_, err = e.Run(ctx, o, io.Discard, io.Discard)
		return err
	}
	args := b.args(p)
	if p.sweep {
		args = append(args, "-seed", strconv.Itoa(b.seed+p.offset), "-out", dir, "-formats", "csv,json,png", "-quiet", "-resume")
	}
	for i, a := range args {
		args[i] = strings.NewReplacer("DIR", dir, "ROOT", b.root, "WORK", b.work, "SEED", strconv.Itoa(b.seed)).Replace(a)
	}
	stdout, err := os.Create(filepath.Join(dir, "stdout.txt"))
	if err != nil {
		return err
	}
	defer stdout.Close()
	var stderr bytes.Buffer
	said := func(err error) error {
		return fmt.Errorf("%s %s: %w: %s", p.command[0], strings.Join(args, " "), err, lastLine(stderr.Bytes()))
	}
	if !p.outside {
		if code := find(p.command[0])(ctx, args, stdout, &stderr); code != p.code {
			return said(fmt.Errorf("exit code %d, want %d", code, p.code))
		}
		return nil
	}
	cmd := exec.CommandContext(ctx, os.ExpandEnv(p.command[0]), args...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = stdout, &stderr, dir
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		return said(err)
	}
	return nil
}

func lastLine(text []byte) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}

var madeHeader = []string{"job", "size", "seed", "version", "go", "platform", "processors", "seconds", "date"}

// record notes in made-seconds.csv who made the files of a job.
func (b *bench) record(j job, seconds float64) error {
	path := filepath.Join(b.out, "made-seconds.csv")
	rows := map[string][]string{}
	old, err := readCSV(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, r := range old {
		rows[r[0]] = r
	}
	rows[j.name] = []string{j.name, pick(b, "full", "small"), strconv.Itoa(b.seed), b.version, runtime.Version(),
		runtime.GOOS + "/" + runtime.GOARCH, strconv.Itoa(runtime.NumCPU()),
		strconv.FormatFloat(seconds, 'f', 1, 64), time.Now().UTC().Format(time.DateOnly)}
	table := [][]string{madeHeader}
	for _, name := range names() { // the old header and jobs that are gone are left out
		if r, ok := rows[name]; ok {
			table = append(table, r)
		}
	}
	return sweep.WriteFile(path, text(table))
}

func text(rows [][]string) []byte {
	var b bytes.Buffer
	_ = csv.NewWriter(&b).WriteAll(rows) // a Buffer does not fail
	return b.Bytes()
}
