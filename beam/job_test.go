// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package beam

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	sdk "github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/loss"
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

// TestTimeout checks that a job that never ends, of a runner that heeds no context, ends a fit at
// the third deadline, with the cause. The test decides when a deadline has come.
func TestTimeout(t *testing.T) {
	rows, labels := randomTable(100, 2)
	path := pack(t, filepath.Join(t.TempDir(), "all.npy"), rows, labels)
	stuck, end := make(chan bool, 1), make(chan bool)
	defer close(end)
	jobs := 0
	sdk.RegisterRunner("stuck", func(ctx context.Context, p *sdk.Pipeline) (sdk.PipelineResult, error) {
		if jobs++; jobs == 1 {
			return sdk.Run(ctx, "direct", p)
		}
		stuck <- true
		<-end
		return nil, nil
	})
	var limits []time.Duration
	defer func(f func(context.Context, time.Duration, error) (context.Context, context.CancelFunc)) {
		deadline = f
	}(deadline)
	deadline = func(ctx context.Context, limit time.Duration, cause error) (context.Context, context.CancelFunc) {
		limits = append(limits, limit)
		ctx, cancel := context.WithCancelCause(ctx)
		go func() {
			select {
			case <-stuck:
				cancel(cause)
			case <-ctx.Done():
			}
		}()
		return ctx, func() { cancel(nil) }
	}
	got, err := fit(t, opened(t, cluster(t, Options{Runner: "stuck", Timeout: 7 * time.Minute}, path)), loss.Logistic{})
	require.Nil(t, got)
	require.ErrorIs(t, err, erm.ErrSource)
	require.ErrorContains(t, err, "the job did not end within 7m0s")
	require.Equal(t, []time.Duration{7 * time.Minute, 7 * time.Minute, 7 * time.Minute, 7 * time.Minute}, limits)
	require.Equal(t, 4, jobs)

	require.Equal(t, 10*time.Minute, patience(0, 1))
	require.Equal(t, 11*time.Minute, patience(1<<20, 119))
	require.Equal(t, 10*time.Minute+366*24*time.Hour, patience(1<<40, 1<<30))
}

// TestReason checks that the error of a worker comes without the plan that Beam puts before it.
func TestReason(t *testing.T) {
	defer armed.Store(false)
	rows, labels := randomTable(30000, 3)
	path := pack(t, filepath.Join(t.TempDir(), "all.npy"), rows, labels)
	for _, runner := range runners {
		armed.Store(false)
		s := cluster(t, Options{Runner: runner, Shards: 3}, path)
		armed.Store(true)
		panics.Store(1 << 40)
		_, err := fit(t, opened(t, s), faulty{})
		require.ErrorContains(t, err, "at last with: shard ")
		require.NotContains(t, err.Error(), "\n")
	}
	require.EqualError(t, reason(errors.New("job 7 failed:\nno worker")), "job 7 failed:\nno worker")
	require.EqualError(t, reason(errors.New("Plan:\nbeam: shard 1: gone\n\tat java.lang.Thread")), "shard 1: gone")
}
