// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package pld

import (
	"math"

	"gonum.org/v1/gonum/dsp/fourier"

	"github.com/privopt/privopt/internal/num"
)

// law is the product of grid laws on one grid, the i-th taken times[i] times: the loss distribution
// of a composition, in one order.
type law struct {
	h     float64
	parts []gridLaw
	times []float64
}

// tail is a law near one ε₀, computed by FFT under exponential tilting: the tilted law of the loss
// X has mass e^{λx−K(λ)} p(x) and its mean near ε₀. An error η in its masses is one of η times the
// Chernoff bound in δ(ε), at most c η e^{K(λ)−λε} with c = λ^λ/(1+λ)^{1+λ}
// (docs/theory/composition.md#composition.fft). Without tilting it would be η.
type tail struct {
	h, eps0, lambda float64
	start           int       // w[0] is at loss start·h
	w               []float64 // tilted masses times e^{K(λ)−λx}, x from about ε₀−reach on
	inf             float64   // mass at +∞
	slack           float64   // c η e^{K(λ)−λε₀}
}

const (
	// wrap bounds the tilted mass outside the FFT window on either side, which is added to δ: 1e-8 of
	// a Chernoff bound.
	wrap = 1e-8
	// maxBins is the largest FFT: 2²² numbers, beyond which the grid is coarsened.
	maxBins = 1 << 22
	// span·1/λ is the range of ε around ε₀ that a tail serves.
	span = 40
)

// cumulant returns K(λ) and the tilted mean and variance of the law.
func (l *law) cumulant(lambda float64) (k, mean, variance float64) {
	for i := range l.parts {
		a, b, c := l.parts[i].cumulant(lambda, l.h)
		k += l.times[i] * a
		mean += l.times[i] * b
		variance += l.times[i] * c
	}
	return k, mean, variance
}

// inf returns the mass at +∞, 1 − Π(1−inf)^times.
func (l *law) inf() float64 {
	var log float64
	for i := range l.parts {
		log += l.times[i] * math.Log1p(-l.parts[i].inf)
	}
	return -math.Expm1(log)
}

// largest returns the largest loss of one step on the grid.
func (l *law) largest() float64 {
	top := 0
	for _, g := range l.parts {
		top = max(top, g.lo+len(g.p)-1)
	}
	return float64(top) * l.h
}

// tilt returns the λ with the least Chernoff bound on δ(ε), to a few percent: the root of the
// increasing K′(λ) − ε + log(λ/(1+λ)). Any λ > 0 gives a valid bound.
func (l *law) tilt(eps float64) float64 {
	lo, hi := 1e-3, 600/l.largest() // e^{λx} of one step stays in range
	for hi > lo*1.04 {
		mid := math.Sqrt(lo * hi)
		if _, mean, _ := l.cumulant(mid); mean-eps-math.Log1p(1/mid) > 0 {
			hi = mid
		} else {
			lo = mid
		}
	}
	return lo
}

// chernoff returns log of the bound on δ(ε) by one λ, without the mass at +∞.
func chernoff(k, lambda, eps float64) float64 {
	return k - lambda*eps + lambda*num.Log(lambda) - (1+lambda)*math.Log1p(lambda)
}

// chernoff returns a bound on δ(ε) for a law whose window is too long for an FFT: inf plus the
// Chernoff bound, whose exponent is raised by the rounding of the sums of all parts.
func (l *law) chernoff(eps float64) float64 {
	lambda := l.tilt(eps)
	k, _, _ := l.cumulant(lambda)
	var rounding float64
	for i, g := range l.parts {
		rounding += l.times[i] * 0x1p-52 * (float64(len(g.p)) + 200 + 4*lambda*l.largest())
	}
	if d := l.inf() + math.Exp(chernoff(k, lambda, eps)+rounding); d >= 0 {
		return min(1, d)
	}
	return 1
}

// window returns an interval that holds the tilted law up to mass wrap on each side: P(X ≥ b) ≤
// exp(K(λ+θ) − K(λ) − θb) for every θ > 0, and likewise below. The best θ is near √(−2 log wrap)/sd
// for a normal law, and smaller for heavier tails.
func (l *law) window(lambda, k, mean, variance float64) (lo, hi float64) {
	need := -num.Log(wrap)
	base := math.Sqrt(2*need) / math.Sqrt(variance+l.h*l.h)
	// side returns the least distance from 0 in direction sign over a few θ.
	side := func(sign, start float64) float64 {
		best := math.Inf(1)
		for t := start; t > 1e-3*start; t *= 0.5 {
			c, _, _ := l.cumulant(lambda + sign*t)
			b := (c - k + need) / t
			if b > best {
				break
			}
			best = b
		}
		return best
	}
	return -side(-1, base), side(1, min(base, max(650/l.largest()-lambda, 0.01*lambda)))
}

