// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Command privopt-beam is privopt fit for records that a cluster adds up: each pass of a solver is
// one Apache Beam job. Noisy gradients are summed in this process, see the README of module beam.
//
//	privopt-beam --schema people.json --data people.npy --epsilon 1 \
//	  --scratch /mnt/scratch --out model.json
//
// It takes the flags of privopt fit and has its exit codes. It writes the model that privopt fit
// makes of the same packed file, or of the one that privopt pack --canonical makes of a CSV, with
// the same bits and two differences: its certificate lists erm.TrustedCluster, and "build" names
// this program. Arguments after "--" are the flags of Beam: -- --endpoint=HOST:8099.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	sdk "github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/log"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
	//lint:ignore SA1019 deprecated, but it runs everything in one bundle, unlike prism
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/direct"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/flink"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/spark"

	"github.com/privopt/privopt/beam"
	"github.com/privopt/privopt/cmd/privopt/cli"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/table/npy"
)

const long = `Fit a private model to a private table whose records a cluster adds up.

Every pass over the records is one Apache Beam job, but for --intervals and where the clip
of a minimizer is chosen: there this process reads the encoded records itself. The noise,
the solver and the certificate stay in this process. The flags of privopt fit mean the
same here, and the model is that of the same packed file, bit by bit, except that its
certificate lists the cluster among the assumptions.

The table is one or several files of one kind:

  .npy       made by privopt pack with the same schema; workers read it where it is
  .parquet   with the encoded columns of the schema: workers read it where it is
  .parquet   with the columns of the table
  other      CSV, compressed by gzip if the name ends with .gz; also gs://BUCKET/NAME

Of the last two, workers encode the lines, group those of each person and write the
encoded rows, in canonical order, to files of mode 0600 in a folder of mode 0700 inside
--scratch, which this process removes at the end. Sealed lines stand there between the
steps, and the certificate lists that the workers are trusted to do this. If they are not,
privopt pack makes a .npy file on this machine. Workers have to see --scratch and the
files that they read under the same names.

--scratch is as secret as the table: the points of the solver stand there while a pass
runs, and together with the model they give the noise away. A process that is killed
leaves folders named privopt-… in it: delete them.

With --ledger, damaged records are found in the first pass, after the ledger was charged.`

// isWorker reports whether an engine started this program as a worker.
func isWorker(arg string) bool {
	name, value, valued := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	return strings.HasPrefix(arg, "-") && name == "worker" && (!valued || value == "true")
}

func main() {
	if slices.ContainsFunc(os.Args[1:], isWorker) {
		flag.Parse()
		sdk.Init() // does not return
	}
	log.SetupLogging("warn", "text") // at the default level, every job takes several lines
	cli.Main(run)
}

// run is the program: it returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var o beam.Options
	flags := flag.NewFlagSet("privopt-beam", flag.ContinueOnError)
	flags.StringVar(&o.Runner, "runner", "prism", "`NAME` of a Beam runner: prism, direct, flink, spark")
	flags.StringVar(&o.Scratch, "scratch", "", "`FOLDER` that this program and all workers share, and nobody else")
	flags.IntVar(&o.Shards, "shards", 0, "number `K` of parts of the records, two to four for each slot (default 16)")
	flags.IntVar(&o.Threads, "threads", 0, "number `N` of threads that add up one part (default all processors)")
	flags.DurationVar(&o.Timeout, "pass-timeout", 0, "longest `TIME` of one attempt of a pass, such as 30m "+
		"(default 10m, and 1s per 16 MiB of records)")
	e := &cli.Engine{
		Name: "privopt-beam", Short: "Fit a private model to records that a cluster adds up", Long: long,
		Example: `  privopt-beam --schema people.json --data people.npy --epsilon 1 \
    --scratch /mnt/scratch --out model.json
  privopt-beam --schema people.json --data a.csv --data b.csv --epsilon 1 \
    --runner flink --scratch /mnt/scratch --out model.json -- --endpoint=HOST:8099`,
		Data:  "private table `FILE`, .npy, .parquet or CSV; may be repeated",
		Flags: flags,
		Start: func(args []string) error { return start(o, args) },
		Open: func(ctx context.Context, t *cli.Table) (erm.Source, func() error, error) {
			return open(ctx, t, o)
		},
	}
	return e.Run(ctx, args, stdin, stdout, stderr)
}

