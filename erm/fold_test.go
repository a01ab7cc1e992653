// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package erm

import (
	"context"
	"encoding/gob"
	"errors"
	"math"
	"math/rand/v2"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/loss"
)

func init() { gob.Register(tallying{}) }

// tallying counts persons, their lines, and their weighted rows on a grid, large numbers too.
type tallying struct{ Unit float64 }

func (tallying) Size() int { return 5 }

func (f tallying) Sum(ctx context.Context, d *Data) ([]int64, error) {
	out := make([]int64, 5)
	err := d.EachPerson(ctx, 3, math.Inf(1), func(dst []float64, w float64, a []float64, b float64) {
		dst[0], dst[1], dst[2] = dst[0]+1, dst[1]+w*a[0], dst[2]+w*b
	}, func(v []float64) {
		out[0]++
		out[1] += int64(v[0])
		out[2] += int64(math.RoundToEven(v[1] * f.Unit))
		out[3] -= int64(v[0] * v[0] * 0x1p40)
		out[4] += int64(math.RoundToEven(v[2] * f.Unit))
	})
	return out, err
}

// linesOf returns a source of persons with these numbers of lines.
func linesOf(counts []int) *tableSource {
	s := &tableSource{}
	rnd := rand.New(rand.NewPCG(3, 4))
	for _, k := range counts {
		for range k {
			s.rows = append(s.rows, []float64{float64(k), rnd.Float64(), .1})
			s.labels = append(s.labels, rnd.Float64()-.5)
		}
	}
	return s
}

