// Package sco is private stochastic convex optimization: mechanisms whose
// releases have small loss on the population the records came from,
//
//	F(w) = E ℓ(w; z)  over w ∈ W,   from n records, in mean form
//
// Privacy holds for every data set. A bound on the excess F(w) − min F holds in
// expectation over independent records, under the conditions named with it.
//
// # Which one to use
//
//	NoisySGD      smooth losses: noisy mini-batch SGD, averaged [BFTT19]
//	ProxGD        nonsmooth losses of ⟨a,w⟩ (hinge, absolute, pinball, …): the same
//	              on the Moreau envelope
//	DPSGD         noisy SGD as practitioners run it: epochs, clipping below L, last iterate
//	ObjPert       smooth losses of ⟨a,w⟩, moderate dimension: objective
//	              perturbation with λ for the population; usually the best
//	ObjPertSVRG   the same for large n: O(n log n) gradients
//	Output        output perturbation with λ for the population: needs only a bound
//	              on gradients
//	PermutationSGD  output noise on k passes over a permutation [WLKCJN17]; baseline
//	Phased        one pass in phases of halving length and step [FKT20]
//
// # How a mechanism is used
//
// Plan reads public quantities only: declared bounds, dimensions, the number of records where it is
// public, and the budget. It returns the noise, every parameter, and a bound on the excess. A Plan
// serves any number of Fits; Fit of a mechanism does both. What leaves is a dp.Release.
//
// # Relations
//
// Under dp.Replace the number of records n is public. Under dp.AddRemove it is not, and every
// schedule and divisor needs the declared number n₀ of erm.Problem.Records instead.
//
// # Exactness
//
// Noisy SGD and passes are private as programs, not only as formulas: noise is an integer multiple
// of a power of two with the exact law of a rounded Gaussian, and is added to integer multiples of
// the same power. Proofs are in docs/theory/population.md, by the identifiers below.
//
// # Theorems
//
//	identifier          statement                                          needs
//	sco.sgd/2           T sums of vectors clipped at L and rounded to a grid, plus
//	                    zL·N(0,I) on that grid, over random batches, have
//	                    the profile that package accounting composes;
//	                    all else is post-processing                        δ > 0
//	sco.prox/2          the same for gradients of Moreau envelopes         δ > 0
//	sco.psgd/2          Gaussian noise hides 2kLη/b after k passes in
//	                    batches of b [WLKCJN17], and all rounding          smooth loss, η ≤ 2/β, δ > 0
//	sco.psgd-strong/2   Gaussian noise hides L/(λb⌊n/b⌋) after passes with
//	                    λ‖w‖² and steps of min(1/(β+2λ), 1/(2λt)), and
//	                    all rounding                                       smooth loss, δ > 0
//	sco.phased/2        every phase hides 2Lη_i of its own records, and all
//	                    rounding, by Gaussian noise; phases are disjoint   smooth loss, η ≤ 2/β, δ > 0
//
// ObjPert and Output rest on the theorems of package lop.
//
// # Notation
//
//	n, d        records, parameters
//	L, β        loss.Constants.Lipschitz and Smoothness: of one record
//	W, M        Problem.Set; bound on ‖w₁ − w*‖, Radius
//	T, q, m     steps; sampling rate; batch size, qn in expectation
//	z           noise on the sum of a batch, over L
//	σ           zL/(qn), noise on the mean gradient, per coordinate
//	η           step size
//	λ           weight of ‖w‖² (no ½) in mean form: Δ = 2nλ in sum form
//	f_β         Moreau envelope min_v f(v) + (β/2)‖v−w‖²
//	R           bound on the distance to the minimizer, certified
//	g, K        step of a grid, a power of two; L/g
//	ρ           bound on the norm of the iterates
//	u           2⁻⁵³
//
// # References
//
//	[BFTT19]    Bassily, Feldman, Talwar, Thakurta. Private Stochastic Convex
//	            Optimization with Optimal Rates. NeurIPS 2019.
//	[FKT20]     Feldman, Koren, Talwar. Private Stochastic Convex Optimization:
//	            Optimal Rates in Linear Time. STOC 2020.
//	[HRS16]     Hardt, Recht, Singer. Train Faster, Generalize Better: Stability
//	            of Stochastic Gradient Descent. ICML 2016.
//	[JZ13]      Johnson, Zhang. Accelerating Stochastic Gradient Descent using
//	            Predictive Variance Reduction. NeurIPS 2013.
//	[WLKCJN17]  Wu, Li, Kumar, Chaudhuri, Jha, Naughton. Bolt-on Differential
//	            Privacy for Scalable Stochastic Gradient Descent-based Analytics.
//	            SIGMOD 2017.
//	[XZ14]      Xiao, Zhang. A Proximal Stochastic Gradient Method with
//	            Progressive Variance Reduction. SIAM J. Optim. 2014.
package sco

import (
	"fmt"

	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/prox"
)

// ErrMechanism reports a field of a mechanism, of Public or of a plan outside
// its range, or a problem that a plan was not made for. Test with errors.Is.
var ErrMechanism = lop.ErrMechanism

// Identifiers of the theorems, see the package comment.
const (
	theoremSGD  = "sco.sgd/2"
	theoremProx = "sco.prox/2"
	theoremPSGD = "sco.psgd/2"
	// theoremPSGDStrong is that of PermutationSGD with λ > 0.
	theoremPSGDStrong = "sco.psgd-strong/2"
	theoremPhased     = "sco.phased/2"
)

// checkField refuses a field that is neither positive and finite nor 0. zero describes the default.
func checkField(name, zero string, v float64) error {
	if err := release.CheckField(ErrMechanism, name, zero, v); err != nil {
		return fmt.Errorf("sco: %w", err)
	}
	return nil
}

// start returns the projection of 0 onto W.
func start(set prox.Set, d int) []float64 {
	w := make([]float64, d)
	if set != nil {
		set.Prox(w, w, 1)
	}
	return w
}
