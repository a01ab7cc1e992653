// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/prox"
)

// InteriorPoint solves a quadratic program with linear constraints and absolute values, such as one
// of [NewQP], by the homogeneous embedding [GC24] with Mehrotra's predictor and corrector:
//
//	F     nil or a quadratic
//	G, H  sums over coordinates of linear, quadratic and absolute terms and bounds:
//	      what prox.Pieces knows, such as Bounds, L1, Pinball and Hinge
//	K     nil, or any map of d ≤ 2000 coordinates; its matrix is computed
//
// A step factors a d×d matrix; tens of steps suffice, whatever the conditioning and the units. Then
// the active constraints are solved as equations, so that most answers are exact up to rounding.
//
// Relative residuals, the dual one with the duality gap, are those of a problem whose rows and
// columns are scaled to about 1. Residual and Gap come from the Lagrangian, and are finite where
// float64 has a point that satisfies all constraints, and J is strongly convex or its minimizers
// are known to be bounded. Of an Unbounded problem X is a direction in which the objective falls by
// 1 a unit and no constraint ends. Init ignores all of x0 but its length. Proofs:
// docs/theory/splitting.md#splitting.program
type InteriorPoint struct {
	// NoPolish leaves out the solution of the active constraints.
	NoPolish bool

	terms  [2][]prox.Piece // of G and H
	has    [2]bool         // multipliers of G and H
	solver *solver
	shown  bool // the answer has been shown
	cert   certificate
	x      []float64
	dual   Multipliers
}

// Init implements Method.
func (m *InteriorPoint) Init(p Problem, x0 []float64, _ *rand.Rand) error {
	if len(x0) > interiorDim {
		return unfit("InteriorPoint: %d dimensions, want at most %d; PrimalDual takes more", len(x0), interiorDim)
	}
	g, terms, err := newProgram(p, len(x0))
	if err != nil {
		return err
	}
	m.terms, m.shown = terms, false
	m.has = [2]bool{p.G != nil || p.K == nil && p.H != nil, p.K != nil && p.H != nil}
	g.equilibrate()
	m.solver = newSolver(g)
	m.solver.noPolish = m.NoPolish
	if p.F != nil && costlyModulus(p.F) {
		p.F = Funcs{F: p.F.Func, G: p.F.Grad}
	}
	m.cert.init(p, x0)
	return nil
}

// interiorDim is the largest dimension of an InteriorPoint, whose matrices have d² entries.
const interiorDim = 2000

// Step implements Method.
func (m *InteriorPoint) Step(loc *Location, stats *Stats) {
	stats.GradTerms++
	m.solver.step()
	m.show()
	m.bound()
	m.cert.leastGap(loc, m.x)
}

// bound bounds J(x) − J* from below by the Lagrangian of the multipliers,
//
//	J(w) ≥ J(x) − slack + ⟨∇L(x),w−x⟩ + (μ/2)‖w−x‖²   for all w.
func (m *InteriorPoint) bound() {
	s, c := m.solver, &m.cert
	if s.proof != nil || !c.bounded() {
		return
	}
	rows := m.image(m.x)
	c.value, c.gap = math.Inf(1), math.Inf(1) // the last answer is the best
	c.offer(m.x, terms3{c.f.Func(m.x), c.g.Func(m.x), c.h.Func(rows)}, math.Inf(1))
	if math.IsInf(c.value, 1) {
		return
	}
	a := answer{newton: newton{make([]float64, s.n), s.best.z, s.best.y}}
	for j, v := range c.shown {
		a.x[j] = v / (s.unit * s.d[j])
	}
	s.judge(&a)
	for j, v := range a.grad {
		a.grad[j] = v / (s.cost * s.unit * s.d[j])
	}
	e := norm(a.grad)
	tail := e * (c.reach.of(c.value) + norm(c.shown))
	if c.atY+c.atX > 0 {
		tail = math.Min(tail, e*e/(2*(c.atY+c.atX)))
	}
	c.raise(c.value - a.slack/s.cost - tail - c.slack)
}

// image returns Kx.
func (m *InteriorPoint) image(x []float64) []float64 {
	rows, _ := m.cert.k.Dims()
	kx := make([]float64, rows)
	m.cert.k.MulVec(kx, x)
	return kx
}

// dualityGap implements gapper.
func (m *InteriorPoint) dualityGap() float64 { return m.cert.gap }

// show sets x and the multipliers of the problem.
func (m *InteriorPoint) show() {
	s := m.solver
	x, v := s.best.x, make([]float64, s.a.Rows+s.n)
	s.multiplier(v, s.best.z, s.best.y)
	switch {
	case s.status == Infeasible:
		v = s.proof
	case s.status == Unbounded:
		x = s.proof
	}
	x, v = s.unscaled(x, v)
	if s.status == Infeasible || s.status == Unbounded {
		floats.Scale(s.cost, x) // certificates of size 1
		floats.Scale(s.cost, v)
	}
	m.x, m.dual = x, Multipliers{}
	rows := m.image(x)
	if m.has[0] {
		m.dual.G = v[s.a.Rows:]
	}
	if m.has[1] {
		m.dual.H = v[:s.a.Rows]
	}
	if s.status == Infeasible || s.status == Unbounded {
		return
	}
	for part, u := range [][]float64{m.dual.G, m.dual.H} {
		at := [][]float64{x, rows}[part]
		for i := range u {
			t := m.terms[part][i]
			if u[i] += t.Slope + t.Square*at[i]; t.Kink <= t.Lo {
				u[i] += t.Price
			}
		}
	}
}

