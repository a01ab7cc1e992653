// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package beam

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sdk "github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/table"
)

const visits = `{ "schema": 1, "records": 300, "person": "id", "rows": 2, "missing": ["?"],
  "label": {"column": "pays", "positive": ["yes"], "negative": ["no"]},
  "columns": [{"name": "age", "min": 20, "max": 80}] }`

// visitFiles writes CSV files of 300 people with up to seven lines each, and returns the table.
func visitFiles(t testing.TB, files int) Table {
	t.Helper()
	s, err := table.ReadSchema(strings.NewReader(visits))
	require.NoError(t, err)
	made := Table{Schema: s, Columns: []string{"(lines)", "(intercept)", "age", "pays"}, Hash: "sha256:x"}
	e, err := s.Encoder()
	require.NoError(t, err)
	made.Columns = []string{"(lines)"}
	for _, f := range e.Features() {
		made.Columns = append(made.Columns, f.Name)
	}
	made.Columns = append(made.Columns, "pays")
	dir := t.TempDir()
	texts := make([]strings.Builder, files)
	for i := range 1200 {
		text := &texts[i%files]
		if text.Len() == 0 {
			text.WriteString("id,age,pays\n")
		}
		fmt.Fprintf(text, "patient%d,%d,%s\n", i*i%300, 20+i%60, []string{"yes", "no"}[i%2])
	}
	for i := range texts {
		path := filepath.Join(dir, fmt.Sprintf("%d.csv", i))
		require.NoError(t, os.WriteFile(path, []byte(texts[i].String()), 0o600))
		made.Paths = append(made.Paths, path)
	}
	return made
}

// encoded opens the records of a Source by person and returns them with their weights.
func encoded(t testing.TB, s *Source) (all [][]float64) {
	t.Helper()
	data, err := erm.OpenCanonical(t.Context(), s, bounds, erm.Persons{Rows: 2})
	require.NoError(t, err)
	require.Contains(t, data.Assumptions(), erm.TrustedEncoding)
	require.NoError(t, data.EachPerson(t.Context(), 1, 1e9, func(dst []float64, w float64, a []float64, b float64) {
		dst[0] += w
		all = append(all, append(slices.Clone(a), b, w))
	}, func([]float64) {}))
	return all
}

// TestEncode checks that the encoded records do not depend on the division into files, that jobs
// are repeated in another folder with another key, and that nothing is left in the scratch folder.
func TestEncode(t *testing.T) {
	scratch := t.TempDir()
	failures := 0
	var seen []string
	sdk.RegisterRunner("flaky", func(ctx context.Context, p *sdk.Pipeline) (sdk.PipelineResult, error) {
		folders, err := filepath.Glob(filepath.Join(scratch, "privopt-*", taskFile))
		if err != nil || len(folders) == 0 {
			return nil, errors.New("no task")
		}
		seen = append(seen, folders[0])
		if failures--; failures >= 0 {
			return nil, errors.New("a worker was killed")
		}
		return sdk.Run(ctx, "prism", p)
	})
	persons := map[int]bool{}
	for i := range 300 {
		persons[i*i%300] = true
	}
	var want [][]float64
	for _, files := range []int{1, 3} {
		for _, failures = range []int{0, 2} {
			seen = nil
			s, err := Encode(t.Context(), visitFiles(t, files), Options{Runner: "flaky", Scratch: scratch})
			require.NoError(t, err)
			got := encoded(t, s)
			require.Len(t, got, 2*len(persons), "two lines of every person count")
			if want == nil {
				want = got
			}
			require.Equal(t, want, got)
			require.NoError(t, s.Close())
			slices.Sort(seen)
			require.Equal(t, len(seen), len(slices.Compact(seen)), "an attempt used the folder of another")
		}
	}
	failures = 3
	_, err := Encode(t.Context(), visitFiles(t, 1), Options{Runner: "flaky", Scratch: scratch})
	require.ErrorIs(t, err, erm.ErrSource)
	require.ErrorContains(t, err, "failed 3 times, at last with: a worker was killed")
	left, err := os.ReadDir(scratch)
	require.NoError(t, err)
	require.Empty(t, left, "secret files were left")
}

