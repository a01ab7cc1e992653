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
//	CoordinateDescent  quadratic F; G+H           one sweep over the     exact up to rounding;
//	                   coordinatewise             matrix                 a duality gap
//	ProxNewton         F with a Hessian; G+H      Hessian, and sweeps    superlinear
//	                   coordinatewise,            or Cholesky factors
//	                   d ≤ 2000
//	LBFGS              G+H nothing, or ‖x‖²       value and gradient     linear if strongly convex
//	ForwardBackward    G+H in closed form         a gradient, a prox     1/k², linear if strongly
//	                                                                     convex; searches for L_f
//	DavisYin           any G and H                a gradient, two prox   1/k; searches for L_f
//	InteriorPoint      a quadratic program: F     Cholesky factors of a  exact up to rounding in tens
//	                   quadratic, G and H         d×d matrix, d ≤ 2000   of steps; certificates where
//	                   absolute values, bounds                           there is no minimizer
//	PrimalDual         any G, H and K             a gradient, two prox,  1/k, 1/k² if strongly
//	                                              K and Kᵀ once each     convex
//	StochasticTOS      a FiniteSum; any G and H   a few terms of F, two  the minimizer with SVRG,
//	                                              prox                   linear if G is nil
//
// G+H in closed form means that [prox.Sum] knows its proximal map, as for an ℓ1 norm with a box, a
// ball or total variation. Some advice:
//
//   - Two functions without a closed-form sum: DavisYin; if its steps are short, with Rule:
//     LineSearch, which may be worth a factor of ten.
//   - Backward–forward splitting [APR18]: DavisYin with G+H as G and H nil.
//   - Logistic regression, robust regression: NewLogistic, NewHuber, which have a Hessian.
//   - No Lipschitz constant: ForwardBackward and DavisYin search if Smoothness is +Inf.
//   - Groups that overlap with their neighbors only: prox.SplitGroups gives the G and the H. With
//     more overlap: NewSelection as K.
//   - Total variation along a line: prox.TotalVariation, also with an ℓ1 norm (the fused lasso).
//     On a graph or an image: NewDifferences as K.
//   - Many records, moderate accuracy: StochasticTOS with SVRG.
//   - Linear and quadratic programs, quantiles, support vector machines, model predictive control:
//     NewQP, or a Problem of your own with a matrix as K. Multipliers are in Result.Dual.
//   - A sequence of weights or of boxes: Path.
//   - Means, sums and linear terms: Scaled, Plus, Tilted; a function of your own: Funcs. They keep
//     Hessians, quadratic coefficients and the terms of sums.
//   - Sparse rows: a K of your own with products of a sparse matrix, and its Norm, for PrimalDual;
//     a Smooth of your own for the other methods. NewMatrix and the losses hold dense copies.
//   - To watch a solve: Settings.Recorder = &Trace{Func: p.Func, PerDecade: 10}.
//
// The command go -C cmd/research run . run convergence draws how the methods converge, in
// docs/results.
//
// # Optimality
//
// A point x with multipliers u ∈ ∂g(x) and y ∈ ∂h(p) is a minimizer if Kx = p and ∇f(x) + u + Kᵀy =
// 0. A solve ends with status Converged once both hold relative to the sizes of their terms,
//
//	‖Kx − p‖ ≤ Relative·(‖K‖‖x‖ + ‖p‖)
//	‖∇f(x) + u + Kᵀy‖ ≤ Relative·(‖∇f(x)‖ + L_f‖x‖ + ‖u‖ + ‖K‖‖y‖)
//
// without ‖u‖ and ‖K‖‖y‖ where a method works on the sum g + h. Then X solves a
// problem whose data differ by the factor 1 ± Relative; the unit of x, K or f does not matter. A
// constraint on Kx is met to that accuracy: [Result].Value takes h at the nearest point of its
// domain, while Problem.Func(X) may be +Inf.
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

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/prox"
)

// Smooth is a differentiable convex f with a Lipschitz gradient.
type Smooth interface {
	Func(x []float64) float64
	// Grad stores ∇f(x) in dst; it does not allocate.
	Grad(dst, x []float64)
	// Smoothness returns an upper bound L_f on the Lipschitz constant of ∇f, +Inf if none is known.
	Smoothness() float64
}

