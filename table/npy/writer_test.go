// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package npy

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/internal/testkit"
)

func list(t *testing.T, dir string) (out []string) {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// TestWriter checks that a file appears with Commit, readable only by its owner, and that without
// Commit nothing is left.
func TestWriter(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.npy")
	w, err := Create(path, names(3), Options{})
	require.NoError(t, err)
	require.NoError(t, w.Append([]float64{1, 2}, 3))
	require.ErrorContains(t, w.Append([]float64{1}, 3), "Append of 1 features, want 2")
	require.Len(t, list(t, dir), 1)
	require.NoError(t, w.Close())
	require.NoError(t, w.Close())
	require.Empty(t, list(t, dir))
	require.ErrorIs(t, w.Append([]float64{1, 2}, 3), errDone)
	require.ErrorIs(t, w.Commit(), errDone)

	w, err = Create(path, names(3), Options{})
	require.NoError(t, err)
	require.NoError(t, w.Append([]float64{1, 2}, 3))
	require.NoError(t, w.Commit())
	require.NoError(t, w.Close())
	require.Equal(t, []string{"x.npy", "x.npy.json"}, list(t, dir))
	for _, name := range list(t, dir) {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}

	// A Commit that fails leaves no file of records. It leaves a sidecar, which is harmless without
	// the file.
	folder := filepath.Join(dir, "folder.npy")
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "full"), 0o700))
	w, err = Create(folder, names(3), Options{})
	require.NoError(t, err)
	require.Error(t, w.Commit())
	require.NoError(t, w.Close())
	require.Equal(t, []string{"folder.npy", "folder.npy.json", "x.npy", "x.npy.json"}, list(t, dir))

	for _, c := range []struct {
		columns []string
		label   string
		want    string
	}{
		{nil, "", "0 columns"}, {names(1), "", "1 columns"}, {[]string{"a", "a"}, "", "twice or empty"},
		{[]string{"", "a"}, "", "twice or empty"}, {names(2), "x", `the label "x"`},
	} {
		_, err := Create(path, c.columns, Options{Label: c.label})
		require.ErrorContains(t, err, c.want)
	}
	_, err = Create(filepath.Join(dir, "none", "x.npy"), names(2), Options{})
	require.ErrorIs(t, err, os.ErrNotExist)
}

// marks is the number of bytes that the program of TestMain writes before Commit.
const marks = 10

// TestMain makes the test binary the program that TestKill starts and kills. It writes a byte to
// standard output after every tenth of the records and one after Commit, and ends with its input.
func TestMain(m *testing.M) {
	path := os.Getenv("NPY_TEST_WRITE")
	if path == "" {
		os.Exit(m.Run())
	}
	w, err := Create(path, names(11), Options{})
	for i := 0; i < 100_000 && err == nil; i++ {
		if err = w.Append(make([]float64, 10), float64(i)); (i+1)%(100_000/marks) == 0 {
			os.Stdout.WriteString(".")
		}
	}
	if err == nil {
		err = w.Commit()
	}
	if err != nil {
		os.Stderr.WriteString(err.Error())
		os.Exit(1)
	}
	os.Stdout.WriteString(".")
	io.Copy(io.Discard, os.Stdin)
}

// TestKill kills writers after each part of their work, several times within Commit. The file must
// then exist completely, with its sidecar, or not at all.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.npy")
	for i := range marks + testkit.Of(4, 20) {
		os.Remove(path)
		os.Remove(path + ".json")
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "NPY_TEST_WRITE="+path)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		_, err = cmd.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		seen := min(i, marks)
		if i%4 == 3 {
			seen = marks + 1
		}
		_, err = io.ReadFull(out, make([]byte, seen))
		require.NoError(t, err)
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())
		f, err := Open(path)
		if err != nil {
			require.ErrorIs(t, err, os.ErrNotExist)
			require.LessOrEqual(t, seen, marks, "a file that was committed is lost")
			continue
		}
		require.NotNil(t, f.Columns(), "a file without its sidecar")
		_, labels, err := all(f, 8192)
		require.NoError(t, err)
		require.Len(t, labels, 100_000)
		f.Close()
	}
	for _, name := range list(t, dir) { // temporary files that are left have other names
		require.True(t, strings.HasPrefix(name, ".x.npy.") || name == "x.npy" || name == "x.npy.json", name)
	}
}
