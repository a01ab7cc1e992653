// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package prox

import (
	"math"
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/lapack"
	"gonum.org/v1/gonum/lapack/lapack64"
)

// spectrum is a decomposition A = U·diag(s)·Vᵀ of an m×n matrix with falling s: the singular value
// decomposition, k = min(m,n), or for a symmetric matrix the eigenvalues s and eigenvectors U = V.
type spectrum struct {
	u     blas64.General // m×k
	v     blas64.General // Vᵀ, k×n, or U again
	trans blas.Transpose // NoTrans if v is Vᵀ, Trans if it is U
	s     []float64
	a     blas64.General // m×n of scratch
	buf   []float64
	size  [1]float64 // of the workspace
}

var spectra = sync.Pool{New: func() any { return new(spectrum) }}

// matrixOf returns the m×n matrix with these elements.
func matrixOf(m, n int, data []float64) blas64.General {
	return blas64.General{Rows: m, Cols: n, Stride: max(n, 1), Data: data[:m*n]}
}

// resize sets the shapes of an m×n decomposition and returns the workspace.
func (d *spectrum) resize(m, n int) (work []float64) {
	k := min(m, n)
	if need := m*n + m*k + k*n + k + int(d.size[0]); len(d.buf) < need {
		d.buf = make([]float64, need)
	}
	b := d.buf
	d.a, b = matrixOf(m, n, b), b[m*n:]
	d.u, b = matrixOf(m, k, b), b[m*k:]
	d.v, b = matrixOf(k, n, b), b[k*n:]
	d.s, work = b[:k], b[k:]
	return work
}

// decompose returns the singular value decomposition of the m×n matrix x in pooled scratch, and
// whether it exists in float64.
func decompose(x []float64, m, n int) (*spectrum, bool) {
	if !fits(m, n, len(x)) {
		panic(badLen)
	}
	d := spectra.Get().(*spectrum)
	k := min(m, n)
	u, vt := blas64.General{Rows: m, Cols: k, Stride: max(k, 1)}, blas64.General{Rows: k, Cols: n, Stride: max(n, 1)}
	lapack64.Gesvd(lapack.SVDStore, lapack.SVDStore, matrixOf(m, n, x), u, vt, nil, d.size[:], -1)
	work := d.resize(m, n)
	d.trans = blas.NoTrans
	copy(d.a.Data, x)
	ok := k == 0 || finite(x) && lapack64.Gesvd(lapack.SVDStore, lapack.SVDStore, d.a, d.u, d.v, d.s, work, len(work))
	return d, ok
}

// diagonalize returns the eigenvalues and eigenvectors of ½(X+Xᵀ), of order n, in pooled scratch,
// and whether they exist in float64.
func diagonalize(x []float64, n int) (*spectrum, bool) {
	if !fits(n, n, len(x)) {
		panic(badLen)
	}
	d := spectra.Get().(*spectrum)
	given := blas64.Symmetric{Uplo: blas.Upper, N: n, Stride: max(n, 1), Data: x}
	lapack64.Syev(lapack.EVCompute, given, nil, d.size[:], -1)
	work := d.resize(n, n)
	d.v, d.trans = d.u, blas.Trans
	symmetrize(d.u.Data, x, n)
	floats.Scale(-1, d.u.Data) // eigenvalues of −X rise
	given.Data = d.u.Data
	ok := n == 0 || finite(x) && lapack64.Syev(lapack.EVCompute, given, d.s, work, len(work))
	floats.Scale(-1, d.s)
	return d, ok
}

// symmetrize stores ½(X+Xᵀ) of the n×n matrix x in dst, which may be x.
func symmetrize(dst, x []float64, n int) {
	for i := range n {
		for j := range i + 1 {
			s := x[i*n+j]/2 + x[j*n+i]/2
			dst[i*n+j], dst[j*n+i] = s, s
		}
	}
}

// edge is the relative size below which a difference of singular values of an m×n matrix counts as
// rounding. Like nearSphere it costs accuracy, not safety.
func edge(m, n int) float64 { return nearSphere * float64(max(m, n)) }

// near reports whether the number s of the spectrum stands for r.
func (d *spectrum) near(s, r float64) bool {
	return math.Abs(s-r) <= edge(d.a.Rows, d.a.Cols)*r && r < inf
}

// above returns how many s_k are larger than tol.
func (d *spectrum) above(tol float64) int {
	r := 0
	for r < len(d.s) && d.s[r] > tol {
		r++
	}
	return r
}

// rank returns the number of singular values that do not count as 0.
func (d *spectrum) rank() int {
	if len(d.s) == 0 {
		return 0
	}
	return d.above(edge(d.a.Rows, d.a.Cols) * d.s[0])
}

// first returns the first r columns of U, and v with as many.
func (d *spectrum) first(r int) (u, v blas64.General) {
	u, v = d.u, d.v
	if u.Cols = r; d.trans == blas.Trans {
		return u, u
	}
	v.Rows = r
	return u, v
}

