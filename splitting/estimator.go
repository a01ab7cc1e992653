// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
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
	// SAGA keeps the last gradient tᵢ of each term: v = n(∇fᵢ(y) − tᵢ) + Σⱼtⱼ, then tᵢ ← ∇fᵢ(y)
	// [DBL14]. One term a step, n·d numbers of memory, and a full gradient every 2n steps for the
	// certificate.
	SAGA
)

// String returns the name of the constant.
func (e Estimator) String() string { return name("estimator", int(e), "Sampled", "SVRG", "SAGA") }

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
	table  []float64 // tᵢ by rows
	total  []float64 // Σⱼtⱼ, or ∇f(w)
	anchor []float64 // w
	full   []float64 // ∇f(y) for the certificate of SAGA, ∇fᵢ(w) for SVRG
	since  int       // steps since the last certificate
	owed   int       // terms evaluated before the first step
}

// init prepares estimates of the gradient of sum, the first of them at x0.
func (e *estimate) init(sum FiniteSum, kind Estimator, x0 []float64, rnd *rand.Rand) {
	d := len(x0)
	e.kind, e.sum, e.rnd, e.n, e.since, e.owed = kind, sum, rnd, sum.Len(), 0, 0
	if e.idx = resize(e.idx, 1); kind == Sampled {
		return
	}
	e.total, e.full, e.owed = resize(e.total, d), resize(e.full, d), e.n
	if kind == SVRG {
		e.anchor = resize(e.anchor, d)
		copy(e.anchor, x0)
		sum.Grad(e.total, x0)
		return
	}
	e.table = resize(e.table, e.n*d)
	for i := range e.n {
		e.idx[0] = i
		sum.GradTerms(e.row(i), x0, e.idx)
	}
	e.addRows()
}

// row returns tᵢ.
func (e *estimate) row(i int) []float64 {
	d := len(e.total)
	return e.table[i*d : (i+1)*d : (i+1)*d]
}

// addRows sets total to Σⱼtⱼ. Updates keep total current, but their rounding errors add up.
func (e *estimate) addRows() {
	clear(e.total)
	for i := range e.n {
		floats.Add(e.total, e.row(i))
	}
}

// at stores v/scale in dst, where v estimates ∇f(y).
func (e *estimate) at(dst, y []float64, stats *Stats) (scale float64) {
	e.idx[0] = e.rnd.IntN(e.n)
	stats.GradTerms += 1 + e.owed
	e.owed = 0
	n := float64(e.n)
	e.sum.GradTerms(dst, y, e.idx) // ∇fᵢ(y)
	switch e.kind {
	case Sampled:
		return n
	case SVRG:
		e.sum.GradTerms(e.full, e.anchor, e.idx)
		stats.GradTerms++
		for j := range dst {
			dst[j] = n*(dst[j]-e.full[j]) + e.total[j]
		}
	default:
		t := e.row(e.idx[0])
		for j, g := range dst {
			change := g - t[j]
			t[j] = g
			dst[j] = n*change + e.total[j]
			e.total[j] += change
		}
	}
	e.since++
	return 1
}

// exact returns ∇f(y) where a full gradient is due: at a new anchor of SVRG, and every 2n steps of
// SAGA.
func (e *estimate) exact(y []float64, stats *Stats) (grad []float64, due bool) {
	switch {
	case e.kind == SVRG && e.rnd.IntN(e.n) == 0:
		copy(e.anchor, y)
		grad = e.total
	case e.kind == SAGA && e.since >= 2*e.n:
		e.addRows()
		grad = e.full
	default:
		return nil, false
	}
	e.since = 0
	e.sum.Grad(grad, y)
	stats.GradTerms += e.n
	return grad, true
}
