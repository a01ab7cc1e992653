// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package qop

import (
	"math"

	"github.com/privopt/privopt/internal/num"
)

// parallel is E₀(ε) of docs/theory/quadratic.md#qop.joint/1, two generalized linear losses along
// one direction: with u = t/α, α ~ χ²_k,
//
//	E₀ = E[(1 − e^{ε−max(l₂, l₃)})₊],   l₂ = t/2 − N log(1+u),   l₃ = log(1+u) − (k/2) log(1−u) − t/2
//
// l₂ and l₃ cross at u = tanh(t/k). In one dimension E₀ is the δ of replacing a record.
type parallel struct{ eps, k float64 }

func (p parallel) logDelta(t float64) float64 {
	n := p.k/2 - 1
	cross := t / math.Tanh(t/p.k)
	both := p.eps < t/2 && t/2-n*math.Log1p(t/cross) > p.eps // at the crossing the loss is above ε
	top := cross
	if !both {
		top = t / largestBelow(1, p.eps, func(u float64) float64 {
			return math.Log1p(u) - p.k/2*math.Log1p(-u) - t/2
		})
	}
	sum := num.Chi2CDF(t, p.k) + beyond(t, top, p.k, func(y, rest float64) float64 {
		return -(p.eps + t/2 - math.Log1p(t/y) - p.k/2*math.Log1p(t/rest))
	})
	switch {
	case both:
		sum += removeTail(p.eps, t, p.k, cross)
	case p.eps < t/2:
		sum += removeTail(p.eps, t, p.k, t/math.Expm1((t/2-p.eps)/n))
	}
	return num.Log(math.Min(sum, 1))
}

// angles certifies docs/theory/quadratic.md#qop.joint/1: δ = sup_φ E_φ(ε), φ the angle between two
// features. With independent α ~ χ²_k, b ~ χ²_{k+1}, z ~ N(0, 1), and x = 1/α, w = 1/√b
//
//	Q = (cos φ − zw sin φ)² x + w² sin²φ,   D = (1+tx)(1 − tw² sin²φ) − tx (cos φ − zw sin φ)²
//	l₁ = log(1+tx)                          l₂ = t/2 − N log(1+tx)
//
//	l₃ = l₁ − (k/2) log(1−tQ) − t/2         l₄ = l₁ − (k/2) log D, +∞ where the argument is ≤ 0
//	E_φ(ε) = E[(1 − e^{ε−max(l₁, l₂, l₃, l₄)})₊]
//
// Boxes of x, w and z bound E_φ from above (#quadratic.boxes), since every l is convex in each
// coordinate once a tangent replaces l₁. Any mesh is valid; boxes are halved until the excess is
// small. The mass outside of all boxes counts in full.
type angles struct {
	eps, k, target float64
	x, w, z        axis
	outside        float64 // mass outside of all boxes
	least          float64 // bounds of b and |z| inside
	most           float64

	t     float64
	scale float64   // e^{t/k}
	l1    []float64 // log(1+tx) at the means of the nodes of x
	l2    []float64 // l₂ at the edges of x
	boxes int       // that may still be halved
	leaf  float64   // excess of a box that is not halved, over that of all
}

// axis is a coordinate cut into 2^depth cells, and the binary tree over them: node 1 is the whole
// axis, node i has the halves 2i and 2i+1, and the cells are the last nodes.
type axis struct {
	edge    []float64 // between cells
	p, mean []float64 // of nodes
}

const (
	depth = 11
	cells = 1 << depth
)

// newAxis builds the tree from the masses p of the cells and the integrals m of the coordinate over
// them.
func newAxis(edge, p, m []float64) axis {
	a := axis{edge, make([]float64, 2*cells), make([]float64, 2*cells)}
	copy(a.p[cells:], p)
	sum := make([]float64, 2*cells)
	copy(sum[cells:], m)
	for i := 2*cells - 1; i > 0; i-- {
		if i < cells {
			a.p[i], sum[i] = a.p[2*i]+a.p[2*i+1], sum[2*i]+sum[2*i+1]
		}
		first, span := i, 1
		for first < cells {
			first, span = 2*first, 2*span
		}
		lo, hi := edge[first-cells], edge[first-cells+span]
		a.mean[i] = math.Max(math.Min(lo, hi), math.Min(math.Max(lo, hi), sum[i]/a.p[i]))
	}
	return a
}

