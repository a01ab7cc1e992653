// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/table"
)

// Shares of the rows that keep their weight.
const (
	centerLevel = 0.9
	rowLevel    = 0.95
	reachLevel  = 0.8 // in gradients of mapped rows; a lower one has more weight for the others
)

// Numbers of the choice of levels that lose their weight.
const (
	mayHide     = 5.0   // deviations of the noise of the matrix, below which it may hide a level
	hardly      = 0.005 // share of the records that declared ones may have together: a loss at most
	hardlyOther = 0.03  // the same for "other" and "missing", of which most tables have few
	hiddenNoise = 0.6   // of the noise of the sum of their counts: counts by it as records
)

// apart stores (a/Row − k)·factors in dst, without the intercept, and returns its norm.
func (f *gradientFit) apart(dst, a []float64) float64 {
	j := 0
	for c, v := range a {
		if c != f.icept {
			dst[j] = (v/f.row - f.k[j]) * f.factors[j]
			j++
		}
	}
	return floats.Norm(dst, 2)
}

// norms releases a quantile of the length of centered rows. It is 1 where most have one length that
// may be just the error of their center, which matters in few dimensions.
func (f *gradientFit) norms(ratio, level float64) (float64, error) {
	row := make([]float64, f.p)
	edges := powers(1, ratio, int(math.Ceil(-11*math.Ln2/math.Log(ratio))), 0)
	h, noise, err := f.histogram(edges, f.share, func(r record) float64 { return f.apart(row, r.a) / 2 })
	if err != nil {
		return 0, err
	}
	most := slices.Max(h)
	q := 2 * h.edge(edges, level, noise, 0.5)
	if most > onePoint && q < 4*f.astray/math.Sqrt(float64(f.p)) {
		q = 1
	}
	return q, nil
}

// center moves the origin to the mean of the rows, which is found twice: of rows within their
// bounds, then of rows as close as most are. Means hidden by noise stay 0. Without an intercept a
// shift of the rows would change the model.
func (f *gradientFit) center() error {
	f.k, f.factors = make([]float64, f.p), make([]float64, f.p)
	floats.AddConst(1, f.factors)
	if f.icept < 0 {
		return f.widths()
	}
	row := make([]float64, f.p)
	for pass := range 2 {
		radius := 1.0
		if pass > 0 {
			var err error
			f.astray = 0
			if radius, err = f.norms(math.Sqrt2, centerLevel); err != nil {
				return err
			}
		}
		mean, noise, err := f.sum(f.p, radius, centerShare, func(dst []float64, w float64, r record) {
			w *= min(1, radius/max(f.apart(row, r.a), math.SmallestNonzeroFloat64))
			floats.AddScaled(dst, w, row)
		})
		if err != nil {
			return err
		}
		f.astray = noise * math.Sqrt(float64(f.p))
		if square := floats.Dot(mean, mean); square > 0 {
			floats.AddScaled(f.k, max(0, 1-float64(f.p)*noise*noise/square), mean)
		}
	}
	return f.widths()
}

// spread releases the matrix of second moments of centered rows, over the length that most have,
// and from it the map z = basis′(a − k), in which the rows have a similar spread in all
// directions.
func (f *gradientFit) spread() error {
	radius, err := f.norms(math.Cbrt(2), rowLevel)
	if err != nil {
		return err
	}
	if f.p > mostDim { // after a search, whose result sets the number of columns
		return f.plain(radius)
	}
	p, row := float64(f.p), make([]float64, f.p)
	f.by = []float64{radius}
	unitRow := func(r record) {
		size := f.apart(row, r.a)
		if !(size <= math.MaxFloat64) {
			clear(row) // as sums of vectors do
			return
		}
		floats.Scale(1/max(radius, size), row)
	}
	share := spreadShare * min(1, math.Pow(spreadNoise/(5*math.Pow(p, 1.5)*f.unit), 2))
	sensitivity, exponent := sumSensitivity(1, f.pl.pair(), f.p)
	tau := sensitivity / f.take(share) * release.SafeScale
	weight := math.Ldexp(1, -exponent)
	total, err := f.total(f.p*(f.p+1)/2, exponent, nil, func(total []int64) error {
		if f.persons {
			return f.each(len(total), 1, func(dst []float64, w float64, r record) {
				unitRow(r)
				outer(dst, row, w)
			}, func(v []float64) {
				for k, c := range v {
					total[k] += int64(math.RoundToEven(c * weight))
				}
			})
		}
		return f.data.Each(func(a []float64, _ float64) {
			unitRow(record{a: a})
			addOuter(total, row, weight)
		})
	})
	if err != nil {
		return err
	}
	gram := symmetricOf(f.release(total, exponent, tau), f.p)
	square, noise, err := f.sum(1, 1, traceShare, func(dst []float64, w float64, r record) {
		unitRow(r)
		dst[0] += w * min(floats.Dot(row, row), 1)
	})
	if err != nil {
		return err
	}
	tau /= f.n
	gram.ScaleSym(1/f.n, gram)
	// The trace, by both releases and a guess.
	own, diagonal := 1/(noise*noise), 1/(tau*tau*p)
	const guess, deviation = 0.35, 0.3
	trace := square[0]*own + mat.Trace(gram)*diagonal + guess/(deviation*deviation)
	trace /= own + diagonal + 1/(deviation*deviation)
	if e := f.pl.encoder; e != nil {
		if gram, err = f.weigh(e, gram, tau); err != nil {
			return err
		}
	}
	s, ok := newSpectrum(gram, tau, min(max(trace, 0.02), 1))
	if !ok {
		return errSpectrum
	}
	f.basis, f.shifted = make([]float64, f.p*f.p), make([]float64, f.p)
	for i := range f.p {
		for j := range f.p {
			v := f.factors[i] * s.vectors.At(i, j) / (math.Sqrt(s.upper[j]*f.n) * radius)
			if f.weights != nil {
				v *= f.weights[i]
			}
			f.basis[i*f.p+j] = v
			f.shifted[j] += v * f.k[i]
		}
	}
	f.secondMoments(s, radius)
	return f.reachOf(s)
}

