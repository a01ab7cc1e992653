// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package objpert

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/noise"
)

// The heuristic may do what it likes: fail, be wrong, panic on nothing; votes
// outside the product do not count, and a block without records has none.
func TestSampleAndAggregate(t *testing.T) {
	p := halfspaces(t, 300, 2, ternary())
	b := dp.Budget{Epsilon: 20}
	calls := 0
	m := &SampleAndAggregate{
		Blocks:   1000,
		Relation: dp.AddRemove,
		Heuristic: func(_ context.Context, block *Problem) ([]int,
			error) {
			calls++
			require.Positive(t, block.records())
			switch calls % 4 {
			case 0:
				return nil, errors.New("failed")
			case 1:
				return []int{5, 5}, nil
			case 2:
				return []int{1}, nil
			}
			return []int{1, -1}, nil
		},
	}
	rel, err := m.Fit(bg, p, b, noise.Reproducible(4))
	require.NoError(t, err)
	require.Equal(t, []float64{1, -1}, rel.Theta)
	require.Equal(t, dp.AddRemove, rel.Certificate.Relation)
	require.Greater(t, calls, 200)
	require.LessOrEqual(t, calls, 300)

	// All blocks together are the data.
	total := 0
	m = &SampleAndAggregate{Blocks: 7, Heuristic: func(_ context.Context, block *Problem) ([]int, error) {
		require.NoError(t, block.check())
		total += block.records()
		return nil, errors.New("nothing")
	}}
	_, err = m.Fit(bg, p, b, nil)
	require.NoError(t, err, "no votes at all: noise decides")
	require.Equal(t, 300, total)

	ctx, cancel := context.WithCancel(bg)
	m.Heuristic = func(context.Context, *Problem) ([]int, error) { cancel(); return nil, nil }
	_, err = m.Fit(ctx, p, b, nil)
	require.ErrorIs(t, err, dp.ErrWithheld)
	require.ErrorIs(t, err, context.Canceled)
}

// A panic, the end of its goroutine, and time: what befalls the heuristic on one
// block is one vote less. The record it dwells on moves nothing else.
func TestBlockLimit(t *testing.T) {
	b := dp.Budget{Epsilon: 1}
	rows, labels := make([][]int64, 40), make([]int, 40)
	for i := range rows {
		rows[i], labels[i] = []int64{1, int64(i + 1)}, 1
	}
	slow := slices.Clone(rows)
	slow[7] = []int64{-1, 99} // the record in question
	type heuristic = func(ctx context.Context) ([]int, error)
	votesOn := func(rows [][]int64, befall heuristic, ctx context.Context) ([][]int, *dp.Release, error) {
		p, err := NewProblem(rows, labels, nil, cube())
		require.NoError(t, err)
		var votes [][]int
		m := &SampleAndAggregate{Blocks: 8, BlockLimit: time.Hour,
			Heuristic: func(ctx context.Context, block *Problem) ([]int, error) {
				for _, x := range block.x {
					if x[0] < 0 {
						return befall(ctx)
					}
				}
				return []int{1, 1}, nil
			}}
		pl, err := m.Plan(p, b)
		require.NoError(t, err)
		rel, err := pl.Fit(ctx, p, noise.Reproducible(40))
		if err == nil {
			votes = pl.tally(ctx, p, noise.Reproducible(40))
		}
		return votes, rel, err
	}
	plain, _, err := votesOn(rows, nil, bg)
	require.NoError(t, err)
	// A block's time is over when its heuristic calls the function in its context.
	type over struct{}
	defer func() { withTimeout = context.WithTimeout }()
	withTimeout = func(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
		require.Equal(t, time.Hour, limit)
		ctx, cancel := context.WithCancel(ctx)
		return context.WithValue(ctx, over{}, cancel), cancel
	}
	end := func(ctx context.Context) { ctx.Value(over{}).(context.CancelFunc)() }
	for name, befall := range map[string]func(ctx context.Context) ([]int, error){
		"is late": func(ctx context.Context) ([]int, error) { end(ctx); return []int{1, 1}, nil },
		"obeys":   func(ctx context.Context) ([]int, error) { end(ctx); <-ctx.Done(); return []int{1, 1}, ctx.Err() },
		"panics":  func(context.Context) ([]int, error) { panic("one record") },
		"is gone": func(context.Context) ([]int, error) { runtime.Goexit(); return nil, nil },
	} {
		votes, rel, err := votesOn(slow, befall, bg)
		require.NoError(t, err, name)
		require.NotNil(t, rel)
		for j := range votes { // the block of the record, and no other
			require.Equal(t, plain[j][0], votes[j][0], name)
			require.Equal(t, plain[j][1]-1, votes[j][1], name)
		}
	}
	// The control: one limit for all blocks, as the context of the caller is. The
	// record decides whether there is a release.
	ctx, cancel := context.WithCancel(bg)
	_, _, err = votesOn(slow, func(context.Context) ([]int, error) { cancel(); return []int{1, 1}, nil }, ctx)
	require.ErrorIs(t, err, dp.ErrWithheld)
}

// Without a heuristic a branch and bound looks, for a number of nodes that is the same for every
// block.
func TestBlockSteps(t *testing.T) {
	p := halfspaces(t, 200, 3, Lattice(2))
	count := func(steps int64) (n int) {
		pl, err := (&SampleAndAggregate{Blocks: 4, BlockSteps: steps}).Plan(p, dp.Budget{Epsilon: 1})
		require.NoError(t, err)
		for _, v := range pl.tally(bg, p, noise.Reproducible(41))[0] {
			n += v
		}
		return n
	}
	require.Equal(t, 4, count(0))
	require.Zero(t, count(1))
}
