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
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Main runs a program and exits with the exit code that run returns. The first SIGINT, SIGTERM or
// SIGHUP cancels the context of run; the second ends the process at once. Writes to a closed pipe
// return [syscall.EPIPE] instead of killing the process.
func Main(run func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int) {
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
	root.SetArgs(twoDashes(args))
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	if a.command == "" { // the parser of the command line found the error
		text := parsing.ReplaceAllString(strings.Join(strings.Fields(err.Error()), " "), "want a number")
		if _, found := errors.AsType[usageError](err); !found {
			err = usagef("%s; %s -h shows flags and examples", text, cmd.CommandPath())
		}
		a.command = cmd.CommandPath()
	}
	code := exitCode(err)
	switch {
	case errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe): // the reader of the output has left
	case code == exitCancelled:
		fmt.Fprintf(a.stderr, "%s: cancelled%s\n", a.command, suffix(err))
	default:
		fmt.Fprintf(a.stderr, "%s: %s\n", a.command, clean(err))
	}
	return code
}

// noArgs refuses arguments of a command that has flags only.
func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unexpected argument %q: this command takes flags only", args[0])
	}
	return nil
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

const rootHelp = `privopt fits private models to tables of sensitive records.

A differentially private model reveals almost nothing about any one record: if one
record had other values, almost the same models would come out with almost the same
probabilities. The budget limits the difference: epsilon (1 is common, smaller is more
private) and delta, a tiny probability.

  1. Describe the columns in a schema, a JSON file. The schema is public: write it from
     public knowledge, or draft it from public rows, never from the private rows.
  2. fit reads the private table and writes a model, which may be published.
  3. predict, score, summary and explain use the model.

plan shows the mechanism, the noise and the cost of a fit before any data is read. A
ledger adds up the budgets of all fits to the same data. pack converts a table larger
than memory to a file that fit can read piece by piece.

Exit codes: 0 done; 1 failure (file, pipe, disk); 2 usage (flag, schema, table, budget);
3 refused (privacy condition, ledger); 4 withheld; 130 cancelled.`

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "privopt",
		Short: "Private models from tables of sensitive records",
		Long:  rootHelp,
		Example: `  privopt schema --example adult > adult.json
  privopt plan --schema adult.json --epsilon 1
  privopt fit --schema adult.json --data adult.data --epsilon 1 --out model.json
  privopt predict --model model.json --data adult.test > predictions.csv
  privopt explain model.json`,
	}
	a.prepare(root)
	root.AddGroup(&cobra.Group{ID: "main", Title: "Commands:"})
	for _, c := range []*cobra.Command{
		a.schema(), a.plan(), a.pack(), a.fit(), a.predict(), a.score(), a.summary(), a.explain(), a.htmlReport(),
		a.ledger(), a.version(),
	} {
		c.GroupID = "main"
		c.Flags().SortFlags = false
		root.AddCommand(c)
	}
	root.SetHelpCommand(&cobra.Command{Hidden: true, Use: "no-help"})
	return root
}

// prepare sets the options that privopt and every Engine have in common.
func (a *app) prepare(root *cobra.Command) {
	root.Version = version().String()
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetVersionTemplate("{{.Version}}\n")
	wide := strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages ", fmt.Sprintf(".FlagUsagesWrapped %d ", columns))
	root.SetUsageTemplate(strings.Replace(wide, "Additional Commands:", "Others:", 1))
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print JSON instead of text")
}

// do wraps the body of a command. It sets a.command, so that errors are reported under its name.
func (a *app) do(body func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		a.command = c.CommandPath()
		if err := c.Context().Err(); err != nil {
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
	b := build{"(devel)", "", runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "" {
			b.Version = info.Main.Version
		}
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
