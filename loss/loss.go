// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package loss holds the cost of one record and its worst-case constants on declared bounds.
//
//	l := loss.Huber{Delta: 0.5}
//	k := l.Constants(loss.Bounds{Row: 1, Label: 1}, 10)  // ‖a‖ ≤ 1, |b| ≤ 1, ‖θ‖ ≤ 10
//	fmt.Println(k.Lipschitz, k.Smoothness)               // 0.5 and 1, which scale noise
//
// Losses:
//
//	regression      Squared, Huber, PseudoHuber, LogCosh; Absolute, Pinball, EpsilonInsensitive
//	two classes     Logistic, RootHinge, SmoothedHinge; Hinge
//	more classes    Multinomial
//	of another      Clipped, Moreau; SoftClipped, of Squared
//
// Losses after a semicolon have kinks. Mechanisms that certify a minimizer need their [Moreau]
// envelope instead. Beyond [Loss] all abilities are optional: [Linear] losses depend on ⟨a,θ⟩,
// [Envelope] lowers the noise of package lop, [Interpolator] serves package qop, [Proximable] and
// [Clippable] give Moreau and Clipped closed forms, and [Batch] is faster.
//
// # Notation
//
//	θ          theta, the parameter, d coordinates
//	(a, b)     a record: its row a ∈ ℝᵈ and its label b
//	ℓ(θ;a,b)   Func
//	∇ℓ         Grad, with respect to θ
//	u = ⟨a,θ⟩  the prediction; a generalized linear loss is φ(u;b)
//	y          the class of b: +1 for b > 0, −1 otherwise; yu is the margin
//	L, β, ρ    Constants.Lipschitz, Constants.Smoothness, Constants.Rank
//
// # Lengths
//
// Functions that compute with vectors panic where lengths do not match, as those of gonum do: that
// is a mistake in the program. Constructors, and functions that return an error, report it.
//
// # References
//
//	[BC17]   Bauschke, Combettes. Convex Analysis and Monotone Operator Theory in Hilbert
//	         Spaces. Second edition, 2017.
//	[CC26]   Cortild, Cartis. Quadratic Objective Perturbation: Curvature-Based Differential
//	         Privacy. 2026.
//	[KST12]  Kifer, Smith, Thakurta. Private Convex Empirical Risk Minimization and
//	         High-dimensional Regression. COLT 2012.
package loss

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/internal/prefix"
)

// Errors that this package wraps. Test with errors.Is.
var (
	// ErrBounds reports declared bounds that are not positive finite numbers.
	ErrBounds = prefix.New("loss: invalid bounds")
	// ErrParameter reports a parameter of a loss outside its range.
	ErrParameter = prefix.New("loss: invalid parameter")
)

// Bounds are declared by the caller, never measured: every record is forced into ‖a‖₂ ≤ Row and
// |b| ≤ Label.
type Bounds struct{ Row, Label float64 }

// Check returns an error wrapping ErrBounds unless Row and Label are positive and finite.
func (b Bounds) Check() error {
	if !(b.Row > 0) || math.IsInf(b.Row, 1) {
		return fmt.Errorf("%w: Row = %v, want a positive finite bound on ‖a‖₂, declared and not measured", ErrBounds, b.Row)
	}
	if !(b.Label > 0) || math.IsInf(b.Label, 1) {
		return fmt.Errorf("%w: Label = %v, want a positive finite bound on |b|, declared and not measured", ErrBounds,
			b.Label)
	}
	return nil
}

// Structure describes how the gradient of one record may turn as θ moves. It decides which privacy
// theorem applies; the zero value is invalid.
type Structure int

const (
	// LSQ: ℓ = (c/2)(⟨a,θ⟩−b)², a quadratic of rank one.
	LSQ Structure = iota + 1
	// GLM: ℓ = φ(⟨a,θ⟩;b), the gradient is always along a.
	GLM
	// FixedRange: gradients stay in a subspace of dimension Rank, which may depend on the record
	// but not on θ.
	FixedRange
	// General: the Hessian of one record has rank at most Rank; its range may move with θ.
	General
)

// String returns the name of the constant.
func (s Structure) String() string {
	if names := [...]string{LSQ: "LSQ", GLM: "GLM", FixedRange: "FixedRange", General: "General"}; s >= LSQ &&
		int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("invalid structure %d", int(s))
}

