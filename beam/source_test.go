// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package beam

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	sdk "github.com/apache/beam/sdks/v2/go/pkg/beam"
	//lint:ignore SA1019 deprecated for programs, but it runs everything in one bundle, unlike prism
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/direct"
	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/erm/ermtest"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/table/npy"
)

func TestMain(m *testing.M) {
	// The runner leaves an empty file in the temporary folder for every job.
	temp, err := os.MkdirTemp("", "beam")
	if err != nil {
		panic(err)
	}
	os.Setenv("TMPDIR", temp)
	gob.Register(faulty{})
	sdk.Init()
	slog.SetDefault(slog.New(slog.DiscardHandler))
	code := m.Run()
	os.RemoveAll(temp)
	os.Exit(code)
}

var (
	bounds  = loss.Bounds{Row: 1, Label: 1}
	budget  = dp.Budget{Epsilon: 1, Delta: 1e-6}
	runners = []string{"direct", "prism"}
)

// randomTable returns n random records of d features.
func randomTable(n, d int) (rows [][]float64, labels []float64) {
	rnd := rand.New(rand.NewPCG(7, uint64(n)))
	for range n {
		row := make([]float64, d)
		for j := range row {
			row[j] = rnd.NormFloat64() / math.Sqrt(float64(d))
		}
		rows = append(rows, row)
		labels = append(labels, float64(2*rnd.IntN(2)-1))
	}
	return rows, labels
}

// memory returns n records in memory, and the same records as a table in the order of the data.
func memory(t testing.TB, n, d int) (data *erm.Data, rows [][]float64, labels []float64) {
	t.Helper()
	rows, labels = randomTable(n, d)
	data, err := erm.NewData(rows, labels, bounds)
	require.NoError(t, err)
	for i := range rows {
		rows[i], labels[i] = data.Row(i), data.Label(i)
	}
	return data, rows, labels
}

// pack writes records to a .npy file and returns its path.
func pack(t testing.TB, path string, rows [][]float64, labels []float64) string {
	t.Helper()
	var columns []string
	for j := range len(rows[0]) {
		columns = append(columns, fmt.Sprintf("x%d", j))
	}
	w, err := npy.Create(path, append(columns, "y"), npy.Options{})
	require.NoError(t, err)
	for i, row := range rows {
		require.NoError(t, w.Append(row, labels[i]))
	}
	require.NoError(t, w.Commit())
	return path
}

// cluster returns a Source, and checks at the end of the test that its scratch folder is empty.
func cluster(t testing.TB, o Options, paths ...string) *Source {
	t.Helper()
	if o.Scratch == "" {
		o.Scratch = t.TempDir()
	}
	s, err := NewSource(t.Context(), paths, o)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		left, err := os.ReadDir(o.Scratch)
		require.NoError(t, err)
		require.Empty(t, left, "secret files were left")
	})
	return s
}

// fit releases a logistic model. It always draws the same noise.
func fit(t testing.TB, data *erm.Data, l loss.Loss) (*dp.Release, error) {
	t.Helper()
	p := &erm.Problem{Data: data, Loss: l, Reg: prox.L1{Weight: 0.5}, Set: prox.Box{Lo: -3, Hi: 3}}
	return (&lop.Mechanism{}).Fit(t.Context(), p, budget, noise.Reproducible(3))
}

func opened(t testing.TB, src erm.Source) *erm.Data {
	t.Helper()
	data, err := erm.Open(src, bounds)
	require.NoError(t, err)
	return data
}

