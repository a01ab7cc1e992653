package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/privopt/privopt/cmd/internal/sweep"
)

const resultsHelp = `Every figure and table of docs/results, from scratch.

A job runs commands or experiments and writes CSV files, from which pictures are drawn. A job
that was finished by the same program with the same seed is not repeated, and a sweep goes on
where it was interrupted: the folder .work of -out keeps the state.

A job that does not find its data or programs leaves its files as they are; in docs/results
these came with the repository. made-seconds.csv says when each job was made last, by which
version, and how long it took.

  PRIVOPT_DATA   folder with adult/adult.data and adult/adult.test
  PRIVOPT_PEERS  folder with the peer programs of bench/peers.sh and bench/race.py
  PYTHON         a Python with numpy, scipy and scikit-learn; /usr/bin/python3

With one seed the CSV files are the same on every run, except those with "seconds" in their
names, which hold times and ratios of times.`

// resultsFlags are the flags of the command results.
type resultsFlags struct {
	jobs        []string
	out         string
	seed        int
	small, list bool
	force       bool
}

// runResults is the command: it returns the exit code.
func runResults(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c := &resultsFlags{}
	f := sweep.NewFlags("results", resultsHelp)
	f.ListVar(&c.jobs, "jobs", names(), names(), "jobs `LIST` to run")
	f.StringVar(&c.out, "out", "docs/results", "folder `DIR` of the figures and tables")
	f.IntVar(&c.seed, "seed", 1, sweep.Between(1, 1e6), "seed `N` of all noise and data")
	f.BoolVar(&c.small, "small", false, "small sizes, to see that every job works; not into docs/results")
	f.BoolVar(&c.force, "force", false, "repeat jobs that are finished")
	f.BoolVar(&c.list, "list", false, "list the jobs and leave")
	return f.Run(args, stdout, stderr, &sweep.Options{Out: "."}, func() error {
		switch {
		case c.list:
			return listJobs(stdout)
		case c.small && !f.Given("out"):
			return sweep.Usagef("flag -small needs -out: its figures are no evidence and must not replace those of docs/results")
		}
		b, err := newBench(ctx, c)
		if err != nil {
			return err
		}
		var failed error
		for _, j := range jobs { // one that fails does not keep the others from running
			if ctx.Err() == nil {
				failed = errors.Join(failed, b.run(ctx, j, stdout))
			}
		}
		return errors.Join(failed, b.draw(stdout))
	})
}

func names() (all []string) {
	for _, j := range jobs {
		all = append(all, j.name)
	}
	return all
}

func listJobs(stdout io.Writer) error {
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "job\twhat\tmissing here\n")
	for _, j := range jobs {
		fmt.Fprintf(w, "%s\t%s\t%s\n", j.name, j.what, strings.Join(j.missing(), "; "))
	}
	return w.Flush()
}

func (j job) missing() (lacks []string) {
	for _, need := range j.needs {
		if err := need(); err != nil {
			lacks = append(lacks, err.Error())
		}
	}
	return lacks
}

// interrupted returns the error of the context where that ended the work.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// run makes the files of a job, unless they are there or something is missing.
func (b *bench) run(ctx context.Context, j job, stdout io.Writer) error {
	if !b.selected[j.name] {
		return nil
	}
	say := func(format string, args ...any) {
		fmt.Fprintf(stdout, "%-18s "+format+"\n", append([]any{j.name}, args...)...)
	}
	if lacks := j.missing(); len(lacks) > 0 {
		say("kept as shipped: %s", strings.Join(lacks, "; "))
		return nil
	}
	key, err := b.key(j)
	if err != nil {
		return interrupted(ctx, err)
	}
	if !b.force && b.finished(j, key) {
		say("finished before, by this program with seed %d", b.seed)
		return nil
	}
	start := time.Now()
	lines, files, err := b.make(ctx, j, key)
	if err != nil {
		return interrupted(ctx, fmt.Errorf("%s: %w", j.name, err))
	}
	seconds := time.Since(start).Seconds()
	say("made in %.3g s", seconds)
	for _, l := range lines {
		say("  %s", l)
	}
	return errors.Join(b.finish(j, key, files), b.record(j, seconds))
}
