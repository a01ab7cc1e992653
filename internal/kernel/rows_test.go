// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package kernel

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
)

// Both builds compute the formulas, to the rounding of the sums, and touch
// nothing beyond their arguments.
func TestRowsByDefinition(t *testing.T) { eachKernel(t, rowsByDefinition) }

// eachKernel runs f with the kernels of this build and processor, and with the portable ones.
func eachKernel(t *testing.T, f func(t *testing.T)) {
	t.Run("own", f)
	defer func(r, w bool) { haveRows, haveWide = r, w }(haveRows, haveWide)
	if haveWide {
		haveWide = false
		t.Run("narrow", f)
	}
	haveRows = false
	t.Run("portable", f)
}

func rowsByDefinition(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	fence := func(n int) []float64 { // NaN around n numbers
		s := make([]float64, n+8)
		for i := range s {
			s[i] = math.NaN()
		}
		for i := range n {
			s[4+i] = rnd.NormFloat64()
		}
		return s
	}
	for _, m := range []int{0, 1, 2, 3, 4, 5, 7, 8, 9, 64} {
		for _, d := range []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 15, 16, 17, 18, 19, 23, 32, 33, 50, 100} {
			a, x, w, y := fence(m*d), fence(d), fence(m), fence(d)
			in := func(s []float64) []float64 { return s[4 : len(s)-4 : len(s)-4] }
			for _, stream := range []bool{false, true} {
				u := fence(m)
				MulVec(in(u), in(a), in(x), stream)
				for i := range m {
					want, size := 0.0, 0.0
					for j := range d {
						p := in(a)[i*d+j] * in(x)[j]
						want, size = want+p, size+math.Abs(p)
					}
					require.InDelta(t, want, in(u)[i], 2*float64(d)*0x1p-53*size, "m=%d d=%d", m, d)
				}
				require.True(t, math.IsNaN(u[3]) && math.IsNaN(u[4+m]))
			}
			one := append([]float64(nil), y...)
			got := append([]float64(nil), y...)
			AddMulVec(in(got), in(a), in(w))
			for i := range m {
				AddScaled(in(one), in(w)[i], in(a)[i*d:(i+1)*d])
			}
			for j := range d {
				want, size := in(y)[j], math.Abs(in(y)[j])
				for i := range m {
					p := in(w)[i] * in(a)[i*d+j]
					want, size = want+p, size+math.Abs(p)
				}
				require.InDelta(t, want, in(got)[j], 2*float64(m+1)*0x1p-53*size)
				require.InDelta(t, want, in(one)[j], 2*float64(m+1)*0x1p-53*size)
			}
			for _, s := range [][]float64{got, one} {
				require.True(t, math.IsNaN(s[3]) && math.IsNaN(s[4+d]))
			}
		}
	}
}

// AddGram computes its formula.
func TestAddGram(t *testing.T) { eachKernel(t, addGramByDefinition) }

func addGramByDefinition(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 2))
	for _, m := range []int{0, 1, 5, 6, 63, 64} {
		for _, d := range []int{1, 2, 3, 4, 5, 7, 8, 9, 12, 23, 40} {
			stride := GramStride(d)
			a, h, w := make([]float64, m*stride), make([]float64, d*stride), make([]float64, m)
			for i := range m {
				for j := range d {
					a[i*stride+j] = rnd.NormFloat64()
				}
				w[i] = rnd.ExpFloat64()
			}
			for i := range h {
				h[i] = rnd.NormFloat64()
			}
			before := append([]float64(nil), h...)
			from := (m % 3) * 8 // 0, 8 and 16
			AddGramFrom(h, w, slices.Clone(a), d, from)
			require.Equal(t, before[:min(from, d)*stride], h[:min(from, d)*stride])
			for i := from; i < d; i++ {
				for j := i; j < d; j++ {
					want, size := before[i*stride+j], math.Abs(before[i*stride+j])
					for k := range m {
						p := w[k] * a[k*stride+i] * a[k*stride+j]
						want, size = want+p, size+math.Abs(p)
					}
					require.InDelta(t, want, h[i*stride+j], 2*float64(m+4)*0x1p-53*size, "m=%d d=%d", m, d)
				}
			}
		}
	}
	require.PanicsWithValue(t, badLen, func() { AddGram(make([]float64, 7), nil, nil, 1) })
}

func TestSlopeByDefinition(t *testing.T) {
	for n := range 10 {
		u, y, want := make([]float64, n), make([]float64, n), make([]float64, n)
		for i := range u {
			u[i], y[i] = float64(i*i), float64(3*i-7)
			want[i] = 0.5 * (u[i] - y[i])
		}
		Slope(u, y, 0.5)
		require.Equal(t, want, u)
	}
	require.PanicsWithValue(t, badLen, func() { Slope(make([]float64, 1), nil, 1) })
}

// Blocks stay in the first-level cache, and hold at least a row.
func TestBlock(t *testing.T) {
	eachKernel(t, func(t *testing.T) {
		for _, d := range []int{1, 23, 100, 1e6} {
			for _, stream := range []bool{false, true} {
				require.GreaterOrEqual(t, Block(d, stream), 1)
				require.LessOrEqual(t, Block(d, stream)*d, max(4<<10, 4*d))
			}
		}
	})
}

func TestRowsLengths(t *testing.T) {
	v := make([]float64, 6)
	for _, f := range []func(){
		func() { MulVec(v[:2], v, v[:2], false) },
		func() { AddMulVec(v[:2], v, v[:2]) },
		func() { AddScaled(v[:2], 1, v[:3]) },
	} {
		require.PanicsWithValue(t, badLen, f)
	}
}

// g = X'(Xw − y), every block of rows read twice from the first-level cache.
func BenchmarkGradPass(b *testing.B) {
	for _, s := range [][2]int{{15682, 23}, {1000, 100}, {4000, 50}, {100000, 100}, {1000000, 50}} {
		n, d := s[0], s[1]
		rnd := rand.New(rand.NewPCG(1, 1))
		x, y, w, g := make([]float64, n*d), make([]float64, n), make([]float64, d), make([]float64, d)
		for i := range x {
			x[i] = rnd.Float64() - 0.5
		}
		for _, kib := range []int{8, 32, 64} {
			m := max(4, (kib<<10)/(8*d)&^3)
			u := make([]float64, m)
			for _, stream := range []bool{false, true} {
				b.Run(fmt.Sprintf("n=%d/d=%d/kib=%d/stream=%v", n, d, kib, stream), func(b *testing.B) {
					b.SetBytes(int64(8 * n * d))
					for b.Loop() {
						clear(g)
						for lo := 0; lo < n; lo += m {
							hi := min(lo+m, n)
							v := u[:hi-lo]
							MulVec(v, x[lo*d:hi*d], w, stream)
							for i := range v {
								v[i] -= y[lo+i]
							}
							AddMulVec(g, x[lo*d:hi*d], v)
						}
					}
				})
			}
		}
		b.Run(fmt.Sprintf("n=%d/d=%d/rows", n, d), func(b *testing.B) {
			b.SetBytes(int64(8 * n * d))
			for b.Loop() {
				clear(g)
				for i := range n {
					a := x[i*d : (i+1)*d]
					AddScaled(g, floats.Dot(a, w)-y[i], a)
				}
			}
		})
	}
}

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
