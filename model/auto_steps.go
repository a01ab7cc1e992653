// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

var errSpectrum = errors.New("the eigenvalues of a noisy matrix were not found")

// Numbers of the steps, fixed on public data.
const (
	fewestSteps = 24
	mostSteps   = 100
	growth      = 3   // of the share of μ² from the first step to the last
	classClip   = 0.5 // bound on the slopes of two classes
	drift       = 0.3 // forgetting, relative to moves over their deviation: squares
	classDrift  = 1   // the same for two classes, whose loss is no parabola
	caution     = 50  // of two classes: nμ per coordinate from which on steps go far
	widestScore = 1.2 // deviation of scores over that of the labels
	guessSpread = 0.7 // of scores, over that of the labels
	guessWidth  = 0.8 // deviation of the logarithm of that guess
)

// steps returns the shares of the steps. Their number follows from the map and from public
// numbers; their total is what the last release and histograms leave.
func (f *gradientFit) steps() []float64 {
	ratios := make([]float64, f.p)
	for j := range ratios {
		ratios[j] = f.bound[j] / f.h[j]
	}
	slices.Sort(ratios)
	shares := make([]float64, int(min(max(math.Ceil(10*ratios[f.p/2]), fewestSteps*f.stretch()), mostSteps)))
	for t := range shares {
		shares[t] = math.Pow(growth, float64(t)/float64(len(shares)-1))
	}
	total := f.left - f.finish
	if !f.logistic {
		total -= 5 * f.share
	}
	floats.Scale(total/floats.Sum(shares), shares)
	return shares
}

// stretch is the factor, from 1 to 2, by which steps for two classes are longer and more. The mean
// curvature exceeds that of rare combinations by far: steps for it leave the part t^(−ratio) of a
// distance after t of them, while steps twice as long have its square and 4/3 of the noise. That
// pays off where noise is low.
func (f *gradientFit) stretch() float64 {
	if !f.logistic {
		return 1
	}
	size := math.Pow(1/(f.unit*caution*float64(f.p)), 2)
	return 1 + size/(1+size)
}

// score returns the prediction of a record, of its logit for classes, and z.
func (f *gradientFit) score(row []float64, r record) (score float64, z []float64) {
	z = f.mapped(row, r)
	score = f.m + f.unit1/f.reach*floats.Dot(z, f.x[:f.p])
	if f.icept >= 0 {
		score += f.unit1 * f.kappa * f.x[f.p]
	}
	return score, z
}

// classWeight returns the weight, from ½ to 1, of the slope of two classes at the probability p.
// Slopes have sizes up to p or 1 − p, whichever is larger: with this weight, up to classClip. Where
// p is right their mean stays 0, as the weight depends on the row alone, and the mean curvature
// falls less than the bound: for p = ½ noise counts half as much as without the weight.
func classWeight(p float64) float64 { return classClip / max(p, 1-p) }

// residual is the slope of the loss at a score.
func (f *gradientFit) residual(score, y float64) float64 {
	if f.logistic {
		return 1/(1+math.Exp(-score)) - y
	}
	return score - y
}

// weight returns √ω, by which a long row is shortened in gradients, and the norm of the gradient
// of a record over its slope.
func (f *gradientFit) weight(z []float64) (root, norm float64) {
	size := floats.Norm(z, 2)
	root = min(1, f.reach/max(size, math.SmallestNonzeroFloat64))
	return root, f.unit1 * math.Hypot(root*size/f.reach, f.kappa)
}

// A measurement is a noisy gradient at a point: of the point where the gradient is 0, h·target with
// the deviation noise.
type measurement struct {
	point, target []float64
	bend, noise   float64
}

// A descent is the state of the steps.
type descent struct {
	total, scale             float64 // share of all steps; spread of the residuals before the first
	clip, bend               float64 // of the slopes, and their mean curvature
	steep                    float64 // no step goes further than this curvature allows
	taken, bias              float64 // what the clip takes from the mean of the residuals, and the deviation of its error
	noise, shrink            float64 // of the last gradient; the mean factor of the prior
	precision, prior, before []float64
	row                      []float64 // of one record
	offset, moved            float64   // variance of the offset, and its last move
	seen                     []measurement
	spreads                  []float64 // of the scores, after each step
}

