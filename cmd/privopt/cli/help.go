// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privopt/privopt/cmd/internal/screen"
)

// helpOf returns the help of a command: what it is, an example, its commands and its flags.
func helpOf(c *cobra.Command) string {
	var b strings.Builder
	width := screen.Out()
	b.WriteString(screen.Wrap(cmp.Or(c.Long, c.Short+"."), width) + "\n")
	if c.HasParent() || !c.HasSubCommands() {
		fmt.Fprintf(&b, "Usage:\n%s\n", screen.Commands("  "+c.UseLine(), width))
	}
	if c.HasExample() {
		fmt.Fprintf(&b, "Examples:\n%s\n", screen.Commands(c.Example, width))
	}
	var commands []screen.Flag
	for _, s := range c.Commands() {
		if s.IsAvailableCommand() && s.Name() != "help" {
			commands = append(commands, screen.Flag{Name: s.Name(), Usage: s.Short})
		}
	}
	if len(commands) > 0 {
		b.WriteString("Commands:\n" + screen.Flags(commands, width))
		if c.HasParent() {
			b.WriteByte('\n')
		} else {
			b.WriteString(screen.Paragraph("", "COMMAND -h explains a command. "+rootEnd, width))
			return b.String()
		}
	}
	b.WriteString("Flags:\n" + screen.Flags(flagsOf(c), width))
	return b.String()
}

// man is the command that prints manual pages.
func (a *app) man() *cobra.Command {
	return &cobra.Command{
		Use: "man [COMMAND]", Hidden: true, // so that the help fits a terminal
		Short: "Print the manual page of a command",
		Long: `Print the manual page of a command, or that of privopt.

The text is that of -h, in the form that the program man reads.`,
		Example: `  privopt man fit > privopt-fit.1
  man ./privopt-fit.1`,
		RunE: func(c *cobra.Command, args []string) error {
			a.command = c.CommandPath()
			of, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usagef("there is no command %q: privopt -h lists them", strings.Join(args, " "))
			}
			_, err = io.WriteString(a.stdout, manOf(of))
			return err
		},
	}
}

// manOf returns the help of a command as a manual page.
func manOf(c *cobra.Command) string {
	var b strings.Builder
	c.InitDefaultHelpFlag()
	name := strings.ReplaceAll(c.CommandPath(), " ", "-")
	roff := func(s string) string { // no line of text is a request
		s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
		if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
			s = `\&` + s
		}
		return s
	}
	text := func(s string) {
		for _, line := range strings.Split(strings.Trim(s, "\n"), "\n") {
			switch {
			case line == "":
				line = ".PP"
			case strings.HasPrefix(line, "  "):
				line = ".nf\n" + roff(line) + "\n.fi"
			default:
				line = roff(line)
			}
			b.WriteString(line + "\n")
		}
	}
	fmt.Fprintf(&b, ".TH %s 1\n.SH NAME\n%s \\- %s\n.SH SYNOPSIS\n", strings.ToUpper(roff(name)),
		roff(name), roff(c.Short))
	text(c.UseLine())
	b.WriteString(".SH DESCRIPTION\n")
	text(cmp.Or(c.Long, c.Short+"."))
	for _, s := range c.Commands() {
		if s.IsAvailableCommand() {
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(s.Name()), roff(s.Short))
		}
	}
	b.WriteString(".SH OPTIONS\n")
	for _, f := range flagsOf(c) {
		fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(f.Name), roff(strings.Join(strings.Fields(f.Usage), " ")))
	}
	if c.HasExample() {
		b.WriteString(".SH EXAMPLES\n")
		text(c.Example)
	}
	return b.String()
}

// plainUsage takes marks and line breaks from the texts of flags, which shells show as they are.
func plainUsage(c *cobra.Command) {
	plain := func(f *pflag.Flag) {
		_, f.Usage = pflag.UnquoteUsage(f)
		f.Usage = strings.Join(strings.Fields(f.Usage), " ")
	}
	c.Flags().VisitAll(plain)
	c.PersistentFlags().VisitAll(plain)
	for _, s := range c.Commands() {
		plainUsage(s)
	}
}

func flagsOf(c *cobra.Command) (list []screen.Flag) {
	add := func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		arg, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if f.Name == "help" {
			usage = "print this text"
		}
		list = append(list, screen.Flag{Name: strings.TrimSpace(name + " " + arg), Usage: usage, Default: f.DefValue})
	}
	c.LocalFlags().VisitAll(add)
	c.InheritedFlags().VisitAll(add)
	return list
}
