// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
)

// columns is the width of all printed text.
const columns = 100

// show prints text, or with --json v as one indented object.
func (a *app) show(v any, text string) error {
	if a.json {
		object, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return err
		}
		text = string(object) + "\n"
	}
	_, err := io.WriteString(a.stdout, text)
	return err
}

// note writes a line to standard error.
func (a *app) note(format string, args ...any) {
	fmt.Fprint(a.stderr, paragraph("", fmt.Sprintf(format, args...)))
}

// paragraph wraps text after a label. Later lines are indented by the width of the label.
func paragraph(label, text string) string {
	var b strings.Builder
	margin := utf8.RuneCountInString(label)
	b.WriteString(label)
	at := margin
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case at+1+n > columns:
			b.WriteString("\n" + strings.Repeat(" ", margin))
			at = margin
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	b.WriteByte('\n')
	return b.String()
}

// grid formats a table: names aligned left, numbers aligned right. Names too long for the width are
// cut off.
func grid(head []string, rows [][]string) string {
	rows = append([][]string{head}, rows...)
	widths := make([]int, len(head))
	for _, r := range rows {
		for j, cell := range r {
			widths[j] = max(widths[j], utf8.RuneCountInString(cell))
		}
	}
	name := columns
	for _, w := range widths[1:] {
		name -= w + 2
	}
	name = min(name, widths[0])
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, r := range rows {
		first := []rune(r[0])
		if len(first) > name {
			first = append(first[:max(name-1, 1)], '…')
		}
		fmt.Fprintf(w, "%-*s", name, string(first))
		for _, cell := range r[1:] {
			fmt.Fprintf(w, "\t%s", cell)
		}
		fmt.Fprintln(w, "\t")
	}
	w.Flush()
	lines := strings.Split(b.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// printable replaces control characters, which could move the cursor of a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}

// number formats to four digits, or to the given number of digits.
func number(v float64, digits ...int) string {
	d := 4
	if len(digits) > 0 {
		d = digits[0]
	}
	switch text := strconv.FormatFloat(v, 'g', d, 64); {
	case math.IsInf(v, 1):
		return "∞"
	case math.IsInf(v, -1):
		return "−∞"
	case strings.Contains(text, "e+") && math.Abs(v) < 1e6:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case math.Abs(v) < 1e-4:
		return strconv.FormatFloat(v, 'g', min(d, 3), 64)
	default:
		return text
	}
}

func percent(v float64) string { return strconv.FormatFloat(100*v, 'f', 1, 64) + " %" }

func amount[T int | int64](n T, noun string) string {
	switch {
	case n != 1 && noun == "person":
		noun = "people"
	case n != 1:
		noun += "s"
	}
	return humanize.Comma(int64(n)) + " " + noun
}
