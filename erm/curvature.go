// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package erm

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/randmat"
)

// gramians returns Σ aᵢaᵢ', Σ bᵢaᵢ and Σ bᵢ², computed once for the records in O(nd²).
func (s *objective) gramians() (gram *mat.SymDense, xty []float64, yty float64) {
	r := s.data
	r.gramLock.Lock()
	defer r.gramLock.Unlock()
	if r.gram != nil {
		return r.gram, r.xty, r.yty
	}
	p := passes.Get().(*pass)
	p.query = newQuery(s.costs, askGram, make([]float64, r.d), nil, r)
	p.ctx, p.data = s.ctx, r
	p.first, p.count = 0, r.n
	err := s.answer(p)
	if err != nil {
		s.fail(err)
		p.fail()
	}
	gram = mat.NewSymDense(r.d, nil)
	p.hessTo(gram)
	xty, yty = slices.Clone(p.grad), p.value
	p.data, p.ctx = nil, nil
	passes.Put(p)
	if err == nil {
		r.gram, r.xty = gram, xty
		r.yty = yty
	}
	return gram, xty, yty
}

// hessTo stores the Hessian of the answer in dst.
func (a *answer) hessTo(dst *mat.SymDense) {
	raw := dst.RawSymmetric()
	d := raw.N
	for i := range d {
		copy(raw.Data[i*raw.Stride+i:i*raw.Stride+d], a.hess[i*d+i:(i+1)*d])
	}
}

// Quadratic returns the coefficients of f(x) = ½x'qx − ⟨lin,x⟩ + c if the loss is a quadratic
// (c₀/2)(⟨a,θ⟩−b)², that is loss.LSQ and loss.Linear, and ok = false otherwise:
//
//	q = c₀ Σ aᵢaᵢ' + Q,  lin = c₀ Σ bᵢaᵢ + Qθ̃ − b,  c = (c₀/2) Σ bᵢ² + ½θ̃'Qθ̃
//
// The Gram matrix Σ aᵢaᵢ' is computed once for the Data, the rest in O(d²) once for the Objective.
// The caller must not change q or lin.
func (o *Objective) Quadratic() (q *mat.SymDense, lin []float64, c float64, ok bool) {
	s := o.s()
	if s.lsq == 0 {
		return nil, nil, 0, false
	}
	s.quadOnce.Do(func() {
		d := s.data.d
		gram, xty, yty := s.gramians()
		s.quadratic = mat.NewSymDense(d, nil)
		raw, from := s.quadratic.RawSymmetric(), gram.RawSymmetric()
		for i := range d {
			floats.ScaleTo(raw.Data[i*raw.Stride+i:i*raw.Stride+d], s.lsq, from.Data[i*from.Stride+i:i*from.Stride+d])
		}
		s.addQuadTo(s.quadratic)
		s.lin = make([]float64, d)
		floats.AddScaled(s.lin, s.lsq, xty)
		s.constant = s.lsq / 2 * yty
		if s.center != nil {
			qc := make([]float64, d)
			if s.diag != nil || s.quad != nil {
				s.addQuad(qc, s.center, 1)
			}
			floats.Add(s.lin, qc)
			s.constant += floats.Dot(qc, s.center) / 2
		}
		if s.linear != nil {
			floats.Sub(s.lin, s.linear)
		}
	})
	return s.quadratic, s.lin, s.constant, true
}

// addQuadTo adds Q to dst.
func (s *objective) addQuadTo(dst *mat.SymDense) {
	raw := dst.RawSymmetric()
	d := raw.N
	for i, q := range s.diag {
		raw.Data[i*raw.Stride+i] += q
	}
	if s.quad != nil {
		for i := range d {
			floats.Add(raw.Data[i*raw.Stride+i:i*raw.Stride+d], s.quad[i*d+i:(i+1)*d])
		}
	}
}

// HasHessian reports whether the loss is a loss.Linear. If it is not, Hessian panics.
func (o *Objective) HasHessian() bool { return o.s().glm != nil }

// Hessian stores ∇²f(x) = Σᵢ φ″(⟨aᵢ,x⟩;bᵢ) aᵢaᵢ' + Q in dst, which is empty or d×d. It panics
// unless the loss is a loss.Linear. After its first call it does not allocate unless dst is empty.
func (o *Objective) Hessian(dst *mat.SymDense, x []float64) {
	s := o.s()
	d := s.data.d
	s.check(x)
	if s.glm == nil {
		panic(badLoss)
	}
	if dst.IsEmpty() {
		dst.ReuseAsSym(d)
	} else if dst.SymmetricDim() != d {
		panic(badHessian)
	}
	if s.even(x) {
		gram, _, _ := s.gramians()
		dst.CopySym(gram)
	} else {
		p := s.sum(askHess, x, nil)
		p.hessTo(dst)
		s.done(p)
	}
	s.addQuadTo(dst)
}

