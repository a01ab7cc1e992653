// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package prox

import (
	"errors"
	"fmt"

	"gonum.org/v1/gonum/floats"
)

// ErrNoClosedForm reports that the proximal map of a sum is not known in closed form. Test with
// errors.Is.
var ErrNoClosedForm = errors.New("prox: no closed form is known of the proximal map of the sum")

// Sum returns g + h as one operator, if its proximal map is known in closed form. A nil operator is
// 0, and the operators of the table may be sums themselves. The error wraps ErrNoClosedForm; a
// problem with two such terms is for splitting.DavisYin, which takes each by itself.
//
//	g                                   h                prox_{γ(g+h)}
//	Coordinatewise                      Coordinatewise   per coordinate [BC17, Prop. 24.47]
//	anything here                       (c/2)‖·‖₂²       prox_{γ′g}(x/(1+γc)), γ′ = γ/(1+γc)
//	                                                     [BC17, Prop. 24.8]
//	L2Norm, L2Ball                      L2Norm, L2Ball   scaling on the ray of x [Yu13, Thm. 4]
//	L1, orthants, Box around the ball   L2Norm, L2Ball   prox_h∘prox_g [Yu13, Thm. 4]
//	L1, orthants, Box around the ball   L1Ball           prox_h∘prox_g [Yu13, Thm. 1]
//	L1, orthants                        GroupL2          prox_h∘prox_g [Yu13, Thm. 1]
//	L1, Box or orthant around it        Simplex          that of the simplex
//	L1, Box, orthants, sums of these    TotalVariation   prox_g∘prox_h, the fused lasso [FHHT07]
//	TotalVariation                      TotalVariation   the weights add up
//	L1Ball                              L1Ball           that of the smaller
//	anything here                       Linear           prox_{γg}(x − γC)
//	TotalVariation, GroupL2, LInfNorm,  L2Norm, L2Ball   prox_h∘prox_g [Yu13, Thm. 4], no
//	SortedL1, NuclearNorm, Pinball,                      Subdifferential
//	SecondOrderCone, PSDCone, Isotonic,
//	and Scale or Blocks of these
//
// An orthant is NonNegative, or a Box with bounds 0 and ±Inf. The sum is a Subdifferential, a Set
// or Coordinatewise if both parts are. Sums with an empty domain have no proximal map, and invalid
// weights are refused or stay visible to Check.
func Sum(g, h Operator) (Operator, error) {
	if sum, ok := closed(g, h); ok {
		return sum, nil
	}
	return nil, fmt.Errorf("%w: %T + %T", ErrNoClosedForm, g, h)
}

// closed is Sum without an error.
func closed(g, h Operator) (Operator, bool) {
	switch {
	case g == nil && h == nil:
		return whole(), true
	case g == nil:
		return h, true
	case h == nil:
		return g, true
	}
	if sum, ok := add(g, h); ok {
		return sum, true
	}
	if sum, ok := add(h, g); ok {
		return sum, true
	}
	if sum, ok := conic(g, h); ok {
		return sum, true
	}
	return conic(h, g)
}

// conic finds g + h for a positively homogeneous g, g(ax) = a·g(x) for a > 0, and an h of ‖x‖₂ that
// grows: prox_h∘prox_g [Yu13, Thm. 4].
func conic(g, h Operator) (Operator, bool) {
	r, ok := form(h).(radial)
	if !ok || r.s != whole() || r.check(0) != nil || !homogeneous(g) {
		return nil, false
	}
	_, first := g.(Set)
	_, second := h.(Set)
	return expose(cone{g, r}, false, first && second, false), true
}

// homogeneous reports whether g is known to be positively homogeneous.
func homogeneous(g Operator) bool {
	if _, ok := asSeminorm(g); ok {
		return true
	}
	var inner calculus
	switch g := g.(type) {
	case SecondOrderCone, PSDCone, Pinball, Isotonic:
		return true
	case certified:
		inner = g.calculus
	case certifiedSet:
		inner = g.calculus
	case plainSet:
		inner = g.calculus
	}
	switch g := inner.(type) {
	case scaled:
		return g.check(1) == nil && homogeneous(g.g)
	case blocks:
		for _, part := range g.parts {
			if !homogeneous(part.Op) {
				return false
			}
		}
		return true
	}
	return false
}

