// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/table"
)

// Levels that hardly occur. Records say nothing of their effect, so a row that has one gets the
// prediction of an average row, in place of noise. What is known of how often they occur comes
// from matrices that were released for another purpose, and in automatic fits from counts of the
// levels that the noise of the matrix may hide. Plans of one release have neither, and keep the
// noise: counts for a share of 2 % of μ² have more noise than the coefficients of the levels that
// they would shrink, so that predictions of a level of 300 records in 8,000 would get worse.

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

// unlisted reports whether a coordinate is that of the values without a declared level, "other" or
// "missing", of a column.
func unlisted(name, column string) bool { return name == column+" other" || name == column+" missing" }

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

// absentNoise returns the largest deviation that the noise of a release gives the coefficient of a
// level that no record has, θ_j = −b_j/(Δ+μ_r), which a lasso or a set can only shorten; 0 for nil.
func absentNoise(r *lop.Params, e *table.Encoder) float64 {
	if r == nil || e == nil {
		return 0
	}
	sigma, most := r.Sigma, 0.0
	if r.Rate > 0 { // of a coordinate: E‖b‖² = d(d+1)/a²
		sigma = math.Sqrt(float64(r.Dim)+1) / r.Rate
	}
	for _, f := range e.Features() {
		if indicator(f) {
			most = max(most, f.Scale)
		}
	}
	return finite(max(most*sigma/(r.Ridge+r.Modulus), 0)) // a file may have changed numbers
}

// absentLevel is a level that no made-up row has, absentRuns the number of fits with it.
const (
	absentLevel = "\u2026absent"
	absentRuns  = 12
)

// absent simulates the plan with one more level that no row has, in the column with the most levels
// that is in no combination, and returns the root mean square of its effect against the mean of
// the declared levels, which are equally frequent. It is 0 without such a column.
func (pl *Plan) absent(ctx context.Context, rate float64) (float64, error) {
	if pl.params.Intervals != nil && pl.params.Dim > roughDim {
		return 0, nil
	}
	columns := pl.encoder.Schema().Columns
	crossed := map[string]bool{}
	for _, c := range columns {
		for _, name := range c.Cross {
			crossed[name] = true
		}
	}
	most := -1
	for i, c := range columns {
		if !c.Ignore && len(c.Levels) > 0 && !crossed[c.Name] && (most < 0 || len(c.Levels) > len(columns[most].Levels)) {
			most = i
		}
	}
	if most < 0 {
		return 0, nil
	}
	s, err := pl.simulation(absentRuns, rate, func(s *table.Schema) {
		s.Columns[most].Levels = append(s.Columns[most].Levels, absentLevel)
	})
	if err != nil {
		return 0, err
	}
	t, other, err := s.task(1)
	if err != nil {
		return 0, err
	}
	name := columns[most].Name
	square, classes := 0.0, 0
	for k := range uint64(absentRuns) {
		out, err := other.run(ctx, t.problem, dp.Seeded(outlookSeed+1+k))
		if err != nil {
			return 0, err
		}
		effects := map[string]float64{} // of the absent level less the mean of the others, by class
		for _, c := range t.encoder.Coefficients(out.theta) {
			switch {
			case c.Column != name || unlisted(c.Name, name):
			case c.Name == name+"="+absentLevel:
				effects[c.Class] += c.Value
			default:
				effects[c.Class] -= c.Value / float64(len(columns[most].Levels))
			}
		}
		for _, v := range effects {
			square += v * v
			classes++
		}
	}
	return math.Sqrt(square / float64(classes)), nil
}
