// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting

import (
	"cmp"
	"math"
	"math/rand/v2"
	"sync"

	"github.com/privopt/privopt/internal/kernel"
	"github.com/privopt/privopt/prox"
)

// StochasticTOS is three-operator splitting with an unbiased estimate v of the gradient of a
// [FiniteSum] f = Σᵢ fᵢ of n terms. Step k = 0, 1, … draws i uniform in {0, …, n−1}:
//
//	y = prox_{γg}(z)
//	x = prox_{γh}(2y − z − γv)
//	z ← z + λ(x − y)
//
//	Problem    name of the method
//	G is nil   proximal stochastic gradient method; ProxSVRG [XZ14]
//	H is nil   stochastic backward–forward splitting [CC26b]: v is added outside the proximal map
//	G and H    [CC26, Algorithm G.2], with SVRG variance-reduced TOS [PFC19; SCMR22]
//
//	         v, γ, λ, X                                                   limit
//	sampled  n∇fᵢ(y), γ, λ_k = (k+1)^−0.502, X = y                        see (c), (d) there
//	SVRG     n(∇fᵢ(y) − ∇fᵢ(w)) + ∇f(w), γ in (0, 1/(2L)), λ = 1;         the minimizer
//	         w ← y with probability Refresh [JZ13, KHR20]; 3d numbers
//
// With SVRG the noise vanishes at the minimizer. Location.X is the point of the least residual so
// far, and y before the first residual. Without it nothing is certified: the residual stays +Inf,
// and the limit is biased if prox_{γh} is not affine, because the noise sits inside it. L = n·maxᵢ
// L_fᵢ. Rates, conditions and proofs: docs/theory/splitting.md#splitting.stochastic
type StochasticTOS struct {
	// SVRG reduces the variance of v.
	SVRG bool
	// StepSize is γ > 0. 0 means 1/(4L) with SVRG and 1/L_f without.
	StepSize float64
	// Refresh in (0, 1] is how likely a step of SVRG computes ∇f(w) and a certificate; 0 means 1/n.
	Refresh float64

	sum    FiniteSum
	rnd    *rand.Rand
	n      int
	idx    [1]int    // the term of this step
	total  []float64 // ∇f(w)
	anchor []float64 // w
	one    []float64 // ∇fᵢ(w)
	owed   int       // terms evaluated before the first step

	certificate
	rows        RowSum  // f where rowStep applies, else nil
	tau, lo, hi float64 // of rowStep: the threshold of g, the box h
	gamma       float64
	k           int
	lambdas     []float64
	x, y, z, v  []float64 // y is Location.X without SVRG
	forward     []float64 // y − c(u + ∇f(y)) of the last certificate
	last        []float64 // the x of the last certificate, where that is a pair
	multipliers Multipliers
}

// Init implements Method. The error wraps ErrProblem if F is not a FiniteSum or has no terms.
func (m *StochasticTOS) Init(p Problem, x0 []float64, rnd *rand.Rand) error {
	if err := p.plain("StochasticTOS"); err != nil {
		return err
	}
	sum, lip, err := p.sampled()
	if err != nil {
		return err
	}
	m.certificate.init(p, x0)
	if err := m.step(lip); err != nil {
		return err
	}
	n := len(x0)
	m.k, m.lambdas, m.rows = 0, lambdas(), nil
	m.x, m.z, m.v = resize(m.x, n), resize(m.z, n), resize(m.v, n)
	copy(m.z, x0)
	m.sum, m.rnd, m.n, m.owed = sum, rnd, sum.Len(), 0
	m.last = m.last[:0]
	if !m.SVRG {
		m.rows = m.rowSum(sum, n)
		return nil
	}
	m.y, m.forward = resize(m.y, n), resize(m.forward, n)
	m.total, m.one, m.anchor = resize(m.total, n), resize(m.one, n), resize(m.anchor, n)
	copy(m.anchor, x0)
	sum.Grad(m.total, x0)
	m.owed = m.n
	return nil
}

// estimate stores v/scale in dst, where v estimates ∇f(y).
func (m *StochasticTOS) estimate(dst, y []float64, stats *Stats) (scale float64) {
	m.idx[0] = m.rnd.IntN(m.n)
	stats.GradTerms += 1 + m.owed
	m.owed = 0
	n := float64(m.n)
	m.sum.GradTerms(dst, y, m.idx[:]) // ∇fᵢ(y)
	if !m.SVRG {
		return n
	}
	m.sum.GradTerms(m.one, m.anchor, m.idx[:])
	stats.GradTerms++
	for j := range dst {
		dst[j] = n*(dst[j]-m.one[j]) + m.total[j]
	}
	return 1
}

