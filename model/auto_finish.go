// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// Shares of the last release, over f.finish.
const (
	reachPart  = 0.1  // histogram of the scores
	lookPart   = 0.2  // histogram of the residuals
	slopePart  = 0.8  // of each round: sums of slopes; the rest: sums of curvatures
	farScore   = 1    // of classes, from which on all scores have the same weight
	turnSpread = 2    // of scores of classes, from which on their pivot is their mean weighted by φ″
	farSpread  = 3    // of scores of classes, from which on they are far
	farDoubt   = 0.6  // of the factor, where scores are far: steps stop short as the curvature falls
	farMove    = 0.7  // of a factor of classes, or its inverse, in one round
	usualCurve = 0.23 // mean of ξt of normal scores
	meanPart   = 0.7  // of the square of a vector of slopes: the offset; the rest: the factor
	farPart    = 0.5  // more of it for the factor, where scores are far and few slopes tell it
)

// calibrate sets the offset and the factor of the scores by two noisy equations,
//
//	Σ r = 0,   Σ rξ = 0,   ξ = t·min(1, 1/t²),  t = (score − pivot)/B
//
// in one Newton step for squares and two for classes, with priors on the offset and on the factor:
// it is near 1 by as much as is known, or, with probability 0.1, anywhere. The pivot is the mean of
// the scores, weighted by φ″ if they are far: slopes of two classes then say much only of scores
// close to 0, and around another pivot a factor could not be told from an offset.
func (f *gradientFit) calibrate() error {
	spread := max(f.spreadOfScores(), 1e-9)
	if spread <= 1e-9 {
		spread = 1e-3
	}
	row := make([]float64, f.p)
	centered := f.m
	if f.icept >= 0 {
		centered += f.unit1 * f.kappa * f.x[f.p]
	}
	f.by = []float64{centered}
	far := func(r record) float64 {
		score, _ := f.score(row, r)
		return math.Abs(score - centered)
	}
	b, err := f.quantile(powers(spread, math.Sqrt2, -6, 6), rowLevel, reachPart*f.finish, 1.5*spread, far)
	if err != nil {
		return err
	}
	if f.logistic {
		b = min(b, farScore)
	}
	rounds := 2
	clip, slopeClip := 1.0, 1.0
	var taken, bias float64
	rest := 1 - reachPart
	if !f.logistic {
		h, noise, err := f.histogram(residualEdges, lookPart*f.finish, func(r record) float64 {
			score, _ := f.score(row, r)
			return f.residual(score, r.y)
		})
		if err != nil {
			return err
		}
		f.seen.add(h, noise)
		rounds, rest = 1, rest-lookPart
		clip = f.seen.clip(f.unit / math.Sqrt(meanPart*slopePart*rest*f.finish))
		e := f.seen.at(clip)
		taken, bias = e.taken, math.Sqrt(e.variance)
		slopeClip = f.seen.clip(f.unit / math.Sqrt((1-meanPart)*slopePart*rest*f.finish*usualCurve))
	}
	c := calibration{b: b, clip: clip, slopeClip: slopeClip, spread: spread,
		share: rest * f.finish / float64(rounds), doubt: f.doubt * b, center: centered, taken: taken, bias: bias, row: row}
	c.part, c.pivot = 1-meanPart, centered
	if f.logistic {
		c.far = spread * spread / (spread*spread + farSpread*farSpread)
		c.part += farPart * c.far
		c.doubt = b * math.Hypot(f.doubt, farDoubt*c.far)
	}
	c.prior[0] = 1e12
	if f.icept >= 0 {
		weigh := func(k float64) float64 {
			return normalMean(func(q float64) float64 { return f.bend(centered+q*spread) * math.Pow(q, k) })
		}
		part := math.Pow(spread/turnSpread, 4)
		c.pivot += part / (1 + part) * spread * weigh(1) / max(weigh(0), 1e-12)
		far := math.Pow(f.choice.Clip, 2) + math.Pow(f.seen.spread(), 2)
		c.prior[0] = 1 / (4*f.variance + 0.09*far)
		if f.logistic {
			c.prior[0] = 1 / (1.3*f.variance + 0.09*math.Pow(min(spread, 3), 2))
		}
	}
	for round := range rounds {
		if err := f.round(&c, round); err != nil {
			return err
		}
	}
	// The score becomes pivot + factor·(score − pivot) + offset.
	factor := min(max(1+c.factor/b, 0), 5)
	floats.Scale(factor, f.x[:f.p])
	f.x[f.p], f.m = 0, c.pivot+factor*(centered-c.pivot)+c.offset
	return nil
}

// calibration is the state of the last release.
type calibration struct {
	b, spread, share, doubt, center float64
	clip, slopeClip                 float64    // of residuals, for the offset and for the factor
	taken, bias                     float64    // what the clip takes from the mean, and its deviation
	offset, factor                  float64    // what is added to a score: offset + factor·t
	part, far, pivot                float64    // of the factor; how far scores are, from 0 to 1; mean of t
	prior                           [2]float64 // precisions of both
	row                             []float64
}

// position returns the score of a record as it is calibrated so far, t and ξ.
func (f *gradientFit) position(c *calibration, r record) (score, t, xi float64) {
	score, _ = f.score(c.row, r)
	t = (score - c.pivot) / c.b
	return score + c.offset + c.factor*t, t, f.factorWeight(t)
}

