// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/privopt/privopt/cmd/internal/screen"
	"github.com/privopt/privopt/cmd/internal/sweep"
)

const resultsHelp = `Every figure and table of docs/results, from scratch.

A job runs commands or experiments and writes CSV files, from which pictures are drawn. After an
interruption, research run NAME… makes those that are left.

A job that does not find its data or programs leaves its files as they are; in docs/results
these came with the repository. made-seconds.csv says when each job was made last, by which
version, and how long it took.
` + variables

const runHelp = `Runs some of the experiments of docs/results, whose names come first, from scratch; without a name
it lists them, and what they lack on this machine. It writes their CSV files, and the pictures
that are drawn from them.
` + variables

const variables = `
  PRIVOPT_DATA   folder with adult/adult.data and adult/adult.test
  PRIVOPT_PEERS  folder with the peer programs of bench/peers.sh and bench/race.py
  PYTHON         a Python with numpy, scipy and scikit-learn; /usr/bin/python3

Names of files are relative to the folder of the repository. With one seed the CSV files are the
same on every run, except those with "seconds" in their names, which hold times and ratios of times.`

// bench makes the files of jobs, as its flags say.
type bench struct {
	jobs  []string
	out   string
	seed  int
	small bool

	root    string // of the repository
	work    string // folder of the parts, until the end
	version string
}

// runResults is the command results: it returns the exit code.
func runResults(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return (&bench{jobs: names()}).command("results", "", resultsHelp, ctx, args, stdout, stderr)
}

// runSome is the command run: it returns the exit code.
func runSome(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	b := &bench{}
	for len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		b.jobs, args = append(b.jobs, args[0]), args[1:]
	}
	return b.command("run", " lowbits persons", runHelp, ctx, args, stdout, stderr)
}

func (b *bench) command(
	name, some, help string, ctx context.Context, args []string, stdout, stderr io.Writer,
) int {
	f := sweep.NewFlags(name, help)
	f.StringVar(&b.out, "out", "docs/results", "folder `DIR` of the figures and tables")
	f.IntVar(&b.seed, "seed", 1, sweep.Between(1, 1e6), "seed `N` of all noise and data")
	f.BoolVar(&b.small, "small", false, "small sizes, to see that every job works; not into docs/results")
	f.Example = "go -C cmd/research run . " + name + some + " -small -out small"
	return f.Run(args, stdout, stderr, &sweep.Options{Out: "."}, func() error {
		if len(b.jobs) == 0 {
			return listJobs(stdout)
		}
		for _, n := range b.jobs {
			if !slices.Contains(names(), n) {
				return sweep.Usagef("no experiment %q%s; research run lists them", n, screen.Suggest(n, names()))
			}
		}
		if b.small && !f.Given("out") {
			return sweep.Usagef(
				"flag -small needs -out: its figures are no evidence and must not replace those of docs/results")
		}
		err := b.open(ctx)
		defer os.RemoveAll(b.work)
		if err != nil {
			return err
		}
		for _, j := range jobs { // one that fails does not keep the others from running
			if ctx.Err() == nil {
				err = errors.Join(err, b.run(ctx, j, stdout))
			}
		}
		return errors.Join(err, b.draw(stdout))
	})
}

func names() (all []string) {
	for _, j := range jobs {
		all = append(all, j.name)
	}
	return all
}

func listJobs(stdout io.Writer) error {
	rows := [][]string{{"job", "what it makes"}}
	for _, j := range jobs {
		what := j.what
		if lacks := j.missing(); len(lacks) > 0 {
			what += "; missing here: " + strings.Join(lacks, "; ")
		}
		rows = append(rows, []string{j.name, what})
	}
	_, err := io.WriteString(stdout, screen.Table("lt", rows, screen.Out()))
	return err
}

func (j job) missing() (lacks []string) {
	for _, need := range j.needs {
		if err := need(); err != nil {
			lacks = append(lacks, err.Error())
		}
	}
	return lacks
}

