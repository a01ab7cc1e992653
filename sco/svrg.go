// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package sco

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

// svrgSchedule is a schedule of SVRG for a mean of n β-smooth convex functions plus λ‖w‖², with
// μ = 2λ, b = β + 2λ, κ = b/μ.
type svrgSchedule struct {
	stepSize    float64 // η, for the mean
	inner       int     // m, steps of an epoch
	epochs      int     // ⌈log₂(gap/target)⌉: an epoch halves the expected gap, see newSVRGSchedule
	evaluations int     // epochs·(n + 2m), gradients of single functions
}

// newSVRGSchedule returns the schedule that takes an expected gap to target [XZ14]:
//
//	η = 1/(20b), m = 100κ, 1/(μη(1−4bη)m) + 4bη(m+1)/((1−4bη)m) ≈ ½
//
// ok reports that the arguments are positive and finite and that it takes at most 2⁵³ gradients.
func newSVRGSchedule(n int, beta, lambda, gap, target float64) (s svrgSchedule, ok bool) {
	for _, v := range []float64{float64(n), beta, lambda, gap, target} {
		if !(v > 0) || math.IsInf(v, 1) {
			return s, false
		}
	}
	b := beta + 2*lambda
	kappa := b / (2 * lambda)
	epochs := math.Max(1, math.Ceil(math.Log2(gap/target)))
	if size := epochs * (float64(n) + 200*kappa); !(size <= 1<<53) || !(1/(20*b) > 0) { // true for NaN
		return s, false
	}
	s = svrgSchedule{stepSize: 1 / (10 * b) / 2, inner: int(math.Ceil(100 * kappa * (1 - 1e-12))), epochs: int(epochs)}
	s.evaluations = s.epochs * (n + 2*s.inner)
	return s, true
}

// svrg is the proximal SVRG method [XZ14] with one epoch a Step. With x̃ the
// point of the epoch, g = ∇f(x̃)/n and x = x̃, for m steps
//
//	v = ∇fᵢ(x) − ∇fᵢ(x̃) + g,   x ← prox_{(η/n)ψ}(x − ηv),   i uniform
//
// and x̃ is replaced by the average of the x. The point X of an epoch costs no further gradient:
//
//	X = prox_{tψ}(x̃ − ng t),  t = 1/L_f:  dist(0, ∂J(X)) ≤ 2‖x̃ − X‖/t
type svrg struct {
	schedule svrgSchedule

	f    splitting.FiniteSum
	psi  prox.Operator
	rnd  *rand.Rand
	n    int
	last int // epochs left

	anchor, full, x, mean, v, w []float64
	idx                         []int
}

var (
	_ splitting.Method   = (*svrg)(nil)
	_ splitting.Statuser = (*svrg)(nil)
)

// Init implements splitting.Method.
func (m *svrg) Init(p splitting.Problem, x0 []float64, rnd *rand.Rand) error {
	var ok bool
	if m.f, ok = p.F.(splitting.FiniteSum); !ok {
		return fmt.Errorf("%w: SVRG: F is no FiniteSum, want Len() int and GradTerms(dst, x []float64, idx []int)",
			splitting.ErrProblem)
	}
	var err error
	if m.psi, err = prox.Sum(p.G, p.H); err != nil {
		return fmt.Errorf("%w: SVRG: %w", splitting.ErrProblem, err)
	}
	m.rnd, m.n = rnd, m.f.Len()
	m.last = 2*m.schedule.epochs + 10
	for _, s := range []*[]float64{&m.anchor, &m.full, &m.x, &m.mean, &m.v, &m.w} {
		*s = make([]float64, len(x0))
	}
	m.idx = make([]int, 1)
	copy(m.anchor, x0)
	return nil
}

// Step implements splitting.Method: one epoch.
func (m *svrg) Step(loc *splitting.Location, stats *splitting.Stats) {
	n := float64(m.n)
	m.f.Grad(m.full, m.anchor)
	stats.GradTerms += m.n
	t := 1 / m.f.Smoothness()
	floats.AddScaledTo(loc.X, m.anchor, -t, m.full)
	m.psi.Prox(loc.X, loc.X, t)
	loc.Residual = 2 * floats.Distance(m.anchor, loc.X, 2) / t

	eta := m.schedule.stepSize
	copy(m.x, m.anchor)
	clear(m.mean)
	for range m.schedule.inner {
		m.idx[0] = m.rnd.IntN(m.n)
		m.f.GradTerms(m.v, m.x, m.idx)
		m.f.GradTerms(m.w, m.anchor, m.idx)
		for j := range m.x {
			m.x[j] -= eta * (m.v[j] - m.w[j] + m.full[j]/n)
		}
		m.psi.Prox(m.x, m.x, eta/n)
		floats.Add(m.mean, m.x)
	}
	stats.GradTerms += 2 * m.schedule.inner
	stats.Proxes += m.schedule.inner + 1
	floats.ScaleTo(m.anchor, 1/float64(m.schedule.inner), m.mean)
	m.last--
}

// Status ends the method after twice the epochs that are expected: the bound is on an expectation.
func (m *svrg) Status() (splitting.Status, error) {
	if m.last <= 0 {
		return splitting.Stalled, nil
	}
	return splitting.NotTerminated, nil
}
