package erm

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Sums whose terms cancel by up to 1e15 keep the accuracy of twice the
// precision: |error| ≤ (d+4)²u²·Σ|aⱼxⱼ|, where plain sums lose all digits.
func TestTwicePrecision(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9, 9))
	for range 500 {
		d := 1 + rnd.IntN(40)
		a, x := make([]float64, d), make([]float64, d)
		for j := range a {
			a[j] = rnd.NormFloat64() * math.Pow(10, 8*rnd.Float64())
			x[j] = rnd.NormFloat64() * math.Pow(10, 8*rnd.Float64())
		}
		a[d-1] = -dotNaive(a[:d-1], x[:d-1]) / x[d-1] // makes the sum nearly 0
		bx := make([]*big.Float, d)
		size := 0.0
		for j, v := range x {
			bx[j] = bf(v)
			size += math.Abs(a[j] * v)
		}
		allowed := float64((d+4)*(d+4)) * unit * unit * size
		exact := bdot(a, bx)
		// Sparse rows: the same numbers in some columns of a longer vector.
		col, long := make([]int32, d), make([]float64, 2*d)
		for j := range col {
			col[j] = int32(2*j + rnd.IntN(2))
			long[col[j]] = x[j]
		}
		hi, lo := dot2(col, a, long)
		require.Equal(t, hi, hi+lo, "normalized")
		require.LessOrEqual(t, math.Abs(bnum(bsub(badd(bf(hi), bf(lo)), exact))), allowed)
		h, l := make([]float64, 3), make([]float64, 3)
		for j, v := range a {
			axpy2(h, l, v, 0, []int32{1}, x[j:j+1])
		}
		require.LessOrEqual(t, math.Abs(bnum(bsub(badd(bf(h[1]), bf(l[1])), exact))), allowed)
		require.Equal(t, []float64{0, 0, 0, 0}, []float64{h[0], h[2], l[0], l[2]})

		var s, e float64
		sum := bf(0)
		for _, v := range a {
			s, e = add2(s, e, v)
			sum = badd(sum, bf(v))
		}
		require.LessOrEqual(t, math.Abs(bnum(bsub(badd(bf(s), bf(e)), sum))), allowed)
	}
}
