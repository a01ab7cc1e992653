// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package objpert

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/noise"
)

// RSPM is the report-separator-perturbed-minimum mechanism [NRW19]: it perturbs the loss by
// weighted examples,
//
//	w = argmin over W of L(w) + Σᵢ ηᵢ bᵢ(w),   bᵢ(w) = 1[⟨eᵢ, w⟩ > 0]
//
// with one noise variable for each of m examples, the separators, that are public and on which any
// two points of W predict differently at least once:
//
//	{−1,+1}ᵈ        e_j                                         m = d
//	an intercept    (e_j, −t), t < max V_j: fires iff w_j > t   m = Σ_j (|V_j| − 1)
//	{−1,0,1}ᵈ       ±e_j                                        m = 2d
//
// An intercept is a coordinate that admits 1 alone. Other spaces have no separator, because w and
// 2w are the same classifier; [Product] has no such restriction. RSPM has the fields of [Product];
// its laws are Laplace (the default, pure), Gaussian and PaperSigma.
type RSPM Product

// Fit releases the minimizer of p under the budget b, as [OPDisc.Fit] does.
func (m *RSPM) Fit(ctx context.Context, p *Problem, b dp.Budget, src rand.Source) (*dp.Release, error) {
	return fit(ctx, m.Plan, p, b, src)
}

// Plan returns the noise for p under the budget b, s = 2R, or R under AddRemove:
//
//	Laplace     scale ms/ε: ε pure, a δ in the budget is not used
//	Gaussian    the least σ with inf over t of (2Φ(t)e^{t²/2})ᵐ e^{−t x₀} a/(a+t) ≤ δ,
//	            a = s/σ, x₀ = ε/a − ma/2
//	PaperSigma  7√(m ln(1/δ))/ε, certified at the least ε for which the same holds
//
// Proofs: docs/theory/discrete.md#objpert.rspm-laplace/2 and the two theorems after it. Errors are
// as in [OPDisc.Plan], and wrap [dp.ErrCondition] if the space has no separator.
func (m *RSPM) Plan(p *Problem, b dp.Budget) (*Plan, error) {
	settings := Product(*cmp.Or(m, new(RSPM)))
	pl, b, err := start(p, b, settings, 0, "Laplace, Gaussian or PaperSigma", Laplace, Gaussian, PaperSigma)
	if err != nil {
		return nil, err
	}
	c := &pl.params
	if pl.separator, c.Noises, err = separate(&c.Space, c.Dim); err != nil {
		return nil, err
	}
	if c.Noises > maxNoises {
		return nil, fmt.Errorf("%w: %d separators, want at most %d", ErrMechanism, c.Noises, maxNoises)
	}
	c.Shift = swing(c.Relation) * c.Range
	n := float64(c.Noises)
	if c.Law == Laplace {
		if err := pl.setGrid(max(1, c.Noises), b.Epsilon); err != nil {
			return nil, err
		}
		pl.pure()
		unit := math.Ldexp(1, c.Exponent)
		c.ExcessBound = c.Scale*n + unit*n // E|η| ≤ Scale + a step
		// P(|k| ≥ i) ≤ e^{1/2t}e^{−i/t}: the sum has at most e^{m/2t} times the tail of t·Gamma(m)
		return pl.finish(theoremRSPMLaplace, c.Scale*gammaTail(c.Noises, pl.tail(b)+n/(2*float64(c.Time))))
	}
	b.Delta *= 1 - rareShare
	logDelta := func(eps, a float64) float64 { return l1LogDelta(eps, a, c.Noises) }
	theorem, published := theoremRSPMGaussian, paperSigma(b, math.Sqrt(n))
	shift, spent := c.Shift, b
	if c.Law == PaperSigma {
		theorem = theoremRSPMSigma
		spent = provedBudget(logDelta, (shift+1)/published, b) // Shift < shift + 1, as steps are 1 at most
	}
	// P(‖g‖₁ > m + √(2mx)) ≤ e^{−x} for standard normal g, and rounding adds half a step to each
	norm := n + math.Sqrt(2*n*pl.tail(spent))
	reach := func() float64 { return c.Scale*norm + n*math.Ldexp(1, c.Exponent-1) }
	for c.Exponent = -maxShift; ; c.Exponent++ { // the finest grid on which the noise stays within Limit
		g := math.Ldexp(1, c.Exponent)
		c.Shift = math.Ceil(shift/g) * g // shifts are multiples of g
		if c.Scale = published; c.Law == Gaussian {
			c.Scale = sigmaFor(logDelta, b, c.Shift)
		}
		if c.Exponent == 0 || reach()*(1+0x1p-20) < math.Ldexp(float64(c.Limit), c.Exponent) {
			break
		}
	}
	if err := pl.prove(logDelta, b, c.Law == PaperSigma); err != nil {
		return nil, err
	}
	// E max over v, w of Σ ηᵢ (bᵢ(v) − bᵢ(w)) ≤ E‖η‖₁
	c.ExcessBound = c.Scale*n*math.Sqrt(2/math.Pi) + n*math.Ldexp(1, c.Exponent-1)
	return pl.finish(theorem, reach())
}

// separator is a kind of separators, see RSPM.
type separator int

const (
	none separator = iota // another mechanism
	unitVectors
	signedUnitVectors
	thresholds
)

// separate returns the smallest kind of separators for a space, and their number m.
func separate(s *Space, d int) (kind separator, m int, err error) {
	intercept, ternary := false, true
	for j, n := range s.choices(d) {
		for k, v := range s.Values {
			if s.allowed(j, k) {
				intercept = intercept || n == 1 && v == 1
				ternary = ternary && v >= -1 && v <= 1
			}
		}
		m += n - 1
	}
	switch {
	case s.isCube(d):
		return unitVectors, d, nil
	case intercept:
		return thresholds, m, nil
	case ternary:
		return signedUnitVectors, 2 * d, nil
	}
	return none, 0, fmt.Errorf("objpert: %w: RSPM separates subsets of {-1,0,1}^d only, because w and 2w are one "+
		"classifier without an intercept, a coordinate that admits 1 alone (Allowed); Product has no such restriction",
		dp.ErrCondition)
}

// drawSeparators draws a noise value for each separator.
func (pl *Plan) drawSeparators(src rand.Source) []int64 {
	q := &pl.params
	eta := make([]int64, q.Noises)
	if q.Law != Laplace {
		noise.Grid(eta, q.Scale, q.Exponent, src)
		return eta
	}
	for i := range eta {
		eta[i] = noise.DiscreteLaplace(q.Time, src)
	}
	return eta
}

// spreadSeparators fills the tables: T_j[v] = −Σᵢ ηᵢ over the separators of coordinate j that fire
// at w_j = v.
func (pl *Plan) spreadSeparators(n *perturbation, eta []int64) {
	q := &pl.params
	at := func(i int) int64 { return times(eta[i], -1) }
	next := 0
	for j, row := range n.table {
		sum, first := int64(0), true
		for k, v := range q.Values {
			switch {
			case pl.separator == unitVectors && v > 0:
				row[k] = at(j)
			case pl.separator == signedUnitVectors && v > 0:
				row[k] = at(2 * j)
			case pl.separator == signedUnitVectors && v < 0:
				row[k] = at(2*j + 1)
			case pl.separator == thresholds && q.allowed(j, k):
				if !first { // the threshold at the previous admitted value fires
					sum = plus(sum, at(next))
					next++
				}
				row[k], first = sum, false
			}
		}
	}
}
