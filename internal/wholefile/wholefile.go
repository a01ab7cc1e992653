// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package wholefile writes a file whole or not at all.
package wholefile

import (
	"errors"
	"os"
	"path/filepath"
)

// File is a new file. Until Commit it is a hidden temporary file of mode 0600 in the same folder. A
// process that is killed may leave the temporary file.
type File struct {
	*os.File
	path string
	done bool
}

// Create begins the file path.
func Create(path string) (*File, error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return nil, err
	}
	return &File{File: f, path: path}, nil
}

// Commit syncs the file to the disk, closes it and gives it its name, replacing a file of that
// name. If an error occurs, the new file is removed.
func (f *File) Commit() error {
	err := errors.Join(f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), f.path)
	}
	if err != nil {
		return errors.Join(err, f.Abandon())
	}
	f.done = true
	if dir, err := os.Open(filepath.Dir(f.path)); err == nil { // sync the name; some systems cannot sync a folder
		dir.Sync()
		dir.Close()
	}
	return nil
}

// Abandon removes the file unless it was committed or removed before.
func (f *File) Abandon() error {
	if f.done {
		return nil
	}
	f.done = true
	f.Close() // Commit may have closed it
	return os.Remove(f.Name())
}

// Write writes a whole file with the given mode.
func Write(path string, data []byte, mode os.FileMode) error {
	f, err := Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(mode)); err != nil {
		return errors.Join(err, f.Abandon())
	}
	return f.Commit()
}

// Twice returns two of the paths that name one file, whatever links lead to it.
func Twice(paths []string) (first, second string, ok bool) {
	infos := make([]os.FileInfo, len(paths))
	for j, path := range paths {
		infos[j], _ = os.Stat(path) // what does not exist is found where it is opened
		for i, earlier := range paths[:j] {
			if earlier == path || infos[i] != nil && infos[j] != nil && os.SameFile(infos[i], infos[j]) {
				return earlier, path, true
			}
		}
	}
	return "", "", false
}

// Discard removes a folder in which others may still create files. It takes the name away first, so
// that they find no folder.
func Discard(folder string) (err error) {
	gone := folder + ".gone"
	if os.Rename(folder, gone) != nil {
		gone = folder
	}
	for range 3 { // a file that was being created meanwhile makes the first try fail
		if err = os.RemoveAll(gone); err == nil {
			break
		}
	}
	return err
}
