// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package erm

import (
	"math"
	"sync"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/internal/kernel"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/loss"
)

// ask is a bit set: the sums that a pass computes.
type ask uint8

const (
	askValue ask = 1 << iota // Σℓ
	askGrad                  // Σ∇ℓ
	askBound                 // a bound on the error of askGrad, for a loss.Linear
	askHess                  // Σφ″aa', for a loss.Linear
	askPair                  // Σ∇ℓ in double-double with its allowance, in place of askGrad
	askGram                  // Σaa', Σba and Σb², in place of askHess, askGrad and askValue
	askPrint                 // the fingerprint of the records
)

const (
	// grain is the number of records whose terms are added in float64 or double-double; the sums of
	// grains are added without rounding. Sparse records may need larger grains, up to maxGrain, for a
	// sum not to cost more than its terms.
	grain    = 512
	maxGrain = 1 << 16
	// maxBlock is the largest number of predictions computed at a time.
	maxBlock = 512
	// streamBytes is the size of the rows from which on memory limits the speed of a pass, see
	// kernel.Block.
	streamBytes = 24 << 20
)

// costs is the loss of a problem on the declared bounds, prepared for sums over records.
type costs struct {
	dim    int
	bounds loss.Bounds
	loss   loss.Loss
	glm    loss.Linear                                        // loss if it is one, else nil
	batch  loss.Batch                                         // loss if it is one, else nil
	exact  func(u, ul, b, norm float64) (hi, lo, err float64) // loss.Exact of loss
	lsq    float64                                            // c of ℓ = (c/2)(u−b)², 0 if the loss is not one
	// sup φ″ if glm, sup φ″‖a‖² if also short, else sup λ_max(∇²ℓ); or +Inf
	curve float64
	short bool // sup φ″ may be larger for short rows, as for loss.Moreau
}

func newCosts(l loss.Loss, b loss.Bounds, dim int) costs {
	c := costs{dim: dim, bounds: b, loss: l}
	// The bound on the curvature also holds without a radius.
	whole := l.Constants(b, math.Inf(1))
	c.curve = whole.Smoothness
	if glm, ok := l.(loss.Linear); ok {
		c.glm, c.exact = glm, loss.Exact(l)
		c.batch, _ = l.(loss.Batch)
		// β(Row) = sup φ″‖a‖² over ‖a‖ ≤ Row. If sup φ″ is the same for all norms, β(Row/2) is a quarter
		// of it. Otherwise only φ″ ≤ β/‖a‖² is known.
		half := l.Constants(loss.Bounds{Row: b.Row / 2, Label: b.Label}, math.Inf(1)).Smoothness
		if c.short = !(half > 0 && 4*half <= c.curve*(1+1e-9)); !c.short {
			c.curve /= b.Row * b.Row
		}
		if whole.Structure == loss.LSQ {
			if _, _, v := glm.Scalar(0, 0, b.Row); v > 0 && !math.IsInf(v, 1) {
				c.lsq, c.curve = v, v
				c.short = false
			}
		}
	}
	if !(c.curve > 0) {
		c.curve = math.Inf(1) // 0 or NaN: unknown
	}
	return c
}

// bend returns a bound on ‖a‖·sup φ″ for a record of a loss.Linear with ‖a‖ = norm > 0.
func (c *costs) bend(norm float64) float64 {
	if c.short {
		return c.curve / norm
	}
	return c.curve * norm
}

// query is a request for sums at the point x + low.
type query struct {
	costs
	ask    ask
	x, low []float64 // a nil low is 0
	normX  float64
	stream bool // the rows exceed the cache, see kernel.MulVec
	grain  int  // records in a partial sum
	key    [2]uint64
	mult   []uint64 // of the fingerprint, see multipliersOf
	// The fields below are set in a Query only.
	wire    []byte  // the encoded query
	persons Persons // zero if every record is a unit of its own
	fold    Fold    // in place of sums of costs, else nil
}

// newQuery returns a query for the sums want over r. Its sums have the same bits for all records of
// about the size of r.
func newQuery(c costs, ask ask, x, low []float64, r *records) query {
	q := query{costs: c, ask: ask, x: x, low: low, normX: floats.Norm(x, 2), grain: max(min(grain, r.n), 1)}
	q.stream = 8*r.floatsOnce > streamBytes
	if r.sparse && r.n > 0 {
		q.grain = grain
		for q.grain < maxGrain && q.grain*(r.floatsOnce/r.n) < 4*r.d {
			q.grain *= 2
		}
	}
	if r.src != nil {
		if r.src.view == nil || ask&(askPair|askGram) != 0 {
			q.ask |= askPrint
		}
		q.key = r.src.key
		q.mult = multipliersOf(q.key, q.dim)
	}
	return q
}

