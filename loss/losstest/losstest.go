// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package losstest tests implementations of [loss.Loss] against the contract of package loss, whose
// notation it uses. A test needs one line per loss:
//
//	func TestSquared(t *testing.T) { losstest.Check(t, loss.Squared{}) }
package losstest

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/loss"
)

// T is the part of [testing.TB] that Check needs, so that a test can watch Check fail.
type T interface {
	Helper()
	Errorf(format string, args ...any)
}

const (
	dim = 5
	// rounding is the relative error allowed to sums over a few coordinates whose terms are correct
	// to a few units of 2⁻⁵³.
	rounding = 1e-12
	// step of central differences: their error is at most β‖a‖·step from the curvature and
	// |ℓ|·2⁻⁵²/step from rounding.
	step = 1e-5
)

// Check tests l on records drawn from a fixed seed inside several bounds, half of them at the
// bounds, and parameters inside several radii:
//
//   - Grad agrees with differences of Func, overwrites dst and changes nothing else; neither
//     allocates; lengths that do not match panic with a text, as floats.Dot does
//   - Func is convex along lines and Grad monotone
//   - no record inside the bounds beats L, β or Range, which grow with the bounds; invalid bounds
//     give the zero Constants
//   - the gradients and Hessians of one record have the declared Structure and Rank
//   - loss.Linear: Scalar agrees with Func and Grad, φ″ ≥ 0 is the slope of φ′, nothing is NaN for
//     huge predictions, and φ′ keeps its sign if Constants say Monotone
//   - loss.Interpolator, loss.Clippable, loss.Exact: they agree with φ′
//   - loss.Envelope: no record has more curvature than its gradient allows
//   - loss.Check is nil
//
// The slope of φ′ is a difference that allows for |φ‴| ≤ 1. Choose parameters accordingly: a
// correct loss that bends more, such as one of a small width, fails.
func Check(t T, l loss.Loss) {
	t.Helper()
	c := &checker{T: t, l: l, rnd: rand.New(rand.NewPCG(2, 3))}
	if err := loss.Check(l); err != nil {
		t.Errorf("Check() = %v, want nil", err)
	}
	c.panics()
	c.allocations()
	c.invalid()
	for _, b := range []loss.Bounds{{Row: 1, Label: 1}, {Row: 3, Label: 0.5}, {Row: 0.2, Label: 7}} {
		for _, radius := range []float64{0, 1, 10, math.Inf(1)} {
			k := l.Constants(b, radius)
			c.monotoneConstants(b, radius, k)
			for range 60 {
				c.record(b, radius, k)
			}
			c.rank(b, radius, k)
		}
		if lin, ok := l.(loss.Linear); ok {
			for range 200 {
				c.scalar(lin, b)
			}
		}
		if e, ok := l.(loss.Envelope); ok {
			c.envelope(e, b)
		}
	}
}

type checker struct {
	T
	l   loss.Loss
	rnd *rand.Rand
}

// vector draws a point of the ball of the given radius, every other one on the sphere. For an
// infinite radius it draws points of many sizes.
func (c *checker) vector(radius float64) []float64 {
	if math.IsInf(radius, 1) {
		radius = math.Pow(10, 6*c.rnd.Float64()-2)
	}
	x := make([]float64, dim)
	for i := range x {
		x[i] = c.rnd.NormFloat64()
	}
	if c.rnd.IntN(2) == 0 {
		radius *= c.rnd.Float64()
	}
	floats.Scale(radius*(1-1e-15)/floats.Norm(x, 2), x)
	return x
}

// label draws a label inside the bound, every other one at it.
func (c *checker) label(b loss.Bounds) float64 {
	if c.rnd.IntN(2) == 0 {
		return math.Copysign(b.Label, c.rnd.Float64()-0.5)
	}
	return b.Label * (2*c.rnd.Float64() - 1)
}