// descend takes steps along noisy gradients. Each gradient h·(x − x*) + noise measures x*, and its
// gain weighs the variance of what is known of x* against the noise, as in a Kalman filter: if
// noise dominates, x stays 0, and the predictions stay at the mean.
func (f *gradientFit) descend() error {
	shares := f.steps()
	last := len(shares) - 1
	f.x = make([]float64, f.p+1)
	s := &descent{total: floats.Sum(shares), scale: 1, offset: f.variance}
	s.precision, s.prior = make([]float64, f.p), make([]float64, f.p)
	s.before, s.row = make([]float64, f.p), make([]float64, f.p)
	if f.logistic {
		s.offset += 0.1
	}
	if f.icept >= 0 {
		s.offset /= math.Pow(f.kappa*f.unit1, 2)
	}
	for t, share := range shares {
		if !f.logistic && (t == 0 || t == len(shares)/4 || t == len(shares)/2 || t == 3*len(shares)/4) {
			if err := f.look(t == 0); err != nil {
				return err
			}
			if t == 0 {
				s.scale = f.seen.spread()
			}
		}
		f.slopes(s, float64(t)/float64(last))
		g, err := f.gradient(s, share)
		if err != nil {
			return err
		}
		f.step(s, g)
	}
	f.choice.Clip, f.choice.Sigma = s.clip, s.noise*f.n
	f.doubt = math.Hypot(math.Hypot(0.03, 1-s.shrink), s.bias/s.scale)
	f.doubt = math.Hypot(f.doubt, 2*math.Log((s.spreads[last]+1e-9)/(s.spreads[3*len(shares)/4-1]+1e-9)))
	return nil
}

// slopes sets the clip of the next step and the curvature of slopes within it; part is the part of
// the steps that are done.
func (f *gradientFit) slopes(s *descent, part float64) {
	if !f.logistic {
		s.clip, s.bend, s.taken, s.bias = f.stepClip(s.total, part, s.scale)
		s.steep = s.bend
		return
	}
	mean, most := f.curvature()
	mean = max(mean, 0.3*f.bend(f.m)*classWeight(1/(1+math.Exp(-f.m))))
	s.clip = classClip
	s.bend, s.steep = mean/f.stretch(), max(mean, most)
}

// gradient releases the sum of the slopes times the mapped rows, and takes it in as a measurement.
func (f *gradientFit) gradient(s *descent, share float64) ([]float64, error) {
	g, noise, err := f.sum(f.p+1, s.clip, share, func(dst []float64, w float64, r record) {
		score, z := f.score(s.row, r)
		root, norm := f.weight(z)
		slope := f.residual(score, r.y)
		if f.logistic {
			slope *= classWeight(1 / (1 + math.Exp(-score)))
		} else if most := s.clip / norm; norm > 0 {
			slope = min(max(slope, -most), most)
		}
		slope *= w * f.unit1
		floats.AddScaled(dst[:f.p], slope*root/f.reach, z)
		dst[f.p] += slope * f.kappa
	})
	if err != nil {
		return nil, err
	}
	s.noise = noise
	now := measurement{point: append([]float64{}, f.x...), target: make([]float64, f.p), bend: s.bend, noise: noise}
	for j := range now.target {
		now.target[j] = f.x[j] - g[j]/(s.bend*f.h[j])
	}
	s.seen = append(s.seen, now)
	return g, nil
}

// step moves x by a gradient.
func (f *gradientFit) step(s *descent, g []float64) {
	copy(s.before, s.prior)
	s.shrink = f.evidence(s.seen, s.scale, s.prior)
	moves, square := 0.0, s.noise*s.noise
	for j := range f.p {
		if q := s.precision[j]; q > 0 && s.before[j] > 0 { // as if the prior had been known
			f.x[j] *= s.prior[j] * (1 + s.before[j]*q) / (s.before[j] * (1 + s.prior[j]*q))
		}
		h, v := s.bend*f.h[j], s.prior[j]/(1+s.prior[j]*s.precision[j])
		move := g[j] * min(v*h/(h*h*v+square), 1/(s.steep*f.bound[j]))
		f.x[j] -= move
		s.precision[j] += h * h / square
		moves += move * move * s.precision[j] / float64(f.p)
	}
	by := 1 + drift*moves
	if f.logistic {
		by = 1 + classDrift*moves
	}
	floats.Scale(1/by, s.precision)
	if f.icept >= 0 {
		s.offset += 0.25 * s.moved * s.moved
		h, v := s.bend*f.h[f.p], square+math.Pow(f.kappa*f.unit1*s.bias, 2)
		gain := min(s.offset*h/(h*h*s.offset+v), 1/(s.steep*f.bound[f.p]))
		s.moved = (g[f.p] + s.taken*f.kappa*f.unit1) * gain
		f.x[f.p] -= s.moved
		s.offset *= v / (h*h*s.offset + v)
	}
	// Where the step leads, it would be too long.
	if _, most := f.curvature(); f.logistic && most > s.steep {
		part := s.steep / most
		for j, from := range s.seen[len(s.seen)-1].point {
			f.x[j] = from + part*(f.x[j]-from)
		}
		s.moved *= part
	}
	// Scores vary no more than labels. Beyond, the slopes are clipped, and steps would stay there.
	if spread := f.spreadOfScores(); f.widest > 0 && spread > f.widest {
		floats.Scale(f.widest/spread, f.x[:f.p])
	}
	s.spreads = append(s.spreads, f.spreadOfScores())
}

