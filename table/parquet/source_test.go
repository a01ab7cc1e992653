// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package parquet

import (
	"context"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/erm/ermtest"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
)

// record has a column of every type that can be read, and some columns that cannot.
type record struct {
	Label    float64  `parquet:"label,snappy"`
	Double   float64  `parquet:"double"`
	Float    float32  `parquet:"float,zstd"`
	Int32    int32    `parquet:"int32,dict"`
	Int64    int64    `parquet:"int64,delta"`
	Uint32   uint32   `parquet:"uint32"`
	Uint64   uint64   `parquet:"uint64"`
	Bool     bool     `parquet:"bool"`
	Optional *float64 `parquet:"optional,optional,dict"`
	Maybe    *bool    `parquet:"maybe,optional"`
	Small    int8     `parquet:"small"`
	Inner    struct {
		Optional *float32 `parquet:"optional,optional"`
	} `parquet:"inner,optional"`
	Text  string    `parquet:"text"`
	Many  []float64 `parquet:"many"`
	Day   int32     `parquet:"day,date"`
	Price int64     `parquet:"price,decimal(2:10)"`
}

var features = []string{
	"double", "float", "int32", "int64", "uint32", "uint64", "bool", "optional", "maybe", "small", "inner.optional",
}

// row returns the numbers that a Source must read from r.
func (r *record) row() []float64 {
	number := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	optional, maybe, inner := math.NaN(), math.NaN(), math.NaN()
	if r.Optional != nil {
		optional = *r.Optional
	}
	if r.Maybe != nil {
		maybe = number(*r.Maybe)
	}
	if r.Inner.Optional != nil {
		inner = float64(*r.Inner.Optional)
	}
	return []float64{
		r.Double, float64(r.Float), float64(r.Int32), float64(r.Int64), float64(r.Uint32), float64(r.Uint64),
		number(r.Bool), optional, maybe, float64(r.Small), inner,
	}
}

func records(n int, rnd *rand.Rand) []record {
	all := make([]record, n)
	for i := range all {
		r := &all[i]
		*r = record{
			Label: rnd.NormFloat64(), Double: rnd.NormFloat64(), Float: float32(rnd.NormFloat64()),
			Int32: int32(rnd.IntN(9) - 4),
			Int64: rnd.Int64() - 1<<62, Uint32: rnd.Uint32(), Uint64: rnd.Uint64(),
			Bool: rnd.IntN(2) == 0, Small: int8(rnd.IntN(256) - 128),
			Many: make([]float64, rnd.IntN(3)), Text: "x",
		}
		if rnd.IntN(3) > 0 {
			v := float64(rnd.IntN(20))
			r.Optional = &v
		}
		if rnd.IntN(3) > 0 {
			v := rnd.IntN(2) == 0
			r.Maybe = &v
		}
		if rnd.IntN(3) > 0 {
			v := rnd.Float32()
			r.Inner.Optional = &v
		}
	}
	all[n/2].Double, all[n/3].Double = math.NaN(), math.Inf(-1)
	return all
}

// write writes a file with row groups of the given size and returns its path.
func write[T any](t testing.TB, all []T, group int, o ...parquet.WriterOption) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "records.parquet")
	f, err := os.Create(path)
	require.NoError(t, err)
	w := parquet.NewGenericWriter[T](f, o...)
	for len(all) > 0 {
		n := min(group, len(all))
		_, err := w.Write(all[:n])
		require.NoError(t, err)
		require.NoError(t, w.Flush())
		all = all[n:]
	}
	require.NoError(t, w.Close())
	require.NoError(t, f.Close())
	return path
}