// record tests one record at two parameters, one of them along ±a half of the time, where
// predictions are extreme.
func (c *checker) record(bounds loss.Bounds, radius float64, k loss.Constants) {
	c.Helper()
	a, b := c.vector(bounds.Row), c.label(bounds)
	x, y := c.vector(radius), c.vector(radius)
	if c.rnd.IntN(2) == 0 {
		s := floats.Norm(x, 2) / floats.Norm(a, 2)
		floats.ScaleTo(x, math.Copysign(s, c.rnd.Float64()-0.5), a)
	}
	if c.rnd.IntN(2) == 0 { // close points see the curvature
		floats.AddScaledTo(y, x, -1e-3*c.rnd.Float64(), x)
	}
	fx, fy := c.l.Func(x, a, b), c.l.Func(y, a, b)
	gx, gy := c.grad(x, a, b), c.grad(y, a, b)
	if math.IsNaN(fx) || floats.HasNaN(gx) {
		c.Errorf("NaN at θ = %v, a = %v, b = %v", x, a, b)
		return
	}
	c.differences(x, a, b, fx, gx, k.Smoothness)

	size := 1 + math.Abs(fx) + math.Abs(fy)
	mid := make([]float64, dim)
	floats.AddTo(mid, x, y)
	floats.Scale(0.5, mid)
	if f := c.l.Func(mid, a, b); f > (fx+fy)/2+rounding*size {
		c.Errorf("not convex: Func is %v and %v at θ = %v and %v, but %v between", fx, fy, x, y, f)
	}
	dx, dg := make([]float64, dim), make([]float64, dim)
	floats.SubTo(dx, x, y)
	floats.SubTo(dg, gx, gy)
	grads := floats.Norm(gx, 2) + floats.Norm(gy, 2)
	if s := floats.Dot(dx, dg); s < -rounding*(1+grads)*floats.Norm(dx, 2) {
		c.Errorf("Grad is not monotone: ⟨∇ℓ(x)−∇ℓ(y), x−y⟩ = %v at %v and %v", s, x, y)
	}

	if k.Range > 0 && math.Abs(fx-fy) > k.Range {
		c.Errorf("ℓ(x) − ℓ(y) = %v beats Range = %v: θ = %v and %v, a = %v, b = %v, bounds %+v, radius %v", fx-fy, k.Range, x,
			y, a, b, bounds, radius)
	}
	if k.Lipschitz > 0 && floats.Norm(gx, 2) > k.Lipschitz {
		c.Errorf("‖∇ℓ‖ = %v beats L = %v: θ = %v, a = %v, b = %v, bounds %+v, radius %v", floats.Norm(gx, 2), k.Lipschitz, x,
			a, b, bounds, radius)
	}
	if d := floats.Norm(dg, 2); k.Smoothness > 0 && d > k.Smoothness*floats.Norm(dx, 2)+rounding*(1+grads) {
		c.Errorf("‖∇ℓ(x)−∇ℓ(y)‖/‖x−y‖ = %v beats β = %v: a = %v, b = %v, bounds %+v", d/floats.Norm(dx, 2), k.Smoothness, a,
			b, bounds)
	}
	if k.Structure == loss.LSQ {
		g := c.grad(mid, a, b)
		floats.Scale(2, g)
		floats.Sub(g, gx)
		floats.Sub(g, gy)
		if floats.Norm(g, 2) > rounding*(1+grads) {
			c.Errorf("structure LSQ, but Grad is not affine between %v and %v", x, y)
		}
	}
	if k.Structure == loss.LSQ || k.Structure == loss.GLM {
		floats.AddScaledTo(dg, gx, -floats.Dot(gx, a)/floats.Dot(a, a), a)
		if floats.Norm(dg, 2) > rounding*floats.Norm(gx, 2) {
			c.Errorf("structure %v, but Grad = %v is not along a = %v", k.Structure, gx, a)
		}
		if k.Rank != 1 {
			c.Errorf("structure %v has rank %d, want 1", k.Structure, k.Rank)
		}
	}
}

// grad returns ∇ℓ and checks that Grad writes all of dst and nothing else.
func (c *checker) grad(theta, a []float64, b float64) []float64 {
	c.Helper()
	in, row := slices.Clone(theta), slices.Clone(a)
	dst := make([]float64, dim)
	c.l.Grad(dst, in, row, b)
	again := make([]float64, dim)
	for i := range again {
		again[i] = 1e9
	}
	c.l.Grad(again, in, row, b)
	if !slices.Equal(again, dst) {
		c.Errorf("Grad adds to dst instead of overwriting it")
	}
	if !slices.Equal(in, theta) || !slices.Equal(row, a) {
		c.Errorf("Grad changes its arguments")
	}
	return dst
}

