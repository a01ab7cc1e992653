// Package prox holds convex functions that are known by their proximal map and
// convex sets that are known by their projection.
//
// # Notation
//
//	γ               step size, gamma
//	prox_{γg}(x)    argmin_u g(u) + ‖u−x‖²/(2γ), Operator.Prox
//	∂g(x)           the subdifferential, Subdifferential
//	ι_C, N_C(x)     the indicator of C and its normal cone at x
//
// # References
//
//	[BC17]  Bauschke, Combettes. Convex Analysis and Monotone Operator Theory
//	        in Hilbert Spaces, 2nd ed. 2017.
//	[PB14]  Parikh, Boyd. Proximal Algorithms. 2014.
package prox

const badLen = "prox: length mismatch"

// Operator is a closed convex proper function g known through its proximal map.
//
// Implementations are immutable once built and safe for concurrent use. Both
// methods panic when lengths do not match the dimension of g.
type Operator interface {
	// Func returns g(x), +Inf outside the domain.
	Func(x []float64) float64
	// Prox stores prox_{γg}(x) = argmin_u g(u) + ‖u−x‖²/(2γ), γ > 0, in dst,
	// which may be x. It does not allocate.
	Prox(dst, x []float64, gamma float64)
}

// Set is the indicator ι_C of a closed convex set. Prox projects onto C and
// ignores gamma.
type Set interface {
	Operator
	// Radius returns sup{‖x‖₂ : x ∈ C} in dim dimensions, +Inf if C is unbounded.
	Radius(dim int) float64
}

// Subdifferential is the optional ability to measure the distance from −v to
// ∂g(x). It is what a certificate of optimality is made of.
type Subdifferential interface {
	Operator
	// Dist returns dist(−v, ∂g(x)) = min{‖v+u‖₂ : u ∈ ∂g(x)}, and +Inf where
	// x is outside the domain. Whether x lies at a kink or on a face is
	// decided exactly, never by a tolerance: an interior point that is taken
	// for a boundary point would under-report the distance.
	Dist(x, v []float64) float64
}
