// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package noise

import (
	"math/big"
	"math/rand/v2"
	"sort"
)

// Levels draws indices with P(i) ∝ wᵢ e^{-gᵢ/c}, exactly.
type Levels struct {
	gaps    []int64
	weights []uint64
	scale   *big.Rat // c

	precision uint
	lo, hi    []*big.Int // brackets of Σ_{j≤i} wⱼ e^{-gⱼ/c} 2^precision
}

// NewLevels panics unless there are as many weights as gaps, at least one, gaps[0] = 0 and no gap
// is negative, every weight is positive, and c is positive and at most 2¹⁰⁰⁰. It keeps the slices.
func NewLevels(gaps []int64, weights []uint64, c float64) *Levels {
	if len(gaps) == 0 || len(weights) != len(gaps) || gaps[0] != 0 || !(c > 0 && c <= 0x1p1000) {
		panic("noise: levels need a weight for each gap, the first gap 0 and a scale")
	}
	l := &Levels{gaps: gaps, weights: weights, scale: new(big.Rat).SetFloat64(c)}
	l.lo, l.hi = l.brackets(128)
	l.precision = 128
	return l
}

// brackets returns bounds on the cumulative sums in units of 2^-precision.
func (l *Levels) brackets(precision uint) (lo, hi []*big.Int) {
	below, above := new(big.Int), new(big.Int)
	for i, g := range l.gaps {
		down, up := lsh(one, precision), lsh(one, precision)
		if g > 0 {
			// With t = ⌈2^s g/c⌉ 2⁻ˢ, s = precision + 2: e^{-t} ≤ e^{-g/c} < e^{-t}(1 + 2^{1-s}), which adds
			// less than one unit, and expInt loses one and gains two at most.
			s := precision + 2
			t := new(big.Int).Mul(lsh(big.NewInt(g), s), l.scale.Denom())
			t.Add(t, new(big.Int).Sub(l.scale.Num(), one)).Quo(t, l.scale.Num())
			f := new(big.Int)
			if t.BitLen() < int(s)+40 { // else below e^{-2³⁹}
				f = expInt(t, s, precision)
			}
			down, up = new(big.Int).Sub(f, one), new(big.Int).Add(f, big.NewInt(3))
			if down.Sign() < 0 {
				down.SetInt64(0)
			}
		}
		w := word(l.weights[i])
		below = new(big.Int).Add(below, down.Mul(down, w))
		above = new(big.Int).Add(above, up.Mul(up, w))
		lo, hi = append(lo, below), append(hi, above)
	}
	return lo, hi
}

// Draw draws an index. The bits of a uniform U are drawn until they show between which cumulative
// sums U times the total lies; they are kept while the sums get more digits.
func (l *Levels) Draw(src rand.Source) int {
	u := &expansion{word(src.Uint64()), 64}
	lo, hi := l.lo, l.hi
	precision := l.precision
	last := len(lo) - 1
	for try := 1; ; try++ {
		// U·total lies in [from, to) in units of 2^-(precision+n)
		from := new(big.Int).Mul(u.bits, lo[last])
		to := new(big.Int).Add(u.bits, one)
		to.Mul(to, hi[last])
		i := sort.Search(last, func(i int) bool { return lsh(lo[i], u.n).Cmp(to) >= 0 })
		top := lsh(lo[i], u.n).Cmp(to) >= 0 || i == last
		if top && (i == 0 || from.Cmp(lsh(hi[i-1], u.n)) >= 0) {
			return i
		}
		u.more(src)
		if u.n > precision {
			precision *= 2
			lo, hi = l.brackets(precision)
		}
		giveUp(try, maxWords, src)
	}
}
