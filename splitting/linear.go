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

// Linear is a linear map K: ℝᵈ → ℝᵐ, for problems with a term h(Kx). Its methods do not allocate,
// and panic where lengths do not match.
type Linear interface {
	// Dims returns m, the length of Kx, and d, the length of x.
	Dims() (m, d int)
	// MulVec stores Kx in dst.
	MulVec(dst, x []float64)
	// MulVecTrans stores Kᵀy in dst.
	MulVecTrans(dst, y []float64)
	// Norm returns an upper bound on ‖K‖₂.
	Norm() float64
}

// NewMatrix returns a copy of a as K. Where a method asks for it, it computes ‖K‖₂ once, from the
// smaller of KKᵀ and KᵀK in O(min(m,d)²max(m,d)), and adds the rounding error. The error wraps
// ErrProblem if a is nil or empty, or an entry or ‖K‖² is not finite.
func NewMatrix(a mat.Matrix) (Linear, error) {
	if a == nil {
		return nil, unfit("Matrix: nil, want a matrix; a nil Problem.K is the identity")
	}
	m, d := a.Dims()
	if m == 0 || d == 0 {
		return nil, unfit("Matrix: %d×%d, want no empty dimension", m, d)
	}
	k := &dense{a: mat.DenseCopyOf(a).RawMatrix()}
	size := floats.Norm(k.a.Data, 2)
	if !finite(k.a.Data) || !(size <= 0x1p500) && math.IsInf(k.Norm()*k.Norm(), 1) { // step sizes contain the square
		return nil, unfit("Matrix: an entry of K, or the square of its norm, is not finite, want finite numbers")
	}
	return k, nil
}

// dense is a K that is held as a matrix.
type dense struct {
	a    blas64.General
	once sync.Once
	norm float64
}

func (k *dense) Norm() float64 {
	k.once.Do(func() { k.norm = normOf(k.a) })
	return k.norm
}

// normOf returns an upper bound on ‖A‖₂, +Inf if the eigenvalues are not found.
func normOf(a blas64.General) float64 {
	// The largest entry is brought to [½, 1): squares neither under- nor overflow.
	_, exp := math.Frexp(floats.Norm(a.Data, math.Inf(1)))
	side := mat.NewDense(a.Rows, a.Cols, nil)
	side.Apply(func(i, j int, _ float64) float64 { return math.Ldexp(a.Data[i*a.Stride+j], -exp) }, side)
	gram := mat.NewSymDense(min(a.Rows, a.Cols), nil)
	if a.Cols < a.Rows {
		gram.SymOuterK(1, side.T())
	} else {
		gram.SymOuterK(1, side)
	}
	v, ok := eigenvalues(gram)
	if !ok {
		return math.Inf(1)
	}
	// The Gram matrix is within max(m,d)·2⁻⁵³ of its trace, and the eigensolver within a small
	// multiple of min(m,d)·2⁻⁵³ of the largest eigenvalue; 8 covers the multiple.
	top := v[len(v)-1] + 8*float64(a.Rows+a.Cols)*0x1p-53*mat.Trace(gram)
	norm := math.Ldexp(math.Sqrt(top)*(1+0x1p-52), exp)
	if norm > 0 {
		norm = math.Nextafter(norm, math.Inf(1)) // Ldexp rounds a subnormal norm
	}
	return norm
}

func (k *dense) Dims() (m, d int)             { return k.a.Rows, k.a.Cols }
func (k *dense) MulVec(dst, x []float64)      { k.mul(blas.NoTrans, dst, x, k.a.Rows, k.a.Cols) }
func (k *dense) MulVecTrans(dst, y []float64) { k.mul(blas.Trans, dst, y, k.a.Cols, k.a.Rows) }

func (k *dense) mul(t blas.Transpose, dst, x []float64, rows, cols int) {
	if len(dst) != rows || len(x) != cols {
		panic(badLen)
	}
	gemv(t, k.a, x, dst)
}

// NewSelection returns K with (Kx)_k = x_{index[k]}, copies of some of dim coordinates. With a
// group norm h over disjoint ranges of Kx it expresses groups that overlap in any way. ‖K‖₂² is the
// number of copies of the coordinate that is selected most often. The error wraps ErrProblem if
// index is empty or has an entry outside [0, dim).
func NewSelection(index []int, dim int) (Linear, error) {
	if len(index) == 0 {
		return nil, unfit("Selection: no index, want at least one")
	}
	for k, i := range index {
		if i < 0 || i >= dim {
			return nil, unfit("Selection: Index[%d] = %d, want one in [0, %d)", k, i, dim)
		}
	}
	return newIncidence(slices.Clone(index), nil, dim), nil
}

