// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package beam

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/table/npy"
)

// passes returns two functions that make one pass over a million records of 12 features: in this
// process, and on a runner.
func passes(t testing.TB, runner string, shards int) (local, remote func()) {
	const n, d = 1_000_000, 12
	rows, labels := randomTable(n, d)
	path := pack(t, filepath.Join(t.TempDir(), "million.npy"), rows, labels)
	file, err := npy.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { file.Close() })
	s := cluster(t, Options{Runner: runner, Shards: shards}, path)
	q := query(t, s)
	var want, got *erm.Sums
	local = func() {
		want, err = q.Sum(t.Context(), file, 0, n, 0)
		require.NoError(t, err)
	}
	remote = func() {
		got, err = s.Sum(t.Context(), q)
		require.NoError(t, err)
	}
	local()
	remote()
	a, err := want.MarshalBinary()
	require.NoError(t, err)
	b, err := got.MarshalBinary()
	require.NoError(t, err)
	require.Equal(t, a, b)
	return local, remote
}

// BenchmarkPass times one pass over a million records of 12 features.
func BenchmarkPass(b *testing.B) {
	for _, c := range []struct {
		runner string
		shards int
	}{{"direct", 8}, {"prism", 1}, {"prism", 8}, {"prism", 64}} {
		b.Run(fmt.Sprintf("runner=%s/shards=%d", c.runner, c.shards), func(b *testing.B) {
			_, remote := passes(b, c.runner, c.shards)
			for b.Loop() {
				remote()
			}
		})
	}
	b.Run("runner=none", func(b *testing.B) {
		local, _ := passes(b, "direct", 1)
		for b.Loop() {
			local()
		}
	})
}
