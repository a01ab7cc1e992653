// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package table

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// TestRecoder checks every byte of both encodings, at every boundary of a read.
func TestRecoder(t *testing.T) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	long := bytes.Repeat(all, 50)
	for windows, marks := range map[bool]string{false: "", true: "€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ"} {
		got, err := io.ReadAll(iotest.OneByteReader(&recoder{in: iotest.HalfReader(bytes.NewReader(long)), windows: windows}))
		require.NoError(t, err)
		text := []rune(string(got))
		require.Len(t, text, len(long))
		other := 0
		for i, r := range text {
			if r != rune(long[i]) {
				other++
				require.True(t, strings.ContainsRune(marks, r), "%#x is %q", long[i], r)
			}
		}
		require.Equal(t, 50*len([]rune(marks)), other)
	}
	_, err := io.ReadAll(&recoder{in: io.MultiReader(strings.NewReader("x"), iotest.ErrReader(io.ErrClosedPipe))})
	require.ErrorIs(t, err, io.ErrClosedPipe)
}

// TestEncoding reads a table whose names and levels are not ASCII.
func TestEncoding(t *testing.T) {
	schema := `{"schema": 1, "file": {"encoding": "latin-1"}, "label": {"column": "größe", "min": 0, "max": 1},
		"columns": [{"name": "stadt", "levels": ["Köln", "Zürich"]}]}`
	text := strings.NewReplacer("ö", "\xf6", "ü", "\xfc", "ß", "\xdf").Replace("größe,stadt\n1,\"Zürich\"\n0,Köln\n")
	data := readTable(t, schema, text)
	for i := range 2 { // in any order
		require.Equal(t, map[float64][]float64{-1: {1, 0}, 1: {0, 1}}[data.Records.Label(i)], data.Records.Row(i))
	}
	_, err := ReadCSV(strings.NewReader(text), must(ReadSchema(strings.NewReader(
		strings.Replace(schema, `"file": {"encoding": "latin-1"}, `, "", 1)))))
	require.ErrorContains(t, err,
		`line 1 is not UTF-8: want UTF-8, or "file": {"encoding": "latin-1"} or "windows-1252" in the schema`)
}
