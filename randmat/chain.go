// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package randmat

import (
	"math"
	"slices"

	"github.com/privopt/privopt/internal/kernel"
	"github.com/privopt/privopt/internal/num"
)

const (
	gaussNodes = 16    // per panel, of Gauss–Legendre
	fine       = 7     // width of a panel in standard deviations of log χ²: error 1e-10; 6 gives 1e-12, 8 gives 4e-9
	coarse     = 20    // for roots that fine panels check: error 1e-10 in 100 dimensions of 2000 degrees, 1e-2 in a few
	tailMass   = 1e-13 // mass that is counted as killed, or moved up, without computing it
	dropped    = 1e-11 // mass counted as killed in excess, relative to a lower bound of F
)

// panel holds a number for each node of a panel.
type panel = [gaussNodes]float64

var logTail = num.Log(tailMass)

// chain computes F(x) by propagating the law of gᵢ = x + y
// (docs/theory/numerics.md#numerics.eigenlaw), killed mass aside, as masses on Gauss–Legendre nodes
// in log y. One step has two halves, through r = g/(a² - g) and y = b² r:
//
//	log r: Σ_j w_j f_A(g_j (1+1/r)) g_j/r,   log y: ∫ p(r) f_B(y/r) (y/r) dlog r   (densities)
//
// with f_A, f_B the χ² densities of m-i+1 and d-i degrees. Mass beyond y = Y or r = R is killed at
// the next pivot up to tailMass of it and is counted at once. All terms are positive. Both grids
// lie on one lattice of panels of width h in the logarithm, so that the second kernel depends on
// panel differences only.
type chain struct {
	d      int
	panels float64 // their width
	m, x   float64
	least  float64 // what errors are relative to, a lower bound of F(x)
	killed float64
	g, w   []float64 // state: nodes and masses

	h       float64
	node    panel // on [0,1]
	weight  panel
	logr, p []float64 // grid of log r and its masses
	q, inv  []float64 // (1+1/r)/2, and the exponent's part in r
}

// minEigCDF returns F(x) with panels of the given width. The chain may drop masses relative to F,
// so it runs with a guess of F, and again if the guess was too large.
func minEigCDF(d int, m, x, panels float64) float64 {
	// λ_min ≤ 1/(W⁻¹)₁₁ ~ χ²_{m-d+1}
	least := max(num.Chi2CDF(x, m-float64(d)+1), 1e-300)
	guess := max(least, 1e-12)
	for {
		c := newChain(d, m, x, guess)
		c.panels = panels
		f := c.run()
		if f >= guess || guess <= least {
			return f
		}
		guess = max(least, guess*1e-12, min(f/2, guess*1e-2))
	}
}

func newChain(d int, m, x, least float64) *chain {
	c := &chain{d: d, panels: fine, m: m, x: x, least: least, g: []float64{x}, w: []float64{1}}
	node, weight := num.GaussLegendre(gaussNodes)
	for i := range node {
		c.node[i], c.weight[i] = (1+node[i])/2, weight[i]/2
	}
	return c
}

// run returns F(x).
func (c *chain) run() float64 {
	for i := 1; i < c.d; i++ {
		nuA, nuB := c.m-float64(i)+1, float64(c.d-i)
		c.h = c.panels * min(math.Sqrt(2/nuA), math.Sqrt(2/nuB), 0.35)
		if !c.half(nuA, nuB) {
			return min(1, c.killed)
		}
		c.step(nuA-1, nuB)
		if len(c.g) == 0 {
			return min(1, c.killed)
		}
	}
	c.kill(c.m-float64(c.d)+1, 1)
	return min(1, c.killed)
}

// kill counts Σ_j w_j P(χ²_nu ≤ scale g_j).
func (c *chain) kill(nu, scale float64) {
	enough := tailMass * c.least / float64(c.d)
	sure := num.Chi2UpperQuantile(logTail, nu)
	for j := len(c.g) - 1; j >= 0; j-- { // from the largest g down
		f := 1.
		if c.g[j]*scale < sure {
			f = num.Chi2CDF(c.g[j]*scale, nu)
		}
		c.killed += c.w[j] * f
		if f < enough { // all nodes below together hold at most mass 1
			break
		}
	}
}

// index returns the lattice index of the panel that holds t.
func (c *chain) index(t float64) int { return int(math.Floor(t / c.h)) }

// half carries the state to masses on a grid of log r. It reports false if no mass survives.
func (c *chain) half(nuA, nuB float64) bool {
	top := num.Chi2UpperQuantile(logTail, nuA-1)                   // Y
	high := num.Log(top) - num.Log(num.Chi2Quantile(logTail, nuB)) // log R
	aTop := num.Chi2UpperQuantile(logTail, nuA)
	gMin := c.g[0]
	if gMin >= aTop {
		c.kill(nuA, 1)
		return false
	}
	low := num.Log(gMin / (aTop - gMin))
	p1 := c.index(high) + 1
	p0 := min(c.index(low), p1-1)
	c.kill(nuA, 1+math.Exp(-float64(p1)*c.h))

	n := (p1 - p0) * gaussNodes
	c.logr, c.p = grow(c.logr, n), grow(c.p, n)
	c.q, c.inv = grow(c.q, n), grow(c.inv, n)
	for k := range n {
		t := (float64(p0+k/gaussNodes) + c.node[k%gaussNodes]) * c.h
		c.logr[k], c.p[k] = t, 0
		e := math.Exp(-t)
		c.q[k] = (1 + e) / 2
		c.inv[k] = (nuA/2-1)*math.Log1p(e) - t
	}
	norm := -nuA/2*math.Ln2 - num.LogGamma(nuA/2)
	negligible := tailMass * c.least / (float64(c.d) * float64(n))
	first, wide := 0, math.Exp(c.h)
	edge := math.Exp(float64(p0+1) * c.h) // of the first panel that holds r ≥ g/(aTop-g)
	for j, g := range c.g {
		if g >= aTop || c.w[j] == 0 {
			continue
		}
		// w f_A(2gq) g/r = exp(e + inv - gq)
		e := norm + num.Log(c.w[j]) + nuA/2*num.Log(g)
		for ; g >= edge*(aTop-g) && first < n; edge *= wide {
			first += gaussNodes
		}
		for k := first; k < n; k += gaussNodes {
			p, inv := (*panel)(c.p[k:]), (*panel)(c.inv[k:])
			q := (*panel)(c.q[k:])
			if left, right := kernel.AddExp(p, inv, q, e, g); right < negligible && right < left { // unimodal in log r
				break
			}
		}
	}
	for k := range n {
		c.p[k] *= c.weight[k%gaussNodes] * c.h
	}
	return true
}

