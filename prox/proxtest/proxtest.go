// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package proxtest tests implementations of prox.Operator. One line per operator in a test,
// Check(t, op, dim), checks the promises of package prox.
//
// # Notation
//
//	g, γ     the operator, the step
//	p, q     prox_{γg}(x), prox_{γg}(y)
//	Φ(u)     g(u) + ‖u−x‖²/(2γ), whose minimizer is p
//	D        Dist(p, v) = dist(−v, ∂g(p))
//
// References in brackets: docs/theory/numerics.md
package proxtest

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/prox"
)

// T is the part of testing.TB that Check needs, so that a test can observe a failure of Check.
type T interface {
	Helper()
	Errorf(format string, args ...any)
}

// rounding is the relative error allowed to sums over a handful of coordinates
// whose terms are correct to a few units of 2⁻⁵³: 10⁵ of them.
const rounding = 1e-11

// Check tests op in dim ≥ 1 dimensions, on points drawn from a fixed seed at several scales:
//
//   - definition: Φ(u) ≥ Φ(p) + ‖u−p‖²/(2γ) for points u of the domain, which
//     holds for all u exactly if p is the minimizer
//   - firm nonexpansiveness: ‖p−q‖² ≤ ⟨p−q, x−y⟩
//   - sets: P(P(x)) = P(x), γ does not matter, ‖p‖ ≤ Radius, Func is 0 or +Inf
//   - dst may be x, x is not changed otherwise, nothing is allocated, and lengths that do not match
//     panic with a text, as floats.Dot does
//   - prox.Subdifferential: Dist(p, (p−x)/γ) = 0; Dist is +Inf exactly outside
//     the domain; and D is the limit from below of the rate
//     ‖p − prox_{tg}(p−tv)‖/t as t falls to 0 [BC17, Cor. 23.46], so that it is
//     neither under- nor over-reported
//   - the Shift of p is a few units in the last place
//   - prox.Coordinatewise: the coefficients give the same function values
//   - prox.Check(op, dim) is nil
func Check(t T, op prox.Operator, dim int) {
	t.Helper()
	c := &checker{T: t, op: op, dim: dim, rnd: rand.New(rand.NewPCG(1, uint64(dim)))}
	if err := prox.Check(op, dim); err != nil {
		t.Errorf("Check(%d) = %v, want nil", dim, err)
	}
	c.panics()
	points := c.points()
	for _, gamma := range []float64{0.03, 1, 20} {
		var images [][]float64
		for _, x := range points {
			images = append(images, c.prox(x, gamma))
		}
		for i, x := range points {
			c.definition(x, images[i], gamma, images)
			c.firm(x, images[i], points[(i+1)%len(points)], images[(i+1)%len(points)])
			c.set(x, images[i])
			c.dist(x, images[i], gamma)
		}
	}
	c.coordinates(points)
	c.allocations(points[0])
}

type checker struct {
	T
	op  prox.Operator
	dim int
	rnd *rand.Rand
}

// points draws the arguments: several scales, zeros and ties, and 0 itself.
func (c *checker) points() [][]float64 {
	points := [][]float64{make([]float64, c.dim)}
	for _, scale := range []float64{1e-3, 0.3, 1, 3, 10, 1e4} {
		for k := range 5 {
			x := make([]float64, c.dim)
			for i := range x {
				x[i] = scale * c.rnd.NormFloat64()
				switch {
				case k == 1 && c.rnd.IntN(2) == 0:
					x[i] = 0
				case k == 2:
					x[i] = math.Copysign(scale, x[i])
				case k == 3:
					x[i] = math.Abs(x[i])
				}
			}
			points = append(points, x)
		}
	}
	return points
}

// prox returns prox_{γg}(x), and checks aliasing and that x is not changed.
func (c *checker) prox(x []float64, gamma float64) []float64 {
	c.Helper()
	in, p := slices.Clone(x), make([]float64, c.dim)
	c.op.Prox(p, in, gamma)
	if !slices.Equal(in, x) {
		c.Errorf("Prox changes x = %v to %v", x, in)
	}
	c.op.Prox(in, in, gamma)
	if !slices.Equal(in, p) {
		c.Errorf("Prox of x = %v in place is %v, want %v", x, in, p)
	}
	if f := c.op.Func(p); math.IsNaN(f) || math.IsInf(f, 0) {
		c.Errorf("Func at prox(%v) = %v is %v, want finite", x, p, f)
	}
	return p
}

