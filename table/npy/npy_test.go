// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package npy

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/erm/ermtest"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/loss"
)

var _ erm.Source = (*File)(nil)

// names returns the names of n columns.
func names(n int) []string {
	out := make([]string, n)
	for j := range out {
		out[j] = fmt.Sprintf("c%d", j)
	}
	return out
}

// write writes a file of n random records with d features, and returns them.
func write(t testing.TB, path string, n, d int, o Options) (rows, labels []float64) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(uint64(n), uint64(d)))
	w, err := Create(path, names(d+1), o)
	require.NoError(t, err)
	defer w.Close()
	rows, labels = make([]float64, n*d), make([]float64, n)
	for i := range labels {
		row := rows[i*d : (i+1)*d]
		for j := range row {
			row[j] = float64(float32(rnd.NormFloat64()))
		}
		labels[i] = float64(i)
		require.NoError(t, w.Append(row, labels[i]))
	}
	require.NoError(t, w.Commit())
	return rows, labels
}

// all returns all records, from calls of Read for step records each.
func all(f *File, step int) (rows, labels []float64, err error) {
	n, d := f.Dims()
	rows, labels = make([]float64, n*d), make([]float64, n)
	for at := 0; at < n; at += step {
		end := min(n, at+step)
		if err := f.Read(context.Background(), rows[at*d:end*d], labels[at:end], at); err != nil {
			return nil, nil, err
		}
	}
	return rows, labels, nil
}

// TestRoundTrip checks that files are read as they were written: for any shape, any position of the
// label, any division into calls of Read, with and without a sidecar (the .npy.json file with
// checksums), in any order, and from several goroutines.
func TestRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.npy")
	rapid.Check(t, func(r *rapid.T) {
		d := rapid.SampledFrom([]int{1, 2, 12, 100}).Draw(r, "d")
		n := rapid.IntRange(0, testkit.Of(100_000, 300_000)/(d+1)).Draw(r, "n")
		o := Options{Float32: rapid.Bool().Draw(r, "float32"), Label: names(d + 1)[rapid.IntRange(0, d).Draw(r, "label")]}
		rows, labels := write(t, path, n, d, o)
		if o.Label == names(d + 1)[d] && rapid.Bool().Draw(r, "bare") {
			require.NoError(t, os.Remove(path+".json"))
		}
		f, err := Open(path)
		require.NoError(t, err)
		defer f.Close()
		gotN, gotD := f.Dims()
		require.Equal(t, []int{n, d}, []int{gotN, gotD})
		var wait sync.WaitGroup
		for range 4 {
			first := rapid.IntRange(0, n).Draw(r, "first")
			count := rapid.IntRange(0, n-first).Draw(r, "count")
			wait.Go(func() {
				gotRows, gotLabels := make([]float64, count*d), make([]float64, count)
				require.NoError(t, f.Read(t.Context(), gotRows, gotLabels, first))
				require.True(t, equal(rows[first*d:(first+count)*d], gotRows))
				require.True(t, equal(labels[first:first+count], gotLabels))
			})
		}
		wait.Wait()
		gotRows, gotLabels, err := all(f, rapid.IntRange(1000, 200_000).Draw(r, "step"))
		require.NoError(t, err)
		require.True(t, equal(rows, gotRows) && equal(labels, gotLabels))
	})
}

// TestSource checks that a File is a valid erm.Source, before and after its blocks are verified.
func TestSource(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.npy")
	write(t, path, 70_001, 3, Options{Label: "c1"})
	f, err := Open(path)
	require.NoError(t, err)
	defer f.Close()
	ermtest.CheckSource(t, f)
	ermtest.CheckSource(t, f)
}

// equal reports whether a and b have the same bits.
func equal(a, b []float64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if math.Float64bits(a[i]) != math.Float64bits(b[i]) {
			return false
		}
	}
	return true
}

// TestOddValues checks that NaN, infinities, −0 and extreme numbers are read unchanged, because
// package erm is the one that brings values into bounds.
func TestOddValues(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.npy")
	odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), math.SmallestNonzeroFloat64,
		math.MaxFloat64}
	w, err := Create(path, names(len(odd)+1), Options{})
	require.NoError(t, err)
	require.NoError(t, w.Append(odd, math.NaN()))
	require.NoError(t, w.Commit())
	f, err := Open(path)
	require.NoError(t, err)
	defer f.Close()
	rows, labels, err := all(f, 1)
	require.NoError(t, err)
	require.True(t, equal(odd, rows) && math.IsNaN(labels[0]))
}

