package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/packed"
	"github.com/privopt/privopt/table"
	"github.com/privopt/privopt/table/npy"
)

// isPacked reports whether --data names a .npy file, by its name or its first bytes.
func isPacked(path string) bool {
	if filepath.Ext(path) == ".npy" {
		return true
	}
	info, err := os.Stat(path)
	if path == "-" || err != nil || !info.Mode().IsRegular() { // a pipe would lose what is read
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var start [6]byte
	_, err = io.ReadFull(f, start[:])
	return err == nil && string(start[:]) == "\x93NUMPY"
}

// records are a table, in memory or in a file that is to be closed.
type records struct {
	*table.Data
	close func() error
}

// openPacked opens a .npy file of the rows that e makes. With verify the whole file is compared
// with its checksums first.
func openPacked(ctx context.Context, path string, e *table.Encoder, verify bool) (*records, error) {
	f, err := npy.Open(path)
	if err != nil {
		return nil, usagef("--data: %w", err)
	}
	if err = packed.Check(f, e); err != nil {
		err = usagef("--data: %s: %w", path, err)
	} else if verify {
		err = f.Verify(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return openRecords(packed.Pad(f, e.Dim()), f.Close, e)
}

func openRecords(src erm.Source, end func() error, e *table.Encoder) (*records, error) {
	data, err := erm.Open(src, e.Bounds())
	if err != nil {
		return nil, errors.Join(err, end())
	}
	return &records{&table.Data{Records: data, Encoder: e}, end}, nil
}