// TestFitSameBits checks that records in memory, in a file and on the cluster give releases with
// the same bits, for any number of shards and any division into files.
func TestFitSameBits(t *testing.T) {
	const n, d = 64*erm.Chunk + 1000, 4
	data, rows, labels := memory(t, n, d)
	want, err := fit(t, data, loss.Logistic{})
	require.NoError(t, err)
	require.NotContains(t, want.Certificate.Assumptions, erm.TrustedCluster)

	dir := t.TempDir()
	path := pack(t, filepath.Join(dir, "all.npy"), rows, labels)
	file, err := npy.Open(path)
	require.NoError(t, err)
	defer file.Close()
	local, err := fit(t, opened(t, file), loss.Logistic{})
	require.NoError(t, err)
	require.Equal(t, want.Theta, local.Theta)

	cut := n/3 + 1
	parts := []string{
		pack(t, filepath.Join(dir, "0.npy"), rows[:cut], labels[:cut]),
		pack(t, filepath.Join(dir, "1.npy"), rows[cut:], labels[cut:]),
	}
	check := func(t *testing.T, s *Source) {
		m := &meddler{Source: s}
		got, err := fit(t, opened(t, m), loss.Logistic{})
		require.NoError(t, err)
		require.LessOrEqual(t, m.jobs, 6)
		require.Equal(t, want.Theta, got.Theta)
		require.Contains(t, got.Certificate.Assumptions, erm.TrustedCluster)
		got.Certificate.Assumptions, local.Certificate.Assumptions = nil, nil
		require.Equal(t, local.Certificate, got.Certificate)
	}
	for _, runner := range runners {
		for _, shards := range []int{1, 7, 64} {
			t.Run(fmt.Sprintf("runner=%s/shards=%d", runner, shards), func(t *testing.T) {
				check(t, cluster(t, Options{Runner: runner, Shards: shards}, path))
			})
		}
		t.Run(fmt.Sprintf("runner=%s/two files", runner), func(t *testing.T) {
			check(t, cluster(t, Options{Runner: runner, Shards: 5}, parts...))
		})
	}
	t.Run("parquet", func(t *testing.T) {
		type record struct {
			Label      float64
			A, B, C, D float64
		}
		all := make([]record, n)
		for i, r := range rows {
			all[i] = record{labels[i], r[0], r[1], r[2], r[3]}
		}
		parts := []string{filepath.Join(dir, "0.parquet"), filepath.Join(dir, "1.parquet")}
		require.NoError(t, parquet.WriteFile(parts[0], all[:cut], parquet.MaxRowsPerRowGroup(50000)))
		require.NoError(t, parquet.WriteFile(parts[1], all[cut:]))
		check(t, cluster(t, Options{Shards: 5, Label: "Label"}, parts...))
	})
}

func TestCheckSource(t *testing.T) {
	rows, labels := randomTable(3*erm.Chunk+5, 2)
	path := pack(t, filepath.Join(t.TempDir(), "all.npy"), rows, labels)
	for _, runner := range runners {
		for _, shards := range []int{0, 3} {
			ermtest.CheckSource(t, cluster(t, Options{Runner: runner, Shards: shards, Threads: 1}, path))
		}
	}
}

// TestFitNaN checks that NaN in a file counts as 0, as package erm documents.
func TestFitNaN(t *testing.T) {
	rows, labels := randomTable(20000, 3)
	rows[5][1], rows[19999][0], labels[100] = math.NaN(), math.NaN(), math.NaN()
	nans := opened(t, cluster(t, Options{Shards: 2}, pack(t, filepath.Join(t.TempDir(), "nan.npy"), rows, labels)))
	rows[5][1], rows[19999][0], labels[100] = 0, 0, 0
	file, err := npy.Open(pack(t, filepath.Join(t.TempDir(), "zero.npy"), rows, labels))
	require.NoError(t, err)
	defer file.Close()

	want, err := fit(t, opened(t, file), loss.Logistic{})
	require.NoError(t, err)
	got, err := fit(t, nans, loss.Logistic{})
	require.NoError(t, err)
	require.Equal(t, want.Theta, got.Theta)
}

// faulty is a logistic loss that panics on the workers, with values of a record in the message. The
// variable panics is the number of panics to come.
type faulty struct{ loss.Logistic }

