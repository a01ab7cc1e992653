// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package prox

import (
	"math"
	"reflect"
)

// Accurate is the ability of an operator to bound its rounding. With u = 2⁻⁵³, for every γ > 0 and
// finite x in dim dimensions, up to underflow,
//
//	‖Prox(x) − prox_{γg}(x)‖₂ ≤ factor·u·(‖x‖₂ + scale)
//	Shift(x) ≤ factor·u·(‖x‖₂ + scale)   if the operator is Rounded and Shift(x) finite
type Accurate interface {
	Operator
	Accuracy(dim int) (factor, scale float64)
}

// assumedFactor is the factor of an operator without a bound, divided by d.
const assumedFactor = 1024

// Accuracy returns the bound of [Accurate] for g in dim dimensions, and whether it is proved, see
// docs/theory/numerics.md#numerics.prox. A bound that is not proved is the one that g declares, or
// 1024·dim and ‖prox_g(0)‖₂; a certificate has to list it as an assumption. A nil g is 0. The
// factor is +Inf if g fails its Check.
//
//	Coordinatewise of this package           8           0
//	L2Norm, L2Ball, and L1, orthants, (c/2)‖·‖² with them   48   0
//	GroupL2, and L1, orthants with it        d + 16      0
//	L1Ball, Simplex, and L1, orthants with it  24√d + 48   the radius
//	(c/2)‖·‖² with one of the above          12 more
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

// Separable returns g as a sum over coordinates if its Prox and Dist are functions of the
// coefficients alone. A nil g is 0.
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

// Proved reports whether g and all its parts are operators of this package. Then g is convex, it
// depends on its parameters alone, and the declarations of its methods are proved in their
// comments. A mechanism must assume this of any other operator, also of a struct that embeds an
// operator of this package. A nil g is 0.
func Proved(g Operator) bool { return g == nil || own(reflect.ValueOf(g)) }

// own reports whether v and every value that it holds in an interface have types of this package.
func own(v reflect.Value) bool {
	t := v.Type()
	home := t.PkgPath() == reflect.TypeFor[L1]().PkgPath()
	switch t.Kind() {
	case reflect.Interface:
		return v.IsNil() || own(v.Elem())
	case reflect.Pointer:
		return t == reflect.TypeFor[*affine]()
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
	// A number or a slice is harmless; a struct without a name may embed an operator.
	return home || t.PkgPath() == "" && t.Kind() != reflect.Struct
}
