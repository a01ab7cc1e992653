// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package qop

import (
	"math"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/loss"
)

// tilted is the curve of a release of quadratic perturbation together with Gaussian releases: the
// sum c̃ of slopes with noise of shift slope for one record, and the output noise of shift output
// for a pair of data sets (docs/theory/quadratic.md#qop.tilted/1). Both may be 0. With ν the shift
// of all Gaussian parts together and δ_G(ε; ν) the curve of the Gaussian mechanism:
//
//	LSQ, AddRemove  max( A∘ν, R∘ν )
//	LSQ, Replace    max( A∘ν, R∘ν, sup_φ B(t sin φ)∘ν_φ ),   slopes 2s, 2s cos(φ/2)
//	GLM, AddRemove  max( D_a∘ν, D_r∘ν )
//	GLM, Replace    min over e_r + e_a = ε of D_r∘ν(e_r) + e^{e_r}·D_a∘ν(e_a), in either order
//
// where f∘ν is E δ_G(ε − l; ν) for the loss l of which f is the hockey-stick.
type tilted struct {
	eps, k        float64
	dim           int
	structure     loss.Structure
	relation      dp.Relation
	slope, output float64
	rough         bool
	b             *replaceStick // nil if not needed
	curves        map[float64]*gauss
}

func newTilted(s setting, m, slope, output float64, rough bool) *tilted {
	p := &tilted{eps: s.eps, k: m - float64(s.dim) + 1, dim: s.dim, structure: s.structure, relation: s.relation,
		slope: slope, output: output, rough: rough, curves: map[float64]*gauss{}}
	if s.structure == loss.LSQ && s.dim > 1 && s.relation == dp.Replace {
		p.b = newReplaceStick(s.eps, p.k, rough)
	}
	return p
}

// gauss returns log δ_G(·; ν), the same one at every call. It is not safe for concurrent use.
func (p *tilted) gauss(nu float64) *gauss {
	g, ok := p.curves[nu]
	if !ok {
		g = newGauss(nu)
		p.curves[nu] = g
	}
	return g
}

func (p *tilted) logDelta(t float64) float64 { return num.Log(math.Min(p.delta(t), 1)) }

// delta returns δ(ε), ε ≥ 0, for t = L/σ².
func (p *tilted) delta(t float64) float64 {
	switch {
	case p.structure == loss.GLM && p.relation == dp.Replace:
		return p.twoSteps(t)
	case p.structure == loss.GLM:
		nu := math.Hypot(p.slope, p.output)
		return math.Max(p.addGLM(p.eps, t, nu), p.removeGLM(p.eps, t, nu))
	}
	shift := p.slope
	if p.relation == dp.Replace {
		shift *= 2
	}
	nu := math.Hypot(shift, p.output)
	delta := math.Max(p.add(t, nu), p.remove(t, nu))
	if p.b != nil {
		delta = math.Max(delta, p.turned(t))
	}
	return delta
}

// knots are the angles of the tangents by which turned bounds the supremum. It is attained near
// π/2 where it decides, so they are dense there.
var knots = [...]float64{0.8, 1.05, 1.2, 1.3, 1.38, 1.45, 1.51, math.Pi / 2}

// turned bounds sup_φ B(t sin φ)∘ν(2s cos(φ/2)), 0 ≤ φ ≤ π/2. The pairs of shifts (t sin φ, 2s
// cos(φ/2)) are the concave arc v = 2tc√(1−c²), y = 2sc, 1/√2 ≤ c ≤ 1. The set of pairs with
// hockey-stick at most δ is convex and contains what lies below its points: it contains the arc if
// it contains the corners of a polygon of tangents around it. The first tangent is y = 2s. A rough
// curve takes φ = π/2 alone.
func (p *tilted) turned(t float64) float64 {
	value := func(v, c float64) float64 { return p.b.smooth(v, p.gauss(math.Hypot(2*p.slope*c, p.output))) }
	if p.slope == 0 { // the arc is the line below (t, 0)
		return value(t, 0)
	}
	worst := value(t, math.Sqrt2/2)
	if p.rough {
		return worst
	}
	c1, v1 := 1.0, 0.0 // a point of the arc
	d1 := math.Inf(-1) // the slope dv/dc there
	for i, phi := range knots {
		sin, c := math.Sincos(phi / 2)
		v, d := 2*t*c*sin, 2*t*(1-2*c*c)/sin
		at := 1.0
		if i > 0 {
			at = (v - v1 + d1*c1 - d*c) / (d1 - d)
		}
		worst = math.Max(worst, value((v+d*(at-c))*safeScale, at*safeScale))
		c1, v1 = c, v
		d1 = d
	}
	return worst
}