// step carries the masses in r to the next state; nu is the number of degrees of the next pivot.
func (c *chain) step(nu, nuB float64) {
	enough := tailMass * c.least / float64(c.d)
	p0 := c.index(c.logr[0])
	n := len(c.logr) / gaussNodes

	bLow := num.Log(num.Chi2Quantile(logTail, nuB))
	bHigh := num.Log(num.Chi2UpperQuantile(num.Log(enough), nuB))
	floor := num.Log(c.x) + logTail
	y0 := c.index(max(c.logr[0]+bLow, floor))
	y1 := c.index(num.Log(num.Chi2UpperQuantile(logTail, nu))) + 1
	y0 = min(y0, y1-1)

	// Mass above Y is killed.
	top := math.Exp(float64(y1) * c.h)
	for k := len(c.logr) - 1; k >= 0; k-- {
		f := num.Chi2SF(top*math.Exp(-c.logr[k]), nuB)
		c.killed += c.p[k] * f
		if f < enough {
			break
		}
	}
	c.g, c.w = c.g[:0], c.w[:0]
	// Mass below the grid goes up to its lower end.
	bottom, lost := math.Exp(float64(y0)*c.h), 0.
	for k, t := range c.logr {
		f := num.Chi2CDF(bottom*math.Exp(-t), nuB)
		lost += c.p[k] * f
		if f < 1e-2*tailMass {
			break
		}
	}
	c.g, c.w = append(c.g, c.x+bottom), append(c.w, lost)

	// coupling couples panel q of r with panel q+Δ of y.
	norm := -nuB/2*math.Ln2 - num.LogGamma(nuB/2)
	d0, d1 := int(math.Floor(bLow/c.h))-1, int(math.Ceil(bHigh/c.h))+1
	d0 = max(d0, y0-(p0+n-1))
	d1 = min(d1, y1-1-p0)
	size := (y1 - y0) * gaussNodes
	c.g, c.w = slices.Grow(c.g, size), slices.Grow(c.w, size)
	mass := c.w[1 : 1+size]
	clear(mass)
	var coupling [gaussNodes]panel
	var grown panel // e^{h node}
	for i, v := range c.node {
		grown[i] = math.Exp(v * c.h)
	}
	for delta := d0; delta <= d1; delta++ {
		half := math.Exp(float64(delta)*c.h) / 2
		for i := range coupling {
			var logs, halves panel // log b², and b²/2
			for j := range logs {
				logs[j] = (float64(delta) + c.node[i] - c.node[j]) * c.h * (nuB / 2)
				halves[j] = half * grown[i] / grown[j]
			}
			coupling[i] = panel{}
			kernel.AddExp(&coupling[i], &logs, &halves, norm, 1)
		}
		for q := max(0, y0-p0-delta); q < min(n, y1-p0-delta); q++ {
			r := (*panel)(c.p[q*gaussNodes:])
			to := (*panel)(mass[(q+p0+delta-y0)*gaussNodes:])
			for i := range to {
				row := &coupling[i]
				var s0, s1, s2, s3 float64
				for j := 0; j < gaussNodes; j += 4 {
					s0 += row[j] * r[j]
					s1 += row[j+1] * r[j+1]
					s2 += row[j+2] * r[j+2]
					s3 += row[j+3] * r[j+3]
				}
				to[i] += (s0 + s1) + (s2 + s3)
			}
		}
	}
	c.g, c.w = c.g[:1+size], c.w[:1+size]
	for k := range size {
		if k%gaussNodes == 0 {
			bottom = math.Exp(float64(y0+k/gaussNodes) * c.h)
		}
		c.g[1+k] = c.x + bottom*grown[k%gaussNodes]
		mass[k] *= c.weight[k%gaussNodes] * c.h
	}
	c.prune()
}

// prune drops nodes of negligible mass: at the upper end they count as killed, at the lower end
// they move up.
func (c *chain) prune() {
	last, sum := len(c.w), 0.
	for last > 0 {
		sum += c.w[last-1]
		if sum > dropped*c.least/float64(c.d) {
			break
		}
		c.killed += c.w[last-1]
		last--
	}
	first, low := 0, 0.
	for first < last && low+c.w[first] < tailMass {
		low += c.w[first]
		first++
	}
	if first == last {
		c.g, c.w = c.g[:0], c.w[:0]
		return
	}
	c.g, c.w = c.g[first:last], c.w[first:last]
	c.w[0] += low
}

// grow returns a slice of length n, reusing s.
func grow(s []float64, n int) []float64 { return slices.Grow(s[:0], n)[:n] }
