// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package randmat

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/internal/kernel"
)

const (
	maxLanczos = 300   // steps
	tolLanczos = 1e-8  // relative residual: an isolated Ritz value is then right to 1e-16/gap
	certify    = 2e-11 // relative distance from the Ritz value at which a bound is proved first
)

// work is a symmetric matrix S = A/scale, max |s_ij| in [1,2), with space for a Cholesky factor and
// three vectors. Its lower triangle is there after mirror.
type work struct {
	d     int
	s, l  []float64 // d×d, the second with rows of kernel.GramStride(d)
	v     []float64 // 3 d
	scale float64   // a power of two
	buf   *[]float64
}

// newWork copies a. It reports false if a has an entry that is NaN or infinite.
func newWork(a *mat.SymDense) (w *work, ok bool) {
	d := a.SymmetricDim()
	raw := a.RawSymmetric()
	var most uint64 // bits of max |a_ij|, which are in order, with Inf and NaN above all numbers
	for i := range d {
		for _, x := range raw.Data[i*raw.Stride+i : i*raw.Stride+d] {
			most = max(most, math.Float64bits(x)&^(1<<63))
		}
	}
	top := math.Float64frombits(most)
	if !(top <= math.MaxFloat64) {
		return w, false
	}
	scale := 1.
	if top > 0 {
		_, e := math.Frexp(top)
		scale = math.Ldexp(1, max(e-1, -1022))
	}
	factor := d * kernel.GramStride(d)
	buf := take(d*d + factor + 3*d)
	w = &work{d: d, s: (*buf)[:d*d], l: (*buf)[d*d : d*d+factor], v: (*buf)[d*d+factor:], scale: scale, buf: buf}
	inv := 1 / scale // exact: |exponent| ≤ 1022
	for i := range d {
		floats.ScaleTo(w.s[i*d+i:(i+1)*d], inv, raw.Data[i*raw.Stride+i:i*raw.Stride+d])
	}
	return w, true
}

// mirror copies the upper triangle to the lower one.
func (w *work) mirror() {
	for i := range w.d {
		for j := range i {
			w.s[i*w.d+j] = w.s[j*w.d+i]
		}
	}
}

func (w *work) free() { give(w.buf) }

// within returns f of a copy of a: 0 if a has no rows, and unknown if an entry is NaN or infinite.
func within(a *mat.SymDense, unknown float64, f func(w *work) float64) float64 {
	w, ok := newWork(a)
	if !ok {
		return unknown
	}
	defer w.free()
	if w.d == 0 {
		return 0
	}
	return f(w)
}

// slice is the number of rows of a Cholesky factor whose products are subtracted at once.
const slice = 16

var ones = slices.Repeat([]float64{1}, slice)

// cholesky factorizes sign·S + shift·I = R'R, with the rows of R in l. It returns the trace of the
// sum and whether the factorization ran to its end.
func (w *work) cholesky(sign, shift float64) (trace float64, ok bool) {
	d, stride := w.d, kernel.GramStride(w.d)
	row := func(k, i int) []float64 { return w.l[k*stride+i : k*stride+d] } // of R, from column i on
	for i := range d {                                                      // l begins as minus the sum
		floats.ScaleTo(row(i, i), -sign, w.s[i*d+i:(i+1)*d])
		row(i, i)[0] -= shift
		trace -= row(i, i)[0]
	}
	for first := 0; first < d; first += slice {
		last := min(first+slice, d)
		for i := first; i < last; i++ {
			left := row(i, i)
			for k := first; k < i; k++ {
				floats.AddScaled(left, row(k, i)[0], row(k, i))
			}
			if !(left[0] < 0) {
				return trace, false
			}
			root := math.Sqrt(-left[0])
			for j, v := range left {
				left[j] = -v / root
			}
			left[0] = root
		}
		kernel.AddGramFrom(w.l, ones[:last-first], w.l[first*stride:last*stride], d, last)
	}
	return trace, true
}