// chiAxis is the coordinate c^power, c ~ χ²_nu, for c above lo: cells of equal width in √c, the
// last one up to ∞. The integral of the coordinate over a cell is scale·P(χ²_other in it).
func chiAxis(nu, lo, hi, power, other, scale float64) axis {
	edge, p := make([]float64, cells+1), make([]float64, cells)
	m := make([]float64, cells)
	a, b := math.Sqrt(lo), math.Sqrt(hi)
	last := lo
	edge[0] = math.Pow(lo, power)
	for i := range p {
		next := square(a + (b-a)*float64(i+1)/(cells-1))
		if i == cells-1 {
			next = math.Inf(1)
		}
		edge[i+1] = math.Pow(next, power)
		p[i], m[i] = chiMass(last, next, nu), scale*chiMass(last, next, other)
		last = next
	}
	return newAxis(edge, p, m)
}

// chiMass returns P(lo < χ²_nu < hi).
func chiMass(lo, hi, nu float64) float64 {
	if lo > nu {
		return num.Chi2SF(lo, nu) - num.Chi2SF(hi, nu)
	}
	return num.Chi2CDF(hi, nu) - num.Chi2CDF(lo, nu)
}

// normalAxis is a standard normal coordinate in [−most, most].
func normalAxis(most float64) axis {
	edge, p := make([]float64, cells+1), make([]float64, cells)
	m := make([]float64, cells)
	density := func(z float64) float64 { return math.Exp(-z*z/2) / math.Sqrt(2*math.Pi) }
	for i := range edge {
		edge[i] = most * (2*float64(i)/cells - 1)
	}
	for i := range p {
		lo, hi := edge[i], edge[i+1]
		m[i] = density(lo) - density(hi)
		if lo >= 0 {
			lo, hi = -hi, -lo
		}
		p[i] = num.NormalCDF(hi) - num.NormalCDF(lo)
	}
	return newAxis(edge, p, m)
}

// outsideShare of the target is the mass that each of three tails may have.
const outsideShare = 3e-5

// newAngles prepares certificates of δ ≤ e^logTarget for k ≥ 3, where the mean of 1/α exists.
func newAngles(eps, k, logTarget float64) *angles {
	tail := logTarget + math.Log(outsideShare)
	j := &angles{eps: eps, k: k, target: math.Exp(logTarget), outside: 3 * math.Exp(tail), leaf: 1. / 2000}
	j.x = chiAxis(k, num.Chi2Quantile(tail, k), num.Chi2UpperQuantile(tail, k), -1, k-2, 1/(k-2))
	j.least = num.Chi2Quantile(tail, k+1)
	j.w = chiAxis(k+1, j.least, num.Chi2UpperQuantile(tail, k+1), -0.5, k,
		math.Exp(num.LogGamma(k/2)-num.LogGamma((k+1)/2))/math.Sqrt2)
	j.most, _ = num.Bisect(func(z float64) bool { return num.LogQ(z) <= tail-math.Ln2 }, 100, 0)
	j.z = normalAxis(j.most)
	return j
}

// at fills the tables that depend on t.
func (j *angles) at(t float64) {
	j.t, j.scale = t, math.Exp(t/j.k)
	j.l1, j.l2 = make([]float64, 2*cells), make([]float64, cells+1)
	for i := 1; i < 2*cells; i++ {
		j.l1[i] = math.Log1p(t * j.x.mean[i])
	}
	for i, x := range j.x.edge {
		j.l2[i] = t/2 - (j.k/2-1)*math.Log1p(t*x)
	}
}

// bend returns the convex part of max(l₁, l₃, l₄) − l₁ for 1 − tQ and D: max(0, −(k/2)·log
// min(e^{t/k}(1−tQ), D)).
func (j *angles) bend(q, d float64) float64 {
	least := math.Min(j.scale*q, d)
	switch {
	case least >= 1:
		return 0
	case least <= 0:
		return math.Inf(1)
	}
	return -j.k / 2 * math.Log(least)
}

