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

	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/randmat"
)

// linearModel is f(x) = Σᵢ φ(⟨aᵢ,x⟩; yᵢ) over the rows aᵢ of A, for a scalar loss φ ≥ 0 with
// 0 ≤ φ″ ≤ c.
//
//	∇f(x) = A'φ′(Ax),   ∇²f(x) = A'diag(φ″(Ax))A,   L_f ≤ c·λ_max(A'A)
type linearModel struct {
	a       *mat.Dense // n×d
	y       []float64
	phi     scalar
	curve   float64 // c
	row     float64 // maxᵢ ‖aᵢ‖²
	lipOnce sync.Once
	lip     float64
	pool    sync.Pool // *work
}

// scalar is φ. Scalar returns φ, φ′ and φ″ at u for the label b.
type scalar interface {
	Scalar(u, b, radius float64) (phi, dphi, d2phi float64)
}

// work is the scratch of one evaluation.
type work struct {
	u    []float64      // Ax, then φ′ or φ″
	rows blas64.General // some rows of A, scaled
}

// NewLogistic returns f(x) = Σᵢ log(1 + exp(−yᵢ⟨aᵢ,x⟩)), c = ¼, for the rows aᵢ of a, n×d, and
// classes yᵢ: class 1 if positive, else class −1, so that labels −1, 1 and labels 0, 1 mean the
// same. It has n terms and is a [Hessianer], so every method of this package applies to it. It is
// not strongly convex; a ridge is [prox.SquaredL2] as G or H. It is safe for concurrent use. a and
// y are copied. The error wraps ErrProblem if a is nil or empty, len(y) is not n, or an entry is
// not finite.
func NewLogistic(a mat.Matrix, y []float64) (FiniteSum, error) {
	return newLinearModel("Logistic", a, y, loss.Logistic{}, 0.25)
}

// NewHuber returns the robust least squares f(x) = Σᵢ φ(⟨aᵢ,x⟩ − yᵢ), c = 1, for the rows aᵢ of a,
// n×d, where φ is Huber's function,
//
//	φ(r) = ½r² where |r| ≤ delta,   delta·|r| − ½delta² elsewhere.
//
// See [NewLogistic]. The error wraps ErrProblem also if delta is not a positive finite number.
func NewHuber(a mat.Matrix, y []float64, delta float64) (FiniteSum, error) {
	if !(delta > 0) || math.IsInf(delta, 1) {
		return nil, unfit("Huber: delta = %v, want a positive finite number", delta)
	}
	return newLinearModel("Huber", a, y, loss.Huber{Delta: delta}, 1)
}

func newLinearModel(name string, a mat.Matrix, y []float64, phi scalar, curve float64) (FiniteSum, error) {
	if a == nil {
		return nil, unfit("%s: A is nil, want a matrix", name)
	}
	n, d := a.Dims()
	if n == 0 || d == 0 {
		return nil, unfit("%s: A is %d×%d, want no empty dimension", name, n, d)
	}
	if len(y) != n {
		return nil, unfit("%s: %d labels for %d rows of A, want one a row", name, len(y), n)
	}
	f := &linearModel{a: mat.DenseCopyOf(a), y: slices.Clone(y), phi: phi, curve: curve}
	if !finite(f.a.RawMatrix().Data) || !finite(f.y) {
		return nil, unfit("%s: an entry of A or y is not finite, want finite numbers", name)
	}
	for i := range n {
		size := norm(f.a.RawRowView(i))
		f.row = math.Max(f.row, size*size*(1+float64(d+8)*0x1p-52)) // d squares are rounded
	}
	rows := min(n, max(1, 1<<15/d))
	f.pool.New = func() any {
		block := blas64.General{Rows: rows, Cols: d, Stride: d, Data: make([]float64, rows*d)}
		return &work{make([]float64, n), block}
	}
	return f, nil
}

func (f *linearModel) nonnegative() bool { return true }

func (f *linearModel) Len() int { return len(f.y) }

