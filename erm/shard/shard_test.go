package shard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/erm/ermtest"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
)

// memory is a Source of random records.
type memory struct {
	n, d int
	x    []float64
}

func newMemory(n, d int, seed uint64) *memory {
	rnd := rand.New(rand.NewPCG(seed, 1))
	m := &memory{n, d, make([]float64, n*(d+1))}
	for k := range m.x {
		m.x[k] = rnd.NormFloat64()
	}
	return m
}

func (m *memory) Dims() (records, features int) { return m.n, m.d }

func (m *memory) Read(ctx context.Context, rows, labels []float64, first int) error {
	if first < 0 || first > m.n || len(labels) > m.n-first {
		return errors.New("no such records")
	}
	copy(rows, m.x[first*m.d:(first+len(labels))*m.d])
	copy(labels, m.x[m.n*m.d+first:])
	return ctx.Err()
}

var bounds = loss.Bounds{Row: 1, Label: 1}

// serve runs workers of a folder until the test ends, and returns their errors then.
func serve(t *testing.T, folder string, src erm.Source, k int) (wait func() []error) {
	var group sync.WaitGroup
	errs := make([]error, k)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	for i := range k {
		group.Go(func() {
			errs[i] = (&Worker{Folder: folder, Shard: i + 1, Shards: k, Source: src, Threads: 1}).Serve(ctx)
		})
	}
	return func() []error { group.Wait(); cancel(); return errs }
}

func TestRange(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n, k := rapid.IntRange(0, 100*erm.Chunk).Draw(r, "n"), rapid.IntRange(1, 120).Draw(r, "k")
		next, least, most := 0, n, 0
		for i := 1; i <= k; i++ {
			first, count := Range(n, i, k)
			if count == 0 {
				continue
			}
			require.Equal(t, next, first)
			require.Zero(t, first%erm.Chunk)
			next, least, most = first+count, min(least, count), max(most, count)
		}
		require.Equal(t, n, next)
		if n >= k*erm.Chunk {
			require.LessOrEqual(t, most-least, 2*erm.Chunk)
		}
	})
	require.PanicsWithValue(t, "shard: Range of a shard that does not exist", func() { Range(10, 3, 2) })
}

// Sums of workers are those of one process, bit by bit, and the folder is empty afterwards.
func TestShards(t *testing.T) {
	src := newMemory(3*erm.Chunk+100, 3, 1)
	for _, k := range []int{1, 2, 3, 7} {
		folder := filepath.Join(t.TempDir(), "cluster")
		wait := serve(t, folder, src, k)
		d, err := NewDriver(t.Context(), folder, src, Options{Shards: k})
		require.NoError(t, err)
		info, err := os.Stat(folder)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
		require.NoFileExists(t, filepath.Join(folder, taskName), "a query stays for a pass only")
		ermtest.CheckSource(t, d)
		fit := func(s erm.Source) []float64 {
			data, err := erm.Open(s, bounds)
			require.NoError(t, err)
			p := &erm.Problem{Data: data, Loss: loss.Logistic{}}
			rel, err := (&lop.Mechanism{Radius: 5}).Fit(t.Context(), p, dp.Budget{Epsilon: 1, Delta: 1e-6}, rand.NewPCG(1, 2))
			require.NoError(t, err)
			return rel.Theta
		}
		require.Equal(t, fit(src), fit(d))
		require.Equal(t, "shard.Driver("+folder+")", fmt.Sprintf("%+v", d))
		require.NoError(t, d.Close())
		for _, err := range wait() {
			require.NoError(t, err)
		}
		_, err = os.Stat(folder)
		require.ErrorIs(t, err, os.ErrNotExist)
		_, err = d.Sum(t.Context(), nil)
		require.ErrorIs(t, err, errClosed)
	}
}

// answers makes the answers of all workers to the task in a folder.
func answers(t *testing.T, folder string, src erm.Source, k int) *task {
	now, err := readTask(folder)
	require.NoError(t, err)
	for i := 1; i <= k; i++ {
		w := &Worker{Folder: folder, Shard: i, Shards: k, Threads: 1}
		require.NoError(t, w.sum(t.Context(), now, src))
	}
	return now
}