// FuncGrader is the optional ability of a [Smooth] to compute value and gradient together, so that
// records are read once. [LineSearch] uses it.
type FuncGrader interface {
	// FuncGrad stores ∇f(x) in dst and returns f(x); it does not allocate.
	FuncGrad(dst, x []float64) float64
}

// Convex is the optional ability of a [Smooth] to report its strong convexity.
type Convex interface {
	// Convexity returns a lower bound μ ≥ 0 on the modulus of strong convexity.
	Convexity() float64
}

// FiniteSum is f = Σᵢ fᵢ, whose terms [StochasticTOS] samples.
type FiniteSum interface {
	Smooth
	// Len returns the number of terms.
	Len() int
	// GradTerms stores Σ_{i∈idx} ∇fᵢ(x) in dst, unscaled; it does not allocate.
	GradTerms(dst, x []float64, idx []int)
}

// Quadratizer is the optional ability of a [Smooth] that is the quadratic ½x'Qx − ⟨lin,x⟩ + c to
// show its coefficients. ok is false if f is not quadratic. The caller must not change q or lin.
type Quadratizer interface {
	Smooth
	Quadratic() (q *mat.SymDense, lin []float64, c float64, ok bool)
}

// Hessianer is the optional ability of a [Smooth] to show its curvature.
type Hessianer interface {
	Smooth
	// Hessian stores ∇²f(x) in dst, which has the size of x; where f has only a generalized
	// Hessian, any element of it. It does not allocate.
	//
	// A type whose values do not all have a Hessian also has a method HasHessian() bool; Hessian is
	// not called where HasHessian returns false.
	Hessian(dst *mat.SymDense, x []float64)
}

// Problem is min f(x) + g(x) + h(Kx). A nil F, G or H means 0, a nil K the identity.
type Problem struct {
	F    Smooth
	G, H prox.Operator
	// K is for PrimalDual and InteriorPoint; the other methods refuse it.
	K Linear
}

// Location is a point with a bound on its distance from optimality.
type Location struct {
	X []float64
	// Residual is an upper bound on dist(0, ∂J(X)), or a substitute described under Certificates in
	// the package comment: a μ-strongly convex J has ‖X − x*‖ ≤ Residual/μ and J(X) − J* ≤
	// Residual²/(2μ). It is +Inf while no bound is known.
	//
	// It is computed in floating point without an allowance for rounding, except for steps so
	// short that rounding may hide that X moved. A caller who must prove more recomputes it at X.
	Residual float64
}

// Stats counts the work done.
type Stats struct {
	Iterations int           // calls of Method.Step
	GradTerms  int           // gradients ∇fᵢ evaluated; a full gradient counts Len, or 1 without terms
	Proxes     int           // proximal maps evaluated
	Runtime    time.Duration // wall clock
}

// Method advances an iterate; [Solve] owns stopping, counting, timing and recording. A Method value
// serves one Solve at a time.
type Method interface {
	// Init allocates for p and starts at x0, which it copies. The error wraps ErrProblem if the method
	// cannot solve p, and ErrSettings if a field of the method is out of range. rnd is the source of
	// sampling; deterministic methods ignore it. Init may be called again for another problem.
	Init(p Problem, x0 []float64, rnd *rand.Rand) error
	// Step advances loc.X by one iteration, updates loc.Residual, and adds to the GradTerms and
	// Proxes of stats. It does not allocate.
	Step(loc *Location, stats *Stats)
}

// Recorder observes a solve, as in gonum's optimize.
type Recorder interface {
	// Init is called once before the first iteration.
	Init() error
	// Record is called after every iteration. It must not keep or change loc.X. A non-nil error
	// stops the solve, which returns it.
	Record(loc *Location, stats *Stats) error
}

