// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"cmp"
	"fmt"
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
