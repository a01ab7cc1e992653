// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package screen

import (
	"fmt"
	"slices"
	"strings"
)

// Flag is a line of a help text.
type Flag struct {
	Name    string // with its dashes and the name of its value
	Usage   string
	Default string // "" or the zero value are not shown, nor is it if Usage has a default
}

// Flags formats the flags of a help text.
func Flags(list []Flag, width int) string {
	width = min(width, prose)
	margin := 0
	for _, f := range list {
		if n := cells(f.Name) + 4; n <= width/3 {
			margin = max(margin, n)
		}
	}
	var b strings.Builder
	for _, f := range list {
		usage := f.Usage
		zero := slices.Contains([]string{"", "0", "-1", "false", "[]"}, f.Default)
		if !zero && !strings.Contains(usage, "(default") {
			usage += fmt.Sprintf(" (default %s)", strings.ReplaceAll(f.Default, ",", ", "))
		}
		label, later := "  "+f.Name+gap, strings.Repeat(" ", margin)
		if cells(label) > margin {
			b.WriteString("  " + f.Name + "\n")
			label = later
		}
		b.WriteString(hang(pad(label, margin, false), later, usage, "", width))
	}
	return b.String()
}

// Suggest returns a question that names the word which a mistyped one may stand for, or "". Of
// words equally near it takes the first.
func Suggest(typed string, words []string) string {
	best, least := "", 3
	for _, w := range words {
		d := distance(typed, w)
		if len(typed) >= 3 && strings.HasPrefix(w, typed) {
			d = 1
		}
		if d < least && d < len(w) {
			best, least = w, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(": did you mean %s?", best)
}

// distance counts the letters to insert, remove, replace or swap with their neighbor, which turn
// one word into the other.
func distance(a, b string) int {
	d := make([][]int, len(a)+1)
	for i := range d {
		d[i] = make([]int, len(b)+1)
		for j := range d[i] {
			switch {
			case i == 0 || j == 0:
				d[i][j] = i + j
				continue
			case a[i-1] == b[j-1]:
				d[i][j] = d[i-1][j-1]
			default:
				d[i][j] = 1 + min(d[i-1][j-1], d[i-1][j], d[i][j-1])
			}
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}
