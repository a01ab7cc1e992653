// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/loss"
)

// The noisy sums of data by person. What a person adds is summed up in float64 and rounded once, so
// that sensitivities are those of one record.

// personCounts adds to counts, for every person, the weights of its lines by bins, rounded down to
// the grid. Sums of weights are exact, so a person adds at most 1 in all.
func personCounts(
	ctx context.Context, data *erm.Data, counts []int64, exponent int, bin func(a []float64, b float64) int,
) error {
	add := func(dst []float64, w float64, a []float64, b float64) { dst[bin(a, b)] += w }
	return data.EachPerson(ctx, len(counts), math.Inf(1), add, func(v []float64) {
		for k, c := range v {
			counts[k] += int64(math.Floor(math.Ldexp(c, -exponent)))
		}
	})
}

// personSums is sums for data by person. The first matrix has the terms Σ wᵢφ″aᵢaᵢ′ over the lines
// of a person; the second has gg′ for the gradient g = Σ wᵢφ′aᵢ of a person, as in standard errors
// that are robust to clusters [LZ86]. Each is clamped to its bound.
//
// [LZ86] Liang, Zeger. Longitudinal data analysis using generalized linear models. Biometrika 1986.
func personSums(
	ctx context.Context, data *erm.Data, theta []float64, l loss.Linear, bounds [2]float64, exponent [2]int,
) (out [2][]int64, err error) {
	_, d := data.Dims()
	m := d * (d + 1) / 2
	out[0], out[1] = make([]int64, m), make([]int64, m)
	err = data.EachPerson(ctx, m, bounds[0], func(dst []float64, w float64, a []float64, b float64) {
		norm := floats.Norm(a, 2)
		if _, _, c := l.Scalar(floats.Dot(a, theta), b, norm); norm > 0 && c > 0 {
			outer(dst, a, w*min(c, bounds[0]/(norm*norm)))
		}
	}, func(v []float64) {
		for k, c := range v {
			out[0][k] += int64(math.RoundToEven(math.Ldexp(c, -exponent[0])))
		}
	})
	if err != nil {
		return out, err
	}
	// √ rounds to half a unit in the last place, which the factor 1 + 2⁻⁴⁰ of sumSensitivity includes.
	err = data.EachPerson(ctx, d, math.Sqrt(bounds[1]), func(dst []float64, w float64, a []float64, b float64) {
		if norm := floats.Norm(a, 2); norm > 0 {
			_, s, _ := l.Scalar(floats.Dot(a, theta), b, norm)
			most := math.Sqrt(bounds[1]) / norm
			floats.AddScaled(dst, w*max(-most, min(s, most)), a)
		}
	}, func(g []float64) { addOuter(out[1], g, math.Ldexp(1, -exponent[1])) })
	return out, err
}

// outer adds the vector (diagonal, √2·upper triangle) of waa′ to dst, row by row.
func outer(dst, a []float64, w float64) {
	at := 0
	for j, v := range a {
		wv := w * v
		dst[at] += wv * v
		wv *= math.Sqrt2
		for k, u := range a[j+1:] {
			dst[at+1+k] += wv * u
		}
		at += len(a) - j
	}
}
