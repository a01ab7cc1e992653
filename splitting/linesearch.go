// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// StepRule is the way in which a method chooses its step sizes γ_k. Each method lists its rules.
type StepRule int

const (
	// FixedStep is γ_k = γ. If L_f is unknown (+Inf), deterministic methods use LineSearch instead.
	FixedStep StepRule = iota
	// LineSearch shortens γ_k until f lies below its quadratic model, and lengthens γ_k as far as
	// the theorem of the method allows. It needs no L_f.
	LineSearch
	// StronglyConvexStep is the rule of PrimalDual for a strongly convex F.
	StronglyConvexStep
)

// String returns the name of the constant.
func (r StepRule) String() string {
	return name("rule", int(r), "FixedStep", "LineSearch", "StronglyConvexStep")
}

// rule returns an error unless r is one of the allowed rules.
func rule(field string, r StepRule, allowed ...StepRule) error {
	if slices.Contains(allowed, r) {
		return nil
	}
	return invalid("%s = %v, want one of %v", field, r, allowed)
}

// lineSearch finds a γ with
//
//	δ = f(y) + ⟨∇f(y),x−y⟩ + ‖x−y‖²/(2γ) − f(x) ≥ 0          (descent)
//
// where x depends on γ. Every γ ≤ 1/L_f satisfies it [Nes04, (2.1.6)], so a search that shortens by
// the factor shrink ends above shrink/L_f. Where rounding of f could hide the sign of δ, ‖x−y‖² is
// tiny, and f(x) − f(y) − ⟨∇f(y),x−y⟩ is computed as ½⟨∇f(x)−∇f(y),x−y⟩, which is exact for
// quadratics and of third order for other functions [BCG11, §5.3].
type lineSearch struct {
	f     Smooth
	fy    float64
	delta float64   // of the last test
	most  float64   // the longest γ
	d, w  []float64 // x − y, ∇f(x)
	terms int
	owed  int // terms evaluated before the first step
	nan   bool
}

const (
	shrink = 0.7
	// visible is the relative size below which the terms of δ count as rounding: sums of n terms err
	// by up to n·2⁻⁵³, and n may be 1e6.
	visible = 1e-10
	// farther bounds the ratio of a step to the first one: if f is affine no other bound exists.
	farther = 1e12
	// searches bounds the work of one search: 0.7²⁰⁰ = 1e-31.
	searches = 200
)

func (s *lineSearch) init(f Smooth, n, terms int) {
	s.f, s.terms = f, terms
	s.owed = 0
	s.nan = false
	s.d, s.w = resize(s.d, n), resize(s.w, n)
}

// grad stores ∇f(y) in dst and keeps f(y).
func (s *lineSearch) grad(dst, y []float64) { s.fy = funcGrad(s.f, dst, y) }

// longer returns γ lengthened by a factor, up to most.
func (s *lineSearch) longer(gamma, factor float64) float64 {
	return math.Max(gamma, math.Min(factor*gamma, s.most))
}

// accepts reports whether (descent) holds; grad is ∇f(y). A value NaN ends the search and sets nan.
func (s *lineSearch) accepts(x, y, grad []float64, gamma float64, stats *Stats) bool {
	for i, xi := range x {
		s.d[i] = xi - y[i]
	}
	stats.GradTerms += s.owed
	s.owed = 0
	slope := floats.Dot(grad, s.d)
	square := floats.Dot(s.d, s.d) / (2 * gamma)
	fx := s.f.Func(x)
	if math.IsNaN(fx) || math.IsNaN(s.fy) {
		s.nan = true
		return true
	}
	s.delta = s.fy + slope + square - fx
	if !math.IsInf(fx, 1) && square <= visible*(math.Abs(s.fy)+math.Abs(fx)+math.Abs(slope)) {
		s.f.Grad(s.w, x)
		stats.GradTerms += s.terms
		s.delta = square - (floats.Dot(s.w, s.d)-slope)/2
		// The gradients are rounded too, by units in the last place of their
		// terms, which are about L_f‖x‖ in size; 32 units cover them.
		noise := 0x1p-48 * norm(s.d) * (norm(s.w) + norm(x)/gamma)
		return s.delta >= -noise
	}
	return s.delta >= 0
}

// guess returns a first γ ≥ 1/L_f for a search: the inverse of the curvature of f at x0 along its
// gradient.
func (s *lineSearch) guess(x0 []float64) float64 {
	g := make([]float64, len(x0))
	s.owed = 2 * s.terms
	s.f.Grad(g, x0)
	size := norm(g)
	if size == 0 { // any direction
		for i := range g {
			g[i] = 1
		}
		size = norm(g)
		clear(s.d)
	} else {
		copy(s.d, g)
	}
	t := 1e-3 * (1 + norm(x0)) / size // far enough for rounding, near enough to be local
	for i, xi := range x0 {
		s.w[i] = xi - t*g[i]
	}
	moved := separation(s.w, x0)
	s.f.Grad(g, s.w)
	gamma := moved / separation(g, s.d)
	if !(gamma > 0) || math.IsInf(gamma, 1) {
		return 1 // f is affine, or not finite there: the search finds out
	}
	return gamma
}

// firstStep returns the first γ, L_f (+Inf if unknown), and whether the method has to search,
// because the rule is LineSearch or L_f is unknown. Without a search γ is step, or 1/L_f if step
// is 0; it refuses steps outside (0, 2/L_f), with which the methods do not converge.
func firstStep(
	field string, step float64, r StepRule, f Smooth, s *lineSearch, x0 []float64,
) (gamma, lip float64, search bool, err error) {
	lip = f.Smoothness()
	search = r == LineSearch || math.IsInf(lip, 1)
	switch {
	case !(lip >= 0):
		err = unfit("F.Smoothness() = %v, want a Lipschitz constant of the gradient, or +Inf and LineSearch", lip)
	case search && (!(step >= 0) || math.IsInf(step, 1)):
		err = invalid("%s = %v, want a positive number to begin the search with, or 0 for a guess", field, step)
	case search:
		if gamma = step; gamma == 0 {
			gamma = s.guess(x0)
		}
		s.most = farther * gamma
	case !(step >= 0) || step >= 2/lip: // +Inf for an affine F
		err = invalid("%s = %v, want a number in (0, 2/L_f), or 0 for 1/L_f", field, step)
	default:
		if gamma = cmp.Or(step, 1/lip); math.IsInf(gamma, 1) {
			gamma = 1 // F is affine, or nearly: every step size is allowed
		}
	}
	return gamma, lip, search, err
}
