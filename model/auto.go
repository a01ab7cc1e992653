// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/prefix"
	"github.com/privopt/privopt/internal/release"
)

// The automatic fit of least squares and of the logistic loss,
// docs/theory/composition.md#model.auto/2: Gaussian releases alone, whose shares of μ² add up to
// at most the share of the fit. Rows and labels are in units of their bounds.

// Numbers of histograms of lengths.
const (
	sureNoise = 4.5  // deviations of noise that a bin needs to count by itself
	onePoint  = 0.85 // of the rows in one bin: they may lie at one point
)

// Shares of μ², fixed on public data.
const (
	labelFirst  = 0.03  // mean of the labels within their range
	classShare  = 0.02  // counts of two classes, beside two histograms
	centerShare = 0.01  // of each of two means of the rows
	traceShare  = 0.01  // Σ‖a‖²
	spreadShare = 0.08  // Σaa′, where its noise allows
	spreadNoise = 30.0  // norm of its noise, over the mean eigenvalue, from which on it has less
	levelShare  = 0.04  // counts of levels that the noise of Σaa′ may hide; the most
	finishShare = 0.07  // offset and factor of the scores; twice that where labels are near an end of their range
	logitWidth  = 2.0   // deviation of the logit of a rate, before counts
	countShare  = 0.01  // Σw of persons whose lines weigh the same; the most for a count
	countNoise  = 0.02  // enough for a count, over the declared number
	leastShare  = 0.005 // of a histogram
)

// Numbers of the range of labels that is used, if they need a small part of theirs.
const (
	windowPart  = 4.0 // half of this range, over the distance within which nearly all labels lie
	mostWindow  = 0.5 // of the range from which on it is used as it is
	mostWindows = 6
)

const gradientWords = "Noisy gradients of all records, after noisy sums that center the rows and choose coordinates " +
	"in which they have a similar spread. A last release sets the offset and the factor of the predictions. No ridge " +
	"is needed."

// byGradients reports whether the automatic fit serves the options: squares, or the logistic loss
// without penalty, set and radius, for a declared number of records, without intervals and clip.
// Others need minimizers, and so do penalties and sets after a search for a schema.
func (o Options) byGradients(q erm.Public, b dp.Budget, searched bool) bool {
	plain := o.Penalty == Penalty{} && o.Set == Set{}
	return (o.Loss.Name == Squares && (plain || !searched) || o.Loss.Name == Logistic && plain && o.Radius == 0) &&
		o.Intervals == nil && o.Clip == 0 &&
		b.Delta > 0 && q.Records > 0 && q.MaxRecords <= mostSummed && q.Dim <= mostDim
}

// automatic plans the automatic fit.
func (pl *Plan) automatic(q erm.Public) error {
	s := &Sequence{Shares: Shares{Gradients: 1 - pl.search, Search: pl.search}}
	var err error
	if s.Mu, err = pl.mu(*s, 0); err != nil {
		return err
	}
	pl.params.Sequence, pl.params.Decision = s, gradientWords
	pl.finish(q, s)
	return nil
}

// checkRange returns an error for bounds so large or so small that the coefficients may leave the
// range of float64. It reads no record.
func (pl *Plan) checkRange() error {
	b := pl.params.Bounds
	for _, v := range []float64{b.Row, b.Label, b.Label / b.Row} {
		if !(v >= 0x1p-300 && v <= 0x1p300) {
			return fmt.Errorf("model: %w: rows up to %.3g and labels up to %.3g leave the range of float64: rescale the "+
				"columns and the label", dp.ErrCondition, b.Row, b.Label)
		}
	}
	return nil
}

