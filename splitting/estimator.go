// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting

import (
	"math"
	"math/rand/v2"
)

// Estimator names an unbiased estimate v of ∇f(y), f = Σᵢ fᵢ, that evaluates one or two terms a
// step, i uniform in {0, …, n−1}.
type Estimator int

const (
	// Sampled is v = n∇fᵢ(y). Its variance stays, so nothing is certified.
	Sampled Estimator = iota
	// SVRG keeps an anchor w and ∇f(w): v = n(∇fᵢ(y) − ∇fᵢ(w)) + ∇f(w), and with probability 1/n
	// sets w ← y afterwards [JZ13, KHR20]. Two terms a step and a full gradient every n steps; 3d
	// numbers of memory.
	SVRG
)

// String returns the name of the constant.
func (e Estimator) String() string { return name("estimator", int(e), "Sampled", "SVRG") }

// TermSmoother is the optional ability of a [FiniteSum] to bound the curvature of its terms.
// Without it each term is assumed to be as curved as f, which holds for convex terms but makes
// steps up to n times too short.
type TermSmoother interface {
	// TermSmoothness returns an upper bound on the Lipschitz constants of ∇fᵢ.
	TermSmoothness() float64
}

// sampled returns F as a FiniteSum with terms and L = n·maxᵢ L_fᵢ, the Lipschitz constant of n∇fᵢ,
// +Inf if unknown.
func (p Problem) sampled() (f FiniteSum, lip float64, err error) {
	f, ok := p.F.(FiniteSum)
	if !ok {
		return nil, 0, unfit("StochasticTOS: F is no FiniteSum, want a sum of terms to sample, with Len() int and " +
			"GradTerms(dst, x []float64, idx []int)")
	}
	n := f.Len()
	if n < 1 {
		return nil, 0, unfit("StochasticTOS: F has no terms, want at least one to sample")
	}
	lip = f.Smoothness()
	if t, ok := f.(TermSmoother); ok {
		lip = math.Min(lip, t.TermSmoothness())
	}
	if math.IsNaN(lip) || lip < 0 {
		return nil, 0, unfit("StochasticTOS: F.Smoothness() = %v, want a number ≥ 0", lip)
	}
	return f, float64(n) * lip, nil
}

// estimate is the state of an Estimator.
type estimate struct {
	sum    FiniteSum
	kind   Estimator
	rnd    *rand.Rand
	n      int
	idx    []int     // the term of this step
	total  []float64 // ∇f(w)
	anchor []float64 // w
	one    []float64 // ∇fᵢ(w)
	owed   int       // terms evaluated before the first step
}

// init prepares estimates of the gradient of sum, the first of them at x0.
func (e *estimate) init(sum FiniteSum, kind Estimator, x0 []float64, rnd *rand.Rand) {
	e.kind, e.sum, e.rnd, e.n, e.owed = kind, sum, rnd, sum.Len(), 0
	if e.idx = resize(e.idx, 1); kind == Sampled {
		return
	}
	d := len(x0)
	e.total, e.one, e.anchor, e.owed = resize(e.total, d), resize(e.one, d), resize(e.anchor, d), e.n
	copy(e.anchor, x0)
	sum.Grad(e.total, x0)
}

// at stores v/scale in dst, where v estimates ∇f(y).
func (e *estimate) at(dst, y []float64, stats *Stats) (scale float64) {
	e.idx[0] = e.rnd.IntN(e.n)
	stats.GradTerms += 1 + e.owed
	e.owed = 0
	n := float64(e.n)
	e.sum.GradTerms(dst, y, e.idx) // ∇fᵢ(y)
	if e.kind == Sampled {
		return n
	}
	e.sum.GradTerms(e.one, e.anchor, e.idx)
	stats.GradTerms++
	for j := range dst {
		dst[j] = n*(dst[j]-e.one[j]) + e.total[j]
	}
	return 1
}

// exact returns ∇f(y) where y becomes the anchor.
func (e *estimate) exact(y []float64, stats *Stats) (grad []float64, due bool) {
	if e.kind == Sampled || e.rnd.IntN(e.n) != 0 {
		return nil, false
	}
	copy(e.anchor, y)
	e.sum.Grad(e.total, y)
	stats.GradTerms += e.n
	return e.total, true
}
