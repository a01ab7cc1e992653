// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package noise

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

const (
	layers   = 256 // of a ziggurat
	fraction = 55  // bits of U in the first word of a draw

	// maxTries bounds rejections in a row, each of probability at most 1 - 1/e, and maxWords the words
	// of one number and the tails within tails. A draw needs more with probability below 2⁻⁶⁰⁰.
	maxTries = 1000
	maxWords = 64

	// nearby is the distance from the curve below which rational arithmetic decides in the place of
	// floating point, whose error is below 2⁻⁴⁷, see settle.
	nearby = 0x1p-44
)

// layer is layer i of a ziggurat: [0, wᵢ] × [yᵢ, yᵢ₊₁].
type layer struct {
	width  uint64  // wᵢ in units of 2^-unit
	sure   uint64  // a point with m < sure lies under the curve
	x      float64 // wᵢ 2⁻⁵⁵, so that x = m·x
	y, add float64 // yᵢ and (yᵢ₊₁ - yᵢ) 2⁻⁶⁴, so that y = y + V·add
}

// ziggurat covers the area under f(x) = e^{-t(x)}, x ≥ 0, by 256 layers of
// exactly equal area A. With widths w₀ > w₁ = r > … > w₂₅₅, y₀ = 0 and yᵢ₊₁ = yᵢ + A/wᵢ,
// layer 0 is [0, r] × [0, y₁] together with the area under
//
//	y₁ e^{-(x-r)/τ}, x > r, τ = w₀ - r,
//
// which is r y₁ + τ y₁ = w₀ y₁ = A. The widths are rounded up, so that f(wᵢ) ≤ yᵢ, and y₂₅₆ ≥ 1,
// τ r ≥ 1 (normal) or τ ≥ 1 (exponential): the layers cover the area under f, and the
// abscissa of a uniform point of them that lies under f has the density f/∫f exactly:
// docs/theory/release.md#release.integers.
type ziggurat struct {
	half   bool // t(x) = x²/2 instead of x
	unit   uint // widths are integers of 2^-unit
	area   uint64
	inner  uint64    // layer 0 ends, and the tail begins, at m = inner: r = inner·w₀·2⁻⁵⁵
	nearby float64   // the distance from the curve below which rationals decide
	tails  *ziggurat // draws E of the tail
	layer  [layers]layer
}

var (
	exponentials = newExponentials(nearby)
	normals      = newNormals(exponentials)
)

// newExponentials returns the ziggurat of the exponential law, whose tail is the law itself.
func newExponentials(nearby float64) *ziggurat {
	z := newZiggurat(59, exponentialArea, &exponentialWidth)
	z.nearby, z.tails = nearby, z
	return z
}

// newNormals returns the ziggurat of the normal law.
func newNormals(tails *ziggurat) *ziggurat {
	z := newZiggurat(61, normalArea, &normalWidth)
	z.half, z.nearby = true, tails.nearby
	z.tails = tails
	return z
}

// newZiggurat derives the layers from the widths by integer arithmetic, every y to 2⁻⁵⁴. The bound
// sure leaves 4096 units to wᵢ₊₁, where the curve is still above yᵢ₊₁.
func newZiggurat(unit uint, area uint64, width *[layers]uint64) *ziggurat {
	z := &ziggurat{unit: unit, area: area}
	var y uint64 // yᵢ in units of 2⁻⁶³
	for i, w := range width {
		hi, lo := area>>(71-unit), area<<(unit-7) // A/w = area/w 2^{unit-70}
		dy, _ := bits.Div64(hi, lo, w)
		l := layer{width: w, x: float64(w) * pow2(-int(unit)-fraction), y: float64(y) * 0x1p-63, add: float64(dy) * 0x1p-127}
		if i+1 < layers {
			l.sure = ratio(width[i+1]-4096, w)
		}
		z.layer[i] = l
		y += dy
	}
	z.inner = ratio(width[1], width[0])
	return z
}

// ratio returns ⌊2⁵⁵ a/b⌋, a < b.
func ratio(a, b uint64) uint64 {
	q, _ := bits.Div64(a>>(64-fraction), a<<fraction, b)
	return q
}

// pow2 returns 2ᵉ for -1022 ≤ e ≤ 1023.
func pow2(e int) float64 { return math.Float64frombits(uint64(1023+e) << 52) }

