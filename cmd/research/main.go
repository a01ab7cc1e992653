// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Command research measures the mechanisms of this module: whether they are private, how accurate
// they are, and how fast.
//
//	go run ./cmd/research audit        is every mechanism private on this machine?
//	go run ./cmd/research population   excess population loss beside its proved bounds
//	go run ./cmd/research halfspace    private halfspaces, each minimized to proven optimality
//	go run ./cmd/research convergence  how the solvers converge
//	go run ./cmd/research results      every figure and table of docs/results
//
// Each command explains its flags with -h. The experiment of linear against quadratic perturbation
// is a program of its own, cmd/scaling.
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

	"github.com/privopt/privopt/cmd/internal/experiment"
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
		{"population", "measure the excess population loss beside its proved bounds", experiment.Population},
		{"halfspace", "fit private halfspaces, each minimized to proven optimality", experiment.Halfspace},
		{"convergence", "draw how the solvers converge", experiment.Convergence},
		{"scaling", "compare linear with quadratic perturbation, as cmd/scaling", experiment.Scaling},
		{"results", "make every figure and table of docs/results", runResults},
	}
}

func main() { sweep.Main(run) }

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
		"Usage: research COMMAND [flags]\n\nExample:\n  go run ./cmd/research audit -mechanism lop\n\nCommands:\n"+
		screen.Flags(list, screen.Out())+"\nresearch COMMAND -h explains the flags of a command.\n")
}
