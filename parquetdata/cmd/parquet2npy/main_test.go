// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"context"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/table/npy"
)

func TestMain(m *testing.M) {
	if os.Getenv("PARQUET2NPY") != "" {
		main()
	}
	os.Exit(m.Run())
}

type record struct {
	Age    int32    `parquet:"age"`
	Income float64  `parquet:"income"`
	Hours  *float32 `parquet:"hours,optional"`
}

func TestRun(t *testing.T) {
	const n = 20000
	dir := t.TempDir()
	all := make([]record, n)
	for i := range all {
		v := float32(i) / 3
		all[i] = record{int32(i), math.Sqrt(float64(i)), &v}
	}
	all[7].Hours = nil
	in := []string{filepath.Join(dir, "0.parquet"), filepath.Join(dir, "1.parquet")}
	require.NoError(t, parquet.WriteFile(in[0], all[:n/2]))
	require.NoError(t, parquet.WriteFile(in[1], all[n/2:]))
	out := filepath.Join(dir, "out.npy")

	var stderr bytes.Buffer
	require.Zero(t, run(t.Context(), append([]string{"-label", "income", "-o", out, "-columns", "hours,age"}, in...),
		&stderr))
	require.Empty(t, stderr.String())
	f, err := npy.Open(out)
	require.NoError(t, err)
	defer f.Close()
	require.Equal(t, []string{"hours", "age", "income"}, f.Columns())
	require.Equal(t, "income", f.Label())
	rows, labels := make([]float64, 2*n), make([]float64, n)
	require.NoError(t, f.Read(t.Context(), rows, labels, 0))
	for i, r := range all {
		require.Equal(t, []float64{float64(r.Age), r.Income}, []float64{rows[2*i+1], labels[i]})
		if r.Hours == nil {
			require.True(t, math.IsNaN(rows[2*i]))
		} else {
			require.Equal(t, float64(*r.Hours), rows[2*i])
		}
	}

	require.Zero(t, run(t.Context(), []string{"-label", "income", "-f32", "-o", out, in[0]}, &stderr))
	half, err := npy.Open(out)
	require.NoError(t, err)
	defer half.Close()
	require.NoError(t, half.Read(t.Context(), rows[:2], labels[:1], 2))
	require.Equal(t, float64(float32(math.Sqrt2)), labels[0])
}

func TestRunErrors(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.parquet"), filepath.Join(dir, "out.npy")
	require.NoError(t, parquet.WriteFile(in, make([]record, 10)))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name string
		ctx  context.Context
		args []string
		code int
		want string
	}{
		{"nothing", t.Context(), nil, 2, "usage: parquet2npy -label NAME"},
		{"no input", t.Context(), []string{"-label", "income", "-o", out}, 2, "usage"},
		{"flag", t.Context(), []string{"-labels", "income"}, 2, "not defined"},
		{"output", t.Context(), []string{"-label", "income", "-o", in, in}, 2, "want a name that ends with .npy"},
		{"label", t.Context(), []string{"-label", "y", "-o", out, in}, 2, `no column "y"`},
		{"file", t.Context(), []string{"-label", "y", "-o", out, in + "x"}, 1, "no such file"},
		{"folder", t.Context(), []string{"-label", "income", "-o", filepath.Join(dir, "x", "out.npy"), in}, 1,
			"no such file"},
		{"stopped", ended, []string{"-label", "income", "-o", out, in}, 1, "canceled"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var stderr bytes.Buffer
			require.Equal(t, c.code, run(c.ctx, c.args, &stderr))
			require.Contains(t, stderr.String(), c.want)
			left, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Len(t, left, 1, "nothing but the input may be left")
		})
	}
}

// TestSignals checks that a signal ends the program, and that no file but the input is left.
func TestSignals(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "in.parquet")
	require.NoError(t, parquet.WriteFile(in, make([]record, 100_000)))
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if signal.Ignored(sig) {
			continue
		}
		args := append([]string{"-label", "income", "-o", filepath.Join(dir, "out.npy")}, slices.Repeat([]string{in}, 300)...)
		cmd := exec.Command(os.Args[0], args...)
		cmd.Env = append(os.Environ(), "PARQUET2NPY=1")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		require.NoError(t, cmd.Start())
		files := func() int {
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			return len(entries)
		}
		require.Eventually(t, func() bool { return files() > 1 }, time.Minute, time.Millisecond)
		require.NoError(t, cmd.Process.Signal(sig))
		require.Error(t, cmd.Wait())
		require.Equal(t, 1, cmd.ProcessState.ExitCode())
		require.Contains(t, stderr.String(), "canceled")
		require.Equal(t, 1, files())
	}
}