// margin bounds the negative part of the spectrum of a d×d matrix M whose Cholesky factorization
// ran to its end in floating point [Rum06], docs/theory/numerics.md#numerics.eigen:
//
//	λ_min(M) ≥ -γ/(1-γ) tr M,  γ = (d+1) u/(1-(d+1) u)
//
// with room for rounding the diagonal and the trace, and for underflow.
func (w *work) margin(trace float64) float64 {
	return float64(w.d+8)*0x1p-53*1.0001*trace + float64(w.d)*0x1p-1000
}

// atMost tries to prove λ_max(S) ≤ bound, with bound just above x.
func (w *work) atMost(x float64) (bound float64, ok bool) {
	trace, ok := w.cholesky(-1, x)
	return x + w.margin(trace), ok
}

// atLeast tries to prove λ_min(S) ≥ bound, with bound just below x.
func (w *work) atLeast(x float64) (bound float64, ok bool) {
	trace, ok := w.cholesky(1, -x)
	return x - w.margin(trace), ok
}

// lanczos runs the Lanczos process [Lan50] for the operator mul (dst = M x) from a fixed
// pseudo-random vector, without reorthogonalization: rounding then repeats converged Ritz values
// but does not harm the largest. It returns the largest Ritz value θ ≤ λ_max(M) and the residual of
// its vector.
func lanczos(v []float64, mul func(dst, x []float64)) (theta, residual float64) {
	d := len(v) / 3
	x, y := v[:d], v[d:2*d]
	z := v[2*d:]
	start(x)
	clear(y)
	var a, b [maxLanczos]float64
	beta, norm := 0., 0.
	for k := range maxLanczos {
		mul(z, x)
		floats.AddScaled(z, -beta, y)      // z = M x - β y
		a[k] = floats.Dot(x, z)            // α = x'z
		floats.AddScaled(z, -a[k], x)      // z = z - α x
		beta = math.Sqrt(floats.Dot(z, z)) // entries are O(1): no overflow
		norm = max(norm, math.Abs(a[k])+beta)
		if k+1 >= d || k >= 7 && k%4 == 3 || !(beta > 1e-14*norm) {
			theta, residual = ritz(a[:k+1], b[:k])
			residual *= beta
			if residual <= tolLanczos*math.Abs(theta) || beta <= 1e-14*norm {
				break
			}
		}
		b[k] = beta
		x, y, z = z, x, y
		floats.Scale(1/beta, x)
	}
	return theta, residual
}

// ritz returns the largest eigenvalue of the n×n tridiagonal matrix T with diagonal a and positive
// subdiagonal b, and the last component of its unit eigenvector. With s_n = 1 and the rows of (T -
// xI) s = 0 but the first solved backward, p(x) = (x - a₁) s₁ - b₁ s₂ is a multiple of the
// characteristic polynomial; Laguerre's iteration decreases from Gershgorin's bound to its largest
// root, and cubically at the end.
func ritz(a, b []float64) (theta, last float64) {
	n := len(a)
	x := math.Inf(-1) // Gershgorin: no eigenvalue above
	for j, v := range a {
		if j > 0 {
			v += b[j-1]
		}
		if j < n-1 {
			v += b[j]
		}
		x = max(x, v)
	}
	for range 60 {
		var s1, d1, e1 float64 // s_{j+1} and its first two derivatives
		s, d := 1., 0.
		e := 0.     // s_j
		ss := 1.    // ‖s‖²
		last = 1.   // s_n, as scaled
		below := 0. // b_j
		for j := n - 1; j >= 0; j-- {
			above := 1.
			if j > 0 {
				above = 1 / b[j-1]
			}
			t := x - a[j]
			s1, d1, e1, s, d, e = s, d, e,
				(t*s-below*s1)*above, (t*d+s-below*d1)*above, (t*e+2*d-below*e1)*above
			if j > 0 {
				below = b[j-1]
				ss += s * s
			}
			if math.Abs(s) > 0x1p300 {
				s1, d1 = s1*0x1p-300, d1*0x1p-300
				e1, s = e1*0x1p-300, s*0x1p-300
				d, e = d*0x1p-300, e*0x1p-300
				ss, last = ss*0x1p-600, last*0x1p-300
			}
		}
		last /= math.Sqrt(ss)
		g, h := d/s, e/s
		if !(s > 0 && g > 0 && g <= math.MaxFloat64) { // rounding: x is the root
			break
		}
		c := float64(n)
		root := math.Sqrt(max(0, (c-1)*(c*(g*g-h)-g*g)))
		step := c / (g + root)
		x -= step
		if !(step > 1e-15*math.Abs(x)) {
			break
		}
	}
	return x, last
}

