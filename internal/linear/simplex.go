// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package linear

import (
	"math"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/num"
)

// simplex bounds the privacy loss of the exact minimizer for the multinomial logistic loss of K
// classes. With s = X/σ, X the bound on ‖a‖, q = 1 − π_y and M = max_{j≠y} (N_j − N_y) over K
// independent normal numbers,
//
//	removing   loss ≤ max_q [c(q) + sqM + s²q²]
//	adding     loss ≤ max(0, sM + s²)
//	c(q)       log det(I + (diag π − ππ′)X²/μ) at π_j = q/(K−1), j ≠ y
//	P(M > x)   ≤ (K−1)·P(N_j − N_y > x)
//
// Proof: docs/theory/linear.md#lop.simplex/2.
type simplex struct {
	profileOnly
	k    int     // K ≥ 2
	d    float64 // μ/X²
	peak float64 // the q where c is largest

	l       float64 // L = √2 X
	replace bool

	// Set by tabulated.
	hull  *scalar     // certifies with κ = c
	costs [32]float64 // c(q) for q = 1/32, 2/32, …, 1
}

func newSimplex(classes int, d float64) *simplex {
	return &simplex{k: classes, d: d, peak: float64(classes-1) / float64(classes)}
}

// tabulated returns m, ready for all its methods.
func (m *simplex) tabulated() *simplex {
	for i := range m.costs {
		m.costs[i] = m.curvature(float64(i+1) / float64(len(m.costs)))
	}
	m.hull = &scalar{l: 1, mu: 1, c: m.curvature(m.peak), envelope: func(lo, hi float64) float64 {
		return math.Expm1(m.curvature(min(max(m.peak, lo), hi))) * SafeC
	}}
	return m
}

// curvature returns c(q), rounded up, with det(I + (diag π − ππ′)/D) = Π(1+π_i/D)·Σ π_iD/(D+π_i).
func (m *simplex) curvature(q float64) float64 {
	if math.IsInf(m.d, 1) {
		return 0
	}
	n := float64(m.k - 1)
	p := q / n
	c := math.Log1p((1-q)/m.d) + n*math.Log1p(p/m.d) + num.Log(m.d*((1-q)/(m.d+1-q)+q/(m.d+p)))
	return max(0, c)*SafeC + 1e-14
}

// tail returns (K−1)·P(N_j−N_y > x) ≥ P(M > x), which may exceed 1.
func (m *simplex) tail(x float64) float64 {
	if math.IsInf(x, -1) {
		return 1
	}
	return float64(m.k-1) * math.Exp(num.LogPhi(-x/math.Sqrt2))
}

// reach returns the least M for which the loss of removing may exceed l > 0,
//
//	min_q (l − c(q) − s²q²)/(sq)
//
// as a search finds it, or rounded down and certified.
func (m *simplex) reach(l, s float64, certified bool) float64 {
	f := func(q, c float64) float64 { return (l - c - s*s*q*q) / (s * q) }
	best, x := 0, math.Inf(1)
	for i, c := range m.costs {
		if v := f(float64(i+1)/32, c); v < x {
			best, x = i+1, v
		}
	}
	at := float64(best) / 32
	_, v := num.Valley(func(q float64) float64 { return f(q, m.curvature(q)) }, max(1./32, at-1./32), min(1, at+1./32), 0,
		1e-6)
	x = min(x, v)
	if !certified {
		return x
	}
	for slack := 1e-8; slack < 1; slack *= 10 {
		y := x - slack*(1+math.Abs(x))
		if y >= 0 && m.hull.below(func(q float64) float64 { return l - s*q*y - s*s*q*q }, quick) {
			return y
		}
	}
	return math.Inf(-1)
}

// delta returns E (1 − e^{ε−loss})₊ = ∫_ε^∞ e^{ε−l} P(M > x(l)) dl for ε ≥ 0, where the loss
// exceeds l for M > x(l). As the loss is a convex function of M, x is concave: its chords are below
// it, and the integral over chords is an upper bound.
func (m *simplex) delta(eps, s float64, x func(l float64) float64) float64 {
	const segments = 18
	nodes, weights := num.GaussLegendre(5)
	width := 12 * s
	at, from := eps, x(eps)
	total := 0.0
	for i := 1; i <= segments; i++ {
		l := eps + width*float64(i*i)/(segments*segments)
		to := x(l)
		rise := to - from
		if math.IsInf(from, -1) { // no bound on x is proved: the tail is 1
			rise = 0
		}
		for j := range nodes {
			t := (nodes[j] + 1) / 2
			total += weights[j] / 2 * (l - at) * math.Exp(eps-at-t*(l-at)) * m.tail(from+t*rise)
		}
		at, from = l, to
	}
	return total + math.Exp(eps-at)*m.tail(from)
}

