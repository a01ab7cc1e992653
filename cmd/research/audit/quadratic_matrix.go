// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package audit

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/integrate/quad"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/randmat"
)

// matrix draws W conditioned on its minimizer theta on data set i, σ²W(θ−θ̃) = −(∇F(θ) + s) with
// s ∈ ∂(r + ι_C)(θ). It has the law W_d(m) if θ has the claimed law. With v = θ−θ̃, q = Wv and an
// orthonormal basis P of the complement of v,
//
//	W = qq'/(v'q) + PVP',   density ∝ f(q)·w(V)·det((∇²F + σ²W) on the free coordinates)
//	f(q) = (v'q)^{(m−d−1)/2} exp(−‖q‖²/(2v'q)),   w the density of W_{d−1}(m−1)
//
// in the coordinates (θ_j free, q_j held, V). The free part of q is known, the held part has the
// density of logDensity, and V is drawn by rejection: the determinant of n free coordinates is at
// most ((t₀+σ² tr V)/n)ⁿ, where t₀ does not depend on V. With that bound in place of the
// determinant, tr V has a mixture of χ² laws and is independent of V/tr V.
func (r *quadratic) matrix(theta []float64, i int, src rand.Source) (*mat.SymDense, error) {
	d, m := r.dim(), r.mech.Degrees
	s2 := r.sigma2
	hess := make([]float64, d*d)
	g := r.gradient(theta, i, hess)
	v := floats.SubTo(make([]float64, d), theta, r.mech.Center)
	f := fibre{v: v, q: make([]float64, d), m: m, s2: s2, dof: float64(d-1) * (m - 1)}
	var free []int
	for j, x := range theta {
		lo, hi := r.kinks.subgradients(x)
		f.q[j] = -(g[j] + lo) / s2
		if lo < hi {
			f.held = append(f.held, bracket{j, -(g[j] + hi) / s2, -(g[j] + lo) / s2})
			continue
		}
		free = append(free, j)
		f.trace += hess[j*d+j]
		f.square += f.q[j] * f.q[j]
	}
	f.n = len(free)
	w := mat.NewSymDense(d, nil)
	var basis mat.Matrix // P
	if d > 1 {
		basis = around(v).Slice(0, d, 1, d)
	}
	for range 100_000 {
		if err := f.drawHeld(src); err != nil {
			return nil, err
		}
		vq := floats.Dot(v, f.q)
		if !(vq > 0) {
			return nil, errImpossible
		}
		w.SymOuterK(1/vq, mat.NewVecDense(d, f.q))
		bound := f.trace + s2*f.square/vq // t₀
		if d > 1 {
			t := f.drawTrace(bound, src)
			shape := mat.NewSymDense(d-1, nil)
			if err := randmat.Wishart(shape, m-1, src); err != nil {
				return nil, err
			}
			shape.ScaleSym(t/mat.Trace(shape), shape)
			var rest mat.Dense
			rest.Product(basis, shape, basis.T())
			w.AddSym(w, mat.NewSymDense(d, rest.RawMatrix().Data))
			bound += s2 * t
		}
		if f.n == 0 || math.Log(uniform(src)) < logDet(hess, w, s2, free)-float64(f.n)*math.Log(bound/float64(f.n)) {
			return w, nil
		}
	}
	return nil, fmt.Errorf("audit: no matrix was accepted")
}

// errImpossible reports a release that no positive matrix explains. Its probability is 0 under the
// claim. The logarithm of a density below −impossible stands for a density of 0.
var errImpossible = errors.New("audit: no positive matrix has its minimizer at the released point")

const impossible = 1e100

// logDet returns log det of (∇²F + σ²W) on the free coordinates.
func logDet(hess []float64, w *mat.SymDense, s2 float64, free []int) float64 {
	n, d := len(free), w.SymmetricDim()
	sym := mat.NewSymDense(n, nil)
	for a, i := range free {
		for b := a; b < n; b++ {
			sym.SetSym(a, b, hess[i*d+free[b]]+s2*w.At(i, free[b]))
		}
	}
	var chol mat.Cholesky
	if !chol.Factorize(sym) {
		return math.Inf(-1)
	}
	return chol.LogDet()
}

// bracket is an unknown coordinate of q in [lo, hi].
type bracket struct {
	j      int
	lo, hi float64
}

// fibre is the knowledge about W at one release.
type fibre struct {
	v, q          []float64
	held          []bracket
	n             int     // free coordinates
	m, s2         float64 // m, σ²
	trace, square float64 // of ∇²F and ‖q‖² over the free coordinates
	dof           float64 // of tr V: (d−1)(m−1)
	terms         []float64
}

// logDensity returns the logarithm of the marginal density of the held part of
// q, up to a constant: f(q)·E((t₀ + σ²χ²)/n)^n.
func (f *fibre) logDensity() float64 {
	vq := floats.Dot(f.v, f.q)
	if !(vq > 0) {
		return -impossible * (1 - math.Max(vq, -1e9)) // rises toward the support, for a search
	}
	d := float64(len(f.v))
	log := (f.m-d-1)/2*math.Log(vq) - floats.Dot(f.q, f.q)/(2*vq)
	if f.n > 0 {
		log += math.Log(floats.Sum(f.powers(f.trace + f.s2*f.square/vq)))
	}
	return log
}

