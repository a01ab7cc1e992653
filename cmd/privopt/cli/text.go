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
func grid(head []string, rows [][]string) string {
	all := make([][]string, 0, 1+len(rows))
	for _, r := range append([][]string{head}, rows...) {
		all = append(all, append([]string{"  " + r[0]}, r[1:]...))
	}
	return screen.Table("lr", all, screen.Out())
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
		if len(digits) > 0 { // an estimate
			v, _ = strconv.ParseFloat(text, 64)
		}
		return strconv.FormatFloat(v, 'f', 0, 64)
	case math.Abs(v) < 1e-4:
		return strconv.FormatFloat(v, 'g', min(d, 3), 64)
	default:
		return text
	}
}

// claim formats a number of a guarantee as number does, but rounds it up: a guarantee holds with a
// larger number, and with no smaller one. What is below 1 is not shown as 1.
func claim(v float64, digits ...int) string {
	d := 4
	if len(digits) > 0 {
		d = digits[0]
	}
	if near := towards(v, d, 1); v >= 1 || near < 1 {
		return number(near, d)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// room formats what is left of a total, rounded down.
func room(v float64) string { return number(towards(v, 4, -1)) }

// towards returns the nearest number of so many digits, three if v is tiny, that is at least v for
// the sign 1, and at most v for the sign −1.
func towards(v float64, digits int, sign float64) float64 {
	if v < 1e-4 {
		digits = min(digits, 3)
	}
	text := strconv.FormatFloat(v, 'e', digits-1, 64)
	near, err := strconv.ParseFloat(text, 64)
	if err != nil || near == 0 || sign*near >= sign*v {
		return near
	}
	_, exponent, _ := strings.Cut(text, "e")
	e, _ := strconv.Atoi(exponent)
	step, _ := strconv.ParseFloat(fmt.Sprintf("1e%d", e-digits+1), 64)
	return near + sign*step
}

// pValue formats a p-value. Normal tails below 1e-16 are as good as 0 and would be printed so.
func pValue(p float64) string {
	if p < 1e-16 {
		return "<1e-16"
	}
	return number(p, 2)
}

// atMost formats a share that is an upper bound as percent does, but rounds it up.
func atMost(share float64) string {
	return strconv.FormatFloat(min(math.Ceil(1000*share-1e-9)/10, 100), 'f', 1, 64) + " %"
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
