//go:build goexperiment.simd && amd64 && !noasm && !gccgo && !safe && !purego

package kernel

import (
	"simd/archsimd"
	"unsafe"
)

// From the first wide register to ClearAVXUpperBits no scalar of floating point
// is touched: the compiler moves and adds those by instructions of SSE, and to
// mix them with wide registers costs some hundred cycles a time.

// wide says that the processor has the instructions used here.
var wide = archsimd.X86.AVX2() && archsimd.X86.FMA()

type (
	float4  = archsimd.Float64x4
	mask4   = archsimd.Mask64x4
	pointer = unsafe.Pointer
)

const float = 8 // bytes

func place(p pointer, j int) *[4]float64        { return (*[4]float64)(unsafe.Add(p, float*j)) }
func load4(p pointer, j int) float4             { return archsimd.LoadFloat64x4(place(p, j)) }
func store4(v float4, p pointer, j int)         { v.Store(place(p, j)) }
func loadPart(p pointer, j int, k mask4) float4 { return archsimd.LoadMaskedFloat64x4(place(p, j), k) }

func storePart(v float4, p pointer, j int, k mask4) { v.StoreMasked(place(p, j), k) }

var parts = [8]int64{-1, -1, -1, -1}

// part returns the mask of the first n mod 4 of four lanes.
func part(n int) mask4 { return archsimd.LoadInt64x4((*[4]int64)(parts[4-n&3:])).ToMask() }

func shrinkDot(theta, x, a []float64, tau float64) float64 {
	if !wide || len(x) == 0 {
		return shrinkDotGo(theta, x, a, tau)
	}
	return shrinkDotSIMD(pointer(&theta[0]), pointer(&x[0]), pointer(&a[0]), len(x), tau)
}

func relax(x, theta, a, q []float64, alpha, c, omega, lo, hi, lambda float64) {
	if !wide || len(x) == 0 {
		relaxGo(x, theta, a, q, alpha, c, omega, lo, hi, lambda)
		return
	}
	relaxSIMD(pointer(&x[0]), pointer(&theta[0]), pointer(&a[0]), pointer(&q[0]), len(x), alpha, -c, -omega, lo, hi, lambda)
}

func symv(dst, q, x []float64) {
	if !wide || len(x) < 4 {
		symvGo(dst, q, x)
		return
	}
	symvSIMD(dst, q, x)
}

// clip4 of a NaN is any point of the box: the compiler may swap the operands of
// Min and Max, and of a NaN and a number the second is taken.
func clip4(v, lo, hi float4) float4 { return v.Min(hi).Max(lo) }

//go:nocheckptr
func shrinkDotSIMD(theta, x, a pointer, d int, tau float64) float64 {
	hi := archsimd.BroadcastFloat64x4(tau)
	var s0, s1 float4
	lo := s0.Sub(hi)
	j := 0
	for ; j+8 <= d; j += 8 {
		u, v := load4(x, j), load4(x, j+4)
		u, v = u.Sub(clip4(u, lo, hi)), v.Sub(clip4(v, lo, hi)) // soft(v,τ) = v − clip(v,−τ,τ)
		store4(u, theta, j)
		store4(v, theta, j+4)
		s0, s1 = u.MulAdd(load4(a, j), s0), v.MulAdd(load4(a, j+4), s1)
	}
	if j+4 <= d {
		u := load4(x, j)
		u = u.Sub(clip4(u, lo, hi))
		store4(u, theta, j)
		s0 = u.MulAdd(load4(a, j), s0)
		j += 4
	}
	if j < d {
		k := part(d)
		u := loadPart(x, j, k)
		u = u.Sub(clip4(u, lo, hi))
		storePart(u, theta, j, k)
		s1 = u.MulAdd(loadPart(a, j, k), s1)
	}
	var s [4]float64
	s0.Add(s1).Store(&s)
	archsimd.ClearAVXUpperBits()
	return (s[0] + s[2]) + (s[1] + s[3])
}

