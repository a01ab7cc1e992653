// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package beam adds up records on a cluster: its Source is an erm.Remote, every pass of which is
// one Apache Beam job.
//
//	func main() {
//		sdk.Init() // github.com/apache/beam/sdks/v2/go/pkg/beam
//		o := beam.Options{Runner: "prism", Shards: 8, Scratch: "/mnt/scratch"}
//		src, err := beam.NewSource(ctx, paths, o)
//		data, err := erm.Open(src, loss.Bounds{Row: 1, Label: 1})
//		p := &erm.Problem{Data: data, Loss: loss.Logistic{}}
//		rel, err := (&lop.Mechanism{Radius: 3}).Fit(ctx, p, budget, nil)
//	}
//
// The records are in .npy or Parquet files. The driver, which is the program that calls Fit, and
// all workers open the files under the same names. The driver keeps the noise, the solver and the
// certificate; workers receive a point and return sums.
//
// # Secrets
//
// A point of the solver and the sums at this point together reveal the noise. Engines store and
// show the pipeline, so the pipeline holds neither: only the name of a task file, a random name of
// the pass and the number of shards. The task file holds the point, the names and checksums of the
// files of records, and a key drawn for the pass, which encrypts all messages of the workers. The
// file has mode 0600, in a folder of mode 0700 inside Options.Scratch. The driver removes the
// folder when the pass ends, also after an error; a driver that is killed leaves the folder.
//
// Whoever reads Scratch or the memory of a worker learns the point and sums of records without
// noise, and a worker that computes something else voids the guarantee. A certificate of a fit over
// a Source therefore lists erm.TrustedCluster. An engine sees when passes run and how long they
// take, which depends on the records.
package beam

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	sdk "github.com/apache/beam/sdks/v2/go/pkg/beam"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism" // needs nothing but this process

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/wholefile"
)

// ErrOptions reports Options, or paths, that cannot be used. Test with errors.Is.
var ErrOptions = errors.New("beam: invalid options")

// Options say where and how a Source runs its jobs. Scratch is required; the zero values of the
// other fields mean the defaults.
type Options struct {
	// Runner is the name of a Beam runner that is linked in, such as prism, the default, which this
	// package links, or flink.
	Runner string
	// Shards is the number of parts that the records are cut into; 0 means 16. Two to four for each
	// slot of the cluster are about right. It is public: do not make it a function of the records.
	Shards int
	// Scratch is a folder that the driver and all workers can read and write under the same name,
	// and nobody else. Required. The records may lie elsewhere.
	Scratch string
	// Threads is the most goroutines that add up one shard; 0 means GOMAXPROCS of the worker.
	Threads int
	// Timeout is the longest that an attempt of a job may take; 0 means 10 minutes, and a second more
	// for every 16 MiB of records. Engines wait without end for a worker that was lost before its
	// start or that stands still. After Timeout the attempt counts as failed, and its job may go on:
	// stop it in the engine.
	Timeout time.Duration
	// Label and Features are the columns of Parquet files, see parquet.Options. A .npy file names
	// its label itself.
	Label    string
	Features []string
	// Dim is the number of features of a record, if larger than in the files; the added features are
	// 0. A label with classes needs a block of features for each class.
	Dim int
}

const (
	defaultShards = 16
	maxShards     = 1 << 20
)

// Source holds records in files that a cluster reads. It is an erm.Remote.
type Source struct {
	files   *files
	options Options // complete, with the whole path of Scratch
	folder  string  // of files that workers encoded, which ends with the source
	persons int     // in these files
}

var _ erm.Remote = (*Source)(nil)

// NewSource opens files of records, all .npy or all .parquet. Their records are numbered in the
// order of the paths, which must name the same files for all workers. Call Init of Beam's SDK at
// the start of main. Close the source after its last use.
//
// NewSource runs one job, in which the workers open the files of their shards and compare the
// checksums with those of the driver. So a missing file is found before a fit spends its budget.
//
// The error wraps ErrOptions, or erm.ErrSource for a job that failed, or names the file that cannot
// be read.
func NewSource(ctx context.Context, paths []string, o Options) (*Source, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%w: no paths, want at least one .npy or .parquet file", ErrOptions)
	}
	if err := distinct(paths); err != nil {
		return nil, err
	}
	set := dataset{Label: o.Label, Features: slices.Clone(o.Features), Width: o.Dim}
	for _, path := range paths {
		if ext := filepath.Ext(path); !strings.EqualFold(ext, ".npy") && !strings.EqualFold(ext, ".parquet") ||
			ext != filepath.Ext(paths[0]) {
			return nil, fmt.Errorf("%w: the file %s, want all files .npy, or all .parquet", ErrOptions, path)
		}
		if path, err = filepath.Abs(path); err != nil {
			return nil, fmt.Errorf("beam: %w", err)
		}
		set.Paths = append(set.Paths, path)
	}
	f, err := count(ctx, set)
	if err != nil {
		return nil, err
	}
	if o.Timeout == 0 {
		n, d := f.Dims()
		o.Timeout = patience(n, d)
	}
	s := &Source{files: f, options: o}
	claim(o.Runner)
	if _, err := s.run(ctx, nil); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// distinct refuses a file that is named twice: its records would count twice.
