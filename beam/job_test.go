// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package beam

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/erm"
)

// TestShare checks that every record is in exactly one shard, that shards begin at chunks, and that
// the sizes of shards differ by two chunks at most.
func TestShare(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 4))
	for range 2000 {
		n, k := rnd.IntN(100*erm.Chunk), 1+rnd.IntN(120)
		next, least, most := 0, n, 0
		for i := range k {
			first, count := share(n, i, k)
			if count == 0 {
				require.Zero(t, first)
				continue
			}
			require.Equal(t, next, first)
			require.Zero(t, first%erm.Chunk)
			next, least, most = first+count, min(least, count), max(most, count)
		}
		require.Equal(t, n, next)
		if n >= k*erm.Chunk {
			require.LessOrEqual(t, most-least, 2*erm.Chunk)
		}
	}
}
