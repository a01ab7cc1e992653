package prox

import (
	"fmt"
	"math"
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/lapack"
	"gonum.org/v1/gonum/lapack/lapack64"
)

// SecondOrderCone is the set {(t, z) : ‖z‖₂ ≤ t} with t = x[0] and z = x[1:],
// the Lorentz cone. [PB14, §6.3]
//
// Projections satisfy ‖z‖₂ ≤ t in real arithmetic. A point with ‖z‖₂ within t(1 ± 2⁻⁴⁸) stands for
// x′ = (t, (t/‖z‖₂)z) on the surface, see [Rounded].
type SecondOrderCone struct{}

// PSDCone is the set of symmetric positive semidefinite matrices X of order
// Order, held row by row in a vector of Order² numbers. The projection is
// Σ max(λ_k,0)·q_k q_kᵀ over the eigenpairs of ½(X+Xᵀ). [PB14, §6.3]
//
// Members are symmetric exactly. Eigenvalues within 2⁻⁴⁸·Order of 0, relative to the largest in
// size, stand for 0, and X stands for the matrix X′ of the other computed eigenvalues and of the
// orthonormal vectors nearest to the computed eigenvectors, see [Rounded]. Scratch and failures are
// as for [NuclearNorm].
type PSDCone struct{ Order int }

// split returns t and ‖z‖₂, and whether x is a member.
func (SecondOrderCone) split(x []float64) (t, n float64, ok bool) {
	if len(x) == 0 {
		panic(badLen)
	}
	t, n = x[0], norm2(x[1:])
	return t, n, t <= math.MaxFloat64 && (n <= t || onSphere(n, t))
}

// Func returns 0 where ‖z‖₂ ≤ t(1+2⁻⁴⁸) and +Inf elsewhere.
func (g SecondOrderCone) Func(x []float64) float64 {
	_, _, ok := g.split(x)
	return indicator(ok)
}

// Prox projects: x in the cone, 0 if ‖z‖₂ ≤ −t, and else s·(1, z/‖z‖₂) with
// s = (t+‖z‖₂)/2, rounded into the cone.
func (g SecondOrderCone) Prox(dst, x []float64, _ float64) {
	sameLen(dst, x)
	t, n, _ := g.split(x)
	s := t/2 + n/2
	switch {
	case n <= t*(1-6*ulp):
		copy(dst, x)
		return
	case n <= -t:
		clear(dst)
		return
	}
	floats.ScaleTo(dst, s/n*(1-16*ulp), x)
	dst[0] = s
}

// Dist: N(x) is {0} inside, the ray of (−1, z/‖z‖₂) on the surface, and minus
// the cone at 0, where the distance is the distance of v from the cone.
func (g SecondOrderCone) Dist(x, v []float64) float64 {
	sameLen(x, v)
	t, n, ok := g.split(x)
	if !ok || !finite(v) {
		return inf
	}
	v0, vz := v[0], v[1:]
	switch {
	case t == 0:
		switch m := norm2(vz); {
		case m <= v0:
			return 0
		case m <= -v0:
			return norm2(v)
		default:
			return (m - v0) / math.Sqrt2
		}
	case !onSphere(n, t):
		return norm2(v)
	}
	q := v0 // ⟨−v, (−1, z/n)⟩
	for i, zi := range x[1:] {
		q -= vz[i] * (zi / n)
	}
	q = max(q/2, 0)
	var d ssq
	d.add(math.Abs(v0 - q))
	for i, zi := range x[1:] {
		d.add(math.Abs(vz[i] + q*(zi/n)))
	}
	return d.norm()
}

// shift returns |‖z‖₂−t| plus the rounding of the norm for a point near the surface, and 0 inside.
func (g SecondOrderCone) shift(x []float64) float64 {
	t, n, ok := g.split(x)
	switch {
	case !ok:
		return inf
	case t > 0 && onSphere(n, t):
		return math.Nextafter(math.Abs(n-t)+4*ulp*t, inf)
	}
	return 0
}

// Radius returns +Inf.
func (g SecondOrderCone) Radius(int) float64 { return inf }

func (g SecondOrderCone) check(dim int) error {
	if dim < 1 {
		return fmt.Errorf("%w: SecondOrderCone in %d dimensions, want at least 1", ErrParameter, dim)
	}
	return nil
}

// eigen is the decomposition Q·diag(lambda)·Qᵀ of a symmetric matrix of order n.
type eigen struct {
	q      blas64.General // eigenvectors are columns
	lambda []float64      // rising
	w      []float64      // n² of scratch
	buf    []float64
	size   [1]float64 // of the workspace
}

var eigens = sync.Pool{New: func() any { return new(eigen) }}

