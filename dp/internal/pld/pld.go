// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package pld composes privacy profiles by the loss distributions that they stand for.
//
// A profile δ(ε) is convex in α = e^ε. The chords between a few of its values are the profile of a
// discrete pair of laws that dominates it (grid.go). The losses of such pairs add up under
// composition and are convolved by FFT (tail.go). Every approximation raises δ: the mass cut off at
// the ends, 1e-15 over all parts, the mass outside the window of the FFT, and a bound on the
// rounding of the FFT. The proofs are in docs/theory/composition.md#composition.dominate,
// #composition.hull and #composition.fft.
//
// # Notation
//
//	α, ε       α = e^ε
//	h          step of the grid of losses
//	λ          exponential tilt
//	K(λ)       logarithm of the moment generating function of the loss
package pld

import (
	"math"
	"slices"
	"sync"

	"github.com/privopt/privopt/internal/num"
)

// MinDelta is the least δ that loss distributions resolve: cutMass must be a small part of δ.
const MinDelta = 1e-12

// A Pair holds bounds on the profiles of both orders of a pair of laws (P, Q), at ε ≥ 0:
//
//	Up(ε) ≥ sup_S P(S) − e^ε Q(S),   Down(ε) ≥ sup_S Q(S) − e^ε P(S)
type Pair struct {
	Up, Down  func(eps float64) float64
	Symmetric bool // Down is Up
}

// Symmetric returns the pair whose two orders have the profile f.
func Symmetric(f func(eps float64) float64) Pair { return Pair{f, f, true} }

// Swapped returns the pair (Q, P).
func (p Pair) Swapped() Pair { return Pair{p.Down, p.Up, p.Symmetric} }

// slack raises every profile value by more than its relative error, 1e-11, and the rounding of the
// slopes between grid points.
const slack = 2e-11

// At returns the profile of (P, Q) at any real ε, rounded up.
func (p Pair) At(eps float64) float64 {
	switch {
	case math.IsNaN(eps), math.IsInf(eps, -1):
		return 1
	case math.IsInf(eps, 1):
		return 0
	case eps < 0: // 1 − e^ε + e^ε δ_exchanged(−ε)
		return min(1, (-math.Expm1(eps)+math.Exp(eps)*p.Down(-eps))*(1+slack))
	}
	return min(1, p.Up(eps)*(1+slack))
}

// A Part is a Pair and how often it is repeated, at least once.
type Part struct {
	Pair  Pair
	Times int
}

// Composition is the release of all outputs of a list of parts, each chosen with knowledge of those
// before it. It is safe for concurrent use. Set its fields before the first use.
type Composition struct {
	Grid   float64 // step of the grid; 0 means automatic
	Coarse float64 // multiplies the automatic grid; 0 means 1

	parts []Part
	total int
	whole bool // the grid reaches to the largest loss of every part, however coarse it becomes

	chosen sync.Once
	start  float64      // first step of the automatic grid, before it is made coarser to fit
	end    float64      // a loss beyond the grid if losses of some part extend well beyond it, else 0
	wide   *Composition // a composition on a whole grid, if end > 0
	built  sync.Once
	laws   []law // one per order
}

// New returns the composition of parts.
func New(parts []Part) *Composition {
	c := &Composition{parts: parts}
	for _, p := range parts {
		c.total += p.Times
	}
	return c
}

// Order says which law of a pair comes first.
type Order int

const (
	Up   Order = iota // P
	Down              // Q
)

// Symmetric reports whether both orders have one profile.
func (c *Composition) Symmetric() bool {
	return !slices.ContainsFunc(c.parts, func(p Part) bool { return !p.Pair.Symmetric })
}

// Delta returns a bound on δ(ε) of one order, for any real ε. It costs a few FFTs, unless there is
// one part, whose profile it is.
func (c *Composition) Delta(o Order, eps float64) float64 {
	switch {
	case math.IsNaN(eps), math.IsInf(eps, -1):
		return 1
	case math.IsInf(eps, 1):
		return 0
	case c.total == 1 && o == Down:
		return c.parts[0].Pair.Swapped().At(eps)
	case c.total == 1:
		return c.parts[0].Pair.At(eps)
	}
	least := 1.0
	if wide := c.wider(); wide != nil {
		least = wide.onGrid(o, eps)
	}
	if c.beyond() < least {
		least = min(least, c.onGrid(o, eps))
	}
	if least <= 1 {
		return least
	}
	return 1 // NaN: a profile that no pair of laws has, such as 0 everywhere
}

