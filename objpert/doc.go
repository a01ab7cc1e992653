// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package objpert is private optimization without convexity, over a finite set W. It draws a point
// by its loss, exactly, or it minimizes a perturbed risk and releases the minimizer:
//
//	P(w) ∝ π(w) e^{−L(w)/c},   or   w = argmin over v ∈ W of  L(v) − ⟨η, φ(v)⟩
//
// L is a sum over the records. The loss is the 0/1 loss of halfspaces, or any bounded loss that an
// [Oracle] of the caller knows.
//
//	p, err := objpert.NewProblem(rows, labels, nil, objpert.Lattice(4))
//	rel, err := (&objpert.Exponential{}).Fit(ctx, p, dp.Budget{Epsilon: 1}, nil)
//
// Call [Exponential] for halfspaces. The others serve larger sets and losses that only an oracle
// knows: [OPDisc] on [Lattice] with a small Q, since its noise grows with Q, [Product] on a
// box of values without a ball, such as {−1,0,1}ᵈ. [RSPM] is for comparison with the literature,
// [SampleAndAggregate] for problems too hard for an exact search. [OPSamp] is a reference for
// continuous sets.
//
// In the words of [NRVW20]: an oracle-efficient mechanism perturbs the objective of a non-convex
// problem over a τ-separated set, such as the sign cube {−1,+1}ᵈ, or a separator set, and an oracle
// minimizes it; docs/papers.md has its Algorithms 1 to 3, Theorem 1, Theorem 11, Lemma 4 and Lemma
// 10 beside the symbols of this package and what became of them.
//
// # Privacy
//
// [Exponential] needs no shift and no noise; what follows is about the others. Every point w has a
// shift s_w of the noise that makes up for one record: if noise h makes w the
// minimizer on D, then h + s_w makes w the minimizer on a neighbor of D. A law of noise with p(h) ≤
// e^ε p(h + s_w) is therefore ε-private. The argument needs the exact minimizer for every value of
// the noise: a point within a gap of the minimum has no guarantee and is withheld. Noise is drawn
// as integers with exactly the law of rounded real noise, and searches compare integers, so that no
// rounding affects the guarantee.
//
// If the noise exceeds 2⁵⁹ steps, which a search cannot represent, the release is a random point
// that does not depend on the records; under a pure law it is such a point with probability 2⁻⁶⁴,
// too. The contents of the records cause no error, except that a search may not complete. Searches
// take exponential time in the worst case; BenchmarkExperiment, BenchmarkAdult and BenchmarkDense
// measure them.
//
// The theorems that certificates name, their proofs and the notation are in
// docs/theory/discrete.md, with Δ here for the shift of [OPDisc] and R for the range of the loss.
//
// # References
//
//	[HT10]    Hardt, Talwar. On the Geometry of Differential Privacy. STOC 2010.
//	[MT07]    McSherry, Talwar. Mechanism Design via Differential Privacy. FOCS 2007.
//	[NRVW20]  Neel, Roth, Vietri, Wu. Oracle Efficient Private Non-Convex Optimization. ICML 2020.
//	[NRW19]   Neel, Roth, Wu. How to Use Heuristics for Differential Privacy. FOCS 2019.
//	[SN20]    Suggala, Netrapalli. Online Non-Convex Learning: Following the Perturbed Leader is
//	          Optimal. ALT 2020.
package objpert