// Settings of Solve; nil and the zero value mean the documented defaults.
type Settings struct {
	// Iterations is the most iterations to do; 0 means 1e5.
	Iterations int
	// Relative stops the solve once the relative primal and dual residuals are at most this, see
	// Optimality in the package comment. 0 means 1e-9 if Tolerance and Gap are 0 too, and else not to
	// look. A method that does not know these residuals, such as one of your own, then stops where
	// Location.Residual is at most 1e-9.
	Relative float64
	// Tolerance stops the solve once Location.Residual, which has the unit of ∇f, is at most this; 0
	// means not to look. With a negative number the solve ends at another limit or where rounding
	// allows no progress (Stalled).
	Tolerance float64
	// Gap stops the solve once Result.Gap is at most this; 0 means not to look.
	Gap float64
	// Dual is a first multiplier of H for PrimalDual and DavisYin, such as Result.Dual.H of a similar
	// problem. It has the length of Kx; nil means 0. Other methods ignore it.
	Dual []float64
	// Runtime is the most time to spend; 0 means no limit.
	Runtime time.Duration
	// Src feeds stochastic methods; nil means a ChaCha8 seeded by the runtime.
	// Sampling for speed is not privacy noise.
	Src rand.Source
	// Recorder observes the solve; nil means none.
	Recorder Recorder
}

// Result is the final location, the work done, and why the solve stopped.
type Result struct {
	Location
	Stats
	Status Status
	// Distance bounds ‖X − x*‖₂ by Residual/μ for the μ of F and of the squares in G and H, +Inf
	// where no μ > 0 is known. CoordinateDescent and InteriorPoint do not ask a quadratic of more than
	// 300 coordinates for its μ, because that would cost more than the solve; there
	// Residual/f.Convexity() is the bound.
	Distance float64
	// Gap bounds J(X) − J* by Residual²/(2μ), by Residual·(‖X‖+‖x*‖) where a minimizer is known to be
	// bounded, or by the duality gap of a CoordinateDescent if that is less; +Inf where
	// no bound is known. Like the residual it has no allowance for rounding.
	Gap float64
	// Value is f(X) + g(X) + h(KX). Where rounding leaves X or KX outside the domain of g or h, their
	// values are those at the nearest point of the domain.
	Value float64
	// Primal and DualResidual are the relative residuals of X and Dual, see Optimality in the package
	// comment; +Inf where the method does not know them.
	Primal, DualResidual float64
	// Dual holds the multipliers at X: the prices of the constraints.
	Dual Multipliers
}

// Multipliers are subgradients u ∈ ∂g(X) and y ∈ ∂h(KX) that make X a minimizer:
//
//	∇f(X) + u + Kᵀy = 0
//
// up to the relative residuals of the [Result]. A multiplier of a constraint is its price: where
// the bound of row i of Kx moves by t, the minimum moves by −t·H[i], to first order.
//
// Of an Infeasible problem they are a certificate: G + KᵀH is 0 up to rounding, so that ⟨G,x⟩ +
// ⟨H,Kx⟩ is 0 for all x, while it would be negative for every x that satisfies the constraints.
type Multipliers struct {
	// G is u; of g + h where the method works on the sum. It is nil where the method knows no
	// multipliers.
	G []float64
	// H is y, nil where the method works on the sum or H is nil.
	H []float64
}

// Statuser is the optional ability of a [Method] to end the solve by itself, as in gonum's
// optimize. Solve calls Status after every Step; any status but NotTerminated ends the solve.
// Converged counts as Stalled if the residual does not support it. Infeasible and Unbounded may
// come with an error that wraps ErrInfeasible or ErrUnbounded and says more.
type Statuser interface {
	Status() (Status, error)
}

// Errors of this package. Test with errors.Is.
var (
	// ErrProblem reports that a method cannot be applied to a problem.
	ErrProblem = errors.New("splitting: problem does not fit the method")
	// ErrSettings reports an invalid field of Settings or of a method.
	ErrSettings = errors.New("splitting: invalid settings")
	// ErrNaN reports that an iterate or residual became NaN or infinite, or that a function was NaN at
	// a finite point.
	ErrNaN = errors.New("splitting: NaN encountered")
	// ErrInfeasible reports that no point satisfies the constraints, the errors of status Infeasible.
	ErrInfeasible = errors.New("splitting: the constraints are infeasible")
	// ErrUnbounded reports that the objective has no lower bound, the errors of status Unbounded.
	ErrUnbounded = errors.New("splitting: the objective is unbounded below")
)

// unfit returns an ErrProblem with its reason.
func unfit(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrProblem, fmt.Errorf(format, args...))
}

// invalid returns an ErrSettings with its reason.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrSettings, fmt.Errorf(format, args...))
}
