// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package sweep

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/privopt/privopt"
	"github.com/privopt/privopt/cmd/internal/screen"
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/prefix"
)

// Options are the flags that every experiment has.
type Options struct {
	Seed    *uint64 // nil: secure noise
	Workers int     // 0: one for each processor
	Out     string
	Force   bool
	Resume  bool
	Formats []string
	Quiet   bool
	Reads   []string // files of the caller, which the run must not replace
}

// allFormats are the files that Options.Formats may name.
var allFormats = []string{"csv", "json", "png", "svg"}

// Register adds the flags of o to f, with out as the default folder.
func (o *Options) Register(f *Flags, out string) {
	f.SeedVar(func(seed uint64) { o.Seed = &seed },
		"`N` reproducible noise from this seed; NOT PRIVATE (default: new secure noise)")
	f.IntVar(&o.Workers, "workers", 0, Between(0, 1024), "parallel workers `N`, 0 for one each processor")
	f.StringVar(&o.Out, "out", out, "folder `DIR` of the results")
	f.BoolVar(&o.Force, "force", false, "overwrite results of another run in -out")
	f.BoolVar(&o.Resume, "resume", false, "continue the run in -out; without -seed the remaining cells draw new noise")
	f.ListVar(&o.Formats, "formats", allFormats, allFormats,
		"files to write, `LIST` of csv, json (summary.json), png, svg")
	f.BoolVar(&o.Quiet, "quiet", false, "no notes and no progress on standard error")
}

// check reports contradictions between options.
func (o *Options) check() error {
	return First(
		Refuse(o.Out == "", `invalid value "" for flag -out: want the name of a folder, for example scaling-out`),
		Refuse(o.Force && o.Resume, "-force and -resume contradict each other: give one of them"))
}

// Flags is a flag set whose values carry their range, so that every bad value
// gives one line with the flag, the value, the range and an example.
type Flags struct {
	*flag.FlagSet
	Example  string // a command that runs as it stands
	synopsis string
	version  bool
}

// NewFlags returns an empty set for the program name; synopsis heads its help.
func NewFlags(name, synopsis string) *Flags {
	f := &Flags{FlagSet: flag.NewFlagSet(name, flag.ContinueOnError), synopsis: synopsis}
	f.SetOutput(io.Discard)
	f.FlagSet.Usage = func() {}
	f.BoolVar(&f.version, "version", false, "print the version and leave")
	return f
}

// help explains the program, its flags and its exit codes.
func (f *Flags) help() string {
	var list []screen.Flag
	f.VisitAll(func(g *flag.Flag) {
		arg, usage := flag.UnquoteUsage(g)
		initial := g.DefValue
		if strings.HasPrefix(arg, "value") || strings.HasPrefix(arg, "string") {
			arg = strings.ToUpper(g.Name)
		}
		list = append(list, screen.Flag{Name: strings.TrimSpace("-" + g.Name + " " + arg), Usage: usage, Default: initial})
	})
	width := screen.Out()
	text := screen.Wrap(f.synopsis, width) + "\nUsage: " + f.Name() + " [flags]\n"
	if f.Example != "" {
		text += "\nExample:\n" + screen.Commands("  "+f.Example, width)
	}
	return text + "\nFlags:\n" + screen.Flags(list, width) + "\n" + screen.Paragraph("", "Exit codes: 0 done, 1 failure, "+
		"2 bad flag, file or budget value, 3 privacy condition unmet, 4 release withheld, 130 interrupted.", width)
}

// Given reports whether the command line sets the flag.
func (f *Flags) Given(name string) bool {
	found := false
	f.Visit(func(g *flag.Flag) { found = found || g.Name == name })
	return found
}

// First returns the first error of a list that is not nil. All of them are computed before.
func First(list ...error) error {
	for _, err := range list {
		if err != nil {
			return err
		}
	}
	return nil
}

// Pointless returns an error about the first of the named flags that the command line sets; why,
// such as "with -data", says why it has no meaning.
func (f *Flags) Pointless(why string, names ...string) (err error) {
	for _, name := range names {
		err = First(err, Refuse(f.Given(name), "flag -%s has no meaning %s: leave it out", name, why))
	}
	return err
}

// PointlessIf is Pointless where when is true, else nil.
func (f *Flags) PointlessIf(when bool, why string, names ...string) error {
	if !when {
		return nil
	}
	return f.Pointless(why, names...)
}

// RunExperiment is Run of a program whose body is the experiment that describe returns.
// Errors of the kinds in public can be repaired by a flag or a file.
func (f *Flags) RunExperiment(
	ctx context.Context, args []string, stdout, stderr io.Writer, o *Options, public []error,
	describe func() (*Experiment, error),
) int {
	return f.Run(args, stdout, stderr, o, func() error {
		e, err := describe()
		if err == nil {
			_, err = e.Run(ctx, o, stdout, stderr)
		}
		repairable := slices.ContainsFunc(public, func(kind error) bool { return errors.Is(err, kind) })
		if repairable && !errors.Is(err, dp.ErrCondition) {
			return Usagef("%w", err)
		}
		return err
	})
}

