package splitting

import (
	"math"

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
	u := kernel.ShrinkDot(loc.X, m.z, a, m.tau)
	slope := m.rows.Slope(i, u)
	rest, ridge := m.rows.Rest(m.v, loc.X)
	kernel.Relax(m.z, loc.X, a, rest, 2-m.gamma*ridge, m.gamma*float64(m.n)*slope, m.gamma, m.lo, m.hi, m.lambda())
	m.k++
	stats.GradTerms++
	stats.Proxes += 2
}

// rowSum returns f as a RowSum if rowStep applies to it, g and h, whose coefficients it sets.
func (m *StochasticTOS) rowSum(f FiniteSum, n int) RowSum {
	norm, ok := uniform(m.g, n)
	box, same := uniform(m.h, n)
	all := coefficients{lo: math.Inf(-1), hi: math.Inf(1)}
	if all.l1 = norm.l1; !ok || !same || norm != all || box.l1 != 0 || box.l2 != 0 {
		return nil
	}
	m.tau, m.lo, m.hi = m.gamma*norm.l1, box.lo, box.hi
	rows, _ := f.(RowSum)
	return rows
}

// coefficients are those of one coordinate of a prox.Coordinatewise.
type coefficients struct{ l1, l2, lo, hi float64 }

// uniform returns the coefficients of g if every coordinate has the same.
func uniform(g prox.Operator, n int) (first coefficients, ok bool) {
	c, ok := g.(coordinatewise)
	for i := 0; i < n && ok; i++ {
		var at coefficients
		at.l1, at.l2, at.lo, at.hi = c.Coordinate(i)
		if i == 0 {
			first = at
		}
		ok = at == first
	}
	return first, ok
}
