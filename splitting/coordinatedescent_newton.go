package splitting

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
	singular bool // a factorization broke down: the diagonal is raised since
	blocked  int  // Newton steps since one was full
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
// sweeps between them are left out.
const patientSteps = 3

func (m *newtonSteps) init(n, numbers int) {
	m.chol, m.free, m.delta = resize(m.chol, numbers), resize(m.free, n), resize(m.delta, n)
}

func (m *newtonSteps) reset() { m.factored, m.singular, m.blocked, m.waited = false, false, 0, 0 }

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
