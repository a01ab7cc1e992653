// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"sync"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// Funcs is a [Smooth] made of two functions.
type Funcs struct {
	F func(x []float64) float64
	G func(dst, x []float64) // stores ∇f(x) in dst
	// L is an upper bound on the Lipschitz constant of ∇f. 0 means that none is known: methods then
	// search for their steps.
	L float64
	// Mu is a lower bound on the modulus of strong convexity.
	Mu float64
}

// Func returns F(x).
func (f Funcs) Func(x []float64) float64 { return f.F(x) }

// Grad calls G.
func (f Funcs) Grad(dst, x []float64) { f.G(dst, x) }

// Smoothness returns L, +Inf for 0.
func (f Funcs) Smoothness() float64 { return cmp.Or(f.L, math.Inf(1)) }

// Convexity returns Mu.
func (f Funcs) Convexity() float64 { return f.Mu }

// Scaled returns c·f(x) for c > 0, for instance the mean of n terms with c = 1/n. It keeps what f
// can: strong convexity, value with gradient, Hessian, coefficients of a quadratic, and the terms
// of a sum. The error wraps ErrProblem if f is nil or c is not a positive finite number.
func Scaled(c float64, f Smooth) (Smooth, error) {
	if f == nil || !(c > 0) || math.IsInf(c, 1) {
		return nil, unfit("Scaled: c = %v and f is %T, want a positive finite number and a function", c, f)
	}
	if a, ok := f.(*LinearModel); ok { // stays one, with a duality gap
		w := ones(len(a.y))
		for i := range w {
			w[i] = c * a.weight(i)
		}
		if scaled, err := a.With(w, a.o); err == nil {
			return scaled, nil
		}
	}
	return combined([]part{{c, f}}, nil), nil
}

// Plus returns the sum of functions. It keeps what all of them can, see [Scaled]. The error wraps
// ErrProblem if there is no function or one is nil.
func Plus(f ...Smooth) (Smooth, error) {
	var all []part
	for i, one := range f {
		if one == nil {
			return nil, unfit("Plus: function %d is nil, want a Smooth", i)
		}
		all = append(all, part{1, one})
	}
	if len(f) == 0 {
		return nil, unfit("Plus: no function, want at least one")
	}
	return combined(all, nil), nil
}

// Tilted returns f(x) + ⟨c,x⟩. It keeps what f can, see [Scaled]; of a sum of n terms each gets the
// share 1/n of ⟨c,x⟩. It copies c. The error wraps ErrProblem if f is nil, or an entry of c is not
// finite.
func Tilted(f Smooth, c []float64) (Smooth, error) {
	if f == nil || !finite(c) {
		return nil, unfit("Tilted: f is %T and c has %d entries, want a function and finite numbers", f, len(c))
	}
	return combined([]part{{1, f}}, slices.Clone(c)), nil
}

// part is c·f.
type part struct {
	c float64
	f Smooth
}

// combination is Σ_k c_k·f_k(x) + ⟨lin,x⟩; a nil lin means 0.
type combination struct {
	parts []part
	lin   []float64

	once      sync.Once // of the coefficients
	quadratic bool      // there are some
	q         *mat.SymDense
	b         []float64
	c         float64
	pool      sync.Pool // *[]float64
	hess      sync.Pool // *mat.SymDense
}

// combined returns the combination, as a FiniteSum if all parts are.
func combined(parts []part, lin []float64) Smooth {
	all := &combination{parts: parts, lin: lin}
	all.pool.New = func() any { return new([]float64) }
	all.hess.New = func() any { return new(mat.SymDense) }
	ends := make([]int, len(parts))
	n := 0
	for k, p := range parts {
		sum, ok := p.f.(FiniteSum)
		if !ok {
			return all
		}
		n += sum.Len()
		ends[k] = n
	}
	return &combinedSum{combination: all, ends: ends}
}

// dim returns the number of parameters, if it is known.
func (c *combination) dim() (d int, ok bool) {
	if c.lin != nil {
		return len(c.lin), true
	}
	for _, p := range c.parts {
		if d, ok = dimension(p.f); ok {
			return d, ok
		}
	}
	return 0, false
}

// borrow returns scratch of length n.
func (c *combination) borrow(n int) *[]float64 {
	w := c.pool.Get().(*[]float64)
	*w = resize(*w, n)
	return w
}

func (c *combination) Func(x []float64) float64 {
	var s float64
	for _, p := range c.parts {
		s += p.c * p.f.Func(x)
	}
	return s + c.tilt(x)
}

// tilt returns ⟨lin,x⟩.
func (c *combination) tilt(x []float64) float64 {
	if c.lin == nil {
		return 0
	}
	return floats.Dot(c.lin, x)
}

func (c *combination) Grad(dst, x []float64) {
	c.each(dst, x, func(f Smooth, dst []float64) float64 {
		f.Grad(dst, x)
		return 0
	})
}

