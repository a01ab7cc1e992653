// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

// Numbers of gradient steps, fixed on public data.
const (
	descentSteps   = 100
	descentRate    = 8    // most of η
	descentSlow    = 0.06 // η over μn₀, up to the most: more noise, slower steps
	descentClip    = 0.1  // of gradients of Squares, over their range
	logisticClip   = 0.3  // the same of Logistic
	descentEdge    = 1.2  // used from this norm of the noise of a Gram matrix on, over X²n/d
	descentEpsilon = 0.5  // and up to this ε
	descentRecords = 200  // and from this number of records on
)

const descentWords = "Gradient steps over all records, because the least ridge of a minimizer would exceed the " +
	"curvature of so few records."

// steep plans gradient steps in place of minimizers, for squares and the logistic loss, and reports
// whether it did: where the noise of a Gram matrix would exceed the curvature that data of so few
// records can have. Then so does the least ridge of a minimizer, and gradient steps have no ridge.
// Under a search for a schema the dimension is an output, and persons have weights: neither is
// proved for steps.
func (pl *Plan) steep(q erm.Public, o Options) (bool, error) {
	b, n, d := pl.params.Budget, float64(q.Records), float64(q.Dim)
	clip := map[string]float64{Squares: cmp.Or(o.Clip, descentClip), Logistic: logisticClip}[o.Loss.Name]
	if clip == 0 || o.Intervals != nil || b.Delta == 0 || b.Epsilon > descentEpsilon || n < descentRecords ||
		q.MaxRecords > mostSummed || d > mostDim || n*d > mostEntries || q.Rows > 0 || pl.search > 0 {
		return false, nil
	}
	s := &Sequence{Steps: descentSteps, Map: fullMap, Shares: Shares{Gradients: 1}}
	var err error
	if s.Mu, err = pl.mu(*s, 0); err != nil || !(pl.edge(*s) > descentEdge*n/d) {
		return false, err
	}
	s.Map, s.Clip = "", clip
	pl.smoothness, pl.params.Sequence, pl.params.Decision = q.Constants.Smoothness, s, descentWords
	pl.finish(q, s, o)
	return true, nil
}

// descent takes T steps of projected gradient descent over all records,
//
//	θ ← prox_{γ(r+ι_C)}(θ − γ(Σᵢ clip(gᵢ) + noise)),  γ = η/(βn₀),  η = min(8, 0.06 μn₀)
//
// and returns the mean of the points of the second half. The term of a record is rounded by itself
// to a public grid. Each sum is a Gaussian release, and the points are functions of these.
func (pl *Plan) descent(ctx context.Context, p *erm.Problem, direct rand.Source) (*outcome, error) {
	s, d := *pl.params.Sequence, pl.params.Dim
	inner, _ := p.Loss.(loss.Linear)
	most, sigma, gamma, exponent := pl.stepScales()
	l := loss.Clipped{Loss: inner, Threshold: most}
	g, _ := prox.Sum(p.Reg, p.Set)
	theta, mean, sum := make([]float64, d), make([]float64, d), make([]int64, d)
	unit := math.Ldexp(1, -exponent)
	half := s.Steps / 2
	f := fault.From(ctx)
	for step := range s.Steps {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("%w: %w", dp.ErrWithheld, err)
		}
		clear(sum)
		err := p.Data.Each(func(a []float64, b float64) {
			norm := floats.Norm(a, 2)
			_, slope, _ := l.Scalar(floats.Dot(a, theta), b, norm)
			if norm == 0 || slope == 0 {
				return
			}
			limit := most / norm
			slope = max(min(slope, limit), -limit) * unit
			for j, v := range a {
				if v != 0 {
					sum[j] += int64(math.RoundToEven(slope * v))
				}
			}
		})
		if err != nil {
			return nil, err
		}
		noisy := withNoise(fault.At(f, fault.Gradients, sum), fault.At(f, fault.SumSigma, sigma), exponent, direct)
		floats.AddScaled(theta, -gamma, noisy)
		if g != nil {
			g.Prox(theta, theta, gamma)
		}
		if step >= half {
			floats.AddScaled(mean, 1/float64(s.Steps-half), theta)
		}
	}
	return &outcome{theta: mean, cert: pl.cert, choice: &Choice{Clip: s.Clip, Sigma: sigma}}, nil
}

// stepScales returns the clip of gradients in the units of the loss, the standard deviation of the
// noise of a step, γ, and the exponent of the grid.
func (pl *Plan) stepScales() (most, sigma, gamma float64, exponent int) {
	s := pl.params.Sequence
	most = s.Clip * pl.slopes()
	sensitivity, exponent := gradientSensitivity(most, pl.gradients(), pl.params.Dim)
	sigma = sensitivity * math.Sqrt(float64(s.Steps)) / pl.shift(s.Shares.Gradients) * safeScale
	return most, sigma, pl.rate() / (pl.smoothness * float64(pl.params.Records)), exponent
}

// checkSteps returns an error for bounds so large or so small that the noise, the points or their
// products may leave the range of float64. It reads no record.
func (pl *Plan) checkSteps() error {
	most, sigma, gamma, _ := pl.stepScales()
	far := gamma * (most*float64(pl.params.MaxRecords) + sigma) * float64(pl.params.Sequence.Steps)
	for _, v := range []float64{most, sigma, gamma, far} {
		if !(v >= 0x1p-500 && v <= 0x1p500) {
			return fmt.Errorf("model: %w: gradient steps for rows up to %.3g and labels up to %.3g leave the range of float64: "+
				"rescale the columns and the label", dp.ErrCondition, pl.params.Bounds.Row, pl.params.Bounds.Label)
		}
	}
	return nil
}

// rate returns η.
func (pl *Plan) rate() float64 {
	return min(descentRate, descentSlow*pl.params.Sequence.Mu*float64(pl.params.Records))
}

// gradientSensitivity returns the ℓ₂ sensitivity of a sum of gradients of norm at most bound that
// are rounded to a grid, times 1 or 2, and the exponent of the grid:
//
//	add or remove  bound + g√d/2
//	replace        2·bound + g√d
//
// The factor covers the rounding of the float64 products.
func gradientSensitivity(bound, pair float64, d int) (sensitivity float64, exponent int) {
	root := math.Sqrt(float64(d))
	_, e := math.Frexp(bound / root)
	exponent = e - 1 - 20
	return pair * (bound*(1+0x1p-40) + math.Ldexp(root, exponent-1)), exponent
}

// slopes returns the range of the norms of gradients.
func (pl *Plan) slopes() float64 {
	b := pl.params.Bounds
	if pl.params.Loss.Name == Squares {
		return b.Row * b.Label
	}
	return b.Row
}
