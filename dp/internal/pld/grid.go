// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package pld

import (
	"math"
	"sort"

	"github.com/privopt/privopt/internal/num"
)

// gridLaw is a discrete pair of measures (P, Q) on the losses jh: P puts p[i] at (lo+i)h and inf
// where Q is 0. Its profile g(ε) = inf + Σ_{jh>ε} p_j (1 − e^{ε−jh}) is at least that of the pair
// it was made from. The mass of P may exceed 1 by safety margins, which only raise g.
type gridLaw struct {
	lo  int
	p   []float64
	inf float64
}

// connect returns the grid law of a pair by connecting the dots [DGKKM22]: the chords of the
// profile f between the points α_j = e^{jh} are the profile of the measures
//
//	Q_j = S_{j+1} − S_j,  P_j = α_j Q_j,  P_∞ = f(α_J),  P_0 = S_1 + S′_1 + 1 − f(1)
//
// where S_j is the slope of the chord that ends at α_j, S′ that of the exchanged pair, whose Q_{−j}
// are the masses at j < 0 (docs/theory/composition.md#composition.hull). A negative Q_j, from a
// bound that is not convex or from rounding, is replaced by 0, which raises the profile.
func connect(f Pair, h float64, points int) gridLaw {
	up, inf := slopes(f.Up, h, points)
	down := up
	if !f.Symmetric {
		down, _ = slopes(f.Down, h, points)
	}
	g := gridLaw{lo: -points, p: make([]float64, 2*points+1), inf: inf}
	for j := 1; j <= points; j++ {
		alpha := math.Exp(float64(j) * h)
		g.p[points+j] = alpha * max(0, up[j+1]-up[j])
		g.p[points-j] = max(0, down[j+1]-down[j])
	}
	start := min(1, f.Up(0)*(1+slack))
	// A raise of f lowers P_0, so the rounding of P_0 needs a raise of its own.
	g.p[points] = max(0, up[1]+down[1]+1-start) + 0x1p-50
	return g
}

// slopes returns S_1, …, S_J of f raised by slack, S_{J+1} = 0, and f(α_J).
func slopes(f func(eps float64) float64, h float64, points int) (s []float64, last float64) {
	s = make([]float64, points+2)
	rise := math.Expm1(h)
	prev := min(1, f(0)*(1+slack))
	for j := 1; j <= points; j++ {
		next := min(1, f(float64(j)*h)*(1+slack))
		s[j] = (next - prev) / (math.Exp(float64(j-1)*h) * rise)
		prev = next
	}
	return s, prev
}

// extent returns the least number of grid points J, at most limit, with f(e^{Jh}) ≤ cut in both
// orders. If f stays above cut at every ε, that remaining value takes the place of cut.
func extent(f Pair, h, cut float64, limit int) int {
	const far = 700 // e^ε overflows soon after
	cut = max(cut, f.Up(far)*(1+1e-9), f.Down(far)*(1+1e-9))
	enough := func(j int) bool {
		e := float64(j) * h
		return f.Up(e) <= cut && (f.Symmetric || f.Down(e) <= cut)
	}
	hi := 4
	for hi < limit && !enough(hi) {
		hi *= 2
	}
	hi = min(hi, limit)
	return 1 + sort.Search(hi-1, func(j int) bool { return enough(j + 1) })
}

// cumulant returns log Σ p e^{λx} and the mean and variance of x under the
// tilted measure p e^{λx}.
func (g *gridLaw) cumulant(lambda, h float64) (k, mean, variance float64) {
	// Powers e^{λx} are products, computed anew after every run points, and at each point while they
	// are tiny.
	const run = 64
	// The largest summand is no less than tiny: with zeros at the ends all of them could
	// underflow. Masses below tiny beyond its ends can only make the sum +Inf.
	const tiny = 1e-280
	first, last := 0, len(g.p)-1
	for first < last && g.p[first] < tiny {
		first++
	}
	for first < last && g.p[last] < tiny {
		last--
	}
	top := max(lambda*float64(g.lo+last), lambda*float64(g.lo+first)) * h
	var s0, s1, s2, e float64
	ratio := math.Exp(lambda * h)
	for i, p := range g.p {
		x := float64(g.lo+i) * h
		if e *= ratio; i%run == 0 || !(e > 0x1p-900 && e < 0x1p900) {
			e = math.Exp(lambda*x - top)
		}
		if p == 0 {
			continue // e may be infinite
		}
		w := p * e
		s0 += w
		s1 += w * x
		s2 += w * x * x
	}
	mean = s1 / s0
	return num.Log(s0) + top, mean, max(0, s2/s0-mean*mean)
}
