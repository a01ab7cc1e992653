// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package kernel

import (
	"math"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// guarded returns n numbers that end where memory ends: to touch the next one is a fault.
func guarded(t *testing.T, n int) []float64 {
	page := syscall.Getpagesize()
	size := (8*n + page - 1) / page * page
	b, err := syscall.Mmap(-1, 0, size+page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, syscall.Munmap(b)) })
	require.NoError(t, syscall.Mprotect(b[size:], syscall.PROT_NONE))
	return unsafe.Slice((*float64)(unsafe.Pointer(&b[size-8*n])), n)
}

// The kernels read and write no number behind their arguments, whatever is left
// over after the widths of their loops.
func TestRowsAtTheEndOfMemory(t *testing.T) { eachKernel(t, rowsAtTheEndOfMemory) }

func rowsAtTheEndOfMemory(t *testing.T) {
	for _, m := range []int{1, 3, 4, 5, 8} {
		for d := 1; d <= 24; d++ {
			a, x, w := guarded(t, m*d), guarded(t, d), guarded(t, m)
			u, y := guarded(t, m), guarded(t, d)
			for i := range a {
				a[i] = float64(i%7) - 3
			}
			for j := range x {
				x[j] = float64(j%5) - 1
			}
			sum := make([]float64, d)
			for i := range w {
				w[i] = float64(i + 1)
				for j := range sum {
					sum[j] += w[i] * a[i*d+j]
				}
			}
			for _, stream := range []bool{false, true} { // small integers: no rounding
				MulVec(u, a, x, stream)
				for i := range u {
					want := 0.0
					for j := range x {
						want += a[i*d+j] * x[j]
					}
					require.Equal(t, want, u[i], "m=%d d=%d", m, d)
				}
			}
			clear(y)
			AddMulVec(y, a, w)
			require.Equal(t, sum, y, "m=%d d=%d", m, d)
			AddScaled(y, -1, sum)
			require.Equal(t, make([]float64, d), y)
			theta := guarded(t, d)
			ShrinkDot(theta, x, y, 1)
			Relax(theta, x, x, y, 1, 1, 1, -1, 1, 1)
			Symv(theta, guarded(t, d*GramStride(d)), x)
			require.Equal(t, make([]float64, d), theta)
			stride := GramStride(d)
			p, h, ones := guarded(t, m*stride), guarded(t, d*stride), guarded(t, m)
			want := 0.0
			for i := range p {
				if i%stride < d {
					p[i] = float64(i % 3)
				}
			}
			for i := range m {
				ones[i] = 1
				want += p[i*stride] * p[i*stride+d-1]
			}
			AddGram(h, ones, p, d)
			require.Equal(t, want, h[d-1])
		}
	}
}

// What is not a number stays in its row.
func TestRowsKeepNaNToThemselves(t *testing.T) { eachKernel(t, rowsKeepNaNToThemselves) }

func rowsKeepNaNToThemselves(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(1)} {
		for d := 1; d <= 18; d++ {
			const m = 9
			a, x, u := make([]float64, m*d), make([]float64, d), make([]float64, m)
			for j := range x {
				x[j] = 1
			}
			for i := range m {
				for j := range d {
					a[i*d+j] = bad
				}
				MulVec(u, a, x, false)
				for k, v := range u {
					require.Equal(t, k == i, v != 0, "row %d of a bad row %d, d=%d", k, i, d)
				}
				clear(a)
			}
		}
	}
}