// TestManyLines gives a third of all lines to one person: the records are those of the table in
// memory, and the lines of that person that cannot count are dropped before they travel.
func TestManyLines(t *testing.T) {
	defer func(n int64) { splitBytes = n }(splitBytes)
	splitBytes = 200_000
	made := visitFiles(t, 1)
	var size [2]int
	for k, many := range []int{0, 30_000} {
		var text strings.Builder
		text.WriteString("id,age,pays\n")
		for i := range 60_000 + many {
			id := 1 + i*i%9973
			if i >= 60_000 {
				id = 0
			}
			fmt.Fprintf(&text, "patient%d,%d.%d,%s\n", id, 20+i%60, i%977, []string{"yes", "no"}[i%2])
		}
		require.NoError(t, os.WriteFile(made.Paths[0], []byte(text.String()), 0o600))
		e, tk := attempt(t, made, 4)
		for i := range e.Splits {
			sent(t, tk, e, i)
		}
		names, err := filepath.Glob(filepath.Join(filepath.Dir(tk.File), "split-*"))
		require.NoError(t, err)
		require.Len(t, names, len(e.Splits))
		for _, name := range names {
			info, err := os.Stat(name)
			require.NoError(t, err)
			size[k] += int(info.Size())
		}
		src, err := Encode(t.Context(), made, Options{Scratch: t.TempDir()})
		require.NoError(t, err)
		data, err := table.Options{}.ReadCSV(strings.NewReader(text.String()), made.Schema)
		require.NoError(t, err)
		var want []float64
		require.NoError(t, data.Records.Each(func(a []float64, b float64) { want = append(append(want, a...), b) }))
		var got []float64
		for _, line := range encoded(t, src) {
			got = append(got, line[:len(line)-1]...)
		}
		require.Equal(t, want, got)
		require.NoError(t, src.Close())
	}
	require.Less(t, float64(size[1]), 1.1*float64(size[0]))
}

// TestEncodeForms: files without a header line, whose quoted fields hold line ends, give the same
// records plain and compressed by gzip, in one file and in several.
func TestEncodeForms(t *testing.T) {
	scratch := t.TempDir()
	s, err := table.ReadSchema(strings.NewReader(strings.NewReplacer(`"missing"`,
		`"file": {"fields": ["id", "note", "age", "pays"], "multiline": true}, "missing"`,
		`"columns": [`, `"columns": [{"name": "note", "ignore": true}, `).Replace(visits)))
	require.NoError(t, err)
	var want [][]float64
	for _, files := range []int{1, 2} {
		for _, ending := range []string{".csv", ".csv.gz"} {
			texts := make([]bytes.Buffer, files)
			for i := range 2000 {
				fmt.Fprintf(&texts[i%files], "\"p%d\n\",\"a \"\"b\"\"\r\n\np,30,yes\",%d,yes\n", i%300, 20+i%60)
			}
			made := visitFiles(t, files)
			made.Schema = s
			for i := range texts {
				text := texts[i].Bytes()
				if made.Paths[i] += ending; ending == ".csv.gz" {
					var b bytes.Buffer
					z := gzip.NewWriter(&b)
					_, err := z.Write(text)
					require.NoError(t, errors.Join(err, z.Close()))
					text = b.Bytes()
				}
				require.NoError(t, os.WriteFile(made.Paths[i], text, 0o600))
			}
			src, err := Encode(t.Context(), made, Options{Scratch: scratch})
			require.NoError(t, err)
			got := encoded(t, src)
			require.NoError(t, src.Close())
			require.Len(t, got, 600, "two lines of 300 persons")
			if want == nil {
				want = got
			}
			require.Equal(t, want, got)
		}
	}
}

