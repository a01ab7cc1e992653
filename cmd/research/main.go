// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Command research measures the mechanisms of this module: whether they are private, how accurate
// they are, and how fast.
//
//	go -C cmd/research run . audit        is every mechanism private on this machine?
//	go -C cmd/research run . run NAME…    some experiments; without a name it lists them
//	go -C cmd/research run . results      every figure and table of docs/results
//
// Each command explains its flags with -h. Names of files are relative to the folder of the
// repository. The experiment of linear against quadratic perturbation is a program of its own,
// cmd/scaling.
//
// # Notation
//
// That of the commands.
//
// # References
//
// Those of the packages that are measured.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/privopt/privopt/cmd/internal/screen"
	"github.com/privopt/privopt/cmd/internal/sweep"
)

// command is a program that returns its exit code.
type command func(ctx context.Context, args []string, stdout, stderr io.Writer) int

// subcommand is a command with its name and a line of help.
type subcommand struct {
	name, what string
	run        command
}

// commands lists the subcommands in the order of the help.
func commands() []subcommand {
	return []subcommand{
		{"audit", "measure the privacy of every mechanism, and that a sabotage is caught", runAudit},
		{"run", "run some experiments, or list them", runSome},
		{"results", "make every figure and table of docs/results", runResults},
	}
}

func main() {
	// The go command starts this program in the folder of its module.
	if _, err := os.Stat("../../cmd/research/go.mod"); err == nil {
		_ = os.Chdir("../..") // where files are named relative to
	}
	sweep.Main(run)
}

// run runs the subcommand that the first argument names.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 {
		if c := find(args[0]); c != nil {
			return c(ctx, args[1:], stdout, stderr)
		}
		switch args[0] {
		case "-h", "--help", "help":
			usage(stdout)
			return sweep.ExitOK
		}
		var names []string
		for _, c := range commands() {
			names = append(names, c.name)
		}
		screen.Say(stderr, "research", fmt.Sprintf("unknown command %q%s; research -h lists the commands", args[0],
			screen.Suggest(args[0], names)))
		return sweep.ExitUsage
	}
	usage(stderr)
	return sweep.ExitUsage
}

// find returns the subcommand of a name, or nil.
func find(name string) command {
	for _, c := range commands() {
		if c.name == name {
			return c.run
		}
	}
	return nil
}

func usage(w io.Writer) {
	var list []screen.Flag
	for _, c := range commands() {
		list = append(list, screen.Flag{Name: c.name, Usage: c.what})
	}
	fmt.Fprint(w, "research measures whether the mechanisms are private, how accurate and how fast.\n\n"+
		"Usage: research COMMAND [flags]\n\nExample:\n  go -C cmd/research run . audit -mechanism lop\n\nCommands:\n"+
		screen.Flags(list, screen.Out())+"\nresearch COMMAND -h explains the flags of a command.\n")
}
