// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

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
	// K is for PrimalDual; the other methods refuse it.
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
	// Tolerance stops the solve once Location.Residual is at most this; 0 means 1e-9. With a negative
	// number the solve ends at another limit or at the least residual that rounding allows (Stalled).
	Tolerance float64
	// Gap stops the solve once Result.Gap is at most this; 0 means not to look.
	Gap float64
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
	// where no μ > 0 is known. CoordinateDescent does not ask a LeastSquares for its μ, which would
	// cost more than the solve; there Residual/f.Convexity() is the bound.
	Distance float64
	// Gap bounds J(X) − J* by Residual²/(2μ), by Residual·(‖X‖+‖x*‖) where a minimizer is known to be
	// bounded, or by the duality gap of a CoordinateDescent or FrankWolfe if that is less; +Inf where
	// no bound is known. Like the residual it has no allowance for rounding.
	Gap float64
}

// Statuser is the optional ability of a [Method] to end the solve by itself, as in gonum's
// optimize. Solve calls Status after every Step; any status but NotTerminated ends the solve.
// Converged counts as Stalled if the residual does not support it.
type Statuser interface {
	Status() (Status, error)
}

// Errors of this package. Test with errors.Is.
var (
	// ErrProblem reports that a method cannot be applied to a problem.
	ErrProblem = errors.New("splitting: problem does not fit the method")
	// ErrSettings reports an invalid field of Settings or of a method.
	ErrSettings = errors.New("splitting: invalid settings")
	// ErrNaN reports that an iterate or residual became NaN or infinite.
	ErrNaN = errors.New("splitting: NaN encountered")
)

// unfit returns an ErrProblem with its reason.
func unfit(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrProblem, fmt.Errorf(format, args...))
}

// invalid returns an ErrSettings with its reason.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrSettings, fmt.Errorf(format, args...))
}
