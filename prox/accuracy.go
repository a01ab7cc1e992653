package prox

import "math"

// Accurate is the ability of an operator to bound the rounding of Prox:
//
//	‖Prox(x) − prox_{γg}(x)‖₂ ≤ factor·u·(‖x‖₂ + scale),   u = 2⁻⁵³,
//
// for every γ > 0 and finite x in dim dimensions, up to underflow. Mechanisms rely on it where
// a solver has to end at a known distance; what an operator of another package declares is an
// assumption of their certificates.
type Accurate interface {
	Operator
	Accuracy(dim int) (factor, scale float64)
}

// Accuracy returns the bound of Accurate for g in dim dimensions, and whether one is known.
// declared tells that g itself says so and that nothing here proves it. A nil g is 0.
func Accuracy(g Operator, dim int) (factor, scale float64, declared, ok bool) {
	if Check(g, dim) != nil {
		return 0, 0, false, false
	}
	d := float64(max(dim, 1))
	switch g := orZero(g).(type) {
	case hasSeparable, coordinates, coordinatesSet:
		return 8, 0, false, true
	case hasRadial:
		return 48, 0, false, true
	case hasGrouped:
		return d + 24, 0, false, true
	case hasSimplex:
		return 4*d + 40, g.asSimplex().set.Total, false, true
	case hasAbsBall:
		r := g.asAbsBall().r
		if math.IsInf(r, 1) {
			r = 0
		}
		return 4*d + 40, r, false, true
	case SortedL1:
		return 4*d + 16, 0, false, true
	case hasRidge:
		f, s, declared, ok := Accuracy(g.asRidge().g, dim)
		return f + 4, s, declared, ok
	case Accurate:
		factor, scale = g.Accuracy(dim)
		return factor, scale, true, factor >= 0 && scale >= 0 && !math.IsInf(factor+scale, 1)
	}
	return 0, 0, false, false
}
