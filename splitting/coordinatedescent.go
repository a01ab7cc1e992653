// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// CoordinateDescent minimizes a quadratic plus a coordinatewise penalty,
//
//	½x'Qx − ⟨lin,x⟩ + Σᵢ (l1|xᵢ| + (l2/2)xᵢ² + ι[lo,hi](xᵢ)),
//
// exactly up to rounding [W15]. F must be a [LeastSquares] or a [Quadratizer], and prox.Sum(G, H) a
// [prox.Coordinatewise]. A step is one sweep, which minimizes along each coordinate in turn and
// keeps the gradient g = Qx − lin current:
//
//	xⱼ ← clip(soft(Qⱼⱼxⱼ − gⱼ, l1)/(Qⱼⱼ + l2), lo, hi),   g ← g + Δxⱼ·Qeⱼ
//
// Once the sweeps stay on one piece of the penalty for as long as a factorization costs, Newton's
// method solves for the free coordinates at once, so that ill-conditioned problems end too.
//
// For a LeastSquares it works on the residual of the equations and an active set, and forms only
// the part of Q = A'A that belongs to free coordinates.
//
// The residual is dist(0, ∂J(X)), and X is feasible exactly. Result.Gap is a duality gap where the
// penalty has one. Memory: 1.5 d² numbers on Q; on residuals n + 13d and the lesser
// of d²/2 and nd/8 (at least 8192).
type CoordinateDescent struct {
	gram      descent
	residuals columns
	on        coordinateSteps // &gram or &residuals
	terms     int
	ratios    residuals
	squares   *LeastSquares // works on its A'A, nil otherwise
	onGram    bool          // of a LeastSquares, too: for Path
}

// coordinateSteps is coordinate descent on Q or on residuals.
type coordinateSteps interface {
	advance()         // one step
	gap() float64     // at the point of the last step
	terms() float64   // the size of the terms of the residual
	state() *progress // the point of the last step
}

// progress is the iterate of coordinate descent and the best one so far.
type progress struct {
	x         []float64
	pieces    []int8  // of x
	residual  float64 // dist(0, ∂J(x))
	unbounded bool    // a coordinate ran off to infinity
	stalling          // rounding allows no progress

	best    []float64 // the point of the least residual from scratch
	bestRes float64
}

func (p *progress) init(n int) {
	p.x, p.pieces, p.best = resize(p.x, n), resize(p.pieces, n), resize(p.best, n)
}

// reset forgets all points but x.
func (p *progress) reset() {
	clear(p.pieces)
	p.unbounded, p.stalled = false, false
	p.bestRes = math.Inf(1)
}

// keep stores x as the best point.
func (p *progress) keep() {
	p.bestRes = p.residual
	copy(p.best, p.x)
}

// end returns to the best point and stops.
func (p *progress) end() {
	p.stalled, p.residual = true, p.bestRes
	copy(p.x, p.best)
}

// state implements coordinateSteps.
func (p *progress) state() *progress { return p }

// Init implements Method. The error wraps ErrProblem if F is neither a LeastSquares nor quadratic,
// or G + H is not coordinatewise.
func (m *CoordinateDescent) Init(p Problem, x0 []float64, _ *rand.Rand) error {
	psi, ok := p.coordinatewise()
	if !ok {
		return unfit("CoordinateDescent: G + H is not coordinatewise, want operators that are prox.Coordinatewise: " +
			"Coordinate(i int) (l1, l2, lo, hi float64); ForwardBackward and DavisYin need no coordinates")
	}
	m.terms = terms(p.F)
	m.ratios = residuals{}
	f, isSquares := p.F.(*LeastSquares)
	if m.squares = nil; m.onGram {
		m.squares = f
	}
	if isSquares && !m.onGram {
		m.on = &m.residuals
		return m.residuals.init(psi, &f.equations, x0)
	}
	q, lin, ok := quadratic(p.F, len(x0))
	if !ok {
		return unfit("CoordinateDescent: F is not quadratic, want a LeastSquares, or a Quadratizer with ok = true: " +
			"Quadratic() (q *mat.SymDense, lin []float64, c float64, ok bool); ProxNewton and ForwardBackward need no " +
			"quadratic")
	}
	m.on = &m.gram
	if err := m.gram.init(psi, len(x0)); err != nil {
		return err
	}
	m.gram.load(q)
	copy(m.gram.lin, lin)
	copy(m.gram.x, x0)
	m.gram.start()
	return nil
}

// Step implements Method: one sweep over Q, or one round on residuals.
func (m *CoordinateDescent) Step(loc *Location, stats *Stats) {
	m.on.advance()
	copy(loc.X, m.on.state().x)
	loc.Residual = m.on.state().residual
	m.ratios.compare(loc.Residual, m.on.terms())
	stats.GradTerms += m.terms
	stats.Proxes++
}