// predict stores Ax in u.
func (f *linearModel) predict(u, x []float64) {
	n, d := f.a.Dims()
	if len(x) != d {
		panic(badLen)
	}
	blas64.Gemv(blas.NoTrans, 1, f.a.RawMatrix(), blas64.Vector{N: d, Data: x, Inc: 1}, 0,
		blas64.Vector{N: n, Data: u, Inc: 1})
}

func (f *linearModel) Func(x []float64) float64 {
	w := f.pool.Get().(*work)
	defer f.pool.Put(w)
	f.predict(w.u, x)
	var s float64
	for i, u := range w.u {
		v, _, _ := f.phi.Scalar(u, f.y[i], 0)
		s += v
	}
	return s
}

func (f *linearModel) Grad(dst, x []float64) { f.FuncGrad(dst, x) }

func (f *linearModel) FuncGrad(dst, x []float64) float64 {
	w := f.pool.Get().(*work)
	defer f.pool.Put(w)
	f.predict(w.u, x)
	if len(dst) != len(x) {
		panic(badLen)
	}
	var s float64
	for i, u := range w.u {
		v, slope, _ := f.phi.Scalar(u, f.y[i], 0)
		s, w.u[i] = s+v, slope
	}
	blas64.Gemv(blas.Trans, 1, f.a.RawMatrix(), blas64.Vector{N: len(w.u), Data: w.u, Inc: 1}, 0,
		blas64.Vector{N: len(dst), Data: dst, Inc: 1})
	return s
}

func (f *linearModel) GradTerms(dst, x []float64, idx []int) {
	if _, d := f.a.Dims(); len(x) != d || len(dst) != d {
		panic(badLen)
	}
	clear(dst)
	to := blas64.Vector{N: len(dst), Data: dst, Inc: 1}
	for _, i := range idx {
		row := blas64.Vector{N: len(x), Data: f.a.RawRowView(i), Inc: 1}
		_, slope, _ := f.phi.Scalar(blas64.Dot(row, blas64.Vector{N: len(x), Data: x, Inc: 1}), f.y[i], 0)
		blas64.Axpy(slope, row, to)
	}
}

func (f *linearModel) TermSmoothness() float64 { return f.curve * f.row }

func (f *linearModel) Hessian(dst *mat.SymDense, x []float64) {
	w := f.pool.Get().(*work)
	defer f.pool.Put(w)
	f.predict(w.u, x)
	if dst.SymmetricDim() != len(x) {
		panic(badLen)
	}
	dst.Zero()
	block := w.rows
	block.Rows = 0
	add := func() { // the rows of a block
		blas64.Syrk(blas.Trans, 1, block, 1, dst.RawSymmetric())
		block.Rows = 0
	}
	for i, u := range w.u {
		_, _, curve := f.phi.Scalar(u, f.y[i], 0)
		if curve == 0 {
			continue
		}
		to, root := block.Data[block.Rows*block.Stride:], math.Sqrt(curve)
		for j, v := range f.a.RawRowView(i) {
			to[j] = root * v
		}
		if block.Rows++; block.Rows == w.rows.Rows {
			add()
		}
	}
	if block.Rows > 0 {
		add()
	}
}

func (f *linearModel) Smoothness() float64 {
	f.lipOnce.Do(func() { f.lip = f.curve * largestSquare(f.a.RawMatrix()) })
	return f.lip
}

// lipFlops is the work that Smoothness may spend on a Gram matrix, about a second.
const lipFlops = 4e9

// largestSquare returns an upper bound on λ_max(A'A): from the smaller of A'A and AA' where that
// takes at most a second, else Σ‖aᵢ‖².
func largestSquare(a blas64.General) float64 {
	n, d := float64(a.Rows), float64(a.Cols)
	var sum float64
	for i := range a.Rows {
		row := a.Data[i*a.Stride:][:a.Cols]
		sum += floats.Dot(row, row)
	}
	if n*d*math.Min(n, d) > lipFlops || n == 0 || d == 0 {
		return sum
	}
	side, trans := a.Cols, blas.Trans
	if a.Rows < a.Cols {
		side, trans = a.Rows, blas.NoTrans
	}
	gram := mat.NewSymDense(side, nil)
	blas64.Syrk(trans, 1, a, 0, gram.RawSymmetric())
	return math.Min(sum, randmat.MaxEig(gram))
}