// Run parses args, then calls body, and returns the exit code. Errors become
// one line on stderr; -h and -version answer on stdout.
func (f *Flags) Run(args []string, stdout, stderr io.Writer, o *Options, body func() error) int {
	err := f.parse(args, stdout, o)
	if err == nil {
		err = body()
	}
	report(stderr, f.Name(), err)
	return ExitCode(err)
}

func (f *Flags) parse(args []string, stdout io.Writer, o *Options) error {
	err := f.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, f.help())
		return err
	case err != nil:
		question := ""
		if name, found := strings.CutPrefix(err.Error(), "flag provided but not defined: -"); found {
			var names []string
			f.VisitAll(func(g *flag.Flag) { names = append(names, "-"+g.Name) })
			question = screen.Suggest("-"+name, names)
		}
		return Usagef("%w%s; %s -h lists the flags", err, question, f.Name())
	case f.version:
		v := fmt.Sprintf("%s %s %s %s/%s", f.Name(), Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
		_, err := fmt.Fprintln(stdout, v)
		if err != nil {
			return err
		}
		return flag.ErrHelp
	case f.NArg() > 0:
		return Usagef("unexpected argument %q: everything is a flag; %s -h lists them", f.Arg(0), f.Name())
	}
	return o.check()
}

// Range is an interval of admissible numbers.
type Range struct {
	Min, Max float64
	Open     bool // Min itself is refused
	Example  float64
}

// Between is the closed interval [lo, hi].
func Between(lo, hi float64) Range { return Range{Min: lo, Max: hi, Example: max(lo, min(hi, 1))} }

// Positive is the interval (0, hi].
func Positive(hi float64) Range { return Range{Max: hi, Open: true, Example: min(hi, 1)} }

// parse returns the number in text, a whole one if integer is set, or an error that names the
// range.
func (r Range) parse(text string, integer bool) (float64, error) {
	x, err := strconv.ParseFloat(text, 64)
	inside := x >= r.Min && x <= r.Max && !(r.Open && x == r.Min) // false for NaN
	if err == nil && inside && !(integer && x != math.Trunc(x)) {
		return x, nil
	}
	kind, left := "number", "["
	if integer {
		kind = "whole number"
	}
	if r.Open {
		left = "("
	}
	return 0, fmt.Errorf("want a %s in %s%s, %s], for example %s", kind, left, format(r.Min), format(r.Max),
		format(r.Example))
}

// value is a flag.Value that keeps what parse returns in p. Package flag also asks the zero value
// for its text.
type value[T any] struct {
	p     *T
	show  func(T) string
	parse func(text string) (T, error)
}

// String implements flag.Value.
func (v value[T]) String() string {
	if v.p == nil {
		return ""
	}
	return v.show(*v.p)
}

// Set implements flag.Value.
func (v value[T]) Set(text string) (err error) {
	*v.p, err = v.parse(text)
	return err
}

// FloatVar defines a flag that takes a number of the range.
func (f *Flags) FloatVar(p *float64, name string, initial float64, r Range, usage string) {
	*p = initial
	f.Var(value[float64]{p, format, func(text string) (float64, error) { return r.parse(text, false) }}, name, usage)
}

// IntVar defines a flag that takes an integer of the range.
func (f *Flags) IntVar(p *int, name string, initial int, r Range, usage string) {
	*p = initial
	f.Var(value[int]{p, strconv.Itoa, func(text string) (int, error) {
		x, err := r.parse(text, true)
		return int(x), err
	}}, name, usage)
}

// ChoiceVar defines a flag that takes one of the choices.
func (f *Flags) ChoiceVar(p *string, name, initial string, choices []string, usage string) {
	*p = initial
	if !strings.Contains(usage, choices[len(choices)-1]) {
		usage += ": " + strings.Join(choices, ", ")
	}
	f.Var(value[string]{p, strings.Clone, func(text string) (string, error) {
		if !slices.Contains(choices, text) {
			return "", fmt.Errorf("want one of %s", strings.Join(choices, ", "))
		}
		return text, nil
	}}, name, usage)
}

// ListVar defines a flag that takes a comma-separated list of choices, none twice.
func (f *Flags) ListVar(p *[]string, name string, initial, choices []string, usage string) {
	*p = slices.Clone(initial)
	show := func(list []string) string { return strings.Join(list, ",") }
	f.Var(value[[]string]{p, show, func(text string) (list []string, err error) {
		for item := range strings.SplitSeq(text, ",") {
			item = strings.TrimSpace(item)
			if !slices.Contains(choices, item) || slices.Contains(list, item) {
				return nil, fmt.Errorf("want a list, without repetition, of %s", show(choices))
			}
			list = append(list, item)
		}
		return list, nil
	}}, name, usage)
}

