// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package prox

import (
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/internal/num"
)

// calculus is an operator that is made of other operators, and inherits some of their abilities:
// expose wraps it in the matching type.
type calculus = checker

// The abilities an operator of the calculus may have.
type (
	canDist       interface{ dist(x, v []float64) float64 }
	canShift      interface{ shift(x []float64) float64 }
	canRadius     interface{ radius(dim int) float64 }
	canCoordinate interface {
		coordinate(i int) (l1, l2, lo, hi float64)
	}
)

type (
	certified    struct{ calculus }
	plainSet     struct{ calculus }
	certifiedSet struct{ certified }
	coordwise    struct{ certified }
	coordSet     struct{ coordwise }
)

func (g certified) Dist(x, v []float64) float64 { return g.calculus.(canDist).dist(x, v) }
func (g certified) shift(x []float64) float64   { return g.calculus.(canShift).shift(x) }
func (g plainSet) Radius(dim int) float64       { return setRadius(g.calculus, dim) }
func (g certifiedSet) Radius(dim int) float64   { return setRadius(g.calculus, dim) }
func (g coordSet) Radius(dim int) float64       { return setRadius(g.calculus, dim) }

func (g coordwise) Coordinate(i int) (l1, l2, lo, hi float64) {
	return g.calculus.(canCoordinate).coordinate(i)
}

// setRadius returns the radius of a set that passes its check, else +Inf.
func setRadius(g calculus, dim int) float64 {
	if g.check(dim) != nil {
		return inf
	}
	return g.(canRadius).radius(dim)
}

// expose wraps g in a type that implements exactly the requested interfaces: rounded, Set and
// Coordinatewise. A Coordinatewise is always rounded.
func expose(g calculus, dist, set, coordinate bool) Operator {
	switch {
	case coordinate && set:
		return coordSet{coordwise{certified{g}}}
	case coordinate:
		return coordwise{certified{g}}
	case dist && set:
		return certifiedSet{certified{g}}
	case dist:
		return certified{g}
	case set:
		return plainSet{g}
	}
	return g
}

// abilities reports whether op is a Subdifferential, a Set, and both Coordinatewise and a
// Subdifferential.
func abilities(op Operator) (dist, set, coordinate bool) {
	_, dist = op.(Subdifferential)
	_, set = op.(Set)
	_, coordinate = op.(Coordinatewise)
	return dist, set, coordinate && dist
}

// orZero returns g, and the operator 0 for nil.
func orZero(g Operator) Operator {
	if g == nil {
		return whole()
	}
	return g
}

// seminorm is an operator of this package with g(ax) = |a|g(x) that is finite everywhere.
type seminorm interface {
	Subdifferential
	// lipschitz returns max{‖u‖₂ : u ∈ ∂g(0)}, the Lipschitz constant in dim dimensions, rounded up.
	lipschitz(dim int) float64
}

// asSeminorm returns g as a seminorm if its concrete type is a seminorm. A struct that embeds a
// seminorm may be another function.
func asSeminorm(g Operator) (seminorm, bool) {
	switch g.(type) {
	case L2Norm, GroupL2, LInfNorm, SortedL1, TotalVariation, NuclearNorm:
		return g.(seminorm), true
	}
	return nil, false
}

func (g L2Norm) lipschitz(int) float64 { return g.Weight }

func (g GroupL2) lipschitz(int) float64 {
	if g.Weights == nil {
		n := 0.0
		for _, group := range g.Groups {
			if len(group) > 0 {
				n++
			}
		}
		return math.Sqrt(n) * g.Weight * (1 + 4*ulp)
	}
	return norm2(g.Weights) * g.Weight * (1 + 8*ulp)
}

// lenient returns g(y) for a point y that rounding may have moved by nearSphere·size. A point that
// is off the domain by no more counts as the nearest point of the domain.
func lenient(g Operator, y []float64, size float64) float64 {
	f := g.Func(y)
	if !math.IsInf(f, 1) || !(size <= math.MaxFloat64) {
		return f
	}
	buf := borrow(len(y))
	defer giveBack(buf)
	p := *buf
	g.Prox(p, y, 0x1p-200) // γ → 0: the projection on the domain
	var d ssq
	for i, yi := range y {
		d.add(math.Abs(p[i] - yi))
	}
	if d.norm() <= float64(len(y))*nearSphere*size {
		return g.Func(p)
	}
	return f
}

