// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"cmp"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/table"
)

// Forecast is the accuracy that a plan expects for public guesses of the data. Only Excess is
// proved.
type Forecast struct {
	// Sigma is the standard deviation of the noise on a coordinate of the sum of gradients, and
	// Ridge the weight Δ of (Δ/2)‖θ‖², for rows and labels in [−1, 1].
	Sigma, Ridge float64
	// Deviation is the standard deviation that noise gives a coefficient of encoded rows, if the
	// records are spread evenly over the coordinates.
	Deviation float64
	// Records is the number of records above which the sampling error of a coefficient exceeds its
	// privacy error.
	Records float64
	// Excess bounds the expected mean loss above that of any solution of norm at most
	// Options.Radius; +Inf if no bound is known.
	Excess float64
}

// Forecast returns the expected accuracy of the plan.
func (pl *Plan) Forecast() Forecast {
	f := Forecast{Excess: math.Inf(1)}
	if !pl.made() {
		return f
	}
	p := pl.params
	n, d := float64(p.Records), float64(p.Dim)
	bend, slope := 1.0, 1.0
	if kinds[p.Loss.Name] != table.Range {
		bend = 0.15
	}
	if r := p.Release; r != nil {
		f.Sigma, f.Ridge = r.Sigma, r.Ridge/(p.Bounds.Row*p.Bounds.Row)
		slope = r.Lipschitz / p.Bounds.Row
		if r.Rate > 0 {
			f.Sigma = math.Sqrt(d+1) / r.Rate
		}
		f.Sigma /= p.Bounds.Row
		if n > 0 {
			f.Excess = r.ExcessBound / n
		}
	} else if q := p.Sequence; q.Shares.Gradients > 0 {
		slope = 0.25
		if p.Loss.Name != Squares {
			slope = 1
		}
		f.Sigma = slope * pl.gradients() / (math.Sqrt(0.75*q.Shares.Gradients) * q.Mu)
	} else {
		slope = cmp.Or(p.Sequence.Clip, 0.25)
		if p.Loss.Name != Squares {
			slope = 1
		}
		f.Sigma = slope * pl.gradients() / (math.Sqrt(p.Sequence.Shares.Last) * p.Sequence.Mu)
		f.Ridge = 1 / pl.curvature(p.Sequence.C)
	}
	f.Deviation = f.Sigma / (bend*n/d + f.Ridge)
	f.Records = math.Ceil(f.Sigma * f.Sigma * d * 4 / (slope * slope))
	return f
}

// Coefficients returns the standard deviation that noise is expected to give each coefficient, in
// the units of the file; nil without a schema.
func (pl *Plan) Coefficients() []table.Coefficient {
	if !pl.made() || pl.encoder == nil {
		return nil
	}
	dev := pl.Forecast().Deviation
	var out []table.Coefficient
	for _, f := range pl.encoder.Forms() {
		c := f.Coefficient
		c.Value = dev * floats.Norm(f.Weights, 2)
		out = append(out, c)
	}
	return out
}
