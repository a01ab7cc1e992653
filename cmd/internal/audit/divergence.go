package audit

import (
	"math"
	"slices"

	"github.com/privopt/privopt/internal/num"
)

// exactDivergence computes the hockey-stick divergences of two laws P and Q on the
// line, which may have densities and atoms, both ways and at any ε:
//
//	∫_lo^hi max(p(x) - e^ε q(x), 0) dx + Σ max(Pᵢ - e^ε Qᵢ, 0)
//
// by 16-point Gauss–Legendre rules on 512 panels and more where breaks cut
// them. The densities are tabulated once; a panel in which the integrand starts
// or ends is integrated again from there.
type exactDivergence struct {
	logP, logQ func(x float64) float64
	panels     []panel
	atomP      []float64
	atomQ      []float64
}

// panel holds log p and log q just inside its ends and at the nodes between.
type panel struct{ x, p, q [nodes + 2]float64 }

const nodes = 16

// newExactDivergence tabulates two laws with log densities logP and logQ (-Inf
// outside their supports) and no atoms. [lo, hi] must carry all but a negligible
// part of both; breaks are the points where a density jumps or bends. Between
// two nodes of a panel log p - log q is taken to cross ε at most once.
func newExactDivergence(logP, logQ func(x float64) float64, lo, hi float64, breaks ...float64) *exactDivergence {
	d := &exactDivergence{logP: logP, logQ: logQ}
	const cells = 512
	breaks = slices.Clone(breaks)
	slices.Sort(breaks)
	at, _ := num.GaussLegendre(nodes)
	prev := lo
	add := func(x float64) {
		if !(x > prev) {
			return
		}
		mid, half := (prev+x)/2, (x-prev)/2
		var c panel
		c.x[0], c.x[nodes+1] = prev+1e-9*(x-prev), x-1e-9*(x-prev) // a jump at an end stays outside
		for j, u := range at {
			c.x[j+1] = mid + half*u
		}
		for j, y := range c.x {
			c.p[j], c.q[j] = logP(y), logQ(y)
		}
		d.panels = append(d.panels, c)
		prev = x
	}
	for i := 1; i <= cells; i++ {
		x := lo + (hi-lo)*float64(i)/cells
		for _, b := range breaks {
			if b > prev && b < x {
				add(b)
			}
		}
		add(x)
	}
	return d
}

// Atoms adds atoms at equal places of both laws, of probabilities p and q. It
// panics on a length mismatch.
func (d *exactDivergence) Atoms(p, q []float64) {
	if len(p) != len(q) {
		panic("audit: length mismatch")
	}
	d.atomP, d.atomQ = append(d.atomP, p...), append(d.atomQ, q...)
}

// At returns the divergence of P from Q at ε.
func (d *exactDivergence) At(eps float64) float64 { return d.at(eps, false) }

// Reverse returns the divergence of Q from P at ε.
func (d *exactDivergence) Reverse(eps float64) float64 { return d.at(eps, true) }

// Max returns the larger of the two: the least δ for which the pair allows
// (ε, δ)-differential privacy.
func (d *exactDivergence) Max(eps float64) float64 { return math.Max(d.At(eps), d.Reverse(eps)) }

func (d *exactDivergence) at(eps float64, reverse bool) float64 {
	logP, logQ, atomP, atomQ := d.logP, d.logQ, d.atomP, d.atomQ
	if reverse {
		logP, logQ, atomP, atomQ = logQ, logP, atomQ, atomP
	}
	_, w := num.GaussLegendre(nodes)
	sum := 0.0
	for i := range d.panels {
		c := &d.panels[i]
		p, q := &c.p, &c.q
		if reverse {
			p, q = q, p
		}
		first, crossed := p[0]-q[0] > eps, false
		for j := 1; j < nodes+2; j++ {
			crossed = crossed || (p[j]-q[j] > eps) != first
		}
		switch half := (c.x[nodes+1] - c.x[0]) / (2 - 4e-9); {
		case crossed:
			sum += d.pieces(c, logP, logQ, eps)
		case first:
			for j, v := range w {
				sum += v * half * excess(p[j+1], q[j+1], eps)
			}
		}
	}
	for i, a := range atomP {
		sum += math.Max(0, a-math.Exp(eps)*atomQ[i])
	}
	return sum
}

// excess returns max(p - e^ε q, 0) from log p and log q.
func excess(p, q, eps float64) float64 {
	if l := q + eps - p; l < 0 && !math.IsInf(p, -1) {
		return -math.Exp(p) * math.Expm1(l)
	}
	return 0
}

// pieces integrates a panel between the points where log p - log q crosses ε.
func (d *exactDivergence) pieces(c *panel, logP, logQ func(x float64) float64, eps float64) float64 {
	above := func(x float64) bool { return logP(x)-logQ(x) > eps }
	at, w := num.GaussLegendre(nodes)
	sum := 0.0
	piece := func(a, b float64) {
		mid, half := (a+b)/2, (b-a)/2
		for j, u := range at {
			x := mid + half*u
			sum += w[j] * half * excess(logP(x), logQ(x), eps)
		}
	}
	ends := 1e-9 / (1 - 2e-9) * (c.x[nodes+1] - c.x[0]) // x[0] and x[nodes+1] lie that far inside
	from := c.x[0] - ends
	for j := 1; j < nodes+2; j++ {
		if a := above(c.x[j-1]); a != above(c.x[j]) {
			z, _ := num.Bisect(func(x float64) bool { return above(x) == a }, c.x[j-1], c.x[j])
			piece(from, z)
			from = z
		}
	}
	piece(from, c.x[nodes+1]+ends)
	return sum
}