// definition compares Φ at p with Φ on the domain: at images of other points,
// between them and p, and around p where g is finite.
func (c *checker) definition(x, p []float64, gamma float64, images [][]float64) {
	c.Helper()
	phi := func(u []float64) (value, size float64) {
		g := c.op.Func(u)
		d := floats.Distance(u, x, 2)
		return g + d*d/(2*gamma), math.Abs(g) + d*d/(2*gamma)
	}
	best, size := phi(p)
	size += floats.Dot(x, x) / gamma // for the rounding of x−p
	u := make([]float64, c.dim)
	test := func() {
		v, s := phi(u)
		d := floats.Distance(u, p, 2)
		if v < best+d*d/(2*gamma)-rounding*(1+size+s) {
			c.Errorf("γ = %v: prox(%v) = %v has Φ = %.17g, but %v has %.17g, want at least %.17g",
				gamma, x, p, best, u, v, best+d*d/(2*gamma))
		}
	}
	for _, q := range images {
		for _, s := range []float64{1, 0.1, 1e-3} {
			floats.AddScaledTo(u, p, s, floats.SubTo(u, q, p)) // p + s(q−p)
			test()
		}
	}
	scale := 1e-3 + floats.Norm(p, math.Inf(1))
	for range 4 {
		for i := range u {
			u[i] = p[i] + scale*c.rnd.NormFloat64()
		}
		test()
	}
	for i := range u {
		for _, h := range []float64{scale, -scale, 1e-3 * scale, -1e-3 * scale} {
			copy(u, p)
			u[i] += h
			test()
		}
	}
}

func (c *checker) firm(x, p, y, q []float64) {
	c.Helper()
	a, b := make([]float64, c.dim), make([]float64, c.dim)
	floats.SubTo(a, p, q)
	floats.SubTo(b, x, y)
	size := floats.Dot(x, x) + floats.Dot(y, y)
	if lhs, rhs := floats.Dot(a, a), floats.Dot(a, b); lhs > rhs+rounding*(1+size) {
		c.Errorf("‖p−q‖² = %v exceeds ⟨p−q,x−y⟩ = %v at x = %v, y = %v", lhs, rhs, x, y)
	}
}

func (c *checker) set(x, p []float64) {
	c.Helper()
	set, ok := c.op.(prox.Set)
	if !ok {
		return
	}
	for _, u := range [][]float64{x, p} {
		if f := set.Func(u); f != 0 && !math.IsInf(f, 1) {
			c.Errorf("Func(%v) = %v, want 0 or +Inf for a set", u, f)
		}
	}
	again := make([]float64, c.dim)
	set.Prox(again, p, 7)
	norm := floats.Norm(p, 2)
	if floats.Distance(again, p, 2) > rounding*(1+norm) {
		c.Errorf("projecting %v again gives %v", p, again)
	}
	set.Prox(again, x, 7)
	if !slices.Equal(again, p) {
		c.Errorf("the projection of %v depends on γ: %v and %v", x, p, again)
	}
	if r := set.Radius(c.dim); !(norm <= r*(1+rounding)) {
		c.Errorf("the point %v has norm %v above Radius = %v", p, norm, r)
	}
}

func (c *checker) dist(x, p []float64, gamma float64) {
	c.Helper()
	sub, ok := c.op.(prox.Subdifferential)
	if !ok {
		return
	}
	v := make([]float64, c.dim)
	floats.SubTo(v, p, x)
	floats.Scale(1/gamma, v)
	norm := floats.Norm(x, 2) + floats.Norm(p, 2)
	if d := sub.Dist(p, v); !(d <= rounding*(1+norm+norm/gamma)) {
		c.Errorf("γ = %v: Dist(p, (p−x)/γ) = %v at x = %v, p = %v, want 0", gamma, d, x, p)
	}
	if in, finite := !math.IsInf(sub.Func(x), 1), !math.IsInf(sub.Dist(x, v), 1); in != finite {
		c.Errorf("Func(%v) = %v but Dist = %v", x, sub.Func(x), sub.Dist(x, v))
	}
	if s := prox.RoundingOf(c.op).Shift(p); !(s <= rounding*(1+norm)) {
		c.Errorf("Shift(%v) = %v, want a few units in the last place", p, s)
	}
	for _, noise := range []float64{0.1, 3} {
		w := slices.Clone(v)
		for i := range w {
			w[i] += noise * c.rnd.NormFloat64()
		}
		c.rate(sub, p, w)
	}
}

