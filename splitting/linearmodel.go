// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting

import (
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/internal/kernel"
	"github.com/privopt/privopt/loss"
)

// LinearModel is f(x) = Σᵢ wᵢφ(⟨aᵢ,x⟩ + oᵢ; yᵢ) over the rows aᵢ of A, for a scalar loss φ ≥ 0
// with 0 ≤ φ″ ≤ c, weights wᵢ ≥ 0 and offsets oᵢ:
//
//	∇f(x) = A'Wφ′,   ∇²f(x) = A'W·diag(φ″)A,   L_f ≤ c·λ_max(A'WA)
//
// It is a [FiniteSum] of n terms and a [Hessianer], that of [NewLeastSquares] also a [Quadratizer],
// and safe for concurrent use.
type LinearModel struct {
	a       *mat.Dense // n×d
	y       []float64
	w, o    []float64 // nil means ones and zeros
	phi     scalar
	curve   float64 // c
	row     float64 // maxᵢ wᵢ‖aᵢ‖²
	lipOnce sync.Once
	lip     float64
	muOnce  sync.Once
	mu      float64
	qOnce   sync.Once
	q       *mat.SymDense // of least squares
	lin     []float64
	c       float64
	finite  bool       // q
	pool    *sync.Pool // *work
}

// scalar is φ. Scalar returns φ, φ′ and φ″ at u for the label b.
type scalar interface {
	Scalar(u, b, radius float64) (phi, dphi, d2phi float64)
}

// work is the scratch of one evaluation.
type work struct {
	u, c []float64 // Ax, then φ′; φ″
	gram gramian
}

// NewLeastSquares returns f(x) = ½‖Ax − y‖², c = 1, for a, n×d, and y, which it copies. The error
// wraps ErrProblem if a is nil or empty, len(y) is not n, or an entry is not finite.
func NewLeastSquares(a mat.Matrix, y []float64) (*LinearModel, error) {
	return newLinearModel("LeastSquares", a, y, loss.Squared{}, 1)
}

// NewLogistic returns f(x) = Σᵢ log(1 + exp(−yᵢ⟨aᵢ,x⟩)), c = ¼, for the rows aᵢ of a, n×d, and
// classes yᵢ: class 1 if positive, else class −1, so that labels −1, 1 and labels 0, 1 mean the
// same. It is not strongly convex; a ridge is [prox.SquaredL2] as G or H. See [NewLeastSquares].
func NewLogistic(a mat.Matrix, y []float64) (*LinearModel, error) {
	return newLinearModel("Logistic", a, y, loss.Logistic{}, 0.25)
}

// NewHuber returns the robust least squares f(x) = Σᵢ φ(⟨aᵢ,x⟩ − yᵢ), c = 1, for the rows aᵢ of a,
// n×d, where φ is Huber's function,
//
//	φ(r) = ½r² where |r| ≤ delta,   delta·|r| − ½delta² elsewhere.
//
// See [NewLeastSquares]. The error wraps ErrProblem also if delta is not a positive finite number.
func NewHuber(a mat.Matrix, y []float64, delta float64) (*LinearModel, error) {
	if !(delta > 0) || math.IsInf(delta, 1) {
		return nil, unfit("Huber: delta = %v, want a positive finite number", delta)
	}
	return newLinearModel("Huber", a, y, loss.Huber{Delta: delta}, 1)
}

func newLinearModel(name string, a mat.Matrix, y []float64, phi scalar, curve float64) (*LinearModel, error) {
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
	f := &LinearModel{a: mat.DenseCopyOf(a), y: slices.Clone(y), phi: phi, curve: curve}
	if !finite(f.a.RawMatrix().Data) || !finite(f.y) {
		return nil, unfit("%s: an entry of A or y is not finite, want finite numbers", name)
	}
	f.pool = &sync.Pool{New: func() any { return &work{u: make([]float64, n), c: make([]float64, n)} }}
	f.bound()
	return f, nil
}