// NewDifferences returns K with (Kx)_e = x_{b} − x_{a} over the edges e = (a, b) of a graph on dim
// coordinates. With h = prox.L1 the term h(Kx) is the total variation of a signal on the graph, for
// instance of an image, and with groups of edges it is the isotropic total variation.
//
//	‖K‖₂² ≤ max{deg(a) + deg(b) : (a, b) an edge}   [AM85, Thm. 1]
//
// The error wraps ErrProblem if there is no edge, or an edge is a loop or has an index outside
// [0, dim).
func NewDifferences(edges [][2]int, dim int) (Linear, error) {
	if len(edges) == 0 {
		return nil, unfit("Differences: no edge, want at least one")
	}
	from, to := make([]int, len(edges)), make([]int, len(edges))
	for k, e := range edges {
		for _, i := range e {
			if i < 0 || i >= dim {
				return nil, unfit("Differences: edge %d has index %d, want one in [0, %d)", k, i, dim)
			}
		}
		if e[0] == e[1] {
			return nil, unfit("Differences: edge %d is a loop at %d, want two coordinates", k, e[0])
		}
		from[k], to[k] = e[0], e[1]
	}
	return newIncidence(to, from, dim), nil
}

// incidence is (Kx)_k = x_{to[k]} − x_{from[k]}, or x_{to[k]} for a nil from. With deg(i) the
// number of entries of column i, ‖K‖₂² is at most the largest sum of deg over the entries of a row.
type incidence struct {
	to, from []int
	dim      int
	norm     float64
}

func newIncidence(to, from []int, dim int) *incidence {
	degree, most := make(map[int]int), 0
	for _, i := range slices.Concat(to, from) {
		degree[i]++
	}
	for k, i := range to {
		entries := degree[i]
		if from != nil {
			entries += degree[from[k]]
		}
		most = max(most, entries)
	}
	return &incidence{to, from, dim, math.Sqrt(float64(most)) * (1 + 0x1p-52)}
}

func (k *incidence) Dims() (m, d int) { return len(k.to), k.dim }

func (k *incidence) MulVec(dst, x []float64) {
	if len(dst) != len(k.to) || len(x) != k.dim {
		panic(badLen)
	}
	for j, i := range k.to {
		dst[j] = x[i]
	}
	for j, i := range k.from {
		dst[j] -= x[i]
	}
}

func (k *incidence) MulVecTrans(dst, y []float64) {
	if len(dst) != k.dim || len(y) != len(k.to) {
		panic(badLen)
	}
	clear(dst)
	for j, i := range k.to {
		dst[i] += y[j]
	}
	for j, i := range k.from {
		dst[i] -= y[j]
	}
}

func (k *incidence) Norm() float64 { return k.norm }

// identity is the K that a nil field of Problem means.
type identity int

func (k identity) Dims() (m, d int)           { return int(k), int(k) }
func (identity) MulVec(dst, x []float64)      { copy(dst, x) }
func (identity) MulVecTrans(dst, y []float64) { copy(dst, y) }
func (identity) Norm() float64                { return 1 }

// linear returns K, and the identity for nil.
func (p Problem) linear(dim int) Linear {
	if p.K == nil {
		return identity(dim)
	}
	return p.K
}

// rows returns the length of Kx.
func (p Problem) rows(dim int) int {
	rows, _ := p.linear(dim).Dims()
	return rows
}

// plain returns an error unless K is nil.
func (p Problem) plain(method string) error {
	if p.K == nil {
		return nil
	}
	return unfit("%s: K is not nil, and only PrimalDual and InteriorPoint take h(Kx); leave K nil, or use one of them",
		method)
}

// Func returns f(x) + g(x) + h(Kx). It allocates where K is not nil.
func (p Problem) Func(x []float64) float64 {
	v := smooth(p.F).Func(x)
	if p.G != nil {
		v += p.G.Func(x)
	}
	if p.H != nil {
		if p.K != nil {
			m, _ := p.K.Dims()
			kx := make([]float64, m)
			p.K.MulVec(kx, x)
			x = kx
		}
		v += p.H.Func(x)
	}
	return v
}
