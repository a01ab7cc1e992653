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

// NuclearNorm is g(X) = Weight·Σσ_k(X), the sum of the singular values of the
// Rows×Cols matrix X that the vector x holds row by row. With X = UΣVᵀ,
//
//	prox_{γg}(X) = U(Σ − γ·Weight)₊Vᵀ   [CCS10, Thm. 2.1]
//
// X stands for a matrix X′ of low rank, see [Rounded]: of the computed singular values above
// 2⁻⁴⁸·max(Rows,Cols) of the largest, and of the orthonormal vectors nearest to
// the computed singular vectors. Shift bounds X′−X with all roundings.
//
// Prox is a singular value decomposition by gonum in pooled scratch. It does not allocate once the
// scratch has grown, except that gonum's matrix products start goroutines at several hundred rows.
// If the decomposition does not converge, results are NaN and distances +Inf.
type NuclearNorm struct {
	Rows, Cols int
	Weight     float64
}

// SpectralBall is the set of Rows×Cols matrices X, held row by row, whose singular values are at
// most R. With X = UΣVᵀ the projection is U·min(Σ,R)·Vᵀ.
//
// Singular values within R(1 ± 2⁻⁴⁸·max(Rows,Cols)) stand for R, so that membership and faces allow
// for the rounding of the decomposition, see [Rounded] and [NuclearNorm]. Prox stays below R by a
// quarter of this allowance.
type SpectralBall struct {
	Rows, Cols int
	R          float64
}

// svd is the decomposition A = U·diag(s)·Vᵀ of an m×n matrix, k = min(m,n).
type svd struct {
	u, vt blas64.General // m×k, k×n
	s     []float64      // falling
	a     blas64.General // destroyed; m×n of scratch
	buf   []float64
	size  [1]float64 // of the workspace
}

var svds = sync.Pool{New: func() any { return new(svd) }}

// matrixOf returns the m×n matrix with these elements.
func matrixOf(m, n int, data []float64) blas64.General {
	return blas64.General{Rows: m, Cols: n, Stride: max(n, 1), Data: data[:m*n]}
}

// decompose returns the decomposition of the m×n matrix x in pooled scratch, and whether it exists
// in float64.
func decompose(x []float64, m, n int) (*svd, bool) {
	if !fits(m, n, len(x)) {
		panic(badLen)
	}
	d := svds.Get().(*svd)
	k := min(m, n)
	u, vt := blas64.General{Rows: m, Cols: k, Stride: max(k, 1)}, blas64.General{Rows: k, Cols: n, Stride: max(n, 1)}
	lapack64.Gesvd(lapack.SVDStore, lapack.SVDStore, matrixOf(m, n, x), u, vt, nil, d.size[:], -1)
	if need := m*n + m*k + k*n + k + int(d.size[0]); len(d.buf) < need {
		d.buf = make([]float64, need)
	}
	b := d.buf
	d.a, b = matrixOf(m, n, b), b[m*n:]
	d.u, b = matrixOf(m, k, b), b[m*k:]
	d.vt, b = matrixOf(k, n, b), b[k*n:]
	d.s, b = b[:k], b[k:]
	copy(d.a.Data, x)
	ok := k == 0 || finite(x) && lapack64.Gesvd(lapack.SVDStore, lapack.SVDStore, d.a, d.u, d.vt, d.s, b, len(b))
	return d, ok
}

// edge is the relative size below which a difference of singular values of an m×n matrix counts as
// rounding. Like nearSphere it costs accuracy, not safety.
func edge(m, n int) float64 { return nearSphere * float64(max(m, n)) }

// first returns the first r columns of u, and of V as rows.
func (d *svd) first(r int) (u, vt blas64.General) {
	u, vt = d.u, d.vt
	u.Cols, vt.Rows = r, r
	return u, vt
}

// compose stores U·diag(s)·Vᵀ in dst, leaving out the zeros at the end of s.
func (d *svd) compose(dst []float64) {
	r := len(d.s)
	for r > 0 && d.s[r-1] == 0 {
		r--
	}
	if r == 0 {
		clear(dst)
		return
	}
	u, vt := d.first(r)
	w := matrixOf(u.Rows, r, d.a.Data)
	for i := range u.Rows {
		for j := range r {
			w.Data[i*w.Stride+j] = u.Data[i*u.Stride+j] * d.s[j]
		}
	}
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, w, vt, 0, matrixOf(d.a.Rows, d.a.Cols, dst))
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
func (d *svd) shift(x []float64, r int) float64 {
	clear(d.s[r:])
	buf := borrow(len(x))
	defer giveBack(buf)
	d.compose(*buf)
	floats.Sub(*buf, x)
	sum := floats.Sum(d.s)
	if sum == 0 {
		return number(norm2(*buf))
	}
	u, vt := d.first(r)
	p, q := defect(blas.Trans, u, r), defect(blas.NoTrans, vt, r)
	return number((norm2(*buf) + (p+q+p*q)*d.s[0] + float64(r+8)*2*ulp*sum) * (1 + 8*ulp))
}