// compose stores U·diag(s)·Vᵀ in dst, leaving out the zeros at the end of s. The result is
// symmetric exactly if the matrix was diagonalized.
func (d *spectrum) compose(dst []float64) {
	r := len(d.s)
	for r > 0 && d.s[r-1] == 0 {
		r--
	}
	if r == 0 {
		clear(dst)
		return
	}
	u, v := d.first(r)
	w, n := matrixOf(u.Rows, r, d.a.Data), d.a.Cols
	for i := range u.Rows {
		for j := range r {
			w.Data[i*w.Stride+j] = u.Data[i*u.Stride+j] * d.s[j]
		}
	}
	blas64.Gemm(blas.NoTrans, d.trans, 1, w, v, 0, matrixOf(d.a.Rows, n, dst))
	if d.trans == blas.Trans {
		for i := range n {
			for j := range i {
				dst[i*n+j] = dst[j*n+i]
			}
		}
	}
}

// positivePart stores (½(X+Xᵀ))₊ of the diagonalized matrix in dst.
func (d *spectrum) positivePart(dst []float64) {
	clear(d.s[d.above(0):])
	d.compose(dst)
}

// defect returns a bound on the distance of U, r columns (or of V, r rows, if
// trans is NoTrans) from the nearest orthonormal matrix, ‖UᵀU−I‖_F ≥ ‖U−Q‖_F
// by the polar decomposition U = QH, |h−1| ≤ |h²−1|.
func defect(trans blas.Transpose, u blas64.General, r int) float64 {
	buf := borrow(r * r)
	defer giveBack(buf)
	gram := matrixOf(r, r, *buf)
	other, length := blas.Transpose(blas.NoTrans), u.Rows
	if trans == blas.NoTrans {
		other, length = blas.Trans, u.Cols
	}
	blas64.Gemm(trans, other, 1, u, u, 0, gram)
	for j := range r {
		gram.Data[j*gram.Stride+j]--
	}
	return norm2(gram.Data) + float64(r*(length+2))*2*ulp
}

// shift returns a bound on ‖X′−x‖_F for X′ = P·diag(s)·Qᵀ, P and Q the
// orthonormal matrices nearest to the first r columns of U and V, where s[r:]
// counts as 0. Sums of r products err by at most (r+2)u·Σs in all.
func (d *spectrum) shift(x []float64, r int) float64 {
	clear(d.s[r:])
	buf := borrow(len(x))
	defer giveBack(buf)
	d.compose(*buf)
	floats.Sub(*buf, x)
	sum := floats.Sum(d.s)
	if sum == 0 {
		return number(norm2(*buf))
	}
	u, v := d.first(r)
	p, q := defect(blas.Trans, u, r), defect(d.trans, v, r)
	return number((norm2(*buf) + (p+q+p*q)*d.s[0] + float64(r+8)*2*ulp*sum) * (1 + 8*ulp))
}

// subgradient returns the distance of −v to t·∂‖X′‖_*, see NuclearNorm.Dist, or if nearest the
// least of these distances over t ≥ 0.
func (d *spectrum) subgradient(v []float64, t float64, nearest bool) float64 {
	m, n := d.a.Rows, d.a.Cols
	r := d.rank()
	buf := borrow(2*len(v) + r*max(m, n))
	defer giveBack(buf)
	z, rest := matrixOf(m, n, *buf), (*buf)[m*n:2*m*n]
	work := (*buf)[2*m*n:]
	floats.ScaleTo(z.Data, -1, v)
	copy(rest, z.Data)
	u, vt := d.first(r)
	if r > 0 {
		uy, zv := matrixOf(r, n, work), matrixOf(m, r, work)
		blas64.Gemm(blas.Trans, blas.NoTrans, 1, u, z, 0, uy)
		blas64.Gemm(blas.NoTrans, blas.NoTrans, -1, u, uy, 1, z) // (I−P)Y
		blas64.Gemm(blas.NoTrans, blas.Trans, 1, z, vt, 0, zv)
		blas64.Gemm(blas.NoTrans, blas.NoTrans, -1, zv, vt, 1, z) // (I−P)Y(I−Q)
	}
	outer, ok := decompose(z.Data, m, n)
	defer spectra.Put(outer)
	if !ok {
		return inf
	}
	if r > 0 {
		uv := matrixOf(m, n, d.a.Data)
		blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, u, vt, 0, uv)
		if nearest {
			t = nearestWeight(floats.Dot(uv.Data, rest), r, outer.s)
		}
		floats.AddScaled(rest, -t, uv.Data) // Y − t·UVᵀ
	}
	floats.Sub(rest, z.Data)
	var e ssq
	e.add(norm2(rest))
	for _, s := range outer.s {
		e.add(max(s-t, 0))
	}
	return e.norm()
}

// nearestWeight returns the root t ≥ 0 of r·t − inner − Σ(s_k−t)₊, or 0 if there is none.
func nearestWeight(inner float64, r int, s []float64) float64 {
	return rise(0, inf, func(t float64) (psi, k float64) {
		psi, k = float64(r)*t-inner, float64(r)
		for _, sk := range s {
			if sk > t {
				psi -= sk - t
				k++
			}
		}
		return psi, k
	})
}
