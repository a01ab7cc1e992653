// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package sco is private stochastic convex optimization: mechanisms whose releases have small loss
// on the population the records came from,
//
//	F(w) = E ℓ(w; z)  over w ∈ W,   from n records, in mean form
//
//	release, err := (&sco.ProxGD{}).Fit(ctx, p, dp.Budget{Epsilon: 1, Delta: 1e-8}, nil)
//
// Privacy holds for every data set. A bound on the excess F(w) − min F holds in expectation over
// independent records, under the conditions named with it.
//
// The names of [BFTT19] are A_NSGD (NoisySGD; its Algorithm 1 and Theorem 3.2), A_ProxGD (ProxGD;
// its Theorem 4.4) and A_ObjP (ObjPert); bounds there rest on uniform stability. docs/papers.md
// says what became of its constants.
//
//	NoisySGD        smooth losses: noisy mini-batch SGD, averaged [BFTT19]
//	ProxGD          losses with kinks (hinge, absolute, pinball, …): the same on the Moreau envelope
//	DPSGD           noisy SGD as practitioners run it: epochs, clipping below L, last iterate
//	ObjPert         smooth losses of ⟨a,w⟩: objective perturbation with λ for the population, for
//	                large n by SVRG; usually the best
//	Output          output perturbation with λ for the population: needs only a bound on gradients
//
// Plan reads public quantities only: declared bounds, dimensions, the budget, and the number of
// records, which is public under dp.Replace. Under dp.AddRemove it is not, and the declared
// Problem.Records takes its place. A plan has the noise, all parameters and a bound on the excess,
// and serves any number of Fits. Fit of a mechanism plans and fits.
//
// Noise is an integer multiple of a power of two with the exact law of a rounded Gaussian. It is
// added to integer multiples of the same power, so that the program is private, not only its
// formulas.
//
// # Theorems
//
// Proofs are in docs/theory/population.md, by identifier. ObjPert and Output rest on theorems of
// lop. All need δ > 0.
//
//	sco.sgd/2           T noisy sums of clipped gradients over random batches [BFTT19]
//	sco.prox/2          the same for gradients of Moreau envelopes
//
// # Notation
//
// That of docs/theory/README.md, but in mean form, with w for θ, W for C and
//
//	L, β        loss.Constants.Lipschitz and Smoothness: of one record
//	M           bound on ‖w₀ − w*‖, Radius
//	T, q, m     steps; sampling rate; batch size, qn in expectation
//	z, σ        noise on the sum of a batch, over L; zL/(qn), on the mean gradient, per coordinate
//	η, λ        step size; weight of ‖w‖² (no ½) in mean form: Δ = 2nλ in sum form
//	g, K        step of a grid, a power of two; L/g
//	u           2⁻⁵³
//
// # References
//
//	[BFTT19]    Bassily, Feldman, Talwar, Thakurta. Private Stochastic Convex Optimization with
//	            Optimal Rates. NeurIPS 2019.
//	[XZ14]      Xiao, Zhang. A Proximal Stochastic Gradient Method with Progressive Variance
//	            Reduction. SIAM J. Optim. 2014.
package sco

import (
	"fmt"

	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/prox"
)

// ErrMechanism reports a field of a mechanism, of Public or of a plan outside its range, or a
// problem that a plan was not made for. Test with errors.Is.
var ErrMechanism = lop.ErrMechanism

// Identifiers of the theorems, see the package comment.
const (
	theoremSGD  = "sco.sgd/2"
	theoremProx = "sco.prox/2"
)

// refuse returns an error of the given kind.
func refuse(kind error, format string, args ...any) error {
	return fmt.Errorf("sco: %w: "+format, append([]any{kind}, args...)...)
}

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