// TestChecksums flips bits and exchanges blocks. A Read from a damaged block fails before it
// returns a record, and other blocks can still be read.
func TestChecksums(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.npy")
	const n, d = 100_000, 2 // the file has 2.4 MB, which is several blocks
	write(t, path, n, d, Options{})
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	rnd := rand.New(rand.NewPCG(1, 2))
	for range testkit.Of(40, 200) {
		bad := append([]byte(nil), whole...)
		at := headerSize + rnd.IntN(len(whole)-headerSize)
		bad[at] ^= 1 << rnd.IntN(8)
		require.NoError(t, os.WriteFile(path, bad, 0o600))
		f, err := Open(path)
		require.NoError(t, err)
		block := (at - headerSize) / blockSize
		other := (block + 1) % len(f.blocks) * blockSize / 24
		rows, labels := make([]float64, 10*d), make([]float64, 10)
		require.NoError(t, f.Read(t.Context(), rows, labels, other+1))
		inside := min(block*blockSize/24+1+rnd.IntN(blockSize/24-12), n-10)
		for range 2 {
			require.ErrorIs(t, f.Read(t.Context(), rows, labels, inside), ErrFile,
				"a Read must fail even if the flipped bit is in another record")
		}
		_, _, err = all(f, 7000)
		require.ErrorContains(t, err, fmt.Sprintf("block %d", block))
		require.ErrorContains(t, f.Verify(t.Context()), fmt.Sprintf("block %d", block))
		require.NoError(t, f.Close())
	}
	bad := append([]byte(nil), whole...)
	copy(bad[headerSize:], whole[headerSize+blockSize:headerSize+2*blockSize])
	copy(bad[headerSize+blockSize:], whole[headerSize:headerSize+blockSize])
	require.NoError(t, os.WriteFile(path, bad, 0o600))
	f, err := Open(path)
	require.NoError(t, err)
	defer f.Close()
	_, _, err = all(f, n)
	require.ErrorIs(t, err, ErrFile)
}

// TestVerifiedOnce checks that each block is verified once, by the first Read from it.
func TestVerifiedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.npy")
	write(t, path, 100_000, 2, Options{})
	f, err := Open(path)
	require.NoError(t, err)
	defer f.Close()
	verified := func() (k int) {
		for i := range f.blocks {
			if f.blocks[i].ok.Load() {
				k++
			}
		}
		return k
	}
	require.Zero(t, verified())
	require.NoError(t, f.Read(t.Context(), make([]float64, 2), make([]float64, 1), 99_999))
	require.Equal(t, 1, verified())
	require.NoError(t, f.Verify(t.Context()))
	require.Equal(t, len(f.blocks), verified())
	// The checksum of a verified block is not computed again; package erm detects later changes by
	// comparing passes.
	f.side.CRC[0]++
	_, _, err = all(f, 8192)
	require.NoError(t, err)
}

// TestChanges checks that a file that is too short or too long is refused by Open, and that a Read
// notices if the file changes later.
func TestChanges(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.npy")
	for name, change := range map[string]func(t *testing.T){
		"it is shorter": func(t *testing.T) { require.NoError(t, os.Truncate(path, headerSize+blockSize)) },
		"it is longer":  func(t *testing.T) { require.NoError(t, os.Truncate(path, 10<<20)) },
	} {
		write(t, path, 100_000, 2, Options{})
		f, err := Open(path)
		require.NoError(t, err)
		_, _, err = all(f, 8192)
		require.NoError(t, err)
		change(t)
		_, _, err = all(f, 8192)
		require.ErrorIs(t, err, ErrFile)
		require.ErrorContains(t, err, "changed since it was opened")
		f.Close()
		_, err = Open(path)
		require.ErrorIs(t, err, ErrFile)
		require.ErrorContains(t, err, name)
	}
	// The file is cut off in the middle of a pass.
	write(t, path, 100_000, 2, Options{})
	f, err := Open(path)
	require.NoError(t, err)
	require.NoError(t, f.Read(t.Context(), make([]float64, 2), make([]float64, 1), 0))
	require.NoError(t, os.Truncate(path, headerSize+blockSize))
	require.ErrorContains(t, f.Read(t.Context(), make([]float64, 2), make([]float64, 1), 99_999), "cut off")
	f.Close()
	// The file is rewritten in place with the same size.
	write(t, path, 100_000, 2, Options{})
	f, err = Open(path)
	require.NoError(t, err)
	_, _, err = all(f, 8192)
	require.NoError(t, err)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	text[len(text)-1] ^= 1
	require.NoError(t, os.WriteFile(path, text, 0o600))
	require.NoError(t, os.Chtimes(path, time.Time{}, time.Now().Add(time.Second)))
	require.ErrorContains(t, f.Read(t.Context(), make([]float64, 2), make([]float64, 1), 0), "changed since it was opened")
	for range 16 {
		if err = f.Read(t.Context(), make([]float64, 2), make([]float64, 1), 5); err != nil {
			break
		}
	}
	require.ErrorContains(t, err, "changed since it was opened")
	f.Close()
	require.Error(t, f.Read(t.Context(), make([]float64, 2), make([]float64, 1), 0), "closed")
	// The file is replaced by another one: the open file can still be read to its end.
	write(t, path, 100_000, 2, Options{})
	f, err = Open(path)
	require.NoError(t, err)
	defer f.Close()
	write(t, path, 10, 3, Options{})
	_, _, err = all(f, 8192)
	require.NoError(t, err)
}

