// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
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
	terms, err := NewTerms(dp.Budget{Epsilon: 2, Delta: 1e-6}, dp.Replace)
	require.NoError(f, err)
	for _, first := range []dp.Plan{gaussian(0.01, 1e-8), costs(2, 1e-6)} { // with a curve, and alone
		path := filepath.Join(f.TempDir(), "orders.ledger")
		l, err := Create(path, terms)
		require.NoError(f, err)
		_, err = l.Spend(f.Context(), first, nil)
		require.NoError(f, err)
		text, err := os.ReadFile(path)
		require.NoError(f, err)
		f.Add(text)
		f.Add(text[:len(text)-1])
	}
	f.Add(text)
	f.Add(text[:len(text)-1])
	f.Add(text[:len(text)/2])
	f.Add([]byte("{}\n"))
	f.Fuzz(readable)
}

// FuzzSealed is FuzzOpen for lines whose hashes are right, which a fuzzer would not find.
func FuzzSealed(f *testing.F) {
	terms, err := NewTerms(dp.Budget{Epsilon: 2, Delta: 1e-6}, dp.Replace)
	require.NoError(f, err)
	for i, first := range []dp.Plan{gaussian(0.01, 1e-8), costs(2, 1e-6), costs(0.1, 0), costs(0.1, 1e-9)} {
		if i == 3 {
			terms = Terms{Total: terms.Total, Relation: dp.Replace, Orders: []float64{8, 30}}
		}
		l := create(f, terms)
		e, err := l.Spend(f.Context(), first, nil)
		require.NoError(f, err)
		require.NoError(f, l.Commit(f.Context(), e.Hash, []byte("x")))
		text, err := os.ReadFile(l.Path())
		require.NoError(f, err)
		body := regexp.MustCompile(`,"hash":"[0-9a-f]*"`).ReplaceAll(text, nil)
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var text []byte
		previous := ""
		for line := range bytes.Lines(body) {
			sealed, hash, err := seal(json.RawMessage(line), previous)
			if err != nil {
				return
			}
			text, previous = append(text, sealed...), hash
		}
		readable(t, text)
	})
}

// readable checks that a text is refused as broken or is a consistent ledger.
func readable(t *testing.T, text []byte) {
	s, err := parse(text)
	if err != nil {
		require.True(t, errors.Is(err, ErrBroken) || errors.Is(err, ErrTerms), "%v", err)
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
		require.True(t, s.version == formatVersion || !e.Alone)
	}
	for _, u := range s.spent.uses(s.terms) {
		require.True(t, u.Used >= 0 && u.Used <= math.MaxFloat64 && u.Total >= 0, "%+v", u)
	}
	require.Len(t, s.heads, 1+len(s.entries)+committed)
	again, err := parse(text[:s.whole])
	require.NoError(t, err)
	require.Equal(t, s.heads, again.heads)
}
