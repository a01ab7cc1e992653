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

// lock waits for the lock of the file at path, until ctx is done, and opens the file. If path names
// another file by then, it locks that one.
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

// reopen opens the file that path names now. It returns nil unless that is the locked file.
func reopen(path string, locked fs.FileInfo) *os.File {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil // the file was removed; the next attempt to lock it returns the error
	}
	if info, err := f.Stat(); err != nil || !os.SameFile(info, locked) {
		f.Close()
		return nil
	}
	return f
}
