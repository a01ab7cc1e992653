// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/cmd/research/audit"
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/noise"
)

// auditFlags is the command line.
type auditFlags struct {
	mechanisms []string
	tier       string
	seed       uint64
	json, png  string
	sabotage   string
	list       bool
	quiet      bool
	force      bool
	what       map[string]string // of each sabotage that was run
}

const auditHelp = `Measured privacy of every mechanism against its claim.

A line of the table is one case: a mechanism, a pair of neighboring data sets and a layer, which
is a way to measure:

  white box  the noise, recovered from releases: p is the least p-value of the tests, corrected
             for their number; power is the probability to see an error of 5 %
  black box  ε ≥ ..., proved by releases on either data set with confidence 1 − 1e-6; power is
             the proved share of the exact ε of the pair
  exact      ε = ... of the pair at the claimed δ, by quadrature

A correct mechanism is called violated with probability 1e-6 in each case. The releases of an
audit are reproducible and of invented records: nothing here is private. The file of -json also
has the number of releases and the seconds of each case. Exit code 3 means that a claim is
violated or, with -sabotage, that the sabotage was caught.`

// all selects every mechanism.
const all = "all"

// newAudit defines the flags.
func newAudit() (*auditFlags, *sweep.Flags) {
	c := &auditFlags{seed: 1}
	f := sweep.NewFlags("audit", auditHelp)
	f.ListVar(&c.mechanisms, "mechanism", []string{all}, append([]string{all}, audit.Names()...),
		"mechanisms `LIST` to measure, or all")
	f.ChoiceVar(&c.tier, "tier", "quick", audit.Tiers, "quick (20 seconds), ci (5 minutes) or long (an hour)")
	f.SeedVar(func(seed uint64) { c.seed = seed }, "`N` instead of 1, or of a new one in the long tier")
	f.StringVar(&c.json, "json", "", "write the findings to `FILE`, - for standard output")
	f.StringVar(&c.png, "png", "", "draw the measured against the claimed privacy profiles in `FILE`, - for standard "+
		"output")
	f.BoolVar(&c.force, "force", false, "replace the files of -json and -png if they exist")
	f.StringVar(&c.sabotage, "sabotage", "",
		"break the step that `NAME` stands for, or all one after the other, and run the case that has to "+
			"catch it")
	f.BoolVar(&c.list, "list", false, "list the cases and the sabotages and leave")
	f.BoolVar(&c.quiet, "quiet", false, "no notes and no progress on standard error")
	f.Example = "go -C cmd/research run . audit -mechanism lop -json lop.json"
	return c, f
}

// runAudit is the command: it returns the exit code.
func runAudit(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, flags := newAudit()
	return flags.Run(args, stdout, stderr, &sweep.Options{Out: "."}, func() error {
		if err := c.check(flags); err != nil {
			return err
		}
		if err := c.files(); err != nil {
			return err
		}
		switch {
		case c.list:
			return listCases(stdout, c.names())
		case c.sabotage != "":
			return c.control(ctx, stdout, stderr)
		}
		return c.measure(ctx, stdout, stderr)
	})
}

// check reports flags that contradict one another.
func (c *auditFlags) check(f *sweep.Flags) error {
	var err error
	switch {
	case c.sabotage != "":
		err = f.Pointless("with -sabotage, which runs its cases in the quick tier", "mechanism", "tier", "list")
	case c.list:
		err = f.Pointless("with -list, which measures nothing", "tier", "json", "png")
	}
	if err != nil {
		return err
	}
	if len(c.mechanisms) > 1 && slices.Contains(c.mechanisms, all) {
		return sweep.Usagef("flag -mechanism = %s: want all, or a list without it", strings.Join(c.mechanisms, ","))
	}
	if c.tier == "long" && !f.Given("seed") {
		c.seed = noise.Secure().Uint64()
	}
	return nil
}

// names returns the selected mechanisms; nil means all.
func (c *auditFlags) names() []string {
	if slices.Contains(c.mechanisms, all) {
		return nil
	}
	return c.mechanisms
}

// measure runs the cases and reports them.
func (c *auditFlags) measure(ctx context.Context, stdout, stderr io.Writer) error {
	start := time.Now()
	tier := audit.Tier(1 + slices.Index(audit.Tiers, c.tier))
	results := audit.Select(c.names(), tier)
	if c.png != "" && !slices.ContainsFunc(results, func(r audit.Result) bool { return r.Layer == audit.Exact }) {
		return sweep.Usagef("flag -png = %s: none of the cases has a privacy profile, choose a mechanism with an exact "+
			"layer, for example lop", c.png)
	}
	add, end := sweep.Progress(stderr, c.quiet, "audit", len(results), 0)
	err := audit.Run(ctx, results, tier, c.seed, add)
	end()
	if err != nil {
		return err
	}
	wall := time.Since(start).Seconds()
	if c.json != "-" && c.png != "-" {
		if err := table(stdout, results); err != nil {
			return err
		}
	}
	if err := c.write(stdout, results, wall); err != nil {
		return err
	}
	if !c.quiet {
		fmt.Fprintf(stderr, "%d cases of the %s tier with seed %d in %.3g s\n", len(results), c.tier, c.seed, wall)
	}
	return judge(results)
}

