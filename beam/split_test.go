// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package beam

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/table"
)

// records reads split i and returns its records, and where its lines begin and end.
func records(t *testing.T, e *encoding, s *table.Schema, i int) (all []string, start, end int64, err error) {
	t.Helper()
	encoder, err := s.Encoder()
	require.NoError(t, err)
	in, err := e.open(t.Context(), i, s)
	require.NoError(t, err)
	defer in.close()
	rows, err := encoder.Rows(in, in.Options)
	if err != nil {
		return nil, 0, 0, err
	}
	for rows.Next() {
		col, val := rows.Row()
		all = append(all, fmt.Sprint(rows.ID(), col, val, rows.Label()))
	}
	require.NoError(t, in.unchanged(t.Context()))
	return all, in.start, in.end, rows.Err()
}

// TestSplits cuts random CSV files at random bytes: with and without a header line, comments or a
// byte order mark, with lines that are empty, end with CRLF or are longer than a split, or an error
// in the last one. The parts have to be the lines of the whole, each once, or the same error.
func TestSplits(t *testing.T) {
	defer func(n int64) { splitBytes = n }(splitBytes)
	path := filepath.Join(t.TempDir(), "x.csv")
	cuts, broken := 0, 0
	for seed := range testkit.Of(400, 2000, 20000) {
		rnd := rand.New(rand.NewPCG(uint64(seed), 3))
		coin := func(n int) bool { return rnd.IntN(n) == 0 }
		some := func(list ...string) string { return list[rnd.IntN(len(list))] }
		end := some("\n", "\r\n")
		comma := some(",", ";", "=")
		form := table.File{Delimiter: comma, Comment: some("", "#"), Encoding: some("", "latin-1")}
		var text strings.Builder
		if coin(3) {
			text.WriteString("\ufeff")
		}
		names := []string{"id", "age", "pays"}
		if coin(3) {
			form.Fields = names
		} else {
			if coin(3) {
				text.WriteString("sep=" + comma + end)
			}
			for coin(2) {
				text.WriteString(end)
			}
			if form.Comment != "" && coin(2) {
				text.WriteString("# a comment" + end)
			}
			text.WriteString(strings.Join(names, comma) + end)
		}
		for range rnd.IntN(12) {
			switch {
			case coin(8):
			case form.Comment != "" && coin(8):
				text.WriteString("#" + comma + "yes")
			default:
				id := some("1", "22", "\ufeff3", `"4"`, " 5", strings.Repeat("6", rnd.IntN(90)))
				text.WriteString(strings.Join([]string{id, fmt.Sprint(20 + rnd.IntN(60)), some("yes", "no")}, comma))
			}
			text.WriteString(end)
		}
		if coin(10) {
			text.WriteString(some("1", `1`+comma+`"`, "a quote\"") + some("", end))
		}
		require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o600))
		s, err := table.ReadSchema(strings.NewReader(visits))
		require.NoError(t, err)
		s.File = form
		made := Table{Paths: []string{path}, Schema: s}
		splitBytes = 1 << 20
		whole := new(encoding)
		_, err = whole.cut(t.Context(), made)
		require.NoError(t, err)
		want, _, _, failed := records(t, whole, s, 0)
		splitBytes = int64(1 + rnd.IntN(60))
		e := new(encoding)
		size, err := e.cut(t.Context(), made)
		require.NoError(t, err)
		require.EqualValues(t, text.Len(), size)
		var got []string
		var read []*tally
		var wrong error
		for i := range e.Splits {
			part, start, end, err := records(t, e, s, i)
			if err != nil {
				wrong = err
			}
			got = append(got, part...)
			read = append(read, &tally{Start: start, End: end})
		}
		if failed != nil {
			require.Error(t, wrong, "%q", text.String())
			broken++
			continue
		}
		require.NoError(t, wrong, "%q", text.String())
		require.Equal(t, want, got, "%q in parts of %d bytes", text.String(), splitBytes)
		require.NoError(t, e.whole(read))
		if n := len(read); n > 1 {
			cuts++
			k := rnd.IntN(n)
			read[k].End++
			require.Error(t, e.whole(read), "part %d of %d ends elsewhere", k, n)
			read[k] = nil
			require.ErrorContains(t, e.whole(read), "was not read")
		}
	}
	require.Greater(t, cuts, 100)
	require.Greater(t, broken, 10)
}