// parallelBound returns a bound on E_φ for every φ with sin φ ≤ s: where |z| and 1/b are bounded,
//
//	tQ ≤ atx + B,   D ≥ 1 − (a−1)tx − B(1+tx),   a = (1 + s|z|/√b)²,   B = ts²/b
//
// which leaves an integral over x, by cells.
func (j *angles) parallelBound(s float64) float64 {
	a := square(1 + s*j.most/math.Sqrt(j.least))
	b := j.t * s * s / j.least
	bend := func(x float64) float64 {
		u := j.t * x
		return j.bend(1-a*u-b, 1-(a-1)*u-b*(1+u))
	}
	sum := j.outside
	for i := range cells {
		node := cells + i
		lo, hi := j.x.edge[i], j.x.edge[i+1]
		mid := j.x.mean[node]
		slope := j.t / (1 + j.t*mid)
		above := func(x, l2 float64) float64 {
			return math.Max(math.Max(0, l2-j.eps), j.l1[node]+slope*(x-mid)+bend(x)-j.eps)
		}
		f := (mid - lo) / (hi - lo)
		sum += j.x.p[node] * -math.Expm1(-interpolate(f, above(lo, j.l2[i]), above(hi, j.l2[i+1])))
	}
	return sum * safeSum
}

// interpolate returns (1−f)a + fb, +∞ if a or b is.
func interpolate(f, a, b float64) float64 {
	if math.IsInf(a, 1) || math.IsInf(b, 1) {
		return math.Inf(1)
	}
	return a + f*(b-a)
}

// safeSum covers the rounding of sums of masses.
const safeSum = 1 + 1e-9

// estimate is a proved bound on E_φ and an estimate of its excess over E_φ.
type estimate struct{ upper, excess float64 }

// angle bounds E_φ for cos²φ = zeta. The excess is about tol·target or less, if there are enough
// boxes.
func (j *angles) angle(zeta, tol float64) estimate {
	v := view{angles: j, cos: math.Sqrt(zeta), sin: math.Sqrt(1 - zeta)}
	for {
		v.tau = tol * j.target * j.leaf
		v.excess, v.stuck = 0, 0
		var r [8]float64
		for i := range r {
			r[i] = v.bendAt(&[3]float64{j.x.edge[i&1*cells], j.w.edge[i>>1&1*cells], j.z.edge[i>>2&1*cells]})
		}
		upper := v.box([3]span{{0, cells}, {0, cells}, {0, cells}}, &r)
		if v.excess <= tol*j.target || v.stuck > tol*j.target/2 || j.boxes <= 0 {
			return estimate{(upper + j.outside) * safeSum, v.excess + j.outside}
		}
		j.leaf /= math.Max(2, math.Min(8, 2*v.excess/(tol*j.target)))
	}
}

// view computes the bound at one angle.
type view struct {
	*angles
	cos, sin      float64
	tau           float64 // excess of a box that is not halved
	excess, stuck float64 // stuck is the part of boxes that are single cells
}

// span is a node of an axis: its cells are lo, …, hi−1.
type span struct{ lo, hi int }

func (s span) node() int { return (cells + s.lo) / (s.hi - s.lo) }

// bendAt returns bend at a point (x, w, z).
func (v *view) bendAt(q *[3]float64) float64 {
	x, w := q[0], q[1]
	z := q[2]
	u, c := v.t*x, v.cos-z*w*v.sin
	s := v.t * square(w*v.sin)
	c *= c
	return v.bend(1-u*c-s, (1+u)*(1-s)-u*c)
}

// trilinear interpolates between the values at the vertices of a box, +∞ if one is.
func trilinear(e *[8]float64, f *[3]float64) float64 {
	line := func(i int) float64 { return interpolate(f[0], e[i], e[i+1]) }
	return interpolate(f[2], interpolate(f[1], line(0), line(2)), interpolate(f[1], line(4), line(6)))
}

