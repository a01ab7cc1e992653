// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"cmp"
	"math"
)

// Forecast holds numbers of a plan that follow from public quantities by formulas. Only Excess is
// about accuracy, and proved; [Plan.Outlook] simulates the rest.
type Forecast struct {
	// Sigma is the standard deviation of the noise on a coordinate of the sum of gradients, and
	// Ridge the weight Δ of (Δ/2)‖θ‖², for rows and labels in [−1, 1].
	Sigma, Ridge float64
	// Excess bounds the expected mean loss above that of any solution of norm at most
	// Options.Radius; +Inf if no bound is known.
	Excess float64
}

// Forecast returns the numbers of the plan.
func (pl *Plan) Forecast() Forecast {
	f := Forecast{Excess: math.Inf(1)}
	if !pl.made() {
		return f
	}
	p := pl.params
	slope := 1.0
	if r := p.Release; r != nil {
		f.Sigma, f.Ridge = r.Sigma, r.Ridge/(p.Bounds.Row*p.Bounds.Row)
		if r.Rate > 0 {
			f.Sigma = math.Sqrt(float64(p.Dim)+1) / r.Rate
		}
		f.Sigma /= p.Bounds.Row
		if p.Records > 0 {
			f.Excess = r.ExcessBound / float64(p.Records)
		}
		return f
	}
	q := p.Sequence
	if q.Shares.Gradients > 0 {
		if p.Loss.Name == Squares {
			slope = 0.25
		}
		f.Sigma = slope * pl.gradients() / (math.Sqrt(0.75*q.Shares.Gradients) * q.Mu)
		return f
	}
	if p.Loss.Name == Squares {
		slope = cmp.Or(q.Clip, 0.25)
	}
	f.Sigma = slope * pl.gradients() / (math.Sqrt(q.Shares.Last) * q.Mu)
	f.Ridge = 1 / pl.curvature(q.C)
	return f
}