// differences compares the gradient with central differences of Func, or at a kink, where
// Smoothness is +Inf, with one-sided differences.
func (c *checker) differences(x, a []float64, b, fx float64, gx []float64, beta float64) {
	c.Helper()
	kinked := math.IsInf(beta, 1)
	if kinked {
		beta = 0
	}
	h := step * (1 + floats.Norm(x, math.Inf(1))*1e-3)
	y := slices.Clone(x)
	for i := range x {
		y[i] = x[i] + h
		up := c.l.Func(y, a, b)
		y[i] = x[i] - h
		down := c.l.Func(y, a, b)
		y[i] = x[i]
		// |difference − gradient| ≤ βh/2; each Func may be off by a few ulps of itself and of the
		// prediction times the slope.
		tol := beta*h + 0x1p-50*(math.Abs(fx)+floats.Norm(gx, 2)*floats.Norm(x, 2)+1)/h
		if kinked { // a subgradient lies between the one-sided differences
			if l, r := (fx-down)/h, (up-fx)/h; gx[i] < l-tol || gx[i] > r+tol {
				c.Errorf("Grad[%d] = %v, one-sided differences %v and %v: θ = %v, a = %v, b = %v", i, gx[i], l, r, x, a, b)
			}
			continue
		}
		if d := (up - down) / (2 * h); math.Abs(d-gx[i]) > tol {
			c.Errorf("Grad[%d] = %v, central difference %v: θ = %v, a = %v, b = %v", i, gx[i], d, x, a, b)
		}
	}
}

// monotoneConstants tests that constants grow with the bounds and the radius.
func (c *checker) monotoneConstants(b loss.Bounds, radius float64, k loss.Constants) {
	c.Helper()
	if k.Structure < loss.LSQ || k.Structure > loss.General || k.Rank < 0 {
		c.Errorf("Constants(%+v, %v) = %+v, want a structure and a rank of at least 0", b, radius, k)
	}
	for _, w := range []loss.Constants{
		c.l.Constants(loss.Bounds{Row: 2 * b.Row, Label: b.Label}, radius),
		c.l.Constants(loss.Bounds{Row: b.Row, Label: 2 * b.Label}, radius),
		c.l.Constants(b, radius+1),
	} {
		if !(w.Lipschitz >= k.Lipschitz && w.Smoothness >= k.Smoothness && w.Range >= k.Range) || w.Structure != k.Structure {
			c.Errorf("wider bounds or radius than %+v, %v lower the constants: %+v from %+v", b, radius, w, k)
		}
	}
}

// invalid tests that invalid bounds and radii give the zero Constants.
func (c *checker) invalid() {
	c.Helper()
	nan, inf := math.NaN(), math.Inf(1)
	for _, b := range []loss.Bounds{{}, {Row: 1}, {Label: 1}, {Row: -1, Label: 1}, {Row: nan, Label: 1}, {Row: 1,
		Label: inf}} {
		if k := c.l.Constants(b, 1); k != (loss.Constants{}) {
			c.Errorf("Constants(%+v, 1) = %+v, want zero", b, k)
		}
	}
	for _, radius := range []float64{-1, nan, math.Inf(-1)} {
		if k := c.l.Constants(loss.Bounds{Row: 1, Label: 1}, radius); k != (loss.Constants{}) {
			c.Errorf("Constants with radius %v = %+v, want zero", radius, k)
		}
	}
}

// rank tests FixedRange by the span of one record's gradients and General by its Hessian from
// differences of gradients.
func (c *checker) rank(b loss.Bounds, radius float64, k loss.Constants) {
	c.Helper()
	if k.Rank == 0 || k.Structure != loss.FixedRange && k.Structure != loss.General {
		return
	}
	a, label := c.vector(b.Row), c.label(b)
	theta := c.vector(radius)
	m := mat.NewDense(dim, dim, nil)
	for i := range dim {
		if k.Structure == loss.FixedRange {
			m.SetRow(i, c.grad(c.vector(radius), a, label))
			continue
		}
		up, down := slices.Clone(theta), slices.Clone(theta)
		up[i] += step
		down[i] -= step
		row := c.grad(up, a, label)
		floats.Sub(row, c.grad(down, a, label))
		floats.Scale(1/(2*step), row)
		m.SetRow(i, row)
	}
	var svd mat.SVD
	if !svd.Factorize(m, mat.SVDNone) {
		c.Errorf("no singular values of %v", mat.Formatted(m))
		return
	}
	rank := 0
	for _, s := range svd.Values(nil) {
		if s > 1e-4*svd.Values(nil)[0] { // differences are good to 1e-5
			rank++
		}
	}
	if rank > k.Rank {
		c.Errorf("structure %v: rank %d beats Rank = %d at θ = %v, a = %v", k.Structure, rank, k.Rank, theta, a)
	}
}