// onGrid returns the bound on δ(ε) of one order from the grid.
func (c *Composition) onGrid(o Order, eps float64) float64 {
	laws := c.build()
	if len(laws) == 0 {
		return 1
	}
	if eps < 0 { // 1 − e^ε + e^ε δ_exchanged(−ε)
		return min(1, -math.Expm1(eps)+math.Exp(eps)*laws[int(1-o)%len(laws)].delta(-eps))
	}
	return laws[int(o)%len(laws)].delta(eps)
}

// delta returns a bound on δ(ε) of the law, ε ≥ 0.
func (l *law) delta(eps float64) float64 {
	if t, ok := l.tail(eps); ok {
		return t.delta(eps)
	}
	return l.chernoff(eps)
}

// WithFailure returns an ε with δ(ε) + (1 + e^ε)·failure ≤ delta, least up to 1e-6 relative, +Inf
// where it finds none. epsilon is the inverse of δ(ε).
func WithFailure(delta, failure float64, epsilon func(delta float64) float64) float64 {
	eps := epsilon(delta)
	// Each round computes ε at the δ that failures leave for an ε slightly larger than the last.
	for range 40 {
		if failure == 0 || math.IsInf(eps, 1) {
			return eps
		}
		most := eps*(1+1e-6) + 1e-9
		next := epsilon(delta - (1+math.Exp(most))*failure*(1+0x1p-50))
		if next <= most {
			return next
		}
		eps = next
	}
	return math.Inf(1)
}

// Epsilon returns an ε ≥ 0 with δ(ε) ≤ delta in both orders, least up to 1e-9 relative and the
// errors that Delta allows for, +Inf if none is known.
func (c *Composition) Epsilon(delta float64) float64 {
	eps := math.Inf(1)
	for _, c := range []*Composition{c, c.wider()} {
		if c == nil || len(c.build()) == 0 {
			continue
		}
		var worst float64
		for i := range c.laws {
			worst = max(worst, c.laws[i].epsilon(delta))
		}
		eps = min(eps, worst)
	}
	return eps
}

// epsilon returns ε ≥ 0 with δ(ε) ≤ delta, rounded up.
func (l *law) epsilon(delta float64) float64 {
	// ε₀ by the Chernoff bound, minimized over λ on a grid; the true one is less by a few 1/λ.
	rest := 0.999 * (delta - l.inf())
	if rest <= 0 {
		return math.Inf(1)
	}
	eps0 := math.Inf(1)
	for lambda := 1e-3; lambda < 600/l.largest(); lambda *= 1.3 {
		k, _, _ := l.cumulant(lambda)
		eps0 = min(eps0, (chernoff(k, lambda, 0)-num.Log(rest))/lambda)
	}
	eps0 = max(eps0, 0)
	t, ok := l.tail(eps0)
	if !ok {
		if l.chernoff(eps0) <= delta {
			return eps0
		}
		return math.Inf(1)
	}
	eps := t.epsilon(eps0, delta)
	if eps0-eps > 4/t.lambda { // the slack of a tail grows away from its ε₀
		if t, ok := l.tail(eps); ok {
			eps = min(eps, t.epsilon(eps, delta))
		}
	}
	return eps
}