// powers returns the terms of E(t₀ + σ²X)^n = Σ_k C(n,k) t₀^{n−k} σ^{2k} E X^k for
// X ~ χ² with dof degrees of freedom.
func (f *fibre) powers(t0 float64) []float64 {
	if f.terms == nil {
		f.terms = make([]float64, f.n+1)
	}
	c := 1.0 // C(n,k) σ^{2k} E X^k
	for k := range f.terms {
		f.terms[k] = c
		c *= float64(f.n-k) / float64(k+1) * f.s2 * (f.dof + 2*float64(k))
	}
	power := 1.0
	for k := f.n; k >= 0; k-- {
		f.terms[k] *= power
		power *= t0
	}
	return f.terms
}

// drawTrace draws tr V with the density of χ² times (t₀ + σ²x)^n.
func (f *fibre) drawTrace(t0 float64, src rand.Source) float64 {
	terms := f.powers(t0)
	u := uniform(src) * floats.Sum(terms)
	k := 0
	for ; k < f.n && u > terms[k]; k++ {
		u -= terms[k]
	}
	return noise.ChiSquared(int(f.dof)+2*k, src) // dof is an integer, as m is
}

// drawHeld draws the held part of q: the first coordinate from its marginal, which integrates the
// second one out, then the second given the first. It refuses more than two.
func (f *fibre) drawHeld(src rand.Source) error {
	switch len(f.held) {
	case 0:
		return nil
	case 1:
		h := f.held[0]
		x, err := inverse(h.lo, h.hi, 400, src, func(x float64) float64 { f.q[h.j] = x; return f.logDensity() })
		f.q[h.j] = x
		return err
	case 2:
		a, b := f.held[0], f.held[1]
		inner := func(x float64) float64 { f.q[b.j] = x; return f.logDensity() }
		x, err := inverse(a.lo, a.hi, 40, src, func(x float64) float64 {
			f.q[a.j] = x
			return logIntegral(b.lo, b.hi, inner)
		})
		if err != nil {
			return err
		}
		f.q[a.j] = x
		x, err = inverse(b.lo, b.hi, 400, src, inner)
		f.q[b.j] = x
		return err
	}
	return fmt.Errorf("audit: %d coordinates are held, the law is worked out for 2", len(f.held))
}

// window returns the part of [lo, hi] in which a log-concave density given by its logarithm is not
// negligible, and about the largest value of log. It searches t ∈ (0, 1), mapped to (lo, hi).
func window(lo, hi float64, log func(x float64) float64) (a, b, top float64, err error) {
	at := func(t float64) float64 { return lo + t*(hi-lo) }
	switch below, above := math.IsInf(lo, -1), math.IsInf(hi, 1); {
	case below && above:
		at = func(t float64) float64 { return (t - 0.5) / (t * (1 - t)) }
	case below:
		at = func(t float64) float64 { return hi - (1-t)/t }
	case above:
		at = func(t float64) float64 { return lo + t/(1-t) }
	}
	const end = 1e-12 // of the interval of t
	t, least := num.Minimize(func(t float64) float64 { return -log(at(t)) }, end, 1-end, 40, 1e-5)
	if !(least < impossible) {
		return 0, 0, 0, errImpossible
	}
	near := func(t float64) bool { return log(at(t)) > -least-40 }
	edge := func(end float64) float64 {
		if near(end) {
			return at(end)
		}
		_, bad := num.BisectTo(near, t, end, 1e-3)
		return at(bad)
	}
	return edge(end), edge(1 - end), -least, nil
}

// inverse draws from a log-concave density on [lo, hi] by inverting its distribution function, with
// a piecewise linear density on n cells. The error is of order 1/n².
func inverse(lo, hi float64, n int, src rand.Source, log func(x float64) float64) (float64, error) {
	a, b, top, err := window(lo, hi, log)
	if err != nil {
		return 0, err
	}
	h := (b - a) / float64(n)
	p := make([]float64, n+1)
	for i := range p {
		p[i] = math.Exp(log(a+h*float64(i)) - top)
	}
	total := floats.Sum(p) - (p[0]+p[n])/2
	u := uniform(src) * total
	for i := range n {
		cell := (p[i] + p[i+1]) / 2
		if u > cell && i < n-1 {
			u -= cell
			continue
		}
		// p_i s + (p_{i+1}−p_i)s²/2 = u for s in [0, 1]
		slope := p[i+1] - p[i]
		s := u / cell
		if root := p[i]*p[i] + 2*slope*u; math.Abs(slope) > 1e-9*cell && root >= 0 {
			s = 2 * u / (p[i] + math.Sqrt(root))
		}
		return a + h*(float64(i)+min(max(s, 0), 1)), nil
	}
	return b, nil
}

// logIntegral returns the logarithm of the integral of a log-concave density.
func logIntegral(lo, hi float64, log func(x float64) float64) float64 {
	a, b, top, err := window(lo, hi, log)
	if err != nil {
		return -impossible
	}
	return top + math.Log(quad.Fixed(func(x float64) float64 { return math.Exp(log(x) - top) }, a, b, 48, nil, 0))
}
