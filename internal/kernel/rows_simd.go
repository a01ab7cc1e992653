//go:build goexperiment.simd && amd64 && !noasm && !gccgo && !safe && !purego

package kernel

import (
	"math"
	"simd/archsimd"
	"unsafe"
)

// haveSIMD and haveRows tell whether this processor runs the kernels below.
var (
	haveSIMD = archsimd.X86.AVX2() && archsimd.X86.FMA()
	haveRows = haveSIMD
	haveWide = false
)

// The kernels walk rows by pointers: lengths are checked by their callers, who
// pass no empty slice. The last d mod 4 columns are loaded and stored under a
// mask, which touches no memory beyond the row. No pointer ever leaves its
// array: the collector may look at it at any instruction.

type (
	vec  = archsimd.Float64x4
	mask = archsimd.Mask64x4
	ptr  = unsafe.Pointer
)

const word = 8 // bytes

func get4(p ptr, j int) vec    { return archsimd.LoadFloat64x4((*[4]float64)(unsafe.Add(p, word*j))) }
func set4(v vec, p ptr, j int) { v.Store((*[4]float64)(unsafe.Add(p, word*j))) }
func getTail(p ptr, j int, k mask) vec {
	return archsimd.LoadMaskedFloat64x4((*[4]float64)(unsafe.Add(p, word*j)), k)
}
func setTail(v vec, p ptr, j int, k mask) {
	v.StoreMasked((*[4]float64)(unsafe.Add(p, word*j)), k)
}

var tails = [8]int64{-1, -1, -1, -1, 0, 0, 0, 0}

// tail returns the mask of the first d mod 4 of four lanes.
func tail(d int) mask {
	return archsimd.LoadInt64x4((*[4]int64)(tails[4-d&3:])).ToMask()
}

// lanes returns v₀ + v₁ + v₂ + v₃ and leaves the vector registers clean:
// scalar instructions are slow while their upper halves are in use.
func lanes(v vec) float64 {
	var s [4]float64
	v.Store(&s)
	archsimd.ClearAVXUpperBits()
	return (s[0] + s[2]) + (s[1] + s[3])
}

// lanes4 returns the sums of the lanes of four vectors, added as lanes does.
func lanes4(s0, s1, s2, s3 vec) vec {
	lo01, hi01 := s0.Select128FromPair(0, 2, s1), s0.Select128FromPair(1, 3, s1)
	lo23, hi23 := s2.Select128FromPair(0, 2, s3), s2.Select128FromPair(1, 3, s3)
	// (v₀+v₂, v₁+v₃) of two vectors, then their pairs.
	p := lo01.Add(hi01).AddPairsGrouped(lo23.Add(hi23)) // rows 0, 2, 1, 3
	return p
}

//go:nocheckptr
func mulVec(u, a, x []float64) {
	m, d, i := len(u), len(x), 0
	base, up, xp := ptr(&a[0]), ptr(&u[0]), ptr(&x[0])
	row, full, k := word*d, d&^3, tail(d)
	for ; i+4 <= m; i += 4 {
		// Rows 0, 2, 1, 3: the order in which lanes4 returns their sums.
		p := unsafe.Add(base, i*row)
		r := unsafe.Add(p, row)
		q := unsafe.Add(r, row)
		s := unsafe.Add(q, row)
		var s0, s1, s2, s3 vec
		x := xp
		for n := d; n >= 8; { // advance only while columns are left
			v0, v1 := get4(x, 0), get4(x, 4)
			s0 = get4(p, 4).MulAdd(v1, get4(p, 0).MulAdd(v0, s0))
			s1 = get4(q, 4).MulAdd(v1, get4(q, 0).MulAdd(v0, s1))
			s2 = get4(r, 4).MulAdd(v1, get4(r, 0).MulAdd(v0, s2))
			s3 = get4(s, 4).MulAdd(v1, get4(s, 0).MulAdd(v0, s3))
			if n -= 8; n == 0 {
				break
			}
			p, q, r, s, x = unsafe.Add(p, 64), unsafe.Add(q, 64), unsafe.Add(r, 64), unsafe.Add(s, 64), unsafe.Add(x, 64)
		}
		if d&4 != 0 {
			v0 := get4(x, 0)
			s0 = get4(p, 0).MulAdd(v0, s0)
			s1 = get4(q, 0).MulAdd(v0, s1)
			s2 = get4(r, 0).MulAdd(v0, s2)
			s3 = get4(s, 0).MulAdd(v0, s3)
		}
		if full < d {
			at := d & 4
			v0 := getTail(x, at, k)
			s0 = getTail(p, at, k).MulAdd(v0, s0)
			s1 = getTail(q, at, k).MulAdd(v0, s1)
			s2 = getTail(r, at, k).MulAdd(v0, s2)
			s3 = getTail(s, at, k).MulAdd(v0, s3)
		}
		set4(lanes4(s0, s1, s2, s3), up, i)
	}
	archsimd.ClearAVXUpperBits()
	for ; i < m; i++ {
		u[i] = dot(a[i*d:(i+1)*d], x)
	}
}

