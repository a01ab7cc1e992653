package kernel

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	blasgonum "gonum.org/v1/gonum/blas/gonum"
)

const badLen = "kernel: length mismatch"

// The products with a block of rows: A is a block of m rows of d numbers,
// row-major without gaps, u and w hold one number per row, x one per column.
//
// They are those of blas64.Implementation(): gonum's assembly, or the BLAS that
// the program registered by blas64.Use. With GOEXPERIMENT=simd on amd64, on
// processors with AVX2 and FMA and unless the program registered another BLAS,
// kernels on vector instructions take their place. The two agree to the
// rounding of sums of n terms, 2n·2⁻⁵³·Σ|terms|, not in their bits.

// implementation returns the registered BLAS, and whether the own kernels take
// its place.
func implementation() (blas.Float64, bool) {
	impl := blas64.Implementation()
	if !haveSIMD {
		return impl, false
	}
	_, own := impl.(blasgonum.Implementation)
	return impl, own
}

// SIMD reports whether the products are computed by kernels of simd/archsimd.
func SIMD() bool {
	_, own := implementation()
	return own
}

// MulVec stores u = Ax. Rows that must come from memory, and not from a cache,
// are read faster as one stream than four at a time.
func MulVec(u, a, x []float64, stream bool) {
	m, d := len(u), len(x)
	if len(a) != m*d {
		panic(badLen)
	}
	if m == 0 || d == 0 {
		clear(u)
		return
	}
	impl, own := implementation()
	switch {
	case own:
		mulVec(u, a, x, stream)
	case stream:
		for i := range u {
			u[i] = impl.Ddot(d, a[i*d:(i+1)*d], 1, x, 1)
		}
	default:
		impl.Dgemv(blas.NoTrans, m, d, 1, a, d, x, 1, 0, u, 1)
	}
}

// AddMulVec adds A'w to dst.
func AddMulVec(dst, a, w []float64) {
	m, d := len(w), len(dst)
	if len(a) != m*d {
		panic(badLen)
	}
	if m == 0 || d == 0 {
		return
	}
	if impl, own := implementation(); !own {
		impl.Dgemv(blas.Trans, m, d, 1, a, d, w, 1, 1, dst, 1)
		return
	}
	addMulVec(dst, a, w)
}

// Dot returns ⟨a,x⟩.
func Dot(a, x []float64) float64 {
	if len(a) != len(x) {
		panic(badLen)
	}
	impl, own := implementation()
	if own && len(x) > 0 {
		return dot(a, x)
	}
	return impl.Ddot(len(x), a, 1, x, 1)
}

// AddScaled adds w·a to dst.
func AddScaled(dst []float64, w float64, a []float64) {
	if len(a) != len(dst) {
		panic(badLen)
	}
	impl, own := implementation()
	if own && len(a) > 0 {
		addScaled(dst, w, a)
		return
	}
	impl.Daxpy(len(dst), w, a, 1, dst, 1)
}
