// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package audit

import (
	"context"
	"math"
	"slices"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/sco"
)

// stochasticParams is the step at which fits of package sco take the numbers of their plans.
var stochasticParams = fault.NewStep[sco.Params](fault.StochasticParams)

// size is n of the settings of stochastic gradients.
const size = 8

// steep are records on the line whose gradients have norm L = ½ everywhere, or 0: Huber's loss with
// far labels. rest is the label of all but the last, 0 for records without gradient.
func steep(rest float64, rel dp.Relation) [2][]record {
	list := slices.Repeat([]record{axis(1, math.Abs(sign(rest)), rest)}, size-1)
	return ended(rel, list, axis(1, 1, 50), axis(1, 1, -50))
}

// steepest is a setting of a loss on steep records, all but the last without gradient.
func steepest(l loss.Linear, rel dp.Relation) followed {
	return followed{loss: l, bounds: loss.Bounds{Row: 1, Label: 50}, budget: usual, clip: 0.5, data: steep(0, rel)}
}

// gradients is noisy SGD with batches of m of size records and T steps on A11: a canary in batches.
func gradients(scheme sco.Scheme, rel dp.Relation, m, steps int) *stochastic {
	mech := &sco.NoisySGD{Relation: rel, Scheme: scheme, Radius: 1, Steps: steps, Batch: float64(m), StepSize: 0.1}
	c := &stochastic{
		followed: steepest(loss.Huber{Delta: 0.5}, rel),
		mech:     mech, steps: steps, batches: batches{scheme, m, size, rel}, step: 0.1,
	}
	q := c.batches.rate()
	switch {
	case rel == dp.AddRemove:
		c.mixtures = func(z float64) (mixture, mixture) {
			return mixture{[]float64{1 - q, q}, []float64{0, 1}, z}, mixture{[]float64{1}, []float64{0}, z}
		}
	case scheme == sco.Poisson && m < size:
		c.mixtures = func(z float64) (mixture, mixture) {
			weights := []float64{1 - q, q}
			return mixture{weights, []float64{0, 1}, z}, mixture{weights, []float64{0, -1}, z}
		}
	default: // the other records pull the other way: each copy of the canary changes a batch by 2L
		c.data = steep(-50, rel)
		var weight, mean []float64
		for k := range m + 1 {
			w := binomial(m, k, 1/float64(size))
			if scheme != sco.WithReplacement {
				w = []float64{1 - q, q, 0}[min(k, 2)]
			}
			if w > 0 {
				weight, mean = append(weight, w), append(mean, float64(2*k-m))
			}
		}
		c.mixtures = func(z float64) (mixture, mixture) {
			return mixture{weight, mean, z}, mixture{[]float64{1}, []float64{float64(-m)}, z}
		}
	}
	return c
}

// inSpace is gradients in five dimensions, on logistic regression.
func inSpace(scheme sco.Scheme, rel dp.Relation, m, steps int) *stochastic {
	c := gradients(scheme, rel, m, steps)
	c.loss, c.bounds, c.clip, c.data, c.mixtures = loss.Logistic{}, unit, 1, space(size-1, rel), nil
	return c
}

// envelope is ProxGD on hinges.
func envelope(scheme sco.Scheme) *stochastic {
	c := inSpace(scheme, dp.Replace, 2, 3)
	c.mech = &sco.ProxGD{NoisySGD: *c.mech.(*sco.NoisySGD), Smoothing: 4}
	c.loss, c.beta = loss.Hinge{}, 4
	return c
}

// practised is DPSGD: four batches with momentum, and clipping far below the gradients.
func practised(rel dp.Relation, average bool) *stochastic {
	c := gradients(sco.Poisson, rel, 2, 4)
	mech := &sco.DPSGD{Relation: rel, Epochs: 1, Batch: 2, Clip: 0.25, StepSize: 0.1, Momentum: 0.5, Average: average}
	c.mech, c.momentum = mech, 0.5
	c.last, c.clip = !average, 0.25
	c.mixtures = nil
	c.loss, c.data = loss.Huber{Delta: 2}, steep(-50, rel)
	return c
}