//go:nocheckptr
func addMulVec(dst, a, w []float64) {
	m, d, i := len(w), len(dst), 0
	base, wp, yp := ptr(&a[0]), ptr(&w[0]), ptr(&dst[0])
	row, full, k := word*d, d&^3, tail(d)
	var last vec // the last d mod 4 of dst
	if full < d {
		last = getTail(yp, full, k)
	}
	for ; i+4 <= m; i += 4 {
		p := unsafe.Add(base, i*row)
		q := unsafe.Add(p, row)
		r := unsafe.Add(q, row)
		s := unsafe.Add(r, row)
		w0, w1, w2, w3 := spread(wp, i), spread(wp, i+1), spread(wp, i+2), spread(wp, i+3)
		y := yp
		for n := d; n >= 8; { // y += w₀a₀ + w₁a₁ + w₂a₂ + w₃a₃
			y0 := get4(p, 0).MulAdd(w0, get4(y, 0))
			y1 := get4(p, 4).MulAdd(w0, get4(y, 4))
			y0, y1 = get4(q, 0).MulAdd(w1, y0), get4(q, 4).MulAdd(w1, y1)
			y0, y1 = get4(r, 0).MulAdd(w2, y0), get4(r, 4).MulAdd(w2, y1)
			y0, y1 = get4(s, 0).MulAdd(w3, y0), get4(s, 4).MulAdd(w3, y1)
			set4(y0, y, 0)
			set4(y1, y, 4)
			if n -= 8; n == 0 {
				break
			}
			p, q, r, s, y = unsafe.Add(p, 64), unsafe.Add(q, 64), unsafe.Add(r, 64), unsafe.Add(s, 64), unsafe.Add(y, 64)
		}
		if d&4 != 0 {
			y0 := get4(p, 0).MulAdd(w0, get4(y, 0))
			y0 = get4(q, 0).MulAdd(w1, y0)
			y0 = get4(r, 0).MulAdd(w2, y0)
			y0 = get4(s, 0).MulAdd(w3, y0)
			set4(y0, y, 0)
		}
		if full < d {
			at := d & 4
			last = getTail(p, at, k).MulAdd(w0, last)
			last = getTail(q, at, k).MulAdd(w1, last)
			last = getTail(r, at, k).MulAdd(w2, last)
			last = getTail(s, at, k).MulAdd(w3, last)
		}
	}
	if full < d {
		setTail(last, yp, full, k)
	}
	archsimd.ClearAVXUpperBits()
	for ; i < m; i++ {
		addScaled(dst, w[i], a[i*d:(i+1)*d])
	}
}