// Constants hold for every record within the bounds and every ‖θ‖₂ ≤ radius. A zero number means
// unknown, and mechanisms that need it refuse the loss; +Inf means unbounded.
type Constants struct {
	Lipschitz  float64 // L: sup ‖∇ℓ‖₂
	Smoothness float64 // β: sup λ_max(∇²ℓ)
	// Range bounds ℓ(θ;a,b) − inf_v ℓ(v;a,b), which bounds the norm of a minimizer. 0 and +Inf
	// both mean that there is no such bound.
	Range float64
	// Rank is ρ. FixedRange: the dimension of the subspace of one record's gradients (GLM and LSQ:
	// 1). General: the rank of one record's Hessian.
	Rank      int
	Structure Structure
	// Monotone: the loss is φ(⟨a,θ⟩;b), and for each label b, φ′(·;b) has the same sign at every u.
	// Linear perturbation then needs less noise.
	Monotone bool
	// NoMinimizer: the gradient of a record vanishes nowhere unless its row is 0, so that quadratic
	// perturbation has no anchor.
	NoMinimizer bool
}

// Loss is the cost of one record. Implementations are small immutable structs. theta, a and dst
// have the same length.
type Loss interface {
	// Func returns ℓ(θ;a,b). Func and Grad panic with a text where lengths differ.
	Func(theta, a []float64, b float64) float64
	// Grad stores ∇ℓ(θ;a,b) in dst.
	Grad(dst, theta, a []float64, b float64)
	// Constants returns worst-case constants on the declared bounds and on the ball of the given
	// radius, which may be +Inf. The losses of this package round them up, and return zero
	// Constants for an invalid parameter or bound, and for a radius that is negative or NaN.
	Constants(bounds Bounds, radius float64) Constants
}

// Linear is a loss φ(⟨a,θ⟩;b), which depends on θ only through the prediction u = ⟨a,θ⟩.
type Linear interface {
	Loss
	// Scalar returns φ(u;b), φ′(u;b) and φ″(u;b); at a kink of φ′ either one-sided φ″. norm is
	// ‖a‖₂, which only losses such as Clipped use.
	Scalar(u, b, norm float64) (phi, dphi, d2phi float64)
}

// Batch is the optional ability of a [Linear] loss that does not use norms to compute derivatives
// of many records at once. It leaves out φ, whose logarithm would cost a third of a pass over the
// records.
type Batch interface {
	Linear
	// Slopes replaces each prediction uᵢ by φ′(uᵢ;bᵢ) and, unless curve is nil, stores φ″(uᵢ;bᵢ) in
	// curve, with the bits of Scalar. All slices have the length of u.
	Slopes(u, b, curve []float64)
}

// Interpolator is the optional ability to name a label for which a given prediction is optimal, as
// quadratic objective perturbation needs.
type Interpolator interface {
	// Interpolate returns the label b′ nearest to b with φ′(u;b′) = 0, and whether there is one.
	Interpolate(u, b float64) (label float64, ok bool)
}

// Envelope is the optional ability of a [Linear] loss to bound the curvature of a record at points
// where its gradient has a given norm. Logistic slopes p, for example, have curvature p(1−p): no
// record has a large gradient and a large curvature at once. Linear objective perturbation needs
// less noise for such losses.
type Envelope interface {
	Linear
	// Envelope returns an upper bound, rounded up, on the largest eigenvalue of ∇²ℓ(θ;a,b) over
	// all records within the bounds and all θ ∈ ℝᵈ where lo ≤ ‖∇ℓ(θ;a,b)‖₂ ≤ hi and the Hessian
	// exists. It is at most the Smoothness of Constants, and a wider interval does not lower it.
	Envelope(bounds Bounds, lo, hi float64) float64
}

// Check returns an error for a nil loss, else the error of l's own method Check() error, if it has
// one. Such methods return an error wrapping ErrParameter that names the field, its value and the
// allowed range.
func Check(l Loss) error {
	if l == nil {
		return fmt.Errorf("%w: no loss, want one such as loss.Squared{}", ErrParameter)
	}
	if c, ok := l.(interface{ Check() error }); ok {
		return c.Check()
	}
	return nil
}