// diagonalize returns the decomposition of ½(X+Xᵀ) in pooled scratch, and whether it exists in
// float64.
func diagonalize(x []float64, n int) (*eigen, bool) {
	if !fits(n, n, len(x)) {
		panic(badLen)
	}
	d := eigens.Get().(*eigen)
	given := blas64.Symmetric{Uplo: blas.Upper, N: n, Stride: max(n, 1), Data: x}
	lapack64.Syev(lapack.EVCompute, given, nil, d.size[:], -1)
	if need := 2*n*n + n + int(d.size[0]); len(d.buf) < need {
		d.buf = make([]float64, need)
	}
	b := d.buf
	d.q, b = matrixOf(n, n, b), b[n*n:]
	d.w, b = b[:n*n], b[n*n:]
	d.lambda, b = b[:n], b[n:]
	symmetrize(d.q.Data, x, n)
	upper := blas64.Symmetric{Uplo: blas.Upper, N: n, Stride: max(n, 1), Data: d.q.Data}
	ok := n == 0 || finite(x) && lapack64.Syev(lapack.EVCompute, upper, d.lambda, b, len(b))
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

// last returns the last r eigenvectors.
func (d *eigen) last(r int) blas64.General {
	q := d.q
	q.Cols, q.Data = r, q.Data[q.Cols-r:]
	return q
}

// compose stores Σλ_k q_k q_kᵀ over the last r eigenpairs in dst, symmetric exactly.
func (d *eigen) compose(dst []float64, r int) {
	n := d.q.Rows
	if r == 0 {
		clear(dst)
		return
	}
	q, w := d.last(r), matrixOf(n, r, d.w)
	for i := range n {
		for j := range r {
			w.Data[i*r+j] = q.Data[i*q.Stride+j] * d.lambda[n-r+j]
		}
	}
	blas64.Gemm(blas.NoTrans, blas.Trans, 1, w, q, 0, matrixOf(n, n, dst))
	for i := range n {
		for j := range i {
			dst[i*n+j] = dst[j*n+i]
		}
	}
}

// positives returns the number of eigenvalues above tol.
func (d *eigen) positives(tol float64) int {
	r := 0
	for r < len(d.lambda) && d.lambda[len(d.lambda)-1-r] > tol {
		r++
	}
	return r
}

// positivePart replaces the n×n matrix s by (½(S+Sᵀ))₊ and reports success.
func positivePart(s []float64, n int) bool {
	d, ok := diagonalize(s, n)
	defer eigens.Put(d)
	if ok {
		d.compose(s, d.positives(0))
	}
	return ok
}

// member returns the decomposition of x in pooled scratch, the number of eigenvalues that do not
// count as 0, and whether x is a member.
func (g PSDCone) member(x []float64) (d *eigen, r int, ok bool) {
	d, ok = diagonalize(x, g.Order)
	n := g.Order
	if !ok || n == 0 {
		return d, 0, ok
	}
	// A subnormal matrix is rounded by 2⁻¹⁰⁷⁴, whatever its size.
	tol := max(edge(n, n)*max(d.lambda[n-1], -d.lambda[0]), float64(n)*0x1p-1070)
	ok = d.lambda[0] >= -tol
	for i := range n {
		for j := range i {
			ok = ok && x[i*n+j] == x[j*n+i]
		}
	}
	return d, d.positives(tol), ok
}

// Func returns 0 where X is symmetric and λ_k ≥ −Order·max(2⁻⁴⁸‖X‖₂, 2⁻¹⁰⁷⁰), +Inf elsewhere.
func (g PSDCone) Func(x []float64) float64 {
	d, _, ok := g.member(x)
	defer eigens.Put(d)
	return indicator(ok)
}

// Prox stores Σ max(λ_k,0)·q_k q_kᵀ in dst, symmetric exactly.
func (g PSDCone) Prox(dst, x []float64, _ float64) {
	sameLen(dst, x)
	d, ok := diagonalize(x, g.Order)
	defer eigens.Put(d)
	n := g.Order
	switch {
	case !ok:
		fillNaN(dst)
	case n > 0 && d.lambda[0] >= 0: // ½(X+Xᵀ) is a member
		symmetrize(dst, x, n)
	default:
		d.compose(dst, d.positives(0))
	}
}

// Dist: with the eigenvectors U of the eigenvalues 0,
// N(X′) = {K − USUᵀ : K skew-symmetric, S ⪰ 0}. The skew-symmetric part of v has distance 0; with
// Y = −½(v+vᵀ) the nearest element has S = (−UᵀYU)₊.
func (g PSDCone) Dist(x, v []float64) float64 {
	sameLen(x, v)
	d, r, ok := g.member(x)
	defer eigens.Put(d)
	if !ok || !finite(v) {
		return inf
	}
	n := g.Order
	k := n - r
	buf := borrow(n*n + k*n + k*k)
	defer giveBack(buf)
	y := matrixOf(n, n, *buf)
	symmetrize(y.Data, v, n)
	floats.Scale(-1, y.Data)
	if k > 0 {
		u := d.q
		u.Cols = k
		uy, core := matrixOf(k, n, (*buf)[n*n:]), matrixOf(k, k, (*buf)[n*n+k*n:])
		blas64.Gemm(blas.Trans, blas.NoTrans, -1, u, y, 0, uy)
		blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, uy, u, 0, core) // −UᵀYU
		if !positivePart(core.Data, k) {
			return inf
		}
		blas64.Gemm(blas.NoTrans, blas.Trans, 1, core, u, 0, uy)
		blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, u, uy, 1, y) // Y + USUᵀ
	}
	return number(norm2(y.Data))
}

// shift returns a bound on ‖X′−X‖_F, see PSDCone: the rounding of the sum of r
// products is at most (r+2)u·Σλ in all.
func (g PSDCone) shift(x []float64) float64 {
	d, r, ok := g.member(x)
	defer eigens.Put(d)
	if !ok {
		return inf
	}
	if r == g.Order { // X is definite and stands for itself
		return 0
	}
	buf := borrow(len(x))
	defer giveBack(buf)
	d.compose(*buf, r)
	floats.Sub(*buf, x)
	if r == 0 {
		return number(norm2(*buf))
	}
	sum := floats.Sum(d.lambda[g.Order-r:])
	p := defect(blas.Trans, d.last(r), r)
	return number((norm2(*buf) + (2*p+p*p)*d.lambda[g.Order-1] + float64(r+8)*2*ulp*sum) * (1 + 8*ulp))
}

// Radius returns +Inf.
func (g PSDCone) Radius(int) float64 { return inf }

func (g PSDCone) check(dim int) error { return shape("PSDCone", g.Order, g.Order, dim) }