//go:nocheckptr
func dot(a, x []float64) float64 {
	d := len(x)
	p, q := ptr(&a[0]), ptr(&x[0])
	var s0, s1, s2, s3 vec
	j := 0
	for ; j+16 <= d; j += 16 {
		s0 = get4(p, j).MulAdd(get4(q, j), s0)
		s1 = get4(p, j+4).MulAdd(get4(q, j+4), s1)
		s2 = get4(p, j+8).MulAdd(get4(q, j+8), s2)
		s3 = get4(p, j+12).MulAdd(get4(q, j+12), s3)
	}
	for ; j+4 <= d; j += 4 {
		s0 = get4(p, j).MulAdd(get4(q, j), s0)
	}
	if j < d {
		k := tail(d)
		s1 = getTail(p, j, k).MulAdd(getTail(q, j, k), s1)
	}
	return lanes(s0.Add(s1).Add(s2.Add(s3)))
}

//go:nocheckptr
func addScaled(dst []float64, w float64, a []float64) {
	d := len(dst)
	p, q, wv := ptr(&a[0]), ptr(&dst[0]), archsimd.BroadcastFloat64x4(w)
	j := 0
	for ; j+16 <= d; j += 16 {
		y0 := get4(p, j).MulAdd(wv, get4(q, j))
		y1 := get4(p, j+4).MulAdd(wv, get4(q, j+4))
		y2 := get4(p, j+8).MulAdd(wv, get4(q, j+8))
		y3 := get4(p, j+12).MulAdd(wv, get4(q, j+12))
		set4(y0, q, j)
		set4(y1, q, j+4)
		set4(y2, q, j+8)
		set4(y3, q, j+12)
	}
	for ; j+4 <= d; j += 4 {
		set4(get4(p, j).MulAdd(wv, get4(q, j)), q, j)
	}
	archsimd.ClearAVXUpperBits()
	// A store under a mask would delay the next load of the same place.
	for ; j < d; j++ {
		dst[j] = math.FMA(w, a[j], dst[j])
	}
}

// addGram computes h in tiles of 4×8 that stay in registers while the rows of
// A go by. The last tiles reach into the padding.
//
//go:nocheckptr
func addGram(h, w, a []float64, d int) {
	stride := GramStride(d)
	step, wp := word*stride, ptr(&w[0])
	for i := 0; i < d; i += 4 {
		for j := i &^ 7; j < stride; j += 8 {
			var s00, s01, s10, s11, s20, s21, s30, s31 vec
			left, right := ptr(&a[i]), ptr(&a[j])
			for r := range w {
				p, q := unsafe.Add(left, r*step), unsafe.Add(right, r*step)
				b := spread(wp, r)
				v0, v1 := get4(q, 0).Mul(b), get4(q, 4).Mul(b)
				b = spread(p, 0)
				s00, s01 = b.MulAdd(v0, s00), b.MulAdd(v1, s01)
				b = spread(p, 1)
				s10, s11 = b.MulAdd(v0, s10), b.MulAdd(v1, s11)
				b = spread(p, 2)
				s20, s21 = b.MulAdd(v0, s20), b.MulAdd(v1, s21)
				b = spread(p, 3)
				s30, s31 = b.MulAdd(v0, s30), b.MulAdd(v1, s31)
			}
			tile := [4][2]vec{{s00, s01}, {s10, s11}, {s20, s21}, {s30, s31}}
			for k := range min(4, d-i) {
				row := ptr(&h[(i+k)*stride+j])
				set4(tile[k][0].Add(get4(row, 0)), row, 0)
				set4(tile[k][1].Add(get4(row, 4)), row, 4)
			}
		}
	}
	archsimd.ClearAVXUpperBits()
}

// spread returns number j of p in all lanes.
func spread(p ptr, j int) vec {
	return archsimd.BroadcastFloat64x4(*(*float64)(unsafe.Add(p, word*j)))
}

// Products in twice the precision are not on vectors in this build.
func mulRows2(_, _, _, _ *float64, _, _ int)    { panic(badBuild) }
func addRows2(_, _, _, _, _ *float64, _, _ int) { panic(badBuild) }

const badBuild = "kernel: built without assembly"
