// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package beam

import (
	"bytes"
	"compress/gzip"
	"os"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/memfs"
	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/erm"
)

// TestStore checks that objects of a store, here that of Beam in memory, encode as files do, plain
// and compressed, that one that changed is an error, and that other stores and forms are refused.
func TestStore(t *testing.T) {
	made := visitFiles(t, 3)
	o := Options{Scratch: t.TempDir()}
	src, err := Encode(t.Context(), made, o)
	require.NoError(t, err)
	want := encoded(t, src)
	require.NoError(t, src.Close())
	store := memfs.New(t.Context())
	put := func(name string, text []byte) string {
		require.NoError(t, filesystem.Write(t.Context(), store, name, text))
		return name
	}
	texts := make([][]byte, 3)
	for i, path := range made.Paths {
		texts[i], err = os.ReadFile(path)
		require.NoError(t, err)
	}
	var zip bytes.Buffer
	w := gzip.NewWriter(&zip)
	_, err = w.Write(texts[1])
	require.NoError(t, err)
	require.NoError(t, w.Close())
	made.Paths[0], made.Paths[1] = put("memfs://table/0.csv", texts[0]), put("memfs://table/1.csv.gz", zip.Bytes())
	src, err = Encode(t.Context(), made, o)
	require.NoError(t, err)
	require.Equal(t, want, encoded(t, src))
	require.NoError(t, src.Close())

	e, tk := attempt(t, made, 4)
	sent(t, tk, e, 1)
	put("memfs://table/1.csv.gz", zip.Bytes()[1:])
	err = (&encodeSplit{tk}).ProcessElement(t.Context(), 1, func(int, []byte) {})
	require.ErrorContains(t, err, "its size is not that of the driver's file")
	found, err := find(t.Context(), "memfs://table/0.csv")
	require.NoError(t, err)
	require.ErrorIs(t, found.unchanged(t.Context()), errChanged, "it was not read")
	found.read = found.size
	require.NoError(t, found.unchanged(t.Context()))
	put("memfs://table/0.csv", append(texts[0], '\n'))
	require.ErrorIs(t, found.unchanged(t.Context()), errChanged)

	for name, message := range map[string]string{
		"s4://table/0.csv": "s4", "memfs://table/0.parquet": "Parquet in a store", "memfs://table/none.csv": "none.csv",
	} {
		made.Paths[0] = name
		_, err := Encode(t.Context(), made, o)
		require.ErrorContains(t, err, message)
		require.NotErrorIs(t, err, erm.ErrSource)
	}
}