// logRemove returns log δ of removing a record. For ε < 0 it uses that the loss is ≥ 0.
func (m *simplex) logRemove(eps, s float64, certified bool) float64 {
	if eps < 0 {
		return reflected(eps, m.logRemove(0, s, certified))
	}
	return min(0, num.Log(m.delta(max(eps, 1e-300), s, func(l float64) float64 { return m.reach(l, s, certified) })))
}

// logAdd returns log δ of adding a record, (K−1) δ_G(ε, √2 s).
func (m *simplex) logAdd(eps, s float64) float64 {
	if eps < 0 {
		return reflected(eps, m.logAdd(0, s))
	}
	return min(0, num.Log(float64(m.k-1))+dp.GaussianLogDelta(eps, math.Sqrt2*s))
}

// logDelta returns log δ at ε ≥ 0 of adding and removing, or of replacing a record by the leg g.
func (m *simplex) logDelta(eps, s float64, replace, certified bool, g leg) float64 {
	if !replace {
		return max(m.logRemove(eps, s, certified), m.logAdd(eps, s))
	}
	return min(0, g.log(eps, func(eps float64) float64 { return m.logRemove(eps, s, certified) },
		func(eps float64) float64 { return m.logAdd(eps, s) }))
}

// bestLeg returns the leg with the least logDelta, which is flat in e₁, to 0.02 ε.
func (m *simplex) bestLeg(eps, s float64) leg {
	log := func(e1 float64) float64 { return m.logDelta(eps, s, true, false, leg{false, e1}) }
	e1, _ := num.Minimize(log, 0, eps, 0, 0.02*eps)
	return leg{false, e1}
}

// leastNoise returns a certified u = σ/X for (ε, e^{target}); +Inf if it finds none. The best leg
// hardly depends on the noise: it is searched for at enough noise, and again at the noise that the
// leg needs.
func (m *simplex) leastNoise(eps, target, enough float64, replace bool) float64 {
	var g leg
	search := func(from, tol float64) float64 {
		return least(func(s float64) float64 { return m.logDelta(eps, s, replace, false, g) }, target, from, tol)
	}
	if replace {
		g = m.bestLeg(eps, 1/enough)
		enough = search(enough, 1e-2)
		g = m.bestLeg(eps, 1/enough)
	}
	found := search(enough, 1e-7)
	for slack := 1e-7; slack < 0.1; slack *= 10 {
		if u := found * (1 + slack); m.logDelta(eps, 1/u, replace, true, g)+1e-8 <= target {
			return u
		}
	}
	return math.Inf(1)
}

// logCurves returns certified log δ(ε) of removing and of adding a record, or twice that of
// replacing one. Output noise is a second step, δ(ε−e₂) + δ_G(e₂, o) with e₂ = 12 o.
func (m *simplex) logCurves(s, o float64, replace bool) (remove, add func(eps float64) float64) {
	then := func(log func(eps float64) float64) func(eps float64) float64 {
		return func(eps float64) float64 {
			if o == 0 {
				return log(eps)
			}
			return min(0, num.LogSumExp(log(eps-12*o), dp.GaussianLogDelta(12*o, o)))
		}
	}
	if replace {
		var both func(eps float64) float64
		both = func(eps float64) float64 {
			if eps < 0 {
				return reflected(eps, both(-eps))
			}
			return m.logDelta(eps, s, true, true, m.bestLeg(eps, s))
		}
		return then(both), then(both)
	}
	return then(func(eps float64) float64 { return m.logRemove(eps, s, true) }),
		then(func(eps float64) float64 { return m.logAdd(eps, s) })
}

// simplex returns the bounds for the multinomial logistic loss without their tables, nil for
// others. Its L is √2 X.
func (k *Calibrator) simplex(mu float64) *simplex {
	if k.p.Classes == 0 || k.p.Calibration != Sharp || k.persons() {
		return nil
	}
	m := newSimplex(k.p.Classes, 2*mu/(k.p.Constants.Lipschitz*k.p.Constants.Lipschitz))
	m.l, m.replace = k.p.Constants.Lipschitz, k.p.Relation == dp.Replace
	return m
}

func (m *simplex) least(w *want) (sigma float64, theorem string) {
	if w.o > 0 || w.from != nil {
		return math.Inf(1), ""
	}
	x := m.l / math.Sqrt2
	return x * m.leastNoise(w.eps, w.log, w.below/x, m.replace), TheoremSimplex
}

func (m *simplex) logs(sigma, o float64) (remove, add func(eps float64) float64) {
	return m.logCurves(m.l/sigma/math.Sqrt2, o, m.replace)
}