// write writes the files.
func (c *auditFlags) write(stdout io.Writer, results []audit.Result, wall float64) error {
	if c.json != "" {
		if err := c.writeJSON(stdout, results, wall); err != nil {
			return err
		}
	}
	if c.png != "" {
		return writePNG(stdout, c.png, results, c.what)
	}
	return nil
}

// files refuses files that could not be written, before minutes of work.
func (c *auditFlags) files() error {
	for _, f := range []struct{ flag, path string }{{"json", c.json}, {"png", c.png}} {
		if f.path == "" || f.path == "-" {
			continue
		}
		if err := sweep.Replace(f.flag, f.path, c.force); err != nil {
			return err
		}
		if info, err := os.Stat(filepath.Dir(f.path)); err != nil || !info.IsDir() {
			return sweep.Usagef("flag -%s = %s: want a file in a folder that exists", f.flag, f.path)
		}
	}
	return nil
}

// errBlind reports cases with too little power.
var errBlind = errors.New("too little power to count")

// judge returns nil if every claim holds, an error that wraps dp.ErrCondition if
// one is violated, and another for cases that could not be measured.
func judge(results []audit.Result) error {
	var violated, blind []string
	for _, r := range results {
		switch {
		case r.Err != nil:
			return r.Err
		case r.Verdict() == audit.Violated:
			violated = append(violated, r.Full())
		case r.Verdict() == audit.Blind:
			blind = append(blind, r.Full())
		}
	}
	switch {
	case len(violated) > 0:
		return fmt.Errorf("%w: %d of %d claims are violated: %s",
			dp.ErrCondition, len(violated), len(results), strings.Join(violated, ", "))
	case len(blind) > 0:
		return fmt.Errorf("%w: %s", errBlind, strings.Join(blind, ", "))
	}
	return nil
}

// controls returns the sabotages that -sabotage selects.
func (c *auditFlags) controls() ([]audit.Control, error) {
	list := audit.Controls()
	if c.sabotage == all {
		return list, nil
	}
	var names []string
	for _, s := range list {
		if s.Name == c.sabotage {
			return []audit.Control{s}, nil
		}
		names = append(names, s.Name)
	}
	return nil, sweep.Usagef("flag -sabotage = %s: want one of %s, or all of them: all",
		c.sabotage, strings.Join(names, ", "))
}

// control runs the selected sabotages. Its files list them like cases, each under its own name.
func (c *auditFlags) control(ctx context.Context, stdout, stderr io.Writer) error {
	start := time.Now()
	list, err := c.controls()
	if err != nil {
		return err
	}
	add, end := sweep.Progress(stderr, c.quiet, "audit", len(list), 0)
	results, err := audit.Sabotage(ctx, list, c.seed, add)
	end()
	if err != nil {
		return err
	}
	for i := range results {
		err = errors.Join(err, results[i].Err)
		results[i].Mechanism, results[i].Case.Name = list[i].Name, list[i].Case
	}
	if err != nil {
		return err
	}
	c.what = map[string]string{}
	for _, s := range list {
		c.what[s.Name] = s.What
	}
	if len(list) > 1 && c.json != "-" {
		if err := caughtTable(stdout, list, results); err != nil {
			return err
		}
	}
	if err := c.write(stdout, results, time.Since(start).Seconds()); err != nil {
		return err
	}
	for i, r := range results {
		if r.Verdict() != audit.Violated {
			return fmt.Errorf("the sabotage %s was missed: %s; the case %s did not see it", list[i].Name, list[i].What,
				list[i].Case)
		}
	}
	if len(list) > 1 {
		return caught(fmt.Sprintf("all %d sabotages were caught, as they have to be", len(list)))
	}
	return caught(fmt.Sprintf("the sabotage %s was caught: %s; the case %s saw it: %s", list[0].Name, list[0].What,
		list[0].Case, seen(&results[0])))
}

// caught is the end of a sabotage that was seen. Its exit code is that of a violated claim.
type caught string

func (c caught) Error() string      { return string(c) }
func (caught) Is(target error) bool { return target == dp.ErrCondition }