// With returns the model with the weights and offsets of its rows in the place of those that f has;
// nil means ones and zeros. It shares A with f. The error wraps ErrProblem unless there is one
// number for each row, finite, and no weight is negative.
func (f *LinearModel) With(weights, offsets []float64) (*LinearModel, error) {
	if f == nil {
		return nil, unfit("LinearModel: nil, want one of NewLeastSquares and the like")
	}
	for _, v := range [][]float64{weights, offsets} {
		if v != nil && len(v) != len(f.y) || !finite(v) {
			return nil, unfit("LinearModel: %d weights or offsets for %d rows, want a finite one for each row, or nil",
				len(v), len(f.y))
		}
	}
	if len(weights) > 0 && floats.Min(weights) < 0 {
		return nil, unfit("LinearModel: weight %v, want no negative one", floats.Min(weights))
	}
	g := &LinearModel{a: f.a, y: f.y, w: slices.Clone(weights), o: slices.Clone(offsets), phi: f.phi, curve: f.curve,
		pool: f.pool}
	g.bound()
	return g, nil
}

// bound sets row.
func (f *LinearModel) bound() {
	_, d := f.a.Dims()
	for i := range f.y {
		size := norm(f.a.RawRowView(i))
		f.row = math.Max(f.row, f.weight(i)*size*size*(1+float64(d+8)*0x1p-52)) // d squares are rounded
	}
}

func (f *LinearModel) weight(i int) float64 {
	if f.w == nil {
		return 1
	}
	return f.w[i]
}

// scalar returns wφ, wφ′ and wφ″ of row i at u = ⟨aᵢ,x⟩.
func (f *LinearModel) scalar(i int, u float64) (phi, dphi, d2phi float64) {
	if f.o != nil {
		u += f.o[i]
	}
	phi, dphi, d2phi = f.phi.Scalar(u, f.y[i], 0)
	if f.w == nil {
		return phi, dphi, d2phi
	}
	w := f.w[i]
	return w * phi, w * dphi, w * d2phi
}

func (f *LinearModel) nonnegative() bool { return true }

// squares reports whether f is a quadratic.
func (f *LinearModel) squares() bool { return f.phi == scalar(loss.Squared{}) }

// Len returns n.
func (f *LinearModel) Len() int { return len(f.y) }

// Dim returns d.
func (f *LinearModel) Dim() int {
	_, d := f.a.Dims()
	return d
}

// predict stores Ax in u.
func (f *LinearModel) predict(u, x []float64) {
	if len(x) != f.Dim() {
		panic(badLen)
	}
	kernel.MulVec(u, f.a.RawMatrix().Data, x, true)
}

// Func returns f(x).
func (f *LinearModel) Func(x []float64) float64 {
	w := f.pool.Get().(*work)
	defer f.pool.Put(w)
	f.predict(w.u, x)
	var s float64
	for i, u := range w.u {
		v, _, _ := f.scalar(i, u)
		s += v
	}
	return s
}

// Grad stores ∇f(x) in dst.
func (f *LinearModel) Grad(dst, x []float64) { f.FuncGrad(dst, x) }

// FuncGrad stores ∇f(x) in dst and returns f(x).
func (f *LinearModel) FuncGrad(dst, x []float64) float64 {
	w := f.pool.Get().(*work)
	defer f.pool.Put(w)
	f.predict(w.u, x)
	if len(dst) != len(x) {
		panic(badLen)
	}
	var s float64
	for i, u := range w.u {
		v, slope, _ := f.scalar(i, u)
		s, w.u[i] = s+v, slope
	}
	clear(dst)
	kernel.AddMulVec(dst, f.a.RawMatrix().Data, w.u)
	return s
}

// GradTerms stores Σ_{i∈idx} ∇fᵢ(x) in dst.
func (f *LinearModel) GradTerms(dst, x []float64, idx []int) {
	if d := f.Dim(); len(x) != d || len(dst) != d {
		panic(badLen)
	}
	clear(dst)
	for _, i := range idx {
		row := f.a.RawRowView(i)
		_, slope, _ := f.scalar(i, floats.Dot(row, x))
		floats.AddScaled(dst, slope, row)
	}
}

// TermSmoothness returns c·maxᵢ wᵢ‖aᵢ‖², rounded up.
func (f *LinearModel) TermSmoothness() float64 { return f.curve * f.row }

// HessianIsFree reports that the Hessian does not change.
func (f *LinearModel) HessianIsFree() bool { return f.squares() }

// Hessian stores ∇²f(x) in dst.
func (f *LinearModel) Hessian(dst *mat.SymDense, x []float64) {
	w := f.pool.Get().(*work)
	defer f.pool.Put(w)
	f.predict(w.u, x)
	if dst.SymmetricDim() != len(x) {
		panic(badLen)
	}
	for i, u := range w.u {
		_, _, w.c[i] = f.scalar(i, u)
	}
	w.gram.compute(w.c, f.a.RawMatrix())
	raw := dst.RawSymmetric()
	for i := range x {
		copy(raw.Data[i*raw.Stride+i:][:len(x)-i], w.gram.row(i))
	}
}

