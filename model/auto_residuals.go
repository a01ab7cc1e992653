// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import "math"

// residualEdges are the edges of histograms of residuals, in units of the bound on labels; the
// first bin takes all that is below, the last all above. residualMiddles are the middles of the
// bins.
var residualEdges, residualMiddles = func() (edges, middles []float64) {
	positive := []float64{0.0005, 0.001, 0.002, 0.004, 0.008, 0.014, 0.024, 0.04, 0.068, 0.116, 0.2, 0.34, 0.58, 1, 2}
	for i := len(positive) - 2; i >= 0; i-- {
		edges = append(edges, -positive[i])
	}
	edges = append(append(edges, 0), positive...)
	below := -2.0
	for _, e := range edges {
		middles = append(middles, (below+e)/2)
		below = e
	}
	middles[0], middles[len(middles)-1] = -farMiddle, farMiddle
	return edges, middles
}()

// Numbers of the choice of a clip, fixed on public data.
const (
	clipRatio = 1.2    // of candidates that follow each other
	firstClip = 0.0005 // least candidate
	clipShare = 0.3    // least share of residuals within the clip of steps
	forget    = 0.7    // weight of all histograms before the last one
	freeNoise = 0.08   // of a mean, over the deviation of the residuals: it costs less than a clip may
	oddShare  = 0.15   // prior probability that far residuals lie on one side
	oddMean   = 0.2    // deviation of the mean that they have then, at most
	oddPart   = 0.4    // and relative to the spread of the residuals
	evenMean  = 0.01   // and otherwise, at most
	evenPart  = 0.1    // and relative to the spread of the residuals
	farMiddle = 1.75   // of the last bin on either side, from 1 to 2, where rare labels lie
	farBins   = 2      // at each end, for residuals beyond 0.58
)

// residuals is what noisy histograms say about the law of the residuals.
type residuals struct {
	shares []float64 // of the bins, by the last histogram and a family of laws
	raw    []float64 // of all histograms, with noise
	noise  float64   // deviation of raw
	scale  float64   // deviation of most residuals
	// A mean of 0 that falls to −mean if residuals are clipped at meanClip, with its variance.
	mean, meanVariance, meanClip float64
}

// add takes in a histogram.
func (r *residuals) add(h []float64, noise float64) {
	r.shares, r.scale = lawOf(h, noise)
	if r.raw == nil {
		r.raw, r.noise = append(r.raw, h...), noise
		return
	}
	old, now := forget/(r.noise*r.noise), 1/(noise*noise)
	for i, v := range h {
		r.raw[i] = (old*r.raw[i] + now*v) / (old + now)
	}
	r.noise = 1 / math.Sqrt(old+now)
}

// at returns the share of residuals within a clip, the mean of what it takes from their absolute
// values, and an estimate of what it takes from their mean, with its deviation.
func (r *residuals) at(clip float64) (within, tail, taken, doubt float64) {
	mean, variance := 0.0, 0.0
	below := -2.0
	for i, q := range r.shares {
		lo, hi := below, residualEdges[i]
		middle := residualMiddles[i]
		below = hi
		if hi <= 0 {
			lo, hi = -hi, -lo
		}
		switch {
		case clip >= hi:
			within += q
		case clip > lo:
			part := (clip - lo) / (hi - lo)
			within += q * part
			tail += q * (1 - part) * (hi - clip) / 2
		default:
			tail += q * ((lo+hi)/2 - clip)
		}
		over := middle - min(max(middle, -clip), clip)
		mean += r.raw[i] * over
		variance += math.Pow(r.noise*over, 2)
	}
	if variance == 0 {
		return within, tail, 0, 0
	}
	if r.meanClip > 0 && clip <= 1.3*r.meanClip {
		i, j := 1/variance, 1/r.meanVariance
		mean, variance = (mean*i+r.mean*j)/(i+j), 1/(i+j)
	}
	part := func(prior float64) (estimate, square, log float64) {
		total := prior*prior + variance
		estimate = prior * prior / total * mean
		return estimate, estimate*estimate + prior*prior/total*variance, -0.5 * (mean*mean/total + math.Log(total))
	}
	_, even, logEven := part(min(evenMean, evenPart*r.spread()))
	taken, odd, logOdd := part(min(oddMean, oddPart*r.spread()))
	p := 1 / (1 + (1-oddShare)/oddShare*math.Exp(min(max(logEven-logOdd, -50), 50)))
	taken *= p * p * p // nothing without clear evidence: the prior is a guess
	return within, tail, taken, math.Sqrt(max((1-p)*even+p*odd-taken*taken, 0))
}

// clip returns the clip of least expected squared error of a mean of residuals and of a factor of
// the scores; noise is that of a mean of numbers up to 1.
func (r *residuals) clip(noise float64) float64 {
	best, least := 2.0, math.Inf(1)
	free := freeNoise * min(r.spread(), 2*r.scale)
	for c := 2 * firstClip; c < 2.3; c *= clipRatio {
		within, tail, _, doubt := r.at(c)
		risk := doubt*doubt + 0.05*tail*tail +
			max(0, math.Pow(noise*c, 2)*(1+0.45/math.Pow(max(within, 0.1), 2))-math.Pow(free, 2))
		if risk <= least {
			best, least = min(c, 2), risk
		}
	}
	return best
}

// spread returns the scale of the residuals.
func (r *residuals) spread() float64 {
	sum := 0.0
	for i, q := range r.shares {
		sum += 1.25 * q * math.Abs(residualMiddles[i])
	}
	return sum
}

// lawOf returns shares of the bins: the mean over a family of laws, weighted by the likelihood of a
// noisy histogram, which then moves each share as far as its noise deserves. Where noise hides
// everything, the guess remains.
func lawOf(h []float64, noise float64) (shares []float64, scale float64) {
	type law struct {
		shares     []float64
		log, scale float64
	}
	var laws []law
	best, last := math.Inf(-1), len(h)-1
	cdf := func(x float64) float64 { return 0.5 * (1 + math.Erf(x/math.Sqrt2)) }
	for s := math.Log(0.0005); s < math.Log(1.2); s += 0.2 {
		scale := math.Exp(s)
		for _, far := range []float64{-0.25, -0.1, -0.03, 0, 0.03, 0.1, 0.25} {
			q, below := make([]float64, len(h)), 0.0
			part := math.Abs(far)
			for i, e := range residualEdges {
				c := 0.9*cdf(e/scale) + 0.1*cdf(e/(3*scale))
				if i == last {
					c = 1
				}
				q[i] = (1 - part) * (c - below)
				below = c
			}
			for i := range farBins {
				if far > 0 {
					q[last-i] += part / farBins
				} else {
					q[i] += part / farBins
				}
			}
			log := -0.5*math.Pow((s-math.Log(0.15))/0.7, 2) - 8*part
			for i, v := range q {
				deviation := math.Hypot(noise, 0.01+0.15*v)
				log -= 0.5*math.Pow((h[i]-v)/deviation, 2) + math.Log(deviation)
			}
			best = max(best, log)
			laws = append(laws, law{q, log, s})
		}
	}
	out, total := make([]float64, len(h)), 0.0
	for _, l := range laws {
		w := math.Exp(l.log - best)
		total += w
		scale += w * l.scale
		for i, v := range l.shares {
			out[i] += w * v
		}
	}
	sum := 0.0
	for i, v := range out {
		v /= total
		free := math.Pow(0.004+0.25*v, 2)
		out[i] = max(0, v+free/(free+noise*noise)*(h[i]-v))
		sum += out[i]
	}
	for i := range out {
		out[i] /= sum
	}
	return out, math.Exp(scale / total)
}
