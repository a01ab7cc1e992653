// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package wholefile

import (
	"os"
	"path/filepath"
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