var (
	armed  atomic.Bool
	panics atomic.Int64
)

func (f faulty) fail(u, b float64) {
	if armed.Load() && panics.Add(-1) >= 0 {
		panic(fmt.Sprint("label ", b, " prediction ", u))
	}
}

func (f faulty) Scalar(u, b, norm float64) (phi, slope, curve float64) {
	f.fail(u, b)
	return f.Logistic.Scalar(u, b, norm)
}

func (f faulty) Slopes(u, b, curve []float64) {
	f.fail(u[0], b[0])
	f.Logistic.Slopes(u, b, curve)
}

// meddler is a Source that calls a function before each job.
type meddler struct {
	*Source
	before func(job int) error
	jobs   int
}

func (m *meddler) Sum(ctx context.Context, q *erm.Query) (*erm.Sums, error) {
	if m.jobs++; m.before != nil {
		if err := m.before(m.jobs); err != nil {
			return nil, err
		}
	}
	return m.Source.Sum(ctx, q)
}

func TestFitPanic(t *testing.T) {
	defer armed.Store(false)
	rows, labels := randomTable(30000, 3)
	path := pack(t, filepath.Join(t.TempDir(), "all.npy"), rows, labels)
	for _, runner := range runners {
		t.Run(runner, func(t *testing.T) {
			armed.Store(false)
			want, err := fit(t, opened(t, cluster(t, Options{Runner: runner, Shards: 3}, path)), faulty{})
			require.NoError(t, err)

			m := &meddler{Source: cluster(t, Options{Runner: runner, Shards: 3, Threads: 1}, path), before: func(int) error {
				armed.Store(true)
				return nil
			}}
			panics.Store(2)
			got, err := fit(t, opened(t, m), faulty{})
			require.NoError(t, err, "the third job must succeed after two failures")
			require.Equal(t, want.Theta, got.Theta)
			require.Negative(t, panics.Load())

			panics.Store(1 << 40)
			got, err = fit(t, opened(t, m), faulty{})
			require.Nil(t, got)
			require.ErrorIs(t, err, erm.ErrSource)
			require.ErrorContains(t, err, "the job failed 3 times")
			require.ErrorContains(t, err, "panicked")
			require.NotContains(t, err.Error(), "prediction")
		})
	}
}

// query returns the query for the loss and its gradient at a point.
func query(t testing.TB, s *Source) *erm.Query {
	t.Helper()
	c := &catcher{Source: s}
	p := &erm.Problem{Data: opened(t, c), Loss: loss.Logistic{}}
	_, d := s.Dims()
	x := make([]float64, d)
	for j := range x {
		x[j] = math.Sin(float64(j + 1))
	}
	p.Perturb(erm.Perturbation{}).FuncGrad(make([]float64, d), x)
	require.NotNil(t, c.query)
	return c.query
}

func marshalled(t testing.TB, q *erm.Query) []byte {
	t.Helper()
	b, err := q.MarshalBinary()
	require.NoError(t, err)
	return b
}

// catcher is a Source that keeps a query and answers with an error.
type catcher struct {
	*Source
	query *erm.Query
}

func (c *catcher) Sum(_ context.Context, q *erm.Query) (*erm.Sums, error) {
	c.query = q
	return nil, errors.New("caught")
}

// TestShards checks that a pass gives an error, not a result, if a shard is summed twice or not at
// all. It tests the first pass, in which no earlier pass can be compared.
func TestShards(t *testing.T) {
	rows, labels := randomTable(30000, 3)
	path := pack(t, filepath.Join(t.TempDir(), "all.npy"), rows, labels)
	for _, runner := range runners {
		s := cluster(t, Options{Runner: runner, Shards: 3}, path)
		q := query(t, s)
		for _, c := range []struct {
			shards []int
			want   string
		}{
			{[]int{0, 1, 2, 1}, "a shard was added twice"},
			{[]int{0, 2}, "shard 1 is missing"},
			{[]int{2, 0, 1}, ""},
			{[]int{0, 1, 2, 3}, "there are 3 shards"},
		} {
			t.Run(fmt.Sprint(runner, c.shards), func(t *testing.T) {
				p, err := newPass(s, marshalled(t, q))
				require.NoError(t, err)
				defer p.remove()
				_, err = sdk.Run(t.Context(), runner, pipeline(p.ticket, c.shards))
				if err == nil {
					_, err = p.result()
				}
				if c.want == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, c.want)
				}
			})
		}
	}
}