// bins returns the length of the FFT for a tilt, and the index of its start.
func (l *law) bins(lambda, k, mean, variance float64) (n, start int, ok bool) {
	lo, hi := l.window(lambda, k, mean, variance)
	first, last := math.Floor(lo/l.h), math.Ceil(hi/l.h)
	if !(first <= last && last-first < maxBins) {
		return 0, 0, false
	}
	for n = 64; float64(n) <= last-first; n *= 2 {
	}
	return n, int(first), true
}

// tail computes the law near ε₀. It fails if the FFT would be too long.
func (l *law) tail(eps0 float64) (*tail, bool) {
	lambda := l.tilt(eps0)
	k, mean, variance := l.cumulant(lambda)
	n, start, ok := l.bins(lambda, k, mean, variance)
	if !ok {
		return nil, false
	}
	fft := fourier.NewFFT(n)
	buf := make([]float64, n)
	product := make([]complex128, n/2+1)
	factor := make([]complex128, n/2+1)
	// |product| + error ≤ e^{above}, |product| = e^{at}, see errorNorms.
	above, at := make([]float64, len(product)), make([]float64, len(product))
	unit := 0x1p-53 * (8*math.Log2(float64(n)) + 4 + lambda*l.largest())
	for i := range product {
		product[i] = 1
	}
	for i := range l.parts {
		g := &l.parts[i]
		one, _, _ := g.cumulant(lambda, l.h)
		clear(buf)
		for j, p := range g.p {
			if p > 0 {
				buf[mod(g.lo+j, n)] += p * math.Exp(lambda*float64(g.lo+j)*l.h-one)
			}
		}
		fft.Coefficients(factor, buf)
		for j, c := range factor {
			r := math.Sqrt(real(c)*real(c) + imag(c)*imag(c))
			logr := num.Log(r)
			at[j] += l.times[i] * logr
			if r > unit { // log(r+unit) ≤ log r + unit/r
				above[j] += l.times[i] * (logr + unit/r)
			} else {
				above[j] += l.times[i] * num.Log(2*unit)
			}
			product[j] *= power(c, l.times[i])
		}
	}
	eta := errorNorms(above, at, unit) + 2*wrap
	fft.Sequence(buf, product)

	t := &tail{h: l.h, eps0: eps0, lambda: lambda}
	t.slack = eta * math.Exp(chernoff(k, lambda, eps0))
	t.inf = l.inf()
	t.start = max(start, int(math.Floor((eps0-span/lambda)/l.h)))
	end := start + n
	if t.start >= end {
		t.start = end
	}
	t.w = make([]float64, end-t.start)
	for i := range t.w {
		j := t.start + i
		t.w[i] = buf[mod(j, n)] / float64(n) * math.Exp(k-lambda*float64(j)*l.h)
	}
	return t, true
}

// errorNorms bounds the sum over all bins of the errors of the masses. A coefficient of one part is
// wrong by at most unit, so that of the product by e^{above} − e^{at}; the ℓ₁ norm of the errors is
// at most the ℓ₂ norm of those of the coefficients. The inverse transform adds unit times their
// norm.
func errorNorms(above, at []float64, unit float64) float64 {
	var e2, f2 float64
	for k := range above {
		w := 2.0 // coefficients k and n−k
		if k == 0 || k == len(above)-1 {
			w = 1
		}
		d := math.Exp(above[k]) * -math.Expm1(at[k]-above[k])
		e2 += w * d * d
		f2 += w * math.Exp(2*above[k])
	}
	return math.Sqrt(e2) + unit*math.Sqrt(f2)
}

// power returns c^t for a whole number t, with a relative error of t roundings.
func power(c complex128, t float64) complex128 {
	r := complex(1, 0)
	for n := uint64(t); n > 0; n >>= 1 {
		if n&1 == 1 {
			r *= c
		}
		c *= c
	}
	return r
}

func mod(i, n int) int { return ((i % n) + n) % n }

// delta returns an upper bound on δ(ε) of the law, for ε in the range of the tail, and 1 below it.
func (t *tail) delta(eps float64) float64 {
	if eps < t.eps0-(span-2)/t.lambda {
		return 1
	}
	first := max(0, int(math.Floor(eps/t.h))+1-t.start)
	var sum float64
	for i := first; i < len(t.w); i++ {
		sum += t.w[i] * -math.Expm1(eps-float64(t.start+i)*t.h)
	}
	// slack was taken at ε₀; it is e^{λ(ε₀−ε)} times that at ε.
	slack := t.slack * math.Exp(t.lambda*(t.eps0-eps))
	return min(1, max(0, sum*(1+1e-10))+slack+t.inf)
}