// draw returns the word of a point under the curve: its layer i in 8 bits, a fair sign in one and m
// in 55, which confine a real number |x| to [m, m+1]·wᵢ·2⁻⁵⁵. If the decision took more words, or
// the point lies in the tail, far is |x|, else nil.
func (z *ziggurat) draw(src rand.Source) (u uint64, far *real) {
	if u = src.Uint64(); u>>(64-fraction) < z.layer[u&(layers-1)].sure {
		return u, nil
	}
	return z.finish(u, src, 0)
}

// finish goes on with the word u, and with new words after a rejection. depth counts the tails
// within tails.
func (z *ziggurat) finish(u uint64, src rand.Source, depth int) (uint64, *real) {
	for try := 1; ; try++ {
		if u>>(64-fraction) < z.layer[u&(layers-1)].sure {
			return u, nil
		}
		if far, ok := z.settle(u, src, depth); ok {
			return u, far
		}
		giveUp(try, maxTries, src)
		u = src.Uint64()
	}
}

// settle decides whether a point that is not surely under the curve is under it, with a second word
// V for its ordinate yᵢ + V (yᵢ₊₁ - yᵢ). In the tail x = r + τE, E an exponential draw, and the
// ordinate V y₁, uniform under the envelope when multiplied by e^{-E}, is compared with f(x) e^E.
//
// At a distance of 2⁻⁴⁴ or more from the curve floating point decides: the unknown bits of x and
// the roundings of x and t are a relative 2⁻⁵⁰ of t, which moves f by t f 2⁻⁵⁰ < 2⁻⁵¹; expNeg adds
// 2⁻⁴⁸, the ordinate 2⁻⁵¹. Nearer, rational arithmetic decides. So the outcome and the words used
// are those of exact arithmetic on every machine.
func (z *ziggurat) settle(u uint64, src rand.Source, depth int) (far *real, ok bool) {
	i, m := u&(layers-1), u>>(64-fraction)
	l := &z.layer[i]
	var x, e *real
	var t float64
	if tail := i == 0 && m >= z.inner; tail {
		x, e = z.tail(src, depth)
		xf := x.approx()
		t = z.exponent(xf) - e.approx()
	} else {
		t = z.exponent(float64(int64(m)) * l.x)
	}
	v := src.Uint64()
	switch gap := l.y + float64(v)*l.add - expNeg(t); {
	case gap < -z.nearby:
		return x, true
	case gap > z.nearby:
		return nil, false
	}
	if x != nil {
		return x, z.under(int(i), x, e, v, src)
	}
	x = z.real(u)
	ok = z.under(int(i), x, nil, v, src)
	return x.ifLonger(), ok
}

// tail returns x = r + τE and E, which share their bits.
func (z *ziggurat) tail(src rand.Source, depth int) (x, e *real) {
	depth++
	giveUp(depth, maxWords, src) // each level has probability 5e-4
	u, e := z.tails.finish(src.Uint64(), src, depth)
	if e == nil {
		e = z.tails.real(u)
	}
	r := z.layer[1].width
	return e.affine(r, z.layer[0].width-r, z.unit), e
}

// exponent is t(x).
func (z *ziggurat) exponent(x float64) float64 {
	if z.half {
		return x * x / 2
	}
	return x
}

// expNeg returns e^{-t} for t ≥ 0, with a relative error below 2⁻⁴⁸ down to e^{-700}, and 0 below
// that: k ln 2 is subtracted exactly and the series of |s| ≤ 0.35 has a remainder below 2⁻⁵⁷.
// math.Exp may round differently on other machines.
func expNeg(t float64) float64 {
	const (
		ln2hi = 6.93147180369123816490e-01 // 33 bits: products with k < 2¹⁰ are exact
		ln2lo = 1.90821492927058770002e-10
	)
	if !(t < 700) {
		return 0
	}
	k := math.Floor(t/math.Ln2 + 0.5)
	s := k*ln2hi - t + k*ln2lo
	p := 0.
	for _, c := range expSeries {
		p = p*s + c
	}
	return p * pow2(-int(k))
}

// expSeries holds 1/n! for n = 13, …, 0.
var expSeries = [14]float64{
	1. / 6227020800, 1. / 479001600, 1. / 39916800, 1. / 3628800, 1. / 362880, 1. / 40320, 1. / 5040,
	1. / 720, 1. / 120, 1. / 24, 1. / 6, 1. / 2, 1, 1,
}