// Translate returns g(x − by), whose proximal map is
// by + prox_{γg}(x − by) [PB14, §2.2]. A nil g is 0; by is copied.
//
// The result is a Set if g is a Set, with an upper bound of the radius. It is a Subdifferential if
// g is Coordinatewise (bounds are rounded to lo + by_i and hi + by_i, and then exact), L2Norm,
// GroupL2 or Huber (kinks are where coordinates are 0, which subtraction decides exactly; Shift
// reports its rounding elsewhere). Other faces do not survive the rounding of x − by, and
// membership allows for it.
func Translate(g Operator, by []float64) Operator {
	t := translated{orZero(g), append([]float64(nil), by...)}
	_, set, coordinate := abilities(t.g)
	if coordinate {
		return expose(moved{t, t.g.(Coordinatewise)}, true, set, false)
	}
	switch t.g.(type) {
	case L2Norm, GroupL2, Huber:
		return expose(t, true, set, false)
	}
	return expose(t, false, set, false)
}

// translated is g(x − by).
type translated struct {
	g  Operator
	by []float64
}

// minus returns x − by in borrowed scratch.
func (t translated) minus(x []float64) *[]float64 {
	sameLen(x, t.by)
	buf := borrow(len(x))
	floats.SubTo(*buf, x, t.by)
	return buf
}

func (t translated) Func(x []float64) float64 {
	y := t.minus(x)
	defer giveBack(y)
	return lenient(t.g, *y, norm2(x)+norm2(t.by))
}

func (t translated) Prox(dst, x []float64, gamma float64) {
	sameLen(dst, x)
	buf := t.minus(x)
	defer giveBack(buf)
	y := *buf
	t.g.Prox(y, y, gamma)
	for i, xi := range x {
		// by + y, or x minus the displacement if the displacement is smaller than y.
		d := (xi - t.by[i]) - y[i]
		if math.Abs(d) < math.Abs(y[i]) {
			dst[i] = xi - d
		} else {
			dst[i] = t.by[i] + y[i]
		}
	}
}

func (t translated) dist(x, v []float64) float64 {
	y := t.minus(x)
	defer giveBack(y)
	return t.g.(Subdifferential).Dist(*y, v)
}

// shift: x′ = by + y for the rounded y = x − by, and x′−x is the error of the subtraction, which
// Sum returns exactly.
func (t translated) shift(x []float64) float64 {
	sameLen(x, t.by)
	var d ssq
	for i, xi := range x {
		_, e := num.TwoSum(xi, -t.by[i])
		d.add(math.Abs(e))
	}
	return d.norm() * (1 + float64(len(x))*4*ulp)
}

func (t translated) radius(dim int) float64 {
	return (t.g.(Set).Radius(dim) + norm2(t.by)) * (1 + 8*ulp)
}

func (t translated) check(dim int) error {
	if len(t.by) != dim {
		return invalid("translation by %d coordinates in %d dimensions", len(t.by), dim)
	}
	if !finite(t.by) {
		return invalid("translation by a number that is not finite")
	}
	return Check(t.g, dim)
}

// moved is translated for a coordinatewise g,
// Σ l1|y_i| + (l2/2)y_i² + ι_[lo+by,hi+by](x_i), y = x − by.
type moved struct {
	translated
	c Coordinatewise
}

// at returns the coefficients of coordinate i with the bounds of x_i.
func (m moved) at(i int) separable {
	s := coordinate(m.c, i)
	s.lo += m.by[i]
	s.hi += m.by[i]
	return s
}

func (m moved) Func(x []float64) float64 {
	sameLen(x, m.by)
	sum := 0.0
	for i, xi := range x {
		s := m.at(i)
		if !s.inside(xi) {
			return inf
		}
		y := xi - m.by[i]
		sum += s.l1*math.Abs(y) + s.l2/2*y*y
	}
	return number(sum)
}

func (m moved) Prox(dst, x []float64, gamma float64) {
	sameLen(dst, x)
	sameLen(x, m.by)
	for i, xi := range x {
		s, y := m.at(i), xi-m.by[i]
		t, r := gamma*s.l1, gamma*s.l2
		c := min(max(y, -t), t)
		p := xi - c - r/(1+r)*(y-c) // by + (y−c)/(1+r)
		if c == y {
			p = m.by[i]
		}
		dst[i] = min(max(p, s.lo), s.hi)
	}
}

func (m moved) dist(x, v []float64) float64 {
	sameLen(x, m.by)
	return overCoordinates(x, v, func(i int, xi, vi float64) float64 {
		s, y := m.at(i), xi-m.by[i] // y is 0 exactly where xi is by
		if !s.inside(xi) {
			return inf
		}
		t := separable{s.l1, s.l2, -inf, inf}
		if xi == s.lo {
			t.lo = y
		}
		if xi == s.hi {
			t.hi = y
		}
		return t.gap(y, vi)
	})
}

