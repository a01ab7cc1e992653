// Package experiment holds the experiments behind docs/results.md that have no command of their
// own: cmd/research runs them and keeps their figures, and the tests of the packages that they
// measure assert what they show. Each is a sweep.Experiment.
//
//	o := &sweep.Options{Seed: &seed, Out: dir, Formats: []string{"csv"}}
//	results, err := experiment.Coverage(200, 2000, 0.5, 1).Run(ctx, o, stdout, stderr)
//
// # Experiments
//
//	Adult         default logistic regression on Adult: excess risk, accuracy
//	Race          automatic least squares on 13 data sets
//	Coverage      intervals of model.Fit: share that holds the truth
//	LowBits       the attack on the last bits of a release, with and without integer noise
//	Calibrations  published, repaired and own noise of four families
//	Passes        seconds of a gradient pass against the number of records
//
// # References
//
// Those of the packages that are measured.
package experiment

import (
	"os"

	"github.com/privopt/privopt/cmd/internal/sweep"
)

// folder returns the folder that an environment variable names, or an error that
// says what is missing.
func folder(variable, holds string) (string, error) {
	dir := os.Getenv(variable)
	if dir == "" {
		return "", sweep.Usagef("%s is not set: it names the folder that holds %s", variable, holds)
	}
	return dir, nil
}

// details keeps numbers beside the mean of a cell, as columns of the CSV file.
type details map[string]float64

// column shows one of the details.
func column(name string) sweep.Column {
	return sweep.Number(name, func(r sweep.Result) (float64, bool) { return Detail(r, name) })
}

// Detail returns a number that a cell keeps beside its mean: a column of the CSV file.
func Detail(r sweep.Result, name string) (float64, bool) {
	d, _ := sweep.DetailOf[details](r)
	x, ok := d[name]
	return x, ok
}