// factorWeight returns ξ. The curvature of the logistic loss, which is what a factor moves, falls
// with the score, so that far scores need no less weight.
func (f *gradientFit) factorWeight(t float64) float64 {
	switch {
	case math.Abs(t) <= 1:
		return t
	case f.logistic:
		return math.Copysign(1, t)
	}
	return 1 / t
}

// bend returns φ″ of a score.
func (f *gradientFit) bend(score float64) float64 {
	if !f.logistic {
		return 1
	}
	p := 1 / (1 + math.Exp(-score))
	return p * (1 - p)
}

// round releases the sums of one Newton step and takes it.
func (f *gradientFit) round(c *calibration, round int) error {
	first, second := math.Sqrt(1-c.part), math.Sqrt(c.part)
	f.by = []float64{c.b, c.clip, c.slopeClip, c.pivot, c.part, c.offset, c.factor}
	g, noise, err := f.sum(2, 1, slopePart*c.share, func(dst []float64, w float64, r record) {
		score, _, xi := f.position(c, r)
		v := f.residual(score, r.y)
		dst[0] += w * first * min(max(v/c.clip, -1), 1)
		dst[1] += w * second * min(max(v/c.slopeClip, -1), 1) * xi
	})
	if err != nil {
		return err
	}
	first, second = first/c.clip, second/c.slopeClip
	most := math.Sqrt(3)
	if f.logistic {
		most /= 4
	}
	sums, sumNoise, err := f.sum(3, most, (1-slopePart)*c.share, func(dst []float64, w float64, r record) {
		score, t, xi := f.position(c, r)
		w *= f.bend(score)
		dst[0] += w
		dst[1] += w * xi
		dst[2] += w * xi * t
	})
	if err != nil {
		return err
	}
	// What normal scores would give, as far as noise hides the sums.
	var normal [3]float64
	for k := range normal {
		normal[k] = normalMean(func(q float64) float64 {
			score := c.center + q*c.spread
			t := (score - c.pivot) / c.b
			xi := f.factorWeight(t)
			return f.bend(score+c.offset+t*c.factor) * [3]float64{1, xi, xi * t}[k]
		})
	}
	scales := [3]float64{normal[0], math.Sqrt(normal[0] * normal[2]), normal[2]}
	var h [3]float64
	for k := range h {
		v := math.Pow(0.3*scales[k], 2)
		h[k] = normal[k] + v/(v+sumNoise*sumNoise)*(sums[k]-normal[k])
	}
	h[0], h[2] = max(h[0], 0.3*normal[0]), max(h[2], 0.3*normal[2])
	most = 0.9 * math.Sqrt(h[0]*h[2])
	h[1] = min(max(h[1], -most), most)
	e := equations{h: h, slope: [2]float64{g[0]/first + c.taken, g[1] / second}, prior: c.prior,
		weight: [2]float64{1 / (math.Pow(noise/first, 2) + 0.1*c.bias*c.bias), math.Pow(second/noise, 2)}}
	var offset, factor float64
	if round == 0 {
		e.prior[1] = 1 / (c.doubt * c.doubt)
		o1, f1, log1, near := e.solve()
		e.prior[1] = 1 / (9 * c.b * c.b)
		o2, f2, log2, far := e.solve()
		p := 1 / (1 + math.Exp(min(max(log2-log1, -50), 50))/9)
		offset, factor = p*o1+(1-p)*o2, p*f1+(1-p)*f2
		for k := range c.prior {
			c.prior[k] = 0.5 * (p*near[k] + (1-p)*far[k])
			c.prior[k] = 1 / (1/c.prior[k] + math.Pow([2]float64{offset, factor}[k], 2)) // the loss is no parabola
		}
	} else {
		offset, factor, _, _ = e.solve()
	}
	c.offset += offset
	// Slopes of near scores are linear in the factor, those of far ones in its inverse.
	now, largest := max(c.b+c.factor, 0.2*c.b), 1.0
	if f.logistic {
		largest = farMove
	}
	change := min(max(factor/now, -largest), largest)
	c.factor = now*(1+(1-c.far)*change)/(1-c.far*change) - c.b
	return nil
}

// equations are two linear equations with noise, (h₀ h₁; h₁ h₂)x = −slope, and priors on x.
type equations struct {
	h                    [3]float64
	slope, weight, prior [2]float64
}

// solve returns the mean of x given the equations, the logarithm of the likelihood of the prior of
// x₁, and the precisions of both.
func (e equations) solve() (x0, x1, log float64, precision [2]float64) {
	h, w := e.h, e.weight
	a00 := h[0]*h[0]*w[0] + h[1]*h[1]*w[1] + e.prior[0]
	a01 := h[0]*h[1]*w[0] + h[1]*h[2]*w[1]
	a11 := h[1]*h[1]*w[0] + h[2]*h[2]*w[1] + e.prior[1]
	b0 := -(h[0]*w[0]*e.slope[0] + h[1]*w[1]*e.slope[1])
	b1 := -(h[1]*w[0]*e.slope[0] + h[2]*w[1]*e.slope[1])
	det := a00*a11 - a01*a01
	x0, x1 = (a11*b0-a01*b1)/det, (a00*b1-a01*b0)/det
	return x0, x1, 0.5*(b0*x0+b1*x1) - 0.5*math.Log(det) + 0.5*math.Log(e.prior[1]), [2]float64{a00, a11}
}
