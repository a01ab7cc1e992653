// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package qop

import (
	"math"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/loss"
)

// tilt is δ of docs/theory/quadratic.md#qop.tilt/1 for one ε and m, a bound by an exponential
// moment of the privacy loss: with λ > 0, x₀ > t and F the distribution function of a least
// eigenvalue Λ
//
//	δ = F(x₀) + c e^{−λε} (M − μ^{1+λ}),   M = E exp(min(s, s̃(Λ)) + J),   c = λ^λ/(1+λ)^{1+λ}
//	μ = max(0, 1 − F(x₀) − min(1, M e^{−λε}))
//
// for all admissible λ and x₀. s, s̃ and J depend on the relation, see at and average. Under
// dp.AddRemove δ is the larger of removing and adding.
type tilt struct {
	eps, rho, n float64
	relation    dp.Relation

	starts []tail    // candidates for x₀
	x      []float64 // a grid of Λ, increasing
	f      []float64 // F there, from above
	fine   float64   // width in log λ at which the search ends
	hint   [3]float64
}

// tail is a point with a bound of F there.
type tail struct{ x, f float64 }

// side is the change of the data set: a row of the table in the theory.
type side int

const (
	replacing side = iota
	removing
	adding
)

// Grids of Λ: the steps of the upper sum for E lose less than 1 % of δ with fineGrid points.
const (
	fineGrid  = 1000
	roughGrid = 60
)

// F(x₀)/δ of the points x₀ to try. The best ratio is 0.01 in many dimensions and up to 0.7 in few,
// where E and M grow fastest with t/x₀. A search over all x₀ would lower δ by at most 1 % more.
var fineShares, roughShares = []float64{0.01, 0.05, 0.15, 0.4, 0.7}, []float64{0.05}

// newTilt prepares the bound. logDelta, an estimate of log δ, only places x₀ and the grid.
func newTilt(s setting, m, logDelta float64, law minLaw, rough bool) *tilt {
	p := &tilt{eps: s.eps, rho: s.rank, n: (m - float64(s.dim) - 1) / 2, relation: s.relation, fine: 0.02}
	lo, hi := law.ends()
	n := fineGrid
	if rough {
		n, p.fine = roughGrid, 0.3
	}
	step := num.Log(hi/lo) / float64(n-1)
	for i := range n {
		x := lo * math.Exp(step*float64(i))
		p.x, p.f = append(p.x, x), append(p.f, math.Exp(law.logCDF(x)))
	}
	shares := fineShares
	if rough {
		shares = roughShares
	}
	for _, share := range shares {
		target := logDelta + num.Log(share)
		x, _ := num.Bisect(func(x float64) bool { return law.logCDF(x) <= target }, lo, hi)
		p.starts = append(p.starts, tail{x, math.Exp(law.logCDF(x))})
	}
	return p
}

// logDelta returns log δ for t, 0 if the search finds no smaller bound. Every admissible λ and x₀
// is valid: a poor search costs utility, never privacy.
func (p *tilt) logDelta(t float64) float64 {
	if p.relation == dp.AddRemove {
		return math.Max(p.search(removing, t), p.search(adding, t))
	}
	return p.search(replacing, t)
}

// search minimizes the bound over λ and x₀. It tries λ near the best λ of the previous t first. If
// the minimum there is at an end of that interval, it searches all admissible λ.
func (p *tilt) search(row side, t float64) float64 {
	best, last := 0.0, p.hint[row]
	for _, from := range p.starts {
		top := from.x / t * (1 - 1e-9) // λ below
		if row == replacing {
			top /= 2
		}
		lo, hi := num.Log(1e-3), num.Log(top)
		if !(lo < hi) {
			continue
		}
		least := func(lo, hi float64) (u, v float64) {
			return num.Minimize(func(u float64) float64 { return p.at(row, math.Exp(u), from, t) }, lo, hi, 0, p.fine)
		}
		u, v := 0.0, 0.0
		found := false
		if last > 0 {
			a, b := math.Max(lo, num.Log(last/nearby)), math.Min(hi, num.Log(last*nearby))
			if a < b {
				u, v = least(a, b)
				edge := math.Min(p.fine, (b-a)/6) // golden section ends nearer to a if values fall towards a
				found = v < 0 && (a == lo || u > a+edge) && (b == hi || u < b-edge)
			}
		}
		if !found {
			u, v = least(lo, hi)
		}
		if v < best {
			best, last = v, math.Exp(u)
			p.hint[row] = last
		}
	}
	return best
}