func distinct(paths []string) error {
	if a, b, twice := wholefile.Twice(paths); twice {
		return fmt.Errorf("%w: %s and %s are one file, whose records would count twice: name it once", ErrOptions, a, b)
	}
	return nil
}

// complete checks the options and sets the defaults but for Timeout.
func (o Options) complete() (Options, error) {
	if !sdk.Initialized() {
		return o, fmt.Errorf("%w: Beam is not initialized; call beam.Init of its SDK first thing in main, and in TestMain",
			ErrOptions)
	}
	switch {
	case o.Scratch == "":
		return o, fmt.Errorf("%w: Options.Scratch is empty, want a folder that the driver and all workers share",
			ErrOptions)
	case o.Shards < 0 || o.Shards > maxShards:
		return o, fmt.Errorf("%w: Options.Shards = %d, want 1 to 2²⁰, or 0 for %d", ErrOptions, o.Shards, defaultShards)
	case o.Threads < 0:
		return o, fmt.Errorf("%w: Options.Threads = %d, want at least 1, or 0 for GOMAXPROCS", ErrOptions, o.Threads)
	case o.Timeout < 0:
		return o, fmt.Errorf("%w: Options.Timeout = %v, want a positive duration, or 0 for the default", ErrOptions,
			o.Timeout)
	case o.Dim < 0:
		return o, fmt.Errorf("%w: Options.Dim = %d, want a number of features, or 0 for that of the files",
			ErrOptions, o.Dim)
	}
	o.Runner, o.Shards = cmp.Or(o.Runner, "prism"), cmp.Or(o.Shards, defaultShards)
	var err error
	if o.Scratch, err = filepath.Abs(o.Scratch); err != nil {
		return o, fmt.Errorf("beam: Options.Scratch: %w", err)
	}
	if info, err := os.Stat(o.Scratch); err != nil || !info.IsDir() {
		return o, fmt.Errorf("%w: Options.Scratch: %s is no folder", ErrOptions, o.Scratch)
	}
	return o, nil
}

// claim makes a job of an unknown runner return an error. Beam itself would end the program.
func claim(name string) {
	defer func() { recover() }() // Beam panics if it knows the runner
	sdk.RegisterRunner(name, func(context.Context, *sdk.Pipeline) (sdk.PipelineResult, error) {
		return nil, fmt.Errorf("%w: Options.Runner = %q is not linked in, want prism, or the import of its package",
			ErrOptions, name)
	})
}

// patience returns the default of Options.Timeout for n records of d features, a year at most.
func patience(n, d int) time.Duration {
	seconds := float64(n) * float64(8*(d+1)) / (16 << 20)
	return 10*time.Minute + time.Duration(min(seconds, 366*24*3600))*time.Second
}

// Dims implements erm.Source.
func (s *Source) Dims() (records, features int) { return s.files.Dims() }

// Read implements erm.Source: the driver reads the records itself.
func (s *Source) Read(ctx context.Context, rows, labels []float64, first int) error {
	return s.files.Read(ctx, rows, labels, first)
}

// EncodedElsewhere returns the number of persons if workers encoded the records, see
// erm.OpenCanonical.
func (s *Source) EncodedElsewhere() (persons int, ok bool) { return s.persons, s.folder != "" }

// Close closes the files, and removes those that workers encoded.
func (s *Source) Close() error {
	err := s.files.Close()
	if s.folder != "" {
		err = errors.Join(err, wholefile.Discard(s.folder))
	}
	return err
}

const attempts = 3

// Sum implements erm.Remote: it runs one job, and up to two more with the same query if it fails.
// A repeated job sees nothing that the first did not see. The error wraps erm.ErrSource.
func (s *Source) Sum(ctx context.Context, q *erm.Query) (*erm.Sums, error) {
	query, err := q.MarshalBinary()
	if err != nil {
		return nil, fmt.Errorf("%w: beam: %w", erm.ErrSource, err)
	}
	return s.run(ctx, query)
}

// run runs a job until it succeeds. Without a query, the workers open files and add up nothing.
func (s *Source) run(ctx context.Context, query []byte) (*erm.Sums, error) {
	var err error
	for range attempts {
		var sums *erm.Sums
		if sums, err = s.attempt(ctx, query); err == nil {
			return sums, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%w: beam: %w", erm.ErrSource, ctx.Err())
		}
	}
	return nil, fmt.Errorf("%w: beam: the job failed %d times, at last with: %w", erm.ErrSource, attempts, err)
}

// attempt runs one job in a folder of its own.
func (s *Source) attempt(ctx context.Context, query []byte) (sums *erm.Sums, err error) {
	p, err := newPass(s, query)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.remove()) }()
	shards := make([]int, s.options.Shards)
	for i := range shards {
		shards[i] = i
	}
	if err := wait(ctx, s.options, pipeline(p.ticket, shards)); err != nil {
		return nil, err
	}
	return p.result()
}
