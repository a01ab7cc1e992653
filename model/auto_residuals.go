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
	clipRatio   = 1.2    // of candidates that follow each other
	firstClip   = 0.0005 // least candidate
	clipShare   = 0.3    // least share of residuals within the clip of steps
	forget      = 0.7    // weight of all histograms before the last one
	freeNoise   = 0.08   // of a mean, over the deviation of the residuals: it costs less than a clip may
	biasWeight  = 3      // of the square of a bias over that of noise: 1, and this much more where
	fewNoise    = 400.0  // nμ is far above this number, as fits average out noise and no bias
	slopeWeight = 0.05   // and of what the clip takes from absolute values, which shortens a slope
	someTail    = 0.2    // prior probability that residuals of one side are far, and
	nearTail    = 0.3    // what is added on the side of the far end if the labels are near an end of their range
	nearEnd     = 0.2    // which they are at this distance with a half
	tailFloor   = 0.003  // error of a law in one far bin, and
	tailError   = 0.2    // relative error of what it says of a mean
	evenMean    = 0.01   // deviation of a mean that no law of far residuals explains, at most
	evenPart    = 0.1    // and relative to the spread of the residuals
	farMiddle   = 1.75   // of the last bin on either side, from 1 to 2, where rare labels lie
	farBins     = 2      // at each end, for residuals beyond 0.58
)

// residuals is what noisy histograms say about the law of the residuals.
type residuals struct {
	shares  []float64  // of the bins, by the last histogram and a family of laws
	raw     []float64  // of all histograms, with noise
	noise   float64    // deviation of raw
	scale   float64    // deviation of most residuals
	weight  float64    // of the square of a bias over that of noise
	far     [2]float64 // prior probabilities of far residuals below and above 0
	ends    [2]float64 // size of the largest ones
	tails   [2][]tail  // laws of them
	pairs   []tailPair // of both sides
	inverse float64    // mean over pairs of the inverse of the variance
	// A mean of 0 that falls to −mean if residuals are clipped at meanClip, with its variance.
	mean, meanVariance, meanClip float64
}

// A tail is a law of the far residuals of one side: a share of them all, exponential with the scale
// reach up to end, or without a reach close to end, as those of rare classes are.
type tail struct{ share, reach, end float64 }

// A tailPair is a law of the far residuals of both sides, by its numbers in residuals.tails, with
// its probability and the inverse of the variance of all residuals.
type tailPair struct {
	below, above         int
	probability, inverse float64
}

// beyond returns the share of residuals beyond x and the mean of what exceeds x.
func (t tail) beyond(x float64) (share, over float64) {
	switch near := 0.8 * t.end; {
	case t.share == 0 || x >= t.end:
		return 0, 0
	case t.reach > 0:
		last := math.Exp(-t.end / t.reach)
		rest := math.Exp(-x/t.reach) - last
		return t.share * rest / (1 - last), t.share * (t.reach*rest - (t.end-x)*last) / (1 - last)
	case x <= near:
		return t.share, t.share * ((near+t.end)/2 - x)
	default:
		return t.share * (t.end - x) / (t.end - near), t.share * (t.end - x) * (t.end - x) / (2 * (t.end - near))
	}
}

// square returns the mean of the squares of the far residuals.
func (t tail) square() float64 {
	if t.reach > 0 {
		return t.share * min(2*t.reach*t.reach, t.end*t.end/3)
	}
	return t.share * 0.81 * t.end * t.end
}

// tails returns laws of far residuals up to end. The first one is that there are none.
func tails(end float64) []tail {
	out := []tail{{}}
	for _, share := range []float64{0.004, 0.008, 0.016, 0.03, 0.06, 0.12, 0.24, 0.4} {
		for _, reach := range []float64{0, 0.06, 0.12, 0.24, 0.5} {
			out = append(out, tail{share, reach, end})
		}
	}
	return out
}

// newResiduals returns what is known before a histogram: labels around m are at most 1 ∓ m away;
// size is nμ. It also returns how near m is to an end of their range, from 0 to 1.
func newResiduals(m, size float64) (r residuals, near float64) {
	near = 1 / (1 + math.Pow(max(1-math.Abs(m), 0)/nearEnd, 2))
	size = math.Pow(size/fewNoise, 4)
	r.weight = 1 + biasWeight*size/(1+size)
	r.far, r.ends = [2]float64{someTail, someTail}, [2]float64{1 - m, 1 + m}
	if m < 0 {
		r.far[0] += nearTail * near
	} else {
		r.far[1] += nearTail * near
	}
	return r, near
}

// core returns the mean of what a clip takes from the absolute values of most residuals.
func (r *residuals) core(clip float64) float64 {
	over := func(scale float64) float64 {
		x := clip / scale
		return scale * (math.Sqrt(2/math.Pi)*math.Exp(-x*x/2) - x*math.Erfc(x/math.Sqrt2))
	}
	return 0.9*over(r.scale) + 0.1*over(3*r.scale)
}

