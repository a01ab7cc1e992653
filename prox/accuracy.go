// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package prox

import (
	"math"
	"reflect"
)

// Rounding is how far float64 takes an operator from the exact one, for those who must prove the
// distance of a point from a minimizer.
//
// The faces of a sphere or a hyperplane contain hardly any float64 vector. There x stands for a
// nearby point x′ of the domain in real arithmetic, Dist(x, v) is dist(−v, ∂g(x′)), and Shift(x)
// bounds ‖x′−x‖₂. If J = f + g is μ-strongly convex with minimizer z, and ∇f is L_f-Lipschitz,
//
//	‖x−z‖ ≤ (Dist(x, ∇f(x)) + (L_f+μ)·Shift(x)) / μ.
//
// With u = 2⁻⁵³, for every γ > 0 and finite x in dim dimensions, up to underflow,
//
//	‖Prox(x) − prox_{γg}(x)‖₂ ≤ factor·u·(‖x‖₂ + scale)
//	Shift(x) ≤ factor·u·(‖x‖₂ + scale)   if Shift(x) is finite
//
// An operator of your own may declare both by methods:
//
//	Shift(x []float64) float64                  +Inf outside the domain
//	Accuracy(dim int) (factor, scale float64)
type Rounding struct{ g Operator }

// RoundingOf returns the rounding of g. A nil g is 0.
func RoundingOf(g Operator) Rounding { return Rounding{g} }

// accurate and shifter are operators of the caller that declare their rounding.
type (
	accurate interface {
		Accuracy(dim int) (factor, scale float64)
	}
	shifter interface {
		Shift(x []float64) float64
	}
)

// rounded is an operator of this package. A struct that embeds it may declare a Shift of its own.
type rounded interface {
	Subdifferential
	shift(x []float64) float64
}

// Shift returns a bound on ‖x′−x‖₂ for the x′ of Dist; 0 for an operator whose x′ is x.
func (r Rounding) Shift(x []float64) float64 {
	switch g := r.g.(type) {
	case shifter:
		return g.Shift(x)
	case rounded:
		return g.shift(x)
	}
	return 0
}

// assumedFactor is the factor of an operator without a bound, divided by d.
const assumedFactor = 1024

// Accuracy returns factor and scale, and whether they are proved, see
// docs/theory/numerics.md#numerics.prox. A bound that is not proved is the one that g declares, or
// 1024·dim and ‖prox_g(0)‖₂; a certificate has to list it as an assumption. The factor is +Inf if g
// fails its Check.
//
//	Coordinatewise of this package           8           0
//	L2Norm, L2Ball, and L1, orthants, (c/2)‖·‖² with them   48   0
//	GroupL2, and L1, orthants with it        d + 16      0
//	L1Ball, Simplex, and L1, orthants with it  24√d + 48   the radius
//	(c/2)‖·‖² with one of the above          12 more
func (r Rounding) Accuracy(dim int) (factor, scale float64, proved bool) {
	g := r.g
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
		factor, scale, proved = RoundingOf(f.g).Accuracy(dim)
		return factor + 12, scale, proved
	case accurate:
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
// operator of this package.
func (r Rounding) Proved() bool { return r.g == nil || own(reflect.ValueOf(r.g)) }

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