// gradientFit is one run of the automatic fit. All that it computes follows from noisy outputs and
// public numbers, apart from the records that each and mapped read.
type gradientFit struct {
	pl       *Plan
	ctx      context.Context
	faults   *fault.Set
	data     *erm.Data
	src      rand.Source
	logistic bool
	persons  bool
	who      erm.Persons

	elsewhere bool         // the machines of an erm.Remote compute the sums
	outputs   [][]float64  // of all releases so far, if elsewhere
	there     *gradientSum // on such a machine: the sum to compute
	by        []float64    // by which records are mapped beside the map, if several sums use it

	d, p, icept int     // coordinates of a row, without the intercept; its index, -1 for none
	entry       float64 // of the intercept, in units of the rows
	row, label  float64 // bounds
	narrowed    float64 // half of the range of labels that is used, over that of the whole
	middle      float64 // of this range, in units of label
	coded       float64 // unit of the scales of features, in those of the rows
	n           float64 // sum of the weights of all records
	unit        float64 // noise of a mean of numbers up to 1 at the whole budget
	miscount    float64 // deviation of the error of n, relative to it
	left        float64 // share of μ² that is left
	ratio       float64 // sensitivity over noise of the release that is next
	share       float64 // of a histogram
	finish      float64 // of the last release

	m, variance  float64       // mean of the labels or of their logit, and the variance of its error
	k            []float64     // center of the rows
	astray       float64       // its error, in units of the rows
	weights      []float64     // of the coordinates: how surely a level occurs, 1 for others; nil for 1
	factors      []float64     // of columns that use a small part of their range, else 1
	moments      *mat.SymDense // of rows around k, in the units of rows
	basis        []float64     // p×p, row by row: z = basis′(a − k)
	scale        float64       // z = scale·(a − k) without a basis
	shifted      []float64     // basis′k
	reach        float64       // norm of z from which on a row has less weight
	z            []float64     // of all records, if they fit in memory
	kappa, unit1 float64       // entry of the offset in a row u = unit1·(z/reach, kappa)
	h, bound     []float64     // estimated eigenvalues of Σuu′, and bounds on them
	x            []float64     // coefficients of u
	seen         residuals
	widest       float64 // deviation of scores that no fit exceeds, 0 for any
	doubt        float64 // of the factor of the scores
	choice       Choice
}

// mostCoordinates keeps sums of integers from overflowing. Only a search can find so many.
const mostCoordinates = 1 << 20

// byGradients runs the automatic fit.
func (pl *Plan) byGradients(
	ctx context.Context, p *erm.Problem, src rand.Source, cert dp.Certificate,
) (*outcome, error) {
	if d := pl.params.Dim; d > mostCoordinates {
		return nil, prefix.Errorf("model: %w: %d coordinates, want at most %d: lower the number of columns or levels",
			dp.ErrCondition, d, mostCoordinates)
	}
	f := pl.newGradientFit(ctx, p.Data, src)
	if err := f.run(); err != nil {
		return nil, prefix.Errorf("model: %w", err)
	}
	theta, err := f.penalized(p, f.theta())
	if err != nil {
		return nil, prefix.Errorf("model: %w", err)
	}
	f.choice.Clip, f.choice.Sigma = f.choice.Clip*f.narrowed, f.choice.Sigma*f.narrowed
	return &outcome{theta: theta, cert: cert, choice: &f.choice}, nil
}

func (pl *Plan) newGradientFit(ctx context.Context, data *erm.Data, src rand.Source) *gradientFit {
	q := pl.params
	f := &gradientFit{pl: pl, ctx: ctx, faults: fault.From(ctx), data: data, src: src,
		left: 1, logistic: q.Loss.Name == Logistic, d: q.Dim, p: q.Dim, icept: -1,
		row: q.Bounds.Row, label: q.Bounds.Label, narrowed: 1, n: float64(q.Records)}
	f.who, f.persons = data.Persons()
	f.elsewhere = slices.Contains(data.Assumptions(), erm.TrustedCluster)
	if e := pl.encoder; e != nil {
		f.coded = 1 / f.row
		if !f.logistic {
			f.coded *= f.label / (e.LabelValue(f.label) - e.LabelValue(0))
		}
		for j, c := range e.Features() {
			if c.Column == "" {
				f.icept, f.p = j, f.d-1
				f.entry = c.Offset * f.coded
			}
		}
	}
	f.unit = pl.gradients() / (pl.params.Sequence.Mu * math.Sqrt(pl.params.Sequence.Shares.Gradients) * f.n)
	size := 1 / f.unit // nμ/L
	f.seen, _ = newResiduals(0, size)
	f.finish = finishShare
	f.share = max(leastShare, min(math.Pow(12/size, 2), 0.025, 0.025*math.Pow(size/60, 2)))
	return f
}

