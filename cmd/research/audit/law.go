// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package audit

import (
	"fmt"
	"math"
	"slices"

	"github.com/privopt/privopt/internal/num"
)

// law is the law of a release on the line: a density with jumps at breaks, and
// atoms. Both laws of a pair have the same atoms, possibly of probability 0.
type law struct {
	logDensity func(x float64) float64 // −∞ outside the support
	lo, hi     float64                 // outside lies a negligible part
	breaks     []float64
	at         []float64 // places of the atoms
	mass       []float64 // their probabilities
}

// ratio is the score that an attacker who knows both laws thresholds: log p(x) − log q(x), with
// probabilities in place of densities at an atom.
func ratio(p, q law, x float64) float64 {
	if i := slices.Index(p.at, x); i >= 0 {
		return math.Log(p.mass[i]) - math.Log(q.mass[i])
	}
	a, b := p.logDensity(x), q.logDensity(x)
	if math.IsInf(a, -1) && math.IsInf(b, -1) { // outside both supports
		return 0
	}
	return a - b
}

// divergence computes the hockey-stick divergences of two laws, both ways and at any ε:
//
//	∫ max(p(x) − e^ε q(x), 0) dx + Σ max(Pᵢ − e^ε Qᵢ, 0)
//
// by 16-point Gauss–Legendre rules on 512 panels, and more where breaks cut them. The densities are
// tabulated once; a panel in which the integrand starts or ends is integrated again from there.
// Between two nodes of a panel log p − log q must cross ε at most once.
type divergence struct {
	p, q   law
	panels []panel
}

// panel holds log p and log q just inside its ends lo and hi and at the nodes between.
type panel struct {
	lo, hi  float64
	x, p, q [nodes + 2]float64
}

const nodes = 16

// tabulate returns the divergence of p and q.
func tabulate(p, q law) *divergence {
	lo, hi := math.Min(p.lo, q.lo), math.Max(p.hi, q.hi)
	const cells = 512
	ends := slices.Concat(p.breaks, q.breaks)
	for i := range cells {
		ends = append(ends, lo+(hi-lo)*float64(i+1)/cells)
	}
	slices.Sort(ends)
	at, _ := num.GaussLegendre(nodes)
	d := &divergence{p: p, q: q}
	for _, x := range ends {
		if !(x > lo && x <= hi) {
			continue
		}
		c := panel{lo: lo, hi: x}
		c.x[0], c.x[nodes+1] = lo+1e-9*(x-lo), x-1e-9*(x-lo) // a jump at an end stays outside
		for j, u := range at {
			c.x[j+1] = (lo+x)/2 + (x-lo)/2*u
		}
		for j, y := range c.x {
			c.p[j], c.q[j] = p.logDensity(y), q.logDensity(y)
		}
		d.panels = append(d.panels, c)
		lo = x
	}
	return d
}

// known returns the divergence of two laws. Each must have mass 1: otherwise the quadrature missed
// a part of it.
func known(p, q law, err error) (*divergence, error) {
	if err != nil {
		return nil, err
	}
	d := tabulate(p, q)
	const none = -1e300 // δ(−∞) is the mass
	for _, mass := range []float64{d.at(none), d.reverse(none)} {
		if !(math.Abs(mass-1) < tolerance) {
			return nil, fmt.Errorf("audit: the law of the release has mass %v, want 1", mass)
		}
	}
	return d, nil
}

// max returns the larger of the two divergences: the least δ for which the pair allows
// (ε, δ)-differential privacy.
func (d *divergence) max(eps float64) float64 { return math.Max(d.at(eps), d.reverse(eps)) }

// at returns the divergence of P from Q.
func (d *divergence) at(eps float64) float64 {
	return d.sum(d.p, d.q, eps, func(c *panel) (p, q *[nodes + 2]float64) { return &c.p, &c.q })
}

// reverse returns the divergence of Q from P.
func (d *divergence) reverse(eps float64) float64 {
	return d.sum(d.q, d.p, eps, func(c *panel) (p, q *[nodes + 2]float64) { return &c.q, &c.p })
}

func (d *divergence) sum(p, q law, eps float64, table func(c *panel) (p, q *[nodes + 2]float64)) float64 {
	_, w := num.GaussLegendre(nodes)
	sum := 0.0
	for i := range d.panels {
		c := &d.panels[i]
		logP, logQ := table(c)
		above := func(j int) bool { return logP[j]-logQ[j] > eps }
		whole := true
		from := c.lo
		for j := 1; j < nodes+2; j++ {
			if above(j) != above(j-1) {
				cross, _ := num.Bisect(func(x float64) bool { return p.logDensity(x)-q.logDensity(x) > eps == above(j-1) },
					c.x[j-1], c.x[j])
				sum += excess(p, q, eps, from, cross)
				from, whole = cross, false
			}
		}
		switch {
		case !whole:
			sum += excess(p, q, eps, from, c.hi)
		case above(0):
			for j, v := range w {
				sum += v * (c.hi - c.lo) / 2 * positive(logP[j+1], logQ[j+1], eps)
			}
		}
	}
	for i, a := range p.mass {
		sum += math.Max(0, a-math.Exp(eps)*q.mass[i])
	}
	return sum
}

// excess integrates max(p − e^ε q, 0) over [a, b] by one rule.
func excess(p, q law, eps, a, b float64) (sum float64) {
	at, w := num.GaussLegendre(nodes)
	for j, u := range at {
		x := (a+b)/2 + (b-a)/2*u
		sum += w[j] * (b - a) / 2 * positive(p.logDensity(x), q.logDensity(x), eps)
	}
	return sum
}

// positive returns max(p − e^ε q, 0) from log p and log q.
func positive(logP, logQ, eps float64) float64 {
	if l := logQ + eps - logP; l < 0 && !math.IsInf(logP, -1) {
		return -math.Exp(logP) * math.Expm1(l)
	}
	return 0
}