// cone is the sum of a positively homogeneous function and a radial one.
type cone struct {
	g Operator
	r radial
}

func (c cone) Func(x []float64) float64 { return number(c.g.Func(x) + c.r.Func(x)) }

func (c cone) Prox(dst, x []float64, gamma float64) {
	c.g.Prox(dst, x, gamma)
	c.r.Prox(dst, dst, gamma)
}

func (c cone) check(dim int) error { return Check(c.g, dim) }

func (c cone) radius(dim int) float64 { return L2Ball{c.r.r}.Radius(dim) }

// form returns the normal form of an operator of this package: a separable, radial, absBall,
// grouped, weighted, fused or ridge. Other operators have no normal form and are returned as they
// are. form looks at the concrete type, not at methods, because a struct that embeds an operator
// inherits its methods but may be another function.
func form(g Operator) Operator {
	switch g := g.(type) {
	case L1, SquaredL2, ElasticNet, NonNegative, Box, L1Box:
		return g.(interface{ asSeparable() separable }).asSeparable()
	case L2Norm:
		return g.asRadial()
	case L2Ball:
		return g.asRadial()
	case radialSet:
		return g.radial
	case L1Ball:
		return g.asAbsBall()
	case absBallSet:
		return g.absBall
	case GroupL2:
		return g.asGrouped()
	case Simplex:
		return weighted{g, 0}
	case TotalVariation:
		return g.asFused()
	case certified:
		if r, ok := g.calculus.(ridge); ok {
			return r
		}
	}
	return g
}

// add finds g + h for the normal form of g; Sum tries both orders.
func add(g, h Operator) (Operator, bool) {
	if c, ok := h.(Linear); ok {
		return newTilted(g, c), true
	}
	first, second := form(g), form(h)
	if s, ok := first.(separable); ok {
		return addSeparable(h, s)
	}
	if s, ok := second.(separable); ok {
		return addSeparable(g, s)
	}
	if r, ok := first.(ridge); ok { // (g₀ + c‖·‖²/2) + h = (g₀ + h) + c‖·‖²/2
		if sum, ok := closed(r.g, h); ok {
			return addSeparable(sum, SquaredL2{r.l2}.asSeparable())
		}
		return nil, false
	}
	if c, ok := g.(Coordinatewise); ok {
		if d, ok := h.(Coordinatewise); ok {
			return addCoordinates(c, d), true
		}
		return nil, false
	}
	switch a := first.(type) {
	case radial:
		if b, ok := second.(radial); ok && a.check(0) == nil && b.check(0) == nil {
			return simplest(radial{a.s.with(b.s), a.norm + b.norm, a.l2 + b.l2, min(a.r, b.r)}), true
		}
	case fused:
		if b, ok := second.(fused); ok && a.check(0) == nil && b.check(0) == nil {
			return addSeparable(TotalVariation{a.tv.Weight + b.tv.Weight}, a.s.with(b.s))
		}
	case absBall:
		if b, ok := second.(absBall); ok && a.check(0) == nil && b.check(0) == nil {
			return simplest(absBall{a.s.with(b.s), min(a.r, b.r)}), true
		}
	}
	return nil, false
}

// addSeparable finds g + s.
func addSeparable(g Operator, s separable) (Operator, bool) {
	if s.check(0) != nil { // a negative weight must not hide in a sum
		return nil, false
	}
	if t, ok := form(g).(separable); ok {
		if sum := s.with(t); t.check(0) == nil && sum.lo <= sum.hi {
			return simplestSeparable(sum), true
		}
		return nil, false
	}
	if c, ok := g.(Coordinatewise); ok {
		return addCoordinates(c, simplestSeparable(s)), true
	}
	l2 := s.l2
	s.l2 = 0
	if s == whole() {
		switch f := form(g).(type) {
		case ridge:
			return newRidge(f.g, f.l2+l2), true
		case radial:
			f.l2 += l2
			return simplest(f), true
		}
		return newRidge(g, l2), true
	}
	sum, ok := addOrthant(g, s)
	if !ok {
		return nil, false
	}
	return addSeparable(sum, SquaredL2{l2}.asSeparable())
}

