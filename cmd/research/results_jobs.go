// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/privopt/privopt/cmd/internal/experiment"
	"github.com/privopt/privopt/cmd/internal/sweep"
)

// job makes some files of the folder.
type job struct {
	name, what string
	seconds    bool // the table holds times
	needs      []func() error
	parts      []part
	picture    string // of the only part, taken as it is; "": drawn from the tables, or none
	collect    func(j job, folders []string) (*output, error)
}

// file is the name of the table without extension.
func (j job) file() string {
	if j.seconds {
		return j.name + "-seconds"
	}
	return j.name
}

// part is one command of this program, script or experiment of a job. In arguments, $NAME stands
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

// experimentJob is a job of one experiment.
func experimentJob(name, what string, e func(b *bench) (*sweep.Experiment, error), needs ...func() error) job {
	return job{name: name, what: what, needs: needs, parts: []part{{experiment: e}}}
}

// draws are the sweep over n or d with the anchor taken as exact, on six draws of the data.
func draws(over, small string) (parts []part) {
	for i := range 6 {
		p := swept(fmt.Sprintf("draw %d", i+1), "scaling -eta 0 -runs 20 -sweep "+over, "-runs 2 -values "+small)
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
	onAdult    = " -data $PRIVOPT_DATA/adult/adult.data -test $PRIVOPT_DATA/adult/adult.test"
	fewBoxes   = "-kappas 5 -runs 2"
	oracleRace = " -methods opdisc -q 2,4 -eps 0.5 -runs 3 -oracle cmd:cbc -timeout 10 -workers 1"
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

// people are fits to people with as many rows each, or with numbers of rows like those of visits.
func people(name string, visits bool) part {
	return part{name: name, experiment: func(b *bench) (*sweep.Experiment, error) {
		return experiment.Persons(uint64(b.seed), visits, pick(b, 4000, 400), pick(b, 10, 2), pick(b, 40, 2),
			pick(b, []float64{0.1, 0.2, 0.3, 0.5, 1, 2, 3}, []float64{0.5, 2})...)
	}}
}

// jobs in the order of docs/results.md.
var jobs = []job{
	{name: "diameter", what: "risk of linear and quadratic perturbation as the box grows", parts: []part{
		swept("ours", "scaling", fewBoxes),
		swept("exact", "scaling -eta 0 -methods qop", fewBoxes),
		swept("repaired", "scaling -calibration paper", fewBoxes),
		swept("published", "scaling -mode paper", fewBoxes),
	}},
	{name: "published", what: "the published curves, run again on their records", collect: collectPublished,
		needs: []func() error{variable("PRIVOPT_DATA", "fig2/reference.csv")},
		parts: []part{swept("", "scaling -mode paper -methods lop,lop-clip,qop,anchor -label y -data "+
			"$PRIVOPT_DATA/fig2/problem.csv -anchor $PRIVOPT_DATA/fig2/anchor.csv", fewBoxes)}},
	{name: "sweep-n", what: "the same against the number of records, for six draws of the data",
		parts: append(draws("n", "300,3000"),
			swept("declared", "scaling -sweep n -methods qop,nonprivate", "-values 300,3000 -runs 2"))},
	{name: "sweep-d", what: "the same against the dimension, for six draws of the data", parts: draws("d", "10,20")},
	{name: "sweep-eps", what: "the same against the budget",
		parts: []part{swept("", "scaling -sweep eps -eta 0", "-values 0.5,2 -runs 2 -d 20")}},
	{name: "bound", what: "utility bound of quadratic perturbation", picture: "bound.png", parts: []part{
		called("scaling -figure bound -out DIR -formats csv,json,png -quiet -resume", "-values 4")}},
	experimentJob("calibrations", "published, repaired and own noise of four families",
		func(b *bench) (*sweep.Experiment, error) {
			return experiment.Calibrations(pick(b, 100, 5), pick(b, []float64{0.1, 0.2, 0.5, 1}, []float64{0.5, 1})...), nil
		}),
	{name: "adult", what: "test accuracy on Adult", needs: []func() error{adultData}, parts: []part{
		swept("", "population"+onAdult+" -runs 20 -values 0.05,0.1,0.2,0.5,1,2 -methods lop,sgd,dpsgd -relation addremove",
			"-runs 2 -values 1,2 -methods lop")}},
	{name: "adult-peers", what: "the same of peers", needs: []func() error{adultData, racePeers, science},
		collect: collectStdout, parts: []part{driver("", "data"), driver("2 1,2", "accuracy", "SEED")}},
	experimentJob("adult-risk", "excess risk on Adult with all defaults", func(b *bench) (*sweep.Experiment, error) {
		return experiment.Adult(pick(b, 20, 2), pick(b, []float64{0.1, 0.3, 1}, []float64{1})...)
	}, adultData),
	{name: "race-peers", what: "least squares of peers on 13 data sets",
		needs:   []func() error{adultData, racePeers, science},
		collect: collectStdout, parts: []part{driver("", "data"), driver("2 1", "squares", "SEED")}},
	{name: "race", what: "automatic least squares on 13 data sets", needs: []func() error{adultData, racePeers, science},
		parts: []part{driver("", "data"), {name: "model.Fit", experiment: func(b *bench) (*sweep.Experiment, error) {
			return experiment.Race(filepath.Join(b.work, "race", "data"), uint64(10*(b.seed-1)), pick(b, 10, 2),
				pick(b, experiment.RaceSets, []string{"syn-1e3-5", "diabetes"}),
				pick(b, []float64{0.1, 0.3, 1, 3}, []float64{1})...)
		}}}},
	experimentJob("coverage", "coverage of intervals of 95 %", func(b *bench) (*sweep.Experiment, error) {
		return experiment.Coverage(pick(b, 400, 5), 2000, pick(b, []float64{0.1, 0.2, 0.5, 1, 2, 5}, []float64{0.5, 2})...),
			nil
	}),
	experimentJob("scores", "coverage of intervals of private scores", func(b *bench) (*sweep.Experiment, error) {
		return experiment.Scores(false, pick(b, 700, 5), pick(b, 300, 1), pick(b, 4_000_000, 10_000)), nil
	}),
	experimentJob("scores-persons", "the same for people with many rows", func(b *bench) (*sweep.Experiment, error) {
		return experiment.Scores(true, pick(b, 400, 3), 0, pick(b, 4_000_000, 10_000)), nil
	}),
	{name: "halfspace", what: "private halfspaces on Adult, each minimized exactly", needs: []func() error{adultData},
		picture: "accuracy.png",
		parts:   []part{swept("", "halfspace"+onAdult+" -methods opdisc,paper,logistic", "-runs 1 -eps 1 -q 2")}},
	{name: "oracle", what: "time of the exact search beside CBC", seconds: true, collect: collectLaps,
		needs: []func() error{installed("cbc")},
		parts: []part{swept("300", "halfspace -n 300"+oracleRace, "-n 100 -runs 1 -timeout 1"),
			swept("2000", "halfspace -n 2000"+oracleRace, "-n 200 -runs 1 -timeout 1")}},
	{name: "population", what: "excess population loss where privacy limits it", picture: "excess.png",
		parts: []part{swept("", "population -methods sgd,objpert,phased,psgd", "-runs 2 -values 1000,2000")}},
	{name: "population-stat", what: "the same where the records limit it", picture: "excess.png", parts: []part{
		swept("", "population -regime statistical -methods sgd,objpert,phased,onepass", "-runs 2 -values 1000,2000")}},
	{name: "population-d", what: "the same against the dimension", picture: "excess.png", parts: []part{
		swept("", "population -sweep d -methods sgd,objpert,phased -values 16,32,64,128,256 -runs 15",
			"-runs 2 -values 16,32")}},
	{name: "audit", what: "measured privacy of every mechanism", collect: collectAudit,
		parts: []part{called(auditFiles, "-mechanism lop-clip")}},
	{name: "sabotage", what: "what every sabotage looks like", collect: collectAudit, parts: []part{sabotage()}},
	experimentJob("lowbits", "the attack on the last bits of a release", func(b *bench) (*sweep.Experiment, error) {
		return experiment.LowBits(pick(b, 4000, 50), pick(b, []float64{1, 2, 5, 10, 20, 50}, []float64{1, 20})...), nil
	}),
	{name: "speed", what: "ratios of times against numpy, C and scikit-learn", seconds: true, collect: collectGoals,
		parts: []part{{command: []string{"bash", "ROOT/bench/peers.sh", "3"}, outside: true}},
		needs: []func() error{variable("PRIVOPT_PEERS", "gradpass.c"), installed("bash"), installed("gcc"), science}},
	{name: "passes", what: "scaling with n: time of a pass", seconds: true,
		parts: []part{passes("memory", false), passes("file", true)}},
	{name: "convergence", what: "how the solvers converge", collect: collectFiles,
		parts: []part{called("convergence -force -out DIR", "-figure bias")}},
	{name: "persons", what: "test loss on people with 20 rows each, and with 1 to 20",
		parts: []part{people("equal", false), people("visits", true)}},
}