// Indices in the vector of sums: Σℓ, a bound or allowance, the gradient, and then the rows of the
// upper triangle of the Hessian.
const (
	atValue = iota
	atAllow
	atGrad
)

func (q *query) atHess() int { return atGrad + q.dim }

// size returns the length of the vector of sums.
func (q *query) size() int {
	if q.fold != nil {
		return 2 * q.fold.Size()
	}
	n := q.atHess()
	if q.ask&(askHess|askGram) != 0 {
		n += q.dim * (q.dim + 1) / 2
	}
	return n
}

// partial holds the sums over one grain of records.
type partial struct {
	value      [2]float64 // hi + lo
	allow      float64
	grad, low  []float64 // low for askPair only
	hess       []float64 // d rows of kernel.GramStride(d) numbers
	u, curves  [maxBlock]float64
	rows       []float64 // outerRows rows
	weights    [outerRows]float64
	g, scratch []float64
}

var partials = sync.Pool{New: func() any { return new(partial) }}

// outerRows is the number of rows that outer multiplies at a time.
const outerRows = 64

// reset sets p to the sums of q over no records.
func (p *partial) reset(q *query) {
	p.value, p.allow = [2]float64{}, 0
	p.grad = resize(p.grad, q.dim)
	clear(p.grad)
	if q.ask&askPair != 0 {
		p.low = resize(p.low, q.dim)
		clear(p.low)
	}
	if q.ask&(askHess|askGram) != 0 {
		stride := kernel.GramStride(q.dim)
		p.hess, p.rows = resize(p.hess, q.dim*stride), resize(p.rows, outerRows*stride)
		clear(p.hess)
	}
	if q.glm == nil {
		p.g, p.scratch = resize(p.g, q.dim), resize(p.scratch, q.dim)
	}
}

// add adds the terms of records [lo, hi) of r, which are in memory, to p.
func (q *query) add(p *partial, r *records, lo, hi int) {
	if q.ask&askGram != 0 {
		q.gram(p, r, lo, hi)
		return
	}
	switch {
	case q.ask&askPair == 0:
	case q.glm != nil:
		p.allow += q.pairLinear(p, r, lo, hi)
	default:
		p.allow += q.pairGeneral(p, r, lo, hi)
	}
	switch {
	case q.ask&(askValue|askGrad|askHess) == 0:
	case q.glm != nil:
		q.linear(p, r, lo, hi)
	default:
		q.general(p, r, lo, hi)
	}
}

// block returns the number of records from lo to take at a time. It is the same for records in
// memory and in a Source, although their slabs differ.
func (q *query) block(r *records, lo, hi int) int {
	b := min(kernel.Block(max(r.width(), 1), q.stream), maxBlock)
	rows := 1 << slabShift(q.dim)
	if r.sparse {
		rows = 1 << r.shift
	}
	return min(b, hi-lo, rows-lo&(rows-1))
}

// linear adds Σφ(⟨aᵢ,x⟩;bᵢ), Σφ′aᵢ, the bound on its error, and Σφ″aᵢaᵢ' over records [lo, hi) to
// p.
func (q *query) linear(p *partial, r *records, lo, hi int) {
	value, grad := q.ask&askValue != 0, q.ask&askGrad != 0
	bound, hess := q.ask&askBound != 0, q.ask&askHess != 0
	for lo < hi {
		m := q.block(r, lo, hi)
		s, k := r.at(lo)
		u, y := p.u[:m], s.y[k:k+m]
		norm, weights := s.norm[k:k+m], s.weights(k, m)
		r.mul(u, s, k, q.x, q.stream) // u = Ax
		if bound {
			p.allow += q.boundAt(u, norm, weights)
		}
		switch {
		case !value && !hess && q.lsq != 0:
			kernel.Slope(u, y, q.lsq) // u = c(u−b)
		case !value && q.batch != nil && (q.exact != nil || !bound):
			var curves []float64
			if hess {
				curves = p.curves[:m]
			}
			q.batch.Slopes(u, y, curves)
		default:
			for i, v := range u {
				var phi float64
				if phi, u[i], p.curves[i] = q.glm.Scalar(v, y[i], norm[i]); q.lsq != 0 {
					u[i] = q.lsq * (v - y[i]) // the bits of Slope
				}
				if value {
					p.addValue(phi, weights, i)
				}
			}
		}
		if weights != nil {
			floats.Mul(u, weights)
			if hess {
				floats.Mul(p.curves[:m], weights)
			}
		}
		if bound {
			p.allow += q.boundSlopes(u, norm, weights != nil)
		}
		if grad {
			r.addMul(p.grad, s, k, u) // Σ += A'u
		}
		if hess {
			p.outer(r, lo, p.curves[:m])
		}
		lo += m
	}
}

