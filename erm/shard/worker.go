package shard

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/privopt/privopt/erm"
)

// Worker adds up the records of one shard.
type Worker struct {
	Folder        string
	Shard, Shards int // i of k, i in 1, …, k
	// Source has all records, those of the driver in the same order. If it is nil, Open is called with
	// the number of features that the driver wants.
	Source erm.Source
	Open   func(features int) (erm.Source, error)
	// Data is compared with Options.Data of the driver.
	Data string
	// Threads add up, GOMAXPROCS for 0.
	Threads int
}

// Serve waits for a driver in the folder and answers it, until the driver is closed, which ends Serve
// without an error, or until ctx is done.
func (w *Worker) Serve(ctx context.Context) error {
	if w.Shards < 1 || w.Shard < 1 || w.Shard > w.Shards {
		return fmt.Errorf("shard: Shard = %d of Shards = %d, want 1 to Shards", w.Shard, w.Shards)
	}
	if w.Source == nil && w.Open == nil {
		return errors.New("shard: Source and Open are nil, want one of them")
	}
	fit, last, src := "", "", w.Source
	for waited := time.Now(); ; {
		t, err := readTask(w.Folder)
		switch {
		case err == nil && fit != "" && t.Fit != fit, err != nil && fit != "" && w.alone():
			return nil // the driver is done
		case err == nil && t.id != last:
			if src == nil {
				if src, err = w.Open(t.Features); err != nil {
					return errors.Join(err, w.answer(t, nil, err))
				}
			}
			if err := w.sum(ctx, t, src); err != nil {
				return err
			}
			fit, last, waited = t.Fit, t.id, time.Now()
		case err != nil && !errors.Is(err, os.ErrNotExist):
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause(time.Since(waited))):
		}
	}
}

// alone reports whether there is no driver.
func (w *Worker) alone() bool {
	_, err := os.Stat(filepath.Join(w.Folder, driverName))
	return errors.Is(err, os.ErrNotExist)
}

// sum answers a task, if only by an error.
func (w *Worker) sum(ctx context.Context, t *task, src erm.Source) error {
	sums, err := w.sums(ctx, t, src)
	if errors.Is(err, context.Canceled) { // another worker may take over
		return err
	}
	return errors.Join(err, w.answer(t, sums, err))
}

// sums returns the sums that the task asks for, nil if it asks for none.
func (w *Worker) sums(ctx context.Context, t *task, src erm.Source) ([]byte, error) {
	n, d := src.Dims()
	switch {
	case t.Shards != w.Shards:
		return nil, fmt.Errorf("%w: the driver wants %d shards, this worker has one of %d", ErrShard, t.Shards, w.Shards)
	case n != t.Records || d != t.Features || w.Data != t.Data:
		return nil, fmt.Errorf("%w: this worker does not have the records of the driver", ErrShard)
	case t.Pass == 0:
		return nil, nil
	}
	q := new(erm.Query)
	if err := q.UnmarshalBinary(t.Query); err != nil {
		return nil, err
	}
	first, count := Range(n, w.Shard, w.Shards)
	s, err := q.Sum(ctx, src, first, count, w.Threads)
	if err != nil {
		return nil, err
	}
	return s.MarshalBinary()
}

// answer writes the answer to a task. If the driver is done with the task by now, no answer is left behind.
func (w *Worker) answer(t *task, sums []byte, failure error) error {
	a := answer{Version: version, Task: t.id, Shards: w.Shards, Have: []int{w.Shard}, Sums: sums}
	if failure != nil {
		a.Error = failure.Error()
	}
	done := func() bool { // Serve sees the same
		now, err := readTask(w.Folder)
		return err == nil && now.id != t.id || errors.Is(err, os.ErrNotExist)
	}
	if done() {
		return nil
	}
	path := filepath.Join(w.Folder, sumsName(w.Shard, w.Shards))
	_, err := write(path, &a)
	if done() {
		os.Remove(path) // what the driver took is gone already
		return nil
	}
	return err
}