// exact returns ∇f(y) where y becomes the anchor.
func (m *StochasticTOS) exact(y []float64, stats *Stats) (grad []float64, due bool) {
	if !m.SVRG {
		return nil, false
	}
	if m.Refresh > 0 && m.rnd.Float64() >= m.Refresh || m.Refresh == 0 && m.rnd.IntN(m.n) != 0 {
		return nil, false
	}
	copy(m.anchor, y)
	m.sum.Grad(m.total, y)
	stats.GradTerms += m.n
	return m.total, true
}

// step sets γ for L = lip.
func (m *StochasticTOS) step(lip float64) error {
	first, limit := 1/m.lip, math.Inf(1) // limit is the supremum of γL
	if m.SVRG {
		first, limit = 1/(4*lip), 0.5
	}
	switch {
	case !(m.Refresh >= 0 && m.Refresh <= 1):
		return invalid("StochasticTOS.Refresh = %v, want a probability in (0, 1], or 0 for 1/n", m.Refresh)
	case !(m.StepSize >= 0) || math.IsInf(m.StepSize, 1):
		return invalid("StochasticTOS.StepSize = %v, want a positive finite number, or 0 for a default", m.StepSize)
	case limit < 1 && math.IsInf(lip, 1):
		return unfit("StochasticTOS: neither F.Smoothness() nor F.TermSmoothness() is finite, want one of them")
	case limit < 1 && m.StepSize*lip >= limit:
		return invalid("StochasticTOS.StepSize = %v, want less than 1/(2L), L = n·maxᵢ L_fᵢ = %v; a FiniteSum that is a "+
			"TermSmoother has a smaller L", m.StepSize, lip)
	case m.StepSize == 0 && !(first > 0):
		return unfit("StochasticTOS: F.Smoothness() = %v, want a finite number ≥ 0, or a StepSize", m.lip)
	}
	if m.gamma = cmp.Or(m.StepSize, first); math.IsInf(m.gamma, 1) {
		m.gamma = 1 // f is affine: every step size is allowed
	}
	return nil
}

// Step implements Method.
func (m *StochasticTOS) Step(loc *Location, stats *Stats) {
	if m.rows != nil {
		m.rowStep(loc, stats)
		return
	}
	x, y := m.x, loc.X
	if m.SVRG {
		y = m.y
	}
	y, z := y[:len(x)], m.z[:len(x)]
	v := m.v[:len(x)]
	gamma := m.gamma
	m.g.Prox(y, z, gamma) // y = prox_{γg}(z)
	scale := m.estimate(v, y, stats)
	if grad, due := m.exact(y, stats); due {
		m.proveAt(loc, stats, x, y, z, grad, gamma)
	}
	step := gamma * scale
	for i := range x {
		x[i] = 2*y[i] - z[i] - step*v[i]
	}
	m.h.Prox(x, x, gamma) // x = prox_{γh}(2y − z − γv)
	lambda := m.lambda()
	for i := range x {
		z[i] += lambda * (x[i] - y[i]) // z ← z + λ(x − y)
	}
	stats.Proxes += 2
	if m.SVRG {
		if m.noG {
			copy(z, x) // exactly, so that y stays in the domain of h
		}
		m.locate(loc, y)
	}
	m.k++
}

// proveAt certifies y by a deterministic step of length c = 1/L_f from y with u = (z−y)/γ.
func (m *StochasticTOS) proveAt(loc *Location, stats *Stats, x, y, z, grad []float64, gamma float64) {
	c := gamma
	if m.lip > 0 && gamma*m.lip <= 1 {
		c = 1 / m.lip
	}
	p := m.forward
	for i := range p {
		p[i] = y[i] - c*((z[i]-y[i])/gamma+grad[i])
	}
	m.h.Prox(x, p, c)
	stats.Proxes++
	if c != gamma {
		m.earlier = m.hidden(y, z, gamma)
	}
	m.prove(loc, stats, x, y, p, grad, c)
	if !m.noH && m.certificate.sum == nil {
		m.last = append(m.last[:0], x...)
		m.multipliers = m.pairAt(x, y, p, grad, c)
	}
}

// pair implements paired, for the last certificate.
func (m *StochasticTOS) pair() (x []float64, dual Multipliers, ok bool) {
	return m.last, m.multipliers, len(m.last) > 0
}

// settle implements paired.
func (m *StochasticTOS) settle(*Location) {}

// locate sets the location to the best certified point, or to y before the first certificate.
func (m *StochasticTOS) locate(loc *Location, y []float64) {
	if math.IsInf(m.bestRes, 1) {
		m.leastGap(loc, y)
		return
	}
	copy(loc.X, m.best)
	loc.Residual = m.bestRes
}

// lambda returns λ_k.
func (m *StochasticTOS) lambda() float64 {
	switch {
	case m.SVRG:
		return 1
	case m.k < len(m.lambdas):
		return m.lambdas[m.k]
	}
	return math.Pow(float64(m.k+1), -relaxed)
}

