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

	gram      descent
	residuals columns
	on        coordinateSteps // one of them
	terms     int
}

// coordinateSteps is coordinate descent on Q or on residuals.
type coordinateSteps interface {
	advance()         // one step
	gap() float64     // at the point of the last step
	state() *progress // the point of the last step
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
	if err := m.start(p.F, psi, x0); err != nil {
		return fmt.Errorf("CoordinateDescent: %w", err)
	}
	return nil
}

// start prepares the steps that fit f.
func (m *CoordinateDescent) start(f Smooth, psi coordinatewise, x0 []float64) error {
	n := len(x0)
	m.on = &m.gram
	if a, ok := f.(Columns); ok {
		at, y := a.Columns()
		if at.Rows != n || at.Cols != len(y) {
			panic(badLen)
		}
		if m.Route == OnResiduals {
			m.on = &m.residuals
			return m.residuals.init(psi, equations{at.Cols, n, at.Data, y}, x0)
		}
		if err := m.gram.init(psi, n); err != nil {
			return err
		}
		m.gram.normal(at, y)
	} else {
		q, lin, ok := quadratic(f, n)
		if !ok {
			return fmt.Errorf("%w: F is not quadratic, want a Quadratizer that is, such as Quadratic; ProxNewton and ForwardBackward take others",
				ErrProblem)
		}
		if err := m.gram.init(psi, n); err != nil {
			return err
		}
		m.gram.load(q)
		copy(m.gram.lin, lin)
	}
	copy(m.gram.x, x0)
	m.gram.start()
	return nil
}

// Step implements Method: one sweep over Q, or one round on residuals.
func (m *CoordinateDescent) Step(loc *Location, stats *Stats) {
	m.on.advance()
	copy(loc.X, m.on.state().x)
	loc.Residual = m.on.state().residual
	stats.GradTerms += m.terms
	stats.Proxes++
}

// Gap implements Gapper.
func (m *CoordinateDescent) Gap() float64 {
	if gap := m.on.gap(); !math.IsNaN(gap) {
		return gap
	}
	return math.Inf(1) // numbers are too large for float64
}

// Status implements Statuser.
func (m *CoordinateDescent) Status() (Status, error) {
	if m.on.state().unbounded {
		return Failure, fmt.Errorf("%w: CoordinateDescent: the objective is unbounded below along a coordinate", ErrProblem)
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