// rate compares D = Dist(p, v) with r(t) = ‖p − prox_{tg}(p−tv)‖/t, which
// rises to D as t falls to 0.
func (c *checker) rate(sub prox.Subdifferential, p, v []float64) {
	c.Helper()
	d := sub.Dist(p, v)
	// The step moves p by about t·D and must stay small against the distance
	// to the next kink, and large against the rounding of p.
	size := floats.Norm(p, 2)
	vv := floats.Norm(v, 2)
	u := make([]float64, c.dim)
	near := math.Inf(1)
	for _, t := range []float64{1e-2, 1e-4, 1e-6, 1e-8, 1e-10} {
		floats.AddScaledTo(u, p, -t, v)
		sub.Prox(u, u, t)
		r := floats.Distance(u, p, 2) / t
		slack := rounding*(1+vv) + 1e-14*(size+t*vv)/t // 100 units of 2⁻⁵³ in p
		if r > d+slack {
			c.Errorf("Dist(%v, %v) = %v under-reports: t = %v shows at least %v", p, v, d, t, r-slack)
		}
		near = min(near, d-r-slack)
	}
	if near > 1e-3*(1+vv) { // r(t) is within O(t) of D unless a kink is nearer than t·D
		c.Errorf("Dist(%v, %v) = %v over-reports by %v", p, v, d, near)
	}
}

func (c *checker) coordinates(points [][]float64) {
	c.Helper()
	co, ok := c.op.(prox.Coordinatewise)
	if !ok {
		return
	}
	for _, x := range points {
		want, size := 0.0, 0.0
		for i, xi := range x {
			l1, l2, lo, hi := co.Coordinate(i)
			want += l1*math.Abs(xi) + l2/2*xi*xi
			if xi < lo || xi > hi {
				want = math.Inf(1)
			}
			size += l1*math.Abs(xi) + l2*xi*xi
		}
		if got := co.Func(x); got != want && !(math.Abs(got-want) <= rounding*size) {
			c.Errorf("Func(%v) = %v, but Coordinate gives %v", x, got, want)
		}
	}
}

func (c *checker) allocations(x []float64) {
	c.Helper()
	dst := make([]float64, c.dim)
	// A pool may drop its scratch, under the race detector on every fourth call. One call of a hundred
	// without an allocation shows that none is needed.
	least := math.Inf(1)
	for range 100 {
		if least = min(least, testing.AllocsPerRun(1, func() { c.op.Prox(dst, x, 1) })); least == 0 {
			return
		}
	}
	c.Errorf("Prox makes %v allocations, want none", least)
}

func (c *checker) panics() {
	c.Helper()
	x, long := make([]float64, c.dim), make([]float64, c.dim+1)
	calls := map[string]func(){
		"Prox with a long dst": func() { c.op.Prox(long, x, 1) },
		"Prox with a long x":   func() { c.op.Prox(x, long, 1) },
	}
	if sub, ok := c.op.(prox.Subdifferential); ok {
		calls["Dist with a long x"] = func() { sub.Dist(long, x) }
		calls["Dist with a long v"] = func() { sub.Dist(x, long) }
	}
	for name, call := range calls {
		func() {
			defer func() {
				own := strings.HasSuffix(reflect.TypeOf(c.op).PkgPath(), "privopt/prox")
				if s, ok := recover().(string); !ok || own && !strings.HasPrefix(s, "prox: ") {
					c.Errorf("%s does not panic with a text: compare the lengths first", name)
				}
			}()
			call()
		}()
	}
}
