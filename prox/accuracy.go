package prox

import "math"

// Accurate is the ability of an operator to bound its rounding: with u = 2⁻⁵³, for every γ > 0 and
// finite x in dim dimensions, up to underflow,
//
//	‖Prox(x) − prox_{γg}(x)‖₂ ≤ factor·u·(‖x‖₂ + scale)
//	Shift(x) ≤ factor·u·(‖x‖₂ + scale)   if the operator is Rounded and Shift(x) finite
//
// A solver that has to end at a known distance of a minimizer relies on it.
type Accurate interface {
	Operator
	Accuracy(dim int) (factor, scale float64)
}

// assumedFactor is that of an operator of which nothing is known, in units of d.
const assumedFactor = 1024

// Accuracy returns the bound of Accurate for g in dim dimensions, and whether it is proved
// (docs/theory/numerics.md#numerics.prox). Else it is what g declares, or 1024·dim and
// ‖prox_g(0)‖₂, which a certificate has to list as an assumption. A nil g is 0.
//
//	Coordinatewise of this package           8           0
//	L2Norm, L2Ball, and L1, orthants, (c/2)‖·‖² with them   48   0
//	GroupL2, and L1, orthants with it        d + 16      0
//	L1Ball, Simplex, and L1, orthants with it  24√d + 48   the radius
//	(c/2)‖·‖² with one of the above          12 more
func Accuracy(g Operator, dim int) (factor, scale float64, proved bool) {
	d := float64(max(dim, 1))
	if _, ok := Separable(g); ok {
		return 8, 0, true
	}
	ball := func(r float64) (factor, scale float64, proved bool) {
		if math.IsInf(r, 1) {
			return 8, 0, true
		}
		return 24*math.Sqrt(d) + 48, r, true
	}
	switch g := g.(type) { // types of this package, not structs that embed them
	case L2Norm, L2Ball, radial, radialSet:
		return 48, 0, true
	case GroupL2, grouped:
		return d + 16, 0, true
	case Simplex:
		return ball(g.Total)
	case weighted:
		return ball(g.set.Total)
	case L1Ball, absBall, absBallSet:
		return ball(g.(hasAbsBall).asAbsBall().r)
	case ridge, ridgeDist:
		factor, scale, proved = Accuracy(g.(hasRidge).asRidge().g, dim)
		return factor + 12, scale, proved
	case Accurate:
		factor, scale = g.Accuracy(dim)
		return factor, scale, false
	}
	p := make([]float64, dim)
	g.Prox(p, p, 1)
	return assumedFactor * d, norm2(p), false
}

// Separable returns g as a sum over coordinates if it is one whose Prox and Dist are functions of
// its coefficients alone, so that Steepest and ProxPair are about the same function. A nil g is 0.
func Separable(g Operator) (Coordinatewise, bool) {
	switch g := orZero(g).(type) { // types of this package, not structs that embed them
	case L1, SquaredL2, ElasticNet, NonNegative, Box, L1Box, LInfBall, separable:
		return g.(Coordinatewise), true
	case coordwise:
		return g, g.separable()
	case coordSet:
		return g, g.separable()
	}
	return nil, false
}

// separable reports whether g is a sum of two operators that are Separable.
func (g coordwise) separable() bool {
	e, _ := g.calculus.(each)
	c, ok := e.coefficients.(coordinates)
	if !ok {
		return false
	}
	_, left := Separable(c.g)
	_, right := Separable(c.h)
	return left && right
}
