// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package experiment holds the experiments behind docs/results.md. Each makes a sweep.Experiment,
// or the rows of a table; cmd/research runs them for their figures, and tests assert what they
// show.
//
//	o := &sweep.Options{Seed: &seed, Out: dir, Formats: []string{"csv"}}
//	results, err := experiment.Coverage(200, 2000, 0.5, 1).Run(ctx, o, stdout, stderr)
//
// # Experiments
//
//	Population    excess population loss beside its proved bounds
//	Halfspace     private halfspaces, each minimized to proven optimality
//	Curves        how the solvers converge
//	Adult         default logistic regression on Adult: excess risk; AdultAccuracy: accuracy
//	Race          automatic least squares on 13 data sets
//	Coverage      intervals of model.Fit: share that holds the truth
//	Scores        intervals of private scores: share that holds the value of the law
//	LowBits       the attack on the last bits of a release, with and without integer noise
//	Persons       people with many rows: all of them, one, or group privacy
//	Calibrations  published, repaired and own noise of four families
//	Passes        seconds of a gradient pass against the number of records
//
// # References
//
//	[BFTT19]  Bassily, Feldman, Talwar, Thakurta. Private Stochastic Convex
//	          Optimization with Optimal Rates. NeurIPS 2019.
//	[CC26]    Cortild, Cartis. Quadratic Objective Perturbation:
//	          Curvature-Based Differential Privacy. 2026.
//	[NRVW20]  Neel, Roth, Vietri, Wu. Oracle Efficient Private Non-Convex
//	          Optimization. ICML 2020.
package experiment

import (
	"os"

	"github.com/privopt/privopt/cmd/internal/sweep"
)

// folder returns the folder that an environment variable names, or an error that says what is
// missing.
func folder(variable, holds string) (string, error) {
	dir := os.Getenv(variable)
	return dir, sweep.Refuse(dir == "", "%s is not set: it names the folder that holds %s", variable, holds)
}

// seeded are the options of a run with a seed: the noise of fits comes from it, too.
var seeded = &sweep.Options{Seed: new(uint64)}

// details keeps numbers beside the mean of a cell, as columns of the CSV file.
type details map[string]float64

// column shows one of the details.
func column(name string) sweep.Column {
	return sweep.Number(name, func(r sweep.Result) (float64, bool) { return detail(r, name) })
}

// detail returns a number that a cell keeps beside its mean.
func detail(r sweep.Result, name string) (float64, bool) {
	d, _ := sweep.DetailOf[details](r)
	x, ok := d[name]
	return x, ok
}
