// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package noise

import (
	"math/big"
	"math/rand/v2"
)

// real is a nonnegative real number of which n bits of U ∈ [0,1] are known:
//
//	x = (offset + slope·U) 2^-unit,  U ∈ [bits, bits+1]·2⁻ⁿ.
//
// Further bits are drawn when they are needed.
type real struct {
	offset, slope *big.Int
	unit          uint
	*expansion
}

// expansion holds the known bits of U. Two numbers that depend on the same U share it.
type expansion struct {
	bits *big.Int
	n    uint
}

var one = big.NewInt(1)

func word(u uint64) *big.Int { return new(big.Int).SetUint64(u) }

func lsh(x *big.Int, n uint) *big.Int { return new(big.Int).Lsh(x, n) }

// shift returns ⌊x 2ᵉ⌋.
func shift(x *big.Int, e int) *big.Int {
	if e >= 0 {
		return lsh(x, uint(e))
	}
	return new(big.Int).Rsh(x, uint(-e))
}

// real returns the number that the word of a draw outside the tail begins.
func (z *ziggurat) real(u uint64) *real {
	return &real{new(big.Int), word(z.layer[u&(layers-1)].width), z.unit, &expansion{word(u >> (64 - fraction)), fraction}}
}

// ifLonger returns x if more bits of it are known than the word of a draw holds, else nil: where
// rationals decided with no more words, the draw is what it is where floats decide, so that it does
// not depend on how a machine rounds.
func (x *real) ifLonger() *real {
	if x.n > fraction {
		return x
	}
	return nil
}

// affine returns (a + bx) 2^-unit. It shares the bits of x.
func (x *real) affine(a, b uint64, unit uint) *real {
	offset := lsh(word(a), x.unit)
	offset.Add(offset, new(big.Int).Mul(word(b), x.offset))
	return &real{offset, new(big.Int).Mul(word(b), x.slope), x.unit + unit, x.expansion}
}

// more appends one word to the bits of U.
func (u *expansion) more(src rand.Source) { u.join(src.Uint64()) }

// join appends the word v.
func (u *expansion) join(v uint64) {
	u.bits = lsh(u.bits, 64)
	u.bits.Or(u.bits, word(v))
	u.n += 64
}

// at returns x 2^{unit+n} at U = (bits+end) 2⁻ⁿ.
func (x *real) at(end int64) *big.Int {
	k := big.NewInt(end)
	k.Add(k, x.bits).Mul(k, x.slope)
	return k.Add(k, lsh(x.offset, x.n))
}

// scale is unit+n: at is in units of 2^-scale.
func (x *real) scale() uint { return x.unit + x.n }

// approx is the lower end of x, rounded to nearest.
func (x *real) approx() float64 {
	f, _ := new(big.Float).SetMantExp(new(big.Float).SetInt(x.at(0)), -int(x.scale())).Float64()
	return f
}

// under decides whether the point with abscissa x and ordinate yᵢ + V(yᵢ₊₁ - yᵢ) lies under
// e^{-t(x)}, or under e^{E-t(x)} if e is not nil. Both curves decrease in U. V begins with the word
// v. The known bits confine (x, V) to a rectangle. If its corners lie on both sides of the curve, x
// and then V get one more word.
func (z *ziggurat) under(i int, x, e *real, v uint64, src rand.Source) bool {
	ordinate := &expansion{word(v), 64}
	for try := 1; ; try++ {
		if z.below(i, x, e, ordinate, 1) {
			return true
		}
		if !z.below(i, x, e, ordinate, 0) {
			return false
		}
		x.more(src)
		ordinate.more(src)
		giveUp(try, maxWords, src)
	}
}