// TestFitChanged checks that nothing is released if a file changes between two passes.
func TestFitChanged(t *testing.T) {
	const n = 40000
	rows, labels := randomTable(n, 3)
	other := append([][]float64(nil), rows...)
	other[77] = []float64{0.1, 0.2, 0.3}
	for _, c := range []struct {
		name   string
		change func(t *testing.T, path string)
		want   string
	}{
		{"a record", func(t *testing.T, path string) { pack(t, path, other, labels) }, "the checksum of"},
		{"a label", func(t *testing.T, path string) {
			changed := append([]float64(nil), labels...)
			changed[5] = -changed[5]
			pack(t, path, rows, changed)
		}, "the checksum of"},
		{"twice the same", func(t *testing.T, path string) {
			pack(t, path, slices.Concat(rows[:n-1], rows[:1]), slices.Concat(labels[:n-1], labels[:1]))
		}, "the checksum of"},
		{"one less", func(t *testing.T, path string) { pack(t, path, rows[1:], labels[1:]) }, "the checksum of"},
		{"truncated", func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 5000)) }, "cut off"},
		{"a bit", func(t *testing.T, path string) {
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			b[len(b)/2] ^= 1
			require.NoError(t, os.WriteFile(path, b, 0o600))
		}, "checksum"},
		{"gone", func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) }, "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := pack(t, filepath.Join(t.TempDir(), "all.npy"), rows, labels)
			m := &meddler{Source: cluster(t, Options{Runner: "direct", Shards: 4}, path), before: func(job int) error {
				if job == 2 {
					c.change(t, path)
				}
				return nil
			}}
			got, err := fit(t, opened(t, m), loss.Logistic{})
			require.GreaterOrEqual(t, m.jobs, 2)
			require.Nil(t, got)
			require.ErrorIs(t, err, erm.ErrSource)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// TestFitChangedPage changes a value inside a page of a Parquet file, which changes no checksum.
// Package erm must notice.
func TestFitChangedPage(t *testing.T) {
	type record struct{ X, Label float64 }
	all := make([]record, 20000)
	for i := range all {
		all[i] = record{math.Sin(float64(i)), float64(i % 2)}
	}
	all[3].X, all[4].X = 1, -1
	path := filepath.Join(t.TempDir(), "all.parquet")
	write := func() { require.NoError(t, parquet.WriteFile(path, all, parquet.PageBufferSize(1<<20))) }
	write()
	m := &meddler{Source: cluster(t, Options{Runner: "direct", Label: "Label"}, path), before: func(job int) error {
		if job == 2 {
			all[10000].X /= 2
			write()
		}
		return nil
	}}
	got, err := fit(t, opened(t, m), loss.Logistic{})
	require.Nil(t, got)
	require.ErrorIs(t, err, erm.ErrSource)
	require.ErrorContains(t, err, "lost, counted twice or changed")
}

