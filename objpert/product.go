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

// Product perturbs each value of each coordinate by itself:
//
//	w = argmin over W of L(w) − Σ_j η_{j,w_j},   W ⊂ V₁ × … × V_d
//
// with one noise variable per admitted value. It needs no ball, no separators
// and nothing of the loss but its range R, and the noise does not grow with the
// size of the values. The noise and the loss are integers on one grid, drawn
// and compared exactly: no rounding takes part in the guarantee. The fields are
// those of OPDisc.
type Product struct {
	Relation dp.Relation
	// Law is KNorm (the default, least noise) or OneSided.
	Law Law
	// Oracle minimizes; nil means Auto.
	Oracle  Oracle
	Range   float64
	Failure float64
	// Trace, if not nil, is called at the end of every search. Not private: what
	// it receives is a function of the records.
	Trace func(Trace)
}

// Fit releases the minimizer of p under the budget b, as OPDisc.Fit does.
func (m *Product) Fit(ctx context.Context, p *Problem, b dp.Budget, src rand.Source) (*dp.Release, error) {
	return fit(ctx, m.Plan, p, b, src)
}

// Plan calibrates for p as OPDisc.Plan does.
func (m *Product) Plan(p *Problem, b dp.Budget) (*Plan, error) {
	m = cmp.Or(m, new(Product))
	return calibrated(m.Calibrate, p, b, m.Range, 0)
}

// Calibrate returns the noise for the public quantities q, s = 2R, or R under AddRemove: KNorm has
// P(η) ∝ e^{−gauge(η)/t}, t = s/ε, gauge(η) = max_j Σ_k (η_jk − min_k η_jk), and OneSided
// independent geometric variables with t = s·m/ε, m the number of coordinates with a choice. Both
// are pure; a δ in the budget is not used. Proofs: docs/theory/discrete.md#objpert.knorm/2 and
// docs/theory/discrete.md#objpert.onesided/2
//
// Errors are those of OPDisc.Calibrate.
func (m *Product) Calibrate(q Public) (*Plan, error) {
	m = cmp.Or(m, new(Product))
	p, b, err := common{relation: m.Relation, oracle: m.Oracle, beta: m.Failure, trace: m.Trace, law: m.Law}.startProduct(q)
	if err != nil {
		return nil, err
	}
	p.params.Shift = swing(p.params.Relation) * q.Range
	return p.product(b, theoremKNorm, theoremOneSided)
}

// startProduct is start for a mechanism that ends in product.
func (c common) startProduct(q Public) (*Plan, dp.Budget, error) {
	c.laws, c.names = []Law{KNorm, OneSided}, "KNorm or OneSided"
	return c.start(q)
}

// product completes a plan with integer noise for each value of each coordinate.
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
		q.Time = least // more noise than ε asks for: kNorm accepts often, and its tail is that of what it proposes but for a factor 2³
		q.Scale = float64(q.Time) * unit
	}
	q.ExcessBound = q.Scale*float64(m+1)*spread + unit*float64(m)
	return pl.finish(knorm, q.Scale*gammaTail(m+1, x)*float64(max(1, free)))
}

// maxNoises keeps sums of exact draws inside 64 bits.
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

// spreadProduct writes it into the table.
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

// oneSided draws independent geometric variables; a coordinate without a choice
// gets 0.
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

// kNorm draws integer tables with P ∝ e^{−gauge/t}, where tables whose rows differ by constants are
// one point and gauge(η) = max_j Σ_k (η_jk − min_k η_jk), in the form with min_k η_jk = 0, exactly:
// with the first 0 of row j at k_j and v_j entries,
//
//	P(N, k₁, …, k_d) ∝ e^{−N/t} Π_j Π_{i<v_j} (N − k_j + i),   i = 1, …, v_j − 1,
//
// then uniform rows of sum at most N. N is proposed as a sum of m+1 geometric variables, m = Σ (v_j
// − 1), and accepted with probability above 1/6 for t > 2m + 1. Proof:
// docs/theory/discrete.md#discrete.gauge
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

// accepted draws the k_j and reports whether the proposal (n, k) is taken.
func accepted(n uint64, zero, choices []int, src rand.Source) bool {
	i := uint64(0) // runs through 1, …, m
	for j, v := range choices {
		zero[j] = int(noise.Below(uint64(v), src))
		for l := uint64(1); l < uint64(v); l++ {
			i++
			// factor (n − k_j + l)/(n + i), no more than 1
			if k := uint64(zero[j]); n+l <= k || noise.Below(n+i, src) >= n+l-k {
				return false
			}
		}
	}
	return true
}

// simplexPoint fills row uniformly with non-negative integers of which the first
// 0 is at place zero and the sum at most n ≥ zero.
func simplexPoint(row []int64, zero int, n uint64, src rand.Source) {
	// v−1 parts with a sum of at most r = n − zero are the gaps of a subset of
	// v−1 of the numbers 1, …, r+v−1, drawn by Floyd's method.
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
		if k < zero { // must be positive; their 1 was set aside in r
			row[k]++
		}
		last = set[i]
		i++
	}
	clear(set)
}