// attack runs a pass with two shards, whose answers are given to change.
func attack(t *testing.T, change func(file func(name string) string)) error {
	src := newMemory(2*erm.Chunk, 2, 1)
	folder := filepath.Join(t.TempDir(), "cluster")
	done := make(chan error)
	var d *Driver
	go func() {
		var err error
		d, err = NewDriver(t.Context(), folder, src, Options{Shards: 2, Wait: time.Minute})
		done <- err
	}()
	hidden := filepath.Join(t.TempDir(), "hidden")
	require.NoError(t, os.Mkdir(hidden, 0o700))
	await := func(pass int) {
		require.Eventually(t, func() bool { now, err := readTask(folder); return err == nil && now.Pass == pass }, time.Minute, time.Millisecond)
	}
	await(0)
	info, err := os.Stat(filepath.Join(folder, taskName))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	answers(t, folder, src, 2)
	require.NoError(t, <-done)
	defer d.Close()
	data, err := erm.Open(d, bounds)
	require.NoError(t, err)
	o := (&erm.Problem{Data: data, Loss: loss.Logistic{}}).Perturb(erm.Perturbation{})
	go func() {
		o.Grad(make([]float64, 2), []float64{1, 2})
		o.Grad(make([]float64, 2), []float64{2, 2})
		done <- o.Err()
	}()
	await(1)
	keep := func(name string) { // the answers to the first pass
		b, err := os.ReadFile(filepath.Join(folder, taskName))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(hidden, name), b, 0o600))
		answers(t, hidden, src, 2)
		require.NoError(t, os.Rename(filepath.Join(hidden, sumsName(1, 2)), filepath.Join(hidden, "old1")))
		require.NoError(t, os.Rename(filepath.Join(hidden, sumsName(2, 2)), filepath.Join(hidden, "old2")))
	}
	keep(taskName)
	answers(t, folder, src, 2)
	await(2)
	b, err := os.ReadFile(filepath.Join(folder, taskName))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(hidden, taskName), b, 0o600))
	answers(t, hidden, src, 2)
	change(func(name string) string { return filepath.Join(hidden, name) })
	// Files appear in the folder at once, in the order of their names.
	entries, err := os.ReadDir(hidden)
	require.NoError(t, err)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), sumsSuffix) {
			require.NoError(t, os.Rename(filepath.Join(hidden, e.Name()), filepath.Join(folder, e.Name())))
		}
	}
	return <-done
}

// Sums that are not those of the pass are errors, and no release.
func TestAttacks(t *testing.T) {
	one, two := sumsName(1, 2), sumsName(2, 2)
	require.NoError(t, attack(t, func(func(string) string) {}))
	edit := func(path string, f func(a *answer)) {
		var a answer
		_, err := read(path, &a)
		require.NoError(t, err)
		f(&a)
		save(t, path, &a)
	}
	for want, change := range map[string]func(file func(string) string){
		"both have shard 1": func(file func(string) string) { // under another name
			require.NoError(t, os.Remove(file(two)))
			b, err := os.ReadFile(file(one))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(file("2.sums"), b, 0o600))
		},
		"merged file": nil,
		"answers another task than that of pass 2": func(file func(string) string) { require.NoError(t, os.Rename(file("old1"), file(one))) },
		"1-of-2.sums does not have its checksum":   func(file func(string) string) { require.NoError(t, os.Truncate(file(one), 300)) },
		"2-of-2.sums does not have its checksum": func(file func(string) string) {
			b, err := os.ReadFile(file(two))
			require.NoError(t, err)
			b[200] ^= 1
			require.NoError(t, os.WriteFile(file(two), b, 0o600))
		},
		"of a Query or of Sums": func(file func(string) string) {
			edit(file(one), func(a *answer) { a.Sums[100] ^= 1 })
		},
		"answer different queries": func(file func(string) string) { // with the right label
			var old answer
			_, err := read(file("old1"), &old)
			require.NoError(t, err)
			edit(file(one), func(a *answer) { a.Sums = old.Sums })
		},
		"counted twice": func(file func(string) string) { // with the label of the other shard
			var other answer
			_, err := read(file(one), &other)
			require.NoError(t, err)
			edit(file(two), func(a *answer) { a.Sums = other.Sums })
		},
		"it is no answer": func(file func(string) string) {
			edit(file(one), func(a *answer) { a.Sums = nil })
		},
		"shard 3 of 2":             func(file func(string) string) { edit(file(one), func(a *answer) { a.Have = []int{1, 3} }) },
		"names no shard":           func(file func(string) string) { edit(file(one), func(a *answer) { a.Have = nil }) },
		"version 2":                func(file func(string) string) { edit(file(one), func(a *answer) { a.Version = 2 }) },
		"failed: no disk":          func(file func(string) string) { edit(file(one), func(a *answer) { a.Error = "no disk" }) },
		"unknown field":            func(file func(string) string) { save(t, file(one), map[string]int{"x": 1}) },
		"cannot unmarshal":         func(file func(string) string) { save(t, file(one), []int{1}) },
		"2.sums: both have shard ": func(file func(string) string) { require.NoError(t, Merge(file("merged.2.sums"), file(one), file(two))) },
	} {
		if change == nil {
			require.NoError(t, attack(t, func(file func(string) string) {
				require.NoError(t, Merge(file("merged.sums"), file(two), file(one)))
				require.NoError(t, errors.Join(os.Remove(file(one)), os.Remove(file(two))))
			}))
			continue
		}
		err := attack(t, change)
		require.ErrorIs(t, err, erm.ErrSource, want)
		require.ErrorContains(t, err, want)
	}
}

