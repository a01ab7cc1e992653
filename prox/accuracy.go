package prox

import (
	"math"
	"reflect"
)

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

// Accuracy returns the bound of Accurate for g in dim dimensions, and whether it is proved below. Else
// it is what g declares, or 1024·dim and ‖prox_g(0)‖₂, which a certificate has to list as an
// assumption. A nil g is 0. Of parameters that fail Check the factor is +Inf.
//
//	Coordinatewise of this package           8           0
//	L2Norm, L2Ball, and L1, orthants, (c/2)‖·‖² with them   48   0
//	GroupL2, and L1, orthants with it        d + 16      0
//	L1Ball, Simplex, and L1, orthants with it  24√d + 48   the radius
//	(c/2)‖·‖² with one of the above          12 more
//
// # Proofs
//
// Terms of order u² are left out; every factor has a quarter to spare.
//
// Coordinatewise. t = fl(γ·l1) is within u·t. Where |x| ≤ fl(t) the exact value is at most
// |x| − t ≤ u|x|. Elsewhere x − t is within u·t + u|x−t| ≤ 2u|x|. 1/(1+γ·l2) is within 3u of
// itself, the product within u more: 6u|x|. Clipping is exact and increases no distance.
//
// L2Norm, L2Ball. y = prox_s(x) is within 2u‖x‖, which the map behind it does not increase. From
// ŷ with n = ‖ŷ‖(1+3u): γ·norm/n is within 5u of itself, so that 1 − γ·norm/n is within 5u, cut at 0
// as well, and c with the square (4u) within 9u, absolutely. Inside the ball the exact factor,
// min(c*, r/‖ŷ‖), is within 9u of c. On it, r/n·(1−16u) is within 22u of r/‖ŷ‖, and that within
// 10u + 9u of the exact factor. The product is one rounding: 42u‖ŷ‖, and 44u‖x‖ in all. A finite Shift
// is at most 36u·r ≤ 37u‖x‖.
//
// GroupL2. The norm of a group of k coordinates is a plain sum of squares, within (k/2+3)u. So
// 1 − γ·Weight/n is within (k/2+6)u, the product within one more, and y within 2u.
//
// L1Ball, Simplex of total T. waterline keeps h = Σ(y_i−τ)₊ − T in twice the precision but for the
// differences, so within 2u·Σ(y_i−τ)₊ + 2uT; the sum at the first τ is at most √d‖y‖ + T, and
// later less. Newton's method from below does not pass the root, but by the error of h/k and the
// rounding of τ, and it ends where h/k is no more than that: with k terms left, k|τ| ≤ √d‖y‖ + T, so
// |Σp̂_i − T| ≤ u(4√d‖y‖ + 6T). The start of Simplex may be above the root by the error of the mean
// of rounded quotients, which adds u(4√d‖y‖ + 3T), and a τ that is held below the largest y_i at most 2√d·u‖y‖. As
// p̂ = (y−τ̂)₊ is the exact projection for the total Σp̂_i, and projections for totals T, T̂ are |T−T̂| apart
// in ℓ1, p̂ is within that of the exact one, and rescaling moves it by as much again:
// u(20√d‖y‖ + 18T), with 24uT for the roundings of factor and products, and 2u‖x‖ for y. A finite
// Shift is at most 36uT.
//
// (c/2)‖·‖². x/(1+γc) is within 4u‖x‖, and γ′ within 4u of itself. That moves the proximal map of g
// by at most 4u‖x − prox(x)‖, because
// ‖prox_{γ₁g}(x) − prox_{γ₂g}(x)‖ ≤ |1−γ₂/γ₁|·‖x − prox_{γ₁g}(x)‖. This is at most 8u‖x‖ where
// prox(0) = 0, and it moves by nothing where g is a set or the simplex with its constant norm.
func Accuracy(g Operator, dim int) (factor, scale float64, proved bool) {
	if Check(g, dim) != nil {
		return inf, 0, false
	}
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
	switch f := form(g).(type) {
	case radial:
		return 48, 0, true
	case grouped:
		return d + 16, 0, true
	case weighted:
		return ball(f.set.Total)
	case absBall:
		return ball(f.r)
	case ridge:
		factor, scale, proved = Accuracy(f.g, dim)
		return factor + 12, scale, proved
	case Accurate:
		factor, scale = f.Accuracy(dim)
		return factor, scale, false
	}
	p := make([]float64, dim)
	g.Prox(p, p, 1)
	return assumedFactor * d, norm2(p), false
}

// Separable returns g as a sum over coordinates if it is one whose Prox and Dist are functions of
// its coefficients alone, so that Steepest and ProxPair are about the same function. A nil g is 0.
func Separable(g Operator) (Coordinatewise, bool) {
	g = orZero(g)
	if _, ok := form(g).(separable); ok {
		return g.(Coordinatewise), true
	}
	switch g := g.(type) {
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

// Proved reports whether g is an operator of this package, made of none but operators of this package:
// then g is convex, a function of its parameters alone, and what its methods declare is true, by the
// proofs in their comments. Of another operator a mechanism must assume all of that, also where it is a
// struct that embeds an operator of this package. A nil g is 0.
func Proved(g Operator) bool { return g == nil || own(reflect.ValueOf(g)) }

// own reports whether v and every value that it holds in an interface have types of this package.
func own(v reflect.Value) bool {
	t := v.Type()
	home := t.PkgPath() == reflect.TypeFor[L1]().PkgPath()
	switch t.Kind() {
	case reflect.Interface:
		return v.IsNil() || own(v.Elem())
	case reflect.Pointer:
		return t == reflect.TypeFor[*Affine]()
	case reflect.Struct:
		for i := range v.NumField() {
			home = home && own(v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			if t.Elem().Kind() == reflect.Struct && !own(v.Index(i)) {
				return false
			}
		}
	}
	return home || t.PkgPath() == "" && t.Kind() != reflect.Struct // a number, a slice; a struct without a name may embed
}
