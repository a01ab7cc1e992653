// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package testkit

import (
	"io"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
)

// hostile are fields that readers of tables are known to misread, separated by ¦: marks of other
// kinds of file, signs that quote, comment or end a line, blanks, and what is a number or none.
var hostile = strings.Split("¦ ¦\t¦\r¦\x00¦\x1a¦\ufeff¦\ufeff7¦\x1f\x8b¦\x1f\x8b\x08\x00¦\xff\xfe¦\xfe\xff¦PK\x03\x04¦"+
	"PAR1\x15¦\x93NUMPY¦sep=;¦sep=,¦#¦#7¦\"¦\"\"¦a\"b¦'¦\u00a0¦\u0085¦\u2028¦\xa0¦\x80¦\xff¦0x10¦1_0¦NaN¦-nan¦Inf¦1e999¦"+
	"-1e-999¦-0¦+7¦1.5.0¦1,5¦1.234,5¦7 ¦2006-01-02¦?¦NA¦id¦x¦y¦日¦a,b;c\td", "¦")

// wild are lines that are often no record.
var wild = strings.Split("¦\r¦   ¦#¦# 1,2¦# \"¦\ufeff¦\ufeff#¦\"¦1,\"¦\"1¦\"a\"b,1¦,,,,¦;;;;¦sep=;¦\x1f\x8b\x08¦"+
	"\xff\xfe1\x00¦\x00¦1\r2\r3¦{¦id,x,y¦\"\",\"\"", "¦")

// Line returns a line of a hostile table, with its line end. Most lines have the right number of
// fields, and most fields are one of those that plain lists for their column. With lines, fields in
// quotes may hold line ends.
func Line(rnd *rand.Rand, delimiter string, plain [][]string, lines bool) string {
	end := []string{"\n", "\n", "\n", "\r\n"}[rnd.IntN(4)]
	if rnd.IntN(20) == 0 {
		return wild[rnd.IntN(len(wild))] + end
	}
	fields := make([]string, len(plain))
	for j, list := range plain {
		fields[j] = field(rnd, delimiter, list, lines)
	}
	if len(fields) > 1 && rnd.IntN(60) == 0 {
		fields = fields[1:]
	}
	if rnd.IntN(12) == 0 {
		fields[0] = "\ufeff" + fields[0]
	}
	return strings.Join(fields, delimiter) + end
}

func field(rnd *rand.Rand, delimiter string, list []string, lines bool) string {
	f := list[rnd.IntN(len(list))]
	switch k := rnd.IntN(1600); {
	case k < 240:
		f = hostile[rnd.IntN(len(hostile))]
	case k < 320:
		f = " " + f + "\t "
	case k == 320: // about as long as the buffer of a reader
		f += strings.Repeat("z", 1<<16-40+rnd.IntN(80))
	}
	inside := lines && rnd.IntN(8) == 0
	if inside {
		f += []string{"\n", "\r\n", "\n\n#", "\n\n\ufeff"}[rnd.IntN(4)] + f
	}
	if inside || rnd.IntN(6) == 0 || rnd.IntN(50) != 0 && strings.ContainsAny(f, "\"\n"+delimiter) {
		return `"` + strings.ReplaceAll(f, `"`, `""`) + `"`
	}
	return f
}

// Chunked returns a reader of a text that gives single bytes, or halves of what is asked for, or
// all.
func Chunked(rnd *rand.Rand, text string) io.Reader {
	of := []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.HalfReader, iotest.DataErrReader}
	return of[rnd.IntN(len(of))](strings.NewReader(text))
}

// Counts are what a reader makes of a table, in numbers that add up over records: how often a
// record occurs, for example.
type Counts map[string]int64

// Additive checks that a reader makes of a table the sum of what it makes of each part of it alone,
// and refuses the table if and only if it refuses a part. So adding, removing or exchanging one
// part changes what is read by exactly that part. Lines with the same owner are a part, and so is a
// line without one. It reports whether the table was read.
func Additive(
	t testing.TB, read func(table string) (Counts, error), head string, lines []string, owner func(line string) string,
) bool {
	t.Helper()
	parts, of := []string{}, map[string]int{}
	for _, line := range lines {
		who := owner(line)
		if at, known := of[who]; known && who != "" {
			parts[at] += line
			continue
		}
		of[who] = len(parts)
		parts = append(parts, line)
	}
	refused, sum := false, Counts{}
	for _, part := range parts {
		counts, err := read(head + part)
		refused = refused || err != nil
		for key, n := range counts {
			if sum[key] += n; sum[key] == 0 {
				delete(sum, key)
			}
		}
	}
	got, err := read(head + strings.Join(lines, ""))
	maps.DeleteFunc(got, func(_ string, n int64) bool { return n == 0 })
	if refused != (err != nil) || !refused && !maps.Equal(sum, got) {
		t.Fatalf("%q%q\nsome line is refused: %v, the table: %v\nits lines: %v\ntogether: %v", head, lines, refused, err, sum,
			got)
	}
	return !refused
}

// Nobody is the owner of lines that belong to nobody in common.
func Nobody(string) string { return "" }
