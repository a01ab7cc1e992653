// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package prox

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// These functions compute with 600 bits.
func bigOf(x float64) *big.Float        { return new(big.Float).SetPrec(600).SetFloat64(x) }
func bigAdd(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(600).Add(a, b) }
func bigSub(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(600).Sub(a, b) }
func bigMul(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(600).Mul(a, b) }
func bigQuo(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(600).Quo(a, b) }
func bigMax(a, b *big.Float) *big.Float {
	if a.Cmp(b) > 0 {
		return a
	}
	return b
}

func bigNorm(x []*big.Float) *big.Float {
	sum := bigOf(0)
	for _, v := range x {
		sum = bigAdd(sum, bigMul(v, v))
	}
	return sum.Sqrt(sum)
}

func bigScaled(x []*big.Float, c *big.Float) []*big.Float {
	y := make([]*big.Float, len(x))
	for i := range x {
		y[i] = bigMul(c, x[i])
	}
	return y
}

// soft returns the soft threshold S_t(x) = sign(x)·max(|x|−t, 0).
func soft(x, t *big.Float) *big.Float {
	size := bigMax(bigSub(new(big.Float).SetPrec(600).Abs(x), t), bigOf(0))
	if x.Sign() < 0 {
		return size.Neg(size)
	}
	return size
}

func bigSeparable(s separable, x []*big.Float, gamma *big.Float) []*big.Float {
	y := make([]*big.Float, len(x))
	for i := range x {
		y[i] = bigQuo(soft(x[i], bigMul(gamma, bigOf(s.l1))), bigAdd(bigOf(1), bigMul(gamma, bigOf(s.l2))))
		if !math.IsInf(s.lo, -1) {
			y[i] = bigMax(y[i], bigOf(s.lo))
		}
		if !math.IsInf(s.hi, 1) && y[i].Cmp(bigOf(s.hi)) > 0 {
			y[i] = bigOf(s.hi)
		}
	}
	return y
}

// shrunk returns (1 − t/‖y‖)₊y.
func shrunk(y []*big.Float, t *big.Float) []*big.Float {
	n := bigNorm(y)
	if n.Cmp(t) <= 0 {
		return bigScaled(y, bigOf(0))
	}
	return bigScaled(y, bigSub(bigOf(1), bigQuo(t, n)))
}

// level returns the root τ of Σ(y_i−τ)₊ = total.
func level(y []*big.Float, total *big.Float) *big.Float {
	sorted := slices.Clone(y)
	slices.SortFunc(sorted, func(a, b *big.Float) int { return b.Cmp(a) })
	sum, tau := bigOf(0), bigOf(0)
	for k, v := range sorted {
		sum = bigAdd(sum, v)
		t := bigQuo(bigSub(sum, total), bigOf(float64(k+1)))
		if k > 0 && v.Cmp(t) <= 0 {
			break
		}
		tau = t
	}
	return tau
}

func bigProx(g Operator, x []*big.Float, gamma *big.Float) []*big.Float {
	switch g := form(g).(type) {
	case separable:
		return bigSeparable(g, x, gamma)
	case radial:
		r := g
		y := bigScaled(bigSeparable(r.s, x, gamma), bigQuo(bigOf(1), bigAdd(bigOf(1), bigMul(gamma, bigOf(r.l2)))))
		y = shrunk(y, bigQuo(bigMul(gamma, bigOf(r.norm)), bigAdd(bigOf(1), bigMul(gamma, bigOf(r.l2)))))
		if n := bigNorm(y); !math.IsInf(r.r, 1) && n.Cmp(bigOf(r.r)) > 0 {
			y = bigScaled(y, bigQuo(bigOf(r.r), n))
		}
		return y
	case grouped:
		y := bigSeparable(g.s, x, gamma)
		for _, group := range g.g.Groups {
			part := make([]*big.Float, len(group))
			for k, i := range group {
				part[k] = y[i]
			}
			for k, v := range shrunk(part, bigMul(gamma, bigOf(g.g.Weight))) {
				y[group[k]] = v
			}
		}
		return y
	case weighted:
		tau := level(x, bigOf(g.set.Total))
		y := make([]*big.Float, len(x))
		for i := range x {
			y[i] = bigMax(bigSub(x[i], tau), bigOf(0))
		}
		return y
	case absBall:
		y := bigSeparable(g.s, x, gamma)
		size := make([]*big.Float, len(y))
		sum := bigOf(0)
		for i := range y {
			size[i] = new(big.Float).SetPrec(600).Abs(y[i])
			sum = bigAdd(sum, size[i])
		}
		if r := bigOf(g.r); sum.Cmp(r) > 0 {
			tau := level(size, r)
			for i := range y {
				y[i] = soft(y[i], tau)
			}
		}
		return y
	case ridge:
		c := bigAdd(bigOf(1), bigMul(gamma, bigOf(g.l2)))
		return bigProx(g.g, bigScaled(x, bigQuo(bigOf(1), c)), bigQuo(gamma, c))
	}
	panic(fmt.Sprintf("no reference for %T", g))
}

