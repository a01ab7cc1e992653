// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package beam

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/gcs" // the SDK links it anyway
)

// InStore reports whether a name is that of an object in a store, such as gs://bucket/name, and no
// file. The file systems of Beam's SDK that a program imports read objects; this package imports
// that of gs://, and that of s3:// is github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/s3.
func InStore(name string) bool { return strings.Contains(name, "://") }

// object is an object in a store, as it was found.
type object struct {
	name     string
	store    filesystem.Interface
	size     int64
	modified time.Time // zero if the store does not say
	read     int64     // bytes so far
}

// find looks an object up.
func find(ctx context.Context, name string) (o *object, err error) {
	defer func() {
		if recover() != nil { // by Beam, without credentials
			o, err = nil, fmt.Errorf("%s: the store cannot be opened: want credentials for it", name)
		}
	}()
	store, err := filesystem.New(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrOptions, name, err)
	}
	o = &object{name: name, store: store}
	if o.size, err = store.Size(ctx, name); err == nil {
		if s, ok := store.(filesystem.LastModifiedGetter); ok {
			o.modified, err = s.LastModified(ctx, name)
		}
	}
	if err != nil {
		store.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return o, nil
}

// open opens the object. Its reads are counted.
func (o *object) open(ctx context.Context) (io.Reader, io.Closer, error) {
	r, err := o.store.OpenRead(ctx, o.name)
	return io.TeeReader(r, counting{&o.read}), r, err
}

// counting counts the bytes that are written to it.
type counting struct{ n *int64 }

func (c counting) Write(b []byte) (int, error) { *c.n += int64(len(b)); return len(b), nil }

// unchanged returns an error if the object is another one by now, or was not read to its end.
func (o *object) unchanged(ctx context.Context) error {
	now, err := find(ctx, o.name)
	if err != nil {
		return err
	}
	defer now.store.Close()
	if o.read != o.size || now.size != o.size || !now.modified.Equal(o.modified) {
		return errChanged
	}
	return nil
}