// run makes all releases.
func (f *gradientFit) run() error {
	for _, step := range []func() error{f.count, f.offset, f.center, f.spread, f.descend, f.calibrate} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// gradientSensitivity returns the ℓ₂ sensitivity of a sum of vectors of norm at most bound that are
// rounded to a grid, times 1 or 2, and the exponent of the grid:
//
//	add or remove  bound + g√d/2
//	replace        2·bound + g√d
//
// The factor covers the rounding of the float64 products.
func gradientSensitivity(bound, pair float64, d int) (sensitivity float64, exponent int) {
	root := math.Sqrt(float64(d))
	_, e := math.Frexp(bound / root)
	exponent = e - 1 - 20
	return pair * (bound*(1+0x1p-40) + math.Ldexp(root, exponent-1)), exponent
}

// take returns the sensitivity over the noise of a release that has the share w of the fit, and
// takes w from what is left of it. No release gets more than what is left, apart from 2⁻⁶⁰, which
// release.SafeScale covers.
func (f *gradientFit) take(w float64) float64 {
	w = max(min(w, f.left), 0x1p-60)
	f.left -= w
	f.ratio = f.pl.shift(w * f.pl.params.Sequence.Shares.Gradients)
	return f.ratio
}

// value returns a label within the range that is used, from −1 to 1, or the class 0 or 1.
func (f *gradientFit) value(b float64) float64 {
	if !f.logistic {
		return min(max((b/f.label-f.middle)/f.narrowed, -1), 1)
	}
	if b > 0 {
		return 1
	}
	return 0
}

// record is one record of a pass: its number i, or -1 if it has none, and its row and value.
type record struct {
	i int
	a []float64
	y float64
}

// each calls f with the vectors of all records, or persons, one by one, scaled to a norm of most.
func (f *gradientFit) each(
	dim int, most float64, add func(dst []float64, w float64, r record), done func(v []float64),
) error {
	if f.persons {
		return f.data.EachPerson(f.ctx, dim, most, func(dst []float64, w float64, a []float64, b float64) {
			add(dst, w, record{-1, a, f.value(b)})
		}, done)
	}
	v, i := make([]float64, dim), -1
	return f.data.Each(func(a []float64, b float64) {
		i++
		clear(v)
		add(v, 1, record{i, a, f.value(b)})
		switch size := floats.Norm(v, 2); {
		case math.IsNaN(size) || math.IsInf(size, 1):
			clear(v)
		case size > most:
			floats.Scale(most/size*(1-0x1p-50), v)
		}
		done(v)
	})
}

// sum releases the sum of the vectors of all records, of norm at most most, and returns it over n
// with the deviation of its noise.
func (f *gradientFit) sum(
	dim int, most, w float64, add func(dst []float64, w float64, r record),
) (mean []float64, noise float64, err error) {
	sensitivity, exponent := gradientSensitivity(most, f.pl.gradients(), dim)
	sigma := sensitivity / f.take(w) * release.SafeScale
	unit := math.Ldexp(1, -exponent)
	total, err := f.total(dim, exponent, []float64{most}, func(total []int64) error {
		return f.each(dim, most, add, func(v []float64) {
			for j, x := range v {
				if x != 0 {
					total[j] += int64(math.RoundToEven(x * unit))
				}
			}
		})
	})
	if err != nil {
		return nil, 0, err
	}
	mean = f.release(total, exponent, sigma)
	floats.Scale(1/f.n, mean)
	return mean, sigma / f.n, nil
}

// histogram releases the shares of the records by the edges, and returns them with the deviation of
// their noise.
func (f *gradientFit) histogram(
	edges []float64, w float64, of func(r record) float64,
) (shares histogram, noise float64, err error) {
	tau := f.pl.pair() / f.take(w) * release.SafeScale
	exponent := countGrid(tau)
	total, err := f.total(len(edges), exponent, edges, func(total []int64) error {
		return f.each(len(edges), 1, func(dst []float64, w float64, r record) {
			dst[bin(edges, of(r))] += w
		}, func(v []float64) {
			for k, c := range v {
				total[k] += int64(math.Floor(math.Ldexp(c, -exponent)))
			}
		})
	})
	if err != nil {
		return nil, 0, err
	}
	shares = f.release(total, exponent, tau)
	floats.Scale(1/f.n, shares)
	return shares, tau / f.n, nil
}

// quantile releases a histogram and returns the edge below which the share q lies, or other if the
// noise hides it.
func (f *gradientFit) quantile(edges []float64, q, w, other float64, of func(r record) float64) (float64, error) {
	h, noise, err := f.histogram(edges, w, of)
	if err != nil {
		return 0, err
	}
	return h.edge(edges, q, noise, other), nil
}

// edge returns the edge below which the share q lies and beyond which a length would lose less than
// half of the sum of its squares, or other if noise hides it or most are below the first edge.
// Where most rows lie at one point, as those of a rare flag, the others are all there is to see.
func (h histogram) edge(edges []float64, q, noise, other float64) float64 {
	squares := make([]float64, len(h)+1) // of the bin k and beyond
	rest := make([]float64, len(h)+1)    // their shares
	for k := len(h) - 1; k >= 0; k-- {
		squares[k], rest[k] = squares[k+1], rest[k+1]
		if h[k] > sureNoise*noise {
			squares[k] += h[k] * edges[k] * edges[k]
			rest[k] += h[k]
		}
	}
	q = min(q, 1-4*noise)
	for k, v := range h {
		if v < 2.5*noise {
			h[k] = 0
		}
	}
	total, sum := floats.Sum(h), 0.0
	if q < 0.5 || total < 0.5 || h[0] > onePoint*total && squares[1] == 0 {
		return other
	}
	for k, v := range h {
		if sum += v; sum >= q*total && squares[k+1]-rest[k+1]*edges[k]*edges[k] <= 0.5*squares[0] {
			return edges[k]
		}
	}
	return other
}

// powers returns base·ratio^j, lo ≤ j ≤ hi.
func powers(base, ratio float64, lo, hi int) (out []float64) {
	for j := lo; j <= hi; j++ {
		out = append(out, base*math.Pow(ratio, float64(j)))
	}
	return out
}

// count releases the sum of the weights, where it may be far from the declared number: under
// add-remove, and far below the number of persons where all lines weigh the same.
func (f *gradientFit) count() error {
	equal := f.persons && f.who.Weights == erm.LinesEqual
	share, least := countShare, 1/float64(max(f.who.Rows, 1))
	switch {
	case equal:
	case f.pl.params.Relation == dp.AddRemove:
		share, least = min(share, math.Pow(f.unit/countNoise, 2)), 0.1
	default:
		return nil
	}
	v, noise, err := f.sum(1, 1, share, func(dst []float64, w float64, _ record) { dst[0] += w })
	if err != nil {
		return err
	}
	part := min(max(v[0], 2*noise, least), 1)
	if !equal {
		part = max(least, 1+(v[0]-1)/(1+16*noise*noise)) // the declared number has an error of a quarter
	}
	f.miscount = noise / part
	f.n, f.unit = f.n*part, f.unit/part
	return nil
}

// offset estimates the mean of the labels, or its logit. Where a histogram shows the error of the
// mean instead of the spread of the labels, what follows treats them as labels of a narrower range.
func (f *gradientFit) offset() error {
	switch {
	case f.icept < 0:
		return nil
	case f.logistic:
		c, noise, err := f.sum(2, 1, 2*f.share+classShare, func(dst []float64, w float64, r record) { dst[int(r.y)] += w })
		if err != nil {
			return err
		}
		f.m, f.variance = logitOf(c, noise)
		return nil
	}
	f.variance = 0.25
	mean := func(clip, share float64) (float64, float64, error) {
		v, noise, err := f.sum(1, clip, share, func(dst []float64, w float64, r record) {
			dst[0] += w * min(max(r.y-f.m, -clip), clip)
		})
		if err != nil {
			return 0, 0, err
		}
		return v[0], noise * noise, nil
	}
	update := func(v, variance float64) {
		gain := f.variance / (f.variance + variance)
		f.m, f.variance = f.m+gain*v, gain*variance
	}
	v, variance, err := mean(1, labelFirst)
	if err != nil {
		return err
	}
	update(v, variance)
	f.variance += math.Pow(f.miscount*f.m, 2)
	again := false
	for range mostWindows {
		before := math.Sqrt(f.variance)
		var near float64
		f.seen, near = newResiduals(f.m, 1/f.unit)
		f.finish = finishShare * (1 + near) // the mean of labels that are far on one side needs it
		h, noise, err := f.histogram(residualEdges, f.share, func(r record) float64 { return f.m - r.y })
		if err != nil {
			return err
		}
		f.seen.add(h, noise)
		f.widest = widestScore * f.seen.deviation()
		// A clip below the error of m would measure the side on which m lies, and not how far away.
		clip := min(max(f.seen.clip(f.unit/math.Sqrt(f.share)), 2*before), 2)
		window := f.window(h, noise, before)
		if window > 0 {
			clip = min(clip, window)
		}
		if v, variance, err = mean(clip, f.share); err != nil {
			return err
		}
		if clip < 1.5 { // what the clip takes from the mean, which is 0 but for its error
			e := f.seen.at(clip)
			f.seen.mean, f.seen.meanVariance = v, f.variance+variance
			f.seen.meanClip = clip
			if window == 0 {
				v -= e.taken
				variance += e.variance
			}
		}
		update(v, variance)
		if window == 0 && f.narrowed < 1 && !again { // noise may have hidden a window: it is rare twice
			again = true
			continue
		}
		if window == 0 || math.Abs(v) > 3*before {
			break
		}
		f.narrow(windowPart * window)
	}
	return nil
}

// window returns a distance from m within which nearly all labels lie, by a histogram, if it is
// small and just above the error of m. It is 0 otherwise, and for labels at an end of their range,
// most of which may be 0.
func (f *gradientFit) window(h []float64, noise, doubt float64) float64 {
	i := slices.IndexFunc(residualEdges, func(e float64) bool { return e >= 3*doubt })
	if i < 0 || windowPart*residualEdges[i] > mostWindow {
		return 0
	}
	window := residualEdges[i]
	var sums, counts [2]float64
	for k, v := range h {
		far := 0
		if math.Abs(residualMiddles[k]) > window {
			far = 1
		}
		sums[far] += v
		counts[far]++
	}
	inside := (sums[0]*counts[1] + (1-sums[1])*counts[0]) / (counts[0] + counts[1])
	noise *= math.Sqrt(counts[0] * counts[1] / (counts[0] + counts[1]))
	if inside < max(0.7, 1-2.5*noise) || math.Abs(f.middle+f.narrowed*f.m)+f.narrowed*2*window > 1 {
		return 0
	}
	return window
}

// narrow makes the labels those of a narrower range around m: (y − m)/window, clipped to [−1, 1].
func (f *gradientFit) narrow(window float64) {
	f.middle += f.narrowed * f.m
	f.narrowed *= window
	f.m, f.variance = 0, f.variance/(window*window)
}

// logitOf returns the logit of a rate and the variance of its error, by noisy shares of both
// classes: that of the mean rate, if the logit is normal before. It minimizes the
// expected logistic loss.
func logitOf(shares []float64, noise float64) (logit, variance float64) {
	type guess struct{ rate, log float64 }
	total := max(shares[0]+shares[1], 2*noise, 0.1)
	var guesses []guess
	best := math.Inf(-1)
	for l := -7.0; l <= 7; l += 0.02 {
		p := 1 / (1 + math.Exp(-l))
		log := -0.5 * (math.Pow(shares[1]-total*p, 2) + math.Pow(shares[0]-total*(1-p), 2)) / (noise * noise)
		log -= 0.5 * math.Pow(l/logitWidth, 2)
		best = max(best, log)
		guesses = append(guesses, guess{p, log})
	}
	var sum, rate, square float64
	for _, g := range guesses {
		w := math.Exp(g.log - best)
		sum += w
		rate += w * g.rate
		square += w * g.rate * g.rate
	}
	rate /= sum
	variance = (square/sum - rate*rate) / math.Pow(rate*(1-rate), 2)
	return math.Log(rate / (1 - rate)), max(variance, 1e-5)
}

// theta returns the coefficients in the units of the data.
func (f *gradientFit) theta() []float64 {
	theta := make([]float64, f.d)
	mean, seen := make([]float64, f.d), make([]float64, f.d)
	scale, sum := f.unit1/f.reach, 0.0
	j := 0
	for c := range theta {
		if c == f.icept {
			continue
		}
		v := scale * f.scale * f.factors[j] * f.x[j]
		if f.basis != nil {
			v = scale * floats.Dot(f.basis[j*f.p:(j+1)*f.p], f.x[:f.p])
		}
		theta[c] = v
		sum += v * f.k[j]
		mean[c], seen[c] = f.row*f.k[j], 1
		if f.weights != nil {
			seen[c] = f.weights[j]
		}
		j++
	}
	if f.icept >= 0 {
		theta[f.icept], seen[f.icept] = (f.m+f.middle/f.narrowed-sum)/f.entry, 1
	}
	if f.weights != nil {
		average(f.pl.encoder, theta, seen, mean)
		for c, feature := range f.pl.encoder.Features() {
			if seen[c] < 0.5 {
				f.choice.Average = append(f.choice.Average, feature.Name)
			}
		}
	}
	unit := 1 / f.row
	if !f.logistic {
		unit *= f.label * f.narrowed
	}
	floats.Scale(unit, theta)
	return theta
}