// TestEncodeErrors checks that errors name the file and the line, and no field.
func TestEncodeErrors(t *testing.T) {
	scratch := t.TempDir()
	ragged := visitFiles(t, 2)
	require.NoError(t, os.WriteFile(ragged.Paths[1], []byte("id,age,pays\n1,30,yes\nSECRET,30\n"), 0o600))
	absent := visitFiles(t, 1)
	absent.Paths[0] += "x"
	folder := visitFiles(t, 1)
	folder.Paths[0] = filepath.Dir(folder.Paths[0])
	twice := visitFiles(t, 2)
	twice.Paths[1] = filepath.Join(filepath.Dir(twice.Paths[1]), ".", "0.csv")
	for _, c := range []struct {
		name string
		t    Table
		o    Options
		want string
	}{
		{"ragged", ragged, Options{Scratch: scratch}, "file 2: table: "},
		{"absent", absent, Options{Scratch: scratch}, "no such file"},
		{"folder", folder, Options{Scratch: scratch}, "no regular file"},
		{"twice", twice, Options{Scratch: scratch}, "are one file, whose records would count twice"},
		{"empty", Table{}, Options{Scratch: scratch}, "0 Paths and 0 Columns"},
		{"scratch", ragged, Options{}, "Options.Scratch is empty"},
		{"runner", ragged, Options{Scratch: scratch, Runner: "flnk"}, `Options.Runner = "flnk" is not linked in`},
	} {
		s, err := Encode(t.Context(), c.t, c.o)
		require.Nil(t, s, c.name)
		require.ErrorContains(t, err, c.want, c.name)
		require.NotContains(t, err.Error(), "SECRET")
		left, err := os.ReadDir(scratch)
		require.NoError(t, err)
		require.Empty(t, left, c.name)
	}
}

// attempt returns an encoding whose task is in a new folder, and its ticket.
func attempt(t *testing.T, made Table, buckets int) (*encoding, ticket) {
	t.Helper()
	var text bytes.Buffer
	_, err := made.Schema.WriteTo(&text)
	require.NoError(t, err)
	e := &encoding{Pass: "pass", Key: bytes.Repeat([]byte{7}, 32), Schema: text.Bytes(), Columns: made.Columns,
		Hash: made.Hash, Buckets: buckets}
	_, err = e.cut(t.Context(), made)
	require.NoError(t, err)
	tk := ticket{File: filepath.Join(t.TempDir(), taskFile), Pass: e.Pass}
	require.NoError(t, e.save(tk))
	return e, tk
}

// sent returns the sealed blocks of a file by bucket, the tally last.
func sent(t *testing.T, tk ticket, e *encoding, file int) [][][]byte {
	t.Helper()
	out := make([][][]byte, e.Buckets+1)
	require.NoError(t, (&encodeSplit{tk}).ProcessElement(t.Context(), file, func(k int, b []byte) {
		out[k] = append(out[k], b)
	}))
	return out
}

// ordered gives blocks to a bucket.
func ordered(t *testing.T, tk ticket, bucket int, blocks [][]byte) ([]byte, error) {
	return (&orderBucket{tk}).ProcessElement(t.Context(), bucket, func(b *[]byte) bool {
		if len(blocks) == 0 {
			return false
		}
		*b, blocks = blocks[0], blocks[1:]
		return true
	})
}

