// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func random(r *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = r.NormFloat64()
	}
	return x
}

// sizes cover whole blocks and every tail.
var sizes = []int{0, 1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 15, 16, 23, 100, 101, 102, 103}

// The step by its definition, with branches.
func TestStepByDefinition(t *testing.T) { eachKernel(t, stepByDefinition) }

func stepByDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range sizes {
		for _, box := range [][2]float64{{-1, 1}, {-0.3, 0.7}, {0, math.Inf(1)}, {math.Inf(-1), math.Inf(1)}, {-0.5, -0.5}} {
			for _, tau := range []float64{0, 0.4, math.Inf(1)} {
				x, a, q, theta := random(r, n), random(r, n), random(r, n), make([]float64, n)
				if n > 2 {
					x[0], x[1], x[2] = tau, -tau, 0
					for i := range 3 {
						if math.IsInf(x[i], 0) {
							x[i] = 1
						}
					}
				}
				dot := ShrinkDot(theta, x, a, tau)
				var want, size float64
				for i, v := range x {
					u := math.Copysign(math.Max(math.Abs(v)-tau, 0), v)
					require.Equal(t, math.Abs(u), math.Abs(theta[i]), "n=%d tau=%v x=%v", n, tau, v)
					require.Zero(t, u-theta[i])
					want += a[i] * u
					size += math.Abs(a[i] * u)
				}
				require.InDelta(t, want, dot, 2*float64(n)*0x1p-52*size) // two sums, each off by half of this
				const alpha, c, omega, lambda = 1.9, -0.3, 0.7, 0.05
				y := append([]float64(nil), x...)
				Relax(y, theta, a, q, alpha, c, omega, box[0], box[1], lambda)
				for i, v := range x {
					z := alpha*theta[i] - v - c*a[i] - omega*q[i]
					z = math.Min(math.Max(z, box[0]), box[1])
					// terms of size ≤ 20, three roundings
					require.InDelta(t, v+lambda*(z-theta[i]), y[i], 1e-14, "n=%d i=%d box=%v", n, i, box)
				}
			}
		}
	}
}

// TestStepBits: the kernels of all builds have the same bits, and write nothing behind their
// arguments, also where these are zeros, infinities and numbers at the ends of the box.
func TestStepBits(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	odd := []float64{0, math.Copysign(0, -1), 0.5, -0.5, 1, -1, 1e308, -1e308, 5e-324, math.Inf(1), math.Inf(-1)}
	var seen [][]uint64
	for _, n := range append([]int{32, 64, 127, 128, 129, 160, 261}, sizes...) {
		in := make([][]float64, 5)
		for i := range in {
			in[i] = random(r, n)
			for j := range in[i] {
				if n < 20 && r.IntN(3) == 0 {
					in[i][j] = odd[r.IntN(len(odd))]
				}
			}
		}
		q := symmetric(r, n)
		seen = seen[:0]
		eachKernel(t, func(t *testing.T) {
			var bits []uint64
			show := func(v ...float64) {
				for _, f := range v {
					if bits = append(bits, math.Float64bits(f)); math.IsNaN(f) {
						bits[len(bits)-1] = 1 // any NaN will do
					}
				}
			}
			theta := make([]float64, n+3)
			for _, tau := range []float64{0, 0.5, math.Inf(1)} {
				show(ShrinkDot(theta[:n], in[0], in[1], tau))
				show(theta...)
			}
			for _, box := range [][2]float64{{-0.5, 0.5}, {0, 0.3}, {math.Inf(-1), 0.5}, {0, 0}} {
				x := append(append([]float64(nil), in[0]...), 1, 2, 3)
				Relax(x[:n], in[1], in[2], in[3], 1.9, -0.3, 0.7, box[0], box[1], 0.05)
				show(x...)
			}
			Symv(theta[:n], q, in[4])
			show(theta...)
			seen = append(seen, bits)
		})
		for _, bits := range seen {
			require.Equal(t, seen[len(seen)-1], bits, "n=%d", n) // the last is the portable one
		}
	}
}

// No kernel hides a NaN, wherever it stands.
func TestStepNaN(t *testing.T) { eachKernel(t, stepNaN) }

func stepNaN(t *testing.T) {
	for _, n := range []int{1, 4, 8, 9, 13} {
		for k := range n {
			one := func() []float64 {
				s := make([]float64, n)
				s[k] = math.NaN()
				return s
			}
			zero := make([]float64, n)
			theta := make([]float64, n)
			ShrinkDot(theta, one(), zero, 1)
			require.True(t, math.IsNaN(theta[k]), "n=%d k=%d", n, k)
			for _, box := range [][2]float64{{-1, 1}, {-1, 2}} {
				for part := range 4 {
					in := [][]float64{make([]float64, n), zero, zero, zero}
					in[part] = one()
					Relax(in[0], in[1], in[2], in[3], 2, 1, 1, box[0], box[1], 0.5)
					require.True(t, math.IsNaN(in[0][k]), "n=%d k=%d part=%d", n, k, part)
				}
			}
			require.True(t, math.IsNaN(ShrinkDot(theta, zero, one(), 1)))
		}
	}
}

func symmetric(r *rand.Rand, n int) []float64 {
	stride := GramStride(n)
	q := random(r, n*stride)
	for i := range n {
		for j := range i {
			q[i*stride+j] = q[j*stride+i]
		}
	}
	return q
}

func TestSymvByDefinition(t *testing.T) { eachKernel(t, symvByDefinition) }

func symvByDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range sizes {
		q, x, dst := symmetric(r, n), random(r, n), random(r, n)
		Symv(dst, q, x)
		for i := range n {
			var want, size float64
			for j := range n {
				want += q[i*GramStride(n)+j] * x[j]
				size += math.Abs(q[i*GramStride(n)+j] * x[j])
			}
			require.InDelta(t, want, dst[i], 2*float64(n)*0x1p-52*size, "n=%d i=%d", n, i)
		}
	}
}

func TestStepLengths(t *testing.T) {
	short, long := make([]float64, 3), make([]float64, 4)
	require.Panics(t, func() { ShrinkDot(short, long, long, 1) })
	require.Panics(t, func() { ShrinkDot(long, long, short, 1) })
	require.Panics(t, func() { Relax(long, long, short, long, 1, 1, 1, -1, 1, 1) })
	require.Panics(t, func() { Symv(long, long, long) })
}

func BenchmarkStoTOS(b *testing.B) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{23, 100} {
		x, a, q, theta := random(r, n), random(r, n), random(r, n), make([]float64, n)
		mat := symmetric(r, n)
		b.Run(fmt.Sprintf("kernel=ShrinkDot/d=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				ShrinkDot(theta, x, a, 0.5)
			}
		})
		b.Run(fmt.Sprintf("kernel=Relax/d=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Relax(x, theta, a, q, 1.9, 0.1, 0.3, -1, 1, 0.01)
			}
		})
		b.Run(fmt.Sprintf("kernel=Symv/d=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Symv(theta, mat, x)
			}
		})
	}
}
