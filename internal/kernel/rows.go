package kernel

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	blasgonum "gonum.org/v1/gonum/blas/gonum"
)

const badLen = "kernel: length mismatch"

// The products with a block of rows: A is a block of m rows of d numbers,
// row-major without gaps, u and w hold one number per row, x one per column.
// What is written overlaps nothing that is read.
//
// They are those of the BLAS that the program registered by blas64.Use, and
// else those of gonum, its default. On amd64 processors with AVX2 and FMA other
// kernels take the place of gonum's: three in assembly for the products with
// blocks, where gonum's take twice the time or more. They agree to the rounding of sums of n terms, 2n·2⁻⁵³·Σ|terms|, not
// in their bits.

// implementation returns the registered BLAS, and whether it is gonum's.
func implementation() (impl blas.Float64, gonum bool) {
	impl = blas64.Implementation()
	_, gonum = impl.(blasgonum.Implementation)
	return impl, gonum
}

// MulVec stores u = Ax. Rows that must come from memory, and not from a cache,
// gonum reads faster as one stream than four at a time.
func MulVec(u, a, x []float64, stream bool) {
	m, d := len(u), len(x)
	if len(a) != m*d {
		panic(badLen)
	}
	if m == 0 || d == 0 {
		clear(u)
		return
	}
	impl, gonum := implementation()
	switch {
	case gonum && haveRows:
		mulVec(u, a, x)
	case stream || m == 1:
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
	impl, gonum := implementation()
	switch {
	case gonum && haveRows && m > 1:
		addMulVec(dst, a, w)
	case m == 1:
		impl.Daxpy(d, w[0], a, 1, dst, 1)
	default:
		impl.Dgemv(blas.Trans, m, d, 1, a, d, w, 1, 1, dst, 1)
	}
}

// Dot returns ⟨a,x⟩.
func Dot(a, x []float64) float64 {
	if len(a) != len(x) {
		panic(badLen)
	}
	return blas64.Implementation().Ddot(len(x), a, 1, x, 1)
}

// AddScaled adds w·a to dst.
func AddScaled(dst []float64, w float64, a []float64) {
	if len(a) != len(dst) {
		panic(badLen)
	}
	blas64.Implementation().Daxpy(len(dst), w, a, 1, dst, 1)
}

// Block returns how many rows of d numbers to take at a time for a product with
// A and one with A' after it. Rows that stream from memory stay in the
// first-level cache in between: row by row with gonum's kernels, whose products
// with a block walk four rows at once and so read memory at half its speed.
func Block(d int, stream bool) int {
	const kib = 1 << 10 / 8
	_, gonum := implementation()
	switch {
	case !stream:
		return max(32*kib/d&^3, 4)
	case gonum && haveRows:
		return max(8*kib/d&^3, 4)
	}
	return 1
}

// Slope replaces u by c(u−y), the slopes of (c/2)(u−y)².
func Slope(u, y []float64, c float64) {
	if len(u) != len(y) {
		panic(badLen)
	}
	for len(u) >= 4 && len(y) >= 4 {
		u[0], u[1], u[2], u[3] = c*(u[0]-y[0]), c*(u[1]-y[1]), c*(u[2]-y[2]), c*(u[3]-y[3])
		u, y = u[4:], y[4:]
	}
	for i, v := range y {
		u[i] = c * (u[i] - v)
	}
}

// GramStride returns the stride that AddGram wants for rows of d numbers.
func GramStride(d int) int { return (d + 7) &^ 7 }

// AddGram adds Σ wᵢaᵢaᵢ', w ≥ 0, to the upper triangle of h and may change a. Rows of A and of h are
// stride = GramStride(d) apart, what lies behind their d numbers is 0 in A and
// anything in h, and so is what lies below the diagonal of h.
func AddGram(h, w, a []float64, d int) {
	stride, m := GramStride(d), len(w)
	if d < 1 || len(h) != d*stride || len(a) != m*stride {
		panic(badLen)
	}
	impl, gonum := implementation()
	switch {
	case m == 0:
		return
	case gonum && haveRows:
		addGram(h, w, a, d)
		return
	}
	for i, v := range w {
		impl.Dscal(d, math.Sqrt(v), a[i*stride:], 1)
	}
	if !gonum {
		impl.Dsyrk(blas.Upper, blas.Trans, d, m, 1, a, stride, 1, h, stride)
		return
	}
	for i := range d { // hᵢ += A'aᵢ right of the diagonal: gonum's Dsyrk takes one row of A at a time
		impl.Dgemv(blas.Trans, m, d-i, 1, a[i:], stride, a[i:], stride, 1, h[i*stride+i:], 1)
	}
}
