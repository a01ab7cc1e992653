// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package ledger

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/num"
)

// TestNewTerms checks that the terms of every total are valid, and that a total without δ has sums
// alone.
func TestNewTerms(t *testing.T) {
	for _, relation := range []dp.Relation{dp.AddRemove, dp.Replace} {
		for _, eps := range []float64{dp.MinEpsilon, 1e-3, 0.1, 1, 8, 100, 1000, dp.MaxEpsilon} {
			for _, delta := range []float64{1e-290, 1e-30, 1e-9, 1e-3, 0.5} {
				terms, err := NewTerms(dp.Budget{Epsilon: eps, Delta: delta}, relation)
				require.NoError(t, err, "%v %v", eps, delta)
				create(t, terms)
			}
		}
	}
	terms, err := NewTerms(dp.Budget{Epsilon: 1}, 0)
	require.NoError(t, err)
	require.Equal(t, Terms{Total: dp.Budget{Epsilon: 1}, Relation: dp.Replace}, terms)
	for _, total := range []dp.Budget{{}, {Epsilon: 1, Delta: 2}, {Epsilon: 1, Delta: dp.MinDelta}} {
		_, err := NewTerms(total, dp.Replace)
		require.ErrorIs(t, err, ErrTerms)
	}
	_, err = NewTerms(dp.Budget{Epsilon: 1, Delta: dp.MinDelta}, dp.Replace)
	require.ErrorContains(t, err, "want at least 1e-300 for each of")
}

// TestAlone checks that a first release at the whole total is admitted, that nothing but sums
// counts behind it, and that a later release cannot stand alone.
func TestAlone(t *testing.T) {
	total := dp.Budget{Epsilon: 1, Delta: 1e-6}
	terms, err := NewTerms(total, dp.Replace)
	require.NoError(t, err)
	l := create(t, terms)
	_, err = l.Spend(ctx, costs(1.01, 1e-6), nil)
	require.ErrorIs(t, err, ErrOverspent)
	require.ErrorContains(t, err, "want at most ε = 1 and δ = 1e-06, declared; plan with a smaller budget, at most ε = 1")
	small := gaussian(0.001, 1e-8)
	first := costs(1-small.c.Epsilon, 0.99e-6)
	_, err = l.Spend(ctx, first, nil)
	require.NoError(t, err)
	l, err = Open(l.Path())
	require.NoError(t, err)
	require.True(t, l.Entries()[0].Alone)
	require.Len(t, l.Used(), 2)
	_, err = l.Spend(ctx, small, nil)
	require.NoError(t, err)
	_, err = l.Spend(ctx, small, nil)
	require.ErrorIs(t, err, ErrOverspent)
	require.Len(t, l.Entries(), 2)

	l = create(t, terms)
	_, err = l.Spend(ctx, small, nil)
	require.NoError(t, err)
	require.False(t, l.Entries()[0].Alone)
	_, err = l.Spend(ctx, costs(0.5, 0.9e-6), nil)
	require.ErrorIs(t, err, ErrOverspent)
}

// TestRoom: a refusal names the ε that would still be admitted, within a tenth.
func TestRoom(t *testing.T) {
	for _, total := range []float64{0.5, 2, 8} {
		terms, err := NewTerms(dp.Budget{Epsilon: total, Delta: 1e-6}, dp.Replace)
		require.NoError(t, err)
		l, big := create(t, terms), gaussian(0.08*total, 1e-8)
		for err == nil {
			_, err = l.Spend(ctx, big, nil)
		}
		require.ErrorIs(t, err, ErrOverspent)
		_, text, _ := strings.Cut(err.Error(), "at most about ε = ")
		var most float64
		_, err = fmt.Sscan(text, &most)
		require.NoError(t, err, text)
		require.Less(t, most, big.c.Epsilon)
		for _, c := range []struct {
			factor float64
			fits   bool
		}{{1.1, false}, {0.9, true}} {
			shift := sort.Search(1000, func(i int) bool {
				return gaussian(0.08*total*float64(i+1)/1000, 1e-8).c.Epsilon > c.factor*most
			})
			_, err = l.Spend(ctx, gaussian(0.08*total*float64(shift)/1000, 1e-8), nil)
			require.Equal(t, c.fits, err == nil, "%v of %v: %v", c.factor, most, err)
		}
	}
}

