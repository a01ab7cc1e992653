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
// exactly up to rounding [W15]. F must be a [Quadratizer], and prox.Sum(G, H) a
// [prox.Coordinatewise]. A step is one sweep, which minimizes along each coordinate in turn and
// keeps the gradient g = Qx − lin current:
//
//	xⱼ ← clip(soft(Qⱼⱼxⱼ − gⱼ, l1)/(Qⱼⱼ + l2), lo, hi),   g ← g + Δxⱼ·Qeⱼ
//
// Once the sweeps stay on one piece of the penalty for as long as a factorization costs, Newton's
// method solves for the free coordinates at once, so that ill-conditioned problems end too.
//
// The residual is dist(0, ∂J(X)), and X is feasible exactly. Result.Gap is a duality gap where the
// penalty has one. Memory: 1.5 d² numbers.
type CoordinateDescent struct {
	descent
	terms   int
	ratios  residuals
	squares *LinearModel // F if that is least squares, else nil
	value   float64      // f at x, or NaN
}

// Init implements Method. The error wraps ErrProblem if F is not quadratic, or G + H is not
// coordinatewise.
func (m *CoordinateDescent) Init(p Problem, x0 []float64, _ *rand.Rand) error {
	psi, ok := p.coordinatewise()
	if !ok {
		return unfit("CoordinateDescent: G + H is not coordinatewise, want operators that are prox.Coordinatewise: " +
			"Coordinate(i int) (l1, l2, lo, hi float64); ForwardBackward and DavisYin need no coordinates")
	}
	q, lin, ok := quadratic(p.F, len(x0))
	if !ok {
		return unfit("CoordinateDescent: F is not quadratic, want a Quadratizer with ok = true: " +
			"Quadratic() (q *mat.SymDense, lin []float64, c float64, ok bool); ProxNewton and ForwardBackward need no " +
			"quadratic")
	}
	m.terms, m.ratios = terms(p.F), residuals{}
	m.squares, _ = p.F.(*LinearModel)
	if err := m.descent.init(psi, len(x0)); err != nil {
		return err
	}
	m.load(q, p.F)
	copy(m.lin, lin)
	copy(m.x, x0)
	m.start()
	return nil
}

// Step implements Method: one sweep.
func (m *CoordinateDescent) Step(loc *Location, stats *Stats) {
	m.advance()
	m.value = math.NaN()
	copy(loc.X, m.x)
	loc.Residual = m.residual
	m.ratios.compare(loc.Residual, m.scale())
	stats.GradTerms += m.terms
	stats.Proxes++
}

func (m *CoordinateDescent) relative() (primal, dual float64) { return m.ratios.relative() }

func (m *CoordinateDescent) dualityGap() float64 {
	gap := math.NaN()
	switch {
	case m.squares != nil:
		var ok bool
		if gap, ok = m.quick(); !ok {
			gap, m.value = m.squares.gap(&m.penalty, m.x)
		}
	case m.fresh && !math.IsInf(m.residual, 1):
		gap = m.gap()
	}
	if math.IsNaN(gap) { // a number is too large for float64
		return math.Inf(1)
	}
	return gap
}

// quick computes the gap of least squares from Qx and c = ½‖y‖², without a pass over the rows,
// where it is far above the rounding of their sums.
func (m *CoordinateDescent) quick() (gap float64, ok bool) {
	_, _, c, quad := m.squares.Quadratic()
	if !quad || math.IsInf(m.residual, 1) {
		return 0, false
	}
	var ry, gx, size float64 // ⟨y−Ax, y⟩ and ⟨g,x⟩
	ry, size = 2*c, 2*c
	for i, x := range m.x {
		ry -= m.lin[i] * x
		gx += m.g[i] * x
		size += math.Abs(m.lin[i]*x) + math.Abs(m.g[i]*x)
		m.delta[i] = -m.g[i]
	}
	rr := ry + gx
	rounding := 0x1p-52 * float64(m.squares.Len()+9*m.n) * size // nine products with a row of Q
	if rr < 1e6*rounding {
		return 0, false
	}
	if 8*rr >= size { // then half of it is f, to 11 digits at least
		m.value = rr / 2
	}
	rr1, ry1 := m.squares.shift(&m.penalty, m.delta[:m.n], rr, ry)
	gap = m.penalty.leastSquaresGap(m.x, m.delta[:m.n], rr/2, rr1, ry1, m.squares.Len()) + rounding
	return gap, gap >= 2*rounding && gap <= math.MaxFloat64
}

// last implements informed.
func (m *CoordinateDescent) last() (f float64, grad []float64) {
	if m.fresh {
		grad = m.g
	}
	return m.value, grad
}

// Status implements Statuser.
func (m *CoordinateDescent) Status() (Status, error) {
	if m.unbounded {
		return Unbounded, fmt.Errorf("%w, along a coordinate", ErrUnbounded)
	}
	return m.stalling.Status()
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
