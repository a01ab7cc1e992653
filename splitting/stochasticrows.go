package splitting

import (
	"github.com/privopt/privopt/internal/kernel"
	"github.com/privopt/privopt/prox"
)

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
	u := kernel.ShrinkDot(loc.X, m.z, a, m.first.(*uniform).tau)
	slope := m.rows.Slope(i, u)
	rest, ridge := m.rows.Rest(m.v, loc.X)
	box := m.second.(*uniform)
	kernel.Relax(m.z, loc.X, a, rest, 2-m.gamma*ridge, m.gamma*float64(m.n)*slope, m.gamma, box.lo, box.hi, m.lambda())
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
