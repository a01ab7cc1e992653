// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/release"
)

// Limits under which sums of integers stay below 2⁶⁰: a record adds at most 2²¹√m < 2³¹.
const (
	mostSummed = 1 << 29 // records
	mostDim    = 1000    // parameters
)

// withNoise returns g·(k + round(τN/g)), g = 2^exponent.
func withNoise(k []int64, tau float64, exponent int, src rand.Source) []float64 {
	law := release.Noise{Exponent: exponent, Sigma: tau}
	nu, out := make([]int64, len(k)), make([]float64, len(k))
	defer clear(nu)
	law.Fill(nu, src)
	law.Add(out, k, nu)
	return out
}

// edges are the public edges of histograms of |r|‖a‖, in units of Row·Label.
var edges = []float64{0.02, 0.03, 0.045, 0.065, 0.09, 0.12, 0.16, 0.22, 0.3, 0.4, 0.55, 0.75, 1}

// histogram is a noisy histogram over the edges.
type histogram []float64

// newHistogram releases the histogram of |b−⟨a,θ⟩|‖a‖; a nil theta is 0. Each record counts in one
// bin, and a person with the weights of its lines, so the sensitivity is 1, or √2 for a record or a
// person that is replaced. The counts are multiples of the grid, a power of two below the noise.
func newHistogram(
	ctx context.Context, data *erm.Data, theta []float64, tau float64, src rand.Source,
) (histogram, error) {
	unit := data.Bounds().Row * data.Bounds().Label
	return countBins(ctx, data, edges, tau, src, func(a []float64, r float64) float64 {
		if theta != nil {
			r -= floats.Dot(a, theta)
		}
		return math.Abs(r) * floats.Norm(a, 2) / unit
	})
}

// bin returns the bin of v: the first whose edge is at least v, the last for all others.
func bin(edges []float64, v float64) int {
	for k, e := range edges[:len(edges)-1] {
		if v <= e {
			return k
		}
	}
	return len(edges) - 1
}

// countBins releases the histogram of v over the records.
func countBins(
	ctx context.Context, data *erm.Data, edges []float64, tau float64, src rand.Source,
	v func(a []float64, b float64) float64,
) (histogram, error) {
	counts, exponent := make([]int64, len(edges)), countGrid(tau)
	of := func(a []float64, b float64) int { return bin(edges, v(a, b)) }
	var err error
	if _, persons := data.Persons(); persons {
		err = personCounts(ctx, data, counts, exponent, of)
	} else {
		err = data.Each(func(a []float64, r float64) { counts[of(a, r)] += 1 << -exponent })
	}
	if err != nil {
		return nil, err
	}
	s := fault.At(fault.From(ctx), fault.Release, fault.Sum{Terms: counts, Exponent: exponent, Sigma: tau})
	return withNoise(s.Terms, s.Sigma, s.Exponent, src), nil
}

// countGrid returns the exponent of a grid well below tau; 1 is a multiple of the grid.
func countGrid(tau float64) int {
	_, e := math.Frexp(min(tau, 1))
	return max(min(e-20, 0), -30)
}

// cdf returns the share of records up to each edge: increasing, in [0, 1]. If the noisy total is at
// most least, which noise alone may reach, cdf divides by n instead.
func (h histogram) cdf(n, least float64) []float64 {
	total := floats.Sum(h)
	if total <= least {
		total = n
	}
	f, sum := make([]float64, len(h)), 0.0
	top := 0.0
	for k, c := range h {
		sum += c
		top = max(top, min(sum/max(1, total), 1))
		f[k] = top
	}
	return f
}

// quantile returns the point where the cdf f reaches q, linear inside a bin.
func quantile(f []float64, q float64) float64 {
	k := slices.IndexFunc(f, func(v float64) bool { return v >= q })
	if k < 0 {
		k = len(f) - 1
	}
	lo, below := 0.0, 0.0
	if k > 0 {
		lo, below = edges[k-1], f[k-1]
	}
	if !(f[k] > below) {
		return edges[k]
	}
	return lo + (edges[k]-lo)*min(max((q-below)/max(1e-9, f[k]-below), 0), 1)
}

// secondMoment returns Σp̂·mid², in [0.001, 1].
func (h histogram) secondMoment() float64 {
	sum, square := 0.0, 0.0
	lo := 0.0
	for k, c := range h {
		mid := (lo + edges[k]) / 2
		lo = edges[k]
		sum += max(c, 0)
		square += max(c, 0) * mid * mid
	}
	return min(max(square/max(1, sum), 1e-3), 1)
}

// Choice holds the numbers that a plan with histograms chose from its noisy outputs, in units of
// the declared bounds. It is part of the release.
type Choice struct {
	FirstClip float64 `json:"firstClip,omitzero"`
	Clip      float64 `json:"clip,omitzero"`
	// Clipped is the estimated share of records whose gradient is longer than Clip.
	Clipped float64 `json:"clipped,omitzero"`
	Signal  float64 `json:"signal,omitzero"` // ρ̂², for which the ridge is tuned
	Ridge   float64 `json:"ridge"`           // Δ of the last minimizer, 0 without one
	Sigma   float64 `json:"sigma"`           // noise of the last minimizer, or of the last gradient
	// OutputSigma is the standard deviation of the noise on θ itself.
	OutputSigma float64 `json:"outputSigma"`
	// Average names the levels and bins that an automatic fit gave mostly the effect of an average
	// row: noise hides whether any record has them.
	Average []string `json:"average,omitempty"`
}

// choose sets the clip and the signal energy of the last minimizer, from the histogram of residuals
// and square, the estimate of the mean of b²; least is that of cdf. unit is G/s for gradients of
// norm at most 1.
func (c *Choice) choose(resid histogram, square, n, least, d, unit float64) {
	f := resid.cdf(n, least)
	tau := unit * math.Sqrt(d) / n
	q := min(max(1-20*tau, 0.5), 0.98)
	c.Clip = min(max(quantile(f, q), leastClip), 1)
	c.Clipped = 1 - q
	c.Signal = max(leastSignal, square/2, square-resid.secondMoment())
}
