// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package screen fits the text of all commands to the terminal: paragraphs, tables, help texts and
// errors. No line is wider than the terminal, and no word is broken.
package screen

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/rivo/uniseg"
	"golang.org/x/term"
)

const (
	// Unknown is the width of text that does not go to a terminal.
	Unknown = 80
	prose   = 100 // longer lines of prose are hard to read
	least   = 20  // in a narrower terminal, every layout is unreadable
)

// The widths of standard output and standard error. Attach sets them.
var out, errs = Unknown, Unknown

// Attach reads the widths of the terminals of this process. The main function calls it before all
// else. Without it, text has the width of text that does not go to a terminal.
func Attach() { out, errs = width(os.Stdout), width(os.Stderr) }

func width(f *os.File) int {
	w, _, err := term.GetSize(int(f.Fd()))
	if err != nil || w <= 0 {
		return Unknown
	}
	return max(w, least)
}

// Out returns the number of columns of standard output.
func Out() int { return out }

// Err returns the number of columns of standard error.
func Err() int { return errs }

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Live reports whether lines on w may be drawn again, as progress bars are: w is a terminal, and
// the user has not asked for plain text.
func Live(w io.Writer) bool {
	return IsTerminal(w) && os.Getenv("TERM") != "dumb" && os.Getenv("NO_COLOR") == ""
}

// Say writes what a command says on standard error. It is one line, which a terminal shows on as
// many as it needs.
func Say(w io.Writer, command, text string) {
	text = strings.Join(strings.Fields(text), " ")
	if IsTerminal(w) {
		fmt.Fprint(w, Paragraph("", command+": "+text, errs))
		return
	}
	fmt.Fprintf(w, "%s: %s\n", command, text)
}

// cells returns the number of columns that s takes.
func cells(s string) int { return uniseg.StringWidth(s) }

// Paragraph wraps text after a label. Later lines are indented by the width of the label.
func Paragraph(label, text string, width int) string {
	return hang(label, strings.Repeat(" ", cells(label)), text, "", min(width, prose))
}

// hang wraps text: the first line begins with first, the others with later. Each line but the last
// ends with end.
func hang(first, later, text, end string, width int) string {
	var b strings.Builder
	b.WriteString(first)
	at, empty := cells(first), true
	for _, word := range glue(strings.Fields(text), width-cells(later), end != "") {
		n := cells(word)
		switch {
		case empty:
		case at+1+n+cells(end) > width:
			b.WriteString(end + "\n" + later)
			at = cells(later)
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at, empty = at+n, false
	}
	b.WriteByte('\n')
	return b.String()
}

// glue joins the words of an equation such as ε = 1, of a number such as 5 %, and in a command
// those of a flag such as --out FILE, by spaces where no line breaks.
func glue(words []string, most int, command bool) (glued []string) {
	flag := func(s string) bool { return s == ">" || strings.HasPrefix(strings.TrimLeft(s, "["), "--") }
	for i, w := range words {
		n := len(glued)
		if i > 0 && (w == "=" || strings.TrimRight(w, ".,;:)") == "%" || words[i-1] == "=" ||
			command && flag(words[i-1]) && !flag(w)) && cells(glued[n-1])+1+cells(w) <= most {
			glued[n-1] += " " + w
			continue
		}
		glued = append(glued, w)
	}
	return glued
}

// Wrap fits a text of several paragraphs to a width. Lines without indentation are joined to
// paragraphs. An indented line begins an item, which lines with a deeper indentation continue.
func Wrap(text string, width int) string {
	width = min(width, prose)
	var b strings.Builder
	var item []string // the lines of a paragraph or item
	flush := func() {
		if len(item) == 0 {
			return
		}
		first, later := item[0], ""
		margin := len(first) - len(strings.TrimLeft(first, " "))
		label, rest := first[:margin], first[margin:]
		switch {
		case len(item) > 1:
			later = item[1][:len(item[1])-len(strings.TrimLeft(item[1], " "))]
		case margin > 0:
			later = label + "  "
			if at := strings.LastIndex(rest, "  "); at >= 0 && at < width/3 {
				later = strings.Repeat(" ", margin+cells(rest[:at+2]))
			}
		}
		if n := len(later) - margin; n > 0 && n < len(rest) && strings.HasSuffix(rest[:n], " ") { // a label of an item
			label, rest = label+rest[:n], rest[n:]
		}
		for _, line := range item[1:] {
			rest += " " + line
		}
		b.WriteString(hang(label, later, rest, "", width))
		item = nil
	}
	depth := func(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \n")
		switch {
		case line == "":
			flush()
			b.WriteByte('\n')
			continue
		case len(item) > 0 && (depth(line) > depth(item[0]) || depth(line) == 0 && depth(item[0]) == 0):
		default:
			flush()
		}
		item = append(item, line)
	}
	flush()
	return b.String()
}

// Commands fits the example of a help text to a width: a long command goes on after a backslash.
func Commands(text string, width int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		command := strings.TrimLeft(line, " ")
		margin := line[:len(line)-len(command)]
		if cells(line) <= width {
			b.WriteString(strings.TrimRight(line, "\n") + "\n")
			continue
		}
		b.WriteString(hang(margin, margin+"    ", command, ` \`, width))
	}
	return b.String()
}
