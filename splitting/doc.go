// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package splitting minimizes f(x) + g(x) + h(Kx), where f is smooth, g and h are known by their
// proximal maps and K is linear: constraints, norms and penalties that are not differentiable, sums
// over records, one or two such terms at a time. Every answer comes with a bound on its distance to
// the minimizer wherever one can be proved. The package knows nothing of records or privacy.
//
//	f, _ := splitting.NewLeastSquares(a, b)
//	p := splitting.Problem{F: f, G: prox.L1{Weight: 0.1}, H: prox.Box{Lo: 0, Hi: 1}}
//	res, err := splitting.Minimize(ctx, p, x0, nil)
//
// # Choosing a method
//
// [Minimize] chooses. By hand:
//
//	method             takes                      a step costs           promises
//	CoordinateDescent  quadratic F, on Q or on    one sweep, or a round  exact up to rounding;
//	                   columns; G+H               over an active set     a duality gap
//	                   coordinatewise
//	ProxNewton         F with a Hessian; G+H      Hessian, and sweeps    superlinear
//	                   coordinatewise or a        or Cholesky factors
//	                   ball, d ≤ 2000
//	LBFGS              G+H nothing, or ‖x‖²       value and gradient     linear if strongly convex
//	ForwardBackward    G+H in closed form         a gradient, a prox     1/k², linear if strongly
//	                                                                     convex; searches for L_f
//	DavisYin           any G and H                a gradient, two prox   1/k; searches for L_f
//	DouglasRachford    quadratic F, or none       a d×d solve, a prox    linear if strongly convex,
//	                                                                     at √(L_f/μ)
//	PrimalDual         any G, H and K             a gradient, two prox,  1/k, 1/k² if strongly
//	                                              K and Kᵀ once each     convex
//	FrankWolfe         G or H a bounded           a gradient, a linear   1/k; on a simplex or ℓ1
//	                   prox.LinearMinimizer       minimization           ball linear if strongly
//	                                                                     convex; the gap
//	StochasticTOS      a FiniteSum; any G and H   a few terms of F, two  as its Estimator; with G nil
//	                                              prox                   it is ProxSVRG or ProxSAGA
//
// G+H in closed form means that [prox.Sum] knows its proximal map, as for an ℓ1 norm with a box, a
// ball or total variation. Some advice:
//
//   - Two functions without a closed-form sum: DavisYin; if its steps are short, with Rule:
//     LineSearch, which may be worth a factor of ten.
//   - Backward–forward splitting [APR18]: DavisYin with G+H as G and H nil.
//   - Logistic regression, robust regression: NewLogistic, NewHuber, which have a Hessian.
//   - A nuclear ball of large matrices, or iterates of few vertices: FrankWolfe with Settings.Gap.
//   - No Lipschitz constant: ForwardBackward and DavisYin search if Smoothness is +Inf.
//   - Groups that overlap with their neighbors only: prox.SplitGroups gives the G and the H. With
//     more overlap: NewSelection as K.
//   - Total variation along a line: prox.TotalVariation, also with an ℓ1 norm (the fused lasso).
//     On a graph or an image: NewDifferences as K.
//   - Many records, moderate accuracy: StochasticTOS with SAGA if n·d numbers fit, else with SVRG.
//   - A sequence of weights or of boxes: Path.
//   - To watch a solve: Settings.Recorder = &Trace{Func: p.Func, PerDecade: 10}.
//
// The command go run ./cmd/research convergence draws how the methods converge, in docs/results.
//
// # Certificates
//
// [Location].Residual bounds the norm of an element of ∂J(X), or can be used in its place: a
// μ-strongly convex J = f + g + h∘K has
//
//	‖X − x*‖ ≤ Residual/μ,   J(X) − J* ≤ Residual²/(2μ).
//
// [Result].Gap bounds J(X) − J* also where J is not strongly convex, if a set or a norm bounds its
// minimizers. Which point X a method shows and why the bounds hold:
// docs/theory/splitting.md#splitting.residual
//
// # Notation
//
// f, g, h and K are the fields of [Problem]. L_f is Smooth.Smoothness and μ Convex.Convexity; f =
// Σᵢ fᵢ has n terms and L = n·maxᵢ L_fᵢ. γ, τ and σ are step sizes and λ is a relaxation.
// References in brackets: docs/theory/splitting.md
//
// # Lengths
//
// Functions that compute with vectors panic where lengths do not match, as those of gonum do.
// Constructors, and functions that return an error, report it.
package splitting
