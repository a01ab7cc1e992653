// Package loss holds the cost of one record and its worst-case constants on
// declared bounds.
//
//	l := loss.Huber{Delta: 0.5}
//	k := l.Constants(loss.Bounds{Row: 1, Label: 1}, 10)  // ‖a‖ ≤ 1, |b| ≤ 1, ‖θ‖ ≤ 10
//	fmt.Println(k.Lipschitz, k.Smoothness)               // 0.5 and 1: what noise is scaled by
//
// Losses:
//
//	regression      Squared, Huber, PseudoHuber, LogCosh; Absolute, Pinball, EpsilonInsensitive
//	two classes     Logistic, RootHinge, SmoothedHinge; Hinge
//	more classes    Multinomial
//	of another      Clipped, Moreau; SoftClipped, of Squared
//
// Those after a semicolon have kinks: mechanisms that certify a minimizer want their
// Moreau. What a loss can do beyond Func, Grad and Constants is optional: Linear (it
// depends on ⟨a,θ⟩), Monotone and Envelope lower the noise of package lop, Exact that of
// large data sets, Interpolator serves package qop, Proximable and Clippable make it
// usable inside Moreau and Clipped.
//
// # Notation
//
//	θ          theta, the parameter, d coordinates
//	(a, b)     a record: its row a ∈ ℝᵈ and its label b
//	ℓ(θ;a,b)   Func
//	∇ℓ         Grad, with respect to θ
//	u = ⟨a,θ⟩  the prediction; a generalized linear loss is φ(u;b)
//	L, β, ρ    Constants.Lipschitz, Constants.Smoothness, Constants.Rank
//
// # Lengths
//
// Functions that compute with vectors panic where lengths do not match, as those of gonum do: that
// is a mistake in the program. Constructors, and functions that return an error, report it.
//
// # References
//
//	[KST12]  Kifer, Smith, Thakurta. Private Convex Empirical Risk
//	         Minimization and High-dimensional Regression. COLT 2012.
//	[CC26]   Cortild, Cartis. Quadratic Objective Perturbation:
//	         Curvature-Based Differential Privacy. 2026.
package loss

import (
	"fmt"
	"math"

	"github.com/privopt/privopt/internal/prefix"
)

// ErrBounds reports declared bounds that are not positive finite numbers.
var ErrBounds = prefix.New("loss: invalid bounds")

// Bounds are declared by the caller, never measured: every record is forced
// into ‖a‖₂ ≤ Row and |b| ≤ Label.
type Bounds struct{ Row, Label float64 }

// Check returns an error wrapping ErrBounds unless Row and Label are positive
// and finite.
func (b Bounds) Check() error {
	if !(b.Row > 0) || math.IsInf(b.Row, 1) {
		return fmt.Errorf("%w: Row = %v, want a positive finite bound on ‖a‖₂, declared and not measured", ErrBounds, b.Row)
	}
	if !(b.Label > 0) || math.IsInf(b.Label, 1) {
		return fmt.Errorf("%w: Label = %v, want a positive finite bound on |b|, declared and not measured", ErrBounds, b.Label)
	}
	return nil
}

// Structure says how the gradient of one record may turn as θ moves. It
// decides which privacy theorem applies; the zero value is invalid.
type Structure int

const (
	// LSQ: ℓ = (c/2)(⟨a,θ⟩−b)², a quadratic of rank one.
	LSQ Structure = iota + 1
	// GLM: ℓ = φ(⟨a,θ⟩;b), the gradient always along a.
	GLM
	// FixedRange: gradients stay in a subspace of dimension Rank that may
	// depend on the record but not on θ.
	FixedRange
	// General: the Hessian of one record has rank at most Rank; its range may
	// move with θ.
	General
)

// String returns the name of the constant.
func (s Structure) String() string {
	if names := [...]string{LSQ: "LSQ", GLM: "GLM", FixedRange: "FixedRange", General: "General"}; s >= LSQ && int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("invalid structure %d", int(s))
}

// Constants hold for every record within the bounds and every ‖θ‖₂ ≤ radius.
// A zero field means unknown, and mechanisms refuse it; +Inf means known to be
// unbounded.
type Constants struct {
	Lipschitz  float64 // L: sup ‖∇ℓ‖₂
	Smoothness float64 // β: sup λ_max(∇²ℓ)
	// Rank ρ. FixedRange: the dimension of the subspace of one record's
	// gradients (GLM and LSQ: 1). General: the rank of one record's Hessian.
	Rank      int
	Structure Structure
}

// Loss is the cost of one record. Implementations are small immutable structs.
// theta, a and dst have the same length.
type Loss interface {
	// Func returns ℓ(θ;a,b).
	Func(theta, a []float64, b float64) float64
	// Grad stores ∇ℓ(θ;a,b) in dst.
	Grad(dst, theta, a []float64, b float64)
	// Constants returns worst-case constants on the declared bounds and on
	// the ball of the given radius, which may be +Inf. Those of this package are
	// rounded up, and zero where a parameter or a bound is invalid or radius is
	// negative or NaN.
	Constants(bounds Bounds, radius float64) Constants
}

// Linear is the optional ability of a loss φ(⟨a,θ⟩;b) that depends on θ only
// through the prediction u = ⟨a,θ⟩. Solvers and sharp calibrations use it.
type Linear interface {
	Loss
	// Scalar returns φ(u;b), φ′(u;b) and φ″(u;b); at a kink of φ′ either
	// one-sided φ″. norm is ‖a‖₂, which only norm-dependent losses such as
	// Clipped look at.
	Scalar(u, b, norm float64) (phi, dphi, d2phi float64)
}

// Batch is the optional ability of a Linear loss that does not look at norms to
// compute derivatives of many records at once, without φ: a logarithm of each
// prediction would cost a third of a pass over the records.
type Batch interface {
	Linear
	// Slopes replaces each prediction uᵢ by φ′(uᵢ;bᵢ) and, unless curve is nil,
	// stores φ″(uᵢ;bᵢ) in curve: the same bits as Scalar. The slices are as long as
	// u.
	Slopes(u, b, curve []float64)
}

// Interpolator is the optional ability to name a label that makes a given
// prediction optimal for the record, as quadratic objective perturbation needs.
type Interpolator interface {
	// Interpolate returns a label b′ with φ′(u;b′) = 0 that is nearest to b
	// among those, and whether there is one.
	Interpolate(u, b float64) (label float64, ok bool)
}
