// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting

import (
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// LeastSquares is f(x) = ½‖Ax − y‖² with A stored column by column, for coordinate descent.
//
//	∇f(x) = A'(Ax − y),   L_f ≥ λ_max(A'A),   0 ≤ μ ≤ σ_min(A)²
//
// It is safe for concurrent use.
type LeastSquares struct {
	equations
	lipOnce, muOnce   sync.Once
	lip, mu           float64
	gramOnce, rowOnce sync.Once
	gram              *mat.SymDense // A'A
	aty               []float64     // A'y
	row               float64
	pool              sync.Pool // *[]float64 of length n
}

func (f *LeastSquares) nonnegative() bool { return true }

// equations is Ax = y.
type equations struct {
	n, d int
	at   []float64 // A′, d×n: row j is column j of A
	y    []float64
}

func (e *equations) column(j int) []float64 { return e.at[j*e.n : (j+1)*e.n] }

// rest stores y − Ax in r.
func (e *equations) rest(r, x []float64) {
	copy(r, e.y)
	for j, v := range x {
		if v != 0 {
			floats.AddScaled(r, -v, e.column(j))
		}
	}
}

// mulTrans stores A'r in v.
func (e *equations) mulTrans(v, r []float64) {
	for j := range v {
		v[j] = floats.Dot(e.column(j), r)
	}
}

// NewLeastSquares copies a, n×d, column by column, and y. The error wraps ErrProblem if a is nil,
// an entry is not finite, or len(y) is not n.
func NewLeastSquares(a mat.Matrix, y []float64) (*LeastSquares, error) {
	if a == nil {
		return nil, unfit("LeastSquares: A is nil, want a matrix")
	}
	n, d := a.Dims()
	if len(y) != n {
		return nil, unfit("LeastSquares: y has %d entries, want one for each of the %d rows of A", len(y), n)
	}
	f := &LeastSquares{equations: equations{n, d, make([]float64, n*d), slices.Clone(y)}}
	f.pool.New = func() any { r := make([]float64, n); return &r }
	raw, ok := a.(mat.RawMatrixer)
	if !ok {
		raw = mat.DenseCopyOf(a)
	}
	transpose(f.at, raw.RawMatrix())
	if !finite(f.at) || !finite(f.y) {
		return nil, unfit("LeastSquares: an entry of A or y is not finite, want finite numbers")
	}
	return f, nil
}

// transpose stores a' in dst, in bands of eight columns: a cache line holds one row of a band, is
// read once and goes to eight rows of dst.
func transpose(dst []float64, a blas64.General) {
	const band = 8
	n := a.Rows
	j := 0
	for ; j+band <= a.Cols; j += band {
		to := dst[j*n : (j+band)*n]
		t0, t1 := to[:n], to[n:][:n]
		t2, t3 := to[2*n:][:n], to[3*n:][:n]
		t4, t5 := to[4*n:][:n], to[5*n:][:n]
		t6, t7 := to[6*n:][:n], to[7*n:][:n]
		for i := range n {
			v := (*[band]float64)(a.Data[i*a.Stride+j:])
			t0[i], t1[i] = v[0], v[1]
			t2[i], t3[i] = v[2], v[3]
			t4[i], t5[i] = v[4], v[5]
			t6[i], t7[i] = v[6], v[7]
		}
	}
	for ; j < a.Cols; j++ {
		to := dst[j*n:][:n]
		for i := range to {
			to[i] = a.Data[i*a.Stride+j]
		}
	}
}

// Func returns ½‖Ax − y‖².
func (f *LeastSquares) Func(x []float64) float64 {
	if len(x) != f.d {
		panic(badLen)
	}
	r := f.pool.Get().(*[]float64)
	defer f.pool.Put(r)
	f.rest(*r, x)
	return floats.Dot(*r, *r) / 2
}

// Grad stores A'(Ax − y) in dst.
func (f *LeastSquares) Grad(dst, x []float64) {
	if len(x) != f.d || len(dst) != f.d {
		panic(badLen)
	}
	r := f.pool.Get().(*[]float64)
	defer f.pool.Put(r)
	f.rest(*r, x)
	f.mulTrans(dst, *r)
	floats.Scale(-1, dst)
}

// scaled returns ½‖sAx − sy‖².
func (f *LeastSquares) scaled(s float64) *LeastSquares {
	g := &LeastSquares{equations: equations{f.n, f.d, slices.Clone(f.at), slices.Clone(f.y)}}
	g.pool.New = f.pool.New
	floats.Scale(s, g.at)
	floats.Scale(s, g.y)
	return g
}

// gramDim is the most coordinates for which a LeastSquares forms A'A.
const gramDim = 2000

// Quadratic returns the coefficients of f, A'A, A'y and ½‖y‖², computed once in O(nd²); ok is false
// for more than 2000 coordinates.
func (f *LeastSquares) Quadratic() (q *mat.SymDense, lin []float64, c float64, ok bool) {
	if f.d == 0 || f.d > gramDim {
		return nil, nil, 0, false
	}
	f.gramOnce.Do(func() {
		f.gram = mat.NewSymDense(f.d, nil)
		at := blas64.General{Rows: f.d, Cols: f.n, Stride: max(f.n, 1), Data: f.at}
		blas64.Syrk(blas.NoTrans, 1, at, 0, f.gram.RawSymmetric())
		mirror(f.gram.RawSymmetric().Data, f.d)
		f.aty = make([]float64, f.d)
		f.mulTrans(f.aty, f.y)
	})
	return f.gram, f.aty, floats.Dot(f.y, f.y) / 2, finite(f.gram.RawSymmetric().Data)
}

// HasHessian reports whether there are at most 2000 coordinates.
func (f *LeastSquares) HasHessian() bool { return f.d > 0 && f.d <= gramDim }

// HessianIsFree reports that the Hessian does not change.
func (f *LeastSquares) HessianIsFree() bool { return true }

// Hessian stores A'A in dst.
func (f *LeastSquares) Hessian(dst *mat.SymDense, x []float64) {
	if len(x) != f.d || dst.SymmetricDim() != f.d {
		panic(badLen)
	}
	q, _, _, _ := f.Quadratic()
	dst.CopySym(q)
}

// Len returns n, the number of equations: term i is ½(⟨aᵢ,x⟩ − yᵢ)².
func (f *LeastSquares) Len() int { return f.n }

// GradTerms stores Σ_{i∈idx} (⟨aᵢ,x⟩ − yᵢ)aᵢ in dst. A is held by columns, so that a row costs d
// cache lines: for many records and few of them a step, a [NewLogistic] or [NewHuber] is faster.
func (f *LeastSquares) GradTerms(dst, x []float64, idx []int) {
	if len(x) != f.d || len(dst) != f.d {
		panic(badLen)
	}
	clear(dst)
	for _, i := range idx {
		r := -f.y[i]
		for j, v := range x {
			r += f.at[j*f.n+i] * v
		}
		for j := range dst {
			dst[j] += r * f.at[j*f.n+i]
		}
	}
}

// TermSmoothness returns maxᵢ ‖aᵢ‖², rounded up.
func (f *LeastSquares) TermSmoothness() float64 {
	f.rowOnce.Do(func() {
		square := make([]float64, f.n)
		for j := range f.d {
			for i, v := range f.column(j) {
				square[i] += v * v
			}
		}
		for _, v := range square {
			f.row = math.Max(f.row, v*(1+float64(f.d+8)*0x1p-52))
		}
	})
	return f.row
}

// Smoothness returns an upper bound on λ_max(A'A), computed once: from the smaller of A'A and AA'
// where that takes at most about a second, else Σ‖aⱼ‖².
func (f *LeastSquares) Smoothness() float64 {
	f.lipOnce.Do(func() {
		f.lip = largestSquare(blas64.General{Rows: f.d, Cols: f.n, Stride: f.n, Data: f.at})
	})
	return f.lip
}

// Convexity returns a lower bound on σ_min(A)², computed once: from the eigenvalues of A'A, or
// where rounding hides their digits from the singular values of the triangular factor of A. It is 0
// if n < d or the computation would take more than about a second.
//
// A'A is within n·2⁻⁵³·‖A‖_F², and its eigenvalues within 8d·2⁻⁵³·‖A'A‖. Householder's QR and the
// singular values belong to a matrix A + E with ‖E‖ ≤ 16(n+d)·2⁻⁵³·‖A‖_F, and no singular value
// moves by more than ‖E‖ [Hig02, Thm. 19.4; LAPACK Users' Guide §4.9].
func (f *LeastSquares) Convexity() float64 {
	f.muOnce.Do(func() {
		n, d := float64(f.n), float64(f.d)
		if f.n < f.d || f.d == 0 || (n+10*d)*d*d > lipFlops {
			return
		}
		gram := mat.NewSymDense(f.d, nil)
		at := blas64.General{Rows: f.d, Cols: f.n, Stride: f.n, Data: f.at}
		blas64.Syrk(blas.NoTrans, 1, at, 0, gram.RawSymmetric())
		if finite(gram.RawSymmetric().Data) {
			v, ok := eigenvalues(gram)
			if ok {
				if least := v[0] - (n+8*d+8)*0x1p-52*mat.Trace(gram); least > 0.99*v[0] {
					f.mu = least
					return
				}
			}
		}
		if 3*(n+5*d)*d*d <= lipFlops {
			f.mu = f.leastSquare()
		}
	})
	return f.mu
}

// leastSquare returns a lower bound on σ_min(A)² from a QR decomposition.
func (f *LeastSquares) leastSquare() float64 {
	top := floats.Norm(f.at, math.Inf(1))
	if top == 0 {
		return 0
	}
	// The largest entry is brought to [½, 1): squares neither under- nor overflow.
	_, exp := math.Frexp(top)
	a := mat.NewDense(f.n, f.d, nil)
	a.Apply(func(i, j int, _ float64) float64 { return math.Ldexp(f.at[j*f.n+i], -exp) }, a)
	var qr mat.QR
	var r mat.Dense
	var svd mat.SVD
	qr.Factorize(a)
	qr.RTo(&r)
	if !svd.Factorize(r.Slice(0, f.d, 0, f.d), mat.SVDNone) {
		return 0
	}
	least := svd.Values(nil)[f.d-1] - 16*float64(f.n+f.d)*0x1p-53*mat.Norm(a, 2)
	if !(least > 0) {
		return 0
	}
	return math.Ldexp(least*least*(1-0x1p-50), 2*exp)
}

// leastSquaresGap returns the duality gap of ½‖Ax − y‖² + ψ(x) at an x in the box, for r = y − Ax
// and v = A'r, and NaN where a number is too large for float64. With the conjugates ψⱼ* every s has
//
//	J* ≥ s⟨r,y⟩ − ½s²‖r‖² − Σⱼ ψⱼ*(svⱼ).
//
// s is 1, or the largest s ≤ 1 with a finite sum. For s < 1 the bound is a difference, and n + d
// units of 2⁻⁵³ of its terms are added for its rounding. The rounding of r and v has no allowance.
func (p *penalty) leastSquaresGap(x, v, y, r []float64) float64 {
	s := 1.0
	for j, vj := range v {
		if !p.bounded(j, vj) {
			s = math.Min(s, p.l1[j]/math.Abs(vj))
		}
	}
	if s == 1 { // the sum of Fenchel's inequalities, free of cancellation
		return p.fenchel(x, v)
	}
	rr, ry := floats.Dot(r, r), floats.Dot(r, y)
	psi := p.value(x)
	low, size := s*ry-s*s*rr/2, rr+math.Abs(ry)+psi
	for j, vj := range v {
		star := p.conjugate(j, s*vj*(1-0x1p-52)) // just inside
		low -= star
		size += math.Abs(star)
	}
	// A difference of sums of n and d terms, plus their rounding; NaN where a sum overflows.
	return math.Max(rr/2+psi-low, 0) + float64(len(r)+len(x))*0x1p-53*size
}