// TestAccuracy compares proximal maps with references of 600 bits. Every error bound that Accuracy
// declares proved must hold, at random points, at ties, near faces, and where coordinates differ
// much in size. With -v it logs how much of each bound is used.
func TestAccuracy(t *testing.T) {
	rnd := rand.New(rand.NewPCG(21, 22))
	sum := func(g, h Operator) Operator {
		s, err := Sum(g, h)
		require.NoError(t, err)
		return s
	}
	for _, d := range []int{1, 4, 25} {
		groups := [][]int{{0}}
		if d > 1 {
			groups = [][]int{{0, 2}, {1}}
		}
		if d > 20 {
			groups = [][]int{{0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20}, {1, 3}, {5, 7, 9, 11}}
		}
		for _, g := range []Operator{
			L1{0.7}, Box{-0.3, 0.4}, NonNegative{}, SquaredL2{0.3}, ElasticNet{0.3, 2}, L1Box{0.5, -0.25, 1}, Box{-0.5, 0.5},
			L2Ball{0.9}, L2Norm{0.6}, sum(L1{0.2}, L2Ball{1}), sum(NonNegative{}, L2Norm{0.7}), sum(SquaredL2{1.5}, L2Norm{0.4}),
			sum(sum(L1{0.1}, L2Norm{0.3}), L2Ball{0.7}),
			GroupL2{Groups: groups, Weight: 0.8}, sum(L1{0.3}, GroupL2{Groups: groups, Weight: 0.5}),
			Simplex{1}, Simplex{1e-3}, sum(L1{1}, Simplex{2}), L1Ball{1}, L1Ball{1e-3}, sum(L1{0.2},
				L1Ball{1}), sum(NonNegative{}, L1Ball{0.7}),
			sum(SquaredL2{0.7}, L1Ball{1}), sum(SquaredL2{0.7}, Simplex{1}),
			sum(SquaredL2{0.5}, GroupL2{Groups: groups, Weight: 0.5}),
		} {
			factor, scale, proved := RoundingOf(g).Accuracy(d)
			require.True(t, proved, "%T", g)
			worst, worstShift := 0.0, 0.0
			cases := 400
			if testing.Short() {
				cases = 60
			}
			for range cases {
				x, gamma := make([]float64, d), math.Pow(10, 3*rnd.NormFloat64())
				size := math.Pow(10, 2*rnd.NormFloat64())
				kind := rnd.IntN(5)
				for i := range x {
					x[i] = size * rnd.NormFloat64()
					switch kind {
					case 1: // ties
						x[i] = size * float64(rnd.IntN(3)-1)
					case 2:
						x[i] *= math.Pow(10, 4*rnd.NormFloat64())
					case 3: // one coordinate is large, the others are equal
						if x[i] = -size; i == 0 {
							x[i] = 100 * size
						}
					}
				}
				got := make([]float64, d)
				if kind == 4 { // x is next to a point of the domain
					g.Prox(x, x, gamma)
					for i := range x {
						x[i] *= 1 + 0x1p-52*float64(rnd.IntN(9)-4)
					}
				}
				g.Prox(got, x, gamma)
				bx, diff := make([]*big.Float, d), make([]*big.Float, d)
				for i := range x {
					bx[i] = bigOf(x[i])
				}
				for i, v := range bigProx(g, bx, bigOf(gamma)) {
					diff[i] = bigSub(bigOf(got[i]), v)
				}
				e, _ := bigNorm(diff).Float64()
				unit := ulp * (norm2(x) + scale)
				require.LessOrEqual(t, e, factor*unit*(1+1e-9), "%T %v at %v, γ = %v", g, g, x, gamma)
				if unit == 0 {
					continue
				}
				worst = max(worst, e/unit)
				if s := RoundingOf(g).Shift(got); s < inf {
					require.LessOrEqual(t, s, factor*ulp*(norm2(got)+scale), "%T", g)
					worstShift = max(worstShift, s/ulp/(norm2(got)+scale))
				}
			}
			t.Logf("d = %d %T: factor %.0f, worst %.1f, shift %.1f", d, g, factor, worst, worstShift)
		}
	}
}

// TestAccuracyUnproved checks that Accuracy reports when no proof exists.
func TestAccuracyUnproved(t *testing.T) {
	for _, g := range []Operator{TotalVariation{1}, SortedL1{[]float64{2, 1}}, LogBarrier{1}, declared{}} {
		factor, _, proved := RoundingOf(g).Accuracy(2)
		require.False(t, proved, "%T", g)
		require.Positive(t, factor)
	}
	factor, scale, _ := RoundingOf(declared{}).Accuracy(2)
	require.Equal(t, [2]float64{5, 7}, [2]float64{factor, scale})
	_, scale, _ = RoundingOf(LogBarrier{1}).Accuracy(4)
	require.InDelta(t, 2, scale, 1e-14) // ‖(1,1,1,1)‖
	_, ok := Separable(Huber{1, 1})
	require.False(t, ok)
	_, ok = Separable(nil)
	require.True(t, ok)
}

// embeds has the methods of L1, but is another type, about which nothing is known.
type embeds struct{ L1 }

func TestSeparable(t *testing.T) {
	for g, want := range map[Operator]bool{nil: true, L1{1}: true, Box{0, 1}: true, embeds{}: false,
		addCoordinates(L1{1}, Box{0, 1}): true,
		addCoordinates(L1{1}, embeds{}):  false, L2Ball{1}: false} {
		_, ok := Separable(g)
		require.Equal(t, want, ok, "%T", g)
	}
	_, _, proved := RoundingOf(embeds{}).Accuracy(1)
	require.False(t, proved)
}

type declared struct{ TotalVariation }

func (declared) Accuracy(int) (factor, scale float64) { return 5, 7 }