// scalar tests the abilities of a loss of ⟨a,θ⟩ at one record and one prediction.
func (c *checker) scalar(lin loss.Linear, bounds loss.Bounds) {
	c.Helper()
	theta, a := c.vector(math.Inf(1)), c.vector(bounds.Row)
	b := c.label(bounds)
	norm, u := floats.Norm(a, 2), floats.Dot(a, theta)
	phi, dphi, d2phi := lin.Scalar(u, b, norm)
	if f := lin.Func(theta, a, b); math.Abs(f-phi) > rounding*(1+math.Abs(f)) {
		c.Errorf("Scalar(%v, %v, %v) has φ = %v, Func is %v", u, b, norm, phi, f)
	}
	g := c.grad(theta, a, b)
	floats.AddScaled(g, -dphi, a)
	if floats.Norm(g, 2) > rounding*(1+math.Abs(dphi))*norm {
		c.Errorf("Scalar(%v, %v, %v) has φ′ = %v, Grad differs by %v", u, b, norm, dphi, g)
	}

	slope := func(u float64) float64 { _, s, _ := lin.Scalar(u, b, norm); return s }
	h := step * (1 + 1e-3*math.Abs(u))
	left, right := (dphi-slope(u-h))/h, (slope(u+h)-dphi)/h
	// φ‴ ≤ 1 in the losses of package loss: a one-sided slope is off by h/2, and by rounding. At a
	// kink of φ′ either side is right.
	tol := h + 0x1p-50*(1+math.Abs(dphi))/h
	kink := math.IsInf(lin.Constants(bounds, 1).Smoothness, 1) && slope(u+h)-slope(u-h) > 2*tol*h
	if !(d2phi >= 0) || !kink && math.Abs(left-d2phi) > tol && math.Abs(right-d2phi) > tol {
		c.Errorf("Scalar(%v, %v, %v) has φ″ = %v, slopes of φ′ are %v and %v", u, b, norm, d2phi, left, right)
	}

	for _, u := range []float64{1e300, -1e300, math.MaxFloat64, -math.MaxFloat64} {
		for _, norm := range []float64{0, 1e-300, norm} {
			if p, s, s2 := lin.Scalar(u, b, norm); math.IsNaN(p) || math.IsNaN(s) || math.IsNaN(s2) {
				c.Errorf("Scalar(%v, %v, %v) = %v, %v, %v, want no NaN", u, b, norm, p, s, s2)
			}
		}
	}

	if exact := loss.Exact(lin); exact != nil {
		hi, lo, err := exact(u, 0, b, norm)
		if !(err >= 0) || hi != hi+lo || math.Abs(hi-dphi) > err+0x1p-48*math.Abs(dphi) {
			c.Errorf("Exact(%v, 0, %v, %v) = %v + %v, error %v, but Scalar has φ′ = %v", u, b, norm, hi, lo, err, dphi)
		}
	}

	if in, ok := lin.(loss.Interpolator); ok {
		label, ok := in.Interpolate(u, b)
		if _, s, _ := lin.Scalar(u, label, norm); ok && math.Abs(s) > rounding {
			c.Errorf("Interpolate(%v, %v) = %v, where φ′ = %v", u, b, label, s)
		}
		if ok && dphi == 0 && label != b {
			c.Errorf("Interpolate(%v, %v) = %v, but φ′ is 0 at the label itself", u, b, label)
		}
	}
	if lin.Constants(bounds, 1).Monotone {
		if other := slope(-u); dphi*other < 0 {
			c.Errorf("Monotone, but φ′ is %v at %v and %v at %v with label %v", dphi, u, other, -u, b)
		}
	}
	if cl, ok := lin.(loss.Clippable); ok {
		k := math.Pow(10, 4*c.rnd.Float64()-3)
		lo, hi := cl.ClipPoints(b, k)
		for _, at := range []struct{ u, want float64 }{{lo, -k}, {hi, k}} {
			if math.IsInf(at.u, 0) {
				if s := slope(math.Copysign(1e6, at.want)); math.Abs(s) > k {
					c.Errorf("ClipPoints(%v, %v) is infinite, but φ′ reaches %v", b, k, s)
				}
			} else if s := slope(at.u); math.Abs(s-at.want) > rounding*(1+math.Abs(b)) {
				c.Errorf("ClipPoints(%v, %v) has φ′(%v) = %v, want %v", b, k, at.u, s, at.want)
			}
		}
	}
}

