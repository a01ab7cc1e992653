// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package noise

import (
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"

	"github.com/privopt/privopt/internal/enclose"
)

// ChiSquared draws from the χ² law of n degrees of freedom, within a relative 2⁻⁵¹ of a real number
// of that law (docs/theory/numerics.md#numerics.floats): by a cube for n ≥ 16, and for fewer as
// twice a sum of exponential draws, plus the square of a normal draw for odd n. It panics unless
// 1 ≤ n ≤ 2¹⁶.
func ChiSquared(n int, src rand.Source) float64 {
	switch {
	case n < 1 || n > maxDegrees:
		panic(errDegrees)
	case n >= leastCube:
		return newCube(n).float(src)
	}
	var sum, low float64
	if n%2 == 1 {
		_, x := normals.float(src)
		sum = float64(x * x) // not to be fused with the sum below
		low = math.FMA(x, x, -sum)
	}
	for range n / 2 {
		x := 2 * Exponential(src)
		t := sum + x
		z := t - sum
		low += (sum - (t - z)) + (x - z) // exact: sum + x = t + this
		sum = t
	}
	return sum + low
}

// cube draws from the χ² law of n degrees of freedom in bounded time [MT00b]. With d = n/2 − ⅓, a
// number c with 9dc² ≥ 1, x a normal draw and y = cx, the number
//
//	2d(1+y)³   if y > −1 and V < e^{-t},   t = (9dc²−1)x²/2 + d·r(y),   r(y) = ∫₀^y 3s³/(1+s) ds
//
// has exactly that law, and t ≥ 0 grows with |x| on either side of 0:
// docs/theory/numerics.md#numerics.cube.
type cube struct {
	k float64 // 6d = 3n − 2
	c float64 // 1 ≤ 9dc² ≤ 1 + 2⁻⁴⁸, a multiple of 2⁻⁶⁴
}

const (
	leastCube = 16 // the least n of a cube: then 1+y > ½ for all normal draws outside of the tail

	// certain is a margin in V beyond which floating point accepts, and doubtful the distance from
	// the curve below which intervals decide; numerics.cube bounds the errors by less.
	certain  = 0x1p-38
	doubtful = 0x1p-30
)

func newCube(n int) cube {
	k := float64(3*n - 2)
	return cube{k: k, c: math.Sqrt(2/(3*k)) * (1 + 0x1p-51)}
}

// draw returns the word of x with its sign, and |x| as a real if that took more words, else nil.
func (q cube) draw(src rand.Source) (u uint64, far *real) {
	for try := 1; ; try++ {
		u, far = normals.draw(src)
		x := float64(middle(u)) * 0x1p-61
		if far != nil {
			x = far.approx()
		}
		v := src.Uint64()
		height := float64(v) * 0x1p-64
		low, high := q.around(q.c*withSign(u, x), height)
		if height < low {
			return u, far
		}
		switch {
		case height > high:
		case far != nil:
			if q.under(negative(u), far, v, src) {
				return u, far
			}
		default:
			if near := normals.real(u); q.under(negative(u), near, v, src) {
				return u, near.ifLonger()
			}
		}
		giveUp(try, maxTries, src)
	}
}

// negative reports whether the sign of a draw is −1.
func negative(u uint64) bool { return u&layers != 0 }

// middle returns |x| for the middle of the cell to which the word of a normal draw confines it, in
// units of 2⁻⁶¹.
func middle(u uint64) uint64 {
	m, _ := bits.Mul64(u&^(1<<(64-fraction)-1)|1<<(63-fraction), normals.layer[u&(layers-1)].width)
	return m
}

// around returns numbers below and above e^{-t}, for a y up to its rounding. They are far apart if
// that decides on the height V. For y > −½, t ≤ 3dy⁴/2 + (9dc²−1)x²/2. The logarithm in
// r(y) = y³ − 3y²/2 + 3y − 3 log(1+y) is a series in z = y/(2+y), |z| ≤ ⅓, with a remainder below
// 2⁻⁵⁸.
func (q cube) around(y, height float64) (low, high float64) {
	if !(y > -0.5 && y < 1) {
		return 0, 1
	}
	square := y * y
	if low = 1 - q.k/4*square*square - certain; height < low {
		return low, 1
	}
	z := y / (2 + y)
	sum := 0.0
	for j := 33.0; j >= 1; j -= 2 {
		sum = sum*z*z + 1/j
	}
	t := q.k / 6 * (y*square - 1.5*square + 3*y - 6*z*sum)
	return expNeg(t) - doubtful, expNeg(t) + doubtful
}

// under decides whether V < e^{-t(x)}. The known bits confine (|x|, V) to a rectangle. If its
// corners lie on both sides of the curve, x and V get one more word.
func (q cube) under(minus bool, x *real, v uint64, src rand.Source) bool {
	ordinate := &expansion{word(v), 64}
	for try := 1; ; try++ {
		if q.below(minus, x, ordinate, 1) {
			return true
		}
		if !q.below(minus, x, ordinate, 0) {
			return false
		}
		x.more(src)
		ordinate.more(src)
		giveUp(try, maxWords, src)
	}
}