// subgradient returns the distance of −v to t·∂‖X′‖_*, see NuclearNorm.Dist, or if nearest the
// least of these distances over t ≥ 0.
func (d *svd) subgradient(v []float64, t float64, nearest bool) float64 {
	m, n, r := d.a.Rows, d.a.Cols, d.rank()
	buf := borrow(2*len(v) + r*max(m, n))
	defer giveBack(buf)
	z, rest := matrixOf(m, n, *buf), (*buf)[m*n:2*m*n]
	work := (*buf)[2*m*n:]
	floats.ScaleTo(z.Data, -1, v)
	copy(rest, z.Data)
	if r > 0 {
		u, vt := d.first(r)
		uy, zv := matrixOf(r, n, work), matrixOf(m, r, work)
		blas64.Gemm(blas.Trans, blas.NoTrans, 1, u, z, 0, uy)
		blas64.Gemm(blas.NoTrans, blas.NoTrans, -1, u, uy, 1, z) // (I−P)Y
		blas64.Gemm(blas.NoTrans, blas.Trans, 1, z, vt, 0, zv)
		blas64.Gemm(blas.NoTrans, blas.NoTrans, -1, zv, vt, 1, z) // (I−P)Y(I−Q)
	}
	outer, ok := decompose(z.Data, m, n)
	defer svds.Put(outer)
	if !ok {
		return inf
	}
	if r > 0 {
		u, vt := d.first(r)
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

// rank returns the number of singular values that do not count as 0.
func (d *svd) rank() int {
	r, tol := len(d.s), 0.0
	if r > 0 {
		tol = edge(d.a.Rows, d.a.Cols) * d.s[0]
	}
	for r > 0 && d.s[r-1] <= tol {
		r--
	}
	return r
}

// Func returns Weight·Σσ_k(X).
func (g NuclearNorm) Func(x []float64) float64 {
	d, ok := decompose(x, g.Rows, g.Cols)
	defer svds.Put(d)
	if !ok {
		return inf
	}
	return number(g.Weight * floats.Sum(d.s))
}

// Prox stores U(Σ − γ·Weight)₊Vᵀ in dst.
func (g NuclearNorm) Prox(dst, x []float64, gamma float64) {
	sameLen(dst, x)
	d, ok := decompose(x, g.Rows, g.Cols)
	defer svds.Put(d)
	t := gamma * g.Weight
	switch {
	case !ok:
		fillNaN(dst)
	case t == 0:
		copy(dst, x)
	default:
		for k := range d.s {
			d.s[k] = max(d.s[k]-t, 0)
		}
		d.compose(dst)
	}
}

// Dist: with X′ = UΣVᵀ of rank r and the projections P on the span of U and Q
// on that of V, ∂g(X′)/Weight = {UVᵀ + W : PW = 0, WQ = 0, σ(W) ≤ 1}. With
// Y = −v and Z = (I−P)Y(I−Q) the distance squared is
//
//	‖Y − Z − Weight·UVᵀ‖² + Σ(σ_k(Z) − Weight)₊²
func (g NuclearNorm) Dist(x, v []float64) float64 {
	sameLen(x, v)
	d, ok := decompose(x, g.Rows, g.Cols)
	defer svds.Put(d)
	if !ok || !finite(v) {
		return inf
	}
	return d.subgradient(v, g.Weight, false)
}

// shift returns a bound on ‖X′−X‖_F, see NuclearNorm.
func (g NuclearNorm) shift(x []float64) float64 {
	d, ok := decompose(x, g.Rows, g.Cols)
	defer svds.Put(d)
	if !ok {
		return inf
	}
	return d.shift(x, d.rank())
}

func (g NuclearNorm) check(dim int) error {
	if err := shape("NuclearNorm", g.Rows, g.Cols, dim); err != nil {
		return err
	}
	return weight("NuclearNorm.Weight", g.Weight)
}

// lipschitz is the largest ‖X‖_F with σ(X) ≤ Weight.
func (g NuclearNorm) lipschitz(int) float64 {
	return math.Sqrt(float64(min(g.Rows, g.Cols))) * g.Weight * (1 + 4*ulp)
}

// shape returns an error unless rows×cols is dim and neither is negative.
func shape(name string, rows, cols, dim int) error {
	if !fits(rows, cols, dim) {
		return fmt.Errorf("%w: %s of %d rows and %d columns in %d dimensions, want Rows·Cols = dim",
			ErrParameter, name, rows, cols, dim)
	}
	return nil
}

// fits reports whether rows×cols is dim, without overflow.
func fits(rows, cols, dim int) bool {
	if rows <= 0 || cols <= 0 {
		return rows >= 0 && cols >= 0 && dim == 0
	}
	return dim%rows == 0 && dim/rows == cols
}

// member returns the decomposition of x in pooled scratch, and whether it exists and x is a member.
func (g SpectralBall) member(x []float64) (d *svd, ok bool) {
	d, ok = decompose(x, g.Rows, g.Cols)
	return d, ok && (len(d.s) == 0 || d.s[0] <= g.R || g.on(d.s[0]))
}

// on reports whether singular value s stands for R.
func (g SpectralBall) on(s float64) bool {
	return math.Abs(s-g.R) <= edge(g.Rows, g.Cols)*g.R && g.R < inf
}

// Func returns 0 where every σ_k ≤ R(1 + 2⁻⁴⁸·max(Rows,Cols)), +Inf elsewhere.
func (g SpectralBall) Func(x []float64) float64 {
	d, ok := g.member(x)
	defer svds.Put(d)
	return indicator(ok)
}

// Prox stores U·min(Σ,R)·Vᵀ in dst.
func (g SpectralBall) Prox(dst, x []float64, _ float64) {
	sameLen(dst, x)
	d, ok := decompose(x, g.Rows, g.Cols)
	defer svds.Put(d)
	r := g.R * (1 - edge(g.Rows, g.Cols)/4)
	switch {
	case !ok:
		fillNaN(dst)
	case len(d.s) == 0 || d.s[0] <= r:
		copy(dst, x)
	default:
		for k := range d.s {
			d.s[k] = min(d.s[k], r)
		}
		d.compose(dst)
	}
}

// Dist: let U and V be the singular vectors of the r singular values that stand for R. N(X′) =
// {USVᵀ : S symmetric, S ⪰ 0}, so with Y = −v the nearest element has S = (½(M + Mᵀ))₊, M = UᵀYV.
func (g SpectralBall) Dist(x, v []float64) float64 {
	sameLen(x, v)
	d, ok := g.member(x)
	defer svds.Put(d)
	if !ok || !finite(v) {
		return inf
	}
	if g.R == 0 { // C = {0}: the normal cone is everything
		return 0
	}
	r := 0
	for r < len(d.s) && g.on(d.s[r]) {
		r++
	}
	if r == 0 {
		return number(norm2(v))
	}
	m, n := g.Rows, g.Cols
	buf := borrow(m*n + r*n + r*r)
	defer giveBack(buf)
	y, uy, core := matrixOf(m, n, *buf), matrixOf(r, n, (*buf)[m*n:]), matrixOf(r, r, (*buf)[m*n+r*n:])
	floats.ScaleTo(y.Data, -1, v)
	u, vt := d.first(r)
	blas64.Gemm(blas.Trans, blas.NoTrans, 1, u, y, 0, uy)
	blas64.Gemm(blas.NoTrans, blas.Trans, 1, uy, vt, 0, core) // M
	if !positivePart(core.Data, r) {
		return inf
	}
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, core, vt, 0, uy)
	blas64.Gemm(blas.NoTrans, blas.NoTrans, -1, u, uy, 1, y) // Y − USVᵀ
	return number(norm2(y.Data))
}

// shift returns a bound on ‖X′−X‖_F, where X′ has R for the singular values that stand for it.
func (g SpectralBall) shift(x []float64) float64 {
	d, ok := g.member(x)
	defer svds.Put(d)
	if !ok {
		return inf
	}
	if len(d.s) == 0 || !g.on(d.s[0]) {
		return 0
	}
	for k, s := range d.s {
		if g.on(s) {
			d.s[k] = g.R
		}
	}
	return d.shift(x, len(d.s))
}

// Radius returns √min(Rows,Cols)·R, rounded up; +Inf for an invalid ball.
func (g SpectralBall) Radius(dim int) float64 {
	if g.check(dim) != nil {
		return inf
	}
	if g.R == 0 || dim == 0 {
		return 0
	}
	return math.Sqrt(float64(min(g.Rows, g.Cols))) * g.R * (1 + edge(g.Rows, g.Cols))
}

func (g SpectralBall) check(dim int) error {
	if err := shape("SpectralBall", g.Rows, g.Cols, dim); err != nil {
		return err
	}
	return radius("SpectralBall.R", g.R)
}
