// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package beam

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	sdk "github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/wholefile"
)

func init() {
	register.DoFn2x2[context.Context, int, []byte, error](&sumShard{})
	register.Combiner1[[]byte](&mergeSums{})
	register.DoFn1x1[[]byte, error](&writeSums{})
}

// pipeline is the job of one pass:
//
//	numbers of shards → shuffle → sums of a shard → sums of all shards → file
//
// It is a function of the ticket and the numbers of the shards, which are public.
func pipeline(t ticket, numbers []int) *sdk.Pipeline {
	p, s := sdk.NewPipelineWithRoot()
	// Without a shuffle an engine would fuse both steps, and one worker would sum all shards.
	spread := sdk.Reshuffle(s, sdk.CreateList(s, numbers))
	sums := sdk.ParDo(s, &sumShard{Ticket: t}, spread)
	sdk.ParDo0(s, &writeSums{Ticket: t}, sdk.Combine(s, &mergeSums{Ticket: t}, sums))
	return p
}

// prefix begins the errors of workers.
const prefix = "beam: "

// protect runs one step of a worker. Engines log the value of a panic and the element, which may be
// secret, so protect returns an error that names the step only.
func protect(step string, f func() error) (err error) {
	defer func() {
		if recover() != nil {
			err = fmt.Errorf(prefix+"%s panicked", step)
		}
	}()
	if err := f(); err != nil {
		return fmt.Errorf(prefix+"%s: %w", step, err)
	}
	return nil
}

// sumShard adds up shards. Only its exported field is part of the pipeline.
type sumShard struct {
	Ticket ticket
	task   *task
	files  *files
	query  *erm.Query
}

// ProcessElement returns the sealed sums of a shard.
func (s *sumShard) ProcessElement(ctx context.Context, shard int) (sealed []byte, err error) {
	err = protect(fmt.Sprintf("shard %d", shard), func() error {
		if err := s.load(); err != nil {
			return err
		}
		if shard < 0 || shard >= s.task.Shards {
			return fmt.Errorf("there are %d shards", s.task.Shards)
		}
		m := &part{Shards: make([]uint64, (s.task.Shards+63)/64)}
		m.Shards[shard/64] |= 1 << (shard % 64)
		records, _ := s.files.Dims()
		first, count := share(records, shard, s.task.Shards)
		if s.query == nil {
			err = s.files.openAll(first, count)
		} else if sums, e := s.query.Sum(ctx, s.files, first, count, s.task.Threads); e != nil {
			err = e
		} else {
			m.Sums, err = sums.MarshalBinary()
		}
		if err != nil {
			return err
		}
		sealed, err = s.task.seal(m)
		return err
	})
	return sealed, err
}

// share returns the records of shard i of k. Shards have nearly the same size and begin at
// multiples of erm.Chunk; the last ones are empty if there are fewer chunks than shards.
func share(records, i, k int) (first, count int) {
	chunks := (records + erm.Chunk - 1) / erm.Chunk
	at := func(i int) int { return min(records, (chunks/k*i+min(i, chunks%k))*erm.Chunk) }
	if first, count = at(i), at(i+1)-at(i); count == 0 {
		first = 0
	}
	return first, count
}

func (s *sumShard) load() error {
	if s.task != nil {
		return nil
	}
	t, err := s.Ticket.load()
	if err != nil {
		return err
	}
	if len(t.Query) > 0 {
		s.query = new(erm.Query)
		if err := s.query.UnmarshalBinary(t.Query); err != nil {
			return err
		}
	}
	s.task, s.files = t, &files{dataset: t.Data}
	return nil
}

// Teardown closes the files.
func (s *sumShard) Teardown() error {
	if s.files != nil {
		return s.files.Close()
	}
	return nil
}

// mergeSums merges sealed sums in any order and any tree.
type mergeSums struct {
	Ticket ticket
	task   *task
}

// MergeAccumulators returns the sealed sums of both.
func (m *mergeSums) MergeAccumulators(a, b []byte) (sealed []byte, err error) {
	err = protect("a merge", func() error {
		if m.task == nil {
			if m.task, err = m.Ticket.load(); err != nil {
				return err
			}
		}
		x, err := m.task.unseal(a)
		if err != nil {
			return err
		}
		y, err := m.task.unseal(b)
		if err != nil {
			return err
		}
		if err := merge(x, y); err != nil {
			return err
		}
		sealed, err = m.task.seal(x)
		return err
	})
	return sealed, err
}

// writeSums writes the sealed sums of all shards to the result file of the pass.
type writeSums struct{ Ticket ticket }

// ProcessElement writes the file.
func (w *writeSums) ProcessElement(sealed []byte) error {
	return protect("the result", func() error {
		return wholefile.Write(filepath.Join(filepath.Dir(w.Ticket.File), resultFile), sealed, 0o600)
	})
}

// deadline is a variable for tests, which must not wait.
var deadline = context.WithTimeoutCause

// wait runs a job until it ends, or until Timeout has passed, whatever the runner does then.
func wait(ctx context.Context, o Options, job *sdk.Pipeline) error {
	ctx, stop := deadline(ctx, o.Timeout, fmt.Errorf("the job did not end within %v; a worker may have been lost "+
		"before its start, or stand still: see the log of the engine, and stop the job there. If a pass takes longer, set "+
		"Options.Timeout, which is the flag --pass-timeout of privopt-beam", o.Timeout))
	defer stop()
	ended := make(chan error, 1)
	go func() {
		_, err := sdk.Run(ctx, o.Runner, job)
		ended <- err
	}()
	select {
	case err := <-ended:
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			return reason(err)
		}
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

// reason returns the error of a worker without the plan and the stack that Beam puts around it, and
// other errors as they are.
func reason(err error) error {
	text := err.Error()
	at := strings.LastIndex(text, "\n"+prefix)
	if at < 0 {
		return err
	}
	line, _, _ := strings.Cut(text[at+1+len(prefix):], "\n")
	return errors.New(line)
}
