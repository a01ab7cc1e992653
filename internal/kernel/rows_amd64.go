// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

//go:build amd64 && !noasm && !gccgo && !safe && !purego

package kernel

// haveRows reports that the processor and the operating system support AVX2 and FMA, so that the
// kernels in assembly run. gonum's kernels use SSE2 and take twice the time. haveWide reports
// AVX-512.
var haveRows, haveWide = detect()

//go:noescape
func mulRows(u, a, x *float64, groups, d int)

//go:noescape
func addRows(dst, a, w *float64, groups, d int)

//go:noescape
func addTile4(h, left, right, w *float64, m, stride, rows int)

//go:noescape
func addTile8(h, left, right, w *float64, m, stride, rows int)

//go:noescape
func mulRows2(u, ul, a, x *float64, groups, d int)

//go:noescape
func addRows2(hi, lo, a, w, wl *float64, m, d int)

//go:noescape
func shrinkDot(theta, x, a *float64, n int, tau float64) float64

//go:noescape
func relax(x, theta, a, q *float64, n int, alpha, c, omega, lo, hi, lambda float64)

//go:noescape
func sumRows(dst, a, w *float64, groups, d, stride int)

//go:noescape
func sumRows8(dst, a, w *float64, rows, d, stride int)

//go:noescape
func addExp(p, b, c *float64, add, slope float64) (first, last float64)

func cpuid(leaf, sub uint32) (a, b, c, d uint32)

func xgetbv() (low uint32)

func detect() (rows, wide bool) {
	if leaves, _, _, _ := cpuid(0, 0); leaves < 7 {
		return false, false
	}
	const fma, osxsave, avx = 1 << 12, 1 << 27, 1 << 28
	if _, _, c, _ := cpuid(1, 0); c&(fma|osxsave|avx) != fma|osxsave|avx {
		return false, false
	}
	const ymm, zmm = 0x06, 0xe0 // registers that the system saves
	state := xgetbv()
	const avx2, avx512f = 1 << 5, 1 << 16
	_, b, _, _ := cpuid(7, 0)
	rows = b&avx2 != 0 && state&ymm == ymm
	return rows, rows && b&avx512f != 0 && state&zmm == zmm
}

func mulVec(u, a, x []float64) {
	m, d := len(u)&^3, len(x)
	if m > 0 {
		mulRows(&u[0], &a[0], &x[0], m/4, d)
	}
	for i := m; i < len(u); i++ {
		u[i] = sse.Ddot(d, a[i*d:(i+1)*d], 1, x, 1)
	}
}

func addMulVec(dst, a, w []float64) {
	m, d := len(w)&^3, len(dst)
	if m > 0 {
		addRows(&dst[0], &a[0], &w[0], m/4, d)
	}
	for i := m; i < len(w); i++ {
		sse.Daxpy(d, w[i], a[i*d:(i+1)*d], 1, dst, 1)
	}
}

// addGram updates h in tiles of 4×8 or 8×8 numbers; the last tiles reach into the padding.
func addGram(h, w, a []float64, d, first int) {
	stride, step := GramStride(d), 4
	tile := addTile4
	if haveWide {
		step, tile = 8, addTile8
	}
	for i := first; i < d; i += step {
		for j := i &^ 7; j < stride; j += 8 {
			tile(&h[i*stride+j], &a[i], &a[j], &w[0], len(w), stride, min(step, d-i))
		}
	}
}
