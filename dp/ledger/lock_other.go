// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

//go:build !windows

package ledger

import (
	"errors"
	"io/fs"
	"os"

	"github.com/gofrs/flock"
)

// tryLock opens a file and locks it. A nil locked means that another process has the lock.
func tryLock(path string) (locked fs.FileInfo, release func() error, err error) {
	l := flock.New(path, flock.SetFlag(os.O_RDWR)) // O_RDWR makes no file, and works on NFS
	ok, err := l.TryLock()
	if err != nil || !ok {
		return nil, nil, err
	}
	if locked, err = l.Stat(); err != nil {
		return nil, nil, errors.Join(err, l.Close())
	}
	return locked, l.Close, nil
}