// SeedVar defines a flag that takes a seed and passes it to set.
func (f *Flags) SeedVar(set func(seed uint64), usage string) {
	f.Func("seed", usage, func(text string) error {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return errors.New("want a whole number in [0, 18446744073709551615], for example 1")
		}
		set(n)
		return nil
	})
}

// ParseValues reads a comma-separated list of distinct numbers of the range,
// integers if integer is set. name is the flag that errors name.
func ParseValues(name, text string, r Range, integer bool) ([]float64, error) {
	var values []float64
	for field := range strings.SplitSeq(text, ",") {
		x, err := r.parse(strings.TrimSpace(field), integer)
		if err == nil && slices.Contains(values, x) {
			err = errors.New("it is there twice, want distinct numbers")
		}
		if err != nil {
			return nil, Usagef("invalid value %q in the list of flag -%s: %w", field, name, err)
		}
		values = append(values, x)
	}
	return values, nil
}

// Replace refuses to write to a file that exists, unless force is set. The name is that of the flag
// which names the file or its folder; "-" is standard output.
func Replace(flag, path string, force bool) error {
	if path == "" || path == "-" || force {
		return nil
	}
	_, err := os.Lstat(path)
	return Refuse(err == nil, "flag -%s: %s exists: choose another name, or -force to replace it", flag, path)
}

// File identifies a file without a function of what is in it.
type File struct {
	Path     string `json:"path"`
	Modified string `json:"modified"`
}

// ReadFile parses the file named by a flag; errors name the flag.
func ReadFile[T any](name, path string, parse func(r io.Reader) (T, error)) (content T, _ *File, err error) {
	file, err := os.Open(path)
	if err != nil {
		return content, nil, fmt.Errorf("flag -%s: %w", name, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || info.IsDir() {
		return content, nil, Usagef("flag -%s: %s is a folder, or no file", name, path)
	}
	if content, err = parse(file); err != nil {
		err = fmt.Errorf("flag -%s: %w", name, err)
	}
	return content, &File{path, info.ModTime().UTC().Format(time.RFC3339)}, err
}

// ErrUsage reports a flag, file or value that the caller of the program has to
// change. Test with errors.Is.
var ErrUsage = errors.New("usage")

// usageError is a message without the sentinel's own text.
type usageError struct{ error }

func (usageError) Is(target error) bool { return target == ErrUsage }
func (e usageError) Unwrap() error      { return e.error }

// Usagef returns an error with the formatted text that wraps ErrUsage.
func Usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// Refuse is Usagef where bad is true, else nil.
func Refuse(bad bool, format string, args ...any) error {
	if !bad {
		return nil
	}
	return Usagef(format, args...)
}

// Exit codes of the programs of this module.
const (
	ExitOK          = 0
	ExitFailure     = 1   // a file, a pipe, an overflow
	ExitUsage       = 2   // bad flag, file or budget value
	ExitCondition   = 3   // a privacy condition of a theorem is unmet
	ExitWithheld    = 4   // a release was withheld
	ExitInterrupted = 130 // Ctrl-C or SIGTERM
)

// ExitCode maps err to the exit code of the program.
func ExitCode(err error) int {
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return ExitOK
	case errors.Is(err, context.Canceled):
		return ExitInterrupted
	case errors.Is(err, ErrUsage) || errors.Is(err, dp.ErrBudget):
		return ExitUsage
	case errors.Is(err, dp.ErrCondition):
		return ExitCondition
	case errors.Is(err, dp.ErrWithheld):
		return ExitWithheld
	}
	return ExitFailure
}

// Main runs a program that ends in order on SIGINT and SIGTERM: the first one
// cancels the context, a second one ends the process at once. Writes to a
// closed pipe return syscall.EPIPE instead of killing the process.
func Main(run func(ctx context.Context, args []string, stdout, stderr io.Writer) int) {
	screen.Attach()
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// report writes err as the one line that a program ends with. A reader that
// closed the pipe wants to hear nothing.
func report(stderr io.Writer, name string, err error) {
	if err != nil && !errors.Is(err, flag.ErrHelp) && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, io.ErrClosedPipe) {
		if ExitCode(err) == ExitInterrupted && screen.IsTerminal(stderr) {
			fmt.Fprintln(stderr) // the terminal has written ^C
		}
		screen.Say(stderr, name, prefix.Strip(err))
	}
}

// Version is the version of this module, with the revision that the go command recorded.
func Version() string {
	version := privopt.Version
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				version += "+" + s.Value
			}
		}
	}
	return version
}
