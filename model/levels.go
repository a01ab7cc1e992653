// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/table"
)

// Levels that hardly occur. Records say nothing of their effect, so a row that has one gets the
// prediction of an average row, in place of noise. What is known of how often they occur comes from
// matrices that were released for another purpose.

// leastSeen is the number of deviations of its noise at which the sum of squares of an indicator
// counts half.
const leastSeen = 3.0

// seen returns how surely a level occurs, from 0 to 1, by a noisy sum of squares of its indicator.
func seen(sum, noise float64) float64 {
	x := math.Pow(max(sum, 0)/(leastSeen*noise), 4)
	if math.IsInf(x, 1) {
		return 1
	}
	return x / (1 + x)
}

// indicator reports whether a coordinate is that of a level, a bin or a combination of them.
func indicator(f table.Feature) bool { return f.Column != "" && f.Column != f.Name }

// average moves θ_j of levels that hardly occur, by the weight 1 − w_j, to the value at which their
// column adds to a score what it adds to that of an average row, ⟨mean, θ⟩ over the column. With a
// mean of 0 that is nothing.
func average(e *table.Encoder, theta, w, mean []float64) {
	unit := e.LabelValue(1) - e.LabelValue(0)
	sums := map[string]float64{}
	features := e.Features()
	for j, f := range features {
		sums[f.Column] += mean[j] * theta[j]
	}
	for j, f := range features {
		if w[j] < 1 {
			theta[j] = w[j]*theta[j] + (1-w[j])*sums[f.Column]*unit/f.Scale
		}
	}
}

// averageUnseen is average by the sums for standard errors, with the same levels as for intervals.
func (m *moments) averageUnseen(e *table.Encoder, theta []float64) {
	q := &inference{theta: theta, hessian: m.hessian, tauH: m.hessianTau}
	kept, means := q.occurring(e)
	if len(kept) == len(theta) {
		return
	}
	w := make([]float64, len(theta))
	for j, f := range e.Features() {
		if !indicator(f) || slices.Contains(kept, j) {
			w[j] = 1
		}
		if f.Column == "" {
			floats.Scale(f.Offset/(e.LabelValue(1)-e.LabelValue(0)), means)
		}
	}
	average(e, theta, w, means)
}

// weighted returns diag(w) A diag(w).
func weighted(a *mat.SymDense, w []float64) *mat.SymDense {
	out := mat.NewSymDense(len(w), nil)
	for i := range w {
		for j := i; j < len(w); j++ {
			out.SetSym(i, j, w[i]*w[j]*a.At(i, j))
		}
	}
	return out
}