func (c *combination) FuncGrad(dst, x []float64) float64 {
	return c.each(dst, x, func(f Smooth, dst []float64) float64 { return funcGrad(f, dst, x) }) + c.tilt(x)
}

// each adds up c_k times the gradients that grad stores, and the values that it returns.
func (c *combination) each(dst, x []float64, grad func(f Smooth, dst []float64) float64) (value float64) {
	if len(dst) != len(x) || c.lin != nil && len(c.lin) != len(x) {
		panic(badLen)
	}
	w := c.borrow(len(dst))
	defer c.pool.Put(w)
	for k, p := range c.parts {
		if k == 0 {
			value = p.c * grad(p.f, dst)
			floats.Scale(p.c, dst)
			continue
		}
		value += p.c * grad(p.f, *w)
		floats.AddScaled(dst, p.c, *w)
	}
	if c.lin != nil {
		floats.Add(dst, c.lin)
	}
	return value
}

func (c *combination) Smoothness() float64 {
	var s float64
	for _, p := range c.parts {
		s += p.c * p.f.Smoothness()
	}
	return s
}

func (c *combination) Convexity() float64 {
	var s float64
	for _, p := range c.parts {
		s += p.c * convexity(p.f)
	}
	return s
}

// HasHessian reports whether all parts have a Hessian.
func (c *combination) HasHessian() bool {
	for _, p := range c.parts {
		if _, ok := hessian(p.f); !ok {
			return false
		}
	}
	return true
}

func (c *combination) Hessian(dst *mat.SymDense, x []float64) {
	n := len(x)
	if dst.SymmetricDim() != n {
		panic(badLen)
	}
	w := c.hess.Get().(*mat.SymDense)
	defer c.hess.Put(w)
	if w.SymmetricDim() != n {
		*w = *mat.NewSymDense(n, nil)
	}
	for k, p := range c.parts {
		to := w
		if k == 0 {
			to = dst
		}
		p.f.(Hessianer).Hessian(to, x)
		to.ScaleSym(p.c, to)
		if k > 0 {
			dst.AddSym(dst, w)
		}
	}
}

// Quadratic returns the coefficients if all parts are quadratic.
func (c *combination) Quadratic() (q *mat.SymDense, lin []float64, value float64, ok bool) {
	c.once.Do(func() { c.quadratic = c.addUp() })
	return c.q, c.b, c.c, c.quadratic
}

// addUp computes the coefficients, and reports whether all parts have some.
func (c *combination) addUp() bool {
	for k, p := range c.parts {
		quad, ok := p.f.(Quadratizer)
		if !ok {
			return false
		}
		q, lin, value, ok := quad.Quadratic()
		if !ok {
			return false
		}
		if k == 0 {
			c.q, c.b = mat.NewSymDense(len(lin), nil), make([]float64, len(lin))
		}
		var scaled mat.SymDense
		scaled.ScaleSym(p.c, q)
		c.q.AddSym(c.q, &scaled)
		floats.AddScaled(c.b, p.c, lin)
		c.c += p.c * value
	}
	mirror(c.q.RawSymmetric().Data, len(c.b))
	if c.lin != nil {
		floats.Sub(c.b, c.lin)
	}
	return true
}

func (c *combination) nonnegative() bool {
	for _, p := range c.parts {
		if !isNonnegative(p.f) {
			return false
		}
	}
	return c.lin == nil
}

// combinedSum is a combination of sums, whose terms are numbered one after another.
type combinedSum struct {
	*combination
	ends []int // the number of terms up to part k
}

// Len returns the number of terms of all parts.
func (c *combinedSum) Len() int { return c.ends[len(c.ends)-1] }

// GradTerms stores the gradients of the terms in dst.
func (c *combinedSum) GradTerms(dst, x []float64, idx []int) {
	w := c.borrow(len(dst))
	defer c.pool.Put(w)
	clear(dst)
	var one [1]int
	for _, i := range idx {
		k := sort.SearchInts(c.ends, i+1)
		p := c.parts[k]
		if one[0] = i; k > 0 {
			one[0] -= c.ends[k-1]
		}
		p.f.(FiniteSum).GradTerms(*w, x, one[:])
		floats.AddScaled(dst, p.c, *w)
	}
	if c.lin != nil {
		floats.AddScaled(dst, float64(len(idx))/float64(c.Len()), c.lin)
	}
}

// TermSmoothness bounds the curvature of the terms.
func (c *combinedSum) TermSmoothness() float64 {
	var most float64
	for _, p := range c.parts {
		lip := p.f.Smoothness()
		if t, ok := p.f.(TermSmoother); ok {
			lip = math.Min(lip, t.TermSmoothness())
		}
		most = math.Max(most, p.c*lip)
	}
	return most
}
