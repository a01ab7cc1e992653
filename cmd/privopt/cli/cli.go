// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package cli is the command privopt. Programs that read records in another way, but fit as
// privopt does, use [Engine].
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privopt/privopt"
	"github.com/privopt/privopt/cmd/internal/screen"
	"github.com/privopt/privopt/internal/prefix"
)

// Main runs a program and exits with the exit code that run returns. The first SIGINT, SIGTERM or
// SIGHUP cancels the context of run; the second ends the process at once. Writes to a closed pipe
// return [syscall.EPIPE] instead of killing the process.
func Main(run func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int) {
	screen.Attach()
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// app is one run of the program.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	json           bool
	command        string // the command that runs, "" until its flags are parsed
}

// Run runs the command privopt and returns its exit code.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr}
	return a.execute(ctx, a.root(), args)
}

func (a *app) execute(ctx context.Context, root *cobra.Command, args []string) int {
	if len(args) > 0 && strings.HasPrefix(args[0], "__") { // a shell asks for completions
		plainUsage(root)
	}
	root.SetArgs(twoDashes(args))
	strictly(root)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	if a.command == "" { // the parser of the command line found the error
		text := parsing.ReplaceAllString(strings.Join(strings.Fields(prefix.Strip(err)), " "), "want a number")
		if _, found := errors.AsType[usageError](err); !found {
			err = usagef("%s%s; %s -h shows flags and examples", text, a.suggest(cmd, text), cmd.CommandPath())
		}
		a.command = cmd.CommandPath()
	}
	code := exitCode(err)
	switch {
	case suffix(err) == "" && (errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe)):
		// the reader of the output has left
	case code == exitCancelled:
		if screen.IsTerminal(a.stderr) {
			fmt.Fprintln(a.stderr) // the terminal has written ^C
		}
		screen.Say(a.stderr, a.command, "cancelled"+suffix(err))
	default:
		screen.Say(a.stderr, a.command, clean(err))
	}
	return code
}

func init() { cobra.EnableCommandSorting = false } // the order of root is that of use

// mistyped finds the name in an error about an unknown command or flag.
var mistyped = regexp.MustCompile(`^unknown (command|flag): "?(?:--)?([^" ]+)|^unknown command "([^"]+)"`)

// suggest returns a question about a mistyped name of a command or flag, or "".
func (a *app) suggest(cmd *cobra.Command, text string) string {
	m := mistyped.FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	var words []string
	if m[3] != "" {
		for _, c := range cmd.Commands() {
			if !c.Hidden {
				words = append(words, c.Name())
			}
		}
		return screen.Suggest(m[3], words)
	}
	visit := func(f *pflag.Flag) { words = append(words, "--"+f.Name) }
	cmd.Flags().VisitAll(visit)
	cmd.InheritedFlags().VisitAll(visit)
	return screen.Suggest("--"+m[2], words)
}

// noArgs refuses arguments of a command that has flags only.
func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unexpected argument %q: this command takes flags only", args[0])
	}
	return nil
}

// oneArg wants one argument, which the usage of a command names.
func oneArg(name string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("%d arguments, want one, the name of a %s", len(args), name)
		}
		return nil
	}
}

// twoDashes turns -flag into --flag, so that both are accepted. It leaves -h and negative numbers
// alone.
func twoDashes(args []string) []string {
	if len(args) > 0 && strings.HasPrefix(args[0], "__") { // a shell asks for completions
		return args
	}
	out := make([]string, len(args))
	rest := false
	for i, s := range args {
		rest = rest || s == "--"
		if name, _, _ := strings.Cut(s, "="); !rest && len(name) > 2 && s[0] == '-' && s[1] >= 'a' && s[1] <= 'z' {
			s = "-" + s
		}
		out[i] = s
	}
	return out
}

const rootHelp = `privopt fits differentially private models to tables of sensitive records.`

// rootEnd follows the list of commands. The help fits a terminal of 24 lines.
const rootEnd = "man COMMAND prints its manual page. Exit codes: 0 done, 1 failure, 2 usage, " +
	"3 refused, 4 withheld, 130 cancelled."

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "privopt",
		Short: "Private models from tables of sensitive records",
		Long:  rootHelp,
		Example: `  privopt demo
  privopt schema --example adult > adult.json
  privopt fit --schema adult.json --data adult.data --epsilon 1 --out model.json
  privopt explain model.json`,
	}
	a.prepare(root)
	for _, c := range []*cobra.Command{
		a.demo(), a.schema(), a.plan(), a.pack(), a.fit(), a.predict(), a.score(), a.summary(), a.explain(), a.htmlReport(),
		a.ledger(), a.man(), a.version(),
	} {
		c.Flags().SortFlags = false
		root.AddCommand(c)
	}
	return root
}

// prepare sets the options that privopt and every Engine have in common.
func (a *app) prepare(root *cobra.Command) {
	root.Version = version().String()
	root.DisableSuggestions = true
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { fmt.Fprint(a.stdout, helpOf(c)) })
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print JSON instead of text")
}

// decimals are the forms of numbers that flags accept: those that people write. Go also reads 1_0
// as 10, 010 as 8 and 0x1p3 as 8, which is not what somebody meant who mistyped a budget.
var (
	decimals = regexp.MustCompile(`^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$`)
	wholes   = regexp.MustCompile(`^[-+]?(0|[1-9][0-9]*)$`)
)

// decimal parses a decimal number.
func decimal(text string) (float64, error) {
	if !decimals.MatchString(text) {
		return 0, fmt.Errorf("%.40q is no decimal number such as 0.5", text)
	}
	return strconv.ParseFloat(text, 64)
}

// strict is the value of a flag of numbers that accepts decimal numbers only.
type strict struct {
	pflag.Value
	form *regexp.Regexp
}

// Set implements pflag.Value.
func (s strict) Set(text string) error {
	for _, part := range strings.Split(text, ",") {
		if !s.form.MatchString(strings.TrimSpace(part)) {
			return errors.New("want a number in decimal digits")
		}
	}
	return s.Value.Set(text)
}

// strictly makes all flags of numbers strict, those of subcommands too.
func strictly(c *cobra.Command) {
	visit := func(f *pflag.Flag) {
		if _, done := f.Value.(strict); done {
			return
		}
		switch kind := f.Value.Type(); {
		case strings.HasPrefix(kind, "float"):
			f.Value = strict{f.Value, decimals}
		case strings.HasPrefix(kind, "int"), strings.HasPrefix(kind, "uint"):
			f.Value = strict{f.Value, wholes}
		}
	}
	c.Flags().VisitAll(visit)
	c.PersistentFlags().VisitAll(visit)
	for _, s := range c.Commands() {
		strictly(s)
	}
}

// do wraps the body of a command. It sets a.command, so that errors are reported under its name.
func (a *app) do(body func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		a.command = c.CommandPath()
		if err := c.Context().Err(); err != nil {
			return err
		}
		if err := a.apart(c, args); err != nil {
			return err
		}
		return body(c.Context(), args)
	}
}

// build identifies the program: its version, its revision and its platform.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func version() build {
	b := build{privopt.Version, "", runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				b.Revision = s.Value
			}
		}
	}
	return b
}

func (b build) String() string {
	return strings.Join(strings.Fields(fmt.Sprintf("privopt %s %s %s %s", b.Version, b.Revision, b.Go, b.Platform)), " ")
}

func (a *app) version() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  privopt version --json",
		Args:    noArgs,
		RunE: a.do(func(context.Context, []string) error {
			return a.show(version(), version().String()+"\n")
		}),
	}
}