// start fills x with a unit vector from a fixed stream of SplitMix64. It is not
// noise: every proof holds for any start.
func start(x []float64) {
	seed := uint64(0x5851f42d4c957f2d)
	for i := range x {
		seed += 0x9e3779b97f4a7c15
		h := (seed ^ seed>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		x[i] = float64(int64(h^h>>31)) * 0x1p-63
	}
	floats.Scale(1/floats.Norm(x, 2), x)
}

// mul is z = S x.
func (w *work) mul(z, x []float64) {
	blas64.Gemv(blas.NoTrans, 1, blas64.General{Rows: w.d, Cols: w.d, Stride: w.d, Data: w.s},
		blas64.Vector{N: w.d, Inc: 1, Data: x}, 0, blas64.Vector{N: w.d, Inc: 1, Data: z})
}

// solve is z = S⁻¹ x by the factor R.
func (w *work) solve(z, x []float64) {
	d, stride := w.d, kernel.GramStride(w.d)
	copy(z, x)
	for i := range d { // R'y = x
		r := w.l[i*stride+i : i*stride+d]
		z[i] /= r[0]
		floats.AddScaled(z[i+1:], -z[i], r[1:])
	}
	for i := d - 1; i >= 0; i-- { // R z = y
		r := w.l[i*stride+i : i*stride+d]
		z[i] = (z[i] - floats.Dot(r[1:], z[i+1:])) / r[0]
	}
}

// RitzMax returns the largest Ritz value of a Lanczos process and the residual of its vector: λ_max
// ≥ value, and some eigenvalue lies within residual of value. For a Wishart matrix value is λ_max
// to 1e-10, but without a proof, which [MaxEig] gives. It takes about 40 products with a at d =
// 100. A matrix without rows gives 0, one with a NaN or an infinity +Inf.
func RitzMax(a *mat.SymDense) (value, residual float64) {
	if a.SymmetricDim() == 0 {
		return 0, 0
	}
	w, ok := newWork(a)
	if !ok {
		return math.Inf(1), math.Inf(1)
	}
	defer w.free()
	w.mirror()
	value, residual = lanczos(w.v, w.mul)
	return value * w.scale, residual * w.scale
}

// MaxEig returns a proved upper bound on λ_max(a); for a positive semidefinite a and d ≤ 1000 its
// relative excess is at most 1e-10.
//
// A Lanczos process [Lan50] finds θ ≤ λ_max. A Cholesky factorization of x I - a with x just above
// θ, and its rounding error bound [Rum06], proves λ_max ≤ x + (d+8) u tr(x I - a). If it fails,
// bisection finds the least x for which it succeeds. A matrix without rows gives 0, one with a NaN
// or an infinity +Inf.
func MaxEig(a *mat.SymDense) float64 { return within(a, math.Inf(1), (*work).maxEig) }

func (w *work) maxEig() float64 {
	if w.d == 1 {
		return w.s[0] * w.scale
	}
	w.mirror()
	norm := floats.Norm(w.s, 2) * (1 + 0x1p-30) // Frobenius: λ_max ≤ ‖S‖, always
	if norm == 0 {
		return 0
	}
	theta, _ := lanczos(w.v, w.mul)
	if !(math.Abs(theta) <= norm) { // rounding: any start of the bisection will do
		theta = -norm
	}
	x := theta + certify*math.Abs(theta)
	bound, ok := w.atMost(x)
	if !ok {
		bound = w.bisect(theta, norm, w.atMost)
	}
	return math.Nextafter(bound*w.scale, math.Inf(1))
}

// bisect narrows [bad, good] between a point where prove fails and one where it would succeed, and
// returns the best bound proved, or good, which is known to be a bound.
func (w *work) bisect(bad, good float64, prove func(x float64) (float64, bool)) float64 {
	best := good
	for range 80 {
		x := bad + (good-bad)/2
		if b, ok := prove(x); ok {
			good, best = x, b
		} else {
			bad = x
		}
		if math.Abs(good-bad) <= certify*math.Abs(good) {
			break
		}
	}
	return best
}

// MinEig returns a proved lower bound on λ_min(a). For a positive definite a, Lanczos on a⁻¹ finds
// μ ≥ λ_min, and a Cholesky factorization of a - x I with x just below μ proves λ_min ≥ x - (d+8) u
// tr(a - x I) as in [MaxEig]. The bound is below λ_min by this margin and at most a relative 1e-10,
// so it can be negative for a nearly singular matrix. For other matrices it is minus the bound of
// MaxEig for -a. A matrix without rows gives 0, one with a NaN or an infinity -Inf.
func MinEig(a *mat.SymDense) float64 {
	return within(a, math.Inf(-1), func(w *work) float64 { return w.minEig(false) })
}

// minEig is MinEig, after which w may hold -S. With near it does not rely on Lanczos: if
// λ_min ≥ 1024 d u tr a, the bound is then at least (1-2⁻⁸) λ_min.
func (w *work) minEig(near bool) float64 {
	if w.d == 1 {
		return w.s[0] * w.scale
	}
	w.mirror()
	trace, ok := w.cholesky(1, 0)
	if !ok {
		floats.Scale(-1, w.s)
		return -w.maxEig()
	}
	least := -w.margin(trace)
	theta, _ := lanczos(w.v, w.solve)
	mu, norm := 1/theta, floats.Norm(w.s, 2)*(1+0x1p-30)
	if !(mu > 0 && mu <= norm) { // rounding, as in maxEig
		mu = norm
	}
	return math.Nextafter(max(w.raise(mu, norm, least, near), least)*w.scale, math.Inf(-1))
}

// raise returns a proved bound on λ_min(S): just below mu if it can be proved there, else by
// bisection between mu and least. With near, if x(1+2⁻⁹) is a bound as well as x, bisection raises
// it up to norm ≥ λ_min.
func (w *work) raise(mu, norm, least float64, near bool) float64 {
	x := mu * (1 - certify)
	bound, ok := w.atLeast(x)
	if !ok {
		return w.bisect(mu, least, w.atLeast)
	}
	if !near {
		return bound
	}
	if better, ok := w.atLeast(x * (1 + 0x1p-9)); ok {
		bound = max(better, w.bisect(norm, x*(1+0x1p-9), w.atLeast))
	}
	return bound
}

// MinEigAbove returns a proved lower bound on λ_min(a), which is at least (1-2⁻⁸) min(λ_min(a),
// floor) if the minimum is at least 1024 (d+8) u tr a. It is for callers for which a λ_min above
// floor is as good as floor: a single Cholesky factorization of a - x I, with x = floor or slightly
// below it, then proves λ_min ≥ x - (d+8) u tr(a - x I), a third of the work of [MinEig]. If it
// fails, the bound is that of MinEig, with its start checked. floor may be any number.
func MinEigAbove(a *mat.SymDense, floor float64) float64 {
	return within(a, math.Inf(-1), func(w *work) float64 {
		// A factorization runs to its end where λ_min - x exceeds the margin, so that
		// x = floor (1-2⁻⁹) must succeed if λ_min ≥ floor.
		for _, x := range []float64{floor, floor * (1 - 0x1p-9)} {
			if !(x > 0 && x <= math.MaxFloat64) || w.d == 1 {
				break
			}
			if bound, ok := w.atLeast(x / w.scale); ok && bound > 0 {
				return math.Nextafter(bound*w.scale, math.Inf(-1))
			}
		}
		return w.minEig(true)
	})
}