// look releases a histogram of residuals.
func (f *gradientFit) look(first bool) error {
	w := f.share
	if first {
		w *= 2
	}
	row := make([]float64, f.p)
	h, noise, err := f.histogram(residualEdges, w, func(r record) float64 {
		score, z := f.score(row, r)
		_, norm := f.weight(z)
		return f.residual(score, r.y) * norm
	})
	if err == nil {
		f.seen.add(h, noise)
	}
	return err
}

// stepClip returns the clip of least risk: noise over the slope that is left, and bias. It also
// returns the share of residuals within it, which is that slope, and the bias.
func (f *gradientFit) stepClip(total, part, scale float64) (clip, within, taken, doubt float64) {
	inverse := 0.0
	for j, h := range f.h {
		if j < f.p || f.icept >= 0 {
			inverse += 1 / h
		}
	}
	least := math.Inf(1)
	// What a clip takes from the mean of the residuals, it takes from its slope in the same measure.
	signal := max(f.spreadOfScores(), guessSpread*scale) / (f.seen.spread() / 2.5)
	lost := 0.0
	for c := 2.2; c > firstClip; c /= clipRatio {
		e := f.seen.at(c)
		if e.within < clipShare && c < 1.8 {
			break
		}
		lost = max(lost, e.taken*e.taken-e.variance)
		risk := math.Pow(c/e.within*f.unit, 2)*inverse/(0.5*total) + slopeWeight*math.Pow(5, part)*e.tail +
			e.error + 3*lost*signal*signal
		if risk < least {
			least, clip = risk, min(c, 2)
			within, taken, doubt = e.within, e.taken, math.Sqrt(e.variance)
		}
	}
	return clip, within, taken, doubt
}

// spreadOfScores returns the estimated standard deviation of the scores.
func (f *gradientFit) spreadOfScores() float64 {
	sum := 0.0
	for j := range f.p {
		sum += f.x[j] * f.x[j] * f.h[j]
	}
	return math.Sqrt(sum)
}

// normalMean returns the mean of g over a standard normal variable.
func normalMean(g func(q float64) float64) float64 {
	sum, total := 0.0, 0.0
	for q := -4.0; q <= 4; q += 0.25 {
		w := math.Exp(-q * q / 2)
		sum, total = sum+w*g(q), total+w
	}
	return sum / total
}

// curvature returns the mean curvature of weighted slopes of two classes over normal scores, and
// the largest one along a combination of offset and scores. Where a class is rare, high scores have
// far more than the mean.
func (f *gradientFit) curvature() (mean, most float64) {
	middle, spread := f.m, f.spreadOfScores()
	if f.icept >= 0 {
		middle += f.kappa * f.unit1 * f.x[f.p]
	}
	var h [3]float64
	for k := range h {
		h[k] = normalMean(func(q float64) float64 {
			score := middle + q*spread
			return f.bend(score) * classWeight(1/(1+math.Exp(-score))) * math.Pow(q, float64(k))
		})
	}
	return h[0], (h[0]+h[2])/2 + math.Hypot((h[0]-h[2])/2, h[1])
}

// evidence sets the prior variance of the coefficients, a mean over guesses by the likelihood of
// all measurements so far and a log-normal prior on the spread of the scores. It returns the mean
// factor by which the prior shrinks a coefficient.
func (f *gradientFit) evidence(seen []measurement, scale float64, prior []float64) (shrink float64) {
	precision, target := make([]float64, f.p), make([]float64, f.p)
	for _, m := range seen {
		far := 0.0
		for j := range f.p {
			far += math.Pow(m.bend*f.h[j]*(f.x[j]-m.point[j]), 2)
		}
		v := m.noise*m.noise + 0.25*far/float64(f.p)
		for j := range f.p {
			w := math.Pow(m.bend*f.h[j], 2) / v
			precision[j] += w
			target[j] += w * m.target[j]
		}
	}
	type guess struct{ variance, log float64 }
	var guesses []guess
	trace, best := floats.Sum(f.h[:f.p]), math.Inf(-1)
	for l := -4.5; l <= 2; l += 0.25 {
		g := guess{math.Pow(scale*guessSpread*math.Exp(l), 2) / trace, -0.5 * math.Pow(l/guessWidth, 2)}
		for j, q := range precision {
			v := 1/q + g.variance
			g.log -= 0.5 * (math.Pow(target[j]/q, 2)/v + math.Log(v))
		}
		best = max(best, g.log)
		guesses = append(guesses, g)
	}
	total := 0.0
	clear(prior)
	for _, g := range guesses {
		w := math.Exp(g.log - best)
		total += w
		for j, q := range precision {
			prior[j] += w * g.variance * q / (1 + g.variance*q)
		}
	}
	for j, q := range precision {
		part := min(prior[j]/total, 1-0x1p-30)
		shrink += part / float64(f.p)
		prior[j] = part / (q * (1 - part))
	}
	return shrink
}
