package splitting

import (
	"github.com/privopt/privopt/internal/kernel"
	"github.com/privopt/privopt/prox"
)

// RowSum is the optional ability of a FiniteSum to show the parts of its terms,
//
//	fᵢ(x) = φᵢ(⟨aᵢ,x⟩) + (1/n)·((ridge/2)‖x‖² + ρ(x)),
//
// with which StochasticTOS does a step in two passes over the coordinates.
// None of its methods allocates; the caller changes none of their slices.
type RowSum interface {
	FiniteSum
	// Row returns aᵢ.
	Row(i int) []float64
	// Slope returns φᵢ′(u).
	Slope(i int, u float64) float64
	// Rest returns ∇ρ(x), in dst or where it lies ready, and ridge.
	Rest(dst, x []float64) (grad []float64, ridge float64)
}

// rowStep is the step of StochasticTOS for a RowSum, g a multiple of the
// ℓ1 norm and h a box, both the same for every coordinate:
//
//	θ = soft(x, ωl1),   u = ⟨aᵢ,θ⟩
//	z = clip((2 − ω·ridge)θ − x − ωnφᵢ′(u)aᵢ − ω∇ρ(θ), lo, hi)
//	x ← x + λ_k(z − θ)
func (m *StochasticTOS) rowStep(loc *Location, stats *Stats) {
	i := m.rnd.IntN(m.n)
	a := m.rows.Row(i)
	u := kernel.ShrinkDot(loc.X, m.x, a, m.g.(*uniform).tau)
	slope := m.rows.Slope(i, u)
	rest, ridge := m.rows.Rest(m.w, loc.X)
	box := m.h.(*uniform)
	kernel.Relax(m.x, loc.X, a, rest, 2-m.omega*ridge, m.omega*float64(m.n)*slope, m.omega, box.lo, box.hi, m.lambda())
	m.k++
	stats.GradTerms++
	stats.Proxes += 2
}

// rowSum returns f as a RowSum if rowStep applies to it, g and h.
func rowSum(f FiniteSum, g, h prox.Operator) RowSum {
	rows, _ := f.(RowSum)
	norm, _ := g.(*uniform)
	box, _ := h.(*uniform)
	if norm == nil || box == nil || norm.scale != 1 || norm.clips || box.shrinks {
		return nil
	}
	return rows
}