// gramDim is the most coordinates for which least squares form A'WA.
const gramDim = 2000

// Quadratic returns the coefficients of least squares, A'WA, A'W(y−o) and ½‖y−o‖²_W, computed once
// in O(nd²). ok is false for other losses and for more than 2000 coordinates.
func (f *LinearModel) Quadratic() (q *mat.SymDense, lin []float64, c float64, ok bool) {
	d := f.Dim()
	if !f.squares() || d > gramDim {
		return nil, nil, 0, false
	}
	f.qOnce.Do(func() {
		zero := make([]float64, d)
		f.q, f.lin = mat.NewSymDense(d, nil), make([]float64, d)
		f.Hessian(f.q, zero)
		mirror(f.q.RawSymmetric().Data, d)
		f.c = f.FuncGrad(f.lin, zero)
		floats.Scale(-1, f.lin)
		f.finite = finite(f.q.RawSymmetric().Data)
	})
	return f.q, f.lin, f.c, f.finite
}

// Smoothness returns c times an upper bound on λ_max(A'WA), computed once: from the smaller of A'WA
// and its transpose where that takes at most about a second, else Σ wᵢ‖aᵢ‖².
func (f *LinearModel) Smoothness() float64 {
	f.lipOnce.Do(func() {
		a := f.a
		if f.w != nil {
			a = mat.DenseCopyOf(a)
			for i := range f.w {
				floats.Scale(math.Sqrt(f.w[i])*(1+0x1p-52), a.RawRowView(i))
			}
		}
		f.lip = f.curve * largestSquare(a.RawMatrix())
	})
	return f.lip
}

// Convexity returns a lower bound on the least eigenvalue of A'WA of least squares, computed once.
// It is 0 for other losses, if n < d, if rounding hides the digits of the eigenvalue, or if the
// computation would take more than about a second.
//
// A'WA is within (n+2)·2⁻⁵²·‖W^½A‖_F², and its eigenvalues within 8d·2⁻⁵³·‖A'WA‖.
func (f *LinearModel) Convexity() float64 {
	f.muOnce.Do(func() {
		n, d := float64(len(f.y)), float64(f.Dim())
		if n < d || (n+10*d)*d*d > lipFlops {
			return
		}
		q, _, _, ok := f.Quadratic()
		if !ok {
			return
		}
		if v, ok := eigenvalues(q); ok {
			f.mu = math.Max(v[0]-(n+8*d+8)*0x1p-52*mat.Trace(q), 0)
		}
	})
	return f.mu
}

// leastSquaresGap returns the duality gap of least squares f and ψ at an x in the box, where v =
// A'Wr, rr = ‖r‖²_W and ry = ⟨r,y−o⟩_W for any r, and NaN where a number is too large for float64.
// With the conjugates ψⱼ* every s has
//
//	J* ≥ s·ry − ½s²·rr − Σⱼ ψⱼ*(svⱼ).
//
// s is 1, or the largest s ≤ 1 with a finite sum. The bound is a difference, and n + d units of
// 2⁻⁵³ of its terms are added for its rounding, but for s = 1 and r = y − o − Ax, where f(x) = rr/2
// cancels. The rounding of r and v has no allowance.
func (p *penalty) leastSquaresGap(x, v []float64, f, rr, ry float64, n int) float64 {
	s := 1.0
	for j, vj := range v {
		if !p.bounded(j, vj) {
			s = math.Min(s, p.l1[j]/math.Abs(vj))
		}
	}
	if s == 1 && f == rr/2 { // the sum of Fenchel's inequalities, free of cancellation
		return math.Min(p.fenchel(x, v), (f+p.value(x))*(1+float64(n+len(x))*0x1p-53)) // J* ≥ 0, too
	}
	psi := p.value(x)
	low, size := s*ry-s*s*rr/2, rr+math.Abs(ry)+psi+f
	for j, vj := range v {
		star := p.conjugate(j, s*vj*(1-0x1p-52)) // just inside
		low -= star
		size += math.Abs(star)
	}
	// A difference of sums of n and d terms, plus their rounding; NaN where a sum overflows.
	return math.Max(f+psi-math.Max(low, 0), 0) + float64(n+len(x))*0x1p-53*size // J* ≥ 0, too
}