// TestFormats checks which entries and versions of the format a ledger refuses to read, and that
// nothing but sums counts behind an entry that stands alone.
func TestFormats(t *testing.T) {
	terms, err := NewTerms(dp.Budget{Epsilon: 1, Delta: 1e-6}, dp.Replace)
	require.NoError(t, err)
	l := create(t, terms)
	for range 2 {
		_, err := l.Spend(ctx, gaussian(0.01, 1e-9), nil)
		require.NoError(t, err)
	}
	all := lines(t, l)
	open := func(lines ...[]byte) (*Ledger, error) {
		path := filepath.Join(t.TempDir(), "l")
		require.NoError(t, os.WriteFile(path, resealed(t, lines...), 0o600))
		return Open(path)
	}
	edit := func(line []byte, old, with string) []byte {
		require.Contains(t, string(line), old)
		return []byte(strings.Replace(string(line), old, with, 1))
	}
	for want, text := range map[string][][]byte{
		"it is of version 5": {edit(all[0], `"ledger":4`, `"ledger":5`)},
		"in a ledger of version 2": {edit(all[0], `"ledger":4`, `"ledger":2`),
			edit(all[1], `,"plan"`, `,"alone":true,"plan"`)},
		"entry 2 stands alone":      {all[0], all[1], edit(all[2], `,"plan"`, `,"alone":true,"plan"`)},
		"want numbers ≥ 0":          {all[0], edit(all[1], `"rdp":[`, `"rdp":[-`)},
		"not written by this versi": {all[0], edit(all[1], `"plan"`, `"plane"`)},
		"it has 0 values of rdp":    {all[0], regexp.MustCompile(`"rdp":\[[^]]*]`).ReplaceAll(all[1], []byte(`"rdp":[]`))},
		"add-remove neighbors":      {all[0], edit(all[1], `"relation":"replace"`, `"relation":"add-remove"`)},
	} {
		_, err := open(text...)
		require.ErrorIs(t, err, ErrBroken, want)
		require.ErrorContains(t, err, want)
	}
	_, err = open(edit(all[0], `"ledger":4`, `"ledger":3`), all[1])
	require.ErrorIs(t, err, ErrTerms)
	require.ErrorContains(t, err, "only version 0.2.0 can read and continue it; create another ledger")
	old, err := open(edit(all[0], `"ledger":4`, `"ledger":2`), all[1])
	require.NoError(t, err)
	require.Len(t, old.Entries(), 1)
	// Behind an entry that stands alone only the sums count, even if the other filters have room.
	alone, err := open(all[0], edit(all[1], `,"plan"`, `,"alone":true,"plan"`))
	require.NoError(t, err)
	_, err = alone.Spend(ctx, gaussian(0.001, 0.9999e-6), nil)
	require.ErrorIs(t, err, ErrOverspent)
	_, err = alone.Spend(ctx, costs(0.9, 0.9e-6), nil)
	require.NoError(t, err)
	failing := costs(0.1, 0)
	for _, failing.failure = range []float64{-1, 2, math.NaN()} {
		_, err := l.Spend(ctx, failing, nil)
		require.ErrorIs(t, err, dp.ErrCondition)
	}
}

// TestBestOrder compares the order with a search over a grid.
func TestBestOrder(t *testing.T) {
	for _, b := range []dp.Budget{{Epsilon: 0.1, Delta: 1e-9}, {Epsilon: 1, Delta: 1e-6}, {Epsilon: 8, Delta: 1e-9}} {
		most := func(alpha float64) float64 {
			terms := Terms{Total: dp.Budget{Epsilon: b.Epsilon, Delta: b.Delta}}
			return terms.divergence(alpha) / alpha
		}
		x, _ := num.Minimize(func(u float64) float64 { return -most(1 + math.Exp(u)) }, -3, 8, 200, 1e-6)
		require.InEpsilon(t, most(1+math.Exp(x)), most(bestOrder(b)), 1e-3)
	}
}