// relative implements optimality. The dual residual counts as known once the answer is final.
func (m *InteriorPoint) relative() (primal, dual float64) {
	s := m.solver
	switch {
	case s.proof != nil:
		return math.Inf(1), math.Inf(1)
	case s.status == Converged || m.shown:
		return s.best.primal, max(s.best.dual, s.best.gap)
	}
	return min(s.best.primal, math.MaxFloat64), math.Inf(1)
}

// settle implements paired.
func (m *InteriorPoint) settle(*Location) { m.shown = true }

// pair implements paired.
func (m *InteriorPoint) pair() (x []float64, dual Multipliers, ok bool) { return m.x, m.dual, true }

// Status implements Statuser.
func (m *InteriorPoint) Status() (Status, error) { return m.solver.status, nil }

// solver takes steps of an embedding until its best answer is final.
type solver struct {
	*embedding
	noPolish bool
	best     answer
	status   Status
	proof    []float64 // multipliers of an infeasible program, the ray of an unbounded one
}

const (
	goodError   = 1e-9  // of an answer worth polishing
	finalError  = 1e-13 // of an answer that is not improved
	mostSteps   = 60    // before other programs decide
	leastLength = 1e-7  // of a step
)

func newSolver(g *program) *solver {
	m := &solver{embedding: newEmbedding(g)}
	m.best = answer{newton: newNewton(g.n, len(g.sides), len(g.eqs)), primal: math.Inf(1)}
	return m
}

// step takes a step, and sets the status after the last. Converged means final.
func (m *solver) step() {
	m.walk()
	if m.status == NotTerminated && m.steps >= mostSteps || m.status == Stalled {
		m.decide()
	}
}

// walk takes a step without asking other programs.
func (m *solver) walk() {
	m.residuals()
	moved := m.advance() && m.last > leastLength
	a := m.current()
	inside := m.kappa < m.tau && floats.Norm(a.x, math.Inf(1)) <= remote
	if inside && a.error() <= goodError && !m.noPolish {
		a = m.polished(a)
	}
	better := a.error() < m.best.error()/2
	if inside && a.error() < m.best.error() || math.IsInf(m.best.primal, 1) && finite(a.x) {
		m.best = a
	}
	switch {
	case m.best.error() <= finalError, m.best.error() <= goodError && (!better || !moved):
		m.status = Converged
		return
	case !moved:
		m.status = Stalled
	}
	if v, ok := m.farkas(m.z, m.y); ok {
		m.status, m.proof = Infeasible, v
	} else if d, ok := m.ray(m.x); ok {
		m.status, m.proof = Unbounded, d
		if v, ok := m.leastViolation(); ok {
			m.status, m.proof = Infeasible, v
		}
	}
}

// decide asks two programs that always have a solution.
func (m *solver) decide() {
	m.status = Stalled
	if v, ok := m.leastViolation(); ok {
		m.status, m.proof = Infeasible, v
	} else if d, ok := m.steepestRay(); ok {
		m.status, m.proof = Unbounded, d
	} else if m.best.error() <= goodError {
		m.status = Converged
	}
}

// run walks to the end.
func run(g *program) *solver {
	m := newSolver(g)
	g.pMax = floats.Norm(g.p.Data, math.Inf(1))
	for m.status == NotTerminated && m.steps < mostSteps {
		m.walk()
	}
	return m
}

// leastViolation minimizes the sum of the excesses over hard bounds; its multipliers prove that no
// point is feasible if there is none.
func (m *solver) leastViolation() ([]float64, bool) {
	g := &program{n: m.n, q: make([]float64, m.n), p: square(m.n), a: m.a}
	for _, s := range m.sides {
		if s.hard() {
			g.sides = append(g.sides, side{s.row, s.sign, s.bound, 1})
		}
	}
	for _, e := range m.eqs {
		g.sides = append(g.sides, side{e.row, 1, e.bound, 1}, side{e.row, -1, -e.bound, 1})
	}
	if len(g.sides) == 0 {
		return nil, false
	}
	a := run(g).best
	for k := range g.sides {
		g.sides[k].price = math.Inf(1)
	}
	return g.farkas(a.z, nil)
}

// steepestRay minimizes the slope over the directions |x_j| ≤ 1 that no hard bound ends and along
// which Px = 0.
func (m *solver) steepestRay() ([]float64, bool) {
	rows := m.a.Rows + m.n
	g := &program{n: m.n, q: m.q, p: square(m.n),
		a: blas64.General{Rows: rows, Cols: m.n, Stride: m.n, Data: slices.Concat(m.a.Data, m.p.Data)}}
	moved := func(s side) side {
		if s.row >= m.a.Rows {
			s.row += m.n
		}
		s.bound = 0
		return s
	}
	for _, s := range m.sides {
		g.sides = append(g.sides, moved(s))
	}
	for _, e := range m.eqs {
		g.eqs = append(g.eqs, moved(e))
	}
	for j := range m.n {
		g.eqs = append(g.eqs, side{m.a.Rows + j, 1, 0, 0})
		for _, sign := range []float64{1, -1} {
			g.sides = append(g.sides, side{rows + j, sign, 1, math.Inf(1)})
		}
	}
	return m.ray(run(g).best.x)
}