// shift replaces r by r − A_F t, t = (A'WA)_FF⁻¹v_F, so that v is 0 where ψ has no slope to bound
// it, as for an intercept without penalty or an x ≥ 0: else s would be 0.
func (f *LinearModel) shift(p *penalty, v []float64, rr, ry float64) (rr1, ry1 float64) {
	var free []int
	var t []float64
	rr1, ry1 = rr, ry
	first := slices.Clone(v)
	for range shifts {
		before := len(free)
		for j, vj := range v {
			if p.l1[j] == 0 && !p.bounded(j, vj) && !slices.Contains(free, j) {
				free = append(free, j)
			}
		}
		k := len(free)
		q, lin, _, ok := f.Quadratic()
		if k == before || !ok {
			break
		}
		chol := make([]float64, k*(k+1)/2)
		t = resize(t, k)
		for i, j := range free {
			t[i] = first[j]
			for l, other := range free[:i+1] {
				chol[i*(i+1)/2+l] = q.At(j, other)
			}
		}
		if !cholesky(chol, k) {
			return rr, ry
		}
		cholSolve(chol, t)
		copy(v, first)
		rr1, ry1 = rr, ry
		for i, j := range free {
			floats.AddScaled(v, -t[i], q.RawSymmetric().Data[j*len(v):][:len(v)])
			ry1 -= t[i] * lin[j]
		}
		for i, j := range free {
			rr1 -= t[i] * (first[j] + v[j]) // ‖r − A_F t‖² = ‖r‖² − ⟨t, v_F + (v − Qt)_F⟩
			v[j] = 0
		}
	}
	return rr1, ry1
}

// shifts bounds the rounds of shift, each of which frees more coordinates.
const shifts = 10

// gap returns the duality gap of least squares and ψ at an x in the box, and f(x), NaN where a
// number is too large.
func (f *LinearModel) gap(p *penalty, x []float64) (gap, value float64) {
	w := f.pool.Get().(*work)
	defer f.pool.Put(w)
	f.predict(w.u, x)
	v := make([]float64, len(x))
	var rr, ry float64
	for i, u := range w.u {
		_, r, _ := f.scalar(i, u)
		_, r0, _ := f.scalar(i, 0)
		if wi := f.weight(i); wi > 0 {
			rr += r * r / wi
			ry += r * r0 / wi
		}
		w.u[i] = -r
	}
	kernel.AddMulVec(v, f.a.RawMatrix().Data, w.u)
	value = rr / 2
	rr, ry = f.shift(p, v, rr, ry)
	return p.leastSquaresGap(x, v, value, rr, ry, len(w.u)), value
}

// lipFlops is the work that Smoothness may spend on a Gram matrix, about a second.
const lipFlops = 4e9

// largestSquare returns an upper bound on λ_max(A'A), Σ‖aᵢ‖² where a Gram matrix takes more than a
// second.
func largestSquare(a blas64.General) float64 {
	n, d := float64(a.Rows), float64(a.Cols)
	size := floats.Norm(a.Data, 2)
	if n*d*math.Min(n, d) <= lipFlops {
		size = math.Min(size, normOf(a))
	}
	return size * size
}

// gramian computes A'WA in blocks of rows with [kernel.AddGram].
type gramian struct {
	d, stride      int
	h, block, some []float64
}

// compute sets the upper triangle to Σ wᵢaᵢaᵢ', w ≥ 0.
func (g *gramian) compute(w []float64, a blas64.General) {
	g.d, g.stride = a.Cols, kernel.GramStride(a.Cols)
	rows := max(8, 1<<15/g.stride)
	g.h, g.block, g.some = resize(g.h, g.d*g.stride), resize(g.block, rows*g.stride), resize(g.some, rows)
	clear(g.h)
	clear(g.block)
	k := 0
	for i, wi := range w {
		if wi != 0 {
			copy(g.block[k*g.stride:], a.Data[i*a.Stride:][:g.d])
			g.some[k] = wi
			k++
		}
		if k == rows || i == len(w)-1 {
			kernel.AddGram(g.h, g.some[:k], g.block[:k*g.stride], g.d)
			k = 0
		}
	}
}

// row returns the entries of row i from the diagonal on.
func (g *gramian) row(i int) []float64 { return g.h[i*g.stride+i : i*g.stride+g.d] }