// below reports whether yᵢ + V(yᵢ₊₁ - yᵢ) < e^{-t(x)+E} at one corner of the rectangle. Unless t =
// 0 the right side is transcendental, and enough digits decide; for t = 0 two rational numbers are
// compared.
func (z *ziggurat) below(i int, x, e *real, v *expansion, end int64) bool {
	t, scale := z.exponentAt(x, e, end)
	corner := new(big.Int).Add(v.bits, big.NewInt(end))
	if t.Sign() == 0 {
		y := new(big.Rat).SetFrac(corner, lsh(one, v.n))
		y.Mul(y, z.height(i))
		for j := range i {
			y.Add(y, z.height(j))
		}
		return y.Cmp(big.NewRat(1, 1)) < 0
	}
	for precision := uint(128); ; precision *= 2 {
		lo, hi := z.ordinate(i, corner, v.n, precision)
		f := expInt(t, scale, precision) // e^{-t} 2^precision lies in (f-1, f+2)
		if hi.Cmp(new(big.Int).Sub(f, one)) <= 0 {
			return true
		}
		if lo.Cmp(f.Add(f, big.NewInt(2))) >= 0 {
			return false
		}
	}
}

// exponentAt returns t(x) - E as an integer over 2^scale, E = 0 if e is nil.
func (z *ziggurat) exponentAt(x, e *real, end int64) (t *big.Int, scale uint) {
	t, scale = x.at(end), x.scale()
	if z.half {
		t, scale = new(big.Int).Mul(t, t), 2*scale+1
	}
	if e != nil {
		t.Sub(t, lsh(e.at(end), scale-e.scale()))
	}
	return t, scale
}

// height returns yⱼ₊₁ - yⱼ = A/wⱼ.
func (z *ziggurat) height(j int) *big.Rat {
	return new(big.Rat).SetFrac(lsh(word(z.area), z.unit), lsh(word(z.layer[j].width), 70))
}

// ordinate brackets yᵢ + k 2⁻ⁿ (yᵢ₊₁ - yᵢ) in units of 2^-precision, n ≥ 64.
func (z *ziggurat) ordinate(i int, k *big.Int, n, precision uint) (lo, hi *big.Int) {
	area := lsh(word(z.area), z.unit+precision)
	lo = new(big.Int).Mul(area, k)
	lo.Quo(lo, lsh(word(z.layer[i].width), 70+n))
	for j := range i {
		lo.Add(lo, new(big.Int).Quo(area, lsh(word(z.layer[j].width), 70)))
	}
	return lo, new(big.Int).Add(lo, big.NewInt(int64(i)+1)) // each quotient lost less than 1
}

// expInt returns f with f-1 < e^{-t 2^-scale} 2^precision < f+2, t > 0: the series at s = t
// 2^-halvings < 2⁻⁸ to guard bits, squared halvings times. The error of the series is less than 2¹⁰
// units of the last bit, each squaring doubles the error and adds 1, and the last halvings + 32
// bits are cut off.
func expInt(t *big.Int, scale, precision uint) *big.Int {
	halvings := uint(max(0, t.BitLen()-int(scale))) + 8
	guard := precision + halvings + 32
	s := shift(t, int(guard)-int(scale)-int(halvings))
	sum, term := lsh(one, guard), lsh(one, guard)
	for n := int64(1); term.Sign() != 0; n++ {
		term.Mul(term, s).Rsh(term, guard).Quo(term, big.NewInt(n))
		if n%2 == 1 {
			sum.Sub(sum, term)
		} else {
			sum.Add(sum, term)
		}
	}
	for range halvings {
		sum.Mul(sum, sum).Rsh(sum, guard)
	}
	return sum.Rsh(sum, guard-precision)
}

// float returns x rounded to 62 bits or more and then to float64, within 2⁻⁵³(1+2⁻⁷) relative. It
// draws words until the bits suffice.
func (x *real) float(src rand.Source) float64 {
	for try := 1; x.at(0).BitLen() < x.slope.BitLen()+62; try++ {
		x.more(src)
		giveUp(try, maxWords, src)
	}
	return x.approx()
}
