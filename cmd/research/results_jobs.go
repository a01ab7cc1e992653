// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/cmd/research/experiment"
)

// job makes some files of the folder.
type job struct {
	name, what string
	seconds    bool // the table holds times
	needs      []func() error
	parts      []part
	collect    func(j job, folders []string) (*output, error)
	tables     func(ctx context.Context, b *bench) (*output, error) // in place of parts
	figures    []figure
}

// file is the name of the table without extension.
func (j job) file() string {
	if j.seconds {
		return j.name + "-seconds"
	}
	return j.name
}

// part is one command of this program, script or experiment of a job. In its words, $NAME stands
// for an environment variable, DIR for the folder of the part, ROOT for that of the module, WORK
// for one that jobs share, and SEED for the seed.
type part struct {
	name       string
	command    []string // a subcommand, or a script and its interpreter if outside
	small      []string // arguments added by -small
	outside    bool
	sweep      bool // takes the flags of package sweep
	prepares   bool // makes something in WORK, and no table
	offset     int  // added to the seed
	code       int  // of success
	experiment func(b *bench) (*sweep.Experiment, error)
	workers    int
}

// called is a part that is a command, with arguments added by -small.
func called(command, small string) part {
	return part{command: strings.Fields(command), small: strings.Fields(small)}
}

// swept is a part that is a command with the flags of package sweep.
func swept(name, command, small string) part {
	p := called(command, small)
	p.name, p.sweep = name, true
	return p
}

// boxes is a part that is cmd/scaling, which bench.open builds.
func boxes(name, args, small string) part {
	p := swept(name, scalingProgram+" "+args, small)
	p.outside = true
	return p
}

// scalingProgram is the file of cmd/scaling.
const scalingProgram = "WORK/scaling"

// of is the one part of a job that is an experiment.
func of(e func(b *bench) (*sweep.Experiment, error)) []part { return []part{{experiment: e}} }

// draws are the sweep over n or d with the anchor taken as exact, on six draws of the data.
func draws(over, small string) (parts []part) {
	for i := range 6 {
		p := boxes(fmt.Sprintf("draw %d", i+1), "-eta 0 -runs 20 -sweep "+over, "-runs 2 -values "+small)
		p.offset = i
		parts = append(parts, p)
	}
	return parts
}

// around are the sweep over n of the methods around one anchor, in a box that holds it.
func around() (parts []part) {
	for i := range 6 {
		p := boxes(fmt.Sprintf("draw %d", i+1), "-sweep n -kappa 10 -values 300,1000,3000,10000,30000 -runs 5 "+
			"-methods lop-clip,lop-center,qop-tilt,qop-exact,anchor,nonprivate", "-runs 2 -d 10 -values 30,100")
		p.offset = i
		parts = append(parts, p)
	}
	return parts
}

// pick is full, or small with -small.
func pick[T any](b *bench, full, small T) T {
	if b.small {
		return small
	}
	return full
}

// variable needs an environment variable that names a folder with a file.
func variable(name, file string) func() error {
	return func() error {
		dir := os.Getenv(name)
		if dir == "" {
			return fmt.Errorf("%s is not set", name)
		}
		if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
			return fmt.Errorf("%s holds no %s", name, file)
		}
		return nil
	}
}

// installed needs a program.
func installed(name string) func() error {
	return func() error {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("%s is not installed", name)
		}
		return nil
	}
}

// interpreter is the Python that peers run on.
func interpreter() string { return cmp.Or(os.Getenv("PYTHON"), "/usr/bin/python3") }

// science needs numpy, scipy and scikit-learn. To import them takes seconds, so it is tried once.
var science = sync.OnceValue(func() error {
	if err := exec.Command(interpreter(), "-c", "import numpy, scipy, sklearn").Run(); err != nil {
		return fmt.Errorf("%s has no numpy, scipy, sklearn", interpreter())
	}
	return nil
})

var (
	adultData = variable("PRIVOPT_DATA", "adult/adult.test")
	racePeers = variable("PRIVOPT_PEERS", "race/mkdata.py")
)

// driver is bench/race.py with its arguments.
func driver(small string, args ...string) part {
	command := append([]string{interpreter(), "ROOT/bench/race.py", "$PRIVOPT_PEERS/race", "WORK/race"}, args...)
	return part{command: command, small: strings.Fields(small), outside: true, prepares: args[0] == "data"}
}

const (
	fewBoxes   = "-kappas 5 -runs 2"
	auditFiles = "audit -quiet -seed SEED -force -json DIR/audit.json -png DIR/audit.png"
)

// sabotage is a part whose audit has to fail.
func sabotage() part {
	p := called(auditFiles+" -sabotage all", "-sabotage relation-exactly")
	p.code = sweep.ExitCondition
	return p
}

// passes are parts that time passes in memory and in a file, one cell at a time.
func passes(name string, file bool) part {
	return part{name: name, workers: 1, experiment: func(b *bench) (*sweep.Experiment, error) {
		sizes := pick(b, []float64{1e5, 3e5, 1e6, 3e6, 1e7}, []float64{1e4, 3e4})
		if file && os.Getenv("PRIVOPT_ROWS") == "1e8" { // 10 GB
			sizes = append(sizes, 3e7, 1e8)
		}
		return experiment.Passes(5, 12, file, sizes...), nil
	}}
}

// rivals is a race against CBC on so many records.
func rivals(full, small int) part {
	return part{name: strconv.Itoa(full), workers: 1, experiment: func(b *bench) (*sweep.Experiment, error) {
		h := experiment.Halfspace{N: pick(b, full, small), Kinds: []string{"opdisc"}, Q: []int{2, 4}, Runs: pick(b, 3, 1),
			Race: pick(b, 10*time.Second, time.Second)}
		return h.Over(0.5)
	}}
}

// excess is an experiment against the number of records.
func excess(p experiment.Population, runs int, methods ...string) func(b *bench) (*sweep.Experiment, error) {
	return func(b *bench) (*sweep.Experiment, error) {
		p.Runs, p.Methods = pick(b, runs, 2), methods
		return p.Over(pick(b, []float64{1000, 2000, 4000, 8000, 16000, 32000}, []float64{1000, 2000})...), nil
	}
}

// convergence is a table for each question, with -small for one.
func convergence(ctx context.Context, b *bench) (*output, error) {
	out := &output{}
	for _, question := range pick(b, []string{"deterministic", "adaptive", "bias"}, []string{"bias"}) {
		rows, err := experiment.Curves(ctx, question)
		if err != nil {
			return nil, err
		}
		out.add("convergence-"+question, rows)
	}
	return out, nil
}

// people are fits to people with as many rows each, or with numbers of rows like those of visits.
func people(name string, visits bool) part {
	return part{name: name, experiment: func(b *bench) (*sweep.Experiment, error) {
		return experiment.Persons(uint64(b.seed), visits, pick(b, 4000, 400), pick(b, 10, 2), pick(b, 40, 2),
			pick(b, []float64{0.1, 0.2, 0.3, 0.5, 1, 2, 3}, []float64{0.5, 2})...)
	}}
}
