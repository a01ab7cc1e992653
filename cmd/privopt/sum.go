package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/erm/shard"
	"github.com/privopt/privopt/npy"
)

func (a *app) sum() *cobra.Command {
	var (
		w           shard.Worker
		data, which string
	)
	c := &cobra.Command{
		Use:   "sum --cluster FOLDER --shard I/K --data FILE.npy",
		Short: "Add up a part of the records for a fit on other machines",
		Long: `Add up a part of the records for a fit that runs elsewhere.

The machine that fits and K workers share a folder, and each has the same .npy file, or a
copy of it: fit --cluster FOLDER --shards K waits until all workers are there, then asks
them for sums in every pass. A worker ends when the fit does, and may be started before
it, and again. Sums that are missing, doubled, damaged or of another pass end the fit
without a model, and what the ledger has for it is spent.

The folder is as secret as the table: what is asked and answered, together with the model,
gives the noise away. fit makes it for its user only, as whom all workers have to run, and
deletes what it held. There is no password: who can write to the folder is believed, and
the certificate of the model says so.`,
		Example: `  privopt sum --cluster /shared/fit --shard 1/2 --data people.npy
  privopt sum --cluster /shared/fit --shard 2/2 --data people.npy
  privopt fit --cluster /shared/fit --shards 2 --schema people.json --data people.npy \
    --epsilon 1 --out model.json`,
		Args: noArgs,
		RunE: a.do(func(ctx context.Context, _ []string) error {
			var err [2]error
			i, k, found := strings.Cut(which, "/")
			w.Shard, err[0] = strconv.Atoi(i)
			w.Shards, err[1] = strconv.Atoi(k)
			if !found || err[0] != nil || err[1] != nil || w.Shard < 1 || w.Shard > w.Shards {
				return usagef("--shard %q: want I/K with I from 1 to K, as in 1/2", which)
			}
			if w.Threads < 0 {
				return usagef("--threads %d: want a number, or 0 for all processors", w.Threads)
			}
			f, failed := npy.Open(data)
			if failed != nil {
				return usagef("--data: %w", failed)
			}
			defer f.Close()
			if err := sameRecords(f); err != nil {
				return err
			}
			w.Data = f.Checksum()
			w.Open = func(features int) (erm.Source, error) {
				if _, d := f.Dims(); features%d != 0 { // a label with classes has a block of features for each
					return nil, fmt.Errorf("%w: this worker has records of %d features, the driver of %d", shard.ErrShard, d, features)
				}
				return padded(f, features), nil
			}
			return w.Serve(ctx)
		}),
	}
	f := c.Flags()
	f.StringVar(&w.Folder, "cluster", "", "`FOLDER` that workers and fit share")
	f.StringVar(&which, "shard", "", "part `I/K` of the records")
	f.StringVar(&data, "data", "", "all records: the .npy `FILE` of fit, or a copy")
	f.IntVar(&w.Threads, "threads", 0, "number `N` of threads (default all processors)")
	required(c, "cluster", "shard", "data")
	complete(c, "shard", nil)
	return c
}

// sameRecords refuses a file without checksums: copies of it could hold the records in different orders, and a
// record that is in the parts of two workers would count twice.
func sameRecords(f *npy.File) error {
	if f.Checksum() == "" {
		return usagef("--cluster: --data has no .json with checksums, by which machines know that they have " +
			"the same records; make one with privopt pack")
	}
	return nil
}

func (a *app) merge() *cobra.Command {
	var (
		out   string
		force bool
	)
	c := &cobra.Command{
		Use:   "merge --out FILE.sums FILE.sums...",
		Short: "Join sums of workers by hand",
		Long: `Join files of sums, which workers wrote for the same pass, to one.

It is for workers that do not share a folder with fit: copy the file task of its folder to
theirs, let each of them run privopt sum, merge what they write, and rename the result into
the folder of fit. Sums of one shard are never added twice. They are as secret as the table.`,
		Example: "  privopt merge --out all.sums 1-of-2.sums 2-of-2.sums",
		Args:    cobra.MinimumNArgs(1),
		RunE: a.do(func(_ context.Context, files []string) error {
			place, err := a.claim(out, force)
			if err != nil {
				return err
			}
			defer place.abandon()
			return shard.Merge(out, files...)
		}),
	}
	outFlags(c, &out, &force, "`FILE` to write")
	required(c, "out")
	return c
}