// weigh sets the probabilities of pairs of tails by the bins of all histograms beyond 2.5
// deviations of most residuals, and by the mean that a clip took from the labels.
func (r *residuals) weigh() {
	most := func(x float64) float64 {
		return 0.45*math.Erfc(x/r.scale/math.Sqrt2) + 0.05*math.Erfc(x/(3*r.scale)/math.Sqrt2)
	}
	last := len(residualEdges) - 1
	var logs [2][]float64
	for side := range logs {
		r.tails[side] = tails(min(max(r.ends[side], 0.05), 2))
		logs[side] = make([]float64, len(r.tails[side]))
		for k, t := range r.tails[side] {
			log := math.Log(1 - r.far[side])
			if k > 0 {
				log = math.Log(r.far[side] / float64(len(logs[side])-1))
			}
			for i := last; i > last/2 && residualEdges[i-1] >= 2.5*r.scale; i-- {
				from, _ := t.beyond(residualEdges[i-1])
				to, _ := t.beyond(residualEdges[i])
				inner := most(residualEdges[i-1]) - most(residualEdges[i])
				seen := r.raw[i]
				if side == 0 {
					seen = r.raw[last-i]
				}
				deviation := math.Hypot(r.noise, tailFloor+tailError*(from-to)+0.5*inner)
				log -= 0.5*math.Pow((seen-inner-from+to)/deviation, 2) + math.Log(deviation)
			}
			logs[side][k] = log
		}
	}
	best := math.Inf(-1)
	var pairs []tailPair
	for j, below := range r.tails[0] {
		_, under := below.beyond(r.meanClip)
		for k, above := range r.tails[1] {
			p := tailPair{j, k, logs[0][j] + logs[1][k], 1 / (1.8*r.scale*r.scale + below.square() + above.square())}
			if r.meanVariance > 0 {
				_, over := above.beyond(r.meanClip)
				p.probability -= 0.5 * math.Pow(over-under-r.mean, 2) / r.meanVariance
			}
			best = max(best, p.probability)
			pairs = append(pairs, p)
		}
	}
	total := 0.0
	r.pairs = r.pairs[:0]
	for _, p := range pairs {
		if p.probability = math.Exp(p.probability - best); p.probability > 1e-5 {
			r.pairs = append(r.pairs, p)
			total += p.probability
		}
	}
	r.inverse = 0
	for i := range r.pairs {
		r.pairs[i].probability /= total
		r.inverse += r.pairs[i].probability * r.pairs[i].inverse
	}
}

// add takes in a histogram.
func (r *residuals) add(h []float64, noise float64) {
	before := r.scale
	r.shares, r.scale = lawOf(h, noise)
	if r.raw == nil {
		r.raw, r.noise = append(r.raw, h...), noise
		r.weigh()
		return
	}
	keep := min(1, r.scale/before) // the less, the more a fit has explained
	r.meanVariance /= keep
	old, now := forget*keep/(r.noise*r.noise), 1/(noise*noise)
	for i, v := range h {
		r.raw[i] = (old*r.raw[i] + now*v) / (old + now)
	}
	r.noise = 1 / math.Sqrt(old+now)
	r.weigh()
}

// effect is what a clip does: the share of residuals within it, and what it takes from their mean,
// as estimated, with the variance of the error. For a choice of clips, error and tail are squares
// of that error and of what the clip takes from the absolute values, each weighed by the variance
// of the residuals that it goes with: a bias counts little where residuals are large.
type effect struct{ within, taken, variance, error, tail float64 }

// at returns the effect of a clip.
func (r *residuals) at(clip float64) effect {
	e := effect{within: r.within(clip)}
	var beyond [2][]float64
	for side, laws := range r.tails {
		for _, t := range laws {
			_, over := t.beyond(clip)
			beyond[side] = append(beyond[side], over)
		}
	}
	size, core := 0.0, r.core(clip)
	for _, p := range r.pairs {
		under, over := beyond[0][p.below], beyond[1][p.above]
		e.taken += p.probability * (over - under)
		size += p.probability * (over*over + under*under)
		e.tail += p.probability * p.inverse / r.inverse * math.Pow(over+under+core, 2)
	}
	for _, p := range r.pairs {
		square := p.probability * math.Pow(beyond[1][p.above]-beyond[0][p.below]-e.taken, 2)
		e.variance += square
		e.error += square * p.inverse / r.inverse
	}
	sum, noise := 0.0, 0.0
	for i, middle := range residualMiddles {
		middle = min(max(middle, -0.9*r.ends[0]), 0.9*r.ends[1])
		over := middle - min(max(middle, -clip), clip)
		sum += r.raw[i] * over
		noise += math.Pow(r.noise*over, 2)
	}
	free := math.Pow(min(evenMean, evenPart*min(r.spread(), 2*r.scale)), 2) + tailError*tailError*size
	if free > 0 {
		e.taken += free / (free + noise) * (sum - e.taken)
		free *= noise / (free + noise)
		e.variance += free
		e.error += free / r.weight
	}
	return e
}

// within returns the share of residuals within a clip.
func (r *residuals) within(clip float64) (within float64) {
	below := -2.0
	for i, q := range r.shares {
		lo, hi := below, residualEdges[i]
		below = hi
		if hi <= 0 {
			lo, hi = -hi, -lo
		}
		if clip > lo {
			within += q * min((clip-lo)/(hi-lo), 1)
		}
	}
	return within
}

// clip returns the clip of least expected squared error of a mean of residuals and of a factor of
// the scores; noise is that of a mean of numbers up to 1.
func (r *residuals) clip(noise float64) float64 {
	best, least := 2.0, math.Inf(1)
	for c := 2 * firstClip; c < 2.3; c *= clipRatio {
		e := r.at(c)
		risk := r.weight*e.error + slopeWeight*e.tail +
			max(0, math.Pow(noise*c, 2)*(1+0.45/math.Pow(max(e.within, 0.1), 2))-freeNoise*freeNoise/r.inverse)
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

// deviation returns the root mean square of the residuals.
func (r *residuals) deviation() float64 {
	sum := 0.0
	for i, q := range r.shares {
		sum += q * residualMiddles[i] * residualMiddles[i]
	}
	return math.Sqrt(sum)
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
