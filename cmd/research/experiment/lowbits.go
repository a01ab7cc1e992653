// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package experiment

import (
	"context"
	"math/rand/v2"

	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
)

// Releases that the attack looks at.
const (
	floatNoise   = "float64 noise, added in float64"
	integerNoise = "release of this module"
)

// LowBits lets the attack look at releases of output perturbation at ε = 1, δ = 1e-6, in each of
// the given dimensions: minimizers with Gaussian noise of the same deviation, added in float64 as
// textbooks have it, and what lop.Output releases. Two data sets of 200 records differ in the label
// of the last. The attacker knows both minimizers and names the one that the release can come from,
// if only one is possible. The outcome is 1 for a release that is named rightly, −1 for one that is
// named wrongly, else 0; the columns right and wrong are shares.
func LowBits(runs int, dims ...float64) *sweep.Experiment {
	const n = 200
	return &sweep.Experiment{
		Name: "lowbits", Sweep: "d", Values: dims, Methods: []string{floatNoise, integerNoise},
		Params:  map[string]any{"runs": runs, "n": n},
		Columns: []sweep.Column{column("right"), column("wrong")},
		Prepare: func(_ context.Context, c sweep.Cell) (sweep.Task, error) {
			d := int(c.Value)
			rnd := rand.New(noise.Reproducible(uint64(d), "records"))
			rows, labels := make([][]float64, n), make([]float64, n)
			for i := range rows {
				rows[i] = make([]float64, d)
				for j := range rows[i] {
					rows[i][j] = rnd.NormFloat64()
				}
				labels[i] = float64(1 - 2*rnd.IntN(2))
			}
			var minimizer [2][]float64
			var problems [2]*erm.Problem
			var plans [2]*lop.Plan
			for k := range plans {
				labels[n-1] = float64(1 - 2*k)
				data, err := erm.NewData(rows, labels, loss.Bounds{Row: 1, Label: 1})
				if err != nil {
					return sweep.Task{}, err
				}
				problems[k] = &erm.Problem{Data: data, Loss: loss.Logistic{}}
				m := &lop.Output{Radius: 1, Trace: func(t erm.Trace) { minimizer[k] = t.Theta }}
				if plans[k], err = m.Plan(problems[k], dp.Budget{Epsilon: 1, Delta: 1e-6}); err != nil {
					return sweep.Task{}, err
				}
				if _, err := plans[k].Fit(context.Background(), problems[k], noise.Reproducible(0)); err != nil {
					return sweep.Task{}, err
				}
			}
			named, wrong := 0.0, 0.0
			nu := make([]float64, d)
			return sweep.Task{
				Runs: runs,
				Run: func(ctx context.Context, src rand.Source) (float64, error) {
					own := int(src.Uint64() & 1)
					var release []float64
					if c.Method == floatNoise {
						noise.Normal(nu, plans[own].Params().OutputSigma, src)
						for j, v := range nu {
							release = append(release, minimizer[own][j]+v)
						}
					} else {
						rel, err := plans[own].Fit(ctx, problems[own], src)
						if err != nil {
							return 0, err
						}
						release = rel.Theta
					}
					right := testkit.Reaches(minimizer[own], release, testkit.Sums)
					other := testkit.Reaches(minimizer[1-own], release, testkit.Sums)
					switch {
					case right && !other:
						named++
						return 1, nil
					case other && !right:
						wrong++
						return -1, nil
					}
					return 0, nil
				},
				Detail: func() any { return details{"right": named / float64(runs), "wrong": wrong / float64(runs)} },
			}, nil
		},
	}
}