// box returns the bound on a box. r holds bend at its vertices: bit i of an index selects the upper
// end of axis i, in the order x, w, z.
func (v *view) box(at [3]span, r *[8]float64) float64 {
	axes := [3]*axis{&v.x, &v.w, &v.z}
	var mean, share [3]float64 // share: where the mean lies between the edges
	var edge [3][2]float64
	p := 1.0
	for i, a := range axes {
		n := at[i].node()
		lo, hi := a.edge[at[i].lo], a.edge[at[i].hi]
		p *= a.p[n]
		mean[i], edge[i], share[i] = a.mean[n], [2]float64{lo, hi}, (a.mean[n]-lo)/(hi-lo)
	}
	l1 := v.l1[at[0].node()]
	slope := v.t / (1 + v.t*mean[0])
	var tangent, l2 [2]float64
	for i, e := range [2]int{at[0].lo, at[0].hi} {
		tangent[i] = l1 + slope*(v.x.edge[e]-mean[0]) - v.eps
		l2[i] = math.Max(0, v.l2[e]-v.eps)
	}
	var e [8]float64 // max(ε, l₁, …, l₄) − ε
	largest := 0.0
	for i := range e {
		e[i] = math.Max(l2[i&1], tangent[i&1]+r[i])
		largest = math.Max(largest, e[i])
	}
	if largest == 0 { // by convexity everywhere in the box
		return 0
	}
	upper := p * -math.Expm1(-trilinear(&e, &share))
	if upper <= v.tau {
		v.excess += upper
		return upper
	}
	l2m := math.Max(0, v.t/2-(v.k/2-1)*l1-v.eps)
	center := math.Max(l2m, l1-v.eps+v.bendAt(&mean))
	for i := range e { // the vertices show where the integrand is concave, the means do not
		e[i] = -math.Expm1(-e[i])
	}
	excess := upper - p*math.Min(-math.Expm1(-center), trilinear(&e, &share))
	if excess <= v.tau || v.boxes <= 0 {
		v.excess += excess
		return upper
	}
	v.boxes--
	// Halve where the bound loses most along a line through the means.
	best, most := -1, 0.0
	for i, s := range at {
		if s.hi-s.lo == 1 {
			continue
		}
		var ends [2]float64
		for j := range ends {
			q, floor := mean, l2m
			line := l1 - v.eps
			if i == 0 {
				floor, line = l2[j], tangent[j]
			}
			q[i] = edge[i][j]
			ends[j] = math.Max(floor, line+v.bendAt(&q))
		}
		chord := interpolate(share[i], -math.Expm1(-ends[0]), -math.Expm1(-ends[1]))
		l := -math.Expm1(-interpolate(share[i], ends[0], ends[1])) - math.Min(-math.Expm1(-center), chord)
		if best < 0 || l > most || l == most && s.hi-s.lo > at[best].hi-at[best].lo {
			best, most = i, l
		}
	}
	if best < 0 {
		v.excess += excess
		v.stuck += excess
		return upper
	}
	lower, higher := *r, *r
	left, right := at, at
	half := (at[best].lo + at[best].hi) / 2
	left[best].hi, right[best].lo = half, half
	for i := range r {
		if i>>best&1 == 1 {
			continue
		}
		q := [3]float64{edge[0][i&1], edge[1][i>>1&1], edge[2][i>>2&1]}
		q[best] = axes[best].edge[half]
		mid := v.bendAt(&q)
		lower[i|1<<best], higher[i] = mid, mid
	}
	return v.box(left, &lower) + v.box(right, &higher)
}

// node is an angle whose E_φ is bounded.
type node struct {
	zeta float64 // cos²φ
	tol  float64
	estimate
}

// Steps between angles, in the arc length 2√κ artanh √ζ with κ = (k+1)/2, and tolerances of the
// bounds at angles. Over a step h, interval overestimates log E_φ by at most h²/8.
const (
	widestStep  = 2.5
	finestStep  = 0.02
	coarseAngle = 0.1
	fineAngle   = 0.002
)