// CheckData refuses declared shapes of data that have no meaning for l, before a record is read. It
// returns the error of l's own method CheckData(dim int, bounds Bounds) error, if it has one.
func CheckData(l Loss, dim int, bounds Bounds) error {
	if c, ok := l.(interface{ CheckData(int, Bounds) error }); ok {
		return c.CheckData(dim, bounds)
	}
	return nil
}

const badLen = "loss: length mismatch"

// dot returns u = ⟨a,θ⟩.
func dot(theta, a []float64) float64 {
	if len(theta) != len(a) {
		panic(badLen)
	}
	return floats.Dot(a, theta)
}

// along stores c·a in dst, the gradient of a loss of ⟨a,θ⟩ with φ′ = c.
func along(dst []float64, c float64, a []float64) {
	if len(dst) != len(a) {
		panic(badLen)
	}
	for i, ai := range a {
		dst[i] = c * ai
	}
}

// value and slope select φ and φ′ from the results of Scalar.
func value(phi, _, _ float64) float64  { return phi }
func slope(_, dphi, _ float64) float64 { return dphi }

// outward returns an upper bound of the constant x > 0 computed in float64. The excess 10⁻¹² covers
// the rounding of the constant and of the Euclidean norms by which rows are forced into their
// bound, d·2⁻⁵³ for d up to 4000.
func outward(x float64) float64 { return math.Nextafter(x*(1+1e-12), math.Inf(1)) }

// valid reports whether l has worst-case constants on these bounds.
func valid(l Loss, bounds Bounds, radius float64) bool {
	return Check(l) == nil && bounds.Check() == nil && radius >= 0
}

// rounded returns the constants c of l rounded up, or zero Constants, which mechanisms refuse,
// where an argument is invalid. Without a Structure they are those of a GLM.
func rounded(l Loss, bounds Bounds, radius float64, c Constants) Constants {
	if !valid(l, bounds, radius) {
		return Constants{}
	}
	c.Lipschitz, c.Smoothness = outward(c.Lipschitz), outward(c.Smoothness)
	if c.Range > 0 {
		c.Range = outward(c.Range)
	}
	if c.Structure == 0 {
		c.Rank, c.Structure = 1, GLM
	}
	return c
}

// inherited returns the constants that l has from the loss it is made of, as those of a loss of
// ⟨a,θ⟩, and whether there are any.
func inherited(l Loss, from Linear, bounds Bounds, radius float64) (c Constants, ok bool) {
	if valid(l, bounds, radius) {
		c = from.Constants(bounds, radius)
	}
	if c.Structure == 0 {
		return Constants{}, false
	}
	c.Rank, c.Structure = 1, GLM
	return c, true
}

// reach returns the largest |u−b| on the bounds, Row·radius + Label.
func reach(bounds Bounds, radius float64) float64 { return bounds.Row*radius + bounds.Label }

// share returns the interval [lo, hi] of norms in units of the largest one, within [0, 1] and
// widened by more than the rounding of the norms and of the constants.
func share(lo, hi, largest float64) (p, q float64) {
	const slack = 4e-12
	p, q = lo/largest*(1-slack), hi/largest*(1+slack)
	return min(max(p, 0), 1), min(max(q, 0), 1)
}

// envelope returns the envelope of l, or its Smoothness where it declares none, or +Inf.
func envelope(l Linear, bounds Bounds, lo, hi float64) float64 {
	if e, ok := l.(Envelope); ok {
		return e.Envelope(bounds, lo, hi)
	}
	if beta := l.Constants(bounds, math.Inf(1)).Smoothness; beta > 0 {
		return beta
	}
	return math.Inf(1)
}

// finite reports whether x is neither NaN nor infinite.
func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// positive returns an error unless x is a positive finite number.
func positive(field string, x float64) error {
	if !(x > 0) || math.IsInf(x, 1) {
		return fmt.Errorf("%w: %s = %v, want a positive finite number", ErrParameter, field, x)
	}
	return nil
}

// checkMade checks a loss that is made from another one and a positive parameter.
func checkMade(name string, from, example Linear, parameter string, x float64) error {
	if from == nil {
		return fmt.Errorf("%w: %s.Loss is nil, want a loss of ⟨a,θ⟩ such as %T{}", ErrParameter, name, example)
	}
	if err := Check(from); err != nil {
		return err
	}
	return positive(name+"."+parameter, x)
}
