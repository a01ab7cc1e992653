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
// Where F is a Columns, as LeastSquares is, it works on the residual of the
// equations and an active set instead. A step is then a look at all coordinates
// after sweeps over the active ones. Q = A'A would cost as much as d/4 sweeps;
// only the part of it that belongs to free coordinates is formed, and only once
// the sweeps have cost as much, so that it pays for every shape and
// conditioning (BenchmarkAuto).
//
// F must be a Columns or a Quadratizer, and prox.Sum(G, H) a
// prox.Coordinatewise. Memory: 1.5 d² numbers on Q, and d²/2 or nd/8 (at least
// 8192), whichever is less, and n + 13d on residuals; a second Init reuses it.
//
// The residual is dist(0, ∂J(X)), and X is feasible exactly. Gap is a duality
// gap where the penalty has one, see LeastSquares.Gap.
type CoordinateDescent struct {
	// Route is what it works on where F is a Columns.
	Route Route

	c     descent
	cols  columns
	onQ   bool
	terms int
}

// Route says on what CoordinateDescent works for a least-squares problem.
type Route int

const (
	OnResiduals Route = iota // on r = y − Ax
	OnGram                   // on Q = A'A, formed once
)

var (
	_ Method   = (*CoordinateDescent)(nil)
	_ Statuser = (*CoordinateDescent)(nil)
	_ Gapper   = (*CoordinateDescent)(nil)
)

// Init implements Method. The error wraps ErrProblem if F is neither a Columns
// nor quadratic, or G + H not coordinatewise, and ErrSettings for an unknown
// Route.
func (m *CoordinateDescent) Init(p Problem, x0 []float64, _ *rand.Rand) error {
	if m.Route != OnResiduals && m.Route != OnGram {
		return fmt.Errorf("%w: CoordinateDescent.Route = %d, want OnResiduals or OnGram", ErrSettings, m.Route)
	}
	psi, ok := p.coordinatewise()
	if !ok {
		return fmt.Errorf("%w: CoordinateDescent: G + H is not coordinatewise; ForwardBackward and DavisYin need no coordinates", ErrProblem)
	}
	m.terms = terms(p.F)
	if a, ok := p.F.(Columns); ok {
		return m.columns(a, psi, x0)
	}
	quad, ok := smooth(p.F).(Quadratizer)
	if !ok {
		return fmt.Errorf("%w: CoordinateDescent: F is no Quadratizer, want a quadratic such as Quadratic", ErrProblem)
	}
	q, lin, _, ok := quad.Quadratic()
	if !ok {
		return fmt.Errorf("%w: CoordinateDescent: F is not quadratic; ProxNewton and ForwardBackward need no quadratic", ErrProblem)
	}
	if q.SymmetricDim() != len(x0) || len(lin) != len(x0) {
		panic(badLen)
	}
	m.onQ = true
	if err := m.c.init(psi, len(x0)); err != nil {
		return fmt.Errorf("CoordinateDescent: %w", err)
	}
	m.c.load(q)
	copy(m.c.lin, lin)
	copy(m.c.x, x0)
	m.c.start()
	return nil
}

// columns prepares for ½‖Ax − y‖².
func (m *CoordinateDescent) columns(f Columns, psi coordinatewise, x0 []float64) error {
	at, y := f.Columns()
	n, d := at.Cols, at.Rows
	if d != len(x0) || len(y) != n {
		panic(badLen)
	}
	m.onQ = m.Route == OnGram
	if m.onQ {
		if err := m.c.init(psi, d); err != nil {
			return fmt.Errorf("CoordinateDescent: %w", err)
		}
		m.c.gram(at, y)
		copy(m.c.x, x0)
		m.c.start()
		return nil
	}
	if err := m.cols.init(psi, n, d); err != nil {
		return fmt.Errorf("CoordinateDescent: %w", err)
	}
	m.cols.at, m.cols.y = at.Data, y
	copy(m.cols.x, x0)
	m.cols.start()
	return nil
}

// Step implements Method: one sweep over Q, or one round on residuals.
func (m *CoordinateDescent) Step(loc *Location, stats *Stats) {
	if m.onQ {
		m.c.advance()
		copy(loc.X, m.c.x)
		loc.Residual = m.c.residual
	} else {
		m.cols.advance()
		copy(loc.X, m.cols.x)
		loc.Residual = m.cols.residual
	}
	stats.GradTerms += m.terms
	stats.Proxes++
}

// Gap implements Gapper.
func (m *CoordinateDescent) Gap() float64 {
	gap := m.cols.gap
	if m.onQ {
		gap = m.c.gap()
	}
	if math.IsNaN(gap) { // numbers are too large for float64
		return math.Inf(1)
	}
	return gap
}

// Status implements Statuser.
func (m *CoordinateDescent) Status() (Status, error) {
	switch {
	case m.onQ && m.c.unbounded, !m.onQ && m.cols.unbounded:
		return Failure, fmt.Errorf("%w: CoordinateDescent: the objective is unbounded below along a coordinate", ErrProblem)
	case m.onQ && m.c.stalled, !m.onQ && m.cols.stalled:
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
