// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package experiment holds the experiments behind docs/results.md. Each is a sweep.Experiment. Some
// are commands with flags of their own; cmd/research runs the others for their figures, and tests
// of the packages that they measure assert what they show.
//
//	o := &sweep.Options{Seed: &seed, Out: dir, Formats: []string{"csv"}}
//	results, err := experiment.Coverage(200, 2000, 0.5, 1).Run(ctx, o, stdout, stderr)
//
// # Experiments
//
//	Scaling       linear beside quadratic perturbation as a box, the data or the budget grows
//	Population    excess population loss beside its proved bounds
//	Halfspace     private halfspaces, each minimized to proven optimality
//	Convergence   how the solvers converge
//	Adult         default logistic regression on Adult: excess risk, accuracy
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
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/dp"
)

// folder returns the folder that an environment variable names, or an error that says what is
// missing.
func folder(variable, holds string) (string, error) {
	dir := os.Getenv(variable)
	return dir, sweep.Refuse(dir == "", "%s is not set: it names the folder that holds %s", variable, holds)
}

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

// once is the task of a method without noise.
func once(f func(context.Context) (float64, error)) sweep.Task {
	return sweep.Task{Runs: 1, Run: func(ctx context.Context, _ rand.Source) (float64, error) { return f(ctx) }}
}

// sizes are the quantities that experiments sweep.
type sizes struct {
	N       int     `json:"n,omitempty"`
	D       int     `json:"d,omitempty"`
	Epsilon float64 `json:"eps"`
	Kappa   float64 `json:"kappa,omitempty"`
}

// set gives the swept quantity a value.
func (s *sizes) set(name string, value float64) {
	switch name {
	case "n":
		s.N = int(value)
	case "d":
		s.D = int(value)
	case "eps":
		s.Epsilon = value
	case "kappa":
		s.Kappa = value
	}
}

// parseSwept reads the flag -values for a swept quantity.
func parseSwept(name, list string) ([]float64, error) {
	r := map[string]sweep.Range{"n": sweep.Between(1, 1e7), "d": sweep.Between(1, 5000), "eps": sweep.Positive(1e5),
		"kappa": sweep.Positive(1e9)}[name]
	return sweep.ParseValues("values", list, r, name == "n" || name == "d")
}

// fitter is a calibrated mechanism: it fits the records for which it was planned.
type fitter func(ctx context.Context, src rand.Source) (*dp.Release, error)

// fitted is what a cell keeps of its fits.
type fitted struct {
	Certificate *dp.Certificate `json:"certificate,omitempty"`
	Seconds     []float64       `json:"seconds,omitempty"` // of each fit
}

// fit returns a released parameter. Without a seed the noise is secure, and no caller vouches for
// it.
func (d *fitted) fit(ctx context.Context, o *sweep.Options, src rand.Source, fit fitter) ([]float64, error) {
	if o.Seed == nil {
		src = nil
	}
	start := time.Now()
	release, err := fit(ctx, src)
	d.Seconds = append(d.Seconds, time.Since(start).Seconds())
	if err != nil {
		return nil, err
	}
	d.Certificate = &release.Certificate // of every fit, but for the assumption on the source the same
	return release.Theta, nil
}

// secondsColumn is the median time of the fits of a cell.
var secondsColumn = sweep.Number("fit_seconds_median", func(r sweep.Result) (float64, bool) {
	d, _ := sweep.DetailOf[fitted](r)
	if len(d.Seconds) == 0 {
		return 0, false
	}
	return sweep.Median(d.Seconds), true
})

// releases lists a certificate for each of n releases.
func releases(c *dp.Certificate, n int) []dp.Certificate {
	return slices.Repeat([]dp.Certificate{*c}, n)
}

// cost returns what all releases cost together, nil if their sum is no budget, and a line that says
// it.
func cost(certificates []dp.Certificate) (*dp.Budget, string) {
	n := len(certificates)
	all, err := dp.Basic(certificates...)
	if err != nil {
		return nil, fmt.Sprintf("publishing all %d releases would promise nothing: their ε and δ add up beyond every "+
			"meaningful budget", n)
	}
	return &all.Budget, fmt.Sprintf("publishing all %d releases, or the best of them, would cost (ε = %.4g, δ = %.4g) "+
		"together", n, all.Epsilon, all.Delta)
}

// promises words a certificate and its assumptions.
func promises(method, at string, c *dp.Certificate) []string {
	lines := []string{fmt.Sprintf("%s%s: %v, %v neighbors, by %s", method, at, c.Budget, c.Relation, c.Theorem)}
	for _, a := range c.Assumptions {
		lines = append(lines, fmt.Sprintf("%s: assumes that %s", method, a))
	}
	return lines
}

// digits writes four digits of x.
func digits(x float64) string { return strconv.FormatFloat(x, 'g', 4, 64) }

// logSlope is the least-squares slope of log y against log x.
func logSlope(x, y []float64) float64 {
	logs := func(x []float64) []float64 {
		l := make([]float64, len(x))
		for i, v := range x {
			l[i] = math.Log(v)
		}
		return l
	}
	_, slope := stat.LinearRegression(logs(x), logs(y), nil, false)
	return slope
}