// relaxSIMD takes −c and −ω.
//
//go:nocheckptr
func relaxSIMD(x, theta, a, q pointer, d int, alpha, c, omega, lo, hi, lambda float64) {
	al, cc, om := archsimd.BroadcastFloat64x4(alpha), archsimd.BroadcastFloat64x4(c), archsimd.BroadcastFloat64x4(omega)
	l, h, la := archsimd.BroadcastFloat64x4(lo), archsimd.BroadcastFloat64x4(hi), archsimd.BroadcastFloat64x4(lambda)
	j := 0
	for ; j+4 <= d; j += 4 {
		v, t := load4(x, j), load4(theta, j)
		z := load4(a, j).MulAdd(cc, load4(q, j).MulAdd(om, t.Mul(al).Sub(v))) // αθ − x − ca − ωq
		store4(z.Merge(clip4(z, l, h), z.IsNaN()).Sub(t).MulAdd(la, v), x, j)
	}
	if j < d {
		k := part(d)
		v, t := loadPart(x, j, k), loadPart(theta, j, k)
		z := loadPart(a, j, k).MulAdd(cc, loadPart(q, j, k).MulAdd(om, t.Mul(al).Sub(v)))
		storePart(z.Merge(clip4(z, l, h), z.IsNaN()).Sub(t).MulAdd(la, v), x, j, k)
	}
	archsimd.ClearAVXUpperBits()
}

// symvSIMD walks the blocks of four rows to the right of the diagonal and uses
// each number twice, yᵢ += Qᵢⱼxⱼ and yⱼ += Qᵢⱼxᵢ: Q comes out of the
// second-level cache, and half of it is read.
//
//go:nocheckptr
func symvSIMD(y, q, x []float64) {
	n := len(x)
	clear(y)
	xp, yp := pointer(&x[0]), pointer(&y[0])
	k := part(n)
	i := 0
	for ; i+4 <= n; i += 4 {
		r0 := pointer(&q[i*n])
		r1, r2, r3 := unsafe.Add(r0, float*n), unsafe.Add(r0, 2*float*n), unsafe.Add(r0, 3*float*n)
		xi := load4(xp, i)
		odd := xi.SelectFromPairGrouped(1, 3, xi) // x₁, x₁, x₃, x₃
		x0, x2 := xi.GetLo().Broadcast1To4(), xi.GetHi().Broadcast1To4()
		x1, x3 := odd.GetLo().Broadcast1To4(), odd.GetHi().Broadcast1To4()
		s0, s1 := load4(r0, i).Mul(xi), load4(r1, i).Mul(xi)
		s2, s3 := load4(r2, i).Mul(xi), load4(r3, i).Mul(xi)
		j := i + 4
		for ; j+4 <= n; j += 4 {
			b0, b1, b2, b3, xj := load4(r0, j), load4(r1, j), load4(r2, j), load4(r3, j), load4(xp, j)
			s0, s1, s2, s3 = b0.MulAdd(xj, s0), b1.MulAdd(xj, s1), b2.MulAdd(xj, s2), b3.MulAdd(xj, s3)
			store4(b1.MulAdd(x1, b0.MulAdd(x0, load4(yp, j))).Add(b3.MulAdd(x3, b2.Mul(x2))), yp, j)
		}
		if j < n {
			b0, b1, b2, b3, xj := loadPart(r0, j, k), loadPart(r1, j, k), loadPart(r2, j, k), loadPart(r3, j, k), loadPart(xp, j, k)
			s0, s1, s2, s3 = b0.MulAdd(xj, s0), b1.MulAdd(xj, s1), b2.MulAdd(xj, s2), b3.MulAdd(xj, s3)
			storePart(b1.MulAdd(x1, b0.MulAdd(x0, loadPart(yp, j, k))).Add(b3.MulAdd(x3, b2.Mul(x2))), yp, j, k)
		}
		p, r := s0.AddPairsGrouped(s1), s2.AddPairsGrouped(s3)              // pairs of sums, in halves
		t := p.Select128FromPair(0, 2, r).Add(p.Select128FromPair(1, 3, r)) // Σs₀, Σs₁, Σs₂, Σs₃
		store4(load4(yp, i).Add(t), yp, i)
	}
	archsimd.ClearAVXUpperBits()
	for r := i; r < n; r++ { // the last diagonal block
		for c := i; c < n; c++ {
			y[r] += q[r*n+c] * x[c]
		}
	}
}