// unindexed rewrites the file without its page index, which some programs leave out.
func unindexed(t testing.TB, path string) {
	t.Helper()
	all, err := os.ReadFile(path)
	require.NoError(t, err)
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	p, err := parquet.OpenFile(f, int64(len(all)))
	require.NoError(t, err)
	meta := p.Metadata()
	end := meta.RowGroups[0].Columns[0].ColumnIndexOffset
	for _, g := range meta.RowGroups {
		for i := range g.Columns {
			end = min(end, g.Columns[i].ColumnIndexOffset)
			require.Positive(t, g.Columns[i].OffsetIndexOffset)
			g.Columns[i].OffsetIndexOffset, g.Columns[i].OffsetIndexLength = 0, 0
			g.Columns[i].ColumnIndexOffset, g.Columns[i].ColumnIndexLength = 0, 0
		}
	}
	footer, err := thrift.Marshal(new(thrift.CompactProtocol), meta)
	require.NoError(t, err)
	n := len(footer)
	out := append(all[:end:end], footer...)
	out = append(out, byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
	require.NoError(t, os.WriteFile(path, append(out, "PAR1"...), 0o600))
}

// same requires that the records [first, first+count) of s equal those of all.
func same(t testing.TB, s *Source, all []record, first, count int) {
	t.Helper()
	_, d := s.Dims()
	rows, labels := make([]float64, count*d), make([]float64, count)
	require.NoError(t, s.Read(t.Context(), rows, labels, first))
	for i := range labels {
		r := &all[first+i]
		for j, want := range append(r.row(), r.Label) {
			got := labels[i]
			if j < d {
				got = rows[i*d+j]
			}
			if math.Float64bits(got) != math.Float64bits(want) && !(math.IsNaN(got) && math.IsNaN(want)) {
				t.Fatalf("record %d, column %d of the features and the label: read %v, want %v", first+i, j, got, want)
			}
		}
	}
}

func TestRead(t *testing.T) {
	const n = 20000
	for _, c := range []struct {
		name    string
		group   int
		index   bool
		options []parquet.WriterOption
	}{
		{"one row group", n, true, nil},
		{"small pages", n, true, []parquet.WriterOption{parquet.PageBufferSize(3000)}},
		{"row groups", 1700, true, []parquet.WriterOption{parquet.PageBufferSize(3000)}},
		{"first version of pages", 9000, true,
			[]parquet.WriterOption{parquet.PageBufferSize(3000), parquet.DataPageVersion(1)}},
		{"no page index", 9000, false, []parquet.WriterOption{parquet.PageBufferSize(3000)}},
		{"no page index, first version", 9000, false,
			[]parquet.WriterOption{parquet.PageBufferSize(3000), parquet.DataPageVersion(1)}},
		{"row groups of one record", 1, true, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := n
			if c.group == 1 {
				n = 100
			}
			rnd := rand.New(rand.NewPCG(1, 2))
			all := records(n, rnd)
			cut := n / 3
			paths := []string{
				write(t, all[:cut], c.group, c.options...), write(t, all[:0], c.group), write(t, all[cut:], c.group, c.options...),
			}
			if !c.index {
				unindexed(t, paths[0])
				unindexed(t, paths[2])
			}
			s, err := Open(Options{Label: "label", Features: features}, paths...)
			require.NoError(t, err)
			defer s.Close()
			records, d := s.Dims()
			require.Equal(t, []int{n, len(features)}, []int{records, d})

			for first := 0; first < n; first += 811 { // read a whole pass in order
				same(t, s, all, first, min(811, n-first))
			}
			var wait sync.WaitGroup
			for worker := range 4 {
				wait.Go(func() { // read at random places, concurrently
					rnd := rand.New(rand.NewPCG(3, uint64(worker)))
					for range 30 {
						first := rnd.IntN(n + 1)
						same(t, s, all, first, rnd.IntN(min(n-first, 3000)+1))
					}
				})
			}
			wait.Wait()
			require.LessOrEqual(t, len(s.idle), s.most)
			same(t, s, all, 0, n)
		})
	}
}

