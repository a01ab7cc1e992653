// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package wholefile

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	for text, mode := range map[string]os.FileMode{"one": 0o600, "two": 0o644} {
		require.NoError(t, Write(path, []byte(text), mode))
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, text, string(got))
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode())
	}
	// What cannot be renamed leaves nothing.
	dir := filepath.Join(t.TempDir(), "folder")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "full"), 0o700))
	require.Error(t, Write(dir, nil, 0o600))
	entries, err := os.ReadDir(filepath.Dir(dir))
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.ErrorIs(t, Write(filepath.Join(dir, "none", "x"), nil, 0o600), os.ErrNotExist)
}

func TestTwice(t *testing.T) {
	dir := t.TempDir()
	one, two, link := filepath.Join(dir, "1"), filepath.Join(dir, "2"), filepath.Join(dir, "link")
	for _, path := range []string{one, two} {
		require.NoError(t, os.WriteFile(path, nil, 0o600))
	}
	require.NoError(t, os.Link(one, link))
	for _, c := range []struct {
		paths []string
		want  bool
	}{
		{[]string{one, two}, false},
		{[]string{one, two, one}, true},
		{[]string{one, two, link}, true},
		{[]string{one, filepath.Join(dir, "none"), filepath.Join(dir, ".", "2")}, false},
		{[]string{"-", "-"}, true},
	} {
		first, second, ok := Twice(c.paths)
		require.Equal(t, c.want, ok, c.paths)
		if ok {
			require.Equal(t, []string{c.paths[0], c.paths[len(c.paths)-1]}, []string{first, second})
		}
	}
}

// TestDiscard removes folders in which a worker that does not know of the end creates files.
func TestDiscard(t *testing.T) {
	dir := t.TempDir()
	for range 30 {
		folder := filepath.Join(dir, "folder")
		require.NoError(t, os.Mkdir(folder, 0o700))
		begun, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			for n := 0; Write(filepath.Join(folder, strconv.Itoa(n)), []byte("secret"), 0o600) == nil; n++ {
				if n == 3 {
					close(begun)
				}
			}
		}()
		<-begun
		require.NoError(t, Discard(folder))
		<-ended
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left)
	}
	require.NoError(t, Discard(filepath.Join(dir, "none")))
}