// add and remove return A∘ν and R∘ν of least squares.
func (p *tilted) add(t, nu float64) float64 {
	n := p.k/2 - 1
	return p.averaged(p.eps, nu, t, 0, func(y, rest float64) (l, slope float64) {
		return n*math.Log1p(t/rest) - t/2, n * t / (y * rest)
	})
}

func (p *tilted) remove(t, nu float64) float64 {
	n := p.k/2 - 1
	return p.averaged(p.eps, nu, 0, 0, func(y, _ float64) (l, slope float64) {
		return t/2 - n*math.Log1p(t/y), n * t / (y * (y + t))
	})
}

// addGLM and removeGLM return D_a∘ν and D_r∘ν of generalized linear losses at ε. The branches of
// the losses cross at t/(1 − e^{−t/k}) and t/(e^{t/k} − 1).
func (p *tilted) addGLM(eps, t, nu float64) float64 {
	n := p.k / 2
	return p.averaged(eps, nu, t, t/-math.Expm1(-t/p.k), func(y, rest float64) (l, slope float64) {
		return math.Max(n*math.Log1p(t/rest)-t/2, 0), n * t / (y * rest)
	})
}

func (p *tilted) removeGLM(eps, t, nu float64) float64 {
	n := p.k/2 - 1
	return p.averaged(eps, nu, 0, t/math.Expm1(t/p.k), func(y, _ float64) (l, slope float64) {
		u := math.Log1p(t / y)
		return math.Max(u, t/2-n*u), math.Max(n, 1) * t / (y * (y + t))
	})
}

// twoSteps is the bound for a replaced record of a generalized linear loss: it is removed and the
// other one added, in either order, each with its slope and half of the output shift.
func (p *tilted) twoSteps(t float64) float64 {
	nu := math.Hypot(p.slope, p.output/2)
	points, fine := 8, 0.005
	if p.rough {
		points, fine = 4, 0.05
	}
	best, _ := bestSplit(p.eps, nil, points, fine, func(e float64) float64 { return p.removeGLM(e, t, nu) },
		func(e float64) float64 { return p.addGLM(e, t, nu) })
	return best
}

// mostOrders is the largest ε/ν at which integrals over δ_G(ε − l; ν) are computed. Their panels
// begin where δ_G is about e^{−(ε/ν)²/2}. From e^{−700} on that is 0 in float64, and an integral
// that begins with 0 would end there. The search for a plan avoids what is not computed.
const mostOrders = 25

// unresolved reports whether δ is not computed, so that only δ ≤ 1 is known.
func unresolved(eps, nu float64) bool { return !(math.Abs(eps) <= mostOrders*nu) }

// averaged returns E δ_G(ε − l(y); ν), y ~ χ²_k, with 1 in the place of δ_G for y ≤ from. law gets
// y and y − from, and returns l and a bound on |l′|; kink is a point where l′ jumps, or 0. With y =
// from + s² half-integer powers of y − from become smooth.
func (p *tilted) averaged(
	eps, nu, from, kink float64, law func(y, rest float64) (l, slope float64),
) float64 {
	if unresolved(eps, nu) {
		return 1
	}
	split := math.Sqrt(math.Max(p.k-2-from, 1))
	if kink > from {
		split = math.Sqrt(kink - from)
	}
	plain := chi(p.k)
	width := func(s float64) float64 { // two units of ν/|dl/ds|, within the panels of the density
		l, slope := law(from+s*s, s*s)
		if l-eps > saturated*nu {
			return plain(s)
		}
		return math.Min(plain(s), math.Max(2*nu/(2*s*slope), 1e-7*s))
	}
	g := p.gauss(nu)
	f := func(s float64) float64 {
		y := from + s*s
		l, _ := law(y, s*s)
		return 2 * s * math.Exp(num.Chi2LogPDF(y, p.k)+g.logDelta(eps-l))
	}
	sum := 0.0
	if from > 0 {
		sum = num.Chi2CDF(from, p.k)
	}
	return sum + num.PanelsDown(split, math.Inf(1), width, f) + num.PanelsUp(split, split, width, f)
}

// gauss is log δ_G(·; ν) by Chebyshev polynomials on pieces, made where they are first needed. Its
// error is about 1e-13.
type gauss struct {
	nu, width float64
	pieces    [][]float64
}