func save(t *testing.T, path string, v any) {
	t.Helper()
	_, err := write(path, v)
	require.NoError(t, err)
}

// What Merge refuses.
func TestMerge(t *testing.T) {
	dir := t.TempDir()
	src := newMemory(3*erm.Chunk, 2, 1)
	at := func(name string) string { return filepath.Join(dir, name) }
	save(t, at(taskName), &task{Version: version, Shards: 3, Records: 3 * erm.Chunk, Features: 2})
	answers(t, dir, src, 3)
	require.NoError(t, Merge(at("a"), at(sumsName(3, 3))))
	require.NoError(t, Merge(at("b"), at("a"), at(sumsName(1, 3))))
	b, err := readAnswer(at("b"))
	require.NoError(t, err)
	require.Equal(t, []int{1, 3}, b.Have)
	require.ErrorContains(t, Merge(at("c"), at("b"), at("a")), "both have shard 3 of 3")
	require.ErrorContains(t, Merge(at("c")), "no file")
	require.ErrorContains(t, Merge(at("c"), at(taskName)), "unknown field")
	save(t, at(taskName), &task{Version: version, Shards: 3, Pass: 0, Fit: "x", Records: 3 * erm.Chunk, Features: 2})
	answers(t, dir, src, 2+1)
	require.ErrorContains(t, Merge(at("c"), at("b"), at(sumsName(2, 3))), "different tasks")
	require.NoFileExists(t, at("c"))
}

// A driver and its workers have to agree, before a fit begins.
func TestGreeting(t *testing.T) {
	src := newMemory(2*erm.Chunk, 2, 1)
	start := func(o Options, w Worker) error {
		w.Folder = filepath.Join(t.TempDir(), "cluster")
		ctx, cancel := context.WithCancel(t.Context())
		worker := make(chan error)
		go func() { worker <- w.Serve(ctx) }()
		d, err := NewDriver(t.Context(), w.Folder, src, o)
		require.Nil(t, d)
		_, gone := os.Stat(w.Folder)
		require.ErrorIs(t, gone, os.ErrNotExist, "nothing is left")
		cancel()
		require.Error(t, <-worker)
		return err
	}
	ok := Options{Shards: 1, Data: "a"}
	broken := errors.New("broken")
	require.ErrorContains(t, start(ok, Worker{Shard: 1, Shards: 2, Source: src, Data: "a"}), "the driver wants 1 shards")
	require.ErrorContains(t, start(ok, Worker{Shard: 1, Shards: 1, Source: src, Data: "b"}), "does not have the records of the driver")
	other := newMemory(8192, 2, 1)
	require.ErrorContains(t, start(ok, Worker{Shard: 1, Shards: 1, Source: other, Data: "a"}), "does not have the records of the driver")
	require.ErrorContains(t, start(ok, Worker{Shard: 1, Shards: 1, Open: func(int) (erm.Source, error) { return nil, broken }}), "broken")
	require.ErrorContains(t, (&Worker{Shard: 1, Shards: 1}).Serve(t.Context()), "Source and Open are nil")
	for _, w := range []Worker{{}, {Shard: 2, Shards: 1}, {Shard: 0, Shards: 1}} {
		w.Source = src
		require.ErrorContains(t, w.Serve(t.Context()), "want 1 to Shards")
	}
	_, err := NewDriver(t.Context(), t.TempDir(), src, Options{})
	require.ErrorContains(t, err, "Shards = 0")
	_, err = NewDriver(t.Context(), t.TempDir(), nil, ok)
	require.ErrorContains(t, err, "the source is nil")

	// Folders that are in use, open, or no folders.
	refused := func(prepare func(dir string), want string) {
		dir := filepath.Join(t.TempDir(), "x")
		require.NoError(t, os.Mkdir(dir, 0o700))
		prepare(dir)
		_, err := NewDriver(t.Context(), dir, src, ok)
		require.ErrorContains(t, err, want)
	}
	refused(func(dir string) { require.NoError(t, os.Chmod(dir, 0o750)) }, "open to other users, with mode 0750")
	put := func(name string) func(dir string) {
		return func(dir string) { require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600)) }
	}
	refused(put(driverName), "belongs to another fit")
	refused(put(sumsName(1, 1)), "holds 1-of-1.sums of another fit")
	refused(put(taskName), "holds task of another fit")
	refused(put(".task.123"), "holds .task.123 of another fit")
	refused(func(dir string) {
		require.NoError(t, os.Remove(dir))
		require.NoError(t, os.WriteFile(dir, nil, 0o600))
	}, "is no folder")

	// A driver that is cancelled while it waits leaves nothing.
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	dir := filepath.Join(t.TempDir(), "x")
	_, err = NewDriver(ctx, dir, src, ok)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoDirExists(t, dir)
	_, err = NewDriver(t.Context(), dir, src, Options{Shards: 2, Wait: 50 * time.Millisecond})
	require.ErrorContains(t, err, "no answer of shards [1 2] of 2")
}

