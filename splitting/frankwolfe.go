// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/prox"
)

// FrankWolfe minimizes f over a bounded set C, which is G or H, without projections [FW56; Jag13]:
//
//	s = argmin_{s∈C} ⟨∇f(x),s⟩,   x ← x + τ(s − x)
//
// C is a [prox.LinearMinimizer]: a simplex, an ℓ1, ℓ2 or nuclear ball, a box. X is the point of the
// least gap so far, Γ(x) = ⟨∇f(x), x − s⟩ ≥ f(x) − min_C f. On a Simplex and an L1Ball the steps
// are pairwise [LJ15, Algorithm 2], unless Plain: x is a convex combination Σw_jv_j of vertices,
// and
//
//	a = argmax_{w_a>0} ⟨∇f(x),v_a⟩,   x ← x + τ(s − v_a),   τ ≤ w_a.
//
//	rule        τ                                    Γ, with D the diameter of C
//	FixedStep   min{τ_max, Γ′/(L_f‖d‖²)} for the     min Γ = O(L_f D²/k) [Jag13, Thm. 2];
//	            direction d, Γ′ = −⟨∇f(x),d⟩         pairwise linear if f is strongly convex
//	LineSearch  the same, L_f by backtracking        [LJ15, Thm. 1], except in swap steps
//	            [PNAJ20, Algorithm 2]
//
// If L_f is +Inf, FixedStep means LineSearch. The residual is √(2μΓ) for a strongly convex f; with
// pairwise steps it may be dist(0, ∂J(X)) + L_f·prox.Shift, if less. Otherwise it is +Inf, and
// Settings.Gap ends the solve.
type FrankWolfe struct {
	// Rule is FixedStep or LineSearch.
	Rule StepRule
	// Plain turns pairwise steps off.
	Plain bool

	f         Smooth
	set       prox.LinearMinimizer
	normal    prox.Subdifferential // set, where weights are kept
	atoms     *atoms               // nil without weights
	lip, mu   float64
	gamma     float64 // 1/L_f or its estimate
	search    bool
	line      lineSearch
	terms     int
	x, s, dir []float64
	next      []float64
	grad      []float64
	best      []float64
	gap       float64 // at best
	residual  float64 // at best
	stalling
}

// Init implements Method. It begins at the projection of x0. The error wraps ErrProblem unless one
// of G and H is a bounded prox.LinearMinimizer and the other is nil.
func (m *FrankWolfe) Init(p Problem, x0 []float64, _ *rand.Rand) error {
	if err := cmp.Or(p.plain("FrankWolfe"), rule("FrankWolfe.Rule", m.Rule, FixedStep, LineSearch)); err != nil {
		return err
	}
	n := len(x0)
	set, ok := cmp.Or(p.G, p.H).(prox.LinearMinimizer)
	if !ok || p.G != nil && p.H != nil {
		return unfit("FrankWolfe: G + H is not one prox.LinearMinimizer, want a set with MinLinear(dst, v []float64), " +
			"such as prox.L1Ball, as G or H and nil as the other")
	}
	if r := set.Radius(n); !(r >= 0) || math.IsInf(r, 1) {
		return unfit("FrankWolfe: the set has Radius %v, want a bounded one", r)
	}
	m.f, m.set, m.normal, m.atoms = smooth(p.F), set, nil, nil
	m.lip, m.mu, m.terms = m.f.Smoothness(), convexity(p.F), terms(p.F)
	m.line.init(m.f, n, m.terms)
	m.x, m.s, m.dir, m.next = resize(m.x, n), resize(m.s, n), resize(m.dir, n), resize(m.next, n)
	m.grad, m.best = resize(m.grad, n), resize(m.best, n)
	set.Prox(m.x, x0, 1)
	copy(m.best, m.x)
	var err error
	if m.gamma, _, m.search, err = firstStep("FrankWolfe", 0, 1, m.Rule, m.f, &m.line, m.x); err != nil {
		return err
	}
	if !m.Plain {
		if m.atoms = newAtoms(set, m.x); m.atoms != nil {
			m.normal, _ = set.(prox.Subdifferential)
		}
	}
	m.gap, m.residual, m.stalled = math.Inf(1), math.Inf(1), false
	return nil
}

// Step implements Method.
func (m *FrankWolfe) Step(loc *Location, stats *Stats) {
	x, s, dir := m.x, m.s, m.dir
	if m.search {
		m.line.grad(m.grad, x)
	} else {
		m.f.Grad(m.grad, x)
	}
	stats.GradTerms += m.terms
	if !(norm(m.grad) <= math.MaxFloat64) {
		loc.Residual = math.NaN()
		return
	}
	m.set.MinLinear(s, m.grad)
	stats.Proxes++
	gap, slope, most := 0.0, 0.0, 1.0 // Γ, Γ′ and τ_max
	from := -1
	if m.atoms != nil {
		var to int
		from, to, gap, slope = m.atoms.pair(m.grad)
		most = m.atoms.w[from]
		m.atoms.direction(dir, from, to)
	} else {
		floats.SubTo(dir, s, x)
		slope = -floats.Dot(m.grad, dir)
		// Γ is a difference of sums of n terms; 64 units in the last place of each cover the rounding.
		gap = math.Max(slope, 0) + 0x1p-46*norm(m.grad)*(norm(x)+norm(s))
	}
	m.prove(loc, gap)
	if !(slope > 0) { // x is a minimizer up to rounding
		m.stalled = true
		return
	}
	tau := m.length(slope, most, stats)
	floats.AddScaledTo(m.next, x, tau, dir)
	if m.atoms != nil {
		m.atoms.move(from, tau)
		m.atoms.point(m.next)
	}
	m.stalled = slices.Equal(m.next, x)
	m.x, m.next = m.next, x
}