// TestWorkersFiles checks that NewSource fails if the workers see other files than the driver.
func TestWorkersFiles(t *testing.T) {
	rows, labels := randomTable(30000, 3)
	path := filepath.Join(t.TempDir(), "all.npy")
	var change func()
	sdk.RegisterRunner("changed", func(ctx context.Context, p *sdk.Pipeline) (sdk.PipelineResult, error) {
		change()
		return sdk.Run(ctx, "direct", p)
	})
	for _, c := range []struct {
		want   string
		change func()
	}{
		{"the checksum of", func() { // the records are in another order
			pack(t, path, slices.Concat(rows[1:], rows[:1]), slices.Concat(labels[1:], labels[:1]))
		}},
		{"no sidecar", func() { require.NoError(t, os.RemoveAll(path+".json")) }},
		{"no such file", func() { require.NoError(t, os.RemoveAll(path)) }},
	} {
		t.Run(c.want, func(t *testing.T) {
			pack(t, path, rows, labels)
			change = c.change
			s, err := NewSource(t.Context(), []string{path}, Options{Runner: "changed", Scratch: t.TempDir()})
			require.Nil(t, s)
			require.ErrorIs(t, err, erm.ErrSource)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestFitCancelled(t *testing.T) {
	rows, labels := randomTable(20000, 3)
	ctx, cancel := context.WithCancel(t.Context())
	path := pack(t, filepath.Join(t.TempDir(), "all.npy"), rows, labels)
	m := &meddler{Source: cluster(t, Options{Shards: 4}, path), before: func(job int) error {
		if job == 2 {
			cancel()
		}
		return nil
	}}
	p := &erm.Problem{Data: opened(t, m), Loss: loss.Logistic{}}
	got, err := (&lop.Mechanism{Radius: 1}).Fit(ctx, p, budget, noise.Reproducible(3))
	require.Nil(t, got)
	require.ErrorIs(t, err, context.Canceled)
}

func TestNewSourceErrors(t *testing.T) {
	rows, labels := randomTable(10, 2)
	dir := t.TempDir()
	a := pack(t, filepath.Join(dir, "a.npy"), rows, labels)
	wide, _ := randomTable(10, 3)
	b := pack(t, filepath.Join(dir, "b.npy"), wide, labels)
	w, err := npy.Create(filepath.Join(dir, "c.npy"), []string{"x1", "x0", "y"}, npy.Options{})
	require.NoError(t, err)
	require.NoError(t, w.Commit())
	type record struct{ A, B float64 }
	p := filepath.Join(dir, "p.parquet")
	require.NoError(t, parquet.WriteFile(p, []record{{1, 2}}))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name  string
		ctx   context.Context
		o     Options
		paths []string
		want  string
	}{
		{"no scratch", t.Context(), Options{}, []string{a}, "Options.Scratch is empty"},
		{"no paths", t.Context(), Options{Scratch: dir}, nil, "at least one .npy or .parquet file"},
		{"shards", t.Context(), Options{Scratch: dir, Shards: -1}, []string{a}, "Options.Shards = -1"},
		{"many shards", t.Context(), Options{Scratch: dir, Shards: maxShards + 1}, []string{a}, "want 1 to 2²⁰"},
		{"threads", t.Context(), Options{Scratch: dir, Threads: -2}, []string{a}, "Options.Threads = -2"},
		{"timeout", t.Context(), Options{Scratch: dir, Timeout: -1}, []string{a}, "Options.Timeout = -1ns"},
		{"twice", t.Context(), Options{Scratch: dir}, []string{a, a}, "are one file, whose records would count twice"},
		{"dim", t.Context(), Options{Scratch: dir, Dim: -2}, []string{a}, "Options.Dim = -2"},
		{"kind", t.Context(), Options{Scratch: dir}, []string{"a.csv"}, "want all files .npy, or all .parquet"},
		{"mixed", t.Context(), Options{Scratch: dir}, []string{a, p}, "want all files .npy, or all .parquet"},
		{"absent", t.Context(), Options{Scratch: dir}, []string{a, filepath.Join(dir, "x.npy")}, "no such file"},
		{"features", t.Context(), Options{Scratch: dir}, []string{a, b}, `b.npy has the features ["x0" "x1" "x2"] and`},
		{"order of columns", t.Context(), Options{Scratch: dir}, []string{a, filepath.Join(dir, "c.npy")},
			`has the features ["x1" "x0"]`},
		{"label", t.Context(), Options{Scratch: dir}, []string{p}, "Options.Label is empty"},
		{"absent scratch", t.Context(), Options{Scratch: filepath.Join(dir, "absent")}, []string{a},
			"is no folder"},
		{"runner", t.Context(), Options{Scratch: dir, Runner: "flnk"}, []string{a},
			`Options.Runner = "flnk" is not linked in`},
		{"runner again", t.Context(), Options{Scratch: dir, Runner: "flnk"}, []string{a},
			`Options.Runner = "flnk" is not linked in`},
		{"stopped", ended, Options{Scratch: dir}, []string{a}, "canceled"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := NewSource(c.ctx, c.paths, c.o)
			require.Nil(t, s)
			require.ErrorContains(t, err, c.want)
			left, err := filepath.Glob(filepath.Join(dir, "privopt-*"))
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

// TestGreeting checks that NewSource runs one job without a query, to test the cluster.
func TestGreeting(t *testing.T) {
	rows, labels := randomTable(30000, 2)
	path := pack(t, filepath.Join(t.TempDir(), "all.npy"), rows, labels)
	var tasks []*task
	sdk.RegisterRunner("greeted", func(ctx context.Context, p *sdk.Pipeline) (sdk.PipelineResult, error) {
		files, err := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "greeting", "privopt-*", taskFile))
		require.NoError(t, err)
		require.Len(t, files, 1)
		made, err := ticket{File: files[0], Pass: filepath.Base(filepath.Dir(files[0]))[len("privopt-"):]}.load()
		require.NoError(t, err)
		tasks = append(tasks, made)
		return sdk.Run(ctx, "direct", p)
	})
	scratch := filepath.Join(os.Getenv("TMPDIR"), "greeting")
	require.NoError(t, os.Mkdir(scratch, 0o700))
	s := cluster(t, Options{Runner: "greeted", Scratch: scratch}, path)
	require.Len(t, tasks, 1)
	require.Empty(t, tasks[0].Query)
	_, err := s.Sum(t.Context(), query(t, s))
	require.NoError(t, err)
	require.Len(t, tasks, 2)
	require.NotEqual(t, tasks[0].Key, tasks[1].Key)
}

func TestMessages(t *testing.T) {
	rows, labels := randomTable(100, 2)
	s := cluster(t, Options{Shards: 70}, pack(t, filepath.Join(t.TempDir(), "a.npy"), rows, labels))
	q := query(t, s)
	p, err := newPass(s, marshalled(t, q))
	require.NoError(t, err)
	defer p.remove()
	for path, mode := range map[string]os.FileMode{p.folder: os.ModeDir | 0o700, p.File: 0o600} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode())
	}

	loaded, err := p.load()
	require.NoError(t, err)
	require.Equal(t, p.task, loaded)
	_, err = ticket{File: p.File, Pass: "another"}.load()
	require.ErrorContains(t, err, "not the task of this pass")

	sealed, err := p.seal(&part{Shards: []uint64{1, 2}, Sums: []byte("sums")})
	require.NoError(t, err)
	require.False(t, bytes.Contains(sealed, []byte("sums")))
	opened, err := p.unseal(sealed)
	require.NoError(t, err)
	require.Equal(t, &part{Shards: []uint64{1, 2}, Sums: []byte("sums")}, opened)
	for i := range sealed {
		sealed[i] ^= 1
		_, err := p.unseal(sealed)
		require.ErrorContains(t, err, "damaged")
		sealed[i] ^= 1
	}
	other, err := newPass(s, marshalled(t, q))
	require.NoError(t, err)
	defer other.remove()
	_, err = other.unseal(sealed)
	require.ErrorContains(t, err, "not of this pass")
	_, err = p.result()
	require.ErrorContains(t, err, "without a result")
}