// addOrthant finds g + s for s without a square.
func addOrthant(g Operator, s separable) (Operator, bool) {
	switch f := form(g).(type) {
	case ridge:
		if sum, ok := addOrthant(f.g, s); ok {
			return newRidge(sum, f.l2), true
		}
	case radial:
		if s.around(f.r) {
			f.s = f.s.and(s)
			return simplest(f), true
		}
	case absBall:
		if s.around(f.r) {
			f.s = f.s.and(s)
			return simplest(f), true
		}
	case grouped:
		if s.around(inf) {
			f.s = f.s.and(s)
			return f, true
		}
	case fused:
		if f.s = f.s.with(s); f.s.lo <= f.s.hi {
			return simplest(f), true
		}
	case weighted:
		if s.lo <= 0 && s.hi >= f.set.Total {
			f.l1 += s.l1
			return simplest(f), true
		}
	}
	return nil, false
}

// around reports whether each bound of s is 0 or outside the ball of radius r, where it has no
// effect.
func (g separable) around(r float64) bool {
	return (g.lo == 0 || g.lo <= -r) && (g.hi == 0 || g.hi >= r)
}

// and returns the orthant form g + h for an h with bounds that are 0 or have no effect.
func (g separable) and(h separable) separable {
	g.l1 += h.l1
	if h.lo == 0 {
		g.lo = 0
	}
	if h.hi == 0 {
		g.hi = 0
	}
	return g
}

// with adds coefficients and intersects intervals.
func (g separable) with(h separable) separable {
	return separable{g.l1 + h.l1, g.l2 + h.l2, max(g.lo, h.lo), min(g.hi, h.hi)}
}

// simplestSeparable returns s as an exported type, if one fits.
func simplestSeparable(s separable) Coordinatewise {
	switch {
	case s.l1 == 0 && s.l2 == 0:
		return Box{s.lo, s.hi} // a Set
	case s.l2 == 0:
		return L1Box{s.l1, s.lo, s.hi}
	}
	return s
}

// simplest returns f as an exported type or as a Set, if one fits.
func simplest(f Operator) Operator {
	switch f := f.(type) {
	case radial:
		switch {
		case f.s == whole() && f.norm == 0 && f.l2 == 0:
			return L2Ball{f.r}
		case f.s == whole() && f.l2 == 0 && f.r == inf:
			return L2Norm{f.norm}
		case f.s.l1 == 0 && f.norm == 0 && f.l2 == 0:
			return radialSet{f}
		}
	case weighted:
		if f.l1 == 0 {
			return f.set
		}
	case fused:
		if f.s == whole() {
			return f.tv
		}
	case absBall:
		switch {
		case f.s == whole():
			return L1Ball{f.r}
		case f.s.l1 == 0:
			return absBallSet{f}
		}
	}
	return f
}

// radialSet and absBallSet are a ball cut by an orthant.
type (
	radialSet  struct{ radial }
	absBallSet struct{ absBall }
)

func (g radialSet) Radius(dim int) float64  { return L2Ball{g.r}.Radius(dim) }
func (g absBallSet) Radius(dim int) float64 { return L1Ball{g.r}.Radius(dim) }

// ridge is g(x) + (l2/2)‖x‖₂², with prox_{γ(g+l2‖·‖²/2)}(x) = prox_{γ′g}(x/(1+γ·l2)), γ′ =
// γ/(1+γ·l2), by completing the square. [BC17, Prop. 24.8]
type ridge struct {
	g  Operator
	l2 float64
}

