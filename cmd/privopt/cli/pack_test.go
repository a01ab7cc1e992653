// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/table"
	"github.com/privopt/privopt/table/npy"
)

// unpack returns the records of a packed file.
func unpack(t *testing.T, path string) (rows, labels []float64) {
	f, err := npy.Open(path)
	require.NoError(t, err)
	defer f.Close()
	n, d := f.Dims()
	rows, labels = make([]float64, n*d), make([]float64, n)
	require.NoError(t, f.Read(t.Context(), rows, labels, 0))
	return rows, labels
}

// encoded returns the records of a table as package table encodes them, first in the order of the
// file, then in the order of erm.Data.
func encoded(t *testing.T, schema, csv string) (rows, labels, sorted, sortedLabels []float64) {
	s, err := table.ReadSchema(strings.NewReader(schema))
	require.NoError(t, err)
	e, err := s.Encoder()
	require.NoError(t, err)
	in, err := e.Rows(strings.NewReader(csv), table.Options{})
	require.NoError(t, err)
	for in.Next() {
		row := make([]float64, len(e.Features()))
		col, val := in.Row()
		for k, j := range col {
			row[j] = val[k]
		}
		rows, labels = append(rows, row...), append(labels, in.Label())
	}
	require.NoError(t, in.Err())
	data, err := table.ReadCSV(strings.NewReader(csv), s)
	require.NoError(t, err)
	n, _ := data.Records.Dims()
	for i := range n {
		sorted = append(sorted, data.Records.Row(i)...)
		sortedLabels = append(sortedLabels, data.Records.Label(i))
	}
	return rows, labels, sorted, sortedLabels
}

// TestPack packs a table with a schema, in its own order and in the canonical order of erm.Data.
func TestPack(t *testing.T) {
	at := folder(t)
	before := names(t, at(""))
	csv := must(os.ReadFile(at("people.csv")))
	wantRows, wantLabels, sortedRows, sortedLabels := encoded(t, people, csv)
	pack := []string{"pack", "--schema", at("people.json"), "--data", at("people.csv"), "--out", at("people.npy")}
	code, out, errs := call(t, "", pack...)
	require.Equal(t, 0, code, errs)
	require.Equal(t, at("people.npy")+": records of 5 features\n", out)
	require.Contains(t, errs, "as private as the table")
	code, _, errs = call(t, "", "predict", "--model", at("model.json"), "--data", at("people.npy"))
	require.Equal(t, 2, code)
	require.Contains(t, errs, "want the table as CSV")
	rows, labels := unpack(t, at("people.npy"))
	require.Equal(t, wantRows, rows)
	require.Equal(t, wantLabels, labels)

	code, _, errs = call(t, "", append(pack, "--canonical")...)
	require.Equal(t, 2, code)
	require.Contains(t, errs, "exists: choose another name, or --force")
	code, _, errs = call(t, "", append(pack, "--canonical", "--force")...)
	require.Equal(t, 0, code, errs)
	rows, labels = unpack(t, at("people.npy"))
	require.Equal(t, sortedRows, rows)
	require.Equal(t, sortedLabels, labels)

	code, _, errs = call(t, csv, "pack", "--schema", at("people.json"), "--data", "-", "--out", at("people.npy"),
		"--float32", "--force")
	require.Equal(t, 0, code, errs)
	rows, labels = unpack(t, at("people.npy"))
	require.InDeltaSlice(t, wantRows, rows, 1e-7)
	require.Equal(t, wantLabels, labels)
	require.ElementsMatch(t, append(before, "people.npy", "people.npy.json"), names(t, at("")))
}

// TestPackNumbers packs a table of numbers without a schema.
func TestPackNumbers(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "x.npy")
	text := "\ufeff a , \"y\",b\r\n1, 2,3\r\n-1e400,NaN,\"5\"\r\n"
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	fmt.Fprint(z, text)
	require.NoError(t, z.Close())
	for _, in := range []string{text, zipped.String()} {
		code, printed, errs := call(t, in, "pack", "--data", "-", "--label", "y", "--out", out, "--force", "--json")
		require.Equal(t, 0, code, errs)
		var got packReport
		require.NoError(t, json.Unmarshal([]byte(printed), &got))
		require.Equal(t, packReport{File: out, Columns: []string{"a", "y", "b"}, Label: "y"}, got)
		rows, labels := unpack(t, out)
		require.Equal(t, "[1 3 -Inf 5] [2 NaN]", fmt.Sprint(rows, labels))
	}
	code, _, errs := call(t, "a,y\n1,2\n", "pack", "--data", "-", "--out", out, "--force")
	require.Equal(t, 0, code, errs)
	_, labels := unpack(t, out)
	require.Equal(t, []float64{2}, labels, "the last column")
}