// certify reports whether sup_φ E_φ ≤ target is proved for t: by parallelBound for angles near 0,
// by angle at finitely many others, and by interval between them
// (docs/theory/quadratic.md#quadratic.mixture).
func (j *angles) certify(t float64) bool {
	j.at(t)
	kappa := (j.k + 1) / 2
	s := 1.0
	for s /= math.Sqrt(10); !(j.parallelBound(s*(1+1e-9)) <= j.target); s /= math.Sqrt(10) {
		if s < 1e-6 {
			return false
		}
	}
	end := 2 * math.Sqrt(kappa) * math.Atanh(math.Sqrt(1-s*s))
	at := func(arc, tol float64) *node {
		zeta := math.Min(square(math.Tanh(arc/(2*math.Sqrt(kappa)))), 1-s*s)
		return &node{zeta, tol, j.angle(zeta, tol)}
	}
	steps := math.Ceil(end / widestStep)
	type gap struct {
		lo, hi *node
		a, b   float64 // arc lengths
	}
	var todo []gap
	last := at(0, coarseAngle)
	for i := range int(steps) {
		next := at(end*float64(i+1)/steps, coarseAngle)
		if i == int(steps)-1 {
			next.zeta = 1 - s*s
			next.estimate = j.angle(next.zeta, coarseAngle)
		}
		todo = append(todo, gap{last, next, end * float64(i) / steps, end * float64(i+1) / steps})
		last = next
	}
	for len(todo) > 0 {
		g := todo[len(todo)-1]
		between := func(share float64) float64 {
			return interval(kappa, g.lo.zeta, g.hi.zeta,
				g.lo.upper-share*g.lo.excess, g.hi.upper-share*g.hi.excess) * safeSum
		}
		if between(0) <= j.target {
			todo = todo[:len(todo)-1]
			continue
		}
		tight := between(1)
		tol := math.Max(g.lo.tol, g.hi.tol)
		switch {
		case j.boxes <= 0 || g.b-g.a < finestStep ||
			math.Max(g.lo.upper-g.lo.excess, g.hi.upper-g.hi.excess) > j.target:
			return false // the last condition only makes sup E_φ > target likely
		case tight < j.target*(1-0.004) && tol > fineAngle:
			want := math.Max(fineAngle, math.Min(tol/2, (1-tight/j.target)/2))
			for _, n := range []*node{g.lo, g.hi} {
				if n.tol > want {
					n.tol, n.estimate = want, j.angle(n.zeta, want)
				}
			}
		default:
			mid := (g.a + g.b) / 2
			n := at(mid, math.Min(g.lo.tol, g.hi.tol))
			todo = append(todo[:len(todo)-1], gap{g.lo, n, g.a, mid}, gap{n, g.hi, mid, g.b})
		}
	}
	return true
}

// interval bounds E between two angles where it is at most e0 and e1, with S = E/(1−ζ)^κ:
//
//	log E(ζ) ≤ κ log(1−ζ) + log S₀ + B log(ζ/ζ₀),   B = log(S₁/S₀)/log(ζ₁/ζ₀),   largest at B/(κ+B)
//	E(ζ) ≤ (1−ζ)^κ (S₀ + bζ),   b = (S₁−S₀)/ζ₁,   for ζ₀ = 0, largest at (b−κS₀)/(b(1+κ))
//
// S does not decrease, so that S₁ bounds S₀ too.
func interval(kappa, zeta0, zeta1, e0, e1 float64) float64 {
	s1 := math.Log(e1) - kappa*math.Log1p(-zeta1)
	s0 := math.Min(math.Log(e0)-kappa*math.Log1p(-zeta0), s1)
	if zeta0 == 0 {
		rise := math.Expm1(s1-s0) / zeta1 // b/S₀
		if !(rise > 0) {
			return math.Exp(s0)
		}
		zeta := math.Max(0, math.Min(zeta1, (rise-kappa)/(rise*(1+kappa))))
		return math.Exp(s0 + kappa*math.Log1p(-zeta) + math.Log1p(rise*zeta))
	}
	b := (s1 - s0) / math.Log(zeta1/zeta0)
	zeta := math.Max(zeta0, math.Min(zeta1, b/(kappa+b)))
	return math.Exp(s0 + kappa*math.Log1p(-zeta) + b*math.Log(zeta/zeta0))
}

// leastJointDof is the least k for which joint tries a certificate in more than one dimension.
// mostBoxes limits the boxes of each of its six tries, which take about a second.
const (
	leastJointDof = 3
	mostBoxes     = 2_000_000
)

// joint returns a t > guess, near the largest, for which docs/theory/quadratic.md#qop.joint/1 is
// proved with the given number of boxes under replacement, or 0.
func (s setting) joint(k, logTarget, guess float64, boxes int) float64 {
	flat := parallel{s.eps, k}
	if s.dim == 1 {
		return num.Largest(flat.logDelta, logTarget, guess, fineT)
	}
	if k < leastJointDof {
		return 0
	}
	j := newAngles(s.eps, k, logTarget)
	j.boxes = boxes
	// The worst angle is not known, but it usually is 0 or π/2.
	t := num.Largest(func(t float64) float64 {
		l := flat.logDelta(t) + 0.02
		if l < logTarget {
			j.at(t)
			l = math.Max(l, math.Log(j.angle(0, 0.02).upper))
		}
		return l
	}, logTarget, guess, coarseT)
	for _, less := range []float64{0, 0.003, 0.01, 0.03, 0.06, 0.1} {
		j.boxes = boxes // of one try: a hard t must leave boxes for the easier ones below it
		if t*(1-less) > guess && j.certify(t*(1-less)) {
			return t * (1 - less)
		}
	}
	return 0
}
