//go:build amd64 && !goexperiment.simd && !noasm && !gccgo && !safe && !purego

package kernel

// haveRows tells whether this processor and its operating system run the three
// kernels in assembly, which need AVX2 and FMA; gonum's use SSE2 and take twice
// their time. With GOEXPERIMENT=simd there is no assembly.
var haveRows = detect()

// haveSIMD is false: the other own kernels are those of simd/archsimd.
var haveSIMD = false

//go:noescape
func mulRows(u, a, x *float64, groups, d int)

//go:noescape
func addRows(dst, a, w *float64, groups, d int)

//go:noescape
func addTile(h, left, right *float64, alpha float64, m, stride, rows int)

func cpuid(leaf, sub uint32) (a, b, c, d uint32)

func xgetbv() (low uint32)

func detect() bool {
	if leaves, _, _, _ := cpuid(0, 0); leaves < 7 {
		return false
	}
	const fma, osxsave, avx = 1 << 12, 1 << 27, 1 << 28
	if _, _, c, _ := cpuid(1, 0); c&(fma|osxsave|avx) != fma|osxsave|avx {
		return false
	}
	const xmm, ymm = 1 << 1, 1 << 2 // the state that the system saves
	if xgetbv()&(xmm|ymm) != xmm|ymm {
		return false
	}
	const avx2 = 1 << 5
	_, b, _, _ := cpuid(7, 0)
	return b&avx2 != 0
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

// addGram computes h in tiles of 4×8, the last of which reach into the padding.
func addGram(h []float64, alpha float64, a []float64, d int) {
	stride := GramStride(d)
	for i := 0; i < d; i += 4 {
		for j := i &^ 7; j < stride; j += 8 {
			addTile(&h[i*stride+j], &a[i], &a[j], alpha, len(a)/stride, stride, min(4, d-i))
		}
	}
}

func dot(_, _ []float64) float64                    { panic(badBuild) }
func addScaled(_ []float64, _ float64, _ []float64) { panic(badBuild) }

const badBuild = "kernel: built without GOEXPERIMENT=simd"