// below reports whether V < e^{-t} at one corner of the rectangle, by the sign of
//
//	6 log V + 6t = 6 log V + k((1+y)³ − 1 − 3 log(1+y)) − 3x²
//
// which is not 0 for rational V, x ≠ 0 and y = cx, so that enough digits decide.
func (q cube) below(minus bool, x *real, v *expansion, end int64) bool {
	corner := new(big.Int).Add(v.bits, big.NewInt(end))
	root, scale := q.root(minus, x, end)
	switch whole := corner.Cmp(lsh(one, v.n)) >= 0; {
	case root.Sign() <= 0 || whole:
		return false
	case corner.Sign() == 0 || x.at(end).Sign() == 0: // t = 0 at x = 0
		return true
	}
	for precision := uint(128); ; precision *= 2 {
		c := enclose.New(precision, nil)
		w, height := rational(root, scale), rational(corner, v.n)
		three := c.Of(3)
		y := c.Sub(c.Mul(c.Square(w), w), c.Add(c.Of(1), c.Mul(three, c.Log(w))))
		t := c.Sub(c.Mul(c.Of(q.k), y), c.Mul(three, c.Square(rational(x.at(end), x.scale()))))
		switch sum := c.Add(c.Mul(c.Of(6), c.Log(height)), t); {
		case sum.Hi.Sign() < 0:
			return true
		case sum.Lo.Sign() > 0:
			return false
		}
	}
}

// rational returns k 2^-scale as an interval of one point.
func rational(k *big.Int, scale uint) enclose.Interval {
	v := new(big.Float).SetInt(k)
	v.SetMantExp(v, -int(scale))
	return enclose.Interval{Lo: v, Hi: v}
}

// root returns 1 + y = 1 ± c|x| at one end of x, as an integer over 2^scale.
func (q cube) root(minus bool, x *real, end int64) (w *big.Int, scale uint) {
	scale = x.scale() + 64
	w = x.at(end)
	w.Mul(w, word(uint64(q.c*0x1p64)))
	if minus {
		w.Neg(w)
	}
	return w.Add(w, lsh(one, scale)), scale
}

// float draws the number 2d(1+y)³ = k(1+y)³/3 in float64. From one word, 1+y is a multiple of 2⁻⁶³.
func (q cube) float(src rand.Source) float64 {
	u, far := q.draw(src)
	if far != nil {
		return (&chi{cube: q, minus: negative(u), normal: far, digits: 128}).float(src)
	}
	y, _ := bits.Mul64(middle(u), uint64(q.c*0x1p64))
	w := uint64(1)<<63 + y<<2
	if negative(u) {
		w = 1<<63 - y<<2
	}
	square, _ := bits.Mul64(w, w)       // in units of 2⁻⁶²
	product, _ := bits.Mul64(square, w) // and 2⁻⁶¹
	return float64(product) * (q.k * 0x1p-61) / 3
}

// chi is a draw from a χ² law, by a cube of normal if cube.k > 0, and else 2(E₁ + E₂ + …), plus z²
// if normal is not nil.
type chi struct {
	cube        cube
	minus       bool // the sign of normal in a cube
	exponential []*real
	normal      *real
	digits      uint // even: brackets are in units of 2^-digits
}

// newChi draws from the χ² law with n degrees of freedom, each term with two words or more. The
// constants of a cube are proved for n ≤ 2¹⁶; beyond, the time grows like n.
func newChi(n int, src rand.Source) *chi {
	c := &chi{}
	if n >= leastCube && n <= maxDegrees {
		c.cube = newCube(n)
		u, far := c.cube.draw(src)
		if far == nil {
			far = normals.real(u)
		}
		c.minus, c.normal = negative(u), far
		c.more(src)
		return c
	}
	c.exponential = make([]*real, n/2)
	for i := range c.exponential {
		c.exponential[i] = exponentials.number(src)
	}
	if n%2 == 1 {
		c.normal = normals.number(src)
	}
	c.more(src)
	return c
}

// number draws a real.
func (z *ziggurat) number(src rand.Source) *real {
	u, far := z.draw(src)
	if far == nil {
		far = z.real(u)
	}
	return far
}

// more appends one word to each term.
func (c *chi) more(src rand.Source) {
	for _, e := range c.exponential {
		e.more(src)
	}
	if c.normal != nil {
		c.normal.more(src)
	}
	c.digits += 128
}

// bracket returns bounds of the draw in units of 2^-digits.
func (c *chi) bracket() (lo, hi *big.Int) {
	if c.cube.k > 0 {
		lo, hi = c.cubed(0), c.cubed(1)
		if c.minus {
			lo, hi = hi, lo
		}
		return lo, hi.Add(hi, one)
	}
	lo, hi = new(big.Int), new(big.Int)
	add := func(a, b *big.Int, e int) { // a 2ᵉ and b 2ᵉ
		lo.Add(lo, shift(a, e))
		hi.Add(hi, shift(b, e)).Add(hi, one)
	}
	for _, x := range c.exponential {
		add(x.at(0), x.at(1), int(c.digits)+1-int(x.scale()))
	}
	if x := c.normal; x != nil {
		a, b := x.at(0), x.at(1)
		add(a.Mul(a, a), b.Mul(b, b), int(c.digits)-2*int(x.scale()))
	}
	return lo, hi
}

// cubed returns k(1+y)³/3 at one end of the normal draw in units of 2^-digits, rounded down.
func (c *chi) cubed(end int64) *big.Int {
	w, scale := c.cube.root(c.minus, c.normal, end)
	w.Mul(w, new(big.Int).Mul(w, w)).Mul(w, word(uint64(c.cube.k)))
	w = shift(w, int(c.digits)-3*int(scale))
	return w.Quo(w, big.NewInt(3))
}

// float returns the draw within 2⁻⁵³(1+2⁻⁷) relative. It draws words until the bits suffice.
func (c *chi) float(src rand.Source) float64 {
	for try := 1; ; try++ {
		lo, hi := c.bracket()
		if gap := hi.Sub(hi, lo); gap.BitLen()+62 <= lo.BitLen() {
			f, _ := new(big.Float).SetMantExp(new(big.Float).SetInt(lo), -int(c.digits)).Float64()
			return f
		}
		c.more(src)
		giveUp(try, maxWords, src)
	}
}