// epsilon returns ε ≥ 0 with δ(ε) ≤ delta at most eps0, +Inf if that has more.
func (t *tail) epsilon(eps0, delta float64) float64 {
	if !(t.delta(eps0) <= delta) {
		return math.Inf(1)
	}
	if t.delta(0) <= delta {
		return 0
	}
	lo, hi := max(0, eps0-(span-3)/t.lambda), eps0 // δ(lo) > delta ≥ δ(hi)
	for hi-lo > 1e-9*hi {
		if mid := (lo + hi) / 2; t.delta(mid) <= delta {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi
}

const (
	// cutMass is the mass that the ends of all grid laws together move to +∞.
	cutMass = 1e-15
	// The step of the automatic grid is at most widest and at most the standard deviation of a part
	// over finest, or over coarsest where the grid would have more than fewPoints. The error of δ
	// falls with the square of the step: noise multipliers of the tests are too large by 1e-4, or
	// 3e-4 with coarsest.
	widest    = 2e-3
	finest    = 30
	coarsest  = 12
	fewPoints = 1 << 15
	// maxPoints of one grid law on either side of 0.
	maxPoints = 1 << 18
)

// build discretizes the parts, once.
func (c *Composition) build() []law {
	c.choose()
	c.built.Do(func() {
		h := c.start
		for range 40 { // coarser until it fits; laws that never do leave δ = 1
			laws, coarser := c.discretize(h)
			if coarser == 1 || c.Grid > 0 {
				c.laws = laws
				break
			}
			h *= coarser
		}
	})
	return c.laws
}

// choose sets the step of the grid before it is made to fit, once.
func (c *Composition) choose() {
	points := func(h float64) (most int) {
		for _, p := range c.parts {
			most = max(most, extent(p.Pair, h, c.cutEach(), maxPoints))
		}
		return most
	}
	c.chosen.Do(func() {
		if c.Grid > 0 {
			c.start = c.Grid
			return
		}
		if c.whole {
			c.start = widest * float64(points(widest)) / fewPoints * max(1, c.Coarse)
			return
		}
		h := widest
		for _, p := range c.parts {
			// The total variation δ(0) of a Gaussian is 0.4 sd.
			if sd := 2.5 * p.Pair.Up(0); sd > 0 {
				h = min(h, sd/finest)
			}
		}
		h = max(h, 1e-9)
		most := points(h)
		c.start = h * min(max(1, float64(most)/fewPoints), float64(finest)/coarsest) * max(1, c.Coarse)
		if most == maxPoints {
			for range 40 { // make the grid coarser, as discretize will
				if _, coarser := c.points(c.start); coarser == 1 {
					break
				}
				c.start *= 2
			}
			c.end = 4 * maxPoints * c.start // the factor 4 allows for steps that fitting an FFT may add
			c.wide = &Composition{Coarse: c.Coarse, parts: c.parts, total: c.total, whole: true}
		}
	})
}

// wider returns the composition on a grid that holds every part to its end, nil if the automatic
// grid does. A record that is rarely sampled has losses on two scales: most as small as its rate,
// some as large as without sampling. Both grids give a bound, and the smaller one counts.
func (c *Composition) wider() *Composition {
	c.choose()
	return c.wide
}

// beyond approximates the mass that the automatic grid moves to +∞. The bound from that grid is at
// least this mass.
func (c *Composition) beyond() float64 {
	c.choose()
	if c.end == 0 {
		return 0
	}
	var log float64
	for _, p := range c.parts {
		log += float64(p.Times) * math.Log1p(-min(1, p.Pair.Up(c.end)))
	}
	return -math.Expm1(log)
}

// points returns how many points on either side of 0 each part takes on a grid of step h, and 2 if
// a coarser grid serves a part better.
func (c *Composition) points(h float64) (points []int, coarser float64) {
	for _, p := range c.parts {
		n := extent(p.Pair, h, c.cutEach(), maxPoints)
		end := float64(n) * h
		if n == maxPoints && (p.Pair.Up(2*end) < p.Pair.Up(end)/2 || c.whole) {
			return nil, 2
		}
		points = append(points, n)
	}
	return points, 1
}

// cutEach is the mass that one part leaves to +∞.
func (c *Composition) cutEach() float64 { return cutMass / float64(c.total) }

// discretize returns the laws of both orders on a grid of step h, and the factor by which h is too
// small to hold them, else 1.
func (c *Composition) discretize(h float64) (laws []law, coarser float64) {
	points, coarser := c.points(h)
	if coarser > 1 {
		return nil, coarser
	}
	one := law{h: h}
	for i, p := range c.parts {
		one.parts = append(one.parts, connect(p.Pair, h, points[i]))
		one.times = append(one.times, float64(p.Times))
	}
	laws = []law{one}
	if !c.Symmetric() {
		two := law{h: h, times: one.times}
		for i, p := range c.parts {
			two.parts = append(two.parts, connect(p.Pair.Swapped(), h, points[i]))
		}
		laws = append(laws, two)
	}
	for i := range laws { // the window at the mean gives the length of the FFT
		k, mean, variance := laws[i].cumulant(1e-3)
		if lo, hi := laws[i].window(1e-3, k, mean, variance); !(hi-lo < maxBins*h) {
			coarser = max(coarser, min(max(1.1*(hi-lo)/(maxBins*h), 1.5), 4))
		}
	}
	return laws, max(coarser, 1)
}