// even reports whether φ″(⟨aᵢ,x⟩;bᵢ) = 1 for all records, as for squares that no clip reaches. The
// Hessian is then the Gram matrix, which is kept. The records are read up to the first other one.
func (s *objective) even(x []float64) bool {
	r := s.data
	if s.whole || r.src != nil || s.weight != 1 {
		return false
	}
	p := partials.Get().(*partial)
	defer partials.Put(p)
	q := newQuery(s.costs, askHess, x, nil, r)
	for lo, m := 0, 1; lo < r.n; lo += m {
		if lo > 0 {
			m = q.block(r, lo, r.n)
		}
		slab, k := r.at(lo)
		if slab.weights(k, m) != nil {
			return false
		}
		r.mul(p.u[:m], slab, k, x, q.stream)
		for i, u := range p.u[:m] {
			if _, _, curve := s.glm.Scalar(u, slab.y[k+i], slab.norm[k+i]); curve != 1 {
				return false
			}
		}
	}
	return r.n > 0
}

// HessianIsFree reports whether a pass that computes the Hessian keeps the gradient too, so that a
// solver should ask for the Hessian first where it wants both.
func (o *Objective) HessianIsFree() bool { return o.s().whole }

// Smoothness returns an upper bound on the Lipschitz constant of ∇f, up to rounding: sup φ″·λ_max(Σ
// aᵢaᵢ') + λ_max(Q), or nβ + λ_max(Q) if sup φ″ depends on the norm of a row. It is +Inf if the
// loss declares no bound on its curvature. Not private: it serves step sizes and must not calibrate
// noise.
func (o *Objective) Smoothness() float64 {
	s := o.s()
	if math.IsInf(s.curve, 1) { // also where all rows are 0
		return s.curve
	}
	hi := s.most()
	if s.glm == nil || s.short {
		return s.weight*float64(s.data.units())*s.curve + hi
	}
	return s.weight*s.curve*s.topEig() + hi
}

// TermSmoothness returns an upper bound on the Lipschitz constants of the gradients ∇fᵢ that
// GradTerms samples:
//
//	sup φ″·maxᵢ ‖aᵢ‖² + λ_max(Q)/n
//
// for a loss.Linear; for other losses the declared sup λ_max(∇²ℓ) replaces the first term. It is
// +Inf if the loss declares no bound on its curvature. Not private, as Smoothness.
func (o *Objective) TermSmoothness() float64 {
	s := o.s()
	if math.IsInf(s.curve, 1) {
		return s.curve
	}
	one := s.curve
	if s.glm != nil && !s.short {
		norm := 0.0
		for i := range s.data.slabs {
			norm = max(norm, s.data.slabs[i].longest())
		}
		if s.data.src != nil {
			norm = s.bounds.Row
		}
		one = one * norm * norm
	}
	return (one + s.most()/float64(max(s.data.n, 1))) * (1 + 8*unit) // at most seven roundings
}

// Convexity returns a lower bound on the modulus of strong convexity of the perturbation:
// λ_min(Quad) − QuadError, or 0. It is public. The records may add to the modulus of f, but a
// privacy theorem must not use their private contribution.
func (o *Objective) Convexity() float64 {
	return max(o.s().least()-o.s().quadError, 0)
}

// Modulus returns a lower bound on the modulus of strong convexity of J: Convexity plus the ridge
// that Reg is known to contain. It is public. Residual(x)/Modulus() bounds the distance of x to the
// minimizer.
func (o *Objective) Modulus() float64 {
	return o.Convexity() + ridge(o.s().reg, o.s().data.d)
}