// start gives Beam its flags and initializes it.
func start(o beam.Options, args []string) error {
	if o.Scratch == "" {
		return cli.Usagef("--scratch is missing, want a folder that this program and all workers share")
	}
	flag.CommandLine.Init("privopt-beam", flag.ContinueOnError)
	flag.CommandLine.SetOutput(io.Discard)
	if err := flag.CommandLine.Parse(args); err != nil {
		return cli.Usagef("after --, the flags of Beam: %w", err)
	}
	if flag.NArg() > 0 {
		return cli.Usagef("after --: unexpected argument %q, want flags of Beam", flag.Arg(0))
	}
	if err := hasWorkers(o.Runner); err != nil {
		return err
	}
	if !sdk.Initialized() {
		sdk.Init()
	}
	return nil
}

// hasWorkers returns an error if the runner starts workers and does not know which program they
// are. Beam would compile this program from its source, which is seldom there.
func hasWorkers(runner string) error {
	environment := strings.ToLower(*jobopts.EnvironmentType)
	switch {
	case *jobopts.WorkerBinary != "" || environment == "loopback":
		return nil
	case runner == "prism" && environment == "" && *jobopts.Endpoint == "":
		return nil // in this process
	case runner != "prism" && runner != "flink" && runner != "spark":
		return nil
	}
	return cli.Usagef("after --, --worker_binary is missing, the program that workers of %s run: add "+
		"--worker_binary=FILE, this program built for their machines by CGO_ENABLED=0 GOOS=linux GOARCH=amd64 go build "+
		"./cmd/privopt-beam", runner)
}

// open returns the records of a table: of its own files if they are encoded, else of files inside
// o.Scratch that workers make and that end with the source.
func open(ctx context.Context, t *cli.Table, o beam.Options) (erm.Source, func() error, error) {
	encoded := 0
	for _, path := range t.Files {
		if beam.InStore(path) {
			if ext := filepath.Ext(path); ext == ".npy" || ext == ".parquet" {
				return nil, nil, cli.Usagef("--data %s: from a store, workers read CSV alone", path)
			}
			continue
		}
		if _, err := os.Stat(path); path != "-" && errors.Is(err, os.ErrNotExist) {
			return nil, nil, fmt.Errorf("--data %s: %w", path, errors.Unwrap(err)) // as of privopt fit
		}
		ready, err := isEncoded(path, t)
		if err != nil {
			return nil, nil, err
		}
		if ready {
			encoded++
		}
	}
	switch encoded {
	case 0:
		return encode(ctx, t, o)
	case len(t.Files):
		// Each file has its own persons, and no ids: one person in two files would weigh as two.
		if _, persons := t.Encoder.Persons(); persons && encoded > 1 {
			return nil, nil, cli.Usagef("--data: %d files of encoded rows of persons, want one: they hold no ids, so "+
				"that somebody with lines in several of them would count several times; privopt pack makes one file of the "+
				"whole table", encoded)
		}
		return source(ctx, t.Files, t, o)
	}
	return nil, nil, cli.Usagef("--data: some files hold encoded rows and some do not, want files of one kind")
}

// isEncoded reports whether a file holds the encoded rows of a schema.
func isEncoded(path string, t *cli.Table) (bool, error) {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".npy":
		f, err := npy.Open(path)
		if err != nil {
			return false, cli.Usagef("--data: %w", err)
		}
		defer f.Close()
		if err := t.Check(f); err != nil {
			return false, cli.Usagef("--data: %s: %w", path, err)
		}
		return true, nil
	case ".parquet":
		return holdsEncoded(path, t)
	}
	return false, nil
}

// encode lets workers encode the files.
func encode(ctx context.Context, t *cli.Table, o beam.Options) (erm.Source, func() error, error) {
	if slices.Contains(t.Files, "-") {
		return nil, nil, cli.Usagef("--data: workers cannot read standard input, want a file; privopt pack makes one of it")
	}
	o.Dim = t.Dim()
	src, err := beam.Encode(ctx, beam.Table{
		Paths: t.Files, Schema: t.Encoder.Schema(), Columns: t.Columns(), Hash: t.Hash(),
	}, o)
	if errors.Is(err, beam.ErrOptions) {
		err = cli.Usagef("%w", err)
	}
	if err != nil {
		return nil, nil, err
	}
	return src, src.Close, nil
}

func source(ctx context.Context, paths []string, t *cli.Table, o beam.Options) (erm.Source, func() error, error) {
	columns := t.Columns()
	o.Dim, o.Features, o.Label = t.Dim(), columns[:len(columns)-1], columns[len(columns)-1]
	src, err := beam.NewSource(ctx, paths, o)
	if errors.Is(err, beam.ErrOptions) {
		err = cli.Usagef("%w", err)
	}
	if err != nil {
		return nil, nil, err
	}
	return src, src.Close, nil
}
