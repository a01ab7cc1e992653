// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package experiment

import (
	"context"
	"math"
	"math/rand/v2"

	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/model"
	"github.com/privopt/privopt/table"
)

// Intervals whose coverage is measured: that of model.Fit; the same without the
// variance of the noise; the same around the coefficient with its shrinkage.
const (
	wholeInterval = "interval"
	noNoise       = "without the variance of the noise"
	noDebiased    = "around the coefficient itself"
)

// Coverage fits three coefficients to n records with intervals of 95 %, and counts how often these
// hold the truth. The column weak is the share of intervals that the model calls weak.
func Coverage(runs, n int, epsilons ...float64) *sweep.Experiment {
	theta := []float64{0.3, -0.35, 0.4}
	return &sweep.Experiment{
		Name: "coverage", Sweep: "eps", Values: epsilons, Methods: []string{wholeInterval, noNoise, noDebiased},
		Params:  map[string]any{"runs": runs, "n": n},
		Columns: []sweep.Column{column("weak")},
		Prepare: func(_ context.Context, c sweep.Cell) (sweep.Task, error) {
			weak := 0.0
			return sweep.Task{
				Runs: runs,
				Run: func(ctx context.Context, src rand.Source) (float64, error) {
					rnd := rand.New(src)
					data, err := linearData(rnd, n, theta)
					if err != nil {
						return 0, err
					}
					m, err := model.Fit(ctx, data, dp.Budget{Epsilon: c.Value, Delta: model.DefaultDelta(n)}, &model.Options{
						Loss: model.Loss{Name: model.Squares}, Relation: dp.AddRemove, Records: n, Clip: 0.5,
						Intervals: &model.Intervals{Radius: math.Sqrt(3)}, Source: noise.Reproducible(rnd.Uint64(), "coverage"),
					})
					if err != nil {
						return 0, err
					}
					hits := 0.0
					for j, row := range m.Summary().Rows {
						i := row.Interval
						middle, half := i.Debiased, (i.Upper-i.Lower)/2
						switch c.Method {
						case noNoise:
							half *= math.Sqrt(max(0, 1-i.PrivacyErr*i.PrivacyErr/(i.StdErr*i.StdErr)))
						case noDebiased:
							middle = row.Estimate
						}
						if covers(i.Unidentified, middle, half, theta[j]) {
							hits++
						}
						if i.Weak {
							weak++
						}
					}
					return hits / float64(len(theta)), nil
				},
				Detail: func() any { return details{"weak": weak / float64(runs*len(theta))} },
			}, nil
		},
	}
}

// covers reports whether the interval middle ± half holds theta. One that is unidentified is the
// whole line, whatever the numbers in its place.
func covers(unidentified bool, middle, half, theta float64) bool {
	return unidentified || math.Abs(theta-middle) <= half
}

// linearData are n records with rows [1, x]/√d, x uniform in [−1, 1], and labels ⟨a,θ₀⟩ + 0.1N.
func linearData(rnd *rand.Rand, n int, theta []float64) (*table.Data, error) {
	d := len(theta)
	rows, labels := make([][]float64, n), make([]float64, n)
	for i := range rows {
		rows[i] = make([]float64, d)
		for j := range rows[i] {
			x := 1.0
			if j > 0 {
				x = 2*rnd.Float64() - 1
			}
			rows[i][j] = x / math.Sqrt(float64(d))
			labels[i] += rows[i][j] * theta[j]
		}
		labels[i] += 0.1 * rnd.NormFloat64()
	}
	data, err := erm.NewData(rows, labels, loss.Bounds{Row: 1, Label: 1})
	return &table.Data{Records: data}, err
}