// addValue adds phi, times weight i unless there are none, to the sum of values.
func (p *partial) addValue(phi float64, weights []float64, i int) {
	if weights != nil {
		v, e := num.TwoProd(weights[i], phi)
		if p.value[0], p.value[1] = add2(p.value[0], p.value[1], v); !math.IsInf(v, 0) {
			p.value[1] += e
		}
		return
	}
	p.value[0], p.value[1] = add2(p.value[0], p.value[1], phi)
}

// weights returns the weights of the m records from index k of s, nil if all are 1.
func (s *slab) weights(k, m int) []float64 {
	if s.w == nil {
		return nil
	}
	return s.w[k : k+m]
}

// boundAt returns the part of the bound of ResidualWithin that is due to errors of the predictions
// u, weighted unless weights is nil.
func (q *query) boundAt(u, norm, weights []float64) float64 {
	sum, d := 0.0, float64(q.dim)
	least := d * tiny // computed once: products of subnormal numbers are slow
	for i, v := range u {
		if norm[i] > 0 {
			t := q.bend(norm[i]) * (d*unit*norm[i]*q.normX + allowSlope*math.Abs(v) + least)
			if weights != nil {
				t *= weights[i]
			}
			sum += t
		}
	}
	return sum
}

// boundSlopes returns the part of the bound of ResidualWithin that is due to errors of the slopes
// w. A product with a weight is one rounding more.
func (q *query) boundSlopes(w, norm []float64, weighted bool) float64 {
	sum, roundings := 0.0, float64(q.grain+8)
	if weighted {
		roundings++
	}
	least := float64(q.dim) * tiny
	for i, v := range w {
		sum += norm[i]*((allowSlope+roundings*unit)*math.Abs(v)+tiny) + least
	}
	return sum
}

// general adds Σℓ(x;aᵢ,bᵢ) and Σ∇ℓ(x;aᵢ,bᵢ) over records [lo, hi) to p.
func (q *query) general(p *partial, r *records, lo, hi int) {
	for i := lo; i < hi; i++ {
		a, b := r.row(i, p.scratch), r.label(i)
		w := r.weight(i)
		if q.ask&askGrad != 0 {
			q.loss.Grad(p.g, q.x, a, b)
			kernel.AddScaled(p.grad, w, p.g)
		}
		if q.ask&askValue != 0 {
			p.addValue(q.loss.Func(q.x, a, b), []float64{w}, 0)
		}
	}
}

// gram adds Σaᵢaᵢ', Σbᵢaᵢ and Σbᵢ² over records [lo, hi) to p.
func (q *query) gram(p *partial, r *records, lo, hi int) {
	ones := p.curves[:min(maxBlock, hi-lo)]
	for i := range ones {
		ones[i] = 1
	}
	for lo < hi {
		m := q.block(r, lo, hi)
		s, k := r.at(lo)
		y := s.y[k : k+m]
		if weights := s.weights(k, m); weights != nil {
			wy := floats.MulTo(p.u[:m], y, weights)
			r.addMul(p.grad, s, k, wy)
			p.value[0] += floats.Dot(wy, y)
			p.outer(r, lo, weights)
			lo += m
			continue
		}
		r.addMul(p.grad, s, k, y)
		p.value[0] += floats.Dot(y, y)
		p.outer(r, lo, ones[:m])
		lo += m
	}
}

// outer adds Σ wᵢaᵢaᵢ', w ≥ 0, over the len(w) records from lo to the upper triangle of p.hess.
func (p *partial) outer(r *records, lo int, w []float64) {
	d, stride := r.d, kernel.GramStride(r.d)
	m := 0
	for i, v := range w {
		col, a := r.entries(lo + i)
		switch {
		case v == 0:
		case r.sparse:
			for k, j := range col {
				t, row := v*a[k], p.hess[int(j)*stride:]
				for l := k; l < len(col); l++ {
					row[col[l]] += t * a[l]
				}
			}
		default:
			to := p.rows[m*stride:][:stride]
			copy(to, a)
			clear(to[d:])
			p.weights[m] = v
			m++
		}
		if m == outerRows || i == len(w)-1 {
			kernel.AddGram(p.hess, p.weights[:m], p.rows[:m*stride], d)
			m = 0
		}
	}
}