// In units of ν: beyond farthest δ_G needs no polynomial, below −saturated it is 1 − e^ε to 1e-20.
const (
	farthest  = 40
	saturated = 12
)

func newGauss(nu float64) *gauss {
	width := math.Min(nu, 1)
	return &gauss{nu: nu, width: width, pieces: make([][]float64, 2*int(math.Ceil(farthest*nu/width)))}
}

// logDelta returns log δ_G(eps; ν), far above 0 an upper bound, Φ(ν/2 − ε/ν).
func (g *gauss) logDelta(eps float64) float64 {
	switch z := eps / g.nu; {
	case z <= -farthest: // δ(ε) = 1 − e^ε + e^ε·δ(−ε)
		return num.Log1mExp(eps)
	case !(z < farthest):
		return -(z - g.nu/2) * math.Max(z-g.nu/2, 0) / 2
	}
	const degree = 16
	u := eps/g.width + float64(len(g.pieces)/2)
	i := min(max(int(u), 0), len(g.pieces)-1)
	coef := g.pieces[i]
	if coef == nil {
		coef = make([]float64, degree)
		for j := range coef {
			at := math.Cos(math.Pi * (float64(j) + 0.5) / degree)
			v := dp.GaussianLogDelta((float64(i-len(g.pieces)/2)+0.5+at/2)*g.width, g.nu)
			for k := range coef {
				coef[k] += 2 * v / degree * math.Cos(math.Pi*float64(k)*(float64(j)+0.5)/degree)
			}
		}
		coef[0] /= 2
		g.pieces[i] = coef
	}
	return num.Chebyshev(coef, 2*(u-float64(i))-1)
}

// smooth returns B∘ν at the shift v, δ_G(ε; ν) at 0.
func (b *replaceStick) smooth(v float64, g *gauss) float64 {
	if unresolved(b.eps, g.nu) {
		return 1
	}
	if !(v > 0) {
		return math.Exp(g.logDelta(b.eps))
	}
	return b.mean(v, func(h float64) float64 { return b.smoothed(h, g) })
}

// smoothed returns K∘ν at the shift h: the integral of replaceStick.kernel with δ_G(ε − l(x); ν) in
// the place of (1 − e^{ε−l(x)})₊,
//
//	∫ c(1−x²)^N δ_G(ε − N log((1−x²)/(1−(x+h)²)); ν) dx,   and 1 for δ_G where x + h ≥ 1
//
// in y = x + h/2, in which the loss is odd.
func (b *replaceStick) smoothed(h float64, g *gauss) float64 {
	if h >= 2 {
		return 1
	}
	end := 1 - h/2
	at := func(y float64) (logp, l float64) {
		x, z := y-h/2, y+h/2
		logp = math.Log((1 - x) * (1 + x))
		return logp, b.n * (logp - math.Log((1-z)*(1+z)))
	}
	f := func(y float64) float64 {
		logp, l := at(y)
		if !(l < math.Inf(1) && l > math.Inf(-1)) {
			return 0
		}
		return b.norm * math.Exp(b.n*logp+g.logDelta(b.eps-l))
	}
	width := func(y float64) float64 {
		x, z := math.Abs(y)-h/2, math.Abs(y)+h/2
		if _, l := at(y); l-b.eps > saturated*g.nu {
			return math.Min(b.unit, math.Max((end-y)/2, 1e-10))
		}
		slope := 2 * b.n * (math.Abs(z)/((1-z)*(1+z)) - x/((1-x)*(1+x)))
		w := math.Max(math.Min(b.unit, 2*g.nu/slope), 1e-7*b.unit)
		return math.Min(w, math.Max((end-math.Abs(y))/2, 1e-10))
	}
	sum := 0.0
	for y := 0.0; y < end; {
		next := math.Min(y+width(y), end)
		part := num.Panel(y, next, f)
		if sum += part; part <= num.Negligible*sum && y > h {
			break
		}
		y = next
	}
	for y := 0.0; y > -end; {
		next := math.Max(y-width(y), -end)
		part := num.Panel(next, y, f)
		if sum += part; part <= num.Negligible*sum {
			break
		}
		y = next
	}
	top, power := math.Acos(1-h), 2*b.n+1
	if top < math.Pi/2 && top*math.Pow(math.Sin(top), power) <= num.Negligible*sum {
		return sum
	}
	return sum + b.norm*num.PanelsDown(top, math.Pi/2, b.width, func(theta float64) float64 {
		return math.Pow(math.Sin(theta), power)
	})
}