func (m *CoordinateDescent) relative() (primal, dual float64) { return m.ratios.relative() }

func (m *CoordinateDescent) dualityGap() float64 {
	if f := m.squares; f != nil {
		r, v := make([]float64, f.n), make([]float64, f.d)
		f.rest(r, m.gram.x)
		f.mulTrans(v, r)
		if gap := m.gram.leastSquaresGap(m.gram.x, v, f.y, r); !math.IsNaN(gap) {
			return gap
		}
		return math.Inf(1)
	}
	if gap := m.on.gap(); !math.IsNaN(gap) && !math.IsInf(m.on.state().residual, 1) {
		return gap
	}
	return math.Inf(1) // a number is too large for float64
}

// Status implements Statuser.
func (m *CoordinateDescent) Status() (Status, error) {
	if m.on.state().unbounded {
		return Unbounded, fmt.Errorf("%w, along a coordinate", ErrUnbounded)
	}
	return m.on.state().Status()
}

// coordinatewise returns the coefficients of G + H where it is separable.
func (p Problem) coordinatewise() (coordinatewise, bool) {
	psi, ok := p.sum()
	if !ok {
		return nil, false
	}
	c, ok := psi.(coordinatewise)
	return c, ok
}

// newtonSteps solves for the free coordinates A on the present piece of ψ,
//
//	δ = −(H + L2)⁻¹ (∇f + ψ′)_A,   x_A ← x_A + αδ,   H = ∇²f_AA
//
// with the largest α ≤ 1 that stays on the piece.
//
// Where H + L2 is singular its diagonal is raised by the factor 1+τ, and the step becomes that of
// the proximal point method: an error along an eigenvector of the scaled H shrinks by τ/(λ+τ), and
// where J falls along the kernel, δ is long and ends the piece. Sweeps hardly move there. So then,
// and after several steps in a row that ended at the end of a piece, the next step follows at once
// on the piece that begins, which has one coordinate less.
type newtonSteps struct {
	chol     []float64 // Cholesky factor of H + L2, packed lower rows
	free     []int     // A
	delta    []float64
	factored bool // chol belongs to the present piece
	singular bool // a factorization failed, and the diagonal is raised since then
	blocked  int  // Newton steps since the last full one
	waited   int  // sweeps or coordinate steps since the last factorization
}

// quadraticPiece is a quadratic f for newtonSteps.
type quadraticPiece interface {
	freeCoordinates(dst []int) []int      // appends the free coordinates with curvature to dst
	hessianRow(free []int, row []float64) // stores the last row of the block of free[:len(row)]
	gradientAlong(i int) float64          // ∂f/∂xᵢ
	refresh()                             // recomputes the gradient after a move of x
	cost(k int) int                       // of a refresh and of the Hessian of k free coordinates
}

// newtonWork bounds the multiply-adds of Newton steps in a row: a tenth of a second.
const newtonWork = 1e8

// patientSteps is the number of Newton steps in a row that may end at the end of a piece before the
// method stops sweeping between them.
const patientSteps = 3

func (m *newtonSteps) init(n, numbers int) {
	m.chol, m.free, m.delta = resize(m.chol, numbers), resize(m.free, n), resize(m.delta, n)
}

func (m *newtonSteps) reset() {
	m.factored, m.singular = false, false
	m.blocked, m.waited = 0, 0
}

// newton moves x by Newton steps. It reports whether there was one, and whether the last had α = 1.
func (m *newtonSteps) newton(p *penalty, x []float64, f quadraticPiece) (ok, full bool) {
	for work := 0; work < newtonWork; {
		if !m.factored {
			m.waited, m.free = 0, f.freeCoordinates(m.free[:0])
			m.factored = raised(m.chol, len(m.free), &m.singular, func(r int, row []float64) {
				f.hessianRow(m.free, row)
				row[r] += p.l2[m.free[r]]
			})
			if !m.factored {
				return ok, false
			}
		}
		delta := m.delta[:len(m.free)]
		for k, i := range m.free {
			delta[k] = -(f.gradientAlong(i) + p.slope(i, x[i]))
		}
		cholSolve(m.chol, delta)
		if ok = true; p.walk(x, m.free, delta) {
			m.blocked = 0
			return true, true
		}
		m.factored = false
		if m.blocked++; !m.singular && m.blocked < patientSteps {
			return true, false
		}
		f.refresh()
		k := len(m.free)
		work += f.cost(k) + k*k*k/6
	}
	return true, false
}