// newRidge returns g + (l2/2)‖·‖₂².
func newRidge(g Operator, l2 float64) Operator {
	if l2 == 0 {
		return g
	}
	_, dist := g.(Subdifferential)
	return expose(ridge{g, l2}, dist, false, false)
}

func (g ridge) Func(x []float64) float64 {
	n := norm2(x)
	return number(g.g.Func(x) + g.l2/2*n*n)
}

func (g ridge) Prox(dst, x []float64, gamma float64) {
	sameLen(dst, x)
	s := 1 / (1 + gamma*g.l2)
	floats.ScaleTo(dst, s, x)
	g.g.Prox(dst, dst, gamma*s)
}

func (g ridge) check(dim int) error {
	if err := weight("squared ℓ2 weight", g.l2); err != nil {
		return err
	}
	return Check(g.g, dim)
}

// dist is the Dist of g at v + l2·x, plus l2·Shift because the gradient of the square is l2·x′.
func (g ridge) dist(x, v []float64) float64 {
	sameLen(x, v)
	buf := borrow(len(v))
	defer giveBack(buf)
	floats.AddScaledTo(*buf, v, g.l2, x)
	return g.g.(Subdifferential).Dist(x, *buf) + g.l2*g.shift(x)
}

func (g ridge) shift(x []float64) float64 { return RoundingOf(g.g).Shift(x) }

// addCoordinates returns g + h, as a Set if both are.
func addCoordinates(g, h Coordinatewise) Operator {
	_, gSet := g.(Set)
	_, hSet := h.(Set)
	return expose(each{coordinates{g, h}}, true, gSet && hSet, true)
}

// coordinates is the sum of two Coordinatewise operators whose coefficients may differ between
// coordinates.
type coordinates struct{ g, h Coordinatewise }

func (c coordinates) at(i int) separable { return coordinate(c.g, i).with(coordinate(c.h, i)) }

// check wants the lengths of both parts.
func (c coordinates) check(dim int) error {
	if err := Check(c.g, dim); err != nil {
		return err
	}
	return Check(c.h, dim)
}

// radius returns the smaller radius, an upper bound.
func (c coordinates) radius(dim int) float64 {
	return min(c.g.(Set).Radius(dim), c.h.(Set).Radius(dim))
}

// coordinate returns the coefficients of coordinate i of g.
func coordinate(g Coordinatewise, i int) separable {
	l1, l2, lo, hi := g.Coordinate(i)
	return separable{l1, l2, lo, hi}
}

// each is a sum over coordinates with coefficients of their own.
type each struct{ coefficients }

// coefficients are the coefficients of an each; check checks everything else.
type coefficients interface {
	check(dim int) error
	at(i int) separable
	radius(dim int) float64 // of a Set
}

func (g each) Func(x []float64) float64             { return valueOf(g, x) }
func (g each) Prox(dst, x []float64, gamma float64) { proxOf(g, dst, x, gamma) }
func (g each) dist(x, v []float64) float64          { return distOf(g, x, v) }

// separately is a sum over coordinates.
type separately interface{ at(i int) separable }

func valueOf[G separately](g G, x []float64) float64 {
	sum := 0.0
	for i := range x {
		sum += g.at(i).Func(x[i : i+1])
	}
	return number(sum)
}

func proxOf[G separately](g G, dst, x []float64, gamma float64) {
	sameLen(dst, x)
	for i := range x {
		g.at(i).Prox(dst[i:i+1], x[i:i+1], gamma)
	}
}

func distOf[G separately](g G, x, v []float64) float64 {
	return overCoordinates(x, v, func(i int, xi, vi float64) float64 { return g.at(i).gap(xi, vi) })
}

func (g each) shift([]float64) float64                   { return 0 }
func (g each) coordinate(i int) (l1, l2, lo, hi float64) { return g.at(i).Coordinate(i) }

func (g each) check(dim int) error {
	if err := g.coefficients.check(dim); err != nil {
		return err
	}
	for i := range dim {
		if err := g.at(i).check(1); err != nil {
			return err
		}
	}
	return nil
}