// run makes the files of a job, unless they are there or something is missing. An error of a
// context that ended comes as it is.
func (b *bench) run(ctx context.Context, j job, stdout io.Writer) (err error) {
	if !slices.Contains(b.jobs, j.name) {
		return nil
	}
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = ctx.Err()
		}
	}()
	say := func(format string, args ...any) {
		fmt.Fprint(stdout, screen.Paragraph(fmt.Sprintf("%-18s ", j.name), fmt.Sprintf(format, args...), screen.Out()))
	}
	if lacks := j.missing(); len(lacks) > 0 {
		say("kept as shipped: %s", strings.Join(lacks, "; "))
		return nil
	}
	start := time.Now()
	lines, err := b.make(ctx, j)
	if err != nil {
		return fmt.Errorf("%s: %w", j.name, err)
	}
	seconds := time.Since(start).Seconds()
	say("made in %.3g s", seconds)
	for _, l := range lines {
		say("  %s", l)
	}
	return b.record(j, seconds)
}

// open makes the folders and cmd/scaling ready and learns the version.
func (b *bench) open(ctx context.Context) error {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/privopt/privopt").Output()
	if err != nil {
		return sweep.Usagef("cannot find the module: run this in a clone of the repository, with the go command in PATH: %w",
			err)
	}
	b.root = strings.TrimSpace(string(root))
	if b.out, err = filepath.Abs(b.out); err != nil {
		return err
	}
	if err := os.MkdirAll(b.out, 0o755); err != nil {
		return sweep.Usagef("cannot make the folder of -out: %w", err)
	}
	b.version = sweep.Version()
	describe := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty")
	describe.Dir = b.root
	if text, err := describe.Output(); err == nil {
		b.version = strings.TrimSpace(string(text))
	}
	if b.work, err = os.MkdirTemp("", "research"); err != nil || !slices.ContainsFunc(jobs, b.scales) {
		return err
	}
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", b.place(scalingProgram), "./cmd/scaling")
	build.Dir = b.root
	if text, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build cmd/scaling: %w: %s", err, lastLine(text))
	}
	return nil
}

// scales reports whether a job is asked for that runs cmd/scaling.
func (b *bench) scales(j job) bool {
	return slices.Contains(b.jobs, j.name) && len(j.parts) > 0 && len(j.parts[0].command) > 0 &&
		j.parts[0].command[0] == scalingProgram
}

// place puts the folders that are known from the start into a word of a command.
func (b *bench) place(word string) string {
	return strings.NewReplacer("ROOT", b.root, "WORK", b.work, "SEED", strconv.Itoa(b.seed)).Replace(word)
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

// make runs the parts of a job and writes its files. The lines are shown.
func (b *bench) make(ctx context.Context, j job) (lines []string, err error) {
	var folders []string
	var kept []part
	for i, p := range j.parts {
		dir := filepath.Join(b.work, j.name, strconv.Itoa(i))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		if err := b.part(ctx, p, dir); err != nil {
			return nil, err
		}
		if !p.prepares {
			kept, folders = append(kept, p), append(folders, dir)
		}
	}
	j.parts = kept
	if j.collect == nil {
		j.collect = collectSweeps
	}
	if j.tables != nil {
		j.collect = func(job, []string) (*output, error) { return j.tables(ctx, b) }
	}
	out, err := j.collect(j, folders)
	if err != nil {
		return nil, err
	}
	out.add(j.file(), out.table)
	if out.slopes != nil {
		out.add(j.file()+"-slopes", append([][]string{{"part", "method", "slope", "low", "high"}}, out.slopes...))
	}
	for _, r := range out.slopes {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("log-log slope of %s %s: %s", r[0], r[1], r[2])))
	}
	for name, data := range out.files {
		err = errors.Join(err, sweep.WriteFile(filepath.Join(b.out, name), data))
	}
	return lines, err
}

// part runs one command or experiment into the folder dir.
func (b *bench) part(ctx context.Context, p part, dir string) error {
	if p.experiment != nil {
		e, err := p.experiment(b)
		if err != nil {
			return err
		}
		seed := uint64(b.seed)
		o := &sweep.Options{Seed: &seed, Out: dir, Formats: []string{"csv", "json"}, Quiet: true, Workers: p.workers}
		_, err = e.Run(ctx, o, io.Discard, io.Discard)
		return err
	}
	args := b.args(p)
	if p.sweep {
		args = append(args, "-seed", strconv.Itoa(b.seed+p.offset), "-out", dir, "-formats", "csv,json", "-quiet")
	}
	for i, a := range args {
		args[i] = b.place(strings.ReplaceAll(a, "DIR", dir))
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
	cmd := exec.CommandContext(ctx, b.place(os.ExpandEnv(p.command[0])), args...)
	cmd.Stdout, cmd.Stderr = stdout, &stderr
	cmd.Dir = dir
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