func (c *checker) allocations() {
	c.Helper()
	theta, a := c.vector(1), c.vector(1)
	dst := make([]float64, dim)
	if n := testing.AllocsPerRun(100, func() { c.l.Func(theta, a, 1); c.l.Grad(dst, theta, a, 1) }); n != 0 {
		c.Errorf("Func and Grad make %v allocations, want none", n)
	}
}

func (c *checker) panics() {
	c.Helper()
	x, long := make([]float64, dim), make([]float64, dim+1)
	for name, call := range map[string]func(){
		"Func with a long θ":   func() { c.l.Func(long, x, 1) },
		"Func with a long a":   func() { c.l.Func(x, long, 1) },
		"Grad with a long θ":   func() { c.l.Grad(x, long, x, 1) },
		"Grad with a long dst": func() { c.l.Grad(long, x, x, 1) },
	} {
		func() {
			defer func() {
				own := strings.HasSuffix(reflect.TypeOf(c.l).PkgPath(), "privopt/loss")
				if s, ok := recover().(string); !ok || own && !strings.HasPrefix(s, "loss: ") {
					c.Errorf("%s of %v does not panic with a text: compare the lengths first, or use floats.Dot and "+
						"floats.ScaleTo, which do", name, reflect.TypeOf(c.l))
				}
			}()
			call()
		}()
	}
}

// envelope compares the declared envelope h with the loss itself on a grid of row norms, weights
// w ≤ 1, labels and predictions: with g = w‖a‖|φ′|
//
//	‖a‖²φ″ ≤ h(g, g) at w = 1,   w‖a‖²φ″ ≤ h(g, L) at every w
//
// The second because a record of weight w counts like the record itself, whose gradient is larger.
// It also tests that h of an interval is at least h inside, and at most β.
func (c *checker) envelope(e loss.Envelope, bounds loss.Bounds) {
	c.Helper()
	k := e.Constants(bounds, math.Inf(1))
	if h := e.Envelope(bounds, 0, k.Lipschitz); !(h <= k.Smoothness) {
		c.Errorf("Envelope(%+v, 0, %v) = %v is above β = %v", bounds, k.Lipschitz, h, k.Smoothness)
	}
	var at []float64 // distances of predictions from a label or a margin
	for x := 1e-4; x < 3e3; x *= 1.25 {
		at = append(at, x, -x)
	}
	for _, t := range []float64{1, 0.999, 0.9, 0.6, 0.3, 0.1, 1e-3} {
		norm := t * bounds.Row
		for _, b := range []float64{bounds.Label, -bounds.Label, 0.3 * bounds.Label, 0} {
			for _, x := range at {
				for _, u := range []float64{x, b + x, 1 + x, -1 + x, x / norm} {
					_, dphi, d2phi := e.Scalar(u, b, norm)
					c.curvature(e, bounds, norm*math.Abs(dphi), norm*norm*d2phi, k.Lipschitz)
				}
			}
		}
	}
}

// curvature tests one record with a gradient of norm g and the curvature h.
func (c *checker) curvature(e loss.Envelope, bounds loss.Bounds, g, h, lipschitz float64) {
	c.Helper()
	point := e.Envelope(bounds, g, g)
	if h > point*(1+rounding) {
		c.Errorf("curvature %v beats Envelope(%+v, %v, %v) = %v", h, bounds, g, g, point)
	}
	for _, w := range []float64{0.9, 0.5, 0.01} {
		if wide := e.Envelope(bounds, w*g, lipschitz); w*h > wide*(1+rounding) {
			c.Errorf("curvature %v of weight %v beats Envelope(%+v, %v, %v) = %v", w*h, w, bounds, w*g, lipschitz, wide)
		}
	}
	lo, hi := g*(1-c.rnd.Float64()), g+(lipschitz-g)*c.rnd.Float64()
	cell := e.Envelope(bounds, lo, hi)
	if wider := e.Envelope(bounds, lo/2, hi); cell < point*(1-rounding) || wider < cell*(1-rounding) {
		c.Errorf("Envelope(%+v, %v, %v) = %v is below %v inside, at %v, or above %v of a wider interval", bounds, lo, hi,
			cell, point, g, wider)
	}
}
