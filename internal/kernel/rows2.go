package kernel

import (
	"math"

	"github.com/privopt/privopt/internal/num"
)

// Products with a block of rows in twice the precision: m rows of d numbers, row-major without gaps.
// Their bits are the same on all processors: products are split and sums rounded in the same order.

// Dot2 returns ⟨a,x⟩ as a normalized hi + lo with an error of at most (d+4)²u²·Σ|aⱼxⱼ|, up to underflow,
// u the unit roundoff.
//
// Four sums take the columns in turn, m ≤ (d+3)/4 each. What their low parts add up are m−1 errors of
// sums and m of products, together at most m·u·Σ|aⱼxⱼ|, and each is rounded at most m times: m²u². The
// errors of joining the sums are at most 2u of Σ|aⱼxⱼ|, and joining all low parts rounds each at most
// three times: 3m+6. Together (m²+3m+6)u², less than (d+4)²u² by more than the terms of order u³.
// [ORO05, §5]
func Dot2(a, x []float64) (hi, lo float64) {
	var h0, h1, h2, h3, l0, l1, l2, l3 float64
	for ; len(a) >= 4 && len(x) >= 4; a, x = a[4:], x[4:] {
		h0, l0 = addProduct(h0, l0, a[0], x[0])
		h1, l1 = addProduct(h1, l1, a[1], x[1])
		h2, l2 = addProduct(h2, l2, a[2], x[2])
		h3, l3 = addProduct(h3, l3, a[3], x[3])
	}
	if len(a) > 0 {
		h0, l0 = addProduct(h0, l0, a[0], x[0])
	}
	if len(a) > 1 {
		h1, l1 = addProduct(h1, l1, a[1], x[1])
	}
	if len(a) > 2 {
		h2, l2 = addProduct(h2, l2, a[2], x[2])
	}
	h0, e0 := num.TwoSum(h0, h1)
	h2, e2 := num.TwoSum(h2, h3)
	h0, e := num.TwoSum(h0, h2)
	return num.TwoSum(h0, ((l0+l1)+(l2+l3))+((e0+e2)+e))
}

// addProduct adds ax to h + l.
func addProduct(h, l, a, x float64) (hi, lo float64) {
	p, e := num.TwoProd(a, x)
	s, t := num.TwoSum(h, p)
	return s, l + (t + e)
}

// MulVec2 stores u + ul = Ax, each product as Dot2 does.
func MulVec2(u, ul, a, x []float64) {
	m, d := len(u), len(x)
	if len(ul) != m || len(a) != m*d {
		panic(badLen)
	}
	i := 0
	if haveRows && d > 0 && m >= 4 {
		i = m &^ 3
		mulRows2(&u[0], &ul[0], &a[0], &x[0], i/4, d)
	}
	for ; i < m; i++ {
		u[i], ul[i] = Dot2(a[i*d:(i+1)*d], x)
	}
}

// AddMulVec2 adds A'(w+wl) to the normalized hi + lo, where |wl| ≤ u|w|. With S = Σᵢ|wᵢaᵢⱼ| it loses at
// most (m+2)²u²S in the sum over the block, and 3u²(2|hiⱼ| + (m+2)S) where num.Add2 adds that sum to
// hiⱼ + loⱼ: its low part, not normalized, has at most (m+1)uS. All up to underflow.
//
// The low part of the sum over the block adds up m−1 errors of sums, at most (m−1)u of Σᵢ|wᵢaᵢⱼ|, and
// the errors of products with wl·a, at most 2u of it and rounded by 2u² once. Each is rounded at most m
// times: m(m+1)u² + 2u².
func AddMulVec2(hi, lo, a, w, wl []float64) {
	m, d := len(w), len(hi)
	if len(lo) != d || len(wl) != m || len(a) != m*d {
		panic(badLen)
	}
	if m == 0 || d == 0 {
		return
	}
	if haveRows {
		addRows2(&hi[0], &lo[0], &a[0], &w[0], &wl[0], m, d)
		return
	}
	for j := range hi {
		var h, l float64
		for i, v := range w {
			p, e := num.TwoProd(a[i*d+j], v)
			s, t := num.TwoSum(h, p)
			h, l = s, l+(t+math.FMA(a[i*d+j], wl[i], e))
		}
		hi[j], lo[j] = num.Add2(hi[j], lo[j], h, l)
	}
}