// length returns τ.
func (m *FrankWolfe) length(slope, most float64, stats *Stats) float64 {
	square := floats.Dot(m.dir, m.dir)
	tau := func() float64 { return math.Min(most, slope*m.gamma/square) }
	if !m.search {
		return tau()
	}
	for range searches {
		floats.AddScaledTo(m.next, m.x, tau(), m.dir)
		if m.line.accepts(m.next, m.x, m.grad, m.gamma, stats) {
			break
		}
		m.gamma *= shrink
	}
	t := tau()
	m.gamma = m.line.longer(m.gamma, 1.1)
	return t
}

// prove keeps x if its gap is the least so far, and sets the location to the best point.
func (m *FrankWolfe) prove(loc *Location, gap float64) {
	if gap < m.gap {
		m.gap, m.residual = gap, math.Inf(1)
		copy(m.best, m.x)
		if m.mu > 0 {
			m.residual = math.Sqrt(2 * m.mu * gap)
		}
		if m.normal != nil && !math.IsInf(m.lip, 1) {
			if r := m.normal.Dist(m.x, m.grad) + m.lip*prox.Shift(m.normal, m.x); r < m.residual {
				m.residual = r
			}
		}
	}
	copy(loc.X, m.best)
	loc.Residual = m.residual
}

func (m *FrankWolfe) dualityGap() float64 { return m.gap }

// atoms are the weights of a convex combination of the vertices r·e_j, and of −r·e_j if signs is 2.
type atoms struct {
	r     float64
	signs int
	w     []float64 // of r·e_0, …, r·e_{d−1}, −r·e_0, …
	moves int
	to    int
}

// newAtoms returns weights of x in the set, nil for other kinds of sets.
func newAtoms(set prox.LinearMinimizer, x []float64) *atoms {
	a := &atoms{signs: 1}
	switch set := set.(type) {
	case prox.Simplex:
		a.r = set.Total
	case prox.L1Ball:
		a.r, a.signs = set.R, 2
	}
	if !(a.r > 0) {
		return nil
	}
	a.w = make([]float64, a.signs*len(x))
	left := 1.0
	for i, v := range x {
		if v < 0 {
			a.w[len(x)+i] = -v / a.r
		} else {
			a.w[i] = v / a.r
		}
		left -= math.Abs(v) / a.r
	}
	// x is inside the ball: the rest of the weight goes to e_0 and −e_0 in equal parts, which cancel.
	if left > 0 && a.signs == 2 {
		a.w[0] += left / 2
		a.w[len(x)] += left / 2
	}
	a.point(x)
	return a
}

// at returns ⟨v,·⟩ at vertex j.
func (a *atoms) at(v []float64, j int) float64 {
	if j < len(v) {
		return a.r * v[j]
	}
	return -a.r * v[j-len(v)]
}

// pair returns the vertex of weight > 0 with the largest ⟨v,·⟩, the vertex with the least ⟨v,·⟩, Γ
// as a sum of nonnegative terms, and the difference of ⟨v,·⟩ between the two vertices.
func (a *atoms) pair(v []float64) (from, to int, gap, slope float64) {
	from = -1
	for j, w := range a.w {
		c := a.at(v, j)
		if !(c >= a.at(v, to)) {
			to = j
		}
		if w > 0 && (from < 0 || !(c <= a.at(v, from))) {
			from = j
		}
	}
	least := a.at(v, to)
	for j, w := range a.w {
		if w > 0 {
			gap += w * (a.at(v, j) - least)
		}
	}
	a.to = to
	return from, to, gap, a.at(v, from) - least
}

// direction stores v_to − v_from in dir.
func (a *atoms) direction(dir []float64, from, to int) {
	clear(dir)
	d := len(dir)
	add := func(j int, r float64) {
		if j >= d {
			j, r = j-d, -r
		}
		dir[j] += r
	}
	add(to, a.r)
	add(from, -a.r)
}

// move moves the weight tau from a vertex to the vertex that pair chose last.
func (a *atoms) move(from int, tau float64) {
	a.w[a.to] += tau
	if a.w[from] -= tau; a.w[from] < 0 {
		a.w[from] = 0
	}
	if a.moves++; a.moves%32 == 0 { // scale the sum back to 1, because rounding errors add up
		floats.Scale(1/floats.Sum(a.w), a.w)
	}
}

// point stores the combination in x.
func (a *atoms) point(x []float64) {
	for i := range x {
		x[i] = a.r * a.w[i]
		if a.signs == 2 {
			x[i] = a.r * (a.w[i] - a.w[len(x)+i])
		}
	}
}
