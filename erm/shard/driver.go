package shard

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/privopt/privopt/erm"
)

// Options of a Driver.
type Options struct {
	// Shards is the number of workers, at least 1.
	Shards int
	// Data tells records and their orders apart, such as npy.File.Checksum: workers with other Data are refused. Leave
	// it empty only if all workers surely have the same records in the same order, for package erm notices
	// records that change between passes, not those that were others from the start: one that is in the
	// parts of two workers counts twice, and the guarantee does not hold.
	Data string
	// Wait is how long the sums of a pass may take, 0 for one hour.
	Wait time.Duration
}

// Driver is an erm.Remote: its records are added up by workers. It prints as its folder.
type Driver struct {
	src     erm.Source
	folder  string
	wait    time.Duration
	created bool // the folder

	mu   sync.Mutex
	task task
	err  error // of a pass: no other one is made
}

var _ erm.Remote = (*Driver)(nil)

// NewDriver begins a fit to the records of src in a folder, which it makes if it does not exist, and waits for
// all workers. The folder must not be in use, and be for this user only.
func NewDriver(ctx context.Context, folder string, src erm.Source, o Options) (*Driver, error) {
	if src == nil {
		return nil, errors.New("shard: the source is nil")
	}
	if o.Shards < 1 || o.Wait < 0 {
		return nil, fmt.Errorf("shard: Shards = %d, Wait = %v, want at least 1 and 0", o.Shards, o.Wait)
	}
	id := make([]byte, 16)
	rand.Read(id) // never fails
	n, d := src.Dims()
	v := &Driver{src: src, folder: folder, wait: cmp.Or(o.Wait, time.Hour), task: task{
		Version: version, Fit: hex.EncodeToString(id), Shards: o.Shards, Records: n, Features: d, Data: o.Data,
	}}
	if err := v.claim(); err != nil {
		return nil, err
	}
	if _, err := v.ask(ctx); err != nil {
		return nil, errors.Join(err, v.Close())
	}
	return v, nil
}

// claim makes the folder this driver's.
func (v *Driver) claim() error {
	err := os.Mkdir(v.folder, 0o700)
	v.created = err == nil
	if err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("shard: %w", err)
	}
	info, err := os.Stat(v.folder)
	switch {
	case err != nil:
		return fmt.Errorf("shard: %w", err)
	case !info.IsDir():
		return fmt.Errorf("shard: %s is no folder", v.folder)
	case info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows":
		return fmt.Errorf("shard: the folder %s is open to other users, with mode %#o: it is to hold secrets, want 0700",
			v.folder, info.Mode().Perm())
	}
	f, err := os.OpenFile(filepath.Join(v.folder, driverName), os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%w: %s belongs to another fit, or to one that was killed: take another folder, or delete it", ErrShard, v.folder)
	} else if err != nil {
		return fmt.Errorf("shard: %w", err)
	}
	f.Close()
	if files, err := v.files(); err != nil || len(files) > 0 {
		os.Remove(f.Name())
		return errors.Join(err, fmt.Errorf("%w: %s holds %s of another fit, want a new folder", ErrShard, v.folder, strings.Join(files, ", ")))
	}
	return nil
}

// files returns the names of the task and of answers, and of those that a killed process did not finish.
func (v *Driver) files() (names []string, err error) {
	entries, err := os.ReadDir(v.folder)
	if err != nil {
		return nil, fmt.Errorf("shard: %w", err)
	}
	for _, e := range entries {
		if name := e.Name(); name == taskName || strings.HasSuffix(name, sumsSuffix) || unfinished.MatchString(name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// unfinished are the names that write gives to files that are not whole.
var unfinished = regexp.MustCompile(`^\.(task|.*\.sums)\.[0-9]+$`)

// Close deletes what the driver and the workers wrote. Workers then end.
func (v *Driver) Close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.err == errClosed {
		return nil
	}
	v.err = errClosed
	names, err := v.files()
	errs := []error{err}
	for _, name := range append(names, driverName) {
		if err := os.Remove(filepath.Join(v.folder, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if v.created {
		os.Remove(v.folder) // stays if somebody else put files there
	}
	return errors.Join(errs...)
}

var errClosed = errors.New("shard: the driver is closed")

// Format implements fmt.Formatter: a Driver prints as its folder.
func (v *Driver) Format(s fmt.State, _ rune) { fmt.Fprintf(s, "shard.Driver(%s)", v.folder) }

// Dims returns the dimensions of the source.
func (v *Driver) Dims() (records, features int) { return v.src.Dims() }

// Read reads from the source, here.
func (v *Driver) Read(ctx context.Context, rows, labels []float64, first int) error {
	return v.src.Read(ctx, rows, labels, first)
}

// Sum asks the workers. After an error there are no other passes.
func (v *Driver) Sum(ctx context.Context, q *erm.Query) (*erm.Sums, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.err != nil {
		return nil, v.err
	}
	sums := new(erm.Sums)
	v.err = func() (err error) {
		if v.task.Query, err = q.MarshalBinary(); err != nil {
			return err
		}
		v.task.Pass++
		a, err := v.ask(ctx)
		if err != nil {
			return err
		}
		return sums.UnmarshalBinary(a.Sums)
	}()
	if v.err != nil {
		return nil, v.err
	}
	return sums, nil
}

// ask writes the task, waits for the answers of all shards, and removes task and answers.
func (v *Driver) ask(ctx context.Context) (*answer, error) {
	id, err := write(filepath.Join(v.folder, taskName), &v.task)
	if err != nil {
		return nil, err
	}
	v.task.id = id
	var all *answer
	seen := map[string]bool{}
	for start := time.Now(); ; {
		names, err := v.files()
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if name == taskName || name[0] == '.' || seen[name] {
				continue
			}
			seen[name] = true
			if all, err = v.take(all, name); err != nil {
				return nil, err
			}
		}
		if all != nil && len(all.Have) == v.task.Shards {
			break
		}
		waited := time.Since(start)
		if waited > v.wait {
			return nil, fmt.Errorf("%w: no answer of shards %v of %d within %v", ErrShard, v.missing(all), v.task.Shards, v.wait)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause(waited)):
		}
	}
	seen[taskName] = true // a worker that starts again does not answer it twice
	for name := range seen {
		if err := os.Remove(filepath.Join(v.folder, name)); err != nil && !errors.Is(err, os.ErrNotExist) { // a worker may be faster
			return nil, fmt.Errorf("shard: %w", err)
		}
	}
	return all, nil
}

// take adds the answer in a file.
func (v *Driver) take(all *answer, name string) (*answer, error) {
	path := filepath.Join(v.folder, name)
	a, err := readAnswer(path)
	if err != nil {
		return nil, err
	}
	switch {
	case a.Task != v.task.id:
		err = fmt.Errorf("it answers another task than that of pass %d; does one worker serve each shard?", v.task.Pass)
	case a.Error != "":
		err = fmt.Errorf("shard %d of %d failed: %s", a.Have[0], a.Shards, a.Error)
	case a.Shards != v.task.Shards || (a.Sums == nil) != (v.task.Pass == 0):
		err = errors.New("it is no answer to its task")
	default:
		all, err = merge(all, a)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrShard, path, err)
	}
	return all, nil
}

func (v *Driver) missing(all *answer) (shards []int) {
	for i := 1; i <= v.task.Shards; i++ {
		if all == nil || !slices.Contains(all.Have, i) {
			shards = append(shards, i)
		}
	}
	return shards
}
