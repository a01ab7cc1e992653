// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package objpert

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/num"
)

// Product perturbs each value of each coordinate:
//
//	w = argmin over W of L(w) − Σ_j η_{j,w_j},   W ⊂ V₁ × … × V_d
//
// with one noise variable for each admitted value. It needs neither a ball nor separators, and of
// the loss only its range R; the noise does not grow with the size of the values. The noise and the
// loss are integers on one grid: no rounding affects the guarantee. Fields without a comment are as
// in [OPDisc].
type Product struct {
	Relation dp.Relation
	// Law is KNorm (the default, least noise) or OneSided.
	Law     Law
	Oracle  Oracle
	Range   float64
	Failure float64
}

// Fit releases the minimizer of p under the budget b, as [OPDisc.Fit] does.
func (m *Product) Fit(ctx context.Context, p *Problem, b dp.Budget, src rand.Source) (*dp.Release, error) {
	return fit(ctx, m.Plan, p, b, src)
}

// Plan returns the noise for p under the budget b, s = 2R, or R under AddRemove:
//
//	KNorm     P(η) ∝ e^{−gauge(η)/t}, t = s/ε, gauge(η) = max_j Σ_k (η_jk − min_k η_jk)
//	OneSided  independent geometric variables, t = s·m/ε, m coordinates with a choice
//
// Both laws are pure: a δ in the budget is not used. Proofs:
// docs/theory/discrete.md#objpert.knorm/2 and docs/theory/discrete.md#objpert.onesided/2. Errors
// are as in [OPDisc.Plan].
func (m *Product) Plan(p *Problem, b dp.Budget) (*Plan, error) {
	pl, b, err := start(p, b, *cmp.Or(m, new(Product)), 0, "KNorm or OneSided", KNorm, OneSided)
	if err != nil {
		return nil, err
	}
	pl.params.Shift = swing(pl.params.Relation) * pl.params.Range
	return pl.product(b, theoremKNorm, theoremOneSided)
}

// product completes a plan with integer noise for each value of each coordinate and the given
// Shift.
func (pl *Plan) product(b dp.Budget, knorm, onesided string) (*Plan, error) {
	pl.pure()
	q := &pl.params
	free, m := 0, 0 // coordinates with a choice; Σ (choices − 1)
	spread, top := 0.0, 0.0
	for _, v := range q.choices(q.Dim) {
		if v > 1 {
			free++
			m += v - 1
			n, h := float64(v), harmonic(v)
			spread += h/n - 1/(n*n) // E max − min of the uniform law on the simplex
			top += h - 1/n          // E max − min of v exponential variables
		}
	}
	if m > maxNoises {
		return nil, fmt.Errorf("%w: %d noise variables, want at most %d", ErrMechanism, m, maxNoises)
	}
	q.Noises = m
	weight := 1
	if q.Law == OneSided {
		weight = max(1, free)
		q.Noises = m + free
	}
	if err := pl.setGrid(weight, b.Epsilon); err != nil {
		return nil, err
	}
	x, unit := pl.tail(b), math.Ldexp(1, q.Exponent)
	// Integers add at most one step per variable to the spread of real noise.
	if q.Law == OneSided {
		q.ExcessBound = q.Scale*top + unit*float64(m)
		return pl.finish(onesided, q.Scale*(x+num.Log(float64(q.Noises+1)))*float64(max(1, free)))
	}
	if least := uint64(2*m + 2); q.Time < least {
		// More noise than ε requires, so that kNorm accepts often, and noise has at most 2³ times the
		// tail of its proposals.
		q.Time = least
		q.Scale = float64(q.Time) * unit
	}
	q.ExcessBound = q.Scale*float64(m+1)*spread + unit*float64(m)
	return pl.finish(knorm, q.Scale*gammaTail(m+1, x)*float64(max(1, free)))
}

// maxNoises bounds the number of variables, so that sums of draws stay inside 64 bits.
const maxNoises = 1 << 13

// harmonic returns 1 + 1/2 + … + 1/n.
func harmonic(n int) (h float64) {
	for i := n; i >= 1; i-- {
		h += 1 / float64(i)
	}
	return h
}

