// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Command parquet2npy writes the records of Parquet files to one .npy file, which a pass reads with
// less work and whose sidecar has checksums:
//
//	parquet2npy -label income -o people.npy part-0.parquet part-1.parquet
//
// The columns of the features come first, in the order of -columns or of the schema, then the
// label. Nulls become NaN. The file appears whole, with the mode 0600, or not at all. Its columns
// are as they were: no bound is applied, for package erm does that in every pass.
//
// The exit code is 0, 1 after an error, or 2 for a command line that cannot be used.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/parquetdata"
	"github.com/privopt/privopt/table/npy"
)

// main ends in order on the first SIGINT, SIGTERM or SIGHUP and at once on the second.
func main() {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stderr))
}

// run is the program: it returns the exit code.
func run(ctx context.Context, args []string, stderr io.Writer) int {
	fs := flag.NewFlagSet("parquet2npy", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() {
		fmt.Fprintln(stderr, "usage: parquet2npy -label NAME -o FILE.npy [-columns A,B,…] [-f32] FILE.parquet …")
		fs.PrintDefaults()
	}
	label := fs.String("label", "", "column of the labels")
	out := fs.String("o", "", "file to write, replaced if it exists")
	columns := fs.String("columns", "", "columns of the features, separated by commas; all but the label if empty")
	small := fs.Bool("f32", false, "write float32: half the bytes, about 7 digits")
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	if *label == "" || *out == "" || fs.NArg() == 0 {
		fs.Usage()
		return 2
	}
	if filepath.Ext(*out) != ".npy" {
		fmt.Fprintf(stderr, "parquet2npy: -o %s: want a name that ends with .npy; its description "+
			"gets the same name and .json\n", *out)
		return 2
	}
	o := parquetdata.Options{Label: *label}
	if *columns != "" {
		o.Features = strings.Split(*columns, ",")
	}
	err := convert(ctx, o, fs.Args(), *out, *small)
	if err != nil {
		fmt.Fprintln(stderr, "parquet2npy:", err)
		if errors.Is(err, parquetdata.ErrOptions) {
			return 2
		}
		return 1
	}
	return 0
}

func convert(ctx context.Context, o parquetdata.Options, paths []string, out string, small bool) error {
	src, err := parquetdata.Open(o, paths...)
	if err != nil {
		return err
	}
	defer src.Close()
	w, err := npy.Create(out, append(src.Features(), o.Label), npy.Options{Float32: small})
	if err != nil {
		return err
	}
	defer w.Close()
	n, d := src.Dims()
	rows, labels := make([]float64, erm.Chunk*d), make([]float64, erm.Chunk)
	for first := 0; first < n; first += erm.Chunk {
		m := min(erm.Chunk, n-first)
		if err := src.Read(ctx, rows[:m*d], labels[:m], first); err != nil {
			return err
		}
		for i := range m {
			if err := w.Append(rows[i*d:(i+1)*d], labels[i]); err != nil {
				return err
			}
		}
	}
	return w.Commit()
}
