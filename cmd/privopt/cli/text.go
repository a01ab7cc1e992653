// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode"

	"github.com/dustin/go-humanize"

	"github.com/privopt/privopt/cmd/internal/screen"
)

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

// note writes a paragraph to standard error.
func (a *app) note(format string, args ...any) {
	fmt.Fprint(a.stderr, screen.Paragraph("", fmt.Sprintf(format, args...), screen.Err()))
}

// paragraph wraps text after a label. Later lines are indented by the width of the label.
func paragraph(label, text string) string { return screen.Paragraph(label, text, screen.Out()) }

// grid formats a table: names aligned left, numbers aligned right.
func grid(head []string, rows [][]string) string { return aligned("lr", head, rows) }

// aligned formats a table with the alignments of screen.Table.
func aligned(align string, head []string, rows [][]string) string {
	all := make([][]string, 0, 1+len(rows))
	for _, r := range append([][]string{head}, rows...) {
		all = append(all, append([]string{"  " + r[0]}, r[1:]...))
	}
	return screen.Table(align, all, screen.Out())
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

// pValue formats a p-value. Normal tails below 1e-16 are as good as 0 and would be printed so.
func pValue(p float64) string {
	if p < 1e-16 {
		return "<1e-16"
	}
	return number(p, 2)
}

func percent(v float64) string { return strconv.FormatFloat(100*v, 'f', 1, 64) + " %" }

// rounded formats a noisy count.
func rounded(v float64) string { return humanize.Comma(int64(math.Round(v))) }

func amount[T int | int64](n T, noun string) string {
	switch {
	case n != 1 && noun == "person":
		noun = "people"
	case n != 1 && noun == "entry":
		noun = "entries"
	case n != 1:
		noun += "s"
	}
	return humanize.Comma(int64(n)) + " " + noun
}