// weigh sets the weights of the coordinates and returns the matrix of weighted rows. Levels that
// the noise of the matrix may hide are counted, each record with a norm of 1: a count has several
// times less noise. Levels that the counts do not show lose their weight if together they hardly
// occur. Otherwise all keep it, because gradients know more of them than counts: declared ones do
// sooner than "other" and "missing", which many tables never have. Where noise would hide the sum
// of the counts, their share is small.
func (f *gradientFit) weigh(e *table.Encoder, gram *mat.SymDense, tau float64) (*mat.SymDense, error) {
	f.weights, f.by = make([]float64, f.p), nil
	floats.AddConst(1, f.weights)
	var levels, entries []int // coordinates, and entries of rows
	var kinds []int           // 1 for "other" and "missing", else 0
	j := 0
	for c, feature := range e.Features() {
		if c == f.icept {
			continue
		}
		if indicator(feature) && gram.At(j, j) < mayHide*tau {
			levels, entries = append(levels, j), append(entries, c)
			f.by = append(f.by, float64(c))
			kinds = append(kinds, 0)
			if unlisted(feature.Name, feature.Column) {
				kinds[len(kinds)-1] = 1
			}
		}
		j++
	}
	if len(levels) == 0 {
		return gram, nil
	}
	share := levelShare / (1 + math.Pow(f.unit/hardlyOther, 2)*float64(len(levels))/levelShare)
	counts, noise, err := f.sum(len(levels), 1, share, func(dst []float64, w float64, r record) {
		for i, c := range entries {
			if r.a[c] != 0 {
				dst[i] += w
			}
		}
	})
	if err != nil {
		return nil, err
	}
	var rare, number [2]float64
	for i, v := range counts {
		rare[kinds[i]] += (1 - seen(v, noise)) * v
		number[kinds[i]]++
	}
	for i, j := range levels {
		k := kinds[i]
		hidden := max(rare[k], 0) + hiddenNoise*noise*math.Sqrt(number[k])
		clear := 1 / (1 + math.Pow(hidden/[2]float64{hardly, hardlyOther}[k], 4))
		f.weights[j] = 1 - clear*(1-seen(counts[i], noise))
	}
	return weighted(gram, f.weights), nil
}

// plain scales the rows without a matrix.
func (f *gradientFit) plain(radius float64) error {
	s := &spectrum{mean: make([]float64, f.p), upper: make([]float64, f.p)}
	mean := 0.35 / float64(f.p)
	upper := 1.2 * mean * math.Sqrt(float64(f.p))
	for j := range f.p {
		s.mean[j], s.upper[j] = mean, upper
	}
	f.scale = 1 / (math.Sqrt(upper*f.n) * radius)
	return f.reachOf(s)
}