// TestBlocks checks that blocks that are lost, doubled, damaged, of another bucket or of another
// job end in an error, and that blocks and the pipeline show neither ids nor names of files.
func TestBlocks(t *testing.T) {
	e, tk := attempt(t, visitFiles(t, 2), 5)
	blocks := [][][][]byte{sent(t, tk, e, 0), sent(t, tk, e, 1)}
	var all []tally
	tallies := func(b []byte, err error) []tally {
		require.NoError(t, err)
		var some []tally
		require.NoError(t, e.unseal(b, &some))
		return some
	}
	for k := range e.Buckets + 1 {
		mine := append(slices.Clone(blocks[1][k]), blocks[0][k]...)
		for _, b := range mine {
			require.NotContains(t, string(b), "patient")
		}
		all = append(all, tallies(ordered(t, tk, k, mine))...)
		_, err := ordered(t, tk, k, append(mine, mine[0]))
		if k < e.Buckets {
			require.ErrorContains(t, err, "came twice")
			_, err = ordered(t, tk, (k+1)%e.Buckets, mine)
			require.ErrorContains(t, err, "of another bucket")
			damaged := slices.Clone(mine[0])
			damaged[len(damaged)/2] ^= 1
			_, err = ordered(t, tk, k, [][]byte{damaged})
			require.ErrorContains(t, err, "damaged")
		}
	}
	dir := filepath.Dir(tk.File)
	paths, people, err := e.check(slices.Clone(all), dir)
	require.NoError(t, err)
	require.Len(t, paths, e.Buckets)
	ids := map[int]bool{}
	for i := range 1200 {
		ids[i*i%300] = true
	}
	require.Len(t, ids, people)
	for i := range all {
		_, _, err := e.check(slices.Delete(slices.Clone(all), i, i+1), dir)
		require.Error(t, err, "without tally %d", i)
		_, _, err = e.check(append(slices.Clone(all), all[i]), dir)
		require.ErrorContains(t, err, "counted twice")
	}
	// A block that is lost.
	short := tallies(ordered(t, tk, 0, blocks[0][0]))
	all[slices.IndexFunc(all, func(x tally) bool { return x.Bucket == 0 })] = short[0]
	_, _, err = e.check(all, dir)
	require.ErrorContains(t, err, "did not get all blocks of file 2")
	// Blocks of another reading of a file, which may have changed.
	all[slices.IndexFunc(all, func(x tally) bool { return x.Bucket == 0 })] = tallies(ordered(t, tk, 0,
		append(slices.Clone(blocks[0][0]), sent(t, tk, e, 1)[0]...)))[0]
	_, _, err = e.check(all, dir)
	require.ErrorContains(t, err, "did not get all blocks of file 2")
	_, err = ordered(t, tk, 0, append(sent(t, tk, e, 1)[0], sent(t, tk, e, 1)[0]...))
	require.ErrorContains(t, err, "came twice")
	// A line whose id is of another bucket, sealed by a worker with the key.
	b, err := (&reader{dir: dir}).block(e, blocks[0][1][0])
	require.NoError(t, err)
	b.Bucket = 2
	sealed, err := e.seal(&b)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, blocksFile(0, 5)), sealed, 0o600))
	message, err := e.seal(place{0, 5, 0, len(sealed)}.bytes())
	require.NoError(t, err)
	_, err = ordered(t, tk, 2, [][]byte{message})
	require.ErrorContains(t, err, "a line is of another bucket")
	// A block that is damaged or cut off where it stands.
	names, err := filepath.Glob(filepath.Join(dir, "split-00000-*"))
	require.NoError(t, err)
	for _, name := range names {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		require.NotContains(t, string(text), "patient")
		text[20] ^= 1
		require.NoError(t, os.WriteFile(name, text[:len(text)-1], 0o600))
	}
	failures := map[string]bool{}
	for k := range e.Buckets {
		if _, err := ordered(t, tk, k, blocks[0][k]); err != nil {
			failures[err.Error()[len(fmt.Sprintf("beam: bucket %d: ", k)):]] = true
		}
	}
	require.Equal(t, map[string]bool{"EOF": true, "a message was damaged, or is not of this pass": true}, failures)
	// Another job, and a file that changed.
	other, otherTicket := attempt(t, visitFiles(t, 2), 5)
	other.Key[0]++
	require.NoError(t, other.save(otherTicket))
	_, err = ordered(t, otherTicket, 0, blocks[0][0])
	require.ErrorContains(t, err, "not of this pass")
	require.NoError(t, os.WriteFile(other.Paths[0], []byte("id,age,pays\n"), 0o600))
	err = (&encodeSplit{otherTicket}).ProcessElement(t.Context(), 0, func(int, []byte) {})
	require.ErrorContains(t, err, "its size is not that of the driver's file")

	text := encodePipeline(tk, 2).String()
	for _, secret := range []string{"patient", ".csv", "age"} {
		require.NotContains(t, text, secret)
	}
}