func (m moved) shift([]float64) float64 { return 0 }

// Scale returns w·g(a·x) for a ≠ 0 and w > 0, whose proximal map is
// prox_{γwa²g}(a·x)/a [PB14, §2.2]. A nil g is 0.
//
// Norms, total variation, balls and Coordinatewise operators (bounds are rounded to lo/a and hi/a)
// keep all abilities. Other operators keep them if a is ± a power of two, which rounds nothing; for
// another a the result is not a Subdifferential, because faces do not survive the rounding of a·x,
// and membership allows for it. Sets stay sets.
func Scale(g Operator, a, w float64) Operator {
	s := scaled{g: orZero(g), a: a, w: w}
	if factor("", a) != nil || factor("", w) != nil || w < 0 {
		return s // refused by Check
	}
	dist, set, coordinate := abilities(s.g)
	abs := math.Abs(a)
	if coordinate {
		return expose(each{stretched{s, s.g.(Coordinatewise)}}, true, set, true)
	}
	if norm, ok := asSeminorm(s.g); ok {
		return expose(scaled{norm, 1, w * abs, true}, true, false, false)
	}
	switch g := s.g.(type) {
	case L2Ball:
		return L2Ball{g.R / abs}
	case L1Ball:
		return L1Ball{g.R / abs}
	case SpectralBall:
		return SpectralBall{g.Rows, g.Cols, g.R / abs}
	}
	mantissa, _ := math.Frexp(abs)
	s.exact = mantissa == 0.5 // a is ± a power of two
	return expose(s, dist && s.exact, set, false)
}

// factor returns an error unless a is in size between 2⁻⁴⁰⁰ and 2⁴⁰⁰.
func factor(field string, a float64) error {
	if abs := math.Abs(a); !(abs >= 0x1p-400 && abs <= 0x1p400) {
		return invalid("%s = %v, want a size in [2⁻⁴⁰⁰, 2⁴⁰⁰]", field, a)
	}
	return nil
}

// scaled is w·g(a·x). If exact, a·x is not rounded.
type scaled struct {
	g     Operator
	a, w  float64
	exact bool
}

// times returns c·x in borrowed scratch.
func times(c float64, x []float64) *[]float64 {
	buf := borrow(len(x))
	floats.ScaleTo(*buf, c, x)
	return buf
}

func (s scaled) Func(x []float64) float64 {
	y := times(s.a, x)
	defer giveBack(y)
	if s.exact {
		return number(s.w * s.g.Func(*y))
	}
	return number(s.w * lenient(s.g, *y, norm2(*y)))
}

func (s scaled) Prox(dst, x []float64, gamma float64) {
	sameLen(dst, x)
	floats.ScaleTo(dst, s.a, x)
	s.g.Prox(dst, dst, gamma*s.w*s.a*s.a)
	for i := range dst {
		dst[i] /= s.a
	}
}

// dist: ∂(w·g(a·))(x) = wa·∂g(ax), and dist(−v, wa·U) = w|a|·dist(−v/(wa), U).
func (s scaled) dist(x, v []float64) float64 {
	y, u := times(s.a, x), times(1/(s.w*s.a), v)
	defer giveBack(y)
	defer giveBack(u)
	return number(s.w * math.Abs(s.a) * s.g.(Subdifferential).Dist(*y, *u))
}

func (s scaled) shift(x []float64) float64 {
	y := times(s.a, x)
	defer giveBack(y)
	var d ssq
	for i, xi := range x {
		d.add(math.Abs((*y)[i]/s.a - xi)) // 0 except for underflow: a is a power of two
	}
	return number(RoundingOf(s.g).Shift(*y)/math.Abs(s.a) + d.norm())
}

func (s scaled) radius(dim int) float64 { return s.g.(Set).Radius(dim) / math.Abs(s.a) * (1 + 4*ulp) }

func (s scaled) check(dim int) error {
	if err := factor("scaling of the argument", s.a); err != nil {
		return err
	}
	if err := factor("scaling of the value", s.w); err != nil {
		return err
	}
	if s.w < 0 {
		return invalid("scaling of the value = %v, want a number above 0", s.w)
	}
	return Check(s.g, dim)
}

// stretched is scaled for a coordinatewise g, in closed form.
type stretched struct {
	scaled
	c Coordinatewise
}

func (s stretched) at(i int) separable {
	g := coordinate(s.c, i)
	if s.a < 0 {
		g.lo, g.hi = g.hi, g.lo
	}
	return separable{s.w * math.Abs(s.a) * g.l1, s.w * s.a * s.a * g.l2, g.lo / s.a, g.hi / s.a}
}