func TestPackErrors(t *testing.T) {
	at := folder(t)
	before := names(t, at(""))
	for _, c := range []struct {
		want, in string
		args     []string
	}{
		{"the schema names the label", "", []string{"--schema", at("people.json"), "--label", "x"}},
		{"want --schema with it, and not --float32", "", []string{"--canonical"}},
		{"want --schema with it, and not --float32", "", []string{"--canonical", "--float32", "--schema", at("people.json")}},
		{"both standard input", "", []string{"--schema", "-"}},
		{"the file is empty", "", nil},
		{"the name of column 2 is a number", "SECRET,12\n1,2\n", nil},
		{"columns 1 and 2 have the same name", "SECRET,SECRET\n1,2\n", nil},
		{"no column \"z\"", "SECRET,y\n1,2\n", []string{"--label", "z"}},
		{"line 3, column 1: text, want a number", "a,b\n1,2\nSECRET,3\n", nil},
		{"line 2, column 2: an empty field", "a,b\n1,\n", nil},
		{"line 3: 1 field, want 2", "a,b\n1,2\n1\n", nil},
		{"a quote inside a field", "a,b\n1,S\"ECRET\n", nil},
		{`"7 apples", want a number`, "a,b\n1,7 apples\n", []string{"--public"}},
		{"1 column, want at least one feature", "a\n1\n", nil},
		{`line 2, column 1 ("age"): text`, "age,job,pays\nSECRET,nurse,yes\n", []string{"--schema", at("people.json")}},
		{"gzip", "\x1f\x8bSECRET", nil},
	} {
		args := append([]string{"pack", "--data", "-", "--out", at("x.npy")}, c.args...)
		code, out, errs := call(t, c.in, args...)
		require.Equal(t, exitUsage, code, "%v %s", c, errs)
		require.Contains(t, errs, c.want)
		require.NotContains(t, errs, "SECRET")
		require.Empty(t, out)
		require.Equal(t, before, names(t, at("")))
	}
	code, _, errs := call(t, "a,b\n1,2\n", "pack", "--data", "-", "--out", "-")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs, "standard output is not a file")
}

// TestPackKeepsOthers checks that pack refuses an output name if its description file would
// overwrite another file.
func TestPackKeepsOthers(t *testing.T) {
	at := folder(t)
	schema := must(os.ReadFile(at("people.json")))
	for name, want := range map[string]string{"people": "ends with .npy", "people.npy": "people.npy.json exists"} {
		require.NoError(t, os.WriteFile(at("people.npy.json"), []byte("mine"), 0o600))
		before := names(t, at(""))
		code, _, errs := call(t, "", "pack", "--schema", at("people.json"), "--data", at("people.csv"), "--out", at(name))
		require.Equal(t, exitUsage, code)
		require.Contains(t, errs, want)
		require.Equal(t, before, names(t, at("")))
	}
	require.Equal(t, schema, must(os.ReadFile(at("people.json"))))
	require.Equal(t, "mine", must(os.ReadFile(at("people.npy.json"))))
}

// TestPackCancel checks that no file is left if pack is cancelled while it reads or sorts records.
func TestPackCancel(t *testing.T) {
	at := folder(t)
	before := names(t, at(""))
	ctx, cancel := context.WithCancel(t.Context())
	in := &endless{read: make(chan struct{})}
	go func() { <-in.read; cancel() }()
	var out, errs bytes.Buffer
	code := Run(ctx, []string{"pack", "--data", "-", "--out", at("x.npy")}, in, &out, &errs)
	require.Equal(t, exitCancelled, code)
	require.Equal(t, "privopt pack: cancelled\n", errs.String())
	require.Equal(t, before, names(t, at("")))

	if !signal.Ignored(syscall.SIGHUP) { // closing the terminal sends this signal
		cmd := program("", "pack", "--data", "-", "--out", at("x.npy"))
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		require.Eventually(t, func() bool { _, err := os.Stat(at("x.npy.lock")); return err == nil }, time.Minute,
			time.Millisecond)
		require.NoError(t, cmd.Process.Signal(syscall.SIGHUP))
		require.Error(t, cmd.Wait())
		require.Equal(t, exitCancelled, cmd.ProcessState.ExitCode())
		in.Close()
		require.Equal(t, before, names(t, at("")))
	}

	require.NoError(t, os.WriteFile(at("large.csv"), []byte(rows(100_000, true)), 0o600))
	before = names(t, at(""))
	rnd := rand.New(rand.NewPCG(5, 6))
	interrupted := 0
	for range 8 {
		cmd := program("", "pack", "--schema", at("people.json"), "--data", at("large.csv"), "--out", at("x.npy"),
			"--canonical")
		require.NoError(t, cmd.Start())
		time.Sleep(50*time.Millisecond + time.Duration(rnd.Int64N(int64(400*time.Millisecond))))
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		err := cmd.Wait()
		if exit, ok := err.(*exec.ExitError); ok && exit.ExitCode() == exitCancelled {
			interrupted++
			require.Equal(t, before, names(t, at("")))
			continue
		}
		os.Remove(at("x.npy"))
		os.Remove(at("x.npy.json"))
		os.Remove(at("x.npy.lock"))
	}
	require.Positive(t, interrupted)
}
