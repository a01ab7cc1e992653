// Package wholefile writes files that appear whole or not at all.
package wholefile

import (
	"errors"
	"os"
	"path/filepath"
)

// Write writes data to a hidden temporary file beside path of mode 0600, gives it the mode, syncs it to the disk, and
// renames it to path, instead of what had that name. A process that is killed may leave the temporary file.
func Write(path string, data []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	SyncFolder(path)
	return nil
}

// SyncFolder makes the names in the folder of path last. Some systems cannot sync a folder.
func SyncFolder(path string) {
	if dir, err := os.Open(filepath.Dir(path)); err == nil {
		dir.Sync()
		dir.Close()
	}
}
