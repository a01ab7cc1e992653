// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package ledger

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// tryLock opens a file and locks it. A nil locked means that another process has the lock. Windows
// forbids others to read bytes that are locked, so it is a byte far behind the end; package flock
// locks the first.
func tryLock(path string) (locked fs.FileInfo, release func() error, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, nil, err
	}
	const how = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	far := func() *windows.Overlapped { return &windows.Overlapped{OffsetHigh: 1 << 30} }
	err = windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, far())
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return nil, nil, f.Close()
	}
	if err == nil {
		locked, err = f.Stat()
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return locked, func() error {
		return errors.Join(windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, far()), f.Close())
	}, nil
}