func TestOpenErrors(t *testing.T) {
	all := records(500, rand.New(rand.NewPCG(1, 2)))
	path := write(t, all, 100)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	file := func(b []byte) string {
		path := filepath.Join(t.TempDir(), "other.parquet")
		require.NoError(t, os.WriteFile(path, b, 0o600))
		return path
	}
	other := write(t, []struct {
		Label float64 `parquet:"label"`
	}{{1}}, 1)
	for _, c := range []struct {
		name  string
		o     Options
		paths []string
		is    error
		want  string
	}{
		{"no label", Options{}, []string{path}, ErrOptions, "Options.Label is empty"},
		{"no path", Options{Label: "label"}, nil, ErrOptions, "at least one Parquet file"},
		{"label missing", Options{Label: "y", Features: features}, []string{path}, ErrOptions,
			`no column "y"; the columns are ["label" "double"`},
		{"feature missing", Options{Label: "label", Features: []string{"z"}}, []string{path}, ErrOptions, `no column "z"`},
		{"twice", Options{Label: "label", Features: []string{"double", "label"}}, []string{path}, ErrOptions,
			`"label" is named twice`},
		{"none left", Options{Label: "label"}, []string{other}, ErrOptions, "no column is left for a feature"},
		{"missing in the second file", Options{Label: "label", Features: features}, []string{path, other}, ErrOptions,
			`no column "double"`},
		{"text", Options{Label: "label"}, []string{path}, ErrOptions, `column "text" is of the type STRING; want DOUBLE`},
		{"repeated", Options{Label: "label", Features: []string{"many"}}, []string{path}, ErrOptions,
			`column "many" is repeated`},
		{"day", Options{Label: "day", Features: features}, []string{path}, ErrOptions, `column "day" is of the type DATE`},
		{"price", Options{Label: "price", Features: features}, []string{path}, ErrOptions,
			`column "price" is of the type DECIMAL`},
		{"no records", Options{Label: "label", Features: features}, []string{write(t, all[:0], 1)}, ErrOptions,
			"at least 1 record"},
		{"no file", Options{Label: "label"}, []string{"absent.parquet"}, os.ErrNotExist, "absent.parquet"},
		{"a folder", Options{Label: "label"}, []string{t.TempDir()}, ErrFile, "directory"},
		{"empty", Options{Label: "label"}, []string{file(nil)}, ErrFile, "no Parquet file"},
		{"text file", Options{Label: "label"}, []string{file([]byte("label,double\n1,0.12345\n"))}, ErrFile,
			"no Parquet file"},
		{"truncated", Options{Label: "label"}, []string{file(whole[:len(whole)/2])}, ErrFile, "truncated"},
		{"without its end", Options{Label: "label"}, []string{file(whole[:len(whole)-1])}, ErrFile, "truncated"},
		{"a footer longer than the file", Options{Label: "label"},
			[]string{file([]byte("PAR1\xff\xff\xff\x7fPAR1"))}, ErrFile, "its footer is damaged"},
		{"without its start", Options{Label: "label"}, []string{file(whole[1:])}, ErrFile, "no Parquet file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Open(c.o, c.paths...)
			require.Nil(t, s)
			require.ErrorIs(t, err, c.is)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// ours matches the error texts of this package. Texts of the Parquet library may contain bytes of
// the file, so that no error may contain them.
var ours = regexp.MustCompile(`it is no Parquet file|: a page |: the pages hold |: a value outside|` +
	`has no column|there is no column|` +
	`is of the type|is repeated|with no record`)

// TestReadDamaged flips bits of a file. Reading must give an error or, where the format has no
// checksum, some number. It must not panic, and no error may contain values of records.
func TestReadDamaged(t *testing.T) {
	all := records(600, rand.New(rand.NewPCG(1, 2)))
	path := write(t, all, 250, parquet.PageBufferSize(800))
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	rnd := rand.New(rand.NewPCG(5, 6))
	failed := 0
	for trial := range 400 {
		b := append([]byte(nil), whole...)
		for range 1 + trial%3 {
			b[rnd.IntN(len(b))] ^= 1 << rnd.IntN(8)
		}
		require.NoError(t, os.WriteFile(path, b, 0o600))
		s, err := Open(Options{Label: "label", Features: features}, path)
		if err == nil {
			n, d := s.Dims()
			if n > 1<<20 {
				continue
			}
			err = s.Read(t.Context(), make([]float64, n*d), make([]float64, n), 0)
			s.Close()
		}
		if err != nil {
			failed++
			require.Regexp(t, ours, err.Error())
		}
	}
	require.Greater(t, failed, 200)

	require.NoError(t, os.WriteFile(path, whole, 0o600))
	s, err := Open(Options{Label: "label", Features: features}, path)
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, os.Truncate(path, 2000))
	err = s.Read(t.Context(), make([]float64, 600*len(features)), make([]float64, 600), 0)
	require.ErrorIs(t, err, ErrFile)
	require.ErrorContains(t, err, "row group 0")
}

func TestReadErrors(t *testing.T) {
	all := records(500, rand.New(rand.NewPCG(1, 2)))
	s, err := Open(Options{Label: "label", Features: features}, write(t, all, 100))
	require.NoError(t, err)
	d := len(features)
	for _, c := range []struct{ rows, labels, first int }{
		{3 * d, 2, 0}, {d, 1, -1}, {d, 1, 500}, {2 * d, 2, 499}, {0, 0, 501},
	} {
		require.ErrorContains(t, s.Read(t.Context(), make([]float64, c.rows), make([]float64, c.labels), c.first), "want")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, s.Read(ctx, make([]float64, d), make([]float64, 1), 0), context.Canceled)
	require.NoError(t, s.Close())
	require.Error(t, s.Read(t.Context(), make([]float64, d), make([]float64, 1), 0))
	require.NoError(t, s.Close())
}

func TestDefaultFeatures(t *testing.T) {
	type plain struct {
		A, B, C float64
	}
	s, err := Open(Options{Label: "B"}, write(t, []plain{{1, 2, 3}}, 1))
	require.NoError(t, err)
	defer s.Close()
	require.Equal(t, []string{"A", "C"}, s.Features())
	rows, labels := make([]float64, 2), make([]float64, 1)
	require.NoError(t, s.Read(t.Context(), rows, labels, 0))
	require.Equal(t, []float64{1, 3, 2}, append(rows, labels...))
}

var _ io.Closer = (*Source)(nil)

// TestChecksum checks that files with the same records in another order have different checksums,
// if their page indexes show the difference.
func TestChecksum(t *testing.T) {
	type record struct{ X, Y float64 }
	all := make([]record, 20000)
	for i := range all {
		all[i] = record{float64(i), float64(i % 2)}
	}
	dir := t.TempDir()
	sum := func(name string, all []record) string {
		path := filepath.Join(dir, name)
		require.NoError(t, parquet.WriteFile(path, all, parquet.PageBufferSize(1<<14)))
		s, err := Open(Options{Label: "Y"}, path)
		require.NoError(t, err)
		defer s.Close()
		return s.Checksum()
	}
	want := sum("a.parquet", all)
	require.Equal(t, want, sum("copy.parquet", all))
	other := slices.Clone(all)
	other[0], other[19999] = other[19999], other[0]
	require.NotEqual(t, want, sum("other.parquet", other))
}

func TestCheckSource(t *testing.T) {
	all := records(20000, rand.New(rand.NewPCG(1, 2)))
	o := []parquet.WriterOption{parquet.PageBufferSize(3000)}
	for _, index := range []bool{true, false} {
		path := write(t, all, 4500, o...)
		if !index {
			unindexed(t, path)
		}
		s, err := Open(Options{Label: "label", Features: features}, path)
		require.NoError(t, err)
		defer s.Close()
		ermtest.CheckSource(t, s)
	}
}

// TestFit checks that a fit over files gives the same bits as a fit over the same records in
// memory, if the files have the canonical order of erm.Data. Nulls count as 0.
func TestFit(t *testing.T) {
	type record struct {
		A, B, C float64
		N       *float64 `parquet:",optional"`
		Label   float64
	}
	const n = 50000
	bounds := loss.Bounds{Row: 1, Label: 1}
	rnd := rand.New(rand.NewPCG(1, 2))
	rows, labels := make([][]float64, n), make([]float64, n)
	for i := range rows {
		rows[i] = []float64{rnd.NormFloat64() / 2, rnd.NormFloat64() / 2, rnd.NormFloat64() / 2, math.NaN()}
		if rnd.IntN(2) == 0 {
			rows[i][3] = rnd.NormFloat64() / 4
		}
		labels[i] = float64(2*rnd.IntN(2) - 1)
	}
	data, err := erm.NewData(rows, labels, bounds)
	require.NoError(t, err)
	all := make([]record, n)
	for i := range all {
		row := data.Row(i)
		all[i] = record{row[0], row[1], row[2], &row[3], data.Label(i)}
		if row[3] == 0 {
			all[i].N = nil
		}
	}
	s, err := Open(Options{Label: "Label"}, write(t, all[:30001], 7000), write(t, all[30001:], 9000))
	require.NoError(t, err)
	defer s.Close()
	outside, err := erm.Open(s, bounds)
	require.NoError(t, err)

	fit := func(data *erm.Data) *dp.Release {
		p := &erm.Problem{Data: data, Loss: loss.Logistic{}}
		rel, err := (&lop.Mechanism{Radius: 2}).Fit(t.Context(), p, dp.Budget{Epsilon: 1, Delta: 1e-6}, noise.Reproducible(3))
		require.NoError(t, err)
		return rel
	}
	require.Equal(t, fit(data), fit(outside))
}