// TestFold checks that the machines of a Remote compute the integers of one machine, whatever the
// shards and wherever persons begin in them, and that each person is in one shard.
func TestFold(t *testing.T) {
	b, p := loss.Bounds{Row: 1, Label: 1}, Persons{Rows: 7}
	rnd := rand.New(rand.NewPCG(1, 2))
	for name, lines := range map[string]func(i int) int{
		"any": func(int) int { return 1 + rnd.IntN(7) }, "one": func(int) int { return 1 },
		"three": func(int) int { return 3 }, "seven": func(int) int { return 7 },
		"blocks": func(i int) int { return 1 + i/4000%7 }, "rarely": func(i int) int { return 5 + i%997/996 },
	} {
		counts := make([]int, 6000)
		for i := range counts {
			counts[i] = lines(i)
		}
		src := linesOf(counts)
		here, err := OpenCanonical(t.Context(), src, b, p)
		require.NoError(t, err)
		want, err := here.Fold(t.Context(), tallying{0x1p45})
		require.NoError(t, err)
		require.Equal(t, int64(len(counts)), want[0], name)
		for _, shards := range []int{1, 2, 5, 40} {
			there, err := OpenCanonical(t.Context(), sharded{tableSource: src, shards: shards, rnd: rnd}, b, p)
			require.NoError(t, err)
			for range 2 { // the second pass is compared with the first
				got, err := there.Fold(t.Context(), tallying{0x1p45})
				require.NoError(t, err, "%s, %d shards", name, shards)
				require.Equal(t, want, got, "%s, %d shards", name, shards)
			}
		}
		for i := range 300 { // begin finds the first person from i on
			at := 0
			for _, k := range counts {
				if at >= i {
					break
				}
				at += k
			}
			got, err := begin(t.Context(), src, i, p)
			require.NoError(t, err)
			require.Equal(t, at, got, "%s, %d", name, i)
		}
	}
	plain := &tableSource{}
	for range 20_000 {
		plain.rows = append(plain.rows, []float64{rnd.NormFloat64(), rnd.NormFloat64()})
		plain.labels = append(plain.labels, rnd.Float64())
	}
	here, err := Open(plain, b)
	require.NoError(t, err)
	want, err := here.Fold(t.Context(), tallying{0x1p40})
	require.NoError(t, err)
	there, err := Open(sharded{tableSource: plain, shards: 3, rnd: rnd}, b)
	require.NoError(t, err)
	got, err := there.Fold(t.Context(), tallying{0x1p40})
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// TestFoldFailures checks that lost, doubled and changed records, and answers to other queries, are
// errors.
func TestFoldFailures(t *testing.T) {
	b, p := loss.Bounds{Row: 1, Label: 1}, Persons{Rows: 4}
	counts := make([]int, 8000)
	for i := range counts {
		counts[i] = 1 + i%4
	}
	src := linesOf(counts)
	for name, spoil := range map[string]func(parts [][]byte) [][]byte{
		"lost":    func(parts [][]byte) [][]byte { return parts[1:] },
		"doubled": func(parts [][]byte) [][]byte { return append(parts, parts[0]) },
		"swapped": func(parts [][]byte) [][]byte { return append(parts[1:], parts[1]) },
		"none":    func([][]byte) [][]byte { return nil },
		"damaged": func(parts [][]byte) [][]byte { parts[0][40] ^= 1; return parts },
	} {
		s := sharded{tableSource: src, shards: 2, rnd: rand.New(rand.NewPCG(1, 2))}
		d, err := OpenCanonical(t.Context(), s, b, p)
		require.NoError(t, err)
		_, err = d.Fold(t.Context(), tallying{1})
		require.NoError(t, err)
		s.spoil = spoil
		bad, err := OpenCanonical(t.Context(), s, b, p)
		require.NoError(t, err)
		_, err = bad.Fold(t.Context(), tallying{1})
		require.ErrorIs(t, err, ErrSource, name)
	}
	s := sharded{tableSource: src, shards: 2, rnd: rand.New(rand.NewPCG(1, 2))}
	d, err := OpenCanonical(t.Context(), s, b, p)
	require.NoError(t, err)
	src.rows[9000][1] /= 2
	_, err = d.Fold(t.Context(), tallying{1})
	require.ErrorIs(t, err, ErrSource, "a changed record")
	src.rows[9000][0]++
	_, err = d.Fold(t.Context(), tallying{1})
	require.ErrorIs(t, err, ErrSource, "another number of lines")
	_, err = d.Fold(t.Context(), unknown{})
	require.ErrorContains(t, err, "cannot be sent")
}

// files is a source that knows where some persons begin.
type files struct {
	*tableSource
	begins []int
}

func (f files) PersonBegins(i int) int { return f.begins[sort.SearchInts(f.begins, i+1)-1] }

// TestBegin checks begin at any record, for sources with and without the method PersonBegins.
func TestBegin(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 7))
	for range 500 {
		most, alike := 1+rnd.IntN(7), 1+rnd.IntN(60)
		begins, starts := []int{0}, []int{}
		var counts []int
		at, k := 0, 1
		for i := range 1 + rnd.IntN(300) {
			if i%alike == 0 {
				k = 1 + rnd.IntN(most)
			}
			if rnd.IntN(50) == 0 && at > 0 {
				begins = append(begins, at)
			}
			counts, starts, at = append(counts, k), append(starts, at), at+k
		}
		starts = append(starts, at)
		for _, src := range []Source{linesOf(counts), files{linesOf(counts), begins}} {
			i := rnd.IntN(at + 1)
			got, err := begin(t.Context(), src, i, Persons{Rows: 7})
			require.NoError(t, err)
			require.Equal(t, starts[sort.SearchInts(starts, i)], got)
		}
	}
}

// refusing is a Fold of a machine that refuses.
type refusing struct{ tallying }

var errRefused = errors.New("refused")

func (refusing) Sum(context.Context, *Data) ([]int64, error) { return nil, errRefused }

// TestFoldOfNothing checks that a Fold is asked for the sum over no records, so that a machine
// refuses whether it has records or not, and that this sum is 0.
func TestFoldOfNothing(t *testing.T) {
	p := Persons{Rows: 3}
	src := linesOf([]int{1, 3, 2})
	for _, q := range []*query{{costs: costs{dim: 3}}, {costs: costs{dim: 2}, persons: p}} {
		q.bounds, q.grain = loss.Bounds{Row: 1, Label: 1}, 1
		q.fold = refusing{}
		_, err := q.foldOver(t.Context(), src, 6, 0)
		require.ErrorIs(t, err, errRefused)
		_, err = q.foldOver(t.Context(), src, 0, 6)
		require.ErrorIs(t, err, errRefused)
		q.fold = tallying{1}
		sums, err := q.foldOver(t.Context(), src, 6, 0)
		require.NoError(t, err)
		require.Equal(t, make([]int64, 5), integers(&sums.in.total))
		require.Zero(t, sums.in.n)
		require.Zero(t, sums.in.fingerprint)
	}
}

// unknown is a Fold that gob does not know.
type unknown struct{ tallying }