var stochasticKinds = map[string]kind[*stochastic]{
	"white":   {"", WhiteBox, (*stochastic).white},
	"batches": {" batches", WhiteBox, (*stochastic).sampled},
	"exactly": {" exactly", Exact, (*stochastic).exact},
	"outside": {" from outside", BlackBox, (*stochastic).black},
}

func stochasticMechanisms() []mechanism {
	return []mechanism{{"sco-sgd", cases(stochasticKinds, []setting[stochastic]{
		{"poisson", "A11", "white batches exactly* twice", gradients(sco.Poisson, dp.Replace, 2, 3)},
		{"poisson, one step", "A11", "white exactly outside", gradients(sco.Poisson, dp.Replace, 4, 1)},
		{"poisson, add or remove", "A11", "white batches exactly*", gradients(sco.Poisson, dp.AddRemove, 2, 3)},
		{"poisson, add or remove, one step", "A11", "exactly outside", gradients(sco.Poisson, dp.AddRemove, 4, 1)},
		{"one record a batch", "A11", "white batches", gradients(sco.Poisson, dp.Replace, 1, 2)},
		{"fixed size", "A11", "white batches exactly*", gradients(sco.FixedSize, dp.Replace, 3, 3)},
		{"fixed size, one step", "A11", "white exactly outside", gradients(sco.FixedSize, dp.Replace, 3, 1)},
		{"with replacement", "A11", "white batches exactly*", gradients(sco.WithReplacement, dp.Replace, 3, 2)},
		{"all records", "A11", "white batches exactly*", gradients(sco.Poisson, dp.Replace, size, 3)},
		{"poisson, d = 5", "A11", "white twice", inSpace(sco.Poisson, dp.Replace, 2, 3)},
		{"fixed size, d = 5", "A11", "white", inSpace(sco.FixedSize, dp.Replace, 3, 2)},
		{"prox, poisson", "A11", "white batches", envelope(sco.Poisson)},
		{"prox, fixed size", "A11", "white", envelope(sco.FixedSize)},
		{"epochs, clipped", "A11", "white batches", practised(dp.Replace, false)},
		{"epochs, clipped, averaged, add or remove", "A11", "white", practised(dp.AddRemove, true)},
	}), sgdControls()}}
}

// sgd edits the numbers of the plan of noisy SGD.
func sgd(change func(p *sco.Params)) sabotage { return edit(stochasticParams, change) }

// quiet multiplies the noise.
func quiet(c float64) sabotage { return sgd(func(p *sco.Params) { p.Noise *= c }) }

// drawn draws batches by a sampler other than that of the accounting.
func drawn(s dp.Sampler) sabotage { return sgd(func(p *sco.Params) { p.Sampler = s }) }

// accountedFor draws the noise for another sampler.
func accountedFor(s dp.Sampler) sabotage {
	return sgd(func(p *sco.Params) {
		z, err := s.Noise(p.Steps, p.Budget)
		if err != nil {
			panic(err)
		}
		p.Noise = z
	})
}

// scaled multiplies integers.
func scaled(v []int64, c float64) []int64 {
	w := make([]int64, len(v))
	for i, x := range v {
		w[i] = int64(math.Round(c * float64(x)))
	}
	return w
}

