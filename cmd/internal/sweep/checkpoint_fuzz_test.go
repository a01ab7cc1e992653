// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package sweep

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzResume: no checkpoint makes a resumed run panic, take a cell that is not
// of the grid, or keep bytes that are not whole lines; what it refuses is the
// caller's to fix.
func FuzzResume(f *testing.F) {
	e := newToy()
	o := seeded(f.TempDir())
	h, err := newHeader(&e.Experiment, o)
	require.NoError(f, err)
	head, err := json.Marshal(h)
	require.NoError(f, err)
	cell, err := json.Marshal(Result{SchemaVersion: SchemaVersion, Value: 0.1, Method: "a", Runs: 5})
	require.NoError(f, err)
	for _, s := range []string{
		"", "\n", "{}", "{}\n", "null\n", `{"id":"x"}` + "\n", string(head), string(head) + "\n",
		string(head) + "\n" + string(cell) + "\n", string(head) + "\n" + string(cell),
		string(head) + "\n" + string(cell[:20]),
		string(head) + "\n" + string(cell) + "\n" + string(cell) + "\n", string(head) + "\n\n" + string(cell) + "\n",
		string(head) + "\n" + strings.Replace(string(cell), "0.1", "0.3", 1) + "\n", string(head) + "\n{\"value\":1e999}\n",
		string(head) + "\r\n" + string(cell) + "\r\n", string(head) + "\n\x00\n", "\xff\xfe\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if i := bytes.IndexByte(text, '\n'); i > 0 &&
			bytes.HasPrefix(text, []byte("H")) { // mutations seldom hit the header's hash
			text = append(append([]byte{}, head...), text[i:]...)
		}
		files := &files{e: &e.Experiment, o: o, header: h}
		done, size, err := files.load(text)
		if err != nil {
			require.ErrorIs(t, err, ErrUsage)
			require.Equal(t, ExitUsage, ExitCode(err))
			return
		}
		require.LessOrEqual(t, size, int64(len(text)))
		require.Equal(t, byte('\n'), text[size-1])
		require.LessOrEqual(t, len(done), len(e.Values)*len(e.Methods))
		for k, r := range done {
			require.Equal(t, k, key(r.Value, r.Method))
			require.Contains(t, e.Values, r.Value)
			require.Contains(t, e.Methods, r.Method)
		}
	})
}

// FuzzFlags: no list of numbers makes the parser panic; what it accepts is
// distinct and in range.
func FuzzFlags(f *testing.F) {
	for _, s := range []string{"", "1", "1,2", "1,1", "nan", "1e400", " 1 , 2 ", "0x1p4", "-0", "1_0", "inf,1", ",", "1,",
		"1;2", "\x00"} {
		f.Add(s, 0.0, 10.0, false)
		f.Add(s, -1.0, 1e300, true)
	}
	f.Fuzz(func(t *testing.T, text string, lo, hi float64, integer bool) {
		if math.IsNaN(lo) || math.IsNaN(hi) {
			return
		}
		values, err := ParseValues("values", text, Between(lo, hi), integer)
		if err != nil {
			require.ErrorIs(t, err, ErrUsage)
			require.Contains(t, err.Error(), "-values")
			return
		}
		seen := map[float64]bool{}
		for _, v := range values {
			require.True(t, v >= lo && v <= hi, "%v", v)
			require.False(t, seen[v])
			seen[v] = true
			if integer {
				require.Equal(t, math.Trunc(v), v)
			}
		}
	})
}