// relaxed is −log λ_k / log(k+1).
const relaxed = 0.502

// lambdas holds the first λ_k: a power costs a quarter of a step.
var lambdas = sync.OnceValue(func() []float64 {
	table := make([]float64, 4096)
	for k := range table {
		table[k] = math.Pow(float64(k+1), -relaxed)
	}
	return table
})

// TermSmoother is the optional ability of a [FiniteSum] to bound the curvature of its terms.
// Without it each term is assumed to be as curved as f, which holds for convex terms but makes
// steps up to n times too short.
type TermSmoother interface {
	// TermSmoothness returns an upper bound on the Lipschitz constants of ∇fᵢ.
	TermSmoothness() float64
}

// sampled returns F as a FiniteSum with terms and L = n·maxᵢ L_fᵢ, the Lipschitz constant of n∇fᵢ,
// +Inf if unknown.
func (p Problem) sampled() (f FiniteSum, lip float64, err error) {
	f, ok := p.F.(FiniteSum)
	if !ok {
		return nil, 0, unfit("StochasticTOS: F is no FiniteSum, want a sum of terms to sample, with Len() int and " +
			"GradTerms(dst, x []float64, idx []int)")
	}
	n := f.Len()
	if n < 1 {
		return nil, 0, unfit("StochasticTOS: F has no terms, want at least one to sample")
	}
	lip = f.Smoothness()
	if t, ok := f.(TermSmoother); ok {
		lip = math.Min(lip, t.TermSmoothness())
	}
	if math.IsNaN(lip) || lip < 0 {
		return nil, 0, unfit("StochasticTOS: F.Smoothness() = %v, want a number ≥ 0", lip)
	}
	return f, float64(n) * lip, nil
}

// RowSum is the optional ability of a [FiniteSum] to show the parts of its terms,
//
//	fᵢ(x) = φᵢ(⟨aᵢ,x⟩) + (1/n)·((ridge/2)‖x‖² + ρ(x)),
//
// so that [StochasticTOS] does a step in two passes over the coordinates. No method allocates, and
// the caller must not change the slices they return.
type RowSum interface {
	FiniteSum
	// Row returns aᵢ.
	Row(i int) []float64
	// Slope returns φᵢ′(u).
	Slope(i int, u float64) float64
	// Rest returns ∇ρ(x), in dst or in memory of its own, and ridge.
	Rest(dst, x []float64) (grad []float64, ridge float64)
}

// rowStep is the step of StochasticTOS for a RowSum, g a multiple of the ℓ1 norm and h a box, both
// the same for every coordinate:
//
//	y = soft(z, γl1),   u = ⟨aᵢ,y⟩
//	x = clip((2 − γ·ridge)y − z − γnφᵢ′(u)aᵢ − γ∇ρ(y), lo, hi)
//	z ← z + λ_k(x − y)
func (m *StochasticTOS) rowStep(loc *Location, stats *Stats) {
	i := m.rnd.IntN(m.n)
	a := m.rows.Row(i)
	u := kernel.ShrinkDot(loc.X, m.z, a, m.tau)
	slope := m.rows.Slope(i, u)
	rest, ridge := m.rows.Rest(m.v, loc.X)
	kernel.Relax(m.z, loc.X, a, rest, 2-m.gamma*ridge, m.gamma*float64(m.n)*slope, m.gamma, m.lo, m.hi, m.lambda())
	m.k++
	stats.GradTerms++
	stats.Proxes += 2
}

// rowSum returns f as a RowSum if rowStep applies to it, g and h, whose coefficients it sets.
func (m *StochasticTOS) rowSum(f FiniteSum, n int) RowSum {
	norm, ok := uniform(m.g, n)
	box, same := uniform(m.h, n)
	all := coefficients{lo: math.Inf(-1), hi: math.Inf(1)}
	if all.l1 = norm.l1; !ok || !same || norm != all || box.l1 != 0 || box.l2 != 0 {
		return nil
	}
	m.tau, m.lo = m.gamma*norm.l1, box.lo
	m.hi = box.hi
	rows, _ := f.(RowSum)
	return rows
}

// coefficients are those of one coordinate of a prox.Coordinatewise.
type coefficients struct{ l1, l2, lo, hi float64 }

// uniform returns the coefficients of g if every coordinate has the same.
func uniform(g prox.Operator, n int) (first coefficients, ok bool) {
	c, ok := g.(coordinatewise)
	for i := 0; i < n && ok; i++ {
		var at coefficients
		at.l1, at.l2, at.lo, at.hi = c.Coordinate(i)
		if i == 0 {
			first = at
		}
		ok = at == first
	}
	return first, ok
}