// drawProduct draws a noise value for each admitted value of each coordinate.
func (pl *Plan) drawProduct(src rand.Source) []int64 {
	q := &pl.params
	draw := oneSided
	if q.Law == KNorm {
		draw = kNorm
	}
	return slices.Concat(draw(q.choices(q.Dim), q.Time, src)...)
}

// spreadProduct writes the noise into the tables.
func (pl *Plan) spreadProduct(n *perturbation, eta []int64) {
	i := 0
	for j, row := range n.table {
		for k := range row {
			if pl.params.allowed(j, k) {
				row[k] = eta[i]
				i++
			}
		}
	}
}

// oneSided draws independent geometric variables, and 0 for a coordinate without a choice.
func oneSided(choices []int, t uint64, src rand.Source) [][]int64 {
	eta := make([][]int64, len(choices))
	for j, v := range choices {
		eta[j] = make([]int64, v)
		for k := range eta[j] {
			if v > 1 {
				eta[j][k] = int64(noise.Geometric(t, src))
			}
		}
	}
	return eta
}

// kNorm draws integer tables with min_k η_jk = 0 and P(η) ∝ e^{−N/t}, N = max_j Σ_k η_jk, exactly.
// With the first 0 of row j at k_j and v_j entries in it,
//
//	P(N, k₁, …, k_d) ∝ e^{−N/t} Π_j Π_{i<v_j} (N − k_j + i),   i = 1, …, v_j − 1,
//
// and given these, rows are uniform among those of sum at most N. N is proposed as a sum of m + 1
// geometric variables, m = Σ_j (v_j − 1), and accepted with probability above 1/6 if t > 2m + 1.
// Proof: docs/theory/discrete.md#discrete.gauge
func kNorm(choices []int, t uint64, src rand.Source) [][]int64 {
	zero := make([]int, len(choices)) // k_j
	var n uint64
	for {
		n = noise.Geometric(t, src)
		for _, v := range choices {
			for range v - 1 {
				n += noise.Geometric(t, src)
			}
		}
		if accepted(n, zero, choices, src) {
			break
		}
	}
	eta := make([][]int64, len(choices))
	for j, v := range choices {
		eta[j] = make([]int64, v)
		if v > 1 {
			simplexPoint(eta[j], zero[j], n, src)
		}
	}
	return eta
}

// accepted draws the k_j into zero and reports whether the proposal (n, zero) is accepted.
func accepted(n uint64, zero, choices []int, src rand.Source) bool {
	i := uint64(0) // runs through 1, …, m
	for j, v := range choices {
		zero[j] = int(noise.Below(uint64(v), src))
		for l := uint64(1); l < uint64(v); l++ {
			i++
			// the factor (n − k_j + l)/(n + i) is at most 1
			if k := uint64(zero[j]); n+l <= k || noise.Below(n+i, src) >= n+l-k {
				return false
			}
		}
	}
	return true
}

// simplexPoint draws row uniformly among the rows of non-negative integers with their first 0 at
// index zero and a sum of at most n ≥ zero.
func simplexPoint(row []int64, zero int, n uint64, src rand.Source) {
	// v − 1 parts with a sum of at most r = n − zero are the gaps in a subset of v − 1 of the numbers
	// 1, …, r+v−1, drawn by Floyd's method.
	parts := uint64(len(row) - 1)
	size := n - uint64(zero) + parts
	set := make([]uint64, 0, parts)
	for top := size - parts + 1; top <= size; top++ {
		x := 1 + noise.Below(top, src)
		if slices.Contains(set, x) {
			x = top
		}
		set = append(set, x)
	}
	slices.Sort(set)
	last, i := uint64(0), 0
	for k := range row {
		if k == zero {
			row[k] = 0
			continue
		}
		row[k] = int64(set[i] - last - 1)
		if k < zero { // positive: r leaves out a 1 for each such entry
			row[k]++
		}
		last = set[i]
		i++
	}
	clear(set)
}
