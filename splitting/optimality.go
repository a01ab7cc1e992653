// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting

import (
	"cmp"
	"math"

	"github.com/privopt/privopt/prox"
)

// optimality is a Method that knows how far the last point and its multipliers are from
//
//	∇f(x) + u + Kᵀy = 0,   u ∈ ∂g(x), y ∈ ∂h(Kx).
type optimality interface {
	// relative returns the relative residuals of the last Step, +Inf where they are not known.
	relative() (primal, dual float64)
}

// paired is a method that knows multipliers, whose last iterate need not be Location.X.
type paired interface {
	// settle certifies the last iterate, where Step left that out, and sets the location.
	settle(loc *Location)
	// pair returns the last iterate and new multipliers, ok = false where the method works on a sum,
	// which has Location.X as last iterate.
	pair() (x []float64, dual Multipliers, ok bool)
}

// warm is a method that starts from a dual variable.
type warm interface{ begin(dual []float64) }

// residuals are the relative residuals of a step.
type residuals struct {
	rp, rd float64
	first  float64 // the size of the terms at the first step
}

func (r *residuals) relative() (primal, dual float64) { return r.rp, r.rd }

// forget sets both to +Inf.
func (r *residuals) forget() { r.rp, r.rd = math.Inf(1), math.Inf(1) }

// compare sets the relative residuals of a point that has a subgradient of J of norm residual,
// whose terms have the given size. Where the minimizer is 0 and ∇f is 0 there, the size falls with
// the residual: then a small share of the first size counts.
func (r *residuals) compare(residual, size float64) {
	if r.first == 0 {
		r.first = size
	}
	r.rp, r.rd = 0, ratio(residual, math.Max(size, firstShare*r.first))
}

// firstShare of the first size of the terms of a residual is the least scale of relative residuals.
const firstShare = 1e-6

// ratio returns size/scale, 0 for 0/0, and +Inf where the scale is not finite.
func ratio(size, scale float64) float64 {
	switch {
	case !(scale <= math.MaxFloat64):
		return math.Inf(1)
	case size == 0:
		return 0
	}
	return size / scale
}

// meets reports whether the location meets one of the settings.
func (b *bounds) meets(opt optimality, loc *Location) bool {
	s := b.settings
	switch {
	case s.Tolerance != 0 && loc.Residual <= s.Tolerance, s.Gap > 0 && b.gap(loc) <= s.Gap:
		return true
	case s.Relative == 0:
		return false
	}
	primal, dual := math.Inf(1), math.Inf(1)
	if opt != nil {
		primal, dual = opt.relative()
	}
	if math.IsInf(primal, 1) && math.IsInf(dual, 1) && s.Tolerance == 0 { // not known
		return loc.Residual <= defaultTolerance
	}
	return primal <= s.Relative && dual <= s.Relative
}

// result returns the Result of a solve that ended at loc.
func (b *bounds) result(opt optimality, loc Location, stats Stats, status Status) *Result {
	inf := math.Inf(1)
	res := &Result{Location: loc, Stats: stats, Status: status, Distance: inf, Gap: inf, Primal: inf, DualResidual: inf}
	if stats.Iterations == 0 || math.IsNaN(loc.Residual) {
		res.Residual = inf // of a point that the method did not certify
		res.Value = b.problem.nearValue(res.X, smooth(b.problem.F).Func(res.X))
		return res
	}
	pairs, two := b.method.(paired)
	if two && b.settings.Relative > 0 {
		pairs.settle(&res.Location)
	}
	res.Distance, res.Gap = b.distance(&res.Location), b.gap(&res.Location)
	if opt != nil {
		res.Primal, res.DualResidual = opt.relative()
	}
	var last []float64
	if two {
		if last, res.Dual, two = pairs.pair(); two {
			b.choose(res, last)
		}
	}
	f, grad := math.NaN(), []float64(nil)
	if d, ok := b.method.(informed); ok {
		f, grad = d.last()
	}
	if !two && res.DualResidual < inf {
		res.Dual.G = b.problem.multiplier(res.X, grad)
		if res.Dual.G != nil && grad == nil {
			res.GradTerms += terms(b.problem.F)
		}
	}
	if math.IsNaN(f) {
		f = smooth(b.problem.F).Func(res.X)
	}
	res.Value = b.problem.nearValue(res.X, f)
	return res
}

// informed is a method that may know f and ∇f at the last Location.X, else NaN and nil.
type informed interface {
	last() (f float64, grad []float64)
}

// multiplier returns an element of the subdifferential of ψ = g + h near x that is −∇f(x) up to the
// residual, nil if ψ = 0 or its proximal map is not known:
//
//	(w − prox_{γψ}(w))/γ,   w = x − γ∇f(x),   γ = ‖x‖/‖∇f(x)‖
func (p Problem) multiplier(x, grad []float64) []float64 {
	psi, ok := p.sum()
	if p.H == nil {
		psi, ok = p.G, true
	}
	if !ok || p.G == nil && p.H == nil {
		return nil
	}
	w, u := make([]float64, len(x)), make([]float64, len(x))
	if copy(w, grad) == 0 {
		smooth(p.F).Grad(w, x)
	}
	gamma := cmp.Or(norm(x), 1) / cmp.Or(norm(w), 1)
	if !(gamma > 0) || math.IsInf(gamma, 1) {
		return nil
	}
	for i, xi := range x {
		w[i] = xi - gamma*w[i]
	}
	psi.Prox(u, w, gamma)
	for i := range u {
		u[i] = (w[i] - u[i]) / gamma
	}
	return u
}

// choose shows the last iterate in the place of a certified point that is farther away than
// Relative allows, also relative to a thousandth of the first points, because the last may be 0.
// The caller of a Tolerance gets the certified point.
func (b *bounds) choose(res *Result, last []float64) {
	s := b.settings
	if last == nil || !finite(last) || s.Tolerance > 0 && res.Gap < math.Inf(1) || s.Gap > 0 && res.Gap <= s.Gap {
		return
	}
	apart := separation(res.X, last)
	if apart <= cmp.Or(s.Relative, defaultRelative)*math.Max(norm(last), 1e-3*b.size) {
		return
	}
	copy(res.X, last)
	res.Distance += apart
	res.Residual, res.Gap = math.Inf(1), math.Inf(1)
}

// nearValue returns f + g(x) + h(Kx), with g and h at the nearest point of their domains.
func (p Problem) nearValue(x []float64, f float64) float64 {
	v := f + near(p.G, x)
	if p.H == nil {
		return v
	}
	k := p.linear(len(x))
	m, _ := k.Dims()
	kx := make([]float64, m)
	k.MulVec(kx, x)
	return v + near(p.H, kx)
}

// near returns g(x), and outside the domain g at the nearest point of it.
func near(g prox.Operator, x []float64) float64 {
	if g == nil {
		return 0
	}
	v := g.Func(x)
	if !math.IsInf(v, 1) {
		return v
	}
	p := make([]float64, len(x))
	g.Prox(p, x, 0x1p-200) // γ → 0: the projection on the domain
	return g.Func(p)
}
