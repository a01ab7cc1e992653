// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package erm

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/loss"
)

// sharded is a Remote that encodes the query and the sums of every shard, and merges the sums in
// the order of a random tree.
type sharded struct {
	*tableSource
	shards int
	rnd    *rand.Rand
	spoil  func(parts [][]byte) [][]byte
}

func (s sharded) Sum(ctx context.Context, q *Query) (*Sums, error) {
	n, _ := s.Dims()
	b, err := q.MarshalBinary()
	if err != nil {
		return nil, err
	}
	chunks := (n + Chunk - 1) / Chunk
	var parts [][]byte
	for k := range s.shards {
		lo, hi := k*chunks/s.shards*Chunk, min((k+1)*chunks/s.shards*Chunk, n)
		var there Query
		if err := there.UnmarshalBinary(b); err != nil {
			return nil, err
		}
		part, err := there.Sum(ctx, s.tableSource, min(lo, hi), max(hi-lo, 0), 1+s.rnd.IntN(3))
		if err != nil {
			return nil, err
		}
		text, err := part.MarshalBinary()
		if err != nil {
			return nil, err
		}
		parts = append(parts, text)
	}
	s.rnd.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	if s.spoil != nil {
		parts = s.spoil(parts)
	}
	sums := make([]*Sums, len(parts))
	for i := range parts {
		sums[i] = new(Sums)
		if err := sums[i].UnmarshalBinary(parts[i]); err != nil {
			return nil, err
		}
	}
	for len(sums) > 1 {
		i := s.rnd.IntN(len(sums) - 1)
		if err := sums[i].Merge(sums[i+1]); err != nil {
			return nil, err
		}
		sums = slices.Delete(sums, i+1, i+2)
	}
	if len(sums) == 0 {
		return nil, nil
	}
	return sums[0], nil
}

// keeping is a Remote that keeps the first query it gets and encodes each query from two goroutines
// at a time.
type keeping struct {
	*tableSource
	q *Query
}

func (k *keeping) Sum(ctx context.Context, q *Query) (*Sums, error) {
	if k.q == nil {
		k.q = q
	}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { _, _ = q.MarshalBinary() })
	}
	wg.Wait()
	return q.Sum(ctx, k.tableSource, 0, len(k.rows), 1)
}

// TestQueryIsKept checks that a query that a Remote keeps does not change after its pass.
func TestQueryIsKept(t *testing.T) {
	data, x, _ := random(7, 700, 2)
	for _, l := range []loss.Loss{loss.Logistic{}, loss.Squared{}} {
		k := &keeping{tableSource: fileOf(data)}
		file, err := Open(k, data.Bounds())
		require.NoError(t, err)
		o := unperturbed(&Problem{Data: file, Loss: l})
		x, g := slices.Clone(x), make([]float64, 2)
		if _, _, _, ok := o.Quadratic(); !ok {
			o.Grad(g, x)
		}
		bytes := func(q *Query) []byte {
			sums, err := q.Sum(t.Context(), k.tableSource, 0, len(k.rows), 1)
			require.NoError(t, err)
			b, err := sums.MarshalBinary()
			require.NoError(t, err)
			return b
		}
		want, err := k.q.MarshalBinary()
		require.NoError(t, err)
		sums := bytes(k.q)
		for range 3 {
			x[0]++
			o.Grad(g, x)
			// This pass reuses the buffers of the pool.
			unperturbed(&Problem{Data: data, Loss: loss.Huber{Delta: 1}}).Grad(g, x)
		}
		got, err := k.q.MarshalBinary()
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, sums, bytes(k.q))
		var read Query
		require.NoError(t, read.UnmarshalBinary(got))
		require.Equal(t, sums, bytes(&read))
	}
}

// replaying is a faulty Remote that answers every query with the sums of the first one.
type replaying struct {
	*tableSource
	first *Sums
}

func (r *replaying) Sum(ctx context.Context, q *Query) (*Sums, error) {
	if r.first != nil {
		return r.first, nil
	}
	var err error
	r.first, err = q.Sum(ctx, r.tableSource, 0, len(r.rows), 1)
	return r.first, err
}

// TestSumsOfAnotherQuery checks that sums for another point are refused, as an answer and in Merge.
// They have the right shape: only the identifier of their query shows the mistake.
func TestSumsOfAnotherQuery(t *testing.T) {
	data, x, _ := random(7, 20, 2)
	r := &replaying{tableSource: fileOf(data)}
	file, err := Open(r, data.Bounds())
	require.NoError(t, err)
	o, g := unperturbed(&Problem{Data: file, Loss: loss.Logistic{}}), make([]float64, 2)
	o.Grad(g, x)
	require.NoError(t, o.Err())
	first := r.first
	x[0]++
	o.Grad(g, x)
	require.ErrorIs(t, o.Err(), ErrSource)

	r.first = nil
	unperturbed(&Problem{Data: file, Loss: loss.Logistic{}}).Grad(g, x)
	require.ErrorContains(t, first.Merge(r.first), "different queries")
}

// TestQueryAndSumsPrintNothing checks that no verb of fmt prints the contents of a Query or of
// Sums.
func TestQueryAndSumsPrintNothing(t *testing.T) {
	data, _, _ := random(7, 20, 2)
	var seen string
	file, err := Open(spying{fileOf(data), &seen}, data.Bounds())
	require.NoError(t, err)
	o := unperturbed(&Problem{Data: file, Loss: loss.Logistic{}})
	o.Grad(make([]float64, 2), []float64{0.123456789, 0.987654321})
	require.NoError(t, o.Err())
	require.NotEmpty(t, seen)
	require.NotContains(t, seen, "0.1234")
	require.NotContains(t, seen, "0.9876")
}

type spying struct {
	*tableSource
	seen *string
}

func (s spying) Sum(ctx context.Context, q *Query) (*Sums, error) {
	sums, err := q.Sum(ctx, s.tableSource, 0, len(s.rows), 1)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x"} {
		*s.seen += fmt.Sprintf(verb, q) + fmt.Sprintf(verb, *q) + fmt.Sprintf(verb, sums) +
			fmt.Sprintf(verb, *sums) + fmt.Sprintf(verb, struct{ s Sums }{*sums})
	}
	return sums, err
}

func TestQueryRefuses(t *testing.T) {
	var q Query
	_, err := q.MarshalBinary()
	require.Error(t, err)
	require.Error(t, q.UnmarshalBinary([]byte("nothing of the kind")))
	whole, err := newCosts(loss.Logistic{}, loss.Bounds{Row: 1, Label: 1}, 1).asking()
	require.NoError(t, err)
	for _, r := range [][2]int{{Chunk, math.MaxInt}, {math.MaxInt - Chunk + 1, math.MaxInt}, {-Chunk, 1}, {0, 2}, {0, -1},
		{1, 0}} {
		_, err = whole.Sum(context.Background(), &tableSource{rows: [][]float64{{1}}, labels: []float64{1}}, r[0], r[1], 0)
		require.ErrorIs(t, err, ErrSource, r)
	}
	_, err = q.Sum(context.Background(), &tableSource{rows: [][]float64{{1}}, labels: []float64{1}}, 0, 1, 0)
	require.Error(t, err)
	var s Sums
	_, err = s.MarshalBinary()
	require.Error(t, err)
	require.Error(t, s.Merge(nil))
	require.Error(t, s.UnmarshalBinary(nil))
}

// asking returns a Query for the value of f at 0.
func (c costs) asking() (*Query, error) {
	return (&query{costs: c, ask: askValue, x: make([]float64, c.dim), grain: grain}).sealed(nil)
}
