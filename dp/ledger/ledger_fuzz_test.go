// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package ledger

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
)

// FuzzOpen: a file is refused as broken, or is a ledger whose entries fit its terms and whose
// text is what its own lines say.
func FuzzOpen(f *testing.F) {
	path := filepath.Join(f.TempDir(), "seed.ledger")
	l, err := Create(path, Terms{Total: dp.Budget{Epsilon: 2, Delta: 1e-6}})
	require.NoError(f, err)
	e, err := l.Spend(f.Context(), costs(1, 1e-7), nil)
	require.NoError(f, err)
	require.NoError(f, l.Commit(f.Context(), e.Hash, []byte("x")))
	text, err := os.ReadFile(path)
	require.NoError(f, err)
	f.Add(text)
	f.Add(text[:len(text)-1])
	f.Add(text[:len(text)/2])
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := parse(text)
		if err != nil {
			require.ErrorIs(t, err, ErrBroken)
			return
		}
		require.NoError(t, s.terms.Check())
		committed := 0
		for i, e := range s.entries {
			if e.File != "" {
				committed++
			}
			require.Equal(t, i+1, e.Number)
			require.NoError(t, dp.Budget{Epsilon: e.Epsilon, Delta: e.Delta}.Check())
		}
		require.Len(t, s.heads, 1+len(s.entries)+committed)
		again, err := parse(text[:s.whole])
		require.NoError(t, err)
		require.Equal(t, s.heads, again.heads)
	})
}