// What a killed worker did not finish is deleted, and a worker that comes too late leaves nothing, in a folder that stays.
func TestLeftovers(t *testing.T) {
	src := newMemory(2*erm.Chunk, 2, 1)
	folder := filepath.Join(t.TempDir(), "cluster")
	require.NoError(t, os.Mkdir(folder, 0o700))
	wait := serve(t, folder, src, 1)
	d, err := NewDriver(t.Context(), folder, src, Options{Shards: 1})
	require.NoError(t, err)
	save(t, filepath.Join(folder, taskName), &task{Version: version, Shards: 1, Records: 2 * erm.Chunk, Features: 2})
	now, err := readTask(folder)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, ".1-of-1.sums.123"), nil, 0o600))
	require.NoError(t, d.Close())
	require.NoError(t, wait()[0])
	require.NoError(t, (&Worker{Folder: folder, Shard: 1, Shards: 1}).sum(t.Context(), now, src))
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, entries)
}

// A worker that is killed and started again goes on, and another fit ends workers.
func TestRestart(t *testing.T) {
	src := newMemory(2*erm.Chunk, 2, 1)
	folder := filepath.Join(t.TempDir(), "cluster")
	ctx, kill := context.WithCancel(t.Context())
	work := func(ctx context.Context) (done chan error) {
		done = make(chan error, 1)
		w := &Worker{Folder: folder, Shard: 1, Shards: 1, Source: src}
		go func() { done <- w.Serve(ctx) }()
		return done
	}
	first := work(ctx)
	d, err := NewDriver(t.Context(), folder, src, Options{Shards: 1})
	require.NoError(t, err)
	kill()
	require.ErrorIs(t, <-first, context.Canceled)
	second := work(t.Context())
	data, err := erm.Open(d, bounds)
	require.NoError(t, err)
	o := (&erm.Problem{Data: data, Loss: loss.Logistic{}}).Perturb(erm.Perturbation{})
	o.Grad(make([]float64, 2), []float64{1, 2})
	require.NoError(t, o.Err())
	require.NoError(t, d.Close())
	require.NoError(t, d.Close())
	require.NoError(t, <-second)
}

// The files say nothing in the clear that is not needed, and JSON of another form is refused.
func FuzzAnswer(f *testing.F) {
	text, err := json.Marshal(answer{Version: 1, Shards: 2, Have: []int{1}})
	require.NoError(f, err)
	f.Add(string(text))
	f.Add(`{"sums":1,"have":[0]}`)
	f.Fuzz(func(t *testing.T, body string) {
		path := filepath.Join(t.TempDir(), "x")
		var raw json.RawMessage
		if json.Unmarshal([]byte(body), &raw) != nil {
			return
		}
		save(t, path, raw)
		a, err := readAnswer(path)
		if err != nil {
			return
		}
		require.Subset(t, seq(a.Shards), a.Have)
		b := *a
		_, err = merge(a, &b)
		require.Error(t, err, "the same shards twice")
	})
}

func seq(n int) (out []int) {
	for i := 1; i <= min(n, 1000); i++ {
		out = append(out, i)
	}
	return out
}