// collect adds p to the exact sums.
func (q *query) collect(sum *num.ExactVector, p *partial) {
	if q.ask&(askValue|askGram) != 0 {
		if sum.AddSlice(atValue, p.value[:1]); !math.IsInf(p.value[0], 0) { // else its error is NaN
			sum.AddSlice(atValue, p.value[1:])
		}
	}
	allow := [1]float64{p.allow}
	sum.AddSlice(atAllow, allow[:])
	sum.AddSlice(atGrad, p.grad)
	if q.ask&askPair != 0 {
		sum.AddSlice(atGrad, p.low)
	}
	if q.ask&(askHess|askGram) != 0 {
		at, stride := q.atHess(), kernel.GramStride(q.dim)
		q.flush(p.hess)
		for i := range q.dim {
			row := p.hess[i*stride+i : i*stride+q.dim]
			sum.AddSlice(at, row)
			at += len(row)
		}
	}
}

// flush replaces entries of a Hessian below 2⁻³⁰⁰ of its largest possible entry by 0. An exact sum
// then spans at most 300 + 53 + log₂n bits, so an accumulator has 13 digits instead of 67. There
// are d² of them, and a solver needs no smaller entries.
func (q *query) flush(hess []float64) {
	size := q.bounds.Row * q.bounds.Row
	if q.ask&askGram == 0 && !math.IsInf(q.curve, 1) {
		if size *= q.curve; q.short {
			size = q.curve
		}
	}
	least := min(size, math.MaxFloat64) * 0x1p-300
	for j, v := range hess {
		if math.Abs(v) < least {
			hess[j] = 0
		}
	}
}

// answer holds the rounded sums of a pass.
type answer struct {
	value, allow  float64
	grad, gradLow []float64
	hess          []float64 // d rows of d numbers, the upper triangle
}

// round stores the rounded exact sums in a.
func (a *answer) round(q *query, sum *num.ExactVector) {
	hi, lo := sum.Pair(atValue)
	a.value = hi + lo
	hi, lo = sum.Pair(atAllow)
	a.allow = (hi + lo) * (1 + 0x1p-50)
	a.grad, a.gradLow = resize(a.grad, q.dim), resize(a.gradLow, q.dim)
	for j := range a.grad {
		if a.grad[j], a.gradLow[j] = sum.Pair(atGrad + j); q.ask&askPair == 0 {
			a.grad[j], a.gradLow[j] = a.grad[j]+a.gradLow[j], 0
		}
	}
	if q.ask&(askHess|askGram) != 0 {
		a.hess = resize(a.hess, q.dim*q.dim)
		at := q.atHess()
		for i := range q.dim {
			for j := i; j < q.dim; j++ {
				a.hess[i*q.dim+j], _ = sum.Pair(at)
				at++
			}
		}
	}
}

// only stores the sums of a pass over a single grain in a, with the bits of round. The query must
// not ask for sums in double-double.
func (a *answer) only(q *query, p *partial) {
	a.value, a.allow = p.value[0]+0, p.allow*(1+0x1p-50)
	if !math.IsInf(a.value, 0) { // else the error is NaN
		a.value += p.value[1]
	}
	a.grad, a.gradLow = resize(a.grad, q.dim), resize(a.gradLow, q.dim)
	for j, v := range p.grad {
		a.grad[j], a.gradLow[j] = v+0, 0
	}
	if q.ask&askHess != 0 {
		a.hess = resize(a.hess, q.dim*q.dim)
		stride := kernel.GramStride(q.dim)
		q.flush(p.hess)
		for i := range q.dim {
			copy(a.hess[i*q.dim+i:(i+1)*q.dim], p.hess[i*stride+i:])
		}
	}
}

// scale multiplies all sums by w.
func (a *answer) scale(w float64) {
	a.value *= w
	a.allow *= w
	for _, v := range [][]float64{a.grad, a.gradLow, a.hess} {
		floats.Scale(w, v)
	}
}

// resize returns a slice of length n, s itself if it is large enough.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// add2 returns hi + lo + v in double-double.
func add2(hi, lo, v float64) (float64, float64) {
	s, e := num.TwoSum(hi, v)
	return s, lo + e
}
