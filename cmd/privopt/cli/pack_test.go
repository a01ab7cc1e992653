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
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/internal/testkit"
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

// TestParquet: all commands that read a table read the Parquet file of its rows as the same table.
func TestParquet(t *testing.T) {
	at := folder(t)
	type person struct {
		Age  *float64 `parquet:"age,optional"`
		Job  string   `parquet:"job"`
		Pays string   `parquet:"pays"`
	}
	text := rows(400, true)
	var all []person
	for _, line := range strings.Split(strings.TrimSpace(text), "\n")[1:] {
		f := strings.Split(line, ",")
		age, err := strconv.ParseFloat(f[0], 64)
		require.NoError(t, err)
		all = append(all, person{&age, f[1], f[2]})
	}
	all = append(all, person{nil, "two\n\"lines\", x", "yes"})
	text += "?,\"two\n\"\"lines\"\", x\",yes\n"
	require.NoError(t, os.WriteFile(at("p.csv"), []byte(text), 0o600))
	require.NoError(t, parquet.WriteFile(at("p.parquet"), all, parquet.MaxRowsPerRowGroup(77)))
	change := func(file string) string {
		return strings.Replace(people, `"intercept": true,`, `"intercept": true, "file": {`+file+`},`, 1)
	}
	require.NoError(t, os.WriteFile(at("p.csv.json"), []byte(change(`"multiline": true`)), 0o600))
	require.NoError(t, os.WriteFile(at("p.parquet.json"), []byte(change(`"delimiter": ";", "decimal": ","`)), 0o600))
	got := map[string]string{}
	for _, name := range []string{"p.csv", "p.parquet"} {
		run := func(args ...string) string {
			code, out, errs := call(t, "", args...)
			require.Equal(t, 0, code, errs)
			return out
		}
		run("pack", "--schema", at(name+".json"), "--data", at(name), "--out", at(name+".npy"))
		run("fit", "--schema", at(name+".json"), "--data", at(name), "--epsilon", "1", "--delta", "1e-6", "--seed", "3",
			"--out", at(name+".model"))
		model := []string{"--model", at("p.parquet.model"), "--data", at("p.parquet")}
		if name == "p.csv" {
			model = []string{"--model", at("p.csv.model"), "--data", at("p.csv")}
		}
		got[name] = must(os.ReadFile(at(name+".npy"))) + run(append([]string{"predict"}, model...)...) +
			run(append([]string{"score", "--epsilon", "1", "--delta", "1e-6", "--seed", "1"}, model...)...) +
			run("schema", "--public", at(name), "--label", "pays")
	}
	form := strings.NewReplacer("p.csv", "p.parquet", "  \"file\": {\n    \"multiline\": true\n  },\n", "")
	require.Equal(t, form.Replace(got["p.csv"]), got["p.parquet"])
	code, _, errs := call(t, "", "pack", "--schema", at("p.csv.json"), "--data", at("none.parquet"), "--out", at("m.npy"))
	require.Equal(t, exitFailure, code)
	require.Contains(t, errs, "no such file")
}

// TestPackCompressed packs a compressed table without a header line, whose first bytes are those of
// a record: its name says that it is compressed.
func TestPackCompressed(t *testing.T) {
	at := folder(t)
	put := func(name, text string) { require.NoError(t, os.WriteFile(at(name), []byte(text), 0o600)) }
	put("fields.json", strings.Replace(people, `"columns"`, `"file": {"fields": ["age", "job", "pays"]}, "columns"`, 1))
	text := strings.TrimPrefix(rows(50, true), "age,job,pays\n")
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	fmt.Fprint(z, text)
	require.NoError(t, z.Close())
	put("plain.csv", text)
	put("zipped.csv.gz", zipped.String())
	put("zipped.csv", zipped.String())
	put("plain.csv.gz", text)
	for name, want := range map[string]string{"plain.csv": "", "zipped.csv.gz": "", "zipped.csv": "line 1: ",
		"plain.csv.gz": "is not compressed by gzip, as its name says"} {
		code, _, errs := call(t, "", "pack", "--schema", at("fields.json"), "--data", at(name), "--out", at(name+".npy"))
		require.Equal(t, want == "", code == 0, errs)
		require.Contains(t, errs, want)
	}
	require.Equal(t, must(os.ReadFile(at("plain.csv.npy"))), must(os.ReadFile(at("zipped.csv.gz.npy"))))
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

	locked := func() { // or it has ended already
		testkit.Until(func() bool {
			_, lock := os.Stat(at("x.npy.lock"))
			_, end := os.Stat(at("x.npy"))
			return lock == nil || end == nil
		})
	}
	if !signal.Ignored(syscall.SIGHUP) { // closing the terminal sends this signal
		cmd := program("", "pack", "--data", "-", "--out", at("x.npy"))
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		locked()
		require.NoError(t, cmd.Process.Signal(syscall.SIGHUP))
		require.Error(t, cmd.Wait())
		require.Equal(t, exitCancelled, cmd.ProcessState.ExitCode())
		in.Close()
		require.Equal(t, before, names(t, at("")))
	}

	require.NoError(t, os.WriteFile(at("large.csv"), []byte(rows(100_000, true)), 0o600))
	before = names(t, at(""))
	rnd := rand.New(rand.NewPCG(5, 6))
	for interrupted := 0; interrupted < 4; {
		cmd := program("", "pack", "--schema", at("people.json"), "--data", at("large.csv"), "--out", at("x.npy"),
			"--canonical")
		require.NoError(t, cmd.Start())
		locked()
		time.Sleep(time.Duration(rnd.Int64N(int64(100 * time.Millisecond)))) // a run that ends before is repeated
		cmd.Process.Signal(os.Interrupt)                                     // an error if the process has ended
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
}