// topEig returns an upper bound on λ_max(Σ aᵢaᵢ'), computed once for the records. If the Gram
// matrix takes at most gramFlops and gramFloats, the bound is its largest eigenvalue. Otherwise it
// is the lesser of Σ ‖aᵢ‖² and maxᵢ ‖aᵢ‖₁ · maxⱼ Σᵢ |aᵢⱼ|. It is n·Row² if a pass computes gradient
// and Hessian together and for records that are not in memory.
func (s *objective) topEig() float64 {
	r := s.data
	top := float64(r.units()) * r.bounds.Row * r.bounds.Row * (1 + 0x1p-50)
	if s.whole { // not kept: objectives of other losses over the same records may have a better one
		return top
	}
	r.topLock.Lock()
	defer r.topLock.Unlock()
	if r.topKnown {
		return r.top
	}
	n, d := float64(r.n), float64(r.d)
	flops := float64(r.floatsOnce) * float64(r.floatsOnce) / max(n, 1)
	switch {
	case s.glm != nil && flops <= gramFlops && d*d <= gramFloats:
		gram, _, _ := s.gramians()
		if s.failure.Load() != nil {
			return top // not kept: another objective may succeed in reading the records
		}
		trace := 0.0
		for i := range r.d {
			trace += gram.At(i, i)
		}
		// The rounding E of the Gram matrix has ‖E‖₂ ≤ ‖E‖_F ≤ (grain+64)u Σ‖aᵢ‖².
		top = randmat.MaxEig(gram) + (maxGrain+64+d)*0x1p-52*trace
	case r.src == nil:
		top = r.sizes()
	}
	r.top, r.topKnown = top, true
	return top
}

// longest returns the largest root of w‖a‖² over the records.
func (s *slab) longest() (norm float64) {
	if s.w == nil {
		return floats.Max(s.norm)
	}
	for k, v := range s.norm {
		norm = max(norm, v*math.Sqrt(s.w[k]))
	}
	return norm
}

// sizes returns the lesser of Σ ‖aᵢ‖² and maxᵢ ‖aᵢ‖₁ · maxⱼ Σᵢ |aᵢⱼ|, rounded up.
func (r *records) sizes() float64 {
	squares := 0.0
	for i := range r.slabs {
		if s := &r.slabs[i]; s.w == nil {
			squares += floats.Dot(s.norm, s.norm)
		} else {
			for k, v := range s.norm {
				squares += s.w[k] * v * v
			}
		}
	}
	columns, row := make([]float64, r.d), 0.0
	for i := range r.n {
		col, a := r.entries(i)
		w := r.weight(i)
		for k, v := range a {
			j := k
			if col != nil {
				j = int(col[k])
			}
			columns[j] += w * math.Abs(v)
		}
		row = max(row, floats.Norm(a, 1))
	}
	// A sum of n or d terms is too small by at most n or d roundings.
	return min(squares, row*floats.Max(columns)) * (1 + float64(r.n+r.d)*0x1p-52)
}

// Limits on a Gram matrix that Smoothness makes to allow longer steps.
const (
	gramFlops  = 4e9     // work: about a second
	gramFloats = 1 << 22 // size: 32 MiB
)

// least returns 0 ≤ lo ≤ λ_min(Q), computed once unless it was declared.
func (s *objective) least() float64 {
	s.leastOnce.Do(func() {
		lo := s.minEig
		switch {
		case s.diag != nil:
			lo = max(lo, floats.Min(s.diag))
		case s.quad != nil && !(lo > 0):
			lo = randmat.MinEig(mat.NewSymDense(s.data.d, s.quad))
		}
		if lo > 0 && (s.diag != nil || s.quad != nil) {
			s.lo = lo
		}
	})
	return s.lo
}

// most returns hi ≥ λ_max(Q), computed once unless it was declared.
func (s *objective) most() float64 {
	s.mostOnce.Do(func() {
		switch {
		case s.diag != nil:
			s.hi = floats.Max(s.diag)
		case s.quad != nil && s.maxEig > 0:
			s.hi = s.maxEig
		case s.quad != nil:
			s.hi = randmat.MaxEig(mat.NewSymDense(s.data.d, s.quad))
		}
		if math.IsNaN(s.hi) || floats.HasNaN(s.diag) {
			s.hi = math.Inf(1)
		}
	})
	return s.hi
}

// Attainable returns about the size of the rounding of Grad, for a solver that should not spend a
// pass over many records on finding that out. It is 0 unless HessianIsFree. It is no bound: the
// rounding is at most (512+8+32)u·Σ‖∇ℓᵢ‖, and seldom a thousandth of that.
func (o *Objective) Attainable() float64 {
	s := o.s()
	if !s.whole || math.IsInf(known(s.consts.Lipschitz), 1) {
		return 0
	}
	return 0x1p-10 * (grain + 40) * unit * float64(s.data.units()) * s.consts.Lipschitz
}

// Steepness returns an upper bound on the Lipschitz constant of ∇f from declared bounds and n
// alone: n·sup λ_max(∇²ℓ) + λ_max(Q), rounded up. It is +Inf if the loss declares no bound on its
// curvature.
func (o *Objective) Steepness() float64 {
	s := o.s()
	return (float64(s.data.units())*known(s.consts.Smoothness) + s.most()) * (1 + 0x1p-40)
}