// reachOf releases the length of the mapped rows and sets what steps need.
func (f *gradientFit) reachOf(s *spectrum) error {
	p := float64(f.p)
	if !f.persons && !f.elsewhere && f.there == nil && f.n*p <= mostEntries {
		if err := f.keep(); err != nil {
			return err
		}
	}
	// Rows that had their full length must not lie just above an edge where all directions are alike.
	sorted, row := slices.Sorted(slices.Values(s.upper)), make([]float64, f.p)
	base := 1 / math.Sqrt(sorted[f.p/2]*f.n)
	base *= math.Pow(2, 0.25*math.Round(4*math.Log2(math.Sqrt(p/f.n)/base)))
	var err error
	length := func(r record) float64 { return floats.Norm(f.mapped(row, r), 2) }
	f.reach, err = f.quantile(powers(base, math.Pow(2, 0.25), -10, 10), reachLevel, f.share, base, length)
	if err != nil {
		return err
	}
	if f.icept >= 0 {
		f.kappa = 1 / math.Sqrt(p)
	}
	f.unit1 = 1 / math.Sqrt(1+f.kappa*f.kappa)
	f.h, f.bound = make([]float64, f.p+1), make([]float64, f.p+1)
	square := f.unit1 * f.unit1
	for j := range f.p {
		f.bound[j] = square / (f.reach * f.reach * f.n)
		f.h[j] = f.bound[j] * s.mean[j] / s.upper[j]
	}
	f.h[f.p] = f.kappa * f.kappa * square
	f.bound[f.p] = f.h[f.p]
	return nil
}

// mostEntries is the most numbers of mapped rows, which are dense, that are kept in memory.
const mostEntries = 1 << 27

// keep stores the mapped rows.
func (f *gradientFit) keep() error {
	n, _ := f.data.Dims()
	z := make([]float64, 0, n*f.p)
	row := make([]float64, f.p)
	err := f.data.Each(func(a []float64, _ float64) { z = append(z, f.mapped(row, record{i: -1, a: a})...) })
	f.z = z
	return err
}

// mapped returns z = basis′(a − k) of a record, in dst or in memory.
func (f *gradientFit) mapped(dst []float64, r record) []float64 {
	if r.i >= 0 && (r.i+1)*f.p <= len(f.z) {
		return f.z[r.i*f.p : (r.i+1)*f.p]
	}
	if f.basis == nil {
		f.apart(dst, r.a)
		floats.Scale(f.scale, dst)
		return dst
	}
	for j, v := range f.shifted {
		dst[j] = -v
	}
	i := 0
	for c, v := range r.a {
		if c == f.icept {
			continue
		}
		if v != 0 {
			floats.AddScaled(dst, v/f.row, f.basis[i*f.p:(i+1)*f.p])
		}
		i++
	}
	return dst
}

// spectrum describes Σãã′/n of rows with ‖ã‖ ≤ 1 by a noisy matrix.
type spectrum struct {
	vectors     mat.Dense
	mean, upper []float64 // estimates of the eigenvalues, and values that they hardly exceed
}

// newSpectrum returns what a matrix with noise of deviation tau on the diagonal says. Noise moves
// an eigenvalue by up to e = τ√(2p), the end of the semicircle. Eigenvalues inside are drawn to
// their mean; the formula of [LP11] for the mean over the noise applies where it is small.
//
// [LP11] Ledoit, Péché. Eigenvectors of some large sample covariance matrix ensembles. PTRF 2011.
func newSpectrum(gram *mat.SymDense, tau, trace float64) (*spectrum, bool) {
	var eig mat.EigenSym
	if !eig.Factorize(gram, true) {
		return nil, false
	}
	d := gram.SymmetricDim()
	s := &spectrum{mean: make([]float64, d), upper: make([]float64, d)}
	eig.VectorsTo(&s.vectors)
	values, p := eig.Values(nil), float64(d)
	edge, middle := tau*math.Sqrt(2*p), trace/p
	if edge < trace { // the mean without eigenvalues that stand out
		sum, count := 0.0, 0.0
		for _, l := range values {
			if x := l - middle; x > 1.3*edge {
				sum += middle + (x+math.Sqrt(x*x-edge*edge))/2
				count++
			}
		}
		if count < p {
			middle = max((trace-sum)/(p-count), 0.1*middle)
		}
	}
	trust := 1 / (1 + math.Pow(edge/trace, 2)) // in eigenvalues that stand out
	for j, l := range values {
		x := l - middle
		out := (math.Abs(x) + math.Sqrt(max(0, x*x-edge*edge))) / 2
		upper := middle + edge/2
		switch {
		case x > edge:
			upper = middle + out
		case x < -edge:
			upper = middle - out + edge
		}
		upper = min(upper, 1.2*middle*math.Sqrt(p)+max(0, x-edge*min(1, edge/trace))*trust)
		s.upper[j] = max(upper, min(0.7*edge, middle), 0.1*middle)
		pull := 0.0
		for i, v := range values {
			if i != j {
				pull += (l - v) / ((l-v)*(l-v) + edge*edge/p)
			}
		}
		inside := 1 / (1 + 3*tau*tau/(middle*middle))
		outside := trust * (1 - math.Pow(1.2*edge/max(math.Abs(x), math.SmallestNonzeroFloat64), 2))
		mean := middle + (l-edge*edge/(2*p)*pull-middle)*max(inside, outside)
		s.mean[j] = min(max(mean, 0.05*middle), s.upper[j])
	}
	return s, true
}
