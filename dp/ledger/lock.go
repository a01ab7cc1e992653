// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/privopt/privopt/internal/prefix"
)

// lock waits for the lock of the file that path leads to, until ctx is done, and opens that file.
// If path has become the name of another file meanwhile, it locks that one.
func lock(ctx context.Context, path string) (f *os.File, unlock func() error, err error) {
	for {
		if ctx.Err() != nil {
			return nil, nil, fmt.Errorf("%w: %s: %w: try again when it is done", ErrBusy, path, ctx.Err())
		}
		locked, release, err := tryLock(path)
		if err != nil {
			return nil, nil, prefix.Errorf("ledger: %w", err)
		}
		if locked == nil {
			select {
			case <-ctx.Done():
			case <-time.After(2 * time.Millisecond):
			}
			continue
		}
		if f := reopen(path, locked); f != nil {
			return f, func() error { return errors.Join(f.Close(), release()) }, nil
		}
		release()
	}
}

// reopen opens the file that path leads to now, nil unless it is the one that was locked.
func reopen(path string, locked fs.FileInfo) *os.File {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil // removed: to lock it again says so
	}
	if info, err := f.Stat(); err != nil || !os.SameFile(info, locked) {
		f.Close()
		return nil
	}
	return f
}