// sgdControls are the sabotages of noisy SGD.
func sgdControls() []Control {
	return []Control{
		{"sgd-noise-0.9", "noise of 0.9 times its scale", "sco-sgd/A11/poisson", 0, quiet(0.9)},
		{"sgd-noise-0.95", "noise of 0.95 times its scale", "sco-sgd/A11/poisson, d = 5", 0, quiet(0.95)},
		{"sgd-noise-0.5", "noise of half its scale", "sco-sgd/A11/with replacement", 0, quiet(0.5)},
		{"sgd-noise-0.125", "noise of an eighth of its scale, seen from outside",
			"sco-sgd/A11/poisson, one step from outside", 0,
			quiet(0.125)},
		{"sgd-divisor", "the sum divided by the size of the batch", "sco-sgd/A11/poisson", 0,
			func(ctx context.Context) context.Context {
				c := 1.0 // the expected size of a batch over its size
				ctx = one(fault.Batch, func(b []int) []int { c = 2 / math.Max(1, float64(len(b))); return b })(ctx)
				ctx = one(fault.GridVector, func(v []int64) []int64 { return scaled(v, c) })(ctx)
				return one(fault.GridNoise, func(v []int64) []int64 { return scaled(v, c) })(ctx)
			}},
		{"sgd-empty", "empty batches without noise", "sco-sgd/A11/one record a batch", 0,
			func(ctx context.Context) context.Context {
				batch := 0
				ctx = one(fault.Batch, func(b []int) []int { batch = len(b); return b })(ctx)
				return one(fault.GridNoise, func(nu []int64) []int64 { return scaled(nu, math.Min(1, float64(batch))) })(ctx)
			}},
		{"sgd-fixed-for-poisson", "batches of a fixed size, accounted as Poisson", "sco-sgd/A11/poisson batches", 0,
			drawn(dp.Sampler{Size: 2, Records: size})},
		{"sgd-poisson-for-fixed", "Poisson batches, accounted as of a fixed size", "sco-sgd/A11/fixed size batches", 0,
			drawn(dp.Sampler{Rate: 3.0 / size})},
		{"sgd-repeats-for-fixed", "batches with replacement, accounted as without", "sco-sgd/A11/fixed size batches", 0,
			drawn(dp.Sampler{Size: 3, Records: size, Repeats: true})},
		{"sgd-accounted-poisson", "noise accounted for Poisson batches where they have a fixed size",
			"sco-sgd/A11/fixed size, one step", 3000,
			accountedFor(dp.Sampler{Rate: 3.0 / size})},
		{"sgd-half-rate", "noise accounted for half the rate", "sco-sgd/A11/poisson, one step", 3000,
			accountedFor(dp.Sampler{Rate: 2.0 / size})},
		{"sgd-relation", "noise accounted for added records where they are replaced", "sco-sgd/A11/poisson, one step", 3000,
			accountedFor(dp.Sampler{Rate: 4.0 / size, Relation: dp.AddRemove})},
		{"sgd-canary", "the last record in every batch", "sco-sgd/A11/poisson batches", 0,
			one(fault.Batch, func(b []int) []int {
				if len(b) == 0 || b[len(b)-1] != size-1 {
					b = append(b, size-1)
				}
				return b
			})},
		{"sgd-no-clip", "gradients not clipped", "sco-sgd/A11/epochs, clipped", 0,
			sgd(func(p *sco.Params) { p.Threshold = math.Inf(1) })},
		{"sgd-clip-batch", "the sum of a batch clipped in the place of each gradient", "sco-sgd/A11/epochs, clipped", 0,
			func(ctx context.Context) context.Context {
				g := 0.0
				ctx = sgd(func(p *sco.Params) { p.Threshold, g = math.Inf(1), p.Grid })(ctx)
				return one(fault.GridVector, func(k []int64) []int64 {
					norm := 0.0
					for _, v := range k {
						norm = math.Hypot(norm, float64(v)*g)
					}
					return scaled(k, math.Min(1, 0.25/norm))
				})(ctx)
			}},
		{"sgd-cached", "noise drawn once and used in every step", "sco-sgd/A13/poisson", 0,
			cached(fault.GridNoise, slices.Clone[[]int64])},
		{"sgd-one-batch", "one batch for all steps", "sco-sgd/A11/poisson batches", 0,
			cached(fault.Batch, slices.Clone[[]int])},
	}
}