// TestBadReads checks that bad calls and cancelled contexts give errors, and that no error shows
// the number of records.
func TestBadReads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.npy")
	write(t, path, 1234, 2, Options{})
	f, err := Open(path)
	require.NoError(t, err)
	defer f.Close()
	for _, c := range []struct{ rows, labels, first int }{
		{2, 1, -1}, {2, 1, 1234}, {2, 1, 1235}, {2, 1, math.MaxInt}, {2 * 1235, 1235, 0}, {3, 1, 0}, {1, 1, 0}, {4, 1, 0}, {0,
			1, 0}, {2, 0, 0},
	} {
		err := f.Read(t.Context(), make([]float64, c.rows), make([]float64, c.labels), c.first)
		require.Error(t, err, c)
		if c.labels != 1235 {
			require.NotContains(t, strings.ReplaceAll(err.Error(), path, ""), "123")
		}
	}
	require.NoError(t, f.Read(t.Context(), nil, nil, 1234))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, f.Read(ctx, make([]float64, 2), make([]float64, 1), 0), context.Canceled)
	require.Equal(t, "npy.File("+path+")", fmt.Sprint(f))
	require.Equal(t, "npy.File("+path+")", fmt.Sprintf("%#v", f))
	_, err = Open(t.TempDir())
	require.ErrorContains(t, err, "is no regular file")
	_, err = Open(path + "x")
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestReadAllocates checks that a Read allocates nothing after the first one.
func TestReadAllocates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.npy")
	write(t, path, 20_000, 12, Options{})
	f, err := Open(path)
	require.NoError(t, err)
	defer f.Close()
	rows, labels := make([]float64, 8192*12), make([]float64, 8192)
	read := func() { require.NoError(t, f.Read(context.Background(), rows, labels, 8192)) }
	read()
	if raceEnabled() {
		t.Skip("the race detector empties pools")
	}
	require.Zero(t, testing.AllocsPerRun(160, read))
}

// raceEnabled reports whether sync.Pool drops what it is given, as it does under the race detector.
func raceEnabled() bool {
	p := sync.Pool{}
	for range 100 {
		p.Put(new(int))
		if p.Get() == nil {
			return true
		}
	}
	return false
}

