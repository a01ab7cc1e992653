// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package screen

import (
	"strings"

	"github.com/rivo/uniseg"
)

// gap separates columns.
const gap = "  "

// Table formats rows of equal length, the first of which names the columns. align has a letter for
// each column, the last of them for all further ones: l left, r right, t text in a last column that
// wraps. Columns that do not fit are in further tables below, each of which repeats the first
// column. A first column of more than half the width wraps, if no other column fits beside it.
func Table(align string, rows [][]string, width int) string {
	if len(rows) == 0 || len(rows[0]) == 0 {
		return ""
	}
	sizes := make([]int, len(rows[0]))
	for _, r := range rows {
		for j, cell := range r {
			sizes[j] = max(sizes[j], cells(cell))
		}
	}
	kind := func(j int) byte { return align[min(j, len(align)-1)] }
	sum, other := 0, 0 // other is the widest of the further columns
	for j, n := range sizes {
		if kind(j) == 't' {
			n = min(n, least)
		}
		sum += n + len(gap)
		if j > 0 {
			other = max(other, n)
		}
	}
	if sum-len(gap) > width && len(sizes) > 1 {
		sizes[0] = min(sizes[0], max(width/2, width-other-len(gap)))
	}
	var b strings.Builder
	for from := 1; from < len(sizes) || from == 1; {
		total, to := sizes[0], from
		for ; to < len(sizes); to++ {
			n := sizes[to]
			if kind(to) == 't' {
				n = min(n, least)
			}
			if total+len(gap)+n > width && to > from {
				break
			}
			total += len(gap) + n
		}
		if from > 1 {
			b.WriteByte('\n')
		}
		for _, r := range rows {
			name, more := fit(r[0], sizes[0])
			line := pad(name, sizes[0], kind(0) == 'r')
			if len(sizes) == 1 && kind(0) == 't' {
				b.WriteString(hang("", gap, r[0], "", width))
				continue
			}
			text := false
			for j := from; j < to; j++ {
				if kind(j) == 't' {
					line += gap
					b.WriteString(strings.TrimRight(hang(line, strings.Repeat(" ", cells(line)), r[j], "", width), " \n"))
					text = true
					continue
				}
				line += gap + pad(r[j], sizes[j], kind(j) == 'r')
			}
			if !text {
				b.WriteString(strings.TrimRight(line, " "))
			}
			b.WriteByte('\n')
			b.WriteString(more)
		}
		from = max(to, from+1)
	}
	return b.String()
}

func pad(s string, n int, right bool) string {
	space := strings.Repeat(" ", max(n-cells(s), 0))
	if right {
		return space + s
	}
	return s + space
}

// fit wraps a name to n columns: it returns the first line, and the lines below it.
func fit(name string, n int) (first, more string) {
	if cells(name) <= n {
		return name, ""
	}
	margin := name[:len(name)-len(strings.TrimLeft(name, " "))]
	first, more, _ = strings.Cut(hang(margin, margin+gap, name, "", n), "\n")
	var b strings.Builder
	for line := range strings.Lines(more) {
		b.WriteString(cut(strings.TrimRight(line, "\n"), n) + "\n")
	}
	return cut(first, n), b.String()
}

// cut shortens s to n columns.
func cut(s string, n int) string {
	if cells(s) <= n {
		return s
	}
	end, left := 0, n-1 // bytes, and columns but for the sign's
	for state := -1; end < len(s); {
		cluster, _, size, after := uniseg.FirstGraphemeClusterInString(s[end:], state)
		if left -= size; left < 0 {
			break
		}
		end, state = end+len(cluster), after
	}
	return s[:end] + "…"
}
