package loss

import "math"

// Envelope is the optional ability of a Linear loss to bound the curvature of a
// record at the points where its gradient has a given norm: logistic slopes p have
// curvature p(1−p), so that no record has a large gradient and a large curvature
// at once. Linear objective perturbation needs less noise for such losses.
type Envelope interface {
	Linear
	// Envelope returns an upper bound, rounded up, on the largest eigenvalue of
	// ∇²ℓ(θ;a,b) over all records with ‖a‖₂ ≤ bounds.Row and |b| ≤ bounds.Label and
	// all θ ∈ ℝᵈ where lo ≤ ‖∇ℓ(θ;a,b)‖₂ ≤ hi and the Hessian exists. It is at most
	// the Smoothness of Constants, and a wider interval does not lower it.
	Envelope(bounds Bounds, lo, hi float64) float64
}

var (
	_ Envelope = Logistic{}
	_ Envelope = Clipped{}
	_ Envelope = Moreau{}
)

// share returns the interval [lo, hi] of norms in units of the largest one, in
// [0, 1], widened by more than the rounding of the norms and of the constants.
func share(lo, hi, largest float64) (p, q float64) {
	const slack = 4e-12
	p, q = lo/largest*(1-slack), hi/largest*(1+slack)
	return min(max(p, 0), 1), min(max(q, 0), 1)
}

// between returns the point of [p, q] that is nearest to x, where a function
// that has its only peak at x is largest.
func between(x, p, q float64) float64 { return min(max(x, p), q) }

// Envelope: with p = ‖∇ℓ‖/Row and t = ‖a‖/Row ≤ 1, |φ′| = p/t and φ″ = |φ′|(1−|φ′|),
//
//	t²φ″ = p(t−p) ≤ p(1−p)
func (Logistic) Envelope(bounds Bounds, lo, hi float64) float64 {
	p, q := share(lo, hi, bounds.Row)
	x := between(0.5, p, q)
	return outward(bounds.Row * bounds.Row * x * (1 - x))
}

// Envelope is that of Loss, or its Smoothness where it has none: a clipped record
// has the gradient and the curvature of the loss, or no curvature.
func (l Clipped) Envelope(bounds Bounds, lo, hi float64) float64 {
	return envelope(l.Loss, bounds, lo, hi)
}

// Envelope: at the gradient g of the envelope ℓ_β, ℓ has the same gradient at the
// proximal point, with curvature h there, and ℓ_β has
//
//	h/(1 + h/β) = hβ/(h+β)
func (l Moreau) Envelope(bounds Bounds, lo, hi float64) float64 {
	h := envelope(l.Loss, bounds, lo, hi)
	if math.IsInf(h, 1) {
		return outward(l.Beta)
	}
	return min(outward(h/(1+h/l.Beta)), outward(l.Beta))
}

// envelope returns the envelope of l, or its Smoothness where it declares none;
// +Inf where that is unknown.
func envelope(l Linear, bounds Bounds, lo, hi float64) float64 {
	if e, ok := l.(Envelope); ok {
		return e.Envelope(bounds, lo, hi)
	}
	if beta := l.Constants(bounds, math.Inf(1)).Smoothness; beta > 0 {
		return beta
	}
	return math.Inf(1)
}