// TestSidecar checks that a sidecar that belongs to another file or has wrong contents is refused.
func TestSidecar(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.npy")
	write(t, path, 100, 2, Options{Label: "c1", Schema: "sha256:abc"})
	f, err := Open(path)
	require.NoError(t, err)
	require.Equal(t, names(3), f.Columns())
	require.Equal(t, "c1", f.Label())
	require.Equal(t, "sha256:abc", f.Schema())
	sum := f.Checksum()
	f.Close()
	good, err := os.ReadFile(path + ".json")
	require.NoError(t, err)
	for _, c := range []struct{ old, new, want string }{
		{`"npy":1`, `"npy":2`, "has version 2, want 1"},
		{`"records":100`, `"records":101`, "is that of another file"},
		{`"<f8"`, `"<f4"`, "is that of another file"},
		{`"c0",`, ``, "is that of another file"},
		{`"c0"`, `"c1"`, `the name "c1" of column 2 twice`},
		{`"label":"c1"`, `"label":"c9"`, `the label "c9", which is none of its columns`},
		{`"block":1048576`, `"block":1`, "a checksum for each block"},
		{`"crc32c":[`, `"crc32c":[1,`, "a checksum for each block"},
		{`"npy":1`, `"npy":1,"more":1`, "unknown field"},
		{`}`, ``, "is no description of it"},
	} {
		bad := strings.Replace(string(good), c.old, c.new, 1)
		require.NotEqual(t, string(good), bad)
		require.NoError(t, os.WriteFile(path+".json", []byte(bad), 0o600))
		_, err := Open(path)
		require.ErrorIs(t, err, ErrFile)
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "100")
	}
	require.NoError(t, os.Remove(path+".json"))
	f, err = Open(path)
	require.NoError(t, err)
	require.Nil(t, f.Columns())
	require.Empty(t, f.Label()+f.Schema()+f.Checksum())
	f.Close()
	write(t, path, 100, 2, Options{Label: "c1"})
	f, err = Open(path)
	require.NoError(t, err)
	require.Equal(t, sum, f.Checksum(), "equal records must have equal checksums")
	f.Close()
}

// BenchmarkPass reads a file of 13 million numbers as package erm does: several goroutines each
// take the next chunk of 8192 records. The first pass verifies all blocks.
func BenchmarkPass(b *testing.B) {
	for _, d := range []int{2, 12, 100} {
		path := filepath.Join(b.TempDir(), "x.npy")
		n := 13_000_000 / (d + 1)
		write(b, path, n, d, Options{})
		for _, pass := range []string{"first", "later"} {
			b.Run(fmt.Sprintf("pass=%s/d=%d", pass, d), func(b *testing.B) {
				f, err := Open(path)
				require.NoError(b, err)
				defer f.Close()
				b.SetBytes(f.shape.bytes())
				b.ReportAllocs()
				for b.Loop() {
					if pass == "first" {
						for k := range f.blocks {
							f.blocks[k].ok.Store(false)
						}
					}
					readAll(b, f)
				}
			})
		}
	}
}

func readAll(b *testing.B, f *File) {
	n, d := f.Dims()
	next := make(chan int)
	var wait sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			rows, labels := make([]float64, 8192*d), make([]float64, 8192)
			for at := range next {
				k := min(8192, n-at)
				if err := f.Read(b.Context(), rows[:k*d], labels[:k], at); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for at := 0; at < n; at += 8192 {
		next <- at
	}
	close(next)
	wait.Wait()
}

// npyFile returns the contents of a file with a header of the given text, and data bytes of zeros.
func npyFile(version byte, text string, data int) []byte {
	b := append([]byte(magic), version, 0)
	if version == 1 {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(text)))
	} else {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
	}
	return append(append(b, text...), make([]byte, data)...)
}

// TestRowsByThemselves: of random files of hostile rows, each row is read as it is alone, forced
// into the bounds by itself.
func TestRowsByThemselves(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.npy")
	numbers := []float64{0, 0.5, -1, math.NaN(), math.Inf(-1), 1e308, 5e-324, math.Copysign(0, -1)}
	for seed := range testkit.Of(40, 300, 3000) {
		rnd := rand.New(rand.NewPCG(uint64(seed), 4))
		var rows [][]float64
		var lines []string
		for i := range 1 + rnd.IntN(9) {
			row := make([]float64, 3)
			for j := range row {
				row[j] = numbers[rnd.IntN(len(numbers))]
			}
			rows, lines = append(rows, row), append(lines, string(rune('a'+i)))
		}
		require.True(t, testkit.Additive(t, func(text string) (testkit.Counts, error) {
			w, err := Create(path, names(3), Options{Float32: seed%2 == 0, Label: names(3)[seed%3]})
			require.NoError(t, err)
			for _, c := range text {
				row := rows[c-'a']
				require.NoError(t, w.Append(row[:2], row[2]))
			}
			require.NoError(t, w.Commit())
			f, err := Open(path)
			require.NoError(t, err)
			defer f.Close()
			data, err := erm.Open(f, loss.Bounds{Row: 1, Label: 1})
			require.NoError(t, err)
			counts := testkit.Counts{}
			err = data.Each(func(a []float64, b float64) { counts[fmt.Sprint(a, b)]++ })
			return counts, err
		}, "", lines, testkit.Nobody))
	}
}
