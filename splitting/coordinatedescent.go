package splitting

import (
	"fmt"
	"math/rand/v2"
)

// CoordinateDescent minimizes a quadratic plus a coordinatewise penalty,
//
//	½x'Qx − ⟨lin,x⟩ + Σᵢ (l1|xᵢ| + (l2/2)xᵢ² + ι[lo,hi](xᵢ)),
//
// exactly up to rounding [W15]. A step is one sweep: along each coordinate in
// turn the minimizer is known,
//
//	xⱼ ← clip(soft(Qⱼⱼxⱼ − gⱼ, l1)/(Qⱼⱼ + l2), lo, hi),   g ← g + Δxⱼ·Qeⱼ,
//
// and the gradient g = Qx − lin is kept current. Once the sweeps stay on one
// piece of the penalty for as long as a factorization costs, Newton's method
// solves for the free coordinates at once, which makes ill-conditioned
// problems end too. It stalls when rounding allows no progress.
//
// F must be a Quadratizer and prox.Sum(G, H) a prox.Coordinatewise. Needs 1.5 d²
// numbers of memory, which a second Init reuses.
//
// The residual is dist(0, ∂J(X)), and X is feasible exactly.
type CoordinateDescent struct {
	c     descent
	terms int
}

var (
	_ Method   = (*CoordinateDescent)(nil)
	_ Statuser = (*CoordinateDescent)(nil)
)

// Init implements Method. The error wraps ErrProblem if F is not quadratic or
// G + H not coordinatewise.
func (m *CoordinateDescent) Init(p Problem, x0 []float64, _ *rand.Rand) error {
	quad, ok := smooth(p.F).(Quadratizer)
	if !ok {
		return fmt.Errorf("%w: CoordinateDescent: F is no Quadratizer, want a quadratic such as Quadratic", ErrProblem)
	}
	q, lin, _, ok := quad.Quadratic()
	if !ok {
		return fmt.Errorf("%w: CoordinateDescent: F is not quadratic; ProxNewton and ForwardBackward need no quadratic", ErrProblem)
	}
	psi, ok := p.coordinatewise()
	if !ok {
		return fmt.Errorf("%w: CoordinateDescent: G + H is not coordinatewise; ForwardBackward and DavisYin need no coordinates", ErrProblem)
	}
	if q.SymmetricDim() != len(x0) || len(lin) != len(x0) {
		panic(badLen)
	}
	m.terms = terms(p.F)
	if err := m.c.init(psi, len(x0)); err != nil {
		return fmt.Errorf("CoordinateDescent: %w", err)
	}
	m.c.load(q)
	copy(m.c.lin, lin)
	copy(m.c.x, x0)
	m.c.start()
	return nil
}

// Step implements Method: one sweep.
func (m *CoordinateDescent) Step(loc *Location, stats *Stats) {
	m.c.advance()
	copy(loc.X, m.c.x)
	loc.Residual = m.c.residual
	stats.GradTerms += m.terms
	stats.Proxes++
}

// Status implements Statuser.
func (m *CoordinateDescent) Status() (Status, error) {
	switch {
	case m.c.unbounded:
		return Failure, fmt.Errorf("%w: CoordinateDescent: the objective is unbounded below along a coordinate", ErrProblem)
	case m.c.stalled:
		return Stalled, nil
	}
	return NotTerminated, nil
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