// nearby bounds the first search to λ/nearby … λ·nearby, λ the best one of the previous t.
const nearby = 1.5

// safeMoment multiplies δ. It covers the rounding of the exponents N·g̃, which are exact to 1e-13.
const safeMoment = 1 + 1e-5

// at returns log δ for λ, x₀ and t; 0 where they are not admissible. With y = t/x₀, y′ = y/(1+y)
// and g(v) = −λ log(1−v) − log(1+λv) it computes s and J of the table in the theory.
func (p *tilt) at(row side, lambda float64, from tail, t float64) float64 {
	y := t / from.x
	z := y / (1 + y) // y′
	g := func(v float64) float64 { return -lambda*math.Log1p(-v) - math.Log1p(lambda*v) }
	var s, j float64
	switch {
	case row == replacing && 2*lambda*t < from.x && y+z < 1:
		s = g(y) + g(-y)
		j = g(y+z) + (p.rho-1)*g(z) + g(-2*y) + (p.rho-1)*g(-y)
	case row == removing && lambda*t < from.x && y < 1:
		s = g(-y)
		j = p.rho*g(z) + g(-y)
	case row == adding && lambda*t < from.x && y < 1:
		s = g(y)
		j = g(y) + p.rho*g(-y)
	default:
		return 0
	}
	s *= p.n
	// The rounding of the exponents.
	rounding := 1e-15 * (1 + lambda) * (p.n + 2*p.rho + 4)
	logM := s + j + p.average(row, lambda, s, t) + rounding
	if !(logM < 700) { // also NaN
		return 0
	}
	bound := math.Exp(logM - lambda*p.eps)
	mass := math.Max(0, 1-from.f-math.Min(1, bound))                           // μ
	excess := bound * -math.Expm1(math.Min(0, (1+lambda)*math.Log(mass)-logM)) // e^{−λε}(M − μ^{1+λ})
	c := math.Exp(-math.Log1p(lambda) - lambda*math.Log1p(1/lambda))
	return math.Min(0, num.Log((from.f+c*(excess+rounding*bound))*safeMoment))
}

// average returns an upper bound on log E − s for every grid: exp min(s, s̃(x)) does not increase
// with x, so with its values q_i, and e^s up to the first point,
//
//	E ≤ q_n + Σ_i (q_i − q_{i+1}) F(x_{i+1})
func (p *tilt) average(row side, lambda, s, t float64) float64 {
	n := len(p.x)
	first := 0
	if row != removing { // s̃ is finite above (1+λ)t
		least := (1 + lambda) * t * (1 + 1e-9)
		for first < n && p.x[first] < least {
			first++
		}
		if first >= n {
			return 0
		}
	}
	sum, last := 0.0, 1.0 // q_i e^{−s}
	for i := first + 1; i < n; i++ {
		v := t / p.x[i]
		var e float64 // s̃/N
		switch row {
		case replacing:
			a, b := lambda*v, (1+lambda)*v
			e = (1+lambda)*math.Log1p(-a*a) - lambda*math.Log1p(-b*b)
		case removing:
			e = (1+lambda)*math.Log1p(lambda*v) - lambda*math.Log1p((1+lambda)*v)
		case adding:
			e = (1+lambda)*math.Log1p(-lambda*v) - lambda*math.Log1p(-(1+lambda)*v)
		}
		q := math.Min(last, math.Exp(p.n*e-s))
		sum += (last - q) * p.f[i]
		last = q
	}
	return num.Log(sum + last)
}

// tiltedLaw returns dimension and degrees of freedom of the matrix whose least eigenvalue is Λ.
func (s setting) tiltedLaw(m float64) (d int, dof float64) {
	if s.structure != loss.FixedRange {
		return s.dim, m
	}
	q := s.rank
	if s.relation == dp.Replace {
		q *= 2
	}
	q = math.Min(q, float64(s.dim))
	return int(q), m - float64(s.dim) + q
}
