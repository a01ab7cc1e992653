package loss

import (
	"math"

	"github.com/privopt/privopt/internal/enclose"
)

// Ranged is the optional ability of a loss to bound the possible decrease of the cost of one
// record:
//
//	Range(bounds, radius) ≥ sup ℓ(θ;a,b) − inf_v ℓ(v;a,b)
//
// over records within the bounds and ‖θ‖₂ ≤ radius. Mechanisms use it to bound the norm of a
// minimizer from public quantities. +Inf means unbounded or unknown.
type Ranged interface {
	Loss
	Range(bounds Bounds, radius float64) float64
}

// Range returns l.Range if l is Ranged and +Inf otherwise, also where bounds or radius are invalid.
func Range(l Loss, bounds Bounds, radius float64) float64 {
	r, ok := l.(Ranged)
	if !ok || Check(l) != nil || bounds.Check() != nil || !(radius >= 0) {
		return math.Inf(1)
	}
	if h := r.Range(bounds, radius); h >= 0 { // not NaN
		return h
	}
	return math.Inf(1)
}

var (
	_ Ranged = Squared{}
	_ Ranged = Huber{}
	_ Ranged = Logistic{}
	_ Ranged = Multinomial{}
	_ Ranged = SmoothedHinge{}
	_ Ranged = Hinge{}
	_ Ranged = Absolute{}
	_ Ranged = Pinball{}
	_ Ranged = EpsilonInsensitive{}
	_ Ranged = Moreau{}
	_ Ranged = Clipped{}
)

// Range returns ½(Row·radius+Label)²: the least cost is 0.
func (Squared) Range(bounds Bounds, radius float64) float64 {
	r := reach(bounds, radius)
	return outward(r * r / 2)
}

// Range returns the Huber function of Row·radius+Label: the least cost is 0.
func (l Huber) Range(bounds Bounds, radius float64) float64 {
	r := reach(bounds, radius)
	return outward(min(r*r/2, l.Delta*r))
}

// Range returns ln 2 + Row·radius ≥ log(1+e^{|u|}): no cost is below 0.
func (Logistic) Range(bounds Bounds, radius float64) float64 {
	return outward(math.Ln2 + bounds.Row*radius)
}

// Range returns ln K + √2·Row·radius: log Σ_k e^{s_k−s_y} ≤ ln K + max_k(s_k−s_y), where
// |s_k−s_y| ≤ √2‖θ‖‖x‖, and no cost is below 0.
func (l Multinomial) Range(bounds Bounds, radius float64) float64 {
	log := math.Log1p(float64(l.Classes - 1))
	if !enclose.ExceedsExpm1(log*(1+0x1p-44), float64(l.Classes-1)) { // outward has the room
		return math.Inf(1)
	}
	return outward(log + math.Sqrt2*bounds.Row*radius)
}

// Range returns 1 + Row·radius ≥ (1−m)₊: the least cost is 0.
func (SmoothedHinge) Range(bounds Bounds, radius float64) float64 {
	return outward(1 + bounds.Row*radius)
}

// Range returns 1 + Row·radius ≥ (1−m)₊: the least cost is 0.
func (Hinge) Range(bounds Bounds, radius float64) float64 { return outward(1 + bounds.Row*radius) }

// Range returns Row·radius + Label: the least cost is 0.
func (Absolute) Range(bounds Bounds, radius float64) float64 { return outward(reach(bounds, radius)) }

// Range returns max(Tau, 1−Tau)·(Row·radius+Label): the least cost is 0.
func (l Pinball) Range(bounds Bounds, radius float64) float64 {
	return outward(max(l.Tau, 1-l.Tau) * reach(bounds, radius))
}

// Range returns Row·radius + Label: the least cost is 0.
func (EpsilonInsensitive) Range(bounds Bounds, radius float64) float64 {
	return outward(reach(bounds, radius))
}

// Range returns that of Loss: the envelope has the same infimum and lies below it.
func (l Moreau) Range(bounds Bounds, radius float64) float64 { return Range(l.Loss, bounds, radius) }

// Range returns that of Loss: φ_c continues φ on tangents, so it lies below φ, and where φ has an
// infimum it is that of φ_c, for the tangents rise away from the part that is kept.
func (l Clipped) Range(bounds Bounds, radius float64) float64 { return Range(l.Loss, bounds, radius) }
