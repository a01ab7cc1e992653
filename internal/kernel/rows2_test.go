package kernel

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Products in twice the precision keep their bounds where plain sums lose all digits, have the same
// bits in assembly and without, and touch nothing beyond their arguments.
func TestRowsInTwiceThePrecision(t *testing.T) {
	defer func(r bool) { haveRows = r }(haveRows)
	own := haveRows
	rnd := rand.New(rand.NewPCG(1, 2))
	draw := func(n int) []float64 { // with NaN behind them
		s := make([]float64, n+4)
		for i := range s {
			if s[i] = math.NaN(); i < n {
				s[i] = rnd.NormFloat64() * math.Pow(10, float64(rnd.IntN(17)-8))
			}
		}
		return s[:n]
	}
	behind := func(s []float64) float64 { return s[:len(s)+1][len(s)] }
	number := func(v ...float64) *big.Float {
		sum := new(big.Float).SetPrec(2000)
		for _, v := range v {
			sum.Add(sum, big.NewFloat(v))
		}
		return sum
	}
	product := func(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(2000).Mul(a, b) }
	const u2 = 0x1p-106
	for _, m := range []int{1, 2, 3, 4, 5, 8, 11, 32} {
		for _, d := range []int{1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 31} {
			a, x, w, wl := draw(m*d), draw(d), draw(m), draw(m)
			hi, lo := draw(d), draw(d)
			for i := range w {
				wl[i] = w[i] * 0x1p-53 * (2*rnd.Float64() - 1)
				plain := 0.0 // make the sum nearly 0
				for j := range d - 1 {
					plain += a[i*d+j] * x[j]
				}
				a[i*d+d-1] = -plain / x[d-1]
			}
			for j := range hi {
				hi[j], lo[j] = -w[0]*a[j], 0
			}
			var got [2][4][]float64
			for k, rows := range []bool{own, false} {
				haveRows = rows
				u, ul, h, l := draw(m), draw(m), append(draw(0), hi...), append(draw(0), lo...)
				MulVec2(u, ul, a, x)
				require.True(t, math.IsNaN(behind(u)) && math.IsNaN(behind(ul)))
				h, l = append(h, math.NaN())[:d], append(l, math.NaN())[:d]
				AddMulVec2(h, l, a, w, wl)
				require.True(t, math.IsNaN(behind(h)) && math.IsNaN(behind(l)))
				got[k] = [4][]float64{u, ul, h, l}
			}
			require.Equal(t, got[1], got[0], "m=%d d=%d", m, d)
			u, ul, h, l := got[0][0], got[0][1], got[0][2], got[0][3]
			within := func(want *big.Float, hi, lo, size float64) {
				require.Equal(t, hi, hi+lo, "normalized")
				off, _ := want.Sub(want, number(hi, lo)).Float64()
				require.LessOrEqual(t, math.Abs(off), size, "m=%d d=%d", m, d)
			}
			for i := range u {
				want, size := number(), 0.0
				for j := range x {
					want.Add(want, product(number(a[i*d+j]), number(x[j])))
					size += math.Abs(a[i*d+j] * x[j])
				}
				within(want, u[i], ul[i], float64((d+4)*(d+4))*u2*size)
			}
			for j := range h {
				want, size := number(hi[j], lo[j]), 0.0
				for i := range w {
					want.Add(want, product(number(a[i*d+j]), number(w[i], wl[i])))
					size += math.Abs(a[i*d+j] * w[i])
				}
				within(want, h[j], l[j], (float64((m+2)*(m+2)+3*(m+2))*size+6*math.Abs(hi[j]))*u2)
			}
		}
	}
	haveRows = own
	require.Panics(t, func() { MulVec2(make([]float64, 2), make([]float64, 1), make([]float64, 2), make([]float64, 1)) })
	require.Panics(t, func() {
		AddMulVec2(make([]float64, 1), make([]float64, 1), make([]float64, 3), make([]float64, 2), make([]float64, 2))
	})
	AddMulVec2(nil, nil, nil, nil, nil)
}

func BenchmarkRows2(b *testing.B) {
	const m, d = 32, 12
	rnd := rand.New(rand.NewPCG(1, 2))
	a, x, w, wl := make([]float64, m*d), make([]float64, d), make([]float64, m), make([]float64, m)
	for _, s := range [][]float64{a, x, w} {
		for i := range s {
			s[i] = rnd.NormFloat64()
		}
	}
	hi, lo := make([]float64, d), make([]float64, d)
	b.Run("mul", func(b *testing.B) {
		for b.Loop() {
			MulVec2(w, wl, a, x)
		}
	})
	b.Run("add", func(b *testing.B) {
		for b.Loop() {
			AddMulVec2(hi, lo, a, w, wl)
		}
	})
}
